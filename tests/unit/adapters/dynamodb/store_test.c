/* SPDX-License-Identifier: Apache-2.0 */
/* Failures that no emulator gives; what works is in tests/contract. */
#include "adapters/dynamodb/store.h"

#include "base/budget.h"
#include "base/metrics.h"
#include "ks_test.h"

#include "aws_rig.h"
#include "http_script.h"

#include <stdlib.h>

#define READY                                                                                      \
    "{\"Table\":{\"AttributeDefinitions\":[{\"AttributeName\":\"p\",\"AttributeType\":\"S\"},"     \
    "{\"AttributeName\":\"k\",\"AttributeType\":\"S\"}],\"KeySchema\":["                           \
    "{\"AttributeName\":\"p\",\"KeyType\":\"HASH\"},{\"AttributeName\":\"k\","                     \
    "\"KeyType\":\"RANGE\"}],\"TableStatus\":\"ACTIVE\"}}"
#define ERROR(code) "{\"__type\":\"com.amazonaws.dynamodb.v20120810#" code "\",\"message\":\"m\"}"
#define WORKER(k)                                                                                  \
    "{\"p\":{\"S\":\"w\"},\"k\":{\"S\":\"" k "\"},\"boot\":{\"S\":\"0000000000000001\"},"          \
    "\"life\":{\"S\":\"live\"},\"mode\":{\"S\":\"idle\"},\"beat\":{\"N\":\"5\"}}"

static struct ks_loop *loop;
static struct aws_rig aws;
static struct ks_lease_store *store;
static struct http_script *script;

static struct {
    int times;
    enum ks_outcome outcome;
    ks_err err;
    struct ks_detail detail;
    uint32_t workers;
    struct ks_store_worker worker;
    struct ks_store_leader leader;
} told;

static void answered(void *arg, uint64_t token, const struct ks_store_answer *answer)
{
    (void)arg;
    (void)token;
    told.times++;
    told.outcome = answer->outcome;
    told.err = answer->err;
    told.detail = answer->detail;
    told.workers = answer->worker_count;
    told.leader = answer->leader;
    if (answer->worker_count != 0)
        told.worker = answer->workers[0];
}

static void begin(const struct http_step *steps, size_t count)
{
    const ks_instant begun = ks_instant_now();
    struct ks_detail detail = {""};

    script = http_script_start(steps, count);
    EXPECT_OK(ks_loop_new(&loop));
    aws_rig_open(&aws, loop, KS_AWS_DYNAMODB, http_script_url(script));
    EXPECT_OK(
        ks_dynamodb_store_open(loop, aws.client, "leases", &ks_native_dialect, &store, &detail));
    while (store->vtable->state(store, &detail) != KS_STORE_READY) {
        ks_loop_turn(loop, ks_span_ms(20));
        EXPECT(ks_instant_since(ks_instant_now(), begun).us < 10 * 1000000);
    }
}

static void finish(void)
{
    store->vtable->close(store);
    aws_rig_close(&aws);
    ks_loop_free(loop);
    http_script_stop(script);
}

static void ask_within(enum ks_store_operation operation, int64_t timeout_ms)
{
    const struct ks_store_request request = {.operation = operation,
                                             .worker = {"a", 1},
                                             .owner = {"b", 2},
                                             .timeout = ks_span_ms(timeout_ms),
                                             .answered = answered};
    const ks_instant begun = ks_instant_now();

    told.times = 0;
    store->vtable->ask(store, &request);
    EXPECT_EQ_I64(told.times, 0);
    while (told.times == 0) {
        ks_loop_turn(loop, ks_span_ms(20));
        EXPECT(ks_instant_since(ks_instant_now(), begun).us < 10 * 1000000);
    }
}

static void ask(enum ks_store_operation operation)
{
    ask_within(operation, 3000);
}

/* A write that is answered so is UNKNOWN, and was sent once. */
static void is_unknown(struct http_step step, enum ks_err_code code)
{
    const struct http_step steps[] = {{.body = READY}, step};

    begin(steps, 2);
    ask(KS_STORE_HEARTBEAT);
    EXPECT_EQ_I64(told.outcome, KS_UNKNOWN);
    if (!ks_err_is(told.err, code))
        FAIL("%s: %s", ks_err_name(told.err), told.detail.text);
    EXPECT(told.detail.text[0] != '\0');
    EXPECT_EQ_U64(told.workers, 0);
    EXPECT_EQ_U64(http_script_count(script), 2);
    finish();
}

