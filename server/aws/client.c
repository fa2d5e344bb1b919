/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/client.h"

#include "aws/credentials.h"
#include "aws/endpoint.h"
#include "aws/head.h"
#include "aws/sigv4.h"
#include "base/budget.h"
#include "base/list.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/prng.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

const char KS_AWS_JSON_TYPE_1_0[] = "application/x-amz-json-1.0";
const char KS_AWS_JSON_TYPE_1_1[] = "application/x-amz-json-1.1";
const char KS_AWS_CBOR_TYPE[] = "application/x-amz-cbor-1.1";

/* The standard retry mode of the SDKs. */
enum { ATTEMPTS_MAX = 3, BACKOFF_FIRST_MS = 50, BACKOFF_MOST_MS = 20000, ASKED_MOST_MS = 5000 };
enum { TOKENS_MAX = 500, TOKENS_OF_RETRY = 5, TOKENS_OF_SUCCESS = 1 };
/* A smaller difference of the clocks is not why a signature was refused: AWS allows minutes. */
enum { SKEW_LEAST_MS = 60 * 1000 };

static const struct service {
    const char *name;
    const char *target;
    const char *content_type;
} SERVICES[] = {
    [KS_AWS_KINESIS] = {"kinesis", "Kinesis_20131202", KS_AWS_JSON_TYPE_1_1},
    [KS_AWS_DYNAMODB] = {"dynamodb", "DynamoDB_20120810", KS_AWS_JSON_TYPE_1_0},
};

struct ks_aws_client {
    const struct service *service;
    struct ks_loop *loop;
    struct ks_http *http;
    struct ks_credentials_source *credentials;
    struct ks_endpoint endpoint;
    struct ks_sigv4_signer signer;
    struct ks_prng prng;
    uint32_t tokens;
    struct ks_link calls;
    struct ks_aws_state state;
};

struct ks_aws_call {
    struct ks_aws_client *client;
    struct ks_link link;
    struct ks_aws_request request; /* `body` and `sink` point into this call. */
    struct ks_bytes body;
    struct ks_http_sink sink;

    /* At most one of the three is under way. */
    struct ks_http_call *http;
    bool waiting;
    struct ks_credentials_waiter waiter;
    struct ks_timer again;

    uint32_t attempts;
    uint32_t retries;
    bool sent;
    bool clock_corrected;
    bool token_renewed;
};

/* What came of one attempt. */
struct result {
    ks_err err;
    struct ks_detail detail;
    struct ks_failure failure;
    bool failed;                         /* `failure` says how. */
    const struct ks_http_answer *answer; /* NULL: it was not sent. */
};

static void begin(struct ks_aws_call *call);

/* --- Ends of calls --- */

/* Takes the call out of everything. Its memory stays. */
static void detach(struct ks_aws_call *call)
{
    if (call->http != NULL)
        ks_http_cancel(call->http);
    if (call->waiting)
        ks_credentials_unwait(&call->waiter);
    ks_loop_timer_clear(call->client->loop, &call->again);
    ks_list_remove(&call->link);
}

static void dispose(struct ks_aws_call *call)
{
    ks_bytes_free(&call->body);
    ks_free(call);
}

static void finish(struct ks_aws_call *call, const struct result *result)
{
    struct ks_aws_answer answer = {
        .err = result->err,
        .detail = result->detail,
        .sent = call->sent,
        .attempts = call->attempts,
        .failure = result->failed ? &result->failure : NULL,
    };

    if (result->answer != NULL) {
        answer.status = result->answer->status;
        answer.content_type = ks_head_find(result->answer->head, "Content-Type");
        answer.body = result->answer->body;
    }
    detach(call);
    call->request.done(call->request.arg, &answer);
    dispose(call);
}

/* --- Judging an answer --- */

/* DynamoDB sends the CRC-32 of the body. What went to a sink is not here to be checked. */
static bool is_damaged(const struct ks_aws_call *call, const struct ks_http_answer *answer)
{
    ks_view header = ks_head_find(answer->head, "x-amz-crc32");
    uint64_t crc = 0;

    if (header.data == NULL || call->request.sink != NULL)
        return false;
    return !ks_ok(ks_view_u64(header, &crc)) || crc != ks_crc32(answer->body);
}

