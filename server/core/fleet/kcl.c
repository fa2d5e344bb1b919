/* SPDX-License-Identifier: Apache-2.0 */
/* The manners of the AWS KCL for Java, 2.x, of whose fleet we are a member: docs/DIALECTS.md.
 *
 * A fleet of equals (peers.h). A row has a counter, its rev here, that each write of its owner moves on, and each take.
 * Nobody writes down a time: an owner lives as long as its counter is seen to move, by the steady clock of whoever
 * looks. Whoever has less than its share takes what is free or stands still, and else one lease of whoever has most. */
#include <assert.h>
#include <stddef.h>

#include "core/fleet/kcl3.h"
#include "core/fleet/peers.h"

/* The next look, while something is to be had soon. */
#define SOON ks_span_ms(1000)
/* Listings are never behind for as long as this. */
#define LISTED_WITHIN ks_span_ms(60000)

/* ---- Times ---- */

static uint64_t next_rev(const struct ks_core *core, const struct ks_lease *lease)
{
    (void)core;
    return lease->rev + 1;
}

/* Others count from when they see the counter move, which is after we asked for it. */
static ks_instant serves_until(const struct ks_core *core, uint64_t rev)
{
    (void)rev;
    return ks_instant_add(core->now,
                          ks_span_us(core->config.lease_duration.us - core->config.margin.us));
}

/* Members scan every two lengths of a lease and 50 ms. */
static ks_span cycle(const struct ks_core *core)
{
    return ks_span_us(2 * core->config.lease_duration.us + 50000);
}

/* Its counter has not moved for so many lengths of a lease. */
static bool still_for(const struct ks_core *core, const struct ks_directory_entry *entry,
                      int64_t lengths)
{
    return ks_peers_unchanged(core, entry).us > lengths * core->config.lease_duration.us;
}

/* ---- Families: which shards are to have rows ---- */

/* Each shard's edges to its children, as a list. */
static void know_children(struct ks_core *core)
{
    for (ks_shard shard = 0; shard < core->directory_top; shard++)
        core->directory[shard].children = KS_SHARD_NONE;
    for (ks_shard shard = 0; shard < core->directory_top; shard++) {
        struct ks_directory_entry *entry = &core->directory[shard];

        for (uint32_t p = 0; p < KS_PARENTS_MAX; p++) {
            if (entry->parents[p] >= core->directory_top)
                continue;
            entry->siblings[p] = core->directory[entry->parents[p]].children;
            core->directory[entry->parents[p]].children = shard * KS_PARENTS_MAX + p;
        }
    }
}

/* Puts all that have rows on the pile. Returns how many. */
static uint32_t pile_up(struct ks_core *core)
{
    uint32_t piled = 0;

    for (ks_shard shard = 0; shard < core->directory_top; shard++)
        if (core->directory[shard].present)
            core->by_key[piled++] = shard;
    return piled;
}

/* Who is marked for the first time, and was not on the pile before, goes there. */
static uint32_t mark(struct ks_core *core, ks_shard shard, bool *marked, uint32_t piled)
{
    if (*marked)
        return piled;
    *marked = true;
    if (!core->directory[shard].present)
        core->by_key[piled++] = shard;
    return piled;
}

/* Whether some descendant, some ancestor has a row. Each shard is on the pile once. */
static void mark_families(struct ks_core *core)
{
    uint32_t piled;

    know_children(core);
    for (ks_shard shard = 0; shard < core->directory_top; shard++)
        core->directory[shard].begun_below = core->directory[shard].begun_above = false;
    for (piled = pile_up(core); piled > 0;) {
        const struct ks_directory_entry *entry = &core->directory[core->by_key[--piled]];

        for (uint32_t p = 0; p < KS_PARENTS_MAX; p++)
            if (entry->parents[p] < core->directory_top)
                piled = mark(core, entry->parents[p],
                             &core->directory[entry->parents[p]].begun_below, piled);
    }
    for (piled = pile_up(core); piled > 0;) {
        ks_shard shard = core->by_key[--piled];

        for (uint32_t edge = core->directory[shard].children; edge != KS_SHARD_NONE;
             edge = ks_shards_next_edge(core, edge))
            piled = mark(core, ks_shards_child(edge),
                         &core->directory[ks_shards_child(edge)].begun_above, piled);
    }
}

