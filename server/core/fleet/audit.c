/* SPDX-License-Identifier: Apache-2.0 */
/* The audit: do the open leases cover every hash key? A listing that missed a shard, or came before its parent's end,
 * is asked for again; a row that says finished of a shard that is still written to is, after K, removed, and made
 * anew by the next round: records twice rather than never (docs/PROTOCOL.md A8). */
#include <stddef.h>

#include "core/fleet/native.h"

/* Between listings while there is a hole: at once, then after this, doubling up to the usual. */
#define LIST_AGAIN ks_span_ms(5000)

/* Both ends included. */
struct hole {
    struct ks_hash_key first;
    struct ks_hash_key last;
};

/* ---- Hash keys. ---- */

static bool below(struct ks_hash_key a, struct ks_hash_key b)
{
    return a.high < b.high || (a.high == b.high && a.low < b.low);
}

static struct ks_hash_key key_before(struct ks_hash_key key)
{
    return (struct ks_hash_key){key.high - (key.low == 0), key.low - 1};
}

static struct ks_hash_key key_after(struct ks_hash_key key)
{
    return (struct ks_hash_key){key.high + (key.low == UINT64_MAX), key.low + 1};
}

static bool is_last(struct ks_hash_key key)
{
    return (key.high & key.low) == UINT64_MAX;
}

/* How much of all keys is below this one, in millionths. */
static uint64_t millionths(struct ks_hash_key key)
{
    return (key.high >> 32) * 1000000 >> 32;
}

/* ---- What covers them. ---- */

/* A row that somebody reads, or will; one that nobody can tell anything of, or not now; a shard that has none, for the
 * round that was just made found it waiting for its parents. */
static bool covers(const struct ks_directory_entry *entry)
{
    return entry->present ? entry->damaged || !entry->finished || entry->missing > 0
                          : entry->listed;
}

/* Its row is finished, and yet the stream adds to it. */
static bool is_odd(const struct ks_directory_entry *entry)
{
    return entry->present && entry->finished && !entry->damaged && entry->missing == 0 &&
           entry->listed && !entry->closed;
}

/* Puts all that covers into by_key, in no order. False if the stream does not tell its ranges. */
static bool gather(struct ks_core *core, uint32_t *ret_count)
{
    uint32_t count = 0;

    for (ks_shard shard = 0; shard < core->directory_top; shard++) {
        struct ks_directory_entry *entry = &core->directory[shard];

        if (entry->listed && !entry->ranged)
            return false;
        entry->odd_at = is_odd(entry) ? ks_instant_min(entry->odd_at, core->now) : KS_NEVER;
        if (covers(entry) && entry->ranged)
            core->by_key[count++] = shard;
    }
    *ret_count = count;
    return true;
}

static bool in_order(const struct ks_core *core, uint32_t a, uint32_t b)
{
    return !below(core->directory[core->by_key[b]].first_key,
                  core->directory[core->by_key[a]].first_key);
}

/* Lets what is at `at` sink to its place in the heap of `count`, whose top is the last by key. */
static void sink(struct ks_core *core, uint32_t at, uint32_t count)
{
    for (;;) {
        uint32_t child = 2 * at + 1;
        ks_shard shard;

        if (child >= count)
            return;
        if (child + 1 < count && in_order(core, child, child + 1))
            child++;
        if (in_order(core, child, at))
            return;
        shard = core->by_key[at];
        core->by_key[at] = core->by_key[child];
        core->by_key[child] = shard;
        at = child;
    }
}

/* By first key: a heap needs no room beside itself. */
static void sort(struct ks_core *core, uint32_t count)
{
    for (uint32_t at = count / 2; at-- > 0;)
        sink(core, at, count);
    for (uint32_t left = count; left > 1; left--) {
        ks_shard last = core->by_key[0];

        core->by_key[0] = core->by_key[left - 1];
        core->by_key[left - 1] = last;
        sink(core, 0, left - 1);
    }
}

