/* SPDX-License-Identifier: Apache-2.0 */
/* wire.h - requests of DynamoDB as JSON, and items as they come back.
 *
 * Formats: API reference of DynamoDB, version 2012-08-10 (UpdateItem, DeleteItem, GetItem,
 * BatchGetItem, Query, CreateTable; condition and update expressions). Every name and every value in an expression is a
 * placeholder. Pure.
 */
#ifndef KS_ADAPTERS_DYNAMODB_WIRE_H
#define KS_ADAPTERS_DYNAMODB_WIRE_H

#include "adapters/item.h"
#include "aws/json.h"

enum {
    /* A request: 256 tokens, or a list of 10,000 shards; twice what they take. */
    KS_DYNAMODB_BODY_MAX = 1 << 20,
    KS_DYNAMODB_TABLE_MIN = 3, /* Characters of a table's name (CreateTable). */
    KS_DYNAMODB_TABLE_MAX = 255
};

/* Key attributes of a native table and of one of dead letters: HASH and RANGE, of type S. */
#define KS_DYNAMODB_HASH "p"
#define KS_DYNAMODB_RANGE "k"

/* The bodies are appended to `body`. FULL, NO_MEMORY, INVALID (text that is not UTF-8). */

/* UpdateItem or DeleteItem (ks_dynamodb_write_operation), which answers the old row if it is
 * refused, and the new one if `tells`. */
KS_MUST_USE ks_err ks_dynamodb_put_write(struct ks_bytes *body, const char *table,
                                         const struct ks_item_write *write, bool tells);
const char *ks_dynamodb_write_operation(const struct ks_item_write *write);
/* `key`, here and below: the one key attribute, whose value is `k`; NULL: p and k are. */
/* GetItem, strongly consistent. */
KS_MUST_USE ks_err ks_dynamodb_put_get(struct ks_bytes *body, const char *table, const char *key,
                                       const char *p, const char *k);
/* BatchGetItem of these rows of a partition, at least one, eventually consistent; of a table with one key attribute
 * strongly. */
KS_MUST_USE ks_err ks_dynamodb_put_batch_get(struct ks_bytes *body, const char *table,
                                             const char *key, const char *p,
                                             const struct ks_item_keys *keys);
/* Query of an index with the hash key `index_key`, for the rows that have `value` there, from behind the row `after`.
 */
KS_MUST_USE ks_err ks_dynamodb_put_index_query(struct ks_bytes *body, const char *table,
                                               const char *key, const char *index,
                                               const char *index_key, ks_view value, ks_view after);
/* Query of a partition, from behind the key `after` (KS_VIEW_NONE: from its begin). */
KS_MUST_USE ks_err ks_dynamodb_put_query(struct ks_bytes *body, const char *table, const char *p,
                                         ks_view after, bool consistent);
/* Scan of a table with one key attribute, likewise. */
KS_MUST_USE ks_err ks_dynamodb_put_scan(struct ks_bytes *body, const char *table, const char *key,
                                        ks_view after, bool consistent);
/* DescribeTable. */
KS_MUST_USE ks_err ks_dynamodb_put_describe(struct ks_bytes *body, const char *table);
/* CreateTable: PAY_PER_REQUEST. */
KS_MUST_USE ks_err ks_dynamodb_put_create(struct ks_bytes *body, const char *table,
                                          const char *key);

/* Reads an item; attributes that the schema does not know are passed over. The texts of sets are
 * put into `texts`, which is cleared first; all others are views into the document.
 * MALFORMED if it is no item with the keys p and k; FULL, NO_MEMORY. */
KS_MUST_USE ks_err ks_dynamodb_read_item(const struct ks_json *json, const struct ks_schema *schema,
                                         struct ks_bytes *texts, struct ks_item *ret_item);

/* The rows of `asked` that an answer to BatchGetItem leaves unread; they are of one partition, so that `k` tells.
 * MALFORMED if it names others. */
KS_MUST_USE ks_err ks_dynamodb_read_unprocessed(const struct ks_json *json, const char *table,
                                                const char *key, const struct ks_item_keys *asked,
                                                struct ks_item_keys *ret_left);

#endif
