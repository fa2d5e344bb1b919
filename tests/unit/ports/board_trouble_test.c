/* SPDX-License-Identifier: Apache-2.0 */
/* What keeps a shard from its consumer, as people are told. */
#include "ks_test.h"
#include "ports/board.h"
#include "unit/ports/stage.h"

static struct ks_shard_status look(const struct stage *stage, ks_shard shard)
{
    struct ks_shard_status status;

    EXPECT(ks_switchboard_shard(stage->board, shard, &status));
    return status;
}

static void begin(struct stage *stage, struct consumer *consumer)
{
    stage_begin(stage, "pod-a");
    consumer_join(consumer, stage, "client");
    stage_turn_until(stage, stage_holds_all);
    stage_put(stage, 0, 20);
    consumer_pull_until(consumer, 20);
}

static void settle_last(struct stage *stage, const struct consumer *consumer, ks_shard shard)
{
    const struct ks_run *run = &consumer->runs[0];
    struct ks_session_status session;
    struct ks_settlement settlement = {.session = consumer->session, .count = 1, .outcome = KS_ACK};

    for (uint32_t i = 0; i < consumer->run_count; i++)
        if (consumer->runs[i].shard == shard)
            run = &consumer->runs[i];
    EXPECT(ks_switchboard_session(stage->board, consumer->session, &session));
    EXPECT(run->count > 1);
    settlement.session_epoch = session.session.epoch;
    settlement.shard = run->shard;
    settlement.epoch = run->epoch;
    settlement.first = run->first + run->count - 1;
    settlement.assignment = run->assignment;
    settlement.alone = true;
    EXPECT_EQ_I64(ks_switchboard_settle(stage->board, &settlement).status, KS_SETTLE_OK);
}

/* The first record of the first run fails, with a reason, and waits an hour. */
static ks_shard fail_first(struct stage *stage, const struct consumer *consumer)
{
    const struct ks_run *run = &consumer->runs[0];
    struct ks_session_status session;
    struct ks_settlement settlement = {
        .session = consumer->session,
        .shard = run->shard,
        .epoch = run->epoch,
        .first = run->first,
        .count = 1,
        .assignment = run->assignment,
        .alone = true,
        .outcome = KS_RETRY,
        .delay = ks_span_ms(3600000),
        .reason = KS_VIEW("cannot parse"),
    };

    EXPECT(ks_switchboard_session(stage->board, consumer->session, &session));
    settlement.session_epoch = session.session.epoch;
    EXPECT_EQ_I64(ks_switchboard_settle(stage->board, &settlement).status, KS_SETTLE_OK);
    return run->shard;
}

TEST(a_shard_without_trouble_tells_what_was_decided_about_it)
{
    struct ks_shard_status status;
    struct consumer consumer;
    struct stage stage;

    begin(&stage, &consumer);
    status = look(&stage, 0);
    EXPECT_EQ_I64(status.trouble, KS_TROUBLE_NONE);
    EXPECT(status.reason[0] != '\0');
    EXPECT_STR(status.remedy, "");
    EXPECT_STR(status.blocked_by, "");
    stage_vanish(&stage);
}

TEST(a_paused_shard_names_the_command_that_resumes_it)
{
    struct ks_shard_status status;
    struct consumer consumer;
    struct stage stage;

    begin(&stage, &consumer);
    ks_switchboard_pause(stage.board, KS_SHARD_NONE, (ks_wall){0}, true);
    status = look(&stage, 1);
    EXPECT_EQ_I64(status.trouble, KS_TROUBLE_PAUSED);
    EXPECT_STR(status.reason, "shardId-000000000001: paused by an operator");
    EXPECT_STR(status.remedy, "kinesis-sidecar resume shardId-000000000001");
    ks_switchboard_resume(stage.board, KS_SHARD_NONE);
    ks_switchboard_pause(stage.board, 1, (ks_wall){INT64_C(4102444800000)}, true);
    status = look(&stage, 1);
    EXPECT_STR(status.reason,
               "shardId-000000000001: paused by an operator until 2100-01-01T00:00:00.000Z");
    EXPECT_EQ_I64(look(&stage, 0).trouble, KS_TROUBLE_NONE);
    stage_vanish(&stage);
}

