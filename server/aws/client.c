/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/client.h"

#include "aws/arn.h"
#include "aws/credentials.h"
#include "aws/endpoint.h"
#include "aws/head.h"
#include "aws/retry.h"
#include "aws/server_clock.h"
#include "aws/sigv4.h"
#include "aws/traffic.h"
#include "base/budget.h"
#include "base/list.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/prng.h"

#include <assert.h>
#include <stdio.h>

const char KS_AWS_JSON_TYPE_1_0[] = "application/x-amz-json-1.0";
const char KS_AWS_JSON_TYPE_1_1[] = "application/x-amz-json-1.1";
const char KS_AWS_CBOR_TYPE[] = "application/x-amz-cbor-1.1";
const char KS_AWS_FORM_TYPE[] = "application/x-www-form-urlencoded; charset=utf-8";

/* How long connections are held to be dead that are as old as one that died: longer than any is kept
 * unused. */
enum { SUSPICION_MS = 60 * 1000 };

static const struct service {
    const char *name;
    const char *target;       /* NULL: the body or the path says what is asked. */
    const char *content_type; /* NULL: only requests of REST. */
    uint32_t attempts_max;
    int32_t first_ms;
} SERVICES[] = {
    [KS_AWS_KINESIS] = {"kinesis", "Kinesis_20131202", KS_AWS_JSON_TYPE_1_1, KS_RETRY_ATTEMPTS,
                        KS_RETRY_FIRST_MS},
    [KS_AWS_DYNAMODB] = {"dynamodb", "DynamoDB_20120810", KS_AWS_JSON_TYPE_1_0,
                         KS_RETRY_ATTEMPTS_DYNAMODB, KS_RETRY_FIRST_MS_DYNAMODB},
    [KS_AWS_SQS] = {"sqs", "AmazonSQS", KS_AWS_JSON_TYPE_1_0, KS_RETRY_ATTEMPTS, KS_RETRY_FIRST_MS},
    [KS_AWS_SNS] = {"sns", NULL, KS_AWS_FORM_TYPE, KS_RETRY_ATTEMPTS, KS_RETRY_FIRST_MS},
    [KS_AWS_S3] = {.name = "s3", .attempts_max = KS_RETRY_ATTEMPTS, .first_ms = KS_RETRY_FIRST_MS},
};

struct ks_aws_client {
    const struct service *service;
    struct ks_loop *loop;
    struct ks_http *http;
    struct ks_credentials_source *credentials;
    struct ks_endpoint endpoints[KS_ENDPOINT_USES];
    struct ks_endpoint_rules rules; /* Without a service: none. */
    char account[KS_ACCOUNT_SIZE];  /* For which the endpoints are. */
    bool located;
    char region[KS_REGION_MAX + 1]; /* Of the bucket, as S3 said; else "". */
    struct ks_sigv4_signer signer;
    struct ks_prng prng;
    uint32_t attempts_max;
    ks_span silence;
    ks_span silence_kept;
    struct ks_retry_bucket bucket;
    ks_instant suspected_at; /* When a kept connection was found dead. */
    struct ks_link calls;
    struct ks_aws_state state;
    struct ks_server_clock clock; /* The service's. */
    bool undated;                 /* The service answered, without a Date. */
};

struct ks_aws_call {
    struct ks_aws_client *client;
    struct ks_link link;
    struct ks_aws_request request; /* `body` and `sink` point into this call. */
    struct ks_bytes body;
    struct ks_rest rest; /* Without a method: none. */
    struct ks_http_sink sink;
    ks_instant deadline; /* Of all attempts; KS_NEVER: none. */

    /* Under way is a request, the wait for credentials, or the wait for the next attempt. */
    struct ks_http_call *http;
    bool waiting;
    struct ks_credentials_waiter waiter;
    struct ks_timer timer; /* The next attempt; while it waits for credentials, the deadline. */

