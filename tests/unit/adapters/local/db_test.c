/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/local/db.h"

#include "adapters/local/shards.h"
#include "base/budget.h"

#include "ks_test.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static ks_err open_at(const char *path, uint32_t shards, struct ks_local_db **db,
                      struct ks_detail *detail)
{
    detail->text[0] = '\0';
    return ks_local_db_open(path, "demo", shards, db, detail);
}

static uint32_t open_shards(struct ks_local_db *db)
{
    struct ks_shard_row_local *rows;
    uint32_t count = 0;

    EXPECT_OK(ks_shards_load(db, true, &rows, &count, NULL));
    ks_free(rows);
    return count;
}

static void write_file(const char *path, const char *bytes, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

    EXPECT(fd >= 0);
    EXPECT_EQ_I64(write(fd, bytes, size), (int64_t)size);
    (void)close(fd);
}

static int byte_of(const char *path, off_t at)
{
    uint8_t byte = 0;
    int fd = open(path, O_RDONLY);

    EXPECT(pread(fd, &byte, 1, at) == 1);
    (void)close(fd);
    return byte;
}

TEST(whoever_comes_first_makes_it)
{
    const char *path = ks_test_path("stream.db");
    struct ks_local_db *first;
    struct ks_local_db *second;
    struct ks_detail detail;

    EXPECT_OK(open_at(path, 4, &first, &detail));
    EXPECT_OK(open_at(path, 9, &second, &detail));
    EXPECT_EQ_U64(open_shards(first), 4);
    EXPECT_EQ_U64(open_shards(second), 4);
    EXPECT_EQ_U64(second->made_shards, 4);
    EXPECT_EQ_I64(second->created_ms, first->created_ms);
    ks_local_db_close(first);
    ks_local_db_close(second);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

TEST(one_file_holds_several_streams)
{
    const char *path = ks_test_path("stream.db");
    struct ks_local_db *one;
    struct ks_local_db *other;

    EXPECT_OK(ks_local_db_open(path, "one", 2, &one, NULL));
    EXPECT_OK(ks_local_db_open(path, "other", 3, &other, NULL));
    EXPECT_EQ_U64(open_shards(one), 2);
    EXPECT_EQ_U64(open_shards(other), 3);
    EXPECT(one->stream != other->stream);
    ks_local_db_close(one);
    ks_local_db_close(other);
}

static char many[600];

/* Some are gone already when others come. */
static int open_and_leave(uint32_t which)
{
    struct ks_local_db *db;
    struct ks_detail detail;

    if (!ks_ok(open_at(many, 3, &db, &detail)))
        return 1;
    if (which % 2 == 0)
        ks_local_db_close(db);
    return 0;
}

TEST(processes_that_come_at_once_make_one_stream)
{
    struct ks_local_db *db;
    struct ks_detail detail;

    for (int round = 0; round < 20; round++) {
        (void)snprintf(many, sizeof many, "%s/%d.db", ks_test_dir(), round);
        EXPECT_EQ_U64(ks_test_at_once(6, open_and_leave, 0), 6);
        EXPECT_OK(open_at(many, 3, &db, &detail));
        EXPECT_EQ_U64(open_shards(db), 3);
        ks_local_db_close(db);
    }
}

TEST(a_trigger_that_somebody_left_in_the_file_does_nothing)
{
    const char *path = ks_test_path("stream.db");
    struct ks_shard_row_local *rows;
    struct ks_local_db *db;
    uint32_t count = 0;

    EXPECT_OK(ks_local_db_open(path, "one", 2, &db, NULL));
    EXPECT_EQ_I64(sqlite3_exec(db->handle,
                               "CREATE TRIGGER g AFTER INSERT ON shards BEGIN "
                               "DELETE FROM shards WHERE stream = 1; END",
                               NULL, NULL, NULL),
                  SQLITE_OK);
    ks_local_db_close(db);
    EXPECT_OK(ks_local_db_open(path, "two", 2, &db, NULL));
    ks_local_db_close(db);
    EXPECT_OK(ks_local_db_open(path, "one", 2, &db, NULL));
    EXPECT_OK(ks_shards_load(db, false, &rows, &count, NULL));
    EXPECT_EQ_I64(count, 2);
    ks_free(rows);
    ks_local_db_close(db);
}

TEST(a_file_of_something_else_is_left_alone)
{
    const char *path = ks_test_path("other.db");
    struct ks_local_db *db;
    struct ks_detail detail;
    sqlite3 *other;

    EXPECT_EQ_I64(sqlite3_open(path, &other), SQLITE_OK);
    EXPECT_EQ_I64(sqlite3_exec(other, "CREATE TABLE shards(x)", NULL, NULL, NULL), SQLITE_OK);
    EXPECT_ERR(open_at(path, 4, &db, &detail), FOREIGN);
    EXPECT_CONTAINS(detail.text, "something else");
    EXPECT_CONTAINS(detail.text, "other.db");
    EXPECT_EQ_I64(sqlite3_exec(other, "SELECT x FROM shards", NULL, NULL, NULL), SQLITE_OK);
    EXPECT_EQ_I64(sqlite3_close(other), SQLITE_OK);
    /* Nor is a log begun beside it: byte 18 of the head is 1 without. */
    EXPECT_EQ_I64(byte_of(path, 18), 1);

    path = ks_test_path("newer.db");
    EXPECT_OK(open_at(path, 4, &db, &detail));
    EXPECT_EQ_I64(sqlite3_exec(db->handle, "PRAGMA user_version = 99", NULL, NULL, NULL),
                  SQLITE_OK);
    ks_local_db_close(db);
    EXPECT_ERR(open_at(path, 4, &db, &detail), FOREIGN);
    EXPECT_CONTAINS(detail.text, "another version");
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

TEST(what_is_no_database_or_a_broken_one_is_said_so)
{
    const char *path = ks_test_path("text.db");
    char noise[4096];
    struct ks_local_db *db;
    struct ks_detail detail;

    for (size_t at = 0; at < sizeof(noise); at++)
        noise[at] = (char)(at * 31 + 7);
    write_file(path, noise, sizeof(noise));
    EXPECT_ERR(open_at(path, 4, &db, &detail), CORRUPT);
    EXPECT_CONTAINS(detail.text, "text.db");
    EXPECT_CONTAINS(detail.text, "not a database");

    path = ks_test_path("broken.db");
    EXPECT_OK(open_at(path, 4, &db, &detail));
    ks_local_db_close(db);
    int fd = open(path, O_WRONLY);
    EXPECT(fd >= 0);
    EXPECT_EQ_I64(pwrite(fd, noise, sizeof(noise), 100), (int64_t)sizeof(noise));
    (void)close(fd);
    EXPECT_ERR(open_at(path, 4, &db, &detail), CORRUPT);
    EXPECT_CONTAINS(detail.text, "broken.db");
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

TEST(a_place_that_cannot_be_written_is_said_so)
{
    struct ks_local_db *db;
    struct ks_detail detail;
    char path[512];

    (void)snprintf(path, sizeof(path), "%s/no/such/folder.db", ks_test_dir());
    EXPECT_ERR(open_at(path, 4, &db, &detail), SYSTEM);
    EXPECT_CONTAINS(detail.text, "folder.db");
    EXPECT_CONTAINS(detail.text, "unable to open");
    EXPECT_CONTAINS(detail.text, "the directory must exist");
    /* A folder is no file, not even for root. */
    EXPECT_ERR(open_at(ks_test_dir(), 4, &db, &detail), SYSTEM);
    if (geteuid() != 0) {
        (void)snprintf(path, sizeof(path), "%s/stream.db", ks_test_dir());
        EXPECT_EQ_I64(chmod(ks_test_dir(), 0555), 0);
        ks_err err = open_at(path, 4, &db, &detail);
        EXPECT_EQ_I64(chmod(ks_test_dir(), 0755), 0);
        EXPECT_ERR(err, SYSTEM);
        EXPECT_CONTAINS(detail.text, "stream.db");
    }
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

TEST(names_and_numbers_have_limits)
{
    const char *path = ks_test_path("stream.db");
    char name[KS_STREAM_NAME_MAX + 2];
    struct ks_local_db *db;

    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    EXPECT_ERR(ks_local_db_open(path, name, 4, &db, NULL), INVALID);
    EXPECT_ERR(ks_local_db_open(path, "", 4, &db, NULL), INVALID);
    EXPECT_ERR(ks_local_db_open(path, "demo", 0, &db, NULL), INVALID);
    EXPECT_ERR(ks_local_db_open(path, "demo", KS_LOCAL_SHARDS_MAX + 1, &db, NULL), INVALID);
    EXPECT(access(path, F_OK) != 0);
}

TEST(a_writer_that_does_not_end_is_busy_and_not_for_ever)
{
    const char *path = ks_test_path("stream.db");
    struct ks_local_db *one;
    struct ks_local_db *other;
    struct ks_detail detail;

    EXPECT_OK(open_at(path, 1, &one, &detail));
    EXPECT_OK(open_at(path, 1, &other, &detail));
    EXPECT_OK(ks_local_db_run(one, KS_LOCAL_BEGIN_WRITE, NULL, 0, NULL));
    EXPECT_ERR(ks_local_db_run(other, KS_LOCAL_BEGIN_WRITE, NULL, 0, &detail), BUSY);
    EXPECT_CONTAINS(detail.text, "locked");
    EXPECT_OK(ks_local_db_end(one, KS_OK, NULL));
    EXPECT_OK(ks_local_db_run(other, KS_LOCAL_BEGIN_WRITE, NULL, 0, NULL));
    /* An error ends the transaction and stays the error. */
    EXPECT_ERR(ks_local_db_end(other, KS_FAIL(INVALID), NULL), INVALID);
    EXPECT_OK(ks_local_db_run(one, KS_LOCAL_BEGIN_WRITE, NULL, 0, NULL));
    EXPECT_OK(ks_local_db_end(one, KS_OK, NULL));
    ks_local_db_close(one);
    ks_local_db_close(other);
}
