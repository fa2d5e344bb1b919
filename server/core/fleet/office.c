/* SPDX-License-Identifier: Apache-2.0 */
/* The others and the office: docs/PROTOCOL.md A4 (watching), A7 (office), S3 (proof of death). */
#include <assert.h>
#include <stddef.h>

#include "core/fleet/native.h"

static ks_span watch_length(const struct ks_core *core)
{
    return ks_span_us(core->config.lease_duration.us + core->config.margin.us);
}

static bool is_me(const struct ks_core *core, struct ks_incarnation who)
{
    return ks_incarnation_equal(who, core->fleet.self);
}

static void soon(struct ks_core *core)
{
    core->fleet.news_at = core->now;
    core->fleet.round_at = core->now;
}

/* ---- The read of the fleet. ---- */

/* In a large fleet, too, everybody looks at all of it now and then. */
#define WHOLE_EVERY ks_span_ms(60000)

static bool is_deputy(const struct ks_core *core)
{
    for (uint32_t i = 0; i < KS_DEPUTIES_MAX; i++)
        if (core->fleet.office.deputies[i] == core->fleet.self.worker)
            return true;
    return false;
}

/* Deputies are named where there are too many workers for everybody to watch everybody. */
static bool large(const struct ks_core *core)
{
    return core->fleet.office.deputies[0] != 0;
}

/* The leader's beat has been seen to move lately. */
static bool leader_beats(const struct ks_core *core)
{
    const struct ks_incarnation holder = core->fleet.office.holder;
    const struct ks_member *leader = ks_native_member(core, holder.worker);

    return holder.worker != 0 && leader != NULL && !leader->damaged &&
           leader->self.boot == holder.boot && leader->life == KS_LIVE &&
           ks_instant_since(core->now, leader->seen_at).us <= core->config.beat.us * 3 / 2;
}

static bool past(ks_instant now, ks_instant since, int64_t us)
{
    return ks_instant_reached(now, ks_instant_add(since, ks_span_us(us)));
}

/* A4: who reads all worker rows: in a large fleet the leader, its deputies, newcomers, and whoever misses the leader's
 * beat. */
static bool watches_all(const struct ks_core *core)
{
    const struct ks_fleet *fleet = &core->fleet;

    return !large(core) || fleet->leads || is_deputy(core) || !leader_beats(core) ||
           !past(core->now, fleet->live_at, 2 * core->config.lease_duration.us) ||
           past(core->now, fleet->whole_at, WHOLE_EVERY.us);
}

void ks_office_ask(struct ks_core *core, bool consistent, bool of_round, struct ks_effects *effects)
{
    struct ks_fleet *fleet = &core->fleet;
    struct ks_store_effect *store;

    assert(fleet->news == 0);
    fleet->news = ks_core_serial(core);
    fleet->news_serial = fleet->news;
    fleet->news_consistent = consistent;
    fleet->news_of_round = of_round;
    fleet->news_asked_at = core->now;
    fleet->news_partial = !consistent && !watches_all(core);
    store =
        ks_effects_store(effects, fleet->news_partial ? KS_STORE_READ_NEWS : KS_STORE_READ_FLEET,
                         ks_token_make(KS_FOR_NEWS, 0, fleet->news));
    store->consistent = consistent;
    store->worker = fleet->self;
    store->owner = fleet->office.holder;
}

static struct ks_member *member_slot(struct ks_core *core, uint32_t worker)
{
    struct ks_member *member = ks_native_member(core, worker);
    uint32_t slots = core->config.workers_max;
    uint32_t at = worker % slots;

    for (uint32_t i = 0; member == NULL && i < slots; i++, at = at + 1 == slots ? 0 : at + 1)
        if (!core->members[at].present)
            member = &core->members[at];
    return member;
}

/* True for a boot that the last read of all rows did not show, and that has beaten since: it was registered after that
 * read. Where that read showed a damaged row, this boot may have been in it. */
