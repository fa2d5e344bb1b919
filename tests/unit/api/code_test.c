/* SPDX-License-Identifier: Apache-2.0 */
#include "api/code.h"
#include "ks_test.h"

#include <string.h>

TEST(names_numbers_and_statuses_are_those_of_the_protocols)
{
    EXPECT_STR(ks_code_name(KS_CODE_CANCELED), "canceled");
    EXPECT_EQ_U64(ks_code_http(KS_CODE_CANCELED), 499);
    EXPECT_EQ_U64(KS_CODE_UNAUTHENTICATED, 16);
    EXPECT_STR(ks_code_name((enum ks_code)12), "unimplemented");
    EXPECT_EQ_U64(ks_code_http(KS_CODE_OUT_OF_RANGE), 400);
    EXPECT_EQ_U64(ks_code_http(KS_CODE_OK), 200);
}

TEST(every_problem_has_a_code)
{
#define X(kind, type, code, status, retry, title)                                                  \
    EXPECT_STR(ks_code_name(ks_code_of_problem(KS_PROBLEM_##kind)), code);
    KS_PROBLEM_TABLE(X)
#undef X
    EXPECT_EQ_I64(ks_code_of_problem(KS_PROBLEM_SESSION_FENCED), KS_CODE_ABORTED);
}
