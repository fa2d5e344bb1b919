/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/sinks/protocol.h"

static ks_err begin(struct ks_sink_request *request, const struct ks_sink_target *target)
{
    const ks_view name = ks_view_text(target->name);

    return ks_sink_json_begin(request,
                              ks_view_starts(name, KS_VIEW("arn:")) ? "StreamARN" : "StreamName",
                              name, "Records");
}

/* A record without a partition key cannot be put: the id stands in for one that a damaged record has not. */
static ks_err add(struct ks_sink_request *request, uint32_t index,
                  const struct ks_sink_entry *entry)
{
    struct ks_writer *const json = &request->json;
    const struct ks_letter *const letter = entry->letter->letter;

    (void)index;
    ks_writer_open(json, '{');
    ks_writer_key(json, "Data");
    ks_writer_base64(json, entry->document);
    ks_writer_pair(json, "PartitionKey",
                   letter->partition_key.size > 0 ? letter->partition_key : letter->id);
    ks_writer_close(json, '}');
    return json->err;
}

static void read_record(const struct ks_json *record, struct ks_sink_result *result)
{
    ks_view code;

    if (ks_ok(ks_json_text(ks_json_member(record, "ErrorCode"), &code)))
        ks_sink_failed(result, code, ks_sink_json_text(record, "ErrorMessage"));
    else if (ks_sink_json_text(record, "SequenceNumber").size > 0)
        ks_sink_taken(result);
}

/* Answers stand in the order of the records: with another number of them none can be told from another. */
static ks_err read_answer(ks_view body, uint32_t count, struct ks_sink_result *results)
{
    struct ks_json *document = NULL;
    const struct ks_json *records;
    bool matches;

    ks_sink_results_begin(results, count);
    KS_TRY(ks_json_parse(body, &document));
    records = ks_json_member(document, "Records");
    matches = ks_json_is_array(records) && ks_json_count(records) == count;
    for (uint32_t at = 0; matches && at < count; at++)
        read_record(ks_json_item(records, at), &results[at]);
    ks_json_free(document);
    return matches ? KS_OK : KS_FAIL(MALFORMED);
}

const struct ks_sink_protocol ks_sink_kinesis = {
    .service = KS_AWS_KINESIS,
    .operation = "PutRecords",
    .permission = "kinesis:PutRecords",
    .noun = "stream",
    .entries_max = KS_SINK_ENTRIES_MAX,
    .bytes_max = KS_SINK_KINESIS_BYTES_MAX,
    .begin = begin,
    .add = add,
    .end = ks_sink_json_end,
    .read = read_answer,
};
