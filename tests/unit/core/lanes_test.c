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

/* ---- Shares. ---- */

enum { EIGHT = 8, QUARTER = KS_SHARE_ALL / 4 };

/* One key in each of 8 lanes. */
static const uint8_t one_each[EIGHT] = {0, 32, 64, 96, 128, 160, 192, 224};

static struct ks_event open_with(uint32_t share, uint64_t salt)
{
    struct ks_event event = bed_opening(KS_ORDER_BY_KEY, EIGHT);

    event.open.share = share;
    event.open.salt = salt;
    return event;
}

static ks_session_id open_share(uint32_t share, uint64_t salt)
{
    const struct ks_event event = open_with(share, salt);

    return bed_open(&bed, &event);
}

/* Ends the connection of the session, or, by CLOSE, the session. */
static void leave(ks_session_id session, enum ks_event_kind kind)
{
    struct ks_event event = {.kind = kind};

    event.session.session = session;
    bed_step(&bed, &event);
}

/* The numbers of the records that the session gets, bit by number. */
static uint64_t pull_all(ks_session_id session)
{
    uint64_t got = 0;

    (void)bed_pull(&bed, session, 100);
    for (uint32_t i = 0; bed_effect(&bed, KS_EFFECT_DELIVER, i) != NULL; i++)
        for (uint32_t j = 0; j < bed_effect(&bed, KS_EFFECT_DELIVER, i)->deliver.count; j++)
            got |= UINT64_C(1) << (delivered(i) + j);
    return got;
}

/* A lease with a record in each lane, of which a quarter is for the canary. */
static void eight_lanes(ks_session_id *ret_canary, ks_session_id *ret_rest)
{
    bed_live(&bed);
    if (ret_rest != NULL)
        *ret_rest = open_share(0, 0);
    if (ret_canary != NULL)
        *ret_canary = open_share(QUARTER, 1);
    bed_hold(&bed, 0, 1);
    bed_settle_down(&bed);
    bed_keyed_records(&bed, 0, one_each, EIGHT);
}

TEST(a_share_rounds_to_lanes)
{
    EXPECT_EQ_I64(ks_share_count(50000, 64), 3);
    EXPECT_EQ_I64(ks_share_count(50000, 16), 1);
    EXPECT_EQ_I64(ks_share_count(10000, 16), 0);
    EXPECT_EQ_I64(ks_share_count(500000, 3), 2);
    EXPECT_EQ_I64(ks_share_count(990000, 16), 16);
    EXPECT_EQ_I64(ks_share_count(KS_SHARE_ALL - 1, KS_LANES_MAX), KS_LANES_MAX);
}

TEST(a_larger_share_has_the_lanes_of_a_smaller_one_with_its_salt)
{
    for (uint64_t salt = 0; salt < 50; salt++) {
        uint64_t before = 0;

        for (uint32_t share = 10000; share < KS_SHARE_ALL; share += 10000) {
            uint64_t lanes = ks_share_lanes(share, salt, 64);

            EXPECT_EQ_I64(__builtin_popcountll(lanes), ks_share_count(share, 64));
            EXPECT_EQ_U64(before & ~lanes, 0);
            before = lanes;
        }
    }
}

TEST(a_salt_chooses_the_same_lanes_for_ever_and_salts_choose_each_lane_as_often)
{
    uint32_t chosen[64] = {0};

    EXPECT_EQ_U64(ks_share_lanes(50000, 0, 64), UINT64_C(0x802800000000));
    EXPECT_EQ_U64(ks_share_lanes(250000, 1, 8), UINT64_C(0x3));
    for (uint64_t salt = 0; salt < 6400; salt++)
        for (uint32_t lane = 0; lane < 64; lane++)
            chosen[lane] += (ks_share_lanes(50000, salt, 64) >> lane & 1) != 0;
    /* 300 of each are expected; the deviation is 17. */
    for (uint32_t lane = 0; lane < 64; lane++)
        EXPECT(chosen[lane] > 200 && chosen[lane] < 400);
}

