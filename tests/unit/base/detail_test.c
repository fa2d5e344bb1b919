/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include "ks_test.h"

#include <string.h>

TEST(a_detail_is_formatted)
{
    struct ks_detail detail;

    ks_detail_set(&detail, "AccessDenied on %s table=%s", "dynamodb:UpdateItem", "t");
    EXPECT_STR(detail.text, "AccessDenied on dynamodb:UpdateItem table=t");
}

TEST(a_detail_is_one_line_whatever_it_quotes)
{
    struct ks_detail detail;

    ks_detail_set(&detail, "%s is no option", "a\nerror \x1b[2J\x7f \xE2\x82\xAC");
    EXPECT_STR(detail.text, "a?error ?[2J? \xE2\x82\xAC is no option");
}

TEST(nobody_needs_to_want_a_detail)
{
    ks_detail_set(NULL, "%d", 1);
    EXPECT(ks_err_is(ks_err_because(KS_FAIL(DENIED), NULL, "%d", 1), KS_ERR_DENIED));
}

TEST(a_detail_goes_with_its_error)
{
    struct ks_detail detail;

    EXPECT(
        ks_err_is(ks_err_because(KS_FAIL(DISK), &detail, "no room on %s", "/data"), KS_ERR_DISK));
    EXPECT_STR(detail.text, "no room on /data");
}

TEST(a_long_detail_is_cut_between_characters)
{
    struct ks_detail detail;
    char text[400];

    memset(text, 'a', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    ks_detail_set(&detail, "%s", text);
    EXPECT_EQ_U64(strlen(detail.text), KS_DETAIL_SIZE - 1);

    /* A euro sign of three bytes, of which only two have room. */
    memcpy(text + KS_DETAIL_SIZE - 3, "\xE2\x82\xAC", 3);
    ks_detail_set(&detail, "%s", text);
    EXPECT_EQ_U64(strlen(detail.text), KS_DETAIL_SIZE - 3);
    EXPECT_EQ_I64(detail.text[KS_DETAIL_SIZE - 4], 'a');
}
