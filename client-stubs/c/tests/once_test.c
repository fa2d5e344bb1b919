/* SPDX-License-Identifier: Apache-2.0 */
/* Effects at most once. */
#include "kinesis-sidecar-client-once.h"

#include "check.h"

static ks_record record_of(const char *sequence_number, int64_t sub_sequence_number,
                           uint32_t attempt)
{
    return (ks_record){.stream = "demo",
                       .shard_id = "shard",
                       .sequence_number = sequence_number,
                       .sub_sequence_number = sub_sequence_number,
                       .epoch = attempt,
                       .attempt = attempt};
}

static sqlite3 *open_database(void)
{
    sqlite3 *db;

    EXPECT_EQ(sqlite3_open(":memory:", &db), SQLITE_OK);
    EXPECT_EQ(ks_apply_once_create_table(db), SQLITE_OK);
    EXPECT_EQ(ks_apply_once_create_table(db), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(db, "CREATE TABLE orders (id)", NULL, NULL, NULL), SQLITE_OK);
    return db;
}

static int insert(sqlite3 *db, const ks_record *record, void *context)
{
    (void)record;
    (void)context;
    return sqlite3_exec(db, "INSERT INTO orders VALUES (1)", NULL, NULL, NULL);
}

static int insert_and_fail(sqlite3 *db, const ks_record *record, void *context)
{
    EXPECT_EQ(insert(db, record, context), SQLITE_OK);
    return SQLITE_ABORT;
}

static int64_t count_of(sqlite3 *db, const char *query)
{
    sqlite3_stmt *statement;
    int64_t count;

    EXPECT_EQ(sqlite3_prepare_v2(db, query, -1, &statement, NULL), SQLITE_OK);
    EXPECT_EQ(sqlite3_step(statement), SQLITE_ROW);
    count = sqlite3_column_int64(statement, 0);
    EXPECT_EQ(sqlite3_finalize(statement), SQLITE_OK);
    return count;
}

static void apply(sqlite3 *db, const char *consumer, ks_record record, bool expected)
{
    bool is_new = !expected;

    EXPECT_EQ(ks_apply_once(db, consumer, &record, insert, NULL, &is_new), SQLITE_OK);
    EXPECT_EQ(is_new, expected);
}

TEST(redelivery_has_no_effect)
{
    sqlite3 *db = open_database();

    apply(db, "orders", record_of("100", 0, 1), true);
    apply(db, "orders", record_of("100", 0, 2), false);
    apply(db, "invoices", record_of("100", 0, 1), true);
    EXPECT_EQ(count_of(db, "SELECT count(*) FROM orders"), 2);
    EXPECT_EQ(sqlite3_close(db), SQLITE_OK);
}

TEST(records_of_an_aggregate_have_positions_of_their_own)
{
    sqlite3 *db = open_database();

    apply(db, "orders", record_of("100", 0, 1), true);
    apply(db, "orders", record_of("100", 1, 1), true);
    EXPECT_EQ(sqlite3_close(db), SQLITE_OK);
}

TEST(failed_effect_leaves_no_position)
{
    sqlite3 *db = open_database();
    ks_record record = record_of("100", 0, 1);

    EXPECT_EQ(ks_apply_once(db, "orders", &record, insert_and_fail, NULL, NULL), SQLITE_ABORT);
    EXPECT_EQ(count_of(db, "SELECT count(*) FROM orders"), 0);
    apply(db, "orders", record, true);
    EXPECT_EQ(sqlite3_close(db), SQLITE_OK);
}

TEST(missing_table_is_an_error)
{
    ks_record record = record_of("100", 0, 1);
    sqlite3 *db;

    EXPECT_EQ(sqlite3_open(":memory:", &db), SQLITE_OK);
    EXPECT_EQ(ks_apply_once(db, "orders", &record, insert, NULL, NULL), SQLITE_ERROR);
    EXPECT(sqlite3_get_autocommit(db));
    EXPECT_EQ(sqlite3_close(db), SQLITE_OK);
}

TEST(old_positions_are_forgotten)
{
    sqlite3 *db = open_database();

    apply(db, "orders", record_of("100", 0, 1), true);
    EXPECT_EQ(ks_apply_once_forget(db, "orders", 86400), SQLITE_OK);
    EXPECT_EQ(count_of(db, "SELECT count(*) FROM kinesis_sidecar_applied"), 1);
    EXPECT_EQ(ks_apply_once_forget(db, "orders", -10), SQLITE_OK);
    EXPECT_EQ(count_of(db, "SELECT count(*) FROM kinesis_sidecar_applied"), 0);
    EXPECT_EQ(sqlite3_close(db), SQLITE_OK);
}
