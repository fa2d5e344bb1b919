/* SPDX-License-Identifier: Apache-2.0 */
#include "core/session.h"

#include "core/lease.h"
#include "ks_test.h"
#include "unit/core/bed.h"

static struct bed bed;

/* One session, one lease with `count` records of 100 bytes fetched. */
static ks_session_id one_lane(uint32_t max_in_flight, uint32_t count)
{
    ks_session_id session;

    bed_live(&bed);
    session = bed_session(&bed, max_in_flight, 1 << 20);
    bed_hold(&bed, 0, 1);
    bed_settle_down(&bed);
    bed_records(&bed, 0, count, 100, false);
    return session;
}

TEST(a_pull_delivers_in_order_up_to_the_credit_and_a_settle_returns_it)
{
    ks_session_id session = one_lane(3, 10);

    EXPECT_EQ_I64(bed_pull(&bed, session, 100), 3);
    EXPECT_EQ_I64(bed_effect(&bed, KS_EFFECT_DELIVER, 0)->deliver.first, 0);
    EXPECT_EQ_I64(bed_pull(&bed, session, 100), 0);
    EXPECT_EQ_I64(ks_core_session_idle(bed.core, session, NULL), KS_IDLE_FLOW_CONTROLLED);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 1, 1, KS_ACK, 0), KS_SETTLE_OK);
    bed_settle_down(&bed);
    EXPECT_EQ_I64(bed_count(&bed, KS_EFFECT_WAKE), 1);
    EXPECT_EQ_I64(bed_pull(&bed, session, 100), 1);
    EXPECT_EQ_I64(bed_effect(&bed, KS_EFFECT_DELIVER, 0)->deliver.first, 3);
}

TEST(lanes_take_turns)
{
    ks_session_id session;
    ks_shard first;

    bed_live(&bed);
    session = bed_session(&bed, 100, 1000);
    bed_hold(&bed, 0, 1);
    bed_hold(&bed, 1, 1);
    bed_settle_down(&bed);
    bed_records(&bed, 0, 4, 10, false);
    bed_records(&bed, 1, 4, 10, false);
    EXPECT_EQ_I64(bed_pull(&bed, session, 1), 1);
    first = bed_effect(&bed, KS_EFFECT_DELIVER, 0)->deliver.shard;
    EXPECT_EQ_I64(bed_pull(&bed, session, 1), 1);
    EXPECT_EQ_I64(bed_effect(&bed, KS_EFFECT_DELIVER, 0)->deliver.shard, 1 - first);
}

TEST(byte_credit_lets_one_record_of_any_size_through)
{
    ks_session_id session;

    bed_live(&bed);
    session = bed_session(&bed, 100, 50);
    bed_hold(&bed, 0, 1);
    bed_settle_down(&bed);
    bed_records(&bed, 0, 4, 1000, false);
    EXPECT_EQ_I64(bed_pull(&bed, session, 100), 1);
    EXPECT_EQ_I64(bed_pull(&bed, session, 100), 0);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 1, KS_ACK, 0), KS_SETTLE_OK);
    EXPECT_EQ_I64(bed_pull(&bed, session, 100), 1);
}

static struct ks_event pull_event(ks_session_id session, uint64_t max_bytes, uint64_t after)
{
    return (struct ks_event){
        .kind = KS_EVENT_SESSION_PULL,
        .pull = {.session = session,
                 .max_records = 100,
                 .max_bytes = max_bytes,
                 .max_runs = KS_BATCH_RUNS_MAX,
                 .after = after},
    };
}

TEST(a_pull_for_an_answer_that_has_records_takes_none_beyond_its_bytes)
{
    ks_session_id session = one_lane(100, 10);
    struct ks_event pull;

    EXPECT_EQ_I64(bed_assign(&bed, session, 1), 1);
    pull = pull_event(session, 99, bed_run(&bed, 0).assignment);
    bed_step(&bed, &pull);
    EXPECT_EQ_I64(bed_count(&bed, KS_EFFECT_DELIVER), 0);
    pull = pull_event(session, 299, bed.core->sessions[session].pulled);
    bed_step(&bed, &pull);
    EXPECT_EQ_I64(bed_run(&bed, 0).count, 2);
    EXPECT_EQ_U64(bed_effect(&bed, KS_EFFECT_DELIVER, 0)->deliver.bytes, 200);
}

/* Two answers of one session: the first one ends where the second one began. */
TEST(an_answer_takes_nothing_more_when_its_session_pulled_for_another_one)
{
    ks_session_id session = one_lane(100, 10);
    struct ks_event pull;

    EXPECT_EQ_I64(bed_assign(&bed, session, 1), 1);
    pull = pull_event(session, 1000, bed_run(&bed, 0).assignment);
    EXPECT_EQ_I64(bed_assign(&bed, session, 1), 1);
    bed_step(&bed, &pull);
    EXPECT_EQ_I64(bed_count(&bed, KS_EFFECT_DELIVER), 0);
    pull.pull.after = bed.core->sessions[session].pulled;
    bed_step(&bed, &pull);
    EXPECT_EQ_I64(bed_run(&bed, 0).first, 2);
}

