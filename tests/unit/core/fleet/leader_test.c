/* SPDX-License-Identifier: Apache-2.0 */
#include "core/fleet/native.h"

#include "ks_test.h"
#include "unit/core/fleet/round.h"

TEST(a_new_leader_that_is_a_newcomer_waits_for_those_who_may_still_show_themselves)
{
    lead(1, 2);
    bed.core->fleet.warm = false;
    answer_rows();
    bed_answer_fleet(&bed, must_ask(KS_STORE_READ_FLEET)->token, rows, row_count,
                     bed.core->fleet.self, 2);
    bed_settle_down(&bed);
    EXPECT(bed_asked(&bed, KS_STORE_ASSIGN) == NULL);
    next_round(); /* The other has shown itself; others may be about to come. */
    EXPECT(bed_asked(&bed, KS_STORE_ASSIGN) == NULL);
    EXPECT(ks_leader_mustering(bed.core));
    while (ks_instant_since(bed.now, bed.core->fleet.won_at).us < bed.core->config.beat.us)
        next_round();
    /* One each. */
    EXPECT_EQ_I64(bed_count(&bed, KS_EFFECT_STORE), 2);
    EXPECT(bed_effect(&bed, KS_EFFECT_STORE, 0)->store.worker.worker !=
           bed_effect(&bed, KS_EFFECT_STORE, 1)->store.worker.worker);
    EXPECT_EQ_I64(bed_effect(&bed, KS_EFFECT_STORE, 0)->store.epoch, 1);
}

TEST(a_new_leader_that_has_long_watched_the_others_gives_at_once)
{
    lead(2, 2);
    EXPECT(bed.core->fleet.warm);
    answer_rows();
    bed_answer_fleet(&bed, must_ask(KS_STORE_READ_FLEET)->token, rows, row_count,
                     bed.core->fleet.self, 2);
    bed_settle_down(&bed);
    EXPECT(bed_asked(&bed, KS_STORE_ASSIGN) != NULL);
}

TEST(a_boot_that_comes_beating_is_fit_at_first_sight)
{
    lead(1, 4);
    row_count = 1; /* It is not there yet .. */
    lease_count = 0;
    next_round();
    row_count = 2;
    rows[1].self.boot = 10;
    rows[1].beat = 0;
    lease_count = 4;
    bed.core->fleet.rows_stale = true;
    next_round(); /* .. and was registered and has beaten since. */
    EXPECT_EQ_I64(rows[1].beat, 1);
    EXPECT_EQ_I64(bed_count(&bed, KS_EFFECT_STORE), 4);
    EXPECT_EQ_I64(ks_native_member(bed.core, BED_OTHER)->planned, 2);
}

TEST(a_registration_that_comes_late_is_not_fit)
{
    lead(1, 4);
    row_count = 1;
    lease_count = 0;
    next_round();
    row_count = 2;
    rows[1].self.boot = 10;
    rows[1].beat = UINT64_MAX; /* 0 in the round. */
    lease_count = 4;
    bed.core->fleet.rows_stale = true;
    next_round();
    EXPECT_EQ_I64(rows[1].beat, 0);
    EXPECT_EQ_I64(ks_native_member(bed.core, BED_OTHER)->planned, 0);
}

TEST(a_boot_that_an_old_replica_did_not_show_has_not_just_come)
{
    lead(1, 4);
    row_count = 1;
    lease_count = 0;
    next_round();
    row_count = 2; /* The same boot, and the same beat, as before. */
    rows[1].beat--;
    lease_count = 4;
    bed.core->fleet.rows_stale = true;
    next_round();
    EXPECT_EQ_I64(ks_native_member(bed.core, BED_OTHER)->planned, 0);
}

TEST(a_worker_that_is_idle_gets_nothing)
{
    lead(1, 2);
    rows[1].mode = KS_IDLE;
    next_round();
    EXPECT_EQ_I64(bed_effect(&bed, KS_EFFECT_STORE, 0)->store.worker.worker, BED_ME);
    EXPECT_EQ_I64(bed_effect(&bed, KS_EFFECT_STORE, 1)->store.worker.worker, BED_ME);
}

