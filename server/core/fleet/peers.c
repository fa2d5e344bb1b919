/* SPDX-License-Identifier: Apache-2.0 */
#include "core/fleet/peers.h"

#include <assert.h>
#include <stddef.h>

#include "core/lease.h"
#include "core/operator.h"

enum { US_PER_EPOCH = 10000 };
/* The next look, after one that failed. */
#define SOON ks_span_ms(1000)
#define POLL ks_span_ms(500)

/* ---- Rows ---- */

bool ks_peers_is_me(const struct ks_core *core, struct ks_incarnation who)
{
    return ks_incarnation_equal(who, core->fleet.self);
}

struct ks_lease *ks_peers_held(const struct ks_core *core, const struct ks_directory_entry *entry)
{
    return entry->held == KS_HELD_NONE ? NULL : &core->leases[entry->held];
}

/* The table knows no epochs. */
void ks_peers_read(const struct ks_core *core, struct ks_lease_row *row)
{
    const struct ks_lease *lease = ks_peers_held(core, &core->directory[row->shard]);

    if (lease == NULL || row->damaged)
        return;
    row->epoch = lease->epoch + !(ks_peers_is_me(core, row->owner) && row->rev <= lease->tried);
}

/* Time counts as watched between looks that are no further apart than this. */
static ks_span gap(const struct ks_core *core)
{
    return ks_span_us(2 * core->config.beat.us);
}

/* While all rows are being read, which may take long, nobody watches this one: that is no gap, and does not count. */
static void watch(const struct ks_core *core, struct ks_directory_entry *entry,
                  const struct ks_lease_row *row)
{
    ks_instant until = core->fleet.rows == 0
                           ? core->now
                           : ks_instant_max(core->fleet.rows_asked_at, entry->read_at);
    bool same = entry->present && ks_incarnation_equal(entry->owner, row->owner) &&
                entry->rev == row->rev &&
                ks_instant_since(until, entry->read_at).us <= gap(core).us;

    if (same)
        entry->seen_at = ks_instant_add(entry->seen_at, ks_instant_since(core->now, until));
    else
        entry->seen_at = core->now;
    entry->read_at = core->now;
}

ks_span ks_peers_unchanged(const struct ks_core *core, const struct ks_directory_entry *entry)
{
    return ks_instant_since(core->now, entry->seen_at);
}

/* We gave it back, or came to its end: what stands in the row besides is read before the next write. */
static void see_our_end(struct ks_core *core, struct ks_directory_entry *entry, bool finished)
{
    entry->owner = KS_NOBODY;
    entry->finished = finished;
    entry->doubtful = true;
    core->fleet.round_at = core->now;
    if (finished)
        core->fleet.list_at = core->now; /* Its children can be read now. */
}

void ks_peers_see(struct ks_core *core, uint32_t serial, const struct ks_lease_row *row)
{
    struct ks_directory_entry *entry = &core->directory[row->shard];
    struct ks_lease *lease = ks_peers_held(core, entry);

    (void)serial;
    entry->seen = true;
    entry->missing = 0;
    entry->missed_at = KS_NEVER;
    entry->elsewhere = row->elsewhere;
    entry->unserved = row->unserved;
    entry->ranged &= !row->elsewhere; /* Its number may have been that of a shard of ours. */
    /* Rows as read have no epoch, but that of the lease that we hold. */
    if (lease == NULL && row->epoch != 0) {
        see_our_end(core, entry, row->finished);
        return;
    }
    entry->damaged = row->damaged;
    entry->damage_told &= row->damaged;
    if (!row->damaged)
        watch(core, entry, row);
    entry->present = true;
    if (row->damaged && lease != NULL)
        lease->reread = true; /* Nothing is written to what cannot be read. */
    if (row->damaged)
        return;
    entry->owner = row->owner;
    entry->next_owner = row->next_owner;
    entry->rev = row->rev;
    entry->finished = row->finished;
    entry->unstarted = row->unstarted;
    entry->doubtful = false;
    entry->unranged = row->unranged;
    if (row->ranged) {
        entry->ranged = true;
        entry->first_key = row->first_key;
        entry->last_key = row->last_key;
    }
    for (uint32_t p = 0; p < KS_PARENTS_MAX && !entry->listed; p++)
        entry->parents[p] = row->parents[p];
    if (lease != NULL && (!ks_peers_is_me(core, row->owner) || row->next_owner.worker != 0))
        lease->reread = true; /* It is for the lease to find out, by a consistent read. */
}

