/* SPDX-License-Identifier: Apache-2.0 */
#include "main/table.h"

#include "base/plain.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

enum { CELL_MAX = 1024, GAP = 2 };

/* ---- Characters ---- */

/* Takes the next character of what is left: the bytes to show for it. */
static ks_view next_character(ks_view *rest)
{
    size_t size = ks_view_character(*rest);
    ks_view shown = ks_view_of(rest->data, size);
    uint32_t code;

    if (size == 0 || ks_plain_is_command(shown, &code))
        shown = KS_VIEW("?");
    size = size == 0 ? 1 : size;
    *rest = ks_view_of(rest->data + size, rest->size - size);
    return shown;
}

static uint32_t width_of(const char *text)
{
    uint32_t width = 0;

    for (ks_view rest = ks_view_text(text); rest.size > 0; width++)
        (void)next_character(&rest);
    return width;
}

ks_err ks_table_append_plain(struct ks_bytes *out, const char *text)
{
    ks_view rest = ks_view_text(text);

    while (rest.size > 0)
        KS_TRY(ks_bytes_append(out, next_character(&rest)));
    return KS_OK;
}

/* ---- Cells ---- */

void ks_table_init(struct ks_table *table, const char *const *heads)
{
    *table = (struct ks_table){.err = KS_OK};
    ks_bytes_init(&table->cells, KS_TABLE_BYTES_MAX);
    while (heads[table->columns] != NULL)
        table->columns++;
    assert(table->columns > 0 && table->columns <= KS_TABLE_COLUMNS_MAX);
    for (uint32_t i = 0; i < table->columns; i++) {
        table->right[i] = heads[i][0] == '#';
        ks_table_text(table, heads[i] + (table->right[i] ? 1 : 0));
    }
}

void ks_table_free(struct ks_table *table)
{
    ks_bytes_free(&table->cells);
}

void ks_table_text(struct ks_table *table, const char *text)
{
    uint32_t *widest = &table->widths[table->count % table->columns];
    uint32_t width = width_of(text);

    if (!ks_ok(table->err))
        return;
    table->err = ks_bytes_append(&table->cells, ks_view_of(text, strlen(text) + 1));
    table->count += ks_ok(table->err);
    *widest = *widest < width ? width : *widest;
}

void ks_table_format(struct ks_table *table, const char *format, ...)
{
    char text[CELL_MAX];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    ks_table_text(table, text);
}

/* ---- Writing ---- */

/* A line that is being written. */
struct line {
    struct ks_bytes *out;
    uint32_t left; /* Characters that still fit. */
};

static ks_err put(struct line *line, ks_view character)
{
    if (line->left == 0)
        return KS_OK;
    line->left--;
    return ks_bytes_append(line->out, character);
}

static ks_err put_blanks(struct line *line, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        KS_TRY(put(line, KS_VIEW(" ")));
    return KS_OK;
}

static ks_err put_cell(struct line *line, const struct ks_table *table, uint32_t column,
                       const char *text)
{
    uint32_t blanks = table->widths[column] - width_of(text);
    bool last = column + 1 == table->columns;

    if (table->right[column])
        KS_TRY(put_blanks(line, blanks));
    for (ks_view rest = ks_view_text(text); rest.size > 0;)
        KS_TRY(put(line, next_character(&rest)));
    if (last)
        return KS_OK;
    return put_blanks(line, GAP + (table->right[column] ? 0 : blanks));
}

ks_err ks_table_write(const struct ks_table *table, uint32_t rows_max, uint32_t width_max,
                      struct ks_bytes *out)
{
    const char *text = (const char *)table->cells.data;
    struct line line = {.out = out};

    KS_TRY(table->err);
    assert(table->count % table->columns == 0);
    for (uint32_t i = 0; i < table->count; i++) {
        uint32_t column = i % table->columns;

        if (rows_max != 0 && i / table->columns > rows_max)
            break;
        if (column == 0)
            line.left = width_max == 0 ? UINT32_MAX : width_max;
        KS_TRY(put_cell(&line, table, column, text));
        if (column + 1 == table->columns)
            KS_TRY(ks_bytes_append_byte(out, '\n'));
        text += strlen(text) + 1;
    }
    return KS_OK;
}

/* ---- Times ---- */

void ks_table_span(int64_t ms, char ret_text[KS_SPAN_SIZE])
{
    int64_t s = ms / 1000;
    int size;

    if (ms < 0)
        size = snprintf(ret_text, KS_SPAN_SIZE, "-");
    else if (s < 1)
        size = snprintf(ret_text, KS_SPAN_SIZE, "%" PRId64 " ms", ms);
    else if (s < 60)
        size = snprintf(ret_text, KS_SPAN_SIZE, "%" PRId64 " s", s);
    else if (s < 3600)
        size = snprintf(ret_text, KS_SPAN_SIZE, "%" PRId64 " min %" PRId64 " s", s / 60, s % 60);
    else if (s < 86400)
        size = snprintf(ret_text, KS_SPAN_SIZE, "%" PRId64 " h %" PRId64 " min", s / 3600,
                        s % 3600 / 60);
    else
        size = snprintf(ret_text, KS_SPAN_SIZE, "%" PRId64 " d %" PRId64 " h", s / 86400,
                        s % 86400 / 3600);
    assert(size > 0 && size < KS_SPAN_SIZE);
}

ks_err ks_table_append_line(struct ks_bytes *text, const char *name, const char *value)
{
    KS_TRY(ks_bytes_format(text, "%-20s ", name));
    KS_TRY(ks_table_append_plain(text, value[0] == '\0' ? "-" : value));
    return ks_bytes_append_byte(text, '\n');
}

const char *ks_table_instant(int64_t unix_ms, char buffer[KS_TIMESTAMP_SIZE])
{
    if (unix_ms == 0)
        return "-";
    ks_timestamp_format(unix_ms, buffer);
    return buffer;
}
