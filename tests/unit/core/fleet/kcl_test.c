/* SPDX-License-Identifier: Apache-2.0 */
#include "core/fleet/protocol.h"

#include <stddef.h>

#include "ks_test.h"
#include "unit/core/fleet/peers_bed.h"

/* A row of another worker, or of nobody. */
static struct ks_lease_row row_of(ks_shard shard, uint32_t owner, uint64_t counter)
{
    struct ks_lease_row row = peers_row(owner, counter);

    row.shard = shard;
    return row;
}

static struct ks_shard_row shard_of(ks_shard shard, ks_shard parent, ks_shard adjacent, bool closed)
{
    return (struct ks_shard_row){.shard = shard, .parents = {parent, adjacent}, .closed = closed};
}

/* In a fleet of 2.x: the rows that would say otherwise are not there. */
static void live(void)
{
    peers_live(KS_PROTOCOL_KCL);
    for (uint32_t what = 0; what < 2; what++) {
        struct ks_event event = {.kind = KS_EVENT_STORE};

        event.store.token =
            ks_token_make(KS_FOR_NEWS, what, peers_bed.core->fleet.kcl.serials[what]);
        event.store.outcome = KS_DONE;
        peers_step(&event);
    }
    EXPECT(peers_bed.core->fleet.kcl.known);
}

/* We took shard 0, whose counter is 1 then. */
static struct ks_lease *held(void)
{
    struct ks_lease_row row = row_of(0, 0, 0);

    live();
    peers_look(&row);
    EXPECT(peers_answer(KS_STORE_ASSIGN, 0, KS_DONE));
    row = row_of(0, BED_ME, 1);
    bed_answer_lease(&peers_bed, bed_asked(&peers_bed, KS_STORE_READ_LEASE)->token, &row);
    EXPECT(bed_effect(&peers_bed, KS_EFFECT_OPEN, 0) != NULL);
    return &peers_bed.core->leases[0];
}

/* Answers the reads of our lease that are under way. */
static void read_back(const struct ks_lease_row *row)
{
    const struct ks_store_effect *asked = NULL;

    for (int i = 0; i < 100 && asked == NULL; i++) {
        asked = bed_asked(&peers_bed, KS_STORE_READ_LEASE);
        if (asked == NULL)
            peers_wait(10);
    }
    EXPECT(asked != NULL);
    bed_answer_lease(&peers_bed, asked->token, row);
}

static const struct ks_store_effect *await_write(enum ks_store_operation operation)
{
    const struct ks_store_effect *asked = bed_asked(&peers_bed, operation);

    for (int i = 0; i < 1000 && asked == NULL; i++) {
        peers_wait(10);
        asked = bed_asked(&peers_bed, operation);
    }
    EXPECT(asked != NULL);
    return asked;
}

TEST(a_lease_is_taken_when_its_counter_stood_still_for_its_length)
{
    struct ks_lease_row row = row_of(0, BED_OTHER, 5);
    const struct ks_store_effect *taken = NULL;
    ks_instant since;

    live();
    for (; row.rev < 20; row.rev++) {
        peers_look(&row);
        EXPECT(bed_asked(&peers_bed, KS_STORE_TAKE_OVER) == NULL);
    }
    peers_look(&row);
    since = peers_bed.now;
    for (int i = 0; i < 10 && taken == NULL; i++) {
        EXPECT(ks_instant_since(peers_bed.now, since).us <= 20000000);
        peers_look(&row);
        taken = bed_asked(&peers_bed, KS_STORE_TAKE_OVER);
    }
    EXPECT(taken != NULL);
    EXPECT(ks_instant_since(peers_bed.now, since).us > 10000000);
    EXPECT(taken->rev == 20 && taken->next_rev == 21 && taken->owner.worker == BED_OTHER);
}

/* Answers the next look so long after it was asked for. */
static void look_slowly(const struct ks_lease_row *row, int64_t ms)
{
    for (int i = 0; i < 1000 && peers_bed.core->fleet.rows == 0; i++)
        peers_wait(100);
    peers_wait(ms);
    peers_look(row);
}

