/* SPDX-License-Identifier: Apache-2.0 */
#include "core/fleet/native.h"

#include <assert.h>
#include <stddef.h>

#include "core/operator.h"

void ks_native_begin(struct ks_core *core)
{
    struct ks_fleet *fleet = &core->fleet;

    assert(fleet->step == KS_SELF_UNBORN);
    fleet->self = (struct ks_incarnation){core->config.self, 0};
    fleet->mode = KS_IDLE;
    fleet->live_at = core->now;
    fleet->list_at = core->now;
    fleet->round_at = core->now;
    fleet->claim_at = core->now;
    fleet->rows_at = KS_LONG_AGO;
    fleet->rows_wanted_at = KS_NEVER;
    fleet->failed_at = KS_NEVER;
    fleet->try_at = KS_NEVER;
    fleet->uneven_at = KS_NEVER;
    fleet->vacant_at = KS_NEVER;
}

static void start(struct ks_core *core)
{
    struct ks_fleet *fleet = &core->fleet;

    ks_native_begin(core);
    fleet->step = KS_SELF_READING;
    fleet->deadline = KS_LONG_AGO;
    fleet->next_at = core->now;
    fleet->news_at = core->now;
    fleet->whole_at = KS_LONG_AGO;
}

struct ks_member *ks_native_member(const struct ks_core *core, uint32_t worker)
{
    uint32_t slots = core->config.workers_max;
    uint32_t at = worker % slots; /* Where it was put, if that was free. */

    for (uint32_t i = 0; i < slots; i++, at = at + 1 == slots ? 0 : at + 1)
        if (core->members[at].present && core->members[at].self.worker == worker)
            return &core->members[at];
    return NULL;
}

void ks_native_forget(struct ks_core *core, ks_shard shard)
{
    core->directory[shard] = (struct ks_directory_entry){
        .held = KS_HELD_NONE,
        .parents = {KS_SHARD_NONE, KS_SHARD_NONE},
        .odd_at = KS_NEVER,
        .missed_at = KS_NEVER,
        .children = KS_SHARD_NONE,
        .pause = core->directory[shard].pause, /* It is counted. */
    };
    ks_operator_inherit(core, shard);
}

bool ks_native_know(struct ks_core *core, ks_shard shard)
{
    if (shard >= core->config.shards_max)
        return false;
    while (core->directory_top <= shard)
        ks_native_forget(core, core->directory_top++);
    return true;
}

static void look(struct ks_core *core)
{
    struct ks_fleet *fleet = &core->fleet;

    if (fleet->step != KS_SELF_LIVE)
        return;
    fleet->news_at = core->now;
    ks_orders_look(core);
}

/* The fleet hears of it with the next beat. */
static void changed(struct ks_core *core)
{
    core->fleet.changes++;
}

static void answered(struct ks_core *core, const struct ks_event *event, struct ks_effects *effects)
{
    uint64_t token = event->store.token;
    uint32_t subject = ks_token_subject(token);
    uint32_t serial = ks_token_serial(token);

    switch (ks_token_purpose(token)) {
    case KS_FOR_SELF:
        if (core->fleet.serial == serial)
            ks_self_answered(core, event, effects);
        return;
    case KS_FOR_ORDER:
        if (core->fleet.orders[subject].used && core->fleet.orders[subject].serial == serial)
            ks_orders_answered(core, subject, event, effects);
        return;
    case KS_FOR_NEWS:
        if (core->fleet.news == serial)
            ks_office_news(core, event, effects);
        return;
    case KS_FOR_OFFICE: ks_office_answered(core, serial, event, effects); return;
    case KS_FOR_FENCE: ks_office_fenced(core, subject, serial, event, effects); return;
    case KS_FOR_ROWS: ks_shards_rows(core, serial, event, effects); return;
    case KS_FOR_SHARD: ks_leader_written(core, subject, serial, event, effects); return;
    case KS_FOR_HINTS: ks_hints_answered(core, subject, serial, event->store.outcome); return;
    case KS_FOR_LEASE: assert(false); return;
    }
}

static void turn(struct ks_core *core, struct ks_effects *effects)
{
    ks_self_turn(core, effects);
    if (core->fleet.step != KS_SELF_LIVE)
        return;
    ks_orders_turn(core, effects);
    ks_office_turn(core, effects);
    if (core->fleet.leads)
        ks_leader_turn(core, effects);
}

static ks_instant deadline(const struct ks_core *core)
{
    ks_instant due = ks_self_deadline(core);

    if (core->fleet.step != KS_SELF_LIVE)
        return due;
    due = ks_instant_min(due, ks_orders_deadline(core));
    due = ks_instant_min(due, ks_office_deadline(core));
    return core->fleet.leads ? ks_instant_min(due, ks_leader_deadline(core)) : due;
}

/* ---- Of leases: epochs and revs stand in the rows, and the deadline is our worker row's. ---- */

static void read_row(const struct ks_core *core, struct ks_lease_row *row)
{
    (void)core;
    (void)row;
}

static void take(struct ks_core *core, ks_shard shard, ks_epoch epoch)
{
    ks_orders_take(core, shard, epoch, false);
}

static uint64_t next_rev(const struct ks_core *core, const struct ks_lease *lease)
{
    (void)core;
    return lease->rev + 1;
}

static ks_instant serves_until(const struct ks_core *core, uint64_t rev)
{
    (void)core;
    (void)rev;
    return KS_NEVER;
}

static ks_instant renew_at(const struct ks_core *core, ks_instant asked_at)
{
    (void)core;
    (void)asked_at;
    return KS_NEVER;
}

const struct ks_fleet_protocol ks_native_protocol = {
    .start = start,
    .answered = answered,
    .listed = ks_shards_listed,
    .look = look,
    .locked = ks_self_locked,
    .turn = turn,
    .deadline = deadline,
    .changed = changed,
    .read = read_row,
    .see = ks_shards_see,
    .take = take,
    .next_rev = next_rev,
    .serves_until = serves_until,
    .renew_at = renew_at,
};
