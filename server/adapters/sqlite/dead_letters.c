/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/sqlite/dead_letters.h"

#include "adapters/letter.h"
#include "adapters/sqlite/file.h"
#include "adapters/sqlite/letter_row.h"
#include "base/budget.h"
#include "base/log.h"

#include <assert.h>
#include <sqlite3.h>
#include <stdio.h>

enum {
    BUSY_MS = 2000,            /* How long another process may hold the file. */
    WORK_BYTES_MAX = 64 << 20, /* A write or a page: a few MiB, and one record of any size. */
    CELL_BYTES_MAX = 32 << 20, /* Beyond what a record may be a cell is not read at all. */
    TRIES = 2                  /* Of a job: the second one in the file opened anew. */
};

/* The file. Outlives the store while a job is away. What is not said to be fixed belongs to the running job. */
struct file {
    struct ks_job_queue *queue; /* Fixed. */
    sqlite3 *db;                /* NULL: it could not be opened anew. */
    struct ks_sqlite_place place;
    bool sync_failed;  /* Of ks_sqlite_sync. */
    char *path;        /* Fixed, as what follows but `users`. */
    char *application; /* Under which letters are written. */
    char *also;        /* Under which they may stand as well; NULL: none. */
    char *also_stream; /* Those of this stream, then. */
    uint32_t users;    /* The loop's: the store, and its jobs. */
};

struct sqlite_letters {
    struct ks_dead_letters port;
    struct ks_loop *loop;
    struct file *file;
    struct ks_link jobs; /* Under way. */
    bool damaged;        /* The last list met damaged rows, and that was logged. */
};

enum task { TASK_WRITE, TASK_LIST, TASK_FIND, TASK_AMEND, TASK_REMOVE };

struct work {
    struct ks_job job;
    struct ks_link link;
    struct sqlite_letters *store; /* NULL: closed; nobody is told. */
    struct file *file;
    enum task task;
    struct ks_letter_list list;
    char id[KS_LETTER_ID_MAX + 1];
    uint32_t damaged;               /* Rows that a list passed over. */
    struct ks_detail damage;        /* Of the first of them. */
    bool reopened;                  /* The file had been moved or removed. */
    char last_id[KS_LETTER_ID_MAX]; /* Of the letter read last. */
    struct ks_letters_answer answer;
    ks_letters_answered *answered;
    void *arg;
};

/* ---- On the thread of the queue. ---- */

static void fail(struct work *work, enum ks_outcome outcome)
{
    sqlite3 *const db = work->file->db;
    char holder[KS_SQLITE_HOLDER_SIZE] = "";

    if ((sqlite3_errcode(db) & 0xFF) == SQLITE_BUSY)
        ks_sqlite_holder(db, holder);
    work->answer.outcome = outcome;
    work->answer.count = 0;
    ks_detail_set(&work->answer.detail, "%s: %s%s", work->file->path, sqlite3_errmsg(db), holder);
}

static void bind_view(sqlite3_stmt *statement, int place, ks_view view, bool text)
{
    static const char nothing[1] = "";
    const void *data = view.size == 0 ? (const void *)nothing : view.data;

    if (text)
        (void)sqlite3_bind_text(statement, place, data, (int)view.size, SQLITE_STATIC);
    else
        (void)sqlite3_bind_blob(statement, place, data, (int)view.size, SQLITE_STATIC);
}

static void bind_letter(sqlite3_stmt *statement, const char *application,
                        const struct ks_letter *letter)
{
    (void)sqlite3_bind_text(statement, 1, application, -1, SQLITE_STATIC);
    bind_view(statement, 2, letter->id, true);
    bind_view(statement, 3, letter->stream, true);
    bind_view(statement, 4, letter->shard_id, true);
    bind_view(statement, 5, letter->sequence, true);
    (void)sqlite3_bind_int64(statement, 6, letter->sub_sequence);
    bind_view(statement, 7, letter->partition_key, false);
    bind_view(statement, 8, letter->data, false);
    bind_view(statement, 9, letter->reason, false);
    (void)sqlite3_bind_int64(statement, 10, letter->arrival_ms);
    (void)sqlite3_bind_int64(statement, 11, letter->died_ms);
    (void)sqlite3_bind_int64(statement, 12, letter->attempts);
    (void)sqlite3_bind_int(statement, 13, (int)letter->cause);
}

