/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/head.h"

#include "ks_test.h"

static void expect_header(ks_view head, const char *name, const char *value)
{
    ks_view found = ks_head_find(head, name);

    EXPECT((found.data == NULL) == (value == NULL));
    EXPECT(value == NULL || ks_view_equal(found, ks_view_text(value)));
}

TEST(headers_are_found_without_case_and_trimmed)
{
    ks_view head =
        KS_VIEW("HTTP/1.1 200 OK\r\nContent-Type:  text/xml \r\nx-Empty:\r\nno colon\r\n"
                "DATE: Sun, 06 Nov 1994 08:49:37 GMT\nTwice: 1\r\nTwice: 2\r\n\r\nBody: no\r\n");

    expect_header(head, "content-type", "text/xml");
    expect_header(head, "X-EMPTY", "");
    expect_header(head, "Date", "Sun, 06 Nov 1994 08:49:37 GMT");
    expect_header(head, "Twice", "1");
    expect_header(head, "no colon", NULL);
    expect_header(head, "Content", NULL);
    expect_header(KS_VIEW_NONE, "Date", NULL);
    expect_header(KS_VIEW(""), "Date", NULL);
    expect_header(KS_VIEW("Date:x"), "Date", "x");
}

TEST(dates_are_read)
{
    int64_t ms = 0;

    EXPECT_OK(ks_head_date(KS_VIEW("Sun, 06 Nov 1994 08:49:37 GMT"), &ms));
    EXPECT_EQ_I64(ms, 784111777000);
    EXPECT_OK(ks_head_date(KS_VIEW("Thu, 01 Jan 1970 00:00:00 GMT"), &ms));
    EXPECT_EQ_I64(ms, 0);
    EXPECT_OK(ks_head_date(KS_VIEW("Tue, 29 Feb 2028 23:59:59 GMT"), &ms));
    EXPECT_EQ_I64(ms, 1835481599000);
}

TEST(what_is_no_date_is_refused)
{
    static const char *const broken[] = {"",
                                         "Sun, 06 Nov 1994 08:49:37",
                                         "Sunday, 06-Nov-94 08:49:37 GMT",
                                         "Sun Nov  6 08:49:37 1994",
                                         "Sun, 06 Nev 1994 08:49:37 GMT",
                                         "Sun, 6  Nov 1994 08:49:37 GMT",
                                         "Sun, 06 Nov 1994 08:49:37 UTC",
                                         "Sun, 31 Feb 1994 08:49:37 GMT",
                                         "Sun, 06 Nov 1994 25:49:37 GMT",
                                         "Sun, 06 Nov 1994 08-49-37 GMT",
                                         "Sun, 06 Nov 199x 08:49:37 GMT",
                                         "Sun, 06 ovD 1994 08:49:37 GMT"};
    int64_t ms = 0;

    for (size_t at = 0; at < sizeof(broken) / sizeof(broken[0]); at++) {
        if (ks_ok(ks_head_date(ks_view_text(broken[at]), &ms)))
            FAIL("'%s' was read", broken[at]);
    }
}

TEST(a_clock_is_corrected_by_what_differs_a_minute)
{
    static const int64_t then = INT64_C(1793954977000);
    ks_view head = KS_VIEW("Date: Fri, 06 Nov 2026 08:49:37 GMT\r\n");
    int64_t skew_ms = 0;

    EXPECT(!ks_head_corrects(head, then, &skew_ms));
    EXPECT(!ks_head_corrects(head, then - 59999, &skew_ms));
    EXPECT(!ks_head_corrects(head, then + 59999, &skew_ms));
    EXPECT_EQ_I64(skew_ms, 0);
    EXPECT(ks_head_corrects(head, then - 60000, &skew_ms));
    EXPECT_EQ_I64(skew_ms, 60000);
    /* What is corrected already is not wrong. */
    EXPECT(!ks_head_corrects(head, then - 60000, &skew_ms));
    EXPECT(ks_head_corrects(head, then + 3600000, &skew_ms));
    EXPECT_EQ_I64(skew_ms, -3600000);
    EXPECT(!ks_head_corrects(KS_VIEW("Date: Fri, 06 Nov 2026 08:49:37 GMT\r\nAge: 1\r\n"), then,
                             &skew_ms));
    EXPECT(!ks_head_corrects(KS_VIEW("Date: nonsense\r\n"), then, &skew_ms));
    EXPECT(!ks_head_corrects(KS_VIEW(""), then, &skew_ms));
    EXPECT_EQ_I64(skew_ms, -3600000);
}

/* An answer of a gateway, or a lie: signed with such a time nothing would be accepted any more. */
TEST(an_absurd_date_corrects_nothing)
{
    static const int64_t now = INT64_C(1793954977000);
    static const char *const absurd[] = {
        "Date: Sat, 01 Jan 0000 00:00:00 GMT\r\n", "Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n",
        "Date: Fri, 31 Dec 9999 23:59:59 GMT\r\n", "Date: Sat, 07 Nov 2026 08:49:38 GMT\r\n",
        "Date: Thu, 05 Nov 2026 08:49:36 GMT\r\n"};
    int64_t skew_ms = 1000;

    for (size_t i = 0; i < sizeof(absurd) / sizeof(absurd[0]); i++)
        if (ks_head_corrects(ks_view_text(absurd[i]), now, &skew_ms))
            FAIL("%s", absurd[i]);
    EXPECT_EQ_I64(skew_ms, 1000);
    EXPECT(ks_head_corrects(KS_VIEW("Date: Sat, 07 Nov 2026 08:49:37 GMT\r\n"), now, &skew_ms));
    EXPECT_EQ_I64(skew_ms, 86400000);
    EXPECT(ks_head_is_present(INT64_C(1577836800000)) &&
           !ks_head_is_present(INT64_C(1577836799999)));
    EXPECT(ks_head_is_present(INT64_C(4102444799999)) &&
           !ks_head_is_present(INT64_C(4102444800000)));
}

TEST(names_and_values_hold_no_line_end)
{
    EXPECT(ks_head_is_token(KS_VIEW("X-Amz-Date")));
    EXPECT(!ks_head_is_token(KS_VIEW("")));
    EXPECT(!ks_head_is_token(KS_VIEW("X Y")));
    EXPECT(!ks_head_is_token(KS_VIEW("X:")));
    EXPECT(!ks_head_is_token(KS_VIEW("X\xc3\xa4")));
    EXPECT(ks_head_is_line(KS_VIEW("")));
    EXPECT(ks_head_is_line(KS_VIEW("a\tb: \xc3\xa4")));
    EXPECT(!ks_head_is_line(KS_VIEW("a\r\nb")));
    EXPECT(!ks_head_is_line(KS_VIEW("a\0b")));
    EXPECT(!ks_head_is_line(KS_VIEW("a\x7f")));
}
