/* SPDX-License-Identifier: Apache-2.0 */
/* redrive.h - dead letters that are delivered once more, because an operator wants it.
 *
 * A source beside the leases: a letter has a number that is used once, and no epoch, lane or watermark of its shard,
 * which has passed it long ago. It goes to any session that takes its shard, within that session's credit and before
 * what the lanes have, and fails and is tried again as records are. An ack or a drop removes it from the store,
 * `dead_letter` or the poison policy gives it up again: it stays a letter, and its attempts count on. It is ours until
 * the store has said so; what becomes of this process, the store has the letter until it is removed.
 * Pure. Part of struct ks_core.
 */
#ifndef KS_CORE_REDRIVE_H
#define KS_CORE_REDRIVE_H

#include "core/state.h"

/* True while the letter is with a session. */
static inline bool ks_redrive_is_out(const struct ks_redrive *letter)
{
    return letter->state >= KS_REDRIVE_ASSIGNED && letter->state <= KS_REDRIVE_WRITTEN;
}

/* KS_EVENT_REDRIVE; there is room for it. */
void ks_redrive_begin(struct ks_core *core, const struct ks_event *event);
/* KS_EVENT_DISCARDED: the store has it no more. Does nothing about one that is not ours. */
void ks_redrive_discarded(struct ks_core *core, ks_number number);
/* The answer to KS_EFFECT_LETTER. */
void ks_redrive_told(struct ks_core *core, const struct ks_event *event,
                     struct ks_effects *effects);

/* Delivers letters to the session that pulls, at most what it asks for; returns how many, each a run. What they have is
 * taken off `bytes_left`. */
uint32_t ks_redrive_pull(struct ks_core *core, const struct ks_event *event, uint64_t *bytes_left,
                         struct ks_effects *effects);
/* KS_EVENT_WRITE of letters. */
void ks_redrive_write(struct ks_core *core, const struct ks_event *event);
/* True if the letter is assigned by this assignment: it may be begun. */
bool ks_redrive_is_assigned(const struct ks_core *core, ks_number number, uint64_t assignment);
/* True if the session, which has room, could be sent one now. */
bool ks_redrive_waits(struct ks_core *core, ks_session_id session);
/* A settlement of letters: `event->settle` with KS_SHARD_NONE. */
enum ks_settle_status ks_redrive_settle(struct ks_core *core, const struct ks_event *event,
                                        struct ks_settled *settled);
/* The session is over: what it has is delivered again. */
void ks_redrive_requeue(struct ks_core *core, ks_session_id session, bool failed);

/* Ack deadlines, delays, and what is to be told to the store. */
void ks_redrive_turn(struct ks_core *core, struct ks_effects *effects);
ks_instant ks_redrive_deadline(const struct ks_core *core);
/* True while one is in flight, or settled and the store does not know. */
bool ks_redrive_busy(const struct ks_core *core);
/* Asserts what must hold between any two steps; adds to the counts of each session. */
void ks_redrive_check(const struct ks_core *core, uint32_t *in_flight, uint32_t sessions);

#endif
