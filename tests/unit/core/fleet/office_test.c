/* SPDX-License-Identifier: Apache-2.0 */
#include "core/fleet/native.h"

#include "ks_test.h"
#include "unit/core/bed.h"

static struct bed bed;
static struct ks_worker_row rows[2]; /* We, and the other. */

static const struct ks_store_effect *must_ask(enum ks_store_operation operation)
{
    const struct ks_store_effect *asked = bed_asked(&bed, operation);

    EXPECT(asked != NULL);
    return asked;
}

/* We are registered beside another worker; the office is the other's, at epoch 4. */
static void beside_a_leader(void)
{
    bed_live(&bed);
    bed.core->fleet.deadline = KS_NEVER;
    bed.core->fleet.serial = UINT32_MAX;
    bed.core->fleet.news = 0;
    rows[0] = (struct ks_worker_row){.self = bed.core->fleet.self};
    rows[1] = (struct ks_worker_row){.self = {BED_OTHER, 9}, .beat = 1};
    bed_tick(&bed);
}

static void news(void)
{
    bed_answer_fleet(&bed, must_ask(KS_STORE_READ_FLEET)->token, rows, 2,
                     (struct ks_incarnation){BED_OTHER, 9}, 4);
}

/* Answers the read of the fleet until `operation` is asked for; returns how long that took. */
static int64_t until_asked(enum ks_store_operation operation)
{
    ks_instant from = bed.now;

    for (int i = 0; i < 40; i++) {
        news();
        bed_settle_down(&bed);
        if (bed_asked(&bed, operation) != NULL)
            return ks_span_to_ms(ks_instant_since(bed.now, from));
        if (bed_asked(&bed, KS_STORE_READ_FLEET) == NULL) {
            bed.now = ks_core_deadline(bed.core);
            bed_tick(&bed);
        }
    }
    FAIL("it was never asked for");
}

TEST(a_free_office_is_claimed_with_its_epoch)
{
    beside_a_leader();
    bed_answer_fleet(&bed, must_ask(KS_STORE_READ_FLEET)->token, rows, 2, KS_NOBODY, 6);
    EXPECT_EQ_I64(must_ask(KS_STORE_CLAIM_OFFICE)->epoch, 6);
    EXPECT_EQ_I64(must_ask(KS_STORE_CLAIM_OFFICE)->owner.worker, 0);
    bed_answer(&bed, must_ask(KS_STORE_CLAIM_OFFICE)->token, KS_DONE);
    EXPECT(bed.core->fleet.leads);
    EXPECT(bed_told(&bed, KS_STORY_OFFICE_WON));
}

TEST(a_silent_leader_is_fenced_after_the_watch_and_then_the_office_is_claimed)
{
    beside_a_leader();
    int64_t waited = until_asked(KS_STORE_FENCE);
    EXPECT_EQ_I64(waited, 10500);
    EXPECT_EQ_U64(must_ask(KS_STORE_FENCE)->expect_boot, 9);
    EXPECT_EQ_U64(must_ask(KS_STORE_FENCE)->expect_beat, 1);
    EXPECT(bed_asked(&bed, KS_STORE_CLAIM_OFFICE) == NULL);
    bed_answer(&bed, must_ask(KS_STORE_FENCE)->token, KS_DONE);
    EXPECT(must_ask(KS_STORE_READ_FLEET)->consistent);
    rows[1].life = KS_FENCED;
    bed.now = ks_instant_add(bed.now, ks_span_ms(5));
    news();
    EXPECT_EQ_I64(must_ask(KS_STORE_CLAIM_OFFICE)->owner.worker, BED_OTHER);
}

TEST(a_beat_that_moves_starts_the_watch_again)
{
    beside_a_leader();
    for (int i = 0; i < 30; i++) {
        rows[1].beat++;
        news();
        EXPECT(bed_asked(&bed, KS_STORE_FENCE) == NULL);
        bed.now = ks_core_deadline(bed.core);
        bed_tick(&bed);
    }
    EXPECT(ks_instant_since(bed.now, (ks_instant){INT64_C(1000000000)}).us > 20000000);
}

TEST(time_in_which_nothing_was_read_is_not_watched_time)
{
    beside_a_leader();
    news();
    bed_wait(&bed, 1200);
    const struct ks_store_effect *asked = must_ask(KS_STORE_READ_FLEET);
    bed.now = ks_instant_add(bed.now, ks_span_ms(20000)); /* The store was away. */
    bed_answer_fleet(&bed, asked->token, rows, 2, rows[1].self, 4);
    EXPECT(bed_asked(&bed, KS_STORE_FENCE) == NULL);
    EXPECT_EQ_I64(bed.core->members[1].seen_at.us, bed.now.us);
}

TEST(an_eventual_read_is_no_proof_of_death)
{
    beside_a_leader();
    EXPECT(!must_ask(KS_STORE_READ_FLEET)->consistent);
    rows[1].life = KS_GONE;
    news();
    EXPECT(bed_asked(&bed, KS_STORE_CLAIM_OFFICE) == NULL);
    EXPECT(must_ask(KS_STORE_READ_FLEET)->consistent);
}

