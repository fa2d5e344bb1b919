/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/kinesis/records.h"

#include "adapters/kinesis/builder.h"
#include "aws/cbor.h"
#include "base/codec.h"

#include <assert.h>

/* Names and shortest values of Data, PartitionKey and SequenceNumber, and the head of the map. */
enum { RECORD_BYTES_MIN = 36 };

/* The name of a pair whose value is not null; pairs that are null are passed over. */
static ks_err next_pair(ks_view *view, struct ks_cbor_container *map, struct ks_cbor_string *name,
                        bool *ret_more)
{
    do {
        KS_TRY(ks_cbor_more(view, map, ret_more));
        if (!*ret_more)
            return KS_OK;
        KS_TRY(ks_cbor_text(view, name));
    } while (ks_cbor_null(view));
    return KS_OK;
}

static ks_err keep(struct ks_builder *builder, const struct ks_cbor_string *string, ks_view *ret)
{
    uint8_t *room = ks_builder_room(builder, string->size);

    if (room == NULL)
        return KS_FAIL(MALFORMED);
    ks_cbor_string_copy(string, room);
    *ret = ks_builder_took(builder, string->size);
    return KS_OK;
}

static ks_err take_key(ks_view *view, struct ks_builder *builder, ks_view *ret_key)
{
    struct ks_cbor_string text;

    KS_TRY(ks_cbor_text(view, &text));
    if (text.size > KS_PARTITION_KEY_MAX)
        return KS_FAIL(MALFORMED);
    return keep(builder, &text, ret_key);
}

static ks_err take_sequence(ks_view *view, struct ks_builder *builder, ks_view *ret_sequence)
{
    struct ks_cbor_string text;

    KS_TRY(ks_cbor_text(view, &text));
    KS_TRY(keep(builder, &text, ret_sequence));
    return ks_sequence_is_valid(*ret_sequence) ? KS_OK : KS_FAIL(MALFORMED);
}

/* Base64 in chunks: allowed, and not seen anywhere. */
static ks_err decode_chunked(const struct ks_cbor_string *text, uint8_t *room, size_t *ret_size)
{
    uint8_t *plain = ks_alloc(text->size);

    if (plain == NULL)
        return KS_FAIL(NO_MEMORY);
    ks_cbor_string_copy(text, plain);
    ks_err err = ks_base64_decode(ks_view_of(plain, text->size), room, ret_size);
    ks_free(plain);
    return err;
}

/* Bytes, as AWS sends them, or base64 in a text, as emulators do. */
static ks_err take_data(ks_view *view, struct ks_builder *builder, ks_view *ret_data)
{
    struct ks_cbor_string string;
    enum ks_cbor_type type;
    size_t size = 0;

    KS_TRY(ks_cbor_peek(*view, &type));
    if (type == KS_CBOR_BYTES) {
        KS_TRY(ks_cbor_bytes(view, &string));
        return keep(builder, &string, ret_data);
    }
    KS_TRY(ks_cbor_text(view, &string));
    uint8_t *room = ks_builder_room(builder, ks_base64_decoded_max(string.size));
    if (room == NULL)
        return KS_FAIL(MALFORMED);
    if (string.chunked)
        KS_TRY(decode_chunked(&string, room, &size));
    else
        KS_TRY(ks_base64_decode(string.bytes, room, &size));
    *ret_data = ks_builder_took(builder, size);
    return KS_OK;
}

static ks_err take_record(ks_view *view, struct ks_builder *builder)
{
    struct ks_record record = {.sub_sequence = -1};
    struct ks_cbor_container map;
    struct ks_cbor_string name;
    bool more = true;

    KS_TRY(ks_cbor_map(view, &map));
    for (;;) {
        KS_TRY(next_pair(view, &map, &name, &more));
        if (!more)
            break;
        if (ks_cbor_string_is(&name, "Data"))
            KS_TRY(take_data(view, builder, &record.data));
        else if (ks_cbor_string_is(&name, "PartitionKey"))
            KS_TRY(take_key(view, builder, &record.partition_key));
        else if (ks_cbor_string_is(&name, "SequenceNumber"))
            KS_TRY(take_sequence(view, builder, &record.sequence));
        else if (ks_cbor_string_is(&name, "ApproximateArrivalTimestamp"))
            KS_TRY(ks_cbor_unix_ms(view, &record.arrival_ms));
        else
            KS_TRY(ks_cbor_skip(view));
    }
    if (record.data.data == NULL || record.partition_key.data == NULL ||
        record.sequence.data == NULL)
        return KS_FAIL(MALFORMED);
    return ks_builder_add(builder, &record);
}

