/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/kinesis/builder.h"

#include "adapters/kinesis/aggregate.h"

#include <assert.h>
#include <stdalign.h>

/* In CBOR names and shortest values of Data, PartitionKey and SequenceNumber, and the head of the map; in JSON more. */
enum { RECORD_BYTES_MIN = 36 };
/* A piece of so many bytes stays where it is: to move it would cost more than the names before it are worth. */
enum { STAYS_BYTES_MIN = 512 };

static size_t align_up(size_t size)
{
    return (size + alignof(struct ks_record) - 1) & ~(alignof(struct ks_record) - 1);
}

static uint32_t possible(size_t size, uint32_t records_max)
{
    size_t fit = size / RECORD_BYTES_MIN + 1;

    assert(records_max <= KS_READ_RECORDS_MAX);
    return fit < records_max ? (uint32_t)fit : records_max;
}

size_t ks_builder_capacity(size_t size, uint32_t records_max)
{
    /* Callers bound it, far below this. */
    assert(size < SIZE_MAX / 4);
    return align_up(size) + possible(size, records_max) * sizeof(struct ks_record);
}

static ks_err make_room(struct ks_block **block, size_t capacity)
{
    struct ks_block *old = *block;
    struct ks_block *larger;

    if (old->capacity >= capacity)
        return KS_OK;
    KS_TRY(ks_block_new(old->budget, capacity, &larger));
    memcpy(larger->data, old->data, old->size);
    larger->size = old->size;
    ks_block_drop(old);
    *block = larger;
    return KS_OK;
}

ks_err ks_builder_begin(struct ks_builder *builder, struct ks_block *block, uint32_t records_max)
{
    ks_err err = make_room(&block, ks_builder_capacity(block->size, records_max));

    *builder =
        (struct ks_builder){.block = block, .records_max = possible(block->size, records_max)};
    if (!ks_ok(err))
        ks_builder_abandon(builder);
    return err;
}

void ks_builder_abandon(struct ks_builder *builder)
{
    ks_block_drop(builder->block);
    *builder = (struct ks_builder){.block = NULL};
}

uint8_t *ks_builder_room(const struct ks_builder *builder)
{
    return builder->block->data + builder->payload;
}

ks_view ks_builder_took(struct ks_builder *builder, size_t size)
{
    ks_view taken = ks_view_of(ks_builder_room(builder), size);

    assert(size <= builder->block->size - builder->payload);
    builder->payload += size;
    return taken;
}

ks_view ks_builder_keep(struct ks_builder *builder, ks_view piece)
{
    size_t gap = (size_t)(piece.data - ks_builder_room(builder));

    assert(piece.data >= ks_builder_room(builder));
    if (piece.size >= STAYS_BYTES_MIN)
        builder->payload += gap;
    else if (piece.size > 0)
        memmove(ks_builder_room(builder), piece.data, piece.size);
    return ks_builder_took(builder, piece.size);
}

/* They stand behind the body. */
static struct ks_record *records_of(const struct ks_builder *builder)
{
    return (void *)(builder->block->data + align_up(builder->block->size));
}

ks_err ks_builder_add(struct ks_builder *builder, const struct ks_record *record)
{
    struct ks_record *place;

    if (builder->count == builder->records_max || record->data.data == NULL ||
        record->partition_key.data == NULL || record->sequence.data == NULL)
        return KS_FAIL(MALFORMED);
    place = records_of(builder) + builder->count;
    *place = *record;
    place->aggregated = ks_is_aggregate(record->data);
    builder->count++;
    return KS_OK;
}

static ks_view moved(ks_view view, uintptr_t from, const uint8_t *to)
{
    return ks_view_of(to + ((uintptr_t)view.data - from), view.size);
}

/* The block may have moved when its end was given back: the views follow. */
static void follow(struct ks_record *records, uint32_t count, uintptr_t from, const uint8_t *to)
{
    if (from == (uintptr_t)to)
        return;
    for (uint32_t at = 0; at < count; at++) {
        records[at].data = moved(records[at].data, from, to);
        records[at].partition_key = moved(records[at].partition_key, from, to);
        records[at].sequence = moved(records[at].sequence, from, to);
    }
}

void ks_builder_finish(struct ks_builder *builder, struct ks_batch *ret_batch)
{
    struct ks_block *block = builder->block;
    uint32_t count = builder->count;
    size_t place = align_up(builder->payload);
    struct ks_record *records = (void *)(block->data + place);
    uintptr_t was = (uintptr_t)block->data;

    if (count > 0)
        memmove(records, records_of(builder), count * sizeof(*records));
    block->size = place + count * sizeof(*records);
    block = ks_block_trim(block);
    records = (void *)(block->data + place);
    follow(records, count, was, block->data);

    *builder = (struct ks_builder){.block = NULL};
    ret_batch->block = block;
    ret_batch->payload = NULL;
    ret_batch->records = records;
    ret_batch->count = count;
}

ks_err ks_builder_end(struct ks_builder *builder, ks_err err, struct ks_batch *ret_batch)
{
    if (ks_ok(err))
        ks_builder_finish(builder, ret_batch);
    else
        ks_builder_abandon(builder);
    return err;
}

/* Eight digits: bytes of which nothing but the low half differs from '0', and by less than 10. */
static bool eight_digits(const uint8_t *data)
{
    const uint64_t zeros = UINT64_C(0x3030303030303030);
    const uint64_t highs = UINT64_C(0xF0F0F0F0F0F0F0F0);
    uint64_t word;

    memcpy(&word, data, sizeof(word));
    return (word & highs) == zeros && ((word + UINT64_C(0x0606060606060606)) & highs) == zeros;
}

bool ks_sequence_is_valid(ks_view sequence)
{
    size_t at = 0;

    if (sequence.size == 0 || sequence.size > KS_SEQUENCE_MAX)
        return false;
    if (sequence.data[0] == '0')
        return sequence.size == 1;
    while (sequence.size - at >= sizeof(uint64_t) && eight_digits(sequence.data + at))
        at += sizeof(uint64_t);
    for (; at < sequence.size; at++) {
        if (sequence.data[at] < '0' || sequence.data[at] > '9')
            return false;
    }
    return true;
}
