/* SPDX-License-Identifier: Apache-2.0 */
#include "base/pattern_parts.h"

#include "ks_test.h"
#include "unit/base/in_parts.h"

#include <stdio.h>
#include <string.h>

/* The pattern of the data against data, both as JSON. */
static bool matches(const char *data_pattern, const char *data)
{
    char text[512];
    struct ks_detail detail = {""};
    struct ks_pattern *pattern;
    struct ks_pattern_record record = {.data = ks_view_text(data)};
    bool found;

    snprintf(text, sizeof(text), "{\"data\":%s}", data_pattern);
    if (!ks_ok(ks_pattern_compile(ks_view_text(text), &pattern, &detail)))
        FAIL("%s: %s", text, detail.text);
    found = matches_in_parts(pattern, &record);
    ks_pattern_free(pattern);
    return found;
}

TEST(fields_that_a_pattern_does_not_name_are_ignored)
{
    EXPECT(matches("{\"a\":{\"b\":[1]}}",
                   "{\"x\":[{\"a\":{\"b\":2}},[1]],\"a\":{\"y\":{\"b\":2},\"b\":1,\"z\":[]}}"));
    EXPECT(!matches("{\"a\":{\"b\":[1]}}", "{\"b\":1,\"x\":{\"a\":{\"b\":1}},\"a\":{\"c\":1}}"));
    EXPECT(!matches("{\"a\":{\"b\":[1]}}", "{\"a\":1}"));
    EXPECT(!matches("{\"a\":{\"b\":[1]}}", "1"));
}

TEST(name_with_escapes_is_the_same_name)
{
    EXPECT(matches("{\"k\\u00e4se\":[1]}", "{\"\\u006b\xC3\xA4se\":1}"));
    EXPECT(!matches("{\"a.b\":[1]}", "{\"a\":{\"b\":1}}"));
    EXPECT(matches("{\"a.b\":[1]}", "{\"a.b\":1}"));
    EXPECT(matches("{\"\":[1]}", "{\"\":1}"));
}

TEST(one_element_of_a_list_is_enough)
{
    EXPECT(matches("{\"a\":[1]}", "{\"a\":[0,[2,[1]],{\"a\":5}]}"));
    EXPECT(!matches("{\"a\":[1]}", "{\"a\":[0,[2],{\"a\":1}]}"));
    EXPECT(matches("{\"a\":{\"b\":[1]}}", "{\"a\":[{\"b\":0},7,[{\"b\":[3,1]}]]}"));
    EXPECT(matches("{\"b\":[1]}", "[{\"b\":0},{\"b\":1}]"));
}

/* The employees of the README of event-ruler. */
TEST(fields_in_one_list_must_match_in_one_element)
{
    static const char flat[] =
        "{\"e\":[{\"f\":\"John\",\"l\":\"Doe\"},{\"f\":\"Anna\",\"l\":\"Smith\"}"
        ",{\"f\":\"Peter\",\"l\":\"Jones\"}]}";
    static const char nested[] =
        "{\"e\":[[{\"f\":\"John\",\"l\":\"Doe\"},{\"f\":\"Anna\",\"l\":\"Smith\"}],"
        "[{\"f\":\"Peter\",\"l\":\"Jones\"}]]}";

    EXPECT(matches("{\"e\":{\"f\":[\"Anna\"]}}", flat));
    EXPECT(matches("{\"e\":{\"f\":[\"Anna\"],\"l\":[\"Smith\"]}}", flat));
    EXPECT(!matches("{\"e\":{\"f\":[\"Anna\"],\"l\":[\"Jones\"]}}", flat));
    EXPECT(matches("{\"e\":{\"f\":[\"Anna\"],\"l\":[\"Smith\"]}}", nested));
    EXPECT(!matches("{\"e\":{\"f\":[\"Anna\"],\"l\":[\"Doe\"]}}", nested));
    EXPECT(!matches("{\"e\":{\"f\":[\"Anna\"],\"l\":[\"Jones\"]}}", nested));
}

