/* SPDX-License-Identifier: Apache-2.0 */
/* shards.h - the shards of a local stream: made, listed, split, merged, trimmed.
 *
 * As in Kinesis: an id is shardId- and twelve digits; a split or a merge closes its parents and opens
 * children at once; a closed shard stays readable until its records are older than the retention, then
 * it disappears.
 * Every function runs its own transaction unless it says otherwise; errors as in db.h.
 */
#ifndef KS_ADAPTERS_LOCAL_SHARDS_H
#define KS_ADAPTERS_LOCAL_SHARDS_H

#include <stdbool.h>
#include <stdint.h>

#include "adapters/local/db.h"
#include "ports/stream_source.h"

/* A row of the table. */
struct ks_shard_row_local {
    int64_t id;
    uint32_t index;
    int64_t parent; /* Index, or -1. */
    int64_t adjacent;
    ks_hash_key start;
    ks_hash_key end;
    int64_t made_s;
    bool closed;
    int64_t closed_ms;
    uint64_t next; /* Number of the record that comes next; the first one is 1. */
    int64_t arrival_ms;
};

/* "shardId-000000000007" and back. INVALID for another text. */
void ks_shards_name(int64_t index, char buffer[KS_SHARD_ID_MAX + 1]);
KS_MUST_USE ks_err ks_shards_index(ks_view shard, uint32_t *ret_index);

/* Makes the first shards of a stream. Within the caller's transaction. */
KS_MUST_USE ks_err ks_shards_make(struct ks_local_db *db, uint32_t count, int64_t now_ms,
                                  struct ks_detail *detail);

/* Adds a row as it is, with the next number 1 and open. Within the caller's transaction. */
KS_MUST_USE ks_err ks_shards_add(struct ks_local_db *db, const struct ks_shard_row_local *row,
                                 struct ks_detail *detail);

/* All of them by index, or the open ones by hash key. Within the caller's transaction, or alone.
 * `ret_rows` is ks_free'd by the caller. FULL beyond KS_LOCAL_SHARDS_MAX. */
KS_MUST_USE ks_err ks_shards_load(struct ks_local_db *db, bool open_only,
                                  struct ks_shard_row_local **ret_rows, uint32_t *ret_count,
                                  struct ks_detail *detail);
/* One of them. NOT_FOUND. */
KS_MUST_USE ks_err ks_shards_find(struct ks_local_db *db, const char *shard,
                                  struct ks_shard_row_local *ret_row, struct ks_detail *detail);
/* Ids of the children that there are; "" where there is none. */
KS_MUST_USE ks_err ks_shards_children(struct ks_local_db *db, uint32_t index,
                                      char ret_children[KS_CHILDREN_MAX][KS_SHARD_ID_MAX + 1],
                                      struct ks_detail *detail);
/* A row as the port tells it. */
void ks_shards_tell(const struct ks_shard_row_local *row, struct ks_shard_listing *ret_listing);

/* All shards as the port lists them, without those that were closed before `since_ms`; of a slice all of them.
 * `ret_shards` is ks_free'd by the caller. NO_MEMORY, and errors of load. */
KS_MUST_USE ks_err ks_shards_list(struct ks_local_db *db, int64_t since_ms,
                                  struct ks_shard_listing **ret_shards, uint32_t *ret_count,
                                  struct ks_detail *detail);

/* Cuts an open shard in two: the second child begins at hash key `at` (decimal), which lies within the
 * shard but is not its start. NOT_FOUND, INVALID. */
KS_MUST_USE ks_err ks_shards_split(struct ks_local_db *db, const char *shard, const char *at,
                                   struct ks_detail *detail);
/* Joins two open shards whose ranges touch, `adjacent` being the second parent. NOT_FOUND, INVALID. */
KS_MUST_USE ks_err ks_shards_merge(struct ks_local_db *db, const char *shard, const char *adjacent,
                                   struct ks_detail *detail);

/* The number of the first record in [from, row->next) that arrived at `since_ms` or later; row->next if
 * there is none. Arrivals never fall within a shard, but in a slice, which is searched record by record. Within the
 * caller's transaction. */
KS_MUST_USE ks_err ks_shards_since(struct ks_local_db *db, const struct ks_shard_row_local *row,
                                   uint64_t from, int64_t since_ms, uint64_t *ret_number,
                                   struct ks_detail *detail);

/* When the first record in [from, row->next) arrived, Unix ms. NOT_FOUND: there is none. Within the caller's
 * transaction, or alone. */
KS_MUST_USE ks_err ks_shards_first_arrival(struct ks_local_db *db,
                                           const struct ks_shard_row_local *row, uint64_t from,
                                           int64_t *ret_ms, struct ks_detail *detail);
/* The latest arrival in any shard, and the instant before which none comes; 0: there was none. Alone, or within the
 * caller's transaction. */
KS_MUST_USE ks_err ks_shards_last_arrival(struct ks_local_db *db, int64_t *ret_ms,
                                          struct ks_detail *detail);
/* From now on no record of the stream arrives before this instant, whoever puts it. Its own transaction. */
KS_MUST_USE ks_err ks_shards_raise(struct ks_local_db *db, int64_t least_ms,
                                   struct ks_detail *detail);

/* One step of trimming: removes at most `records_max` records that are older than the retention, and
 * closed shards of which nothing is left; of a slice nothing. True in `ret_more` if there is more to remove. */
KS_MUST_USE ks_err ks_shards_trim(struct ks_local_db *db, int64_t now_ms, uint32_t records_max,
                                  bool *ret_more, struct ks_detail *detail);

#endif
