/* SPDX-License-Identifier: Apache-2.0 */
#include "base/flat_json.h"

#include <assert.h>

struct reader {
    ks_view rest;
    unsigned line;
    struct ks_detail *detail;
};

struct text {
    char bytes[KS_FLAT_JSON_TEXT_MAX + 1];
    size_t size;
};

static ks_err wrong(const struct reader *reader, const char *what)
{
    return ks_err_because(KS_FAIL(MALFORMED), reader->detail, "line %u: %s", reader->line, what);
}

/* The next byte, or NUL at the end (which no JSON holds). */
static char peek(const struct reader *reader)
{
    return reader->rest.size == 0 ? '\0' : (char)reader->rest.data[0];
}

static void skip(struct reader *reader, size_t size)
{
    assert(size <= reader->rest.size);
    reader->rest = ks_view_of(reader->rest.data + size, reader->rest.size - size);
}

static void skip_space(struct reader *reader)
{
    for (char c = peek(reader); c == ' ' || c == '\t' || c == '\n' || c == '\r'; c = peek(reader)) {
        if (c == '\n')
            reader->line++;
        skip(reader, 1);
    }
}

static ks_err expect(struct reader *reader, char wanted, const char *what)
{
    skip_space(reader);
    if (reader->rest.size == 0 || peek(reader) != wanted)
        return wrong(reader, what);
    skip(reader, 1);
    return KS_OK;
}

static ks_err append(const struct reader *reader, struct text *text, ks_view bytes)
{
    if (bytes.size > KS_FLAT_JSON_TEXT_MAX - text->size)
        return wrong(reader, "a text of more than 1023 bytes");
    memcpy(text->bytes + text->size, bytes.data, bytes.size);
    text->size += bytes.size;
    return KS_OK;
}

static ks_err append_code_point(const struct reader *reader, struct text *text, uint32_t code)
{
    uint8_t utf8[4];
    size_t size;

    if (code < 0x80) {
        utf8[0] = (uint8_t)code;
        size = 1;
    } else if (code < 0x800) {
        utf8[0] = (uint8_t)(0xC0 | code >> 6);
        size = 2;
    } else if (code < 0x10000) {
        utf8[0] = (uint8_t)(0xE0 | code >> 12);
        size = 3;
    } else {
        utf8[0] = (uint8_t)(0xF0 | code >> 18);
        size = 4;
    }
    for (size_t i = 1; i < size; i++)
        utf8[i] = (uint8_t)(0x80 | (code >> 6 * (size - 1 - i) & 0x3F));
    return append(reader, text, ks_view_of(utf8, size));
}

/* The four hex digits of \uXXXX. */
static ks_err read_hex4(struct reader *reader, uint32_t *ret_value)
{
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    uint32_t value = 0;

    for (int i = 0; i < 4; i++) {
        char c = peek(reader);
        const char *found = c == '\0' ? NULL : strchr(digits, c);
        if (found == NULL)
            return wrong(reader, "\\u wants four hex digits");
        value = value << 4 | ((uint32_t)(found - digits) & 15);
        skip(reader, 1);
    }
    *ret_value = value;
    return KS_OK;
}

