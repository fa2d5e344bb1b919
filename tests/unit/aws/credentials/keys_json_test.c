/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/credentials/keys_json.h"

#include "ks_test.h"

#include <string.h>

static ks_err read_answer(struct ks_provider *provider, int status, const char *body)
{
    struct ks_http_answer answer = {.status = status,
                                    .head = KS_VIEW("Date: Thu, 01 Jan 2026 00:00:00 GMT\r\n"),
                                    .body = ks_view_text(body)};

    *provider = (struct ks_provider){.err = KS_OK};
    return ks_keys_read_answer(provider, "the place", &answer);
}

#define PAIR "\"AccessKeyId\":\"AK\",\"SecretAccessKey\":\"hush\""

TEST(an_answer_holds_keys)
{
    struct ks_provider provider;

    EXPECT_OK(read_answer(&provider, 200,
                          "{\"Code\":\"Success\"," PAIR ",\"Token\":\"T\",\"Type\":\"AWS-HMAC\","
                          "\"Expiration\":\"2026-01-01T06:00:00Z\"}"));
    EXPECT_STR(provider.credentials.access_key, "AK");
    EXPECT_STR(provider.credentials.token, "T");
    EXPECT(provider.credentials.expires);
    EXPECT_EQ_I64(provider.credentials.life.us, INT64_C(21600000000));
    EXPECT_STR(provider.credentials.account, "");
    EXPECT_OK(read_answer(&provider, 200, "{" PAIR ",\"AccountId\":\"123456789012\"}"));
    EXPECT_STR(provider.credentials.account, "123456789012");
    EXPECT_OK(read_answer(&provider, 200, "{" PAIR ",\"Token\":null,\"Expiration\":null}"));
    EXPECT_STR(provider.credentials.token, "");
    EXPECT(!provider.credentials.expires);
}

TEST(an_answer_that_holds_none_is_told)
{
    static const char *const bodies[] = {"",
                                         "[]",
                                         "{\"AccessKeyId\":\"A\"}",
                                         "{" PAIR ",\"Expiration\":\"soon\"}",
                                         "{" PAIR ",\"Expiration\":1}",
                                         "{" PAIR "} {" PAIR "}",
                                         "{\"AccessKeyId\":1,\"SecretAccessKey\":\"hush\"}"};
    struct ks_provider provider;

    for (size_t at = 0; at < sizeof(bodies) / sizeof(bodies[0]); at++) {
        EXPECT_ERR(read_answer(&provider, 200, bodies[at]), MALFORMED);
        EXPECT_CONTAINS(provider.detail.text, "the place");
        EXPECT(strstr(provider.detail.text, "hush") == NULL);
    }
}

TEST(a_code_is_a_failure_whatever_the_status)
{
    struct ks_provider provider;

    EXPECT_ERR(read_answer(&provider, 400, "{\"Code\":\"AccessDenied\",\"Message\":\"no\"}"),
               DENIED);
    EXPECT_CONTAINS(provider.detail.text, "AccessDenied on the place credentials: no");
    EXPECT_ERR(read_answer(&provider, 200, "{\"Code\":\"AssumeRoleUnauthorizedAccess\"," PAIR "}"),
               SERVER);
    EXPECT_CONTAINS(provider.detail.text, "AssumeRoleUnauthorizedAccess");
    EXPECT_ERR(read_answer(&provider, 500, "gone"), SERVER);
    EXPECT_CONTAINS(provider.detail.text, "500");
}

static ks_err read_process(struct ks_provider *provider, const char *output)
{
    *provider = (struct ks_provider){.err = KS_OK};
    return ks_keys_read_process(provider, ks_view_text(output));
}

TEST(a_process_writes_version_1)
{
    struct ks_provider provider;

    EXPECT_OK(read_process(&provider, "{\"Version\":1," PAIR ",\"SessionToken\":\"T\","
                                      "\"Expiration\":\"2100-01-01T00:00:00+01:00\"}\n"));
    EXPECT_STR(provider.credentials.token, "T");
    EXPECT(provider.credentials.expires);
    EXPECT_OK(read_process(&provider, "{\"Version\":1," PAIR ",\"Token\":\"not this\"}"));
    EXPECT_STR(provider.credentials.token, "");
    EXPECT(!provider.credentials.expires);
    EXPECT_ERR(read_process(&provider, "{" PAIR "}"), UNSUPPORTED);
    EXPECT_ERR(read_process(&provider, "{\"Version\":2," PAIR "}"), UNSUPPORTED);
    EXPECT_ERR(read_process(&provider, "{\"Version\":\"1\"," PAIR "}"), UNSUPPORTED);
    EXPECT_ERR(read_process(&provider, "{\"Version\":1,\"AccessKeyId\":\"A\"}"), MALFORMED);
    EXPECT_ERR(read_process(&provider, "hush"), MALFORMED);
    EXPECT(strstr(provider.detail.text, "hush") == NULL);
    EXPECT_ERR(read_process(&provider, ""), MALFORMED);
}
