/* SPDX-License-Identifier: Apache-2.0 */
/* Failures that no emulator gives; what works is in tests/contract. */
#include "adapters/dynamodb/letters.h"

#include "base/budget.h"
#include "ks_test.h"

#include "aws_rig.h"
#include "http_script.h"

#define READY                                                                                      \
    "{\"Table\":{\"AttributeDefinitions\":[{\"AttributeName\":\"p\",\"AttributeType\":\"S\"},"     \
    "{\"AttributeName\":\"k\",\"AttributeType\":\"S\"}],\"KeySchema\":["                           \
    "{\"AttributeName\":\"p\",\"KeyType\":\"HASH\"},{\"AttributeName\":\"k\","                     \
    "\"KeyType\":\"RANGE\"}],\"TableStatus\":\"ACTIVE\"}}"
#define ERROR(code) "{\"__type\":\"com.amazonaws.dynamodb.v20120810#" code "\",\"message\":\"m\"}"
#define TTL                                                                                        \
    "{\"TimeToLiveDescription\":{\"TimeToLiveStatus\":\"ENABLED\",\"AttributeName\":\"expires\"}}"

static struct ks_loop *loop;
static struct aws_rig aws;
static struct ks_dead_letters *store;
static struct http_script *script;

static struct {
    uint32_t times;
    enum ks_outcome outcome;
    uint32_t count;
    struct ks_detail detail;
} told;

static void answered(void *arg, const struct ks_letters_answer *answer)
{
    (void)arg;
    told.times++;
    told.outcome = answer->outcome;
    told.count = answer->count;
    told.detail = answer->detail;
}

static void begin(const struct http_step *steps, size_t count)
{
    const struct aws_rig_options once = {.attempts_max = 1};
    struct ks_detail detail = {""};

    script = http_script_start(steps, count);
    EXPECT_OK(ks_loop_new(&loop));
    aws_rig_open_with(&aws, loop, KS_AWS_DYNAMODB, http_script_url(script), &once);
    EXPECT_OK(ks_dynamodb_letters_open(loop, aws.client, "leases", NULL, &store, &detail));
    told.times = 0;
}

