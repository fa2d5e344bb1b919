/* SPDX-License-Identifier: Apache-2.0 */
/* native.h - the native fleet protocol: how workers agree who serves what. The specification is docs/PROTOCOL.md.
 *
 * self.c    We ourselves: register, beat, learn that we were fenced, leave.
 * orders.c  What the leader tells us to give and to take.
 * office.c  The others: watch their beats, fence the silent; the office: claim it, lose it.
 * leader.c  The leader's rounds: list shards, make rows, give free leases and those of dead workers to live workers,
 *           finish moves. shards.c: the listing and the rows. balance.c: which leases should move. audit.c: are all
 *           hash keys read.
 *           hints.c: telling those concerned.
 * Pure. Part of struct ks_core; leases begin and end in core/lease.h.
 */
#ifndef KS_CORE_FLEET_NATIVE_H
#define KS_CORE_FLEET_NATIVE_H

#include "core/fleet/protocol.h"

/* ---- self.c ---- */

void ks_self_answered(struct ks_core *core, const struct ks_event *event,
                      struct ks_effects *effects);
/* The lock file names our next boot, or could not be written. */
void ks_self_locked(struct ks_core *core, const struct ks_event *event, struct ks_effects *effects);
void ks_self_turn(struct ks_core *core, struct ks_effects *effects);
ks_instant ks_self_deadline(const struct ks_core *core);

/* ---- orders.c ---- */

/* Our own row, as any read shows it: what it tells us to give stops at once, what it tells us to take is asked for. */
void ks_orders_news(struct ks_core *core, const struct ks_worker_row *row);
/* The lease of `shard` is to become ours at `epoch` or later: ask for it until it is. `told`: the token stands in our
 * row and is removed from it afterwards. */
void ks_orders_take(struct ks_core *core, ks_shard shard, ks_epoch epoch, bool told);
/* Nothing of this epoch may be delivered again; give it back. */
void ks_orders_give(struct ks_core *core, ks_shard shard, ks_epoch epoch, bool told);
/* Adds to a heartbeat what it is to remove from our row; ks_orders_beaten when that is done. */
void ks_orders_beat(struct ks_core *core, struct ks_store_effect *heartbeat);
void ks_orders_beaten(struct ks_core *core);
/* The incarnation is over. */
void ks_orders_forget(struct ks_core *core);
/* True while something is still to be taken. */
bool ks_orders_pending(const struct ks_core *core);
void ks_orders_answered(struct ks_core *core, uint32_t index, const struct ks_event *event,
                        struct ks_effects *effects);
/* Every poll is due now. */
void ks_orders_look(struct ks_core *core);
void ks_orders_turn(struct ks_core *core, struct ks_effects *effects);
ks_instant ks_orders_deadline(const struct ks_core *core);

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
void ks_leader_written(struct ks_core *core, uint32_t index, uint32_t serial,
                       const struct ks_event *event, struct ks_effects *effects);
void ks_leader_turn(struct ks_core *core, struct ks_effects *effects);
ks_instant ks_leader_deadline(const struct ks_core *core);

/* A worker that may be given leases: live, active, its beat seen to advance under our eyes, not late. */
bool ks_leader_fit(const struct ks_core *core, const struct ks_member *member);
/* True if it takes no more than `leases`. */
bool ks_leader_full(const struct ks_core *core, const struct ks_member *member, uint32_t leases);
/* The fit one with room that has, or will have, the fewest leases; NULL. */
struct ks_member *ks_leader_least_loaded(const struct ks_core *core);
bool ks_leader_mustering(const struct ks_core *core);
/* The rows of leases have been asked for, in vain, for longer than a round waits: rounds go by the rows as known. */
bool ks_leader_goes_on(const struct ks_core *core);
bool ks_leader_may_write(const struct ks_fleet *fleet);
/* Writes a lease row, or reads it; ks_leader_may_write said yes, and none is in flight for it. Returns the write in
 * flight. */
struct ks_leader_write *ks_leader_write(struct ks_core *core, ks_shard shard,
                                        enum ks_store_operation operation,
                                        struct ks_incarnation target, struct ks_effects *effects);

/* ---- shards.c ---- */

/* The answer to KS_EFFECT_LIST. */
void ks_shards_listed(struct ks_core *core, const struct ks_event *event);
/* The answer to a read of all lease rows. */
void ks_shards_rows(struct ks_core *core, uint32_t serial, const struct ks_event *event,
                    struct ks_effects *effects);
