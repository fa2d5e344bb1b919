/* SPDX-License-Identifier: Apache-2.0 */
/* world_filter.h - the filters of sessions in the simulated world: what they take, who wants one, and their judging.
 *
 * A filter is a number. It takes a part of all records, each filter another part. Every process answers
 * ks_core_unjudged() as ports/board_filter.c does, a few records in each turn. The oracle knows from its own list of
 * sessions which records may be judged: a record that the filter takes is delivered, one that it excludes is settled.
 */
#ifndef KS_SIM_WORLD_FILTER_H
#define KS_SIM_WORLD_FILTER_H

#include "agenda.h"
#include "core/event.h"
#include "oracle.h"

struct process;
struct world;

/* The filter of a session that this process opens now; 0: none. Most sessions of a process agree. */
uint64_t world_filter_choose(struct world *world, const struct process *process);
/* Judges some of the records that wait. Called after each turn of the process. */
void world_filter_judge(struct world *world, struct process *process);
/* The session was opened: all open sessions of the process have the same filter. */
void world_filter_opened(struct world *world, struct process *process, const struct ks_event *event,
                         uint32_t session);
/* Records were delivered: the filter of their session takes each of them. */
void world_filter_delivered(struct world *world, const struct process *process,
                            const struct ks_effect *effect);

#endif
