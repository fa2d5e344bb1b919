/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/cbor.h"

#include "aws/limits.h"

#include <assert.h>

/* RFC 8949, 3: the upper three bits of an item's first byte. */
enum major { UNSIGNED, NEGATIVE, BYTES, TEXT, ARRAY, MAP, TAG, SIMPLE };

/* The lower five bits that mean something else than a small value. */
enum { IN_1_BYTE = 24, IN_2_BYTES, IN_4_BYTES, IN_8_BYTES, INDEFINITE = 31 };

/* The byte that ends what is indefinite. */
enum { BREAK = SIMPLE << 5 | INDEFINITE };

/* Values of major type 7. */
enum { SIMPLE_FALSE = 20, SIMPLE_TRUE, SIMPLE_NULL, SIMPLE_UNDEFINED };

/* As milliseconds 1973, as seconds the year 5138: what is less must be seconds. */
static const int64_t MS_AT_LEAST = INT64_C(100000000000);
/* The year 11,000 or so: beyond it a float could not be turned into ms exactly. */
static const double MS_AT_MOST = 9007199254740992.0 / 32;

struct head {
    enum major major;
    uint8_t info; /* The lower five bits. */
    uint64_t value;
};

/* Read byte by byte of an answer's every item: nothing here calls anything. */
static inline ks_err take_head(ks_view *view, struct head *ret_head)
{
    const uint8_t *at = view->data;

    if (view->size == 0)
        return KS_FAIL(MALFORMED);
    struct head head = {.major = (enum major)(at[0] >> 5), .info = at[0] & 31};
    size_t width = 0;

    if (head.info < IN_1_BYTE)
        head.value = head.info;
    else if (head.info <= IN_8_BYTES)
        width = (size_t)1 << (head.info - IN_1_BYTE);
    else if (head.info != INDEFINITE || head.major < BYTES || head.major == TAG)
        return KS_FAIL(MALFORMED);
    if (width > view->size - 1)
        return KS_FAIL(MALFORMED);
    for (size_t byte = 1; byte <= width; byte++)
        head.value = head.value << 8 | at[byte];
    /* A simple value below 32 has a shorter form, and only that. */
    if (head.major == SIMPLE && head.info == IN_1_BYTE && head.value < 32)
        return KS_FAIL(MALFORMED);

    *view = ks_view_of(at + 1 + width, view->size - 1 - width);
    *ret_head = head;
    return KS_OK;
}

static bool is_break(const struct head *head)
{
    return head->major == SIMPLE && head->info == INDEFINITE;
}

/* The head of the next item itself: its tags are taken and forgotten. */
static inline ks_err take_item(ks_view *view, struct head *ret_head)
{
    ks_view rest = *view;

    do
        KS_TRY(take_head(&rest, ret_head));
    while (ret_head->major == TAG);

    *view = rest;
    return KS_OK;
}

static enum ks_cbor_type simple_type(const struct head *head)
{
    if (head->info == INDEFINITE)
        return KS_CBOR_BREAK;
    if (head->info >= IN_2_BYTES)
        return KS_CBOR_FLOAT;
    if (head->value == SIMPLE_FALSE || head->value == SIMPLE_TRUE)
        return KS_CBOR_BOOL;
    if (head->value == SIMPLE_NULL || head->value == SIMPLE_UNDEFINED)
        return KS_CBOR_NULL;
    return KS_CBOR_OTHER;
}

ks_err ks_cbor_peek(ks_view view, enum ks_cbor_type *ret_type)
{
    struct head head;

    KS_TRY(take_item(&view, &head));
    switch (head.major) {
    case UNSIGNED:
    case NEGATIVE: *ret_type = KS_CBOR_INTEGER; break;
    case BYTES: *ret_type = KS_CBOR_BYTES; break;
    case TEXT: *ret_type = KS_CBOR_TEXT; break;
    case ARRAY: *ret_type = KS_CBOR_ARRAY; break;
    case MAP: *ret_type = KS_CBOR_MAP; break;
    case TAG: return KS_FAIL(MALFORMED);
    case SIMPLE: *ret_type = simple_type(&head); break;
    }
    return KS_OK;
}

