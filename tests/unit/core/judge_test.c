/* SPDX-License-Identifier: Apache-2.0 */
#include "core/judge.h"

#include "core/lanes.h"
#include "core/session.h"

#include "ks_test.h"
#include "unit/core/bed.h"

static struct bed bed;

enum { RECORDS = 6, ALL = 64, HALF = KS_SHARE_ALL / 2 };

static struct ks_event open_with(uint64_t filter)
{
    struct ks_event event = bed_opening(KS_ORDER_BY_SHARD, 0);

    event.open.filter = filter;
    return event;
}

static ks_session_id open_filter(uint64_t filter)
{
    const struct ks_event event = open_with(filter);

    return bed_open(&bed, &event);
}

static ks_session_id take_over(ks_session_id session, uint64_t filter)
{
    struct ks_event event = open_with(filter);

    event.open.take_over = session;
    return bed_open(&bed, &event);
}

static void leave(ks_session_id session)
{
    struct ks_event event = {.kind = KS_EVENT_SESSION_CLOSE};

    event.session.session = session;
    bed_step(&bed, &event);
}

/* A lease with records and a session with filter 1. */
static ks_session_id begin(void)
{
    ks_session_id session;

    bed_live(&bed);
    session = open_filter(1);
    bed_hold(&bed, 0, 1);
    bed_settle_down(&bed);
    bed_records(&bed, 0, RECORDS, 100, false);
    return session;
}

/* Judges all that wait; excludes the records of `excluded`, bit by number. Returns those that were judged. */
static uint64_t judge(uint64_t excluded)
{
    struct ks_unjudged unjudged;
    uint64_t judged = 0;
    bool verdicts[ALL];
    struct ks_event event = {.kind = KS_EVENT_JUDGED, .judged.excluded = verdicts};

    while (ks_core_unjudged(bed.core, ALL, UINT64_MAX, &unjudged)) {
        for (uint32_t i = 0; i < unjudged.count; i++) {
            judged |= UINT64_C(1) << (unjudged.first + i);
            verdicts[i] = (excluded >> (unjudged.first + i) & 1) != 0;
        }
        event.judged.shard = unjudged.shard;
        event.judged.epoch = unjudged.epoch;
        event.judged.first = unjudged.first;
        event.judged.count = unjudged.count;
        bed_step(&bed, &event);
        ks_core_check(bed.core);
    }
    return judged;
}

/* Reads more records. */
static void more(uint32_t count, uint32_t bytes)
{
    bed_wait(&bed, 1000);
    bed_settle_down(&bed);
    bed_records(&bed, 0, count, bytes, false);
}

static struct ks_tracker *tracker(void)
{
    return &bed.core->leases[0].tracker;
}

TEST(a_record_waits_for_the_filter_of_its_session)
{
    ks_session_id session = begin();

    EXPECT_EQ_I64(bed_pull(&bed, session, 10), 0);
    bed_settle_down(&bed);
    EXPECT_EQ_I64(bed_count(&bed, KS_EFFECT_WAKE), 0);
    EXPECT_EQ_U64(judge(0), 0x3f);
    bed_tick(&bed);
    EXPECT_EQ_I64(bed_count(&bed, KS_EFFECT_WAKE), 1);
    EXPECT_EQ_I64(bed_pull(&bed, session, 10), RECORDS);
    EXPECT_EQ_U64(judge(0), 0);
}

TEST(what_the_filter_of_the_session_excludes_is_settled_and_never_delivered)
{
    ks_session_id session = begin();

    EXPECT_EQ_U64(judge(0x2b), 0x3f); /* 0, 1, 3, 5. */
    EXPECT_EQ_U64(tracker()->mark, 2);
    EXPECT_EQ_U64(ks_core_excluded(bed.core), 4);
    EXPECT_EQ_I64(bed_pull(&bed, session, 10), 2);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 2, 1, KS_ACK, 0), KS_SETTLE_OK);
    EXPECT_EQ_U64(tracker()->mark, 4);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 4, 1, KS_ACK, 0), KS_SETTLE_OK);
    EXPECT_EQ_U64(tracker()->mark, 6);
}