void ks_peers_take(struct ks_core *core, ks_shard shard, ks_epoch epoch)
{
    (void)epoch;
    /* Somebody wrote our name: as anybody's lease it is taken when its time is over. */
    core->directory[shard].doubtful = true;
    core->fleet.round_at = core->now;
}

/* ---- Who has what: for balance, and for people ---- */

struct ks_member *ks_peers_member(struct ks_core *core, struct ks_incarnation who)
{
    struct ks_member *member = ks_native_member(core, who.worker);
    uint32_t slots = core->config.workers_max;
    uint32_t at = who.worker % slots;

    for (uint32_t i = 0; member == NULL && i < slots; i++, at = at + 1 == slots ? 0 : at + 1)
        if (!core->members[at].present)
            member = &core->members[at];
    if (member != NULL && !member->present)
        *member =
            (struct ks_member){.present = true, .self = who, .life = KS_LIVE, .seen_at = core->now};
    return member;
}

bool ks_peers_open(const struct ks_directory_entry *entry)
{
    return (entry->present || entry->listed) && !entry->finished && !entry->damaged;
}

void ks_peers_count(struct ks_core *core, bool (*counts)(const struct ks_core *core,
                                                         const struct ks_directory_entry *entry))
{
    struct ks_member *self;
    uint32_t elsewhere = 0;

    for (uint32_t i = 0; i < core->config.workers_max; i++)
        core->members[i].present = false;
    for (ks_shard shard = 0; shard < core->directory_top; shard++) {
        const struct ks_directory_entry *entry = &core->directory[shard];
        struct ks_member *member;

        if (!ks_peers_open(entry) || entry->owner.worker == 0 || !counts(core, entry))
            continue;
        if (ks_peers_is_me(core, entry->owner)) {
            elsewhere += entry->elsewhere; /* Of our stream we know it better. */
            continue;
        }
        member = ks_peers_member(core, entry->owner);
        if (member != NULL)
            member->held++;
    }
    core->fleet.kcl.elsewhere = elsewhere;
    self = ks_peers_member(core, core->fleet.self);
    if (self == NULL)
        return;
    self->held = core->leases_used + elsewhere;
    self->mode = core->fleet.mode;
    self->capacity = ks_operator_capacity(core);
    self->load = core->fleet.load;
}

bool ks_peers_want(const struct ks_core *core)
{
    return core->fleet.mode == KS_ACTIVE && !core->draining && !core->fleet.strangers;
}

/* Leases that we may take now. */
uint32_t ks_peers_room(const struct ks_core *core)
{
    uint32_t most = ks_operator_capacity(core);
    uint32_t have = core->leases_used + ks_peers_writes(&core->fleet);

    if (most == 0 || most > core->config.leases_max)
        most = core->config.leases_max;
    return have < most ? most - have : 0;
}

ks_instant ks_peers_renew_at(const struct ks_core *core, ks_instant asked_at)
{
    return ks_instant_add(asked_at, core->config.beat);
}

/* ---- Writes ---- */

bool ks_peers_writable(const struct ks_directory_entry *entry)
{
    return ks_peers_open(entry) && !entry->elsewhere && entry->held == KS_HELD_NONE &&
           !entry->writing && !entry->doubtful && !(entry->pause.on && !entry->pause.keeps);
}

static struct ks_leader_write *free_write(struct ks_fleet *fleet)
{
    for (uint32_t i = 0; i < KS_LEADER_WRITES_MAX; i++)
        if (!fleet->writes[i].used)
            return &fleet->writes[i];
    return NULL;
}

uint32_t ks_peers_writes(const struct ks_fleet *fleet)
{
    uint32_t used = 0;

    for (uint32_t i = 0; i < KS_LEADER_WRITES_MAX; i++)
        used += fleet->writes[i].used;
    return used;
}

