/* SPDX-License-Identifier: Apache-2.0 */
/* imds.h - what else the instance metadata service of EC2 is asked for: the region that the instance is in.
 *
 * The rules are those of its credentials: where it is, its versions, and AWS_EC2_METADATA_DISABLED.
 */
#ifndef KS_AWS_CREDENTIALS_IMDS_H
#define KS_AWS_CREDENTIALS_IMDS_H

#include "aws/credentials/provider.h"

/* Turns the loop until the answer is there: for the start only, before anything else runs on it. That takes a second
 * where there is no such service, and some at most. NO_CREDENTIALS: there is none, or nobody may ask it; whatever else
 * keeps it from answering comes with a detail. NO_MEMORY. */
KS_MUST_USE ks_err ks_imds_region(const struct ks_provider_setup *setup,
                                  char ret_region[KS_REGION_MAX + 1], struct ks_detail *detail);

/* Returns true if AWS_EC2_METADATA_DISABLED is true. */
bool ks_imds_is_disabled(void);

#endif