TEST(only_a_failed_condition_is_a_refusal)
{
    is_unknown((struct http_step){.status = 400, .body = ERROR("ValidationException")},
               KS_ERR_INVALID);
    is_unknown((struct http_step){.status = 500, .body = ERROR("InternalServerError")},
               KS_ERR_SERVER);
    is_unknown((struct http_step){.status = 503, .body = ""}, KS_ERR_SERVER);
    is_unknown((struct http_step){.cut = true}, KS_ERR_CONNECTION);
    is_unknown((struct http_step){.status = 400, .body = ERROR("AccessDeniedException")},
               KS_ERR_DENIED);
}

TEST(an_answer_that_cannot_be_read_is_told_with_its_request)
{
    static const struct http_step steps[] = {
        {.body = READY}, {.headers = "x-amzn-RequestId: R-7\r\n", .body = "<html>"}};
    int64_t before = ks_metric_number_labelled(KS_METRIC_AWS_FAILURES, "dynamodb,malformed");

    begin(steps, 2);
    ask(KS_STORE_READ_FLEET);
    EXPECT_EQ_I64(told.outcome, KS_UNKNOWN);
    EXPECT_STR(told.detail.text, "Query on dynamodb, 6 bytes: malformed bytes (request R-7)");
    EXPECT_EQ_I64(ks_metric_number_labelled(KS_METRIC_AWS_FAILURES, "dynamodb,malformed"),
                  before + 1);
    finish();
}

TEST(an_answer_that_cannot_be_read_is_unknown)
{
    is_unknown((struct http_step){.body = "{\"Attributes\":"}, KS_ERR_MALFORMED);
    is_unknown((struct http_step){.body = "{\"Attributes\":{\"p\":{\"S\":\"w\"}}}"},
               KS_ERR_MALFORMED);
}

TEST(row_that_was_not_asked_for_is_no_answer)
{
    static const struct http_step steps[] = {{.body = READY},
                                             {.body = "{\"Item\":" WORKER("b") "}"}};

    /* A write that answers another row. */
    is_unknown((struct http_step){.body = "{\"Attributes\":" WORKER("b") "}"}, KS_ERR_MALFORMED);
    begin(steps, 2);
    ask(KS_STORE_READ_WORKER);
    EXPECT_EQ_I64(told.outcome, KS_UNKNOWN);
    EXPECT(ks_err_is(told.err, KS_ERR_MALFORMED));
    EXPECT(strstr(told.detail.text, "a row that was not asked for") != NULL);
    EXPECT_EQ_U64(told.workers, 0);
    finish();
}

TEST(a_missing_permission_is_named_until_it_is_there)
{
    static const struct http_step steps[] = {
        {.body = READY},
        {.status = 400, .body = ERROR("AccessDeniedException")},
        {.body = "{\"Attributes\":" WORKER("a") "}"}};
    struct ks_detail detail;

    begin(steps, 3);
    ask(KS_STORE_HEARTBEAT);
    EXPECT_STR(told.detail.text, "access denied: allow dynamodb:UpdateItem on the table leases to "
                                 "this role (kinesis-sidecar iam-policy): m");
    EXPECT_EQ_I64(store->vtable->state(store, &detail), KS_STORE_UNUSABLE);
    EXPECT_STR(detail.text, told.detail.text);
    ask(KS_STORE_HEARTBEAT);
    EXPECT_EQ_I64(told.outcome, KS_DONE);
    EXPECT_EQ_U64(told.worker.beat, 5);
    EXPECT_EQ_I64(store->vtable->state(store, &detail), KS_STORE_READY);
    finish();
}

TEST(a_refusal_tells_the_row_where_the_server_does)
{
    static const struct http_step steps[] = {
        {.body = READY},
        {.status = 400,
         .body =
             "{\"__type\":\"x#ConditionalCheckFailedException\",\"message\":\"m\",\"Item\":" WORKER(
                 "a") "}"},
        {.status = 400, .body = ERROR("ConditionalCheckFailedException")},
        {.status = 400,
         .body = "{\"__type\":\"x#ConditionalCheckFailedException\",\"Item\":{\"k\":7}}"}};

    begin(steps, 4);
    ask(KS_STORE_HEARTBEAT);
    EXPECT_EQ_I64(told.outcome, KS_REFUSED);
    EXPECT_EQ_U64(told.workers, 1);
    EXPECT_EQ_U64(told.worker.beat, 5);
    ask(KS_STORE_HEARTBEAT);
    EXPECT_EQ_I64(told.outcome, KS_REFUSED);
    EXPECT_EQ_U64(told.workers, 0);
    ask(KS_STORE_HEARTBEAT);
    EXPECT_EQ_I64(told.outcome, KS_REFUSED);
    EXPECT_EQ_U64(told.workers, 0);
    finish();
}

