/* SPDX-License-Identifier: Apache-2.0 */
/* json_text.h - the data of records as JSON (RFC 8259), straight from where it lies to where it is sent from.
 *
 * For data of up to KS_RECORD_BYTES_MAX: eight bytes at a step where they are plain, nothing allocated, no recursion.
 * What is one value is judged more strictly than the grammar where readers would stumble: no half of a surrogate
 * pair behind \u, and no deeper than KS_DATA_DEPTH_MAX.
 */
#ifndef KS_API_JSON_TEXT_H
#define KS_API_JSON_TEXT_H

#include "base/bytes.h"

/* Escapes of the first bytes of `text`, which is UTF-8 (ks_view_is_unicode()), as they stand between quotes: writes
 * what fits `room`, and takes what it wrote off `text`. A byte becomes six at most; an escape is never cut. Returns
 * the bytes written; 0 with some text left: there is no room. */
size_t ks_json_escape(ks_view *text, uint8_t *buffer, size_t room);

/* True if `text` is one JSON value, white space around it or not. */
bool ks_json_is_value(ks_view text);
/* Copies a value, or a piece of it: `text.size` bytes. Line breaks between its tokens become spaces. */
void ks_json_copy_on_one_line(ks_view text, uint8_t *buffer);

#endif
