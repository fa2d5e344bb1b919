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
    uint64_t held = 0;

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

/* Reads that come back full are worth more, those that come back nearly empty less. */
static void adapt(const struct ks_core *core, struct ks_lease *lease, const struct ks_event *event)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < event->records.count; i++)
        bytes += event->records.sizes[i];
    if (bytes * 2 >= lease->reserved)
        lease->appetite = lease->appetite > core->config.read_bytes / 2 ? core->config.read_bytes
                                                                        : lease->appetite * 2;
    else if (bytes * 4 < lease->reserved && lease->appetite / 2 >= least_appetite(core))
        lease->appetite /= 2;
}

void ks_flow_records(struct ks_core *core, const struct ks_event *event)
{
    struct ks_lease *lease = ks_lease_of(core, event->records.shard, event->records.epoch);

    if (lease == NULL)
        return;
    assert(lease->reading);
    assert(!lease->at_end);
    adapt(core, lease, event);
    ks_flow_forget(core, lease);
    ks_tracker_append(&lease->tracker, event->records.sizes, event->records.count);
    lease->throttled = false;
    lease->cramped = false;
    lease->full_since = KS_NEVER;
    lease->at_end = event->records.at_end;
    lease->read_at = core->now;
    if (event->records.count > 0)
        core->stirred = true;
}

/* A read that the budget refuses for so long is told: its next record may be larger than all the memory there is. */
#define CRAMPED_AFTER ks_span_ms(5000)

static void check_cramped(struct ks_core *core, struct ks_lease *lease, bool full,
                          struct ks_effects *effects)
{
    if (!full) {
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
    lease->throttled = event->read_failed.throttled;
    check_cramped(core, lease, event->read_failed.full, effects);
    lease->read_at = ks_instant_add(core->now, RETRY_AFTER);
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

static uint64_t beyond_own(const struct ks_lease *lease, uint64_t own)
{
    uint64_t used = lease->tracker.bytes + lease->reserved;

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
            taken += beyond_own(&core->leases[i], shares.own);
    taken += shares.own * core->leases_used;
    shares.common = taken < shares.allowed ? shares.allowed - taken : 0;
    return shares;
}

/* Bytes to ask for, or 0: no read now. */
static uint32_t wanted(const struct ks_core *core, const struct ks_lease *lease,
                       const struct shares *shares)
{
    uint64_t most = core->leases_used > 1 ? shares->allowed / 2 : shares->allowed;
    uint64_t room;

    if (!lease->used || lease->reading || lease->at_end || lease->session == KS_SESSION_NONE)
        return 0;
    if (!ks_lease_may_deliver(core, lease))
        return 0;
    if (ks_tracker_room(&lease->tracker) < lease->tracker.window / ROOM_DIVISOR)
        return 0;
    room = shares->common;
    if (lease->tracker.bytes < shares->own)
        room += shares->own - lease->tracker.bytes;
    else if (lease->tracker.bytes >= most)
        return 0;
    return room < lease->appetite ? (uint32_t)room : lease->appetite;
}

void ks_flow_turn(struct ks_core *core, struct ks_effects *effects)
{
    struct shares shares = divide(core);

    for (uint32_t i = 0; i < core->leases_top; i++) {
        struct ks_lease *lease = &core->leases[i];
        uint32_t bytes = wanted(core, lease, &shares);
        uint32_t room = bytes == 0 ? 0 : ks_tracker_room(&lease->tracker);
        struct ks_effect *effect;

        if (bytes == 0 || !ks_instant_reached(core->now, lease->read_at))
            continue;
        if (!ks_effects_room(core, effects, 1))
            return;
        lease->reading = true;
        lease->reserved = bytes;
        core->reserved += bytes;
        shares.common -=
            beyond_own(lease, shares.own) < bytes ? beyond_own(lease, shares.own) : bytes;
        effect = ks_effects_add(effects, KS_EFFECT_READ);
        effect->lease.shard = lease->shard;
        effect->lease.epoch = lease->epoch;
        effect->lease.max_records = room < KS_READ_RECORDS_MAX ? room : KS_READ_RECORDS_MAX;
        effect->lease.max_bytes = bytes;
    }
}

ks_instant ks_flow_deadline(const struct ks_core *core)
{
    struct shares shares = divide(core);
    ks_instant due = KS_NEVER;

    for (uint32_t i = 0; i < core->leases_top; i++)
        if (wanted(core, &core->leases[i], &shares) > 0)
            due = ks_instant_min(due, core->leases[i].read_at);
    return due;
}
