/* SPDX-License-Identifier: Apache-2.0 */
/* oracle_share.h - the oracle's eye on shares: which sessions may get the records of a lane. */
#ifndef KS_SIM_ORACLE_SHARE_H
#define KS_SIM_ORACLE_SHARE_H

#include "agenda.h"
#include "oracle.h"

struct process;
struct world;

/* The lanes of the shard that are for sessions with a share, bit by lane; 0: no such session accepts the shard. */
uint64_t oracle_share_lanes(const struct oracle_process *truth, ks_shard shard);
/* The session was opened: all that have a share have the same. */
void oracle_share_opened(struct world *world, struct process *process, const struct ks_event *event,
                         struct oracle_session *opened);
/* Records of these lanes, bit by lane, were delivered: to a session with a share, if the lanes are of it and such a
 * session is there for the shard, and to another one if not. */
void oracle_share_delivered(struct world *world, struct process *process, ks_shard shard,
                            uint64_t lanes, uint32_t session);

#endif
