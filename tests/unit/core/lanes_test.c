/* SPDX-License-Identifier: Apache-2.0 */
#include "core/lanes.h"

#include "core/session.h"

#include "ks_test.h"
#include "unit/core/bed.h"

static struct bed bed;

/* Two keys, in lanes 0 and 1 of 2. */
static const uint8_t alternating[8] = {0, 200, 0, 200, 0, 200, 0, 200};

static ks_session_id two_lanes(uint32_t count)
{
    ks_session_id session;

    bed_live(&bed);
    session = bed_ordered_session(&bed, KS_ORDER_BY_KEY, 2);
    bed_hold(&bed, 0, 1);
    bed_settle_down(&bed);
    bed_keyed_records(&bed, 0, alternating, count);
    return session;
}

static ks_number delivered(uint32_t nth)
{
    const struct ks_effect *effect = bed_effect(&bed, KS_EFFECT_DELIVER, nth);

    return effect == NULL ? UINT64_MAX : effect->deliver.first;
}

TEST(by_key_a_failed_record_holds_up_its_own_lane_only)
{
    ks_session_id session = two_lanes(8);

    EXPECT_EQ_I64(bed_pull(&bed, session, 4), 4);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 1, KS_RETRY, 1000), KS_SETTLE_OK);
    EXPECT_EQ_I64(bed.core->sessions[session].in_flight, 2); /* 1 and 3: of the other lane. */
    EXPECT_EQ_I64(bed_pull(&bed, session, 100), 2);
    EXPECT_EQ_U64(delivered(0), 5);
    EXPECT_EQ_U64(delivered(1), 7);
    for (ks_number n = 1; n < 8; n += 2)
        EXPECT_EQ_I64(bed_settle(&bed, session, 0, n, 1, KS_ACK, 0), KS_SETTLE_OK);
    EXPECT_EQ_U64(bed.core->leases[0].tracker.mark, 0); /* The watermark is one for all lanes. */
    bed_wait(&bed, 1000);
    EXPECT_EQ_I64(bed_pull(&bed, session, 100), 4);
    EXPECT_EQ_U64(delivered(0), 0);
    EXPECT_EQ_U64(delivered(1), 2);
}

TEST(by_key_the_lanes_of_one_shard_are_divided_among_sessions_and_each_keeps_to_its_own)
{
    ks_session_id first = two_lanes(8);
    ks_session_id second = bed_ordered_session(&bed, KS_ORDER_BY_KEY, 2);

    bed_settle_down(&bed);
    EXPECT_EQ_I64(bed.core->sessions[first].lanes, 1);
    EXPECT_EQ_I64(bed.core->sessions[second].lanes, 1);
    EXPECT_EQ_I64(bed_pull(&bed, first, 100), 4);
    EXPECT_EQ_U64(delivered(0) % 2, delivered(3) % 2);
    EXPECT_EQ_I64(bed_pull(&bed, second, 100), 4);
    ks_core_check(bed.core);
}

TEST(unordered_sessions_share_a_shard_and_a_failed_record_holds_up_nothing)
{
    ks_session_id first;
    ks_session_id second;

    bed_live(&bed);
    first = bed_ordered_session(&bed, KS_ORDER_NONE, 0);
    second = bed_ordered_session(&bed, KS_ORDER_NONE, 0);
    bed_hold(&bed, 0, 1);
    bed_settle_down(&bed);
    bed_records(&bed, 0, 6, 100, false);
    EXPECT_EQ_I64(bed_pull(&bed, first, 2), 2);
    EXPECT_EQ_I64(bed_pull(&bed, second, 2), 2);
    EXPECT_EQ_I64(bed_settle(&bed, first, 0, 0, 1, KS_RETRY, 1000), KS_SETTLE_OK);
    EXPECT_EQ_I64(bed.core->sessions[first].in_flight, 1);
    EXPECT_EQ_I64(bed.core->sessions[second].in_flight, 2);
    EXPECT_EQ_I64(bed_pull(&bed, second, 100), 2);
    EXPECT_EQ_U64(delivered(0), 4);
    bed_wait(&bed, 1000);
    EXPECT_EQ_I64(bed_pull(&bed, second, 100), 1);
    EXPECT_EQ_U64(delivered(0), 0);
    ks_core_check(bed.core);
}

