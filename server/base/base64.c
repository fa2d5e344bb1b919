/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base64.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* For each place in a group the value of a character, already shifted there; foreign_mark for what is none. */
static uint32_t values[4][256];
static const uint32_t foreign_mark = UINT32_C(0x80000000);

__attribute__((constructor)) static void fill_values(void)
{
    for (int place = 0; place < 4; place++) {
        for (int character = 0; character < 256; character++)
            values[place][character] = foreign_mark;
        for (uint32_t value = 0; value < 64; value++)
            values[place][(uint8_t)alphabet[value]] = value << (18 - 6 * place);
    }
}

static size_t portable_encode(const uint8_t *from, size_t size, char *to)
{
    size_t at = 0;

    for (; size - at >= 3; at += 3, to += 4) {
        uint32_t group = (uint32_t)from[at] << 16 | (uint32_t)from[at + 1] << 8 | from[at + 2];
        to[0] = alphabet[group >> 18];
        to[1] = alphabet[group >> 12 & 63];
        to[2] = alphabet[group >> 6 & 63];
        to[3] = alphabet[group & 63];
    }
    return at;
}

static size_t portable_decode(const uint8_t *from, size_t size, uint8_t *to)
{
    size_t at = 0;

    for (; size - at >= 4; at += 4, to += 3) {
        uint32_t group = values[0][from[at]] | values[1][from[at + 1]] | values[2][from[at + 2]] |
                         values[3][from[at + 3]];
        if (group >= foreign_mark)
            break;
        to[0] = (uint8_t)(group >> 16);
        to[1] = (uint8_t)(group >> 8);
        to[2] = (uint8_t)group;
    }
    return at;
}

const struct ks_base64_way ks_base64_portable = {portable_encode, portable_decode};

#if defined(__x86_64__)

/* The same 16 bytes in both halves of a register: look-ups work on each half alone. */
__attribute__((target("avx2"))) static inline __m256i both_halves(const int8_t bytes[16])
{
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)bytes));
}

/* Spreads 2 x 12 bytes into 32 values of 6 bits, as W. Mula and D. Lemire describe ("Faster Base64 Encoding and
 * Decoding using AVX2 Instructions", 2018): each three bytes b0 b1 b2 are laid out as b1 b0 b2 b1, so that one 16-bit
 * word holds the first two values and the other the last two; multiplications shift each value to its own byte. */
__attribute__((target("avx2"))) static inline __m256i spread(__m256i bytes)
{
    static const int8_t layout[16] = {1, 0, 2, 1, 4, 3, 5, 4, 7, 6, 8, 7, 10, 9, 11, 10};
    __m256i laid = _mm256_shuffle_epi8(bytes, both_halves(layout));
    __m256i odd = _mm256_and_si256(laid, _mm256_set1_epi32(0x0FC0FC00));
    __m256i even = _mm256_and_si256(laid, _mm256_set1_epi32(0x003F03F0));

    return _mm256_or_si256(_mm256_mulhi_epu16(odd, _mm256_set1_epi32(0x04000040)),
                           _mm256_mullo_epi16(even, _mm256_set1_epi32(0x01000010)));
}

/* Adds to each value what makes it its character. Values 52 to 63 count from 1 to 12 in the table, capitals are moved
 * from 0 to 13, lower case stays 0. */
__attribute__((target("avx2"))) static inline __m256i to_characters(__m256i sixes)
{
    static const int8_t distances[16] = {
        'a' - 26, '0' - 52, '0' - 52, '0' - 52, '0' - 52, '0' - 52, '0' - 52, '0' - 52,
        '0' - 52, '0' - 52, '0' - 52, '+' - 62, '/' - 63, 'A',      0,        0,
    };
    __m256i index = _mm256_subs_epu8(sixes, _mm256_set1_epi8(51));
    __m256i capital = _mm256_cmpgt_epi8(_mm256_set1_epi8(26), sixes);

    index = _mm256_or_si256(index, _mm256_and_si256(capital, _mm256_set1_epi8(13)));
    return _mm256_add_epi8(sixes, _mm256_shuffle_epi8(both_halves(distances), index));
}

