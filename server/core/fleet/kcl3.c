/* SPDX-License-Identifier: Apache-2.0 */
#include "core/fleet/kcl3.h"

#include <assert.h>
#include <stddef.h>

#include "core/fleet/peers.h"

/* How often workers of the library look at the rows about the fleet, at most; and after a look that failed. */
#define PROBE_EVERY ks_span_ms(60000)
#define PROBE_AGAIN ks_span_ms(2000)
#define SOON ks_span_ms(1000)
/* As the library has it, where no row says how long a leader lasts. */
#define LEADER_SPAN ks_span_ms(120000)
/* What our rows say is needed by nobody but us while a leader assigns. */
#define ROUND_EVERY ks_span_ms(60000)
/* Reports of others that are older, in intervals of ours, are of workers that are gone. */
enum { REPORTS_LIVE = 4, US_PER_SECOND = 1000000 };

/* The places of rows about the fleet, and of requests in flight. */
enum { APART, TOGETHER, SURVEY, REPORT, OWNED, REQUESTS };

/* After a rollback nobody does: the table is deleted then. */
static bool reports(const struct ks_core *core)
{
    return core->fleet.kcl.known && core->fleet.kcl.version != KS_KCL_UNSAID &&
           core->fleet.kcl.version != KS_KCL_2X;
}

static bool is_3x(const struct ks_kcl *kcl)
{
    return kcl->version == KS_KCL_3X_WITH_ROLLBACK || kcl->version == KS_KCL_3X;
}

/* A leader assigns. */
static bool is_assigned(const struct ks_core *core)
{
    const struct ks_kcl *kcl = &core->fleet.kcl;

    return kcl->known && is_3x(kcl) && kcl->led;
}

bool ks_kcl3_takes(const struct ks_core *core)
{
    return !is_assigned(core);
}

ks_instant ks_kcl3_round_at(const struct ks_core *core, ks_instant at)
{
    return is_assigned(core) && !core->fleet.kcl.unindexed && !core->fleet.kcl.waiting
               ? ks_instant_max(at, ks_instant_add(core->now, ROUND_EVERY))
               : at;
}

/* Workers look for what they were assigned twice in the time between two runs of the leader, which is twice the length
 * of a lease. */
static ks_span owned_every(const struct ks_core *core)
{
    return core->config.lease_duration;
}

void ks_kcl3_start(struct ks_core *core)
{
    core->fleet.kcl = (struct ks_kcl){
        .probe_at = core->now,
        .report_at = core->now,
        .owned_at = core->now,
        .leader_at = KS_LONG_AGO,
        .rows_from = KS_LONG_AGO,
        .leader_span = LEADER_SPAN,
        .measured = true,
    };
}

/* ---- Requests ---- */

static struct ks_store_effect *ask(struct ks_core *core, uint32_t what,
                                   enum ks_store_operation operation, struct ks_effects *effects)
{
    struct ks_store_effect *store;

    assert(what < REQUESTS && core->fleet.kcl.serials[what] == 0);
    core->fleet.kcl.serials[what] = ks_core_serial(core);
    store = ks_effects_store(effects, operation,
                             ks_token_make(KS_FOR_NEWS, what, core->fleet.kcl.serials[what]));
    store->worker = core->fleet.self;
    return store;
}

static bool probing(const struct ks_kcl *kcl)
{
    return kcl->serials[APART] != 0 || kcl->serials[TOGETHER] != 0;
}

static void probe(struct ks_core *core, struct ks_effects *effects)
{
    struct ks_kcl *kcl = &core->fleet.kcl;

    kcl->failed = false;
    ask(core, APART, KS_STORE_READ_NEWS, effects)->consistent = true;
    ask(core, TOGETHER, KS_STORE_READ_NEWS, effects)->together = true;
}

/* Who does not want leases, or those of some stream, is no worker to the leader: it would get some. */
static bool wants_report(const struct ks_core *core)
{
    return reports(core) && ks_peers_want(core) && core->fleet.kcl.counted &&
           !core->fleet.kcl.unserved && !core->fleet.kcl.kin_away;
}

