/* SPDX-License-Identifier: Apache-2.0 */
#include "core/poison.h"

#include "core/session.h"

#include "ks_test.h"
#include "unit/core/bed.h"

static struct bed bed;

static ks_session_id one_lane(const struct ks_poison_policy *policy, uint32_t count)
{
    ks_session_id session;

    bed_live(&bed);
    bed.core->config.poison = *policy;
    bed.core->fleet.deadline = KS_NEVER;
    session = bed_session(&bed, 100, 1 << 20);
    bed_hold(&bed, 0, 1);
    bed_settle_down(&bed);
    bed_records(&bed, 0, count, 100, false);
    return session;
}

/* Answers the write of dead letters that was asked for last. */
static void answer(const struct ks_effect *bury, enum ks_outcome outcome)
{
    struct ks_event event = {.kind = KS_EVENT_BURIED};

    event.buried.shard = bury->bury.shard;
    event.buried.epoch = bury->bury.epoch;
    event.buried.serial = bury->bury.serial;
    event.buried.outcome = outcome;
    bed_step(&bed, &event);
}

static struct ks_effect asked_to_bury(void)
{
    struct ks_effect none = {.kind = KS_EFFECT_STORE};
    const struct ks_effect *bury = bed_effect(&bed, KS_EFFECT_BURY, 0);

    EXPECT(bury != NULL);
    return bury == NULL ? none : *bury;
}

TEST(a_dead_letter_holds_the_watermark_until_it_is_durable_and_its_lane_goes_on)
{
    ks_session_id session = one_lane(&(struct ks_poison_policy){.max_attempts = 0}, 4);
    struct ks_effect bury;

    EXPECT_EQ_I64(bed_pull(&bed, session, 3), 3);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 1, KS_DEAD_LETTER, 0), KS_SETTLE_OK);
    EXPECT_EQ_I64(bed.core->sessions[session].in_flight, 2);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 1, 2, KS_ACK, 0), KS_SETTLE_OK);
    bed_settle_down(&bed);
    bury = asked_to_bury();
    EXPECT_EQ_U64(bury.bury.first, 0);
    EXPECT_EQ_I64(bury.bury.cause, KS_CAUSE_ASKED);
    EXPECT_EQ_U64(bed.core->leases[0].tracker.mark, 0);
    EXPECT_EQ_I64(bed_pull(&bed, session, 3), 1);

    answer(&bury, KS_UNKNOWN);
    EXPECT(bed_told(&bed, KS_STORY_NOT_BURIED));
    EXPECT_EQ_U64(bed.core->leases[0].tracker.mark, 0);
    bed_wait(&bed, 200);
    bury = asked_to_bury();
    answer(&bury, KS_REFUSED);
    EXPECT(!bed_told(&bed, KS_STORY_NOT_BURIED)); /* Said once. */
    EXPECT_EQ_U64(bed.core->leases[0].tracker.mark, 0);
    bed_wait(&bed, 400);
    bury = asked_to_bury();
    answer(&bury, KS_DONE);
    EXPECT(bed_told(&bed, KS_STORY_DEAD_LETTER));
    EXPECT_EQ_U64(bed.core->leases[0].tracker.mark, 3);
    EXPECT_EQ_U64(bed_effect(&bed, KS_EFFECT_FORGET, 0)->lease.number, 3);
}

TEST(an_ack_that_comes_late_settles_what_is_being_buried)
{
    ks_session_id session = one_lane(&(struct ks_poison_policy){.max_attempts = 0}, 2);
    struct ks_effect bury;

    EXPECT_EQ_I64(bed_pull(&bed, session, 2), 2);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 1, KS_DEAD_LETTER, 0), KS_SETTLE_OK);
    bed_settle_down(&bed);
    bury = asked_to_bury();
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 2, KS_ACK, 0), KS_SETTLE_OK);
    EXPECT_EQ_U64(bed.core->leases[0].tracker.mark, 2);
    answer(&bury, KS_DONE);
    ks_core_check(bed.core);
}

