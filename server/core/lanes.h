/* SPDX-License-Identifier: Apache-2.0 */
/* lanes.h - which session has which lane.
 *
 * A lane (by shard: the lease; by key: one of its N) belongs to one session at a time. Lanes are divided evenly among
 * the sessions that are there; a lane changes hands only when nothing of it is in flight. Without order a lease has one
 * lane, and whoever accepts the shard takes from it.
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
/* Divides all lanes again, as far as that can be. */
void ks_lanes_balance(struct ks_core *core);

/* True while the session takes records, or is about to. */
bool ks_session_present(const struct ks_session *session);

#endif
