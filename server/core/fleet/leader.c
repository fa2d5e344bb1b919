/* SPDX-License-Identifier: Apache-2.0 */
/* The leader's rounds: docs/PROTOCOL.md A7, A8. Everything here is conditional at the table: two leaders for a moment
 * only do the work twice, and every step may be a dying leader's last. */
#include <assert.h>
#include <stddef.h>

#include "core/fleet/native.h"
#include "core/operator.h"

/* The lease rows are read again at least this often. */
#define ROWS_EVERY ks_span_ms(10000)
/* After an election nothing is assigned for at most B + this while a live worker may still show its first advance. */
#define MUSTER ks_span_ms(1500)

static bool is_me(const struct ks_core *core, struct ks_incarnation who)
{
    return ks_incarnation_equal(who, core->fleet.self);
}

void ks_leader_won(struct ks_core *core)
{
    struct ks_fleet *fleet = &core->fleet;

    fleet->round_at = core->now;
    fleet->rows_stale = true;
    fleet->rows_fresh = false;
    fleet->rows_at = KS_LONG_AGO;
    fleet->rows_wanted_at = KS_NEVER;
    fleet->rows = 0;
    fleet->repairing = false;
    fleet->balancing = false;
    fleet->list_at = core->now;
    for (ks_shard shard = 0; shard < core->directory_top; shard++) {
        struct ks_directory_entry *entry = &core->directory[shard];

        entry->hinted = 0; /* What a leader before us told does not count (force). */
        /* So is what the stream looked like when we led before: rows may be finished and deleted since. */
        entry->listed = false;
        if (entry->present)
            entry->unlisted = 0;
    }
}

/* ---- Who may carry. ---- */

bool ks_leader_fit(const struct ks_core *core, const struct ks_member *member)
{
    if (!member->present || member->damaged || member->life != KS_LIVE)
        return false;
    if (is_me(core, member->self))
        return core->fleet.mode == KS_ACTIVE && ks_core_serving(core);
    return member->mode == KS_ACTIVE && member->advanced &&
           ks_instant_since(core->now, member->advanced_at).us <= 2 * core->config.beat.us;
}

bool ks_leader_full(const struct ks_core *core, const struct ks_member *member, uint32_t leases)
{
    uint64_t capacity = is_me(core, member->self) ? ks_operator_capacity(core) : member->capacity;

    return leases >= core->config.leases_max || (capacity != 0 && leases >= capacity);
}

struct ks_member *ks_leader_least_loaded(const struct ks_core *core)
{
    struct ks_member *best = NULL;

    for (uint32_t i = 0; i < core->config.workers_max; i++) {
        struct ks_member *member = &core->members[i];

        if (ks_leader_fit(core, member) && !ks_leader_full(core, member, member->planned) &&
            (best == NULL || member->planned < best->planned))
            best = member;
    }
    return best;
}

/* Elected as a newcomer among others: a live worker may still show its first advance, or come; otherwise the first one
 * would get everything. */