static ks_err read_unicode_escape(struct reader *reader, struct text *text)
{
    uint32_t code, low;

    KS_TRY(read_hex4(reader, &code));
    if (code == 0 || (code >= 0xDC00 && code < 0xE000))
        return wrong(reader, "\\u names no character that is allowed");
    if (code >= 0xD800 && code < 0xDC00) {
        if (!ks_view_starts(reader->rest, KS_VIEW("\\u")))
            return wrong(reader, "half of a surrogate pair");
        skip(reader, 2);
        KS_TRY(read_hex4(reader, &low));
        if (low < 0xDC00 || low >= 0xE000)
            return wrong(reader, "half of a surrogate pair");
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    return append_code_point(reader, text, code);
}

static ks_err read_escape(struct reader *reader, struct text *text)
{
    static const char escapes[] = "\"\\/bfnrt";
    static const char meant[] = "\"\\/\b\f\n\r\t";
    char c = peek(reader);
    const char *found = c == '\0' ? NULL : strchr(escapes, c);

    if (c == 'u') {
        skip(reader, 1);
        return read_unicode_escape(reader, text);
    }
    if (found == NULL)
        return wrong(reader, "an escape that JSON does not know");
    skip(reader, 1);
    return append(reader, text, ks_view_of(&meant[found - escapes], 1));
}

/* A text, from its first quotation mark. */
static ks_err read_text(struct reader *reader, struct text *text)
{
    text->size = 0;
    KS_TRY(expect(reader, '"', "a text was expected here"));
    while (peek(reader) != '"') {
        size_t size = ks_view_character(reader->rest);
        if (peek(reader) == '\\') {
            skip(reader, 1);
            KS_TRY(read_escape(reader, text));
            continue;
        }
        if (size == 0 || (uint8_t)peek(reader) < 0x20)
            return wrong(reader, "a text that does not end, or is not UTF-8");
        KS_TRY(append(reader, text, ks_view_of(reader->rest.data, size)));
        skip(reader, size);
    }
    skip(reader, 1);
    text->bytes[text->size] = '\0';
    return KS_OK;
}

static size_t skip_digits(struct reader *reader)
{
    size_t count = 0;

    while (peek(reader) >= '0' && peek(reader) <= '9') {
        skip(reader, 1);
        count++;
    }
    return count;
}

/* -? (0 | 1-9 digits) (. digits)? (e sign? digits)?   RFC 8259, section 6. */
static ks_err read_number(struct reader *reader, struct text *text)
{
    const uint8_t *start = reader->rest.data;
    bool zero;

    if (peek(reader) == '-')
        skip(reader, 1);
    zero = peek(reader) == '0';
    if (zero)
        skip(reader, 1);
    else if (skip_digits(reader) == 0)
        return wrong(reader, "a text, a number, true or false was expected here");
    if (peek(reader) == '.') {
        skip(reader, 1);
        if (skip_digits(reader) == 0)
            return wrong(reader, "a number without digits after its point");
    }
    if (peek(reader) == 'e' || peek(reader) == 'E') {
        skip(reader, 1);
        if (peek(reader) == '+' || peek(reader) == '-')
            skip(reader, 1);
        if (skip_digits(reader) == 0)
            return wrong(reader, "a number without digits in its exponent");
    }
    text->size = 0;
    KS_TRY(append(reader, text, ks_view_of(start, (size_t)(reader->rest.data - start))));
    text->bytes[text->size] = '\0';
    return KS_OK;
}

static ks_err read_value(struct reader *reader, struct text *value,
                         enum ks_flat_json_kind *ret_kind)
{
    static const char *const booleans[] = {"true", "false"};

    skip_space(reader);
    if (peek(reader) == '"') {
        *ret_kind = KS_FLAT_JSON_TEXT;
        return read_text(reader, value);
    }
    for (int i = 0; i < 2; i++) {
        ks_view word = ks_view_text(booleans[i]);
        if (ks_view_starts(reader->rest, word)) {
            *ret_kind = KS_FLAT_JSON_BOOLEAN;
            skip(reader, word.size);
            memcpy(value->bytes, booleans[i], word.size + 1);
            return KS_OK;
        }
    }
    *ret_kind = KS_FLAT_JSON_NUMBER;
    return read_number(reader, value);
}

typedef ks_err (*on_member)(void *arg, const char *name, enum ks_flat_json_kind kind,
                            const char *value);

/* From behind its brace to the brace at its end, which is taken. `list` is called where a value begins one; NULL: none
 * is allowed. */
static ks_err read_object(struct reader *reader, on_member member, void *arg,
                          ks_err (*list)(struct reader *reader, const char *name, on_member member,
                                         void *arg))
{
    struct text name, value;
    enum ks_flat_json_kind kind;

    skip_space(reader);
    if (peek(reader) != '}') {
        for (;;) {
            KS_TRY(read_text(reader, &name));
            KS_TRY(expect(reader, ':', "a colon was expected here"));
            skip_space(reader);
            if (list != NULL && peek(reader) == '[') {
                KS_TRY(list(reader, name.bytes, member, arg));
            } else {
                KS_TRY(read_value(reader, &value, &kind));
                KS_TRY(member(arg, name.bytes, kind, value.bytes));
            }
            skip_space(reader);
            if (peek(reader) != ',')
                break;
            skip(reader, 1);
        }
    }
    return expect(reader, '}', "a comma or the end of the object was expected here");
}

static ks_err read_list(struct reader *reader, const char *name, on_member member, void *arg)
{
    KS_TRY(member(arg, name, KS_FLAT_JSON_LIST, ""));
    skip(reader, 1);
    skip_space(reader);
    if (peek(reader) != ']') {
        for (;;) {
            KS_TRY(expect(reader, '{', "an object was expected here"));
            KS_TRY(member(arg, name, KS_FLAT_JSON_OBJECT, ""));
            KS_TRY(read_object(reader, member, arg, NULL));
            skip_space(reader);
            if (peek(reader) != ',')
                break;
            skip(reader, 1);
        }
    }
    KS_TRY(expect(reader, ']', "a comma or the end of the list was expected here"));
    return member(arg, name, KS_FLAT_JSON_END, "");
}

ks_err ks_flat_json_read(ks_view json,
                         ks_err (*member)(void *arg, const char *name, enum ks_flat_json_kind kind,
                                          const char *value),
                         void *arg, struct ks_detail *detail)
{
    struct reader reader = {.rest = json, .line = 1, .detail = detail};

    KS_TRY(expect(&reader, '{', "an object was expected here"));
    KS_TRY(read_object(&reader, member, arg, read_list));
    skip_space(&reader);
    if (reader.rest.size != 0)
        return wrong(&reader, "something follows the object");
    return KS_OK;
}