    struct ks_retry retry;
    ks_instant asked_at; /* When the last attempt left. */
    uint32_t attempts;
    bool sent;
    bool clock_corrected;
    bool token_renewed;
    bool region_followed;
    char access_key[KS_ACCESS_KEY_MAX + 1]; /* The last attempt was signed with it. */
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
    ks_loop_timer_clear(call->client->loop, &call->timer);
    ks_list_remove(&call->link);
}

static void dispose(struct ks_aws_call *call)
{
    ks_bytes_free(&call->body);
    ks_rest_free(&call->rest);
    ks_free(call);
}

static ks_view request_id_of(const struct ks_http_answer *answer)
{
    return ks_failure_request_id(answer->head);
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
        answer.head = result->answer->head;
        answer.content_type = ks_head_find(result->answer->head, "Content-Type");
        answer.request_id = request_id_of(result->answer);
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
        ks_failure_name_request(&result.detail, request_id_of(answer));
        return result;
    }
    if (is_damaged(call, answer)) {
        result.err = KS_FAIL(SERVER);
        ks_detail_set(&result.detail, "%s %s: the answer does not match its checksum", service,
                      operation);
        ks_failure_name_request(&result.detail, request_id_of(answer));
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
        ks_traffic_failed(call->client->service->name, result->err);
    }
    if (result->failed && result->failure.throttled) {
        state->throttles++;
        ks_metric_add_pair(KS_METRIC_AWS_THROTTLES, call->client->service->name,
                           call->request.operation, 1);
    }
}

/* --- Again? --- */

/* True if our clock was wrong and is corrected now. */
static bool correct_clock(struct ks_aws_call *call, const struct result *result)
{
    struct ks_aws_client *client = call->client;

    if (!result->failed || !result->failure.skewed || call->clock_corrected)
        return false;
    if (!ks_head_corrects(result->answer->head, ks_wall_now().ms, &client->state.skew_ms))
        return false;
    ks_warn("aws: our clock differs from that of %s by %lld s, signing with theirs",
            client->service->name, (long long)(client->state.skew_ms / 1000));
    call->clock_corrected = true;
    return true;
}

/* True if the token was expired and another one is on its way. */
static bool renew_token(struct ks_aws_call *call, const struct result *result)
{
    if (!result->failed || !result->failure.token_expired || call->token_renewed)
        return false;
    ks_credentials_expired(call->client->credentials, call->access_key);
    call->token_renewed = true;
    return true;
}

/* True if the bucket is in another region, and the request is sent to that one next. */
static bool follow_region(struct ks_aws_call *call, const struct result *result)
{
    struct ks_aws_client *client = call->client;
    char region[KS_REGION_MAX + 1];

    if (!result->failed || call->region_followed || client->rules.bucket == NULL)
        return false;
    const ks_view named = ks_head_find(result->answer->head, "x-amz-bucket-region");
    if (!ks_region_is_valid(named) || ks_view_equal(named, ks_view_text(client->rules.region)) ||
        !ks_ok(ks_view_copy_text(named, region, sizeof(region))))
        return false;
    ks_info("aws: the bucket %s is in region %s (not %s); signing for it from now on",
            client->rules.bucket, region, client->rules.region);
    memcpy(client->region, region, sizeof(region));
    client->rules.region = client->region;
    client->located = false;
    call->region_followed = true;
    return true;
}

static ks_span time_left(const struct ks_aws_call *call)
{
    static const ks_span ALWAYS = {INT64_MAX};

    if (call->deadline.us == KS_NEVER.us)
        return ALWAYS;
    return ks_instant_since(call->deadline, ks_loop_now(call->client->loop));
}

static enum ks_retry_mode mode_of(const struct ks_aws_request *request)
{
    if (request->single_attempt)
        return KS_RETRY_NEVER;
    return request->conditional ? KS_RETRY_UNDONE : KS_RETRY_ANY;
}

