/* SPDX-License-Identifier: Apache-2.0 */
#include "base/pattern_json.h"

enum expected {
    EXPECT_VALUE,
    EXPECT_ELEMENT_OR_END, /* After the opening bracket of an array. */
    EXPECT_NAME_OR_END,    /* After the opening brace of an object. */
    EXPECT_AFTER_VALUE
};

void ks_pattern_reader_init(struct ks_pattern_reader *reader, ks_view text)
{
    *reader = (struct ks_pattern_reader){.text = text, .expected = EXPECT_VALUE};
}

static bool peek(const struct ks_pattern_reader *reader, uint8_t *ret_byte)
{
    if (reader->at == reader->text.size)
        return false;
    *ret_byte = reader->text.data[reader->at];
    return true;
}

static bool take(struct ks_pattern_reader *reader, uint8_t wanted)
{
    uint8_t byte;

    if (!peek(reader, &byte) || byte != wanted)
        return false;
    reader->at++;
    return true;
}

static void skip_space(struct ks_pattern_reader *reader)
{
    uint8_t byte;

    while (peek(reader, &byte) && (byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r'))
        reader->at++;
}

static void refuse_text(struct ks_pattern_reader *reader, struct ks_pattern_token *token,
                        const char *wrong)
{
    reader->wrong = wrong;
    *token = (struct ks_pattern_token){.kind = KS_PATTERN_WRONG};
}

/* True if none of eight bytes is a quotation mark, a backslash, a control character or not ASCII. */
static bool are_eight_plain(const uint8_t *data)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    const uint64_t high = ones << 7;
    uint64_t word, quote, slash;

    memcpy(&word, data, sizeof(word));
    quote = word ^ ones * '"';
    slash = word ^ ones * '\\';
    return ((word | (word - ones * 0x20) | (quote - ones) | (slash - ones)) & high) == 0;
}

static int hex_digit(uint8_t byte)
{
    if (byte >= '0' && byte <= '9')
        return byte - '0';
    byte |= 0x20;
    return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

/* The value of "uXXXX" at the start of `text`, or -1. */
static int32_t read_hex4(ks_view text)
{
    int32_t value = 0;

    if (text.size < 5 || text.data[0] != 'u')
        return -1;
    for (size_t i = 1; i < 5; i++) {
        int digit = hex_digit(text.data[i]);
        if (digit < 0)
            return -1;
        value = value << 4 | digit;
    }
    return value;
}

/* Adds nothing to the address of an empty view, which may be NULL. */
static ks_view view_from(ks_view view, size_t start)
{
    if (start == 0)
        return view;
    return ks_view_of(view.data + start, view.size - start);
}

/* Returns the size of the escape at the start of `text`, after its backslash, and its code point; 0 if it is not an
 * escape of JSON. */
static size_t read_escape(ks_view text, int32_t *ret_point)
{
    static const char escapes[] = "\"\\/bfnrt";
    static const char meant[] = "\"\\/\b\f\n\r\t";
    int32_t high = read_hex4(text);
    int32_t low;
    const char *found;

    if (high >= 0 && (high < 0xD800 || high > 0xDFFF)) {
        *ret_point = high;
        return 5;
    }
    if (high >= 0xD800 && high < 0xDC00 && text.size >= 11 && text.data[5] == '\\') {
        low = read_hex4(view_from(text, 6));
        if (low < 0xDC00 || low > 0xDFFF)
            return 0;
        *ret_point = 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
        return 11;
    }
    if (text.size == 0 || text.data[0] == '\0')
        return 0;
    found = strchr(escapes, text.data[0]);
    if (found == NULL)
        return 0;
    *ret_point = meant[found - escapes];
    return 1;
}

/* Reads a string after its first quotation mark. */
static bool read_string(struct ks_pattern_reader *reader, struct ks_pattern_token *token)
{
    ks_view text = reader->text;
    size_t start = reader->at;
    size_t at = start;
    bool ascii = true;
    int32_t point;

    token->escaped = false;
    for (;;) {
        while (text.size - at >= 8 && are_eight_plain(text.data + at))
            at += 8;
        if (at == text.size || text.data[at] < 0x20)
            break;
        if (text.data[at] == '"') {
            token->text = ks_view_of(text.data + start, at - start);
            reader->at = at + 1;
            return ascii || ks_view_is_unicode(token->text);
        }
        if (text.data[at] == '\\') {
            size_t size = read_escape(view_from(text, at + 1), &point);
            if (size == 0)
                break;
            token->escaped = true;
            at += size;
        }
        ascii = ascii && text.data[at] < 0x80;
        at++;
    }
    reader->at = at;
    return false;
}

static bool skip_digits(struct ks_pattern_reader *reader)
{
    size_t start = reader->at;
    uint8_t byte;

    while (peek(reader, &byte) && byte >= '0' && byte <= '9')
        reader->at++;
    return reader->at > start;
}

/* -? (0 | 1-9 digits) (. digits)? (e sign? digits)?   RFC 8259, section 6. */
static bool skip_number(struct ks_pattern_reader *reader)
{
    (void)take(reader, '-');
    if (!take(reader, '0') && !skip_digits(reader))
        return false;
    if (take(reader, '.') && !skip_digits(reader))
        return false;
    if (take(reader, 'e') || take(reader, 'E')) {
        if (!take(reader, '+'))
            (void)take(reader, '-');
        return skip_digits(reader);
    }
    return true;
}

static bool take_word(struct ks_pattern_reader *reader, struct ks_pattern_token *token)
{
    static const struct {
        ks_view text;
        enum ks_pattern_token_kind kind;
    } words[] = {{{(const uint8_t *)"true", 4}, KS_PATTERN_TRUE},
                 {{(const uint8_t *)"false", 5}, KS_PATTERN_FALSE},
                 {{(const uint8_t *)"null", 4}, KS_PATTERN_NULL}};
    ks_view rest = view_from(reader->text, reader->at);

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (ks_view_starts(rest, words[i].text)) {
            reader->at += words[i].text.size;
            *token = (struct ks_pattern_token){.kind = words[i].kind, .text = words[i].text};
            return true;
        }
    }
    return false;
}

static void open_bracket(struct ks_pattern_reader *reader, struct ks_pattern_token *token,
                         bool array)
{
    if (reader->depth == KS_PATTERN_DEPTH_MAX) {
        refuse_text(reader, token, "more than 64 brackets are open");
        return;
    }
    reader->at++;
    reader->depth++;
    reader->arrays = reader->arrays << 1 | array;
    reader->expected = array ? EXPECT_ELEMENT_OR_END : EXPECT_NAME_OR_END;
    *token = (struct ks_pattern_token){.kind = array ? KS_PATTERN_ARRAY : KS_PATTERN_OBJECT};
}

static void read_value(struct ks_pattern_reader *reader, struct ks_pattern_token *token)
{
    size_t start = reader->at;
    uint8_t byte = 0;

    (void)peek(reader, &byte);
    if (byte == '{' || byte == '[') {
        open_bracket(reader, token, byte == '[');
        return;
    }
    reader->expected = EXPECT_AFTER_VALUE;
    if (byte == '"') {
        reader->at++;
        token->kind = KS_PATTERN_STRING;
        if (!read_string(reader, token))
            refuse_text(reader, token, "a string that is not valid, or does not end");
        return;
    }
    if (take_word(reader, token))
        return;
    if (!skip_number(reader)) {
        refuse_text(reader, token, "expected a value");
        return;
    }
    *token = (struct ks_pattern_token){
        .kind = KS_PATTERN_NUMBER,
        .text = ks_view_of(reader->text.data + start, reader->at - start)};
}

static void read_name(struct ks_pattern_reader *reader, struct ks_pattern_token *token)
{
    token->kind = KS_PATTERN_NAME;
    if (!take(reader, '"') || !read_string(reader, token)) {
        refuse_text(reader, token, "expected a name in quotation marks");
        return;
    }
    skip_space(reader);
    if (!take(reader, ':')) {
        refuse_text(reader, token, "expected a colon");
        return;
    }
    reader->expected = EXPECT_VALUE;
}

static void close_bracket(struct ks_pattern_reader *reader, struct ks_pattern_token *token)
{
    bool array = (reader->arrays & 1) != 0;

    if (!take(reader, array ? ']' : '}')) {
        refuse_text(reader, token,
                    array ? "expected a comma or the end of the array"
                          : "expected a comma or the end of the object");
        return;
    }
    reader->depth--;
    reader->arrays >>= 1;
    reader->expected = EXPECT_AFTER_VALUE;
    *token =
        (struct ks_pattern_token){.kind = array ? KS_PATTERN_ARRAY_END : KS_PATTERN_OBJECT_END};
}

static void read_after_value(struct ks_pattern_reader *reader, struct ks_pattern_token *token)
{
    if (reader->depth == 0) {
        if (reader->at == reader->text.size)
            *token = (struct ks_pattern_token){.kind = KS_PATTERN_END};
        else
            refuse_text(reader, token, "something follows the value");
        return;
    }
    if (!take(reader, ',')) {
        close_bracket(reader, token);
        return;
    }
    skip_space(reader);
    if ((reader->arrays & 1) != 0)
        read_value(reader, token);
    else
        read_name(reader, token);
}

void ks_pattern_reader_next(struct ks_pattern_reader *reader, struct ks_pattern_token *ret_token)
{
    uint8_t byte = 0;

    skip_space(reader);
    (void)peek(reader, &byte);
    switch ((enum expected)reader->expected) {
    case EXPECT_VALUE: read_value(reader, ret_token); return;
    case EXPECT_AFTER_VALUE: read_after_value(reader, ret_token); return;
    case EXPECT_ELEMENT_OR_END:
        if (byte == ']')
            close_bracket(reader, ret_token);
        else
            read_value(reader, ret_token);
        return;
    case EXPECT_NAME_OR_END:
        if (byte == '}')
            close_bracket(reader, ret_token);
        else
            read_name(reader, ret_token);
        return;
    }
}

void ks_pattern_text_init(struct ks_pattern_text *reader, ks_view text, bool escaped)
{
    *reader = (struct ks_pattern_text){.rest = text, .escaped = escaped};
}

/* Writes the character as UTF-8 into `pending`. */
static void set_pending(struct ks_pattern_text *reader, int32_t point)
{
    static const uint8_t leads[] = {0, 0x00, 0xC0, 0xE0, 0xF0};
    uint8_t size = (uint8_t)(point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4);

    for (uint8_t i = size; i > 1; i--) {
        reader->pending[i - 1] = (uint8_t)(0x80 | (point & 0x3F));
        point >>= 6;
    }
    reader->pending[0] = (uint8_t)(leads[size] | point);
    reader->first = 0;
    reader->last = size;
}

int ks_pattern_text_byte(struct ks_pattern_text *reader)
{
    int32_t point = 0;
    uint8_t byte;

    if (reader->first < reader->last)
        return reader->pending[reader->first++];
    if (reader->rest.size == 0)
        return -1;
    byte = reader->rest.data[0];
    reader->rest = view_from(reader->rest, 1);
    if (byte != '\\' || !reader->escaped)
        return byte;
    reader->rest = view_from(reader->rest, read_escape(reader->rest, &point));
    set_pending(reader, point);
    return reader->pending[reader->first++];
}

int32_t ks_pattern_text_point(struct ks_pattern_text *reader)
{
    int byte = ks_pattern_text_byte(reader);
    int32_t point;
    size_t size;

    if (byte < 0x80)
        return byte;
    /* A character that is escaped is whole in `pending`; one that is not is whole in `rest`. */
    if (reader->first < reader->last) {
        point = byte & (byte >= 0xF0 ? 0x07 : byte >= 0xE0 ? 0x0F : 0x1F);
        while (reader->first < reader->last)
            point = point << 6 | (reader->pending[reader->first++] & 0x3F);
        return point;
    }
    size = ks_view_character(ks_view_of(reader->rest.data - 1, reader->rest.size + 1));
    if (size == 0)
        return 0x110000 + byte;
    point = byte & (size == 4 ? 0x07 : size == 3 ? 0x0F : 0x1F);
    for (size_t i = 0; i + 1 < size; i++)
        point = point << 6 | (reader->rest.data[i] & 0x3F);
    reader->rest = view_from(reader->rest, size - 1);
    return point;
}
