/* SPDX-License-Identifier: Apache-2.0 */
#include "base/pattern.h"

#include "base/budget.h"
#include "base/pattern_parts.h"
#include "ks_test.h"
#include "unit/base/in_parts.h"

#include <stdio.h>
#include <stdlib.h>

static struct ks_pattern *compile(const char *text)
{
    struct ks_detail detail = {""};
    struct ks_pattern *pattern;

    if (!ks_ok(ks_pattern_compile(ks_view_text(text), &pattern, &detail)))
        FAIL("%s: %s", text, detail.text);
    return pattern;
}

static bool matches_record(const char *text, const struct ks_pattern_record *record)
{
    struct ks_pattern *pattern = compile(text);
    bool matches = matches_in_parts(pattern, record);

    ks_pattern_free(pattern);
    return matches;
}

static bool matches(const char *text, const char *data)
{
    struct ks_pattern_record record = {.partition_key = KS_VIEW("1"),
                                       .sequence_number = KS_VIEW("4959"),
                                       .arrival_ms = 1545084650987,
                                       .data = ks_view_text(data)};

    return matches_record(text, &record);
}

static void expect_full(const char *text, const char *sentence)
{
    struct ks_detail detail = {""};
    struct ks_pattern *pattern = NULL;

    EXPECT_ERR(ks_pattern_compile(ks_view_text(text), &pattern, &detail), FULL);
    EXPECT(pattern == NULL);
    EXPECT_CONTAINS(detail.text, sentence);
}

/* "Using event filtering with a Kinesis event source". */
TEST(kinesis_example_of_lambda_selects_the_order_type)
{
    static const char document[] =
        "{ \"Filters\": [ { \"Pattern\": \"{ \\\"data\\\" : { \\\"order\\\" : { \\\"type\\\" : [ "
        "\\\"buy\\\" ] } } }\" } ] }";

    EXPECT(matches(document, "{\"record\":12345,\"order\":{\"type\":\"buy\",\"stock\":\"ANYCO\","
                             "\"quantity\":1000}}"));
    EXPECT(!matches(document, "{\"record\":12345,\"order\":{\"type\":\"sell\",\"stock\":\"ANYCO\","
                              "\"quantity\":1000}}"));
    EXPECT(!matches(document, "{\"order\":\"buy\"}"));
}

/* "Control which events Lambda sends to your function": each row of its table. */
TEST(each_operator_that_lambda_documents_matches_its_example)
{
    static const char *const rows[][3] = {
        {"\"UserID\": [ null ]", "{\"UserID\":null}", "{\"UserID\":\"null\"}"},
        {"\"LastName\": [\"\"]", "{\"LastName\":\"\"}", "{\"LastName\":null}"},
        {"\"Name\": [ \"Alice\" ]", "{\"Name\":\"Alice\"}", "{\"Name\":\"alice\"}"},
        {"\"Name\": [{\"equals-ignore-case\":\"alice\"}]", "{\"Name\":\"ALICE\"}",
         "{\"Name\":\"Alic\"}"},
        {"\"Location\": [\"New York\"], \"Day\": [\"Monday\"]",
         "{\"Location\":\"New York\",\"Day\":\"Monday\"}",
         "{\"Location\":\"New York\",\"Day\":\"Tuesday\"}"},
        {"\"PaymentType\": [\"Credit\", \"Debit\"]", "{\"PaymentType\":\"Debit\"}",
         "{\"PaymentType\":\"Cash\"}"},
        {"\"$or\": [{\"Location\": [\"New York\"]}, {\"Day\": [\"Monday\"]}]",
         "{\"Location\":\"Rome\",\"Day\":\"Monday\"}", "{\"Location\":\"Rome\"}"},
        {"\"Weather\": [{\"anything-but\": [\"Raining\"]}]", "{\"Weather\":\"Sunny\"}",
         "{\"Weather\":\"Raining\"}"},
        {"\"Price\": [{\"numeric\": [\"=\", 100]}]", "{\"Price\":100}", "{\"Price\":\"100\"}"},
        {"\"Price\": [{\"numeric\": [\">\", 10, \"<=\", 20]}]", "{\"Price\":20}", "{\"Price\":10}"},
        {"\"ProductName\": [{\"exists\": true}]", "{\"ProductName\":null}", "{}"},
        {"\"ProductName\": [{\"exists\": false}]", "{}", "{\"ProductName\":\"\"}"},
        {"\"Region\": [{\"prefix\": \"us-\"}]", "{\"Region\":\"us-east-1\"}",
         "{\"Region\":\"eu-us-\"}"},
        {"\"FileName\": [{\"suffix\": \".png\"}]", "{\"FileName\":\"a.png\"}",
         "{\"FileName\":\"a.png.gz\"}"}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char pattern[256];
        snprintf(pattern, sizeof(pattern), "{\"data\":{%s}}", rows[i][0]);
        if (!matches(pattern, rows[i][1]) || matches(pattern, rows[i][2]))
            FAIL("%s", pattern);
    }
}