TEST(the_failure_that_is_one_too_many_gives_the_record_up_and_a_nack_counts_once_for_a_delivery)
{
    ks_session_id session = one_lane(
        &(struct ks_poison_policy){.max_attempts = 2, .exhausted = KS_EXHAUSTED_DEAD_LETTER}, 3);

    EXPECT_EQ_I64(bed_pull(&bed, session, 3), 3);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 1, KS_RETRY, 0), KS_SETTLE_OK);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 1, KS_RETRY, 0), KS_SETTLE_OK);
    EXPECT_EQ_I64(bed_pull(&bed, session, 3), 3);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 1, KS_RETRY, 0), KS_SETTLE_OK);
    bed_settle_down(&bed);
    EXPECT_EQ_U64(asked_to_bury().bury.count, 1);
    EXPECT_EQ_I64(asked_to_bury().bury.cause, KS_CAUSE_ATTEMPTS);
    /* Those that were recalled with it twice have not failed. */
    EXPECT_EQ_I64(bed_pull(&bed, session, 3), 2);
    EXPECT_EQ_I64(bed_effect(&bed, KS_EFFECT_DELIVER, 0)->deliver.attempt, 3);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 1, 1, KS_RETRY, 0), KS_SETTLE_OK);
    EXPECT(!ks_core_is_dying(bed.core, 0, 1));
    EXPECT(!ks_core_is_dying(bed.core, 0, 2));
}

TEST(what_never_reached_the_client_has_not_failed)
{
    ks_session_id session = one_lane(&(struct ks_poison_policy){.max_attempts = 1}, 1);
    struct bed_run run;

    for (int i = 0; i < 3; i++) {
        EXPECT_EQ_I64(bed_assign(&bed, session, 1), 1);
        EXPECT_EQ_I64(bed_effect(&bed, KS_EFFECT_DELIVER, 0)->deliver.attempt, 1);
        run = bed_run(&bed, 0);
        if (i > 0)
            bed_write(&bed, &run, KS_STAGE_BEGUN);
        bed_write(&bed, &run, i > 0 ? KS_STAGE_TORN : KS_STAGE_RETURNED);
    }
    bed_settle_down(&bed);
    EXPECT(bed_effect(&bed, KS_EFFECT_BURY, 0) == NULL);
    EXPECT_EQ_I64(bed_pull(&bed, session, 1), 1);
}

TEST(an_app_that_dies_of_a_record_dies_of_the_first_of_its_lane)
{
    struct ks_event detach = {.kind = KS_EVENT_SESSION_DETACH};

    detach.session.session = one_lane(&(struct ks_poison_policy){.max_attempts = 1}, 3);
    EXPECT_EQ_I64(bed_pull(&bed, detach.session.session, 3), 3);
    bed_step(&bed, &detach);
    bed_wait(&bed, 5000);
    EXPECT(ks_core_is_dying(bed.core, 0, 0));
    EXPECT(!ks_core_is_dying(bed.core, 0, 1));
}

TEST(a_session_that_is_closed_has_failed_at_nothing)
{
    struct ks_event close = {.kind = KS_EVENT_SESSION_CLOSE};

    close.session.session = one_lane(&(struct ks_poison_policy){.max_attempts = 1}, 3);
    EXPECT_EQ_I64(bed_pull(&bed, close.session.session, 3), 3);
    bed_step(&bed, &close);
    EXPECT(!ks_core_is_dying(bed.core, 0, 0));
}

TEST(dropped_by_the_policy_means_told_and_settled)
{
    ks_session_id session =
        one_lane(&(struct ks_poison_policy){.max_attempts = 1, .exhausted = KS_EXHAUSTED_DROP}, 1);

    EXPECT_EQ_I64(bed_pull(&bed, session, 1), 1);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 1, KS_RETRY, 0), KS_SETTLE_OK);
    bed_settle_down(&bed);
    EXPECT(bed_told(&bed, KS_STORY_DROPPED));
    EXPECT_EQ_U64(bed.core->leases[0].tracker.mark, 1);
}

