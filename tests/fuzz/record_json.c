/* SPDX-License-Identifier: Apache-2.0 */
/* record_json.c - any bytes as the data of a record: as text and as a JSON value they stand on one line that a JSON
 * reader reads, and what it reads is the same. Where jansson takes the bytes for a value, we do.
 */
#include "api/json_text.h"

#include <assert.h>
#include <jansson.h>

#include "api/limits.h"
#include "base/budget.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Through buffers of the size that the first byte says. */
static void check_text(ks_view text)
{
    size_t room = 6 + (text.size > 0 ? text.data[0] % 32 : 0);
    uint8_t *out = ks_alloc(6 * text.size + 2);
    size_t size = 0;
    ks_view rest = text;
    json_t *string;

    out[size++] = '"';
    while (rest.size > 0) {
        size_t left = 6 * text.size + 1 - size;
        size_t written = ks_json_escape(&rest, out + size, left < room ? left : room);
        assert(written > 0);
        size += written;
    }
    out[size++] = '"';
    assert(memchr(out, '\n', size) == NULL);
    assert(ks_json_is_value(ks_view_of(out, size)));
    string = json_loadb((const char *)out, size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    assert(json_string_length(string) == text.size);
    assert(text.size == 0 || memcmp(json_string_value(string), text.data, text.size) == 0);
    json_decref(string);
    ks_free(out);
}

static void check_value(ks_view text, const json_t *read)
{
    uint8_t *line = ks_alloc(text.size);
    json_t *again;

    ks_json_copy_on_one_line(text, line);
    assert(memchr(line, '\n', text.size) == NULL && memchr(line, '\r', text.size) == NULL);
    assert(ks_json_is_value(ks_view_of(line, text.size)));
    again = json_loadb((const char *)line, text.size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    /* Numbers that are too large for jansson are numbers. */
    assert((read == NULL) == (again == NULL));
    assert(read == NULL || json_equal(read, again));
    json_decref(again);
    ks_free(line);
}

static size_t depth_of(ks_view text)
{
    size_t depth = 0;

    for (size_t i = 0; i < text.size; i++)
        depth += text.data[i] == '[' || text.data[i] == '{';
    return depth;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ks_view text = ks_view_of(data, size);
    json_error_t error;
    json_t *read = json_loadb(size == 0 ? "" : (const char *)data, size,
                              JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    bool too_large = read == NULL && json_error_code(&error) == json_error_numeric_overflow;

    if (ks_view_is_unicode(text))
        check_text(text);
    if (ks_json_is_value(text)) {
        assert(read != NULL || too_large);
        check_value(text, read);
    } else {
        /* Jansson takes a NUL for the end. */
        assert(read == NULL || depth_of(text) > KS_DATA_DEPTH_MAX ||
               memchr(data, '\0', size) != NULL);
    }
    json_decref(read);
    return 0;
}
