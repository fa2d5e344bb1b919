/* SPDX-License-Identifier: Apache-2.0 */
#include "asking.h"

#include "ks_test.h"

#include "http_script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GOOD                                                                                       \
    "{\"AccessKeyId\":\"ASIA2\",\"SecretAccessKey\":\"S\",\"Token\":\"T\",\"AccountId\":\"1\","    \
    "\"Expiration\":\"2026-01-01T06:00:00Z\"}"

static void open_container(struct asking *asking, const char *uri)
{
    asking_open(asking);
    EXPECT_OK(ks_provider_container_new(&asking->setup, &asking->provider));
    if (uri != NULL)
        setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", uri, 1);
}

TEST(the_endpoint_gives_credentials)
{
    static const struct http_step steps[] = {
        {.headers = ASKING_DATE, .body = GOOD},
        {.body = "{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"S\"}"}};
    struct http_script *script = http_script_start(steps, 2);
    struct asking asking;
    char url[128];

    snprintf(url, sizeof(url), "%s/v1/credentials?x=y", http_script_url(script));
    open_container(&asking, url);
    asking_fetch(&asking);
    EXPECT_OK(asking.err);
    EXPECT_STR(asking.credentials.access_key, "ASIA2");
    EXPECT_STR(asking.credentials.token, "T");
    EXPECT_EQ_I64(asking.credentials.life.us, INT64_C(21600000000));
    EXPECT_CONTAINS(http_script_request(script, 0), "GET /v1/credentials?x=y HTTP/1.1\r\n");
    EXPECT_CONTAINS(http_script_request(script, 0), "Accept: application/json\r\n");
    EXPECT(strstr(http_script_request(script, 0), "Authorization") == NULL);
    asking_fetch(&asking);
    EXPECT_OK(asking.err);
    EXPECT(!asking.credentials.expires);
    asking_close(&asking);
    http_script_stop(script);
}

/* On a port where nobody is: what is not allowed is refused at once. */
TEST(the_addresses_of_ecs_and_eks_are_asked)
{
    static const char *const allowed[] = {"http://169.254.170.2:1/", "http://169.254.170.23:1/v1",
                                          "http://[fd00:ec2::23]:1/v1",
                                          "http://[fd00:0ec2:0::0023]:1/", "https://10.0.0.1:1/"};

    for (size_t at = 0; at < sizeof(allowed) / sizeof(allowed[0]); at++) {
        struct asking asking;

        open_container(&asking, allowed[at]);
        asking_begin(&asking);
        for (int turns = 0; turns < 3; turns++)
            ks_loop_turn(asking.loop, ks_span_ms(1));
        if (ks_err_is(asking.err, KS_ERR_INVALID))
            FAIL("%s: %s", allowed[at], asking.detail.text);
        asking_close(&asking);
    }
}

TEST(the_token_is_sent_and_its_file_read_each_time)
{
    static const struct http_step steps[] = {{.headers = ASKING_DATE, .body = GOOD}};
    struct http_script *script = http_script_start(steps, 1);
    struct asking asking;

    open_container(&asking, http_script_url(script));
    setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "direct", 1);
    asking_fetch(&asking);
    EXPECT_CONTAINS(http_script_request(script, 0), "Authorization: direct\r\n");
    setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", asking_file("token", "one"), 1);
    asking_fetch(&asking);
    EXPECT_CONTAINS(http_script_request(script, 1), "Authorization: one\r\n");
    asking_file("token", "two");
    asking_fetch(&asking);
    EXPECT_CONTAINS(http_script_request(script, 2), "Authorization: two\r\n");
    asking_close(&asking);
    http_script_stop(script);
}

TEST(a_token_with_a_line_end_is_refused)
{
    static const struct http_step steps[] = {{.body = GOOD}};
    struct http_script *script = http_script_start(steps, 1);
    struct asking asking;

    open_container(&asking, http_script_url(script));
    setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "a\r\nX-Evil: 1", 1);
    asking_fetch(&asking);
    EXPECT(ks_err_is(asking.err, KS_ERR_INVALID));
    setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", asking_file("token", "a\n"), 1);
    asking_fetch(&asking);
    EXPECT(ks_err_is(asking.err, KS_ERR_INVALID));
    EXPECT_CONTAINS(asking.detail.text, "line end");
    EXPECT_EQ_U64(http_script_count(script), 0);
    asking_close(&asking);
    http_script_stop(script);
}

