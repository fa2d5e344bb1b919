/* SPDX-License-Identifier: Apache-2.0 */
/* object_bucket.h - the objects of a bucket of S3 in memory, with conditional writes.
 *
 * PUT with If-None-Match: * or If-Match, DELETE with If-Match, GET, and ListObjectsV2 of one prefix. The ETag is the
 * MD5 of the body, as that of S3 is without KMS: an object that is again what it was has its old ETag. Sources:
 * "Conditional requests" of the S3 user guide; PutObject, DeleteObject of the API reference. 404 is the answer to an
 * If-Match on a key that has no object.
 */
#ifndef TESTS_LIB_OBJECT_BUCKET_H
#define TESTS_LIB_OBJECT_BUCKET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

enum { OBJECT_BODY_MAX = 2048, OBJECT_KEY_MAX = 200, OBJECT_ETAG_MAX = 40, OBJECTS_MAX = 16 };

struct object {
    bool used;
    char key[OBJECT_KEY_MAX];
    char body[OBJECT_BODY_MAX];
    char etag[OBJECT_ETAG_MAX]; /* With its quotes. */
};

struct object_bucket {
    struct object objects[OBJECTS_MAX];
};

struct object_request {
    const char *method; /* PUT, GET, DELETE; LIST: of `key` as a prefix. */
    char key[OBJECT_KEY_MAX];
    char body[OBJECT_BODY_MAX];
    char if_match[OBJECT_ETAG_MAX]; /* "": none. */
    bool if_none_match;             /* "*" */
};

struct object_answer {
    int status;
    char etag[OBJECT_ETAG_MAX];
    char body[OBJECT_BODY_MAX];
    bool changed; /* The bucket is another one than before. */
};

/* NULL: there is none. */
struct object *object_find(struct object_bucket *bucket, const char *key);
/* Does what the request says. */
void object_perform(struct object_bucket *bucket, const struct object_request *request,
                    struct object_answer *ret_answer);

#endif
