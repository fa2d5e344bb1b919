/* SPDX-License-Identifier: Apache-2.0 */
#include "core/fleet/native.h"

#include "ks_test.h"
#include "unit/core/fleet/round.h"

#include <stdio.h>

TEST(a_row_below_what_we_know_is_an_old_replicas)
{
    struct ks_lease_row old = {.shard = 0, .epoch = 3, .parents = {KS_SHARD_NONE, KS_SHARD_NONE}};

    lead(1, 1);
    leases[0].owner = OTHER;
    leases[0].epoch = 4;
    next_round();
    ks_shards_see(bed.core, KS_SERIAL_NOW, &old);
    EXPECT_EQ_I64(bed.core->directory[0].epoch, 4);
    EXPECT_EQ_I64(bed.core->directory[0].owner.worker, BED_OTHER);
}

TEST(a_row_that_stays_below_what_we_know_was_made_again)
{
    lead(1, 1);
    leases[0].owner = OTHER;
    leases[0].epoch = 4;
    rows[1].held = 1;
    next_round();
    leases[0].owner = THIRD;
    leases[0].epoch = 1;
    for (int i = 0; i < 2; i++) {
        EXPECT_EQ_I64(bed.core->directory[0].owner.worker, BED_OTHER);
        rows[1].changes++;
        later_round();
    }
    EXPECT_EQ_I64(bed.core->directory[0].epoch, 1);
    EXPECT_EQ_I64(bed.core->directory[0].owner.worker, THIRD.worker);
}

TEST(a_row_that_one_read_does_not_show_is_still_there)
{
    lead(1, 1);
    leases[0].owner = OTHER;
    rows[1].held = 1;
    next_round();
    lease_count = 0;
    rows[1].changes++;
    next_round();
    EXPECT(bed.core->directory[0].present);
    rows[1].changes++;
    later_round();
    EXPECT(!bed.core->directory[0].present);
}

TEST(a_row_that_two_looks_missed_while_it_was_made_is_still_there)
{
    lead(1, 1);
    leases[0].owner = OTHER;
    rows[1].held = 1;
    next_round();
    lease_count = 0;
    rows[1].changes++;
    next_round();
    EXPECT_EQ_I64(bed.core->directory[0].missing, 1);
    blind_round(); /* The next look is asked for at once, and takes longer than a beat. */
    bed.now = ks_instant_add(bed.now, bed.core->config.beat);
    answer_rows();
    EXPECT(bed.core->directory[0].present);
}

TEST(what_was_written_since_a_look_was_asked_for_is_newer)
{
    lead(1, 1);
    leases[0].owner = OTHER;
    rows[1].held = 1;
    next_round();
    rows[1].mode = KS_DRAINING;
    blind_round();
    bed_answer(&bed, must_ask(KS_STORE_PLAN)->token, KS_DONE);
    answer_rows();
    EXPECT_EQ_I64(bed.core->directory[0].next_owner.worker, BED_ME);
    EXPECT_EQ_I64(bed.core->directory[0].missing, 0);
}

TEST(a_parent_that_was_finished_and_is_not_shown_again_is_not_over)
{
    lead(1, 1);
    leases[0].finished = true;
    next_round();
    EXPECT(ks_native_know(bed.core, 1));
    bed.core->directory[1].parents[0] = 0;
    EXPECT(ks_shards_parents_over(bed.core, &bed.core->directory[1]));
    lease_count = 0;
    rows[1].changes++;
    later_round();
    EXPECT(!ks_shards_parents_over(bed.core, &bed.core->directory[1]));
}

TEST(a_damaged_row_that_somebody_deletes_is_made_anew)
{
    struct ks_shard_row shard = shard_row(0, KS_SHARD_NONE, KS_SHARD_NONE);

    lead(1, 1);
    leases[0].damaged = true;
    next_round();
    list(&shard, 1);
    lease_count = 0;
    for (int i = 0; i < 2; i++) {
        EXPECT(bed.core->directory[0].damaged);
        rows[1].changes++;
        later_round();
    }
    EXPECT_EQ_I64(must_ask(KS_STORE_CREATE)->shard, 0);
}

TEST(who_got_a_lease_by_a_write_of_unknown_outcome_is_told_when_the_row_shows_it)
{
    lead(1, 1);
    bed.core->idle_at = KS_LONG_AGO; /* We want none. */
    next_round();
    EXPECT_EQ_I64(must_ask(KS_STORE_ASSIGN)->worker.worker, BED_OTHER);
    leases[0].owner = OTHER;
    leases[0].epoch++;
    answer_write(0, KS_UNKNOWN);
    EXPECT_EQ_I64(bed.core->directory[0].take, KS_HINT_TOLD);
    next_round();
    EXPECT(bed.core->directory[0].take != KS_HINT_TOLD);
}

