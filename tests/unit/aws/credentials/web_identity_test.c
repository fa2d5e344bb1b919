/* SPDX-License-Identifier: Apache-2.0 */
#include "asking.h"

#include "ks_test.h"

#include "http_script.h"

#include <stdlib.h>
#include <string.h>

#define GOOD                                                                                       \
    "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\n"    \
    "  <AssumeRoleWithWebIdentityResult>\n"                                                        \
    "    <SubjectFromWebIdentityToken>system:serviceaccount:n:s</SubjectFromWebIdentityToken>\n"   \
    "    <Credentials>\n"                                                                          \
    "      <SessionToken>TOK/+==</SessionToken>\n"                                                 \
    "      <SecretAccessKey>SEC&amp;RET</SecretAccessKey>\n"                                       \
    "      <Expiration>2026-01-01T01:00:00Z</Expiration>\n"                                        \
    "      <AccessKeyId>ASIA1</AccessKeyId>\n"                                                     \
    "    </Credentials>\n"                                                                         \
    "  </AssumeRoleWithWebIdentityResult>\n"                                                       \
    "  <ResponseMetadata><RequestId>r</RequestId></ResponseMetadata>\n"                            \
    "</AssumeRoleWithWebIdentityResponse>\n"
#define DATE "Date: Thu, 01 Jan 2026 00:00:00 GMT\r\n"

static void open_web(struct asking *asking, const struct http_script *script)
{
    asking_open(asking);
    EXPECT_OK(
        ks_provider_web_identity_new(asking->loop, asking->http, "eu-west-1", &asking->provider));
    if (script == NULL)
        return;
    setenv("AWS_ENDPOINT_URL_STS", http_script_url(script), 1);
    setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/a b", 1);
    setenv("AWS_WEB_IDENTITY_TOKEN_FILE", asking_file("token", "eyJ.one\n"), 1);
}

TEST(the_token_is_changed_for_credentials)
{
    static const struct http_step steps[] = {{.headers = DATE, .body = GOOD}};
    struct http_script *script = http_script_start(steps, 1);
    struct asking asking;

    open_web(&asking, script);
    asking_fetch(&asking);
    EXPECT_OK(asking.err);
    EXPECT_STR(asking.credentials.access_key, "ASIA1");
    EXPECT_STR(asking.credentials.secret_key, "SEC&RET");
    EXPECT_STR(asking.credentials.token, "TOK/+==");
    EXPECT(asking.credentials.expires);
    EXPECT_EQ_I64(asking.credentials.life.us, INT64_C(3600000000));
    EXPECT_CONTAINS(http_script_request(script, 0),
                    "\r\n\r\nAction=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=arn%3Aaws%"
                    "3Aiam%3A%3A1%3A"
                    "role%2Fa%20b&RoleSessionName=kinesis-sidecar&WebIdentityToken=eyJ.one");
    EXPECT_CONTAINS(http_script_request(script, 0),
                    "Content-Type: application/x-www-form-urlencoded\r\n");
    EXPECT(strstr(http_script_request(script, 0), "Authorization") == NULL);
    asking_close(&asking);
    http_script_stop(script);
}

TEST(the_token_file_is_read_each_time)
{
    static const struct http_step steps[] = {{.headers = DATE, .body = GOOD}};
    struct http_script *script = http_script_start(steps, 1);
    struct asking asking;

    open_web(&asking, script);
    setenv("AWS_ROLE_SESSION_NAME", "me@host", 1);
    asking_fetch(&asking);
    asking_file("token", "eyJ.two");
    asking_fetch(&asking);
    EXPECT_OK(asking.err);
    EXPECT_CONTAINS(http_script_request(script, 1),
                    "RoleSessionName=me%40host&WebIdentityToken=eyJ.two");
    asking_close(&asking);
    http_script_stop(script);
}

