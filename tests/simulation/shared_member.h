/* SPDX-License-Identifier: Apache-2.0 */
/* shared_member.h - models of members: shared_member.c of vmware-go-kcl, kcl_member.c of the KCL 2.x. */
#ifndef KS_SIM_SHARED_MEMBER_H
#define KS_SIM_SHARED_MEMBER_H

#include "shared_world.h"

void shared_member_turn(struct shared_world *world, struct shared_member *member);

void kcl_member_turn(struct shared_world *world, struct shared_member *member);
/* Makes the rows that are missing. */
void kcl_sync(struct shared_world *world);
/* kcl_table.c: a member's write of a row, that before was so. */
void kcl_changed(struct shared_world *world, ks_shard shard, const struct shared_row *before);

/* kcl_leader.c. */
void kcl_begin(struct shared_world *world);
bool kcl_is_3x(const struct shared_world *world);
/* False if it is a request about a lease. */
bool kcl_apply(struct shared_world *world, struct shared_request *request);
void kcl_asked(struct shared_world *world, const struct shared_request *request);
void kcl_leader_turn(struct shared_world *world, struct shared_member *member);
/* The leader takes its worker for one, if that reads all streams; after a rollback nobody reports. */
bool kcl_reports(const struct shared_world *world, uint32_t node);

#endif
