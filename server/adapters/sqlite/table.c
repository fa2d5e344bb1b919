/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/sqlite/table.h"

#include "adapters/dialects/native.h"
#include "adapters/sqlite/file.h"
#include "adapters/sqlite/sql.h"
#include "base/budget.h"
#include "base/loop.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

enum {
    STATEMENTS_MAX = 48, /* Shapes of statements: one or two for each operation. */
    BUSY_WAIT_US = 200,  /* Between two looks at a lock. */
    EARLY_MS = 5,        /* Before its deadline a request gives up, so that its asker hears why. */
    CELL_BYTES_MAX = 4 << 20 /* Beyond ten times what a row may be it is not read at all. */
};

struct ks_sqlite_table {
    sqlite3 *db;
    char *path;
    char *application;
    struct ks_sqlite_place place;
    ks_instant deadline; /* Until when the busy handler waits. */
    bool unsynced;       /* A write was committed since the last sync. */
    bool sync_failed;    /* Of ks_sqlite_sync. */
    char holder
        [KS_SQLITE_HOLDER_SIZE]; /* Who kept the file locked; "": nobody did since it was asked for. */
    struct ks_sql sql;           /* Of the request. */
    struct ks_sql look;          /* At the row that refuses a write. */
    struct ks_item_keys look_keys; /* The text of `look` is of them. */
    sqlite3_stmt *statements[STATEMENTS_MAX];
    uint32_t next; /* The one that makes room when all are taken. */
};

/* --- Errors --- */

/* Result codes of SQLite (sqlite.org/rescode.html), what they are to us, and what to do. */
static const struct {
    int code; /* Primary. */
    uint16_t err;
    const char *advice;
} failures[] = {
    {SQLITE_BUSY, KS_ERR_BUSY, "other processes keep it locked"},
    {SQLITE_LOCKED, KS_ERR_BUSY, "it is locked"},
    {SQLITE_NOMEM, KS_ERR_NO_MEMORY, "out of memory"},
    {SQLITE_READONLY, KS_ERR_DENIED, "make the file and its directory writable for this user"},
    {SQLITE_PERM, KS_ERR_DENIED, "make the file and its directory writable for this user"},
    {SQLITE_AUTH, KS_ERR_DENIED, "access was denied"},
    {SQLITE_CANTOPEN, KS_ERR_SYSTEM, KS_SQLITE_CANTOPEN_ADVICE},
    {SQLITE_FULL, KS_ERR_DISK, "make room on its disk"},
    {SQLITE_IOERR, KS_ERR_DISK, "look at its disk"},
    {SQLITE_CORRUPT, KS_ERR_CORRUPT, "restore it, or move it away to begin anew"},
    {SQLITE_NOTADB, KS_ERR_FOREIGN, "give another file"},
    {SQLITE_TOOBIG, KS_ERR_CORRUPT, "a row is far too big; repair it, or delete it by hand"},
    {SQLITE_PROTOCOL, KS_ERR_BUSY, "its locks do not work; it must lie on a local disk"},
    {SQLITE_ERROR, KS_ERR_MALFORMED, "a row or the table is not of our making; repair it by hand"},
};

static ks_err fail(struct ks_sqlite_table *table, int code, struct ks_detail *ret_detail)
{
    const int saved = sqlite3_system_errno(table->db);
    const char *const message = sqlite3_errmsg(table->db);
    const char *holder = "";

    /* SQLITE_IOERR of a full disk or quota is told by the system alone. */
    if ((code & 0xFF) == SQLITE_IOERR && (saved == ENOSPC || saved == EDQUOT || saved == EFBIG))
        code = SQLITE_FULL;
    if ((code & 0xFF) == SQLITE_BUSY) {
        ks_sqlite_holder(table->db, table->holder);
        if (table->holder[0] == '\0')
            (void)snprintf(table->holder, sizeof table->holder, ", its holder is not known");
        holder = table->holder;
    }
    for (size_t at = 0; at < sizeof(failures) / sizeof(failures[0]); at++) {
        if (failures[at].code != (code & 0xFF))
            continue;
        ks_detail_set(ret_detail, "%s: %s%s: %s", table->path, message, holder,
                      failures[at].advice);
        return (ks_err){failures[at].err};
    }
    ks_detail_set(ret_detail, "%s: %s", table->path, message);
    return KS_FAIL(SYSTEM);
}

