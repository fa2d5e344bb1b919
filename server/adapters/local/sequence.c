/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/local/sequence.h"

#include "adapters/kinesis/builder.h"

#include <assert.h>
#include <stdbool.h>

/* 192 bits, the lowest first. */
struct wide {
    uint64_t word[3];
};

/* Fields from the lowest bit up: 4 + 32 + 36 + 8 + 64 + 4 + 36 + 4 = 188 bits. */
enum { AT_INDEX = 4, AT_SECOND = 36, AT_ZERO = 72, AT_NUMBER = 80, AT_LOW = 144, AT_MADE = 148 };
enum { AT_TOP = 184, BITS = 188 };
enum { VERSION = 2 };
#define SECOND_BITS 36

__extension__ typedef unsigned __int128 double_word;

static void put(struct wide *wide, unsigned at, uint64_t value)
{
    unsigned word = at / 64;
    unsigned shift = at % 64;

    wide->word[word] |= value << shift;
    if (shift > 0 && word + 1 < 3)
        wide->word[word + 1] |= value >> (64 - shift);
}

static uint64_t get(const struct wide *wide, unsigned at, unsigned bits)
{
    unsigned word = at / 64;
    unsigned shift = at % 64;
    uint64_t value = wide->word[word] >> shift;

    if (shift > 0 && word + 1 < 3)
        value |= wide->word[word + 1] << (64 - shift);
    return bits == 64 ? value : value & ((UINT64_C(1) << bits) - 1);
}

/* Divides in place; returns the remainder. */
static uint64_t divide(struct wide *wide, uint64_t divisor)
{
    double_word rest = 0;

    for (unsigned word = 3; word > 0; word--) {
        rest = rest << 64 | wide->word[word - 1];
        wide->word[word - 1] = (uint64_t)(rest / divisor);
        rest %= divisor;
    }
    return (uint64_t)rest;
}

void ks_local_sequence_format(const struct ks_local_sequence *sequence,
                              char buffer[KS_SEQUENCE_MAX + 1])
{
    struct wide wide = {{0}};
    char digits[3 * 20];
    size_t count = 0;

    assert(sequence->shard_second < UINT64_C(1) << SECOND_BITS);
    assert(sequence->second < UINT64_C(1) << SECOND_BITS);
    put(&wide, 0, VERSION);
    put(&wide, AT_INDEX, sequence->shard_index);
    put(&wide, AT_SECOND, sequence->second);
    put(&wide, AT_NUMBER, sequence->number);
    put(&wide, AT_LOW, sequence->shard_index & 15);
    put(&wide, AT_MADE, sequence->shard_second);
    put(&wide, AT_TOP, VERSION);

    /* 188 bits have at most 57 digits: three times 19. */
    for (unsigned part = 0; part < 3; part++) {
        uint64_t rest = divide(&wide, UINT64_C(10000000000000000000));
        for (unsigned digit = 0; digit < 19; digit++) {
            digits[count++] = (char)('0' + (int)(rest % 10));
            rest /= 10;
        }
    }
    while (count > 1 && digits[count - 1] == '0')
        count--;
    for (size_t at = 0; at < count; at++)
        buffer[at] = digits[count - 1 - at];
    buffer[count] = '\0';
}

/* Multiplies by 10 and adds; false if it does not fit. */
static bool add_digit(struct wide *wide, uint64_t digit)
{
    double_word carry = digit;

    for (unsigned word = 0; word < 3; word++) {
        carry += (double_word)wide->word[word] * 10;
        wide->word[word] = (uint64_t)carry;
        carry >>= 64;
    }
    return carry == 0;
}

ks_err ks_local_sequence_parse(ks_view text, struct ks_local_sequence *ret_sequence)
{
    struct wide wide = {{0}};
    struct ks_local_sequence sequence;

    if (!ks_sequence_is_valid(text))
        return KS_FAIL(INVALID);
    for (size_t at = 0; at < text.size; at++) {
        if (!add_digit(&wide, (uint64_t)(text.data[at] - '0')))
            return KS_FAIL(NOT_FOUND);
    }
    sequence = (struct ks_local_sequence){
        .shard_second = get(&wide, AT_MADE, SECOND_BITS),
        .shard_index = (uint32_t)get(&wide, AT_INDEX, 32),
        .number = get(&wide, AT_NUMBER, 64),
        .second = get(&wide, AT_SECOND, SECOND_BITS),
    };
    if (get(&wide, AT_TOP, 8) != VERSION || get(&wide, 0, 4) != VERSION ||
        get(&wide, AT_ZERO, 8) != 0 || get(&wide, AT_LOW, 4) != (sequence.shard_index & 15))
        return KS_FAIL(NOT_FOUND);
    *ret_sequence = sequence;
    return KS_OK;
}