static ks_err take_records(ks_view *view, struct ks_builder *builder)
{
    struct ks_cbor_container array;
    bool more = true;

    KS_TRY(ks_cbor_array(view, &array));
    for (;;) {
        KS_TRY(ks_cbor_more(view, &array, &more));
        if (!more)
            return KS_OK;
        KS_TRY(take_record(view, builder));
    }
}

/* A text as a C string; too long or with a NUL is malformed. */
static ks_err take_text(ks_view *view, char *buffer, size_t capacity)
{
    struct ks_cbor_string text;

    KS_TRY(ks_cbor_text(view, &text));
    return ks_ok(ks_cbor_string_copy_text(&text, buffer, capacity)) ? KS_OK : KS_FAIL(MALFORMED);
}

/* The ShardId of one child. */
static ks_err take_child(ks_view *view, char child[KS_SHARD_ID_MAX + 1])
{
    struct ks_cbor_container map;
    struct ks_cbor_string name;
    bool more = true;

    KS_TRY(ks_cbor_map(view, &map));
    for (;;) {
        KS_TRY(next_pair(view, &map, &name, &more));
        if (!more)
            return KS_OK;
        if (ks_cbor_string_is(&name, "ShardId"))
            KS_TRY(take_text(view, child, KS_SHARD_ID_MAX + 1));
        else
            KS_TRY(ks_cbor_skip(view));
    }
}

static ks_err take_children(ks_view *view, struct ks_batch *batch)
{
    struct ks_cbor_container array;
    bool more = true;

    KS_TRY(ks_cbor_array(view, &array));
    for (uint32_t at = 0;; at++) {
        KS_TRY(ks_cbor_more(view, &array, &more));
        if (!more)
            return KS_OK;
        if (at < KS_CHILDREN_MAX)
            KS_TRY(take_child(view, batch->children[at]));
        else
            KS_TRY(ks_cbor_skip(view));
    }
}

static ks_err take_answer(ks_view view, struct ks_builder *builder, struct ks_records *records)
{
    struct ks_cbor_container map;
    struct ks_cbor_string name;
    bool more = true;
    bool has_records = false;

    KS_TRY(ks_cbor_map(&view, &map));
    for (;;) {
        KS_TRY(next_pair(&view, &map, &name, &more));
        if (!more)
            break;
        if (ks_cbor_string_is(&name, "Records")) {
            if (has_records)
                return KS_FAIL(MALFORMED);
            KS_TRY(take_records(&view, builder));
            has_records = true;
        } else if (ks_cbor_string_is(&name, "NextShardIterator")) {
            KS_TRY(take_text(&view, records->iterator, sizeof(records->iterator)));
        } else if (ks_cbor_string_is(&name, "MillisBehindLatest")) {
            KS_TRY(ks_cbor_i64(&view, &records->batch.millis_behind));
        } else if (ks_cbor_string_is(&name, "ChildShards")) {
            KS_TRY(take_children(&view, &records->batch));
        } else {
            KS_TRY(ks_cbor_skip(&view));
        }
    }
    return has_records && view.size == 0 ? KS_OK : KS_FAIL(MALFORMED);
}

ks_err ks_records_cbor(ks_view body, uint32_t records_max, struct ks_budget *budget,
                       struct ks_records *ret_records)
{
    struct ks_builder builder;
    struct ks_records records = {.batch = {.millis_behind = -1}};
    size_t possible = body.size / RECORD_BYTES_MIN + 1;

    assert(records_max <= KS_READ_RECORDS_MAX);
    if (possible < records_max)
        records_max = (uint32_t)possible;
    KS_TRY(ks_builder_begin(&builder, budget, body.size, records_max));
    ks_err err = take_answer(body, &builder, &records);
    if (!ks_ok(err)) {
        ks_builder_abandon(&builder);
        return err;
    }
    ks_builder_finish(&builder, &records.batch);
    records.batch.at_end = records.iterator[0] == '\0';
    *ret_records = records;
    return KS_OK;
}
