/* SPDX-License-Identifier: Apache-2.0 */
#include "ks_test.h"
#include "unit/main/leases_rig.h"

TEST(every_row_is_listed)
{
    const char *const words[] = {"list", "--table", rig_table("a"), NULL};
    const char *const none[] = {"list", "--table", rig_table("none"), NULL};

    rig_fill("a");
    EXPECT_EQ_I64(rig_leases(words), 0);
    EXPECT_CONTAINS(rig_output, "SHARD      OWNER     STATE     WRITES  CHECKPOINT\n");
    EXPECT_CONTAINS(rig_output, "shardId-0  worker-a  owned          9  4959\n");
    EXPECT_CONTAINS(rig_output, "shardId-1  -         finished       0  SHARD_END\n");
    EXPECT_CONTAINS(rig_output, "shardId-2  -         free           0  TRIM_HORIZON\n");
    EXPECT_EQ_I64(rig_leases(none), 1);
}

TEST(a_row_is_shown_in_the_words_of_its_table)
{
    const char *const words[] = {"show", "shardId-0", "--table", rig_table("a"), NULL};
    const char *const none[] = {"show", "shardId-9", "--table", rig_table("a"), NULL};

    rig_fill("a");
    EXPECT_EQ_I64(rig_leases(words), 0);
    EXPECT_CONTAINS(rig_output, "state                owned\n");
    EXPECT_CONTAINS(rig_output, "checkpoint           4959\n");
    EXPECT_CONTAINS(rig_output, "  owner                    worker-a#0000000000000007\n");
    EXPECT_EQ_I64(rig_leases(none), 1);
}
