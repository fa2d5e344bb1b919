/* SPDX-License-Identifier: Apache-2.0 */
#include "core/session.h"

#include <assert.h>
#include <stddef.h>

#include "core/lease.h"

/* A poll that ended keeps its lanes for this long, so that a client in a loop does not lose them between two polls. */
#define ABSENCE ks_span_ms(2000)
/* A record that failed so often is told. */
enum { POISON_ATTEMPT = 5 };

static bool present(const struct ks_session *session)
{
    return session->used && (session->attached || (session->pulls && !session->absent));
}

uint32_t ks_session_room(const struct ks_session *session)
{
    if (session->in_flight >= session->max_in_flight)
        return 0;
    if (session->in_flight > 0 && session->in_flight_bytes >= session->max_in_flight_bytes)
        return 0;
    return session->max_in_flight - session->in_flight;
}

bool ks_session_accepts(const struct ks_session *session, ks_shard shard)
{
    if (session->shard_count == 0)
        return true;
    for (uint32_t i = 0; i < session->shard_count; i++)
        if (session->shards[i] == shard)
            return true;
    return false;
}

static bool lane_open(const struct ks_core *core, const struct ks_lease *lease,
                      ks_session_id session)
{
    return lease->used && lease->session == session && lease->yield_to == KS_SESSION_NONE &&
           ks_lease_may_deliver(core, lease);
}

/* ---- Open, take over, close. ---- */

void ks_session_credit(struct ks_core *core, struct ks_lease *lease, struct ks_credit credit)
{
    struct ks_session *session;

    if (credit.records == 0)
        return;
    assert(lease->session < core->config.sessions_max);
    session = &core->sessions[lease->session];
    assert(session->in_flight >= credit.records);
    assert(session->in_flight_bytes >= credit.bytes);
    session->in_flight -= credit.records;
    session->in_flight_bytes -= credit.bytes;
    core->stirred = true;
    if (lease->tracker.in_flight == 0 && lease->yield_to != KS_SESSION_NONE)
        core->unbalanced = true;
}

/* All that is in flight with this session goes back into its lanes. */
static void requeue(struct ks_core *core, ks_session_id id)
{
    for (uint32_t i = 0; i < core->leases_top; i++) {
        struct ks_lease *lease = &core->leases[i];

        if (!lease->used || lease->session != id || lease->tracker.in_flight == 0)
            continue;
        ks_session_credit(core, lease, ks_tracker_recall(&lease->tracker, lease->tracker.mark));
    }
    core->stirred = true;
}

/* Nothing of it is in flight any more, and no lane is its own. */
static void strip(struct ks_core *core, ks_session_id id)
{
    requeue(core, id);
    assert(core->sessions[id].in_flight == 0 && core->sessions[id].in_flight_bytes == 0);
    for (uint32_t i = 0; i < core->leases_top; i++) {
        struct ks_lease *lease = &core->leases[i];

        if (lease->used && lease->session == id)
            lease->session = KS_SESSION_NONE;
        if (lease->used && lease->yield_to == id)
            lease->yield_to = KS_SESSION_NONE;
    }
    core->unbalanced = true;
}

static void end(struct ks_core *core, ks_session_id id)
{
    strip(core, id);
    core->sessions[id].used = false;
    core->sessions_used--;
    while (core->sessions_top > 0 && !core->sessions[core->sessions_top - 1].used)
        core->sessions_top--;
    if (core->sessions_used == 0)
        core->idle_at = ks_instant_add(core->now, core->config.idle_release);
}

static void say_ended(struct ks_effects *effects, ks_session_id id, enum ks_session_end why)
{
    struct ks_effect *effect = ks_effects_add(effects, KS_EFFECT_SESSION_ENDED);

    effect->session.session = id;
    effect->session.why = why;
}

static ks_session_id free_slot(const struct ks_core *core)
{
    for (ks_session_id id = 0; id < core->config.sessions_max; id++)
        if (!core->sessions[id].used)
            return id;
    return KS_SESSION_NONE;
}