TEST(a_limit_that_is_lowered_takes_nothing_back_and_sends_nothing_until_there_is_room)
{
    ks_session_id session = one_lane(5, 10);
    struct ks_event update = {.kind = KS_EVENT_SESSION_UPDATE};

    update.update.session = session;
    update.update.max_in_flight = 3;
    EXPECT_EQ_I64(bed_pull(&bed, session, 100), 5);
    bed_step(&bed, &update);
    EXPECT_EQ_I64(bed.core->sessions[session].in_flight, 5);
    EXPECT_EQ_U64(bed.core->sessions[session].max_in_flight_bytes, 1 << 20);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 2, KS_ACK, 0), KS_SETTLE_OK);
    EXPECT_EQ_I64(bed_pull(&bed, session, 100), 0);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 2, 1, KS_ACK, 0), KS_SETTLE_OK);
    EXPECT_EQ_I64(bed_pull(&bed, session, 100), 1);
    update.update.max_in_flight = 0;
    update.update.max_in_flight_bytes = 100;
    bed_step(&bed, &update);
    EXPECT_EQ_I64(bed.core->sessions[session].max_in_flight, 3);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 3, 1, KS_ACK, 0), KS_SETTLE_OK);
    EXPECT_EQ_I64(bed_pull(&bed, session, 100), 0);
}

TEST(a_nack_recalls_the_later_deliveries_and_redelivers_in_order)
{
    ks_session_id session = one_lane(100, 5);

    EXPECT_EQ_I64(bed_pull(&bed, session, 5), 5);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 2, 1, KS_RETRY, 0), KS_SETTLE_OK);
    EXPECT_EQ_I64(bed.core->sessions[session].in_flight, 2);
    EXPECT_EQ_I64(bed_pull(&bed, session, 100), 3);
    EXPECT_EQ_I64(bed_effect(&bed, KS_EFFECT_DELIVER, 0)->deliver.first, 2);
    EXPECT_EQ_I64(bed_effect(&bed, KS_EFFECT_DELIVER, 0)->deliver.attempt, 2);
}

TEST(a_delayed_nack_rests_the_lane_and_wakes_the_session_when_it_is_over)
{
    ks_session_id session = one_lane(100, 2);

    EXPECT_EQ_I64(bed_pull(&bed, session, 5), 2);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 2, KS_RETRY, 700), KS_SETTLE_OK);
    EXPECT_EQ_I64(bed_pull(&bed, session, 5), 0);
    EXPECT_EQ_I64(ks_core_session_idle(bed.core, session, NULL), KS_IDLE_LANE_BLOCKED);
    bed_settle_down(&bed);
    EXPECT_EQ_I64(ks_core_deadline(bed.core).us, ks_instant_add(bed.now, ks_span_ms(700)).us);
    bed_wait(&bed, 700);
    EXPECT_EQ_I64(bed_count(&bed, KS_EFFECT_WAKE), 1);
    EXPECT_EQ_I64(bed_pull(&bed, session, 5), 2);
}

TEST(an_ack_deadline_that_passes_requeues_and_an_extend_moves_it)
{
    ks_session_id session = one_lane(100, 2);

    EXPECT_EQ_I64(bed_pull(&bed, session, 5), 2);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 2, KS_EXTEND, 90000), KS_SETTLE_OK);
    bed.core->fleet.deadline = KS_NEVER;
    bed_wait(&bed, 60000);
    EXPECT_EQ_I64(bed.core->sessions[session].in_flight, 2);
    bed_wait(&bed, 30000);
    EXPECT_EQ_I64(bed.core->sessions[session].in_flight, 0);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 1, KS_EXTEND, 1000), KS_SETTLE_EXPIRED);
    /* An ack of the earlier attempt still settles it. */
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 1, KS_ACK, 0), KS_SETTLE_OK);
    EXPECT_EQ_I64(bed_pull(&bed, session, 5), 1);
    EXPECT_EQ_I64(bed_effect(&bed, KS_EFFECT_DELIVER, 0)->deliver.first, 1);
}

TEST(an_extend_tells_the_first_run_of_what_is_in_flight_no_more)
{
    ks_session_id session = one_lane(100, 8);
    const struct ks_settled *settled;

    EXPECT_EQ_I64(bed_pull(&bed, session, 8), 8);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 1, 1, KS_ACK, 0), KS_SETTLE_OK);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 5, 1, KS_ACK, 0), KS_SETTLE_OK);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 3, 1, KS_RETRY, 1000), KS_SETTLE_OK);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 8, KS_EXTEND, 90000), KS_SETTLE_EXPIRED);
    settled = &bed_effect(&bed, KS_EFFECT_SETTLED, 0)->settled;
    EXPECT_EQ_U64(settled->expired_first, 3);
    EXPECT_EQ_U64(settled->expired_count, 2);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 5, 3, KS_EXTEND, 90000), KS_SETTLE_EXPIRED);
    settled = &bed_effect(&bed, KS_EFFECT_SETTLED, 0)->settled;
    EXPECT_EQ_U64(settled->expired_first, 6);
    EXPECT_EQ_U64(settled->expired_count, 2);
    /* Those in flight have their new deadline. */
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 3, KS_EXTEND, 90000), KS_SETTLE_OK);
    bed.core->fleet.deadline = KS_NEVER;
    bed_wait(&bed, 89999);
    EXPECT_EQ_I64(bed.core->sessions[session].in_flight, 2);
}