TEST(a_read_is_all_pages_or_nothing)
{
    static const struct http_step whole[] = {
        {.body = READY},
        {.body = "{\"Items\":[" WORKER(
             "a") "],\"LastEvaluatedKey\":{\"p\":{\"S\":\"w\"},\"k\":{\"S\":\"a\"}}}"},
        {.body = "{\"Items\":[],\"LastEvaluatedKey\":{\"p\":{\"S\":\"w\"},\"k\":{\"S\":\"b\"}}}"},
        {.body = "{\"Items\":[" WORKER("c") "]}"}};
    static const struct http_step broken[] = {
        {.body = READY},
        {.body = "{\"Items\":[" WORKER(
             "a") "],\"LastEvaluatedKey\":{\"p\":{\"S\":\"w\"},\"k\":{\"S\":\"a\"}}}"},
        {.body = "{\"Items\":{}}"}};

    begin(whole, 4);
    ask(KS_STORE_READ_FLEET);
    EXPECT_EQ_I64(told.outcome, KS_DONE);
    EXPECT_EQ_U64(told.workers, 2);
    EXPECT_CONTAINS(http_script_request(script, 3),
                    "\"ExclusiveStartKey\":{\"p\":{\"S\":\"w\"},\"k\":{\"S\":\"b\"}}");
    finish();

    begin(broken, 3);
    ask(KS_STORE_READ_FLEET);
    EXPECT_EQ_I64(told.outcome, KS_UNKNOWN);
    EXPECT(ks_err_is(told.err, KS_ERR_MALFORMED));
    EXPECT_EQ_U64(told.workers, 0);
    finish();
}

#define PAGE(ms)                                                                                   \
    {                                                                                              \
        .wait_ms = ms,                                                                             \
        .body = "{\"Items\":[],\"LastEvaluatedKey\":{\"p\":{\"S\":\"w\"},\"k\":{\"S\":\"a\"}}}"    \
    }

/* But of the workers' rows all together have it: who is silent is judged by them. */
TEST(each_page_of_lease_rows_has_the_time_of_a_read)
{
    static const struct http_step steps[] = {
        {.body = READY}, PAGE(500), PAGE(500), PAGE(500),
        PAGE(500),       PAGE(500), PAGE(500), {.body = "{\"Items\":[]}"}};

    begin(steps, 8);
    ask_within(KS_STORE_READ_LEASES, 2500);
    EXPECT_EQ_I64(told.outcome, KS_DONE);
    EXPECT_EQ_U64(http_script_count(script), 8);
    finish();

    begin(steps, 7);
    ask_within(KS_STORE_READ_FLEET, 2500);
    EXPECT_EQ_I64(told.outcome, KS_UNKNOWN);
    EXPECT(ks_err_is(told.err, KS_ERR_TIMEOUT));
    finish();
}

/* However short a lease is: a page may be 1 MB. */
TEST(a_page_of_lease_rows_has_its_time)
{
    static const struct http_step steps[] = {
        {.body = READY}, PAGE(300), {.body = "{\"Items\":[]}"}};

    begin(steps, 3);
    ask_within(KS_STORE_READ_LEASES, 200);
    EXPECT_EQ_I64(told.outcome, KS_DONE);
    EXPECT_EQ_U64(http_script_count(script), 3);
    finish();
}

TEST(a_read_whose_pages_stop_is_over)
{
    static const struct http_step steps[] = {{.body = READY}, PAGE(0), {.silent = true}};

    begin(steps, 3);
    ask_within(KS_STORE_READ_FLEET, 400);
    EXPECT_EQ_I64(told.outcome, KS_UNKNOWN);
    EXPECT(ks_err_is(told.err, KS_ERR_TIMEOUT));
    finish();
}

#define KEY(k) "{\"p\":{\"S\":\"w\"},\"k\":{\"S\":\"" k "\"}}"
#define LEADER                                                                                     \
    "{\"p\":{\"S\":\"w\"},\"k\":{\"S\":\"#leader\"},\"epoch\":{\"N\":\"7\"},"                      \
    "\"deputies\":{\"SS\":[\"d\",\"c\"]}}"