TEST(looks_that_take_long_end_in_a_take_all_the_same)
{
    struct ks_lease_row row = row_of(0, BED_OTHER, 5);
    const struct ks_store_effect *taken = NULL;
    int64_t watched_us = 0;

    live();
    look_slowly(&row, 8000);
    for (int i = 0; i < 10 && taken == NULL; i++) {
        ks_instant since = peers_bed.now;

        while (peers_bed.core->fleet.rows == 0)
            peers_wait(100);
        watched_us += ks_instant_since(peers_bed.now, since).us;
        look_slowly(&row, 8000);
        taken = bed_asked(&peers_bed, KS_STORE_TAKE_OVER);
    }
    EXPECT(taken != NULL);
    EXPECT(watched_us > 10000000);
}

TEST(what_an_outage_held_up_was_not_watched)
{
    struct ks_lease_row row = row_of(0, BED_OTHER, 5);

    live();
    peers_look(&row);
    look_slowly(&row, 30000);
    EXPECT(bed_asked(&peers_bed, KS_STORE_TAKE_OVER) == NULL);
    peers_look(&row);
    EXPECT(bed_asked(&peers_bed, KS_STORE_TAKE_OVER) == NULL);
}

TEST(our_own_row_of_an_earlier_run_is_taken_at_once_but_not_later)
{
    struct ks_lease_row row = row_of(0, BED_ME, 5);

    live();
    peers_look(&row);
    EXPECT(bed_asked(&peers_bed, KS_STORE_TAKE_OVER) != NULL);

    live();
    peers_wait(11000);
    peers_look(&row);
    EXPECT(bed_asked(&peers_bed, KS_STORE_TAKE_OVER) == NULL);
}

TEST(a_lease_is_renewed_by_thirds_and_serves_until_its_length_less_a_margin)
{
    const struct ks_lease *lease = held();
    const struct ks_store_effect *asked = await_write(KS_STORE_CHECKPOINT);

    EXPECT(asked->rev == 1 && asked->next_rev == 2 && asked->up_to == 0);
    EXPECT_EQ_I64(ks_instant_since(lease->deadline, lease->since).us, 9500000);
    bed_answer(&peers_bed, asked->token, KS_DONE);
    EXPECT_EQ_I64(ks_instant_since(lease->deadline, lease->asked_at).us, 9500000);
}

TEST(of_two_writes_of_one_rev_the_earlier_may_be_the_one_that_was_done)
{
    const struct ks_lease *lease = held();
    struct ks_lease_row row = row_of(0, BED_ME, 1);
    const struct ks_store_effect *asked = await_write(KS_STORE_CHECKPOINT);
    uint64_t token = asked->token;
    ks_instant first = peers_bed.now;

    peers_wait(2000);
    bed_answer(&peers_bed, token, KS_UNKNOWN);
    read_back(&row);
    asked = await_write(KS_STORE_CHECKPOINT);
    EXPECT(asked->rev == 1 && asked->next_rev == 2);
    EXPECT(ks_instant_since(lease->asked_at, first).us >= 2000000);
    bed_answer(&peers_bed, asked->token, KS_REFUSED);
    row.rev = 2;
    read_back(&row);
    EXPECT_EQ_I64(ks_instant_since(lease->deadline, first).us, 9500000);
    EXPECT(lease->used && lease->rev == 2);
}

TEST(of_two_takes_of_one_rev_the_earlier_may_be_the_one_that_was_done)
{
    struct ks_lease_row row = row_of(0, 0, 4);
    ks_instant first;

    live();
    peers_look(&row);
    first = peers_bed.now;
    EXPECT(peers_answer(KS_STORE_ASSIGN, 0, KS_UNKNOWN));
    read_back(&row); /* Not done, or not yet. */
    peers_wait(1500);
    peers_look(&row);
    EXPECT(peers_answer(KS_STORE_ASSIGN, 0, KS_UNKNOWN));
    row = row_of(0, BED_ME, 5);
    read_back(&row);
    EXPECT(bed_effect(&peers_bed, KS_EFFECT_OPEN, 0) != NULL);
    EXPECT_EQ_I64(ks_instant_since(peers_bed.core->leases[0].deadline, first).us, 9500000);
}

