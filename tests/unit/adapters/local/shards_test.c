/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/local/shards.h"

#include "adapters/local/put.h"
#include "base/budget.h"
#include "base/loop.h"

#include "ks_test.h"

#include <string.h>

static const char FIRST[] = "shardId-000000000000";
enum { DAY_MS = 86400000 };

static struct ks_local_db *open_new(uint32_t shards)
{
    struct ks_local_db *db;

    EXPECT_OK(ks_local_db_open(ks_test_path("stream.db"), "demo", shards, &db, NULL));
    return db;
}

static void put(struct ks_local_db *db, const char *hash, int64_t now_ms)
{
    struct ks_put_entry entry = {.data = KS_VIEW("data"),
                                 .partition_key = KS_VIEW("k"),
                                 .explicit_hash_key = ks_view_text(hash)};
    struct ks_local_put *one;
    struct ks_link puts;

    EXPECT_OK(ks_local_put_new(&entry, 1, &one, NULL));
    ks_link_init(&puts);
    ks_list_append(&puts, &one->link);
    ks_local_put_write(db, &puts, now_ms);
    EXPECT_STR(ks_ok(one->err) ? "" : one->detail.text, "");
    ks_free(one);
}

static uint32_t count_of(struct ks_local_db *db, bool open_only)
{
    struct ks_shard_row_local *rows;
    uint32_t count;

    EXPECT_OK(ks_shards_load(db, open_only, &rows, &count, NULL));
    ks_free(rows);
    return count;
}

static int64_t records_of(struct ks_local_db *db)
{
    sqlite3_stmt *statement;

    EXPECT_EQ_I64(
        sqlite3_prepare_v2(db->handle, "SELECT count(*) FROM records", -1, &statement, NULL),
        SQLITE_OK);
    EXPECT_EQ_I64(sqlite3_step(statement), SQLITE_ROW);
    int64_t count = sqlite3_column_int64(statement, 0);
    EXPECT_EQ_I64(sqlite3_finalize(statement), SQLITE_OK);
    return count;
}

TEST(names_are_those_of_kinesis)
{
    char name[KS_SHARD_ID_MAX + 1];
    uint32_t index = 0;

    ks_shards_name(7, name);
    EXPECT_STR(name, "shardId-000000000007");
    EXPECT_OK(ks_shards_index(ks_view_text(name), &index));
    EXPECT_EQ_U64(index, 7);
    EXPECT_ERR(ks_shards_index(KS_VIEW("shardId-7"), &index), INVALID);
    EXPECT_ERR(ks_shards_index(KS_VIEW("shardId-00000000000x"), &index), INVALID);
    EXPECT_ERR(ks_shards_index(KS_VIEW("shardId-999999999999"), &index), INVALID);
    EXPECT_ERR(ks_shards_index(KS_VIEW(""), &index), INVALID);
}

