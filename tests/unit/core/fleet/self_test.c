/* SPDX-License-Identifier: Apache-2.0 */
#include "core/fleet/native.h"

#include "ks_test.h"
#include "unit/core/bed.h"

static struct bed bed;

static uint64_t token_of(enum ks_store_operation operation)
{
    const struct ks_store_effect *asked = bed_asked(&bed, operation);

    EXPECT(asked != NULL);
    return asked->token;
}

static void start(void)
{
    struct ks_event event = {.kind = KS_EVENT_START};

    bed_init(&bed);
    bed_step(&bed, &event);
}

static struct ks_worker_row my_row(uint64_t boot, enum ks_life life, uint64_t beat)
{
    return (struct ks_worker_row){.self = {BED_ME, boot}, .life = life, .beat = beat};
}

static void next_beat(void)
{
    bed.now = bed.core->fleet.next_at;
    bed_tick(&bed);
}

TEST(the_deadline_counts_from_the_request_and_not_from_the_answer)
{
    ks_instant asked;

    bed_live(&bed);
    next_beat();
    asked = bed.now;
    uint64_t token = token_of(KS_STORE_HEARTBEAT);
    bed.now = ks_instant_add(bed.now, ks_span_ms(1900));
    bed_answer(&bed, token, KS_DONE);
    EXPECT_EQ_I64(bed.core->fleet.deadline.us, ks_instant_add(asked, ks_span_ms(9500)).us);
    EXPECT_EQ_I64(bed.core->fleet.next_at.us, ks_instant_add(asked, bed.core->config.beat).us);
}

TEST(an_unknown_heartbeat_changes_nothing_and_is_sent_again_soon)
{
    ks_instant deadline;

    bed_live(&bed);
    deadline = bed.core->fleet.deadline;
    next_beat();
    for (int64_t wait = 200; wait <= 1600; wait *= 2) {
        bed_answer(&bed, token_of(KS_STORE_HEARTBEAT), KS_UNKNOWN);
        EXPECT_EQ_I64(bed.core->fleet.deadline.us, deadline.us);
        bed_wait(&bed, wait < 1000 ? wait : 1000);
    }
    bed_answer(&bed, token_of(KS_STORE_HEARTBEAT), KS_DONE);
    EXPECT(ks_instant_before(deadline, bed.core->fleet.deadline));
}

TEST(a_refused_heartbeat_stops_delivery_at_once_and_starts_again_under_a_new_boot)
{
    struct ks_worker_row fenced;
    uint64_t boot;

    bed_live(&bed);
    bed_session(&bed, 10, 1000);
    bed_answer(&bed, token_of(KS_STORE_HEARTBEAT), KS_DONE); /* It says that it is active now. */
    bed_hold(&bed, 0, 1);
    boot = bed.core->fleet.self.boot;
    next_beat();
    bed_answer(&bed, token_of(KS_STORE_HEARTBEAT), KS_REFUSED);
    EXPECT(!ks_core_may_deliver(bed.core, 0, 1, bed.now));
    fenced = my_row(boot, KS_FENCED, 1);
    bed_settle_down(&bed);
    bed_answer_worker(&bed, token_of(KS_STORE_READ_WORKER), &fenced);
    EXPECT(bed_told(&bed, KS_STORY_FENCED));
    EXPECT(bed_effect(&bed, KS_EFFECT_CLOSE, 0) != NULL);
    bed_settle_down(&bed);
    bed_answer_worker(&bed, token_of(KS_STORE_READ_WORKER), &fenced);
    EXPECT_EQ_U64(bed_asked(&bed, KS_STORE_REGISTER_DEAD)->expect_boot, boot);
    EXPECT(bed.core->fleet.self.boot != boot);
    bed_answer(&bed, token_of(KS_STORE_REGISTER_DEAD), KS_DONE);
    EXPECT_EQ_I64(bed.core->fleet.step, KS_SELF_LIVE);
    EXPECT_EQ_I64(bed.core->leases_used, 0);
}

TEST(a_refusal_that_a_consistent_read_denies_goes_on_in_the_same_incarnation)
{
    struct ks_worker_row live;

    bed_live(&bed);
    live = my_row(bed.core->fleet.self.boot, KS_LIVE, 4);
    next_beat();
    bed_answer(&bed, token_of(KS_STORE_HEARTBEAT), KS_REFUSED);
    bed_settle_down(&bed);
    bed_answer_worker(&bed, token_of(KS_STORE_READ_WORKER), &live);
    EXPECT_EQ_I64(bed.core->fleet.step, KS_SELF_LIVE);
    EXPECT(!ks_core_serving(bed.core)); /* Until a heartbeat succeeds. */
    bed_settle_down(&bed);
    bed_answer(&bed, token_of(KS_STORE_HEARTBEAT), KS_DONE);
    EXPECT(ks_core_serving(bed.core));
}

TEST(an_unknown_registration_is_read_back_and_another_attempt_has_another_nonce)
{
    struct ks_worker_row row;
    uint64_t first;
    ks_instant asked;

    start();
    bed_answer(&bed, token_of(KS_STORE_READ_WORKER), KS_DONE);
    first = bed.core->fleet.self.boot;
    asked = bed.now;
    bed_answer(&bed, token_of(KS_STORE_REGISTER_NEW), KS_UNKNOWN);
    bed_settle_down(&bed);
    bed_answer(&bed, token_of(KS_STORE_READ_WORKER), KS_DONE); /* No row. */
    bed_settle_down(&bed);
    bed_answer(&bed, token_of(KS_STORE_READ_WORKER), KS_DONE);
    EXPECT(bed.core->fleet.self.boot != first);
    bed_answer(&bed, token_of(KS_STORE_REGISTER_NEW), KS_UNKNOWN);
    bed_settle_down(&bed);
    row = my_row(bed.core->fleet.self.boot, KS_LIVE, 0);
    bed.now = ks_instant_add(bed.now, ks_span_ms(1000));
    bed_answer_worker(&bed, token_of(KS_STORE_READ_WORKER), &row);
    EXPECT_EQ_I64(bed.core->fleet.step, KS_SELF_LIVE);
    EXPECT_EQ_I64(bed.core->fleet.deadline.us, ks_instant_add(asked, ks_span_ms(9500)).us);
}