TEST(plain_http_goes_only_to_known_hosts)
{
    static const char *const refused[] = {"http://evil.example/",
                                          "http://169.254.169.254/latest",
                                          "http://10.0.0.1/",
                                          "http://0.0.0.0/",
                                          "http://169.254.170.2.evil.example/",
                                          "http://127.0.0.1.evil.example/",
                                          "http://[fd00:ec2::254]/",
                                          "http://localhost.evil.example/",
                                          "http://2130706433/",
                                          "http://127.1/",
                                          "http://169.254.170.2@evil.example/",
                                          "file:///etc/passwd",
                                          "169.254.170.2"};
    struct asking asking;

    open_container(&asking, NULL);
    for (size_t at = 0; at < sizeof(refused) / sizeof(refused[0]); at++) {
        setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", refused[at], 1);
        asking_fetch(&asking);
        if (!ks_err_is(asking.err, KS_ERR_INVALID))
            FAIL("%s: %s", refused[at], ks_err_name(asking.err));
    }
    asking_close(&asking);
}

TEST(loopback_in_every_spelling_is_asked)
{
    static const char *const allowed[] = {"http://localhost:1/", "http://127.0.0.1:1/",
                                          "http://127.9.8.7:1/", "http://[::1]:1/",
                                          "https://localhost:1/"};
    struct asking asking;

    open_container(&asking, NULL);
    for (size_t at = 0; at < sizeof(allowed) / sizeof(allowed[0]); at++) {
        setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", allowed[at], 1);
        asking_fetch(&asking);
        /* Nobody listens there, but it was tried. */
        if (!ks_err_is(asking.err, KS_ERR_CONNECTION))
            FAIL("%s: %s", allowed[at], ks_err_name(asking.err));
    }
    asking_close(&asking);
}

TEST(refusals_and_rubbish_are_told)
{
    static const struct http_step steps[] = {
        {.status = 400, .body = "{\"Code\":\"AccessDenied\",\"Message\":\"no\"}"},
        {.body = "no json"},
        {.body = "{\"AccessKeyId\":\"A\"}"},
        {.body = "[]"},
        {.body = "{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"S\","
                 "\"Expiration\":\"soon\"}"},
        {.filler = 100000}};
    static const enum ks_err_code expected[] = {KS_ERR_DENIED,    KS_ERR_MALFORMED,
                                                KS_ERR_MALFORMED, KS_ERR_MALFORMED,
                                                KS_ERR_MALFORMED, KS_ERR_FULL};
    struct http_script *script = http_script_start(steps, 6);
    struct asking asking;

    open_container(&asking, http_script_url(script));
    for (size_t at = 0; at < 6; at++) {
        asking_fetch(&asking);
        EXPECT_EQ_I64(asking.err.code, expected[at]);
        EXPECT(asking.detail.text[0] != '\0');
    }
    EXPECT_EQ_U64(http_script_count(script), 6);
    asking_close(&asking);
    http_script_stop(script);
}

TEST(a_server_that_fails_is_tried_three_times)
{
    static const struct http_step steps[] = {
        {.status = 500}, {.status = 429}, {.headers = ASKING_DATE, .body = GOOD}};
    struct http_script *script = http_script_start(steps, 3);
    struct asking asking;

    open_container(&asking, http_script_url(script));
    asking_fetch(&asking);
    EXPECT_OK(asking.err);
    EXPECT_EQ_U64(http_script_count(script), 3);
    asking_close(&asking);
    http_script_stop(script);
}

TEST(the_relative_uri_wins)
{
    static const struct http_step steps[] = {{.headers = ASKING_DATE, .body = GOOD}};
    struct http_script *script = http_script_start(steps, 1);
    struct asking asking;

    open_container(&asking, http_script_url(script));
    setenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/not a path", 1);
    asking_fetch(&asking);
    EXPECT(ks_err_is(asking.err, KS_ERR_INVALID));
    setenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "@127.0.0.1/", 1);
    asking_fetch(&asking);
    EXPECT(ks_err_is(asking.err, KS_ERR_INVALID));
    EXPECT_EQ_U64(http_script_count(script), 0);
    asking_close(&asking);
    http_script_stop(script);
}

TEST(nothing_is_set)
{
    struct asking asking;

    open_container(&asking, NULL);
    asking_fetch(&asking);
    EXPECT(ks_err_is(asking.err, KS_ERR_NO_CREDENTIALS));
    asking_close(&asking);
}
