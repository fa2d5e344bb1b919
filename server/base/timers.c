/* SPDX-License-Identifier: Apache-2.0 */
#include "base/timers.h"

#include "base/budget.h"

#include <assert.h>
#include <stddef.h>

ks_err ks_timers_init(struct ks_timers *timers)
{
    struct ks_timer **heap = ks_alloc(KS_TIMERS_MAX * sizeof(struct ks_timer *));

    if (heap == NULL)
        return KS_FAIL(NO_MEMORY);
    *timers = (struct ks_timers){.heap = heap};
    return KS_OK;
}

void ks_timers_free(struct ks_timers *timers)
{
    ks_free(timers->heap);
    *timers = (struct ks_timers){.heap = NULL};
}

static void put(struct ks_timers *timers, struct ks_timer *timer, uint32_t place)
{
    timers->heap[place - 1] = timer;
    timer->place = place;
}

static void move_up(struct ks_timers *timers, struct ks_timer *timer)
{
    uint32_t place = timer->place;

    while (place > 1) {
        struct ks_timer *parent = timers->heap[place / 2 - 1];
        if (!ks_instant_before(timer->at, parent->at))
            break;
        put(timers, parent, place);
        place /= 2;
    }
    put(timers, timer, place);
}

static void move_down(struct ks_timers *timers, struct ks_timer *timer)
{
    uint32_t place = timer->place;

    while (place * 2 <= timers->count) {
        uint32_t child = place * 2;
        if (child < timers->count &&
            ks_instant_before(timers->heap[child]->at, timers->heap[child - 1]->at))
            child++;
        if (!ks_instant_before(timers->heap[child - 1]->at, timer->at))
            break;
        put(timers, timers->heap[child - 1], place);
        place = child;
    }
    put(timers, timer, place);
}

void ks_timers_set(struct ks_timers *timers, struct ks_timer *timer, ks_instant at)
{
    assert(timer->place <= timers->count);

    if (timer->place == 0) {
        assert(timers->count < KS_TIMERS_MAX);
        timers->count++;
        put(timers, timer, timers->count);
    }
    assert(timers->heap[timer->place - 1] == timer);
    timer->at = at;
    move_up(timers, timer);
    move_down(timers, timer);
}

void ks_timers_clear(struct ks_timers *timers, struct ks_timer *timer)
{
    uint32_t place = timer->place;
    struct ks_timer *last;

    if (place == 0)
        return;
    assert(place <= timers->count);
    assert(timers->heap[place - 1] == timer);
    timer->place = 0;
    last = timers->heap[timers->count - 1];
    timers->count--;
    if (last == timer)
        return;

    put(timers, last, place);
    move_up(timers, last);
    move_down(timers, last);
}

ks_instant ks_timers_next(const struct ks_timers *timers)
{
    return timers->count == 0 ? KS_NEVER : timers->heap[0]->at;
}

struct ks_timer *ks_timers_take_due(struct ks_timers *timers, ks_instant now)
{
    struct ks_timer *first;

    if (timers->count == 0 || !ks_instant_reached(now, timers->heap[0]->at))
        return NULL;
    first = timers->heap[0];
    ks_timers_clear(timers, first);
    return first;
}
