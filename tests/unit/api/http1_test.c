/* SPDX-License-Identifier: Apache-2.0 */
/* The whole floor over a real switchboard, at the level of bytes: what libmicrohttpd would let pass. */
#include "api/http1.h"
#include "api/limits.h"
#include "base/metrics.h"
#include "ks_test.h"
#include "unit/api/api_rig.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct rig rig;

TEST(requests_that_a_proxy_may_read_otherwise_are_refused_and_closed)
{
    static const struct {
        const char *request;
        const char *status;
    } bad[] = {
        {"POST /v1/records/ack HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Length: "
         "2\r\n\r\n{}",
         "HTTP/1.1 400"},
        {"POST /v1/records/ack HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Length: "
         "3\r\n\r\n{}",
         "HTTP/1.1 400"},
        {"POST /v1/records/ack HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nTransfer-Encoding: "
         "chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
         "HTTP/1.1 400"},
        {"POST /v1/records/ack HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n",
         "HTTP/1.1 501"},
        {"POST /v1/records/ack HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n chunked\r\n"
         "Content-Length: 2\r\n\r\n{}",
         "HTTP/1.1 400"},
        {"POST /v1/records/ack HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: a,\r\n\tchunked\r\n"
         "Content-Length: 2\r\n\r\n{}",
         "HTTP/1.1 400"},
        {"POST /v1/records/ack HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n"
         "Content-Length: 2\r\n\r\n{}",
         "HTTP/1.1 400"},
        {"POST /v1/records/ack HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked \r\n\r\n"
         "0\r\n\r\n",
         "HTTP/1.1 501"},
        {"GET /v1/status HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "HTTP/1.1 400"},
        {"GET /v1/status HTTP/1.1\r\n\r\n", "HTTP/1.1 400"},
    };

    rig_begin(&rig);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        rig_expect_refused(&rig, bad[i].request, strlen(bad[i].request), bad[i].status);
    rig_end(&rig);
}

TEST(a_nul_in_the_request_line_is_refused)
{
    static const char request[] = "GET /v1/status\0x HTTP/1.1\r\nHost: a\r\n\r\n";

    rig_begin(&rig);
    rig_expect_refused(&rig, request, sizeof(request) - 1, "HTTP/1.1 400");
    rig_end(&rig);
}

TEST(a_connection_answers_one_request_after_the_other)
{
    static const char two[] = "GET /v1/status HTTP/1.1\r\nHost: a\r\n\r\n"
                              "GET /v1/nothing HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    const char *answer;

    rig_begin(&rig);
    answer = rig_say(&rig, "api", two, sizeof(two) - 1);
    EXPECT_CONTAINS(answer, "HTTP/1.1 200");
    EXPECT_CONTAINS(answer, "HTTP/1.1 404");
    rig_end(&rig);
}

TEST(a_large_head_is_told)
{
    static char request[KS_HEAD_BYTES_MAX + 200];
    int size;

    rig_begin(&rig);
    size = snprintf(request, sizeof(request),
                    "GET /v1/status HTTP/1.1\r\nHost: a\r\nX: %0*d\r\n\r\n", KS_HEAD_BYTES_MAX, 0);
    rig_expect_refused(&rig, request, (size_t)size, "HTTP/1.1 431");
    rig_end(&rig);
}

TEST(http_1_0_is_answered_too)
{
    static const char request[] = "GET /v1/status HTTP/1.0\r\n\r\n";

    rig_begin(&rig);
    EXPECT_CONTAINS(rig_say(&rig, "api", request, sizeof(request) - 1), "\"worker_id\":\"worker\"");
    rig_end(&rig);
}

TEST(a_client_that_leaves_while_it_waits_is_noticed)
{
    static const char request[] = "GET /v1/records?wait_ms=60000 HTTP/1.1\r\nHost: a\r\n\r\n";
    int fd;

    rig_begin(&rig);
    fd = rig_connect(&rig, "api");
    rig_send(&rig, fd, request, sizeof(request) - 1);
    rig_turn(&rig, 100);
    EXPECT(ks_api_busy(rig.api));
    (void)close(fd);
    rig_turn(&rig, 100);
    EXPECT(!ks_api_busy(rig.api));
    rig_end(&rig);
}

/* Its data and its end may come in one event, and libmicrohttpd sees only the data. */
TEST(a_request_that_ends_in_the_middle_is_let_go_soon)
{
    static const char *const parts[] = {
        "POST /v1/records/ack HTTP/1.1\r\nHost: a\r\n",
        "POST /v1/records/ack HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{",
        "POST /v1/records/ack HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n{",
    };
    ks_instant begun;

    rig_begin(&rig);
    begun = ks_loop_now(rig.stage.loop);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        int fd = rig_connect(&rig, "api");
        EXPECT(send(fd, parts[i], strlen(parts[i]), 0) == (ssize_t)strlen(parts[i]));
        EXPECT(shutdown(fd, SHUT_WR) == 0);
        EXPECT_STR(rig_read(&rig, fd, NULL), "");
        (void)close(fd);
    }
    EXPECT(ks_instant_since(ks_loop_now(rig.stage.loop), begun).us < 5000000);
    rig_end(&rig);
}

TEST(whoever_has_said_all_and_closed_its_side_is_answered)
{
    static const char request[] =
        "POST /v1/records/ack HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}";
    int fd;

    rig_begin(&rig);
    fd = rig_connect(&rig, "api");
    EXPECT(send(fd, request, sizeof(request) - 1, 0) == sizeof(request) - 1);
    EXPECT(shutdown(fd, SHUT_WR) == 0);
    EXPECT_CONTAINS(rig_read(&rig, fd, NULL), "1 to 10000 settlements");
    (void)close(fd);
    rig_end(&rig);
}

TEST(closing_the_api_ends_everything_that_waits)
{
    static const char poll[] = "GET /v1/records?wait_ms=60000 HTTP/1.1\r\nHost: a\r\n\r\n";
    static const char stream[] = "GET /v1/records/stream HTTP/1.1\r\nHost: a\r\n\r\n";
    int fds[4];

    rig_begin(&rig);
    for (int i = 0; i < 4; i++)
        fds[i] = rig_connect(&rig, "api");
    rig_send(&rig, fds[0], poll, sizeof(poll) - 1);
    rig_send(&rig, fds[1], stream, sizeof(stream) - 1);
    rig_send(&rig, fds[2], poll, 10);
    rig_turn(&rig, 100);
    rig_end(&rig);
    for (int i = 0; i < 4; i++)
        (void)close(fds[i]);
    EXPECT_EQ_I64(ks_metric_number(KS_METRIC_CONNECTIONS), 0);
}

/* Within the bound of a target, and beyond what libmicrohttpd can keep of parameters. */
TEST(query_of_too_many_parameters_is_refused_and_ends_its_connection_alone)
{
    static const char line[] = "GET /v1/status?";
    static const char rest[] = " HTTP/1.1\r\nHost: localhost\r\n\r\n";
    static char request[KS_TARGET_MAX];
    size_t size = sizeof(line) - 1;

    memcpy(request, line, size);
    for (; size < sizeof(request) - sizeof(rest) - 2; size += 2)
        memcpy(request + size, "a&", 2);
    memcpy(request + size, rest, sizeof(rest) - 1);
    size += sizeof(rest) - 1;
    rig_begin(&rig);
    rig_expect_refused(&rig, request, size, "HTTP/1.1 431");
    EXPECT_CONTAINS(rig_call(&rig, "GET", "/v1/status", ""), "HTTP/1.1 200");
    rig_end(&rig);
}
