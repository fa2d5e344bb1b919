/* SPDX-License-Identifier: Apache-2.0 */
/* What makes a fleet of KCL 3.x of one of 2.x: rows that say how it agrees, reports, an index by owners that is behind
 * the rows, and a model of the leader's assignments. Some member leads; it assigns what is free or has run out to
 * whoever reports and has least, has leases handed on from who has most, and takes them by force after 40 s. One that
 * sleeps while another leads writes, when it wakes, what it had decided before: it does not know yet. The fleet changes
 * its manners in both directions, and its rows move into one table. */
#include "shared_member.h"

#include <string.h>

#define LEADER_SPAN (20 * SIM_SECOND)
#define BEAT_EVERY (5 * SIM_SECOND)
#define HAND_OVER (40 * SIM_SECOND)
/* Who knows how the fleet agrees has had time to notice it. */
#define NOTICED (60 * SIM_SECOND)

void kcl_begin(struct shared_world *world)
{
    static const enum ks_kcl_version words[] = {KS_KCL_UPGRADE_FROM_2X, KS_KCL_3X_WITH_ROLLBACK,
                                                KS_KCL_2X, KS_KCL_3X};
    sim_time at = 0;

    for (uint32_t i = 0; i < KCL_FLIPS; i++) {
        world->kcl.flips[i] = (struct kcl_flip){at, words[ks_prng_below(&world->prng, 4)]};
        at += ks_prng_between(&world->prng, 5 * SIM_SECOND, 30 * SIM_SECOND);
    }
    world->kcl.moved_at = shared_chance(world, 300) ? 0
                          : shared_chance(world, 500)
                              ? INT64_MAX
                              : ks_prng_between(&world->prng, SIM_SECOND, 60 * SIM_SECOND);
    world->config.report_every = ks_span_ms(5000);
    world->config.hand_over = ks_span_ms(25000);
}

static enum ks_kcl_version version_of(const struct shared_world *world)
{
    enum ks_kcl_version version = KS_KCL_UNSAID;

    for (uint32_t i = 0; i < KCL_FLIPS && world->kcl.flips[i].at <= world->now; i++)
        version = world->kcl.flips[i].version;
    return version;
}

bool kcl_is_3x(const struct shared_world *world)
{
    const enum ks_kcl_version version = version_of(world);

    return world->fleet->led && (version == KS_KCL_3X || version == KS_KCL_3X_WITH_ROLLBACK);
}

/* Since when it is of the manners that it has now. */
static sim_time flipped_at(const struct shared_world *world)
{
    sim_time at = 0;

    for (uint32_t i = 0; i < KCL_FLIPS && world->kcl.flips[i].at <= world->now; i++)
        at = world->kcl.flips[i].at;
    return at;
}

static bool is_led(const struct shared_world *world)
{
    return world->kcl.beat != 0 && world->now - world->kcl.beat_at < 2 * BEAT_EVERY;
}

/* ---- What nodes ask for ---- */

static void tell_fleet(const struct shared_world *world, struct shared_request *request)
{
    const bool moved = world->now >= world->kcl.moved_at;

    request->kcl = (struct ks_kcl_rows){.version = KS_KCL_UNSAID};
    if (!world->fleet->led)
        return;
    if (request->ask.together == moved)
        request->kcl = (struct ks_kcl_rows){
            .version = version_of(world), .leader = world->kcl.beat, .leader_span = {LEADER_SPAN}};
    else if (moved && world->kcl.moved_at > 0)
        request->kcl = (struct ks_kcl_rows){.version = KS_KCL_2X, .tables = KS_KCL_TABLES_COMPLETE};
}

static void tell_owned(struct shared_world *world, struct shared_request *request)
{
    for (ks_shard shard = 0; shard < SHARED_SHARDS; shard++) {
        const struct shared_row *row = &world->rows[shard];
        const uint32_t owner = row->next != 0 ? row->next : row->owner;
        bool told = row->present && owner == request->ask.worker.worker;

        if (row->present && shared_chance(world, 50))
            told = !told;
        if (told && world->shards[shard].stream == shared_stream_of(world, request->node))
            request->rows[request->row_count++] =
                (struct ks_lease_row){.shard = shard, .parents = {KS_SHARD_NONE, KS_SHARD_NONE}};
    }
}

