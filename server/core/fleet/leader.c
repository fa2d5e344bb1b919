/* SPDX-License-Identifier: Apache-2.0 */
/* The leader's rounds: docs/PROTOCOL.md A7, A8. Everything here is conditional at the table: two leaders for a moment
 * only do the work twice, and every step may be a dying leader's last. */
#include <assert.h>
#include <stddef.h>

#include "core/fleet/native.h"

/* The lease rows are read again at least this often. */
#define ROWS_EVERY ks_span_ms(10000)
/* After an election nothing is assigned for at most B + this while a live worker may still show its first advance. */
#define MUSTER ks_span_ms(1500)
#define LIST_RETRY ks_span_ms(2000)
#define LIST_AGAIN ks_span_ms(1000)
/* Listings in a row without a parent before it counts as gone from the stream. */
enum { UNLISTED_ENOUGH = 2 };
/* Reads in a row without a row that we know before it counts as deleted: one of them may be an old replica's. */
enum { MISSING_ENOUGH = 2 };

static bool is_me(const struct ks_core *core, struct ks_incarnation who)
{
    return ks_incarnation_equal(who, core->fleet.self);
}

void ks_leader_won(struct ks_core *core)
{
    struct ks_fleet *fleet = &core->fleet;

    fleet->round_at = core->now;
    fleet->rows_stale = true;
    fleet->rows = 0;
    fleet->repairing = false;
    fleet->list_at = core->now;
    for (ks_shard shard = 0; shard < core->directory_top; shard++)
        core->directory[shard].take = KS_TAKE_TOLD;
}

/* ---- Shards and rows. ---- */

void ks_native_listed(struct ks_core *core, const struct ks_event *event)
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
    for (uint32_t i = 0; i < event->listed.count; i++) {
        const struct ks_shard_row *row = &event->listed.shards[i];

        if (!ks_native_know(core, row->shard))
            continue;
        core->directory[row->shard].seen = true;
        core->directory[row->shard].listed = true;
        for (uint32_t p = 0; p < KS_PARENTS_MAX; p++) {
            core->directory[row->shard].parents[p] = row->parents[p];
            if (row->parents[p] != KS_SHARD_NONE && ks_native_know(core, row->parents[p]))
                core->directory[row->parents[p]].seen = true;
        }
    }
    for (ks_shard shard = 0; shard < core->directory_top; shard++) {
        struct ks_directory_entry *entry = &core->directory[shard];

        if (entry->listed || !entry->seen)
            entry->unlisted = 0;
        else if (entry->unlisted < UNLISTED_ENOUGH)
            entry->unlisted++;
    }
    fleet->round_at = core->now;
}

/* The row was deleted, and may be made again from epoch 0. */
static void forget_row(struct ks_directory_entry *entry)
{
    entry->present = false;
    entry->finished = false;
    entry->owner = KS_NOBODY;
    entry->epoch = 0;
}

void ks_leader_rows(struct ks_core *core, uint32_t serial, const struct ks_event *event,
                    struct ks_effects *effects)
{
    struct ks_fleet *fleet = &core->fleet;

