/* SPDX-License-Identifier: Apache-2.0 */
/* db.h - the SQLite file of local streams: its schema, its statements, its errors.
 *
 * One file holds any number of named streams and may be used by many processes at once (WAL, on one
 * machine: no network file systems). A connection serves one stream and is used by one thread at a
 * time. Every call may block: on the disk, and up to KS_LOCAL_BUSY_MS on another writer; then BUSY.
 * A commit is on the disk when it returns (synchronous=FULL).
 *
 * streams  one row each; made_shards is what it was made with, next_index the next shard's index
 * shards   hash ranges as 16 big-endian bytes; parent, adjacent: indexes; closed_ms NULL while open;
 *          next: number of the next record; arrival_ms: no record arrives before it
 * records  id = shard id * 2^40 + number of the record in its shard: a shard lies together, in order
 *
 * A file of version 2 is a slice (slice.h): one stream that was captured from another one. Its records have a column
 * `sequence` with the sequence numbers that they had there, and their numbers in a shard are 1, 2, 3 without holes. It
 * takes no puts, and its records do not expire.
 */
#ifndef KS_ADAPTERS_LOCAL_DB_H
#define KS_ADAPTERS_LOCAL_DB_H

#include <sqlite3.h>
#include <stdint.h>

#include "adapters/hash.h"
#include "adapters/sqlite/file.h"
#include "base/bytes.h"
#include "core/limits.h"

enum {
    KS_LOCAL_BUSY_MS = 2000,      /* Longest wait for another process' transaction. */
    KS_LOCAL_SHARDS_MAX = 4096,   /* Open and closed shards of one stream: they are read whole. */
    KS_LOCAL_NUMBER_BITS = 40,    /* Of a record id. */
    KS_LOCAL_RETENTION_HOURS = 24 /* Kinesis' default. */
};

/* Of a record: one more is kept back, for the next. */
#define KS_LOCAL_NUMBER_LAST ((UINT64_C(1) << KS_LOCAL_NUMBER_BITS) - 2)

/* A record's row id. */
static inline int64_t ks_local_record_id(int64_t shard, uint64_t number)
{
    return shard * (INT64_C(1) << KS_LOCAL_NUMBER_BITS) + (int64_t)number;
}

static inline uint64_t ks_local_record_number(int64_t id)
{
    return (uint64_t)id & ((UINT64_C(1) << KS_LOCAL_NUMBER_BITS) - 1);
}

/* Statements are prepared when they are used first, and kept. */
#define KS_LOCAL_STATEMENTS(X)                                                                     \
    X(BEGIN_READ, "BEGIN")                                                                         \
    X(BEGIN_WRITE, "BEGIN IMMEDIATE")                                                              \
    X(COMMIT, "COMMIT")                                                                            \
    X(ROLLBACK, "ROLLBACK")                                                                        \
    X(DATA_VERSION, "PRAGMA data_version")                                                         \
    X(FIND_STREAM, "SELECT id, created_ms, retention_ms, made_shards FROM streams WHERE name = ?") \
    X(ADD_STREAM, "INSERT INTO streams(name, created_ms, retention_ms, made_shards, next_index) "  \
                  "VALUES(?, ?, ?, ?, 0)")                                                         \
    X(SET_RETENTION, "UPDATE streams SET retention_ms = ? WHERE id = ?")                           \
    X(GET_RETENTION, "SELECT retention_ms FROM streams WHERE id = ?")                              \
    X(TAKE_INDEX, "UPDATE streams SET next_index = next_index + 1 WHERE id = ? "                   \
                  "RETURNING next_index - 1")                                                      \
    X(ADD_SHARD, "INSERT INTO shards(stream, ix, parent, adjacent, hash_start, hash_end, made_s, " \
                 "next, arrival_ms) VALUES(?, ?, ?, ?, ?, ?, ?, 1, ?)")                            \
    X(ALL_SHARDS, "SELECT id, ix, parent, adjacent, hash_start, hash_end, made_s, closed_ms, "     \
                  "next, arrival_ms FROM shards WHERE stream = ? ORDER BY ix")                     \
    X(OPEN_SHARDS, "SELECT id, ix, parent, adjacent, hash_start, hash_end, made_s, closed_ms, "    \
                   "next, arrival_ms FROM shards WHERE stream = ? AND closed_ms IS NULL "          \
                   "ORDER BY hash_start")                                                          \
    X(ONE_SHARD, "SELECT id, ix, parent, adjacent, hash_start, hash_end, made_s, closed_ms, "      \
                 "next, arrival_ms FROM shards WHERE stream = ? AND ix = ?")                       \
    X(CHILDREN, "SELECT ix FROM shards WHERE stream = ?1 AND (parent = ?2 OR adjacent = ?2) "      \
                "ORDER BY ix")                                                                     \
    X(CLOSE_SHARD, "UPDATE shards SET closed_ms = ? WHERE id = ?")                                 \
    X(ADVANCE_SHARD, "UPDATE shards SET next = ?, arrival_ms = ? WHERE id = ?")                    \
    X(LAST_ARRIVAL, "SELECT coalesce(max(arrival_ms), 0) FROM shards WHERE stream = ?")            \
    X(RAISE_ARRIVALS, "UPDATE shards SET arrival_ms = ?1 WHERE stream = ?2 AND closed_ms IS NULL " \
                      "AND arrival_ms < ?1")                                                       \
    X(REMOVE_SHARD, "DELETE FROM shards WHERE id = ?")                                             \
    X(ADD_RECORD, "INSERT INTO records(id, arrival_ms, partition_key, data) VALUES(?, ?, ?, ?)")   \
    X(NEXT_RECORD, "SELECT id, arrival_ms FROM records WHERE id >= ? AND id < ? "                  \
                   "ORDER BY id LIMIT 1")                                                          \
    X(SIZES, "SELECT id, length(data) + length(partition_key), arrival_ms, 56 FROM records "       \
             "WHERE id >= ? AND id < ? ORDER BY id LIMIT ?")                                       \
    X(RECORDS, "SELECT id, arrival_ms, partition_key, data FROM records "                          \
               "WHERE id >= ? AND id <= ? ORDER BY id")                                            \
    X(REMOVE_RECORDS, "DELETE FROM records WHERE id >= ? AND id < ?")                              \
    /* Of a slice. */                                                                              \
    X(SLICE_STREAM, "SELECT name FROM streams LIMIT 1")                                            \
    X(SLICE_ADD, "INSERT INTO records(id, arrival_ms, partition_key, data, sequence) "             \
                 "VALUES(?, ?, ?, ?, ?)")                                                          \
    X(SLICE_SIZES, "SELECT id, length(data) + length(partition_key), arrival_ms, "                 \
                   "length(sequence) FROM records WHERE id >= ? AND id < ? ORDER BY id LIMIT ?")   \
    X(SLICE_RECORDS, "SELECT id, arrival_ms, partition_key, data, sequence FROM records "          \
                     "WHERE id >= ? AND id <= ? ORDER BY id")                                      \
    X(SLICE_SEQUENCE, "SELECT sequence FROM records WHERE id = ?")                                 \
    X(SLICE_SINCE, "SELECT id FROM records WHERE id >= ? AND id < ? AND arrival_ms >= ? "          \
                   "ORDER BY id LIMIT 1")