static int run_sql(sqlite3 *db, const char *sql)
{
    return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

/* A letter of this id under the other key is the same one. */
static bool remove_also(struct work *work, ks_view id)
{
    const struct file *const file = work->file;
    sqlite3_stmt *statement = NULL;
    bool removed;

    if (file->also == NULL)
        return true;
    removed = sqlite3_prepare_v2(file->db,
                                 "DELETE FROM dead_letter WHERE application = ?1 AND id = ?2 AND "
                                 "stream = ?3",
                                 -1, &statement, NULL) == SQLITE_OK;
    if (removed) {
        (void)sqlite3_bind_text(statement, 1, file->also, -1, SQLITE_STATIC);
        bind_view(statement, 2, id, true);
        (void)sqlite3_bind_text(statement, 3, file->also_stream, -1, SQLITE_STATIC);
        removed = sqlite3_step(statement) == SQLITE_DONE;
    }
    return sqlite3_finalize(statement) == SQLITE_OK && removed;
}

static bool insert_all(struct work *work, sqlite3_stmt *statement)
{
    for (uint32_t i = 0; i < work->list.count; i++) {
        bind_letter(statement, work->file->application, &work->list.letters[i]);
        if (sqlite3_step(statement) != SQLITE_DONE || sqlite3_reset(statement) != SQLITE_OK ||
            !remove_also(work, work->list.letters[i].id))
            return false;
    }
    return true;
}

static void write_all(struct work *work)
{
    sqlite3 *db = work->file->db;
    sqlite3_stmt *statement = NULL;
    bool written = false;

    if (run_sql(db, "BEGIN IMMEDIATE") != SQLITE_OK) {
        fail(work, KS_REFUSED);
        return;
    }
    if (sqlite3_prepare_v2(db,
                           "INSERT OR REPLACE INTO dead_letter VALUES "
                           "(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
                           -1, &statement, NULL) == SQLITE_OK)
        written = insert_all(work, statement);
    if (!written)
        fail(work, KS_REFUSED);
    (void)sqlite3_finalize(statement);
    /* A COMMIT that fails may have reached the disk all the same. */
    if (written && run_sql(db, "COMMIT") != SQLITE_OK)
        fail(work, KS_UNKNOWN);
    if (sqlite3_get_autocommit(db) == 0)
        (void)run_sql(db, "ROLLBACK");
}

/* Any bytes may be there: a detail shows none that could command a terminal. */
static void note_damage(struct work *work, ks_view id, const char *damage)
{
    if (work->damaged++ == 0)
        ks_detail_set(&work->damage, "%s: the letter %.*s is damaged: its column %s cannot be",
                      work->file->path, id.size < 80 ? (int)id.size : 80, (const char *)id.data,
                      damage);
}

/* The file may be somebody else's work, its order too: a list that does not go on would never end. */
static bool is_next(const struct work *work, ks_view id)
{
    const ks_view before = work->answer.count == 0 ? ks_view_text(work->id)
                                                   : work->list.letters[work->answer.count - 1].id;
    const size_t size = id.size < before.size ? id.size : before.size;
    int order;

    if (work->task == TASK_FIND)
        return ks_view_equal(id, before);
    order = size == 0 ? 0 : memcmp(id.data, before.data, size);
    return order > 0 || (order == 0 && id.size > before.size);
}

static size_t bytes_of(const struct ks_letter *letter)
{
    return letter->data.size + letter->partition_key.size + letter->reason.size;
}

/* Takes a row into the answer, or passes it over. False: the answer is full, or has failed. */
static bool take_row(struct work *work, sqlite3_stmt *statement)
{
    struct ks_letters_answer *const answer = &work->answer;
    /* Others have an order of their own, and no text finds them. */
    const bool named = sqlite3_column_type(statement, 0) == SQLITE_TEXT;
    struct ks_letter letter;
    const char *damage;
    char mark[64];
    ks_view id;

    ks_letter_row_read(statement, &letter);
    id = letter.id;
    if (!named)
        letter.id = KS_VIEW("");
    damage = ks_letter_clean(&letter);
    if (damage != NULL) {
        note_damage(work, id, damage);
        if (work->task == TASK_FIND || letter.id.size == 0)
            return true;
        (void)snprintf(mark, sizeof mark, "damaged row: its column %s cannot be", damage);
        letter.reason = ks_view_text(mark);
    }
    if (answer->count == work->list.most ||
        (answer->count > 0 && work->list.bytes.size + bytes_of(&letter) > KS_LETTERS_BYTES_MAX)) {
        answer->more = true;
        return false;
    }
    if (!is_next(work, letter.id)) {
        note_damage(work, id, "id");
        return true;
    }
    if (!ks_ok(ks_letter_list_add(&work->list, &letter))) {
        fail(work, KS_UNKNOWN);
        ks_detail_set(&answer->detail, "a letter is too large, or memory is out");
        return false;
    }
    answer->count++;
    /* The next id is compared with it; the row's bytes are gone then. */
    memcpy(work->last_id, letter.id.data, letter.id.size);
    work->list.letters[answer->count - 1].id = ks_view_of(work->last_id, letter.id.size);
    return true;
}

static void read_rows(struct work *work, sqlite3_stmt *statement)
{
    int step;

    while ((step = sqlite3_step(statement)) == SQLITE_ROW)
        if (!take_row(work, statement))
            return;
    if (step != SQLITE_DONE) {
        fail(work, KS_UNKNOWN);
    } else if (work->task == TASK_FIND && work->answer.count == 0 && work->damaged > 0) {
        work->answer.outcome = KS_UNKNOWN;
        ks_detail_set(&work->answer.detail, "%s; repair the row, or discard the letter",
                      work->damage.text);
    }
}

/* Rows of this subscription: ?1 is its key, ?3 another that it had, ?4 its stream there. */
#define OURS "(application = ?1 OR (application = ?3 AND stream = ?4))"
#define SELECT "SELECT " KS_LETTER_COLUMNS " FROM dead_letter WHERE " OURS " "

static void bind_ours(const struct work *work, sqlite3_stmt *statement)
{
    const struct file *const file = work->file;

    (void)sqlite3_bind_text(statement, 1, file->application, -1, SQLITE_STATIC);
    (void)sqlite3_bind_text(statement, 2, work->id, -1, SQLITE_STATIC);
    (void)sqlite3_bind_text(statement, 3, file->also, -1, SQLITE_STATIC);
    (void)sqlite3_bind_text(statement, 4, file->also_stream, -1, SQLITE_STATIC);
}

static void read_some(struct work *work)
{
    const char *sql =
        work->task == TASK_FIND ? SELECT "AND id = ?2" : SELECT "AND id > ?2 ORDER BY id";
    sqlite3_stmt *statement = NULL;

    if (sqlite3_prepare_v2(work->file->db, sql, -1, &statement, NULL) != SQLITE_OK) {
        fail(work, KS_UNKNOWN);
        return;
    }
    bind_ours(work, statement);
    read_rows(work, statement);
    (void)sqlite3_finalize(statement);
    ks_letter_list_settle(&work->list);
}

/* Removes a letter, or says that it was given up again. */
static void change_one(struct work *work)
{
    const char *sql = work->task == TASK_REMOVE
                          ? "DELETE FROM dead_letter WHERE " OURS " AND id = ?2"
                          : "UPDATE dead_letter SET reason = ?5, died_ms = ?6, attempts = ?7, "
                            "cause = ?8 WHERE " OURS " AND id = ?2";
    sqlite3_stmt *statement = NULL;

    if (sqlite3_prepare_v2(work->file->db, sql, -1, &statement, NULL) != SQLITE_OK) {
        fail(work, KS_UNKNOWN);
        return;
    }
    bind_ours(work, statement);
    if (work->task == TASK_AMEND) {
        bind_view(statement, 5, work->list.letters[0].reason, false);
        (void)sqlite3_bind_int64(statement, 6, work->list.letters[0].died_ms);
        (void)sqlite3_bind_int64(statement, 7, work->list.letters[0].attempts);
        (void)sqlite3_bind_int(statement, 8, (int)work->list.letters[0].cause);
    }
    if (sqlite3_step(statement) != SQLITE_DONE)
        fail(work, KS_UNKNOWN);
    else if (sqlite3_changes(work->file->db) == 0)
        work->answer.outcome = KS_REFUSED;
    (void)sqlite3_finalize(statement);
}

static void perform(struct work *work)
{
    switch (work->task) {
    case TASK_WRITE: write_all(work); return;
    case TASK_LIST:
    case TASK_FIND: read_some(work); return;
    case TASK_AMEND:
    case TASK_REMOVE: change_one(work); return;
    }
}

static ks_err open_file(struct file *file, struct ks_detail *ret_detail);

/* Opens what the path names now, if that is not what is open. False: it cannot be. */
static bool open_anew(struct work *work)
{
    struct file *const file = work->file;

    if (file->db != NULL && ks_sqlite_place_holds(file->db, file->path, &file->place))
        return true;
    if (ks_ok(open_file(file, &work->answer.detail))) {
        work->reopened = true;
        return true;
    }
    work->answer.outcome = work->task == TASK_WRITE ? KS_REFUSED : KS_UNKNOWN;
    work->answer.count = 0;
    return false;
}

/* As it was before the first try. */
static void begin_try(struct work *work)
{
    work->answer.outcome = KS_DONE;
    work->answer.more = false;
    work->damaged = 0;
    if (work->task == TASK_LIST || work->task == TASK_FIND)
        ks_letter_list_clear(&work->list);
    work->answer.count = work->task == TASK_WRITE ? work->list.count : 0;
}

static void make_durable(struct work *work)
{
    int code;

    if (work->answer.outcome != KS_DONE || work->task == TASK_LIST || work->task == TASK_FIND)
        return;
    code = ks_sqlite_sync(work->file->db, &work->file->sync_failed);
    if (code == SQLITE_OK)
        return;
    work->answer.outcome = KS_UNKNOWN;
    work->answer.count = 0;
    ks_detail_set(&work->answer.detail, "%s: not on its disk: %s", work->file->path,
                  sqlite3_errstr(code));
}

/* What was written to a file that was moved or removed is written again to the one that the path names: its place is
 * judged before, and once more when all is on the disk. */
static void run(struct ks_job *job)
{
    struct work *work = KS_LIST_ENTRY(job, struct work, job);
    struct file *const file = work->file;

    for (int attempt = 0; attempt < TRIES; attempt++) {
        if (!open_anew(work))
            return;
        begin_try(work);
        perform(work);
        make_durable(work);
        if (work->answer.outcome == KS_UNKNOWN ||
            ks_sqlite_place_holds(file->db, file->path, &file->place))
            return;
    }
    work->answer.outcome = KS_UNKNOWN;
    work->answer.count = 0;
    ks_detail_set(&work->answer.detail,
                  "%s: the file is moved or removed again and again; leave it where it is",
                  file->path);
}

/* ---- On the loop. ---- */

static void let_go(struct file *file)
{
    if (--file->users > 0)
        return;
    ks_loop_queue_close(file->queue);
    ks_sqlite_close(file->db);
    ks_free(file->path);
    ks_free(file->application);
    ks_free(file->also);
    ks_free(file->also_stream);
    ks_free(file);
}

static void work_free(struct work *work)
{
    ks_list_remove(&work->link);
    let_go(work->file);
    ks_letter_list_free(&work->list);
    ks_free(work);
}

/* Damage that lasts is logged once, until a list from the first letter to the last meets none. */
static void log_work(struct sqlite_letters *store, const struct work *work)
{
    const bool whole = work->task == TASK_LIST && work->id[0] == '\0' && !work->answer.more;

    if (work->reopened)
        ks_warn("dead letters %s: the file was moved or removed while it was open; opened anew, "
                "letters from before are where that file is now",
                work->file->path);
    if (work->answer.outcome != KS_DONE || work->task != TASK_LIST)
        return;
    if (work->damaged > 0 && !store->damaged)
        ks_warn(
            "dead letters %s (%u such rows in this list); it is not delivered again, repair the "
            "row or discard it",
            work->damage.text, work->damaged);
    store->damaged = work->damaged > 0 || (store->damaged && !whole);
}

static void done(struct ks_job *job)
{
    struct work *work = KS_LIST_ENTRY(job, struct work, job);

    if (work->store != NULL)
        log_work(work->store, work);
    work->answer.letters = work->list.letters;
    if (work->store != NULL)
        work->answered(work->arg, &work->answer);
    work_free(work);
}

static struct sqlite_letters *of_port(struct ks_dead_letters *port)
{
    return KS_LIST_ENTRY(port, struct sqlite_letters, port);
}

/* A task with room for so many letters. NULL: no memory. */
static struct work *begin(struct ks_dead_letters *port, enum task task, uint32_t letters,
                          ks_letters_answered *answered, void *arg)
{
    struct sqlite_letters *store = of_port(port);
    struct work *work = ks_alloc(sizeof *work);

    if (work == NULL)
        return NULL;
    if (!ks_ok(ks_letter_list_init(&work->list, letters, WORK_BYTES_MAX))) {
        ks_free(work);
        return NULL;
    }
    work->job = (struct ks_job){.run = run, .done = done};
    work->store = store;
    work->file = store->file;
    work->file->users++;
    work->task = task;
    work->answer.outcome = KS_DONE;
    work->answered = answered;
    work->arg = arg;
    ks_link_init(&work->link);
    ks_list_append(&store->jobs, &work->link);
    return work;
}

/* It is not even tried; told in a later turn, like everything. */
static void do_nothing(struct ks_job *job)
{
    (void)job;
}

static void submit(struct work *work, bool able, enum ks_outcome outcome)
{
    if (!able) {
        work->job.run = do_nothing;
        work->answer.outcome = outcome;
        work->answer.count = 0;
        ks_detail_set(&work->answer.detail, "out of memory");
    }
    ks_loop_submit_to(work->store->loop, work->file->queue, &work->job);
}

static void write_letters(struct ks_dead_letters *port, const struct ks_letter *letters,
                          uint32_t count, ks_letters_answered *answered, void *arg)
{
    struct work *work = begin(port, TASK_WRITE, count, answered, arg);
    bool kept = true;

    assert(count > 0);
    if (work == NULL) {
        ks_letters_no_memory(KS_REFUSED, answered, arg);
        return;
    }
    for (uint32_t i = 0; i < count && kept; i++)
        kept = ks_ok(ks_letter_list_add(&work->list, &letters[i]));
    if (kept)
        ks_letter_list_settle(&work->list);
    submit(work, kept, KS_REFUSED);
}

/* What is longer names nothing; it is cut to what names nothing, too. */
static void name(struct work *work, ks_view id)
{
    if (id.size > KS_LETTER_ID_MAX)
        id = KS_VIEW("~");
    (void)snprintf(work->id, sizeof work->id, "%.*s", (int)id.size, (const char *)id.data);
}

static void amend(struct ks_dead_letters *port, const struct ks_letter *letter,
                  ks_letters_answered *answered, void *arg)
{
    const struct ks_letter changed = {.reason = letter->reason,
                                      .died_ms = letter->died_ms,
                                      .attempts = letter->attempts,
                                      .cause = letter->cause};
    struct work *work = begin(port, TASK_AMEND, 1, answered, arg);
    bool kept;

    if (work == NULL) {
        ks_letters_no_memory(KS_UNKNOWN, answered, arg);
        return;
    }
    name(work, letter->id);
    kept = ks_ok(ks_letter_list_add(&work->list, &changed));
    if (kept)
        ks_letter_list_settle(&work->list);
    submit(work, kept, KS_UNKNOWN);
}

static void ask_for(struct ks_dead_letters *port, enum task task, ks_view id, uint32_t most,
                    ks_letters_answered *answered, void *arg)
{
    struct work *work = begin(port, task, most, answered, arg);

    if (work == NULL) {
        ks_letters_no_memory(KS_UNKNOWN, answered, arg);
        return;
    }
    name(work, id);
    submit(work, true, KS_DONE);
}

static void list(struct ks_dead_letters *port, ks_view after, uint32_t most,
                 ks_letters_answered *answered, void *arg)
{
    assert(most > 0 && most <= KS_LETTERS_PAGE_MAX);
    ask_for(port, TASK_LIST, after, most, answered, arg);
}

static void find(struct ks_dead_letters *port, ks_view id, ks_letters_answered *answered, void *arg)
{
    ask_for(port, TASK_FIND, id, 1, answered, arg);
}

/* Claims are for stores that other processes have, too. */
static void remove_letter(struct ks_dead_letters *port, ks_view id, ks_view claim,
                          ks_letters_answered *answered, void *arg)
{
    (void)claim;
    ask_for(port, TASK_REMOVE, id, 0, answered, arg);
}

static void close_letters(struct ks_dead_letters *port)
{
    struct sqlite_letters *store = of_port(port);

    while (!ks_list_empty(&store->jobs)) {
        struct work *work = KS_LIST_ENTRY(store->jobs.next, struct work, link);

        ks_list_remove(&work->link);
        work->store = NULL;
    }
    let_go(store->file);
    ks_free(store);
}

static const struct ks_dead_letters_vtable vtable = {
    .write = write_letters,
    .list = list,
    .find = find,
    .amend = amend,
    .remove = remove_letter,
    .close = close_letters,
};

/* ---- Opening. ---- */

static bool read_number(sqlite3 *db, const char *sql, int64_t *ret_number)
{
    sqlite3_stmt *statement = NULL;
    bool found = sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK &&
                 sqlite3_step(statement) == SQLITE_ROW;

    if (found)
        *ret_number = sqlite3_column_int64(statement, 0);
    (void)sqlite3_finalize(statement);
    return found;
}

static ks_err fail_open(struct file *file, struct ks_detail *ret_detail)
{
    if (file->db == NULL)
        ks_detail_set(ret_detail, "%s: out of memory", file->path);
    else
        ks_detail_set(ret_detail, "%s: %s%s", file->path, sqlite3_errmsg(file->db),
                      ks_sqlite_open_advice(file->db));
    return KS_FAIL(SYSTEM);
}

/* Within a transaction, for another process may be making the table. An empty file becomes ours. */
static ks_err check(struct file *file, struct ks_detail *ret_detail)
{
    int64_t id = 0;
    int64_t version = 0;
    int64_t tables = 0;

    if (!read_number(file->db, "PRAGMA application_id", &id) ||
        !read_number(file->db, "PRAGMA user_version", &version) ||
        !read_number(file->db, "SELECT count(*) FROM sqlite_schema", &tables))
        return fail_open(file, ret_detail);
    if (tables == 0 || (id == KS_LETTERS_APPLICATION_ID && version == KS_LETTERS_VERSION))
        return KS_OK;
    ks_detail_set(ret_detail, "%s: holds no dead letters of ours; give another file", file->path);
    return KS_FAIL(FOREIGN);
}

/* Checks the file before the first write into it. */
static ks_err check_at_once(struct file *file, struct ks_detail *ret_detail)
{
    if (run_sql(file->db, "BEGIN") != SQLITE_OK)
        return fail_open(file, ret_detail);
    KS_TRY(check(file, ret_detail));
    return run_sql(file->db, "COMMIT") == SQLITE_OK ? KS_OK : fail_open(file, ret_detail);
}

static ks_err make_table(struct file *file, struct ks_detail *ret_detail)
{
    static const char sql[] =
        "PRAGMA application_id = 0x6B73646C; PRAGMA user_version = 1;"
        "CREATE TABLE IF NOT EXISTS dead_letter (application TEXT NOT NULL, id TEXT NOT NULL, "
        "stream TEXT NOT NULL, shard TEXT NOT NULL, sequence TEXT NOT NULL, sub INTEGER NOT NULL, "
        "key BLOB NOT NULL, data BLOB NOT NULL, reason BLOB NOT NULL, arrival_ms INTEGER NOT NULL, "
        "died_ms INTEGER NOT NULL, attempts INTEGER NOT NULL, cause INTEGER NOT NULL, "
        "PRIMARY KEY (application, id)); COMMIT";

    if (run_sql(file->db, "BEGIN IMMEDIATE") != SQLITE_OK)
        return fail_open(file, ret_detail);
    KS_TRY(check(file, ret_detail));
    return run_sql(file->db, sql) == SQLITE_OK ? KS_OK : fail_open(file, ret_detail);
}

static ks_err prepare_file(struct file *file, struct ks_detail *ret_detail)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;

    KS_TRY(ks_sqlite_make_private(file->path, ret_detail));
    if (sqlite3_open_v2(file->path, &file->db, flags, NULL) != SQLITE_OK ||
        ks_sqlite_harden(file->db) != SQLITE_OK)
        return fail_open(file, ret_detail);
    (void)sqlite3_busy_timeout(file->db, BUSY_MS);
    (void)sqlite3_limit(file->db, SQLITE_LIMIT_LENGTH, CELL_BYTES_MAX);
    KS_TRY(check_at_once(file, ret_detail));
    if (ks_sqlite_use_wal(file->db, KS_SQLITE_SYNCED_COMMITS,
                          ks_instant_add(ks_instant_now(), ks_span_ms(BUSY_MS))) != SQLITE_OK)
        return fail_open(file, ret_detail);
    KS_TRY(make_table(file, ret_detail));
    return ks_sqlite_place_note(file->db, file->path, &file->place, ret_detail);
}

