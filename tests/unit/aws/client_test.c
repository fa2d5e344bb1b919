/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/client.h"

#include "ks_test.h"

#include "aws/credentials.h"
#include "aws/endpoint.h"
#include "base/budget.h"
#include "http_script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct house {
    struct ks_loop *loop;
    struct ks_http *http;
    struct ks_credentials_source *credentials;
    struct ks_aws_client *client;
    struct http_script *script;
};

struct told {
    int times;
    ks_err err;
    struct ks_detail detail;
    int status;
    bool sent;
    uint32_t attempts;
    bool failed;
    struct ks_failure failure;
    char type[64];
    char body[256];
};

static void on_done(void *arg, const struct ks_aws_answer *answer)
{
    struct told *told = arg;

    told->times++;
    told->err = answer->err;
    told->detail = answer->detail;
    told->status = answer->status;
    told->sent = answer->sent;
    told->attempts = answer->attempts;
    told->failed = answer->failure != NULL;
    if (told->failed)
        told->failure = *answer->failure;
    snprintf(told->type, sizeof(told->type), "%.*s", (int)answer->content_type.size,
             answer->content_type.data == NULL ? "" : (const char *)answer->content_type.data);
    snprintf(told->body, sizeof(told->body), "%.*s", (int)answer->body.size,
             answer->body.data == NULL ? "" : (const char *)answer->body.data);
}

static void open_house(struct house *house, enum ks_aws_service service,
                       const struct http_step *steps, size_t count)
{
    struct ks_http_options http = {.ca_bundle = NULL};
    struct ks_credentials_options credentials = {.seed = 1};
    struct ks_aws_client_options options = {.service = service, .seed = 1};
    struct ks_endpoint endpoint;

    setenv("AWS_ACCESS_KEY_ID", "AKID", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "SECRET", 1);
    unsetenv("AWS_SESSION_TOKEN");
    unsetenv("AWS_SECURITY_TOKEN");
    unsetenv("AWS_CREDENTIAL_EXPIRATION");
    house->script = http_script_start(steps, count);
    EXPECT_OK(ks_loop_new(&house->loop));
    EXPECT_OK(ks_http_new(house->loop, &http, &house->http, NULL));
    credentials.loop = house->loop;
    credentials.http = house->http;
    EXPECT_OK(ks_credentials_source_new(&credentials, &house->credentials, NULL));
    EXPECT_OK(ks_endpoint_resolve("kinesis", "us-east-1", http_script_url(house->script), &endpoint,
                                  NULL));
    options.loop = house->loop;
    options.http = house->http;
    options.credentials = house->credentials;
    options.endpoint = &endpoint;
    EXPECT_OK(ks_aws_client_new(&options, &house->client));
}

