/* SPDX-License-Identifier: Apache-2.0 */
#include "world_wire.h"

#include <assert.h>
#include <string.h>

#include "oracle_write.h"
#include "world.h"

/* Ids and names of a record, beside its data. */
enum { HEAD_BYTES = 40 };

void world_wire_add(struct sim_wire *wire, const struct ks_effect *effect)
{
    assert(wire->run_count < KS_BATCH_RUNS_MAX);

    wire->runs[wire->run_count++] = (struct sim_run){
        .shard = effect->deliver.shard,
        .epoch = effect->deliver.epoch,
        .first = effect->deliver.first,
        .count = effect->deliver.count,
        .attempt = effect->deliver.attempt,
        .assignment = effect->deliver.assignment,
        .batch_first = effect->deliver.first,
        .batch_count = effect->deliver.count,
    };
}

bool world_wire_is_pending(const struct sim_wire *wire)
{
    return wire->run_next < wire->run_count;
}

static void report(struct world *world, struct process *process, const struct sim_wire *wire,
                   const struct sim_run *run, enum ks_write_stage stage, uint32_t count)
{
    struct ks_event event = {.kind = KS_EVENT_WRITE};

    if (count == 0)
        return;
    event.write.stage = stage;
    event.write.session = wire->session;
    event.write.shard = run->shard;
    event.write.epoch = run->epoch;
    event.write.first = run->first;
    event.write.count = count;
    event.write.assignment = run->assignment;
    shell_step(world, process, &event);
}

/* ---- Reading ---- */

/* The app has read the first `count` records of the run. */
static void read_records(struct world *world, struct process *process, uint32_t consumer,
                         const struct sim_run *run, uint32_t count)
{
    struct happening job = {.kind = HAPPENS_JOB,
                            .consumer = consumer,
                            .session = process->consumers[consumer].wire.session,
                            .session_epoch = process->consumers[consumer].wire.session_epoch,
                            .shard = run->shard,
                            .epoch = run->epoch,
                            .first = run->first,
                            .count = count,
                            .serial = process->consumers[consumer].wire.serial,
                            .batch_first = run->batch_first,
                            .batch_count = run->batch_count,
                            .assignment = run->assignment};

    for (uint32_t i = 0; i < count; i++)
        oracle_app_read(world, process, run, run->first + i);
    world_app_read(world, process, &job);
}

/* ---- Writing ---- */

static uint32_t size_of(const struct world *world, const struct process *process,
                        const struct sim_run *run)
{
    if (run->shard == KS_SHARD_NONE)
        return HEAD_BYTES + 100;
    return HEAD_BYTES +
           world->stream.shards[run->shard].sizes[process->readers[run->shard].base + run->first];
}

static ks_shard number_of(const struct process *process, ks_shard shard)
{
    return shard == KS_SHARD_NONE ? shard : numbers_of(&process->numbers, shard);
}

static bool may_finish(const struct world *world, const struct process *process,
                       const struct sim_run *run)
{
    return ks_core_may_finish(process->core, number_of(process, run->shard), run->epoch,
                              shell_clock(world, process));
}

static bool may_begin(const struct world *world, const struct process *process,
                      const struct sim_run *run)
{
    return may_finish(world, process, run) &&
           ks_core_assigned(process->core, number_of(process, run->shard), run->epoch, run->first,
                            1, run->assignment) == 1;
}

/* True if bytes of records that were begun may still be sent. */
static bool may_send(const struct world *world, const struct process *process,
                     const struct sim_run *run)
{
    return ks_core_may_send(process->core, number_of(process, run->shard), run->epoch,
                            shell_clock(world, process));
}

static void take_off(struct sim_run *run, uint32_t count)
{
    run->first += count;
    run->count -= count;
}