void ks_session_open(struct ks_core *core, const struct ks_event *event, struct ks_effects *effects)
{
    ks_session_id id = event->open.take_over;
    struct ks_session *session;
    uint32_t epoch;
    uint32_t born;

    if (core->draining ||
        (id == KS_SESSION_NONE && core->sessions_used == core->config.sessions_max)) {
        struct ks_effect *refusal = ks_effects_add(effects, KS_EFFECT_NOT_OPENED);

        refusal->session.session = KS_SESSION_NONE;
        refusal->session.why_not = core->draining ? KS_NOT_OPENED_DRAINING : KS_NOT_OPENED_FULL;
        return;
    }
    if (id != KS_SESSION_NONE) {
        assert(core->sessions[id].used);
        strip(core, id); /* It may name other shards now. */
        say_ended(effects, id, KS_END_TAKEN_OVER);
    } else {
        id = free_slot(core);
        core->sessions_used++;
    }
    session = &core->sessions[id];
    epoch = session->epoch + 1;
    born = session->used ? session->born_epoch : epoch;
    assert(event->open.shard_count <= KS_SESSION_SHARDS_MAX);
    *session = (struct ks_session){
        .used = true,
        .attached = true,
        .pulls = event->open.pulls,
        .epoch = epoch,
        .born_epoch = born,
        .max_in_flight = event->open.max_in_flight,
        .max_in_flight_bytes = event->open.max_in_flight_bytes,
        .ack_deadline = event->open.ack_deadline,
        .grace = event->open.grace,
        .linger = event->open.linger,
        .over_at = event->open.pulls ? ks_instant_add(core->now, event->open.linger) : KS_NEVER,
        .absent_at = KS_NEVER,
        .shard_count = event->open.shard_count,
    };
    for (uint32_t i = 0; i < event->open.shard_count; i++)
        session->shards[i] = event->open.shards[i];
    if (core->sessions_top <= id)
        core->sessions_top = id + 1;
    core->unbalanced = true;
    struct ks_effect *opened = ks_effects_add(effects, KS_EFFECT_OPENED);
    opened->session.session = id;
    opened->session.session_epoch = epoch;
}

void ks_session_detach(struct ks_core *core, ks_session_id id)
{
    struct ks_session *session = &core->sessions[id];

    if (!session->used || !session->attached)
        return;
    session->attached = false;
    session->hungry = false;
    if (session->pulls)
        session->absent_at = ks_instant_add(core->now, ABSENCE);
    else
        session->over_at = ks_instant_add(core->now, session->grace);
    core->unbalanced = true;
}

void ks_session_close(struct ks_core *core, ks_session_id id)
{
    if (core->sessions[id].used)
        end(core, id);
}

void ks_session_end_all(struct ks_core *core, struct ks_effects *effects)
{
    for (ks_session_id id = 0; id < core->config.sessions_max; id++) {
        if (!core->sessions[id].used)
            continue;
        if (!ks_effects_room(core, effects, 1))
            return;
        end(core, id);
        say_ended(effects, id, KS_END_DRAINED);
    }
}

void ks_session_forget_lease(struct ks_core *core, struct ks_lease *lease)
{
    if (lease->tracker.in_flight > 0)
        ks_session_credit(core, lease, ks_tracker_recall(&lease->tracker, lease->tracker.mark));
    lease->session = KS_SESSION_NONE;
    lease->yield_to = KS_SESSION_NONE;
    core->unbalanced = true;
}

/* ---- Pull. ---- */

/* The lane moved, or got a deadline: it is looked at again when that is due. */
static void mind(struct ks_core *core, struct ks_lease *lease)
{
    ks_instant until;

    if (lease->tracker.in_flight > 0)
        core->lanes_due = ks_instant_min(core->lanes_due, lease->tracker.deadline_bound);
    lease->blocked = ks_tracker_blocked(&lease->tracker, core->now, &until);
    if (lease->blocked)
        core->lanes_due = ks_instant_min(core->lanes_due, until);
}

