/* SPDX-License-Identifier: Apache-2.0 */
/* operator.h - what a person orders: pause and resume, release of a lease, seek.
 *
 * A paused shard is read no further and delivers nothing; what is in flight may be settled. A pause that does not keep
 * the leases gives them away: of all shards, by wanting none, as an idle worker does; of one, as a release does.
 * A release is the hand-over of core/lease.h, and a rest: until it ends the fleet is told that we take no more leases
 * than are left, and the final write waits until that stands in our row, so that no leader gives the lease back.
 * A seek is the one way back for a checkpoint: the epoch ends with a conditional write that moves the checkpoint and
 * names us again, so that no ack of the old epoch means anything in the new one.
 * A skip gives up the one record that blocks a lane, as its app could: no epoch ends.
 * Pure. Part of struct ks_core.
 */
#ifndef KS_CORE_OPERATOR_H
#define KS_CORE_OPERATOR_H

#include "core/state.h"

/* `event->pause`, for one shard or for all of them, also those that come. A second pause counts from then on. */
void ks_operator_pause(struct ks_core *core, const struct ks_event *event,
                       struct ks_effects *effects);
/* A shard that was not known: paused if all are. */
void ks_operator_inherit(struct ks_core *core, ks_shard shard);
/* True if something was ordered for this shard alone. */
bool ks_operator_remembers(const struct ks_core *core, ks_shard shard);
/* Of one shard, or of all (KS_SHARD_NONE): then every pause and every rest is over. */
void ks_operator_resume(struct ks_core *core, ks_shard shard, struct ks_effects *effects);
/* -> KS_EFFECT_OPERATED. */
void ks_operator_release(struct ks_core *core, ks_shard shard, struct ks_effects *effects);
/* -> KS_EFFECT_OPERATED; and KS_EFFECT_SOUGHT when an order that was accepted has come to its end. */
void ks_operator_seek(struct ks_core *core, const struct ks_event *event,
                      struct ks_effects *effects);

/* `event->skip` -> KS_EFFECT_OPERATED; NOT_BLOCKED unless the record has failed, is larger than its client takes, or is
 * the first of a full lease (core/poison.h). */
void ks_operator_skip(struct ks_core *core, const struct ks_event *event,
                      struct ks_effects *effects);

/* Pauses that are over; leases that came though their shard is to be with others. */
void ks_operator_turn(struct ks_core *core, struct ks_effects *effects);
ks_instant ks_operator_deadline(const struct ks_core *core);

/* The most leases that we want now, as the fleet is told; 0 = no limit. */
uint32_t ks_operator_capacity(const struct ks_core *core);
/* True while we want none. */
bool ks_operator_rests(const struct ks_core *core);
/* True if the lease may be given up: what was ordered with its release stands in our row. */
bool ks_operator_lets_go(const struct ks_core *core, const struct ks_lease *lease);

#endif
