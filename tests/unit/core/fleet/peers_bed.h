/* SPDX-License-Identifier: Apache-2.0 */
/* peers_bed.h - a member of a fleet of equals on its bed: one shard, whose row is answered by hand. */
#ifndef TESTS_CORE_FLEET_PEERS_BED_H
#define TESTS_CORE_FLEET_PEERS_BED_H

#include "unit/core/bed.h"

#define PEERS_WALL_US INT64_C(1714564800000000)

extern struct bed peers_bed;
extern int64_t peers_wall_us;

/* A core of this protocol with a session, L = 10 s, that has listed one shard. */
void peers_begin(enum ks_protocol protocol);
/* And that knows, if it is one of the KCL, that its fleet is of 2.x. */
void peers_live(enum ks_protocol protocol);
/* Steps at the wall time. */
void peers_step(const struct ks_event *event);
/* Lets time pass, by both clocks, and ticks. */
void peers_wait(int64_t ms);
/* The row of the shard, as somebody has it. */
struct ks_lease_row peers_row(uint32_t owner, uint64_t rev);
/* Answers the look that is under way, or the next one, with one row; NULL: none. */
void peers_look(const struct ks_lease_row *row);
/* The same with several. */
void peers_look_at(const struct ks_lease_row *rows, uint32_t count);
/* Answers the listing that is under way, or the next one. */
void peers_list(const struct ks_shard_row *shards, uint32_t count);
/* Answers the write of this operation to `shard` that the last step, or a later one, sent; false if there is none. */
bool peers_answer(enum ks_store_operation operation, ks_shard shard, enum ks_outcome outcome);
/* Of the read of one row that is under way; 0: none is. */
uint64_t peers_read_token(void);
/* Answers it with that of `rows`, by shard; false if there is none. */
bool peers_read(const struct ks_lease_row *rows);

#endif