static bool may_retry(struct ks_aws_call *call, const struct result *result, ks_span *ret_wait)
{
    struct ks_aws_client *client = call->client;
    int status = result->answer == NULL ? 0 : result->answer->status;
    const struct ks_retry_limits limits = {
        .mode = mode_of(&call->request),
        .attempts_max = client->attempts_max,
        .first_ms = client->service->first_ms,
        .left = time_left(call),
    };
    const struct ks_retry_failure failure = {
        .err = result->err,
        .sent = result->answer != NULL && result->answer->sent,
        .refused = status >= 400 && status < 500,
        .throttled = result->failed && result->failure.throttled,
        .retry_after_ms = result->failed ? result->failure.retry_after_ms : -1,
    };

    return ks_retry_again(&call->retry, &client->bucket, &client->prng, &limits, &failure,
                          ret_wait);
}

static void decide(struct ks_aws_call *call, const struct result *result)
{
    struct ks_aws_client *client = call->client;
    ks_span wait = {0};

    if (ks_ok(result->err)) {
        ks_retry_succeeded(&call->retry, &client->bucket);
        finish(call, result);
        return;
    }
    if (correct_clock(call, result) || renew_token(call, result) || follow_region(call, result)) {
        begin(call);
        return;
    }
    if (!may_retry(call, result, &wait)) {
        finish(call, result);
        return;
    }
    client->state.retries++;
    ks_traffic_again(client->service->name, call->request.operation);
    ks_debug("aws: %s, asking again in %lld ms", result->detail.text,
             (long long)ks_span_to_ms(wait));
    ks_loop_timer_set(client->loop, &call->timer, ks_instant_add(ks_loop_now(client->loop), wait));
}

static void count_answer(const struct ks_aws_call *call, const struct ks_http_answer *answer)
{
    const char *service = call->client->service->name;
    ks_span took = ks_instant_since(ks_loop_now(call->client->loop), call->asked_at);

    /* How long a stream goes on says nothing about the service. */
    if (call->request.stream)
        ks_traffic_received(service, call->request.operation, answer->received);
    else
        ks_traffic_answered(service, call->request.operation, took, answer->received);
}

/* One line an attempt, for who follows the traffic. */
static void trace(const struct ks_aws_call *call, const struct ks_http_answer *answer,
                  const struct result *result)
{
    ks_view id = request_id_of(answer);

    ks_debug(
        "aws: %s %s: %s, status %d after %lld ms, %zu bytes, attempt %u, request id %.*s",
        call->client->service->name, call->request.operation, ks_err_name(result->err),
        answer->status,
        (long long)ks_span_to_ms(ks_instant_since(ks_loop_now(call->client->loop), call->asked_at)),
        answer->received, call->attempts, (int)id.size, (const char *)id.data);
}

/* A proxy or a load balancer may answer in the service's place, by a clock of its own. */
static void hear_clock(const struct ks_aws_call *call, const struct ks_http_answer *answer)
{
    struct ks_aws_client *client = call->client;
    bool served =
        (answer->status >= 200 && answer->status < 300) || request_id_of(answer).data != NULL;

    if (answer->status != 0 && served &&
        !ks_server_clock_hear(&client->clock, answer->head, call->asked_at, ks_instant_now()))
        client->undated = true;
}

static void on_answer(void *arg, const struct ks_http_answer *answer)
{
    struct ks_aws_call *call = arg;
    struct result result = judge(call, answer);

    call->http = NULL;
    call->sent = call->sent || answer->sent;
    if (answer->stale)
        call->client->suspected_at = ks_loop_now(call->client->loop);
    hear_clock(call, answer);
    count_answer(call, answer);
    trace(call, answer, &result);
    count(call, &result);
    decide(call, &result);
}

/* --- Where --- */

/* The other operations of Kinesis are about streams, not about what is in them. */
static enum ks_endpoint_use use_of(const char *operation)
{
    static const char *const DATA[] = {"GetRecords", "GetShardIterator", "PutRecord", "PutRecords",
                                       "SubscribeToShard"};

    for (size_t at = 0; at < sizeof(DATA) / sizeof(DATA[0]); at++) {
        if (strcmp(DATA[at], operation) == 0)
            return KS_ENDPOINT_DATA;
    }
    return KS_ENDPOINT_CONTROL;
}

