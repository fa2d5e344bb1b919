/* SPDX-License-Identifier: Apache-2.0 */
#include "exams.h"

#include <assert.h>
#include <stdio.h>

#include "faults.h"
#include "story.h"
#include "world.h"
#include "world_looks.h"

static const char *const names[EXAMS] = {"was killed", "was told to drain", "lost its apps",
                                         "joined", "was replaced"};

/* A heartbeat that tells, two rounds, two looks at the news, and the requests of all. */
static sim_time soon(const struct world *world)
{
    const struct ks_core_config *core = &world->swarm.core;

    return core->beat.us + 2 * core->round.us + 2 * core->news.us + 2 * SIM_SECOND;
}

/* Moves are planned by a round that finds nothing to repair: one more look of everybody. */
static sim_time to_balance(const struct world *world)
{
    const struct ks_core_config *core = &world->swarm.core;

    return soon(world) + 2 * core->beat.us + 4 * core->round.us;
}

static sim_time time_for(const struct world *world, enum exam exam)
{
    const struct ks_core_config *core = &world->swarm.core;

    switch (exam) {
    case EXAM_KILL: return core->lease_duration.us * 4 / 3 + 2 * SIM_SECOND;
    case EXAM_DRAIN: return soon(world);
    case EXAM_IDLE: return core->idle_release.us * 21 / 20 + to_balance(world);
    case EXAM_JOIN: return 12 * SIM_SECOND + to_balance(world);
    /* Each has up to 3 s to start, and 8 s until its first app comes. */
    case EXAM_DEPLOY:
        return world->swarm.processes * 2 * SIM_SECOND + 12 * SIM_SECOND + 2 * to_balance(world) +
               core->lease_duration.us;
    case EXAMS: break;
    }
    assert(false);
    return 0;
}

/* Where looks are slow: whoever comes into office has to look first, and so has a leader that counts leases. What is a
 * dead worker's it knows, and what one has that leaves; a row that is not as it was it reads. */
static sim_time for_looks(const struct world *world, enum exam exam)
{
    const struct ks_core_config *core = &world->swarm.core;
    sim_time look = world_looks_time(world);
    struct ks_self_view self;

    if (look == 0)
        return 0;
    ks_core_self(world->examined->core, &self);
    /* A round that waits for a look waits so long (A7). */
    if (exam == EXAM_KILL && !self.leads)
        return core->timeout.us + core->round.us;
    if ((exam == EXAM_DRAIN || exam == EXAM_IDLE) && !self.leads)
        return core->timeout.us + 4 * core->round.us + SIM_SECOND;
    return exam == EXAM_KILL ? look : 2 * look;
}

/* More time if a lease row was deleted and created again: its epochs begin at 1, and a worker that held a later epoch
 * returns the lease at once, or ignores the row until the next read of all rows. */
static sim_time detours(const struct world *world)
{
    uint32_t made = 0;

    for (ks_shard shard = 0; shard < world->stream.count; shard++)
        made += world->stream.shards[shard].made;
    return made > 0 ? 30 * SIM_SECOND : 0;
}

/* The fewest moves after which one more, who takes `capacity`, has its share. */
static uint32_t least_to_join(const struct world *world, uint32_t capacity)
{
    uint32_t counts[SIM_PROCESSES + 1] = {0};
    uint32_t owners = 0;
    uint32_t moves = 0;

    for (uint32_t slot = 0; slot < world->swarm.processes; slot++)
        counts[owners++] = oracle_leases_of(world, &world->processes[slot]);
    for (;;) {
        uint32_t most = 0;

        for (uint32_t i = 0; i < owners; i++)
            most = counts[i] > counts[most] ? i : most;
        if (counts[most] <= moves + 1 || (capacity != 0 && moves >= capacity))
            return moves;
        counts[most]--;
        moves++;
    }
}

