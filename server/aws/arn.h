/* SPDX-License-Identifier: Apache-2.0 */
/* arn.h - the parts of an Amazon Resource Name: arn:PARTITION:SERVICE:REGION:ACCOUNT:RESOURCE.
 *
 * Pure; views into the text.
 */
#ifndef KS_AWS_ARN_H
#define KS_AWS_ARN_H

#include "base/bytes.h"

enum { KS_ACCOUNT_SIZE = 13 }; /* Of the number of an account: 12 digits and a NUL. */

struct ks_arn {
    ks_view partition;
    ks_view service;
    ks_view region;   /* Empty for what is in none. */
    ks_view account;  /* Likewise; else 12 digits. */
    ks_view resource; /* Behind the fifth colon: "stream/name", "role/name". */
};

bool ks_account_is_valid(ks_view account);

/* INVALID: too few parts, an empty partition, service or resource, an account that is none. */
KS_MUST_USE ks_err ks_arn_split(ks_view text, struct ks_arn *ret_arn);

#endif
