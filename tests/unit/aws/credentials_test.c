/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/credentials.h"

#include "ks_test.h"

#include "aws/http.h"
#include "base/budget.h"
#include "base/metrics.h"
#include "base/prng.h"
#include "credentials/asking.h"
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

static void open_house(struct house *house, const struct http_step *steps, size_t count)
{
    struct ks_http_options http = {.ca_bundle = NULL};
    struct ks_credentials_options options = {.seed = 1};

    asking_forget_environment();
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

static struct ks_endpoint_rules sts_at(const struct http_script *script)
{
    return (struct ks_endpoint_rules){
        .service = "sts", .region = "us-east-1", .url = http_script_url(script)};
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

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    EXPECT(file != NULL);
    EXPECT(fputs(text, file) >= 0);
    fclose(file);
}

TEST(those_who_wait_share_one_fetch)
{
    static const struct http_step steps[] = {
        {.headers = ASKING_DATE, .body = KEYS("ONE", "06:00:00")}};
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
    static const struct http_step steps[] = {
        {.headers = ASKING_DATE, .body = KEYS("ONE", "00:00:03")},
        {.headers = ASKING_DATE, .body = KEYS("TWO", "06:00:00")}};
    struct house house;
    struct waiting waiting = {.times = 0};

    open_house(&house, steps, 2);
    wait_for(&house, &waiting);
    EXPECT_STR(waiting.access_key, "ONE");
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

TEST(new_ones_are_asked_for_in_good_time_and_not_in_step)
{
    static const int minute_ms = 60000;
    static const struct {
        int life_ms;
        int most_ms;
        int jitter_ms;
    } cases[] = {{360 * minute_ms, 345 * minute_ms, minute_ms},
                 {60 * minute_ms, 45 * minute_ms, minute_ms},
                 {20 * minute_ms, 10 * minute_ms, minute_ms},
                 {4000, 2000, 500}};
    struct ks_prng prng;

    ks_prng_init(&prng, 3);
    for (size_t at = 0; at < sizeof(cases) / sizeof(cases[0]); at++) {
        int64_t least = INT64_MAX;
        int64_t most = 0;

        for (int i = 0; i < 1000; i++) {
            ks_span after = ks_credentials_refresh_after(ks_span_ms(cases[at].life_ms), &prng);
            least = ks_span_to_ms(after) < least ? ks_span_to_ms(after) : least;
            most = ks_span_to_ms(after) > most ? ks_span_to_ms(after) : most;
        }
        EXPECT(most <= cases[at].most_ms && most > cases[at].most_ms - cases[at].jitter_ms / 10);
        EXPECT(least >= cases[at].most_ms - cases[at].jitter_ms);
        EXPECT(least < cases[at].most_ms - cases[at].jitter_ms * 9 / 10);
    }
}

TEST(nobody_waits_for_new_ones_before_the_old_ones_have_ended)
{
    static const struct http_step steps[] = {
        {.headers = ASKING_DATE, .body = KEYS("ONE", "00:00:02")},
        {.wait_ms = 1800, .headers = ASKING_DATE, .body = KEYS("TWO", "06:00:00")}};
    struct house house;
    struct waiting waiting = {.times = 0};

    open_house(&house, steps, 2);
    wait_for(&house, &waiting);
    while (http_script_count(house.script) < 2) {
        EXPECT_STR(ks_credentials_now(house.source)->access_key, "ONE");
        turn_for(&house, 20);
    }
    /* While they are fetched, to the end; then there are none. */
    while (ks_credentials_now(house.source) != NULL) {
        EXPECT_STR(ks_credentials_now(house.source)->access_key, "ONE");
        turn_for(&house, 20);
    }
    wait_for(&house, &waiting);
    EXPECT_STR(waiting.access_key, "TWO");
    close_house(&house);
}

TEST(the_old_ones_are_used_while_a_refresh_fails)
{
    static const struct http_step steps[] = {
        {.headers = ASKING_DATE, .body = KEYS("ONE", "00:00:03")},
        {.status = 400, .body = "{\"Code\":\"Gone\"}"}};
    struct house house;
    struct waiting waiting = {.times = 0};
    struct ks_detail detail;

    open_house(&house, steps, 2);
    const ks_instant good_until = ks_instant_add(ks_instant_now(), ks_span_ms(2900));
    wait_for(&house, &waiting);
    /* Who uses them has them renewed. */
    while (ks_ok(ks_credentials_state(house.source, &detail)) &&
           ks_credentials_now(house.source) != NULL)
        ks_loop_turn(house.loop, ks_span_ms(20));
    EXPECT(ks_err_is(ks_credentials_state(house.source, &detail), KS_ERR_INVALID));
    EXPECT_CONTAINS(detail.text, "Gone");
    /* To their end: they are still good. */
    for (bool good = true; good; ks_loop_turn(house.loop, ks_span_ms(20))) {
        const struct ks_credentials *now = ks_credentials_now(house.source);
        const bool is_one = now != NULL && strcmp(now->access_key, "ONE") == 0;

        good = ks_instant_before(ks_instant_now(), good_until);
        EXPECT(is_one || !good);
    }
    while (ks_credentials_now(house.source) != NULL)
        ks_loop_turn(house.loop, ks_span_ms(20));
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
    static const struct http_step steps[] = {
        {.headers = ASKING_DATE, .body = KEYS("ONE", "00:00:00")}};
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
    static const struct http_step steps[] = {
        {.headers = ASKING_DATE, .body = KEYS("ONE", "06:00:00")}};
    struct house house;
    struct waiting waiting = {.times = 0};

    open_house(&house, steps, 1);
    ks_credentials_expired(house.source, "ONE");
    wait_for(&house, &waiting);
    ks_credentials_expired(house.source, "ONE");
    EXPECT_STR(ks_credentials_now(house.source)->access_key, "ONE");
    close_house(&house);
}

TEST(late_answer_to_former_keys_keeps_the_present_ones)
{
    static const struct http_step steps[] = {
        {.headers = ASKING_DATE, .body = KEYS("TWO", "06:00:00")}};
    struct house house;
    struct waiting waiting = {.times = 0};

    open_house(&house, steps, 1);
    wait_for(&house, &waiting);
    turn_for(&house, 5100); /* They are not young any more. */
    ks_credentials_expired(house.source, "ONE");
    EXPECT(ks_credentials_now(house.source) != NULL);
    EXPECT_STR(ks_credentials_now(house.source)->access_key, "TWO");
    ks_credentials_expired(house.source, "TWO");
    EXPECT(ks_credentials_now(house.source) == NULL);
    close_house(&house);
}

TEST(the_environment_comes_before_the_container)
{
    static const struct http_step steps[] = {
        {.headers = ASKING_DATE, .body = KEYS("ONE", "06:00:00")}};
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

TEST(a_profile_that_cannot_be_is_told_and_not_passed_over)
{
    static const struct http_step steps[] = {
        {.headers = ASKING_DATE, .body = KEYS("ONE", "06:00:00")}};
    struct house house;
    struct waiting waiting = {.times = 0};

    open_house(&house, steps, 1);
    asking_set_files("[default]\nrole_arn = arn:x\n", "");
    wait_for(&house, &waiting);
    EXPECT_ERR(waiting.err, INVALID);
    EXPECT_CONTAINS(waiting.detail.text, "source_profile");
    EXPECT_EQ_U64(http_script_count(house.script), 0);
    close_house(&house);
}

/* --- Every place, in order --- */

/* Config files that say ever less. */
#define CONFIG_KEYS "aws_access_key_id=CONFIG\naws_secret_access_key=S\n"
#define PROCESS                                                                                    \
    "credential_process = printf "                                                                 \
    "'{\"Version\":1,\"AccessKeyId\":\"PROCESS\",\"SecretAccessKey\":\"S\"}'\n"
#define ROLE "role_arn=arn:r\ncredential_source=EcsContainer\n"
#define FILE_KEYS "[default]\naws_access_key_id=FILE\naws_secret_access_key=S\n"

TEST(every_place_comes_before_those_behind_it)
{
    static const struct http_step container[] = {
        {.headers = ASKING_DATE, .body = KEYS("CONTAINER", "06:00:00")}};
    static const struct http_step role[] = {
        {.headers = ASKING_DATE, .body = ASKING_STS("AssumeRole", "ROLE", "01:00:00")}};
    static const struct http_step web[] = {
        {.headers = ASKING_DATE,
         .body = ASKING_STS("AssumeRoleWithWebIdentity", "WEB", "01:00:00")}};
    static const struct http_step instance[] = {
        {.body = "token"},
        {.body = "role"},
        {.headers = ASKING_DATE, .body = KEYS("INSTANCE", "06:00:00")}};
    /* Each takes away what the one before it found. */
    static const struct place {
        const char *found;
        const char *gone; /* A variable; NULL: the files change. */
        const char *config;
        const char *credentials;
    } places[] = {
        {"ENV", NULL, "[default]\n" CONFIG_KEYS PROCESS ROLE, FILE_KEYS},
        {"ROLE", "AWS_ACCESS_KEY_ID", "[default]\n" CONFIG_KEYS PROCESS ROLE, FILE_KEYS},
        {"WEB", NULL, "[default]\n" CONFIG_KEYS PROCESS, FILE_KEYS},
        {"FILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "[default]\n" CONFIG_KEYS PROCESS, FILE_KEYS},
        {"PROCESS", NULL, "[default]\n" CONFIG_KEYS PROCESS, ""},
        {"CONFIG", NULL, "[default]\n" CONFIG_KEYS, ""},
        {"CONTAINER", NULL, "[default]\n", ""},
        {"INSTANCE", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "", ""},
    };
    struct http_script *imds = http_script_start(instance, 3);
    struct http_script *sts[] = {http_script_start(role, 1), http_script_start(web, 1)};
    struct house house;
    const char *const paths[] = {ks_test_path("config"), ks_test_path("credentials")};

    open_house(&house, container, 1);
    setenv("AWS_CONFIG_FILE", paths[0], 1);
    setenv("AWS_SHARED_CREDENTIALS_FILE", paths[1], 1);
    setenv("AWS_ACCESS_KEY_ID", "ENV", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "S", 1);
    setenv("AWS_WEB_IDENTITY_TOKEN_FILE", asking_file("token", "eyJ"), 1);
    setenv("AWS_ROLE_ARN", "arn:w", 1);
    setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", http_script_url(imds), 1);
    unsetenv("AWS_EC2_METADATA_DISABLED");
    for (size_t at = 0; at < sizeof(places) / sizeof(places[0]); at++) {
        const struct place *place = &places[at];
        struct ks_endpoint_rules asked;
        struct ks_credentials_options options = {
            .loop = house.loop, .http = house.http, .sts = &asked};
        struct waiting waiting = {.times = 0};

        write_file(paths[0], place->config);
        write_file(paths[1], place->credentials);
        if (place->gone != NULL)
            unsetenv(place->gone);
        asked = sts_at(sts[strcmp(place->found, "WEB") == 0 ? 1 : 0]);
        ks_credentials_source_free(house.source);
        EXPECT_OK(ks_credentials_source_new(&options, &house.source, NULL));
        wait_for(&house, &waiting);
        EXPECT_STR(waiting.access_key, place->found);
    }
    http_script_stop(imds);
    http_script_stop(sts[0]);
    http_script_stop(sts[1]);
    close_house(&house);
}

/* --- Static stability --- */

/* A source that asks the instance metadata service. */
static void open_instance(struct house *house, const struct http_step *steps, size_t count)
{
    open_house(house, steps, count);
    unsetenv("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    unsetenv("AWS_EC2_METADATA_DISABLED");
    setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", http_script_url(house->script), 1);
}

TEST(those_of_an_instance_are_used_beyond_their_end_while_no_others_come)
{
    static const struct http_step steps[] = {
        {.body = "token"},
        {.body = "role"},
        {.headers = ASKING_DATE, .body = KEYS("ONE", "00:00:01")},
        {.status = 400}};
    struct house house;
    struct waiting waiting = {.times = 0};
    struct ks_detail detail;

    open_instance(&house, steps, 4);
    wait_for(&house, &waiting);
    EXPECT_STR(waiting.access_key, "ONE");
    while (http_script_count(house.script) < 4) {
        (void)ks_credentials_now(house.source);
        turn_for(&house, 20);
    }
    turn_for(&house, 1200);
    EXPECT_ERR(ks_credentials_state(house.source, &detail), INVALID);
    EXPECT_STR(ks_credentials_now(house.source)->access_key, "ONE");
    wait_for(&house, &waiting);
    EXPECT_OK(waiting.err);
    close_house(&house);
}

TEST(those_of_an_instance_that_come_dead_are_used_and_not_asked_for_again_at_once)
{
    static const struct http_step steps[] = {
        {.body = "token"},
        {.body = "role"},
        {.headers = ASKING_DATE, .body = KEYS("ONE", "00:00:00")}};
    struct house house;
    struct waiting waiting = {.times = 0};

    open_instance(&house, steps, 3);
    wait_for(&house, &waiting);
    EXPECT_OK(waiting.err);
    turn_for(&house, 100);
    EXPECT_STR(ks_credentials_now(house.source)->access_key, "ONE");
    turn_for(&house, 100);
    EXPECT_EQ_U64(http_script_count(house.script), 3);
    close_house(&house);
}

/* --- A role on another source --- */

TEST(a_role_is_assumed_with_what_another_source_has_and_kept_fresh)
{
    static const struct http_step base[] = {
        {.headers = ASKING_DATE, .body = KEYS("BASE", "06:00:00")}};
    static const struct http_step steps[] = {
        {.headers = ASKING_DATE, .body = ASKING_STS("AssumeRole", "ONE", "00:00:02")},
        {.headers = ASKING_DATE, .body = ASKING_STS("AssumeRole", "TWO", "01:00:00")}};
    struct http_script *sts = http_script_start(steps, 2);
    struct ks_credentials_source *source;
    struct house house;
    struct waiting waiting = {.waiter = {.done = on_done}};

    open_house(&house, base, 1);
    struct ks_endpoint_rules asked = sts_at(sts);
    setenv("AWS_ROLE_SESSION_NAME", "me", 1);
    struct ks_credentials_options options = {.loop = house.loop,
                                             .http = house.http,
                                             .sts = &asked,
                                             .base = house.source,
                                             .role_arn = "arn:aws:iam::1:role/r",
                                             .external_id = "ex"};
    EXPECT_OK(ks_credentials_source_new(&options, &source, NULL));
    ks_credentials_wait(source, &waiting.waiter);
    while (waiting.times == 0)
        ks_loop_turn(house.loop, ks_span_ms(20));
    EXPECT_STR(waiting.access_key, "ONE");
    EXPECT_CONTAINS(http_script_request(sts, 0), "Credential=BASE/");
    EXPECT_CONTAINS(http_script_request(sts, 0), "RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr&"
                                                 "RoleSessionName=me&ExternalId=ex");
    while (http_script_count(sts) < 2) {
        (void)ks_credentials_now(source);
        turn_for(&house, 20);
    }
    turn_for(&house, 100);
    EXPECT_STR(ks_credentials_now(source)->access_key, "TWO");
    /* The base was asked once, for both. */
    EXPECT_EQ_U64(http_script_count(house.script), 1);
    ks_credentials_source_free(source);
    http_script_stop(sts);
    close_house(&house);
}

static struct ks_credentials_source *role_source(struct house *house, const char *role_arn)
{
    struct ks_credentials_options options = {.loop = house->loop,
                                             .http = house->http,
                                             .service = "kinesis",
                                             .base = house->source,
                                             .role_arn = role_arn};
    struct ks_credentials_source *source = NULL;

    EXPECT_OK(ks_credentials_source_new(&options, &source, NULL));
    return source;
}

TEST(the_metrics_tell_roles_of_a_service_apart)
{
    static const char *const arns[] = {
        "arn:aws:iam::111111111111:role/reader-of-everything-in-production",
        "arn:aws:iam::222222222222:role/a/path/reader-of-everything-in-production",
        "arn:aws:iam::222222222222:role/reader-of-everything-in-production-2,too"};
    static const struct http_step base[] = {{.status = 404}};
    struct ks_credentials_source *sources[3];
    struct waiting waiting[3];
    struct ks_bytes page;
    struct house house;

    memset(waiting, 0, sizeof(waiting));
    open_house(&house, base, 1);
    for (size_t at = 0; at < 3; at++) {
        sources[at] = role_source(&house, arns[at]);
        waiting[at].waiter.done = on_done;
        ks_credentials_wait(sources[at], &waiting[at].waiter);
    }
    while (waiting[0].times + waiting[1].times + waiting[2].times < 3)
        ks_loop_turn(house.loop, ks_span_ms(20));
    ks_bytes_init(&page, 1 << 20);
    EXPECT_OK(ks_metrics_render(&page));
#define FAILURES(service, role)                                                                    \
    "aws_credentials_failures_total{service=\"" service "\",role=\"" role "\"} 1\n"
    EXPECT_CONTAINS((const char *)page.data, FAILURES("all", "none"));
    EXPECT_CONTAINS((const char *)page.data,
                    FAILURES("kinesis", "111111111111/reader-of-everything-in-production"));
    EXPECT_CONTAINS((const char *)page.data,
                    FAILURES("kinesis", "222222222222/reader-of-everything-in-production"));
    EXPECT_CONTAINS((const char *)page.data,
                    FAILURES("kinesis", "222222222222/reader-of-everything-in-production-2,too"));
    ks_bytes_free(&page);
    for (size_t at = 0; at < 3; at++)
        ks_credentials_source_free(sources[at]);
    close_house(&house);
}

TEST(what_keeps_a_role_from_being_assumed_is_told)
{
    static const struct http_step base[] = {
        {.headers = ASKING_DATE, .body = KEYS("BASE", "06:00:00")}};
    static const struct http_step steps[] = {
        {.status = 403,
         .body = "<ErrorResponse><Error><Code>AccessDenied</Code></Error></ErrorResponse>"}};
    static char longer[KS_ROLE_ARN_MAX + 2];
    struct http_script *sts = http_script_start(steps, 1);
    struct ks_credentials_source *source;
    struct house house;
    struct waiting waiting = {.waiter = {.done = on_done}};
    struct ks_detail detail;

    open_house(&house, base, 1);
    struct ks_endpoint_rules asked = sts_at(sts);
    struct ks_credentials_options options = {.loop = house.loop,
                                             .http = house.http,
                                             .sts = &asked,
                                             .base = house.source,
                                             .role_arn = "arn:r"};
    EXPECT_OK(ks_credentials_source_new(&options, &source, NULL));
    ks_credentials_wait(source, &waiting.waiter);
    while (waiting.times == 0)
        ks_loop_turn(house.loop, ks_span_ms(20));
    EXPECT_ERR(waiting.err, DENIED);
    EXPECT_CONTAINS(waiting.detail.text, "AccessDenied on STS AssumeRole");
    ks_credentials_source_free(source);
    memset(longer, 'x', sizeof(longer) - 1);
    options.role_arn = longer;
    EXPECT_ERR(ks_credentials_source_new(&options, &source, &detail), INVALID);
    EXPECT_CONTAINS(detail.text, "a role's ARN");
    http_script_stop(sts);
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
