/* SPDX-License-Identifier: Apache-2.0 */
/* world_letters.h - the store of dead letters of a process, and what its shell tells of records: keys and ages. */
#ifndef KS_SIM_WORLD_LETTERS_H
#define KS_SIM_WORLD_LETTERS_H

#include "agenda.h"
#include "core/event.h"
#include "core/effect.h"

struct process;
struct world;

/* What ports/board_leases.c tells of the next `count` records of an open reader. */
void world_letters_describe(const struct world *world, const struct process *process,
                            ks_shard shard, uint32_t count, uint8_t *hashes, uint32_t *stale_s);
/* True if the subscription does not want the record. */
bool world_letters_filters(const struct world *world, ks_shard shard, uint64_t index);
/* Dead letters are written. */
void world_letters_bury(struct world *world, struct process *process,
                        const struct ks_effect *effect);
/* HAPPENS_BURIED: done, refused, or nobody knows. */
void world_letters_buried(struct world *world, struct process *process,
                          const struct happening *answer);

#endif
