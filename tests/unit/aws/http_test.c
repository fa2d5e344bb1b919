/* SPDX-License-Identifier: Apache-2.0 */
#include "ks_test.h"

#include "aws/http.h"
#include "http_script.h"

#include "base/budget.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct house {
    struct ks_loop *loop;
    struct ks_http *http;
    struct http_script *script;
    struct ks_http_call *call;
};

/* What an answer said; kept, for its views die. */
struct told {
    int times;
    ks_err err;
    struct ks_detail detail;
    int status;
    bool sent;
    bool stale;
    size_t received;
    char head[4096];
    struct ks_bytes body;
};

static void on_done(void *arg, const struct ks_http_answer *answer)
{
    struct told *told = arg;

    told->times++;
    told->err = answer->err;
    told->detail = answer->detail;
    told->status = answer->status;
    told->sent = answer->sent;
    told->stale = answer->stale;
    told->received = answer->received;
    snprintf(told->head, sizeof(told->head), "%.*s", (int)answer->head.size,
             (const char *)answer->head.data);
    ks_bytes_free(&told->body);
    ks_bytes_init(&told->body, 16 << 20);
    EXPECT_OK(ks_bytes_append(&told->body, answer->body));
}

static void open_client(struct house *house)
{
    struct ks_http_options options = {.ca_bundle = NULL};

    EXPECT_OK(ks_loop_new(&house->loop));
    EXPECT_OK(ks_http_new(house->loop, &options, &house->http, NULL));
}

static void open_house(struct house *house, const struct http_step *steps, size_t count)
{
    house->script = http_script_start(steps, count);
    open_client(house);
}

