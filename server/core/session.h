/* SPDX-License-Identifier: Apache-2.0 */
/* session.h - local consumers, and the lanes that are divided among them.
 *
 * A lane (with ordering by shard: a lease) belongs to one session at a time. Lanes are divided evenly among the
 * sessions that are there; a lane changes hands only when nothing of it is in flight.
 * Pure. Part of struct ks_core.
 */
#ifndef KS_CORE_SESSION_H
#define KS_CORE_SESSION_H

#include "core/state.h"

void ks_session_open(struct ks_core *core, const struct ks_event *event,
                     struct ks_effects *effects);
void ks_session_pull(struct ks_core *core, const struct ks_event *event,
                     struct ks_effects *effects);
void ks_session_detach(struct ks_core *core, ks_session_id session);
void ks_session_close(struct ks_core *core, ks_session_id session);
void ks_session_settle(struct ks_core *core, const struct ks_event *event,
                       struct ks_effects *effects);
void ks_session_checkpoint(struct ks_core *core, const struct ks_event *event,
                           struct ks_effects *effects);

/* Gives back credit for records of `lease` that are in flight no more. */
void ks_session_credit(struct ks_core *core, struct ks_lease *lease, struct ks_credit credit);
/* The lease is over: its records leave the sessions. */
void ks_session_forget_lease(struct ks_core *core, struct ks_lease *lease);
/* Ends every session; for the end of a drain. */
void ks_session_end_all(struct ks_core *core, struct ks_effects *effects);

/* Ack deadlines, graces, lane division, wake-ups: the last part of every step. */
void ks_session_turn(struct ks_core *core, struct ks_effects *effects);
ks_instant ks_session_deadline(const struct ks_core *core);

/* The credit in records of a session, and whether it may take from this lane. */
uint32_t ks_session_room(const struct ks_session *session);
bool ks_session_accepts(const struct ks_session *session, ks_shard shard);
enum ks_idle ks_session_idle(const struct ks_core *core, const struct ks_session *session);

#endif
