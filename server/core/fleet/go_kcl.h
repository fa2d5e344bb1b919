/* SPDX-License-Identifier: Apache-2.0 */
/* go_kcl.h - the manners of go-kcl, for protocols that keep to them with more besides: see protocol.h for each. Pure.
 */
#ifndef KS_CORE_FLEET_GO_KCL_H
#define KS_CORE_FLEET_GO_KCL_H

#include "core/fleet/peers.h"

void ks_go_kcl_read(const struct ks_core *core, struct ks_lease_row *row);
uint64_t ks_go_kcl_next_rev(const struct ks_core *core, const struct ks_lease *lease);
ks_instant ks_go_kcl_next_at(const struct ks_core *core, const struct ks_lease *lease);
ks_instant ks_go_kcl_serves_until(const struct ks_core *core, uint64_t rev);
void ks_go_kcl_round(struct ks_core *core, struct ks_effects *effects);
/* Takes a row that is free, or has run out. False: it is neither, or there is no room for another write now. */
bool ks_go_kcl_take(struct ks_core *core, ks_shard shard, struct ks_effects *effects);
void ks_go_kcl_claim(struct ks_core *core, ks_shard shard, struct ks_effects *effects);

/* True if the row's time was not over when all rows were asked for, by our clock and whoever's may be behind it. */
bool ks_go_kcl_lives(const struct ks_core *core, const struct ks_directory_entry *entry);

#endif
