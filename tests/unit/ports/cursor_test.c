/* SPDX-License-Identifier: Apache-2.0 */
#include "ports/cursor.h"

#include "ks_test.h"
#include "ports/board.h"
#include "unit/ports/stage.h"

struct reading {
    uint32_t answers;
    uint32_t records;
};

static void answered(void *arg, const struct ks_read_answer *answer)
{
    struct reading *reading = arg;
    struct ks_batch batch = answer->batch;

    EXPECT_OK(answer->err);
    reading->answers++;
    reading->records += batch.count;
    ks_batch_free(&batch);
}

static const struct ks_position horizon = {.kind = KS_POSITION_TRIM_HORIZON, .sub_sequence = -1};

TEST(a_cursor_reads_beside_the_group)
{
    struct reading reading = {0};
    struct ks_shard_status shard;
    struct consumer consumer;
    struct ks_cursor *cursor;
    struct stage stage;
    size_t used;

    stage_begin(&stage, "pod-a");
    consumer_join(&consumer, &stage, "client");
    stage_turn_until(&stage, stage_holds_all);
    stage_put(&stage, 0, 20);
    consumer_pull_until(&consumer, 20);
    used = stage.board->budget.used;
    for (ks_shard i = 0; i < STAGE_SHARDS; i++) {
        uint32_t answers = reading.answers;

        EXPECT_OK(ks_cursor_open(stage.board, i, &horizon, &cursor));
        ks_cursor_read(cursor, 100, 1 << 20, answered, &reading);
        EXPECT_EQ_U64(reading.answers, answers); /* Never inside the call. */
        while (reading.answers == answers)
            ks_loop_turn(stage.loop, ks_span_ms(10));
        ks_cursor_close(cursor);
    }
    EXPECT_EQ_U64(reading.records, 20);
    EXPECT_EQ_U64(stage.board->budget.used,
                  used); /* What it held was charged, and is given back. */
    EXPECT(ks_switchboard_shard(stage.board, 0, &shard));
    EXPECT_EQ_I64(shard.checkpoint.kind, KS_POSITION_TRIM_HORIZON);
    EXPECT_EQ_U64(shard.lease.watermark, 0);
    stage_vanish(&stage);
}

TEST(a_cursor_that_is_closed_is_never_answered)
{
    struct reading reading = {0};
    struct ks_cursor *cursor;
    struct consumer consumer;
    struct stage stage;

    stage_begin(&stage, "pod-a");
    consumer_join(&consumer, &stage, "client");
    stage_turn_until(&stage, stage_holds_all);
    stage_put(&stage, 0, 4);
    EXPECT_OK(ks_cursor_open(stage.board, 0, &horizon, &cursor));
    ks_cursor_read(cursor, 100, 1 << 20, answered, &reading);
    ks_cursor_close(cursor);
    consumer_pull_until(&consumer, 4);
    EXPECT_EQ_U64(reading.answers, 0);
    ks_cursor_close(NULL);
    EXPECT_ERR(ks_cursor_open(stage.board, 77, &horizon, &cursor), NOT_FOUND);
    stage_vanish(&stage);
}
