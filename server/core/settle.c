/* SPDX-License-Identifier: Apache-2.0 */
#include "core/settle.h"

#include <assert.h>
#include <stddef.h>

#include "core/lanes.h"
#include "core/lease.h"
#include "core/poison.h"
#include "core/redrive.h"
#include "core/session.h"

static enum ks_settle_status check_session(const struct ks_core *core, ks_session_id id,
                                           uint32_t epoch)
{
    const struct ks_session *session;

    if (id == KS_SESSION_NONE)
        return KS_SETTLE_OK;
    if (id >= core->config.sessions_max)
        return KS_SETTLE_UNKNOWN;
    session = &core->sessions[id];
    if (session->used && session->epoch == epoch)
        return KS_SETTLE_OK;
    if (session->used && epoch >= session->born_epoch && epoch < session->epoch)
        return KS_SETTLE_SESSION_FENCED;
    return KS_SETTLE_SESSION_EXPIRED;
}

/* Whose settlement it is, of which records. */
struct claim {
    ks_session_id session;
    uint64_t assignment; /* As in the event. */
    uint64_t seen_in;    /* An ACK counts for what was written in this one; 0: to the session. */
    ks_number first;
    ks_number beyond;
    enum ks_count count; /* As which its group counts them. */
};

/* Returns how many of them the session may settle that were not settled before, and the first of those. */
static uint64_t count_open(const struct ks_tracker *tracker, const struct claim *claim,
                           ks_number *ret_first)
{
    uint64_t count = 0;

    for (ks_number n = claim->beyond; n > claim->first && n > tracker->mark; n--) {
        if (ks_tracker_is_settled(tracker, n - 1) ||
            !ks_tracker_may_settle(tracker, n - 1, claim->session, claim->seen_in))
            continue;
        *ret_first = n - 1;
        count++;
    }
    return count;
}

/* What one settlement could not do, as the first run of it. */
static void note_expired(struct ks_settled *settled, ks_number number)
{
    if (settled->expired_count == 0)
        settled->expired_first = number;
    if (number == settled->expired_first + settled->expired_count)
        settled->expired_count++;
}

static enum ks_settle_status status_of(const struct ks_settled *settled)
{
    return settled->expired_count > 0 ? KS_SETTLE_EXPIRED : KS_SETTLE_OK;
}

/* It may be delivered again. */
static bool is_open(const struct ks_slot *slot)
{
    return slot->state == KS_SLOT_PENDING || ks_slot_is_out(slot);
}

/* A record that was never written is passed over: the id does not name it. */
static void note_unwritten(struct ks_settled *settled)
{
    settled->unwritten += settled->expired_count == 0;
}

/* True if the settlement counts for the record. One that was never written is passed over. One that was not written to
 * this session, or not in this assignment, is noted: it is delivered again. */
static bool counts(const struct ks_lease *lease, const struct claim *claim, ks_number number,
                   struct ks_settled *settled)
{
    const struct ks_slot *slot = ks_tracker_slot(&lease->tracker, number);

    if (ks_tracker_may_settle(&lease->tracker, number, claim->session, claim->seen_in))
        return true;
    if (is_open(slot) && slot->attempts == 0)
        note_unwritten(settled);
    else if (is_open(slot))
        note_expired(settled, number);
    return false;
}

/* The first record of the claim that is not below the watermark. */
static ks_number first_of(const struct ks_lease *lease, const struct claim *claim)
{
    return claim->first < lease->tracker.mark ? lease->tracker.mark : claim->first;
}

/* Credit of consecutive records of one session and lane, which returns at once. */
struct returning {
    ks_number number; /* One of the records. */
    struct ks_credit credit;
};

static void give_back(struct ks_core *core, struct ks_lease *lease, struct returning *returning)
{
    ks_session_credit(core, lease, returning->number, returning->credit);
    returning->credit = (struct ks_credit){0};
}

static bool is_of_one(const struct ks_tracker *tracker, ks_number one, ks_number other)
{
    const struct ks_slot *a = ks_tracker_slot(tracker, one);
    const struct ks_slot *b = ks_tracker_slot(tracker, other);

    return a->session == b->session && ks_tracker_lane(tracker, a) == ks_tracker_lane(tracker, b);
}

/* Settles a record that the claim counts for. */
static void settle_one(struct ks_core *core, struct ks_lease *lease, ks_number number,
                       struct returning *returning)
{
    struct ks_credit credit = ks_tracker_settle(&lease->tracker, number);

    if (credit.records == 0)
        return;
    if (returning->credit.records > 0 && !is_of_one(&lease->tracker, returning->number, number))
        give_back(core, lease, returning);
    returning->number = number;
    ks_credit_add(&returning->credit, credit);
}

