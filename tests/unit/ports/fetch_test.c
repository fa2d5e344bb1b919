/* SPDX-License-Identifier: Apache-2.0 */
/* On a local stream; aggregates and what Kinesis says are in tests/contract and tests/e2e/letters_table_test.py. */
#include "ports/fetch.h"

#include "ks_test.h"
#include "ports/board.h"
#include "unit/ports/stage.h"

#include <stdio.h>

static struct stage stage;
static struct consumer consumer;

static struct {
    uint32_t calls;
    ks_err err;
    char data[16];
} heard;

static void fetched(void *arg, ks_err err, const struct ks_record *record,
                    const struct ks_detail *detail)
{
    (void)arg;
    (void)detail;
    heard.calls++;
    heard.err = err;
    EXPECT_EQ_I64(record != NULL, ks_ok(err));
    if (record != NULL)
        EXPECT_OK(ks_view_copy_text(record->data, heard.data, sizeof heard.data));
}

static bool is_heard(struct stage *of)
{
    (void)of;
    return heard.calls > 0;
}

static ks_view shard;
static ks_view sequence;

/* One record, which an app has read: its data is 7. */
static void begin(void)
{
    stage_begin(&stage, "pod-a");
    consumer_join(&consumer, &stage, "client");
    stage_turn_until(&stage, stage_holds_all);
    stage_put(&stage, 7, 1);
    consumer_pull_until(&consumer, 1);
    shard = ks_view_text(ks_switchboard_shard_id(stage.board, consumer.runs[0].shard));
    sequence = ks_view_text(consumer.last_sequence[consumer.runs[0].shard]);
}

static void end(void)
{
    stage_drain(&stage);
    EXPECT_EQ_U64(stage.board->budget.used, 0);
    stage_vanish(&stage);
}

TEST(a_record_is_read_again_by_its_place)
{
    struct ks_fetch *fetch;

    begin();
    EXPECT_OK(ks_fetch_begin(stage.board, shard, sequence, -1, fetched, NULL, &fetch));
    EXPECT_EQ_U64(heard.calls, 0);
    stage_turn_until(&stage, is_heard);
    EXPECT_OK(heard.err);
    EXPECT_STR(heard.data, "7");
    EXPECT_EQ_U64(heard.calls, 1);
    end();
}

TEST(a_record_that_is_not_there_has_left_the_stream)
{
    static const char *const sequences[] = {"1",
                                            "99999999999999999999999999999999999999999999999999"};
    struct ks_fetch *fetch;

    begin();
    for (size_t at = 0; at < 2; at++) {
        heard.calls = 0;
        EXPECT_OK(ks_fetch_begin(stage.board, shard, ks_view_text(sequences[at]), -1, fetched, NULL,
                                 &fetch));
        stage_turn_until(&stage, is_heard);
        EXPECT_ERR(heard.err, EXPIRED);
    }
    heard.calls = 0;
    EXPECT_OK(ks_fetch_begin(stage.board, KS_VIEW("shardId-that-never-was"), KS_VIEW("1"), -1,
                             fetched, NULL, &fetch));
    stage_turn_until(&stage, is_heard);
    EXPECT_ERR(heard.err, EXPIRED);
    end();
}

TEST(a_part_of_an_aggregate_that_the_record_does_not_have_is_another_record)
{
    struct ks_fetch *fetch;

    begin();
    EXPECT_OK(ks_fetch_begin(stage.board, shard, sequence, 3, fetched, NULL, &fetch));
    stage_turn_until(&stage, is_heard);
    EXPECT_ERR(heard.err, EXPIRED);
    end();
}

TEST(who_cancels_hears_nothing)
{
    struct ks_fetch *fetch;

    begin();
    /* At once, and while the record waits to be told. */
    for (int turns = 0; turns < 40; turns++) {
        EXPECT_OK(ks_fetch_begin(stage.board, shard, sequence, -1, fetched, NULL, &fetch));
        for (int turn = 0; turn < turns && heard.calls == 0; turn++)
            ks_loop_turn(stage.loop, ks_span_ms(1));
        if (heard.calls == 0)
            ks_fetch_cancel(fetch);
        heard.calls = 0;
    }
    ks_fetch_cancel(NULL);
    end();
}

TEST(nothing_is_fetched_before_the_stream_was_reached)
{
    struct ks_fetch *fetch = NULL;

    stage_begin(&stage, "pod-a");
    stage.board->described = false;
    EXPECT_ERR(ks_fetch_begin(stage.board, KS_VIEW("shardId-000000000000"), KS_VIEW("1"), -1,
                              fetched, NULL, &fetch),
               BUSY);
    stage.board->described = true;
    end();
}
