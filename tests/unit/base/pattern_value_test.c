/* SPDX-License-Identifier: Apache-2.0 */
#include "base/pattern_value.h"

#include "base/pattern.h"
#include "ks_test.h"
#include "unit/base/in_parts.h"

#include <stdio.h>

/* One list of a pattern against one value, both as JSON. */
static bool passes(const char *list, const char *value)
{
    char text[512];
    struct ks_detail detail = {""};
    struct ks_pattern *pattern;
    struct ks_pattern_record record = {.data = ks_view_text(value)};
    bool found;

    snprintf(text, sizeof(text), "{\"data\":%s}", list);
    if (!ks_ok(ks_pattern_compile(ks_view_text(text), &pattern, &detail)))
        FAIL("%s: %s", text, detail.text);
    found = matches_in_parts(pattern, &record);
    ks_pattern_free(pattern);
    return found;
}

static void expect_each(const char *list, const char *const *values, bool expected)
{
    for (; *values != NULL; values++) {
        if (passes(list, *values) != expected)
            FAIL("%s %s %s", list, expected ? "does not match" : "matches", *values);
    }
}

#define VALUES(...) ((const char *const[]){__VA_ARGS__, NULL})

TEST(plain_value_matches_itself_alone)
{
    expect_each("[\"a\"]", VALUES("\"a\"", "\"\\u0061\""), true);
    expect_each("[\"a\"]", VALUES("\"A\"", "\"ab\"", "\"\"", "null", "1", "{\"a\":1}"), false);
    expect_each("[\"\"]", VALUES("\"\""), true);
    expect_each("[\"\"]", VALUES("null", "\" \"", "[]"), false);
    expect_each("[\"\\ud83d\\ude00\\\"\"]", VALUES("\"\xF0\x9F\x98\x80\\\"\""), true);
    expect_each("[true,null]", VALUES("true", "null"), true);
    expect_each("[true,null]", VALUES("false", "\"true\"", "\"null\"", "0"), false);
    expect_each("[\"a\\u0000b\"]", VALUES("\"a\\u0000b\""), true);
    expect_each("[{\"exactly\":\"a\"}]", VALUES("\"a\""), true);
    expect_each("[{\"exactly\":\"a\"}]", VALUES("\"ab\""), false);
}

TEST(number_matches_equal_numbers)
{
    expect_each("[300]", VALUES("300", "300.0", "3e2", "3.0E+2"), true);
    expect_each("[300]", VALUES("301", "\"300\"", "300.0000000001", "3e3"), false);
    expect_each("[12345678901234567890]", VALUES("12345678901234567890"), true);
    expect_each("[12345678901234567890]",
                VALUES("12345678901234567891", "1.2345678901234567890e19"), false);
    expect_each("[0]", VALUES("-0", "0.0"), true);
}

TEST(prefix_and_suffix_match_strings)
{
    expect_each("[{\"prefix\":\"ab\"}]", VALUES("\"ab\"", "\"abc\"", "\"\\u0061b\""), true);
    expect_each("[{\"prefix\":\"ab\"}]", VALUES("\"a\"", "\"\"", "\"xab\"", "\"AB\"", "null"),
                false);
    expect_each("[{\"prefix\":\"\"}]", VALUES("\"\"", "\"x\""), true);
    expect_each("[{\"prefix\":\"\"}]", VALUES("1", "null", "true"), false);
    expect_each("[{\"prefix\":\"1\"}]", VALUES("12"), false);
    expect_each("[{\"suffix\":\"ab\"}]", VALUES("\"ab\"", "\"aab\"", "\"abab\"", "\"a\\u0062\""),
                true);
    expect_each("[{\"suffix\":\"ab\"}]", VALUES("\"b\"", "\"\"", "\"abx\"", "\"AB\"", "7"), false);
    expect_each("[{\"suffix\":\"\"}]", VALUES("\"\"", "\"x\""), true);
    expect_each("[{\"suffix\":\"\"}]", VALUES("1", "null"), false);
    expect_each("[{\"suffix\":\"aab\"}]", VALUES("\"aaaab\"", "\"aabaab\""), true);
}

