/* SPDX-License-Identifier: Apache-2.0 */
/* kcl_fleet.h - the rows of KCL 3.x that are no leases: who works, who leads, and in which manner the fleet agrees.
 *
 * The format is that of amazon-kinesis-client 3.0 to 3.5, seen in the tables of 3.4.2 and 3.5.1. 3.0 to 3.4 keep them
 * in tables of their own, APPLICATION-CoordinatorState (key `key`) and APPLICATION-WorkerMetricStats (key `wid`); 3.5
 * in the table of the leases (key `leaseKey`, and entityType S says what a row is).
 *
 *   Leader            ownerName S; recordVersionNumber S: another one with each heartbeat; leaseDuration S: digits, ms;
 *                     isReleased S "1": nobody's
 *   Migration3.0      cv S: CLIENT_VERSION_2X, _UPGRADE_FROM_2X, _3X_WITH_ROLLBACK, _3X
 *   TableMigration3.5 tm S: TABLE_MIGRATION_STATUS_INIT, _DEPLOYED, _PENDING, _COMPLETE
 *   of a worker       the key is its id; lut N: when it reported, s since 1970; sts M of L of N: at most 10 samples,
 *                     the oldest first, by the name of the metric (C: CPU in percent; -1: not measured); opr likewise:
 *                     what it may come to; sup N: what the worker can (1: rows in one table); slu N: when it said so
 *
 * Of these we write but our own worker's. Whatever else stands in a row is passed over. Pure.
 */
#ifndef KS_ADAPTERS_DIALECTS_KCL_FLEET_H
#define KS_ADAPTERS_DIALECTS_KCL_FLEET_H

#include "adapters/dialects/native.h"
#include "adapters/item.h"

#define KS_KCL_COORDINATOR_SUFFIX "-CoordinatorState"
#define KS_KCL_METRICS_SUFFIX "-WorkerMetricStats"
#define KS_KCL_LEADER "Leader"
#define KS_KCL_VERSION "Migration3.0"
#define KS_KCL_TABLES "TableMigration3.5"

enum { KS_KCL_LEADER_MS = 120000 }; /* dynamoDbLockBasedLeaderLeaseDurationInMillis. */

/* What a schema needs whose table has such rows; entityType is the caller's. */
#define KS_KCL_COORDINATOR_ATTRIBUTES                                                              \
    {"cv", KS_VALUE_TEXT}, {"tm", KS_VALUE_TEXT}, {"recordVersionNumber", KS_VALUE_TEXT},          \
        {"leaseDuration", KS_VALUE_TEXT}, {"ownerName", KS_VALUE_TEXT},                            \
    {                                                                                              \
        "isReleased", KS_VALUE_TEXT                                                                \
    }
#define KS_KCL_METRICS_ATTRIBUTES                                                                  \
    {"lut", KS_VALUE_NUMBER},                                                                      \
    {                                                                                              \
        "sts", KS_VALUE_SERIES                                                                     \
    }
/* Those of the tables of 3.0 to 3.4. */
extern const struct ks_schema ks_kcl_coordinator_schema;
extern const struct ks_schema ks_kcl_metrics_schema;

/* Adds a row that is no lease, of either layout: to rows->kcl, and who leads to rows->leader; or to rows->workers; or
 * not at all if it is none of those above. What cannot be read makes rows->kcl, or the worker, damaged. FULL,
 * NO_MEMORY. */
KS_MUST_USE ks_err ks_kcl_fleet_add(struct ks_native_rows *rows, const struct ks_item *item);

/* The keys of the three rows about the fleet, of either layout. */
KS_MUST_USE ks_err ks_kcl_fleet_keys(struct ks_item_keys *ret_keys);

/* SAY_GONE: deletes the row of our worker (`worker`). HEARTBEAT: makes or updates it: `next_rev` is the time in s since
 * 1970, `cpu` is said if `measured`; `together` says which layout. The caller frees it, also after a failure. INVALID:
 * no id that a row of the table could have, or that of another row; NO_MEMORY. */
KS_MUST_USE ks_err ks_kcl_metrics_write(const struct ks_store_request *request,
                                        struct ks_item_write *ret_write);

#endif
