/* SPDX-License-Identifier: Apache-2.0 */
/* cbor_test.c - our CBOR against that of others.
 *
 * tests/vectors/cbor.json is ours, encoded by cbor2. In VECTORS_DIR, where it is set:
 * cbor/cbor.json, bodies as Kinesis and its stand-ins write them.
 */
#include "ks_test.h"

#include "aws/cbor.h"
#include "base/codec.h"
#include "vectors/vectors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ITEM_MAX = 64 * 1024, DEPTH_MAX = 64 };

static ks_view read_hex(const json_t *one, uint8_t buffer[ITEM_MAX])
{
    ks_view hex = ks_view_text(vectors_text(one, "hex"));

    EXPECT(hex.size / 2 <= ITEM_MAX);
    EXPECT_OK(ks_hex_decode(hex, buffer));
    return ks_view_of(buffer, hex.size / 2);
}

/* --- What an item means, as JSON: see make_cbor.py --- */

static ks_err meaning(ks_view *view, int depth, json_t **ret_json);

static char *copy_of(const struct ks_cbor_string *string)
{
    char *copy = calloc(1, string->size + 1);

    ks_cbor_string_copy(string, (uint8_t *)copy);
    return copy;
}

static json_t *bytes_json(const struct ks_cbor_string *string)
{
    char *copy = copy_of(string);
    char *hex = calloc(1, 2 * string->size + 1);

    ks_hex_encode(ks_view_of(copy, string->size), hex);
    json_t *json = json_pack("{s:s}", "bytes", hex);
    free(hex);
    free(copy);
    return json;
}

static ks_err read_array(ks_view *view, int depth, json_t *array)
{
    struct ks_cbor_container container;
    bool more = true;

    KS_TRY(ks_cbor_array(view, &container));
    for (;;) {
        json_t *item = NULL;
        KS_TRY(ks_cbor_more(view, &container, &more));
        if (!more)
            return KS_OK;
        KS_TRY(meaning(view, depth + 1, &item));
        json_array_append_new(array, item);
    }
}

static ks_err read_map(ks_view *view, int depth, json_t *object)
{
    struct ks_cbor_container container;
    bool more = true;

    KS_TRY(ks_cbor_map(view, &container));
    for (;;) {
        struct ks_cbor_string name;
        json_t *item = NULL;
        KS_TRY(ks_cbor_more(view, &container, &more));
        if (!more)
            return KS_OK;
        KS_TRY(ks_cbor_text(view, &name));
        char *copy = copy_of(&name);
        ks_err err = meaning(view, depth + 1, &item);
        if (ks_ok(err))
            json_object_set_new(object, copy, item);
        free(copy);
        KS_TRY(err);
    }
}

static ks_err read_scalar(ks_view *view, enum ks_cbor_type type, json_t **ret_json)
{
    struct ks_cbor_string string;
    int64_t number = 0;
    bool flag = false;
    bool timestamp = view->data[0] == 0xc1;

    if (timestamp) {
        KS_TRY(ks_cbor_unix_ms(view, &number));
        *ret_json = json_pack("{s:I}", "unix_ms", (json_int_t)number);
    } else if (type == KS_CBOR_INTEGER) {
        KS_TRY(ks_cbor_i64(view, &number));
        *ret_json = json_integer(number);
    } else if (type == KS_CBOR_TEXT) {
        KS_TRY(ks_cbor_text(view, &string));
        char *copy = copy_of(&string);
        *ret_json = json_stringn(copy, string.size);
        free(copy);
    } else if (type == KS_CBOR_BYTES) {
        KS_TRY(ks_cbor_bytes(view, &string));
        *ret_json = bytes_json(&string);
    } else if (type == KS_CBOR_BOOL) {
        KS_TRY(ks_cbor_bool(view, &flag));
        *ret_json = json_boolean(flag);
    } else {
        if (!ks_cbor_null(view))
            return KS_FAIL(MALFORMED);
        *ret_json = json_null();
    }
    return KS_OK;
}

static ks_err meaning(ks_view *view, int depth, json_t **ret_json)
{
    enum ks_cbor_type type;
    json_t *json = NULL;
    ks_err err = depth < DEPTH_MAX ? ks_cbor_peek(*view, &type) : KS_FAIL(MALFORMED);

    KS_TRY(err);
    if (type == KS_CBOR_ARRAY)
        err = read_array(view, depth, json = json_array());
    else if (type == KS_CBOR_MAP)
        err = read_map(view, depth, json = json_object());
    else
        err = read_scalar(view, type, &json);
    if (!ks_ok(err)) {
        json_decref(json);
        return err;
    }
    *ret_json = json;
    return KS_OK;
}

