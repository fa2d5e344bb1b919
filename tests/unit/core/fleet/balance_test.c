/* SPDX-License-Identifier: Apache-2.0 */
#include "core/fleet/native.h"

#include "ks_test.h"
#include "unit/core/fleet/round.h"

/* Leases of whom, by shard. */
static void owned_by(uint32_t from, uint32_t count, struct ks_incarnation owner)
{
    for (uint32_t i = from; i < from + count; i++)
        leases[i].owner = owner;
    for (uint32_t i = 1; i < row_count; i++)
        if (ks_incarnation_equal(rows[i].self, owner))
            rows[i].held += count;
}

static uint32_t plans(void)
{
    const struct ks_effect *effect;
    uint32_t count = 0;

    for (uint32_t i = 0; (effect = bed_effect(&bed, KS_EFFECT_STORE, i)) != NULL; i++)
        count += effect->store.operation == KS_STORE_PLAN;
    return count;
}

TEST(counts_are_brought_within_one_with_the_least_moves)
{
    lead(2, 8);
    owned_by(0, 8, OTHER);
    next_round();
    EXPECT_EQ_I64(plans(), 5); /* 8, 0, 0 -> 3, 3, 2 */
    EXPECT_EQ_I64(must_ask(KS_STORE_PLAN)->owner.worker, BED_OTHER);
    EXPECT_EQ_I64(ks_native_member(bed.core, BED_OTHER)->planned, 3);
}

TEST(a_balanced_fleet_is_left_alone)
{
    lead(1, 5);
    owned_by(0, 3, OTHER);
    owned_by(3, 2, bed.core->fleet.self);
    next_round();
    EXPECT_EQ_I64(plans(), 0);
}

TEST(one_that_is_idle_or_draining_gives_all_it_has)
{
    lead(2, 4);
    owned_by(0, 2, OTHER);
    owned_by(2, 2, THIRD);
    rows[1].mode = KS_IDLE;
    rows[2].mode = KS_DRAINING;
    next_round();
    EXPECT_EQ_I64(plans(), 4);
    EXPECT_EQ_I64(must_ask(KS_STORE_PLAN)->next_owner.worker, BED_ME);
}

TEST(an_idle_fleet_keeps_what_it_has)
{
    lead(1, 2);
    bed.core->idle_at = KS_LONG_AGO;
    owned_by(0, 2, OTHER);
    rows[1].mode = KS_IDLE;
    next_round();
    EXPECT_EQ_I64(plans(), 0);
}

TEST(nobody_gets_more_than_it_takes)
{
    lead(1, 6);
    owned_by(0, 6, OTHER);
    bed.core->config.capacity = 1;
    next_round();
    EXPECT_EQ_I64(plans(), 1);

    lead(1, 6);
    owned_by(0, 6, OTHER);
    rows[1].capacity = 4; /* It was lowered. */
    bed.core->config.capacity = 2;
    next_round();
    EXPECT_EQ_I64(plans(), 2);
}

TEST(one_that_is_late_is_not_asked_for_anything)
{
    lead(2, 6);
    owned_by(0, 6, OTHER);
    next_round();
    /* Its beat has not moved for long, but nobody may take it as dead yet. */
    ks_native_member(bed.core, BED_OTHER)->advanced_at = ks_instant_add(bed.now, ks_span_ms(-7000));
    for (ks_shard shard = 0; shard < 6; shard++)
        if (bed.core->directory[shard].writing)
            answer_write(shard, KS_REFUSED);
    rows[1].beat--;
    next_round();
    EXPECT_EQ_I64(plans(), 0);
}

/* ---- Traffic. ---- */

/* Rounds until something is planned, or `ms` have passed. */
static void rounds(int64_t ms)
{
    ks_instant from = bed.now;

    do
        next_round();
    while (plans() == 0 && ks_span_to_ms(ks_instant_since(bed.now, from)) < ms);
}

/* The rows say so: MB/s. */
static void traffic(const uint32_t *megabytes, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        leases[i].load = (uint64_t)megabytes[i] << 20;
}

static void even_counts(void)
{
    lead(1, 6);
    owned_by(0, 3, OTHER);
    owned_by(3, 3, bed.core->fleet.self);
}

TEST(two_leases_change_places_when_traffic_stays_uneven)
{
    even_counts();
    traffic((uint32_t[]){4, 4, 4, 1, 0, 1}, 6);
    ks_instant from = bed.now;
    rounds(120000);
    EXPECT(ks_instant_since(bed.now, from).us >= bed.core->config.load_patience.us);
    EXPECT_EQ_I64(plans(), 2);
    EXPECT_EQ_I64(must_ask(KS_STORE_PLAN)->owner.worker, BED_OTHER); /* 4 down .. */
    EXPECT_EQ_I64(must_ask(KS_STORE_PLAN)->next_owner.worker, BED_ME);
    EXPECT(bed.core->directory[4].writing); /* .. and 0 up: 12 and 2 become 8 and 6. */
}

TEST(even_traffic_moves_nothing)
{
    even_counts();
    traffic((uint32_t[]){4, 4, 4, 3, 3, 3}, 6);
    rounds(120000);
    EXPECT_EQ_I64(plans(), 0);
}

TEST(a_trickle_moves_nothing)
{
    even_counts();
    for (uint32_t i = 0; i < 3; i++)
        leases[i].load = 1000; /* Far more than nothing, and far from load_least. */
    rounds(120000);
    EXPECT_EQ_I64(plans(), 0);
}

TEST(one_hot_shard_is_left_where_it_is)
{
    even_counts();
    traffic((uint32_t[]){20, 0, 0, 1, 1, 1}, 6);
    rounds(120000);
    EXPECT_EQ_I64(plans(), 0); /* Wherever it goes, there it is too much. */
}

TEST(the_worker_with_one_lease_more_gives_it_without_taking_one)
{
    lead(1, 5);
    owned_by(0, 3, OTHER);
    owned_by(3, 2, bed.core->fleet.self);
    traffic((uint32_t[]){4, 4, 4, 1, 1}, 5);
    rounds(120000);
    EXPECT_EQ_I64(plans(), 1);
    EXPECT_EQ_I64(must_ask(KS_STORE_PLAN)->owner.worker, BED_OTHER);
}

TEST(traffic_that_is_even_again_is_forgotten)
{
    even_counts();
    traffic((uint32_t[]){4, 4, 4, 1, 0, 1}, 6);
    rounds(40000);
    traffic((uint32_t[]){2, 2, 2, 2, 2, 2}, 6);
    rounds(20000); /* The rows are read every ten seconds. */
    traffic((uint32_t[]){4, 4, 4, 1, 0, 1}, 6);
    rounds(40000);
    EXPECT_EQ_I64(plans(), 0);
}
