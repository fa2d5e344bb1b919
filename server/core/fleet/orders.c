/* SPDX-License-Identifier: Apache-2.0 */
/* What the leader tells us in our own row: give S@e, take S@e (docs/PROTOCOL.md A6, S4). A token is removed from the
 * row only when the epoch it names is over, or is ours. */
#include <assert.h>
#include <stddef.h>

#include "core/fleet/native.h"
#include "core/lease.h"

#define POLL ks_span_ms(500)

static bool listed(const struct ks_token_list *list, struct ks_lease_token token)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (list->items[i].shard == token.shard && list->items[i].epoch == token.epoch)
            return true;
    return false;
}

/* ---- Orders begin. ---- */

static struct ks_order *find(struct ks_fleet *fleet, bool give, ks_shard shard, ks_epoch epoch)
{
    for (uint32_t i = 0; i < fleet->orders_top; i++) {
        struct ks_order *order = &fleet->orders[i];

        if (order->used && order->give == give && order->shard == shard && order->epoch == epoch)
            return order;
    }
    return NULL;
}

/* NULL if there is no room: the token stays in our row, and is seen again with the next heartbeat. */
static struct ks_order *begin(struct ks_core *core, bool give, ks_shard shard, ks_epoch epoch,
                              bool told)
{
    struct ks_fleet *fleet = &core->fleet;
    struct ks_order *order = find(fleet, give, shard, epoch);

    if (order != NULL) {
        order->told |= told;
        return order;
    }
    for (uint32_t i = 0; i < KS_ORDERS_MAX; i++) {
        if (fleet->orders[i].used)
            continue;
        fleet->orders[i] = (struct ks_order){
            .used = true,
            .give = give,
            .told = told,
            .shard = shard,
            .epoch = epoch,
            .poll_at = core->now,
            .until = ks_instant_add(core->now, ks_span_us(2 * core->config.hand_over.us)),
        };
        if (fleet->orders_top <= i)
            fleet->orders_top = i + 1;
        return &fleet->orders[i];
    }
    return NULL;
}

void ks_orders_take(struct ks_core *core, ks_shard shard, ks_epoch epoch, bool told)
{
    uint32_t held;

    if (!ks_native_know(core, shard))
        return;
    held = core->directory[shard].held;
    /* We have it, by all that we know: the row may be one that was made again. */
    if (held != KS_HELD_NONE && core->leases[held].epoch >= epoch &&
        find(&core->fleet, false, shard, epoch) == NULL)
        core->leases[held].reread = true;
    (void)begin(core, false, shard, epoch, told);
}

void ks_orders_give(struct ks_core *core, ks_shard shard, ks_epoch epoch, bool told)
{
    uint32_t held;

    if (!ks_native_know(core, shard))
        return;
    /* Room or no room: from now on nothing of this epoch, or of one before it, is delivered. */
    if (core->directory[shard].given < epoch)
        core->directory[shard].given = epoch;
    held = core->directory[shard].held;
    if (held != KS_HELD_NONE && core->leases[held].epoch <= epoch)
        ks_lease_give(core, &core->leases[held]);
    (void)begin(core, true, shard, epoch, told);
}

void ks_orders_news(struct ks_core *core, const struct ks_worker_row *row)
{
    const struct ks_fleet *fleet = &core->fleet;

    if (row->damaged || row->self.boot != fleet->self.boot || fleet->step != KS_SELF_LIVE)
        return;
    for (uint32_t i = 0; i < row->give_count; i++)
        if (!listed(&fleet->done_gives, row->gives[i]))
            ks_orders_give(core, row->gives[i].shard, row->gives[i].epoch, true);
    for (uint32_t i = 0; i < row->take_count; i++)
        if (!listed(&fleet->done_takes, row->takes[i]))
            ks_orders_take(core, row->takes[i].shard, row->takes[i].epoch, true);
}

/* ---- Orders end. ---- */

