/* SPDX-License-Identifier: Apache-2.0 */
/* kcl_rb.h - the lease table of kcl-rb: what its rows mean, and what each operation writes.
 *
 * The format is that of lib/kcl/checkpointer.rb of 1.0.0; one row for each shard, all attributes S or NULL:
 *
 *   shard_id       the key, alone
 *   assigned_to    id of the owner; absent or NULL: free. NULL is what a late checkpoint leaves behind
 *   lease_timeout  until when: 2024-05-01 12:00:10 UTC. It is the row's rev: ns since 1970. "" stands beside an owner
 *                  that is NULL
 *   checkpoint     digits of a sequence number (the record after it), or SHARD_END; absent or NULL: none yet
 *
 * and of ours, which are gone with every PutItem of theirs:
 *
 *   sidecar_worker      id of the sidecar that wrote the row last: who wrote one without is a stranger to our manners
 *   sidecar_checkpoint  beside SHARD_END: the row is masked. kcl-rb passes over it, and this is the checkpoint; "":
 *                       none yet
 *   SidecarPosition     the place inside an aggregate (foreign.h), beside the checkpoint or what is it in a masked row
 *
 * Always UpdateItem, never parent_shard_id. A row in any other form is damaged: it is named and left alone.
 */
#ifndef KS_ADAPTERS_DIALECTS_KCL_RB_H
#define KS_ADAPTERS_DIALECTS_KCL_RB_H

#include "adapters/dialects/dialect.h"

#define KS_KCL_RB_KEY "shard_id"

/* A lease_timeout in ns since 1970, and back. There is one spelling for each value; MALFORMED for all others, and for
 * times before 1970 or after 2261. "" is 1. 0 is none: the caller's. INVALID for what is not in whole seconds. */
KS_MUST_USE ks_err ks_kcl_rb_get_time(ks_view text, uint64_t *ret_ns);
KS_MUST_USE ks_err ks_kcl_rb_put_time(struct ks_bytes *bytes, uint64_t ns);

#endif
