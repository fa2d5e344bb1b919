/* SPDX-License-Identifier: Apache-2.0 */
/* We ourselves: docs/PROTOCOL.md A3 (registration, heartbeat, gone), A6 (take), S1, S4, S5. */
#include <assert.h>
#include <stddef.h>

#include "core/fleet/native.h"
#include "core/lease.h"
#include "core/redrive.h"
#include "core/operator.h"
#include "core/session.h"

#define BACK_OFF_FIRST ks_span_ms(200)
#define BACK_OFF_MOST ks_span_ms(1000)

static ks_span watch_length(const struct ks_core *core)
{
    return ks_span_us(core->config.lease_duration.us + core->config.margin.us);
}

static void back_off(struct ks_core *core)
{
    struct ks_fleet *fleet = &core->fleet;

    fleet->back_off = fleet->back_off.us == 0 ? BACK_OFF_FIRST : ks_span_us(fleet->back_off.us * 2);
    if (fleet->back_off.us > BACK_OFF_MOST.us)
        fleet->back_off = BACK_OFF_MOST;
    fleet->next_at = ks_instant_add(core->now, fleet->back_off);
}

/* A request about ourselves; the answer finds us by its serial. */
static struct ks_store_effect *ask(struct ks_core *core, enum ks_store_operation operation,
                                   struct ks_effects *effects)
{
    struct ks_fleet *fleet = &core->fleet;
    struct ks_store_effect *store;

    assert(fleet->serial == 0);
    fleet->serial = ks_core_serial(core);
    fleet->asked_at = core->now;
    store = ks_effects_store(effects, operation, ks_token_make(KS_FOR_SELF, 0, fleet->serial));
    store->worker = fleet->self;
    store->mode = fleet->mode;
    store->held = core->leases_used;
    store->changes = fleet->changes;
    store->capacity = ks_operator_capacity(core);
    store->load = fleet->load;
    store->consistent = true;
    return store;
}

/* ---- Registration. ---- */

static void become(struct ks_core *core, enum ks_self_step step)
{
    core->fleet.step = step;
    core->fleet.next_at = core->now;
}

static void register_now(struct ks_core *core, struct ks_effects *effects)
{
    struct ks_fleet *fleet = &core->fleet;
    struct ks_store_effect *store;

    fleet->step = KS_SELF_REGISTERING;
    store = ask(core, fleet->registering, effects);
    store->expect_boot = fleet->expect_boot;
    store->expect_beat = fleet->expect_beat;
}

/* A fresh nonce for each attempt: a late registration can then never pass for a later one. */
static void register_as(struct ks_core *core, enum ks_store_operation operation,
                        const struct ks_worker_row *old, struct ks_effects *effects)
{
    struct ks_fleet *fleet = &core->fleet;

    if (fleet->self.boot == 0 && core->config.boot != 0)
        fleet->self.boot = core->config.boot;
    else
        fleet->self.boot = ks_prng_next(&core->prng);
    fleet->registering = operation;
    fleet->expect_boot = old == NULL ? 0 : old->self.boot;
    fleet->expect_beat = old == NULL ? 0 : old->beat;
    if (!core->config.lock) {
        register_now(core, effects);
        return;
    }
    /* Before it is sent: else a process that dies now leaves a row that nobody can tell for its corpse. */
    fleet->step = KS_SELF_LOCKING;
    ks_effects_add(effects, KS_EFFECT_LOCK)->lock.boot = fleet->self.boot;
}

void ks_self_locked(struct ks_core *core, const struct ks_event *event, struct ks_effects *effects)
{
    struct ks_fleet *fleet = &core->fleet;

    if (fleet->step != KS_SELF_LOCKING || event->locked.boot != fleet->self.boot)
        return; /* A drain did not wait for it. */
    if (event->locked.ok) {
        register_now(core, effects);
        return;
    }
    fleet->step = KS_SELF_READING;
    back_off(core);
}