    if (fleet->rows != serial)
        return;
    fleet->rows = 0;
    if (event->store.outcome != KS_DONE) {
        fleet->round_at = ks_instant_add(core->now, core->config.round);
        return;
    }
    for (ks_shard shard = 0; shard < core->directory_top; shard++)
        if (core->directory[shard].missing < MISSING_ENOUGH)
            core->directory[shard].missing++;
    for (uint32_t i = 0; i < event->store.lease_count; i++) {
        const struct ks_lease_row *row = &event->store.leases[i];
        struct ks_directory_entry *entry;

        if (!ks_native_know(core, row->shard))
            continue;
        entry = &core->directory[row->shard];
        if (row->damaged && !entry->damaged && ks_effects_room(core, effects, 1))
            ks_effects_story(effects, KS_STORY_DAMAGED, row->shard, KS_NOBODY);
        entry->seen = true;
        entry->missing = 0;
        entry->present = true;
        entry->damaged = row->damaged;
        if (row->damaged || row->epoch < entry->epoch)
            continue; /* An old replica's, if it is below what we know. */
        entry->finished = row->finished;
        entry->owner = row->owner;
        entry->next_owner = row->next_owner;
        entry->epoch = row->epoch;
        entry->known = core->next_serial;
        entry->doubtful = false;
        for (uint32_t p = 0; p < KS_PARENTS_MAX; p++)
            entry->parents[p] = row->parents[p];
    }
    for (ks_shard shard = 0; shard < core->directory_top; shard++)
        if (core->directory[shard].present && core->directory[shard].missing >= MISSING_ENOUGH)
            forget_row(&core->directory[shard]);
    fleet->rows_stale = false;
    fleet->rows_fresh = true;
    fleet->rows_at = core->now;
}

/* A parent is over if its row says so, or if it has no row and is not in the stream either, asked for twice (A8). */
static bool parents_over(struct ks_core *core, const struct ks_directory_entry *entry)
{
    for (uint32_t p = 0; p < KS_PARENTS_MAX; p++) {
        const struct ks_directory_entry *parent;

        if (entry->parents[p] == KS_SHARD_NONE || entry->parents[p] >= core->directory_top)
            continue;
        parent = &core->directory[entry->parents[p]];
        if (parent->present ? parent->finished : parent->unlisted >= UNLISTED_ENOUGH)
            continue;
        if (!parent->present && !parent->listed)
            core->fleet.list_at =
                ks_instant_min(core->fleet.list_at, ks_instant_add(core->now, LIST_AGAIN));
        return false;
    }
    return true;
}

/* ---- Who may carry. ---- */

static bool fit(const struct ks_core *core, const struct ks_member *member)
{
    if (!member->present || member->damaged || member->life != KS_LIVE ||
        member->leases >= core->config.leases_max)
        return false;
    if (is_me(core, member->self))
        return core->fleet.mode == KS_ACTIVE && ks_core_serving(core);
    return member->mode == KS_ACTIVE && member->advanced &&
           ks_instant_since(core->now, member->advanced_at).us <= 2 * core->config.beat.us;
}

static struct ks_member *least_loaded(const struct ks_core *core)
{
    struct ks_member *best = NULL;

    for (uint32_t i = 0; i < core->config.workers_max; i++) {
        struct ks_member *member = &core->members[i];

        if (fit(core, member) && (best == NULL || member->leases < best->leases))
            best = member;
    }
    return best;
}

/* Just elected: a live worker may still show its first advance; otherwise the first one would get everything. */
static bool mustering(const struct ks_core *core)
{
    ks_instant until =
        ks_instant_add(core->fleet.won_at, ks_span_us(core->config.beat.us + MUSTER.us));

    if (ks_instant_reached(core->now, until))
        return false;
    for (uint32_t i = 0; i < core->config.workers_max; i++) {
        const struct ks_member *member = &core->members[i];

        if (member->present && !member->damaged && member->life == KS_LIVE && !member->advanced &&
            !is_me(core, member->self))
            return true;
    }
    return false;
}

/* S3: a consistent read of the worker rows, sent after the lease row was seen with this owner and epoch. */
static bool proven_dead(const struct ks_core *core, const struct ks_directory_entry *entry)
{
    const struct ks_member *member = ks_native_member(core, entry->owner.worker);

    if (!ks_core_after(core->fleet.proof, entry->known))
        return false;
    if (member == NULL)
        return true;
    if (member->damaged)
        return false;
    return member->self.boot != entry->owner.boot || member->life != KS_LIVE;
}

/* ---- Writes. ---- */

static struct ks_leader_write *free_write(struct ks_fleet *fleet)
{
    for (uint32_t i = 0; i < KS_LEADER_WRITES_MAX; i++)
        if (!fleet->writes[i].used)
            return &fleet->writes[i];
    return NULL;
}