/* What is refused then is refused by the stream's policy, or by none. */
static void tell_other_account(const struct ks_aws_client *client, const char *account)
{
    const char *stream = client->rules.stream_arn;
    struct ks_arn arn;

    if (account[0] != '\0' && stream != NULL && ks_ok(ks_arn_split(ks_view_text(stream), &arn)) &&
        !ks_view_equal(arn.account, ks_view_text(account)))
        ks_info("aws: %s is of account %.*s, and our credentials of %s: the policy of the stream "
                "must allow that",
                stream, (int)arn.account.size, (const char *)arn.account.data, account);
}

/* The endpoints follow the account of the credentials, which may become another one. */
static ks_err locate(struct ks_aws_client *client, const char *account, struct ks_detail *detail)
{
    if (client->rules.service == NULL || (client->located && strcmp(client->account, account) == 0))
        return KS_OK;
    client->located = false;
    for (int use = 0; use < KS_ENDPOINT_USES; use++)
        KS_TRY(ks_endpoint_find(&client->rules, account, (enum ks_endpoint_use)use,
                                &client->endpoints[use], detail));
    snprintf(client->account, sizeof(client->account), "%s", account);
    tell_other_account(client, account);
    client->located = true;
    return KS_OK;
}

/* --- An attempt --- */

static ks_err sign(struct ks_aws_call *call, const struct ks_credentials *credentials,
                   const struct ks_endpoint *endpoint, const char *path,
                   const struct ks_http_header *headers, uint32_t header_count,
                   struct ks_sigv4_signature *ret_signature)
{
    const bool rest = call->rest.method != NULL;
    struct ks_aws_client *client = call->client;

    /* Our clock was set meanwhile: what corrected it is worth nothing any more. */
    if (!ks_head_is_present(ks_wall_now().ms + client->state.skew_ms))
        client->state.skew_ms = 0;
    struct ks_sigv4_request request = {
        .method = ks_view_text(rest ? call->rest.method : "POST"),
        .path = ks_view_text(path),
        .path_as_is = rest,
        .with_body_hash = rest,
        .query = call->rest.query,
        .headers = headers,
        .header_count = header_count,
        .body = ks_bytes_view(&call->body),
        .access_key = ks_view_text(credentials->access_key),
        .secret_key = ks_view_text(credentials->secret_key),
        .token = ks_view_text(credentials->token),
        .region = endpoint->region,
        .service = client->service->name,
        .unix_ms = ks_wall_now().ms + client->state.skew_ms,
    };

    return ks_sigv4_sign(&client->signer, &request, ret_signature);
}

/* Kept connections must be younger than the last one that was found dead: what cut that one off may
 * have cut them all, and nothing would be heard of them either. 0: any will do. */
static ks_span age_max(const struct ks_aws_client *client)
{
    ks_instant now = ks_loop_now(client->loop);
    ks_instant until = ks_instant_add(client->suspected_at, ks_span_ms(SUSPICION_MS));

    if (ks_instant_reached(now, until))
        return ks_span_us(0);
    return ks_span_us(ks_instant_since(now, client->suspected_at).us + 1);
}

/* Of an attempt that begins now. */
static ks_span timeout_of(const struct ks_aws_call *call)
{
    ks_span left = time_left(call);

    return left.us < call->request.timeout.us ? left : call->request.timeout;
}

struct headers {
    struct ks_http_header list[KS_HTTP_HEADERS_MAX];
    uint32_t count;
};

static void add(struct headers *headers, ks_view name, ks_view value)
{
    assert(headers->count < KS_HTTP_HEADERS_MAX);
    headers->list[headers->count++] = (struct ks_http_header){name, value};
}

/* The headers that are signed, beside those that the signer adds. */
static void add_signed(const struct ks_aws_call *call, const struct ks_endpoint *endpoint,
                       char target[KS_AWS_TARGET_MAX + 1], struct headers *headers)
{
    const struct ks_rest *rest = &call->rest;

    add(headers, KS_VIEW("Host"), ks_view_text(endpoint->host));
    for (uint32_t at = 0; at < rest->header_count; at++)
        add(headers, rest->headers[at].name, rest->headers[at].value);
    if (rest->method != NULL)
        return;
    add(headers, KS_VIEW("Content-Type"), ks_view_text(call->request.content_type));
    if (call->client->service->target == NULL)
        return;
    snprintf(target, KS_AWS_TARGET_MAX + 1, "%s.%s", call->client->service->target,
             call->request.operation);
    add(headers, KS_VIEW("X-Amz-Target"), ks_view_text(target));
}

