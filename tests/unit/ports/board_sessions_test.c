/* SPDX-License-Identifier: Apache-2.0 */
/* The consumers of a switchboard, and what they settle. */
#include "base/metrics.h"
#include "core/state.h"
#include "ks_test.h"
#include "ports/board.h"
#include "unit/ports/stage.h"

#include <string.h>

TEST(an_ack_of_what_was_never_delivered_or_of_another_epoch_is_refused)
{
    struct consumer consumer;
    struct ks_run forged;
    struct stage stage;
    ks_number up_to;

    stage_begin(&stage, "pod-a");
    stage_put(&stage, 0, 4);
    consumer_join(&consumer, &stage, "client");
    consumer_pull_until(&consumer, 4);
    forged = consumer.runs[0];
    forged.first = 1000;
    EXPECT_EQ_I64(consumer_settle(&consumer, &forged, KS_ACK, &up_to), KS_SETTLE_UNKNOWN);
    forged = consumer.runs[0];
    forged.epoch += 1;
    EXPECT_EQ_I64(consumer_settle(&consumer, &forged, KS_ACK, &up_to), KS_SETTLE_FENCED);
    forged = consumer.runs[0];
    forged.shard = 9999;
    EXPECT_EQ_I64(consumer_settle(&consumer, &forged, KS_ACK, &up_to), KS_SETTLE_FENCED);
    consumer_ack_all(&consumer);
    consumer_ack_all(&consumer); /* Twice is fine. */
    EXPECT(stage_record(stage.board, &forged, 0) == NULL);
    EXPECT(stage_record(stage.board, &consumer.runs[0], consumer.runs[0].first) == NULL);
    stage_vanish(&stage);
}

TEST(what_was_acknowledged_is_not_counted_as_retried)
{
    struct consumer consumer;
    const char *label;
    struct stage stage;
    ks_number up_to;

    stage_begin(&stage, "pod-a");
    label = stage.board->config.subscription;
    stage_put(&stage, 0, 4);
    consumer_join(&consumer, &stage, "client");
    consumer_pull_until(&consumer, 4);
    consumer_ack_all(&consumer);
    EXPECT_EQ_I64(consumer_settle(&consumer, &consumer.runs[0], KS_RETRY, &up_to),
                  KS_SETTLE_SETTLED);
    EXPECT_EQ_I64(ks_metric_number_labelled(KS_METRIC_RECORDS_ACKED, label), 4);
    EXPECT_EQ_I64(ks_metric_number_labelled(KS_METRIC_RECORDS_RETRIED, label), 0);
    stage_vanish(&stage);
}

TEST(a_checkpoint_by_position_settles_all_before_it)
{
    struct consumer consumer;
    struct stage stage;
    struct ks_detail detail;
    struct ks_board_status status;
    const struct ks_record *record;
    const struct ks_run *run;
    const char *id;
    char middle[KS_SEQUENCE_MAX + 1];
    ks_shard shard;
    ks_epoch epoch;
    ks_number up_to;

    stage_begin(&stage, "pod-a");
    stage_put(&stage, 0, 12);
    consumer_join(&consumer, &stage, "client");
    consumer_pull_until(&consumer, 12);
    run = &consumer.runs[0];
    EXPECT(run->count > 2);
    id = ks_switchboard_shard_id(stage.board, run->shard);
    record = ks_board_record(stage.board, run->shard, run->epoch, run->first + 1);
    EXPECT_OK(ks_view_copy_text(record->sequence, middle, sizeof middle));

    EXPECT_ERR(ks_switchboard_checkpoint(stage.board, KS_VIEW("nowhere"), ks_view_text(middle), 0,
                                         0, &shard, &epoch, &up_to, &detail),
               NOT_FOUND);
    EXPECT_CONTAINS(detail.text, "nowhere");
    EXPECT_ERR(ks_switchboard_checkpoint(stage.board, ks_view_text(id), KS_VIEW("12345"), 0, 0,
                                         &shard, &epoch, &up_to, &detail),
               INVALID);
    EXPECT_ERR(ks_switchboard_checkpoint(stage.board, ks_view_text(id), ks_view_text(middle), 0,
                                         run->epoch + 1, &shard, &epoch, &up_to, &detail),
               EXPIRED);

    EXPECT_OK(ks_switchboard_checkpoint(stage.board, ks_view_text(id), ks_view_text(middle), 0, 0,
                                        &shard, &epoch, &up_to, &detail));
    EXPECT_EQ_U64(shard, run->shard);
    EXPECT_EQ_U64(epoch, run->epoch);
    EXPECT_EQ_U64(up_to, run->first + 2);
    ks_switchboard_status(stage.board, &status);
    EXPECT_EQ_U64(status.self.in_flight, 10);
    EXPECT(ks_core_is_settled(stage.board->core, shard, run->first + 1));
    EXPECT(!ks_core_is_settled(stage.board->core, shard, run->first + 2));

    /* Again, and behind it: settled already. */
    EXPECT_OK(ks_switchboard_checkpoint(stage.board, ks_view_text(id), ks_view_text(middle), 0,
                                        run->epoch, &shard, &epoch, &up_to, &detail));
    EXPECT_EQ_U64(up_to, run->first + 2);
    stage_vanish(&stage);
}