TEST(a_split_makes_two_children_that_cover_the_parent)
{
    struct ks_local_db *db = open_new(2);
    struct ks_shard_row_local parent;
    struct ks_shard_row_local child;
    char children[KS_CHILDREN_MAX][KS_SHARD_ID_MAX + 1] = {"", ""};
    struct ks_detail detail = {.text = ""};

    EXPECT_ERR(ks_shards_split(db, FIRST, "0", &detail), INVALID);
    EXPECT_CONTAINS(detail.text, "not within shard shardId-000000000000");
    EXPECT_ERR(ks_shards_split(db, FIRST, "170141183460469231731687303715884105728", NULL),
               INVALID);
    EXPECT_ERR(ks_shards_split(db, FIRST, "abc", NULL), INVALID);
    EXPECT_ERR(ks_shards_split(db, "shardId-000000000002", "5", &detail), NOT_FOUND);
    EXPECT_CONTAINS(detail.text, "shardId-000000000002");
    EXPECT_EQ_U64(count_of(db, false), 2);

    EXPECT_OK(ks_shards_split(db, FIRST, "170141183460469231731687303715884105727", NULL));
    EXPECT_EQ_U64(count_of(db, true), 3);
    EXPECT_EQ_U64(count_of(db, false), 4);
    EXPECT_OK(ks_shards_find(db, FIRST, &parent, NULL));
    EXPECT(parent.closed);
    EXPECT_OK(ks_shards_children(db, 0, children, NULL));
    EXPECT_STR(children[0], "shardId-000000000002");
    EXPECT_STR(children[1], "shardId-000000000003");
    EXPECT_OK(ks_shards_find(db, children[1], &child, NULL));
    EXPECT(child.start == child.end);
    EXPECT_EQ_I64(child.parent, 0);
    EXPECT_EQ_I64(child.adjacent, -1);
    /* Within the same second, and still younger: its sequence numbers are greater. */
    EXPECT(child.made_s > parent.made_s);
    EXPECT_ERR(ks_shards_split(db, FIRST, "1000", &detail), INVALID);
    EXPECT_CONTAINS(detail.text, "is closed");
    ks_local_db_close(db);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

TEST(a_merge_joins_neighbours_in_either_order)
{
    struct ks_local_db *db = open_new(4);
    struct ks_shard_row_local child;
    struct ks_shard_listing told;
    struct ks_detail detail = {.text = ""};

    EXPECT_ERR(ks_shards_merge(db, FIRST, "shardId-000000000002", &detail), INVALID);
    EXPECT_CONTAINS(detail.text, "not adjacent");
    EXPECT_ERR(ks_shards_merge(db, FIRST, FIRST, NULL), INVALID);
    EXPECT_OK(ks_shards_merge(db, "shardId-000000000003", "shardId-000000000002", NULL));
    EXPECT_OK(ks_shards_find(db, "shardId-000000000004", &child, NULL));
    ks_shards_tell(&child, &told);
    EXPECT_STR(told.parents[0], "shardId-000000000003");
    EXPECT_STR(told.parents[1], "shardId-000000000002");
    EXPECT_STR(told.hash_start, "170141183460469231731687303715884105728");
    EXPECT_STR(told.hash_end, "340282366920938463463374607431768211455");
    EXPECT(!told.closed);
    EXPECT_OK(ks_shards_merge(db, FIRST, "shardId-000000000001", NULL));
    EXPECT_OK(ks_shards_merge(db, "shardId-000000000005", "shardId-000000000004", NULL));
    EXPECT_EQ_U64(count_of(db, true), 1);
    EXPECT_EQ_U64(count_of(db, false), 7);
    ks_local_db_close(db);
}

TEST(a_time_finds_its_record_among_any_arrivals)
{
    struct ks_local_db *db = open_new(1);
    struct ks_shard_row_local row;
    uint64_t number = 0;

    /* Ten at once, a gap, ten at once; a clock that goes back is not followed. */
    for (int64_t at = 0; at < 30; at++)
        put(db, "0", 1000000 + at / 10 * 1000);
    put(db, "0", 500);
    EXPECT_OK(ks_shards_find(db, FIRST, &row, NULL));
    EXPECT_EQ_U64(row.next, 32);
    EXPECT_EQ_I64(row.arrival_ms, 1002000);
    EXPECT_OK(ks_shards_since(db, &row, 1, 0, &number, NULL));
    EXPECT_EQ_U64(number, 1);
    EXPECT_OK(ks_shards_since(db, &row, 1, 1000001, &number, NULL));
    EXPECT_EQ_U64(number, 11);
    EXPECT_OK(ks_shards_since(db, &row, 1, 1001000, &number, NULL));
    EXPECT_EQ_U64(number, 11);
    EXPECT_OK(ks_shards_since(db, &row, 15, 1001000, &number, NULL));
    EXPECT_EQ_U64(number, 15);
    EXPECT_OK(ks_shards_since(db, &row, 1, 1002000, &number, NULL));
    EXPECT_EQ_U64(number, 21);
    EXPECT_OK(ks_shards_since(db, &row, 1, 1002001, &number, NULL));
    EXPECT_EQ_U64(number, 32);
    ks_local_db_close(db);
}

TEST(trimming_takes_the_old_in_bounded_steps_and_then_the_closed_shard)
{
    struct ks_local_db *db = open_new(1);
    int64_t now_ms = ks_wall_now().ms;
    bool more = false;

    for (int64_t at = 0; at < 25; at++)
        put(db, "0", now_ms - 2 * DAY_MS + at);
    for (int64_t at = 0; at < 5; at++)
        put(db, "0", now_ms);
    EXPECT_OK(ks_shards_trim(db, now_ms, 10, &more, NULL));
    EXPECT(more);
    EXPECT_EQ_I64(records_of(db), 20);
    EXPECT_OK(ks_shards_trim(db, now_ms, 10, &more, NULL));
    EXPECT(more);
    EXPECT_OK(ks_shards_trim(db, now_ms, 10, &more, NULL));
    EXPECT(!more);
    EXPECT_EQ_I64(records_of(db), 5);
    EXPECT_OK(ks_shards_trim(db, now_ms, 10, &more, NULL));
    EXPECT_EQ_I64(records_of(db), 5);

    /* Closed, and the last of it too old: the shard goes, its children stay. */
    EXPECT_OK(ks_shards_split(db, FIRST, "1000", NULL));
    EXPECT_OK(ks_shards_trim(db, now_ms + DAY_MS / 2, 10, &more, NULL));
    EXPECT_EQ_U64(count_of(db, false), 3);
    EXPECT_OK(ks_shards_trim(db, now_ms + DAY_MS + 60000, 10, &more, NULL));
    EXPECT_EQ_I64(records_of(db), 0);
    EXPECT_EQ_U64(count_of(db, false), 2);
    EXPECT_EQ_U64(count_of(db, true), 2);
    ks_local_db_close(db);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

TEST(retention_can_be_set_and_streams_do_not_touch_each_other)
{
    struct ks_local_db *db = open_new(1);
    struct ks_local_db *other;
    int64_t now_ms = ks_wall_now().ms;
    bool more = false;

    EXPECT_OK(ks_local_db_open(ks_test_path("stream.db"), "other", 1, &other, NULL));
    put(db, "0", now_ms - 5000);
    put(other, "0", now_ms - 5000);
    EXPECT_OK(ks_local_db_set_retention(db, 1000, NULL));
    EXPECT_OK(ks_shards_trim(other, now_ms, 10, &more, NULL));
    EXPECT_EQ_I64(records_of(db), 2);
    EXPECT_OK(ks_shards_trim(db, now_ms, 10, &more, NULL));
    EXPECT_EQ_I64(records_of(db), 1);
    ks_local_db_close(other);
    ks_local_db_close(db);
}

TEST(a_row_that_makes_no_sense_is_corrupt)
{
    struct ks_local_db *db = open_new(1);
    struct ks_shard_row_local row;
    struct ks_detail detail = {.text = ""};

    EXPECT_EQ_I64(sqlite3_exec(db->handle, "UPDATE shards SET hash_end = x'00'", NULL, NULL, NULL),
                  SQLITE_OK);
    EXPECT_ERR(ks_shards_find(db, FIRST, &row, &detail), CORRUPT);
    EXPECT_CONTAINS(detail.text, "makes no sense");
    ks_local_db_close(db);
}

TEST(a_retention_that_makes_no_sense_is_corrupt)
{
    struct ks_local_db *db = open_new(1);
    struct ks_detail detail = {.text = ""};
    bool more = false;

    EXPECT_OK(ks_local_db_set_retention(db, INT64_MIN, NULL));
    EXPECT_ERR(ks_shards_trim(db, ks_wall_now().ms, 10, &more, &detail), CORRUPT);
    EXPECT_CONTAINS(detail.text, "makes no sense");
    ks_local_db_close(db);
}

TEST(a_last_arrival_that_makes_no_sense_is_corruption)
{
    static const char *const damages[] = {
        "UPDATE shards SET arrival_ms = -1",
        "UPDATE shards SET arrival_ms = ((1 << 36) - 1) * 1000",
        "UPDATE shards SET arrival_ms = 9223372036854775807",
    };
    struct ks_local_db *db = open_new(1);
    struct ks_detail detail;
    int64_t last_ms;

    EXPECT_OK(ks_shards_last_arrival(db, &last_ms, &detail));
    for (size_t at = 0; at < sizeof damages / sizeof damages[0]; at++) {
        EXPECT_EQ_I64(sqlite3_exec(db->handle, damages[at], NULL, NULL, NULL), SQLITE_OK);
        EXPECT_ERR(ks_shards_last_arrival(db, &last_ms, &detail), CORRUPT);
        EXPECT_CONTAINS(detail.text, "arrival");
    }
    ks_local_db_close(db);
}