/* Delivers what is next in the lane. False if that is nothing, or a record larger than max_bytes that may not be. */
static bool deliver_run(struct ks_core *core, struct ks_lease *lease, ks_session_id id,
                        uint32_t max_records, uint64_t max_bytes, bool may_exceed,
                        struct ks_tracker_run *ret_run, struct ks_effects *effects)
{
    struct ks_session *session = &core->sessions[id];
    struct ks_tracker_run run;
    struct ks_effect *effect;

    if (!ks_tracker_next(&lease->tracker, core->now, max_records, max_bytes, &run) ||
        (run.bytes > max_bytes && !may_exceed))
        return false;
    ks_tracker_send(&lease->tracker, &run, id, ks_instant_add(core->now, session->ack_deadline));
    mind(core, lease);
    core->thirsty = true; /* Less is read ahead now. */
    session->in_flight += run.count;
    session->in_flight_bytes += run.bytes;
    effect = ks_effects_add(effects, KS_EFFECT_DELIVER);
    effect->deliver.session = id;
    effect->deliver.shard = lease->shard;
    effect->deliver.epoch = lease->epoch;
    effect->deliver.first = run.first;
    effect->deliver.count = run.count;
    effect->deliver.attempt = run.attempt;
    if (run.attempt == POISON_ATTEMPT) {
        effect = ks_effects_story(effects, KS_STORY_POISON, lease->shard, KS_NOBODY);
        effect->story.number = run.first;
        effect->story.count = run.attempt - 1;
        effect->story.epoch = lease->epoch;
    }
    *ret_run = run;
    return true;
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Bytes that the session may still take; 0 only if it has something in flight already. */
static uint64_t room_bytes(const struct ks_session *session)
{
    if (session->in_flight_bytes >= session->max_in_flight_bytes)
        return 0;
    return session->max_in_flight_bytes - session->in_flight_bytes;
}

void ks_session_pull(struct ks_core *core, const struct ks_event *event, struct ks_effects *effects)
{
    ks_session_id id = event->pull.session;
    struct ks_session *session = &core->sessions[id];
    uint32_t left = event->pull.max_records;
    uint64_t bytes_left = event->pull.max_bytes;
    uint32_t runs = 0;
    uint32_t idle_lanes = 0;

    assert(session->used);
    session->attached = true;
    if (session->pulls) {
        session->over_at = ks_instant_add(core->now, session->linger);
        core->unbalanced |= session->absent;
        session->absent = false;
        session->absent_at = KS_NEVER;
    }
    while (idle_lanes < core->leases_top && runs < event->pull.max_runs && left > 0 &&
           ks_effects_room(core, effects, 2)) {
        struct ks_lease *lease;
        struct ks_tracker_run run;
        uint32_t room = ks_session_room(session);

        if (room == 0 || (runs > 0 && bytes_left == 0))
            break;
        if (core->pull_cursor >= core->leases_top)
            core->pull_cursor = 0;
        lease = &core->leases[core->pull_cursor++];
        if (!lane_open(core, lease, id) ||
            !deliver_run(core, lease, id, left < room ? left : room,
                         min_u64(bytes_left, room_bytes(session)), runs == 0, &run, effects)) {
            idle_lanes++;
            continue;
        }
        idle_lanes = 0;
        runs++;
        left -= run.count;
        bytes_left -= min_u64(bytes_left, run.bytes);
    }
    session->hungry = runs == 0;
}

/* ---- Settle. ---- */

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

static void acknowledge(struct ks_core *core, struct ks_lease *lease, ks_number first,
                        ks_number beyond, struct ks_effects *effects)
{
    ks_number mark = lease->tracker.mark;

    for (ks_number n = first < mark ? mark : first; n < beyond; n++)
        ks_session_credit(core, lease, ks_tracker_settle(&lease->tracker, n));
    core->stirred |= lease->blocked; /* What the lane waited for may be settled. */
    core->thirsty = true;
    mind(core, lease);
    ks_lease_settled(lease, mark, effects);
}

/* The first record of the range that is in flight takes all later ones back with it; those of the range wait. */
static void retry(struct ks_core *core, struct ks_lease *lease, ks_number first, ks_number beyond,
                  ks_span delay)
{
    struct ks_tracker *tracker = &lease->tracker;

    for (ks_number n = first < tracker->mark ? tracker->mark : first; n < beyond; n++) {
        if (ks_tracker_slot(tracker, n)->state == KS_SLOT_SENT)
            ks_session_credit(core, lease, ks_tracker_recall(tracker, n));
        ks_tracker_delay(tracker, n, ks_instant_add(core->now, delay));
    }
    core->stirred = true;
    mind(core, lease);
}

/* Settled records need no deadline any more: of them nothing is expired. */
static enum ks_settle_status extend(struct ks_core *core, struct ks_lease *lease,
                                    const struct ks_event *event, struct ks_settled *settled)
{
    struct ks_tracker *tracker = &lease->tracker;
    ks_instant deadline = ks_instant_add(core->now, event->settle.delay);
    ks_number first = event->settle.first;
    ks_number beyond = first + event->settle.count;

    for (ks_number n = first < tracker->mark ? tracker->mark : first; n < beyond; n++) {
        const struct ks_slot *slot = ks_tracker_slot(tracker, n);

        if (slot->state == KS_SLOT_SETTLED ||
            (slot->session == event->settle.session && ks_tracker_extend(tracker, n, deadline)))
            continue;
        if (settled->expired_count == 0)
            settled->expired_first = n;
        if (n == settled->expired_first + settled->expired_count)
            settled->expired_count++;
    }
    mind(core, lease);
    return settled->expired_count > 0 ? KS_SETTLE_EXPIRED : KS_SETTLE_OK;
}

static enum ks_settle_status settle(struct ks_core *core, const struct ks_event *event,
                                    struct ks_settled *settled, struct ks_effects *effects)
{
    struct ks_lease *lease = ks_lease_of(core, event->settle.shard, event->settle.epoch);
    ks_number first = event->settle.first;
    ks_number beyond = first + event->settle.count;
    enum ks_settle_status status =
        check_session(core, event->settle.session, event->settle.session_epoch);