void ks_kcl3_count(struct ks_core *core, struct ks_effects *effects)
{
    struct ks_kcl *kcl = &core->fleet.kcl;
    bool unserved = false;

    for (ks_shard shard = 0; shard < core->directory_top; shard++)
        unserved |= core->directory[shard].present && core->directory[shard].unserved &&
                    ks_peers_open(&core->directory[shard]);
    kcl->counted = true;
    kcl->rows_from = core->fleet.rows_asked_at;
    kcl->unserved = unserved;
    if (!unserved || kcl->unserved_told || !reports(core))
        return;
    kcl->unserved_told = true;
    ks_effects_story(effects, KS_STORY_KCL_UNSERVED, KS_SHARD_NONE, core->fleet.self);
}

static void report(struct ks_core *core, struct ks_effects *effects)
{
    struct ks_kcl *kcl = &core->fleet.kcl;
    bool gone = !wants_report(core);
    struct ks_store_effect *store =
        ask(core, REPORT, gone ? KS_STORE_SAY_GONE : KS_STORE_HEARTBEAT, effects);

    store->together = gone ? kcl->reported_together : kcl->together;
    store->measured = kcl->measured;
    store->next_rev = (uint64_t)core->wall_us / US_PER_SECOND;
    if (gone || kcl->reported_together != kcl->together)
        kcl->beat = 0;
    store->expect_beat = kcl->beat;
    kcl->trying = store->next_rev;
    kcl->reported = true; /* Until it is known to be gone. */
    kcl->going = gone;
    kcl->reported_together = gone ? kcl->reported_together : kcl->together;
    kcl->report_at = ks_instant_add(core->now, core->config.report_every);
}

/* ---- What was assigned to us ---- */

static void found(struct ks_core *core, ks_shard shard)
{
    struct ks_directory_entry *entry;

    if (!ks_native_know(core, shard))
        return;
    entry = &core->directory[shard];
    if (entry->held != KS_HELD_NONE || entry->finished || entry->elsewhere)
        return;
    if (entry->assigned == KS_ASSIGNED_NO)
        entry->found_at = core->now;
    entry->assigned = KS_ASSIGNED_FOUND;
    core->fleet.kcl.assigned = true;
}

/* The index may be behind the rows: they are read before anything is written. */
static void owned_read(struct ks_core *core, const struct ks_event *event)
{
    struct ks_kcl *kcl = &core->fleet.kcl;

    kcl->owned_at = ks_instant_add(core->now, owned_every(core));
    kcl->unindexed = event->store.outcome != KS_DONE;
    kcl->waiting = false;
    if (kcl->unindexed)
        core->fleet.round_at = ks_instant_min(core->fleet.round_at, kcl->owned_at);
    for (uint32_t i = 0; !kcl->unindexed && i < event->store.lease_count; i++)
        found(core, event->store.leases[i].shard);
}

/* For so long it is renewed, or the leader would give it to one after the other. */
static void wait_for_parents(struct ks_core *core, struct ks_directory_entry *entry,
                             enum ks_assigned assigned)
{
    struct ks_kcl *kcl = &core->fleet.kcl;

    if (!kcl->renews)
        kcl->renew_at = ks_instant_add(core->now, core->config.beat);
    kcl->renews = true;
    entry->waits = true;
    entry->assigned = (uint8_t)assigned;
}

/* Its leader asks for a shard that we do not read: it waits for its parents, or we were started again under our name.
 * Up to 3.4 the leader would wait for us for ever, once the next owner is gone. */
static bool is_handed_on(const struct ks_core *core, const struct ks_directory_entry *entry)
{
    return ks_peers_is_me(core, entry->owner) && entry->next_owner.worker != 0;
}

/* No record was delivered: it goes at once, with the checkpoint that it has. The row is read afterwards, and a write
 * without an answer is repeated. */
static bool hand_on(struct ks_core *core, ks_shard shard, struct ks_effects *effects)
{
    struct ks_directory_entry *entry = &core->directory[shard];

    if (!ks_peers_writable(entry)) {
        entry->assigned = KS_ASSIGNED_NO;
        return true;
    }
    if (!ks_peers_write(core, shard, KS_STORE_FINAL, KS_NOBODY, entry->rev + 1, effects))
        return false;
    entry->assigned = KS_ASSIGNED_FOUND;
    return true;
}

