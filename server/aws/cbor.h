/* SPDX-License-Identifier: Apache-2.0 */
/* cbor.h - CBOR as Kinesis speaks it (RFC 8949, application/x-amz-cbor-1.1): a reader in place and
 * a small writer.
 *
 * The reader walks a view and copies nothing. It takes definite and indefinite lengths, strings in
 * chunks, any integer width, half to double floats, and skips tags. It never recurses; nesting that
 * is skipped is limited. AWS breaks the RFC in one place: tag 1 holds epoch MILLISECONDS as an
 * integer; some servers write seconds as a double, or no tag. ks_cbor_unix_ms takes them all.
 *
 *     KS_TRY(ks_cbor_map(&view, &map));
 *     for (;;) {
 *         KS_TRY(ks_cbor_more(&view, &map, &more));
 *         if (!more)
 *             break;
 *         KS_TRY(ks_cbor_text(&view, &name));
 *         if (ks_cbor_string_is(&name, "Records"))
 *             KS_TRY(read_records(&view));
 *         else
 *             KS_TRY(ks_cbor_skip(&view));
 *     }
 *
 * Every function takes its item off the front of the view; when it fails the view is unchanged
 * unless said otherwise. All of them: MALFORMED for bytes that are no CBOR or end too early, and
 * for another type than asked for.
 */
#ifndef KS_AWS_CBOR_H
#define KS_AWS_CBOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

enum ks_cbor_type {
    KS_CBOR_INTEGER, /* Unsigned or negative. */
    KS_CBOR_BYTES,
    KS_CBOR_TEXT,
    KS_CBOR_ARRAY,
    KS_CBOR_MAP,
    KS_CBOR_BOOL,
    KS_CBOR_NULL, /* null or undefined: both count as absent. */
    KS_CBOR_FLOAT,
    KS_CBOR_OTHER, /* Another simple value: can only be skipped. */
    KS_CBOR_BREAK  /* The end of an indefinite container; never where an item must stand. */
};

/* The type of the next item, behind its tags. Takes nothing. MALFORMED at the end of the view. */
KS_MUST_USE ks_err ks_cbor_peek(ks_view view, enum ks_cbor_type *ret_type);

/* An open array or map. */
struct ks_cbor_container {
    uint64_t left; /* Items or pairs that are still to come, if definite. */
    bool indefinite;
};

KS_MUST_USE ks_err ks_cbor_map(ks_view *view, struct ks_cbor_container *ret_map);
KS_MUST_USE ks_err ks_cbor_array(ks_view *view, struct ks_cbor_container *ret_array);
/* Asks for one more item (of a map: one more pair, name first) and counts it; false at the end,
 * which is then taken. */
KS_MUST_USE ks_err ks_cbor_more(ks_view *view, struct ks_cbor_container *container, bool *ret_more);

/* A string of bytes or text. One piece: `bytes` is its content. In chunks: `bytes` is what the
 * chunks are made of. */
struct ks_cbor_string {
    ks_view bytes;
    size_t size; /* Of the content. */
    bool chunked;
};

/* Text must be UTF-8, in each chunk. */
KS_MUST_USE ks_err ks_cbor_text(ks_view *view, struct ks_cbor_string *ret_text);
KS_MUST_USE ks_err ks_cbor_bytes(ks_view *view, struct ks_cbor_string *ret_bytes);
bool ks_cbor_string_equals(const struct ks_cbor_string *string, ks_view text);
/* The same with a literal, whose size the compiler knows. */
static inline bool ks_cbor_string_is(const struct ks_cbor_string *string, const char *text)
{
    ks_view view = ks_view_text(text);

    if (string->chunked)
        return ks_cbor_string_equals(string, view);
    return string->size == view.size && memcmp(string->bytes.data, text, view.size) == 0;
}
/* Copies string->size bytes to `buffer`. Needed for chunked strings only; else string->bytes is the
 * content. */
void ks_cbor_string_copy(const struct ks_cbor_string *string, uint8_t *buffer);
/* As a C string into `capacity` bytes. FULL if it does not fit, INVALID if it holds a NUL. */
KS_MUST_USE ks_err ks_cbor_string_copy_text(const struct ks_cbor_string *string, char *buffer,
                                            size_t capacity);

/* MALFORMED also if it does not fit. */
KS_MUST_USE ks_err ks_cbor_i64(ks_view *view, int64_t *ret_value);
KS_MUST_USE ks_err ks_cbor_bool(ks_view *view, bool *ret_value);
/* True if the next item is null or undefined; then it is taken. */
bool ks_cbor_null(ks_view *view);
/* A timestamp, with or without tag 1, an integer or a float: ms, or seconds where as ms it would
 * lie within three years of 1970. */
KS_MUST_USE ks_err ks_cbor_unix_ms(ks_view *view, int64_t *ret_unix_ms);
/* Skips one whole item, whatever it is; at most KS_CBOR_DEPTH_MAX (limits.h) containers within each
 * other. */
KS_MUST_USE ks_err ks_cbor_skip(ks_view *view);

/* --- Writing --- (definite lengths, shortest form). FULL and NO_MEMORY of the bytes; what was
 * written before stays. */

KS_MUST_USE ks_err ks_cbor_put_map(struct ks_bytes *bytes, uint64_t pairs);
KS_MUST_USE ks_err ks_cbor_put_array(struct ks_bytes *bytes, uint64_t items);
KS_MUST_USE ks_err ks_cbor_put_text(struct ks_bytes *bytes, ks_view text);
KS_MUST_USE ks_err ks_cbor_put_bytes(struct ks_bytes *bytes, ks_view content);
KS_MUST_USE ks_err ks_cbor_put_i64(struct ks_bytes *bytes, int64_t value);
KS_MUST_USE ks_err ks_cbor_put_bool(struct ks_bytes *bytes, bool value);
KS_MUST_USE ks_err ks_cbor_put_null(struct ks_bytes *bytes);
/* Tag 1 and integer milliseconds, as AWS wants it. */
KS_MUST_USE ks_err ks_cbor_put_unix_ms(struct ks_bytes *bytes, int64_t unix_ms);

#endif
