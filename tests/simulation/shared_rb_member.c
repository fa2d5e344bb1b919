/* SPDX-License-Identifier: Apache-2.0 */
/* A process of kcl-rb 1.0.0, as its timer, its checkpointer and its consumers behave, with their defects: once a second
 * it leases every row that does not say SHARD_END, whether its time is over or not, reads it to the first empty answer,
 * and frees it, by writes that ask for nothing; it ends at a lease of another whose time is over, at a row that changes
 * under it, at NULL and "", at a child, at an error; and is started again. A checkpoint after the release names nobody.
 */
#include "shared_world.h"

#define NS_PER_SECOND UINT64_C(1000000000)

static void put(struct shared_world *world, ks_shard shard, struct shared_row row)
{
    const struct shared_row before = world->rows[shard];

    /* What changes nothing is seen by nobody. */
    row.put_at = before.stranger && row.owner == before.owner && row.timeout == before.timeout &&
                         row.checkpoint == before.checkpoint
                     ? before.put_at
                     : world->now;
    world->rows[shard] = row;
    shared_say(world, "member: shard-%u: w%u until %llu, checkpoint %lld", shard, row.owner,
               (unsigned long long)(row.timeout / NS_PER_SECOND), (long long)row.checkpoint);
    shared_changed(world, shard, &before);
}

/* PutItem: the whole item is what it writes. */
void shared_rb_put(struct shared_world *world, uint32_t owner, ks_shard shard, uint64_t timeout,
                   uint64_t checkpoint)
{
    put(world, shard,
        (struct shared_row){.present = true,
                            .owner = owner,
                            .timeout = owner == 0 ? 1 : timeout,
                            .checkpoint = checkpoint,
                            .nameless = owner == 0,
                            .stranger = true});
}

/* ---- Its life ---- */

static bool is_idle(const struct shared_member *member)
{
    bool idle = true;

    for (ks_shard shard = 0; shard < SHARED_SHARDS; shard++)
        idle &= !member->shards[shard].reading && !member->shards[shard].marked;
    return idle;
}

static void begin(struct shared_world *world, struct shared_member *member)
{
    for (ks_shard shard = 0; shard < SHARED_SHARDS; shard++)
        member->shards[shard] = (struct shared_memory){.checkpoint = SHARED_NONE};
    member->begun = true;
    member->look_at = world->now;
}

/* Nobody catches it; somebody starts it again. */
static void ends(struct shared_world *world, struct shared_member *member, const char *why,
                 ks_shard shard)
{
    shared_say(world, "member: w%u ends: shard-%u %s", member->name, shard, why);
    if (world->rb.given)
        shared_fail(world, "w%u ends at what was given back: shard-%u %s", member->name, shard,
                    why);
    begin(world, member);
    member->scan_at = world->now + ks_prng_between(&world->prng, SIM_SECOND, 3 * SIM_SECOND);
}

/* ---- A tick ---- */

/* What it remembers is what the row says, if it says anything. */
static void fetch(const struct shared_world *world, struct shared_memory *memory, ks_shard shard)
{
    const struct shared_row *row = &world->rows[shard];

    if (row->present && (row->masked || row->checkpoint != SHARED_NONE))
        memory->checkpoint = row->masked ? SHARED_END : row->checkpoint;
}

static void read_row(const struct shared_world *world, struct shared_memory *memory, ks_shard shard)
{
    memory->owner = world->rows[shard].owner;
    memory->timeout = world->rows[shard].timeout;
}

static void list(struct shared_world *world, struct shared_member *member)
{
    member->look_at = world->now + SIM_SECOND;
    if (world->zombies && !world->peace && shared_chance(world, 5)) {
        ks_shard shard = (ks_shard)ks_prng_below(&world->prng, world->shard_count);

        shared_say(world, "member: shard-%u is not listed", shard);
        world->rows[shard] = (struct shared_row){.checkpoint = SHARED_NONE};
    }
    for (ks_shard shard = 0; shard < world->shard_count; shard++) {
        struct shared_memory *memory = &member->shards[shard];

        fetch(world, memory, shard);
        if (memory->checkpoint == SHARED_END)
            continue;
        if (world->shards[shard].parents[0] != KS_SHARD_NONE) {
            ends(world, member, "is a child", shard);
            return;
        }
        memory->marked = true;
        read_row(world, memory, shard);
    }
}

