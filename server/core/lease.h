/* SPDX-License-Identifier: Apache-2.0 */
/* lease.h - a lease that we hold: from its begin to its final write.
 *
 * One write in flight per lease. After a refused one: read before the next. After an unknown one: read back; if the row
 * has not moved, the write may still land, so the next one carries the same rev (docs/PROTOCOL.md A5). The final write
 * and SHARD_END are points of no return (S5): once sent, nothing of this epoch is delivered or acknowledged again.
 * Pure. Part of struct ks_core.
 */
#ifndef KS_CORE_LEASE_H
#define KS_CORE_LEASE_H

#include "core/state.h"

/* Begins to serve a shard: `row` is a consistent read that names us (A6). An epoch that we ended or are to give is
 * given back at once. */
void ks_lease_begin(struct ks_core *core, const struct ks_lease_row *row,
                    struct ks_effects *effects);
/* The epoch is over for us, by the table or by the loss of our incarnation. Nothing is written. */
void ks_lease_lose(struct ks_core *core, struct ks_lease *lease, enum ks_story why,
                   struct ks_effects *effects);
/* Every epoch of the shard up to this one is over for us. */
void ks_lease_ended(struct ks_core *core, ks_shard shard, ks_epoch epoch);
/* Begins to give it back: settle what is in flight, then the final write. */
void ks_lease_return(struct ks_core *core, struct ks_lease *lease);

/* An answer to one of our writes or reads of it. */
void ks_lease_answered(struct ks_core *core, uint32_t index, uint32_t serial,
                       const struct ks_event *event, struct ks_effects *effects);
/* The watermark moved: drops what is settled. */
void ks_lease_settled(struct ks_lease *lease, ks_number mark_before, struct ks_effects *effects);

/* Checkpoints, final writes, SHARD_END: whatever is due. */
void ks_lease_turn(struct ks_core *core, struct ks_effects *effects);
ks_instant ks_lease_deadline(const struct ks_core *core);

/* Our lease of a shard in this epoch, or NULL. */
struct ks_lease *ks_lease_of(const struct ks_core *core, ks_shard shard, ks_epoch epoch);
/* True while its records may leave the house, as of now. */
bool ks_lease_may_deliver(const struct ks_core *core, const struct ks_lease *lease);
/* The leader wants it given: it is returned. The heartbeat that showed this gives its records no time: the leader's
 * clock may run since before it was sent (PROTOCOL A7), so half-way records are finished by the deadline of those
 * before. */
void ks_lease_give(struct ks_core *core, struct ks_lease *lease);
/* Whether bytes of its records that were begun may be sent at `now`: also while it is returned, until its patience
 * ends. */
bool ks_lease_may_finish(const struct ks_core *core, const struct ks_lease *lease, ks_instant now);

#endif
