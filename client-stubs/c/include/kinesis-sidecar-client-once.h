/* SPDX-License-Identifier: Apache-2.0 */
/* kinesis-sidecar-client-once.h - effects at most once per record, in a SQLite database of the
 * app.
 *
 * The sidecar delivers at least once. ks_apply_once() stores the position of the record in the
 * transaction of its effect: a redelivery finds it there and has no effect. It works with any
 * ordering and concurrency, with one connection per handler.
 *
 *     static int insert(sqlite3 *db, const ks_record *record, void *context) { .. }
 *
 *     ks_apply_once_create_table(db);
 *     if (ks_apply_once(db, "orders", record, insert, NULL, NULL) == SQLITE_OK)
 *         return 0;
 *
 * Link libkinesis-sidecar-client-once.a and sqlite3. All functions return a result code of
 * SQLite: sqlite3_errstr() has its sentence. The table is that of the packages in other
 * languages: kinesis_sidecar_applied.
 */
#ifndef KINESIS_SIDECAR_CLIENT_ONCE_H
#define KINESIS_SIDECAR_CLIENT_ONCE_H

#include <sqlite3.h>

#include "kinesis-sidecar-client.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Creates the table of positions if it does not exist. */
KS_CLIENT_API int ks_apply_once_create_table(sqlite3 *db);

/* Has the effect of one record, inside of a transaction that the caller of it ends. Returns
 * SQLITE_OK, or a result code that rolls the transaction back. */
typedef int ks_apply_once_effect(sqlite3 *db, const ks_record *record, void *context);

/* Calls `effect` and commits, or does nothing if the record was applied before for `consumer`.
 * The connection must not be in a transaction. Returns SQLITE_OK if the record is applied;
 * `*ret_is_new` (NULL: not wanted) is true if this call applied it. After a failure the
 * transaction is rolled back. */
KS_CLIENT_API int ks_apply_once(sqlite3 *db, const char *consumer, const ks_record *record,
                                ks_apply_once_effect *effect, void *context, bool *ret_is_new);

/* Removes the positions that were stored more than `age_s` seconds ago. Records that can be
 * redelivered must be younger: the retention period of the stream is a safe age. */
KS_CLIENT_API int ks_apply_once_forget(sqlite3 *db, const char *consumer, int64_t age_s);

#ifdef __cplusplus
}
#endif

#endif
