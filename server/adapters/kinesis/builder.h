/* SPDX-License-Identifier: Apache-2.0 */
/* builder.h - makes a batch in one block while nobody knows yet how many records will come.
 *
 * Payload grows from the front of the block, the array of records from its end, backwards; finish
 * puts the array behind the payload, in order, and gives the room between them back. So payload is
 * written once, where it stays.
 * A builder that is not finished is abandoned; that frees the block.
 */
#ifndef KS_ADAPTERS_KINESIS_BUILDER_H
#define KS_ADAPTERS_KINESIS_BUILDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/budget.h"
#include "base/bytes.h"
#include "ports/stream_source.h"

enum {
    /* Room behind the last payload byte, for the decoder of base/codec.h that writes too far. */
    KS_BUILDER_SLACK = 32
};

struct ks_builder {
    struct ks_block *block;
    size_t payload;     /* Bytes from the front. */
    size_t payload_max; /* As was asked for. */
    uint32_t count;
    uint32_t records_max;
};

/* Room for `payload_max` bytes and `records_max` records. FULL (the budget), NO_MEMORY. */
KS_MUST_USE ks_err ks_builder_begin(struct ks_builder *builder, struct ks_budget *budget,
                                    size_t payload_max, uint32_t records_max);
/* Frees the block of a builder that was begun and not finished. */
void ks_builder_abandon(struct ks_builder *builder);

/* Where `size` bytes may be written now, KS_BUILDER_SLACK bytes of garbage behind them included;
 * NULL if there is no room. ks_builder_took says how many it were in the end. */
uint8_t *ks_builder_room(struct ks_builder *builder, size_t size);
/* Keeps the first `size` bytes of the room asked for last. */
ks_view ks_builder_took(struct ks_builder *builder, size_t size);

/* Appends a record whose views lie in the payload. Says itself whether it is an aggregate.
 * MALFORMED beyond records_max, and without data, partition key and sequence number. */
KS_MUST_USE ks_err ks_builder_add(struct ks_builder *builder, const struct ks_record *record);

/* Ends it: block, payload (none), records and count of `ret_batch`; its other fields are left alone. */
void ks_builder_finish(struct ks_builder *builder, struct ks_batch *ret_batch);
/* The same if what was read with it is KS_OK, else abandons it; returns `err`. */
KS_MUST_USE ks_err ks_builder_end(struct ks_builder *builder, ks_err err,
                                  struct ks_batch *ret_batch);

/* True for 1 .. KS_SEQUENCE_MAX decimal digits without a leading zero, or "0". */
bool ks_sequence_is_valid(ks_view sequence);

#endif
