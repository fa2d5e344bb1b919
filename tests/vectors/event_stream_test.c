/* SPDX-License-Identifier: Apache-2.0 */
/* event_stream_test.c - our event streams against those of others.
 *
 * tests/vectors/event_stream.json is ours, made by make_event_stream.py. In VECTORS_DIR, where it is set:
 * eventstream/eventstream.json, the cases of botocore and smithy-typescript, and what kinesis-local sent.
 */
#include "ks_test.h"

#include "aws/event_stream.h"
#include "base/codec.h"
#include "vectors/vectors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGE_MAX = 128 * 1024 };

static ks_view read_hex(const char *text, uint8_t buffer[MESSAGE_MAX])
{
    ks_view hex = ks_view_text(text);

    EXPECT(hex.size / 2 <= MESSAGE_MAX);
    EXPECT_OK(ks_hex_decode(hex, buffer));
    return ks_view_of(buffer, hex.size / 2);
}

static ks_err read_whole(ks_view bytes, struct ks_event *ret_event)
{
    size_t size = 0;

    KS_TRY(ks_event_size(bytes, &size));
    if (size == 0 || size > bytes.size)
        return KS_FAIL(MALFORMED);
    return ks_event_read(ks_view_of(bytes.data, size), ret_event);
}

static void expect_hex(ks_view bytes, const char *hex)
{
    char *found = calloc(1, 2 * bytes.size + 1);

    ks_hex_encode(bytes, found);
    EXPECT_STR(found, hex);
    free(found);
}

static void expect_value(const struct ks_event_header *header, const json_t *value)
{
    switch (header->type) {
    case KS_EVENT_TRUE:
    case KS_EVENT_FALSE: EXPECT_EQ_U64(header->value.size, 0); break;
    case KS_EVENT_I8:
    case KS_EVENT_I16:
    case KS_EVENT_I32:
    case KS_EVENT_I64:
    case KS_EVENT_TIMESTAMP: EXPECT_EQ_I64(header->number, json_integer_value(value)); break;
    case KS_EVENT_TEXT:
        EXPECT(ks_view_equal(header->value, ks_view_text(json_string_value(value))));
        break;
    case KS_EVENT_BYTES:
    case KS_EVENT_UUID: expect_hex(header->value, json_string_value(value)); break;
    }
}

/* Headers are [name, type, value], or objects of these. */
static void expect_headers(ks_view headers, const json_t *expected)
{
    struct ks_event_header header;

    for (size_t at = 0; at < json_array_size(expected); at++) {
        const json_t *one = json_array_get(expected, at);
        bool listed = json_is_array(one);

        EXPECT_OK(ks_event_take_header(&headers, &header));
        EXPECT(ks_view_equal(header.name,
                             ks_view_text(listed ? json_string_value(json_array_get(one, 0))
                                                 : vectors_text(one, "name"))));
        EXPECT_EQ_I64(header.type, json_integer_value(listed ? json_array_get(one, 1)
                                                             : json_object_get(one, "type")));
        expect_value(&header, listed ? json_array_get(one, 2) : json_object_get(one, "value"));
    }
    EXPECT_EQ_U64(headers.size, 0);
}

static size_t expect_good(const json_t *cases, const char *payload)
{
    static uint8_t buffer[MESSAGE_MAX];
    const char *name;
    json_t *one;

    json_object_foreach((json_t *)(uintptr_t)cases, name, one)
    {
        struct ks_event event;
        ks_view bytes = read_hex(vectors_text(one, "hex"), buffer);

        if (!ks_ok(read_whole(bytes, &event)))
            FAIL("%s is not read", name);
        expect_headers(event.headers, json_object_get(one, "headers"));
        expect_hex(event.payload, vectors_text(one, payload));
    }
    return json_object_size(cases);
}

/* Cases are texts, or objects with a member "hex". Of two headers of one name the first counts: that is none. */
static size_t expect_bad(const json_t *cases)
{
    static uint8_t buffer[MESSAGE_MAX];
    const char *name;
    json_t *one;

    json_object_foreach((json_t *)(uintptr_t)cases, name, one)
    {
        const char *hex = json_is_string(one) ? json_string_value(one) : vectors_text(one, "hex");
        struct ks_event event;
        bool twice = strcmp(name, "duplicate_header") == 0;

        if (ks_ok(read_whole(read_hex(hex, buffer), &event)) != twice)
            FAIL("%s: is %s", name, twice ? "not read" : "read");
    }
    return json_object_size(cases);
}

TEST(our_messages_agree)
{
    static const char path[] = "tests/vectors/event_stream.json";
    json_t *root = vectors_load(path);
    size_t count = expect_good(json_object_get(root, "good"), "payload");

    count += expect_bad(json_object_get(root, "bad"));
    vectors_read(count, 20, path);
    json_decref(root);
}

TEST(messages_of_others_agree)
{
    char path[VECTORS_PATH_MAX];

    if (!vectors_path("eventstream/eventstream.json", "event streams of others", path))
        return;
    json_t *root = vectors_load(path);
    size_t count = expect_good(json_object_get(root, "valid"), "payload_hex");

    count += expect_bad(json_object_get(root, "invalid"));
    vectors_read(count, 20, path);
    json_decref(root);
}
