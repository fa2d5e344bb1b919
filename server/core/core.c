/* SPDX-License-Identifier: Apache-2.0 */
#include "core/core.h"

#include <assert.h>
#include <string.h>

#include "core/fleet/protocol.h"
#include "core/flow.h"
#include "core/judge.h"
#include "core/lease.h"
#include "core/operator.h"
#include "core/poison.h"
#include "core/redrive.h"
#include "core/session.h"
#include "core/settle.h"
#include "core/state.h"

/* Effects that a step may still need after whoever makes many has stopped. */
enum { EFFECTS_RESERVE = 96 };

/* ---- Effects and tokens. ---- */

struct ks_effect *ks_effects_add(struct ks_effects *effects, enum ks_effect_kind kind)
{
    struct ks_effect *effect;

    assert(effects->count < KS_EFFECTS_MAX);
    effect = &effects->items[effects->count++];
    memset(effect, 0, sizeof *effect);
    effect->kind = kind;
    return effect;
}

struct ks_store_effect *ks_effects_store(struct ks_effects *effects,
                                         enum ks_store_operation operation, uint64_t token)
{
    struct ks_effect *effect = ks_effects_add(effects, KS_EFFECT_STORE);

    effect->store.operation = operation;
    effect->store.token = token;
    effect->store.shard = KS_SHARD_NONE;
    return &effect->store;
}

struct ks_effect *ks_effects_story(struct ks_effects *effects, enum ks_story story, ks_shard shard,
                                   struct ks_incarnation worker)
{
    struct ks_effect *effect = ks_effects_add(effects, KS_EFFECT_STORY);

    effect->story.story = story;
    effect->story.shard = shard;
    effect->story.worker = worker;
    return effect;
}

bool ks_effects_room(struct ks_core *core, const struct ks_effects *effects, uint32_t count)
{
    if (effects->count + count + EFFECTS_RESERVE <= KS_EFFECTS_MAX)
        return true;
    core->again = true;
    return false;
}

uint64_t ks_token_make(enum ks_purpose purpose, uint32_t subject, uint32_t serial)
{
    assert(subject < (1u << 24));
    return (uint64_t)purpose << 56 | (uint64_t)subject << 32 | serial;
}

enum ks_purpose ks_token_purpose(uint64_t token)
{
    return (enum ks_purpose)(token >> 56);
}

uint32_t ks_token_subject(uint64_t token)
{
    return (uint32_t)(token >> 32) & 0xFFFFFFu;
}

uint32_t ks_token_serial(uint64_t token)
{
    return (uint32_t)token;
}

uint32_t ks_core_serial(struct ks_core *core)
{
    core->next_serial++;
    if (core->next_serial == 0)
        core->next_serial = 1;
    return core->next_serial;
}

/* ---- Birth. ---- */

static ks_span at_most(ks_span span, int64_t most_ms)
{
    return span.us > most_ms * 1000 ? ks_span_ms(most_ms) : span;
}

struct ks_core_config ks_core_config_default(ks_span lease_duration)
{
    int64_t us = lease_duration.us;

    return (struct ks_core_config){
        .lease_duration = lease_duration,
        .margin = ks_span_us(us / 20),
        .beat = ks_span_us(us / 3),
        .news = ks_span_us(us / 12),
        .round = at_most(ks_span_us(us / 20), 500),
        .timeout = at_most(ks_span_us(us / 5), 2000),
        .hand_over = at_most(ks_span_us(us / 2), 5000),
        .report_every = ks_span_ms(30000),
        .keep = ks_span_ms(3600000),
        .list_every = ks_span_ms(30000),
        .checkpoint_interval = ks_span_ms(5000),
        .idle_release = ks_span_ms(30000),
        .load_patience = ks_span_us(6 * us),
        .load_least = 256 << 10,
        .shards_max = 10000,
        .leases_max = 1024,
        .window_max = 16384,
        .workers_max = 512,
        .large_fleet = 32,
        .sessions_max = 1024,
        .lanes_max = KS_LANES_MAX,
        .read_bytes = 1 << 20,
    };
}

