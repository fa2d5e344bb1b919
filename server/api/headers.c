/* SPDX-License-Identifier: Apache-2.0 */
#include "api/headers.h"

#include <assert.h>

struct sizes {
    uint32_t name;
    uint32_t value;
};

void ks_headers_init(struct ks_headers *headers, size_t max)
{
    assert(max < UINT32_MAX);
    ks_bytes_init(&headers->lines, max);
}

void ks_headers_free(struct ks_headers *headers)
{
    ks_bytes_free(&headers->lines);
}

bool ks_header_name_is_good(ks_view name)
{
    /* A space before the colon would hide the name from us, and not from others. */
    for (size_t i = 0; i < name.size; i++)
        if (name.data[i] <= ' ' || name.data[i] >= 0x7F || name.data[i] == ':')
            return false;
    return name.size > 0;
}

bool ks_header_value_is_good(ks_view value)
{
    for (size_t i = 0; i < value.size; i++)
        if ((value.data[i] < ' ' && value.data[i] != '\t') || value.data[i] == 0x7F)
            return false;
    return true;
}

ks_err ks_headers_add(struct ks_headers *headers, ks_view name, ks_view value)
{
    struct ks_bytes *lines = &headers->lines;
    struct sizes sizes = {(uint32_t)name.size, (uint32_t)value.size};

    if (!ks_header_name_is_good(name) || !ks_header_value_is_good(value))
        return KS_FAIL(INVALID);
    if (name.size > lines->max || value.size > lines->max)
        return KS_FAIL(FULL);
    KS_TRY(ks_bytes_reserve(lines, sizeof(sizes) + name.size + value.size));

    /* There is room for all of it now. */
    if (!ks_ok(ks_bytes_append(lines, ks_view_of(&sizes, sizeof(sizes)))) ||
        !ks_ok(ks_bytes_append(lines, name)) || !ks_ok(ks_bytes_append(lines, value)))
        assert(false);
    return KS_OK;
}

bool ks_headers_next(const struct ks_headers *headers, size_t *at, ks_view *ret_name,
                     ks_view *ret_value)
{
    const struct ks_bytes *lines = &headers->lines;
    struct sizes sizes;

    assert(*at <= lines->size);
    if (*at == lines->size)
        return false;
    memcpy(&sizes, lines->data + *at, sizeof(sizes));
    *at += sizeof(sizes);
    *ret_name = ks_view_of(lines->data + *at, sizes.name);
    *ret_value = ks_view_of(lines->data + *at + sizes.name, sizes.value);
    *at += (size_t)sizes.name + sizes.value;
    return true;
}

void ks_headers_lower(struct ks_headers *headers)
{
    uint8_t *data = headers->lines.data;
    size_t at = 0;
    ks_view name;
    ks_view value;

    while (ks_headers_next(headers, &at, &name, &value)) {
        size_t begin = (size_t)(name.data - data);
        for (size_t i = begin; i < begin + name.size; i++)
            if (data[i] >= 'A' && data[i] <= 'Z')
                data[i] = (uint8_t)(data[i] - 'A' + 'a');
    }
}

ks_view ks_headers_find(const struct ks_headers *headers, const char *name)
{
    ks_view wanted = ks_view_text(name);
    size_t at = 0;
    ks_view found;
    ks_view value;

    while (ks_headers_next(headers, &at, &found, &value))
        if (ks_view_equal_nocase(found, wanted))
            return value;
    return KS_VIEW_NONE;
}