/* Waits a moment for whoever holds the lock; gives up at the deadline. */
static int busy(void *arg, int times)
{
    const struct ks_sqlite_table *const table = arg;
    const struct timespec wait = {.tv_nsec = BUSY_WAIT_US * 1000};

    (void)times;
    if (ks_instant_reached(ks_instant_now(), table->deadline))
        return 0;
    (void)ppoll(NULL, 0, &wait, NULL);
    return 1;
}

/* --- SQL functions --- */

static ks_view text_of(sqlite3_value *value)
{
    const uint8_t *const text = sqlite3_value_text(value);

    return ks_view_of(text, text == NULL ? 0 : (size_t)sqlite3_value_bytes(value));
}

static bool is_text_or_null(sqlite3_value *value)
{
    return sqlite3_value_type(value) == SQLITE_TEXT || sqlite3_value_type(value) == SQLITE_NULL;
}

/* set_with(set, members), set_without(set, members): NULL is the empty set. */
static void change_set(sqlite3_context *context, sqlite3_value **arguments,
                       ks_err (*change)(ks_view set, ks_view members, struct ks_bytes *ret_set))
{
    struct ks_bytes set;

    if (!is_text_or_null(arguments[0]) || !is_text_or_null(arguments[1])) {
        sqlite3_result_error(context, "not a set", -1);
        return;
    }
    ks_bytes_init(&set, KS_ITEM_BYTES_MAX);
    if (!ks_ok(change(text_of(arguments[0]), text_of(arguments[1]), &set)))
        sqlite3_result_error(context, "a set is full or malformed", -1);
    else if (set.size == 0)
        sqlite3_result_null(context);
    else
        sqlite3_result_text(context, (const char *)set.data, (int)set.size, SQLITE_TRANSIENT);
    ks_bytes_free(&set);
}

static void set_with(sqlite3_context *context, int count, sqlite3_value **arguments)
{
    (void)count;
    change_set(context, arguments, ks_set_with);
}

static void set_without(sqlite3_context *context, int count, sqlite3_value **arguments)
{
    (void)count;
    change_set(context, arguments, ks_set_without);
}

/* number_add(number, more): NULL is 0. */
static void number_add(sqlite3_context *context, int count, sqlite3_value **arguments)
{
    const int type = sqlite3_value_type(arguments[0]);
    int64_t sum;

    (void)count;
    if ((type != SQLITE_INTEGER && type != SQLITE_NULL) ||
        __builtin_add_overflow(sqlite3_value_int64(arguments[0]), sqlite3_value_int64(arguments[1]),
                               &sum)) {
        sqlite3_result_error(context, "not a number", -1);
        return;
    }
    sqlite3_result_int64(context, sum);
}

static int add_functions(sqlite3 *db)
{
    static const struct {
        const char *name;
        void (*call)(sqlite3_context *context, int count, sqlite3_value **arguments);
    } functions[] = {
        {"set_with", set_with}, {"set_without", set_without}, {"number_add", number_add}};

    for (size_t at = 0; at < sizeof(functions) / sizeof(functions[0]); at++) {
        const int code = sqlite3_create_function_v2(
            db, functions[at].name, 2, SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_DIRECTONLY, NULL,
            functions[at].call, NULL, NULL, NULL);

        if (code != SQLITE_OK)
            return code;
    }
    return SQLITE_OK;
}

/* --- Statements --- */

/* Runs SQL without parameters and rows. */
static int run(struct ks_sqlite_table *table, const char *text)
{
    return sqlite3_exec(table->db, text, NULL, NULL, NULL);
}

