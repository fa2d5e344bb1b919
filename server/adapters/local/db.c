/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/local/db.h"

#include "adapters/local/shards.h"
#include "adapters/sqlite/file.h"
#include "base/budget.h"
#include "base/digest.h"
#include "base/loop.h"

enum {
    APPLICATION_ID = 0x4B535354, /* "KSST": told apart from files of anything else. */
    VERSION = 1,                 /* Of the schema. */
    SLICE_VERSION = 2,           /* Of the schema of a slice. */
    BUSY_WAIT_US = 200,          /* Between two looks at a lock, plus up to as much again. */
    STEPS_MAX = 64               /* Rows that a statement which should give one may give. */
};

static const char SCHEMA[] =
    "CREATE TABLE streams(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, "
    "created_ms INTEGER NOT NULL, retention_ms INTEGER NOT NULL, made_shards INTEGER NOT NULL, "
    "next_index INTEGER NOT NULL) STRICT;"
    /* AUTOINCREMENT: an id that comes back would give a new shard an old one's records. */
    "CREATE TABLE shards(id INTEGER PRIMARY KEY AUTOINCREMENT, stream INTEGER NOT NULL, "
    "ix INTEGER NOT NULL, parent INTEGER, adjacent INTEGER, hash_start BLOB NOT NULL, "
    "hash_end BLOB NOT NULL, made_s INTEGER NOT NULL, closed_ms INTEGER, next INTEGER NOT NULL, "
    "arrival_ms INTEGER NOT NULL, UNIQUE(stream, ix)) STRICT;"
    "CREATE TABLE records(id INTEGER PRIMARY KEY, arrival_ms INTEGER NOT NULL, "
    "partition_key BLOB NOT NULL, data BLOB NOT NULL) STRICT;";
/* Added to the schema for a captured slice. */
static const char SLICE_SCHEMA[] = "ALTER TABLE records ADD COLUMN sequence TEXT;";

static const char *const SQL[KS_LOCAL_STATEMENT_COUNT] = {
#define X(name, sql) [KS_LOCAL_##name] = sql,
    KS_LOCAL_STATEMENTS(X)
#undef X
};

static ks_err meaning(int code)
{
    switch (code & 0xFF) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE: return KS_OK;
    case SQLITE_BUSY:
    case SQLITE_LOCKED: return KS_FAIL(BUSY);
    case SQLITE_NOMEM: return KS_FAIL(NO_MEMORY);
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
    case SQLITE_FORMAT: return KS_FAIL(CORRUPT);
    case SQLITE_FULL:
    case SQLITE_IOERR:
    case SQLITE_READONLY: return KS_FAIL(DISK);
    default: return KS_FAIL(SYSTEM);
    }
}

ks_err ks_local_db_err(struct ks_local_db *db, int code, const char *doing,
                       struct ks_detail *detail)
{
    char holder[KS_SQLITE_HOLDER_SIZE] = "";
    ks_err err = meaning(code);

    if (ks_ok(err))
        return err;
    if (ks_err_is(err, KS_ERR_BUSY) && db->handle != NULL)
        ks_sqlite_holder(db->handle, holder);
    ks_detail_set(detail, "local stream %s: cannot %s: %s%s%s", db->path, doing,
                  db->handle == NULL ? sqlite3_errstr(code) : sqlite3_errmsg(db->handle), holder,
                  db->handle == NULL ? "" : ks_sqlite_open_advice(db->handle));
    return err;
}

ks_err ks_local_db_check_place(struct ks_local_db *db, struct ks_detail *detail)
{
    struct ks_detail why = {.text = ""};
    ks_err err = ks_sqlite_place_check(db->handle, db->path, &db->place, &why);

    if (!ks_ok(err))
        ks_detail_set(detail, "local stream %s", why.text);
    return err;
}

/* SQLite's own handler sleeps longer and longer and starves whoever waits; this one asks again soon.
 * The waits are about 300 us, so that the count of calls is a clock. */
