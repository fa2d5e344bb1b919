/* SPDX-License-Identifier: Apache-2.0 */
#include "core/fleet/go_kcl.h"

#include "ks_test.h"
#include "unit/core/fleet/peers_bed.h"

#define NS(seconds) ((uint64_t)(PEERS_WALL_US / 1000000 + (seconds)) * UINT64_C(1000000000))

static struct ks_lease_row theirs(uint32_t owner, uint64_t until)
{
    struct ks_lease_row row = peers_row(owner, until);

    row.stranger = true;
    return row;
}

static bool taken(void)
{
    return bed_asked(&peers_bed, KS_STORE_ASSIGN) != NULL ||
           bed_asked(&peers_bed, KS_STORE_TAKE_OVER) != NULL;
}

static bool told(enum ks_story story)
{
    return bed_told(&peers_bed, story);
}

/* Looks until something is taken; how long that took, in s. */
static int64_t taken_after(const struct ks_lease_row *row)
{
    const int64_t from = peers_wall_us;

    for (int looks = 0; looks < 100; looks++) {
        peers_look(row);
        if (taken())
            return (peers_wall_us - from) / 1000000;
    }
    return -1;
}

TEST(what_a_sidecar_gave_back_is_taken_at_once)
{
    const struct ks_lease_row row = peers_row(0, NS(8));

    peers_live(KS_PROTOCOL_KCL_RB);
    EXPECT_EQ_I64(taken_after(&row), 0);
}

TEST(what_strangers_left_is_taken_when_it_has_stood_still_for_a_lease)
{
    const struct ks_lease_row row = theirs(0, NS(8));
    int64_t after;

    peers_live(KS_PROTOCOL_KCL_RB);
    after = taken_after(&row);
    EXPECT(after >= 10 && after <= 12);
    EXPECT(!told(KS_STORY_STRANGERS));
}

TEST(beside_strangers_at_work_nothing_is_taken_and_it_is_told_once)
{
    struct ks_lease_row row = theirs(0, NS(10));
    uint32_t tellings = 0;

    peers_live(KS_PROTOCOL_KCL_RB);
    for (int seconds = 0; seconds < 60; seconds++) {
        row.rev = NS(10 + seconds);
        peers_look(&row);
        EXPECT(!taken());
        tellings += told(KS_STORY_STRANGERS);
    }
    EXPECT_EQ_I64(tellings, 1);
    EXPECT(taken_after(&row) >= 9);
    EXPECT(told(KS_STORY_STRANGERS_GONE));
}

TEST(a_lease_of_a_stranger_that_is_not_over_is_one_at_work)
{
    const struct ks_lease_row row = theirs(BED_OTHER, NS(30));

    peers_live(KS_PROTOCOL_KCL_RB);
    for (int seconds = 0; seconds < 14; seconds++) {
        peers_look(&row);
        EXPECT(!taken());
    }
    EXPECT(peers_bed.core->fleet.strangers_told);
    EXPECT(taken_after(&row) >= 0);
    EXPECT(peers_wall_us >= PEERS_WALL_US + 31000000);
}

TEST(a_checkpoint_that_moves_is_the_work_of_one_whose_time_is_over)
{
    struct ks_lease_row row = theirs(BED_OTHER, NS(-100));

    peers_live(KS_PROTOCOL_KCL_RB);
    for (int looks = 0; looks < 40; looks++) {
        row.moved = looks % 4 == 3;
        peers_look(&row);
        EXPECT(!taken());
    }
    row.moved = false;
    EXPECT(taken_after(&row) >= 9);
}

TEST(a_time_in_which_nobody_could_look_was_not_quiet)
{
    const struct ks_lease_row row = theirs(0, NS(8));

    peers_live(KS_PROTOCOL_KCL_RB);
    peers_look(&row);
    peers_wait(25000);
    peers_look(&row);
    EXPECT(!taken());
    EXPECT(taken_after(&row) >= 9);
    EXPECT(!told(KS_STORY_STRANGERS));
}

/* Masked, it would be read by nobody. */
TEST(a_place_is_kept_for_what_names_us)
{
    struct ks_lease_row rows[2] = {peers_row(BED_ME, NS(20)), peers_row(0, NS(-100))};

    peers_live(KS_PROTOCOL_KCL_RB);
    peers_bed.core->config.capacity = 1;
    rows[1].shard = 1;
    for (int looks = 0; looks < 4; looks++) {
        peers_look_at(rows, 2);
        EXPECT(!taken());
    }
    peers_bed.core->config.capacity = 2;
    peers_look_at(rows, 2);
    EXPECT_EQ_I64(bed_asked(&peers_bed, KS_STORE_ASSIGN)->shard, 1);
}

TEST(what_names_us_behind_a_mask_is_taken_beyond_our_limit)
{
    struct ks_lease_row rows[2] = {peers_row(0, NS(-100)), peers_row(BED_ME, NS(-100))};

    peers_live(KS_PROTOCOL_KCL_RB);
    peers_bed.core->config.masking = true;
    peers_bed.core->config.capacity = 1;
    rows[1].shard = 1;
    peers_look_at(rows, 1);
    EXPECT_EQ_I64(bed_asked(&peers_bed, KS_STORE_ASSIGN)->shard, 0);
    rows[0].owner = (struct ks_incarnation){BED_OTHER, 0};
    rows[0].rev = NS(1000);
    for (int looks = 0; looks < 20; looks++) {
        peers_look_at(rows, 2);
        if (taken())
            break;
    }
    EXPECT_EQ_I64(bed_asked(&peers_bed, KS_STORE_TAKE_OVER)->shard, 1);
}

