/* SPDX-License-Identifier: Apache-2.0 */
#include "api/records.h"
#include "ks_test.h"
#include "unit/api/api_rig.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct rig rig;

static int begin_poll(const char *query)
{
    char request[300];
    int fd = rig_connect(&rig, "api");
    int size =
        snprintf(request, sizeof(request),
                 "GET /v1/records?%s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", query);

    rig_send(&rig, fd, request, (size_t)size);
    return fd;
}

TEST(nothing_says_why)
{
    rig_begin(&rig);
    EXPECT_CONTAINS(rig_call(&rig, "GET", "/v1/records?wait_ms=0", ""),
                    "{\"records\":[],\"batch_id\":\"\",\"session\":\"default\",\"idle_reason\":\"");
    stage_turn_until(&rig.stage, stage_holds_all);
    EXPECT_CONTAINS(rig_call(&rig, "GET", "/v1/records?wait_ms=300", ""),
                    "\"idle_reason\":\"no_data\"");
    rig_end(&rig);
}

/* Three wait for one session: what comes goes to them in the order in which they came. */
TEST(polls_that_wait_are_served_one_after_the_other)
{
    int fds[3];

    rig_begin(&rig);
    (void)rig_call(&rig, "GET", "/v1/records?wait_ms=0", "");
    stage_turn_until(&rig.stage, stage_holds_all);
    for (int i = 0; i < 3; i++) {
        fds[i] = begin_poll("wait_ms=20000&max_records=1");
        rig_turn(&rig, 30);
    }
    for (uint32_t i = 0; i < 3; i++) {
        char part[40];
        stage_put(&rig.stage, i, 1);
        (void)snprintf(part, sizeof(part), "\"partition_key\":\"%u\"", i);
        EXPECT_CONTAINS(rig_read(&rig, fds[i], NULL), part);
        (void)close(fds[i]);
    }
    rig_end(&rig);
}

TEST(what_a_poll_has_is_in_flight_until_it_is_settled)
{
    const char *answer;

    rig_begin(&rig);
    stage_put(&rig.stage, 0, 2);
    answer = rig_pull(&rig, "/v1/records?session=one");
    EXPECT_CONTAINS(answer, "\"session\":\"one\",\"idle_reason\":null}\n");
    EXPECT_CONTAINS(rig_call(&rig, "GET", "/v1/sessions", ""), "\"session\":\"one\"");
    EXPECT_CONTAINS(rig_call(&rig, "GET", "/v1/sessions", ""), "\"kind\":\"pull\"");
    rig_end(&rig);
}

TEST(a_poll_makes_a_session_with_a_share_under_a_name_that_keeps_it)
{
    static const char poll[] = "/v1/records?wait_ms=0&ordering=key&lanes=4&share=0.25&salt=v2";
    static char named[200];

    rig_begin(&rig);
    (void)snprintf(named, sizeof(named), "%s&session=one", poll);
    EXPECT_CONTAINS(rig_call(&rig, "GET", poll, ""), "share goes with session=NAME");
    EXPECT_CONTAINS(rig_call(&rig, "GET", "/v1/records?share=0.5&session=one", ""),
                    "share goes with ordering=key");
    EXPECT_CONTAINS(rig_call(&rig, "GET", named, ""), "HTTP/1.1 200");
    EXPECT_CONTAINS(rig_call(&rig, "GET", named, ""), "HTTP/1.1 200");
    EXPECT_CONTAINS(rig_call(&rig, "GET", "/v1/sessions", ""),
                    "\"share\":\"0.25\",\"salt\":\"v2\"");
    named[strlen(named) - strlen("v2&session=one") + 1] = '3';
    EXPECT_CONTAINS(rig_call(&rig, "GET", named, ""), "another share or salt");
    EXPECT_CONTAINS(rig_call(&rig, "GET", "/v1/records?wait_ms=0&session=one", ""), "HTTP/1.1 200");
    EXPECT_CONTAINS(rig_call(&rig, "DELETE", "/v1/sessions/one", ""), "HTTP/1.1 200");
    EXPECT_CONTAINS(rig_call(&rig, "GET", named, ""), "HTTP/1.1 200");
    rig_end(&rig);
}

