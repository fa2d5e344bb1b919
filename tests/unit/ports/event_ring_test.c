/* SPDX-License-Identifier: Apache-2.0 */
#include "ports/event_ring.h"

#include "ks_test.h"

#include <stdio.h>
#include <string.h>

static void add(struct ks_event_ring *ring, uint64_t number)
{
    char message[32];

    (void)snprintf(message, sizeof message, "event %u", (unsigned)number);
    ks_event_ring_add(ring, "reshard", (ks_wall){(int64_t)number}, "shard-3", number, message);
}

TEST(the_last_ones_are_kept)
{
    struct ks_event_ring ring;

    EXPECT_OK(ks_event_ring_init(&ring));
    EXPECT_EQ_U64(ks_event_ring_first(&ring), 0);
    EXPECT_EQ_U64(ring.end, 0);
    for (uint64_t i = 0; i < KS_EVENTS_KEPT; i++)
        add(&ring, i);
    EXPECT_EQ_U64(ks_event_ring_first(&ring), 0);
    EXPECT_STR(ks_event_ring_at(&ring, 0)->message, "event 0");
    add(&ring, KS_EVENTS_KEPT);
    EXPECT_EQ_U64(ks_event_ring_first(&ring), 1);
    EXPECT_STR(ks_event_ring_at(&ring, 1)->message, "event 1");
    EXPECT_STR(ks_event_ring_at(&ring, KS_EVENTS_KEPT)->message, "event 256");
    EXPECT_STR(ks_event_ring_at(&ring, KS_EVENTS_KEPT)->shard_id, "shard-3");
    EXPECT_EQ_U64(ks_event_ring_at(&ring, KS_EVENTS_KEPT)->epoch, KS_EVENTS_KEPT);
    EXPECT_EQ_I64(ks_event_ring_at(&ring, KS_EVENTS_KEPT)->at.ms, KS_EVENTS_KEPT);
    ks_event_ring_free(&ring);
    ks_event_ring_free(&ring);
}

TEST(what_is_too_long_is_cut_at_a_whole_character)
{
    struct ks_event_ring ring;
    char text[1024];

    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    memcpy(text + KS_STORY_LINE_MAX - 2, "\xC3\xA4", 2); /* Its second half does not fit. */
    EXPECT_OK(ks_event_ring_init(&ring));
    ks_event_ring_add(&ring, "poison", (ks_wall){0}, text, 0, text);
    EXPECT_EQ_U64(strlen(ks_event_ring_at(&ring, 0)->shard_id), KS_SHARD_ID_MAX);
    EXPECT_EQ_U64(strlen(ks_event_ring_at(&ring, 0)->message), KS_STORY_LINE_MAX - 2);
    ks_event_ring_free(&ring);
}
