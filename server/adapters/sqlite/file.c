/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/sqlite/file.h"

#include "base/loop.h"

#include <stddef.h>

int ks_sqlite_harden(sqlite3 *db)
{
    static const struct {
        int option, value;
    } options[] = {
        {SQLITE_DBCONFIG_DEFENSIVE, 1},      {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
        {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0}, {SQLITE_DBCONFIG_ENABLE_VIEW, 0},
        {SQLITE_DBCONFIG_DQS_DML, 0},        {SQLITE_DBCONFIG_DQS_DDL, 0},
    };

    for (size_t at = 0; at < sizeof(options) / sizeof(options[0]); at++) {
        const int code = sqlite3_db_config(db, options[at].option, options[at].value, (int *)NULL);

        if (code != SQLITE_OK)
            return code;
    }
    return SQLITE_OK;
}

int ks_sqlite_use_wal(sqlite3 *db, ks_instant deadline)
{
    static const char sql[] = "PRAGMA journal_mode = WAL";
    int code = sqlite3_exec(db, sql, NULL, NULL, NULL);

    while ((code & 0xFF) == SQLITE_BUSY && !ks_instant_reached(ks_instant_now(), deadline)) {
        (void)sqlite3_sleep(1);
        code = sqlite3_exec(db, sql, NULL, NULL, NULL);
    }
    if (code == SQLITE_OK)
        code = sqlite3_exec(db, "PRAGMA synchronous = FULL", NULL, NULL, NULL);
    return code;
}
