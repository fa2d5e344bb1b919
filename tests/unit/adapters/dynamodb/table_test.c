/* SPDX-License-Identifier: Apache-2.0 */
/* Answers about a table that no emulator gives. The others are in tests/contract. */
#include "adapters/dynamodb/table.h"

#include "base/budget.h"
#include "ks_test.h"

#include "aws_rig.h"
#include "http_script.h"

#include <stdlib.h>

#define OURS                                                                                       \
    "\"AttributeDefinitions\":[{\"AttributeName\":\"p\",\"AttributeType\":\"S\"},"                 \
    "{\"AttributeName\":\"k\",\"AttributeType\":\"S\"}],\"KeySchema\":["                           \
    "{\"AttributeName\":\"p\",\"KeyType\":\"HASH\"},{\"AttributeName\":\"k\","                     \
    "\"KeyType\":\"RANGE\"}]"
#define STATUS(status) "{\"Table\":{" OURS ",\"TableStatus\":\"" status "\"}}"
#define ERROR(code) "{\"__type\":\"com.amazonaws.dynamodb.v20120810#" code "\",\"message\":\"m\"}"

static struct ks_loop *loop;
static struct aws_rig aws;
static struct ks_dynamodb_table table;
static struct http_script *script;

static void begin_one(const struct http_step *steps, size_t count, bool optional,
                      const char *beside)
{
    struct ks_detail detail = {""};

    script = http_script_start(steps, count);
    EXPECT_OK(ks_loop_new(&loop));
    aws_rig_open(&aws, loop, KS_AWS_DYNAMODB, http_script_url(script));
    EXPECT_OK(ks_dynamodb_table_open(&table, loop, aws.client, "lease table", "leases", NULL,
                                     optional, beside, "owners", &detail));
}

static void begin(const struct http_step *steps, size_t count)
{
    begin_one(steps, count, false, NULL);
}

static void finish(void)
{
    ks_dynamodb_table_close(&table);
    aws_rig_close(&aws);
    ks_loop_free(loop);
    http_script_stop(script);
}

/* Turns the loop until the table has this state. */
static void becomes(enum ks_store_state state)
{
    const ks_instant begun = ks_instant_now();

    while (table.state != state) {
        ks_loop_turn(loop, ks_span_ms(20));
        EXPECT(ks_instant_since(ks_instant_now(), begun).us < 10 * 1000000);
    }
}

TEST(a_table_in_the_making_is_waited_for)
{
    static const struct http_step steps[] = {
        {.status = 400, .body = ERROR("ResourceNotFoundException")},
        {.body = "{\"TableDescription\":{}}"},
        {.body = STATUS("CREATING")},
        {.body = STATUS("ACTIVE")}};

    begin(steps, 4);
    becomes(KS_STORE_READY);
    EXPECT_EQ_U64(http_script_count(script), 4);
    EXPECT_CONTAINS(http_script_request(script, 1), "DynamoDB_20120810.CreateTable");
    EXPECT_CONTAINS(http_script_request(script, 3), "DynamoDB_20120810.DescribeTable");
    finish();
}

static bool may_make_the_third_time(void *arg, struct ks_detail *detail)
{
    uint32_t *const times = arg;

    ks_detail_set(detail, "no such stream");
    return ++*times == 3;
}

TEST(a_table_is_made_when_it_may_be_and_until_then_says_what_is_waited_for)
{
    static const struct http_step steps[] = {
        {.status = 400, .body = ERROR("ResourceNotFoundException")},
        {.status = 400, .body = ERROR("ResourceNotFoundException")},
        {.status = 400, .body = ERROR("ResourceNotFoundException")},
        {.body = "{\"TableDescription\":{}}"},
        {.body = STATUS("ACTIVE")}};
    uint32_t times = 0;

    begin(steps, 5);
    table.may_make = may_make_the_third_time;
    table.may_make_arg = &times;
    while (times == 0)
        ks_loop_turn(loop, ks_span_ms(20));
    EXPECT_STR(table.detail.text,
               "the table leases is not there, and is made later: no such stream");
    becomes(KS_STORE_READY);
    EXPECT_EQ_U64(times, 3);
    EXPECT_CONTAINS(http_script_request(script, 3), "DynamoDB_20120810.CreateTable");
    finish();
}

TEST(an_optional_table_is_not_made)
{
    static const struct http_step missing[] = {
        {.status = 400, .body = ERROR("ResourceNotFoundException")}};
    static const struct http_step there[] = {
        {.body = STATUS("ACTIVE")}, {.status = 400, .body = ERROR("ResourceNotFoundException")}};

    begin_one(missing, 1, true, NULL);
    becomes(KS_STORE_READY);
    EXPECT(table.absent);
    ks_dynamodb_table_gone(&table); /* A late answer to a request that was sent before. */
    EXPECT_EQ_I64(table.state, KS_STORE_READY);
    EXPECT_EQ_U64(http_script_count(script), 1);
    finish();

    begin_one(there, 2, true, NULL);
    becomes(KS_STORE_READY);
    EXPECT(!table.absent);
    ks_dynamodb_table_gone(&table);
    EXPECT_EQ_I64(table.state, KS_STORE_OPENING);
    becomes(KS_STORE_READY);
    EXPECT(table.absent);
    finish();
}

