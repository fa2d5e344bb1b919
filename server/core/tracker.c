/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tracker.h"

#include <assert.h>
#include <stddef.h>

enum { RING_MIN = 16 };

static uint32_t shortest_ring(const struct ks_tracker *tracker)
{
    return tracker->window < RING_MIN ? tracker->window : RING_MIN;
}

void ks_tracker_init(struct ks_tracker *tracker, struct ks_slot *slots, uint32_t window,
                     struct ks_lane *lanes)
{
    assert(slots != NULL && lanes != NULL);
    assert(window > 0 && (window & (window - 1)) == 0);

    *tracker = (struct ks_tracker){
        .slots = slots,
        .window = window,
        .lanes = lanes,
        .deadline_bound = KS_NEVER,
        .delay_bound = KS_LONG_AGO,
        .ready_bound = KS_NEVER,
    };
    tracker->ring = shortest_ring(tracker);
    ks_tracker_order(tracker, 1, false);
}

void ks_tracker_order(struct ks_tracker *tracker, uint32_t lane_count, bool unordered)
{
    assert(lane_count > 0 && lane_count <= KS_LANES_MAX);
    assert(tracker->in_flight == 0);

    tracker->lane_count = lane_count;
    tracker->unordered = unordered;
    for (uint32_t i = 0; i < lane_count; i++)
        tracker->lanes[i] = (struct ks_lane){.cursor = tracker->mark,
                                             .session = KS_SESSION_NONE,
                                             .yield_to = KS_SESSION_NONE,
                                             .given_up = KS_NUMBER_NONE};
}

uint32_t ks_tracker_room(const struct ks_tracker *tracker)
{
    return tracker->window - (uint32_t)(tracker->fetched - tracker->mark);
}

static struct ks_lane *lane_of(const struct ks_tracker *tracker, const struct ks_slot *slot)
{
    return &tracker->lanes[ks_tracker_lane(tracker, slot)];
}

/* Makes the ring twice as long: in what is new nothing stands yet. */
static void lengthen(struct ks_tracker *tracker)
{
    for (ks_number n = tracker->mark; n < tracker->fetched; n++)
        if ((n & tracker->ring) != 0)
            tracker->slots[n & (2 * tracker->ring - 1)] = *ks_tracker_slot(tracker, n);
    tracker->ring *= 2;
}

void ks_tracker_append(struct ks_tracker *tracker, const uint32_t *sizes, const uint8_t *hashes,
                       const uint32_t *stale_s, uint32_t count)
{
    assert(count <= ks_tracker_room(tracker));

    if (tracker->mark == tracker->fetched)
        tracker->ring = shortest_ring(tracker);
    while (tracker->fetched + count - tracker->mark > tracker->ring)
        lengthen(tracker);
    for (uint32_t i = 0; i < count; i++) {
        *ks_tracker_slot(tracker, tracker->fetched) = (struct ks_slot){
            .deadline = KS_LONG_AGO,
            .bytes = sizes[i],
            .stale_s = stale_s == NULL ? UINT32_MAX : stale_s[i],
            .seen_by = KS_SEEN_BY_NONE,
            .hash = hashes == NULL ? 0 : hashes[i],
        };
        tracker->bytes += sizes[i];
        tracker->pending_bytes += sizes[i];
        tracker->fetched++;
    }
}

/* ---- Delivery. ---- */

/* Where the first record of these lanes can be that is PENDING. */
static ks_number first_of(const struct ks_tracker *tracker, uint64_t lanes)
{
    ks_number first = tracker->fetched;

    for (uint32_t i = 0; i < tracker->lane_count; i++)
        if ((lanes >> i & 1) != 0 && tracker->lanes[i].cursor < first)
            first = tracker->lanes[i].cursor;
    return first < tracker->mark ? tracker->mark : first;
}

/* Nothing of these lanes below `number` is PENDING. */
static void move_cursors(struct ks_tracker *tracker, uint64_t lanes, ks_number number)
{
    for (uint32_t i = 0; i < tracker->lane_count; i++)
        if ((lanes >> i & 1) != 0 && tracker->lanes[i].cursor < number)
            tracker->lanes[i].cursor = number;
}

/* Of a record that is PENDING: it waits for nothing but its turn. */
static bool is_ready(const struct ks_slot *slot, const struct ks_tracker_ask *ask, ks_instant now)
{
    return slot->bytes <= ask->max_record_bytes && ks_instant_reached(now, slot->deadline) &&
           (slot->taken || !ask->judged);
}