/* Answers what is asked of our lease, but its end: done, and as we have it. */
static void answer_lease(struct ks_lease_row *row)
{
    const struct ks_lease *lease = &peers_bed.core->leases[0];

    while (lease->write == KS_WRITE_CHECKPOINT || lease->write == KS_WRITE_REREAD) {
        uint64_t token = ks_token_make(KS_FOR_LEASE, 0, lease->serial);

        row->rev = lease->rev;
        if (lease->write == KS_WRITE_CHECKPOINT)
            bed_answer(&peers_bed, token, KS_DONE);
        else
            bed_answer_lease(&peers_bed, token, row);
    }
}

TEST(a_take_after_a_loss_serves_no_longer_than_the_lost_leases_last_write_would_have)
{
    const struct ks_lease *lease = held();
    struct ks_lease_row row = row_of(0, BED_ME, 1);
    const struct ks_store_effect *asked = await_write(KS_STORE_CHECKPOINT);
    ks_instant first = peers_bed.now;
    ks_epoch epoch = lease->epoch;

    EXPECT_EQ_U64(asked->next_rev, 2);
    bed_answer(&peers_bed, asked->token, KS_UNKNOWN);
    for (int i = 0; i < 100 && bed_asked(&peers_bed, KS_STORE_READ_LEASE) == NULL; i++)
        peers_wait(10);
    /* The row is gone, and comes back as we had it: restored by hand, say. */
    bed_answer(&peers_bed, bed_asked(&peers_bed, KS_STORE_READ_LEASE)->token, KS_DONE);
    EXPECT(bed_told(&peers_bed, KS_STORY_LOST));
    peers_look(&row);
    EXPECT_EQ_U64(bed_asked(&peers_bed, KS_STORE_TAKE_OVER)->next_rev, 2);
    EXPECT(ks_instant_before(first, peers_bed.now));
    EXPECT(peers_answer(KS_STORE_TAKE_OVER, 0, KS_UNKNOWN));
    row.rev = 2;
    read_back(&row);
    EXPECT(lease->used && lease->epoch > epoch);
    EXPECT_EQ_I64(ks_instant_since(lease->deadline, first).us, 9500000);
}

TEST(a_shard_ends_after_its_children_have_rows)
{
    const struct ks_shard_row shards[] = {shard_of(0, KS_SHARD_NONE, KS_SHARD_NONE, true),
                                          shard_of(1, 0, KS_SHARD_NONE, false),
                                          shard_of(2, 0, KS_SHARD_NONE, false)};
    const struct ks_lease *lease = held();
    struct ks_lease_row row = row_of(0, BED_ME, 1);

    for (int i = 0; i < 100 && !lease->reading; i++)
        peers_wait(10);
    peers_wait(1000); /* After the listing. */
    bed_records(&peers_bed, 0, 0, 0, true);
    EXPECT(lease->write != KS_WRITE_END);
    peers_list(shards, 3);
    EXPECT(lease->write != KS_WRITE_END);
    row.rev = lease->rev;
    peers_look(&row);
    /* A listing that is younger than what is missing. */
    peers_list(shards, 3);
    row.rev = lease->rev;
    peers_look(&row);
    EXPECT(peers_answer(KS_STORE_CREATE, 1, KS_DONE));
    EXPECT(lease->write != KS_WRITE_END);
    EXPECT(peers_answer(KS_STORE_CREATE, 2, KS_DONE));
    answer_lease(&row);
    EXPECT_EQ_I64(lease->write, KS_WRITE_END);
}

/* Of the lower half of the keys, say, or of all. */
static struct ks_shard_row keys_of(struct ks_shard_row shard, uint64_t first, uint64_t last)
{
    shard.ranged = true;
    shard.first_key = (struct ks_hash_key){first, 0};
    shard.last_key = (struct ks_hash_key){last, UINT64_MAX};
    return shard;
}

