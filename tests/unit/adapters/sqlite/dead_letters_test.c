/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/sqlite/dead_letters.h"

#include <sqlite3.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ks_test.h"

static struct ks_loop *loop;
static struct ks_dead_letters *store;
static char path[600];

/* What was answered last. */
static struct {
    uint32_t calls;
    enum ks_outcome outcome;
    uint32_t count;
    bool more;
    char ids[200];
    char reason[100];
    char data[64];
    size_t data_size;
    uint32_t attempts;
    enum ks_cause cause;
    int64_t sub_sequence;
    int64_t arrival_ms;
    struct ks_detail detail;
} heard;

static void answered(void *arg, const struct ks_letters_answer *answer)
{
    (void)arg;
    heard.calls++;
    heard.outcome = answer->outcome;
    heard.count = answer->count;
    heard.more = answer->more;
    heard.detail = answer->detail;
    heard.ids[0] = '\0';
    for (uint32_t i = 0; answer->letters != NULL && i < answer->count; i++) {
        const struct ks_letter *letter = &answer->letters[i];
        size_t used = strlen(heard.ids);

        (void)snprintf(heard.ids + used, sizeof heard.ids - used, "%.*s ", (int)letter->id.size,
                       (const char *)letter->id.data);
        (void)snprintf(heard.reason, sizeof heard.reason, "%.*s", (int)letter->reason.size,
                       (const char *)letter->reason.data);
        heard.data_size = letter->data.size;
        if (letter->data.size > 0 && letter->data.size <= sizeof heard.data)
            memcpy(heard.data, letter->data.data, letter->data.size);
        heard.attempts = letter->attempts;
        heard.cause = letter->cause;
        heard.sub_sequence = letter->sub_sequence;
        heard.arrival_ms = letter->arrival_ms;
    }
}

static void wait_for_answer(void)
{
    uint32_t before = heard.calls;

    for (int i = 0; i < 5000 && heard.calls == before; i++)
        ks_loop_turn(loop, ks_span_ms(10));
    EXPECT_EQ_I64(heard.calls, before + 1);
}

static void open_store(const char *application)
{
    const struct ks_letters_key key = {.application = application};
    struct ks_detail detail;

    EXPECT_OK(ks_sqlite_letters_open(loop, path, &key, &store, &detail));
}

static void begin(void)
{
    EXPECT_OK(ks_loop_new(&loop));
    (void)snprintf(path, sizeof path, "%s/letters.db", ks_test_dir());
    open_store("app");
}

static void end(void)
{
    store->vtable->close(store);
    ks_loop_free(loop);
}

static struct ks_letter letter(const char *id)
{
    return (struct ks_letter){
        .id = ks_view_text(id),
        .stream = KS_VIEW("s"),
        .shard_id = KS_VIEW("shardId-000000000000"),
        .sequence = KS_VIEW("42"),
        .sub_sequence = -1,
        .partition_key = KS_VIEW("k"),
        .data = ks_view_of((const uint8_t *)"a\0b", 3),
        .reason = KS_VIEW("cannot be parsed"),
        .arrival_ms = 1,
        .died_ms = 2,
        .attempts = 3,
        .cause = KS_CAUSE_ATTEMPTS,
    };
}

static void write_letters(const struct ks_letter *letters, uint32_t count)
{
    store->vtable->write(store, letters, count, answered, NULL);
    wait_for_answer();
}

static void list(const char *after, uint32_t most)
{
    store->vtable->list(store, ks_view_text(after), most, answered, NULL);
    wait_for_answer();
}