TEST(a_record_that_failed_is_named_with_what_the_app_said_and_skipped_by_its_number)
{
    struct ks_shard_status status;
    struct consumer consumer;
    struct stage stage;
    ks_shard shard;
    bool lost = true;

    begin(&stage, &consumer);
    shard = fail_first(&stage, &consumer);
    status = look(&stage, shard);
    EXPECT_EQ_I64(status.trouble, KS_TROUBLE_RETRYING);
    EXPECT_CONTAINS(status.reason, " failed 1 times (\"cannot parse\"), and is tried again");
    EXPECT_CONTAINS(status.reason, status.blocked_by);
    EXPECT_CONTAINS(status.remedy, "kinesis-sidecar skip shardId-00000000000");
    EXPECT_EQ_U64(status.failures, 1);
    EXPECT_EQ_I64(status.blocked_by_sub, -1);

    EXPECT_EQ_I64(ks_switchboard_skip(stage.board, 77, KS_VIEW("1"), -1, false, &lost),
                  KS_OPERATOR_NOT_HELD);
    EXPECT_EQ_I64(ks_switchboard_skip(stage.board, shard, KS_VIEW("1"), -1, false, &lost),
                  KS_OPERATOR_NOT_BLOCKED);
    EXPECT_EQ_I64(
        ks_switchboard_skip(stage.board, shard, ks_view_text(status.blocked_by), -1, true, &lost),
        KS_OPERATOR_OK);
    EXPECT(!lost);
    EXPECT_EQ_I64(look(&stage, shard).trouble, KS_TROUBLE_RETRYING);
    EXPECT_EQ_I64(
        ks_switchboard_skip(stage.board, shard, ks_view_text(status.blocked_by), -1, false, &lost),
        KS_OPERATOR_OK);
    EXPECT_EQ_I64(look(&stage, shard).trouble, KS_TROUBLE_NONE);
    stage_vanish(&stage);
}

TEST(records_that_no_session_takes_are_told)
{
    struct ks_board_status whole;
    struct ks_shard_status status;
    struct consumer consumer;
    struct stage stage;

    begin(&stage, &consumer);
    ks_switchboard_status(stage.board, &whole);
    EXPECT_EQ_I64(whole.idle, KS_IDLE_NO_DATA);
    ks_switchboard_close(stage.board, consumer.session);
    status = look(&stage, 0);
    EXPECT_EQ_I64(status.trouble, KS_TROUBLE_NO_SESSION);
    EXPECT_STR(status.reason, "shardId-000000000000: no session takes its records");
    ks_switchboard_status(stage.board, &whole);
    EXPECT_EQ_I64(whole.idle, KS_IDLE_NO_SESSIONS);
    stage_vanish(&stage);
}

TEST(an_app_that_settles_nothing_is_told_and_the_age_of_its_oldest_record_grows)
{
    struct ks_shard_status status;
    struct ks_board_status whole;
    struct consumer consumer;
    struct stage stage;
    ks_instant until = stage_patience();
    struct ks_board_lease *lease;

    begin(&stage, &consumer);
    do {
        stage_turn(&stage, until, ks_span_ms(20));
        status = look(&stage, 0);
    } while (status.oldest_unsettled_ms < 100);
    ks_switchboard_status(stage.board, &whole);
    EXPECT(whole.oldest_unsettled_ms >= 100);
    EXPECT_EQ_I64(status.trouble, KS_TROUBLE_NONE);
    lease = &stage.board->leases[stage.board->open[0] - 1];
    ks_board_measure(stage.board);
    lease->progress_at.us -= INT64_C(31) * 1000000; /* As if it had been so for 31 s. */
    status = look(&stage, 0);
    EXPECT_EQ_I64(status.trouble, KS_TROUBLE_UNSETTLED);
    EXPECT_CONTAINS(status.reason, "and has settled none for 31 s");
    settle_last(&stage, &consumer, 0); /* The watermark stays. */
    EXPECT_EQ_I64(look(&stage, 0).trouble, KS_TROUBLE_NONE);
    consumer_ack_all(&consumer);
    status = look(&stage, 0);
    EXPECT_EQ_I64(status.trouble, KS_TROUBLE_NONE);
    EXPECT_EQ_I64(status.oldest_unsettled_ms, 0);
    ks_switchboard_status(stage.board, &whole);
    EXPECT_EQ_I64(whole.oldest_unsettled_ms, 0);
    stage_vanish(&stage);
}

TEST(a_shard_that_is_not_read_for_want_of_room_falls_behind)
{
    struct ks_shard_status status;
    struct consumer consumer;
    struct stage stage;
    ks_instant until = stage_patience();

    begin(&stage, &consumer);
    consumer_ack_all(&consumer);
    ks_switchboard_pause(stage.board, 0, (ks_wall){0}, true);
    do {
        stage_turn(&stage, until, ks_span_ms(50));
        status = look(&stage, 0);
    } while (status.millis_behind < 2500);
    EXPECT(look(&stage, 1).millis_behind < 2000); /* This one is read. */
    stage_vanish(&stage);
}
