/* SPDX-License-Identifier: Apache-2.0 */
#include "base/pattern_parts.h"

#include <stdarg.h>
#include <stdio.h>

enum { PLACE_SIZE = 128, SENTENCE_SIZE = KS_DETAIL_SIZE };

/* Refusals. */

static size_t add_part(char *place, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Appends to `place` and returns its new size; a part that does not fit is cut. */
static size_t add_part(char *place, size_t size, const char *format, ...)
{
    va_list args;
    int written;

    va_start(args, format);
    written = vsnprintf(place + size, PLACE_SIZE - size, format, args);
    va_end(args);
    size += written > 0 ? (size_t)written : 0;
    return size < PLACE_SIZE ? size : PLACE_SIZE - 1;
}

/* `data.order.$or[1].type: ` */
static void name_place(const struct ks_pattern_parser *parser, uint16_t item,
                       char ret_place[PLACE_SIZE])
{
    static const char cut[] = "..: ";
    const struct ks_pattern_item *chain[KS_PATTERN_DEPTH_MAX + 2];
    size_t count = 0;
    size_t size = 0;

    ret_place[0] = '\0';
    if (parser->filter != 0)
        size = add_part(ret_place, size, "filter %u: ", parser->filter);
    for (; item != KS_PATTERN_NONE && count < KS_PATTERN_DEPTH_MAX + 2;
         item = parser->items[item].parent) {
        if (parser->items[item].named || parser->items[item].kind == KS_PATTERN_ITEM_ALTERNATIVE)
            chain[count++] = &parser->items[item];
    }
    for (size_t i = count; i > 0; i--) {
        const char *after = i == 1 ? ": " : ".";
        if (chain[i - 1]->named)
            size = add_part(ret_place, size, "%.*s%s", (int)chain[i - 1]->name.size,
                            (const char *)chain[i - 1]->name.data, after);
        else
            size = add_part(ret_place, size, "$or[%u]%s", chain[i - 1]->number, after);
    }
    if (size == PLACE_SIZE - 1)
        memcpy(ret_place + PLACE_SIZE - sizeof(cut), cut, sizeof(cut));
}

ks_err ks_pattern_refuse(const struct ks_pattern_parser *parser, ks_err err, uint16_t item,
                         const char *format, ...)
{
    char place[PLACE_SIZE];
    char sentence[SENTENCE_SIZE];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(sentence, sizeof(sentence), format, args);
    va_end(args);
    name_place(parser, item, place);
    return ks_err_because(err, parser->detail, "%s%s", place, sentence);
}

static ks_err refuse(const struct ks_pattern_parser *parser, const char *sentence)
{
    return ks_pattern_refuse(parser, KS_FAIL(INVALID), parser->open, "%s", sentence);
}

/* Tokens. */

static ks_err next(struct ks_pattern_parser *parser, struct ks_pattern_token *token)
{
    ks_pattern_reader_next(&parser->reader, token);
    if (token->kind == KS_PATTERN_WRONG)
        return ks_pattern_refuse(parser, KS_FAIL(MALFORMED), KS_PATTERN_NONE,
                                 "not JSON at byte %zu: %s", parser->reader.at,
                                 parser->reader.wrong);
    return KS_OK;
}

/* Takes the next token, which must be of this kind. */
static ks_err expect(struct ks_pattern_parser *parser, enum ks_pattern_token_kind kind,
                     struct ks_pattern_token *token, const char *otherwise)
{
    KS_TRY(next(parser, token));
    return token->kind == kind ? KS_OK : refuse(parser, otherwise);
}

static bool is_word(const struct ks_pattern_token *token, const char *word)
{
    return ks_pattern_text_equal(token->text, token->escaped, ks_view_text(word));
}

ks_err ks_pattern_keep_text(struct ks_pattern *pattern, const struct ks_pattern_token *token,
                            ks_view *ret_text)
{
    struct ks_pattern_text reader;
    size_t start = pattern->texts.size;
    int byte;

    ks_pattern_text_init(&reader, token->text, token->escaped);
    while ((byte = ks_pattern_text_byte(&reader)) != -1)
        KS_TRY(ks_bytes_append_byte(&pattern->texts, (uint8_t)byte));
    *ret_text = ks_view_of(pattern->texts.data + start, pattern->texts.size - start);
    return KS_OK;
}

/* Tests. */

static ks_err add_test(struct ks_pattern_parser *parser, enum ks_pattern_test_kind kind,
                       struct ks_pattern_test **ret_test)
{
    struct ks_pattern *pattern = parser->pattern;

    if (pattern->test_count == KS_PATTERN_TESTS_MAX)
        return ks_pattern_refuse(parser, KS_FAIL(FULL), parser->open,
                                 "the lists of a document have at most %d entries",
                                 KS_PATTERN_TESTS_MAX);
    *ret_test = &pattern->tests[pattern->test_count++];
    **ret_test = (struct ks_pattern_test){.kind = kind};
    return KS_OK;
}

static ks_err add_text_test(struct ks_pattern_parser *parser, enum ks_pattern_test_kind kind,
                            const struct ks_pattern_token *token)
{
    struct ks_pattern_test *test;

    KS_TRY(add_test(parser, kind, &test));
    return ks_pattern_keep_text(parser->pattern, token, &test->text);
}

static ks_err read_number(const struct ks_pattern_parser *parser,
                          const struct ks_pattern_token *token,
                          struct ks_pattern_number *ret_number)
{
    *ret_number = ks_pattern_number_read(token->text);
    if (ret_number->comparable)
        return KS_OK;
    return refuse(parser, "a number that a double does not represent has no order; write at most "
                          "15 digits, or list it as a plain value");
}

static ks_err add_number_test(struct ks_pattern_parser *parser,
                              const struct ks_pattern_token *token)
{
    struct ks_pattern_test *test;

    KS_TRY(add_text_test(parser, KS_PATTERN_IS_NUMBER, token));
    test = &parser->pattern->tests[parser->pattern->test_count - 1];
    test->low = ks_pattern_number_read(token->text);
    return KS_OK;
}

/* Wildcards; a prefix and a suffix are such ones. */

static ks_err add_piece(struct ks_pattern_parser *parser, struct ks_pattern_test *test,
                        ks_view text)
{
    struct ks_pattern *pattern = parser->pattern;
    struct ks_pattern_piece *piece = &pattern->pieces[pattern->piece_count];

    if (pattern->piece_count == KS_PATTERN_PIECES_MAX)
        return ks_pattern_refuse(parser, KS_FAIL(FULL), parser->open,
                                 "the wildcards of a document have at most %d asterisks",
                                 KS_PATTERN_PIECES_MAX / 2);
    pattern->piece_count++;
    *piece = (struct ks_pattern_piece){.text = text};
    if (test->piece_count == 0)
        test->pieces = piece;
    test->piece_count++;
    if (test->piece_count > 1) {
        uint16_t *borders = pattern->borders + (text.data - pattern->texts.data);
        ks_pattern_fill_borders(text, borders);
        piece->borders = borders;
    }
    return KS_OK;
}

static ks_err add_affix_test(struct ks_pattern_parser *parser, const struct ks_pattern_token *token,
                             bool prefix)
{
    struct ks_pattern_test *test;
    ks_view text, end;

    KS_TRY(add_text_test(parser, KS_PATTERN_IS_LIKE, token));
    test = &parser->pattern->tests[parser->pattern->test_count - 1];
    text = test->text;
    end = ks_view_of(text.data + text.size, 0);
    KS_TRY(add_piece(parser, test, prefix ? text : end));
    return add_piece(parser, test, prefix ? end : text);
}

/* Cuts the text of the test at its asterisks, and moves its bytes to where they are without escapes. */
static ks_err cut_wildcard(struct ks_pattern_parser *parser, struct ks_pattern_test *test)
{
    uint8_t *bytes = parser->pattern->texts.data + (test->text.data - parser->pattern->texts.data);
    size_t start = 0;
    size_t size = 0;

    for (size_t i = 0; i < test->text.size; i++) {
        bool more = i + 1 < test->text.size;
        if (bytes[i] == '*') {
            if (more && bytes[i + 1] == '*')
                return refuse(parser, "a wildcard has one * where it has **");
            KS_TRY(add_piece(parser, test, ks_view_of(bytes + start, size - start)));
            start = size;
            continue;
        }
        if (bytes[i] == '\\') {
            if (!more || (bytes[i + 1] != '*' && bytes[i + 1] != '\\'))
                return refuse(parser, "in a wildcard a backslash is only before * or a backslash; "
                                      "write \\\\\\\\ in JSON for one backslash");
            i++;
        }
        bytes[size++] = bytes[i];
    }
    if (start == 0 && test->piece_count == 0) {
        test->kind = KS_PATTERN_IS_TEXT;
        test->text.size = size;
        return KS_OK;
    }
    return add_piece(parser, test, ks_view_of(bytes + start, size - start));
}

static ks_err add_wildcard_test(struct ks_pattern_parser *parser,
                                const struct ks_pattern_token *token)
{
    KS_TRY(add_text_test(parser, KS_PATTERN_IS_LIKE, token));
    return cut_wildcard(parser, &parser->pattern->tests[parser->pattern->test_count - 1]);
}

/* Operators. Each function reads the value after the name of the operator. */

static ks_err parse_exactly(struct ks_pattern_parser *parser, struct ks_pattern_token *token)
{
    KS_TRY(expect(parser, KS_PATTERN_STRING, token,
                  "exactly wants a string: {\"exactly\": \"text\"}"));
    return add_text_test(parser, KS_PATTERN_IS_TEXT, token);
}

static ks_err parse_nocase(struct ks_pattern_parser *parser, struct ks_pattern_token *token)
{
    KS_TRY(expect(parser, KS_PATTERN_STRING, token,
                  "equals-ignore-case wants a string: {\"equals-ignore-case\": \"text\"}"));
    return add_text_test(parser, KS_PATTERN_IS_TEXT_NOCASE, token);
}

static ks_err parse_wildcard(struct ks_pattern_parser *parser, struct ks_pattern_token *token)
{
    KS_TRY(expect(parser, KS_PATTERN_STRING, token,
                  "wildcard wants a string: {\"wildcard\": \"a*\"}"));
    return add_wildcard_test(parser, token);
}

static ks_err parse_affix(struct ks_pattern_parser *parser, struct ks_pattern_token *token,
                          bool prefix)
{
    static const char wanted[] = "prefix and suffix want a string, or {\"equals-ignore-case\": "
                                 "\"text\"}";

    KS_TRY(next(parser, token));
    if (token->kind == KS_PATTERN_STRING)
        return add_affix_test(parser, token, prefix);
    if (token->kind != KS_PATTERN_OBJECT)
        return refuse(parser, wanted);
    KS_TRY(expect(parser, KS_PATTERN_NAME, token, wanted));
    if (!is_word(token, "equals-ignore-case"))
        return refuse(parser, wanted);
    KS_TRY(expect(parser, KS_PATTERN_STRING, token, wanted));
    KS_TRY(
        add_text_test(parser, prefix ? KS_PATTERN_STARTS_NOCASE : KS_PATTERN_ENDS_NOCASE, token));
    return expect(parser, KS_PATTERN_OBJECT_END, token, wanted);
}

static ks_err parse_prefix(struct ks_pattern_parser *parser, struct ks_pattern_token *token)
{
    return parse_affix(parser, token, true);
}

static ks_err parse_suffix(struct ks_pattern_parser *parser, struct ks_pattern_token *token)
{
    return parse_affix(parser, token, false);
}

static const char numeric_wanted[] = "numeric wants an operator and a number, as in [\">\", 0], "
                                     "[\"=\", 5] or [\">\", 0, \"<=\", 5]";

/* Reads the upper end of a range, after its operator. */
static ks_err parse_high(struct ks_pattern_parser *parser, struct ks_pattern_token *token,
                         struct ks_pattern_test *test)
{
    if (!is_word(token, "<") && !is_word(token, "<="))
        return refuse(parser, numeric_wanted);
    test->has_high = true;
    test->without_high = is_word(token, "<");
    KS_TRY(expect(parser, KS_PATTERN_NUMBER, token, numeric_wanted));
    return read_number(parser, token, &test->high);
}

/* Reads a lower end, or the one number that is equal, after its operator. */
static ks_err parse_low(struct ks_pattern_parser *parser, struct ks_pattern_token *token,
                        struct ks_pattern_test *test)
{
    if (!is_word(token, "=") && !is_word(token, ">") && !is_word(token, ">="))
        return refuse(parser, numeric_wanted);
    test->has_low = true;
    test->without_low = is_word(token, ">");
    test->has_high = is_word(token, "=");
    KS_TRY(expect(parser, KS_PATTERN_NUMBER, token, numeric_wanted));
    KS_TRY(read_number(parser, token, &test->low));
    test->high = test->low;
    return KS_OK;
}

static ks_err parse_numeric(struct ks_pattern_parser *parser, struct ks_pattern_token *token)
{
    struct ks_pattern_test *test;

    KS_TRY(add_test(parser, KS_PATTERN_IN_RANGE, &test));
    KS_TRY(expect(parser, KS_PATTERN_ARRAY, token, numeric_wanted));
    KS_TRY(expect(parser, KS_PATTERN_STRING, token, numeric_wanted));
    if (is_word(token, "<") || is_word(token, "<=")) {
        KS_TRY(parse_high(parser, token, test));
        return expect(parser, KS_PATTERN_ARRAY_END, token, numeric_wanted);
    }
    KS_TRY(parse_low(parser, token, test));
    KS_TRY(next(parser, token));
    if (token->kind == KS_PATTERN_ARRAY_END)
        return KS_OK;
    if (token->kind != KS_PATTERN_STRING || test->has_high)
        return refuse(parser, numeric_wanted);
    KS_TRY(parse_high(parser, token, test));
    if (ks_pattern_number_compare(&test->low, &test->high) >= 0)
        return refuse(parser, "the lower end of a numeric range must be less than its upper end");
    return expect(parser, KS_PATTERN_ARRAY_END, token, numeric_wanted);
}

/* Anything-but. */

static const char but_wanted[] =
    "anything-but wants a string, a number, a list of either, or one of "
    "prefix, suffix, equals-ignore-case and wildcard with a string or a list of strings";

static ks_err add_but_plain(struct ks_pattern_parser *parser, const struct ks_pattern_token *token)
{
    struct ks_pattern_number number;

    if (token->kind == KS_PATTERN_STRING)
        return add_text_test(parser, KS_PATTERN_IS_TEXT, token);
    KS_TRY(read_number(parser, token, &number));
    return add_number_test(parser, token);
}

static ks_err add_but_prefix(struct ks_pattern_parser *parser, const struct ks_pattern_token *token)
{
    if (token->text.size == 0)
        return refuse(parser, "anything-but with an empty prefix or suffix matches no string");
    return add_affix_test(parser, token, true);
}

static ks_err add_but_suffix(struct ks_pattern_parser *parser, const struct ks_pattern_token *token)
{
    if (token->text.size == 0)
        return refuse(parser, "anything-but with an empty prefix or suffix matches no string");
    return add_affix_test(parser, token, false);
}

static ks_err add_but_nocase(struct ks_pattern_parser *parser, const struct ks_pattern_token *token)
{
    return add_text_test(parser, KS_PATTERN_IS_TEXT_NOCASE, token);
}

typedef ks_err (*add_but)(struct ks_pattern_parser *parser, const struct ks_pattern_token *token);

/* Adds the token's value, or those of the list that it begins; all are of one kind. */
static ks_err add_buts(struct ks_pattern_parser *parser, struct ks_pattern_token *token,
                       add_but add)
{
    bool list = token->kind == KS_PATTERN_ARRAY;
    enum ks_pattern_token_kind kind;

    if (list)
        KS_TRY(next(parser, token));
    kind = token->kind;
    if (kind != KS_PATTERN_STRING && (kind != KS_PATTERN_NUMBER || add != add_but_plain))
        return refuse(parser, but_wanted);
    KS_TRY(add(parser, token));
    if (!list)
        return KS_OK;
    for (;;) {
        KS_TRY(next(parser, token));
        if (token->kind == KS_PATTERN_ARRAY_END)
            return KS_OK;
        if (token->kind != kind)
            return refuse(parser, "a list of anything-but has strings only, or numbers only");
        KS_TRY(add(parser, token));
    }
}

static ks_err parse_anything_but(struct ks_pattern_parser *parser, struct ks_pattern_token *token)
{
    static const struct {
        const char *name;
        add_but add;
    } inner[] = {{"prefix", add_but_prefix},
                 {"suffix", add_but_suffix},
                 {"equals-ignore-case", add_but_nocase},
                 {"wildcard", add_wildcard_test}};
    add_but add = add_but_plain;
    struct ks_pattern_test *test;
    uint16_t first;

    KS_TRY(add_test(parser, KS_PATTERN_IS_NONE_OF, &test));
    first = parser->pattern->test_count;
    KS_TRY(next(parser, token));
    if (token->kind == KS_PATTERN_OBJECT) {
        KS_TRY(expect(parser, KS_PATTERN_NAME, token, but_wanted));
        for (size_t i = 0; i < sizeof(inner) / sizeof(inner[0]); i++)
            add = is_word(token, inner[i].name) ? inner[i].add : add;
        if (add == add_but_plain)
            return refuse(parser, but_wanted);
        KS_TRY(next(parser, token));
    }
    KS_TRY(add_buts(parser, token, add));
    test->count = (uint32_t)(parser->pattern->test_count - first);
    return add == add_but_plain ? KS_OK : expect(parser, KS_PATTERN_OBJECT_END, token, but_wanted);
}

static const struct {
    const char *name;
    ks_err (*parse)(struct ks_pattern_parser *parser, struct ks_pattern_token *token);
} operators[] = {
    {"prefix", parse_prefix},     {"suffix", parse_suffix},   {"equals-ignore-case", parse_nocase},
    {"wildcard", parse_wildcard}, {"numeric", parse_numeric}, {"anything-but", parse_anything_but},
    {"exactly", parse_exactly}};
enum { OPERATORS = sizeof(operators) / sizeof(operators[0]) };

/* {"exists": false} is not a test of a value, but of its absence. */
static ks_err parse_exists(struct ks_pattern_parser *parser, struct ks_pattern_token *token,
                           bool *absent)
{
    struct ks_pattern_test *test;

    KS_TRY(next(parser, token));
    if (token->kind == KS_PATTERN_FALSE) {
        *absent = true;
        return KS_OK;
    }
    if (token->kind != KS_PATTERN_TRUE)
        return refuse(parser, "exists wants true or false");
    return add_test(parser, KS_PATTERN_IS_PRESENT, &test);
}

static ks_err parse_operator(struct ks_pattern_parser *parser, struct ks_pattern_token *token,
                             bool *absent)
{
    KS_TRY(expect(parser, KS_PATTERN_NAME, token,
                  "an object in a list is one operator, such as "
                  "{\"prefix\": \"a\"}"));
    if (is_word(token, "exists"))
        return parse_exists(parser, token, absent);
    for (size_t i = 0; i < OPERATORS; i++) {
        if (is_word(token, operators[i].name))
            return operators[i].parse(parser, token);
    }
    if (is_word(token, "cidr"))
        return refuse(parser, "cidr is not an operator of Lambda; use prefix or wildcard");
    return refuse(parser, "not an operator; use one of prefix, suffix, equals-ignore-case, "
                          "wildcard, numeric, exists, anything-but, exactly");
}

/* Adds the test of one entry of a list, which `token` begins. */
static ks_err parse_entry(struct ks_pattern_parser *parser, struct ks_pattern_token *token,
                          bool *absent)
{
    struct ks_pattern_test *test;

    switch ((int)token->kind) {
    case KS_PATTERN_STRING: return add_text_test(parser, KS_PATTERN_IS_TEXT, token);
    case KS_PATTERN_NUMBER: return add_number_test(parser, token);
    case KS_PATTERN_TRUE:
    case KS_PATTERN_FALSE:
    case KS_PATTERN_NULL:
        KS_TRY(add_test(parser, KS_PATTERN_IS_WORD, &test));
        test->word = token->kind;
        return KS_OK;
    case KS_PATTERN_OBJECT:
        KS_TRY(parse_operator(parser, token, absent));
        return expect(parser, KS_PATTERN_OBJECT_END, token,
                      "an object in a list has one operator; write two objects");
    default: return refuse(parser, "a list has no lists in it; write its entries side by side");
    }
}

/* Items. */

static ks_err add_item(struct ks_pattern_parser *parser, enum ks_pattern_item_kind kind,
                       struct ks_pattern_item **ret_item)
{
    uint16_t parent = parser->open;

    if (parser->item_count == KS_PATTERN_ITEMS_MAX)
        return ks_pattern_refuse(parser, KS_FAIL(FULL), parser->open,
                                 "a pattern has at most %d objects and fields",
                                 KS_PATTERN_ITEMS_MAX);
    parser->open = parser->item_count++;
    *ret_item = &parser->items[parser->open];
    **ret_item = (struct ks_pattern_item){.kind = kind, .parent = parent};
    return KS_OK;
}

static void close_item(struct ks_pattern_parser *parser)
{
    struct ks_pattern_item *item = &parser->items[parser->open];

    item->end = parser->item_count;
    parser->open = item->parent;
}

/* Makes a choice of the open field, which is the last item: one alternative is its absence, one its values. */
static ks_err split_field(struct ks_pattern_parser *parser)
{
    struct ks_pattern_item field = parser->items[parser->open];
    struct ks_pattern_item *item = &parser->items[parser->open];

    *item = (struct ks_pattern_item){
        .kind = KS_PATTERN_ITEM_CHOICE, .parent = field.parent, .number = 2};
    for (uint16_t i = 0; i < 2; i++) {
        KS_TRY(add_item(parser, KS_PATTERN_ITEM_ALTERNATIVE, &item));
        item->number = i;
        field.kind = i == 0 ? KS_PATTERN_ITEM_ABSENT : KS_PATTERN_ITEM_VALUES;
        field.parent = parser->open;
        KS_TRY(add_item(parser, field.kind, &item));
        *item = field;
        close_item(parser);
        close_item(parser);
    }
    return KS_OK;
}

/* Parses the list of a field, after its bracket. */
static ks_err parse_list(struct ks_pattern_parser *parser)
{
    struct ks_pattern_item *field = &parser->items[parser->open];
    struct ks_pattern_token token;
    bool absent = false;

    if (++parser->fields > KS_PATTERN_FIELDS_MAX)
        return ks_pattern_refuse(parser, KS_FAIL(FULL), parser->open,
                                 "a pattern has at most %d fields", KS_PATTERN_FIELDS_MAX);
    field->kind = KS_PATTERN_ITEM_VALUES;
    field->first_test = parser->pattern->test_count;
    KS_TRY(next(parser, &token));
    if (token.kind == KS_PATTERN_ARRAY_END)
        return refuse(parser, "an empty list matches nothing; write a value or an operator");
    for (; token.kind != KS_PATTERN_ARRAY_END;) {
        KS_TRY(parse_entry(parser, &token, &absent));
        KS_TRY(next(parser, &token));
    }
    field->test_count = (uint16_t)(parser->pattern->test_count - field->first_test);
    if (absent && field->test_count > 0)
        KS_TRY(split_field(parser));
    else if (absent)
        field->kind = KS_PATTERN_ITEM_ABSENT;
    close_item(parser);
    return KS_OK;
}

/* True if the open item is the record itself, or a choice of its fields. */
static bool is_at_top(const struct ks_pattern_parser *parser)
{
    for (uint16_t item = parser->open; item != KS_PATTERN_NONE; item = parser->items[item].parent) {
        if (parser->items[item].named)
            return false;
    }
    return true;
}

/* Checks the name of the open item, a field of the record. */
static ks_err check_top_name(const struct ks_pattern_parser *parser, bool object)
{
    static const char *const fields[] = {"partitionKey", "sequenceNumber", "kinesisSchemaVersion",
                                         "approximateArrivalTimestamp"};
    static const char *const constant[] = {"eventSource",       "eventVersion", "eventName",
                                           "invokeIdentityArn", "awsRegion",    "eventSourceARN"};
    ks_view name = parser->items[parser->open].name;

    if (ks_view_equal(name, KS_VIEW("data")))
        return KS_OK;
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        if (ks_view_equal(name, ks_view_text(fields[i])))
            return object ? refuse(parser, "this field of a record has no fields; write a list")
                          : KS_OK;
    }
    for (size_t i = 0; i < sizeof(constant) / sizeof(constant[0]); i++) {
        if (ks_view_equal(name, ks_view_text(constant[i])))
            return refuse(parser, "it is the same for all records of a stream; leave it out");
    }
    if (ks_view_equal(name, KS_VIEW("kinesis")))
        return refuse(parser, "leave it out, and write partitionKey and data at the top");
    return refuse(parser, "not a field of a record; use data, partitionKey, sequenceNumber, "
                          "approximateArrivalTimestamp or kinesisSchemaVersion");
}

