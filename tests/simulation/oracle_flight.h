/* SPDX-License-Identifier: Apache-2.0 */
/* oracle_flight.h - the oracle's own tracker: which records are with whom, and what may be delivered next (I3, I5, I7).
 *
 * A second implementation of order, credit and settling, by plain arrays and in the slowest way that is still
 * fast enough. Where the core may act now or a moment later (an ack deadline that has passed, a nack by another
 * session), the record is in doubt: both are right.
 */
#ifndef KS_SIM_ORACLE_FLIGHT_H
#define KS_SIM_ORACLE_FLIGHT_H

#include "agenda.h"
#include "oracle.h"

/* The settlement, close or tick of this step changes what is in flight. */
void oracle_flight_stepped(struct world *world, struct process *process,
                           const struct ks_event *event, const struct ks_effects *effects,
                           ks_instant now);
/* A DELIVER: order, density, credit. */
void oracle_flight_delivered(struct world *world, struct process *process,
                             const struct ks_effect *effect, ks_instant now);
/* The epoch of a shard is over. */
void oracle_flight_closed(const struct world *world, struct process *process, ks_shard shard);

/* A BURY: dead letters are written of what was given up. */
void oracle_flight_bury(struct world *world, struct process *process,
                        const struct ks_effect *effect);
/* STOPPED, DROPPED, SKIPPED. */
void oracle_flight_story(struct world *world, struct process *process,
                         const struct ks_effect *effect);
/* Of the partition key of a record. */
uint8_t oracle_hash(ks_shard shard, uint64_t index);

/* True while records of the lane are with a session. */
bool oracle_flight_is_flying(const struct world *world, struct process *process, ks_shard shard);

#endif
