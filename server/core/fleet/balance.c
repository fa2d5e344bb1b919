/* SPDX-License-Identifier: Apache-2.0 */
/* Which leases should move (docs/PROTOCOL.md A7): away from workers that want none, and from the fullest to the
 * emptiest until their counts are within one. Each lease that moves is one that had to: the moves are the least
 * possible. Then, seldom, for the traffic: the counts stay as they are. */
#include <stddef.h>

#include "core/fleet/native.h"

/* Moves under way at once: a hand-over is short, but every one stops a shard for a moment. */
enum { MOVES_MAX = 64 };

void ks_balance(struct ks_core *core, ks_shard shard, struct ks_effects *effects)
{
    const struct ks_directory_entry *entry = &core->directory[shard];
    struct ks_member *owner;
    struct ks_member *poorest;

    if (!entry->present || entry->finished || entry->damaged || entry->doubtful || entry->writing ||
        entry->owner.worker == 0 || entry->next_owner.worker != 0)
        return;
    if (core->fleet.moves >= MOVES_MAX || ks_leader_mustering(core))
        return;
    owner = ks_native_member(core, entry->owner.worker);
    poorest = ks_leader_least_loaded(core);
    if (owner == NULL || owner == poorest || poorest == NULL || owner->life != KS_LIVE ||
        owner->damaged)
        return;
    /* One that is late may be dead: it is not asked for anything. */
    if (owner->mode == KS_ACTIVE && ks_leader_fit(core, owner) &&
        !ks_leader_full(core, owner, owner->planned - 1) && poorest->planned + 1 >= owner->planned)
        return;
    if (owner->mode == KS_ACTIVE && (!ks_leader_fit(core, owner) || ks_leader_goes_on(core)))
        return;
    owner->planned--;
    poorest->planned++;
    core->fleet.moves++;
    ks_leader_write(core, shard, KS_STORE_PLAN, poorest->self, effects);
}

/* ---- Traffic. ---- */

/* Two workers whose traffic is uneven, and the leases that change places. */
struct exchange {
    struct ks_member *busiest;
    struct ks_member *calmest;
    uint64_t gap;
    ks_shard up;   /* From the calmest to the busiest; NONE: none has to. */
    ks_shard down; /* From the busiest to the calmest; NONE: nothing helps. */
};

static uint64_t distance(uint64_t a, uint64_t b)
{
    return a > b ? a - b : b - a;
}

/* Uneven: the gap between the busiest and the calmest is more than half of what everybody has in the mean. */
static bool uneven(const struct ks_core *core, struct exchange *exchange)
{
    uint64_t sum = 0;
    uint64_t workers = 0;

    for (uint32_t i = 0; i < core->config.workers_max; i++) {
        struct ks_member *member = &core->members[i];

        if (!ks_leader_fit(core, member))
            continue;
        sum += member->traffic;
        workers++;
        if (exchange->busiest == NULL || member->traffic > exchange->busiest->traffic)
            exchange->busiest = member;
        if (exchange->calmest == NULL || member->traffic < exchange->calmest->traffic)
            exchange->calmest = member;
    }
    if (workers < 2)
        return false;
    exchange->gap = exchange->busiest->traffic - exchange->calmest->traffic;
    return exchange->gap >= core->config.load_least && exchange->gap > sum / workers / 2;
}

static bool has(const struct ks_directory_entry *entry, const struct ks_member *member)
{
    return entry->present && !entry->finished && !entry->damaged && !entry->doubtful &&
           !entry->writing && ks_incarnation_equal(entry->owner, member->self);
}

/* The least busy lease of the calmest goes up, unless the counts allow that none does. */
static uint64_t choose_up(const struct ks_core *core, struct exchange *exchange)
{
    uint64_t least = UINT64_MAX;

    if (exchange->busiest->leases > exchange->calmest->leases &&
        !ks_leader_full(core, exchange->calmest, exchange->calmest->planned))
        return 0;
    for (ks_shard shard = 0; shard < core->directory_top; shard++) {
        const struct ks_directory_entry *entry = &core->directory[shard];

        if (!has(entry, exchange->calmest) || entry->load >= least)
            continue;
        least = entry->load;
        exchange->up = shard;
    }
    return least;
}

/* What goes down is worth half of the gap more than what goes up, as nearly as there is one. */
static void choose(const struct ks_core *core, struct exchange *exchange)
{
    uint64_t up = choose_up(core, exchange);
    uint64_t best = exchange->gap / 2 - exchange->gap / 8; /* Less of a gain is not worth a move. */

    if (up == UINT64_MAX)
        return;
    for (ks_shard shard = 0; shard < core->directory_top; shard++) {
        const struct ks_directory_entry *entry = &core->directory[shard];

        if (!has(entry, exchange->busiest) || entry->load <= up ||
            distance(entry->load - up, exchange->gap / 2) >= best)
            continue;
        best = distance(entry->load - up, exchange->gap / 2);
        exchange->down = shard;
    }
}

static void move(struct ks_core *core, ks_shard shard, const struct ks_member *target,
                 struct ks_effects *effects)
{
    if (shard == KS_SHARD_NONE || !ks_leader_may_write(&core->fleet))
        return;
    core->fleet.moves++;
    ks_leader_write(core, shard, KS_STORE_PLAN, target->self, effects)->for_load = true;
}

void ks_balance_load(struct ks_core *core, struct ks_effects *effects)
{
    struct ks_fleet *fleet = &core->fleet;
    struct exchange exchange = {.up = KS_SHARD_NONE, .down = KS_SHARD_NONE};

    if (fleet->moves > 0 || ks_leader_mustering(core))
        return;
    if (!uneven(core, &exchange)) {
        fleet->uneven_at = KS_NEVER;
        return;
    }
    fleet->uneven_at = ks_instant_min(fleet->uneven_at, core->now);
    if (!ks_instant_reached(core->now,
                            ks_instant_add(fleet->uneven_at, core->config.load_patience)) ||
        !ks_effects_room(core, effects, 2))
        return;
    choose(core, &exchange);
    if (exchange.down == KS_SHARD_NONE)
        return;
    /* What was measured is about the old places: it is watched as long again. */
    fleet->uneven_at = KS_NEVER;
    move(core, exchange.down, exchange.calmest, effects);
    move(core, exchange.up, exchange.busiest, effects);
}