/* --- Containers --- */

static ks_err open_container(const struct head *head, size_t bytes_left,
                             struct ks_cbor_container *ret_container)
{
    /* An item has at least one byte: a count that cannot be true is not believed. */
    size_t item_bytes = head->major == MAP ? 2 : 1;

    if (head->info == INDEFINITE) {
        *ret_container = (struct ks_cbor_container){.indefinite = true};
        return KS_OK;
    }
    if (head->value > bytes_left / item_bytes)
        return KS_FAIL(MALFORMED);
    *ret_container = (struct ks_cbor_container){.left = head->value};
    return KS_OK;
}

static ks_err take_container(ks_view *view, enum major major,
                             struct ks_cbor_container *ret_container)
{
    ks_view rest = *view;
    struct head head;

    KS_TRY(take_item(&rest, &head));
    if (head.major != major)
        return KS_FAIL(MALFORMED);
    KS_TRY(open_container(&head, rest.size, ret_container));

    *view = rest;
    return KS_OK;
}

ks_err ks_cbor_map(ks_view *view, struct ks_cbor_container *ret_map)
{
    return take_container(view, MAP, ret_map);
}

ks_err ks_cbor_array(ks_view *view, struct ks_cbor_container *ret_array)
{
    return take_container(view, ARRAY, ret_array);
}

ks_err ks_cbor_more(ks_view *view, struct ks_cbor_container *container, bool *ret_more)
{
    ks_view rest = *view;
    struct head head;

    if (!container->indefinite) {
        *ret_more = container->left > 0;
        container->left -= *ret_more ? 1 : 0;
        return KS_OK;
    }

    /* Hardly ever the last one: what begins with another byte is read by who takes it. */
    if (rest.size > 0 && rest.data[0] != BREAK) {
        *ret_more = true;
        return KS_OK;
    }
    KS_TRY(take_head(&rest, &head));
    *ret_more = false;
    *view = rest;
    /* The end is told again to whoever asks again. */
    *container = (struct ks_cbor_container){.left = 0};
    return KS_OK;
}

/* --- Strings --- */

/* A piece whose head was taken off `view`. */
static inline ks_err take_piece(ks_view *view, const struct head *head, ks_view *ret_piece)
{
    ks_view piece;

    if (head->value > view->size)
        return KS_FAIL(MALFORMED);
    piece = ks_view_of(view->data, (size_t)head->value);
    if (head->major == TEXT && !ks_view_is_utf8(piece))
        return KS_FAIL(MALFORMED);
    *view = ks_view_of(view->data + piece.size, view->size - piece.size);
    *ret_piece = piece;
    return KS_OK;
}

/* The pieces of a string of that type, up to its end. */
static ks_err take_chunks(ks_view *view, enum major major, struct ks_cbor_string *ret_string)
{
    struct ks_cbor_string string = {.chunked = true};
    ks_view rest = *view;
    ks_view piece;
    struct head head;

    for (;;) {
        string.bytes = ks_view_of(view->data, (size_t)(rest.data - view->data));
        KS_TRY(take_head(&rest, &head));
        if (is_break(&head))
            break;
        if (head.major != major || head.info == INDEFINITE)
            return KS_FAIL(MALFORMED);
        KS_TRY(take_piece(&rest, &head, &piece));
        string.size += piece.size;
    }

    *view = rest;
    *ret_string = string;
    return KS_OK;
}

/* The rest of a string whose head was taken off `view`. */
static inline ks_err take_string(ks_view *view, const struct head *head,
                                 struct ks_cbor_string *ret_string)
{
    ks_view piece;

    if (head->info == INDEFINITE)
        return take_chunks(view, head->major, ret_string);
    KS_TRY(take_piece(view, head, &piece));
    *ret_string = (struct ks_cbor_string){.bytes = piece, .size = piece.size};
    return KS_OK;
}

