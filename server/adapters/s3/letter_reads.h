/* SPDX-License-Identifier: Apache-2.0 */
/* letter_reads.h - the asks that read letters in S3: find, and list.
 *
 * A list asks for keys until it has as many as it may, or as many bytes; then it reads their objects, in any order.
 */
#ifndef KS_ADAPTERS_S3_LETTER_READS_H
#define KS_ADAPTERS_S3_LETTER_READS_H

#include "adapters/s3/letter_asks.h"

/* The answer to the GetObject of a find, */
void ks_s3_read_found(struct ks_s3_part *part, const struct ks_aws_answer *answer);
/* and of a list. */
void ks_s3_read_listed(struct ks_s3_part *part, const struct ks_aws_answer *answer);
/* Asks for the keys that follow `ask->after`; each becomes a part. */
void ks_s3_read_keys(struct ks_s3_ask *ask);
/* All objects of the parts were read, or are gone: they become the letters of the answer. Asks for more keys where all
 * of them are gone. */
void ks_s3_read_objects(struct ks_s3_ask *ask);

#endif
