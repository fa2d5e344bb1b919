/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/xml.h"

/* What stands between '<' and '>'. */
struct tag {
    ks_view name; /* Without a prefix. */
    bool begins;
    bool ends;      /* Both: <name/>. */
    bool is_markup; /* A comment or an instruction: no element. */
    ks_view whole;
};

/* Takes everything up to and with `end`. */
static ks_err take_past(ks_view *rest, ks_view end)
{
    const uint8_t *found = memmem(rest->data, rest->size, end.data, end.size);
    ks_view taken;

    if (found == NULL)
        return KS_FAIL(MALFORMED);
    return ks_view_take(rest, (size_t)(found - rest->data) + end.size, &taken);
}

/* The size of the tag at the front of `text`, with '>': one within quotes is none. */
static ks_err size_of_tag(ks_view text, size_t *ret_size)
{
    uint8_t quote = 0;

    for (size_t at = 0; at < text.size; at++) {
        uint8_t byte = text.data[at];

        if (quote != 0) {
            quote = byte == quote ? 0 : quote;
        } else if (byte == '"' || byte == '\'') {
            quote = byte;
        } else if (byte == '>') {
            *ret_size = at + 1;
            return KS_OK;
        }
    }
    return KS_FAIL(MALFORMED);
}

static bool ends_name(uint8_t byte)
{
    return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n' || byte == '/';
}

/* `inside`: without the angle brackets. */
static ks_err read_element(ks_view inside, struct tag *tag)
{
    size_t size = 0;

    tag->ends = inside.size > 0 && inside.data[0] == '/';
    tag->begins = !tag->ends;
    if (tag->ends)
        inside = ks_view_of(inside.data + 1, inside.size - 1);
    else if (inside.size > 0 && inside.data[inside.size - 1] == '/')
        tag->ends = true;

    while (size < inside.size && !ends_name(inside.data[size]))
        size++;
    ks_view rest = ks_view_of(inside.data, size);
    tag->name = ks_view_cut(&rest, ':');
    if (rest.data != NULL)
        tag->name = rest;
    return tag->name.size == 0 ? KS_FAIL(MALFORMED) : KS_OK;
}

/* Takes text up to the next tag, and the tag. NOT_FOUND: there is none any more. */
static ks_err take_tag(ks_view *rest, struct tag *ret_tag)
{
    struct tag tag = {.begins = false};
    size_t size = 0;
    ks_view text;

    const uint8_t *open = rest->size == 0 ? NULL : memchr(rest->data, '<', rest->size);
    if (open == NULL)
        return KS_FAIL(NOT_FOUND);
    KS_TRY(ks_view_take(rest, (size_t)(open - rest->data), &text));

    tag.whole.data = rest->data;
    tag.is_markup = true;
    if (ks_view_starts(*rest, KS_VIEW("<!--"))) {
        KS_TRY(take_past(rest, KS_VIEW("-->")));
    } else if (ks_view_starts(*rest, KS_VIEW("<?"))) {
        KS_TRY(take_past(rest, KS_VIEW("?>")));
    } else if (ks_view_starts(*rest, KS_VIEW("<!"))) {
        return KS_FAIL(MALFORMED);
    } else {
        tag.is_markup = false;
        KS_TRY(size_of_tag(*rest, &size));
        KS_TRY(read_element(ks_view_of(rest->data + 1, size - 2), &tag));
        KS_TRY(ks_view_take(rest, size, &text));
    }
    tag.whole.size = (size_t)(rest->data - tag.whole.data);
    *ret_tag = tag;
    return KS_OK;
}

ks_err ks_xml_next(ks_view *content, const char *name, ks_view *ret_content)
{
    ks_view wanted = ks_view_text(name);
    ks_view rest = *content;
    const uint8_t *begin = NULL; /* Of what we look for, once it was found. */
    uint64_t depth = 0;
    struct tag tag;

    for (;;) {
        ks_err err = take_tag(&rest, &tag);
        if (!ks_ok(err))
            return begin == NULL ? err : KS_FAIL(MALFORMED); /* It began, and did not end. */
        if (tag.is_markup)
            continue;
        if (tag.begins && depth == 0 && begin == NULL && ks_view_equal(tag.name, wanted))
            begin = rest.data;
        if (tag.begins)
            depth++;
        if (tag.ends && depth == 0)
            return KS_FAIL(MALFORMED);
        if (tag.ends)
            depth--;
        if (begin != NULL && depth == 0) {
            bool empty = tag.begins;
            if (!ks_view_equal(tag.name, wanted))
                return KS_FAIL(MALFORMED);
            *ret_content =
                empty ? ks_view_of(begin, 0) : ks_view_of(begin, (size_t)(tag.whole.data - begin));
            *content = rest;
            return KS_OK;
        }
    }
}

ks_err ks_xml_child(ks_view content, const char *name, ks_view *ret_content)
{
    return ks_xml_next(&content, name, ret_content);
}

/* The value of a digit; 99: it is none. */
static unsigned digit_of(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - (unsigned)'0';
    c |= 0x20; /* Lower case. */
    return c >= 'a' && c <= 'f' ? c - (unsigned)'a' + 10 : 99;
}

/* "&#34;" or "&#x22;", with up to seven digits. */
static ks_err take_number(ks_view *text, char *ret_byte)
{
    enum { DIGITS_MAX = 7, ASCII_MAX = 0x7f };
    const bool hex = ks_view_starts(*text, KS_VIEW("&#x"));
    const unsigned base = hex ? 16 : 10;
    const size_t begin = hex ? 3 : 2;
    size_t at = begin;
    unsigned value = 0;
    ks_view taken;

    while (at < text->size && at - begin < DIGITS_MAX && digit_of(text->data[at]) < base)
        value = value * base + digit_of(text->data[at++]);
    if (at == begin || at == text->size || text->data[at] != ';' || value == 0 || value > ASCII_MAX)
        return KS_FAIL(MALFORMED);
    *ret_byte = (char)value;
    return ks_view_take(text, at + 1, &taken);
}

static ks_err take_entity(ks_view *text, char *ret_byte)
{
    static const struct entity {
        const char *name;
        char byte;
    } ENTITIES[] = {
        {"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}};
    ks_view taken;

    if (ks_view_starts(*text, KS_VIEW("&#")))
        return take_number(text, ret_byte);
    for (size_t at = 0; at < sizeof(ENTITIES) / sizeof(ENTITIES[0]); at++) {
        ks_view name = ks_view_text(ENTITIES[at].name);
        if (ks_view_starts(*text, name)) {
            *ret_byte = ENTITIES[at].byte;
            return ks_view_take(text, name.size, &taken);
        }
    }
    return KS_FAIL(MALFORMED);
}

ks_err ks_xml_text(ks_view content, char *buffer, size_t capacity)
{
    ks_view rest = ks_view_trim(content);
    size_t size = 0;
    uint8_t byte = 0;

    while (rest.size > 0) {
        char next = (char)rest.data[0];

        if (next == '&')
            KS_TRY(take_entity(&rest, &next));
        else
            KS_TRY(ks_view_take_u8(&rest, &byte));
        if (next == '\0' || (byte == '<' && next == '<'))
            return KS_FAIL(MALFORMED);
        if (size + 1 >= capacity)
            return KS_FAIL(FULL);
        buffer[size++] = next;
        byte = 0;
    }
    buffer[size] = '\0';
    return KS_OK;
}