TEST(who_was_given_a_lease_is_told_and_we_tell_ourselves)
{
    lead(1, 2);
    next_round();
    next_round();
    for (uint32_t i = 0; i < KS_LEADER_WRITES_MAX; i++) {
        struct ks_leader_write *write = &bed.core->fleet.writes[i];
        bool other = write->target.worker == BED_OTHER;

        if (!write->used)
            continue;
        bed_answer(&bed, ks_token_make(KS_FOR_SHARD, i, write->serial), KS_DONE);
        EXPECT(bed_told(&bed, KS_STORY_ASSIGNED));
        if (other)
            EXPECT_EQ_I64(must_ask(KS_STORE_HINTS)->take_count, 1);
        else
            EXPECT(bed_asked(&bed, KS_STORE_READ_LEASE) != NULL);
    }
}

TEST(the_leases_of_a_fenced_worker_are_taken_over_and_those_of_a_live_one_are_left)
{
    lead(1, 2);
    leases[0].owner = (struct ks_incarnation){BED_OTHER, 9};
    leases[1].owner = (struct ks_incarnation){BED_OTHER, 8}; /* An earlier boot. */
    next_round();
    EXPECT_EQ_I64(bed_count(&bed, KS_EFFECT_STORE), 1);
    EXPECT_EQ_I64(must_ask(KS_STORE_TAKE_OVER)->shard, 1);
    EXPECT_EQ_U64(must_ask(KS_STORE_TAKE_OVER)->owner.boot, 8);
    bed_answer(&bed, must_ask(KS_STORE_TAKE_OVER)->token, KS_UNKNOWN);
    rows[1].life = KS_FENCED;
    next_round();
    EXPECT_EQ_I64(bed_count(&bed, KS_EFFECT_STORE), 2);
}

TEST(workers_that_were_read_before_the_lease_row_prove_no_death)
{
    struct ks_core *core;

    lead(1, 1);
    leases[0].owner = OTHER;
    next_round();
    core = bed.core;
    core->directory[0].owner =
        THIRD; /* It came after the read of the workers, in which it is not. */
    core->directory[0].known = ks_core_serial(core);
    core->fleet.repairing = true;
    core->fleet.balancing = false;
    core->fleet.cursor = 0;
    bed_tick(&bed);
    EXPECT(bed_asked(&bed, KS_STORE_TAKE_OVER) == NULL);
    core->fleet.proof = ks_core_serial(core);
    core->fleet.repairing = true;
    core->fleet.balancing = false;
    core->fleet.cursor = 0;
    bed_tick(&bed);
    EXPECT_EQ_I64(must_ask(KS_STORE_TAKE_OVER)->owner.worker, THIRD.worker);
}

TEST(a_child_gets_a_row_only_when_its_parents_are_over)
{
    struct ks_shard_row shards[] = {shard_row(0, KS_SHARD_NONE, KS_SHARD_NONE),
                                    shard_row(1, 0, KS_SHARD_NONE), shard_row(2, 0, KS_SHARD_NONE)};

    lead(1, 1);
    leases[0].owner = (struct ks_incarnation){BED_OTHER, 9};
    next_round();
    list(shards, 3);
    next_round();
    EXPECT(bed_asked(&bed, KS_STORE_CREATE) == NULL);
    leases[0].owner = KS_NOBODY;
    leases[0].finished = true;
    rows[1].changes++;
    next_round();
    EXPECT_EQ_I64(bed_count(&bed, KS_EFFECT_STORE), 2);
    EXPECT_EQ_I64(must_ask(KS_STORE_CREATE)->shard, 1);
}

TEST(a_parent_without_a_row_counts_as_gone_after_two_listings_without_it)
{
    struct ks_shard_row shards[] = {shard_row(3, 1, KS_SHARD_NONE)};

    lead(1, 0);
    next_round();
    list(shards, 1);
    next_round();
    EXPECT(bed_asked(&bed, KS_STORE_CREATE) == NULL);
    bed.now = ks_instant_add(bed.now, ks_span_ms(1000));
    list(shards, 1);
    next_round();
    EXPECT_EQ_I64(must_ask(KS_STORE_CREATE)->shard, 3);
}

