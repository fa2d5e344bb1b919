/* SPDX-License-Identifier: Apache-2.0 */
/* tracker.h - what became of each record of one epoch, and the watermark.
 *
 * Records are dense numbers 0, 1, 2 .. Between the watermark and the last record fetched there is one slot for each, in
 * a ring of fixed size, so that acks in any order give one contiguous watermark and never run out of anything but the
 * window itself. One lane (ordering by shard): a cursor walks the numbers; a recall takes it back, and with it every
 * later delivery, so that redelivery keeps the order of the shard.
 * Pure. Owned by struct ks_lease.
 */
#ifndef KS_CORE_TRACKER_H
#define KS_CORE_TRACKER_H

#include "core/types.h"

enum ks_slot_state {
    KS_SLOT_PENDING, /* Fetched, not with any session. */
    KS_SLOT_SENT,    /* In flight. */
    KS_SLOT_SETTLED
};

struct ks_slot {
    ks_instant deadline; /* SENT: of the ack. PENDING: not to be delivered before it. */
    uint32_t bytes;
    uint16_t session;
    uint8_t attempts; /* Deliveries so far; 255 means 255 or more. */
    uint8_t state;    /* enum ks_slot_state */
};

struct ks_tracker {
    struct ks_slot *slots;
    uint32_t window;     /* A power of two. */
    ks_number mark;      /* The watermark: everything below is settled. */
    ks_number cursor;    /* The next to deliver, not settled; nothing at or above it is SENT. */
    ks_number delivered; /* Everything below was delivered at least once. */
    ks_number fetched;   /* Everything below has arrived. */
    uint32_t in_flight;
    uint64_t in_flight_bytes;
    uint64_t bytes;            /* From the watermark to the last one fetched. */
    ks_instant deadline_bound; /* No ack deadline is before it. */
    ks_instant delay_bound;    /* No record waits longer for the delay of its retry. */
};

/* A run of consecutive records. */
struct ks_tracker_run {
    ks_number first;
    uint32_t count;
    uint64_t bytes;
    uint32_t attempt; /* Of the delivery to come, from 1. */
};

/* In flight no more: what returns to the session's credit. */
struct ks_credit {
    uint32_t records;
    uint64_t bytes;
};

/* Begins an epoch: forgets everything. `slots` has `window` entries and belongs to the caller. */
void ks_tracker_init(struct ks_tracker *tracker, struct ks_slot *slots, uint32_t window);
/* Records that may still be fetched. */
uint32_t ks_tracker_room(const struct ks_tracker *tracker);
/* Appends `count` records, at most room. */
void ks_tracker_append(struct ks_tracker *tracker, const uint32_t *sizes, uint32_t count);
/* The next deliverable run of at most max_records and about max_bytes, at least one record. False if the lane has none
 * or is blocked at `now`. */
bool ks_tracker_next(const struct ks_tracker *tracker, ks_instant now, uint32_t max_records,
                     uint64_t max_bytes, struct ks_tracker_run *ret_run);
/* The run is in flight with `session` from now on. */
void ks_tracker_send(struct ks_tracker *tracker, const struct ks_tracker_run *run,
                     ks_session_id session, ks_instant deadline);
/* Settles a record that was delivered at least once; again is allowed and does nothing. Returns the credit, if it was
 * in flight. The watermark moves. */
struct ks_credit ks_tracker_settle(struct ks_tracker *tracker, ks_number number);
/* Takes `number` and every later delivery back into the lane. */
struct ks_credit ks_tracker_recall(struct ks_tracker *tracker, ks_number number);
/* A record that was recalled is not delivered before `not_before`, and so nothing after it in its lane. Does nothing to
 * any other record. */
void ks_tracker_delay(struct ks_tracker *tracker, ks_number number, ks_instant not_before);
/* True while the next record of the lane waits for the delay of its retry; then `ret_until` is its end. */
bool ks_tracker_blocked(const struct ks_tracker *tracker, ks_instant now, ks_instant *ret_until);
/* Moves the ack deadline of a record in flight. False if it is not in flight. */
bool ks_tracker_extend(struct ks_tracker *tracker, ks_number number, ks_instant deadline);
/* The lowest record whose ack deadline has passed. False if there is none; then deadline_bound is exact. */
bool ks_tracker_overdue(struct ks_tracker *tracker, ks_instant now, ks_number *ret_number);

static inline struct ks_slot *ks_tracker_slot(const struct ks_tracker *tracker, ks_number number)
{
    return &tracker->slots[number & (tracker->window - 1)];
}

/* Asserts what must hold between any two calls. */
void ks_tracker_check(const struct ks_tracker *tracker);

#endif