#define BATCH(items, left)                                                                         \
    "{\"Responses\":{\"leases\":[" items "]},\"UnprocessedKeys\":{\"leases\":{\"Keys\":[" left     \
    "]}}}"

TEST(what_a_batch_leaves_out_is_asked_for_again)
{
    static const struct http_step steps[] = {
        {.body = READY},
        {.body = BATCH(WORKER("b"), KEY("#leader") "," KEY("a"))},
        {.body = BATCH(LEADER, KEY("a"))},
        {.body = "{\"Responses\":{\"leases\":[" WORKER("a") "]},\"UnprocessedKeys\":{}}"}};

    begin(steps, 4);
    ask(KS_STORE_READ_NEWS);
    EXPECT_EQ_I64(told.outcome, KS_DONE);
    EXPECT_EQ_U64(told.workers, 2);
    EXPECT_EQ_U64(told.leader.epoch, 7);
    EXPECT_STR(told.leader.deputies[0], "c");
    EXPECT_STR(told.leader.deputies[1], "d");
    EXPECT_CONTAINS(http_script_request(script, 1),
                    "\"Keys\":[" KEY("#leader") "," KEY("a") "," KEY("b") "]");
    EXPECT_CONTAINS(http_script_request(script, 2), "\"Keys\":[" KEY("#leader") "," KEY("a") "]");
    EXPECT_CONTAINS(http_script_request(script, 3), "\"Keys\":[" KEY("a") "]");
    EXPECT_EQ_U64(http_script_count(script), 4);
    finish();
}

/* The news are asked for once, and are unknown. */
static void has_no_news(const char *body, enum ks_err_code code)
{
    const struct http_step steps[] = {{.body = READY}, {.body = body}};

    begin(steps, 2);
    ask(KS_STORE_READ_NEWS);
    EXPECT_EQ_I64(told.outcome, KS_UNKNOWN);
    if (!ks_err_is(told.err, code))
        FAIL("%s: %s", ks_err_name(told.err), told.detail.text);
    EXPECT_EQ_U64(told.workers, 0);
    EXPECT_EQ_U64(http_script_count(script), 2);
    finish();
}

TEST(a_batch_that_gives_nothing_or_anything_is_unknown)
{
    has_no_news(BATCH("", KEY("a") "," KEY("#leader") "," KEY("b")), KS_ERR_THROTTLED);
    has_no_news(BATCH(WORKER("a"), KEY("other")), KS_ERR_MALFORMED);
    has_no_news("{\"Responses\":{}}", KS_ERR_MALFORMED);
    has_no_news("{\"Responses\":", KS_ERR_MALFORMED);
}

TEST(the_permission_for_the_news_is_one_of_its_own)
{
    static const struct http_step steps[] = {
        {.body = READY},
        {.status = 400, .body = ERROR("AccessDeniedException")},
        {.body = "{\"Items\":[]}"},
        {.body = "{\"Responses\":{\"leases\":[]}}"}};
    struct ks_detail detail;

    begin(steps, 4);
    ask(KS_STORE_READ_NEWS);
    EXPECT_STR(told.detail.text, "access denied: allow dynamodb:BatchGetItem on the table leases "
                                 "to this role (kinesis-sidecar iam-policy): m");
    ask(KS_STORE_READ_FLEET);
    EXPECT_EQ_I64(told.outcome, KS_DONE);
    EXPECT_EQ_I64(store->vtable->state(store, &detail), KS_STORE_UNUSABLE);
    ask(KS_STORE_READ_NEWS);
    EXPECT_EQ_I64(told.outcome, KS_DONE);
    EXPECT_EQ_U64(told.workers, 0);
    EXPECT(!told.leader.present);
    EXPECT_EQ_I64(store->vtable->state(store, &detail), KS_STORE_READY);
    finish();
}

TEST(a_read_is_repeated_whatever_happened)
{
    static const struct http_step steps[] = {
        {.body = READY}, {.status = 500, .body = ""}, {.body = "{\"Items\":[]}"}};

    begin(steps, 3);
    ask(KS_STORE_READ_FLEET);
    EXPECT_EQ_I64(told.outcome, KS_DONE);
    EXPECT_EQ_U64(http_script_count(script), 3);
    finish();
}