static ks_err take_string_of(ks_view *view, enum major major, struct ks_cbor_string *ret_string)
{
    ks_view rest = *view;
    struct head head;

    KS_TRY(take_item(&rest, &head));
    if (head.major != major)
        return KS_FAIL(MALFORMED);
    KS_TRY(take_string(&rest, &head, ret_string));

    *view = rest;
    return KS_OK;
}

/* All names and nearly all texts of an answer have no tag, one piece, and their size in the first byte or two. */
static inline bool take_short(ks_view *view, struct ks_cbor_string *ret_text)
{
    const uint8_t *at = view->data;

    if (view->size < 2 || (at[0] >> 5) != TEXT || (at[0] & 31) > IN_1_BYTE)
        return false;
    bool wide = (at[0] & 31) == IN_1_BYTE;
    size_t size = wide ? at[1] : at[0] & 31;
    size_t head = wide ? 2 : 1;
    ks_view text = ks_view_of(at + head, size);
    if (size > view->size - head || !ks_view_is_utf8(text))
        return false;
    *ret_text = (struct ks_cbor_string){.bytes = text, .size = size};
    *view = ks_view_of(text.data + size, view->size - head - size);
    return true;
}

ks_err ks_cbor_text(ks_view *view, struct ks_cbor_string *ret_text)
{
    if (take_short(view, ret_text))
        return KS_OK;
    return take_string_of(view, TEXT, ret_text);
}

ks_err ks_cbor_bytes(ks_view *view, struct ks_cbor_string *ret_bytes)
{
    return take_string_of(view, BYTES, ret_bytes);
}

/* The next piece of a chunked one; false after the last one. Begin with `rest` = string->bytes. */
static bool next_piece(ks_view *rest, ks_view *ret_piece)
{
    struct head head;

    if (rest->size == 0)
        return false;
    /* It was walked when it was taken. */
    ks_err err = take_head(rest, &head);
    assert(ks_ok(err));
    err = ks_view_take(rest, (size_t)head.value, ret_piece);
    assert(ks_ok(err));
    return true;
}

bool ks_cbor_string_equals(const struct ks_cbor_string *string, ks_view text)
{
    ks_view expected = text;
    ks_view rest = string->bytes;
    ks_view piece;

    if (!string->chunked)
        return ks_view_equal(string->bytes, text);
    if (string->size != expected.size)
        return false;
    while (next_piece(&rest, &piece)) {
        if (!ks_view_starts(expected, piece))
            return false;
        expected = ks_view_of(expected.data + piece.size, expected.size - piece.size);
    }
    return true;
}

void ks_cbor_string_copy(const struct ks_cbor_string *string, uint8_t *buffer)
{
    ks_view rest = string->bytes;
    ks_view piece;
    size_t size = 0;

    if (!string->chunked) {
        if (string->size > 0)
            memmove(buffer, string->bytes.data, string->size);
        return;
    }
    while (next_piece(&rest, &piece)) {
        if (piece.size > 0)
            memmove(buffer + size, piece.data, piece.size);
        size += piece.size;
    }
    assert(size == string->size);
}

ks_err ks_cbor_string_copy_text(const struct ks_cbor_string *string, char *buffer, size_t capacity)
{
    if (string->size >= capacity)
        return KS_FAIL(FULL);
    ks_cbor_string_copy(string, (uint8_t *)buffer);
    buffer[string->size] = '\0';
    if (memchr(buffer, '\0', string->size) != NULL)
        return KS_FAIL(INVALID);
    return KS_OK;
}

/* --- Values --- */

static ks_err integer_of(const struct head *head, int64_t *ret_value)
{
    if ((head->major != UNSIGNED && head->major != NEGATIVE) || head->value > INT64_MAX)
        return KS_FAIL(MALFORMED);
    *ret_value = head->major == UNSIGNED ? (int64_t)head->value : -1 - (int64_t)head->value;
    return KS_OK;
}