/* Refuses an operator as the name of a field inside $or: it is a missing bracket. */
static ks_err check_alternative_name(const struct ks_pattern_parser *parser)
{
    ks_view name = parser->items[parser->open].name;
    bool wrong = ks_view_equal(name, KS_VIEW("exists")) || ks_view_equal(name, KS_VIEW("cidr"));

    for (size_t i = 0; i < OPERATORS; i++)
        wrong = wrong || ks_view_equal(name, ks_view_text(operators[i].name));
    for (uint16_t item = parser->open; wrong && item != KS_PATTERN_NONE;
         item = parser->items[item].parent) {
        if (parser->items[item].kind == KS_PATTERN_ITEM_ALTERNATIVE)
            return refuse(parser, "inside $or an operator is not the name of a field; write "
                                  "{\"field\": [{\"operator\": ..}]}");
    }
    return KS_OK;
}

/* Parses a member of an object, after its name. */
static ks_err parse_member(struct ks_pattern_parser *parser, const struct ks_pattern_token *name)
{
    bool top = is_at_top(parser);
    struct ks_pattern_token token;
    struct ks_pattern_item *item;

    if (is_word(name, "$or")) {
        KS_TRY(add_item(parser, KS_PATTERN_ITEM_CHOICE, &item));
        return expect(parser, KS_PATTERN_ARRAY, &token,
                      "$or wants a list of objects: \"$or\": [{..}, {..}]");
    }
    KS_TRY(add_item(parser, KS_PATTERN_ITEM_OBJECT, &item));
    KS_TRY(ks_pattern_keep_text(parser->pattern, name, &item->name));
    item->named = true;
    KS_TRY(next(parser, &token));
    if (top)
        KS_TRY(check_top_name(parser, token.kind == KS_PATTERN_OBJECT));
    KS_TRY(check_alternative_name(parser));
    if (token.kind == KS_PATTERN_ARRAY)
        return parse_list(parser);
    if (token.kind != KS_PATTERN_OBJECT)
        return refuse(parser, "a field wants a list or an object; write [value]");
    return KS_OK;
}

