/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/sinks/protocol.h"

#include <stdio.h>

enum { ENTRIES_MAX = 10 };

static ks_err begin(struct ks_sink_request *request, const struct ks_sink_target *target)
{
    request->fifo = target->fifo;
    return ks_sink_json_begin(request, "QueueUrl", ks_view_text(target->name), "Entries");
}

static void put_attributes(struct ks_writer *json, const struct ks_sink_attributes *attributes)
{
    ks_writer_key(json, "MessageAttributes");
    ks_writer_open(json, '{');
    for (uint32_t at = 0; at < attributes->count; at++) {
        const struct ks_sink_attribute *const item = &attributes->items[at];

        ks_writer_key(json, item->name);
        ks_writer_open(json, '{');
        ks_writer_pair(json, "DataType", ks_view_text(item->type));
        ks_writer_pair(json, "StringValue", item->value);
        ks_writer_close(json, '}');
    }
    ks_writer_close(json, '}');
}

static ks_err add(struct ks_sink_request *request, uint32_t index,
                  const struct ks_sink_entry *entry)
{
    struct ks_writer *const json = &request->json;
    char group[KS_SINK_ID_MAX + 1];
    char deduplication[KS_SINK_HASH_SIZE];
    char id[12];

    (void)snprintf(id, sizeof(id), "%u", index);
    ks_writer_open(json, '{');
    ks_writer_pair(json, "Id", ks_view_text(id));
    ks_writer_pair(json, "MessageBody", entry->document);
    put_attributes(json, entry->attributes);
    if (request->fifo) {
        ks_sink_group(entry->letter->letter->partition_key, group);
        ks_sink_deduplication(entry->letter, deduplication);
        ks_writer_pair(json, "MessageGroupId", ks_view_text(group));
        ks_writer_pair(json, "MessageDeduplicationId", ks_view_text(deduplication));
    }
    ks_writer_close(json, '}');
    return json->err;
}

static ks_err read_document(const struct ks_json *document, uint32_t count,
                            struct ks_sink_result *results)
{
    const struct ks_json *const taken = ks_json_member(document, "Successful");
    const struct ks_json *const failed = ks_json_member(document, "Failed");

    if (!ks_json_is_object(document))
        return KS_FAIL(MALFORMED);
    for (size_t at = 0; at < ks_json_count(failed); at++) {
        const struct ks_json *const item = ks_json_item(failed, at);
        const uint32_t index = ks_sink_index(ks_sink_json_text(item, "Id"), count);

        if (index < count)
            ks_sink_failed(&results[index], ks_sink_json_text(item, "Code"),
                           ks_sink_json_text(item, "Message"));
    }
    for (size_t at = 0; at < ks_json_count(taken); at++) {
        const struct ks_json *const item = ks_json_item(taken, at);
        const uint32_t index = ks_sink_index(ks_sink_json_text(item, "Id"), count);

        if (index < count && ks_sink_json_text(item, "MessageId").size > 0)
            ks_sink_taken(&results[index]);
    }
    return KS_OK;
}

static ks_err read_answer(ks_view body, uint32_t count, struct ks_sink_result *results)
{
    struct ks_json *document = NULL;
    ks_err err;

    ks_sink_results_begin(results, count);
    KS_TRY(ks_json_parse(body, &document));
    err = read_document(document, count, results);
    ks_json_free(document);
    return err;
}

const struct ks_sink_protocol ks_sink_sqs = {
    .service = KS_AWS_SQS,
    .operation = "SendMessageBatch",
    .permission = "sqs:SendMessage",
    .noun = "queue",
    .entries_max = ENTRIES_MAX,
    .bytes_max = KS_SINK_SQS_BYTES_MAX,
    .begin = begin,
    .add = add,
    .end = ks_sink_json_end,
    .read = read_answer,
};