static bool just_came(const struct ks_core *core, const struct ks_member *member,
                      const struct ks_worker_row *row)
{
    return row->beat > 0 && !member->damaged &&
           !past(core->now, core->fleet.whole_at, 2 * core->config.beat.us);
}

/* A pair (boot, beat) seen unchanged over reads at most 2B apart counts as watched time; anything else starts the watch
 * again, also a change backwards (a stale read). */
static void watch(struct ks_core *core, struct ks_member *member, const struct ks_worker_row *row)
{
    bool gap = ks_instant_since(core->now, member->read_at).us > 2 * core->config.beat.us;

    if (member->self.boot != row->self.boot) {
        *member = (struct ks_member){.advanced = just_came(core, member, row),
                                     .advanced_at = core->now,
                                     .seen_at = core->now,
                                     .short_since = KS_NEVER,
                                     .dead_since = KS_NEVER};
        core->fleet.came_at = core->now;
    } else if (member->beat != row->beat) {
        member->seen_at = core->now;
        if (row->beat > member->beat) {
            member->advanced = true;
            member->advanced_at = core->now;
        }
    } else if (gap) {
        member->seen_at = core->now;
    }
    member->present = true;
    member->damaged = false;
    member->self = row->self;
    member->life = row->life;
    member->dead_since =
        row->life == KS_LIVE ? KS_NEVER : ks_instant_min(member->dead_since, core->now);
    member->mode = row->mode;
    member->beat = row->beat;
    member->held = row->held;
    member->changes = row->changes;
    member->capacity = row->capacity;
    member->load = row->load;
    member->read_at = core->now;
}

/* A row that was not there in the last read. If it was before, that read was an old replica's: the watch begins again,
 * and the boot has not just come. */
static struct ks_member as_before(const struct ks_core *core, const struct ks_member *old,
                                  const struct ks_worker_row *row)
{
    bool known = ks_incarnation_equal(old->self, row->self);

    return (struct ks_member){
        .self = {row->self.worker, known ? row->self.boot : ~row->self.boot},
        .beat = old->beat,
        .advanced = known && old->advanced,
        .advanced_at = old->advanced_at,
        .seen_at = core->now,
        .read_at = core->now,
        .short_since = KS_NEVER,
        .dead_since = KS_NEVER,
    };
}

static void see(struct ks_core *core, const struct ks_worker_row *row)
{
    struct ks_member *member;

    member = member_slot(core, row->self.worker);
    /* A read of all rows has at most as many as there are slots (ks_office_news). A partial read keeps the rows of the
     * read before, and can show one more. */
    if (member == NULL)
        return;
    if (!member->present)
        *member = as_before(core, member, row);
    if (row->damaged) {
        member->present = true;
        member->damaged = true; /* Not a look at its beat: the watch has a gap. */
    } else {
        watch(core, member, row);
    }
    if (row->self.worker == core->fleet.self.worker)
        ks_orders_news(core, row);
}

/* True if the read that is answered would have shown this worker. */
static bool asked_for(const struct ks_core *core, uint32_t worker)
{
    return !core->fleet.news_partial || worker == core->fleet.self.worker ||
           worker == core->fleet.office.holder.worker;
}

static void see_all(struct ks_core *core, const struct ks_event *event)
{
    /* Absent rows first: their slots are free for new ones. */
    for (uint32_t i = 0; i < core->config.workers_max; i++)
        core->members[i].found = !asked_for(core, core->members[i].self.worker);
    for (uint32_t r = 0; r < event->store.worker_count; r++) {
        struct ks_member *member = ks_native_member(core, event->store.workers[r].self.worker);

        if (member != NULL)
            member->found = true;
    }
    for (uint32_t i = 0; i < core->config.workers_max; i++)
        core->members[i].present &= core->members[i].found;
    for (uint32_t r = 0; r < event->store.worker_count; r++)
        see(core, &event->store.workers[r]);
    if (!core->fleet.news_partial)
        core->fleet.whole_at = core->now;
}

/* ---- The office. ---- */

