/* SPDX-License-Identifier: Apache-2.0 */
#include "core/fleet/protocol.h"

#include <stddef.h>

#include "ks_test.h"
#include "unit/core/fleet/peers_bed.h"

/* So long ago, in ns since 1970. */
#define AGO(ms) ((uint64_t)(peers_wall_us - (int64_t)(ms)*1000) * 1000)

static const ks_shard shards[] = {0};
static const struct ks_list_row whole_list = {true, 1, shards, 1};

/* Answers the request of the cycle that is under way, or the next one. */
static void answer(struct ks_event event)
{
    const struct ks_division *division = &peers_bed.core->fleet.division;

    for (int i = 0; i < 1000 && division->serial == 0; i++)
        peers_wait(100);
    event.kind = KS_EVENT_STORE;
    event.store.token = ks_token_make(KS_FOR_SELF, 0, division->serial);
    event.store.outcome = KS_DONE;
    peers_step(&event);
}

static void beaten(enum ks_outcome outcome)
{
    struct ks_event event = {.kind = KS_EVENT_STORE, .store = {.outcome = outcome}};

    event.store.token = ks_token_make(KS_FOR_SELF, 0, peers_bed.core->fleet.division.serial);
    peers_step(&event);
}

static const struct ks_store_effect *next_beat(void)
{
    for (int i = 0; i < 1000 && peers_bed.core->fleet.division.serial == 0; i++)
        peers_wait(100);
    EXPECT_EQ_U64(peers_bed.core->fleet.division.asking, KS_STORE_HEARTBEAT);
    return bed_asked(&peers_bed, KS_STORE_HEARTBEAT);
}

/* A cycle in which another client, of this age and whose id comes first, stands beside us. */
static void cycle(int64_t other_ms, const struct ks_list_row *list)
{
    struct ks_worker_row workers[] = {
        {.self = {BED_OTHER, 0}, .beat = AGO(other_ms), .rank = 0},
        {.self = {BED_ME, 0}, .beat = AGO(0), .rank = 1},
    };

    answer((struct ks_event){.store = {.outcome = KS_DONE}});
    EXPECT(bed_asked(&peers_bed, KS_STORE_READ_FLEET) != NULL);
    answer((struct ks_event){.store = {.workers = workers, .worker_count = 2}});
    EXPECT(bed_asked(&peers_bed, KS_STORE_READ_NEWS) != NULL);
    answer((struct ks_event){.store = {.list = *list}});
}

/* Answers the write of the leader row that is under way. */
static void office_written(void)
{
    struct ks_event event = {.kind = KS_EVENT_STORE, .store = {.outcome = KS_DONE}};

    event.store.token = ks_token_make(KS_FOR_OFFICE, 0, peers_bed.core->fleet.division.office);
    peers_step(&event);
}

TEST(only_what_falls_to_us_is_captured)
{
    peers_live(KS_PROTOCOL_KINSUMER);
    EXPECT_EQ_U64(peers_bed.core->fleet.division.asking, KS_STORE_HEARTBEAT);
    cycle(0, &whole_list);
    peers_look(NULL);
    EXPECT(bed_asked(&peers_bed, KS_STORE_ASSIGN) == NULL);
    /* Whoever is silent for L does not count any more. */
    cycle(10000, &whole_list);
    EXPECT(bed_told(&peers_bed, KS_STORY_DIVIDED));
    EXPECT(bed_asked(&peers_bed, KS_STORE_CLAIM_OFFICE) != NULL);
    peers_look(NULL);
    EXPECT(bed_asked(&peers_bed, KS_STORE_ASSIGN) != NULL);
}

TEST(an_old_row_of_a_client_that_lives_is_left_to_it_for_two_periods)
{
    struct ks_lease_row row;
    int64_t began_us = 0;
    bool captured = false;

    peers_live(KS_PROTOCOL_KINSUMER);
    row = peers_row(BED_OTHER, AGO(60000));
    while (peers_wall_us < PEERS_WALL_US + 15000000) { /* It is watched, and not ours. */
        cycle(0, &whole_list);
        peers_look(&row);
        EXPECT(bed_asked(&peers_bed, KS_STORE_TAKE_OVER) == NULL);
    }
    /* A third client comes before both: now its number falls to us, though the other lives. */
    for (int i = 0; i < 20 && !captured; i++) {
        const ks_shard two[] = {5, 0};
        struct ks_list_row list = {true, 2, two, 2};

        cycle(0, &list);
        began_us = began_us == 0 ? peers_wall_us : began_us;
        peers_look(&row);
        captured = bed_asked(&peers_bed, KS_STORE_TAKE_OVER) != NULL;
    }
    EXPECT(captured);
    EXPECT(peers_wall_us >= began_us + 2 * peers_bed.core->config.beat.us);
}

