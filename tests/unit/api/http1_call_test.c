/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of HTTP/1 and their bodies, over a real switchboard, at the level of bytes. */
#include "api/http1.h"
#include "api/limits.h"
#include "api/server.h"
#include "ks_test.h"
#include "unit/api/api_rig.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct rig rig;

TEST(a_body_that_is_announced_too_large_is_refused_at_once)
{
    static const char *const lengths[] = {"4097", "18446744073709551614", "18446744073709551615"};
    char request[200];

    rig_begin(&rig);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        int size = snprintf(request, sizeof(request),
                            "POST /v1/records/ack HTTP/1.1\r\nHost: a\r\n"
                            "Content-Length: %s\r\n\r\n",
                            lengths[i]);
        rig_expect_refused(&rig, request, (size_t)size, "HTTP/1.1 413");
    }
    rig_end(&rig);
}

TEST(chunks_are_swallowed_to_twice_the_limit)
{
    static char request[20000];
    int size;

    rig_begin(&rig);
    size = snprintf(request, sizeof(request),
                    "POST /v1/records/ack HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                    "1388\r\n%05000d\r\n0\r\n\r\n",
                    0);
    rig_expect_refused(&rig, request, (size_t)size, "HTTP/1.1 413");
    size = snprintf(request, sizeof(request),
                    "POST /v1/records/ack HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                    "2710\r\n%010000d\r\n0\r\n\r\n",
                    0);
    rig_expect_refused(&rig, request, (size_t)size, "HTTP/1.1 413");
    rig_end(&rig);
}

TEST(an_error_does_not_cost_the_connection)
{
    static const char two[] = "POST /v1/nothing HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"
                              "GET /v1/status HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    const char *answer;

    rig_begin(&rig);
    answer = rig_say(&rig, "api", two, sizeof(two) - 1);
    EXPECT_CONTAINS(answer, "HTTP/1.1 404");
    EXPECT_CONTAINS(answer, "HTTP/1.1 200");
    rig_end(&rig);
}

TEST(a_body_that_finds_no_room_is_refused_and_not_kept)
{
    enum { SIZE = 200000, PART = 20000 };
    static const char head[] =
        "POST /v1/records/settle HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
        "Content-Length: 200000\r\n\r\n";
    static char part[PART];
    size_t most = 0;
    int fd;

    memset(part, ' ', sizeof(part));
    rig_begin(&rig);
    rig.api->request_bytes_max = SIZE;
    rig.api->accounts.limit[KS_HELD_BODIES] = 0; /* What a connection has for itself is left. */
    fd = rig_connect(&rig, "api");
    rig_send(&rig, fd, head, sizeof(head) - 1);
    for (int sent = 0; sent < SIZE; sent += PART) {
        rig_send(&rig, fd, part, sizeof(part));
        rig_turn(&rig, 2);
        if (rig.api->accounts.held[KS_HELD_BODIES] > most)
            most = rig.api->accounts.held[KS_HELD_BODIES];
    }
    EXPECT_CONTAINS(rig_read(&rig, fd, NULL), "HTTP/1.1 429");
    EXPECT(most <= (size_t)16 << 10);
    (void)close(fd);
    rig_turn(&rig, 10);
    for (int kind = 0; kind < KS_HELD_KINDS; kind++)
        EXPECT_EQ_U64(rig.api->accounts.held[kind], 0);
    rig_end(&rig);
}

/* A body costs many turns; what follows it on its connection waits for them, and others do not. */
TEST(a_request_behind_a_costly_one_waits_for_its_turn)
{
    enum { SIZE = 600000 };
    static char request[2 * SIZE + 1000];
    size_t size = 0;
    uint64_t before;
    int fd;

    rig_begin(&rig);
    rig.api->request_bytes_max = SIZE;
    for (int i = 0; i < 2; i++) {
        size += (size_t)snprintf(request + size, 200,
                                 "POST /v1/records/settle HTTP/1.1\r\nHost: a\r\n%s"
                                 "Content-Length: %d\r\n\r\n",
                                 i == 1 ? "Connection: close\r\n" : "", SIZE);
        memset(request + size, ' ', SIZE);
        memcpy(request + size, "{}", 2);
        size += SIZE;
    }
    before = rig.api->accounts.work[KS_WORK_PARSING];
    fd = rig_connect(&rig, "api");
    rig_send(&rig, fd, request, size);
    EXPECT_CONTAINS(rig_call(&rig, "GET", "/v1/status", ""), "HTTP/1.1 200");
    EXPECT_CONTAINS(rig_read(&rig, fd, NULL), "HTTP/1.1 400");
    EXPECT_EQ_U64(rig.api->accounts.work[KS_WORK_PARSING] - before, 2 * SIZE);
    EXPECT(ks_list_empty(&rig.api->accounts.debtors));
    (void)close(fd);
    rig_end(&rig);
}
