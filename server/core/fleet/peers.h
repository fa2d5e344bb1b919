/* SPDX-License-Identifier: Apache-2.0 */
/* peers.h - what all protocols of a table share whose members are equals: nobody leads, each row has its own time, and
 * whoever finds it free writes his name into it.
 *
 * Here is the bookkeeping: what the rows say and since when, our writes to rows that we do not hold, the begin of a
 * lease after a read that shows it as we wrote it, looks at all rows, start and leave. A protocol adds its manners:
 * revs, deadlines, and what a round does, `ks_fleet_protocol.round` (docs/DIALECTS.md). Pure.
 */
#ifndef KS_CORE_FLEET_PEERS_H
#define KS_CORE_FLEET_PEERS_H

#include "core/fleet/native.h"

/* ---- Rows ---- */

bool ks_peers_is_me(const struct ks_core *core, struct ks_incarnation who);
/* Our lease of this row, or NULL. */
struct ks_lease *ks_peers_held(const struct ks_core *core, const struct ks_directory_entry *entry);
/* True for a shard that is to be read: not finished, not damaged. */
bool ks_peers_open(const struct ks_directory_entry *entry);
/* Since when (owner, rev) of the row has been seen as it is, by our steady clock and without a gap between looks. */
ks_span ks_peers_unchanged(const struct ks_core *core, const struct ks_directory_entry *entry);

/* ---- Who has what ---- */

/* Counts the leases of each owner into core->members, and ourselves; `counts` says of an owned open row whether its
 * owner is there. */
void ks_peers_count(struct ks_core *core, bool (*counts)(const struct ks_core *core,
                                                         const struct ks_directory_entry *entry));
/* The member of this name, made if there is room for it; NULL. */
struct ks_member *ks_peers_member(struct ks_core *core, struct ks_incarnation who);
/* True while we want leases at all. */
bool ks_peers_want(const struct ks_core *core);
/* Leases that we may take now. */
uint32_t ks_peers_room(const struct ks_core *core);

/* ---- Writes ---- */

/* Writes to a row in flight, takes that are being read back among them. */
uint32_t ks_peers_writes(const struct ks_fleet *fleet);
/* True for an open row that we do not hold and may write to now. */
bool ks_peers_writable(const struct ks_directory_entry *entry);
/* Sends a write to a row that we do not hold: `rev` is what it gives the row. ASSIGN and TAKE_OVER are read back, and
 * the lease begins if the row is as written. `target`: PLAN's next owner. False if there is no room for another one
 * now. */
bool ks_peers_write(struct ks_core *core, ks_shard shard, enum ks_store_operation operation,
                    struct ks_incarnation target, uint64_t rev, struct ks_effects *effects);
/* Moves the rev of a row on that names us, and that is not to be served yet. Else as above; no lease begins. */
bool ks_peers_renew(struct ks_core *core, ks_shard shard, uint64_t rev, struct ks_effects *effects);
/* Has a row that we do not hold read, consistently. False if there is no room for another request now. */
bool ks_peers_look_at(struct ks_core *core, ks_shard shard);
/* The same, so much later, and then `ks_fleet_protocol.claim`: who has the lease renews it while all rows are looked
 * at, which takes long where there are many. What that look shows of it names a rev of before. A claim that was done is
 * followed so, too. */
bool ks_peers_claim(struct ks_core *core, ks_shard shard, ks_span after);
/* Deletes the rows of finished shards of which `useless` says so. */
void ks_peers_clean_up(struct ks_core *core,
                       bool (*useless)(const struct ks_core *core, ks_shard shard),
                       struct ks_effects *effects);

/* ---- The functions of a protocol, as they are; see protocol.h. ---- */

void ks_peers_start(struct ks_core *core);
void ks_peers_answered(struct ks_core *core, const struct ks_event *event,
                       struct ks_effects *effects);
void ks_peers_listed(struct ks_core *core, const struct ks_event *event);
void ks_peers_look(struct ks_core *core);
void ks_peers_locked(struct ks_core *core, const struct ks_event *event,
                     struct ks_effects *effects);
void ks_peers_turn(struct ks_core *core, struct ks_effects *effects);
ks_instant ks_peers_deadline(const struct ks_core *core);
void ks_peers_changed(struct ks_core *core);
/* Ours is over when the row names somebody else, or a rev that we did not write. */
void ks_peers_read(const struct ks_core *core, struct ks_lease_row *row);
/* `serial` is not looked at: what is written next stands on what was read last. */
void ks_peers_see(struct ks_core *core, uint32_t serial, const struct ks_lease_row *row);
void ks_peers_take(struct ks_core *core, ks_shard shard, ks_epoch epoch);
/* A beat after the last write. */
ks_instant ks_peers_renew_at(const struct ks_core *core, ks_instant asked_at);

#endif