TEST(a_client_that_comes_back_takes_its_session_over)
{
    struct consumer old;
    struct consumer young;
    struct stage stage;
    struct ks_run runs[STAGE_RUNS];
    ks_number up_to;

    stage_begin(&stage, "pod-a");
    stage_put(&stage, 0, 6);
    consumer_join(&old, &stage, "client");
    consumer_pull_until(&old, 6);

    consumer_join(&young, &stage, "client");
    EXPECT_EQ_U64(young.session, old.session);
    EXPECT(young.session_epoch != old.session_epoch);
    /* Not inside the call; and until it is said, nobody gets what is the other's. */
    EXPECT_EQ_U64(old.endings, 0);
    EXPECT_EQ_U64(ks_switchboard_pull(stage.board, old.session, 10, 1000, runs, STAGE_RUNS), 0);
    ks_loop_turn(stage.loop, ks_span_ms(0));
    EXPECT_EQ_U64(old.endings, 1);
    EXPECT_EQ_I64(old.why, KS_END_TAKEN_OVER);
    EXPECT(young.wakes > 0);
    EXPECT_EQ_I64(consumer_settle(&old, &old.runs[0], KS_ACK, &up_to), KS_SETTLE_SESSION_FENCED);

    /* The old connection closes late: that is not the end of the new one. */
    ks_switchboard_detach(stage.board, old.session, &old.port, false);
    consumer_pull_until(&young, 6);
    consumer_ack_all(&young);
    EXPECT_EQ_U64(young.endings, 0);
    stage_vanish(&stage);
}

TEST(a_consumer_that_leaves_before_it_hears_is_never_called)
{
    struct consumer old;
    struct consumer young;
    struct stage stage;

    stage_begin(&stage, "pod-a");
    consumer_join(&old, &stage, "client");
    consumer_join(&young, &stage, "client");
    ks_switchboard_detach(stage.board, old.session, &old.port, false);
    memset(&old.port, 0, sizeof old.port);
    ks_loop_turn(stage.loop, ks_span_ms(0));
    stage_put(&stage, 0, 3);
    consumer_pull_until(&young, 3);
    stage_vanish(&stage);
}

static bool knows_shards(struct stage *stage)
{
    return ks_switchboard_shard_count(stage->board) == STAGE_SHARDS;
}

TEST(bad_sessions_are_refused_with_a_reason)
{
    struct ks_session_request request = consumer_request("a b");
    const ks_view shards[] = {KS_VIEW("shardId-999999999999")};
    struct consumer many[4];
    struct stage stage;
    struct ks_detail detail;
    ks_session_id session;

    stage_begin(&stage, "pod-a");
    EXPECT_ERR(ks_switchboard_open(stage.board, &request, NULL, &session, &detail), INVALID);
    EXPECT_CONTAINS(detail.text, "client_id");
    request = consumer_request("fine");
    request.shards = shards;
    request.shard_count = 1;
    EXPECT_ERR(ks_switchboard_open(stage.board, &request, NULL, &session, &detail), BUSY);
    EXPECT_STR(detail.text, "the shards are not known yet");
    stage_turn_until(&stage, knows_shards);
    EXPECT_ERR(ks_switchboard_open(stage.board, &request, NULL, &session, &detail), NOT_FOUND);
    EXPECT_CONTAINS(detail.text, "shardId-999999999999");
    for (int i = 0; i < 4; i++)
        consumer_join(&many[i], &stage, "");
    request = consumer_request("fine");
    EXPECT_ERR(ks_switchboard_open(stage.board, &request, NULL, &session, &detail), FULL);
    ks_switchboard_close(stage.board, many[0].session);
    EXPECT_OK(ks_switchboard_open(stage.board, &request, NULL, &session, &detail));
    ks_switchboard_drain(stage.board, ks_span_ms(100));
    EXPECT_ERR(ks_switchboard_open(stage.board, &request, NULL, &session, &detail), BUSY);
    stage_vanish(&stage);
}

