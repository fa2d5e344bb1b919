/* SPDX-License-Identifier: Apache-2.0 */
/* event_ring.h - the events of GET /v1/events: the last ones, so that whoever asks late sees them, too, and whoever
 * reads slowly costs no memory.
 *
 * Events are numbered 0, 1, 2 .. in the order in which they came; the last KS_EVENTS_KEPT are kept. Loop thread only.
 */
#ifndef KS_PORTS_EVENT_RING_H
#define KS_PORTS_EVENT_RING_H

#include "core/types.h"
#include "ports/story.h"

enum { KS_EVENTS_KEPT = 256 /* A power of two. Some minutes of a fleet that moves, 180 KiB. */ };

struct ks_board_event {
    const char *type; /* "lease_acquired". Static. */
    ks_wall at;
    ks_epoch epoch;                     /* 0: it is about none. */
    int64_t from_ms;                    /* Of a span of arrivals, Unix ms; 0: none, or unknown. */
    int64_t to_ms;                      /* Likewise. */
    char shard_id[KS_SHARD_ID_MAX + 1]; /* "" = none. */
    char message[KS_STORY_LINE_MAX];
};

struct ks_event_ring {
    struct ks_board_event *events; /* KS_EVENTS_KEPT */
    uint64_t end;                  /* The number of the next one. */
};

/* NO_MEMORY: nothing to free. */
KS_MUST_USE ks_err ks_event_ring_init(struct ks_event_ring *ring);
void ks_event_ring_free(struct ks_event_ring *ring);
/* Keeps an event, and forgets the oldest. `type` is static. */
void ks_event_ring_add(struct ks_event_ring *ring, const char *type, ks_wall at,
                       const char *shard_id, ks_epoch epoch, const char *message);
/* Says of the event that was added last of which arrivals it tells, Unix ms; 0: unknown. */
void ks_event_ring_span(struct ks_event_ring *ring, int64_t from_ms, int64_t to_ms);
/* The number of the oldest one that is kept; `end` if there is none. */
uint64_t ks_event_ring_first(const struct ks_event_ring *ring);
/* An event that is kept, by its number. */
const struct ks_board_event *ks_event_ring_at(const struct ks_event_ring *ring, uint64_t number);

#endif