static void done(struct ks_fleet *fleet, struct ks_order *order)
{
    struct ks_token_list *list = order->give ? &fleet->done_gives : &fleet->done_takes;
    struct ks_lease_token token = {order->shard, order->epoch};

    order->used = false;
    while (fleet->orders_top > 0 && !fleet->orders[fleet->orders_top - 1].used)
        fleet->orders_top--;
    /* If there is no room the token stays in our row and is done again later. */
    if (order->told && list->count < KS_ORDERS_MAX && !listed(list, token))
        list->items[list->count++] = token;
}

static void drop(struct ks_token_list *list, const struct ks_token_list *sent)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < list->count; i++)
        if (!listed(sent, list->items[i]))
            list->items[kept++] = list->items[i];
    list->count = kept;
}

static struct ks_token_list first_of(const struct ks_token_list *list, uint32_t most)
{
    struct ks_token_list some = *list;

    if (some.count > most)
        some.count = most;
    return some;
}

void ks_orders_beat(struct ks_core *core, struct ks_store_effect *heartbeat)
{
    struct ks_fleet *fleet = &core->fleet;

    /* One write carries so many; the others go with the next beat. */
    fleet->sent_gives = first_of(&fleet->done_gives, KS_TOKENS_MAX);
    fleet->sent_takes = first_of(&fleet->done_takes, KS_TOKENS_MAX - fleet->sent_gives.count);
    heartbeat->gives = fleet->sent_gives.items;
    heartbeat->give_count = fleet->sent_gives.count;
    heartbeat->takes = fleet->sent_takes.items;
    heartbeat->take_count = fleet->sent_takes.count;
}

/* A take that was given up may have been told again before its token was removed, and nobody would tell it once more:
 * one look at the row, which was written before it was told. */
static void look_once_more(struct ks_core *core, struct ks_lease_token token)
{
    const struct ks_directory_entry *entry = &core->directory[token.shard];
    struct ks_order *order;

    if (entry->held != KS_HELD_NONE || entry->ended >= token.epoch)
        return;
    order = begin(core, false, token.shard, token.epoch, false);
    if (order != NULL)
        order->until = core->now;
}

void ks_orders_beaten(struct ks_core *core)
{
    struct ks_fleet *fleet = &core->fleet;

    drop(&fleet->done_gives, &fleet->sent_gives);
    drop(&fleet->done_takes, &fleet->sent_takes);
    for (uint32_t i = 0; i < fleet->sent_takes.count; i++)
        look_once_more(core, fleet->sent_takes.items[i]);
}

void ks_orders_forget(struct ks_core *core)
{
    for (uint32_t i = 0; i < KS_ORDERS_MAX; i++)
        core->fleet.orders[i].used = false;
    core->fleet.orders_top = 0;
    core->fleet.done_gives.count = 0;
    core->fleet.done_takes.count = 0;
}

bool ks_orders_pending(const struct ks_core *core)
{
    for (uint32_t i = 0; i < core->fleet.orders_top; i++)
        if (core->fleet.orders[i].used && !core->fleet.orders[i].give)
            return true;
    return false;
}

/* ---- Answers. ---- */

/* A consistent read is what a begin needs, and an epoch that we did not end: an answer that a pause delayed is as stale
 * as any replica. Only what was asked for after that end is not: then the row was deleted and made again. Its epoch is
 * taken and given back at once, until it is beyond those that we ended (A6). */
static bool may_begin(const struct ks_core *core, uint32_t read, const struct ks_lease_row *row)
{
    const struct ks_directory_entry *entry = &core->directory[row->shard];

    return core->fleet.step == KS_SELF_LIVE && entry->held == KS_HELD_NONE && !row->damaged &&
           !row->finished && ks_incarnation_equal(row->owner, core->fleet.self) &&
           (row->epoch > entry->ended || ks_core_after(read, entry->ended_known)) &&
           core->leases_used < core->config.leases_max;
}

/* The epoch of the order is over at the table. */
static void moved_on(struct ks_core *core, const struct ks_order *order)
{
    struct ks_directory_entry *entry = &core->directory[order->shard];

    if (entry->held == KS_HELD_NONE || core->leases[entry->held].epoch > order->epoch)
        ks_lease_ended(core, order->shard, order->epoch);
}