TEST(a_shard_ends_only_when_listings_show_who_goes_on_with_all_its_keys)
{
    const struct ks_shard_row shards[] = {
        keys_of(shard_of(0, KS_SHARD_NONE, KS_SHARD_NONE, true), 0, 99),
        keys_of(shard_of(1, 0, KS_SHARD_NONE, false), 0, 49),
        keys_of(shard_of(2, 0, KS_SHARD_NONE, false), 50, 99)};
    const struct ks_lease *lease = held();
    struct ks_lease_row rows[2] = {row_of(0, BED_ME, 1), row_of(1, BED_OTHER, 1)};

    for (int i = 0; i < 100 && !lease->reading; i++)
        peers_wait(10);
    peers_wait(1000); /* After the listing. */
    bed_records(&peers_bed, 0, 0, 0, true);
    peers_list(shards, 1);
    rows[0].rev = lease->rev;
    peers_look(rows);
    EXPECT(lease->write != KS_WRITE_END);
    /* Half of them, whose row is there already: asked for again before long. */
    peers_list(shards, 2);
    for (int i = 0; i < 120 && !peers_bed.core->fleet.listing; i++)
        peers_wait(10);
    EXPECT(peers_bed.core->fleet.listing);
    rows[0].rev = lease->rev;
    peers_look_at(rows, 2);
    EXPECT(lease->write != KS_WRITE_END);
    answer_lease(&rows[0]);
    EXPECT_EQ_I64(lease->write, KS_WRITE_NONE);
    /* None will ever show the rest. */
    peers_bed.core->leases[0].end_at = ks_instant_add(peers_bed.now, ks_span_ms(-61000));
    peers_list(shards, 2);
    answer_lease(&rows[0]);
    EXPECT_EQ_I64(lease->write, KS_WRITE_END);
}

TEST(no_shard_ends_before_there_was_a_listing)
{
    const struct ks_lease *lease = held();
    struct ks_lease_row row = row_of(0, BED_ME, 1);

    for (int i = 0; i < 100 && !lease->reading; i++)
        peers_wait(10);
    peers_bed.core->fleet.listed_at = KS_LONG_AGO; /* The first one is under way still. */
    bed_records(&peers_bed, 0, 0, 0, true);
    row.rev = lease->rev;
    peers_look(&row);
    answer_lease(&row);
    EXPECT(lease->used && lease->write != KS_WRITE_END);
    EXPECT(peers_bed.core->fleet.listing);
}

TEST(hash_keys_that_a_row_lacks_are_filled_in)
{
    const struct ks_shard_row shards[] = {
        keys_of(shard_of(0, KS_SHARD_NONE, KS_SHARD_NONE, false), 0, 49),
        keys_of(shard_of(1, KS_SHARD_NONE, KS_SHARD_NONE, false), 50, UINT64_MAX)};
    struct ks_lease_row rows[] = {row_of(0, BED_OTHER, 9), row_of(1, BED_OTHER, 1)};

    live();
    peers_list(shards, 2);
    rows[0].unranged = true;
    rows[0].damaged = true;
    rows[1].unranged = true;
    peers_look_at(rows, 2);
    EXPECT(!peers_answer(KS_STORE_FILL, 0, KS_DONE));
    EXPECT(peers_answer(KS_STORE_FILL, 1, KS_REFUSED));
    rows[1].rev++;
    peers_look_at(rows, 2);
    EXPECT(peers_answer(KS_STORE_FILL, 1, KS_DONE));
    /* Never of what is over. */
    rows[0].damaged = false;
    rows[0].finished = true;
    rows[1].unranged = false;
    rows[1].rev++;
    peers_look_at(rows, 2);
    EXPECT(!peers_answer(KS_STORE_FILL, 0, KS_DONE));
}