/* It has none, and needs one: nobody reads below it. What was closed before an application that begins at the latest
 * is none of its business, unless it is read above. */
static bool lacks_row(const struct ks_core *core, ks_shard shard)
{
    const struct ks_directory_entry *entry;

    if (shard >= core->directory_top)
        return false;
    entry = &core->directory[shard];
    return entry->listed && !entry->present && !entry->begun_below &&
           (!core->config.latest || !entry->closed || entry->begun_above);
}

/* Its row was not there, and the stream was listed since: one that was cleaned up has children in that. */
static bool is_missed(const struct ks_core *core, const struct ks_directory_entry *entry)
{
    return !ks_instant_before(core->fleet.listed_at, entry->missed_at);
}

/* Parents before children, or members that find no row of a parent would not wait for it. */
static bool may_be_made(const struct ks_core *core, ks_shard shard)
{
    const struct ks_directory_entry *entry = &core->directory[shard];

    return lacks_row(core, shard) && is_missed(core, entry) && !entry->writing &&
           !entry->doubtful && !lacks_row(core, entry->parents[0]) &&
           !lacks_row(core, entry->parents[1]);
}

static bool left_out(struct ks_core *core, ks_shard shard)
{
    return shard < core->directory_top && !core->directory[shard].present &&
           !core->directory[shard].listed && !ks_shards_gone(core, shard);
}

/* A parent may be missing because the listing left it out. Then none is made, also elsewhere: whoever ends one parent
 * of a merge makes its child, whether the other one has its row or not. */
static bool all_listed(struct ks_core *core)
{
    for (ks_shard shard = 0; shard < core->directory_top; shard++) {
        const struct ks_directory_entry *entry = &core->directory[shard];

        if (lacks_row(core, shard) &&
            (left_out(core, entry->parents[0]) || left_out(core, entry->parents[1])))
            return false;
    }
    return true;
}

/* Makes rows that are missing. True if some are. */
static bool make_rows(struct ks_core *core, struct ks_effects *effects)
{
    bool certain = all_listed(core);
    bool missing = false;

    for (ks_shard shard = 0; shard < core->directory_top; shard++) {
        const struct ks_directory_entry *entry = &core->directory[shard];

        if (!lacks_row(core, shard))
            continue;
        missing = true;
        if (ks_instant_before(core->fleet.list_asked_at, entry->missed_at))
            core->fleet.list_at = ks_instant_min(core->fleet.list_at, core->now);
        if (certain && may_be_made(core, shard) &&
            !ks_peers_write(core, shard, KS_STORE_CREATE, KS_NOBODY, 0, effects))
            break;
    }
    return missing;
}

/* A parent whose row was cleaned up is over, too. */
static bool parents_over(const struct ks_core *core, const struct ks_directory_entry *entry)
{
    for (uint32_t p = 0; p < KS_PARENTS_MAX; p++) {
        const struct ks_directory_entry *parent;

        if (entry->parents[p] >= core->directory_top)
            continue;
        parent = &core->directory[entry->parents[p]];
        if (parent->present ? !parent->finished : lacks_row(core, entry->parents[p]))
            return false;
    }
    return true;
}

/* A listing that was asked for since its end shows who goes on with its keys; or none ever will. */
static bool knows_children(const struct ks_core *core, const struct ks_lease *lease)
{
    const struct ks_directory_entry *entry = &core->directory[lease->shard];

    if (ks_instant_before(core->fleet.listed_at, lease->end_at))
        return false;
    /* A shard that is not listed is too young for that, or has expired. */
    return ks_instant_since(core->fleet.listed_at, lease->end_at).us > LISTED_WITHIN.us ||
           (entry->ranged ? ks_audit_is_continued(core, lease->shard) : entry->listed);
}

