/* SPDX-License-Identifier: Apache-2.0 */
#include "core/operator.h"

#include <assert.h>
#include <stddef.h>

#include "core/fleet/native.h"
#include "core/lease.h"
#include "core/poison.h"
#include "core/session.h"

/* A released lease is not taken again by us for so many lease durations: whoever takes it has begun it long before. */
enum { REST_LEASES = 3 };

/* ---- Rest ---- */

static bool resting(const struct ks_core *core)
{
    return ks_instant_before(core->now, core->rest_until);
}

uint32_t ks_operator_capacity(const struct ks_core *core)
{
    uint32_t most = core->config.capacity;

    /* None at all is said by the mode: a capacity of 0 has no limit. */
    if (resting(core) && core->rest_leases > 0 && (most == 0 || core->rest_leases < most))
        return core->rest_leases;
    return most;
}

bool ks_operator_rests(const struct ks_core *core)
{
    return (core->pause.on && !core->pause.keeps) || (resting(core) && core->rest_leases == 0);
}

bool ks_operator_lets_go(const struct ks_core *core, const struct ks_lease *lease)
{
    const struct ks_fleet *fleet = &core->fleet;

    if (!lease->released || core->draining || lease->next_owner.worker != 0 || !resting(core))
        return true;
    return fleet->told && fleet->told_mode == fleet->mode &&
           fleet->told_capacity == ks_operator_capacity(core);
}

static void rest(struct ks_core *core, ks_instant until)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < core->leases_top; i++)
        kept += core->leases[i].used && core->leases[i].state != KS_LEASE_RETURNING;
    core->rest_leases = kept;
    core->rest_until = resting(core) ? ks_instant_max(core->rest_until, until) : until;
}

/* ---- Release ---- */

static void release(struct ks_core *core, struct ks_lease *lease, ks_instant until)
{
    lease->released = true;
    ks_lease_return(core, lease);
    rest(core, ks_instant_max(
                   until, ks_instant_add(core->now, ks_span_us(REST_LEASES *
                                                               core->config.lease_duration.us))));
}

static struct ks_lease *held(const struct ks_core *core, ks_shard shard)
{
    if (shard >= core->directory_top || core->directory[shard].held == KS_HELD_NONE)
        return NULL;
    return &core->leases[core->directory[shard].held];
}

static void answer(struct ks_effects *effects, enum ks_operator_status status)
{
    ks_effects_add(effects, KS_EFFECT_OPERATED)->operated.status = status;
}

/* Whether a lease is ours to give away or to begin anew. */
static enum ks_operator_status check(const struct ks_lease *lease)
{
    if (lease == NULL)
        return KS_OPERATOR_NOT_HELD;
    return lease->state == KS_LEASE_HELD && !lease->given_up ? KS_OPERATOR_OK : KS_OPERATOR_BUSY;
}

void ks_operator_release(struct ks_core *core, ks_shard shard, struct ks_effects *effects)
{
    struct ks_lease *lease = held(core, shard);
    enum ks_operator_status status = check(lease);

    if (status == KS_OPERATOR_OK)
        release(core, lease, core->now);
    answer(effects, status);
}

/* ---- Pause ---- */

static void set_pause(struct ks_core *core, struct ks_pause *pause, const struct ks_pause *as)
{
    core->pauses += as->on;
    core->pauses -= pause->on;
    *pause = *as;
    if (as->on)
        core->pauses_due = ks_instant_min(core->pauses_due, as->until);
}

void ks_operator_inherit(struct ks_core *core, ks_shard shard)
{
    struct ks_pause pause = core->pause;

    pause.keeps = true; /* Of all: the leases go as those of an idle worker do. */
    set_pause(core, &core->directory[shard].pause, &pause);
}

bool ks_operator_remembers(const struct ks_core *core, ks_shard shard)
{
    const struct ks_pause *pause = &core->directory[shard].pause;

    if (!pause->on && !core->pause.on)
        return false;
    return pause->on != core->pause.on || !pause->keeps || pause->until.us != core->pause.until.us;
}

/* Records that are only assigned are not written while the shard is paused. */
static void unassign(struct ks_core *core, ks_shard shard)
{
    for (uint32_t i = 0; i < core->leases_top; i++)
        if (core->leases[i].used && (shard == KS_SHARD_NONE || core->leases[i].shard == shard))
            ks_session_unassign(core, &core->leases[i], UINT64_MAX);
}

static void say(struct ks_effects *effects, bool paused, ks_shard shard)
{
    enum ks_story one = paused ? KS_STORY_PAUSED : KS_STORY_RESUMED;
    enum ks_story all = paused ? KS_STORY_PAUSED_ALL : KS_STORY_RESUMED_ALL;

    ks_effects_story(effects, shard == KS_SHARD_NONE ? all : one, shard, KS_NOBODY);
}