TEST(partition_key_and_data_of_the_older_example_must_both_match)
{
    static const char pattern[] =
        "{\"partitionKey\":[\"1\"],\"data\":{\"Location\":[\"Los Angeles\"]}}";

    EXPECT(matches(pattern, "{\"Location\":\"Los Angeles\"}"));
    EXPECT(!matches(pattern, "{\"Location\":\"Seattle\"}"));
    EXPECT(!matches("{\"partitionKey\":[\"2\"],\"data\":{\"Location\":[\"Los Angeles\"]}}",
                    "{\"Location\":\"Los Angeles\"}"));
}

TEST(record_passes_if_one_of_the_filters_matches)
{
    static const char document[] = "{\"Filters\":[{\"Pattern\":\"{\\\"data\\\":{\\\"a\\\":[1]}}\"},"
                                   "{\"Pattern\":\"{\\\"data\\\":{\\\"b\\\":[2]}}\"}]}";

    EXPECT(matches(document, "{\"a\":1}"));
    EXPECT(matches(document, "{\"b\":2}"));
    EXPECT(!matches(document, "{\"a\":2,\"b\":1}"));
}

TEST(metadata_of_a_record_can_be_filtered)
{
    EXPECT(matches("{\"partitionKey\":[{\"prefix\":\"1\"}]}", "x"));
    EXPECT(matches("{\"sequenceNumber\":[\"4959\"]}", "x"));
    EXPECT(!matches("{\"sequenceNumber\":[4959]}", "x"));
    EXPECT(matches("{\"kinesisSchemaVersion\":[\"1.0\"]}", "x"));
    EXPECT(matches("{\"approximateArrivalTimestamp\":[1545084650.987]}", "x"));
    EXPECT(matches("{\"approximateArrivalTimestamp\":[{\"numeric\":[\">\",1545084650]}]}", "x"));
    EXPECT(!matches("{\"approximateArrivalTimestamp\":[{\"numeric\":[\">=\",1545084651]}]}", "x"));
    EXPECT(!matches("{\"partitionKey\":[{\"exists\":false}]}", "x"));
}

TEST(arrival_that_is_not_known_is_absent)
{
    struct ks_pattern_record record = {.partition_key = KS_VIEW("k")};

    EXPECT(matches_record("{\"approximateArrivalTimestamp\":[{\"exists\":false}]}", &record));
    EXPECT(!matches_record("{\"approximateArrivalTimestamp\":[{\"exists\":true}]}", &record));
    record.arrival_ms = -5;
    EXPECT(matches_record("{\"approximateArrivalTimestamp\":[{\"exists\":false}]}", &record));
    record.arrival_ms = INT64_MAX;
    EXPECT(matches_record("{\"approximateArrivalTimestamp\":[{\"exists\":true}]}", &record));
}

