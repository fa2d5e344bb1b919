/* SPDX-License-Identifier: Apache-2.0 */
/* session.h - local consumers, and the lanes that are divided among them.
 *
 * The first session says how records are ordered: others that say otherwise are refused while one is there. Which lanes
 * are whose is in lanes.h, what becomes of a record that fails in poison.h.
 * Pure. Part of struct ks_core.
 */
#ifndef KS_CORE_SESSION_H
#define KS_CORE_SESSION_H

#include "core/state.h"

void ks_session_open(struct ks_core *core, const struct ks_event *event,
                     struct ks_effects *effects);
void ks_session_pull(struct ks_core *core, const struct ks_event *event,
                     struct ks_effects *effects);
/* KS_EVENT_WRITE. */
void ks_session_write(struct ks_core *core, const struct ks_event *event);
/* `cut`: as in the event. */
void ks_session_detach(struct ks_core *core, ks_session_id session, bool cut);
void ks_session_close(struct ks_core *core, ks_session_id session);
/* Other limits from now on. Of what is in flight nothing changes: if that is more than it may be, nothing is sent until
 * it is less. */
void ks_session_update(struct ks_core *core, const struct ks_event *event);
/* Explicit credit: so many records more may be delivered. */
void ks_session_grant(struct ks_core *core, ks_session_id session, uint32_t records);

/* Takes the record and the later deliveries of its lane back, if it is out. */
void ks_session_recall(struct ks_core *core, struct ks_lease *lease, ks_number number);
/* Gives back credit for records of the session and lane of `number` that are in flight no more. */
void ks_session_credit(struct ks_core *core, struct ks_lease *lease, ks_number number,
                       struct ks_credit credit);
/* The lease is looked at again when one of its ack deadlines or delays is due. */
void ks_session_mind(struct ks_core *core, const struct ks_lease *lease);
/* Something of the lease was settled: the watermark, which was at `mark`, and what waits in the lanes may move on. */
void ks_session_moved(struct ks_core *core, struct ks_lease *lease, ks_number mark,
                      struct ks_effects *effects);
/* Takes the records of the lease back that are only assigned: none of their bytes was written. `lanes`, bit by lane: of
 * these. An assigned record before one of its lane that is further stays: it is a part of an earlier answer. */
void ks_session_unassign(struct ks_core *core, struct ks_lease *lease, uint64_t lanes);
/* The lease is over: its records leave the sessions. */
void ks_session_forget_lease(struct ks_core *core, struct ks_lease *lease);
/* Ends every session; for the end of a drain. */
void ks_session_end_all(struct ks_core *core, struct ks_effects *effects);

/* Ack deadlines, graces, lane division, wake-ups: the last part of every step. */
void ks_session_turn(struct ks_core *core, struct ks_effects *effects);
ks_instant ks_session_deadline(const struct ks_core *core);

/* The credit in records of a session. */
uint32_t ks_session_room(const struct ks_session *session);
/* Bytes of `most` that the session may still take; 0 only if it has something in flight already. */
uint64_t ks_session_bytes_left(const struct ks_session *session, uint64_t most);
/* Whether it takes records of this shard; KS_SHARD_NONE: of one that is not known. */
bool ks_session_accepts(const struct ks_session *session, ks_shard shard);

#endif
