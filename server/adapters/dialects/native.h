/* SPDX-License-Identifier: Apache-2.0 */
/* native.h - our own lease table: what its rows mean, and what each operation writes.
 *
 * Translation only, of docs/PROTOCOL.md A1, A3 and A5: a request of the port becomes one conditional write, an item
 * becomes a row of the port. It decides nothing. Pure; usable on any thread, one at a time for each value.
 *
 *   row     p    k        attributes (S unless said)
 *   worker  w    id       boot (16 hex digits), life live|fenced|gone, mode active|idle|draining, beat N, held N,
 *                         changes N, capacity N, load N, version, give SS, take SS (of "shard@epoch")
 *   leader  w    #leader  holder, epoch N, deputies SS (of worker ids)
 *   app     w    #app     start, start_sub N, start_ms N, stream_arn, stream_created_ms N
 *   lease   s    shard    owner, next_owner, epoch N, rev N, checkpoint, sub N, checkpoint_ms N, parents SS,
 *                         children SS, hash_start, hash_end, load N, finished BOOL
 *
 * An incarnation is "id#0123456789abcdef". A position is "TRIM_HORIZON", "LATEST", "AT_TIMESTAMP" (with the number
 * _ms), the digits of a sequence number (the record after it; with the number sub inside an aggregate),
 * "AT_SEQUENCE:" and digits, or "SHARD_END".
 */
#ifndef KS_ADAPTERS_DIALECTS_NATIVE_H
#define KS_ADAPTERS_DIALECTS_NATIVE_H

#include "adapters/item.h"
#include "ports/lease_store.h"

enum {
    KS_NATIVE_ROWS_MAX =
        65536, /* Rows of one answer: three times the default quota of shards of an account. */
    KS_NATIVE_TOKENS_MAX = 65536, /* give and take tokens of one answer, over all workers. */
    KS_NATIVE_ROW_TOKENS_MAX =
        4096 /* Of one set: 32 rounds of hints that nobody has taken out; more is damage. */
};

extern const struct ks_schema ks_native_schema;

/* The partitions, and the sort keys of the rows that are no worker. */
#define KS_NATIVE_WORKERS "w"
#define KS_NATIVE_LEASES "s"
#define KS_NATIVE_LEADER "#leader"
#define KS_NATIVE_APP "#app"

/* True for the operations that write. */
bool ks_native_writes(enum ks_store_operation operation);

/* What a read asks for. INVALID for a key that no row can have. */
KS_MUST_USE ks_err ks_native_read(const struct ks_store_request *request,
                                  const char **ret_partition, struct ks_item_keys *ret_keys);

/* Turns a writing request into the write; the caller frees it, also after a failure. INVALID with a detail for values
 * that the table cannot hold (a bad worker or shard id, numbers beyond INT64_MAX, more than KS_TOKENS_MAX tokens in a
 * set, a position without digits); NO_MEMORY. */
KS_MUST_USE ks_err ks_native_write(const struct ks_store_request *request,
                                   struct ks_item_write *ret_write, struct ks_detail *ret_detail);

/* The rows of one answer. Zero-initialise it; it grows to the limits above. */
struct ks_native_rows {
    struct ks_store_worker *workers;
    struct ks_store_lease *leases;
    struct ks_store_token *tokens; /* Of the workers, in their order: gives, then takes. */
    uint32_t worker_count;
    uint32_t worker_room;
    uint32_t lease_count;
    uint32_t lease_room;
    uint32_t token_count;
    uint32_t token_room;
    struct ks_store_leader leader;
    struct ks_store_app app;
    struct ks_kcl_rows kcl;
    bool with_words;       /* Of the lease rows. */
    struct ks_bytes words; /* Of one after the other, each with a NUL. */
    uint32_t asked;        /* For ks_item.asked: set by whoever fills the items. */
    struct ks_store_list list;
    struct ks_bytes list_text; /* What it points into. */
};

/* Adds the row that `item` is. A worker or lease row that cannot be read is added as damaged; a row of partition w
 * that we do not know ("#..") is left out. CORRUPT with a detail for a leader or app row that cannot be read, or a
 * foreign partition; FULL, NO_MEMORY. */
KS_MUST_USE ks_err ks_native_rows_add(struct ks_native_rows *rows, const struct ks_item *item,
                                      struct ks_detail *ret_detail);
/* Adds a lease row as `lease`, which was read with `err`: as damaged if the item is to blame for that, and then with
 * the attribute that was asked for last. Also for other dialects. FULL, NO_MEMORY, and what else `err` says. */
KS_MUST_USE ks_err ks_native_rows_add_lease(struct ks_native_rows *rows, const struct ks_item *item,
                                            ks_err err, const struct ks_store_lease *read);
/* Likewise a worker row. */
KS_MUST_USE ks_err ks_native_rows_add_worker(struct ks_native_rows *rows,
                                             const struct ks_item *item, ks_err err,
                                             const struct ks_store_worker *read);
/* The list of shards; `shards` is copied. FULL, NO_MEMORY. */
KS_MUST_USE ks_err ks_native_rows_list(struct ks_native_rows *rows, ks_view shards, uint64_t rev);
/* Puts the rows into `answer`, which then points into `rows`. */
void ks_native_rows_answer(struct ks_native_rows *rows, struct ks_store_answer *answer);
void ks_native_rows_free(struct ks_native_rows *rows);

#endif
