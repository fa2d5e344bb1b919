/* SPDX-License-Identifier: Apache-2.0 */
#include "main/permissions.h"

#include "docs.h"
#include "ks_test.h"

#include <stdio.h>
#include <string.h>

static struct ks_options options = {.stream = "orders",
                                    .application = "app",
                                    .dialect = "native",
                                    .source = "kinesis",
                                    .leases = "dynamodb",
                                    .retrieval = "polling",
                                    .dead_letters = "table"};
static struct ks_permissions_query query = {
    .options = &options, .region = "eu-west-1", .account = "111122223333"};
static struct ks_detail detail;
static char text[16384];

static const char *policy(void)
{
    struct ks_bytes bytes;

    ks_bytes_init(&bytes, sizeof(text) - 1);
    EXPECT_OK(ks_permissions_policy(&bytes, &query, &detail));
    (void)snprintf(text, sizeof(text), "%.*s", (int)bytes.size, (const char *)bytes.data);
    ks_bytes_free(&bytes);
    return text;
}

static bool has(const char *part)
{
    return strstr(policy(), part) != NULL;
}

TEST(a_policy_is_json_with_a_line_for_each_statement)
{
    memcpy(options.leases, "sqlite:x", sizeof("sqlite:x"));
    options.dead_letters[0] = '\0';
    EXPECT_STR(policy(),
               "{\"Version\":\"2012-10-17\",\"Statement\":[\n"
               "{\"Sid\":\"ReadStream\",\"Effect\":\"Allow\",\"Action\":[\"kinesis:"
               "DescribeStreamSummary\","
               "\"kinesis:ListShards\",\"kinesis:GetShardIterator\",\"kinesis:GetRecords\"],"
               "\"Resource\":[\"arn:aws:kinesis:eu-west-1:111122223333:stream/orders\"]}\n]}\n");
}

TEST(rights_to_make_things_are_left_out_of_what_exists)
{
    memcpy(options.retrieval, "fanout", sizeof("fanout"));
    EXPECT(has("CreateTable") && has("UpdateTimeToLive") && has("RegisterStreamConsumer"));
    query.existing = true;
    EXPECT(!has("CreateTable") && !has("UpdateTimeToLive") && !has("RegisterStreamConsumer"));
    EXPECT(has("SubscribeToShard") && has("DescribeTimeToLive"));
}

TEST(a_consumer_by_its_arn_is_not_registered)
{
    memcpy(options.retrieval, "fanout", sizeof("fanout"));
    (void)snprintf(options.consumer, sizeof(options.consumer),
                   "arn:aws:kinesis:eu-west-1:111122223333:stream/orders/consumer/c:1");
    EXPECT(!has("RegisterStreamConsumer") && has("/consumer/c:1\""));
}

TEST(each_role_has_the_calls_that_it_makes)
{
    (void)snprintf(options.kinesis_role_arn, sizeof(options.kinesis_role_arn),
                   "arn:aws:iam::1:role/r");
    EXPECT(!has("kinesis:GetRecords") && has("dynamodb:GetItem") && has("sts:AssumeRole"));
    query.role = "arn:aws:iam::1:role/r";
    EXPECT(has("kinesis:GetRecords") && !has("dynamodb:") && !has("sts:"));
}

TEST(a_role_that_nobody_names_is_refused)
{
    struct ks_bytes bytes;

    query.role = "arn:aws:iam::1:role/other";
    ks_bytes_init(&bytes, 1000);
    EXPECT_ERR(ks_permissions_policy(&bytes, &query, &detail), INVALID);
    EXPECT_CONTAINS(detail.text, "--role must be");
    ks_bytes_free(&bytes);
}

TEST(options_that_need_nothing_have_no_policy)
{
    struct ks_bytes bytes;

    memcpy(options.source, "local:x", sizeof("local:x"));
    memcpy(options.leases, "sqlite:x", sizeof("sqlite:x"));
    options.dead_letters[0] = '\0';
    ks_bytes_init(&bytes, 1000);
    EXPECT_ERR(ks_permissions_policy(&bytes, &query, &detail), NOT_FOUND);
    ks_bytes_free(&bytes);
}

TEST(several_subscriptions_share_a_statement)
{
    static struct ks_options listed[2];

    listed[0] = listed[1] = options;
    memcpy(listed[1].stream, "clicks", sizeof("clicks"));
    options.listed = listed;
    options.listed_count = 2;
    EXPECT(has("\"Resource\":[\"arn:aws:kinesis:eu-west-1:111122223333:stream/orders\","
               "\"arn:aws:kinesis:eu-west-1:111122223333:stream/clicks\"]"));
    EXPECT(has("\"Resource\":[\"arn:aws:dynamodb:eu-west-1:111122223333:table/app\"]"));
}

TEST(keys_are_named_where_something_is_encrypted)
{
    static const char *const destinations[] = {
        "s3://bucket/p", "sqs:https://sqs.eu-west-1.amazonaws.com/111122223333/q",
        "sns:arn:aws:sns:eu-west-1:111122223333:t", "kinesis:other"};

    for (size_t at = 0; at < sizeof(destinations) / sizeof(destinations[0]); at++) {
        (void)snprintf(options.dead_letters, sizeof(options.dead_letters), "%s", destinations[at]);
        query.stream_key = query.letters_key = NULL;
        EXPECT(!has("kms:"));
        query.stream_key = "arn:aws:kms:eu-west-1:111122223333:key/a";
        query.letters_key = "arn:aws:kms:eu-west-1:111122223333:key/b";
        EXPECT(has("\"Sid\":\"DecryptStream\"") && has("kms:GenerateDataKey"));
    }
}

TEST(docs_and_module_have_the_table_of_the_code)
{
    docs_expect_table("docs/AWS.md", ks_permissions_markdown);
    docs_expect_table("deploy/terraform/permissions.json", ks_permissions_json);
}
