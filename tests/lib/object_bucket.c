/* SPDX-License-Identifier: Apache-2.0 */
#include "object_bucket.h"

#include <stdio.h>
#include <string.h>

#include "base/digest.h"

#include "ks_test.h"

struct object *object_find(struct object_bucket *bucket, const char *key)
{
    for (uint32_t at = 0; at < OBJECTS_MAX; at++)
        if (bucket->objects[at].used && strcmp(bucket->objects[at].key, key) == 0)
            return &bucket->objects[at];
    return NULL;
}

static struct object *object_new(struct object_bucket *bucket, const char *key)
{
    uint32_t at = 0;

    while (at < OBJECTS_MAX && bucket->objects[at].used)
        at++;
    EXPECT(at < OBJECTS_MAX);
    bucket->objects[at] = (struct object){.used = true};
    memcpy(bucket->objects[at].key, key, strlen(key) + 1);
    return &bucket->objects[at];
}

static void fail(struct object_answer *answer, int status, const char *code)
{
    answer->status = status;
    (void)snprintf(answer->body, sizeof answer->body,
                   "<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>%s</Code></Error>",
                   code);
}

/* False: the answer says why. */
static bool is_met(const struct object *object, const struct object_request *request,
                   struct object_answer *answer)
{
    if (request->if_match[0] != '\0' && object == NULL)
        fail(answer, 404, "NoSuchKey");
    else if ((request->if_match[0] != '\0' && strcmp(object->etag, request->if_match) != 0) ||
             (request->if_none_match && object != NULL))
        fail(answer, 412, "PreconditionFailed");
    return answer->status == 0;
}

static void put(struct object_bucket *bucket, struct object *object,
                const struct object_request *request, struct object_answer *answer)
{
    uint8_t digest[KS_MD5_SIZE];

    if (object == NULL)
        object = object_new(bucket, request->key);
    memcpy(object->body, request->body, sizeof object->body);
    ks_md5(ks_view_text(object->body), digest);
    object->etag[0] = '"';
    for (size_t at = 0; at < sizeof digest; at++)
        (void)snprintf(object->etag + 1 + 2 * at, 4, "%02x\"", digest[at]);
    answer->status = 200;
    answer->changed = true;
}

static void list(struct object_bucket *bucket, const char *prefix, struct object_answer *answer)
{
    size_t size = 0;

    answer->status = 200;
    answer->body[0] = '\0';
    size += (size_t)snprintf(answer->body, sizeof answer->body,
                             "<ListBucketResult><IsTruncated>false</IsTruncated>");
    for (uint32_t at = 0; at < OBJECTS_MAX; at++)
        if (bucket->objects[at].used &&
            strncmp(bucket->objects[at].key, prefix, strlen(prefix)) == 0)
            size += (size_t)snprintf(
                answer->body + size, sizeof answer->body - size,
                "<Contents><Key>%s</Key><Size>%zu</Size><ETag>%s</ETag></Contents>",
                bucket->objects[at].key, strlen(bucket->objects[at].body),
                bucket->objects[at].etag);
    size +=
        (size_t)snprintf(answer->body + size, sizeof answer->body - size, "</ListBucketResult>");
    EXPECT(size < sizeof answer->body);
}

void object_perform(struct object_bucket *bucket, const struct object_request *request,
                    struct object_answer *ret_answer)
{
    struct object *const object = object_find(bucket, request->key);

    *ret_answer = (struct object_answer){.status = 0};
    if (strcmp(request->method, "LIST") == 0) {
        list(bucket, request->key, ret_answer);
    } else if (!is_met(object, request, ret_answer)) {
        return;
    } else if (strcmp(request->method, "PUT") == 0) {
        put(bucket, object, request, ret_answer);
    } else if (strcmp(request->method, "DELETE") == 0) {
        ret_answer->status = 204;
        ret_answer->changed = object != NULL;
        if (object != NULL)
            object->used = false;
    } else if (object == NULL) {
        fail(ret_answer, 404, "NoSuchKey");
    } else {
        ret_answer->status = 200;
        memcpy(ret_answer->body, object->body, sizeof ret_answer->body);
        memcpy(ret_answer->etag, object->etag, sizeof ret_answer->etag);
    }
}
