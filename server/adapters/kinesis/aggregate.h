/* SPDX-License-Identifier: Apache-2.0 */
/* aggregate.h - a record that the Kinesis Producer Library (KPL) has packed of many.
 *
 * F3 89 9A C2, a protobuf message, its MD5 (awslabs/amazon-kinesis-producer, aggregation-format.md):
 *
 *     AggregatedRecord  repeated string partition_key_table = 1
 *                       repeated string explicit_hash_key_table = 2
 *                       repeated Record records = 3
 *     Record            required uint64 partition_key_index = 1
 *                       optional uint64 explicit_hash_key_index = 2
 *                       required bytes data = 3
 *
 * Read by hand. Opening one judges all of it, so that what begins to be delivered can be delivered to its
 * end; nothing of it is copied. Other fields are passed over, and so are these with another wire type, as
 * protobuf does; groups are not read. An aggregate within an aggregate is data.
 * An aggregate that cannot be opened is broken; that depends on its bytes alone, never on memory or on the
 * shard, because a checkpoint counts on finding the same user records again.
 */
#ifndef KS_ADAPTERS_KINESIS_AGGREGATE_H
#define KS_ADAPTERS_KINESIS_AGGREGATE_H

#include <stdbool.h>
#include <stdint.h>

#include "adapters/hash.h"
#include "base/budget.h"
#include "base/bytes.h"

/* True for the magic, more than a digest behind it, and the right digest. Pure. */
bool ks_is_aggregate(ks_view data);

/* The hash keys of a shard, both ends included. */
struct ks_hash_range {
    ks_hash_key start;
    ks_hash_key end;
};

struct ks_user_record {
    ks_view data;
    ks_view partition_key;
    ks_view explicit_hash_key; /* Decimal digits; empty: none. */
    int64_t sub_sequence;      /* Its place in the aggregate, from 0. */
    bool foreign;              /* Its hash key is not in the range. */
};

/* An aggregate that is being read. */
struct ks_aggregate {
    ks_view message;
    ks_view rest;          /* Of the message: what was not read yet. */
    struct ks_block *keys; /* Where the keys of both tables stand, and what is known of them. */
    uint32_t partition_keys;
    uint32_t hash_keys;
    uint32_t records;
    int64_t next; /* Sub-sequence number of the next user record. */
};

/* Opens an aggregate; `data` is one (ks_is_aggregate) and outlives it. What it needs, at most twice the size of
 * `data`, is charged to `budget`, beyond its limit if need be: without it nothing of the aggregate could leave.
 * MALFORMED: broken. NO_MEMORY. */
KS_MUST_USE ks_err ks_aggregate_open(ks_view data, struct ks_budget *budget,
                                     struct ks_aggregate *ret_aggregate);
/* The next user record, views into the aggregate's data; false after the last. `range` NULL: none is foreign. */
bool ks_aggregate_next(struct ks_aggregate *aggregate, const struct ks_hash_range *range,
                       struct ks_user_record *ret_record);
/* Gives its memory back; user records stay good. A zeroed one is allowed. */
void ks_aggregate_close(struct ks_aggregate *aggregate);

#endif
