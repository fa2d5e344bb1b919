/* SPDX-License-Identifier: Apache-2.0 */
/* harden.h - what a SQLite file that comes from anywhere must not be able to do.
 *
 * Its triggers and views do nothing, its schema calls no function of ours, and a column that is missing is an error and
 * not a string (sqlite.org/c3ref/c_dbconfig_defensive.html). For whoever has just opened one.
 */
#ifndef KS_ADAPTERS_SQLITE_HARDEN_H
#define KS_ADAPTERS_SQLITE_HARDEN_H

#include <sqlite3.h>

/* A result code of SQLite. */
int ks_sqlite_harden(sqlite3 *db);

#endif