/* Hands over records of the first run as far as there is room. Returns how many, in a row, were handed over whole. */
static uint32_t fill_run(const struct world *world, const struct process *process,
                         struct sim_wire *wire, const struct sim_run *run, uint32_t *room,
                         bool *ret_begun)
{
    struct sim_run rest = *run;
    uint32_t whole = 0;

    *ret_begun = false;
    while (rest.count > 0 && *room > 0) {
        uint32_t part;

        if (wire->left == 0 && !may_begin(world, process, &rest))
            break;
        if (wire->left == 0) {
            wire->left = size_of(world, process, &rest);
            *ret_begun = true;
        }
        part = wire->left < *room ? wire->left : *room;
        wire->left -= part;
        *room -= part;
        if (wire->left > 0)
            break;
        *ret_begun = false;
        take_off(&rest, 1);
        whole++;
    }
    return whole;
}

/* The first run may not be begun, or is written. */
static bool step_over(struct world *world, struct process *process, struct sim_wire *wire)
{
    struct sim_run *run = &wire->runs[wire->run_next];

    if (run->count > 0 && may_finish(world, process, run)) {
        take_off(run, 1); /* It was settled, or taken back. */
        return true;
    }
    report(world, process, wire, run, KS_STAGE_RETURNED, run->count);
    wire->run_next++;
    return run->count == 0;
}

void world_wire_fill(struct world *world, struct process *process, uint32_t consumer)
{
    struct sim_wire *wire = &process->consumers[consumer].wire;
    uint32_t room = (uint32_t)draw_log(&world->prng, 1, 40000);

    while (world_wire_is_pending(wire) && room > 0 && wire->unsent_count < SIM_WIRE_UNSENT) {
        struct sim_run *run = &wire->runs[wire->run_next];
        struct sim_run done = *run;
        bool begun = false;

        if (wire->left > 0 && !may_send(world, process, run)) {
            wire->cut = true;
            return;
        }
        done.count = fill_run(world, process, wire, run, &room, &begun);
        report(world, process, wire, &done, KS_STAGE_BEGUN, done.count + (begun ? 1 : 0));
        take_off(run, done.count);
        if (done.count > 0)
            wire->unsent[wire->unsent_count++] = done;
        if (wire->left == 0 && room > 0 && !step_over(world, process, wire))
            break; /* The core is told the time in the next turn. */
    }
    world_app_guess(world, process, consumer, wire);
}

void world_wire_send(struct world *world, struct process *process, uint32_t consumer)
{
    struct sim_wire *wire = &process->consumers[consumer].wire;
    bool part = false;

    for (uint32_t i = 0; i < wire->unsent_count; i++)
        wire->cut |= !may_send(world, process, &wire->unsent[i]);
    if (wire->cut)
        return;
    while (wire->unsent_count > 0 && !part) {
        struct sim_run *run = &wire->unsent[0];
        uint32_t count = run->count;

        part = draw_chance(&world->prng, 100);
        if (part)
            count = (uint32_t)ks_prng_between(&world->prng, 1, run->count);
        report(world, process, wire, run, KS_STAGE_WRITTEN, count);
        read_records(world, process, consumer, run, count);
        take_off(run, count);
        if (run->count == 0)
            memmove(run, run + 1, --wire->unsent_count * sizeof *run);
    }
}

/* ---- The end ---- */

void world_wire_return(struct world *world, struct process *process, struct sim_wire *wire)
{
    while (wire->run_count > wire->run_next) {
        struct sim_run run = wire->runs[--wire->run_count];
        struct sim_run begun = run;

        if (wire->run_count == wire->run_next && wire->left > 0)
            take_off(&run, 1);
        report(world, process, wire, &run, KS_STAGE_RETURNED, run.count);
        report(world, process, wire, &begun, KS_STAGE_TORN, begun.count - run.count);
    }
    while (wire->unsent_count > 0) {
        const struct sim_run *run = &wire->unsent[--wire->unsent_count];

        report(world, process, wire, run, KS_STAGE_TORN, run->count);
    }
}

void world_wire_end(struct world *world, struct process *process, uint32_t consumer)
{
    struct sim_wire *wire = &process->consumers[consumer].wire;
    struct sim_wire ending = *wire;

    world_app_guess(world, process, consumer, &ending);
    world_wire_return(world, process, &ending);
    *wire = (struct sim_wire){.session = ending.session,
                              .session_epoch = ending.session_epoch,
                              .serial = ending.serial + 1};
}
