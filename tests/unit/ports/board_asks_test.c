/* SPDX-License-Identifier: Apache-2.0 */
/* What a switchboard asks the store and the source, and what it makes of their answers. */
#include "ks_test.h"
#include "ports/board.h"
#include "unit/ports/stage.h"

#include <sqlite3.h>
#include <time.h>
#include <unistd.h>

TEST(an_application_of_another_stream_is_refused)
{
    struct ks_board_status status;
    struct consumer consumer;
    struct stage stage;

    stage_begin(&stage, "pod-a");
    consumer_join(&consumer, &stage, "client");
    stage_turn_until(&stage, stage_holds_all);
    stage_drain(&stage);
    stage_vanish(&stage);
    stage_begin_with(&stage, &(struct setting){.worker_id = "pod-b",
                                               .stream = "other",
                                               .shards = STAGE_SHARDS,
                                               .shards_max = 64});
    stage_turn_until(&stage, stage_is_refused);
    EXPECT_CONTAINS(stage.refused, "another stream");
    /* Whoever runs others beside it drains it; it is not ready for the reason that it was. */
    stage_drain(&stage);
    ks_switchboard_status(stage.board, &status);
    EXPECT(!status.ready && status.draining);
    EXPECT_STR(status.reason, stage.refused);
    stage_vanish(&stage);
}