static size_t rounded(size_t size)
{
    return (size + 63) & ~(size_t)63;
}

size_t ks_core_size(const struct ks_core_config *config)
{
    return rounded(sizeof(struct ks_core)) +
           rounded(config->shards_max * sizeof(struct ks_directory_entry)) +
           rounded(config->leases_max * sizeof(struct ks_lease)) +
           rounded(config->sessions_max * sizeof(struct ks_session)) +
           rounded(config->workers_max * sizeof(struct ks_member)) +
           rounded(config->shards_max * sizeof(ks_shard)) +
           rounded((size_t)config->leases_max * config->lanes_max * sizeof(struct ks_lane)) +
           (size_t)config->leases_max * config->window_max * sizeof(struct ks_slot);
}

/* Cuts the next `count` things of `size` bytes off the memory. */
static void *carve(uint8_t **memory, size_t count, size_t size)
{
    void *part = *memory;

    *memory += rounded(count * size);
    return part;
}

static const struct ks_fleet_protocol *const protocols[] = {
    [KS_PROTOCOL_NATIVE] = &ks_native_protocol,     [KS_PROTOCOL_GO_KCL] = &ks_go_kcl_protocol,
    [KS_PROTOCOL_KCL_RB] = &ks_kcl_rb_protocol,     [KS_PROTOCOL_KCL] = &ks_kcl_protocol,
    [KS_PROTOCOL_KINSUMER] = &ks_kinsumer_protocol,
};

struct ks_core *ks_core_init(void *memory, const struct ks_core_config *config)
{
    uint8_t *rest = memory;
    struct ks_core *core = carve(&rest, 1, sizeof *core);
    struct ks_slot *slots;
    struct ks_lane *lanes;

    assert(config->self != 0);
    assert(config->margin.us < config->lease_duration.us &&
           config->beat.us < config->lease_duration.us);
    assert(config->leases_max < (1u << 24) && config->workers_max < (1u << 24));
    assert(config->sessions_max <= UINT16_MAX);
    assert(config->lanes_max > 0 && config->lanes_max <= KS_LANES_MAX);
    core->config = *config;
    core->protocol = protocols[config->protocol];
    ks_prng_init(&core->prng, config->seed);
    core->now = KS_LONG_AGO;
    core->drain_clean = true;
    core->patience_at = KS_NEVER;
    core->idle_at = KS_LONG_AGO;
    core->lanes_due = KS_NEVER;
    core->reads_due = KS_NEVER;
    core->pauses_due = KS_NEVER;
    core->rest_until = KS_LONG_AGO;
    core->burials_due = KS_NEVER;
    core->lanes = 1;
    core->directory = carve(&rest, config->shards_max, sizeof *core->directory);
    core->leases = carve(&rest, config->leases_max, sizeof *core->leases);
    core->sessions = carve(&rest, config->sessions_max, sizeof *core->sessions);
    core->members = carve(&rest, config->workers_max, sizeof *core->members);
    core->by_key = carve(&rest, config->shards_max, sizeof *core->by_key);
    lanes = carve(&rest, (size_t)config->leases_max * config->lanes_max, sizeof *lanes);
    core->fleet.deadline = KS_LONG_AGO;
    /* The slots come last and are not touched before they are used: a window that is never filled costs nothing. */
    slots = (struct ks_slot *)(void *)rest;
    for (uint32_t i = 0; i < config->leases_max; i++) {
        core->leases[i].tracker.slots = slots + (size_t)i * config->window_max;
        core->leases[i].tracker.lanes = lanes + (size_t)i * config->lanes_max;
    }
    return core;
}

/* ---- The step. ---- */

static void drain(struct ks_core *core, ks_span patience, struct ks_effects *effects)
{
    if (core->draining)
        return;
    core->draining = true;
    core->patience_at = ks_instant_add(core->now, patience);
    ks_effects_story(effects, KS_STORY_DRAINING, KS_SHARD_NONE, KS_NOBODY)->story.number =
        core->leases_used;
}

