/* SPDX-License-Identifier: Apache-2.0 */
/* stream_source.h - the port behind which the stream lies (Kinesis by polling or by fan-out; the local stream). One
 * source stands before each of them and takes KPL aggregates apart (adapters/kinesis/user_records.h).
 *
 * The core asks for reads; the source performs them at the pace that its server allows. Records arrive as batches: one
 * payload block, and views into it.
 *
 * Promises of every implementation (tests/contract/stream_source_test.c):
 *  - an answer never arrives inside the call that asked for it; each read is answered exactly once, unless its reader
 *    is closed first: then never;
 *  - the records of a reader come in the order of the shard, each exactly once, from the position where it was opened;
 *    an expired iterator, a throttle or a lost answer neither loses nor repeats one;
 *  - `at_end` is told after the last record, never before;
 *  - records that expired unread are told with the batch that follows them, once;
 *  - one read in flight per reader; reads of a reader are paced (Kinesis: 5 calls/s and 2 MB/s a shard).
 */
#ifndef KS_PORTS_STREAM_SOURCE_H
#define KS_PORTS_STREAM_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/budget.h"
#include "base/bytes.h"
#include "base/instant.h"
#include "core/limits.h"
#include "ports/lease_store.h"

struct ks_shard_listing {
    char shard[KS_SHARD_ID_MAX + 1];
    char parents[KS_PARENTS_MAX][KS_SHARD_ID_MAX + 1]; /* "" = none. */
    char hash_start[KS_HASH_KEY_MAX + 1];
    char hash_end[KS_HASH_KEY_MAX + 1];
    bool closed; /* It has an ending sequence number. */
};

/* One record: views into the payload block of its batch. */
struct ks_record {
    ks_view data;
    ks_view partition_key;
    ks_view sequence;     /* Decimal digits. */
    int64_t sub_sequence; /* Its place in its aggregate, from 0; -1: no part of one. */
    int64_t arrival_ms;   /* ApproximateArrivalTimestamp, Unix ms; 0 = unknown. */
    bool aggregated;      /* A KPL aggregate as it is. */
};

/* Records of the shard that lay before a batch and expired before they were read. */
struct ks_expired {
    bool found; /* The rest means something. */
    bool
        certain; /* There were such records. Else there may have been: the span is an upper bound. */
    int64_t from_ms; /* They arrived at this instant or later, Unix ms; 0: unknown. */
    int64_t to_ms;   /* They arrived before this instant. */
    uint64_t count;  /* How many; 0: unknown. */
};

/* What a read brought. Made by the source, owned by who received it: ks_batch_free. The array of records lies in
 * `block` as well, so that one block is the whole batch, unless many batches share a payload. */
struct ks_batch {
    struct ks_block *block;
    struct ks_block *payload; /* What the records view, if that is not in `block`; NULL if it is. */
    const struct ks_record *records;
    uint32_t count;
    int64_t millis_behind;     /* MillisBehindLatest after this batch; -1 = unknown. */
    bool at_end;               /* The shard is closed and this was the last of it. */
    struct ks_expired expired; /* Before the first of these records. */
    char children[KS_CHILDREN_MAX][KS_SHARD_ID_MAX + 1]; /* With at_end, where the source tells. */
};

struct ks_reader; /* One open shard of a source. */

struct ks_read_answer {
    ks_err
        err; /* KS_OK: `batch` is ours now (it may hold no records). NOT_FOUND: the shard or stream is gone. */
    struct ks_detail detail;
    bool throttled; /* The server asked for less; the source has already slowed down. */
    struct ks_batch batch;
};

struct ks_list_answer {
    ks_err err;
    struct ks_detail detail;
    const struct ks_shard_listing *shards; /* All pages; valid during the call. */
    uint32_t count;
};

struct ks_describe_answer {
    ks_err err;
    struct ks_detail detail;
    char stream_arn[KS_ARN_MAX + 1];
    int64_t created_ms;
};

/* A record to put, and what became of it. */
struct ks_put_entry {
    ks_view data;
    ks_view partition_key;
    ks_view explicit_hash_key; /* Empty = none. */
};

struct ks_put_result {
    char shard[KS_SHARD_ID_MAX + 1];
    char sequence[KS_SEQUENCE_MAX + 1];
    ks_err err;
};

struct ks_put_answer {
    ks_err err; /* Of the whole call. */
    struct ks_detail detail;
    const struct ks_put_result *results; /* One for each entry, in order; valid during the call. */
    uint32_t count;
};

struct ks_stream_source {
    const struct ks_stream_source_vtable *vtable;
};

struct ks_stream_source_vtable {
    void (*describe)(struct ks_stream_source *source,
                     void (*answered)(void *arg, const struct ks_describe_answer *answer),
                     void *arg);
    /* All shards of the stream, over all pages; without those that were closed before `since_ms` (Unix ms; 0: all of
     * them), as far as the server can tell. */
    void (*list)(struct ks_stream_source *source, int64_t since_ms,
                 void (*answered)(void *arg, const struct ks_list_answer *answer), void *arg);

    /* Opens a shard at a position; nothing is read yet, and a position that turns out to be bad is told by the first
     * read. A source that takes no aggregates apart begins with the whole of one for a place inside it (AFTER_SEQUENCE,
     * sub >= 0). `budget` is where batches are charged. NO_MEMORY. */
    ks_err (*open)(struct ks_stream_source *source, const char *shard,
                   const struct ks_position *from, struct ks_budget *budget,
                   struct ks_reader **ret_reader);
    /* Says which hash keys are the shard's, in decimal digits, "" where unknown; before the first read. NULL where it
     * makes no difference. */
    void (*set_range)(struct ks_reader *reader, const char *hash_start, const char *hash_end);
    /* Asks for up to max_records records and about max_bytes of payload, at least one record if there is one. Only when
     * no read of this reader is in flight. The answer may take as long as pacing and back-off require; an empty batch
     * is an answer. FULL (the budget) is an answer, too: nothing is lost, read again when there is room. */
    void (*read)(struct ks_reader *reader, uint32_t max_records, uint32_t max_bytes,
                 void (*answered)(void *arg, const struct ks_read_answer *answer), void *arg);
    /* A read in flight is never answered; its reader is freed at once as far as the caller can see. */
    void (*close_reader)(struct ks_reader *reader);

    /* Returns the stream's own clock, Unix ms, never ahead of it: a record that is put from now on arrives at this
     * instant or later, whatever the clocks of this machine do. 0: not known before the stream has answered once. Each
     * instant that the stream compares with arrivals comes from here. */
    int64_t (*now_ms)(struct ks_stream_source *source);

    /* Returns how long the stream keeps a record, in ms. 0: not known. NULL: it never is. */
    int64_t (*retention_ms)(struct ks_stream_source *source);

    /* NULL where records cannot be put (Kinesis). At most 500 entries, views are copied before it returns. */
    void (*put)(struct ks_stream_source *source, const struct ks_put_entry *entries, uint32_t count,
                void (*answered)(void *arg, const struct ks_put_answer *answer), void *arg);

    /* As for the lease store: readiness and its reason. */
    enum ks_store_state (*state)(const struct ks_stream_source *source,
                                 struct ks_detail *ret_detail);
    /* After all readers are closed. */
    void (*close)(struct ks_stream_source *source);
};

/* Frees the blocks of a batch; its views are dead then. */
static inline void ks_batch_free(struct ks_batch *batch)
{
    ks_block_drop(batch->payload);
    ks_block_drop(batch->block);
    *batch = (struct ks_batch){.block = NULL};
}

#endif