/* It is too large for the session, which is to have it. */
static bool is_too_large(const struct ks_slot *slot, const struct ks_tracker_ask *ask)
{
    return slot->bytes > ask->max_record_bytes && (slot->taken || !ask->judged);
}

/* The attempt number of its next delivery. */
static uint32_t next_attempt(const struct ks_slot *slot)
{
    return slot->attempts + slot->taken_back + 1u;
}

/* The first deliverable record of the lanes, UINT64_MAX: none. Lanes that are held up leave `lanes`. */
static ks_number find_first(struct ks_tracker *tracker, const struct ks_tracker_ask *ask,
                            ks_instant now, uint64_t *lanes, ks_number *ret_large)
{
    ks_number held_up = KS_NUMBER_NONE; /* Unordered: the first. */
    ks_number n = first_of(tracker, *lanes);

    for (; n < tracker->fetched && *lanes != 0; n++) {
        const struct ks_slot *slot = ks_tracker_slot(tracker, n);
        uint64_t lane = UINT64_C(1) << ks_tracker_lane(tracker, slot);

        if ((*lanes & lane) == 0 || slot->state != KS_SLOT_PENDING)
            continue;
        if (is_ready(slot, ask, now))
            break;
        if (is_too_large(slot, ask) && *ret_large == KS_NUMBER_NONE)
            *ret_large = n;
        if (held_up == KS_NUMBER_NONE)
            held_up = n;
        if (tracker->unordered)
            continue;
        move_cursors(tracker, lane, n);
        *lanes &= ~lane;
    }
    move_cursors(tracker, *lanes, tracker->unordered && held_up < n ? held_up : n);
    return n < tracker->fetched && *lanes != 0 ? n : KS_NUMBER_NONE;
}

bool ks_tracker_next(struct ks_tracker *tracker, const struct ks_tracker_ask *ask, ks_instant now,
                     struct ks_tracker_run *ret_run)
{
    struct ks_tracker_run run = {.large = KS_NUMBER_NONE};
    uint64_t lanes = ask->lanes;

    run.first = find_first(tracker, ask, now, &lanes, &run.large);
    if (run.first != KS_NUMBER_NONE)
        run.attempt = next_attempt(ks_tracker_slot(tracker, run.first));
    for (ks_number n = run.first; n < tracker->fetched && run.count < ask->max_records; n++) {
        const struct ks_slot *slot = ks_tracker_slot(tracker, n);

        if (slot->state != KS_SLOT_PENDING || (lanes >> ks_tracker_lane(tracker, slot) & 1) == 0 ||
            next_attempt(slot) != run.attempt || !is_ready(slot, ask, now))
            break;
        if (run.count > 0 && run.bytes + slot->bytes > ask->max_bytes)
            break;
        run.bytes += slot->bytes;
        run.count++;
    }
    *ret_run = run;
    return run.count > 0;
}

void ks_tracker_assign(struct ks_tracker *tracker, const struct ks_tracker_run *run,
                       ks_session_id session, uint64_t assignment)
{
    assert(session < KS_SEEN_BY_NONE);
    assert(assignment > 0);

    for (ks_number n = run->first; n < run->first + run->count; n++) {
        struct ks_slot *slot = ks_tracker_slot(tracker, n);
        struct ks_lane *lane = lane_of(tracker, slot);

        assert(slot->state == KS_SLOT_PENDING);
        assert(slot->seen_in < assignment && slot->torn_in < assignment);
        assert(lane->cursor <= n);
        slot->state = KS_SLOT_ASSIGNED;
        slot->session = session & KS_SEEN_BY_NONE;
        slot->assignment = assignment;
        lane->in_flight++;
        if (!tracker->unordered || lane->cursor == n)
            lane->cursor = n + 1;
    }
    if (tracker->reached < run->first + run->count)
        tracker->reached = run->first + run->count;
    tracker->in_flight += run->count;
    tracker->in_flight_bytes += run->bytes;
    tracker->unwritten += run->count;
    tracker->unwritten_bytes += run->bytes;
    tracker->pending_bytes -= run->bytes;
}

/* ---- Writing. ---- */

static bool is_in_memory(const struct ks_tracker *tracker, ks_number number)
{
    return number >= tracker->mark && number < tracker->fetched;
}

static bool is_unwritten(const struct ks_slot *slot)
{
    return slot->state == KS_SLOT_ASSIGNED || slot->state == KS_SLOT_BEGUN;
}