TEST(a_stopped_shard_delivers_nothing_until_somebody_lets_it_go_on_or_the_record_is_settled)
{
    struct ks_poison_policy policy = {.max_attempts = 1, .exhausted = KS_EXHAUSTED_STOP_SHARD};
    struct ks_event go_on = {.kind = KS_EVENT_RESUME, .shard = {KS_SHARD_NONE}};
    ks_session_id session = one_lane(&policy, 4);

    EXPECT_EQ_I64(bed_pull(&bed, session, 2), 2);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 1, KS_RETRY, 0), KS_SETTLE_OK);
    bed_settle_down(&bed);
    EXPECT(bed_told(&bed, KS_STORY_STOPPED));
    EXPECT_EQ_I64(bed_pull(&bed, session, 4), 0);
    EXPECT_EQ_I64(ks_core_session_idle(bed.core, session, NULL), KS_IDLE_LANE_BLOCKED);
    EXPECT(!bed_told(&bed, KS_STORY_GOES_ON));
    bed_step(&bed, &go_on);
    EXPECT(bed_told(&bed, KS_STORY_GOES_ON));
    EXPECT_EQ_I64(bed_pull(&bed, session, 1), 1);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 1, KS_RETRY, 0), KS_SETTLE_OK);
    bed_settle_down(&bed);
    EXPECT_EQ_I64(bed_pull(&bed, session, 4), 0);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 1, KS_ACK, 0), KS_SETTLE_OK);
    EXPECT(bed_told(&bed, KS_STORY_GOES_ON));
    bed_settle_down(&bed);
    EXPECT(bed_effect(&bed, KS_EFFECT_WAKE, 0) != NULL); /* A stream waits to be told. */
    EXPECT_EQ_I64(bed_pull(&bed, session, 4), 3);
}

TEST(waits_grow_by_the_list_and_the_last_one_stays)
{
    struct ks_poison_policy policy = {
        .back_off = {ks_span_ms(100), ks_span_ms(400)},
        .back_offs = 2,
    };
    static const int64_t waits_ms[] = {100, 400, 400};
    ks_session_id session = one_lane(&policy, 1);

    for (int i = 0; i < 3; i++) {
        EXPECT_EQ_I64(bed_pull(&bed, session, 1), 1);
        EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 1, KS_RETRY, -1), KS_SETTLE_OK);
        bed_wait(&bed, waits_ms[i] - 1);
        EXPECT_EQ_I64(bed_pull(&bed, session, 1), 0);
        bed_wait(&bed, 1 + waits_ms[i] / 4);
    }
}

/* A lease that is held for `held` already reads a record that is too old 5 s later. */
static void expect_too_old_after(int64_t held_s)
{
    struct ks_event records = {.kind = KS_EVENT_RECORDS};
    uint32_t sizes[1] = {100};
    uint32_t stale_s[1] = {(uint32_t)(held_s + 5)};
    ks_session_id session;

    session = one_lane(&(struct ks_poison_policy){.exhausted = KS_EXHAUSTED_DEAD_LETTER}, 0);
    bed_settle_down(&bed);
    bed.now = ks_instant_add(bed.now, ks_span_ms(held_s * 1000));
    bed_tick(&bed);
    records.records.epoch = 1;
    records.records.sizes = sizes;
    records.records.stale_s = stale_s;
    records.records.count = 1;
    if (!bed.core->leases[0].reading)
        bed_wait(&bed, 1);
    bed_step(&bed, &records);
    EXPECT_EQ_I64(bed_pull(&bed, session, 1), 1);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 1, KS_RETRY, 0), KS_SETTLE_OK);
    EXPECT(!ks_core_is_dying(bed.core, 0, 0));
    bed_wait(&bed, 5000);
    EXPECT_EQ_I64(bed_pull(&bed, session, 1), 1);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 1, KS_RETRY, 0), KS_SETTLE_OK);
    EXPECT(ks_core_is_dying(bed.core, 0, 0));
}

TEST(a_record_that_is_too_old_is_given_up_when_it_fails_and_not_before)
{
    expect_too_old_after(0);
}

TEST(record_of_a_lease_held_for_50_days_or_10_years_is_given_up_when_it_is_too_old)
{
    expect_too_old_after(INT64_C(50) * 86400);
    expect_too_old_after(INT64_C(3652) * 86400);
}

