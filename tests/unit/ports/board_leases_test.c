/* SPDX-License-Identifier: Apache-2.0 */
/* The records that a switchboard holds in memory. */
#include "adapters/local/shards.h"
#include "ks_test.h"
#include "unit/ports/stage.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

TEST(a_retry_comes_again_from_memory)
{
    struct consumer consumer;
    struct stage stage;
    ks_number up_to;

    stage_begin(&stage, "pod-a");
    stage_put(&stage, 0, 1);
    consumer_join(&consumer, &stage, "client");
    consumer_pull_until(&consumer, 1);
    EXPECT_EQ_I64(consumer_settle(&consumer, &consumer.runs[0], KS_RETRY, &up_to), KS_SETTLE_OK);
    memset(consumer.last_sequence, 0, sizeof consumer.last_sequence);
    consumer_pull_until(&consumer, 2);
    EXPECT_EQ_U64(consumer.seen[0], 2);
    EXPECT_EQ_U64(consumer.runs[1].attempt, 2);
    EXPECT_EQ_U64(consumer.runs[1].first, consumer.runs[0].first);
    stage_vanish(&stage);
}

TEST(a_sleeping_consumer_is_woken_by_records)
{
    struct consumer consumer;
    struct stage stage;
    ks_instant until;

    stage_begin(&stage, "pod-a");
    consumer_join(&consumer, &stage, "");
    stage_turn_until(&stage, stage_holds_all);
    consumer_pull(&consumer);
    consumer.wakes = 0;
    stage_put(&stage, 0, 1);
    until = stage_patience();
    while (consumer.wakes == 0)
        stage_turn(&stage, until, ks_span_ms(50));
    consumer_pull(&consumer);
    EXPECT_EQ_U64(consumer.records, 1);
    stage_vanish(&stage);
}

static uint32_t finished_shards(struct stage *stage)
{
    struct ks_shard_status status;
    uint32_t count = 0;

    for (ks_shard shard = 0; shard < ks_switchboard_shard_count(stage->board); shard++)
        count += ks_switchboard_shard(stage->board, shard, &status) && status.lease.finished;
    return count;
}

static bool has_one_finished(struct stage *stage)
{
    return finished_shards(stage) == 1;
}

static void split_first_shard(void)
{
    struct ks_local_db *db;
    struct ks_detail detail;

    EXPECT_OK(ks_local_db_open(ks_test_path("stream.db"), "stream", STAGE_SHARDS, &db, &detail));
    EXPECT_OK(ks_shards_split(db, "shardId-000000000000", "85070591730234615865843651857942052864",
                              &detail));
    ks_local_db_close(db);
}

TEST(children_are_served_from_their_beginning_after_their_parent)
{
    struct ks_shard_status status;
    struct consumer consumer;
    struct stage stage;
    ks_shard parent;
    ks_shard child;
    uint32_t before;

    stage_begin(&stage, "pod-a");
    consumer_join(&consumer, &stage, "client");
    stage_turn_until(&stage, stage_holds_all);
    stage_put(&stage, 0, 30);
    split_first_shard();
    stage_put(&stage, 30, 30);

    /* While the parent is not settled its children wait. */
    for (int turns = 0; turns < 40; turns++) {
        consumer_pull(&consumer);
        ks_loop_turn(stage.loop, ks_span_ms(50));
    }
    before = consumer.records;
    EXPECT(before >= 30);
    EXPECT(before < 60);
    EXPECT_EQ_U64(finished_shards(&stage), 0);

    consumer_ack_all(&consumer);
    stage_turn_until(&stage, has_one_finished);
    consumer_pull_until(&consumer, 60);
    for (uint32_t i = 0; i < 60; i++)
        EXPECT_EQ_U64(consumer.seen[i], 1);

    EXPECT(ks_switchboard_find_shard(stage.board, KS_VIEW("shardId-000000000000"), &parent));
    EXPECT(ks_switchboard_shard(stage.board, parent, &status));
    EXPECT_EQ_I64(status.checkpoint.kind, KS_POSITION_SHARD_END);
    EXPECT_STR(status.children[0], "shardId-000000000002");
    EXPECT_STR(status.children[1], "shardId-000000000003");
    EXPECT(ks_switchboard_find_shard(stage.board, KS_VIEW("shardId-000000000002"), &child));
    EXPECT(ks_switchboard_shard(stage.board, child, &status));
    EXPECT_STR(status.parents[0], "shardId-000000000000");
    EXPECT_EQ_I64(status.checkpoint.kind, KS_POSITION_TRIM_HORIZON);
    stage_vanish(&stage);
}

