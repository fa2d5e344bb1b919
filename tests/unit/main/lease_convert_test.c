/* SPDX-License-Identifier: Apache-2.0 */
#include "ks_test.h"
#include "unit/main/leases_rig.h"

#include <string.h>

TEST(rows_are_converted_once_and_free)
{
    const char *const words[] = {"convert", "--from", rig_table("a"), "--to", rig_table("b"), NULL};
    struct ks_store_lease row;

    rig_fill("a");
    EXPECT_EQ_I64(rig_leases(words), 0);
    EXPECT_CONTAINS(rig_output, "3 rows written, read again and compared; 0 were there\n");
    row = rig_row("b", "shardId-0");
    EXPECT_STR(row.owner.id, "");
    EXPECT_EQ_U64(row.epoch, 0);
    EXPECT_STR(row.checkpoint.sequence, "4959");
    EXPECT(rig_row("b", "shardId-1").finished);
    EXPECT_STR(rig_row("a", "shardId-0").owner.id, "worker-a");
    EXPECT_EQ_I64(rig_leases(words), 0);
    EXPECT_CONTAINS(rig_output, "0 rows written, read again and compared; 3 were there\n");
}

TEST(other_rows_are_overwritten_by_force_alone)
{
    const char *const words[] = {"convert", "--from", rig_table("a"), "--to", rig_table("b"), NULL};
    const char *const force[] = {"convert", "--from", rig_table("a"), "--to", rig_table("b"),
                                 "--force", NULL};
    const char *const dry[] = {"convert",      "--from",    rig_table("a"), "--to",
                               rig_table("b"), "--dry-run", "--force",      NULL};

    rig_fill("a");
    rig_fill("b"); /* With an owner. */
    EXPECT_EQ_I64(rig_leases(words), 1);
    EXPECT_CONTAINS(rig_output, "the target has another row");
    EXPECT_EQ_I64(rig_leases(dry), 0);
    EXPECT_STR(rig_row("b", "shardId-0").owner.id, "worker-a");
    EXPECT_EQ_I64(rig_leases(force), 0);
    EXPECT_STR(rig_row("b", "shardId-0").owner.id, "");
    /* What its owner may still write is refused. */
    EXPECT_EQ_U64(rig_row("b", "shardId-0").epoch, 4);
    EXPECT_EQ_U64(rig_row("b", "shardId-0").rev, 10);
}
