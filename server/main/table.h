/* SPDX-License-Identifier: Apache-2.0 */
/* table.h - a table for a terminal: cells are added in order, and written in columns as wide as the widest cell.
 *
 * What others named is shown to people here: a command (base/plain.h) and what is not UTF-8 becomes '?', one character
 * wide, so that no name can command a terminal. Widths count characters.
 */
#ifndef KS_MAIN_TABLE_H
#define KS_MAIN_TABLE_H

#include "base/bytes.h"
#include "base/codec.h"

enum { KS_TABLE_COLUMNS_MAX = 16, KS_TABLE_BYTES_MAX = 64 << 20, KS_SPAN_SIZE = 32 };

struct ks_table {
    struct ks_bytes cells; /* Row after row, the heads first; each ends with a NUL. */
    uint32_t columns;
    uint32_t widths[KS_TABLE_COLUMNS_MAX];
    bool right[KS_TABLE_COLUMNS_MAX];
    uint32_t count; /* Cells. */
    ks_err err;     /* The first failure; the rest does nothing. */
};

/* `heads` end with NULL; one that begins with '#' is of numbers, which stand on the right. */
void ks_table_init(struct ks_table *table, const char *const *heads);
void ks_table_free(struct ks_table *table);
/* The next cell; of a format, at most 1 KiB. */
void ks_table_text(struct ks_table *table, const char *text);
void ks_table_format(struct ks_table *table, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Writes the heads and the first `rows_max` rows, each cut at `width_max` characters; 0: all of it. FULL, NO_MEMORY,
 * also of cells that were added before. */
KS_MUST_USE ks_err ks_table_write(const struct ks_table *table, uint32_t rows_max,
                                  uint32_t width_max, struct ks_bytes *out);
/* Appends `text` as a cell would show it. FULL, NO_MEMORY. */
KS_MUST_USE ks_err ks_table_append_plain(struct ks_bytes *out, const char *text);

/* A time for people: "250 ms", "12 s", "3 min 4 s", "2 h 5 min", "3 d 4 h"; "-" if it is negative, which is unknown. */
void ks_table_span(int64_t ms, char ret_text[KS_SPAN_SIZE]);

/* Appends a line "name   value" of what is told of one thing; "-" for no value. FULL, NO_MEMORY. */
KS_MUST_USE ks_err ks_table_append_line(struct ks_bytes *text, const char *name, const char *value);
/* The instant in RFC 3339, in `buffer`; "-" for 0, which is none. */
const char *ks_table_instant(int64_t unix_ms, char buffer[KS_TIMESTAMP_SIZE]);

#endif
