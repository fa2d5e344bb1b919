/* SPDX-License-Identifier: Apache-2.0 */
#include "base/pattern_json.h"

#include "ks_test.h"

#include <stdio.h>

static char story[1024];

/* Returns the tokens of `json`: a letter for each, and its text. */
static const char *read_all(ks_view json)
{
    static const char letters[] = "{}[]:snTFN.!";
    struct ks_pattern_reader reader;
    struct ks_pattern_token token = {.kind = KS_PATTERN_NULL};
    size_t size = 0;

    ks_pattern_reader_init(&reader, json);
    while (token.kind != KS_PATTERN_END && token.kind != KS_PATTERN_WRONG) {
        bool text;
        ks_pattern_reader_next(&reader, &token);
        text = token.kind == KS_PATTERN_NAME || token.kind == KS_PATTERN_STRING ||
               token.kind == KS_PATTERN_NUMBER;
        size += (size_t)snprintf(story + size, sizeof(story) - size, "%c%.*s%s",
                                 letters[token.kind], text ? (int)token.text.size : 0,
                                 text ? (const char *)token.text.data : "", text ? "~" : "");
    }
    return story;
}

static bool is_json(ks_view json)
{
    const char *read = read_all(json);

    return read[strlen(read) - 1] == '.';
}

TEST(values_are_read_as_tokens)
{
    EXPECT_STR(read_all(KS_VIEW("{}")), "{}.");
    EXPECT_STR(read_all(KS_VIEW(" [ ] \r\n\t")), "[].");
    EXPECT_STR(read_all(KS_VIEW("{\"a\":1,\"b\" : [true,false , null,\"x\"]}")),
               "{:a~n1~:b~[TFNsx~]}.");
    EXPECT_STR(read_all(KS_VIEW("[[],{},[{\"\":-0.5e+10}]]")), "[[]{}[{:~n-0.5e+10~}]].");
    EXPECT_STR(read_all(KS_VIEW("\"a\\\"\\u00e9 \xC3\xA9\"")), "sa\\\"\\u00e9 \xC3\xA9~.");
    EXPECT_STR(read_all(KS_VIEW("0")), "n0~.");
}

TEST(text_that_is_not_json_is_wrong)
{
    static const char *const bad[] = {"",
                                      " ",
                                      "{",
                                      "[",
                                      "}",
                                      "]",
                                      "[1",
                                      "[1,",
                                      "[1,]",
                                      "[,]",
                                      "[1 2]",
                                      "{\"a\"}",
                                      "{\"a\":}",
                                      "{\"a\":1,}",
                                      "{a:1}",
                                      "{,}",
                                      "{\"a\" 1}",
                                      "[}",
                                      "{]",
                                      "01",
                                      "+1",
                                      ".5",
                                      "1.",
                                      "1e",
                                      "1e+",
                                      "-",
                                      "nul",
                                      "nulll",
                                      "True",
                                      "NaN",
                                      "'a'",
                                      "\"",
                                      "\"a",
                                      "\"\\",
                                      "\"\\x\"",
                                      "\"\\u12\"",
                                      "\"\\u12g4\"",
                                      "\"\n\"",
                                      "\"\\ud800\"",
                                      "\"\\ude00\"",
                                      "\"\\ud800\\n\"",
                                      "\"\\ud800\\u0041\"",
                                      "\"\xFF\"",
                                      "\"\xC3\"",
                                      "\"\xED\xA0\x80\"",
                                      "1 2",
                                      "{}{}",
                                      "[] x",
                                      "\xEF\xBB\xBF{}",
                                      "// no\n1",
                                      "\"abcdefgh\xFFijk\"",
                                      "{\"a\":1 \"b\":2}"};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (is_json(ks_view_text(bad[i])))
            FAIL("read as JSON: %s", bad[i]);
    }
    EXPECT(!is_json(KS_VIEW_NONE));
    EXPECT(!is_json(KS_VIEW("\"\\\0\"")));
    EXPECT(!is_json(KS_VIEW("1\0")));
}

TEST(value_of_sixty_four_levels_is_read_and_no_deeper)
{
    char json[2 * (KS_PATTERN_DEPTH_MAX + 1)];

    memset(json, '[', KS_PATTERN_DEPTH_MAX);
    memset(json + KS_PATTERN_DEPTH_MAX, ']', KS_PATTERN_DEPTH_MAX);
    EXPECT(is_json(ks_view_of(json, 2 * KS_PATTERN_DEPTH_MAX)));
    memset(json, '[', KS_PATTERN_DEPTH_MAX + 1);
    memset(json + KS_PATTERN_DEPTH_MAX + 1, ']', KS_PATTERN_DEPTH_MAX + 1);
    EXPECT(!is_json(ks_view_of(json, sizeof(json))));
}

TEST(string_ends_at_its_quotation_mark_wherever_that_is)
{
    char json[40];

    for (size_t size = 0; size < 30; size++) {
        struct ks_pattern_reader reader;
        struct ks_pattern_token token;
        memset(json, 'x', sizeof(json));
        json[0] = '"';
        json[size + 1] = '"';
        ks_pattern_reader_init(&reader, ks_view_of(json, size + 2));
        ks_pattern_reader_next(&reader, &token);
        EXPECT_EQ_I64(token.kind, KS_PATTERN_STRING);
        EXPECT_EQ_U64(token.text.size, size);
        EXPECT(!token.escaped);
        json[size / 2 + 1] = '\x1F';
        EXPECT(!is_json(ks_view_of(json, size + 2)));
    }
}

TEST(wrong_text_is_reported_with_its_byte)
{
    struct ks_pattern_reader reader;
    struct ks_pattern_token token;

    ks_pattern_reader_init(&reader, KS_VIEW("[1,x]"));
    for (int i = 0; i < 3; i++)
        ks_pattern_reader_next(&reader, &token);
    EXPECT_EQ_I64(token.kind, KS_PATTERN_WRONG);
    EXPECT_EQ_U64(reader.at, 3);
    EXPECT_STR(reader.wrong, "expected a value");
}

static void expect_points(ks_view text, bool escaped, const int32_t *points)
{
    struct ks_pattern_text reader;

    ks_pattern_text_init(&reader, text, escaped);
    for (; *points != -1; points++)
        EXPECT_EQ_I64(ks_pattern_text_point(&reader), *points);
    EXPECT_EQ_I64(ks_pattern_text_point(&reader), -1);
}

TEST(escapes_are_read_as_the_characters_they_represent)
{
    static const int32_t simple[] = {'"', '\\', '/', '\b', '\f', '\n', '\r', '\t', -1};
    static const int32_t unicode[] = {0, 'A', 0xE9, 0x20AC, 0x1F600, 'b', -1};
    static const int32_t plain[] = {'\\', 'n', -1};

    expect_points(KS_VIEW("\\\"\\\\\\/\\b\\f\\n\\r\\t"), true, simple);
    expect_points(KS_VIEW("\\u0000\\u0041\\u00e9\\u20AC\\ud83d\\uDE00b"), true, unicode);
    expect_points(KS_VIEW("\\n"), false, plain);
    expect_points(KS_VIEW("\0A\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"
                          "b"),
                  false, unicode);
}

TEST(bytes_that_are_not_a_character_are_points_of_their_own)
{
    static const int32_t points[] = {0x1100FF, 'a', 0x1100C3, -1};

    expect_points(KS_VIEW("\xFF"
                          "a\xC3"),
                  false, points);
}
