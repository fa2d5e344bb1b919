/* SPDX-License-Identifier: Apache-2.0 */
#include "core/flow.h"

#include "core/session.h"

#include "ks_test.h"
#include "unit/core/bed.h"

static struct bed bed;

static const struct ks_effect *read_effect(void)
{
    return bed_effect(&bed, KS_EFFECT_READ, 0);
}

TEST(nothing_is_read_while_nobody_is_there_to_take_it)
{
    bed_live(&bed);
    bed_hold(&bed, 0, 1);
    bed_settle_down(&bed);
    EXPECT(read_effect() == NULL);
    bed_session(&bed, 10, 5000);
    bed_settle_down(&bed);
    EXPECT(read_effect() != NULL);
    EXPECT_EQ_I64(read_effect()->lease.max_bytes, 5000);
    EXPECT_EQ_I64(read_effect()->lease.max_records, BED_WINDOW);
}

TEST(a_stalled_session_costs_its_byte_limit)
{
    bed_live(&bed);
    bed_session(&bed, 10, 5000);
    bed_hold(&bed, 0, 1);
    bed_settle_down(&bed);
    bed_records(&bed, 0, 20, 100, false);
    bed_settle_down(&bed);
    EXPECT_EQ_I64(read_effect()->lease.max_bytes, 3000);
    bed_records(&bed, 0, 30, 100, false);
    EXPECT(read_effect() == NULL);
    bed_wait(&bed, 1000);
    EXPECT(read_effect() == NULL);
    EXPECT_EQ_I64(ks_flow_held(bed.core), 5000);
}

TEST(a_read_waits_until_it_brings_as_much_as_waits_to_be_delivered)
{
    ks_session_id session;

    bed_live(&bed);
    session = bed_session(&bed, 100, 5000);
    bed_hold(&bed, 0, 1);
    bed_settle_down(&bed);
    bed_records(&bed, 0, 40, 100, false);
    bed_settle_down(&bed);
    EXPECT(read_effect() == NULL); /* 1000 bytes of room, 4000 that wait. */
    EXPECT_EQ_I64(bed_pull(&bed, session, 20), 20);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 9, KS_ACK, 0), KS_SETTLE_OK);
    bed_settle_down(&bed);
    EXPECT(read_effect() == NULL); /* 1900, and 2000. */
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 9, 1, KS_ACK, 0), KS_SETTLE_OK);
    bed_settle_down(&bed);
    EXPECT_EQ_I64(read_effect()->lease.max_bytes, 2000);
}

TEST(a_lane_that_ran_dry_reads_whatever_there_is_room_for)
{
    ks_session_id session;

    bed_live(&bed);
    session = bed_session(&bed, 100, 5000);
    bed_hold(&bed, 0, 1);
    bed_settle_down(&bed);
    bed_records(&bed, 0, 49, 100, false);
    bed_settle_down(&bed);
    EXPECT(read_effect() == NULL);
    EXPECT_EQ_I64(bed_pull(&bed, session, 100), 49);
    /* What is settled behind a gap takes room and waits for nobody. */
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 1, 48, KS_ACK, 0), KS_SETTLE_OK);
    bed_settle_down(&bed);
    EXPECT_EQ_I64(read_effect()->lease.max_bytes, 100);
}

TEST(what_is_read_ahead_costs_its_places_in_memory_too)
{
    bed_live(&bed);
    bed.core->config.record_extra = 100;
    bed_session(&bed, 10, 5000);
    bed_hold(&bed, 0, 1);
    bed_settle_down(&bed);
    bed_records(&bed, 0, 10, 100, false);
    bed_settle_down(&bed);
    EXPECT_EQ_I64(read_effect()->lease.max_bytes, 1500);
    EXPECT_EQ_I64(bed.core->reserved, 3000);
    bed_records(&bed, 0, 15, 100, false);
    EXPECT(read_effect() == NULL);
    bed_wait(&bed, 1000);
    EXPECT(read_effect() == NULL);
    EXPECT_EQ_I64(ks_flow_held(bed.core), 2500);
}

