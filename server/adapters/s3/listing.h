/* SPDX-License-Identifier: Apache-2.0 */
/* listing.h - a page of ListObjectsV2: the keys in their order, with the size and the ETag of each object.
 *
 *     <ListBucketResult> <IsTruncated>true</IsTruncated>
 *         <Contents> <Key>..</Key> <Size>..</Size> <ETag>..</ETag> .. </Contents> .. </ListBucketResult>
 *
 * Keys are percent-encoded, as `encoding-type=url` asks for it: a key may hold what no XML can. Source: API reference
 * of S3, version 2006-03-01. Views of the answer; pure.
 */
#ifndef KS_ADAPTERS_S3_LISTING_H
#define KS_ADAPTERS_S3_LISTING_H

#include "base/bytes.h"

enum { KS_S3_KEY_MAX = 1024, KS_S3_ETAG_MAX = 130 };

struct ks_s3_listing {
    bool truncated; /* Other objects follow the last one of this page. */
    ks_view rest;   /* What was not read yet. */
};

struct ks_s3_object {
    char key[KS_S3_KEY_MAX + 1];
    uint64_t size;
    char etag[KS_S3_ETAG_MAX + 1]; /* With its quotes; "": none that can be. */
};

/* MALFORMED: it is not a page. */
KS_MUST_USE ks_err ks_s3_listing_read(ks_view answer, struct ks_s3_listing *ret_listing);
/* The next object. NOT_FOUND: there is none; MALFORMED: what follows is not one. */
KS_MUST_USE ks_err ks_s3_listing_next(struct ks_s3_listing *listing,
                                      struct ks_s3_object *ret_object);

/* True for the text of an ETag header: printable ASCII, with its quotes. */
bool ks_s3_etag_is_valid(ks_view etag);

#endif
