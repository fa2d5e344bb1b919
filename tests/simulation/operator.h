/* SPDX-License-Identifier: Apache-2.0 */
/* operator.h - somebody who changes the lease table by hand.
 *
 * The row of a shard disappears, or says that its shard was read to its end though the stream still adds to it. Whoever
 * holds the lease is not told. The shard is read again from its start then: records twice, but never none.
 */
#ifndef KS_SIM_OPERATOR_H
#define KS_SIM_OPERATOR_H

struct world;

/* One row is spoilt, if there is one to spoil. */
void operator_meddles(struct world *world);

#endif
