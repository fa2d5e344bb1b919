/* SPDX-License-Identifier: Apache-2.0 */
#include "main/lease_table.h"

#include "base/budget.h"
#include "ks_test.h"
#include "unit/main/leases_rig.h"

#include <string.h>

static struct ks_options options;
static struct ks_lease_desk desk;
static struct ks_detail detail;

static void begin(void)
{
    char *argv[] = {"test", "--application", "app"};
    char *none[] = {NULL};

    EXPECT_OK(ks_options_read_partly(3, argv, none, &options, &detail));
    EXPECT_OK(ks_lease_desk_open(&desk, &options));
}

TEST(a_word_names_a_table)
{
    struct ks_lease_table table;

    begin();
    EXPECT_OK(ks_lease_table_name(&table, &desk, "go-kcl:orders", &detail));
    EXPECT(table.dialect == &ks_go_kcl_dialect && table.path == NULL);
    EXPECT_STR(table.name, "orders");
    EXPECT_OK(ks_lease_table_name(&table, &desk, "kcl", &detail));
    EXPECT_STR(table.name, "app");
    EXPECT_OK(ks_lease_table_name(&table, &desk, "native:sqlite:/a:b.db", &detail));
    EXPECT_STR(table.path, "/a:b.db");
    EXPECT_ERR(ks_lease_table_name(&table, &desk, "orders", &detail), INVALID);
    EXPECT_ERR(ks_lease_table_name(&table, &desk, "kcl:sqlite:/a.db", &detail), INVALID);
    options.application[0] = '\0';
    EXPECT_ERR(ks_lease_table_name(&table, &desk, "kcl", &detail), INVALID);
    ks_lease_desk_close(&desk);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

TEST(what_is_not_there_is_absent_and_not_made)
{
    struct ks_lease_table table;

    begin();
    EXPECT_OK(ks_lease_table_name(&table, &desk, rig_table("none"), &detail));
    EXPECT_OK(ks_lease_table_open(&table, false, &detail));
    EXPECT(table.absent);
    EXPECT_OK(ks_lease_table_read(&table, &detail));
    EXPECT_EQ_U64(table.rows.lease_count, 0);
    ks_lease_table_close(&table);
    EXPECT_OK(ks_lease_table_open(&table, true, &detail));
    EXPECT(!table.absent);
    ks_lease_table_close(&table);
    ks_lease_desk_close(&desk);
}

TEST(a_mend_is_conditional_on_what_was_read)
{
    struct ks_lease_table table;
    struct ks_store_lease was;
    struct ks_store_lease wanted;
    struct ks_lease_mend mend;

    rig_fill("a");
    begin();
    EXPECT_OK(ks_lease_table_name(&table, &desk, rig_table("a"), &detail));
    EXPECT_OK(ks_lease_table_open(&table, false, &detail));
    EXPECT_OK(ks_lease_table_read(&table, &detail));
    EXPECT_EQ_U64(table.rows.lease_count, 3);
    was = table.rows.leases[0];
    wanted = was;
    wanted.rev = 10;
    was.rev = 8;
    mend = (struct ks_lease_mend){.lease = &wanted, .was = &was};
    ks_lease_table_mend(&table, &mend, 1);
    EXPECT_EQ_I64(mend.outcome, KS_REFUSED);
    mend = (struct ks_lease_mend){.lease = &wanted};
    ks_lease_table_mend(&table, &mend, 1);
    EXPECT_EQ_I64(mend.outcome, KS_REFUSED);
    was.rev = 9;
    mend = (struct ks_lease_mend){.lease = &wanted, .was = &was};
    ks_lease_table_mend(&table, &mend, 1);
    EXPECT_EQ_I64(mend.outcome, KS_DONE);
    ks_lease_table_close(&table);
    ks_lease_desk_close(&desk);
}

TEST(a_table_at_rest_is_seen_as_that)
{
    struct ks_lease_table table;
    struct ks_lease_table *const tables[2] = {NULL, &table};
    ks_err err;

    rig_fill("a");
    begin();
    EXPECT_OK(ks_lease_table_name(&table, &desk, rig_table("a"), &detail));
    EXPECT_OK(ks_lease_table_open(&table, false, &detail));
    EXPECT_OK(ks_lease_table_read(&table, &detail));
    EXPECT(!ks_lease_tables_live(tables, ks_span_ms(100), &detail, &err));
    EXPECT_OK(err);
    ks_lease_table_close(&table);
    ks_lease_desk_close(&desk);
}