/* A late release of kcl-rb removed the owner, or the owner died: no other process reads it. */
TEST(masked_row_without_a_living_owner_is_taken_first_and_beyond_the_limit)
{
    struct ks_lease_row rows[3] = {peers_row(0, NS(-100)), peers_row(0, NS(-100)),
                                   peers_row(BED_OTHER, NS(-100))};
    bool seen[3] = {false};

    peers_live(KS_PROTOCOL_KCL_RB);
    peers_bed.core->config.masking = true;
    peers_bed.core->config.capacity = 1;
    for (ks_shard shard = 0; shard < 3; shard++) {
        rows[shard].shard = shard;
        rows[shard].masked = shard > 0;
    }
    for (int looks = 0; looks < 20; looks++) {
        peers_look_at(rows, 3);
        EXPECT(bed_asked(&peers_bed, KS_STORE_ASSIGN) == NULL ||
               bed_asked(&peers_bed, KS_STORE_ASSIGN)->shard == 1);
        seen[1] |= bed_asked(&peers_bed, KS_STORE_ASSIGN) != NULL;
        seen[2] |= bed_asked(&peers_bed, KS_STORE_TAKE_OVER) != NULL;
    }
    EXPECT(seen[1] && seen[2]);
}

TEST(masked_rows_are_taken_beside_strangers)
{
    struct ks_lease_row row = theirs(0, NS(10));

    peers_live(KS_PROTOCOL_KCL_RB);
    peers_bed.core->config.masking = true;
    peers_look(&row);
    EXPECT(taken());
    EXPECT(!told(KS_STORY_STRANGERS));
}

TEST(row_that_kcl_rb_never_frees_is_logged_once)
{
    struct ks_lease_row row = theirs(BED_OTHER, NS(-5));
    const int64_t from = peers_wall_us;
    uint32_t tellings = 0;

    peers_live(KS_PROTOCOL_KCL_RB);
    peers_bed.core->config.masking = true;
    for (int looks = 0; looks < 200; looks++) {
        row.moved = true;
        peers_look(&row);
        EXPECT(!taken());
        tellings += told(KS_STORY_NEVER_FREE);
        EXPECT(tellings == 0 || peers_wall_us - from >= 60000000);
    }
    EXPECT_EQ_I64(tellings, 1);
}

/* The row of our lease, and another one. */
static void look_beside(struct ks_lease_row ours, struct ks_lease_row other)
{
    struct ks_lease_row rows[2] = {ours, other};
    struct ks_event event = {.kind = KS_EVENT_STORE};

    rows[1].shard = 1;
    for (int i = 0; i < 1000 && peers_bed.core->fleet.rows == 0; i++)
        peers_wait(100);
    event.store.token = ks_token_make(KS_FOR_ROWS, 0, peers_bed.core->fleet.rows);
    event.store.outcome = KS_DONE;
    event.store.leases = rows;
    event.store.lease_count = 2;
    peers_step(&event);
}

/* Takes the one row, and holds its lease. */
static struct ks_lease_row hold_row(void)
{
    struct ks_lease_row row = peers_row(0, NS(-100));
    const struct ks_store_effect *asked;
    uint64_t token;

    peers_look(&row);
    asked = bed_asked(&peers_bed, KS_STORE_ASSIGN);
    EXPECT(asked != NULL);
    row = peers_row(BED_ME, asked->next_rev);
    row.masked = peers_bed.core->config.masking;
    token = asked->token;
    ks_core_wall(peers_bed.core, peers_wall_us);
    bed_answer(&peers_bed, token, KS_DONE);
    asked = bed_asked(&peers_bed, KS_STORE_READ_LEASE);
    EXPECT(asked != NULL);
    bed_answer_lease(&peers_bed, asked->token, &row);
    EXPECT(bed_effect(&peers_bed, KS_EFFECT_OPEN, 0) != NULL);
    return row;
}

TEST(what_we_have_is_given_back_when_a_stranger_comes)
{
    struct ks_lease_row row;

    peers_live(KS_PROTOCOL_KCL_RB);
    row = hold_row();
    look_beside(row, theirs(BED_OTHER, NS(20)));
    EXPECT(told(KS_STORY_STRANGERS));
    EXPECT(told(KS_STORY_RETURNING) || peers_bed.core->leases[0].state == KS_LEASE_RETURNING);
}

TEST(mask_that_kcl_rb_overwrote_is_logged)
{
    struct ks_lease_row row;

    peers_live(KS_PROTOCOL_KCL_RB);
    peers_bed.core->config.masking = true;
    row = hold_row();
    look_beside(row, theirs(0, NS(-100)));
    EXPECT(!told(KS_STORY_MASK_OVERWRITTEN));
    row = theirs(BED_OTHER, NS(10));
    look_beside(row, theirs(0, NS(-100)));
    EXPECT(told(KS_STORY_MASK_OVERWRITTEN));
}

TEST(a_child_is_told_once)
{
    const struct ks_lease_row row = peers_row(0, NS(8));
    const struct ks_shard_row shards[] = {
        {.parents = {KS_SHARD_NONE, KS_SHARD_NONE}, .closed = true},
        {.shard = 1, .parents = {0, KS_SHARD_NONE}},
    };
    uint32_t tellings = 0;

    peers_live(KS_PROTOCOL_KCL_RB);
    peers_step(&(struct ks_event){.kind = KS_EVENT_LISTED,
                                  .listed = {.ok = true, .shards = shards, .count = 2}});
    for (int looks = 0; looks < 4; looks++) {
        peers_look(&row);
        tellings += told(KS_STORY_CHILD);
    }
    EXPECT_EQ_I64(tellings, 1);
}
