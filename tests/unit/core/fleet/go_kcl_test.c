/* SPDX-License-Identifier: Apache-2.0 */
#include "core/fleet/protocol.h"

#include <stddef.h>

#include "ks_test.h"
#include "unit/core/fleet/peers_bed.h"

#define NS(seconds) ((uint64_t)(PEERS_WALL_US / 1000000 + (seconds)) * UINT64_C(1000000000))

TEST(a_lease_that_is_renewed_is_not_taken_though_our_clock_is_an_hour_ahead)
{
    peers_live(KS_PROTOCOL_GO_KCL);
    for (int seconds = 0; seconds < 40; seconds += 5) {
        struct ks_lease_row row = peers_row(BED_OTHER, NS(-3600 + 10 + seconds));

        peers_look(&row);
        EXPECT(bed_asked(&peers_bed, KS_STORE_TAKE_OVER) == NULL);
        peers_wait(3400);
        peers_look(&row);
        EXPECT(bed_asked(&peers_bed, KS_STORE_TAKE_OVER) == NULL);
        peers_wait(1600);
    }
}

TEST(what_has_run_out_and_stands_still_is_taken_as_it_was_read)
{
    struct ks_lease_row row = peers_row(BED_OTHER, NS(5));
    const struct ks_store_effect *taken;
    uint32_t looks = 0;

    peers_live(KS_PROTOCOL_GO_KCL);
    do {
        peers_look(&row);
        taken = bed_asked(&peers_bed, KS_STORE_TAKE_OVER);
    } while (taken == NULL && ++looks < 20);
    EXPECT(taken != NULL);
    EXPECT(peers_wall_us >=
           PEERS_WALL_US + 6000000); /* Five seconds, and what clocks may differ by. */
    EXPECT(taken->rev == row.rev && taken->owner.worker == BED_OTHER);
    EXPECT(taken->next_rev % UINT64_C(1000000000) == 0);
    EXPECT(taken->next_rev >= (uint64_t)(peers_wall_us + 10000000) * 1000);
}

TEST(a_time_that_is_far_ahead_is_not_handed_on)
{
    struct ks_lease_row row = peers_row(0, NS(30));
    const struct ks_store_effect *taken;

    peers_live(KS_PROTOCOL_GO_KCL);
    peers_look(&row);
    taken = bed_asked(&peers_bed, KS_STORE_ASSIGN);
    EXPECT(taken != NULL && taken->next_rev > row.rev);
    row = peers_row(0, NS(3600));
    peers_live(KS_PROTOCOL_GO_KCL);
    peers_look(&row);
    taken = bed_asked(&peers_bed, KS_STORE_ASSIGN);
    EXPECT(taken != NULL && taken->rev == row.rev);
    EXPECT(taken->next_rev <= (uint64_t)(peers_wall_us + 11000000) * 1000);
}

/* Somebody has all of three leases, and one of them is being read, to be claimed: it was renewed since the look.
 * Returns which. */
static ks_shard about_to_claim(struct ks_lease_row rows[3])
{
    ks_shard shard;

    peers_live(KS_PROTOCOL_GO_KCL);
    peers_bed.core->config.stealing = true;
    for (uint32_t i = 0; i < 3; i++) {
        rows[i] = peers_row(BED_OTHER, NS(5));
        rows[i].shard = i;
    }
    peers_look_at(rows, 3);
    EXPECT(peers_read_token() != 0);
    EXPECT(bed_asked(&peers_bed, KS_STORE_PLAN) == NULL);
    shard = bed_asked(&peers_bed, KS_STORE_READ_LEASE)->shard;
    rows[shard].rev = NS(10);
    return shard;
}

/* Whether what was read is claimed. */
static bool claims(const struct ks_lease_row rows[3])
{
    EXPECT(peers_read(rows));
    return bed_asked(&peers_bed, KS_STORE_PLAN) != NULL;
}

TEST(a_lease_is_claimed_as_it_is_now_whatever_the_look_showed)
{
    struct ks_lease_row rows[3];
    const ks_shard shard = about_to_claim(rows);
    const struct ks_store_effect *claim;

    EXPECT(claims(rows));
    claim = bed_asked(&peers_bed, KS_STORE_PLAN);
    EXPECT_EQ_I64(claim->shard, shard);
    EXPECT_EQ_I64(claim->owner.worker, BED_OTHER);
    EXPECT_EQ_U64(claim->rev, NS(10));
    EXPECT_EQ_I64(claim->next_owner.worker, BED_ME);
}

TEST(what_is_no_more_to_be_claimed_is_let_be)
{
    enum { THIRD = BED_OTHER + 1 };
    struct ks_lease_row rows[3];

    rows[about_to_claim(rows)].next_owner.worker = THIRD;
    EXPECT(!claims(rows));
    rows[about_to_claim(rows)].owner.worker = THIRD; /* Who has one. */
    EXPECT(!claims(rows));
    rows[about_to_claim(rows)].finished = true;
    EXPECT(!claims(rows));
    (void)about_to_claim(rows); /* We are to leave. */
    peers_step(&(struct ks_event){.kind = KS_EVENT_DRAIN, .drain = {ks_span_ms(60000)}});
    EXPECT(!claims(rows));
}

