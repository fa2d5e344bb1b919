/* SPDX-License-Identifier: Apache-2.0 */
/* go_kcl.h - the lease table of vmware-go-kcl, v1 and v2: what its rows mean, and what each operation writes.
 *
 * The format is that of clientlibrary/checkpoint/dynamodb-checkpointer.go of v1.5.1 and of v2; one row for each shard,
 * all attributes S:
 *
 *   ShardID        the key, alone
 *   AssignedTo     id of the owner; absent: free. "" is an owner, too: what a late checkpoint of a member leaves behind
 *   LeaseTimeout   until when, UTC: 2024-05-01T12:00:10Z (v1, and we), 2024-05-01T12:00:10.123456789Z (v2: up to nine
 *                  digits, no zero at the end). It is the row's rev: ns since 1970
 *   Checkpoint     digits of a sequence number (the record after it), or SHARD_END; absent or "": none yet
 *   ParentShardId  of a child; the second parent of a merge stands nowhere
 *   ClaimRequest   id of the member that waits for the lease: the row's next owner
 *   SidecarPosition  ours, where the record of the position is inside an aggregate, or a person said where to begin:
 *                  foreign.h has it
 *
 * Always UpdateItem: what members PutItem is whole and theirs, what we write is only what we mean. A row in any other
 * form (another type, a time that is spelled otherwise, TRIM_HORIZON) is damaged: it is named and left alone, for a
 * condition could not name it, or members could not read it.
 */
#ifndef KS_ADAPTERS_DIALECTS_GO_KCL_H
#define KS_ADAPTERS_DIALECTS_GO_KCL_H

#include "adapters/dialects/dialect.h"

#define KS_GO_KCL_KEY "ShardID"

/* A LeaseTimeout in ns since 1970, and back. There is one spelling for each value; MALFORMED for all others, and for
 * times before 1970 or after 2261. That of Go's zero time, 0001-01-01T00:00:00Z, is 1. 0 is none: the caller's. */
KS_MUST_USE ks_err ks_go_kcl_get_time(ks_view text, uint64_t *ret_ns);
KS_MUST_USE ks_err ks_go_kcl_put_time(struct ks_bytes *bytes, uint64_t ns);

#endif
