/* SPDX-License-Identifier: Apache-2.0 */
/* aws_arns.h - the ARNs of what a subscription uses in AWS.
 *
 * An ARN whose region or account is unknown has the placeholder REGION or ACCOUNT in that place. Pure.
 */
#ifndef KS_MAIN_AWS_ARNS_H
#define KS_MAIN_AWS_ARNS_H

#include "base/options.h"

enum ks_aws_resource {
    KS_AWS_RESOURCE_STREAM,
    KS_AWS_RESOURCE_CONSUMER,
    KS_AWS_RESOURCE_STREAM_KEY,
    KS_AWS_RESOURCE_LEASES, /* The first table of the dialect. */
    KS_AWS_RESOURCE_INDEX,  /* The index of that table. */
    KS_AWS_RESOURCE_SECOND, /* Its other tables. */
    KS_AWS_RESOURCE_THIRD,
    KS_AWS_RESOURCE_TABLES, /* All tables that the sidecar creates. */
    KS_AWS_RESOURCE_LETTERS,
    KS_AWS_RESOURCE_OBJECTS,
    KS_AWS_RESOURCE_BUCKET,
    KS_AWS_RESOURCE_SINK,
    KS_AWS_RESOURCE_LETTERS_KEY,
    KS_AWS_RESOURCE_ROLES
};

struct ks_aws_subject {
    const struct ks_options *options; /* Of one subscription. */
    const char *region;               /* "": unknown. */
    const char *account;              /* "": unknown. */
    const char *stream_key;           /* ARN of the KMS key of the stream; NULL: none. */
    /* ARN of the KMS key of the dead letters; NULL: the key that --dead-letters names, if any. */
    const char *letters_key;
};

/* Returns true if dead letters are encrypted with a KMS key that is known. */
bool ks_aws_arns_has_letters_key(const struct ks_aws_subject *subject);

/* Appends the ARNs of the resource to `lines`, a line feed after each; an ARN that is a line already is left out. The
 * options must use the resource. INVALID with a detail: --dead-letters cannot be read, or names its key by an alias,
 * which no policy can; FULL, NO_MEMORY. */
KS_MUST_USE ks_err ks_aws_arns_add(struct ks_bytes *lines, enum ks_aws_resource resource,
                                   const struct ks_aws_subject *subject, struct ks_detail *detail);

#endif
