/* SPDX-License-Identifier: Apache-2.0 */
#include "api/json_text.h"

#include <assert.h>

#include "api/limits.h"

static const uint64_t ONES = UINT64_C(0x0101010101010101);
static const uint64_t HIGH = UINT64_C(0x8080808080808080);

/* ---- Strings ---- */

static inline bool is_plain(uint8_t byte)
{
    return byte >= 0x20 && byte != '"' && byte != '\\';
}

/* Bytes below `least`, which is at most 0x80. A byte behind one may be told wrongly: all is well only if it is 0. */
static inline uint64_t bytes_below(uint64_t word, uint8_t least)
{
    return (word - ONES * least) & ~word & HIGH;
}

static inline bool eight_are_plain(uint64_t word)
{
    return (bytes_below(word, 0x20) | bytes_below(word ^ (ONES * '"'), 1) |
            bytes_below(word ^ (ONES * '\\'), 1)) == 0;
}

/* How many of the first bytes stand in a string as they are. */
static size_t plain_size(const uint8_t *data, size_t size)
{
    size_t plain = 0;
    uint64_t word;

    for (; size - plain >= sizeof(word); plain += sizeof(word)) {
        memcpy(&word, data + plain, sizeof(word));
        if (!eight_are_plain(word))
            break;
    }
    while (plain < size && is_plain(data[plain]))
        plain++;
    return plain;
}

