/* SPDX-License-Identifier: Apache-2.0 */
/* The manners at a table of kcl-rb, which has none of its own: docs/DIALECTS.md.
 *
 * Among ourselves we do as members of go-kcl do. A process of kcl-rb takes each second whatever it finds, leased or
 * not, and ends at what it does not expect: beside one we take nothing and keep nothing, unless our rows are masked,
 * which is what it passes over. Rows tell who wrote them last. Those of strangers that stand still, and whose lease is
 * over if they are one's, are the legacy of processes that are gone. */
#include <stddef.h>

#include "core/fleet/go_kcl.h"

/* The least time for which they must stand still: a process works on each row once a second, if it is not held up. */
#define QUIET_LEAST ks_span_ms(5000)
/* A process of kcl-rb that keeps up frees each row once a second. */
#define NEVER_FREE ks_span_ms(60000)
/* The next look, while we watch. */
#define SOON ks_span_ms(1000)

static ks_span quiet(const struct ks_core *core)
{
    const ks_span lease = core->config.lease_duration;

    return lease.us > QUIET_LEAST.us ? lease : QUIET_LEAST;
}

static void see(struct ks_core *core, uint32_t serial, const struct ks_lease_row *row)
{
    struct ks_directory_entry *entry = &core->directory[row->shard];
    struct ks_fleet *fleet = &core->fleet;
    bool known = entry->present;
    bool same = known && ks_incarnation_equal(row->owner, entry->owner) && row->rev == entry->rev &&
                !row->moved;

    ks_peers_see(core, serial, row);
    if (row->damaged)
        return;
    entry->stranger = row->stranger;
    entry->masked = row->masked;
    entry->overwritten |=
        core->config.masking && row->stranger && ks_peers_held(core, entry) != NULL;
    if (!row->stranger || (row->finished && !known))
        return;
    if (!same)
        entry->seen_at = core->now; /* Also where owner and time are what they were. */
    /* Nor is it quiet where nobody could look, or write. */
    if (ks_peers_unchanged(core, entry).us > 0)
        return;
    fleet->stranger_at = core->now;
    fleet->strangers_seen |= known && !same;
    fleet->round_at = core->now;
}

/* A row that a stranger has, and for longer; or any of theirs. */
static ks_shard theirs(const struct ks_core *core, bool any)
{
    for (ks_shard shard = 0; shard < core->directory_top; shard++) {
        const struct ks_directory_entry *entry = &core->directory[shard];

        if (entry->present && entry->stranger && ks_peers_open(entry) &&
            (any || (entry->owner.worker != 0 && ks_go_kcl_lives(core, entry))))
            return shard;
    }
    return KS_SHARD_NONE;
}

static void say(struct ks_core *core, ks_shard shard, struct ks_effects *effects)
{
    struct ks_fleet *fleet = &core->fleet;

    if (fleet->strangers == fleet->strangers_told || !ks_effects_room(core, effects, 1))
        return;
    fleet->strangers_told = fleet->strangers;
    ks_effects_story(effects, fleet->strangers ? KS_STORY_STRANGERS : KS_STORY_STRANGERS_GONE,
                     shard, KS_NOBODY);
}

static void watch(struct ks_core *core, struct ks_effects *effects)
{
    struct ks_fleet *fleet = &core->fleet;
    bool lately = fleet->stranger_at.us != KS_LONG_AGO.us &&
                  ks_instant_since(core->now, fleet->stranger_at).us < quiet(core).us;
    ks_shard shard = theirs(core, false);
    /* Rows that we see for the first time may be a legacy. */
    bool certain = shard != KS_SHARD_NONE || fleet->strangers_seen;

    if (lately && shard == KS_SHARD_NONE)
        shard = theirs(core, true);
    fleet->strangers = shard != KS_SHARD_NONE;
    if (certain || !fleet->strangers)
        say(core, shard, effects);
    if (!fleet->strangers)
        fleet->strangers_seen = false;
}

/* It ends where it lists a child: whoever wants to go back to it must know. */
static void say_child(struct ks_core *core, struct ks_effects *effects)
{
    for (ks_shard shard = 0; shard < core->directory_top && !core->fleet.child_told; shard++) {
        const struct ks_directory_entry *entry = &core->directory[shard];

        if (!entry->listed || entry->parents[0] == KS_SHARD_NONE ||
            !ks_effects_room(core, effects, 1))
            continue;
        core->fleet.child_told = true;
        ks_effects_story(effects, KS_STORY_CHILD, shard, KS_NOBODY);
    }
}

