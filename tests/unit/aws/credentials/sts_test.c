/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/credentials/sts.h"

#include "ks_test.h"

#include "base/budget.h"

#include <string.h>

#define ARN "arn:aws:sts::210987654321:assumed-role/r/me"
#define ANSWER(action)                                                                             \
    "<" action "Response xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\n"                   \
    "  <" action "Result>\n"                                                                       \
    "    <AssumedRoleUser><Arn>" ARN "</Arn></AssumedRoleUser>\n"                                  \
    "    <Credentials>\n"                                                                          \
    "      <SessionToken>TOK/+==</SessionToken>\n"                                                 \
    "      <SecretAccessKey>SEC&amp;RET</SecretAccessKey>\n"                                       \
    "      <Expiration>2026-01-01T01:00:00Z</Expiration>\n"                                        \
    "      <AccessKeyId>ASIA1</AccessKeyId>\n"                                                     \
    "    </Credentials>\n"                                                                         \
    "  </" action "Result>\n"                                                                      \
    "</" action "Response>\n"

static void expect_form(enum ks_sts_action action, const struct ks_role *role, ks_view token,
                        const char *expected)
{
    struct ks_bytes body;

    ks_bytes_init(&body, KS_STS_FORM_MAX);
    EXPECT_OK(ks_bytes_append(&body, KS_VIEW("of before")));
    EXPECT_OK(ks_sts_write(&body, action, role, token));
    EXPECT_OK(ks_bytes_append_byte(&body, '\0'));
    EXPECT_STR((const char *)body.data, expected);
    ks_bytes_free(&body);
}

TEST(the_form_says_what_the_role_says)
{
    struct ks_role role = {.arn = KS_VIEW("arn:aws:iam::1:role/a b")};

    expect_form(KS_STS_ASSUME_ROLE, &role, KS_VIEW_NONE,
                "Action=AssumeRole&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fa%20b"
                "&RoleSessionName=kinesis-sidecar");
    role = (struct ks_role){KS_VIEW("r"), KS_VIEW("me@host"), KS_VIEW("x&y=\xc3\xa4"), 900};
    expect_form(KS_STS_ASSUME_ROLE, &role, KS_VIEW_NONE,
                "Action=AssumeRole&Version=2011-06-15&RoleArn=r&RoleSessionName=me%40host"
                "&ExternalId=x%26y%3D%C3%A4&DurationSeconds=900");
    role = (struct ks_role){.arn = KS_VIEW("r")};
    expect_form(KS_STS_WEB_IDENTITY, &role, KS_VIEW("e.y-J_~"),
                "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=r"
                "&RoleSessionName=kinesis-sidecar&WebIdentityToken=e.y-J_~");
}

TEST(the_longest_role_fits_and_nothing_more)
{
    static uint8_t longest[KS_ROLE_ARN_MAX];
    struct ks_bytes body;
    struct ks_role role = {ks_view_of(longest, KS_ROLE_ARN_MAX),
                           ks_view_of(longest, KS_ROLE_SESSION_NAME_MAX),
                           ks_view_of(longest, KS_EXTERNAL_ID_MAX), 43200};

    memset(longest, ':', sizeof(longest));
    ks_bytes_init(&body, KS_STS_FORM_MAX);
    EXPECT_OK(ks_sts_write(&body, KS_STS_ASSUME_ROLE, &role, KS_VIEW_NONE));
    EXPECT_ERR(ks_sts_write(&body, KS_STS_ASSUME_ROLE, &role, role.arn), FULL);
    ks_bytes_free(&body);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

static ks_err read_answer(struct ks_provider *provider, enum ks_sts_action action, int status,
                          const char *body, struct ks_failure *ret_failure)
{
    struct ks_http_answer answer = {.status = status,
                                    .head = KS_VIEW("Date: Thu, 01 Jan 2026 00:00:00 GMT\r\n"),
                                    .body = ks_view_text(body)};

    *provider = (struct ks_provider){.err = KS_OK};
    return ks_sts_read(provider, action, &answer, ret_failure);
}

TEST(both_answers_hold_credentials)
{
    struct ks_provider provider;
    struct ks_failure failure;

    EXPECT_OK(read_answer(&provider, KS_STS_ASSUME_ROLE, 200, ANSWER("AssumeRole"), &failure));
    EXPECT_STR(provider.credentials.access_key, "ASIA1");
    EXPECT_STR(provider.credentials.secret_key, "SEC&RET");
    EXPECT_STR(provider.credentials.token, "TOK/+==");
    EXPECT_STR(provider.credentials.account, "210987654321");
    EXPECT_EQ_I64(provider.credentials.life.us, INT64_C(3600000000));
    EXPECT_OK(read_answer(&provider, KS_STS_WEB_IDENTITY, 200, ANSWER("AssumeRoleWithWebIdentity"),
                          &failure));
    EXPECT_STR(provider.credentials.access_key, "ASIA1");
    EXPECT_ERR(read_answer(&provider, KS_STS_ASSUME_ROLE, 200, ANSWER("AssumeRoleWithWebIdentity"),
                           &failure),
               MALFORMED);
    EXPECT_EQ_I64(failure.status, 0);
}

TEST(an_answer_without_one_of_them_holds_none)
{
    static const char *const names[] = {"AccessKeyId", "SecretAccessKey", "SessionToken",
                                        "Expiration"};
    char body[sizeof(ANSWER("AssumeRole"))];
    struct ks_provider provider;
    struct ks_failure failure;

    for (size_t at = 0; at < sizeof(names) / sizeof(names[0]); at++) {
        memcpy(body, ANSWER("AssumeRole"), sizeof(body));
        for (char *name = body; (name = strstr(name, names[at])) != NULL;)
            *name = 'x';
        EXPECT_ERR(read_answer(&provider, KS_STS_ASSUME_ROLE, 200, body, &failure), MALFORMED);
    }
}

TEST(a_failure_says_its_code)
{
    struct ks_provider provider;
    struct ks_failure failure;

    EXPECT_ERR(read_answer(&provider, KS_STS_ASSUME_ROLE, 403,
                           "<ErrorResponse><Error><Type>Sender</Type><Code>ExpiredToken</Code>"
                           "<Message>The security token is expired</Message></Error>"
                           "<RequestId>r</RequestId></ErrorResponse>",
                           &failure),
               DENIED);
    EXPECT(failure.token_expired);
    EXPECT_STR(failure.code, "ExpiredToken");
    EXPECT_CONTAINS(provider.detail.text, "ExpiredToken on STS AssumeRole: The security");
    EXPECT_ERR(read_answer(&provider, KS_STS_WEB_IDENTITY, 503, "<html>busy", &failure), SERVER);
    EXPECT_CONTAINS(provider.detail.text, "status 503 on STS AssumeRoleWithWebIdentity");
}
