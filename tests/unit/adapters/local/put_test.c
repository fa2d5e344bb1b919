/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/local/put.h"

#include "adapters/local/shards.h"
#include "base/budget.h"

#include "ks_test.h"

#include <stdio.h>
#include <string.h>

enum { NOW_MS = 1795223827 };

static struct ks_local_db *open_new(uint32_t shards)
{
    struct ks_local_db *db;

    EXPECT_OK(ks_local_db_open(ks_test_path("stream.db"), "demo", shards, &db, NULL));
    return db;
}

static ks_err check(ks_view data, ks_view key, ks_view hash, struct ks_detail *detail)
{
    struct ks_put_entry entries[] = {
        {.data = KS_VIEW("fine"), .partition_key = KS_VIEW("k")},
        {.data = data, .partition_key = key, .explicit_hash_key = hash}};
    struct ks_local_put *put = NULL;
    ks_err err = ks_local_put_new(entries, 2, &put, detail);

    if (ks_ok(err))
        ks_free(put);
    return err;
}

TEST(what_cannot_be_put_is_named)
{
    struct ks_detail detail = {.text = ""};
    char key[4 * 257 + 1] = "";
    static uint8_t large[KS_RECORD_BYTES_MAX + 1];
    struct ks_local_put *put;
    struct ks_put_entry entry = {.partition_key = KS_VIEW("k")};

    EXPECT_OK(check(KS_VIEW("x"), KS_VIEW("k"), KS_VIEW_NONE, &detail));
    EXPECT_OK(check(KS_VIEW_NONE, KS_VIEW("k"), KS_VIEW("0"), &detail));
    EXPECT_ERR(check(KS_VIEW("x"), KS_VIEW(""), KS_VIEW_NONE, &detail), INVALID);
    EXPECT_CONTAINS(detail.text, "record 1: a partition key");
    EXPECT_ERR(check(KS_VIEW("x"), KS_VIEW("\xFF"), KS_VIEW_NONE, &detail), INVALID);
    EXPECT_ERR(check(KS_VIEW("x"), KS_VIEW("k"), KS_VIEW("-1"), &detail), INVALID);
    EXPECT_CONTAINS(detail.text, "record 1: an explicit hash key");
    /* 256 characters of four bytes, and one more. */
    for (size_t at = 0; at < 257; at++)
        memcpy(key + 4 * at, "\xF0\x9F\x90\x9F", 4);
    EXPECT_OK(check(KS_VIEW("x"), ks_view_of(key, 4 * 256), KS_VIEW_NONE, &detail));
    EXPECT_ERR(check(KS_VIEW("x"), ks_view_of(key, 4 * 257), KS_VIEW_NONE, &detail), INVALID);
    EXPECT_OK(
        check(ks_view_of(large, KS_RECORD_BYTES_MAX - 1), KS_VIEW("k"), KS_VIEW_NONE, &detail));
    EXPECT_ERR(check(ks_view_of(large, KS_RECORD_BYTES_MAX), KS_VIEW("k"), KS_VIEW_NONE, &detail),
               INVALID);
    EXPECT_CONTAINS(detail.text, "record 1: data and partition key");
    EXPECT_ERR(ks_local_put_new(&entry, 0, &put, &detail), INVALID);
    EXPECT_ERR(ks_local_put_new(&entry, KS_LOCAL_PUT_ENTRIES_MAX + 1, &put, &detail), INVALID);
    ks_alloc_fail_after(1, 0);
    EXPECT_ERR(ks_local_put_new(&entry, 1, &put, &detail), NO_MEMORY);
    ks_alloc_fail_after(0, 0);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

static struct ks_local_put *add(struct ks_link *puts, uint32_t count)
{
    struct ks_put_entry entries[8];
    struct ks_local_put *put;

    for (uint32_t at = 0; at < count; at++)
        entries[at] = (struct ks_put_entry){.data = KS_VIEW("data"), .partition_key = KS_VIEW("k")};
    EXPECT_OK(ks_local_put_new(entries, count, &put, NULL));
    ks_list_append(puts, &put->link);
    return put;
}

TEST(puts_of_a_group_are_numbered_in_order_and_committed_once)
{
    struct ks_local_db *db = open_new(1);
    struct ks_local_put *put[3];
    struct ks_shard_row_local row;
    struct ks_link puts;
    const char *last = "";

    ks_link_init(&puts);
    for (uint32_t at = 0; at < 3; at++)
        put[at] = add(&puts, at + 1);
    ks_local_put_write(db, &puts, NOW_MS);
    for (uint32_t at = 0; at < 3; at++) {
        EXPECT_OK(put[at]->err);
        EXPECT_EQ_U64(put[at]->bytes, 5 * (at + 1));
        for (uint32_t entry = 0; entry <= at; entry++) {
            EXPECT_OK(put[at]->results[entry].err);
            EXPECT_STR(put[at]->results[entry].shard, "shardId-000000000000");
            EXPECT(strcmp(put[at]->results[entry].sequence, last) > 0);
            last = put[at]->results[entry].sequence;
        }
    }
    EXPECT_OK(ks_shards_find(db, "shardId-000000000000", &row, NULL));
    EXPECT_EQ_U64(row.next, 7);
    for (uint32_t at = 0; at < 3; at++)
        ks_free(put[at]);
    ks_local_db_close(db);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

static uint32_t records_of(struct ks_local_db *db)
{
    sqlite3_stmt *statement;

    EXPECT_EQ_I64(
        sqlite3_prepare_v2(db->handle, "SELECT count(*) FROM records", -1, &statement, NULL),
        SQLITE_OK);
    EXPECT_EQ_I64(sqlite3_step(statement), SQLITE_ROW);
    uint32_t count = (uint32_t)sqlite3_column_int64(statement, 0);
    EXPECT_EQ_I64(sqlite3_finalize(statement), SQLITE_OK);
    return count;
}

TEST(a_group_that_cannot_be_written_leaves_nothing)
{
    struct ks_local_db *db = open_new(1);
    struct ks_local_put *put[2];
    struct ks_link puts;

    /* The third record finds its place taken. */
    EXPECT_EQ_I64(sqlite3_exec(db->handle,
                               "INSERT INTO records SELECT id * 1099511627776 + 3, 1, x'', x'' "
                               "FROM shards",
                               NULL, NULL, NULL),
                  SQLITE_OK);
    ks_link_init(&puts);
    put[0] = add(&puts, 2);
    put[1] = add(&puts, 2);
    ks_local_put_write(db, &puts, NOW_MS);
    for (int at = 0; at < 2; at++) {
        EXPECT_ERR(put[at]->err, SYSTEM);
        EXPECT_CONTAINS(put[at]->detail.text, "cannot put records");
        ks_free(put[at]);
    }
    EXPECT_EQ_U64(records_of(db), 1);
    EXPECT(sqlite3_get_autocommit(db->handle) != 0);
    ks_local_db_close(db);
}

TEST(a_full_disk_leaves_nothing_and_goes_on_when_there_is_room)
{
    struct ks_local_db *db = open_new(1);
    struct ks_local_put *put;
    struct ks_link puts;
    static uint8_t large[1 << 20];
    struct ks_put_entry entry = {.data = ks_view_of(large, sizeof(large)),
                                 .partition_key = KS_VIEW("k")};

    EXPECT_EQ_I64(sqlite3_exec(db->handle, "PRAGMA max_page_count = 32", NULL, NULL, NULL),
                  SQLITE_OK);
    EXPECT_OK(ks_local_put_new(&entry, 1, &put, NULL));
    ks_link_init(&puts);
    ks_list_append(&puts, &put->link);
    ks_local_put_write(db, &puts, NOW_MS);
    EXPECT_ERR(put->err, DISK);
    EXPECT_CONTAINS(put->detail.text, "full");
    EXPECT_EQ_U64(records_of(db), 0);
    EXPECT_EQ_I64(sqlite3_exec(db->handle, "PRAGMA max_page_count = 100000", NULL, NULL, NULL),
                  SQLITE_OK);
    ks_local_put_write(db, &puts, NOW_MS);
    EXPECT_OK(put->err);
    EXPECT_EQ_U64(records_of(db), 1);
    ks_free(put);
    ks_local_db_close(db);
}

TEST(the_nth_allocation_fails_and_nothing_is_half_put)
{
    struct ks_local_db *db = open_new(2);
    struct ks_link puts;

    for (uint64_t n = 1; n < 6; n++) {
        uint32_t before = records_of(db);
        ks_link_init(&puts);
        struct ks_local_put *put = add(&puts, 3);
        ks_alloc_fail_after(n, 0);
        ks_local_put_write(db, &puts, NOW_MS);
        ks_alloc_fail_after(0, 0);
        EXPECT_EQ_U64(records_of(db) - before, ks_ok(put->err) ? 3 : 0);
        EXPECT(ks_ok(put->err) || ks_err_is(put->err, KS_ERR_NO_MEMORY));
        ks_free(put);
    }
    ks_local_db_close(db);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

TEST(a_put_into_a_file_that_was_removed_fails_and_names_it)
{
    static const char *const ends[] = {"", "-wal"};

    for (size_t at = 0; at < sizeof ends / sizeof ends[0]; at++) {
        struct ks_local_db *db = open_new(1);
        char name[600];
        struct ks_link puts;
        struct ks_local_put *put;

        ks_link_init(&puts);
        put = add(&puts, 1);
        (void)snprintf(name, sizeof name, "%s%s", db->path, ends[at]);
        EXPECT_EQ_I64(remove(name), 0);
        ks_local_put_write(db, &puts, NOW_MS);
        EXPECT_ERR(put->err, DISK);
        EXPECT_CONTAINS(put->detail.text, db->path);
        ks_free(put);
        ks_local_db_close(db);
    }
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

static int remove_path(void *path, sqlite3 *db, const char *schema, int pages)
{
    (void)db;
    (void)schema;
    (void)pages;
    return remove(path) == 0 ? SQLITE_OK : SQLITE_ERROR;
}

TEST(a_put_into_a_file_that_is_removed_right_behind_its_commit_fails)
{
    struct ks_local_db *db = open_new(1);
    struct ks_link puts;
    struct ks_local_put *put;

    ks_link_init(&puts);
    put = add(&puts, 1);
    (void)sqlite3_wal_hook(db->handle, remove_path, db->path);
    ks_local_put_write(db, &puts, NOW_MS);
    EXPECT_ERR(put->err, DISK);
    ks_free(put);
    ks_local_db_close(db);
}

/* What the columns of a shard may say, and what they may not. */
TEST(a_shard_whose_numbers_have_run_out_or_make_no_sense_takes_no_record)
{
    static const char *const damages[] = {
        "UPDATE shards SET next = (1 << 40) - 2",
        "UPDATE shards SET arrival_ms = 1 << 62",
        "UPDATE shards SET arrival_ms = -(1 << 62)",
        "UPDATE shards SET made_s = (1 << 36) - 1",
        "UPDATE shards SET hash_start = hash_end, hash_end = hash_start",
    };

    for (size_t at = 0; at < sizeof damages / sizeof damages[0]; at++) {
        struct ks_local_db *db = open_new(1);
        struct ks_link puts;
        struct ks_local_put *put;

        EXPECT_EQ_I64(sqlite3_exec(db->handle, "BEGIN", NULL, NULL, NULL), SQLITE_OK);
        EXPECT_EQ_I64(sqlite3_exec(db->handle, damages[at], NULL, NULL, NULL), SQLITE_OK);
        EXPECT_EQ_I64(sqlite3_exec(db->handle, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
        ks_link_init(&puts);
        put = add(&puts, 1);
        ks_local_put_write(db, &puts, NOW_MS);
        if (!ks_err_is(put->err, KS_ERR_CORRUPT))
            FAIL("%s: %s", damages[at], ks_err_name(put->err));
        ks_free(put);
        EXPECT_EQ_I64(
            sqlite3_exec(db->handle, "DELETE FROM shards; DELETE FROM streams", NULL, NULL, NULL),
            SQLITE_OK);
        ks_local_db_close(db);
    }
}