TEST(a_slice_of_judging_is_bounded_in_records_and_in_bytes)
{
    struct ks_unjudged unjudged = {.count = 0};

    (void)begin();
    EXPECT(ks_core_unjudged(bed.core, 4, UINT64_MAX, &unjudged));
    EXPECT_EQ_I64(unjudged.count, 4);
    EXPECT(ks_core_unjudged(bed.core, 4, 250, &unjudged));
    EXPECT_EQ_I64(unjudged.count, 2);
    EXPECT(ks_core_unjudged(bed.core, 4, 1, &unjudged));
    EXPECT_EQ_I64(unjudged.count, 1);
}

TEST(without_a_session_nothing_is_judged_and_the_next_filter_judges_all_that_waits)
{
    ks_session_id session = begin();

    EXPECT_EQ_U64(judge(0x01), 0x3f);
    more(2, 100);
    EXPECT_EQ_U64(judge(0), 0xc0);
    leave(session);
    EXPECT_EQ_U64(judge(UINT64_MAX), 0);
    session = open_filter(2);
    EXPECT_EQ_U64(judge(0x06), 0xfe);
    EXPECT_EQ_U64(tracker()->mark, 3);
    EXPECT_EQ_I64(bed_pull(&bed, session, 10), 5);
}

TEST(another_filter_beside_an_open_session_is_refused_and_so_is_none)
{
    ks_session_id session = begin();

    EXPECT(open_filter(2) == KS_SESSION_NONE);
    EXPECT_EQ_I64(bed_effect(&bed, KS_EFFECT_NOT_OPENED, 0)->session.why_not, KS_NOT_OPENED_FILTER);
    EXPECT(open_filter(0) == KS_SESSION_NONE);
    EXPECT_EQ_I64(bed_effect(&bed, KS_EFFECT_NOT_OPENED, 0)->session.why_not, KS_NOT_OPENED_FILTER);
    EXPECT(open_filter(1) != KS_SESSION_NONE);
    /* Not even by who takes over one of the two. */
    EXPECT(take_over(session, 2) == KS_SESSION_NONE);
    EXPECT_EQ_U64(bed.core->filter, 1);
}

TEST(a_filter_beside_a_session_without_one_is_refused)
{
    bed_live(&bed);
    (void)bed_session(&bed, 10, 1 << 20);
    EXPECT(open_filter(1) == KS_SESSION_NONE);
    EXPECT_EQ_I64(bed_effect(&bed, KS_EFFECT_NOT_OPENED, 0)->session.why_not, KS_NOT_OPENED_FILTER);
}

TEST(a_take_over_with_another_filter_judges_what_is_not_settled_again)
{
    ks_session_id session = begin();

    EXPECT_EQ_U64(judge(0x01), 0x3f);
    EXPECT_EQ_I64(bed_pull(&bed, session, 3), 3); /* 1, 2, 3. */
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 1, 1, KS_ACK, 0), KS_SETTLE_OK);
    session = take_over(session, 2);
    EXPECT_EQ_I64(bed_pull(&bed, session, 10), 0);
    /* 2 and 3 were delivered, and nobody acknowledged them. */
    EXPECT_EQ_U64(judge(0x34), 0x3c);
    EXPECT_EQ_I64(bed_pull(&bed, session, 10), 1);
    EXPECT_EQ_U64(bed_effect(&bed, KS_EFFECT_DELIVER, 0)->deliver.first, 3);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 3, 1, KS_ACK, 0), KS_SETTLE_OK);
    EXPECT_EQ_U64(tracker()->mark, 6);
}

TEST(a_take_over_with_the_same_filter_keeps_what_it_took)
{
    ks_session_id session = begin();

    (void)judge(0x01);
    session = take_over(session, 1);
    EXPECT_EQ_U64(judge(0), 0);
    EXPECT_EQ_I64(bed_pull(&bed, session, 10), 5);
}

