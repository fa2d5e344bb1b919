/* SPDX-License-Identifier: Apache-2.0 */
/* json.h - JSON for control messages (RFC 8259): a parsed document to read from
 * (base/json_writer.h writes).
 *
 * Never for record data: parsing builds a tree and is slow (60-98 MB/s); records are scanned in
 * place elsewhere. A document is hostile until parsed: its size and depth are limited, names are
 * unique, text is UTF-8 without NUL. Everywhere in here a member that is null counts as absent,
 * because servers differ about that. Loop thread only.
 */
#ifndef KS_AWS_JSON_H
#define KS_AWS_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

/* A value: the document itself (owned, ks_json_free) or something in it (borrowed, lives as long as
 * the document). */
struct ks_json;

/* Parses all of `text` (any JSON value). MALFORMED; FULL beyond KS_JSON_BYTES_MAX or
 * KS_JSON_DEPTH_MAX of limits.h; NO_MEMORY. The text may go away afterwards. */
KS_MUST_USE ks_err ks_json_parse(ks_view text, struct ks_json **ret_document);
/* NULL is allowed. Only for what ks_json_parse gave. */
void ks_json_free(struct ks_json *document);

/* The member `name` of an object; NULL if it is absent or null, or if `value` is no object or NULL:
 * lookups chain. */
const struct ks_json *ks_json_member(const struct ks_json *value, const char *name);
/* Items of an array or members of an object; 0 for everything else, and for NULL. */
size_t ks_json_count(const struct ks_json *value);
/* Item `index` of an array; NULL if it is null, if there is none, or if `value` is no array. */
const struct ks_json *ks_json_item(const struct ks_json *value, size_t index);

bool ks_json_is_object(const struct ks_json *value);
bool ks_json_is_array(const struct ks_json *value);

/* What a value is. NOT_FOUND if `value` is NULL (absent), MALFORMED if it is something else than
 * asked for. Views live as long as the document; the text is also NUL-terminated at
 * view.data[view.size]. */
KS_MUST_USE ks_err ks_json_text(const struct ks_json *value, ks_view *ret_text);
KS_MUST_USE ks_err ks_json_bool(const struct ks_json *value, bool *ret_value);
/* An integer; also one that is written with a zero fraction or an exponent (1.0, 1e3) below 2^53.
 */
KS_MUST_USE ks_err ks_json_i64(const struct ks_json *value, int64_t *ret_value);
/* As ks_json_i64, and not negative. */
KS_MUST_USE ks_err ks_json_u64(const struct ks_json *value, uint64_t *ret_value);
/* A timestamp of the AWS JSON protocols: seconds with a fraction -> Unix ms, rounded. */
KS_MUST_USE ks_err ks_json_unix_ms(const struct ks_json *value, int64_t *ret_unix_ms);

/* Walks the members of an object that are not null, in no promised order. Begin with a zeroed
 * cursor; false at the end, at once if `value` is no object or NULL. */
struct ks_json_cursor {
    void *at;
    bool begun;
};
bool ks_json_each(const struct ks_json *value, struct ks_json_cursor *cursor, ks_view *ret_name,
                  const struct ks_json **ret_member);

#endif
