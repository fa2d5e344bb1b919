/* SPDX-License-Identifier: Apache-2.0 */
#include "world_lock.h"

#include "world.h"

bool world_lock_is_held(const struct world *world, uint32_t worker)
{
    for (uint32_t slot = 0; slot < SIM_PROCESSES; slot++)
        if (world->processes[slot].alive && world->processes[slot].locked &&
            world->processes[slot].worker == worker)
            return true;
    return false;
}

/* The lock file is to name a boot. Whoever is killed before it knows may have written it, or not; so may a write that
 * failed. */
void world_lock_write(struct world *world, struct process *process, uint64_t boot)
{
    if (!process->locked)
        oracle_fail(world, "w%u writes a lock file that it does not have", process->worker);
    if (draw_chance(&world->prng, 500))
        world->locks[process->worker] = boot;
    agenda_add(&world->agenda,
               world->now + draw_log(&world->prng, 100, world->peace ? 1000 : SIM_SECOND),
               &(struct happening){.kind = HAPPENS_LOCKED,
                                   .process = process->slot,
                                   .life = process->life,
                                   .epoch = boot});
}

void world_lock_written(struct world *world, struct process *process, uint64_t boot)
{
    struct ks_event event = {.kind = KS_EVENT_LOCKED};

    event.locked.boot = boot;
    event.locked.ok = world->peace || !draw_chance(&world->prng, 50);
    if (event.locked.ok)
        world->locks[process->worker] = boot;
    shell_step(world, process, &event);
}
