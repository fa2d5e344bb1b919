/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tracker.h"

#include <assert.h>
#include <stddef.h>

void ks_tracker_init(struct ks_tracker *tracker, struct ks_slot *slots, uint32_t window)
{
    assert(slots != NULL);
    assert(window > 0 && (window & (window - 1)) == 0);

    *tracker = (struct ks_tracker){
        .slots = slots,
        .window = window,
        .deadline_bound = KS_NEVER,
        .delay_bound = KS_LONG_AGO,
    };
}

uint32_t ks_tracker_room(const struct ks_tracker *tracker)
{
    return tracker->window - (uint32_t)(tracker->fetched - tracker->mark);
}

void ks_tracker_append(struct ks_tracker *tracker, const uint32_t *sizes, uint32_t count)
{
    assert(count <= ks_tracker_room(tracker));

    for (uint32_t i = 0; i < count; i++) {
        *ks_tracker_slot(tracker, tracker->fetched) =
            (struct ks_slot){.deadline = KS_LONG_AGO, .bytes = sizes[i]};
        tracker->bytes += sizes[i];
        tracker->fetched++;
    }
}

bool ks_tracker_next(const struct ks_tracker *tracker, ks_instant now, uint32_t max_records,
                     uint64_t max_bytes, struct ks_tracker_run *ret_run)
{
    struct ks_tracker_run run = {.first = tracker->cursor};

    for (ks_number n = run.first; n < tracker->fetched && run.count < max_records; n++) {
        const struct ks_slot *slot = ks_tracker_slot(tracker, n);
        uint32_t attempt = slot->attempts + 1u;

        if (slot->state != KS_SLOT_PENDING || !ks_instant_reached(now, slot->deadline))
            break;
        if (run.count > 0 && attempt != run.attempt)
            break;
        if (run.count > 0 && run.bytes + slot->bytes > max_bytes)
            break;
        run.attempt = attempt;
        run.bytes += slot->bytes;
        run.count++;
    }
    if (run.count == 0)
        return false;
    *ret_run = run;
    return true;
}

static void skip_settled(struct ks_tracker *tracker)
{
    while (tracker->cursor < tracker->fetched &&
           ks_tracker_slot(tracker, tracker->cursor)->state == KS_SLOT_SETTLED)
        tracker->cursor++;
}

bool ks_tracker_blocked(const struct ks_tracker *tracker, ks_instant now, ks_instant *ret_until)
{
    const struct ks_slot *head;

    /* Of a thousand lanes none may wait: their slots are not looked at. */
    if (tracker->cursor == tracker->fetched || ks_instant_reached(now, tracker->delay_bound))
        return false;
    head = ks_tracker_slot(tracker, tracker->cursor);
    *ret_until = head->deadline;
    return !ks_instant_reached(now, head->deadline);
}

void ks_tracker_send(struct ks_tracker *tracker, const struct ks_tracker_run *run,
                     ks_session_id session, ks_instant deadline)
{
    assert(run->first == tracker->cursor);
    assert(session <= UINT16_MAX);

    for (uint32_t i = 0; i < run->count; i++) {
        struct ks_slot *slot = ks_tracker_slot(tracker, run->first + i);

        assert(slot->state == KS_SLOT_PENDING);
        slot->state = KS_SLOT_SENT;
        slot->session = (uint16_t)session;
        slot->deadline = deadline;
        if (slot->attempts < UINT8_MAX)
            slot->attempts++;
    }
    tracker->cursor += run->count;
    skip_settled(tracker);
    if (tracker->delivered < tracker->cursor)
        tracker->delivered = tracker->cursor;
    tracker->in_flight += run->count;
    tracker->in_flight_bytes += run->bytes;
    tracker->deadline_bound = ks_instant_min(tracker->deadline_bound, deadline);
}

/* A record in flight leaves it. */
static void land(struct ks_tracker *tracker, struct ks_slot *slot, struct ks_credit *credit)
{
    assert(slot->state == KS_SLOT_SENT);
    assert(tracker->in_flight > 0);

    tracker->in_flight--;
    tracker->in_flight_bytes -= slot->bytes;
    credit->records++;
    credit->bytes += slot->bytes;
}

struct ks_credit ks_tracker_settle(struct ks_tracker *tracker, ks_number number)
{
    struct ks_credit credit = {0};
    struct ks_slot *slot = ks_tracker_slot(tracker, number);

