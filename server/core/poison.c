/* SPDX-License-Identifier: Apache-2.0 */
#include "core/poison.h"

#include <assert.h>

#include "core/lanes.h"
#include "core/lease.h"
#include "core/session.h"

/* The delivery at which a record that keeps failing is told. */
enum { POISON_ATTEMPT = 5 };
/* A write of dead letters that was not done is tried again after this, doubled each time. */
#define FIRST_RETRY ks_span_ms(200)
enum { RETRY_DOUBLINGS = 4 }; /* 0.2 s .. 3.2 s */

/* ---- Failing. ---- */

static ks_instant stale_at(const struct ks_lease *lease, const struct ks_slot *slot)
{
    if (slot->stale_s == UINT32_MAX)
        return KS_NEVER;
    return ks_instant_add(lease->since, ks_span_ms((int64_t)slot->stale_s * 1000));
}

static bool is_exhausted(const struct ks_core *core, const struct ks_lease *lease,
                         const struct ks_slot *slot, enum ks_cause *ret_cause)
{
    const struct ks_poison_policy *policy = &core->config.poison;

    *ret_cause = KS_CAUSE_ATTEMPTS;
    if (policy->max_attempts != 0 && slot->failures >= policy->max_attempts)
        return true;
    *ret_cause = KS_CAUSE_AGE;
    return ks_instant_reached(core->now, stale_at(lease, slot));
}

ks_span ks_poison_back_off(struct ks_core *core, uint32_t failures)
{
    const struct ks_poison_policy *policy = &core->config.poison;
    ks_span span;

    assert(failures > 0);
    if (policy->back_offs == 0)
        return ks_span_us(0);
    span = policy->back_off[(failures < policy->back_offs ? failures : policy->back_offs) - 1];
    return ks_span_us(span.us + (int64_t)ks_prng_below(&core->prng, (uint64_t)span.us / 4 + 1));
}

static void kill(struct ks_core *core, struct ks_lease *lease, ks_number number,
                 enum ks_cause cause)
{
    ks_session_credit(core, lease, number, ks_tracker_kill(&lease->tracker, number, cause));
    core->burials_due = ks_instant_min(core->burials_due, core->now);
}

static void exhaust(struct ks_core *core, struct ks_lease *lease, ks_number number,
                    enum ks_cause cause)
{
    switch (core->config.poison.exhausted) {
    case KS_EXHAUSTED_DEAD_LETTER:
    case KS_EXHAUSTED_DROP: kill(core, lease, number, cause); return;
    case KS_EXHAUSTED_PAUSE: core->stopped = true; break;
    case KS_EXHAUSTED_STOP_SHARD: break;
    }
    if (lease->stopped)
        return;
    lease->stop_untold = true;
    lease->stopped = true;
    lease->stopped_at = number;
    core->burials_due = ks_instant_min(core->burials_due, core->now);
}

void ks_poison_failed(struct ks_core *core, struct ks_lease *lease, ks_number number, ks_span delay)
{
    struct ks_slot *slot = ks_tracker_slot(&lease->tracker, number);
    enum ks_cause cause;

    assert(!ks_slot_is_out(slot));
    assert(slot->attempts > 0);
    if (slot->state != KS_SLOT_PENDING)
        return;
    if (!slot->failed)
        ks_lanes_count(core, lease, number, KS_COUNT_FAILED);
    if (!slot->failed && slot->failures < UINT8_MAX)
        slot->failures++;
    slot->failed = true;
    if (is_exhausted(core, lease, slot, &cause))
        exhaust(core, lease, number, cause);
    if (delay.us < 0)
        delay = ks_poison_back_off(core, slot->failures);
    if (delay.us > 0)
        ks_tracker_delay(&lease->tracker, number, ks_instant_add(core->now, delay));
}

void ks_poison_bury(struct ks_core *core, struct ks_lease *lease, ks_number number)
{
    ks_lanes_count(core, lease, number, KS_COUNT_FAILED);
    kill(core, lease, number, KS_CAUSE_ASKED);
}

static struct ks_effect *tell(struct ks_effects *effects, enum ks_story story,
                              const struct ks_lease *lease, ks_number number, uint32_t count)
{
    struct ks_effect *effect = ks_effects_story(effects, story, lease->shard, KS_NOBODY);

    effect->story.number = number;
    effect->story.count = count;
    effect->story.epoch = lease->epoch;
    return effect;
}

void ks_poison_delivered(const struct ks_lease *lease, const struct ks_tracker_run *run,
                         struct ks_effects *effects)
{
    if (run->attempt < POISON_ATTEMPT)
        return;
    for (ks_number n = run->first; n < run->first + run->count; n++) {
        if (ks_tracker_slot(&lease->tracker, n)->failures != POISON_ATTEMPT - 1)
            continue;
        (void)tell(effects, KS_STORY_POISON, lease, n, POISON_ATTEMPT - 1);
        return; /* One of a run says it. */
    }
}

