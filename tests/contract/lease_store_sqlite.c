/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/lease_store_rig.h"

#include "adapters/sqlite/store.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

/* Beside the store: a connection that does as it likes. */
struct sqlite_world {
    const char *path;
    sqlite3 *db;
};

static struct sqlite_world world;

static void sql(const char *text)
{
    const int code = sqlite3_exec(world.db, text, NULL, NULL, NULL);

    if (code != SQLITE_OK)
        FAIL("%s: %s", text, sqlite3_errmsg(world.db));
}

static struct ks_lease_store *open_store(struct lease_rig *rig)
{
    struct ks_lease_store *store;
    struct ks_detail detail = {""};

    if (!ks_ok(ks_sqlite_store_open(rig->loop, world.path, "app", NULL, NULL, &store, &detail)))
        FAIL("%s", detail.text);
    return store;
}

static void set_up(struct lease_rig *rig)
{
    world.path = ks_test_path("leases.db");
    rig->world = &world;
}

/* The store has made the file by now. */
static void connect_beside(void)
{
    if (world.db != NULL)
        return;
    EXPECT_EQ_I64(sqlite3_open(world.path, &world.db), SQLITE_OK);
    EXPECT_EQ_I64(sqlite3_busy_timeout(world.db, 5000), SQLITE_OK);
}

static void has_column(const char *name)
{
    char *const text = sqlite3_mprintf("ALTER TABLE lease_table ADD COLUMN \"%w\" TEXT", name);

    /* It may be there already. */
    (void)sqlite3_exec(world.db, text, NULL, NULL, NULL);
    sqlite3_free(text);
}

static void poke(struct lease_rig *rig, const char *p, const char *k, const char *name,
                 enum ks_value_type type, const char *text)
{
    const char *const shape = type == KS_VALUE_NUMBER ? "CAST(%Q AS INTEGER)" : "%Q";
    char *value;
    char *statement;

    (void)rig;
    connect_beside();
    has_column(name);
    value = text == NULL ? sqlite3_mprintf("NULL") : sqlite3_mprintf(shape, text);
    statement = sqlite3_mprintf("INSERT INTO lease_table (application, p, k, \"%w\") "
                                "VALUES ('app', %Q, %Q, %s) "
                                "ON CONFLICT DO UPDATE SET \"%w\" = %s",
                                name, p, k, value, name, value);
    sql(statement);
    sqlite3_free(statement);
    sqlite3_free(value);
}

static void peek(struct lease_rig *rig, const char *p, const char *k, const char *name,
                 char *buffer, size_t size)
{
    sqlite3_stmt *statement = NULL;
    char *text;

    (void)rig;
    connect_beside();
    text = sqlite3_mprintf("SELECT \"%w\" FROM lease_table "
                           "WHERE application = 'app' AND p = %Q AND k = %Q",
                           name, p, k);
    EXPECT_EQ_I64(sqlite3_prepare_v2(world.db, text, -1, &statement, NULL), SQLITE_OK);
    EXPECT_EQ_I64(sqlite3_step(statement), SQLITE_ROW);
    sqlite3_free(text);
    (void)snprintf(buffer, size, "%s",
                   sqlite3_column_type(statement, 0) == SQLITE_NULL
                       ? ""
                       : (const char *)sqlite3_column_text(statement, 0));
    (void)sqlite3_finalize(statement);
}

static void hold(struct lease_rig *rig)
{
    (void)rig;
    connect_beside();
    sql("BEGIN IMMEDIATE");
}

static void release(struct lease_rig *rig)
{
    (void)rig;
    sql("COMMIT");
}

static void tear_down(struct lease_rig *rig)
{
    (void)rig;
    EXPECT_EQ_I64(sqlite3_close(world.db), SQLITE_OK);
    world.db = NULL;
}

const struct lease_rig_adapter lease_rig_sqlite = {
    .name = "sqlite",
    .set_up = set_up,
    .open = open_store,
    .poke = poke,
    .peek = peek,
    .hold = hold,
    .release = release,
    .tear_down = tear_down,
};
