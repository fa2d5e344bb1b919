/* SPDX-License-Identifier: Apache-2.0 */
#include "world_stream.h"

#include <assert.h>
#include <string.h>

#include "story.h"
#include "world.h"

static struct world_shard *add_shard(struct world *world, ks_shard parent, ks_shard other)
{
    struct world_stream *stream = &world->stream;
    struct world_shard *shard = &stream->shards[stream->count++];

    assert(stream->count <= SIM_SHARDS);
    shard->exists = true;
    shard->expired = false;
    shard->had_row = false;
    shard->ended = false;
    shard->made = 0;
    shard->odd_at = SIM_NEVER;
    shard->first_key = (struct ks_hash_key){0, 0};
    shard->last_key = (struct ks_hash_key){UINT64_MAX, UINT64_MAX};
    shard->parents[0] = parent;
    shard->parents[1] = other;
    shard->count = 0;
    shard->opened_at = world->now;
    shard->closed_at = SIM_NEVER;
    shard->expired_at = SIM_NEVER;
    shard->start = 0;
    shard->settled_to = 0;
    return shard;
}

static void add_records(struct world *world, struct world_shard *shard, uint32_t count)
{
    struct swarm *swarm = &world->swarm;

    for (uint32_t i = 0; i < count && shard->count < SIM_RECORDS; i++) {
        uint32_t size = (uint32_t)draw_log(&world->prng, 1, 2000);

        if (draw_chance(&world->prng, 30))
            size = 0;
        if (draw_chance(&world->prng, swarm->big_records))
            size = (uint32_t)ks_prng_between(&world->prng, 10000, 100000);
        shard->arrived[shard->count] = world->now;
        shard->sizes[shard->count] = size;
        shard->settled[shard->count] = false;
        shard->count++;
        world->stream.put++;
    }
}

void world_stream_begin(struct world *world)
{
    struct world_stream *stream = &world->stream;

    stream->count = 0;
    stream->put = 0;
    for (uint32_t i = 0; i < world->swarm.shards; i++) {
        uint64_t width = UINT64_MAX / world->swarm.shards + 1;
        struct world_shard *shard;
        ks_shard parent = KS_SHARD_NONE;

        if (draw_chance(&world->prng, 200)) {
            /* A parent that is only a name by now. */
            parent = stream->count;
            add_shard(world, KS_SHARD_NONE, KS_SHARD_NONE)->exists = false;
        }
        shard = add_shard(world, parent, KS_SHARD_NONE);
        shard->first_key.high = i * width;
        if (i + 1 < world->swarm.shards)
            shard->last_key.high = (i + 1) * width - 1;
        add_records(world, shard, (uint32_t)ks_prng_below(&world->prng, 30));
        if (draw_chance(&world->prng, 150))
            world_stream_reshard(world);
    }
}

static bool is_open(const struct world_shard *shard)
{
    return shard->exists && shard->closed_at == SIM_NEVER;
}

/* An open shard other than `but`; KS_SHARD_NONE if there is none. */
static ks_shard draw_open(struct world *world, ks_shard but)
{
    struct world_stream *stream = &world->stream;
    ks_shard first = (ks_shard)ks_prng_below(&world->prng, stream->count);

    for (uint32_t i = 0; i < stream->count; i++) {
        ks_shard shard = (first + i) % stream->count;

        if (shard != but && is_open(&stream->shards[shard]))
            return shard;
    }
    return KS_SHARD_NONE;
}

void world_stream_put(struct world *world)
{
    ks_shard shard = draw_open(world, KS_SHARD_NONE);

    assert(shard != KS_SHARD_NONE);
    if (world->stream.put < world->swarm.records)
        add_records(world, &world->stream.shards[shard],
                    (uint32_t)ks_prng_between(&world->prng, 1, world->swarm.burst));
}

/* True if the keys of `b` begin where those of `a` end. */
static bool is_before(const struct world_shard *a, const struct world_shard *b)
{
    return a->last_key.high < b->first_key.high && a->last_key.high + 1 == b->first_key.high;
}

/* An open shard that can be merged with this one; KS_SHARD_NONE if there is none. */
static ks_shard neighbour(const struct world_stream *stream, ks_shard shard)
{
    const struct world_shard *of = &stream->shards[shard];

    for (ks_shard i = 0; i < stream->count; i++) {
        const struct world_shard *other = &stream->shards[i];

        if (is_open(other) && (is_before(of, other) || is_before(other, of)))
            return i;
    }
    return KS_SHARD_NONE;
}

static void merge(struct world *world, ks_shard first, ks_shard second)
{
    struct world_stream *stream = &world->stream;
    bool turned = stream->shards[first].first_key.high > stream->shards[second].first_key.high;
    struct world_shard *merged;

    story_say(world, "stream", "shard-%u and shard-%u are merged into shard-%u", first, second,
              stream->count);
    stream->shards[second].closed_at = world->now;
    merged = add_shard(world, first, second);
    merged->first_key = stream->shards[turned ? second : first].first_key;
    merged->last_key = stream->shards[turned ? first : second].last_key;
}

