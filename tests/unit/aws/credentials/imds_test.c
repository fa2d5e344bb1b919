/* SPDX-License-Identifier: Apache-2.0 */
#include "asking.h"

#include "aws/credentials/imds.h"
#include "base/metrics.h"

#include "ks_test.h"

#include "http_script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOKEN                                                                                      \
    {                                                                                              \
        .body = "TOKEN-_1==\n"                                                                     \
    }
#define ROLE                                                                                       \
    {                                                                                              \
        .body = "my.role_+=,@-1\nother"                                                            \
    }
#define KEYS                                                                                       \
    {                                                                                              \
        .headers = ASKING_DATE,                                                                    \
        .body = "{\"Code\":\"Success\",\"LastUpdated\":\"2026-01-01T00:00:00Z\","                  \
                "\"Type\":\"AWS-HMAC\",\"AccessKeyId\":\"ASIA3\","                                 \
                "\"SecretAccessKey\":\"S\",\"Token\":\"T\","                                       \
                "\"Expiration\":\"2026-01-01T06:00:00Z\"}"                                         \
    }

static struct http_script *open_imds(struct asking *asking, const struct http_step *steps,
                                     size_t count)
{
    struct http_script *script = http_script_start(steps, count);

    asking_open(asking);
    unsetenv("AWS_EC2_METADATA_DISABLED");
    setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", http_script_url(script), 1);
    EXPECT_OK(ks_provider_imds_new(&asking->setup, &asking->provider));
    return script;
}

static void close_imds(struct asking *asking, struct http_script *script)
{
    asking_close(asking);
    http_script_stop(script);
}

TEST(the_keys_of_the_role_come_with_a_token)
{
    static const struct http_step steps[] = {TOKEN, ROLE, KEYS};
    struct asking asking;
    struct http_script *script = open_imds(&asking, steps, 3);

    asking_fetch(&asking);
    EXPECT_OK(asking.err);
    EXPECT_STR(asking.credentials.access_key, "ASIA3");
    EXPECT_STR(asking.credentials.token, "T");
    EXPECT_EQ_I64(asking.credentials.life.us, INT64_C(21600000000));
    EXPECT(asking.credentials.outlasts);
    EXPECT_CONTAINS(asking.detail.text, "my.role_+=,@-1");
    EXPECT_CONTAINS(http_script_request(script, 0), "PUT /latest/api/token HTTP/1.1\r\n");
    EXPECT_CONTAINS(http_script_request(script, 0),
                    "x-aws-ec2-metadata-token-ttl-seconds: 21600\r\n");
    EXPECT_CONTAINS(http_script_request(script, 1),
                    "GET /latest/meta-data/iam/security-credentials/ HTTP/1.1\r\n");
    EXPECT_CONTAINS(http_script_request(script, 1), "x-aws-ec2-metadata-token: TOKEN-_1==\r\n");
    EXPECT_CONTAINS(http_script_request(script, 2),
                    "GET /latest/meta-data/iam/security-credentials/my.role_+=,@-1 HTTP/1.1\r\n");
    EXPECT_CONTAINS(http_script_request(script, 2), "x-aws-ec2-metadata-token: TOKEN-_1==\r\n");
    EXPECT_EQ_I64(ks_metric_number_labelled(KS_METRIC_AWS_REQUESTS, "imds,GetToken"), 1);
    EXPECT_EQ_I64(ks_metric_number_labelled(KS_METRIC_AWS_REQUESTS, "imds,GetRole"), 1);
    EXPECT_EQ_I64(ks_metric_number_labelled(KS_METRIC_AWS_REQUESTS, "imds,GetCredentials"), 1);
    EXPECT_EQ_I64(ks_metric_number(KS_METRIC_AWS_FAILURES), 0);
    close_imds(&asking, script);
}

TEST(without_version_2_version_1_is_asked)
{
    static const int statuses[] = {403, 404, 405};

    for (size_t at = 0; at < 3; at++) {
        const struct http_step steps[] = {{.status = statuses[at]}, ROLE, KEYS};
        struct asking asking;
        struct http_script *script = open_imds(&asking, steps, 3);

        asking_fetch(&asking);
        EXPECT_OK(asking.err);
        EXPECT(strstr(http_script_request(script, 1), "x-aws-ec2-metadata-token") == NULL);
        EXPECT(strstr(http_script_request(script, 2), "x-aws-ec2-metadata-token") == NULL);
        EXPECT_EQ_U64(http_script_count(script), 3);
        close_imds(&asking, script);
    }
}

