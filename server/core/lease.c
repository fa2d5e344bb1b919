/* SPDX-License-Identifier: Apache-2.0 */
#include "core/lease.h"

#include <assert.h>
#include <stddef.h>

#include "core/fleet/protocol.h"
#include "core/flow.h"
#include "core/lanes.h"
#include "core/operator.h"
#include "core/poison.h"
#include "core/session.h"

#define FIRST_RETRY ks_span_ms(200)
enum { RETRY_DOUBLINGS = 4 }; /* 0.2 s .. 3.2 s */

struct ks_lease *ks_lease_of(const struct ks_core *core, ks_shard shard, ks_epoch epoch)
{
    struct ks_lease *lease;
    uint32_t held;

    if (shard >= core->directory_top)
        return NULL;
    held = core->directory[shard].held;
    if (held == KS_HELD_NONE)
        return NULL;
    lease = &core->leases[held];
    assert(lease->used && lease->shard == shard);
    return lease->epoch == epoch ? lease : NULL;
}

bool ks_lease_may_deliver(const struct ks_core *core, const struct ks_lease *lease)
{
    return lease->state == KS_LEASE_HELD && !lease->given_up &&
           ks_core_serving_lease(core, lease) && !ks_core_paused(core, lease->shard);
}

/* ---- Begin and end. ---- */

static uint32_t free_index(const struct ks_core *core)
{
    for (uint32_t i = 0; i < core->config.leases_max; i++)
        if (!core->leases[i].used)
            return i;
    return KS_HELD_NONE;
}

void ks_lease_begin(struct ks_core *core, const struct ks_lease_row *row,
                    struct ks_effects *effects)
{
    struct ks_directory_entry *entry = &core->directory[row->shard];
    uint32_t index = free_index(core);
    struct ks_lease *lease;
    struct ks_slot *slots;
    struct ks_lane *lanes;
    struct ks_effect *effect;

    assert(entry->held == KS_HELD_NONE);
    if (index == KS_HELD_NONE)
        return; /* No room: the take is asked for again by the leader, and it will be told of our count. */
    lease = &core->leases[index];
    slots = lease->tracker.slots;
    lanes = lease->tracker.lanes;
    *lease = (struct ks_lease){
        .used = true,
        .shard = row->shard,
        .epoch = row->epoch,
        .rev = row->rev,
        .tried = row->rev,
        .asked_at = core->now,
        .deadline = core->protocol->serves_until(core, row->rev),
        .renew_at = core->protocol->renew_at(core, core->now),
        .state = KS_LEASE_HELD,
        .send_until = KS_NEVER,
        .since = core->now,
        .large = KS_NUMBER_NONE,
        .bury_at = core->now,
        .next_owner = row->next_owner,
        .unsure = UINT64_MAX,
        .appetite = core->config.read_bytes,
        .read_at = core->now,
        .full_since = KS_NEVER,
        .retry_at = core->now,
        .checkpoint_at = core->now,
        .measured_at = core->now,
        .load = row->load,
        .told_load = row->load,
    };
    ks_tracker_init(&lease->tracker, slots, core->config.window_max, lanes);
    ks_lanes_begin(core, lease);
    entry->held = index;
    core->leases_used++;
    if (core->leases_top <= index)
        core->leases_top = index + 1;
    core->unbalanced = true;
    core->protocol->changed(core);
    effect = ks_effects_add(effects, KS_EFFECT_OPEN);
    effect->lease.shard = lease->shard;
    effect->lease.epoch = lease->epoch;
    effect = ks_effects_story(effects, KS_STORY_ACQUIRED, lease->shard, KS_NOBODY);
    effect->story.epoch = lease->epoch;
    if (core->leases_used == core->config.leases_max)
        ks_effects_story(effects, KS_STORY_HOLDS_ALL, KS_SHARD_NONE, KS_NOBODY)->story.number =
            core->leases_used;
    if (core->draining || row->epoch <= entry->given || row->epoch <= entry->ended ||
        row->next_owner.worker != 0) {
        lease->send_until = KS_LONG_AGO; /* Nothing of it was begun, or will be. */
        ks_lease_return(core, lease);
    }
}

