/* SPDX-License-Identifier: Apache-2.0 */
/* The records that a switchboard holds in memory. */
#include "adapters/local/shards.h"
#include "core/lease.h"
#include "ks_test.h"
#include "ports/board.h"
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

/* ---- The age of records ---- */

enum { DAY_S = 86400, YEARS_10_S = 3652 * DAY_S };

static void hold_since(struct stage *stage, int64_t held_s)
{
    struct ks_switchboard *board = stage->board;

    for (uint32_t i = 0; i < board->config.core.leases_max; i++) {
        struct ks_board_lease *lease = &board->leases[i];

        if (!lease->used)
            continue;
        lease->opened_at = ks_instant_add(lease->opened_at, ks_span_ms(-held_s * 1000));
        ks_lease_of(board->core, lease->shard, lease->epoch)->since = lease->opened_at;
    }
}

/* A record arrives at a lease that is held for `held_s` already. It fails before and after it is too old. */
static void expect_given_up_of_a_lease_held_for(int64_t held_s)
{
    struct consumer consumer;
    struct stage stage;
    struct ks_slot *slot;
    struct ks_run *run;
    ks_number up_to;

    stage_begin(&stage, "pod-a");
    stage.board->config.core.poison.max_age = ks_span_ms(INT64_C(1000) * DAY_S);
    stage.board->core->config.poison.max_age = stage.board->config.core.poison.max_age;
    consumer_join(&consumer, &stage, "client");
    stage_turn_until(&stage, stage_holds_all);
    hold_since(&stage, held_s);
    stage_put(&stage, 0, 1);
    consumer_pull_until(&consumer, 1);
    run = &consumer.runs[0];
    slot = ks_tracker_slot(&ks_lease_of(stage.board->core, run->shard, run->epoch)->tracker,
                           run->first);
    EXPECT(slot->stale_s <= held_s + DAY_S + STAGE_WAIT_MS / 1000);
    EXPECT(slot->stale_s >= held_s + DAY_S - STAGE_WAIT_MS / 1000);
    EXPECT_EQ_I64(consumer_settle(&consumer, run, KS_RETRY, &up_to), KS_SETTLE_OK);
    EXPECT(!ks_core_is_dying(stage.board->core, run->shard, run->first));

    memset(consumer.last_sequence, 0, sizeof consumer.last_sequence);
    consumer_pull_until(&consumer, 2);
    hold_since(&stage, DAY_S + STAGE_WAIT_MS / 1000); /* A day later. */
    EXPECT_EQ_I64(consumer_settle(&consumer, &consumer.runs[1], KS_RETRY, &up_to), KS_SETTLE_OK);
    EXPECT(ks_core_is_dying(stage.board->core, run->shard, run->first));
    stage_vanish(&stage);
}

TEST(max_record_age_counts_in_a_lease_held_for_50_days)
{
    expect_given_up_of_a_lease_held_for(INT64_C(50) * DAY_S);
}

TEST(max_record_age_counts_in_a_lease_held_for_10_years)
{
    expect_given_up_of_a_lease_held_for(YEARS_10_S);
}

TEST(record_is_too_old_when_its_maximum_age_has_passed_rounded_up_to_seconds)
{
    const int64_t now_ms = INT64_C(1764000000000);
    const int64_t max_ms = INT64_C(1000) * DAY_S;

    EXPECT_EQ_U64(ks_board_stale_s(max_ms, 0, now_ms, now_ms), DAY_S);
    EXPECT_EQ_U64(ks_board_stale_s(max_ms, 0, now_ms, now_ms - 3600000), DAY_S - 3600);
    EXPECT_EQ_U64(ks_board_stale_s(max_ms, 0, now_ms, now_ms - 3600001), DAY_S - 3600);
    EXPECT_EQ_U64(ks_board_stale_s(max_ms, 0, now_ms, now_ms - 2 * max_ms), 0);
    EXPECT_EQ_U64(ks_board_stale_s(max_ms, INT64_C(1000) * YEARS_10_S, now_ms, now_ms),
                  YEARS_10_S + DAY_S);
    EXPECT_EQ_U64(ks_board_stale_s(0, INT64_C(1000) * YEARS_10_S, now_ms, now_ms - 2 * max_ms),
                  UINT32_MAX);
}

/* A stream, or a row of a letter, may say any arrival. */
TEST(arrival_time_of_any_value_gives_an_age)
{
    const int64_t now_ms = INT64_C(1764000000000);

    EXPECT_EQ_U64(ks_board_stale_s(1000, 0, now_ms, 0), UINT32_MAX); /* It is not known. */
    EXPECT_EQ_U64(ks_board_stale_s(1000, 0, now_ms, 1), 0);
    EXPECT_EQ_U64(ks_board_stale_s(1000, 0, now_ms, INT64_MIN), 0);
    EXPECT_EQ_U64(ks_board_stale_s(1000, 0, now_ms, -1), 0);
    EXPECT_EQ_U64(ks_board_stale_s(1000, 0, now_ms, INT64_MAX), UINT32_MAX);
    EXPECT_EQ_U64(ks_board_stale_s(1000, 5000, 0, INT64_MAX), UINT32_MAX);
    EXPECT_EQ_I64(ks_board_age_ms(now_ms, INT64_MIN), now_ms);
    EXPECT_EQ_I64(ks_board_age_ms(now_ms, now_ms - 5), 5);
    EXPECT(ks_board_age_ms(now_ms, INT64_MAX) < 0);
    EXPECT(ks_board_age_ms(0, INT64_MAX) > -INT64_C(1000) * DAY_S * 366 * 10000);
}
