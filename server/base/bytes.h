/* SPDX-License-Identifier: Apache-2.0 */
/* bytes.h - views that cannot overrun, and a buffer that grows to a limit.
 *
 * A ks_view is borrowed bytes: it never outlives what it points into. Text in a view is UTF-8 without a NUL.
 * A struct ks_bytes owns its memory (base/budget.h), grows by doubling up to `max` and then says FULL.
 */
#ifndef KS_BASE_BYTES_H
#define KS_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"

typedef struct ks_view {
    const uint8_t *data;
    size_t size;
} ks_view;

#define KS_VIEW_NONE ((ks_view){NULL, 0})
/* A view of a string literal. */
#define KS_VIEW(literal) ((ks_view){(const uint8_t *)("" literal), sizeof(literal) - 1})

static inline ks_view ks_view_of(const void *data, size_t size)
{
    return (ks_view){data, size};
}

static inline ks_view ks_view_text(const char *text)
{
    return (ks_view){(const uint8_t *)text, strlen(text)};
}

bool ks_view_equal(ks_view a, ks_view b);
/* ASCII only, for header names and the like. */
bool ks_view_equal_nocase(ks_view a, ks_view b);
bool ks_view_starts(ks_view view, ks_view prefix);
/* Without ASCII white space at both ends. */
ks_view ks_view_trim(ks_view view);
/* Cuts `view` at the first `separator`: what stands before it is returned, `view` becomes what follows it. Without a
 * separator everything is returned and `view` becomes empty with data NULL, which ends a loop. */
ks_view ks_view_cut(ks_view *view, uint8_t separator);

/* Takes the first `size` bytes off `view`. MALFORMED if there are fewer; then nothing is taken. */
KS_MUST_USE ks_err ks_view_take(ks_view *view, size_t size, ks_view *ret_taken);
KS_MUST_USE ks_err ks_view_take_u8(ks_view *view, uint8_t *ret_value);
KS_MUST_USE ks_err ks_view_take_be16(ks_view *view, uint16_t *ret_value);
KS_MUST_USE ks_err ks_view_take_be32(ks_view *view, uint32_t *ret_value);
KS_MUST_USE ks_err ks_view_take_be64(ks_view *view, uint64_t *ret_value);
/* A protobuf varint of at most 10 bytes. */
KS_MUST_USE ks_err ks_view_take_varint(ks_view *view, uint64_t *ret_value);

/* Parses all of `view` as a decimal integer (a sign only for the signed one). INVALID if it is not one or does not
 * fit. */
KS_MUST_USE ks_err ks_view_u64(ks_view view, uint64_t *ret_value);
KS_MUST_USE ks_err ks_view_i64(ks_view view, int64_t *ret_value);
/* Likewise up to 2^128 - 1, as two halves. */
KS_MUST_USE ks_err ks_view_u128(ks_view view, uint64_t *ret_high, uint64_t *ret_low);

/* True for well-formed UTF-8 (RFC 3629) without NUL. */
bool ks_view_is_utf8(ks_view view);
/* The same, and NUL is a character like others. */
bool ks_view_is_unicode(ks_view view);

/* How many bytes of `view` are left without a character that its end cuts in two: to cut text at any byte. */
size_t ks_view_whole_characters(ks_view view);
/* The bytes of the well-formed character at the start of `view`, 1 to 4, NUL counted as one; 0 if there is none. */
size_t ks_view_character(ks_view view);

/* Copies into a C string of `capacity` bytes, NUL included. FULL if it does not fit, INVALID if it holds a NUL. */
KS_MUST_USE ks_err ks_view_copy_text(ks_view view, char *buffer, size_t capacity);

struct ks_bytes {
    uint8_t *data;
    size_t size;
    size_t capacity;
    size_t max; /* It never grows beyond; set at birth. */
    bool
        secret; /* Set by its owner before the first byte: no copy of the content stays in freed memory. */
};

/* Begins empty, without memory. `max` is in bytes. */
void ks_bytes_init(struct ks_bytes *bytes, size_t max);
/* Gives the memory back; afterwards it is as after init. NULL is allowed. */
void ks_bytes_free(struct ks_bytes *bytes);
/* Keeps the memory, forgets the content. */
void ks_bytes_clear(struct ks_bytes *bytes);
/* Room for `size` more bytes without a move. FULL beyond max, NO_MEMORY. */
KS_MUST_USE ks_err ks_bytes_reserve(struct ks_bytes *bytes, size_t size);
/* The appends leave the content untouched when they fail (FULL, NO_MEMORY). */
KS_MUST_USE ks_err ks_bytes_append(struct ks_bytes *bytes, ks_view view);
KS_MUST_USE ks_err ks_bytes_append_byte(struct ks_bytes *bytes, uint8_t byte);
KS_MUST_USE ks_err ks_bytes_append_varint(struct ks_bytes *bytes, uint64_t value);
KS_MUST_USE ks_err ks_bytes_format(struct ks_bytes *bytes, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Removes the first `size` bytes. */
void ks_bytes_consume(struct ks_bytes *bytes, size_t size);

static inline ks_view ks_bytes_view(const struct ks_bytes *bytes)
{
    return (ks_view){bytes->data, bytes->size};
}

#endif
