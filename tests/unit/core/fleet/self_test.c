/* SPDX-License-Identifier: Apache-2.0 */
#include "core/fleet/native.h"
#include "core/lease.h"

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

/* Done, with our row. */
static void answer_beat(uint64_t token)
{
    struct ks_worker_row row = my_row(bed.core->fleet.self.boot, KS_LIVE, 1);

    bed_answer_worker(&bed, token, &row);
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
    answer_beat(token);
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
    answer_beat(token_of(KS_STORE_HEARTBEAT));
    EXPECT(ks_instant_before(deadline, bed.core->fleet.deadline));
}

TEST(a_heartbeat_whose_news_did_not_come_gives_no_time)
{
    ks_instant deadline;

    bed_live(&bed);
    deadline = bed.core->fleet.deadline;
    next_beat();
    bed_answer(&bed, token_of(KS_STORE_HEARTBEAT), KS_DONE);
    EXPECT_EQ_I64(bed.core->fleet.deadline.us, deadline.us);
    bed_wait(&bed, 200);
    EXPECT(bed_asked(&bed, KS_STORE_HEARTBEAT) != NULL);
}

TEST(a_refused_heartbeat_stops_delivery_at_once_and_starts_again_under_a_new_boot)
{
    struct ks_worker_row fenced;
    uint64_t boot;

    bed_live(&bed);
    bed_session(&bed, 10, 1000);
    answer_beat(token_of(KS_STORE_HEARTBEAT)); /* It says that it is active now. */
    bed_hold(&bed, 0, 1);
    boot = bed.core->fleet.self.boot;
    next_beat();
    bed_answer(&bed, token_of(KS_STORE_HEARTBEAT), KS_REFUSED);
    EXPECT(!ks_core_may_finish(bed.core, 0, 1, bed.now));
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
    answer_beat(token_of(KS_STORE_HEARTBEAT));
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

TEST(a_session_makes_an_idle_worker_active_and_says_so_at_once)
{
    bed_live(&bed);
    EXPECT_EQ_I64(bed.core->fleet.told_mode, KS_IDLE);
    ks_session_id session = bed_session(&bed, 1, 1);
    EXPECT_EQ_I64(bed_asked(&bed, KS_STORE_HEARTBEAT)->mode, KS_ACTIVE);
    answer_beat(token_of(KS_STORE_HEARTBEAT));
    struct ks_event close = {.kind = KS_EVENT_SESSION_CLOSE, .session.session = session};
    bed_step(&bed, &close);
    EXPECT(bed_asked(&bed, KS_STORE_HEARTBEAT) == NULL);
    bed.core->fleet.deadline = KS_NEVER;
    bed.core->fleet.next_at = KS_NEVER;
    bed_wait(&bed, 29999);
    EXPECT(bed_asked(&bed, KS_STORE_HEARTBEAT) == NULL);
    bed_wait(&bed, 1);
    EXPECT_EQ_I64(bed_asked(&bed, KS_STORE_HEARTBEAT)->mode, KS_IDLE);
}

/* A core with a lock file that named `corpse`, whose own row was read. */
static void start_locked(uint64_t corpse, const struct ks_worker_row *row)
{
    struct ks_event event = {.kind = KS_EVENT_START};

    bed_init(&bed);
    bed.core->config.lock = true;
    bed.core->config.corpse = corpse;
    bed_step(&bed, &event);
    if (row == NULL)
        bed_answer(&bed, token_of(KS_STORE_READ_WORKER), KS_DONE);
    else
        bed_answer_worker(&bed, token_of(KS_STORE_READ_WORKER), row);
}

static void say_locked(uint64_t boot, bool ok)
{
    struct ks_event event = {.kind = KS_EVENT_LOCKED, .locked = {.boot = boot, .ok = ok}};

    bed_step(&bed, &event);
}

TEST(a_boot_is_in_the_lock_file_before_it_is_registered)
{
    uint64_t boot;

    start_locked(0, NULL);
    boot = bed_effect(&bed, KS_EFFECT_LOCK, 0)->lock.boot;
    EXPECT(boot != 0);
    EXPECT(bed_effect(&bed, KS_EFFECT_STORE, 0) == NULL);
    EXPECT_EQ_I64(ks_core_deadline(bed.core).us, KS_NEVER.us);
    bed.now = ks_instant_add(bed.now, ks_span_ms(3000));
    say_locked(boot, true);
    EXPECT_EQ_U64(bed_asked(&bed, KS_STORE_REGISTER_NEW)->worker.boot, boot);
    bed_answer(&bed, token_of(KS_STORE_REGISTER_NEW), KS_DONE);
    EXPECT_EQ_I64(bed.core->fleet.step, KS_SELF_LIVE);
    /* From when it was sent, not from when the file was to be written. */
    EXPECT_EQ_I64(bed.core->fleet.deadline.us, ks_instant_add(bed.now, ks_span_ms(9500)).us);
}

TEST(a_lock_file_that_cannot_be_written_is_tried_again_with_another_boot)
{
    uint64_t boot;

    start_locked(0, NULL);
    boot = bed_effect(&bed, KS_EFFECT_LOCK, 0)->lock.boot;
    say_locked(boot, false);
    EXPECT(bed_asked(&bed, KS_STORE_READ_WORKER) == NULL);
    bed_wait(&bed, 200);
    bed_answer(&bed, token_of(KS_STORE_READ_WORKER), KS_DONE);
    EXPECT(bed_effect(&bed, KS_EFFECT_LOCK, 0)->lock.boot != boot);
    say_locked(boot, true); /* A late word about the other one. */
    EXPECT(bed_effect(&bed, KS_EFFECT_STORE, 0) == NULL);
    say_locked(bed.core->fleet.self.boot, true);
    EXPECT(bed_asked(&bed, KS_STORE_REGISTER_NEW) != NULL);
}

TEST(the_corpse_of_our_own_process_is_not_watched)
{
    struct ks_worker_row old = my_row(77, KS_LIVE, 5);

    start_locked(77, &old);
    EXPECT(!bed_told(&bed, KS_STORY_WAITS_FOR_OLD_SELF));
    say_locked(bed.core->fleet.self.boot, true);
    EXPECT_EQ_U64(bed_asked(&bed, KS_STORE_REGISTER_CORPSE)->expect_boot, 77);
    EXPECT_EQ_U64(bed_asked(&bed, KS_STORE_REGISTER_CORPSE)->worker.boot,
                  bed.core->fleet.self.boot);

    /* Another live boot is somebody else, and a dead one is dead anyway. */
    start_locked(78, &old);
    EXPECT(bed_told(&bed, KS_STORY_WAITS_FOR_OLD_SELF));
    EXPECT(bed_effect(&bed, KS_EFFECT_LOCK, 0) == NULL);
    old.life = KS_FENCED;
    start_locked(77, &old);
    say_locked(bed.core->fleet.self.boot, true);
    EXPECT_EQ_U64(bed_asked(&bed, KS_STORE_REGISTER_DEAD)->expect_boot, 77);
}

TEST(a_drain_does_not_wait_for_the_lock_file)
{
    struct ks_event drain = {.kind = KS_EVENT_DRAIN, .drain = {ks_span_ms(1000)}};
    uint64_t boot;

    start_locked(0, NULL);
    boot = bed_effect(&bed, KS_EFFECT_LOCK, 0)->lock.boot;
    bed_step(&bed, &drain);
    bed_settle_down(&bed);
    EXPECT(bed_effect(&bed, KS_EFFECT_DRAINED, 0) != NULL);
    say_locked(boot, true);
    EXPECT(bed_effect(&bed, KS_EFFECT_STORE, 0) == NULL);
}

TEST(a_heartbeat_tells_the_load)
{
    struct ks_event load = {.kind = KS_EVENT_LOAD, .load = {12345}};

    bed_live(&bed);
    bed_step(&bed, &load);
    EXPECT_EQ_U64(bed.effects.count, 0);
    next_beat();
    EXPECT_EQ_U64(bed_asked(&bed, KS_STORE_HEARTBEAT)->load, 12345);
}

/* ---- Failing. ---- */

static void read_fails(bool throttled)
{
    struct ks_event event = {
        .kind = KS_EVENT_READ_FAILED,
        .read_failed = {.shard = 0, .epoch = 3, .throttled = throttled},
    };

    EXPECT(ks_lease_of(bed.core, 0, 3)->reading);
    bed_step(&bed, &event);
}

/* Registered for ever, with one lease, a hungry app, and a read of the stream under way. */
static void reads(void)
{
    bed_live(&bed);
    bed.core->fleet.deadline = KS_NEVER;
    bed.core->fleet.serial = UINT32_MAX;
    bed_hold(&bed, 0, 3);
    bed_session(&bed, 10, 1 << 20);
    bed_tick(&bed);
}

static void fail_for(int seconds, bool throttled)
{
    for (int i = 0; i <= seconds; i++) {
        read_fails(throttled);
        bed_wait(&bed, 1000);
    }
}

TEST(a_worker_whose_reads_all_fail_says_so_and_tries_again_later)
{
    reads();
    fail_for(29, false);
    EXPECT_EQ_I64(bed.core->fleet.mode, KS_ACTIVE);
    fail_for(1, false);
    EXPECT_EQ_I64(bed.core->fleet.mode, KS_FAILING);
    bed_wait(&bed, 60000);
    EXPECT_EQ_I64(bed.core->fleet.mode, KS_FAILING); /* Nobody takes its lease. */
    ks_lease_lose(bed.core, ks_lease_of(bed.core, 0, 3), KS_STORY_RELEASED, &bed.effects);
    bed_tick(&bed);
    bed_wait(&bed, 29000);
    EXPECT_EQ_I64(bed.core->fleet.mode, KS_FAILING);
    bed_wait(&bed, 1000);
    EXPECT_EQ_I64(bed.core->fleet.mode, KS_ACTIVE);
    EXPECT_EQ_I64(ks_span_to_ms(bed.core->fleet.failing_wait),
                  30000); /* Twice that the next time. */
}

TEST(a_read_that_succeeds_ends_the_failing)
{
    reads();
    fail_for(31, false);
    EXPECT_EQ_I64(bed.core->fleet.mode, KS_FAILING);
    bed_records(&bed, 0, 0, 0, false);
    bed_tick(&bed);
    EXPECT_EQ_I64(bed.core->fleet.mode, KS_ACTIVE);
    EXPECT_EQ_I64(bed.core->fleet.failing_wait.us, 0);
}

TEST(a_throttled_worker_is_not_failing)
{
    reads();
    fail_for(40, true);
    EXPECT_EQ_I64(bed.core->fleet.mode, KS_ACTIVE);
}

TEST(a_drain_does_not_wait_for_ever_for_a_registration_without_an_answer)
{
    struct ks_event drain = {.kind = KS_EVENT_DRAIN, .drain = {ks_span_ms(1000)}};

    start();
    bed_answer(&bed, token_of(KS_STORE_READ_WORKER), KS_DONE);
    EXPECT_EQ_I64(bed.core->fleet.step, KS_SELF_REGISTERING);
    bed_step(&bed, &drain);
    for (int i = 0; i < 20 && !bed.core->drained; i++) {
        bed.now = ks_core_deadline(bed.core);
        bed_tick(&bed);
    }
    EXPECT(bed.core->drained);
}
