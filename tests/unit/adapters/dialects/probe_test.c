/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/dialects/probe.h"

#include "adapters/dialects/dialect.h"
#include "ks_test.h"

static struct ks_probe seen(const char *one, const char *two)
{
    struct ks_probe probe = {.marks = {0}};

    ks_probe_see(&probe, ks_view_text(one));
    ks_probe_see(&probe, ks_view_text(two));
    return probe;
}

TEST(two_marks_of_another_dialect_are_a_stranger)
{
    const struct ks_schema *const go_kcl = ks_go_kcl_dialect.tables[0].schema;
    struct ks_probe probe = seen("leaseCounter", "leaseOwner");

    EXPECT_STR(ks_probe_stranger(&probe, go_kcl), "kcl");
    EXPECT(ks_probe_stranger(&probe, ks_kcl_dialect.tables[0].schema) == NULL);
    /* One may be somebody's note, seen twice or not. */
    probe = seen("leaseCounter", "leaseCounter");
    EXPECT(ks_probe_stranger(&probe, go_kcl) == NULL);
    probe = seen("leaseCounter", "AssignedTo");
    EXPECT(ks_probe_stranger(&probe, go_kcl) == NULL);
    probe = seen("assigned_to", "lease_timeout");
    EXPECT_STR(ks_probe_stranger(&probe, go_kcl), "kcl-rb");
    probe = seen("epoch", "rev");
    EXPECT_STR(ks_probe_stranger(&probe, go_kcl), "native");
    EXPECT(ks_probe_stranger(&probe, ks_native_dialect.tables[0].schema) == NULL);
}

TEST(keys_tell_whose_a_table_is)
{
    EXPECT_STR(ks_probe_keys("ShardID", ""), "go-kcl");
    EXPECT_STR(ks_probe_keys("ID", ""), "kinsumer");
    EXPECT_STR(ks_probe_keys("p", "k"), "native");
    EXPECT(ks_probe_keys("ShardID", "k") == NULL);
    EXPECT(ks_probe_keys("", "") == NULL);
}