static void live(struct ks_core *core, struct ks_effects *effects)
{
    struct ks_fleet *fleet = &core->fleet;
    ks_span served = ks_span_us(core->config.lease_duration.us - core->config.margin.us);

    become(core, KS_SELF_LIVE);
    fleet->deadline = ks_instant_add(fleet->asked_at, served);
    /* The first beat at once: it tells whoever looks that this is no late registration of a dead process. */
    fleet->next_at = core->now;
    fleet->live_at = core->now;
    fleet->told_mode = fleet->mode;
    fleet->back_off = ks_span_us(0);
    fleet->news_at = core->now;
    ks_effects_story(effects, KS_STORY_REGISTERED, KS_SHARD_NONE, fleet->self);
}

static void watch_old_self(struct ks_core *core, const struct ks_worker_row *row,
                           struct ks_effects *effects)
{
    struct ks_fleet *fleet = &core->fleet;
    struct ks_member *old = &fleet->old;
    bool same = fleet->step == KS_SELF_WATCHING && old->self.boot == row->self.boot;

    if (same && old->beat != row->beat) {
        /* It lives. Two workers under one id would fight for ever. */
        ks_effects_add(effects, KS_EFFECT_REFUSED)->refused.worker = row->self;
        fleet->step = KS_SELF_GONE;
        return;
    }
    if (!same || ks_instant_since(core->now, old->read_at).us > 2 * core->config.beat.us) {
        if (!same) {
            struct ks_effect *story =
                ks_effects_story(effects, KS_STORY_WAITS_FOR_OLD_SELF, KS_SHARD_NONE, row->self);
            story->story.span = watch_length(core);
        }
        old->self = row->self;
        old->beat = row->beat;
        old->seen_at = core->now;
    }
    old->read_at = core->now;
    fleet->step = KS_SELF_WATCHING;
    if (ks_instant_reached(core->now, ks_instant_add(old->seen_at, watch_length(core)))) {
        register_as(core, KS_STORE_REGISTER_SILENT, row, effects);
        return;
    }
    fleet->next_at = ks_instant_min(ks_instant_add(core->now, core->config.news),
                                    ks_instant_add(old->seen_at, watch_length(core)));
}

/* Our own row was read before a registration. */
static void own_row_read(struct ks_core *core, const struct ks_event *event,
                         struct ks_effects *effects)
{
    const struct ks_worker_row *row = event->store.workers;

    if (event->store.outcome != KS_DONE || (event->store.worker_count > 0 && row->damaged)) {
        back_off(core);
        return;
    }
    if (event->store.worker_count == 0)
        register_as(core, KS_STORE_REGISTER_NEW, NULL, effects);
    else if (row->life != KS_LIVE)
        register_as(core, KS_STORE_REGISTER_DEAD, row, effects);
    else if (core->config.corpse != 0 && row->self.boot == core->config.corpse)
        register_as(core, KS_STORE_REGISTER_CORPSE, row, effects);
    else
        watch_old_self(core, row, effects);
}

static bool shows_us_live(const struct ks_core *core, const struct ks_event *event)
{
    const struct ks_worker_row *row = event->store.workers;

    return event->store.worker_count > 0 && !row->damaged && row->life == KS_LIVE &&
           row->self.boot == core->fleet.self.boot;
}

static void registration_answered(struct ks_core *core, const struct ks_event *event,
                                  struct ks_effects *effects)
{
    switch (event->store.outcome) {
    case KS_DONE: live(core, effects); return;
    case KS_REFUSED:
        core->fleet.step = KS_SELF_READING;
        back_off(core);
        return;
    case KS_UNKNOWN: become(core, KS_SELF_READING_BACK); return;
    }
}

/* ---- Heartbeat. ---- */

static void heartbeat_answered(struct ks_core *core, const struct ks_event *event,
                               struct ks_effects *effects)
{
    struct ks_fleet *fleet = &core->fleet;
    ks_span served = ks_span_us(core->config.lease_duration.us - core->config.margin.us);

    switch (event->store.outcome) {
    case KS_DONE:
        fleet->told = true;
        ks_orders_beaten(core);
        if (event->store.worker_count == 0 || event->store.workers->damaged) {
            back_off(core); /* Without its news a heartbeat gives no time (S4). */
            return;
        }
        ks_orders_news(core, event->store.workers);
        /* From when we asked: the table may have said yes right then, and others count from there (S1). */
        fleet->deadline = ks_instant_max(fleet->deadline, ks_instant_add(fleet->asked_at, served));
        fleet->next_at = ks_instant_add(fleet->asked_at, core->config.beat);
        fleet->back_off = ks_span_us(0);
        if (fleet->resting && ks_core_serving(core)) {
            fleet->resting = false;
            core->stirred = true;
            ks_effects_story(effects, KS_STORY_HEARTBEAT_BACK, KS_SHARD_NONE, fleet->self);
        }
        return;
    case KS_REFUSED:
        fleet->deadline = KS_LONG_AGO;
        become(core, KS_SELF_CHECKING);
        return;
    case KS_UNKNOWN: back_off(core); return;
    }
}

