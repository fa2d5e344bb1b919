/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/sqlite/file.h"

#include "base/loop.h"
#include "ks_test.h"

static sqlite3 *db;

static int run(const char *text)
{
    return sqlite3_exec(db, text, NULL, NULL, NULL);
}

static int64_t count_of(const char *table)
{
    sqlite3_stmt *statement = NULL;
    char text[64];

    (void)sqlite3_snprintf(sizeof(text), text, "SELECT count(*) FROM %s", table);
    EXPECT_EQ_I64(sqlite3_prepare_v2(db, text, -1, &statement, NULL), SQLITE_OK);
    EXPECT_EQ_I64(sqlite3_step(statement), SQLITE_ROW);
    int64_t count = sqlite3_column_int64(statement, 0);
    EXPECT_EQ_I64(sqlite3_finalize(statement), SQLITE_OK);
    return count;
}

TEST(triggers_and_views_of_a_file_do_nothing)
{
    EXPECT_EQ_I64(sqlite3_open(":memory:", &db), SQLITE_OK);
    EXPECT_EQ_I64(run("CREATE TABLE t(a); CREATE TABLE u(a); CREATE VIEW v AS SELECT a FROM t; "
                      "CREATE TRIGGER g AFTER INSERT ON t BEGIN DELETE FROM u; END; "
                      "INSERT INTO u VALUES (1)"),
                  SQLITE_OK);
    EXPECT_EQ_I64(ks_sqlite_harden(db), SQLITE_OK);
    EXPECT_EQ_I64(run("INSERT INTO t VALUES (1)"), SQLITE_OK);
    EXPECT_EQ_I64(count_of("u"), 1);
    EXPECT_EQ_I64(run("SELECT a FROM v"), SQLITE_ERROR);
    EXPECT_EQ_I64(run("SELECT \"missing\" FROM t"), SQLITE_ERROR);
    EXPECT_EQ_I64(sqlite3_close(db), SQLITE_OK);
}

TEST(the_log_is_waited_for_until_the_deadline_while_another_keeps_the_file)
{
    const char *path = ks_test_path("kept.db");
    sqlite3 *other;

    EXPECT_EQ_I64(sqlite3_open(path, &other), SQLITE_OK);
    EXPECT_EQ_I64(sqlite3_exec(other, "BEGIN EXCLUSIVE", NULL, NULL, NULL), SQLITE_OK);
    EXPECT_EQ_I64(sqlite3_open(path, &db), SQLITE_OK);
    ks_instant deadline = ks_instant_add(ks_instant_now(), ks_span_ms(20));
    EXPECT_EQ_I64(ks_sqlite_use_wal(db, deadline), SQLITE_BUSY);
    EXPECT(ks_instant_reached(ks_instant_now(), deadline));
    EXPECT_EQ_I64(sqlite3_exec(other, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    EXPECT_EQ_I64(ks_sqlite_use_wal(db, ks_instant_now()), SQLITE_OK);
    EXPECT_EQ_I64(run("CREATE TABLE t(a)"), SQLITE_OK);
    EXPECT_EQ_I64(sqlite3_close(db), SQLITE_OK);
    EXPECT_EQ_I64(sqlite3_close(other), SQLITE_OK);
}
