/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/local/read.h"

#include "adapters/local/put.h"
#include "adapters/local/shards.h"
#include "base/budget.h"

#include "ks_test.h"

#include <stdio.h>
#include <string.h>

static const char FIRST[] = "shardId-000000000000";
enum { BEGIN_MS = 1795223827 };

/* A shard with `count` records that hold their number, a millisecond apart. */
static struct ks_local_db *filled(uint32_t count, char sequences[][KS_SEQUENCE_MAX + 1])
{
    struct ks_local_db *db;

    EXPECT_OK(ks_local_db_open(ks_test_path("stream.db"), "demo", 1, &db, NULL));
    for (uint32_t at = 0; at < count; at++) {
        char data[16];
        struct ks_put_entry entry = {.partition_key = KS_VIEW("key")};
        struct ks_local_put *put;
        struct ks_link puts;

        (void)snprintf(data, sizeof(data), "%u", at);
        entry.data = ks_view_text(data);
        EXPECT_OK(ks_local_put_new(&entry, 1, &put, NULL));
        ks_link_init(&puts);
        ks_list_append(&puts, &put->link);
        ks_local_put_write(db, &puts, BEGIN_MS + (int64_t)at);
        EXPECT_OK(put->err);
        if (sequences != NULL)
            memcpy(sequences[at], put->results[0].sequence, KS_SEQUENCE_MAX + 1);
        ks_free(put);
    }
    return db;
}

static struct ks_local_cursor cursor_at(enum ks_position_kind kind, const char *sequence)
{
    struct ks_local_cursor cursor = {.from = {.kind = kind, .sub_sequence = -1}};

    memcpy(cursor.shard, FIRST, sizeof(FIRST));
    if (sequence != NULL)
        (void)snprintf(cursor.from.sequence, sizeof(cursor.from.sequence), "%s", sequence);
    return cursor;
}

/* Looks and fills; the batch is the caller's. */
static struct ks_batch next(struct ks_local_db *db, struct ks_local_cursor *cursor,
                            uint32_t records, uint32_t bytes, struct ks_local_look *look)
{
    struct ks_batch batch = {.block = NULL};
    struct ks_block *block;

    EXPECT_OK(ks_local_look(db, cursor, records, bytes, BEGIN_MS + 1000, look, NULL));
    if (look->count == 0)
        return batch;
    EXPECT_OK(ks_block_new(NULL, look->block_bytes, &block));
    EXPECT_OK(ks_local_fill(db, cursor, look, block, &batch, NULL));
    EXPECT_EQ_U64(batch.block->size, look->block_bytes);
    return batch;
}

/* The number in the first record behind a position; -1: none. */
static int64_t begins(struct ks_local_db *db, struct ks_local_cursor cursor)
{
    struct ks_local_look look;
    struct ks_batch batch = next(db, &cursor, 1, 1, &look);
    int64_t number = -1;

    if (batch.count > 0)
        EXPECT_OK(ks_view_i64(batch.records[0].data, &number));
    ks_batch_free(&batch);
    return number;
}