/* The first column of the first row as a number. */
static int ask_number(struct ks_sqlite_table *table, const char *text, int64_t *ret_number)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(table->db, text, -1, &statement, NULL);

    if (code != SQLITE_OK)
        return code;
    code = sqlite3_step(statement);
    if (code == SQLITE_ROW)
        *ret_number = sqlite3_column_int64(statement, 0);
    (void)sqlite3_finalize(statement);
    return code == SQLITE_ROW ? SQLITE_OK : code == SQLITE_DONE ? SQLITE_CORRUPT : code;
}

/* The statement of this text, prepared before or now. */
static int prepared(struct ks_sqlite_table *table, const struct ks_sql *sql,
                    sqlite3_stmt **ret_statement)
{
    const char *const text = (const char *)sql->text.data;
    sqlite3_stmt *fresh = NULL;
    uint32_t at;
    int code;

    for (at = 0; at < STATEMENTS_MAX && table->statements[at] != NULL; at++) {
        if (strcmp(sqlite3_sql(table->statements[at]), text) == 0) {
            *ret_statement = table->statements[at];
            return SQLITE_OK;
        }
    }
    code = sqlite3_prepare_v3(table->db, text, -1, SQLITE_PREPARE_PERSISTENT, &fresh, NULL);
    if (code != SQLITE_OK)
        return code;
    if (at == STATEMENTS_MAX) {
        at = table->next++ % STATEMENTS_MAX;
        (void)sqlite3_finalize(table->statements[at]);
    }
    table->statements[at] = fresh;
    *ret_statement = fresh;
    return SQLITE_OK;
}

static int bind(sqlite3_stmt *statement, int number, struct ks_value value)
{
    int64_t integer = 0;

    switch (value.type) {
    case KS_VALUE_TEXT:
    case KS_VALUE_SET:
    case KS_VALUE_LIST:
        return sqlite3_bind_text(statement, number, (const char *)value.text.data,
                                 (int)value.text.size, SQLITE_STATIC);
    case KS_VALUE_NUMBER:
        if (!ks_ok(ks_view_i64(value.text, &integer)))
            return SQLITE_MISMATCH;
        return sqlite3_bind_int64(statement, number, integer);
    case KS_VALUE_BOOL:
        return sqlite3_bind_int(statement, number, ks_view_equal(value.text, KS_VIEW("true")));
    case KS_VALUE_SERIES: break; /* Of tables that others made. */
    }
    assert(false);
    return SQLITE_MISUSE;
}

/* A cell as the value that the schema expects there. The text lives until the next step. */
static void read_cell(sqlite3_stmt *statement, int column, enum ks_value_type type,
                      struct ks_item *item, uint32_t at)
{
    const bool text = type == KS_VALUE_TEXT || type == KS_VALUE_SET;
    const int stored = sqlite3_column_type(statement, column);
    ks_view view;

    if (stored == SQLITE_NULL)
        return;
    item->presence[at] = KS_STRANGE;
    if (stored != (text ? SQLITE_TEXT : SQLITE_INTEGER))
        return;
    view.data = sqlite3_column_text(statement, column);
    view.size = (size_t)sqlite3_column_bytes(statement, column);
    if (view.data == NULL || view.size > KS_ITEM_BYTES_MAX || !ks_view_is_utf8(view))
        return;
    if (type == KS_VALUE_BOOL && !ks_view_equal(view, KS_VIEW("0")) &&
        !ks_view_equal(view, KS_VIEW("1")))
        return;
    if (type == KS_VALUE_BOOL)
        view = view.data[0] == '1' ? KS_VIEW("true") : KS_VIEW("false");
    item->presence[at] = KS_PRESENT;
    item->texts[at] = view;
}

/* True if the request named this key, or no key. A table that another program created can have a collation by which
 * different keys are equal. */
static bool was_asked(const struct ks_item_keys *keys, ks_view k)
{
    for (uint32_t i = 0; i < keys->count; i++)
        if (ks_view_equal(ks_view_text(keys->texts[i]), k))
            return true;
    return keys->count == 0;
}