TEST(what_cannot_be_read_any_more_is_not_written_and_told_once)
{
    const struct ks_lease *lease = held();
    struct ks_lease_row row = row_of(0, BED_ME, 1);

    row.damaged = true;
    peers_look(&row);
    EXPECT(bed_told(&peers_bed, KS_STORY_DAMAGED));
    if (lease->write == KS_WRITE_CHECKPOINT) /* It was under way. */
        bed_answer(&peers_bed, ks_token_make(KS_FOR_LEASE, 0, lease->serial), KS_REFUSED);
    for (int i = 0; i < 1000; i++) {
        EXPECT(lease->write == KS_WRITE_NONE || lease->write == KS_WRITE_REREAD);
        if (lease->write == KS_WRITE_REREAD)
            bed_answer_lease(&peers_bed, ks_token_make(KS_FOR_LEASE, 0, lease->serial), &row);
        peers_wait(20);
    }
    peers_look(&row);
    EXPECT(!bed_told(&peers_bed, KS_STORY_DAMAGED));
    EXPECT(!ks_core_may_finish(peers_bed.core, 0, lease->epoch, peers_bed.now));
    /* Mended, and as we left it. */
    row.damaged = false;
    for (int i = 0; i < 1000 && lease->write != KS_WRITE_REREAD; i++)
        peers_wait(20);
    answer_lease(&row);
    EXPECT(lease->used && !lease->reread);
}

TEST(a_row_is_made_only_after_a_listing_that_is_younger_than_its_absence)
{
    const struct ks_shard_row shard = shard_of(0, KS_SHARD_NONE, KS_SHARD_NONE, false);

    live();
    peers_wait(100);
    peers_look(NULL);
    EXPECT(!peers_answer(KS_STORE_CREATE, 0, KS_DONE));
    peers_list(&shard, 1);
    peers_look(NULL);
    EXPECT(peers_answer(KS_STORE_CREATE, 0, KS_DONE));
    EXPECT(bed_told(&peers_bed, KS_STORY_CREATED));
}

TEST(no_row_is_made_below_a_parent_that_one_listing_does_not_show)
{
    const struct ks_shard_row child = shard_of(1, 0, KS_SHARD_NONE, false);

    live();
    peers_list(&child, 1);
    peers_look(NULL);
    peers_bed.core->fleet.list_at = peers_bed.now;
    peers_list(&child, 1);
    peers_look(NULL);
    EXPECT(!peers_answer(KS_STORE_CREATE, 1, KS_DONE));
    peers_wait(1000);
    peers_list(&child, 1);
    peers_look(NULL);
    EXPECT(peers_answer(KS_STORE_CREATE, 1, KS_DONE));
}

TEST(far_relatives_are_found_in_any_order)
{
    /* 3 > 9 > 1 > 7 > 5, and 9 > 2, which nothing has to do with the row of 7. */
    const struct ks_shard_row shards[] = {
        shard_of(9, 3, KS_SHARD_NONE, true), shard_of(1, 9, KS_SHARD_NONE, true),
        shard_of(7, 1, KS_SHARD_NONE, true), shard_of(5, 7, 7, true),
        shard_of(2, 9, KS_SHARD_NONE, true), shard_of(3, KS_SHARD_NONE, KS_SHARD_NONE, true),
    };
    static const bool above[] = {false, false, false, false, false,
                                 true,  false, false, false, false};
    static const bool below[] = {false, true, false, true, false, false, false, false, false, true};
    struct ks_lease_row row = row_of(7, BED_OTHER, 1);

    live();
    peers_list(shards, 6);
    peers_look(&row);
    for (ks_shard shard = 0; shard < 10; shard++) {
        EXPECT_EQ_I64(peers_bed.core->directory[shard].begun_above, above[shard]);
        EXPECT_EQ_I64(peers_bed.core->directory[shard].begun_below, below[shard]);
    }
}

/* Which of three shards get rows: a split one, and its children. */
static void expect_rows(bool parent, bool children)
{
    const struct ks_shard_row shards[] = {shard_of(0, KS_SHARD_NONE, KS_SHARD_NONE, true),
                                          shard_of(1, 0, KS_SHARD_NONE, false),
                                          shard_of(2, 0, KS_SHARD_NONE, false)};

    peers_wait(100);
    peers_look(NULL);
    peers_list(shards, 3);
    peers_look(NULL);
    peers_list(shards, 3);
    peers_look(NULL);
    EXPECT(peers_answer(KS_STORE_CREATE, 0, KS_UNKNOWN) == parent);
    EXPECT(peers_answer(KS_STORE_CREATE, 1, KS_UNKNOWN) == children);
}

