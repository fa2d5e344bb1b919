/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/local/shards.h"

#include "adapters/local/sequence.h"
#include "base/budget.h"
#include "base/loop.h"

#include <assert.h>
#include <stdio.h>

static const char PREFIX[] = "shardId-";
enum { NAME_DIGITS = 12 };

void ks_shards_name(int64_t index, char buffer[KS_SHARD_ID_MAX + 1])
{
    assert(index >= 0);
    (void)snprintf(buffer, KS_SHARD_ID_MAX + 1, "%s%0*lld", PREFIX, NAME_DIGITS, (long long)index);
}

ks_err ks_shards_index(ks_view shard, uint32_t *ret_index)
{
    ks_view prefix = ks_view_of(PREFIX, sizeof(PREFIX) - 1);
    uint64_t index = 0;

    if (!ks_view_starts(shard, prefix) || shard.size != prefix.size + NAME_DIGITS)
        return KS_FAIL(INVALID);
    KS_TRY(ks_view_u64(ks_view_of(shard.data + prefix.size, NAME_DIGITS), &index));
    if (index > UINT32_MAX)
        return KS_FAIL(INVALID);
    *ret_index = (uint32_t)index;
    return KS_OK;
}

/* --- Rows --- */

static int bind_key(sqlite3_stmt *statement, int column, ks_hash_key key)
{
    uint8_t bytes[KS_HASH_KEY_SIZE];

    ks_hash_key_put(key, bytes);
    return sqlite3_bind_blob(statement, column, bytes, sizeof(bytes), SQLITE_TRANSIENT);
}

static int bind_index(sqlite3_stmt *statement, int column, int64_t index)
{
    return index < 0 ? sqlite3_bind_null(statement, column)
                     : sqlite3_bind_int64(statement, column, index);
}

ks_err ks_shards_add(struct ks_local_db *db, const struct ks_shard_row_local *row,
                     struct ks_detail *detail)
{
    sqlite3_stmt *statement;

    KS_TRY(ks_local_db_use(db, KS_LOCAL_ADD_SHARD, &statement, detail));
    int code = sqlite3_bind_int64(statement, 1, db->stream);
    if (code == SQLITE_OK)
        code = sqlite3_bind_int64(statement, 2, row->index);
    if (code == SQLITE_OK)
        code = bind_index(statement, 3, row->parent);
    if (code == SQLITE_OK)
        code = bind_index(statement, 4, row->adjacent);
    if (code == SQLITE_OK)
        code = bind_key(statement, 5, row->start);
    if (code == SQLITE_OK)
        code = bind_key(statement, 6, row->end);
    if (code == SQLITE_OK)
        code = sqlite3_bind_int64(statement, 7, row->made_s);
    if (code == SQLITE_OK)
        code = sqlite3_bind_int64(statement, 8, row->arrival_ms);
    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    ks_local_db_done(statement);
    return ks_local_db_err(db, code, "make a shard", detail);
}

/* Gives the row the stream's next index and adds it. */
static ks_err add_next(struct ks_local_db *db, struct ks_shard_row_local *row,
                       struct ks_detail *detail)
{
    int64_t index = 0;

    KS_TRY(ks_local_db_ask(db, KS_LOCAL_TAKE_INDEX, &db->stream, 1, &index, detail));
    if (index < 0 || index > UINT32_MAX) {
        ks_detail_set(detail, "local stream %s: its next index makes no sense", db->path);
        return KS_FAIL(CORRUPT);
    }
    row->index = (uint32_t)index;
    return ks_shards_add(db, row, detail);
}

ks_err ks_shards_make(struct ks_local_db *db, uint32_t count, int64_t now_ms,
                      struct ks_detail *detail)
{
    for (uint32_t at = 0; at < count; at++) {
        struct ks_shard_row_local row = {.parent = -1, .adjacent = -1, .made_s = now_ms / 1000};
        ks_hash_key_range(at, count, &row.start, &row.end);
        KS_TRY(add_next(db, &row, detail));
    }
    return KS_OK;
}

