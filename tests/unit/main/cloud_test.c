/* SPDX-License-Identifier: Apache-2.0 */
#include "main/cloud.h"

#include "base/budget.h"
#include "base/log.h"
#include "ks_test.h"

#include "http_script.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static void set_environment(void)
{
    char none[300];

    (void)snprintf(none, sizeof none, "%s/none", ks_test_dir());
    EXPECT(setenv("AWS_CONFIG_FILE", none, 1) == 0);
    EXPECT(setenv("AWS_SHARED_CREDENTIALS_FILE", none, 1) == 0);
    EXPECT(setenv("AWS_REGION", "eu-central-1", 1) == 0);
    EXPECT(unsetenv("AWS_ENDPOINT_URL") == 0);
    EXPECT(unsetenv("AWS_ENDPOINT_URL_DYNAMODB") == 0);
    EXPECT(unsetenv("https_proxy") == 0);
    EXPECT(unsetenv("HTTPS_PROXY") == 0);
    EXPECT(setenv("AWS_EC2_METADATA_DISABLED", "true", 1) == 0);
}

static struct ks_loop *loop;
static struct ks_cloud cloud;

static void open_cloud(void)
{
    EXPECT_OK(ks_loop_new(&loop));
    EXPECT_OK(ks_cloud_open(&cloud, loop, NULL));
}

static void close_cloud(void)
{
    ks_cloud_close(&cloud);
    ks_loop_free(loop);
}

static struct ks_aws_client *client_of(struct ks_cloud_part *part, enum ks_aws_service service)
{
    struct ks_aws_client *client = NULL;
    struct ks_detail detail = {""};

    EXPECT_OK(ks_cloud_client(part, service, &client, &detail));
    EXPECT(client != NULL);
    return client;
}

TEST(subscriptions_share_connections_and_credentials)
{
    struct ks_cloud_part parts[2] = {{.cloud = &cloud}, {.cloud = &cloud}};
    int64_t live = ks_alloc_live();

    set_environment();
    open_cloud();
    EXPECT(client_of(&parts[0], KS_AWS_DYNAMODB) != client_of(&parts[0], KS_AWS_KINESIS));
    EXPECT_STR(cloud.sts.region, "eu-central-1");
    struct ks_http *http = cloud.http;
    struct ks_credentials_source *credentials = cloud.credentials;
    EXPECT(client_of(&parts[1], KS_AWS_DYNAMODB) != parts[0].clients[KS_AWS_DYNAMODB]);
    EXPECT(cloud.http == http);
    EXPECT(cloud.credentials == credentials);
    EXPECT_EQ_U64(cloud.source_count, 0);
    /* One leaves, the other goes on. */
    ks_cloud_leave(&parts[0]);
    EXPECT(cloud.http == http);
    ks_cloud_leave(&parts[1]);
    close_cloud();
    EXPECT_EQ_I64(ks_alloc_live(), live);
}

TEST(a_nameserver_that_is_silent_is_given_up_in_time_for_a_lease)
{
    set_environment();
    EXPECT(unsetenv("RES_OPTIONS") == 0);
    open_cloud();
    EXPECT_STR(getenv("RES_OPTIONS"), "timeout:1 attempts:3 retrans:1000 retry:3");
    close_cloud();
    /* Who says it himself knows why. */
    EXPECT(setenv("RES_OPTIONS", "timeout:2", 1) == 0);
    open_cloud();
    EXPECT_STR(getenv("RES_OPTIONS"), "timeout:2");
    close_cloud();
}

TEST(a_role_has_one_source_however_many_assume_it)
{
    static const struct ks_cloud_role roles[] = {{"arn:aws:iam::1:role/r", "x"},
                                                 {"arn:aws:iam::1:role/r", "y"},
                                                 {"arn:aws:iam::1:role/r", "x"},
                                                 {"", ""}};
    struct ks_cloud_part parts[4];
    int64_t live = ks_alloc_live();

    set_environment();
    open_cloud();
    for (size_t at = 0; at < 4; at++) {
        parts[at] =
            (struct ks_cloud_part){.cloud = &cloud, .roles = {[KS_AWS_KINESIS] = roles[at]}};
        (void)client_of(&parts[at], KS_AWS_KINESIS);
        (void)client_of(&parts[at], KS_AWS_DYNAMODB);
    }
    EXPECT_EQ_U64(cloud.source_count, 2);
    EXPECT_STR(cloud.sources[1].role.external_id, "y");
    for (size_t at = 0; at < 4; at++)
        ks_cloud_leave(&parts[at]);
    close_cloud();
    EXPECT_EQ_I64(ks_alloc_live(), live);
}

static void expect_part_refused(struct ks_cloud_part part, enum ks_aws_service service,
                                const char *why)
{
    struct ks_aws_client *client;
    struct ks_detail detail = {""};
    int64_t live = ks_alloc_live();

    EXPECT_OK(ks_loop_new(&loop));
    ks_err err = ks_cloud_open(&cloud, loop, &detail);
    if (ks_ok(err))
        err = ks_cloud_client(&part, service, &client, &detail);
    EXPECT_ERR(err, INVALID);
    EXPECT_CONTAINS(detail.text, why);
    ks_cloud_leave(&part);
    close_cloud();
    EXPECT_EQ_I64(ks_alloc_live(), live);
}