/* All of `view` is one item. */
static ks_err whole_meaning(ks_view view, json_t **ret_json)
{
    KS_TRY(meaning(&view, 0, ret_json));
    if (view.size == 0)
        return KS_OK;
    json_decref(*ret_json);
    return KS_FAIL(MALFORMED);
}

static void expect_meaning(const json_t *one, ks_view view)
{
    const json_t *expected = json_object_get(one, "expect");
    ks_view rest = view;
    json_t *actual = NULL;

    ks_err skipped = ks_cbor_skip(&rest);
    ks_err err = whole_meaning(view, &actual);
    if (expected == NULL) {
        if (ks_ok(err) || (ks_ok(skipped) && rest.size == 0))
            FAIL("%s: was read, and is no item", vectors_text(one, "name"));
        return;
    }
    if (!ks_ok(err) || !json_equal(actual, expected))
        FAIL("%s: %s, not %s", vectors_text(one, "name"),
             ks_ok(err) ? json_dumps(actual, JSON_ENCODE_ANY) : ks_err_name(err),
             json_dumps(expected, JSON_ENCODE_ANY));
    EXPECT_OK(skipped);
    EXPECT_EQ_U64(rest.size, 0);
    json_decref(actual);
}

/* --- Our writer --- */

static ks_err write_json(struct ks_bytes *bytes, json_t *json)
{
    const char *name;
    json_t *item;
    size_t index;

    if (json_is_string(json))
        return ks_cbor_put_text(bytes,
                                ks_view_of(json_string_value(json), json_string_length(json)));
    if (json_is_integer(json))
        return ks_cbor_put_i64(bytes, json_integer_value(json));
    if (json_is_boolean(json))
        return ks_cbor_put_bool(bytes, json_is_true(json));
    if (json_is_null(json))
        return ks_cbor_put_null(bytes);
    if (json_is_array(json)) {
        KS_TRY(ks_cbor_put_array(bytes, json_array_size(json)));
        json_array_foreach(json, index, item) KS_TRY(write_json(bytes, item));
        return KS_OK;
    }
    if (json_object_get(json, "unix_ms") != NULL)
        return ks_cbor_put_unix_ms(bytes, json_integer_value(json_object_get(json, "unix_ms")));
    if (json_object_get(json, "bytes") != NULL) {
        uint8_t content[ITEM_MAX];
        ks_view hex = ks_view_text(vectors_text(json, "bytes"));
        EXPECT_OK(ks_hex_decode(hex, content));
        return ks_cbor_put_bytes(bytes, ks_view_of(content, hex.size / 2));
    }
    KS_TRY(ks_cbor_put_map(bytes, json_object_size(json)));
    json_object_foreach(json, name, item)
    {
        KS_TRY(ks_cbor_put_text(bytes, ks_view_text(name)));
        KS_TRY(write_json(bytes, item));
    }
    return KS_OK;
}

static void expect_written(const json_t *one, ks_view view)
{
    struct ks_bytes bytes;

    ks_bytes_init(&bytes, ITEM_MAX);
    EXPECT_OK(write_json(&bytes, json_object_get(one, "expect")));
    if (!ks_view_equal(ks_bytes_view(&bytes), view))
        FAIL("%s: is written differently", vectors_text(one, "name"));
    ks_bytes_free(&bytes);
}

TEST(own_items_mean_what_cbor2_says)
{
    static uint8_t buffer[ITEM_MAX];
    json_t *root = vectors_load("tests/vectors/cbor.json");
    const json_t *cases = json_object_get(root, "cases");

    for (size_t at = 0; at < json_array_size(cases); at++) {
        const json_t *one = json_array_get(cases, at);
        ks_view view = read_hex(one, buffer);

        expect_meaning(one, view);
        if (json_is_true(json_object_get(one, "canonical")))
            expect_written(one, view);
    }
    vectors_read(json_array_size(cases), 60, "tests/vectors/cbor.json");
    json_decref(root);
}

/* Every beginning of an item is no item. */
TEST(own_items_that_break_off_are_refused)
{
    static uint8_t buffer[ITEM_MAX];
    json_t *root = vectors_load("tests/vectors/cbor.json");
    const json_t *cases = json_object_get(root, "cases");

    for (size_t at = 0; at < json_array_size(cases); at++) {
        const json_t *one = json_array_get(cases, at);
        ks_view view = read_hex(one, buffer);

        for (size_t size = 0; json_object_get(one, "expect") != NULL && size < view.size; size++) {
            json_t *json = NULL;
            ks_view part = ks_view_of(buffer, size);
            EXPECT(!ks_ok(whole_meaning(part, &json)));
            EXPECT(!ks_ok(ks_cbor_skip(&part)));
            EXPECT_EQ_U64(part.size, size);
        }
    }
    json_decref(root);
}

