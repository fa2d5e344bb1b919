/* SPDX-License-Identifier: Apache-2.0 */
/* foreign_rows.h - rows of others' tables in words, and what we write to them, for the vectors of each dialect. */
#ifndef KS_TEST_FOREIGN_ROWS_H
#define KS_TEST_FOREIGN_ROWS_H

#include "adapters/dialects/dialect.h"
#include "ks_test.h"

/* The sentence that is made. */
extern char foreign_line[2048];
void foreign_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
const char *foreign_or_none(const char *text);

/* What of rows is the same everywhere: "at its end", "not begun", "after 4959". */
void foreign_say_position(const struct ks_store_lease *row);

/* Reads the cases of a file, {"about", "item", "row"} each, at least so many: `say` says of a row what "row" has. */
void foreign_rows_mean(const char *path, size_t least, const struct ks_dialect *dialect,
                       void (*say)(const struct ks_store_lease *row));

/* What a request writes, as foreign_line: conditions; updates. Its key attribute is `key`. */
const char *foreign_write(const struct ks_dialect *dialect, const char *key,
                          const struct ks_store_request *request);

#endif
