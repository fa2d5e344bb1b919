/* SPDX-License-Identifier: Apache-2.0 */
#include "api/envelope.h"
#include "base/budget.h"
#include "ks_test.h"

#include <string.h>

/* Two messages, one of them empty. */
static const uint8_t stream[] = {0, 0, 0, 0, 3, 'a', 'b', 'c', 1, 0, 0, 0, 0};

TEST(messages_come_together_whatever_the_parts)
{
    for (size_t step = 1; step <= sizeof(stream); step++) {
        struct ks_envelopes envelopes;
        uint32_t count = 0;

        ks_envelopes_init(&envelopes, 3);
        for (size_t at = 0; at < sizeof(stream); at += step) {
            ks_view part =
                ks_view_of(stream + at, sizeof(stream) - at < step ? sizeof(stream) - at : step);
            uint8_t flags = 9;
            bool whole = true;

            while (part.size > 0) {
                EXPECT_OK(ks_envelopes_take(&envelopes, &part, &flags, &whole));
                if (!whole)
                    continue;
                EXPECT_EQ_U64(flags, count);
                EXPECT_EQ_U64(envelopes.message.size, count == 0 ? 3 : 0);
                count++;
            }
        }
        EXPECT_EQ_U64(count, 2);
        EXPECT(ks_envelopes_between(&envelopes));
        ks_envelopes_free(&envelopes);
    }
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

TEST(a_length_over_the_limit_is_refused_before_its_bytes_come)
{
    struct ks_envelopes envelopes;
    ks_view part = ks_view_of(stream, 5);
    uint8_t flags;
    bool whole;

    ks_envelopes_init(&envelopes, 2);
    EXPECT_ERR(ks_envelopes_take(&envelopes, &part, &flags, &whole), FULL);
    EXPECT_EQ_U64(envelopes.message.capacity, 0);
    ks_envelopes_free(&envelopes);
}

TEST(a_promised_length_takes_no_memory)
{
    static const uint8_t head[] = {0, 0, 0x10, 0, 0, 'x'};
    struct ks_envelopes envelopes;
    ks_view part = ks_view_of(head, sizeof(head));
    uint8_t flags;
    bool whole;

    ks_envelopes_init(&envelopes, 1 << 20);
    EXPECT_OK(ks_envelopes_take(&envelopes, &part, &flags, &whole));
    EXPECT(!whole && !ks_envelopes_between(&envelopes));
    EXPECT(envelopes.message.capacity < 1000);
    ks_envelopes_free(&envelopes);
}

TEST(the_meter_knows_when_a_message_is_half_way)
{
    struct ks_envelope_meter meter = {.head_size = 0};

    EXPECT(ks_envelope_meter_between(&meter));
    for (size_t i = 0; i < sizeof(stream); i++) {
        ks_envelope_meter_pass(&meter, ks_view_of(stream + i, 1));
        EXPECT_EQ_I64(ks_envelope_meter_between(&meter), i == 7 || i == 12);
    }
}

TEST(a_head_is_five_bytes)
{
    uint8_t head[KS_ENVELOPE_HEAD];

    ks_envelope_head(head, KS_ENVELOPE_END, 0x01020304);
    EXPECT(memcmp(head, "\2\1\2\3\4", 5) == 0);
}
