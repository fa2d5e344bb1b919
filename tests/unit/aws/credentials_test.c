/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/credentials.h"

#include "ks_test.h"

#include "aws/http.h"
#include "base/budget.h"
#include "http_script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A source over the container endpoint: what it gives and when it ends is in the script. */
struct house {
    struct ks_loop *loop;
    struct ks_http *http;
    struct http_script *script;
    struct ks_credentials_source *source;
};

#define KEYS(name, end)                                                                            \
    "{\"AccessKeyId\":\"" name "\",\"SecretAccessKey\":\"S\",\"Token\":\"T\",\"Expiration\":"      \
    "\"2026-01-01T" end "Z\"}"
#define DATE "Date: Thu, 01 Jan 2026 00:00:00 GMT\r\n"

struct waiting {
    struct ks_credentials_waiter waiter;
    int times;
    ks_err err;
    char access_key[KS_ACCESS_KEY_MAX + 1];
    struct ks_detail detail;
};

static void on_done(struct ks_credentials_waiter *waiter, ks_err err,
                    const struct ks_credentials *credentials, const struct ks_detail *detail)
{
    struct waiting *waiting = KS_LIST_ENTRY(waiter, struct waiting, waiter);

    EXPECT(ks_ok(err) == (credentials != NULL));
    waiting->times++;
    waiting->err = err;
    waiting->detail = *detail;
    snprintf(waiting->access_key, sizeof(waiting->access_key), "%s",
             credentials == NULL ? "" : credentials->access_key);
}