static ks_view column_blob(sqlite3_stmt *statement, int column)
{
    const void *bytes = sqlite3_column_blob(statement, column);

    return ks_view_of(bytes, (size_t)sqlite3_column_bytes(statement, column));
}

static int64_t column_index(sqlite3_stmt *statement, int column)
{
    return sqlite3_column_type(statement, column) == SQLITE_NULL
               ? -1
               : sqlite3_column_int64(statement, column);
}

static ks_err no_sense(struct ks_local_db *db, int64_t index, struct ks_detail *detail)
{
    ks_detail_set(detail, "local stream %s: the row of shard %lld makes no sense", db->path,
                  (long long)index);
    return KS_FAIL(CORRUPT);
}

static bool is_arrival(int64_t ms)
{
    return ms >= 0 && ms / 1000 < KS_LOCAL_SECONDS - 1;
}

/* The columns of ALL_SHARDS, OPEN_SHARDS and ONE_SHARD. */
static ks_err read_row(struct ks_local_db *db, sqlite3_stmt *statement,
                       struct ks_shard_row_local *row, struct ks_detail *detail)
{
    int64_t index = sqlite3_column_int64(statement, 1);
    int64_t next = sqlite3_column_int64(statement, 8);
    int64_t made_s = sqlite3_column_int64(statement, 6);

    *row = (struct ks_shard_row_local){
        .id = sqlite3_column_int64(statement, 0),
        .index = (uint32_t)index,
        .parent = column_index(statement, 2),
        .adjacent = column_index(statement, 3),
        .made_s = made_s,
        .closed = sqlite3_column_type(statement, 7) != SQLITE_NULL,
        .closed_ms = sqlite3_column_int64(statement, 7),
        .next = (uint64_t)next,
        .arrival_ms = sqlite3_column_int64(statement, 9),
    };
    bool sane = index >= 0 && index <= UINT32_MAX && next > 0 &&
                next < INT64_C(1) << KS_LOCAL_NUMBER_BITS && made_s >= 0 &&
                made_s < KS_LOCAL_SECONDS - 1 && row->id > 0 && row->id < 1 << 22 &&
                is_arrival(row->arrival_ms);
    if (sane && ks_ok(ks_hash_key_get(column_blob(statement, 4), &row->start)) &&
        ks_ok(ks_hash_key_get(column_blob(statement, 5), &row->end)) && row->start <= row->end)
        return KS_OK;
    return no_sense(db, index, detail);
}

static ks_err grow(struct ks_shard_row_local **rows, uint32_t *capacity, uint32_t count)
{
    if (count < *capacity)
        return KS_OK;
    uint32_t wanted = *capacity == 0 ? 16 : *capacity * 2;
    void *moved = ks_realloc(*rows, wanted * sizeof(**rows));
    if (moved == NULL)
        return KS_FAIL(NO_MEMORY);
    *rows = moved;
    *capacity = wanted;
    return KS_OK;
}

ks_err ks_shards_load(struct ks_local_db *db, bool open_only, struct ks_shard_row_local **ret_rows,
                      uint32_t *ret_count, struct ks_detail *detail)
{
    struct ks_shard_row_local *rows = NULL;
    uint32_t capacity = 0;
    uint32_t count = 0;
    sqlite3_stmt *statement;
    enum ks_local_statement which = open_only ? KS_LOCAL_OPEN_SHARDS : KS_LOCAL_ALL_SHARDS;

    KS_TRY(ks_local_db_use(db, which, &statement, detail));
    int code = sqlite3_bind_int64(statement, 1, db->stream);
    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    ks_err err = KS_OK;
    while (ks_ok(err) && code == SQLITE_ROW) {
        err = count < KS_LOCAL_SHARDS_MAX ? grow(&rows, &capacity, count) : KS_FAIL(FULL);
        if (ks_ok(err))
            err = read_row(db, statement, &rows[count++], detail);
        code = sqlite3_step(statement);
    }
    if (ks_ok(err))
        err = ks_local_db_err(db, code, "list its shards", detail);
    ks_local_db_done(statement);
    if (!ks_ok(err)) {
        ks_free(rows);
        return err;
    }
    *ret_rows = rows;
    *ret_count = count;
    return KS_OK;
}

