/* SPDX-License-Identifier: Apache-2.0 */
/* Whether STS takes the signature is tested end to end (tests/e2e/credentials_test.py). */
#include "asking.h"

#include "ks_test.h"

#include "base/budget.h"
#include "base/codec.h"
#include "http_script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define REFUSAL(code)                                                                              \
    "<ErrorResponse><Error><Code>" code "</Code><Message>m</Message></Error></ErrorResponse>"

static struct http_script *open_role(struct asking *asking, const struct ks_role *role,
                                     const struct http_step *steps, size_t count)
{
    struct http_script *script = http_script_start(steps, count);
    struct ks_provider *base = NULL;

    asking_open(asking);
    asking_sts(asking, http_script_url(script));
    EXPECT_OK(ks_provider_keys_new(&asking->setup,
                                   &(struct ks_plan){.access_key = KS_VIEW("AKBASE"),
                                                     .secret_key = KS_VIEW("hush"),
                                                     .token = KS_VIEW("BASETOKEN")},
                                   &base));
    EXPECT_OK(ks_provider_assume_role_new(&asking->setup, base, role, &asking->provider));
    return script;
}

static void close_role(struct asking *asking, struct http_script *script)
{
    asking_close(asking);
    http_script_stop(script);
}

static const struct ks_role PLAIN = {.arn = {(const uint8_t *)"arn:r", 5}};

TEST(where_sts_cannot_be_is_told_when_it_is_asked)
{
    static const struct http_step steps[] = {{.status = 500}};
    struct asking asking;
    struct http_script *script = open_role(&asking, &PLAIN, steps, 1);

    asking.sts.dualstack = true;
    asking_fetch(&asking);
    EXPECT_ERR(asking.err, INVALID);
    EXPECT_CONTAINS(asking.detail.text, "cannot go together with dual-stack endpoints");
    EXPECT_EQ_U64(http_script_count(script), 0);
    close_role(&asking, script);
}

TEST(the_role_is_asked_for_with_the_keys_of_the_base)
{
    static const struct http_step steps[] = {
        {.headers = ASKING_DATE, .body = ASKING_STS("AssumeRole", "ASIA1", "01:00:00")}};
    struct ks_role role = {KS_VIEW("arn:r"), KS_VIEW("me"), KS_VIEW("ex"), 1200};
    struct asking asking;
    struct http_script *script = open_role(&asking, &role, steps, 1);

    asking_fetch(&asking);
    EXPECT_OK(asking.err);
    EXPECT_STR(asking.credentials.access_key, "ASIA1");
    EXPECT_EQ_I64(asking.credentials.life.us, INT64_C(3600000000));
    const char *request = http_script_request(script, 0);
    EXPECT_CONTAINS(request, "POST / HTTP/1.1\r\n");
    EXPECT_CONTAINS(request, "\r\n\r\nAction=AssumeRole&Version=2011-06-15&RoleArn=arn%3Ar"
                             "&RoleSessionName=me&ExternalId=ex&DurationSeconds=1200");
    EXPECT_CONTAINS(request, "Authorization: AWS4-HMAC-SHA256 Credential=AKBASE/");
    EXPECT_CONTAINS(request, "/eu-west-1/sts/aws4_request, "
                             "SignedHeaders=content-type;host;x-amz-date;x-amz-security-token, ");
    EXPECT_CONTAINS(request, "X-Amz-Security-Token: BASETOKEN\r\n");
    close_role(&asking, script);
}

TEST(a_refusal_is_told_at_once_and_without_secrets)
{
    static const struct http_step steps[] = {{.status = 403, .body = REFUSAL("AccessDenied")},
                                             {.body = "<html>"}};
    struct asking asking;
    struct http_script *script = open_role(&asking, &PLAIN, steps, 2);

    asking_fetch(&asking);
    EXPECT_ERR(asking.err, DENIED);
    EXPECT_CONTAINS(asking.detail.text, "AccessDenied on STS AssumeRole: allow sts:AssumeRole to "
                                        "this role (kinesis-sidecar iam-policy): m");
    EXPECT(strstr(asking.detail.text, "hush") == NULL);
    EXPECT(strstr(asking.detail.text, "BASETOKEN") == NULL);
    asking_fetch(&asking);
    EXPECT_ERR(asking.err, MALFORMED);
    EXPECT_EQ_U64(http_script_count(script), 2);
    close_role(&asking, script);
}