TEST(elements_of_two_lists_are_chosen_independently)
{
    EXPECT(matches("{\"a\":{\"x\":[1]},\"b\":{\"x\":[2]}}",
                   "{\"a\":[{\"x\":0},{\"x\":1}],\"b\":[{\"x\":2},{\"x\":0}]}"));
    EXPECT(matches(
        "{\"a\":{\"p\":{\"x\":[1]},\"q\":{\"x\":[2]}}}",
        "{\"a\":[{\"p\":[{\"x\":1}],\"q\":1},{\"p\":[{\"x\":0},{\"x\":1}],\"q\":{\"x\":2}}]}"));
    EXPECT(!matches("{\"a\":{\"p\":{\"x\":[1]},\"q\":{\"x\":[2]}}}",
                    "{\"a\":[{\"p\":[{\"x\":1}],\"q\":1},{\"p\":[{\"x\":0}],\"q\":{\"x\":2}}]}"));
}

/* The full names order the fields: "a.b" is looked at before "a.c", "a.d" after it. */
TEST(absent_field_after_a_value_is_absent_in_the_chosen_element)
{
    static const char data[] = "{\"a\":[{\"c\":1},{\"b\":2,\"d\":3}]}";

    EXPECT(matches("{\"a\":{\"c\":[1],\"d\":[{\"exists\":false}]}}", data));
    EXPECT(!matches("{\"a\":{\"c\":[1],\"b\":[{\"exists\":false}]}}", data));
    EXPECT(!matches("{\"a\":{\"b\":[2],\"d\":[{\"exists\":false}]}}", data));
    EXPECT(matches("{\"a\":{\"b\":[2],\"c\":[{\"exists\":false}]}}", data));
    EXPECT(!matches("{\"a\":{\"d\":[{\"exists\":false}]}}", data));
    EXPECT(matches("{\"a\":{\"e\":[{\"exists\":false}]}}", data));
}

TEST(absent_field_in_a_list_inside_a_list_is_looked_for_in_all_of_it)
{
    static const char data[] =
        "{\"a\":[{\"k\":1,\"l\":[{\"x\":1},{\"y\":1}]},{\"k\":2,\"l\":[{\"x\":1}]}]}";

    EXPECT(!matches("{\"a\":{\"k\":[1],\"l\":{\"y\":[{\"exists\":false}]}}}", data));
    EXPECT(matches("{\"a\":{\"k\":[2],\"l\":{\"y\":[{\"exists\":false}]}}}", data));
    EXPECT(matches("{\"a\":{\"k\":[1],\"l\":{\"x\":[1],\"y\":[{\"exists\":false}]}}}", data));
}

TEST(field_of_an_object_that_is_not_there_is_absent)
{
    EXPECT(matches("{\"a\":{\"b\":{\"c\":[{\"exists\":false}]}}}", "{}"));
    EXPECT(matches("{\"a\":{\"b\":{\"c\":[{\"exists\":false}]}}}", "{\"a\":{\"b\":5}}"));
    EXPECT(matches("{\"a\":{\"b\":{\"c\":[{\"exists\":false}]}}}", "{\"a\":[]}"));
    EXPECT(matches("{\"a\":[{\"exists\":false}]}", "{\"a\":{\"c\":1}}"));
    EXPECT(
        !matches("{\"a\":{\"b\":{\"c\":[{\"exists\":false}]}}}", "{\"a\":{\"b\":{\"c\":null}}}"));
}

TEST(each_value_of_a_name_that_comes_twice_is_looked_at)
{
    EXPECT(matches("{\"a\":[1]}", "{\"a\":1,\"a\":2}"));
    EXPECT(matches("{\"a\":[2]}", "{\"a\":1,\"a\":2}"));
    EXPECT(!matches("{\"a\":[3]}", "{\"a\":1,\"a\":2}"));
    EXPECT(!matches("{\"a\":{\"b\":[{\"exists\":false}]}}", "{\"a\":{\"b\":1},\"a\":2}"));
    EXPECT(!matches("{\"a\":{\"b\":[{\"exists\":false}]}}", "{\"a\":2,\"a\":{\"b\":1}}"));
}

TEST(data_is_read_to_its_end_before_it_matches)
{
    EXPECT(!matches("{\"a\":[1]}", "{\"a\":1,"));
    EXPECT(!matches("{\"a\":[1]}", "{\"a\":1,\"b\":[}"));
    EXPECT(!matches("{\"a\":[1]}", "{\"a\":1} 2"));
    EXPECT(!matches("{\"a\":[{\"exists\":false}]}", "{\"b\":\"\\ud800\"}"));
}

