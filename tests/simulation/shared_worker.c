/* SPDX-License-Identifier: Apache-2.0 */
/* A process of ours: a node for each stream that it reads. And what becomes of processes. */
#include "shared_world.h"

uint32_t shared_stream_of(const struct shared_world *world, uint32_t node)
{
    return node % world->streams;
}

uint32_t shared_worker_of(const struct shared_world *world, uint32_t node)
{
    return node - node % world->streams;
}

bool shared_reads_all(const struct shared_world *world, uint32_t node)
{
    bool all = true;

    for (uint32_t i = 0; i < world->streams; i++)
        all &= world->reads[shared_worker_of(world, node) + i];
    return all;
}

bool shared_worker_runs(const struct shared_world *world, uint32_t node)
{
    bool runs = false;

    for (uint32_t i = 0; i < world->streams; i++)
        runs |= world->nodes[shared_worker_of(world, node) + i].core != NULL;
    return runs;
}

void shared_worker_start(struct shared_world *world, uint32_t node, uint32_t name)
{
    const uint32_t first = shared_worker_of(world, node);

    world->nodes[first].claim_at = (ks_instant){0};
    world->nodes[first].stole_at = 0;
    for (uint32_t i = 0; i < world->streams; i++)
        if (world->reads[first + i])
            shared_start(world, first + i, name);
}

/* As ports/switchboard.c: one that has not begun yet wants none, either. */
bool shared_is_kin_away(const struct shared_world *world, uint32_t node)
{
    const uint32_t first = shared_worker_of(world, node);
    bool away = false;

    for (uint32_t i = first; i < first + world->streams; i++)
        away |= i != node && world->reads[i] &&
                (world->nodes[i].core == NULL || !ks_core_wants(world->nodes[i].core));
    return away;
}

void shared_worker_changed(struct shared_world *world, uint32_t node)
{
    const uint32_t first = shared_worker_of(world, node);

    for (uint32_t i = first; i < first + world->streams; i++)
        if (world->nodes[i].core != NULL &&
            shared_is_kin_away(world, i) != world->nodes[i].kin_away)
            shared_plan(world, i, world->now + 1, (struct happening){.kind = HAPPENS_CHANGED});
}

void shared_worker_draw(struct shared_world *world)
{
    const bool all = world->streams == 1 || shared_chance(world, 500);
    bool read[SHARED_STREAMS] = {false};

    world->node_count *= world->streams;
    for (uint32_t node = 0; node < world->node_count; node++) {
        world->reads[node] = all || shared_chance(world, 500);
        read[shared_stream_of(world, node)] |= world->reads[node];
    }
    for (uint32_t stream = 0; stream < world->streams; stream++)
        world->reads[stream] |= !read[stream];
    /* No worker is there for nothing. */
    for (uint32_t node = 0; node < world->node_count; node += world->streams)
        if (!world->reads[node] && !world->reads[node + world->streams - 1])
            world->reads[node + ks_prng_below(&world->prng, world->streams)] = true;
}

/* ---- Faults ---- */

int64_t shared_small_error(struct shared_world *world)
{
    int64_t error = world->config.lease_duration.us / 40;

    return ks_prng_between(&world->prng, -error, error);
}

static uint32_t any_node(struct shared_world *world)
{
    return (uint32_t)ks_prng_below(&world->prng, world->node_count);
}

static void kill_one(struct shared_world *world)
{
    uint32_t number = any_node(world);
    const uint32_t first = shared_worker_of(world, number);
    const struct shared_node *node = &world->nodes[number];
    uint32_t name = node->name;

    if (node->core == NULL)
        return;
    if (shared_chance(world, 500) && world->next_name < SHARED_EMPTY)
        name = world->next_name++;
    if (shared_chance(world, 300)) {
        for (uint32_t i = 0; i < world->streams; i++)
            shared_drain(world, first + i, ks_span_ms(3000));
        return;
    }
    for (uint32_t i = 0; i < world->streams; i++)
        if (world->nodes[first + i].core != NULL)
            shared_stop(world, first + i);
    agenda_add(&world->agenda,
               world->now + ks_prng_between(&world->prng, 100 * SIM_MS, 4 * SIM_SECOND),
               &(struct happening){.kind = HAPPENS_START, .process = number, .count = name});
}

