/* SPDX-License-Identifier: Apache-2.0 */
#include "base/plain.h"

#include <assert.h>
#include <stdio.h>

/* The code point of a well-formed character. */
static uint32_t code_of(ks_view character)
{
    static const uint8_t first[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t code;

    assert(character.size >= 1 && character.size <= 4);

    code = character.data[0] & first[character.size];
    for (size_t i = 1; i < character.size; i++)
        code = code << 6 | (character.data[i] & 0x3fU);
    return code;
}

bool ks_plain_is_command(ks_view character, uint32_t *ret_code)
{
    uint32_t code = code_of(character);
    bool controls = code < 0x20 || (code >= 0x7f && code < 0xa0);
    bool turns = code == 0x61c || code == 0x200e || code == 0x200f ||
                 (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);

    if (!controls && !turns)
        return false;
    *ret_code = code;
    return true;
}

size_t ks_plain_next(ks_view *rest, char ret_shown[KS_PLAIN_SIZE])
{
    size_t size = ks_view_character(*rest);
    ks_view taken = ks_view_of(rest->data, size == 0 ? 1 : size);
    uint32_t code;
    int written;

    assert(rest->size > 0);

    *rest = ks_view_of(rest->data + taken.size, rest->size - taken.size);
    if (size == 0)
        written = snprintf(ret_shown, KS_PLAIN_SIZE, "\\x%02x", taken.data[0]);
    else if (ks_plain_is_command(taken, &code))
        written = snprintf(ret_shown, KS_PLAIN_SIZE, "\\u%04x", code);
    else
        written = snprintf(ret_shown, KS_PLAIN_SIZE, "%.*s", (int)size, (const char *)taken.data);
    assert(written > 0 && written < KS_PLAIN_SIZE);
    return (size_t)written;
}
