/* SPDX-License-Identifier: Apache-2.0 */
/* Hash keys, sequence numbers, and iterators, which hold one. */
#include "kinesis.h"

#include <openssl/evp.h>
#include <openssl/md5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Hash keys ---- */

void hash_print(hash_key hash, char text[HASH_DIGITS + 1])
{
    char digits[HASH_DIGITS + 1];
    size_t at = sizeof digits - 1;

    digits[at] = '\0';
    do {
        digits[--at] = (char)('0' + (int)(hash % 10));
        hash /= 10;
    } while (hash > 0);
    memcpy(text, digits + at, sizeof digits - at);
}

bool hash_read(const char *text, hash_key *ret_hash)
{
    hash_key hash = 0;

    if (*text == '\0' || strlen(text) > HASH_DIGITS)
        return false;
    for (; *text != '\0'; text++) {
        unsigned digit = (unsigned)(*text - '0');
        if (digit > 9 || hash > (~(hash_key)0 - digit) / 10)
            return false;
        hash = hash * 10 + digit;
    }
    *ret_hash = hash;
    return true;
}

hash_key hash_of(const char *partition_key, size_t size)
{
    uint8_t digest[16];
    hash_key hash = 0;

    if (EVP_Digest(partition_key, size, digest, NULL, EVP_md5(), NULL) != 1)
        die("no MD5");
    for (size_t at = 0; at < sizeof digest; at++)
        hash = hash << 8 | digest[at];
    return hash;
}

/* ---- Sequence numbers ---- */

/* 192 bits, the most significant limb first: 02 (8), when the shard was made (36), its number mod 16 (4), index (64), 0
 * (8), when the record came (36), shard (32), 2 (4); written as a decimal number. */
enum { LIMBS = 6 };

static void add_bits(uint32_t limbs[LIMBS], unsigned *at, unsigned count, uint64_t value)
{
    for (; count > 0; ++*at)
        limbs[*at / 32] |= (uint32_t)(value >> --count & 1) << (31 - *at % 32);
}

static uint64_t take_bits(const uint32_t limbs[LIMBS], unsigned *at, unsigned count)
{
    uint64_t value = 0;

    for (; count > 0; count--, ++*at)
        value = value << 1 | (limbs[*at / 32] >> (31 - *at % 32) & 1);
    return value;
}

void sequence_print(const struct sequence *sequence, char text[SEQUENCE_DIGITS + 1])
{
    uint32_t limbs[LIMBS] = {0};
    unsigned at = 0;

    add_bits(limbs, &at, 8, 2);
    add_bits(limbs, &at, 36, (uint64_t)sequence->created_s);
    add_bits(limbs, &at, 4, sequence->shard % 16);
    add_bits(limbs, &at, 64, sequence->index);
    add_bits(limbs, &at, 8, 0);
    add_bits(limbs, &at, 36, (uint64_t)sequence->time_s);
    add_bits(limbs, &at, 32, sequence->shard);
    add_bits(limbs, &at, 4, 2);
    text[SEQUENCE_DIGITS] = '\0';
    for (size_t end = SEQUENCE_DIGITS; end > 0;) {
        uint64_t rest = 0;
        for (size_t limb = 0; limb < LIMBS; limb++) {
            rest = rest << 32 | limbs[limb];
            limbs[limb] = (uint32_t)(rest / 100000000);
            rest %= 100000000;
        }
        for (int digit = 0; digit < 8; digit++, rest /= 10)
            text[--end] = (char)('0' + rest % 10);
    }
}

bool sequence_read(const char *text, struct sequence *ret_sequence)
{
    uint32_t limbs[LIMBS] = {0};
    struct sequence sequence;
    unsigned at = 0;

    for (; *text >= '0' && *text <= '9'; text++) {
        uint64_t carry = (uint64_t)(*text - '0');
        for (size_t limb = LIMBS; limb-- > 0;) {
            carry += (uint64_t)limbs[limb] * 10;
            limbs[limb] = (uint32_t)carry;
            carry >>= 32;
        }
        if (carry > 0)
            return false;
    }
    bool good = *text == '\0' && take_bits(limbs, &at, 8) == 2;
    sequence.created_s = (int64_t)take_bits(limbs, &at, 36);
    at += 4;
    sequence.index = take_bits(limbs, &at, 64);
    at += 8;
    sequence.time_s = (int64_t)take_bits(limbs, &at, 36);
    sequence.shard = (uint32_t)take_bits(limbs, &at, 32);
    if (!good || take_bits(limbs, &at, 4) != 2 || sequence.index > SEQUENCE_LAST)
        return false;
    *ret_sequence = sequence;
    return true;
}

