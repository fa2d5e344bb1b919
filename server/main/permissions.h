/* SPDX-License-Identifier: Apache-2.0 */
/* permissions.h - what the sidecar must be allowed to do in AWS, from one table (main/permissions.def).
 *
 * An IAM policy is for one holder of credentials: the process, or one of the roles that the options name. Format: "IAM
 * JSON policy elements reference" of the IAM user guide. Pure.
 */
#ifndef KS_MAIN_PERMISSIONS_H
#define KS_MAIN_PERMISSIONS_H

#include "base/options.h"

struct ks_permissions_query {
    const struct ks_options *options; /* Of all subscriptions. */
    const char *region;     /* Of names that are no ARN; "": unknown, printed as REGION. */
    const char *account;    /* The same; printed as ACCOUNT. */
    const char *stream_key; /* ARN of the KMS key of the stream; NULL: it is not encrypted. */
    /* ARN of the KMS key of the dead letters; NULL: the key that --dead-letters names, if any. */
    const char *letters_key;
    const char *role; /* ARN of the role that the policy is for; NULL: the process. */
    bool existing;    /* Tables and consumer exist: without the rights to make them. */
};

enum { KS_PERMISSIONS_BYTES_MAX = 1 << 20 };

/* Appends the least policy with which these options work, a line for each statement. INVALID with a detail: the options
 * do not name `role`, or an ARN cannot be known; NOT_FOUND with a detail: no right is needed; FULL, NO_MEMORY. */
KS_MUST_USE ks_err ks_permissions_policy(struct ks_bytes *bytes,
                                         const struct ks_permissions_query *query,
                                         struct ks_detail *detail);

/* Appends the table as docs/AWS.md has it, and as JSON for deploy/terraform. FULL, NO_MEMORY. */
KS_MUST_USE ks_err ks_permissions_markdown(struct ks_bytes *bytes);
KS_MUST_USE ks_err ks_permissions_json(struct ks_bytes *bytes);

#endif
