/* SPDX-License-Identifier: Apache-2.0 */
/* put.h - records into a local stream.
 *
 * A put is up to 500 records and is all or nothing. Puts that wait are written together, in one
 * transaction, in the order in which they were asked for. A record's place in its shard is taken within
 * that transaction: the order of a shard is the order of commits, over all processes.
 */
#ifndef KS_ADAPTERS_LOCAL_PUT_H
#define KS_ADAPTERS_LOCAL_PUT_H

#include <stdint.h>

#include "adapters/local/db.h"
#include "base/list.h"
#include "ports/stream_source.h"

enum {
    KS_LOCAL_PUT_ENTRIES_MAX = 500,             /* As PutRecords. */
    KS_LOCAL_PARTITION_KEY_CHARACTERS_MAX = 256 /* Kinesis API reference. */
};

/* One record, copied. */
struct ks_local_entry {
    ks_view data;
    ks_view partition_key;
    ks_hash_key hash;
};

/* One call of put. One piece of memory: ks_free. */
struct ks_local_put {
    struct ks_link link;
    void (*answered)(void *arg, const struct ks_put_answer *answer);
    void *arg;
    ks_err err;              /* What became of it. */
    struct ks_detail detail; /* Likewise. */
    size_t bytes;            /* Of data and keys. */
    uint32_t count;
    struct ks_put_result *results;
    struct ks_local_entry entries[];
};

/* Copies a call. INVALID with a detail that names the entry (partition key 1 to 256 characters of UTF-8,
 * a hash key below 2^128, data and key at most KS_RECORD_BYTES_MAX), NO_MEMORY. */
KS_MUST_USE ks_err ks_local_put_new(const struct ks_put_entry *entries, uint32_t count,
                                    struct ks_local_put **ret_put, struct ks_detail *detail);

/* Writes all puts of the list in one transaction and fills their results. When it fails nothing was
 * written, and `err` and `detail` of each say why; after DISK of a file that was moved or removed, it
 * may be in that one. */
void ks_local_put_write(struct ks_local_db *db, struct ks_link *puts, int64_t now_ms);

#endif
