/* SPDX-License-Identifier: Apache-2.0 */
/* settle.h - what clients say became of records.
 *
 * A settlement counts for a record that its session has got whole (ks_tracker_may_settle). Of the others those that
 * are delivered again are expired, and those that were never handed to a connection are passed over.
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
