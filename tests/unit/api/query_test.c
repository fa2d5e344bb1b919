/* SPDX-License-Identifier: Apache-2.0 */
#include "api/query.h"
#include "base/budget.h"
#include "ks_test.h"

#include <string.h>

static struct ks_detail detail;

static bool is(ks_view view, const char *text)
{
    return ks_view_equal(view, ks_view_text(text));
}

TEST(a_target_is_cut_and_decoded)
{
    struct ks_target target;

    EXPECT_OK(ks_target_parse(KS_VIEW("/a%20b+c?x=1&&y=%C3%A9+z&flag&e="), &target, &detail));
    EXPECT(is(target.path, "/a%20b+c"));
    EXPECT(is(ks_target_decode(&target, KS_VIEW("a%20b+c")), "a b+c"));
    EXPECT_EQ_U64(target.param_count, 4);
    EXPECT(is(target.params[0].name, "x") && is(target.params[0].value, "1"));
    EXPECT(is(target.params[1].name, "y") && is(target.params[1].value, "\xc3\xa9 z"));
    EXPECT(is(target.params[2].name, "flag") && is(target.params[2].value, ""));
    EXPECT(is(target.params[3].name, "e") && is(target.params[3].value, ""));
    ks_target_free(&target);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

/* Whoever stands before us judges paths by their letters; and an escaped slash is a part of a name. */
TEST(a_path_stays_as_it_was_sent)
{
    struct ks_target target;

    EXPECT_OK(ks_target_parse(KS_VIEW("/v1%2fstatus/%C3%A9"), &target, &detail));
    EXPECT(is(target.path, "/v1%2fstatus/%C3%A9"));
    EXPECT(is(ks_target_decode(&target, KS_VIEW("v1%2fstatus")), "v1/status"));
    EXPECT(is(ks_target_decode(&target, KS_VIEW("%C3%A9")), "\xc3\xa9"));
    /* Half of a letter is no name. */
    EXPECT(is(ks_target_decode(&target, KS_VIEW("%C3")), ""));
    ks_target_free(&target);
}

TEST(what_is_no_text_is_refused)
{
    static const char *const bad[] = {"",        "no-slash", "/%",      "/%4", "/%zz",   "/a%00b",
                                      "/?x=%00", "/%ff",     "/?a=%c3", "*",   "/?%00=1"};
    struct ks_target target;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        EXPECT_ERR(ks_target_parse(ks_view_text(bad[i]), &target, &detail), MALFORMED);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

TEST(the_number_of_parameters_is_limited)
{
    struct ks_target target;
    char text[2 * KS_PARAMS_MAX + 8] = "/?";

    for (size_t i = 0; i < KS_PARAMS_MAX; i++)
        memcpy(text + 2 + 2 * i, "a&", 2);
    EXPECT_OK(ks_target_parse(ks_view_text(text), &target, &detail));
    EXPECT_EQ_U64(target.param_count, KS_PARAMS_MAX);
    ks_target_free(&target);
    memcpy(text + 2 + 2 * KS_PARAMS_MAX, "a", 2);
    EXPECT_ERR(ks_target_parse(ks_view_text(text), &target, &detail), FULL);
}