/* True if the record is out in this assignment, and not WRITTEN. */
static bool is_in(const struct ks_slot *slot, uint64_t assignment)
{
    return is_unwritten(slot) && slot->assignment == assignment;
}

static bool is_assigned(const struct ks_tracker *tracker, ks_number number, uint64_t assignment)
{
    return is_in_memory(tracker, number) &&
           ks_tracker_slot(tracker, number)->state == KS_SLOT_ASSIGNED &&
           ks_tracker_slot(tracker, number)->assignment == assignment;
}

uint32_t ks_tracker_assigned(const struct ks_tracker *tracker, ks_number number, uint32_t count,
                             uint64_t assignment)
{
    uint32_t assigned = 0;

    while (assigned < count && is_assigned(tracker, number + assigned, assignment))
        assigned++;
    return assigned;
}

uint64_t ks_tracker_bytes(const struct ks_tracker *tracker, ks_number first, uint32_t count)
{
    uint64_t bytes = 0;

    for (ks_number n = first; n < first + count; n++)
        if (is_in_memory(tracker, n))
            bytes += ks_tracker_slot(tracker, n)->bytes;
    return bytes;
}

void ks_tracker_begin(struct ks_tracker *tracker, ks_number number, uint64_t assignment)
{
    if (!is_assigned(tracker, number, assignment))
        return;
    ks_tracker_slot(tracker, number)->state = KS_SLOT_BEGUN;
    tracker->half_way++;
}

/* True for a record that may come again: who has seen it matters. */
static bool is_open(const struct ks_slot *slot)
{
    return slot->state == KS_SLOT_PENDING || ks_slot_is_out(slot);
}

static void write_slot(struct ks_tracker *tracker, struct ks_slot *slot, ks_instant deadline)
{
    assert(tracker->unwritten > 0);

    tracker->unwritten--;
    tracker->unwritten_bytes -= slot->bytes;
    slot->state = KS_SLOT_WRITTEN;
    slot->failed = false;
    slot->deadline = deadline;
    tracker->deadline_bound = ks_instant_min(tracker->deadline_bound, deadline);
}

bool ks_tracker_written(struct ks_tracker *tracker, ks_number number, uint64_t assignment,
                        ks_session_id session, ks_instant deadline)
{
    struct ks_slot *slot = ks_tracker_slot(tracker, number);
    bool ours;

    tracker->half_way -= tracker->half_way > 0;
    if (!is_in_memory(tracker, number) || !is_open(slot))
        return false;
    ours = is_in(slot, assignment);
    if (slot->attempts < UINT8_MAX)
        slot->attempts++;
    if (!ours && slot->taken_back > 0)
        slot->taken_back--;
    if (tracker->delivered <= number)
        tracker->delivered = number + 1;
    /* Another session may have got it meanwhile, and be at work on it. */
    if (slot->state != KS_SLOT_WRITTEN) {
        slot->seen_by = session & KS_SEEN_BY_NONE;
        slot->seen_in = assignment;
    }
    if (ours)
        write_slot(tracker, slot, deadline);
    return ours;
}

struct ks_credit ks_tracker_torn(struct ks_tracker *tracker, ks_number number, uint64_t assignment)
{
    struct ks_slot *slot = ks_tracker_slot(tracker, number);
    struct ks_credit credit = {0};

    tracker->half_way -= tracker->half_way > 0;
    if (!is_in_memory(tracker, number))
        return credit;
    if (is_in(slot, assignment)) {
        credit = ks_tracker_recall(tracker, number);
        credit.unused++;
    }
    /* Its number may be given again if no later delivery has one. */
    if (slot->state == KS_SLOT_PENDING && slot->torn_in == assignment &&
        slot->seen_in < assignment && slot->taken_back > 0)
        slot->taken_back--;
    return credit;
}

struct ks_credit ks_tracker_return(struct ks_tracker *tracker, ks_number number,
                                   uint64_t assignment)
{
    struct ks_credit credit = {0};

    return is_assigned(tracker, number, assignment) ? ks_tracker_recall(tracker, number) : credit;
}

bool ks_tracker_may_settle(const struct ks_tracker *tracker, ks_number number,
                           ks_session_id session, uint64_t assignment)
{
    const struct ks_slot *slot = ks_tracker_slot(tracker, number);

    assert(number < tracker->fetched);
    if (number < tracker->mark || slot->attempts == 0)
        return false;
    if (session == KS_SESSION_NONE)
        return true;
    /* In each assignment since `torn_in` it was written, but for the one in which it is out. */
    if (assignment != 0)
        return slot->seen_in == assignment ||
               (slot->torn_in < assignment && !is_in(slot, assignment));
    return slot->seen_by == session ||
           (slot->torn_in == 0 && !(is_unwritten(slot) && slot->session == session));
}

