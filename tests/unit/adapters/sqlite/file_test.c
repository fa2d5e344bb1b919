/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/sqlite/file.h"

#include "base/loop.h"
#include "ks_test.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

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
    EXPECT_EQ_I64(ks_sqlite_use_wal(db, KS_SQLITE_DURABLE_COMMITS, deadline), SQLITE_BUSY);
    EXPECT(ks_instant_reached(ks_instant_now(), deadline));
    EXPECT_EQ_I64(sqlite3_exec(other, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    EXPECT_EQ_I64(ks_sqlite_use_wal(db, KS_SQLITE_DURABLE_COMMITS, ks_instant_now()), SQLITE_OK);
    EXPECT_EQ_I64(run("CREATE TABLE t(a)"), SQLITE_OK);
    EXPECT_EQ_I64(sqlite3_close(db), SQLITE_OK);
    EXPECT_EQ_I64(sqlite3_close(other), SQLITE_OK);
}

/* A file with a log and a table; the name of one of its files. */
static const char *open_file(enum ks_sqlite_durability durability)
{
    const char *path = ks_test_path("file.db");

    EXPECT_EQ_I64(sqlite3_open(path, &db), SQLITE_OK);
    EXPECT_EQ_I64(ks_sqlite_use_wal(db, durability, ks_instant_now()), SQLITE_OK);
    EXPECT_EQ_I64(run("CREATE TABLE t(a)"), SQLITE_OK);
    return path;
}

TEST(a_place_holds_until_one_of_its_files_is_replaced)
{
    static const char *const ends[] = {"", "-wal", "-shm"};
    const char *path = open_file(KS_SQLITE_SYNCED_COMMITS);
    struct ks_sqlite_place place;
    struct ks_detail detail = {""};
    char name[600];
    char away[620];

    EXPECT_OK(ks_sqlite_place_note(db, path, &place, &detail));
    EXPECT(ks_sqlite_place_holds(db, path, &place));
    EXPECT_EQ_I64(run("INSERT INTO t VALUES (1)"), SQLITE_OK);
    EXPECT(ks_sqlite_place_holds(db, path, &place));
    for (size_t i = 0; i < KS_SQLITE_FILES; i++) {
        (void)snprintf(name, sizeof name, "%s%s", path, ends[i]);
        (void)snprintf(away, sizeof away, "%s.away", name);
        EXPECT(rename(name, away) == 0);
        EXPECT(!ks_sqlite_place_holds(db, path, &place));
        EXPECT(link(away, name) == 0);
        EXPECT(ks_sqlite_place_holds(db, path, &place));
        EXPECT(unlink(name) == 0);
        fclose(fopen(name, "we"));
        EXPECT(ks_err_is(ks_sqlite_place_check(db, path, &place, &detail), KS_ERR_DISK));
        EXPECT_CONTAINS(detail.text, path);
        EXPECT_CONTAINS(detail.text, "put it back, or start again");
        EXPECT(rename(away, name) == 0);
        EXPECT(ks_sqlite_place_holds(db, path, &place));
    }
    ks_sqlite_close(db);
}

TEST(a_process_that_is_stopped_inside_a_write_is_named)
{
    const char *path = ks_test_path("file.db");
    char expected[KS_SQLITE_HOLDER_SIZE];
    char holder[KS_SQLITE_HOLDER_SIZE];
    int status;
    pid_t child = fork();

    if (child == 0) {
        if (sqlite3_open(path, &db) != SQLITE_OK ||
            ks_sqlite_use_wal(db, KS_SQLITE_SYNCED_COMMITS, ks_instant_now()) != SQLITE_OK ||
            run("CREATE TABLE t(a); BEGIN IMMEDIATE") != SQLITE_OK)
            _exit(1);
        (void)raise(SIGSTOP);
        (void)run("COMMIT");
        (void)raise(SIGSTOP);
        _exit(0);
    }
    EXPECT(child > 0);
    EXPECT(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
    EXPECT_EQ_I64(sqlite3_open(path, &db), SQLITE_OK);
    EXPECT_EQ_I64(run("BEGIN IMMEDIATE"), SQLITE_BUSY);
    ks_sqlite_holder(db, holder);
    (void)snprintf(expected, sizeof expected, ", held by process %d (", (int)child);
    EXPECT(strncmp(holder, expected, strlen(expected)) == 0);
    EXPECT_CONTAINS(holder, ", stopped)");
    EXPECT(kill(child, SIGCONT) == 0);
    EXPECT(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
    ks_sqlite_holder(db, holder);
    EXPECT_STR(holder, "");
    ks_sqlite_close(db);
    EXPECT(kill(child, SIGCONT) == 0);
    EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* ---- A disk that fails to sync: SQLite's own file system, but for the sync of the log. ---- */

static int syncs;
static int locks_at_sync; /* Another process would have had to wait for the write lock. */
static bool sync_fails;
static sqlite3_io_methods failing;
static int (*sync_really)(sqlite3_file *file, int flags);

static int sync_or_fail(sqlite3_file *file, int flags)
{
    sqlite3 *other;
    char *error = NULL;

    syncs++;
    if (sqlite3_open_v2(ks_test_path("file.db"), &other, SQLITE_OPEN_READWRITE, NULL) ==
        SQLITE_OK) {
        if (sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, &error) != SQLITE_OK)
            locks_at_sync++;
        sqlite3_free(error);
    }
    (void)sqlite3_close(other);
    return sync_fails ? SQLITE_IOERR_FSYNC : sync_really(file, flags);
}

static void watch_syncs(void)
{
    sqlite3_file *log = NULL;

    EXPECT_EQ_I64(sqlite3_file_control(db, NULL, SQLITE_FCNTL_JOURNAL_POINTER, &log), SQLITE_OK);
    failing = *log->pMethods;
    sync_really = failing.xSync;
    failing.xSync = sync_or_fail;
    log->pMethods = &failing;
}

TEST(synced_commits_wait_for_no_disk_while_they_keep_the_write_lock)
{
    bool failed = false;

    (void)open_file(KS_SQLITE_SYNCED_COMMITS);
    watch_syncs();
    EXPECT_EQ_I64(run("BEGIN IMMEDIATE; INSERT INTO t VALUES (1); COMMIT"), SQLITE_OK);
    EXPECT_EQ_I64(syncs, 0);
    EXPECT_EQ_I64(ks_sqlite_sync(db, &failed), SQLITE_OK);
    EXPECT_EQ_I64(syncs, 1);
    EXPECT_EQ_I64(locks_at_sync, 0);
    ks_sqlite_close(db);
}

TEST(durable_commits_are_on_the_disk_before_others_see_them)
{
    (void)open_file(KS_SQLITE_DURABLE_COMMITS);
    watch_syncs();
    EXPECT_EQ_I64(run("BEGIN IMMEDIATE; INSERT INTO t VALUES (1); COMMIT"), SQLITE_OK);
    EXPECT_EQ_I64(syncs, 1);
    EXPECT_EQ_I64(locks_at_sync, 1);
    ks_sqlite_close(db);
}

/* The system forgets what it could not write: a sync that works later tells nothing of it. */
TEST(after_a_failed_sync_nothing_is_durable_until_the_log_is_in_the_file)
{
    bool failed = false;

    (void)open_file(KS_SQLITE_SYNCED_COMMITS);
    watch_syncs();
    EXPECT_EQ_I64(run("INSERT INTO t VALUES (1)"), SQLITE_OK);
    sync_fails = true;
    EXPECT_EQ_I64(ks_sqlite_sync(db, &failed), SQLITE_IOERR_FSYNC);
    EXPECT(ks_sqlite_sync(db, &failed) != SQLITE_OK);
    sync_fails = false;
    EXPECT_EQ_I64(ks_sqlite_sync(db, &failed), SQLITE_OK);
    EXPECT(!failed);
    int frames = -1;
    EXPECT_EQ_I64(sqlite3_wal_checkpoint_v2(db, NULL, SQLITE_CHECKPOINT_PASSIVE, &frames, NULL),
                  SQLITE_OK);
    EXPECT_EQ_I64(frames, 0);
    ks_sqlite_close(db);
}
