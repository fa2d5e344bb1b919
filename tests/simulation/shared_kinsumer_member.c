/* SPDX-License-Identifier: Apache-2.0 */
/* A client of kinsumer, as refreshShards, the leader, the shard consumers and their checkpointers behave, with their
 * defects: a record is checkpointed when it is handed out; an idle shard is not renewed (the fork's is, each half of
 * the age); whoever wakes goes on reading what others have captured meanwhile; a write that is refused ends the client,
 * or, of the fork, leaves it reading without a checkpoint; nobody waits for parents. */
#include "shared_world.h"

#include <string.h>

#define PERIOD (2 * SIM_SECOND)
#define NS_PER_US UINT64_C(1000)

static uint64_t wall(const struct shared_world *world, const struct shared_member *member)
{
    return shared_wall(world, member->wall_error);
}

static uint64_t age_ns(const struct shared_world *world)
{
    return (uint64_t)world->config.lease_duration.us * NS_PER_US;
}

/* Next() answers an error, which is meant to end the process; somebody starts it again. */
static void fails(struct shared_world *world, struct shared_member *member)
{
    shared_say(world, "member: w%u fails", member->name);
    member->begun = false;
    member->paused_until = world->now + 3 * SIM_SECOND;
}

static void begin(struct shared_world *world, struct shared_member *member)
{
    for (ks_shard shard = 0; shard < SHARED_SHARDS; shard++)
        member->shards[shard] = (struct shared_memory){.owner = 0};
    member->begun = true;
    member->look_at = world->now;
    member->commit_at = world->now;
    member->total = 0;
    member->list_count = 0;
}

/* PutItem, or the UpdateItem of a release. */
static void put(struct shared_world *world, struct shared_member *member, ks_shard shard,
                uint32_t owner, uint64_t checkpoint)
{
    struct shared_row before = world->rows[shard];
    uint64_t now = wall(world, member);

    world->rows[shard] = (struct shared_row){
        .present = true, .owner = owner, .timeout = now, .checkpoint = checkpoint};
    member->shards[shard].timeout = now;
    shared_say(world, "member: w%u puts shard-%u: w%u, checkpoint %lld", member->name, shard, owner,
               (long long)checkpoint);
    shared_changed(world, shard, &before);
}

/* A write under OwnerID = :ownerID was refused: true if the client goes on. */
static bool tolerates(const struct shared_world *world, const struct shared_member *member,
                      ks_shard shard)
{
    return member->fine && member->shards[shard].timeout + age_ns(world) < wall(world, member);
}

static uint64_t place_of(const struct shared_memory *memory)
{
    return memory->at == 0 ? SHARED_NONE : memory->at;
}

static void capture(struct shared_world *world, struct shared_member *member, ks_shard shard)
{
    struct shared_memory *memory = &member->shards[shard];
    const struct shared_row *row = &world->rows[shard];
    uint64_t checkpoint = row->present ? row->checkpoint : SHARED_NONE;

    if (checkpoint == SHARED_END ||
        (row->present && row->owner != 0 && row->timeout + age_ns(world) > wall(world, member)))
        return;
    put(world, member, shard, member->name, checkpoint);
    memory->reading = true;
    memory->started = false; /* Nothing to commit. */
    memory->at = checkpoint == SHARED_NONE ? 0 : checkpoint;
}

static void consume(struct shared_world *world, struct shared_member *member, ks_shard shard)
{
    struct shared_memory *memory = &member->shards[shard];
    struct shared_shard *stream = &world->shards[shard];
    uint32_t some = (uint32_t)ks_prng_between(&world->prng, 0, 10);

    for (; some > 0 && memory->at < stream->count; some--) {
        stream->settled[memory->at++] = true;
        memory->started = true;
    }
}

static void release(struct shared_world *world, struct shared_member *member, ks_shard shard)
{
    struct shared_memory *memory = &member->shards[shard];
    const struct shared_row *row = &world->rows[shard];

    memory->reading = false;
    if (row->owner == member->name)
        put(world, member, shard, 0, row->checkpoint == SHARED_END ? SHARED_END : place_of(memory));
    else if (!tolerates(world, member, shard))
        fails(world, member);
}