__attribute__((target("avx2"))) static size_t avx2_encode(const uint8_t *from, size_t size,
                                                          char *to)
{
    size_t at = 0;

    /* 24 bytes a step; the second half is read from 12 to 28. */
    for (; size - at >= 28; at += 24, to += 32) {
        __m128i low = _mm_loadu_si128((const __m128i *)(const void *)(from + at));
        __m128i high = _mm_loadu_si128((const __m128i *)(const void *)(from + at + 12));
        __m256i bytes = _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
        _mm256_storeu_si256((__m256i *)(void *)to, to_characters(spread(bytes)));
    }
    return at;
}

/* The value of each character, by its high four bits; '/' shares those of '+' and is looked up one place below. A
 * character is foreign if the classes that its low bits exclude hold the class of its high bits. Classes: 1 for 2x
 * (of which only '+' and '/'), 2 for 3x (0 to 9), 4 for 4x and 6x (1 to F), 8 for 5x and 7x (0 to A), 16 for the rest.
 */
__attribute__((target("avx2"))) static inline __m256i to_values(__m256i characters,
                                                                __m256i *ret_foreign)
{
    static const int8_t excluded[16] = {
        1 + 4 + 16, 1 + 16, 1 + 16,     1 + 16,     1 + 16, 1 + 16, 1 + 16,         1 + 16,
        1 + 16,     1 + 16, 1 + 2 + 16, 2 + 8 + 16, 27,     27,     1 + 2 + 8 + 16, 2 + 8 + 16};
    static const int8_t classes[16] = {16, 16, 1, 2, 4, 8, 4, 8, 16, 16, 16, 16, 16, 16, 16, 16};
    static const int8_t distances[16] = {
        0, 63 - '/', 62 - '+', 52 - '0', -'A', -'A', 26 - 'a', 26 - 'a', 0, 0, 0, 0, 0, 0, 0, 0};
    __m256i four = _mm256_set1_epi8(0x0F);
    __m256i low = _mm256_and_si256(characters, four);
    __m256i high = _mm256_and_si256(_mm256_srli_epi32(characters, 4), four);
    __m256i slash = _mm256_cmpeq_epi8(characters, _mm256_set1_epi8('/'));

    *ret_foreign = _mm256_and_si256(_mm256_shuffle_epi8(both_halves(excluded), low),
                                    _mm256_shuffle_epi8(both_halves(classes), high));
    return _mm256_add_epi8(
        characters, _mm256_shuffle_epi8(both_halves(distances), _mm256_add_epi8(high, slash)));
}

/* Joins 32 values of 6 bits to 24 bytes at the start of the register: pairs, then fours, then out with the gaps. */
__attribute__((target("avx2"))) static inline __m256i join(__m256i sixes)
{
    static const int8_t order[16] = {2, 1, 0, 6, 5, 4, 10, 9, 8, 14, 13, 12, -1, -1, -1, -1};
    __m256i pairs = _mm256_maddubs_epi16(sixes, _mm256_set1_epi32(0x01400140));
    __m256i fours = _mm256_madd_epi16(pairs, _mm256_set1_epi32(0x00011000));
    __m256i halves = _mm256_shuffle_epi8(fours, both_halves(order));

    return _mm256_permutevar8x32_epi32(halves, _mm256_setr_epi32(0, 1, 2, 4, 5, 6, 3, 7));
}

__attribute__((target("avx2"))) static size_t avx2_decode(const uint8_t *from, size_t size,
                                                          uint8_t *to)
{
    size_t at = 0;

    for (; size - at >= 32; at += 32, to += 24) {
        __m256i foreign;
        __m256i characters = _mm256_loadu_si256((const __m256i *)(const void *)(from + at));
        __m256i sixes = to_values(characters, &foreign);
        if (!_mm256_testz_si256(foreign, foreign))
            break;
        _mm256_storeu_si256((__m256i *)(void *)to, join(sixes));
    }
    return at;
}

const struct ks_base64_way ks_base64_avx2 = {avx2_encode, avx2_decode};

bool ks_base64_has_avx2(void)
{
    return __builtin_cpu_supports("avx2") != 0;
}

#else

const struct ks_base64_way ks_base64_avx2 = {portable_encode, portable_decode};

bool ks_base64_has_avx2(void)
{
    return false;
}

#endif
