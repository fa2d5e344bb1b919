/* SPDX-License-Identifier: Apache-2.0 */
#include "core/flow.h"

#include <assert.h>
#include <stddef.h>

#include "core/lease.h"
#include "core/session.h"

/* A refused read is asked for again after this; the source has its own back-off for its server. */
#define RETRY_AFTER ks_span_ms(200)

enum {
    ROOM_DIVISOR = 8,  /* Less room than this part of the window is not worth a read. */
    SHARE_DIVISOR = 16 /* The share that a lease has for itself, of a read. */
};

uint64_t ks_flow_held(const struct ks_core *core)
{
    uint64_t held = core->redrive_bytes;

    for (uint32_t i = 0; i < core->leases_top; i++)
        if (core->leases[i].used)
            held += core->leases[i].tracker.bytes;
    return held;
}

void ks_flow_forget(struct ks_core *core, struct ks_lease *lease)
{
    if (!lease->reading)
        return;
    assert(core->reserved >= lease->reserved);
    core->reserved -= lease->reserved;
    lease->reserved = 0;
    lease->reading = false;
}

static uint32_t least_appetite(const struct ks_core *core)
{
    return core->config.read_bytes / SHARE_DIVISOR;
}

/* What so many bytes of payload take in memory, in records like the last ones. */
static uint64_t with_extra(const struct ks_core *core, const struct ks_lease *lease, uint32_t bytes)
{
    if (lease->record_bytes == 0)
        return bytes;
    return bytes + (uint64_t)(bytes / lease->record_bytes) * core->config.record_extra;
}

/* The payload that fits into so many bytes of memory. */
static uint64_t without_extra(const struct ks_core *core, const struct ks_lease *lease,
                              uint64_t room)
{
    uint64_t whole = (uint64_t)lease->record_bytes + core->config.record_extra;

    if (core->config.record_extra == 0 || lease->record_bytes == 0 || room < whole)
        return room;
    return room / whole * lease->record_bytes;
}

/* Reads that come back full are worth more, those that come back nearly empty less. */
static void adapt(const struct ks_core *core, struct ks_lease *lease, const struct ks_event *event)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < event->records.count; i++)
        bytes += event->records.sizes[i];
    lease->arrived += bytes;
    if (event->records.count > 0)
        lease->record_bytes = (uint32_t)(bytes / event->records.count);
    bytes += (uint64_t)event->records.count * core->config.record_extra;
    if (bytes * 2 >= lease->reserved)
        lease->appetite = lease->appetite > core->config.read_bytes / 2 ? core->config.read_bytes
                                                                        : lease->appetite * 2;
    else if (bytes * 4 < lease->reserved && lease->appetite / 2 >= least_appetite(core))
        lease->appetite /= 2;
}

/* Settles the records that the filter excludes. Not called after the final write, which fixed the watermark. */
static void pass_over(struct ks_core *core, struct ks_lease *lease, const bool *filtered,
                      uint32_t count, struct ks_effects *effects)
{
    const ks_number first = lease->tracker.fetched - count;
    const ks_number mark = lease->tracker.mark;

    for (uint32_t i = 0; i < count; i++)
        if (filtered[i])
            (void)ks_tracker_settle(&lease->tracker, first + i);
    ks_session_moved(core, lease, mark, effects);
}

void ks_flow_records(struct ks_core *core, const struct ks_event *event, struct ks_effects *effects)
{
    struct ks_lease *lease = ks_lease_of(core, event->records.shard, event->records.epoch);

    if (lease == NULL)
        return;
    assert(lease->reading);
    assert(!lease->at_end);
    adapt(core, lease, event);
    core->fleet.failing = false;
    core->fleet.failed_at = KS_NEVER;
    core->fleet.failing_wait = ks_span_us(0);
    ks_flow_forget(core, lease);
    core->thirsty = true;
    ks_tracker_append(&lease->tracker, event->records.sizes, event->records.hashes,
                      event->records.stale_s, event->records.count);
    if (event->records.filtered != NULL && !lease->given_up)
        pass_over(core, lease, event->records.filtered, event->records.count, effects);
    lease->throttled = false;
    lease->cramped = false;
    lease->full_since = KS_NEVER;
    lease->at_end = event->records.at_end;
    lease->end_at = core->now;
    lease->read_at = core->now;
    if (event->records.count > 0)
        core->stirred = true;
}

/* A read that the budget refuses for so long is told: its next record may be larger than all the memory there is. Not
 * while dead letters wait to be written: the memory is free again when they are. */