/* ---- Skipped by an operator. ---- */

bool ks_poison_blocks(const struct ks_lease *lease, ks_number number)
{
    const struct ks_tracker *tracker = &lease->tracker;
    const struct ks_slot *slot;

    if (number < tracker->mark || number >= tracker->fetched)
        return false;
    slot = ks_tracker_slot(tracker, number);
    if (slot->state != KS_SLOT_PENDING && !ks_slot_is_out(slot))
        return false;
    return slot->failures > 0 || (number == lease->large && ks_poison_holds_large(lease)) ||
           (number == tracker->mark && lease->gap_full);
}

bool ks_poison_blocker(const struct ks_lease *lease, ks_number *ret_number)
{
    *ret_number = lease->stopped_at;
    if (lease->stopped && ks_poison_blocks(lease, lease->stopped_at))
        return true;
    for (*ret_number = lease->tracker.mark; *ret_number < lease->tracker.delivered; ++*ret_number)
        if (ks_poison_blocks(lease, *ret_number))
            return true;
    *ret_number = lease->large;
    return ks_poison_holds_large(lease);
}

void ks_poison_skip(struct ks_core *core, struct ks_lease *lease, ks_number number, bool keep,
                    struct ks_effects *effects)
{
    ks_number mark = lease->tracker.mark;

    if (lease->stopped && number == lease->stopped_at)
        core->stopped = false; /* What on_exhausted=pause stopped goes on with it. */
    if (keep) {
        ks_poison_bury(core, lease, number);
    } else {
        (void)tell(effects, KS_STORY_SKIPPED, lease, number, 1);
        ks_lanes_count(core, lease, number, KS_COUNT_FAILED);
        ks_session_credit(core, lease, number, ks_tracker_settle(&lease->tracker, number));
        ks_session_moved(core, lease, mark, effects);
    }
    core->stirred = true; /* The lane goes on. */
    ks_session_mind(core, lease);
}

/* ---- Larger than the client takes. ---- */

bool ks_poison_is_due(const struct ks_core *core, const struct ks_lease *lease, ks_number number)
{
    if (number == KS_NUMBER_NONE)
        return false;
    return lease->large == KS_NUMBER_NONE || number > lease->large ||
           ks_instant_reached(core->now, stale_at(lease, ks_tracker_slot(&lease->tracker, number)));
}

bool ks_poison_holds_large(const struct ks_lease *lease)
{
    return lease->large != KS_NUMBER_NONE &&
           !ks_tracker_is_settled(&lease->tracker, lease->large) &&
           ks_tracker_slot(&lease->tracker, lease->large)->state == KS_SLOT_PENDING;
}

void ks_poison_too_large(struct ks_core *core, struct ks_lease *lease, ks_number number,
                         struct ks_effects *effects)
{
    ks_instant stale = stale_at(lease, ks_tracker_slot(&lease->tracker, number));

    if (!ks_poison_is_due(core, lease, number))
        return;
    if (ks_instant_reached(core->now, stale)) {
        exhaust(core, lease, number, KS_CAUSE_AGE);
        return;
    }
    lease->large = number;
    (void)tell(effects, KS_STORY_TOO_LARGE, lease, number,
               ks_tracker_slot(&lease->tracker, number)->bytes);
    lease->tracker.ready_bound = ks_instant_min(lease->tracker.ready_bound, stale);
    ks_session_mind(core, lease);
}

/* ---- Dead letters. ---- */

static bool is_dropped(const struct ks_core *core, enum ks_cause cause)
{
    return cause != KS_CAUSE_ASKED && core->config.poison.exhausted == KS_EXHAUSTED_DROP;
}

static enum ks_cause cause_of(const struct ks_lease *lease, ks_number number)
{
    return (enum ks_cause)ks_tracker_slot(&lease->tracker, number)->cause;
}

/* What is gone holds the watermark no more. A late ack may have been first. */
static void settle_run(struct ks_core *core, struct ks_lease *lease,
                       const struct ks_tracker_run *run, enum ks_story story,
                       struct ks_effects *effects)
{
    ks_number mark = lease->tracker.mark;
    struct ks_effect *effect = tell(effects, story, lease, run->first, run->count);

    effect->story.cause = cause_of(lease, run->first);
    for (ks_number n = run->first; n < run->first + run->count; n++)
        if (!ks_tracker_is_settled(&lease->tracker, n))
            (void)ks_tracker_settle(&lease->tracker, n);
    ks_session_moved(core, lease, mark, effects);
}

static void write_run(struct ks_core *core, struct ks_lease *lease,
                      const struct ks_tracker_run *run, struct ks_effects *effects)
{
    struct ks_effect *effect = ks_effects_add(effects, KS_EFFECT_BURY);

    core->burials++;
    lease->burying = *run;
    lease->bury_serial = ks_core_serial(core);
    effect->bury.shard = lease->shard;
    effect->bury.epoch = lease->epoch;
    effect->bury.first = run->first;
    effect->bury.count = run->count;
    effect->bury.attempts = run->attempt;
    effect->bury.cause = cause_of(lease, run->first);
    effect->bury.serial = lease->bury_serial;
}

