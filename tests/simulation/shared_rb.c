/* SPDX-License-Identifier: Apache-2.0 */
/* The table of kcl-rb: the conditions and updates of adapters/dialects/kcl_rb.c, and how its processes and ours come
 * together. */
#include "shared_world.h"

#define NS_PER_SECOND UINT64_C(1000000000)
/* Beyond what clocks that are kept right may be wrong by. */
#define SURE_NS (2 * NS_PER_SECOND)
/* A stranger's rows stand still for a lease before we take one: by a clock that drifts, and less a second, for a time
 * in whole seconds may hide a write. */
#define QUIET_US (8500 * SIM_MS)
#define LATEST_PUT (25 * SIM_SECOND)
#define FOR_EVER INT64_MAX
enum { UNOWNED = 1, MOST_EACH = 2 };

/* ---- What rows tell ---- */

static void tell_row(const struct shared_world *world, struct shared_request *request,
                     ks_shard shard)
{
    const struct shared_row *row = &world->rows[shard];

    if (!row->present)
        return;
    request->masked[shard] = row->masked;
    request->rows[request->row_count] = (struct ks_lease_row){
        .shard = shard,
        .owner = {row->owner, 0},
        .rev = row->timeout,
        .parents = {KS_SHARD_NONE, KS_SHARD_NONE},
        .finished = row->checkpoint == SHARED_END,
        .stranger = row->stranger,
        .masked = row->masked,
    };
    request->checkpoints[request->row_count++] = row->checkpoint;
}

/* This is the lease of somebody, and for longer; by clocks that are kept right. */
static bool is_live(const struct shared_world *world, uint32_t owner, uint64_t timeout)
{
    return owner != 0 && timeout > shared_wall(world, 0) + SURE_NS && world->jumps == 0;
}

/* As ports/rows.c. */
static void answered(struct shared_world *world, struct shared_node *node,
                     struct shared_request *request)
{
    const bool all = request->ask.operation == KS_STORE_READ_LEASES;

    for (uint32_t i = 0; i < request->row_count; i++)
        request->rows[i].moved = node->row[request->rows[i].shard] != request->checkpoints[i];
    for (ks_shard shard = 0; all && shard < SHARED_SHARDS; shard++) {
        node->row[shard] = SHARED_NONE;
        node->masked[shard] = false;
    }
    for (uint32_t i = 0; i < request->row_count; i++) {
        node->row[request->rows[i].shard] = request->checkpoints[i];
        node->masked[request->rows[i].shard] = request->masked[request->rows[i].shard];
    }
    if (!all)
        return;
    node->looked_at = request->told_at;
    node->at_work = false;
    for (uint32_t i = 0; i < request->row_count; i++)
        node->at_work |= request->rows[i].stranger && !request->rows[i].finished &&
                         is_live(world, request->rows[i].owner.worker, request->rows[i].rev);
}

/* ---- What we may do ---- */

/* A take of ours without a mask, of what it had read. */
static void check_quiet(struct shared_world *world, const struct shared_node *node, ks_shard taken)
{
    for (ks_shard shard = 0; shard < world->shard_count; shard++) {
        const struct shared_row *row = &world->rows[shard];

        if (!row->present || !row->stranger || row->checkpoint == SHARED_END ||
            row->put_at > node->looked_at)
            continue;
        if (is_live(world, row->owner, row->timeout))
            shared_fail(world, "shard-%u is taken while a stranger has shard-%u", taken, shard);
        if (world->now - row->put_at < QUIET_US)
            shared_fail(world, "shard-%u is taken %.1f s after a stranger wrote shard-%u", taken,
                        (double)(world->now - row->put_at) / 1e6, shard);
    }
}

static void asked(struct shared_world *world, const struct shared_request *request)
{
    struct shared_request *kept = &world->requests[request - world->requests];
    const struct shared_node *node = &world->nodes[request->node];
    const ks_shard shard = request->ask.shard;

    if (shard >= SHARED_SHARDS)
        return;
    kept->masks = node->masks;
    kept->was = node->row[shard];
    kept->was_masked = node->masked[shard];
    if (!node->masks &&
        (request->ask.operation == KS_STORE_ASSIGN || request->ask.operation == KS_STORE_TAKE_OVER))
        check_quiet(world, node, shard);
}

static void effect_of(struct shared_world *world, uint32_t number, const struct ks_effect *effect)
{
    const struct shared_node *node = &world->nodes[number];

    if (effect->kind == KS_EFFECT_DELIVER && !node->masks && node->at_work)
        shared_fail(world, "shard-%u is delivered by node %u, which saw a stranger at work",
                    effect->deliver.shard, number);
    if (effect->kind == KS_EFFECT_STORY && effect->story.story == KS_STORY_STRANGERS &&
        (world->member_count == 0 || node->masks))
        shared_fail(world, "node %u tells of a stranger", number);
}

/* ---- Writes ---- */

