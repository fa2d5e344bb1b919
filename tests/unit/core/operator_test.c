/* SPDX-License-Identifier: Apache-2.0 */
#include "core/operator.h"

#include "core/lease.h"
#include "core/session.h"

#include "ks_test.h"
#include "unit/core/bed.h"

static struct bed bed;
static ks_session_id session;

/* Leases of shards 0 and 1, epoch 3, rev 7, each with ten records that nobody has pulled. */
static void begin(void)
{
    bed_live(&bed);
    bed.core->fleet.deadline = KS_NEVER;
    bed.core->fleet.serial = UINT32_MAX; /* No heartbeat comes between. */
    session = bed_session(&bed, 100, 1 << 20);
    for (ks_shard shard = 0; shard < 2; shard++) {
        bed_hold(&bed, shard, 3);
        bed_settle_down(&bed);
        bed_records(&bed, shard, 10, 100, false);
    }
}

static void pause_shard(ks_shard shard, int64_t ms, bool keeps)
{
    struct ks_event event = {.kind = KS_EVENT_PAUSE};

    event.pause.shard = shard;
    event.pause.keeps = keeps;
    event.pause.until = ms == 0 ? KS_NEVER : ks_instant_add(bed.now, ks_span_ms(ms));
    bed_step(&bed, &event);
}

static void resume(ks_shard shard)
{
    struct ks_event event = {.kind = KS_EVENT_RESUME};

    event.shard.shard = shard;
    bed_step(&bed, &event);
}

static enum ks_operator_status said(void)
{
    const struct ks_effect *effect = bed_effect(&bed, KS_EFFECT_OPERATED, 0);

    EXPECT(effect != NULL);
    return effect->operated.status;
}

static enum ks_operator_status release(ks_shard shard)
{
    struct ks_event event = {.kind = KS_EVENT_RELEASE};

    event.shard.shard = shard;
    bed_step(&bed, &event);
    return said();
}

static enum ks_operator_status seek(ks_shard shard, bool force, bool dry_run)
{
    struct ks_event event = {.kind = KS_EVENT_SEEK};

    event.seek.shard = shard;
    event.seek.force = force;
    event.seek.dry_run = dry_run;
    bed_step(&bed, &event);
    return said();
}

static enum ks_operator_status skip(ks_shard shard, ks_number number, bool keep, bool dry_run)
{
    struct ks_event event = {.kind = KS_EVENT_SKIP};

    event.skip.shard = shard;
    event.skip.number = number;
    event.skip.keep = keep;
    event.skip.dry_run = dry_run;
    bed_step(&bed, &event);
    return said();
}

static struct ks_lease_row row(ks_shard shard, ks_epoch epoch, uint64_t rev)
{
    return (struct ks_lease_row){
        .shard = shard,
        .owner = bed.core->fleet.self,
        .epoch = epoch,
        .rev = rev,
        .parents = {KS_SHARD_NONE, KS_SHARD_NONE},
    };
}

static const struct ks_store_effect *must_ask(enum ks_store_operation operation)
{
    const struct ks_store_effect *asked = bed_asked(&bed, operation);

    EXPECT(asked != NULL);
    return asked;
}

static enum ks_idle idle(void)
{
    return ks_core_session_idle(bed.core, session, NULL);
}

/* ---- Pause ---- */

TEST(a_paused_shard_delivers_nothing_and_the_others_go_on)
{
    begin();
    pause_shard(0, 0, true);
    EXPECT(bed_told(&bed, KS_STORY_PAUSED));
    EXPECT_EQ_I64(bed_pull(&bed, session, 100), 10);
    EXPECT_EQ_I64(bed_effect(&bed, KS_EFFECT_DELIVER, 0)->deliver.shard, 1);
    EXPECT_EQ_I64(bed_pull(&bed, session, 100), 0);
    resume(0);
    EXPECT(bed_told(&bed, KS_STORY_RESUMED));
    EXPECT_EQ_I64(bed_pull(&bed, session, 100), 10);
    EXPECT_EQ_I64(bed_effect(&bed, KS_EFFECT_DELIVER, 0)->deliver.shard, 0);
}