static void commit(struct shared_world *world, struct shared_member *member, ks_shard shard)
{
    struct shared_memory *memory = &member->shards[shard];
    const struct shared_shard *stream = &world->shards[shard];
    bool at_end = stream->closed && memory->at == stream->count;
    bool idle = member->fine && memory->timeout + age_ns(world) / 2 < wall(world, member);

    if (!memory->started && !at_end && !idle)
        return;
    if (world->rows[shard].owner != member->name) {
        if (!tolerates(world, member, shard))
            fails(world, member);
        return;
    }
    memory->started = false;
    put(world, member, shard, member->name, at_end ? SHARED_END : place_of(memory));
    if (at_end)
        release(world, member, shard);
}

/* ---- The list, and who leads ---- */

static uint32_t shards_of(const struct shared_world *world, bool filtered, ks_shard *ret_shards)
{
    uint32_t count = 0;

    for (ks_shard shard = 0; shard < world->shard_count; shard++)
        if (!filtered || world->rows[shard].checkpoint != SHARED_END)
            ret_shards[count++] = shard;
    return count;
}

static bool same(const ks_shard *a, uint32_t a_count, const ks_shard *b, uint32_t b_count)
{
    return a_count == b_count && memcmp(a, b, a_count * sizeof *a) == 0;
}

static void lead(struct shared_world *world, struct shared_member *member)
{
    struct shared_meta *meta = &world->meta;
    uint64_t now = wall(world, member);
    ks_shard shards[SHARED_SHARDS];
    uint32_t count;

    if (meta->leader != 0 && meta->leader != member->name && meta->leader_rev + age_ns(world) > now)
        return;
    meta->leader = member->name;
    meta->leader_rev = now;
    if (meta->list_rev + PERIOD * NS_PER_US > now)
        return;
    count = shards_of(world, true, shards);
    if (count == 0 || same(shards, count, meta->list, meta->list_count))
        return;
    memcpy(meta->list, shards, sizeof shards);
    meta->list_count = count;
    meta->list_rev = now;
}

/* refreshShards: true if everything is to be stopped and divided anew. */
static bool look(struct shared_world *world, struct shared_member *member)
{
    struct shared_meta *meta = &world->meta;
    uint64_t now = wall(world, member);
    uint64_t most = age_ns(world) + (member->fine ? PERIOD * NS_PER_US : 0);
    uint32_t index = 0;
    uint32_t total = 0;
    bool changed;

    meta->clients[member->name] = now;
    for (uint32_t name = 1; name < SHARED_NAMES; name++) {
        bool live = meta->clients[name] != 0 && meta->clients[name] + most > now;

        total += live;
        index += live && meta->ranks[name] < meta->ranks[member->name];
    }
    if (index == 0)
        lead(world, member);
    else if (meta->leader == member->name)
        meta->leader = 0;
    if (meta->list_count == 0) {
        meta->list_count = shards_of(world, false, meta->list);
        meta->list_rev = now;
    }
    changed = index != member->index || total != member->total ||
              !same(meta->list, meta->list_count, member->list, member->list_count);
    member->index = index;
    member->total = total;
    member->list_count = meta->list_count;
    memcpy(member->list, meta->list, sizeof member->list);
    return changed;
}

void shared_kinsumer_turn(struct shared_world *world, struct shared_member *member)
{
    if (!member->alive)
        member->begun = false;
    if (!member->alive || world->now < member->paused_until || world->now < world->away_until)
        return;
    if (!member->begun)
        begin(world, member);
    /* Before anything else: who wakes has records in its buffer. */
    for (ks_shard shard = 0; shard < world->shard_count; shard++)
        if (member->shards[shard].reading)
            consume(world, member, shard);
    for (ks_shard shard = 0; world->now >= member->commit_at && shard < world->shard_count; shard++)
        if (member->begun && member->shards[shard].reading)
            commit(world, member, shard);
    if (world->now >= member->commit_at)
        member->commit_at = world->now + SIM_SECOND;
    if (member->begun && world->now >= member->look_at) {
        member->look_at = world->now + PERIOD;
        if (look(world, member))
            for (ks_shard shard = 0; shard < world->shard_count; shard++)
                if (member->begun && member->shards[shard].reading)
                    release(world, member, shard);
    }
    for (uint32_t i = 0; member->begun && i < member->list_count; i++)
        if (i % member->total == member->index && !member->shards[member->list[i]].reading)
            capture(world, member, member->list[i]);
}