static void write_row(struct ks_core *core, ks_shard shard, enum ks_store_operation operation,
                      struct ks_incarnation target, struct ks_effects *effects)
{
    struct ks_fleet *fleet = &core->fleet;
    struct ks_directory_entry *entry = &core->directory[shard];
    struct ks_leader_write *write = free_write(fleet);
    struct ks_store_effect *store;

    assert(write != NULL && !entry->writing);
    *write = (struct ks_leader_write){
        .used = true,
        .serial = ks_core_serial(core),
        .shard = shard,
        .operation = operation,
        .target = target,
        .epoch = entry->epoch,
    };
    entry->writing = true;
    store = ks_effects_store(
        effects, operation,
        ks_token_make(KS_FOR_SHARD, (uint32_t)(write - fleet->writes), write->serial));
    store->shard = shard;
    store->worker = target;
    store->owner = entry->owner;
    store->epoch = entry->epoch;
}

static void given(struct ks_core *core, const struct ks_leader_write *write,
                  struct ks_effects *effects)
{
    struct ks_directory_entry *entry = &core->directory[write->shard];

    ks_effects_story(effects,
                     write->operation == KS_STORE_ASSIGN ? KS_STORY_ASSIGNED : KS_STORY_TAKEN_OVER,
                     write->shard, write->target);
    if (entry->epoch > write->epoch + 1)
        return; /* A read that overtook this answer shows that it has moved on. */
    entry->owner = write->target;
    entry->next_owner = KS_NOBODY;
    entry->epoch = write->epoch + 1;
    entry->known = core->next_serial;
    if (is_me(core, write->target)) {
        ks_self_take(core, write->shard, entry->epoch, false);
        return;
    }
    entry->take = KS_TAKE_DUE;
    core->fleet.takes_due = true;
}

void ks_leader_written(struct ks_core *core, uint32_t index, uint32_t serial,
                       const struct ks_event *event, struct ks_effects *effects)
{
    struct ks_leader_write *write = &core->fleet.writes[index];
    struct ks_directory_entry *entry;

    if (!write->used || write->serial != serial)
        return;
    write->used = false;
    entry = &core->directory[write->shard];
    entry->writing = false;
    if (event->store.outcome != KS_DONE) {
        core->fleet.rows_stale = true; /* Read before the next write. */
        entry->doubtful = true;
        return;
    }
    if (write->operation != KS_STORE_CREATE) {
        given(core, write, effects);
        return;
    }
    entry->present = true;
    entry->missing = 0;
    entry->owner = KS_NOBODY;
    entry->epoch = 0;
    entry->known = core->next_serial;
    core->fleet.round_at = core->now;
    ks_effects_story(effects, KS_STORY_CREATED, write->shard, KS_NOBODY);
}

/* ---- The repair of one row. ---- */

static void give(struct ks_core *core, ks_shard shard, enum ks_store_operation operation,
                 struct ks_effects *effects)
{
    struct ks_member *member = mustering(core) ? NULL : least_loaded(core);

    if (member == NULL)
        return;
    member->leases++;
    write_row(core, shard, operation, member->self, effects);
}

static void repair(struct ks_core *core, ks_shard shard, struct ks_effects *effects)
{
    struct ks_directory_entry *entry = &core->directory[shard];

    if (entry->writing || entry->damaged)
        return;
    if (!entry->present) {
        if (entry->listed && core->fleet.app_present && parents_over(core, entry))
            write_row(core, shard, KS_STORE_CREATE, KS_NOBODY, effects);
        return;
    }
    if (entry->finished || entry->doubtful)
        return;
    if (entry->owner.worker == 0) {
        if (parents_over(core, entry))
            give(core, shard, KS_STORE_ASSIGN, effects);
        return;
    }
    if (is_me(core, entry->owner)) {
        if (entry->held == KS_HELD_NONE && entry->epoch > entry->ended)
            ks_self_take(core, shard, entry->epoch, false);
        return;
    }
    if (proven_dead(core, entry))
        give(core, shard, KS_STORE_TAKE_OVER, effects);
}