static void close_house(struct house *house)
{
    ks_aws_client_free(house->client);
    ks_credentials_source_free(house->credentials);
    ks_http_free(house->http);
    ks_loop_free(house->loop);
    http_script_stop(house->script);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

static struct ks_aws_request request_for(struct told *told)
{
    return (struct ks_aws_request){.operation = "GetItem",
                                   .body = KS_VIEW("{}"),
                                   .timeout = ks_span_ms(3000),
                                   .response_max = 1000,
                                   .done = on_done,
                                   .arg = told};
}

static void turn_until(struct house *house, const struct told *told, int times)
{
    while (told->times < times)
        ks_loop_turn(house->loop, ks_span_ms(20));
}

static void ask(struct house *house, struct told *told, bool single_attempt)
{
    struct ks_aws_request request = request_for(told);
    int before = told->times;

    request.single_attempt = single_attempt;
    EXPECT_OK(ks_aws_call(house->client, &request, NULL));
    EXPECT_EQ_I64(told->times, before);
    turn_until(house, told, before + 1);
}

static struct ks_aws_state state_of(const struct house *house)
{
    struct ks_aws_state state;

    ks_aws_client_state(house->client, &state);
    return state;
}

TEST(a_call_is_signed_and_answered)
{
    static const struct http_step steps[] = {
        {.headers = "Content-Type: application/x-amz-json-1.0\r\n", .body = "{}"}};
    struct house house;
    struct told told = {.times = 0};

    open_house(&house, KS_AWS_DYNAMODB, steps, 1);
    setenv("AWS_SESSION_TOKEN", "TOKEN", 1);
    ask(&house, &told, true);
    EXPECT_OK(told.err);
    EXPECT_EQ_I64(told.status, 200);
    EXPECT_EQ_U64(told.attempts, 1);
    EXPECT(told.sent && !told.failed);
    EXPECT_STR(told.body, "{}");
    EXPECT_STR(told.type, "application/x-amz-json-1.0");
    const char *seen = http_script_request(house.script, 0);
    EXPECT_CONTAINS(seen, "POST / HTTP/1.1\r\nHost: 127.0.0.1:");
    EXPECT_CONTAINS(seen, "X-Amz-Target: DynamoDB_20120810.GetItem\r\n");
    EXPECT_CONTAINS(seen, "Content-Type: application/x-amz-json-1.0\r\n");
    EXPECT_CONTAINS(seen, "X-Amz-Security-Token: TOKEN\r\n");
    EXPECT_CONTAINS(seen,
                    "/us-east-1/dynamodb/aws4_request, SignedHeaders=content-type;host;x-amz-date;"
                    "x-amz-security-token;x-amz-target, Signature=");
    EXPECT_CONTAINS(seen, "\r\n\r\n{}");
    EXPECT_EQ_U64(state_of(&house).requests, 1);
    EXPECT_EQ_U64(state_of(&house).failures, 0);
    close_house(&house);
}

TEST(a_single_attempt_is_one_attempt)
{
    static const struct http_step steps[] = {{.status = 500}, {.cut = true}, {.silent = true}};
    static const enum ks_err_code expected[] = {KS_ERR_SERVER, KS_ERR_CONNECTION, KS_ERR_TIMEOUT};
    struct house house;
    struct told told = {.times = 0};

    open_house(&house, KS_AWS_DYNAMODB, steps, 3);
    for (int i = 0; i < 3; i++) {
        struct ks_aws_request request = request_for(&told);
        request.single_attempt = true;
        request.timeout = ks_span_ms(300);
        EXPECT_OK(ks_aws_call(house.client, &request, NULL));
        turn_until(&house, &told, i + 1);
        EXPECT_EQ_I64(told.err.code, expected[i]);
        EXPECT_EQ_U64(told.attempts, 1);
        EXPECT(told.sent);
        EXPECT_EQ_I64(told.status, i == 0 ? 500 : 0);
        EXPECT_CONTAINS(told.detail.text, "dynamodb GetItem");
    }
    EXPECT_EQ_U64(http_script_count(house.script), 3);
    EXPECT_EQ_U64(state_of(&house).failures_in_row, 3);
    EXPECT_EQ_U64(state_of(&house).retries, 0);
    close_house(&house);
}

TEST(reads_are_tried_three_times)
{
    static const struct http_step steps[] = {
        {.status = 500},
        {.status = 400, .body = "{\"__type\":\"ThrottlingException\",\"message\":\"slow\"}"},
        {.body = "{}"},
        {.status = 503}};
    struct house house;
    struct told told = {.times = 0};

    open_house(&house, KS_AWS_KINESIS, steps, 4);
    ask(&house, &told, false);
    EXPECT_OK(told.err);
    EXPECT_EQ_U64(told.attempts, 3);
    EXPECT_EQ_U64(state_of(&house).throttles, 1);
    EXPECT_EQ_U64(state_of(&house).retries, 2);
    EXPECT_EQ_U64(state_of(&house).failures_in_row, 0);
    ask(&house, &told, false);
    EXPECT(ks_err_is(told.err, KS_ERR_SERVER));
    EXPECT_EQ_U64(told.attempts, 3);
    EXPECT_EQ_U64(http_script_count(house.script), 6);
    close_house(&house);
}

TEST(what_the_server_asks_for_is_waited)
{
    static const struct http_step steps[] = {
        {.status = 429, .headers = "x-amz-retry-after: 400\r\n"}, {.body = "{}"}};
    struct house house;
    struct told told = {.times = 0};

    open_house(&house, KS_AWS_KINESIS, steps, 2);
    ks_loop_turn(house.loop, ks_span_ms(0));
    ks_instant begin = ks_loop_now(house.loop);
    ask(&house, &told, false);
    EXPECT_OK(told.err);
    EXPECT(ks_instant_since(ks_loop_now(house.loop), begin).us >= 400000);
    close_house(&house);
}

/* 500 tokens pay for 100 retries, and each success gives one back. */
TEST(retries_end_when_their_tokens_do)
{
    static const struct http_step steps[] = {{.status = 500}};
    struct house house;
    struct told told = {.times = 0};

    open_house(&house, KS_AWS_KINESIS, steps, 1);
    for (int i = 0; i < 52; i++)
        ask(&house, &told, false);
    EXPECT_EQ_U64(state_of(&house).retries, 100);
    EXPECT_EQ_U64(told.attempts, 1);
    close_house(&house);
}

TEST(failures_are_told_with_their_code)
{
    static const struct http_step steps[] = {
        {.status = 400,
         .headers = "x-amzn-RequestId: R1\r\n",
         .body = "{\"__type\":\"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException\","
                 "\"message\":\"no\","
                 "\"Item\":{}}"},
        {.status = 400,
         .body = "{\"__type\":\"ResourceNotFoundException\",\"message\":\"Requested resource\"}"}};
    struct house house;
    struct told told = {.times = 0};

    open_house(&house, KS_AWS_DYNAMODB, steps, 2);
    ask(&house, &told, false);
    EXPECT(ks_err_is(told.err, KS_ERR_CONDITION));
    EXPECT(told.failed);
    EXPECT_STR(told.failure.code, "ConditionalCheckFailedException");
    EXPECT_STR(told.failure.request_id, "R1");
    EXPECT_CONTAINS(told.body, "\"Item\":{}");
    EXPECT_EQ_U64(state_of(&house).failures, 0);
    ask(&house, &told, false);
    EXPECT_STR(told.detail.text,
               "ResourceNotFoundException on dynamodb GetItem: Requested resource");
    EXPECT_EQ_U64(told.attempts, 1);
    /* The service did answer. */
    EXPECT_EQ_U64(state_of(&house).failures_in_row, 0);
    close_house(&house);
}

TEST(a_wrong_checksum_is_asked_again)
{
    static const struct http_step steps[] = {
        {.headers = "x-amz-crc32: 1\r\n", .body = "{}"},
        {.headers = "x-amz-crc32: 2745614147\r\n", .body = "{}"},
        {.headers = "x-amz-crc32: nonsense\r\n", .body = "{}"}};
    struct house house;
    struct told told = {.times = 0};

    open_house(&house, KS_AWS_DYNAMODB, steps, 3);
    ask(&house, &told, false);
    EXPECT_OK(told.err);
    EXPECT_EQ_U64(told.attempts, 2);
    ask(&house, &told, true);
    EXPECT(ks_err_is(told.err, KS_ERR_SERVER));
    EXPECT_CONTAINS(told.detail.text, "checksum");
    close_house(&house);
}

static char *date_header(int64_t offset_s)
{
    static char header[96];
    struct tm parts;
    time_t at = (time_t)(ks_wall_now().ms / 1000 + offset_s);

    gmtime_r(&at, &parts);
    strftime(header, sizeof(header), "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", &parts);
    return header;
}

TEST(a_wrong_clock_is_corrected_once)
{
    const char *refused =
        "{\"__type\":\"InvalidSignatureException\",\"message\":\"Signature expired\"}";
    struct http_step steps[] = {{.status = 400, .headers = date_header(3600), .body = refused},
                                {.body = "{}"},
                                {.status = 400, .headers = date_header(3600), .body = refused}};
    struct house house;
    struct told told = {.times = 0};
    char first[18];
    char second[18];

    open_house(&house, KS_AWS_DYNAMODB, steps, 3);
    /* A write, too: what was refused for its date was not done. */
    ask(&house, &told, true);
    EXPECT_OK(told.err);
    EXPECT_EQ_U64(told.attempts, 2);
    EXPECT(state_of(&house).skew_ms > 3500 * 1000 && state_of(&house).skew_ms < 3700 * 1000);
    snprintf(first, sizeof(first), "%s",
             strstr(http_script_request(house.script, 0), "X-Amz-Date: ") + 12);
    snprintf(second, sizeof(second), "%s",
             strstr(http_script_request(house.script, 1), "X-Amz-Date: ") + 12);
    EXPECT(strcmp(first, second) < 0);
    /* With the clock right already it is no longer the reason. */
    ask(&house, &told, true);
    EXPECT(ks_err_is(told.err, KS_ERR_DENIED));
    EXPECT_EQ_U64(told.attempts, 1);
    close_house(&house);
}

TEST(access_denied_with_a_right_clock_is_final)
{
    const char *refused = "{\"__type\":\"AccessDeniedException\",\"message\":\"not allowed\"}";
    struct http_step steps[] = {{.status = 400, .headers = date_header(1), .body = refused},
                                {.body = refused}};
    struct house house;
    struct told told = {.times = 0};

    open_house(&house, KS_AWS_DYNAMODB, steps, 2);
    ask(&house, &told, false);
    EXPECT(ks_err_is(told.err, KS_ERR_DENIED));
    EXPECT_EQ_U64(told.attempts, 1);
    EXPECT_EQ_U64(state_of(&house).failures_in_row, 1);
    EXPECT_CONTAINS(state_of(&house).last_detail.text, "AccessDeniedException on dynamodb GetItem");
    close_house(&house);
}

TEST(an_expired_token_is_tried_once_more)
{
    static const struct http_step steps[] = {
        {.status = 400, .body = "{\"__type\":\"ExpiredTokenException\",\"message\":\"old\"}"}};
    struct house house;
    struct told told = {.times = 0};

    open_house(&house, KS_AWS_DYNAMODB, steps, 1);
    ask(&house, &told, true);
    EXPECT(ks_err_is(told.err, KS_ERR_DENIED));
    EXPECT_EQ_U64(told.attempts, 2);
    close_house(&house);
}

TEST(without_credentials_nothing_is_sent)
{
    static const struct http_step steps[] = {{.body = "{}"}};
    struct house house;
    struct told told = {.times = 0};

    open_house(&house, KS_AWS_KINESIS, steps, 1);
    unsetenv("AWS_SECRET_ACCESS_KEY");
    ask(&house, &told, true);
    EXPECT(ks_err_is(told.err, KS_ERR_INVALID));
    EXPECT(!told.sent);
    EXPECT_EQ_U64(told.attempts, 0);
    EXPECT_EQ_I64(told.status, 0);
    EXPECT_CONTAINS(told.detail.text, "was not sent: AWS_ACCESS_KEY_ID");
    EXPECT_EQ_U64(http_script_count(house.script), 0);
    close_house(&house);
}

struct drain {
    int begun;
    size_t bytes;
};

static ks_err on_begin(void *arg, int64_t size)
{
    struct drain *drain = arg;

    EXPECT(size == 3000);
    drain->begun++;
    drain->bytes = 0;
    return KS_OK;
}

static ks_err on_part(void *arg, ks_view bytes)
{
    struct drain *drain = arg;

    drain->bytes += bytes.size;
    return KS_OK;
}

TEST(a_sink_begins_again_with_each_attempt)
{
    static const struct http_step steps[] = {
        {.raw = "HTTP/1.1 200 OK\r\nContent-Length: 3000\r\n\r\nhalf", .cut = true},
        {.filler = 3000}};
    struct house house;
    struct told told = {.times = 0};
    struct drain drain = {.begun = 0};
    struct ks_http_sink sink = {on_begin, on_part, &drain};

    open_house(&house, KS_AWS_KINESIS, steps, 2);
    struct ks_aws_request request = request_for(&told);
    request.sink = &sink;
    request.response_max = 4000;
    request.content_type = KS_AWS_CBOR_TYPE;
    EXPECT_OK(ks_aws_call(house.client, &request, NULL));
    sink = (struct ks_http_sink){.arg = NULL};
    turn_until(&house, &told, 1);
    EXPECT_OK(told.err);
    EXPECT_EQ_I64(drain.begun, 2);
    EXPECT_EQ_U64(drain.bytes, 3000);
    EXPECT_STR(told.body, "");
    EXPECT_CONTAINS(http_script_request(house.script, 0),
                    "Content-Type: application/x-amz-cbor-1.1\r\n");
    close_house(&house);
}

TEST(a_body_beyond_the_limit_is_not_asked_for_again)
{
    static const struct http_step steps[] = {{.filler = 1001}};
    struct house house;
    struct told told = {.times = 0};

    open_house(&house, KS_AWS_KINESIS, steps, 1);
    ask(&house, &told, false);
    EXPECT(ks_err_is(told.err, KS_ERR_FULL));
    EXPECT_EQ_U64(told.attempts, 1);
    close_house(&house);
}

TEST(cancelled_calls_are_silent_wherever_they_are)
{
    static const struct http_step steps[] = {
        {.status = 429, .headers = "x-amz-retry-after: 1000\r\n"}, {.silent = true}};
    struct house house;
    struct told told = {.times = 0};
    struct ks_aws_call *calls[3];

    open_house(&house, KS_AWS_KINESIS, steps, 2);
    struct ks_aws_request request = request_for(&told);
    /* Waiting for credentials. */
    EXPECT_OK(ks_aws_call(house.client, &request, &calls[0]));
    ks_aws_cancel(calls[0]);
    /* Between two attempts. */
    EXPECT_OK(ks_aws_call(house.client, &request, &calls[1]));
    while (state_of(&house).retries < 1)
        ks_loop_turn(house.loop, ks_span_ms(10));
    ks_aws_cancel(calls[1]);
    /* Waiting for the answer. */
    EXPECT_OK(ks_aws_call(house.client, &request, &calls[2]));
    while (http_script_count(house.script) < 2)
        ks_loop_turn(house.loop, ks_span_ms(10));
    ks_aws_cancel(calls[2]);
    /* And one of each is left to the end of the client. */
    EXPECT_OK(ks_aws_call(house.client, &request, NULL));
    ks_loop_turn(house.loop, ks_span_ms(10));
    close_house(&house);
    EXPECT_EQ_I64(told.times, 0);
}

static void ask_again(void *arg, const struct ks_aws_answer *answer)
{
    struct house *house = arg;
    static struct told told;

    EXPECT_OK(answer->err);
    struct ks_aws_request request = request_for(&told);
    EXPECT_OK(ks_aws_call(house->client, &request, NULL));
}

TEST(a_caller_may_call_when_it_is_told)
{
    static const struct http_step steps[] = {{.body = "{}"}};
    struct house house;
    struct told told = {.times = 0};

    open_house(&house, KS_AWS_KINESIS, steps, 1);
    struct ks_aws_request request = request_for(&told);
    request.done = ask_again;
    request.arg = &house;
    EXPECT_OK(ks_aws_call(house.client, &request, NULL));
    while (http_script_count(house.script) < 2)
        ks_loop_turn(house.loop, ks_span_ms(10));
    close_house(&house);
}

TEST(every_allocation_of_a_call_may_fail)
{
    static const struct http_step steps[] = {{.body = "{}"}};
    struct house house;
    struct told told = {.times = 0};
    int done = 0;

    open_house(&house, KS_AWS_KINESIS, steps, 1);
    ask(&house, &told, true);
    for (uint64_t n = 1; done < 3; n++) {
        struct ks_aws_request request = request_for(&told);
        int before = told.times;

        request.single_attempt = true;
        ks_alloc_fail_after(n, 0);
        ks_err err = ks_aws_call(house.client, &request, NULL);
        EXPECT(ks_ok(err) || ks_err_is(err, KS_ERR_NO_MEMORY));
        if (ks_ok(err)) {
            turn_until(&house, &told, before + 1);
            EXPECT(ks_ok(told.err) || ks_err_is(told.err, KS_ERR_NO_MEMORY));
            done += ks_ok(told.err) ? 1 : 0;
        }
        ks_alloc_fail_after(0, 0);
    }
    close_house(&house);
}
