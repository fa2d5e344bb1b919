/* SPDX-License-Identifier: Apache-2.0 */
/* A member of vmware-go-kcl, as its worker loop, its polling consumer and its checkpointer behave, with their defects:
 * the checkpoint is an unconditional PutItem of what memory holds, also when memory is that of another owner or of
 * none; it wipes claims; a lease is taken by its own clock without a margin; a claim ends after 120 s of silence. */
#include "shared_member.h"

#define NS_PER_SECOND UINT64_C(1000000000)

static uint64_t wall(const struct shared_world *world, const struct shared_member *member)
{
    return shared_wall(world, member->wall_error);
}

static uint64_t lease_ns(const struct shared_world *world)
{
    return (uint64_t)world->config.lease_duration.us * 1000;
}

/* PutItem: the whole item is what we write. */
static void put(struct shared_world *world, ks_shard shard, struct shared_row row)
{
    struct shared_row before = world->rows[shard];

    row.present = true;
    world->rows[shard] = row;
    shared_say(world, "member: puts shard-%u: w%u until %llu, claim w%u, checkpoint %lld", shard,
               row.owner, (unsigned long long)(row.timeout / NS_PER_SECOND), row.claim,
               (long long)row.checkpoint);
    shared_changed(world, shard, &before);
}

void shared_member_put(struct shared_world *world, uint32_t owner, ks_shard shard, uint64_t timeout,
                       uint64_t checkpoint)
{
    put(world, shard,
        (struct shared_row){.owner = owner == 0 ? SHARED_EMPTY : owner,
                            .timeout = timeout,
                            .checkpoint = checkpoint});
}

/* GetLease: take a free or expired lease, or renew our own. */
static bool get_lease(struct shared_world *world, struct shared_member *member, ks_shard shard)
{
    struct shared_memory *memory = &member->shards[shard];
    const struct shared_row *row = &world->rows[shard];
    uint64_t now = wall(world, member);
    uint64_t until = now + lease_ns(world);

    if (world->stealing && row->present && row->claim != 0 && row->claim != member->name &&
        (row->timeout == 0 || row->timeout + 120 * NS_PER_SECOND > now))
        return false;
    if (row->present && row->owner != 0 && row->timeout == 0)
        return false; /* attribute_not_exists(AssignedTo) cannot hold. */
    if (row->present && row->owner != 0 && row->owner != member->name && now < row->timeout)
        return false;
    if (row->checkpoint == SHARED_END && row->present)
        return false;
    memory->owner = member->name;
    memory->timeout = member->fine ? until : until / NS_PER_SECOND * NS_PER_SECOND;
    /* What it read of the checkpoint it read just before; the race with another's checkpoint is a zombie's. */
    put(world, shard,
        (struct shared_row){.owner = member->name,
                            .timeout = memory->timeout,
                            .checkpoint = row->present ? row->checkpoint : SHARED_NONE});
    return true;
}

static void release(struct shared_world *world, struct shared_member *member, ks_shard shard)
{
    struct shared_memory *memory = &member->shards[shard];
    struct shared_row after = world->rows[shard];

    memory->reading = false;
    memory->owner = 0;
    if (!after.present || after.owner != member->name)
        return;
    after.owner = 0;
    put(world, shard, after);
}

/* CheckpointSequence. A careful one, where the world has no zombies, looks first. */
static void checkpoint(struct shared_world *world, struct shared_member *member, ks_shard shard)
{
    struct shared_memory *memory = &member->shards[shard];
    const struct shared_row *row = &world->rows[shard];
    const struct shared_shard *stream = &world->shards[shard];
    bool at_end = stream->closed && memory->at == stream->count;

    memory->checkpoint = at_end ? SHARED_END : memory->at;
    if (!world->zombies && (row->owner != member->name || row->timeout != memory->timeout))
        return;
    if (world->zombies && shared_chance(world, 200)) {
        agenda_add(&world->agenda,
                   world->now + ks_prng_between(&world->prng, SIM_SECOND, 20 * SIM_SECOND),
                   &(struct happening){.kind = HAPPENS_PUT,
                                       .shard = shard,
                                       .count = memory->owner,
                                       .epoch = memory->timeout,
                                       .first = memory->checkpoint});
        return;
    }
    shared_member_put(world, memory->owner, shard, memory->timeout, memory->checkpoint);
    if (at_end)
        release(world, member, shard);
}