#define CRAMPED_AFTER ks_span_ms(5000)

static void check_cramped(struct ks_core *core, struct ks_lease *lease, bool full,
                          struct ks_effects *effects)
{
    if (!full || lease->tracker.dying > 0) {
        lease->full_since = KS_NEVER;
        return;
    }
    lease->full_since = ks_instant_min(lease->full_since, core->now);
    if (lease->cramped ||
        !ks_instant_reached(core->now, ks_instant_add(lease->full_since, CRAMPED_AFTER)))
        return;
    lease->cramped = true;
    ks_effects_story(effects, KS_STORY_CRAMPED, lease->shard, KS_NOBODY)->story.epoch =
        lease->epoch;
}

void ks_flow_failed(struct ks_core *core, const struct ks_event *event, struct ks_effects *effects)
{
    struct ks_lease *lease = ks_lease_of(core, event->read_failed.shard, event->read_failed.epoch);

    if (lease == NULL)
        return;
    assert(lease->reading);
    ks_flow_forget(core, lease);
    core->thirsty = true;
    lease->throttled = event->read_failed.throttled;
    if (!lease->throttled && !event->read_failed.full) {
        core->fleet.failed_at = ks_instant_min(core->fleet.failed_at, core->now);
        core->fleet.last_failed_at = core->now;
    }
    check_cramped(core, lease, event->read_failed.full, effects);
    lease->read_at = ks_instant_add(core->now, RETRY_AFTER);
}

void ks_flow_budget(struct ks_core *core, uint64_t bytes)
{
    core->config.budget_bytes = bytes;
    core->thirsty = true;
}

/* All that may be in memory now: what the sessions that are there allow, within the budget. */
static uint64_t allowance(const struct ks_core *core)
{
    uint64_t sum = 0;

    for (ks_session_id id = 0; id < core->sessions_top; id++) {
        const struct ks_session *session = &core->sessions[id];

        if (session->used && (session->attached || (session->pulls && !session->absent)))
            sum += session->max_in_flight_bytes;
    }
    return sum < core->config.budget_bytes ? sum : core->config.budget_bytes;
}

/* How the memory is divided now. */
struct shares {
    uint64_t allowed;
    uint64_t own;    /* Of each lease, for itself. */
    uint64_t common; /* Not taken yet of what is left. */
};

/* In flight counts what the session's limit counts, or its credit could not be used up; what is read ahead counts with
 * all that it takes, so that a consumer that stalls costs no more than its limit. */
static uint64_t held_by(const struct ks_core *core, const struct ks_lease *lease)
{
    const struct ks_tracker *tracker = &lease->tracker;
    uint64_t ahead = tracker->fetched - tracker->mark - tracker->in_flight;

    return tracker->bytes + ahead * core->config.record_extra;
}

static uint64_t beyond_own(const struct ks_core *core, const struct ks_lease *lease, uint64_t own)
{
    uint64_t used = held_by(core, lease) + lease->reserved;

    return used > own ? used - own : 0;
}

static struct shares divide(const struct ks_core *core)
{
    struct shares shares = {.allowed = allowance(core)};
    uint64_t taken = 0;

    if (core->leases_used == 0)
        return shares;
    shares.own = shares.allowed / core->leases_used;
    if (shares.own > least_appetite(core))
        shares.own = least_appetite(core);
    if (shares.own == 0 && shares.allowed > 0)
        shares.own = 1; /* One record at a time is always possible. */
    for (uint32_t i = 0; i < core->leases_top; i++)
        if (core->leases[i].used)
            taken += beyond_own(core, &core->leases[i], shares.own);
    taken += shares.own * core->leases_used;
    shares.common = taken < shares.allowed ? shares.allowed - taken : 0;
    return shares;
}

/* Of what a read reserved, that which is not the lease's own comes from what is common. */
static void take(struct shares *shares, uint64_t beyond, uint64_t reserved)
{
    uint64_t taken = beyond < reserved ? beyond : reserved;

    shares->common -= taken < shares->common ? taken : shares->common;
}

/* It holds all that a lease may, in records or in bytes. */
static bool is_full(const struct ks_core *core, const struct ks_lease *lease,
                    const struct shares *shares)
{
    uint64_t most = core->leases_used > 1 ? shares->allowed / 2 : shares->allowed;
    uint64_t held = held_by(core, lease);

    return ks_tracker_room(&lease->tracker) < lease->tracker.window / ROOM_DIVISOR ||
           (held >= shares->own && held >= most);
}