TEST(a_read_that_was_asked_for_before_another_was_answered_shows_nothing_new)
{
    struct ks_lease_row before;
    struct ks_lease_row since;
    uint32_t asked;

    lead(2, 1);
    leases[0].owner = OTHER;
    leases[0].epoch = 4;
    next_round();
    before = since = leases[0];
    since.next_owner = THIRD;
    asked = ks_core_serial(bed.core);
    ks_shards_see(bed.core, ks_core_serial(bed.core), &since);
    ks_shards_see(bed.core, asked, &before);
    EXPECT_EQ_I64(bed.core->directory[0].next_owner.worker, THIRD.worker);
    before.epoch++; /* What is of a later epoch is news, however it came. */
    ks_shards_see(bed.core, asked, &before);
    EXPECT_EQ_I64(bed.core->directory[0].next_owner.worker, 0);
}

TEST(who_got_a_lease_while_our_write_of_it_has_no_answer_is_told)
{
    struct ks_lease_row moved;

    lead(2, 1);
    leases[0].owner = OTHER;
    rows[1].held = 1;
    next_round();
    ks_leader_write(bed.core, 0, KS_STORE_PLAN, THIRD, &bed.effects);
    moved = leases[0];
    moved.owner = THIRD;
    moved.epoch++;
    ks_shards_see(bed.core, KS_SERIAL_NOW, &moved);
    EXPECT_EQ_I64(bed.core->directory[0].take, KS_HINT_DUE);
}

TEST(an_answer_about_a_row_that_is_gone_changes_nothing)
{
    lead(1, 1);
    leases[0].owner = OTHER;
    rows[1].held = 1;
    next_round();
    ks_leader_write(bed.core, 0, KS_STORE_PLAN, bed.core->fleet.self, &bed.effects);
    lease_count = 0;
    for (int i = 0; i < 2; i++) {
        rows[1].changes++;
        later_round();
    }
    EXPECT(!bed.core->directory[0].present);
    answer_write(0, KS_DONE);
    EXPECT_EQ_I64(bed.core->directory[0].next_owner.worker, 0);
    EXPECT(bed.core->fleet.rows_stale);
}

TEST(a_finished_row_goes_an_hour_after_its_shard_and_not_before_its_children_have_rows)
{
    struct ks_shard_row child = shard_row(1, 0, KS_SHARD_NONE);

    lead(1, 2);
    leases[0].finished = true;
    leases[1].owner = OTHER;
    leases[1].parents[0] = 0;
    rows[1].held = 1;
    next_round();
    list(&child, 1);
    bed.now = ks_instant_add(bed.now, ks_span_ms(1000));
    list(&child, 1);
    EXPECT(!ks_shards_may_delete(bed.core, 0));
    bed.now = ks_instant_add(bed.now, ks_span_ms(3600000));
    bed_tick(&bed);
    EXPECT(ks_shards_may_delete(bed.core, 0));
    bed.core->directory[1].present = false;
    EXPECT(!ks_shards_may_delete(bed.core, 0));
    /* One listing without the child proves nothing. */
    list(&child, 0);
    EXPECT(!ks_shards_may_delete(bed.core, 0));
    bed.core->directory[1].present = true;
    /* In the stream after all. */
    struct ks_shard_row both[] = {shard_row(0, KS_SHARD_NONE, KS_SHARD_NONE), child};
    list(both, 2);
    EXPECT(!ks_shards_may_delete(bed.core, 0));
}

TEST(a_shard_that_another_ended_is_a_reason_to_list_at_once)
{
    lead(1, 1);
    leases[0].owner = OTHER;
    rows[1].held = 1;
    next_round();
    leases[0].owner = KS_NOBODY;
    leases[0].finished = true;
    leases[0].epoch++;
    rows[1].changes++;
    rows[1].held = 0;
    next_round();
    EXPECT(bed.core->fleet.listing);
}

/* ---- First shards: a graph of KCL's tests. ----
 *
 *     until 102:   0   1   2   3   4   5
 *                   \ /     \ /    |   |
 *     until 205:     6       7     4   5
 *                     \     /      |  / \
 *     open:              8         4  9 10
 */

