/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/json.h"

#include "aws/limits.h"
#include "base/json_load.h"

#include <assert.h>

/* A ks_json is jansson's json_t; no other file knows. Reading does not change a tree, but some of
 * jansson's readers take it without const. */
static json_t *tree(const struct ks_json *value)
{
    return (json_t *)(uintptr_t)value;
}

/* null counts as absent. */
static const struct ks_json *present(const json_t *value)
{
    return json_is_null(value) ? NULL : (const struct ks_json *)value;
}

/* Nesting is counted before jansson recurses into it. Brackets that do not match are its business.
 */
static bool too_deep(ks_view text)
{
    uint32_t depth = 0;
    bool in_text = false;

    for (size_t at = 0; at < text.size; at++) {
        uint8_t byte = text.data[at];

        if (in_text) {
            in_text = byte != '"';
            at += byte == '\\' ? 1 : 0;
        } else if (byte == '"') {
            in_text = true;
        } else if (byte == '{' || byte == '[') {
            if (++depth > KS_JSON_DEPTH_MAX)
                return true;
        } else if ((byte == '}' || byte == ']') && depth > 0) {
            depth--;
        }
    }
    return false;
}

ks_err ks_json_parse(ks_view text, struct ks_json **ret_document)
{
    json_error_t error;
    json_t *document;

    if (text.size > KS_JSON_BYTES_MAX || too_deep(text))
        return KS_FAIL(FULL);
    if (text.size == 0)
        return KS_FAIL(MALFORMED);

    KS_TRY(ks_json_load(text, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &document, &error));
    *ret_document = (struct ks_json *)document;
    return KS_OK;
}

void ks_json_free(struct ks_json *document)
{
    json_decref((json_t *)document);
}

const struct ks_json *ks_json_member(const struct ks_json *value, const char *name)
{
    return present(json_object_get(tree(value), name));
}

size_t ks_json_count(const struct ks_json *value)
{
    return json_is_object(tree(value)) ? json_object_size(tree(value))
                                       : json_array_size(tree(value));
}

const struct ks_json *ks_json_item(const struct ks_json *value, size_t index)
{
    return present(json_array_get(tree(value), index));
}

bool ks_json_is_object(const struct ks_json *value)
{
    return json_is_object(tree(value));
}

bool ks_json_is_array(const struct ks_json *value)
{
    return json_is_array(tree(value));
}

ks_err ks_json_text(const struct ks_json *value, ks_view *ret_text)
{
    if (value == NULL)
        return KS_FAIL(NOT_FOUND);
    if (!json_is_string(tree(value)))
        return KS_FAIL(MALFORMED);
    *ret_text = ks_view_of(json_string_value(tree(value)), json_string_length(tree(value)));
    return KS_OK;
}

ks_err ks_json_bool(const struct ks_json *value, bool *ret_value)
{
    if (value == NULL)
        return KS_FAIL(NOT_FOUND);
    if (!json_is_boolean(tree(value)))
        return KS_FAIL(MALFORMED);
    *ret_value = json_is_true(tree(value));
    return KS_OK;
}

ks_err ks_json_i64(const struct ks_json *value, int64_t *ret_value)
{
    static const double EXACT = 9007199254740992.0;

    if (value == NULL)
        return KS_FAIL(NOT_FOUND);
    if (json_is_integer(tree(value))) {
        *ret_value = json_integer_value(tree(value));
        return KS_OK;
    }
    double number = json_real_value(tree(value));
    if (!json_is_real(tree(value)) || !(number > -EXACT && number < EXACT) ||
        (double)(int64_t)number != number)
        return KS_FAIL(MALFORMED);
    *ret_value = (int64_t)number;
    return KS_OK;
}

ks_err ks_json_u64(const struct ks_json *value, uint64_t *ret_value)
{
    int64_t number = 0;

    KS_TRY(ks_json_i64(value, &number));
    if (number < 0)
        return KS_FAIL(MALFORMED);
    *ret_value = (uint64_t)number;
    return KS_OK;
}

ks_err ks_json_unix_ms(const struct ks_json *value, int64_t *ret_unix_ms)
{
    /* The year 11,000 or so; beyond it the ms of a double are not exact. */
    static const double SECONDS_MAX = 9007199254740992.0 / 32 / 1000;

    if (value == NULL)
        return KS_FAIL(NOT_FOUND);
    double seconds = json_number_value(tree(value));
    if (!json_is_number(tree(value)) || !(seconds > -SECONDS_MAX && seconds < SECONDS_MAX))
        return KS_FAIL(MALFORMED);
    *ret_unix_ms = (int64_t)(seconds * 1000 + (seconds < 0 ? -0.5 : 0.5));
    return KS_OK;
}

bool ks_json_each(const struct ks_json *value, struct ks_json_cursor *cursor, ks_view *ret_name,
                  const struct ks_json **ret_member)
{
    for (;;) {
        cursor->at = cursor->begun ? json_object_iter_next(tree(value), cursor->at)
                                   : json_object_iter(tree(value));
        cursor->begun = true;
        if (cursor->at == NULL)
            return false;
        const struct ks_json *member = present(json_object_iter_value(cursor->at));
        if (member != NULL) {
            *ret_name = ks_view_text(json_object_iter_key(cursor->at));
            *ret_member = member;
            return true;
        }
    }
}