TEST(a_damaged_row_is_told_once_and_left_alone)
{
    lead(1, 2);
    leases[0].damaged = true;
    answer_rows();
    EXPECT(bed_told(&bed, KS_STORY_DAMAGED));
    next_round();
    EXPECT_EQ_I64(bed_count(&bed, KS_EFFECT_STORE), 1);
    EXPECT_EQ_I64(must_ask(KS_STORE_ASSIGN)->shard, 1);
}

TEST(a_worker_that_holds_less_than_its_rows_for_a_while_is_told_again)
{
    bool told = false;

    lead(1, 1);
    leases[0].owner = (struct ks_incarnation){BED_OTHER, 9};
    for (int i = 0; i < 12 && !told; i++) {
        next_round();
        told = bed_asked(&bed, KS_STORE_HINTS) != NULL;
    }
    EXPECT(told);
    EXPECT_EQ_I64(must_ask(KS_STORE_HINTS)->takes[0].shard, 0);
}

TEST(a_next_owner_that_cannot_carry_is_replaced)
{
    lead(2, 1);
    leases[0].owner = OTHER;
    leases[0].next_owner = THIRD;
    rows[1].held = 1;
    rows[2].mode = KS_IDLE;
    next_round();
    EXPECT_EQ_I64(must_ask(KS_STORE_PLAN)->next_owner.worker, BED_ME);
    answer_write(0, KS_DONE);
    EXPECT_EQ_I64(bed.core->directory[0].next_owner.worker, BED_ME);
}

TEST(a_dead_owners_lease_goes_to_who_was_to_have_it)
{
    lead(2, 1);
    leases[0].owner = OTHER;
    leases[0].next_owner = THIRD;
    rows[1].life = KS_FENCED;
    next_round();
    EXPECT_EQ_I64(must_ask(KS_STORE_TAKE_OVER)->worker.worker, BED_OTHER + 1);
}

TEST(the_leader_of_a_large_fleet_names_two_deputies_who_stay_it_while_they_are_fit)
{
    lead(2, 2);
    bed.core->config.large_fleet = 2;
    next_round();
    EXPECT_EQ_I64(must_ask(KS_STORE_NAME_DEPUTIES)->epoch, 2);
    EXPECT_EQ_I64(must_ask(KS_STORE_NAME_DEPUTIES)->worker.worker, BED_ME);
    EXPECT_EQ_I64(must_ask(KS_STORE_NAME_DEPUTIES)->deputies[0], BED_OTHER);
    EXPECT_EQ_I64(must_ask(KS_STORE_NAME_DEPUTIES)->deputies[1], BED_OTHER + 1);
    bed_answer(&bed, must_ask(KS_STORE_NAME_DEPUTIES)->token, KS_DONE);
    EXPECT(bed_asked(&bed, KS_STORE_NAME_DEPUTIES) == NULL);
    rows[1].mode = KS_DRAINING;
    bed.core->fleet.office.deputies[0] = BED_OTHER;
    next_round(); /* The table of these rounds names none. */
    EXPECT_EQ_I64(must_ask(KS_STORE_NAME_DEPUTIES)->deputies[0], BED_OTHER + 1);
    EXPECT_EQ_I64(must_ask(KS_STORE_NAME_DEPUTIES)->deputies[1], 0);
}

TEST(a_small_fleet_has_no_deputies)
{
    lead(2, 2);
    next_round();
    next_round();
    EXPECT(bed_asked(&bed, KS_STORE_NAME_DEPUTIES) == NULL);
    EXPECT_EQ_I64(bed.core->fleet.deputies[0], 0);
}

/* ---- Looks at the rows that take long. ---- */

