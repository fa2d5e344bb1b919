/* SPDX-License-Identifier: Apache-2.0 */
#include "main/aws_tables.h"

#include "adapters/dynamodb/wire.h"

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

static ks_err put_table(struct ks_bytes *bytes, const struct ks_aws_table *table, bool letters)
{
    KS_TRY(ks_bytes_format(bytes, "{\"optional\":%s,\"letters\":%s,\"create\":",
                           table->optional ? "true" : "false", letters ? "true" : "false"));
    KS_TRY(ks_dynamodb_put_create(bytes, table->name, table->key));
    return ks_bytes_append_byte(bytes, '}');
}

/* All tables of a dialect, for an application without a name. */
static uint32_t tables_of(const struct ks_dialect *dialect,
                          struct ks_aws_table ret_tables[KS_AWS_TABLES_MAX])
{
    struct ks_options options = {.leases = "dynamodb", .dead_letters = "table"};

    (void)snprintf(options.dialect, sizeof(options.dialect), "%s", dialect->name);
    return ks_aws_tables(&options, ret_tables);
}

static ks_err put_dialect(struct ks_bytes *bytes, const struct ks_dialect *dialect)
{
    struct ks_aws_table tables[KS_AWS_TABLES_MAX];
    const uint32_t count = tables_of(dialect, tables);

    KS_TRY(ks_bytes_format(bytes, "\"%s\":[\n", dialect->name));
    for (uint32_t at = 0; at < count; at++) {
        KS_TRY(put_table(bytes, &tables[at], at >= dialect->table_count));
        KS_TRY(ks_bytes_append(bytes, at + 1 < count ? KS_VIEW(",\n") : KS_VIEW("]")));
    }
    return KS_OK;
}

ks_err ks_aws_tables_json(struct ks_bytes *bytes)
{
    for (uint32_t at = 0; ks_dialect_at(at) != NULL; at++) {
        KS_TRY(ks_bytes_append(bytes, at == 0 ? KS_VIEW("{") : KS_VIEW(",\n")));
        KS_TRY(put_dialect(bytes, ks_dialect_at(at)));
    }
    return ks_bytes_append(bytes, KS_VIEW("}\n"));
}

static ks_err put_row(struct ks_bytes *bytes, const struct ks_dialect *dialect,
                      const struct ks_aws_table *table, bool letters)
{
    const char *const native = "`" KS_DYNAMODB_HASH "` | `" KS_DYNAMODB_RANGE "`";

    KS_TRY(ks_bytes_format(bytes, "| `%s` | `APPLICATION%s` | ", dialect->name, table->name));
    KS_TRY(table->key == NULL ? ks_bytes_append(bytes, ks_view_text(native))
                              : ks_bytes_format(bytes, "`%s` | ", table->key));
    return ks_bytes_format(bytes, " | %s |\n",
                           table->optional ? "KCL 3.0 to 3.4 alone"
                           : letters       ? "the sidecar, with `--dead-letters table`"
                                           : "the sidecar, if it does not exist");
}

ks_err ks_aws_tables_markdown(struct ks_bytes *bytes)
{
    struct ks_aws_table tables[KS_AWS_TABLES_MAX];

    KS_TRY(ks_bytes_append(bytes, KS_VIEW("| dialect | table | hash key | range key | made by |\n"
                                          "|---|---|---|---|---|\n")));
    for (uint32_t at = 0; ks_dialect_at(at) != NULL; at++) {
        const struct ks_dialect *const dialect = ks_dialect_at(at);
        const uint32_t count = tables_of(dialect, tables);

        for (uint32_t i = 0; i < count; i++)
            KS_TRY(put_row(bytes, dialect, &tables[i], i >= dialect->table_count));
    }
    return KS_OK;
}