TEST(a_letter_is_found_with_all_that_it_was_also_after_a_restart)
{
    struct ks_letter one = letter("one");

    begin();
    write_letters(&one, 1);
    EXPECT_EQ_I64(heard.outcome, KS_DONE);
    store->vtable->close(store);
    open_store("app");
    store->vtable->find(store, KS_VIEW("one"), answered, NULL);
    wait_for_answer();
    EXPECT_EQ_I64(heard.outcome, KS_DONE);
    EXPECT_EQ_I64(heard.count, 1);
    EXPECT_STR(heard.reason, "cannot be parsed");
    EXPECT_EQ_I64((int64_t)heard.data_size, 3);
    EXPECT(memcmp(heard.data, "a\0b", 3) == 0);
    EXPECT_EQ_I64(heard.attempts, 3);
    EXPECT_EQ_I64(heard.cause, KS_CAUSE_ATTEMPTS);
    EXPECT_EQ_I64(heard.sub_sequence, -1);
    end();
}

TEST(the_same_record_written_again_is_the_same_letter)
{
    struct ks_letter letters[2] = {letter("a"), letter("b")};

    begin();
    write_letters(letters, 2);
    letters[0].attempts = 9;
    write_letters(letters, 1);
    EXPECT_EQ_I64(heard.outcome, KS_DONE);
    list("", 10);
    EXPECT_STR(heard.ids, "a b ");
    end();
}

TEST(a_list_goes_on_where_it_ended_and_knows_only_its_application)
{
    struct ks_letter letters[3] = {letter("c"), letter("a"), letter("b")};

    begin();
    write_letters(letters, 3);
    list("", 2);
    EXPECT_STR(heard.ids, "a b ");
    EXPECT(heard.more);
    list("b", 2);
    EXPECT_STR(heard.ids, "c ");
    EXPECT(!heard.more);
    store->vtable->close(store);
    open_store("another");
    list("", 2);
    EXPECT_EQ_I64(heard.count, 0);
    end();
}

TEST(a_letter_is_removed_once)
{
    struct ks_letter one = letter("one");

    begin();
    write_letters(&one, 1);
    store->vtable->remove(store, KS_VIEW("one"), KS_VIEW(""), answered, NULL);
    wait_for_answer();
    EXPECT_EQ_I64(heard.outcome, KS_DONE);
    store->vtable->remove(store, KS_VIEW("one"), KS_VIEW(""), answered, NULL);
    wait_for_answer();
    EXPECT_EQ_I64(heard.outcome, KS_REFUSED);
    list("", 10);
    EXPECT_EQ_I64(heard.count, 0);
    end();
}