TEST(case_is_ignored_where_the_pattern_says_so)
{
    expect_each("[{\"equals-ignore-case\":\"K\\u00e4se\"}]",
                VALUES("\"k\\u00e4se\"", "\"K\xC3\x84SE\"", "\"k\\u00C4sE\""), true);
    expect_each("[{\"equals-ignore-case\":\"K\\u00e4se\"}]",
                VALUES("\"kase\"", "\"k\\u00e4s\"", "\"k\\u00e4ses\"", "1"), false);
    expect_each("[{\"equals-ignore-case\":\"\"}]", VALUES("\"\""), true);
    expect_each("[{\"prefix\":{\"equals-ignore-case\":\"eC2\"}}]", VALUES("\"EC2\"", "\"ec2-x\""),
                true);
    expect_each("[{\"prefix\":{\"equals-ignore-case\":\"eC2\"}}]", VALUES("\"e\"", "\"xec2\"", "2"),
                false);
    expect_each("[{\"suffix\":{\"equals-ignore-case\":\".\\u00c4png\"}}]",
                VALUES("\"a.\\u00e4PNG\"", "\".\xC3\xA4png\""), true);
    expect_each("[{\"suffix\":{\"equals-ignore-case\":\".png\"}}]",
                VALUES("\".pngx\"", "\"ng\"", "0"), false);
    expect_each("[{\"equals-ignore-case\":\"\\u00df\"}]", VALUES("\"\\u00df\""), true);
    expect_each("[{\"equals-ignore-case\":\"\\u00df\"}]", VALUES("\"SS\""), false);
}

TEST(wildcard_matches_any_text_at_its_asterisks)
{
    expect_each("[{\"wildcard\":\"*\"}]", VALUES("\"\"", "\"x\""), true);
    expect_each("[{\"wildcard\":\"*\"}]", VALUES("1", "null"), false);
    expect_each("[{\"wildcard\":\"a*b\"}]", VALUES("\"ab\"", "\"aab\"", "\"abab\"", "\"a\\u0062\""),
                true);
    expect_each("[{\"wildcard\":\"a*b\"}]", VALUES("\"a\"", "\"b\"", "\"abx\"", "\"xab\"", "\"\""),
                false);
    expect_each("[{\"wildcard\":\"a*a\"}]", VALUES("\"aa\"", "\"aba\""), true);
    expect_each("[{\"wildcard\":\"a*a\"}]", VALUES("\"a\""), false);
    expect_each("[{\"wildcard\":\"*ab*abc*\"}]",
                VALUES("\"ababc\"", "\"ab abc\"", "\"xababababcx\""), true);
    expect_each("[{\"wildcard\":\"*ab*abc*\"}]", VALUES("\"abc\"", "\"abac\"", "\"abcab\""), false);
    expect_each("[{\"wildcard\":\"*aab\"}]", VALUES("\"aaab\"", "\"aabaab\""), true);
    expect_each("[{\"wildcard\":\"*aab\"}]", VALUES("\"aaba\"", "\"ab\""), false);
    expect_each("[{\"wildcard\":\"a\\\\*\\\\\\\\*\"}]", VALUES("\"a*\\\\\"", "\"a*\\\\x\""), true);
    expect_each("[{\"wildcard\":\"a\\\\*\\\\\\\\*\"}]", VALUES("\"ab\\\\\"", "\"a*\""), false);
    expect_each("[{\"wildcard\":\"a\\\\*\"}]", VALUES("\"a*\""), true);
    expect_each("[{\"wildcard\":\"a\\\\*\"}]", VALUES("\"ab\"", "\"a\\\\*\""), false);
}

TEST(numeric_matches_numbers_in_the_range)
{
    expect_each("[{\"numeric\":[\"=\",5]}]", VALUES("5", "5.0", "50e-1"), true);
    expect_each("[{\"numeric\":[\"=\",5]}]", VALUES("5.1", "\"5\"", "null"), false);
    expect_each("[{\"numeric\":[\"<\",5]}]", VALUES("4.999", "-1e308", "0"), true);
    expect_each("[{\"numeric\":[\"<\",5]}]", VALUES("5", "6", "\"1\"", "true"), false);
    expect_each("[{\"numeric\":[\"<=\",5]}]", VALUES("5", "5.00"), true);
    expect_each("[{\"numeric\":[\"<=\",5]}]", VALUES("5.0000001"), false);
    expect_each("[{\"numeric\":[\">\",-5]}]", VALUES("-4.9", "1e308"), true);
    expect_each("[{\"numeric\":[\">\",-5]}]", VALUES("-5", "-5.1", "1e309"), false);
    expect_each("[{\"numeric\":[\">=\",-5]}]", VALUES("-5"), true);
    expect_each("[{\"numeric\":[\">\",0,\"<=\",5]}]", VALUES("1e-9", "5"), true);
    expect_each("[{\"numeric\":[\">\",0,\"<=\",5]}]", VALUES("0", "-0", "5.1", "[]"), false);
    expect_each("[{\"numeric\":[\">=\",0,\"<\",5]}]", VALUES("0", "-0", "4.9"), true);
    expect_each("[{\"numeric\":[\">=\",0,\"<\",5]}]", VALUES("5", "12345678901234567890"), false);
}