/* While draining no lease is kept, whenever it came. */
static void return_leases(struct ks_core *core, struct ks_effects *effects)
{
    uint64_t unsettled = 0;

    for (uint32_t i = 0; i < core->leases_top; i++) {
        if (!core->leases[i].used)
            continue;
        unsettled += core->leases[i].tracker.in_flight;
        ks_lease_return(core, &core->leases[i]);
    }
    if (unsettled > 0 && !core->patience_said && ks_instant_reached(core->now, core->patience_at)) {
        core->patience_said = true;
        core->drain_clean = false;
        ks_effects_story(effects, KS_STORY_PATIENCE_OVER, KS_SHARD_NONE, KS_NOBODY)->story.number =
            unsettled;
    }
}

static void store_answered(struct ks_core *core, const struct ks_event *event,
                           struct ks_effects *effects)
{
    uint64_t token = event->store.token;

    if (ks_token_purpose(token) == KS_FOR_LEASE)
        ks_lease_answered(core, ks_token_subject(token), ks_token_serial(token), event, effects);
    else
        core->protocol->answered(core, event, effects);
}

static void persist(struct ks_core *core, ks_shard shard)
{
    struct ks_directory_entry *entry;

    if (shard >= core->directory_top)
        return;
    entry = &core->directory[shard];
    if (entry->held != KS_HELD_NONE)
        core->leases[entry->held].hurry = true;
}

/* The events that come by the thousand: what else is due waits for the next tick, which the deadline calls at once. */
static bool hot(enum ks_event_kind kind)
{
    return kind == KS_EVENT_SESSION_PULL || kind == KS_EVENT_WRITE || kind == KS_EVENT_SETTLE ||
           kind == KS_EVENT_CHECKPOINT || kind == KS_EVENT_PERSIST || kind == KS_EVENT_RECORDS ||
           kind == KS_EVENT_READ_FAILED || kind == KS_EVENT_LOAD || kind == KS_EVENT_BUDGET ||
           kind == KS_EVENT_JUDGED;
}

static void dispatch(struct ks_core *core, const struct ks_event *event, struct ks_effects *effects)
{
    switch (event->kind) {
    case KS_EVENT_START: core->protocol->start(core); return;
    case KS_EVENT_TICK: return;
    case KS_EVENT_CHANGED: core->protocol->look(core); return;
    case KS_EVENT_STORE: store_answered(core, event, effects); return;
    case KS_EVENT_LISTED: core->protocol->listed(core, event); return;
    case KS_EVENT_RECORDS: ks_flow_records(core, event, effects); return;
    case KS_EVENT_READ_FAILED: ks_flow_failed(core, event, effects); return;
    case KS_EVENT_JUDGED: ks_judge_records(core, event, effects); return;
    case KS_EVENT_SESSION_OPEN: ks_session_open(core, event, effects); return;
    case KS_EVENT_SESSION_PULL: ks_session_pull(core, event, effects); return;
    case KS_EVENT_WRITE: ks_session_write(core, event); return;
    case KS_EVENT_SESSION_DETACH:
        ks_session_detach(core, event->session.session, event->session.cut);
        return;
    case KS_EVENT_SESSION_CLOSE: ks_session_close(core, event->session.session); return;
    case KS_EVENT_SESSION_UPDATE: ks_session_update(core, event); return;
    case KS_EVENT_SETTLE: ks_settle_records(core, event, effects); return;
    case KS_EVENT_CHECKPOINT: ks_settle_checkpoint(core, event, effects); return;
    case KS_EVENT_PERSIST: persist(core, event->persist.shard); return;
    case KS_EVENT_DRAIN: drain(core, event->drain.span, effects); return;
    case KS_EVENT_HURRY:
        if (core->draining)
            core->patience_at = ks_instant_min(core->patience_at, core->now);
        return;
    case KS_EVENT_LOAD: core->fleet.load = event->load.load; return;
    case KS_EVENT_BUDGET: ks_flow_budget(core, event->budget.bytes); return;
    case KS_EVENT_KIN: core->fleet.kcl.kin_away = event->kin.away; return;
    case KS_EVENT_LOCKED: core->protocol->locked(core, event, effects); return;
    case KS_EVENT_PAUSE: ks_operator_pause(core, event, effects); return;
    case KS_EVENT_RESUME:
        ks_operator_resume(core, event->shard.shard, effects);
        ks_poison_go_on(core, event->shard.shard, effects);
        return;
    case KS_EVENT_RELEASE: ks_operator_release(core, event->shard.shard, effects); return;
    case KS_EVENT_SEEK: ks_operator_seek(core, event, effects); return;
    case KS_EVENT_SKIP: ks_operator_skip(core, event, effects); return;
    case KS_EVENT_GRANT: ks_session_grant(core, event->grant.session, event->grant.records); return;
    case KS_EVENT_BURIED: ks_poison_buried(core, event, effects); return;
    case KS_EVENT_REDRIVE: ks_redrive_begin(core, event); return;
    case KS_EVENT_DISCARDED: ks_redrive_discarded(core, event->letter.number); return;
    case KS_EVENT_LETTER: ks_redrive_told(core, event, effects); return;
    }
}

