/* SPDX-License-Identifier: Apache-2.0 */
/* codec.h - base64 (RFC 4648) and hex.
 *
 * The decoders write straight to where the bytes are sent from. base64 uses AVX2 where the processor has it; all
 * paths give the same bytes (tested against each other).
 */
#ifndef KS_BASE_CODEC_H
#define KS_BASE_CODEC_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

/* Characters for `size` bytes, padding included, without a NUL. */
static inline size_t ks_base64_size(size_t size)
{
    return (size + 2) / 3 * 4;
}

/* Most bytes that `characters` of base64 can hold. */
static inline size_t ks_base64_decoded_max(size_t characters)
{
    return (characters + 3) / 4 * 3;
}

/* Encodes with padding; `buffer` holds ks_base64_size(view.size) bytes. Returns the characters written. No NUL. */
size_t ks_base64_encode(ks_view view, char *buffer);
/* Standard alphabet, padding required, no white space. `buffer` has room for ks_base64_decoded_max(view.size) + 32
 * bytes (vector code may write past the end of the result), or is the text itself or lies before it: nothing is ever
 * written beyond what was read. MALFORMED. */
KS_MUST_USE ks_err ks_base64_decode(ks_view view, uint8_t *buffer, size_t *ret_size);

/* URL-safe alphabet without padding, for tokens. `buffer` holds ks_base64_size(view.size) bytes. */
size_t ks_base64url_encode(ks_view view, char *buffer);
/* `buffer` as for ks_base64_decode. MALFORMED, also for non-zero bits after the end (one spelling per value). */
KS_MUST_USE ks_err ks_base64url_decode(ks_view view, uint8_t *buffer, size_t *ret_size);

/* Lower case; `buffer` holds 2 * view.size bytes. No NUL. */
void ks_hex_encode(ks_view view, char *buffer);
/* Either case; `buffer` holds view.size / 2 bytes. MALFORMED. */
KS_MUST_USE ks_err ks_hex_decode(ks_view view, uint8_t *buffer);

/* RFC 3339 in UTC with milliseconds, "2026-11-21T00:40:00.123Z": 24 characters and a NUL into `buffer`. */
enum { KS_TIMESTAMP_SIZE = 25 };
void ks_timestamp_format(int64_t unix_ms, char buffer[KS_TIMESTAMP_SIZE]);
/* Any RFC 3339 instant, with or without a fraction, Z or an offset. INVALID. */
KS_MUST_USE ks_err ks_timestamp_parse(ks_view text, int64_t *ret_unix_ms);

#endif