TEST(failures_that_may_pass_are_tried_three_times)
{
    static const struct http_step steps[] = {
        {.status = 400,
         .body = "<ErrorResponse><Error><Type>Sender</Type><Code>IDPCommunicationError</"
                 "Code><Message>later</Message>"
                 "</Error></ErrorResponse>"},
        {.cut = true},
        {.headers = DATE, .body = GOOD},
        {.status = 503, .body = "busy"}};
    struct http_script *script = http_script_start(steps, 4);
    struct asking asking;

    open_web(&asking, script);
    asking_fetch(&asking);
    EXPECT_OK(asking.err);
    EXPECT_EQ_U64(http_script_count(script), 3);
    asking_fetch(&asking);
    EXPECT(ks_err_is(asking.err, KS_ERR_SERVER));
    EXPECT_CONTAINS(asking.detail.text, "503");
    EXPECT_EQ_U64(http_script_count(script), 6);
    asking_close(&asking);
    http_script_stop(script);
}

TEST(a_refusal_is_told_at_once_and_without_the_token)
{
    static const struct http_step steps[] = {
        {.status = 400,
         .body = "<ErrorResponse><Error><Code>InvalidIdentityToken</Code><Message>No OpenIDConnect "
                 "provider &lt;x&gt;"
                 "</Message></Error></ErrorResponse>"},
        {.body = "<html>no</html>"},
        {.body =
             "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>"},
        {.status = 403, .body = "what"}};
    struct http_script *script = http_script_start(steps, 4);
    struct asking asking;

    open_web(&asking, script);
    asking_fetch(&asking);
    EXPECT(ks_err_is(asking.err, KS_ERR_DENIED));
    EXPECT_CONTAINS(asking.detail.text,
                    "InvalidIdentityToken on STS AssumeRoleWithWebIdentity: No OpenIDConnect");
    EXPECT(strstr(asking.detail.text, "eyJ") == NULL);
    asking_fetch(&asking);
    EXPECT(ks_err_is(asking.err, KS_ERR_MALFORMED));
    asking_fetch(&asking);
    EXPECT(ks_err_is(asking.err, KS_ERR_MALFORMED));
    asking_fetch(&asking);
    EXPECT(ks_err_is(asking.err, KS_ERR_DENIED));
    EXPECT_EQ_U64(http_script_count(script), 4);
    asking_close(&asking);
    http_script_stop(script);
}

TEST(what_is_not_set_up_is_told)
{
    static const struct http_step steps[] = {{.body = GOOD}};
    struct http_script *script = http_script_start(steps, 1);
    struct asking asking;

    open_web(&asking, NULL);
    asking_fetch(&asking);
    EXPECT(ks_err_is(asking.err, KS_ERR_NO_CREDENTIALS));
    asking_close(&asking);

    open_web(&asking, script);
    unsetenv("AWS_ROLE_ARN");
    asking_fetch(&asking);
    EXPECT(ks_err_is(asking.err, KS_ERR_INVALID));
    EXPECT_CONTAINS(asking.detail.text, "AWS_ROLE_ARN");
    setenv("AWS_ROLE_ARN", "arn", 1);
    setenv("AWS_WEB_IDENTITY_TOKEN_FILE", ks_test_path("none"), 1);
    asking_fetch(&asking);
    EXPECT(ks_err_is(asking.err, KS_ERR_NOT_FOUND));
    EXPECT_CONTAINS(asking.detail.text, "token file");
    EXPECT_EQ_U64(http_script_count(script), 0);
    asking_close(&asking);
    http_script_stop(script);
}

TEST(a_region_too_long_is_refused_when_made)
{
    struct asking asking;
    struct ks_provider *provider;

    asking_open(&asking);
    EXPECT(ks_err_is(ks_provider_web_identity_new(
                         asking.loop, asking.http,
                         "a-region-name-that-is-much-longer-than-any-label-of-a-name-may-be",
                         &provider),
                     KS_ERR_INVALID));
    EXPECT_OK(ks_provider_web_identity_new(asking.loop, asking.http, NULL, &asking.provider));
    asking_close(&asking);
}