static ks_err add_row(const struct ks_sqlite_table *table, sqlite3_stmt *statement, const char *p,
                      const struct ks_item_keys *keys, struct ks_ask_work *work)
{
    const struct ks_schema *const schema = &ks_native_schema;
    struct ks_item item;

    ks_item_init(&item, schema);
    item.p = ks_view_text(p);
    item.k.data = sqlite3_column_text(statement, 0);
    item.k.size = item.k.data == NULL ? 0 : (size_t)sqlite3_column_bytes(statement, 0);
    if (!was_asked(keys, item.k)) {
        ks_detail_set(
            &work->detail,
            "%s: the table answers rows that were not asked for: its keys must be compared "
            "byte by byte; move the file away to begin anew",
            table->path);
        return KS_FAIL(CORRUPT);
    }
    for (uint32_t at = 0; at < schema->count; at++)
        read_cell(statement, (int)at + 1, schema->attributes[at].type, &item, at);
    work->rows.asked = UINT32_MAX;
    item.asked = &work->rows.asked;
    return ks_native_rows_add(&work->rows, &item, &work->detail);
}

/* Runs the statement; its rows go to `work` if `keep`. They are those of `keys`, or any if there are none. */
static ks_err execute(struct ks_sqlite_table *table, const struct ks_sql *sql, const char *p,
                      const struct ks_item_keys *keys, bool keep, struct ks_ask_work *work,
                      uint32_t *ret_rows)
{
    sqlite3_stmt *statement = NULL;
    uint32_t rows = 0;
    ks_err err = KS_OK;
    int code = prepared(table, sql, &statement);

    for (uint32_t at = 0; code == SQLITE_OK && at < sql->count; at++)
        code = bind(statement, (int)at + 1, sql->values[at]);
    if (code == SQLITE_OK) {
        while ((code = sqlite3_step(statement)) == SQLITE_ROW && ks_ok(err)) {
            rows++;
            if (keep)
                err = add_row(table, statement, p, keys, work);
        }
    }
    if (ks_ok(err) && code != SQLITE_DONE)
        err = fail(table, code, &work->detail);
    /* The code of reset is that of the last step. */
    if (statement != NULL) {
        (void)sqlite3_reset(statement);
        (void)sqlite3_clear_bindings(statement);
    }
    *ret_rows = rows;
    return err;
}

/* --- Requests --- */

/* Only a table without its key can have it so. */
static ks_err check_once(const struct ks_sqlite_table *table, uint32_t rows, uint32_t most,
                         struct ks_detail *ret_detail)
{
    if (rows <= most)
        return KS_OK;
    ks_detail_set(ret_detail,
                  "%s: a row is there more than once: restore it, or move it away to begin anew",
                  table->path);
    return KS_FAIL(CORRUPT);
}

static ks_err read_rows(struct ks_sqlite_table *table, const char *p,
                        const struct ks_item_keys *keys, struct ks_ask_work *work)
{
    uint32_t rows;

    KS_TRY(ks_sql_read(&table->sql, table->application, &ks_native_schema, p, keys));
    KS_TRY(execute(table, &table->sql, p, keys, true, work, &rows));
    return keys->count == 0 ? KS_OK : check_once(table, rows, keys->count, &work->detail);
}

/* Before the lock: the statements of a write, and of a look at the row if that refuses it. */
static ks_err prepare_write(struct ks_sqlite_table *table, struct ks_ask_work *work)
{
    const struct ks_item_write *const write = &work->write;
    struct ks_item_keys *const keys = &table->look_keys;
    sqlite3_stmt *ignored;
    int code;

    *keys = (struct ks_item_keys){.count = 0};
    KS_TRY(ks_item_keys_add(keys, ks_view_text(write->k)));
    KS_TRY(ks_sql_write(&table->sql, table->application, &ks_native_schema, write));
    KS_TRY(ks_sql_read(&table->look, table->application, &ks_native_schema, write->p, keys));
    code = prepared(table, &table->sql, &ignored);
    if (code == SQLITE_OK)
        code = prepared(table, &table->look, &ignored);
    return code == SQLITE_OK ? KS_OK : fail(table, code, &work->detail);
}