/* The look shows times that are over when it is answered: those who renew have done so meanwhile. */
TEST(who_had_time_left_when_a_slow_look_began_is_claimed_from)
{
    struct ks_lease_row rows[3];

    peers_live(KS_PROTOCOL_GO_KCL);
    peers_bed.core->config.stealing = true;
    for (uint32_t i = 0; i < 3; i++) {
        rows[i] = peers_row(BED_OTHER, NS(5));
        rows[i].shard = i;
    }
    EXPECT(peers_bed.core->fleet.rows != 0);
    peers_wait(25000);
    peers_look_at(rows, 3);
    for (uint32_t i = 0; i < 3; i++)
        rows[i].rev = NS(30);
    EXPECT(claims(rows));
}

/* Our claim of this shard stands. */
static ks_shard claim_one_of(struct ks_lease_row rows[3])
{
    const ks_shard shard = about_to_claim(rows);

    EXPECT(claims(rows));
    EXPECT(peers_answer(KS_STORE_PLAN, shard, KS_DONE));
    rows[shard].next_owner.worker = BED_ME;
    return shard;
}

TEST(what_was_claimed_is_taken_when_it_is_given_back_and_not_a_look_later)
{
    struct ks_lease_row rows[3];
    const ks_shard shard = claim_one_of(rows);

    for (int i = 0; i < 3; i++) { /* It is not free yet. */
        peers_wait(1000);
        EXPECT(peers_read(rows));
        EXPECT(bed_asked(&peers_bed, KS_STORE_ASSIGN) == NULL);
    }
    rows[shard].owner.worker = 0;
    peers_wait(1000); /* By now all rows are looked at, and that takes. */
    EXPECT(peers_bed.core->fleet.rows != 0);
    EXPECT(peers_read(rows));
    EXPECT(bed_asked(&peers_bed, KS_STORE_ASSIGN) != NULL);
}

TEST(a_claim_of_before_is_looked_after)
{
    struct ks_lease_row row = peers_row(BED_OTHER, NS(5));

    row.next_owner.worker = BED_ME;
    peers_live(KS_PROTOCOL_GO_KCL);
    peers_look(&row);
    peers_wait(1000);
    row.owner.worker = 0;
    EXPECT(peers_read(&row));
    EXPECT(bed_asked(&peers_bed, KS_STORE_ASSIGN) != NULL);
}

TEST(who_leaves_takes_his_claim_back)
{
    struct ks_lease_row rows[3];
    const struct ks_store_effect *claim;

    (void)claim_one_of(rows);
    peers_step(&(struct ks_event){.kind = KS_EVENT_DRAIN, .drain = {ks_span_ms(60000)}});
    peers_wait(1000);
    EXPECT(peers_read(rows));
    claim = bed_asked(&peers_bed, KS_STORE_PLAN);
    EXPECT(claim != NULL);
    EXPECT_EQ_I64(claim->next_owner.worker, 0);
}

static void drain(void)
{
    peers_step(&(struct ks_event){.kind = KS_EVENT_DRAIN, .drain = {ks_span_ms(20000)}});
}

TEST(who_leaves_without_leases_waits_until_his_claim_is_gone)
{
    struct ks_lease_row rows[3];
    const ks_shard shard = claim_one_of(rows);

    drain();
    for (int tries = 0; tries < 3; tries++) { /* The table is away. */
        peers_wait(1000);
        if (peers_read(rows))
            EXPECT(peers_answer(KS_STORE_PLAN, shard, KS_UNKNOWN));
        EXPECT_EQ_I64(bed_count(&peers_bed, KS_EFFECT_DRAINED), 0);
    }
    peers_wait(1000);
    EXPECT(peers_read(rows));
    EXPECT(peers_answer(KS_STORE_PLAN, shard, KS_DONE));
    EXPECT_EQ_I64(bed_count(&peers_bed, KS_EFFECT_DRAINED), 1);
}

TEST(who_leaves_waits_for_his_claim_no_longer_than_for_anything)
{
    struct ks_lease_row rows[3];

    (void)claim_one_of(rows);
    drain();
    for (int seconds = 0; seconds < 25; seconds++)
        peers_wait(1000);
    EXPECT_EQ_I64(bed_count(&peers_bed, KS_EFFECT_DRAINED), 0);
    peers_wait(2000);
    EXPECT_EQ_I64(bed_count(&peers_bed, KS_EFFECT_DRAINED), 1);
}