/* It reads a row twice, looks for the mask the first time, and leases what it read the second time. */
static void say_overwritten(struct ks_core *core, struct ks_effects *effects)
{
    for (ks_shard shard = 0; shard < core->directory_top; shard++) {
        struct ks_directory_entry *entry = &core->directory[shard];

        if (!entry->overwritten || !ks_effects_room(core, effects, 1))
            continue;
        entry->overwritten = false;
        ks_effects_story(effects, KS_STORY_MASK_OVERWRITTEN, shard, KS_NOBODY);
    }
}

static ks_shard leased_by_strangers(const struct ks_core *core)
{
    for (ks_shard shard = 0; shard < core->directory_top; shard++) {
        const struct ks_directory_entry *entry = &core->directory[shard];

        if (entry->present && entry->stranger && ks_peers_open(entry) && entry->owner.worker != 0)
            return shard;
    }
    return KS_SHARD_NONE;
}

/* A process that always finds records frees no row, and only a free row can be masked. */
static void say_never_free(struct ks_core *core, struct ks_effects *effects)
{
    struct ks_fleet *fleet = &core->fleet;
    const ks_shard shard = leased_by_strangers(core);

    if (!ks_peers_want(core) || ks_peers_room(core) == 0 || shard == KS_SHARD_NONE ||
        ks_peers_writes(fleet) > 0) {
        fleet->unfree_since = KS_NEVER;
        fleet->unfree_told = false;
        return;
    }
    fleet->unfree_since = ks_instant_min(fleet->unfree_since, core->now);
    if (fleet->unfree_told || !ks_effects_room(core, effects, 1) ||
        ks_instant_since(core->now, fleet->unfree_since).us < NEVER_FREE.us)
        return;
    fleet->unfree_told = true;
    ks_effects_story(effects, KS_STORY_NEVER_FREE, shard, KS_NOBODY)->story.span =
        ks_instant_since(core->now, fleet->unfree_since);
}

static void round_of(struct ks_core *core, struct ks_effects *effects)
{
    if (!core->config.masking)
        watch(core, effects);
    say_child(core, effects);
    say_overwritten(core, effects);
    ks_go_kcl_round(core, effects);
    if (core->config.masking)
        say_never_free(core, effects);
    if (core->fleet.strangers)
        core->fleet.round_at =
            ks_instant_min(core->fleet.round_at, ks_instant_add(core->now, SOON));
}

/* ---- Leaving ---- */

/* A row that no process reads when we are gone: masked, and its lease, which was ours, is not. */
static bool is_left_masked(const struct ks_core *core, const struct ks_directory_entry *entry)
{
    return entry->present && entry->masked && ks_peers_open(entry) && !entry->elsewhere &&
           entry->held == KS_HELD_NONE &&
           (entry->owner.worker == 0 || ks_peers_is_me(core, entry->owner));
}

/* The row was read. A worker that drains gives a lease back as soon as it begins, and takes the mask off by that. */
static void unmask(struct ks_core *core, ks_shard shard, struct ks_effects *effects)
{
    if (is_left_masked(core, &core->directory[shard]) && !ks_go_kcl_take(core, shard, effects))
        (void)ks_peers_claim(core, shard, SOON);
}

static void turn(struct ks_core *core, struct ks_effects *effects)
{
    const bool leaving = core->draining && core->fleet.step == KS_SELF_LIVE;

    for (ks_shard shard = 0; leaving && shard < core->directory_top; shard++)
        if (!core->directory[shard].writing && is_left_masked(core, &core->directory[shard]))
            (void)ks_peers_claim(core, shard, ks_span_us(0));
    ks_peers_turn(core, effects);
}

static void start(struct ks_core *core)
{
    ks_peers_start(core);
    core->fleet.stranger_at = KS_LONG_AGO;
    core->fleet.unfree_since = KS_NEVER;
    core->config.stealing = false; /* Rows have no place for a claim. */
}

const struct ks_fleet_protocol ks_kcl_rb_protocol = {
    .start = start,
    .answered = ks_peers_answered,
    .listed = ks_shards_listed,
    .look = ks_peers_look,
    .locked = ks_peers_locked,
    .turn = turn,
    .deadline = ks_peers_deadline,
    .changed = ks_peers_changed,
    .read = ks_go_kcl_read,
    .see = see,
    .take = ks_peers_take,
    .next_rev = ks_go_kcl_next_rev,
    .next_at = ks_go_kcl_next_at,
    .serves_until = ks_go_kcl_serves_until,
    .renew_at = ks_peers_renew_at,
    .round = round_of,
    .claim = unmask,
};
