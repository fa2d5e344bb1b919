/* SPDX-License-Identifier: Apache-2.0 */
/* letters.h - dead letters in a bucket of S3, an object for each with the whole record.
 *
 * Every worker of the application sees all of them, and they survive each of its processes. Keys and objects:
 * letter_object.h. A new letter is one PutObject (If-None-Match). A letter that is there is read and replaced as it was
 * read (If-Match), so that neither a late write nor a late amend undoes what another worker did. A write of unknown
 * outcome may be repeated. A claim is a part of the object, and lasts by the clock of S3. A claim is one GetObject and
 * one PutObject, and so is its renewal. A list is one ListObjectsV2 and a GetObject for each letter, 16 at one time. S3
 * is strongly consistent: a list has what was written before it. Loop thread only.
 */
#ifndef KS_ADAPTERS_S3_LETTERS_H
#define KS_ADAPTERS_S3_LETTERS_H

#include "adapters/s3/place.h"
#include "aws/client.h"
#include "base/loop.h"
#include "ports/dead_letters.h"

/* `client` is of KS_AWS_S3 for the bucket of `place`, and outlives the store. The keys of letters begin with
 * PREFIX/APPLICATION/STREAM/; texts are copied. Returns before the bucket was reached; the log reports whether it can
 * be listed. INVALID with a detail (a name that no key can have), NO_MEMORY. Not to be closed from within an
 * `answered`. */
KS_MUST_USE ks_err ks_s3_letters_open(struct ks_loop *loop, struct ks_aws_client *client,
                                      const struct ks_s3_place *place, const char *application,
                                      ks_view stream, struct ks_dead_letters **ret,
                                      struct ks_detail *ret_detail);

#endif