TEST(failures_that_may_pass_are_tried_three_times)
{
    static const struct http_step steps[] = {
        {.status = 400, .body = REFUSAL("Throttling")},
        {.status = 503, .body = "busy"},
        {.headers = ASKING_DATE, .body = ASKING_STS("AssumeRole", "ASIA1", "01:00:00")}};
    struct asking asking;
    struct http_script *script = open_role(&asking, &PLAIN, steps, 3);

    asking_fetch(&asking);
    EXPECT_OK(asking.err);
    EXPECT_STR(asking.detail.text, "");
    EXPECT_EQ_U64(http_script_count(script), 3);
    close_role(&asking, script);
}

/* The instant that request `index` was signed for. */
static int64_t signed_at(struct http_script *script, size_t index)
{
    const char *date = strstr(http_script_request(script, index), "X-Amz-Date: ");
    char text[KS_TIMESTAMP_SIZE];
    int64_t ms = 0;

    EXPECT(date != NULL);
    date += strlen("X-Amz-Date: ");
    snprintf(text, sizeof(text), "%.4s-%.2s-%.5s:%.2s:%.2sZ", date, date + 4, date + 6, date + 11,
             date + 13);
    EXPECT_OK(ks_timestamp_parse(ks_view_text(text), &ms));
    return ms;
}

/* "Date: .." so many seconds from now. */
static void date_line(char line[64], int seconds)
{
    time_t at = (time_t)(ks_wall_now().ms / 1000) + seconds;
    struct tm utc;

    strftime(line, 64, "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", gmtime_r(&at, &utc));
}

TEST(a_clock_that_is_wrong_is_corrected_and_stays_so)
{
    enum { AHEAD_S = 5 * 3600 };
    char theirs[64];

    date_line(theirs, AHEAD_S);
    const struct http_step steps[] = {
        {.status = 403, .headers = theirs, .body = REFUSAL("SignatureDoesNotMatch")},
        {.headers = ASKING_DATE, .body = ASKING_STS("AssumeRole", "ASIA1", "01:00:00")},
        {.headers = ASKING_DATE, .body = ASKING_STS("AssumeRole", "ASIA2", "01:00:00")}};
    const int64_t there = ks_wall_now().ms + AHEAD_S * 1000;
    struct asking asking;
    struct http_script *script = open_role(&asking, &PLAIN, steps, 3);

    asking_fetch(&asking);
    EXPECT_OK(asking.err);
    EXPECT(llabs(signed_at(script, 0) - ks_wall_now().ms) < 60000);
    EXPECT(llabs(signed_at(script, 1) - there) < 60000);
    asking_fetch(&asking);
    EXPECT_STR(asking.credentials.access_key, "ASIA2");
    EXPECT(llabs(signed_at(script, 2) - there) < 60000);
    close_role(&asking, script);
}

TEST(a_signature_that_is_refused_for_another_reason_is_not_sent_again)
{
    char now[64];

    date_line(now, 0);
    const struct http_step steps[] = {
        {.status = 403, .headers = now, .body = REFUSAL("SignatureDoesNotMatch")}};
    struct asking asking;
    struct http_script *script = open_role(&asking, &PLAIN, steps, 1);

    asking_fetch(&asking);
    EXPECT_ERR(asking.err, DENIED);
    EXPECT_EQ_U64(http_script_count(script), 1);
    close_role(&asking, script);
}

/* --- The base --- */

static int told_expired;

static void note_expired(struct ks_provider *provider, const char *access_key)
{
    (void)provider;
    EXPECT_STR(access_key, "A");
    told_expired++;
}

TEST(a_base_whose_token_has_expired_is_told)
{
    static const struct http_step steps[] = {{.status = 403, .body = REFUSAL("ExpiredToken")}};
    struct http_script *script = http_script_start(steps, 1);
    struct asking asking;
    struct ks_provider *base = NULL;

    asking_open(&asking);
    asking_sts(&asking, http_script_url(script));
    EXPECT_OK(ks_provider_keys_new(&asking.setup,
                                   &(struct ks_plan){.access_key = KS_VIEW("A"),
                                                     .secret_key = KS_VIEW("S"),
                                                     .token = KS_VIEW("T")},
                                   &base));
    struct ks_provider_vtable vtable = *base->vtable;
    vtable.expired = note_expired;
    base->vtable = &vtable;
    EXPECT_OK(ks_provider_assume_role_new(&asking.setup, base, &PLAIN, &asking.provider));
    asking_fetch(&asking);
    EXPECT_ERR(asking.err, DENIED);
    EXPECT_EQ_I64(told_expired, 1);
    close_role(&asking, script);
}