TEST(records_of_a_share_go_to_its_sessions_and_all_others_to_the_rest)
{
    uint64_t lanes = ks_share_lanes(QUARTER, 1, EIGHT);
    ks_session_id canary;
    ks_session_id rest;
    ks_session_id second;

    eight_lanes(&canary, &rest);
    EXPECT_EQ_I64(bed.core->sessions[canary].lanes, 2);
    EXPECT_EQ_I64(bed.core->sessions[rest].lanes, 6);
    EXPECT_EQ_U64(pull_all(canary), lanes);
    EXPECT_EQ_U64(pull_all(rest), ~lanes & 0xff);
    /* Another one with the share divides its lanes with the first, and takes none of the rest. */
    second = open_share(QUARTER, 1);
    bed_settle_down(&bed);
    EXPECT_EQ_I64(bed.core->sessions[second].lanes, 1);
    EXPECT_EQ_I64(bed.core->sessions[rest].lanes, 6);
    ks_core_check(bed.core);
}

TEST(a_lane_comes_to_a_share_when_what_the_rest_has_of_it_is_settled)
{
    uint64_t lanes = ks_share_lanes(QUARTER, 1, EIGHT);
    ks_session_id canary;
    ks_session_id rest;

    eight_lanes(NULL, &rest);
    EXPECT_EQ_U64(pull_all(rest), 0xff);
    canary = open_share(QUARTER, 1);
    bed_settle_down(&bed);
    bed_keyed_records(&bed, 0, one_each, EIGHT);
    EXPECT_EQ_U64(pull_all(canary), 0);
    EXPECT_EQ_U64(pull_all(rest), (~lanes & 0xff) << 8);
    EXPECT_EQ_I64(bed_settle(&bed, rest, 0, 0, 8, KS_ACK, 0), KS_SETTLE_OK);
    bed_settle_down(&bed);
    EXPECT_EQ_U64(pull_all(canary), lanes << 8);
    ks_core_check(bed.core);
}

TEST(lanes_of_a_share_wait_for_its_session_until_its_grace_is_over)
{
    uint64_t lanes = ks_share_lanes(QUARTER, 1, EIGHT);
    ks_session_id canary;
    ks_session_id rest;

    eight_lanes(&canary, &rest);
    leave(canary, KS_EVENT_SESSION_DETACH);
    bed_wait(&bed, 4000);
    EXPECT_EQ_U64(pull_all(rest), ~lanes & 0xff);
    bed_wait(&bed, 1500);
    EXPECT_EQ_U64(pull_all(rest), lanes);
    ks_core_check(bed.core);
}

/* The rest has records of it in flight when its session ends; the other session with the share is away. */
TEST(a_lane_that_was_on_its_way_to_a_share_is_not_left_to_the_rest)
{
    ks_session_id away;
    ks_session_id canary;
    ks_session_id rest;

    eight_lanes(NULL, &rest);
    EXPECT_EQ_U64(pull_all(rest), 0xff);
    away = open_share(QUARTER, 1);
    leave(away, KS_EVENT_SESSION_DETACH);
    canary = open_share(QUARTER, 1);
    bed_settle_down(&bed);
    leave(canary, KS_EVENT_SESSION_CLOSE);
    bed_settle_down(&bed);
    bed_keyed_records(&bed, 0, one_each, EIGHT);
    EXPECT_EQ_U64(pull_all(rest), (~ks_share_lanes(QUARTER, 1, EIGHT) & 0xff) << 8);
    ks_core_check(bed.core);
}

TEST(without_a_session_of_the_rest_its_records_wait_and_that_is_told_once)
{
    const struct ks_effect *story;
    ks_session_id canary;
    ks_session_id rest;

    bed_live(&bed);
    canary = open_share(QUARTER, 1);
    story = bed_effect(&bed, KS_EFFECT_STORY, 0);
    EXPECT(story != NULL && story->story.story == KS_STORY_REST_AWAY);
    EXPECT(open_share(QUARTER, 1) != KS_SESSION_NONE);
    EXPECT_EQ_I64(bed_count(&bed, KS_EFFECT_STORY), 0);
    bed_hold(&bed, 0, 1);
    bed_settle_down(&bed);
    bed_keyed_records(&bed, 0, one_each, EIGHT);
    EXPECT_EQ_I64(__builtin_popcountll(pull_all(canary)), 1);
    rest = open_share(0, 0);
    story = bed_effect(&bed, KS_EFFECT_STORY, 0);
    EXPECT(story != NULL && story->story.story == KS_STORY_REST_BACK);
    EXPECT_EQ_I64(__builtin_popcountll(pull_all(rest)), 6);
}