/* --- Bodies of Kinesis --- */

static ks_err read_members(ks_view *view, json_t *object);

static ks_err read_data(ks_view *view, json_t *object)
{
    struct ks_cbor_string data;
    enum ks_cbor_type type;
    uint8_t bytes[256];
    char hex[512];
    size_t size = 0;

    KS_TRY(ks_cbor_peek(*view, &type));
    if (type == KS_CBOR_TEXT) {
        KS_TRY(ks_cbor_text(view, &data));
        KS_TRY(ks_base64_decode(data.bytes, bytes, &size));
    } else {
        KS_TRY(ks_cbor_bytes(view, &data));
        EXPECT(data.size <= sizeof(bytes));
        ks_cbor_string_copy(&data, bytes);
        size = data.size;
    }
    ks_hex_encode(ks_view_of(bytes, size), hex);
    json_object_set_new(object, "Data_hex", json_stringn(hex, 2 * size));
    return KS_OK;
}

static ks_err read_time(ks_view *view, const char *name, json_t *object)
{
    char member[80];
    int64_t ms = 0;

    KS_TRY(ks_cbor_unix_ms(view, &ms));
    snprintf(member, sizeof(member), "%s_ms", name);
    json_object_set_new(object, member, json_integer(ms));
    return KS_OK;
}

static ks_err read_records(ks_view *view, json_t *array)
{
    struct ks_cbor_container records;
    bool more = true;

    KS_TRY(ks_cbor_array(view, &records));
    for (;;) {
        KS_TRY(ks_cbor_more(view, &records, &more));
        if (!more)
            return KS_OK;
        json_t *record = json_object();
        json_array_append_new(array, record);
        KS_TRY(read_members(view, record));
    }
}

/* One member in the terms of the file, as an adapter would read it. */
static ks_err read_member(ks_view *view, const struct ks_cbor_string *name, json_t *object)
{
    char text[64];
    json_t *json = NULL;

    KS_TRY(ks_cbor_string_copy_text(name, text, sizeof(text)));
    if (strcmp(text, "ApproximateArrivalTimestamp") == 0 || strcmp(text, "Timestamp") == 0)
        return read_time(view, text, object);
    if (strcmp(text, "Data") == 0)
        return read_data(view, object);
    if (strcmp(text, "EncryptionType") == 0)
        return ks_cbor_skip(view);
    if (strcmp(text, "Records") == 0) {
        json_object_set_new(object, text, json = json_array());
        return read_records(view, json);
    }
    KS_TRY(meaning(view, 0, &json));
    json_object_set_new(object, text, json);
    return KS_OK;
}

static ks_err read_members(ks_view *view, json_t *object)
{
    struct ks_cbor_container map;
    struct ks_cbor_string name;
    bool more = true;

    KS_TRY(ks_cbor_map(view, &map));
    for (;;) {
        KS_TRY(ks_cbor_more(view, &map, &more));
        if (!more)
            return KS_OK;
        KS_TRY(ks_cbor_text(view, &name));
        KS_TRY(read_member(view, &name, object));
    }
}

/* In the file null stands for a member that is not there. */
static void drop_nulls(json_t *object)
{
    const char *name;
    json_t *value;
    void *next;

    json_object_foreach_safe(object, next, name, value)
    {
        if (json_is_null(value))
            json_object_del(object, name);
    }
}

TEST(bodies_of_kinesis_agree)
{
    static uint8_t buffer[ITEM_MAX];
    char path[VECTORS_PATH_MAX];

    if (!vectors_path("cbor/cbor.json", "bodies of Kinesis", path))
        return;
    json_t *root = vectors_load(path);
    const json_t *cases = json_object_get(root, "cases");

    for (size_t at = 0; at < json_array_size(cases); at++) {
        const json_t *one = json_array_get(cases, at);
        json_t *expected = json_object_get(one, "expect");
        ks_view view = read_hex(one, buffer);
        json_t *actual = json_object();
        ks_err err = read_members(&view, actual);

        drop_nulls(expected);
        if (json_is_null(expected) ? ks_ok(err) : !ks_ok(err) || !json_equal(actual, expected))
            FAIL("%s: %s: %s, not %s", vectors_text(one, "name"), ks_err_name(err),
                 json_dumps(actual, 0), json_dumps(expected, JSON_ENCODE_ANY));
        json_decref(actual);
    }
    vectors_read(json_array_size(cases), 1, path);
    json_decref(root);
}
