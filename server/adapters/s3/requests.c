/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/s3/requests.h"

#include <assert.h>
#include <stdio.h>

static const struct operation {
    const char *name;
    const char *method;
    const char *action; /* Of IAM. */
} operations[] = {
    [KS_S3_PUT] = {"PutObject", "PUT", "s3:PutObject"},
    [KS_S3_GET] = {"GetObject", "GET", "s3:GetObject"},
    [KS_S3_DELETE] = {"DeleteObject", "DELETE", "s3:DeleteObject"},
    [KS_S3_LIST] = {"ListObjectsV2", "GET", "s3:ListBucket"},
};

struct headers {
    struct ks_http_header list[KS_REST_HEADERS_MAX];
    uint32_t count;
};

static void add(struct headers *headers, ks_view name, ks_view value)
{
    assert(headers->count < KS_REST_HEADERS_MAX);
    headers->list[headers->count++] = (struct ks_http_header){name, value};
}

static void add_headers(const struct ks_s3_place *place, const struct ks_s3_request *request,
                        struct headers *headers)
{
    const bool put = request->operation == KS_S3_PUT;

    if (put)
        add(headers, KS_VIEW("Content-Type"), KS_VIEW("application/json"));
    if (request->absent)
        add(headers, KS_VIEW("If-None-Match"), KS_VIEW("*"));
    if (request->etag != NULL && request->etag[0] != '\0')
        add(headers, KS_VIEW("If-Match"), ks_view_text(request->etag));
    if (!put || place->kms_key[0] == '\0')
        return;
    add(headers, KS_VIEW("x-amz-server-side-encryption"), KS_VIEW("aws:kms"));
    add(headers, KS_VIEW("x-amz-server-side-encryption-aws-kms-key-id"),
        ks_view_text(place->kms_key));
}

static uint32_t list_parameters(const struct ks_s3_request *request, const char *most,
                                struct ks_http_header parameters[5])
{
    uint32_t count = 0;

    parameters[count++] = (struct ks_http_header){KS_VIEW("list-type"), KS_VIEW("2")};
    parameters[count++] = (struct ks_http_header){KS_VIEW("encoding-type"), KS_VIEW("url")};
    parameters[count++] = (struct ks_http_header){KS_VIEW("prefix"), ks_view_text(request->key)};
    parameters[count++] = (struct ks_http_header){KS_VIEW("max-keys"), ks_view_text(most)};
    if (request->after != NULL && request->after[0] != '\0')
        parameters[count++] =
            (struct ks_http_header){KS_VIEW("start-after"), ks_view_text(request->after)};
    return count;
}

ks_err ks_s3_call(struct ks_aws_client *client, const struct ks_s3_place *place,
                  const struct ks_s3_request *request, struct ks_aws_call **ret_call)
{
    const struct operation *const operation = &operations[request->operation];
    const bool list = request->operation == KS_S3_LIST;
    struct ks_http_header parameters[5];
    struct headers headers = {.count = 0};
    char most[12];

    (void)snprintf(most, sizeof(most), "%u", request->most);
    add_headers(place, request, &headers);
    const struct ks_aws_rest rest = {
        .method = operation->method,
        .path = list ? KS_VIEW("") : ks_view_text(request->key),
        .parameters = parameters,
        .parameter_count = list ? list_parameters(request, most, parameters) : 0,
        .headers = headers.list,
        .header_count = headers.count,
    };
    const struct ks_aws_request call = {
        .operation = operation->name,
        .rest = &rest,
        .body = request->body,
        .timeout = request->timeout,
        .total = request->total,
        .response_max = request->response_max,
        .done = request->done,
        .arg = request->arg,
    };

    return ks_aws_call(client, &call, ret_call);
}

static bool has_code(const struct ks_aws_answer *answer, const char *code)
{
    return answer->failure != NULL && strcmp(answer->failure->code, code) == 0;
}

bool ks_s3_is_absent(const struct ks_aws_answer *answer)
{
    return answer->status == 404 && has_code(answer, "NoSuchKey");
}

bool ks_s3_is_changed(const struct ks_aws_answer *answer)
{
    return ks_err_is(answer->err, KS_ERR_CONDITION);
}

bool ks_s3_is_undone(const struct ks_aws_answer *answer)
{
    const bool refused = answer->status >= 400 && answer->status < 500 &&
                         ks_err_class(answer->err) == KS_CLASS_REPORT;

    /* Of several attempts an earlier one may have been done. */
    return !answer->sent || (refused && answer->attempts == 1);
}

static void explain_denied(const struct ks_s3_place *place, enum ks_s3_operation operation,
                           const struct ks_failure *failure, struct ks_detail *ret_detail)
{
    const bool list = operation == KS_S3_LIST;
    char resource[KS_BUCKET_MAX + KS_S3_PREFIX_MAX + 16];

    (void)snprintf(resource, sizeof(resource), "%s%s%s%s%s", list ? "the bucket " : "",
                   place->bucket, list ? "" : "/", list ? "" : place->prefix, list ? "" : "*");
    ks_failure_deny(failure, operations[operation].action, resource, ret_detail);
}

void ks_s3_explain(const struct ks_s3_place *place, enum ks_s3_operation operation,
                   const struct ks_aws_answer *answer, struct ks_detail *ret_detail)
{
    if (has_code(answer, "NoSuchBucket"))
        ks_detail_set(ret_detail, "there is no bucket %s: create it, or correct --dead-letters",
                      place->bucket);
    else if (answer->failure != NULL && ks_failure_is_denied(answer->failure))
        explain_denied(place, operation, answer->failure, ret_detail);
    else if (has_code(answer, "NotImplemented"))
        ks_detail_set(
            ret_detail,
            "the server does not do conditional writes (If-Match), which dead letters need "
            "(%s)",
            answer->detail.text);
    else
        ks_detail_set(ret_detail, "%s",
                      answer->detail.text[0] != '\0' ? answer->detail.text
                                                     : ks_err_text(answer->err));
}
