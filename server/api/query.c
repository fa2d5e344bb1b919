/* SPDX-License-Identifier: Apache-2.0 */
#include "api/query.h"

#include <assert.h>

#include "base/budget.h"
#include "base/codec.h"

/* Decodes percent escapes of `text` into `buffer`, which has room for text.size bytes. */
static ks_err decode(ks_view text, bool plus, uint8_t *buffer, ks_view *ret_decoded,
                     struct ks_detail *detail)
{
    size_t size = 0;

    while (text.size > 0) {
        uint8_t byte = text.data[0];
        ks_view taken;

        KS_TRY(ks_view_take(&text, 1, &taken));
        if (byte == '+' && plus)
            byte = ' ';
        if (byte == '%' &&
            (!ks_ok(ks_view_take(&text, 2, &taken)) || !ks_ok(ks_hex_decode(taken, &byte)))) {
            ks_detail_set(detail, "a %% in the request target is not followed by two hex digits");
            return KS_FAIL(MALFORMED);
        }
        buffer[size++] = byte;
    }

    if (!ks_view_is_utf8(ks_view_of(buffer, size))) {
        ks_detail_set(detail, "the request target is not UTF-8 text, or holds a NUL");
        return KS_FAIL(MALFORMED);
    }
    *ret_decoded = ks_view_of(buffer, size);
    return KS_OK;
}

static uint32_t count_params(ks_view query)
{
    uint32_t count = 0;

    while (query.data != NULL)
        if (ks_view_cut(&query, '&').size > 0)
            count++;
    return count;
}

static ks_err decode_params(ks_view query, struct ks_param *params, uint8_t *at,
                            struct ks_detail *detail)
{
    while (query.data != NULL) {
        ks_view value = ks_view_cut(&query, '&');
        ks_view name;

        if (value.size == 0)
            continue;
        name = ks_view_cut(&value, '=');
        KS_TRY(decode(name, true, at, &params->name, detail));
        at += params->name.size;
        if (value.data == NULL)
            value = KS_VIEW("");
        KS_TRY(decode(value, true, at, &params->value, detail));
        at += params->value.size;
        params++;
    }
    return KS_OK;
}

ks_err ks_target_parse(ks_view text, struct ks_target *ret_target, struct ks_detail *detail)
{
    struct ks_target target = {.memory = NULL};
    ks_view query = text;
    ks_view path = ks_view_cut(&query, '?');
    uint32_t count = count_params(query);
    struct ks_param *params;
    ks_view decoded;
    uint8_t *bytes;
    ks_err err;

    if (path.size == 0 || path.data[0] != '/') {
        ks_detail_set(detail, "the request target does not begin with /");
        return KS_FAIL(MALFORMED);
    }
    if (count > KS_PARAMS_MAX) {
        ks_detail_set(detail, "more than %d parameters in the query", KS_PARAMS_MAX);
        return KS_FAIL(FULL);
    }
    target.memory = ks_alloc(count * sizeof(*params) + text.size);
    if (target.memory == NULL)
        return KS_FAIL(NO_MEMORY);
    params = target.memory;
    bytes = (uint8_t *)(params + count);

    target.room = bytes;
    err = decode(path, false, bytes, &decoded, detail);
    if (ks_ok(err))
        err = decode_params(query, params, bytes + path.size, detail);
    if (!ks_ok(err)) {
        ks_target_free(&target);
        return err;
    }
    target.path = path;
    target.params = params;
    target.param_count = count;
    *ret_target = target;
    return KS_OK;
}

ks_view ks_target_decode(const struct ks_target *target, ks_view part)
{
    struct ks_detail detail;
    ks_view decoded = KS_VIEW_NONE;

    /* The path was decoded once already. A part of it that is no text by itself is empty: no name. */
    if (!ks_ok(decode(part, false, target->room, &decoded, &detail)))
        return KS_VIEW("");
    return decoded;
}

void ks_target_free(struct ks_target *target)
{
    ks_free(target->memory);
    *target = (struct ks_target){.memory = NULL};
}