/* Within the transaction: the write, or a look at the row that refused it. */
static ks_err write_row(struct ks_sqlite_table *table, struct ks_ask_work *work, bool *ret_applied)
{
    const bool tells = work->operation == KS_STORE_HEARTBEAT;
    uint32_t rows;

    KS_TRY(execute(table, &table->sql, work->write.p, &table->look_keys, tells, work, &rows));
    KS_TRY(check_once(table, rows, 1, &work->detail));
    *ret_applied = rows == 1;
    if (rows == 1)
        return KS_OK;
    /* Whether the row can be read or not: it has refused. */
    if (!ks_ok(execute(table, &table->look, work->write.p, &table->look_keys, true, work, &rows)) ||
        rows > 1)
        ks_native_rows_free(&work->rows);
    return KS_OK;
}

/* The file's write lock is held from BEGIN to COMMIT, and other processes wait for it: the statement runs in between,
 * and nothing that waits for a disk (KS_SQLITE_SYNCED_COMMITS). */
static ks_err perform_write(struct ks_sqlite_table *table, struct ks_ask_work *work)
{
    bool applied = false;
    ks_err err;
    int code;

    KS_TRY(prepare_write(table, work));
    code = run(table, "BEGIN IMMEDIATE");
    if (code != SQLITE_OK)
        return fail(table, code, &work->detail);
    /* The lock may have come too late, and nobody waits for this write any more. */
    err = ks_instant_reached(ks_instant_now(), work->deadline) ? KS_FAIL(TIMEOUT)
                                                               : write_row(table, work, &applied);
    /* A look at the row that refused may have failed, and ended it: nothing was to be kept. */
    if (ks_ok(err) && (applied || !sqlite3_get_autocommit(table->db))) {
        code = run(table, "COMMIT");
        if (code != SQLITE_OK)
            err = fail(table, code, &work->detail);
    }
    if (!ks_ok(err)) {
        /* Some failures have rolled back already. */
        if (!sqlite3_get_autocommit(table->db))
            (void)run(table, "ROLLBACK");
        return err;
    }
    table->unsynced = table->unsynced || applied;
    work->outcome = applied ? KS_DONE : KS_REFUSED;
    return KS_OK;
}

void ks_sqlite_table_perform(struct ks_sqlite_table *table, struct ks_ask_work *work)
{
    assert(work->outcome == KS_UNKNOWN);

    table->deadline = ks_instant_add(work->deadline, ks_span_ms(-EARLY_MS));
    if (ks_instant_reached(ks_instant_now(), work->deadline)) {
        work->err = KS_FAIL(TIMEOUT);
        return;
    }
    work->err = ks_sqlite_place_check(table->db, table->path, &table->place, &work->detail);
    if (!ks_ok(work->err))
        return;
    if (ks_native_writes(work->operation)) {
        work->err = perform_write(table, work);
        return;
    }
    work->err = read_rows(table, work->partition, &work->keys, work);
    if (ks_ok(work->err))
        work->outcome = KS_DONE;
}

void ks_sqlite_table_settle(struct ks_sqlite_table *table, struct ks_ask_work *const *works,
                            uint32_t count)
{
    struct ks_detail detail = {.text = ""};
    ks_err err = KS_OK;

    if (table->unsynced) {
        const int code = ks_sqlite_sync(table->db, &table->sync_failed);

        table->unsynced = code != SQLITE_OK;
        if (code != SQLITE_OK)
            err = ks_err_because(KS_FAIL(DISK), &detail, "%s: not on its disk: %s", table->path,
                                 sqlite3_errstr(code));
    }
    /* Behind the sync: what is on the disk now lies where the path leads. */
    if (ks_ok(err))
        err = ks_sqlite_place_check(table->db, table->path, &table->place, &detail);
    for (uint32_t at = 0; at < count && !ks_ok(err); at++) {
        if (works[at]->outcome == KS_UNKNOWN)
            continue;
        works[at]->outcome = KS_UNKNOWN;
        works[at]->err = err;
        works[at]->detail = detail;
        ks_native_rows_free(&works[at]->rows);
    }
}

void ks_sqlite_table_holder(struct ks_sqlite_table *table, char ret_text[KS_SQLITE_HOLDER_SIZE])
{
    memcpy(ret_text, table->holder, sizeof(table->holder));
    table->holder[0] = '\0';
}