bool ks_leader_mustering(const struct ks_core *core)
{
    ks_instant gathered = ks_instant_add(core->fleet.won_at, core->config.beat);
    ks_instant came = ks_instant_add(core->fleet.came_at, core->config.news);
    bool others = false;

    if (core->fleet.warm || ks_instant_reached(core->now, ks_instant_add(gathered, MUSTER)))
        return false;
    for (uint32_t i = 0; i < core->config.workers_max; i++) {
        const struct ks_member *member = &core->members[i];

        if (!member->present || member->damaged || member->life != KS_LIVE ||
            is_me(core, member->self))
            continue;
        if (!member->advanced)
            return true;
        others = true;
    }
    return others && ks_instant_before(core->now, ks_instant_max(gathered, came));
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

struct ks_leader_write *ks_leader_write(struct ks_core *core, ks_shard shard,
                                        enum ks_store_operation operation,
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
    store->next_owner = target;
    store->epoch = entry->epoch;
    store->consistent = operation == KS_STORE_READ_LEASE;
    fleet->found = true;
    return write;
}

/* The lease has another owner now. */
static void given(struct ks_core *core, const struct ks_leader_write *write, enum ks_story story,
                  struct ks_effects *effects)
{
    struct ks_directory_entry *entry = &core->directory[write->shard];

    ks_effects_story(effects, story, write->shard, write->target);
    entry->owner = write->target;
    entry->next_owner = KS_NOBODY;
    entry->epoch = write->epoch + 1;
    entry->known = core->next_serial;
    ks_hints_owner(core, write->shard);
}

/* The lease is to move, or not any more. */
static void planned(struct ks_core *core, const struct ks_leader_write *write,
                    struct ks_effects *effects)
{
    struct ks_directory_entry *entry = &core->directory[write->shard];

    enum ks_story story = write->for_load ? KS_STORY_EVENS_OUT : KS_STORY_MOVES;

    ks_effects_story(effects, write->target.worker == 0 ? KS_STORY_STAYS : story, write->shard,
                     write->target);
    entry->next_owner = write->target;
    entry->known = core->next_serial;
    entry->hinted = 0;
    ks_hints_move(core, write->shard);
}

static void created(struct ks_core *core, const struct ks_leader_write *write,
                    struct ks_effects *effects)
{
    struct ks_directory_entry *entry = &core->directory[write->shard];

    entry->present = true;
    entry->missing = 0;
    entry->owner = KS_NOBODY;
    entry->epoch = 0;
    entry->known = core->next_serial;
    core->fleet.round_at = core->now;
    ks_effects_story(effects, KS_STORY_CREATED, write->shard, KS_NOBODY);
}

static void done(struct ks_core *core, const struct ks_leader_write *write,
                 struct ks_effects *effects)
{
    if (write->operation == KS_STORE_CREATE)
        created(core, write, effects);
    else if (write->operation == KS_STORE_DELETE)
        ks_shards_deleted(core, write->shard);
    else if (write->operation == KS_STORE_PLAN)
        planned(core, write, effects);
    else if (write->operation == KS_STORE_ASSIGN)
        given(core, write, KS_STORY_ASSIGNED, effects);
    else if (write->operation == KS_STORE_TAKE_OVER)
        given(core, write, KS_STORY_TAKEN_OVER, effects);
    else
        given(core, write, KS_STORY_FORCED, effects);
}

static ks_epoch changes_epoch(enum ks_store_operation operation)
{
    return operation == KS_STORE_ASSIGN || operation == KS_STORE_TAKE_OVER ||
           operation == KS_STORE_FORCE;
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
    if (write->operation == KS_STORE_READ_LEASE) {
        if (event->store.outcome == KS_DONE)
            ks_shards_read(core, write->shard, serial, event);
        return;
    }
    /* A row that two reads did not show since was deleted, or they were old: read again. */
    if (event->store.outcome != KS_DONE ||
        (!entry->present && write->operation != KS_STORE_CREATE)) {
        core->fleet.rows_stale = true; /* Read before the next write. */
        entry->doubtful = true;
        return;
    }
    if (entry->epoch <= write->epoch + changes_epoch(write->operation))
        done(core, write, effects);
    /* Else a read that overtook this answer shows that it has moved on. */
}

/* ---- The repair of one row. ---- */

static void give(struct ks_core *core, ks_shard shard, enum ks_store_operation operation,
                 struct ks_member *member, struct ks_effects *effects)
{
    if (member == NULL)
        return;
    member->planned++;
    ks_leader_write(core, shard, operation, member->self, effects);
}

static struct ks_member *taker(const struct ks_core *core)
{
    return ks_leader_mustering(core) ? NULL : ks_leader_least_loaded(core);
}

/* Who the row says is next, if it can carry. */
static struct ks_member *next_fit(const struct ks_core *core,
                                  const struct ks_directory_entry *entry)
{
    struct ks_member *next = ks_native_member(core, entry->next_owner.worker);

    if (entry->next_owner.worker == 0 || next == NULL ||
        !ks_incarnation_equal(next->self, entry->next_owner) || !ks_leader_fit(core, next))
        return NULL;
    return next;
}

/* Any heartbeat of the owner that was applied before our `give` stood in its row was sent before it, and its time is
 * over; any later one showed the `give` before it gave time (A7). */
static bool may_force(const struct ks_core *core, const struct ks_directory_entry *entry)
{
    int64_t hand_over = core->config.hand_over.us + core->config.beat.us;
    int64_t stood =
        hand_over > core->config.lease_duration.us ? hand_over : core->config.lease_duration.us;

    return entry->hinted == entry->epoch && entry->give == KS_HINT_TOLD &&
           ks_instant_reached(
               core->now,
               ks_instant_add(entry->give_at, ks_span_us(stood + core->config.margin.us)));
}

/* A planned move: the next leader finishes it from the row alone. */
static void repair_move(struct ks_core *core, ks_shard shard, struct ks_effects *effects)
{
    struct ks_directory_entry *entry = &core->directory[shard];
    struct ks_member *next = next_fit(core, entry);

    if (next == NULL) {
        struct ks_member *other = taker(core);

        if (ks_leader_mustering(core))
            return;
        if (other != NULL && ks_incarnation_equal(other->self, entry->owner))
            other = NULL;
        if (other != NULL)
            other->planned++;
        ks_leader_write(core, shard, KS_STORE_PLAN, other == NULL ? KS_NOBODY : other->self,
                        effects);
        return;
    }
    if (may_force(core, entry))
        ks_leader_write(core, shard, KS_STORE_FORCE, next->self, effects);
    else
        ks_hints_move(core, shard);
}

static void repair_owned(struct ks_core *core, ks_shard shard, struct ks_effects *effects)
{
    struct ks_directory_entry *entry = &core->directory[shard];
    struct ks_member *next;

    if (proven_dead(core, entry)) {
        next = ks_leader_mustering(core) ? NULL : next_fit(core, entry);
        give(core, shard, KS_STORE_TAKE_OVER, next != NULL ? next : taker(core), effects);
        return;
    }
    if (is_me(core, entry->owner) && entry->held == KS_HELD_NONE)
        ks_orders_take(core, shard, entry->epoch, false);
    if (entry->next_owner.worker != 0)
        repair_move(core, shard, effects);
}

static void repair(struct ks_core *core, ks_shard shard, struct ks_effects *effects)
{
    struct ks_directory_entry *entry = &core->directory[shard];

    if (entry->writing || entry->damaged)
        return;
    if (!entry->present) {
        if (entry->listed && !ks_leader_goes_on(core) && core->fleet.app_present &&
            ks_shards_parents_over(core, entry))
            ks_leader_write(core, shard, KS_STORE_CREATE, KS_NOBODY, effects);
        return;
    }
    if (entry->doubtful && ks_leader_goes_on(core))
        ks_leader_write(core, shard, KS_STORE_READ_LEASE, KS_NOBODY, effects);
    if (entry->doubtful || entry->missing > 0)
        return; /* What we know of it may be of a row that is no more. */
    if (entry->finished) {
        if (ks_shards_may_delete(core, shard))
            ks_leader_write(core, shard, KS_STORE_DELETE, KS_NOBODY, effects);
        return;
    }
    if (entry->owner.worker != 0)
        repair_owned(core, shard, effects);
    else if (ks_shards_parents_over(core, entry))
        give(core, shard, KS_STORE_ASSIGN, taker(core), effects);
}

bool ks_leader_may_write(const struct ks_fleet *fleet)
{
    for (uint32_t i = 0; i < KS_LEADER_WRITES_MAX; i++)
        if (!fleet->writes[i].used)
            return true;
    return false;
}

/* ---- The round. ---- */

static struct ks_member *incarnation(const struct ks_core *core, struct ks_incarnation who)
{
    struct ks_member *member = who.worker == 0 ? NULL : ks_native_member(core, who.worker);

    return member != NULL && ks_incarnation_equal(member->self, who) ? member : NULL;
}

static void count_leases(struct ks_core *core)
{
    core->fleet.moves = 0;
    for (uint32_t i = 0; i < core->config.workers_max; i++)
        core->members[i].traffic = core->members[i].leases = core->members[i].planned = 0;
    for (ks_shard shard = 0; shard < core->directory_top; shard++) {
        const struct ks_directory_entry *entry = &core->directory[shard];
        struct ks_member *owner;
        struct ks_member *next;

        if (!entry->present || entry->finished || entry->damaged)
            continue;
        owner = incarnation(core, entry->owner);
        next = incarnation(core, entry->next_owner);
        core->fleet.moves += entry->next_owner.worker != 0;
        if (owner != NULL) {
            owner->leases++;
            owner->traffic += entry->load;
        }
        if (next != NULL)
            next->planned++;
        else if (owner != NULL)
            owner->planned++;
    }
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
        ks_hints_again(core, member->self);
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

    if (fleet->rows_at.us == KS_LONG_AGO.us)
        return; /* We know of no lease yet. */
    fleet->changes_sum = sum;
    if (moved && !fleet->rows_fresh && !ks_leader_goes_on(core)) {
        /* Some worker won or lost leases since: read the rows, then the workers again. */
        fleet->rows_stale = true;
        fleet->round_at = core->now;
        return;
    }
    fleet->rows_stale |= moved; /* In a fleet that never rests a round must come to its end, too. */
    fleet->rows_fresh = false;
    fleet->repairing = true;
    fleet->found = false;
    fleet->balancing = false;
    fleet->proof = fleet->news_serial;
    fleet->cursor = 0;
    count_leases(core);
    check_held(core);
}

static void repair_on(struct ks_core *core, struct ks_effects *effects)
{
    struct ks_fleet *fleet = &core->fleet;

    while (fleet->cursor < core->directory_top) {
        if (!ks_leader_may_write(fleet))
            return; /* An answer brings us back. */
        if (!ks_effects_room(core, effects, 1))
            return;
        if (fleet->balancing)
            ks_balance(core, fleet->cursor, effects);
        else
            repair(core, fleet->cursor, effects);
        fleet->cursor++;
    }
    if (fleet->balancing && !fleet->found && !ks_leader_goes_on(core))
        ks_balance_load(core, effects);
    if (fleet->balancing || fleet->found) {
        fleet->repairing = false;
        fleet->balancing = false;
        return;
    }
    if (!ks_leader_goes_on(core))
        ks_audit(core, effects);
    /* Nothing to repair: the same rows, once more, for leases that should move. */
    fleet->balancing = true;
    fleet->cursor = 0;
    core->again = true;
}

/* ---- What is due. ---- */

/* The rows of a large table take long, and may not come at all. Rounds wait for them as long as a request may take, and
 * a round more. */
static ks_instant goes_on_at(const struct ks_core *core)
{
    return ks_instant_add(core->fleet.rows_wanted_at,
                          ks_span_us(core->config.timeout.us + core->config.round.us));
}

bool ks_leader_goes_on(const struct ks_core *core)
{
    return ks_instant_reached(core->now, goes_on_at(core));
}

static ks_instant round_due(const struct ks_core *core)
{
    const struct ks_fleet *fleet = &core->fleet;

    if (fleet->news != 0 || fleet->repairing)
        return KS_NEVER;
    return fleet->rows == 0 ? fleet->round_at : ks_instant_max(fleet->round_at, goes_on_at(core));
}

/* Each answer has a round before the next one is asked for. */
static bool rows_due(const struct ks_core *core)
{
    const struct ks_fleet *fleet = &core->fleet;

    return fleet->rows == 0 && !fleet->rows_fresh &&
           (fleet->rows_stale ||
            ks_instant_reached(core->now, ks_instant_add(fleet->rows_at, ROWS_EVERY)));
}

/* More leases are being given away. */
static bool is_writing(const struct ks_fleet *fleet)
{
    for (uint32_t i = 0; i < KS_LEADER_WRITES_MAX; i++)
        if (fleet->writes[i].used)
            return true;
    return false;
}

static void ask_rows(struct ks_core *core, struct ks_effects *effects)
{
    struct ks_fleet *fleet = &core->fleet;

    fleet->rows = ks_core_serial(core);
    fleet->rows_asked_at = core->now;
    fleet->rows_wanted_at = ks_instant_min(fleet->rows_wanted_at, core->now);
    fleet->rows_stale = false; /* What moves from now on they may not show. */
    ks_effects_store(effects, KS_STORE_READ_LEASES, ks_token_make(KS_FOR_ROWS, 0, fleet->rows));
}

void ks_leader_turn(struct ks_core *core, struct ks_effects *effects)
{
    struct ks_fleet *fleet = &core->fleet;

    if (fleet->repairing)
        repair_on(core, effects);
    if (fleet->hints_due && (!is_writing(fleet) || ks_instant_reached(core->now, fleet->hints_at)))
        ks_hints_turn(core, effects);
    /* The app row says from when on shards count. */
    if (!fleet->listing && fleet->app_present && ks_instant_reached(core->now, fleet->list_at) &&
        ks_effects_room(core, effects, 1)) {
        fleet->listing = true;
        ks_effects_add(effects, KS_EFFECT_LIST);
    }
    if (!ks_instant_reached(core->now, round_due(core)))
        return;
    if (rows_due(core))
        ask_rows(core, effects);
    if (fleet->rows == 0 || ks_leader_goes_on(core))
        ks_office_ask(core, true, true, effects);
}

ks_instant ks_leader_deadline(const struct ks_core *core)
{
    const struct ks_fleet *fleet = &core->fleet;
    ks_instant due = round_due(core);

    if (!fleet->listing && fleet->app_present)
        due = ks_instant_min(due, fleet->list_at);
    if (fleet->hints_due && is_writing(fleet))
        due = ks_instant_min(due, fleet->hints_at);
    return due;
}