TEST(an_extend_moves_no_deadline_of_another_session)
{
    ks_session_id first = one_lane(100, 2);
    ks_session_id second;

    EXPECT_EQ_I64(bed_pull(&bed, first, 2), 2);
    EXPECT_EQ_I64(bed_settle(&bed, first, 0, 0, 2, KS_RETRY, 0), KS_SETTLE_OK);
    second = bed_session(&bed, 100, 1 << 20);
    bed.core->leases[0].tracker.lanes[0].session = second;
    EXPECT_EQ_I64(bed_pull(&bed, second, 2), 2);
    EXPECT_EQ_I64(bed_settle(&bed, first, 0, 0, 2, KS_EXTEND, 90000), KS_SETTLE_EXPIRED);
    EXPECT_EQ_I64(bed_settle(&bed, second, 0, 0, 2, KS_EXTEND, 90000), KS_SETTLE_OK);
}

TEST(a_lost_connection_requeues_after_the_grace_and_then_the_session_is_over)
{
    struct ks_event detach = {.kind = KS_EVENT_SESSION_DETACH};
    ks_session_id session = one_lane(100, 2);
    ks_session_id other;

    EXPECT_EQ_I64(bed_pull(&bed, session, 5), 2);
    detach.session.session = session;
    bed_step(&bed, &detach);
    other = bed_session(&bed, 100, 1 << 20);
    bed_wait(&bed, 4999);
    EXPECT_EQ_I64(bed_pull(&bed, other, 5), 0);
    bed_wait(&bed, 1);
    EXPECT_EQ_I64(bed_effect(&bed, KS_EFFECT_SESSION_ENDED, 0)->session.why, KS_END_GRACE);
    EXPECT_EQ_I64(bed_pull(&bed, other, 5), 2);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 1, KS_ACK, 0), KS_SETTLE_SESSION_EXPIRED);
}

TEST(the_same_client_takes_over_and_its_former_self_is_fenced)
{
    struct ks_event open = {.kind = KS_EVENT_SESSION_OPEN};
    struct ks_event settle = {.kind = KS_EVENT_SETTLE};
    ks_session_id session = one_lane(100, 2);
    uint32_t epoch = bed.core->sessions[session].epoch;

    EXPECT_EQ_I64(bed_pull(&bed, session, 5), 2);
    open.open.take_over = session;
    open.open.max_in_flight = 100;
    open.open.max_in_flight_bytes = 1000;
    open.open.ack_deadline = ks_span_ms(1000);
    bed_step(&bed, &open);
    EXPECT_EQ_I64(bed_effect(&bed, KS_EFFECT_SESSION_ENDED, 0)->session.why, KS_END_TAKEN_OVER);
    EXPECT_EQ_I64(bed_effect(&bed, KS_EFFECT_OPENED, 0)->session.session_epoch, epoch + 1);
    settle.settle.session = session;
    settle.settle.session_epoch = epoch;
    settle.settle.epoch = 1;
    settle.settle.count = 1;
    bed_step(&bed, &settle);
    EXPECT_EQ_I64(bed_effect(&bed, KS_EFFECT_SETTLED, 0)->settled.status, KS_SETTLE_SESSION_FENCED);
    bed_settle_down(&bed);
    EXPECT_EQ_I64(bed_pull(&bed, session, 5), 2);
}

TEST(settlements_of_what_was_never_delivered_or_is_not_ours_are_refused)
{
    ks_session_id session = one_lane(2, 5);

    EXPECT_EQ_I64(bed_pull(&bed, session, 5), 2);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 2, 1, KS_ACK, 0), KS_SETTLE_UNKNOWN);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, UINT64_MAX, 2, KS_ACK, 0), KS_SETTLE_UNKNOWN);
    EXPECT_EQ_I64(bed_settle(&bed, session, 3, 0, 1, KS_ACK, 0), KS_SETTLE_FENCED);
    bed.core->leases[0].given_up = true;
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 1, KS_ACK, 0), KS_SETTLE_FENCED);
}

TEST(what_was_settled_before_is_counted_and_told_of_once)
{
    struct ks_event checkpoint = {.kind = KS_EVENT_CHECKPOINT, .checkpoint = {0, 1, 4}};
    ks_session_id session = one_lane(5, 10);
    const struct ks_effect *told;

    EXPECT_EQ_I64(bed_pull(&bed, session, 5), 5);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 2, KS_ACK, 0), KS_SETTLE_OK);
    EXPECT_EQ_U64(bed_effect(&bed, KS_EFFECT_SETTLED, 0)->settled.count, 2);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 3, 1, KS_ACK, 0), KS_SETTLE_OK);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 4, KS_DROP, 0), KS_SETTLE_OK);
    told = bed_effect(&bed, KS_EFFECT_STORY, 0);
    EXPECT_EQ_I64(told->story.story, KS_STORY_DROPPED);
    EXPECT_EQ_U64(told->story.number, 2);
    EXPECT_EQ_U64(told->story.count, 1);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 4, KS_DROP, 0), KS_SETTLE_OK);
    EXPECT(!bed_told(&bed, KS_STORY_DROPPED));
    EXPECT_EQ_U64(bed_effect(&bed, KS_EFFECT_SETTLED, 0)->settled.count, 0);
    bed_step(&bed, &checkpoint);
    EXPECT_EQ_U64(bed_effect(&bed, KS_EFFECT_SETTLED, 0)->settled.count, 1);
}