TEST(a_paused_shard_is_read_no_further)
{
    begin();
    bed_settle_down(&bed);
    bed_records(&bed, 0, 1, 100, false); /* The read that was under way brings what it brings. */
    pause_shard(0, 0, true);
    EXPECT_EQ_I64(bed_pull(&bed, session, 100), 10);
    bed_settle_down(&bed);
    EXPECT(!bed.core->leases[0].reading);
    resume(0);
    bed_settle_down(&bed);
    EXPECT(bed.core->leases[0].reading);
}

TEST(what_is_in_flight_may_be_settled_while_its_shard_is_paused)
{
    begin();
    EXPECT_EQ_I64(bed_pull(&bed, session, 100), 20);
    pause_shard(KS_SHARD_NONE, 0, true);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 4, KS_ACK, 0), KS_SETTLE_OK);
    bed_tick(&bed);
    EXPECT_EQ_I64(must_ask(KS_STORE_CHECKPOINT)->up_to, 4);
    /* And what is to come again waits. */
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 4, 6, KS_RETRY, 0), KS_SETTLE_OK);
    EXPECT_EQ_I64(bed_pull(&bed, session, 100), 0);
}

TEST(a_pause_until_an_instant_ends_by_itself)
{
    begin();
    pause_shard(0, 5000, true);
    bed_wait(&bed, 4999);
    EXPECT_EQ_I64(bed_pull(&bed, session, 100), 10);
    EXPECT(!ks_instant_before(ks_instant_add(bed.now, ks_span_ms(1)), ks_core_deadline(bed.core)));
    bed_wait(&bed, 1);
    EXPECT(bed_told(&bed, KS_STORY_RESUMED));
    EXPECT_EQ_I64(bed_pull(&bed, session, 100), 10);
    EXPECT_EQ_I64(bed.core->pauses, 0);
}

TEST(a_later_pause_makes_an_earlier_one_no_longer)
{
    begin();
    pause_shard(0, 5000, true);
    pause_shard(1, 0, true);
    bed_wait(&bed, 5000);
    EXPECT_EQ_I64(bed_pull(&bed, session, 100), 10);
    EXPECT_EQ_I64(bed_effect(&bed, KS_EFFECT_DELIVER, 0)->deliver.shard, 0);
    EXPECT_EQ_I64(bed.core->pauses, 1);
}

TEST(a_pause_of_all_ends_by_itself_too)
{
    begin();
    pause_shard(KS_SHARD_NONE, 5000, true);
    EXPECT(bed_told(&bed, KS_STORY_PAUSED_ALL));
    EXPECT_EQ_I64(bed_pull(&bed, session, 100), 0);
    bed_wait(&bed, 5000);
    EXPECT(bed_told(&bed, KS_STORY_RESUMED_ALL));
    EXPECT_EQ_I64(bed_pull(&bed, session, 100), 20);
}

TEST(a_pause_of_all_counts_for_shards_that_come_and_spares_one_that_is_resumed)
{
    struct ks_lease_view view;

    begin();
    pause_shard(KS_SHARD_NONE, 0, true);
    bed_hold(&bed, 5, 1);
    EXPECT(ks_core_lease(bed.core, 5, &view));
    EXPECT(view.paused);
    resume(1);
    EXPECT_EQ_I64(bed_pull(&bed, session, 100), 10);
    EXPECT_EQ_I64(bed_effect(&bed, KS_EFFECT_DELIVER, 0)->deliver.shard, 1);
    resume(KS_SHARD_NONE);
    EXPECT(ks_core_lease(bed.core, 5, &view));
    EXPECT(!view.paused);
    EXPECT_EQ_I64(bed.core->pauses, 0);
}

