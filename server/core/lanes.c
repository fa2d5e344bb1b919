/* SPDX-License-Identifier: Apache-2.0 */
#include "core/lanes.h"

#include <assert.h>

#include "core/lease.h"
#include "core/session.h"

bool ks_session_present(const struct ks_session *session)
{
    return session->used && (session->attached || (session->pulls && !session->absent));
}

/* ---- Order. ---- */

void ks_lanes_begin(const struct ks_core *core, struct ks_lease *lease)
{
    lease->owned = 0;
    ks_tracker_order(&lease->tracker, core->lanes, core->ordering == KS_ORDER_NONE);
}

void ks_lanes_order(struct ks_core *core, enum ks_ordering ordering, uint32_t lanes)
{
    assert(ordering != KS_ORDER_ANY);
    assert(lanes > 0 && (lanes == 1 || ordering == KS_ORDER_BY_KEY));

    if (core->ordering == ordering && core->lanes == lanes)
        return;
    core->ordering = ordering;
    core->lanes = lanes;
    for (uint32_t i = 0; i < core->leases_top; i++)
        if (core->leases[i].used)
            ks_lanes_begin(core, &core->leases[i]);
    core->unbalanced = true;
}

/* ---- Whose they are. ---- */

uint64_t ks_lanes_open(const struct ks_core *core, const struct ks_lease *lease, ks_session_id id)
{
    uint64_t lanes = 0;

    if (!lease->used || lease->stopped || core->stopped || !ks_lease_may_deliver(core, lease))
        return 0;
    if (lease->tracker.unordered)
        return ks_session_accepts(&core->sessions[id], lease->shard) ? 1 : 0;
    for (uint32_t i = 0; i < lease->tracker.lane_count; i++) {
        const struct ks_lane *lane = &lease->tracker.lanes[i];

        if (lane->session == id && lane->yield_to == KS_SESSION_NONE)
            lanes |= UINT64_C(1) << i;
    }
    return lanes;
}

static void own(struct ks_lease *lease, struct ks_lane *lane, ks_session_id id)
{
    lease->owned += (lane->session == KS_SESSION_NONE) && (id != KS_SESSION_NONE);
    lease->owned -= (lane->session != KS_SESSION_NONE) && (id == KS_SESSION_NONE);
    lane->session = id;
}

void ks_lanes_strip(struct ks_core *core, ks_session_id id)
{
    for (uint32_t i = 0; i < core->leases_top; i++) {
        struct ks_lease *lease = &core->leases[i];

        for (uint32_t l = 0; lease->used && l < lease->tracker.lane_count; l++) {
            struct ks_lane *lane = &lease->tracker.lanes[l];

            if (lane->session == id)
                own(lease, lane, KS_SESSION_NONE);
            if (lane->yield_to == id)
                lane->yield_to = KS_SESSION_NONE;
        }
    }
    core->unbalanced = true;
}

/* ---- Balance. ---- */

/* Whose it is, or will be. */
static ks_session_id planned(const struct ks_lane *lane)
{
    return lane->yield_to != KS_SESSION_NONE ? lane->yield_to : lane->session;
}

/* The present session that accepts the shard and has the fewest lanes; NONE if nobody does. */
static ks_session_id poorest(const struct ks_core *core, ks_shard shard)
{
    ks_session_id best = KS_SESSION_NONE;

    for (ks_session_id id = 0; id < core->sessions_top; id++) {
        const struct ks_session *session = &core->sessions[id];

        if (!ks_session_present(session) || !ks_session_accepts(session, shard))
            continue;
        if (best == KS_SESSION_NONE || session->lanes < core->sessions[best].lanes)
            best = id;
    }
    return best;
}

/* Gives the lane to `id`: at once if nothing of it is in flight, else as soon as that is so. */
static void pass_lane(struct ks_core *core, struct ks_lease *lease, struct ks_lane *lane,
                      ks_session_id id)
{
    if (planned(lane) != KS_SESSION_NONE)
        core->sessions[planned(lane)].lanes--;
    core->sessions[id].lanes++;
    lane->yield_to = KS_SESSION_NONE;
    if (lane->session == id)
        return;
    if (!lease->tracker.unordered)
        ks_session_unassign(core, lease, UINT64_C(1) << (lane - lease->tracker.lanes));
    if (lane->in_flight == 0 || lease->tracker.unordered)
        own(lease, lane, id);
    else
        lane->yield_to = id;
}

static void count_lane(struct ks_core *core, struct ks_lease *lease, struct ks_lane *lane)
{
    if (lane->yield_to != KS_SESSION_NONE && lane->in_flight == 0) {
        own(lease, lane, lane->yield_to);
        lane->yield_to = KS_SESSION_NONE;
    }
    if (planned(lane) != KS_SESSION_NONE)
        core->sessions[planned(lane)].lanes++;
}

static void count_lanes(struct ks_core *core)
{
    for (ks_session_id id = 0; id < core->sessions_top; id++)
        core->sessions[id].lanes = 0;
    for (uint32_t i = 0; i < core->leases_top; i++)
        for (uint32_t l = 0; core->leases[i].used && l < core->leases[i].tracker.lane_count; l++)
            count_lane(core, &core->leases[i], &core->leases[i].tracker.lanes[l]);
}

/* Whom the lane should belong to: a session that is there, and none with two lanes more than another. */
static ks_session_id rightful(const struct ks_core *core, ks_shard shard,
                              const struct ks_lane *lane)
{
    ks_session_id now = planned(lane);
    ks_session_id candidate = poorest(core, shard);

    if (candidate == KS_SESSION_NONE || now == KS_SESSION_NONE)
        return candidate == KS_SESSION_NONE ? now : candidate;
    if (!ks_session_present(&core->sessions[now]))
        return candidate;
    if (core->sessions[candidate].lanes + 1 < core->sessions[now].lanes)
        return candidate;
    return now;
}

/* True if a lane of the lease is to change hands. */
static bool balance_lease(struct ks_core *core, struct ks_lease *lease)
{
    bool moved = false;

    for (uint32_t l = 0; l < lease->tracker.lane_count; l++) {
        struct ks_lane *lane = &lease->tracker.lanes[l];
        ks_session_id owner = rightful(core, lease->shard, lane);

        if (owner == KS_SESSION_NONE || owner == planned(lane))
            continue;
        pass_lane(core, lease, lane, owner);
        moved = true;
    }
    return moved;
}

/* One pass settles it: each lane moves at most to the poorest, which never leaves two more behind elsewhere than one
 * more pass would find; that pass comes while `unbalanced` stays set. */
void ks_lanes_balance(struct ks_core *core)
{
    bool moved = false;

    count_lanes(core);
    for (uint32_t i = 0; i < core->leases_top; i++)
        if (core->leases[i].used && core->leases[i].state == KS_LEASE_HELD)
            moved |= balance_lease(core, &core->leases[i]);
    core->unbalanced = moved;
    core->stirred = true;
}
