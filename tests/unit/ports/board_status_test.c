/* SPDX-License-Identifier: Apache-2.0 */
/* What a switchboard tells people. */
#include "core/state.h"
#include "ks_test.h"
#include "ports/board.h"
#include "unit/ports/stage.h"

#include <string.h>

TEST(state_is_told_to_people)
{
    struct ks_board_status status;
    struct ks_shard_status shard;
    struct ks_worker_status worker;
    struct ks_session_status session;
    struct consumer consumer;
    struct stage stage;
    uint32_t ours = 0;

    stage_begin(&stage, "pod-a");
    ks_switchboard_status(stage.board, &status);
    EXPECT(!status.ready);
    EXPECT(status.reason[0] != '\0');
    consumer_join(&consumer, &stage, "client");
    stage_turn_until(&stage, stage_holds_all);
    stage_put(&stage, 0, 8);
    consumer_pull_until(&consumer, 8);

    ks_switchboard_status(stage.board, &status);
    EXPECT_STR(status.reason, "");
    EXPECT(status.ready);
    EXPECT_STR(status.worker_id, "pod-a");
    EXPECT_STR(status.stream, "stream");
    EXPECT_EQ_U64(status.self.in_flight, 8);
    EXPECT(status.self.serving);

    for (ks_shard i = 0; i < ks_switchboard_shard_count(stage.board); i++) {
        if (!ks_switchboard_shard(stage.board, i, &shard))
            continue;
        EXPECT(shard.ours);
        EXPECT(shard.has_lease);
        EXPECT_STR(shard.owner, "pod-a");
        EXPECT_STR(shard.parents[0], "");
        EXPECT(strlen(shard.hash_end) > 30);
        EXPECT(shard.since.ms > ks_wall_now().ms - 60000);
        EXPECT_EQ_I64(shard.checkpoint.kind, KS_POSITION_TRIM_HORIZON);
        ours++;
    }
    EXPECT_EQ_U64(ours, STAGE_SHARDS);
    EXPECT(ks_switchboard_worker(stage.board, 0, &worker));
    EXPECT_STR(worker.worker_id, "pod-a");
    EXPECT(status.boot != 0);
    EXPECT_EQ_U64(worker.row.self.boot, status.boot);
    EXPECT(worker.self);
    EXPECT(!ks_switchboard_worker(stage.board, 1, &worker));
    EXPECT(ks_switchboard_session(stage.board, consumer.session, &session));
    EXPECT_STR(session.client_id, "client");
    EXPECT_EQ_U64(session.session.in_flight, 8);
    EXPECT(!ks_switchboard_session(stage.board, 99, &session));
    stage_vanish(&stage);
}

/* The sum of a metric over the shards; `ret_shards` says how many have it. */
static int64_t of_shards(struct stage *stage, enum ks_metric metric, uint32_t *ret_shards)
{
    struct ks_metric_keeper *keeper = &stage->board->metrics;
    const char *shard = NULL;
    int64_t number = 0;
    int64_t sum = 0;

    *ret_shards = 0;
    for (uint32_t at = 0; ks_board_shard_metric(keeper, metric, at, &shard, &number); at++) {
        if (shard == NULL)
            continue;
        EXPECT_CONTAINS(shard, "shardId-");
        (*ret_shards)++;
        sum += number;
    }
    return sum;
}

static uint64_t buffered(struct stage *stage)
{
    uint64_t all = 0;

    for (ks_shard i = 0; i < ks_switchboard_shard_count(stage->board); i++) {
        struct ks_shard_status shard;

        if (ks_switchboard_shard(stage->board, i, &shard))
            all += shard.lease.fetched - shard.lease.delivered;
    }
    return all;
}

static bool all_is_read(struct stage *stage)
{
    return buffered(stage) == 8;
}

static int64_t behind(struct stage *stage)
{
    struct ks_board_status status;

    ks_switchboard_status(stage->board, &status);
    return status.millis_behind;
}

static bool is_behind(struct stage *stage)
{
    return behind(stage) > 300;
}

TEST(what_was_read_and_not_delivered_is_behind)
{
    struct consumer consumer;
    struct stage stage;
    int64_t most = -1;
    uint32_t shards;

    stage_begin(&stage, "pod-a");
    EXPECT_EQ_I64(behind(&stage), -1);
    consumer_join(&consumer, &stage, "client");
    stage_turn_until(&stage, stage_holds_all);
    stage_put(&stage, 0, 8);
    stage_turn_until(&stage, all_is_read);
    /* The reader is at the tip; the app gets older and older records. */
    stage_turn_until(&stage, is_behind);
    EXPECT(of_shards(&stage, KS_METRIC_SHARD_MILLIS_BEHIND_LATEST, &shards) > 300);
    for (ks_shard i = 0; i < ks_switchboard_shard_count(stage.board); i++) {
        struct ks_shard_status shard;

        if (ks_switchboard_shard(stage.board, i, &shard) && shard.millis_behind > most)
            most = shard.millis_behind;
    }
    EXPECT(most > 300);
    consumer_pull_until(&consumer, 8);
    EXPECT_EQ_I64(behind(&stage), 0);
    stage_vanish(&stage);
}

