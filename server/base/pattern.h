/* SPDX-License-Identifier: Apache-2.0 */
/* pattern.h - event patterns: they select records of a stream, in the language of AWS Lambda's FilterCriteria.
 *
 * A document is `{"Filters":[{"Pattern":"<pattern, as a JSON string>"}, ..]}` or one pattern itself. A record passes
 * if one of the patterns matches it. A pattern is an object with the shape of the record:
 *
 *     {"partitionKey": [{"prefix": "eu-"}], "data": {"order": {"type": ["buy"], "quantity": [{"numeric": [">", 9]}]}}}
 *
 * A record has these fields at the top level. `partitionKey`, `sequenceNumber` and `kinesisSchemaVersion` ("1.0") are
 * strings. `approximateArrivalTimestamp` is a number of seconds with three decimals; it is absent if it is not known.
 * `data` is the data of the record, read as JSON. Every field that the pattern names must match; other fields are
 * ignored. AWS documents only `data` for Kinesis today. Until 2023 it documented fields like `partitionKey`, too, as
 * EventBridge Pipes does now.
 *
 * A field has a list, and one entry of the list must match:
 *     "text"  12.5  true  false  null       this value
 *     {"exactly": "text"}                   this text
 *     {"prefix": "a"}  {"suffix": "z"}      a text with this start or end; also {"prefix": {"equals-ignore-case": "a"}}
 *     {"equals-ignore-case": "text"}        this text in upper or lower case
 *     {"wildcard": "a*b*"}                  * is any text; \* is an asterisk, \\ is a backslash
 *     {"numeric": [">", 0, "<=", 5]}        a number in this range; also one of = < <= > >= with one number
 *     {"exists": true}, {"exists": false}   any value, or no value
 *     {"anything-but": ["a", "b"]}          any value but these texts or these numbers; also one text or number
 *     {"anything-but": {"prefix": "a"}}     also suffix, equals-ignore-case, wildcard; each with a text or a list
 * `"$or": [{..}, {..}]` is a member of any object of a pattern, beside its fields. One of the objects must match, too.
 *
 * Semantics, which are those of event-ruler, the library of AWS that matches patterns:
 *  - Only scalars are values, null included. An object is not a value, and an empty list has none.
 *  - A list in the data represents its elements: one that matches is enough. Fields of a pattern that are in the same
 *    list must match in the same element of it.
 *  - `{"exists": false}` on a field inside a list asks for its absence in that element if a field with values in the
 *    same list has a lower full name ("a.b" is lower than "a.c"). Otherwise no element of the list may have the field.
 *  - `anything-but` matches values of other types, too, null included.
 *  - Numbers are compared as numbers: 300, 300.0 and 3e2 are equal. (AWS documents them as different, but event-ruler
 *    finds them equal.) base/pattern_number.h defines which numbers are comparable. Any other number is equal only to
 *    the same digits, is in no range, and matches every `anything-but`.
 *  - Texts are compared character by character, without normalization. base/pattern_case.h defines the letters of
 *    equals-ignore-case.
 *  - Refused are an empty pattern, object or list, a field that is named twice, and a name both with a list and with
 *    fields of its own. An object may be named twice: its fields are merged.
 *  - If the data has a name twice in one object, each of its values is matched by itself.
 *  - A name with a dot is one name, in a pattern and in data.
 *
 * Data that is not JSON: AWS documents for Kinesis that a filter with data properties drops such a record, and that a
 * filter without them compares the metadata alone. So a pattern that names `data` anywhere never matches it, and a
 * pattern that does not name `data` does not read it. Each pattern of a document is treated by itself. Data is not JSON
 * if base/pattern_json.h refuses it; among others if it nests more than KS_PATTERN_DEPTH_MAX levels.
 *
 * `cidr`, an operator of EventBridge, is refused, because AWS does not list it for Lambda. An IP address is a text.
 *
 * Sources: AWS Lambda Developer Guide, "Control which events Lambda sends to your function" and "Using event filtering
 * with a Kinesis event source"; Amazon EventBridge User Guide, "Comparison operators for use in event patterns"; the
 * README of event-ruler 2. `make cross-check-patterns` compares this module with event-ruler.
 */
#ifndef KS_BASE_PATTERN_H
#define KS_BASE_PATTERN_H

#include "base/bytes.h"

enum {
    KS_PATTERN_TEXT_MAX = 64 << 10, /* Bytes of a document. */
    KS_PATTERN_FILTERS_MAX = 5,     /* Lambda's default quota. */
    KS_PATTERN_FIELDS_MAX = 256,    /* Lists of one pattern, those inside $or included. */
    KS_PATTERN_TESTS_MAX = 1024,    /* Entries of all lists of a document. */
    /* Ways to match, of all patterns of a document: a pattern with a $or of 3 and a $or of 4 has 12. A list with
     * {"exists": false} and other entries doubles them. */
    KS_PATTERN_WAYS_MAX = 64,
    KS_PATTERN_NODES_MAX = 2048 /* Names of objects and fields in all these ways. */
};

struct ks_pattern;

struct ks_pattern_record {
    ks_view partition_key;
    ks_view sequence_number;
    int64_t arrival_ms; /* Unix ms; 0 or less: not known. */
    ks_view data;
};

/* Compiles a document.
 * Errors: MALFORMED (not JSON), INVALID (not a pattern), FULL (one of the limits above), NO_MEMORY. Except for
 * NO_MEMORY `ret_detail` then has a sentence: the number of the filter if the document has Filters, the full name of
 * the field or the byte, the error, and what to write instead. NULL is allowed for it.
 * Ownership: the caller frees the pattern with ks_pattern_free(). `text` is not needed afterwards. A pattern takes
 * 217 KiB, and three bytes for each byte of the document. */
KS_MUST_USE ks_err ks_pattern_compile(ks_view text, struct ks_pattern **ret,
                                      struct ks_detail *ret_detail);

/* Frees the pattern. NULL is allowed. */
void ks_pattern_free(struct ks_pattern *pattern);

/* Returns true if the document names `data`. Otherwise ks_pattern_matches() does not read the data of a record. */
bool ks_pattern_reads_data(const struct ks_pattern *pattern);

/* Returns true if the record passes.
 * Allocates nothing and does not fail. The data is read at most once for each way to match. A value costs time in
 * proportion to its bytes plus those of the tests of its field, for each test; a name costs a comparison with each name
 * beside its own in the pattern. So the time is at most the size of the data times the size of the pattern. */
bool ks_pattern_matches(const struct ks_pattern *pattern, const struct ks_pattern_record *record);

/* A record that is matched in parts, so that nothing else waits for all of it. */
struct ks_pattern_match;
/* The memory for one, 3 KiB; the caller frees it with ks_free(). NULL: no memory. */
struct ks_pattern_match *ks_pattern_match_new(void);
/* Begins; what the record views and the pattern must outlive it. What was begun before is forgotten. */
void ks_pattern_match_begin(struct ks_pattern_match *match, const struct ks_pattern *pattern,
                            const struct ks_pattern_record *record);
/* Goes on until about `units` bytes were looked at, one test of one value more at most. Returns true when it is known
 * whether the record passes; it is not called again then. `units` (not NULL) becomes what is left of it. */
bool ks_pattern_match_go_on(struct ks_pattern_match *match, uint64_t *units, bool *ret_passes);

#endif
