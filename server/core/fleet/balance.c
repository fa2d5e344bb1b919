/* SPDX-License-Identifier: Apache-2.0 */
/* Which leases should move (docs/PROTOCOL.md A7): away from workers that want none, and from the fullest to the
 * emptiest until their counts are within one. Each lease that moves is one that had to: the moves are the least
 * possible. */
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
    if (owner->mode == KS_ACTIVE && !ks_leader_fit(core, owner))
        return;
    owner->planned--;
    poorest->planned++;
    core->fleet.moves++;
    ks_leader_write(core, shard, KS_STORE_PLAN, poorest->self, effects);
}
