/* SPDX-License-Identifier: Apache-2.0 */
/* The stream: records that come, shards that are split and merged, and expire; every hash key is always some open
 * shard's. Listings may be behind, of each shard in another way. */
#include "shared_world.h"

#include <string.h>

#define AGE (100 * SIM_SECOND)
#define TARDY (3 * SIM_SECOND)

static struct shared_shard shard_of(uint64_t first, uint64_t last)
{
    return (struct shared_shard){.parents = {KS_SHARD_NONE, KS_SHARD_NONE},
                                 .closed_shown_at = SHARED_NEVER,
                                 .gone_at = SHARED_NEVER,
                                 .row_at = SHARED_NEVER,
                                 .due_at = SHARED_NEVER,
                                 .first_key = first,
                                 .last_key = last};
}

static void begin_one(struct shared_world *world, uint32_t stream, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct shared_shard *shard = &world->shards[world->shard_count++];

        *shard = shard_of(UINT64_MAX / count * i + (i > 0),
                          i + 1 == count ? UINT64_MAX : UINT64_MAX / count * (i + 1));
        shard->stream = stream;
        shard->shown_at = -AGE;
        shard->due_at = INT64_MIN;
    }
}

void shared_stream_begin(struct shared_world *world)
{
    world->retention = SHARED_NEVER;
    for (uint32_t stream = 0; stream < world->streams; stream++)
        begin_one(world, stream, (uint32_t)ks_prng_between(&world->prng, 1, 6 / world->streams));
}

static void put_some(struct shared_world *world)
{
    for (ks_shard shard = 0; shard < world->shard_count; shard++) {
        struct shared_shard *stream = &world->shards[shard];
        uint32_t more = (uint32_t)ks_prng_between(&world->prng, 0, 6);

        if (stream->closed || stream->count + more > SHARED_RECORDS)
            continue;
        for (; more > 0; more--)
            stream->put_at[stream->count++] = world->now;
    }
}

void shared_stream_put(struct shared_world *world)
{
    put_some(world);
    if (!world->peace)
        agenda_add(&world->agenda, world->now + SIM_SECOND,
                   &(struct happening){.kind = HAPPENS_SCALE});
}

/* ---- Reshards ---- */

static sim_time shown_at(struct shared_world *world)
{
    return world->now +
           (shared_chance(world, world->tardy) ? ks_prng_between(&world->prng, 0, TARDY) : 0);
}

static void close_one(struct shared_world *world, ks_shard shard)
{
    struct shared_shard *stream = &world->shards[shard];

    stream->closed = true;
    stream->closed_at = world->now;
    stream->closed_shown_at = shown_at(world);
    if (world->retention == SHARED_NEVER)
        return;
    stream->gone_at =
        world->now + world->retention + ks_prng_between(&world->prng, 3 * TARDY, 15 * TARDY);
    /* Whoever was closed before is gone before. */
    for (uint32_t p = 0; p < KS_PARENTS_MAX; p++)
        if (stream->parents[p] != KS_SHARD_NONE &&
            stream->gone_at < world->shards[stream->parents[p]].gone_at)
            stream->gone_at = world->shards[stream->parents[p]].gone_at;
}

static void add_child(struct shared_world *world, ks_shard parent, ks_shard adjacent,
                      uint64_t first, uint64_t last)
{
    struct shared_shard *child = &world->shards[world->shard_count++];

    *child = shard_of(first, last);
    child->stream = world->shards[parent].stream;
    child->parents[0] = parent;
    child->parents[1] = adjacent;
    child->born = world->now;
    child->shown_at = shown_at(world);
    for (uint32_t p = 0; p < KS_PARENTS_MAX; p++)
        if (child->parents[p] != KS_SHARD_NONE &&
            child->shown_at < world->shards[child->parents[p]].shown_at)
            child->shown_at = world->shards[child->parents[p]].shown_at;
    if (!world->merges)
        child->due_at = INT64_MIN;
}

static void split(struct shared_world *world, ks_shard parent)
{
    const uint64_t first = world->shards[parent].first_key;
    const uint64_t last = world->shards[parent].last_key;

    if (world->shards[parent].closed || world->shard_count + 2 > SHARED_SHARDS || first == last)
        return;
    close_one(world, parent);
    add_child(world, parent, KS_SHARD_NONE, first, first + (last - first) / 2);
    add_child(world, parent, KS_SHARD_NONE, first + (last - first) / 2 + 1, last);
    shared_say(world, "world: shard-%u is split", parent);
}

static void merge(struct shared_world *world, ks_shard lower)
{
    const struct shared_shard *stream = &world->shards[lower];

    if (stream->closed || world->shard_count == SHARED_SHARDS)
        return;
    for (ks_shard upper = 0; upper < world->shard_count; upper++) {
        const struct shared_shard *other = &world->shards[upper];

        if (other->closed || other->stream != stream->stream || stream->last_key == UINT64_MAX ||
            other->first_key != stream->last_key + 1)
            continue;
        close_one(world, lower);
        close_one(world, upper);
        add_child(world, lower, upper, stream->first_key, other->last_key);
        shared_say(world, "world: shard-%u and shard-%u are merged", lower, upper);
        return;
    }
}