static void join(struct world *world)
{
    uint32_t slot = world->swarm.processes;

    /* It joins a fleet that is at rest, and takes what it is given. */
    world->swarm.limited = 0;
    assert(!world->processes[slot].alive);
    world->exam_least = least_to_join(world, 0);
    world->swarm.processes++;
    faults_start(world, slot);
}

static void replace_all(struct world *world)
{
    for (uint32_t slot = 0; slot < world->swarm.processes; slot++)
        agenda_add(&world->agenda, world->now + 1 + slot * 2 * SIM_SECOND,
                   &(struct happening){.kind = HAPPENS_DRAIN, .process = slot, .count = 2});
}

void exams_begin(struct world *world)
{
    enum exam exam = (enum exam)ks_prng_below(&world->prng, EXAMS);
    uint32_t slot = (uint32_t)ks_prng_below(&world->prng, world->swarm.processes);

    if (exam == EXAM_JOIN && world->swarm.processes == SIM_PROCESSES)
        exam = EXAM_KILL;
    /* The first one takes any number of leases: without it there may not be room for all. */
    if (slot == 0 && world->swarm.limited > 0)
        slot = 1;
    world->exam = exam;
    world->examined = &world->processes[slot];
    world->exam_at = world->now;
    world->exam_until =
        world->now + time_for(world, exam) + for_looks(world, exam) + detours(world);
    world->exam_least = 0;
    world->moves = 0;
    world->exams[exam]++;
    /* Records flow meanwhile. */
    world->swarm.records = world->stream.put + 300;
    agenda_add(&world->agenda, world->now, &(struct happening){.kind = HAPPENS_PUT});
    story_say(world, "exam", "w%u %s", world->examined->worker, names[exam]);
    switch (exam) {
    case EXAM_KILL: shell_stop(world, world->examined); break;
    case EXAM_DRAIN: faults_drain(world, world->examined, 20 * SIM_SECOND); break;
    case EXAM_IDLE: world_app_holiday(world, world->examined, SIM_NEVER); break;
    case EXAM_JOIN: join(world); break;
    case EXAM_DEPLOY: replace_all(world); break;
    case EXAMS: assert(false);
    }
}

/* All run, and have an app that wants records. */
static bool everybody_works(const struct world *world)
{
    for (uint32_t slot = 0; slot < world->swarm.processes; slot++) {
        struct ks_self_view self;

        if (!world->processes[slot].alive)
            return false;
        ks_core_self(world->processes[slot].core, &self);
        if (self.sessions == 0)
            return false;
    }
    return faults_everybody_runs(world);
}

static bool passed(struct world *world, char *why, size_t size)
{
    if (world->exam == EXAM_DEPLOY &&
        world->now < world->exam_at + (world->swarm.processes + 1) * 2 * SIM_SECOND) {
        snprintf(why, size, "some still run");
        return false;
    }
    if ((world->exam == EXAM_JOIN || world->exam == EXAM_DEPLOY) && !everybody_works(world)) {
        snprintf(why, size, "not everybody works");
        return false;
    }
    if (!oracle_is_served(world, why, size))
        return false;
    if (world->exam == EXAM_IDLE && oracle_leases_of(world, world->examined) > 0) {
        snprintf(why, size, "the idle worker holds leases");
        return false;
    }
    return world->exam == EXAM_KILL || world->exam == EXAM_DRAIN ||
           oracle_is_balanced(world, why, size);
}

void exams_look(struct world *world)
{
    sim_time took = world->now - world->exam_at;
    char why[160] = "";

    if (world->longest_exam[world->exam] < took)
        world->longest_exam[world->exam] = took;
    world->over = passed(world, why, sizeof why);
    if (!world->over && world->now > world->exam_until)
        oracle_fail(world, "%lld ms after one process %s: %s", (long long)(took / SIM_MS),
                    names[world->exam], why);
    if (world->over && world->exam == EXAM_JOIN) {
        world->moves_made += world->moves;
        world->moves_least += world->exam_least;
    }
}
