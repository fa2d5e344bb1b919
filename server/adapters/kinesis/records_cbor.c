/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/kinesis/records.h"

#include "adapters/kinesis/builder.h"
#include "aws/cbor.h"
#include "base/codec.h"

/* Has each item of an array taken by `item`. */
static ks_err take_array(ks_view *view, ks_err (*item)(ks_view *view, void *into), void *into)
{
    struct ks_cbor_container array;
    bool more = true;

    KS_TRY(ks_cbor_array(view, &array));
    for (;;) {
        KS_TRY(ks_cbor_more(view, &array, &more));
        if (!more)
            return KS_OK;
        KS_TRY(item(view, into));
    }
}

/* Has the value of each pair of a map taken by `pair`; pairs that are null are passed over. */
static ks_err take_map(ks_view *view,
                       ks_err (*pair)(ks_view *view, const struct ks_cbor_string *name, void *into),
                       void *into)
{
    struct ks_cbor_container map;
    struct ks_cbor_string name;
    bool more = true;

    KS_TRY(ks_cbor_map(view, &map));
    for (;;) {
        KS_TRY(ks_cbor_more(view, &map, &more));
        if (!more)
            return KS_OK;
        KS_TRY(ks_cbor_text(view, &name));
        if (!ks_cbor_null(view))
            KS_TRY(pair(view, &name, into));
    }
}

/* A string of one piece, or of many that move together. */
static ks_view keep(struct ks_builder *builder, const struct ks_cbor_string *string)
{
    if (!string->chunked)
        return ks_builder_keep(builder, string->bytes);
    ks_cbor_string_copy(string, ks_builder_room(builder));
    return ks_builder_took(builder, string->size);
}

static ks_err take_key(ks_view *view, struct ks_builder *builder, ks_view *ret_key)
{
    struct ks_cbor_string text;

    KS_TRY(ks_cbor_text(view, &text));
    if (text.size > KS_PARTITION_KEY_MAX)
        return KS_FAIL(MALFORMED);
    *ret_key = keep(builder, &text);
    return KS_OK;
}

static ks_err take_sequence(ks_view *view, struct ks_builder *builder, ks_view *ret_sequence)
{
    struct ks_cbor_string text;

    KS_TRY(ks_cbor_text(view, &text));
    *ret_sequence = keep(builder, &text);
    return ks_sequence_is_valid(*ret_sequence) ? KS_OK : KS_FAIL(MALFORMED);
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
        *ret_data = keep(builder, &string);
        return KS_OK;
    }
    KS_TRY(ks_cbor_text(view, &string));
    ks_view text = string.bytes;
    if (string.chunked) {
        ks_cbor_string_copy(&string, ks_builder_room(builder));
        text = ks_view_of(ks_builder_room(builder), string.size);
    }
    KS_TRY(ks_base64_decode(text, ks_builder_room(builder), &size));
    *ret_data = ks_builder_took(builder, size);
    return KS_OK;
}

/* A text as a C string; too long or with a NUL is malformed. */
static ks_err take_text(ks_view *view, char *buffer, size_t capacity)
{
    struct ks_cbor_string text;

    KS_TRY(ks_cbor_text(view, &text));
    return ks_ok(ks_cbor_string_copy_text(&text, buffer, capacity)) ? KS_OK : KS_FAIL(MALFORMED);
}

/* --- Records --- */

/* A record on its way into the batch. */
struct filling {
    struct ks_builder *builder;
    struct ks_record record;
};

static ks_err take_record_pair(ks_view *view, const struct ks_cbor_string *name, void *into)
{
    struct filling *filling = into;
    struct ks_record *record = &filling->record;

    if (ks_cbor_string_is(name, "Data"))
        return take_data(view, filling->builder, &record->data);
    if (ks_cbor_string_is(name, "PartitionKey"))
        return take_key(view, filling->builder, &record->partition_key);
    if (ks_cbor_string_is(name, "SequenceNumber"))
        return take_sequence(view, filling->builder, &record->sequence);
    if (ks_cbor_string_is(name, "ApproximateArrivalTimestamp"))
        return ks_cbor_unix_ms(view, &record->arrival_ms);
    return ks_cbor_skip(view);
}

static ks_err take_record(ks_view *view, void *into)
{
    struct filling filling = {.builder = into, .record = {.sub_sequence = -1}};

    KS_TRY(take_map(view, take_record_pair, &filling));
    return ks_builder_add(filling.builder, &filling.record);
}

/* --- The answer --- */

struct children {
    struct ks_batch *batch;
    uint32_t count;
};

static ks_err take_child_pair(ks_view *view, const struct ks_cbor_string *name, void *into)
{
    if (ks_cbor_string_is(name, "ShardId"))
        return take_text(view, into, KS_SHARD_ID_MAX + 1);
    return ks_cbor_skip(view);
}

static ks_err take_child(ks_view *view, void *into)
{
    struct children *children = into;

    if (children->count == KS_CHILDREN_MAX)
        return ks_cbor_skip(view);
    return take_map(view, take_child_pair, children->batch->children[children->count++]);
}

struct answer {
    struct ks_builder builder;
    struct ks_records records;
    bool has_records;
};

static ks_err take_continuation(ks_view *view, struct ks_records *records)
{
    char *text = records->continuation;

    KS_TRY(take_text(view, text, sizeof(records->continuation)));
    return ks_sequence_is_valid(ks_view_text(text)) ? KS_OK : KS_FAIL(MALFORMED);
}

static ks_err take_answer_pair(ks_view *view, const struct ks_cbor_string *name, void *into)
{
    struct answer *answer = into;
    struct children children = {.batch = &answer->records.batch};

    if (ks_cbor_string_is(name, "Records")) {
        if (answer->has_records)
            return KS_FAIL(MALFORMED);
        answer->has_records = true;
        return take_array(view, take_record, &answer->builder);
    }
    if (ks_cbor_string_is(name, "NextShardIterator"))
        return take_text(view, answer->records.iterator, sizeof(answer->records.iterator));
    if (ks_cbor_string_is(name, "ContinuationSequenceNumber"))
        return take_continuation(view, &answer->records);
    if (ks_cbor_string_is(name, "MillisBehindLatest"))
        return ks_cbor_i64(view, &answer->records.batch.millis_behind);
    if (ks_cbor_string_is(name, "ChildShards"))
        return take_array(view, take_child, &children);
    return ks_cbor_skip(view);
}

static ks_err take_answer(ks_view view, struct answer *answer)
{
    KS_TRY(take_map(&view, take_answer_pair, answer));
    return answer->has_records && view.size == 0 ? KS_OK : KS_FAIL(MALFORMED);
}

ks_err ks_records_cbor(struct ks_block *block, size_t begin, uint32_t records_max,
                       struct ks_records *ret_records)
{
    struct answer answer = {.records = {.batch = {.millis_behind = -1}}};

    KS_TRY(ks_builder_begin(&answer.builder, block, records_max));
    block = answer.builder.block;
    ks_view body = ks_view_of(block->data + begin, block->size - begin);
    KS_TRY(ks_builder_end(&answer.builder, take_answer(body, &answer), &answer.records.batch));
    answer.records.batch.at_end = answer.records.iterator[0] == '\0';
    *ret_records = answer.records;
    return KS_OK;
}
