/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/kinesis/request.h"

#include "aws/cbor.h"

#include <assert.h>

bool ks_is_arn(const char *stream)
{
    return ks_view_starts(ks_view_text(stream), KS_VIEW("arn:"));
}

bool ks_is_stream(const char *stream)
{
    size_t size = strlen(stream);

    return size > 0 && size <= (ks_is_arn(stream) ? KS_ARN_MAX : KS_STREAM_NAME_MAX);
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

static const char *type_of(const struct ks_position *position)
{
    switch (position->kind) {
    case KS_POSITION_TRIM_HORIZON: return "TRIM_HORIZON";
    case KS_POSITION_LATEST: return "LATEST";
    case KS_POSITION_AT_TIMESTAMP: return "AT_TIMESTAMP";
    case KS_POSITION_AFTER_SEQUENCE:
        return position->sub_sequence < 0 ? "AFTER_SEQUENCE_NUMBER" : "AT_SEQUENCE_NUMBER";
    case KS_POSITION_AT_SEQUENCE: return "AT_SEQUENCE_NUMBER";
    case KS_POSITION_SHARD_END: break;
    }
    assert(false);
    return NULL;
}

static bool by_sequence(const struct ks_position *position)
{
    return position->kind == KS_POSITION_AFTER_SEQUENCE ||
           position->kind == KS_POSITION_AT_SEQUENCE;
}

/* Its members; what a sequence number is called differs. */
static void put_position(struct ks_writer *json, const char *type_name, const char *sequence_name,
                         const struct ks_position *position)
{
    ks_writer_pair(json, type_name, ks_view_text(type_of(position)));
    if (by_sequence(position))
        ks_writer_pair(json, sequence_name, ks_view_text(position->sequence));
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
    put_position(&json, "ShardIteratorType", "StartingSequenceNumber", position);
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

static ks_err put_cbor_pair(struct ks_bytes *body, const char *name, const char *value)
{
    KS_TRY(ks_cbor_put_text(body, ks_view_text(name)));
    return ks_cbor_put_text(body, ks_view_text(value));
}

static ks_err subscribe_cbor(struct ks_bytes *body, const char *consumer, const char *shard,
                             const struct ks_position *position)
{
    bool at_time = position->kind == KS_POSITION_AT_TIMESTAMP;

    KS_TRY(ks_cbor_put_map(body, 3));
    KS_TRY(put_cbor_pair(body, "ConsumerARN", consumer));
    KS_TRY(put_cbor_pair(body, "ShardId", shard));
    KS_TRY(ks_cbor_put_text(body, KS_VIEW("StartingPosition")));
    KS_TRY(ks_cbor_put_map(body, by_sequence(position) || at_time ? 2 : 1));
    KS_TRY(put_cbor_pair(body, "Type", type_of(position)));
    if (by_sequence(position))
        return put_cbor_pair(body, "SequenceNumber", position->sequence);
    if (!at_time)
        return KS_OK;
    KS_TRY(ks_cbor_put_text(body, KS_VIEW("Timestamp")));
    return ks_cbor_put_unix_ms(body, position->timestamp_ms);
}

ks_err ks_request_subscribe(struct ks_bytes *body, const char *consumer, const char *shard,
                            const struct ks_position *position, bool cbor)
{
    struct ks_writer json;

    if (cbor)
        return subscribe_cbor(body, consumer, shard, position);
    ks_writer_begin_strict(&json, body);
    ks_writer_open(&json, '{');
    ks_writer_pair(&json, "ConsumerARN", ks_view_text(consumer));
    ks_writer_pair(&json, "ShardId", ks_view_text(shard));
    ks_writer_key(&json, "StartingPosition");
    ks_writer_open(&json, '{');
    put_position(&json, "Type", "SequenceNumber", position);
    ks_writer_close(&json, '}');
    ks_writer_close(&json, '}');
    return ks_writer_end(&json);
}
