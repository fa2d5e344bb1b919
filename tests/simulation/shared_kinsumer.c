/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of kinsumer: the conditions and updates of adapters/dialects/kinsumer.c. */
#include "shared_world.h"

#include <string.h>

#define PERIOD (2 * SIM_SECOND)
/* What a list of ours must name: a shard that is older than any listing that it can be made of. */
#define LONG_THERE (30 * SIM_SECOND)

static uint64_t lease_ns(const struct shared_world *world)
{
    return (uint64_t)world->config.lease_duration.us * 1000;
}

/* ---- Reads ---- */

static void tell_row(const struct shared_world *world, struct shared_request *request,
                     ks_shard shard)
{
    const struct shared_row *row = &world->rows[shard];

    if (!row->present)
        return;
    request->rows[request->row_count] = (struct ks_lease_row){
        .shard = shard,
        .owner = {row->owner, 0},
        .rev = row->timeout,
        .parents = {KS_SHARD_NONE, KS_SHARD_NONE},
        .finished = row->checkpoint == SHARED_END,
    };
    request->checkpoints[request->row_count++] = row->checkpoint;
}

static void tell_clients(const struct shared_world *world, struct shared_request *request)
{
    for (uint32_t name = 1; name < SHARED_NAMES; name++)
        if (world->meta.clients[name] != 0)
            request->workers[request->worker_count++] =
                (struct ks_worker_row){.self = {name, 0},
                                       .life = KS_LIVE,
                                       .beat = world->meta.clients[name],
                                       .rank = world->meta.ranks[name]};
}

static void tell_meta(const struct shared_world *world, struct shared_request *request)
{
    const struct shared_meta *meta = &world->meta;

    request->leader = (struct ks_leader_row){
        .present = meta->leader_rev != 0, .holder = {meta->leader, 0}, .epoch = meta->leader_rev};
    memcpy(request->listed, meta->list, sizeof request->listed);
    request->list = (struct ks_list_row){
        .present = meta->list_rev != 0, .rev = meta->list_rev, .count = meta->list_count};
}

static bool perform_read(const struct shared_world *world, struct shared_request *request)
{
    request->row_count = request->worker_count = 0;
    request->outcome = KS_DONE;
    switch ((int)request->ask.operation) {
    case KS_STORE_READ_LEASES:
        for (ks_shard shard = 0; shard < SHARED_SHARDS; shard++)
            tell_row(world, request, shard);
        return true;
    case KS_STORE_READ_LEASE: tell_row(world, request, request->ask.shard); return true;
    case KS_STORE_READ_FLEET: tell_clients(world, request); return true;
    case KS_STORE_READ_NEWS: tell_meta(world, request); return true;
    default: return false;
    }
}

/* ---- The clients, the leader, the list ---- */

static void check_list(struct shared_world *world, const struct shared_request *request)
{
    for (ks_shard shard = 0; shard < world->shard_count; shard++) {
        uint32_t times = 0;

        for (uint32_t i = 0; i < request->ask.shard_count; i++)
            times += request->named[i] == shard;
        if (times > 1)
            shared_fail(world, "shard-%u stands twice in the list", shard);
        if (times == 0 && !world->shards[shard].ended &&
            world->now > world->shards[shard].born + LONG_THERE)
            shared_fail(world, "shard-%u is not in the list", shard);
    }
}

static bool name_shards(struct shared_world *world, const struct shared_request *request)
{
    struct shared_meta *meta = &world->meta;

    if (meta->list_rev != request->ask.rev)
        return false;
    meta->list_rev = request->ask.next_rev;
    meta->list_count = request->ask.shard_count;
    /* In the order of their ids, as the port writes it. */
    for (uint32_t i = 0, count = 0; i < SHARED_SHARDS; i++)
        for (uint32_t n = 0; n < request->ask.shard_count; n++)
            if (request->named[n] == i)
                meta->list[count++] = i;
    check_list(world, request);
    return true;
}

