/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/local/read.h"

#include "adapters/kinesis/aggregate.h"
#include "adapters/kinesis/builder.h"
#include "adapters/local/sequence.h"
#include "adapters/local/shards.h"
#include "base/budget.h"
#include "ports/batches.h"

#include <assert.h>

/* --- Where to begin --- */

/* The first number at or behind a sequence number; behind it if `after`. */
static ks_err place_of(struct ks_local_db *db, const struct ks_shard_row_local *row,
                       const struct ks_position *from, bool after, uint64_t *ret_next,
                       struct ks_detail *detail)
{
    struct ks_local_sequence asked;
    ks_view text = ks_view_text(from->sequence);
    char mine[KS_SEQUENCE_MAX + 1];
    /* The shard's first and next number: without the second of arrival, which only breaks ties. */
    struct ks_local_sequence edge = {
        .shard_second = (uint64_t)row->made_s, .shard_index = row->index, .number = 1};
    ks_err err = ks_local_sequence_parse(text, &asked);

    if (ks_err_is(err, KS_ERR_INVALID)) {
        ks_detail_set(detail, "%s is not a sequence number", from->sequence);
        return err;
    }
    ks_local_sequence_format(&edge, mine);
    if (ks_position_compare(text, -1, ks_view_text(mine), -1) < 0) {
        *ret_next = 1;
        return KS_OK;
    }
    if (ks_ok(err) && asked.shard_second == (uint64_t)row->made_s &&
        asked.shard_index == row->index && asked.number < row->next) {
        *ret_next = asked.number + (after ? 1 : 0);
        return KS_OK;
    }
    ks_detail_set(detail, "local stream %s: the shard has not given the sequence number %.60s",
                  db->path, from->sequence);
    return KS_FAIL(INVALID);
}

/* The sequence number of a record of a slice. CORRUPT: a record of its shard is missing, or this is not a number. */
static ks_err sequence_of(struct ks_local_db *db, const struct ks_shard_row_local *row,
                          uint64_t number, char ret_sequence[KS_SEQUENCE_MAX + 1],
                          struct ks_detail *detail)
{
    sqlite3_stmt *statement;

    KS_TRY(ks_local_db_use(db, KS_LOCAL_SLICE_SEQUENCE, &statement, detail));
    int code = sqlite3_bind_int64(statement, 1, ks_local_record_id(row->id, number));
    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    ks_err err = ks_local_db_err(db, code, "find a record", detail);
    if (ks_ok(err)) {
        const void *text = code == SQLITE_ROW ? sqlite3_column_blob(statement, 0) : NULL;
        ks_view digits = ks_view_of(text, (size_t)sqlite3_column_bytes(statement, 0));

        if (!ks_sequence_is_valid(digits) ||
            !ks_ok(ks_view_copy_text(digits, ret_sequence, KS_SEQUENCE_MAX + 1))) {
            ks_detail_set(detail, "local stream %s: record %llu of a shard makes no sense",
                          db->path, (unsigned long long)number);
            err = KS_FAIL(CORRUPT);
        }
    }
    ks_local_db_done(statement);
    return err;
}

/* As place_of(): in a slice the numbers of a shard are 1, 2, 3 .. and its sequence numbers rise. */
static ks_err place_in_slice(struct ks_local_db *db, const struct ks_shard_row_local *row,
                             const struct ks_position *from, bool after, uint64_t *ret_next,
                             struct ks_detail *detail)
{
    ks_view asked = ks_view_text(from->sequence);
    char found[KS_SEQUENCE_MAX + 1] = "";
    uint64_t low = 1;
    uint64_t high = row->next;

    if (!ks_sequence_is_valid(asked)) {
        ks_detail_set(detail, "%s is not a sequence number", from->sequence);
        return KS_FAIL(INVALID);
    }
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        int order;

        KS_TRY(sequence_of(db, row, middle, found, detail));
        order = ks_position_compare(ks_view_text(found), -1, asked, -1);
        if (order < 0 || (order == 0 && after))
            low = middle + 1;
        else
            high = middle;
    }
    *ret_next = low;
    if (low < row->next)
        return KS_OK;
    if (low > 1)
        KS_TRY(sequence_of(db, row, low - 1, found, detail));
    if (ks_position_compare(ks_view_text(found), -1, asked, -1) == 0)
        return KS_OK;
    ks_detail_set(detail, "local stream %s: the captured slice of the shard ends before %.60s",
                  db->path, from->sequence);
    return KS_FAIL(INVALID);
}

/* When the record of a sequence number arrived, to the second; 0: it says nothing of that. */
static int64_t arrival_of(const struct ks_position *from)
{
    struct ks_local_sequence sequence;

    if (!ks_ok(ks_local_sequence_parse(ks_view_text(from->sequence), &sequence)))
        return 0;
    return (int64_t)sequence.second * 1000;
}

