/* SPDX-License-Identifier: Apache-2.0 */
/* How a process begins and ends. */
#include "shell.h"

#include <assert.h>
#include <string.h>

#include "base/budget.h"
#include "faults.h"
#include "oracle_rules.h"
#include "story.h"
#include "world.h"
#include "world_letters.h"
#include "world_lock.h"

void shell_start(struct world *world, struct process *process, uint32_t worker)
{
    struct ks_core_config config = world->swarm.core;
    size_t size;

    assert(!process->alive && worker > 0 && worker < SIM_WORKERS);
    config.self = worker;
    process->capacity = 0;
    if (process->slot != 0 && draw_chance(&world->prng, world->swarm.limited))
        process->capacity = (uint32_t)ks_prng_between(&world->prng, 1, 5);
    config.capacity = process->capacity;
    process->locked =
        draw_chance(&world->prng, world->swarm.lock_files) && !world_lock_is_held(world, worker);
    config.lock = process->locked;
    config.corpse = process->locked ? world->locks[worker] : 0;
    config.seed = ks_prng_next(&world->prng);
    size = ks_core_size(&config);
    ks_free(process->memory);
    process->memory = ks_alloc(size);
    assert(process->memory != NULL);

    process->alive = true;
    process->life++;
    process->worker = worker;
    process->clock_offset = draw_log(&world->prng, 1, INT64_C(4000000) * SIM_SECOND);
    process->drift_ppm =
        ks_prng_between(&world->prng, -world->swarm.drift_ppm, world->swarm.drift_ppm);
    process->paused_until = 0;
    process->cut = CUT_NOTHING;
    process->blind_until = 0;
    process->draining = false;
    process->changed = false;
    process->over = false;
    process->tick_at = 0;
    process->ticks = 0;
    process->listed = 0;
    process->listing_asked = false;
    process->beating = false;
    process->opening = SIM_CONSUMERS;
    memset(process->seen, 0, sizeof process->seen);
    memset(process->writing, 0, sizeof process->writing);
    for (ks_shard shard = 0; shard < SIM_SHARDS; shard++) {
        process->readers[shard] = (struct reader){.serial = process->readers[shard].serial};
        process->paused[shard] = KS_LONG_AGO;
        process->seeking[shard] = false;
    }
    memset(process->letters, 0, sizeof process->letters);
    process->next_letter = 0;
    process->left_out = KS_SHARD_NONE;
    oracle_start(process);
    process->core = ks_core_init(process->memory, &config);
    numbers_begin(&process->numbers, world->seed, config.shards_max, 0);
    story_say(world, "world", "w%u starts in slot %u", worker, process->slot);
    shell_tell(world, process, &(struct ks_event){.kind = KS_EVENT_START});
    world_app_begin(world, process);
}

void shell_stop(struct world *world, struct process *process)
{
    assert(process->alive);

    story_say(world, "world", "w%u in slot %u is over", process->worker, process->slot);
    process->alive = false;
    process->life++;
}

bool shell_lease(const struct process *process, ks_shard shard, struct ks_lease_view *ret_view)
{
    return ks_core_lease(process->core, numbers_of(&process->numbers, shard), ret_view);
}

bool shell_is_dying(const struct process *process, ks_shard shard, ks_number number)
{
    return ks_core_is_dying(process->core, numbers_of(&process->numbers, shard), number);
}

bool shell_blocker(const struct process *process, ks_shard shard, struct ks_blocker *ret_blocker)
{
    return ks_core_blocker(process->core, numbers_of(&process->numbers, shard), ret_blocker);
}

bool shell_is_out(const struct process *process, ks_shard shard, ks_number number)
{
    return ks_core_is_out(process->core, numbers_of(&process->numbers, shard), number);
}

bool shell_is_settled(const struct process *process, ks_shard shard, ks_number number)
{
    return ks_core_is_settled(process->core, numbers_of(&process->numbers, shard), number);
}

void shell_free(struct process *process)
{
    ks_free(process->memory);
    process->memory = NULL;
    process->core = NULL;
}
