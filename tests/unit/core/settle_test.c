/* SPDX-License-Identifier: Apache-2.0 */
#include "core/settle.h"

#include "bed.h"
#include "ks_test.h"

static struct bed bed;

/* One session with four records that were written to it. */
static ks_session_id four_written(void)
{
    ks_session_id session;

    bed_live(&bed);
    session = bed_session(&bed, 10, 1 << 20);
    bed_hold(&bed, 0, 1);
    bed_settle_down(&bed);
    bed_records(&bed, 0, 4, 100, false);
    EXPECT_EQ_I64(bed_pull(&bed, session, 4), 4);
    return session;
}

static struct ks_settled settled(void)
{
    return bed_effect(&bed, KS_EFFECT_SETTLED, 0)->settled;
}

TEST(an_ack_of_some_records_counts_those_that_were_open)
{
    ks_session_id session = four_written();

    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 1, 1, KS_ACK, 0), KS_SETTLE_OK);
    EXPECT_EQ_U64(settled().count, 1);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 3, KS_ACK, 0), KS_SETTLE_OK);
    EXPECT_EQ_U64(settled().count, 2);
    EXPECT_EQ_U64(settled().up_to, 3);
}

TEST(a_settlement_of_another_epoch_is_fenced)
{
    ks_session_id session = four_written();
    struct ks_event event = {.kind = KS_EVENT_SETTLE};

    event.settle.session = session;
    event.settle.session_epoch = bed.core->sessions[session].epoch;
    event.settle.epoch = 2;
    event.settle.count = 1;
    bed_step(&bed, &event);
    EXPECT_EQ_I64(settled().status, KS_SETTLE_FENCED);
    EXPECT_EQ_U64(bed.core->leases[0].tracker.mark, 0);
}

TEST(a_checkpoint_settles_everything_that_was_delivered_up_to_it)
{
    struct ks_event event = {.kind = KS_EVENT_CHECKPOINT};

    (void)four_written();
    event.checkpoint.epoch = 1;
    event.checkpoint.number = 2;
    bed_step(&bed, &event);
    EXPECT_EQ_I64(settled().status, KS_SETTLE_OK);
    EXPECT_EQ_U64(bed.core->leases[0].tracker.mark, 3);
}

TEST(a_settlement_of_a_record_that_was_never_delivered_is_unknown)
{
    ks_session_id session = four_written();

    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 4, 1, KS_ACK, 0), KS_SETTLE_UNKNOWN);
}

/* By the id of one record, which names the delivery that it came with. */
static enum ks_settle_status settle_alone(const struct bed_run *run, enum ks_settle_outcome what)
{
    struct ks_event event = {
        .kind = KS_EVENT_SETTLE,
        .settle = {.session = run->session,
                   .session_epoch = bed.core->sessions[run->session].epoch,
                   .shard = run->shard,
                   .epoch = run->epoch,
                   .first = run->first,
                   .count = 1,
                   .assignment = run->assignment,
                   .alone = true,
                   .outcome = what},
    };

    bed_step(&bed, &event);
    return settled().status;
}

TEST(a_retry_or_extend_of_an_earlier_delivery_has_no_say_over_a_later_one)
{
    ks_session_id session = four_written();
    struct bed_run earlier = {.session = session, .epoch = 1, .assignment = bed.core->assignment};

    EXPECT_EQ_I64(settle_alone(&earlier, KS_RETRY), KS_SETTLE_OK);
    EXPECT_EQ_U64(settled().count, 1);
    EXPECT_EQ_I64(settle_alone(&earlier, KS_RETRY), KS_SETTLE_OK); /* It waits: nothing changes. */
    EXPECT_EQ_U64(settled().count, 0);
    EXPECT_EQ_I64(bed_pull(&bed, session, 4), 4);
    EXPECT_EQ_I64(settle_alone(&earlier, KS_RETRY), KS_SETTLE_EXPIRED);
    EXPECT_EQ_I64(settle_alone(&earlier, KS_EXTEND), KS_SETTLE_EXPIRED);
    for (ks_number n = 0; n < 4; n++)
        EXPECT(ks_core_is_out(bed.core, 0, n));
}

