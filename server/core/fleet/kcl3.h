/* SPDX-License-Identifier: Apache-2.0 */
/* kcl3.h - what the manners of KCL 3.x add to those of 2.x (kcl.c): docs/DIALECTS.md.
 *
 * Three rows say how a fleet agrees, and whether somebody leads it. They are read at the start and then as often as
 * the leader's heartbeat wants it, at most every minute, and followed in both directions, with the leases that we hold:
 *
 *   none, or not read yet   2.x; nothing is done before they were read once
 *   2X, UPGRADE_FROM_2X     2.x, and our metrics are reported: the fleet changes its manners when all workers do
 *   3X_WITH_ROLLBACK, 3X    reported, too; the leader assigns leases to those who report. The index of the owners tells
 *                           which are ours; a write proves it, and then they serve. If the leader's row stands still
 *                           for as long as it says, or there never was one, we take as in 2.x until somebody leads
 *
 * A lease that the leader gives on says so in its row (next owner): our next write is refused, and core/lease.c gives
 * it back. Pure. Of kcl.c alone.
 */
#ifndef KS_CORE_FLEET_KCL3_H
#define KS_CORE_FLEET_KCL3_H

#include "core/state.h"

void ks_kcl3_start(struct ks_core *core);
/* Probes, reports, looks for what was assigned: whatever is due. */
void ks_kcl3_turn(struct ks_core *core, struct ks_effects *effects);
ks_instant ks_kcl3_deadline(const struct ks_core *core);
/* False if the answer is none of its. */
bool ks_kcl3_answered(struct ks_core *core, const struct ks_event *event,
                      struct ks_effects *effects);
/* All rows were read. */
void ks_kcl3_rows_read(struct ks_core *core, const struct ks_event *event);
/* All rows are in the directory: whether a leader may assign us any of them. */
void ks_kcl3_count(struct ks_core *core, struct ks_effects *effects);
/* True while leases are taken as in 2.x, if it is known how the fleet agrees. */
bool ks_kcl3_takes(const struct ks_core *core);
/* When all rows are to be read again, if that was `at` in 2.x. */
ks_instant ks_kcl3_round_at(const struct ks_core *core, ks_instant at);

/* By kcl.c: true for a row that could be ours and whose parents are over. */
bool ks_kcl_readable(const struct ks_core *core, const struct ks_directory_entry *entry);

#endif
