/* SPDX-License-Identifier: Apache-2.0 */
/* aws_tables.h - the DynamoDB tables that a subscription uses: their names and keys.
 *
 * One answer for the sidecar itself, for `table-schema` and for `iam-policy`. The tables of a dialect come from
 * adapters/dialects; the table of dead letters has the keys of the native lease table. Pure.
 */
#ifndef KS_MAIN_AWS_TABLES_H
#define KS_MAIN_AWS_TABLES_H

#include "adapters/dialects/dialect.h"
#include "base/options.h"

enum {
    KS_AWS_TABLES_MAX = KS_DIALECT_TABLES_MAX + 1,
    KS_AWS_TABLE_NAME_SIZE = KS_OPTION_TEXT_SIZE + 32 /* The application and a suffix. */
};

struct ks_aws_table {
    char name[KS_AWS_TABLE_NAME_SIZE];
    /* The one key attribute, of type S; NULL: p (HASH) and k (RANGE), of type S. */
    const char *key;
    bool optional; /* The sidecar never creates it. */
};

/* Writes the tables of the subscription: those of its dialect in their order, and the table of dead letters where that
 * is another one. Returns how many; 0 with leases in SQLite. */
uint32_t ks_aws_tables(const struct ks_options *options,
                       struct ks_aws_table ret_tables[KS_AWS_TABLES_MAX]);

/* Appends the tables of each dialect as docs/INFRASTRUCTURE.md has them. FULL, NO_MEMORY. */
KS_MUST_USE ks_err ks_aws_tables_markdown(struct ks_bytes *bytes);

/* Appends the tables of each dialect as JSON for deploy/terraform: of each the request that creates it, its name being
 * what comes after the application. FULL, NO_MEMORY. */
KS_MUST_USE ks_err ks_aws_tables_json(struct ks_bytes *bytes);

/* The dialect that --dialect names. */
const struct ks_dialect *ks_aws_tables_dialect(const struct ks_options *options);

/* Writes the name of the table that has the dead letters of `--dead-letters table`. Returns true if that is the lease
 * table. */
bool ks_aws_tables_letters(const struct ks_options *options, char ret_name[KS_AWS_TABLE_NAME_SIZE]);

#endif
