/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are not as they should be. What a table does with requests is in tests/contract. */
#include "adapters/sqlite/table.h"

#include "base/budget.h"
#include "base/loop.h"
#include "ks_test.h"

#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static struct ks_detail detail;

static ks_err open_table(const char *path, struct ks_sqlite_table **ret_table)
{
    detail.text[0] = '\0';
    *ret_table = NULL;
    return ks_sqlite_table_open(path, "app", ret_table, &detail);
}

/* It cannot be opened, for this reason, and the sentence names the file and says this. */
static void fails(const char *path, enum ks_err_code code, const char *sentence)
{
    struct ks_sqlite_table *table;
    const ks_err err = open_table(path, &table);

    if (!ks_err_is(err, code))
        FAIL("%s: %s, %s", path, ks_err_name(err), detail.text);
    EXPECT_CONTAINS(detail.text, sentence);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

static void write_file(const char *path, const void *bytes, size_t size)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    EXPECT(fd >= 0);
    EXPECT_EQ_I64(write(fd, bytes, size), size);
    EXPECT_EQ_I64(close(fd), 0);
}

static void sql(const char *path, const char *text)
{
    sqlite3 *db = NULL;

    EXPECT_EQ_I64(sqlite3_open(path, &db), SQLITE_OK);
    EXPECT_EQ_I64(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
    EXPECT_EQ_I64(sqlite3_close(db), SQLITE_OK);
}

/* A lease of `shard` whose parents make it a big row. */
static struct ks_ask_work *creation(const char *shard, int64_t timeout_ms)
{
    struct ks_ask_work *const work = ks_alloc(sizeof(*work));
    static struct ks_store_lease lease;
    const struct ks_store_request request = {.operation = KS_STORE_CREATE, .lease = &lease};

    EXPECT(work != NULL);
    memset(&lease, 0, sizeof(lease));
    EXPECT_OK(ks_view_copy_text(ks_view_text(shard), lease.shard, sizeof(lease.shard)));
    memset(lease.parents[0], 'a', KS_SHARD_ID_MAX);
    memset(lease.parents[1], 'b', KS_SHARD_ID_MAX);
    work->operation = KS_STORE_CREATE;
    work->outcome = KS_UNKNOWN;
    work->deadline = ks_instant_add(ks_instant_now(), ks_span_ms(timeout_ms));
    EXPECT_OK(ks_native_write(&request, &work->write, NULL));
    return work;
}

/* What comes of it. */
static enum ks_outcome create(struct ks_sqlite_table *table, const char *shard, int64_t timeout_ms,
                              ks_err *ret_err)
{
    struct ks_ask_work *const work = creation(shard, timeout_ms);
    enum ks_outcome outcome;

    ks_sqlite_table_perform(table, work);
    outcome = work->outcome;
    *ret_err = work->err;
    detail = work->detail;
    ks_ask_work_free(work);
    return outcome;
}

static uint32_t leases(struct ks_sqlite_table *table)
{
    struct ks_ask_work *const work = ks_alloc(sizeof(*work));
    uint32_t count;

    EXPECT(work != NULL);
    work->operation = KS_STORE_READ_LEASES;
    work->outcome = KS_UNKNOWN;
    work->partition = KS_NATIVE_LEASES;
    work->deadline = ks_instant_add(ks_instant_now(), ks_span_ms(5000));
    ks_sqlite_table_perform(table, work);
    EXPECT_EQ_I64(work->outcome, KS_DONE);
    count = work->rows.lease_count;
    ks_ask_work_free(work);
    return count;
}

TEST(a_file_is_made_and_found_again)
{
    const char *const path = ks_test_path("leases.db");
    struct ks_sqlite_table *table;
    ks_err err;

    EXPECT_OK(open_table(path, &table));
    EXPECT_EQ_I64(create(table, "s1", 5000, &err), KS_DONE);
    ks_sqlite_table_close(table);
    EXPECT_OK(open_table(path, &table));
    EXPECT_EQ_U64(leases(table), 1);
    EXPECT_EQ_I64(create(table, "s1", 5000, &err), KS_REFUSED);
    ks_sqlite_table_close(table);
    ks_sqlite_table_close(NULL);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

static char many[600];

/* Some are gone already when others come. */
static int open_and_leave(uint32_t which)
{
    struct ks_sqlite_table *table;

    if (!ks_ok(open_table(many, &table)))
        return 1;
    if (which % 2 == 0)
        ks_sqlite_table_close(table);
    return 0;
}

TEST(processes_that_come_at_once_make_one_file)
{
    for (int round = 0; round < 20; round++) {
        (void)snprintf(many, sizeof many, "%s/%d.db", ks_test_dir(), round);
        EXPECT_EQ_U64(ks_test_at_once(6, open_and_leave, 0), 6);
    }
}

TEST(a_file_that_was_taken_away_is_written_no_more)
{
    const char *const path = ks_test_path("leases.db");
    const char *const away = ks_test_path("away.db");
    struct ks_sqlite_table *table;
    ks_err err;

    EXPECT_OK(open_table(path, &table));
    EXPECT_EQ_I64(create(table, "s1", 5000, &err), KS_DONE);
    EXPECT_EQ_I64(rename(path, away), 0);
    EXPECT_EQ_I64(create(table, "s2", 5000, &err), KS_UNKNOWN);
    EXPECT_ERR(err, DISK);
    EXPECT_CONTAINS(detail.text, "leases.db: the file, its -wal or its -shm was moved or removed");
    write_file(path, "", 0); /* Another one in its place. */
    EXPECT_EQ_I64(create(table, "s2", 5000, &err), KS_UNKNOWN);
    EXPECT_EQ_I64(rename(away, path), 0);
    EXPECT_EQ_I64(create(table, "s2", 5000, &err), KS_DONE);
    EXPECT_EQ_U64(leases(table), 2);
    ks_sqlite_table_close(table);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

/* Performed, but not settled yet: whatever of the file goes before that, nothing was done for sure. */
TEST(a_write_is_unknown_if_the_file_goes_before_it_is_settled)
{
    static const char *const ends[] = {"", "-wal", "-shm"};

    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        struct ks_ask_work *work = creation("s1", 5000);
        struct ks_sqlite_table *table;
        char path[600];
        char gone[620];

        (void)snprintf(path, sizeof path, "%s",
                       ks_test_path(i == 0   ? "0.db"
                                    : i == 1 ? "1.db"
                                             : "2.db"));
        (void)snprintf(gone, sizeof gone, "%s%s", path, ends[i]);
        EXPECT_OK(open_table(path, &table));
        ks_sqlite_table_perform(table, work);
        EXPECT_EQ_I64(work->outcome, KS_DONE);
        ks_sqlite_table_settle(table, &work, 1);
        EXPECT_EQ_I64(work->outcome, KS_DONE);
        EXPECT_EQ_I64(unlink(gone), 0);
        ks_sqlite_table_settle(table, &work, 1);
        EXPECT_EQ_I64(work->outcome, KS_UNKNOWN);
        EXPECT_ERR(work->err, DISK);
        EXPECT_CONTAINS(work->detail.text, "was moved or removed");
        ks_ask_work_free(work);
        ks_sqlite_table_close(table);
    }
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

TEST(a_file_of_something_else_is_not_touched)
{
    const char *const path = ks_test_path("else");
    char bytes[4096];
    char after[4096];
    int fd;

    memset(bytes, 'x', sizeof(bytes));
    write_file(path, bytes, sizeof(bytes));
    fails(path, KS_ERR_FOREIGN, "another file");
    fd = open(path, O_RDONLY);
    EXPECT_EQ_I64(read(fd, after, sizeof(after)), sizeof(after));
    EXPECT_MEM(after, bytes, sizeof(bytes));
    EXPECT_EQ_I64(close(fd), 0);
}

TEST(a_database_of_somebody_else_is_not_touched)
{
    const char *const path = ks_test_path("else.db");

    sql(path, "CREATE TABLE lease_table (application, p, k)");
    fails(path, KS_ERR_FOREIGN, "no lease table");
    sql(path, "DROP TABLE lease_table; PRAGMA application_id = 42");
    fails(path, KS_ERR_FOREIGN, "no lease table");
}

TEST(a_table_of_another_version_is_not_touched)
{
    const char *const path = ks_test_path("leases.db");
    struct ks_sqlite_table *table;

    EXPECT_OK(open_table(path, &table));
    ks_sqlite_table_close(table);
    sql(path, "PRAGMA user_version = 3");
    fails(path, KS_ERR_FOREIGN, "another version");
    sql(path, "PRAGMA user_version = 1");
    fails(path, KS_ERR_FOREIGN, "another version");
    sql(path, "PRAGMA user_version = 2; ALTER TABLE lease_table RENAME COLUMN rev TO revision");
    fails(path, KS_ERR_MALFORMED, "no such column");
}

/* A table of many pages. */
static void make_many(const char *path)
{
    struct ks_sqlite_table *table;
    struct stat made;
    char shard[32];
    ks_err err;

    EXPECT_OK(open_table(path, &table));
    for (int at = 0; at < 100; at++) {
        (void)snprintf(shard, sizeof(shard), "s%d", at);
        EXPECT_EQ_I64(create(table, shard, 5000, &err), KS_DONE);
    }
    ks_sqlite_table_close(table);
    EXPECT_EQ_I64(stat(path, &made), 0);
    EXPECT(made.st_size > 6 * 4096);
}

TEST(a_corrupted_file_is_told_at_the_start)
{
    const char *const path = ks_test_path("leases.db");
    char junk[2048];
    int fd;

    make_many(path);
    memset(junk, 0x5A, sizeof(junk));
    fd = open(path, O_WRONLY);
    EXPECT_EQ_I64(pwrite(fd, junk, sizeof(junk), 2 * 4096), sizeof(junk));
    EXPECT_EQ_I64(close(fd), 0);
    fails(path, KS_ERR_CORRUPT, "move it away");
}

TEST(a_cut_file_is_told_at_the_start)
{
    const char *const path = ks_test_path("leases.db");

    make_many(path);
    EXPECT_EQ_I64(truncate(path, 4 * 4096), 0);
    fails(path, KS_ERR_CORRUPT, "move it away");
}

TEST(a_directory_that_is_not_there_is_named)
{
    fails(ks_test_path("nowhere/leases.db"), KS_ERR_SYSTEM, "directory must exist");
    fails(ks_test_dir(), KS_ERR_SYSTEM, "unable to open");
}

/* Root may write anywhere: it becomes nobody for this. */
static void become_nobody(void)
{
    if (geteuid() == 0) {
        EXPECT_EQ_I64(setegid(65534), 0);
        EXPECT_EQ_I64(seteuid(65534), 0);
    }
}

/* DENIED or SYSTEM: that depends on what SQLite finds out (access(2) asks for the real user). */
static void may_not_be_written(const char *path)
{
    const uid_t uid = geteuid();
    struct ks_sqlite_table *table;
    ks_err err;

    become_nobody();
    err = open_table(path, &table);
    EXPECT(ks_err_is(err, KS_ERR_DENIED) || ks_err_is(err, KS_ERR_SYSTEM));
    EXPECT_CONTAINS(detail.text, path);
    EXPECT_CONTAINS(detail.text, "writable for this user");
    EXPECT_EQ_I64(seteuid(uid), 0);
}

TEST(a_directory_that_may_not_be_written_is_named)
{
    EXPECT_EQ_I64(mkdir(ks_test_path("closed"), 0555), 0);
    EXPECT_EQ_I64(chmod(ks_test_dir(), 0755), 0);
    may_not_be_written(ks_test_path("closed/leases.db"));
}

TEST(a_file_that_may_not_be_written_is_named)
{
    const char *const path = ks_test_path("leases.db");
    struct ks_sqlite_table *table;

    EXPECT_OK(open_table(path, &table));
    ks_sqlite_table_close(table);
    EXPECT_EQ_I64(chmod(path, 0444), 0);
    EXPECT_EQ_I64(chmod(ks_test_dir(), 0555), 0);
    may_not_be_written(path);
    EXPECT_EQ_I64(chmod(ks_test_dir(), 0755), 0);
}

TEST(a_full_disk_writes_nothing_and_says_so)
{
    const char *const path = ks_test_path("leases.db");
    struct ks_sqlite_table *table;
    struct rlimit limit;
    enum ks_outcome outcome = KS_DONE;
    uint32_t done = 0;
    char shard[32];
    ks_err err = KS_OK;

    EXPECT_OK(open_table(path, &table));
    EXPECT(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    EXPECT_EQ_I64(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = 200 << 10;
    EXPECT_EQ_I64(setrlimit(RLIMIT_FSIZE, &limit), 0);
    while (outcome == KS_DONE) {
        (void)snprintf(shard, sizeof(shard), "s%u", done);
        outcome = create(table, shard, 5000, &err);
        done += outcome == KS_DONE;
        EXPECT(done < 10000);
    }
    EXPECT_EQ_I64(outcome, KS_UNKNOWN);
    EXPECT(ks_err_is(err, KS_ERR_DISK));
    EXPECT_CONTAINS(detail.text, "disk");
    EXPECT_EQ_U64(leases(table), done);

    /* There is room again: it goes on, and has lost nothing. */
    limit.rlim_cur = limit.rlim_max;
    EXPECT_EQ_I64(setrlimit(RLIMIT_FSIZE, &limit), 0);
    EXPECT_EQ_I64(create(table, shard, 5000, &err), KS_DONE);
    ks_sqlite_table_close(table);
    EXPECT_OK(open_table(path, &table));
    EXPECT_EQ_U64(leases(table), done + 1);
    ks_sqlite_table_close(table);
}

TEST(a_lock_is_waited_for_until_the_deadline)
{
    const char *const path = ks_test_path("leases.db");
    const ks_instant begun = ks_instant_now();
    struct ks_sqlite_table *table;
    sqlite3 *db = NULL;
    char holder[KS_SQLITE_HOLDER_SIZE];
    int64_t took_ms;
    ks_err err;

    EXPECT_OK(open_table(path, &table));
    EXPECT_EQ_I64(sqlite3_open(path, &db), SQLITE_OK);
    EXPECT_EQ_I64(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    EXPECT_EQ_I64(create(table, "s1", 120, &err), KS_UNKNOWN);
    EXPECT(ks_err_class(err) == KS_CLASS_RETRY);
    /* A little earlier, so that its asker hears who keeps the lock. */
    took_ms = ks_span_to_ms(ks_instant_since(ks_instant_now(), begun));
    EXPECT(took_ms >= 80);
    (void)snprintf(holder, sizeof holder, "held by process %d (", (int)getpid());
    EXPECT_CONTAINS(detail.text, holder);
    ks_sqlite_table_holder(table, holder);
    EXPECT_CONTAINS(holder, "held by process");
    ks_sqlite_table_holder(table, holder);
    EXPECT_STR(holder, "");
    EXPECT(took_ms < 3000);
    /* Readers do not wait. */
    EXPECT_EQ_U64(leases(table), 0);
    EXPECT_EQ_I64(sqlite3_close(db), SQLITE_OK);
    EXPECT_EQ_I64(create(table, "s1", 0, &err), KS_UNKNOWN);
    EXPECT_EQ_U64(leases(table), 0);
    EXPECT_EQ_I64(create(table, "s1", 5000, &err), KS_DONE);
    ks_sqlite_table_close(table);
}

TEST(a_name_of_an_application_must_be_one)
{
    char longest[KS_SQLITE_APPLICATION_MAX + 2];
    struct ks_sqlite_table *table;
    const char *const path = ks_test_path("leases.db");

    memset(longest, 'a', sizeof(longest));
    longest[KS_SQLITE_APPLICATION_MAX + 1] = '\0';
    EXPECT(ks_err_is(ks_sqlite_table_open(path, "", &table, &detail), KS_ERR_INVALID));
    EXPECT(ks_err_is(ks_sqlite_table_open(path, longest, &table, &detail), KS_ERR_INVALID));
    EXPECT_CONTAINS(detail.text, "255");
    EXPECT_EQ_I64(access(path, F_OK), -1);
}

/* A file that somebody made with our marks and without the key. */
static void make_without_key(const char *path)
{
    struct ks_sqlite_table *table;

    EXPECT_OK(open_table(path, &table));
    ks_sqlite_table_close(table);
    sql(path, "CREATE TABLE other AS SELECT * FROM lease_table; DROP TABLE lease_table; "
              "ALTER TABLE other RENAME TO lease_table");
    for (int i = 0; i < 2; i++)
        sql(path, "INSERT INTO lease_table (application, p, k, boot, life, mode, beat) "
                  "VALUES ('app', 'w', 'a', '0000000000000001', 'live', 'active', 7)");
}

/* Asks the table. The answer must be that it is damaged, in words that hold `what`. */
static void expect_corrupt(struct ks_sqlite_table *table, const struct ks_store_request *request,
                           const char *what)
{
    struct ks_ask_work *const work = ks_alloc(sizeof(*work));

    EXPECT(work != NULL);
    work->operation = request->operation;
    work->outcome = KS_UNKNOWN;
    work->deadline = ks_instant_add(ks_instant_now(), ks_span_ms(5000));
    if (ks_native_writes(work->operation))
        EXPECT_OK(ks_native_write(request, &work->write, NULL));
    else
        EXPECT_OK(ks_native_read(request, &work->partition, &work->keys));
    ks_sqlite_table_perform(table, work);
    EXPECT_EQ_I64(work->outcome, KS_UNKNOWN);
    EXPECT_ERR(work->err, CORRUPT);
    EXPECT_CONTAINS(work->detail.text, what);
    ks_ask_work_free(work);
}

TEST(a_row_that_is_there_twice_is_corruption)
{
    const char *const path = ks_test_path("leases.db");
    const struct ks_store_request requests[] = {
        {.operation = KS_STORE_HEARTBEAT, .worker = {"a", 1}},
        {.operation = KS_STORE_READ_WORKER, .worker = {"a", 1}}};
    struct ks_sqlite_table *table;

    make_without_key(path);
    EXPECT_OK(open_table(path, &table));
    for (size_t at = 0; at < 2; at++)
        expect_corrupt(table, &requests[at], "a row is there more than once");
    ks_sqlite_table_close(table);
}

/* As above, and its keys are equal whatever their case. */
TEST(a_row_by_another_key_than_was_asked_for_is_corruption)
{
    const char *const path = ks_test_path("leases.db");
    const struct ks_store_request request = {.operation = KS_STORE_READ_WORKER, .worker = {"A", 1}};
    struct ks_sqlite_table *table;

    make_without_key(path);
    sql(path, "DELETE FROM lease_table WHERE rowid > 1; PRAGMA writable_schema = ON; "
              "UPDATE sqlite_master SET sql = replace(sql, 'k TEXT', 'k TEXT COLLATE NOCASE')");
    EXPECT_OK(open_table(path, &table));
    expect_corrupt(table, &request, "rows that were not asked for");
    ks_sqlite_table_close(table);
}

TEST(a_beat_that_is_no_number_is_not_counted_on)
{
    const char *const path = ks_test_path("leases.db");
    const struct ks_store_request request = {.operation = KS_STORE_HEARTBEAT, .worker = {"a", 1}};
    struct ks_ask_work *const work = ks_alloc(sizeof(*work));
    struct ks_sqlite_table *table;

    EXPECT(work != NULL);
    EXPECT_OK(open_table(path, &table));
    sql(path, "INSERT INTO lease_table (application, p, k, boot, life, mode, beat) "
              "VALUES ('app', 'w', 'a', '0000000000000001', 'live', 'active', 'x')");
    work->operation = request.operation;
    work->outcome = KS_UNKNOWN;
    work->deadline = ks_instant_add(ks_instant_now(), ks_span_ms(5000));
    EXPECT_OK(ks_native_write(&request, &work->write, NULL));
    ks_sqlite_table_perform(table, work);
    EXPECT_EQ_I64(work->outcome, KS_UNKNOWN);
    EXPECT(ks_err_is(work->err, KS_ERR_MALFORMED));
    EXPECT_CONTAINS(work->detail.text, "not a number");
    ks_ask_work_free(work);
    ks_sqlite_table_close(table);
}