/* True if the operation is one of these tables'. */
static bool perform_meta(struct shared_world *world, struct shared_request *request)
{
    struct shared_meta *meta = &world->meta;
    const struct ks_store_effect *ask = &request->ask;
    const uint32_t me = ask->worker.worker;
    bool as_read = meta->leader == ask->owner.worker && meta->leader_rev == ask->rev;

    switch ((int)ask->operation) {
    case KS_STORE_HEARTBEAT:
        if (ask->expect_beat != 0 && meta->clients[me] == 0)
            request->outcome = KS_REFUSED;
        else
            meta->clients[me] = ask->next_rev;
        return true;
    case KS_STORE_SAY_GONE: meta->clients[me] = 0; return true;
    case KS_STORE_REMOVE_WORKER:
        shared_fail(world, "w%u is removed before two days are over", me);
        return true;
    case KS_STORE_CLAIM_OFFICE:
    case KS_STORE_RESIGN_OFFICE:
        request->outcome = as_read ? KS_DONE : KS_REFUSED;
        if (!as_read)
            return true;
        meta->leader = ask->operation == KS_STORE_CLAIM_OFFICE ? me : 0;
        meta->leader_rev = ask->next_rev;
        return true;
    case KS_STORE_NAME_SHARDS:
        request->outcome = name_shards(world, request) ? KS_DONE : KS_REFUSED;
        return true;
    default: return false;
    }
}

/* ---- The checkpoints ---- */

static void check_written(struct shared_world *world, const struct shared_request *request,
                          const struct shared_row *before)
{
    const ks_shard shard = request->ask.shard;
    const uint32_t me = request->ask.worker.worker;
    const struct shared_row *after = &world->rows[shard];
    uint64_t place =
        after->checkpoint == SHARED_END ? world->shards[shard].count : after->checkpoint;

    if (after->timeout <= before->timeout)
        shared_fail(world, "shard-%u: our time did not move on", shard);
    if (after->checkpoint != SHARED_NONE && after->checkpoint != before->checkpoint &&
        !shared_is_settled(world, shard, place))
        shared_fail(world, "shard-%u: a checkpoint passed an unsettled record", shard);
    if (after->checkpoint == SHARED_END && !world->shards[shard].closed)
        shared_fail(world, "shard-%u: the end of an open shard", shard);
    if (before->owner != 0 && before->owner != me && world->jumps == 0 &&
        shared_wall(world, 0) < before->timeout + lease_ns(world))
        shared_fail(world, "shard-%u is captured by w%u though w%u wrote lately", shard, me,
                    before->owner);
}

static bool perform(struct shared_world *world, struct shared_request *request)
{
    const struct ks_store_effect *ask = &request->ask;
    struct shared_row *row = &world->rows[ask->shard];
    const uint32_t me = ask->worker.worker;
    const bool captures = ask->operation == KS_STORE_ASSIGN || ask->operation == KS_STORE_TAKE_OVER;
    const uint32_t owner = ask->operation == KS_STORE_ASSIGN      ? 0
                           : ask->operation == KS_STORE_TAKE_OVER ? ask->owner.worker
                                                                  : me;

    if (row->owner != owner || row->timeout != ask->rev ||
        (captures && row->checkpoint == SHARED_END))
        return false;
    row->present = true;
    row->timeout = ask->next_rev;
    switch ((int)ask->operation) {
    case KS_STORE_ASSIGN:
    case KS_STORE_TAKE_OVER:
        row->owner = me;
        world->taken++;
        return true;
    case KS_STORE_CHECKPOINT: break;
    case KS_STORE_FINAL: row->owner = 0; break;
    case KS_STORE_END:
        row->owner = 0;
        row->checkpoint = SHARED_END;
        return true;
    default: shared_fail(world, "operation %d is not of these tables", (int)ask->operation);
    }
    if (request->has_checkpoint)
        row->checkpoint = request->checkpoint;
    return true;
}

