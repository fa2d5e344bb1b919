/* SPDX-License-Identifier: Apache-2.0 */
#include "ports/batches.h"

#include "base/budget.h"

#include <assert.h>
#include <string.h>

void ks_batches_clear(struct ks_batches *batches)
{
    for (uint32_t i = 0; i < batches->count; i++)
        ks_batch_free(&batches->items[batches->head + i].batch);
    ks_free(batches->items);
    *batches = (struct ks_batches){.items = NULL};
}

ks_err ks_batches_reserve(struct ks_batches *batches)
{
    enum { FIRST_CAPACITY = 8 };
    uint32_t capacity = batches->capacity;
    struct ks_kept_batch *items;

    if (batches->head + batches->count < capacity)
        return KS_OK;
    /* Moving down costs at most what was forgotten since; doubling otherwise: both amortise. */
    if (batches->head > capacity / 2) {
        memmove(batches->items, batches->items + batches->head,
                batches->count * sizeof *batches->items);
        batches->head = 0;
        return KS_OK;
    }
    capacity = capacity == 0 ? FIRST_CAPACITY : 2 * capacity;
    items = ks_realloc(batches->items, capacity * sizeof *items);
    if (items == NULL)
        return KS_FAIL(NO_MEMORY);
    batches->items = items;
    batches->capacity = capacity;
    return KS_OK;
}

void ks_batches_keep(struct ks_batches *batches, struct ks_batch *batch)
{
    assert(batch->count > 0);
    assert(batches->head + batches->count < batches->capacity);

    batches->items[batches->head + batches->count++] =
        (struct ks_kept_batch){.batch = *batch, .first = batches->next};
    batches->next += batch->count;
    *batch = (struct ks_batch){.block = NULL};
}

static bool holds(const struct ks_kept_batch *kept, ks_number number)
{
    return number >= kept->first && number - kept->first < kept->batch.count;
}

/* Which kept batch holds `number`; it is in memory. */
static uint32_t batch_of(const struct ks_batches *batches, ks_number number)
{
    const struct ks_kept_batch *items = batches->items + batches->head;
    uint32_t low = 0;
    uint32_t high = batches->count;

    if (batches->last < batches->count && holds(&items[batches->last], number))
        return batches->last;
    if (batches->last + 1 < batches->count && holds(&items[batches->last + 1], number))
        return batches->last + 1;

    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;

        if (items[middle].first <= number)
            low = middle;
        else
            high = middle;
    }
    assert(holds(&items[low], number));
    return low;
}

static const struct ks_record *record_at(const struct ks_batches *batches, ks_number number)
{
    const struct ks_kept_batch *kept = &batches->items[batches->head + batch_of(batches, number)];

    return &kept->batch.records[number - kept->first];
}

const struct ks_record *ks_batches_record(struct ks_batches *batches, ks_number number)
{
    if (number < batches->forgotten || number >= batches->next)
        return NULL;

    batches->last = batch_of(batches, number);
    return record_at(batches, number);
}

const struct ks_batch *ks_batches_batch(const struct ks_batches *batches, ks_number number)
{
    return &batches->items[batches->head + batch_of(batches, number)].batch;
}

static void mark_after(const struct ks_record *record, struct ks_position *ret_mark)
{
    struct ks_position mark = {.kind = KS_POSITION_AFTER_SEQUENCE,
                               .sub_sequence = record->sub_sequence};
    ks_err copied = ks_view_copy_text(record->sequence, mark.sequence, sizeof mark.sequence);

    assert(ks_ok(copied)); /* The source bounds it. */
    *ret_mark = mark;
}

bool ks_batches_whole(struct ks_batches *batches, ks_number number, struct ks_position *ret_whole)
{
    const struct ks_record *next = number < batches->next ? record_at(batches, number) : NULL;

    assert(number <= batches->next);
    for (; number > batches->forgotten; number--) {
        const struct ks_record *record = record_at(batches, number - 1);

        if (record->sub_sequence < 0 ||
            (next != NULL && !ks_view_equal(next->sequence, record->sequence))) {
            mark_after(record, ret_whole);
            ret_whole->sub_sequence = -1;
            return true;
        }
        next = record;
    }
    return false;
}

bool ks_batches_forget(struct ks_batches *batches, ks_number number, struct ks_position *ret_mark)
{
    assert(number <= batches->next);

    if (number <= batches->forgotten)
        return false;

    mark_after(record_at(batches, number - 1), ret_mark);
    batches->forgotten = number;
    while (batches->count > 0) {
        struct ks_kept_batch *oldest = &batches->items[batches->head];

        if (oldest->first + oldest->batch.count > number)
            break;
        ks_batch_free(&oldest->batch);
        batches->head++;
        batches->count--;
        batches->last = batches->last > 0 ? batches->last - 1 : 0;
    }
    if (batches->count == 0)
        batches->head = 0;
    return true;
}

bool ks_batches_find(const struct ks_batches *batches, ks_view sequence, int64_t sub_sequence,
                     ks_number below, ks_number *ret_number)
{
    ks_number low = batches->forgotten;
    ks_number high = below < batches->next ? below : batches->next;

    while (low < high) {
        ks_number middle = low + (high - low) / 2;
        const struct ks_record *record = record_at(batches, middle);
        int order =
            ks_position_compare(record->sequence, record->sub_sequence, sequence, sub_sequence);

        if (order == 0) {
            *ret_number = middle;
            return true;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

static ks_view without_zeros(ks_view digits)
{
    while (digits.size > 1 && digits.data[0] == '0') {
        digits.data++;
        digits.size--;
    }
    return digits;
}

int ks_position_compare(ks_view sequence_a, int64_t sub_a, ks_view sequence_b, int64_t sub_b)
{
    ks_view a = without_zeros(sequence_a);
    ks_view b = without_zeros(sequence_b);
    int order;

    if (a.size != b.size)
        return a.size < b.size ? -1 : 1;
    order = a.size == 0 ? 0 : memcmp(a.data, b.data, a.size);
    if (order != 0)
        return order;

    sub_a = sub_a < 0 ? 0 : sub_a;
    sub_b = sub_b < 0 ? 0 : sub_b;
    return (sub_a > sub_b) - (sub_a < sub_b);
}
