/* SPDX-License-Identifier: Apache-2.0 */
#include "main/room.h"

#include "base/budget.h"
#include "base/log.h"
#include "ks_test.h"

#include <stdio.h>
#include <stdlib.h>
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

/* The options of a room of room_of(). */
static struct ks_options *own_of(struct ks_room *room)
{
    return (struct ks_options *)(uintptr_t)room->options;
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

/* Opens a room whose dead letters go there, and closes it: what it says. */
static ks_err open_with_letters(const char *stream, const char *source, const char *letters,
                                struct ks_detail *ret_detail)
{
    struct ks_options own = options;
    struct ks_room room = room_of("app");

    (void)snprintf(own.dead_letters, sizeof own.dead_letters, "%s", letters);
    (void)snprintf(own.stream, sizeof own.stream, "%s", stream);
    if (source != NULL)
        (void)snprintf(own.source, sizeof own.source, "%s", source);
    room.options = &own;
    EXPECT_OK(ks_cloud_open(&cloud, loop, ret_detail));
    const ks_err err = ks_room_open(&room, ret_detail);
    EXPECT(!ks_ok(err) || strcmp(room.letters->sink, letters) == 0);
    ks_room_close(&room);
    ks_loop_await_jobs(loop, ks_span_ms(20000));
    ks_room_free(&room);
    ks_cloud_close(&cloud);
    return err;
}

TEST(dead_letters_go_to_a_sink_that_is_not_the_stream_that_is_read)
{
    static const char arn[] = "arn:aws:kinesis:eu-west-1:123456789012:stream/orders";
    struct ks_detail detail = {""};

    begin(ks_test_path("sink.db"));
    EXPECT(setenv("AWS_REGION", "eu-west-1", 1) == 0);
    EXPECT(setenv("AWS_EC2_METADATA_DISABLED", "true", 1) == 0);
    EXPECT_OK(
        open_with_letters("orders", NULL, "sqs:https://sqs.eu-west-1.amazonaws.com/1/q", &detail));
    EXPECT_OK(open_with_letters("orders", NULL, "sns:arn:aws:sns:us-east-1:123456789012:t.fifo",
                                &detail));
    EXPECT_OK(open_with_letters("orders", NULL, "kinesis:orders",
                                &detail)); /* A local one is another stream. */
    EXPECT_ERR(open_with_letters("orders", NULL, "sqs:orders", &detail), INVALID);
    EXPECT_CONTAINS(detail.text, "--dead-letters must be like sqs:https://sqs.REGION");
    EXPECT_ERR(open_with_letters("orders", "kinesis", "kinesis:orders", &detail), INVALID);
    EXPECT_CONTAINS(detail.text, "--dead-letters is the stream that is read (orders)");
    EXPECT_ERR(open_with_letters(arn, "kinesis", "kinesis:orders", &detail), INVALID);
    EXPECT_OK(open_with_letters(
        arn, "kinesis", "kinesis:arn:aws:kinesis:us-east-1:123456789012:stream/orders", &detail));
    ks_loop_free(loop);
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

TEST(a_bucket_that_cannot_be_is_named_at_the_start)
{
    struct ks_room room;
    struct ks_detail detail = {""};

    begin(ks_test_path("stream.db"));
    room = room_of("app");
    (void)snprintf(own_of(&room)->dead_letters, KS_OPTION_TEXT_SIZE, "s3://My_Bucket/letters");
    EXPECT_ERR(ks_room_open(&room, &detail), INVALID);
    EXPECT_CONTAINS(detail.text, "--dead-letters: the bucket of an s3:// URL has 3 to 63");
    end(&room, 1);
}