ks_err ks_cbor_i64(ks_view *view, int64_t *ret_value)
{
    ks_view rest = *view;
    struct head head;

    KS_TRY(take_item(&rest, &head));
    KS_TRY(integer_of(&head, ret_value));
    *view = rest;
    return KS_OK;
}

ks_err ks_cbor_bool(ks_view *view, bool *ret_value)
{
    ks_view rest = *view;
    struct head head;

    KS_TRY(take_item(&rest, &head));
    if (head.major != SIMPLE || simple_type(&head) != KS_CBOR_BOOL)
        return KS_FAIL(MALFORMED);
    *ret_value = head.value == SIMPLE_TRUE;
    *view = rest;
    return KS_OK;
}

bool ks_cbor_null(ks_view *view)
{
    ks_view rest = *view;
    struct head head;

    /* Asked before each value, and hardly ever so: what has another first byte is none. */
    if (rest.size == 0 || (rest.data[0] >> 5 != SIMPLE && rest.data[0] >> 5 != TAG))
        return false;
    if (!ks_ok(take_item(&rest, &head)) || head.major != SIMPLE ||
        simple_type(&head) != KS_CBOR_NULL)
        return false;
    *view = rest;
    return true;
}

/* IEEE 754 binary16, RFC 8949 appendix D. */
static double half_float(uint16_t bits)
{
    uint32_t exponent = (bits >> 10) & 31;
    double value = bits & 1023;

    if (exponent == 31)
        return MS_AT_MOST * 2; /* Infinite or no number: out of range for everyone here. */
    if (exponent > 0)
        value += 1024;
    for (uint32_t step = exponent > 0 ? exponent : 1; step < 25; step++)
        value /= 2;
    for (uint32_t step = 25; step < exponent; step++)
        value *= 2;
    return (bits & 0x8000) != 0 ? -value : value;
}

static double float_of(const struct head *head)
{
    float narrow;
    double wide;
    uint32_t bits = (uint32_t)head->value;

    if (head->info == IN_2_BYTES)
        return half_float((uint16_t)head->value);
    if (head->info == IN_4_BYTES) {
        memcpy(&narrow, &bits, sizeof(narrow));
        return (double)narrow;
    }
    memcpy(&wide, &head->value, sizeof(wide));
    return wide;
}

ks_err ks_cbor_unix_ms(ks_view *view, int64_t *ret_unix_ms)
{
    ks_view rest = *view;
    struct head head;
    int64_t ms;

    KS_TRY(take_item(&rest, &head));
    if (head.major == SIMPLE && simple_type(&head) == KS_CBOR_FLOAT) {
        double number = float_of(&head);
        /* Written so that a NaN does not pass. */
        if (!(number > -MS_AT_MOST && number < MS_AT_MOST))
            return KS_FAIL(MALFORMED);
        if (number > (double)-MS_AT_LEAST && number < (double)MS_AT_LEAST)
            number *= 1000;
        ms = (int64_t)(number < 0 ? number - 0.5 : number + 0.5);
    } else {
        KS_TRY(integer_of(&head, &ms));
        if (ms > -MS_AT_LEAST && ms < MS_AT_LEAST)
            ms *= 1000;
    }

    *view = rest;
    *ret_unix_ms = ms;
    return KS_OK;
}

/* --- Skipping --- */

struct nest {
    struct ks_cbor_container open[KS_CBOR_DEPTH_MAX];
    bool in_value[KS_CBOR_DEPTH_MAX]; /* Of a map: its name was read, its value comes. */
    bool is_map[KS_CBOR_DEPTH_MAX];
    uint32_t depth;
};

static ks_err enter(struct nest *nest, const struct head *head, size_t bytes_left)
{
    if (nest->depth == KS_CBOR_DEPTH_MAX)
        return KS_FAIL(MALFORMED);
    KS_TRY(open_container(head, bytes_left, &nest->open[nest->depth]));
    nest->is_map[nest->depth] = head->major == MAP;
    nest->in_value[nest->depth] = false;
    nest->depth++;
    return KS_OK;
}