void ks_core_wall(struct ks_core *core, int64_t wall_us)
{
    core->wall_us = wall_us;
}

void ks_core_claim(struct ks_core *core, ks_instant *at)
{
    *at = core->fleet.claim_at = ks_instant_max(core->fleet.claim_at, *at);
}

void ks_core_step(struct ks_core *core, ks_instant now, const struct ks_event *event,
                  struct ks_effects *effects)
{
    assert(effects->count == 0);
    assert(!ks_instant_before(now, core->now));

    core->now = now;
    dispatch(core, event, effects);
    if (hot(event->kind))
        return;
    core->again = false;
    ks_operator_turn(core, effects);
    core->protocol->turn(core, effects);
    if (core->draining)
        return_leases(core, effects);
    ks_lease_turn(core, effects);
    ks_poison_turn(core, effects);
    ks_redrive_turn(core, effects);
    ks_session_turn(core, effects);
    ks_flow_turn(core, effects);
}

ks_instant ks_core_deadline(const struct ks_core *core)
{
    ks_instant due;

    if (core->again)
        return core->now;
    due = ks_instant_min(core->protocol->deadline(core), ks_operator_deadline(core));
    due = ks_instant_min(due, ks_lease_deadline(core));
    due = ks_instant_min(due, ks_session_deadline(core));
    due = ks_instant_min(due, core->burials_due);
    due = ks_instant_min(due, ks_redrive_deadline(core));
    return ks_instant_min(due, ks_flow_deadline(core));
}

/* ---- Questions. ---- */

static enum ks_worker_state worker_state(const struct ks_core *core)
{
    switch (core->fleet.step) {
    case KS_SELF_UNBORN:
    case KS_SELF_READING:
    case KS_SELF_WATCHING:
    case KS_SELF_LOCKING:
    case KS_SELF_REGISTERING:
    case KS_SELF_READING_BACK: return KS_WORKER_STARTING;
    case KS_SELF_LIVE: return core->draining ? KS_WORKER_DRAINING : KS_WORKER_LIVE;
    case KS_SELF_CHECKING:
    case KS_SELF_BURYING: return KS_WORKER_FENCED;
    case KS_SELF_LEAVING: return KS_WORKER_DRAINING;
    /* A redelivered dead letter may be in flight after the last lease was returned. */
    case KS_SELF_GONE:
        return core->draining && !core->drained ? KS_WORKER_DRAINING : KS_WORKER_GONE;
    }
    assert(false);
    return KS_WORKER_GONE;
}

static void add_tracker(struct ks_self_view *view, const struct ks_tracker *tracker)
{
    view->assigned += tracker->unwritten;
    view->assigned_bytes += tracker->unwritten_bytes;
    view->in_flight += tracker->in_flight - tracker->unwritten;
    view->in_flight_bytes += tracker->in_flight_bytes - tracker->unwritten_bytes;
}