static void acknowledge(struct ks_core *core, struct ks_lease *lease, const struct claim *claim,
                        struct ks_settled *settled, struct ks_effects *effects)
{
    struct ks_tracker *tracker = &lease->tracker;
    ks_number mark = tracker->mark;
    struct returning returning = {.number = 0};

    settled->up_to = claim->beyond < mark ? claim->beyond : mark;
    for (ks_number n = first_of(lease, claim); n < claim->beyond; n++) {
        if (!ks_tracker_is_settled(tracker, n) && counts(lease, claim, n, settled)) {
            ks_lanes_count(core, lease, n, claim->count);
            settle_one(core, lease, n, &returning);
            settled->count++;
        }
        if (ks_tracker_is_settled(tracker, n))
            settled->up_to = n + 1;
    }
    give_back(core, lease, &returning);
    ks_session_moved(core, lease, mark, effects);
}

/* A record that was settled before is not lost: it is not counted. */
static void drop(struct ks_core *core, struct ks_lease *lease, const struct claim *claim,
                 struct ks_settled *settled, struct ks_effects *effects)
{
    ks_number open = claim->first;
    uint64_t count = count_open(&lease->tracker, claim, &open);
    struct ks_effect *effect;

    if (count > 0) {
        effect = ks_effects_story(effects, KS_STORY_DROPPED, lease->shard, KS_NOBODY);
        effect->story.number = open;
        effect->story.count = (uint32_t)count;
        effect->story.epoch = lease->epoch;
        effect->story.cause = KS_CAUSE_ASKED;
    }
    acknowledge(core, lease, claim, settled, effects);
}

static void bury(struct ks_core *core, struct ks_lease *lease, const struct claim *claim,
                 struct ks_settled *settled)
{
    ks_number mark = lease->tracker.mark;

    settled->up_to = claim->beyond < mark ? claim->beyond : mark;
    for (ks_number n = first_of(lease, claim); n < claim->beyond; n++)
        if (counts(lease, claim, n, settled)) {
            ks_poison_bury(core, lease, n);
            settled->up_to = n + 1;
        }
    core->stirred = true; /* The lane goes on. */
    ks_session_mind(core, lease);
}

/* True if the claim is about the last delivery of the record: an older one has nothing to take back and no deadline. */
static bool is_last(const struct ks_slot *slot, const struct claim *claim)
{
    return slot->session == claim->session &&
           (claim->assignment == 0 || slot->seen_in == claim->assignment);
}

/* Takes back what the session has of the lane after the record. */
static void recall_after(struct ks_core *core, struct ks_lease *lease, uint32_t lane,
                         ks_number number, ks_session_id session)
{
    struct ks_tracker *tracker = &lease->tracker;
    ks_number first = number + 1 > tracker->mark ? number + 1 : tracker->mark;

    for (ks_number n = first; n < tracker->lanes[lane].cursor; n++) {
        const struct ks_slot *slot = ks_tracker_slot(tracker, n);

        if (!ks_slot_is_out(slot) || ks_tracker_lane(tracker, slot) != lane)
            continue;
        if (slot->session == session)
            ks_session_recall(core, lease, n);
        return;
    }
}

/* True if the failure of a delivery that the claim is about gave its record up: by an earlier copy of this retry, or by
 * the ack deadline. It took the later records of the lane back, and the client may not know that. So the retry takes
 * them back again: what the client has by now, too, was delivered before this retry. */
static bool retry_given_up(struct ks_core *core, struct ks_lease *lease, const struct claim *claim)
{
    const struct ks_tracker *tracker = &lease->tracker;
    bool found = false;

    if (claim->assignment == 0 || tracker->unordered)
        return false;
    for (uint32_t i = 0; i < tracker->lane_count; i++) {
        const struct ks_lane *lane = &tracker->lanes[i];

        if (lane->given_up < claim->first || lane->given_up >= claim->beyond ||
            lane->given_up_in != claim->assignment)
            continue;
        recall_after(core, lease, i, lane->given_up, claim->session);
        found = true;
    }
    return found;
}

/* Each record takes the later deliveries of its lane back with it. A record that is with another session by now is not
 * this one's to take back. A record that this retry gives up takes them back, too, and again if the retry is repeated;
 * one that was settled before takes nothing back. The client must know: it drops records that were taken back. */
static enum ks_settle_status retry(struct ks_core *core, struct ks_lease *lease,
                                   const struct claim *claim, ks_span delay,
                                   struct ks_settled *settled)
{
    bool recalled = retry_given_up(core, lease, claim);

