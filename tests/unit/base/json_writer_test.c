/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_writer.h"
#include "ks_test.h"

#include <string.h>

static struct ks_bytes out;

static const char *written(void)
{
    EXPECT_OK(ks_bytes_append_byte(&out, '\0'));
    return (const char *)out.data;
}

TEST(values_commas_and_lines)
{
    struct ks_writer json;

    ks_bytes_init(&out, 4096);
    ks_writer_begin(&json, &out);
    ks_writer_open(&json, '{');
    ks_writer_key(&json, "a");
    ks_writer_open(&json, '[');
    ks_writer_u64(&json, UINT64_MAX);
    ks_writer_i64(&json, -1);
    ks_writer_bool(&json, true);
    ks_writer_null(&json);
    ks_writer_instant(&json, 1);
    ks_writer_instant(&json, 0);
    ks_writer_base64(&json, KS_VIEW("hi"));
    ks_writer_close(&json, ']');
    ks_writer_key(&json, "b");
    ks_writer_open(&json, '{');
    ks_writer_close(&json, '}');
    ks_writer_close(&json, '}');
    ks_writer_line(&json);
    ks_writer_string(&json, "next");
    EXPECT_OK(ks_writer_end(&json));
    EXPECT_STR(written(), "{\"a\":[18446744073709551615,-1,true,null,\"1970-01-01T00:00:00.001Z\","
                          "null,\"aGk=\"],\"b\":{}}\n\"next\"");
    ks_bytes_free(&out);
}

TEST(what_is_not_plain_is_escaped_and_what_is_not_utf8_replaced)
{
    struct ks_writer json;

    ks_bytes_init(&out, 4096);
    ks_writer_begin(&json, &out);
    ks_writer_text(&json, ks_view_of("a\"\\\n\x01\x7f\0\xc3\xa9\xff\xe2\x82", 12));
    EXPECT_OK(ks_writer_end(&json));
    EXPECT_STR(written(),
               "\"a\\\"\\\\\\n\\u0001\\u007f\\u0000\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
    ks_bytes_free(&out);
}

TEST(text_without_bytes_is_an_empty_string)
{
    struct ks_writer json;

    ks_bytes_init(&out, 4096);
    ks_writer_begin(&json, &out);
    ks_writer_text(&json, KS_VIEW_NONE);
    EXPECT_OK(ks_writer_end(&json));
    EXPECT_STR(written(), "\"\"");
    ks_bytes_free(&out);
}

TEST(the_escaped_size_is_what_is_written)
{
    uint8_t all[512];
    char buffer[6 * sizeof(all)];
    ks_view view = {all, sizeof(all)};

    for (size_t i = 0; i < sizeof(all); i++)
        all[i] = (uint8_t)(i * 7);
    EXPECT_EQ_U64(ks_writer_escape(view, buffer), ks_writer_escaped_size(view));
}

TEST(a_full_buffer_is_told_at_the_end)
{
    struct ks_writer json;

    ks_bytes_init(&out, 8);
    ks_writer_begin(&json, &out);
    ks_writer_string(&json, "longer than eight");
    ks_writer_u64(&json, 1);
    EXPECT_ERR(ks_writer_end(&json), FULL);
    ks_bytes_free(&out);
}

TEST(members_are_written_straight_down)
{
    struct ks_writer json;

    ks_bytes_init(&out, 4096);
    ks_writer_begin_strict(&json, &out);
    ks_writer_open(&json, '{');
    ks_writer_pair(&json, "Table", KS_VIEW("a \"b\"\xc3\xa4"));
    ks_writer_key(&json, "Low");
    ks_writer_i64(&json, INT64_MIN);
    ks_writer_key(&json, "Time");
    ks_writer_unix_ms(&json, 1787036486007);
    ks_writer_key(&json, "Early");
    ks_writer_unix_ms(&json, -1);
    ks_writer_key_text(&json, KS_VIEW(":v\""));
    ks_writer_open(&json, '[');
    ks_writer_open(&json, '[');
    ks_writer_close(&json, ']');
    ks_writer_close(&json, ']');
    ks_writer_close(&json, '}');
    EXPECT_OK(ks_writer_end(&json));
    EXPECT_STR(written(), "{\"Table\":\"a \\\"b\\\"\xc3\xa4\",\"Low\":-9223372036854775808,"
                          "\"Time\":1787036486.007,\"Early\":-0.001,\":v\\\"\":[[]]}");
    ks_bytes_free(&out);
}

TEST(the_strict_writer_changes_no_text)
{
    struct ks_writer json;

    ks_bytes_init(&out, 100);
    ks_writer_begin_strict(&json, &out);
    ks_writer_open(&json, '[');
    ks_writer_text(&json, KS_VIEW("\xff"));
    ks_writer_u64(&json, 1);
    ks_writer_close(&json, ']');
    EXPECT_ERR(ks_writer_end(&json), INVALID);
    ks_bytes_free(&out);
}

TEST(brackets_nest_to_64)
{
    struct ks_writer json;

    ks_bytes_init(&out, 4096);
    ks_writer_begin(&json, &out);
    for (int i = 0; i < 32; i++) {
        ks_writer_open(&json, '{');
        ks_writer_key(&json, "");
        ks_writer_open(&json, '[');
    }
    for (int i = 0; i < 32; i++) {
        ks_writer_close(&json, ']');
        ks_writer_close(&json, '}');
    }
    EXPECT_OK(ks_writer_end(&json));
    EXPECT_EQ_U64(out.size, 32 * 7);
    ks_bytes_free(&out);
}

TEST(escaped_text_is_appended)
{
    ks_bytes_init(&out, 16);
    EXPECT_OK(ks_writer_append_escaped(&out, KS_VIEW("a\"b\\c\n\xc3\xa9")));
    EXPECT_ERR(ks_writer_append_escaped(&out, KS_VIEW("too long for it")), FULL);
    EXPECT_STR(written(), "a\\\"b\\\\c\\n\xc3\xa9");
    ks_bytes_free(&out);
}
