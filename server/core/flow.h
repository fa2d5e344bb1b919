/* SPDX-License-Identifier: Apache-2.0 */
/* flow.h - what to read, and how much: a slow app costs lag, not memory.
 *
 * Records are read for sessions that are there: all payload in memory, in flight, waiting or being read, stays within
 * the sum of their byte limits and within the byte budget. Every lease has a small share that no other can take, so
 * that none starves; the rest is common, and a lease takes at most half of all when there are several. A lease at the
 * tip of its shard asks for little, one that is behind for much.
 * Pure. Part of struct ks_core.
 */
#ifndef KS_CORE_FLOW_H
#define KS_CORE_FLOW_H

#include "core/state.h"

void ks_flow_records(struct ks_core *core, const struct ks_event *event,
                     struct ks_effects *effects);
void ks_flow_failed(struct ks_core *core, const struct ks_event *event, struct ks_effects *effects);
/* So many bytes may be held from now on. What is held beyond stays, and nothing is read meanwhile. */
void ks_flow_budget(struct ks_core *core, uint64_t bytes);
/* Asks for the reads that there is room for. */
void ks_flow_turn(struct ks_core *core, struct ks_effects *effects);
ks_instant ks_flow_deadline(const struct ks_core *core);
/* The read in flight of a lease is not awaited any more. */
void ks_flow_forget(struct ks_core *core, struct ks_lease *lease);
/* Payload in memory. */
uint64_t ks_flow_held(const struct ks_core *core);

#endif