/* By the rows as read last. Proof only if that read was consistent and sent after the holder was known (S3). */
static bool looks_dead(const struct ks_core *core, struct ks_incarnation who)
{
    const struct ks_member *member = ks_native_member(core, who.worker);

    if (member == NULL)
        return true;
    if (member->damaged)
        return false;
    return member->self.boot != who.boot || member->life != KS_LIVE;
}

static void see_office(struct ks_core *core, const struct ks_leader_row *row)
{
    struct ks_fleet *fleet = &core->fleet;

    if (fleet->office.epoch != row->epoch ||
        !ks_incarnation_equal(fleet->office.holder, row->holder))
        fleet->office_known = core->next_serial;
    fleet->office = *row;
}

static void ask_office(struct ks_core *core, enum ks_store_operation operation,
                       struct ks_effects *effects)
{
    struct ks_fleet *fleet = &core->fleet;
    struct ks_store_effect *store;

    fleet->claim = ks_core_serial(core);
    fleet->claiming = operation;
    store = ks_effects_store(effects, operation, ks_token_make(KS_FOR_OFFICE, 0, fleet->claim));
    store->worker = fleet->self;
    store->owner = fleet->office.holder;
    store->epoch = fleet->office.epoch;
    for (uint32_t i = 0; i < KS_DEPUTIES_MAX; i++)
        store->deputies[i] = fleet->deputies[i];
}

static bool late(const struct ks_core *core, const struct ks_member *member)
{
    return ks_instant_since(core->now, member->advanced_at).us > 2 * core->config.beat.us;
}

/* It has seen every live worker's beat move, or miss its time. */
static bool watches_long(const struct ks_core *core)
{
    return past(core->now, core->fleet.live_at, 2 * core->config.beat.us) &&
           (!large(core) || is_deputy(core));
}

/* Somebody in office before us who could lead better than a newcomer. */
static bool has_elder(const struct ks_core *core)
{
    for (uint32_t i = 0; i < core->config.workers_max; i++) {
        const struct ks_member *member = &core->members[i];

        if (member->present && !member->damaged && member->life == KS_LIVE &&
            member->mode != KS_DRAINING && member->advanced && member->beat > 2 &&
            !late(core, member) && !is_me(core, member->self))
            return true;
    }
    return false;
}

static void win(struct ks_core *core, struct ks_effects *effects)
{
    core->fleet.leads = true;
    core->fleet.warm = watches_long(core);
    core->fleet.won_at = core->now;
    /* What we saw as a follower counts: the eyes are the same. */
    for (uint32_t i = 0; i < core->config.workers_max; i++)
        core->members[i].advanced &= !late(core, &core->members[i]);
    ks_leader_won(core);
    ks_effects_story(effects, KS_STORY_OFFICE_WON, KS_SHARD_NONE, core->fleet.self);
}

void ks_office_lose(struct ks_core *core, struct ks_effects *effects)
{
    if (!core->fleet.leads)
        return;
    core->fleet.leads = false;
    core->fleet.repairing = false;
    ks_effects_story(effects, KS_STORY_OFFICE_LOST, KS_SHARD_NONE, core->fleet.self);
}

static void consider_office(struct ks_core *core, struct ks_effects *effects)
{
    struct ks_fleet *fleet = &core->fleet;
    struct ks_incarnation holder = fleet->office.holder;

    if (is_me(core, holder)) {
        if (!fleet->leads && !core->draining && fleet->claim == 0)
            win(core, effects); /* A claim of unknown outcome was applied. */
        return;
    }
    if (fleet->news_consistent)
        ks_office_lose(core, effects);
    if (holder.worker != 0 && !looks_dead(core, holder)) {
        fleet->vacant_at = KS_NEVER;
        return;
    }
    fleet->vacant_at = ks_instant_min(fleet->vacant_at, core->now);
    if (core->draining || fleet->claim != 0 || fleet->leads ||
        !ks_instant_reached(core->now, fleet->claim_at))
        return;
    /* A newcomer would first have to look around, and nothing would be given to anybody meanwhile. */
    if (!watches_long(core) && has_elder(core) &&
        !past(core->now, fleet->vacant_at, 2 * core->config.news.us))
        return;
    if (holder.worker != 0) {
        if (!fleet->news_consistent || !ks_core_after(fleet->news_serial, fleet->office_known)) {
            fleet->prove = true;
            fleet->news_at = core->now;
            return;
        }
    }
    ask_office(core, KS_STORE_CLAIM_OFFICE, effects);
}