TEST(a_token_that_is_lost_on_its_way_leads_to_version_1)
{
    static const struct http_step steps[] = {{.silent = true}, ROLE, KEYS};
    struct asking asking;
    struct http_script *script = open_imds(&asking, steps, 3);

    asking_fetch(&asking);
    EXPECT_OK(asking.err);
    EXPECT_CONTAINS(http_script_request(script, 1), "GET ");
    close_imds(&asking, script);
}

TEST(version_1_can_be_forbidden)
{
    static const struct http_step steps[] = {{.status = 404}};
    struct asking asking;
    struct http_script *script = open_imds(&asking, steps, 1);

    setenv("AWS_EC2_METADATA_V1_DISABLED", "True", 1);
    asking_fetch(&asking);
    EXPECT_ERR(asking.err, DENIED);
    EXPECT_CONTAINS(asking.detail.text, "version 1 is disabled");
    EXPECT_EQ_U64(http_script_count(script), 1);
    /* By the profile, over which the variable counts. */
    unsetenv("AWS_EC2_METADATA_V1_DISABLED");
    asking_set_files("[default]\nec2_metadata_v1_disabled = true\n", "");
    asking_fetch(&asking);
    EXPECT_ERR(asking.err, DENIED);
    EXPECT_EQ_U64(http_script_count(script), 2);
    setenv("AWS_EC2_METADATA_V1_DISABLED", "false", 1);
    asking_fetch(&asking);
    EXPECT_ERR(asking.err, NO_CREDENTIALS); /* 404 for the role, too. */
    EXPECT_EQ_U64(http_script_count(script), 4);
    close_imds(&asking, script);
}

TEST(a_token_that_is_refused_is_a_failure)
{
    static const struct http_step steps[] = {{.status = 400}, {.body = "no token\n"}, {.body = ""}};
    static const enum ks_err_code expected[] = {KS_ERR_INVALID, KS_ERR_MALFORMED, KS_ERR_MALFORMED};
    struct asking asking;
    struct http_script *script = open_imds(&asking, steps, 3);

    for (size_t at = 0; at < 3; at++) {
        asking_fetch(&asking);
        EXPECT_EQ_I64(asking.err.code, expected[at]);
        EXPECT(asking.detail.text[0] != '\0');
    }
    EXPECT_EQ_U64(http_script_count(script), 3);
    close_imds(&asking, script);
}

TEST(an_instance_without_a_role_has_no_credentials)
{
    static const struct http_step steps[] = {
        TOKEN, {.status = 404}, TOKEN, {.body = ""}, TOKEN, {.body = "../../user-data"}};
    struct asking asking;
    struct http_script *script = open_imds(&asking, steps, 6);

    asking_fetch(&asking);
    EXPECT_ERR(asking.err, NO_CREDENTIALS);
    asking_fetch(&asking);
    EXPECT_ERR(asking.err, MALFORMED);
    asking_fetch(&asking);
    EXPECT_ERR(asking.err, MALFORMED);
    EXPECT_EQ_U64(http_script_count(script), 6);
    close_imds(&asking, script);
}

TEST(failures_that_may_pass_are_tried_again_with_the_same_token)
{
    static const struct http_step steps[] = {TOKEN, {.status = 503}, ROLE, {.status = 500}, KEYS};
    struct asking asking;
    struct http_script *script = open_imds(&asking, steps, 5);

    asking_fetch(&asking);
    EXPECT_OK(asking.err);
    EXPECT_EQ_U64(http_script_count(script), 5);
    EXPECT_CONTAINS(http_script_request(script, 4), "x-aws-ec2-metadata-token: TOKEN-_1==\r\n");
    close_imds(&asking, script);
}

TEST(a_code_in_the_answer_is_a_failure)
{
    static const struct http_step steps[] = {
        TOKEN, ROLE, {.body = "{\"Code\":\"AssumeRoleUnauthorizedAccess\",\"Message\":\"m\"}"}};
    struct asking asking;
    struct http_script *script = open_imds(&asking, steps, 3);

    asking_fetch(&asking);
    EXPECT_ERR(asking.err, SERVER);
    EXPECT_CONTAINS(asking.detail.text, "AssumeRoleUnauthorizedAccess");
    EXPECT_EQ_U64(http_script_count(script), 5);
    close_imds(&asking, script);
}