static void lease(struct shared_world *world, struct shared_member *member, ks_shard shard)
{
    struct shared_memory *memory = &member->shards[shard];
    const struct shared_row *row = &world->rows[shard];
    const uint64_t now = shared_wall(world, member->wall_error);

    memory->marked = false;
    /* It reads the row twice, and looks at SHARD_END the first time. */
    if (world->zombies && shared_chance(world, 300))
        read_row(world, memory, shard);
    if (row->nameless) {
        ends(world, member, "has an owner of NULL", shard);
        return;
    }
    if (memory->owner != 0 && memory->owner != member->name && now > memory->timeout) {
        ends(world, member, "is a lease that is over", shard);
        return;
    }
    /* That it is free is all that it asks for: what came and went in between, a zombie overwrites. */
    if (row->owner != memory->owner ||
        (row->timeout != memory->timeout && (memory->owner != 0 || !world->zombies))) {
        ends(world, member, "was leased in between", shard);
        return;
    }
    memory->timeout = (now + world->rb.failover_ns) / NS_PER_SECOND * NS_PER_SECOND;
    shared_rb_put(world, member->name, shard, memory->timeout, memory->checkpoint);
    memory->reading = true;
    memory->started = false;
}

static void release(struct shared_world *world, struct shared_member *member, ks_shard shard)
{
    struct shared_row after = world->rows[shard];

    member->shards[shard].reading = false;
    if (!after.present)
        after = (struct shared_row){.present = true, .checkpoint = SHARED_NONE, .stranger = true};
    after.owner = 0;
    after.nameless = false;
    put(world, shard, after);
}

/* A late checkpoint names nobody when its lease was freed in between. It ends at such a row each time, which only a
 * sidecar mends that has room for it. */
static uint32_t late_owner(struct shared_world *world, const struct shared_member *member)
{
    return shared_chance(world, 500) || world->config.capacity != 0 ? member->name : 0;
}

static void checkpoint(struct shared_world *world, struct shared_member *member, ks_shard shard)
{
    struct shared_memory *memory = &member->shards[shard];

    memory->checkpoint = memory->at;
    if (world->zombies && !world->peace && shared_chance(world, 200)) {
        agenda_add(&world->agenda,
                   world->now + ks_prng_between(&world->prng, SIM_SECOND, 20 * SIM_SECOND),
                   &(struct happening){.kind = HAPPENS_PUT,
                                       .shard = shard,
                                       .count = late_owner(world, member),
                                       .epoch = memory->timeout,
                                       .first = memory->at});
        return;
    }
    shared_rb_put(world, member->name, shard, memory->timeout, memory->at);
}

static void consume(struct shared_world *world, struct shared_member *member, ks_shard shard)
{
    struct shared_memory *memory = &member->shards[shard];
    struct shared_shard *stream = &world->shards[shard];
    /* A slow one reads for longer than its lease. */
    uint64_t some = world->zombies ? (uint64_t)ks_prng_between(&world->prng, 1, 10) : UINT64_MAX;

    if (!memory->started) {
        fetch(world, memory, shard);
        if (memory->checkpoint == SHARED_END) {
            ends(world, member, "has no place SHARD_END", shard);
            return;
        }
        memory->at = memory->checkpoint == SHARED_NONE ? 0 : memory->checkpoint;
        memory->started = true;
    }
    if (memory->at >= stream->count) {
        release(world, member, shard);
        return;
    }
    for (; some > 0 && memory->at < stream->count; some--)
        stream->settled[memory->at++] = true;
    if (!world->zombies || world->peace || shared_chance(world, 300))
        checkpoint(world, member, shard);
}

void shared_rb_turn(struct shared_world *world, struct shared_member *member)
{
    const bool leases = shared_chance(world, 700);

    if (!member->begun || !member->alive)
        begin(world, member);
    member->begun = member->alive;
    if (!member->alive && !world->zombies && !world->rb.masks)
        world->rb.stop_at = 0;
    if (!member->alive || world->now < member->scan_at)
        return;
    /* Whoever sleeps in the middle of it is a zombie when it wakes; beside one that sleeps, we take it for gone. */
    if (world->now < member->paused_until &&
        (world->zombies || (world->rb.masks && is_idle(member))))
        return;
    if (world->now < world->away_until) {
        ends(world, member, "is out of reach", 0);
        return;
    }
    if (is_idle(member) && world->now >= member->look_at && world->now < world->rb.stop_at)
        list(world, member);
    for (ks_shard shard = 0; leases && shard < world->shard_count; shard++)
        if (member->shards[shard].marked)
            lease(world, member, shard);
    for (ks_shard shard = 0; shard < world->shard_count; shard++)
        if (member->shards[shard].reading)
            consume(world, member, shard);
}