TEST(a_look_that_takes_long_holds_up_no_take_over)
{
    ks_instant asked_at;

    lead(1, 1);
    leases[0].owner = OTHER;
    next_round();
    rows[1].life = KS_FENCED;
    blind_round();
    EXPECT_EQ_I64(must_ask(KS_STORE_TAKE_OVER)->shard, 0);
    asked_at = bed.core->fleet.rows_asked_at;
    EXPECT(ks_instant_since(bed.now, asked_at).us <
           bed.core->config.timeout.us + bed.core->config.round.us + 10000);
}

TEST(looks_that_come_to_nothing_hold_up_no_take_over)
{
    lead(1, 1);
    leases[0].owner = OTHER;
    next_round();
    rows[1].life = KS_FENCED;
    bed.core->fleet.rows_stale = true;
    for (int i = 0; i < 20 && bed.core->fleet.news == 0; i++) {
        bed.now = ks_instant_max(bed.now, ks_core_deadline(bed.core));
        bed_tick(&bed);
        if (bed.core->fleet.rows != 0)
            bed_answer(&bed, ks_token_make(KS_FOR_ROWS, 0, bed.core->fleet.rows), KS_UNKNOWN);
    }
    EXPECT(bed.core->fleet.news != 0);
    next_round();
    EXPECT_EQ_I64(must_ask(KS_STORE_TAKE_OVER)->shard, 0);
}

TEST(while_a_look_takes_long_no_row_is_made_and_nothing_moves_but_from_who_leaves)
{
    struct ks_shard_row shards[] = {shard_row(3, KS_SHARD_NONE, KS_SHARD_NONE)};

    lead(1, 3);
    for (uint32_t i = 0; i < 3; i++)
        leases[i].owner = OTHER;
    lease_count = 1;
    rows[1].held = 3;
    next_round();
    list(shards, 1);
    lease_count = 3;
    for (uint32_t i = 1; i < 3; i++) {
        (void)ks_native_know(bed.core, i);
        ks_shards_see(bed.core, KS_SERIAL_NOW, &leases[i]);
    }
    blind_round();
    EXPECT_EQ_I64(bed_count(&bed, KS_EFFECT_STORE), 0); /* Neither CREATE nor PLAN. */
    rows[1].mode = KS_DRAINING;
    blind_round();
    EXPECT_EQ_I64(must_ask(KS_STORE_PLAN)->owner.worker, BED_OTHER);
    next_round(); /* The look is answered. */
    EXPECT_EQ_I64(must_ask(KS_STORE_CREATE)->shard, 3);
}

TEST(a_new_leader_that_has_seen_no_rows_gives_and_makes_nothing)
{
    struct ks_shard_row shards[] = {shard_row(0, KS_SHARD_NONE, KS_SHARD_NONE)};

    lead(1, 1);
    (void)ks_native_know(bed.core, 1);
    bed.core->directory[1].present = true; /* From when it led before. */
    list(shards, 1);
    blind_round();
    EXPECT_EQ_I64(bed_count(&bed, KS_EFFECT_STORE), 0);
}

TEST(a_write_without_an_answer_is_looked_after_while_a_look_takes_long)
{
    lead(1, 1);
    leases[0].owner = OTHER;
    next_round();
    rows[1].life = KS_FENCED;
    blind_round();
    bed_answer(&bed, must_ask(KS_STORE_TAKE_OVER)->token, KS_UNKNOWN);
    blind_round();
    EXPECT_EQ_I64(must_ask(KS_STORE_READ_LEASE)->shard, 0);
    EXPECT(must_ask(KS_STORE_READ_LEASE)->consistent);
    bed_answer_lease(&bed, must_ask(KS_STORE_READ_LEASE)->token, &leases[0]);
    blind_round();
    EXPECT(bed_asked(&bed, KS_STORE_TAKE_OVER) != NULL);
}

TEST(each_look_that_is_answered_has_a_round_before_the_next_one)
{
    lead(1, 1);
    next_round();
    blind_round();
    bed.core->fleet.rows_stale = true; /* Something moved while it was under way. */
    answer_rows();
    bed.now = ks_instant_max(bed.now, bed.core->fleet.round_at);
    bed_tick(&bed);
    EXPECT(bed.core->fleet.rows == 0);
    EXPECT(bed.core->fleet.news != 0);
}
