/* SPDX-License-Identifier: Apache-2.0 */
#include "main/lease_commands.h"

#include "ks_test.h"
#include "unit/main/leases_rig.h"

TEST(words_that_do_not_go_together_are_refused)
{
    static const char *const lines[][8] = {
        {"show", "--table", "native:app"},
        {"list", "more", "--table", "native:app"},
        {"convert", "--from", "native:app"},
        {"convert", "--from", "native:app", "--to", "native:app"},
        {"convert", "--table", "native:app"},
        {"seize", "--table", "native:app"},
        {"seize", "--all", "--table", "native:app"},
        {"release", "--table", "native:app"},
        {"release", "a", "--at", "latest", "--table", "native:app"},
        {"reset", "a", "--table", "native:app"},
        {"reset", "a", "--all", "--at", "latest", "--table"},
        {"mend", "a", "--table", "native:app"},
    };

    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        EXPECT_EQ_I64(rig_leases(lines[i]), 2);
}

TEST(the_usage_names_each_dialect)
{
    const char *const words[] = {"--help", NULL};

    EXPECT_EQ_I64(rig_leases(words), 0);
    EXPECT_CONTAINS(rig_output, "leases convert --from TABLE --to TABLE");
    for (uint32_t i = 0; ks_dialect_at(i) != NULL; i++)
        EXPECT_CONTAINS(rig_output, ks_dialect_at(i)->name);
}
