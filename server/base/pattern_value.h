/* SPDX-License-Identifier: Apache-2.0 */
/* pattern_value.h - one value of a record against the tests of one field of an event pattern.
 *
 * Pure. Each test costs time in proportion to the value's bytes plus the test's: pieces of a wildcard are searched by
 * the algorithm of Knuth, Morris and Pratt, in one pass over the value.
 */
#ifndef KS_BASE_PATTERN_VALUE_H
#define KS_BASE_PATTERN_VALUE_H

#include "base/pattern_json.h"
#include "base/pattern_number.h"

enum ks_pattern_test_kind {
    KS_PATTERN_IS_PRESENT, /* Any value. */
    KS_PATTERN_IS_WORD,    /* true, false or null. */
    KS_PATTERN_IS_TEXT,
    KS_PATTERN_IS_TEXT_NOCASE,
    KS_PATTERN_STARTS_NOCASE,
    KS_PATTERN_ENDS_NOCASE,
    KS_PATTERN_IS_LIKE,   /* Pieces of text with anything between them. */
    KS_PATTERN_IS_NUMBER, /* Equal, or written alike. */
    KS_PATTERN_IN_RANGE,
    KS_PATTERN_IS_NONE_OF /* No test of the `count` tests that follow passes. */
};

/* A part of a wildcard between two asterisks. */
struct ks_pattern_piece {
    ks_view text;
    /* For each prefix of `text`: the length of the longest shorter prefix that ends it. NULL for the first piece, which
     * is not searched. */
    const uint16_t *borders;
};

struct ks_pattern_test {
    enum ks_pattern_test_kind kind;
    enum ks_pattern_token_kind word;
    uint32_t count;
    ks_view text; /* Without escapes; of a number as the pattern writes it. */
    /* At least two. The first begins the value and the last ends it; an empty one does so anywhere. */
    const struct ks_pattern_piece *pieces;
    size_t piece_count;
    struct ks_pattern_number low, high; /* Of a number: `low`. */
    bool has_low, has_high;
    bool without_low, without_high; /* The limit itself is out of the range. */
};

struct ks_pattern_value {
    enum ks_pattern_token_kind kind; /* Of a scalar. */
    ks_view text;                    /* As struct ks_pattern_token has it. */
    bool escaped;
    struct ks_pattern_number number; /* Of KS_PATTERN_NUMBER only. */
};

/* The value of a token. It borrows the token's text. */
struct ks_pattern_value ks_pattern_value_of(const struct ks_pattern_token *token);

/* A value on its way through the tests of a field. */
struct ks_pattern_trial {
    struct ks_pattern_value value;
    const struct ks_pattern_test *tests;
    size_t count;
    size_t at;     /* The test that is next, .. */
    size_t inside; /* .. or, of KS_PATTERN_IS_NONE_OF, the test inside of it; 0: none. */
};
enum ks_pattern_verdict { KS_PATTERN_UNDECIDED, KS_PATTERN_PASSES, KS_PATTERN_FAILS };
/* Makes one test. `units` is increased by the bytes that it may have looked at, at least 1. */
enum ks_pattern_verdict ks_pattern_trial_step(struct ks_pattern_trial *trial, uint64_t *units);

/* Returns true if one of the tests passes. */
bool ks_pattern_value_passes(const struct ks_pattern_value *value,
                             const struct ks_pattern_test *tests, size_t count);

/* Fills the borders of a piece, one for each byte of `text`, of at most 65,535 bytes. */
void ks_pattern_fill_borders(ks_view text, uint16_t *borders);

/* Returns true if the text of a token represents the bytes of `plain`. */
bool ks_pattern_text_equal(ks_view text, bool escaped, ks_view plain);

#endif