    for (ks_number n = first_of(lease, claim); n < claim->beyond; n++) {
        struct ks_slot *slot = ks_tracker_slot(&lease->tracker, n);
        bool again = slot->failed;

        if (!is_open(slot))
            continue;
        if (slot->attempts == 0) {
            note_unwritten(settled);
            continue;
        }
        if (!is_last(slot, claim) ||
            !ks_tracker_may_settle(&lease->tracker, n, claim->session, claim->seen_in)) {
            note_expired(settled, n);
            continue;
        }
        ks_session_recall(core, lease, n);
        ks_poison_failed(core, lease, n, delay);
        settled->count += !again && is_open(slot); /* It may be given up. */
        recalled = true;
    }
    core->stirred = true;
    ks_session_mind(core, lease);
    if (!recalled && settled->expired_count == 0)
        return KS_SETTLE_SETTLED;
    return status_of(settled);
}

/* A settled record needs no deadline any more: it is not expired. */
static enum ks_settle_status extend(struct ks_core *core, struct ks_lease *lease,
                                    const struct claim *claim, ks_span delay,
                                    struct ks_settled *settled)
{
    struct ks_tracker *tracker = &lease->tracker;
    ks_instant deadline = ks_instant_add(core->now, delay);

    for (ks_number n = first_of(lease, claim); n < claim->beyond; n++) {
        const struct ks_slot *slot = ks_tracker_slot(tracker, n);

        if (!is_open(slot))
            continue;
        if (slot->attempts == 0) {
            note_unwritten(settled);
            continue;
        }
        if (!is_last(slot, claim) || !ks_tracker_extend(tracker, n, deadline))
            note_expired(settled, n);
    }
    ks_session_mind(core, lease);
    return status_of(settled);
}

/* Some of them were written, or are settled. */
static bool was_delivered(const struct ks_tracker *tracker, ks_number first, ks_number beyond)
{
    bool some = first == beyond || first < tracker->mark;

    if (beyond < first || beyond > tracker->reached)
        return false;
    for (ks_number n = first; n < beyond && !some; n++)
        some = ks_tracker_slot(tracker, n)->attempts > 0 || ks_tracker_is_settled(tracker, n);
    return some;
}

static enum ks_settle_status settle(struct ks_core *core, const struct ks_event *event,
                                    struct ks_settled *settled, struct ks_effects *effects)
{
    struct ks_lease *lease = ks_lease_of(core, event->settle.shard, event->settle.epoch);
    const struct claim claim = {
        .session = event->settle.session,
        .assignment = event->settle.assignment,
        .seen_in = event->settle.alone ? 0 : event->settle.assignment,
        .first = event->settle.first,
        .beyond = event->settle.first + event->settle.count,
        .count = event->settle.outcome == KS_DROP ? KS_COUNT_FAILED : KS_COUNT_ACKED,
    };
    enum ks_settle_status status =
        check_session(core, event->settle.session, event->settle.session_epoch);

    if (status != KS_SETTLE_OK)
        return status;
    if (event->settle.shard == KS_SHARD_NONE)
        return ks_redrive_settle(core, event, settled);
    if (lease == NULL || lease->given_up)
        return KS_SETTLE_FENCED;
    if (!was_delivered(&lease->tracker, claim.first, claim.beyond))
        return KS_SETTLE_UNKNOWN;
    switch (event->settle.outcome) {
    case KS_ACK: acknowledge(core, lease, &claim, settled, effects); break;
    case KS_RETRY: return retry(core, lease, &claim, event->settle.delay, settled);
    case KS_EXTEND: return extend(core, lease, &claim, event->settle.delay, settled);
    case KS_DEAD_LETTER: bury(core, lease, &claim, settled); break;
    case KS_DROP: drop(core, lease, &claim, settled, effects); break;
    }
    return status_of(settled);
}

void ks_settle_records(struct ks_core *core, const struct ks_event *event,
                       struct ks_effects *effects)
{
    struct ks_settled settled = {.up_to = event->settle.first + event->settle.count};

    settled.status = settle(core, event, &settled, effects);
    ks_effects_add(effects, KS_EFFECT_SETTLED)->settled = settled;
}

void ks_settle_checkpoint(struct ks_core *core, const struct ks_event *event,
                          struct ks_effects *effects)
{
    struct ks_lease *lease = ks_lease_of(core, event->checkpoint.shard, event->checkpoint.epoch);
    struct ks_settled settled = {.status = KS_SETTLE_OK, .up_to = event->checkpoint.number + 1};

    if (lease == NULL || lease->given_up)
        settled.status = KS_SETTLE_FENCED;
    else if (!was_delivered(&lease->tracker, event->checkpoint.number,
                            event->checkpoint.number + 1))
        settled.status = KS_SETTLE_UNKNOWN;
    else
        acknowledge(core, lease,
                    &(struct claim){.session = KS_SESSION_NONE,
                                    .beyond = settled.up_to,
                                    .count = KS_COUNT_ACKED},
                    &settled, effects);
    ks_effects_add(effects, KS_EFFECT_SETTLED)->settled = settled;
}