bool ks_tracker_is_quiet(const struct ks_tracker *tracker)
{
    for (ks_number n = tracker->mark; n < tracker->reached; n++) {
        const struct ks_slot *slot = ks_tracker_slot(tracker, n);

        if (slot->state == KS_SLOT_SETTLED)
            continue;
        if (slot->state == KS_SLOT_BEGUN || slot->attempts > 0 || slot->torn_in != 0)
            return false;
    }
    return true;
}

void ks_tracker_forget_session(struct ks_tracker *tracker, ks_session_id session)
{
    for (ks_number n = tracker->mark; n < tracker->reached; n++)
        if (ks_tracker_slot(tracker, n)->seen_by == session)
            ks_tracker_slot(tracker, n)->seen_by = KS_SEEN_BY_NONE;
}

/* ---- Settling. ---- */

/* A record that is out returns to the credit of its session. */
static void land(struct ks_tracker *tracker, struct ks_slot *slot, struct ks_credit *credit)
{
    assert(ks_slot_is_out(slot));
    assert(tracker->in_flight > 0);

    if (is_unwritten(slot)) {
        assert(tracker->unwritten > 0);
        slot->torn_in = slot->assignment;
        if (slot->state == KS_SLOT_BEGUN && slot->taken_back < UINT8_MAX)
            slot->taken_back++;
        tracker->unwritten--;
        tracker->unwritten_bytes -= slot->bytes;
        credit->unwritten++;
        credit->unwritten_bytes += slot->bytes;
    }
    credit->unused += slot->state == KS_SLOT_ASSIGNED;
    tracker->in_flight--;
    lane_of(tracker, slot)->in_flight--;
    tracker->in_flight_bytes -= slot->bytes;
    credit->records++;
    credit->bytes += slot->bytes;
}

/* It will not be delivered again. */
static void leave(struct ks_tracker *tracker, struct ks_slot *slot, struct ks_credit *credit)
{
    if (ks_slot_is_out(slot))
        land(tracker, slot, credit);
    if (slot->state == KS_SLOT_PENDING)
        tracker->pending_bytes -= slot->bytes;
}

static bool is_dying(const struct ks_slot *slot)
{
    return slot->state == KS_SLOT_DYING || slot->state == KS_SLOT_BURYING;
}

struct ks_credit ks_tracker_settle(struct ks_tracker *tracker, ks_number number)
{
    struct ks_credit credit = {0};
    struct ks_slot *slot = ks_tracker_slot(tracker, number);

    assert(number < tracker->fetched);
    if (number < tracker->mark || slot->state == KS_SLOT_SETTLED)
        return credit;
    leave(tracker, slot, &credit);
    if (is_dying(slot))
        tracker->dying--;
    slot->state = KS_SLOT_SETTLED;
    tracker->settled++;
    while (tracker->mark < tracker->fetched) {
        slot = ks_tracker_slot(tracker, tracker->mark);
        if (slot->state != KS_SLOT_SETTLED)
            break;
        tracker->bytes -= slot->bytes;
        tracker->settled--;
        tracker->mark++;
    }
    /* A record that was never delivered can be settled, too: it was too old, or too large. */
    if (tracker->delivered < tracker->mark)
        tracker->delivered = tracker->mark;
    if (tracker->reached < tracker->mark)
        tracker->reached = tracker->mark;
    return credit;
}

struct ks_credit ks_tracker_recall(struct ks_tracker *tracker, ks_number number)
{
    struct ks_credit credit = {0};
    struct ks_lane *lane = lane_of(tracker, ks_tracker_slot(tracker, number));
    ks_number beyond = tracker->unordered ? number + 1 : lane->cursor;

    assert(number >= tracker->mark && number < tracker->fetched);
    for (ks_number n = number; n < beyond; n++) {
        struct ks_slot *slot = ks_tracker_slot(tracker, n);

        if (!ks_slot_is_out(slot) || lane_of(tracker, slot) != lane)
            continue;
        land(tracker, slot, &credit);
        tracker->pending_bytes += slot->bytes;
        slot->state = KS_SLOT_PENDING;
        slot->deadline = KS_LONG_AGO;
    }
    if (lane->cursor > number)
        lane->cursor = number;
    return credit;
}

