/* SPDX-License-Identifier: Apache-2.0 */
#include "api/events.h"

#include "ks_test.h"
#include "ports/board.h"
#include "unit/api/api_rig.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct rig rig;

static int view(const char *query, const char *accept)
{
    char request[300];
    int size =
        snprintf(request, sizeof(request),
                 "GET /v1/events%s HTTP/1.1\r\nHost: a\r\nAccept: %s\r\n\r\n", query, accept);
    int fd = rig_connect(&rig, "api");

    rig_send(&rig, fd, request, (size_t)size);
    return fd;
}

/* Lets the worker take its leases. */
static void begin(void)
{
    rig_begin(&rig);
    (void)rig_call(&rig, "GET", "/v1/records?wait_ms=0", "");
    stage_turn_until(&rig.stage, stage_holds_all);
}

TEST(what_was_before_is_told_first_and_then_what_comes)
{
    const char *text;
    int fd;

    begin();
    fd = view("?heartbeat_ms=200", "*/*");
    text = rig_read(&rig, fd, "{\"type\":\"heartbeat\"}\n");
    EXPECT_CONTAINS(text, "HTTP/1.1 200");
    EXPECT_CONTAINS(text, "Content-Type: application/x-ndjson");
    EXPECT_CONTAINS(text, "{\"type\":\"reshard\",\"at\":\"20");
    EXPECT_CONTAINS(text, "\"shard_id\":\"shardId-000000000000\","
                          "\"message\":\"shardId-000000000000: lease row made\"}\n");
    EXPECT_CONTAINS(text, "\"shard_id\":\"shardId-000000000001\",\"epoch\":1,"
                          "\"message\":\"shardId-000000000001: acquired, epoch 1\"}\n");
    /* While nothing happens. */
    (void)rig_read(&rig, fd, "{\"type\":\"heartbeat\"}\n");

    stage_drain(&rig.stage);
    text = rig_read(&rig, fd, "released, epoch 1 is over");
    EXPECT_CONTAINS(text, "\"type\":\"lease_returning\"");
    EXPECT_CONTAINS(text, "\"type\":\"lease_lost\"");
    EXPECT(close(fd) == 0);
    rig_end(&rig);
}

TEST(server_sent_events_are_for_browsers)
{
    const char *text;
    int fd;

    begin();
    fd = view("", "text/html, text/event-stream;q=0.9");
    text = rig_read(&rig, fd, ": heartbeat\n\n");
    EXPECT_CONTAINS(text, "Content-Type: text/event-stream");
    EXPECT_CONTAINS(text, "id: 0\nevent: reshard\ndata: {\"type\":\"reshard\",");
    EXPECT_CONTAINS(text, "lease row made\"}\n\nid: 1\nevent: ");
    EXPECT(close(fd) == 0);
    rig_end(&rig);
}

TEST(one_who_reads_too_slowly_is_told_what_it_missed)
{
    const char *text;
    int fd;

    begin();
    fd = view("", "*/*");
    (void)rig_read(&rig, fd, "{\"type\":\"heartbeat\"}\n");
    for (int i = 0; i < KS_EVENTS_KEPT + 44; i++)
        ks_board_tell_event(rig.stage.board, "throttled", KS_SHARD_NONE, 0,
                            i == 43 ? "the last one that is lost" : "so many");
    ks_board_tell_event(rig.stage.board, "poison", KS_SHARD_NONE, 0, "the last one");
    text = rig_read(&rig, fd, "the last one\"}\n");
    EXPECT_CONTAINS(text, "{\"type\":\"missed\",\"at\":\"20");
    EXPECT_CONTAINS(text, "\"message\":\"45 events came faster than they were read\"}\n");
    EXPECT(strstr(text, "that is lost") == NULL);
    EXPECT(close(fd) == 0);
    rig_end(&rig);
}

TEST(the_end_of_the_process_is_the_end_of_the_answer)
{
    int fd;

    begin();
    fd = view("", "*/*");
    (void)rig_read(&rig, fd, "{\"type\":\"heartbeat\"}\n");
    EXPECT(ks_api_busy(rig.api));
    ks_api_finish(rig.api);
    (void)rig_read(&rig, fd, "0\r\n\r\n");
    rig_turn(&rig, 20);
    EXPECT(!ks_api_busy(rig.api));
    EXPECT(close(fd) == 0);
    rig_end(&rig);
}

TEST(one_who_leaves_is_forgotten)
{
    int fd;

    begin();
    for (int i = 0; i < 40; i++) {
        fd = view("?heartbeat_ms=100", "*/*");
        (void)rig_read(&rig, fd, "{\"type\":\"heartbeat\"}\n");
        EXPECT(close(fd) == 0);
        rig_turn(&rig, 5);
    }
    EXPECT_CONTAINS(rig_call(&rig, "GET", "/v1/events?heartbeat_ms=99", ""), "100 to 60000");
    rig_end(&rig);
}
