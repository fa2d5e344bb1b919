/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base64.h"

#include "base/prng.h"
#include "ks_test.h"

#include <string.h>

enum { BYTES = 600, CHARACTERS = 800, BEYOND = 32 };

static uint8_t bytes[BYTES];

/* No shame in a machine without AVX2: then both ways are the portable one, and say the same. */
static const struct ks_base64_way *other_way(void)
{
    return ks_base64_has_avx2() ? &ks_base64_avx2 : &ks_base64_portable;
}

static void fill_bytes(uint64_t seed)
{
    struct ks_prng prng;

    ks_prng_init(&prng, seed);
    for (size_t i = 0; i < BYTES; i++)
        bytes[i] = (uint8_t)ks_prng_next(&prng);
}

TEST(both_ways_encode_the_same)
{
    for (size_t size = 0; size <= BYTES; size++) {
        char portable[CHARACTERS + BEYOND], other[CHARACTERS + BEYOND];
        size_t taken, taken_other;
        fill_bytes(size);
        memset(other, '#', sizeof(other));
        taken = ks_base64_portable.encode(bytes, size, portable);
        taken_other = other_way()->encode(bytes, size, other);
        EXPECT_EQ_U64(taken, size / 3 * 3);
        EXPECT(taken_other <= taken && taken - taken_other < 64);
        EXPECT_MEM(other, portable, taken_other / 3 * 4);
        EXPECT_EQ_I64(other[taken_other / 3 * 4], '#');
    }
}

TEST(both_ways_decode_what_was_encoded)
{
    for (size_t size = 0; size <= BYTES; size += 3) {
        char text[CHARACTERS + BEYOND];
        uint8_t portable[BYTES + BEYOND], other[BYTES + BEYOND];
        size_t characters = size / 3 * 4;
        size_t taken;
        fill_bytes(size);
        EXPECT_EQ_U64(ks_base64_portable.encode(bytes, size, text), size);
        EXPECT_EQ_U64(ks_base64_portable.decode((uint8_t *)text, characters, portable), characters);
        EXPECT_MEM(portable, bytes, size);
        taken = other_way()->decode((uint8_t *)text, characters, other);
        EXPECT(characters - taken < 64);
        EXPECT_MEM(other, bytes, taken / 4 * 3);
    }
}

/* Every byte at every place of a step: both ways must stop in the same group, or not at all. */
TEST(both_ways_refuse_the_same_characters)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    for (int byte = 0; byte < 256; byte++) {
        bool known = byte != 0 && strchr(alphabet, byte) != NULL;
        for (size_t at = 0; at < 96; at++) {
            uint8_t text[96], portable[72 + BEYOND], other[72 + BEYOND];
            size_t taken, taken_other;
            memset(text, 'A', sizeof(text));
            text[at] = (uint8_t)byte;
            taken = ks_base64_portable.decode(text, sizeof(text), portable);
            taken_other = other_way()->decode(text, sizeof(text), other);
            EXPECT_EQ_U64(taken, known ? sizeof(text) : at / 4 * 4);
            EXPECT(known ? taken_other > taken - 64 : taken_other <= taken);
            EXPECT_MEM(other, portable, taken_other / 4 * 3);
        }
    }
}

TEST(every_group_of_two_characters_decodes_the_same)
{
    for (uint32_t pair = 0; pair < 65536; pair++) {
        uint8_t text[32], portable[24 + BEYOND], other[24 + BEYOND];
        size_t taken, taken_other;
        for (size_t i = 0; i < sizeof(text); i += 2) {
            text[i] = (uint8_t)(pair >> 8);
            text[i + 1] = (uint8_t)pair;
        }
        taken = ks_base64_portable.decode(text, sizeof(text), portable);
        taken_other = other_way()->decode(text, sizeof(text), other);
        EXPECT_EQ_U64(taken_other, taken);
        EXPECT_MEM(other, portable, taken / 4 * 3);
    }
}

/* As codec.h promises: over the text itself, or over what lies before it, and never beyond what was read. */
TEST(both_ways_decode_over_what_they_read)
{
    const struct ks_base64_way *ways[] = {&ks_base64_portable, other_way()};

    for (size_t size = 0; size <= BYTES; size += 3) {
        size_t characters = size / 3 * 4;
        fill_bytes(size);
        for (size_t at = 0; at < 2 * 3; at++) {
            static const size_t GAPS[] = {0, 1, 40};
            size_t gap = GAPS[at / 2];
            uint8_t text[40 + CHARACTERS];
            char known[CHARACTERS + BEYOND];
            EXPECT_EQ_U64(ks_base64_portable.encode(bytes, size, known), size);
            memcpy(text + gap, known, CHARACTERS);
            size_t taken = ways[at % 2]->decode(text + gap, characters, text);
            EXPECT(characters - taken < 64);
            EXPECT_MEM(text, bytes, taken / 4 * 3);
            EXPECT_MEM(text + gap + taken, known + taken, CHARACTERS - taken);
        }
    }
}
