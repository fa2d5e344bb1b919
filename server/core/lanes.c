/* SPDX-License-Identifier: Apache-2.0 */
#include "core/lanes.h"

#include <assert.h>

#include "core/lease.h"
#include "core/session.h"

bool ks_session_present(const struct ks_session *session)
{
    return session->used && (session->attached || (session->pulls && !session->absent));
}

/* ---- Shares. ---- */

static enum ks_group group_of(const struct ks_session *session)
{
    return session->share > 0 ? KS_GROUP_CANARY : KS_GROUP_REST;
}

static enum ks_group group_of_lane(const struct ks_lease *lease, uint32_t lane)
{
    return (lease->canary >> lane & 1) != 0 ? KS_GROUP_CANARY : KS_GROUP_REST;
}

uint32_t ks_share_count(uint32_t share, uint32_t lanes)
{
    return (uint32_t)(((uint64_t)share * lanes + KS_SHARE_ALL / 2) / KS_SHARE_ALL);
}

uint64_t ks_share_lanes(uint32_t share, uint64_t salt, uint32_t lanes)
{
    uint32_t order[KS_LANES_MAX];
    struct ks_prng prng;
    uint64_t chosen = 0;

    assert(lanes <= KS_LANES_MAX && ks_share_count(share, lanes) <= lanes);
    for (uint32_t i = 0; i < lanes; i++)
        order[i] = i;
    /* A shuffle by the salt. Its first entries are the share: a larger share has those of a smaller one. */
    ks_prng_init(&prng, salt);
    for (uint32_t i = 0; i < ks_share_count(share, lanes); i++) {
        uint32_t other = i + (uint32_t)ks_prng_below(&prng, lanes - i);
        uint32_t lane = order[other];

        order[other] = order[i];
        order[i] = lane;
        chosen |= UINT64_C(1) << lane;
    }
    return chosen;
}

/* The lanes of the shard that are for sessions with a share, of those that are there. Also in its grace a session keeps
 * them from the rest: its app comes back, or its grace ends. */
static uint64_t canary_lanes(const struct ks_core *core, ks_shard shard)
{
    for (ks_session_id id = 0; id < core->sessions_top; id++) {
        const struct ks_session *session = &core->sessions[id];

        if (session->used && session->share > 0 && ks_session_accepts(session, shard))
            return session->canary;
    }
    return 0;
}

bool ks_lanes_admit(const struct ks_core *core, const struct ks_session *session, ks_shard shard,
                    uint8_t hash)
{
    uint32_t lane = ks_hash_lane(hash, core->lanes);
    bool canary = (canary_lanes(core, shard) >> lane & 1) != 0;

    return ks_session_accepts(session, shard) && canary == (session->share > 0);
}

void ks_lanes_count(struct ks_core *core, const struct ks_lease *lease, ks_number number,
                    enum ks_count count)
{
    const struct ks_slot *slot;

    if (lease->canary == 0)
        return;
    slot = ks_tracker_slot(&lease->tracker, number);
    core->groups[group_of_lane(lease, ks_tracker_lane(&lease->tracker, slot))][count]++;
}

uint64_t ks_lanes_wanted(const struct ks_core *core, const struct ks_lease *lease)
{
    uint64_t lanes = 0;

    for (ks_session_id id = 0; id < core->sessions_top; id++) {
        const struct ks_session *session = &core->sessions[id];

        if (session->used && ks_session_accepts(session, lease->shard))
            lanes |= session->share > 0 ? lease->canary : ~lease->canary;
    }
    return lanes;
}

void ks_lanes_tell(struct ks_core *core, struct ks_effects *effects)
{
    bool rest = false;

    for (ks_session_id id = 0; id < core->sessions_top; id++)
        rest |= core->sessions[id].used && core->sessions[id].share == 0;
    /* Without any session nothing waits for the rest more than for the others. */
    if (core->sessions_used == 0)
        core->rest_away = false;
    if (core->sessions_used == 0 || rest != core->rest_away || !ks_effects_room(core, effects, 1))
        return;
    core->rest_away = !rest;
    ks_effects_story(effects, rest ? KS_STORY_REST_BACK : KS_STORY_REST_AWAY, KS_SHARD_NONE,
                     KS_NOBODY);
}

/* ---- Order. ---- */

void ks_lanes_begin(const struct ks_core *core, struct ks_lease *lease)
{
    lease->owned = 0;
    lease->canary = canary_lanes(core, lease->shard);
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
    /* A lane may be left with a session of the other group while nobody of its own takes records. */
    return lanes & (core->sessions[id].share > 0 ? lease->canary : ~lease->canary);
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

/* The present session of the group that accepts the shard and has the fewest lanes; NONE if nobody does. */
static ks_session_id poorest(const struct ks_core *core, ks_shard shard, enum ks_group group)
{
    ks_session_id best = KS_SESSION_NONE;

    for (ks_session_id id = 0; id < core->sessions_top; id++) {
        const struct ks_session *session = &core->sessions[id];

        if (!ks_session_present(session) || !ks_session_accepts(session, shard) ||
            group_of(session) != group)
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
    for (uint32_t i = 0; i < core->leases_top; i++) {
        struct ks_lease *lease = &core->leases[i];

        if (!lease->used)
            continue;
        lease->canary = canary_lanes(core, lease->shard);
        for (uint32_t l = 0; l < lease->tracker.lane_count; l++)
            count_lane(core, lease, &lease->tracker.lanes[l]);
    }
}

/* Whom the lane should belong to: a session of its group that is there, and none with two lanes more than another.
 * KS_SESSION_NONE: nobody can have it now. */
static ks_session_id rightful(const struct ks_core *core, const struct ks_lease *lease,
                              const struct ks_lane *lane)
{
    enum ks_group group = group_of_lane(lease, (uint32_t)(lane - lease->tracker.lanes));
    ks_session_id now = planned(lane);
    ks_session_id candidate = poorest(core, lease->shard, group);

    if (candidate == KS_SESSION_NONE || now == KS_SESSION_NONE)
        return candidate == KS_SESSION_NONE ? now : candidate;
    if (!ks_session_present(&core->sessions[now]) || group_of(&core->sessions[now]) != group)
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
        ks_session_id owner = rightful(core, lease, lane);

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
