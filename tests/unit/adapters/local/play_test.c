/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/local/play.h"

#include "adapters/local/slice.h"
#include "base/loop.h"

#include "ks_test.h"

#include <stdio.h>

enum { BEGIN_MS = 1795223827 };
static const ks_instant BEGAN = {1000000};

TEST(the_clock_runs_as_fast_as_its_speed_says)
{
    struct ks_local_play play = {.speed = 10};

    ks_local_play_begin(&play, BEGIN_MS, BEGAN);
    EXPECT_EQ_I64(ks_local_play_clock(&play, BEGAN), BEGIN_MS);
    EXPECT_EQ_I64(ks_local_play_clock(&play, ks_instant_add(BEGAN, ks_span_ms(1500))),
                  BEGIN_MS + 15000);
    EXPECT_EQ_I64(ks_local_play_clock(&play, ks_instant_add(BEGAN, ks_span_us(1550))),
                  BEGIN_MS + 15);
}

TEST(at_the_instant_that_is_due_the_clock_shows_the_arrival_and_not_before)
{
    static const uint32_t speeds[] = {1, 3, 7, 10, 1000};
    static const int64_t waits_ms[] = {1, 10, 999, 86400000};

    for (size_t s = 0; s < sizeof speeds / sizeof speeds[0]; s++) {
        struct ks_local_play play = {.speed = speeds[s]};

        ks_local_play_begin(&play, BEGIN_MS, BEGAN);
        for (size_t w = 0; w < sizeof waits_ms / sizeof waits_ms[0]; w++) {
            const ks_instant due = ks_local_play_due(&play, BEGIN_MS + waits_ms[w]);
            const ks_instant before = {due.us - 1};

            EXPECT(ks_local_play_clock(&play, due) >= BEGIN_MS + waits_ms[w]);
            EXPECT(ks_local_play_clock(&play, before) < BEGIN_MS + waits_ms[w]);
        }
    }
}

TEST(an_arrival_before_the_beginning_is_due_at_once_and_one_without_end_overflows_nothing)
{
    struct ks_local_play play = {.speed = 1};

    ks_local_play_begin(&play, BEGIN_MS, BEGAN);
    EXPECT_EQ_I64(ks_local_play_due(&play, 0).us, BEGAN.us);
    EXPECT(ks_local_play_due(&play, INT64_MAX).us > BEGAN.us);
}

static struct ks_record record(const char *sequence, int64_t arrival_ms)
{
    return (struct ks_record){.sequence = ks_view_text(sequence),
                              .partition_key = KS_VIEW("key"),
                              .sub_sequence = -1,
                              .arrival_ms = arrival_ms};
}

/* Two shards: the first begins an hour after the second. */
static struct ks_local_db *two_shards(void)
{
    static const struct ks_shard_listing shards[] = {
        {.shard = "shardId-000000000000", .hash_start = "0", .hash_end = "99"},
        {.shard = "shardId-000000000001", .hash_start = "100", .hash_end = "200"},
    };
    const struct ks_record first[] = {record("11", BEGIN_MS + 3600000),
                                      record("12", BEGIN_MS + 7200000)};
    const struct ks_record second = record("21", BEGIN_MS);
    struct ks_local_slice *slice;
    struct ks_local_db *db;

    EXPECT_OK(
        ks_local_slice_new(ks_test_path("out.db"), false, "demo", 0, shards, 2, &slice, NULL));
    EXPECT_OK(ks_local_slice_add(slice, 0, first, 2, NULL));
    EXPECT_OK(ks_local_slice_add(slice, 1, &second, 1, NULL));
    EXPECT_OK(ks_local_slice_finish(slice, NULL));
    ks_local_slice_free(slice);
    EXPECT_OK(ks_local_db_open(ks_test_path("out.db"), "demo", 1, &db, NULL));
    return db;
}

static struct ks_local_cursor cursor(const char *shard, enum ks_position_kind kind)
{
    struct ks_local_cursor cursor = {.from = {.kind = kind, .sub_sequence = -1}};

    (void)snprintf(cursor.shard, sizeof cursor.shard, "%s", shard);
    return cursor;
}

static struct ks_local_look look_at(struct ks_local_db *db, struct ks_local_play *play, bool reads,
                                    struct ks_local_cursor *where)
{
    struct ks_local_look look;

