/* SPDX-License-Identifier: Apache-2.0 */
/* Which numbers of shards a core holds, and how it lets go of the others. */
#include "core/fleet/native.h"
#include "core/lease.h"
#include "ks_test.h"
#include "unit/core/bed.h"

static struct bed bed;
static bool held[BED_SHARDS];
static bool freed[BED_SHARDS];

static bool holds(ks_shard shard)
{
    ks_core_held(bed.core, held);
    return held[shard];
}

static void let_go(ks_shard shard)
{
    EXPECT(!holds(shard));
    for (ks_shard i = 0; i < BED_SHARDS; i++)
        freed[i] = i == shard;
    ks_core_free(bed.core, freed);
    ks_core_check(bed.core);
}

static struct ks_directory_entry *known(ks_shard shard)
{
    EXPECT(ks_native_know(bed.core, shard));
    return &bed.core->directory[shard];
}

TEST(a_lease_holds_its_number_and_those_of_its_parents)
{
    bed_live(&bed);
    known(5)->parents[0] = 7;
    EXPECT(!holds(5) && !holds(7));
    bed_hold(&bed, 5, 3);
    EXPECT(holds(5) && holds(7));
    EXPECT(!holds(4));
}

TEST(who_leads_holds_what_has_a_row_or_is_listed)
{
    bed_live(&bed);
    known(1)->present = true;
    known(2)->listed = true;
    known(3)->seen = true; /* Nobody has seen twice that it is not listed. */
    known(4)->seen = true;
    known(4)->unlisted = 2;
    /* Who does not lead has heard of them once. */
    EXPECT(!holds(1) && !holds(2) && !holds(3) && !holds(4));
    bed.core->fleet.leads = true;
    EXPECT(holds(1) && holds(2) && holds(3) && !holds(4));
}

TEST(what_is_under_way_holds_its_number)
{
    struct ks_fleet *fleet;

    bed_live(&bed);
    fleet = &bed.core->fleet;
    known(9)->writing = true;
    fleet->orders[0] = (struct ks_order){.used = true, .shard = 1};
    fleet->orders_top = 1;
    fleet->writes[2] = (struct ks_leader_write){.used = true, .shard = 2};
    fleet->done_gives = (struct ks_token_list){.count = 1, .items = {{3, 1}}};
    fleet->done_takes = (struct ks_token_list){.count = 1, .items = {{4, 1}}};
    fleet->sent_gives = (struct ks_token_list){.count = 1, .items = {{5, 1}}};
    fleet->sent_takes = (struct ks_token_list){.count = 1, .items = {{6, 1}}};
    known(7)->place = 1; /* In the list that members divide. */
    for (ks_shard shard = 1; shard <= 7; shard++)
        EXPECT(holds(shard));
    EXPECT(!holds(8));
    EXPECT(holds(9));
}

TEST(sessions_and_letters_hold_the_numbers_that_they_name)
{
    ks_session_id session;
    struct ks_event event = {.kind = KS_EVENT_REDRIVE,
                             .redrive = {.number = 1, .shard = 4, .bytes = 1, .attempts = 1}};

    bed_live(&bed);
    session = bed_session(&bed, 10, 1000);
    bed.core->sessions[session].shard_count = 2;
    bed.core->sessions[session].shards[1] = 3;
    bed_step(&bed, &event);
    EXPECT(holds(0) && holds(3) && holds(4));
    event.redrive.number = 2;
    event.redrive.shard = KS_SHARD_NONE;
    bed_step(&bed, &event);
    EXPECT(!holds(1));
}

TEST(an_order_for_one_shard_holds_it_and_one_for_all_does_not)
{
    struct ks_event event = {.kind = KS_EVENT_PAUSE,
                             .pause = {.shard = 2, .keeps = true, .until = KS_NEVER}};

    bed_live(&bed);
    known(3);
    bed_step(&bed, &event);
    EXPECT(holds(2) && !holds(3));
    event.pause.shard = KS_SHARD_NONE;
    bed_step(&bed, &event);
    EXPECT(!holds(2) && !holds(3));
    /* Its number is given to one that comes, and all that come are paused. */
    let_go(2);
    EXPECT(ks_core_paused(bed.core, 2));
    event.kind = KS_EVENT_RESUME;
    event.shard.shard = 3;
    bed_step(&bed, &event);
    EXPECT(holds(3)); /* It alone goes on. */
    event.shard.shard = KS_SHARD_NONE;
    bed_step(&bed, &event);
    EXPECT_EQ_U64(bed.core->pauses, 0);
    EXPECT(!holds(3));
}

TEST(of_a_number_that_is_free_nothing_is_left)
{
    struct ks_lease_view view;

    bed_live(&bed);
    ks_lease_ended(bed.core, 2, 9); /* Of an epoch of the shard that had it. */
    known(2)->seen = true;
    known(2)->given = 9;
    known(2)->missing = 2;
    known(4)->parents[0] = 2;
    known(4)->parents[1] = 3;
    EXPECT(ks_core_lease(bed.core, 2, &view));
    let_go(2);
    EXPECT(!ks_core_lease(bed.core, 2, &view));
    EXPECT_EQ_U64(known(2)->ended, 0);
    EXPECT_EQ_U64(known(2)->given, 0);
    EXPECT_EQ_U64(known(4)->parents[0], KS_SHARD_NONE);
    EXPECT_EQ_U64(known(4)->parents[1], 3);
    /* It begins at any epoch. */
    bed_hold(&bed, 2, 1);
    EXPECT_EQ_I64(bed.core->leases[0].state, KS_LEASE_HELD);
}

TEST(no_edge_leads_to_a_number_that_is_free)
{
    uint32_t edges = 0;

    bed_live(&bed);
    /* 1 is the parent of 2, 3, 4, as kcl.c writes it down: the last one first. */
    for (ks_shard child = 2; child <= 4; child++) {
        known(child)->parents[0] = 1;
        known(child)->siblings[0] = known(1)->children;
        known(1)->children = child * KS_PARENTS_MAX;
    }
    let_go(3);
    for (uint32_t edge = known(1)->children; edge != KS_SHARD_NONE;
         edge = ks_shards_next_edge(bed.core, edge), edges++)
        EXPECT(ks_shards_child(edge) == 4 || ks_shards_child(edge) == 2);
    EXPECT_EQ_U64(edges, 2);
    let_go(4);
    let_go(2);
    EXPECT_EQ_U64(known(1)->children, KS_SHARD_NONE);
}
