/* SPDX-License-Identifier: Apache-2.0 */
#include "docs.h"

#include "ks_test.h"

#include <stdio.h>

void docs_expect_table(const char *path, ks_err (*markdown)(struct ks_bytes *table))
{
    static char text[1 << 16];
    struct ks_bytes table;
    FILE *file = fopen(path, "r");
    size_t size;

    if (file == NULL)
        FAIL("%s cannot be read", path);
    size = fread(text, 1, sizeof text - 1, file);
    (void)fclose(file);
    text[size] = '\0';
    ks_bytes_init(&table, sizeof text);
    EXPECT_OK(markdown(&table));
    EXPECT_OK(ks_bytes_append_byte(&table, '\0'));
    EXPECT(size >= table.size - 1);
    EXPECT_STR(text + size - (table.size - 1),
               (const char *)table.data); /* `make docs` mends it. */
    ks_bytes_free(&table);
}