void ks_office_answered(struct ks_core *core, uint32_t serial, const struct ks_event *event,
                        struct ks_effects *effects)
{
    struct ks_fleet *fleet = &core->fleet;
    enum ks_outcome outcome = event->store.outcome;

    if (fleet->claim != serial)
        return;
    fleet->claim = 0;
    fleet->claim_at =
        outcome == KS_UNKNOWN ? ks_instant_add(core->now, core->config.news) : core->now;
    soon(core);
    if (fleet->claiming == KS_STORE_CREATE_APP) {
        /* Refused: it is there. */
        fleet->app_present = outcome != KS_UNKNOWN;
        return;
    }
    if (fleet->claiming == KS_STORE_NAME_DEPUTIES && outcome == KS_DONE)
        for (uint32_t i = 0; i < KS_DEPUTIES_MAX; i++)
            fleet->office.deputies[i] = fleet->deputies[i];
    if (fleet->claiming == KS_STORE_CLAIM_OFFICE && outcome == KS_DONE &&
        fleet->step == KS_SELF_LIVE && !core->draining) {
        fleet->office = (struct ks_leader_row){
            .present = true, .holder = fleet->self, .epoch = fleet->office.epoch + 1};
        fleet->office_known = core->next_serial;
        win(core, effects);
    }
}

/* ---- Deputies. ---- */

static void name(struct ks_fleet *fleet, uint32_t worker)
{
    for (uint32_t i = 0; i < KS_DEPUTIES_MAX; i++) {
        if (fleet->deputies[i] == worker)
            return;
        if (fleet->deputies[i] == 0) {
            fleet->deputies[i] = worker;
            return;
        }
    }
}

/* Those who are it stay it while they are fit. */
static void choose_deputies(struct ks_core *core)
{
    struct ks_fleet *fleet = &core->fleet;
    uint32_t limit = core->config.large_fleet;
    uint32_t live = 0;

    if (large(core))
        limit -= limit / 4; /* It stays one for a while. */
    for (uint32_t i = 0; i < KS_DEPUTIES_MAX; i++)
        fleet->deputies[i] = 0;
    for (uint32_t i = 0; i < core->config.workers_max; i++)
        live += core->members[i].present && core->members[i].life == KS_LIVE;
    if (live <= limit)
        return;
    for (uint32_t i = 0; i < KS_DEPUTIES_MAX; i++) {
        const struct ks_member *member = ks_native_member(core, fleet->office.deputies[i]);

        if (member != NULL && !is_me(core, member->self) && ks_leader_fit(core, member))
            name(fleet, member->self.worker);
    }
    for (uint32_t i = 0; i < core->config.workers_max; i++)
        if (!is_me(core, core->members[i].self) && ks_leader_fit(core, &core->members[i]))
            name(fleet, core->members[i].self.worker);
}

static bool deputies_due(const struct ks_core *core)
{
    const struct ks_fleet *fleet = &core->fleet;
    bool named = true;

    for (uint32_t i = 0; i < KS_DEPUTIES_MAX; i++)
        named &= fleet->deputies[i] == fleet->office.deputies[i];
    return fleet->leads && !named && fleet->claim == 0 && !core->draining;
}

/* ---- Silence. ---- */

static bool watched(const struct ks_core *core, const struct ks_member *member)
{
    return member->present && !member->damaged && member->life == KS_LIVE &&
           member->self.worker != core->fleet.self.worker;
}

/* Watched without a change for long enough, and looked at just now: a look of before a pause of ours says nothing. */
static bool silent(const struct ks_core *core, const struct ks_member *member)
{
    return watched(core, member) &&
           ks_instant_since(core->now, member->read_at).us <= 2 * core->config.beat.us &&
           ks_instant_since(member->read_at, member->seen_at).us >= watch_length(core).us;
}