TEST(a_claim_that_may_have_been_made_is_looked_after)
{
    struct ks_lease_row rows[3];
    const ks_shard shard = about_to_claim(rows);

    EXPECT(claims(rows));
    EXPECT(peers_answer(KS_STORE_PLAN, shard, KS_UNKNOWN));
    rows[shard].next_owner.worker = BED_ME;
    rows[shard].owner.worker = 0;
    peers_wait(1000);
    EXPECT(peers_read(rows));
    EXPECT(bed_asked(&peers_bed, KS_STORE_ASSIGN) != NULL);
}

TEST(a_claim_is_looked_after_though_its_row_could_not_be_read_for_long)
{
    struct ks_lease_row rows[3];
    const ks_shard shard = claim_one_of(rows);

    for (int seconds = 0; seconds < 30; seconds++) {
        peers_wait(1000);
        if (peers_read_token() != 0)
            bed_answer(&peers_bed, peers_read_token(), KS_UNKNOWN);
    }
    rows[shard].owner.worker = 0;
    peers_wait(1000);
    EXPECT(peers_read(rows));
    EXPECT(bed_asked(&peers_bed, KS_STORE_ASSIGN) != NULL);
}

/* Its owner would read it as soon as it can be read; we know of that a look later. */
TEST(what_waits_for_its_parents_is_not_claimed)
{
    struct ks_lease_row rows[3];

    peers_live(KS_PROTOCOL_GO_KCL);
    peers_bed.core->config.stealing = true;
    for (uint32_t i = 0; i < 3; i++) {
        rows[i] = peers_row(BED_OTHER, NS(5));
        rows[i].shard = i;
        rows[i].parents[0] = i == 0 ? KS_SHARD_NONE : 0;
    }
    for (int looks = 0; looks < 8; looks++) {
        peers_look_at(rows, 3);
        for (uint32_t i = 0; i < 3; i++)
            rows[i].rev += UINT64_C(5000000000);
        if (peers_read_token() != 0)
            EXPECT(!claims(rows) || bed_asked(&peers_bed, KS_STORE_PLAN)->shard == 0);
    }
}

/* A lease of ours since now, and so many records. */
static void hold(enum ks_protocol protocol, uint32_t records)
{
    struct ks_lease_row row = peers_row(0, NS(-100));
    const struct ks_store_effect *asked;

    peers_live(protocol);
    peers_look(&row);
    asked = bed_asked(&peers_bed, KS_STORE_ASSIGN);
    EXPECT(asked != NULL);
    row = peers_row(BED_ME, asked->next_rev);
    bed_answer(&peers_bed, asked->token, KS_UNKNOWN);
    asked = bed_asked(&peers_bed, KS_STORE_READ_LEASE);
    EXPECT(asked != NULL);
    bed_answer_lease(&peers_bed, asked->token, &row);
    peers_wait(0);
    bed_records(&peers_bed, 0, records, 10, false);
}

/* Whoever takes over waits for the time in the row, which is of whole seconds and moves on with every write. */
TEST(a_lease_that_is_checkpointed_often_is_over_no_later)
{
    const int64_t most_us = 10000000 + 1000000;
    uint32_t writes = 0;

    hold(KS_PROTOCOL_GO_KCL, 40);
    for (uint32_t settled = 0; settled < 40; settled++) {
        const struct ks_store_effect *asked;

        EXPECT_EQ_U64(bed_pull(&peers_bed, 0, 1), 1);
        EXPECT_EQ_I64(bed_settle(&peers_bed, 0, 0, settled, 1, KS_ACK, 0), KS_SETTLE_OK);
        peers_step(&(struct ks_event){.kind = KS_EVENT_PERSIST});
        peers_wait(100);
        asked = bed_asked(&peers_bed, KS_STORE_CHECKPOINT);
        if (asked == NULL)
            continue;
        EXPECT((int64_t)(asked->next_rev / 1000) - peers_wall_us <= most_us);
        bed_answer(&peers_bed, asked->token, KS_DONE);
        writes++;
    }
    EXPECT(writes >= 4);
}

/* All that is free at one look: the next one brings no answer. */
TEST(what_is_free_at_a_look_is_taken_within_two_beats)
{
    enum { FREE = 6 };
    struct ks_lease_row rows[FREE];
    bool asked[FREE] = {false};
    uint32_t count = 0;
    int64_t until_us;

    peers_live(KS_PROTOCOL_GO_KCL);
    for (ks_shard shard = 0; shard < FREE; shard++) {
        rows[shard] = peers_row(0, 0);
        rows[shard].shard = shard;
    }
    peers_look_at(rows, FREE);
    until_us = peers_wall_us + 2 * peers_bed.core->config.beat.us;
    while (peers_wall_us < until_us) {
        for (uint32_t i = 0; i < KS_LEADER_WRITES_MAX; i++) {
            const struct ks_leader_write *const write = &peers_bed.core->fleet.writes[i];

            if (!write->used || asked[write->shard])
                continue;
            asked[write->shard] = true;
            count++;
        }
        peers_wait(100);
    }
    EXPECT_EQ_U64(count, FREE);
}