    if (status != KS_SETTLE_OK)
        return status;
    if (lease == NULL || lease->given_up)
        return KS_SETTLE_FENCED;
    if (beyond < first || beyond > lease->tracker.delivered)
        return KS_SETTLE_UNKNOWN;
    switch (event->settle.outcome) {
    case KS_ACK: acknowledge(core, lease, first, beyond, effects); return KS_SETTLE_OK;
    case KS_RETRY: retry(core, lease, first, beyond, event->settle.delay); return KS_SETTLE_OK;
    case KS_EXTEND: return extend(core, lease, event, settled);
    }
    assert(false);
    return KS_SETTLE_UNKNOWN;
}

void ks_session_settle(struct ks_core *core, const struct ks_event *event,
                       struct ks_effects *effects)
{
    struct ks_settled settled = {.up_to = event->settle.first + event->settle.count};

    settled.status = settle(core, event, &settled, effects);
    ks_effects_add(effects, KS_EFFECT_SETTLED)->settled = settled;
}

void ks_session_checkpoint(struct ks_core *core, const struct ks_event *event,
                           struct ks_effects *effects)
{
    struct ks_lease *lease = ks_lease_of(core, event->checkpoint.shard, event->checkpoint.epoch);
    enum ks_settle_status status = KS_SETTLE_OK;
    struct ks_effect *effect;