static void split(struct world *world, ks_shard shard)
{
    struct world_stream *stream = &world->stream;
    struct world_shard *of = &stream->shards[shard];
    uint64_t middle = of->first_key.high + (of->last_key.high - of->first_key.high) / 2;
    struct world_shard *half;

    assert(of->first_key.high < of->last_key.high);
    story_say(world, "stream", "shard-%u is split into shard-%u and shard-%u", shard, stream->count,
              stream->count + 1);
    half = add_shard(world, shard, KS_SHARD_NONE);
    half->first_key = of->first_key;
    half->last_key.high = middle;
    half = add_shard(world, shard, KS_SHARD_NONE);
    half->first_key.high = middle + 1;
    half->last_key = of->last_key;
}

/* A row that an operator has finished is not read: what is in its shard would be lost behind a reshard. */
static bool may_close(const struct world_stream *stream, ks_shard shard)
{
    return stream->shards[shard].odd_at == SIM_NEVER;
}

void world_stream_reshard(struct world *world)
{
    struct world_stream *stream = &world->stream;
    ks_shard first = draw_open(world, KS_SHARD_NONE);
    ks_shard second = KS_SHARD_NONE;

    if (first != KS_SHARD_NONE && draw_chance(&world->prng, 400))
        second = neighbour(stream, first);
    if (first == KS_SHARD_NONE || stream->count + 2 > SIM_SHARDS || !may_close(stream, first) ||
        (second != KS_SHARD_NONE && !may_close(stream, second)))
        return;
    stream->shards[first].closed_at = world->now;
    if (second != KS_SHARD_NONE)
        merge(world, first, second);
    else
        split(world, first);
}

void world_stream_expire(struct world *world)
{
    struct world_stream *stream = &world->stream;

    for (ks_shard i = 0; i < stream->count; i++) {
        struct world_shard *shard = &stream->shards[i];

        if (!shard->exists || shard->expired || is_open(shard) ||
            !world_table_lease(&world->table, i)->row.finished || draw_chance(&world->prng, 500))
            continue;
        shard->expired = true;
        shard->expired_at = world->now;
        story_say(world, "stream", "shard-%u has expired", i);
        return;
    }
}

uint32_t world_stream_list(const struct world *world, sim_time at, sim_time since,
                           struct ks_shard_row *rows)
{
    const struct world_stream *stream = &world->stream;
    uint32_t count = 0;

    for (ks_shard i = 0; i < stream->count; i++) {
        const struct world_shard *shard = &stream->shards[i];

        if (!shard->exists || shard->opened_at > at || shard->expired_at <= at ||
            shard->closed_at < since)
            continue;
        rows[count].shard = i;
        memcpy(rows[count].parents, shard->parents, sizeof shard->parents);
        rows[count].ranged = true;
        rows[count].first_key = shard->first_key;
        rows[count].last_key = shard->last_key;
        rows[count].closed = shard->closed_at <= at;
        count++;
    }
    return count;
}

uint32_t world_stream_read(const struct world *world, ks_shard shard, uint64_t index,
                           uint32_t max_records, uint32_t max_bytes, uint32_t *sizes,
                           bool *ret_at_end)
{
    const struct world_shard *from = &world->stream.shards[shard];
    uint32_t count = 0;
    uint64_t bytes = 0;

    while (index + count < from->count && count < max_records) {
        uint32_t size = from->sizes[index + count];

        if (count > 0 && bytes + size > max_bytes)
            break;
        bytes += size;
        sizes[count++] = size;
    }
    *ret_at_end = from->closed_at != SIM_NEVER && index + count >= from->count;
    return count;
}

uint32_t world_stream_index_at(const struct world *world, ks_shard shard, sim_time from)
{
    const struct world_shard *of = &world->stream.shards[shard];
    uint32_t index = 0;

    while (index < of->count && of->arrived[index] < from)
        index++;
    return index;
}

void world_stream_settle(struct world *world, ks_shard shard, uint64_t index)
{
    struct world_shard *of = &world->stream.shards[shard];

    assert(index < of->count);
    of->settled[index] = true;
    world->progress_at = world->now;
    while (of->settled_to < of->count && of->settled[of->settled_to])
        of->settled_to++;
}

void world_stream_seek(struct world *world, ks_shard shard, uint64_t index)
{
    struct world_shard *of = &world->stream.shards[shard];

    for (uint32_t i = 0; i < of->count; i++)
        of->settled[i] = i < index;
    of->settled_to = (uint32_t)index;
    world->progress_at = world->now;
}