/* Another delivery was settled while the retry was on its way. */
TEST(retry_of_a_settled_record_takes_nothing_back_and_is_refused)
{
    ks_session_id session = four_written();

    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 1, 1, KS_ACK, 0), KS_SETTLE_OK);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 1, 1, KS_RETRY, 0), KS_SETTLE_SETTLED);
    EXPECT_EQ_U64(settled().count, 0);
    EXPECT(ks_core_is_out(bed.core, 0, 2));
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 1, KS_ACK, 0), KS_SETTLE_OK);
    EXPECT_EQ_U64(bed.core->leases[0].tracker.mark, 2);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 2, KS_RETRY, 0), KS_SETTLE_SETTLED);
    EXPECT(ks_core_is_out(bed.core, 0, 2));
}

TEST(retry_of_a_range_takes_back_the_records_that_are_not_settled)
{
    ks_session_id session = four_written();

    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 2, KS_ACK, 0), KS_SETTLE_OK);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 1, 2, KS_RETRY, 0), KS_SETTLE_OK);
    EXPECT_EQ_U64(settled().count, 1);
    EXPECT(!ks_core_is_out(bed.core, 0, 2));
    EXPECT(!ks_core_is_out(bed.core, 0, 3));
}

/* The retry of record 0 takes back the others, and gives its record up. Returns its delivery. */
static struct bed_run give_up_first(enum ks_exhausted exhausted)
{
    struct bed_run run = {.session = four_written(), .epoch = 1};

    run.assignment = bed.core->assignment;
    bed.core->config.poison.max_attempts = 1;
    bed.core->config.poison.exhausted = exhausted;
    EXPECT_EQ_I64(settle_alone(&run, KS_RETRY), KS_SETTLE_OK);
    EXPECT_EQ_U64(settled().count, 0);
    bed_settle_down(&bed);
    EXPECT_EQ_U64(bed.core->leases[0].tracker.mark, exhausted == KS_EXHAUSTED_DROP ? 1 : 0);
    for (ks_number n = 1; n < 4; n++)
        EXPECT(!ks_core_is_out(bed.core, 0, n));
    return run;
}

/* The client drops what it received before the barrier of the repetition, also what the first copy took back and was
 * redelivered since. */
TEST(repeated_retry_that_gave_its_record_up_takes_the_later_records_back_again)
{
    static const enum ks_exhausted policies[] = {KS_EXHAUSTED_DEAD_LETTER, KS_EXHAUSTED_DROP};

    for (size_t i = 0; i < sizeof(policies) / sizeof(policies[0]); i++) {
        struct bed_run run = give_up_first(policies[i]);

        EXPECT_EQ_I64(settle_alone(&run, KS_RETRY), KS_SETTLE_OK); /* They wait: nothing changes. */
        EXPECT_EQ_I64(bed_pull(&bed, run.session, 4), 3);
        EXPECT_EQ_I64(settle_alone(&run, KS_RETRY), KS_SETTLE_OK);
        EXPECT_EQ_U64(settled().count, 0);
        for (ks_number n = 1; n < 4; n++) {
            EXPECT(!ks_core_is_out(bed.core, 0, n));
            EXPECT_EQ_U64(ks_tracker_slot(&bed.core->leases[0].tracker, n)->failures, 0);
        }
        EXPECT_EQ_I64(bed_pull(&bed, run.session, 4), 3);
    }
}

/* The deadline took the later records back, and the client does not know. */
TEST(retry_of_a_record_that_was_given_up_for_its_ack_deadline_is_accepted)
{
    struct bed_run run = {.session = four_written(), .epoch = 1};

    run.assignment = bed.core->assignment;
    bed.core->config.poison.max_attempts = 1;
    EXPECT_EQ_I64(bed_settle(&bed, run.session, 0, 0, 1, KS_EXTEND, 1000), KS_SETTLE_OK);
    bed_wait(&bed, 1000);
    EXPECT(!ks_core_is_out(bed.core, 0, 1));
    EXPECT_EQ_I64(settle_alone(&run, KS_RETRY), KS_SETTLE_OK);
}

TEST(retry_of_a_given_up_record_that_is_not_about_its_last_delivery_is_refused)
{
    struct bed_run run = give_up_first(KS_EXHAUSTED_DROP);

    EXPECT_EQ_I64(bed_pull(&bed, run.session, 4), 3);
    run.assignment++;
    EXPECT_EQ_I64(settle_alone(&run, KS_RETRY), KS_SETTLE_SETTLED);
    EXPECT(ks_core_is_out(bed.core, 0, 1));
}

