/* SPDX-License-Identifier: Apache-2.0 */
/* Requests and answers over HTTP/2, seen by a client that is not ours. */
#include "api/limits.h"
#include "api/server.h"
#include "ks_test.h"
#include "unit/api/http2_rig.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct rig rig;
static struct http2_client client;

static void begin(uint32_t window)
{
    rig_begin(&rig);
    http2_routes(&rig);
    http2_begin(&client, &rig, "api", window);
}

static void end(void)
{
    http2_end(&client);
    EXPECT_EQ_U64(rig.api->accounts.held[KS_HELD_BODIES], 0);
    rig_end(&rig);
}

static struct http2_answer *ask(const char *method, const char *path, const char *header,
                                const char *body)
{
    struct http2_answer *answer = http2_ask(&client, method, path, header, body, false);

    http2_wait(&client, answer);
    return answer;
}

static void expect_pattern(const struct http2_answer *answer, size_t size)
{
    EXPECT_EQ_U64(answer->size, size);
    for (size_t i = 0; i < size; i++)
        if (answer->body[i] != http2_pattern(i))
            FAIL("byte %zu is wrong", i);
}

TEST(every_route_answers_as_on_http_1)
{
    static const struct {
        const char *method;
        const char *path;
        const char *header;
        const char *body;
        int status;
    } rows[] = {
        {"GET", "/v1/status", NULL, NULL, 200},
        {"GET", "/v1/leases?page_size=1", NULL, NULL, 200},
        {"POST", "/v1/records/ack?ack_id=" RIG_FOREIGN_ID, NULL, "{}", 200},
        {"POST", "/v1/records/ack", NULL, "[", 400},
        {"GET", "/v1/nothing", NULL, NULL, 404},
        {"DELETE", "/v1/records", NULL, NULL, 405},
        {"POST", "/v1/drain", "content-type: text/xml", "<a/>", 415},
        {"GET", "/v1/status", "origin: http://evil.example", NULL, 403},
        {"GET", "/v1/status", "sec-fetch-site: cross-site", NULL, 403},
        {"GET", "/v1/status?%00", NULL, NULL, 400},
        {"GET", "/v1/status", "host: other.example", NULL, 400},
        {"GET", "/v1/status", "host: localhost", NULL, 200},
        {"POST", "/a.B/C", NULL, "{}", 501},
    };

    begin(0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct http2_answer *answer =
            ask(rows[i].method, rows[i].path, rows[i].header, rows[i].body);
        if (answer->status != rows[i].status)
            FAIL("%s %s: %d, not %d", rows[i].method, rows[i].path, answer->status, rows[i].status);
        EXPECT(answer->ended && answer->error == NGHTTP2_NO_ERROR);
        EXPECT_CONTAINS(answer->headers, "cache-control: no-store\n");
        EXPECT_CONTAINS(answer->headers, "content-type: ");
    }
    EXPECT_CONTAINS(ask("DELETE", "/v1/records", NULL, NULL)->headers, "allow: GET\n");
    end();
}

TEST(a_head_answer_has_no_body)
{
    begin(0);
    EXPECT_EQ_I64(ask("HEAD", "/v1/status", NULL, NULL)->status, 405);
    EXPECT_EQ_U64(ask("HEAD", "/v1/status", NULL, NULL)->size, 0);
    end();
}

TEST(headers_of_any_length_come_and_go_and_trailers_follow_the_body)
{
    static char line[8100] = "x-ask: ";
    struct http2_answer *answer;

    memset(line + 7, 'v', 8000);
    begin(0);
    answer = ask("GET", "/test/head", line, NULL);
    EXPECT_STR((const char *)answer->body, "http 2, host localhost");
    EXPECT_CONTAINS(answer->headers, "x-told: vvvv");
    EXPECT(strstr(answer->headers, "content-length") == NULL);
    EXPECT_EQ_U64(strlen(answer->trailers), 11 + 8000 + 1);
    EXPECT_CONTAINS(answer->trailers, "x-trailer: vvvv");
    EXPECT(answer->ended && answer->error == NGHTTP2_NO_ERROR);
    end();
}