TEST(a_record_leaves_by_the_clock_also_in_the_middle_of_a_turn)
{
    struct ks_board_status status;
    struct consumer consumer;
    const struct ks_run *run;
    struct stage stage;
    ks_instant until;

    stage_begin(&stage, "pod-a");
    stage_put(&stage, 0, 1);
    consumer_join(&consumer, &stage, "client");
    consumer_pull_until(&consumer, 1);
    run = &consumer.runs[0];
    /* A busy machine may be late for a heartbeat. */
    until = stage_patience();
    while (!ks_switchboard_may_finish(stage.board, run->shard, run->epoch, ks_instant_now()))
        stage_turn(&stage, until, ks_span_ms(50));

    /* As if it had been stopped in a turn, whose time stands still. */
    stage_sleep_past_lease();
    ks_switchboard_status(stage.board, &status);
    EXPECT(!ks_instant_reached(ks_loop_now(stage.loop), status.self.deadline));
    EXPECT(ks_instant_reached(ks_instant_now(), status.self.deadline));
    EXPECT(!ks_switchboard_may_finish(stage.board, run->shard, run->epoch, ks_instant_now()));
    stage_vanish(&stage);
}

/* Its grace is over in the next turn, and an answer is queued that brings one. */
static void end_by_what_is_queued(struct consumer *consumer)
{
    struct ks_session *session = &consumer->stage->board->core->sessions[consumer->session];

    session->attached = false;
    session->over_at = KS_LONG_AGO;
    ks_board_queue(consumer->stage->board, &(struct ks_event){.kind = KS_EVENT_LISTED});
}

TEST(session_that_ends_by_what_was_queued_is_neither_pulled_for_nor_taken_over_nor_closed)
{
    struct consumer consumer;
    struct ks_run run;
    struct stage stage;

    stage_begin(&stage, "pod-a");
    consumer_join(&consumer, &stage, "client");
    end_by_what_is_queued(&consumer);
    EXPECT_EQ_U64(ks_switchboard_pull(stage.board, consumer.session, 1, 1 << 20, &run, 1), 0);

    consumer_join(&consumer, &stage, "client");
    end_by_what_is_queued(&consumer);
    consumer_join(&consumer, &stage, "client");

    end_by_what_is_queued(&consumer);
    ks_switchboard_close(stage.board, consumer.session);
    stage_vanish(&stage);
}

/* Its first bytes are on their way already. */
TEST(record_is_begun_before_what_was_queued_takes_it_back)
{
    struct ks_event pause = {.kind = KS_EVENT_PAUSE,
                             .pause = {.shard = KS_SHARD_NONE, .keeps = true, .until = KS_NEVER}};
    struct consumer consumer;
    struct ks_board_status status;
    struct stage stage;
    struct ks_run run;
    ks_instant until = stage_patience();

    stage_begin(&stage, "pod-a");
    stage_put(&stage, 0, 1);
    consumer_join(&consumer, &stage, "client");
    while (ks_switchboard_pull(stage.board, consumer.session, 1, 1 << 20, &run, 1) == 0)
        stage_turn(&stage, until, ks_span_ms(50));
    ks_board_queue(stage.board, &pause);
    EXPECT(stage_record(stage.board, &run, run.first) != NULL);
    ks_switchboard_write(stage.board, consumer.session, &run, KS_STAGE_BEGUN, run.first, 1);
    ks_board_catch_up(stage.board);
    ks_switchboard_status(stage.board, &status);
    EXPECT_EQ_U64(status.self.assigned, 1);
    stage_vanish(&stage);
}
