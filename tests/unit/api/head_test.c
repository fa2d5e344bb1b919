/* SPDX-License-Identifier: Apache-2.0 */
#include "api/head.h"
#include "api/server.h"
#include "ks_test.h"

#include <string.h>

static struct ks_api api = {.request_bytes_max = 1000};
static struct ks_exchange exchange;
static struct ks_head head;

static void begin(void)
{
    ks_exchange_init(&exchange, &api, NULL);
    head = (struct ks_head){
        .headers = &exchange.request.headers, .most = KS_HEAD_BYTES_MAX, .http = 1, .whole = true};
    exchange.request.target = KS_VIEW("/");
}

static void line(const char *name, const char *value)
{
    ks_head_line(&head, ks_view_text(name), ks_view_text(value));
}

/* The status that it is answered with; 0 if it is accepted. Frees the exchange. */
static int judge(void)
{
    bool good = ks_head_judge(&head, &exchange);
    int status = exchange.answer.status;

    EXPECT(good == !exchange.answered);
    EXPECT(good || exchange.answer.close);
    ks_exchange_end(&exchange);
    return status;
}

TEST(an_ordinary_head_fills_the_request)
{
    begin();
    line("host", "localhost");
    line("CONTENT-LENGTH", " 12");
    line("Content-Type", "application/json");
    line("X-Other", "ignored");
    EXPECT(ks_head_judge(&head, &exchange));
    EXPECT_EQ_U64(exchange.request.length, 12);
    EXPECT(exchange.request.has_body);
    EXPECT(ks_view_equal(exchange.request.content_type, KS_VIEW("application/json")));
    EXPECT(exchange.request.origin.data == NULL);
    EXPECT(ks_request_header(&exchange.request, "X-Other").data == NULL);
    EXPECT(ks_request_header(&exchange.request, "x-none").data == NULL);
    ks_exchange_end(&exchange);
}

TEST(lines_that_nobody_asks_for_take_no_memory)
{
    begin();
    for (int i = 0; i < 100; i++)
        line("X-Other", "a long line of which nobody wants to know anything");
    for (int i = 0; i < 100; i++)
        line("Accept", "text/html");
    line("Host", "localhost");
    EXPECT(exchange.request.headers.lines.size < 100);
    EXPECT(ks_head_judge(&head, &exchange));
    EXPECT(ks_view_equal(exchange.request.accept, KS_VIEW("text/html")));
    ks_exchange_end(&exchange);
}

TEST(a_service_may_want_all_lines)
{
    begin();
    head.all = true;
    line("Host", "localhost");
    line("X-Other", "one");
    line("X-Other", "two");
    EXPECT(ks_head_judge(&head, &exchange));
    EXPECT(ks_view_equal(ks_request_header(&exchange.request, "X-Other"), KS_VIEW("one")));
    EXPECT_EQ_U64(exchange.request.headers.lines.size,
                  3 * 2 * sizeof(uint32_t) + sizeof("hostlocalhostx-otheronex-othertwo") - 1);
    ks_exchange_end(&exchange);
}

TEST(the_ops_addresses_take_shorter_heads)
{
    static char long_value[KS_OPS_HEAD_BYTES_MAX];

    memset(long_value, 'a', sizeof(long_value) - 1);
    begin();
    head.most = KS_OPS_HEAD_BYTES_MAX;
    exchange.request.ops = true;
    line("Host", "localhost");
    line("X-Long", long_value);
    EXPECT_EQ_I64(judge(), 431);
}

TEST(chunks_are_a_body_of_unknown_length)
{
    begin();
    line("Host", "localhost");
    line("Transfer-Encoding", "Chunked");
    EXPECT(ks_head_judge(&head, &exchange));
    EXPECT(exchange.request.has_body);
    EXPECT_EQ_U64(exchange.request.length, UINT64_MAX);
    ks_exchange_end(&exchange);
}

