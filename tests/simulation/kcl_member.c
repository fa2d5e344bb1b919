/* SPDX-License-Identifier: Apache-2.0 */
/* A member of the KCL 2.x, as its lease taker, lease renewer, shard consumers and syncer behave, with their defects: it
 * goes on with a lease that was taken from it until its next write is refused, drops a lease whose checkpoint was not
 * answered, gives nothing back when it stops, takes all rows that nobody had yet whatever its share, takes children
 * before their time and finished rows for ever, and knows nothing of what a row said before its first scan. */
#include "shared_member.h"

static sim_time lease_us(const struct shared_world *world)
{
    return world->config.lease_duration.us;
}

/* A write of a row as it was seen with this counter. */
static bool cas(struct shared_world *world, ks_shard shard, uint64_t counter, uint32_t owner,
                uint64_t checkpoint)
{
    struct shared_row *row = &world->rows[shard];
    const struct shared_row before = *row;

    if (!row->present || row->counter != counter || row->damage != SHARED_SOUND)
        return false;
    row->counter++;
    row->next = row->owner == owner ? row->next : 0;
    row->owner = owner;
    row->checkpoint = checkpoint;
    shared_say(world, "member: w%u writes shard-%u (counter %llu, checkpoint %lld)", owner, shard,
               (unsigned long long)row->counter, (long long)checkpoint);
    kcl_changed(world, shard, &before);
    return true;
}

static void make_row(struct shared_world *world, ks_shard shard)
{
    const struct shared_row before = world->rows[shard];

    if (before.present || world->shards[shard].ended || shared_is_gone(world, shard))
        return;
    world->rows[shard] = (struct shared_row){.present = true,
                                             .checkpoint = SHARED_NONE,
                                             .begin = world->initial == SHARED_LATEST &&
                                                              shared_has_begun(world, shard)
                                                          ? SHARED_TRIM_HORIZON
                                                          : world->initial,
                                             .since = SHARED_NEVER,
                                             .ranged = !world->unranged};
    kcl_changed(world, shard, &before);
}

static void renew(struct shared_world *world, struct shared_member *member, ks_shard shard)
{
    struct shared_memory *memory = &member->shards[shard];

    if (cas(world, shard, memory->counter, member->name, world->rows[shard].checkpoint))
        memory->counter++;
    else
        memory->reading = false;
}

/* The checkpoint is a renewal, too. An answer that is lost loses the lease. */
static void checkpoint(struct shared_world *world, struct shared_member *member, ks_shard shard,
                       uint64_t to)
{
    struct shared_memory *memory = &member->shards[shard];

    if (!cas(world, shard, memory->counter, member->name, to) || shared_chance(world, 30))
        memory->reading = false;
    memory->counter++;
}

/* Some parent is to have a row, and has none. */
static bool is_orphan(const struct shared_world *world, ks_shard child)
{
    for (ks_shard parent = 0; parent < child; parent++)
        if (shared_is_parent(world, parent, child) && shared_waits_for(world, parent, child) &&
            !world->rows[parent].present)
            return true;
    return false;
}

static void end(struct shared_world *world, struct shared_member *member, ks_shard shard)
{
    /* Of two that are merged it waits for the row of the other; or drops its own, for somebody else to try. */
    for (ks_shard child = 0; child < world->shard_count; child++)
        if (shared_is_parent(world, shard, child) && is_orphan(world, child)) {
            member->shards[shard].reading = !shared_chance(world, 30);
            return;
        }
    for (ks_shard child = 0; child < world->shard_count; child++)
        if (shared_is_parent(world, shard, child) && world->rows[shard].present)
            make_row(world, child);
    checkpoint(world, member, shard, SHARED_END);
    member->shards[shard].reading = false;
}

/* 3.x: a lease that is to be handed on is, after a while; by a write that moves the counter. */
static void hand_on(struct shared_world *world, struct shared_member *member, ks_shard shard)
{
    struct shared_memory *memory = &member->shards[shard];
    struct shared_row *row = &world->rows[shard];
    const struct shared_row before = *row;

    if (row->damage != SHARED_SOUND || row->next == 0 || row->owner != member->name ||
        row->counter != memory->counter || !shared_chance(world, 100))
        return;
    row->owner = row->next;
    row->next = 0;
    row->counter++;
    memory->reading = false;
    shared_say(world, "member: w%u hands shard-%u on to w%u", member->name, shard, row->owner);
    kcl_changed(world, shard, &before);
}

/* 3.x: what was assigned is begun as it stands. */
static void adopt(struct shared_world *world, struct shared_member *member)
{
    for (ks_shard shard = 0; shard < world->shard_count; shard++) {
        struct shared_memory *memory = &member->shards[shard];
        const struct shared_row *row = &world->rows[shard];

        memory->marked = false;
        if (!row->present || row->owner != member->name || row->next != 0 || memory->reading ||
            row->damage != SHARED_SOUND)
            continue;
        memory->reading = true;
        memory->started = false;
        memory->counter = row->counter;
    }
}

static void consume(struct shared_world *world, struct shared_member *member, ks_shard shard)
{
    struct shared_memory *memory = &member->shards[shard];
    struct shared_shard *stream = &world->shards[shard];
    const struct shared_row *row = &world->rows[shard];
    uint32_t some = (uint32_t)ks_prng_between(&world->prng, 1, 10);

    for (ks_shard parent = 0; parent < shard; parent++)
        if (shared_is_parent(world, parent, shard) && world->rows[parent].present &&
            world->rows[parent].checkpoint != SHARED_END)
            return;
    if (row->checkpoint == SHARED_END) {
        memory->reading = false;
        return;
    }
    if (!memory->started) {
        /* LATEST is now, for it: what came before is nobody's. */
        memory->at = row->checkpoint == SHARED_NONE ? shared_begin_of(world, shard, world->now)
                                                    : row->checkpoint;
        for (uint64_t at = 0; row->begin == SHARED_LATEST && at < memory->at; at++)
            stream->settled[at] = true;
        memory->started = true;
    }
    if (shared_is_gone(world, shard))
        memory->at = stream->count;
    for (; some > 0 && memory->at < stream->count; some--)
        stream->settled[memory->at++] = true;
    if (stream->closed && memory->at == stream->count)
        end(world, member, shard);
    else if (world->peace || shared_chance(world, 300))
        checkpoint(world, member, shard, memory->at);
}