static bool find_hole(const struct ks_core *core, uint32_t count, struct hole *ret_hole)
{
    struct ks_hash_key next = {0, 0}; /* The lowest that is not known to be covered. */

    for (uint32_t i = 0; i < count; i++) {
        const struct ks_directory_entry *entry = &core->directory[core->by_key[i]];

        if (below(next, entry->first_key)) {
            *ret_hole = (struct hole){next, key_before(entry->first_key)};
            return true;
        }
        if (below(entry->last_key, next))
            continue;
        if (is_last(entry->last_key))
            return false;
        next = key_after(entry->last_key);
    }
    *ret_hole = (struct hole){next, {UINT64_MAX, UINT64_MAX}};
    return true;
}

bool ks_audit_is_continued(const struct ks_core *core, ks_shard shard)
{
    const struct ks_directory_entry *parent = &core->directory[shard];
    struct ks_hash_key next = parent->first_key;
    bool moved = parent->ranged;

    while (moved) {
        moved = false;
        for (uint32_t edge = parent->children; edge != KS_SHARD_NONE;
             edge = ks_shards_next_edge(core, edge)) {
            const struct ks_directory_entry *entry = &core->directory[ks_shards_child(edge)];

            if (!entry->ranged || below(next, entry->first_key) || below(entry->last_key, next))
                continue;
            if (!below(entry->last_key, parent->last_key))
                return true;
            next = key_after(entry->last_key);
            moved = true;
        }
    }
    return !parent->ranged;
}

/* ---- What follows. ---- */

static void strike(struct ks_core *core, const struct hole *hole, struct ks_effects *effects)
{
    struct ks_fleet *fleet = &core->fleet;
    bool same = fleet->hole.high == hole->first.high && fleet->hole.low == hole->first.low;
    struct ks_effect *story;
    ks_span wait = ks_span_us(0);

    /* Whoever else asks for listings makes it no older. */
    if (same && ks_instant_before(core->now, fleet->strike_at)) {
        fleet->list_at = ks_instant_min(fleet->list_at, fleet->strike_at);
        return;
    }
    fleet->strikes = same ? fleet->strikes + 1 : 1;
    fleet->hole = hole->first;
    if (fleet->strikes > 1)
        wait = ks_span_us(LIST_AGAIN.us << (fleet->strikes < 16 ? fleet->strikes - 2 : 14));
    fleet->strike_at = ks_instant_add(core->now, wait);
    fleet->list_at = ks_instant_min(fleet->list_at, fleet->strike_at);
    if (fleet->strikes != KS_AUDIT_STRIKES)
        return;
    fleet->hole_told = true;
    story = ks_effects_story(effects, KS_STORY_HOLE, KS_SHARD_NONE, KS_NOBODY);
    story->story.number = millionths(hole->last) - millionths(hole->first) + 1;
    story->story.count = (uint32_t)millionths(hole->first);
}

/* Removes the rows that the hole consists of, once they have been as they are for K. */
static void open_again(struct ks_core *core, const struct hole *hole, struct ks_effects *effects)
{
    for (ks_shard shard = 0; shard < core->directory_top; shard++) {
        struct ks_directory_entry *entry = &core->directory[shard];
        struct ks_effect *story;

        if (entry->writing || entry->doubtful || below(hole->last, entry->first_key) ||
            below(entry->last_key, hole->first) ||
            !ks_instant_reached(core->now, ks_instant_add(entry->odd_at, core->config.keep)))
            continue;
        if (!ks_leader_may_write(&core->fleet) || !ks_effects_room(core, effects, 2))
            return;
        ks_leader_write(core, shard, KS_STORE_DELETE, KS_NOBODY, effects);
        story = ks_effects_story(effects, KS_STORY_READ_AGAIN, shard, KS_NOBODY);
        story->story.span = ks_instant_since(core->now, entry->odd_at);
    }
}

void ks_audit(struct ks_core *core, struct ks_effects *effects)
{
    struct ks_fleet *fleet = &core->fleet;
    struct hole hole;
    uint32_t count;

    if (!fleet->audit_due || fleet->listing || !fleet->app_present ||
        !ks_effects_room(core, effects, 1) || !gather(core, &count))
        return;
    fleet->audit_due = false;
    sort(core, count);
    if (find_hole(core, count, &hole)) {
        strike(core, &hole, effects);
        open_again(core, &hole, effects);
        return;
    }
    fleet->strikes = 0;
    if (fleet->hole_told)
        ks_effects_story(effects, KS_STORY_COVERED, KS_SHARD_NONE, KS_NOBODY);
    fleet->hole_told = false;
}