TEST(sessions_of_one_subscription_agree_on_the_order_while_one_is_there)
{
    struct ks_event close = {.kind = KS_EVENT_SESSION_CLOSE};
    ks_session_id session = two_lanes(2);

    EXPECT(bed_ordered_session(&bed, KS_ORDER_BY_KEY, 3) == KS_SESSION_NONE);
    EXPECT_EQ_I64(bed_effect(&bed, KS_EFFECT_NOT_OPENED, 0)->session.why_not,
                  KS_NOT_OPENED_ORDERING);
    EXPECT(bed_ordered_session(&bed, KS_ORDER_NONE, 0) == KS_SESSION_NONE);
    close.session.session = bed_ordered_session(&bed, KS_ORDER_ANY, 0);
    EXPECT(close.session.session != KS_SESSION_NONE);
    bed_step(&bed, &close);
    close.session.session = session;
    bed_step(&bed, &close);
    EXPECT(bed_ordered_session(&bed, KS_ORDER_NONE, 0) != KS_SESSION_NONE);
    EXPECT(bed.core->leases[0].tracker.unordered);
    ks_core_check(bed.core);
}

TEST(a_nack_by_a_session_that_lost_its_lane_takes_nothing_from_the_new_holder)
{
    ks_session_id first;
    ks_session_id second;

    bed_live(&bed);
    first = bed_session(&bed, 100, 1 << 20);
    bed_hold(&bed, 0, 1);
    bed_hold(&bed, 1, 1);
    bed_settle_down(&bed);
    bed_records(&bed, 0, 3, 100, false);
    EXPECT_EQ_I64(bed_pull(&bed, first, 3), 3);
    bed.core->fleet.deadline = KS_NEVER;
    bed_wait(&bed, 60000); /* The ack deadline. */
    second = bed_session(&bed, 100, 1 << 20);
    bed_settle_down(&bed);
    bed.core->leases[0].tracker.lanes[0].session = second; /* Whichever lane it got. */
    bed.core->leases[1].tracker.lanes[0].session = first;
    EXPECT_EQ_I64(bed_pull(&bed, second, 3), 3);
    EXPECT_EQ_I64(bed_settle(&bed, first, 0, 0, 3, KS_RETRY, 0), KS_SETTLE_EXPIRED);
    EXPECT_EQ_I64(bed.core->sessions[second].in_flight, 3);
    EXPECT_EQ_I64(bed_pull(&bed, second, 3), 0);
    /* Its ack is worth as much as any. */
    EXPECT_EQ_I64(bed_settle(&bed, first, 0, 0, 1, KS_ACK, 0), KS_SETTLE_OK);
    EXPECT_EQ_U64(bed.core->leases[0].tracker.mark, 1);
}

/* One lease with ten records, and a session with explicit credit for none of them. */
static ks_session_id begin_with_credit(uint32_t max_in_flight)
{
    struct ks_event open = {
        .kind = KS_EVENT_SESSION_OPEN,
        .open = {.take_over = KS_SESSION_NONE,
                 .max_in_flight = max_in_flight,
                 .max_in_flight_bytes = 1 << 20,
                 .ack_deadline = ks_span_ms(60000),
                 .explicit_credit = true},
    };
    ks_session_id session;

    bed_live(&bed);
    bed_step(&bed, &open);
    session = bed_effect(&bed, KS_EFFECT_OPENED, 0)->session.session;
    bed_hold(&bed, 0, 1);
    bed_settle_down(&bed);
    bed_records(&bed, 0, 10, 100, false);
    return session;
}