    assert(number < tracker->delivered);
    if (number < tracker->mark || slot->state == KS_SLOT_SETTLED)
        return credit;
    if (slot->state == KS_SLOT_SENT)
        land(tracker, slot, &credit);
    slot->state = KS_SLOT_SETTLED;
    while (tracker->mark < tracker->fetched) {
        slot = ks_tracker_slot(tracker, tracker->mark);
        if (slot->state != KS_SLOT_SETTLED)
            break;
        tracker->bytes -= slot->bytes;
        tracker->mark++;
    }
    if (tracker->cursor < tracker->mark)
        tracker->cursor = tracker->mark;
    skip_settled(tracker);
    return credit;
}

struct ks_credit ks_tracker_recall(struct ks_tracker *tracker, ks_number number)
{
    struct ks_credit credit = {0};

    assert(number >= tracker->mark);
    for (ks_number n = number; n < tracker->cursor; n++) {
        struct ks_slot *slot = ks_tracker_slot(tracker, n);

        if (slot->state != KS_SLOT_SENT)
            continue;
        land(tracker, slot, &credit);
        slot->state = KS_SLOT_PENDING;
        slot->deadline = KS_LONG_AGO;
    }
    if (tracker->cursor > number)
        tracker->cursor = number;
    skip_settled(tracker);
    return credit;
}

void ks_tracker_delay(struct ks_tracker *tracker, ks_number number, ks_instant not_before)
{
    struct ks_slot *slot = ks_tracker_slot(tracker, number);

    assert(number >= tracker->mark && number < tracker->delivered);
    if (slot->state != KS_SLOT_PENDING)
        return;
    slot->deadline = ks_instant_max(slot->deadline, not_before);
    tracker->delay_bound = ks_instant_max(tracker->delay_bound, not_before);
}

bool ks_tracker_extend(struct ks_tracker *tracker, ks_number number, ks_instant deadline)
{
    struct ks_slot *slot = ks_tracker_slot(tracker, number);

    if (number < tracker->mark || number >= tracker->fetched || slot->state != KS_SLOT_SENT)
        return false;
    slot->deadline = deadline;
    tracker->deadline_bound = ks_instant_min(tracker->deadline_bound, deadline);
    return true;
}

bool ks_tracker_overdue(struct ks_tracker *tracker, ks_instant now, ks_number *ret_number)
{
    ks_instant bound = KS_NEVER;

    if (!ks_instant_reached(now, tracker->deadline_bound))
        return false;
    for (ks_number n = tracker->mark; n < tracker->cursor; n++) {
        const struct ks_slot *slot = ks_tracker_slot(tracker, n);

        if (slot->state != KS_SLOT_SENT)
            continue;
        if (ks_instant_reached(now, slot->deadline)) {
            *ret_number = n;
            return true;
        }
        bound = ks_instant_min(bound, slot->deadline);
    }
    tracker->deadline_bound = bound;
    return false;
}

void ks_tracker_check(const struct ks_tracker *tracker)
{
    uint32_t in_flight = 0;
    uint64_t in_flight_bytes = 0;
    uint64_t bytes = 0;

    assert(tracker->mark <= tracker->cursor && tracker->cursor <= tracker->delivered);
    assert(tracker->delivered <= tracker->fetched);
    assert(tracker->fetched - tracker->mark <= tracker->window);
    for (ks_number n = tracker->mark; n < tracker->fetched; n++) {
        const struct ks_slot *slot = ks_tracker_slot(tracker, n);

        bytes += slot->bytes;
        assert((slot->attempts > 0) == (n < tracker->delivered));
        assert(slot->state != KS_SLOT_PENDING ||
               !ks_instant_before(tracker->delay_bound, slot->deadline));
        if (slot->state != KS_SLOT_SENT)
            continue;
        assert(n < tracker->cursor);
        assert(!ks_instant_before(slot->deadline, tracker->deadline_bound));
        in_flight++;
        in_flight_bytes += slot->bytes;
    }
    assert(tracker->mark == tracker->fetched ||
           ks_tracker_slot(tracker, tracker->mark)->state != KS_SLOT_SETTLED);
    assert(tracker->cursor == tracker->fetched ||
           ks_tracker_slot(tracker, tracker->cursor)->state == KS_SLOT_PENDING);
    assert(in_flight == tracker->in_flight);
    assert(in_flight_bytes == tracker->in_flight_bytes);
    assert(bytes == tracker->bytes);
}
