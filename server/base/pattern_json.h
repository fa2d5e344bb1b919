/* SPDX-License-Identifier: Apache-2.0 */
/* pattern_json.h - reads JSON (RFC 8259) token by token, for event patterns and for the data of records.
 *
 * Allocates nothing and does not recurse. Strict: UTF-8, no comments, no trailing comma, no half of a surrogate pair,
 * one value and nothing after it. A value nests at most KS_PATTERN_DEPTH_MAX levels deep. Numbers and strings have no
 * limit of their own and stay where they are: a token is a view of the text that is read.
 */
#ifndef KS_BASE_PATTERN_JSON_H
#define KS_BASE_PATTERN_JSON_H

#include "base/bytes.h"

enum { KS_PATTERN_DEPTH_MAX = 64 }; /* Open brackets: one bit a level. */

enum ks_pattern_token_kind {
    KS_PATTERN_OBJECT,
    KS_PATTERN_OBJECT_END,
    KS_PATTERN_ARRAY,
    KS_PATTERN_ARRAY_END,
    KS_PATTERN_NAME, /* Of a member, with its colon. */
    KS_PATTERN_STRING,
    KS_PATTERN_NUMBER,
    KS_PATTERN_TRUE,
    KS_PATTERN_FALSE,
    KS_PATTERN_NULL,
    KS_PATTERN_END,  /* The value is complete and nothing follows it. */
    KS_PATTERN_WRONG /* The text is not JSON, or nests too deep. */
};

struct ks_pattern_token {
    enum ks_pattern_token_kind kind;
    ks_view
        text; /* Name and string: between the quotation marks, escapes as written. Number: as written. */
    bool escaped; /* `text` contains a backslash. */
};

struct ks_pattern_reader {
    ks_view text;
    size_t at;         /* Byte of `text` that is read next. */
    uint64_t arrays;   /* The lowest bit is the innermost open bracket: 1 for an array. */
    uint32_t depth;    /* Open brackets. */
    uint8_t expected;  /* Private: an enum of pattern_json.c. */
    const char *wrong; /* After KS_PATTERN_WRONG: the error at byte `at`. Static storage. */
};

/* Starts at the first byte of `text`, which must outlive the reader and its tokens. */
void ks_pattern_reader_init(struct ks_pattern_reader *reader, ks_view text);

/* Reads the next token. KS_PATTERN_END and KS_PATTERN_WRONG are last: nothing may be read after them. */
void ks_pattern_reader_next(struct ks_pattern_reader *reader, struct ks_pattern_token *ret_token);

/* Reads the bytes that a JSON string represents. */
struct ks_pattern_text {
    ks_view rest;
    bool escaped;
    uint8_t pending[4]; /* Bytes of an escaped character that are not yet returned. */
    uint8_t first, last;
};

/* `text` is the text of a token, or with `escaped` false any bytes. */
void ks_pattern_text_init(struct ks_pattern_text *reader, ks_view text, bool escaped);
/* Returns the next byte, or -1 at the end. */
int ks_pattern_text_byte(struct ks_pattern_text *reader);
/* Returns the next character as a code point, or -1 at the end. Returns 0x110000 + byte for a byte that is not part of
 * a well-formed character. */
int32_t ks_pattern_text_point(struct ks_pattern_text *reader);

#endif