void ks_poison_forget_lease(struct ks_core *core, struct ks_lease *lease)
{
    if (lease->bury_serial == 0)
        return;
    assert(core->burials > 0);
    core->burials--;
    lease->bury_serial = 0;
    core->burials_due = core->now;
}

void ks_poison_buried(struct ks_core *core, const struct ks_event *event,
                      struct ks_effects *effects)
{
    struct ks_lease *lease = ks_lease_of(core, event->buried.shard, event->buried.epoch);
    struct ks_tracker_run run;

    if (lease == NULL || lease->bury_serial != event->buried.serial)
        return;
    run = lease->burying;
    ks_poison_forget_lease(core, lease);
    if (event->buried.outcome == KS_DONE) {
        lease->bury_failures = 0;
        /* After a final write the watermark does not move: they come again, and their letters are the same. */
        if (!lease->given_up)
            settle_run(core, lease, &run, KS_STORY_DEAD_LETTER, effects);
    } else {
        uint32_t doublings =
            lease->bury_failures < RETRY_DOUBLINGS ? lease->bury_failures : RETRY_DOUBLINGS;

        if (lease->bury_failures++ == 0)
            (void)tell(effects, KS_STORY_NOT_BURIED, lease, run.first, run.count);
        lease->bury_at = ks_instant_add(core->now, ks_span_us(FIRST_RETRY.us << doublings));
        ks_tracker_exhume(&lease->tracker, &run);
    }
    core->burials_due = core->now;
}

/* Records that are only assigned are not written any more. */
static void unassign(struct ks_core *core, struct ks_lease *stopped)
{
    for (uint32_t i = 0; i < core->leases_top; i++)
        if (core->leases[i].used && (core->stopped || &core->leases[i] == stopped))
            ks_session_unassign(core, &core->leases[i], UINT64_MAX);
}

static void stop(struct ks_core *core, struct ks_lease *lease, struct ks_effects *effects)
{
    const struct ks_slot *slot = ks_tracker_slot(&lease->tracker, lease->stopped_at);

    lease->stop_untold = false;
    unassign(core, lease);
    (void)tell(effects, KS_STORY_STOPPED, lease, lease->stopped_at, slot->failures);
}

/* When it is to be looked at again. */
static ks_instant lease_turn(struct ks_core *core, struct ks_lease *lease,
                             struct ks_effects *effects)
{
    struct ks_tracker_run run;

    if (lease->stop_untold)
        stop(core, lease, effects);
    if (lease->tracker.dying == 0 || lease->bury_serial != 0 || lease->given_up)
        return KS_NEVER;
    if (core->burials == KS_BURIALS_MAX)
        return KS_NEVER; /* An answer calls again. */
    if (!ks_instant_reached(core->now, lease->bury_at))
        return lease->bury_at;
    if (!ks_tracker_bury(&lease->tracker, KS_BURY_MAX, &run))
        return KS_NEVER;
    if (is_dropped(core, cause_of(lease, run.first))) {
        settle_run(core, lease, &run, KS_STORY_DROPPED, effects);
        return core->now; /* There may be more. */
    }
    write_run(core, lease, &run, effects);
    return KS_NEVER;
}

void ks_poison_turn(struct ks_core *core, struct ks_effects *effects)
{
    if (!ks_instant_reached(core->now, core->burials_due))
        return;
    core->burials_due = KS_NEVER;
    for (uint32_t i = 0; i < core->leases_top; i++) {
        if (!core->leases[i].used)
            continue;
        if (!ks_effects_room(core, effects, 3)) {
            core->burials_due = core->now;
            return;
        }
        core->burials_due =
            ks_instant_min(core->burials_due, lease_turn(core, &core->leases[i], effects));
    }
}

void ks_poison_let_go(struct ks_core *core, struct ks_lease *lease, struct ks_effects *effects)
{
    if (lease->stopped && !lease->stop_untold && !core->stopped &&
        ks_effects_room(core, effects, 1))
        (void)tell(effects, KS_STORY_GOES_ON, lease, lease->stopped_at, 0);
    core->stirred |= lease->stopped;
    lease->stopped = false;
    lease->stop_untold = false;
}

void ks_poison_go_on(struct ks_core *core, ks_shard shard, struct ks_effects *effects)
{
    if (shard == KS_SHARD_NONE)
        core->stopped = false;
    for (uint32_t i = 0; i < core->leases_top; i++) {
        struct ks_lease *lease = &core->leases[i];

        if (!lease->used || (shard != KS_SHARD_NONE && lease->shard != shard))
            continue;
        ks_poison_let_go(core, lease, effects);
    }
    core->stirred = true; /* What waits for core->stopped, too. */
}
