/* SPDX-License-Identifier: Apache-2.0 */
/* refusal.h - what a person can do about a refusal of Kinesis that AWS does not explain.
 *
 * Records of an encrypted stream are decrypted by KMS for whoever reads them; its refusals come through Kinesis under
 * names of their own (GetRecords API reference), in data requests only: the stream can be described all the same. Pure.
 */
#ifndef KS_ADAPTERS_KINESIS_REFUSAL_H
#define KS_ADAPTERS_KINESIS_REFUSAL_H

#include "aws/failure.h"

/* Says it as ks_failure_explain does, with the advice before AWS's own words; false if we have none. */
bool ks_refusal_explain(const struct ks_failure *failure, const char *operation,
                        struct ks_detail *ret_detail);

#endif
