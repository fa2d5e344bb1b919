/* SPDX-License-Identifier: Apache-2.0 */
#include "operator.h"

#include "story.h"
#include "world.h"

/* Then the row is deleted; the next two scans of the stream miss it and make it again. */
#define SCANS (60 * SIM_SECOND)

sim_time operator_patience(const struct world *world)
{
    return world->swarm.core.keep.us < 1000 * SIM_SECOND ? world->swarm.core.keep.us + SCANS : 0;
}

/* A row that says finished is only repaired after K: it must be over within the run. */
static bool may_finish(const struct world *world, const struct world_shard *shard)
{
    return shard->closed_at == SIM_NEVER && operator_patience(world) > 0;
}

void operator_meddles(struct world *world)
{
    ks_shard shard = (ks_shard)ks_prng_below(&world->prng, world->stream.count);
    bool finishes = draw_chance(&world->prng, 400);
    struct world_shard *of = &world->stream.shards[shard];
    const struct table_lease *row = world_table_lease(&world->table, shard);

    /* A row that is made again comes to the same epochs. A core that has forgotten the shard meanwhile begins them
     * again, which handles tell apart (ports/names.h): there are none here. */
    if (numbers_are_few(world->seed))
        return;
    /* What was read to its end stays so while it is in the stream: to read it again would be to read it after its
     * children. */
    if (!of->exists || of->expired || !row->present || row->row.finished)
        return;
    of->made++;
    if (finishes && may_finish(world, of)) {
        of->odd_at = world->now;
        world_table_finish_lease(world, shard);
        story_say(world, "fault", "an operator finishes the row of shard-%u", shard);
        return;
    }
    world_table_lose_lease(world, shard);
    story_say(world, "fault", "an operator deletes the row of shard-%u", shard);
}

/* ---- Orders ---- */

bool operator_gives_orders(struct world *world)
{
    ks_prng_init(&world->orders, world->seed ^ 0x0DE5);
    return draw_chance(&world->orders, 350);
}

static void pause(struct world *world, struct process *process, ks_shard shard)
{
    struct ks_event event = {.kind = KS_EVENT_PAUSE};

    event.pause.shard = shard;
    event.pause.keeps = draw_chance(&world->orders, 600);
    event.pause.until =
        ks_instant_add(shell_clock(world, process),
                       ks_span_us(draw_log(&world->orders, 100 * SIM_MS, 15 * SIM_SECOND)));
    story_say(world, "fault", "an operator pauses shard-%d of w%u", (int)shard, process->worker);
    shell_tell(world, process, &event);
}

static void resume(struct world *world, struct process *process, ks_shard shard)
{
    struct ks_event event = {.kind = KS_EVENT_RESUME};

    event.shard.shard = shard;
    story_say(world, "fault", "an operator resumes shard-%d of w%u", (int)shard, process->worker);
    shell_tell(world, process, &event);
}

static void release(struct world *world, struct process *process, ks_shard shard)
{
    struct ks_event event = {.kind = KS_EVENT_RELEASE};

    event.shard.shard = shard;
    story_say(world, "fault", "an operator has w%u release shard-%u", process->worker, shard);
    shell_tell(world, process, &event);
}

/* Anywhere between the place where the application began and the tip. */
static void seek(struct world *world, struct process *process, ks_shard shard)
{
    const struct world_shard *of = &world->stream.shards[shard];
    struct ks_event event = {.kind = KS_EVENT_SEEK};

    if (!of->exists || of->start >= of->count || process->seeking[shard])
        return;
    process->seek_to[shard] =
        (uint64_t)ks_prng_between(&world->orders, (int64_t)of->start, (int64_t)of->count);
    event.seek.shard = shard;
    event.seek.force = draw_chance(&world->orders, 500);
    event.seek.dry_run = draw_chance(&world->orders, 200);
    story_say(world, "fault", "an operator has w%u seek %llu of shard-%u", process->worker,
              (unsigned long long)process->seek_to[shard], shard);
    shell_tell(world, process, &event);
}

/* The record that holds up the shard, or any of those that were read. */
static void skip(struct world *world, struct process *process, ks_shard shard)
{
    const struct reader *reader = &process->readers[shard];
    struct ks_event event = {.kind = KS_EVENT_SKIP};
    struct ks_blocker blocker = {.number = reader->forgot};

    if (!reader->open || reader->fetched == reader->forgot)
        return;
    if (!shell_blocker(process, shard, &blocker) || draw_chance(&world->orders, 200))
        blocker.number += ks_prng_below(&world->orders, reader->fetched - reader->forgot);
    event.skip.shard = shard;
    event.skip.number = blocker.number;
    event.skip.keep = draw_chance(&world->orders, 500);
    event.skip.dry_run = draw_chance(&world->orders, 100);
    story_say(world, "fault", "an operator has w%u skip record %llu of shard-%u", process->worker,
              (unsigned long long)event.skip.number, shard);
    shell_tell(world, process, &event);
}

/* A shard that it holds, mostly. */
static ks_shard draw_shard(struct world *world, const struct process *process)
{
    ks_shard shard = (ks_shard)ks_prng_below(&world->orders, world->stream.count);
    bool any = draw_chance(&world->orders, 150);

    for (uint32_t i = 0; !any && i < world->stream.count && !process->readers[shard].open; i++)
        shard = (shard + 1) % world->stream.count;
    return shard;
}

sim_time operator_orders(struct world *world, struct process *process)
{
    ks_shard shard = process == NULL ? 0 : draw_shard(world, process);
    ks_shard some = draw_chance(&world->orders, 250) ? KS_SHARD_NONE : shard;
    uint64_t what = ks_prng_below(&world->orders, 14);
    sim_time next = draw_log(&world->orders, 50 * SIM_MS, 10 * SIM_SECOND);

    if (process == NULL || !process->alive || world->now < process->paused_until)
        return next;
    if (what < 3)
        pause(world, process, some);
    else if (what < 4)
        resume(world, process, some);
    else if (what < 6)
        release(world, process, shard);
    else if (what < 10)
        seek(world, process, shard);
    else
        skip(world, process, shard);
    return next;
}
