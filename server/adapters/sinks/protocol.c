/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/sinks/protocol.h"

#include <assert.h>

const struct ks_sink_protocol *ks_sink_protocol_of(enum ks_sink_kind kind)
{
    switch (kind) {
    case KS_SINK_SQS: return &ks_sink_sqs;
    case KS_SINK_SNS: return &ks_sink_sns;
    case KS_SINK_KINESIS: return &ks_sink_kinesis;
    }
    assert(false);
    return NULL;
}

ks_err ks_sink_json_begin(struct ks_sink_request *request, const char *name, ks_view destination,
                          const char *entries)
{
    ks_bytes_clear(&request->body);
    ks_writer_begin(&request->json, &request->body);
    ks_writer_open(&request->json, '{');
    ks_writer_pair(&request->json, name, destination);
    ks_writer_key(&request->json, entries);
    ks_writer_open(&request->json, '[');
    return request->json.err;
}

ks_err ks_sink_json_end(struct ks_sink_request *request)
{
    ks_writer_close(&request->json, ']');
    ks_writer_close(&request->json, '}');
    return ks_writer_end(&request->json);
}

ks_view ks_sink_json_text(const struct ks_json *object, const char *name)
{
    ks_view text = KS_VIEW("");

    return ks_ok(ks_json_text(ks_json_member(object, name), &text)) ? text : KS_VIEW("");
}

uint32_t ks_sink_index(ks_view id, uint32_t count)
{
    uint64_t index = count;

    return ks_ok(ks_view_u64(id, &index)) && index < count ? (uint32_t)index : count;
}

void ks_sink_results_begin(struct ks_sink_result *results, uint32_t count)
{
    for (uint32_t at = 0; at < count; at++)
        results[at] = (struct ks_sink_result){.err = KS_OK};
}

void ks_sink_taken(struct ks_sink_result *result)
{
    result->taken = ks_ok(result->err);
}

void ks_sink_failed(struct ks_sink_result *result, ks_view code, ks_view message)
{
    struct ks_failure failure;

    ks_failure_from(400, code, message, &failure);
    result->taken = false;
    result->err = failure.err;
    ks_detail_set(&result->detail, "%s%s%s",
                  failure.code[0] == '\0' ? "an entry failed" : failure.code,
                  failure.message[0] == '\0' ? "" : ": ", failure.message);
}