static int busy(void *arg, int calls)
{
    struct ks_local_db *db = arg;
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);

    if (calls > KS_LOCAL_BUSY_MS * 1000 / (BUSY_WAIT_US * 3 / 2))
        return 0;
    /* A linear congruential step is jitter enough. */
    db->busy_seed = db->busy_seed * 1103515245 + 12345;
    (void)vfs->xSleep(vfs, (int)(BUSY_WAIT_US + (db->busy_seed >> 16) % BUSY_WAIT_US));
    return 1;
}

/* --- Statements --- */

ks_err ks_local_db_use(struct ks_local_db *db, enum ks_local_statement which,
                       sqlite3_stmt **ret_statement, struct ks_detail *detail)
{
    if (db->statements[which] == NULL) {
        int code = sqlite3_prepare_v3(db->handle, SQL[which], -1, SQLITE_PREPARE_PERSISTENT,
                                      &db->statements[which], NULL);
        KS_TRY(ks_local_db_err(db, code, "prepare a statement", detail));
    }
    *ret_statement = db->statements[which];
    return KS_OK;
}

static ks_err bind_all(struct ks_local_db *db, sqlite3_stmt *statement, const int64_t *values,
                       int count, struct ks_detail *detail)
{
    for (int at = 0; at < count; at++)
        KS_TRY(
            ks_local_db_err(db, sqlite3_bind_int64(statement, at + 1, values[at]), "bind", detail));
    return KS_OK;
}

/* Runs to the end; the first column of the first row goes to `value`. */
static ks_err run_bound(struct ks_local_db *db, sqlite3_stmt *statement, bool *found,
                        int64_t *value, struct ks_detail *detail)
{
    int code = SQLITE_ROW;

    for (int step = 0; code == SQLITE_ROW && step < STEPS_MAX; step++) {
        code = sqlite3_step(statement);
        if (code == SQLITE_ROW && !*found) {
            *found = true;
            *value = sqlite3_column_int64(statement, 0);
        }
    }
    return ks_local_db_err(db, code, "use it", detail);
}

static ks_err run(struct ks_local_db *db, enum ks_local_statement which, const int64_t *values,
                  int count, bool *found, int64_t *value, struct ks_detail *detail)
{
    sqlite3_stmt *statement;

    KS_TRY(ks_local_db_use(db, which, &statement, detail));
    ks_err err = bind_all(db, statement, values, count, detail);
    if (ks_ok(err))
        err = run_bound(db, statement, found, value, detail);
    ks_local_db_done(statement);
    return err;
}

ks_err ks_local_db_run(struct ks_local_db *db, enum ks_local_statement which, const int64_t *values,
                       int count, struct ks_detail *detail)
{
    bool begins = which == KS_LOCAL_BEGIN_READ || which == KS_LOCAL_BEGIN_WRITE;
    bool found = false;
    int64_t value = 0;

    /* The last one could not be ended, for want of memory. */
    if (begins && sqlite3_get_autocommit(db->handle) == 0)
        KS_TRY(run(db, KS_LOCAL_ROLLBACK, NULL, 0, &found, &value, detail));
    return run(db, which, values, count, &found, &value, detail);
}

ks_err ks_local_db_ask(struct ks_local_db *db, enum ks_local_statement which, const int64_t *values,
                       int count, int64_t *ret_value, struct ks_detail *detail)
{
    bool found = false;
    int64_t value = 0;

    KS_TRY(run(db, which, values, count, &found, &value, detail));
    if (!found) {
        ks_detail_set(detail, "local stream %s: not found", db->path);
        return KS_FAIL(NOT_FOUND);
    }
    *ret_value = value;
    return KS_OK;
}

ks_err ks_local_db_end(struct ks_local_db *db, ks_err err, struct ks_detail *detail)
{
    if (ks_ok(err))
        err = ks_local_db_run(db, KS_LOCAL_COMMIT, NULL, 0, detail);
    /* Some failures have rolled back already; then there is nothing to end. */
    if (!ks_ok(err) && sqlite3_get_autocommit(db->handle) == 0) {
        ks_err rolled = ks_local_db_run(db, KS_LOCAL_ROLLBACK, NULL, 0, NULL);
        (void)rolled; /* Else whoever begins next does it. */
    }
    return err;
}

