/* SPDX-License-Identifier: Apache-2.0 */
/* What an operator orders, from the switchboard to the table and back. */
#include "ks_test.h"
#include "ports/board.h"
#include "unit/ports/stage.h"

struct waiter {
    struct ks_seek seek;
    uint32_t calls;
    bool done;
};

static void sought(struct ks_seek *seek, bool done)
{
    struct waiter *waiter = KS_LIST_ENTRY(seek, struct waiter, seek);

    waiter->calls++;
    waiter->done = done;
}

static void begin(struct stage *stage, struct consumer *consumer)
{
    stage_begin(stage, "pod-a");
    consumer_join(consumer, stage, "client");
    stage_turn_until(stage, stage_holds_all);
    stage_put(stage, 0, 20);
    consumer_pull_until(consumer, 20);
    consumer_ack_all(consumer);
    consumer_persist_all(consumer);
}

TEST(a_seek_moves_the_checkpoint_of_the_table_and_everything_comes_again)
{
    const struct ks_position start = {.kind = KS_POSITION_TRIM_HORIZON, .sub_sequence = -1};
    struct waiter waiters[STAGE_SHARDS] = {0};
    struct ks_shard_status shard;
    struct consumer consumer;
    struct stage stage;

    begin(&stage, &consumer);
    for (ks_shard i = 0; i < STAGE_SHARDS; i++) {
        waiters[i].seek.done = sought;
        ks_link_init(&waiters[i].seek.link);
        EXPECT_EQ_I64(ks_switchboard_seek(stage.board, i, &start, false, &waiters[i].seek),
                      KS_OPERATOR_NOT_PAUSED);
        EXPECT_EQ_I64(ks_switchboard_seek(stage.board, i, &start, true, NULL), KS_OPERATOR_OK);
        EXPECT(ks_switchboard_shard(stage.board, i, &shard));
        EXPECT_EQ_I64(shard.checkpoint.kind, KS_POSITION_AFTER_SEQUENCE);
        EXPECT_EQ_I64(ks_switchboard_seek(stage.board, i, &start, true, &waiters[i].seek),
                      KS_OPERATOR_OK);
        EXPECT_EQ_U64(waiters[i].calls, 0);
    }
    consumer.records = 0;
    for (uint32_t i = 0; i < STAGE_SHARDS; i++)
        consumer.last_sequence[i][0] = '\0';
    consumer_pull_until(&consumer, 20);
    for (ks_shard i = 0; i < STAGE_SHARDS; i++) {
        EXPECT_EQ_U64(waiters[i].calls, 1);
        EXPECT(waiters[i].done);
        EXPECT(ks_switchboard_shard(stage.board, i, &shard));
        EXPECT_EQ_U64(shard.lease.epoch, 2);
        EXPECT_EQ_I64(shard.checkpoint.kind, KS_POSITION_TRIM_HORIZON);
    }
    stage_vanish(&stage);
}

TEST(whoever_stops_waiting_for_a_seek_is_not_called)
{
    const struct ks_position start = {.kind = KS_POSITION_TRIM_HORIZON, .sub_sequence = -1};
    struct waiter waiter = {.seek = {.done = sought}};
    struct consumer consumer;
    struct stage stage;

    begin(&stage, &consumer);
    EXPECT_EQ_I64(ks_switchboard_seek(stage.board, 0, &start, true, &waiter.seek), KS_OPERATOR_OK);
    ks_switchboard_forget_seek(&waiter.seek);
    for (int i = 0; i < 50; i++)
        ks_loop_turn(stage.loop, ks_span_ms(10));
    EXPECT_EQ_U64(waiter.calls, 0);
    ks_switchboard_forget_seek(&waiter.seek);
    stage_vanish(&stage);
}

TEST(a_pause_holds_back_what_comes_until_it_is_resumed)
{
    struct ks_shard_status shard;
    struct ks_board_status status;
    struct consumer consumer;
    struct stage stage;

    begin(&stage, &consumer);
    ks_switchboard_pause(stage.board, KS_SHARD_NONE, (ks_wall){ks_wall_now().ms + 3600000}, true);
    stage_put(&stage, 20, 4);
    for (int i = 0; i < 20; i++)
        ks_loop_turn(stage.loop, ks_span_ms(10));
    consumer_pull(&consumer);
    EXPECT_EQ_U64(consumer.records, 20);
    ks_switchboard_status(stage.board, &status);
    EXPECT_EQ_I64(status.idle, KS_IDLE_PAUSED);
    EXPECT(ks_switchboard_shard(stage.board, 0, &shard));
    EXPECT(shard.lease.paused);
    EXPECT(shard.paused_until.ms > ks_wall_now().ms + 3500000);
    EXPECT(shard.paused_until.ms < ks_wall_now().ms + 3700000);
    ks_switchboard_resume(stage.board, KS_SHARD_NONE);
    consumer_pull_until(&consumer, 24);
    stage_vanish(&stage);
}

TEST(a_released_lease_is_free_in_the_table)
{
    struct ks_shard_status shard = {.has_lease = false};
    struct consumer consumer;
    struct stage stage;

    begin(&stage, &consumer);
    EXPECT_EQ_I64(ks_switchboard_release(stage.board, 77), KS_OPERATOR_NOT_HELD);
    EXPECT_EQ_I64(ks_switchboard_release(stage.board, 0), KS_OPERATOR_OK);
    EXPECT_EQ_I64(ks_switchboard_release(stage.board, 0), KS_OPERATOR_BUSY);
    do {
        ks_loop_turn(stage.loop, ks_span_ms(10));
        EXPECT(ks_switchboard_shard(stage.board, 0, &shard));
    } while (shard.ours);
    EXPECT_STR(shard.owner, "");
    EXPECT_EQ_U64(shard.lease.epoch, 2);
    EXPECT_EQ_U64(consumer.returnings, 1);
    EXPECT(ks_span_to_ms(ks_switchboard_hand_over(stage.board)) > 0);
    stage_vanish(&stage);
}
