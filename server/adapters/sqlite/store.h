/* SPDX-License-Identifier: Apache-2.0 */
/* store.h - the lease store in a SQLite file: the embedded default.
 *
 * Several processes of one machine may share one file. All work with it is done on a thread of its
 * own, up to KS_SQLITE_JOB_MAX requests in a job, each in its own transaction, and durable when the
 * job ends; heartbeats go first. Opening and closing block the caller for a moment: the file is
 * opened and checked before ks_sqlite_store_open returns.
 */
#ifndef KS_ADAPTERS_SQLITE_STORE_H
#define KS_ADAPTERS_SQLITE_STORE_H

#include "base/loop.h"
#include "ports/lease_store.h"

enum {
    KS_SQLITE_JOB_MAX = 64,  /* Requests of one job: a heartbeat waits for the running one. */
    KS_SQLITE_LOOK_MS = 100, /* How often it looks whether another process has written. */
};

/* `application` names our rows in the file: others in it are left alone. `changed(arg)` (or NULL) is
 * called on the loop after another process, or another store, has written to the file: a hint to
 * read early. Errors as ks_sqlite_table_open in sqlite/table.h, with a sentence in `ret_detail`.
 *
 * After close, a job that was away still needs its loop for a turn to be freed. Not to be closed
 * from within an `answered` or `changed`. */
KS_MUST_USE ks_err ks_sqlite_store_open(struct ks_loop *loop, const char *path,
                                        const char *application, void (*changed)(void *arg),
                                        void *arg, struct ks_lease_store **ret_store,
                                        struct ks_detail *ret_detail);

#endif
