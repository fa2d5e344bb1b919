/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of the HTTP client; requests are in http_test.c, HTTP/2 in the contract suite of stream_source. */
#include "aws/http.h"

#include "base/budget.h"

#include "http_script.h"
#include "ks_test.h"

#include <curl/curl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILLER = 300000 };

struct rig {
    struct ks_loop *loop;
    struct ks_http *http;
    struct http_script *script;
    char pem[32];
    struct ks_http_call *call;
    bool busy;
    size_t taken;
    uint32_t offered; /* Pieces. */
    uint32_t begun;
    uint32_t times;
    ks_err err;
    int status;
    size_t body;
    struct ks_detail detail;
};

static ks_err begin(void *arg, ks_view head, int64_t size)
{
    EXPECT(ks_view_starts(head, KS_VIEW("HTTP/")));
    (void)size;
    ((struct rig *)arg)->begun++;
    return KS_OK;
}

static ks_err part(void *arg, ks_view bytes)
{
    struct rig *rig = arg;

    rig->offered++;
    if (rig->busy)
        return KS_FAIL(BUSY);
    rig->taken += bytes.size;
    return KS_OK;
}

static ks_err refuse(void *arg, ks_view bytes)
{
    struct rig *rig = arg;

    (void)bytes;
    return rig->offered++ == 0 ? KS_FAIL(BUSY) : KS_FAIL(NO_MEMORY);
}

static void done(void *arg, const struct ks_http_answer *answer)
{
    struct rig *rig = arg;

    rig->times++;
    rig->err = answer->err;
    rig->status = answer->status;
    rig->body = answer->body.size;
    rig->detail = answer->detail;
    rig->call = NULL;
}

static struct rig *born(const struct http_step *steps, size_t count)
{
    static struct rig rig;

    memset(&rig, 0, sizeof(rig));
    (void)snprintf(rig.pem, sizeof(rig.pem), "/tmp/ks-stream-XXXXXX");
    int fd = mkstemp(rig.pem);
    EXPECT(fd >= 0);
    (void)close(fd);
    rig.script = http_script_start_tls(steps, count, rig.pem);
    EXPECT_OK(ks_loop_new(&rig.loop));
    EXPECT_OK(ks_http_new(rig.loop, &(struct ks_http_options){.ca_bundle = rig.pem}, &rig.http,
                          &rig.detail));
    return &rig;
}

