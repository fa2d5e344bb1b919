/* SPDX-License-Identifier: Apache-2.0 */
/* lanes.h - which session has which lane.
 *
 * A lane (by shard: the lease; by key: one of its N) belongs to one session at a time. Lanes are divided evenly among
 * the sessions that are there; a lane changes hands only when nothing of it is in flight. Without order a lease has one
 * lane, and whoever accepts the shard takes from it.
 *
 * By key, sessions may have a share: so many of the lanes, the same in every shard, belong to them alone, and all
 * others to the sessions without one. Of a shard that no session with a share accepts, all lanes are the rest's. All
 * shares that are there at one time are equal.
 * Pure. Part of struct ks_core.
 */
#ifndef KS_CORE_LANES_H
#define KS_CORE_LANES_H

#include "core/state.h"

/* How the records of all leases are ordered from now on. Nothing is in flight. */
void ks_lanes_order(struct ks_core *core, enum ks_ordering ordering, uint32_t lanes);
/* The lanes of a lease that begins. */
void ks_lanes_begin(const struct ks_core *core, struct ks_lease *lease);
/* The lanes of the lease from which the session may take records now; bit by lane. */
uint64_t ks_lanes_open(const struct ks_core *core, const struct ks_lease *lease, ks_session_id id);
/* No lane belongs to the session, or will. */
void ks_lanes_strip(struct ks_core *core, ks_session_id id);
/* The lanes of a share, bit by lane: as many as ks_share_count(), of `lanes`, at most KS_LANES_MAX. The same salt and
 * number of lanes give the same lanes at any time, and a larger share has those of a smaller one, too. */
uint64_t ks_share_lanes(uint32_t share, uint64_t salt, uint32_t lanes);
/* How many lanes a share in millionths is, rounded; it can be served if that is neither none nor all of them. */
uint32_t ks_share_count(uint32_t share, uint32_t lanes);
/* True if a record of the shard, beside all leases, is for the session, by the hash of its partition key. */
bool ks_lanes_admit(const struct ks_core *core, const struct ks_session *session, ks_shard shard,
                    uint8_t hash);
/* Counts the record, which is in memory, for its group, if a session with a share is there for its shard. */
void ks_lanes_count(struct ks_core *core, const struct ks_lease *lease, ks_number number,
                    enum ks_count count);
/* The lanes of the lease whose records an open session is to get, bit by lane. */
uint64_t ks_lanes_wanted(const struct ks_core *core, const struct ks_lease *lease);
/* Tells when only sessions with a share are left, and when another one is there. */
void ks_lanes_tell(struct ks_core *core, struct ks_effects *effects);

/* Divides all lanes again, as far as that can be. */
void ks_lanes_balance(struct ks_core *core);

/* True while the session takes records, or is about to. */
bool ks_session_present(const struct ks_session *session);

#endif
