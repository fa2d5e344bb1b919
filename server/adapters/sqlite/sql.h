/* SPDX-License-Identifier: Apache-2.0 */
/* sql.h - a conditional write of one row, said in SQL.
 *
 * One statement for each write, with the same meaning as DynamoDB's UpdateItem and DeleteItem
 * (adapters/item.h): UPDATE .. WHERE <conditions>, or an upsert where the conditions hold without a
 * row. All values are parameters; only our own attribute names stand in the text, so that a shape
 * of write has one text and is prepared once. Pure.
 *
 *     lease_table(application, p, k, <attributes>)   S, SS: TEXT (members joined by '\n'); N, BOOL: INTEGER
 *
 * The statements use the functions number_add, set_with and set_without of sqlite/table.c.
 */
#ifndef KS_ADAPTERS_SQLITE_SQL_H
#define KS_ADAPTERS_SQLITE_SQL_H

#include "adapters/item.h"

enum {
    KS_SQL_BYTES_MAX = 4096, /* Every attribute of the schema named four times fits. */
    KS_SQL_MEMBERS_MAX = 4,  /* Of the set of an IN condition. */
    KS_SQL_VALUES_MAX = 3 + KS_ITEM_UPDATES_MAX + KS_ITEM_CONDITIONS_MAX * KS_SQL_MEMBERS_MAX
};

/* A statement: its text, NUL-terminated, and the values of ?1, ?2 .. */
struct ks_sql {
    struct ks_bytes text;
    struct ks_value values[KS_SQL_VALUES_MAX];
    uint32_t count;
};

void ks_sql_init(struct ks_sql *sql);
void ks_sql_free(struct ks_sql *sql);

/* Each forgets what was said before. ?1 is the application, ?2 and from ?3 on the key. The answered columns
 * are k and then the schema's attributes. FULL, NO_MEMORY. */

/* A write; if it is applied it answers the row as it is now (a deleted one: as it was). */
KS_MUST_USE ks_err ks_sql_write(struct ks_sql *sql, const char *application,
                                const struct ks_schema *schema, const struct ks_item_write *write);
/* All rows of a partition, or those that `keys` names: one statement, and so one moment. */
KS_MUST_USE ks_err ks_sql_read(struct ks_sql *sql, const char *application,
                               const struct ks_schema *schema, const char *p,
                               const struct ks_item_keys *keys);
/* CREATE TABLE. */
KS_MUST_USE ks_err ks_sql_create(struct ks_sql *sql, const struct ks_schema *schema);

#endif