static void end(struct rig *rig)
{
    ks_http_free(rig->http);
    http_script_stop(rig->script);
    (void)unlink(rig->pem);
    ks_loop_free(rig->loop);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

static void ask_with(struct rig *rig, ks_err (*take)(void *arg, ks_view bytes), int64_t silence_ms,
                     int64_t stream_ms)
{
    struct ks_http_sink sink = {.begin = begin, .part = take, .arg = rig};
    struct ks_http_request request = {
        .method = "POST",
        .url = http_script_url(rig->script),
        .body = KS_VIEW("{}"),
        .silence = ks_span_ms(silence_ms),
        .silence_stream = ks_span_ms(stream_ms),
        .stream = true,
        .response_max = 1000,
        .sink = &sink,
        .done = done,
        .arg = rig,
    };

    rig->times = 0;
    EXPECT_OK(ks_http_send(rig->http, &request, &rig->call));
}

static void ask(struct rig *rig, ks_err (*take)(void *arg, ks_view bytes), int64_t silence_ms)
{
    ask_with(rig, take, silence_ms, 0);
}

static void turn(struct rig *rig, int turns)
{
    for (int at = 0; rig->times == 0 && at < turns; at++)
        ks_loop_turn(rig->loop, ks_span_ms(10));
}

static void turn_until_offered(struct rig *rig)
{
    for (int at = 0; rig->offered == 0 && at < 1000; at++)
        ks_loop_turn(rig->loop, ks_span_ms(10));
    EXPECT_EQ_U64(rig->offered, 1);
}

TEST(a_stream_may_be_longer_than_any_response)
{
    const struct http_step steps[] = {{.filler = FILLER, .chunked = true}};
    struct rig *rig = born(steps, 1);

    ask(rig, part, 5000);
    turn(rig, 1000);
    EXPECT_OK(rig->err);
    EXPECT_EQ_U64(rig->taken, FILLER);
    EXPECT_EQ_U64(rig->begun, 1);
    end(rig);
}

TEST(a_refusal_is_no_stream)
{
    const struct http_step steps[] = {{.status = 400, .body = "{\"no\":1}"},
                                      {.status = 400, .filler = 1001}};
    struct rig *rig = born(steps, 2);

    rig->busy = true;
    ask(rig, part, 5000);
    turn(rig, 1000);
    EXPECT_OK(rig->err);
    EXPECT_EQ_I64(rig->status, 400);
    EXPECT_EQ_U64(rig->body, 8);
    ask(rig, part, 5000);
    turn(rig, 1000);
    EXPECT_ERR(rig->err, FULL);
    EXPECT_EQ_U64(rig->offered + rig->begun, 0);
    end(rig);
}

TEST(who_is_busy_is_offered_the_same_bytes_again_and_nothing_before)
{
    const struct http_step steps[] = {{.filler = FILLER}};
    struct rig *rig = born(steps, 1);

    rig->busy = true;
    ask(rig, part, 5000);
    turn_until_offered(rig);
    turn(rig, 20);
    EXPECT_EQ_U64(rig->offered, 1);
    for (int at = 0; at < 3; at++) {
        ks_http_resume(rig->call);
        EXPECT(rig->offered >= (uint32_t)(at + 2));
        turn(rig, 5);
    }
    EXPECT_EQ_U64(rig->taken, 0);
    rig->busy = false;
    ks_http_resume(rig->call);
    turn(rig, 1000);
    EXPECT_OK(rig->err);
    EXPECT_EQ_U64(rig->taken, FILLER);
    EXPECT_EQ_U64(rig->times, 1);
    end(rig);
}

TEST(silence_counts_only_while_somebody_wants_to_hear)
{
    const struct http_step steps[] = {
        {.raw = "HTTP/1.1 200 Said\r\nContent-Length: 10\r\n\r\nhalf"}};
    struct rig *rig = born(steps, 1);

    rig->busy = true;
    ask(rig, part, 400);
    turn(rig, 100);
    EXPECT_EQ_U64(rig->times, 0);
    EXPECT_EQ_U64(rig->offered, 1);
    rig->busy = false;
    ks_http_resume(rig->call);
    EXPECT_EQ_U64(rig->taken, 4);
    turn(rig, 1000);
    EXPECT_ERR(rig->err, TIMEOUT);
    EXPECT_CONTAINS(rig->detail.text, "nothing came for 400 ms");
    end(rig);
}

TEST(a_server_that_never_answers_is_silent)
{
    const struct http_step steps[] = {{.silent = true}};
    struct rig *rig = born(steps, 1);

    ask(rig, part, 400);
    turn(rig, 1000);
    EXPECT_ERR(rig->err, TIMEOUT);
    EXPECT_EQ_I64(rig->status, 0);
    end(rig);
}

TEST(a_stream_that_has_begun_has_a_silence_of_its_own)
{
    const struct http_step steps[] = {
        {.raw = "HTTP/1.1 200 Said\r\nContent-Length: 10\r\n\r\nhalf"}, {.silent = true}};
    struct rig *rig = born(steps, 2);

    ask_with(rig, part, 60000, 300);
    turn(rig, 1000);
    EXPECT_CONTAINS(rig->detail.text, "nothing came for 300 ms");
    ask_with(rig, part, 300, 60000);
    turn(rig, 1000);
    EXPECT_CONTAINS(rig->detail.text, "nothing came for 300 ms");
    end(rig);
}

TEST(what_is_refused_while_it_is_resumed_is_told_on_the_loop)
{
    const struct http_step steps[] = {{.filler = FILLER}};
    struct rig *rig = born(steps, 1);

    ask(rig, refuse, 5000);
    turn_until_offered(rig);
    ks_http_resume(rig->call);
    EXPECT_EQ_U64(rig->times, 0);
    turn(rig, 1000);
    EXPECT_ERR(rig->err, NO_MEMORY);
    end(rig);
}

TEST(a_stream_has_a_connection_of_its_own)
{
    const struct http_step steps[] = {{.body = "x"}};
    struct rig *rig = born(steps, 1);

    for (size_t at = 1; at < 4; at++) {
        ask(rig, part, 5000);
        turn(rig, 1000);
        EXPECT_OK(rig->err);
        EXPECT_EQ_U64(http_script_connections(rig->script), at);
    }
    end(rig);
}

TEST(a_stream_is_cancelled_while_it_is_paused)
{
    const struct http_step steps[] = {{.filler = FILLER}};
    struct rig *rig = born(steps, 1);

    rig->busy = true;
    ask(rig, part, 5000);
    turn_until_offered(rig);
    ks_http_cancel(rig->call);
    turn(rig, 20);
    EXPECT_EQ_U64(rig->times, 0);
    EXPECT_EQ_U64(ks_http_open_calls(rig->http), 0);
    end(rig);
}

/* --- What libcurl holds --- */

static size_t held; /* Bytes, but for those of its libraries. */

static void *hold(void *memory)
{
    held += malloc_usable_size(memory);
    return memory;
}

static void *hold_new(size_t size)
{
    return hold(malloc(size));
}

static void *hold_zeroed(size_t count, size_t size)
{
    return hold(calloc(count, size));
}

static void let_go(void *memory)
{
    held -= malloc_usable_size(memory);
    free(memory);
}

static void *hold_more(void *memory, size_t size)
{
    held -= malloc_usable_size(memory);
    return hold(realloc(memory, size));
}

static char *hold_copy(const char *text)
{
    return hold(strdup(text));
}

/* There are as many as shards: a buffer each to receive, and one to send. */
TEST(an_open_stream_holds_two_buffers_of_16_kib)
{
    enum { STREAMS = 4, BUFFERS = 2 * 16 << 10, OTHER_MAX = 24 << 10 };
    const struct http_step steps[] = {
        {.raw = "HTTP/1.1 200 Said\r\nContent-Length: 10\r\n\r\nhalf"}};
    EXPECT_EQ_I64(curl_global_init_mem(CURL_GLOBAL_DEFAULT, hold_new, let_go, hold_more, hold_copy,
                                       hold_zeroed),
                  CURLE_OK);
    struct rig *rig = born(steps, 1);
    size_t before = held;

    for (size_t at = 1; at <= STREAMS; at++) {
        ask(rig, part, 60000);
        for (int turns = 0; rig->taken < at * 4 && turns < 1000; turns++)
            ks_loop_turn(rig->loop, ks_span_ms(10));
        EXPECT_EQ_U64(rig->taken, at * 4);
    }
    size_t each = (held - before) / STREAMS;
    EXPECT(each >= BUFFERS);
    EXPECT(each <= BUFFERS + OTHER_MAX);
    end(rig);
    curl_global_cleanup();
    EXPECT_EQ_U64(held, 0);
}
