/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/hash.h"

#include "base/digest.h"

#include <assert.h>

ks_hash_key ks_hash_key_of(ks_view partition_key)
{
    uint8_t digest[KS_MD5_SIZE];
    ks_hash_key key = 0;

    ks_md5(partition_key, digest);
    for (size_t at = 0; at < KS_MD5_SIZE; at++)
        key = key << 8 | digest[at];
    return key;
}

ks_err ks_hash_key_parse(ks_view text, ks_hash_key *ret_key)
{
    uint64_t high = 0;
    uint64_t low = 0;

    if (text.size > 1 && text.data[0] == '0')
        return KS_FAIL(INVALID);
    KS_TRY(ks_view_u128(text, &high, &low));
    *ret_key = (ks_hash_key)high << 64 | low;
    return KS_OK;
}

void ks_hash_key_format(ks_hash_key key, char buffer[KS_HASH_KEY_MAX + 1])
{
    char digits[KS_HASH_KEY_MAX];
    size_t count = 0;

    do {
        digits[count++] = (char)('0' + (int)(key % 10));
        key /= 10;
    } while (key > 0);
    for (size_t at = 0; at < count; at++)
        buffer[at] = digits[count - 1 - at];
    buffer[count] = '\0';
}

void ks_hash_key_put(ks_hash_key key, uint8_t bytes[KS_HASH_KEY_SIZE])
{
    for (size_t at = KS_HASH_KEY_SIZE; at > 0; at--) {
        bytes[at - 1] = (uint8_t)key;
        key >>= 8;
    }
}

ks_err ks_hash_key_get(ks_view bytes, ks_hash_key *ret_key)
{
    ks_hash_key key = 0;

    if (bytes.size != KS_HASH_KEY_SIZE)
        return KS_FAIL(MALFORMED);
    for (size_t at = 0; at < KS_HASH_KEY_SIZE; at++)
        key = key << 8 | bytes.data[at];
    *ret_key = key;
    return KS_OK;
}

void ks_hash_key_range(uint32_t index, uint32_t count, ks_hash_key *ret_start, ks_hash_key *ret_end)
{
    assert(count > 0);
    assert(index < count);
    /* 2^128 / count, which itself does not fit for count = 1; then only the end is asked for. */
    ks_hash_key width = KS_HASH_KEY_LAST / count + (KS_HASH_KEY_LAST % count == count - 1 ? 1 : 0);

    *ret_start = width * index;
    *ret_end = index == count - 1 ? KS_HASH_KEY_LAST : width * (index + 1) - 1;
}