bool kcl_apply(struct shared_world *world, struct shared_request *request)
{
    const uint32_t name = request->ask.worker.worker;

    switch ((int)request->ask.operation) {
    case KS_STORE_READ_NEWS: tell_fleet(world, request); return true;
    case KS_STORE_READ_FLEET: return true;
    case KS_STORE_READ_OWNED: tell_owned(world, request); return true;
    case KS_STORE_HEARTBEAT:
        if (!world->fleet->led)
            shared_fail(world, "w%u reports to a fleet of 2.x", name);
        if (request->ask.expect_beat != 0 && world->kcl.reported[name] == 0)
            request->outcome = KS_REFUSED;
        else
            world->kcl.reported[name] = world->now;
        return true;
    case KS_STORE_SAY_GONE: world->kcl.reported[name] = 0; return true;
    default: return false;
    }
}

void kcl_asked(struct shared_world *world, const struct shared_request *request)
{
    const struct shared_row *row = &world->rows[request->ask.shard];
    const bool takes =
        request->ask.operation == KS_STORE_TAKE_OVER || request->ask.operation == KS_STORE_ASSIGN;

    if (takes && row->counter == request->ask.rev && row->owner != request->ask.worker.worker &&
        kcl_is_3x(world) && is_led(world) && world->now - world->kcl.led_at > NOTICED &&
        world->now - flipped_at(world) > NOTICED && world->away_until == 0)
        shared_fail(world, "shard-%u: w%u takes what a leader assigns", request->ask.shard,
                    request->ask.worker.worker);
}

/* ---- The leader ---- */

static bool is_active(const struct shared_world *world, uint32_t name)
{
    return world->kcl.reported[name] != 0 &&
           world->now - world->kcl.reported[name] <= 2 * world->config.report_every.us;
}

static uint32_t count_of(const struct shared_world *world, uint32_t name)
{
    uint32_t count = 0;

    for (ks_shard shard = 0; shard < world->shard_count; shard++) {
        const struct shared_row *row = &world->rows[shard];

        count += row->present && row->checkpoint != SHARED_END &&
                 (row->next != 0 ? row->next : row->owner) == name;
    }
    return count;
}

/* Of those who report: who has least, or most; 0: nobody reports. */
static uint32_t worker_with(const struct shared_world *world, bool most)
{
    uint32_t best = 0;

    for (uint32_t name = 1; name < SHARED_NAMES; name++) {
        if (!is_active(world, name))
            continue;
        if (best == 0 || (most ? count_of(world, name) > count_of(world, best)
                               : count_of(world, name) < count_of(world, best)))
            best = name;
    }
    return best;
}

static void assign(struct shared_world *world, ks_shard shard, uint32_t to)
{
    struct shared_row *row = &world->rows[shard];
    const struct shared_row before = *row;

    row->owner = to;
    row->next = 0;
    row->counter++;
    world->kcl.seen[shard] = false; /* He has until the next run to begin it. */
    shared_say(world, "leader: shard-%u is assigned to w%u", shard, to);
    kcl_changed(world, shard, &before);
}

static bool has_run_out(struct shared_world *world, ks_shard shard)
{
    const struct shared_row *row = &world->rows[shard];

    if (!world->kcl.seen[shard] || world->kcl.counters[shard] != row->counter)
        world->kcl.seen_at[shard] = world->now;
    world->kcl.seen[shard] = true;
    world->kcl.counters[shard] = row->counter;
    return row->owner == 0 ||
           world->now - world->kcl.seen_at[shard] > world->config.lease_duration.us;
}

/* In peace one of ours has handed on what it was asked for, whether it reads it or waits for its parents. */
static void check_handed_on(struct shared_world *world, ks_shard shard)
{
    const struct shared_row *row = &world->rows[shard];

    for (uint32_t node = 0; world->peace && node < SHARED_NODES; node++)
        if (world->nodes[node].core != NULL && world->nodes[node].name == row->owner &&
            row->given_at > 61 * SIM_SECOND)
            shared_fail(world, "shard-%u: w%u did not hand it on in 40 s", shard, row->owner);
}

/* It has had its time: the leader assigns, whether it is ready or not. */
static void force(struct shared_world *world, ks_shard shard, uint32_t to)
{
    check_handed_on(world, shard);
    world->kcl.forced = true;
    assign(world, shard, to);
    world->kcl.forced = false;
}

static void decide(const struct shared_world *world, struct shared_member *member, ks_shard shard,
                   enum kcl_decision decision, uint32_t to)
{
    const struct shared_row *row = &world->rows[shard];