/* Records of before lie in the first shard, which was split since, and in its children. */
static void let_there_be_a_past(void)
{
    struct stage stage;

    stage_begin(&stage, "pod-a");
    stage_put(&stage, 0, 30);
    split_first_shard();
    stage_put(&stage, 30, 30);
    stage_vanish(&stage);
    EXPECT_EQ_I64(unlink(ks_test_path("leases.db")), 0);
    (void)unlink(ks_test_path("leases.db-wal"));
    (void)unlink(ks_test_path("leases.db-shm"));
    /* The past ends before this millisecond. */
    EXPECT_EQ_I64(nanosleep(&(struct timespec){.tv_nsec = 5 * 1000 * 1000}, NULL), 0);
}

static bool holds_the_open_ones(struct stage *stage)
{
    struct ks_board_status status;

    ks_switchboard_status(stage->board, &status);
    return status.self.leases_held == 3;
}

TEST(a_start_at_the_tip_brings_nothing_of_shards_that_were_split_before)
{
    struct ks_shard_status status;
    struct consumer consumer;
    struct stage stage;
    ks_shard child;

    let_there_be_a_past();
    stage_begin_with(&stage, &(struct setting){.worker_id = "pod-b",
                                               .stream = "stream",
                                               .shards = STAGE_SHARDS,
                                               .shards_max = STAGE_SHARDS_MAX,
                                               .start = KS_POSITION_LATEST});
    consumer_join(&consumer, &stage, "client");
    stage_turn_until(&stage, holds_the_open_ones);
    EXPECT(ks_switchboard_find_shard(stage.board, KS_VIEW("shardId-000000000003"), &child));
    EXPECT(ks_switchboard_shard(stage.board, child, &status));
    EXPECT_EQ_I64(status.checkpoint.kind, KS_POSITION_AT_TIMESTAMP);
    EXPECT_EQ_U64(finished_shards(&stage), 0);

    stage_put(&stage, 60, 30);
    consumer_pull_until(&consumer, 30);
    for (uint32_t i = 60; i < 90; i++)
        EXPECT_EQ_U64(consumer.seen[i], 1);
    stage_vanish(&stage);
}

static void expire_closed_shards(void)
{
    struct ks_local_db *db;
    struct ks_detail detail;
    bool more = true;

    EXPECT_OK(ks_local_db_open(ks_test_path("stream.db"), "stream", STAGE_SHARDS, &db, &detail));
    EXPECT_OK(ks_local_db_set_retention(db, 1, &detail));
    while (more)
        EXPECT_OK(ks_shards_trim(db, ks_wall_now().ms + 1000, 1000, &more, &detail));
    EXPECT_OK(ks_local_db_set_retention(db, 3600000, &detail));
    ks_local_db_close(db);
}

TEST(a_shard_that_expired_unread_does_not_keep_its_children_waiting)
{
    struct ks_shard_status status;
    struct consumer consumer;
    struct stage stage;
    ks_shard parent;

    stage_begin(&stage, "pod-a");
    consumer_join(&consumer, &stage, "client");
    stage_turn_until(&stage, stage_holds_all);
    stage_drain(&stage);
    stage_vanish(&stage);
    split_first_shard();
    expire_closed_shards();

    stage_begin(&stage, "pod-b");
    consumer_join(&consumer, &stage, "client");
    stage_turn_until(&stage, has_one_finished);
    EXPECT(ks_switchboard_find_shard(stage.board, KS_VIEW("shardId-000000000000"), &parent));
    EXPECT(ks_switchboard_shard(stage.board, parent, &status));
    EXPECT(status.lease.finished);
    stage_put(&stage, 0, 30);
    consumer_pull_until(&consumer, 30);
    stage_vanish(&stage);
}
