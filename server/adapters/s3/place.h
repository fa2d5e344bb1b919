/* SPDX-License-Identifier: Apache-2.0 */
/* place.h - where objects are in S3: s3://BUCKET[/PREFIX][?kms-key=KEY].
 *
 * Names are those that every S3 takes as they are: a prefix has letters, digits and . _ - = in parts between slashes.
 * Sources: "General purpose bucket naming rules" and "Object key naming guidelines" of the S3 user guide. Pure.
 */
#ifndef KS_ADAPTERS_S3_PLACE_H
#define KS_ADAPTERS_S3_PLACE_H

#include "aws/limits.h"
#include "base/bytes.h"

enum {
    KS_S3_PREFIX_MAX = 256,
    KS_S3_KMS_KEY_MAX = 2048, /* What KMS takes as the ARN of a key or of an alias. */
};

struct ks_s3_place {
    char bucket[KS_BUCKET_MAX + 1];
    char prefix[KS_S3_PREFIX_MAX + 1];   /* "", or it ends with '/'. */
    char kms_key[KS_S3_KMS_KEY_MAX + 1]; /* "": objects are encrypted as the bucket says. */
};

/* INVALID with a detail. */
KS_MUST_USE ks_err ks_s3_place_read(const char *url, struct ks_s3_place *ret_place,
                                    struct ks_detail *detail);

#endif