static ks_err no_shard(struct ks_local_db *db, const char *shard, struct ks_detail *detail)
{
    ks_detail_set(detail, "local stream %s: shard %s in stream %s does not exist", db->path, shard,
                  db->name);
    return KS_FAIL(NOT_FOUND);
}

ks_err ks_shards_find(struct ks_local_db *db, const char *shard, struct ks_shard_row_local *ret_row,
                      struct ks_detail *detail)
{
    sqlite3_stmt *statement;
    uint32_t index = 0;

    if (!ks_ok(ks_shards_index(ks_view_text(shard), &index)))
        return no_shard(db, shard, detail);
    KS_TRY(ks_local_db_use(db, KS_LOCAL_ONE_SHARD, &statement, detail));
    int code = sqlite3_bind_int64(statement, 1, db->stream);
    if (code == SQLITE_OK)
        code = sqlite3_bind_int64(statement, 2, index);
    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    ks_err err = ks_local_db_err(db, code, "find a shard", detail);
    if (ks_ok(err))
        err = code == SQLITE_ROW ? read_row(db, statement, ret_row, detail)
                                 : no_shard(db, shard, detail);
    ks_local_db_done(statement);
    return err;
}

ks_err ks_shards_children(struct ks_local_db *db, uint32_t index,
                          char ret_children[KS_CHILDREN_MAX][KS_SHARD_ID_MAX + 1],
                          struct ks_detail *detail)
{
    sqlite3_stmt *statement;
    uint32_t count = 0;
    int64_t child = 0;

    KS_TRY(ks_local_db_use(db, KS_LOCAL_CHILDREN, &statement, detail));
    int code = sqlite3_bind_int64(statement, 1, db->stream);
    if (code == SQLITE_OK)
        code = sqlite3_bind_int64(statement, 2, index);
    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    for (; code == SQLITE_ROW && child >= 0 && count < KS_CHILDREN_MAX; count++) {
        child = sqlite3_column_int64(statement, 0);
        if (child >= 0)
            ks_shards_name(child, ret_children[count]);
        code = sqlite3_step(statement);
    }
    ks_local_db_done(statement);
    KS_TRY(ks_local_db_err(db, code, "find children", detail));
    return child >= 0 ? KS_OK : no_sense(db, child, detail);
}

void ks_shards_tell(const struct ks_shard_row_local *row, struct ks_shard_listing *ret_listing)
{
    *ret_listing = (struct ks_shard_listing){.closed = row->closed};
    ks_shards_name(row->index, ret_listing->shard);
    if (row->parent >= 0)
        ks_shards_name(row->parent, ret_listing->parents[0]);
    if (row->adjacent >= 0)
        ks_shards_name(row->adjacent, ret_listing->parents[1]);
    ks_hash_key_format(row->start, ret_listing->hash_start);
    ks_hash_key_format(row->end, ret_listing->hash_end);
}

ks_err ks_shards_list(struct ks_local_db *db, int64_t since_ms,
                      struct ks_shard_listing **ret_shards, uint32_t *ret_count,
                      struct ks_detail *detail)
{
    struct ks_shard_row_local *rows;
    struct ks_shard_listing *shards;
    uint32_t listed = 0;
    uint32_t count;