TEST(where_nobody_listens_or_all_is_disabled_there_are_no_credentials)
{
    static const struct http_step steps[] = {TOKEN};
    struct asking asking;
    struct http_script *script = open_imds(&asking, steps, 1);

    setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1", 1);
    asking_fetch(&asking);
    EXPECT_ERR(asking.err, NO_CREDENTIALS);
    setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", http_script_url(script), 1);
    setenv("AWS_EC2_METADATA_DISABLED", "TRUE", 1);
    asking_fetch(&asking);
    EXPECT_ERR(asking.err, NO_CREDENTIALS);
    EXPECT_EQ_U64(http_script_count(script), 0);
    close_imds(&asking, script);
}

TEST(the_endpoint_comes_from_variable_profile_or_mode)
{
    static const struct http_step steps[] = {TOKEN, ROLE, KEYS};
    struct asking asking;
    struct http_script *script = open_imds(&asking, steps, 3);
    char config[200];

    snprintf(config, sizeof(config),
             "[default]\nec2_metadata_service_endpoint = %s/prefix/\n"
             "ec2_metadata_service_endpoint_mode = IPv6\n",
             http_script_url(script));
    asking_set_files(config, "");
    unsetenv("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    asking_fetch(&asking);
    EXPECT_OK(asking.err);
    EXPECT_CONTAINS(http_script_request(script, 0), "PUT /prefix/latest/api/token ");

    setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "ftp://x", 1);
    asking_fetch(&asking);
    EXPECT_ERR(asking.err, INVALID);
    EXPECT_CONTAINS(asking.detail.text, "AWS_EC2_METADATA_SERVICE_ENDPOINT");
    unsetenv("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    asking_set_files("[default]\n", "");
    setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE", "IPv5", 1);
    asking_fetch(&asking);
    EXPECT_ERR(asking.err, INVALID);
    EXPECT_CONTAINS(asking.detail.text, "neither IPv4 nor IPv6");
    asking_set_files("what\n", "");
    asking_fetch(&asking);
    EXPECT_ERR(asking.err, MALFORMED);
    close_imds(&asking, script);
}

TEST(closing_ends_what_is_under_way)
{
    static const struct http_step steps[] = {{.silent = true}};
    struct asking asking;
    struct http_script *script = open_imds(&asking, steps, 1);

    asking.provider->vtable->fetch(asking.provider);
    while (http_script_count(script) < 1)
        ks_loop_turn(asking.loop, ks_span_ms(5));
    close_imds(&asking, script);
    EXPECT_EQ_I64(asking.answers, 0);
}

/* Asks for the region a server that takes these steps. */
static ks_err ask_region(const struct http_step *steps, size_t count,
                         char region[KS_REGION_MAX + 1], struct ks_detail *detail)
{
    struct asking asking;
    struct http_script *script = open_imds(&asking, steps, count);
    ks_err err = ks_imds_region(&asking.setup, region, detail);

    close_imds(&asking, script);
    return err;
}

TEST(the_region_of_the_instance_comes_with_a_token_or_without)
{
    static const struct http_step steps[] = {TOKEN, {.body = "eu-west-3\n"}};
    static const struct http_step old[] = {{.status = 403, .body = ""}, {.body = "eu-west-3"}};
    static const struct http_step *const all[] = {steps, old};

    for (size_t at = 0; at < 2; at++) {
        char region[KS_REGION_MAX + 1] = "";
        struct ks_detail detail = {""};
        EXPECT_OK(ask_region(all[at], 2, region, &detail));
        EXPECT_STR(region, "eu-west-3");
    }
}

TEST(a_region_that_is_none_is_not_believed)
{
    static const struct http_step steps[][2] = {{TOKEN, {.body = "here; rm -rf"}},
                                                {TOKEN, {.body = ""}},
                                                {TOKEN, {.status = 404, .body = "eu-west-1"}}};

    for (size_t at = 0; at < sizeof(steps) / sizeof(steps[0]); at++) {
        char region[KS_REGION_MAX + 1] = "";
        struct ks_detail detail = {""};
        EXPECT(!ks_ok(ask_region(steps[at], 2, region, &detail)));
        EXPECT(detail.text[0] != '\0');
        EXPECT_STR(region, "");
    }
}
