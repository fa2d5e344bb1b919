/* SPDX-License-Identifier: Apache-2.0 */
/* The table: the conditions and updates of adapters/dialects/go_kcl.c. */
#include "shared_member.h"
#include "shared_world.h"

#include <string.h>

#define NS_PER_SECOND UINT64_C(1000000000)

static void tell_row(const struct shared_world *world, struct shared_request *request,
                     ks_shard shard)
{
    const struct shared_row *row = &world->rows[shard];
    struct ks_lease_row *told = &request->rows[request->row_count];

    if (!row->present)
        return;
    *told = (struct ks_lease_row){
        .shard = shard,
        .owner = {row->owner, 0},
        .next_owner = {row->claim, 0},
        .rev = row->timeout,
        .parents = {world->shards[shard].parents[0], KS_SHARD_NONE},
        .finished = row->checkpoint == SHARED_END,
    };
    request->checkpoints[request->row_count++] = row->checkpoint;
}

bool shared_is_settled(const struct shared_world *world, ks_shard shard, uint64_t checkpoint)
{
    for (uint64_t i = 0; i < checkpoint && i < SHARED_RECORDS; i++)
        if (!shared_is_over(world, shard, (uint32_t)i))
            return false;
    return true;
}

void shared_check_written(struct shared_world *world, const struct shared_request *request,
                          const struct shared_row *before)
{
    const ks_shard shard = request->ask.shard;
    const struct shared_row *after = &world->rows[shard];
    uint64_t place =
        after->checkpoint == SHARED_END ? world->shards[shard].count : after->checkpoint;

    if (after->timeout % NS_PER_SECOND != 0 && after->timeout != before->timeout)
        shared_fail(world, "shard-%u: a time of ours is not in whole seconds", shard);
    if (after->owner != 0 && after->timeout == 0)
        shared_fail(world, "shard-%u: an owner without a time", shard);
    if (after->owner == request->ask.worker.worker && after->timeout <= before->timeout &&
        before->present && request->ask.operation != KS_STORE_PLAN)
        shared_fail(world, "shard-%u: our time did not move on", shard);
    if (after->checkpoint != SHARED_NONE && after->checkpoint != before->checkpoint &&
        !shared_is_settled(world, shard, place))
        shared_fail(world, "shard-%u: a checkpoint passed an unsettled record", shard);
    if (after->checkpoint == SHARED_END && before->checkpoint != SHARED_END &&
        !world->shards[shard].closed)
        shared_fail(world, "shard-%u: SHARD_END of an open shard", shard);
}

void shared_changed(struct shared_world *world, ks_shard shard, const struct shared_row *before)
{
    const struct shared_row *after = &world->rows[shard];

    world->hash = (world->hash ^ (after->owner + after->timeout + after->checkpoint)) *
                  UINT64_C(0x100000001b3);
    world->shards[shard].ended |= after->checkpoint == SHARED_END;
    if (world->zombies)
        return;
    if (before->checkpoint != SHARED_NONE &&
        (after->checkpoint == SHARED_NONE || after->checkpoint < before->checkpoint))
        shared_fail(world, "shard-%u: a checkpoint went back", shard);
    if (after->owner == before->owner || world->jumps > 0)
        return;
    for (uint32_t node = 0; node < SHARED_NODES; node++)
        if (world->nodes[node].core != NULL && shared_may_deliver(world, node, shard))
            shared_fail(world,
                        "shard-%u changed hands from w%u to w%u while node %u may deliver it",
                        shard, before->owner, after->owner, node);
}

static bool holds(const struct shared_row *row, const struct ks_store_effect *ask, uint32_t owner)
{
    return row->owner == owner && row->timeout == ask->rev;
}