TEST(what_is_given_back_is_counted_once_and_what_is_settled_or_given_up_is_not)
{
    static const struct {
        ks_number first;
        uint32_t count;
        uint64_t counted;
    } nacks[] = {{0, 2, 2}, {0, 2, 0}, {1, 2, 0}, {0, 5, 1}};
    ks_session_id session = one_lane(5, 10);

    EXPECT_EQ_I64(bed_pull(&bed, session, 5), 5);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 2, 1, KS_ACK, 0), KS_SETTLE_OK);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 4, 1, KS_DEAD_LETTER, 0), KS_SETTLE_OK);
    for (size_t i = 0; i < sizeof(nacks) / sizeof(nacks[0]); i++) {
        EXPECT_EQ_I64(bed_settle(&bed, session, 0, nacks[i].first, nacks[i].count, KS_RETRY, 60000),
                      KS_SETTLE_OK);
        EXPECT_EQ_U64(bed_effect(&bed, KS_EFFECT_SETTLED, 0)->settled.count, nacks[i].counted);
    }
}

TEST(a_cumulative_checkpoint_settles_all_that_was_delivered_up_to_it)
{
    struct ks_event checkpoint = {.kind = KS_EVENT_CHECKPOINT, .checkpoint = {0, 1, 2}};
    ks_session_id session = one_lane(4, 10);

    EXPECT_EQ_I64(bed_pull(&bed, session, 5), 4);
    bed_step(&bed, &checkpoint);
    EXPECT_EQ_I64(bed_effect(&bed, KS_EFFECT_SETTLED, 0)->settled.status, KS_SETTLE_OK);
    EXPECT_EQ_I64(bed.core->leases[0].tracker.mark, 3);
    EXPECT_EQ_I64(bed_effect(&bed, KS_EFFECT_FORGET, 0)->lease.number, 3);
    checkpoint.checkpoint.number = 4;
    bed_step(&bed, &checkpoint);
    EXPECT_EQ_I64(bed_effect(&bed, KS_EFFECT_SETTLED, 0)->settled.status, KS_SETTLE_UNKNOWN);
}

/* A batch whose end was not written: its client settles what it has seen by one id. */
TEST(a_batch_settles_only_what_was_written_to_its_session)
{
    static const enum ks_settle_outcome outcomes[] = {KS_ACK, KS_DROP, KS_DEAD_LETTER};

    for (size_t i = 0; i < sizeof(outcomes) / sizeof(outcomes[0]); i++) {
        ks_session_id session = one_lane(4, 10);
        struct bed_run run;
        struct bed_run part;

        EXPECT_EQ_I64(bed_assign(&bed, session, 4), 4);
        run = bed_run(&bed, 0);
        part = bed_part(&run, 0, 1);
        bed_write(&bed, &part, KS_STAGE_BEGUN);
        bed_write(&bed, &part, KS_STAGE_WRITTEN);
        part = bed_part(&run, 1, 3);
        if (i % 2 == 0) /* Otherwise they are still ASSIGNED. */
            bed_write(&bed, &part, KS_STAGE_RETURNED);
        EXPECT_EQ_I64(bed_settle(&bed, session, 0, 1, 3, KS_ACK, 0), KS_SETTLE_UNKNOWN);
        EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 4, KS_EXTEND, 1000), KS_SETTLE_OK);
        EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 4, outcomes[i], 0), KS_SETTLE_OK);
        if (i % 2 != 0)
            bed_write(&bed, &part, KS_STAGE_RETURNED);
        EXPECT_EQ_I64(bed_pull(&bed, session, 3), 3);
        EXPECT_EQ_I64(bed_effect(&bed, KS_EFFECT_DELIVER, 0)->deliver.first, 1);
        EXPECT_EQ_I64(bed_effect(&bed, KS_EFFECT_DELIVER, 0)->deliver.attempt, 1);
    }
}

TEST(lanes_are_divided_evenly_and_change_hands_only_when_nothing_is_in_flight)
{
    ks_session_id first;
    ks_session_id second;

    bed_live(&bed);
    first = bed_session(&bed, 100, 1 << 20);
    for (ks_shard shard = 0; shard < 4; shard++)
        bed_hold(&bed, shard, 1);
    bed_settle_down(&bed);
    EXPECT_EQ_I64(bed.core->sessions[first].lanes, 4);
    for (ks_shard shard = 0; shard < 4; shard++)
        bed_records(&bed, shard, 2, 10, false);
    EXPECT_EQ_I64(bed_pull(&bed, first, 8), 8);

    second = bed_session(&bed, 100, 1 << 20);
    bed_settle_down(&bed);
    EXPECT_EQ_I64(bed.core->sessions[first].lanes, 2);
    EXPECT_EQ_I64(bed.core->sessions[second].lanes, 2);
    for (ks_shard shard = 0; shard < 4; shard++)
        EXPECT_EQ_I64(bed.core->leases[shard].tracker.lanes[0].session,
                      first); /* Planned, not yet passed on. */
    for (ks_shard shard = 0; shard < 4; shard++)
        EXPECT_EQ_I64(bed_settle(&bed, first, shard, 0, 2, KS_ACK, 0), KS_SETTLE_OK);
    bed_settle_down(&bed);
    uint32_t passed = 0;
    for (ks_shard shard = 0; shard < 4; shard++)
        passed += bed.core->leases[shard].tracker.lanes[0].session == second;
    EXPECT_EQ_I64(passed, 2);
}