void ks_operator_pause(struct ks_core *core, const struct ks_event *event,
                       struct ks_effects *effects)
{
    ks_shard shard = event->pause.shard;
    struct ks_pause pause = {.on = true, .keeps = event->pause.keeps, .until = event->pause.until};
    struct ks_pause *of = &core->pause;
    bool news;

    if (shard != KS_SHARD_NONE && !ks_native_know(core, shard))
        return;
    if (shard != KS_SHARD_NONE)
        of = &core->directory[shard].pause;
    news = !of->on;
    set_pause(core, of, &pause);
    for (ks_shard each = 0; shard == KS_SHARD_NONE && each < core->directory_top; each++)
        ks_operator_inherit(core, each);
    unassign(core, shard);
    if (news)
        say(effects, true, shard);
}

static void resume_one(struct ks_core *core, struct ks_pause *pause)
{
    if (pause->on && !pause->keeps)
        core->rest_until = core->now; /* It may come back. */
    set_pause(core, pause, &(struct ks_pause){.on = false});
    core->thirsty = true;
    core->stirred = true;
}

void ks_operator_resume(struct ks_core *core, ks_shard shard, struct ks_effects *effects)
{
    bool news = core->pauses > 0;

    if (shard != KS_SHARD_NONE) {
        if (shard >= core->directory_top || !core->directory[shard].pause.on)
            return;
        resume_one(core, &core->directory[shard].pause);
        say(effects, false, shard);
        return;
    }
    resume_one(core, &core->pause);
    for (ks_shard each = 0; each < core->directory_top; each++)
        resume_one(core, &core->directory[each].pause);
    assert(core->pauses == 0);
    core->rest_until = core->now;
    if (news)
        say(effects, false, shard);
}

/* ---- Seek ---- */

void ks_operator_seek(struct ks_core *core, const struct ks_event *event,
                      struct ks_effects *effects)
{
    struct ks_lease *lease = held(core, event->seek.shard);
    enum ks_operator_status status = check(lease);

    if (status == KS_OPERATOR_OK && core->config.protocol != KS_PROTOCOL_NATIVE)
        status = KS_OPERATOR_FOREIGN;
    if (status == KS_OPERATOR_OK && !event->seek.force &&
        !core->directory[event->seek.shard].pause.on)
        status = KS_OPERATOR_NOT_PAUSED;
    if (status == KS_OPERATOR_OK && !event->seek.dry_run) {
        lease->seeking = true;
        lease->given_up = true; /* Before it is sent (S5): no delivery and no ack in this epoch. */
    }
    answer(effects, status);
}

/* ---- Skip ---- */

void ks_operator_skip(struct ks_core *core, const struct ks_event *event,
                      struct ks_effects *effects)
{
    struct ks_lease *lease = held(core, event->skip.shard);
    enum ks_operator_status status = check(lease);

    if (status == KS_OPERATOR_OK && !ks_poison_blocks(lease, event->skip.number))
        status = KS_OPERATOR_NOT_BLOCKED;
    if (status == KS_OPERATOR_OK && !event->skip.dry_run)
        ks_poison_skip(core, lease, event->skip.number, event->skip.keep, effects);
    answer(effects, status);
}

/* ---- What is due ---- */

static void expire(struct ks_core *core, struct ks_effects *effects)
{
    ks_instant all = KS_NEVER;

    if (!ks_instant_reached(core->now, core->pauses_due))
        return;
    core->pauses_due = core->pause.on ? core->pause.until : KS_NEVER;
    if (core->pause.on && ks_instant_reached(core->now, core->pause.until)) {
        all = core->pause.until;
        core->pauses_due = KS_NEVER;
        resume_one(core, &core->pause);
        say(effects, false, KS_SHARD_NONE);
    }
    for (ks_shard shard = 0; shard < core->directory_top; shard++) {
        struct ks_pause *pause = &core->directory[shard].pause;

        if (!pause->on)
            continue;
        if (!ks_instant_reached(core->now, pause->until) || !ks_effects_room(core, effects, 1)) {
            core->pauses_due = ks_instant_min(core->pauses_due, pause->until);
            continue;
        }
        if (pause->until.us != all.us) /* Else it was said of all. */
            say(effects, false, shard);
        resume_one(core, pause);
    }
}

void ks_operator_turn(struct ks_core *core, struct ks_effects *effects)
{
    if (core->pauses == 0)
        return;
    expire(core, effects);
    for (uint32_t i = 0; i < core->leases_top; i++) {
        struct ks_lease *lease = &core->leases[i];
        const struct ks_pause *pause = &core->directory[lease->shard].pause;

        if (lease->used && pause->on && !pause->keeps && check(lease) == KS_OPERATOR_OK)
            release(core, lease, pause->until);
    }
}

ks_instant ks_operator_deadline(const struct ks_core *core)
{
    ks_instant due = core->pauses > 0 ? core->pauses_due : KS_NEVER;

    /* From then on the fleet may give us more. */
    return resting(core) ? ks_instant_min(due, core->rest_until) : due;
}
