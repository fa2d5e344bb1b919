/* SPDX-License-Identifier: Apache-2.0 */
#include "main/aws_arns.h"

#include "ks_test.h"

#include <stdio.h>
#include <string.h>

static struct ks_options options = {
    .stream = "orders", .application = "app", .dialect = "kcl", .leases = "dynamodb"};
static struct ks_aws_subject subject = {
    .options = &options, .region = "eu-west-1", .account = "111122223333"};
static struct ks_detail detail;
static char text[8192];

/* What is added for one resource, without the last line feed. */
static const char *arns(enum ks_aws_resource resource)
{
    struct ks_bytes lines;

    ks_bytes_init(&lines, sizeof(text) - 1);
    EXPECT_OK(ks_aws_arns_add(&lines, resource, &subject, &detail));
    EXPECT(lines.size > 0);
    (void)snprintf(text, sizeof(text), "%.*s", (int)lines.size - 1, (const char *)lines.data);
    ks_bytes_free(&lines);
    return text;
}

static void letters(const char *to)
{
    (void)snprintf(options.dead_letters, sizeof(options.dead_letters), "%s", to);
}

TEST(names_get_region_and_account)
{
    EXPECT_STR(arns(KS_AWS_RESOURCE_STREAM),
               "arn:aws:kinesis:eu-west-1:111122223333:stream/orders");
    EXPECT_STR(arns(KS_AWS_RESOURCE_CONSUMER),
               "arn:aws:kinesis:eu-west-1:111122223333:stream/orders/consumer/*");
    EXPECT_STR(arns(KS_AWS_RESOURCE_LEASES), "arn:aws:dynamodb:eu-west-1:111122223333:table/app");
    EXPECT_STR(arns(KS_AWS_RESOURCE_INDEX),
               "arn:aws:dynamodb:eu-west-1:111122223333:table/app/index/LeaseOwnerToLeaseKeyIndex");
    EXPECT_STR(arns(KS_AWS_RESOURCE_SECOND),
               "arn:aws:dynamodb:eu-west-1:111122223333:table/app-CoordinatorState");
    EXPECT_STR(arns(KS_AWS_RESOURCE_LETTERS),
               "arn:aws:dynamodb:eu-west-1:111122223333:table/app-letters");
}

TEST(what_nobody_says_has_a_placeholder)
{
    subject.region = subject.account = "";
    EXPECT_STR(arns(KS_AWS_RESOURCE_LEASES), "arn:aws:dynamodb:REGION:ACCOUNT:table/app");
    (void)snprintf(options.stream, sizeof(options.stream),
                   "arn:aws-cn:kinesis:cn-north-1:444455556666:stream/orders");
    EXPECT_STR(arns(KS_AWS_RESOURCE_STREAM), options.stream);
    EXPECT_STR(arns(KS_AWS_RESOURCE_LEASES), "arn:aws-cn:dynamodb:REGION:ACCOUNT:table/app");
}

TEST(only_tables_that_we_make_are_made)
{
    letters("table");
    EXPECT_STR(arns(KS_AWS_RESOURCE_TABLES),
               "arn:aws:dynamodb:eu-west-1:111122223333:table/app\n"
               "arn:aws:dynamodb:eu-west-1:111122223333:table/app-letters");
}

TEST(a_line_is_added_once)
{
    struct ks_bytes lines;

    ks_bytes_init(&lines, 1000);
    EXPECT_OK(ks_aws_arns_add(&lines, KS_AWS_RESOURCE_STREAM, &subject, &detail));
    const size_t size = lines.size;
    EXPECT_OK(ks_aws_arns_add(&lines, KS_AWS_RESOURCE_STREAM, &subject, &detail));
    EXPECT_EQ_U64(lines.size, size);
    ks_bytes_free(&lines);
    ks_bytes_init(&lines, 10);
    EXPECT_ERR(ks_aws_arns_add(&lines, KS_AWS_RESOURCE_STREAM, &subject, &detail), FULL);
    ks_bytes_free(&lines);
}

TEST(dead_letters_are_named_where_they_are)
{
    letters("sqs:https://sqs.us-east-1.amazonaws.com/444455556666/letters");
    EXPECT_STR(arns(KS_AWS_RESOURCE_SINK), "arn:aws:sqs:us-east-1:444455556666:letters");
    letters("sqs:http://localhost:9324/queue/letters");
    EXPECT_STR(arns(KS_AWS_RESOURCE_SINK), "arn:aws:sqs:eu-west-1:111122223333:letters");
    letters("sns:arn:aws:sns:us-east-1:444455556666:letters");
    EXPECT_STR(arns(KS_AWS_RESOURCE_SINK), "arn:aws:sns:us-east-1:444455556666:letters");
    letters("kinesis:letters");
    EXPECT_STR(arns(KS_AWS_RESOURCE_SINK), "arn:aws:kinesis:eu-west-1:111122223333:stream/letters");
    letters("s3://bucket/some/prefix");
    EXPECT_STR(arns(KS_AWS_RESOURCE_OBJECTS), "arn:aws:s3:::bucket/some/prefix/*");
    EXPECT_STR(arns(KS_AWS_RESOURCE_BUCKET), "arn:aws:s3:::bucket");
    letters("s3://bucket");
    EXPECT_STR(arns(KS_AWS_RESOURCE_OBJECTS), "arn:aws:s3:::bucket/*");
    EXPECT(!ks_aws_arns_has_letters_key(&subject));
}

TEST(a_key_is_named_by_its_own_arn)
{
    static const char key[] = "arn:aws:kms:eu-west-1:111122223333:key/1234";
    struct ks_bytes lines;

    letters("s3://bucket/p?kms-key=1234");
    EXPECT(ks_aws_arns_has_letters_key(&subject));
    EXPECT_STR(arns(KS_AWS_RESOURCE_LETTERS_KEY), key);
    letters("s3://bucket/p?kms-key=arn:aws:kms:eu-west-1:111122223333:key/1234");
    EXPECT_STR(arns(KS_AWS_RESOURCE_LETTERS_KEY), key);
    letters("s3://bucket/p?kms-key=alias/mine");
    ks_bytes_init(&lines, 1000);
    EXPECT_ERR(ks_aws_arns_add(&lines, KS_AWS_RESOURCE_LETTERS_KEY, &subject, &detail), INVALID);
    EXPECT_CONTAINS(detail.text, "--dead-letters-kms-key");
    ks_bytes_free(&lines);
    subject.letters_key = key;
    EXPECT_STR(arns(KS_AWS_RESOURCE_LETTERS_KEY), key);
    subject.stream_key = key;
    EXPECT_STR(arns(KS_AWS_RESOURCE_STREAM_KEY), key);
}

TEST(roles_are_those_of_the_options)
{
    (void)snprintf(options.kinesis_role_arn, sizeof(options.kinesis_role_arn),
                   "arn:aws:iam::1:role/r");
    (void)snprintf(options.dynamodb_role_arn, sizeof(options.dynamodb_role_arn),
                   "arn:aws:iam::1:role/t");
    EXPECT_STR(arns(KS_AWS_RESOURCE_ROLES), "arn:aws:iam::1:role/r\narn:aws:iam::1:role/t");
}
