/* SPDX-License-Identifier: Apache-2.0 */
#include "api/json_text.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/limits.h"
#include "base/json_writer.h"
#include "ks_test.h"

/* ---- Strings ---- */

/* Escapes all of it through buffers of `room` bytes. */
static size_t escape_all(ks_view text, size_t room, uint8_t *out)
{
    size_t size = 0;

    while (text.size > 0) {
        uint8_t *buffer = malloc(room);
        size_t written = ks_json_escape(&text, buffer, room);
        EXPECT(written > 0 && written <= room);
        memcpy(out + size, buffer, written);
        size += written;
        free(buffer);
    }
    return size;
}

TEST(every_byte_that_needs_it_is_escaped_at_any_place)
{
    char text[24];
    char wanted[200];
    uint8_t out[200];

    for (int byte = 0; byte < 0x7F; byte++) {
        for (size_t at = 0; at < sizeof(text); at++) {
            size_t size;
            memset(text, 'x', sizeof(text));
            text[at] = (char)byte;
            size = ks_writer_escape(ks_view_of(text, sizeof(text)), wanted);
            for (size_t room = 6; room < 40; room += 5) {
                EXPECT_EQ_U64(escape_all(ks_view_of(text, sizeof(text)), room, out), size);
                EXPECT_MEM(out, wanted, size);
            }
        }
    }
}

TEST(an_escape_is_never_cut)
{
    ks_view text = KS_VIEW("ab\x01");
    uint8_t out[8];

    EXPECT_EQ_U64(ks_json_escape(&text, out, 7), 2);
    EXPECT_EQ_U64(text.size, 1);
    EXPECT_EQ_U64(ks_json_escape(&text, out, 5), 0);
    EXPECT_EQ_U64(ks_json_escape(&text, out, 6), 6);
    EXPECT_MEM(out, "\\u0001", 6);
    EXPECT_EQ_U64(text.size, 0);
    EXPECT_EQ_U64(ks_json_escape(&text, out, 0), 0);

    text = KS_VIEW("\n");
    EXPECT_EQ_U64(ks_json_escape(&text, out, 1), 0);
    EXPECT_EQ_U64(ks_json_escape(&text, out, 2), 2);
}

/* ---- Values ---- */

static bool is_value(const char *text)
{
    return ks_json_is_value(ks_view_text(text));
}

static void expect_values(const char *const *texts, bool values)
{
    for (; *texts != NULL; texts++)
        if (is_value(*texts) != values)
            FAIL("%s %s a value", *texts, values ? "is" : "is not");
}

TEST(one_value_of_any_kind_is_a_value)
{
    static const char *const values[] = {"null",
                                         " true\n",
                                         "\t\r\nfalse ",
                                         "0",
                                         "-0",
                                         "10",
                                         "-1.50",
                                         "0.0e+00",
                                         "1E-9",
                                         "1e999999",
                                         "123456789012345678901234567890",
                                         "\"\"",
                                         "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\"",
                                         "\"\\ud83d\\uDE00\"",
                                         "\"\\u0000\"",
                                         "\"gr\xC3\xBC\xC3\x9F\x7F\"",
                                         "[]",
                                         "{}",
                                         "[[],{}]",
                                         " [ 1 , { \"a\" : [ ] , \"a\" : null } , \"b\" ] ",
                                         "{\"\":{\"\":{}}}",
                                         "[\"12345678\",\"1234567\\\"\"]",
                                         NULL};

    expect_values(values, true);
}

