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

/* The retry takes back the later records, and then its record is given up: a repetition does not. */
TEST(retry_that_gives_its_record_up_is_accepted_once)
{
    ks_session_id session = four_written();

    bed.core->config.poison.max_attempts = 1;
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 1, KS_RETRY, 0), KS_SETTLE_OK);
    EXPECT(!ks_core_is_out(bed.core, 0, 1));
    EXPECT_EQ_I64(bed_pull(&bed, session, 4), 3);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 1, KS_RETRY, 0), KS_SETTLE_SETTLED);
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
