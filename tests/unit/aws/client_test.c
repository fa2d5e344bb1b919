/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/client.h"

#include "ks_test.h"

#include "aws_rig.h"
#include "base/budget.h"
#include "base/log.h"
#include "base/metrics.h"
#include "http_script.h"
#include "tunnel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

struct house {
    struct ks_loop *loop;
    struct aws_rig aws;
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

/* What houses are opened with; none of it if it is not set. */
static uint32_t attempts_max;
static const struct ks_endpoint_rules *rules;
static const struct ks_proxies *proxies;

static void open_house(struct house *house, enum ks_aws_service service,
                       const struct http_step *steps, size_t count)
{
    house->script = http_script_start(steps, count);
    EXPECT_OK(ks_loop_new(&house->loop));
    struct aws_rig_options options = {
        .attempts_max = attempts_max, .rules = rules, .proxies = proxies};

    aws_rig_open_with(&house->aws, house->loop, service, http_script_url(house->script), &options);
}

static void close_house(struct house *house)
{
    aws_rig_close(&house->aws);
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
    EXPECT_OK(ks_aws_call(house->aws.client, &request, NULL));
    EXPECT_EQ_I64(told->times, before);
    turn_until(house, told, before + 1);
}

static struct ks_aws_state state_of(const struct house *house)
{
    struct ks_aws_state state;

