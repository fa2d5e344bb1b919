/* SPDX-License-Identifier: Apache-2.0 */
/* Most of the reader and the writer is tested by tests/vectors/cbor_test.c; here is what JSON
 * cannot say. */
#include "aws/cbor.h"

#include "ks_test.h"

#include "aws/limits.h"

#include <string.h>

static ks_err time_of(ks_view bytes, int64_t *ret_ms)
{
    return ks_cbor_unix_ms(&bytes, ret_ms);
}

static void expect_time(ks_view bytes, int64_t expected)
{
    int64_t ms = 0;

    EXPECT_OK(time_of(bytes, &ms));
    EXPECT_EQ_I64(ms, expected);
}

TEST(timestamps_are_read_in_every_spelling)
{
    expect_time(KS_VIEW("\xc1\x1b\x00\x00\x01\xa0\x13\xac\xcc\x38"), 1787036486712);
    expect_time(KS_VIEW("\x1b\x00\x00\x01\xa0\x13\xac\xcc\x38"), 1787036486712);
    expect_time(KS_VIEW("\xc1\xfb\x42\x7a\x01\x3a\xcc\xc3\x80\x00"), 1787036486712);
    expect_time(KS_VIEW("\xc1\xfb\x41\xda\xa1\x00\xd1\xad\x91\x68"), 1787036486712);
    /* Whole seconds, as an integer and as a float of four bytes; 1.5 s as one of two. */
    expect_time(KS_VIEW("\x1a\x6a\x84\x03\x46"), 1787036486000);
    expect_time(KS_VIEW("\xfa\x4e\xd5\x08\x07"), 1787036544000);
    expect_time(KS_VIEW("\xf9\x3e\x00"), 1500);
    expect_time(KS_VIEW("\xf9\xbe\x00"), -1500);
    expect_time(KS_VIEW("\xf9\x00\x00"), 0);
    expect_time(KS_VIEW("\xf9\x7b\xff"), 65504000);
    expect_time(KS_VIEW("\x00"), 0);
}

TEST(what_is_no_timestamp_is_refused)
{
    int64_t ms = 0;

    EXPECT(ks_err_is(time_of(KS_VIEW("\xf9\x7e\x00"), &ms), KS_ERR_MALFORMED)); /* NaN. */
    EXPECT(ks_err_is(time_of(KS_VIEW("\xf9\xfc\x00"), &ms), KS_ERR_MALFORMED)); /* -Infinity. */
    EXPECT(ks_err_is(time_of(KS_VIEW("\xfb\x7f\xf8\0\0\0\0\0\0"), &ms), KS_ERR_MALFORMED));
    EXPECT(
        ks_err_is(time_of(KS_VIEW("\xfb\x7f\xef\xff\xff\xff\xff\xff\xff"), &ms), KS_ERR_MALFORMED));
    EXPECT(
        ks_err_is(time_of(KS_VIEW("\x1b\xff\xff\xff\xff\xff\xff\xff\xff"), &ms), KS_ERR_MALFORMED));
    EXPECT(ks_err_is(time_of(KS_VIEW("\xf6"), &ms), KS_ERR_MALFORMED));
    EXPECT(ks_err_is(time_of(KS_VIEW("\x61x"), &ms), KS_ERR_MALFORMED));
    EXPECT(ks_err_is(time_of(KS_VIEW("\xff"), &ms), KS_ERR_MALFORMED));
}

TEST(integers_that_do_not_fit_are_refused)
{
    ks_view most = KS_VIEW("\x1b\x7f\xff\xff\xff\xff\xff\xff\xff");
    ks_view least = KS_VIEW("\x3b\x7f\xff\xff\xff\xff\xff\xff\xff");
    ks_view above = KS_VIEW("\x1b\x80\0\0\0\0\0\0\0");
    ks_view below = KS_VIEW("\x3b\x80\0\0\0\0\0\0\0");
    int64_t value = 0;

    EXPECT_OK(ks_cbor_i64(&most, &value));
    EXPECT_EQ_I64(value, INT64_MAX);
    EXPECT_OK(ks_cbor_i64(&least, &value));
    EXPECT_EQ_I64(value, INT64_MIN);
    EXPECT(ks_err_is(ks_cbor_i64(&above, &value), KS_ERR_MALFORMED));
    EXPECT(ks_err_is(ks_cbor_i64(&below, &value), KS_ERR_MALFORMED));
    EXPECT_EQ_U64(above.size, 9);
}