enum { GRAPH = 11, OPEN = 0 };
static const struct {
    ks_shard parents[KS_PARENTS_MAX];
    int64_t closed_at;
} graph[GRAPH] = {
    {{KS_SHARD_NONE, KS_SHARD_NONE}, 102},
    {{KS_SHARD_NONE, KS_SHARD_NONE}, 102},
    {{KS_SHARD_NONE, KS_SHARD_NONE}, 102},
    {{KS_SHARD_NONE, KS_SHARD_NONE}, 102},
    {{KS_SHARD_NONE, KS_SHARD_NONE}, OPEN},
    {{KS_SHARD_NONE, KS_SHARD_NONE}, 205},
    {{0, 1}, 205},
    {{2, 3}, 205},
    {{6, 7}, OPEN},
    {{5, KS_SHARD_NONE}, OPEN},
    {{5, KS_SHARD_NONE}, OPEN},
};

/* The listing from an instant on, as a source gives it; twice, a second apart, so that who is missing is known. */
static void list_graph(int64_t since)
{
    struct ks_shard_row shards[GRAPH];
    uint32_t count = 0;

    for (ks_shard shard = 0; shard < GRAPH; shard++)
        if (graph[shard].closed_at == OPEN || graph[shard].closed_at >= since)
            shards[count++] = shard_row(shard, graph[shard].parents[0], graph[shard].parents[1]);
    list(shards, count);
    bed.now = ks_instant_add(bed.now, ks_span_ms(1000));
    list(shards, count);
}

static void put_row(ks_shard shard, bool finished)
{
    leases[lease_count++] = (struct ks_lease_row){
        .shard = shard,
        .epoch = 1,
        .owner = finished ? KS_NOBODY : OTHER,
        .parents = {graph[shard].parents[0], graph[shard].parents[1]},
        .finished = finished,
    };
}

static bool is_being_made(ks_shard shard)
{
    for (uint32_t i = 0; i < KS_LEADER_WRITES_MAX; i++) {
        const struct ks_leader_write *write = &bed.core->fleet.writes[i];

        if (write->used && write->shard == shard && write->operation == KS_STORE_CREATE)
            return true;
    }
    return false;
}

/* The next round makes the rows of these shards and of no other: "4 8 9 10 ". */
static void expect_made(const char *expected)
{
    char made[64] = "";
    size_t size = 0;

    bed.core->fleet.rows_stale = true;
    while (bed.core->fleet.rows_stale)
        next_round(); /* One may be under way. */
    for (ks_shard shard = 0; shard < GRAPH; shard++) {
        if (!is_being_made(shard))
            continue;
        size += (size_t)snprintf(made + size, sizeof made - size, "%u ", shard);
        put_row(shard, false);
        answer_write(shard, KS_DONE);
    }
    EXPECT_STR(made, expected);
}

static void finish(ks_shard shard)
{
    for (uint32_t i = 0; i < lease_count; i++) {
        if (leases[i].shard != shard)
            continue;
        leases[i].finished = true;
        leases[i].owner = KS_NOBODY;
        leases[i].epoch++;
    }
}

static void begin_graph(int64_t since)
{
    lead(1, 0);
    next_round();
    list_graph(since);
}

TEST(a_start_at_the_horizon_begins_with_the_oldest_and_goes_on_as_they_end)
{
    begin_graph(0);
    expect_made("0 1 2 3 4 5 ");
    expect_made("");
    finish(0);
    finish(5);
    expect_made("9 10 ");
    finish(1);
    finish(2);
    expect_made("6 ");
    finish(3);
    expect_made("7 ");
    finish(7);
    expect_made("");
    finish(6);
    expect_made("8 ");
    expect_made("");
}

TEST(a_start_at_an_instant_begins_with_what_was_open_then)
{
    begin_graph(200);
    expect_made("4 5 6 7 ");
    expect_made("");
    finish(6);
    finish(7);
    expect_made("8 ");
    finish(5);
    expect_made("9 10 ");
}

TEST(a_start_after_the_last_reshard_begins_with_the_open_ones)
{
    begin_graph(1000);
    expect_made("4 8 9 10 ");
    expect_made("");
}

TEST(what_an_interrupted_start_left_out_is_made_and_nothing_else)
{
    lead(1, 0);
    put_row(0, true);
    put_row(2, false);
    put_row(5, false);
    next_round();
    list_graph(0);
    expect_made("1 3 4 ");
    finish(1);
    expect_made("6 ");
    /* 7 has expired, unread, and never gets a row; 5 and 6 have one, and are waited for. */
    list_graph(1000);
    expect_made("");
    finish(6);
    expect_made("8 ");
    finish(5);
    expect_made("9 10 ");
}

TEST(listings_that_come_together_prove_no_absence)
{
    struct ks_shard_row child = shard_row(6, 0, 1);

    lead(1, 0);
    next_round();
    list(&child, 1);
    list(&child, 1);
    expect_made("");
    bed.now = ks_instant_add(bed.now, ks_span_ms(1000));
    list(&child, 1);
    expect_made("6 ");
}
