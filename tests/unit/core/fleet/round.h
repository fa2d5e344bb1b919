/* SPDX-License-Identifier: Apache-2.0 */
/* round.h - the leader on its bed: its rounds are answered from rows that lie in the open. */
#ifndef TESTS_CORE_FLEET_ROUND_H
#define TESTS_CORE_FLEET_ROUND_H

#include "unit/core/bed.h"

extern struct bed bed;
extern struct ks_worker_row rows[3]; /* We, and two others; row_count of them. */
extern uint32_t row_count;
extern struct ks_lease_row leases[BED_SHARDS];
extern uint32_t lease_count;

#define OTHER ((struct ks_incarnation){BED_OTHER, 9})
#define THIRD ((struct ks_incarnation){BED_OTHER + 1, 9})

/* We lead beside `others` active workers, and `count` free lease rows, epoch 1, are in the table. */
void lead(uint32_t others, uint32_t count);
/* One round: the rows if they are asked for, then the fleet, in which the others' beats have moved. The effects are
 * those of the step with the fleet's answer, and of the ticks that it asks for. */
void next_round(void);
/* A round while a look at the rows is under way, which takes long: the fleet alone is answered. */
void blind_round(void);
/* As next_round, a beat later: a row that closer reads do not show counts as missing once. */
void later_round(void);
/* The store effect of this operation; the test fails if there is none. */
const struct ks_store_effect *must_ask(enum ks_store_operation operation);
void answer_rows(void);
/* The stream lists these, and is not asked again. */
void list(const struct ks_shard_row *shards, uint32_t count);
/* A shard of a listing. KS_SHARD_NONE: no parent. */
struct ks_shard_row shard_row(ks_shard shard, ks_shard parent, ks_shard adjacent);
/* Answers the leader's write to `shard` that is under way. */
void answer_write(ks_shard shard, enum ks_outcome outcome);

#endif