void sequence_next(char text[SEQUENCE_DIGITS])
{
    /* 2 to the 80th: one more in the index. */
    static const char step[] = "1208925819614629174706176";
    int carry = 0;

    for (size_t at = 0; at < sizeof step - 1 || carry > 0; at++) {
        char *digit = &text[SEQUENCE_DIGITS - 1 - at];
        int sum =
            *digit - '0' + carry + (at < sizeof step - 1 ? step[sizeof step - 2 - at] - '0' : 0);
        carry = sum > 9;
        *digit = (char)('0' + sum - 10 * carry);
    }
}

/* ---- Iterators ---- */

static const uint8_t iterator_head[8] = {0, 0, 0, 0, 0, 0, 0, 1};
static const uint8_t iterator_key[32] = {
    0x11, 0x33, 0xa5, 0xa8, 0x33, 0x66, 0x6b, 0x49, 0xab, 0xf2, 0x8c, 0x8b, 0xa3, 0x02, 0x93, 0x0f,
    0x0b, 0x2f, 0xb2, 0x40, 0xdc, 0xcd, 0x43, 0xcf, 0x4d, 0xfb, 0xc0, 0xca, 0x91, 0xf1, 0x77, 0x51};
static const uint8_t iterator_iv[16] = {0x7b, 0xf1, 0x39, 0xdb, 0xab, 0xbe, 0xa2, 0xd9,
                                        0x99, 0x5d, 0x6f, 0xca, 0xe1, 0xdf, 0xf7, 0xda};

/* False: it was not sealed by us. `to` has room for 16 bytes more than `size`. */
static bool seal(bool seals, const uint8_t *from, size_t size, uint8_t *to, size_t *ret_size)
{
    static EVP_CIPHER_CTX *context;
    static EVP_CIPHER *cipher;
    int first = 0;
    int last = 0;

    if (context == NULL) {
        context = EVP_CIPHER_CTX_new();
        cipher = EVP_CIPHER_fetch(NULL, "AES-256-CBC", NULL);
    }
    if (EVP_CipherInit_ex2(context, cipher, iterator_key, iterator_iv, seals, NULL) != 1 ||
        EVP_CipherUpdate(context, to, &first, from, (int)size) != 1 ||
        EVP_CipherFinal_ex(context, to + first, &last) != 1)
        return false;
    *ret_size = (size_t)(first + last);
    return true;
}

void iterator_print(struct bytes *to, const char *stream, const char *shard, const char *sequence)
{
    char plain[512];
    uint8_t sealed[512 + 32];
    size_t size = 0;

    int length = snprintf(plain, sizeof plain, "%014lld/%s/%s/%s/%036d", (long long)now_ms, stream,
                          shard, sequence, 0);
    memcpy(sealed, iterator_head, sizeof iterator_head);
    if (!seal(true, (const uint8_t *)plain, (size_t)length, sealed + sizeof iterator_head, &size))
        die("an iterator cannot be sealed");
    base64_add(to, sealed, sizeof iterator_head + size);
}

static bool iterator_parse(char *plain, struct iterator *ret_iterator)
{
    char *rest = NULL;
    const char *made = strtok_r(plain, "/", &rest);
    const char *stream = strtok_r(NULL, "/", &rest);
    const char *shard = strtok_r(NULL, "/", &rest);
    const char *sequence = strtok_r(NULL, "/", &rest);

    if (sequence == NULL || strlen(stream) > NAME_MAX_BYTES || strlen(shard) > NAME_MAX_BYTES)
        return false;
    ret_iterator->made_ms = strtoll(made, NULL, 10);
    snprintf(ret_iterator->stream, sizeof ret_iterator->stream, "%s", stream);
    snprintf(ret_iterator->shard, sizeof ret_iterator->shard, "%s", shard);
    return sequence_read(sequence, &ret_iterator->sequence);
}

bool iterator_read(const char *text, struct iterator *ret_iterator)
{
    uint8_t *sealed = NULL;
    char plain[600] = "";
    size_t size = 0;

    if (!base64_read(text, &sealed, &size))
        return false;
    bool ours = size > sizeof iterator_head && size < sizeof plain - 32 &&
                memcmp(sealed, iterator_head, sizeof iterator_head) == 0 &&
                seal(false, sealed + sizeof iterator_head, size - sizeof iterator_head,
                     (uint8_t *)plain, &size) &&
                iterator_parse(plain, ret_iterator);
    free(sealed);
    return ours;
}