/* The leader fences whoever is silent; anybody fences a silent leader. */
static bool ours_to_fence(const struct ks_core *core, const struct ks_member *member)
{
    return core->fleet.leads || ks_incarnation_equal(member->self, core->fleet.office.holder);
}

static void fence_silent(struct ks_core *core, struct ks_effects *effects)
{
    for (uint32_t i = 0; i < core->config.workers_max; i++) {
        struct ks_member *member = &core->members[i];
        struct ks_store_effect *store;

        if (!silent(core, member) || !ours_to_fence(core, member) || member->fence != 0 ||
            !ks_effects_room(core, effects, 1))
            continue;
        member->fence = ks_core_serial(core);
        store = ks_effects_store(effects, KS_STORE_FENCE,
                                 ks_token_make(KS_FOR_FENCE, i, member->fence));
        store->worker = member->self;
        store->expect_boot = member->self.boot;
        store->expect_beat = member->beat;
    }
}

/* Rows of workers that have been dead for K: no request of theirs can be under way any more. */
static void remove_dead(struct ks_core *core, struct ks_effects *effects)
{
    for (uint32_t i = 0; i < core->config.workers_max; i++) {
        struct ks_member *member = &core->members[i];
        struct ks_store_effect *store;

        if (!member->present || member->damaged || member->life == KS_LIVE || member->fence != 0 ||
            !ks_instant_reached(core->now, ks_instant_add(member->dead_since, core->config.keep)) ||
            !ks_effects_room(core, effects, 1))
            continue;
        member->fence = ks_core_serial(core);
        store = ks_effects_store(effects, KS_STORE_REMOVE_WORKER,
                                 ks_token_make(KS_FOR_FENCE, i, member->fence));
        store->worker = member->self;
        store->expect_boot = member->self.boot;
    }
}

void ks_office_fenced(struct ks_core *core, uint32_t index, uint32_t serial,
                      const struct ks_event *event, struct ks_effects *effects)
{
    struct ks_member *member = &core->members[index];
    struct ks_effect *story;

    if (!member->present || member->fence != serial)
        return;
    member->fence = 0;
    if (member->life != KS_LIVE) {
        /* It was to be removed: done, or another one comes after K. */
        member->dead_since = core->now;
        return;
    }
    if (event->store.outcome != KS_DONE) {
        member->seen_at = core->now; /* It moved, or we do not know: watch again. */
        return;
    }
    member->life = KS_FENCED;
    core->fleet.prove = true;
    soon(core);
    story = ks_effects_story(effects, KS_STORY_FENCES, KS_SHARD_NONE, member->self);
    story->story.span = ks_instant_since(core->now, member->seen_at);
}

/* Said once: it is what a restarted worker waits for, and whoever looks for its shards. */
static void say_waiting(struct ks_core *core, struct ks_effects *effects)
{
    uint64_t waiting = 0;

    for (uint32_t i = 0; i < core->config.workers_max; i++) {
        const struct ks_member *member = &core->members[i];

        if (watched(core, member) && ours_to_fence(core, member) &&
            ks_instant_since(core->now, member->seen_at).us > core->config.beat.us * 3 / 2)
            waiting += member->held;
    }
    if (waiting > 0 && !core->fleet.waiting_said)
        ks_effects_story(effects, KS_STORY_WAITS_FOR_DEAD, KS_SHARD_NONE, KS_NOBODY)->story.number =
            waiting;
    core->fleet.waiting_said = waiting > 0;
}

/* ---- News. ---- */

static void say_crowded(struct ks_core *core, uint32_t workers, struct ks_effects *effects)
{
    if (!core->fleet.crowded)
        ks_effects_story(effects, KS_STORY_CROWDED, KS_SHARD_NONE, KS_NOBODY)->story.number =
            workers;
    core->fleet.crowded = true;
}

