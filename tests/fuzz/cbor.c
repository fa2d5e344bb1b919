/* SPDX-License-Identifier: Apache-2.0 */
/* cbor.c - any bytes as CBOR: every reader ends, stays within the bytes, and leaves them when it
 * fails.
 */
#include "aws/cbor.h"

#include <assert.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reads one scalar by its type; true if it was taken. */
static bool read_scalar(ks_view *view, enum ks_cbor_type type)
{
    struct ks_cbor_string string;
    ks_view before = *view;
    int64_t number = 0;
    bool flag = false;

    if (ks_ok(ks_cbor_unix_ms(view, &number)))
        *view = before;
    if (type == KS_CBOR_BYTES || type == KS_CBOR_TEXT) {
        ks_err err =
            type == KS_CBOR_TEXT ? ks_cbor_text(view, &string) : ks_cbor_bytes(view, &string);
        if (!ks_ok(err)) {
            assert(view->size == before.size);
            return false;
        }
        uint8_t *copy = malloc(string.size + 1);
        ks_cbor_string_copy(&string, copy);
        copy[string.size] = '\0';
        if (ks_view_is_utf8(ks_view_of(copy, string.size)))
            assert(ks_cbor_string_is(&string, (const char *)copy));
        free(copy);
        return true;
    }
    if (type == KS_CBOR_INTEGER)
        return ks_ok(ks_cbor_i64(view, &number)) || ks_ok(ks_cbor_skip(view));
    if (type == KS_CBOR_BOOL)
        return ks_ok(ks_cbor_bool(view, &flag));
    if (type == KS_CBOR_NULL)
        return ks_cbor_null(view);
    return ks_ok(ks_cbor_skip(view));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ks_view skipped = ks_view_of(data, size);
    ks_view view = ks_view_of(data, size);
    ks_view walked = view;
    struct ks_cbor_container open = {.left = 0};
    enum ks_cbor_type type;
    bool more = true;

    bool whole = ks_ok(ks_cbor_skip(&skipped));
    assert(whole || skipped.size == size);
    assert(skipped.size <= size);

    /* One level is walked as an adapter does; it must end where skipping ends. */
    if (!ks_ok(ks_cbor_peek(view, &type)))
        return 0;
    if (type != KS_CBOR_MAP && type != KS_CBOR_ARRAY) {
        if (read_scalar(&walked, type) && whole)
            assert(walked.size == skipped.size);
        return 0;
    }
    ks_err err = type == KS_CBOR_MAP ? ks_cbor_map(&walked, &open) : ks_cbor_array(&walked, &open);
    while (ks_ok(err)) {
        err = ks_cbor_more(&walked, &open, &more);
        if (!ks_ok(err) || !more)
            break;
        for (int items = type == KS_CBOR_MAP ? 2 : 1; ks_ok(err) && items > 0; items--) {
            enum ks_cbor_type of_item;
            err = ks_cbor_peek(walked, &of_item);
            if (ks_ok(err) && (of_item == KS_CBOR_MAP || of_item == KS_CBOR_ARRAY))
                err = ks_cbor_skip(&walked);
            else if (ks_ok(err) && !read_scalar(&walked, of_item))
                err = KS_FAIL(MALFORMED);
        }
    }
    if (whole)
        assert(ks_ok(err) && walked.size == skipped.size);
    return 0;
}