TEST(what_was_closed_before_the_latest_gets_no_row)
{
    live();
    expect_rows(true, false); /* The children wait for the parent. */
    live();
    peers_bed.core->config.latest = true;
    expect_rows(false, true);
}

TEST(a_finished_row_stays_until_its_children_were_begun)
{
    const struct ks_shard_row shards[] = {shard_of(0, KS_SHARD_NONE, KS_SHARD_NONE, true),
                                          shard_of(1, 0, KS_SHARD_NONE, false)};
    struct ks_lease_row rows[] = {row_of(0, 0, 9), row_of(1, BED_OTHER, 1)};

    live();
    peers_list(shards, 2);
    rows[0].finished = true;
    rows[1].parents[0] = 0;
    rows[1].unstarted = true;
    peers_bed.core->config.keep = ks_span_ms(20000);
    for (int i = 0; i < 10; i++, rows[1].rev++) {
        peers_look_at(rows, 2);
        EXPECT(bed_asked(&peers_bed, KS_STORE_DELETE) == NULL);
    }
    rows[1].unstarted = false;
    peers_look_at(rows, 2);
    EXPECT(bed_asked(&peers_bed, KS_STORE_DELETE) != NULL);
    EXPECT_EQ_I64(bed_asked(&peers_bed, KS_STORE_DELETE)->shard, 0);
}

/* Nobody knows whether it was begun; and if somebody deletes it, the next one begins below a row. */
TEST(a_finished_row_stays_while_that_of_a_child_cannot_be_read)
{
    const struct ks_shard_row shards[] = {shard_of(0, KS_SHARD_NONE, KS_SHARD_NONE, true),
                                          shard_of(1, 0, KS_SHARD_NONE, false)};
    struct ks_lease_row rows[] = {row_of(0, 0, 9), row_of(1, BED_OTHER, 1)};

    live();
    peers_list(shards, 2);
    rows[0].finished = true;
    rows[1].parents[0] = 0;
    rows[1].damaged = true;
    peers_bed.core->config.keep = ks_span_ms(20000);
    for (int i = 0; i < 10; i++) {
        peers_look_at(rows, 2);
        EXPECT(bed_asked(&peers_bed, KS_STORE_DELETE) == NULL);
    }
    rows[1].damaged = false;
    peers_look_at(rows, 2);
    EXPECT(bed_asked(&peers_bed, KS_STORE_DELETE) != NULL);
}

TEST(one_lease_is_stolen_of_who_has_most)
{
    struct ks_lease_row rows[4];
    uint32_t stolen = 0;

    live();
    for (uint32_t i = 0; i < 4; i++)
        rows[i] = row_of(i, BED_OTHER, 1);
    for (int look = 0; look < 3; look++) {
        peers_look_at(rows, 4);
        (void)peers_read(rows);
        for (uint32_t i = 0; i < 4; i++) {
            stolen += peers_answer(KS_STORE_TAKE_OVER, i, KS_REFUSED);
            rows[i].rev++;
        }
    }
    EXPECT_EQ_I64(stolen, 1);
}

/* Somebody has all of three leases, and one of them is being read, to be stolen: so many times its owner has renewed it
 * since it was looked at. Returns which. */
static ks_shard about_to_steal(struct ks_lease_row rows[3], uint64_t renewed)
{
    ks_shard shard;

    live();
    for (uint32_t i = 0; i < 3; i++)
        rows[i] = row_of(i, BED_OTHER, 1);
    peers_look_at(rows, 3);
    EXPECT(peers_read_token() != 0);
    EXPECT(bed_asked(&peers_bed, KS_STORE_TAKE_OVER) == NULL);
    shard = bed_asked(&peers_bed, KS_STORE_READ_LEASE)->shard;
    rows[shard].rev += renewed;
    return shard;
}

/* Whether what was read is stolen. */
static bool steals(const struct ks_lease_row rows[3])
{
    EXPECT(peers_read(rows));
    return bed_asked(&peers_bed, KS_STORE_TAKE_OVER) != NULL;
}