TEST(who_loses_the_race_to_make_it_waits_for_the_winner)
{
    static const struct http_step steps[] = {
        {.status = 400, .body = ERROR("ResourceNotFoundException")},
        {.status = 400, .body = ERROR("ResourceInUseException")},
        {.body = STATUS("ACTIVE")}};

    begin(steps, 3);
    becomes(KS_STORE_READY);
    finish();
}

TEST(a_missing_permission_is_named)
{
    static const struct http_step describe[] = {
        {.status = 400, .body = ERROR("AccessDeniedException")}};
    static const struct http_step create[] = {
        {.status = 400, .body = ERROR("ResourceNotFoundException")},
        {.status = 400, .body = ERROR("AccessDeniedException")}};

    begin(describe, 1);
    becomes(KS_STORE_UNUSABLE);
    EXPECT(ks_err_is(table.err, KS_ERR_DENIED));
    EXPECT_STR(table.detail.text, "access denied: allow dynamodb:DescribeTable on the table leases "
                                  "to this role (kinesis-sidecar iam-policy): m");
    finish();
    begin(create, 2);
    becomes(KS_STORE_UNUSABLE);
    EXPECT_CONTAINS(table.detail.text, "dynamodb:CreateTable");
    finish();
}

TEST(an_optional_table_that_is_denied_is_not_there_as_long_as_another_has_no_index)
{
    static const struct http_step plain[] = {
        {.status = 400, .body = ERROR("AccessDeniedException")},
        {.body = STATUS("ACTIVE")},
        {.status = 400, .body = ERROR("AccessDeniedException")},
        {.body = "{\"Table\":{\"GlobalSecondaryIndexes\":[{\"IndexName\":\"owners\"}]}}"},
        {.body = STATUS("ACTIVE")}};
    static const struct http_step unmade[] = {
        {.status = 400, .body = ERROR("AccessDeniedException")},
        {.status = 400, .body = ERROR("ResourceNotFoundException")}};
    static const struct http_step failing[] = {
        {.status = 400, .body = ERROR("AccessDeniedException")}, {.status = 500, .body = ""}};

    begin_one(plain, 5, true, "beside");
    becomes(KS_STORE_READY);
    EXPECT(table.absent);
    EXPECT_CONTAINS(http_script_request(script, 1), "\"beside\"");
    ks_loop_timer_set(loop, &table.timer, ks_loop_now(loop)); /* Half a minute later. */
    becomes(KS_STORE_UNUSABLE);
    EXPECT(ks_err_is(table.err, KS_ERR_DENIED));
    EXPECT_CONTAINS(table.detail.text, "allow dynamodb:DescribeTable on the table leases");
    ks_loop_timer_set(loop, &table.timer, ks_loop_now(loop)); /* It is allowed. */
    becomes(KS_STORE_READY);
    EXPECT(!table.absent);
    finish();

    begin_one(unmade, 2, true, "beside");
    becomes(KS_STORE_READY);
    EXPECT(table.absent);
    finish();

    begin_one(failing, 2, true, "beside"); /* Nobody knows. */
    becomes(KS_STORE_AWAY);
    finish();

    begin_one(plain, 1, true, NULL);
    becomes(KS_STORE_UNUSABLE);
    finish();
}

TEST(a_server_that_fails_is_asked_again)
{
    static const struct http_step steps[] = {{.status = 500, .body = ""},
                                             {.body = STATUS("ACTIVE")}};

    begin(steps, 2);
    becomes(KS_STORE_AWAY);
    EXPECT(table.detail.text[0] != '\0');
    becomes(KS_STORE_READY);
    EXPECT_STR(table.detail.text, "");
    finish();
}

TEST(a_table_that_is_not_active_is_not_used)
{
    static const struct http_step archived[] = {{.body = STATUS("ARCHIVED")}};
    static const struct http_step nonsense[] = {{.body = "{\"Table\":7}"}};
    static const struct http_step no_json[] = {{.body = "<html>"}};

    begin(archived, 1);
    becomes(KS_STORE_UNUSABLE);
    EXPECT_CONTAINS(table.detail.text, "ARCHIVED");
    finish();
    begin(nonsense, 1);
    becomes(KS_STORE_UNUSABLE);
    EXPECT(ks_err_is(table.err, KS_ERR_MALFORMED));
    finish();
    begin(no_json, 1);
    becomes(KS_STORE_UNUSABLE);
    finish();
}