void ks_lease_ended(struct ks_core *core, ks_shard shard, ks_epoch epoch)
{
    struct ks_directory_entry *entry = &core->directory[shard];

    if (epoch <= entry->ended)
        return;
    entry->ended = epoch;
    entry->ended_known = core->next_serial;
}

void ks_lease_lose(struct ks_core *core, struct ks_lease *lease, enum ks_story why,
                   struct ks_effects *effects)
{
    struct ks_directory_entry *entry = &core->directory[lease->shard];
    struct ks_effect *effect;

    assert(lease->used);
    if (lease->tracker.in_flight > 0 || why == KS_STORY_LOST)
        core->drain_clean = false;
    if (lease->seeking) {
        effect = ks_effects_add(effects, KS_EFFECT_SOUGHT);
        effect->sought.shard = lease->shard;
        effect->sought.epoch = lease->epoch;
        effect->sought.done = why == KS_STORY_SOUGHT;
    }
    if (ks_tracker_is_quiet(&lease->tracker))
        entry->quiet = lease->epoch;
    ks_session_forget_lease(core, lease);
    ks_flow_forget(core, lease);
    ks_poison_forget_lease(core, lease);
    ks_lease_ended(core, lease->shard, lease->epoch);
    if (lease->tried != lease->rev) {
        /* Its last write may still be done, or was: a take of the same rev serves no longer than it would have. */
        entry->tried = lease->tried;
        entry->tried_until = lease->sure;
    }
    /* Whatever its epoch: reads under way show it as ours. */
    entry->ended_known = core->next_serial;
    entry->held = KS_HELD_NONE;
    lease->used = false;
    core->leases_used--;
    while (core->leases_top > 0 && !core->leases[core->leases_top - 1].used)
        core->leases_top--;
    core->protocol->changed(core);
    effect = ks_effects_add(effects, KS_EFFECT_CLOSE);
    effect->lease.shard = lease->shard;
    effect->lease.epoch = lease->epoch;
    effect = ks_effects_story(effects, why, lease->shard, KS_NOBODY);
    effect->story.epoch = lease->epoch;
}

void ks_lease_return(struct ks_core *core, struct ks_lease *lease)
{
    assert(lease->used);
    if (lease->state != KS_LEASE_HELD)
        return;
    lease->state = KS_LEASE_RETURNING;
    ks_session_unassign(core, lease, UINT64_MAX);
    lease->unsaid = true;
    /* A drain has its own patience. */
    lease->patience_at =
        core->draining ? KS_NEVER : ks_instant_add(core->now, core->config.hand_over);
}

void ks_lease_give(struct ks_core *core, struct ks_lease *lease)
{
    lease->send_until = ks_instant_min(lease->send_until, core->fleet.deadline);
    ks_lease_return(core, lease);
}

void ks_lease_settled(struct ks_lease *lease, ks_number mark_before, struct ks_effects *effects)
{
    struct ks_effect *effect;

    if (lease->tracker.mark == mark_before)
        return;
    effect = ks_effects_add(effects, KS_EFFECT_FORGET);
    effect->lease.shard = lease->shard;
    effect->lease.epoch = lease->epoch;
    effect->lease.number = lease->tracker.mark;
}

/* ---- Answers. ---- */

static bool may_end(const struct ks_core *core, const struct ks_lease *lease)
{
    return lease->at_end && !lease->reading && lease->tracker.mark == lease->tracker.fetched &&
           (core->protocol->may_end == NULL || core->protocol->may_end(core, lease));
}

/* What is in flight is not waited for any longer. */
static bool patience_over(const struct ks_core *core, const struct ks_lease *lease, ks_instant now)
{
    return ks_instant_reached(now, lease->patience_at) ||
           (core->draining && ks_instant_reached(now, core->patience_at));
}

bool ks_lease_may_finish(const struct ks_core *core, const struct ks_lease *lease, ks_instant now)
{
    if (lease->given_up ||
        !ks_instant_before(now, ks_instant_min(core->fleet.deadline, lease->deadline)))
        return false;
    return lease->state != KS_LEASE_RETURNING ||
           (ks_instant_before(now, lease->send_until) && !patience_over(core, lease, now));
}