    if (member->order_count < SHARED_SHARDS)
        member->orders[member->order_count++] =
            (struct kcl_order){decision, shard, row->owner, row->next, to};
}

/* Conditions name who has it and who is to have it, and nothing else. */
static void obey(struct shared_world *world, struct shared_member *member)
{
    for (uint32_t i = 0; i < member->order_count; i++) {
        const struct kcl_order *order = &member->orders[i];
        struct shared_row *row = &world->rows[order->shard];

        if (!row->present || row->damage != SHARED_SOUND || row->owner != order->owner ||
            row->next != order->next || row->checkpoint == SHARED_END)
            continue;
        if (order->decision == KCL_HANDS_OVER) {
            row->next = order->to;
            row->given_at = world->now;
            shared_say(world, "leader: shard-%u is to go from w%u to w%u", order->shard, row->owner,
                       order->to);
        } else if (order->decision == KCL_FORCES) {
            force(world, order->shard, order->to);
        } else {
            /* A worker may not have seen yet that a row is its own: one that was damaged, or of several streams. */
            if (row->next != 0 && world->damages == 0 && world->streams == 1)
                check_handed_on(world, order->shard);
            assign(world, order->shard, order->to);
        }
    }
    member->order_count = 0;
}

static void balance(struct shared_world *world, struct shared_member *member)
{
    const uint32_t from = worker_with(world, true);
    const uint32_t to = worker_with(world, false);

    if (from == 0 || count_of(world, from) < count_of(world, to) + 2)
        return;
    for (ks_shard shard = 0; shard < world->shard_count; shard++) {
        struct shared_row *row = &world->rows[shard];

        if (!row->present || row->checkpoint == SHARED_END || row->owner != from ||
            row->damage != SHARED_SOUND || row->next != 0 || !world->kcl.seen[shard])
            continue;
        decide(world, member, shard, KCL_HANDS_OVER, to);
        return;
    }
}

/* Leaders up to 3.4 do not assign a lease to the worker that already owns it. The simulated members of the library do
 * not resume such a lease after a restart, so the rule applies to sidecars only. */
static bool is_given(const struct shared_world *world, const struct shared_row *row, uint32_t to)
{
    bool ours = false;

    for (uint32_t node = 0; node < SHARED_NODES; node++)
        ours |= world->nodes[node].core != NULL && world->nodes[node].name == row->owner;
    return to != 0 && !(ours && to == row->owner);
}

static void lead(struct shared_world *world, struct shared_member *member)
{
    for (ks_shard shard = 0; shard < world->shard_count; shard++) {
        struct shared_row *row = &world->rows[shard];
        uint32_t least = worker_with(world, false);

        if (!row->present || row->checkpoint == SHARED_END || row->damage != SHARED_SOUND) {
            world->kcl.seen[shard] = false;
            continue;
        }
        if (has_run_out(world, shard)) {
            if (is_given(world, row, least))
                decide(world, member, shard, KCL_ASSIGNS, least);
        } else if (row->next != 0 && world->now - row->given_at > HAND_OVER) {
            decide(world, member, shard, KCL_FORCES, row->next);
        }
    }
    balance(world, member);
}

void kcl_leader_turn(struct shared_world *world, struct shared_member *member)
{
    const uint32_t number = (uint32_t)(member - world->members);

    obey(world, member);
    if (!kcl_is_3x(world))
        return;
    if (world->kcl.beat == 0 || world->now - world->kcl.beat_at >= LEADER_SPAN) {
        /* A new leader forgets what the last one saw. */
        world->kcl.leader = number;
        world->kcl.led_at = world->now;
        memset(world->kcl.seen, 0, sizeof world->kcl.seen);
        world->kcl.beat_at = world->now - BEAT_EVERY;
    }
    if (world->kcl.leader != number)
        return;
    if (world->now - world->kcl.beat_at >= BEAT_EVERY) {
        world->kcl.beat++;
        world->kcl.beat_at = world->now;
    }
    if (world->now < world->kcl.run_at)
        return;
    world->kcl.run_at = world->now + 2 * world->config.lease_duration.us;
    lead(world, member);
}

bool kcl_reports(const struct shared_world *world, uint32_t node)
{
    return !world->fleet->led ||
           is_active(world, world->nodes[node].name) ==
               (version_of(world) != KS_KCL_2X && shared_reads_all(world, node));
}