TEST(data_that_is_not_json_matches_only_patterns_without_data)
{
    static const char *const data[] = {"", "text", "{\"a\":1", "{\"a\":1}}", "\xFF"};
    static const char with_data[] = "{\"$or\":[{\"partitionKey\":[\"1\"]},{\"data\":{\"a\":[1]}}]}";

    for (size_t i = 0; i < sizeof(data) / sizeof(data[0]); i++) {
        EXPECT(matches("{\"partitionKey\":[\"1\"]}", data[i]));
        EXPECT(!matches("{\"data\":{\"a\":[{\"exists\":false}]}}", data[i]));
        EXPECT(!matches(with_data, data[i]));
        EXPECT(matches("{\"Filters\":[{\"Pattern\":\"{\\\"data\\\":{\\\"a\\\":[1]}}\"},"
                       "{\"Pattern\":\"{\\\"partitionKey\\\":[\\\"1\\\"]}\"}]}",
                       data[i]));
    }
    EXPECT(matches(with_data, "[]"));
}

TEST(pattern_reports_whether_it_reads_data)
{
    struct ks_pattern *pattern = compile("{\"partitionKey\":[\"1\"]}");

    EXPECT(!ks_pattern_reads_data(pattern));
    ks_pattern_free(pattern);
    pattern = compile("{\"$or\":[{\"partitionKey\":[\"1\"]},{\"data\":[1]}]}");
    EXPECT(ks_pattern_reads_data(pattern));
    ks_pattern_free(pattern);
    ks_pattern_free(NULL);
}

TEST(alternatives_multiply_and_nest)
{
    static const char pattern[] =
        "{\"data\":{\"a\":[1],\"$or\":[{\"b\":[1]},{\"c\":[1],\"$or\":[{\"d\":[1]},{\"e\":[1]}]}],"
        "\"f\":{\"$or\":[{\"g\":[1]},{\"h\":[1]}]}}}";

    EXPECT(matches(pattern, "{\"a\":1,\"b\":1,\"f\":{\"g\":1}}"));
    EXPECT(matches(pattern, "{\"a\":1,\"b\":1,\"f\":{\"h\":1}}"));
    EXPECT(matches(pattern, "{\"a\":1,\"c\":1,\"d\":1,\"f\":{\"h\":1}}"));
    EXPECT(matches(pattern, "{\"a\":1,\"c\":1,\"e\":1,\"f\":{\"g\":1}}"));
    EXPECT(!matches(pattern, "{\"a\":1,\"c\":1,\"f\":{\"g\":1}}"));
    EXPECT(!matches(pattern, "{\"a\":1,\"d\":1,\"f\":{\"g\":1}}"));
    EXPECT(!matches(pattern, "{\"b\":1,\"f\":{\"g\":1}}"));
    EXPECT(!matches(pattern, "{\"a\":1,\"b\":1,\"f\":{}}"));
}

TEST(object_that_is_named_twice_has_the_fields_of_both)
{
    static const char pattern[] = "{\"data\":{\"a\":[1]},\"data\":{\"b\":[2]}}";

    EXPECT(matches(pattern, "{\"a\":1,\"b\":2}"));
    EXPECT(!matches(pattern, "{\"a\":1}"));
}

TEST(document_larger_than_its_limit_is_refused)
{
    char *text = ks_alloc(KS_PATTERN_TEXT_MAX + 2);
    struct ks_detail detail = {""};
    struct ks_pattern *pattern;

    memset(text, ' ', KS_PATTERN_TEXT_MAX + 1);
    memcpy(text, "{\"data\":[1]}", 12);
    EXPECT_OK(ks_pattern_compile(ks_view_of(text, KS_PATTERN_TEXT_MAX), &pattern, &detail));
    ks_pattern_free(pattern);
    EXPECT_ERR(ks_pattern_compile(ks_view_of(text, KS_PATTERN_TEXT_MAX + 1), &pattern, &detail),
               FULL);
    EXPECT_STR(detail.text, "event patterns of 65537 bytes; at most 65536 are allowed");
    ks_free(text);
}

