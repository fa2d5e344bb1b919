/* SPDX-License-Identifier: Apache-2.0 */
#include "core/fleet/native.h"

#include "ks_test.h"
#include "unit/core/rig.h"

static struct rig rig;

static uint64_t token_of(enum ks_store_operation operation)
{
    const struct ks_store_effect *asked = rig_asked(&rig, operation);

    EXPECT(asked != NULL);
    return asked->token;
}

static void start(void)
{
    struct ks_event event = {.kind = KS_EVENT_START};

    rig_init(&rig);
    rig_step(&rig, &event);
}

static struct ks_worker_row my_row(uint64_t boot, enum ks_life life, uint64_t beat)
{
    return (struct ks_worker_row){.self = {RIG_ME, boot}, .life = life, .beat = beat};
}

static void next_beat(void)
{
    rig.now = rig.core->fleet.next_at;
    rig_tick(&rig);
}

TEST(the_deadline_counts_from_the_request_and_not_from_the_answer)
{
    ks_instant asked;

    rig_live(&rig);
    next_beat();
    asked = rig.now;
    uint64_t token = token_of(KS_STORE_HEARTBEAT);
    rig.now = ks_instant_add(rig.now, ks_span_ms(1900));
    rig_answer(&rig, token, KS_DONE);
    EXPECT_EQ_I64(rig.core->fleet.deadline.us, ks_instant_add(asked, ks_span_ms(9500)).us);
    EXPECT_EQ_I64(rig.core->fleet.next_at.us, ks_instant_add(asked, rig.core->config.beat).us);
}

TEST(an_unknown_heartbeat_changes_nothing_and_is_sent_again_soon)
{
    ks_instant deadline;

    rig_live(&rig);
    deadline = rig.core->fleet.deadline;
    next_beat();
    for (int64_t wait = 200; wait <= 1600; wait *= 2) {
        rig_answer(&rig, token_of(KS_STORE_HEARTBEAT), KS_UNKNOWN);
        EXPECT_EQ_I64(rig.core->fleet.deadline.us, deadline.us);
        rig_wait(&rig, wait < 1000 ? wait : 1000);
    }
    rig_answer(&rig, token_of(KS_STORE_HEARTBEAT), KS_DONE);
    EXPECT(ks_instant_before(deadline, rig.core->fleet.deadline));
}

TEST(a_refused_heartbeat_stops_delivery_at_once_and_starts_again_under_a_new_boot)
{
    struct ks_worker_row fenced;
    uint64_t boot;

    rig_live(&rig);
    rig_session(&rig, 10, 1000);
    rig_answer(&rig, token_of(KS_STORE_HEARTBEAT), KS_DONE); /* It says that it is active now. */
    rig_hold(&rig, 0, 1);
    boot = rig.core->fleet.self.boot;
    next_beat();
    rig_answer(&rig, token_of(KS_STORE_HEARTBEAT), KS_REFUSED);
    EXPECT(!ks_core_may_deliver(rig.core, 0, 1, rig.now));
    fenced = my_row(boot, KS_FENCED, 1);
    rig_settle_down(&rig);
    rig_answer_worker(&rig, token_of(KS_STORE_READ_WORKER), &fenced);
    EXPECT(rig_told(&rig, KS_STORY_FENCED));
    EXPECT(rig_effect(&rig, KS_EFFECT_CLOSE, 0) != NULL);
    rig_settle_down(&rig);
    rig_answer_worker(&rig, token_of(KS_STORE_READ_WORKER), &fenced);
    EXPECT_EQ_U64(rig_asked(&rig, KS_STORE_REGISTER_DEAD)->expect_boot, boot);
    EXPECT(rig.core->fleet.self.boot != boot);
    rig_answer(&rig, token_of(KS_STORE_REGISTER_DEAD), KS_DONE);
    EXPECT_EQ_I64(rig.core->fleet.step, KS_SELF_LIVE);
    EXPECT_EQ_I64(rig.core->leases_used, 0);
}

TEST(a_refusal_that_a_consistent_read_denies_goes_on_in_the_same_incarnation)
{
    struct ks_worker_row live;

    rig_live(&rig);
    live = my_row(rig.core->fleet.self.boot, KS_LIVE, 4);
    next_beat();
    rig_answer(&rig, token_of(KS_STORE_HEARTBEAT), KS_REFUSED);
    rig_settle_down(&rig);
    rig_answer_worker(&rig, token_of(KS_STORE_READ_WORKER), &live);
    EXPECT_EQ_I64(rig.core->fleet.step, KS_SELF_LIVE);
    EXPECT(!ks_core_serving(rig.core)); /* Until a heartbeat succeeds. */
    rig_settle_down(&rig);
    rig_answer(&rig, token_of(KS_STORE_HEARTBEAT), KS_DONE);
    EXPECT(ks_core_serving(rig.core));
}

TEST(an_unknown_registration_is_read_back_and_another_attempt_has_another_nonce)
{
    struct ks_worker_row row;
    uint64_t first;
    ks_instant asked;

    start();
    rig_answer(&rig, token_of(KS_STORE_READ_WORKER), KS_DONE);
    first = rig.core->fleet.self.boot;
    asked = rig.now;
    rig_answer(&rig, token_of(KS_STORE_REGISTER_NEW), KS_UNKNOWN);
    rig_settle_down(&rig);
    rig_answer(&rig, token_of(KS_STORE_READ_WORKER), KS_DONE); /* No row. */
    rig_settle_down(&rig);
    rig_answer(&rig, token_of(KS_STORE_READ_WORKER), KS_DONE);
    EXPECT(rig.core->fleet.self.boot != first);
    rig_answer(&rig, token_of(KS_STORE_REGISTER_NEW), KS_UNKNOWN);
    rig_settle_down(&rig);
    row = my_row(rig.core->fleet.self.boot, KS_LIVE, 0);
    rig.now = ks_instant_add(rig.now, ks_span_ms(1000));
    rig_answer_worker(&rig, token_of(KS_STORE_READ_WORKER), &row);
    EXPECT_EQ_I64(rig.core->fleet.step, KS_SELF_LIVE);
    EXPECT_EQ_I64(rig.core->fleet.deadline.us, ks_instant_add(asked, ks_span_ms(9500)).us);
}

