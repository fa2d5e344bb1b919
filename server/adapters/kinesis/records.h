/* SPDX-License-Identifier: Apache-2.0 */
/* records.h - the answer of GetRecords, or an event of SubscribeToShard, from its bytes to a batch, in one pass.
 *
 * Record data never becomes a tree: strings are found in place, and stay in the block in which they came (builder.h);
 * base64 is decoded once, over itself. Members that we do not know are
 * skipped, null counts as absent, the order of members does not matter.
 * Formats: Kinesis API reference, GetRecords and SubscribeToShardEvent; the AWS JSON 1.1 protocol (blob = base64 text,
 * timestamp = seconds with a fraction); x-amz-cbor-1.1 (blob = byte string, timestamp = tag 1 and
 * milliseconds), and what emulators make of it (base64 text, seconds as a double).
 * Hostile bytes: bounded by the size of the body and by records_max, MALFORMED. Skipped values are
 * only followed (strings, brackets, depth), not judged.
 * Pure, but for the memory of a larger block.
 */
#ifndef KS_ADAPTERS_KINESIS_RECORDS_H
#define KS_ADAPTERS_KINESIS_RECORDS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/budget.h"
#include "base/bytes.h"
#include "ports/stream_source.h"

enum {
    /* AWS: at most 512 characters; the emulators use about 320. */
    KS_ITERATOR_MAX = 1024,
    /* Containers within each other in a value that is skipped; GetRecords nests 5 deep. */
    KS_RECORDS_DEPTH_MAX = 32
};

struct ks_records {
    /* Belongs to the caller: ks_batch_free. `at_end` if there is no next iterator; of an event, whoever reads it says
     * what its end is. */
    struct ks_batch batch;
    char iterator[KS_ITERATOR_MAX + 1]; /* NextShardIterator; "" at the end of the shard. */
    /* ContinuationSequenceNumber of an event: behind what was read. "": it has none. */
    char continuation[KS_SEQUENCE_MAX + 1];
};

/* Reads the body of a successful answer that holds at most `records_max` (<= KS_READ_RECORDS_MAX) records: what lies in
 * `block` from `begin` on. The block is taken over, in any case; afterwards it is as large as the batch needs it. Where
 * its capacity is below ks_builder_capacity (builder.h) the body moves to a larger one first.
 * MALFORMED; FULL (its budget), NO_MEMORY: then `ret_records` is untouched, and the block is freed.
 * An answer without `Records` is malformed: it must never be mistaken for the end of a shard. */
KS_MUST_USE ks_err ks_records_json(struct ks_block *block, size_t begin, uint32_t records_max,
                                   struct ks_records *ret_records);
KS_MUST_USE ks_err ks_records_cbor(struct ks_block *block, size_t begin, uint32_t records_max,
                                   struct ks_records *ret_records);

#endif
