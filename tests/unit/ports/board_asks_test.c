/* SPDX-License-Identifier: Apache-2.0 */
/* What a switchboard asks the store and the source, and what it makes of their answers. */
#include "ks_test.h"
#include "unit/ports/stage.h"

#include <sqlite3.h>
#include <time.h>
#include <unistd.h>

TEST(an_application_of_another_stream_is_refused)
{
    struct consumer consumer;
    struct stage stage;

    stage_begin(&stage, "pod-a");
    consumer_join(&consumer, &stage, "client");
    stage_turn_until(&stage, stage_holds_all);
    stage_drain(&stage);
    stage_vanish(&stage);
    stage_begin_with(&stage, &(struct setting){"pod-b", "other", STAGE_SHARDS, 64});
    stage_turn_until(&stage, stage_is_refused);
    EXPECT_CONTAINS(stage.refused, "another stream");
    stage_vanish(&stage);
}

TEST(shards_beyond_the_capacity_are_left_alone)
{
    struct consumer consumer;
    struct stage stage;

    stage_begin_with(&stage, &(struct setting){"pod-a", "stream", 5, STAGE_SHARDS});
    consumer_join(&consumer, &stage, "client");
    stage_turn_until(&stage, stage_holds_all);
    EXPECT_EQ_U64(ks_switchboard_shard_count(stage.board), STAGE_SHARDS);
    stage_put(&stage, 0, 40);
    for (int turns = 0; consumer.records == 0; turns++) {
        EXPECT(turns < 200);
        ks_loop_turn(stage.loop, ks_span_ms(50));
        consumer_pull(&consumer);
    }
    EXPECT(consumer.records < 40);
    stage_vanish(&stage);
}

static bool is_not_ready(struct stage *stage)
{
    return !stage_is_ready(stage);
}

TEST(a_lease_table_that_does_not_answer_is_said_and_comes_back)
{
    struct consumer consumer;
    struct stage stage;
    sqlite3 *other;

    stage_begin(&stage, "pod-a");
    stage_put(&stage, 0, 4);
    consumer_join(&consumer, &stage, "client");
    consumer_pull_until(&consumer, 4);

    EXPECT_EQ_I64(sqlite3_open(ks_test_path("leases.db"), &other), SQLITE_OK);
    EXPECT_EQ_I64(sqlite3_exec(other, "BEGIN EXCLUSIVE", NULL, NULL, NULL), SQLITE_OK);
    stage_turn_until(&stage, is_not_ready);
    /* Past its deadline nothing leaves the house, but acks are taken. */
    for (int turns = 0;
         ks_switchboard_record(stage.board, consumer.runs[0].shard, consumer.runs[0].epoch,
                               consumer.runs[0].first) != NULL;
         turns++) {
        EXPECT(turns < 200);
        ks_loop_turn(stage.loop, ks_span_ms(50));
    }
    consumer_ack_all(&consumer);
    EXPECT_EQ_I64(sqlite3_exec(other, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    EXPECT_EQ_I64(sqlite3_close(other), SQLITE_OK);
    stage_turn_until(&stage, stage_is_ready);

    /* The same epoch goes on. */
    consumer_persist_all(&consumer);
    stage_put(&stage, 4, 1);
    consumer_pull_until(&consumer, 5);
    EXPECT_EQ_U64(consumer.runs[consumer.run_count - 1].epoch, consumer.runs[0].epoch);
    stage_vanish(&stage);
}

TEST(a_stream_that_was_made_anew_is_refused)
{
    struct consumer consumer;
    struct stage stage;

    stage_begin(&stage, "pod-a");
    consumer_join(&consumer, &stage, "client");
    stage_turn_until(&stage, stage_holds_all);
    stage_drain(&stage);
    stage_vanish(&stage);
    EXPECT(unlink(ks_test_path("stream.db")) == 0);
    (void)unlink(ks_test_path("stream.db-wal"));
    (void)unlink(ks_test_path("stream.db-shm"));
    /* It tells its creation to the second. */
    EXPECT(nanosleep(&(struct timespec){.tv_sec = 1, .tv_nsec = 200 * 1000 * 1000}, NULL) == 0);

    stage_begin(&stage, "pod-b");
    stage_turn_until(&stage, stage_is_refused);
    EXPECT_CONTAINS(stage.refused, "made anew");
    stage_vanish(&stage);
}