TEST(whoever_gets_nothing_of_paused_shards_is_told_so)
{
    begin();
    pause_shard(0, 0, true);
    EXPECT_EQ_I64(idle(), KS_IDLE_NO_DATA);
    pause_shard(1, 0, true);
    EXPECT_EQ_I64(idle(), KS_IDLE_PAUSED);
    resume(KS_SHARD_NONE);
    EXPECT_EQ_I64(idle(), KS_IDLE_NO_DATA);
}

TEST(a_pause_that_keeps_no_lease_makes_the_worker_idle_in_the_fleets_eyes)
{
    begin();
    pause_shard(KS_SHARD_NONE, 0, false);
    EXPECT_EQ_I64(bed.core->fleet.mode, KS_IDLE);
    EXPECT_EQ_I64(bed.core->leases_used, 2); /* Until somebody else is there to take them. */
    resume(KS_SHARD_NONE);
    EXPECT_EQ_I64(bed.core->fleet.mode, KS_ACTIVE);
}

TEST(a_shard_whose_pause_keeps_no_lease_is_given_back_whenever_it_comes)
{
    begin();
    pause_shard(0, 0, false);
    EXPECT_EQ_I64(bed.core->leases[0].state, KS_LEASE_RETURNING);
    EXPECT_EQ_I64(bed.core->leases[1].state, KS_LEASE_HELD);
    EXPECT_EQ_I64(ks_operator_capacity(bed.core), 1);
    pause_shard(5, 0, false);
    bed_hold(&bed, 5, 1);
    bed_tick(&bed);
    EXPECT_EQ_I64(bed.core->leases[bed.core->directory[5].held].state, KS_LEASE_RETURNING);
}

/* ---- Release ---- */

TEST(a_released_lease_goes_the_way_of_a_planned_hand_over)
{
    begin();
    EXPECT_EQ_I64(bed_pull(&bed, session, 100), 20);
    EXPECT_EQ_I64(release(0), KS_OPERATOR_OK);
    EXPECT(bed_told(&bed, KS_STORY_RETURNING));
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 10, KS_ACK, 0), KS_SETTLE_OK);
    EXPECT_EQ_I64(release(0), KS_OPERATOR_BUSY);
    EXPECT_EQ_I64(release(7), KS_OPERATOR_NOT_HELD);
}

/* The heartbeat that is due, as far as the fleet is concerned. */
static void beat(enum ks_outcome outcome)
{
    struct ks_worker_row self = {.self = bed.core->fleet.self, .life = KS_LIVE};
    const struct ks_store_effect *asked;

    bed.core->fleet.serial = 0;
    bed_tick(&bed);
    asked = must_ask(KS_STORE_HEARTBEAT);
    if (outcome == KS_DONE)
        bed_answer_worker(&bed, asked->token, &self);
    else
        bed_answer(&bed, asked->token, outcome);
}

TEST(the_final_write_waits_until_the_fleet_knows_that_we_want_one_lease_less)
{
    struct ks_lease_row read;

    begin();
    EXPECT_EQ_I64(release(0), KS_OPERATOR_OK);
    bed_settle_down(&bed);
    EXPECT(bed_asked(&bed, KS_STORE_READ_LEASE) == NULL);
    bed.core->fleet.serial = 0;
    bed_tick(&bed);
    EXPECT_EQ_I64(must_ask(KS_STORE_HEARTBEAT)->capacity, 1);
    bed_answer(&bed, must_ask(KS_STORE_HEARTBEAT)->token, KS_UNKNOWN);
    bed_settle_down(&bed);
    EXPECT(bed_asked(&bed, KS_STORE_READ_LEASE) == NULL);
    bed_wait(&bed, 1000);
    beat(KS_DONE);
    bed_settle_down(&bed);
    read = row(0, 3, 7);
    bed_answer_lease(&bed, must_ask(KS_STORE_READ_LEASE)->token, &read);
    EXPECT_EQ_I64(must_ask(KS_STORE_FINAL)->shard, 0);
    EXPECT_EQ_I64(must_ask(KS_STORE_FINAL)->next_owner.worker, 0);
}