/* What a client of the service cannot be made with, and why. */
static void expect_refused(const char *stream, enum ks_aws_service service, const char *why)
{
    expect_part_refused((struct ks_cloud_part){.cloud = &cloud, .stream = stream}, service, why);
}

TEST(a_setting_that_cannot_be_is_named)
{
    static const char *const settings[][3] = {
        {"AWS_ENDPOINT_URL_DYNAMODB", "ftp://nowhere", "AWS_ENDPOINT_URL_DYNAMODB is no URL"},
        {"AWS_ENDPOINT_URL_STS", "nowhere", "AWS_ENDPOINT_URL_STS is no URL"},
        {"AWS_REGION", "Here", "AWS_REGION is no region"},
        {"AWS_CA_BUNDLE", "/nowhere/ca.pem", "/nowhere/ca.pem cannot be read"},
        {"https_proxy", "socks5://proxy:1", "https_proxy is no proxy"},
        {"AWS_USE_FIPS_ENDPOINT", "perhaps", "AWS_USE_FIPS_ENDPOINT is not true or false"}};

    for (size_t at = 0; at < sizeof(settings) / sizeof(settings[0]); at++) {
        set_environment();
        EXPECT(setenv(settings[at][0], settings[at][1], 1) == 0);
        expect_refused(NULL, KS_AWS_DYNAMODB, settings[at][2]);
        EXPECT(unsetenv(settings[at][0]) == 0);
    }
}

TEST(who_does_not_ask_sts_may_have_its_url_beside_fips)
{
    struct ks_cloud_part part = {.cloud = &cloud};

    set_environment();
    EXPECT(setenv("AWS_USE_FIPS_ENDPOINT", "true", 1) == 0);
    EXPECT(setenv("AWS_ENDPOINT_URL_STS", "https://vpce-1.sts.eu-central-1.vpce.amazonaws.com",
                  1) == 0);
    open_cloud();
    (void)client_of(&part, KS_AWS_DYNAMODB);
    ks_cloud_leave(&part);
    close_cloud();
    part = (struct ks_cloud_part){.cloud = &cloud,
                                  .roles = {[KS_AWS_DYNAMODB] = {.arn = "arn:aws:iam::1:role/r"}}};
    expect_part_refused(part, KS_AWS_DYNAMODB,
                        "AWS_ENDPOINT_URL_STS cannot go together with FIPS endpoints");
}

TEST(a_stream_brings_its_region_and_a_table_does_not)
{
    struct ks_cloud_part part = {.cloud = &cloud,
                                 .stream = "arn:aws:kinesis:ap-south-1:123456789012:stream/s"};
    struct ks_aws_client *client = NULL;
    struct ks_detail detail = {""};

    set_environment();
    EXPECT(unsetenv("AWS_REGION") == 0);
    EXPECT(unsetenv("AWS_DEFAULT_REGION") == 0);
    open_cloud();
    (void)client_of(&part, KS_AWS_KINESIS);
    EXPECT_STR(part.stream_region, "ap-south-1");
    EXPECT_STR(cloud.sts.region, "ap-south-1");
    EXPECT_ERR(ks_cloud_client(&part, KS_AWS_DYNAMODB, &client, &detail), INVALID);
    EXPECT_CONTAINS(detail.text, "no region for the lease table");
    ks_cloud_leave(&part);
    close_cloud();

    expect_refused("name", KS_AWS_KINESIS, "no region: set AWS_REGION");
    EXPECT(setenv("AWS_REGION", "eu-central-1", 1) == 0);
    expect_refused("arn:aws:kinesis:eu-central-1:123456789012:queue/s", KS_AWS_KINESIS,
                   "is no ARN of a stream");
}