TEST(a_session_can_use_up_its_credit_whatever_places_cost)
{
    ks_session_id session;

    bed_live(&bed);
    bed.core->config.record_extra = 1000;
    session = bed_session(&bed, 100, 5000);
    bed_hold(&bed, 0, 1);
    bed_settle_down(&bed);
    while (bed.core->sessions[session].in_flight < 50) {
        EXPECT(bed.core->leases[0].reading);
        bed_records(&bed, 0, 1, 100, false);
        EXPECT_EQ_I64(bed_pull(&bed, session, 100), 1);
        bed_settle_down(&bed);
    }
    EXPECT_EQ_I64(bed.core->sessions[session].in_flight_bytes, 5000);
    EXPECT(!bed.core->leases[0].reading);
}

TEST(several_leases_share_the_bytes_and_none_starves)
{
    ks_session_id session;
    ks_shard shard;

    bed_live(&bed);
    session = bed_session(&bed, 100, 4000);
    for (shard = 0; shard < 4; shard++)
        bed_hold(&bed, shard, 1);
    bed_settle_down(&bed);
    /* The first one takes all that is common; each of the others has its own share. */
    EXPECT_EQ_I64(bed_count(&bed, KS_EFFECT_READ), 4);
    EXPECT_EQ_I64(read_effect()->lease.max_bytes, 4000 - 3 * 625);
    EXPECT_EQ_I64(bed_effect(&bed, KS_EFFECT_READ, 3)->lease.max_bytes, 625);
    bed_records(&bed, 0, 21, 100, false);
    EXPECT_EQ_I64(bed_pull(&bed, session, 100), 21);
    bed_settle_down(&bed);
    EXPECT(read_effect() == NULL); /* It has more than its half. */
    EXPECT_EQ_I64(ks_flow_held(bed.core) + bed.core->reserved, 2100 + 3 * 625);
    bed_records(&bed, 3, 0, 0, false);
    bed_settle_down(&bed);
    EXPECT_EQ_I64(read_effect()->lease.shard, 3);
}

TEST(a_lease_at_the_tip_asks_for_little_and_one_that_is_behind_for_much)
{
    uint32_t least = 10000 / 16;

    bed_live(&bed);
    bed_session(&bed, 100, 1 << 20);
    bed_hold(&bed, 0, 1);
    bed_settle_down(&bed);
    EXPECT_EQ_I64(read_effect()->lease.max_bytes, 10000);
    for (int i = 0; i < 8; i++) {
        bed_records(&bed, 0, 0, 0, false);
        bed_settle_down(&bed);
    }
    EXPECT_EQ_I64(read_effect()->lease.max_bytes, least);
    for (int i = 0; i < 4; i++) {
        bed_records(&bed, 0, 1, 10000, false);
        bed_settle_down(&bed);
    }
    EXPECT_EQ_I64(read_effect()->lease.max_bytes, 10000);
}

TEST(the_byte_budget_bounds_what_sessions_allow)
{
    bed_live(&bed);
    bed.core->config.budget_bytes = 3000;
    bed_session(&bed, 10, 1 << 30);
    bed_hold(&bed, 0, 1);
    bed_settle_down(&bed);
    EXPECT_EQ_I64(read_effect()->lease.max_bytes, 3000);
}

TEST(a_budget_that_changes_counts_from_the_next_read_on)
{
    struct ks_event event = {.kind = KS_EVENT_BUDGET, .budget = {0}};

    bed_live(&bed);
    bed_session(&bed, 10, 1 << 30);
    bed_hold(&bed, 0, 1);
    bed_step(&bed, &event);
    bed_settle_down(&bed);
    EXPECT(read_effect() == NULL);
    event.budget.bytes = 3000;
    bed_step(&bed, &event);
    bed_settle_down(&bed);
    EXPECT_EQ_I64(read_effect()->lease.max_bytes, 3000);
}

