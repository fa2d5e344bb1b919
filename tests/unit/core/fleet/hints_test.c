/* SPDX-License-Identifier: Apache-2.0 */
#include "core/fleet/native.h"

#include "ks_test.h"
#include "unit/core/fleet/round.h"

static const struct ks_store_effect *hints_for(uint32_t worker)
{
    const struct ks_effect *effect;

    for (uint32_t i = 0; (effect = bed_effect(&bed, KS_EFFECT_STORE, i)) != NULL; i++)
        if (effect->store.operation == KS_STORE_HINTS && effect->store.worker.worker == worker)
            return &effect->store;
    FAIL("worker %u is not told anything", worker);
}

/* The other has shard 0; it is to go to the third. */
static void planned_move(void)
{
    lead(2, 1);
    leases[0].owner = OTHER;
    leases[0].next_owner = THIRD;
    rows[1].held = 1;
    next_round();
}

TEST(the_owner_is_told_to_give_and_the_next_one_to_take_the_next_epoch)
{
    planned_move();
    EXPECT_EQ_I64(hints_for(BED_OTHER)->give_count, 1);
    EXPECT_EQ_I64(hints_for(BED_OTHER)->gives[0].epoch, 1);
    EXPECT_EQ_I64(hints_for(BED_OTHER)->take_count, 0);
    EXPECT_EQ_I64(hints_for(BED_OTHER + 1)->take_count, 1);
    EXPECT_EQ_I64(hints_for(BED_OTHER + 1)->takes[0].epoch, 2);
}

TEST(what_was_told_is_not_told_again_and_what_is_unknown_is)
{
    planned_move();
    uint64_t to_owner = hints_for(BED_OTHER)->token;
    uint64_t to_next = hints_for(BED_OTHER + 1)->token;
    bed_answer(&bed, to_owner, KS_DONE);
    EXPECT(bed_asked(&bed, KS_STORE_HINTS) == NULL);
    bed_answer(&bed, to_next, KS_UNKNOWN);
    EXPECT_EQ_I64(hints_for(BED_OTHER + 1)->take_count, 1);
    bed_answer(&bed, hints_for(BED_OTHER + 1)->token, KS_DONE);
    next_round();
    EXPECT(bed_asked(&bed, KS_STORE_HINTS) == NULL);
}

TEST(we_tell_ourselves_without_the_table)
{
    lead(1, 2);
    leases[0].owner = bed.core->fleet.self;
    leases[0].next_owner = OTHER;
    leases[1].owner = OTHER;
    leases[1].next_owner = bed.core->fleet.self;
    rows[1].held = 1;
    next_round();
    EXPECT_EQ_I64(hints_for(BED_OTHER)->give_count, 1);
    EXPECT_EQ_I64(hints_for(BED_OTHER)->take_count, 1);
    EXPECT_EQ_I64(bed.core->directory[0].given, 1);
    EXPECT(bed_asked(&bed, KS_STORE_READ_LEASE) != NULL); /* Ours to take: asked for at once. */
}

TEST(a_lease_is_forced_only_after_our_own_give_has_stood_for_its_time)
{
    int64_t stood;

    planned_move();
    uint64_t to_owner = hints_for(BED_OTHER)->token;
    bed_answer(&bed, hints_for(BED_OTHER + 1)->token, KS_DONE);
    bed_answer(&bed, to_owner, KS_DONE);
    ks_instant told_at = bed.now;
    for (int i = 0; bed_asked(&bed, KS_STORE_FORCE) == NULL; i++) {
        EXPECT(i < 40);
        next_round();
    }
    stood = ks_span_to_ms(ks_instant_since(bed.now, told_at));
    EXPECT(stood >= 10500); /* max(H + B, L) + m */
    EXPECT(stood < 12000);
    EXPECT_EQ_I64(must_ask(KS_STORE_FORCE)->worker.worker, BED_OTHER + 1);
}

TEST(what_an_earlier_leader_told_does_not_count_for_force)
{
    planned_move();
    bed_answer(&bed, hints_for(BED_OTHER)->token, KS_DONE);
    EXPECT(bed.core->directory[0].give_at.us != KS_NEVER.us);
    ks_leader_won(bed.core);
    bed_tick(&bed);
    next_round();
    EXPECT_EQ_I64(bed.core->directory[0].give_at.us, KS_NEVER.us);
}

TEST(what_was_told_of_a_row_says_nothing_of_the_one_that_is_made_after_it)
{
    planned_move();
    bed_answer(&bed, hints_for(BED_OTHER)->token, KS_DONE);
    EXPECT_EQ_I64(bed.core->directory[0].hinted, 1);
    lease_count = 0;
    for (int i = 0; i < 2; i++) {
        rows[1].changes++;
        later_round();
    }
    EXPECT(bed.core->directory[0].hinted == 0);
}

/* Somebody removed it by hand, and that was read before the answer to the write. */
TEST(a_move_of_a_lease_without_an_owner_is_told_to_nobody)
{
    planned_move();
    bed.core->directory[0].owner = KS_NOBODY;
    bed.core->directory[0].hinted = 0;
    ks_hints_move(bed.core, 0);
    EXPECT_EQ_U64(bed.core->directory[0].hinted, 0);
}
