/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/sqlite/sql.h"

#include <assert.h>

void ks_sql_init(struct ks_sql *sql)
{
    sql->count = 0;
    ks_bytes_init(&sql->text, KS_SQL_BYTES_MAX);
}

void ks_sql_free(struct ks_sql *sql)
{
    ks_bytes_free(&sql->text);
}

/* The number of the parameter that has this value. */
static uint32_t parameter(struct ks_sql *sql, struct ks_value value)
{
    assert(sql->count < KS_SQL_VALUES_MAX);

    sql->values[sql->count] = value;
    return ++sql->count;
}

static uint32_t text_parameter(struct ks_sql *sql, const char *text)
{
    return parameter(sql, (struct ks_value){KS_VALUE_TEXT, ks_view_text(text)});
}

static ks_err begin(struct ks_sql *sql, const char *application, const char *p)
{
    ks_bytes_clear(&sql->text);
    sql->count = 0;
    (void)text_parameter(sql, application);
    (void)text_parameter(sql, p);
    /* One allocation for all of it. */
    return ks_bytes_reserve(&sql->text, KS_SQL_BYTES_MAX);
}

/* The NUL is not counted. */
static ks_err end(struct ks_sql *sql)
{
    KS_TRY(ks_bytes_append_byte(&sql->text, '\0'));
    sql->text.size--;
    return KS_OK;
}

/* "k", "a", "b" .. */
static ks_err put_columns(struct ks_sql *sql, const struct ks_schema *schema)
{
    KS_TRY(ks_bytes_append(&sql->text, KS_VIEW(" \"k\"")));
    for (uint32_t at = 0; at < schema->count; at++)
        KS_TRY(ks_bytes_format(&sql->text, ", \"%s\"", schema->attributes[at].name));
    return KS_OK;
}

/* "a" IN (?4, ?5) */
static ks_err put_in(struct ks_sql *sql, const struct ks_condition *condition)
{
    ks_view members = condition->value.text;

    KS_TRY(ks_bytes_format(&sql->text, "\"%s\" IN (", condition->name));
    for (uint32_t at = 0; members.size != 0; at++) {
        const struct ks_value value = {KS_VALUE_TEXT, ks_view_cut(&members, '\n')};

        if (at == KS_SQL_MEMBERS_MAX)
            return KS_FAIL(FULL);
        KS_TRY(ks_bytes_format(&sql->text, "%s?%u", at == 0 ? "" : ", ", parameter(sql, value)));
    }
    return ks_bytes_append_byte(&sql->text, ')');
}

static ks_err put_condition(struct ks_sql *sql, const struct ks_condition *condition)
{
    const char *const name = condition->name;

    switch (condition->kind) {
    case KS_IF_EQUALS:
        return ks_bytes_format(&sql->text, "\"%s\" = ?%u", name, parameter(sql, condition->value));
    case KS_IF_EQUALS_OR_ABSENT:
        return ks_bytes_format(&sql->text, "(\"%s\" IS NULL OR \"%s\" = ?%u)", name, name,
                               parameter(sql, condition->value));
    case KS_IF_EXISTS: return ks_bytes_format(&sql->text, "\"%s\" IS NOT NULL", name);
    case KS_IF_ABSENT:
    case KS_IF_ABSENT_OR_NULL: return ks_bytes_format(&sql->text, "\"%s\" IS NULL", name);
    case KS_IF_IN: return put_in(sql, condition);
    }
    assert(false);
    return KS_FAIL(INVALID);
}

static ks_err put_conditions(struct ks_sql *sql, const struct ks_item_write *write,
                             const char *before)
{
    for (uint32_t at = 0; at < write->condition_count; at++) {
        KS_TRY(ks_bytes_format(&sql->text, "%s", at == 0 ? before : " AND "));
        KS_TRY(put_condition(sql, &write->conditions[at]));
    }
    return KS_OK;
}

/* "a" = <what becomes of it>. `number` is the parameter of its value. */
static ks_err put_update(struct ks_sql *sql, const struct ks_update *update, uint32_t number)
{
    const char *const name = update->name;

    switch (update->kind) {
    case KS_DO_SET: return ks_bytes_format(&sql->text, "\"%s\" = ?%u", name, number);
    case KS_DO_REMOVE: return ks_bytes_format(&sql->text, "\"%s\" = NULL", name);
    case KS_DO_ADD:
        return ks_bytes_format(&sql->text, "\"%s\" = %s(\"%s\", ?%u)", name,
                               update->value.type == KS_VALUE_NUMBER ? "number_add" : "set_with",
                               name, number);
    case KS_DO_DELETE:
        return ks_bytes_format(&sql->text, "\"%s\" = set_without(\"%s\", ?%u)", name, name, number);
    }
    assert(false);
    return KS_FAIL(INVALID);
}