/* Signs and sends. */
static ks_err attempt(struct ks_aws_call *call, const struct ks_credentials *credentials,
                      struct ks_detail *detail)
{
    struct ks_aws_client *client = call->client;
    const struct ks_endpoint *endpoint = &client->endpoints[use_of(call->request.operation)];
    const bool rest = call->rest.method != NULL;
    struct ks_sigv4_signature signature;
    char target[KS_AWS_TARGET_MAX + 1];
    char url[KS_HTTP_URL_MAX + 1];
    char path[KS_REST_PATH_SIZE];
    struct headers headers = {.count = 0};

    KS_TRY(locate(client, credentials->account, detail));
    if (rest)
        KS_TRY(ks_rest_locate(&call->rest, endpoint, url, path));
    add_signed(call, endpoint, target, &headers);
    KS_TRY(sign(call, credentials, endpoint, rest ? path : endpoint->path, headers.list,
                headers.count, &signature));
    memcpy(call->access_key, credentials->access_key, sizeof(call->access_key));
    add(&headers, KS_VIEW("X-Amz-Date"), ks_view_text(signature.date));
    add(&headers, KS_VIEW("Authorization"), signature.authorization);
    add(&headers, KS_VIEW("User-Agent"), KS_VIEW("kinesis-sidecar"));
    if (rest)
        add(&headers, KS_VIEW("x-amz-content-sha256"), ks_view_text(signature.body_hash));
    if (credentials->token[0] != '\0')
        add(&headers, KS_VIEW("X-Amz-Security-Token"), ks_view_text(credentials->token));
    ks_span timeout = timeout_of(call);
    struct ks_http_request request = {
        .method = rest ? call->rest.method : "POST",
        .url = rest ? url : endpoint->url,
        .headers = headers.list,
        .header_count = headers.count,
        .body = ks_bytes_view(&call->body),
        .timeout = timeout,
        .silence = client->silence,
        .silence_kept = client->silence_kept,
        .silence_stream = timeout,
        .connection_age_max = age_max(client),
        .stream = call->request.stream,
        .response_max = call->request.response_max,
        .sink = call->request.sink,
        .done = on_answer,
        .arg = call,
    };
    if (timeout.us <= 0)
        return KS_FAIL(TIMEOUT);
    KS_TRY(ks_http_send(client->http, &request, &call->http));
    call->attempts++;
    call->asked_at = ks_loop_now(client->loop);
    client->state.requests++;
    ks_traffic_sent(client->service->name, call->request.operation, call->body.size);
    return KS_OK;
}

/* An attempt that could not be made; told on the loop, never within the caller's call. */
static void fail_unsent(struct ks_aws_call *call, ks_err err, const char *why)
{
    struct result result = {.err = err};

    ks_detail_set(&result.detail, "%s %s was not sent: %s", call->client->service->name,
                  call->request.operation, why[0] == '\0' ? ks_err_text(err) : why);
    count(call, &result);
    decide(call, &result);
}

/* What is not found, or cannot be read, is a file or a role: it must not look like what the service says of a table, a
 * shard or a place in it. */
static ks_err of_credentials(ks_err err)
{
    bool passes = ks_err_class(err) == KS_CLASS_RETRY || ks_err_class(err) == KS_CLASS_SHED ||
                  ks_err_is(err, KS_ERR_DENIED);

    return passes ? err : KS_FAIL(NO_CREDENTIALS);
}

static void on_credentials(struct ks_credentials_waiter *waiter, ks_err err,
                           const struct ks_credentials *credentials, const struct ks_detail *detail)
{
    struct ks_aws_call *call = KS_LIST_ENTRY(waiter, struct ks_aws_call, waiter);

    call->waiting = false;
    ks_loop_timer_clear(call->client->loop, &call->timer);
    if (!ks_ok(err)) {
        fail_unsent(call, of_credentials(err), detail->text);
        return;
    }
    struct ks_detail why = {""};
    err = attempt(call, credentials, &why);
    if (!ks_ok(err))
        fail_unsent(call, err, why.text);
}

