/* SPDX-License-Identifier: Apache-2.0 */
/* The contract of ports/dead_letters.h, against every adapter. */
#include "contract/dead_letters_suite.h"

#define X(name)                                                                                    \
    TEST(sqlite_##name)                                                                            \
    {                                                                                              \
        letters_rig_run(&letters_sqlite, letters_suite_##name);                                    \
    }
DEAD_LETTERS_SUITE(X)
#undef X

#define X(name)                                                                                    \
    TEST(dynamodb_##name)                                                                          \
    {                                                                                              \
        letters_rig_run(&letters_dynamodb, letters_suite_##name);                                  \
    }
DEAD_LETTERS_SUITE(X)
DEAD_LETTERS_CLAIMS(X)
#undef X

#define X(name)                                                                                    \
    TEST(s3_##name)                                                                                \
    {                                                                                              \
        letters_rig_run(&letters_s3, letters_suite_##name);                                        \
    }
DEAD_LETTERS_SUITE(X)
DEAD_LETTERS_CLAIMS(X)
#undef X
