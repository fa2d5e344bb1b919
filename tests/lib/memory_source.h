/* SPDX-License-Identifier: Apache-2.0 */
/* memory_source.h - a stream that never ends and costs nearly nothing: a source for benchmarks, and
 * for nothing else.
 *
 * Shards 0 .. shards - 1, each with records 0, 1, 2 .. of `record_bytes` of data. A read is
 * answered in the next turn of the loop with as much as was asked for. It is no source that the
 * house could run on: it has no retention, no splits and no puts.
 */
#ifndef TESTS_LIB_MEMORY_SOURCE_H
#define TESTS_LIB_MEMORY_SOURCE_H

#include "base/loop.h"
#include "ports/stream_source.h"

struct memory_source_config {
    uint32_t shards;
    uint32_t record_bytes;
    /* True: the data of each record is copied into the block of its batch once, as a real source
     * does. False: the block holds the array of records and the sequence numbers, and the data of
     * all records lies in one place, outside of any budget: what is left is the cost of everything
     * behind the source. */
    bool copies;
    /* 0: as much as was asked for. Else a shard has so many records more every millisecond, and no others. */
    uint32_t records_per_ms;
    /* With `copies`: the data of a record begins with when it was given out, nanoseconds of CLOCK_MONOTONIC. */
    bool stamped;
};

/* `config` is copied. Ends the program if there is no memory. */
struct ks_stream_source *memory_source_new(struct ks_loop *loop,
                                           const struct memory_source_config *config);

/* The record with this number as any shard would give it; its sequence number goes into `sequence`.
 */
struct ks_record memory_source_record(const struct ks_stream_source *source, uint64_t number,
                                      char *sequence);

#endif