TEST(a_session_that_names_shards_gets_only_those)
{
    ks_shard only = 1;
    struct ks_event open = {
        .kind = KS_EVENT_SESSION_OPEN,
        .open = {.take_over = KS_SESSION_NONE,
                 .max_in_flight = 10,
                 .max_in_flight_bytes = 1000,
                 .ack_deadline = ks_span_ms(1000),
                 .shards = &only,
                 .shard_count = 1},
    };

    bed_live(&bed);
    bed_step(&bed, &open);
    ks_session_id session = bed_effect(&bed, KS_EFFECT_OPENED, 0)->session.session;
    bed_hold(&bed, 0, 1);
    bed_settle_down(&bed);
    EXPECT_EQ_I64(ks_core_session_idle(bed.core, session, NULL), KS_IDLE_NO_LEASES);
    EXPECT_EQ_I64(bed.core->leases[0].tracker.lanes[0].session, KS_SESSION_NONE);
    bed_hold(&bed, 1, 1);
    bed_settle_down(&bed);
    EXPECT_EQ_I64(bed.core->leases[1].tracker.lanes[0].session, session);
}

TEST(a_poller_that_stays_away_leaves_its_idle_lanes_to_others_and_is_over_after_its_linger)
{
    struct ks_event open = {
        .kind = KS_EVENT_SESSION_OPEN,
        .open = {.take_over = KS_SESSION_NONE,
                 .pulls = true,
                 .max_in_flight = 10,
                 .max_in_flight_bytes = 1000,
                 .ack_deadline = ks_span_ms(60000),
                 .linger = ks_span_ms(300000)},
    };
    struct ks_event detach = {.kind = KS_EVENT_SESSION_DETACH};

    bed_live(&bed);
    bed.core->fleet.deadline = KS_NEVER;
    bed_step(&bed, &open);
    detach.session.session = bed_effect(&bed, KS_EFFECT_OPENED, 0)->session.session;
    bed_hold(&bed, 0, 1);
    bed_settle_down(&bed);
    EXPECT_EQ_I64(bed.core->leases[0].tracker.lanes[0].session, detach.session.session);
    bed_step(&bed, &detach);
    ks_session_id stream = bed_session(&bed, 10, 1000);
    bed_settle_down(&bed);
    EXPECT_EQ_I64(bed.core->leases[0].tracker.lanes[0].session,
                  detach.session.session); /* It may be back in a moment. */
    bed_wait(&bed, 2000);
    EXPECT_EQ_I64(bed.core->leases[0].tracker.lanes[0].session, stream);
    bed_wait(&bed, 298000);
    EXPECT_EQ_I64(bed_effect(&bed, KS_EFFECT_SESSION_ENDED, 0)->session.why, KS_END_LINGER);
}

TEST(a_newcomer_takes_the_place_of_the_poller_that_was_away_the_longest_and_holds_nothing)
{
    struct ks_event open = {
        .kind = KS_EVENT_SESSION_OPEN,
        .open = {.take_over = KS_SESSION_NONE,
                 .pulls = true,
                 .max_in_flight = 10,
                 .max_in_flight_bytes = 1000,
                 .ack_deadline = ks_span_ms(60000),
                 .linger = ks_span_ms(300000)},
    };
    struct ks_event detach = {.kind = KS_EVENT_SESSION_DETACH};
    ks_session_id ids[4];

    bed_live(&bed);
    bed.core->fleet.deadline = KS_NEVER;
    bed_hold(&bed, 0, 1);
    for (int i = 0; i < 4; i++) {
        bed_step(&bed, &open);
        ids[i] = bed_effect(&bed, KS_EFFECT_OPENED, 0)->session.session;
        if (i == 0) {
            bed_settle_down(&bed);
            bed_records(&bed, 0, 1, 1, false);
            EXPECT_EQ_I64(bed_pull(&bed, ids[0], 1), 1);
        }
        detach.session.session = ids[i];
        if (i < 3)
            bed_step(&bed, &detach);
        bed_wait(&bed, 10);
    }
    bed_step(&bed, &open);
    EXPECT_EQ_I64(bed_effect(&bed, KS_EFFECT_SESSION_ENDED, 0)->session.session, ids[1]);
    EXPECT_EQ_I64(bed_effect(&bed, KS_EFFECT_SESSION_ENDED, 0)->session.why, KS_END_LINGER);
    EXPECT_EQ_I64(bed_effect(&bed, KS_EFFECT_OPENED, 0)->session.session, ids[1]);
    bed_step(&bed, &open);
    EXPECT_EQ_I64(bed_effect(&bed, KS_EFFECT_SESSION_ENDED, 0)->session.session, ids[2]);
    /* One holds a record, and at the others somebody waits. */
    bed_step(&bed, &open);
    EXPECT_EQ_I64(bed_effect(&bed, KS_EFFECT_NOT_OPENED, 0)->session.why_not, KS_NOT_OPENED_FULL);
}

