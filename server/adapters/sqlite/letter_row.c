/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/sqlite/letter_row.h"

#include <string.h>

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

/* Letters, digits and `others`: JSON and the path of a URL take them as they are. */
static bool is_name(ks_view text, size_t max, const char *others)
{
    for (size_t i = 0; i < text.size && text.size <= max; i++) {
        const uint8_t c = text.data[i];
        const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');

        if (!letter && !(c >= '0' && c <= '9') && (c == '\0' || strchr(others, c) == NULL))
            return false;
    }
    return text.size > 0 && text.size <= max;
}

static bool is_number(ks_view text)
{
    for (size_t i = 0; i < text.size; i++)
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
    return text.size > 0 && text.size <= KS_SEQUENCE_MAX && (text.data[0] != '0' || text.size == 1);
}

/* Empties the column unless it can be. */
static void judge(bool can_be, ks_view *column_view, const char *name, const char **first)
{
    if (can_be)
        return;
    *column_view = KS_VIEW("");
    if (*first == NULL)
        *first = name;
}

const char *ks_letter_row_clean(struct ks_letter *letter)
{
    const char *first = NULL;

    judge(is_name(letter->id, KS_LETTER_ID_MAX, "._-"), &letter->id, "id", &first);
    /* An ARN, too. */
    judge(is_name(letter->stream, KS_LETTER_STREAM_MAX, "._-:/"), &letter->stream, "stream",
          &first);
    judge(is_name(letter->shard_id, KS_SHARD_ID_MAX, "._-"), &letter->shard_id, "shard", &first);
    judge(is_number(letter->sequence), &letter->sequence, "sequence", &first);
    judge(letter->partition_key.size <= KS_PARTITION_KEY_MAX, &letter->partition_key, "key",
          &first);
    judge(letter->data.size <= KS_RECORD_BYTES_MAX, &letter->data, "data", &first);
    judge(letter->reason.size <= KS_LETTER_REASON_MAX && ks_view_is_unicode(letter->reason),
          &letter->reason, "reason", &first);
    return first;
}