/* Reads the next member or the end of the open object. */
static ks_err continue_object(struct ks_pattern_parser *parser)
{
    struct ks_pattern_token token;

    KS_TRY(next(parser, &token));
    if (token.kind == KS_PATTERN_NAME)
        return parse_member(parser, &token);
    if (parser->item_count == parser->open + 1)
        return refuse(parser, "an empty object matches nothing; write a field, or leave it out");
    close_item(parser);
    return KS_OK;
}

/* Reads the next object or the end of the open $or. */
static ks_err continue_choice(struct ks_pattern_parser *parser)
{
    struct ks_pattern_item *choice = &parser->items[parser->open];
    struct ks_pattern_token token;
    struct ks_pattern_item *item;

    KS_TRY(next(parser, &token));
    if (token.kind == KS_PATTERN_OBJECT) {
        KS_TRY(add_item(parser, KS_PATTERN_ITEM_ALTERNATIVE, &item));
        item->number = choice->number++;
        return KS_OK;
    }
    if (token.kind != KS_PATTERN_ARRAY_END)
        return refuse(parser, "$or wants a list of objects: \"$or\": [{..}, {..}]");
    if (choice->number < 2)
        return refuse(parser, "$or wants at least two objects");
    close_item(parser);
    return KS_OK;
}

ks_err ks_pattern_parse(struct ks_pattern_parser *parser, ks_view text)
{
    struct ks_pattern_token token;
    struct ks_pattern_item *item;

    ks_pattern_reader_init(&parser->reader, text);
    parser->item_count = 0;
    parser->fields = 0;
    parser->open = KS_PATTERN_NONE;
    KS_TRY(expect(parser, KS_PATTERN_OBJECT, &token,
                  "a pattern is an object: {\"data\": {\"field\": [\"value\"]}}"));
    KS_TRY(add_item(parser, KS_PATTERN_ITEM_OBJECT, &item));
    while (parser->open != KS_PATTERN_NONE) {
        if (parser->items[parser->open].kind == KS_PATTERN_ITEM_CHOICE)
            KS_TRY(continue_choice(parser));
        else
            KS_TRY(continue_object(parser));
    }
    return next(parser, &token);
}