/* The next one, if that one did not: sooner first. */
static ks_instant ask_again_at(const struct ks_core *core, const struct ks_lease *lease)
{
    const ks_span since = ks_instant_since(core->fleet.list_asked_at, lease->end_at);

    return since.us < 0 ? core->now
                        : ks_instant_add(core->fleet.list_asked_at,
                                         ks_span_us(since.us < SOON.us ? SOON.us : since.us));
}

/* SHARD_END comes after the rows of the children, so that somebody reads on whatever becomes of us. */
static bool may_end(const struct ks_core *core, const struct ks_lease *lease)
{
    if (!knows_children(core, lease))
        return false;
    for (uint32_t edge = core->directory[lease->shard].children; edge != KS_SHARD_NONE;
         edge = ks_shards_next_edge(core, edge))
        if (lacks_row(core, ks_shards_child(edge)))
            return false;
    return true;
}

/* ---- Taking: of a table of several streams all rows count, as members count them; ours alone can be taken. ---- */

/* Our own, of an earlier run: at once, but not for ever, or two of one name would take from each other. */
static bool left_behind(const struct ks_core *core, const struct ks_directory_entry *entry)
{
    return ks_peers_is_me(core, entry->owner) &&
           ks_instant_since(core->now, core->fleet.live_at).us < core->config.lease_duration.us;
}

static bool available(const struct ks_core *core, const struct ks_directory_entry *entry)
{
    return entry->owner.worker == 0 || left_behind(core, entry) || still_for(core, entry, 1);
}

static bool counts(const struct ks_core *core, const struct ks_directory_entry *entry)
{
    return entry->present && !still_for(core, entry, 1);
}

bool ks_kcl_readable(const struct ks_core *core, const struct ks_directory_entry *entry)
{
    return entry->present && ks_peers_writable(entry) && parents_over(core, entry);
}