ks_err ks_local_db_set_retention(struct ks_local_db *db, int64_t retention_ms,
                                 struct ks_detail *detail)
{
    int64_t values[] = {retention_ms, db->stream};

    return ks_local_db_run(db, KS_LOCAL_SET_RETENTION, values, 2, detail);
}

/* --- Opening --- */

static ks_err execute(struct ks_local_db *db, const char *sql, const char *doing,
                      struct ks_detail *detail)
{
    return ks_local_db_err(db, sqlite3_exec(db->handle, sql, NULL, NULL, NULL), doing, detail);
}

/* The value of a pragma. */
static ks_err pragma(struct ks_local_db *db, const char *sql, int64_t *ret_value,
                     struct ks_detail *detail)
{
    sqlite3_stmt *statement = NULL;
    bool found = false;
    int code = sqlite3_prepare_v2(db->handle, sql, -1, &statement, NULL);
    ks_err err = ks_local_db_err(db, code, "read it", detail);

    if (ks_ok(err))
        err = run_bound(db, statement, &found, ret_value, detail);
    (void)sqlite3_finalize(statement);
    return err;
}

static ks_err foreign(struct ks_local_db *db, const char *why, struct ks_detail *detail)
{
    ks_detail_set(detail, "local stream %s: %s; name another file", db->path, why);
    return KS_FAIL(FOREIGN);
}

/* Within a transaction: another process may be making the tables. */
static ks_err check_schema(struct ks_local_db *db, bool *ret_empty, struct ks_detail *detail)
{
    int64_t id = 0;
    int64_t version = 0;
    int64_t tables = 0;

    KS_TRY(pragma(db, "PRAGMA application_id", &id, detail));
    KS_TRY(pragma(db, "PRAGMA user_version", &version, detail));
    KS_TRY(pragma(db, "SELECT count(*) FROM sqlite_schema", &tables, detail));
    *ret_empty = id == 0 && version == 0 && tables == 0;
    db->slice = id == APPLICATION_ID && version == SLICE_VERSION;
    if (*ret_empty || db->slice || (id == APPLICATION_ID && version == VERSION))
        return KS_OK;
    if (id == APPLICATION_ID)
        return foreign(db, "it was made by another version of the sidecar", detail);
    return foreign(db, "it is a SQLite file of something else", detail);
}

static ks_err make_schema(struct ks_local_db *db, struct ks_detail *detail)
{
    char stamp[96];

    KS_TRY(execute(db, SCHEMA, "make its tables", detail));
    if (db->slice)
        KS_TRY(execute(db, SLICE_SCHEMA, "make its tables", detail));
    (void)sqlite3_snprintf(sizeof(stamp), stamp,
                           "PRAGMA application_id = %d; PRAGMA user_version = %d", APPLICATION_ID,
                           db->slice ? SLICE_VERSION : VERSION);
    return execute(db, stamp, "make its tables", detail);
}

/* Looks for the stream. NOT_FOUND. */
static ks_err find_stream(struct ks_local_db *db, struct ks_detail *detail)
{
    sqlite3_stmt *statement;

    KS_TRY(ks_local_db_use(db, KS_LOCAL_FIND_STREAM, &statement, detail));
    int code = sqlite3_bind_text(statement, 1, db->name, -1, SQLITE_STATIC);
    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    ks_err err = ks_local_db_err(db, code, "find its stream", detail);
    if (code == SQLITE_DONE)
        err = KS_FAIL(NOT_FOUND);
    if (ks_ok(err)) {
        db->stream = sqlite3_column_int64(statement, 0);
        db->created_ms = sqlite3_column_int64(statement, 1);
        db->retention_ms = sqlite3_column_int64(statement, 2);
        db->made_shards = (uint32_t)sqlite3_column_int64(statement, 3);
    }
    ks_local_db_done(statement);
    return err;
}