/* A write proves that it is ours still. */
static bool prove(struct ks_core *core, ks_shard shard, struct ks_effects *effects)
{
    struct ks_directory_entry *entry = &core->directory[shard];

    entry->assigned = KS_ASSIGNED_NO;
    entry->waits = false;
    if (!ks_peers_is_me(core, entry->owner))
        return true;
    if (!ks_kcl_readable(core, entry)) {
        core->fleet.kcl.waiting = true; /* For its parents: their rows are looked at. */
        if (ks_peers_writable(entry))
            wait_for_parents(core, entry, KS_ASSIGNED_WAITS);
        return true;
    }
    if (ks_peers_room(core) == 0 ||
        ks_peers_write(core, shard, KS_STORE_TAKE_OVER, KS_NOBODY, entry->rev + 1, effects))
        return true;
    entry->assigned = KS_ASSIGNED_ASKED;
    return false;
}

/* As workers of the library renew all that they have, read or not. What the row says then is read anew. */
static void renew_waiting(struct ks_core *core, struct ks_effects *effects)
{
    struct ks_kcl *kcl = &core->fleet.kcl;

    kcl->renews = false;
    kcl->renew_at = ks_instant_add(core->now, core->config.beat);
    for (ks_shard shard = 0; ks_peers_want(core) && shard < core->directory_top; shard++) {
        struct ks_directory_entry *entry = &core->directory[shard];

        if (entry->assigned != KS_ASSIGNED_ASKED && entry->assigned != KS_ASSIGNED_WAITS)
            continue;
        kcl->renews = true;
        if (ks_peers_writable(entry) && ks_peers_is_me(core, entry->owner) &&
            ks_peers_room(core) > 0 && !ks_peers_renew(core, shard, entry->rev + 1, effects))
            return;
        entry->assigned = KS_ASSIGNED_FOUND;
        kcl->assigned = true;
    }
}

/* Rows of parents are looked at with all others, which is seldom. One that is not there was not made before this one,
 * if it was looked for since this one was found; one that is not over is read again each time. */
static bool knows(const struct ks_core *core, const struct ks_directory_entry *entry,
                  ks_shard parent)
{
    const struct ks_directory_entry *row;

    if (parent == KS_SHARD_NONE)
        return true;
    row = parent < core->directory_top ? &core->directory[parent] : NULL;
    if (row == NULL || !row->present)
        return !ks_instant_before(core->fleet.kcl.rows_from, entry->found_at);
    return row->finished || row->held != KS_HELD_NONE ||
           !ks_instant_before(row->read_at, entry->read_at);
}

static bool knows_parents(const struct ks_core *core, const struct ks_directory_entry *entry)
{
    return knows(core, entry, entry->parents[0]) && knows(core, entry, entry->parents[1]);
}

/* A look at all rows may take longer than a leader waits for whom it assigned one to: those that have rows are read by
 * themselves, once. True while they are. */
static bool reads_parents(struct ks_core *core, struct ks_directory_entry *entry)
{
    bool reading = false;

    for (uint32_t p = 0; p < KS_PARENTS_MAX; p++) {
        const ks_shard parent = entry->parents[p];
        const struct ks_directory_entry *row;

        if (parent >= core->directory_top || knows(core, entry, parent))
            continue;
        row = &core->directory[parent];
        if (row->present)
            reading |= row->writing ||
                       (entry->assigned == KS_ASSIGNED_LOOKED && ks_peers_look_at(core, parent));
    }
    wait_for_parents(core, entry, KS_ASSIGNED_ASKED);
    return reading;
}

/* False if there is no room for more requests now. */
static bool follow(struct ks_core *core, ks_shard shard, struct ks_effects *effects)
{
    struct ks_directory_entry *entry = &core->directory[shard];

    if (entry->assigned == KS_ASSIGNED_NO || entry->assigned == KS_ASSIGNED_WAITS || entry->writing)
        return true;
    if (entry->held == KS_HELD_NONE && ks_peers_want(core)) {
        /* A slow look shows it as it was before it was renewed last. */
        if (entry->assigned == KS_ASSIGNED_ASKED && entry->read_at.us == core->fleet.rows_at.us)
            entry->assigned = KS_ASSIGNED_FOUND;
        if (entry->assigned == KS_ASSIGNED_FOUND) {
            if (!ks_peers_look_at(core, shard))
                return false;
            entry->assigned = KS_ASSIGNED_LOOKED;
            return true;
        }
        if (is_handed_on(core, entry))
            return hand_on(core, shard, effects);
        if (!knows_parents(core, entry)) {
            if (!reads_parents(core, entry))
                core->fleet.round_at =
                    ks_instant_min(core->fleet.round_at, ks_instant_add(core->now, SOON));
            return true;
        }
        return prove(core, shard, effects);
    }
    entry->assigned = KS_ASSIGNED_NO;
    return true;
}