    ks_aws_client_state(house->aws.client, &state);
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
        EXPECT_OK(ks_aws_call(house.aws.client, &request, NULL));
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

/* A call that was answered after `attempts`, in the modes for writes with a condition. */
static void expect_conditional(const struct http_step *steps, size_t count, uint32_t attempts,
                               ks_err err)
{
    struct house house;
    struct told told = {.times = 0};

    open_house(&house, KS_AWS_DYNAMODB, steps, count);
    struct ks_aws_request request = request_for(&told);
    request.conditional = true;
    request.timeout = ks_span_ms(300);
    EXPECT_OK(ks_aws_call(house.aws.client, &request, NULL));
    turn_until(&house, &told, 1);
    EXPECT_STR(ks_err_name(told.err), ks_err_name(err));
    EXPECT_EQ_U64(told.attempts, attempts);
    EXPECT_EQ_U64(http_script_count(house.script), attempts);
    close_house(&house);
}

TEST(a_conditional_write_is_sent_again_only_if_it_was_not_done)
{
    static const char throttle[] = "{\"__type\":\"RequestLimitExceeded\",\"message\":\"slow\"}";
    static const struct http_step throttled[] = {{.status = 400, .body = throttle}, {.body = "{}"}};
    static const struct http_step in_doubt[][2] = {
        {{.status = 500}, {.body = "{}"}},
        {{.status = 503, .body = throttle}, {.body = "{}"}},
        {{.cut = true}, {.body = "{}"}},
        {{.silent = true}, {.body = "{}"}},
        {{.headers = "x-amz-crc32: 1\r\n", .body = "{}"}, {.body = "{}"}}};
    static const ks_err errs[] = {{KS_ERR_SERVER},
                                  {KS_ERR_THROTTLED},
                                  {KS_ERR_CONNECTION},
                                  {KS_ERR_TIMEOUT},
                                  {KS_ERR_SERVER}};

    expect_conditional(throttled, 2, 2, KS_OK);
    for (size_t at = 0; at < sizeof(errs) / sizeof(errs[0]); at++)
        expect_conditional(in_doubt[at], 2, 1, errs[at]);
}

TEST(a_conditional_write_that_did_not_leave_is_tried_again)
{
    static const struct http_step steps[] = {{.body = "{}"}};
    struct house house;
    struct told told = {.times = 0};

    open_house(&house, KS_AWS_DYNAMODB, steps, 1);
    http_script_stop(house.script);
    struct ks_aws_request request = request_for(&told);
    request.conditional = true;
    EXPECT_OK(ks_aws_call(house.aws.client, &request, NULL));
    turn_until(&house, &told, 1);
    EXPECT(ks_err_is(told.err, KS_ERR_CONNECTION));
    EXPECT_EQ_U64(told.attempts, 4);
    EXPECT(!told.sent);
    house.script = http_script_start(steps, 1);
    close_house(&house);
}

TEST(attempts_share_the_time_of_their_call)
{
    static const struct http_step steps[] = {{.silent = true}};
    static const struct http_step slow[] = {
        {.status = 503, .headers = "x-amz-retry-after: 2500\r\n"}, {.body = "{}"}};
    struct house house;
    struct told told = {.times = 0};

    /* Each has its own, .. */
    open_house(&house, KS_AWS_DYNAMODB, steps, 1);
    struct ks_aws_request request = request_for(&told);
    request.timeout = ks_span_ms(100);
    request.total = ks_span_ms(30000);
    EXPECT_OK(ks_aws_call(house.aws.client, &request, NULL));
    turn_until(&house, &told, 1);
    EXPECT(ks_err_is(told.err, KS_ERR_TIMEOUT));
    EXPECT_EQ_U64(told.attempts, 4);
    close_house(&house);

    /* .. none has more than is left, and then there is no other. */
    open_house(&house, KS_AWS_DYNAMODB, steps, 1);
    request.timeout = ks_span_ms(30000);
    request.total = ks_span_ms(200);
    EXPECT_OK(ks_aws_call(house.aws.client, &request, NULL));
    turn_until(&house, &told, 2);
    EXPECT(ks_err_is(told.err, KS_ERR_TIMEOUT));
    EXPECT_EQ_U64(told.attempts, 1);
    close_house(&house);

    /* A wait that would outlast it is not begun. */
    open_house(&house, KS_AWS_DYNAMODB, slow, 2);
    request.total = ks_span_ms(2000);
    EXPECT_OK(ks_aws_call(house.aws.client, &request, NULL));
    turn_until(&house, &told, 3);
    EXPECT(ks_err_is(told.err, KS_ERR_SERVER));
    EXPECT_EQ_U64(told.attempts, 1);
    close_house(&house);
}

TEST(the_wait_for_credentials_is_part_of_the_time)
{
    static const struct http_step silent[] = {{.silent = true}};
    static const struct http_step steps[] = {{.body = "{}"}};
    struct http_script *container = http_script_start(silent, 1);
    struct house house;
    struct told told = {.times = 0};

    open_house(&house, KS_AWS_DYNAMODB, steps, 1);
    unsetenv("AWS_ACCESS_KEY_ID");
    unsetenv("AWS_SECRET_ACCESS_KEY");
    setenv("AWS_CONFIG_FILE", "/dev/null", 1);
    setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null", 1);
    setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", http_script_url(container), 1);
    struct ks_aws_request request = request_for(&told);
    request.total = ks_span_ms(300);
    EXPECT_OK(ks_aws_call(house.aws.client, &request, NULL));
    turn_until(&house, &told, 1);
    EXPECT(ks_err_is(told.err, KS_ERR_TIMEOUT));
    EXPECT_EQ_U64(told.attempts, 0);
    EXPECT_CONTAINS(told.detail.text, "credentials did not come in time");
    close_house(&house);
    http_script_stop(container);
}

TEST(the_number_of_attempts_can_be_set)
{
    static const struct http_step steps[] = {{.status = 500}};
    struct house house;
    struct told told = {.times = 0};

    attempts_max = 5;
    open_house(&house, KS_AWS_KINESIS, steps, 1);
    ask(&house, &told, false);
    EXPECT_EQ_U64(told.attempts, 5);
    close_house(&house);
    attempts_max = 1;
    open_house(&house, KS_AWS_KINESIS, steps, 1);
    ask(&house, &told, false);
    EXPECT_EQ_U64(told.attempts, 1);
    close_house(&house);
}

/* One of several kept connections is cut off without a word, as when a router forgets them all. */
TEST(after_a_dead_connection_those_of_its_age_are_not_used)
{
    static const struct http_step steps[] = {
        {.wait_ms = 100, .body = "{}"}, {.body = "{}"}, {.silent = true}, {.body = "{}"}};
    struct house house;
    struct told told = {.times = 0};

    open_house(&house, KS_AWS_DYNAMODB, steps, 4);
    struct ks_aws_request request = request_for(&told);
    EXPECT_OK(ks_aws_call(house.aws.client, &request, NULL));
    EXPECT_OK(ks_aws_call(house.aws.client, &request, NULL));
    turn_until(&house, &told, 2);
    EXPECT_EQ_U64(http_script_connections(house.script), 2);

    request.timeout = ks_span_ms(300);
    request.single_attempt = true;
    EXPECT_OK(ks_aws_call(house.aws.client, &request, NULL));
    turn_until(&house, &told, 3);
    EXPECT(ks_err_is(told.err, KS_ERR_TIMEOUT));
    EXPECT_EQ_U64(http_script_connections(house.script), 2);
    request.timeout = ks_span_ms(3000);
    EXPECT_OK(ks_aws_call(house.aws.client, &request, NULL));
    turn_until(&house, &told, 4);
    EXPECT_OK(told.err);
    EXPECT_EQ_U64(http_script_connections(house.script), 3);
    close_house(&house);
}

/* What a call says that the rules send somewhere, with credentials of this account. The proxy that it
 * goes through lets nobody through. */
static struct told ask_by_rules(const struct ks_endpoint_rules *by, const char *operation,
                                const char *account, const char **ret_connect)
{
    static const struct http_step steps[] = {{.body = "{}"}};
    static struct ks_proxies tunnelled;
    struct tunnel *tunnel = tunnel_start("http://127.0.0.1:1", "403 Forbidden", NULL);
    struct house house;
    struct told told = {.times = 0};
    struct ks_aws_request request = request_for(&told);

    snprintf(tunnelled.https, sizeof(tunnelled.https), "http://%s", tunnel_address(tunnel));
    proxies = &tunnelled;
    rules = by;
    EXPECT(setenv("AWS_ACCOUNT_ID", account, 1) == 0);
    open_house(&house, strcmp(by->service, "kinesis") == 0 ? KS_AWS_KINESIS : KS_AWS_DYNAMODB,
               steps, 1);
    request.operation = operation;
    request.single_attempt = true;
    EXPECT_OK(ks_aws_call(house.aws.client, &request, NULL));
    turn_until(&house, &told, 1);
    EXPECT(!ks_ok(told.err) && !told.sent);
    *ret_connect = tunnel_head(tunnel);
    close_house(&house);
    tunnel_stop(tunnel);
    return told;
}

static const struct ks_endpoint_rules stream = {
    .service = "kinesis",
    .region = "eu-west-1",
    .stream_arn = "arn:aws:kinesis:eu-west-1:123456789012:stream/s"};

TEST(the_host_follows_the_operation_and_the_account)
{
    static const struct ks_endpoint_rules table = {.service = "dynamodb", .region = "eu-west-1"};
    static const struct {
        const struct ks_endpoint_rules *by;
        const char *operation;
        const char *account;
        const char *connect;
    } cases[] = {
        {&stream, "GetRecords", "", "CONNECT 123456789012.data-kinesis.eu-west-1.amazonaws.com:"},
        {&stream, "GetShardIterator", "", "CONNECT 123456789012.data-kinesis.eu-west-1."},
        {&stream, "SubscribeToShard", "", "CONNECT 123456789012.data-kinesis.eu-west-1."},
        {&stream, "ListShards", "", "CONNECT 123456789012.control-kinesis.eu-west-1."},
        {&stream, "DescribeStreamSummary", "", "CONNECT 123456789012.control-kinesis.eu-west-1."},
        {&table, "GetItem", "", "CONNECT dynamodb.eu-west-1.amazonaws.com:443"},
        {&table, "GetItem", "210987654321", "CONNECT 210987654321.ddb.eu-west-1.amazonaws.com:"},
    };

    for (size_t at = 0; at < sizeof(cases) / sizeof(cases[0]); at++) {
        const char *connect = NULL;
        struct told told =
            ask_by_rules(cases[at].by, cases[at].operation, cases[at].account, &connect);
        EXPECT_ERR(told.err, CONNECTION);
        EXPECT_CONTAINS(connect, cases[at].connect);
    }
}

TEST(credentials_of_another_account_than_the_streams_are_told)
{
    static const char *const accounts[] = {"", "123456789012", "210987654321"};
    char lines[8192] = "";
    int log_file = memfd_create("log", 0);
    ks_log_open(log_file, KS_LOG_INFO, KS_LOG_TEXT);
    for (size_t at = 0; at < 3; at++) {
        (void)ask_by_rules(&stream, "GetRecords", accounts[at], &(const char *){NULL});
        ks_log_close(1000);
        EXPECT(pread(log_file, lines, sizeof(lines) - 1, 0) >= 0);
        EXPECT((strstr(lines, "and our credentials of 210987654321: the") != NULL) == (at == 2));
    }
}

TEST(what_the_rules_forbid_is_told_as_an_answer)
{
    static const struct ks_endpoint_rules required = {
        .service = "dynamodb", .region = "eu-west-1", .account_mode = KS_ACCOUNT_REQUIRED};
    const char *connect = NULL;
    struct told told = ask_by_rules(&required, "GetItem", "", &connect);

    EXPECT_ERR(told.err, INVALID);
    EXPECT_CONTAINS(told.detail.text, "dynamodb GetItem was not sent: the account ID endpoint mode "
                                      "is required, but the credentials do not tell");
    EXPECT_STR(connect, "");
    told = ask_by_rules(&required, "GetItem", "210987654321", &connect);
    EXPECT_ERR(told.err, CONNECTION);
    EXPECT_CONTAINS(connect, "CONNECT 210987654321.ddb.");
}

TEST(requests_are_counted_by_service_and_operation)
{
    static const struct http_step steps[] = {
        {.status = 400, .body = "{\"__type\":\"ThrottlingException\"}"}, {.body = "answer"}};
    static const char series[] = "kinesis,GetItem";
    struct house house;
    struct told told = {.times = 0};
    struct ks_bytes page;

    open_house(&house, KS_AWS_KINESIS, steps, 2);
    ask(&house, &told, false);
    EXPECT_OK(told.err);
    EXPECT_EQ_I64(ks_metric_number_labelled(KS_METRIC_AWS_REQUESTS, series), 2);
    EXPECT_EQ_I64(ks_metric_number_labelled(KS_METRIC_AWS_RETRIES, series), 1);
    EXPECT_EQ_I64(ks_metric_number_labelled(KS_METRIC_AWS_THROTTLES, series), 1);
    EXPECT_EQ_I64(ks_metric_number_labelled(KS_METRIC_AWS_FAILURES, "kinesis,throttled"), 1);
    EXPECT_EQ_I64(ks_metric_number_labelled(KS_METRIC_AWS_SENT_BYTES, series), 4);
    EXPECT_EQ_I64(ks_metric_number_labelled(KS_METRIC_AWS_RECEIVED_BYTES, series),
                  (int64_t)strlen(steps[0].body) + 6);
    ks_bytes_init(&page, 1 << 20);
    EXPECT_OK(ks_metrics_render(&page));
    EXPECT_OK(ks_bytes_append_byte(&page, '\0'));
    EXPECT_CONTAINS((const char *)page.data, "aws_request_duration_seconds_count{service="
                                             "\"kinesis\",operation=\"GetItem\"} 2\n");
    ks_bytes_free(&page);
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

/* 500 tokens pay for 35 retries that no throttle asked for. */
TEST(retries_end_when_their_tokens_do)
{
    static const struct http_step steps[] = {{.status = 500}};
    struct house house;
    struct told told = {.times = 0};

    open_house(&house, KS_AWS_KINESIS, steps, 1);
    for (int i = 0; i < 20; i++)
        ask(&house, &told, false);
    EXPECT_EQ_U64(state_of(&house).retries, 35);
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
    EXPECT(ks_err_is(told.err, KS_ERR_NO_CREDENTIALS)); /* INVALID would be about the request. */
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

static ks_err on_begin(void *arg, ks_view head, int64_t size)
{
    struct drain *drain = arg;

    EXPECT(head.size > 0 && size == 3000);
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
    EXPECT_OK(ks_aws_call(house.aws.client, &request, NULL));
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
    EXPECT_OK(ks_aws_call(house.aws.client, &request, &calls[0]));
    ks_aws_cancel(calls[0]);
    /* Between two attempts. */
    EXPECT_OK(ks_aws_call(house.aws.client, &request, &calls[1]));
    while (state_of(&house).retries < 1)
        ks_loop_turn(house.loop, ks_span_ms(10));
    ks_aws_cancel(calls[1]);
    /* Waiting for the answer. */
    EXPECT_OK(ks_aws_call(house.aws.client, &request, &calls[2]));
    while (http_script_count(house.script) < 2)
        ks_loop_turn(house.loop, ks_span_ms(10));
    ks_aws_cancel(calls[2]);
    /* And one of each is left to the end of the client. */
    EXPECT_OK(ks_aws_call(house.aws.client, &request, NULL));
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
    EXPECT_OK(ks_aws_call(house->aws.client, &request, NULL));
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
    EXPECT_OK(ks_aws_call(house.aws.client, &request, NULL));
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
        ks_err err = ks_aws_call(house.aws.client, &request, NULL);
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
