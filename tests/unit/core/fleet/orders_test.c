/* SPDX-License-Identifier: Apache-2.0 */
#include "core/fleet/native.h"

#include "core/lease.h"

#include "ks_test.h"
#include "unit/core/bed.h"

static struct bed bed;
static struct ks_lease_token token = {4, 2};

static uint64_t token_of(enum ks_store_operation operation)
{
    const struct ks_store_effect *asked = bed_asked(&bed, operation);

    EXPECT(asked != NULL);
    return asked->token;
}

static void next_beat(void)
{
    bed.now = bed.core->fleet.next_at;
    bed_tick(&bed);
}

/* A heartbeat whose answer shows these tokens in our row. */
static void beat_with(uint32_t gives, uint32_t takes)
{
    struct ks_worker_row row = {.self = bed.core->fleet.self,
                                .beat = 1,
                                .gives = &token,
                                .takes = &token,
                                .give_count = gives,
                                .take_count = takes};

    next_beat();
    bed_answer_worker(&bed, token_of(KS_STORE_HEARTBEAT), &row);
}

static struct ks_lease_row row_of(struct ks_incarnation owner, ks_epoch epoch)
{
    return (struct ks_lease_row){.shard = 4,
                                 .owner = owner,
                                 .epoch = epoch,
                                 .rev = 7,
                                 .parents = {KS_SHARD_NONE, KS_SHARD_NONE}};
}

TEST(a_take_is_polled_until_the_row_is_ours_and_then_removed_from_our_row)
{
    struct ks_lease_row row;

    bed_live(&bed);
    beat_with(0, 1);
    row = row_of(KS_NOBODY, 1);
    bed_answer_lease(&bed, token_of(KS_STORE_READ_LEASE), &row);
    EXPECT_EQ_I64(bed.core->leases_used, 0);
    bed_wait(&bed, 500);
    row = row_of(bed.core->fleet.self, 2);
    bed_answer_lease(&bed, token_of(KS_STORE_READ_LEASE), &row);
    EXPECT_EQ_I64(bed.core->leases_used, 1);
    EXPECT(bed_effect(&bed, KS_EFFECT_OPEN, 0) != NULL);
    next_beat();
    EXPECT_EQ_I64(bed_asked(&bed, KS_STORE_HEARTBEAT)->take_count, 1);
    EXPECT_EQ_I64(bed_asked(&bed, KS_STORE_HEARTBEAT)->takes[0].shard, 4);
    EXPECT_EQ_I64(bed_asked(&bed, KS_STORE_HEARTBEAT)->held, 1);
    bed_answer(&bed, token_of(KS_STORE_HEARTBEAT), KS_DONE);
    EXPECT_EQ_I64(bed.core->fleet.done_takes.count, 0);
}

TEST(a_take_that_never_becomes_ours_is_given_up_after_twice_the_hand_over)
{
    struct ks_lease_row row;

    bed_live(&bed);
    beat_with(0, 1);
    bed.core->fleet.next_at = KS_NEVER;
    for (int i = 0; i <= 20; i++) {
        row = row_of((struct ks_incarnation){BED_OTHER, 5}, 1);
        bed_answer_lease(&bed, token_of(KS_STORE_READ_LEASE), &row);
        bed_wait(&bed, 500);
    }
    EXPECT(bed_asked(&bed, KS_STORE_READ_LEASE) == NULL);
    EXPECT_EQ_I64(bed.core->fleet.done_takes.count, 1);
}

TEST(an_epoch_that_we_ended_never_begins_again)
{
    struct ks_lease_row row;

    bed_live(&bed);
    ks_orders_take(bed.core, 4, 3, false);
    bed_tick(&bed);
    ks_lease_ended(bed.core, 4, 2); /* While the read is under way, which shows what was before. */
    row = row_of(bed.core->fleet.self, 2);
    bed_answer_lease(&bed, token_of(KS_STORE_READ_LEASE), &row);
    EXPECT_EQ_I64(bed.core->leases_used, 0);
}

