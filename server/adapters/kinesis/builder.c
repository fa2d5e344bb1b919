/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/kinesis/builder.h"

#include "adapters/kinesis/aggregate.h"

#include <assert.h>
#include <stdalign.h>

static size_t align_up(size_t size)
{
    return (size + alignof(struct ks_record) - 1) & ~(alignof(struct ks_record) - 1);
}

ks_err ks_builder_begin(struct ks_builder *builder, struct ks_budget *budget, size_t payload_max,
                        uint32_t records_max)
{
    struct ks_block *block;
    size_t capacity;

    /* Callers bound both by the size of a body, far below this. */
    assert(payload_max < SIZE_MAX / 4);
    assert(records_max <= KS_READ_RECORDS_MAX);
    capacity = align_up(payload_max + KS_BUILDER_SLACK) + records_max * sizeof(struct ks_record);
    KS_TRY(ks_block_new(budget, capacity, &block));

    *builder =
        (struct ks_builder){.block = block, .payload_max = payload_max, .records_max = records_max};
    return KS_OK;
}

void ks_builder_abandon(struct ks_builder *builder)
{
    ks_block_drop(builder->block);
    *builder = (struct ks_builder){.block = NULL};
}

uint8_t *ks_builder_room(struct ks_builder *builder, size_t size)
{
    if (size > builder->payload_max - builder->payload)
        return NULL;
    return builder->block->data + builder->payload;
}

ks_view ks_builder_took(struct ks_builder *builder, size_t size)
{
    ks_view taken = ks_view_of(builder->block->data + builder->payload, size);

    assert(size <= builder->payload_max - builder->payload);
    builder->payload += size;
    return taken;
}

/* The record that was added as number `index`: they stand backwards from the end. */
static struct ks_record *slot(struct ks_builder *builder, uint32_t index)
{
    struct ks_record *end = (void *)(builder->block->data + builder->block->capacity);

    return end - 1 - index;
}

ks_err ks_builder_add(struct ks_builder *builder, const struct ks_record *record)
{
    struct ks_record *place;

    if (builder->count == builder->records_max || record->data.data == NULL ||
        record->partition_key.data == NULL || record->sequence.data == NULL)
        return KS_FAIL(MALFORMED);
    place = slot(builder, builder->count);
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
        memmove(records, slot(builder, count - 1), count * sizeof(*records));
    for (uint32_t low = 0, high = count; low + 1 < high; low++) {
        high--;
        struct ks_record record = records[low];
        records[low] = records[high];
        records[high] = record;
    }
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