TEST(more_than_five_filters_are_refused)
{
    char text[512] = "{\"Filters\":[";

    for (int i = 0; i < KS_PATTERN_FILTERS_MAX + 1; i++) {
        size_t size = strlen(text);
        snprintf(text + size, sizeof(text) - size, "%s{\"Pattern\":\"{\\\"data\\\":[1]}\"}",
                 i == 0 ? "" : ",");
        if (i == KS_PATTERN_FILTERS_MAX - 1) {
            char allowed[520];
            snprintf(allowed, sizeof(allowed), "%s]}", text);
            ks_pattern_free(compile(allowed));
        }
    }
    snprintf(text + strlen(text), sizeof(text) - strlen(text), "]}");
    expect_full(text, "\"Filters\" has at most 5 filters");
}

/* `count` members of an object, each as `member` with its number. */
static void repeat(char *text, size_t capacity, const char *start, const char *member, int count,
                   const char *end)
{
    size_t size = (size_t)snprintf(text, capacity, "%s", start);

    for (int i = 0; i < count; i++) {
        char number[16];
        const char *mark = strchr(member, '#');
        snprintf(number, sizeof(number), "%d", i);
        size += (size_t)snprintf(text + size, capacity - size, "%s%.*s%s%s", i == 0 ? "" : ",",
                                 (int)(mark - member), member, number, mark + 1);
    }
    snprintf(text + size, capacity - size, "%s", end);
}

TEST(fields_entries_and_ways_have_limits)
{
    static char text[KS_PATTERN_TEXT_MAX];

    repeat(text, sizeof(text), "{\"data\":{", "\"f#\":[1]", KS_PATTERN_FIELDS_MAX, "}}");
    ks_pattern_free(compile(text));
    repeat(text, sizeof(text), "{\"data\":{", "\"f#\":[1]", KS_PATTERN_FIELDS_MAX + 1, "}}");
    expect_full(text, "at most 256 fields");

    repeat(text, sizeof(text), "{\"data\":[", "#", KS_PATTERN_TESTS_MAX, "]}");
    ks_pattern_free(compile(text));
    repeat(text, sizeof(text), "{\"data\":[", "#", KS_PATTERN_TESTS_MAX + 1, "]}");
    expect_full(text, "at most 1024 entries");

    repeat(text, sizeof(text), "{\"data\":{\"$or\":[", "{\"f#\":[1]}", KS_PATTERN_WAYS_MAX, "]}}");
    ks_pattern_free(compile(text));
    repeat(text, sizeof(text), "{\"data\":{\"$or\":[", "{\"f#\":[1]}", KS_PATTERN_WAYS_MAX + 1,
           "]}}");
    expect_full(text, "more than 64 ways");
    repeat(text, sizeof(text), "{\"data\":{", "\"f#\":[1,{\"exists\":false}]", 7, "}}");
    expect_full(text, "more than 64 ways");

    repeat(text, sizeof(text),
           "{\"data\":{\"$or\":[{\"x\":[1]},{\"y\":[1]},{\"z\":[1]}],"
           "\"$or\":[{\"o\":[1]},{\"p\":[1]},{\"q\":[1]}],",
           "\"f#\":[1]", 245, "}}");
    expect_full(text, "more than 2048 names");
    repeat(text, sizeof(text), "{\"data\":[", "{\"wildcard\":\"*a*b*#*\"}", 600, "]}");
    expect_full(text, "asterisks");
}

TEST(pattern_that_nests_too_deep_is_refused)
{
    char text[8 * KS_PATTERN_DEPTH_MAX + 16];
    struct ks_detail detail = {""};
    struct ks_pattern *pattern;
    size_t size = (size_t)snprintf(text, sizeof(text), "{\"data\":");

    for (int i = 0; i < KS_PATTERN_DEPTH_MAX; i++)
        size += (size_t)snprintf(text + size, sizeof(text) - size, "{\"a\":");
    EXPECT_ERR(ks_pattern_compile(ks_view_of(text, size), &pattern, &detail), MALFORMED);
    EXPECT_CONTAINS(detail.text, "more than 64 brackets are open");
}