TEST(a_take_over_without_a_filter_gets_all_that_was_not_settled)
{
    ks_session_id session = begin();

    (void)judge(0x03);
    more(2, 100);
    session = take_over(session, 0);
    EXPECT_EQ_I64(bed_pull(&bed, session, 10), 6);
}

TEST(records_of_a_shard_that_no_session_accepts_are_not_judged)
{
    const ks_shard shards[] = {1};
    struct ks_event event = open_with(1);
    ks_session_id session;

    bed_live(&bed);
    session = open_filter(1);
    bed_hold(&bed, 0, 1);
    bed_settle_down(&bed);
    leave(session);
    event.open.shards = shards;
    event.open.shard_count = 1;
    (void)bed_open(&bed, &event);
    bed_records(&bed, 0, RECORDS, 100, false);
    EXPECT_EQ_U64(judge(UINT64_MAX), 0);
    /* The first session of the shard finds them. */
    (void)open_filter(1);
    EXPECT_EQ_U64(judge(0), 0x3f);
}

TEST(records_of_the_other_side_of_a_share_wait_unjudged)
{
    static const uint8_t alternating[8] = {0, 200, 0, 200, 0, 200, 0, 200};
    struct ks_event event = open_with(1);
    uint64_t canary;
    uint64_t judged;

    bed_live(&bed);
    event.open.ordering = KS_ORDER_BY_KEY;
    event.open.lanes = 2;
    event.open.share = HALF;
    event.open.salt = 1;
    (void)bed_open(&bed, &event);
    bed_hold(&bed, 0, 1);
    bed_settle_down(&bed);
    bed_keyed_records(&bed, 0, alternating, 8);
    canary = ks_share_lanes(HALF, 1, 2) == 1 ? 0x55 : 0xaa;
    judged = judge(UINT64_MAX);
    EXPECT_EQ_U64(judged, canary);
    event.open.share = 0;
    (void)bed_open(&bed, &event);
    EXPECT_EQ_U64(judge(0), canary ^ 0xff);
}

TEST(a_record_that_is_too_large_holds_nothing_up_if_the_filter_excludes_it)
{
    struct ks_event event = open_with(1);
    ks_session_id session;

    bed_live(&bed);
    event.open.max_record_bytes = 50;
    session = bed_open(&bed, &event);
    bed_hold(&bed, 0, 1);
    bed_settle_down(&bed);
    bed_records(&bed, 0, 1, 100, false);
    more(1, 10);
    EXPECT_EQ_I64(bed_pull(&bed, session, 10), 0);
    EXPECT(!bed_told(&bed, KS_STORY_TOO_LARGE));
    (void)judge(0x01);
    EXPECT_EQ_I64(bed_pull(&bed, session, 10), 1);
    EXPECT(!bed_told(&bed, KS_STORY_TOO_LARGE));
}

TEST(after_a_final_write_nothing_is_judged)
{
    struct ks_unjudged unjudged = {.count = 0};
    const bool excluded[RECORDS] = {true};
    struct ks_event event = {.kind = KS_EVENT_JUDGED, .judged.excluded = excluded};

    (void)begin();
    EXPECT(ks_core_unjudged(bed.core, ALL, UINT64_MAX, &unjudged));
    bed.core->leases[0].given_up = true;
    event.judged.shard = unjudged.shard;
    event.judged.epoch = unjudged.epoch;
    event.judged.count = unjudged.count;
    bed_step(&bed, &event);
    EXPECT_EQ_U64(tracker()->mark, 0);
    EXPECT_EQ_U64(judge(0), 0);
}

TEST(a_lease_that_is_returned_is_not_judged)
{
    (void)begin();
    bed.core->leases[0].state = KS_LEASE_RETURNING;
    EXPECT_EQ_U64(judge(UINT64_MAX), 0);
    EXPECT_EQ_U64(tracker()->mark, 0);
}