static bool ready_to_return(const struct ks_core *core, const struct ks_lease *lease)
{
    return lease->state == KS_LEASE_RETURNING &&
           ((lease->tracker.in_flight == 0 && lease->tracker.half_way == 0 &&
             lease->tracker.dying == 0) ||
            patience_over(core, lease, core->now)) &&
           ks_operator_lets_go(core, lease);
}

static void back_off(struct ks_core *core, struct ks_lease *lease)
{
    uint32_t doublings = lease->failures < RETRY_DOUBLINGS ? lease->failures : RETRY_DOUBLINGS;

    lease->failures++;
    lease->retry_at = ks_instant_add(core->now, ks_span_us(FIRST_RETRY.us << doublings));
}

static void persisted(struct ks_lease *lease, ks_number up_to, struct ks_effects *effects)
{
    struct ks_effect *effect;

    if (lease->persisted >= up_to)
        return;
    lease->persisted = up_to;
    if (lease->persisted >= lease->tracker.mark)
        lease->hurry = false;
    effect = ks_effects_add(effects, KS_EFFECT_PERSISTED);
    effect->lease.shard = lease->shard;
    effect->lease.epoch = lease->epoch;
    effect->lease.number = up_to;
}

/* The final write or SHARD_END is durable: the row is as we wrote it, and as readable as it was. */
static void over(struct ks_core *core, struct ks_lease *lease, bool finished,
                 struct ks_effects *effects)
{
    struct ks_lease_row row = {
        .shard = lease->shard,
        .owner = finished ? KS_NOBODY : lease->next_owner,
        .epoch = lease->epoch + 1,
        .rev = lease->rev + 1,
        .load = lease->told_load,
        .finished = finished,
        .damaged = core->directory[lease->shard].damaged,
    };

    for (uint32_t p = 0; p < KS_PARENTS_MAX; p++)
        row.parents[p] = core->directory[lease->shard].parents[p];
    persisted(lease, lease->tracker.mark, effects);
    ks_lease_lose(core, lease, finished ? KS_STORY_SHARD_END : KS_STORY_RELEASED, effects);
    core->protocol->see(core, KS_SERIAL_NOW, &row);
}

/* The seek is durable: the row is ours in the next epoch, which begins as any does. */
static void sought(struct ks_core *core, struct ks_lease *lease, struct ks_effects *effects)
{
    ks_shard shard = lease->shard;
    ks_epoch epoch = lease->epoch + 1;

    ks_lease_lose(core, lease, KS_STORY_SOUGHT, effects);
    core->protocol->take(core, shard, epoch);
}

/* Whatever moves the deadline counts from when it was asked for: the table may have said yes right then. */
static void serve_until(struct ks_core *core, struct ks_lease *lease, ks_instant deadline)
{
    if (ks_instant_reached(core->now, lease->deadline) && ks_instant_before(core->now, deadline))
        core->stirred = true;
    lease->deadline = deadline;
    lease->renew_at = core->protocol->renew_at(core, lease->asked_at);
}

static void checkpoint_answered(struct ks_core *core, struct ks_lease *lease,
                                enum ks_outcome outcome, struct ks_effects *effects)
{
    lease->checkpoint_at = ks_instant_add(core->now, core->config.checkpoint_interval);
    switch (outcome) {
    case KS_DONE:
        lease->rev = lease->tried;
        serve_until(core, lease, lease->promised);
        lease->unsure = UINT64_MAX;
        lease->failures = 0;
        persisted(lease, lease->writing, effects);
        return;
    case KS_UNKNOWN:
        if (lease->writing < lease->unsure)
            lease->unsure = lease->writing;
        back_off(core, lease);
        lease->reread = true;
        return;
    case KS_REFUSED: lease->reread = lease->refused = true; return;
    }
}

/* True if the row is surely what our own last write made of it. A free row is: whoever takes a lease names an owner.
 * With a next owner it could also be a forced one that has checkpointed once, and we do not claim it. */
static bool made_by_us(const struct ks_lease *lease, const struct ks_lease_row *row)
{
    if (!lease->given_up)
        return false;
    if (lease->state == KS_LEASE_ENDING)
        return row->finished;
    return row->owner.worker == 0 && row->epoch == lease->epoch + 1 && row->rev == lease->rev + 1;
}