TEST(what_the_base_cannot_give_is_told)
{
    struct asking asking;
    struct ks_provider *base = NULL;

    asking_open(&asking);
    EXPECT_OK(ks_provider_environment_new(&asking.setup, &base));
    EXPECT_OK(ks_provider_assume_role_new(&asking.setup, base, &PLAIN, &asking.provider));
    asking_fetch(&asking);
    EXPECT_ERR(asking.err, NO_CREDENTIALS);
    setenv("AWS_ACCESS_KEY_ID", "A", 1);
    asking_fetch(&asking);
    EXPECT_ERR(asking.err, INVALID);
    EXPECT_CONTAINS(asking.detail.text, "AWS_SECRET_ACCESS_KEY");
    asking_close(&asking);
}

TEST(a_role_stands_on_a_role)
{
    static const struct http_step steps[] = {
        {.headers = ASKING_DATE, .body = ASKING_STS("AssumeRole", "ASIA1", "01:00:00")},
        {.headers = ASKING_DATE, .body = ASKING_STS("AssumeRole", "ASIA2", "01:00:00")}};
    struct asking asking;
    struct http_script *script = open_role(&asking, &PLAIN, steps, 2);
    struct ks_role second = {.arn = KS_VIEW("arn:s")};

    EXPECT_OK(
        ks_provider_assume_role_new(&asking.setup, asking.provider, &second, &asking.provider));
    asking_fetch(&asking);
    EXPECT_OK(asking.err);
    EXPECT_STR(asking.credentials.access_key, "ASIA2");
    EXPECT_CONTAINS(http_script_request(script, 0), "RoleArn=arn%3Ar&");
    EXPECT_CONTAINS(http_script_request(script, 0), "Credential=AKBASE/");
    EXPECT_CONTAINS(http_script_request(script, 1), "RoleArn=arn%3As&");
    EXPECT_CONTAINS(http_script_request(script, 1), "Credential=ASIA1/");
    close_role(&asking, script);
}

/* --- Life --- */

TEST(closing_ends_what_is_under_way)
{
    static const struct http_step steps[] = {{.silent = true}};
    struct asking asking;
    struct http_script *script = open_role(&asking, &PLAIN, steps, 1);

    asking.provider->vtable->fetch(asking.provider);
    while (http_script_count(script) < 1)
        ks_loop_turn(asking.loop, ks_span_ms(5));
    close_role(&asking, script);
    EXPECT_EQ_I64(asking.answers, 0);
}

TEST(what_is_too_long_is_refused_and_the_base_closed)
{
    static char longest[KS_ROLE_ARN_MAX + 1];
    ks_view too_long = ks_view_of(longest, sizeof(longest));
    const struct ks_role roles[] = {{.arn = too_long},
                                    {.arn = KS_VIEW("r"), .session_name = too_long},
                                    {.arn = KS_VIEW("r"), .external_id = too_long}};
    struct asking asking;
    struct ks_provider *base;
    struct ks_provider *provider;

    memset(longest, 'x', sizeof(longest));
    asking_open(&asking);
    int64_t live = ks_alloc_live();
    for (size_t at = 0; at < 3; at++) {
        EXPECT_OK(ks_provider_environment_new(&asking.setup, &base));
        EXPECT_ERR(ks_provider_assume_role_new(&asking.setup, base, &roles[at], &provider),
                   INVALID);
        EXPECT_EQ_I64(ks_alloc_live(), live);
    }
    EXPECT_OK(ks_provider_environment_new(&asking.setup, &base));
    ks_alloc_fail_after(1, 0);
    EXPECT_ERR(ks_provider_assume_role_new(&asking.setup, base, &PLAIN, &provider), NO_MEMORY);
    EXPECT_EQ_I64(ks_alloc_live(), live);
    EXPECT_OK(ks_provider_environment_new(&asking.setup, &asking.provider));
    asking_close(&asking);
}