TEST(data_of_sixty_four_levels_is_read)
{
    char data[4 * KS_PATTERN_DEPTH_MAX + 16];

    for (int levels = KS_PATTERN_DEPTH_MAX - 1; levels <= KS_PATTERN_DEPTH_MAX; levels++) {
        size_t size = (size_t)snprintf(data, sizeof(data), "{\"a\":");
        memset(data + size, '[', (size_t)levels);
        size += (size_t)levels;
        data[size++] = '1';
        memset(data + size, ']', (size_t)levels);
        size += (size_t)levels;
        snprintf(data + size, sizeof(data) - size, "}");
        EXPECT(matches("{\"a\":[1]}", data) == (levels < KS_PATTERN_DEPTH_MAX));
    }
}

TEST(a_costly_match_is_made_in_parts_and_each_ends_soon)
{
    enum { SIZE = 64 << 10, WILDCARDS = 200 };
    static char text[32 << 10];
    static char data[SIZE + 16];
    struct ks_pattern_record record = {.data = ks_view_of(data, 0)};
    struct ks_pattern_match *match = ks_pattern_match_new();
    struct ks_pattern *pattern;
    struct ks_detail detail = {""};
    bool passes = true;
    uint64_t units;
    int length;
    uint32_t parts = 0;

    EXPECT(match != NULL);
    length = snprintf(text, sizeof text, "{\"data\":{\"a\":[");
    for (int i = 0; i < WILDCARDS; i++)
        length += snprintf(text + length, sizeof text - (size_t)length,
                           "%s{\"wildcard\":\"*aaaaaaaaaaaaaaaaaaaab%d*\"}", i == 0 ? "" : ",", i);
    (void)snprintf(text + length, sizeof text - (size_t)length, "]}}");
    EXPECT_OK(ks_pattern_compile(ks_view_text(text), &pattern, &detail));
    length = snprintf(data, sizeof data, "{\"a\":\"");
    memset(data + length, 'a', SIZE);
    length += SIZE;
    length += snprintf(data + length, sizeof data - (size_t)length, "\"}");
    record.data.size = (size_t)length;

    ks_pattern_match_begin(match, pattern, &record);
    do {
        units = SIZE;
        parts++;
        EXPECT(parts <= WILDCARDS + 3);
    } while (!ks_pattern_match_go_on(match, &units, &passes));
    EXPECT(!passes);
    EXPECT(parts >= WILDCARDS); /* Each looked at the value once. */
    ks_free(match);
    ks_pattern_free(pattern);
}

TEST(names_that_are_compared_are_counted)
{
    enum { FIELDS = 200, NAMES = 2000 };
    static char text[32 << 10];
    static char data[64 << 10];
    struct ks_pattern_record record = {.data = ks_view_of(data, 0)};
    struct ks_pattern_match *match = ks_pattern_match_new();
    struct ks_pattern *pattern;
    struct ks_detail detail = {""};
    uint64_t units = 1 << 30;
    bool passes = true;
    int length;

    EXPECT(match != NULL);
    length = snprintf(text, sizeof text, "{\"data\":{");
    for (int i = 0; i < FIELDS; i++)
        length += snprintf(text + length, sizeof text - (size_t)length, "%s\"k%d\":[1]",
                           i == 0 ? "" : ",", i);
    (void)snprintf(text + length, sizeof text - (size_t)length, "}}");
    EXPECT_OK(ks_pattern_compile(ks_view_text(text), &pattern, &detail));
    length = snprintf(data, sizeof data, "{\"x\":1");
    for (int i = 1; i < NAMES; i++)
        length += snprintf(data + length, sizeof data - (size_t)length, ",\"x%d\":1", i);
    length += snprintf(data + length, sizeof data - (size_t)length, "}");
    record.data.size = (size_t)length;

    ks_pattern_match_begin(match, pattern, &record);
    EXPECT(ks_pattern_match_go_on(match, &units, &passes));
    EXPECT(!passes);
    EXPECT((1 << 30) - units >= FIELDS * NAMES);
    EXPECT((1 << 30) - units <= FIELDS * (NAMES + 10) + 4 * sizeof data);
    ks_free(match);
    ks_pattern_free(pattern);
}