static void follow_all(struct ks_core *core, struct ks_effects *effects)
{
    struct ks_kcl *kcl = &core->fleet.kcl;
    bool left = false;

    for (ks_shard shard = 0; kcl->assigned && shard < core->directory_top; shard++) {
        if (!follow(core, shard, effects)) {
            left = true;
            break;
        }
        left |= core->directory[shard].assigned != KS_ASSIGNED_NO &&
                core->directory[shard].assigned != KS_ASSIGNED_WAITS;
    }
    kcl->assigned = left;
    if (kcl->waiting && is_assigned(core))
        core->fleet.round_at = ks_instant_min(core->fleet.round_at, kcl->owned_at);
}

/* ---- How the fleet agrees ---- */

/* Another number with each heartbeat of whoever leads, wherever his row is; 0: nobody does. */
static uint64_t leader_of(const struct ks_kcl_rows *apart, const struct ks_kcl_rows *together)
{
    uint64_t leader = apart->leader + 3 * together->leader;

    return leader == 0 && (apart->leader != 0 || together->leader != 0) ? 1 : leader;
}

/* Counted from when we saw it, which is after he wrote it: he is never taken as gone too early. */
static void watch_leader(struct ks_core *core)
{
    struct ks_kcl *kcl = &core->fleet.kcl;
    uint64_t leader = leader_of(&kcl->rows[APART], &kcl->rows[TOGETHER]);
    ks_span span = kcl->rows[APART].leader_span;

    if (kcl->rows[TOGETHER].leader_span.us > span.us)
        span = kcl->rows[TOGETHER].leader_span;
    if (span.us != 0)
        kcl->leader_span = span;
    if (leader != kcl->leader)
        kcl->leader_at = core->now;
    kcl->leader = leader;
    kcl->led = ks_instant_before(core->now, ks_instant_add(kcl->leader_at, kcl->leader_span));
}

/* The table of its own holds until its rows have moved. Reports move before, each with its worker: when all that the
 * leader sees are where his own is, he lets the rows follow. */
static void choose_tables(struct ks_kcl *kcl)
{
    const struct ks_kcl_rows *apart = &kcl->rows[APART];
    const struct ks_kcl_rows *together = &kcl->rows[TOGETHER];
    bool moved = apart->version == KS_KCL_UNSAID ||
                 (apart->tables == KS_KCL_TABLES_COMPLETE && together->version != KS_KCL_UNSAID);

    kcl->version = moved ? together->version : apart->version;
    kcl->together = moved || apart->tables == KS_KCL_TABLES_PENDING ||
                    apart->tables == KS_KCL_TABLES_COMPLETE ||
                    (apart->tables == KS_KCL_TABLES_DEPLOYED && kcl->leader_together);
}

/* The row moves from one table to the other in one transaction, and each table is read for itself. */
static bool is_torn(const struct ks_kcl *kcl)
{
    const struct ks_kcl_rows *apart = &kcl->rows[APART];
    const struct ks_kcl_rows *together = &kcl->rows[TOGETHER];

    return apart->version == KS_KCL_UNSAID && together->version == KS_KCL_UNSAID &&
           (leader_of(apart, together) != 0 || apart->tables != KS_KCL_TABLES_UNSAID ||
            together->tables != KS_KCL_TABLES_UNSAID);
}

/* What does not fit is read again; if it still does not, it is no matter of moments. */
static bool must_read_again(struct ks_kcl *kcl)
{
    const bool before = kcl->torn;

    if (kcl->failed)
        return true;
    kcl->torn = is_torn(kcl);
    return kcl->torn && !before;
}

static enum ks_story manners(const struct ks_core *core)
{
    if (is_assigned(core))
        return KS_STORY_KCL_ASSIGNED;
    return is_3x(&core->fleet.kcl) ? KS_STORY_KCL_UNLED : KS_STORY_KCL_EQUALS;
}