static bool is_available(const struct shared_world *world, const struct shared_member *member,
                         ks_shard shard)
{
    return world->rows[shard].owner == 0 ||
           world->now - member->shards[shard].seen_at > lease_us(world) + member->wall_error / 2;
}

static void see(struct shared_world *world, struct shared_member *member, ks_shard shard)
{
    struct shared_memory *memory = &member->shards[shard];
    const struct shared_row *row = &world->rows[shard];

    if (!memory->known || memory->seen != row->counter)
        memory->seen_at = memory->known || row->owner != 0 ? world->now : INT64_MIN / 4;
    memory->known = true;
    memory->seen = row->counter;
}

/* What is to be taken, at the next turn and as it is now: B.6 of the manners. */
static void scan(struct shared_world *world, struct shared_member *member)
{
    uint32_t counts[SHARED_NAMES] = {0};
    uint32_t owners = 1;
    uint32_t leases = 0;
    uint32_t free = 0;
    uint32_t victim = 0;
    uint32_t share;
    uint32_t need;

    for (ks_shard shard = 0; shard < world->shard_count; shard++) {
        uint32_t owner = world->rows[shard].owner;

        member->shards[shard].known &= world->rows[shard].present;
        if (!world->rows[shard].present || world->rows[shard].damage != SHARED_SOUND)
            continue;
        see(world, member, shard);
        leases++;
        if (is_available(world, member, shard)) {
            free++;
            member->shards[shard].marked =
                world->now - member->shards[shard].seen_at > 3 * lease_us(world);
            continue;
        }
        owners += counts[owner]++ == 0 && owner != member->name;
        victim = counts[owner] > counts[victim] ? owner : victim;
    }
    share = owners >= leases ? 1 : (leases + owners - 1) / owners;
    need = share > counts[member->name] ? share - counts[member->name] : 0;
    if (free == 0 && (counts[victim] < share || (counts[victim] == share && need <= 1)))
        need = 0;
    if (free == 0 && need > 1)
        need = 1;
    for (ks_shard shard = 0; shard < world->shard_count && need > 0; shard++) {
        struct shared_memory *memory = &member->shards[shard];

        if (!memory->known || memory->marked || memory->reading ||
            (free == 0 ? world->rows[shard].owner != victim || victim == member->name
                       : !is_available(world, member, shard)))
            continue;
        memory->marked = true;
        need--;
    }
}

static void take(struct shared_world *world, struct shared_member *member, ks_shard shard)
{
    struct shared_memory *memory = &member->shards[shard];

    memory->marked = false;
    if (memory->reading ||
        !cas(world, shard, memory->seen, member->name, world->rows[shard].checkpoint))
        return;
    memory->reading = true;
    memory->started = false;
    memory->counter = memory->seen + 1;
}

/* The audit: rows for open shards that have none, and for their ancestors first. */
void kcl_sync(struct shared_world *world)
{
    for (ks_shard shard = 0; shard < world->shard_count; shard++) {
        if (!shared_is_old(world, shard) && !is_orphan(world, shard) &&
            world->now >= world->shards[shard].shown_at)
            make_row(world, shard);
    }
}

static void clean_up(struct shared_world *world)
{
    for (ks_shard shard = 0; shard < world->shard_count; shard++) {
        struct shared_row *row = &world->rows[shard];
        const struct shared_row before = *row;
        bool used = false;

        for (ks_shard other = 0; other < world->shard_count; other++) {
            used |= shared_is_parent(world, other, shard) && world->rows[other].present;
            used |= shared_is_parent(world, shard, other) && !world->shards[other].ended &&
                    (!world->rows[other].present || world->rows[other].checkpoint == SHARED_NONE);
        }
        if (!row->present || row->checkpoint != SHARED_END || used || row->damage != SHARED_SOUND ||
            world->now - row->moved_at < world->config.keep.us)
            continue;
        row->present = false;
        kcl_changed(world, shard, &before);
    }
}

void kcl_member_turn(struct shared_world *world, struct shared_member *member)
{
    const bool renews = world->now >= member->renew_at;

    if (!member->alive)
        member->order_count = 0;
    if (!member->alive || world->now < member->paused_until || world->now < world->away_until)
        return;
    if (world->fleet->led)
        world->kcl.reported[member->name] = world->now;
    kcl_leader_turn(world, member);
    if (renews)
        member->renew_at = world->now + lease_us(world) / 3;
    for (ks_shard shard = 0; shard < world->shard_count; shard++) {
        if (member->shards[shard].marked)
            take(world, member, shard);
        if (member->shards[shard].reading && renews)
            renew(world, member, shard);
        if (member->shards[shard].reading)
            hand_on(world, member, shard);
        if (member->shards[shard].reading)
            consume(world, member, shard);
    }
    if (shared_chance(world, 20))
        kcl_sync(world);
    if (shared_chance(world, 5))
        clean_up(world);
    if (world->now < member->scan_at)
        return;
    member->scan_at = world->now + 2 * lease_us(world);
    if (kcl_is_3x(world))
        adopt(world, member);
    else
        scan(world, member);
}