TEST(batches_are_exact_blocks_within_both_limits)
{
    struct ks_local_db *db = filled(10, NULL);
    struct ks_local_cursor cursor = cursor_at(KS_POSITION_TRIM_HORIZON, NULL);
    struct ks_local_look look;

    struct ks_batch batch = next(db, &cursor, 3, 1000, &look);
    EXPECT_EQ_U64(batch.count, 3);
    EXPECT_EQ_I64(look.millis_behind, 1000 - 2);
    EXPECT(!look.at_end);
    EXPECT(ks_view_equal(batch.records[2].data, KS_VIEW("2")));
    EXPECT(ks_view_equal(batch.records[2].partition_key, KS_VIEW("key")));
    EXPECT_EQ_I64(batch.records[2].arrival_ms, BEGIN_MS + 2);
    EXPECT_EQ_I64(batch.records[2].sub_sequence, -1);
    ks_batch_free(&batch);
    /* Four bytes each; at least one. */
    batch = next(db, &cursor, 100, 9, &look);
    EXPECT_EQ_U64(batch.count, 2);
    EXPECT(ks_view_equal(batch.records[0].data, KS_VIEW("3")));
    ks_batch_free(&batch);
    batch = next(db, &cursor, 100, 1, &look);
    EXPECT_EQ_U64(batch.count, 1);
    ks_batch_free(&batch);
    batch = next(db, &cursor, 100, 1000, &look);
    EXPECT_EQ_U64(batch.count, 4);
    EXPECT_EQ_I64(look.millis_behind, 0);
    ks_batch_free(&batch);
    batch = next(db, &cursor, 100, 1000, &look);
    EXPECT_EQ_U64(look.count, 0);
    EXPECT(!look.at_end);
    ks_local_db_close(db);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

TEST(every_position_finds_its_record)
{
    static char sequences[5][KS_SEQUENCE_MAX + 1];
    struct ks_local_db *db = filled(5, sequences);
    struct ks_local_cursor cursor;

    EXPECT_EQ_I64(begins(db, cursor_at(KS_POSITION_TRIM_HORIZON, NULL)), 0);
    EXPECT_EQ_I64(begins(db, cursor_at(KS_POSITION_LATEST, NULL)), -1);
    EXPECT_EQ_I64(begins(db, cursor_at(KS_POSITION_AT_SEQUENCE, sequences[2])), 2);
    EXPECT_EQ_I64(begins(db, cursor_at(KS_POSITION_AFTER_SEQUENCE, sequences[2])), 3);
    EXPECT_EQ_I64(begins(db, cursor_at(KS_POSITION_AFTER_SEQUENCE, sequences[4])), -1);
    for (int64_t at = 0; at < 5; at++) {
        cursor = cursor_at(KS_POSITION_AT_TIMESTAMP, NULL);
        cursor.from.timestamp_ms = BEGIN_MS + at;
        EXPECT_EQ_I64(begins(db, cursor), at);
    }
    /* Within an aggregate: the whole of it again. */
    cursor = cursor_at(KS_POSITION_AFTER_SEQUENCE, sequences[2]);
    cursor.from.sub_sequence = 0;
    EXPECT_EQ_I64(begins(db, cursor), 2);
    ks_local_db_close(db);
}

TEST(a_time_to_come_waits_for_the_first_record_that_is_late_enough)
{
    struct ks_local_db *db = filled(3, NULL);
    struct ks_local_cursor cursor = cursor_at(KS_POSITION_AT_TIMESTAMP, NULL);
    struct ks_local_look look;

    cursor.from.timestamp_ms = BEGIN_MS + 7;
    EXPECT_OK(ks_local_look(db, &cursor, 10, 1000, BEGIN_MS, &look, NULL));
    EXPECT_EQ_U64(look.count, 0);
    ks_local_db_close(db);
    /* The same ten records again, so that 3 .. 12 are there. */
    db = filled(10, NULL);
    struct ks_batch batch = next(db, &cursor, 10, 1000, &look);
    EXPECT_EQ_U64(batch.count, 3);
    EXPECT(ks_view_equal(batch.records[0].data, KS_VIEW("7")));
    ks_batch_free(&batch);
    ks_local_db_close(db);
}

TEST(numbers_that_are_not_in_the_table)
{
    static char sequences[5][KS_SEQUENCE_MAX + 1];
    struct ks_local_db *db = filled(5, sequences);
    struct ks_local_cursor cursor;
    struct ks_local_look look;
    struct ks_detail detail = {.text = ""};
    int64_t values[] = {0, 0};
    struct ks_shard_row_local row;
    char other[KS_SEQUENCE_MAX + 1];

    /* Trimmed: what is left begins behind it. */
    EXPECT_OK(ks_shards_find(db, FIRST, &row, NULL));
    values[1] = ks_local_record_id(row.id, 4);
    EXPECT_OK(ks_local_db_run(db, KS_LOCAL_REMOVE_RECORDS, values, 2, NULL));
    EXPECT_EQ_I64(begins(db, cursor_at(KS_POSITION_AFTER_SEQUENCE, sequences[0])), 3);
    EXPECT_EQ_I64(begins(db, cursor_at(KS_POSITION_AT_SEQUENCE, sequences[1])), 3);
    EXPECT_EQ_I64(begins(db, cursor_at(KS_POSITION_TRIM_HORIZON, NULL)), 3);
    /* Of an older shard, or no real one. */
    EXPECT_EQ_I64(begins(db, cursor_at(KS_POSITION_AFTER_SEQUENCE, "0")), 3);
    EXPECT_EQ_I64(begins(db, cursor_at(KS_POSITION_AFTER_SEQUENCE, "12345")), 3);
    /* Never given: of a stream that was made anew, or to come. Going on would skip records. */
    memcpy(other, sequences[4], sizeof(other));
    memcpy(other, "4999", 4);
    cursor = cursor_at(KS_POSITION_AFTER_SEQUENCE, other);
    EXPECT_ERR(ks_local_look(db, &cursor, 1, 1, BEGIN_MS, &look, &detail), INVALID);
    EXPECT_CONTAINS(detail.text, "has not given the sequence number 4999");
    cursor = cursor_at(KS_POSITION_AT_SEQUENCE, "x");
    EXPECT_ERR(ks_local_look(db, &cursor, 1, 1, BEGIN_MS, &look, &detail), INVALID);
    cursor = cursor_at(KS_POSITION_TRIM_HORIZON, NULL);
    cursor.shard[19] = '9';
    EXPECT_ERR(ks_local_look(db, &cursor, 1, 1, BEGIN_MS, &look, &detail), NOT_FOUND);
    EXPECT(sqlite3_get_autocommit(db->handle) != 0);
    ks_local_db_close(db);
}

TEST(the_end_is_told_with_the_last_records_and_again_after_them)
{
    static char sequences[3][KS_SEQUENCE_MAX + 1];
    struct ks_local_db *db = filled(3, sequences);
    struct ks_local_cursor cursor = cursor_at(KS_POSITION_TRIM_HORIZON, NULL);
    struct ks_local_look look;

    EXPECT_OK(ks_shards_split(db, FIRST, "1000", NULL));
    struct ks_batch batch = next(db, &cursor, 2, 1000, &look);
    EXPECT(!look.at_end);
    ks_batch_free(&batch);
    batch = next(db, &cursor, 2, 1000, &look);
    EXPECT_EQ_U64(batch.count, 1);
    EXPECT(look.at_end);
    EXPECT_STR(look.children[0], "shardId-000000000001");
    EXPECT_STR(look.children[1], "shardId-000000000002");
    ks_batch_free(&batch);
    batch = next(db, &cursor, 2, 1000, &look);
    EXPECT_EQ_U64(batch.count, 0);
    EXPECT(look.at_end);
    cursor = cursor_at(KS_POSITION_LATEST, NULL);
    batch = next(db, &cursor, 2, 1000, &look);
    EXPECT(look.at_end);
    cursor = cursor_at(KS_POSITION_SHARD_END, NULL);
    batch = next(db, &cursor, 2, 1000, &look);
    EXPECT(look.at_end);
    ks_local_db_close(db);
}

TEST(records_trimmed_between_look_and_fill_are_just_not_there)
{
    struct ks_local_db *db = filled(5, NULL);
    struct ks_local_cursor cursor = cursor_at(KS_POSITION_TRIM_HORIZON, NULL);
    struct ks_local_look look;
    struct ks_batch batch = {.block = NULL};
    struct ks_block *block;
    int64_t values[] = {0, 0};

    EXPECT_OK(ks_local_look(db, &cursor, 5, 1000, BEGIN_MS, &look, NULL));
    EXPECT_EQ_U64(look.count, 5);
    values[1] = ks_local_record_id(cursor.shard_id, 3);
    EXPECT_OK(ks_local_db_run(db, KS_LOCAL_REMOVE_RECORDS, values, 2, NULL));
    EXPECT_OK(ks_block_new(NULL, look.block_bytes, &block));
    EXPECT_OK(ks_local_fill(db, &cursor, &look, block, &batch, NULL));
    EXPECT_EQ_U64(batch.count, 3);
    EXPECT(ks_view_equal(batch.records[0].data, KS_VIEW("2")));
    EXPECT_EQ_U64(cursor.next, 6);
    ks_batch_free(&batch);
    ks_local_db_close(db);
}

/* The file as somebody left it who changed it by hand. */
static void change(struct ks_local_db *db, const char *text)
{
    EXPECT_EQ_I64(sqlite3_exec(db->handle, text, NULL, NULL, NULL), SQLITE_OK);
}

static void expect_no_sense(struct ks_local_db *db)
{
    struct ks_local_cursor cursor = cursor_at(KS_POSITION_TRIM_HORIZON, NULL);
    struct ks_detail detail = {""};
    struct ks_local_look look;
    struct ks_batch batch;
    struct ks_block *block = NULL;
    ks_err err = ks_local_look(db, &cursor, 10, 1000, BEGIN_MS, &look, &detail);

    if (ks_ok(err)) {
        EXPECT_OK(ks_block_new(NULL, look.block_bytes, &block));
        err = ks_local_fill(db, &cursor, &look, block, &batch, &detail);
    }
    EXPECT_ERR(err, CORRUPT);
    EXPECT_CONTAINS(detail.text, "makes no sense");
    ks_block_drop(block);
}

TEST(a_row_that_makes_no_sense_is_told)
{
    struct ks_local_db *db = filled(2, NULL);

    change(db, "UPDATE records SET arrival_ms = -1000");
    expect_no_sense(db);
    change(db, "UPDATE records SET arrival_ms = 68719476736000");
    expect_no_sense(db);
    change(db, "UPDATE records SET arrival_ms = 1; UPDATE shards SET closed_ms = 1");
    change(db, "INSERT INTO shards(stream, ix, parent, hash_start, hash_end, made_s, next, "
               "arrival_ms) VALUES(1, -7, 0, zeroblob(16), zeroblob(16), 1, 1, 1)");
    expect_no_sense(db);
    ks_local_db_close(db);
}

TEST(a_record_that_is_larger_than_was_said_is_told)
{
    struct ks_local_db *db = filled(1, NULL);

    /* As text a length counts characters; a table of ours takes none, but not every file is of our making. */
    change(db, "CREATE TABLE other AS SELECT * FROM records; DROP TABLE records; "
               "ALTER TABLE other RENAME TO records; "
               "UPDATE records SET data = '\xC3\xA4\xC3\xA4\xC3\xA4'");
    expect_no_sense(db);
    ks_local_db_close(db);
}

TEST(records_that_expired_unread_are_counted_once)
{
    static char sequences[10][KS_SEQUENCE_MAX + 1];
    struct ks_local_db *db = filled(10, sequences);
    struct ks_local_cursor behind = cursor_at(KS_POSITION_AFTER_SEQUENCE, sequences[1]);
    struct ks_local_cursor horizon = cursor_at(KS_POSITION_TRIM_HORIZON, NULL);
    struct ks_local_cursor tip = cursor_at(KS_POSITION_AFTER_SEQUENCE, sequences[9]);
    struct ks_local_look look = {.count = 0};
    struct ks_batch batch;
    bool more = false;

    EXPECT_OK(ks_local_db_set_retention(db, 0, NULL));
    EXPECT_OK(ks_shards_trim(db, BEGIN_MS + 7, 1000, &more, NULL)); /* 0 to 6 are gone. */
    EXPECT_OK(ks_local_look(db, &behind, 1, 1000, BEGIN_MS + 7, &look, NULL));
    batch = next(db, &behind, 1, 1000, &look); /* The look before it found no room. */
    EXPECT(look.expired.found && look.expired.certain);
    EXPECT_EQ_U64(look.expired.count, 5);
    EXPECT_EQ_I64(look.expired.from_ms, BEGIN_MS / 1000 * 1000);
    EXPECT_EQ_I64(look.expired.to_ms, BEGIN_MS + 7);
    ks_batch_free(&batch);
    batch = next(db, &behind, 1, 1000, &look);
    EXPECT(!look.expired.found);
    ks_batch_free(&batch);
    batch = next(db, &horizon, 1, 1000, &look); /* It begins at the oldest, whichever that is. */
    EXPECT(!look.expired.found);
    ks_batch_free(&batch);

    /* Nothing is left: the rest has expired, of who had not read it. */
    EXPECT_OK(ks_shards_trim(db, BEGIN_MS + 100, 1000, &more, NULL));
    EXPECT_OK(ks_local_look(db, &behind, 1, 1000, BEGIN_MS + 100, &look, NULL));
    EXPECT_EQ_U64(look.expired.count, 1);
    EXPECT_EQ_I64(look.expired.from_ms, BEGIN_MS + 8);
    EXPECT_EQ_I64(look.expired.to_ms, BEGIN_MS + 9);
    EXPECT_OK(ks_local_look(db, &behind, 1, 1000, BEGIN_MS + 100, &look, NULL));
    EXPECT(!look.expired.found);
    EXPECT_OK(ks_local_look(db, &horizon, 1, 1000, BEGIN_MS + 100, &look, NULL));
    EXPECT_EQ_U64(look.expired.count, 2);
    EXPECT_OK(ks_local_look(db, &tip, 1, 1000, BEGIN_MS + 100, &look, NULL));
    EXPECT(!look.expired.found); /* An idle shard. */
    ks_local_db_close(db);
}