static void add_letter(struct ks_self_view *view, const struct ks_redrive *letter)
{
    bool written = letter->state == KS_REDRIVE_WRITTEN;

    if (!ks_redrive_is_out(letter))
        return;
    view->assigned += !written;
    view->assigned_bytes += written ? 0 : letter->bytes;
    view->in_flight += written;
    view->in_flight_bytes += written ? letter->bytes : 0;
}

void ks_core_self(const struct ks_core *core, struct ks_self_view *ret_view)
{
    struct ks_self_view view = {
        .state = worker_state(core),
        .incarnation = core->fleet.self,
        .leads = core->fleet.leads,
        .serving = ks_core_serving(core),
        .deadline = core->fleet.deadline,
        .leases_held = core->leases_used,
        .unread = core->fleet.division.unread,
        .sessions = core->sessions_used,
        .held_bytes = ks_flow_held(core),
        .redriven = core->redrives_used,
        .paused = core->pause.on || core->leases_used > 0,
    };

    for (uint32_t i = 0; i < core->leases_top; i++) {
        if (!core->leases[i].used)
            continue;
        view.paused = view.paused && ks_core_paused(core, core->leases[i].shard);
        view.deadline = ks_instant_min(view.deadline, core->leases[i].deadline);
        add_tracker(&view, &core->leases[i].tracker);
    }
    for (uint32_t i = 0; core->redrives_used > 0 && i < KS_REDRIVES_MAX; i++)
        add_letter(&view, &core->redrives[i]);
    *ret_view = view;
}

bool ks_core_wants(const struct ks_core *core)
{
    return core->fleet.step == KS_SELF_LIVE && core->fleet.mode == KS_ACTIVE && !core->draining;
}

static void view_held(const struct ks_core *core, const struct ks_lease *lease,
                      struct ks_lease_view *view)
{
    uint64_t blocked = ks_tracker_blocked(&lease->tracker, core->now);

    view->state = lease->state;
    view->epoch = lease->epoch;
    view->watermark = lease->tracker.mark;
    view->persisted = lease->persisted;
    view->delivered = lease->tracker.delivered;
    view->fetched = lease->tracker.fetched;
    view->settled = lease->tracker.settled;
    view->in_flight = lease->tracker.in_flight - lease->tracker.unwritten;
    view->assigned = lease->tracker.unwritten;
    view->session = lease->tracker.lanes[0].session;
    view->lanes = lease->tracker.lane_count;
    view->owned_lanes = lease->owned;
    for (view->blocked_lanes = 0; blocked != 0; blocked &= blocked - 1)
        view->blocked_lanes++;
    view->dying = lease->tracker.dying;
    view->holds_large = ks_poison_holds_large(lease);
    view->large = lease->large;
    view->blocked = view->blocked_lanes > 0 || lease->stopped || core->stopped || lease->gap_full ||
                    view->holds_large;
    view->at_end = lease->at_end;
    view->unread_since =
        lease->reading || lease->at_end ? KS_NEVER : ks_instant_max(lease->end_at, lease->since);
    view->since = lease->since;
}

bool ks_core_lease(const struct ks_core *core, ks_shard shard, struct ks_lease_view *ret_view)
{
    const struct ks_directory_entry *entry;
    struct ks_lease_view view = {.session = KS_SESSION_NONE};

    if (shard >= core->directory_top)
        return false;
    entry = &core->directory[shard];
    if (entry->elsewhere || (!entry->seen && !entry->present && entry->held == KS_HELD_NONE))
        return false;
    view.state = entry->finished ? KS_LEASE_FINISHED : KS_LEASE_AWAY;
    view.owner = entry->owner;
    view.next_owner = entry->next_owner;
    view.epoch = entry->epoch;
    view.finished = entry->finished;
    view.damaged = entry->damaged;
    view.paused = entry->pause.on;
    view.paused_until = entry->pause.until;
    if (entry->held != KS_HELD_NONE) {
        view.owner = core->fleet.self;
        view_held(core, &core->leases[entry->held], &view);
    }
    *ret_view = view;
    return true;
}