static void beat(struct ks_core *core, struct ks_effects *effects)
{
    struct ks_fleet *fleet = &core->fleet;
    struct ks_store_effect *store = ask(core, KS_STORE_HEARTBEAT, effects);

    fleet->told_mode = fleet->mode;
    fleet->told_capacity = ks_operator_capacity(core);
    fleet->told = false;
    ks_orders_beat(core, store);
}

/* A heartbeat was refused, and a consistent read tells whether it is really over. */
static void check_answered(struct ks_core *core, const struct ks_event *event,
                           struct ks_effects *effects)
{
    struct ks_fleet *fleet = &core->fleet;

    if (event->store.outcome != KS_DONE ||
        (event->store.worker_count > 0 && event->store.workers->damaged)) {
        back_off(core);
        return;
    }
    if (shows_us_live(core, event)) {
        become(core, KS_SELF_LIVE);
        return;
    }
    become(core, KS_SELF_BURYING);
    ks_orders_forget(core);
    fleet->resting = false;
    core->drain_clean = false;
    ks_office_lose(core, effects);
    fleet->claim = 0; /* An office won for this incarnation is not ours. */
    ks_effects_story(effects, KS_STORY_FENCED, KS_SHARD_NONE, fleet->self);
}

void ks_self_answered(struct ks_core *core, const struct ks_event *event,
                      struct ks_effects *effects)
{
    struct ks_fleet *fleet = &core->fleet;

    fleet->serial = 0;
    switch (fleet->step) {
    case KS_SELF_READING:
    case KS_SELF_WATCHING: own_row_read(core, event, effects); return;
    case KS_SELF_REGISTERING: registration_answered(core, event, effects); return;
    case KS_SELF_READING_BACK:
        if (event->store.outcome != KS_DONE)
            back_off(core);
        else if (shows_us_live(core, event))
            live(core, effects); /* asked_at was kept: see ks_self_turn. */
        else
            become(core, KS_SELF_READING);
        return;
    case KS_SELF_LIVE: heartbeat_answered(core, event, effects); return;
    case KS_SELF_CHECKING: check_answered(core, event, effects); return;
    case KS_SELF_LEAVING:
        if (event->store.outcome == KS_UNKNOWN)
            back_off(core);
        else
            become(core, KS_SELF_GONE);
        return;
    case KS_SELF_UNBORN:
    case KS_SELF_LOCKING:
    case KS_SELF_BURYING:
    case KS_SELF_GONE: return;
    }
}

/* ---- Leave. ---- */

ks_instant ks_self_last_call(const struct ks_core *core)
{
    return ks_instant_add(core->patience_at, ks_span_us(3 * core->config.timeout.us));
}

static void bury(struct ks_core *core, enum ks_self_step then, struct ks_effects *effects)
{
    for (uint32_t i = 0; i < core->config.leases_max && core->leases_used > 0; i++) {
        if (!core->leases[i].used)
            continue;
        if (!ks_effects_room(core, effects, 2))
            return;
        if (core->draining)
            core->drain_unsaved += core->leases[i].tracker.mark - core->leases[i].persisted;
        ks_lease_lose(core, &core->leases[i], KS_STORY_LOST, effects);
    }
    if (core->leases_used == 0 && then != core->fleet.step)
        become(core, then);
}

/* Draining: everything is given back, or there is no more time for it. */
static bool may_leave(const struct ks_core *core)
{
    if (!core->draining)
        return false;
    if (core->leases_used == 0 && !ks_orders_pending(core) && core->fleet.claim == 0 &&
        !core->fleet.leads)
        return true;
    return ks_instant_reached(core->now, ks_self_last_call(core));
}