static bool read_one(struct ks_core *core, ks_shard shard, ks_span after, bool claims)
{
    struct ks_directory_entry *entry = &core->directory[shard];
    struct ks_leader_write *write = free_write(&core->fleet);

    assert(!entry->writing && entry->held == KS_HELD_NONE);
    if (write == NULL)
        return false;
    *write = (struct ks_leader_write){
        .used = true,
        .shard = shard,
        .operation = KS_STORE_READ_LEASE,
        /* Of what we claim nobody else takes care. */
        .deadline = claims && ks_peers_is_me(core, entry->next_owner)
                        ? KS_NEVER
                        : ks_instant_add(core->now, core->config.lease_duration),
        .reading = true,
        .read_at = ks_instant_add(core->now, after),
        .claims = claims,
    };
    entry->writing = true;
    return true;
}

bool ks_peers_look_at(struct ks_core *core, ks_shard shard)
{
    return read_one(core, shard, ks_span_us(0), false);
}

bool ks_peers_claim(struct ks_core *core, ks_shard shard, ks_span after)
{
    return read_one(core, shard, after, true);
}

static bool is_take(enum ks_store_operation operation)
{
    return operation == KS_STORE_ASSIGN || operation == KS_STORE_TAKE_OVER;
}

/* Until when a take of this rev serves: an earlier one of the same rev may be the one that is done. */
static ks_instant take_serves_until(const struct ks_core *core, struct ks_directory_entry *entry,
                                    uint64_t rev)
{
    ks_instant until = core->protocol->serves_until(core, rev);

    if (entry->tried == rev)
        until = ks_instant_min(until, entry->tried_until);
    entry->tried = rev;
    entry->tried_until = until;
    return until;
}

static struct ks_leader_write *send(struct ks_core *core, ks_shard shard,
                                    enum ks_store_operation operation, struct ks_incarnation target,
                                    uint64_t rev, struct ks_effects *effects)
{
    struct ks_fleet *fleet = &core->fleet;
    struct ks_directory_entry *entry = &core->directory[shard];
    struct ks_leader_write *write = free_write(fleet);
    struct ks_store_effect *store;

    assert(!entry->writing);
    if (write == NULL || !ks_effects_room(core, effects, 1))
        return NULL;
    *write = (struct ks_leader_write){
        .used = true,
        .serial = ks_core_serial(core),
        .shard = shard,
        .operation = operation,
        .target = target,
        .rev = rev,
        .asked_at = core->now,
        .deadline = is_take(operation) ? take_serves_until(core, entry, rev) : KS_NEVER,
    };
    entry->writing = true;
    store = ks_effects_store(
        effects, operation,
        ks_token_make(KS_FOR_SHARD, (uint32_t)(write - fleet->writes), write->serial));
    store->shard = shard;
    store->worker = fleet->self;
    store->owner = entry->owner;
    store->next_owner = operation == KS_STORE_PLAN ? target : entry->next_owner; /* As read. */
    store->rev = entry->rev;
    store->next_rev = rev;
    return write;
}

bool ks_peers_write(struct ks_core *core, ks_shard shard, enum ks_store_operation operation,
                    struct ks_incarnation target, uint64_t rev, struct ks_effects *effects)
{
    if (core->fleet.blind && is_take(operation))
        return ks_peers_look_at(core, shard);
    return send(core, shard, operation, target, rev, effects) != NULL;
}

bool ks_peers_renew(struct ks_core *core, ks_shard shard, uint64_t rev, struct ks_effects *effects)
{
    struct ks_leader_write *write = send(core, shard, KS_STORE_TAKE_OVER, KS_NOBODY, rev, effects);

    if (write != NULL)
        write->renews = true;
    return write != NULL;
}

static void done(struct ks_core *core, const struct ks_leader_write *write,
                 struct ks_effects *effects)
{
    struct ks_directory_entry *entry = &core->directory[write->shard];

