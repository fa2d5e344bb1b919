/* SPDX-License-Identifier: Apache-2.0 */
/* batches.h - the records of one lease epoch that are in memory: the batches behind the core's dense numbers.
 *
 * Records are numbered 0, 1, 2 .. in the order of the shard, over all batches of the epoch. A batch lives until every
 * record in it is below the watermark. Looking up a record costs O(1) when numbers are walked in order, O(log batches)
 * otherwise, and never allocates. Loop thread only.
 */
#ifndef KS_PORTS_BATCHES_H
#define KS_PORTS_BATCHES_H

#include "core/types.h"
#include "ports/stream_source.h"

struct ks_kept_batch {
    struct ks_batch batch;
    ks_number first; /* The number of its first record. */
};

struct ks_batches {
    struct ks_kept_batch *items; /* items[head] .. items[head + count - 1], oldest first. */
    uint32_t head;
    uint32_t count;
    uint32_t capacity;
    uint32_t last;       /* Where the last lookup found its record. */
    ks_number next;      /* The number of the next record that arrives. */
    ks_number forgotten; /* Records below are gone. */
};

/* Zeroed is empty: record 0 comes next. Drops every batch and begins again at 0; keeps no memory. */
void ks_batches_clear(struct ks_batches *batches);

/* Makes room for one more batch, so that keeping it cannot fail. NO_MEMORY. */
KS_MUST_USE ks_err ks_batches_reserve(struct ks_batches *batches);
/* Takes over `batch`, which holds at least one record, and numbers its records. There is room (ks_batches_reserve). */
void ks_batches_keep(struct ks_batches *batches, struct ks_batch *batch);

/* The record; NULL if it was forgotten or has not arrived. Its views live as long as its batch. Those that came with it
 * follow it in one array. */
const struct ks_record *ks_batches_record(struct ks_batches *batches, ks_number number);
/* The batch of a record that ks_batches_record() has just returned. */
const struct ks_batch *ks_batches_batch(const struct ks_batches *batches, ks_number number);
/* Records below `number` (at most `next`) are settled: frees their batches. The checkpoint after the last of them goes
 * to `ret_mark`, unless all of them were forgotten before. True if it was written. */
bool ks_batches_forget(struct ks_batches *batches, ks_number number, struct ks_position *ret_mark);
/* Likewise, before they are forgotten: after the last of them that is surely the last of its aggregate, or is in none;
 * a position of whole records. False, and `ret_whole` stays, if there is none among them. */
bool ks_batches_whole(struct ks_batches *batches, ks_number number, struct ks_position *ret_whole);

/* The record at exactly this position, among those in memory and below `below`. False if there is none. */
bool ks_batches_find(const struct ks_batches *batches, ks_view sequence, int64_t sub_sequence,
                     ks_number below, ks_number *ret_number);

/* < 0, 0, > 0 as position a lies before, at or after b. Sequence numbers are decimal numbers of any length. A record
 * that is no part of an aggregate (sub-sequence -1) and sub-sequence 0 are the same place: clients see 0 for both. */
int ks_position_compare(ks_view sequence_a, int64_t sub_a, ks_view sequence_b, int64_t sub_b);

#endif