TEST(a_full_window_stops_reading_and_settling_goes_on_with_it)
{
    ks_session_id session;

    bed_live(&bed);
    session = bed_session(&bed, 100, 1 << 20);
    bed_hold(&bed, 0, 1);
    bed_settle_down(&bed);
    bed_records(&bed, 0, BED_WINDOW, 1, false);
    bed_settle_down(&bed);
    EXPECT(read_effect() == NULL);
    EXPECT_EQ_I64(bed_pull(&bed, session, 100), BED_WINDOW);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, BED_WINDOW, KS_ACK, 0), KS_SETTLE_OK);
    bed_settle_down(&bed);
    EXPECT(read_effect() != NULL);
}

TEST(room_that_late_acks_make_is_read_into_at_once)
{
    ks_session_id session;

    bed_live(&bed);
    bed.core->fleet.deadline = KS_NEVER;
    session = bed_session(&bed, 100, 1 << 20);
    bed_hold(&bed, 0, 1);
    bed_settle_down(&bed);
    bed_records(&bed, 0, BED_WINDOW, 1, false);
    EXPECT_EQ_I64(bed_pull(&bed, session, 100), BED_WINDOW);
    /* They come again: no credit returns with their acks. */
    bed_wait(&bed, 60000);
    bed_settle_down(&bed);
    EXPECT(read_effect() == NULL);
    EXPECT_EQ_I64(bed.core->sessions[session].in_flight, 0);
    EXPECT(ks_instant_before(bed.now, ks_flow_deadline(bed.core)));
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, BED_WINDOW, KS_ACK, 0), KS_SETTLE_OK);
    EXPECT_EQ_I64(ks_flow_deadline(bed.core).us, bed.now.us);
    bed_settle_down(&bed);
    EXPECT(read_effect() != NULL);
}

TEST(a_failed_read_is_asked_for_again_and_says_why_there_is_nothing)
{
    struct ks_event failed = {.kind = KS_EVENT_READ_FAILED, .read_failed = {0, 1, true, false}};
    ks_session_id session;

    bed_live(&bed);
    session = bed_session(&bed, 100, 1 << 20);
    bed_hold(&bed, 0, 1);
    bed_settle_down(&bed);
    bed_step(&bed, &failed);
    EXPECT(read_effect() == NULL);
    EXPECT_EQ_I64(ks_core_session_idle(bed.core, session, NULL), KS_IDLE_THROTTLED);
    EXPECT_EQ_I64(bed.core->reserved, 0);
    bed_wait(&bed, 200);
    EXPECT(read_effect() != NULL);
    bed_records(&bed, 0, 1, 1, false);
    EXPECT_EQ_I64(ks_core_session_idle(bed.core, session, NULL), KS_IDLE_NO_DATA);
}

TEST(nothing_is_read_after_the_end_of_the_shard)
{
    bed_live(&bed);
    bed_session(&bed, 100, 1 << 20);
    bed_hold(&bed, 0, 1);
    bed_settle_down(&bed);
    bed_records(&bed, 0, 5, 10, true);
    bed_settle_down(&bed);
    bed_wait(&bed, 1000);
    EXPECT(read_effect() == NULL);
}

TEST(a_byte_limit_of_one_still_lets_every_lease_read_a_record)
{
    bed_live(&bed);
    bed_session(&bed, 100, 1);
    for (ks_shard shard = 0; shard < 3; shard++)
        bed_hold(&bed, shard, 1);
    bed_settle_down(&bed);
    EXPECT_EQ_I64(bed_count(&bed, KS_EFFECT_READ), 3);
}

/* All that a lease may hold is delivered. */
static ks_session_id fill_window(void)
{
    ks_session_id session;

    bed_live(&bed);
    bed.core->fleet.deadline = KS_NEVER;
    session = bed_session(&bed, 100, 1 << 20);
    bed_hold(&bed, 0, 1);
    bed_settle_down(&bed);
    bed_records(&bed, 0, BED_WINDOW, 1, false);
    EXPECT_EQ_I64(bed_pull(&bed, session, 100), BED_WINDOW);
    return session;
}