    EXPECT_OK(
        ks_local_play_look(db, play, reads, where, 10, 1000, BEGIN_MS + 10800000, &look, NULL));
    return look;
}

TEST(from_the_horizon_all_shards_begin_with_the_oldest_record_of_the_stream)
{
    struct ks_local_db *db = two_shards();
    struct ks_local_play play = {.speed = 1};
    struct ks_local_cursor first = cursor("shardId-000000000000", KS_POSITION_TRIM_HORIZON);
    struct ks_local_cursor second = cursor("shardId-000000000001", KS_POSITION_TRIM_HORIZON);
    struct ks_local_look look = look_at(db, &play, false, &first);

    /* A reader that only has its place found begins nothing. */
    EXPECT(!play.begun);
    look = look_at(db, &play, true, &first);
    EXPECT(play.begun);
    EXPECT_EQ_I64(play.origin_ms, BEGIN_MS);
    /* Its time has not come: it is as if the record had not arrived yet. */
    EXPECT_EQ_U64(look.count, 0);
    EXPECT_EQ_I64(look.next_ms, BEGIN_MS + 3600000);
    EXPECT_EQ_I64(look.millis_behind, 0);
    EXPECT(!look.at_end && !look.expired.found);
    EXPECT_EQ_U64(look_at(db, &play, true, &second).count, 1);
    ks_local_db_close(db);
}

TEST(from_a_checkpoint_the_clock_begins_at_the_record_behind_it)
{
    struct ks_local_db *db = two_shards();
    struct ks_local_play play = {.speed = 1};
    struct ks_local_cursor behind = cursor("shardId-000000000000", KS_POSITION_AFTER_SEQUENCE);
    struct ks_local_look look;

    (void)snprintf(behind.from.sequence, sizeof behind.from.sequence, "11");
    look = look_at(db, &play, true, &behind);
    EXPECT_EQ_I64(play.origin_ms, BEGIN_MS + 7200000);
    EXPECT_EQ_U64(look.count, 1);
    ks_local_db_close(db);
}

TEST(a_record_that_waits_for_its_time_behind_a_checkpoint_has_not_expired)
{
    struct ks_local_db *db = two_shards();
    struct ks_local_play play = {.speed = 1};
    struct ks_local_cursor second = cursor("shardId-000000000001", KS_POSITION_TRIM_HORIZON);
    struct ks_local_cursor behind = cursor("shardId-000000000000", KS_POSITION_AFTER_SEQUENCE);
    struct ks_local_look look = look_at(db, &play, true, &second);

    (void)snprintf(behind.from.sequence, sizeof behind.from.sequence, "11");
    look = look_at(db, &play, true, &behind);
    EXPECT_EQ_U64(look.count, 0);
    EXPECT(!look.expired.found);
    EXPECT_EQ_I64(look.next_ms, BEGIN_MS + 7200000);
    /* It is still in front of the reader. */
    behind.until_ms = 0;
    EXPECT_OK(ks_local_look(db, &behind, 10, 1000, BEGIN_MS, &look, NULL));
    EXPECT_EQ_U64(look.count, 1);
    ks_local_db_close(db);
}

TEST(from_an_instant_the_clock_begins_there_and_a_shard_without_records_begins_nothing)
{
    struct ks_local_db *db = two_shards();
    struct ks_local_play play = {.speed = 1};
    struct ks_local_cursor tip = cursor("shardId-000000000000", KS_POSITION_LATEST);
    struct ks_local_cursor instant = cursor("shardId-000000000000", KS_POSITION_AT_TIMESTAMP);

    EXPECT_EQ_U64(look_at(db, &play, true, &tip).count, 0);
    EXPECT(!play.begun);
    instant.from.timestamp_ms = BEGIN_MS + 1000000;
    EXPECT_EQ_I64(look_at(db, &play, true, &instant).next_ms, BEGIN_MS + 3600000);
    EXPECT_EQ_I64(play.origin_ms, BEGIN_MS + 1000000);
    ks_local_db_close(db);
}

TEST(a_stream_that_is_not_played_has_everything_at_once)
{
    struct ks_local_db *db = two_shards();
    struct ks_local_play play = {.speed = 0};
    struct ks_local_cursor first = cursor("shardId-000000000000", KS_POSITION_TRIM_HORIZON);

    EXPECT_EQ_U64(look_at(db, &play, true, &first).count, 2);
    EXPECT(!play.begun);
    ks_local_db_close(db);
}