TEST(the_last_lease_that_is_released_makes_us_idle_and_the_rest_ends_by_itself)
{
    begin();
    EXPECT_EQ_I64(release(0), KS_OPERATOR_OK);
    EXPECT_EQ_I64(release(1), KS_OPERATOR_OK);
    EXPECT_EQ_I64(bed.core->fleet.mode, KS_IDLE);
    EXPECT_EQ_I64(ks_operator_capacity(bed.core), 0);
    bed_wait(&bed, 29999);
    EXPECT_EQ_I64(bed.core->fleet.mode, KS_IDLE);
    bed_wait(&bed, 1);
    EXPECT_EQ_I64(bed.core->fleet.mode, KS_ACTIVE);
}

/* ---- Seek ---- */

TEST(a_seek_wants_a_pause_or_force)
{
    begin();
    EXPECT_EQ_I64(seek(0, false, false), KS_OPERATOR_NOT_PAUSED);
    EXPECT_EQ_I64(seek(7, false, false), KS_OPERATOR_NOT_HELD);
    EXPECT(bed_asked(&bed, KS_STORE_SEEK) == NULL);
    EXPECT_EQ_I64(seek(0, true, false), KS_OPERATOR_OK);
    EXPECT_EQ_I64(seek(0, true, false), KS_OPERATOR_BUSY);
}

TEST(a_dry_run_changes_nothing)
{
    begin();
    pause_shard(0, 0, true);
    EXPECT_EQ_I64(seek(0, false, true), KS_OPERATOR_OK);
    bed_settle_down(&bed);
    EXPECT(bed_asked(&bed, KS_STORE_SEEK) == NULL);
    EXPECT(!bed.core->leases[0].given_up);
    EXPECT(bed_effect(&bed, KS_EFFECT_SOUGHT, 0) == NULL);
}

TEST(a_seek_is_a_write_of_the_owner_and_its_epoch_begins_anew)
{
    struct ks_event late = {.kind = KS_EVENT_SETTLE};
    struct ks_lease_row next;
    const struct ks_store_effect *write;

    begin();
    EXPECT_EQ_I64(bed_pull(&bed, session, 100), 20);
    pause_shard(0, 0, true);
    EXPECT_EQ_I64(seek(0, false, false), KS_OPERATOR_OK);
    write = must_ask(KS_STORE_SEEK);
    EXPECT_EQ_I64(write->epoch, 3);
    EXPECT_EQ_I64(write->rev, 7);
    EXPECT_EQ_I64(write->worker.worker, BED_ME);
    /* From the order on no ack of the old epoch counts. */
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 1, KS_ACK, 0), KS_SETTLE_FENCED);
    bed_answer(&bed, write->token, KS_DONE);
    EXPECT(bed_effect(&bed, KS_EFFECT_SOUGHT, 0)->sought.done);
    EXPECT(bed_told(&bed, KS_STORY_SOUGHT));
    EXPECT(bed_effect(&bed, KS_EFFECT_CLOSE, 0) != NULL);
    EXPECT_EQ_I64(bed.core->sessions[session].in_flight, 10);
    next = row(0, 4, 8);
    bed_answer_lease(&bed, must_ask(KS_STORE_READ_LEASE)->token, &next);
    EXPECT_EQ_I64(bed_effect(&bed, KS_EFFECT_OPEN, 0)->lease.epoch, 4);
    late.settle.session = session;
    late.settle.session_epoch = bed.core->sessions[session].epoch;
    late.settle.epoch = 3;
    late.settle.count = 1;
    bed_step(&bed, &late);
    EXPECT_EQ_I64(bed_effect(&bed, KS_EFFECT_SETTLED, 0)->settled.status, KS_SETTLE_FENCED);
}

