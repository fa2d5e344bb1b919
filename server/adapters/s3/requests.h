/* SPDX-License-Identifier: Apache-2.0 */
/* requests.h - the four requests that are made to a bucket, and what their failures mean for people.
 *
 * PutObject, GetObject, DeleteObject and ListObjectsV2 of the API reference of S3, version 2006-03-01. All of them may
 * be made again: a put or a delete names the state of the object that it expects.
 */
#ifndef KS_ADAPTERS_S3_REQUESTS_H
#define KS_ADAPTERS_S3_REQUESTS_H

#include "adapters/s3/listing.h"
#include "adapters/s3/place.h"
#include "aws/client.h"

enum ks_s3_operation { KS_S3_PUT, KS_S3_GET, KS_S3_DELETE, KS_S3_LIST };

struct ks_s3_request {
    enum ks_s3_operation operation;
    const char *key;   /* KS_S3_LIST: the prefix of all keys. */
    const char *after; /* KS_S3_LIST: keys that follow this one; "": all. */
    uint32_t most;     /* KS_S3_LIST: objects, up to 1000. */
    const char *etag;  /* KS_S3_PUT, KS_S3_DELETE: of the object that is there; "": any or none. */
    bool absent;       /* KS_S3_PUT: only where no object is there. */
    ks_view body;      /* KS_S3_PUT. Copied. */
    size_t response_max;
    ks_span timeout; /* Of one attempt. */
    ks_span total;   /* Of all. */
    void (*done)(void *arg, const struct ks_aws_answer *answer);
    void *arg;
};

/* As ks_aws_call. */
KS_MUST_USE ks_err ks_s3_call(struct ks_aws_client *client, const struct ks_s3_place *place,
                              const struct ks_s3_request *request, struct ks_aws_call **ret_call);

/* True if the answer says that there is no such object (and not that there is no such bucket). */
bool ks_s3_is_absent(const struct ks_aws_answer *answer);
/* True if the object is not what the request expected. */
bool ks_s3_is_changed(const struct ks_aws_answer *answer);
/* True if the request of this answer has surely changed nothing. */
bool ks_s3_is_undone(const struct ks_aws_answer *answer);

/* Why a request failed, and what to do about it. */
void ks_s3_explain(const struct ks_s3_place *place, enum ks_s3_operation operation,
                   const struct ks_aws_answer *answer, struct ks_detail *ret_detail);

#endif