TEST(every_doubt_about_the_framing_is_refused)
{
    static const char *const bad[][4] = {
        {"Content-Length", "5", "Content-Length", "5"},
        {"Content-Length", "5", "Content-Length", "6"},
        {"Content-Length", "5", "Transfer-Encoding", "chunked"},
        {"Transfer-Encoding", "chunked", "Transfer-Encoding", "chunked"},
        {"Content-Length", "+5", "X", "y"},
        {"Content-Length", "5, 5", "X", "y"},
        {"Content-Length", "", "X", "y"},
        {"Host", "other", "X", "y"},
        {"Transfer-Encoding ", "chunked", "X", "y"},
        {" Transfer-Encoding", "chunked", "X", "y"},
        {"", "chunked", "X", "y"},
        {"Transfer-Encoding", "\013chunked", "X", "y"},
        {"X", "a\rContent-Length: 5", "X", "y"},
        {"X", "\177", "X", "y"},
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        begin();
        line("Host", "localhost");
        line(bad[i][0], bad[i][1]);
        line(bad[i][2], bad[i][3]);
        EXPECT_EQ_I64(judge(), 400);
    }
    begin();
    line("Host", "localhost");
    line("Transfer-Encoding", "gzip");
    EXPECT_EQ_I64(judge(), 501);
    begin();
    line("Host", "localhost");
    line("Transfer-Encoding", "gzip, chunked");
    EXPECT_EQ_I64(judge(), 501);
    /* libmicrohttpd would not take the body for chunked, and wait for its end. */
    begin();
    line("Host", "localhost");
    line("Transfer-Encoding", "chunked ");
    EXPECT_EQ_I64(judge(), 501);
}

TEST(a_nul_or_a_missing_host_is_refused)
{
    begin();
    EXPECT_EQ_I64(judge(), 400);
    begin();
    head.host_may_be_absent = true;
    EXPECT_EQ_I64(judge(), 0);
    begin();
    line("Host", "localhost");
    head.whole = false;
    EXPECT_EQ_I64(judge(), 400);
    begin();
    line("Host", "localhost");
    ks_head_line(&head, KS_VIEW("X"), ks_view_of("a\0b", 3));
    EXPECT_EQ_I64(judge(), 400);
}

TEST(a_large_head_is_refused)
{
    static char value[KS_HEAD_BYTES_MAX];

    memset(value, 'x', sizeof(value) - 1);
    begin();
    line("Host", "localhost");
    line("X-Large", value);
    EXPECT_EQ_I64(judge(), 431);
    begin();
    line("Host", "localhost");
    exchange.request.target = ks_view_of(value, KS_TARGET_MAX + 1);
    EXPECT_EQ_I64(judge(), 431);
}

/* The status of the refusal of a first request line; 0 if it is left to libmicrohttpd. */
static int refusal_of(const char *start)
{
    enum ks_problem problem;
    const char *why;

    if (!ks_head_refuses_line(ks_view_text(start), &problem, &why))
        return 0;
    EXPECT(strlen(why) > 0);
    return (int)ks_problem_status(problem);
}

TEST(first_line_without_a_version_of_http_1_is_refused)
{
    EXPECT_EQ_I64(refusal_of("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), 0);
    EXPECT_EQ_I64(refusal_of("GET / HTTP/1.0\n"), 0);
    EXPECT_EQ_I64(refusal_of("GET /a b HTTP/1.1\r\n"), 0);
    EXPECT_EQ_I64(refusal_of("GET /\r\n"), 400);
    EXPECT_EQ_I64(refusal_of("HELLO\r\n"), 400);
    EXPECT_EQ_I64(refusal_of("GET / http/1.1\r\n"), 400);
    EXPECT_EQ_I64(refusal_of("GET / HTTP/11\r\n"), 400);
    EXPECT_EQ_I64(refusal_of("GET / HTTP/1.10\r\n"), 400);
    EXPECT_EQ_I64(refusal_of("GET / HTTP/1.x\r\n"), 400);
    EXPECT_EQ_I64(refusal_of("GET / HTTP/1.1 \r\n"), 400);
    EXPECT_EQ_I64(refusal_of("GET / HTTP/2.0\r\n"), 505);
    EXPECT_EQ_I64(refusal_of("GET / HTTP/0.9\r\n"), 505);
}

TEST(first_line_that_is_not_whole_is_not_judged)
{
    EXPECT_EQ_I64(refusal_of(""), 0);
    EXPECT_EQ_I64(refusal_of("GET / HTTP/2.0"), 0);
    EXPECT_EQ_I64(refusal_of("\r\nGET / HTTP/2.0\r\n"), 0);
    EXPECT_EQ_I64(refusal_of("\n"), 0);
}