TEST(a_seek_of_unknown_outcome_is_read_back_and_sent_again_with_the_same_rev)
{
    struct ks_lease_row read;

    begin();
    EXPECT_EQ_I64(seek(0, true, false), KS_OPERATOR_OK);
    bed_answer(&bed, must_ask(KS_STORE_SEEK)->token, KS_UNKNOWN);
    EXPECT(bed_effect(&bed, KS_EFFECT_SOUGHT, 0) == NULL);
    bed_wait(&bed, 200);
    read = row(0, 3, 7);
    bed_answer_lease(&bed, must_ask(KS_STORE_READ_LEASE)->token, &read);
    EXPECT_EQ_I64(must_ask(KS_STORE_SEEK)->rev, 7);
    bed_answer(&bed, must_ask(KS_STORE_SEEK)->token, KS_UNKNOWN);
    bed_wait(&bed, 400);
    read = row(0, 4, 8); /* It was applied. */
    bed_answer_lease(&bed, must_ask(KS_STORE_READ_LEASE)->token, &read);
    EXPECT(bed_effect(&bed, KS_EFFECT_SOUGHT, 0)->sought.done);
}

TEST(a_refused_seek_of_a_lease_that_is_anothers_is_over)
{
    struct ks_lease_row read;

    begin();
    EXPECT_EQ_I64(seek(0, true, false), KS_OPERATOR_OK);
    bed_answer(&bed, must_ask(KS_STORE_SEEK)->token, KS_REFUSED);
    read = row(0, 4, 7);
    read.owner = (struct ks_incarnation){BED_OTHER, 5};
    bed_answer_lease(&bed, must_ask(KS_STORE_READ_LEASE)->token, &read);
    EXPECT(!bed_effect(&bed, KS_EFFECT_SOUGHT, 0)->sought.done);
    EXPECT(bed_told(&bed, KS_STORY_LOST));
}

TEST(a_lease_that_is_to_move_is_given_away_and_not_sought)
{
    struct ks_lease_row read;

    begin();
    EXPECT_EQ_I64(seek(0, true, false), KS_OPERATOR_OK);
    bed_answer(&bed, must_ask(KS_STORE_SEEK)->token, KS_REFUSED);
    read = row(0, 3, 7);
    read.next_owner = (struct ks_incarnation){BED_OTHER, 5};
    bed_answer_lease(&bed, must_ask(KS_STORE_READ_LEASE)->token, &read);
    EXPECT(bed_asked(&bed, KS_STORE_SEEK) == NULL);
    EXPECT_EQ_I64(must_ask(KS_STORE_FINAL)->next_owner.worker, BED_OTHER);
    bed_answer(&bed, must_ask(KS_STORE_FINAL)->token, KS_DONE);
    EXPECT(!bed_effect(&bed, KS_EFFECT_SOUGHT, 0)->sought.done);
}

/* ---- Skip ---- */

