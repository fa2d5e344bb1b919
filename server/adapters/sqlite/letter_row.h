/* SPDX-License-Identifier: Apache-2.0 */
/* letter_row.h - a row of dead letters in a SQLite file, whatever others wrote into its columns: a number that cannot
 * be becomes the nearest that can, the rest is ks_letter_clean's (adapters/letter.h).
 */
#ifndef KS_ADAPTERS_SQLITE_LETTER_ROW_H
#define KS_ADAPTERS_SQLITE_LETTER_ROW_H

#include <sqlite3.h>

#include "ports/dead_letters.h"

/* In the order in which ks_letter_row_read expects them. */
#define KS_LETTER_COLUMNS                                                                          \
    "id, stream, shard, sequence, sub, key, data, reason, arrival_ms, died_ms, attempts, cause"

/* Reads the statement's row. The views are valid until its next step. */
void ks_letter_row_read(sqlite3_stmt *statement, struct ks_letter *ret_letter);

#endif
