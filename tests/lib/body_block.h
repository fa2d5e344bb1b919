/* SPDX-License-Identifier: Apache-2.0 */
/* body_block.h - bytes as the body of an answer, in a block that a reader of records takes over.
 *
 * Without a margin: what steps beyond the block is seen by a sanitizer. What is not the body would confuse whoever
 * reads it: quotes, that end strings of JSON and begin short strings of CBOR.
 */
#ifndef TESTS_LIB_BODY_BLOCK_H
#define TESTS_LIB_BODY_BLOCK_H

#include <assert.h>
#include <string.h>

#include "adapters/kinesis/builder.h"

enum body_room {
    BODY_TIGHT, /* The block ends with the body. */
    BODY_FITS   /* What ks_builder_capacity asks for. */
};

/* Ends the program where there is no memory. The body lies behind `begin` other bytes. */
static inline struct ks_block *body_block(struct ks_budget *budget, size_t begin, ks_view body,
                                          enum body_room room, uint32_t records_max)
{
    size_t size = begin + body.size;
    struct ks_block *block = NULL;
    ks_err err = ks_block_new(
        budget, room == BODY_TIGHT ? size : ks_builder_capacity(size, records_max), &block);

    assert(ks_ok(err));
    memset(block->data, '"', block->capacity);
    if (body.size > 0)
        memcpy(block->data + begin, body.data, body.size);
    block->size = size;
    return block;
}

#endif
