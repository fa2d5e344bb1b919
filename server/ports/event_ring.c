/* SPDX-License-Identifier: Apache-2.0 */
#include "ports/event_ring.h"

#include "base/budget.h"
#include "base/bytes.h"

#include <assert.h>

ks_err ks_event_ring_init(struct ks_event_ring *ring)
{
    *ring = (struct ks_event_ring){.events = ks_alloc(KS_EVENTS_KEPT * sizeof *ring->events)};
    return ring->events == NULL ? KS_FAIL(NO_MEMORY) : KS_OK;
}

void ks_event_ring_free(struct ks_event_ring *ring)
{
    ks_free(ring->events);
    ring->events = NULL;
}

/* As much as fits, in whole characters. */
static void copy_cut(const char *text, char *buffer, size_t capacity)
{
    ks_view view = ks_view_text(text);
    ks_err copied;

    if (view.size > capacity - 1)
        view.size = ks_view_whole_characters(ks_view_of(view.data, capacity - 1));
    copied = ks_view_copy_text(view, buffer, capacity);
    assert(ks_ok(copied));
}

void ks_event_ring_add(struct ks_event_ring *ring, const char *type, ks_wall at,
                       const char *shard_id, ks_epoch epoch, const char *message)
{
    struct ks_board_event *event = &ring->events[ring->end % KS_EVENTS_KEPT];

    event->type = type;
    event->at = at;
    event->epoch = epoch;
    event->from_ms = event->to_ms = 0;
    copy_cut(shard_id, event->shard_id, sizeof event->shard_id);
    copy_cut(message, event->message, sizeof event->message);
    ring->end++;
}

void ks_event_ring_span(struct ks_event_ring *ring, int64_t from_ms, int64_t to_ms)
{
    struct ks_board_event *event = &ring->events[(ring->end - 1) % KS_EVENTS_KEPT];

    assert(ring->end > 0);
    event->from_ms = from_ms;
    event->to_ms = to_ms;
}

uint64_t ks_event_ring_first(const struct ks_event_ring *ring)
{
    return ring->end < KS_EVENTS_KEPT ? 0 : ring->end - KS_EVENTS_KEPT;
}

const struct ks_board_event *ks_event_ring_at(const struct ks_event_ring *ring, uint64_t number)
{
    assert(number >= ks_event_ring_first(ring));
    assert(number < ring->end);
    return &ring->events[number % KS_EVENTS_KEPT];
}