    if (lease == NULL || lease->given_up)
        status = KS_SETTLE_FENCED;
    else if (event->checkpoint.number >= lease->tracker.delivered)
        status = KS_SETTLE_UNKNOWN;
    else
        acknowledge(core, lease, 0, event->checkpoint.number + 1, effects);
    effect = ks_effects_add(effects, KS_EFFECT_SETTLED);
    effect->settled.status = status;
    effect->settled.up_to = event->checkpoint.number + 1;
}

/* ---- Lanes. ---- */

/* The present session that accepts the shard and has the fewest lanes; NONE if nobody does. */
static ks_session_id poorest(const struct ks_core *core, ks_shard shard)
{
    ks_session_id best = KS_SESSION_NONE;

    for (ks_session_id id = 0; id < core->sessions_top; id++) {
        const struct ks_session *session = &core->sessions[id];

        if (!present(session) || !ks_session_accepts(session, shard))
            continue;
        if (best == KS_SESSION_NONE || session->lanes < core->sessions[best].lanes)
            best = id;
    }
    return best;
}

/* Gives the lane to `id`: at once if nothing of it is in flight, else as soon as that is so. */
static void pass_lane(struct ks_core *core, struct ks_lease *lease, ks_session_id id)
{
    ks_session_id planned = lease->yield_to != KS_SESSION_NONE ? lease->yield_to : lease->session;

    if (planned != KS_SESSION_NONE)
        core->sessions[planned].lanes--;
    core->sessions[id].lanes++;
    lease->yield_to = KS_SESSION_NONE;
    if (lease->session == id)
        return;
    if (lease->tracker.in_flight == 0)
        lease->session = id;
    else
        lease->yield_to = id;
}

static void count_lanes(struct ks_core *core)
{
    for (ks_session_id id = 0; id < core->sessions_top; id++)
        core->sessions[id].lanes = 0;
    for (uint32_t i = 0; i < core->leases_top; i++) {
        struct ks_lease *lease = &core->leases[i];
        ks_session_id planned;

        if (!lease->used)
            continue;
        if (lease->yield_to != KS_SESSION_NONE && lease->tracker.in_flight == 0) {
            lease->session = lease->yield_to;
            lease->yield_to = KS_SESSION_NONE;
        }
        planned = lease->yield_to != KS_SESSION_NONE ? lease->yield_to : lease->session;
        if (planned != KS_SESSION_NONE)
            core->sessions[planned].lanes++;
    }
}

/* Whom the lane should belong to: a session that is there, and none with two lanes more than another. */
static ks_session_id rightful(const struct ks_core *core, const struct ks_lease *lease)
{
    ks_session_id planned = lease->yield_to != KS_SESSION_NONE ? lease->yield_to : lease->session;
    ks_session_id candidate = poorest(core, lease->shard);

    if (candidate == KS_SESSION_NONE || planned == KS_SESSION_NONE)
        return candidate == KS_SESSION_NONE ? planned : candidate;
    if (!present(&core->sessions[planned]))
        return candidate;
    if (core->sessions[candidate].lanes + 1 < core->sessions[planned].lanes)
        return candidate;
    return planned;
}

/* One pass settles it: each lane moves at most to the poorest, which never leaves two more behind elsewhere than one
 * more pass would find; that pass comes while `unbalanced` stays set. */
static void balance(struct ks_core *core)
{
    bool moved = false;

    count_lanes(core);
    for (uint32_t i = 0; i < core->leases_top; i++) {
        struct ks_lease *lease = &core->leases[i];
        ks_session_id owner;

        if (!lease->used || lease->state != KS_LEASE_HELD)
            continue;
        owner = rightful(core, lease);
        if (owner == KS_SESSION_NONE)
            continue;
        if (owner != (lease->yield_to != KS_SESSION_NONE ? lease->yield_to : lease->session)) {
            pass_lane(core, lease, owner);
            moved = true;
        }
    }
    core->unbalanced = moved;
    core->stirred = true;
}

/* ---- The end of a step. ---- */

static void check_lane(struct ks_core *core, struct ks_lease *lease)
{
    bool blocked = lease->blocked;
    ks_number overdue;

    while (ks_tracker_overdue(&lease->tracker, core->now, &overdue))
        ks_session_credit(core, lease, ks_tracker_recall(&lease->tracker, overdue));
    mind(core, lease);
    core->stirred |= blocked && !lease->blocked;
}

static void check_lanes(struct ks_core *core)
{
    if (!ks_instant_reached(core->now, core->lanes_due))
        return;
    core->lanes_due = KS_NEVER;
    for (uint32_t i = 0; i < core->leases_top; i++)
        if (core->leases[i].used)
            check_lane(core, &core->leases[i]);
}

static void check_session_time(struct ks_core *core, ks_session_id id, struct ks_effects *effects)
{
    struct ks_session *session = &core->sessions[id];

    if (!session->used)
        return;
    if (session->pulls && !session->absent && ks_instant_reached(core->now, session->absent_at)) {
        session->absent = true;
        core->unbalanced = true;
    }
    if (session->attached && session->pulls)
        return; /* A poll is waiting. */
    if (ks_instant_reached(core->now, session->over_at) && ks_effects_room(core, effects, 1)) {
        bool pulls = session->pulls;

        end(core, id);
        say_ended(effects, id, pulls ? KS_END_LINGER : KS_END_GRACE);
    }
}

static bool can_deliver(struct ks_core *core, ks_session_id id)
{
    struct ks_tracker_run run;

    if (ks_session_room(&core->sessions[id]) == 0)
        return false;
    for (uint32_t i = 0; i < core->leases_top; i++) {
        struct ks_lease *lease = &core->leases[i];

        if (lane_open(core, lease, id) && ks_tracker_next(&lease->tracker, core->now, 1, 0, &run))
            return true;
    }
    return false;
}

static void wake(struct ks_core *core, struct ks_effects *effects)
{
    core->stirred = false;
    for (ks_session_id id = 0; id < core->sessions_top; id++) {
        struct ks_session *session = &core->sessions[id];

        if (!session->used || !session->hungry || !can_deliver(core, id))
            continue;
        if (!ks_effects_room(core, effects, 1)) {
            core->stirred = true;
            return;
        }
        session->hungry = false;
        ks_effects_add(effects, KS_EFFECT_WAKE)->session.session = id;
    }
}

void ks_session_turn(struct ks_core *core, struct ks_effects *effects)
{
    check_lanes(core);
    for (ks_session_id id = 0; id < core->sessions_top; id++)
        check_session_time(core, id, effects);
    if (core->unbalanced)
        balance(core);
    if (core->stirred)
        wake(core, effects);
}

ks_instant ks_session_deadline(const struct ks_core *core)
{
    ks_instant due = core->stirred || core->unbalanced ? core->now : core->lanes_due;

    for (ks_session_id id = 0; id < core->sessions_top; id++) {
        const struct ks_session *session = &core->sessions[id];

        if (!session->used)
            continue;
        if (session->pulls && !session->absent)
            due = ks_instant_min(due, session->absent_at);
        if (!(session->attached && session->pulls))
            due = ks_instant_min(due, session->over_at);
    }
    return due;
}

enum ks_idle ks_session_idle(const struct ks_core *core, const struct ks_session *session)
{
    bool any = false;
    bool paused = true;
    bool throttled = false;
    bool blocked = false;
    ks_instant until;

    if (core->draining)
        return KS_IDLE_DRAINING;
    for (uint32_t i = 0; i < core->leases_top; i++) {
        const struct ks_lease *lease = &core->leases[i];

        if (!lease->used || !ks_session_accepts(session, lease->shard))
            continue;
        any = true;
        paused &= ks_core_paused(core, lease->shard);
        throttled |= lease->throttled;
        blocked |= lease->cramped || ks_tracker_blocked(&lease->tracker, core->now, &until) ||
                   ks_tracker_room(&lease->tracker) == 0;
    }
    if (any ? paused : core->pause.on)
        return KS_IDLE_PAUSED;
    if (!any)
        return KS_IDLE_NO_LEASES;
    if (!ks_core_serving(core))
        return KS_IDLE_FENCED;
    if (session->max_in_flight > 0 && ks_session_room(session) == 0)
        return KS_IDLE_FLOW_CONTROLLED;
    if (blocked)
        return KS_IDLE_LANE_BLOCKED;
    return throttled ? KS_IDLE_THROTTLED : KS_IDLE_NO_DATA;
}
