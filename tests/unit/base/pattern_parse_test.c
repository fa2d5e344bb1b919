/* SPDX-License-Identifier: Apache-2.0 */
#include "base/pattern_parts.h"

#include "ks_test.h"

/* A text that is refused, and a part of the reason. */
struct refusal {
    const char *text;
    const char *sentence;
};

static void expect_refusals(const struct refusal *refusals, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct ks_detail detail = {""};
        struct ks_pattern *pattern = NULL;
        ks_err err = ks_pattern_compile(ks_view_text(refusals[i].text), &pattern, &detail);
        if (ks_ok(err) || pattern != NULL)
            FAIL("accepted: %s", refusals[i].text);
        if (strstr(detail.text, refusals[i].sentence) == NULL)
            FAIL("%s: %s", refusals[i].text, detail.text);
    }
}

#define EXPECT_REFUSALS(list) expect_refusals(list, sizeof(list) / sizeof((list)[0]))

TEST(document_of_another_shape_is_refused)
{
    static const struct refusal refusals[] = {
        {"", "not JSON at byte 0: expected a value"},
        {"[]", "a document is {\"Filters\": [{\"Pattern\": \"..\"}]}"},
        {"{\"Filters\":[]}", "with at least one filter"},
        {"{\"Filters\":{}}", "a document is"},
        {"{\"Filters\":[{}]}", "a document is"},
        {"{\"Filters\":[{\"pattern\":\"{}\"}]}", "a document is"},
        {"{\"Filters\":[{\"Pattern\":{\"data\":[1]}}]}", "each Pattern is a string"},
        {"{\"Filters\":[{\"Pattern\":\"{\\\"data\\\":[1]}\",\"x\":1}]}", "a document is"},
        {"{\"Filters\":[{\"Pattern\":\"{\\\"data\\\":[1]}\"}],\"x\":1}", "a document is"},
        {"{\"Filters\":[{\"Pattern\":\"{\\\"data\\\":[1]}\"}]}x", "something follows the value"},
        {"{\"Filters\":[{\"Pattern\":\"{\\\"data\\\":[1]}\"},{\"Pattern\":\"{\"}]}",
         "filter 2: not JSON at byte 1: expected a name in quotation marks"},
        {"{\"Filters\":[{\"Pattern\":\"{\\\"data\\\":[]}\"}]}", "filter 1: data: an empty list"},
        {"{\"data\":[1]", "not JSON at byte 11: expected a comma or the end of the object"},
        {"{}", "an empty object matches nothing; write a field, or leave it out"},
    };

    EXPECT_REFUSALS(refusals);
}

TEST(field_that_a_record_does_not_have_is_refused)
{
    static const struct refusal refusals[] = {
        {"{\"Data\":[1]}", "Data: not a field of a record; use data, partitionKey"},
        {"{\"kinesis\":{\"data\":[1]}}", "kinesis: leave it out, and write partitionKey and data"},
        {"{\"eventSourceARN\":[\"a\"]}", "eventSourceARN: it is the same for all records"},
        {"{\"partitionKey\":{\"a\":[1]}}", "partitionKey: this field of a record has no fields"},
        {"{\"$or\":[{\"data\":[1]},{\"eventName\":[1]}]}", "$or[1].eventName: it is the same"},
    };

    EXPECT_REFUSALS(refusals);
}

TEST(value_that_is_not_in_a_list_is_refused)
{
    static const struct refusal refusals[] = {
        {"{\"data\":{\"a\":\"x\"}}", "data.a: a field wants a list or an object; write [value]"},
        {"{\"data\":{\"a\":{\"b\":1}}}", "data.a.b: a field wants a list"},
        {"{\"data\":{\"a\":{}}}", "data.a: an empty object matches nothing"},
        {"{\"data\":{\"a\":[]}}", "data.a: an empty list matches nothing"},
        {"{\"data\":{\"a\":[[1]]}}", "data.a: a list has no lists in it"},
    };

    EXPECT_REFUSALS(refusals);
}

TEST(operator_that_is_wrong_is_refused_with_what_to_write)
{
    static const struct refusal refusals[] = {
        {"{\"data\":{\"a\":[{}]}}", "data.a: an object in a list is one operator"},
        {"{\"data\":[{\"contains\":\"x\"}]}", "data: not an operator; use one of prefix"},
        {"{\"data\":[{\"cidr\":\"10.0.0.0/8\"}]}", "data: cidr is not an operator of Lambda"},
        {"{\"data\":[{\"prefix\":\"a\",\"suffix\":\"b\"}]}", "data: an object in a list has one"},
        {"{\"data\":[{\"prefix\":1}]}", "prefix and suffix want a string"},
        {"{\"data\":[{\"suffix\":{\"prefix\":\"a\"}}]}", "prefix and suffix want a string"},
        {"{\"data\":[{\"equals-ignore-case\":[\"a\"]}]}", "equals-ignore-case wants a string"},
        {"{\"data\":[{\"exactly\":1}]}", "exactly wants a string"},
        {"{\"data\":[{\"exists\":\"true\"}]}", "exists wants true or false"},
        {"{\"data\":[{\"wildcard\":7}]}", "wildcard wants a string"},
        {"{\"data\":[{\"wildcard\":\"a**\"}]}", "a wildcard has one * where it has **"},
        {"{\"data\":[{\"wildcard\":\"a\\\\b\"}]}", "a backslash is only before *"},
        {"{\"data\":[{\"wildcard\":\"a\\\\\"}]}", "a backslash is only before *"},
    };

    EXPECT_REFUSALS(refusals);
}

