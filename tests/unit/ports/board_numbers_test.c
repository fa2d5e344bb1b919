/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of shards that are given again, and handles that are not. */
#include "ports/board.h"

#include "adapters/local/shards.h"
#include "ks_test.h"
#include "unit/ports/stage.h"

#include <stdio.h>
#include <string.h>

enum { ROOM = 6, ROUNDS = 2 };

static struct stage stage;
static struct ks_local_db *db;
static uint32_t made; /* Shards of the stream, ever. */
static bool merged;   /* The last one comes of a merge. */
static uint32_t gone; /* Those that are to be forgotten. */
static uint32_t gone_end;
static char names[3][KS_SHARD_ID_MAX + 1];

static const char *name_of(uint32_t place, uint32_t index)
{
    (void)snprintf(names[place], sizeof names[place], "shardId-%012u", index);
    return names[place];
}

static bool is_known(uint32_t index)
{
    ks_shard handle;

    return ks_switchboard_find_shard(stage.board, ks_view_text(name_of(2, index)), &handle);
}

static bool is_served(uint32_t index)
{
    struct ks_shard_status status;
    ks_shard handle;

    return ks_switchboard_find_shard(stage.board, ks_view_text(name_of(2, index)), &handle) &&
           ks_switchboard_shard(stage.board, handle, &status) && status.ours;
}

/* The last one and the one before it: a merge closes both. */
static bool are_served(struct stage *of)
{
    (void)of;
    return is_served(made - 1) && (merged || is_served(made - 2));
}

/* What is closed leaves the stream at once, as after years; its number is free when its children are closed, too. */
static bool are_forgotten(struct stage *of)
{
    struct ks_detail detail;
    bool more;

    (void)of;
    EXPECT_OK(ks_shards_trim(db, INT64_MAX / 2, 100, &more, &detail));
    for (uint32_t index = gone; index < gone_end; index++)
        if (is_known(index))
            return false;
    return true;
}

/* The shard is split, and its children become one, which is returned. */
static uint32_t split_and_merge(uint32_t shard)
{
    struct ks_detail detail;

    EXPECT_OK(
        ks_shards_split(db, name_of(0, shard), "42535295865117307932921825928971026432", &detail));
    made += 2;
    merged = false;
    stage_turn_until(&stage, are_served);
    stage_turn_until(&stage, are_forgotten); /* Its parents. */

    gone = shard;
    gone_end = shard + 1;
    EXPECT_OK(ks_shards_merge(db, name_of(0, made - 2), name_of(1, made - 1), &detail));
    made++;
    merged = true;
    stage_turn_until(&stage, are_served);
    stage_turn_until(&stage, are_forgotten);
    gone = made - 3;
    gone_end = made - 1;
    return made - 1;
}

TEST(a_process_lives_through_more_shards_than_it_has_numbers)
{
    struct setting setting = {.worker_id = "pod-a",
                              .stream = "stream",
                              .shards = STAGE_SHARDS,
                              .shards_max = ROOM,
                              .keep = ks_span_ms(500)};
    struct ks_settlement late = {.count = 1, .outcome = KS_ACK};
    struct ks_settled settled;
    struct consumer consumer;
    struct ks_detail detail;
    struct ks_run past;
    uint32_t shard = 0;
    ks_shard first;
    ks_shard last;

    made = STAGE_SHARDS;
    stage_begin_with(&stage, &setting);
    EXPECT_OK(ks_local_db_open(ks_test_path("stream.db"), "stream", STAGE_SHARDS, &db, &detail));
    consumer_join(&consumer, &stage, "client");
    stage_turn_until(&stage, stage_holds_all);
    EXPECT(ks_switchboard_find_shard(stage.board, KS_VIEW("shardId-000000000000"), &first));
    for (int i = 0; i < ROUNDS; i++)
        shard = split_and_merge(shard);
    EXPECT(made > ROOM);
    EXPECT(!ks_rows_full(&stage.board->rows));

    /* Whatever has its number now, the first one's handle does not mean it. */
    EXPECT(ks_switchboard_find_shard(stage.board, ks_view_text(name_of(0, shard)), &last));
    EXPECT(last != first);
    EXPECT(ks_board_number(stage.board, last) < ROOM);
    EXPECT_EQ_U64(ks_board_number(stage.board, first), KS_SHARD_GONE);
    EXPECT_STR(ks_switchboard_shard_id(stage.board, first), "");
    late.session = consumer.session;
    late.session_epoch = consumer.session_epoch;
    late.shard = first;
    late.epoch = 1;
    past = (struct ks_run){.shard = first, .epoch = 1, .count = 1, .assignment = 1};
    settled = ks_switchboard_settle(stage.board, &late);
    EXPECT_EQ_I64(settled.status, KS_SETTLE_FENCED);
    EXPECT(stage_record(stage.board, &past, 0) == NULL);
    EXPECT(!ks_switchboard_may_finish(stage.board, first, 1, ks_instant_now()));
    ks_switchboard_write(stage.board, consumer.session, &past, KS_STAGE_BEGUN, 0, 1);
    ks_switchboard_write(stage.board, consumer.session, &past, KS_STAGE_TORN, 0, 1);
    EXPECT_EQ_I64(ks_switchboard_release(stage.board, first), KS_OPERATOR_NOT_HELD);
    EXPECT(!ks_switchboard_persisted(stage.board, first, 1, 1));
    ks_local_db_close(db);
    stage_vanish(&stage);
}

TEST(records_come_and_are_settled_under_the_handle_of_a_later_life)
{
    struct setting setting = {.worker_id = "pod-a",
                              .stream = "stream",
                              .shards = STAGE_SHARDS,
                              .shards_max = STAGE_SHARDS_MAX};
    const ks_instant until = stage_patience();
    struct consumer consumer;
    ks_number up_to;

    stage_begin_with(&stage, &setting);
    /* As if these numbers had been given before. */
    for (uint32_t i = 0; i < STAGE_SHARDS; i++)
        stage.board->rows.shards.entries[i].life = 7;
    stage_put(&stage, 0, 1);
    consumer_join(&consumer, &stage, "client");
    stage_turn_until(&stage, stage_holds_all);
    while (consumer.run_count == 0) {
        stage_turn(&stage, until, ks_span_ms(20));
        consumer.run_count =
            ks_switchboard_pull(stage.board, consumer.session, 10, 1 << 20, consumer.runs, 1);
    }
    EXPECT_EQ_U64(consumer.runs[0].shard >> 16, 7);
    EXPECT(stage_record(stage.board, &consumer.runs[0], 0) != NULL);
    stage_write(stage.board, consumer.session, &consumer.runs[0]);
    EXPECT(strncmp(ks_switchboard_run_shard(stage.board, &consumer.runs[0]), "shardId-", 8) == 0);
    /* Under one of before it is not settled. */
    consumer.runs[0].shard &= UINT16_MAX;
    EXPECT_EQ_I64(consumer_settle(&consumer, &consumer.runs[0], KS_ACK, &up_to), KS_SETTLE_FENCED);
    consumer.runs[0].shard |= 7 << 16;
    EXPECT_EQ_I64(consumer_settle(&consumer, &consumer.runs[0], KS_ACK, &up_to), KS_SETTLE_OK);
    ks_switchboard_persist(stage.board, consumer.runs[0].shard);
    while (!ks_switchboard_persisted(stage.board, consumer.runs[0].shard, consumer.runs[0].epoch,
                                     up_to))
        stage_turn(&stage, until, ks_span_ms(20));
    stage_vanish(&stage);
}