TEST(a_lease_is_stolen_as_it_is_now_whatever_the_look_showed)
{
    struct ks_lease_row rows[3];
    const ks_shard shard = about_to_steal(rows, 9);
    const struct ks_store_effect *stolen;

    EXPECT(steals(rows));
    stolen = bed_asked(&peers_bed, KS_STORE_TAKE_OVER);
    EXPECT_EQ_I64(stolen->shard, shard);
    EXPECT_EQ_I64(stolen->owner.worker, BED_OTHER);
    EXPECT_EQ_U64(stolen->rev, 10);
    EXPECT_EQ_U64(stolen->next_rev, 11);
}

TEST(what_is_no_more_to_be_stolen_is_let_be)
{
    enum { THIRD = BED_OTHER + 1 };
    struct ks_lease_row rows[3];
    ks_shard shard;

    rows[about_to_steal(rows, 1)].owner.worker = THIRD; /* Who has one. */
    EXPECT(!steals(rows));
    rows[about_to_steal(rows, 1)].finished = true;
    EXPECT(!steals(rows));
    shard = about_to_steal(rows, 1);
    rows[shard].damaged = true;
    EXPECT(!steals(rows));
    rows[shard].damaged = false;
    peers_look_at(rows, 3);
    EXPECT(steals(rows)); /* Nothing was stolen yet: the next look finds one. */
}

TEST(who_wants_no_more_when_it_was_read_steals_nothing)
{
    struct ks_lease_row rows[3];
    ks_instant at;

    (void)about_to_steal(rows, 1); /* A leader has come. */
    peers_bed.core->fleet.kcl.version = KS_KCL_3X;
    peers_bed.core->fleet.kcl.led = true;
    EXPECT(!steals(rows));
    (void)about_to_steal(rows, 1); /* Another one of this process has stolen. */
    at = ks_instant_add(peers_bed.now, ks_span_ms(20050));
    ks_core_claim(peers_bed.core, &at);
    EXPECT(!steals(rows));
    (void)about_to_steal(rows, 1); /* We are to leave. */
    peers_step(&(struct ks_event){.kind = KS_EVENT_DRAIN, .drain = {ks_span_ms(60000)}});
    EXPECT(!steals(rows));
}

TEST(what_cannot_be_read_is_not_stolen)
{
    struct ks_lease_row rows[3];

    (void)about_to_steal(rows, 1);
    for (int i = 0; i < 40; i++) {
        if (peers_read_token() != 0)
            bed_answer(&peers_bed, peers_read_token(), KS_UNKNOWN);
        EXPECT(bed_asked(&peers_bed, KS_STORE_TAKE_OVER) == NULL);
        peers_wait(500);
        EXPECT(bed_asked(&peers_bed, KS_STORE_TAKE_OVER) == NULL);
    }
}

/* ---- Of several streams ---- */

/* A row of another stream; `unserved`: nobody in this process reads that. */
static struct ks_lease_row elsewhere(ks_shard shard, uint32_t owner, uint64_t counter)
{
    struct ks_lease_row row = row_of(shard, owner, counter);

    row.elsewhere = true;
    return row;
}

TEST(rows_of_other_streams_are_never_written)
{
    struct ks_lease_row rows[3] = {elsewhere(0, 0, 1), elsewhere(1, BED_OTHER, 1),
                                   elsewhere(2, BED_OTHER, 1)};
    struct ks_lease_view view;

    live();
    rows[2].finished = true;
    peers_look_at(rows, 3);
    peers_list(NULL, 0);
    peers_wait(2000);
    peers_list(NULL, 0);
    for (int look = 0; look < 3000; look++) { /* Beyond an hour. */
        peers_look_at(rows, 3);
        EXPECT(bed_asked(&peers_bed, KS_STORE_ASSIGN) == NULL);
        EXPECT(bed_asked(&peers_bed, KS_STORE_TAKE_OVER) == NULL);
        EXPECT(bed_asked(&peers_bed, KS_STORE_DELETE) == NULL);
    }
    EXPECT(!ks_core_lease(peers_bed.core, 1, &view));
    EXPECT(!ks_core_lease(peers_bed.core, 2, &view));
}

