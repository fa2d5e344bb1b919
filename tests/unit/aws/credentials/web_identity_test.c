/* SPDX-License-Identifier: Apache-2.0 */
#include "asking.h"

#include "ks_test.h"

#include "base/budget.h"
#include "http_script.h"

#include <stdio.h>
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

static void open_web(struct asking *asking, const struct http_script *script)
{
    struct ks_role role = {.arn = KS_VIEW("arn:aws:iam::1:role/a b"),
                           .session_name = KS_VIEW("me@host")};

    asking_open(asking);
    asking_sts(asking, http_script_url(script));
    EXPECT_OK(ks_provider_web_identity_new(
        &asking->setup, ks_view_text(asking_file("token", "eyJ.one\n")), &role, &asking->provider));
}

TEST(where_sts_cannot_be_is_told_when_it_is_asked)
{
    static const struct http_step steps[] = {{.headers = ASKING_DATE, .body = GOOD}};
    struct http_script *script = http_script_start(steps, 1);
    struct asking asking;

    open_web(&asking, script);
    asking.sts.fips = true;
    asking_fetch(&asking);
    EXPECT_ERR(asking.err, INVALID);
    EXPECT_CONTAINS(asking.detail.text, "cannot go together with FIPS endpoints");
    EXPECT_EQ_U64(http_script_count(script), 0);
    asking_close(&asking);
    http_script_stop(script);
}

TEST(the_token_is_changed_for_credentials)
{
    static const struct http_step steps[] = {{.headers = ASKING_DATE, .body = GOOD}};
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
    EXPECT_CONTAINS(
        http_script_request(script, 0),
        "\r\n\r\nAction=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=arn%3Aaws%"
        "3Aiam%3A%3A1%3Arole%2Fa%20b&RoleSessionName=me%40host&WebIdentityToken=eyJ.one");
    EXPECT_CONTAINS(http_script_request(script, 0),
                    "Content-Type: application/x-www-form-urlencoded; charset=utf-8\r\n");
    EXPECT(strstr(http_script_request(script, 0), "Authorization") == NULL);
    EXPECT(strstr(http_script_request(script, 0), "%0A") == NULL);
    asking_close(&asking);
    http_script_stop(script);
}

TEST(the_token_file_is_read_each_time)
{
    static const struct http_step steps[] = {{.headers = ASKING_DATE, .body = GOOD}};
    struct http_script *script = http_script_start(steps, 1);
    struct asking asking;

    open_web(&asking, script);
    asking_fetch(&asking);
    asking_file("token", "eyJ.two");
    asking_fetch(&asking);
    EXPECT_OK(asking.err);
    EXPECT_CONTAINS(http_script_request(script, 1), "WebIdentityToken=eyJ.two");
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
        {.headers = ASKING_DATE, .body = GOOD},
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

TEST(a_token_file_that_cannot_be_read_is_told)
{
    static const struct http_step steps[] = {{.body = GOOD}};
    struct http_script *script = http_script_start(steps, 1);
    struct asking asking;

    open_web(&asking, script);
    EXPECT(remove(ks_test_path("token")) == 0);
    asking_fetch(&asking);
    EXPECT_ERR(asking.err, NOT_FOUND);
    EXPECT_CONTAINS(asking.detail.text, "token file");
    EXPECT_EQ_U64(http_script_count(script), 0);
    asking_close(&asking);
    http_script_stop(script);
}

TEST(what_is_too_long_is_refused_when_made)
{
    static char longest[KS_PATH_MAX + 1];
    ks_view too_long = ks_view_of(longest, sizeof(longest));
    const struct ks_role roles[] = {{.arn = too_long},
                                    {.arn = KS_VIEW("r"), .session_name = too_long}};
    struct ks_role role = {.arn = KS_VIEW("r")};
    struct asking asking;
    struct ks_provider *provider;

    memset(longest, 'x', sizeof(longest));
    asking_open(&asking);
    int64_t live = ks_alloc_live();
    EXPECT_ERR(ks_provider_web_identity_new(&asking.setup, too_long, &role, &provider), INVALID);
    for (size_t at = 0; at < 2; at++)
        EXPECT_ERR(
            ks_provider_web_identity_new(&asking.setup, KS_VIEW("/t"), &roles[at], &provider),
            INVALID);
    EXPECT_EQ_I64(ks_alloc_live(), live);
    EXPECT_OK(ks_provider_web_identity_new(&asking.setup, KS_VIEW("/t"), &role, &asking.provider));
    asking_close(&asking);
}