static bool as_read(const struct shared_row *row, const struct ks_store_effect *ask, uint32_t owner)
{
    return row->owner == owner && row->timeout == ask->rev;
}

/* A condition on the checkpoint as others read it. */
static bool place_as_read(const struct shared_row *row, const struct shared_request *request)
{
    const bool ends = row->masked || row->checkpoint == SHARED_END;

    return request->was_masked ? ends : !ends && row->checkpoint == request->was;
}

static bool take(struct shared_world *world, const struct shared_request *request, uint32_t owner)
{
    const struct ks_store_effect *ask = &request->ask;
    struct shared_row *row = &world->rows[ask->shard];

    if (!row->present)
        row->checkpoint = SHARED_NONE;
    if (!as_read(row, ask, owner))
        return false;
    if (request->masks || request->was_masked) {
        if (!place_as_read(row, request))
            return false;
        row->checkpoint = request->was;
    }
    for (uint32_t i = 0; i < world->member_count; i++)
        if (!world->zombies && world->members[i].shards[ask->shard].reading)
            shared_fail(world, "shard-%u is taken while w%u reads it", ask->shard,
                        world->members[i].name);
    row->present = true;
    row->owner = ask->worker.worker;
    row->timeout = ask->next_rev;
    row->stranger = row->nameless = false;
    row->masked = request->masks;
    world->taken++;
    world->claimed += row->masked;
    return true;
}

static bool perform(struct shared_world *world, const struct shared_request *request)
{
    const struct ks_store_effect *ask = &request->ask;
    struct shared_row *row = &world->rows[ask->shard];

    switch ((int)ask->operation) {
    case KS_STORE_ASSIGN: return take(world, request, 0);
    case KS_STORE_TAKE_OVER: return take(world, request, ask->owner.worker);
    case KS_STORE_DELETE:
        if (row->checkpoint != SHARED_END || row->masked)
            return false;
        row->present = false;
        return true;
    case KS_STORE_CHECKPOINT:
    case KS_STORE_FINAL:
    case KS_STORE_END: break;
    default: shared_fail(world, "operation %d is not of this table", (int)ask->operation);
    }
    if (!as_read(row, ask, ask->worker.worker))
        return false;
    if (request->has_checkpoint)
        row->checkpoint = request->checkpoint;
    if (ask->operation == KS_STORE_CHECKPOINT) {
        row->timeout = ask->next_rev;
        return true;
    }
    row->owner = 0;
    row->masked &= ask->operation == KS_STORE_FINAL && !request->masks;
    if (ask->operation == KS_STORE_END)
        row->checkpoint = SHARED_END;
    return true;
}

static void apply(struct shared_world *world, struct shared_request *request)
{
    const ks_shard shard = request->ask.shard;
    const struct shared_row *row;
    struct shared_row before;

    request->row_count = 0;
    request->outcome = KS_DONE;
    request->told_at = world->now;
    if (request->ask.operation == KS_STORE_READ_LEASES) {
        for (ks_shard each = 0; each < SHARED_SHARDS; each++)
            tell_row(world, request, each);
        return;
    }
    if (request->ask.operation == KS_STORE_READ_LEASE) {
        tell_row(world, request, shard);
        return;
    }
    row = &world->rows[shard];
    before = *row;
    request->outcome = perform(world, request) ? KS_DONE : KS_REFUSED;
    shared_say(world,
               "table: w%u: operation %d of shard-%u: %s (w%u until %llu, %scheckpoint %lld)",
               request->ask.worker.worker, (int)request->ask.operation, shard,
               request->outcome == KS_DONE ? "done" : "refused", row->owner,
               (unsigned long long)(row->timeout / NS_PER_SECOND), row->masked ? "masked, " : "",
               (long long)row->checkpoint);
    if (request->outcome != KS_DONE)
        return;
    shared_check_written(world, request, &before);
    shared_changed(world, shard, &before);
}

/* ---- The world ---- */

/* What processes leave behind that are gone: a row that is free, or not, with a place, or none, or nonsense. */
static void leave_behind(struct shared_world *world, ks_shard shard)
{
    struct shared_row *row = &world->rows[shard];
    const bool owned = shared_chance(world, 300);

    *row = (struct shared_row){
        .present = true,
        .owner = owned ? UNOWNED : 0,
        .timeout =
            shared_wall(world, ks_prng_between(&world->prng, -60 * SIM_SECOND, 10 * SIM_SECOND)) /
            NS_PER_SECOND * NS_PER_SECOND,
        .stranger = true,
        .put_at = -SIM_SECOND,
    };
    /* It would end there, unseen, until we take it; or for ever, where we have no room. */
    row->nameless =
        !owned && world->rb.masks && world->config.capacity == 0 && shared_chance(world, 200);
    if (row->nameless)
        row->timeout = 1;
}