TEST(a_poll_makes_a_session_with_a_filter_under_a_name_that_keeps_it)
{
    static const char poll[] =
        "/v1/records?wait_ms=0&filter=%7B%22partitionKey%22%3A%5B%221%22%5D%7D";
    static char named[200];

    rig_begin(&rig);
    stage_put(&rig.stage, 0, 3);
    (void)snprintf(named, sizeof(named), "%s&session=one", poll);
    EXPECT_CONTAINS(rig_call(&rig, "GET", poll, ""), "filter goes with session=NAME");
    EXPECT_CONTAINS(rig_pull(&rig, named), "\"partition_key\":\"1\"");
    EXPECT_CONTAINS(rig_call(&rig, "GET", "/v1/sessions", ""),
                    "\"filter\":\"{\\\"partitionKey\\\":[\\\"1\\\"]}\"");
    EXPECT_CONTAINS(rig_call(&rig, "GET", "/v1/records?wait_ms=0&session=one", ""), "HTTP/1.1 200");
    named[strlen(named) - strlen("%22%5D%7D&session=one") - 1] = '2';
    EXPECT_CONTAINS(rig_call(&rig, "GET", named, ""), "with another filter");
    EXPECT_CONTAINS(rig_call(&rig, "GET", "/v1/records?session=two", ""), "HTTP/1.1 409");
    rig_end(&rig);
}

TEST(a_closed_session_answers_who_waits)
{
    int fd;

    rig_begin(&rig);
    fd = begin_poll("wait_ms=20000&session=one");
    rig_turn(&rig, 50);
    EXPECT_CONTAINS(rig_call(&rig, "DELETE", "/v1/sessions/one", ""), "HTTP/1.1 200");
    EXPECT_CONTAINS(rig_read(&rig, fd, NULL), "\"records\":[]");
    (void)close(fd);
    rig_end(&rig);
}

/* A drain reads nothing more: who waits, and who comes while a record is still in flight, is told at once. */
TEST(a_drain_answers_who_waits)
{
    int fd;
    int drain;
    static const char begin[] = "POST /v1/drain HTTP/1.1\r\nHost: a\r\n\r\n";

    rig_begin(&rig);
    stage_put(&rig.stage, 0, 1);
    (void)rig_pull(&rig, "/v1/records");
    fd = begin_poll("wait_ms=20000");
    rig_turn(&rig, 100);
    drain = rig_connect(&rig, "api");
    rig_send(&rig, drain, begin, sizeof(begin) - 1);
    EXPECT_CONTAINS(rig_read(&rig, drain, "\"progress\""), "\"in_flight\":1");
    EXPECT_CONTAINS(rig_read(&rig, fd, NULL), "\"idle_reason\":\"draining\"");
    EXPECT_CONTAINS(rig_call(&rig, "GET", "/v1/records?wait_ms=20000", ""),
                    "\"idle_reason\":\"draining\"");
    EXPECT(!rig.stage.drained);
    (void)rig_read(&rig, drain, "\"drained\"");
    (void)close(fd);
    (void)close(drain);
    rig_end(&rig);
}

TEST(bad_parameters_and_names_are_refused)
{
    int fd;
    static const char stream[] = "GET /v1/records/stream?client_id=s HTTP/1.1\r\nHost: a\r\n\r\n";

    rig_begin(&rig);
    EXPECT_CONTAINS(rig_call(&rig, "GET", "/v1/records?max_records=0", ""), "1 to 10000");
    EXPECT_CONTAINS(rig_call(&rig, "GET", "/v1/records?wait_ms=60001", ""), "0 to 60000");
    EXPECT_CONTAINS(rig_call(&rig, "GET", "/v1/records?session=", ""), "HTTP/1.1 400");
    EXPECT_CONTAINS(rig_call(&rig, "GET", "/v1/records?session=a%2Fb", ""),
                    "the name of a session");
    fd = rig_connect(&rig, "api");
    rig_send(&rig, fd, stream, sizeof(stream) - 1);
    (void)rig_read(&rig, fd, "session");
    EXPECT_CONTAINS(rig_call(&rig, "GET", "/v1/records?session=s", ""), "is an open stream");
    (void)close(fd);
    ks_api_quiesce(rig.api);
    EXPECT_CONTAINS(rig_call(&rig, "GET", "/v1/records?session=late", ""), "Retry-After: 1");
    rig_end(&rig);
}
