/* SPDX-License-Identifier: Apache-2.0 */
#include "api/delivery.h"
#include "api/limits.h"
#include "api/server.h"
#include "ks_test.h"
#include "ports/board.h"
#include "unit/ports/stage.h"

#include <string.h>
#include <time.h>

static struct stage stage;
static struct ks_subscription subscription;
static struct ks_delivery delivery;
static struct consumer consumer;
static uint8_t buffer[1 << 16];

static uint32_t count_of(const char *part, size_t size)
{
    uint32_t count = 0;

    for (size_t i = 0; i + strlen(part) <= size; i++)
        count += memcmp(buffer + i, part, strlen(part)) == 0;
    return count;
}

/* A session that was handed `records` records, none of which is written yet. */
static void begin(uint32_t records)
{
    stage_begin(&stage, "worker");
    consumer_join(&consumer, &stage, "me");
    stage_turn_until(&stage, stage_holds_all);
    subscription.board = stage.board;
    ks_ack_key_init(&subscription.ack_key, 1, 0);
    for (uint32_t i = 0; i < records; i++)
        stage_put(&stage, 3, 1);
    ks_delivery_init(&delivery, &subscription, consumer.session, KS_FRAME_NDJSON);
    for (int i = 0; i < 300 && delivery.run_count == 0; i++) {
        ks_loop_turn(stage.loop, ks_span_ms(20));
        if (i > 20)
            (void)ks_delivery_pull(&delivery, 100, 1 << 20, KS_BATCH_RUNS_MAX);
    }
    EXPECT_EQ_U64(delivery.run_count, 1);
    EXPECT_EQ_U64(delivery.runs[0].count, records);
}

TEST(what_was_pulled_is_written_under_one_batch_id)
{
    enum ks_frame_state state;
    struct ks_ack ack;
    size_t size;

    begin(3);
    EXPECT(ks_delivery_pending(&delivery));
    size = ks_delivery_fill(&delivery, buffer, sizeof(buffer), &state);
    EXPECT_EQ_I64(state, KS_FRAME_DONE);
    EXPECT_EQ_U64(count_of("\"type\":\"record\"", size), 3);
    EXPECT(!ks_delivery_pending(&delivery));
    EXPECT_EQ_I64(ks_batch_id_read(&subscription.ack_key, ks_view_text(delivery.batch_id), &ack),
                  KS_ACK_ID_OK);
    EXPECT_EQ_U64(ack.runs[0].count, 3);
    stage_vanish(&stage);
}

/* The whole run, written once, and assigned again: a settlement of it counts. */
static void write_before(void)
{
    struct ks_run run = delivery.runs[0];
    ks_number up_to;

    stage_write(stage.board, consumer.session, &run);
    EXPECT_EQ_I64(consumer_settle(&consumer, &run, KS_RETRY, &up_to), KS_SETTLE_OK);
    delivery.run_count = 0;
    EXPECT(ks_delivery_pull(&delivery, 100, 1 << 20, KS_BATCH_RUNS_MAX));
    EXPECT_EQ_U64(delivery.run_count, 1);
    EXPECT_EQ_U64(delivery.runs[0].count, run.count);
}

/* A settlement by the checkpoint call names no session. */
static void settle_by_no_session(ks_number first)
{
    struct ks_run run = delivery.runs[0];
    ks_number up_to;

    run.first += first;
    run.count = 1;
    consumer.session = KS_SESSION_NONE;
    EXPECT_EQ_I64(consumer_settle(&consumer, &run, KS_ACK, &up_to), KS_SETTLE_OK);
    consumer.session = delivery.session;
}

TEST(what_was_settled_meanwhile_is_left_out)
{
    enum ks_frame_state state;
    size_t size;

    begin(3);
    write_before();
    settle_by_no_session(0);
    settle_by_no_session(1);
    size = ks_delivery_fill(&delivery, buffer, sizeof(buffer), &state);
    EXPECT_EQ_I64(state, KS_FRAME_DONE);
    EXPECT_EQ_U64(count_of("\"type\":\"record\"", size), 1);
    stage_vanish(&stage);
}

TEST(what_was_settled_behind_a_record_that_is_not_is_left_out_too)
{
    enum ks_frame_state state;
    size_t size;

    begin(3);
    write_before();
    settle_by_no_session(1);
    size = ks_delivery_fill(&delivery, buffer, sizeof(buffer), &state);
    EXPECT_EQ_I64(state, KS_FRAME_DONE);
    EXPECT_EQ_U64(count_of("\"type\":\"record\"", size), 2);
    stage_vanish(&stage);
}