    KS_TRY(ks_shards_load(db, false, &rows, &count, detail));
    shards = ks_alloc((count + 1) * sizeof(*shards));
    for (uint32_t at = 0; shards != NULL && at < count; at++)
        if (!rows[at].closed || db->slice || rows[at].closed_ms >= since_ms)
            ks_shards_tell(&rows[at], &shards[listed++]);
    ks_free(rows);
    if (shards == NULL)
        return KS_FAIL(NO_MEMORY);
    *ret_shards = shards;
    *ret_count = listed;
    return KS_OK;
}

/* --- Split and merge --- */

static ks_err open_shard(struct ks_local_db *db, const char *shard, struct ks_shard_row_local *row,
                         struct ks_detail *detail)
{
    KS_TRY(ks_shards_find(db, shard, row, detail));
    if (!row->closed)
        return KS_OK;
    ks_detail_set(detail, "local stream %s: shard %s is closed", db->path, shard);
    return KS_FAIL(INVALID);
}

static ks_err close_shard(struct ks_local_db *db, const struct ks_shard_row_local *row,
                          int64_t now_ms, struct ks_detail *detail)
{
    int64_t values[] = {now_ms, row->id};

    return ks_local_db_run(db, KS_LOCAL_CLOSE_SHARD, values, 2, detail);
}

/* Children are younger than their parents, also within one second: their numbers must be greater. */
static int64_t younger(int64_t now_ms, const struct ks_shard_row_local *parent)
{
    int64_t now_s = now_ms / 1000;

    return now_s > parent->made_s ? now_s : parent->made_s + 1;
}

/* A shard is closed after its last arrival, also by a clock that was set back. */
static int64_t not_before(int64_t now_ms, const struct ks_shard_row_local *parent)
{
    return now_ms > parent->arrival_ms ? now_ms : parent->arrival_ms;
}

static ks_err split(struct ks_local_db *db, const char *shard, ks_hash_key at, int64_t now_ms,
                    struct ks_detail *detail)
{
    struct ks_shard_row_local parent;

    KS_TRY(open_shard(db, shard, &parent, detail));
    if (at <= parent.start || at > parent.end) {
        ks_detail_set(detail, "local stream %s: the new hash key is not within shard %s", db->path,
                      shard);
        return KS_FAIL(INVALID);
    }
    now_ms = not_before(now_ms, &parent);
    struct ks_shard_row_local child = {.parent = parent.index,
                                       .adjacent = -1,
                                       .made_s = younger(now_ms, &parent),
                                       .arrival_ms = parent.arrival_ms};
    child.start = parent.start;
    child.end = at - 1;
    KS_TRY(add_next(db, &child, detail));
    child.start = at;
    child.end = parent.end;
    KS_TRY(add_next(db, &child, detail));
    return close_shard(db, &parent, now_ms, detail);
}

ks_err ks_shards_split(struct ks_local_db *db, const char *shard, const char *at,
                       struct ks_detail *detail)
{
    ks_hash_key key = 0;

    if (!ks_ok(ks_hash_key_parse(ks_view_text(at), &key))) {
        ks_detail_set(detail, "local stream %s: %s is no hash key", db->path, at);
        return KS_FAIL(INVALID);
    }
    KS_TRY(ks_local_db_run(db, KS_LOCAL_BEGIN_WRITE, NULL, 0, detail));
    return ks_local_db_end(db, split(db, shard, key, ks_wall_now().ms, detail), detail);
}

static ks_err merge(struct ks_local_db *db, const char *shard, const char *adjacent, int64_t now_ms,
                    struct ks_detail *detail)
{
    struct ks_shard_row_local one;
    struct ks_shard_row_local other;