/* How many of so many free leases of our stream we take at once, while we and another have others elsewhere. */
static uint32_t takes_beside(uint32_t free, uint32_t ours, uint32_t others)
{
    struct ks_lease_row rows[BED_SHARDS];
    uint32_t taken = 0;

    live();
    for (uint32_t i = 0; i < free + ours + others; i++)
        rows[i] =
            i < free ? row_of(i, 0, 1) : elsewhere(i, i < free + ours ? BED_ME : BED_OTHER, 1);
    peers_look_at(rows, free + ours + others);
    for (uint32_t i = 0; i < free; i++)
        taken += peers_answer(KS_STORE_ASSIGN, i, KS_REFUSED);
    return taken;
}

TEST(our_share_is_of_the_whole_table)
{
    EXPECT_EQ_I64(takes_beside(2, 3, 1), 0); /* Three of six are ours already. */
    EXPECT_EQ_I64(takes_beside(4, 3, 3), 2); /* Five of ten are ours to have. */
}

TEST(what_is_ours_elsewhere_counts)
{
    struct ks_lease_row rows[4] = {row_of(0, BED_OTHER, 1), row_of(1, BED_OTHER, 1),
                                   elsewhere(2, BED_ME, 1), elsewhere(3, BED_ME, 1)};
    uint32_t stolen = 0;

    live();
    for (int look = 0; look < 8; look++) {
        peers_look_at(rows, 4);
        (void)peers_read(rows);
        for (uint32_t i = 0; i < 4; i++) {
            stolen += peers_answer(KS_STORE_TAKE_OVER, i, KS_REFUSED);
            rows[i].rev++;
        }
    }
    EXPECT_EQ_I64(stolen, 0);
    /* We have one of four now. */
    rows[3] = elsewhere(3, BED_OTHER, 1);
    for (int look = 0; look < 8; look++) {
        peers_look_at(rows, 4);
        (void)peers_read(rows);
        for (uint32_t i = 0; i < 4; i++) {
            stolen += peers_answer(KS_STORE_TAKE_OVER, i, KS_REFUSED);
            rows[i].rev++;
        }
    }
    EXPECT(stolen >= 1);
}

TEST(those_who_share_a_table_steal_one_lease_in_each_cycle)
{
    struct ks_lease_row rows[4];
    ks_instant at;
    bool stolen = false;

    live();
    for (uint32_t i = 0; i < 4; i++)
        rows[i] = row_of(i, BED_OTHER, 1);
    /* Another one of this process did so just now. */
    at = ks_instant_add(peers_bed.now, ks_span_ms(20050));
    for (int look = 0; !stolen && look < 10; look++) {
        ks_core_claim(peers_bed.core, &at);
        peers_look_at(rows, 4);
        (void)peers_read(rows);
        for (uint32_t i = 0; i < 4; i++) {
            stolen |= peers_answer(KS_STORE_TAKE_OVER, i, KS_REFUSED);
            rows[i].rev++;
        }
        EXPECT(!stolen || ks_instant_reached(peers_bed.now, at));
    }
    EXPECT(stolen);
    /* Its next one comes no sooner. */
    ks_core_claim(peers_bed.core, &at);
    EXPECT(ks_instant_since(at, peers_bed.now).us > 20000000);
}

TEST(who_has_most_is_stolen_from_if_it_has_some_of_our_stream)
{
    enum { THIRD = BED_OTHER + 1 };
    struct ks_lease_row rows[8];
    bool stolen = false;

    live();
    for (uint32_t i = 0; i < 8; i++)
        rows[i] = i < 3 ? row_of(i, THIRD, 1) : elsewhere(i, BED_OTHER, 1);
    for (int look = 0; look < 8; look++) {
        peers_look_at(rows, 8);
        (void)peers_read(rows);
        for (uint32_t i = 0; i < 8; i++) {
            stolen |= peers_answer(KS_STORE_TAKE_OVER, i, KS_REFUSED);
            rows[i].rev++;
        }
    }
    EXPECT(stolen); /* Three of eight are more than a third of them. */
}