enum ks_local_statement {
#define X(name, sql) KS_LOCAL_##name,
    KS_LOCAL_STATEMENTS(X)
#undef X
};
enum { KS_LOCAL_STATEMENT_COUNT = KS_LOCAL_SLICE_SINCE + 1 };

struct ks_local_db {
    sqlite3 *handle;
    sqlite3_stmt *statements[KS_LOCAL_STATEMENT_COUNT];
    struct ks_sqlite_place place;
    bool slice;     /* It was captured: version 2. */
    int64_t stream; /* Its row. */
    int64_t created_ms;
    int64_t retention_ms; /* As it was when the file was opened. */
    uint32_t made_shards; /* With how many shards it was made. */
    char name[KS_STREAM_NAME_MAX + 1];
    char *path;
    uint32_t busy_seed; /* For the waits of the busy handler. */
};

/* Opens the file and the stream in it, and makes what is not there: the stream with `shards` (1 ..
 * KS_LOCAL_SHARDS_MAX) equal shards. Allocates `ret_db`.
 * FOREIGN (a file of something else, or of a newer version), CORRUPT (also: no database at all), DISK,
 * SYSTEM (cannot be opened), BUSY, NO_MEMORY; INVALID for a name or a number that cannot be. The detail
 * says which file, what and why. */
KS_MUST_USE ks_err ks_local_db_open(const char *path, const char *stream, uint32_t shards,
                                    struct ks_local_db **ret_db, struct ks_detail *detail);
/* Makes a slice in the new, empty file `path`, with a stream and without shards, and begins a transaction that lasts
 * until the slice is closed: nothing is durable before ks_local_db_end(), and a failure leaves a file that is to be
 * removed. `created_ms`, Unix ms, is that of the captured stream. Allocates `ret_db`. Errors as above. */
KS_MUST_USE ks_err ks_local_db_make_slice(const char *path, const char *stream, int64_t created_ms,
                                          struct ks_local_db **ret_db, struct ks_detail *detail);
/* NULL is allowed. */
void ks_local_db_close(struct ks_local_db *db);

/* What a SQLite result code means; fills the detail with `doing`, the file and what SQLite says. KS_OK
 * for SQLITE_OK, SQLITE_ROW and SQLITE_DONE. */
KS_MUST_USE ks_err ks_local_db_err(struct ks_local_db *db, int code, const char *doing,
                                   struct ks_detail *detail);

/* KS_OK while the path names the file that is open. What was committed to another one is lost: DISK. */
KS_MUST_USE ks_err ks_local_db_check_place(struct ks_local_db *db, struct ks_detail *detail);

/* A statement, ready to be bound; reset it with ks_local_db_done. */
KS_MUST_USE ks_err ks_local_db_use(struct ks_local_db *db, enum ks_local_statement which,
                                   sqlite3_stmt **ret_statement, struct ks_detail *detail);
static inline void ks_local_db_done(sqlite3_stmt *statement)
{
    (void)sqlite3_reset(statement);
    (void)sqlite3_clear_bindings(statement);
}

/* Runs a statement to its end. */
KS_MUST_USE ks_err ks_local_db_run(struct ks_local_db *db, enum ks_local_statement which,
                                   const int64_t *values, int count, struct ks_detail *detail);
/* The same for a statement that gives a row: its first column. NOT_FOUND without a row. */
KS_MUST_USE ks_err ks_local_db_ask(struct ks_local_db *db, enum ks_local_statement which,
                                   const int64_t *values, int count, int64_t *ret_value,
                                   struct ks_detail *detail);

/* Ends a transaction: commits if `err` is KS_OK, else rolls back. Returns `err`, or why the commit
 * failed; then nothing of it was done. */
KS_MUST_USE ks_err ks_local_db_end(struct ks_local_db *db, ks_err err, struct ks_detail *detail);

/* The retention of the stream; used by tests and for what people set later. */
KS_MUST_USE ks_err ks_local_db_set_retention(struct ks_local_db *db, int64_t retention_ms,
                                             struct ks_detail *detail);

#endif