    KS_TRY(open_shard(db, shard, &one, detail));
    KS_TRY(open_shard(db, adjacent, &other, detail));
    bool before = one.end != KS_HASH_KEY_LAST && one.end + 1 == other.start;
    bool behind = other.end != KS_HASH_KEY_LAST && other.end + 1 == one.start;
    if (!before && !behind) {
        ks_detail_set(detail, "local stream %s: shards %s and %s are not adjacent", db->path, shard,
                      adjacent);
        return KS_FAIL(INVALID);
    }
    now_ms = not_before(not_before(now_ms, &one), &other);
    int64_t after_one = younger(now_ms, &one);
    int64_t after_other = younger(now_ms, &other);
    struct ks_shard_row_local child = {
        .parent = one.index,
        .adjacent = other.index,
        .start = before ? one.start : other.start,
        .end = before ? other.end : one.end,
        .made_s = after_one > after_other ? after_one : after_other,
        .arrival_ms = not_before(one.arrival_ms, &other),
    };
    KS_TRY(add_next(db, &child, detail));
    KS_TRY(close_shard(db, &one, now_ms, detail));
    return close_shard(db, &other, now_ms, detail);
}

ks_err ks_shards_merge(struct ks_local_db *db, const char *shard, const char *adjacent,
                       struct ks_detail *detail)
{
    KS_TRY(ks_local_db_run(db, KS_LOCAL_BEGIN_WRITE, NULL, 0, detail));
    return ks_local_db_end(db, merge(db, shard, adjacent, ks_wall_now().ms, detail), detail);
}

/* --- Time --- */

/* The first record in [from, to): its number and arrival. False if there is none. */
static ks_err first_record(struct ks_local_db *db, int64_t shard, uint64_t from, uint64_t to,
                           bool *ret_found, uint64_t *number, int64_t *arrival_ms,
                           struct ks_detail *detail)
{
    sqlite3_stmt *statement;

    KS_TRY(ks_local_db_use(db, KS_LOCAL_NEXT_RECORD, &statement, detail));
    int code = sqlite3_bind_int64(statement, 1, ks_local_record_id(shard, from));
    if (code == SQLITE_OK)
        code = sqlite3_bind_int64(statement, 2, ks_local_record_id(shard, to));
    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    *ret_found = code == SQLITE_ROW;
    if (*ret_found) {
        *number = ks_local_record_number(sqlite3_column_int64(statement, 0));
        *arrival_ms = sqlite3_column_int64(statement, 1);
    }
    ks_local_db_done(statement);
    return ks_local_db_err(db, code, "find a record", detail);
}

/* Arrivals in a slice may fall within a shard: Kinesis calls them approximate. */
static ks_err since_in_slice(struct ks_local_db *db, const struct ks_shard_row_local *row,
                             uint64_t from, int64_t since_ms, uint64_t *ret_number,
                             struct ks_detail *detail)
{
    int64_t values[] = {ks_local_record_id(row->id, from), ks_local_record_id(row->id, row->next),
                        since_ms};
    int64_t id = 0;
    ks_err err = ks_local_db_ask(db, KS_LOCAL_SLICE_SINCE, values, 3, &id, detail);

    if (ks_err_is(err, KS_ERR_NOT_FOUND)) {
        *ret_number = row->next;
        return KS_OK;
    }
    *ret_number = ks_local_record_number(id);
    return err;
}

ks_err ks_shards_since(struct ks_local_db *db, const struct ks_shard_row_local *row, uint64_t from,
                       int64_t since_ms, uint64_t *ret_number, struct ks_detail *detail)
{
    uint64_t low = from;       /* Every record below it is too old. */
    uint64_t high = row->next; /* Every record from it on is young enough. */

    if (db->slice)
        return since_in_slice(db, row, from, since_ms, ret_number, detail);
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        uint64_t number = 0;
        int64_t arrival_ms = 0;
        bool found = false;

        KS_TRY(first_record(db, row->id, middle, high, &found, &number, &arrival_ms, detail));
        if (found && arrival_ms < since_ms)
            low = number + 1;
        else
            high = middle;
    }
    *ret_number = low;
    return KS_OK;
}

