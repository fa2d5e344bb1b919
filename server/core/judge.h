/* SPDX-License-Identifier: Apache-2.0 */
/* judge.h - the filter of the sessions: which of the records that wait it has judged.
 *
 * All open sessions have the same filter, or none. The core knows it by a number. Bytes are judged outside of the core:
 * the shell asks for records with ks_core_unjudged() and answers with KS_EVENT_JUDGED. A record that the filter takes
 * may be delivered. One that it excludes is settled. A record is judged when an open session is to get it: the session
 * accepts its shard, and has a share if the lane is of the share. All others wait unjudged, as without a session.
 * A lease is judged again from its watermark on when a session opens: records that were passed may be for it.
 * Pure. Part of struct ks_core.
 */
#ifndef KS_CORE_JUDGE_H
#define KS_CORE_JUDGE_H

#include "core/core.h"
#include "core/state.h"

/* A session is opened with this filter, 0: none. If it is another filter than before, no other session is open. */
void ks_judge_open(struct ks_core *core, uint64_t filter);
/* Performs KS_EVENT_JUDGED: settles what the filter excludes. Does nothing to records that need no judgement. */
void ks_judge_records(struct ks_core *core, const struct ks_event *event,
                      struct ks_effects *effects);
/* Asserts what must hold between any two calls. */
void ks_judge_check(const struct ks_core *core, const struct ks_lease *lease);

#endif