TEST(what_names_us_is_captured_again_at_once)
{
    struct ks_lease_row row;
    const struct ks_store_effect *taken;

    peers_live(KS_PROTOCOL_KINSUMER);
    row = peers_row(BED_ME, AGO(1000));
    cycle(20000, &whole_list);
    peers_look(&row);
    taken = bed_asked(&peers_bed, KS_STORE_TAKE_OVER);
    EXPECT(taken != NULL);
    EXPECT(taken->rev == row.rev && taken->owner.worker == BED_ME);
    EXPECT(taken->next_rev > row.rev);
}

TEST(a_time_that_is_far_ahead_is_not_handed_on)
{
    struct ks_lease_row row;
    const struct ks_store_effect *taken;

    for (int64_t ahead_ms = 30000; ahead_ms <= 3600000; ahead_ms += 3570000) {
        peers_live(KS_PROTOCOL_KINSUMER);
        row = peers_row(0, AGO(-ahead_ms));
        cycle(20000, &whole_list);
        peers_look(&row);
        taken = bed_asked(&peers_bed, KS_STORE_ASSIGN);
        EXPECT(taken != NULL && taken->rev == row.rev);
        EXPECT((taken->next_rev > row.rev) == (ahead_ms == 30000));
        EXPECT(taken->next_rev > row.rev || taken->next_rev <= AGO(0));
    }
}

TEST(whoever_wants_no_leases_signs_off)
{
    peers_live(KS_PROTOCOL_KINSUMER);
    struct ks_lease_row row = peers_row(0, 1);

    row.finished = true;
    cycle(20000, &whole_list);
    office_written();
    EXPECT(peers_bed.core->fleet.leads);
    peers_look(&row);
    EXPECT(peers_bed.core->fleet.division.enrolled);
    peers_step(&(struct ks_event){.kind = KS_EVENT_DRAIN, .drain = {ks_span_ms(0)}});
    EXPECT(bed_asked(&peers_bed, KS_STORE_RESIGN_OFFICE) != NULL);
    office_written();
    EXPECT(!peers_bed.core->fleet.leads);
    for (int i = 0; i < 100 && bed_asked(&peers_bed, KS_STORE_SAY_GONE) == NULL; i++)
        peers_wait(10);
    EXPECT(bed_asked(&peers_bed, KS_STORE_SAY_GONE) != NULL);
    EXPECT_EQ_U64(peers_bed.core->fleet.division.beat, 0); /* Whoever comes back makes it anew. */
    answer((struct ks_event){.store = {.outcome = KS_DONE}});
    EXPECT_EQ_U64(peers_bed.core->fleet.step, KS_SELF_GONE);
}

/* A beat that lands after we signed off must not make the row again: its part would be unread for as long as it counts.
 */
TEST(only_the_first_beat_makes_the_row)
{
    const struct ks_store_effect *beat;

    peers_live(KS_PROTOCOL_KINSUMER);
    EXPECT_EQ_U64(bed_asked(&peers_bed, KS_STORE_HEARTBEAT)->expect_beat, 0);
    beaten(KS_UNKNOWN);
    beat = next_beat();
    EXPECT_EQ_U64(beat->expect_beat, 0); /* It may not be there yet. */
    cycle(0, &whole_list);
    beat = next_beat();
    EXPECT(beat->expect_beat != 0 && beat->expect_beat < beat->next_rev);
    /* Somebody has removed it. */
    beaten(KS_REFUSED);
    beat = next_beat();
    EXPECT_EQ_U64(beat->expect_beat, 0);
    cycle(0, &whole_list);
    EXPECT(peers_bed.core->fleet.division.beat != 0);
}

TEST(an_empty_list_is_made_of_what_the_stream_has)
{
    const struct ks_list_row none = {.present = false};
    const struct ks_shard_row shard = {.parents = {KS_SHARD_NONE, KS_SHARD_NONE}};
    const struct ks_store_effect *named = NULL;

    peers_live(KS_PROTOCOL_KINSUMER);
    cycle(0, &none);
    for (int i = 0; i < 5 && named == NULL; i++) {
        peers_look(NULL);
        named = bed_asked(&peers_bed, KS_STORE_NAME_SHARDS);
        if (named == NULL)
            peers_step(&(struct ks_event){.kind = KS_EVENT_LISTED,
                                          .listed = {.ok = true, .shards = &shard, .count = 1}});
    }
    EXPECT(named != NULL);
    EXPECT_EQ_U64(named->shard_count, 1);
    EXPECT_EQ_U64(named->shards[0], 0);
}

static bool names_shards(void)
{
    peers_look(NULL);
    return bed_asked(&peers_bed, KS_STORE_NAME_SHARDS) != NULL;
}

