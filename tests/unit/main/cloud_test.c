/* SPDX-License-Identifier: Apache-2.0 */
#include "main/cloud.h"

#include "base/budget.h"
#include "ks_test.h"

#include <stdio.h>
#include <stdlib.h>

static void set_environment(void)
{
    char none[300];

    (void)snprintf(none, sizeof none, "%s/none", ks_test_dir());
    EXPECT(setenv("AWS_CONFIG_FILE", none, 1) == 0);
    EXPECT(setenv("AWS_REGION", "eu-central-1", 1) == 0);
    EXPECT(unsetenv("AWS_ENDPOINT_URL") == 0);
    EXPECT(unsetenv("AWS_ENDPOINT_URL_DYNAMODB") == 0);
}

TEST(both_clients_share_what_they_need)
{
    struct ks_cloud cloud = {.loop = NULL};
    struct ks_aws_client *kinesis = NULL;
    struct ks_aws_client *dynamodb = NULL;
    struct ks_detail detail = {""};
    int64_t live = ks_alloc_live();

    set_environment();
    EXPECT_OK(ks_loop_new(&cloud.loop));
    EXPECT_OK(ks_cloud_client(&cloud, KS_AWS_DYNAMODB, &dynamodb, &detail));
    EXPECT_OK(ks_cloud_client(&cloud, KS_AWS_KINESIS, &kinesis, &detail));
    EXPECT(kinesis != NULL);
    EXPECT(kinesis != dynamodb);
    EXPECT_STR(cloud.region, "eu-central-1");
    ks_cloud_close(&cloud);
    ks_loop_free(cloud.loop);
    EXPECT_EQ_I64(ks_alloc_live(), live);
}

TEST(a_setting_that_cannot_be_is_named)
{
    struct ks_cloud cloud = {.loop = NULL};
    struct ks_aws_client *client;
    struct ks_detail detail = {""};

    set_environment();
    EXPECT(setenv("AWS_ENDPOINT_URL_DYNAMODB", "ftp://nowhere", 1) == 0);
    EXPECT_OK(ks_loop_new(&cloud.loop));
    EXPECT_ERR(ks_cloud_client(&cloud, KS_AWS_DYNAMODB, &client, &detail), INVALID);
    EXPECT_CONTAINS(detail.text, "AWS_ENDPOINT_URL_DYNAMODB");
    ks_cloud_close(&cloud);
    ks_loop_free(cloud.loop);
}

TEST(closing_nothing_is_allowed)
{
    struct ks_cloud cloud = {.loop = NULL};

    ks_cloud_close(&cloud);
    EXPECT(cloud.http == NULL);
}
