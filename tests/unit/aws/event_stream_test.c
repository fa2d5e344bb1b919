/* SPDX-License-Identifier: Apache-2.0 */
/* The meaning of whole messages is in tests/vectors/event_stream_test.c; here, how they come and what spoils them. */
#include "aws/event_stream.h"

#include "base/digest.h"
#include "event_frames.h"
#include "ks_test.h"

#include <string.h>

static uint8_t frame[512];

static ks_view sample(void)
{
    struct ks_bytes bytes;

    ks_bytes_init(&bytes, sizeof(frame));
    event_frame(&bytes, ":event-type", "SubscribeToShardEvent", "event", "{\"Records\":[]}");
    size_t size = bytes.size;
    memcpy(frame, bytes.data, size);
    ks_bytes_free(&bytes);
    return ks_view_of(frame, size);
}

TEST(the_size_is_known_with_the_prelude_and_not_before)
{
    ks_view message = sample();
    size_t size = 1;

    for (size_t at = 0; at < KS_EVENT_PRELUDE_BYTES; at++) {
        EXPECT_OK(ks_event_size(ks_view_of(message.data, at), &size));
        EXPECT_EQ_U64(size, 0);
    }
    EXPECT_OK(ks_event_size(ks_view_of(message.data, KS_EVENT_PRELUDE_BYTES), &size));
    EXPECT_EQ_U64(size, message.size);
}

TEST(texts_are_found_by_their_names)
{
    struct ks_event event;

    EXPECT_OK(ks_event_read(sample(), &event));
    EXPECT(ks_view_equal(ks_event_text(&event, ":message-type"), KS_VIEW("event")));
    EXPECT(ks_view_equal(ks_event_text(&event, ":event-type"), KS_VIEW("SubscribeToShardEvent")));
    EXPECT_EQ_U64(ks_event_text(&event, ":other").size, 0);
    EXPECT(ks_view_equal(event.payload, KS_VIEW("{\"Records\":[]}")));
}

TEST(one_wrong_bit_anywhere_is_noticed)
{
    ks_view message = sample();
    struct ks_event event;

    for (size_t bit = 0; bit < message.size * 8; bit++) {
        size_t size = 0;
        frame[bit / 8] ^= (uint8_t)(1 << bit % 8);
        ks_err err = ks_event_size(message, &size);
        if (ks_ok(err)) {
            EXPECT_EQ_U64(size, message.size);
            err = ks_event_read(message, &event);
        }
        EXPECT_ERR(err, MALFORMED);
        frame[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}

TEST(lengths_that_would_take_all_memory_are_refused_before_anything_comes)
{
    static const uint32_t sizes[][2] = {{15, 0},         {0, 0},
                                        {UINT32_MAX, 0}, {KS_EVENT_BYTES_MAX + 1, 0},
                                        {16, 1},         {1 << 20, KS_EVENT_HEADERS_BYTES_MAX + 1},
                                        {16, UINT32_MAX}};

    for (size_t at = 0; at < sizeof(sizes) / sizeof(sizes[0]); at++) {
        uint8_t prelude[KS_EVENT_PRELUDE_BYTES];
        size_t size = 1;

        event_be32(prelude, sizes[at][0]);
        event_be32(prelude + 4, sizes[at][1]);
        event_be32(prelude + 8, ks_crc32(ks_view_of(prelude, 8)));
        EXPECT_ERR(ks_event_size(ks_view_of(prelude, sizeof(prelude)), &size), MALFORMED);
        EXPECT_EQ_U64(size, 0);
    }
}
