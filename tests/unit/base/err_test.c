/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include "ks_test.h"

#include <ctype.h>

static ks_err pass_on(ks_err err, bool *ret_went_on)
{
    KS_TRY(err);
    *ret_went_on = true;
    return KS_OK;
}

TEST(a_failure_is_passed_on_and_success_is_not)
{
    bool went_on = false;

    EXPECT(ks_err_is(pass_on(KS_FAIL(THROTTLED), &went_on), KS_ERR_THROTTLED));
    EXPECT(!went_on);
    EXPECT_OK(pass_on(KS_OK, &went_on));
    EXPECT(went_on);
}

TEST(each_code_has_the_class_of_the_table)
{
    EXPECT_EQ_I64(ks_err_class(KS_OK), KS_CLASS_OK);
    EXPECT_EQ_I64(ks_err_class(KS_FAIL(TIMEOUT)), KS_CLASS_RETRY);
    EXPECT_EQ_I64(ks_err_class(KS_FAIL(CONDITION)), KS_CLASS_REREAD);
    EXPECT_EQ_I64(ks_err_class(KS_FAIL(FULL)), KS_CLASS_SHED);
    EXPECT_EQ_I64(ks_err_class(KS_FAIL(DENIED)), KS_CLASS_REPORT);
    EXPECT_EQ_I64(ks_err_class(KS_FAIL(CANCELLED)), KS_CLASS_REPORT);
}

TEST(names_are_the_codes_in_lower_case)
{
#define X(name, word, class, text)                                                                 \
    {                                                                                              \
        const char *code = #name;                                                                  \
        EXPECT_STR(ks_err_name(KS_FAIL(name)), word);                                              \
        EXPECT_STR(ks_err_text(KS_FAIL(name)), text);                                              \
        for (int i = 0; code[i] != '\0'; i++)                                                      \
            EXPECT_EQ_I64(word[i], tolower(code[i]));                                              \
    }
    KS_ERR_TABLE(X)
#undef X
    EXPECT_STR(ks_err_name(KS_OK), "ok");
}