static struct result judge(const struct ks_aws_call *call, const struct ks_http_answer *answer)
{
    const char *service = call->client->service->name;
    const char *operation = call->request.operation;
    struct result result = {.err = answer->err, .answer = answer};

    if (!ks_ok(answer->err)) {
        ks_detail_set(&result.detail, "%s %s: %s", service, operation, answer->detail.text);
        return result;
    }
    if (is_damaged(call, answer)) {
        result.err = KS_FAIL(SERVER);
        ks_detail_set(&result.detail, "%s %s: the answer does not match its checksum", service,
                      operation);
        return result;
    }
    if (answer->status >= 200 && answer->status < 300)
        return result;

    ks_failure_read(answer->status, answer->head, answer->body, &result.failure);
    result.failed = true;
    result.err = result.failure.err;
    ks_failure_explain(&result.failure, service, operation, &result.detail);
    return result;
}

/* A failure of the service or of access, and not an answer to the question. */
static bool is_trouble(ks_err err)
{
    return ks_err_class(err) == KS_CLASS_RETRY || ks_err_class(err) == KS_CLASS_SHED ||
           ks_err_is(err, KS_ERR_DENIED) || ks_err_is(err, KS_ERR_NO_CREDENTIALS);
}

static void count(struct ks_aws_call *call, const struct result *result)
{
    struct ks_aws_state *state = &call->client->state;
    ks_instant now = ks_loop_now(call->client->loop);

    state->last_err = result->err;
    if (is_trouble(result->err)) {
        state->failed_at = now;
        state->failures_in_row++;
        state->last_detail = result->detail;
    } else {
        state->succeeded_at = now;
        state->failures_in_row = 0;
    }
    if (!ks_ok(result->err) && !ks_err_is(result->err, KS_ERR_CONDITION)) {
        state->failures++;
        ks_metric_add_labelled(KS_METRIC_AWS_FAILURES, ks_err_name(result->err), 1);
    }
    if (result->failed && result->failure.throttled) {
        state->throttles++;
        ks_metric_add_labelled(KS_METRIC_AWS_THROTTLES, call->request.operation, 1);
    }
}

/* --- Again? --- */

/* True if our clock was wrong and is corrected now. */
static bool correct_clock(struct ks_aws_call *call, const struct result *result)
{
    struct ks_aws_client *client = call->client;
    int64_t server_ms = 0;

    if (!result->failed || !result->failure.skewed || call->clock_corrected)
        return false;
    /* An answer out of a cache carries the Date of long ago. */
    if (ks_head_find(result->answer->head, "Age").data != NULL ||
        !ks_ok(ks_head_date(ks_head_find(result->answer->head, "Date"), &server_ms)))
        return false;

    int64_t skew_ms = server_ms - ks_wall_now().ms;
    if (llabs(skew_ms - client->state.skew_ms) < SKEW_LEAST_MS)
        return false;
    ks_warn("aws: our clock differs from that of %s by %lld s, signing with theirs",
            client->service->name, (long long)(skew_ms / 1000));
    client->state.skew_ms = skew_ms;
    call->clock_corrected = true;
    return true;
}

/* True if the token was expired and another one is on its way. */
static bool renew_token(struct ks_aws_call *call, const struct result *result)
{
    if (!result->failed || !result->failure.token_expired || call->token_renewed)
        return false;
    ks_credentials_expired(call->client->credentials);
    call->token_renewed = true;
    return true;
}

static bool may_retry(struct ks_aws_call *call, const struct result *result)
{
    struct ks_aws_client *client = call->client;

    if (call->request.single_attempt || ks_err_class(result->err) != KS_CLASS_RETRY ||
        call->retries + 1 >= ATTEMPTS_MAX || client->tokens < TOKENS_OF_RETRY)
        return false;
    client->tokens -= TOKENS_OF_RETRY;
    return true;
}

static ks_span backoff(struct ks_aws_call *call, const struct result *result)
{
    int64_t most = (int64_t)BACKOFF_FIRST_MS << call->retries;
    int64_t ms =
        ks_prng_between(&call->client->prng, 0, most < BACKOFF_MOST_MS ? most : BACKOFF_MOST_MS);
    int64_t asked = result->failed ? result->failure.retry_after_ms : -1;

    /* What the server asks for counts, within reason. */
    if (asked > ms)
        ms = asked < ms + ASKED_MOST_MS ? asked : ms + ASKED_MOST_MS;
    return ks_span_ms(ms);
}