TEST(the_region_is_at_last_that_of_the_instance)
{
    static const struct http_step steps[] = {{.body = "TOKEN"}, {.body = "sa-east-1\n"}};
    struct http_script *script = http_script_start(steps, 2);
    struct ks_cloud_part part = {.cloud = &cloud};

    set_environment();
    EXPECT(unsetenv("AWS_REGION") == 0);
    EXPECT(setenv("AWS_EC2_METADATA_DISABLED", "false", 1) == 0);
    EXPECT(setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", http_script_url(script), 1) == 0);
    open_cloud();
    EXPECT_CONTAINS(http_script_request(script, 1),
                    "GET /latest/meta-data/placement/region HTTP/1.1\r\n");
    (void)client_of(&part, KS_AWS_DYNAMODB);
    EXPECT_STR(cloud.sts.region, "sa-east-1");
    ks_cloud_leave(&part);
    close_cloud();
    http_script_stop(script);
}

TEST(closing_nothing_is_allowed)
{
    struct ks_cloud_part part = {.cloud = &cloud};

    ks_cloud_leave(&part);
    ks_cloud_close(&cloud);
    EXPECT(cloud.http == NULL);
}

/* What the log says of a client at this place: where it asks. */
static const char *line_at(const struct ks_cloud_place *place, const char *expected_region)
{
    static char said[2000];
    struct ks_cloud_part part = {.cloud = &cloud};
    const int64_t live = ks_alloc_live();
    const int log = memfd_create("log", MFD_CLOEXEC);
    struct ks_aws_client *client = NULL;
    const char *region = "";
    struct ks_detail detail = {""};
    ssize_t size;

    ks_log_open(log, KS_LOG_INFO, KS_LOG_TEXT);
    open_cloud();
    EXPECT_OK(ks_cloud_client_at(&part, place, &client, &region, &detail));
    EXPECT(client != NULL);
    EXPECT_STR(region, expected_region);
    ks_cloud_leave(&part);
    close_cloud();
    ks_log_close(1000);
    size = pread(log, said, sizeof(said) - 1, 0);
    EXPECT(size >= 0 && close(log) == 0);
    said[size] = '\0';
    EXPECT_EQ_I64(ks_alloc_live(), live);
    return said;
}

TEST(client_of_a_place_asks_where_the_settings_or_the_place_say)
{
    struct ks_cloud_place place = {.service = KS_AWS_SQS,
                                   .region = "us-west-2",
                                   .url = "",
                                   .stream = "",
                                   .source = "--dead-letters"};

    set_environment();
    EXPECT_CONTAINS(line_at(&place, "us-west-2"),
                    "sqs is asked at https://sqs.us-west-2.amazonaws.com/, region us-west-2");
    place.url = "https://vpce-1.sqs.us-west-2.vpce.amazonaws.com";
    EXPECT_CONTAINS(line_at(&place, "us-west-2"),
                    "https://vpce-1.sqs.us-west-2.vpce.amazonaws.com/");
    place.url = "";
    EXPECT(setenv("AWS_USE_FIPS_ENDPOINT", "true", 1) == 0);
    EXPECT_CONTAINS(line_at(&place, "us-west-2"), "https://sqs-fips.us-west-2.amazonaws.com/");
    EXPECT(unsetenv("AWS_USE_FIPS_ENDPOINT") == 0);
    EXPECT(setenv("AWS_ENDPOINT_URL_SQS", "http://127.0.0.1:9", 1) == 0);
    EXPECT_CONTAINS(line_at(&place, "us-west-2"), "http://127.0.0.1:9/, region us-west-2");
    EXPECT(unsetenv("AWS_ENDPOINT_URL_SQS") == 0);
    place.region = "";
    place.url = "http://localhost:4566";
    EXPECT_CONTAINS(line_at(&place, "eu-central-1"), "http://localhost:4566/, region eu-central-1");
    place = (struct ks_cloud_place){.service = KS_AWS_SNS,
                                    .region = "eu-west-1",
                                    .url = "",
                                    .stream = "",
                                    .source = "--dead-letters"};
    EXPECT_CONTAINS(line_at(&place, "eu-west-1"), "https://sns.eu-west-1.amazonaws.com/");
    place.service = KS_AWS_KINESIS;
    place.stream = "arn:aws:kinesis:eu-west-1:123456789012:stream/dead";
    EXPECT_CONTAINS(line_at(&place, "eu-west-1"), "kinesis.eu-west-1.amazonaws.com/");
}

TEST(client_of_a_bucket_asks_at_its_host_or_at_the_configured_url)
{
    const struct ks_cloud_place place = {.service = KS_AWS_S3,
                                         .region = "",
                                         .url = "",
                                         .stream = "",
                                         .bucket = "my-bucket",
                                         .source = "--dead-letters"};

    set_environment();
    EXPECT_CONTAINS(line_at(&place, "eu-central-1"),
                    "s3 is asked at https://my-bucket.s3.eu-central-1.amazonaws.com/");
    EXPECT(setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9", 1) == 0);
    EXPECT_CONTAINS(line_at(&place, "eu-central-1"),
                    "s3 is asked at http://127.0.0.1:9/my-bucket/");
    EXPECT(unsetenv("AWS_ENDPOINT_URL_S3") == 0);
}

TEST(client_of_a_place_without_a_region_is_refused)
{
    const struct ks_cloud_place place = {.service = KS_AWS_KINESIS,
                                         .region = "",
                                         .url = "",
                                         .stream = "",
                                         .source = "--dead-letters"};
    struct ks_cloud_part part = {.cloud = &cloud};
    struct ks_aws_client *client;
    const char *region;
    struct ks_detail detail = {""};

    set_environment();
    EXPECT(unsetenv("AWS_REGION") == 0);
    open_cloud();
    EXPECT_ERR(ks_cloud_client_at(&part, &place, &client, &region, &detail), INVALID);
    EXPECT_CONTAINS(detail.text, "no region for --dead-letters: set AWS_REGION");
    ks_cloud_leave(&part);
    close_cloud();
}