void ks_sqlite_table_version(struct ks_sqlite_table *table, int64_t *ret_version)
{
    table->deadline = ks_instant_now();
    (void)ask_number(table, "PRAGMA data_version", ret_version);
}

/* --- Opening --- */

enum identity { OURS, EMPTY, FOREIGN, NEWER };

static int identify(struct ks_sqlite_table *table, enum identity *ret_identity)
{
    int64_t id = 0;
    int64_t version = 0;
    int64_t things = 0;
    int code = ask_number(table, "PRAGMA application_id", &id);

    if (code == SQLITE_OK)
        code = ask_number(table, "PRAGMA user_version", &version);
    if (code == SQLITE_OK)
        code = ask_number(table, "SELECT count(*) FROM sqlite_schema", &things);
    if (code != SQLITE_OK)
        return code;

    if (id == KS_SQLITE_APPLICATION_ID)
        *ret_identity = version == KS_SQLITE_VERSION ? OURS : NEWER;
    else
        *ret_identity = id == 0 && version == 0 && things == 0 ? EMPTY : FOREIGN;
    return SQLITE_OK;
}

/* Makes the table in an empty file; another process may be at it, too. */
static int make_table(struct ks_sqlite_table *table)
{
    enum identity identity = EMPTY;
    int code = run(table, "BEGIN IMMEDIATE");

    if (code != SQLITE_OK)
        return code;
    code = identify(table, &identity);
    if (code == SQLITE_OK && identity == EMPTY) {
        if (!ks_ok(ks_sql_create(&table->sql, &ks_native_schema)))
            code = SQLITE_NOMEM;
        if (code == SQLITE_OK)
            code = run(table, (const char *)table->sql.text.data);
        if (code == SQLITE_OK) {
            char *const marks =
                sqlite3_mprintf("PRAGMA application_id = %d; "
                                "PRAGMA user_version = %d",
                                (int)KS_SQLITE_APPLICATION_ID, (int)KS_SQLITE_VERSION);

            code = marks == NULL ? SQLITE_NOMEM : run(table, marks);
            sqlite3_free(marks);
        }
    }
    if (code == SQLITE_OK)
        code = run(table, "COMMIT");
    if (!sqlite3_get_autocommit(table->db))
        (void)run(table, "ROLLBACK");
    return code;
}

static ks_err check_identity(struct ks_sqlite_table *table, enum identity *ret_identity,
                             struct ks_detail *ret_detail)
{
    /* At one moment: another process may be making the table. */
    int code = run(table, "BEGIN");

    if (code == SQLITE_OK)
        code = identify(table, ret_identity);
    if (code == SQLITE_OK)
        code = run(table, "COMMIT");
    if (code != SQLITE_OK)
        return fail(table, code, ret_detail);
    if (*ret_identity == NEWER) {
        ks_detail_set(
            ret_detail,
            "%s: made by another version of kinesis-sidecar: use that one, or another file",
            table->path);
        return KS_FAIL(FOREIGN);
    }
    if (*ret_identity == FOREIGN) {
        ks_detail_set(ret_detail, "%s: a SQLite file, but no lease table: give another file",
                      table->path);
        return KS_FAIL(FOREIGN);
    }
    return KS_OK;
}

static ks_view column_text(sqlite3_stmt *statement, int column)
{
    const uint8_t *const text = sqlite3_column_text(statement, column);

    return ks_view_of(text, text == NULL ? 0 : (size_t)sqlite3_column_bytes(statement, column));
}

/* Pages that are broken are found now, not when a checkpoint meets them. */
static ks_err check_pages(struct ks_sqlite_table *table, struct ks_detail *ret_detail)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(table->db, "PRAGMA quick_check(1)", -1, &statement, NULL);
    ks_err err = KS_OK;

    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    if (code != SQLITE_ROW) {
        err = fail(table, code, ret_detail);
    } else if (!ks_view_equal(column_text(statement, 0), KS_VIEW("ok"))) {
        ks_detail_set(ret_detail, "%s: corrupted: restore it, or move it away to begin anew",
                      table->path);
        err = KS_FAIL(CORRUPT);
    }
    (void)sqlite3_finalize(statement);
    return err;
}