/* Makes the attempt, or waits for credentials. */
static ks_err try_begin(struct ks_aws_call *call, struct ks_detail *detail)
{
    const struct ks_credentials *credentials = ks_credentials_now(call->client->credentials);

    if (credentials != NULL)
        return attempt(call, credentials, detail);
    call->waiting = true;
    call->waiter.done = on_credentials;
    ks_credentials_wait(call->client->credentials, &call->waiter);
    if (call->deadline.us != KS_NEVER.us)
        ks_loop_timer_set(call->client->loop, &call->timer, call->deadline);
    return KS_OK;
}

static void begin(struct ks_aws_call *call)
{
    struct ks_detail why = {""};
    ks_err err = try_begin(call, &why);

    if (!ks_ok(err))
        fail_unsent(call, err, why.text);
}

static void on_due(struct ks_timer *timer)
{
    struct ks_aws_call *call = KS_LIST_ENTRY(timer, struct ks_aws_call, timer);

    if (!call->waiting) {
        begin(call);
        return;
    }
    call->waiting = false;
    ks_credentials_unwait(&call->waiter);
    fail_unsent(call, KS_FAIL(TIMEOUT), "credentials did not come in time");
}

/* --- For callers --- */

static ks_err start(struct ks_aws_client *client, struct ks_aws_call *call,
                    const struct ks_aws_request *request)
{
    call->client = client;
    call->request = *request;
    call->timer.due = on_due;
    call->deadline = request->total.us > 0
                         ? ks_instant_add(ks_loop_now(client->loop), request->total)
                         : KS_NEVER;
    ks_link_init(&call->link);
    ks_bytes_init(&call->body, request->body.size);
    if (request->sink != NULL) {
        call->sink = *request->sink;
        call->request.sink = &call->sink;
    }
    assert(request->rest != NULL || client->service->content_type != NULL);
    if (request->content_type == NULL)
        call->request.content_type = client->service->content_type;
    if (request->rest != NULL)
        KS_TRY(ks_rest_copy(request->rest, &call->rest));
    KS_TRY(ks_bytes_append(&call->body, request->body));

    ks_err err = try_begin(call, NULL);
    if (!ks_err_is(err, KS_ERR_INVALID))
        return err;
    /* What the settings forbid is told as an answer, with its reason. */
    ks_loop_timer_set(client->loop, &call->timer, ks_loop_now(client->loop));
    return KS_OK;
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

void ks_aws_resume(struct ks_aws_call *call)
{
    if (call->http != NULL)
        ks_http_resume(call->http);
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
    for (int use = 0; use < KS_ENDPOINT_USES; use++)
        client->endpoints[use] = *options->endpoint;
    if (options->rules != NULL)
        client->rules = *options->rules;
    client->attempts_max =
        options->attempts_max == 0 ? client->service->attempts_max : options->attempts_max;
    client->silence = client->silence_kept = options->silence;
    if (options->silence.us == 0) {
        client->silence = ks_span_ms(KS_AWS_SILENCE_MS);
        client->silence_kept = ks_span_ms(KS_AWS_SILENCE_KEPT_MS);
    }
    client->suspected_at = KS_LONG_AGO;
    ks_retry_bucket_init(&client->bucket);
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

const char *ks_aws_client_region(const struct ks_aws_client *client)
{
    return client->endpoints[KS_ENDPOINT_CONTROL].region;
}

int64_t ks_aws_client_now_ms(const struct ks_aws_client *client)
{
    enum { MARGIN_MS = 1000 }; /* Between two clocks that are both right. */

    if (!client->clock.known && client->undated)
        return ks_wall_now().ms + client->state.skew_ms - MARGIN_MS;
    return ks_server_clock_now(&client->clock, ks_loop_now(client->loop));
}