bool ks_core_waiting(const struct ks_core *core, ks_shard shard, ks_epoch epoch,
                     ks_number *ret_number)
{
    const struct ks_lease *lease = ks_lease_of(core, shard, epoch);

    return lease != NULL && ks_tracker_waiting(&lease->tracker, ret_number);
}

bool ks_core_blocker(const struct ks_core *core, ks_shard shard, struct ks_blocker *ret_blocker)
{
    struct ks_blocker blocker = {.number = 0};
    const struct ks_slot *slot;
    struct ks_lease_view view;
    const struct ks_lease *lease;

    if (!ks_core_lease(core, shard, &view) || !view.blocked)
        return false;
    lease = &core->leases[core->directory[shard].held];
    if (!ks_poison_blocker(lease, &blocker.number))
        return false;
    slot = ks_tracker_slot(&lease->tracker, blocker.number);
    blocker.failures = slot->failures;
    blocker.out = ks_slot_is_out(slot);
    blocker.stopped = lease->stopped && blocker.number == lease->stopped_at;
    blocker.too_large = view.holds_large && blocker.number == lease->large;
    *ret_blocker = blocker;
    return true;
}

/* The record of the current epoch; NULL: it is settled, or not there. */
static const struct ks_slot *slot_of(const struct ks_core *core, ks_shard shard, ks_number number)
{
    const struct ks_lease *lease;

    if (shard >= core->directory_top || core->directory[shard].held == KS_HELD_NONE)
        return NULL;
    lease = &core->leases[core->directory[shard].held];
    if (number < lease->tracker.mark || number >= lease->tracker.fetched)
        return NULL;
    return ks_tracker_slot(&lease->tracker, number);
}

bool ks_core_is_out(const struct ks_core *core, ks_shard shard, ks_number number)
{
    const struct ks_slot *slot = slot_of(core, shard, number);

    return slot != NULL && ks_slot_is_out(slot);
}

bool ks_core_is_dying(const struct ks_core *core, ks_shard shard, ks_number number)
{
    const struct ks_slot *slot = slot_of(core, shard, number);

    return slot != NULL && (slot->state == KS_SLOT_DYING || slot->state == KS_SLOT_BURYING);
}

bool ks_core_is_settled(const struct ks_core *core, ks_shard shard, ks_number number)
{
    const struct ks_slot *slot = slot_of(core, shard, number);

    return slot == NULL || slot->state == KS_SLOT_SETTLED;
}

bool ks_core_session(const struct ks_core *core, ks_session_id id, struct ks_session_view *ret_view)
{
    const struct ks_session *session;

    if (id >= core->config.sessions_max || !core->sessions[id].used)
        return false;
    session = &core->sessions[id];
    *ret_view = (struct ks_session_view){
        .epoch = session->epoch,
        .attached = session->attached,
        .pulls = session->pulls,
        .in_flight = session->in_flight - session->unwritten,
        .in_flight_bytes = session->in_flight_bytes - session->unwritten_bytes,
        .assigned = session->unwritten,
        .assigned_bytes = session->unwritten_bytes,
        .max_in_flight = session->max_in_flight,
        .max_in_flight_bytes = session->max_in_flight_bytes,
        .max_record_bytes = session->max_record_bytes,
        .credit = ks_session_room(session),
        .granted = session->granted,
        .explicit_credit = session->explicit_credit,
        .lanes = session->lanes,
        .share = session->share,
    };
    return true;
}

uint64_t ks_core_group(const struct ks_core *core, enum ks_group group, enum ks_count count)
{
    return core->groups[group][count];
}

/* Something that waits for no room in the session keeps the lease's records back. */
static bool is_blocked(const struct ks_core *core, const struct ks_lease *lease)
{
    return lease->cramped || lease->stopped || core->stopped || lease->gap_full ||
           ks_poison_holds_large(lease) || ks_tracker_blocked(&lease->tracker, core->now) != 0;
}

