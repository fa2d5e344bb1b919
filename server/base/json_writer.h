/* SPDX-License-Identifier: Apache-2.0 */
/* json_writer.h - writes JSON (RFC 8259) into a buffer: commas and escapes are its business.
 *
 * The first failure (FULL, NO_MEMORY) stays and makes the rest do nothing, so that bodies are written
 * straight down; ks_writer_end() tells. Bytes that are not UTF-8 are written as U+FFFD, so that the
 * result is always valid; where a changed name would be another name, ask for `strict`. */
#ifndef KS_BASE_JSON_WRITER_H
#define KS_BASE_JSON_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

struct ks_writer {
    struct ks_bytes *out;
    ks_err err;
    bool comma;  /* The next value follows another. */
    bool strict; /* Text that is not UTF-8 is INVALID. */
    uint32_t depth;
    uint64_t arrays; /* One bit for each open level: an array, or an object. */
};

/* The bytes belong to the caller and are appended to. */
void ks_writer_begin(struct ks_writer *json, struct ks_bytes *out);
void ks_writer_begin_strict(struct ks_writer *json, struct ks_bytes *out);
/* What went wrong, or KS_OK: then all brackets are closed. After a failure the bytes are of no use. */
KS_MUST_USE ks_err ks_writer_end(const struct ks_writer *json);

/* Brackets: one of "{}[]"; at most 64 deep. */
void ks_writer_open(struct ks_writer *json, char bracket);
void ks_writer_close(struct ks_writer *json, char bracket);
/* `"name":`; `name` needs no escapes. */
void ks_writer_key(struct ks_writer *json, const char *name);
/* The same with a name that is not ours. */
void ks_writer_key_text(struct ks_writer *json, ks_view name);
void ks_writer_text(struct ks_writer *json, ks_view text);
/* A member that is text: `"name":"text"`. */
void ks_writer_pair(struct ks_writer *json, const char *name, ks_view text);
void ks_writer_string(struct ks_writer *json, const char *text);
void ks_writer_u64(struct ks_writer *json, uint64_t value);
void ks_writer_i64(struct ks_writer *json, int64_t value);
void ks_writer_bool(struct ks_writer *json, bool value);
void ks_writer_null(struct ks_writer *json);
/* RFC 3339; 0 is null: the instant is not known. */
void ks_writer_instant(struct ks_writer *json, int64_t unix_ms);
/* Seconds with three decimals, as the AWS JSON protocols write a timestamp. */
void ks_writer_unix_ms(struct ks_writer *json, int64_t unix_ms);
void ks_writer_base64(struct ks_writer *json, ks_view bytes);
/* A line feed, and the next value stands alone: NDJSON. */
void ks_writer_line(struct ks_writer *json);

/* Appends `text` as it stands between quotes. FULL, NO_MEMORY. */
KS_MUST_USE ks_err ks_writer_append_escaped(struct ks_bytes *bytes, ks_view text);
/* Characters that `text` needs inside the quotes. */
size_t ks_writer_escaped_size(ks_view text);
/* Writes them into `buffer`, which has room for ks_writer_escaped_size(text); returns how many. */
size_t ks_writer_escape(ks_view text, char *buffer);

#endif