void ks_tracker_delay(struct ks_tracker *tracker, ks_number number, ks_instant not_before)
{
    struct ks_slot *slot = ks_tracker_slot(tracker, number);

    assert(number >= tracker->mark && number < tracker->reached);
    if (slot->state != KS_SLOT_PENDING)
        return;
    slot->deadline = ks_instant_max(slot->deadline, not_before);
    tracker->delay_bound = ks_instant_max(tracker->delay_bound, slot->deadline);
    tracker->ready_bound = ks_instant_min(tracker->ready_bound, slot->deadline);
}

struct ks_credit ks_tracker_kill(struct ks_tracker *tracker, ks_number number, enum ks_cause cause)
{
    struct ks_slot *slot = ks_tracker_slot(tracker, number);
    struct ks_credit credit = {0};

    assert(number >= tracker->mark && number < tracker->fetched);
    if (!is_open(slot))
        return credit;
    leave(tracker, slot, &credit);
    if (cause != KS_CAUSE_ASKED && slot->attempts > 0) {
        lane_of(tracker, slot)->given_up = number;
        lane_of(tracker, slot)->given_up_in = slot->seen_in;
    }
    slot->state = KS_SLOT_DYING;
    slot->cause = (unsigned)cause & 3u;
    tracker->dying++;
    return credit;
}

bool ks_tracker_bury(struct ks_tracker *tracker, uint32_t most, struct ks_tracker_run *ret_run)
{
    struct ks_tracker_run run = {.first = tracker->mark, .large = KS_NUMBER_NONE};
    const struct ks_slot *first;

    while (run.first < tracker->fetched &&
           ks_tracker_slot(tracker, run.first)->state != KS_SLOT_DYING)
        run.first++;
    first = ks_tracker_slot(tracker, run.first);
    for (ks_number n = run.first; n < tracker->fetched && run.count < most; n++) {
        struct ks_slot *slot = ks_tracker_slot(tracker, n);

        if (slot->state != KS_SLOT_DYING || slot->cause != first->cause ||
            slot->attempts != first->attempts ||
            (run.count > 0 && run.bytes + slot->bytes > KS_BURY_BYTES_MAX))
            break;
        slot->state = KS_SLOT_BURYING;
        run.bytes += slot->bytes;
        run.count++;
    }
    run.attempt = first->attempts;
    *ret_run = run;
    return run.count > 0;
}

void ks_tracker_exhume(struct ks_tracker *tracker, const struct ks_tracker_run *run)
{
    for (ks_number n = run->first; n < run->first + run->count; n++)
        if (n >= tracker->mark && ks_tracker_slot(tracker, n)->state == KS_SLOT_BURYING)
            ks_tracker_slot(tracker, n)->state = KS_SLOT_DYING;
}

static bool waits(const struct ks_slot *slot, ks_instant now)
{
    return slot->state == KS_SLOT_PENDING && !ks_instant_reached(now, slot->deadline);
}

uint64_t ks_tracker_blocked(const struct ks_tracker *tracker, ks_instant now)
{
    uint64_t lanes = 0;

    /* Of a thousand leases none may wait: their slots are not looked at. */
    if (ks_instant_reached(now, tracker->delay_bound))
        return 0;
    for (ks_number n = tracker->mark; n < tracker->reached; n++)
        if (waits(ks_tracker_slot(tracker, n), now))
            lanes |= UINT64_C(1) << ks_tracker_lane(tracker, ks_tracker_slot(tracker, n));
    return lanes;
}

bool ks_tracker_waiting(const struct ks_tracker *tracker, ks_number *ret_number)
{
    ks_number first = tracker->dying > 0 ? tracker->mark : tracker->fetched;

    if (tracker->pending_bytes == 0 && tracker->dying == 0)
        return false;
    for (uint32_t lane = 0; lane < tracker->lane_count; lane++)
        first = tracker->lanes[lane].cursor < first ? tracker->lanes[lane].cursor : first;
    for (ks_number n = first < tracker->mark ? tracker->mark : first; n < tracker->fetched; n++) {
        const struct ks_slot *slot = ks_tracker_slot(tracker, n);

        if (slot->state != KS_SLOT_PENDING && !is_dying(slot))
            continue;
        *ret_number = n;
        return true;
    }
    return false;
}