TEST(records_that_were_not_begun_are_returned)
{
    struct ks_session_status status;

    begin(3);
    EXPECT(ks_switchboard_session(stage.board, consumer.session, &status));
    EXPECT_EQ_U64(status.session.assigned, 3);
    ks_delivery_return(&delivery);
    EXPECT(!ks_delivery_pending(&delivery));
    EXPECT(ks_switchboard_session(stage.board, consumer.session, &status));
    EXPECT_EQ_U64(status.session.assigned, 0);
    stage_vanish(&stage);
}

static const struct timespec longer_than_a_lease = {.tv_sec = 1, .tv_nsec = 100 * 1000 * 1000};

/* As if the process had stopped between two buffers of one turn. */
TEST(each_buffer_is_judged_by_the_clock_anew)
{
    enum { ROOM_FOR_ONE = 1000 };
    enum ks_frame_state state;
    size_t size;

    begin(2);
    size = ks_delivery_fill(&delivery, buffer, ROOM_FOR_ONE, &state);
    EXPECT_EQ_U64(count_of("\"ack_id\"", size), 1);
    EXPECT_EQ_I64(state, KS_FRAME_FULL);
    (void)nanosleep(&longer_than_a_lease, NULL);
    EXPECT_EQ_U64(ks_delivery_fill(&delivery, buffer, sizeof(buffer), &state), 0);
    stage_vanish(&stage);
}

/* A record that comes again later, in another batch, is not settled by this one. */
TEST(a_batch_settles_nothing_that_could_not_be_written)
{
    enum ks_frame_state state;
    struct ks_ack ack;
    struct ks_run run;
    ks_number up_to;

    begin(3);
    (void)ks_delivery_fill(&delivery, buffer, 1000, &state);
    EXPECT_EQ_I64(state, KS_FRAME_FULL);
    (void)nanosleep(&longer_than_a_lease, NULL);
    (void)ks_delivery_fill(&delivery, buffer, sizeof(buffer), &state);
    EXPECT_EQ_I64(ks_batch_id_read(&subscription.ack_key, ks_view_text(delivery.batch_id), &ack),
                  KS_ACK_ID_OK);
    EXPECT_EQ_U64(ack.runs[0].count, 3);
    run = delivery.runs[0];
    EXPECT_EQ_I64(consumer_settle(&consumer, &run, KS_ACK, &up_to), KS_SETTLE_OK);
    EXPECT(ks_core_is_settled(stage.board->core, run.shard, run.first));
    EXPECT(!ks_core_is_settled(stage.board->core, run.shard, run.first + 1));
    EXPECT(!ks_core_is_settled(stage.board->core, run.shard, run.first + 2));
    stage_vanish(&stage);
}

/* As if the process had stopped in a turn for longer than a lease: by the time of the turn the core may deliver. */
TEST(what_is_late_by_the_clock_is_not_pulled_again_in_this_turn)
{
    enum ks_frame_state state;
    ks_instant until;
    size_t size = 0;

    begin(2);
    (void)nanosleep(&longer_than_a_lease, NULL);
    EXPECT_EQ_U64(ks_delivery_fill(&delivery, buffer, sizeof(buffer), &state), 0);
    EXPECT(!ks_delivery_pending(&delivery));
    EXPECT(!ks_delivery_pull(&delivery, 100, 1 << 20, 1));
    until = stage_patience();
    while (size == 0) {
        stage_turn(&stage, until, ks_span_ms(20));
        delivery.late = false;
        if (ks_delivery_pull(&delivery, 100, 1 << 20, 1))
            size = ks_delivery_fill(&delivery, buffer, sizeof(buffer), &state);
    }
    EXPECT_EQ_U64(count_of("\"ack_id\"", size), 2);
    stage_vanish(&stage);
}

/* A drain begins while records wait to be written: they stay in the house, and do not hold it up. */
TEST(records_recalled_before_they_were_begun_are_not_written)
{
    enum ks_frame_state state;
    struct ks_session_status status;

    begin(3);
    ks_switchboard_drain(stage.board, ks_span_ms(10000));
    EXPECT_EQ_U64(ks_delivery_fill(&delivery, buffer, sizeof(buffer), &state), 0);
    EXPECT_EQ_I64(state, KS_FRAME_DONE);
    if (ks_switchboard_session(stage.board, consumer.session, &status))
        EXPECT_EQ_U64(status.session.assigned, 0);
    stage_vanish(&stage);
}
