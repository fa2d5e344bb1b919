/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of tables that know start positions: those of the KCL. */
#include "rows_bed.h"

#define BEGAN_MS INT64_C(1795219000000)

static void keep(struct ks_rows *rows, enum ks_position_kind kind, int64_t at_ms)
{
    const struct ks_position initial = {.kind = kind, .timestamp_ms = at_ms, .sub_sequence = -1};

    init(rows);
    ks_rows_share(rows, &initial, false, ks_span_us(0));
    ks_rows_keep(rows, &initial, BEGAN_MS);
}

/* A row of nobody, as it says where to begin. */
static const struct ks_shard_words *read_start(struct ks_rows *rows, enum ks_position_kind kind,
                                               int64_t since_ms)
{
    struct ks_store_lease row = lease("shard-0", "", 0, 3, "");

    row.checkpoint.kind = kind;
    row.checkpoint.timestamp_ms = since_ms;
    (void)read_leases(rows, true, &row, 1);
    return ks_rows_words(rows, 0);
}

/* The lease that goes with this write of shard 0, or NULL. */
static const struct ks_store_lease *written(struct ks_rows *rows, enum ks_store_operation operation,
                                            ks_shard shard)
{
    const struct ks_store_effect effect = {
        .operation = operation, .shard = shard, .worker = {rows->self, 0}, .rev = 3};
    struct ks_store_request request;

    EXPECT(ks_rows_request(rows, &effect, &request));
    return request.lease;
}

TEST(the_latest_is_one_instant_for_whoever_begins_there)
{
    const struct ks_store_lease *noted;
    const struct ks_shard_words *words;
    struct ks_rows rows;

    keep(&rows, KS_POSITION_LATEST, 0);
    /* A member made it: it is ours that says which, and once. */
    words = read_start(&rows, KS_POSITION_LATEST, 0);
    EXPECT_EQ_I64(words->checkpoint.kind, KS_POSITION_AT_TIMESTAMP);
    EXPECT_EQ_I64(words->checkpoint.timestamp_ms, BEGAN_MS);
    noted = written(&rows, KS_STORE_TAKE_OVER, 0);
    EXPECT(noted != NULL);
    EXPECT_EQ_I64(noted->checkpoint.kind, KS_POSITION_LATEST);
    EXPECT_EQ_I64(noted->checkpoint.timestamp_ms, BEGAN_MS);
    EXPECT(written(&rows, KS_STORE_CHECKPOINT, 0) == NULL);
    /* Another one of ours had noted it, before we began. */
    words = read_start(&rows, KS_POSITION_LATEST, BEGAN_MS - 5000);
    EXPECT_EQ_I64(words->checkpoint.kind, KS_POSITION_AT_TIMESTAMP);
    EXPECT_EQ_I64(words->checkpoint.timestamp_ms, BEGAN_MS - 5000);
    EXPECT(written(&rows, KS_STORE_TAKE_OVER, 0) == NULL);
    (void)read_start(&rows, KS_POSITION_TRIM_HORIZON, 0);
    EXPECT(written(&rows, KS_STORE_ASSIGN, 0) == NULL);
    ks_rows_free(&rows);
}

TEST(an_instant_is_that_of_the_options_or_the_oldest)
{
    const struct ks_shard_words *words;
    struct ks_rows rows;

    keep(&rows, KS_POSITION_AT_TIMESTAMP, 77);
    words = read_start(&rows, KS_POSITION_AT_TIMESTAMP, 0);
    EXPECT_EQ_I64(words->checkpoint.kind, KS_POSITION_AT_TIMESTAMP);
    EXPECT_EQ_I64(words->checkpoint.timestamp_ms, 77);
    ks_rows_free(&rows);
    keep(&rows, KS_POSITION_LATEST, 0);
    words = read_start(&rows, KS_POSITION_AT_TIMESTAMP, 0);
    EXPECT_EQ_I64(words->checkpoint.kind, KS_POSITION_TRIM_HORIZON);
    ks_rows_free(&rows);
}

/* Where the row of a child begins, whose parent has one. */
static struct ks_position child_of(enum ks_position_kind initial)
{
    static const struct ks_shard_listing shards[2] = {
        {.shard = "shard-0", .hash_start = "0", .hash_end = "9"},
        {.shard = "shard-1", .parents = {"shard-0"}, .hash_start = "0", .hash_end = "9"}};
    const struct ks_list_answer answer = {.shards = shards, .count = 2};
    const struct ks_store_lease *made;
    struct ks_position begin;
    struct ks_event event;
    struct ks_rows rows;

    keep(&rows, initial, initial == KS_POSITION_AT_TIMESTAMP ? 77 : 0);
    ks_rows_listed(&rows, &answer, now, &event);
    made = written(&rows, KS_STORE_CREATE, 1);
    EXPECT_EQ_I64(made->checkpoint.kind, initial);
    EXPECT_EQ_I64(made->checkpoint.timestamp_ms, initial == KS_POSITION_LATEST ? BEGAN_MS
                                                 : initial == KS_POSITION_AT_TIMESTAMP ? 77
                                                                                       : 0);
    (void)read_start(&rows, KS_POSITION_TRIM_HORIZON, 0);
    begin = written(&rows, KS_STORE_CREATE, 1)->checkpoint;
    ks_rows_free(&rows);
    return begin;
}

TEST(below_a_row_a_shard_is_read_from_its_start_but_not_from_before_the_instant)
{
    EXPECT_EQ_I64(child_of(KS_POSITION_TRIM_HORIZON).kind, KS_POSITION_TRIM_HORIZON);
    EXPECT_EQ_I64(child_of(KS_POSITION_LATEST).kind, KS_POSITION_TRIM_HORIZON);
    EXPECT_EQ_I64(child_of(KS_POSITION_AT_TIMESTAMP).kind, KS_POSITION_AT_TIMESTAMP);
}

TEST(a_row_without_hash_keys_gets_those_of_the_listing_and_stays_as_it_is)
{
    static const struct ks_shard_listing shard = {
        .shard = "shard-0", .hash_start = "0", .hash_end = "9"};
    const struct ks_list_answer answer = {.shards = &shard, .count = 1};
    struct ks_store_lease row = lease("shard-0", "pod-b", 0, 3, "100");
    const struct ks_store_lease *keys;
    const struct ks_shard_words *words;
    struct ks_event event;
    struct ks_rows rows;

    keep(&rows, KS_POSITION_TRIM_HORIZON, 0);
    event = read_leases(&rows, true, &row, 1);
    EXPECT(event.store.leases[0].unranged && !event.store.leases[0].ranged);
    ks_rows_listed(&rows, &answer, now, &event);
    keys = written(&rows, KS_STORE_FILL, 0);
    EXPECT_STR(keys->hash_start, "0");
    EXPECT_STR(keys->hash_end, "9");
    ks_rows_wrote(&rows, KS_STORE_FILL, 0, 0, 3, NULL, KS_NOBODY, wall);
    words = ks_rows_words(&rows, 0);
    EXPECT_EQ_U64(words->rev, 3);
    EXPECT_STR(words->checkpoint.sequence, "100");
    (void)snprintf(row.hash_start, sizeof row.hash_start, "0");
    event = read_leases(&rows, true, &row, 1);
    EXPECT(!event.store.leases[0].unranged && !event.store.leases[0].ranged);
    ks_rows_free(&rows);
}
