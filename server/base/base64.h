/* SPDX-License-Identifier: Apache-2.0 */
/* base64.h - the ways to code base64 in bulk; apart from codec.c, so that tests can hold them against each other.
 *
 * A way works on whole groups only, never on padding: codec.c does the ends, chooses the way, and is what others use.
 */
#ifndef KS_BASE_BASE64_H
#define KS_BASE_BASE64_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ks_base64_way {
    /* Encodes as many groups of 3 bytes as suit it, from the start. Returns the bytes taken; 4 characters were written
     * for every 3 of them. */
    size_t (*encode)(const uint8_t *from, size_t size, char *to);
    /* Decodes as many groups of 4 characters as suit it, from the start, and stops before anything foreign. Returns the
     * characters taken; 3 bytes were written for every 4 of them, and up to 32 more may have been touched. */
    size_t (*decode)(const uint8_t *from, size_t size, uint8_t *to);
};

/* Takes every whole group there is, on any machine. */
extern const struct ks_base64_way ks_base64_portable;
/* Leaves less than 64 bytes or characters at the end; only if ks_base64_has_avx2(). */
extern const struct ks_base64_way ks_base64_avx2;
bool ks_base64_has_avx2(void);

#endif
