/* SPDX-License-Identifier: Apache-2.0 */
/* oracle_rules.h - the manners that docs/PROTOCOL.md asks of every process, by what it was told and when it asked.
 *
 *  A3, A4  nobody is fenced or replaced before its row was seen unchanged for L + m without a gap of 2 B
 *  S3      a dead owner's lease or office is taken after a consistent read that was sent when its epoch was known
 *  A5      after a refused or unknown write of a lease it is read before the next one
 *  A6      a final write is preceded by a read of the row; checkpoints keep their interval
 *  API     whoever waits for a checkpoint gets it without waiting for its interval
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
/* In peace: whoever owns a lease has begun it by now, and whoever waited has his checkpoint; in a quiet fleet nothing
 * is left to be told, in flight or in memory. */
void oracle_rules_look(struct world *world);
void oracle_rules_quiet(struct world *world);

#endif