static void finish(void)
{
    store->vtable->close(store);
    aws_rig_close(&aws);
    ks_loop_free(loop);
    http_script_stop(script);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

static void await(uint32_t times)
{
    const ks_instant begun = ks_instant_now();

    while (told.times < times) {
        ks_loop_turn(loop, ks_span_ms(20));
        EXPECT(ks_instant_since(ks_instant_now(), begun).us < 30 * 1000000);
    }
    EXPECT_EQ_U64(told.times, times);
}

#define FIRST KS_VIEW("s.1.0")

static struct ks_letter letter(ks_view id)
{
    return (struct ks_letter){
        .id = id, .stream = KS_VIEW("demo"), .shard_id = KS_VIEW("s"), .sub_sequence = -1};
}

static void ask_write(void)
{
    const struct ks_letter letters[] = {letter(FIRST), letter(KS_VIEW("s.2.0"))};

    store->vtable->write(store, letters, 2, answered, NULL);
}

static void write_both(void)
{
    const uint32_t before = told.times;

    ask_write();
    EXPECT_EQ_U64(told.times, before); /* Never inside the call. */
    await(before + 1);
}

/* The order of what is sent: DescribeTable, DescribeTimeToLive beside the note of the directory, then the letters. */

TEST(letters_are_done_when_all_of_them_are)
{
    static const struct http_step steps[] = {
        {.body = READY}, {.body = TTL}, {.body = "{}"}, {.body = "{}"}, {.body = "{}"}};

    begin(steps, 5);
    write_both();
    EXPECT_EQ_I64(told.outcome, KS_DONE);
    EXPECT_EQ_U64(told.count, 2);
    EXPECT_EQ_U64(http_script_count(script), 5);
    /* The directory has the shard now. */
    write_both();
    EXPECT_EQ_I64(told.outcome, KS_DONE);
    EXPECT_EQ_U64(http_script_count(script), 7);
    finish();
}

static void write_until(int64_t expires_ms)
{
    const uint32_t before = told.times;
    struct ks_letter one = letter(FIRST);

    one.expires_ms = expires_ms;
    store->vtable->write(store, &one, 1, answered, NULL);
    await(before + 1);
    EXPECT_EQ_I64(told.outcome, KS_DONE);
}

TEST(the_directory_is_told_once_a_day_at_most)
{
    static const struct http_step steps[] = {{.body = READY}, {.body = TTL}, {.body = "{}"}};
    const int64_t day_ms = 86400000;

    begin(steps, 3);
    write_until(10 * day_ms);
    EXPECT_EQ_U64(http_script_count(script), 4);
    EXPECT_CONTAINS(http_script_request(script, 2), "\":expires\":{\"N\":\"950400\"}");
    write_until(11 * day_ms);
    EXPECT_EQ_U64(http_script_count(script), 5);
    write_until(11 * day_ms + 1000);
    EXPECT_EQ_U64(http_script_count(script), 7);
    finish();
}

TEST(a_later_letter_that_is_there_is_as_good)
{
    static const struct http_step steps[] = {
        {.body = READY},
        {.body = TTL},
        {.status = 400, .body = ERROR("ConditionalCheckFailedException")}};

    begin(steps, 3);
    write_both();
    EXPECT_EQ_I64(told.outcome, KS_DONE);
    finish();
}

TEST(of_one_that_failed_all_are_unknown)
{
    static const struct http_step steps[] = {{.body = READY},
                                             {.body = TTL},
                                             {.body = "{}"},
                                             {.status = 500, .body = ERROR("InternalServerError")},
                                             {.body = "{}"}};

    begin(steps, 5);
    write_both();
    EXPECT_EQ_I64(told.outcome, KS_UNKNOWN);
    EXPECT_EQ_U64(told.count, 0);
    EXPECT_CONTAINS(told.detail.text, "InternalServerError");
    finish();
}

TEST(no_letter_is_sent_before_the_directory_has_its_shard)
{
    static const struct http_step steps[] = {
        {.body = READY}, {.body = TTL}, {.status = 400, .body = ERROR("AccessDeniedException")}};

    begin(steps, 3);
    write_both();
    EXPECT_EQ_I64(told.outcome, KS_UNKNOWN);
    EXPECT_CONTAINS(told.detail.text, "allow dynamodb:UpdateItem on the table leases");
    EXPECT_EQ_U64(http_script_count(script), 3);
    EXPECT_CONTAINS(http_script_request(script, 2),
                    "{\"p\":{\"S\":\"letters\"},\"k\":{\"S\":\"s\"}}");
    finish();
}

TEST(the_first_letter_makes_the_table_and_no_list_does)
{
    static const struct http_step steps[] = {
        {.status = 400, .body = ERROR("ResourceNotFoundException")}, /* Optional. */
        {.status = 400, .body = ERROR("ResourceNotFoundException")},
        {.body = "{\"TableDescription\":{}}"},
        {.body = READY},
        {.body = TTL},
        {.body = "{}"}};

    begin(steps, 6);
    store->vtable->list(store, KS_VIEW(""), 10, answered, NULL);
    await(1);
    EXPECT_EQ_I64(told.outcome, KS_DONE);
    EXPECT_EQ_U64(told.count, 0);
    store->vtable->remove(store, FIRST, KS_VIEW(""), answered, NULL);
    await(2);
    EXPECT_EQ_I64(told.outcome, KS_REFUSED);
    EXPECT_EQ_U64(http_script_count(script), 1);
    write_both();
    EXPECT_EQ_I64(told.outcome, KS_DONE);
    EXPECT_CONTAINS(http_script_request(script, 2), "CreateTable");
    finish();
}

TEST(a_table_that_cannot_be_used_refuses_a_write_and_says_why)
{
    static const struct http_step steps[] = {
        {.status = 400, .body = ERROR("AccessDeniedException")}};

    begin(steps, 1);
    write_both();
    EXPECT_EQ_I64(told.outcome, KS_REFUSED);
    EXPECT_CONTAINS(told.detail.text, "allow dynamodb:DescribeTable");
    store->vtable->find(store, FIRST, answered, NULL);
    await(2);
    EXPECT_EQ_I64(told.outcome, KS_UNKNOWN);
    finish();
}

TEST(what_is_no_answer_is_unknown)
{
    static const char *const bodies[] = {"", "[]", "{\"Items\":[{\"k\":{\"S\":\"\"}}]}",
                                         "{\"Items\":[{\"k\":{\"N\":\"1\"}}]}", "{\"Items\":"};

    for (size_t at = 0; at < sizeof bodies / sizeof bodies[0]; at++) {
        const struct http_step steps[] = {{.body = READY}, {.body = bodies[at]}};

        begin(steps, 2);
        store->vtable->list(store, KS_VIEW(""), 10, answered, NULL);
        await(1);
        if (told.outcome != KS_UNKNOWN && at != 1)
            FAIL("%s is an answer", bodies[at]);
        finish();
    }
}

TEST(a_directory_that_goes_backward_ends_the_list)
{
    static const struct http_step steps[] = {{.body = READY},
                                             {.body = "{\"Items\":[{\"k\":{\"S\":\"t\"}}]}"},
                                             {.body = "{\"Items\":[]}"},
                                             {.body = "{\"Items\":[{\"k\":{\"S\":\"s\"}}]}"}};

    begin(steps, 4);
    store->vtable->list(store, KS_VIEW(""), 10, answered, NULL);
    await(1);
    EXPECT_EQ_I64(told.outcome, KS_UNKNOWN);
    EXPECT_CONTAINS(told.detail.text, "directory");
    finish();
}

TEST(an_empty_page_with_a_key_to_go_on_from_does_not_go_on_for_ever)
{
    static const struct http_step steps[] = {
        {.body = READY},
        {.body = "{\"Items\":[{\"k\":{\"S\":\"t\"}}]}"},
        {.body = "{\"Items\":[],\"LastEvaluatedKey\":{\"p\":{\"S\":\"x\"},\"k\":{\"S\":\"1.0\"}}}"},
        {.body = "{\"Items\":[]}"}};

    begin(steps, 4);
    store->vtable->list(store, KS_VIEW(""), 10, answered, NULL);
    await(1);
    EXPECT_EQ_I64(told.outcome, KS_DONE);
    EXPECT_EQ_U64(http_script_count(script), 4);
    finish();
}

TEST(a_store_is_closed_with_everything_under_way)
{
    static const struct http_step steps[] = {{.body = READY}, {.silent = true}};

    begin(steps, 2);
    ask_write();
    store->vtable->list(store, KS_VIEW(""), 10, answered, NULL);
    for (int turn = 0; turn < 20; turn++)
        ks_loop_turn(loop, ks_span_ms(5));
    store->vtable->find(store, FIRST, answered, NULL);
    finish();
    EXPECT_EQ_U64(told.times, 0);
}

TEST(without_memory_a_call_is_answered_at_once)
{
    static const struct http_step steps[] = {{.body = READY}, {.body = TTL}, {.body = "{}"}};

    begin(steps, 3);
    write_both();
    for (uint64_t n = 1; n < 4; n++) {
        const uint32_t before = told.times;

        ks_alloc_fail_after(n, 0);
        ask_write();
        ks_alloc_fail_after(0, 0);
        await(before + 1);
        EXPECT(told.outcome != KS_DONE);
    }
    finish();
}
