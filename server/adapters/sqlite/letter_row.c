/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/sqlite/letter_row.h"

#include "core/limits.h"

/* 9999-12-31: no later instant has a text. */
static const int64_t UNIX_MS_MAX = INT64_C(253402300799999);

/* The columns of KS_LETTER_COLUMNS. */
enum { ID, STREAM, SHARD, SEQUENCE, SUB, KEY, DATA, REASON, ARRIVAL, DIED, ATTEMPTS, CAUSE };

static ks_view column(sqlite3_stmt *statement, int at)
{
    const void *data = sqlite3_column_blob(statement, at);

    return ks_view_of(data, data == NULL ? 0 : (size_t)sqlite3_column_bytes(statement, at));
}

static int64_t number(sqlite3_stmt *statement, int at, int64_t most)
{
    int64_t said = sqlite3_column_int64(statement, at);

    return said < 0 ? 0 : said > most ? most : said;
}

void ks_letter_row_read(sqlite3_stmt *statement, struct ks_letter *ret_letter)
{
    const int64_t sub = sqlite3_column_int64(statement, SUB);
    const int cause = sqlite3_column_int(statement, CAUSE);

    *ret_letter = (struct ks_letter){
        .id = column(statement, ID),
        .stream = column(statement, STREAM),
        .shard_id = column(statement, SHARD),
        .sequence = column(statement, SEQUENCE),
        .sub_sequence = sub < -1           ? -1
                        : sub > UINT32_MAX ? UINT32_MAX
                                           : sub,
        .partition_key = column(statement, KEY),
        .data = column(statement, DATA),
        .reason = column(statement, REASON),
        .arrival_ms = number(statement, ARRIVAL, UNIX_MS_MAX),
        .died_ms = number(statement, DIED, UNIX_MS_MAX),
        .attempts = (uint32_t)number(statement, ATTEMPTS, INT32_MAX),
        .cause = cause < 0 || cause >= KS_CAUSES ? KS_CAUSE_ASKED : (enum ks_cause)cause,
    };
}
