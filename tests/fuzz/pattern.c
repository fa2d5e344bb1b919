/* SPDX-License-Identifier: Apache-2.0 */
/* pattern.c - fuzzes event patterns: a document, a partition key and data, with a NUL after each of the first two.
 *
 * Whatever compiles gives the same answer twice, in the smallest parts, and as the only filter of a document. Data that
 * the API takes for JSON is JSON for a pattern, too. Nothing that is allocated stays.
 */
#include "base/pattern.h"

#include <assert.h>

#include "api/json_text.h"
#include "base/budget.h"
#include "base/json_writer.h"
#include "base/pattern_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_json(ks_view text)
{
    struct ks_pattern_reader reader;
    struct ks_pattern_token token;

    ks_pattern_reader_init(&reader, text);
    do {
        ks_pattern_reader_next(&reader, &token);
    } while (token.kind != KS_PATTERN_END && token.kind != KS_PATTERN_WRONG);
    assert(reader.at <= text.size);
    assert(token.kind == KS_PATTERN_END || reader.wrong != NULL);
    return token.kind == KS_PATTERN_END;
}

/* The pattern as the string of a document matches the same records. */
static void check_document(ks_view text, const struct ks_pattern_record *record, bool matches)
{
    struct ks_pattern *pattern;
    struct ks_bytes document;

    ks_bytes_init(&document, KS_PATTERN_TEXT_MAX);
    if (ks_ok(ks_bytes_append(&document, KS_VIEW("{\"Filters\":[{\"Pattern\":\""))) &&
        ks_ok(ks_writer_append_escaped(&document, text)) &&
        ks_ok(ks_bytes_append(&document, KS_VIEW("\"}]}")))) {
        ks_err err = ks_pattern_compile(ks_bytes_view(&document), &pattern, NULL);
        assert(ks_ok(err));
        assert(ks_pattern_matches(pattern, record) == matches);
        ks_pattern_free(pattern);
    }
    ks_bytes_free(&document);
}

/* The smallest parts: each looks at one token or makes one test. */
static void check_in_parts(const struct ks_pattern *pattern, const struct ks_pattern_record *record,
                           bool matches)
{
    struct ks_pattern_match *match = ks_pattern_match_new();
    bool passes = !matches;
    uint64_t units;

    assert(match != NULL);
    ks_pattern_match_begin(match, pattern, record);
    do
        units = 1;
    while (!ks_pattern_match_go_on(match, &units, &passes));
    assert(passes == matches);
    ks_free(match);
}

static void check_pattern(ks_view text, const struct ks_pattern *pattern,
                          const struct ks_pattern_record *record)
{
    bool matches = ks_pattern_matches(pattern, record);
    struct ks_pattern_record other = *record;
    bool json = is_json(record->data);

    assert(ks_pattern_matches(pattern, record) == matches);
    check_in_parts(pattern, record, matches);
    other.data = KS_VIEW("not JSON");
    if (!ks_pattern_reads_data(pattern) || !json)
        assert(ks_pattern_matches(pattern, &other) == matches);
    check_document(text, record, matches);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ks_view rest = ks_view_of(data, size);
    ks_view text = ks_view_cut(&rest, '\0');
    struct ks_pattern_record record = {.sequence_number = KS_VIEW("49"),
                                       .arrival_ms = size % 2 == 0 ? 0 : 1545084650987};
    int64_t live = ks_alloc_live();
    struct ks_detail detail = {""};
    struct ks_pattern *pattern;

    record.partition_key = ks_view_cut(&rest, '\0');
    record.data = rest;
    assert(rest.size == 0 || !ks_json_is_value(rest) || is_json(rest));
    if (ks_ok(ks_pattern_compile(text, &pattern, &detail))) {
        /* A document of several filters is not one pattern. */
        if (memmem(text.data, text.size, "Filters", 7) == NULL)
            check_pattern(text, pattern, &record);
        else
            (void)ks_pattern_matches(pattern, &record);
        ks_pattern_free(pattern);
    } else {
        assert(detail.text[0] != '\0');
    }
    assert(ks_alloc_live() == live);
    return 0;
}
