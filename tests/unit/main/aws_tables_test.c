/* SPDX-License-Identifier: Apache-2.0 */
#include "main/aws_tables.h"

#include "docs.h"
#include "ks_test.h"

#include <string.h>

static struct ks_options options = {
    .application = "app", .dialect = "native", .leases = "dynamodb", .dead_letters = "table"};
static struct ks_aws_table tables[KS_AWS_TABLES_MAX];

static uint32_t tables_of(const char *dialect)
{
    memcpy(options.dialect, dialect, strlen(dialect) + 1);
    return ks_aws_tables(&options, tables);
}

TEST(native_has_one_table_for_leases_and_letters)
{
    EXPECT_EQ_U64(tables_of("native"), 1);
    EXPECT_STR(tables[0].name, "app");
    EXPECT(tables[0].key == NULL && !tables[0].optional);
}

TEST(each_other_dialect_has_its_tables_and_one_of_letters)
{
    EXPECT_EQ_U64(tables_of("kinsumer"), 4);
    EXPECT_STR(tables[1].name, "app_clients");
    EXPECT_STR(tables[1].key, "ID");
    EXPECT_STR(tables[3].name, "app-letters");
    EXPECT(tables[3].key == NULL);
    EXPECT_EQ_U64(tables_of("kcl"), 4);
    EXPECT_STR(tables[1].name, "app-CoordinatorState");
    EXPECT(!tables[0].optional && tables[1].optional && tables[2].optional && !tables[3].optional);
    for (uint32_t at = 0; ks_dialect_at(at) != NULL; at++)
        EXPECT(tables_of(ks_dialect_at(at)->name) > 0 &&
               ks_aws_tables_dialect(&options) == ks_dialect_at(at));
}

TEST(letters_elsewhere_have_no_table)
{
    memcpy(options.dead_letters, "sqs:q", sizeof("sqs:q"));
    EXPECT_EQ_U64(tables_of("go-kcl"), 1);
}

TEST(leases_in_sqlite_have_no_table)
{
    memcpy(options.leases, "sqlite:l.db", sizeof("sqlite:l.db"));
    EXPECT_EQ_U64(tables_of("native"), 0);
}

TEST(docs_and_module_have_the_tables_of_the_code)
{
    docs_expect_table("docs/INFRASTRUCTURE.md", ks_aws_tables_markdown);
    docs_expect_table("deploy/terraform/tables.json", ks_aws_tables_json);
}