static void succeed(struct ks_aws_call *call)
{
    struct ks_aws_client *client = call->client;
    uint32_t tokens = client->tokens + (call->retries > 0 ? TOKENS_OF_RETRY : TOKENS_OF_SUCCESS);

    client->tokens = tokens < TOKENS_MAX ? tokens : TOKENS_MAX;
}

static void decide(struct ks_aws_call *call, const struct result *result)
{
    struct ks_aws_client *client = call->client;

    if (ks_ok(result->err))
        succeed(call);
    if (correct_clock(call, result) || renew_token(call, result)) {
        begin(call);
        return;
    }
    if (!may_retry(call, result)) {
        finish(call, result);
        return;
    }
    ks_span wait = backoff(call, result);
    call->retries++;
    client->state.retries++;
    ks_debug("aws: %s, asking again in %lld ms", result->detail.text,
             (long long)ks_span_to_ms(wait));
    ks_loop_timer_set(client->loop, &call->again, ks_instant_add(ks_loop_now(client->loop), wait));
}

static void on_answer(void *arg, const struct ks_http_answer *answer)
{
    struct ks_aws_call *call = arg;
    struct result result = judge(call, answer);

    call->http = NULL;
    call->sent = call->sent || answer->sent;
    count(call, &result);
    decide(call, &result);
}

/* --- An attempt --- */

static ks_err sign(struct ks_aws_call *call, const struct ks_credentials *credentials,
                   const struct ks_http_header *headers, uint32_t header_count,
                   struct ks_sigv4_signature *ret_signature)
{
    struct ks_aws_client *client = call->client;
    struct ks_sigv4_request request = {
        .method = KS_VIEW("POST"),
        .path = ks_view_text(client->endpoint.path),
        .headers = headers,
        .header_count = header_count,
        .body = ks_bytes_view(&call->body),
        .access_key = ks_view_text(credentials->access_key),
        .secret_key = ks_view_text(credentials->secret_key),
        .token = ks_view_text(credentials->token),
        .region = client->endpoint.region,
        .service = client->service->name,
        .unix_ms = ks_wall_now().ms + client->state.skew_ms,
    };

    return ks_sigv4_sign(&client->signer, &request, ret_signature);
}

/* Signs and sends. */
static ks_err attempt(struct ks_aws_call *call, const struct ks_credentials *credentials)
{
    struct ks_aws_client *client = call->client;
    struct ks_sigv4_signature signature;
    char target[KS_AWS_TARGET_MAX + 1];
    struct ks_http_header headers[7];
    uint32_t count_of_headers = 0;

    snprintf(target, sizeof(target), "%s.%s", client->service->target, call->request.operation);
    headers[count_of_headers++] =
        (struct ks_http_header){KS_VIEW("Host"), ks_view_text(client->endpoint.host)};
    headers[count_of_headers++] =
        (struct ks_http_header){KS_VIEW("Content-Type"), ks_view_text(call->request.content_type)};
    headers[count_of_headers++] =
        (struct ks_http_header){KS_VIEW("X-Amz-Target"), ks_view_text(target)};
    KS_TRY(sign(call, credentials, headers, count_of_headers, &signature));
    headers[count_of_headers++] =
        (struct ks_http_header){KS_VIEW("X-Amz-Date"), ks_view_text(signature.date)};
    headers[count_of_headers++] =
        (struct ks_http_header){KS_VIEW("Authorization"), signature.authorization};
    headers[count_of_headers++] =
        (struct ks_http_header){KS_VIEW("User-Agent"), KS_VIEW("kinesis-sidecar")};
    if (credentials->token[0] != '\0')
        headers[count_of_headers++] = (struct ks_http_header){KS_VIEW("X-Amz-Security-Token"),
                                                              ks_view_text(credentials->token)};
    struct ks_http_request request = {
        .method = "POST",
        .url = client->endpoint.url,
        .headers = headers,
        .header_count = count_of_headers,
        .body = ks_bytes_view(&call->body),
        .timeout = call->request.timeout,
        .response_max = call->request.response_max,
        .sink = call->request.sink,
        .done = on_answer,
        .arg = call,
    };
    KS_TRY(ks_http_send(client->http, &request, &call->http));
    call->attempts++;
    client->state.requests++;
    ks_metric_add_labelled(KS_METRIC_AWS_REQUESTS, call->request.operation, 1);
    return KS_OK;
}