static void leave(struct ks_core *core)
{
    core->fleet.deadline = KS_LONG_AGO; /* S5: delivery has stopped before `gone` is sent. */
    for (uint32_t i = 0; i < core->config.leases_max; i++)
        if (core->leases[i].used)
            core->leases[i].given_up = true;
    core->fleet.serial = 0; /* A heartbeat in flight only lengthens others' watch. */
    core->fleet.back_off = ks_span_us(0);
    become(core, KS_SELF_LEAVING);
}

/* Dead letters that are in flight may be settled, too. */
static bool awaits_letters(const struct ks_core *core)
{
    return ks_redrive_busy(core) && ks_instant_before(core->now, core->patience_at);
}

void ks_self_finish(struct ks_core *core, struct ks_effects *effects)
{
    struct ks_effect *drained;

    if (!core->draining || core->drained || awaits_letters(core))
        return;
    bury(core, KS_SELF_GONE, effects);
    ks_session_end_all(core, effects);
    if (core->leases_used > 0 || core->sessions_used > 0 || !ks_effects_room(core, effects, 1))
        return;
    core->drained = true;
    drained = ks_effects_add(effects, KS_EFFECT_DRAINED);
    drained->drained.clean = core->drain_clean;
    drained->drained.unsaved = core->drain_unsaved;
}

/* ---- The end of a step. ---- */

/* The longest wait, in idle_release, of a worker that failed before it tries again. */
enum { FAILING_WAITS_MAX = 16 };

/* Reads were tried, and failed, for as long as an app may be away. */
static bool reads_fail(const struct ks_core *core)
{
    const struct ks_fleet *fleet = &core->fleet;

    return ks_instant_reached(fleet->last_failed_at,
                              ks_instant_add(fleet->failed_at, core->config.idle_release));
}

static ks_span next_wait(const struct ks_core *core)
{
    int64_t first = core->config.idle_release.us;
    int64_t wait = 2 * core->fleet.failing_wait.us;

    if (wait == 0)
        return ks_span_us(first);
    return ks_span_us(wait < FAILING_WAITS_MAX * first ? wait : FAILING_WAITS_MAX * first);
}

/* A worker whose reads all fail gives its leases to others who may fare better, and tries again later. If nobody fares
 * better, nobody takes them. */
static void choose_failing(struct ks_core *core, struct ks_effects *effects)
{
    struct ks_fleet *fleet = &core->fleet;

    if (!fleet->failing && core->leases_used == 0)
        fleet->failed_at = KS_NEVER;
    if (!fleet->failing && reads_fail(core)) {
        fleet->failing = true;
        fleet->failing_wait = next_wait(core);
        ks_effects_story(effects, KS_STORY_FAILING, KS_SHARD_NONE, fleet->self)->story.span =
            ks_instant_since(core->now, fleet->failed_at);
    }
    if (!fleet->failing || core->leases_used > 0) {
        fleet->try_at = KS_NEVER;
        return;
    }
    fleet->try_at = ks_instant_min(fleet->try_at, ks_instant_add(core->now, fleet->failing_wait));
    if (!ks_instant_reached(core->now, fleet->try_at))
        return;
    fleet->failing = false;
    fleet->failed_at = KS_NEVER;
    fleet->try_at = KS_NEVER;
}

static void choose_mode(struct ks_core *core)
{
    struct ks_fleet *fleet = &core->fleet;

    if (core->draining)
        fleet->mode = KS_DRAINING;
    else if ((core->sessions_used == 0 && ks_instant_reached(core->now, core->idle_at)) ||
             ks_operator_rests(core))
        fleet->mode = KS_IDLE;
    else
        fleet->mode = fleet->failing ? KS_FAILING : KS_ACTIVE;
    /* Said at once: nobody gives us a lease before they know. */
    if (fleet->step == KS_SELF_LIVE && fleet->back_off.us == 0 &&
        (fleet->mode != fleet->told_mode || fleet->told_capacity != ks_operator_capacity(core)))
        fleet->next_at = core->now;
}

void ks_self_choose(struct ks_core *core, struct ks_effects *effects)
{
    choose_failing(core, effects);
    choose_mode(core);
}

ks_instant ks_self_choice(const struct ks_core *core)
{
    if (core->sessions_used == 0 && ks_instant_before(core->now, core->idle_at))
        return ks_instant_min(core->fleet.try_at, core->idle_at);
    return core->fleet.try_at;
}