/* Only a seek of ours names the same owner in the next epoch and counts the rev on. */
static bool sought_by_us(const struct ks_core *core, const struct ks_lease *lease,
                         const struct ks_lease_row *row)
{
    return lease->seeking && ks_incarnation_equal(row->owner, core->fleet.self) &&
           row->epoch == lease->epoch + 1 && row->rev == lease->rev + 1;
}

/* `rev` counts our own writes and never falls while a row exists: if we cannot have made it what it is, the row was
 * deleted and made again, and came to our epoch by chance. */
static bool is_another_row(const struct ks_core *core, const struct ks_lease *lease,
                           const struct ks_lease_row *row)
{
    bool ours = row->epoch == lease->epoch && ks_incarnation_equal(row->owner, core->fleet.self);

    return row->rev < lease->rev ||
           (ours && row->rev > (lease->unsure != UINT64_MAX ? lease->tried : lease->rev));
}

/* The row is ours in this epoch. */
static void still_ours(struct ks_core *core, struct ks_lease *lease, const struct ks_lease_row *row,
                       struct ks_effects *effects)
{
    bool moved = row->rev > lease->rev;
    bool explained = moved || !ks_incarnation_equal(lease->next_owner, row->next_owner);

    if (moved) {
        /* A checkpoint of unknown outcome was applied: one of those with this rev. */
        if (lease->unsure != UINT64_MAX)
            persisted(lease, lease->unsure, effects);
        lease->unsure = UINT64_MAX;
        lease->rev = row->rev;
        serve_until(core, lease,
                    ks_instant_min(lease->sure, core->protocol->serves_until(core, row->rev)));
    }
    lease->next_owner = row->next_owner;
    if (row->next_owner.worker != 0)
        ks_lease_return(core, lease); /* The row is the truth: it is a `give`, too. */
    lease->reread = false;
    lease->checked = ready_to_return(core, lease);
    if (lease->refused && !explained) {
        back_off(core, lease); /* We do not see why: the same would be refused again. */
    } else {
        lease->failures = 0;
        lease->retry_at = core->now;
    }
    lease->refused = false;
}

/* What a consistent read says of a lease that we believe to hold. */
static void read_back(struct ks_core *core, struct ks_lease *lease, const struct ks_event *event,
                      struct ks_effects *effects)
{
    struct ks_lease_row seen;
    const struct ks_lease_row *row = &seen;

    if (event->store.outcome == KS_DONE && event->store.lease_count > 0) {
        seen = *event->store.leases;
        core->protocol->read(core, &seen);
        core->protocol->see(core, lease->serial, row);
    }
    if (event->store.outcome != KS_DONE || (event->store.lease_count > 0 && row->damaged)) {
        back_off(core, lease);
        return;
    }
    if (event->store.lease_count == 0 || is_another_row(core, lease, row)) {
        ks_lease_lose(core, lease, KS_STORY_LOST, effects);
        if (event->store.lease_count > 0 && ks_incarnation_equal(row->owner, core->fleet.self))
            core->protocol->take(core, row->shard, row->epoch); /* And it is ours again. */
        return;
    }
    if (row->epoch != lease->epoch || !ks_incarnation_equal(row->owner, core->fleet.self)) {
        if (sought_by_us(core, lease, row)) {
            sought(core, lease, effects);
            return;
        }
        if (made_by_us(lease, row)) {
            over(core, lease, row->finished, effects);
            return;
        }
        ks_lease_lose(core, lease, KS_STORY_LOST, effects);
        if (ks_incarnation_equal(row->owner, core->fleet.self))
            core->protocol->take(core, row->shard, row->epoch);
        return;
    }
    still_ours(core, lease, row, effects);
}