static void grant(ks_session_id session, uint32_t records)
{
    bed_step(&bed, &(struct ks_event){.kind = KS_EVENT_GRANT, .grant = {session, records}});
}

TEST(explicit_credit_is_used_up_by_deliveries_and_comes_back_by_grants_only)
{
    ks_session_id session = begin_with_credit(4);

    EXPECT_EQ_I64(bed_pull(&bed, session, 10), 0);
    grant(session, 2);
    bed_settle_down(&bed);
    EXPECT_EQ_I64(bed_count(&bed, KS_EFFECT_WAKE), 1);
    EXPECT_EQ_I64(bed_pull(&bed, session, 10), 2);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 2, KS_ACK, 0), KS_SETTLE_OK);
    EXPECT_EQ_I64(bed_pull(&bed, session, 10), 0);
    EXPECT_EQ_I64(ks_core_session_idle(bed.core, session, NULL), KS_IDLE_FLOW_CONTROLLED);
    grant(session, UINT32_MAX);
    grant(session, UINT32_MAX);
    EXPECT_EQ_I64(bed_pull(&bed, session, 10), 4); /* Its limit stays. */
}

TEST(explicit_credit_returns_for_what_was_not_written)
{
    ks_session_id session = begin_with_credit(4);
    struct bed_run run;
    struct bed_run part;

    grant(session, 3);
    EXPECT_EQ_I64(bed_assign(&bed, session, 10), 3);
    run = bed_run(&bed, 0);
    part = bed_part(&run, 0, 1);
    bed_write(&bed, &part, KS_STAGE_BEGUN);
    bed_write(&bed, &part, KS_STAGE_WRITTEN);
    part = bed_part(&run, 1, 2);
    bed_write(&bed, &part, KS_STAGE_RETURNED);
    EXPECT_EQ_I64(bed.core->sessions[session].granted, 2);
    /* A report that is repeated returns nothing more. */
    bed_write(&bed, &part, KS_STAGE_RETURNED);
    EXPECT_EQ_I64(bed.core->sessions[session].granted, 2);

    EXPECT_EQ_I64(bed_assign(&bed, session, 10), 2);
    EXPECT_EQ_I64(bed_assign(&bed, session, 10), 0);
}

TEST(explicit_credit_returns_for_a_record_that_broke_half_way_or_before_it_was_sent)
{
    ks_session_id session = begin_with_credit(4);
    struct bed_run run;
    struct bed_run part;

    grant(session, 3);
    EXPECT_EQ_I64(bed_assign(&bed, session, 10), 3);
    run = bed_run(&bed, 0);
    bed_hand_half(&bed, &run, 1); /* 0 and 1: BEGUN, 2: ASSIGNED. */
    part = bed_part(&run, 2, 1);
    bed_write(&bed, &part, KS_STAGE_RETURNED);
    part = bed_part(&run, 1, 1);
    bed_write(&bed, &part, KS_STAGE_TORN);
    EXPECT_EQ_I64(bed.core->sessions[session].granted, 2);
    part = bed_part(&run, 0, 1);
    bed_write(&bed, &part, KS_STAGE_TORN);
    EXPECT_EQ_I64(bed.core->sessions[session].granted, 3);
    EXPECT_EQ_I64(bed.core->sessions[session].in_flight, 0);
    EXPECT_EQ_I64(bed.core->sessions[session].unwritten, 0);
}

/* The connection ends after the lease was given up: the report must reach the session all the same. */
TEST(explicit_credit_returns_for_what_was_not_written_of_a_lease_that_was_given_up)
{
    ks_session_id session = begin_with_credit(4);
    struct bed_run run;

    grant(session, 3);
    EXPECT_EQ_I64(bed_assign(&bed, session, 10), 3);
    run = bed_run(&bed, 0);
    bed.core->leases[0].given_up = true;
    bed_write(&bed, &run, KS_STAGE_RETURNED);
    EXPECT_EQ_I64(bed.core->sessions[session].granted, 3);
}
