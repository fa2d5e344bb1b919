/* SPDX-License-Identifier: Apache-2.0 */
#include "main/aws_tables.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

const struct ks_dialect *ks_aws_tables_dialect(const struct ks_options *options)
{
    const struct ks_dialect *const dialect = ks_dialect_find(options->dialect);

    assert(dialect != NULL); /* The options were checked. */
    return dialect;
}

/* The tables of other dialects may have only rows of their own. */
bool ks_aws_tables_letters(const struct ks_options *options, char ret_name[KS_AWS_TABLE_NAME_SIZE])
{
    const bool native = ks_aws_tables_dialect(options) == &ks_native_dialect;

    (void)snprintf(ret_name, KS_AWS_TABLE_NAME_SIZE, "%s%s", options->application,
                   native ? "" : "-letters");
    return native;
}

uint32_t ks_aws_tables(const struct ks_options *options,
                       struct ks_aws_table ret_tables[KS_AWS_TABLES_MAX])
{
    const struct ks_dialect *const dialect = ks_aws_tables_dialect(options);
    uint32_t count = 0;

    if (ks_option_path(options->leases) != NULL)
        return 0;
    for (; count < dialect->table_count; count++) {
        struct ks_aws_table *const table = &ret_tables[count];

        (void)snprintf(table->name, sizeof(table->name), "%s%s", options->application,
                       dialect->tables[count].suffix);
        table->key = dialect->tables[count].schema->key;
        table->optional = dialect->tables[count].optional;
    }
    if (strcmp(options->dead_letters, "table") == 0 &&
        !ks_aws_tables_letters(options, ret_tables[count].name)) {
        ret_tables[count].key = NULL;
        ret_tables[count].optional = false;
        count++;
    }
    return count;
}