static void say_resting(struct ks_core *core, struct ks_effects *effects)
{
    struct ks_fleet *fleet = &core->fleet;

    if (fleet->step != KS_SELF_LIVE || fleet->resting || core->leases_used == 0 ||
        ks_core_serving(core))
        return;
    fleet->resting = true;
    ks_effects_story(effects, KS_STORY_HEARTBEAT_LATE, KS_SHARD_NONE, fleet->self);
}

static void read_own_row(struct ks_core *core, struct ks_effects *effects)
{
    ks_instant asked_at = core->fleet.asked_at;
    bool keep = core->fleet.step == KS_SELF_READING_BACK;

    ask(core, KS_STORE_READ_WORKER, effects);
    if (keep)
        core->fleet.asked_at = asked_at; /* Of the registration: the deadline counts from there. */
}

void ks_self_turn(struct ks_core *core, struct ks_effects *effects)
{
    struct ks_fleet *fleet = &core->fleet;
    bool due;

    ks_self_choose(core, effects);
    due = fleet->serial == 0 && ks_instant_reached(core->now, fleet->next_at);
    switch (fleet->step) {
    case KS_SELF_UNBORN: return;
    case KS_SELF_READING:
    case KS_SELF_WATCHING:
    case KS_SELF_READING_BACK:
        if (core->draining && fleet->step != KS_SELF_READING_BACK)
            become(core, KS_SELF_GONE);
        else if (core->draining && ks_instant_reached(core->now, ks_self_last_call(core)))
            become(core, KS_SELF_GONE);
        else if (due)
            read_own_row(core, effects);
        break;
    case KS_SELF_LOCKING:
        if (core->draining)
            become(core, KS_SELF_GONE);
        break;
    case KS_SELF_REGISTERING:
        /* A registration that comes late is found to be dead. */
        if (core->draining && ks_instant_reached(core->now, ks_self_last_call(core)))
            become(core, KS_SELF_GONE);
        break;
    case KS_SELF_CHECKING:
        if (core->draining && ks_instant_reached(core->now, ks_self_last_call(core)))
            become(core, KS_SELF_GONE);
        else if (due)
            read_own_row(core, effects);
        break;
    case KS_SELF_LIVE:
        say_resting(core, effects);
        if (may_leave(core))
            leave(core);
        else if (due)
            beat(core, effects);
        break;
    case KS_SELF_BURYING: bury(core, KS_SELF_READING, effects); break;
    case KS_SELF_LEAVING:
        if (ks_instant_reached(core->now, ks_instant_add(ks_self_last_call(core),
                                                         ks_span_us(2 * core->config.timeout.us))))
            become(core, KS_SELF_GONE);
        else if (due)
            ask(core, KS_STORE_SAY_GONE, effects);
        break;
    case KS_SELF_GONE: break;
    }
    if (fleet->step == KS_SELF_GONE)
        ks_self_finish(core, effects);
}

ks_instant ks_self_deadline(const struct ks_core *core)
{
    const struct ks_fleet *fleet = &core->fleet;
    ks_instant due = KS_NEVER;

    if (fleet->step == KS_SELF_UNBORN ||
        (fleet->step == KS_SELF_GONE && (!core->draining || core->drained)))
        return KS_NEVER;
    if (fleet->step == KS_SELF_GONE && awaits_letters(core))
        return core->patience_at;
    if (fleet->step == KS_SELF_GONE || fleet->step == KS_SELF_BURYING)
        return core->now;
    if (fleet->serial == 0 && fleet->step != KS_SELF_LOCKING)
        due = fleet->next_at;
    if (core->draining)
        due = ks_instant_min(due, fleet->step == KS_SELF_LIVE && may_leave(core)
                                      ? core->now
                                      : ks_instant_add(ks_self_last_call(core),
                                                       ks_span_us(2 * core->config.timeout.us)));
    if (core->draining && !ks_instant_reached(core->now, ks_self_last_call(core)))
        due = ks_instant_min(due, ks_self_last_call(core));
    due = ks_instant_min(due, ks_self_choice(core));
    if (fleet->step != KS_SELF_LIVE)
        return due;
    if (!fleet->resting && core->leases_used > 0)
        due = ks_instant_min(due, fleet->deadline);
    return due;
}