static void ask_lease(const struct ks_core *core, const struct ks_lease *lease,
                      struct ks_idle_leases *said)
{
    said->any = true;
    said->running |= !ks_core_paused(core, lease->shard);
    said->throttled |= lease->throttled;
    said->blocked |= is_blocked(core, lease);
}

/* Those that the session takes records of. */
static void ask_leases(const struct ks_core *core, const struct ks_session *session,
                       struct ks_idle_leases *said)
{
    for (uint32_t i = 0; session->shard_count == 0 && i < core->leases_top; i++)
        if (core->leases[i].used)
            ask_lease(core, &core->leases[i], said);
    for (uint32_t i = 0; i < session->shard_count; i++) {
        ks_shard shard = session->shards[i];

        if (shard < core->directory_top && core->directory[shard].held != KS_HELD_NONE)
            ask_lease(core, &core->leases[core->directory[shard].held], said);
    }
    said->asked = true;
}

enum ks_idle ks_core_session_idle(const struct ks_core *core, ks_session_id id,
                                  struct ks_idle_leases *all)
{
    const struct ks_session *session = &core->sessions[id];
    struct ks_idle_leases own = {.asked = false};
    struct ks_idle_leases *said = all == NULL || session->shard_count > 0 ? &own : all;

    assert(id < core->config.sessions_max && session->used);
    if (core->draining)
        return KS_IDLE_DRAINING;
    if (!said->asked)
        ask_leases(core, session, said);
    if (said->any ? !said->running : core->pause.on)
        return KS_IDLE_PAUSED;
    if (!said->any)
        return KS_IDLE_NO_LEASES;
    if (!ks_core_serving(core))
        return KS_IDLE_FENCED;
    if (session->max_in_flight > 0 && ks_session_room(session) == 0)
        return KS_IDLE_FLOW_CONTROLLED;
    if (said->blocked)
        return KS_IDLE_LANE_BLOCKED;
    return said->throttled ? KS_IDLE_THROTTLED : KS_IDLE_NO_DATA;
}

bool ks_core_worker(const struct ks_core *core, uint32_t index, struct ks_worker_view *ret_view)
{
    for (uint32_t i = 0; i < core->config.workers_max; i++) {
        const struct ks_member *member = &core->members[i];

        if (!member->present || index-- > 0)
            continue;
        *ret_view = (struct ks_worker_view){
            .self = member->self,
            .life = member->life,
            .mode = member->mode,
            .beat = member->beat,
            .held = member->held,
            .capacity = member->capacity,
            .load = member->load,
            .beat_seen_at = member->seen_at,
            .leads = ks_incarnation_equal(member->self, core->fleet.office.holder),
        };
        return true;
    }
    return false;
}

bool ks_core_may_finish(const struct ks_core *core, ks_shard shard, ks_epoch epoch, ks_instant now)
{
    const struct ks_lease *lease = ks_lease_of(core, shard, epoch);

    if (shard == KS_SHARD_NONE)
        return true;
    return lease != NULL && ks_lease_may_finish(core, lease, now);
}

bool ks_core_may_send(const struct ks_core *core, ks_shard shard, ks_epoch epoch, ks_instant now)
{
    const struct ks_lease *lease = ks_lease_of(core, shard, epoch);

    if (shard == KS_SHARD_NONE || ks_core_may_finish(core, shard, epoch, now))
        return true;
    if (lease != NULL)
        return ks_tracker_is_quiet(&lease->tracker);
    return shard < core->directory_top && core->directory[shard].quiet == epoch;
}

uint32_t ks_core_assigned(const struct ks_core *core, ks_shard shard, ks_epoch epoch,
                          ks_number number, uint32_t count, uint64_t assignment)
{
    const struct ks_lease *lease = ks_lease_of(core, shard, epoch);

    if (shard == KS_SHARD_NONE)
        return ks_redrive_is_assigned(core, number, assignment);
    return lease == NULL ? 0 : ks_tracker_assigned(&lease->tracker, number, count, assignment);
}