static bool writes_free(const struct ks_fleet *fleet)
{
    for (uint32_t i = 0; i < KS_LEADER_WRITES_MAX; i++)
        if (!fleet->writes[i].used)
            return true;
    return false;
}

/* ---- The round. ---- */

static void count_leases(struct ks_core *core)
{
    for (uint32_t i = 0; i < core->config.workers_max; i++)
        core->members[i].leases = 0;
    for (ks_shard shard = 0; shard < core->directory_top; shard++) {
        const struct ks_directory_entry *entry = &core->directory[shard];
        struct ks_member *member;

        if (!entry->present || entry->finished || entry->owner.worker == 0)
            continue;
        member = ks_native_member(core, entry->owner.worker);
        if (member != NULL && member->self.boot == entry->owner.boot)
            member->leases++;
    }
}

static void tell_again(struct ks_core *core, struct ks_incarnation owner)
{
    for (ks_shard shard = 0; shard < core->directory_top; shard++) {
        struct ks_directory_entry *entry = &core->directory[shard];

        if (entry->present && !entry->finished && ks_incarnation_equal(entry->owner, owner))
            entry->take = KS_TAKE_DUE; /* Also what was sent: ADD is idempotent. */
    }
    core->fleet.takes_due = true;
}

/* Who holds less than its rows say, for 1.5 B, was not told or has forgotten. */
static void check_held(struct ks_core *core)
{
    for (uint32_t i = 0; i < core->config.workers_max; i++) {
        struct ks_member *member = &core->members[i];

        if (!member->present || is_me(core, member->self) || member->held >= member->leases) {
            member->short_since = KS_NEVER;
            continue;
        }
        member->short_since = ks_instant_min(member->short_since, core->now);
        if (ks_instant_since(core->now, member->short_since).us < core->config.beat.us * 3 / 2)
            continue;
        member->short_since = core->now;
        tell_again(core, member->self);
    }
}

static uint64_t changes_sum(const struct ks_core *core)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < core->config.workers_max; i++)
        if (core->members[i].present)
            /* Twice: a lease lost is one change more and one held less, and must not cancel. */
            sum +=
                2 * core->members[i].changes + core->members[i].held + core->members[i].self.boot;
    return sum;
}

void ks_leader_fleet_read(struct ks_core *core)
{
    struct ks_fleet *fleet = &core->fleet;
    uint64_t sum = changes_sum(core);
    bool moved = sum != fleet->changes_sum;

    fleet->changes_sum = sum;
    if (moved && !fleet->rows_fresh) {
        /* Some worker won or lost leases since: read the rows, then the workers again. */
        fleet->rows_stale = true;
        fleet->round_at = core->now;
        return;
    }
    fleet->rows_stale |= moved; /* In a fleet that never rests a round must come to its end, too. */
    fleet->rows_fresh = false;
    fleet->repairing = true;
    fleet->proof = fleet->news_serial;
    fleet->cursor = 0;
    count_leases(core);
    check_held(core);
}

static void repair_on(struct ks_core *core, struct ks_effects *effects)
{
    struct ks_fleet *fleet = &core->fleet;

    while (fleet->cursor < core->directory_top) {
        if (!writes_free(fleet))
            return; /* An answer brings us back. */
        if (!ks_effects_room(core, effects, 1))
            return;
        repair(core, fleet->cursor, effects);
        fleet->cursor++;
    }
    fleet->repairing = false;
}

/* ---- Hints. ---- */

static uint32_t gather(struct ks_core *core, struct ks_incarnation owner,
                       struct ks_lease_token *tokens)
{
    uint32_t count = 0;

