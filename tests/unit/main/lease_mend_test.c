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

TEST(a_worker_that_is_not_fenced_is_seized_at_once)
{
    const char *const words[] = {"seize", "worker-a", "--table", rig_table("a"), NULL};

    rig_fill("a");
    rig_register("a");
    EXPECT_EQ_I64(rig_leases(words), 0);
    EXPECT_CONTAINS(rig_output, "1 rows written, and read again\n");
    EXPECT_STR(rig_row("a", "shardId-0").owner.id, "");
    /* Its row is still there: nothing is left to do, and that is fine. */
    EXPECT_EQ_I64(rig_leases(words), 0);
    EXPECT_CONTAINS(rig_output, "0 rows written, and read again\n");
}

TEST(a_worker_that_nobody_knows_is_a_mistake)
{
    const char *const words[] = {"seize", "worker-b", "--table", rig_table("a"), NULL};

    rig_fill("a");
    EXPECT_EQ_I64(rig_leases(words), 1);
}

/* Two would deliver: no word frees the lease of a worker that may go on. */
TEST(a_lease_whose_owner_may_come_back_is_never_freed_under_it)
{
    const char *const lines[][8] = {
        {"release", "shardId-0", "--table", rig_table("a")},
        {"release", "shardId-0", "--force", "--table", rig_table("a")},
        {"release", "shardId-0", "--dry-run", "--table", rig_table("a")},
        {"reset", "--all", "--at", "latest", "--force", "--table", rig_table("a")},
    };

    rig_fill("a");
    rig_register("a");
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        EXPECT_EQ_I64(rig_leases(lines[i]), 1);
    EXPECT_STR(rig_row("a", "shardId-0").owner.id, "worker-a");
    EXPECT_EQ_I64(rig_row("a", "shardId-2").checkpoint.kind, KS_POSITION_TRIM_HORIZON);
}

TEST(a_shard_may_be_named_twice)
{
    const char *const words[] = {"release", "shardId-0",    "shardId-0",
                                 "--table", rig_table("a"), NULL};

    rig_fill("a");
    EXPECT_EQ_I64(rig_leases(words), 0);
    EXPECT_STR(rig_row("a", "shardId-0").owner.id, "");
}
