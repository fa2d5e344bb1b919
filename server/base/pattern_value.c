/* SPDX-License-Identifier: Apache-2.0 */
#include "base/pattern_value.h"

#include "base/pattern_case.h"

struct ks_pattern_value ks_pattern_value_of(const struct ks_pattern_token *token)
{
    struct ks_pattern_value value = {
        .kind = token->kind, .text = token->text, .escaped = token->escaped};

    if (token->kind == KS_PATTERN_NUMBER)
        value.number = ks_pattern_number_read(token->text);
    return value;
}

bool ks_pattern_text_equal(ks_view text, bool escaped, ks_view plain)
{
    struct ks_pattern_text reader;

    if (!escaped)
        return ks_view_equal(text, plain);
    ks_pattern_text_init(&reader, text, escaped);
    for (size_t i = 0; i < plain.size; i++) {
        if (ks_pattern_text_byte(&reader) != plain.data[i])
            return false;
    }
    return ks_pattern_text_byte(&reader) == -1;
}

/* Ignoring case. */

static size_t count_points(struct ks_pattern_text reader)
{
    size_t count = 0;

    while (ks_pattern_text_point(&reader) != -1)
        count++;
    return count;
}

static bool is_other_case(int32_t point, int32_t wanted)
{
    return point == wanted || point == ks_pattern_lower(wanted) ||
           point == ks_pattern_upper(wanted);
}

static bool passes_nocase(const struct ks_pattern_value *value, const struct ks_pattern_test *test)
{
    struct ks_pattern_text reader, wanted;
    int32_t point;

    ks_pattern_text_init(&reader, value->text, value->escaped);
    ks_pattern_text_init(&wanted, test->text, false);
    if (test->kind == KS_PATTERN_ENDS_NOCASE) {
        size_t left = count_points(reader);
        size_t needed = count_points(wanted);
        for (; left > needed; left--)
            (void)ks_pattern_text_point(&reader);
    }
    while ((point = ks_pattern_text_point(&wanted)) != -1) {
        int32_t found = ks_pattern_text_point(&reader);
        if (found == -1 || !is_other_case(found, point))
            return false;
    }
    return test->kind == KS_PATTERN_STARTS_NOCASE || ks_pattern_text_point(&reader) == -1;
}

/* Wildcards. */

void ks_pattern_fill_borders(ks_view text, uint16_t *borders)
{
    size_t border = 0;

    if (text.size == 0)
        return;
    borders[0] = 0;
    for (size_t i = 1; i < text.size; i++) {
        while (border > 0 && text.data[border] != text.data[i])
            border = borders[border - 1];
        if (text.data[border] == text.data[i])
            border++;
        borders[i] = (uint16_t)border;
    }
}

/* Returns how many bytes of `piece` end the value after `byte`, if `found` bytes ended it before. */
static size_t extend(const struct ks_pattern_piece *piece, size_t found, uint8_t byte)
{
    while (found > 0 && (found == piece->text.size || piece->text.data[found] != byte))
        found = piece->borders[found - 1];
    if (found < piece->text.size && piece->text.data[found] == byte)
        found++;
    return found;
}

/* Searches each piece after the end of the piece before it and takes the first find: a later one would leave less of
 * the value to the pieces that follow. The last piece is searched up to the end of the value. */
static bool is_like(const struct ks_pattern_value *value, const struct ks_pattern_test *test)
{
    const struct ks_pattern_piece *piece = test->pieces;
    const struct ks_pattern_piece *last = test->pieces + test->piece_count - 1;
    struct ks_pattern_text reader;
    size_t found = 0;
    int byte;

    ks_pattern_text_init(&reader, value->text, value->escaped);
    for (size_t i = 0; i < piece->text.size; i++) {
        if (ks_pattern_text_byte(&reader) != piece->text.data[i])
            return false;
    }
    piece++;
    if (last->text.size == 0 && piece == last)
        return true;
    while ((byte = ks_pattern_text_byte(&reader)) != -1) {
        found = extend(piece, found, (uint8_t)byte);
        if (piece < last && found == piece->text.size) {
            piece++;
            found = 0;
            if (piece == last && last->text.size == 0)
                return true;
        }
    }
    return piece == last && found == last->text.size;
}