/* One turn of the polling consumer: renew, read, process, sometimes checkpoint. */
static void consume(struct shared_world *world, struct shared_member *member, ks_shard shard)
{
    struct shared_memory *memory = &member->shards[shard];
    struct shared_shard *stream = &world->shards[shard];
    const struct shared_row *row = &world->rows[shard];
    uint32_t some = (uint32_t)ks_prng_between(&world->prng, 1, 10);

    if (stream->parents[0] != KS_SHARD_NONE &&
        world->rows[stream->parents[0]].checkpoint != SHARED_END)
        return; /* waitOnParentShard: it does not renew, either. */
    if (wall(world, member) + lease_ns(world) / 2 > memory->timeout) {
        bool others = row->owner != member->name;

        /* It takes again what another had meanwhile, and goes on where it was: a zombie's, too. */
        if ((others && (!world->zombies || wall(world, member) < row->timeout)) ||
            !get_lease(world, member, shard)) {
            release(world, member, shard);
            return;
        }
    }
    if (!memory->started) {
        memory->at =
            row->checkpoint == SHARED_NONE || row->checkpoint == SHARED_END ? 0 : row->checkpoint;
        memory->started = true;
    }
    for (; some > 0 && memory->at < stream->count; some--)
        stream->settled[memory->at++] = true;
    if (world->peace || shared_chance(world, 300))
        checkpoint(world, member, shard);
}

/* The event loop: one lease a turn, and one claim. */
static void acquire(struct shared_world *world, struct shared_member *member)
{
    uint32_t at = (uint32_t)ks_prng_below(&world->prng, world->shard_count);

    for (uint32_t i = 0; i < world->shard_count; i++) {
        ks_shard shard = (at + i) % world->shard_count;
        struct shared_memory *memory = &member->shards[shard];
        struct shared_row *row = &world->rows[shard];

        if (memory->reading || (row->present && row->checkpoint == SHARED_END) ||
            !get_lease(world, member, shard))
            continue;
        memory->reading = true;
        memory->started = false;
        return;
    }
}

static void claim(struct shared_world *world, struct shared_member *member)
{
    uint32_t counts[SHARED_NAMES] = {0};
    uint32_t owners = 0;
    uint32_t open = 0;
    uint32_t victim = 0;

    for (ks_shard shard = 0; shard < world->shard_count; shard++) {
        const struct shared_row *row = &world->rows[shard];

        if (!row->present || row->checkpoint == SHARED_END)
            continue;
        open++;
        if (row->owner == 0)
            return; /* AssignedToNotFoundForShard. */
        owners += counts[row->owner]++ == 0;
        victim = counts[row->owner] > counts[victim] ? row->owner : victim;
    }
    if (counts[member->name] == 0)
        owners++;
    if (owners == 0 || victim == member->name || counts[member->name] >= open / owners)
        return;
    for (ks_shard shard = 0; shard < world->shard_count; shard++) {
        struct shared_row *row = &world->rows[shard];

        /* A shard without a checkpoint cannot be claimed. */
        if (!row->present || row->owner != victim || row->claim != 0 ||
            row->checkpoint == SHARED_NONE || row->checkpoint == SHARED_END)
            continue;
        row->claim = member->name;
        return;
    }
}

void shared_member_turn(struct shared_world *world, struct shared_member *member)
{
    if (!member->alive || world->now < member->paused_until || world->now < world->away_until)
        return;
    for (ks_shard shard = 0; shard < world->shard_count; shard++)
        if (member->shards[shard].reading)
            consume(world, member, shard);
    if (shared_chance(world, 200))
        acquire(world, member);
    if (world->stealing && shared_chance(world, 50))
        claim(world, member);
}