TEST(a_listing_that_was_asked_for_before_a_long_sleep_makes_no_list)
{
    const struct ks_list_row none = {.present = false};
    const struct ks_shard_row shard = {.parents = {KS_SHARD_NONE, KS_SHARD_NONE}};
    const struct ks_event listed = {.kind = KS_EVENT_LISTED,
                                    .listed = {.ok = true, .shards = &shard, .count = 1}};

    peers_live(KS_PROTOCOL_KINSUMER);
    for (int i = 0; i < 1000 && !peers_bed.core->fleet.listing; i++)
        peers_wait(100);
    EXPECT(peers_bed.core->fleet.listing);
    peers_wait(3600000);
    peers_bed.core->fleet.division.serial = 0; /* The cycle of before got no answer. */
    cycle(0, &none);
    peers_step(&listed);
    EXPECT(!names_shards());
    for (int i = 0; i < 100 && !peers_bed.core->fleet.listing; i++)
        peers_wait(10);
    peers_step(&listed);
    EXPECT(names_shards());
}

/* All but its last answer came before the sleep. */
TEST(a_cycle_that_slept_makes_no_list)
{
    const struct ks_list_row none = {.present = false};
    const struct ks_shard_row shard = {.parents = {KS_SHARD_NONE, KS_SHARD_NONE}};

    peers_live(KS_PROTOCOL_KINSUMER);
    for (int i = 0; i < 1000 && peers_bed.core->fleet.rows == 0; i++)
        peers_wait(100);
    peers_list(&shard, 1);
    cycle(0, &none);
    EXPECT(peers_bed.core->fleet.rows != 0);
    peers_wall_us += INT64_C(3600000000);
    peers_bed.now = ks_instant_add(peers_bed.now, ks_span_ms(3600000));
    EXPECT(!names_shards());
    peers_list(&shard, 1);
    cycle(0, &none);
    EXPECT(names_shards());
}

/* Looks at shard 1, whose parent no listing shows. */
static void look_at_child(bool parent_has_row, uint32_t owner)
{
    static const ks_shard one[] = {1};
    const struct ks_list_row list = {true, 1, one, 1};
    const struct ks_shard_row child = {.shard = 1, .parents = {0, KS_SHARD_NONE}};
    struct ks_lease_row parent;

    peers_list(&child, 1);
    cycle(20000, &list);
    parent = peers_row(owner, AGO(0));
    peers_look_at(&parent, parent_has_row);
}

TEST(a_child_waits_for_a_parent_that_one_listing_does_not_show)
{
    ks_instant since;

    peers_live(KS_PROTOCOL_KINSUMER);
    look_at_child(false, 0);
    since = peers_bed.now;
    EXPECT(bed_asked(&peers_bed, KS_STORE_ASSIGN) == NULL);
    look_at_child(false, 0); /* It is asked for again, and soon: then it is gone. */
    EXPECT(ks_instant_since(peers_bed.now, since).us < 5000000);
    EXPECT(bed_asked(&peers_bed, KS_STORE_ASSIGN) != NULL);
}

TEST(a_child_waits_for_whoever_reads_the_rest_of_a_parent_that_is_gone)
{
    peers_live(KS_PROTOCOL_KINSUMER);
    for (int i = 0; i < 4; i++) {
        look_at_child(true, BED_OTHER);
        EXPECT(bed_asked(&peers_bed, KS_STORE_ASSIGN) == NULL);
    }
    look_at_child(true, 0);
    EXPECT(bed_asked(&peers_bed, KS_STORE_ASSIGN) != NULL);
}

/* Looks at the row of shard 0 for so long; returns how often it was told that nobody reads it. */
static int unread_for(int64_t ms, uint32_t owner)
{
    const int64_t until_us = peers_wall_us + ms * 1000;
    int told = 0;

    while (peers_wall_us < until_us) {
        struct ks_lease_row row = peers_row(owner, 1);

        cycle(0, &whole_list);
        peers_look(&row);
        if (!bed_told(&peers_bed, KS_STORY_UNREAD))
            continue;
        told++;
        for (uint32_t i = 0; i < peers_bed.effects.count; i++)
            EXPECT(peers_bed.effects.items[i].kind != KS_EFFECT_STORY ||
                   peers_bed.effects.items[i].story.worker.worker == BED_OTHER);
    }
    return told;
}

TEST(what_a_client_who_lives_leaves_free_is_told_once)
{
    struct ks_self_view self;

    peers_live(KS_PROTOCOL_KINSUMER);
    EXPECT_EQ_I64(unread_for(30000, BED_OTHER), 0); /* It may be idle. */
    EXPECT_EQ_I64(unread_for(5000, 0), 0);
    EXPECT_EQ_I64(unread_for(30000, 0), 1);
    ks_core_self(peers_bed.core, &self);
    EXPECT_EQ_U64(self.unread, 1);
    EXPECT_EQ_I64(unread_for(5000, BED_OTHER), 0);
    ks_core_self(peers_bed.core, &self);
    EXPECT_EQ_U64(self.unread, 0);
    EXPECT_EQ_I64(unread_for(30000, 0), 1);
}