TEST(the_fifth_attempt_is_told)
{
    ks_session_id session = one_lane(100, 1);

    for (int attempt = 1; attempt <= 5; attempt++) {
        EXPECT_EQ_I64(bed_pull(&bed, session, 1), 1);
        EXPECT_EQ_I64(bed_told(&bed, KS_STORY_POISON), attempt == 5);
        EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 1, KS_RETRY, 0), KS_SETTLE_OK);
    }
}

TEST(no_session_beyond_the_slots_and_none_while_draining)
{
    struct ks_event open = {.kind = KS_EVENT_SESSION_OPEN, .open = {.take_over = KS_SESSION_NONE}};
    struct ks_event drain = {.kind = KS_EVENT_DRAIN, .drain = {ks_span_ms(1000)}};

    bed_live(&bed);
    for (int i = 0; i < 4; i++)
        bed_session(&bed, 1, 1);
    bed_step(&bed, &open);
    EXPECT_EQ_I64(bed_effect(&bed, KS_EFFECT_NOT_OPENED, 0)->session.why_not, KS_NOT_OPENED_FULL);
    bed_step(&bed, &drain);
    bed_step(&bed, &open);
    EXPECT_EQ_I64(bed_effect(&bed, KS_EFFECT_NOT_OPENED, 0)->session.why_not,
                  KS_NOT_OPENED_DRAINING);
}

/* ---- What became of the writing. ---- */

TEST(ack_deadline_begins_when_the_record_is_written)
{
    ks_session_id session = one_lane(100, 1);
    struct bed_run run;

    bed.core->fleet.deadline = KS_NEVER;
    EXPECT_EQ_I64(bed_assign(&bed, session, 1), 1);
    run = bed_run(&bed, 0);
    bed_wait(&bed, 100000); /* The connection is slow. */
    EXPECT_EQ_I64(bed.core->sessions[session].in_flight, 1);
    bed_write(&bed, &run, KS_STAGE_BEGUN);
    bed_wait(&bed, 100000);
    EXPECT_EQ_I64(bed.core->sessions[session].in_flight, 1);
    bed_write(&bed, &run, KS_STAGE_WRITTEN);
    bed_wait(&bed, 59999);
    EXPECT_EQ_I64(bed.core->sessions[session].in_flight, 1);
    bed_wait(&bed, 1);
    EXPECT_EQ_I64(bed.core->sessions[session].in_flight, 0);
}

static void detach(ks_session_id session, bool cut)
{
    struct ks_event event = {.kind = KS_EVENT_SESSION_DETACH, .session = {session, cut}};

    bed_step(&bed, &event);
}

TEST(a_record_that_was_never_written_does_not_fail_when_its_session_ends)
{
    enum { ASSIGNED, BEGUN, WRITTEN };

    for (int stage = ASSIGNED; stage <= WRITTEN; stage++) {
        ks_session_id session = one_lane(100, 1);
        struct bed_run run;

        EXPECT_EQ_I64(bed_assign(&bed, session, 1), 1);
        run = bed_run(&bed, 0);
        if (stage >= BEGUN)
            bed_write(&bed, &run, KS_STAGE_BEGUN);
        if (stage == WRITTEN)
            bed_write(&bed, &run, KS_STAGE_WRITTEN);
        detach(session, false);
        bed_wait(&bed, 5000);
        EXPECT(!bed.core->sessions[session].used);
        EXPECT_EQ_I64(ks_tracker_slot(&bed.core->leases[0].tracker, 0)->failures, stage == WRITTEN);
    }
}

TEST(a_session_cut_by_us_does_not_fail_its_records)
{
    ks_session_id session = one_lane(100, 1);

    EXPECT_EQ_I64(bed_pull(&bed, session, 1), 1);
    detach(session, true);
    bed_wait(&bed, 5000);
    EXPECT(!bed.core->sessions[session].used);
    EXPECT_EQ_I64(ks_tracker_slot(&bed.core->leases[0].tracker, 0)->failures, 0);
}

/* Records 0 and 1 are BEGUN, 2 and 3 ASSIGNED. */
static struct bed_run half_way_lane(ks_session_id *ret_session)
{
    struct bed_run run;

    *ret_session = one_lane(100, 4);
    bed.core->fleet.deadline = KS_NEVER;
    EXPECT_EQ_I64(bed_assign(&bed, *ret_session, 4), 4);
    run = bed_run(&bed, 0);
    bed_hand_half(&bed, &run, 1);
    return run;
}

static void expect_taken_back(const struct bed_run *run, ks_session_id session)
{
    EXPECT_EQ_I64(bed.core->sessions[session].in_flight, 2);
    for (ks_number n = 0; n < 4; n++) {
        EXPECT_EQ_I64(ks_core_is_out(bed.core, 0, n), n < 2);
        EXPECT(ks_core_assigned(bed.core, 0, 1, n, 1, run->assignment) == 0);
    }
    EXPECT(ks_core_may_finish(bed.core, 0, 1, bed.now));
}