TEST(a_skip_gives_up_the_failed_record_alone_and_its_lane_goes_on)
{
    struct ks_blocker blocker;
    const struct ks_effect *bury;

    begin();
    bed.core->config.poison =
        (struct ks_poison_policy){.max_attempts = 1, .exhausted = KS_EXHAUSTED_STOP_SHARD};
    EXPECT_EQ_I64(bed_pull(&bed, session, 4), 4);
    EXPECT(!ks_core_blocker(bed.core, 0, &blocker));
    EXPECT_EQ_I64(skip(0, 0, true, false), KS_OPERATOR_NOT_BLOCKED); /* It has not failed. */
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 1, 1, KS_RETRY, 0), KS_SETTLE_OK);
    bed_settle_down(&bed);
    EXPECT(ks_core_blocker(bed.core, 0, &blocker));
    EXPECT_EQ_U64(blocker.number, 1);
    EXPECT_EQ_U64(blocker.failures, 1);
    EXPECT(blocker.stopped);
    EXPECT(!blocker.out);
    EXPECT_EQ_I64(skip(0, 2, true, false), KS_OPERATOR_NOT_BLOCKED);
    EXPECT_EQ_I64(skip(0, 99, true, false), KS_OPERATOR_NOT_BLOCKED);
    EXPECT_EQ_I64(skip(7, 1, true, false), KS_OPERATOR_NOT_HELD);

    EXPECT_EQ_I64(skip(0, 1, true, true), KS_OPERATOR_OK); /* A dry run. */
    bed_settle_down(&bed);
    EXPECT(bed_effect(&bed, KS_EFFECT_BURY, 0) == NULL);
    EXPECT_EQ_I64(skip(0, 1, true, false), KS_OPERATOR_OK);
    bed_settle_down(&bed);
    bury = bed_effect(&bed, KS_EFFECT_BURY, 0);
    EXPECT(bury != NULL);
    EXPECT_EQ_U64(bury->bury.first, 1);
    EXPECT_EQ_U64(bury->bury.count, 1);
    EXPECT_EQ_I64(bury->bury.cause, KS_CAUSE_ASKED);
    EXPECT_EQ_I64(skip(0, 1, true, false), KS_OPERATOR_NOT_BLOCKED); /* It is given up already. */
    EXPECT_EQ_I64(bed.core->leases[0].epoch, 3);
}

TEST(a_skip_without_dead_letters_settles_the_record_and_says_that_it_is_lost)
{
    begin();
    bed.core->config.poison =
        (struct ks_poison_policy){.max_attempts = 1, .exhausted = KS_EXHAUSTED_PAUSE};
    EXPECT_EQ_I64(bed_pull(&bed, session, 4), 4);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 1, KS_RETRY, 0), KS_SETTLE_OK);
    bed_settle_down(&bed);
    EXPECT(bed.core->stopped);
    EXPECT_EQ_I64(bed_pull(&bed, session, 20), 0);
    EXPECT_EQ_I64(skip(0, 0, false, false), KS_OPERATOR_OK);
    EXPECT(bed_told(&bed, KS_STORY_SKIPPED));
    EXPECT(bed_told(&bed, KS_STORY_GOES_ON));
    EXPECT_EQ_U64(bed.core->leases[0].tracker.mark, 1);
    EXPECT_EQ_I64(bed_pull(&bed, session, 20), 19); /* On_exhausted=pause had stopped all shards. */
    ks_core_check(bed.core);
}

TEST(a_record_that_is_with_its_client_again_is_skipped_and_its_credit_comes_back)
{
    struct ks_blocker blocker;

    begin();
    bed.core->config.poison = (struct ks_poison_policy){.max_attempts = 0};
    EXPECT_EQ_I64(bed_pull(&bed, session, 1), 1);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 1, KS_RETRY, 60000), KS_SETTLE_OK);
    EXPECT(ks_core_blocker(bed.core, 0, &blocker)); /* It waits for its retry. */
    EXPECT_EQ_U64(blocker.number, 0);
    EXPECT_EQ_I64(bed_pull(&bed, session, 20), 10); /* The other shard. */
    EXPECT_EQ_I64(bed_settle(&bed, session, 1, 0, 10, KS_ACK, 0), KS_SETTLE_OK);
    bed_wait(&bed, 60000);
    EXPECT_EQ_I64(bed_pull(&bed, session, 1), 1);
    EXPECT_EQ_U64(bed.core->sessions[session].in_flight, 1);
    EXPECT_EQ_I64(skip(0, 0, false, false), KS_OPERATOR_OK);
    EXPECT_EQ_U64(bed.core->sessions[session].in_flight, 0);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 1, KS_RETRY, 0), KS_SETTLE_SETTLED);
    EXPECT_EQ_I64(bed_pull(&bed, session, 20), 9);
}
