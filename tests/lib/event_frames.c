/* SPDX-License-Identifier: Apache-2.0 */
#include "event_frames.h"

#include "base/digest.h"
#include "ks_test.h"

enum { PRELUDE = 12, TEXT = 7 };

void event_be32(uint8_t *to, uint32_t number)
{
    for (int at = 0; at < 4; at++)
        to[at] = (uint8_t)(number >> (24 - 8 * at));
}

static void add_header(struct ks_bytes *bytes, const char *name, const char *value)
{
    ks_view text = ks_view_text(value);

    EXPECT_OK(ks_bytes_append_byte(bytes, (uint8_t)strlen(name)));
    EXPECT_OK(ks_bytes_append(bytes, ks_view_text(name)));
    EXPECT_OK(ks_bytes_append_byte(bytes, TEXT));
    EXPECT_OK(ks_bytes_append_byte(bytes, (uint8_t)(text.size >> 8)));
    EXPECT_OK(ks_bytes_append_byte(bytes, (uint8_t)text.size));
    EXPECT_OK(ks_bytes_append(bytes, text));
}

void event_frame(struct ks_bytes *bytes, const char *name, const char *value, const char *type,
                 const char *payload)
{
    size_t begin = bytes->size;
    uint8_t number[PRELUDE] = {0};

    EXPECT_OK(ks_bytes_append(bytes, ks_view_of(number, PRELUDE)));
    add_header(bytes, name, value);
    add_header(bytes, ":content-type", "application/x-amz-json-1.1");
    add_header(bytes, ":message-type", type);
    size_t headers = bytes->size - begin - PRELUDE;
    EXPECT_OK(ks_bytes_append(bytes, ks_view_text(payload)));

    uint8_t *frame = bytes->data + begin;
    event_be32(frame, (uint32_t)(bytes->size - begin + 4));
    event_be32(frame + 4, (uint32_t)headers);
    event_be32(frame + 8, ks_crc32(ks_view_of(frame, 8)));
    event_be32(number, ks_crc32(ks_view_of(frame, bytes->size - begin)));
    EXPECT_OK(ks_bytes_append(bytes, ks_view_of(number, 4)));
}
