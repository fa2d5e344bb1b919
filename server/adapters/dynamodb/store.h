/* SPDX-License-Identifier: Apache-2.0 */
/* store.h - the lease store in a DynamoDB table, or in the few tables that a dialect has.
 *
 * Conditional UpdateItem and DeleteItem, GetItem, BatchGetItem and Query; never PutItem, so that attributes we do
 * not know survive. A write is sent once: whatever is not a clear yes or no is UNKNOWN, and the
 * core reads before it goes on. A table is made if it is not there (dynamodb/table.h); until it is
 * ready requests are answered UNKNOWN (BUSY) at once, and with the reason while it is unusable. One
 * that is not there and not made by us has no rows, and is not written to (NOT_FOUND).
 * Any number of requests may be in flight.
 */
#ifndef KS_ADAPTERS_DYNAMODB_STORE_H
#define KS_ADAPTERS_DYNAMODB_STORE_H

#include "adapters/dialects/dialect.h"
#include "adapters/dynamodb/table.h"
#include "aws/client.h"
#include "base/loop.h"
#include "ports/lease_store.h"

/* The tables' names are `table` and what the dialect puts behind it. `client` is of KS_AWS_DYNAMODB and outlives the
 * store. Returns before the tables were reached: see `state`. INVALID with a detail (no name for a table), NO_MEMORY.
 * Not to be closed from within an `answered`. */
KS_MUST_USE ks_err ks_dynamodb_store_open(struct ks_loop *loop, struct ks_aws_client *client,
                                          const char *table, const struct ks_dialect *dialect,
                                          struct ks_lease_store **ret_store,
                                          struct ks_detail *ret_detail);
/* Missing tables are created only after `may_make` returned true. It is called repeatedly, and must work as long
 * as the store is open. Without this call they are made at once. To be called in the turn in which the store was
 * opened. */
void ks_dynamodb_store_make_when(struct ks_lease_store *store, ks_dynamodb_may_make *may_make,
                                 void *arg);

#endif