/* The client waits for an answer before it retries another record of the lane. */
TEST(repeated_retry_is_refused_after_a_later_record_of_the_lane_was_given_up)
{
    struct bed_run first = give_up_first(KS_EXHAUSTED_DROP);
    struct bed_run second = {.session = first.session, .epoch = 1, .first = 1};

    EXPECT_EQ_I64(bed_pull(&bed, first.session, 4), 3);
    second.assignment = bed.core->assignment;
    EXPECT_EQ_I64(settle_alone(&second, KS_RETRY), KS_SETTLE_OK);
    EXPECT_EQ_I64(bed_pull(&bed, first.session, 4), 2);
    EXPECT_EQ_I64(settle_alone(&first, KS_RETRY), KS_SETTLE_SETTLED);
    EXPECT(ks_core_is_out(bed.core, 0, 2));
    EXPECT_EQ_I64(settle_alone(&second, KS_RETRY), KS_SETTLE_OK);
    EXPECT(!ks_core_is_out(bed.core, 0, 2));
}

TEST(repeated_retry_takes_nothing_back_from_the_session_that_has_the_lane)
{
    struct bed_run run = {.session = four_written(), .epoch = 1};
    ks_session_id other = bed_session(&bed, 10, 1 << 20);

    run.assignment = bed.core->assignment;
    bed.core->config.poison.max_attempts = 1;
    bed.core->leases[0].tracker.lanes[0].yield_to = other; /* It gets the lane that it waits for. */
    bed.core->sessions[run.session].lanes--;
    bed.core->sessions[other].lanes++;
    EXPECT_EQ_I64(settle_alone(&run, KS_RETRY), KS_SETTLE_OK);
    bed_settle_down(&bed);
    EXPECT_EQ_I64(bed_pull(&bed, other, 4), 3);
    EXPECT_EQ_I64(settle_alone(&run, KS_RETRY), KS_SETTLE_OK);
    for (ks_number n = 1; n < 4; n++)
        EXPECT(ks_core_is_out(bed.core, 0, n));
}

TEST(repeated_retry_without_order_is_refused)
{
    struct bed_run run = {.session = four_written(), .epoch = 1};

    run.assignment = bed.core->assignment;
    bed.core->config.poison.max_attempts = 1;
    bed.core->ordering = KS_ORDER_NONE;
    bed.core->leases[0].tracker.unordered = true;
    EXPECT_EQ_I64(settle_alone(&run, KS_RETRY), KS_SETTLE_OK);
    EXPECT_EQ_I64(settle_alone(&run, KS_RETRY), KS_SETTLE_SETTLED);
    EXPECT(ks_core_is_out(bed.core, 0, 1));
}

TEST(other_settlements_of_a_settled_record_are_accepted)
{
    static const enum ks_settle_outcome outcomes[] = {KS_ACK, KS_DROP, KS_DEAD_LETTER, KS_EXTEND};
    ks_session_id session = four_written();

    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 1, 1, KS_ACK, 0), KS_SETTLE_OK);
    for (size_t i = 0; i < sizeof(outcomes) / sizeof(outcomes[0]); i++)
        EXPECT_EQ_I64(bed_settle(&bed, session, 0, 1, 1, outcomes[i], 1000), KS_SETTLE_OK);
}

TEST(an_ack_of_an_earlier_delivery_settles_the_record_also_when_one_between_was_torn)
{
    ks_session_id session = four_written();
    struct bed_run earlier = {.session = session, .epoch = 1, .assignment = bed.core->assignment};
    struct bed_run torn;

    EXPECT_EQ_I64(settle_alone(&earlier, KS_RETRY), KS_SETTLE_OK);
    EXPECT_EQ_I64(bed_assign(&bed, session, 4), 4);
    torn = bed_run(&bed, 0);
    torn = bed_part(&torn, 0, 1);
    bed_hand_half(&bed, &torn, 0);
    bed_write(&bed, &torn, KS_STAGE_TORN);
    EXPECT_EQ_I64(bed_pull(&bed, session, 4), 4);
    EXPECT_EQ_I64(settle_alone(&earlier, KS_ACK), KS_SETTLE_OK);
    EXPECT_EQ_U64(settled().count, 1);
    EXPECT_EQ_U64(bed.core->leases[0].tracker.mark, 1);
}
