/* SPDX-License-Identifier: Apache-2.0 */
#include "core/flow.h"

#include <assert.h>
#include <stddef.h>

#include "core/lease.h"
#include "core/session.h"

/* A refused read is asked for again after this; the source has its own back-off for its server. */
#define RETRY_AFTER ks_span_ms(200)

/* Fewer records than this are not worth a read while others wait to be settled. */
enum { LEAST_ROOM_DIVISOR = 8 };

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

void ks_flow_records(struct ks_core *core, const struct ks_event *event)
{
    struct ks_lease *lease = ks_lease_of(core, event->records.shard, event->records.epoch);

    if (lease == NULL)
        return;
    assert(lease->reading);
    assert(!lease->at_end);
    ks_flow_forget(core, lease);
    ks_tracker_append(&lease->tracker, event->records.sizes, event->records.count);
    lease->throttled = false;
    lease->at_end = event->records.at_end;
    lease->read_at = core->now;
    if (event->records.count > 0)
        core->stirred = true;
}

void ks_flow_failed(struct ks_core *core, const struct ks_event *event)
{
    struct ks_lease *lease = ks_lease_of(core, event->read_failed.shard, event->read_failed.epoch);

    if (lease == NULL)
        return;
    assert(lease->reading);
    ks_flow_forget(core, lease);
    lease->throttled = event->read_failed.throttled;
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

/* Bytes to ask for, or 0: no read now. */
static uint32_t wanted(const struct ks_core *core, const struct ks_lease *lease, uint64_t held, uint64_t allowed)
{
    uint64_t most = core->leases_used > 1 ? allowed / 2 : allowed;
    uint64_t room;

    if (!lease->used || lease->reading || lease->at_end || lease->session == KS_SESSION_NONE)
        return 0;
    if (!ks_lease_may_deliver(core, lease))
        return 0;
    if (ks_tracker_room(&lease->tracker) < lease->tracker.window / LEAST_ROOM_DIVISOR)
        return 0;
    if (allowed == 0 || (lease->tracker.bytes > 0 &&
                         (held + core->reserved >= allowed || lease->tracker.bytes >= most)))
        return 0;
    /* A lane with nothing at all may always ask for a little, so that no other lane can starve it. */
    room = held + core->reserved < allowed ? allowed - held - core->reserved : 1;
    return room < core->config.read_bytes ? (uint32_t)room : core->config.read_bytes;
}

void ks_flow_turn(struct ks_core *core, struct ks_effects *effects)
{
    uint64_t held = ks_flow_held(core);
    uint64_t allowed = allowance(core);

    for (uint32_t i = 0; i < core->leases_top; i++) {
        struct ks_lease *lease = &core->leases[i];
        uint32_t bytes = wanted(core, lease, held, allowed);
        uint32_t room = bytes == 0 ? 0 : ks_tracker_room(&lease->tracker);
        struct ks_effect *effect;

        if (bytes == 0 || !ks_instant_reached(core->now, lease->read_at))
            continue;
        if (!ks_effects_room(core, effects, 1))
            return;
        lease->reading = true;
        lease->reserved = bytes;
        core->reserved += bytes;
        effect = ks_effects_add(effects, KS_EFFECT_READ);
        effect->lease.shard = lease->shard;
        effect->lease.epoch = lease->epoch;
        effect->lease.max_records = room < KS_READ_RECORDS_MAX ? room : KS_READ_RECORDS_MAX;
        effect->lease.max_bytes = bytes;
    }
}

ks_instant ks_flow_deadline(const struct ks_core *core)
{
    uint64_t held = ks_flow_held(core);
    uint64_t allowed = allowance(core);
    ks_instant due = KS_NEVER;

    for (uint32_t i = 0; i < core->leases_top; i++)
        if (wanted(core, &core->leases[i], held, allowed) > 0)
            due = ks_instant_min(due, core->leases[i].read_at);
    return due;
}
