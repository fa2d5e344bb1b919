/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/dialects/dialect.h"

#include "ks_test.h"

TEST(each_dialect_is_found_by_its_name)
{
    uint32_t count = 0;

    for (; ks_dialect_at(count) != NULL; count++) {
        EXPECT(ks_dialect_at(count)->table_count >= 1);
        EXPECT(ks_dialect_find(ks_dialect_at(count)->name) == ks_dialect_at(count));
    }
    EXPECT_EQ_U64(count, 5);
    EXPECT(ks_dialect_at(count + 1) == NULL);
    EXPECT(ks_dialect_find("") == NULL);
    EXPECT(ks_dialect_find("kcl2") == NULL);
}