/* The next read is timed for the exact instant a watch falls due. */
static void plan_news(struct ks_core *core)
{
    struct ks_fleet *fleet = &core->fleet;

    fleet->news_at = ks_instant_add(fleet->news_asked_at, core->config.news);
    for (uint32_t i = 0; i < core->config.workers_max; i++) {
        const struct ks_member *member = &core->members[i];
        ks_instant due = ks_instant_add(member->seen_at, watch_length(core));

        if (!watched(core, member) || !ours_to_fence(core, member) ||
            ks_instant_reached(core->now, due))
            continue;
        fleet->news_at = ks_instant_min(fleet->news_at, due);
        fleet->round_at = ks_instant_min(fleet->round_at, due);
    }
}

void ks_office_news(struct ks_core *core, const struct ks_event *event, struct ks_effects *effects)
{
    struct ks_fleet *fleet = &core->fleet;
    bool of_round = fleet->news_of_round;

    fleet->news = 0;
    fleet->news_of_round = false;
    fleet->news_at = ks_instant_add(core->now, core->config.news);
    if (of_round)
        fleet->round_at = ks_instant_add(core->now, core->config.round);
    if (event->store.outcome != KS_DONE || fleet->step != KS_SELF_LIVE)
        return;
    /* More rows than we have room for: nothing can be concluded from an absence. */
    if (event->store.worker_count > core->config.workers_max) {
        say_crowded(core, event->store.worker_count, effects);
        return;
    }
    fleet->crowded = false;
    if (fleet->news_consistent)
        fleet->prove = false;
    fleet->app_present |= event->store.app_present;
    see_all(core, event);
    see_office(core, &event->store.leader);
    consider_office(core, effects);
    say_waiting(core, effects);
    if (!fleet->prove)
        plan_news(core);
    if (!of_round || !fleet->leads)
        return;
    choose_deputies(core);
    ks_leader_fleet_read(core);
}

/* A leader that drains first gives what it gave back to somebody else: until a successor has looked around, nobody
 * would. */
static bool may_resign(const struct ks_core *core)
{
    if (!core->draining || !core->fleet.leads || core->fleet.claim != 0)
        return false;
    if (ks_instant_reached(core->now, core->patience_at))
        return true;
    if (core->leases_used > 0 || ks_orders_pending(core))
        return false;
    if (ks_hints_open(core))
        return false; /* Who was given a lease has still to be told. */
    return !ks_shards_free(core) || ks_leader_mustering(core) ||
           ks_leader_least_loaded(core) == NULL;
}

void ks_office_turn(struct ks_core *core, struct ks_effects *effects)
{
    struct ks_fleet *fleet = &core->fleet;

    if (may_resign(core)) {
        ask_office(core, KS_STORE_RESIGN_OFFICE, effects);
        ks_office_lose(core, effects);
    }
    fence_silent(core, effects);
    if (fleet->leads)
        remove_dead(core, effects);
    if (fleet->leads && !fleet->app_present && fleet->claim == 0 &&
        ks_instant_reached(core->now, fleet->claim_at))
        ask_office(core, KS_STORE_CREATE_APP, effects);
    else if (deputies_due(core) && ks_instant_reached(core->now, fleet->claim_at))
        ask_office(core, KS_STORE_NAME_DEPUTIES, effects);
    /* A leader's rounds are news enough. */
    if (!fleet->leads && fleet->news == 0 && ks_instant_reached(core->now, fleet->news_at))
        ks_office_ask(core, fleet->prove, false, effects);
}

ks_instant ks_office_deadline(const struct ks_core *core)
{
    const struct ks_fleet *fleet = &core->fleet;
    ks_instant due = KS_NEVER;

    if (may_resign(core))
        return core->now;
    if (fleet->leads && core->draining && ks_instant_before(core->now, core->patience_at))
        due = core->patience_at;
    if (!fleet->leads && fleet->news == 0)
        due = fleet->news_at;
    if ((fleet->leads && !fleet->app_present && fleet->claim == 0) || deputies_due(core))
        due = ks_instant_min(due, fleet->claim_at);
    return due;
}