TEST(a_row_that_was_made_again_is_given_back_until_its_epoch_is_a_new_one)
{
    struct ks_lease_row row;

    bed_live(&bed);
    EXPECT(ks_native_know(bed.core, 4));
    ks_lease_ended(bed.core, 4, 2);
    ks_orders_take(bed.core, 4, 2, false);
    bed_tick(&bed);
    row = row_of(bed.core->fleet.self, 2);
    bed_answer_lease(&bed, token_of(KS_STORE_READ_LEASE), &row);
    EXPECT_EQ_I64(bed.core->leases_used, 1);
    EXPECT(!ks_core_may_finish(bed.core, 4, 2, bed.now));
    bed_settle_down(&bed);
    bed_answer_lease(&bed, ks_token_make(KS_FOR_LEASE, 0, bed.core->leases[0].serial), &row);
    bed_answer(&bed, token_of(KS_STORE_FINAL), KS_DONE);
    EXPECT_EQ_I64(bed.core->leases_used, 0);

    ks_orders_take(bed.core, 4, 4, false);
    bed_tick(&bed);
    row = row_of(bed.core->fleet.self, 4);
    bed_answer_lease(&bed, token_of(KS_STORE_READ_LEASE), &row);
    EXPECT(ks_core_may_finish(bed.core, 4, 4, bed.now));
}

TEST(a_row_that_was_made_again_is_looked_at_until_it_has_come_to_the_epoch)
{
    struct ks_lease_row row;

    bed_live(&bed);
    EXPECT(ks_native_know(bed.core, 4));
    ks_lease_ended(bed.core, 4, 5); /* Of the row before. */
    ks_orders_take(bed.core, 4, 3, false);
    bed_tick(&bed);
    row = row_of((struct ks_incarnation){BED_OTHER, 5}, 2); /* Its owner still has it. */
    bed_answer_lease(&bed, token_of(KS_STORE_READ_LEASE), &row);
    bed_wait(&bed, 1000);
    row = row_of(bed.core->fleet.self, 3);
    bed_answer_lease(&bed, token_of(KS_STORE_READ_LEASE), &row);
    EXPECT_EQ_I64(bed.core->leases_used, 1);
}

TEST(to_be_told_to_take_what_we_hold_is_a_reason_to_look)
{
    struct ks_lease_row row;

    bed_live(&bed);
    bed_hold(&bed, 4, 7);
    bed_settle_down(&bed);
    ks_orders_take(bed.core, 4, 1, false); /* The row was made again, and is ours. */
    bed_tick(&bed);
    row = row_of(bed.core->fleet.self, 1);
    bed_answer_lease(&bed, token_of(KS_STORE_READ_LEASE), &row);
    EXPECT(bed_told(&bed, KS_STORY_LOST));
    /* And it is asked for at once. */
    bed_answer_lease(&bed, token_of(KS_STORE_READ_LEASE), &row);
    EXPECT_EQ_I64(bed.core->leases_used, 1);
    EXPECT_EQ_I64(bed.core->leases[bed.core->directory[4].held].state, KS_LEASE_RETURNING);
}

TEST(a_give_stops_delivery_in_the_same_step_and_is_removed_only_when_the_epoch_is_over)
{
    struct ks_lease_row row;

    bed_live(&bed);
    bed_hold(&bed, 4, 2);
    EXPECT(ks_core_may_finish(bed.core, 4, 2, bed.now));
    beat_with(1, 0);
    EXPECT_EQ_I64(bed.core->leases[bed.core->directory[4].held].state, KS_LEASE_RETURNING);
    row = row_of(bed.core->fleet.self, 2);
    row.next_owner = (struct ks_incarnation){BED_OTHER, 5};
    bed_answer_lease(&bed, token_of(KS_STORE_READ_LEASE), &row);
    EXPECT_EQ_I64(bed_asked(&bed, KS_STORE_FINAL)->next_owner.worker, BED_OTHER);
    EXPECT_EQ_I64(bed.core->fleet.done_gives.count, 0);
    bed_answer(&bed, token_of(KS_STORE_FINAL), KS_DONE);
    bed_tick(&bed);
    EXPECT_EQ_I64(bed.core->fleet.done_gives.count, 1);
    next_beat();
    EXPECT_EQ_I64(bed_asked(&bed, KS_STORE_HEARTBEAT)->give_count, 1);
}

TEST(a_give_stops_what_we_hold_of_an_earlier_epoch)
{
    bed_live(&bed);
    bed_hold(&bed, 4, 1);
    beat_with(1, 0);
    EXPECT_EQ_I64(bed.core->leases[bed.core->directory[4].held].state, KS_LEASE_RETURNING);
}