TEST(while_another_keeps_the_file_a_write_is_refused_and_nothing_of_it_is_there)
{
    struct ks_letter letters[2] = {letter("a"), letter("b")};
    sqlite3 *other;

    begin();
    EXPECT_EQ_I64(sqlite3_open(path, &other), SQLITE_OK);
    EXPECT_EQ_I64(sqlite3_exec(other, "BEGIN EXCLUSIVE", NULL, NULL, NULL), SQLITE_OK);
    write_letters(letters, 2);
    EXPECT_EQ_I64(heard.outcome, KS_REFUSED);
    EXPECT_EQ_I64(sqlite3_exec(other, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    EXPECT_EQ_I64(sqlite3_close(other), SQLITE_OK);
    list("", 10);
    EXPECT_EQ_I64(heard.count, 0);
    write_letters(letters, 2);
    EXPECT_EQ_I64(heard.outcome, KS_DONE);
    end();
}

TEST(nobody_is_told_after_the_store_is_closed)
{
    struct ks_letter one = letter("one");
    uint32_t before;

    begin();
    before = heard.calls;
    store->vtable->write(store, &one, 1, answered, NULL);
    store->vtable->close(store);
    ks_loop_await_jobs(loop, ks_span_ms(20000));
    EXPECT_EQ_I64(heard.calls, before);
    ks_loop_free(loop);
}

/* Some are gone already when others come. */
static int open_and_leave(uint32_t which)
{
    const struct ks_letters_key key = {.application = "app"};
    struct ks_detail detail;

    if (!ks_ok(ks_loop_new(&loop)) ||
        !ks_ok(ks_sqlite_letters_open(loop, path, &key, &store, &detail)))
        return 1;
    if (which % 2 == 0)
        store->vtable->close(store);
    return 0;
}

TEST(processes_that_come_at_once_make_one_file)
{
    for (int round = 0; round < 20; round++) {
        (void)snprintf(path, sizeof path, "%s/%d.db", ks_test_dir(), round);
        EXPECT_EQ_U64(ks_test_at_once(6, open_and_leave, 0), 6);
    }
}

TEST(a_file_of_somebody_else_is_left_alone)
{
    const struct ks_letters_key key = {.application = "app"};
    struct ks_detail detail;
    sqlite3 *other;

    EXPECT_OK(ks_loop_new(&loop));
    (void)snprintf(path, sizeof path, "%s/other.db", ks_test_dir());
    EXPECT_EQ_I64(sqlite3_open(path, &other), SQLITE_OK);
    EXPECT_EQ_I64(sqlite3_exec(other, "CREATE TABLE theirs (a)", NULL, NULL, NULL), SQLITE_OK);
    EXPECT_EQ_I64(sqlite3_close(other), SQLITE_OK);
    EXPECT(ks_err_is(ks_sqlite_letters_open(loop, path, &key, &store, &detail), KS_ERR_FOREIGN));
    EXPECT_CONTAINS(detail.text, "no dead letters of ours");
    ks_loop_free(loop);
}

/* Puts a row into the file as nobody of ours would. */
static void put_row(const char *id, const char *shard, const char *arrival_ms, const char *attempts)
{
    char sql[1600];
    sqlite3 *db;

    (void)snprintf(
        sql, sizeof sql,
        "INSERT INTO dead_letter VALUES ('app', %s, 's', %s, '42', -1, 'k', 'd', '', %s, "
        "-5, %s, 9)",
        id, shard, arrival_ms, attempts);
    EXPECT_EQ_I64(sqlite3_open(path, &db), SQLITE_OK);
    EXPECT_EQ_I64(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    EXPECT_EQ_I64(sqlite3_close(db), SQLITE_OK);
}

TEST(damaged_rows_are_listed_by_their_ids_and_never_found)
{
    struct ks_letter good[2] = {letter("b"), letter("n")};

    begin();
    write_letters(good, 2);
    put_row("'a' || char(0) || 'b'", "'shard'", "1", "1");
    put_row("CAST(x'63FF' AS TEXT)", "'shard'", "1", "1");
    put_row("'d' || hex(zeroblob(400))", "'shard'", "1", "1");
    put_row("'e'", "CAST(x'FF' AS TEXT)", "1", "1");
    put_row("'f'", "hex(zeroblob(400))", "1", "1");
    put_row("''", "'shard'", "1", "1");
    put_row("x'7A'", "'shard'", "1", "1");
    list("", 10);
    EXPECT_EQ_I64(heard.outcome, KS_DONE);
    EXPECT_STR(heard.ids, "b e f n ");
    list("", 1);
    EXPECT_STR(heard.ids, "b ");
    EXPECT(heard.more);
    list("b", 1);
    EXPECT_STR(heard.ids, "e ");
    EXPECT_STR(heard.reason, "damaged row: its column shard cannot be");
    list("f", 1);
    EXPECT_STR(heard.ids, "n ");
    EXPECT(!heard.more);
    store->vtable->find(store, KS_VIEW("e"), answered, NULL);
    wait_for_answer();
    EXPECT_EQ_I64(heard.outcome, KS_UNKNOWN);
    EXPECT_CONTAINS(heard.detail.text, "the letter e is damaged: its column shard cannot be");
    store->vtable->find(store, KS_VIEW("absent"), answered, NULL);
    wait_for_answer();
    EXPECT_EQ_I64(heard.outcome, KS_DONE);
    EXPECT_EQ_I64(heard.count, 0);
    store->vtable->remove(store, KS_VIEW("e"), KS_VIEW(""), answered, NULL);
    wait_for_answer();
    EXPECT_EQ_I64(heard.outcome, KS_DONE);
    end();
}

TEST(numbers_that_make_no_sense_become_the_nearest_that_do)
{
    begin();
    put_row("'a'", "'shard'", "-9223372036854775808", "-1");
    list("", 10);
    EXPECT_STR(heard.ids, "a ");
    EXPECT_EQ_I64(heard.arrival_ms, 0);
    EXPECT_EQ_I64(heard.attempts, 0);
    EXPECT_EQ_I64(heard.cause, KS_CAUSE_ASKED);
    store->vtable->remove(store, KS_VIEW("a"), KS_VIEW(""), answered, NULL);
    wait_for_answer();
    put_row("'a'", "'shard'", "9223372036854775807", "4294967296");
    list("", 10);
    EXPECT_EQ_I64(heard.arrival_ms, INT64_C(253402300799999));
    EXPECT_EQ_I64(heard.attempts, INT32_MAX);
    end();
}

/* ---- Files that are moved or removed ---- */

static void remove_file(const char *end_of_name)
{
    char name[620];

    (void)snprintf(name, sizeof name, "%s%s", path, end_of_name);
    EXPECT(unlink(name) == 0);
}

/* What another process finds in the file that the path names. */
static int64_t count_letters(const char *where)
{
    sqlite3_stmt *statement = NULL;
    sqlite3 *db;
    int64_t count = -1;

    EXPECT_EQ_I64(sqlite3_open_v2(where, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    if (sqlite3_prepare_v2(db, "SELECT count(*) FROM dead_letter", -1, &statement, NULL) ==
            SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW)
        count = sqlite3_column_int64(statement, 0);
    (void)sqlite3_finalize(statement);
    (void)sqlite3_close(db);
    return count;
}

TEST(a_write_after_the_file_was_removed_is_in_a_new_one)
{
    struct ks_letter letters[2] = {letter("a"), letter("b")};

    begin();
    write_letters(&letters[0], 1);
    remove_file("");
    remove_file("-wal");
    remove_file("-shm");
    write_letters(&letters[1], 1);
    EXPECT_EQ_I64(heard.outcome, KS_DONE);
    EXPECT_EQ_I64(count_letters(path), 1);
    list("", 10);
    EXPECT_STR(heard.ids, "b ");
    end();
}

/* The log holds what is not in the file yet: a crash would lose it. */
TEST(a_write_after_the_log_alone_was_removed_is_found_by_another_process)
{
    struct ks_letter letters[2] = {letter("a"), letter("b")};
    const char *const ends[] = {"-wal", "-shm"};

    begin();
    for (size_t i = 0; i < 2; i++) {
        remove_file(ends[i]);
        write_letters(&letters[i], 1);
        EXPECT_EQ_I64(heard.outcome, KS_DONE);
        EXPECT_EQ_I64(count_letters(path), (int64_t)i + 1);
    }
    end();
}

TEST(a_moved_file_is_whole_where_it_is_now)
{
    struct ks_letter letters[2] = {letter("a"), letter("b")};
    char moved[620];

    begin();
    write_letters(&letters[0], 1);
    (void)snprintf(moved, sizeof moved, "%s.moved", path);
    EXPECT(rename(path, moved) == 0);
    write_letters(&letters[1], 1);
    EXPECT_EQ_I64(heard.outcome, KS_DONE);
    EXPECT_EQ_I64(count_letters(path), 1);
    EXPECT_EQ_I64(count_letters(moved), 1);
    end();
}

static int removals; /* Still to be made, one in each commit. */

static int remove_in_a_commit(void *arg)
{
    (void)arg;
    if (removals > 0) {
        removals--;
        remove_file("");
    }
    return 0;
}

static int add_removal(sqlite3 *db, char **error, const struct sqlite3_api_routines *routines)
{
    (void)error;
    (void)routines;
    (void)sqlite3_commit_hook(db, remove_in_a_commit, NULL);
    return SQLITE_OK;
}

/* The look before the job has seen the file. */
TEST(a_write_whose_file_is_removed_in_its_commit_is_made_again)
{
    struct ks_letter one = letter("a");

    EXPECT_EQ_I64(sqlite3_auto_extension((void (*)(void))add_removal), SQLITE_OK);
    begin();
    removals = 1;
    write_letters(&one, 1);
    EXPECT_EQ_I64(removals, 0);
    EXPECT_EQ_I64(heard.outcome, KS_DONE);
    EXPECT_EQ_I64(count_letters(path), 1);
    removals = 100;
    write_letters(&one, 1);
    EXPECT(heard.outcome != KS_DONE);
    EXPECT_CONTAINS(heard.detail.text, "letters.db: ");
    removals = 0;
    write_letters(&one, 1);
    EXPECT_EQ_I64(heard.outcome, KS_DONE);
    sqlite3_reset_auto_extension();
    end();
}

TEST(a_removal_in_a_removed_file_is_none)
{
    struct ks_letter one = letter("a");

    begin();
    write_letters(&one, 1);
    remove_file("");
    store->vtable->remove(store, KS_VIEW("a"), KS_VIEW(""), answered, NULL);
    wait_for_answer();
    EXPECT_EQ_I64(heard.outcome, KS_REFUSED);
    end();
}

TEST(without_a_directory_for_it_a_write_is_refused_until_there_is_one)
{
    struct ks_letter one = letter("a");
    char directory[600];
    char away[620];

    EXPECT_OK(ks_loop_new(&loop));
    (void)snprintf(directory, sizeof directory, "%s/state", ks_test_dir());
    (void)snprintf(away, sizeof away, "%s.away", directory);
    (void)snprintf(path, sizeof path, "%.500s/letters.db", directory);
    EXPECT(mkdir(directory, 0700) == 0);
    open_store("app");
    EXPECT(rename(directory, away) == 0);
    write_letters(&one, 1);
    EXPECT_EQ_I64(heard.outcome, KS_REFUSED);
    EXPECT_CONTAINS(heard.detail.text, path);
    EXPECT(rename(away, directory) == 0);
    write_letters(&one, 1);
    EXPECT_EQ_I64(heard.outcome, KS_DONE);
    EXPECT_EQ_I64(count_letters(path), 1);
    end();
}

/* ---- Keys ---- */

/* An application that gets a second subscription keeps its letters, and one that loses it, too. */
TEST(letters_under_the_other_key_of_the_subscription_are_its_own)
{
    const struct ks_letters_key alone = {"app", "orders", "s"};
    const struct ks_letters_key beside = {"orders", "app", "s"};
    const struct ks_letters_key another = {"clicks", "app", "another"};
    struct ks_letter letters[2] = {letter("a"), letter("b")};
    struct ks_detail detail;

    begin();
    write_letters(&letters[0], 1);
    store->vtable->close(store);

    EXPECT_OK(ks_sqlite_letters_open(loop, path, &another, &store, &detail));
    list("", 10);
    EXPECT_EQ_I64(heard.count, 0);
    store->vtable->close(store);

    EXPECT_OK(ks_sqlite_letters_open(loop, path, &beside, &store, &detail));
    write_letters(&letters[1], 1);
    list("", 10);
    EXPECT_STR(heard.ids, "a b ");
    list("", 1);
    EXPECT_STR(heard.ids, "a ");
    EXPECT(heard.more);
    /* Written again it is still one letter. */
    write_letters(&letters[0], 1);
    EXPECT_EQ_I64(count_letters(path), 2);
    store->vtable->close(store);

    EXPECT_OK(ks_sqlite_letters_open(loop, path, &alone, &store, &detail));
    list("", 10);
    EXPECT_STR(heard.ids, "a b ");
    store->vtable->remove(store, KS_VIEW("b"), KS_VIEW(""), answered, NULL);
    wait_for_answer();
    EXPECT_EQ_I64(heard.outcome, KS_DONE);
    list("", 10);
    EXPECT_STR(heard.ids, "a ");
    end();
}