/* The answer to a read of one, which was doubtful. */
void ks_shards_read(struct ks_core *core, ks_shard shard, uint32_t serial,
                    const struct ks_event *event);
/* A lease row, as a read shows it that was asked for with `serial`; its shard is in the directory. What was read or
 * written of it since is newer. */
void ks_shards_see(struct ks_core *core, uint32_t serial, const struct ks_lease_row *row);
/* True if listings a second apart did not show it. */
bool ks_shards_unlisted(const struct ks_directory_entry *entry);
/* True if the stream has it no more: listings a second apart did not show it. Where only one did not, asks for another
 * one. */
bool ks_shards_gone(struct ks_core *core, ks_shard shard);
/* True if all parents of a shard are over: it may have a row, and be served. */
bool ks_shards_parents_over(struct ks_core *core, const struct ks_directory_entry *entry);
/* True if a lease waits for an owner. */
bool ks_shards_free(const struct ks_core *core);
/* True if it is finished, and not in the stream any more for K. */
bool ks_shards_expired(const struct ks_core *core, ks_shard shard);
/* True if the row of a finished shard is of no more use. */
bool ks_shards_may_delete(const struct ks_core *core, ks_shard shard);
void ks_shards_deleted(struct ks_core *core, ks_shard shard);
/* An edge to a child (ks_directory_entry.children, where the protocol keeps them): the child, and the parent's next. */
static inline ks_shard ks_shards_child(uint32_t edge)
{
    return edge / KS_PARENTS_MAX;
}
static inline uint32_t ks_shards_next_edge(const struct ks_core *core, uint32_t edge)
{
    return core->directory[ks_shards_child(edge)].siblings[edge % KS_PARENTS_MAX];
}

/* ---- audit.c ---- */

/* Audits in a row that must see a hole before it is told: a listing may miss a shard, or be older than the rows. */
enum { KS_AUDIT_STRIKES = 3 };
/* At the end of a round that found nothing to repair, after each listing: looks for hash keys without an open lease.
 * The shards are listed again while there are some; a row that is wrong for K is removed. */
void ks_audit(struct ks_core *core, struct ks_effects *effects);
/* True if every hash key of the shard is known to be one of its children's, or its own are not known. Of a protocol
 * that keeps the edges to children. */
bool ks_audit_is_continued(const struct ks_core *core, ks_shard shard);

/* ---- balance.c ---- */

/* Plans a move of this lease, if it should move. */
void ks_balance(struct ks_core *core, ks_shard shard, struct ks_effects *effects);
/* The counts are right and nothing moves: evens out the traffic, by one lease or by two that change places, if it has
 * been uneven for long. */
void ks_balance_load(struct ks_core *core, struct ks_effects *effects);

/* ---- hints.c ---- */

/* Tells the new owner of a lease. */
void ks_hints_owner(struct ks_core *core, ks_shard shard);
/* Tells owner and next owner of a move, once each in an epoch. */
void ks_hints_move(struct ks_core *core, ks_shard shard);
/* Tells a worker of all its leases again. */
void ks_hints_again(struct ks_core *core, struct ks_incarnation owner);
void ks_hints_answered(struct ks_core *core, uint32_t index, uint32_t serial,
                       enum ks_outcome outcome);
/* True while somebody has still to be told. */
bool ks_hints_open(const struct ks_core *core);
void ks_hints_turn(struct ks_core *core, struct ks_effects *effects);

/* ---- For other protocols, too. ---- */

/* Whether we want leases: fleet.mode, and whether our reads fail. */
void ks_self_choose(struct ks_core *core, struct ks_effects *effects);
/* When that may change next. */
ks_instant ks_self_choice(const struct ks_core *core);
/* The point at which a drain stops waiting for the table. */
ks_instant ks_self_last_call(const struct ks_core *core);
/* GONE: what is left of leases and sessions ends, then DRAINED, once. */
void ks_self_finish(struct ks_core *core, struct ks_effects *effects);

/* The first state: nothing is known, everything is due. */
void ks_native_begin(struct ks_core *core);
/* The member of this worker number, or NULL. */
struct ks_member *ks_native_member(const struct ks_core *core, uint32_t worker);
/* Sees to it that the directory reaches up to `shard`. False if the number is beyond its capacity. */
bool ks_native_know(struct ks_core *core, ks_shard shard);
/* Nothing is known of the shard. */
void ks_native_forget(struct ks_core *core, ks_shard shard);

#endif