static void apply(struct shared_world *world, struct shared_request *request)
{
    const ks_shard shard = request->ask.shard;
    struct shared_row before;

    if (perform_read(world, request) || perform_meta(world, request)) {
        shared_say(world, "table: w%u: operation %d: %s", request->ask.worker.worker,
                   (int)request->ask.operation, request->outcome == KS_DONE ? "done" : "refused");
        return;
    }
    before = world->rows[shard];
    request->outcome = perform(world, request) ? KS_DONE : KS_REFUSED;
    shared_say(world, "table: w%u: operation %d of shard-%u: %s (w%u, checkpoint %lld)",
               request->ask.worker.worker, (int)request->ask.operation, shard,
               request->outcome == KS_DONE ? "done" : "refused", world->rows[shard].owner,
               (long long)world->rows[shard].checkpoint);
    if (request->outcome != KS_DONE)
        return;
    check_written(world, request, &before);
    shared_changed(world, shard, &before);
}

/* ---- The world ---- */

/* The core's list is its own, and gone with the next step. */
static void asked(struct shared_world *world, const struct shared_request *request)
{
    struct shared_request *kept = &world->requests[request - world->requests];

    for (uint32_t i = 0;
         request->ask.operation == KS_STORE_NAME_SHARDS && i < request->ask.shard_count; i++)
        kept->named[i] = request->ask.shards[i];
}

static void draw(struct shared_world *world)
{
    world->config.beat = ks_span_us(PERIOD);
    world->zombies = world->stealing = false;
    for (uint32_t name = 0; name < SHARED_NAMES; name++) {
        uint32_t with = (uint32_t)ks_prng_below(&world->prng, name + 1);

        world->meta.ranks[name] = world->meta.ranks[with];
        world->meta.ranks[with] = name;
    }
}

/* The client to whom the i-th shard of the list falls; 0: nobody. */
static uint32_t falls_to(const struct shared_world *world, uint32_t place)
{
    const struct shared_meta *meta = &world->meta;
    uint32_t live[SHARED_NAMES];
    uint32_t count = 0;

    for (uint32_t rank = 0; rank < SHARED_NAMES; rank++)
        for (uint32_t name = 1; name < SHARED_NAMES; name++)
            if (meta->ranks[name] == rank && meta->clients[name] != 0 &&
                shared_wall(world, 0) < meta->clients[name] + lease_ns(world))
                live[count++] = name;
    return count == 0 ? 0 : live[place % count];
}

/* A client that believes to have the shard still, as it may of one that is idle: the next record shows it its error. */
static bool deludes_itself(const struct shared_world *world, uint32_t name, ks_shard shard)
{
    for (uint32_t i = 0; i < world->member_count; i++)
        if (world->members[i].name == name && world->members[i].begun)
            return world->members[i].shards[shard].reading;
    return false;
}

static bool is_done(const struct shared_world *world, ks_shard shard)
{
    const struct shared_meta *meta = &world->meta;
    const struct shared_shard *stream = &world->shards[shard];
    const struct shared_row *row = &world->rows[shard];
    uint32_t place = 0;

    while (place < meta->list_count && meta->list[place] != shard)
        place++;
    if (stream->closed)
        return row->checkpoint == SHARED_END && place == meta->list_count;
    return place < meta->list_count &&
           (row->owner == falls_to(world, place) ||
            deludes_itself(world, falls_to(world, place), shard)) &&
           (stream->count == 0 || row->checkpoint == stream->count);
}

/* Somebody restarts what an error ended, or left without its shards: they notice nothing themselves. */
static void make_peace(struct shared_world *world)
{
    for (uint32_t i = 0; i < world->member_count; i++)
        world->members[i].begun = false;
}

const struct shared_fleet shared_kinsumer = {
    .protocol = KS_PROTOCOL_KINSUMER,
    .drift_ppm = 40000,
    .peace_s = 200,
    .asked = asked,
    .apply = apply,
    .member = shared_kinsumer_turn,
    .judges = true,
    .draw = draw,
    .make_peace = make_peace,
    .is_done = is_done,
};
