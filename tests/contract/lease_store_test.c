/* SPDX-License-Identifier: Apache-2.0 */
/* The contract of ports/lease_store.h, against every adapter. */
#include "contract/lease_store_suite.h"

#define X(name)                                                                                    \
    TEST(sqlite_##name)                                                                            \
    {                                                                                              \
        lease_rig_run(&lease_rig_sqlite, lease_suite_##name);                                      \
    }
LEASE_STORE_SUITE(X)
#undef X

#define X(name)                                                                                    \
    TEST(dynamodb_##name)                                                                          \
    {                                                                                              \
        lease_rig_run(&lease_rig_dynamodb, lease_suite_##name);                                    \
    }
LEASE_STORE_SUITE(X)
#undef X
