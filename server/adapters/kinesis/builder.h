/* SPDX-License-Identifier: Apache-2.0 */
/* builder.h - makes a batch of a body, in the block in which the body came.
 *
 * Whoever reads the body goes through it from front to back, once. What is payload moves down to the front of the
 * block, behind what was kept before, and so never beyond what was read; what is long stays where it is. No second
 * block is filled. The array of records grows behind the body; finish puts it behind the payload, and gives the rest
 * back.
 * A builder that is not finished is abandoned; that frees the block.
 */
#ifndef KS_ADAPTERS_KINESIS_BUILDER_H
#define KS_ADAPTERS_KINESIS_BUILDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/budget.h"
#include "base/bytes.h"
#include "ports/stream_source.h"

struct ks_builder {
    struct ks_block *block; /* Its size is the body's. */
    size_t payload;         /* Bytes from the front. */
    uint32_t count;
    uint32_t records_max;
};

/* What the block of a body of `size` bytes holds, with room for as many records as can be in it: at most `records_max`
 * (<= KS_READ_RECORDS_MAX). */
size_t ks_builder_capacity(size_t size, uint32_t records_max);
/* Takes `block` over, whose `size` bytes are the body or end with it. Where it has no room for the records it moves to
 * a larger one. FULL (the budget), NO_MEMORY: then it is freed. */
KS_MUST_USE ks_err ks_builder_begin(struct ks_builder *builder, struct ks_block *block,
                                    uint32_t records_max);
/* Frees the block of a builder that was begun and not finished. */
void ks_builder_abandon(struct ks_builder *builder);

/* Where the next bytes of payload go, over what was read of the body: no more than was read since the last ones. */
uint8_t *ks_builder_room(const struct ks_builder *builder);
/* Keeps `size` bytes that were written there. */
ks_view ks_builder_took(struct ks_builder *builder, size_t size);
/* Both for a piece of the body as it is, which lies at the room or behind it. */
ks_view ks_builder_keep(struct ks_builder *builder, ks_view piece);

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
