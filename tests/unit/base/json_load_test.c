/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_load.h"

#include "base/budget.h"
#include "ks_test.h"

#include <string.h>

static json_error_t error;

TEST(a_text_becomes_a_value)
{
    json_t *value = NULL;

    EXPECT_OK(ks_json_load(KS_VIEW("{\"a\":[1,\"b\"]}"), 0, &value, &error));
    EXPECT_STR(json_string_value(json_array_get(json_object_get(value, "a"), 1)), "b");
    json_decref(value);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

TEST(what_is_no_json_says_where)
{
    json_t *value = NULL;

    EXPECT_ERR(ks_json_load(KS_VIEW("{\"a\":\n[1,,]}"), 0, &value, &error), MALFORMED);
    EXPECT_EQ_I64(error.line, 2);
    EXPECT(value == NULL);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

TEST(values_live_beside_each_other)
{
    json_t *one = NULL;
    json_t *other = NULL;

    EXPECT_OK(ks_json_load(KS_VIEW("[\"a\",{\"b\":true}]"), 0, &one, &error));
    EXPECT_OK(ks_json_load(KS_VIEW("[\"c\",{\"d\":true}]"), 0, &other, &error));
    json_decref(one);
    ks_alloc_fail_after(3, 1);
    EXPECT_ERR(ks_json_load(KS_VIEW("[\"e\",{\"f\":true}]"), 0, &one, &error), NO_MEMORY);
    ks_alloc_fail_after(0, 0);
    EXPECT_STR(json_string_value(json_array_get(other, 0)), "c");
    json_decref(other);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

/* A string that is longer than what jansson begins with, and an escape in it. */
static void fail_each(int then_all)
{
    ks_view text =
        KS_VIEW("{\"a key that is rather long\":[\"and a text that is even longer \\u00e4 "
                "than the longest of them, which takes more than 64 bytes\",1.5,-3]}");
    json_t *value = NULL;
    ks_err err = KS_FAIL(NO_MEMORY);
    uint64_t n = 0;

    while (!ks_ok(err)) {
        ks_alloc_fail_after(++n, then_all);
        err = ks_json_load(text, JSON_REJECT_DUPLICATES, &value, &error);
        ks_alloc_fail_after(0, 0);
        EXPECT(ks_ok(err) || ks_err_is(err, KS_ERR_NO_MEMORY));
        if (!ks_ok(err))
            EXPECT_EQ_I64(ks_alloc_live(), 0);
    }
    EXPECT(n > 8);
    json_decref(value);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

TEST(every_allocation_may_fail)
{
    fail_each(0);
}

TEST(every_allocation_and_all_behind_it_may_fail)
{
    fail_each(1);
}
