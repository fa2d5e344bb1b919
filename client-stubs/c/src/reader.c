/* SPDX-License-Identifier: Apache-2.0 */
#include "reader.h"

#include <string.h>

enum {
    LENGTH_SHIFT_MAX = 21 /* KS_FRAME_BYTES_MAX has 26 bits. */
};

/* Reads the length, and makes the frame. */
static enum ks_read begin_frame(struct ks_reader *reader, const uint8_t **data, const uint8_t *end)
{
    while (*data < end) {
        uint8_t byte = *(*data)++;
        reader->length |= (uint32_t)(byte & 0x7F) << reader->shift;
        if (byte < 0x80) {
            if (reader->length > KS_FRAME_BYTES_MAX)
                return KS_READ_TOO_LARGE;
            reader->frame = ks_delivery_new(reader->length);
            return reader->frame == NULL ? KS_READ_NO_MEMORY : KS_READ_FRAME;
        }
        if (reader->shift == LENGTH_SHIFT_MAX)
            return KS_READ_TOO_LARGE;
        reader->shift += 7;
    }
    return KS_READ_MORE;
}

enum ks_read ks_reader_next(struct ks_reader *reader, const uint8_t **data, const uint8_t *end,
                            struct ks_delivery **ret_frame)
{
    struct ks_delivery *frame;
    size_t size;

    if (reader->frame == NULL) {
        enum ks_read read = begin_frame(reader, data, end);
        if (read != KS_READ_FRAME)
            return read;
    }
    frame = reader->frame;
    size = frame->frame_size - reader->have;
    if (size > (size_t)(end - *data))
        size = (size_t)(end - *data);
    memcpy(frame->frame + reader->have, *data, size);
    *data += size;
    reader->have += size;
    if (reader->have < frame->frame_size)
        return KS_READ_MORE;
    *reader = (struct ks_reader){0};
    *ret_frame = frame;
    return KS_READ_FRAME;
}

void ks_reader_reset(struct ks_reader *reader)
{
    ks_delivery_release(reader->frame);
    *reader = (struct ks_reader){0};
}