TEST(a_record_that_is_too_large_for_its_client_is_told_once_and_waits_for_a_larger_one)
{
    struct ks_event open = {
        .kind = KS_EVENT_SESSION_OPEN,
        .open = {.take_over = KS_SESSION_NONE,
                 .max_in_flight = 10,
                 .max_in_flight_bytes = 1 << 20,
                 .ack_deadline = ks_span_ms(60000),
                 .max_record_bytes = 99},
    };
    ks_session_id session;

    bed_live(&bed);
    bed_step(&bed, &open);
    session = bed_effect(&bed, KS_EFFECT_OPENED, 0)->session.session;
    bed_hold(&bed, 0, 1);
    bed_settle_down(&bed);
    bed_records(&bed, 0, 2, 100, false);
    EXPECT_EQ_I64(bed_pull(&bed, session, 10), 0);
    EXPECT(bed_told(&bed, KS_STORY_TOO_LARGE));
    EXPECT_EQ_I64(ks_core_session_idle(bed.core, session, NULL), KS_IDLE_LANE_BLOCKED);
    EXPECT_EQ_I64(bed_pull(&bed, session, 10), 0);
    EXPECT(!bed_told(&bed, KS_STORY_TOO_LARGE));
    open.open.take_over = session;
    open.open.max_record_bytes = 100;
    bed_step(&bed, &open);
    bed_settle_down(&bed);
    EXPECT_EQ_I64(bed_pull(&bed, session, 10), 2);
}

TEST(who_opens_anew_is_told_again_what_is_too_large)
{
    struct ks_event open = {
        .kind = KS_EVENT_SESSION_OPEN,
        .open = {.take_over = KS_SESSION_NONE,
                 .max_in_flight = 10,
                 .max_in_flight_bytes = 1 << 20,
                 .ack_deadline = ks_span_ms(60000),
                 .max_record_bytes = 99},
    };
    struct ks_lease_view view;

    bed_live(&bed);
    bed_step(&bed, &open);
    open.open.take_over = bed_effect(&bed, KS_EFFECT_OPENED, 0)->session.session;
    bed_hold(&bed, 0, 1);
    bed_settle_down(&bed);
    bed_records(&bed, 0, 2, 100, false);
    EXPECT_EQ_I64(bed_pull(&bed, open.open.take_over, 10), 0);
    bed_step(&bed, &open);
    bed_settle_down(&bed);
    EXPECT_EQ_I64(bed_pull(&bed, open.open.take_over, 10), 0);
    EXPECT(bed_told(&bed, KS_STORY_TOO_LARGE));
    EXPECT(ks_core_lease(bed.core, 0, &view) && view.holds_large);
    EXPECT_EQ_U64(view.large, 0);
}

TEST(a_client_that_raises_its_limit_is_woken_for_the_record_that_was_too_large)
{
    struct ks_event update = {.kind = KS_EVENT_SESSION_UPDATE};
    ks_session_id session;

    bed_live(&bed);
    session = bed_session(&bed, 10, 1 << 20);
    update.update.session = session;
    update.update.max_record_bytes = 99;
    bed_step(&bed, &update);
    bed_hold(&bed, 0, 1);
    bed_settle_down(&bed);
    bed_records(&bed, 0, 2, 100, false);
    EXPECT_EQ_I64(bed_pull(&bed, session, 10), 0);
    EXPECT(bed_told(&bed, KS_STORY_TOO_LARGE));
    bed_settle_down(&bed);
    EXPECT_EQ_I64(bed_count(&bed, KS_EFFECT_WAKE), 0);
    update.update.max_record_bytes = 100;
    bed_step(&bed, &update);
    bed_settle_down(&bed);
    EXPECT_EQ_I64(bed_count(&bed, KS_EFFECT_WAKE), 1);
    EXPECT_EQ_I64(bed_pull(&bed, session, 10), 2);
}

TEST(ack_deadlines_that_pass_are_told_once_a_minute)
{
    ks_session_id session = one_lane(&(struct ks_poison_policy){.max_attempts = 0}, 2);

    bed.core->fleet.deadline = KS_NEVER;
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ_I64(bed_pull(&bed, session, 5), 2);
        EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 2, KS_EXTEND, 25000), KS_SETTLE_OK);
        bed_wait(&bed, 25000);
        EXPECT_EQ_I64(bed_told(&bed, KS_STORY_OVERDUE), i == 0);
        EXPECT_EQ_U64(bed.core->leases[0].overdue, (uint32_t)i);
    }
    EXPECT_EQ_I64(bed_pull(&bed, session, 5), 2);
    bed_wait(&bed, 60000);
    EXPECT(bed_told(&bed, KS_STORY_OVERDUE));
    EXPECT_EQ_U64(bed.core->leases[0].overdue, 0);
}
