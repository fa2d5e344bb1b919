/* SPDX-License-Identifier: Apache-2.0 */
/* world_lock.h - the lock files of the simulated world: one for each worker name, in a volume that outlives processes.
 * Whoever starts while another holds its flock runs somewhere else, without a lock file.
 */
#ifndef KS_SIM_WORLD_LOCK_H
#define KS_SIM_WORLD_LOCK_H

#include <stdbool.h>
#include <stdint.h>

struct process;
struct world;

bool world_lock_is_held(const struct world *world, uint32_t worker);
/* KS_EFFECT_LOCK; and its answer, HAPPENS_LOCKED. */
void world_lock_write(struct world *world, struct process *process, uint64_t boot);
void world_lock_written(struct world *world, struct process *process, uint64_t boot);

#endif