TEST(what_is_not_exactly_one_value_is_none)
{
    static const char *const others[] = {"",
                                         " ",
                                         "nul",
                                         "nulll",
                                         "True",
                                         "NaN",
                                         "Infinity",
                                         "-",
                                         "+1",
                                         "01",
                                         "-01",
                                         "1.",
                                         ".5",
                                         "1e",
                                         "1e+",
                                         "1.e5",
                                         "0x10",
                                         "1 2",
                                         "1\n2",
                                         "{}{}",
                                         "\"",
                                         "\"\\\"",
                                         "\"\\x\"",
                                         "\"\\u12\"",
                                         "\"\\u12g4\"",
                                         "\"a\nb\"",
                                         "\"a\tb\"",
                                         "\"\x1F\"",
                                         "'a'",
                                         "[",
                                         "]",
                                         "[1",
                                         "[1,",
                                         "[1,]",
                                         "[,1]",
                                         "[1 2]",
                                         "[1}",
                                         "{]",
                                         "{",
                                         "{\"a\"",
                                         "{\"a\":",
                                         "{\"a\":1",
                                         "{\"a\":1,",
                                         "{\"a\":1,}",
                                         "{,}",
                                         "{\"a\" 1}",
                                         "{a:1}",
                                         "{1:1}",
                                         "{\"a\":}",
                                         "[1],",
                                         "[:]",
                                         "/**/1",
                                         "1//",
                                         "\xEF\xBB\xBF"
                                         "1",
                                         "1\v",
                                         "\xC2\xA0"
                                         "1",
                                         "t",
                                         "-a",
                                         NULL};

    expect_values(others, false);
    EXPECT(!ks_json_is_value(KS_VIEW("1\0")));
    EXPECT(!ks_json_is_value(KS_VIEW("\"\0\"")));
    EXPECT(!ks_json_is_value(KS_VIEW_NONE));
}

TEST(text_that_is_no_unicode_is_no_value)
{
    static const char *const others[] = {"\"\xFF\"",
                                         "\"\xC0\xAF\"",
                                         "\"\xED\xA0\x80\"",
                                         "\"\xF4\x90\x80\x80\"",
                                         "\"\xE2\x82\"",
                                         "\"\\ud800\"",
                                         "\"\\udc00\"",
                                         "\"\\udc00\\ud800\"",
                                         "\"\\ud83dx\"",
                                         "\"\\ud83d\\n\"",
                                         "\"\\ud83d\\u0041\"",
                                         "\"\\ud83d\\ud83d\"",
                                         NULL};

    expect_values(others, false);
}

static bool nested_is_value(size_t depth, const char *open, const char *inner, const char *close)
{
    char text[1000] = "";

    for (size_t i = 0; i < depth; i++)
        strcat(text, open);
    strcat(text, inner);
    for (size_t i = 0; i < depth; i++)
        strcat(text, close);
    return is_value(text);
}

TEST(levels_have_a_bound)
{
    EXPECT(nested_is_value(KS_DATA_DEPTH_MAX, "[", "", "]"));
    EXPECT(!nested_is_value(KS_DATA_DEPTH_MAX + 1, "[", "", "]"));
    EXPECT(nested_is_value(KS_DATA_DEPTH_MAX, "{\"a\":", "1", "}"));
    EXPECT(!nested_is_value(KS_DATA_DEPTH_MAX + 1, "{\"a\":", "1", "}"));
    EXPECT(nested_is_value(KS_DATA_DEPTH_MAX / 2, "{\"a\":[", "", "]}"));
    EXPECT(!nested_is_value(200, "[", "", ""));
}

/* Jansson and this one agree on whatever is one byte away from a value. */
TEST(jansson_says_the_same_of_every_single_mistake)
{
    static const char value[] = "{\"k\":[1.5e3,-0,true,null,\"a\\n\\u00e9\"],\"l\":{}}";
    char text[sizeof(value)];

    for (size_t at = 0; at < sizeof(value) - 1; at++) {
        for (int byte = 1; byte < 256; byte++) {
            json_t *read;
            memcpy(text, value, sizeof(text));
            text[at] = (char)byte;
            read = json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
            if (is_value(text) != (read != NULL))
                FAIL("%s", text);
            json_decref(read);
        }
    }
}

TEST(line_breaks_between_tokens_become_spaces)
{
    ks_view text = KS_VIEW("[1,\r\n2,\t\"\\n\"]");
    uint8_t out[64];

    ks_json_copy_on_one_line(text, out);
    EXPECT_MEM(out, "[1,  2,\t\"\\n\"]", text.size);
}