ks_err ks_shards_last_arrival(struct ks_local_db *db, int64_t *ret_ms, struct ks_detail *detail)
{
    KS_TRY(ks_local_db_ask(db, KS_LOCAL_LAST_ARRIVAL, &db->stream, 1, ret_ms, detail));
    if (is_arrival(*ret_ms))
        return KS_OK;
    ks_detail_set(detail, "local stream %s: the last arrival of a shard makes no sense", db->path);
    return KS_FAIL(CORRUPT);
}

ks_err ks_shards_raise(struct ks_local_db *db, int64_t least_ms, struct ks_detail *detail)
{
    int64_t values[] = {least_ms, db->stream};

    return ks_local_db_run(db, KS_LOCAL_RAISE_ARRIVALS, values, 2, detail);
}

ks_err ks_shards_first_arrival(struct ks_local_db *db, const struct ks_shard_row_local *row,
                               uint64_t from, int64_t *ret_ms, struct ks_detail *detail)
{
    uint64_t number = 0;
    bool found = false;

    KS_TRY(first_record(db, row->id, from, row->next, &found, &number, ret_ms, detail));
    if (!found)
        return KS_FAIL(NOT_FOUND);
    return is_arrival(*ret_ms) ? KS_OK : no_sense(db, row->index, detail);
}

/* Trims one shard; `left` is how many records may still be removed. */
static ks_err trim_shard(struct ks_local_db *db, const struct ks_shard_row_local *row,
                         int64_t horizon_ms, uint32_t *left, bool *more, struct ks_detail *detail)
{
    uint64_t young = 0;
    uint64_t oldest = 0;
    int64_t arrival_ms = 0;
    bool found = false;

    KS_TRY(first_record(db, row->id, 0, row->next, &found, &oldest, &arrival_ms, detail));
    if (found && arrival_ms < horizon_ms) {
        KS_TRY(ks_shards_since(db, row, oldest, horizon_ms, &young, detail));
        uint64_t end = young - oldest > *left ? oldest + *left : young;
        int64_t values[] = {ks_local_record_id(row->id, oldest), ks_local_record_id(row->id, end)};
        KS_TRY(ks_local_db_run(db, KS_LOCAL_REMOVE_RECORDS, values, 2, detail));
        *left -= (uint32_t)(end - oldest);
        *more = *more || end < young;
        found = end < row->next;
    }
    if (!found && row->closed && row->closed_ms < horizon_ms)
        return ks_local_db_run(db, KS_LOCAL_REMOVE_SHARD, &row->id, 1, detail);
    return KS_OK;
}

static ks_err trim(struct ks_local_db *db, int64_t now_ms, uint32_t records_max, bool *more,
                   struct ks_detail *detail)
{
    struct ks_shard_row_local *rows;
    uint32_t count;
    uint32_t left = records_max;
    int64_t retention_ms = 0;

    KS_TRY(ks_local_db_ask(db, KS_LOCAL_GET_RETENTION, &db->stream, 1, &retention_ms, detail));
    if (retention_ms < 0) {
        ks_detail_set(detail, "local stream %s: its retention makes no sense", db->path);
        return KS_FAIL(CORRUPT);
    }
    KS_TRY(ks_shards_load(db, false, &rows, &count, detail));
    ks_err err = KS_OK;
    for (uint32_t at = 0; ks_ok(err) && at < count; at++)
        err = trim_shard(db, &rows[at], now_ms - retention_ms, &left, more, detail);
    ks_free(rows);
    return err;
}

ks_err ks_shards_trim(struct ks_local_db *db, int64_t now_ms, uint32_t records_max, bool *ret_more,
                      struct ks_detail *detail)
{
    bool more = false;

    *ret_more = false;
    if (db->slice)
        return KS_OK;
    KS_TRY(ks_local_db_run(db, KS_LOCAL_BEGIN_WRITE, NULL, 0, detail));
    KS_TRY(ks_local_db_end(db, trim(db, now_ms, records_max, &more, detail), detail));
    *ret_more = more;
    return KS_OK;
}