/* Takes the ends of containers that are complete. */
static ks_err leave(struct nest *nest, ks_view *view)
{
    while (nest->depth > 0) {
        uint32_t at = nest->depth - 1;
        bool more = true;

        if (nest->in_value[at]) {
            nest->in_value[at] = false;
            return KS_OK;
        }
        KS_TRY(ks_cbor_more(view, &nest->open[at], &more));
        if (more) {
            nest->in_value[at] = nest->is_map[at];
            return KS_OK;
        }
        nest->depth--;
    }
    return KS_OK;
}

ks_err ks_cbor_skip(ks_view *view)
{
    ks_view rest = *view;
    struct nest nest = {.depth = 0};
    struct ks_cbor_string string;
    struct head head;

    do {
        KS_TRY(take_item(&rest, &head));
        if (is_break(&head))
            return KS_FAIL(MALFORMED);
        if (head.major == BYTES || head.major == TEXT)
            KS_TRY(take_string(&rest, &head, &string));
        if (head.major == ARRAY || head.major == MAP)
            KS_TRY(enter(&nest, &head, rest.size));
        KS_TRY(leave(&nest, &rest));
    } while (nest.depth > 0);

    *view = rest;
    return KS_OK;
}

/* --- Writing --- */

static ks_err put_head(struct ks_bytes *bytes, enum major major, uint64_t value)
{
    uint8_t head[9];
    size_t width = value < IN_1_BYTE     ? 0
                   : value <= UINT8_MAX  ? 1
                   : value <= UINT16_MAX ? 2
                   : value <= UINT32_MAX ? 4
                                         : 8;
    uint8_t info = width == 0   ? (uint8_t)value
                   : width == 1 ? IN_1_BYTE
                   : width == 2 ? IN_2_BYTES
                   : width == 4 ? IN_4_BYTES
                                : IN_8_BYTES;

    head[0] = (uint8_t)((unsigned)major << 5 | info);
    for (size_t at = 0; at < width; at++)
        head[1 + at] = (uint8_t)(value >> (8 * (width - 1 - at)));
    return ks_bytes_append(bytes, ks_view_of(head, 1 + width));
}

static ks_err put_string(struct ks_bytes *bytes, enum major major, ks_view content)
{
    KS_TRY(put_head(bytes, major, content.size));
    return ks_bytes_append(bytes, content);
}

ks_err ks_cbor_put_map(struct ks_bytes *bytes, uint64_t pairs)
{
    return put_head(bytes, MAP, pairs);
}

ks_err ks_cbor_put_array(struct ks_bytes *bytes, uint64_t items)
{
    return put_head(bytes, ARRAY, items);
}

ks_err ks_cbor_put_text(struct ks_bytes *bytes, ks_view text)
{
    return put_string(bytes, TEXT, text);
}

ks_err ks_cbor_put_bytes(struct ks_bytes *bytes, ks_view content)
{
    return put_string(bytes, BYTES, content);
}

ks_err ks_cbor_put_i64(struct ks_bytes *bytes, int64_t value)
{
    if (value < 0)
        return put_head(bytes, NEGATIVE, (uint64_t)(-1 - value));
    return put_head(bytes, UNSIGNED, (uint64_t)value);
}

ks_err ks_cbor_put_bool(struct ks_bytes *bytes, bool value)
{
    return put_head(bytes, SIMPLE, value ? SIMPLE_TRUE : SIMPLE_FALSE);
}

ks_err ks_cbor_put_null(struct ks_bytes *bytes)
{
    return put_head(bytes, SIMPLE, SIMPLE_NULL);
}

ks_err ks_cbor_put_unix_ms(struct ks_bytes *bytes, int64_t unix_ms)
{
    KS_TRY(put_head(bytes, TAG, 1));
    return ks_cbor_put_i64(bytes, unix_ms);
}