/* A row without shards. */
static ks_err add_row(struct ks_local_db *db, int64_t created_ms, int64_t retention_ms,
                      uint32_t shards, struct ks_detail *detail)
{
    sqlite3_stmt *statement;

    KS_TRY(ks_local_db_use(db, KS_LOCAL_ADD_STREAM, &statement, detail));
    int code = sqlite3_bind_text(statement, 1, db->name, -1, SQLITE_STATIC);
    if (code == SQLITE_OK)
        code = sqlite3_bind_int64(statement, 2, created_ms);
    if (code == SQLITE_OK)
        code = sqlite3_bind_int64(statement, 3, retention_ms);
    if (code == SQLITE_OK)
        code = sqlite3_bind_int64(statement, 4, shards);
    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    ks_local_db_done(statement);
    KS_TRY(ks_local_db_err(db, code, "make its stream", detail));
    return find_stream(db, detail);
}

static ks_err add_stream(struct ks_local_db *db, uint32_t shards, struct ks_detail *detail)
{
    int64_t now_ms = ks_wall_now().ms;

    KS_TRY(add_row(db, now_ms, KS_LOCAL_RETENTION_HOURS * INT64_C(3600000), shards, detail));
    return ks_shards_make(db, shards, now_ms, detail);
}

/* A slice has one stream, and no other one is made in it. */
static ks_err other_stream(struct ks_local_db *db, struct ks_detail *detail)
{
    sqlite3_stmt *statement;

    KS_TRY(ks_local_db_use(db, KS_LOCAL_SLICE_STREAM, &statement, detail));
    int code = sqlite3_step(statement);
    ks_err err = ks_local_db_err(db, code, "find its stream", detail);
    if (ks_ok(err)) {
        const unsigned char *name = code == SQLITE_ROW ? sqlite3_column_text(statement, 0) : NULL;

        ks_detail_set(detail,
                      "local stream %s: it is a captured slice of the stream %.128s, not of %s; "
                      "set --stream to its name",
                      db->path, name == NULL ? "" : (const char *)name, db->name);
        err = KS_FAIL(FOREIGN);
    }
    ks_local_db_done(statement);
    return err;
}

static ks_err make_or_find(struct ks_local_db *db, uint32_t shards, struct ks_detail *detail)
{
    bool empty = false;

    KS_TRY(check_schema(db, &empty, detail));
    if (empty)
        KS_TRY(make_schema(db, detail));
    ks_err err = find_stream(db, detail);
    if (ks_err_is(err, KS_ERR_NOT_FOUND))
        err = db->slice ? other_stream(db, detail) : add_stream(db, shards, detail);
    return err;
}

static ks_err prepare(struct ks_local_db *db, const char *path, uint32_t shards,
                      struct ks_detail *detail)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    sqlite3_stmt *rollback;
    bool empty = false;
    int code;

    KS_TRY(ks_sqlite_make_private(path, detail));
    code = sqlite3_open_v2(path, &db->handle, flags, NULL);
    if (code == SQLITE_OK)
        code = ks_sqlite_harden(db->handle);
    KS_TRY(ks_local_db_err(db, code, "open it", detail));
    (void)sqlite3_extended_result_codes(db->handle, 1);
    (void)sqlite3_busy_handler(db->handle, busy, db);
    /* Made now, for it is wanted when there is no memory. */
    KS_TRY(ks_local_db_use(db, KS_LOCAL_ROLLBACK, &rollback, detail));
    /* Before the first write into it. */
    KS_TRY(ks_local_db_run(db, KS_LOCAL_BEGIN_READ, NULL, 0, detail));
    KS_TRY(ks_local_db_end(db, check_schema(db, &empty, detail), detail));
    /* A record that others see is delivered and settled by them, in another file: it is durable then. */
    code = ks_sqlite_use_wal(db->handle, KS_SQLITE_DURABLE_COMMITS,
                             ks_instant_add(ks_instant_now(), ks_span_ms(KS_LOCAL_BUSY_MS)));
    KS_TRY(ks_local_db_err(db, code, "turn on write-ahead logging", detail));
    KS_TRY(execute(db, "PRAGMA journal_size_limit = 67108864; PRAGMA cache_size = -512",
                   "set it up", detail));
    KS_TRY(ks_local_db_run(db, KS_LOCAL_BEGIN_WRITE, NULL, 0, detail));
    KS_TRY(ks_local_db_end(db, make_or_find(db, shards, detail), detail));
    return ks_sqlite_place_note(db->handle, db->path, &db->place, detail);
}

