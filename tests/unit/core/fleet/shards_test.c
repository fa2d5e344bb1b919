/* SPDX-License-Identifier: Apache-2.0 */
#include "core/fleet/native.h"

#include "ks_test.h"
#include "unit/core/fleet/round.h"

static void list(const struct ks_shard_row *shards, uint32_t count)
{
    struct ks_event listed = {.kind = KS_EVENT_LISTED, .listed = {true, shards, count}};

    bed_step(&bed, &listed);
    bed.core->fleet.list_at = KS_NEVER;
}

TEST(a_row_below_what_we_know_is_an_old_replicas)
{
    struct ks_lease_row old = {.shard = 0, .epoch = 3, .parents = {KS_SHARD_NONE, KS_SHARD_NONE}};

    lead(1, 1);
    leases[0].owner = OTHER;
    leases[0].epoch = 4;
    next_round();
    ks_shards_see(bed.core, &old);
    EXPECT_EQ_I64(bed.core->directory[0].epoch, 4);
    EXPECT_EQ_I64(bed.core->directory[0].owner.worker, BED_OTHER);
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
    next_round();
    EXPECT(!bed.core->directory[0].present);
}

TEST(a_finished_row_goes_an_hour_after_its_shard_and_not_before_its_children_have_rows)
{
    struct ks_shard_row child = {1, {0, KS_SHARD_NONE}};

    lead(1, 2);
    leases[0].finished = true;
    leases[1].owner = OTHER;
    leases[1].parents[0] = 0;
    rows[1].held = 1;
    next_round();
    list(&child, 1);
    list(&child, 1);
    EXPECT(!ks_shards_may_delete(bed.core, 0));
    bed.now = ks_instant_add(bed.now, ks_span_ms(3600000));
    bed_tick(&bed);
    EXPECT(ks_shards_may_delete(bed.core, 0));
    bed.core->directory[1].present = false;
    EXPECT(!ks_shards_may_delete(bed.core, 0));
    bed.core->directory[1].present = true;
    /* In the stream after all. */
    struct ks_shard_row both[] = {{0, {KS_SHARD_NONE, KS_SHARD_NONE}}, child};
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