static void forget_environment(void)
{
    unsetenv("AWS_ACCESS_KEY_ID");
    unsetenv("AWS_PROFILE");
    unsetenv("AWS_DEFAULT_PROFILE");
    unsetenv("AWS_CONFIG_FILE");
    unsetenv("AWS_SHARED_CREDENTIALS_FILE");
    unsetenv("AWS_WEB_IDENTITY_TOKEN_FILE");
    unsetenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    unsetenv("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    unsetenv("AWS_CONTAINER_AUTHORIZATION_TOKEN");
    unsetenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    setenv("HOME", ks_test_dir(), 1);
}

static void open_house(struct house *house, const struct http_step *steps, size_t count)
{
    struct ks_http_options http = {.ca_bundle = NULL};
    struct ks_credentials_options options = {.seed = 1};

    forget_environment();
    *house = (struct house){.script = count == 0 ? NULL : http_script_start(steps, count)};
    if (house->script != NULL)
        setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", http_script_url(house->script), 1);
    EXPECT_OK(ks_loop_new(&house->loop));
    EXPECT_OK(ks_http_new(house->loop, &http, &house->http, NULL));
    options.loop = house->loop;
    options.http = house->http;
    EXPECT_OK(ks_credentials_source_new(&options, &house->source, NULL));
}

static void close_house(struct house *house)
{
    ks_credentials_source_free(house->source);
    ks_http_free(house->http);
    ks_loop_free(house->loop);
    if (house->script != NULL)
        http_script_stop(house->script);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

static void wait_for(struct house *house, struct waiting *waiting)
{
    int before = waiting->times;

    waiting->waiter.done = on_done;
    ks_credentials_wait(house->source, &waiting->waiter);
    EXPECT_EQ_I64(waiting->times, before);
    while (waiting->times == before)
        ks_loop_turn(house->loop, ks_span_ms(20));
    EXPECT_EQ_I64(waiting->times, before + 1);
}

static void turn_for(struct house *house, int64_t ms)
{
    ks_instant end;

    ks_loop_turn(house->loop, ks_span_ms(0));
    end = ks_instant_add(ks_loop_now(house->loop), ks_span_ms(ms));
    while (!ks_instant_reached(ks_loop_now(house->loop), end))
        ks_loop_turn(house->loop, ks_span_ms(10));
}

TEST(those_who_wait_share_one_fetch)
{
    static const struct http_step steps[] = {{.headers = DATE, .body = KEYS("ONE", "06:00:00")}};
    struct house house;
    struct waiting waiting[5];

    open_house(&house, steps, 1);
    EXPECT(ks_credentials_now(house.source) == NULL);
    memset(waiting, 0, sizeof(waiting));
    for (int i = 0; i < 5; i++) {
        waiting[i].waiter.done = on_done;
        ks_credentials_wait(house.source, &waiting[i].waiter);
    }
    ks_credentials_unwait(&waiting[2].waiter);
    while (waiting[4].times == 0)
        ks_loop_turn(house.loop, ks_span_ms(20));
    for (int i = 0; i < 5; i++) {
        EXPECT_EQ_I64(waiting[i].times, i == 2 ? 0 : 1);
        EXPECT_STR(waiting[i].access_key, i == 2 ? "" : "ONE");
    }
    EXPECT_EQ_U64(http_script_count(house.script), 1);
    EXPECT_STR(ks_credentials_now(house.source)->access_key, "ONE");
    /* One who comes late is answered all the same. */
    wait_for(&house, &waiting[0]);
    EXPECT_EQ_U64(http_script_count(house.script), 1);
    close_house(&house);
}

TEST(they_are_renewed_before_they_end_and_nobody_waits)
{
    static const struct http_step steps[] = {{.headers = DATE, .body = KEYS("ONE", "00:00:03")},
                                             {.headers = DATE, .body = KEYS("TWO", "06:00:00")}};
    struct house house;
    struct waiting waiting = {.times = 0};

    open_house(&house, steps, 2);
    wait_for(&house, &waiting);
    EXPECT_STR(waiting.access_key, "ONE");
    /* Advisory after at most half of the 3 s, mandatory after at most three quarters. */
    for (int i = 0; i < 40 && http_script_count(house.script) < 2; i++) {
        const struct ks_credentials *now = ks_credentials_now(house.source);
        EXPECT(now != NULL);
        turn_for(&house, 50);
    }
    EXPECT_EQ_U64(http_script_count(house.script), 2);
    turn_for(&house, 100);
    EXPECT_STR(ks_credentials_now(house.source)->access_key, "TWO");
    close_house(&house);
}

TEST(close_to_the_end_new_ones_are_waited_for)
{
    static const struct http_step steps[] = {
        {.headers = DATE, .body = KEYS("ONE", "00:00:02")},
        {.wait_ms = 100, .headers = DATE, .body = KEYS("TWO", "06:00:00")}};
    struct house house;
    struct waiting waiting = {.times = 0};

    open_house(&house, steps, 2);
    wait_for(&house, &waiting);
    turn_for(&house, 1600);
    EXPECT(ks_credentials_now(house.source) == NULL);
    wait_for(&house, &waiting);
    EXPECT_STR(waiting.access_key, "TWO");
    close_house(&house);
}

TEST(the_old_ones_are_used_while_a_refresh_fails)
{
    static const struct http_step steps[] = {{.headers = DATE, .body = KEYS("ONE", "00:00:03")},
                                             {.status = 400, .body = "{\"Code\":\"Gone\"}"}};
    struct house house;
    struct waiting waiting = {.times = 0};
    struct ks_detail detail;

    open_house(&house, steps, 2);
    wait_for(&house, &waiting);
    turn_for(&house, 1550);
    EXPECT_STR(ks_credentials_now(house.source)->access_key, "ONE");
    turn_for(&house, 200);
    EXPECT(ks_err_is(ks_credentials_state(house.source, &detail), KS_ERR_INVALID));
    EXPECT_CONTAINS(detail.text, "Gone");
    /* Also beyond the mandatory instant: they are still good. */
    for (int i = 0; i < 10; i++) {
        EXPECT_STR(ks_credentials_now(house.source)->access_key, "ONE");
        turn_for(&house, 90);
    }
    turn_for(&house, 600);
    EXPECT(ks_credentials_now(house.source) == NULL);
    wait_for(&house, &waiting);
    EXPECT(ks_err_is(waiting.err, KS_ERR_INVALID));
    close_house(&house);
}

TEST(a_failure_is_remembered_for_a_while)
{
    static const struct http_step steps[] = {{.status = 400, .body = "{\"Code\":\"Gone\"}"}};
    struct house house;
    struct waiting waiting = {.times = 0};

    open_house(&house, steps, 1);
    wait_for(&house, &waiting);
    EXPECT(ks_err_is(waiting.err, KS_ERR_INVALID));
    for (int i = 0; i < 20; i++)
        wait_for(&house, &waiting);
    EXPECT(ks_err_is(waiting.err, KS_ERR_INVALID));
    EXPECT_CONTAINS(waiting.detail.text, "Gone");
    EXPECT_EQ_U64(http_script_count(house.script), 1);
    turn_for(&house, 1100);
    wait_for(&house, &waiting);
    EXPECT_EQ_U64(http_script_count(house.script), 2);
    close_house(&house);
}

TEST(credentials_that_come_dead_are_a_failure)
{
    static const struct http_step steps[] = {{.headers = DATE, .body = KEYS("ONE", "00:00:00")}};
    struct house house;
    struct waiting waiting = {.times = 0};

    open_house(&house, steps, 1);
    wait_for(&house, &waiting);
    EXPECT(ks_err_is(waiting.err, KS_ERR_SERVER));
    EXPECT_CONTAINS(waiting.detail.text, "expired");
    close_house(&house);
}

TEST(young_ones_are_not_dropped)
{
    static const struct http_step steps[] = {{.headers = DATE, .body = KEYS("ONE", "06:00:00")}};
    struct house house;
    struct waiting waiting = {.times = 0};

    open_house(&house, steps, 1);
    ks_credentials_expired(house.source);
    wait_for(&house, &waiting);
    ks_credentials_expired(house.source);
    EXPECT_STR(ks_credentials_now(house.source)->access_key, "ONE");
    close_house(&house);
}

TEST(the_environment_comes_before_the_container)
{
    static const struct http_step steps[] = {{.headers = DATE, .body = KEYS("ONE", "06:00:00")}};
    struct house house;
    struct waiting waiting = {.times = 0};

    open_house(&house, steps, 1);
    setenv("AWS_ACCESS_KEY_ID", "ENV", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "S", 1);
    wait_for(&house, &waiting);
    EXPECT_STR(waiting.access_key, "ENV");
    EXPECT_EQ_U64(http_script_count(house.script), 0);
    close_house(&house);
}

TEST(a_role_in_the_profile_is_told_and_not_passed_over)
{
    static const struct http_step steps[] = {{.headers = DATE, .body = KEYS("ONE", "06:00:00")}};
    struct house house;
    struct waiting waiting = {.times = 0};
    FILE *config = fopen(ks_test_path("config"), "w");

    EXPECT(config != NULL);
    EXPECT(fputs("[default]\nrole_arn = arn:x\n", config) >= 0);
    fclose(config);
    open_house(&house, steps, 1);
    setenv("AWS_CONFIG_FILE", ks_test_path("config"), 1);
    wait_for(&house, &waiting);
    EXPECT(ks_err_is(waiting.err, KS_ERR_UNSUPPORTED));
    close_house(&house);
}

TEST(nobody_has_any)
{
    struct house house;
    struct waiting waiting = {.times = 0};

    open_house(&house, NULL, 0);
    wait_for(&house, &waiting);
    EXPECT(ks_err_is(waiting.err, KS_ERR_NO_CREDENTIALS));
    EXPECT_CONTAINS(waiting.detail.text, "no AWS credentials");
    close_house(&house);
}

TEST(a_profile_that_an_option_names_is_asked_alone)
{
    struct house house;
    struct waiting waiting = {.times = 0};
    struct ks_credentials_options options = {.profile = "prod"};
    struct ks_detail detail;
    char longer[KS_PROFILE_NAME_MAX + 2];

    open_house(&house, NULL, 0);
    ks_credentials_source_free(house.source);
    setenv("AWS_ACCESS_KEY_ID", "ENV", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "S", 1);
    options.loop = house.loop;
    options.http = house.http;
    EXPECT_OK(ks_credentials_source_new(&options, &house.source, &detail));
    wait_for(&house, &waiting);
    EXPECT(ks_err_is(waiting.err, KS_ERR_INVALID));
    EXPECT_CONTAINS(waiting.detail.text, "prod");

    struct ks_credentials_source *refused;
    memset(longer, 'x', sizeof(longer));
    longer[sizeof(longer) - 1] = '\0';
    options.profile = longer;
    EXPECT(!ks_ok(ks_credentials_source_new(&options, &refused, &detail)));
    close_house(&house);
}

TEST(every_allocation_of_the_start_may_fail)
{
    struct house house;
    struct ks_credentials_options options = {.seed = 1};
    struct ks_credentials_source *source = NULL;
    struct ks_detail detail;
    ks_err err = KS_FAIL(NO_MEMORY);

    open_house(&house, NULL, 0);
    options.loop = house.loop;
    options.http = house.http;
    int64_t live = ks_alloc_live();
    for (uint64_t n = 1; !ks_ok(err); n++) {
        ks_alloc_fail_after(n, 0);
        err = ks_credentials_source_new(&options, &source, &detail);
        ks_alloc_fail_after(0, 0);
        EXPECT(ks_ok(err) || (ks_err_is(err, KS_ERR_NO_MEMORY) && ks_alloc_live() == live));
    }
    ks_credentials_source_free(source);
    EXPECT_EQ_I64(ks_alloc_live(), live);
    close_house(&house);
}