/* Instead of the one that is open. If it fails, none is. */
static ks_err open_file(struct file *file, struct ks_detail *ret_detail)
{
    ks_err err;

    ks_sqlite_close(file->db);
    file->db = NULL;
    file->sync_failed = false;
    err = prepare_file(file, ret_detail);
    if (!ks_ok(err)) {
        ks_sqlite_close(file->db);
        file->db = NULL;
    }
    return err;
}

static ks_err fill_file(struct file *file, struct ks_loop *loop, const char *path,
                        const struct ks_letters_key *key, struct ks_detail *ret_detail)
{
    const bool also = key->also != NULL && strcmp(key->also, key->application) != 0;

    *file = (struct file){.path = ks_strdup(path),
                          .application = ks_strdup(key->application),
                          .also = also ? ks_strdup(key->also) : NULL,
                          .also_stream = also ? ks_strdup(key->also_stream) : NULL,
                          .users = 1};
    if (file->path == NULL || file->application == NULL ||
        (also && (file->also == NULL || file->also_stream == NULL)))
        return KS_FAIL(NO_MEMORY);
    KS_TRY(ks_loop_queue_new(loop, &file->queue));
    return open_file(file, ret_detail);
}

ks_err ks_sqlite_letters_open(struct ks_loop *loop, const char *path,
                              const struct ks_letters_key *key, struct ks_dead_letters **ret,
                              struct ks_detail *ret_detail)
{
    struct sqlite_letters *store = ks_alloc(sizeof *store);
    struct file *file = ks_alloc(sizeof *file);
    ks_err err = KS_FAIL(NO_MEMORY);

    if (store != NULL && file != NULL)
        err = fill_file(file, loop, path, key, ret_detail);
    if (!ks_ok(err)) {
        if (store != NULL && file != NULL)
            let_go(file);
        else
            ks_free(file);
        ks_free(store);
        return err;
    }
    store->port.vtable = &vtable;
    store->loop = loop;
    store->file = file;
    ks_link_init(&store->jobs);
    *ret = &store->port;
    return KS_OK;
}