void shared_stream_reshard(struct shared_world *world)
{
    const ks_shard shard = (ks_shard)ks_prng_below(&world->prng, world->shard_count);

    if (world->merges && shared_chance(world, 500))
        merge(world, shard);
    else
        split(world, shard);
}

void shared_stream_age(struct shared_world *world)
{
    for (ks_shard shard = 0; shard < world->shard_count; shard++)
        world->shards[shard].due_at = SHARED_NEVER;
    for (world->now = -AGE; world->now < 0;
         world->now += ks_prng_between(&world->prng, AGE / 10, AGE)) {
        put_some(world);
        shared_stream_reshard(world);
        put_some(world);
    }
    world->now = 0;
}

/* ---- What is seen of it ---- */

bool shared_is_gone(const struct shared_world *world, ks_shard shard)
{
    return world->now >= world->shards[shard].gone_at;
}

bool shared_stream_lists(const struct shared_world *world, ks_shard shard,
                         struct ks_shard_row *ret_row)
{
    const struct shared_shard *stream = &world->shards[shard];

    *ret_row = (struct ks_shard_row){.shard = shard,
                                     .parents = {stream->parents[0], stream->parents[1]},
                                     .ranged = true,
                                     .first_key = {stream->first_key, 0},
                                     .last_key = {stream->last_key, UINT64_MAX},
                                     .closed = world->now >= stream->closed_shown_at};
    return world->now >= stream->shown_at && !shared_is_gone(world, shard);
}

bool shared_is_parent(const struct shared_world *world, ks_shard parent, ks_shard child)
{
    return world->shards[child].parents[0] == parent || world->shards[child].parents[1] == parent;
}

uint64_t shared_stream_at(const struct shared_world *world, ks_shard shard, sim_time at)
{
    const struct shared_shard *stream = &world->shards[shard];
    uint64_t record = 0;

    while (record < stream->count && stream->put_at[record] < at)
        record++;
    return record;
}

bool shared_is_over(const struct shared_world *world, ks_shard shard, uint32_t record)
{
    const struct shared_shard *stream = &world->shards[shard];

    return stream->settled[record] || stream->put_at[record] < stream->due_at ||
           shared_is_gone(world, shard);
}

/* It, and its ancestors: they have lower numbers. */
static void mark_line(const struct shared_world *world, ks_shard shard,
                      bool ret_marked[SHARED_SHARDS])
{
    memset(ret_marked, 0, SHARED_SHARDS * sizeof *ret_marked);
    ret_marked[shard] = true;
    for (ks_shard at = shard + 1; at-- > 0;)
        for (uint32_t p = 0; ret_marked[at] && p < KS_PARENTS_MAX; p++)
            if (world->shards[at].parents[p] != KS_SHARD_NONE)
                ret_marked[world->shards[at].parents[p]] = true;
}

sim_time shared_begun_at(const struct shared_world *world, ks_shard shard)
{
    bool marked[SHARED_SHARDS];
    sim_time begun_at = SHARED_NEVER;

    mark_line(world, shard, marked);
    for (ks_shard at = 0; at <= shard; at++)
        if (marked[at] && world->shards[at].row_at < begun_at)
            begun_at = world->shards[at].row_at;
    return begun_at;
}

bool shared_has_begun(const struct shared_world *world, ks_shard shard)
{
    return shared_begun_at(world, shard) != SHARED_NEVER;
}

sim_time shared_due_above(const struct shared_world *world, ks_shard shard)
{
    bool marked[SHARED_SHARDS];
    sim_time due_at = SHARED_NEVER;

    mark_line(world, shard, marked);
    for (ks_shard at = 0; at < shard; at++)
        if (marked[at] && world->shards[at].due_at < due_at &&
            world->shards[at].due_at != INT64_MIN)
            due_at = world->shards[at].due_at;
    return due_at;
}

/* Some descendant: they have higher numbers. */
static bool is_begun_below(const struct shared_world *world, ks_shard shard)
{
    bool asked[SHARED_SHARDS] = {false};

    asked[shard] = true;
    for (ks_shard child = shard + 1; child < world->shard_count; child++)
        for (uint32_t p = 0; p < KS_PARENTS_MAX; p++) {
            const ks_shard parent = world->shards[child].parents[p];

            asked[child] |= parent != KS_SHARD_NONE && asked[parent];
            if (asked[child] && world->shards[child].row_at != SHARED_NEVER)
                return true;
        }
    return false;
}

bool shared_is_old(const struct shared_world *world, ks_shard shard)
{
    const struct shared_shard *stream = &world->shards[shard];

    if (!world->merges || stream->row_at != SHARED_NEVER)
        return false;
    return shared_is_gone(world, shard) || is_begun_below(world, shard) ||
           (stream->closed && world->initial != SHARED_TRIM_HORIZON &&
            !shared_has_begun(world, shard) &&
            (world->initial == SHARED_LATEST || stream->closed_at < world->at));
}

/* A row that came later than that of its child, for it was long under way, holds nobody up. */
bool shared_waits_for(const struct shared_world *world, ks_shard parent, ks_shard child)
{
    return !world->shards[parent].ended && !shared_is_old(world, parent) &&
           (!world->merges || world->shards[child].row_at == SHARED_NEVER ||
            world->shards[parent].row_at <= world->shards[child].row_at);
}
