/* SPDX-License-Identifier: Apache-2.0 */
#include "ports/share.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "core/limits.h"

enum { DIGITS = 6 };

ks_err ks_share_parse(ks_view text, uint32_t *ret_share)
{
    ks_view digits = text;
    ks_view whole = ks_view_cut(&digits, '.');
    uint64_t number;

    if (!ks_view_equal(whole, KS_VIEW("0")) || digits.size == 0 || digits.size > DIGITS ||
        !ks_ok(ks_view_u64(digits, &number)) || number == 0)
        return KS_FAIL(INVALID);
    for (size_t i = digits.size; i < DIGITS; i++)
        number *= 10;
    *ret_share = (uint32_t)number;
    return KS_OK;
}

void ks_share_format(uint32_t share, char buffer[KS_SHARE_TEXT_SIZE])
{
    int size;

    assert(share < KS_SHARE_ALL);
    buffer[0] = '\0';
    if (share == 0)
        return;
    size = snprintf(buffer, KS_SHARE_TEXT_SIZE, "0.%06" PRIu32, share);
    assert(size == KS_SHARE_TEXT_SIZE - 1);
    while (buffer[size - 1] == '0')
        buffer[--size] = '\0';
}

uint64_t ks_fnv_hash(ks_view bytes)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < bytes.size; i++)
        hash = (hash ^ bytes.data[i]) * UINT64_C(0x100000001b3);
    return hash;
}