static void changed_manners(struct ks_core *core, struct ks_effects *effects)
{
    struct ks_kcl *kcl = &core->fleet.kcl;

    ks_effects_story(effects, manners(core), KS_SHARD_NONE, core->fleet.self)->story.span =
        kcl->leader_span;
    core->fleet.round_at = core->now;
    kcl->owned_at = core->now;
    kcl->unindexed = false;
    kcl->waiting = false;
}

static ks_span probe_every(const struct ks_core *core)
{
    const struct ks_kcl *kcl = &core->fleet.kcl;
    ks_span every = ks_span_us(kcl->leader_span.us / 2);

    if (is_3x(kcl) && !kcl->led && every.us > core->config.lease_duration.us)
        every = core->config.lease_duration; /* Somebody will. */
    return every.us < PROBE_EVERY.us ? every : PROBE_EVERY;
}

static void probed(struct ks_core *core, struct ks_effects *effects)
{
    struct ks_kcl *kcl = &core->fleet.kcl;
    bool known = kcl->known;
    bool assigned = is_assigned(core);
    bool was_3x = is_3x(kcl);
    bool damaged;

    if (must_read_again(kcl)) {
        kcl->probe_at = ks_instant_add(core->now, PROBE_AGAIN);
        return;
    }
    damaged = kcl->rows[APART].damaged || kcl->rows[TOGETHER].damaged || kcl->torn;
    if (damaged && !kcl->damaged)
        ks_effects_story(effects, KS_STORY_KCL_UNKNOWN, KS_SHARD_NONE, core->fleet.self);
    kcl->damaged = damaged;
    watch_leader(core);
    if (!damaged) /* Else nobody knows in which manner it agrees: ours stays. */
        choose_tables(kcl);
    kcl->known |= !damaged;
    kcl->probe_at = ks_instant_add(core->now, probe_every(core));
    if (damaged)
        return;
    if (!known || assigned != is_assigned(core) || was_3x != is_3x(kcl))
        changed_manners(core, effects);
    kcl->survey = reports(core) && !kcl->together; /* Else all rows have them. */
    /* Where reports go has changed. */
    if (kcl->reported_together != kcl->together)
        kcl->report_at = core->now;
}

static bool is_live(const struct ks_core *core, const struct ks_worker_row *row)
{
    int64_t live_us = REPORTS_LIVE * core->config.report_every.us;

    return !row->damaged && row->beat <= INT64_MAX / US_PER_SECOND &&
           core->wall_us - (int64_t)row->beat * US_PER_SECOND <= live_us;
}

/* Workers that say their CPU are compared by it, and those that do not by their traffic: alone on its side, one would
 * get all, or nothing. */
static void survey(struct ks_core *core, const struct ks_event *event)
{
    uint32_t measured = 0;
    uint32_t others = 0;

    for (uint32_t i = 0; i < event->store.worker_count && i < core->config.workers_max; i++) {
        const struct ks_worker_row *row = &event->store.workers[i];

        if (row->self.worker == core->fleet.self.worker || !is_live(core, row))
            continue;
        others++;
        measured += row->measured;
    }
    core->fleet.kcl.measured = others == 0 || measured > 0;
    core->fleet.kcl.surveyed = true;
}

static void find_leader(struct ks_core *core, const struct ks_event *event)
{
    struct ks_kcl *kcl = &core->fleet.kcl;

    kcl->leader_together = false;
    for (uint32_t i = 0; i < event->store.worker_count && i < core->config.workers_max; i++)
        kcl->leader_together |= event->store.workers[i].self.worker == kcl->leader_name &&
                                is_live(core, &event->store.workers[i]);
}

void ks_kcl3_rows_read(struct ks_core *core, const struct ks_event *event)
{
    find_leader(core, event);
    if (reports(core) && core->fleet.kcl.together)
        survey(core, event);
    /* Also where there is an index: it may be behind the rows. */
    for (uint32_t i = 0; is_assigned(core) && i < event->store.lease_count; i++)
        if (ks_peers_is_me(core, event->store.leases[i].owner) && !event->store.leases[i].elsewhere)
            found(core, event->store.leases[i].shard);
}

/* ---- Events ---- */