/* The table must have every column that we name. */
static ks_err check_columns(struct ks_sqlite_table *table, struct ks_detail *ret_detail)
{
    const struct ks_item_keys all = {.count = 0};
    sqlite3_stmt *statement = NULL;
    int code;

    KS_TRY(ks_sql_read(&table->sql, table->application, &ks_native_schema, "", &all));
    code = prepared(table, &table->sql, &statement);
    return code == SQLITE_OK ? KS_OK : fail(table, code, ret_detail);
}

static ks_err prepare_file(struct ks_sqlite_table *table, struct ks_detail *ret_detail)
{
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX |
                      SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_EXRESCODE;
    enum identity identity = EMPTY;
    int code;

    KS_TRY(ks_sqlite_make_private(table->path, ret_detail));
    code = sqlite3_open_v2(table->path, &table->db, flags, NULL);
    if (table->db == NULL)
        return KS_FAIL(NO_MEMORY);
    if (code == SQLITE_OK)
        code = sqlite3_busy_handler(table->db, busy, table);
    if (code == SQLITE_OK)
        code = ks_sqlite_harden(table->db);
    (void)sqlite3_limit(table->db, SQLITE_LIMIT_LENGTH, CELL_BYTES_MAX);
    if (code == SQLITE_OK)
        code = add_functions(table->db);
    if (code != SQLITE_OK)
        return fail(table, code, ret_detail);

    KS_TRY(check_identity(table, &identity, ret_detail));
    if (identity == OURS)
        KS_TRY(check_pages(table, ret_detail));
    /* Every row that a request is built on lies in this file: it is not durable later than what follows from it. */
    code = ks_sqlite_use_wal(table->db, KS_SQLITE_SYNCED_COMMITS, table->deadline);
    if (code != SQLITE_OK)
        return fail(table, code, ret_detail);
    if (identity == EMPTY) {
        code = make_table(table);
        if (code != SQLITE_OK)
            return fail(table, code, ret_detail);
        KS_TRY(check_identity(table, &identity, ret_detail));
    }
    KS_TRY(check_columns(table, ret_detail));
    return ks_sqlite_place_note(table->db, table->path, &table->place, ret_detail);
}

ks_err ks_sqlite_table_open(const char *path, const char *application,
                            struct ks_sqlite_table **ret_table, struct ks_detail *ret_detail)
{
    struct ks_sqlite_table *table;
    ks_err err = KS_FAIL(NO_MEMORY);

    if (application[0] == '\0' || strlen(application) > KS_SQLITE_APPLICATION_MAX ||
        !ks_view_is_utf8(ks_view_text(application))) {
        ks_detail_set(ret_detail, "the application's name must have 1 to %d characters",
                      KS_SQLITE_APPLICATION_MAX);
        return KS_FAIL(INVALID);
    }
    table = ks_alloc(sizeof(*table));
    if (table == NULL)
        return err;
    ks_sql_init(&table->sql);
    ks_sql_init(&table->look);
    table->path = ks_strdup(path);
    table->application = ks_strdup(application);
    table->deadline = ks_instant_add(ks_instant_now(), ks_span_ms(KS_SQLITE_OPEN_MS));
    if (table->path != NULL && table->application != NULL)
        err = prepare_file(table, ret_detail);
    if (!ks_ok(err)) {
        ks_sqlite_table_close(table);
        return err;
    }
    *ret_table = table;
    return KS_OK;
}

void ks_sqlite_table_close(struct ks_sqlite_table *table)
{
    if (table == NULL)
        return;
    for (size_t at = 0; at < STATEMENTS_MAX; at++)
        (void)sqlite3_finalize(table->statements[at]);
    ks_sqlite_close(table->db);
    ks_sql_free(&table->sql);
    ks_sql_free(&table->look);
    ks_free(table->path);
    ks_free(table->application);
    ks_free(table);
}