TEST(a_returning_lease_takes_back_what_is_only_assigned_and_waits_for_what_is_begun)
{
    ks_session_id session;
    struct bed_run run = half_way_lane(&session);
    struct bed_run part;

    ks_lease_return(bed.core, &bed.core->leases[0]);
    bed_tick(&bed);
    bed_settle_down(&bed);
    expect_taken_back(&run, session);
    EXPECT(bed_asked(&bed, KS_STORE_READ_LEASE) == NULL);
    part = bed_part(&run, 0, 2);
    bed_write(&bed, &part, KS_STAGE_WRITTEN);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 1, 1, KS_ACK, 0), KS_SETTLE_OK);
    bed_settle_down(&bed);
    EXPECT(bed_asked(&bed, KS_STORE_READ_LEASE) == NULL);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 1, KS_ACK, 0), KS_SETTLE_OK);
    bed_settle_down(&bed);
    /* The row is read, then the final write gives the lease away. */
    EXPECT(bed_asked(&bed, KS_STORE_READ_LEASE) != NULL);
}

TEST(a_paused_lease_takes_back_what_is_only_assigned)
{
    struct ks_event pause = {.kind = KS_EVENT_PAUSE};
    ks_session_id session;
    struct bed_run run = half_way_lane(&session);

    pause.pause.shard = 0;
    pause.pause.keeps = true;
    pause.pause.until = KS_NEVER;
    bed_step(&bed, &pause);
    expect_taken_back(&run, session);
    EXPECT_EQ_I64(bed_pull(&bed, session, 4), 0);
}

TEST(a_late_ack_of_attempt_1_settles_while_attempt_2_is_half_way)
{
    ks_session_id first = one_lane(100, 1);
    ks_session_id second = bed_session(&bed, 100, 1 << 20);
    struct bed_run run;

    EXPECT_EQ_I64(bed_pull(&bed, first, 1), 1);
    EXPECT_EQ_I64(bed_settle(&bed, first, 0, 0, 1, KS_RETRY, 0), KS_SETTLE_OK);
    bed.core->leases[0].tracker.lanes[0].session = second;
    EXPECT_EQ_I64(bed_assign(&bed, second, 1), 1);
    run = bed_run(&bed, 0);
    bed_hand_half(&bed, &run, 0);
    EXPECT_EQ_I64(bed_settle(&bed, first, 0, 0, 1, KS_ACK, 0), KS_SETTLE_OK);
    EXPECT_EQ_U64(bed.core->leases[0].tracker.mark, 1);
    EXPECT(ks_core_may_finish(bed.core, 0, 1, bed.now));
    bed_write(&bed, &run, KS_STAGE_WRITTEN); /* It is finished all the same. */
    EXPECT_EQ_I64(bed.core->sessions[second].in_flight, 0);
}

TEST(an_id_of_a_record_that_broke_half_way_settles_nothing)
{
    ks_session_id first = one_lane(100, 2);
    ks_session_id second = bed_session(&bed, 100, 1 << 20);
    struct bed_run run;

    EXPECT_EQ_I64(bed_assign(&bed, first, 2), 2);
    run = bed_run(&bed, 0);
    bed_write(&bed, &run, KS_STAGE_BEGUN);
    bed_write(&bed, &run, KS_STAGE_TORN);
    detach(first, false); /* Within its grace its ids are good. */
    bed.core->leases[0].tracker.lanes[0].session = second;
    EXPECT_EQ_I64(bed_pull(&bed, second, 2), 2);
    EXPECT_EQ_I64(bed_settle(&bed, first, 0, 0, 2, KS_ACK, 0), KS_SETTLE_EXPIRED);
    EXPECT_EQ_U64(bed_effect(&bed, KS_EFFECT_SETTLED, 0)->settled.count, 0);
    EXPECT_EQ_U64(bed.core->leases[0].tracker.mark, 0);
    EXPECT_EQ_I64(bed_settle(&bed, second, 0, 0, 2, KS_ACK, 0), KS_SETTLE_OK);
    EXPECT_EQ_U64(bed.core->leases[0].tracker.mark, 2);
}

TEST(only_a_written_record_has_a_deadline_to_extend)
{
    ks_session_id session = one_lane(100, 1);
    struct bed_run run;

    bed.core->fleet.deadline = KS_NEVER;
    EXPECT_EQ_I64(bed_assign(&bed, session, 1), 1);
    run = bed_run(&bed, 0);
    bed_write(&bed, &run, KS_STAGE_BEGUN);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 1, KS_EXTEND, 1000), KS_SETTLE_UNKNOWN);
    EXPECT_EQ_I64(bed.core->sessions[session].unwritten, 1);
    bed_write(&bed, &run, KS_STAGE_WRITTEN);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 1, KS_EXTEND, 1000), KS_SETTLE_OK);
    bed_wait(&bed, 1000);
    EXPECT_EQ_I64(bed.core->sessions[session].in_flight, 0);
}