void ks_lease_answered(struct ks_core *core, uint32_t index, uint32_t serial,
                       const struct ks_event *event, struct ks_effects *effects)
{
    struct ks_lease *lease = &core->leases[index];
    enum ks_lease_write write = lease->write;

    if (!lease->used || lease->serial != serial || write == KS_WRITE_NONE)
        return; /* Of a lease that is over. */
    lease->write = KS_WRITE_NONE;
    switch (write) {
    case KS_WRITE_NONE: return;
    case KS_WRITE_CHECKPOINT:
        checkpoint_answered(core, lease, event->store.outcome, effects);
        return;
    case KS_WRITE_REREAD: read_back(core, lease, event, effects); return;
    case KS_WRITE_FINAL:
    case KS_WRITE_END:
    case KS_WRITE_SEEK:
        if (event->store.outcome == KS_DONE) {
            if (write == KS_WRITE_SEEK)
                sought(core, lease, effects);
            else
                over(core, lease, write == KS_WRITE_END, effects);
            return;
        }
        if (event->store.outcome == KS_UNKNOWN)
            back_off(core, lease);
        lease->refused = event->store.outcome == KS_REFUSED;
        lease->reread = true;
        return;
    }
}

/* ---- What is due. ---- */

/* The traffic of a shard: what arrived since the last measure, evened out with what was before. */
#define MEASURE_AFTER ks_span_ms(1000)
enum {
    WORTH_TELLING = 16
}; /* The part of what may move a lease below which a load is told as none. */

static void measure(const struct ks_core *core, struct ks_lease *lease)
{
    ks_span span = ks_instant_since(core->now, lease->measured_at);
    uint64_t rate;

    if (span.us < MEASURE_AFTER.us)
        return;
    rate = lease->arrived * 1000 / (uint64_t)ks_span_to_ms(span);
    lease->load = span.us < core->config.load_patience.us ? (lease->load + rate) / 2 : rate;
    lease->arrived = 0;
    lease->measured_at = core->now;
}

static void ask(struct ks_core *core, struct ks_lease *lease, enum ks_lease_write write,
                enum ks_store_operation operation, struct ks_effects *effects)
{
    uint32_t index = (uint32_t)(lease - core->leases);
    struct ks_store_effect *store;

    assert(lease->write == KS_WRITE_NONE);
    if (write == KS_WRITE_CHECKPOINT || write == KS_WRITE_FINAL) {
        measure(core, lease);
        lease->told_load = lease->load < core->config.load_least / WORTH_TELLING ? 0 : lease->load;
    }
    lease->write = write;
    lease->serial = ks_core_serial(core);
    store = ks_effects_store(effects, operation, ks_token_make(KS_FOR_LEASE, index, lease->serial));
    store->worker = core->fleet.self;
    store->shard = lease->shard;
    store->epoch = lease->epoch;
    store->rev = lease->rev;
    if (write != KS_WRITE_REREAD) {
        uint64_t rev = core->protocol->next_rev(core, lease);

        lease->asked_at = core->now;
        lease->promised = core->protocol->serves_until(core, rev);
        lease->sure =
            rev == lease->tried ? ks_instant_min(lease->sure, lease->promised) : lease->promised;
        lease->tried = rev;
    }
    store->next_rev = lease->tried;
    store->next_owner = lease->next_owner;
    store->up_to = lease->tracker.mark;
    store->load = lease->told_load;
    store->consistent = true;
}

/* When what was settled is to be made durable; NEVER: nothing was. */
static ks_instant checkpoint_due(const struct ks_core *core, const struct ks_lease *lease)
{
    if (lease->tracker.mark > lease->persisted)
        return lease->hurry ? lease->retry_at : lease->checkpoint_at;
    if (lease->told_load == 0 || lease->tracker.mark == 0)
        return KS_NEVER;
    /* Nothing was settled since, and the row may speak of traffic: the leader would move it for that. */
    return ks_instant_max(lease->checkpoint_at,
                          ks_instant_add(lease->measured_at, core->config.load_patience));
}