/* Whose row was there writes it only while it is: what lands after we said that we are gone makes no worker that a
 * leader would assign leases to. If somebody has removed it, it is made again. */
static void beaten(struct ks_core *core, enum ks_outcome outcome)
{
    struct ks_kcl *kcl = &core->fleet.kcl;

    if (outcome == KS_REFUSED && kcl->beat != 0)
        kcl->report_at = core->now;
    kcl->beat = outcome == KS_DONE ? kcl->trying : 0;
}

static void report_answered(struct ks_core *core, enum ks_outcome outcome)
{
    struct ks_kcl *kcl = &core->fleet.kcl;

    if (outcome == KS_UNKNOWN)
        kcl->report_at = ks_instant_min(kcl->report_at, ks_instant_add(core->now, PROBE_AGAIN));
    else if (kcl->going)
        kcl->reported = false;
    else
        beaten(core, outcome);
}

bool ks_kcl3_answered(struct ks_core *core, const struct ks_event *event,
                      struct ks_effects *effects)
{
    struct ks_kcl *kcl = &core->fleet.kcl;
    uint32_t what = ks_token_subject(event->store.token);

    if (ks_token_purpose(event->store.token) != KS_FOR_NEWS)
        return false;
    assert(what < REQUESTS);
    if (kcl->serials[what] != ks_token_serial(event->store.token))
        return true;
    kcl->serials[what] = 0;
    if (core->fleet.step != KS_SELF_LIVE)
        return true;
    if (what == OWNED)
        owned_read(core, event);
    else if (what == SURVEY && event->store.outcome == KS_DONE)
        survey(core, event);
    else if (what == SURVEY)
        kcl->surveyed = true; /* As well as could be. */
    else if (what == REPORT)
        report_answered(core, event->store.outcome);
    if (what != APART && what != TOGETHER)
        return true;
    if (event->store.outcome == KS_DONE)
        kcl->rows[what] = event->store.kcl;
    else
        kcl->failed = true;
    if (event->store.outcome == KS_DONE && what == APART)
        kcl->leader_name = event->store.leader.holder.worker;
    if (!probing(kcl))
        probed(core, effects);
    return true;
}

/* The first one, of either kind, is due at once, when it is known what others say in theirs. */
static ks_instant report_at(const struct ks_core *core)
{
    const struct ks_kcl *kcl = &core->fleet.kcl;
    bool wants = wants_report(core);

    if (kcl->serials[REPORT] != 0 || (!kcl->reported && !(wants && kcl->surveyed)))
        return KS_NEVER;
    return kcl->reported && kcl->going == !wants ? kcl->report_at : core->now;
}

void ks_kcl3_turn(struct ks_core *core, struct ks_effects *effects)
{
    struct ks_kcl *kcl = &core->fleet.kcl;

    if (core->fleet.step != KS_SELF_LIVE || !ks_effects_room(core, effects, REQUESTS))
        return;
    if (!probing(kcl) && ks_instant_reached(core->now, kcl->probe_at))
        probe(core, effects);
    if (kcl->survey && kcl->serials[SURVEY] == 0) {
        ask(core, SURVEY, KS_STORE_READ_FLEET, effects);
        kcl->survey = false;
    }
    if (ks_instant_reached(core->now, report_at(core)))
        report(core, effects);
    if (is_assigned(core) && kcl->serials[OWNED] == 0 &&
        ks_instant_reached(core->now, kcl->owned_at))
        ask(core, OWNED, KS_STORE_READ_OWNED, effects);
    if (is_assigned(core) && kcl->renews && ks_instant_reached(core->now, kcl->renew_at))
        renew_waiting(core, effects);
    follow_all(core, effects);
}

ks_instant ks_kcl3_deadline(const struct ks_core *core)
{
    const struct ks_kcl *kcl = &core->fleet.kcl;
    ks_instant due = KS_NEVER;

    if (core->fleet.step != KS_SELF_LIVE)
        return due;
    if (!probing(kcl))
        due = ks_instant_min(due, kcl->probe_at);
    due = ks_instant_min(due, report_at(core));
    if (is_assigned(core) && kcl->serials[OWNED] == 0)
        due = ks_instant_min(due, kcl->owned_at);
    if (is_assigned(core) && kcl->renews)
        due = ks_instant_min(due, kcl->renew_at);
    return due;
}