static void draw(struct shared_world *world)
{
    struct shared_rb *rb = &world->rb;
    const bool beside = world->member_count > 0;
    bool limited;

    world->stealing = false; /* Whatever ours are told: nobody honours a claim. */
    world->whole = shared_chance(world, 500);
    rb->masks = shared_chance(world, 500);
    rb->unmasks = rb->masks && shared_chance(world, 300);
    rb->back = beside && world->whole && shared_chance(world, 500);
    rb->goes_on = beside && rb->masks && world->whole && !rb->unmasks;
    rb->stop_at = FOR_EVER;
    rb->failover_ns = (uint64_t)ks_prng_between(&world->prng, 5, 40) * NS_PER_SECOND;
    world->config.masking = rb->masks;
    /* With a limit, too: a process that was held up removes our name from a masked row, and our limit is reached. One
     * process: two of them end at each other's rows, which only we could mend. */
    if (world->zombies && rb->goes_on && ks_prng_below(&world->looks, 2) == 0) {
        world->config.capacity = 1 + (uint32_t)ks_prng_below(&world->looks, MOST_EACH);
        world->member_count = 1;
    }
    if (world->zombies || !beside)
        return;
    /* One process: two of them have no manners among themselves, either. */
    world->member_count = 1;
    if (!rb->masks)
        rb->stop_at = ks_prng_between(&world->prng, 10 * SIM_SECOND, 50 * SIM_SECOND);
    if (!rb->masks && shared_chance(world, 500))
        world->outages += 60; /* A table that is away shows nobody at work. */
    limited = rb->goes_on && shared_chance(world, 500);
    if (limited)
        world->config.capacity = (uint32_t)ks_prng_between(&world->prng, 1, MOST_EACH);
    for (ks_shard shard = 0; shard < world->shard_count; shard++)
        leave_behind(world, shard);
}

/* Members are stopped, or one of them is kept; masks are put on no more. */
static void make_peace(struct shared_world *world)
{
    struct shared_rb *rb = &world->rb;

    rb->stop_at = rb->goes_on ? FOR_EVER : world->now;
    rb->calm_at = world->now + LATEST_PUT;
    for (uint32_t i = 0; i < world->member_count; i++)
        world->members[i].alive &= i == 0;
    world->members[0].alive |= rb->goes_on;
    if (!rb->unmasks)
        return;
    rb->masks = false;
    world->config.masking = false;
    for (uint32_t node = 0; node < world->node_count; node++)
        shared_drain(world, node, ks_span_ms(10000));
}

static bool is_done(const struct shared_world *world, ks_shard shard)
{
    const struct shared_rb *rb = &world->rb;
    const struct shared_shard *stream = &world->shards[shard];
    const struct shared_row *row = &world->rows[shard];
    bool ours = row->owner != 0 && !row->stranger;

    if (stream->closed)
        return stream->ended && (!row->present || row->checkpoint == SHARED_END);
    if (stream->count > 0 && row->checkpoint != stream->count)
        return false;
    if (world->leaving)
        return true;
    return rb->goes_on ? row->masked == ours : ours && row->masked == rb->masks;
}

/* Nobody of ours is there any more: theirs begin, at more records. */
static void give_back(struct shared_world *world)
{
    for (ks_shard shard = 0; shard < world->shard_count; shard++) {
        const struct shared_row *row = &world->rows[shard];

        if (row->present && (row->masked || row->nameless || (row->owner != 0 && !row->stranger)))
            shared_fail(world, "shard-%u is given back as nothing that kcl-rb could read", shard);
    }
    shared_say(world, "world: all is given back");
    world->rb.stop_at = FOR_EVER;
    world->members[0].begun = false;
    world->members[0].alive = true;
    for (int times = 0; times < 3; times++)
        shared_stream_put(world);
}

/* When ours leave a release comes late, which removes our name from a masked row. */
static void release_late(struct shared_world *world)
{
    for (ks_shard shard = 0; shard < world->shard_count; shard++)
        if (world->rows[shard].masked && ks_prng_below(&world->looks, 3) == 0)
            world->rows[shard].owner = 0;
}

static bool is_over(struct shared_world *world)
{
    struct shared_rb *rb = &world->rb;

    if (!rb->back || rb->given)
        return true;
    if (world->now < rb->calm_at)
        return false;
    if (!world->leaving) {
        world->leaving = true;
        release_late(world);
        for (uint32_t node = 0; node < world->node_count; node++)
            shared_drain(world, node, ks_span_ms(10000));
        return false;
    }
    for (uint32_t node = 0; node < world->node_count; node++)
        if (world->nodes[node].core != NULL)
            return false;
    rb->given = true;
    give_back(world);
    return false;
}

const struct shared_fleet shared_kcl_rb = {
    .protocol = KS_PROTOCOL_KCL_RB,
    .drift_ppm = 40000,
    .peace_s = 200,
    .asked = asked,
    .apply = apply,
    .member = shared_rb_turn,
    .draw = draw,
    .make_peace = make_peace,
    .judges = true,
    .is_done = is_done,
    .answered = answered,
    .effect = effect_of,
    .put = shared_rb_put,
    .over = is_over,
};