bool ks_tracker_ready(struct ks_tracker *tracker, ks_instant now)
{
    ks_instant bound = KS_NEVER;

    if (!ks_instant_reached(now, tracker->ready_bound))
        return false;
    for (ks_number n = tracker->mark;
         n < tracker->reached && !ks_instant_reached(now, tracker->delay_bound); n++)
        if (waits(ks_tracker_slot(tracker, n), now))
            bound = ks_instant_min(bound, ks_tracker_slot(tracker, n)->deadline);
    tracker->ready_bound = bound;
    return true;
}

bool ks_tracker_extend(struct ks_tracker *tracker, ks_number number, ks_instant deadline)
{
    struct ks_slot *slot = ks_tracker_slot(tracker, number);

    if (!is_in_memory(tracker, number) || slot->state != KS_SLOT_WRITTEN)
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
    for (ks_number n = tracker->mark; n < tracker->reached; n++) {
        const struct ks_slot *slot = ks_tracker_slot(tracker, n);

        if (slot->state != KS_SLOT_WRITTEN)
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

/* ---- The filter of the sessions. ---- */

void ks_tracker_judge_again(struct ks_tracker *tracker, bool another)
{
    assert(!another || tracker->in_flight == 0);

    tracker->judged = tracker->mark;
    for (ks_number n = tracker->mark; another && n < tracker->fetched; n++)
        ks_tracker_slot(tracker, n)->taken = false;
}

/* ---- Invariants. ---- */

static void check_slot(const struct ks_tracker *tracker, ks_number n)
{
    const struct ks_slot *slot = ks_tracker_slot(tracker, n);
    const struct ks_lane *lane = lane_of(tracker, slot);

    assert(slot->attempts == 0 || n < tracker->reached);
    assert(slot->failures <= slot->attempts);
    assert(slot->state != KS_SLOT_SETTLED || n < tracker->reached || slot->attempts == 0);
    if (slot->state == KS_SLOT_PENDING) {
        assert(lane->cursor <= n);
        assert(!ks_instant_before(tracker->delay_bound, slot->deadline));
    }
    if (ks_slot_is_out(slot)) {
        assert(tracker->unordered || n < lane->cursor);
        assert(n < tracker->reached);
    }
    if (slot->attempts > 0)
        assert(n < tracker->delivered && slot->seen_in > 0);
    if (slot->state == KS_SLOT_WRITTEN) {
        assert(slot->attempts > 0 && slot->torn_in != slot->seen_in);
        assert(!ks_instant_before(slot->deadline, tracker->deadline_bound));
    }
}

void ks_tracker_check(const struct ks_tracker *tracker)
{
    uint32_t in_flight = 0;
    uint32_t unwritten = 0;
    uint32_t begun = 0;
    uint32_t of_lanes = 0;
    uint32_t dying = 0;
    uint32_t settled = 0;
    uint64_t in_flight_bytes = 0;
    uint64_t bytes = 0;
    uint64_t pending_bytes = 0;

    assert(tracker->mark <= tracker->delivered && tracker->delivered <= tracker->reached);
    assert(tracker->reached <= tracker->fetched);
    assert(tracker->fetched - tracker->mark <= tracker->ring && tracker->ring <= tracker->window);
    for (ks_number n = tracker->mark; n < tracker->fetched; n++) {
        const struct ks_slot *slot = ks_tracker_slot(tracker, n);

        check_slot(tracker, n);
        bytes += slot->bytes;
        dying += is_dying(slot);
        settled += slot->state == KS_SLOT_SETTLED;
        begun += slot->state == KS_SLOT_BEGUN;
        pending_bytes += slot->state == KS_SLOT_PENDING ? slot->bytes : 0;
        if (!ks_slot_is_out(slot))
            continue;
        in_flight++;
        in_flight_bytes += slot->bytes;
        unwritten += slot->state != KS_SLOT_WRITTEN;
    }
    for (uint32_t i = 0; i < tracker->lane_count; i++)
        of_lanes += tracker->lanes[i].in_flight;
    assert(tracker->mark == tracker->fetched ||
           ks_tracker_slot(tracker, tracker->mark)->state != KS_SLOT_SETTLED);
    assert(in_flight == tracker->in_flight && in_flight == of_lanes);
    assert(unwritten == tracker->unwritten);
    assert(begun <= tracker->half_way);
    assert(in_flight_bytes == tracker->in_flight_bytes);
    assert(bytes == tracker->bytes);
    assert(pending_bytes == tracker->pending_bytes);
    assert(dying == tracker->dying);
    assert(settled == tracker->settled);
}