/* What the lease wants to do next, and when. */
static enum ks_lease_write wanted(const struct ks_core *core, const struct ks_lease *lease,
                                  ks_instant *ret_at)
{
    ks_instant at;

    *ret_at = lease->retry_at;
    if (lease->write != KS_WRITE_NONE)
        return KS_WRITE_NONE;
    if (lease->seeking && lease->state == KS_LEASE_HELD)
        return lease->reread ? KS_WRITE_REREAD : KS_WRITE_SEEK;
    if (lease->state == KS_LEASE_ENDING || may_end(core, lease))
        return lease->reread ? KS_WRITE_REREAD : KS_WRITE_END;
    if (ready_to_return(core, lease))
        return lease->reread || !lease->checked ? KS_WRITE_REREAD : KS_WRITE_FINAL;
    if (lease->reread)
        return KS_WRITE_REREAD;
    at = ks_instant_min(checkpoint_due(core, lease), lease->renew_at);
    *ret_at = ks_instant_max(lease->retry_at, at);
    if (core->protocol->next_at != NULL)
        *ret_at = ks_instant_max(*ret_at, core->protocol->next_at(core, lease));
    return at.us == KS_NEVER.us ? KS_WRITE_NONE : KS_WRITE_CHECKPOINT;
}

static void lease_turn(struct ks_core *core, struct ks_lease *lease, struct ks_effects *effects)
{
    ks_instant at;
    enum ks_lease_write write = wanted(core, lease, &at);

    if (lease->unsaid) {
        lease->unsaid = false;
        ks_effects_story(effects, KS_STORY_RETURNING, lease->shard, KS_NOBODY)->story.epoch =
            lease->epoch;
    }
    if (write == KS_WRITE_NONE || !ks_instant_reached(core->now, at))
        return;
    switch (write) {
    case KS_WRITE_NONE: return;
    case KS_WRITE_CHECKPOINT:
        lease->writing = lease->tracker.mark;
        ask(core, lease, write, KS_STORE_CHECKPOINT, effects);
        return;
    case KS_WRITE_REREAD: ask(core, lease, write, KS_STORE_READ_LEASE, effects); return;
    case KS_WRITE_FINAL:
        lease->given_up = true;
        ask(core, lease, write, KS_STORE_FINAL, effects);
        return;
    case KS_WRITE_SEEK: ask(core, lease, write, KS_STORE_SEEK, effects); return;
    case KS_WRITE_END:
        lease->given_up = true;
        lease->state = KS_LEASE_ENDING;
        ask(core, lease, write, KS_STORE_END, effects);
        return;
    }
}

/* Nobody tells an owner that somebody changed its row by hand, and an idle lease writes nothing that could be refused:
 * one row after the other is looked at, one in the length of a lease. */
static void look_at_one(struct ks_core *core)
{
    if (core->leases_used > 0 && !ks_instant_reached(core->now, core->look_at))
        return;
    core->look_at = ks_instant_add(core->now, core->config.lease_duration);
    for (uint32_t i = 0; i < core->leases_top; i++) {
        struct ks_lease *lease;

        core->looked_lease = (core->looked_lease + 1) % core->leases_top;
        lease = &core->leases[core->looked_lease];
        if (!lease->used || lease->state != KS_LEASE_HELD)
            continue;
        lease->reread = true;
        return;
    }
}

void ks_lease_turn(struct ks_core *core, struct ks_effects *effects)
{
    if (core->fleet.step != KS_SELF_LIVE && core->fleet.step != KS_SELF_CHECKING)
        return;
    look_at_one(core);
    for (uint32_t i = 0; i < core->leases_top; i++) {
        if (!core->leases[i].used)
            continue;
        if (!ks_effects_room(core, effects, 2))
            return;
        lease_turn(core, &core->leases[i], effects);
    }
}

ks_instant ks_lease_deadline(const struct ks_core *core)
{
    ks_instant due = KS_NEVER;

    if (core->fleet.step != KS_SELF_LIVE && core->fleet.step != KS_SELF_CHECKING)
        return due;
    for (uint32_t i = 0; i < core->leases_top; i++) {
        ks_instant at;

        if (!core->leases[i].used)
            continue;
        if (wanted(core, &core->leases[i], &at) != KS_WRITE_NONE)
            due = ks_instant_min(due, at);
        if (core->leases[i].unsaid)
            due = core->now;
        if (core->leases[i].state == KS_LEASE_RETURNING &&
            !patience_over(core, &core->leases[i], core->now))
            due = ks_instant_min(due, core->leases[i].patience_at);
    }
    if (core->draining && core->leases_used > 0 &&
        !ks_instant_reached(core->now, core->patience_at))
        due = ks_instant_min(due, core->patience_at);
    return core->leases_used > 0 ? ks_instant_min(due, core->look_at) : due;
}
