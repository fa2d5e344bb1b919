/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include <assert.h>
#include <string.h>

#include "base/budget.h"
#include "faults.h"
#include "story.h"
#include "world_looks.h"

/* More than any run needs: whoever gets here goes round in circles. */
enum { HAPPENINGS_MAX = 20000000 };

struct table_request *world_request(struct world *world)
{
    struct table_request *request = world->spare_request;

    if (request != NULL) {
        world->spare_request = request->next_spare;
    } else {
        assert(world->request_count < SIM_REQUESTS);
        request = ks_alloc(sizeof *request);
        assert(request != NULL);
        request->number = world->request_count;
        world->requests[world->request_count++] = request;
    }
    assert(request->users == 0);
    request->closed = false;
    request->arrived = false;
    request->has_checkpoint = false;
    request->answer.outcome = KS_UNKNOWN;
    request->answer.worker_count = 0;
    request->answer.lease_count = 0;
    request->answer.token_count = 0;
    request->answer.leader = (struct ks_leader_row){.present = false};
    request->answer.app_present = false;
    return request;
}

void world_request_done(struct world *world, struct table_request *request)
{
    assert(request->users > 0);

    if (--request->users > 0)
        return;
    request->next_spare = world->spare_request;
    world->spare_request = request;
}

static void clear(struct world *world)
{
    agenda_clear(&world->agenda);
    world_table_clear(&world->table);
    world->spare_request = NULL;
    for (uint32_t i = world->request_count; i > 0; i--) {
        struct table_request *request = world->requests[i - 1];

        request->users = 0;
        request->next_spare = world->spare_request;
        world->spare_request = request;
    }
    for (uint32_t slot = 0; slot < SIM_PROCESSES; slot++) {
        struct process *process = &world->processes[slot];

        process->slot = slot;
        process->alive = false;
        process->life = 0;
        process->worker = 0;
        process->away_until = 0;
        for (ks_shard shard = 0; shard < SIM_SHARDS; shard++)
            process->readers[shard] = (struct reader){.open = false};
        for (uint32_t i = 0; i < SIM_CONSUMERS; i++)
            process->consumers[i] = (struct consumer){.open = false};
    }
    world->next_worker = 1;
    world->now = 0;
    world->down_until = 0;
    world->throttled_until = 0;
    memset(world->locks, 0, sizeof world->locks);
    memset(world->parked, 0, sizeof world->parked);
    world->peace = false;
    world->peace_at = 0;
    world->done_at = 0;
    world->last_shot = 0;
    world->progress_at = 0;
    world->planned_at = 0;
    memset(world->asked, 0, sizeof world->asked);
    world->quiet_until = 0;
    world->exam_at = 0;
    world->exam_until = 0;
    world->examined = NULL;
    world->over = false;
    world->failed = false;
    world->sentence[0] = '\0';
    world->hash = 0;
    world->happenings = 0;
}

static void happen(struct world *world, const struct happening *happening)
{
    story_hash(world, (uint64_t)happening->kind << 48 ^ (uint64_t)world->now);
    if (happening->kind == HAPPENS_ARRIVE)
        shell_arrive(world, happening);
    else if (happening->kind < HAPPENS_ARRIVE)
        shell_turn(world, happening);
    else
        faults_happen(world, happening);
}

bool world_run(struct world *world, uint64_t seed, int verbose)
{
    struct happening happening;
    sim_time at;

    clear(world);
    world->seed = seed;
    world->verbose = verbose;
    ks_prng_init(&world->prng, seed);
    swarm_draw(&world->swarm, &world->prng);
    /* Looking through the whole core costs a tenth of the time: the others see more worlds in it. */
    world->swarm.checks = seed % 2 == 1;
    world_looks_begin(world);
    world_stream_begin(world);
    faults_begin(world);
    while (!world->over && !world->failed && agenda_next(&world->agenda, &at, &happening)) {
        assert(at >= world->now);
        world->now = at;
        happen(world, &happening);
        if (++world->happenings > HAPPENINGS_MAX)
            oracle_fail(world, "the run does not end");
    }
    if (!world->over)
        oracle_fail(world, "nothing happens any more");
    return !world->failed;
}

void world_free(struct world *world)
{
    agenda_free(&world->agenda);
    for (uint32_t i = 0; i < world->request_count; i++)
        ks_free(world->requests[i]);
    for (uint32_t slot = 0; slot < SIM_PROCESSES; slot++)
        shell_free(&world->processes[slot]);
}
