/* SPDX-License-Identifier: Apache-2.0 */
#include "core/redrive.h"

#include "core/lanes.h"
#include "core/session.h"

#include "ks_test.h"
#include "unit/core/bed.h"

static struct bed bed;

static ks_session_id begin(uint32_t max_in_flight)
{
    ks_session_id session;

    bed_live(&bed);
    bed.core->fleet.deadline = KS_NEVER;
    session = bed_session(&bed, max_in_flight, 1 << 20);
    bed_hold(&bed, 0, 1);
    bed_settle_down(&bed);
    return session;
}

static void redrive(ks_number number, uint32_t bytes)
{
    struct ks_event event = {.kind = KS_EVENT_REDRIVE};

    event.redrive.number = number;
    event.redrive.bytes = bytes;
    event.redrive.attempts = 4;
    event.redrive.stale_s = UINT32_MAX;
    bed_step(&bed, &event);
}

/* The letter that is delivered to the session; KS_NUMBER_NONE: none is. */
static ks_number pull(ks_session_id session)
{
    const struct ks_effect *effect;

    if (bed_pull(&bed, session, 1) == 0)
        return KS_NUMBER_NONE;
    effect = bed_effect(&bed, KS_EFFECT_DELIVER, 0);
    EXPECT_EQ_U64(effect->deliver.shard, KS_SHARD_NONE);
    return effect->deliver.first;
}

static enum ks_settle_status settle(ks_session_id session, ks_number number,
                                    enum ks_settle_outcome outcome, int64_t delay_ms)
{
    struct ks_event event = {.kind = KS_EVENT_SETTLE};

    event.settle.session = session;
    event.settle.session_epoch = bed.core->sessions[session].epoch;
    event.settle.shard = KS_SHARD_NONE;
    event.settle.first = number;
    event.settle.count = 1;
    event.settle.outcome = outcome;
    event.settle.delay = ks_span_ms(delay_ms);
    bed_step(&bed, &event);
    return bed_effect(&bed, KS_EFFECT_SETTLED, 0)->settled.status;
}

static void answer(ks_number number, enum ks_outcome outcome)
{
    struct ks_event event = {.kind = KS_EVENT_LETTER};

    event.letter.number = number;
    event.letter.outcome = outcome;
    bed_step(&bed, &event);
}

TEST(a_letter_comes_before_the_lanes_within_the_credit_and_moves_no_watermark)
{
    ks_session_id session = begin(2);

    bed_records(&bed, 0, 5, 100, false);
    redrive(7, 100);
    EXPECT_EQ_U64(pull(session), 7);
    EXPECT_EQ_I64(bed_effect(&bed, KS_EFFECT_DELIVER, 0)->deliver.attempt, 5);
    EXPECT_EQ_I64(bed_pull(&bed, session, 5), 1);
    EXPECT_EQ_I64(bed_pull(&bed, session, 5), 0);
    EXPECT_EQ_U64(bed.core->sessions[session].in_flight_bytes, 200);
    EXPECT_EQ_I64(settle(session, 7, KS_ACK, 0), KS_SETTLE_OK);
    EXPECT_EQ_I64(bed.core->sessions[session].in_flight, 1);
    EXPECT_EQ_U64(bed.core->leases[0].tracker.mark, 0);
    EXPECT(!ks_core_letters_told(bed.core, 8));
    bed_tick(&bed);
    EXPECT(bed_effect(&bed, KS_EFFECT_LETTER, 0)->letter.remove);
    answer(7, KS_UNKNOWN);
    EXPECT_EQ_I64(bed_count(&bed, KS_EFFECT_LETTER_OVER), 0);
    bed_wait(&bed, 1000);
    bed_tick(&bed);
    answer(7, KS_DONE);
    EXPECT_EQ_I64(bed_count(&bed, KS_EFFECT_LETTER_OVER), 1);
    EXPECT(ks_core_letters_told(bed.core, 8));
    EXPECT_EQ_I64(bed.core->redrives_used, 0);
    EXPECT_EQ_I64(settle(session, 7, KS_ACK, 0), KS_SETTLE_OK);
    EXPECT_EQ_I64(settle(session, 8, KS_ACK, 0), KS_SETTLE_UNKNOWN);
}

