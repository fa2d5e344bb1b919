/* SPDX-License-Identifier: Apache-2.0 */
/* file.h - what is asked of every SQLite file that we open. */
#ifndef KS_ADAPTERS_SQLITE_FILE_H
#define KS_ADAPTERS_SQLITE_FILE_H

#include <sqlite3.h>

#include "base/instant.h"

/* What a file that comes from anywhere must not be able to do: its triggers and views do nothing, its schema calls no
 * function of ours, and a column that is missing is an error and not a string
 * (sqlite.org/c3ref/c_dbconfig_defensive.html). A result code of SQLite. */
int ks_sqlite_harden(sqlite3 *db);

/* Writes go to a log ahead (sqlite.org/wal.html) and are on the disk when they are told. The change needs the file
 * alone for a moment and does not ask the busy handler, so that we wait here, in this thread, until `deadline` at most.
 * A result code of SQLite: SQLITE_BUSY if another process keeps the file. */
int ks_sqlite_use_wal(sqlite3 *db, ks_instant deadline);

#endif
