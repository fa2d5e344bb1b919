/* SPDX-License-Identifier: Apache-2.0 */
/* The stream: records that come, shards that split; every hash key is always some open shard's. */
#include "shared_world.h"

void shared_stream_begin(struct shared_world *world)
{
    world->shard_count = (uint32_t)ks_prng_between(&world->prng, 1, 6);
    for (ks_shard shard = 0; shard < world->shard_count; shard++)
        world->shards[shard] = (struct shared_shard){
            .parent = KS_SHARD_NONE,
            .listed = true,
            .first_key = UINT64_MAX / world->shard_count * shard + (shard > 0),
            .last_key = shard + 1 == world->shard_count
                            ? UINT64_MAX
                            : UINT64_MAX / world->shard_count * (shard + 1)};
}

void shared_stream_put(struct shared_world *world)
{
    for (ks_shard shard = 0; shard < world->shard_count; shard++) {
        struct shared_shard *stream = &world->shards[shard];
        uint32_t more = (uint32_t)ks_prng_between(&world->prng, 0, 6);

        if (!stream->closed && stream->count + more <= SHARED_RECORDS)
            stream->count += more;
    }
    if (!world->peace)
        agenda_add(&world->agenda, world->now + SIM_SECOND,
                   &(struct happening){.kind = HAPPENS_SCALE});
}

static void add_child(struct shared_world *world, ks_shard parent, uint64_t first, uint64_t last)
{
    world->shards[world->shard_count++] = (struct shared_shard){
        .parent = parent, .listed = true, .born = world->now, .first_key = first, .last_key = last};
}

void shared_stream_split(struct shared_world *world)
{
    const ks_shard parent = (ks_shard)ks_prng_below(&world->prng, world->shard_count);
    const uint64_t first = world->shards[parent].first_key;
    const uint64_t last = world->shards[parent].last_key;

    if (world->shards[parent].closed || world->shard_count + 2 > SHARED_SHARDS)
        return;
    world->shards[parent].closed = true;
    add_child(world, parent, first, first + (last - first) / 2);
    add_child(world, parent, first + (last - first) / 2 + 1, last);
    shared_say(world, "world: shard-%u is split", parent);
}