TEST(a_letter_is_for_the_side_of_a_share_that_its_key_is_of)
{
    struct ks_event open = {.kind = KS_EVENT_SESSION_OPEN,
                            .open = {.take_over = KS_SESSION_NONE,
                                     .max_in_flight = 10,
                                     .max_in_flight_bytes = 1 << 20,
                                     .ack_deadline = ks_span_ms(60000),
                                     .ordering = KS_ORDER_BY_KEY,
                                     .lanes = 2}};
    struct ks_event event = {.kind = KS_EVENT_REDRIVE};
    ks_session_id canary;
    ks_session_id rest;

    bed_live(&bed);
    bed.core->fleet.deadline = KS_NEVER;
    bed_step(&bed, &open);
    rest = bed_effect(&bed, KS_EFFECT_OPENED, 0)->session.session;
    open.open.share = KS_SHARE_ALL / 2;
    bed_step(&bed, &open);
    canary = bed_effect(&bed, KS_EFFECT_OPENED, 0)->session.session;
    event.redrive.bytes = 10;
    event.redrive.shard = KS_SHARD_NONE;
    event.redrive.stale_s = UINT32_MAX;
    event.redrive.hash = ks_share_lanes(KS_SHARE_ALL / 2, 0, 2) == 1 ? 0 : 255;
    bed_step(&bed, &event);
    EXPECT_EQ_U64(pull(rest), KS_NUMBER_NONE);
    EXPECT_EQ_U64(pull(canary), 0);
    event.redrive.number = 1;
    event.redrive.hash ^= 255;
    bed_step(&bed, &event);
    EXPECT_EQ_U64(pull(canary), KS_NUMBER_NONE);
    EXPECT_EQ_U64(pull(rest), 1);
}

TEST(a_letter_comes_again_after_its_delay_its_deadline_and_the_end_of_its_session)
{
    ks_session_id session = begin(10);
    ks_session_id other = bed_session(&bed, 10, 1 << 20);

    redrive(0, 10);
    EXPECT_EQ_U64(pull(session), 0);
    EXPECT_EQ_I64(settle(other, 0, KS_RETRY, 0), KS_SETTLE_EXPIRED);
    EXPECT_EQ_I64(settle(session, 0, KS_RETRY, 500), KS_SETTLE_OK);
    EXPECT_EQ_U64(bed_effect(&bed, KS_EFFECT_SETTLED, 0)->settled.count, 1);
    EXPECT_EQ_I64(settle(session, 0, KS_RETRY, 500), KS_SETTLE_OK);
    EXPECT_EQ_U64(bed_effect(&bed, KS_EFFECT_SETTLED, 0)->settled.count, 0);
    EXPECT_EQ_U64(pull(session), KS_NUMBER_NONE);
    bed_wait(&bed, 500);
    bed_tick(&bed);
    EXPECT_EQ_U64(pull(session), 0);
    EXPECT_EQ_I64(settle(session, 0, KS_EXTEND, 100), KS_SETTLE_OK);
    bed_wait(&bed, 101);
    bed_tick(&bed);
    EXPECT_EQ_I64(bed.core->sessions[session].in_flight, 0);
    EXPECT_EQ_I64(settle(session, 0, KS_EXTEND, 100), KS_SETTLE_EXPIRED);
    EXPECT_EQ_U64(pull(session), 0);
    ks_session_close(bed.core, session);
    EXPECT_EQ_U64(pull(other), 0);
    EXPECT_EQ_I64(bed_effect(&bed, KS_EFFECT_DELIVER, 0)->deliver.attempt, 8);
}

TEST(the_policy_gives_it_up_again_and_a_late_ack_removes_it_all_the_same)
{
    ks_session_id session = begin(10);
    const struct ks_effect *told;

    bed.core->config.poison =
        (struct ks_poison_policy){.max_attempts = 1, .exhausted = KS_EXHAUSTED_DROP};
    redrive(3, 10);
    EXPECT_EQ_U64(pull(session), 3);
    EXPECT_EQ_I64(settle(session, 3, KS_RETRY, 0), KS_SETTLE_OK);
    EXPECT_EQ_I64(bed.core->redrives[0].state, KS_REDRIVE_ENDING);
    bed_tick(&bed);
    told = bed_effect(&bed, KS_EFFECT_LETTER, 0);
    EXPECT(!told->letter.remove);
    EXPECT_EQ_I64(told->letter.cause, KS_CAUSE_ATTEMPTS);
    EXPECT_EQ_I64(told->letter.attempts, 5);
    EXPECT_EQ_I64(settle(session, 3, KS_ACK, 0), KS_SETTLE_OK);
    answer(3, KS_DONE);
    EXPECT(bed_effect(&bed, KS_EFFECT_LETTER, 0)->letter.remove);
    answer(3, KS_REFUSED);
    EXPECT(bed_effect(&bed, KS_EFFECT_LETTER_OVER, 0)->letter.remove);
}

TEST(a_letter_that_is_discarded_returns_its_credit)
{
    ks_session_id session = begin(1);
    struct ks_event event = {.kind = KS_EVENT_DISCARDED};

    redrive(0, 10);
    redrive(1, 10);
    EXPECT_EQ_U64(pull(session), 0);
    EXPECT_EQ_U64(pull(session), KS_NUMBER_NONE);
    bed_step(&bed, &event);
    EXPECT_EQ_I64(bed_count(&bed, KS_EFFECT_WAKE), 1);
    EXPECT_EQ_U64(pull(session), 1);
    EXPECT_EQ_I64(settle(session, 0, KS_RETRY, 0), KS_SETTLE_SETTLED);
}

