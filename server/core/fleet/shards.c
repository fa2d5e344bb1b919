/* SPDX-License-Identifier: Apache-2.0 */
/* What the leader knows of shards: the stream's listing, the lease rows, and which rows may be made or deleted
 * (docs/PROTOCOL.md A5, A8). */
#include <stddef.h>

#include "core/fleet/native.h"

#define LIST_AGAIN ks_span_ms(1000)
#define LIST_RETRY ks_span_ms(2000)
/* Listings in a row without a parent before it counts as gone from the stream. */
enum { UNLISTED_ENOUGH = 2 };
/* Reads in a row without a row that we know before it counts as deleted: one of them may be an old replica's. */
enum { MISSING_ENOUGH = 2 };

static void see_range(struct ks_directory_entry *entry, struct ks_hash_key first,
                      struct ks_hash_key last)
{
    entry->ranged = true;
    entry->first_key = first;
    entry->last_key = last;
}

static void see_listed(struct ks_core *core, const struct ks_shard_row *row)
{
    struct ks_directory_entry *entry;

    if (!ks_native_know(core, row->shard))
        return;
    entry = &core->directory[row->shard];
    entry->seen = true;
    entry->elsewhere = false; /* Its number may have been that of another one. */
    entry->listed = true;
    entry->closed = row->closed;
    if (row->ranged)
        see_range(entry, row->first_key, row->last_key);
    for (uint32_t p = 0; p < KS_PARENTS_MAX; p++) {
        entry->parents[p] = row->parents[p];
        if (row->parents[p] != KS_SHARD_NONE && ks_native_know(core, row->parents[p]))
            core->directory[row->parents[p]].seen = true;
    }
}

/* How often in a row it was missing; listings that come close together count once. */
static void count_unlisted(const struct ks_core *core, struct ks_directory_entry *entry)
{
    if (entry->listed || !entry->seen)
        entry->unlisted = 0;
    else if (entry->unlisted == 0) {
        entry->unlisted = 1;
        entry->unlisted_at = core->now;
    } else if (ks_instant_reached(core->now, ks_instant_add(entry->unlisted_at, LIST_AGAIN))) {
        entry->unlisted = UNLISTED_ENOUGH;
    }
}

void ks_shards_listed(struct ks_core *core, const struct ks_event *event)
{
    struct ks_fleet *fleet = &core->fleet;

    fleet->listing = false;
    if (!event->listed.ok) {
        fleet->list_at = ks_instant_add(core->now, LIST_RETRY);
        return;
    }
    fleet->list_at = ks_instant_add(core->now, core->config.list_every);
    for (ks_shard shard = 0; shard < core->directory_top; shard++)
        core->directory[shard].listed = false;
    for (uint32_t i = 0; i < event->listed.count; i++)
        see_listed(core, &event->listed.shards[i]);
    for (ks_shard shard = 0; shard < core->directory_top; shard++)
        count_unlisted(core, &core->directory[shard]);
    fleet->round_at = core->now;
    fleet->audit_due = true;
}

/* The row was deleted, and may be made again from epoch 0. */
static void forget_row(struct ks_directory_entry *entry)
{
    entry->present = false;
    entry->finished = false;
    entry->damaged = false; /* Deleting it is how people mend it. */
    entry->doubtful = false;
    entry->odd_at = KS_NEVER;
    entry->owner = KS_NOBODY;
    entry->next_owner = KS_NOBODY;
    entry->epoch = 0;
    entry->hinted = 0; /* What was told was about that row. */
}

/* What was read or written of a row since it was asked for is newer than what comes: a read may take long. */
static bool is_newer(const struct ks_directory_entry *entry, uint32_t serial)
{
    return serial != KS_SERIAL_NOW && entry->present && !ks_core_after(serial, entry->known);
}

void ks_shards_see(struct ks_core *core, uint32_t serial, const struct ks_lease_row *row)
{
    struct ks_directory_entry *entry = &core->directory[row->shard];
    bool untold;

    entry->seen = true;
    /* Below what we know it is an old replica's, or that of a row which was deleted and made again: then the second
     * read of all rows that shows it counts. */
    if (!row->damaged && row->epoch < entry->epoch && entry->missing >= MISSING_ENOUGH)
        forget_row(entry);
    if (!row->damaged &&
        (row->epoch < entry->epoch || (row->epoch == entry->epoch && is_newer(entry, serial))))
        return;
    entry->missing = 0;
    entry->present = true;
    entry->damaged = row->damaged;
    if (row->damaged)
        return;
    /* A move that was made before its next owner was told: what was told is about the old epoch. Or a write of ours of
     * which we did not hear, or not yet, whether it was done. */
    untold = core->fleet.leads && row->owner.worker != 0 && row->epoch == entry->epoch + 1 &&
             (entry->doubtful || entry->writing ||
              (entry->hinted == entry->epoch && entry->next_take != KS_HINT_TOLD &&
               ks_incarnation_equal(row->owner, entry->next_owner)));
    if (row->finished && !entry->finished) {
        core->fleet.list_at = core->now; /* Its children can have rows now. */
        core->fleet.round_at = core->now;
    }
    if (row->owner.worker == 0 && entry->owner.worker != 0)
        core->fleet.round_at = core->now; /* It is free. */
    entry->finished = row->finished;
    entry->owner = row->owner;
    entry->next_owner = row->next_owner;
    entry->epoch = row->epoch;
    entry->load = row->load;
    entry->known = core->next_serial;
    entry->doubtful = false;
    if (row->ranged)
        see_range(entry, row->first_key, row->last_key);
    for (uint32_t p = 0; p < KS_PARENTS_MAX; p++)
        entry->parents[p] = row->parents[p];
    if (untold)
        ks_hints_owner(core, row->shard);
}

