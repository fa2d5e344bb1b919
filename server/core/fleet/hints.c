/* SPDX-License-Identifier: Apache-2.0 */
/* Telling workers of leases: give and take tokens in their rows, one write for all tokens of a worker (docs/PROTOCOL.md
 * A3, A7). The rows are the truth: a hint that is lost is told again. */
#include <assert.h>
#include <stddef.h>

#include "core/fleet/native.h"

static bool is_me(const struct ks_core *core, struct ks_incarnation who)
{
    return ks_incarnation_equal(who, core->fleet.self);
}

/* While many leases are given away, what is to be told to a worker is gathered for as long as this. */
#define GATHERING ks_span_ms(200)

static void due(struct ks_core *core, struct ks_incarnation who)
{
    struct ks_member *member = ks_native_member(core, who.worker);

    if (member == NULL || !ks_incarnation_equal(member->self, who))
        return;
    member->hints_due = true;
    if (!core->fleet.hints_due)
        core->fleet.hints_at = ks_instant_add(core->now, GATHERING);
    core->fleet.hints_due = true;
}

/* What was told is about this epoch from now on. */
static void about(struct ks_directory_entry *entry)
{
    if (entry->hinted == entry->epoch)
        return;
    entry->hinted = entry->epoch;
    entry->take = KS_HINT_TOLD;
    entry->give = KS_HINT_DUE;
    entry->next_take = KS_HINT_DUE;
    entry->give_at = KS_NEVER;
}

void ks_hints_owner(struct ks_core *core, ks_shard shard)
{
    struct ks_directory_entry *entry = &core->directory[shard];

    if (is_me(core, entry->owner)) {
        ks_orders_take(core, shard, entry->epoch, false);
        return;
    }
    about(entry);
    entry->take = KS_HINT_DUE;
    due(core, entry->owner);
}

void ks_hints_move(struct ks_core *core, ks_shard shard)
{
    struct ks_directory_entry *entry = &core->directory[shard];

    /* If a person deletes the owner from the row after our write, we can read that row before we get the answer to the
     * write. */
    if (entry->owner.worker == 0 || entry->next_owner.worker == 0)
        return;
    about(entry);
    if (is_me(core, entry->owner))
        ks_orders_give(core, shard, entry->epoch, false);
    if (is_me(core, entry->next_owner))
        ks_orders_take(core, shard, entry->epoch + 1, false);
    if (entry->give == KS_HINT_DUE)
        due(core, entry->owner);
    if (entry->next_take == KS_HINT_DUE)
        due(core, entry->next_owner);
}

void ks_hints_again(struct ks_core *core, struct ks_incarnation owner)
{
    for (ks_shard shard = 0; shard < core->directory_top; shard++) {
        struct ks_directory_entry *entry = &core->directory[shard];

        if (!entry->present || entry->finished || !ks_incarnation_equal(entry->owner, owner))
            continue;
        about(entry);
        entry->take = KS_HINT_DUE; /* Also what was sent: ADD is idempotent. */
    }
    due(core, owner);
}

/* ---- Writes. ---- */

struct hints {
    struct ks_lease_token *gives;
    struct ks_lease_token *takes;
    uint32_t give_count;
    uint32_t take_count;
};

static void add(struct hints *hints, uint8_t *state, bool give, ks_shard shard, ks_epoch epoch)
{
    if (*state != KS_HINT_DUE || hints->give_count + hints->take_count == KS_TOKENS_MAX)
        return;
    *state = KS_HINT_SENT;
    if (give)
        hints->gives[hints->give_count++] = (struct ks_lease_token){shard, epoch};
    else
        hints->takes[hints->take_count++] = (struct ks_lease_token){shard, epoch};
}

static void gather(struct ks_core *core, struct ks_incarnation who, struct hints *hints)
{
    for (ks_shard shard = 0; shard < core->directory_top; shard++) {
        struct ks_directory_entry *entry = &core->directory[shard];
        bool moves = entry->next_owner.worker != 0;

        if (entry->hinted != entry->epoch || entry->finished)
            continue;
        if (ks_incarnation_equal(entry->owner, who)) {
            add(hints, &entry->take, false, shard, entry->epoch);
            if (moves)
                add(hints, &entry->give, true, shard, entry->epoch);
        }
        if (moves && ks_incarnation_equal(entry->next_owner, who))
            add(hints, &entry->next_take, false, shard, entry->epoch + 1);
    }
}

void ks_hints_turn(struct ks_core *core, struct ks_effects *effects)
{
    struct ks_fleet *fleet = &core->fleet;
    uint32_t buffer = 0;

    for (uint32_t i = 0; i < core->config.workers_max; i++) {
        struct ks_member *member = &core->members[i];
        struct ks_store_effect *store;
        struct hints hints = {.give_count = 0};

        if (!member->hints_due || !member->present || member->damaged || member->life != KS_LIVE ||
            member->hints != 0 || is_me(core, member->self))
            continue;
        if (buffer == KS_HINT_WRITES_MAX || !ks_effects_room(core, effects, 1)) {
            core->again = true;
            return;
        }
        hints.gives = fleet->hint_gives[buffer];
        hints.takes = fleet->hint_takes[buffer];
        gather(core, member->self, &hints);
        member->hints_due = hints.give_count + hints.take_count == KS_TOKENS_MAX;
        if (hints.give_count + hints.take_count == 0)
            continue;
        buffer++;
        member->hints = ks_core_serial(core);
        store = ks_effects_store(effects, KS_STORE_HINTS,
                                 ks_token_make(KS_FOR_HINTS, i, member->hints));
        store->worker = member->self;
        store->expect_boot = member->self.boot;
        store->gives = hints.gives;
        store->give_count = hints.give_count;
        store->takes = hints.takes;
        store->take_count = hints.take_count;
    }
    fleet->hints_due = false;
}

static void told(uint8_t *state, enum ks_outcome outcome, bool *ret_due)
{
    if (*state == KS_HINT_SENT)
        *state = outcome == KS_UNKNOWN ? KS_HINT_DUE : KS_HINT_TOLD;
    *ret_due |= *state == KS_HINT_DUE;
}

void ks_hints_answered(struct ks_core *core, uint32_t index, uint32_t serial,
                       enum ks_outcome outcome)
{
    struct ks_member *member = &core->members[index];
    bool again = member->hints_due;

    if (!member->present || member->hints != serial)
        return;
    member->hints = 0;
    for (ks_shard shard = 0; shard < core->directory_top; shard++) {
        struct ks_directory_entry *entry = &core->directory[shard];

        if (entry->hinted != entry->epoch)
            continue;
        if (ks_incarnation_equal(entry->owner, member->self)) {
            if (entry->give == KS_HINT_SENT && outcome == KS_DONE)
                entry->give_at = core->now;
            told(&entry->take, outcome, &again);
            told(&entry->give, outcome, &again);
        }
        if (ks_incarnation_equal(entry->next_owner, member->self))
            told(&entry->next_take, outcome, &again);
    }
    if (again)
        due(core, member->self);
}

bool ks_hints_open(const struct ks_core *core)
{
    for (uint32_t i = 0; i < core->config.workers_max; i++)
        if (core->members[i].present && core->members[i].hints != 0)
            return true;
    return core->fleet.hints_due;
}
