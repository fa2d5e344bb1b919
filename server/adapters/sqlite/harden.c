/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/sqlite/harden.h"

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