    if (write->operation == KS_STORE_DELETE)
        ks_shards_deleted(core, write->shard);
    if (write->operation == KS_STORE_FILL)
        entry->unranged = false;
    if (write->operation == KS_STORE_CREATE) {
        entry->present = true;
        entry->missing = 0;
        entry->rev = write->rev;
        entry->unstarted = true;
        core->fleet.round_at = core->now; /* Now it can be taken. */
        ks_effects_story(effects, KS_STORY_CREATED, write->shard, KS_NOBODY);
    }
    if (write->operation != KS_STORE_PLAN)
        return;
    entry->next_owner = write->target;
    if (write->target.worker != 0)
        ks_effects_story(effects, KS_STORY_MOVES, write->shard, write->target);
    if (ks_peers_is_me(core, write->target))
        (void)ks_peers_claim(core, write->shard, SOON); /* When it is given back. */
}

static void written(struct ks_core *core, struct ks_leader_write *write,
                    const struct ks_event *event, struct ks_effects *effects)
{
    struct ks_directory_entry *entry = &core->directory[write->shard];
    const enum ks_outcome outcome = event->store.outcome;
    const bool plans = write->operation == KS_STORE_PLAN;

    if ((is_take(write->operation) && outcome != KS_REFUSED) || (plans && outcome == KS_UNKNOWN)) {
        /* Done, or perhaps: the row tells, and from which checkpoint to begin. */
        write->reading = true;
        write->read_at = plans ? ks_instant_add(core->now, POLL) : core->now;
        write->claims = plans;
        write->serial = 0;
        return;
    }
    write->used = false;
    entry->writing = false;
    entry->doubtful = outcome != KS_DONE;
    if (outcome != KS_DONE)
        return;
    done(core, write, effects);
}

/* An epoch is ours alone: it is in acks (40 bits of it), and comes in no other run of ours. A wall clock beyond 40 bits
 * (before 1970, after the year 2318) says nothing; then epochs count on from the last one of this run. */
static ks_epoch new_epoch(const struct ks_core *core, const struct ks_directory_entry *entry)
{
    ks_epoch epoch = (ks_epoch)(core->wall_us / US_PER_EPOCH);

    if (epoch > KS_ROW_EPOCH_MAX)
        epoch = 1;
    return epoch > entry->ended ? epoch : entry->ended + 1;
}

static void begin(struct ks_core *core, const struct ks_leader_write *write,
                  const struct ks_lease_row *row, struct ks_effects *effects)
{
    struct ks_directory_entry *entry = &core->directory[write->shard];
    struct ks_lease_row begun = *row;
    struct ks_lease *lease;

    begun.epoch = new_epoch(core, entry);
    ks_lease_begin(core, &begun, effects);
    lease = ks_peers_held(core, entry);
    if (lease == NULL)
        return;
    entry->epoch = begun.epoch;
    lease->asked_at = write->asked_at;
    lease->deadline = ks_instant_min(lease->deadline, write->deadline);
    lease->renew_at = core->protocol->renew_at(core, write->asked_at);
}

/* What a read after a take shows: it is ours if the row is as we wrote it. A write that comes later than this makes a
 * lease of nobody, which runs out. */
static void read_back(struct ks_core *core, struct ks_leader_write *write,
                      const struct ks_event *event, struct ks_effects *effects)
{
    const struct ks_lease_row *row = event->store.leases;
    struct ks_directory_entry *entry = &core->directory[write->shard];

    write->serial = 0;
    write->read_at = ks_instant_add(core->now, POLL);
    if (event->store.outcome != KS_DONE && ks_instant_before(core->now, write->deadline))
        return;
    write->used = false;
    entry->writing = false;
    entry->doubtful = true;
    core->fleet.blind = event->store.outcome != KS_DONE;
    if (event->store.outcome != KS_DONE || event->store.lease_count == 0)
        return;
    core->protocol->see(core, KS_SERIAL_NOW, row);
    if (is_take(write->operation) && !write->renews && !row->damaged && !row->finished &&
        ks_peers_is_me(core, row->owner) && row->rev == write->rev && entry->held == KS_HELD_NONE &&
        ks_instant_before(core->now, write->deadline))
        begin(core, write, row, effects);
    if (write->claims)
        core->protocol->claim(core, write->shard, effects);
}