TEST(shards_beyond_the_capacity_are_left_alone)
{
    struct consumer consumer;
    struct stage stage;
    ks_instant until;

    stage_begin_with(&stage, &(struct setting){.worker_id = "pod-a",
                                               .stream = "stream",
                                               .shards = 5,
                                               .shards_max = STAGE_SHARDS});
    consumer_join(&consumer, &stage, "client");
    stage_turn_until(&stage, stage_holds_all);
    EXPECT_EQ_U64(ks_switchboard_shard_count(stage.board), STAGE_SHARDS);
    stage_put(&stage, 0, 40);
    until = stage_patience();
    while (consumer.records == 0) {
        stage_turn(&stage, until, ks_span_ms(50));
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
    ks_instant until;
    sqlite3 *other;

    stage_begin(&stage, "pod-a");
    stage_put(&stage, 0, 4);
    consumer_join(&consumer, &stage, "client");
    consumer_pull_until(&consumer, 4);

    EXPECT_EQ_I64(sqlite3_open(ks_test_path("leases.db"), &other), SQLITE_OK);
    EXPECT_EQ_I64(sqlite3_exec(other, "BEGIN EXCLUSIVE", NULL, NULL, NULL), SQLITE_OK);
    stage_turn_until(&stage, is_not_ready);
    /* Past its deadline nothing leaves the house, but acks are taken. */
    until = stage_patience();
    while (ks_switchboard_may_finish(stage.board, consumer.runs[0].shard, consumer.runs[0].epoch,
                                     ks_instant_now()))
        stage_turn(&stage, until, ks_span_ms(50));
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

static void begin_locked(struct stage *stage)
{
    stage_begin_with(stage, &(struct setting){.worker_id = "pod-a",
                                              .stream = "stream",
                                              .shards = STAGE_SHARDS,
                                              .shards_max = STAGE_SHARDS_MAX,
                                              .lock = true});
}

TEST(a_restarted_worker_with_a_lock_does_not_wait_for_its_corpse)
{
    struct ks_board_status status;
    struct consumer consumer;
    struct stage stage;
    uint64_t first;
    ks_instant begun;

    begin_locked(&stage);
    consumer_join(&consumer, &stage, "client");
    stage_turn_until(&stage, stage_holds_all);
    ks_switchboard_status(stage.board, &status);
    first = status.self.incarnation.boot;
    stage_vanish(&stage);

    begin_locked(&stage);
    EXPECT_EQ_U64(stage.lock->corpse, first);
    begun = ks_instant_now();
    while (!stage_is_ready(&stage)) {
        EXPECT(ks_instant_since(ks_instant_now(), begun).us <
               1000000); /* The watch takes 1050 ms. */
        ks_loop_turn(stage.loop, ks_span_ms(10));
    }
    stage_vanish(&stage);
}

/* Turns both until `reached` says so of the first. */
static void turn_both(struct stage *stage, struct stage *other,
                      bool (*reached)(struct stage *stage))
{
    ks_instant until = stage_patience();

    while (!reached(stage)) {
        stage_turn(stage, until, ks_span_ms(5));
        stage_turn(other, until, ks_span_ms(5));
    }
}

static bool leads(struct stage *stage)
{
    struct ks_board_status status;

    ks_switchboard_status(stage->board, &status);
    return status.self.leads;
}

static struct ks_look look;
static uint32_t looks;

static void looked(struct ks_look *done)
{
    EXPECT(done == &look);
    looks++;
}

static bool has_looked(struct stage *stage)
{
    (void)stage;
    return looks > 0;
}

/* The second one is registered; the first one leads. */
static void begin_two(struct stage *first, struct stage *second, struct consumer *consumer,
                      uint32_t capacity)
{
    stage_begin_with(first, &(struct setting){.worker_id = "pod-a",
                                              .stream = "stream",
                                              .shards = STAGE_SHARDS,
                                              .shards_max = STAGE_SHARDS_MAX,
                                              .capacity = capacity});
    consumer_join(consumer, first, "client");
    stage_turn_until(first, stage_is_ready);
    stage_begin(second, "pod-b");
    turn_both(second, first, stage_is_ready);
}

TEST(who_does_not_lead_reads_the_rows_when_people_ask)
{
    struct ks_shard_status shard;
    struct ks_worker_status worker;
    struct consumer consumer;
    struct stage first;
    struct stage second;
    uint32_t known = 0;

    begin_two(&first, &second, &consumer, 7);
    turn_both(&first, &second, stage_holds_all);
    turn_both(&first, &second, leads);
    look = (struct ks_look){.done = looked};
    ks_link_init(&look.link);
    EXPECT(ks_switchboard_fresh(first.board, &look));
    EXPECT(!ks_switchboard_fresh(second.board, &look));
    EXPECT_EQ_U64(looks, 0);
    turn_both(&second, &first, has_looked);
    EXPECT_EQ_U64(looks, 1);
    for (ks_shard i = 0; i < ks_switchboard_shard_count(second.board); i++) {
        if (!ks_switchboard_shard(second.board, i, &shard))
            continue;
        EXPECT_STR(shard.owner, "pod-a");
        EXPECT(!shard.ours);
        EXPECT(shard.has_lease);
        EXPECT(shard.lease.epoch > 0);
        EXPECT_STR(shard.reason, ""); /* It was not there when that was decided. */
        known++;
    }
    EXPECT_EQ_U64(known, STAGE_SHARDS);
    EXPECT(ks_switchboard_fresh(second.board, &look)); /* For a while. */
    for (uint32_t i = 0; ks_switchboard_worker(second.board, i, &worker); i++)
        EXPECT_EQ_U64(worker.row.capacity, worker.self ? 0 : 7);
    stage_vanish(&second);
    stage_vanish(&first);
}

TEST(a_look_may_be_forgotten)
{
    struct consumer consumer;
    struct stage first;
    struct stage second;

    begin_two(&first, &second, &consumer, 0);
    look = (struct ks_look){.done = looked};
    ks_link_init(&look.link);
    EXPECT(!ks_switchboard_fresh(second.board, &look));
    ks_switchboard_forget_look(&look);
    for (int turns = 0; turns < 20; turns++)
        ks_loop_turn(second.loop, ks_span_ms(10));
    EXPECT_EQ_U64(looks, 0);
    stage_vanish(&second);
    stage_vanish(&first);
}

/* Its row was removed, and it registers anew, before the stream was described. */
TEST(an_application_that_is_made_once_more_before_the_stream_is_described_waits_once)
{
    struct ks_store_effect effect = {.operation = KS_STORE_CREATE_APP, .token = 1000};
    struct stage stage;
    uint32_t queued;

    stage_begin(&stage, "pod-a");
    stage.board->described = false;
    queued = stage.board->queue_count;
    ks_board_ask_store(stage.board, &effect);
    EXPECT_EQ_U64(stage.board->queue_count, queued);
    effect.token = 1001;
    ks_board_ask_store(stage.board, &effect);
    EXPECT_EQ_U64(stage.board->queue_count,
                  queued + 1); /* It is not known what became of the first. */
    EXPECT_EQ_U64(stage.board->app_ask->token, 1001);
    stage_vanish(&stage);
}