static ks_err resolve(struct ks_local_db *db, const struct ks_shard_row_local *row,
                      struct ks_local_cursor *cursor, struct ks_detail *detail)
{
    const struct ks_position *from = &cursor->from;
    uint64_t next = 1;
    bool by_time = false;
    /* Within an aggregate: the aggregate comes again. */
    bool after = from->kind == KS_POSITION_AFTER_SEQUENCE && from->sub_sequence < 0;

    switch (from->kind) {
    case KS_POSITION_TRIM_HORIZON: break;
    case KS_POSITION_AT_TIMESTAMP: by_time = true; break;
    case KS_POSITION_LATEST:
    case KS_POSITION_SHARD_END: next = row->next; break;
    case KS_POSITION_AFTER_SEQUENCE:
    case KS_POSITION_AT_SEQUENCE:
        KS_TRY(db->slice ? place_in_slice(db, row, from, after, &next, detail)
                         : place_of(db, row, from, after, &next, detail));
        break;
    }
    cursor->exact = from->kind == KS_POSITION_AFTER_SEQUENCE ||
                    from->kind == KS_POSITION_AT_SEQUENCE || from->kind == KS_POSITION_LATEST;
    cursor->read_ms = cursor->exact ? arrival_of(from) : 0;
    cursor->resolved = true;
    cursor->by_time = by_time;
    cursor->shard_id = row->id;
    cursor->index = row->index;
    cursor->made_s = row->made_s;
    cursor->next = next;
    return KS_OK;
}

ks_err ks_local_resolve(struct ks_local_db *db, struct ks_local_cursor *cursor,
                        struct ks_detail *detail)
{
    struct ks_shard_row_local row;

    KS_TRY(ks_shards_find(db, cursor->shard, &row, detail));
    return resolve(db, &row, cursor, detail);
}

/* --- What there is --- */

/* What a record takes in a block, its place in the array included. */
static size_t record_bytes(size_t payload, size_t digits)
{
    return payload + digits + sizeof(struct ks_record);
}

static ks_err no_sense(struct ks_local_db *db, const struct ks_local_cursor *cursor,
                       struct ks_detail *detail)
{
    ks_detail_set(detail, "local stream %s: a record of shard %s makes no sense", db->path,
                  cursor->shard);
    return KS_FAIL(CORRUPT);
}

static ks_err look_at(struct ks_local_db *db, const struct ks_local_cursor *cursor,
                      const struct ks_shard_row_local *row, uint32_t records_max,
                      uint32_t bytes_max, int64_t *first_ms, struct ks_local_look *look,
                      struct ks_detail *detail)
{
    sqlite3_stmt *statement;
    size_t payload = 0;
    uint64_t number = cursor->next;
    bool in_order = true;

    KS_TRY(
        ks_local_db_use(db, db->slice ? KS_LOCAL_SLICE_SIZES : KS_LOCAL_SIZES, &statement, detail));
    int code = sqlite3_bind_int64(statement, 1, ks_local_record_id(row->id, cursor->next));
    if (code == SQLITE_OK)
        code = sqlite3_bind_int64(statement, 2, ks_local_record_id(row->id, row->next));
    if (code == SQLITE_OK)
        code = sqlite3_bind_int64(statement, 3, records_max);
    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    while (code == SQLITE_ROW) {
        size_t bytes = (size_t)sqlite3_column_int64(statement, 1);
        if (look->count > 0 && payload + bytes > bytes_max)
            break;
        if (cursor->until_ms > 0 && sqlite3_column_int64(statement, 2) > cursor->until_ms) {
            look->next_ms = sqlite3_column_int64(statement, 2);
            break;
        }
        payload += bytes;
        look->last = ks_local_record_number(sqlite3_column_int64(statement, 0));
        look->last_ms = sqlite3_column_int64(statement, 2);
        /* Only in a broken file they are not. */
        in_order = in_order && look->last >= number && look->last_ms >= 0;
        number = look->last + 1;
        if (look->count == 0) {
            look->first = look->last;
            *first_ms = look->last_ms;
        }
        look->count++;
        look->block_bytes += record_bytes(bytes, (size_t)sqlite3_column_int64(statement, 3));
        code = sqlite3_step(statement);
    }
    ks_local_db_done(statement);
    KS_TRY(ks_local_db_err(db, code, "look for records", detail));
    return in_order ? KS_OK : no_sense(db, cursor, detail);
}

/* The numbers of a shard have no holes: what is missing has expired. Numbers before a horizon or an instant were never
 * wanted. */