TEST(redelivery_that_was_begun_before_its_record_was_settled_is_settled_again)
{
    ks_session_id first = one_lane(100, 2);
    ks_session_id second = bed_session(&bed, 100, 1 << 20);
    struct bed_run run;

    EXPECT_EQ_I64(bed_pull(&bed, first, 1), 1);
    EXPECT_EQ_I64(bed_settle(&bed, first, 0, 0, 1, KS_RETRY, 0), KS_SETTLE_OK);
    bed.core->leases[0].tracker.lanes[0].session = second;
    EXPECT_EQ_I64(bed_assign(&bed, second, 1), 1);
    run = bed_run(&bed, 0);
    bed_write(&bed, &run, KS_STAGE_BEGUN);
    EXPECT_EQ_I64(bed_settle(&bed, first, 0, 0, 1, KS_ACK, 0), KS_SETTLE_OK);
    EXPECT_EQ_I64(bed.core->sessions[second].in_flight, 0);
    EXPECT(ks_core_may_send(bed.core, 0, 1, KS_NEVER)); /* It arrives, whenever that is. */
    bed_write(&bed, &run, KS_STAGE_WRITTEN);
    EXPECT_EQ_I64(bed.core->sessions[second].in_flight, 0);
    EXPECT_EQ_I64(bed_settle(&bed, second, 0, 0, 1, KS_ACK, 0), KS_SETTLE_OK);
    EXPECT_EQ_U64(bed_effect(&bed, KS_EFFECT_SETTLED, 0)->settled.count, 0);
    EXPECT_EQ_U64(bed.core->leases[0].tracker.mark, 1);
}

/* The first batch names three records, and only the first one was written. A pause took back the others. Then the
 * second batch, of the same session, has them. */
static struct bed_run batch_of_three(ks_session_id session)
{
    struct bed_run run;
    struct bed_run part;

    EXPECT_EQ_I64(bed_assign(&bed, session, 3), 3);
    run = bed_run(&bed, 0);
    part = bed_part(&run, 0, 1);
    bed_write(&bed, &part, KS_STAGE_BEGUN);
    bed_write(&bed, &part, KS_STAGE_WRITTEN);
    part = bed_part(&run, 1, 2);
    bed_write(&bed, &part, KS_STAGE_RETURNED);
    return run;
}

static enum ks_settle_status settle_batch(const struct bed_run *batch, enum ks_settle_outcome what)
{
    struct ks_event event = {
        .kind = KS_EVENT_SETTLE,
        .settle = {.session = batch->session,
                   .session_epoch = bed.core->sessions[batch->session].epoch,
                   .shard = batch->shard,
                   .epoch = batch->epoch,
                   .first = batch->first,
                   .count = batch->count,
                   .assignment = batch->assignment,
                   .outcome = what,
                   .delay = ks_span_ms(what == KS_EXTEND ? 1000 : 0)},
    };

    bed_step(&bed, &event);
    return bed_effect(&bed, KS_EFFECT_SETTLED, 0)->settled.status;
}

TEST(batch_does_not_settle_records_that_are_assigned_again)
{
    ks_session_id session = one_lane(100, 3);
    struct bed_run batch = batch_of_three(session);

    EXPECT_EQ_I64(bed_assign(&bed, session, 3), 2);
    EXPECT_EQ_I64(settle_batch(&batch, KS_ACK), KS_SETTLE_OK);
    EXPECT_EQ_U64(bed_effect(&bed, KS_EFFECT_SETTLED, 0)->settled.count, 1);
    EXPECT_EQ_U64(bed.core->leases[0].tracker.mark, 1);
}

TEST(batch_has_no_say_over_records_that_were_written_in_a_later_one)
{
    static const enum ks_settle_outcome outcomes[] = {KS_ACK, KS_DROP, KS_DEAD_LETTER, KS_RETRY,
                                                      KS_EXTEND};

    for (size_t i = 0; i < sizeof(outcomes) / sizeof(outcomes[0]); i++) {
        ks_session_id session = one_lane(100, 3);
        struct bed_run batch = batch_of_three(session);

        EXPECT_EQ_I64(bed_pull(&bed, session, 3), 2);
        batch = bed_part(&batch, 1, 2);
        EXPECT_EQ_I64(settle_batch(&batch, outcomes[i]), KS_SETTLE_EXPIRED);
        EXPECT_EQ_U64(bed_effect(&bed, KS_EFFECT_SETTLED, 0)->settled.expired_first, 1);
        EXPECT_EQ_U64(bed_effect(&bed, KS_EFFECT_SETTLED, 0)->settled.expired_count, 2);
        for (ks_number n = 1; n < 3; n++) {
            EXPECT(ks_core_is_out(bed.core, 0, n));
            EXPECT_EQ_I64(ks_tracker_slot(&bed.core->leases[0].tracker, n)->deadline.us,
                          bed.now.us + 60000000);
        }
    }
}

/* The app is slower than its ack deadline: by an ack of any delivery it is done with the record. */
TEST(late_ack_of_a_batch_counts_though_its_records_were_written_again)
{
    ks_session_id session = one_lane(100, 2);
    struct bed_run batch;

    EXPECT_EQ_I64(bed_pull(&bed, session, 2), 2);
    batch = (struct bed_run){
        .session = session, .shard = 0, .epoch = 1, .count = 2, .assignment = bed.core->assignment};
    bed.core->fleet.deadline = KS_NEVER;
    bed_wait(&bed, 60000);
    EXPECT_EQ_I64(bed_pull(&bed, session, 2), 2);
    EXPECT_EQ_I64(settle_batch(&batch, KS_RETRY), KS_SETTLE_EXPIRED); /* Of the later delivery. */
    EXPECT_EQ_I64(settle_batch(&batch, KS_ACK), KS_SETTLE_OK);
    EXPECT_EQ_U64(bed_effect(&bed, KS_EFFECT_SETTLED, 0)->settled.count, 2);
    EXPECT_EQ_U64(bed.core->leases[0].tracker.mark, 2);
}
