/* SPDX-License-Identifier: Apache-2.0 */
#include "core/fleet/native.h"

#include "ks_test.h"
#include "unit/core/bed.h"

static struct bed bed;
static struct ks_worker_row rows[2]; /* We, and the other. */
static struct ks_lease_row leases[BED_SHARDS];
static uint32_t lease_count;

static const struct ks_store_effect *must_ask(enum ks_store_operation operation)
{
    const struct ks_store_effect *asked = bed_asked(&bed, operation);

    EXPECT(asked != NULL);
    return asked;
}

static void answer_rows(void)
{
    struct ks_event event = {
        .kind = KS_EVENT_STORE,
        .store = {.token = must_ask(KS_STORE_READ_LEASES)->token,
                  .outcome = KS_DONE,
                  .leases = leases,
                  .lease_count = lease_count},
    };

    bed_step(&bed, &event);
}

static void answer_fleet(void)
{
    EXPECT(must_ask(KS_STORE_READ_FLEET)->consistent);
    bed.now = ks_instant_add(bed.now, ks_span_ms(5));
    bed_answer_fleet(&bed, must_ask(KS_STORE_READ_FLEET)->token, rows, 2, bed.core->fleet.self, 2);
}

/* We lead, have a session, and `count` lease rows are in the table; the other worker is there, active. */
static void lead(uint32_t count)
{
    bed_live(&bed);
    bed.core->fleet.deadline = KS_NEVER;
    bed.core->fleet.serial = UINT32_MAX;
    bed.core->fleet.news = 0;
    bed.core->fleet.list_at = KS_NEVER;
    bed.core->sessions_used = 0;
    bed.core->idle_at = KS_NEVER;
    rows[0] = (struct ks_worker_row){.self = bed.core->fleet.self};
    rows[1] = (struct ks_worker_row){.self = {BED_OTHER, 9}, .beat = 1};
    lease_count = count;
    for (uint32_t i = 0; i < count; i++)
        leases[i] = (struct ks_lease_row){
            .shard = i, .epoch = 1, .parents = {KS_SHARD_NONE, KS_SHARD_NONE}};
    bed_tick(&bed);
    bed_answer_fleet(&bed, must_ask(KS_STORE_READ_FLEET)->token, rows, 2, KS_NOBODY, 1);
    bed_answer(&bed, must_ask(KS_STORE_CLAIM_OFFICE)->token, KS_DONE);
    EXPECT(bed.core->fleet.leads);
    bed.core->fleet.list_at = KS_NEVER;
}

/* One round: rows if they are asked for, then the fleet. */
static void round_of(void)
{
    for (int i = 0; i < 10; i++) {
        if (bed_asked(&bed, KS_STORE_READ_LEASES) != NULL) {
            answer_rows();
        } else if (bed_asked(&bed, KS_STORE_READ_FLEET) != NULL) {
            answer_fleet();
            if (bed_asked(&bed, KS_STORE_READ_LEASES) == NULL)
                return;
        } else {
            bed.now = ks_core_deadline(bed.core);
            bed_tick(&bed);
        }
    }
    FAIL("no round came to its end");
}

TEST(nothing_is_assigned_while_another_may_still_show_its_first_advance)
{
    lead(2);
    round_of();
    EXPECT(bed_asked(&bed, KS_STORE_ASSIGN) == NULL);
    rows[1].beat++;
    round_of();
    /* One each. */
    EXPECT_EQ_I64(bed_count(&bed, KS_EFFECT_STORE), 2);
    EXPECT(bed_effect(&bed, KS_EFFECT_STORE, 0)->store.worker.worker !=
           bed_effect(&bed, KS_EFFECT_STORE, 1)->store.worker.worker);
    EXPECT_EQ_I64(bed_effect(&bed, KS_EFFECT_STORE, 0)->store.epoch, 1);
}

