/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of shards that are free again. */
#include "ports/rows.h"

#include "unit/ports/rows_bed.h"

static const ks_span keep = {INT64_C(3600) * 1000 * 1000};

static ks_instant minute(int64_t minutes)
{
    return ks_instant_add(now, ks_span_ms(minutes * 60000));
}

static void look(struct ks_rows *rows, const struct ks_store_lease *leases, uint32_t count,
                 ks_instant at)
{
    struct ks_store_answer answer = {.outcome = KS_DONE, .leases = leases, .lease_count = count};
    struct ks_event event = {.kind = KS_EVENT_START};

    ks_rows_answered(rows, KS_STORE_READ_LEASES, true, &answer, at, wall, &event);
    EXPECT_EQ_U64(event.store.lease_count, count);
}

static void list_child(struct ks_rows *rows, const char *shard, const char *parent, ks_instant at,
                       ks_shard *ret_shard)
{
    struct ks_shard_listing listing = {.closed = false};
    struct ks_list_answer answer = {.shards = &listing, .count = 1};
    struct ks_event event = {.kind = KS_EVENT_START};

    (void)snprintf(listing.shard, sizeof listing.shard, "%s", shard);
    (void)snprintf(listing.parents[0], sizeof listing.parents[0], "%s", parent);
    ks_rows_listed(rows, &answer, at, &event);
    EXPECT_EQ_U64(event.listed.count, 1);
    *ret_shard = event.listed.shards[0].shard;
}

TEST(a_fleet_lives_through_more_shards_than_there_are_numbers)
{
    bool held[8] = {false};
    bool freed[8];
    struct ks_rows rows;
    char parent[24] = "";
    char child[24];
    ks_shard shard = KS_SHARD_NONE;

    init(&rows);
    for (int i = 0; i < 1000; i++) {
        struct ks_store_lease row;
        ks_shard before = shard;

        (void)snprintf(child, sizeof child, "shard-%d", i);
        list_child(&rows, child, parent, minute(20 * i), &shard);
        EXPECT(shard != before);
        EXPECT_STR(ks_names_text(&rows.shards, shard), child);
        row = lease(child, "pod-a", 1, 1, "1");
        look(&rows, &row, 1, minute(20 * i));
        memset(held, 0, sizeof held);
        held[shard] = true;
        (void)ks_rows_free_shards(&rows, held, minute(20 * i), keep, freed);
        EXPECT(!freed[shard]);
        EXPECT(before == KS_SHARD_NONE || !freed[before]);
        memcpy(parent, child, sizeof child);
    }
    EXPECT(!ks_rows_full(&rows));
    ks_rows_free(&rows);
}

TEST(a_number_is_free_when_nobody_has_named_or_held_it_for_long)
{
    const struct ks_store_lease rows_of[2] = {lease("shard-0", "", 1, 1, "1"),
                                              lease("shard-1", "", 1, 1, "1")};
    bool none[8] = {false};
    bool held[8] = {false};
    bool freed[8];
    struct ks_rows rows;

    init(&rows);
    look(&rows, rows_of, 2, minute(0));
    look(&rows, rows_of, 1, minute(50)); /* Only the first is left. */
    EXPECT(!ks_rows_free_shards(&rows, none, minute(59), keep, freed));
    held[1] = true;
    EXPECT(!ks_rows_free_shards(&rows, held, minute(61), keep, freed));
    /* Held a minute ago. */
    look(&rows, rows_of, 1, minute(100));
    EXPECT(!ks_rows_free_shards(&rows, none, minute(120), keep, freed));
    EXPECT(ks_rows_free_shards(&rows, none, minute(122), keep, freed));
    EXPECT(freed[1] && !freed[0]);
    EXPECT(ks_rows_words(&rows, 1) == NULL);
    EXPECT(ks_rows_words(&rows, 0) != NULL);
    EXPECT_STR(ks_names_text(&rows.shards, 1), "");
    ks_rows_free(&rows);
}

TEST(no_number_is_free_while_the_table_is_away)
{
    const struct ks_store_lease row = lease("shard-0", "", 1, 1, "1");
    bool none[8] = {false};
    bool freed[8];
    struct ks_rows rows;

    init(&rows);
    look(&rows, &row, 1, minute(0));
    EXPECT(!ks_rows_free_shards(&rows, none, minute(600), keep, freed));
    look(&rows, &row, 0, minute(601));
    EXPECT(ks_rows_free_shards(&rows, none, minute(601), keep, freed));
    ks_rows_free(&rows);
}

TEST(children_of_what_is_held_keep_their_numbers_and_other_relatives_are_forgotten)
{
    bool held[8] = {false};
    bool freed[8];
    struct ks_rows rows;
    ks_shard parent;
    ks_shard child;

    init(&rows);
    list_child(&rows, "child", "parent", minute(0), &child);
    parent = ks_rows_words(&rows, child)->parents[0];
    look(&rows, NULL, 0, minute(100));
    held[parent] = true;
    EXPECT(!ks_rows_free_shards(&rows, held, minute(100), keep, freed));
    held[parent] = false;
    held[child] = true;
    EXPECT(!ks_rows_free_shards(&rows, held, minute(150), keep, freed));
    look(&rows, NULL, 0, minute(170));
    EXPECT(ks_rows_free_shards(&rows, held, minute(170), keep, freed));
    EXPECT(freed[parent] && !freed[child]);
    EXPECT_EQ_U64(ks_rows_words(&rows, child)->parents[0], KS_SHARD_NONE);
    ks_rows_free(&rows);
}

TEST(room_that_is_there_again_is_told)
{
    const struct ks_store_lease row = lease("shard-8", "", 1, 1, "1");
    struct ks_store_answer answer = {.outcome = KS_DONE, .leases = &row, .lease_count = 1};
    struct ks_event event = {.kind = KS_EVENT_START};
    bool none[8] = {false};
    bool freed[8];
    struct ks_rows rows;
    char name[24];
    ks_shard shard;

    init(&rows);
    for (int i = 0; i < 8; i++) {
        (void)snprintf(name, sizeof name, "shard-%d", i);
        EXPECT(ks_rows_shard(&rows, ks_view_text(name), now, &shard));
    }
    ks_rows_answered(&rows, KS_STORE_READ_LEASES, true, &answer, minute(100), wall, &event);
    EXPECT_EQ_U64(event.store.lease_count, 0);
    EXPECT(ks_rows_full(&rows));
    EXPECT(ks_rows_free_shards(&rows, none, minute(100), keep, freed));
    EXPECT(!ks_rows_full(&rows));
    look(&rows, &row, 1, minute(101));
    ks_rows_free(&rows);
}
