/* SPDX-License-Identifier: Apache-2.0 */
#include "text.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "options.h"
#include "problem.h"

static void expect_clean(const char *text, const char *expected)
{
    char *clean = ks_text_clean(text);

    EXPECT_STR(clean, expected);
    free(clean);
}

TEST(bytes_that_are_not_utf8_are_replaced)
{
    EXPECT(ks_text_clean(NULL) == NULL);
    expect_clean("", "");
    expect_clean("na\xc3\xafve \xe2\x82\xac \xf0\x9f\x98\x80",
                 "na\xc3\xafve \xe2\x82\xac \xf0\x9f\x98\x80");
    expect_clean("\xff|\xc3|\xc3(|\x80", "?|?|?(|?");
    expect_clean("\xc0\xaf", "??");           /* Overlong. */
    expect_clean("\xe0\x80\x80", "???");      /* Overlong. */
    expect_clean("\xed\xa0\x80", "???");      /* A surrogate. */
    expect_clean("\xf4\x90\x80\x80", "????"); /* Beyond U+10FFFF. */
    expect_clean("\xe2\x82", "??");
}

TEST(reason_is_cut_between_characters)
{
    char text[2001] = "";
    char *clean;

    for (size_t i = 0; i < 1000; i++)
        memcpy(text + 2 * i, "\xc3\xbc", 2);
    clean = ks_text_clean(text);
    EXPECT_EQ(strlen(clean), 1000);
    free(clean);
    clean = ks_text_clean(text + 1);
    EXPECT_EQ(strlen(clean), 999);
    free(clean);
}

static struct ks_problem problem_of(const char *body)
{
    return ks_problem_read(body, strlen(body));
}

TEST(problem_has_its_members)
{
    struct ks_problem problem =
        problem_of(" {\"details\":[{\"code\":\"no\"},\"detail\"], \"code\" : \"aborted\",\n"
                   "\"status\":409,\"detail\":\"say \\\"hi\\\"\\u0041\\n\", \"retryable\": true}");

    EXPECT_STR(problem.code, "aborted");
    EXPECT_STR(problem.detail, "say \"hi\"A\n");
    EXPECT(problem.is_retryable);
}

TEST(other_bodies_have_no_members)
{
    static const char *const BODIES[] = {"",
                                         "{",
                                         "{\"code\"",
                                         "{\"code\":",
                                         "{\"code\":1",
                                         "<html>",
                                         "[{\"code\":\"a\"}]",
                                         "{\"detail",
                                         "{\"x\\",
                                         "{\"code\":{\"code\":\"a\"}}",
                                         "{\"retryable\":false}",
                                         "{]]]",
                                         "{\"a\":]}}"};

    for (size_t i = 0; i < sizeof(BODIES) / sizeof(BODIES[0]); i++) {
        struct ks_problem problem = problem_of(BODIES[i]);
        EXPECT_STR(problem.code, "");
        EXPECT_STR(problem.detail, "");
        EXPECT(!problem.is_retryable);
    }
    EXPECT_STR(problem_of("{\"code\":\"cut").code, "cut");
}

static void expect_invalid(const char *client_id, const ks_consumer_options *given,
                           const char *part)
{
    struct ks_options options = {0};

    EXPECT(ks_options_init(&options, client_id, given));
    EXPECT_CONTAINS(options.invalid, part);
    ks_options_free(&options);
}

TEST(invalid_options_are_named)
{
    char long_id[66] = "";

    memset(long_id, 'x', 65);
    expect_invalid("", NULL, "client_id");
    expect_invalid("a b", NULL, "client_id");
    expect_invalid(long_id, NULL, "client_id");
    expect_invalid("a", &(ks_consumer_options){.url = "ftp://x"}, "url");
    expect_invalid("a", &(ks_consumer_options){.url = "http://"}, "url");
    expect_invalid("a", &(ks_consumer_options){.url = "http://h:1/path"}, "url");
    expect_invalid("a", &(ks_consumer_options){.url = "unix:relative"}, "url");
    expect_invalid("a", &(ks_consumer_options){.ack_deadline_ms = -1}, "ack_deadline_ms");
    expect_invalid("a", &(ks_consumer_options){.lanes = 65}, "lanes");
    expect_invalid("a", &(ks_consumer_options){.concurrency = 1025}, "concurrency");
    expect_invalid("a", &(ks_consumer_options){.ordering = (ks_client_ordering)9}, "ordering");
    expect_invalid("a.b-c_D9", &(ks_consumer_options){.url = "http://[::1]:8990/"}, "");
}

static void expect_url(const ks_consumer_options *given, uint32_t concurrency, const char *expected)
{
    struct ks_options options = {0};
    struct ks_buffer url = {0};

    EXPECT(ks_options_init(&options, "a", given));
    ks_options_order(&options, concurrency);
    ks_options_add_stream_url(&options, &url);
    EXPECT_STR(ks_buffer_text(&url), expected);
    ks_buffer_free(&url);
    ks_options_free(&options);
}

TEST(options_are_sent)
{
    static const char *const SHARDS[] = {"one", "two", NULL};

    EXPECT_EQ(unsetenv("KINESIS_SIDECAR_URL"), 0);
    expect_url(NULL, 1,
               "http://127.0.0.1:8990/v1/records/stream?client_id=a&max_in_flight=1000"
               "&max_in_flight_bytes=16777216&ack_deadline_ms=60000&ordering=shard");
    expect_url(&(ks_consumer_options){.url = "unix:/run/s", .max_in_flight = 7}, 8,
               "http://localhost/v1/records/stream?client_id=a&max_in_flight=7"
               "&max_in_flight_bytes=16777216&ack_deadline_ms=60000&ordering=key&lanes=64");
    expect_url(&(ks_consumer_options){.url = "http://h:1/",
                                      .ordering = KS_CLIENT_ORDERING_NONE,
                                      .shards = SHARDS,
                                      .subscription = "a&b"},
               8,
               "http://h:1/v1/records/stream?client_id=a&max_in_flight=1000"
               "&max_in_flight_bytes=16777216&ack_deadline_ms=60000&ordering=none&shards=one,two"
               "&subscription=a%26b");
}

TEST(share_salt_and_filter_are_sent)
{
#define URL                                                                                        \
    "http://h:1/v1/records/stream?client_id=a&max_in_flight=1000&max_in_flight_bytes=16777216"     \
    "&ack_deadline_ms=60000"
    expect_url(&(ks_consumer_options){.url = "http://h:1", .share = "0.05", .salt = "v2"}, 1,
               URL "&ordering=key&lanes=64&share=0.05&salt=v2");
    expect_url(
        &(ks_consumer_options){
            .url = "http://h:1", .share = "0.5", .ordering = KS_CLIENT_ORDERING_KEY, .lanes = 8},
        1, URL "&ordering=key&lanes=8&share=0.5");
    expect_url(&(ks_consumer_options){.url = "http://h:1", .filter = "{\"a\":[\"\xc3\xa4 +&\"]}"},
               1, URL "&ordering=shard&filter=%7B%22a%22%3A%5B%22%C3%A4%20%2B%26%22%5D%7D");
#undef URL
}