TEST(on_http_1_long_headers_go_out_and_trailers_do_not)
{
    static char request[9000] =
        "GET /test/head HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-Ask: ";
    size_t size = strlen(request);
    const char *answer;
    int fd;

    begin(0);
    memset(request + size, 'v', 8000);
    memcpy(request + size + 8000, "\r\n\r\n", 5);
    fd = rig_connect(&rig, "api");
    rig_send(&rig, fd, request, strlen(request));
    answer = rig_read(&rig, fd, NULL);
    EXPECT_CONTAINS(answer, "http 1, host a");
    EXPECT_CONTAINS(answer, "X-Told: vvvv");
    EXPECT(strlen(answer) > 8000 && strlen(answer) < 9000);
    EXPECT(strcasestr(answer, "x-trailer") == NULL);
    (void)close(fd);
    end();
}

TEST(a_reply_without_body_is_one_frame)
{
    struct http2_answer *answer;

    begin(0);
    answer = ask("GET", "/test/only", NULL, NULL);
    EXPECT_CONTAINS(answer->headers, "grpc-status: 12\n");
    EXPECT_STR(answer->trailers, "");
    EXPECT_EQ_U64(answer->size, 0);
    EXPECT(answer->ended);
    end();
}

TEST(a_header_that_would_become_two_cuts_the_answer)
{
    struct http2_answer *answer;

    begin(0);
    answer = ask("GET", "/test/wrong", NULL, NULL);
    EXPECT(!answer->ended);
    EXPECT_EQ_U64(answer->error, NGHTTP2_INTERNAL_ERROR);
    EXPECT_EQ_I64(ask("GET", "/v1/status", NULL, NULL)->status, 200);
    end();
}

TEST(a_large_head_is_told_and_costs_only_itself)
{
    static char line[KS_HEAD_BYTES_MAX + 100] = "x-big: ";
    static char path[KS_TARGET_MAX + 100] = "/v1/status?subscription=";

    memset(line + 7, 'v', KS_HEAD_BYTES_MAX);
    memset(path + strlen(path), 'v', KS_TARGET_MAX);
    begin(0);
    EXPECT_EQ_I64(ask("GET", "/v1/status", line, NULL)->status, 431);
    EXPECT_EQ_I64(ask("GET", path, NULL, NULL)->status, 431);
    EXPECT_EQ_I64(ask("GET", "/v1/status", NULL, NULL)->status, 200);
    end();
}

TEST(an_answer_begins_before_its_request_has_ended)
{
    struct http2_answer *answer;

    begin(0);
    answer = http2_ask(&client, "POST", "/test/echo", NULL, "one", true);
    http2_wait_bytes(&client, answer, 3);
    http2_upload(&client, answer, "two", 3, false);
    http2_wait_bytes(&client, answer, 6);
    EXPECT(!answer->ended);
    http2_upload(&client, answer, "!", 1, true);
    http2_wait(&client, answer);
    EXPECT_STR((const char *)answer->body, "onetwo!");
    EXPECT_STR(answer->trailers, "x-end: yes\n");
    EXPECT_EQ_U64(http2_seen.closed, 1);
    end();
}

TEST(megabytes_are_echoed_through_windows)
{
    static uint8_t bytes[3 << 20];
    struct http2_answer *answer;

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = http2_pattern(i);
    begin(0);
    answer = http2_ask(&client, "POST", "/test/echo", NULL, NULL, true);
    http2_upload(&client, answer, bytes, sizeof(bytes), true);
    http2_wait(&client, answer);
    expect_pattern(answer, sizeof(bytes));
    EXPECT_STR(answer->trailers, "x-end: yes\n");
    end();
}

TEST(a_handler_that_gives_nothing_back_stops_its_client_and_no_other)
{
    static uint8_t bytes[1 << 20];
    struct http2_answer *held;

    begin(0);
    held = http2_ask(&client, "POST", "/test/hold", NULL, NULL, true);
    http2_upload(&client, held, bytes, sizeof(bytes), true);
    for (int i = 0; i < 5000 && http2_seen.held < KS_BODY_WINDOW; i++)
        http2_turn(&client);
    http2_turns(&client, 50);
    EXPECT_EQ_U64(http2_seen.held, KS_BODY_WINDOW);
    EXPECT_EQ_U64(rig.api->accounts.held[KS_HELD_BODIES], KS_BODY_WINDOW);
    EXPECT_EQ_I64(ask("POST", "/v1/records/ack?ack_id=" RIG_FOREIGN_ID, NULL, "{}")->status, 200);
    while (!http2_seen.ended) {
        http2_release();
        http2_turns(&client, 5);
    }
    EXPECT_EQ_U64(http2_seen.total, sizeof(bytes));
    http2_wait(&client, held);
    EXPECT_EQ_I64(held->status, 200);
    end();
}

