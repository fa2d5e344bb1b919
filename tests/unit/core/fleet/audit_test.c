/* SPDX-License-Identifier: Apache-2.0 */
#include "core/fleet/native.h"

#include "ks_test.h"
#include "unit/core/fleet/round.h"

#include <string.h>

enum { PARTS = 16 };

/* A shard of the keys of these sixteenths: first <= key < behind. */
static struct ks_shard_row part(ks_shard shard, ks_shard parent, uint32_t first, uint32_t behind)
{
    struct ks_shard_row row = shard_row(shard, parent, KS_SHARD_NONE);

    row.ranged = true;
    row.first_key.high = (uint64_t)first << 60;
    row.last_key.high = ((uint64_t)behind << 60) - 1; /* Of 16: 2^64, 0. */
    row.last_key.low = UINT64_MAX;
    return row;
}

/* A shard has a row, owned by another. */
static void own(const struct ks_shard_row *shard)
{
    leases[lease_count++] = (struct ks_lease_row){
        .shard = shard->shard,
        .epoch = 1,
        .owner = OTHER,
        .parents = {shard->parents[0], shard->parents[1]},
        .ranged = shard->ranged,
        .first_key = shard->first_key,
        .last_key = shard->last_key,
    };
}

/* What was told in a listing and the rounds after it, until the audit was made. */
static struct {
    uint32_t holes;
    uint32_t covered;
    uint32_t read_again;
    uint64_t number;
    uint32_t count;
} told;

static void note(void)
{
    const struct ks_effect *effect;

    for (uint32_t i = 0; (effect = bed_effect(&bed, KS_EFFECT_STORY, i)) != NULL; i++) {
        told.holes += effect->story.story == KS_STORY_HOLE;
        told.covered += effect->story.story == KS_STORY_COVERED;
        told.read_again += effect->story.story == KS_STORY_READ_AGAIN;
        if (effect->story.story == KS_STORY_HOLE) {
            told.number = effect->story.number;
            told.count = effect->story.count;
        }
    }
}

/* Lists these shards, when the last hole wants it, and lets the rounds come that end in an audit. */
static void audit(const struct ks_shard_row *shards, uint32_t count)
{
    bed.core->fleet.strike_at = bed.core->now;
    list(shards, count);
    for (int i = 0; bed.core->fleet.audit_due && i < 4; i++) {
        next_round();
        note();
    }
}

/* Lets the leader read the lease rows, and stops before the worker rows of that round are answered. */
static void read_rows(void)
{
    bed.core->fleet.rows_stale = true;
    for (int i = 0; i < 10 && bed.core->fleet.rows == 0; i++) {
        bed.now = ks_instant_max(bed.now, ks_core_deadline(bed.core));
        bed_tick(&bed);
    }
    EXPECT(bed.core->fleet.rows != 0);
    answer_rows();
}

static bool lists_again(void)
{
    return bed.core->fleet.list_at.us != KS_NEVER.us;
}

/* Two halves and their rows. */
static struct ks_shard_row halves[2];

static void begin(void)
{
    memset(&told, 0, sizeof told);
    lead(1, 0);
    bed.core->idle_at = KS_LONG_AGO; /* We want none of the leases. */
    halves[0] = part(0, KS_SHARD_NONE, 0, 8);
    halves[1] = part(1, KS_SHARD_NONE, 8, 16);
    own(&halves[0]);
    own(&halves[1]);
    rows[1].held = 2;
    next_round();
}

static void refresh_rows(void)
{
    for (int i = 0; i < 2; i++) {
        rows[1].changes++;
        later_round();
        note();
    }
}

TEST(rows_that_cover_every_key_are_no_reason_for_anything)
{
    begin();
    audit(halves, 2);
    EXPECT(!bed.core->fleet.audit_due);
    EXPECT(!lists_again());
    EXPECT_EQ_U64(bed.core->fleet.strikes, 0);
    EXPECT_EQ_U64(told.holes, 0);
}

TEST(a_hole_is_listed_again_at_once_and_told_when_it_stays_and_once_more_when_it_is_gone)
{
    begin();
    lease_count = 1;
    refresh_rows();
    for (uint32_t i = 1; i < KS_AUDIT_STRIKES; i++) {
        audit(halves, 1);
        EXPECT(lists_again());
        EXPECT_EQ_U64(bed.core->fleet.strikes, i);
        EXPECT_EQ_U64(told.holes, 0);
    }
    audit(halves, 1);
    EXPECT_EQ_U64(told.holes, 1);
    EXPECT_EQ_U64(told.count, 500000);
    EXPECT_EQ_U64(told.number, 500000);
    audit(halves, 1);
    EXPECT_EQ_U64(told.holes, 1);
    EXPECT_EQ_U64(told.covered, 0);

    /* It is listed after all, and gets a row. */
    list(halves, 2);
    next_round();
    answer_write(1, KS_DONE);
    own(&halves[1]);
    refresh_rows();
    audit(halves, 2);
    EXPECT_EQ_U64(told.covered, 1);
    EXPECT_EQ_U64(bed.core->fleet.strikes, 0);
    audit(halves, 2);
    EXPECT_EQ_U64(told.covered, 1);
}