/* `numbers` are the parameters of the updates, in order. */
static ks_err put_updates(struct ks_sql *sql, const struct ks_item_write *write,
                          const uint32_t *numbers)
{
    /* A write that only looks whether its conditions hold is one, too. */
    if (write->update_count == 0)
        return ks_bytes_append(&sql->text, KS_VIEW(" \"k\" = \"k\""));
    for (uint32_t at = 0; at < write->update_count; at++) {
        KS_TRY(ks_bytes_format(&sql->text, "%s", at == 0 ? " " : ", "));
        KS_TRY(put_update(sql, &write->updates[at], numbers[at]));
    }
    return KS_OK;
}

/* True for an update that gives a value to an attribute of a new row. */
static bool fills(const struct ks_update *update)
{
    return update->kind == KS_DO_SET || update->kind == KS_DO_ADD;
}

static ks_err put_insert(struct ks_sql *sql, const struct ks_item_write *write,
                         const uint32_t *numbers)
{
    KS_TRY(ks_bytes_append(&sql->text,
                           KS_VIEW("INSERT INTO lease_table (\"application\", \"p\", \"k\"")));
    for (uint32_t at = 0; at < write->update_count; at++)
        if (fills(&write->updates[at]))
            KS_TRY(ks_bytes_format(&sql->text, ", \"%s\"", write->updates[at].name));
    KS_TRY(ks_bytes_append(&sql->text, KS_VIEW(") VALUES (?1, ?2, ?3")));
    for (uint32_t at = 0; at < write->update_count; at++)
        if (fills(&write->updates[at]))
            KS_TRY(ks_bytes_format(&sql->text, ", ?%u", numbers[at]));
    KS_TRY(ks_bytes_append(&sql->text,
                           KS_VIEW(") ON CONFLICT (\"application\", \"p\", \"k\") DO UPDATE SET")));
    KS_TRY(put_updates(sql, write, numbers));
    return put_conditions(sql, write, " WHERE ");
}

static const char of_row[] = " WHERE \"application\" = ?1 AND \"p\" = ?2 AND \"k\" = ?3";

ks_err ks_sql_write(struct ks_sql *sql, const char *application, const struct ks_schema *schema,
                    const struct ks_item_write *write)
{
    uint32_t numbers[KS_ITEM_UPDATES_MAX];

    KS_TRY(begin(sql, application, write->p));
    (void)text_parameter(sql, write->k);
    for (uint32_t at = 0; at < write->update_count; at++)
        numbers[at] =
            write->updates[at].kind == KS_DO_REMOVE ? 0 : parameter(sql, write->updates[at].value);

    if (ks_item_write_may_create(write)) {
        KS_TRY(put_insert(sql, write, numbers));
    } else if (write->delete_row) {
        KS_TRY(ks_bytes_format(&sql->text, "DELETE FROM lease_table%s", of_row));
        KS_TRY(put_conditions(sql, write, " AND "));
    } else {
        KS_TRY(ks_bytes_append(&sql->text, KS_VIEW("UPDATE lease_table SET")));
        KS_TRY(put_updates(sql, write, numbers));
        KS_TRY(ks_bytes_format(&sql->text, "%s", of_row));
        KS_TRY(put_conditions(sql, write, " AND "));
    }
    KS_TRY(ks_bytes_append(&sql->text, KS_VIEW(" RETURNING")));
    KS_TRY(put_columns(sql, schema));
    return end(sql);
}

ks_err ks_sql_read(struct ks_sql *sql, const char *application, const struct ks_schema *schema,
                   const char *p, const struct ks_item_keys *keys)
{
    KS_TRY(begin(sql, application, p));
    KS_TRY(ks_bytes_append(&sql->text, KS_VIEW("SELECT")));
    KS_TRY(put_columns(sql, schema));
    KS_TRY(ks_bytes_append(&sql->text,
                           KS_VIEW(" FROM lease_table WHERE \"application\" = ?1 AND \"p\" = ?2")));
    for (uint32_t at = 0; at < keys->count; at++)
        KS_TRY(ks_bytes_format(&sql->text, "%s?%u", at == 0 ? " AND \"k\" IN (" : ", ",
                               text_parameter(sql, keys->texts[at])));
    if (keys->count != 0)
        KS_TRY(ks_bytes_append_byte(&sql->text, ')'));
    return end(sql);
}

ks_err ks_sql_create(struct ks_sql *sql, const struct ks_schema *schema)
{
    KS_TRY(begin(sql, "", ""));
    sql->count = 0;
    KS_TRY(ks_bytes_append(&sql->text,
                           KS_VIEW("CREATE TABLE lease_table (\"application\" TEXT NOT NULL, "
                                   "\"p\" TEXT NOT NULL, \"k\" TEXT NOT NULL")));
    for (uint32_t at = 0; at < schema->count; at++) {
        const enum ks_value_type type = schema->attributes[at].type;
        const bool integer = type == KS_VALUE_NUMBER || type == KS_VALUE_BOOL;

        KS_TRY(ks_bytes_format(&sql->text, ", \"%s\" %s", schema->attributes[at].name,
                               integer ? "INTEGER" : "TEXT"));
    }
    KS_TRY(ks_bytes_append(
        &sql->text, KS_VIEW(", PRIMARY KEY (\"application\", \"p\", \"k\")) WITHOUT ROWID")));
    return end(sql);
}
