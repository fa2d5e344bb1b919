/* SPDX-License-Identifier: Apache-2.0 */
/* reader.h - cuts the bytes of a stream into frames: messages StreamEvent, each after its
 * length as a varint.
 *
 * Each frame is copied once, into the delivery that keeps it. The reader takes any bytes, in
 * parts of any size.
 */
#ifndef KS_READER_H
#define KS_READER_H

#include "delivery.h"

enum {
    KS_FRAME_BYTES_MAX = 32 << 20 /* A record has 10 MiB at most. */
};

struct ks_reader {
    struct ks_delivery *frame; /* The one that is read; NULL: its length is read. */
    size_t have;               /* Bytes of the frame that are there. */
    uint32_t length;           /* Of the next frame, as far as it was read. */
    unsigned shift;            /* Bits of the length that were read. */
};

enum ks_read {
    KS_READ_FRAME,
    KS_READ_MORE, /* All bytes are taken; more are needed. */
    KS_READ_TOO_LARGE,
    KS_READ_NO_MEMORY
};

/* Takes bytes from `*data` to the end of the frame. With KS_READ_FRAME the caller releases
 * `*ret_frame`. */
enum ks_read ks_reader_next(struct ks_reader *reader, const uint8_t **data, const uint8_t *end,
                            struct ks_delivery **ret_frame);

/* Drops a frame that is not whole. The reader can be used again. */
void ks_reader_reset(struct ks_reader *reader);

#endif