/* Full of what was settled behind records that are not: nothing of it can be delivered, and little is in flight. */
static bool is_gap(const struct ks_core *core, const struct ks_lease *lease)
{
    const struct ks_tracker *tracker = &lease->tracker;
    const uint64_t held = tracker->fetched - tracker->mark;
    uint64_t blocked;

    if (tracker->in_flight * 2ull >= held)
        return false;
    if (held == tracker->in_flight + tracker->dying + tracker->settled)
        return true;
    /* Each turn asks while the lease is full: its slots are looked at only if some of them wait. */
    blocked = ks_tracker_blocked(tracker, core->now);
    if (blocked == 0)
        return false;
    for (ks_number n = tracker->mark; n < tracker->fetched; n++) {
        const struct ks_slot *slot = ks_tracker_slot(tracker, n);

        if (slot->state == KS_SLOT_PENDING && (blocked >> ks_tracker_lane(tracker, slot) & 1) == 0)
            return false;
    }
    return true;
}

/* The gap between the watermark and what was settled is bounded by what a lease may hold. */
static void check_gap(const struct ks_core *core, struct ks_lease *lease,
                      const struct shares *shares, struct ks_effects *effects)
{
    bool was_full = lease->gap_full;
    struct ks_effect *effect;

    /* Nothing is allowed: nobody is there, and nothing is read, however little is held. */
    lease->gap_full = lease->used && lease->owned > 0 && !lease->at_end && shares->allowed > 0 &&
                      ks_lease_may_deliver(core, lease) && is_full(core, lease, shares) &&
                      is_gap(core, lease);
    if (!lease->gap_full || was_full)
        return;
    effect = ks_effects_story(effects, KS_STORY_GAP_FULL, lease->shard, KS_NOBODY);
    effect->story.number = lease->tracker.mark;
    effect->story.count = (uint32_t)(lease->tracker.delivered - lease->tracker.mark);
    effect->story.epoch = lease->epoch;
}

/* Bytes of payload to ask for, or 0: no read now. */
static uint32_t wanted(const struct ks_core *core, const struct ks_lease *lease,
                       const struct shares *shares)
{
    uint64_t held;
    uint64_t room;

    if (!lease->used || lease->reading || lease->at_end || lease->owned == 0)
        return 0;
    if (!ks_lease_may_deliver(core, lease))
        return 0;
    if (is_full(core, lease, shares))
        return 0;
    held = held_by(core, lease);
    room = shares->common;
    if (held < shares->own)
        room += shares->own - held;
    /* A read that would bring less than what can be delivered before can wait: few and large ones cost less, and what
     * room there is goes to who has least. */
    if (room < lease->appetite && room < lease->tracker.pending_bytes)
        return 0;
    room = without_extra(core, lease, room);
    return room < lease->appetite ? (uint32_t)room : lease->appetite;
}

void ks_flow_turn(struct ks_core *core, struct ks_effects *effects)
{
    struct shares shares = divide(core);

    core->thirsty = false;
    core->reads_due = KS_NEVER;
    for (uint32_t i = 0; i < core->leases_top; i++) {
        struct ks_lease *lease = &core->leases[i];
        uint32_t bytes = wanted(core, lease, &shares);
        uint32_t room = bytes == 0 ? 0 : ks_tracker_room(&lease->tracker);
        struct ks_effect *effect;

        if (bytes == 0) {
            if (ks_effects_room(core, effects, 1))
                check_gap(core, lease, &shares, effects);
            continue;
        }
        lease->gap_full = false;
        if (!ks_instant_reached(core->now, lease->read_at)) {
            core->reads_due = ks_instant_min(core->reads_due, lease->read_at);
            continue;
        }
        if (!ks_effects_room(core, effects, 1))
            return; /* And again at once. */
        lease->reading = true;
        lease->reserved = with_extra(core, lease, bytes);
        core->reserved += lease->reserved;
        take(&shares, beyond_own(core, lease, shares.own), lease->reserved);
        effect = ks_effects_add(effects, KS_EFFECT_READ);
        effect->lease.shard = lease->shard;
        effect->lease.epoch = lease->epoch;
        effect->lease.max_records = room < KS_READ_RECORDS_MAX ? room : KS_READ_RECORDS_MAX;
        effect->lease.max_bytes = bytes;
    }
}

ks_instant ks_flow_deadline(const struct ks_core *core)
{
    return core->thirsty ? core->now : core->reads_due;
}