/* An attempt that could not be made; told on the loop, never within the caller's call. */
static void fail_unsent(struct ks_aws_call *call, ks_err err, const char *why)
{
    struct result result = {.err = err};

    ks_detail_set(&result.detail, "%s %s was not sent: %s", call->client->service->name,
                  call->request.operation, why);
    count(call, &result);
    decide(call, &result);
}

static void on_credentials(struct ks_credentials_waiter *waiter, ks_err err,
                           const struct ks_credentials *credentials, const struct ks_detail *detail)
{
    struct ks_aws_call *call = KS_LIST_ENTRY(waiter, struct ks_aws_call, waiter);

    call->waiting = false;
    if (!ks_ok(err)) {
        fail_unsent(call, err, detail->text);
        return;
    }
    err = attempt(call, credentials);
    if (!ks_ok(err))
        fail_unsent(call, err, ks_err_text(err));
}

/* Makes the attempt, or waits for credentials. */
static ks_err try_begin(struct ks_aws_call *call)
{
    const struct ks_credentials *credentials = ks_credentials_now(call->client->credentials);

    if (credentials != NULL)
        return attempt(call, credentials);
    call->waiting = true;
    call->waiter.done = on_credentials;
    ks_credentials_wait(call->client->credentials, &call->waiter);
    return KS_OK;
}

static void begin(struct ks_aws_call *call)
{
    ks_err err = try_begin(call);

    if (!ks_ok(err))
        fail_unsent(call, err, ks_err_text(err));
}

static void on_again(struct ks_timer *timer)
{
    begin(KS_LIST_ENTRY(timer, struct ks_aws_call, again));
}

/* --- For callers --- */

static ks_err start(struct ks_aws_client *client, struct ks_aws_call *call,
                    const struct ks_aws_request *request)
{
    call->client = client;
    call->request = *request;
    call->again.due = on_again;
    ks_link_init(&call->link);
    ks_bytes_init(&call->body, request->body.size);
    if (request->sink != NULL) {
        call->sink = *request->sink;
        call->request.sink = &call->sink;
    }
    if (request->content_type == NULL)
        call->request.content_type = client->service->content_type;
    KS_TRY(ks_bytes_append(&call->body, request->body));
    return try_begin(call);
}

ks_err ks_aws_call(struct ks_aws_client *client, const struct ks_aws_request *request,
                   struct ks_aws_call **ret_call)
{
    struct ks_aws_call *call = ks_alloc(sizeof(*call));

    if (call == NULL)
        return KS_FAIL(NO_MEMORY);
    ks_err err = start(client, call, request);
    if (!ks_ok(err)) {
        dispose(call);
        return err;
    }
    ks_list_append(&client->calls, &call->link);
    if (ret_call != NULL)
        *ret_call = call;
    return KS_OK;
}

void ks_aws_cancel(struct ks_aws_call *call)
{
    detach(call);
    dispose(call);
}

ks_err ks_aws_client_new(const struct ks_aws_client_options *options,
                         struct ks_aws_client **ret_client)
{
    struct ks_aws_client *client = ks_alloc(sizeof(*client));

    if (client == NULL)
        return KS_FAIL(NO_MEMORY);
    client->service = &SERVICES[options->service];
    client->loop = options->loop;
    client->http = options->http;
    client->credentials = options->credentials;
    client->endpoint = *options->endpoint;
    client->tokens = TOKENS_MAX;
    client->state.succeeded_at = KS_LONG_AGO;
    client->state.failed_at = KS_LONG_AGO;
    ks_sigv4_init(&client->signer);
    ks_prng_init(&client->prng, options->seed);
    ks_link_init(&client->calls);
    *ret_client = client;
    return KS_OK;
}

void ks_aws_client_free(struct ks_aws_client *client)
{
    if (client == NULL)
        return;
    while (!ks_list_empty(&client->calls))
        ks_aws_cancel(KS_LIST_ENTRY(client->calls.next, struct ks_aws_call, link));
    ks_sigv4_free(&client->signer);
    ks_free(client);
}

void ks_aws_client_state(const struct ks_aws_client *client, struct ks_aws_state *ret_state)
{
    *ret_state = client->state;
}
