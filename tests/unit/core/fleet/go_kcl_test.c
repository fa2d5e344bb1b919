/* SPDX-License-Identifier: Apache-2.0 */
#include "core/fleet/protocol.h"

#include <stddef.h>
#include <string.h>

#include "ks_test.h"
#include "unit/core/bed.h"

#define WALL_US INT64_C(1714564800000000)
#define NS(seconds) ((uint64_t)(WALL_US / 1000000 + (seconds)) * UINT64_C(1000000000))

static max_align_t memory[1 << 16];
static struct bed bed;
static int64_t wall_us;

static void step(const struct ks_event *event)
{
    ks_core_wall(bed.core, wall_us);
    bed_step(&bed, event);
}

static void wait(int64_t ms)
{
    wall_us += ms * 1000;
    bed.now = ks_instant_add(bed.now, ks_span_ms(ms));
    step(&(struct ks_event){.kind = KS_EVENT_TICK});
}

/* A core with a session that has listed one shard. */
static void live(void)
{
    struct ks_core_config config = ks_core_config_default(ks_span_ms(10000));
    const struct ks_shard_row shard = {.parents = {KS_SHARD_NONE, KS_SHARD_NONE}};

    config.protocol = KS_PROTOCOL_GO_KCL;
    config.self = BED_ME;
    config.seed = 42;
    config.shards_max = BED_SHARDS;
    config.leases_max = 8;
    config.window_max = BED_WINDOW;
    config.workers_max = 8;
    config.sessions_max = 4;
    config.budget_bytes = 1 << 20;
    config.read_bytes = 10000;
    memset(memory, 0, sizeof memory);
    bed = (struct bed){.now = {INT64_C(1000000000)}};
    bed.core = ks_core_init(memory, &config);
    wall_us = WALL_US;
    step(&(struct ks_event){.kind = KS_EVENT_START});
    bed_session(&bed, 10, 1 << 20);
    step(&(struct ks_event){.kind = KS_EVENT_LISTED,
                            .listed = {.ok = true, .shards = &shard, .count = 1}});
}

/* The row of the shard, as somebody has it until then. */
static struct ks_lease_row row_of(uint32_t owner, uint64_t until)
{
    return (struct ks_lease_row){
        .owner = {owner, 0}, .rev = until, .parents = {KS_SHARD_NONE, KS_SHARD_NONE}};
}

/* Answers the look that is under way, or the next one, with one row. */
static void look(const struct ks_lease_row *row)
{
    struct ks_event event = {.kind = KS_EVENT_STORE};

    for (int i = 0; i < 100 && bed.core->fleet.rows == 0; i++)
        wait(100);
    event.store.token = ks_token_make(KS_FOR_ROWS, 0, bed.core->fleet.rows);
    event.store.outcome = KS_DONE;
    event.store.leases = row;
    event.store.lease_count = row == NULL ? 0 : 1;
    step(&event);
}

TEST(a_lease_that_is_renewed_is_not_taken_though_our_clock_is_an_hour_ahead)
{
    live();
    for (int seconds = 0; seconds < 40; seconds += 5) {
        struct ks_lease_row row = row_of(BED_OTHER, NS(-3600 + 10 + seconds));

        look(&row);
        EXPECT(bed_asked(&bed, KS_STORE_TAKE_OVER) == NULL);
        wait(3400);
        look(&row);
        EXPECT(bed_asked(&bed, KS_STORE_TAKE_OVER) == NULL);
        wait(1600);
    }
}

TEST(what_has_run_out_and_stands_still_is_taken_as_it_was_read)
{
    struct ks_lease_row row = row_of(BED_OTHER, NS(5));
    const struct ks_store_effect *taken;
    uint32_t looks = 0;

    live();
    do {
        look(&row);
        taken = bed_asked(&bed, KS_STORE_TAKE_OVER);
    } while (taken == NULL && ++looks < 20);
    EXPECT(taken != NULL);
    EXPECT(wall_us >= WALL_US + 6000000); /* Five seconds, and what clocks may differ by. */
    EXPECT(taken->rev == row.rev && taken->owner.worker == BED_OTHER);
    EXPECT(taken->next_rev % UINT64_C(1000000000) == 0);
    EXPECT(taken->next_rev >= (uint64_t)(wall_us + 10000000) * 1000);
}

TEST(a_take_begins_with_the_row_that_it_wrote_and_no_other)
{
    struct ks_lease_row row = row_of(0, NS(-100));
    const struct ks_store_effect *asked;
    uint64_t next;

    live();
    look(&row);
    asked = bed_asked(&bed, KS_STORE_ASSIGN);
    EXPECT(asked != NULL);
    next = asked->next_rev;
    ks_core_wall(bed.core, wall_us);
    bed_answer(&bed, asked->token, KS_UNKNOWN);
    asked = bed_asked(&bed, KS_STORE_READ_LEASE);
    EXPECT(asked != NULL);
    row = row_of(BED_ME, next + UINT64_C(1000000000)); /* Somebody else under our name. */
    bed_answer_lease(&bed, asked->token, &row);
    EXPECT(bed_effect(&bed, KS_EFFECT_OPEN, 0) == NULL);

    live();
    row = row_of(0, NS(-100));
    look(&row);
    asked = bed_asked(&bed, KS_STORE_ASSIGN);
    next = asked->next_rev;
    bed_answer(&bed, asked->token, KS_UNKNOWN);
    asked = bed_asked(&bed, KS_STORE_READ_LEASE);
    row = row_of(BED_ME, next);
    bed_answer_lease(&bed, asked->token, &row);
    EXPECT(bed_effect(&bed, KS_EFFECT_OPEN, 0) != NULL);
    /* Renewed in time, and until the written time less what clocks may differ by. */
    EXPECT(ks_core_serving_lease(bed.core, &bed.core->leases[0]));
    wait(3400);
    asked = bed_asked(&bed, KS_STORE_CHECKPOINT);
    EXPECT(asked != NULL && asked->rev == next && asked->next_rev > next);
    wait(6000);
    EXPECT(!ks_core_serving_lease(bed.core, &bed.core->leases[0]));
}