    for (ks_shard shard = 0; shard < core->directory_top && count < KS_TOKENS_MAX; shard++) {
        struct ks_directory_entry *entry = &core->directory[shard];

        if (entry->take != KS_TAKE_DUE || !ks_incarnation_equal(entry->owner, owner))
            continue;
        entry->take = KS_TAKE_SENT;
        tokens[count++] = (struct ks_lease_token){shard, entry->epoch};
    }
    return count;
}

static void hint(struct ks_core *core, struct ks_effects *effects)
{
    struct ks_fleet *fleet = &core->fleet;
    uint32_t buffer = 0;

    for (uint32_t i = 0; i < core->config.workers_max; i++) {
        struct ks_member *member = &core->members[i];
        struct ks_store_effect *store;
        uint32_t count;

        if (!member->present || member->damaged || member->life != KS_LIVE || member->hints != 0 ||
            is_me(core, member->self))
            continue;
        if (buffer == KS_HINT_WRITES_MAX || !ks_effects_room(core, effects, 1)) {
            core->again = true;
            return;
        }
        count = gather(core, member->self, fleet->hint_tokens[buffer]);
        if (count == 0)
            continue;
        member->hints = ks_core_serial(core);
        store = ks_effects_store(effects, KS_STORE_HINTS,
                                 ks_token_make(KS_FOR_HINTS, i, member->hints));
        store->worker = member->self;
        store->expect_boot = member->self.boot;
        store->takes = fleet->hint_tokens[buffer++];
        store->take_count = count;
    }
    fleet->takes_due = false;
}

void ks_leader_hinted(struct ks_core *core, uint32_t index, uint32_t serial,
                      enum ks_outcome outcome)
{
    struct ks_member *member = &core->members[index];

    if (!member->present || member->hints != serial)
        return;
    member->hints = 0;
    for (ks_shard shard = 0; shard < core->directory_top; shard++) {
        struct ks_directory_entry *entry = &core->directory[shard];

        if (entry->take == KS_TAKE_SENT && ks_incarnation_equal(entry->owner, member->self))
            entry->take = outcome == KS_UNKNOWN ? KS_TAKE_DUE : KS_TAKE_TOLD;
        core->fleet.takes_due |= entry->take == KS_TAKE_DUE;
    }
}

/* ---- What is due. ---- */

static bool may_round(const struct ks_core *core)
{
    const struct ks_fleet *fleet = &core->fleet;

    return fleet->rows == 0 && fleet->news == 0 && !fleet->repairing;
}

static bool rows_due(const struct ks_core *core)
{
    return core->fleet.rows_stale ||
           ks_instant_reached(core->now, ks_instant_add(core->fleet.rows_at, ROWS_EVERY));
}

void ks_leader_turn(struct ks_core *core, struct ks_effects *effects)
{
    struct ks_fleet *fleet = &core->fleet;

    if (fleet->repairing)
        repair_on(core, effects);
    if (fleet->takes_due)
        hint(core, effects);
    if (!fleet->listing && ks_instant_reached(core->now, fleet->list_at) &&
        ks_effects_room(core, effects, 1)) {
        fleet->listing = true;
        ks_effects_add(effects, KS_EFFECT_LIST);
    }
    if (!may_round(core) || !ks_instant_reached(core->now, fleet->round_at))
        return;
    if (!rows_due(core)) {
        ks_office_ask(core, true, true, effects);
        return;
    }
    fleet->rows = ks_core_serial(core);
    ks_effects_store(effects, KS_STORE_READ_LEASES, ks_token_make(KS_FOR_ROWS, 0, fleet->rows));
}

ks_instant ks_leader_deadline(const struct ks_core *core)
{
    const struct ks_fleet *fleet = &core->fleet;
    ks_instant due = KS_NEVER;

    if (may_round(core))
        due = fleet->round_at;
    if (!fleet->listing)
        due = ks_instant_min(due, fleet->list_at);
    return due;
}
