/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/local/sequence.h"

#include "ks_test.h"

#include <string.h>

static const char *text_of(uint64_t shard_second, uint32_t index, uint64_t number, uint64_t second)
{
    static char buffer[KS_SEQUENCE_MAX + 1];
    struct ks_local_sequence sequence = {shard_second, index, number, second};

    ks_local_sequence_format(&sequence, buffer);
    return buffer;
}

TEST(numbers_are_those_that_others_make_of_the_same_parts)
{
    /* Seen from an emulator that uses the same layout. */
    EXPECT_STR(text_of(1795223826, 0, 1, 1795223827),
               "49680414573595759865136095135580413368112465103170830338");
    EXPECT_STR(text_of(1795223826, 1, 0, 1795223826),
               "49680414573618060610334625758720740160565498766782627858");
    EXPECT_STR(text_of(1795223828, 2, 0, 1795223828),
               "49680414574353985201886136322391418863562894833918935074");
}

TEST(every_number_has_56_digits_and_begins_with_49)
{
    EXPECT_EQ_U64(strlen(text_of(0, 0, 0, 0)), KS_LOCAL_SEQUENCE_DIGITS);
    EXPECT_EQ_U64(
        strlen(text_of((UINT64_C(1) << 36) - 1, UINT32_MAX, UINT64_MAX, (UINT64_C(1) << 36) - 1)),
        KS_LOCAL_SEQUENCE_DIGITS);
    EXPECT(memcmp(text_of(1700000000, 3, 77, 1700000001), "49", 2) == 0);
    EXPECT(memcmp(text_of(2500000000, 3, 77, 2500000001), "49", 2) == 0);
}

TEST(numbers_order_by_shard_age_then_by_record)
{
    char first[KS_SEQUENCE_MAX + 1];

    memcpy(first, text_of(1795223826, 0, 1, 1795223999), sizeof(first));
    /* A clock that was set back does not matter. */
    EXPECT(strcmp(first, text_of(1795223826, 0, 2, 1795223000)) < 0);
    EXPECT(strcmp(first, text_of(1795223827, 0, 1, 1795223000)) < 0);
    EXPECT(strcmp(first, text_of(1795223825, 9, UINT64_MAX, 1795223999)) > 0);
}

TEST(parts_come_back)
{
    static const struct ks_local_sequence PARTS[] = {
        {1795223826, 0, 1, 1795223827},
        {1795223826, 4095, UINT64_C(1) << 39, 1795223827},
        {(UINT64_C(1) << 36) - 1, UINT32_MAX, UINT64_MAX, (UINT64_C(1) << 36) - 1},
        {0, 0, 0, 0},
    };
    char buffer[KS_SEQUENCE_MAX + 1];

    for (size_t at = 0; at < sizeof(PARTS) / sizeof(PARTS[0]); at++) {
        struct ks_local_sequence back = {0};
        ks_local_sequence_format(&PARTS[at], buffer);
        EXPECT_OK(ks_local_sequence_parse(ks_view_text(buffer), &back));
        EXPECT_EQ_U64(back.shard_second, PARTS[at].shard_second);
        EXPECT_EQ_U64(back.shard_index, PARTS[at].shard_index);
        EXPECT_EQ_U64(back.number, PARTS[at].number);
        EXPECT_EQ_U64(back.second, PARTS[at].second);
    }
}

TEST(other_numbers_are_told_from_what_is_no_number)
{
    struct ks_local_sequence back;
    char digits[KS_SEQUENCE_MAX + 1];

    memset(digits, '9', sizeof(digits));
    EXPECT_ERR(ks_local_sequence_parse(KS_VIEW("0"), &back), NOT_FOUND);
    EXPECT_ERR(ks_local_sequence_parse(KS_VIEW("12345"), &back), NOT_FOUND);
    EXPECT_ERR(ks_local_sequence_parse(ks_view_of(digits, 57), &back), NOT_FOUND);
    EXPECT_ERR(ks_local_sequence_parse(ks_view_of(digits, KS_SEQUENCE_MAX), &back), NOT_FOUND);
    EXPECT_ERR(ks_local_sequence_parse(
                   KS_VIEW("49680414573595759865136095135580413368112465103170830339"), &back),
               NOT_FOUND);
    EXPECT_ERR(ks_local_sequence_parse(KS_VIEW(""), &back), INVALID);
    EXPECT_ERR(ks_local_sequence_parse(KS_VIEW("007"), &back), INVALID);
    EXPECT_ERR(ks_local_sequence_parse(KS_VIEW("49x"), &back), INVALID);
}