TEST(a_shard_that_stands_twice_in_the_list_is_no_news)
{
    const ks_shard twice[] = {0, 3, 0};
    const struct ks_list_row list = {true, 1, twice, 3};
    ks_instant since;

    peers_live(KS_PROTOCOL_KINSUMER);
    cycle(0, &list);
    since = peers_bed.core->fleet.division.since;
    cycle(0, &list);
    cycle(0, &list);
    EXPECT_EQ_I64(peers_bed.core->fleet.division.since.us, since.us);
    EXPECT_EQ_U64(peers_bed.core->directory[0].place, 1);
    EXPECT_EQ_U64(peers_bed.core->directory[3].place, 2);
    /* What left the list is nobody's. */
    cycle(0, &whole_list);
    EXPECT(ks_instant_before(since, peers_bed.core->fleet.division.since));
    EXPECT_EQ_U64(peers_bed.core->directory[3].place, 0);
}

TEST(whoever_leads_mends_a_list_that_names_a_shard_twice)
{
    const ks_shard twice[] = {0, 0};
    const struct ks_list_row list = {true, 1, twice, 2};
    const struct ks_shard_row shard = {.parents = {KS_SHARD_NONE, KS_SHARD_NONE}};
    const struct ks_store_effect *named = NULL;

    peers_live(KS_PROTOCOL_KINSUMER);
    for (int i = 0; i < 10 && named == NULL; i++) {
        cycle(20000, &list);
        if (peers_bed.core->fleet.division.office != 0)
            office_written();
        peers_list(&shard, 1);
        peers_look(NULL);
        named = bed_asked(&peers_bed, KS_STORE_NAME_SHARDS);
    }
    EXPECT(named != NULL && named->shard_count == 1);
}

/* A cycle in which we are the only client. */
static void cycle_alone(const struct ks_leader_row *leader, const struct ks_list_row *list)
{
    struct ks_worker_row self = {.self = {BED_ME, 0}};

    answer((struct ks_event){.store = {.outcome = KS_DONE}});
    self.beat = AGO(0);
    answer((struct ks_event){.store = {.workers = &self, .worker_count = 1}});
    answer((struct ks_event){.store = {.list = *list, .leader = *leader}});
}

TEST(what_a_leader_left_whose_clock_was_far_ahead_holds_nobody_up)
{
    const ks_shard gone[] = {3};
    const struct ks_shard_row shard = {.parents = {KS_SHARD_NONE, KS_SHARD_NONE}};
    struct ks_leader_row leader = {.present = true, .holder = {BED_OTHER, 0}};
    struct ks_list_row list = {true, 0, gone, 1};
    const struct ks_store_effect *named = NULL;

    peers_live(KS_PROTOCOL_KINSUMER);
    leader.epoch = AGO(-3600000);
    list.rev = AGO(-3600000);
    cycle_alone(&leader, &list);
    EXPECT(bed_asked(&peers_bed, KS_STORE_CLAIM_OFFICE) != NULL);
    EXPECT(bed_asked(&peers_bed, KS_STORE_CLAIM_OFFICE)->next_rev <= AGO(0));
    office_written();
    peers_list(&shard, 1);
    for (int i = 0; i < 3 && named == NULL; i++) {
        peers_look(NULL);
        named = bed_asked(&peers_bed, KS_STORE_NAME_SHARDS);
    }
    EXPECT(named != NULL && named->rev == list.rev && named->next_rev <= AGO(0));
}

TEST(a_client_without_a_time_is_not_removed)
{
    struct ks_worker_row workers[] = {
        {.self = {BED_ME, 0}, .rank = 0},
        {.self = {BED_OTHER, 0}, .rank = 1},
        {.self = {3, 0}, .rank = 2},
    };

    peers_live(KS_PROTOCOL_KINSUMER);
    cycle(20000, &whole_list);
    office_written();
    answer((struct ks_event){.store = {.outcome = KS_DONE}});
    workers[0].beat = AGO(0);
    workers[2].beat = AGO(INT64_C(49) * 3600 * 1000);
    answer((struct ks_event){.store = {.workers = workers, .worker_count = 3}});
    EXPECT_EQ_U64(bed_asked(&peers_bed, KS_STORE_REMOVE_WORKER)->worker.worker, 3);
    for (uint32_t i = 0; i < peers_bed.effects.count; i++)
        EXPECT(peers_bed.effects.items[i].kind != KS_EFFECT_STORE ||
               peers_bed.effects.items[i].store.worker.worker != BED_OTHER);
}