static void read_writes(struct ks_core *core, struct ks_effects *effects)
{
    for (uint32_t i = 0; i < KS_LEADER_WRITES_MAX; i++) {
        struct ks_leader_write *write = &core->fleet.writes[i];
        struct ks_store_effect *store;

        if (!write->used || !write->reading || write->serial != 0 ||
            !ks_instant_reached(core->now, write->read_at))
            continue;
        if (!ks_effects_room(core, effects, 1))
            return;
        write->serial = ks_core_serial(core);
        store = ks_effects_store(effects, KS_STORE_READ_LEASE,
                                 ks_token_make(KS_FOR_ORDER, i, write->serial));
        store->shard = write->shard;
        store->consistent = true;
    }
}

void ks_peers_clean_up(struct ks_core *core,
                       bool (*useless)(const struct ks_core *core, ks_shard shard),
                       struct ks_effects *effects)
{
    for (ks_shard shard = 0; shard < core->directory_top; shard++) {
        const struct ks_directory_entry *entry = &core->directory[shard];

        if (!entry->writing && !entry->doubtful && useless(core, shard) &&
            !ks_peers_write(core, shard, KS_STORE_DELETE, KS_NOBODY, entry->rev, effects))
            return;
    }
}

/* ---- Looks ---- */

static void forget_missing(struct ks_core *core)
{
    for (ks_shard shard = 0; shard < core->directory_top; shard++) {
        struct ks_directory_entry *entry = &core->directory[shard];
        struct ks_lease *lease = ks_peers_held(core, entry);

        if (!entry->missing)
            continue;
        if (entry->present)
            ks_shards_deleted(core, shard);
        entry->missed_at = ks_instant_min(entry->missed_at, core->now);
        entry->rev = 0;
        entry->doubtful = false;
        if (lease != NULL)
            lease->reread = true;
    }
}

/* All rows: a row that a consistent read does not show is not there. */
static void rows_read(struct ks_core *core, const struct ks_event *event,
                      struct ks_effects *effects)
{
    core->fleet.round_at = ks_instant_add(core->now, SOON);
    if (event->store.outcome != KS_DONE || core->fleet.step != KS_SELF_LIVE) {
        core->fleet.rows = 0;
        return;
    }
    for (ks_shard shard = 0; shard < core->directory_top; shard++)
        core->directory[shard].missing = 1;
    for (uint32_t i = 0; i < event->store.lease_count; i++) {
        const struct ks_lease_row *row = &event->store.leases[i];

        if (!ks_native_know(core, row->shard))
            continue;
        core->protocol->see(core, KS_SERIAL_NOW, row);
        if (!row->damaged || core->directory[row->shard].damage_told ||
            !ks_effects_room(core, effects, 1))
            continue;
        core->directory[row->shard].damage_told = true;
        ks_effects_story(effects, KS_STORY_DAMAGED, row->shard, KS_NOBODY);
    }
    forget_missing(core);
    core->fleet.rows = 0;
    core->fleet.rows_at = core->now;
    core->protocol->round(core, effects);
}

void ks_peers_answered(struct ks_core *core, const struct ks_event *event,
                       struct ks_effects *effects)
{
    uint64_t token = event->store.token;
    uint32_t serial = ks_token_serial(token);
    struct ks_leader_write *write = NULL;

    if (ks_token_purpose(token) == KS_FOR_ROWS) {
        if (core->fleet.rows == serial)
            rows_read(core, event, effects);
        return;
    }
    assert(ks_token_purpose(token) == KS_FOR_SHARD || ks_token_purpose(token) == KS_FOR_ORDER);
    write = &core->fleet.writes[ks_token_subject(token)];
    if (!write->used || write->serial != serial)
        return;
    if (write->reading)
        read_back(core, write, event, effects);
    else
        written(core, write, event, effects);
}

/* ---- We ourselves ---- */

void ks_peers_start(struct ks_core *core)
{
    ks_native_begin(core);
    core->fleet.step = KS_SELF_LIVE;
    core->fleet.deadline = KS_NEVER; /* Each lease has its own. */
}

void ks_peers_listed(struct ks_core *core, const struct ks_event *event)
{
    ks_shards_listed(core, event);
    if (event->listed.ok)
        core->fleet.listed_at = core->fleet.list_asked_at;
}

void ks_peers_look(struct ks_core *core)
{
    core->fleet.round_at = core->now;
}

void ks_peers_changed(struct ks_core *core)
{
    core->fleet.changes++;
}

