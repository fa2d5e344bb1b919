/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_writer.h"

#include <assert.h>
#include <inttypes.h>

#include "base/codec.h"

enum { DEPTH_MAX = 64 }; /* Bits of `arrays`. */

/* Writes one byte below 0x80 that needs an escape; `buffer` has room for 6. */
static size_t escape_ascii(uint8_t byte, char *buffer)
{
    static const char hex[] = "0123456789abcdef";
    static const char shorts[] = "b\bn\nt\tf\fr\r\"\"\\\\";

    for (size_t i = 0; i + 1 < sizeof(shorts); i += 2) {
        if ((uint8_t)shorts[i + 1] == byte) {
            buffer[0] = '\\';
            buffer[1] = shorts[i];
            return 2;
        }
    }
    memcpy(buffer, "\\u00", 4);
    buffer[4] = hex[byte >> 4];
    buffer[5] = hex[byte & 15];
    return 6;
}

static bool is_plain(uint8_t byte)
{
    return byte >= 0x20 && byte < 0x7F && byte != '"' && byte != '\\';
}

/* Escapes what stands first in `text`, takes it off, and returns how many characters it became (at
 * most 6). */
static size_t escape_next(ks_view *text, char *buffer)
{
    size_t size = ks_view_character(*text);
    size_t written;

    if (size > 1 || is_plain(text->data[0])) {
        memcpy(buffer, text->data, size);
        written = size;
    } else if (size == 1) {
        written = escape_ascii(text->data[0], buffer);
    } else {
        memcpy(buffer, "\xEF\xBF\xBD", 3);
        size = 1;
        written = 3;
    }
    text->data += size;
    text->size -= size;
    return written;
}

size_t ks_writer_escaped_size(ks_view text)
{
    char ignored[6];
    size_t plain = 0;
    size_t total;

    if (text.size == 0)
        return 0; /* Of no bytes there may be no pointer to add to. */
    while (plain < text.size && is_plain(text.data[plain]))
        plain++;
    total = plain;
    text.data += plain;
    text.size -= plain;
    while (text.size > 0)
        total += escape_next(&text, ignored);
    return total;
}

size_t ks_writer_escape(ks_view text, char *buffer)
{
    char *at = buffer;

    while (text.size > 0 && is_plain(text.data[0])) {
        *at++ = (char)text.data[0];
        text.data++;
        text.size--;
    }
    while (text.size > 0)
        at += escape_next(&text, at);
    return (size_t)(at - buffer);
}

ks_err ks_writer_append_escaped(struct ks_bytes *bytes, ks_view text)
{
    size_t size = ks_writer_escaped_size(text);

    KS_TRY(ks_bytes_reserve(bytes, size));
    if (size > 0)
        bytes->size += ks_writer_escape(text, (char *)bytes->data + bytes->size);
    return KS_OK;
}

static void put(struct ks_writer *json, const char *text, size_t size)
{
    if (ks_ok(json->err))
        json->err = ks_bytes_append(json->out, ks_view_of(text, size));
}

/* What stands before a value. */
static void next(struct ks_writer *json)
{
    if (json->comma)
        put(json, ",", 1);
    json->comma = true;
}

void ks_writer_begin(struct ks_writer *json, struct ks_bytes *out)
{
    *json = (struct ks_writer){.out = out, .err = KS_OK};
}

void ks_writer_begin_strict(struct ks_writer *json, struct ks_bytes *out)
{
    ks_writer_begin(json, out);
    json->strict = true;
}

ks_err ks_writer_end(const struct ks_writer *json)
{
    assert(json->depth == 0 || !ks_ok(json->err));

    return json->err;
}

static bool in_array(const struct ks_writer *json)
{
    return json->depth > 0 && (json->arrays >> (json->depth - 1) & 1) != 0;
}

void ks_writer_open(struct ks_writer *json, char bracket)
{
    uint64_t level;

    assert(bracket == '{' || bracket == '[');
    assert(json->depth < DEPTH_MAX);

    next(json);
    put(json, &bracket, 1);
    level = UINT64_C(1) << json->depth++;
    json->arrays = bracket == '[' ? json->arrays | level : json->arrays & ~level;
    json->comma = false;
}

void ks_writer_close(struct ks_writer *json, char bracket)
{
    assert(json->depth > 0);
    assert(bracket == (in_array(json) ? ']' : '}'));

    put(json, &bracket, 1);
    json->depth--;
    json->comma = true;
}

void ks_writer_key(struct ks_writer *json, const char *name)
{
    assert(json->depth > 0 && !in_array(json));

    next(json);
    put(json, "\"", 1);
    put(json, name, strlen(name));
    put(json, "\":", 2);
    json->comma = false;
}

void ks_writer_key_text(struct ks_writer *json, ks_view name)
{
    assert(json->depth > 0 && !in_array(json));

    ks_writer_text(json, name);
    put(json, ":", 1);
    json->comma = false;
}

void ks_writer_text(struct ks_writer *json, ks_view text)
{
    if (json->strict && ks_ok(json->err) && !ks_view_is_utf8(text))
        json->err = KS_FAIL(INVALID);
    next(json);
    put(json, "\"", 1);
    if (ks_ok(json->err))
        json->err = ks_writer_append_escaped(json->out, text);
    put(json, "\"", 1);
}

void ks_writer_pair(struct ks_writer *json, const char *name, ks_view text)
{
    ks_writer_key(json, name);
    ks_writer_text(json, text);
}

void ks_writer_string(struct ks_writer *json, const char *text)
{
    ks_writer_text(json, ks_view_text(text));
}

void ks_writer_u64(struct ks_writer *json, uint64_t value)
{
    next(json);
    if (ks_ok(json->err))
        json->err = ks_bytes_format(json->out, "%" PRIu64, value);
}

void ks_writer_i64(struct ks_writer *json, int64_t value)
{
    next(json);
    if (ks_ok(json->err))
        json->err = ks_bytes_format(json->out, "%" PRId64, value);
}

void ks_writer_bool(struct ks_writer *json, bool value)
{
    next(json);
    put(json, value ? "true" : "false", value ? 4 : 5);
}

void ks_writer_null(struct ks_writer *json)
{
    next(json);
    put(json, "null", 4);
}

void ks_writer_instant(struct ks_writer *json, int64_t unix_ms)
{
    char text[KS_TIMESTAMP_SIZE];

    if (unix_ms == 0) {
        ks_writer_null(json);
        return;
    }
    ks_timestamp_format(unix_ms, text);
    ks_writer_string(json, text);
}

void ks_writer_unix_ms(struct ks_writer *json, int64_t unix_ms)
{
    uint64_t size = unix_ms < 0 ? 0 - (uint64_t)unix_ms : (uint64_t)unix_ms;

    next(json);
    if (ks_ok(json->err))
        json->err = ks_bytes_format(json->out, "%s%" PRIu64 ".%03u", unix_ms < 0 ? "-" : "",
                                    size / 1000, (unsigned)(size % 1000));
}

void ks_writer_base64(struct ks_writer *json, ks_view bytes)
{
    next(json);
    put(json, "\"", 1);
    if (ks_ok(json->err))
        json->err = ks_bytes_reserve(json->out, ks_base64_size(bytes.size));
    if (ks_ok(json->err) && bytes.size > 0)
        json->out->size += ks_base64_encode(bytes, (char *)json->out->data + json->out->size);
    put(json, "\"", 1);
}

void ks_writer_line(struct ks_writer *json)
{
    put(json, "\n", 1);
    json->comma = false;
}