TEST(the_first_look_at_a_hole_lists_at_once_and_the_next_ones_wait_longer_and_longer)
{
    int64_t waits_ms[4];

    begin();
    lease_count = 1;
    refresh_rows();
    for (int i = 0; i < 4; i++) {
        audit(halves, 1);
        waits_ms[i] = ks_span_to_ms(ks_instant_since(bed.core->fleet.list_at, bed.core->now));
    }
    EXPECT_EQ_I64(waits_ms[0], 0);
    EXPECT(waits_ms[1] > 0);
    EXPECT_EQ_I64(waits_ms[2], 2 * waits_ms[1]);
    EXPECT_EQ_I64(waits_ms[3], 4 * waits_ms[1]);
}

TEST(listings_that_others_ask_for_make_a_hole_no_older)
{
    begin();
    lease_count = 1;
    refresh_rows();
    for (uint32_t i = 1; i < KS_AUDIT_STRIKES; i++)
        audit(halves, 1);
    for (int i = 0; i < 3; i++) {
        list(halves, 1);
        for (int j = 0; bed.core->fleet.audit_due && j < 4; j++) {
            next_round();
            note();
        }
    }
    EXPECT_EQ_U64(bed.core->fleet.strikes, KS_AUDIT_STRIKES - 1);
    EXPECT_EQ_U64(told.holes, 0);
    EXPECT(bed.core->fleet.list_at.us <= bed.core->fleet.strike_at.us);
}

TEST(a_fleet_whose_leases_move_during_every_read_of_the_rows_is_audited)
{
    begin();
    lease_count = 1;
    refresh_rows();
    read_rows();
    list(halves, 1);
    rows[1].changes++;
    next_round();
    EXPECT(bed.core->fleet.rows_stale);
    EXPECT(!bed.core->fleet.audit_due);
    EXPECT_EQ_U64(bed.core->fleet.strikes, 1);
}

TEST(another_hole_begins_anew)
{
    struct ks_shard_row shards[3] = {part(0, KS_SHARD_NONE, 0, 4), part(1, KS_SHARD_NONE, 4, 8),
                                     part(2, KS_SHARD_NONE, 8, 16)};

    begin();
    lease_count = 0;
    own(&shards[0]);
    own(&shards[2]);
    refresh_rows();
    for (uint32_t i = 1; i < KS_AUDIT_STRIKES; i++)
        audit(shards, 1);
    EXPECT_EQ_U64(bed.core->fleet.strikes, KS_AUDIT_STRIKES - 1);
    /* The middle is there, and now the end is not. */
    lease_count = 1;
    own(&shards[1]);
    refresh_rows();
    audit(shards, 2);
    EXPECT_EQ_U64(bed.core->fleet.strikes, 1);
    EXPECT_EQ_U64(told.holes, 0);
}

TEST(keys_missing_at_either_end_are_a_hole_to_the_last_one)
{
    struct ks_shard_row shards[1] = {part(0, KS_SHARD_NONE, 0, 16)};

    for (int end = 0; end < 2; end++) {
        begin();
        shards[0] = part(0, KS_SHARD_NONE, 0, 16);
        if (end == 0)
            shards[0].first_key.low = 1;
        else
            shards[0].last_key.low--;
        lease_count = 0;
        own(&shards[0]);
        refresh_rows();
        audit(shards, 1);
        EXPECT_EQ_U64(bed.core->fleet.strikes, 1);
        EXPECT_EQ_U64(bed.core->fleet.hole.high, end == 0 ? 0 : UINT64_MAX);
        EXPECT_EQ_U64(bed.core->fleet.hole.low, end == 0 ? 0 : UINT64_MAX);
    }
}

TEST(rows_in_any_order_and_over_each_other_cover_what_they_cover)
{
    static const ks_shard order[PARTS] = {9, 3, 15, 0, 7, 12, 1, 14, 5, 10, 2, 8, 13, 4, 11, 6};
    struct ks_shard_row shards[PARTS];

    /* Without the one that is left out; 16: none. A parent lies over the parts 4 to 7. */
    for (uint32_t out = 0; out <= PARTS; out++) {
        begin();
        lease_count = 0;
        for (ks_shard shard = 0; shard < PARTS; shard++) {
            uint32_t at = order[shard];

            shards[shard] = part(shard, KS_SHARD_NONE, at == 5 ? 4 : at, at == 5 ? 8 : at + 1);
            if (at != out)
                own(&shards[shard]);
        }
        refresh_rows();
        audit(shards, 0);
        EXPECT_EQ_U64(bed.core->fleet.strikes, out < PARTS && out != 4 && out != 6 && out != 7);
        if (bed.core->fleet.strikes > 0 && out != 5)
            EXPECT_EQ_U64(bed.core->fleet.hole.high, (uint64_t)out << 60);
    }
}

