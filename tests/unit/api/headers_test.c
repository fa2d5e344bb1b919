/* SPDX-License-Identifier: Apache-2.0 */
#include "api/headers.h"
#include "base/budget.h"
#include "ks_test.h"

#include <string.h>

static struct ks_headers headers;

static ks_err add(const char *name, const char *value)
{
    return ks_headers_add(&headers, ks_view_text(name), ks_view_text(value));
}

TEST(lines_keep_their_order_and_repeat)
{
    const char *const wanted[] = {"A", "1", "b-bin", "", "a", "3"};
    size_t at = 0;
    ks_view name;
    ks_view value;

    ks_headers_init(&headers, 1000);
    EXPECT_OK(add("A", "1"));
    EXPECT_OK(add("b-bin", ""));
    EXPECT_OK(add("a", "3"));
    for (size_t i = 0; i < 6; i += 2) {
        EXPECT(ks_headers_next(&headers, &at, &name, &value));
        EXPECT(ks_view_equal(name, ks_view_text(wanted[i])));
        EXPECT(ks_view_equal(value, ks_view_text(wanted[i + 1])));
    }
    EXPECT(!ks_headers_next(&headers, &at, &name, &value));
    EXPECT(ks_view_equal(ks_headers_find(&headers, "a"), KS_VIEW("1")));
    EXPECT(ks_headers_find(&headers, "B-BIN").data != NULL);
    EXPECT(ks_headers_find(&headers, "none").data == NULL);
    ks_headers_free(&headers);
}

TEST(names_become_lower_case_and_values_stay)
{
    ks_headers_init(&headers, 1000);
    EXPECT_OK(add("X-Name", "VALUE"));
    EXPECT_OK(add("Z", "Q"));
    ks_headers_lower(&headers);
    EXPECT(memcmp(headers.lines.data + 8, "x-nameVALUE", 11) == 0);
    EXPECT(ks_view_equal(ks_headers_find(&headers, "z"), KS_VIEW("Q")));
    ks_headers_free(&headers);
}

TEST(a_line_that_would_become_two_is_refused)
{
    ks_headers_init(&headers, 1000);
    EXPECT_ERR(add("a", "b\r\nc: d"), INVALID);
    EXPECT_ERR(add("a", "b\nc"), INVALID);
    EXPECT_ERR(ks_headers_add(&headers, KS_VIEW("a"), KS_VIEW("b\0c")), INVALID);
    EXPECT_ERR(add("a b", "c"), INVALID);
    EXPECT_ERR(add("a:", "c"), INVALID);
    EXPECT_ERR(add("", "c"), INVALID);
    EXPECT_OK(add("a", "tab\tand \xC3\xA9"));
    EXPECT_EQ_U64(headers.lines.size, 8 + 1 + 10);
    ks_headers_free(&headers);
}

TEST(the_limit_holds_and_nothing_is_half_there)
{
    char value[80];

    memset(value, 'v', sizeof(value));
    ks_headers_init(&headers, 100);
    EXPECT_OK(ks_headers_add(&headers, KS_VIEW("name"), ks_view_of(value, 80)));
    EXPECT_ERR(add("n", "v"), FULL);
    EXPECT_EQ_U64(headers.lines.size, 92);
    ks_headers_free(&headers);

    ks_headers_init(&headers, 100);
    ks_alloc_fail_after(1, 1);
    EXPECT_ERR(add("n", "v"), NO_MEMORY);
    ks_alloc_fail_after(0, 0);
    EXPECT_OK(add("n", "v"));
    ks_headers_free(&headers);
}
