/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/json.h"

#include "ks_test.h"

#include "aws/limits.h"
#include "base/budget.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct ks_json *parsed(const char *text)
{
    struct ks_json *json = NULL;

    EXPECT_OK(ks_json_parse(ks_view_text(text), &json));
    return json;
}

static ks_err parse(ks_view text)
{
    struct ks_json *json = NULL;
    ks_err err = ks_json_parse(text, &json);

    if (ks_ok(err))
        ks_json_free(json);
    return err;
}

TEST(members_are_read_by_type)
{
    struct ks_json *json =
        parsed("{\"t\":\"x\\u00e4\",\"i\":-5,\"u\":7,\"b\":true,\"f\":1.0,\"n\":null,"
               "\"a\":[1,null,\"z\"],\"o\":{\"deep\":{\"er\":\"!\"}}}");
    ks_view text;
    int64_t i64 = 0;
    uint64_t u64 = 0;
    bool flag = false;

    EXPECT_OK(ks_json_text(ks_json_member(json, "t"), &text));
    EXPECT_STR((const char *)text.data, "x\xc3\xa4");
    EXPECT_EQ_U64(text.size, 3);
    EXPECT_OK(ks_json_i64(ks_json_member(json, "i"), &i64));
    EXPECT_EQ_I64(i64, -5);
    EXPECT_OK(ks_json_u64(ks_json_member(json, "u"), &u64));
    EXPECT_EQ_U64(u64, 7);
    EXPECT_OK(ks_json_i64(ks_json_member(json, "f"), &i64));
    EXPECT_EQ_I64(i64, 1);
    EXPECT_OK(ks_json_bool(ks_json_member(json, "b"), &flag));
    EXPECT(flag);
    EXPECT_EQ_U64(ks_json_count(ks_json_member(json, "a")), 3);
    EXPECT(ks_json_item(ks_json_member(json, "a"), 1) == NULL);
    EXPECT(ks_json_item(ks_json_member(json, "a"), 3) == NULL);
    EXPECT_OK(ks_json_text(ks_json_item(ks_json_member(json, "a"), 2), &text));
    EXPECT_OK(ks_json_text(ks_json_member(ks_json_member(ks_json_member(json, "o"), "deep"), "er"),
                           &text));
    EXPECT(ks_json_is_object(json) && !ks_json_is_array(json));
    EXPECT(ks_json_is_array(ks_json_member(json, "a")));
    ks_json_free(json);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

TEST(null_and_absent_are_the_same_and_wrong_types_are_told)
{
    struct ks_json *json = parsed("{\"n\":null,\"t\":\"x\",\"i\":-1,\"f\":1.5,\"big\":1e300}");
    ks_view text;
    int64_t i64 = 0;
    uint64_t u64 = 0;
    bool flag = false;

    EXPECT(ks_json_member(json, "n") == NULL);
    EXPECT(ks_err_is(ks_json_text(ks_json_member(json, "n"), &text), KS_ERR_NOT_FOUND));
    EXPECT(ks_err_is(ks_json_text(ks_json_member(json, "none"), &text), KS_ERR_NOT_FOUND));
    EXPECT(ks_err_is(ks_json_i64(ks_json_member(NULL, "none"), &i64), KS_ERR_NOT_FOUND));
    EXPECT(ks_err_is(ks_json_text(ks_json_member(json, "i"), &text), KS_ERR_MALFORMED));
    EXPECT(ks_err_is(ks_json_i64(ks_json_member(json, "t"), &i64), KS_ERR_MALFORMED));
    EXPECT(ks_err_is(ks_json_i64(ks_json_member(json, "f"), &i64), KS_ERR_MALFORMED));
    EXPECT(ks_err_is(ks_json_i64(ks_json_member(json, "big"), &i64), KS_ERR_MALFORMED));
    EXPECT(ks_err_is(ks_json_u64(ks_json_member(json, "i"), &u64), KS_ERR_MALFORMED));
    EXPECT(ks_err_is(ks_json_bool(ks_json_member(json, "i"), &flag), KS_ERR_MALFORMED));
    EXPECT_EQ_U64(ks_json_count(NULL), 0);
    EXPECT_EQ_U64(ks_json_count(ks_json_member(json, "t")), 0);
    EXPECT(ks_json_member(ks_json_member(json, "t"), "x") == NULL);
    ks_json_free(json);
    ks_json_free(NULL);
}

TEST(members_can_be_walked)
{
    struct ks_json *json = parsed("{\"a\":1,\"b\":null,\"c\":3}");
    struct ks_json_cursor cursor = {.at = NULL};
    const struct ks_json *member;
    ks_view name;
    int64_t sum = 0;
    int seen = 0;

    while (ks_json_each(json, &cursor, &name, &member)) {
        int64_t value = 0;
        EXPECT_OK(ks_json_i64(member, &value));
        EXPECT_EQ_I64(value, name.data[0] - 'a' + 1);
        sum += value;
        seen++;
    }
    EXPECT_EQ_I64(seen, 2);
    EXPECT_EQ_I64(sum, 4);
    cursor = (struct ks_json_cursor){.at = NULL};
    EXPECT(!ks_json_each(NULL, &cursor, &name, &member));
    ks_json_free(json);
}

TEST(timestamps_are_seconds_with_a_fraction)
{
    struct ks_json *json = parsed("[1787036486.712,1787036486,-1.5,1.787036486712E9,\"x\",1e99]");
    int64_t ms = 0;

    EXPECT_OK(ks_json_unix_ms(ks_json_item(json, 0), &ms));
    EXPECT_EQ_I64(ms, 1787036486712);
    EXPECT_OK(ks_json_unix_ms(ks_json_item(json, 1), &ms));
    EXPECT_EQ_I64(ms, 1787036486000);
    EXPECT_OK(ks_json_unix_ms(ks_json_item(json, 2), &ms));
    EXPECT_EQ_I64(ms, -1500);
    EXPECT_OK(ks_json_unix_ms(ks_json_item(json, 3), &ms));
    EXPECT_EQ_I64(ms, 1787036486712);
    EXPECT(ks_err_is(ks_json_unix_ms(ks_json_item(json, 4), &ms), KS_ERR_MALFORMED));
    EXPECT(ks_err_is(ks_json_unix_ms(ks_json_item(json, 5), &ms), KS_ERR_MALFORMED));
    EXPECT(ks_err_is(ks_json_unix_ms(NULL, &ms), KS_ERR_NOT_FOUND));
    ks_json_free(json);
}

TEST(hostile_documents_are_refused)
{
    static const char *const broken[] = {"",
                                         " ",
                                         "{",
                                         "}",
                                         "{\"a\"}",
                                         "{\"a\":1,}",
                                         "[1 2]",
                                         "\"\xff\"",
                                         "\"a\\u0000b\"",
                                         "{\"a\\u0000\":1}",
                                         "{\"a\":1,\"a\":2}",
                                         "nul",
                                         "1 1",
                                         "[1]]",
                                         "\"\\ud800\"",
                                         "99999999999999999999",
                                         "-",
                                         "'x'"};
    char deep[2 * KS_JSON_DEPTH_MAX + 4];

    for (size_t at = 0; at < sizeof(broken) / sizeof(broken[0]); at++) {
        if (!ks_err_is(parse(ks_view_text(broken[at])), KS_ERR_MALFORMED))
            FAIL("%s was not refused", broken[at]);
    }
    memset(deep, '[', KS_JSON_DEPTH_MAX);
    memset(deep + KS_JSON_DEPTH_MAX, ']', KS_JSON_DEPTH_MAX);
    EXPECT_OK(parse(ks_view_of(deep, 2 * KS_JSON_DEPTH_MAX)));
    memset(deep, '[', KS_JSON_DEPTH_MAX + 1);
    EXPECT(ks_err_is(parse(ks_view_of(deep, KS_JSON_DEPTH_MAX + 1)), KS_ERR_FULL));
    EXPECT_OK(parse(KS_VIEW("\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\\\"[[\"")));

    char *large = calloc(1, KS_JSON_BYTES_MAX + 1);
    memset(large, ' ', KS_JSON_BYTES_MAX + 1);
    large[0] = '1';
    EXPECT_OK(parse(ks_view_of(large, KS_JSON_BYTES_MAX)));
    EXPECT(ks_err_is(parse(ks_view_of(large, KS_JSON_BYTES_MAX + 1)), KS_ERR_FULL));
    free(large);
}

TEST(every_allocation_may_fail)
{
    ks_view text = KS_VIEW("{\"a\":[1,2,{\"b\":\"some text that takes memory\"}]}");
    struct ks_json *json = NULL;
    ks_err err = KS_FAIL(NO_MEMORY);
    uint64_t n = 0;

    while (!ks_ok(err)) {
        ks_alloc_fail_after(++n, 1);
        err = ks_json_parse(text, &json);
        ks_alloc_fail_after(0, 0);
        EXPECT(ks_ok(err) || ks_err_is(err, KS_ERR_NO_MEMORY));
        if (!ks_ok(err))
            EXPECT_EQ_I64(ks_alloc_live(), 0);
    }
    EXPECT(n > 5);
    ks_json_free(json);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}