static void note_expired(struct ks_local_cursor *cursor, const struct ks_shard_row_local *row,
                         int64_t first_ms, struct ks_local_look *look)
{
    const uint64_t first = look->count > 0 ? look->first : row->next;

    if (cursor->by_time || first <= cursor->next || (look->count == 0 && look->next_ms > 0))
        return;
    if (cursor->exact)
        look->expired = (struct ks_expired){
            .found = true,
            .certain = true,
            .from_ms = cursor->read_ms,
            .to_ms = look->count > 0 ? first_ms : row->arrival_ms,
            .count = first - cursor->next,
        };
    if (look->count == 0) {
        cursor->next = row->next;
        cursor->exact = true;
        cursor->read_ms = row->arrival_ms;
    }
}

static ks_err look_within(struct ks_local_db *db, struct ks_local_cursor *cursor,
                          uint32_t records_max, uint32_t bytes_max, int64_t now_ms,
                          struct ks_local_look *look, struct ks_detail *detail)
{
    struct ks_shard_row_local row;
    int64_t first_ms = 0;

    KS_TRY(ks_shards_find(db, cursor->shard, &row, detail));
    if (!cursor->resolved || cursor->shard_id != row.id)
        KS_TRY(resolve(db, &row, cursor, detail));
    if (cursor->by_time) {
        KS_TRY(ks_shards_since(db, &row, cursor->next, cursor->from.timestamp_ms, &cursor->next,
                               detail));
        cursor->by_time = cursor->next == row.next;
    }
    KS_TRY(look_at(db, cursor, &row, records_max, bytes_max, &first_ms, look, detail));
    note_expired(cursor, &row, first_ms, look);

    bool held = look->next_ms > 0;
    bool last = !held && (look->count == 0 || look->last + 1 == row.next);
    if (!last && !held)
        look->millis_behind = now_ms > look->last_ms ? now_ms - look->last_ms : 1;
    look->at_end = last && row.closed;
    if (look->at_end)
        KS_TRY(ks_shards_children(db, row.index, look->children, detail));
    return KS_OK;
}

ks_err ks_local_first(struct ks_local_db *db, struct ks_local_cursor *cursor, int64_t *ret_ms,
                      struct ks_detail *detail)
{
    const bool exact = cursor->from.kind != KS_POSITION_TRIM_HORIZON &&
                       cursor->from.kind != KS_POSITION_AT_TIMESTAMP;
    struct ks_shard_row_local *rows = NULL;
    struct ks_shard_row_local row;
    uint32_t count = 0;
    int64_t least_ms = -1;
    int64_t first_ms = 0;
    ks_err err = KS_OK;

    KS_TRY(ks_shards_find(db, cursor->shard, &row, detail));
    if (!cursor->resolved || cursor->shard_id != row.id)
        KS_TRY(resolve(db, &row, cursor, detail));
    if (exact)
        return ks_shards_first_arrival(db, &row, cursor->next, ret_ms, detail);
    KS_TRY(ks_shards_load(db, false, &rows, &count, detail));
    for (uint32_t i = 0; ks_ok(err) && i < count; i++) {
        err = ks_shards_first_arrival(db, &rows[i], 1, &first_ms, detail);
        if (ks_ok(err) && (least_ms < 0 || first_ms < least_ms))
            least_ms = first_ms;
        if (ks_err_is(err, KS_ERR_NOT_FOUND))
            err = KS_OK;
    }
    ks_free(rows);
    KS_TRY(err);
    if (least_ms < 0)
        return KS_FAIL(NOT_FOUND);
    if (cursor->from.kind == KS_POSITION_AT_TIMESTAMP && least_ms < cursor->from.timestamp_ms)
        least_ms = cursor->from.timestamp_ms;
    *ret_ms = least_ms;
    return KS_OK;
}

ks_err ks_local_look(struct ks_local_db *db, struct ks_local_cursor *cursor, uint32_t records_max,
                     uint32_t bytes_max, int64_t now_ms, struct ks_local_look *ret_look,
                     struct ks_detail *detail)
{
    struct ks_local_look look = {.count = 0};

    assert(records_max > 0);
    /* One snapshot: the end of a shard and its last record are seen together. */
    KS_TRY(ks_local_db_run(db, KS_LOCAL_BEGIN_READ, NULL, 0, detail));
    ks_err err = look_within(db, cursor, records_max, bytes_max, now_ms, &look, detail);
    KS_TRY(ks_local_db_end(db, err, detail));
    *ret_look = look;
    return KS_OK;
}

/* --- The batch --- */

static ks_view keep(struct ks_block *block, const void *bytes, size_t size)
{
    ks_view kept = ks_view_of(block->data + block->size, size);

    assert(size <= block->capacity - block->size);
    if (size > 0)
        memcpy(block->data + block->size, bytes, size);
    block->size += size;
    return kept;
}