TEST(a_give_of_what_we_do_not_hold_yet_ends_it_without_a_delivery)
{
    struct ks_lease_row row;

    bed_live(&bed);
    beat_with(1, 0);
    row = row_of(bed.core->fleet.self, 2);
    bed_answer_lease(&bed, token_of(KS_STORE_READ_LEASE), &row);
    EXPECT_EQ_I64(bed.core->leases_used, 1);
    EXPECT(!ks_core_may_finish(bed.core, 4, 2, bed.now));
    bed_settle_down(&bed);
    bed_answer_lease(&bed, ks_token_make(KS_FOR_LEASE, 0, bed.core->leases[0].serial), &row);
    EXPECT_EQ_I64(bed_asked(&bed, KS_STORE_FINAL)->up_to, 0); /* Its checkpoint stays as it is. */
}

TEST(a_give_of_an_epoch_that_is_over_at_the_table_is_done)
{
    struct ks_lease_row row;

    bed_live(&bed);
    beat_with(1, 0);
    row = row_of((struct ks_incarnation){BED_OTHER, 5}, 3);
    bed_answer_lease(&bed, token_of(KS_STORE_READ_LEASE), &row);
    EXPECT_EQ_I64(bed.core->directory[4].ended, 2);
    bed_tick(&bed);
    EXPECT_EQ_I64(bed.core->fleet.done_gives.count, 1);
}

TEST(a_heartbeat_removes_no_more_tokens_than_one_write_carries)
{
    bed_live(&bed);
    bed.core->fleet.done_gives.count = 100;
    bed.core->fleet.done_takes.count = 100;
    for (uint32_t i = 0; i < 100; i++)
        bed.core->fleet.done_gives.items[i] = bed.core->fleet.done_takes.items[i] =
            (struct ks_lease_token){i, 1};
    next_beat();
    EXPECT_EQ_I64(bed_asked(&bed, KS_STORE_HEARTBEAT)->give_count, 100);
    EXPECT_EQ_I64(bed_asked(&bed, KS_STORE_HEARTBEAT)->take_count, 28);
    bed_answer(&bed, token_of(KS_STORE_HEARTBEAT), KS_DONE);
    EXPECT_EQ_I64(bed.core->fleet.done_takes.count, 72);
}

TEST(a_take_that_was_given_up_is_looked_at_once_more_when_its_token_is_removed)
{
    struct ks_worker_row me;
    struct ks_lease_row row = row_of(KS_NOBODY, 1);

    bed_live(&bed);
    beat_with(0, 1);
    bed_answer_lease(&bed, token_of(KS_STORE_READ_LEASE), &row);
    bed.core->fleet.orders[0].until = bed.now; /* It was long in coming. */
    bed_wait(&bed, 500);
    bed_answer_lease(&bed, token_of(KS_STORE_READ_LEASE), &row);
    EXPECT_EQ_I64(bed.core->fleet.done_takes.count, 1);
    next_beat();
    EXPECT_EQ_I64(bed_asked(&bed, KS_STORE_HEARTBEAT)->take_count, 1);
    /* Meanwhile the lease was made ours, and the same token told again. */
    me = (struct ks_worker_row){.self = bed.core->fleet.self, .beat = 2};
    bed_answer_worker(&bed, token_of(KS_STORE_HEARTBEAT), &me);
    row = row_of(bed.core->fleet.self, 2);
    bed_answer_lease(&bed, token_of(KS_STORE_READ_LEASE), &row);
    EXPECT_EQ_I64(bed.core->leases_used, 1);
}

/* A table whose keys compare by case may answer another row. */
TEST(an_answer_about_another_lease_says_nothing)
{
    struct ks_lease_row row;

    bed_live(&bed);
    beat_with(0, 1);
    row = row_of(bed.core->fleet.self, 2);
    row.shard = 5;
    bed_answer_lease(&bed, token_of(KS_STORE_READ_LEASE), &row);
    EXPECT_EQ_I64(bed.core->leases_used, 0);
    EXPECT_EQ_U64(bed.core->fleet.orders[0].shown, 0);
    EXPECT_EQ_U64(bed.core->directory[5].owner.worker, 0);
    bed_wait(&bed, 500);
    row.shard = 4;
    bed_answer_lease(&bed, token_of(KS_STORE_READ_LEASE), &row);
    EXPECT_EQ_I64(bed.core->leases_used, 1);
    EXPECT_EQ_I64(bed.core->leases[0].shard, 4);
}