TEST(types_are_told_behind_tags)
{
    static const struct {
        const char *bytes;
        enum ks_cbor_type type;
    } cases[] = {{"\x05", KS_CBOR_INTEGER},   {"\x25", KS_CBOR_INTEGER},
                 {"\x41x", KS_CBOR_BYTES},    {"\x61x", KS_CBOR_TEXT},
                 {"\x81\x01", KS_CBOR_ARRAY}, {"\xa1\x01\x01", KS_CBOR_MAP},
                 {"\xf5", KS_CBOR_BOOL},      {"\xf6", KS_CBOR_NULL},
                 {"\xf7", KS_CBOR_NULL},      {"\xfa\x01\x01\x01\x01", KS_CBOR_FLOAT},
                 {"\xe5", KS_CBOR_OTHER},     {"\xf8\x55", KS_CBOR_OTHER},
                 {"\xff", KS_CBOR_BREAK},     {"\xc1\xd8\x25\x61x", KS_CBOR_TEXT}};
    enum ks_cbor_type type;

    for (size_t at = 0; at < sizeof(cases) / sizeof(cases[0]); at++) {
        EXPECT_OK(ks_cbor_peek(ks_view_text(cases[at].bytes), &type));
        EXPECT_EQ_I64(type, cases[at].type);
    }
    EXPECT(ks_err_is(ks_cbor_peek(KS_VIEW_NONE, &type), KS_ERR_MALFORMED));
}

TEST(chunked_strings_are_compared_and_copied)
{
    ks_view view = KS_VIEW("\x7f\x62he\x60\x63llo\xff\x01");
    struct ks_cbor_string text;
    char copy[6];

    EXPECT_OK(ks_cbor_text(&view, &text));
    EXPECT_EQ_U64(view.size, 1);
    EXPECT(text.chunked);
    EXPECT(ks_cbor_string_is(&text, "hello"));
    EXPECT(!ks_cbor_string_is(&text, "hellO"));
    EXPECT(!ks_cbor_string_is(&text, "hell"));
    EXPECT(!ks_cbor_string_is(&text, "hello!"));
    EXPECT_OK(ks_cbor_string_copy_text(&text, copy, sizeof(copy)));
    EXPECT_STR(copy, "hello");
    EXPECT(ks_err_is(ks_cbor_string_copy_text(&text, copy, 5), KS_ERR_FULL));
}

TEST(the_end_of_a_container_is_told_again)
{
    ks_view view = KS_VIEW("\x9f\x01\xff\x02");
    struct ks_cbor_container array;
    int64_t value = 0;
    bool more = false;

    EXPECT_OK(ks_cbor_array(&view, &array));
    EXPECT_OK(ks_cbor_more(&view, &array, &more));
    EXPECT(more);
    EXPECT_OK(ks_cbor_i64(&view, &value));
    for (int i = 0; i < 3; i++) {
        EXPECT_OK(ks_cbor_more(&view, &array, &more));
        EXPECT(!more);
    }
    EXPECT_OK(ks_cbor_i64(&view, &value));
    EXPECT_EQ_I64(value, 2);
}

TEST(skipping_goes_only_so_deep)
{
    uint8_t deep[4 * KS_CBOR_DEPTH_MAX];
    ks_view view;

    memset(deep, 0x81, sizeof(deep));
    deep[KS_CBOR_DEPTH_MAX] = 0x01;
    view = ks_view_of(deep, KS_CBOR_DEPTH_MAX + 1);
    EXPECT_OK(ks_cbor_skip(&view));
    deep[KS_CBOR_DEPTH_MAX] = 0x81;
    deep[KS_CBOR_DEPTH_MAX + 1] = 0x01;
    view = ks_view_of(deep, KS_CBOR_DEPTH_MAX + 2);
    EXPECT(ks_err_is(ks_cbor_skip(&view), KS_ERR_MALFORMED));
    /* Tags are no containers: a row of them ends in nothing, and costs no stack. */
    memset(deep, 0xc1, sizeof(deep));
    view = ks_view_of(deep, sizeof(deep));
    EXPECT(ks_err_is(ks_cbor_skip(&view), KS_ERR_MALFORMED));
}

TEST(writing_stops_at_the_limit)
{
    struct ks_bytes bytes;

    ks_bytes_init(&bytes, 4);
    EXPECT_OK(ks_cbor_put_text(&bytes, KS_VIEW("abc")));
    EXPECT(ks_err_is(ks_cbor_put_i64(&bytes, 1), KS_ERR_FULL));
    ks_bytes_free(&bytes);
}