/* An old replica may answer twice in a row, but not for a whole beat; and a row may be made while the others are read.
 */
static void count_missing(const struct ks_core *core, struct ks_directory_entry *entry)
{
    if (entry->missing == MISSING_ENOUGH ||
        (entry->missing > 0 &&
         ks_instant_since(core->fleet.rows_asked_at, entry->missed_at).us < core->config.beat.us))
        return;
    entry->missing++;
    entry->missed_at = core->now;
}

void ks_shards_read(struct ks_core *core, ks_shard shard, uint32_t serial,
                    const struct ks_event *event)
{
    struct ks_directory_entry *entry = &core->directory[shard];

    if (event->store.lease_count > 0) {
        ks_shards_see(core, serial, event->store.leases);
        return;
    }
    /* Whether it is gone for good a read of all rows tells; until then it is left alone. */
    entry->doubtful = false;
    if (entry->missing == 0) {
        entry->missing = 1;
        entry->missed_at = core->now;
    }
}

void ks_shards_rows(struct ks_core *core, uint32_t serial, const struct ks_event *event,
                    struct ks_effects *effects)
{
    struct ks_fleet *fleet = &core->fleet;

    if (fleet->rows != serial)
        return;
    fleet->rows = 0;
    if (event->store.outcome != KS_DONE) {
        fleet->rows_stale = true;
        fleet->round_at = ks_instant_add(core->now, core->config.round);
        return;
    }
    for (ks_shard shard = 0; shard < core->directory_top; shard++)
        if (!is_newer(&core->directory[shard], serial))
            count_missing(core, &core->directory[shard]);
    for (uint32_t i = 0; i < event->store.lease_count; i++) {
        const struct ks_lease_row *row = &event->store.leases[i];

        if (!ks_native_know(core, row->shard))
            continue;
        if (row->damaged && !core->directory[row->shard].damaged &&
            ks_effects_room(core, effects, 1))
            ks_effects_story(effects, KS_STORY_DAMAGED, row->shard, KS_NOBODY);
        ks_shards_see(core, serial, row);
    }
    for (ks_shard shard = 0; shard < core->directory_top; shard++)
        if (core->directory[shard].present && core->directory[shard].missing >= MISSING_ENOUGH)
            forget_row(&core->directory[shard]);
    fleet->rows_fresh = true;
    fleet->rows_at = core->now;
    fleet->rows_wanted_at = KS_NEVER;
    fleet->repairing = false; /* A round that went by what was known before. */
}

bool ks_shards_unlisted(const struct ks_directory_entry *entry)
{
    return entry->unlisted >= UNLISTED_ENOUGH;
}

bool ks_shards_gone(struct ks_core *core, ks_shard shard)
{
    const struct ks_directory_entry *entry = &core->directory[shard];

    if (!ks_shards_unlisted(entry) && !entry->listed)
        core->fleet.list_at =
            ks_instant_min(core->fleet.list_at, ks_instant_add(core->now, LIST_AGAIN));
    return ks_shards_unlisted(entry);
}

/* A parent is over if its row says so, or if it has no row and is not in the stream either, asked for twice (A8). */
bool ks_shards_parents_over(struct ks_core *core, const struct ks_directory_entry *entry)
{
    for (uint32_t p = 0; p < KS_PARENTS_MAX; p++) {
        const struct ks_directory_entry *parent;

        if (entry->parents[p] == KS_SHARD_NONE || entry->parents[p] >= core->directory_top)
            continue;
        parent = &core->directory[entry->parents[p]];
        /* A row that was not there again may be one that was made again, and is not finished yet. */
        if (parent->present ? !(parent->finished && parent->missing == 0)
                            : !ks_shards_gone(core, entry->parents[p]))
            return false;
    }
    return true;
}

bool ks_shards_free(const struct ks_core *core)
{
    for (ks_shard shard = 0; shard < core->directory_top; shard++) {
        const struct ks_directory_entry *entry = &core->directory[shard];

        if (entry->present && !entry->finished && !entry->damaged && entry->owner.worker == 0)
            return true;
    }
    return false;
}

/* ---- Deletion. ---- */

static bool children_have_rows(const struct ks_core *core, ks_shard parent)
{
    for (ks_shard shard = 0; shard < core->directory_top; shard++) {
        const struct ks_directory_entry *entry = &core->directory[shard];

        if ((entry->parents[0] == parent || entry->parents[1] == parent) && !entry->present &&
            !ks_shards_unlisted(entry))
            return false;
    }
    return true;
}

bool ks_shards_expired(const struct ks_core *core, ks_shard shard)
{
    const struct ks_directory_entry *entry = &core->directory[shard];

    return entry->present && entry->finished && !entry->damaged && !entry->listed &&
           ks_instant_reached(core->now, ks_instant_add(entry->unlisted_at, core->config.keep)) &&
           ks_shards_unlisted(entry);
}

/* And every child has a row: it has done its duty. */
bool ks_shards_may_delete(const struct ks_core *core, ks_shard shard)
{
    return ks_shards_expired(core, shard) && children_have_rows(core, shard);
}

void ks_shards_deleted(struct ks_core *core, ks_shard shard)
{
    forget_row(&core->directory[shard]);
}
