/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/sinks/protocol.h"
#include "aws/xml.h"

#include <stdio.h>

enum { ENTRIES_MAX = 10, PREFIX_SIZE = 64, TEXT_SIZE = 512 };

/* ---- The form (AWS Query: lists as NAME.member.N, maps as NAME.entry.N, from 1) ---- */

static ks_err append_encoded(struct ks_bytes *body, ks_view value)
{
    static const char digits[] = "0123456789ABCDEF";

    KS_TRY(ks_bytes_reserve(body, 3 * value.size));
    for (size_t at = 0; at < value.size; at++) {
        const uint8_t byte = value.data[at];
        const bool plain = (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z') ||
                           (byte >= '0' && byte <= '9') || byte == '-' || byte == '.' ||
                           byte == '_' || byte == '~';
        const uint8_t coded[3] = {'%', (uint8_t)digits[byte >> 4], (uint8_t)digits[byte & 15]};

        KS_TRY(
            ks_bytes_append(body, plain ? ks_view_of(&byte, 1) : ks_view_of(coded, sizeof(coded))));
    }
    return KS_OK;
}

static ks_err append_field(struct ks_bytes *body, const char *prefix, const char *name,
                           ks_view value)
{
    KS_TRY(ks_bytes_format(body, "&%s%s=", prefix, name));
    return append_encoded(body, value);
}

static ks_err begin(struct ks_sink_request *request, const struct ks_sink_target *target)
{
    ks_bytes_clear(&request->body);
    request->fifo = target->fifo;
    KS_TRY(ks_bytes_format(&request->body, "Action=PublishBatch&Version=2010-03-31"));
    return append_field(&request->body, "", "TopicArn", ks_view_text(target->name));
}

static ks_err add_attributes(struct ks_bytes *body, const char *entry,
                             const struct ks_sink_attributes *attributes)
{
    char prefix[2 * PREFIX_SIZE];

    for (uint32_t at = 0; at < attributes->count; at++) {
        const struct ks_sink_attribute *const item = &attributes->items[at];

        (void)snprintf(prefix, sizeof(prefix), "%sMessageAttributes.entry.%u.", entry, at + 1);
        KS_TRY(append_field(body, prefix, "Name", ks_view_text(item->name)));
        KS_TRY(append_field(body, prefix, "Value.DataType", ks_view_text(item->type)));
        KS_TRY(append_field(body, prefix, "Value.StringValue", item->value));
    }
    return KS_OK;
}

static ks_err add(struct ks_sink_request *request, uint32_t index,
                  const struct ks_sink_entry *entry)
{
    struct ks_bytes *const body = &request->body;
    char group[KS_SINK_ID_MAX + 1];
    char deduplication[KS_SINK_HASH_SIZE];
    char prefix[PREFIX_SIZE];

    (void)snprintf(prefix, sizeof(prefix), "PublishBatchRequestEntries.member.%u.", index + 1);
    KS_TRY(ks_bytes_format(body, "&%sId=%u", prefix, index));
    KS_TRY(append_field(body, prefix, "Message", entry->document));
    KS_TRY(add_attributes(body, prefix, entry->attributes));
    if (!request->fifo)
        return KS_OK;
    ks_sink_group(entry->letter->letter->partition_key, group);
    ks_sink_deduplication(entry->letter, deduplication);
    KS_TRY(append_field(body, prefix, "MessageGroupId", ks_view_text(group)));
    return append_field(body, prefix, "MessageDeduplicationId", ks_view_text(deduplication));
}

static ks_err end(struct ks_sink_request *request)
{
    (void)request;
    return KS_OK;
}

/* ---- The answer ---- */

/* The text of an element within `xml`, in `buffer`; "" if it has none that can be read. */
static ks_view text_of(ks_view xml, const char *name, char *buffer, size_t capacity)
{
    ks_view content;

    if (!ks_ok(ks_xml_child(xml, name, &content)) || !ks_ok(ks_xml_text(content, buffer, capacity)))
        buffer[0] = '\0';
    return ks_view_text(buffer);
}

static void take(ks_view member, uint32_t count, struct ks_sink_result *results)
{
    char id[TEXT_SIZE];
    char message_id[TEXT_SIZE];
    const uint32_t index = ks_sink_index(text_of(member, "Id", id, sizeof(id)), count);

    if (index < count && text_of(member, "MessageId", message_id, sizeof(message_id)).size > 0)
        ks_sink_taken(&results[index]);
}

static void fail(ks_view member, uint32_t count, struct ks_sink_result *results)
{
    char id[TEXT_SIZE];
    char code[TEXT_SIZE];
    char message[TEXT_SIZE];
    const uint32_t index = ks_sink_index(text_of(member, "Id", id, sizeof(id)), count);

    if (index < count)
        ks_sink_failed(&results[index], text_of(member, "Code", code, sizeof(code)),
                       text_of(member, "Message", message, sizeof(message)));
}

/* Walks the members of a list; there may be no list. */
static ks_err read_list(ks_view result, const char *name,
                        void (*member)(ks_view member, uint32_t count,
                                       struct ks_sink_result *results),
                        uint32_t count, struct ks_sink_result *results)
{
    ks_view list;
    ks_view content;
    ks_err err = ks_xml_child(result, name, &list);

    while (ks_ok(err)) {
        err = ks_xml_next(&list, "member", &content);
        if (ks_ok(err))
            member(content, count, results);
    }
    return ks_err_is(err, KS_ERR_NOT_FOUND) ? KS_OK : err;
}

static ks_err read_answer(ks_view body, uint32_t count, struct ks_sink_result *results)
{
    ks_view xml;

    ks_sink_results_begin(results, count);
    if (!ks_ok(ks_xml_child(body, "PublishBatchResponse", &xml)) ||
        !ks_ok(ks_xml_child(xml, "PublishBatchResult", &xml)))
        return KS_FAIL(MALFORMED);
    KS_TRY(read_list(xml, "Failed", fail, count, results));
    return read_list(xml, "Successful", take, count, results);
}

const struct ks_sink_protocol ks_sink_sns = {
    .service = KS_AWS_SNS,
    .operation = "PublishBatch",
    .permission = "sns:Publish",
    .noun = "topic",
    .entries_max = ENTRIES_MAX,
    .bytes_max = KS_SINK_SNS_BYTES_MAX,
    .begin = begin,
    .add = add,
    .end = end,
    .read = read_answer,
};
