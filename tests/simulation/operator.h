/* SPDX-License-Identifier: Apache-2.0 */
/* operator.h - somebody who changes the lease table by hand, and somebody who gives orders to the processes.
 *
 * The row of a shard disappears, or says that its shard was read to its end though the stream still adds to it. Whoever
 * holds the lease is not told. The shard is read again from its start then: records twice, but never none.
 *
 * The orders are those of core/operator.h: a shard or all of them rest for a while, a lease is released, a checkpoint
 * is moved anywhere. What they draw comes from a generator of their own: what other seeds draw stays as it was.
 */
#ifndef KS_SIM_OPERATOR_H
#define KS_SIM_OPERATOR_H

#include "agenda.h"

struct process;
struct world;

/* One row is spoilt, if there is one to spoil. */
void operator_meddles(struct world *world);
/* An operator may mark the row of an open shard as finished: how long it takes until the leader creates the row again.
 * 0: no operator does so in this world. */
sim_time operator_patience(const struct world *world);

/* True if there are orders in this world; before the first one. */
bool operator_gives_orders(struct world *world);
/* One order for a process (NULL, or one that is frozen: none). Returns how long it is to the next one. */
sim_time operator_orders(struct world *world, struct process *process);

#endif