/* A matcher that backtracks would take exponential or quadratic time. */
TEST(hostile_wildcard_takes_linear_time)
{
    static char pattern[4096];
    size_t size = 1 << 20;
    char *data = ks_alloc(size);
    struct ks_pattern_record record = {.data = ks_view_of(data, size)};

    memset(data, 'a', size);
    data[0] = '"';
    data[size - 1] = '"';
    repeat(pattern, sizeof(pattern), "{\"data\":[{\"wildcard\":\"*", "aaaaaaaaaaaaaaaaaaaaab*#", 30,
           "c\"}]}");
    EXPECT(!matches_record(pattern, &record));
    snprintf(pattern, sizeof(pattern), "{\"data\":[{\"wildcard\":\"");
    for (int i = 0; i < 1000; i++)
        snprintf(pattern + strlen(pattern), sizeof(pattern) - strlen(pattern), "*a");
    snprintf(pattern + strlen(pattern), sizeof(pattern) - strlen(pattern), "*b\"}]}");
    EXPECT(!matches_record(pattern, &record));
    ks_free(data);
}

/* Choosing an element of each of so many lists independently would take 2^20 attempts. */
TEST(hostile_lists_take_linear_time)
{
    static char pattern[1024];
    static char data[4096];

    repeat(pattern, sizeof(pattern), "{\"data\":{\"z\":[1],", "\"f#\":[1]", 20, "}}");
    repeat(data, sizeof(data), "{\"z\":0,", "\"f#\":[1,1,1,1,1,1,1,1,1,1]", 20, "}");
    EXPECT(!matches(pattern, data));
    repeat(pattern, sizeof(pattern), "{\"data\":{\"z\":{\"a\":[1]},", "\"f#\":{\"a\":[1]}", 20,
           "}}");
    repeat(data, sizeof(data), "{\"z\":0,", "\"f#\":[{\"a\":1},{\"a\":1},{\"a\":1},{\"a\":1}]", 20,
           "}");
    EXPECT(!matches(pattern, data));
}

/* The names of all fields begin alike, for 30,000 bytes in each of two objects. */
TEST(hostile_names_take_little_time)
{
    static char text[KS_PATTERN_TEXT_MAX];
    char *name = ks_alloc(30001);
    size_t size;

    memset(name, 'n', 30000);
    size = (size_t)snprintf(text, sizeof(text), "{\"data\":{\"$or\":[{\"%s\":{", name);
    repeat(text + size, sizeof(text) - size, "", "\"f#\":[1]", 120, "}},{\"");
    size = strlen(text);
    size += (size_t)snprintf(text + size, sizeof(text) - size, "%s\":{", name);
    repeat(text + size, sizeof(text) - size, "", "\"f#\":[1]", 120, "}}]}}");
    ks_pattern_free(compile(text));
    ks_free(name);
}

TEST(compiling_without_memory_fails_and_leaves_nothing)
{
    int64_t live = ks_alloc_live();
    struct ks_pattern *pattern = NULL;
    ks_err err = KS_OK;

    for (uint64_t n = 1; n < 20; n++) {
        ks_alloc_fail_after(n, 0);
        err = ks_pattern_compile(KS_VIEW("{\"Filters\":[{\"Pattern\":\"{\\\"data\\\":[1]}\"}]}"),
                                 &pattern, NULL);
        ks_alloc_fail_after(0, 0);
        if (ks_ok(err))
            break;
        EXPECT_ERR(err, NO_MEMORY);
        EXPECT_EQ_I64(ks_alloc_live(), live);
    }
    EXPECT_OK(err);
    ks_pattern_free(pattern);
    EXPECT_EQ_I64(ks_alloc_live(), live);
}