TEST(retry_of_a_letter_that_is_settled_is_refused)
{
    ks_session_id session = begin(10);

    redrive(0, 10);
    EXPECT_EQ_U64(pull(session), 0);
    EXPECT_EQ_I64(settle(session, 0, KS_ACK, 0), KS_SETTLE_OK);
    EXPECT_EQ_I64(settle(session, 0, KS_RETRY, 0), KS_SETTLE_SETTLED);
    EXPECT_EQ_I64(settle(session, 0, KS_EXTEND, 1000), KS_SETTLE_OK);
    EXPECT_EQ_I64(bed.core->redrives[0].state, KS_REDRIVE_ENDING);
}

TEST(a_letter_returned_unwritten_keeps_its_attempts)
{
    ks_session_id session = begin(1);
    struct bed_run run;

    redrive(7, 100);
    for (int i = 0; i < 2; i++) {
        EXPECT_EQ_I64(bed_assign(&bed, session, 1), 1);
        EXPECT_EQ_I64(bed_effect(&bed, KS_EFFECT_DELIVER, 0)->deliver.attempt, 5);
        run = bed_run(&bed, 0);
        if (i == 1)
            bed_write(&bed, &run, KS_STAGE_BEGUN);
        bed_write(&bed, &run, i == 1 ? KS_STAGE_TORN : KS_STAGE_RETURNED);
        EXPECT_EQ_I64(bed.core->redrives[0].attempts, 4);
        EXPECT_EQ_I64(bed.core->sessions[session].in_flight, 0);
    }
    EXPECT_EQ_U64(pull(session), 7);
    EXPECT_EQ_I64(bed_effect(&bed, KS_EFFECT_DELIVER, 0)->deliver.attempt, 5);
}

/* A session is closed while its connection has some of the letter, and may get the rest. */
TEST(a_letter_taken_back_half_way_keeps_its_attempt_number)
{
    ks_session_id session = begin(1);
    struct ks_event close = {.kind = KS_EVENT_SESSION_CLOSE, .session = {session, false}};
    struct bed_run run;
    struct bed_run later;

    redrive(7, 100);
    EXPECT_EQ_I64(bed_assign(&bed, session, 1), 1);
    run = bed_run(&bed, 0);
    bed_write(&bed, &run, KS_STAGE_BEGUN);
    bed_step(&bed, &close);
    session = bed_session(&bed, 1, 1 << 20);
    EXPECT_EQ_I64(bed_assign(&bed, session, 1), 1);
    EXPECT_EQ_I64(bed_effect(&bed, KS_EFFECT_DELIVER, 0)->deliver.attempt, 6);
    later = bed_run(&bed, 0);
    bed_write(&bed, &run, KS_STAGE_WRITTEN);
    EXPECT_EQ_I64(bed.core->redrives[0].attempts, 5);
    bed_write(&bed, &later, KS_STAGE_RETURNED);
    EXPECT_EQ_U64(pull(session), 7);
    EXPECT_EQ_I64(bed_effect(&bed, KS_EFFECT_DELIVER, 0)->deliver.attempt, 6);
}

/* A redelivered letter has no lease: it can be in flight after the worker has returned its last lease. */
TEST(a_worker_is_draining_while_a_redelivered_letter_is_in_flight)
{
    struct ks_event drain = {.kind = KS_EVENT_DRAIN, .drain = {ks_span_ms(25000)}};
    struct ks_self_view view;
    ks_session_id session;

    bed_live(&bed);
    session = bed_session(&bed, 1, 1 << 20);
    redrive(0, 10);
    EXPECT_EQ_U64(pull(session), 0);
    bed_step(&bed, &drain);
    bed_settle_down(&bed);
    bed_answer(&bed, bed_asked(&bed, KS_STORE_SAY_GONE)->token, KS_DONE);
    bed_settle_down(&bed);
    EXPECT(bed_effect(&bed, KS_EFFECT_DRAINED, 0) == NULL);
    ks_core_self(bed.core, &view);
    EXPECT_EQ_I64(view.state, KS_WORKER_DRAINING);

    EXPECT_EQ_I64(settle(session, 0, KS_ACK, 0), KS_SETTLE_OK);
    bed_settle_down(&bed);
    answer(0, KS_DONE);
    bed_settle_down(&bed);
    ks_core_self(bed.core, &view);
    EXPECT_EQ_I64(view.state, KS_WORKER_GONE);
}