static void expect_blocked(ks_session_id session, bool blocked)
{
    EXPECT(read_effect() == NULL);
    EXPECT_EQ_I64(bed.core->leases[0].gap_full, blocked);
    EXPECT_EQ_I64(ks_core_session_idle(bed.core, session, NULL) == KS_IDLE_LANE_BLOCKED, blocked);
}

TEST(a_gap_behind_a_record_that_is_retried_is_bounded_and_told_once)
{
    const struct ks_effect *told;
    ks_session_id session = fill_window();

    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 1, BED_WINDOW - 1, KS_ACK, 0), KS_SETTLE_OK);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 1, KS_RETRY, 3000), KS_SETTLE_OK);
    bed_settle_down(&bed);
    EXPECT(bed_told(&bed, KS_STORY_GAP_FULL));
    told = bed_effect(&bed, KS_EFFECT_STORY, 0);
    EXPECT_EQ_I64(told->story.story, KS_STORY_GAP_FULL);
    EXPECT_EQ_I64(told->story.number, 0);
    EXPECT_EQ_I64(told->story.count, BED_WINDOW);
    expect_blocked(session, true);
    bed_wait(&bed, 1000);
    EXPECT(!bed_told(&bed, KS_STORY_GAP_FULL));
    expect_blocked(session, true);
    /* It comes again, and then everything is settled. */
    bed_wait(&bed, 2000);
    EXPECT_EQ_I64(bed_pull(&bed, session, 100), 1);
    EXPECT(read_effect() == NULL);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 1, KS_ACK, 0), KS_SETTLE_OK);
    bed_settle_down(&bed);
    EXPECT(read_effect() != NULL);
    EXPECT(!bed.core->leases[0].gap_full);
}

TEST(a_record_in_flight_makes_a_gap_of_what_is_settled_behind_it)
{
    ks_session_id session = fill_window();

    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 1, BED_WINDOW - 1, KS_ACK, 0), KS_SETTLE_OK);
    bed_settle_down(&bed);
    EXPECT(bed_told(&bed, KS_STORY_GAP_FULL));
    expect_blocked(session, true);
}

TEST(a_slow_app_makes_no_gap)
{
    ks_session_id session = fill_window();

    bed_settle_down(&bed);
    expect_blocked(session, false);
    /* Half of it is in flight, and so it is the app that takes its time. */
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 1, BED_WINDOW / 2, KS_ACK, 0), KS_SETTLE_OK);
    bed_settle_down(&bed);
    EXPECT(!bed_told(&bed, KS_STORY_GAP_FULL));
    expect_blocked(session, false);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 1 + BED_WINDOW / 2, 1, KS_ACK, 0), KS_SETTLE_OK);
    bed_settle_down(&bed);
    EXPECT(bed_told(&bed, KS_STORY_GAP_FULL));
    expect_blocked(session, true);
}

TEST(records_of_nobody_make_no_gap)
{
    struct ks_event detach = {.kind = KS_EVENT_SESSION_DETACH};
    ks_session_id session;

    bed_live(&bed);
    bed.core->fleet.deadline = KS_NEVER;
    session = bed_session(&bed, 100, 1 << 20);
    bed_hold(&bed, 0, 1);
    bed_settle_down(&bed);
    bed_records(&bed, 0, 2, 1, false);
    EXPECT_EQ_I64(bed_pull(&bed, session, 100), 2);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 1, KS_RETRY, 3000), KS_SETTLE_OK);
    detach.session.session = session;
    bed_step(&bed, &detach);
    bed_settle_down(&bed);
    EXPECT(!bed_told(&bed, KS_STORY_GAP_FULL));
    EXPECT(!bed.core->leases[0].gap_full);
}

