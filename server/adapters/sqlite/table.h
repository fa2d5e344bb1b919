/* SPDX-License-Identifier: Apache-2.0 */
/* table.h - the lease table in a SQLite file: opened, checked, and worked with.
 *
 * Blocking; after ks_sqlite_table_open it is used on one thread only. One file may hold the
 * tables of several applications (a column tells them apart) and serve several processes of one
 * machine: WAL, our own busy handler (SQLite's starves waiters for seconds). No lock is held while
 * a disk is waited for: a process that is stopped stops the others only between BEGIN and COMMIT.
 * What others see of a write before it is durable is older in the log than anything that they
 * write, so that it is durable before what follows from it.
 * A file is ours if its application_id says so, and of a version that we know if its user_version
 * does; an empty one becomes ours. WAL needs shared memory: no NFS, no EFS.
 */
#ifndef KS_ADAPTERS_SQLITE_TABLE_H
#define KS_ADAPTERS_SQLITE_TABLE_H

#include "adapters/asks.h"
#include "adapters/sqlite/file.h"

enum {
    KS_SQLITE_APPLICATION_ID = 0x6B736C74, /* "kslt" */
    KS_SQLITE_VERSION = 2,                 /* Of the table's shape: user_version. */
    KS_SQLITE_OPEN_MS = 2000,              /* How long others may hold the file while we open it. */
    KS_SQLITE_APPLICATION_MAX = 255        /* Characters of an application's name. */
};

struct ks_sqlite_table;

/* Opens the file, and makes it (not its directory) if it is not there. With a sentence in
 * `ret_detail`: FOREIGN (no lease table of ours), CORRUPT, DISK (full), DENIED or SYSTEM (the file or
 * its directory may not be written, or there is no such directory), BUSY, INVALID (the name of the
 * application), NO_MEMORY. */
KS_MUST_USE ks_err ks_sqlite_table_open(const char *path, const char *application,
                                        struct ks_sqlite_table **ret_table,
                                        struct ks_detail *ret_detail);
/* NULL is allowed. */
void ks_sqlite_table_close(struct ks_sqlite_table *table);

/* Performs one request in one transaction, and puts what came of it into `work`. Waits for other
 * processes until its deadline, and writes nothing after that. Nothing of it is durable before
 * ks_sqlite_table_settle. */
void ks_sqlite_table_perform(struct ks_sqlite_table *table, struct ks_ask_work *work);
/* Waits until what was performed is on the disk, in the file that the path names; what is not
 * becomes UNKNOWN. Keeps no lock meanwhile. */
void ks_sqlite_table_settle(struct ks_sqlite_table *table, struct ks_ask_work *const *works,
                            uint32_t count);

/* Who kept the file locked when a request gave up (ks_sqlite_holder in sqlite/file.h); "" if none
 * did since the last call. */
void ks_sqlite_table_holder(struct ks_sqlite_table *table, char ret_text[KS_SQLITE_HOLDER_SIZE]);

/* A number that changes when another process (or connection) has written to the file. Left as it
 * is while the file cannot be asked: the next look will tell. */
void ks_sqlite_table_version(struct ks_sqlite_table *table, int64_t *ret_version);

#endif
