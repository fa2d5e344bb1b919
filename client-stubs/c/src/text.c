/* SPDX-License-Identifier: Apache-2.0 */
#include "text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "kinesis-sidecar-client.h"

/* True if the byte may be the second one of a character: no overlong forms, no surrogates,
 * nothing beyond U+10FFFF. */
static bool is_second(unsigned char first, unsigned char second)
{
    switch (first) {
    case 0xE0: return second >= 0xA0 && second <= 0xBF;
    case 0xED: return second >= 0x80 && second <= 0x9F;
    case 0xF0: return second >= 0x90 && second <= 0xBF;
    case 0xF4: return second >= 0x80 && second <= 0x8F;
    default: return second >= 0x80 && second <= 0xBF;
    }
}

/* Bytes of the character at the begin of the text; 0: it is none. */
static size_t character_size(const unsigned char *text)
{
    size_t size = text[0] < 0x80                       ? 1
                  : text[0] >= 0xC2 && text[0] <= 0xDF ? 2
                  : text[0] >= 0xE0 && text[0] <= 0xEF ? 3
                  : text[0] >= 0xF0 && text[0] <= 0xF4 ? 4
                                                       : 0;

    if (size > 1 && !is_second(text[0], text[1]))
        return 0;
    for (size_t i = 2; i < size; i++)
        if (text[i] < 0x80 || text[i] > 0xBF)
            return 0;
    return size;
}

char *ks_text_clean(const char *text)
{
    char *clean = text == NULL ? NULL : malloc(KS_RECORD_REASON_MAX + 1);
    size_t used = 0;

    if (clean == NULL)
        return NULL;
    while (*text != '\0') {
        size_t size = character_size((const unsigned char *)text);
        if (used + (size == 0 ? 1 : size) > KS_RECORD_REASON_MAX)
            break;
        if (size == 0)
            clean[used++] = '?';
        memcpy(clean + used, text, size);
        used += size;
        text += size == 0 ? 1 : size;
    }
    clean[used] = '\0';
    return clean;
}