TEST(numeric_that_is_wrong_is_refused)
{
    static const struct refusal refusals[] = {
        {"{\"data\":[{\"numeric\":5}]}", "numeric wants an operator and a number"},
        {"{\"data\":[{\"numeric\":[]}]}", "numeric wants"},
        {"{\"data\":[{\"numeric\":[\"!=\",5]}]}", "numeric wants"},
        {"{\"data\":[{\"numeric\":[\"=\",\"5\"]}]}", "numeric wants"},
        {"{\"data\":[{\"numeric\":[\"=\",5,\"<\",6]}]}", "numeric wants"},
        {"{\"data\":[{\"numeric\":[\"<\",5,\">\",1]}]}", "numeric wants"},
        {"{\"data\":[{\"numeric\":[\">\",1,\"<\",5,\"<\",6]}]}", "numeric wants"},
        {"{\"data\":[{\"numeric\":[\">\",5,\"<\",5]}]}", "must be less than its upper end"},
        {"{\"data\":[{\"numeric\":[\">\",12345678901234567890]}]}", "has no order"},
        {"{\"data\":[{\"numeric\":[\"<\",1e999]}]}", "has no order"},
    };

    EXPECT_REFUSALS(refusals);
}

TEST(anything_but_that_is_wrong_is_refused)
{
    static const struct refusal refusals[] = {
        {"{\"data\":[{\"anything-but\":null}]}", "anything-but wants a string, a number"},
        {"{\"data\":[{\"anything-but\":[]}]}", "anything-but wants"},
        {"{\"data\":[{\"anything-but\":[true]}]}", "anything-but wants"},
        {"{\"data\":[{\"anything-but\":[\"a\",1]}]}", "strings only, or numbers only"},
        {"{\"data\":[{\"anything-but\":{\"exists\":true}}]}", "anything-but wants"},
        {"{\"data\":[{\"anything-but\":{\"prefix\":1}}]}", "anything-but wants"},
        {"{\"data\":[{\"anything-but\":{\"prefix\":[]}}]}", "anything-but wants"},
        {"{\"data\":[{\"anything-but\":{\"suffix\":\"\"}}]}", "matches no string"},
        {"{\"data\":[{\"anything-but\":{\"prefix\":\"a\",\"suffix\":\"b\"}}]}",
         "anything-but wants"},
        {"{\"data\":[{\"anything-but\":9007199254740993}]}", "has no order"},
    };

    EXPECT_REFUSALS(refusals);
}

TEST(or_that_is_wrong_is_refused)
{
    static const struct refusal refusals[] = {
        {"{\"data\":{\"$or\":{}}}", "$or wants a list of objects"},
        {"{\"data\":{\"$or\":[1,2]}}", "$or wants a list of objects"},
        {"{\"data\":{\"$or\":[]}}", "$or wants at least two objects"},
        {"{\"data\":{\"$or\":[{\"a\":[1]}]}}", "$or wants at least two objects"},
        {"{\"data\":{\"$or\":[{\"a\":[1]},{}]}}", "data.$or[1]: an empty object"},
        {"{\"data\":{\"$or\":[{\"prefix\":[\"a\"]},{\"a\":[1]}]}}",
         "inside $or an operator is not the name of a field"},
    };

    EXPECT_REFUSALS(refusals);
}

TEST(field_that_is_named_twice_is_refused)
{
    static const struct refusal refusals[] = {
        {"{\"data\":{\"a\":[1],\"a\":[2]}}", "data.a: named twice"},
        {"{\"data\":{\"a\":[1],\"a\":{\"b\":[2]}}}", "data.a.b: named twice"},
        {"{\"data\":{\"a\":{\"b\":[2]},\"a\":[1]}}", "data.a: named twice"},
        {"{\"data\":{\"a\":[1],\"$or\":[{\"b\":[1]},{\"a\":[2]}]}}", "data.$or[1].a: named twice"},
    };

    EXPECT_REFUSALS(refusals);
}

TEST(place_that_is_long_is_cut)
{
    struct ks_detail detail = {""};
    struct ks_pattern *pattern;
    char text[400];

    memset(text, 'n', sizeof(text));
    memcpy(text, "{\"data\":{\"", 10);
    memcpy(text + 390, "\":1}}", 5);
    EXPECT_ERR(ks_pattern_compile(ks_view_of(text, 395), &pattern, &detail), INVALID);
    EXPECT_CONTAINS(detail.text, "data.nnnn");
    EXPECT_CONTAINS(detail.text, "nnn..: a field wants a list or an object");
}
