/* SPDX-License-Identifier: Apache-2.0 */
#include "ks_test.h"
#include "unit/main/leases_rig.h"

TEST(the_leases_of_a_dead_worker_are_seized)
{
    const char *const words[] = {"seize", "worker-a", "--table", rig_table("a"), NULL};
    const char *const dry[] = {"seize", "worker-a", "--dry-run", "--table", rig_table("a"), NULL};
    struct ks_store_lease row;

    rig_fill("a");
    EXPECT_EQ_I64(rig_leases(dry), 0);
    EXPECT_CONTAINS(rig_output, "shardId-0: taken from worker-a, checkpoint stays 4959\ndry run: ");
    EXPECT_STR(rig_row("a", "shardId-0").owner.id, "worker-a");
    EXPECT_EQ_I64(rig_leases(words), 0);
    EXPECT_CONTAINS(rig_output, "1 rows written, and read again\n");
    row = rig_row("a", "shardId-0");
    EXPECT_STR(row.owner.id, "");
    /* What the dead one may still write is refused. */
    EXPECT_EQ_U64(row.epoch, 4);
    EXPECT_EQ_U64(row.rev, 10);
    EXPECT_STR(row.checkpoint.sequence, "4959");
}

TEST(leases_are_released_by_name)
{
    const char *const words[] = {"release", "shardId-0", "--table", rig_table("a"), NULL};
    const char *const none[] = {"release", "shardId-9", "--table", rig_table("a"), NULL};

    rig_fill("a");
    EXPECT_EQ_I64(rig_leases(none), 1);
    EXPECT_EQ_I64(rig_leases(words), 0);
    EXPECT_STR(rig_row("a", "shardId-0").owner.id, "");
}

TEST(leases_are_moved)
{
    const char *const words[] = {"reset",   "--all",        "--at", "after:4960:2",
                                 "--table", rig_table("a"), NULL};
    const char *const bad[] = {"reset", "--all", "--at", "4960x", "--table", rig_table("a"), NULL};

    rig_fill("a");
    EXPECT_EQ_I64(rig_leases(bad), 2);
    EXPECT_EQ_I64(rig_leases(words), 0);
    for (int i = 0; i < 3; i++) {
        static const char *const shards[] = {"shardId-0", "shardId-1", "shardId-2"};
        const struct ks_store_lease row = rig_row("a", shards[i]);

        EXPECT(!row.finished);
        EXPECT_STR(row.owner.id, "");
        EXPECT_STR(row.checkpoint.sequence, "4960");
        EXPECT_EQ_I64(row.checkpoint.sub_sequence, 2);
    }
}
