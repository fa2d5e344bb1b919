/* SPDX-License-Identifier: Apache-2.0 */
/* The clock of a process, which drifts, against the true time of the world. */
#include "shell.h"

#include "world.h"

ks_instant shell_clock(const struct world *world, const struct process *process)
{
    return (ks_instant){process->clock_offset + world->now +
                        world->now * process->drift_ppm / 1000000};
}

sim_time shell_true_time(const struct process *process, ks_instant at)
{
    int64_t local = at.us - process->clock_offset;
    sim_time guess;

    /* Beyond the end of every run: the product below must not overflow. */
    if (local > INT64_C(1000000) * SIM_SECOND)
        return SIM_NEVER;
    guess = local * 1000000 / (1000000 + process->drift_ppm) - 2;
    while (guess + guess * process->drift_ppm / 1000000 < local)
        guess++;
    return guess;
}
