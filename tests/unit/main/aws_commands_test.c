/* SPDX-License-Identifier: Apache-2.0 */
#include "main/aws_commands.h"

#include "adapters/dynamodb/wire.h"
#include "ks_test.h"
#include "unit/main/sidecar.h"

#include <stdlib.h>
#include <string.h>

static char output[65536];

static int run(sidecar_command *command, const char *const *words)
{
    EXPECT(setenv("AWS_CONFIG_FILE", "/nowhere", 1) == 0);
    EXPECT(setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere", 1) == 0);
    EXPECT(setenv("AWS_REGION", "eu-west-1", 1) == 0);
    EXPECT(setenv("AWS_ACCOUNT_ID", "111122223333", 1) == 0);
    return sidecar_call(command, words, "", output, sizeof(output));
}

TEST(the_policy_has_region_and_account_of_the_environment)
{
    const char *const words[] = {"--stream", "orders", "--application", "orders-app", NULL};

    EXPECT_EQ_I64(run(ks_command_iam_policy, words), 0);
    EXPECT_CONTAINS(output, "arn:aws:kinesis:eu-west-1:111122223333:stream/orders");
    EXPECT_CONTAINS(output, "arn:aws:dynamodb:eu-west-1:111122223333:table/orders-app");
}

TEST(a_key_that_is_none_is_refused)
{
    const char *const words[] = {"--stream",   "orders",           "--application",
                                 "orders-app", "--stream-kms-key", "alias/mine",
                                 NULL};

    EXPECT_EQ_I64(run(ks_command_iam_policy, words), 2);
}

TEST(a_word_is_refused)
{
    const char *const words[] = {"--stream", "orders", "--application", "orders-app", "more", NULL};

    EXPECT_EQ_I64(run(ks_command_iam_policy, words), 2);
    EXPECT_EQ_I64(run(ks_command_table_schema, words), 2);
}

TEST(a_schema_is_the_request_that_makes_the_table)
{
    const char *const words[] = {"--stream", "orders", "--application", "orders-app", NULL};
    struct ks_bytes body;

    ks_bytes_init(&body, 4096);
    EXPECT_OK(ks_dynamodb_put_create(&body, "orders-app", NULL));
    EXPECT_OK(ks_bytes_append(&body, KS_VIEW("\n")));
    EXPECT_OK(ks_bytes_append_byte(&body, '\0'));
    EXPECT_EQ_I64(run(ks_command_table_schema, words), 0);
    EXPECT_STR(output, (const char *)body.data);
    ks_bytes_free(&body);
}

TEST(nothing_is_printed_for_what_is_not_in_aws)
{
    const char *const words[] = {"--stream",   "orders", "--application", "orders-app", "--source",
                                 "local:x.db", NULL};

    EXPECT_EQ_I64(run(ks_command_iam_policy, words), 1);
    EXPECT_EQ_I64(run(ks_command_table_schema, words), 1);
}