/* Numbers. */

static bool is_number(const struct ks_pattern_value *value, const struct ks_pattern_test *test)
{
    if (value->number.comparable && test->low.comparable)
        return ks_pattern_number_compare(&value->number, &test->low) == 0;
    return ks_view_equal(value->text, test->text);
}

static bool is_in_range(const struct ks_pattern_number *number, const struct ks_pattern_test *test)
{
    if (!number->comparable)
        return false;
    if (test->has_low) {
        int above = ks_pattern_number_compare(number, &test->low);
        if (above < 0 || (above == 0 && test->without_low))
            return false;
    }
    if (test->has_high) {
        int above = ks_pattern_number_compare(number, &test->high);
        if (above > 0 || (above == 0 && test->without_high))
            return false;
    }
    return true;
}

/* Any test but KS_PATTERN_IS_NONE_OF. */
static bool passes_one(const struct ks_pattern_value *value, const struct ks_pattern_test *test)
{
    switch (test->kind) {
    case KS_PATTERN_IS_PRESENT: return true;
    case KS_PATTERN_IS_WORD: return value->kind == test->word;
    case KS_PATTERN_IS_TEXT:
        return value->kind == KS_PATTERN_STRING &&
               ks_pattern_text_equal(value->text, value->escaped, test->text);
    case KS_PATTERN_IS_TEXT_NOCASE:
    case KS_PATTERN_STARTS_NOCASE:
    case KS_PATTERN_ENDS_NOCASE:
        return value->kind == KS_PATTERN_STRING && passes_nocase(value, test);
    case KS_PATTERN_IS_LIKE: return value->kind == KS_PATTERN_STRING && is_like(value, test);
    case KS_PATTERN_IS_NUMBER: return value->kind == KS_PATTERN_NUMBER && is_number(value, test);
    case KS_PATTERN_IN_RANGE:
        return value->kind == KS_PATTERN_NUMBER && is_in_range(&value->number, test);
    case KS_PATTERN_IS_NONE_OF: break;
    }
    return false;
}

static enum ks_pattern_verdict next_test(struct ks_pattern_trial *trial)
{
    trial->at += 1 + trial->tests[trial->at].count;
    trial->inside = 0;
    return trial->at < trial->count ? KS_PATTERN_UNDECIDED : KS_PATTERN_FAILS;
}

enum ks_pattern_verdict ks_pattern_trial_step(struct ks_pattern_trial *trial, uint64_t *units)
{
    const struct ks_pattern_test *test = trial->tests + trial->at;
    bool passes;

    if (trial->at >= trial->count)
        return KS_PATTERN_FAILS;
    if (test->kind == KS_PATTERN_IS_NONE_OF && trial->inside == 0)
        trial->inside = 1;
    *units += 1 + trial->value.text.size + test[trial->inside].text.size;
    passes = passes_one(&trial->value, test + trial->inside);
    if (trial->inside == 0)
        return passes ? KS_PATTERN_PASSES : next_test(trial);
    if (passes)
        return next_test(trial);
    return ++trial->inside <= test->count ? KS_PATTERN_UNDECIDED : KS_PATTERN_PASSES;
}

bool ks_pattern_value_passes(const struct ks_pattern_value *value,
                             const struct ks_pattern_test *tests, size_t count)
{
    struct ks_pattern_trial trial = {.value = *value, .tests = tests, .count = count};
    enum ks_pattern_verdict verdict;
    uint64_t units = 0;

    do
        verdict = ks_pattern_trial_step(&trial, &units);
    while (verdict == KS_PATTERN_UNDECIDED);
    return verdict == KS_PATTERN_PASSES;
}