/* True unless the row surely is not ours in the epoch that is to be given: only then may the notice go (S4). */
static bool may_be_ours(const struct ks_core *core, const struct ks_event *event,
                        const struct ks_order *order)
{
    const struct ks_lease_row *row = event->store.leases;

    if (event->store.lease_count == 0)
        return false;
    return row->damaged ||
           (row->epoch <= order->epoch && ks_incarnation_equal(row->owner, core->fleet.self));
}

void ks_orders_answered(struct ks_core *core, uint32_t index, const struct ks_event *event,
                        struct ks_effects *effects)
{
    struct ks_order *order = &core->fleet.orders[index];
    const struct ks_lease_row *row = event->store.leases;
    struct ks_directory_entry *entry = &core->directory[order->shard];

    order->poll_at = ks_instant_add(core->now, POLL);
    if (event->store.outcome == KS_DONE)
        order->seen = order->serial;
    order->serial = 0;
    if (event->store.outcome != KS_DONE)
        return;
    order->shown = 0;
    if (event->store.lease_count > 0 && row->shard == order->shard) {
        order->shown = row->epoch;
        ks_shards_see(core, order->seen, row);
        if (!row->damaged && entry->held != KS_HELD_NONE &&
            core->leases[entry->held].epoch != row->epoch)
            core->leases[entry->held].reread =
                true; /* Ours is over, but that is for it to find out. */
        if (may_begin(core, order->seen, row))
            ks_lease_begin(core, row, effects); /* Returns it at once if it was to be given. */
        if (!row->damaged && row->epoch > order->epoch)
            moved_on(core, order);
    }
    if (ks_instant_reached(core->now, order->until) &&
        (!order->give || (entry->held == KS_HELD_NONE && !may_be_ours(core, event, order))))
        done(&core->fleet, order);
}

/* ---- What is due. ---- */

/* True if nothing is left of the order: a take when the shard is ours, both when the epoch is over. What is to be taken
 * may be a row that was made again, and is looked at until it has come to the epoch. */
static bool obeyed(const struct ks_core *core, const struct ks_order *order)
{
    const struct ks_directory_entry *entry = &core->directory[order->shard];

    if (entry->ended >= order->epoch &&
        (order->give ||
         (order->shown >= order->epoch && ks_core_after(order->seen, entry->ended_known))))
        return true;
    if (entry->held == KS_HELD_NONE)
        return false;
    if (order->give)
        return core->leases[entry->held].epoch > order->epoch;
    return core->leases[entry->held].epoch >= order->epoch;
}

/* A give of what we hold waits for the lease; everything else asks the table. */
static bool polls(const struct ks_core *core, const struct ks_order *order)
{
    return order->used && order->serial == 0 &&
           (!order->give || core->directory[order->shard].held == KS_HELD_NONE);
}

void ks_orders_turn(struct ks_core *core, struct ks_effects *effects)
{
    for (uint32_t i = 0; i < core->fleet.orders_top; i++) {
        struct ks_order *order = &core->fleet.orders[i];
        struct ks_store_effect *store;

        if (order->used && obeyed(core, order))
            done(&core->fleet, order);
        if (!polls(core, order) || !ks_instant_reached(core->now, order->poll_at))
            continue;
        if (!ks_effects_room(core, effects, 1))
            return;
        order->serial = ks_core_serial(core);
        store = ks_effects_store(effects, KS_STORE_READ_LEASE,
                                 ks_token_make(KS_FOR_ORDER, i, order->serial));
        store->shard = order->shard;
        store->consistent = true;
    }
}

void ks_orders_look(struct ks_core *core)
{
    for (uint32_t i = 0; i < core->fleet.orders_top; i++)
        core->fleet.orders[i].poll_at = core->now;
}

ks_instant ks_orders_deadline(const struct ks_core *core)
{
    ks_instant due = KS_NEVER;

    for (uint32_t i = 0; i < core->fleet.orders_top; i++)
        if (polls(core, &core->fleet.orders[i]))
            due = ks_instant_min(due, core->fleet.orders[i].poll_at);
    return due;
}
