/* SPDX-License-Identifier: Apache-2.0 */
/* native.h - the native fleet protocol: how workers agree who serves what. The specification is docs/PROTOCOL.md.
 *
 * self.c    We ourselves: register, beat, learn that we were fenced, take what was given to us, leave.
 * office.c  The others: watch their beats, fence the silent; the office: claim it, lose it.
 * leader.c  The leader's rounds: list shards, make rows, give free leases and those of dead workers to live workers.
 * Pure. Part of struct ks_core; leases begin and end in core/lease.h.
 */
#ifndef KS_CORE_FLEET_NATIVE_H
#define KS_CORE_FLEET_NATIVE_H

#include "core/state.h"

/* ---- For the core. ---- */

void ks_native_start(struct ks_core *core);
/* An answer of the store to anything but a lease that we hold. */
void ks_native_answered(struct ks_core *core, const struct ks_event *event,
                        struct ks_effects *effects);
void ks_native_listed(struct ks_core *core, const struct ks_event *event);
/* Somebody wrote to the table: the next looks are due now. */
void ks_native_look(struct ks_core *core);
/* Whatever is due. */
void ks_native_turn(struct ks_core *core, struct ks_effects *effects);
ks_instant ks_native_deadline(const struct ks_core *core);
/* A lease of ours began or ended: the fleet hears of it with the next beat. */
void ks_native_changed(struct ks_core *core);
/* A shard was read to its end: its children can have rows now. */
void ks_native_shard_ended(struct ks_core *core, ks_shard shard);

/* ---- self.c ---- */

void ks_self_answered(struct ks_core *core, const struct ks_event *event,
                      struct ks_effects *effects);
void ks_self_take_answered(struct ks_core *core, uint32_t index, const struct ks_event *event,
                           struct ks_effects *effects);
/* Our own row, as any read shows it: takes in it start. */
void ks_self_news(struct ks_core *core, const struct ks_worker_row *row);
/* The lease of `shard` is to become ours at `epoch` or later: ask for it until it is. `told`: the token stands in our
 * row and is removed from it afterwards. */
void ks_self_take(struct ks_core *core, ks_shard shard, ks_epoch epoch, bool told);
void ks_self_turn(struct ks_core *core, struct ks_effects *effects);
ks_instant ks_self_deadline(const struct ks_core *core);

/* ---- office.c ---- */

void ks_office_news(struct ks_core *core, const struct ks_event *event, struct ks_effects *effects);
void ks_office_answered(struct ks_core *core, uint32_t serial, const struct ks_event *event,
                        struct ks_effects *effects);
void ks_office_fenced(struct ks_core *core, uint32_t index, uint32_t serial,
                      const struct ks_event *event, struct ks_effects *effects);
/* We are no leader any more. */
void ks_office_lose(struct ks_core *core, struct ks_effects *effects);
void ks_office_turn(struct ks_core *core, struct ks_effects *effects);
ks_instant ks_office_deadline(const struct ks_core *core);
/* Sends a read of the fleet. */
void ks_office_ask(struct ks_core *core, bool consistent, bool of_round,
                   struct ks_effects *effects);

/* ---- leader.c ---- */

void ks_leader_won(struct ks_core *core);
/* The consistent read of the fleet that a round needs has come. */
void ks_leader_fleet_read(struct ks_core *core);
void ks_leader_rows(struct ks_core *core, uint32_t serial, const struct ks_event *event,
                    struct ks_effects *effects);
void ks_leader_written(struct ks_core *core, uint32_t index, uint32_t serial,
                       const struct ks_event *event, struct ks_effects *effects);
void ks_leader_hinted(struct ks_core *core, uint32_t index, uint32_t serial,
                      enum ks_outcome outcome);
void ks_leader_turn(struct ks_core *core, struct ks_effects *effects);
ks_instant ks_leader_deadline(const struct ks_core *core);

/* The member of this worker number, or NULL. */
struct ks_member *ks_native_member(const struct ks_core *core, uint32_t worker);
/* Sees to it that the directory reaches up to `shard`. False if the number is beyond its capacity. */
bool ks_native_know(struct ks_core *core, ks_shard shard);

#endif
