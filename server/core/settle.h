/* SPDX-License-Identifier: Apache-2.0 */
/* settle.h - what clients say became of records.
 *
 * A settlement counts for a record that was written to its session, and, if it names a batch, in that batch
 * (ks_tracker_may_settle). Of the others those that were written before are expired: they are delivered again. Those
 * that were never written are passed over.
 * Pure. Part of struct ks_core.
 */
#ifndef KS_CORE_SETTLE_H
#define KS_CORE_SETTLE_H

#include "core/state.h"

/* KS_EVENT_SETTLE. */
void ks_settle_records(struct ks_core *core, const struct ks_event *event,
                       struct ks_effects *effects);
/* KS_EVENT_CHECKPOINT. */
void ks_settle_checkpoint(struct ks_core *core, const struct ks_event *event,
                          struct ks_effects *effects);

#endif