/* A source that says the largest number that there is. */
struct asked {
    void (*answered)(void *arg, const struct ks_read_answer *answer);
    void *arg;
};
static struct asked asks[STAGE_SHARDS]; /* Of each reader, which has its own `arg`. */
static const struct ks_stream_source_vtable *real;

static void answer_as_far_behind(void *arg, const struct ks_read_answer *answer)
{
    const struct asked *asked = arg;
    struct ks_read_answer far = *answer;

    far.batch.millis_behind = INT64_MAX;
    asked->answered(asked->arg, &far);
}

static void read_far_behind(struct ks_reader *reader, uint32_t max_records, uint32_t max_bytes,
                            void (*answered)(void *arg, const struct ks_read_answer *answer),
                            void *arg)
{
    struct asked *asked = &asks[asks[0].arg != NULL && asks[0].arg != arg];

    *asked = (struct asked){answered, arg};
    real->read(reader, max_records, max_bytes, answer_as_far_behind, asked);
}

static bool is_far_behind(struct stage *stage)
{
    return behind(stage) > 0;
}

TEST(a_source_that_is_behind_by_more_than_all_time_is_behind_to_the_last_year)
{
    struct ks_stream_source_vtable far;
    struct consumer consumer;
    struct stage stage;

    stage_begin(&stage, "pod-a");
    real = stage.source->vtable;
    far = *real;
    far.read = read_far_behind;
    stage.source->vtable = &far;
    consumer_join(&consumer, &stage, "client");
    stage_turn_until(&stage, is_far_behind);
    EXPECT_EQ_I64(behind(&stage), INT64_C(253402300799999));
    stage.source->vtable = real;
    stage_vanish(&stage);
}

TEST(a_worker_that_is_not_in_service_has_no_deadline_of_its_leases)
{
    struct consumer consumer;
    struct stage stage;

    stage_begin(&stage, "pod-a");
    consumer_join(&consumer, &stage, "client");
    stage_turn_until(&stage, stage_holds_all);
    ks_board_measure(stage.board);
    EXPECT(ks_metric_number_labelled(KS_METRIC_LEASE_DEADLINE_SECONDS, "app") > 0);
    stage.board->core->fleet.deadline = KS_LONG_AGO;
    ks_board_measure(stage.board);
    EXPECT_EQ_I64(ks_metric_number_labelled(KS_METRIC_LEASE_DEADLINE_SECONDS, "app"), 0);
    stage_vanish(&stage);
}

TEST(each_shard_that_is_held_has_numbers_of_its_own)
{
    struct consumer consumer;
    struct stage stage;
    struct ks_bytes page;
    uint32_t shards = 0;

    stage_begin(&stage, "pod-a");
    EXPECT_EQ_I64(of_shards(&stage, KS_METRIC_SHARD_READS, &shards), 0);
    EXPECT_EQ_U64(shards, 0);
    consumer_join(&consumer, &stage, "client");
    stage_turn_until(&stage, stage_holds_all);
    stage_put(&stage, 0, 8);
    consumer_pull_until(&consumer, 8);

    EXPECT(of_shards(&stage, KS_METRIC_SHARD_READS, &shards) >= 1);
    EXPECT_EQ_U64(shards, STAGE_SHARDS);
    EXPECT_EQ_I64(of_shards(&stage, KS_METRIC_SHARD_READ_FAILURES, &shards), 0);
    EXPECT_EQ_I64(of_shards(&stage, KS_METRIC_SHARD_THROTTLES, &shards), 0);
    EXPECT_EQ_I64(of_shards(&stage, KS_METRIC_SHARD_MILLIS_BEHIND_LATEST, &shards), 0);
    EXPECT(shards >= 1);
    ks_bytes_init(&page, 1 << 20);
    EXPECT_OK(ks_metrics_render(&page));
    EXPECT_OK(ks_bytes_append_byte(&page, '\0'));
    EXPECT_CONTAINS(
        (const char *)page.data,
        "kinesis_sidecar_shard_reads_total{subscription=\"app\",shard=\"shardId-000000000000\"} ");
    ks_bytes_free(&page);
    stage_vanish(&stage);
}

TEST(the_load_is_an_average_that_follows)
{
    const ks_span second = {1000000};
    uint64_t load = 0;

    for (int i = 0; i < 30; i++)
        load = ks_board_load_after(load, 100000, second);
    EXPECT(load > 60000 && load < 66000); /* 1 - 1/e after its memory. */
    for (int i = 0; i < 300; i++)
        load = ks_board_load_after(load, 100000, second);
    EXPECT(load > 99900 && load <= 100000);
    /* However long the pause was. */
    load = ks_board_load_after(load, 0, (ks_span){INT64_C(86400) * 1000000});
    EXPECT(load < 100);
    for (int i = 0; i < 400; i++)
        load = ks_board_load_after(load, 0, second);
    EXPECT_EQ_U64(load, 0);
    EXPECT_EQ_U64(ks_board_load_after(0, UINT64_C(1) << 33, second) > 0, 1);
}

