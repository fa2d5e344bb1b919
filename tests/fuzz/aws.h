/* SPDX-License-Identifier: Apache-2.0 */
/* aws.h - the client of aws/client.h, played by the program: a call waits here until it is given its answer. */
#ifndef KS_FUZZ_AWS_H
#define KS_FUZZ_AWS_H

#include "aws/client.h"
#include "base/budget.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { AWS_CALLS_MAX = 64, AWS_NOW_MS = 1795219200 };

const char KS_AWS_JSON_TYPE_1_0[] = "application/x-amz-json-1.0";
const char KS_AWS_JSON_TYPE_1_1[] = "application/x-amz-json-1.1";
const char KS_AWS_CBOR_TYPE[] = "application/x-amz-cbor-1.1";

struct ks_aws_client {
    bool open;
};

struct ks_aws_call {
    struct ks_aws_request request; /* `body` is ours; of `sink` it says whether there is one. */
    struct ks_bytes body;
    struct ks_http_sink sink;
    bool open;
};

static struct ks_aws_client client;
static struct ks_aws_call calls[AWS_CALLS_MAX];

ks_err ks_aws_call(struct ks_aws_client *of, const struct ks_aws_request *request,
                   struct ks_aws_call **ret_call)
{
    struct ks_aws_call *call = NULL;

    assert(of == &client);
    assert(ks_view_is_utf8(request->body) || request->content_type != NULL);
    for (size_t at = 0; at < AWS_CALLS_MAX && call == NULL; at++)
        if (!calls[at].open)
            call = &calls[at];
    if (call == NULL)
        return KS_FAIL(FULL);
    *call = (struct ks_aws_call){.request = *request, .open = true};
    ks_bytes_init(&call->body, 1 << 24);
    if (!ks_ok(ks_bytes_append(&call->body, request->body)))
        abort();
    call->request.body = ks_bytes_view(&call->body);
    if (request->sink != NULL)
        call->sink = *request->sink;
    if (ret_call != NULL)
        *ret_call = call;
    return KS_OK;
}

static void forget(struct ks_aws_call *call)
{
    assert(call->open);
    call->open = false;
    ks_bytes_free(&call->body);
}

void ks_aws_cancel(struct ks_aws_call *call)
{
    forget(call);
}

void ks_aws_resume(struct ks_aws_call *call)
{
    (void)call;
}

void ks_aws_client_state(const struct ks_aws_client *of, struct ks_aws_state *ret_state)
{
    assert(of == &client);
    *ret_state = (struct ks_aws_state){.succeeded_at = KS_LONG_AGO};
}

const char *ks_aws_client_region(const struct ks_aws_client *aws)
{
    (void)aws;
    return "eu-west-1";
}

int64_t ks_aws_client_now_ms(const struct ks_aws_client *of)
{
    assert(of == &client);
    return AWS_NOW_MS * INT64_C(1000);
}

/* Gives the body to the sink in two parts, and returns the first error of the sink. */
static inline ks_err pour(const struct ks_http_sink *sink, ks_view body)
{
    const size_t half = body.size / 2;

    if (sink->begin != NULL)
        KS_TRY(sink->begin(sink->arg, KS_VIEW_NONE, (int64_t)body.size));
    KS_TRY(sink->part(sink->arg, ks_view_of(body.data, half)));
    return sink->part(sink->arg, ks_view_of(body.data + half, body.size - half));
}

/* Answers a call; a body that begins with '!' is an error. `type`: of a good answer. */
static inline void give_as(struct ks_aws_call *call, ks_view body, ks_view type)
{
    struct ks_aws_answer answer = {.status = 200, .sent = true, .attempts = 1, .body = body};
    const struct ks_aws_request request = call->request;
    static struct ks_failure failure;

    answer.head = KS_VIEW("ETag: \"e\"\r\n"); /* Of S3. */
    if (body.size > 0 && body.data[0] == '!') {
        ks_failure_read(400, KS_VIEW_NONE, ks_view_of(body.data + 1, body.size - 1), &failure);
        answer.status = strcmp(failure.code, "NoSuchKey") == 0 ? 404 : 400;
        answer.err = failure.err;
        answer.failure = &failure;
        ks_failure_explain(&failure, "service", request.operation, &answer.detail);
    } else if (request.sink != NULL) {
        answer.content_type = type;
        answer.err = pour(&call->sink, body);
        answer.body = KS_VIEW_NONE;
        if (!ks_ok(answer.err))
            ks_detail_set(&answer.detail, "the answer was not taken");
    } else {
        answer.content_type = type;
    }
    /* It may be cancelled while its sink works. */
    forget(call);
    request.done(request.arg, &answer);
}

static inline void give(struct ks_aws_call *call, ks_view body)
{
    give_as(call, body, ks_view_text(KS_AWS_JSON_TYPE_1_1));
}

static inline bool is_asked(const struct ks_aws_call *call, const char *operation)
{
    return call->open && strcmp(call->request.operation, operation) == 0;
}

/* The answer to DescribeStreamSummary. */
#define AWS_SUMMARY                                                                                \
    KS_VIEW("{\"StreamDescriptionSummary\":{\"StreamARN\":\"arn:aws:kinesis:us-east-1:"            \
            "123456789012:stream/demo\","                                                          \
            "\"StreamName\":\"demo\",\"StreamStatus\":\"ACTIVE\",\"StreamCreationTimestamp\":"     \
            "1795219200.5,"                                                                        \
            "\"RetentionPeriodHours\":24}}")

#endif
