/* SPDX-License-Identifier: Apache-2.0 */
#include "base/bytes.h"

#include "base/budget.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

enum {
    FIRST_CAPACITY = 256, /* Bytes of a buffer's first memory. */
    VARINT_BYTES_MAX = 10 /* 64 bits in groups of 7. */
};

static bool is_space(uint8_t byte)
{
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

static uint8_t lower(uint8_t byte)
{
    return byte >= 'A' && byte <= 'Z' ? (uint8_t)(byte + ('a' - 'A')) : byte;
}

/* Views. */

bool ks_view_equal(ks_view a, ks_view b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

bool ks_view_equal_nocase(ks_view a, ks_view b)
{
    if (a.size != b.size)
        return false;
    for (size_t i = 0; i < a.size; i++) {
        if (lower(a.data[i]) != lower(b.data[i]))
            return false;
    }
    return true;
}

bool ks_view_starts(ks_view view, ks_view prefix)
{
    return view.size >= prefix.size && ks_view_equal((ks_view){view.data, prefix.size}, prefix);
}

ks_view ks_view_trim(ks_view view)
{
    while (view.size > 0 && is_space(view.data[view.size - 1]))
        view.size--;
    while (view.size > 0 && is_space(view.data[0]))
        view = (ks_view){view.data + 1, view.size - 1};
    return view;
}

ks_view ks_view_cut(ks_view *view, uint8_t separator)
{
    ks_view before = *view;
    const uint8_t *found = before.size == 0 ? NULL : memchr(before.data, separator, before.size);

    if (found == NULL) {
        *view = KS_VIEW_NONE;
        return before;
    }
    before.size = (size_t)(found - before.data);
    *view = (ks_view){found + 1, view->size - before.size - 1};
    return before;
}

ks_err ks_view_take(ks_view *view, size_t size, ks_view *ret_taken)
{
    ks_view taken = {view->data, size};

    if (size > view->size)
        return KS_FAIL(MALFORMED);
    /* Of no bytes there may be no address, and none is added to. */
    if (size > 0)
        *view = (ks_view){view->data + size, view->size - size};
    *ret_taken = taken;
    return KS_OK;
}

/* An unsigned number of `size` bytes, the highest first. */
static ks_err take_be(ks_view *view, size_t size, uint64_t *ret_value)
{
    ks_view taken;
    uint64_t value = 0;

    assert(size <= sizeof(value));
    KS_TRY(ks_view_take(view, size, &taken));
    for (size_t i = 0; i < size; i++)
        value = value << 8 | taken.data[i];
    *ret_value = value;
    return KS_OK;
}

ks_err ks_view_take_u8(ks_view *view, uint8_t *ret_value)
{
    uint64_t value;

    KS_TRY(take_be(view, sizeof(*ret_value), &value));
    *ret_value = (uint8_t)value;
    return KS_OK;
}

ks_err ks_view_take_be16(ks_view *view, uint16_t *ret_value)
{
    uint64_t value;

    KS_TRY(take_be(view, sizeof(*ret_value), &value));
    *ret_value = (uint16_t)value;
    return KS_OK;
}

ks_err ks_view_take_be32(ks_view *view, uint32_t *ret_value)
{
    uint64_t value;

    KS_TRY(take_be(view, sizeof(*ret_value), &value));
    *ret_value = (uint32_t)value;
    return KS_OK;
}

ks_err ks_view_take_be64(ks_view *view, uint64_t *ret_value)
{
    return take_be(view, sizeof(*ret_value), ret_value);
}

ks_err ks_view_take_varint(ks_view *view, uint64_t *ret_value)
{
    uint64_t value = 0;

    for (size_t i = 0; i < VARINT_BYTES_MAX && i < view->size; i++) {
        uint8_t byte = view->data[i];
        /* Of the tenth byte only one bit fits. */
        if (i == VARINT_BYTES_MAX - 1 && byte > 1)
            return KS_FAIL(MALFORMED);
        value |= (uint64_t)(byte & 0x7F) << (7 * i);
        if (byte < 0x80) {
            *view = (ks_view){view->data + i + 1, view->size - i - 1};
            *ret_value = value;
            return KS_OK;
        }
    }
    return KS_FAIL(MALFORMED);
}

/* Numbers. */

ks_err ks_view_u64(ks_view view, uint64_t *ret_value)
{
    uint64_t value = 0;

    if (view.size == 0)
        return KS_FAIL(INVALID);
    for (size_t i = 0; i < view.size; i++) {
        uint8_t digit = (uint8_t)(view.data[i] - '0');
        if (digit > 9)
            return KS_FAIL(INVALID);
        if (__builtin_mul_overflow(value, (uint64_t)10, &value) ||
            __builtin_add_overflow(value, (uint64_t)digit, &value))
            return KS_FAIL(INVALID);
    }
    *ret_value = value;
    return KS_OK;
}

ks_err ks_view_u128(ks_view view, uint64_t *ret_high, uint64_t *ret_low)
{
    uint64_t high = 0;
    uint64_t low = 0;

    if (view.size == 0)
        return KS_FAIL(INVALID);
    for (size_t i = 0; i < view.size; i++) {
        uint8_t digit = (uint8_t)(view.data[i] - '0');
        /* Ten times the lower half and the digit, in two steps of 32 bits. */
        uint64_t step = (low & UINT32_MAX) * 10 + digit;
        uint64_t carry = (low >> 32) * 10 + (step >> 32);

        if (digit > 9)
            return KS_FAIL(INVALID);
        low = carry << 32 | (step & UINT32_MAX);
        if (__builtin_mul_overflow(high, (uint64_t)10, &high) ||
            __builtin_add_overflow(high, carry >> 32, &high))
            return KS_FAIL(INVALID);
    }
    *ret_high = high;
    *ret_low = low;
    return KS_OK;
}

ks_err ks_view_i64(ks_view view, int64_t *ret_value)
{
    bool negative = view.size > 0 && view.data[0] == '-';
    uint64_t limit = negative ? (uint64_t)INT64_MAX + 1 : (uint64_t)INT64_MAX;
    uint64_t value;

    if (negative || (view.size > 0 && view.data[0] == '+'))
        view = (ks_view){view.data + 1, view.size - 1};
    KS_TRY(ks_view_u64(view, &value));
    if (value > limit)
        return KS_FAIL(INVALID);
    /* Two's complement: the negation of 2^63 is itself. */
    *ret_value = (int64_t)(negative ? 0 - value : value);
    return KS_OK;
}

/* Text. RFC 3629, section 4: the first byte says how many follow, and narrows what the second may be. */

struct lead {
    uint8_t first, last; /* The first byte. */
    uint8_t size;        /* Bytes of the character. */
    uint8_t second_min, second_max;
};

static const struct lead leads[] = {
    {0x00, 0x7F, 1, 0x00, 0x00}, {0xC2, 0xDF, 2, 0x80, 0xBF}, {0xE0, 0xE0, 3, 0xA0, 0xBF},
    {0xE1, 0xEC, 3, 0x80, 0xBF}, {0xED, 0xED, 3, 0x80, 0x9F}, {0xEE, 0xEF, 3, 0x80, 0xBF},
    {0xF0, 0xF0, 4, 0x90, 0xBF}, {0xF1, 0xF3, 4, 0x80, 0xBF}, {0xF4, 0xF4, 4, 0x80, 0x8F},
};
enum { LEADS = sizeof(leads) / sizeof(leads[0]) };

static const struct lead *lead_of(uint8_t byte)
{
    for (size_t i = byte < 0xE0 ? 0 : 2; i < LEADS && byte >= leads[i].first; i++) {
        if (byte <= leads[i].last)
            return &leads[i];
    }
    return NULL;
}

/* True if `view`, which begins with `lead`, goes on as it must for as long as it goes. */
static bool continues(ks_view view, const struct lead *lead)
{
    for (size_t i = 1; i < lead->size && i < view.size; i++) {
        uint8_t min = i == 1 ? lead->second_min : 0x80;
        uint8_t max = i == 1 ? lead->second_max : 0xBF;
        if (view.data[i] < min || view.data[i] > max)
            return false;
    }
    return true;
}

size_t ks_view_character(ks_view view)
{
    const struct lead *lead = view.size == 0 ? NULL : lead_of(view.data[0]);

    if (lead == NULL || lead->size > view.size || !continues(view, lead))
        return 0;
    return lead->size;
}

size_t ks_view_whole_characters(ks_view view)
{
    for (size_t back = 1; back < 4 && back <= view.size; back++) {
        const struct lead *lead = lead_of(view.data[view.size - back]);
        if (lead != NULL && lead->size > back)
            return view.size - back;
        if (lead != NULL)
            return view.size;
    }
    return view.size;
}

/* Eight bytes that are all ASCII and none of them NUL: nearly all text is that. */
static bool eight_plain(const uint8_t *data)
{
    const uint64_t high = UINT64_C(0x8080808080808080);
    const uint64_t ones = UINT64_C(0x0101010101010101);
    uint64_t word;

    memcpy(&word, data, sizeof(word));
    return (((word - ones) | word) & high) == 0;
}

static inline bool is_well_formed(ks_view view, bool nul)
{
    size_t at = 0;

    while (at < view.size) {
        size_t size;
        if (view.size - at >= 8 && eight_plain(view.data + at)) {
            at += 8;
            continue;
        }
        /* What is left, with some of what was judged before. */
        if (view.size - at < 8 && view.size >= 8 && eight_plain(view.data + view.size - 8))
            return true;
        if (view.data[at] < 0x80) {
            if (view.data[at] == '\0' && !nul)
                return false;
            at++;
            continue;
        }
        size = ks_view_character((ks_view){view.data + at, view.size - at});
        if (size == 0)
            return false;
        at += size;
    }
    return true;
}

bool ks_view_is_utf8(ks_view view)
{
    return is_well_formed(view, false);
}

bool ks_view_is_unicode(ks_view view)
{
    return is_well_formed(view, true);
}

ks_err ks_view_copy_text(ks_view view, char *buffer, size_t capacity)
{
    if (view.size >= capacity)
        return KS_FAIL(FULL);
    if (view.size > 0 && memchr(view.data, '\0', view.size) != NULL)
        return KS_FAIL(INVALID);
    if (view.size > 0)
        memcpy(buffer, view.data, view.size);
    buffer[view.size] = '\0';
    return KS_OK;
}

/* The buffer. */

void ks_bytes_init(struct ks_bytes *bytes, size_t max)
{
    assert(max < SIZE_MAX);
    *bytes = (struct ks_bytes){.max = max};
}

void ks_bytes_free(struct ks_bytes *bytes)
{
    if (bytes == NULL)
        return;
    if (bytes->secret && bytes->capacity > 0)
        explicit_bzero(bytes->data, bytes->capacity);
    ks_free(bytes->data);
    *bytes = (struct ks_bytes){.max = bytes->max, .secret = bytes->secret};
}

void ks_bytes_clear(struct ks_bytes *bytes)
{
    bytes->size = 0;
}

/* As ks_realloc, of a content that must not stay where it was. */
static uint8_t *move_secret(struct ks_bytes *bytes, size_t capacity)
{
    uint8_t *data = ks_alloc(capacity);

    if (data == NULL)
        return NULL;
    if (bytes->capacity > 0) {
        memcpy(data, bytes->data, bytes->size);
        explicit_bzero(bytes->data, bytes->capacity);
        ks_free(bytes->data);
    }
    return data;
}

ks_err ks_bytes_reserve(struct ks_bytes *bytes, size_t size)
{
    size_t capacity = bytes->capacity == 0 ? FIRST_CAPACITY : bytes->capacity;
    uint8_t *data;

    assert(bytes->size <= bytes->capacity);
    if (size <= bytes->capacity - bytes->size)
        return KS_OK;
    if (bytes->size > bytes->max || size > bytes->max - bytes->size)
        return KS_FAIL(FULL);

    while (capacity < bytes->size + size && capacity < bytes->max)
        capacity = capacity > bytes->max / 2 ? bytes->max : capacity * 2;
    capacity = capacity < bytes->max ? capacity : bytes->max;
    /* One byte more than is told, for the NUL that printf writes. */
    data = bytes->secret ? move_secret(bytes, capacity + 1) : ks_realloc(bytes->data, capacity + 1);
    if (data == NULL)
        return KS_FAIL(NO_MEMORY);
    bytes->data = data;
    bytes->capacity = capacity;
    return KS_OK;
}

ks_err ks_bytes_append(struct ks_bytes *bytes, ks_view view)
{
    if (view.size == 0)
        return KS_OK;
    KS_TRY(ks_bytes_reserve(bytes, view.size));
    memcpy(bytes->data + bytes->size, view.data, view.size);
    bytes->size += view.size;
    return KS_OK;
}

ks_err ks_bytes_append_byte(struct ks_bytes *bytes, uint8_t byte)
{
    KS_TRY(ks_bytes_reserve(bytes, 1));
    bytes->data[bytes->size++] = byte;
    return KS_OK;
}

ks_err ks_bytes_append_varint(struct ks_bytes *bytes, uint64_t value)
{
    uint8_t coded[VARINT_BYTES_MAX];
    size_t size = 0;

    while (value >= 0x80) {
        coded[size++] = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    coded[size++] = (uint8_t)value;
    return ks_bytes_append(bytes, (ks_view){coded, size});
}

ks_err ks_bytes_format(struct ks_bytes *bytes, const char *format, ...)
{
    va_list arguments;
    int size;

    va_start(arguments, format);
    size = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    assert(size >= 0);

    if (size == 0)
        return KS_OK;
    KS_TRY(ks_bytes_reserve(bytes, (size_t)size));
    va_start(arguments, format);
    (void)vsnprintf((char *)bytes->data + bytes->size, (size_t)size + 1, format, arguments);
    va_end(arguments);
    bytes->size += (size_t)size;
    return KS_OK;
}

void ks_bytes_consume(struct ks_bytes *bytes, size_t size)
{
    assert(size <= bytes->size);
    if (size == 0)
        return;
    bytes->size -= size;
    memmove(bytes->data, bytes->data + size, bytes->size);
}