TEST(a_worker_that_is_idle_gets_nothing)
{
    lead(2);
    rows[1].mode = KS_IDLE;
    rows[1].beat++;
    round_of();
    EXPECT_EQ_I64(bed_effect(&bed, KS_EFFECT_STORE, 0)->store.worker.worker, BED_ME);
    EXPECT_EQ_I64(bed_effect(&bed, KS_EFFECT_STORE, 1)->store.worker.worker, BED_ME);
}

TEST(who_was_given_a_lease_is_told_and_we_tell_ourselves)
{
    lead(2);
    round_of();
    rows[1].beat++;
    round_of();
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
    lead(2);
    leases[0].owner = (struct ks_incarnation){BED_OTHER, 9};
    leases[1].owner = (struct ks_incarnation){BED_OTHER, 8}; /* An earlier boot. */
    rows[1].beat++;
    round_of();
    EXPECT_EQ_I64(bed_count(&bed, KS_EFFECT_STORE), 1);
    EXPECT_EQ_I64(must_ask(KS_STORE_TAKE_OVER)->shard, 1);
    EXPECT_EQ_U64(must_ask(KS_STORE_TAKE_OVER)->owner.boot, 8);
    bed_answer(&bed, must_ask(KS_STORE_TAKE_OVER)->token, KS_UNKNOWN);
    rows[1].life = KS_FENCED;
    round_of();
    EXPECT_EQ_I64(bed_count(&bed, KS_EFFECT_STORE), 2);
}

TEST(a_child_gets_a_row_only_when_its_parents_are_over)
{
    struct ks_shard_row shards[] = {
        {0, {KS_SHARD_NONE, KS_SHARD_NONE}}, {1, {0, KS_SHARD_NONE}}, {2, {0, KS_SHARD_NONE}}};
    struct ks_event listed = {.kind = KS_EVENT_LISTED, .listed = {true, shards, 3}};

    lead(1);
    leases[0].owner = (struct ks_incarnation){BED_OTHER, 9};
    rows[1].beat++;
    round_of();
    bed_step(&bed, &listed);
    round_of();
    EXPECT(bed_asked(&bed, KS_STORE_CREATE) == NULL);
    leases[0].owner = KS_NOBODY;
    leases[0].finished = true;
    rows[1].changes++;
    round_of();
    EXPECT_EQ_I64(bed_count(&bed, KS_EFFECT_STORE), 2);
    EXPECT_EQ_I64(must_ask(KS_STORE_CREATE)->shard, 1);
}

TEST(a_parent_without_a_row_counts_as_gone_after_two_listings_without_it)
{
    struct ks_shard_row shards[] = {{3, {1, KS_SHARD_NONE}}};
    struct ks_event listed = {.kind = KS_EVENT_LISTED, .listed = {true, shards, 1}};

    lead(0);
    round_of();
    bed_step(&bed, &listed);
    round_of();
    EXPECT(bed_asked(&bed, KS_STORE_CREATE) == NULL);
    bed_step(&bed, &listed);
    round_of();
    EXPECT_EQ_I64(must_ask(KS_STORE_CREATE)->shard, 3);
}

TEST(a_damaged_row_is_told_once_and_left_alone)
{
    lead(2);
    leases[0].damaged = true;
    answer_rows();
    EXPECT(bed_told(&bed, KS_STORY_DAMAGED));
    rows[1].beat++;
    round_of();
    EXPECT_EQ_I64(bed_count(&bed, KS_EFFECT_STORE), 1);
    EXPECT_EQ_I64(must_ask(KS_STORE_ASSIGN)->shard, 1);
}

TEST(a_worker_that_holds_less_than_its_rows_for_a_while_is_told_again)
{
    bool told = false;

    lead(1);
    leases[0].owner = (struct ks_incarnation){BED_OTHER, 9};
    for (int i = 0; i < 12 && !told; i++) {
        rows[1].beat++;
        round_of();
        told = bed_asked(&bed, KS_STORE_HINTS) != NULL;
    }
    EXPECT(told);
    EXPECT_EQ_I64(must_ask(KS_STORE_HINTS)->takes[0].shard, 0);
}