static void close_house(struct house *house)
{
    ks_http_free(house->http);
    ks_loop_free(house->loop);
    if (house->script != NULL)
        http_script_stop(house->script);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

static void turn_until(struct house *house, const int *times, int wanted)
{
    while (*times < wanted)
        ks_loop_turn(house->loop, ks_span_ms(50));
}

static struct ks_http_request request_to(const char *url, struct told *told)
{
    return (struct ks_http_request){
        .method = "POST",
        .url = url,
        .body = KS_VIEW("question"),
        .timeout = ks_span_ms(5000),
        .response_max = 1 << 20,
        .done = on_done,
        .arg = told,
    };
}

static void ask(struct house *house, struct told *told)
{
    struct ks_http_request request = request_to(http_script_url(house->script), told);
    int before = told->times;

    EXPECT_OK(ks_http_send(house->http, &request, &house->call));
    EXPECT_EQ_I64(told->times, before);
    turn_until(house, &told->times, before + 1);
}

static void expect_body(const struct told *told, const char *body)
{
    EXPECT_EQ_U64(told->body.size, strlen(body));
    if (told->body.size > 0)
        EXPECT_MEM(told->body.data, body, told->body.size);
}

TEST(an_answer_comes_later_and_once)
{
    static const struct http_step steps[] = {{.headers = "X-One: 1\r\n", .body = "answer"}};
    struct house house = {.loop = NULL};
    struct told told = {.times = 0};

    open_house(&house, steps, 1);
    ask(&house, &told);
    for (int i = 0; i < 5; i++)
        ks_loop_turn(house.loop, ks_span_ms(5));
    EXPECT_EQ_I64(told.times, 1);
    EXPECT_OK(told.err);
    EXPECT_EQ_I64(told.status, 200);
    EXPECT(told.sent);
    expect_body(&told, "answer");
    EXPECT_STR(strstr(told.head, "X-One") == NULL ? "" : "there", "there");
    EXPECT_EQ_U64(ks_http_open_calls(house.http), 0);
    ks_bytes_free(&told.body);
    close_house(&house);
}

TEST(the_request_is_sent_as_given)
{
    static const struct http_step steps[] = {{.body = "ok"}};
    const struct ks_http_header headers[] = {{KS_VIEW("Content-Type"), KS_VIEW("text/x")},
                                             {KS_VIEW("X-Empty"), KS_VIEW("")},
                                             {KS_VIEW("Host"), KS_VIEW("example.com:1")}};
    struct house house = {.loop = NULL};
    struct told told = {.times = 0};
    char url[128];

    open_house(&house, steps, 1);
    snprintf(url, sizeof(url), "%s/a/../b?c=%%20", http_script_url(house.script));
    struct ks_http_request request = request_to(url, &told);
    request.headers = headers;
    request.header_count = 3;
    EXPECT_OK(ks_http_send(house.http, &request, &house.call));
    turn_until(&house, &told.times, 1);
    EXPECT_STR(http_script_request(house.script, 0), "POST /a/../b?c=%20 HTTP/1.1\r\n"
                                                     "Host: example.com:1\r\n"
                                                     "Accept: */*\r\n"
                                                     "Content-Type: text/x\r\n"
                                                     "X-Empty:\r\n"
                                                     "Content-Length: 8\r\n"
                                                     "\r\n"
                                                     "question");
    ks_bytes_free(&told.body);
    close_house(&house);
}

TEST(get_and_put_and_an_empty_body)
{
    static const struct http_step steps[] = {{.body = "ok"}};
    struct house house = {.loop = NULL};
    struct told told = {.times = 0};

    open_house(&house, steps, 1);
    struct ks_http_request request = request_to(http_script_url(house.script), &told);
    request.method = "GET";
    request.body = KS_VIEW_NONE;
    EXPECT_OK(ks_http_send(house.http, &request, &house.call));
    turn_until(&house, &told.times, 1);
    EXPECT_CONTAINS(http_script_request(house.script, 0), "GET / HTTP/1.1\r\n");
    request.method = "PUT";
    EXPECT_OK(ks_http_send(house.http, &request, &house.call));
    turn_until(&house, &told.times, 2);
    EXPECT_CONTAINS(http_script_request(house.script, 1), "PUT / HTTP/1.1\r\n");
    EXPECT_CONTAINS(http_script_request(house.script, 1), "Content-Length: 0\r\n");
    EXPECT_EQ_I64(told.status, 200);
    ks_bytes_free(&told.body);
    close_house(&house);
}

TEST(a_large_body_goes_out_whole_and_without_expect)
{
    static const struct http_step steps[] = {{.body = "ok"}};
    enum { SIZE = 3000000 };
    struct house house = {.loop = NULL};
    struct told told = {.times = 0};
    uint8_t *body = malloc(SIZE);

    memset(body, 'b', SIZE);
    open_house(&house, steps, 1);
    struct ks_http_request request = request_to(http_script_url(house.script), &told);
    request.body = ks_view_of(body, SIZE);
    EXPECT_OK(ks_http_send(house.http, &request, &house.call));
    turn_until(&house, &told.times, 1);
    EXPECT_OK(told.err);
    const char *seen = http_script_request(house.script, 0);
    EXPECT(strstr(seen, "Expect") == NULL);
    EXPECT_EQ_U64(strlen(strstr(seen, "\r\n\r\n")), SIZE + 4);
    free(body);
    ks_bytes_free(&told.body);
    close_house(&house);
}

TEST(connections_are_kept)
{
    static const struct http_step steps[] = {{.body = "ok"}};
    struct house house = {.loop = NULL};
    struct told told = {.times = 0};

    open_house(&house, steps, 1);
    for (int i = 0; i < 10; i++)
        ask(&house, &told);
    EXPECT_EQ_U64(http_script_count(house.script), 10);
    EXPECT_EQ_U64(http_script_connections(house.script), 1);
    ks_bytes_free(&told.body);
    close_house(&house);
}

/* curl would send it again by itself: then a conditional write would be refused by its own first
 * copy. */
TEST(a_request_is_sent_once_even_if_a_kept_connection_dies)
{
    static const struct http_step steps[] = {{.body = "ok"}, {.cut = true}, {.body = "second"}};
    struct house house = {.loop = NULL};
    struct told told = {.times = 0};

    open_house(&house, steps, 3);
    ask(&house, &told);
    EXPECT_OK(told.err);
    ask(&house, &told);
    EXPECT(ks_err_is(told.err, KS_ERR_CONNECTION));
    EXPECT(told.sent);
    EXPECT_EQ_I64(told.status, 0);
    for (int i = 0; i < 20; i++)
        ks_loop_turn(house.loop, ks_span_ms(10));
    EXPECT_EQ_U64(http_script_count(house.script), 2);
    ask(&house, &told);
    expect_body(&told, "second");
    ks_bytes_free(&told.body);
    close_house(&house);
}

TEST(a_slow_answer_is_a_timeout)
{
    static const struct http_step steps[] = {{.silent = true}};
    struct house house = {.loop = NULL};
    struct told told = {.times = 0};

    open_house(&house, steps, 1);
    struct ks_http_request request = request_to(http_script_url(house.script), &told);
    request.timeout = ks_span_ms(200);
    EXPECT_OK(ks_http_send(house.http, &request, &house.call));
    ks_instant begin = ks_loop_now(house.loop);
    turn_until(&house, &told.times, 1);
    EXPECT(ks_err_is(told.err, KS_ERR_TIMEOUT));
    EXPECT(told.sent);
    EXPECT(ks_instant_since(ks_loop_now(house.loop), begin).us < 2000000);
    ks_bytes_free(&told.body);
    close_house(&house);
}

/* A first answer, then one request more on the kept connection. */
static void expect_stale(struct http_step second, bool stale)
{
    const struct http_step steps[] = {{.body = "first"}, second};
    struct house house = {.loop = NULL};
    struct told told = {.times = 0};

    open_house(&house, steps, 2);
    ask(&house, &told);
    EXPECT(!told.stale);
    EXPECT_EQ_U64(told.received, 5);
    struct ks_http_request request = request_to(http_script_url(house.script), &told);
    request.timeout = ks_span_ms(300);
    EXPECT_OK(ks_http_send(house.http, &request, &house.call));
    turn_until(&house, &told.times, 2);
    EXPECT_EQ_I64(told.stale, stale);
    EXPECT_EQ_U64(http_script_count(house.script), 2);
    ks_bytes_free(&told.body);
    close_house(&house);
}

TEST(a_kept_connection_that_is_dead_is_told)
{
    expect_stale((struct http_step){.silent = true}, true);
    expect_stale((struct http_step){.cut = true}, true);
    expect_stale((struct http_step){.body = "second"}, false);
    expect_stale((struct http_step){.raw = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"}, false);
}

TEST(a_new_connection_that_brings_nothing_is_not_stale)
{
    static const struct http_step steps[] = {{.silent = true}};
    struct house house = {.loop = NULL};
    struct told told = {.times = 0};

    open_house(&house, steps, 1);
    struct ks_http_request request = request_to(http_script_url(house.script), &told);
    request.timeout = ks_span_ms(200);
    EXPECT_OK(ks_http_send(house.http, &request, &house.call));
    turn_until(&house, &told.times, 1);
    EXPECT(ks_err_is(told.err, KS_ERR_TIMEOUT));
    EXPECT(!told.stale);
    ks_bytes_free(&told.body);
    close_house(&house);
}

/* Both answers are late: the one on a new connection is waited for longer. */
static ks_err ask_in_silence(struct house *house, struct told *told, ks_instant *ret_asked)
{
    struct ks_http_request request = request_to(http_script_url(house->script), told);
    int before = told->times;

    request.timeout = ks_span_ms(60000);
    request.silence = ks_span_ms(30000);
    request.silence_kept = ks_span_ms(300);
    EXPECT_OK(ks_http_send(house->http, &request, &house->call));
    *ret_asked = ks_loop_now(house->loop);
    turn_until(house, &told->times, before + 1);
    return told->err;
}

TEST(a_kept_connection_may_not_be_silent_for_long)
{
    static const struct http_step steps[] = {{.wait_ms = 600, .body = "late"}, {.silent = true}};
    struct house house = {.loop = NULL};
    struct told told = {.times = 0};
    ks_instant asked;

    open_house(&house, steps, 2);
    EXPECT_OK(ask_in_silence(&house, &told, &asked));
    EXPECT_ERR(ask_in_silence(&house, &told, &asked), TIMEOUT);
    EXPECT(told.sent && told.stale);
    EXPECT_CONTAINS(told.detail.text, "nothing came for 300 ms");
    EXPECT(ks_instant_since(ks_loop_now(house.loop), asked).us >= 300000);
    EXPECT_EQ_U64(http_script_connections(house.script), 1);
    ks_bytes_free(&told.body);
    close_house(&house);
}

TEST(a_new_connection_may_not_be_silent_for_ever)
{
    static const struct http_step steps[] = {{.silent = true}};
    struct house house = {.loop = NULL};
    struct told told = {.times = 0};

    open_house(&house, steps, 1);
    struct ks_http_request request = request_to(http_script_url(house.script), &told);
    request.timeout = ks_span_ms(60000);
    request.silence = ks_span_ms(300);
    EXPECT_OK(ks_http_send(house.http, &request, &house.call));
    turn_until(&house, &told.times, 1);
    EXPECT_ERR(told.err, TIMEOUT);
    EXPECT_CONTAINS(told.detail.text, "nothing came for 300 ms");
    EXPECT(!told.stale);
    ks_bytes_free(&told.body);
    close_house(&house);
}

TEST(a_kept_connection_may_be_too_old)
{
    static const struct http_step steps[] = {{.body = "ok"}};
    struct house house = {.loop = NULL};
    struct told told = {.times = 0};

    open_house(&house, steps, 1);
    struct ks_http_request request = request_to(http_script_url(house.script), &told);
    for (int i = 0; i < 4; i++) {
        static const int64_t age_ms[] = {0, 0, 1, 1900};
        static const size_t connections[] = {1, 1, 2, 3};

        request.connection_age_max = ks_span_ms(age_ms[i]);
        EXPECT_OK(ks_http_send(house.http, &request, &house.call));
        turn_until(&house, &told.times, i + 1);
        EXPECT_EQ_U64(http_script_connections(house.script), connections[i]);
    }
    /* Nothing is 10 minutes old. */
    request.connection_age_max = ks_span_ms(600 * 1000);
    EXPECT_OK(ks_http_send(house.http, &request, &house.call));
    turn_until(&house, &told.times, 5);
    EXPECT_EQ_U64(http_script_connections(house.script), 3);
    ks_bytes_free(&told.body);
    close_house(&house);
}

TEST(half_an_answer_is_a_failure)
{
    static const struct http_step steps[] = {
        {.raw = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", .cut = true},
        {.raw = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhal", .cut = true},
        {.raw = "HTTP/1.1 200 OK\r\nContent-Le", .cut = true},
    };
    struct house house = {.loop = NULL};
    struct told told = {.times = 0};

    open_house(&house, steps, 3);
    for (int i = 0; i < 3; i++) {
        ask(&house, &told);
        EXPECT(ks_err_is(told.err, KS_ERR_CONNECTION));
        EXPECT(told.detail.text[0] != '\0');
    }
    ks_bytes_free(&told.body);
    close_house(&house);
}

TEST(garbage_is_a_failure_of_the_server)
{
    static const struct http_step steps[] = {
        {.raw = "garbage\r\n\r\n", .cut = true},
        {.raw = "HTTP/9.9 999 what\r\n\r\n", .cut = true},
        {.raw = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", .cut = true},
    };
    struct house house = {.loop = NULL};
    struct told told = {.times = 0};

    open_house(&house, steps, 3);
    for (int i = 0; i < 3; i++) {
        ask(&house, &told);
        EXPECT(!ks_ok(told.err));
        EXPECT_EQ_I64(ks_err_class(told.err), KS_CLASS_RETRY);
    }
    ks_bytes_free(&told.body);
    close_house(&house);
}

TEST(an_encoded_answer_is_a_failure_of_the_server)
{
    static const struct http_step steps[] = {
        {.headers = "Content-Encoding: gzip\r\n", .body = "\x1f\x8b"},
        {.headers = "Content-Encoding: identity\r\n", .body = "plain"}};
    struct house house = {.loop = NULL};
    struct told told = {.times = 0};

    open_house(&house, steps, 2);
    ask(&house, &told);
    EXPECT_ERR(told.err, SERVER);
    EXPECT_EQ_U64(told.body.size, 0);
    ask(&house, &told);
    EXPECT_OK(told.err);
    expect_body(&told, "plain");
    EXPECT_CONTAINS(http_script_request(house.script, 0), "HTTP/1.1\r\n");
    EXPECT(strcasestr(http_script_request(house.script, 0), "Accept-Encoding") == NULL);
    ks_bytes_free(&told.body);
    close_house(&house);
}

TEST(nobody_listening_is_told)
{
    struct house house = {.loop = NULL};
    struct told told = {.times = 0};

    open_client(&house);
    struct ks_http_request request = request_to("http://127.0.0.1:1/", &told);
    EXPECT_OK(ks_http_send(house.http, &request, &house.call));
    turn_until(&house, &told.times, 1);
    EXPECT(ks_err_is(told.err, KS_ERR_CONNECTION));
    EXPECT(!told.sent);

    /* Each time anew: curl keeps things of a name that was not found, and of one that is still looked up. */
    request.url = "http://name.invalid/";
    for (int times = 2; times < 5; times++) {
        EXPECT_OK(ks_http_send(house.http, &request, &house.call));
        turn_until(&house, &told.times, times);
        EXPECT(ks_err_is(told.err, KS_ERR_CONNECTION) || ks_err_is(told.err, KS_ERR_TIMEOUT));
        EXPECT(!told.sent);
        EXPECT_OK(ks_http_send(house.http, &request, &house.call));
        ks_loop_turn(house.loop, ks_span_ms(0));
        if (told.times == times) /* The resolver may be quicker. */
            ks_http_cancel(house.call);
        told.times = times;
    }
    ks_bytes_free(&told.body);
    close_house(&house);
}

TEST(a_body_beyond_the_limit_is_refused)
{
    static const struct http_step steps[] = {
        {.filler = (1 << 20) + 1}, {.filler = (1 << 20) + 1, .chunked = true}, {.filler = 1 << 20}};
    struct house house = {.loop = NULL};
    struct told told = {.times = 0};

    open_house(&house, steps, 3);
    ask(&house, &told);
    EXPECT(ks_err_is(told.err, KS_ERR_FULL));
    EXPECT_EQ_I64(told.status, 200);
    ask(&house, &told);
    EXPECT(ks_err_is(told.err, KS_ERR_FULL));
    ask(&house, &told);
    EXPECT_OK(told.err);
    EXPECT_EQ_U64(told.body.size, 1 << 20);
    ks_bytes_free(&told.body);
    close_house(&house);
}

TEST(a_head_beyond_the_limit_is_refused)
{
    static char raw[200000];
    static const struct http_step steps[] = {{.raw = raw, .cut = true}};
    struct house house = {.loop = NULL};
    struct told told = {.times = 0};
    size_t size = (size_t)snprintf(raw, sizeof(raw), "HTTP/1.1 200 OK\r\n");

    for (int i = 0; i < 2000; i++)
        size +=
            (size_t)snprintf(raw + size, sizeof(raw) - size, "X-%d: some value or other\r\n", i);
    snprintf(raw + size, sizeof(raw) - size, "\r\n");
    open_house(&house, steps, 1);
    ask(&house, &told);
    EXPECT(ks_err_is(told.err, KS_ERR_FULL));
    ks_bytes_free(&told.body);
    close_house(&house);
}

TEST(interim_answers_and_redirects_are_not_followed)
{
    static const struct http_step steps[] = {
        {.raw = "HTTP/1.1 100 Continue\r\nX-Interim: 1\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: "
                "2\r\n\r\nok"},
        {.status = 301, .headers = "Location: http://127.0.0.1:1/\r\n", .body = "moved"}};
    struct house house = {.loop = NULL};
    struct told told = {.times = 0};

    open_house(&house, steps, 2);
    ask(&house, &told);
    EXPECT_OK(told.err);
    EXPECT(strstr(told.head, "X-Interim") == NULL);
    expect_body(&told, "ok");
    ask(&house, &told);
    EXPECT_OK(told.err);
    EXPECT_EQ_I64(told.status, 301);
    expect_body(&told, "moved");
    EXPECT_EQ_U64(http_script_count(house.script), 2);
    ks_bytes_free(&told.body);
    close_house(&house);
}

/* --- Sinks --- */

struct drain {
    int begun;
    int64_t size;
    size_t bytes;
    size_t room;
    ks_err begin_err;
};

static ks_err on_begin(void *arg, ks_view head, int64_t size)
{
    struct drain *drain = arg;

    EXPECT(ks_view_starts(head, KS_VIEW("HTTP/1.1 2")));
    drain->begun++;
    drain->size = size;
    drain->bytes = 0;
    return drain->begin_err;
}

static ks_err on_part(void *arg, ks_view bytes)
{
    struct drain *drain = arg;

    drain->bytes += bytes.size;
    return drain->bytes > drain->room ? KS_FAIL(FULL) : KS_OK;
}

static void ask_with(struct house *house, struct told *told, struct drain *drain)
{
    struct ks_http_sink sink = {on_begin, on_part, drain};
    struct ks_http_request request = request_to(http_script_url(house->script), told);
    int before = told->times;

    request.sink = &sink;
    EXPECT_OK(ks_http_send(house->http, &request, &house->call));
    turn_until(house, &told->times, before + 1);
}

TEST(a_sink_takes_good_bodies_and_only_those)
{
    static const struct http_step steps[] = {{.filler = 100000},
                                             {.status = 400, .body = "bad"},
                                             {.filler = 5000, .chunked = true},
                                             {.status = 204}};
    struct house house = {.loop = NULL};
    struct told told = {.times = 0};
    struct drain drain = {.room = 1 << 20};

    open_house(&house, steps, 4);
    ask_with(&house, &told, &drain);
    EXPECT_OK(told.err);
    EXPECT_EQ_I64(drain.size, 100000);
    EXPECT_EQ_U64(drain.bytes, 100000);
    expect_body(&told, "");
    ask_with(&house, &told, &drain);
    EXPECT_EQ_I64(drain.begun, 1);
    expect_body(&told, "bad");
    ask_with(&house, &told, &drain);
    EXPECT_EQ_I64(drain.size, -1);
    EXPECT_EQ_U64(drain.bytes, 5000);
    ask_with(&house, &told, &drain);
    EXPECT_EQ_I64(drain.begun, 3);
    EXPECT_EQ_I64(told.status, 204);
    ks_bytes_free(&told.body);
    close_house(&house);
}

TEST(a_sink_may_refuse)
{
    static const struct http_step steps[] = {{.filler = 100000}};
    struct house house = {.loop = NULL};
    struct told told = {.times = 0};
    struct drain drain = {.room = 20000};

    open_house(&house, steps, 1);
    ask_with(&house, &told, &drain);
    EXPECT(ks_err_is(told.err, KS_ERR_FULL));
    drain = (struct drain){.begin_err = KS_FAIL(NO_MEMORY)};
    ask_with(&house, &told, &drain);
    EXPECT(ks_err_is(told.err, KS_ERR_NO_MEMORY));
    EXPECT_EQ_U64(drain.bytes, 0);
    ks_bytes_free(&told.body);
    close_house(&house);
}

/* --- Many, cancels, callers that do things --- */

TEST(many_at_once_are_all_answered)
{
    static const struct http_step steps[] = {{.body = "ok"}};
    enum { MANY = 30 };
    struct house house = {.loop = NULL};
    struct told told = {.times = 0};
    struct ks_http_call *calls[MANY];

    open_house(&house, steps, 1);
    struct ks_http_request request = request_to(http_script_url(house.script), &told);
    for (int i = 0; i < MANY; i++)
        EXPECT_OK(ks_http_send(house.http, &request, &calls[i]));
    turn_until(&house, &told.times, MANY);
    EXPECT_EQ_U64(http_script_count(house.script), MANY);
    EXPECT_EQ_U64(ks_http_open_calls(house.http), 0);
    ks_bytes_free(&told.body);
    close_house(&house);
}

TEST(connections_that_were_busy_at_once_are_kept)
{
    static const struct http_step steps[] = {{.body = "ok"}};
    enum { MANY = 24, ROUNDS = 3 };
    struct ks_http_options options = {.connections_kept = 2};
    struct house house = {.loop = NULL};
    struct told told = {.times = 0};
    struct ks_http_call *call;

    open_house(&house, steps, 1);
    ks_http_free(house.http);
    EXPECT_OK(ks_http_new(house.loop, &options, &house.http, NULL));
    struct ks_http_request request = request_to(http_script_url(house.script), &told);
    for (int round = 1; round <= ROUNDS; round++) {
        for (int i = 0; i < MANY; i++)
            EXPECT_OK(ks_http_send(house.http, &request, &call));
        turn_until(&house, &told.times, round * MANY);
    }
    EXPECT(http_script_connections(house.script) <= MANY);
    ks_bytes_free(&told.body);
    close_house(&house);
}

TEST(a_cancelled_call_is_never_answered)
{
    static const struct http_step steps[] = {{.wait_ms = 100, .body = "late"}};
    struct house house = {.loop = NULL};
    struct told told = {.times = 0};
    struct told other = {.times = 0};

    open_house(&house, steps, 1);
    struct ks_http_request request = request_to(http_script_url(house.script), &told);
    EXPECT_OK(ks_http_send(house.http, &request, &house.call));
    ks_http_cancel(house.call);
    EXPECT_OK(ks_http_send(house.http, &request, &house.call));
    while (http_script_count(house.script) < 1)
        ks_loop_turn(house.loop, ks_span_ms(5));
    ks_http_cancel(house.call);
    ask(&house, &other);
    EXPECT_OK(other.err);
    EXPECT_EQ_I64(told.times, 0);
    ks_bytes_free(&other.body);
    close_house(&house);
}

TEST(open_calls_are_forgotten_with_the_client)
{
    static const struct http_step steps[] = {{.silent = true}};
    struct house house = {.loop = NULL};
    struct told told = {.times = 0};

    open_house(&house, steps, 1);
    struct ks_http_request request = request_to(http_script_url(house.script), &told);
    for (int i = 0; i < 3; i++)
        EXPECT_OK(ks_http_send(house.http, &request, &house.call));
    while (http_script_count(house.script) < 3)
        ks_loop_turn(house.loop, ks_span_ms(5));
    close_house(&house);
    EXPECT_EQ_I64(told.times, 0);
}

struct relay {
    struct house *house;
    struct ks_http_call *victim;
    int left;
    int times;
};

static void on_relayed(void *arg, const struct ks_http_answer *answer);

static void send_relayed(struct relay *relay)
{
    struct ks_http_request request = request_to(http_script_url(relay->house->script), NULL);
    struct ks_http_call *call;

    request.done = on_relayed;
    request.arg = relay;
    EXPECT_OK(ks_http_send(relay->house->http, &request, &call));
}

static void on_relayed(void *arg, const struct ks_http_answer *answer)
{
    struct relay *relay = arg;

    EXPECT_OK(answer->err);
    relay->times++;
    if (relay->victim != NULL)
        ks_http_cancel(relay->victim);
    relay->victim = NULL;
    if (relay->left-- > 0)
        send_relayed(relay);
}

TEST(a_caller_may_send_and_cancel_when_it_is_told)
{
    static const struct http_step steps[] = {{.silent = true}, {.body = "ok"}};
    struct house house = {.loop = NULL};
    struct told told = {.times = 0};
    struct relay relay = {.house = &house, .left = 5};

    open_house(&house, steps, 2);
    struct ks_http_request request = request_to(http_script_url(house.script), &told);
    EXPECT_OK(ks_http_send(house.http, &request, &relay.victim));
    while (http_script_count(house.script) < 1)
        ks_loop_turn(house.loop, ks_span_ms(5));
    send_relayed(&relay);
    turn_until(&house, &relay.times, 6);
    EXPECT_EQ_I64(told.times, 0);
    EXPECT_EQ_U64(ks_http_open_calls(house.http), 0);
    close_house(&house);
}

/* --- Bad requests --- */

static void expect_refused(struct house *house, const char *url, ks_view name, ks_view value)
{
    struct told told = {.times = 0};
    struct ks_http_header header = {name, value};
    struct ks_http_request request = request_to(url, &told);

    request.headers = &header;
    request.header_count = 1;
    EXPECT(ks_err_is(ks_http_send(house->http, &request, &house->call), KS_ERR_INVALID));
}

TEST(what_is_no_url_or_header_is_refused)
{
    static const struct http_step steps[] = {{.body = "ok"}};
    struct house house = {.loop = NULL};
    ks_view name = KS_VIEW("X-A");
    ks_view value = KS_VIEW("b");

    open_house(&house, steps, 1);
    const char *url = http_script_url(house.script);
    expect_refused(&house, "ftp://127.0.0.1/", name, value);
    expect_refused(&house, "file:///etc/passwd", name, value);
    expect_refused(&house, "127.0.0.1", name, value);
    expect_refused(&house, "http://127.0.0.1/\r\nX: y", name, value);
    expect_refused(&house, url, name, KS_VIEW("b\r\nX-Evil: 1"));
    expect_refused(&house, url, name, KS_VIEW("b\0c"));
    expect_refused(&house, url, KS_VIEW("X A"), value);
    expect_refused(&house, url, KS_VIEW("X:A"), value);
    expect_refused(&house, url, KS_VIEW(""), value);
    EXPECT_EQ_U64(http_script_count(house.script), 0);
    close_house(&house);
}