TEST(more_rows_than_there_is_room_for_conclude_nothing)
{
    struct ks_worker_row many[9] = {{.self = {0, 0}}};

    beside_a_leader();
    for (uint32_t i = 0; i < 9; i++)
        many[i].self = (struct ks_incarnation){i + 1, 1};
    bed_answer_fleet(&bed, must_ask(KS_STORE_READ_FLEET)->token, many, 9, KS_NOBODY, 4);
    EXPECT(bed_asked(&bed, KS_STORE_CLAIM_OFFICE) == NULL);
    EXPECT(!bed.core->members[0].present);
}

TEST(a_drain_resigns_the_office)
{
    struct ks_event drain = {.kind = KS_EVENT_DRAIN, .drain = {ks_span_ms(1000)}};

    beside_a_leader();
    bed_answer_fleet(&bed, must_ask(KS_STORE_READ_FLEET)->token, rows, 2, KS_NOBODY, 6);
    bed_answer(&bed, must_ask(KS_STORE_CLAIM_OFFICE)->token, KS_DONE);
    bed_step(&bed, &drain);
    EXPECT_EQ_I64(must_ask(KS_STORE_RESIGN_OFFICE)->epoch, 7);
    EXPECT(!bed.core->fleet.leads);
}

TEST(an_office_that_a_former_incarnation_won_is_not_ours)
{
    uint64_t claim;

    beside_a_leader();
    bed_answer_fleet(&bed, must_ask(KS_STORE_READ_FLEET)->token, rows, 2, KS_NOBODY, 6);
    claim = must_ask(KS_STORE_CLAIM_OFFICE)->token;
    bed.core->fleet.step = KS_SELF_CHECKING;
    bed_answer(&bed, ks_token_make(KS_FOR_SELF, 0, bed.core->fleet.serial), KS_DONE); /* No row. */
    bed.core->fleet.step = KS_SELF_LIVE; /* Registered again, under another boot. */
    bed_answer(&bed, claim, KS_DONE);
    EXPECT(!bed.core->fleet.leads);
}

/* ---- Large fleets (A4). ---- */

/* The leader's row names deputies, and its beat moves. */
static void news_of_a_large_fleet(uint32_t deputy)
{
    const struct ks_effect *effect = bed_effect(&bed, KS_EFFECT_STORE, 0);
    struct ks_event event = {
        .kind = KS_EVENT_STORE,
        .store = {
            .outcome = KS_DONE,
            .workers = rows,
            .worker_count = 2,
            .leader = {.present = true, .holder = {BED_OTHER, 9}, .epoch = 4, .deputies = {deputy}},
            .app_present = true}};

    for (uint32_t i = 0; effect != NULL; effect = bed_effect(&bed, KS_EFFECT_STORE, ++i))
        if (effect->store.operation == KS_STORE_READ_FLEET ||
            effect->store.operation == KS_STORE_READ_NEWS)
            event.store.token = effect->store.token;
    EXPECT(event.store.token != 0);
    rows[1].beat++;
    bed_step(&bed, &event);
    bed.core->fleet.serial = UINT32_MAX; /* Our own heartbeats are not what this is about. */
    bed.now = ks_core_deadline(bed.core);
    bed_tick(&bed);
}

/* In service for longer than a newcomer is one. */
static void long_in_a_large_fleet(uint32_t deputy)
{
    beside_a_leader();
    for (int i = 0; i < 30; i++)
        news_of_a_large_fleet(deputy);
}

TEST(in_a_large_fleet_three_rows_are_news_enough)
{
    long_in_a_large_fleet(7);
    EXPECT(bed_asked(&bed, KS_STORE_READ_FLEET) == NULL);
    EXPECT_EQ_I64(must_ask(KS_STORE_READ_NEWS)->owner.worker, BED_OTHER);
    EXPECT_EQ_I64(must_ask(KS_STORE_READ_NEWS)->worker.worker, BED_ME);
}

TEST(a_newcomer_to_a_large_fleet_reads_all_of_it)
{
    beside_a_leader();
    for (int i = 0; i < 10; i++) {
        news_of_a_large_fleet(7);
        EXPECT(bed_asked(&bed, KS_STORE_READ_FLEET) != NULL);
    }
}

TEST(a_deputy_reads_all_of_a_large_fleet)
{
    long_in_a_large_fleet(BED_ME);
    EXPECT(bed_asked(&bed, KS_STORE_READ_FLEET) != NULL);
}

TEST(who_misses_the_leaders_beat_reads_all_of_a_large_fleet)
{
    long_in_a_large_fleet(7);
    for (int i = 0; i < 6; i++) { /* 6 x 833 ms: a beat and a half. */
        EXPECT(bed_asked(&bed, KS_STORE_READ_NEWS) != NULL);
        rows[1].beat--;
        news_of_a_large_fleet(7);
    }
    EXPECT(bed_asked(&bed, KS_STORE_READ_FLEET) != NULL);
}