static bool tells_load(struct stage *stage)
{
    struct ks_worker_status worker;

    return ks_switchboard_worker(stage->board, 0, &worker) && worker.row.load > 0;
}

TEST(what_was_delivered_is_told_to_the_fleet)
{
    struct consumer consumer;
    struct stage stage;

    stage_begin(&stage, "pod-a");
    stage_put(&stage, 0, 100);
    consumer_join(&consumer, &stage, "client");
    consumer_pull_until(&consumer, 100);
    stage_turn_until(&stage, tells_load);
    stage_vanish(&stage);
}

TEST(events_are_kept_for_those_who_come_late)
{
    struct consumer consumer;
    struct stage stage;
    uint64_t end;
    uint32_t acquired = 0;

    stage_begin(&stage, "pod-a");
    consumer_join(&consumer, &stage, "client");
    stage_turn_until(&stage, stage_holds_all);
    EXPECT_EQ_U64(ks_switchboard_events(stage.board, &end), 0);
    EXPECT_EQ_U64(end, 2 * STAGE_SHARDS);
    for (uint64_t i = 0; i < end; i++) {
        const struct ks_board_event *event = ks_switchboard_event(stage.board, i);

        EXPECT(event->at.ms > ks_wall_now().ms - 60000);
        EXPECT_CONTAINS(event->message, event->shard_id);
        if (strcmp(event->type, "lease_acquired") != 0)
            continue;
        EXPECT_EQ_U64(event->epoch, 1);
        acquired++;
    }
    EXPECT_EQ_U64(acquired, STAGE_SHARDS);
    stage_vanish(&stage);
}

TEST(the_own_row_is_as_we_are_and_not_as_it_was_read)
{
    struct ks_worker_status worker;
    struct consumer consumer;
    struct stage stage;

    stage_begin(&stage, "pod-a");
    consumer_join(&consumer, &stage, "client");
    stage_turn_until(&stage, stage_holds_all);
    EXPECT(ks_switchboard_worker(stage.board, 0, &worker));
    EXPECT(worker.self);
    EXPECT_EQ_U64(worker.row.held, STAGE_SHARDS);
    stage_drain(&stage);
    EXPECT(ks_switchboard_worker(stage.board, 0, &worker));
    EXPECT(worker.self);
    EXPECT_EQ_U64(worker.row.held, 0);
    EXPECT_EQ_I64(worker.row.mode, KS_DRAINING);
    EXPECT_EQ_I64(worker.row.life, KS_GONE);
    stage_vanish(&stage);
}

/* Records that are assigned lie beyond those that were handed: they are no part of the gap. */
TEST(watermark_gap_counts_the_settled_records_beyond_the_watermark_and_no_others)
{
    enum { RECORDS = 6, WRITTEN = 3 };
    struct consumer consumer;
    struct ks_run run = {.count = 0};
    struct ks_run part;
    struct stage stage;
    ks_instant until;
    ks_number up_to;

    stage_begin(&stage, "pod-a");
    consumer_join(&consumer, &stage, "client");
    stage_turn_until(&stage, stage_holds_all);
    for (uint32_t i = 0; i < RECORDS; i++)
        stage_put(&stage, 3, 1);
    until = stage_patience();
    while (buffered(&stage) < RECORDS)
        stage_turn(&stage, until, ks_span_ms(50));
    EXPECT_EQ_U64(ks_switchboard_pull(stage.board, consumer.session, 100, 1 << 20, &run, 1), 1);
    EXPECT_EQ_U64(run.count, RECORDS);
    part = run;
    part.count = WRITTEN;
    stage_write(stage.board, consumer.session, &part);
    ks_board_measure(stage.board);
    EXPECT_EQ_I64(ks_metric_number_labelled(KS_METRIC_WATERMARK_GAP_RECORDS, "app"), 0);

    part.first++;
    part.count = WRITTEN - 1;
    EXPECT_EQ_I64(consumer_settle(&consumer, &part, KS_ACK, &up_to), KS_SETTLE_OK);
    ks_board_measure(stage.board);
    EXPECT_EQ_I64(ks_metric_number_labelled(KS_METRIC_WATERMARK_GAP_RECORDS, "app"), WRITTEN - 1);

    part = run;
    part.count = 1;
    EXPECT_EQ_I64(consumer_settle(&consumer, &part, KS_RETRY, &up_to), KS_SETTLE_OK);
    ks_board_measure(stage.board);
    EXPECT_EQ_I64(ks_metric_number_labelled(KS_METRIC_WATERMARK_GAP_RECORDS, "app"), WRITTEN - 1);
    EXPECT_EQ_I64(consumer_settle(&consumer, &part, KS_ACK, &up_to), KS_SETTLE_OK);
    ks_board_measure(stage.board);
    EXPECT_EQ_I64(ks_metric_number_labelled(KS_METRIC_WATERMARK_GAP_RECORDS, "app"), 0);
    stage_vanish(&stage);
}