TEST(an_old_self_that_is_silent_is_waited_out_and_one_that_beats_refuses_us)
{
    struct ks_worker_row old = my_row(77, KS_LIVE, 5);

    start();
    bed_answer_worker(&bed, token_of(KS_STORE_READ_WORKER), &old);
    EXPECT(bed_told(&bed, KS_STORY_WAITS_FOR_OLD_SELF));
    for (int i = 0; bed_asked(&bed, KS_STORE_REGISTER_SILENT) == NULL; i++) {
        EXPECT(i < 20);
        bed.now = ks_core_deadline(bed.core);
        bed_tick(&bed);
        bed_answer_worker(&bed, token_of(KS_STORE_READ_WORKER), &old);
    }
    EXPECT_EQ_I64(bed.now.us, INT64_C(1000000000) + 10500000);
    EXPECT_EQ_U64(bed_asked(&bed, KS_STORE_REGISTER_SILENT)->expect_beat, 5);

    start();
    bed_answer_worker(&bed, token_of(KS_STORE_READ_WORKER), &old);
    bed.now = ks_core_deadline(bed.core);
    bed_tick(&bed);
    old.beat = 6;
    bed_answer_worker(&bed, token_of(KS_STORE_READ_WORKER), &old);
    EXPECT_EQ_U64(bed_effect(&bed, KS_EFFECT_REFUSED, 0)->refused.worker.boot, 77);
}

TEST(a_take_is_polled_until_the_row_is_ours_and_then_removed_from_our_row)
{
    struct ks_lease_token token = {4, 2};
    struct ks_worker_row row;
    struct ks_lease_row lease = {.shard = 4, .epoch = 1, .parents = {KS_SHARD_NONE, KS_SHARD_NONE}};

    bed_live(&bed);
    row = my_row(bed.core->fleet.self.boot, KS_LIVE, 1);
    row.takes = &token;
    row.take_count = 1;
    next_beat();
    bed_answer_worker(&bed, token_of(KS_STORE_HEARTBEAT), &row);
    bed_answer_lease(&bed, token_of(KS_STORE_READ_LEASE), &lease);
    EXPECT_EQ_I64(bed.core->leases_used, 0);
    bed_wait(&bed, 500);
    lease.owner = bed.core->fleet.self;
    lease.epoch = 2;
    bed_answer_lease(&bed, token_of(KS_STORE_READ_LEASE), &lease);
    EXPECT_EQ_I64(bed.core->leases_used, 1);
    EXPECT(bed_effect(&bed, KS_EFFECT_OPEN, 0) != NULL);
    next_beat();
    EXPECT_EQ_I64(bed_asked(&bed, KS_STORE_HEARTBEAT)->take_count, 1);
    EXPECT_EQ_I64(bed_asked(&bed, KS_STORE_HEARTBEAT)->takes[0].shard, 4);
    EXPECT_EQ_I64(bed_asked(&bed, KS_STORE_HEARTBEAT)->held, 1);
    bed_answer(&bed, token_of(KS_STORE_HEARTBEAT), KS_DONE);
    EXPECT_EQ_I64(bed.core->fleet.done_count, 0);
}

TEST(an_epoch_that_we_ended_never_begins_again)
{
    struct ks_lease_row lease = {.shard = 4, .epoch = 2, .parents = {KS_SHARD_NONE, KS_SHARD_NONE}};

    bed_live(&bed);
    EXPECT(ks_native_know(bed.core, 4));
    bed.core->directory[4].ended = 2;
    lease.owner = bed.core->fleet.self;
    ks_self_take(bed.core, 4, 3, false);
    bed_tick(&bed);
    bed_answer_lease(&bed, token_of(KS_STORE_READ_LEASE), &lease);
    EXPECT_EQ_I64(bed.core->leases_used, 0);
}

TEST(a_session_makes_an_idle_worker_active_and_says_so_at_once)
{
    bed_live(&bed);
    EXPECT_EQ_I64(bed.core->fleet.told_mode, KS_IDLE);
    ks_session_id session = bed_session(&bed, 1, 1);
    EXPECT_EQ_I64(bed_asked(&bed, KS_STORE_HEARTBEAT)->mode, KS_ACTIVE);
    bed_answer(&bed, token_of(KS_STORE_HEARTBEAT), KS_DONE);
    struct ks_event close = {.kind = KS_EVENT_SESSION_CLOSE, .session = {session}};
    bed_step(&bed, &close);
    EXPECT(bed_asked(&bed, KS_STORE_HEARTBEAT) == NULL);
    bed.core->fleet.deadline = KS_NEVER;
    bed.core->fleet.next_at = KS_NEVER;
    bed_wait(&bed, 29999);
    EXPECT(bed_asked(&bed, KS_STORE_HEARTBEAT) == NULL);
    bed_wait(&bed, 1);
    EXPECT_EQ_I64(bed_asked(&bed, KS_STORE_HEARTBEAT)->mode, KS_IDLE);
}