TEST(an_old_self_that_is_silent_is_waited_out_and_one_that_beats_refuses_us)
{
    struct ks_worker_row old = my_row(77, KS_LIVE, 5);

    start();
    rig_answer_worker(&rig, token_of(KS_STORE_READ_WORKER), &old);
    EXPECT(rig_told(&rig, KS_STORY_WAITS_FOR_OLD_SELF));
    for (int i = 0; rig_asked(&rig, KS_STORE_REGISTER_SILENT) == NULL; i++) {
        EXPECT(i < 20);
        rig.now = ks_core_deadline(rig.core);
        rig_tick(&rig);
        rig_answer_worker(&rig, token_of(KS_STORE_READ_WORKER), &old);
    }
    EXPECT_EQ_I64(rig.now.us, INT64_C(1000000000) + 10500000);
    EXPECT_EQ_U64(rig_asked(&rig, KS_STORE_REGISTER_SILENT)->expect_beat, 5);

    start();
    rig_answer_worker(&rig, token_of(KS_STORE_READ_WORKER), &old);
    rig.now = ks_core_deadline(rig.core);
    rig_tick(&rig);
    old.beat = 6;
    rig_answer_worker(&rig, token_of(KS_STORE_READ_WORKER), &old);
    EXPECT_EQ_U64(rig_effect(&rig, KS_EFFECT_REFUSED, 0)->refused.worker.boot, 77);
}

TEST(a_take_is_polled_until_the_row_is_ours_and_then_removed_from_our_row)
{
    struct ks_lease_token token = {4, 2};
    struct ks_worker_row row;
    struct ks_lease_row lease = {.shard = 4, .epoch = 1, .parents = {KS_SHARD_NONE, KS_SHARD_NONE}};

    rig_live(&rig);
    row = my_row(rig.core->fleet.self.boot, KS_LIVE, 1);
    row.takes = &token;
    row.take_count = 1;
    next_beat();
    rig_answer_worker(&rig, token_of(KS_STORE_HEARTBEAT), &row);
    rig_answer_lease(&rig, token_of(KS_STORE_READ_LEASE), &lease);
    EXPECT_EQ_I64(rig.core->leases_used, 0);
    rig_wait(&rig, 500);
    lease.owner = rig.core->fleet.self;
    lease.epoch = 2;
    rig_answer_lease(&rig, token_of(KS_STORE_READ_LEASE), &lease);
    EXPECT_EQ_I64(rig.core->leases_used, 1);
    EXPECT(rig_effect(&rig, KS_EFFECT_OPEN, 0) != NULL);
    next_beat();
    EXPECT_EQ_I64(rig_asked(&rig, KS_STORE_HEARTBEAT)->take_count, 1);
    EXPECT_EQ_I64(rig_asked(&rig, KS_STORE_HEARTBEAT)->takes[0].shard, 4);
    EXPECT_EQ_I64(rig_asked(&rig, KS_STORE_HEARTBEAT)->held, 1);
    rig_answer(&rig, token_of(KS_STORE_HEARTBEAT), KS_DONE);
    EXPECT_EQ_I64(rig.core->fleet.done_count, 0);
}

TEST(an_epoch_that_we_ended_never_begins_again)
{
    struct ks_lease_row lease = {.shard = 4, .epoch = 2, .parents = {KS_SHARD_NONE, KS_SHARD_NONE}};

    rig_live(&rig);
    EXPECT(ks_native_know(rig.core, 4));
    rig.core->directory[4].ended = 2;
    lease.owner = rig.core->fleet.self;
    ks_self_take(rig.core, 4, 3, false);
    rig_tick(&rig);
    rig_answer_lease(&rig, token_of(KS_STORE_READ_LEASE), &lease);
    EXPECT_EQ_I64(rig.core->leases_used, 0);
}

TEST(a_session_makes_an_idle_worker_active_and_says_so_at_once)
{
    rig_live(&rig);
    EXPECT_EQ_I64(rig.core->fleet.told_mode, KS_IDLE);
    ks_session_id session = rig_session(&rig, 1, 1);
    EXPECT_EQ_I64(rig_asked(&rig, KS_STORE_HEARTBEAT)->mode, KS_ACTIVE);
    rig_answer(&rig, token_of(KS_STORE_HEARTBEAT), KS_DONE);
    struct ks_event close = {.kind = KS_EVENT_SESSION_CLOSE, .session = {session}};
    rig_step(&rig, &close);
    EXPECT(rig_asked(&rig, KS_STORE_HEARTBEAT) == NULL);
    rig.core->fleet.deadline = KS_NEVER;
    rig.core->fleet.next_at = KS_NEVER;
    rig_wait(&rig, 29999);
    EXPECT(rig_asked(&rig, KS_STORE_HEARTBEAT) == NULL);
    rig_wait(&rig, 1);
    EXPECT_EQ_I64(rig_asked(&rig, KS_STORE_HEARTBEAT)->mode, KS_IDLE);
}
