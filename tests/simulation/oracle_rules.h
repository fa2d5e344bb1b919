/* SPDX-License-Identifier: Apache-2.0 */
/* oracle_rules.h - the manners that docs/PROTOCOL.md asks of every process, by what it was told and when it asked.
 *
 *  A3, A4  nobody is fenced or replaced before its row was seen unchanged for L + m without a gap of 2 B
 *  S3      a dead owner's lease or office is taken after a consistent read that was sent when its epoch was known
 *  S4      what the own row says is to be given is not delivered any more, and stays said until it is over
 *  A3, A5  rows of dead workers and of finished shards are deleted after K
 *  A5      after a refused or unknown write of a lease it is read before the next one
 *  A6      a final write is preceded by a read of the row; checkpoints keep their interval
 *  API     whoever waits for a checkpoint gets it without waiting for its interval
 *  A7      a move stands in the lease row before anybody is told; force comes after an acknowledged `give` stood for
 *          its time; a move under way does not stop
 *  A7      only who held the office leads; leases go to workers that are active and were seen to advance, after a
 *          muster; who gets a lease begins it soon
 *
 * A rule broken here need not do harm in this world: most of them are there for a coincidence that takes a million
 * seeds.
 */
#ifndef KS_SIM_ORACLE_RULES_H
#define KS_SIM_ORACLE_RULES_H

#include "oracle.h"

void oracle_rules_asked(struct world *world, struct process *process, struct table_request *request,
                        ks_instant now);
void oracle_rules_answered(const struct world *world, struct process *process,
                           const struct table_request *request, enum ks_outcome outcome);
/* Somebody waits for the checkpoint of the shard. */
void oracle_rules_persist(const struct world *world, struct process *process, ks_shard shard);
/* The claim was applied: this incarnation holds the office. */
void oracle_rules_leads(struct world *world, const struct table_request *request);
/* A step of a process that has heard of the store was made. */
void oracle_rules_stepped(struct world *world, const struct process *process);
/* A heartbeat removes tokens from its row. */
void oracle_rules_removed(struct world *world, const struct table_request *request);
/* The stream was listed. */
void oracle_rules_listed(struct process *process, const struct ks_shard_row *rows, uint32_t count,
                         ks_instant now);
/* In peace: whoever owns a lease has begun it by now, and whoever waited has his checkpoint; in a quiet fleet nothing
 * is left to be told, in flight or in memory. */
void oracle_rules_look(struct world *world);
/* True if a row of a shard that has expired is still there, and will be deleted. */
bool oracle_rules_is_kept(const struct world *world);
void oracle_rules_quiet(struct world *world);

#endif
