/* SPDX-License-Identifier: Apache-2.0 */
#include "base/flat_json.h"

#include "ks_test.h"

#include <stdio.h>

static char story[4096];

static ks_err tell(void *arg, const char *name, enum ks_flat_json_kind kind, const char *value)
{
    static const char kinds[] = {'t', 'n', 'b', 'l', 'o', 'e'};
    size_t size = strlen(story);

    (void)arg;
    snprintf(story + size, sizeof(story) - size, "%s=%c:%s;", name, kinds[kind], value);
    return KS_OK;
}

static void expect_story(const char *json, const char *expected)
{
    struct ks_detail detail = {""};

    story[0] = '\0';
    if (!ks_ok(ks_flat_json_read(ks_view_text(json), tell, NULL, &detail)))
        FAIL("%s: %s", json, detail.text);
    EXPECT_STR(story, expected);
}

TEST(texts_numbers_and_booleans_are_read_in_order)
{
    expect_story("{}", "");
    expect_story(" { } \n", "");
    expect_story("{\"a\":\"b\",\"c\" : 12 ,\n\t\"d\":true,\"e\":false,\"a\":\"\"}",
                 "a=t:b;c=n:12;d=b:true;e=b:false;a=t:;");
    expect_story("{\"n\":-0,\"m\":1.5e+10,\"o\":0.25,\"p\":1E2}",
                 "n=n:-0;m=n:1.5e+10;o=n:0.25;p=n:1E2;");
}

TEST(escapes_become_what_they_stand_for)
{
    expect_story("{\"\\u0061\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"}", "a=t:\"\\/\b\f\n\r\t;");
    expect_story("{\"a\":\"\\u00e9\\u20AC\\ud83d\\uDE00\"}",
                 "a=t:\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80;");
    expect_story("{\"a\":\"\xF0\x9F\x98\x80\x7F\"}", "a=t:\xF0\x9F\x98\x80\x7F;");
}

TEST(a_list_of_objects_has_a_beginning_and_an_end)
{
    expect_story("{\"a\":[]}", "a=l:;a=e:;");
    expect_story("{\"a\" : [ {\"b\":1} , {} ] , \"c\":true}",
                 "a=l:;a=o:;b=n:1;a=o:;a=e:;c=b:true;");
}

TEST(whatever_else_is_malformed)
{
    static const char *const bad[] = {
        "",
        "[]",
        "null",
        "\"a\"",
        "{",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1",
        "{\"a\":1,",
        "{\"a\":1,}",
        "{,}",
        "{\"a\":1 \"b\":2}",
        "{\"a\" 1}",
        "{a:1}",
        "{'a':1}",
        "{\"a\":'b'}",
        "{\"a\":null}",
        "{\"a\":{}}",
        "{\"a\":[}",
        "{\"a\":[1]}",
        "{\"a\":[{}",
        "{\"a\":[{},]}",
        "{\"a\":[{}{}]}",
        "{\"a\":[{\"b\":[]}]}",
        "{\"a\":[{\"b\":{}}]}",
        "{\"a\":[[]]}",
        "{\"a\":truex}",
        "{\"a\":True}",
        "{\"a\":01}",
        "{\"a\":+1}",
        "{\"a\":.5}",
        "{\"a\":1.}",
        "{\"a\":1e}",
        "{\"a\":1e+}",
        "{\"a\":-}",
        "{\"a\":NaN}",
        "{\"a\":0x10}",
        "{\"a\":1}x",
        "{\"a\":1}{}",
        "{} // no",
        "{\"a\":\"",
        "{\"a\":\"b",
        "{\"a\":\"\\",
        "{\"a\":\"\\x\"}",
        "{\"a\":\"\\u12\"}",
        "{\"a\":\"\\u12g4\"}",
        "{\"a\":\"\\u0000\"}",
        "{\"a\":\"\\ud83d\"}",
        "{\"a\":\"\\ud83d\\n\"}",
        "{\"a\":\"\\ud83d\\u0041\"}",
        "{\"a\":\"\\ude00\"}",
        "{\"a\":\"\n\"}",
        "{\"a\":\"\xFF\"}",
        "{\"a\":\"\xC3\"}",
        "\xEF\xBB\xBF{}",
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct ks_detail detail = {""};
        if (!ks_err_is(ks_flat_json_read(ks_view_text(bad[i]), tell, NULL, &detail),
                       KS_ERR_MALFORMED))
            FAIL("%s", bad[i]);
        EXPECT_CONTAINS(detail.text, "line 1: ");
    }
}

TEST(a_nul_is_no_end)
{
    EXPECT(ks_err_is(ks_flat_json_read(KS_VIEW("{}\0"), tell, NULL, NULL), KS_ERR_MALFORMED));
    EXPECT(
        ks_err_is(ks_flat_json_read(KS_VIEW("{\"a\0b\":1}"), tell, NULL, NULL), KS_ERR_MALFORMED));
    EXPECT(ks_err_is(ks_flat_json_read(KS_VIEW("{\"a\":\"\\u00\0\0\"}"), tell, NULL, NULL),
                     KS_ERR_MALFORMED));
    EXPECT(ks_err_is(ks_flat_json_read(KS_VIEW_NONE, tell, NULL, NULL), KS_ERR_MALFORMED));
}

TEST(the_line_of_a_mistake_is_told)
{
    struct ks_detail detail;

    EXPECT(ks_err_is(ks_flat_json_read(KS_VIEW("{\n\"a\": 1,\r\n\"b\": ?}"), tell, NULL, &detail),
                     KS_ERR_MALFORMED));
    EXPECT_CONTAINS(detail.text, "line 3: ");
}

TEST(texts_have_a_longest_length)
{
    char json[KS_FLAT_JSON_TEXT_MAX + 100];
    struct ks_detail detail;

    snprintf(json, sizeof(json), "{\"a\":\"%0*d\"}", KS_FLAT_JSON_TEXT_MAX, 0);
    EXPECT_OK(ks_flat_json_read(ks_view_text(json), tell, NULL, &detail));
    snprintf(json, sizeof(json), "{\"a\":\"%0*d\\u20ac\"}", KS_FLAT_JSON_TEXT_MAX - 2, 0);
    EXPECT(ks_err_is(ks_flat_json_read(ks_view_text(json), tell, NULL, &detail), KS_ERR_MALFORMED));
    snprintf(json, sizeof(json), "{\"%0*d\":1}", KS_FLAT_JSON_TEXT_MAX + 1, 0);
    EXPECT(ks_err_is(ks_flat_json_read(ks_view_text(json), tell, NULL, &detail), KS_ERR_MALFORMED));
    snprintf(json, sizeof(json), "{\"a\":1%0*d}", KS_FLAT_JSON_TEXT_MAX, 0);
    EXPECT(ks_err_is(ks_flat_json_read(ks_view_text(json), tell, NULL, &detail), KS_ERR_MALFORMED));
}

static ks_err refuse(void *arg, const char *name, enum ks_flat_json_kind kind, const char *value)
{
    (void)name;
    (void)kind;
    (void)value;
    ++*(int *)arg;
    return KS_FAIL(FOREIGN);
}

TEST(a_member_that_is_refused_ends_the_reading)
{
    int calls = 0;

    EXPECT(ks_err_is(ks_flat_json_read(KS_VIEW("{\"a\":1,\"b\":2}"), refuse, &calls, NULL),
                     KS_ERR_FOREIGN));
    EXPECT_EQ_I64(calls, 1);
}
