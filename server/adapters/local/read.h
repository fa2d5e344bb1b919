/* SPDX-License-Identifier: Apache-2.0 */
/* read.h - records out of a local stream: a place in a shard, what lies there, and a batch of it.
 *
 * Two steps, because the block of a batch is made on the loop thread, under its budget: look says how
 * much there is, fill copies it. A record between the two may be trimmed, never changed.
 */
#ifndef KS_ADAPTERS_LOCAL_READ_H
#define KS_ADAPTERS_LOCAL_READ_H

#include <stdbool.h>
#include <stdint.h>

#include "adapters/local/db.h"
#include "ports/stream_source.h"

struct ks_local_cursor {
    char shard[KS_SHARD_ID_MAX + 1];
    struct ks_position from;
    int64_t until_ms; /* Only records that arrived by then are read, Unix ms; 0: all. */
    bool resolved;    /* `from` was turned into what follows. */
    bool by_time;     /* `next` is only where the search for from.timestamp_ms goes on. */
    int64_t shard_id;
    uint32_t index;
    int64_t made_s;
    uint64_t next;   /* Number of the first record that was not delivered. */
    bool exact;      /* That record is wanted: the place is no horizon and no instant. */
    int64_t read_ms; /* When the record before it arrived; 0: unknown. */
};

/* What there is. */
struct ks_local_look {
    uint32_t count; /* Records of the next batch; 0: none, yet or any more. */
    uint64_t first; /* Their numbers. */
    uint64_t last;
    size_t block_bytes;        /* What their batch needs. */
    bool at_end;               /* The shard is closed and these are its last. */
    int64_t last_ms;           /* When the last of them arrived. */
    struct ks_expired expired; /* Before the first of them. */
    int64_t millis_behind;
    int64_t next_ms; /* When the next record arrived, if its time has not come; 0: else. */
    char children[KS_CHILDREN_MAX][KS_SHARD_ID_MAX + 1]; /* With at_end. */
};

/* Finds the place that `from` names. NOT_FOUND: no such shard. INVALID: a sequence number that the shard
 * has not given yet, or never will: reading on from it would skip records silently. A number that is older
 * than what there is begins at the oldest record, as in Kinesis. */
KS_MUST_USE ks_err ks_local_resolve(struct ks_local_db *db, struct ks_local_cursor *cursor,
                                    struct ks_detail *detail);

/* Where a played stream begins (stream.h): the arrival, Unix ms, of the oldest record of the stream for a cursor that
 * begins at the horizon, at its instant at the earliest for one that begins at an instant, else of the first record at
 * the cursor. NOT_FOUND: there is none yet. Errors of resolve. */
KS_MUST_USE ks_err ks_local_first(struct ks_local_db *db, struct ks_local_cursor *cursor,
                                  int64_t *ret_ms, struct ks_detail *detail);

/* Looks for the next records: at most records_max of about bytes_max, at least one if there is one.
 * Resolves first if need be. Records that expired unread are told with the look that passes over them; where
 * none is left behind them, the cursor has passed over them with this look. Records that arrived after the
 * cursor's `until_ms`, and those behind them, are not there yet; a reader that waits for one is not behind.
 * Errors of resolve; NOT_FOUND also for a shard that has gone since. */
KS_MUST_USE ks_err ks_local_look(struct ks_local_db *db, struct ks_local_cursor *cursor,
                                 uint32_t records_max, uint32_t bytes_max, int64_t now_ms,
                                 struct ks_local_look *ret_look, struct ks_detail *detail);

/* Copies what was looked at into `block`, of look->block_bytes, and advances the cursor behind it.
 * Fills block, records and count of the batch. */
KS_MUST_USE ks_err ks_local_fill(struct ks_local_db *db, struct ks_local_cursor *cursor,
                                 const struct ks_local_look *look, struct ks_block *block,
                                 struct ks_batch *ret_batch, struct ks_detail *detail);

#endif