/* Of this share every worker takes as much as it can get: ceil(leases / workers). */
static uint32_t target(const struct ks_core *core)
{
    uint32_t leases = 0;
    uint32_t workers = 0;

    for (ks_shard shard = 0; shard < core->directory_top; shard++)
        leases += core->directory[shard].present && ks_peers_open(&core->directory[shard]);
    for (uint32_t i = 0; i < core->config.workers_max; i++)
        workers += core->members[i].present;
    return workers == 0 || workers >= leases ? 1 : (leases + workers - 1) / workers;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Takes so many of those that `which` picks, beginning anywhere. Returns how many. */
static uint32_t take_some(struct ks_core *core, uint32_t most,
                          bool (*which)(const struct ks_core *core,
                                        const struct ks_directory_entry *entry),
                          struct ks_effects *effects)
{
    uint32_t at = (uint32_t)ks_prng_below(&core->prng, core->directory_top);
    uint32_t taken = 0;

    for (uint32_t i = 0; i < core->directory_top && taken < most; i++) {
        ks_shard shard = (at + i) % core->directory_top;
        struct ks_directory_entry *entry = &core->directory[shard];
        bool owned = entry->owner.worker != 0;

        if (!ks_kcl_readable(core, entry) || !which(core, entry))
            continue;
        if (!ks_peers_write(core, shard, owned ? KS_STORE_TAKE_OVER : KS_STORE_ASSIGN, KS_NOBODY,
                            entry->rev + 1, effects))
            break;
        taken++;
    }
    return taken;
}

static uint32_t count_available(const struct ks_core *core)
{
    uint32_t count = 0;

    for (ks_shard shard = 0; shard < core->directory_top; shard++)
        count += ks_kcl_readable(core, &core->directory[shard]) &&
                 available(core, &core->directory[shard]);
    return count;
}

static bool very_old(const struct ks_core *core, const struct ks_directory_entry *entry)
{
    return still_for(core, entry, 3) || left_behind(core, entry);
}

/* What we have, or will, of other streams, too. */
static uint32_t mine(const struct ks_core *core)
{
    return core->leases_used + ks_peers_writes(&core->fleet) + core->fleet.kcl.elsewhere;
}

/* Half of what is free at a time, so that those who start together share it; what nobody wanted for long is taken
 * whatever our share is. */
static void take_available(struct ks_core *core, uint32_t free, struct ks_effects *effects)
{
    uint32_t share = target(core);

    take_some(core, ks_peers_room(core), very_old, effects);
    if (mine(core) < share)
        take_some(core, least(least(share - mine(core), ks_peers_room(core)), (free + 1) / 2),
                  available, effects);
}

/* ---- Stealing ---- */

/* It has a lease of our stream. */
static bool serves_ours(const struct ks_core *core, struct ks_incarnation who)
{
    for (ks_shard shard = 0; shard < core->directory_top; shard++)
        if (core->directory[shard].present && !core->directory[shard].elsewhere &&
            ks_incarnation_equal(core->directory[shard].owner, who))
            return true;
    return false;
}

static const struct ks_member *richest(const struct ks_core *core)
{
    const struct ks_member *richest = NULL;

    for (uint32_t i = 0; i < core->config.workers_max; i++) {
        const struct ks_member *member = &core->members[i];

        if (member->present && !ks_peers_is_me(core, member->self) &&
            (richest == NULL || member->held > richest->held) && serves_ours(core, member->self))
            richest = member;
    }
    return richest;
}

/* One in each cycle, of whoever has most: more, or rounded in another way, and leases would go round for ever. NULL: of
 * nobody, now. */
static const struct ks_member *victim(const struct ks_core *core)
{
    const struct ks_member *victim = richest(core);
    uint32_t share = target(core);

    if (victim == NULL || mine(core) >= share || ks_peers_room(core) == 0 || victim->held < share ||
        (victim->held == share && share - mine(core) <= 1) ||
        !ks_instant_reached(core->now, core->fleet.claim_at))
        return NULL;
    return victim;
}

/* And the lease may be had. */
static bool has(const struct ks_core *core, const struct ks_member *member, ks_shard shard)
{
    const struct ks_directory_entry *entry = &core->directory[shard];

    return ks_kcl_readable(core, entry) && ks_incarnation_equal(entry->owner, member->self);
}

static void steal_one(struct ks_core *core)
{
    const struct ks_member *whom = victim(core);
    uint32_t at;

    if (whom == NULL)
        return;
    at = (uint32_t)ks_prng_below(&core->prng, core->directory_top);
    for (uint32_t i = 0; i < core->directory_top; i++) {
        ks_shard shard = (at + i) % core->directory_top;

        if (!has(core, whom, shard))
            continue;
        (void)ks_peers_claim(core, shard, ks_span_us(0));
        return;
    }
}

/* The row was read. Meanwhile another one of this process may have stolen, or a leader come. */
static void steal(struct ks_core *core, ks_shard shard, struct ks_effects *effects)
{
    const struct ks_member *whom = victim(core);

    if (whom != NULL && has(core, whom, shard) && ks_peers_want(core) && ks_kcl3_takes(core) &&
        ks_peers_write(core, shard, KS_STORE_TAKE_OVER, KS_NOBODY, core->directory[shard].rev + 1,
                       effects))
        core->fleet.claim_at = ks_instant_add(core->now, cycle(core));
}

/* ---- Rounds ---- */

/* Finished for a while, every child was begun and its own parents are gone: as members do it; or gone from the
 * stream. */
static bool useless(const struct ks_core *core, ks_shard shard)
{
    const struct ks_directory_entry *entry = &core->directory[shard];
    bool has_child = false;

    if (!entry->present || !entry->finished || entry->damaged || entry->elsewhere ||
        ks_peers_unchanged(core, entry).us < core->config.keep.us)
        return false;
    for (uint32_t p = 0; p < KS_PARENTS_MAX; p++)
        if (entry->parents[p] < core->directory_top && core->directory[entry->parents[p]].present)
            return false;
    for (uint32_t edge = core->directory[shard].children; edge != KS_SHARD_NONE;
         edge = ks_shards_next_edge(core, edge)) {
        const struct ks_directory_entry *child = &core->directory[ks_shards_child(edge)];

        if (!child->present || child->damaged || child->unstarted)
            return false;
        has_child = true;
    }
    return has_child || ks_shards_expired(core, shard);
}

/* Rows that members before 1.14 and 2.3 made say no hash keys. Auditors fill them in, of who is read still. */
static void fill_ranges(struct ks_core *core, struct ks_effects *effects)
{
    for (ks_shard shard = 0; shard < core->directory_top; shard++) {
        const struct ks_directory_entry *entry = &core->directory[shard];

        if (entry->present && entry->unranged && entry->listed && entry->ranged &&
            ks_peers_open(entry) && !entry->writing && !entry->doubtful &&
            !ks_peers_write(core, shard, KS_STORE_FILL, KS_NOBODY, entry->rev, effects))
            return;
    }
}

static void round_of(struct ks_core *core, struct ks_effects *effects)
{
    struct ks_fleet *fleet = &core->fleet;
    uint32_t free = count_available(core);
    bool takes = ks_peers_want(core) && ks_kcl3_takes(core);
    bool missing;

    ks_peers_count(core, counts);
    ks_kcl3_count(core, effects);
    mark_families(core);
    fleet->round_at = ks_instant_add(core->now, ks_span_us(core->config.lease_duration.us / 2));
    if (!fleet->kcl.known)
        return;
    missing = make_rows(core, effects);
    if (takes && free > 0)
        take_available(core, free, effects);
    if (takes && free == 0)
        steal_one(core);
    ks_peers_clean_up(core, useless, effects);
    if (!missing && free == 0) {
        fill_ranges(core, effects);
        ks_audit(core, effects);
    }
    fleet->round_at = ks_kcl3_round_at(core, fleet->round_at);
    if (missing || (takes && free > 0 && mine(core) < target(core)))
        fleet->round_at = ks_instant_min(fleet->round_at, ks_instant_add(core->now, SOON));
}

static void listed(struct ks_core *core, const struct ks_event *event)
{
    ks_peers_listed(core, event);
    mark_families(core);
}

/* Who came to the end of a shard needs a listing that was asked for since: its children are in it. */
static void turn(struct ks_core *core, struct ks_effects *effects)
{
    struct ks_fleet *fleet = &core->fleet;

    for (uint32_t i = 0; i < core->leases_top && !fleet->listing; i++)
        if (core->leases[i].used && core->leases[i].at_end &&
            !knows_children(core, &core->leases[i]))
            fleet->list_at = ks_instant_min(fleet->list_at, ask_again_at(core, &core->leases[i]));
    ks_kcl3_turn(core, effects);
    ks_peers_turn(core, effects);
}

static ks_instant deadline(const struct ks_core *core)
{
    return ks_instant_min(ks_peers_deadline(core), ks_kcl3_deadline(core));
}

static void answered(struct ks_core *core, const struct ks_event *event, struct ks_effects *effects)
{
    if (ks_kcl3_answered(core, event, effects))
        return;
    if (ks_token_purpose(event->store.token) == KS_FOR_ROWS && event->store.outcome == KS_DONE)
        ks_kcl3_rows_read(core, event);
    ks_peers_answered(core, event, effects);
}

static void start(struct ks_core *core)
{
    ks_peers_start(core);
    core->fleet.app_present = true; /* Where it begins is for each to know. */
    core->fleet.list_asked_at = KS_LONG_AGO;
    core->fleet.listed_at = KS_LONG_AGO;
    ks_kcl3_start(core);
}

const struct ks_fleet_protocol ks_kcl_protocol = {
    .start = start,
    .answered = answered,
    .listed = listed,
    .look = ks_peers_look,
    .locked = ks_peers_locked,
    .turn = turn,
    .deadline = deadline,
    .changed = ks_peers_changed,
    .read = ks_peers_read,
    .see = ks_peers_see,
    .take = ks_peers_take,
    .next_rev = next_rev,
    .serves_until = serves_until,
    .renew_at = ks_peers_renew_at,
    .may_end = may_end,
    .round = round_of,
    .claim = steal,
};
