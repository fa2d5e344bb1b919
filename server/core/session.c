/* SPDX-License-Identifier: Apache-2.0 */
#include "core/session.h"

#include <assert.h>
#include <stddef.h>

#include "core/judge.h"
#include "core/lanes.h"
#include "core/lease.h"
#include "core/poison.h"
#include "core/redrive.h"

/* A poll that ended keeps its lanes for this long, so that a client in a loop does not lose them between two polls. */
#define ABSENCE ks_span_ms(2000)
uint32_t ks_session_room(const struct ks_session *session)
{
    uint32_t room;

    if (session->in_flight >= session->max_in_flight)
        return 0;
    if (session->in_flight > 0 && session->in_flight_bytes >= session->max_in_flight_bytes)
        return 0;
    room = session->max_in_flight - session->in_flight;
    return session->explicit_credit && session->granted < room ? session->granted : room;
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

/* ---- Open, take over, close. ---- */

void ks_session_credit(struct ks_core *core, struct ks_lease *lease, ks_number number,
                       struct ks_credit credit)
{
    const struct ks_slot *slot = ks_tracker_slot(&lease->tracker, number);
    const struct ks_lane *lane = &lease->tracker.lanes[ks_tracker_lane(&lease->tracker, slot)];
    struct ks_session *session;

    if (credit.records == 0)
        return;
    assert(slot->session < core->config.sessions_max);
    session = &core->sessions[slot->session];
    assert(session->in_flight >= credit.records);
    assert(session->in_flight_bytes >= credit.bytes);
    session->in_flight -= credit.records;
    session->in_flight_bytes -= credit.bytes;
    session->unwritten -= credit.unwritten;
    session->unwritten_bytes -= credit.unwritten_bytes;
    ks_session_grant(core, slot->session, credit.unused);
    core->stirred = true;
    if (lane->in_flight == 0 && lane->yield_to != KS_SESSION_NONE)
        core->unbalanced = true;
}

void ks_session_recall(struct ks_core *core, struct ks_lease *lease, ks_number number)
{
    if (ks_slot_is_out(ks_tracker_slot(&lease->tracker, number)))
        ks_session_credit(core, lease, number, ks_tracker_recall(&lease->tracker, number));
}

void ks_session_unassign(struct ks_core *core, struct ks_lease *lease, uint64_t lanes)
{
    struct ks_tracker *tracker = &lease->tracker;

    for (ks_number n = tracker->reached; n > tracker->mark && tracker->unwritten > 0; n--) {
        const struct ks_slot *slot = ks_tracker_slot(tracker, n - 1);
        uint64_t lane = UINT64_C(1) << ks_tracker_lane(tracker, slot);

        if ((lanes & lane) == 0 || !ks_slot_is_out(slot))
            continue;
        if (slot->state == KS_SLOT_ASSIGNED)
            ks_session_recall(core, lease, n - 1);
        else if (!tracker->unordered)
            lanes &= ~lane;
    }
}

/* All that is in flight with this session goes back into its lanes. If it `failed`, the first record of each lane did,
 * if it was written: an app that dies of a record dies of the one that it was working on. */
static void requeue(struct ks_core *core, ks_session_id id, bool failed)
{
    for (uint32_t i = 0; i < core->leases_top && core->sessions[id].in_flight > 0; i++) {
        struct ks_lease *lease = &core->leases[i];
        struct ks_tracker *tracker = &lease->tracker;

        if (!lease->used || tracker->in_flight == 0)
            continue;
        for (ks_number n = tracker->mark; n < tracker->reached; n++) {
            const struct ks_slot *slot = ks_tracker_slot(tracker, n);
            bool written = slot->state == KS_SLOT_WRITTEN;

            if (!ks_slot_is_out(slot) || slot->session != id)
                continue;
            ks_session_recall(core, lease, n);
            if (failed && written)
                ks_poison_failed(core, lease, n, ks_span_us(0));
        }
    }
    core->stirred = true;
}

/* Nothing of it is in flight any more, no lane is its own, and its ids are void. */
static void strip(struct ks_core *core, ks_session_id id, bool failed)
{
    failed = failed && !core->sessions[id].cut;
    requeue(core, id, failed);
    ks_redrive_requeue(core, id, failed);
    for (uint32_t i = 0; i < core->leases_top; i++)
        if (core->leases[i].used)
            ks_tracker_forget_session(&core->leases[i].tracker, id);
    assert(core->sessions[id].in_flight == 0 && core->sessions[id].in_flight_bytes == 0);
    ks_lanes_strip(core, id);
}

static void end(struct ks_core *core, ks_session_id id, bool failed)
{
    strip(core, id, failed);
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

/* Of those that poll, hold nothing and have nobody waiting: who was here last the longest ago. A name that nobody comes
 * back under must not keep others out for its linger. */
static ks_session_id quietest(const struct ks_core *core)
{
    ks_session_id found = KS_SESSION_NONE;

    for (ks_session_id id = 0; id < core->sessions_top; id++) {
        const struct ks_session *session = &core->sessions[id];

        if (session->used && session->pulls && !session->attached && session->in_flight == 0 &&
            !session->explicit_credit &&
            (found == KS_SESSION_NONE ||
             ks_instant_before(session->over_at, core->sessions[found].over_at)))
            found = id;
    }
    return found;
}

/* A session that stays has a share that is not the one that is asked for. */
static bool other_share(const struct ks_core *core, const struct ks_event *event)
{
    for (ks_session_id id = 0; id < core->sessions_top; id++) {
        const struct ks_session *session = &core->sessions[id];

        if (session->used && session->share > 0 && id != event->open.take_over &&
            (session->share != event->open.share || session->salt != event->open.salt))
            return true;
    }
    return false;
}

/* Why it cannot be opened; false: it can. */
static bool refuses(const struct ks_core *core, const struct ks_event *event,
                    enum ks_not_opened *ret_why)
{
    ks_session_id id = event->open.take_over;
    uint32_t others = core->sessions_used - (id == KS_SESSION_NONE ? 0 : 1);
    uint32_t lanes = event->open.ordering == KS_ORDER_BY_KEY ? event->open.lanes : 1;

    *ret_why = KS_NOT_OPENED_DRAINING;
    if (core->draining)
        return true;
    *ret_why = KS_NOT_OPENED_FULL;
    if (others == core->config.sessions_max && quietest(core) == KS_SESSION_NONE)
        return true;
    *ret_why = KS_NOT_OPENED_ORDERING;
    if (others > 0 && event->open.ordering != KS_ORDER_ANY &&
        (event->open.ordering != core->ordering || lanes != core->lanes))
        return true;
    *ret_why = KS_NOT_OPENED_FILTER;
    if (others > 0 && event->open.filter != core->filter)
        return true;
    *ret_why = KS_NOT_OPENED_SHARE;
    return event->open.share > 0 && other_share(core, event);
}

/* For one more session, where there is none. */
static void make_place(struct ks_core *core, struct ks_effects *effects)
{
    ks_session_id gone;

    if (core->sessions_used < core->config.sessions_max)
        return;
    gone = quietest(core);
    end(core, gone, false);
    say_ended(effects, gone, KS_END_LINGER);
}

/* The first session says how records are ordered, for all that come while it or one of them is there. */
static void set_order(struct ks_core *core, const struct ks_event *event)
{
    enum ks_ordering ordering = event->open.ordering;
    bool by_key = ordering == KS_ORDER_BY_KEY;

    assert(!by_key || (event->open.lanes > 0 && event->open.lanes <= core->config.lanes_max));
    if (core->sessions_used > 1)
        return;
    ks_lanes_order(core, ordering == KS_ORDER_ANY ? KS_ORDER_BY_SHARD : ordering,
                   by_key ? event->open.lanes : 1);
}

static void fill_session(const struct ks_core *core, const struct ks_event *event,
                         struct ks_session *session)
{
    uint32_t epoch = session->epoch + 1;

    assert(event->open.shard_count <= KS_SESSION_SHARDS_MAX);
    assert(event->open.share == 0 || event->open.ordering == KS_ORDER_BY_KEY);
    *session = (struct ks_session){
        .used = true,
        .attached = true,
        .pulls = event->open.pulls,
        .explicit_credit = event->open.explicit_credit,
        .epoch = epoch,
        .born_epoch = session->used ? session->born_epoch : epoch,
        .max_in_flight = event->open.max_in_flight,
        .max_in_flight_bytes = event->open.max_in_flight_bytes,
        .max_record_bytes =
            event->open.max_record_bytes == 0 ? UINT32_MAX : event->open.max_record_bytes,
        .ack_deadline = event->open.ack_deadline,
        .grace = event->open.grace,
        .linger = event->open.linger,
        .over_at = event->open.pulls ? ks_instant_add(core->now, event->open.linger) : KS_NEVER,
        .absent_at = KS_NEVER,
        .share = event->open.share,
        .salt = event->open.salt,
        .canary = event->open.share == 0
                      ? 0
                      : ks_share_lanes(event->open.share, event->open.salt, core->lanes),
        .shard_count = event->open.shard_count,
    };
    for (uint32_t i = 0; i < event->open.shard_count; i++)
        session->shards[i] = event->open.shards[i];
}

void ks_session_open(struct ks_core *core, const struct ks_event *event, struct ks_effects *effects)
{
    ks_session_id id = event->open.take_over;
    enum ks_not_opened why_not;
    struct ks_effect *effect;

    assert(id == KS_SESSION_NONE || core->sessions[id].used);
    if (refuses(core, event, &why_not)) {
        effect = ks_effects_add(effects, KS_EFFECT_NOT_OPENED);
        effect->session.session = KS_SESSION_NONE;
        effect->session.why_not = why_not;
        return;
    }
    if (id != KS_SESSION_NONE) {
        /* It may name other shards now. */
        strip(core, id, core->sessions[id].attached && !core->sessions[id].pulls);
        say_ended(effects, id, KS_END_TAKEN_OVER);
    } else {
        make_place(core, effects);
        id = free_slot(core);
        core->sessions_used++;
    }
    /* The new session gets its own report of each record that is too large for it. */
    for (uint32_t i = 0; i < core->leases_top; i++)
        core->leases[i].large = KS_NUMBER_NONE;
    set_order(core, event);
    fill_session(core, event, &core->sessions[id]);
    if (core->sessions_top <= id)
        core->sessions_top = id + 1;
    ks_judge_open(core, event->open.filter);
    core->unbalanced = true;
    effect = ks_effects_add(effects, KS_EFFECT_OPENED);
    effect->session.session = id;
    effect->session.session_epoch = core->sessions[id].epoch;
}

void ks_session_grant(struct ks_core *core, ks_session_id id, uint32_t records)
{
    struct ks_session *session = &core->sessions[id];

    if (!session->used || !session->explicit_credit)
        return;
    session->granted =
        records > UINT32_MAX - session->granted ? UINT32_MAX : session->granted + records;
    core->stirred = true;
}

void ks_session_update(struct ks_core *core, const struct ks_event *event)
{
    struct ks_session *session = &core->sessions[event->update.session];

    if (!session->used)
        return;
    if (event->update.max_in_flight != 0)
        session->max_in_flight = event->update.max_in_flight;
    if (event->update.max_in_flight_bytes != 0)
        session->max_in_flight_bytes = event->update.max_in_flight_bytes;
    if (event->update.max_record_bytes != 0)
        session->max_record_bytes = event->update.max_record_bytes;
    /* What waits for a larger limit may go out, and there is room for more, or less, to be read. */
    core->stirred = true;
    core->thirsty = true;
}

void ks_session_detach(struct ks_core *core, ks_session_id id, bool cut)
{
    struct ks_session *session = &core->sessions[id];

    if (!session->used || !session->attached)
        return;
    session->attached = false;
    session->cut = cut && !session->pulls;
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
        end(core, id, false);
}

void ks_session_end_all(struct ks_core *core, struct ks_effects *effects)
{
    for (ks_session_id id = 0; id < core->config.sessions_max; id++) {
        if (!core->sessions[id].used)
            continue;
        if (!ks_effects_room(core, effects, 1))
            return;
        end(core, id, false);
        say_ended(effects, id, KS_END_DRAINED);
    }
}

void ks_session_forget_lease(struct ks_core *core, struct ks_lease *lease)
{
    for (ks_number n = lease->tracker.mark; lease->tracker.in_flight > 0; n++)
        ks_session_recall(core, lease, n);
    core->unbalanced = true;
}

/* ---- Pull. ---- */

void ks_session_mind(struct ks_core *core, const struct ks_lease *lease)
{
    if (lease->tracker.in_flight > 0)
        core->lanes_due = ks_instant_min(core->lanes_due, lease->tracker.deadline_bound);
    core->lanes_due = ks_instant_min(core->lanes_due, lease->tracker.ready_bound);
}

static void send(struct ks_core *core, struct ks_lease *lease, ks_session_id id,
                 const struct ks_tracker_run *run, struct ks_effects *effects)
{
    struct ks_session *session = &core->sessions[id];
    struct ks_effect *effect;

    ks_tracker_assign(&lease->tracker, run, id, core->assignment);
    ks_session_mind(core, lease);
    core->thirsty = true; /* Less is read ahead now. */
    session->in_flight += run->count;
    session->in_flight_bytes += run->bytes;
    session->unwritten += run->count;
    session->unwritten_bytes += run->bytes;
    if (session->explicit_credit)
        session->granted -= run->count;
    effect = ks_effects_add(effects, KS_EFFECT_DELIVER);
    effect->deliver.session = id;
    effect->deliver.shard = lease->shard;
    effect->deliver.epoch = lease->epoch;
    effect->deliver.first = run->first;
    effect->deliver.count = run->count;
    effect->deliver.bytes = run->bytes;
    effect->deliver.attempt = run->attempt;
    effect->deliver.assignment = core->assignment;
    /* Here and not in ks_core_check(): a limit that was lowered since may be less. */
    assert(session->in_flight <= session->max_in_flight);
    ks_poison_delivered(lease, run, effects);
}

/* Delivers what is next in these lanes. False if that is nothing, or a record larger than max_bytes that may not be. */
static bool deliver_run(struct ks_core *core, struct ks_lease *lease, ks_session_id id,
                        struct ks_tracker_ask *ask, bool may_exceed, struct ks_tracker_run *ret_run,
                        struct ks_effects *effects)
{
    bool found;

    ask->lanes = ks_lanes_open(core, lease, id);
    if (ask->lanes == 0)
        return false;
    found = ks_tracker_next(&lease->tracker, ask, core->now, ret_run);
    if (ret_run->large != KS_NUMBER_NONE)
        ks_poison_too_large(core, lease, ret_run->large, effects);
    /* A record that is too old may have stopped the shard. */
    if (ret_run->large != KS_NUMBER_NONE && ks_lanes_open(core, lease, id) == 0)
        return false;
    if (!found || (ret_run->bytes > ask->max_bytes && !may_exceed))
        return false;
    send(core, lease, id, ret_run, effects);
    return true;
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t ks_session_bytes_left(const struct ks_session *session, uint64_t most)
{
    if (session->in_flight_bytes >= session->max_in_flight_bytes)
        return 0;
    return min_u64(most, session->max_in_flight_bytes - session->in_flight_bytes);
}

void ks_session_pull(struct ks_core *core, const struct ks_event *event, struct ks_effects *effects)
{
    ks_session_id id = event->pull.session;
    struct ks_session *session = &core->sessions[id];
    uint32_t left = event->pull.max_records;
    uint64_t bytes_left = event->pull.max_bytes;
    uint32_t idle_leases = 0;
    bool may_exceed = event->pull.after == 0;
    uint32_t runs;

    assert(session->used);
    /* Records of another answer would be missing between those of this one. */
    if (!may_exceed && event->pull.after != session->pulled)
        return;
    session->attached = true;
    if (session->pulls) {
        session->over_at = ks_instant_add(core->now, session->linger);
        core->unbalanced |= session->absent;
        session->absent = false;
        session->absent_at = KS_NEVER;
    }
    core->assignment++;
    runs = ks_redrive_pull(core, event, &bytes_left, effects);
    left -= runs;
    while (idle_leases < core->leases_top && runs < event->pull.max_runs && left > 0 &&
           ks_effects_room(core, effects, 3)) {
        struct ks_lease *lease;
        struct ks_tracker_run run;
        uint32_t room = ks_session_room(session);
        struct ks_tracker_ask ask = {
            .max_records = left < room ? left : room,
            .max_record_bytes = session->max_record_bytes,
            .max_bytes = ks_session_bytes_left(session, bytes_left),
            .judged = core->filter != 0,
        };

        if (room == 0 || ((runs > 0 || !may_exceed) && bytes_left == 0))
            break;
        if (core->pull_cursor >= core->leases_top)
            core->pull_cursor = 0;
        lease = &core->leases[core->pull_cursor++];
        if (!deliver_run(core, lease, id, &ask, may_exceed && runs == 0, &run, effects)) {
            idle_leases++;
            continue;
        }
        idle_leases = 0;
        runs++;
        left -= run.count;
        bytes_left -= min_u64(bytes_left, run.bytes);
    }
    session->hungry = runs == 0;
    if (runs > 0)
        session->pulled = core->assignment;
}

/* ---- Write. ---- */

/* Records of a run. */
struct part {
    ks_number first;
    ks_number end;
    uint64_t assignment;
};

static void write_begun(struct ks_lease *lease, const struct part *part)
{
    for (ks_number n = part->first; n < part->end; n++)
        ks_tracker_begin(&lease->tracker, n, part->assignment);
}

/* The records of an assignment are out with one session, so it is asked once. */
static void write_written(struct ks_core *core, struct ks_lease *lease, const struct part *part,
                          ks_session_id id)
{
    struct ks_session *session = &core->sessions[id];
    struct ks_tracker *tracker = &lease->tracker;
    ks_instant deadline = ks_instant_add(core->now, session->ack_deadline);
    uint32_t unwritten = tracker->unwritten;
    uint64_t unwritten_bytes = tracker->unwritten_bytes;

    for (ks_number n = part->first; n < part->end; n++) {
        if (ks_tracker_written(tracker, n, part->assignment, id, deadline))
            ks_lanes_count(core, lease, n, KS_COUNT_DELIVERED);
    }
    unwritten -= tracker->unwritten;
    unwritten_bytes -= tracker->unwritten_bytes;
    assert(session->unwritten >= unwritten && session->unwritten_bytes >= unwritten_bytes);
    session->unwritten -= unwritten;
    session->unwritten_bytes -= unwritten_bytes;
    ks_session_mind(core, lease);
}

/* The last one first: a record that returns takes those behind it back. */
static void write_torn(struct ks_core *core, struct ks_lease *lease, const struct part *part)
{
    for (ks_number n = part->end; n > part->first; n--)
        ks_session_credit(core, lease, n - 1,
                          ks_tracker_torn(&lease->tracker, n - 1, part->assignment));
}

static void write_returned(struct ks_core *core, struct ks_lease *lease, const struct part *part)
{
    for (ks_number n = part->end; n > part->first; n--)
        ks_session_credit(core, lease, n - 1,
                          ks_tracker_return(&lease->tracker, n - 1, part->assignment));
}

void ks_session_write(struct ks_core *core, const struct ks_event *event)
{
    struct ks_lease *lease = ks_lease_of(core, event->write.shard, event->write.epoch);
    struct part part = {
        .first = event->write.first,
        .end = event->write.first + event->write.count,
        .assignment = event->write.assignment,
    };

    assert(event->write.session < core->config.sessions_max);
    if (event->write.shard == KS_SHARD_NONE) {
        ks_redrive_write(core, event);
        return;
    }
    if (lease == NULL)
        return;
    switch (event->write.stage) {
    case KS_STAGE_BEGUN: write_begun(lease, &part); break;
    case KS_STAGE_WRITTEN: write_written(core, lease, &part, event->write.session); break;
    case KS_STAGE_TORN: write_torn(core, lease, &part); break;
    case KS_STAGE_RETURNED: write_returned(core, lease, &part); break;
    }
}

void ks_session_moved(struct ks_core *core, struct ks_lease *lease, ks_number mark,
                      struct ks_effects *effects)
{
    core->stirred |= !ks_instant_reached(core->now, lease->tracker.delay_bound);
    core->thirsty = true;
    if (lease->stopped && ks_tracker_is_settled(&lease->tracker, lease->stopped_at))
        ks_poison_let_go(core, lease, effects);
    ks_session_mind(core, lease);
    ks_lease_settled(lease, mark, effects);
}

/* ---- The end of a step. ---- */

enum { OVERDUE_TOLD_MS = 60000 };

/* Said at once, and then once a minute of each lease. */
static void tell_overdue(struct ks_core *core, struct ks_lease *lease, ks_number number,
                         struct ks_effects *effects)
{
    struct ks_effect *effect;

    if (!ks_instant_reached(core->now, lease->overdue_at) || !ks_effects_room(core, effects, 1))
        return;
    effect = ks_effects_story(effects, KS_STORY_OVERDUE, lease->shard, KS_NOBODY);
    effect->story.number = number;
    effect->story.count = lease->overdue;
    effect->story.epoch = lease->epoch;
    lease->overdue = 0;
    lease->overdue_at = ks_instant_add(core->now, ks_span_ms(OVERDUE_TOLD_MS));
}

static void check_lanes_of(struct ks_core *core, struct ks_lease *lease, struct ks_effects *effects)
{
    ks_number overdue = KS_NUMBER_NONE;
    ks_number last = KS_NUMBER_NONE;

    while (ks_tracker_overdue(&lease->tracker, core->now, &overdue)) {
        ks_session_recall(core, lease, overdue);
        ks_poison_failed(core, lease, overdue, KS_DELAY_BY_POLICY);
        lease->overdue++;
        last = overdue;
    }
    if (last != KS_NUMBER_NONE)
        tell_overdue(core, lease, last, effects);
    core->stirred |= ks_tracker_ready(&lease->tracker, core->now);
    ks_session_mind(core, lease);
}

static void check_lanes(struct ks_core *core, struct ks_effects *effects)
{
    if (!ks_instant_reached(core->now, core->lanes_due))
        return;
    core->lanes_due = KS_NEVER;
    for (uint32_t i = 0; i < core->leases_top; i++)
        if (core->leases[i].used)
            check_lanes_of(core, &core->leases[i], effects);
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

        end(core, id, true);
        say_ended(effects, id, pulls ? KS_END_LINGER : KS_END_GRACE);
    }
}

static bool can_deliver(struct ks_core *core, ks_session_id id)
{
    const struct ks_session *session = &core->sessions[id];
    struct ks_tracker_ask ask = {.max_records = 1,
                                 .max_record_bytes = session->max_record_bytes,
                                 .judged = core->filter != 0};
    struct ks_tracker_run run;

    if (ks_session_room(session) == 0)
        return false;
    if (ks_redrive_waits(core, id))
        return true;
    for (uint32_t i = 0; i < core->leases_top; i++) {
        struct ks_lease *lease = &core->leases[i];

        ask.lanes = ks_lanes_open(core, lease, id);
        /* One that is too large for it is told when it pulls. */
        if (ask.lanes != 0 && (ks_tracker_next(&lease->tracker, &ask, core->now, &run) ||
                               ks_poison_is_due(core, lease, run.large)))
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
    check_lanes(core, effects);
    for (ks_session_id id = 0; id < core->sessions_top; id++)
        check_session_time(core, id, effects);
    if (core->unbalanced) {
        ks_lanes_balance(core);
        ks_lanes_tell(core, effects);
    }
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
