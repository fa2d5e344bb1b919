/* SPDX-License-Identifier: Apache-2.0 */
/* Values in rows of a lease table that nobody should write, by each dialect: from the row up to the ack_id. A bounded
 * run of tests/fuzz/rows.c. KS_ROWS_SEEDS=1000 runs more seeds. */
#include "fuzz/rows.c"

#include "ks_test.h"

#include <stdlib.h>

enum { SEEDS = 80 };

TEST(no_value_of_a_row_reaches_an_assert)
{
    const char *const text = getenv("KS_ROWS_SEEDS");
    const uint64_t seeds = text == NULL ? SEEDS : strtoull(text, NULL, 10);

    for (uint32_t dialect = 0; dialect < dialect_count(); dialect++) {
        uint64_t delivered = 0;
        uint64_t persisted = 0;
        uint64_t damaged = 0;

        for (uint64_t seed = 1; seed <= seeds; seed++) {
            run_rows(dialect, seed, KS_VIEW_NONE);
            delivered += world.delivered;
            persisted += world.persisted;
            damaged += world.damage;
        }
        printf("%s: %" PRIu64 " records delivered, %" PRIu64 " checkpoints, %" PRIu64
               " damaged rows read\n",
               world.dialect->name, delivered, persisted, damaged);
        /* Else nothing was tested. */
        EXPECT(delivered > 0 && persisted > 0 && damaged > 0);
    }
}