/* A connection that is not open yet. INVALID, NO_MEMORY. */
static ks_err new_db(const char *path, const char *stream, struct ks_local_db **ret_db,
                     struct ks_detail *detail)
{
    struct ks_local_db *db;

    if (stream[0] == '\0' || strlen(stream) > KS_STREAM_NAME_MAX) {
        ks_detail_set(detail, "local stream %s: a stream name has 1 to %d characters", path,
                      KS_STREAM_NAME_MAX);
        return KS_FAIL(INVALID);
    }
    db = ks_alloc(sizeof(*db));
    if (db == NULL)
        return KS_FAIL(NO_MEMORY);
    db->path = ks_strdup(path);
    if (db->path == NULL) {
        ks_free(db);
        return KS_FAIL(NO_MEMORY);
    }
    (void)sqlite3_snprintf(sizeof(db->name), db->name, "%s", stream);
    db->busy_seed = (uint32_t)ks_random_u64();
    *ret_db = db;
    return KS_OK;
}

ks_err ks_local_db_open(const char *path, const char *stream, uint32_t shards,
                        struct ks_local_db **ret_db, struct ks_detail *detail)
{
    struct ks_local_db *db;

    if (shards == 0 || shards > KS_LOCAL_SHARDS_MAX) {
        ks_detail_set(detail, "local stream %s: 1 to %d shards are possible", path,
                      KS_LOCAL_SHARDS_MAX);
        return KS_FAIL(INVALID);
    }
    KS_TRY(new_db(path, stream, &db, detail));
    ks_err err = prepare(db, path, shards, detail);
    if (!ks_ok(err)) {
        ks_local_db_close(db);
        return err;
    }
    *ret_db = db;
    return KS_OK;
}

/* Nobody else reads the file before it is whole, and a failure removes it: it needs no journal. */
static ks_err begin_slice(struct ks_local_db *db, int64_t created_ms, struct ks_detail *detail)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX;
    int code = sqlite3_open_v2(db->path, &db->handle, flags, NULL);

    if (code == SQLITE_OK)
        code = ks_sqlite_harden(db->handle);
    KS_TRY(ks_local_db_err(db, code, "open it", detail));
    (void)sqlite3_extended_result_codes(db->handle, 1);
    /* A defensive connection refuses journal_mode=OFF. */
    KS_TRY(execute(db,
                   "PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF; "
                   "PRAGMA cache_size = -4096",
                   "set it up", detail));
    db->slice = true;
    KS_TRY(ks_local_db_run(db, KS_LOCAL_BEGIN_WRITE, NULL, 0, detail));
    KS_TRY(make_schema(db, detail));
    return add_row(db, created_ms, 0, 1, detail);
}

ks_err ks_local_db_make_slice(const char *path, const char *stream, int64_t created_ms,
                              struct ks_local_db **ret_db, struct ks_detail *detail)
{
    struct ks_local_db *db;

    KS_TRY(new_db(path, stream, &db, detail));
    ks_err err = begin_slice(db, created_ms, detail);
    if (!ks_ok(err)) {
        ks_local_db_close(db);
        return err;
    }
    *ret_db = db;
    return KS_OK;
}

void ks_local_db_close(struct ks_local_db *db)
{
    if (db == NULL)
        return;
    for (int at = 0; at < KS_LOCAL_STATEMENT_COUNT; at++)
        (void)sqlite3_finalize(db->statements[at]);
    ks_sqlite_close(db->handle);
    ks_free(db->path);
    ks_free(db);
}
