/* SPDX-License-Identifier: Apache-2.0 */
#include "agenda.h"

#include <assert.h>
#include <stddef.h>

#include "base/budget.h"

static bool comes_before(const struct agenda_entry *a, const struct agenda_entry *b)
{
    return a->at < b->at || (a->at == b->at && a->order < b->order);
}

static void grow(struct agenda *agenda)
{
    uint32_t capacity = agenda->capacity == 0 ? 1024 : agenda->capacity * 2;

    agenda->heap = ks_realloc(agenda->heap, capacity * sizeof *agenda->heap);
    agenda->pool = ks_realloc(agenda->pool, capacity * sizeof *agenda->pool);
    agenda->spare = ks_realloc(agenda->spare, capacity * sizeof *agenda->spare);
    assert(agenda->heap != NULL && agenda->pool != NULL && agenda->spare != NULL);
    /* `spare` is a stack: its first capacity - count places hold the free slots. */
    for (uint32_t i = 0; i < capacity - agenda->capacity; i++)
        agenda->spare[i] = agenda->capacity + i;
    agenda->capacity = capacity;
}

void agenda_clear(struct agenda *agenda)
{
    agenda->count = 0;
    agenda->order = 0;
    for (uint32_t i = 0; i < agenda->capacity; i++)
        agenda->spare[i] = i;
}

void agenda_add(struct agenda *agenda, sim_time at, const struct happening *happening)
{
    struct agenda_entry entry;
    uint32_t place;

    if (agenda->count == agenda->capacity)
        grow(agenda);
    entry.at = at;
    entry.order = agenda->order++;
    entry.slot = agenda->spare[agenda->capacity - agenda->count - 1];
    agenda->pool[entry.slot] = *happening;

    for (place = agenda->count++; place > 0; place = (place - 1) / 2) {
        const struct agenda_entry *above = &agenda->heap[(place - 1) / 2];

        if (!comes_before(&entry, above))
            break;
        agenda->heap[place] = *above;
    }
    agenda->heap[place] = entry;
}

bool agenda_next(struct agenda *agenda, sim_time *ret_at, struct happening *ret_happening)
{
    struct agenda_entry last;
    uint32_t place = 0;

    if (agenda->count == 0)
        return false;
    *ret_at = agenda->heap[0].at;
    *ret_happening = agenda->pool[agenda->heap[0].slot];
    agenda->count--;
    agenda->spare[agenda->capacity - agenda->count - 1] = agenda->heap[0].slot;

    last = agenda->heap[agenda->count];
    for (;;) {
        uint32_t below = 2 * place + 1;

        if (below >= agenda->count)
            break;
        if (below + 1 < agenda->count &&
            comes_before(&agenda->heap[below + 1], &agenda->heap[below]))
            below++;
        if (!comes_before(&agenda->heap[below], &last))
            break;
        agenda->heap[place] = agenda->heap[below];
        place = below;
    }
    agenda->heap[place] = last;
    return true;
}

void agenda_free(struct agenda *agenda)
{
    ks_free(agenda->heap);
    ks_free(agenda->pool);
    ks_free(agenda->spare);
    *agenda = (struct agenda){.heap = NULL};
}