TEST(sessions_that_have_a_share_have_the_same_and_the_only_one_may_change_it)
{
    struct ks_event other = open_with(2 * QUARTER, 1);
    ks_session_id canary;
    ks_session_id rest;

    eight_lanes(&canary, &rest);
    EXPECT(open_share(2 * QUARTER, 1) == KS_SESSION_NONE);
    EXPECT_EQ_I64(bed_effect(&bed, KS_EFFECT_NOT_OPENED, 0)->session.why_not, KS_NOT_OPENED_SHARE);
    EXPECT(open_share(QUARTER, 2) == KS_SESSION_NONE);
    other.open.take_over = canary;
    EXPECT_EQ_I64(bed_open(&bed, &other), canary);
    bed_settle_down(&bed);
    EXPECT_EQ_U64(pull_all(canary), ks_share_lanes(2 * QUARTER, 1, EIGHT));
    ks_core_check(bed.core);
}

TEST(a_share_of_some_shards_leaves_the_others_to_the_rest)
{
    const ks_shard named[] = {1};
    struct ks_event some = open_with(QUARTER, 1);
    ks_session_id rest;

    eight_lanes(NULL, &rest);
    some.open.shards = named;
    some.open.shard_count = 1;
    EXPECT(bed_open(&bed, &some) != KS_SESSION_NONE);
    bed_settle_down(&bed);
    EXPECT_EQ_U64(pull_all(rest), 0xff);
}

TEST(what_became_of_records_is_counted_for_their_group_while_there_is_a_share)
{
    ks_session_id canary;
    ks_session_id rest;
    ks_number first;

    eight_lanes(NULL, &rest);
    EXPECT_EQ_U64(pull_all(rest), 0xff);
    EXPECT_EQ_I64(bed_settle(&bed, rest, 0, 0, 8, KS_ACK, 0), KS_SETTLE_OK);
    EXPECT_EQ_U64(ks_core_group(bed.core, KS_GROUP_REST, KS_COUNT_DELIVERED), 0);
    canary = open_share(QUARTER, 1);
    bed_settle_down(&bed);
    bed_keyed_records(&bed, 0, one_each, EIGHT);
    (void)pull_all(rest);
    EXPECT_EQ_I64(__builtin_popcountll(pull_all(canary)), 2);
    first = delivered(0);
    EXPECT_EQ_I64(bed_settle(&bed, canary, 0, first, 1, KS_RETRY, 1000), KS_SETTLE_OK);
    EXPECT_EQ_I64(bed_settle(&bed, canary, 0, first, 1, KS_RETRY, 1000), KS_SETTLE_OK);
    EXPECT_EQ_I64(bed_settle(&bed, canary, 0, first, 1, KS_DROP, 0), KS_SETTLE_OK);
    for (ks_number n = 8; n < 16; n++)
        if ((ks_share_lanes(QUARTER, 1, EIGHT) >> (n - 8) & 1) == 0)
            EXPECT_EQ_I64(bed_settle(&bed, rest, 0, n, 1, KS_ACK, 0), KS_SETTLE_OK);
    EXPECT_EQ_U64(ks_core_group(bed.core, KS_GROUP_REST, KS_COUNT_DELIVERED), 6);
    EXPECT_EQ_U64(ks_core_group(bed.core, KS_GROUP_REST, KS_COUNT_ACKED), 6);
    EXPECT_EQ_U64(ks_core_group(bed.core, KS_GROUP_REST, KS_COUNT_FAILED), 0);
    EXPECT_EQ_U64(ks_core_group(bed.core, KS_GROUP_CANARY, KS_COUNT_DELIVERED), 2);
    EXPECT_EQ_U64(ks_core_group(bed.core, KS_GROUP_CANARY, KS_COUNT_ACKED), 0);
    EXPECT_EQ_U64(ks_core_group(bed.core, KS_GROUP_CANARY, KS_COUNT_FAILED), 2);
}