void ks_peers_locked(struct ks_core *core, const struct ks_event *event, struct ks_effects *effects)
{
    (void)core;
    (void)event;
    (void)effects;
}

/* Who wants no leases keeps none: nobody would take them from us. */
static void choose(struct ks_core *core, struct ks_effects *effects)
{
    struct ks_fleet *fleet = &core->fleet;
    enum ks_mode before = fleet->mode;

    ks_self_choose(core, effects);
    /* There is nobody to tell. */
    fleet->told = true;
    fleet->told_mode = fleet->mode;
    fleet->told_capacity = ks_operator_capacity(core);
    if (fleet->mode != before)
        fleet->round_at = core->now;
    for (uint32_t i = 0; !ks_peers_want(core) && i < core->leases_top; i++)
        if (core->leases[i].used)
            ks_lease_return(core, &core->leases[i]);
}

static void say_resting(struct ks_core *core, struct ks_effects *effects)
{
    struct ks_fleet *fleet = &core->fleet;
    bool resting = false;

    for (uint32_t i = 0; i < core->leases_top; i++)
        resting |= core->leases[i].used && !ks_core_serving_lease(core, &core->leases[i]);
    if (resting != fleet->resting)
        ks_effects_story(effects, resting ? KS_STORY_HEARTBEAT_LATE : KS_STORY_HEARTBEAT_BACK,
                         KS_SHARD_NONE, fleet->self);
    fleet->resting = resting;
}

static bool may_leave(const struct ks_core *core)
{
    return core->draining && ((core->leases_used == 0 && ks_peers_writes(&core->fleet) == 0 &&
                               !core->fleet.division.enrolled && !core->fleet.kcl.reported) ||
                              ks_instant_reached(core->now, ks_self_last_call(core)));
}

static void leave(struct ks_core *core)
{
    core->fleet.deadline = KS_LONG_AGO;
    core->fleet.step = KS_SELF_GONE;
}

void ks_peers_turn(struct ks_core *core, struct ks_effects *effects)
{
    struct ks_fleet *fleet = &core->fleet;

    if (fleet->step == KS_SELF_LIVE && may_leave(core))
        leave(core);
    if (fleet->step == KS_SELF_GONE)
        ks_self_finish(core, effects);
    if (fleet->step != KS_SELF_LIVE)
        return;
    choose(core, effects);
    say_resting(core, effects);
    read_writes(core, effects);
    if (!fleet->listing && ks_instant_reached(core->now, fleet->list_at) &&
        ks_effects_room(core, effects, 1)) {
        fleet->listing = true;
        fleet->list_asked_at = core->now;
        ks_effects_add(effects, KS_EFFECT_LIST);
    }
    if (fleet->rows == 0 && ks_instant_reached(core->now, fleet->round_at) &&
        ks_effects_room(core, effects, 1)) {
        fleet->rows = ks_core_serial(core);
        fleet->rows_asked_at = core->now;
        ks_effects_store(effects, KS_STORE_READ_LEASES, ks_token_make(KS_FOR_ROWS, 0, fleet->rows))
            ->consistent = true;
    }
}

ks_instant ks_peers_deadline(const struct ks_core *core)
{
    const struct ks_fleet *fleet = &core->fleet;
    ks_instant due = ks_self_choice(core);

    if (fleet->step == KS_SELF_GONE)
        return ks_self_deadline(core);
    if (fleet->step != KS_SELF_LIVE)
        return KS_NEVER;
    if (may_leave(core))
        return core->now;
    if (core->draining)
        due = ks_instant_min(due, ks_self_last_call(core));
    if (fleet->rows == 0)
        due = ks_instant_min(due, fleet->round_at);
    if (!fleet->listing)
        due = ks_instant_min(due, fleet->list_at);
    for (uint32_t i = 0; i < KS_LEADER_WRITES_MAX; i++)
        if (fleet->writes[i].used && fleet->writes[i].reading && fleet->writes[i].serial == 0)
            due = ks_instant_min(due, fleet->writes[i].read_at);
    for (uint32_t i = 0; i < core->leases_top && !fleet->resting; i++)
        if (core->leases[i].used)
            due = ks_instant_min(due, core->leases[i].deadline);
    return due;
}