TEST(a_stream_that_is_reset_closes_its_exchange_once)
{
    struct http2_answer *answer;

    begin(0);
    answer = http2_ask(&client, "POST", "/test/hold", NULL, "abc", true);
    while (http2_seen.total < 3)
        http2_turn(&client);
    http2_cancel(&client, answer);
    http2_wait(&client, answer);
    http2_turns(&client, 20);
    EXPECT_EQ_U64(http2_seen.closed, 1);
    EXPECT_EQ_U64(rig.api->accounts.held[KS_HELD_BODIES], 0);
    EXPECT_EQ_I64(ask("GET", "/v1/status", NULL, NULL)->status, 200);
    end();
    EXPECT_EQ_U64(http2_seen.closed, 1);
}

TEST(a_client_that_leaves_closes_its_exchanges)
{
    begin(0);
    (void)http2_ask(&client, "POST", "/test/hold", NULL, "abc", true);
    while (http2_seen.total < 3)
        http2_turn(&client);
    end();
    EXPECT_EQ_U64(http2_seen.closed, 1);
}

TEST(an_answer_before_the_end_of_its_request_ends_with_a_reset_without_error)
{
    struct http2_answer *answer;

    begin(0);
    answer = http2_ask(&client, "POST", "/test/early", NULL, "abc", true);
    while (!answer->ended)
        http2_turn(&client);
    /* Not only when it is looked for who is late. */
    for (int i = 0; i < 20; i++)
        http2_turn(&client);
    EXPECT(answer->closed);
    EXPECT_EQ_I64(answer->status, 200);
    EXPECT_STR((const char *)answer->body, "early");
    EXPECT_STR(answer->trailers, "x-end: early\n");
    EXPECT(answer->ended);
    EXPECT_EQ_U64(answer->error, NGHTTP2_NO_ERROR);
    end();
}

TEST(windows_smaller_than_a_producer_may_be_asked_for_lose_nothing)
{
    begin(700);
    expect_pattern(ask("GET", "/test/bytes", "x-bytes: 100000", NULL), 100000);
    end();
}

TEST(many_that_produce_at_once_lose_nothing)
{
    enum { MANY = 12, BYTES = 300000 };
    struct http2_answer *answers[MANY];
    struct http2_answer *left;

    begin(1 << 20);
    for (int i = 0; i < MANY; i++)
        answers[i] = http2_ask(&client, "GET", "/test/bytes", "x-bytes: 300000", NULL, false);
    left = http2_ask(&client, "GET", "/test/bytes", "x-bytes: 300000", NULL, false);
    http2_wait_bytes(&client, left, 1);
    http2_cancel(&client, left);
    for (int i = 0; i < MANY; i++) {
        http2_wait(&client, answers[i]);
        expect_pattern(answers[i], BYTES);
    }
    end();
}

/* Bytes of the large one wait for the socket all the time. */
TEST(answers_whose_bytes_are_in_the_socket_are_freed_beside_one_with_a_backlog)
{
    enum { SMALL = 8, SMALL_BYTES = 10, WINDOW = 1 << 30 };
    struct http2_answer *large;

    begin(WINDOW);
    EXPECT(nghttp2_session_set_local_window_size(client.session, NGHTTP2_FLAG_NONE, 0, WINDOW) ==
           0);
    large = http2_ask(&client, "GET", "/test/bytes", "x-bytes: 30000000", NULL, false);
    http2_wait_bytes(&client, large, 1);
    for (int i = 0; i < SMALL; i++)
        (void)http2_ask(&client, "GET", "/test/bytes", "x-bytes: 10", NULL, false);
    while (http2_seen.closed < SMALL && !large->ended)
        http2_turn(&client);
    EXPECT(!large->ended);
    EXPECT_EQ_U64(http2_seen.closed, SMALL);
    EXPECT(http2_seen.sent > SMALL * SMALL_BYTES && http2_seen.sent < 30000000);
    end();
}

TEST(a_producer_that_gives_up_costs_its_stream_alone)
{
    struct http2_answer *answer;

    begin(0);
    answer = ask("GET", "/test/abort", NULL, NULL);
    EXPECT(!answer->ended);
    EXPECT_EQ_U64(answer->error, NGHTTP2_INTERNAL_ERROR);
    expect_pattern(answer, 100);
    expect_pattern(ask("GET", "/test/bytes", "x-bytes: 5000", NULL), 5000);
    end();
}

