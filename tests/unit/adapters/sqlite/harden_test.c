/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/sqlite/harden.h"

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