static void pause_one(struct shared_world *world)
{
    sim_time until = world->now + ks_prng_between(&world->prng, SIM_SECOND, 25 * SIM_SECOND);
    uint32_t number;

    if (world->member_count > 0 && shared_chance(world, 500)) {
        world->members[ks_prng_below(&world->prng, world->member_count)].paused_until = until;
        return;
    }
    number = shared_worker_of(world, any_node(world));
    for (uint32_t i = 0; i < world->streams; i++)
        world->nodes[number + i].paused_until = until;
}

static void cut_off(struct shared_world *world)
{
    sim_time until = world->now + ks_prng_between(&world->prng, SIM_SECOND, 25 * SIM_SECOND);
    uint32_t number;

    if (shared_chance(world, 300)) {
        world->away_until = until;
        return;
    }
    number = shared_worker_of(world, any_node(world));
    for (uint32_t i = 0; i < world->streams; i++)
        world->nodes[number + i].cut_until = until;
}

static void jump(struct shared_world *world)
{
    const uint32_t number = shared_worker_of(world, any_node(world));
    const int64_t error = ks_prng_between(&world->prng, -30 * SIM_SECOND, 30 * SIM_SECOND);

    for (uint32_t i = 0; i < world->streams; i++)
        world->nodes[number + i].wall_error = error;
    shared_say(world, "node %u: its wall clock is wrong by %.1f s", number,
               (double)world->nodes[number].wall_error / 1e6);
}

/* The app of one stream goes away for a while. */
static void send_away(struct shared_world *world)
{
    const uint32_t number = any_node(world);
    const struct shared_node *node = &world->nodes[number];

    if (node->core == NULL || node->app_away || world->now < node->paused_until)
        return;
    shared_app(world, number, false);
    shared_plan(world, number,
                world->now + ks_prng_between(&world->prng, SIM_SECOND, 60 * SIM_SECOND),
                (struct happening){.kind = HAPPENS_HOLIDAY});
}

void shared_worker_trouble(struct shared_world *world)
{
    if (world->peace)
        return;
    if (shared_chance(world, world->outages))
        cut_off(world);
    if (shared_chance(world, world->jumps))
        jump(world);
    if (shared_chance(world, world->pauses))
        pause_one(world);
    if (shared_chance(world, world->kills))
        kill_one(world);
    if (world->streams > 1 && shared_chance(world, 20))
        send_away(world);
    if (shared_chance(world, world->damages))
        shared_damage(world);
    if (!world->whole && shared_chance(world, world->merges ? 80 : 40))
        shared_stream_reshard(world);
    if (shared_chance(world, 20) && world->member_count > 0)
        world->members[ks_prng_below(&world->prng, world->member_count)].alive ^= true;
    agenda_add(&world->agenda, world->now + SIM_SECOND, &(struct happening){.kind = HAPPENS_DOWN});
}

static void write_run(struct shared_world *world, uint32_t number, const struct ks_effect *run,
                      enum ks_write_stage stage)
{
    struct ks_event event = {.kind = KS_EVENT_WRITE};

    event.write.stage = stage;
    event.write.session = run->deliver.session;
    event.write.shard = run->deliver.shard;
    event.write.epoch = run->deliver.epoch;
    event.write.first = run->deliver.first;
    event.write.count = run->deliver.count;
    event.write.assignment = run->deliver.assignment;
    shared_step(world, number, &event);
}

void shared_pull(struct shared_world *world, uint32_t number)
{
    struct shared_node *node = &world->nodes[number];

    node->run_count = 0;
    shared_step(world, number,
                &(struct ks_event){.kind = KS_EVENT_SESSION_PULL,
                                   .pull = {.session = node->session,
                                            .max_records = 10,
                                            .max_bytes = 1 << 20,
                                            .max_runs = SHARED_RUNS}});
    for (uint32_t i = 0; i < node->run_count; i++) {
        const struct ks_effect *run = &node->runs[i];

        write_run(world, number, run, KS_STAGE_BEGUN);
        write_run(world, number, run, KS_STAGE_WRITTEN);
        shared_plan(world, number,
                    world->now + ks_prng_between(&world->prng, SIM_MS, 2 * SIM_SECOND),
                    (struct happening){.kind = HAPPENS_JOB,
                                       .shard = run->deliver.shard,
                                       .epoch = run->deliver.epoch,
                                       .first = run->deliver.first,
                                       .count = run->deliver.count});
    }
    node->run_count = 0;
}