uint64_t ks_core_bytes(const struct ks_core *core, ks_shard shard, ks_epoch epoch, ks_number first,
                       uint32_t count)
{
    const struct ks_lease *lease = ks_lease_of(core, shard, epoch);

    return lease == NULL ? 0 : ks_tracker_bytes(&lease->tracker, first, count);
}

/* ---- Invariants. ---- */

static void check_lanes(const struct ks_core *core, const struct ks_lease *lease)
{
    const struct ks_tracker *tracker = &lease->tracker;
    uint32_t owned = 0;

    assert(tracker->lane_count == core->lanes);
    assert(tracker->unordered == (core->ordering == KS_ORDER_NONE));
    for (uint32_t i = 0; i < tracker->lane_count; i++) {
        assert(tracker->lanes[i].session == KS_SESSION_NONE ||
               core->sessions[tracker->lanes[i].session].used);
        owned += tracker->lanes[i].session != KS_SESSION_NONE;
    }
    assert(owned == lease->owned);
    assert(lease->canary == 0 || core->ordering == KS_ORDER_BY_KEY);
    if (tracker->in_flight == 0)
        return;
    /* A lane is with one session at a time. */
    for (ks_number n = tracker->mark; n < tracker->reached && !tracker->unordered; n++) {
        const struct ks_slot *slot = ks_tracker_slot(tracker, n);

        assert(!ks_slot_is_out(slot) ||
               tracker->lanes[ks_tracker_lane(tracker, slot)].session == slot->session);
    }
}

static void check_lease(const struct ks_core *core, uint32_t index)
{
    const struct ks_lease *lease = &core->leases[index];

    if (!lease->used)
        return;
    assert(core->directory[lease->shard].held == index);
    assert(lease->epoch > core->directory[lease->shard].ended || lease->state != KS_LEASE_HELD);
    assert(lease->persisted <= lease->tracker.mark);
    assert(lease->reading || lease->reserved == 0);
    assert(lease->tracker.in_flight == 0 ||
           !ks_instant_before(lease->tracker.deadline_bound, core->lanes_due));
    assert(!ks_instant_before(lease->tracker.ready_bound, core->lanes_due));
    check_lanes(core, lease);
    ks_judge_check(core, lease);
    ks_tracker_check(&lease->tracker);
}

void ks_core_check(const struct ks_core *core)
{
    uint32_t in_flight[UINT8_MAX];
    uint32_t used = 0;
    uint64_t reserved = 0;
    uint32_t burials = 0;

    for (ks_session_id id = 0; id < UINT8_MAX && id < core->config.sessions_max; id++)
        in_flight[id] = 0;
    /* One beyond the top would be missed by the count. */
    for (uint32_t i = 0; i < core->leases_top; i++) {
        const struct ks_lease *lease = &core->leases[i];

        check_lease(core, i);
        used += lease->used;
        if (!lease->used)
            continue;
        reserved += lease->reserved;
        burials += lease->bury_serial != 0;
        for (ks_number n = lease->tracker.mark;
             lease->tracker.in_flight > 0 && n < lease->tracker.reached; n++) {
            const struct ks_slot *slot = ks_tracker_slot(&lease->tracker, n);

            if (ks_slot_is_out(slot) && slot->session < UINT8_MAX)
                in_flight[slot->session]++;
        }
    }
    ks_redrive_check(core, in_flight, UINT8_MAX);
    assert(used == core->leases_used);
    assert(reserved == core->reserved);
    assert(burials == core->burials && burials <= KS_BURIALS_MAX);
    used = 0;
    for (ks_session_id id = 0; id < core->config.sessions_max; id++) {
        const struct ks_session *session = &core->sessions[id];

        if (!session->used)
            continue;
        used++;
        assert(id >= UINT8_MAX || session->in_flight == in_flight[id]);
    }
    assert(used == core->sessions_used);
    for (ks_shard shard = 0; shard < core->directory_top; shard++)
        assert(core->directory[shard].held == KS_HELD_NONE ||
               core->leases[core->directory[shard].held].shard == shard);
    assert(!core->drained || core->leases_used == 0);
}
