/* SPDX-License-Identifier: Apache-2.0 */
#include "main/room.h"

#include "base/budget.h"
#include "base/log.h"
#include "ks_test.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct ks_loop *loop;
static struct ks_budget_pool pool;
static struct ks_cloud cloud;
static struct ks_options options;
static uint32_t drained_rooms;

static void drained(void *arg)
{
    (void)arg;
    drained_rooms++;
}

static void refused(struct ks_room *room)
{
    (void)room;
    FAIL("refused");
}

static void begin(const char *stream)
{
    static char source[300];
    char *argv[] = {"test", "--source", source, "--stream", "stream", "--application", "app"};
    char *none[] = {NULL};
    struct ks_detail detail;

    ks_log_open(STDERR_FILENO, KS_LOG_INFO, KS_LOG_TEXT);
    (void)snprintf(source, sizeof source, "local:%s", stream);
    EXPECT_OK(ks_options_read(7, argv, none, &options, &detail));
    EXPECT_OK(ks_loop_new(&loop));
    ks_budget_pool_init(&pool, 8 << 20, 2);
}

static struct ks_room room_of(const char *application)
{
    static struct ks_options own[2];
    static int next;
    struct ks_options *mine = &own[next++ % 2];

    *mine = options;
    (void)snprintf(mine->application, sizeof mine->application, "%s", application);
    (void)snprintf(mine->name, sizeof mine->name, "%s", application);
    return (struct ks_room){.options = mine,
                            .loop = loop,
                            .pool = &pool,
                            .cloud = &cloud,
                            .boot = 0xab,
                            .drained = drained,
                            .refused = refused};
}

static void end(struct ks_room *rooms, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        ks_room_close(&rooms[i]);
    ks_loop_await_jobs(loop, ks_span_ms(20000));
    ks_loop_free(loop);
    for (uint32_t i = 0; i < count; i++)
        ks_room_free(&rooms[i]);
}

TEST(two_rooms_share_a_stream_a_table_and_a_budget_and_drain_each_for_itself)
{
    struct ks_room rooms[2];
    struct ks_detail detail;
    struct ks_board_status status[2];

    begin(ks_test_path("stream.db"));
    for (uint32_t i = 0; i < 2; i++) {
        rooms[i] = room_of(i == 0 ? "first" : "second");
        EXPECT_OK(ks_room_open(&rooms[i], &detail));
        ks_switchboard_start(rooms[i].board);
    }
    do {
        ks_loop_turn(loop, ks_span_ms(20));
        for (uint32_t i = 0; i < 2; i++)
            ks_switchboard_status(rooms[i].board, &status[i]);
    } while (!status[0].ready || !status[1].ready);
    EXPECT_STR(status[0].subscription, "first");
    EXPECT_STR(status[1].application, "second");
    EXPECT_STR(status[0].worker_id, status[1].worker_id);
    for (uint32_t i = 0; i < 2; i++) {
        EXPECT_EQ_U64(status[i].boot, 0xab);
        EXPECT_EQ_U64(status[i].self.incarnation.boot, 0xab);
    }

    ks_switchboard_drain(rooms[1].board, ks_span_ms(1000));
    while (!rooms[1].is_drained)
        ks_loop_turn(loop, ks_span_ms(20));
    EXPECT_EQ_U64(drained_rooms, 1);
    EXPECT(!rooms[0].is_drained);
    EXPECT_EQ_U64(rooms[1].unsaved, 0);
    end(rooms, 2);
}

TEST(what_does_not_open_is_named_and_leaves_nothing)
{
    int64_t live;
    struct ks_room room;
    struct ks_detail detail = {""};

    begin("/nonexistent/stream.db");
    live = ks_alloc_live();
    room = room_of("app");
    EXPECT(!ks_ok(ks_room_open(&room, &detail)));
    EXPECT_CONTAINS(detail.text, "/nonexistent/leases.db");
    ks_room_close(&room);
    ks_room_free(&room);
    EXPECT_EQ_I64(ks_alloc_live(), live);
    ks_loop_free(loop);
}