static bool perform(struct shared_world *world, struct shared_request *request)
{
    const struct ks_store_effect *ask = &request->ask;
    struct shared_row *row = &world->rows[ask->shard];
    const uint32_t me = ask->worker.worker;
    const bool owned = ask->operation == KS_STORE_TAKE_OVER;

    switch ((int)ask->operation) {
    case KS_STORE_ASSIGN:
    case KS_STORE_TAKE_OVER:
        if (row->claim != 0 && row->claim != me && holds(row, ask, owned ? ask->owner.worker : 0) &&
            row->claim == ask->next_owner.worker &&
            shared_wall(world, 0) < row->timeout + 119 * NS_PER_SECOND)
            shared_fail(world, "shard-%u was left to w%u, and w%u takes it", ask->shard, row->claim,
                        me);
        if (!holds(row, ask, owned ? ask->owner.worker : 0) || row->claim != ask->next_owner.worker)
            return false;
        if (!row->present)
            *row = (struct shared_row){.present = true, .checkpoint = SHARED_NONE};
        row->owner = me;
        row->timeout = ask->next_rev;
        row->claim = 0;
        world->taken++;
        return true;
    case KS_STORE_PLAN:
        if (ask->next_owner.worker == 0 ? row->claim != me
                                        : row->claim != 0 || !holds(row, ask, ask->owner.worker))
            return false;
        row->claim = ask->next_owner.worker;
        world->claimed++;
        return true;
    case KS_STORE_CHECKPOINT:
        if (!holds(row, ask, me) || row->claim != ask->next_owner.worker)
            return false;
        row->timeout = ask->next_rev;
        break;
    case KS_STORE_FINAL:
        if (!holds(row, ask, me))
            return false;
        row->owner = 0;
        break;
    case KS_STORE_END:
        if (!holds(row, ask, me))
            return false;
        row->owner = 0;
        row->checkpoint = SHARED_END;
        return true;
    case KS_STORE_DELETE:
        if (row->checkpoint != SHARED_END)
            return false;
        row->present = false;
        return true;
    default: shared_fail(world, "operation %d is not of this table", (int)ask->operation);
    }
    if (request->has_checkpoint)
        row->checkpoint = request->checkpoint;
    return true;
}

static void apply(struct shared_world *world, struct shared_request *request)
{
    struct shared_row before;

    request->row_count = 0;
    request->outcome = KS_DONE;
    if (request->ask.operation == KS_STORE_READ_LEASES) {
        for (ks_shard shard = 0; shard < SHARED_SHARDS; shard++)
            tell_row(world, request, shard);
        return;
    }
    if (request->ask.operation == KS_STORE_READ_LEASE) {
        tell_row(world, request, request->ask.shard);
        return;
    }
    before = world->rows[request->ask.shard];
    request->outcome = perform(world, request) ? KS_DONE : KS_REFUSED;
    shared_say(world, "table: w%u %s shard-%u: %s (w%u until %llu, claim w%u, checkpoint %lld)",
               request->ask.worker.worker,
               request->ask.operation == KS_STORE_ASSIGN       ? "takes free"
               : request->ask.operation == KS_STORE_TAKE_OVER  ? "takes"
               : request->ask.operation == KS_STORE_PLAN       ? "claims"
               : request->ask.operation == KS_STORE_CHECKPOINT ? "writes"
               : request->ask.operation == KS_STORE_FINAL      ? "releases"
                                                               : "ends",
               request->ask.shard, request->outcome == KS_DONE ? "done" : "refused",
               world->rows[request->ask.shard].owner,
               (unsigned long long)(world->rows[request->ask.shard].timeout / NS_PER_SECOND),
               world->rows[request->ask.shard].claim,
               (long long)world->rows[request->ask.shard].checkpoint);
    if (request->outcome != KS_DONE)
        return;
    shared_check_written(world, request, &before);
    shared_changed(world, request->ask.shard, &before);
}

static void asked(struct shared_world *world, const struct shared_request *request)
{
    (void)world;
    (void)request;
}

/* Nobody else takes what we claimed until its time is over for 120 s: who is drained and has had no trouble leaves
 * none. */
static void effect(struct shared_world *world, uint32_t number, const struct ks_effect *effect)
{
    const uint32_t name = world->nodes[number].name;

    if (effect->kind != KS_EFFECT_DRAINED ||
        world->lost + world->late + world->outages + world->pauses > 0)
        return;
    for (ks_shard shard = 0; shard < SHARED_SHARDS; shard++)
        if (world->rows[shard].claim == name && world->rows[shard].checkpoint != SHARED_END)
            shared_fail(world, "w%u leaves, and its claim of shard-%u stands", name, shard);
}

const struct shared_fleet shared_go_kcl = {
    .protocol = KS_PROTOCOL_GO_KCL,
    .drift_ppm = 40000,
    .peace_s = 200, /* Claims of the dead run out after 120 s. */
    .asked = asked,
    .apply = apply,
    .effect = effect,
    .member = shared_member_turn,
    .put = shared_member_put,
};
