/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/sqlite/sql.h"

#include "base/budget.h"
#include "ks_test.h"

static const struct ks_attribute attributes[] = {{"name", KS_VALUE_TEXT},
                                                 {"count", KS_VALUE_NUMBER},
                                                 {"set", KS_VALUE_SET},
                                                 {"on", KS_VALUE_BOOL}};
static const struct ks_schema schema = {.attributes = attributes, .count = 4};

static struct ks_value text(const char *value)
{
    return (struct ks_value){KS_VALUE_TEXT, ks_view_text(value)};
}

static struct ks_item_write begin(void)
{
    struct ks_item_write write;

    EXPECT_OK(ks_item_write_init(&write, "w", "a", 16));
    return write;
}

/* Its SQL is this, with so many parameters. */
static void is(struct ks_item_write *write, const char *expected, uint32_t count)
{
    struct ks_sql sql;

    ks_sql_init(&sql);
    EXPECT_OK(ks_sql_write(&sql, "app", &schema, write));
    EXPECT_STR((const char *)sql.text.data, expected);
    EXPECT_EQ_U64(sql.count, count);
    EXPECT(ks_view_equal(sql.values[0].text, KS_VIEW("app")));
    EXPECT(ks_view_equal(sql.values[1].text, KS_VIEW("w")));
    EXPECT(ks_view_equal(sql.values[2].text, KS_VIEW("a")));
    ks_sql_free(&sql);
    ks_item_write_free(write);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

#define ROW " WHERE \"application\" = ?1 AND \"p\" = ?2 AND \"k\" = ?3"
#define ANSWER " RETURNING \"k\", \"name\", \"count\", \"set\", \"on\""

TEST(a_write_is_an_update_of_one_row)
{
    struct ks_item_write write = begin();

    ks_item_write_if(&write, KS_IF_EQUALS, "name", text("x"));
    ks_item_write_if(&write, KS_IF_EXISTS, "on", text(""));
    ks_item_write_if(&write, KS_IF_ABSENT, "set", text(""));
    ks_item_write_if(&write, KS_IF_IN, "name", (struct ks_value){KS_VALUE_SET, KS_VIEW("x\ny")});
    ks_item_write_do(&write, KS_DO_SET, "name", text("z"));
    ks_item_write_do(&write, KS_DO_REMOVE, "on", text(""));
    ks_item_write_do(&write, KS_DO_ADD, "count", (struct ks_value){KS_VALUE_NUMBER, KS_VIEW("1")});
    ks_item_write_do(&write, KS_DO_ADD, "set", (struct ks_value){KS_VALUE_SET, KS_VIEW("m")});
    ks_item_write_do(&write, KS_DO_DELETE, "set", (struct ks_value){KS_VALUE_SET, KS_VIEW("n")});
    is(&write,
       "UPDATE lease_table SET \"name\" = ?4, \"on\" = NULL, \"count\" = number_add(\"count\", ?5),"
       " \"set\" = set_with(\"set\", ?6), \"set\" = set_without(\"set\", ?7)" ROW
       " AND \"name\" = ?8 AND \"on\" IS NOT NULL AND \"set\" IS NULL AND \"name\" IN (?9, "
       "?10)" ANSWER,
       10);
}

TEST(a_write_that_holds_without_a_row_is_an_upsert)
{
    struct ks_item_write write = begin();

    ks_item_write_if(&write, KS_IF_ABSENT, "p", text(""));
    ks_item_write_if(&write, KS_IF_EQUALS_OR_ABSENT, "count",
                     (struct ks_value){KS_VALUE_NUMBER, KS_VIEW("0")});
    ks_item_write_do(&write, KS_DO_SET, "name", text("z"));
    ks_item_write_do(&write, KS_DO_REMOVE, "set", text(""));
    is(&write,
       "INSERT INTO lease_table (\"application\", \"p\", \"k\", \"name\") VALUES (?1, ?2, ?3, ?4)"
       " ON CONFLICT (\"application\", \"p\", \"k\") DO UPDATE SET \"name\" = ?4, \"set\" = NULL"
       " WHERE \"p\" IS NULL AND (\"count\" IS NULL OR \"count\" = ?5)" ANSWER,
       5);
}

TEST(a_write_without_updates_only_looks)
{
    struct ks_item_write write = begin();

    ks_item_write_if(&write, KS_IF_EXISTS, "name", text(""));
    is(&write, "UPDATE lease_table SET \"k\" = \"k\"" ROW " AND \"name\" IS NOT NULL" ANSWER, 3);
}

TEST(a_delete_names_its_conditions)
{
    struct ks_item_write write = begin();

    ks_item_write_if(&write, KS_IF_EQUALS, "name", text("x"));
    write.delete_row = true;
    is(&write, "DELETE FROM lease_table" ROW " AND \"name\" = ?4" ANSWER, 4);
}

#define PARTITION                                                                                  \
    "SELECT \"k\", \"name\", \"count\", \"set\", \"on\" FROM lease_table"                          \
    " WHERE \"application\" = ?1 AND \"p\" = ?2"

TEST(reads_are_of_rows_or_a_partition)
{
    struct ks_item_keys keys = {.count = 0};
    struct ks_sql sql;

    ks_sql_init(&sql);
    EXPECT_OK(ks_sql_read(&sql, "app", &schema, "w", &keys));
    EXPECT_STR((const char *)sql.text.data, PARTITION);
    EXPECT_EQ_U64(sql.count, 2);
    EXPECT_OK(ks_item_keys_add(&keys, KS_VIEW("a")));
    EXPECT_OK(ks_sql_read(&sql, "app", &schema, "w", &keys));
    EXPECT_STR((const char *)sql.text.data, PARTITION " AND \"k\" IN (?3)");
    EXPECT_EQ_U64(sql.count, 3);
    EXPECT_OK(ks_item_keys_add(&keys, KS_VIEW("b")));
    EXPECT_OK(ks_item_keys_add(&keys, KS_VIEW("c")));
    EXPECT_OK(ks_sql_read(&sql, "app", &schema, "w", &keys));
    EXPECT_STR((const char *)sql.text.data, PARTITION " AND \"k\" IN (?3, ?4, ?5)");
    EXPECT_EQ_U64(sql.count, 5);
    EXPECT(ks_view_equal(sql.values[4].text, KS_VIEW("c")));
    EXPECT_OK(ks_sql_create(&sql, &schema));
    EXPECT_STR((const char *)sql.text.data,
               "CREATE TABLE lease_table (\"application\" TEXT NOT NULL, \"p\" TEXT NOT NULL,"
               " \"k\" TEXT NOT NULL, \"name\" TEXT, \"count\" INTEGER, \"set\" TEXT,"
               " \"on\" INTEGER, PRIMARY KEY (\"application\", \"p\", \"k\")) WITHOUT ROWID");
    ks_sql_free(&sql);
}