static ks_view keep_column(struct ks_block *block, sqlite3_stmt *statement, int column)
{
    const void *bytes = sqlite3_column_blob(statement, column);

    return keep(block, bytes, (size_t)sqlite3_column_bytes(statement, column));
}

/* A record can have had them; room was made for what it had; its second has a place in a sequence number. */
static bool makes_sense(sqlite3_stmt *statement, const struct ks_block *block, int64_t arrival_ms,
                        size_t digits)
{
    size_t key = (size_t)sqlite3_column_bytes(statement, 2);
    size_t data = (size_t)sqlite3_column_bytes(statement, 3);

    return key <= KS_PARTITION_KEY_MAX && data <= KS_RECORD_BYTES_MAX &&
           digits + key + data <= block->capacity - block->size && arrival_ms >= 0 &&
           arrival_ms / 1000 < KS_LOCAL_SECONDS;
}

/* The sequence number that a record of a slice brought along. False: it is none. */
static bool keep_sequence(sqlite3_stmt *statement, struct ks_block *block, ks_view *ret_sequence)
{
    const void *text = sqlite3_column_blob(statement, 4);
    ks_view digits = ks_view_of(text, (size_t)sqlite3_column_bytes(statement, 4));

    if (!ks_sequence_is_valid(digits))
        return false;
    *ret_sequence = keep(block, digits.data, digits.size);
    return true;
}

/* Writes the sequence number that follows from the record's place. */
static ks_view make_sequence(const struct ks_local_cursor *cursor, sqlite3_stmt *statement,
                             struct ks_block *block, int64_t arrival_ms)
{
    char digits[KS_SEQUENCE_MAX + 1];
    struct ks_local_sequence sequence = {
        .shard_second = (uint64_t)cursor->made_s,
        .shard_index = cursor->index,
        .number = ks_local_record_number(sqlite3_column_int64(statement, 0)),
        .second = (uint64_t)arrival_ms / 1000,
    };

    ks_local_sequence_format(&sequence, digits);
    return keep(block, digits, KS_LOCAL_SEQUENCE_DIGITS);
}

/* False for a row that makes no sense. */
static bool keep_record(const struct ks_local_cursor *cursor, bool slice, sqlite3_stmt *statement,
                        struct ks_block *block, struct ks_record *record)
{
    int64_t arrival_ms = sqlite3_column_int64(statement, 1);
    size_t digits =
        slice ? (size_t)sqlite3_column_bytes(statement, 4) : (size_t)KS_LOCAL_SEQUENCE_DIGITS;

    if (!makes_sense(statement, block, arrival_ms, digits))
        return false;
    *record = (struct ks_record){.sub_sequence = -1, .arrival_ms = arrival_ms};
    if (!slice)
        record->sequence = make_sequence(cursor, statement, block, arrival_ms);
    else if (!keep_sequence(statement, block, &record->sequence))
        return false;
    record->partition_key = keep_column(block, statement, 2);
    record->data = keep_column(block, statement, 3);
    record->aggregated = ks_is_aggregate(record->data);
    return true;
}

ks_err ks_local_fill(struct ks_local_db *db, struct ks_local_cursor *cursor,
                     const struct ks_local_look *look, struct ks_block *block,
                     struct ks_batch *ret_batch, struct ks_detail *detail)
{
    struct ks_record *records = (void *)block->data;
    uint32_t count = 0;
    bool good = true;
    sqlite3_stmt *statement;

    assert(block->capacity >= look->block_bytes);
    block->size = look->count * sizeof(*records);
    KS_TRY(ks_local_db_use(db, db->slice ? KS_LOCAL_SLICE_RECORDS : KS_LOCAL_RECORDS, &statement,
                           detail));
    int code = sqlite3_bind_int64(statement, 1, ks_local_record_id(cursor->shard_id, look->first));
    if (code == SQLITE_OK)
        code = sqlite3_bind_int64(statement, 2, ks_local_record_id(cursor->shard_id, look->last));
    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    while (code == SQLITE_ROW && good && count < look->count) {
        good = keep_record(cursor, db->slice, statement, block, &records[count++]);
        code = sqlite3_step(statement);
    }
    ks_local_db_done(statement);
    KS_TRY(ks_local_db_err(db, code, "read records", detail));
    if (!good)
        return no_sense(db, cursor, detail);

    cursor->next = look->last + 1;
    cursor->exact = true;
    cursor->read_ms = look->last_ms;
    ret_batch->block = block;
    ret_batch->records = records;
    ret_batch->count = count;
    return KS_OK;
}
