/* SPDX-License-Identifier: Apache-2.0 */
/* file.h - what every SQLite file that we open has in common: it is hardened, it has a log ahead, its path still names
 * it, and whoever keeps it locked is named.
 */
#ifndef KS_ADAPTERS_SQLITE_FILE_H
#define KS_ADAPTERS_SQLITE_FILE_H

#include <sqlite3.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/instant.h"

enum {
    KS_SQLITE_FILES = 3,       /* The database, its log, its shared memory. */
    KS_SQLITE_HOLDER_SIZE = 96 /* Of a text of ks_sqlite_holder. */
};

/* What a file that comes from anywhere must not be able to do: its triggers and views do nothing, its schema calls no
 * function of ours, and a column that is missing is an error and not a string
 * (sqlite.org/c3ref/c_dbconfig_defensive.html). A result code of SQLite. */
int ks_sqlite_harden(sqlite3 *db);

/* Advice for the last error of `db`: ": " and a sentence if the file could not be opened, else "". */
const char *ks_sqlite_open_advice(sqlite3 *db);
#define KS_SQLITE_CANTOPEN_ADVICE "the directory must exist and be writable for this user"

/* Before SQLite opens `path` to write: makes the file if it is not there, for this user alone, as SQLite makes its log
 * and its shared memory like the file. DISK, with a sentence: the path names a symbolic link, which could lead a write
 * anywhere (directories on the way may be links), or the group of ks_sqlite_share_with cannot be given the file. What
 * else is wrong SQLite says when it opens it. */
KS_MUST_USE ks_err ks_sqlite_make_private(const char *path, struct ks_detail *ret_detail);
/* From now on files that are made may be read and written by this group, too. Once, before any file is opened. */
void ks_sqlite_share_with(gid_t group);

/* When a commit is on the disk. */
enum ks_sqlite_durability {
    /* When it returns: it waits for the disk while it keeps the file's write lock. Others see what is durable only. */
    KS_SQLITE_DURABLE_COMMITS,
    /* After ks_sqlite_sync, which keeps no lock: a process that stands still in it stops nobody else. Others see a
     * commit before it is durable. */
    KS_SQLITE_SYNCED_COMMITS
};

/* Writes go to a log ahead (sqlite.org/wal.html). The change needs the file alone for a moment and does not ask the
 * busy handler, so that we wait here, in this thread, until `deadline` at most.
 * A result code of SQLite: SQLITE_BUSY if another process keeps the file. */
int ks_sqlite_use_wal(sqlite3 *db, enum ks_sqlite_durability durability, ks_instant deadline);

/* Waits until every commit so far, of any process, is on the disk. A result code of SQLite.
 * `failed` belongs to the connection, false at first. After a failure the system may have forgotten what it could not
 * write: then no sync of the log tells anything, until all of it was moved into the file. */
int ks_sqlite_sync(sqlite3 *db, bool *failed);

/* Which files a connection has open: the numbers of their devices and inodes. */
struct ks_sqlite_place {
    struct {
        dev_t device;
        ino_t inode;
    } files[KS_SQLITE_FILES];
};

/* Notes the files that `path` and the names of its log and its shared memory name, and gives those that were made to
 * the group of ks_sqlite_share_with: to be called right after the file was opened, with its log turned on.
 * DISK, with a sentence: the path names another file already. */
KS_MUST_USE ks_err ks_sqlite_place_note(sqlite3 *db, const char *path,
                                        struct ks_sqlite_place *ret_place,
                                        struct ks_detail *ret_detail);
/* True while the path still names the files of `place`. A write is durable if this is true after it was on the disk:
 * a file that was moved or removed before may take it and never be opened again. */
bool ks_sqlite_place_holds(sqlite3 *db, const char *path, const struct ks_sqlite_place *place);
/* KS_OK while it holds; else DISK, with a sentence that names the file and what to do. */
KS_MUST_USE ks_err ks_sqlite_place_check(sqlite3 *db, const char *path,
                                         const struct ks_sqlite_place *place,
                                         struct ks_detail *ret_detail);

/* Closes the connection; what a moved file's log has goes into the file before, which is then whole where it is now.
 * NULL is allowed. */
void ks_sqlite_close(sqlite3 *db);

/* Who keeps the file locked, as a half sentence: ", held by process 4711 (python3, stopped)". "" if the system does not
 * tell (/proc/locks), or the lock was free again. */
void ks_sqlite_holder(sqlite3 *db, char ret_text[KS_SQLITE_HOLDER_SIZE]);

#endif