/* Of one byte that is not plain. 0: no room. */
static size_t put_escape(uint8_t byte, uint8_t *buffer, size_t room)
{
    static const char hex[] = "0123456789abcdef";
    static const char shorts[0x20] = {
        ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r'};
    const char letter = byte < 0x20 ? shorts[byte] : (char)byte;

    if (room < 2 || (letter == '\0' && room < 6))
        return 0;
    buffer[0] = '\\';
    buffer[1] = (uint8_t)letter;
    if (letter != '\0')
        return 2;
    memcpy(buffer + 1, "u00", 3);
    buffer[4] = (uint8_t)hex[byte >> 4];
    buffer[5] = (uint8_t)hex[byte & 15];
    return 6;
}

size_t ks_json_escape(ks_view *text, uint8_t *buffer, size_t room)
{
    const uint8_t *data = text->data;
    size_t left = text->size;
    size_t written = 0;

    while (left > 0) {
        size_t fits = left < room - written ? left : room - written;
        size_t size = plain_size(data, fits);
        if (size > 0)
            memcpy(buffer + written, data, size);
        written += size;
        data += size;
        left -= size;
        if (left == 0 || is_plain(*data))
            break; /* All, or the buffer is full. */
        size = put_escape(*data, buffer + written, room - written);
        if (size == 0)
            break;
        written += size;
        data++;
        left--;
    }
    *text = ks_view_of(data, left);
    return written;
}

/* ---- Values ---- */

struct reader {
    const uint8_t *at;
    const uint8_t *end;
    uint64_t objects; /* A bit a level. */
    unsigned depth;
    bool comma; /* A value stands before, on this level. */
};

static bool take(struct reader *reader, uint8_t byte)
{
    if (reader->at == reader->end || *reader->at != byte)
        return false;
    reader->at++;
    return true;
}

static void skip_space(struct reader *reader)
{
    while (reader->at < reader->end && (*reader->at == ' ' || *reader->at == '\n' ||
                                        *reader->at == '\r' || *reader->at == '\t'))
        reader->at++;
}

/* Four hex digits. */
static bool read_unit(struct reader *reader, uint32_t *ret_unit)
{
    uint32_t unit = 0;

    if (reader->end - reader->at < 4)
        return false;
    for (int i = 0; i < 4; i++) {
        uint8_t byte = *reader->at++;
        uint8_t lower = byte | 0x20;
        if (byte >= '0' && byte <= '9')
            unit = unit << 4 | (uint32_t)(byte - '0');
        else if (lower >= 'a' && lower <= 'f')
            unit = unit << 4 | (uint32_t)(lower - 'a' + 10);
        else
            return false;
    }
    *ret_unit = unit;
    return true;
}

/* What follows a backslash. */
static bool read_escape(struct reader *reader)
{
    uint32_t unit;
    uint32_t second;

    if (reader->at == reader->end)
        return false;
    switch (*reader->at++) {
    case '"':
    case '\\':
    case '/':
    case 'b':
    case 'f':
    case 'n':
    case 'r':
    case 't': return true;
    case 'u': break;
    default: return false;
    }
    if (!read_unit(reader, &unit))
        return false;
    if (unit < 0xD800 || unit > 0xDFFF)
        return true;
    return unit < 0xDC00 && take(reader, '\\') && take(reader, 'u') && read_unit(reader, &second) &&
           second >= 0xDC00 && second <= 0xDFFF;
}

static bool read_string(struct reader *reader)
{
    if (!take(reader, '"'))
        return false;
    for (;;) {
        reader->at += plain_size(reader->at, (size_t)(reader->end - reader->at));
        if (take(reader, '"'))
            return true;
        if (!take(reader, '\\') || !read_escape(reader))
            return false;
    }
}

static bool read_digits(struct reader *reader)
{
    const uint8_t *first = reader->at;

    while (reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9')
        reader->at++;
    return reader->at > first;
}

static bool read_number(struct reader *reader)
{
    (void)take(reader, '-');
    if (!take(reader, '0') && !read_digits(reader))
        return false;
    if (take(reader, '.') && !read_digits(reader))
        return false;
    if (!take(reader, 'e') && !take(reader, 'E'))
        return true;
    if (!take(reader, '+'))
        (void)take(reader, '-');
    return read_digits(reader);
}

static bool read_word(struct reader *reader, ks_view word)
{
    if (!ks_view_starts(ks_view_of(reader->at, (size_t)(reader->end - reader->at)), word))
        return false;
    reader->at += word.size;
    return true;
}

static bool read_key(struct reader *reader)
{
    if (!read_string(reader))
        return false;
    skip_space(reader);
    if (!take(reader, ':'))
        return false;
    skip_space(reader);
    return true;
}

static bool open_level(struct reader *reader, bool object)
{
    if (reader->depth == KS_DATA_DEPTH_MAX)
        return false;
    reader->at++;
    reader->objects = reader->objects << 1 | object;
    reader->depth++;
    reader->comma = false;
    return true;
}

/* A value that holds no others, or the bracket that opens one that does. */
static bool read_value(struct reader *reader)
{
    if (reader->at == reader->end)
        return false;
    reader->comma = true;
    switch (*reader->at) {
    case '{': return open_level(reader, true);
    case '[': return open_level(reader, false);
    case '"': return read_string(reader);
    case 't': return read_word(reader, KS_VIEW("true"));
    case 'f': return read_word(reader, KS_VIEW("false"));
    case 'n': return read_word(reader, KS_VIEW("null"));
    default: return read_number(reader);
    }
}

/* The bracket that closes the level, or its next value with what stands before it. */
static bool read_next(struct reader *reader)
{
    bool object = (reader->objects & 1) != 0;

    if (take(reader, object ? '}' : ']')) {
        reader->objects >>= 1;
        reader->depth--;
        reader->comma = true;
        return true;
    }
    if (reader->comma && !take(reader, ','))
        return false;
    skip_space(reader);
    return (!object || read_key(reader)) && read_value(reader);
}

bool ks_json_is_value(ks_view text)
{
    struct reader reader = {.at = text.data};

    static_assert(KS_DATA_DEPTH_MAX <= 64, "A bit a level.");
    if (text.size == 0 || !ks_view_is_utf8(text))
        return false;
    reader.end = text.data + text.size;
    skip_space(&reader);
    if (!read_value(&reader))
        return false;
    while (reader.depth > 0) {
        skip_space(&reader);
        if (!read_next(&reader))
            return false;
    }
    skip_space(&reader);
    return reader.at == reader.end;
}

void ks_json_copy_on_one_line(ks_view text, uint8_t *buffer)
{
    /* In a string a line break would be an escape, so that these stand between tokens. */
    for (size_t i = 0; i < text.size; i++) {
        uint8_t byte = text.data[i];
        buffer[i] = byte == '\n' || byte == '\r' ? ' ' : byte;
    }
}
