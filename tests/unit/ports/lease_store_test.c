/* SPDX-License-Identifier: Apache-2.0 */
#include "ports/lease_store.h"

#include "ks_test.h"

#include <string.h>

TEST(every_operation_has_a_name_of_its_own)
{
    for (int one = 0; one < KS_STORE_OPERATIONS; one++) {
        const char *const name = ks_store_operation_name((enum ks_store_operation)one);

        EXPECT(name != NULL && name[0] >= 'a' && name[0] <= 'z');
        for (int other = 0; other < one; other++)
            EXPECT(strcmp(name, ks_store_operation_name((enum ks_store_operation)other)) != 0);
    }
    EXPECT_STR(ks_store_operation_name(KS_STORE_HEARTBEAT), "heartbeat");
}