TEST(a_body_beyond_the_limit_is_told_at_once_and_thrown_away)
{
    static char body[9001];
    struct http2_answer *answer;

    memset(body, '1', sizeof(body) - 1);
    begin(0);
    answer = ask("POST", "/v1/records/ack", NULL, body);
    EXPECT_EQ_I64(answer->status, 413);
    EXPECT_EQ_U64(answer->error, NGHTTP2_NO_ERROR);
    EXPECT_EQ_I64(ask("POST", "/v1/records/ack", "content-length: 9000", body)->status, 413);
    EXPECT_EQ_I64(ask("GET", "/v1/status", NULL, NULL)->status, 200);
    end();
}

TEST(who_expects_100_hears_it_before_the_body)
{
    struct http2_answer *answer;

    begin(0);
    answer = http2_ask(&client, "POST", "/v1/records/ack?ack_id=" RIG_FOREIGN_ID,
                       "expect: 100-continue", NULL, true);
    for (int i = 0; i < 5000 && client.continued == 0; i++)
        http2_turn(&client);
    EXPECT_EQ_I64(client.continued, 1);
    http2_upload(&client, answer, "{}", 2, true);
    http2_wait(&client, answer);
    EXPECT_EQ_I64(answer->status, 200);
    end();
}

/* Sends more of it, for one turn. */
static void send_more(int fd, const char *bytes, size_t size, size_t *sent)
{
    ssize_t some = send(fd, bytes + *sent, size - *sent, MSG_DONTWAIT);

    *sent += some > 0 ? (size_t)some : 0;
    ks_loop_turn(rig.stage.loop, ks_span_ms(1));
}

TEST(streamed_bodies_come_in_parts_on_http_1_too)
{
    enum { BODY = 900000 };
    static char request[BODY + 200] = "POST /test/hold HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
                                      "Content-Length: 900000\r\n\r\n";
    size_t size = strlen(request) + BODY;
    size_t sent = 0;
    int fd;

    begin(0);
    fd = rig_connect(&rig, "api");
    while (http2_seen.held < KS_BODY_WINDOW)
        send_more(fd, request, size, &sent);
    for (int i = 0; i < 50; i++)
        send_more(fd, request, size, &sent);
    EXPECT(http2_seen.held < KS_BODY_WINDOW + KS_POOL_BYTES);
    while (http2_seen.total < BODY) {
        http2_release();
        send_more(fd, request, size, &sent);
    }
    EXPECT_CONTAINS(rig_read(&rig, fd, NULL), "HTTP/1.1 200");
    EXPECT_EQ_U64(http2_seen.total, BODY);
    EXPECT_EQ_U64(http2_seen.closed, 1);
    (void)close(fd);
    end();
}

TEST(who_answers_without_giving_back_leaves_nobody_waiting)
{
    enum { BODY = 900000 };
    static char request[BODY + 200] = "POST /test/full HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
                                      "Content-Length: 900000\r\n\r\n";
    size_t size = strlen(request) + BODY;
    size_t sent = 0;
    struct http2_answer *answer;
    int fd;

    begin(0);
    fd = rig_connect(&rig, "api");
    while (sent < size)
        send_more(fd, request, size, &sent);
    EXPECT_CONTAINS(rig_read(&rig, fd, NULL), "\r\n\r\nfull");
    (void)close(fd);
    http2_seen = (struct http2_seen){0};
    answer = http2_ask(&client, "POST", "/test/full", NULL, NULL, true);
    http2_upload(&client, answer, request, BODY, true);
    http2_wait(&client, answer);
    EXPECT_STR((const char *)answer->body, "full");
    EXPECT_EQ_U64(http2_seen.closed, 1);
    end();
}

TEST(a_client_of_http_1_that_leaves_while_its_handler_holds_is_noticed)
{
    static char request[600000] = "POST /test/hold HTTP/1.1\r\nHost: a\r\n"
                                  "Content-Length: 550000\r\n\r\n";
    int fd;

    begin(0);
    fd = rig_connect(&rig, "api");
    for (size_t sent = 0; http2_seen.held < KS_BODY_WINDOW;) {
        ssize_t some = send(fd, request + sent, sizeof(request) - 50000 - sent, MSG_DONTWAIT);
        sent += some > 0 ? (size_t)some : 0;
        ks_loop_turn(rig.stage.loop, ks_span_ms(1));
    }
    (void)close(fd);
    for (int i = 0; i < 5000 && http2_seen.closed == 0; i++)
        ks_loop_turn(rig.stage.loop, ks_span_ms(1));
    EXPECT_EQ_U64(http2_seen.closed, 1);
    end();
}