TEST(a_read_that_is_lost_has_time_for_another_one)
{
    static const struct http_step steps[] = {
        {.body = READY}, {.silent = true}, {.body = "{\"Items\":[]}"}};

    begin(steps, 3);
    ask(KS_STORE_READ_FLEET);
    EXPECT_EQ_I64(told.outcome, KS_DONE);
    EXPECT_EQ_U64(http_script_count(script), 3);
    finish();
}

/* Of what follows is_unknown shows the contrary: nothing else is sent again. */
TEST(a_write_that_was_refused_for_its_rate_is_repeated)
{
    static const struct http_step steps[] = {
        {.body = READY},
        {.status = 400, .body = ERROR("ProvisionedThroughputExceededException")},
        {.body = "{\"Attributes\":" WORKER("a") "}"}};

    begin(steps, 3);
    ask(KS_STORE_HEARTBEAT);
    EXPECT_EQ_I64(told.outcome, KS_DONE);
    EXPECT_EQ_U64(told.workers, 1);
    EXPECT_EQ_U64(http_script_count(script), 3);
    finish();

    begin(steps, 2);
    ask(KS_STORE_HEARTBEAT);
    EXPECT_EQ_I64(told.outcome, KS_UNKNOWN);
    EXPECT(ks_err_is(told.err, KS_ERR_THROTTLED));
    EXPECT(http_script_count(script) > 2);
    finish();
}

TEST(a_worker_looks_whose_table_it_is_before_its_first_write)
{
    static const struct http_step strange[] = {
        {.body = READY},
        {.body = "{\"Items\":[{\"p\":{\"S\":\"s\"},\"k\":{\"S\":\"shardId-0\"},"
                 "\"AssignedTo\":{\"S\":\"a\"},\"LeaseTimeout\":{\"S\":\"\"}}]}"}};
    static const struct http_step fine[] = {
        {.body = READY},
        {.body = "{\"Items\":[],\"LastEvaluatedKey\":{\"p\":{\"S\":\"s\"},\"k\":{\"S\":\"a\"}}}"},
        {.body = "{\"Items\":[]}"},
        {.body = "{}"},
        {.body = "{}"}};

    begin(strange, 2);
    ask(KS_STORE_REGISTER_NEW);
    EXPECT_EQ_I64(told.outcome, KS_UNKNOWN);
    EXPECT(ks_err_is(told.err, KS_ERR_FOREIGN));
    EXPECT_CONTAINS(told.detail.text, "the row shardId-0 is of --dialect go-kcl");
    EXPECT_EQ_U64(http_script_count(script), 2);
    finish();
    begin(fine, 5);
    ask(KS_STORE_REGISTER_NEW);
    EXPECT_EQ_I64(told.outcome, KS_DONE);
    EXPECT_CONTAINS(http_script_request(script, 2), "DynamoDB_20120810.Query");
    EXPECT_CONTAINS(http_script_request(script, 3), "DynamoDB_20120810.UpdateItem");
    ask(KS_STORE_REGISTER_NEW);
    EXPECT_EQ_I64(told.outcome, KS_DONE);
    EXPECT_EQ_U64(http_script_count(script), 5);
    finish();
}

/* What was asked as a look is answered as one, whatever other looks have found meanwhile. */
TEST(of_two_first_writes_each_is_written)
{
    /* The look of the second and the write of the first come in either order. */
    static const struct http_step steps[] = {{.body = READY},
                                             {.body = "{\"Items\":[]}"},
                                             {.body = "{\"Items\":[]}", .wait_ms = 200},
                                             {.body = "{\"Items\":[]}"},
                                             {.body = "{\"Items\":[]}"}};
    const struct ks_store_request request = {.operation = KS_STORE_REGISTER_NEW,
                                             .worker = {"a", 1},
                                             .timeout = ks_span_ms(3000),
                                             .answered = answered};
    const ks_instant begun = ks_instant_now();

    begin(steps, 5);
    told.times = 0;
    store->vtable->ask(store, &request);
    store->vtable->ask(store, &request);
    while (told.times < 2) {
        ks_loop_turn(loop, ks_span_ms(20));
        EXPECT(ks_instant_since(ks_instant_now(), begun).us < 10 * 1000000);
    }
    EXPECT_EQ_I64(told.outcome, KS_DONE);
    EXPECT_EQ_U64(http_script_count(script), 5);
    finish();
}