TEST(a_record_that_never_fits_is_told_after_five_seconds)
{
    struct ks_event full = {.kind = KS_EVENT_READ_FAILED, .read_failed = {0, 1, false, true}};
    ks_session_id session;
    bool told = false;

    bed_live(&bed);
    bed.core->fleet.deadline = KS_NEVER;
    session = bed_session(&bed, 100, 1 << 20);
    bed_hold(&bed, 0, 1);
    bed_settle_down(&bed);
    for (int i = 0; i <= 25; i++) {
        EXPECT(!told);
        bed_step(&bed, &full);
        told = bed_told(&bed, KS_STORY_CRAMPED);
        bed_wait(&bed, 200);
    }
    EXPECT(told);
    EXPECT_EQ_I64(ks_core_session_idle(bed.core, session, NULL), KS_IDLE_LANE_BLOCKED);
    bed_records(&bed, 0, 1, 10, false);
    EXPECT_EQ_I64(ks_core_session_idle(bed.core, session, NULL), KS_IDLE_NO_DATA);
}

TEST(memory_that_dead_letters_hold_is_not_told_as_a_record_that_never_fits)
{
    struct ks_event full = {.kind = KS_EVENT_READ_FAILED, .read_failed = {0, 1, false, true}};
    ks_session_id session;
    int refused = 0;

    bed_live(&bed);
    bed.core->fleet.deadline = KS_NEVER;
    session = bed_session(&bed, 100, 1 << 20);
    bed_hold(&bed, 0, 1);
    bed_settle_down(&bed);
    bed_records(&bed, 0, 1, 10, false);
    EXPECT_EQ_I64(bed_pull(&bed, session, 1), 1);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 1, KS_DEAD_LETTER, 0), KS_SETTLE_OK);
    for (int i = 0; i < 60; i++) {
        bed_wait(&bed, 200);
        if (!bed.core->leases[0].reading)
            continue;
        bed_step(&bed, &full);
        EXPECT(!bed_told(&bed, KS_STORY_CRAMPED));
        refused++;
    }
    EXPECT(refused > 25);
}

/* ---- Records that the subscription does not want ---- */

static void filtered_records(const bool *filtered, uint32_t count)
{
    uint32_t sizes[BED_WINDOW];
    struct ks_event event = {
        .kind = KS_EVENT_RECORDS,
        .records = {.epoch = 1, .sizes = sizes, .filtered = filtered, .count = count}};

    for (uint32_t i = 0; i < count; i++)
        sizes[i] = 100;
    bed_step(&bed, &event);
}

TEST(what_is_filtered_is_settled_as_it_comes_and_never_delivered)
{
    const bool filtered[] = {true, true, false, true, false, true};
    ks_session_id session;

    bed_live(&bed);
    session = bed_session(&bed, 10, 1 << 20);
    bed_hold(&bed, 0, 1);
    bed_settle_down(&bed);
    filtered_records(filtered, 6);
    EXPECT_EQ_U64(bed.core->leases[0].tracker.mark, 2);
    EXPECT_EQ_I64(bed_pull(&bed, session, 10), 2);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 2, 1, KS_ACK, 0), KS_SETTLE_OK);
    EXPECT_EQ_U64(bed.core->leases[0].tracker.mark, 4);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 4, 1, KS_ACK, 0), KS_SETTLE_OK);
    EXPECT_EQ_U64(bed.core->leases[0].tracker.mark, 6);
}

TEST(after_a_final_write_nothing_is_settled_not_even_what_is_filtered)
{
    const bool filtered[] = {true, true};

    bed_live(&bed);
    (void)bed_session(&bed, 10, 1 << 20);
    bed_hold(&bed, 0, 1);
    bed_settle_down(&bed);
    bed.core->leases[0].given_up = true;
    filtered_records(filtered, 2);
    EXPECT_EQ_U64(bed.core->leases[0].tracker.mark, 0);
}