TEST(exists_asks_for_a_value)
{
    expect_each("[{\"exists\":true}]", VALUES("1", "null", "\"\"", "false", "[1]", "[[null]]"),
                true);
    expect_each("[{\"exists\":true}]", VALUES("[]", "{}", "{\"a\":1}", "[{}]"), false);
    expect_each("[{\"exists\":false}]", VALUES("[]", "{}", "{\"a\":1}", "[[],{}]"), true);
    expect_each("[{\"exists\":false}]", VALUES("1", "null", "[1]"), false);
    expect_each("[{\"exists\":false},\"x\"]", VALUES("[]", "\"x\""), true);
    expect_each("[{\"exists\":false},\"x\"]", VALUES("\"y\""), false);
}

TEST(anything_but_excludes_its_values)
{
    expect_each("[{\"anything-but\":\"a\"}]", VALUES("\"b\"", "1", "null", "true", "\"A\""), true);
    expect_each("[{\"anything-but\":\"a\"}]", VALUES("\"a\"", "[]", "{}"), false);
    expect_each("[{\"anything-but\":[\"a\",\"b\"]}]", VALUES("\"c\"", "[\"a\",\"c\"]"), true);
    expect_each("[{\"anything-but\":[\"a\",\"b\"]}]", VALUES("\"a\"", "\"b\"", "[\"a\",\"b\"]"),
                false);
    expect_each("[{\"anything-but\":5}]", VALUES("4", "\"5\"", "12345678901234567890"), true);
    expect_each("[{\"anything-but\":[5,6]}]", VALUES("5", "5.0", "6e0"), false);
    expect_each("[{\"anything-but\":{\"prefix\":\"a\"}}]", VALUES("\"ba\"", "7", "\"\""), true);
    expect_each("[{\"anything-but\":{\"prefix\":[\"a\",\"b\"]}}]", VALUES("\"ax\"", "\"b\""),
                false);
    expect_each("[{\"anything-but\":{\"suffix\":\"a\"}}]", VALUES("\"ab\"", "false"), true);
    expect_each("[{\"anything-but\":{\"suffix\":[\"a\",\"b\"]}}]", VALUES("\"xa\"", "\"b\""),
                false);
    expect_each("[{\"anything-but\":{\"equals-ignore-case\":[\"a\",\"b\"]}}]",
                VALUES("\"ab\"", "0"), true);
    expect_each("[{\"anything-but\":{\"equals-ignore-case\":\"a\"}}]", VALUES("\"A\"", "\"a\""),
                false);
    expect_each("[{\"anything-but\":{\"wildcard\":[\"*.jar\",\"*/lib/*\"]}}]", VALUES("\"a.zip\""),
                true);
    expect_each("[{\"anything-but\":{\"wildcard\":[\"*.jar\",\"*/lib/*\"]}}]",
                VALUES("\"a.jar\"", "\"/lib/\""), false);
    expect_each("[{\"anything-but\":[\"a\",\"b\"]},\"a\"]", VALUES("\"a\"", "\"c\""), true);
    expect_each("[{\"anything-but\":[\"a\",\"b\"]},\"a\"]", VALUES("\"b\""), false);
}

TEST(borders_of_a_piece_are_its_own_prefixes)
{
    static const uint16_t expected[] = {0, 0, 1, 2, 3, 0, 1};
    uint16_t borders[7];

    ks_pattern_fill_borders(KS_VIEW("ababaca"), borders);
    for (size_t i = 0; i < 7; i++)
        EXPECT_EQ_U64(borders[i], expected[i]);
}

TEST(value_of_a_token_passes_its_tests)
{
    struct ks_pattern_token token = {.kind = KS_PATTERN_NUMBER, .text = KS_VIEW("1.50")};
    struct ks_pattern_value value = ks_pattern_value_of(&token);
    struct ks_pattern_test tests[] = {
        {.kind = KS_PATTERN_IS_TEXT, .text = KS_VIEW("1.50")},
        {.kind = KS_PATTERN_IS_NUMBER, .low = ks_pattern_number_read(KS_VIEW("15e-1"))}};

    EXPECT(!ks_pattern_value_passes(&value, tests, 0));
    EXPECT(!ks_pattern_value_passes(&value, tests, 1));
    EXPECT(ks_pattern_value_passes(&value, tests, 2));
    EXPECT(ks_pattern_text_equal(KS_VIEW("\\u0061"), true, KS_VIEW("a")));
    EXPECT(!ks_pattern_text_equal(KS_VIEW("\\u0061"), false, KS_VIEW("a")));
    EXPECT(!ks_pattern_text_equal(KS_VIEW("a\\n"), true, KS_VIEW("a")));
}
