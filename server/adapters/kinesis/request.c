/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/kinesis/request.h"

#include "aws/cbor.h"

#include <assert.h>

bool ks_is_arn(const char *stream)
{
    return ks_view_starts(ks_view_text(stream), KS_VIEW("arn:"));
}

void ks_request_put_stream(struct ks_writer *json, const char *stream)
{
    ks_writer_pair(json, ks_is_arn(stream) ? "StreamARN" : "StreamName", ks_view_text(stream));
}

ks_err ks_request_describe(struct ks_bytes *body, const char *stream)
{
    struct ks_writer json;

    ks_writer_begin_strict(&json, body);
    ks_writer_open(&json, '{');
    ks_request_put_stream(&json, stream);
    ks_writer_close(&json, '}');
    return ks_writer_end(&json);
}

static void put_position(struct ks_writer *json, const struct ks_position *position)
{
    const char *type = NULL;
    bool by_sequence = false;

    switch (position->kind) {
    case KS_POSITION_TRIM_HORIZON: type = "TRIM_HORIZON"; break;
    case KS_POSITION_LATEST: type = "LATEST"; break;
    case KS_POSITION_AT_TIMESTAMP: type = "AT_TIMESTAMP"; break;
    case KS_POSITION_AFTER_SEQUENCE:
        type = position->sub_sequence < 0 ? "AFTER_SEQUENCE_NUMBER" : "AT_SEQUENCE_NUMBER";
        by_sequence = true;
        break;
    case KS_POSITION_AT_SEQUENCE:
        type = "AT_SEQUENCE_NUMBER";
        by_sequence = true;
        break;
    case KS_POSITION_SHARD_END: break;
    }
    assert(type != NULL);
    ks_writer_pair(json, "ShardIteratorType", ks_view_text(type));
    if (by_sequence)
        ks_writer_pair(json, "StartingSequenceNumber", ks_view_text(position->sequence));
    if (position->kind == KS_POSITION_AT_TIMESTAMP) {
        ks_writer_key(json, "Timestamp");
        ks_writer_unix_ms(json, position->timestamp_ms);
    }
}

ks_err ks_request_iterator(struct ks_bytes *body, const char *stream, const char *shard,
                           const struct ks_position *position)
{
    struct ks_writer json;

    ks_writer_begin_strict(&json, body);
    ks_writer_open(&json, '{');
    ks_request_put_stream(&json, stream);
    ks_writer_pair(&json, "ShardId", ks_view_text(shard));
    put_position(&json, position);
    ks_writer_close(&json, '}');
    return ks_writer_end(&json);
}

ks_err ks_request_records(struct ks_bytes *body, const char *stream, const char *iterator,
                          uint32_t limit, bool cbor)
{
    bool arn = ks_is_arn(stream);
    struct ks_writer json;

    if (cbor) {
        KS_TRY(ks_cbor_put_map(body, arn ? 3 : 2));
        if (arn) {
            KS_TRY(ks_cbor_put_text(body, KS_VIEW("StreamARN")));
            KS_TRY(ks_cbor_put_text(body, ks_view_text(stream)));
        }
        KS_TRY(ks_cbor_put_text(body, KS_VIEW("ShardIterator")));
        KS_TRY(ks_cbor_put_text(body, ks_view_text(iterator)));
        KS_TRY(ks_cbor_put_text(body, KS_VIEW("Limit")));
        return ks_cbor_put_i64(body, limit);
    }
    ks_writer_begin_strict(&json, body);
    ks_writer_open(&json, '{');
    if (arn)
        ks_request_put_stream(&json, stream);
    ks_writer_pair(&json, "ShardIterator", ks_view_text(iterator));
    ks_writer_key(&json, "Limit");
    ks_writer_u64(&json, limit);
    ks_writer_close(&json, '}');
    return ks_writer_end(&json);
}