TEST(rows_that_were_not_asked_for_are_not_gone)
{
    long_in_a_large_fleet(7);
    EXPECT(ks_native_member(bed.core, BED_ME) != NULL);
    bed_answer_fleet(&bed, must_ask(KS_STORE_READ_NEWS)->token, rows, 0, rows[1].self, 4);
    EXPECT(ks_native_member(bed.core, BED_ME) == NULL);
    EXPECT(ks_native_member(bed.core, BED_OTHER) == NULL);

    beside_a_leader();
    struct ks_worker_row three[3] = {rows[0], rows[1], {.self = {BED_OTHER + 1, 5}, .beat = 3}};
    bed_answer_fleet(&bed, must_ask(KS_STORE_READ_FLEET)->token, three, 3, rows[1].self, 4);
    bed.core->fleet.live_at = KS_LONG_AGO;
    bed.core->fleet.office.deputies[0] = 7;
    bed.now = ks_core_deadline(bed.core);
    bed_tick(&bed);
    bed_answer_fleet(&bed, must_ask(KS_STORE_READ_NEWS)->token, three, 2, rows[1].self, 4);
    EXPECT(ks_native_member(bed.core, BED_OTHER + 1) != NULL);
}

TEST(a_newcomer_lets_an_elder_lead)
{
    struct ks_worker_row three[3];

    beside_a_leader();
    three[0] = rows[0];
    three[1] = rows[1];
    three[2] = (struct ks_worker_row){.self = {BED_OTHER + 1, 5}, .beat = 7};
    bed_answer_fleet(&bed, must_ask(KS_STORE_READ_FLEET)->token, three, 3, rows[1].self, 4);
    three[2].beat++;
    bed_wait(&bed, 900);
    bed_answer_fleet(&bed, must_ask(KS_STORE_READ_FLEET)->token, three, 3, KS_NOBODY, 4);
    EXPECT(bed_asked(&bed, KS_STORE_CLAIM_OFFICE) == NULL);
    bed_wait(&bed, 900);
    bed_answer_fleet(&bed, must_ask(KS_STORE_READ_FLEET)->token, three, 3, KS_NOBODY, 4);
    EXPECT(bed_asked(&bed, KS_STORE_CLAIM_OFFICE) == NULL);
    bed_wait(&bed, 900); /* The elder does not: two looks are enough. */
    bed_answer_fleet(&bed, must_ask(KS_STORE_READ_FLEET)->token, three, 3, KS_NOBODY, 4);
    EXPECT(bed_asked(&bed, KS_STORE_CLAIM_OFFICE) != NULL);
}

static void wait_for_read(void)
{
    for (int i = 0; i < 40 && bed_asked(&bed, KS_STORE_READ_FLEET) == NULL; i++) {
        bed.now = ks_core_deadline(bed.core);
        bed_tick(&bed);
    }
}

/* The worker may be dead, and its row was damaged when all rows were read last. */
TEST(a_boot_in_a_row_that_was_damaged_has_not_just_come)
{
    const struct ks_member *member;

    for (int damaged = 0; damaged < 2; damaged++) {
        beside_a_leader();
        news();
        wait_for_read();
        rows[1].damaged = damaged == 1;
        rows[1].self.boot = damaged == 1 ? 0 : 9;
        bed_answer_fleet(&bed, must_ask(KS_STORE_READ_FLEET)->token, rows, damaged == 1 ? 2 : 1,
                         (struct ks_incarnation){BED_OTHER, 9}, 4);
        wait_for_read();
        rows[1] = (struct ks_worker_row){.self = {BED_OTHER, 10}, .beat = 1};
        news();
        member = ks_native_member(bed.core, BED_OTHER);
        EXPECT(member != NULL);
        EXPECT_EQ_I64(member->self.boot, 10);
        EXPECT_EQ_I64(member->advanced, damaged == 0);
    }
}

/* Our row was not in the last read of all rows, and eight others fill the table: the partial read shows it again. */
TEST(a_partial_read_that_shows_one_worker_too_many_leaves_it_out)
{
    struct ks_worker_row others[8];

    beside_a_leader();
    for (uint32_t i = 0; i < 8; i++)
        others[i] = (struct ks_worker_row){.self = {BED_OTHER + i, 9}, .beat = 1};
    EXPECT_EQ_U64(bed.core->config.workers_max, 8);
    bed_answer_fleet(&bed, must_ask(KS_STORE_READ_FLEET)->token, others, 8, rows[1].self, 4);
    bed.core->fleet.live_at = KS_LONG_AGO;
    bed.core->fleet.office.deputies[0] = 7;
    bed.now = ks_core_deadline(bed.core);
    bed_tick(&bed);
    bed_answer_fleet(&bed, must_ask(KS_STORE_READ_NEWS)->token, rows, 2, rows[1].self, 4);
    EXPECT(ks_native_member(bed.core, BED_ME) == NULL);
    EXPECT(ks_native_member(bed.core, BED_OTHER + 7) != NULL);
}