TEST(a_shard_that_waits_for_its_parents_leaves_no_hole_nor_does_a_damaged_row)
{
    struct ks_shard_row merged = part(2, 0, 0, 16);
    struct ks_shard_row shards[3] = {halves[0], halves[1], merged};

    begin();
    shards[0] = halves[0];
    shards[1] = halves[1];
    shards[2].parents[1] = 1;
    shards[0].closed = shards[1].closed = true;
    leases[0].finished = true; /* The other parent is not, and may not be for long. */
    leases[0].owner = KS_NOBODY;
    refresh_rows();
    audit(shards, 3);
    EXPECT(!bed.core->directory[2].present);
    EXPECT(!bed.core->fleet.audit_due);
    EXPECT_EQ_U64(bed.core->fleet.strikes, 0);

    begin();
    audit(halves, 2);
    leases[0] = (struct ks_lease_row){.shard = 0, .damaged = true};
    refresh_rows();
    audit(halves, 2);
    EXPECT(bed.core->directory[0].damaged);
    EXPECT(!bed.core->fleet.audit_due);
    EXPECT_EQ_U64(bed.core->fleet.strikes, 0);
}

TEST(where_no_ranges_are_told_nothing_is_concluded)
{
    begin();
    halves[1].ranged = false;
    lease_count = 1;
    bed.core->directory[1].ranged = false;
    refresh_rows();
    lease_count = 2;
    leases[1].ranged = false;
    refresh_rows();
    audit(halves, 2);
    EXPECT_EQ_U64(bed.core->fleet.strikes, 0);
    EXPECT(!lists_again());
}

/* The row of the second half says that it was read to its end. */
static void finish_open(void)
{
    begin();
    leases[1].finished = true;
    leases[1].owner = KS_NOBODY;
    leases[1].epoch = 5;
    rows[1].held = 1;
    refresh_rows();
}

static bool deletes(ks_shard shard)
{
    for (uint32_t i = 0; i < KS_LEADER_WRITES_MAX; i++) {
        const struct ks_leader_write *write = &bed.core->fleet.writes[i];

        if (write->used && write->operation == KS_STORE_DELETE && write->shard == shard)
            return true;
    }
    return false;
}

TEST(an_open_shard_with_a_finished_row_is_read_again_after_an_hour)
{
    finish_open();
    audit(halves, 2);
    EXPECT_EQ_U64(bed.core->fleet.strikes, 1);
    bed.now = ks_instant_add(bed.now, ks_span_ms(3600000 - 2000));
    audit(halves, 2);
    EXPECT(!deletes(1));
    bed.now = ks_instant_add(bed.now, ks_span_ms(2000));
    audit(halves, 2);
    EXPECT(deletes(1));
    EXPECT(!deletes(0));
    EXPECT_EQ_U64(told.read_again, 1);

    lease_count = 1;
    answer_write(1, KS_DONE);
    EXPECT(!bed.core->directory[1].present);
    next_round();
    EXPECT(bed.core->directory[1].writing);
    answer_write(1, KS_DONE);
    EXPECT(bed.core->directory[1].present);
    EXPECT(!bed.core->directory[1].finished);
}

TEST(a_row_whose_deletion_had_no_answer_is_read_before_it_is_deleted_again)
{
    finish_open();
    audit(halves, 2);
    bed.now = ks_instant_add(bed.now, ks_span_ms(3600000));
    audit(halves, 2);
    EXPECT(deletes(1));
    read_rows();
    list(halves, 2);
    answer_write(1, KS_UNKNOWN);
    next_round();
    EXPECT(bed.core->directory[1].doubtful);
    EXPECT(!bed.core->fleet.audit_due);
    EXPECT(!deletes(1));
    audit(halves, 2);
    EXPECT(!bed.core->directory[1].doubtful);
    EXPECT(deletes(1));
}

TEST(an_open_shard_with_a_finished_row_is_left_while_others_cover_its_keys)
{
    struct ks_shard_row shards[3];

    finish_open();
    shards[0] = halves[0];
    shards[1] = halves[1];
    shards[2] = part(2, 1, 8, 16); /* Its child: it was closed, and the listing does not say so. */
    own(&shards[2]);
    refresh_rows();
    audit(shards, 3);
    bed.now = ks_instant_add(bed.now, ks_span_ms(2 * 3600000));
    audit(shards, 3);
    EXPECT(!deletes(1));
    EXPECT_EQ_U64(bed.core->fleet.strikes, 0);
}

TEST(a_shard_that_is_closed_meanwhile_begins_its_hour_anew)
{
    finish_open();
    audit(halves, 2);
    halves[1].closed = true;
    bed.now = ks_instant_add(bed.now, ks_span_ms(3500000));
    audit(halves, 2);
    halves[1].closed = false;
    audit(halves, 2);
    bed.now = ks_instant_add(bed.now, ks_span_ms(200000));
    audit(halves, 2);
    EXPECT(!deletes(1));
}
