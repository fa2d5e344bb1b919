/* SPDX-License-Identifier: Apache-2.0 */
#include "core/fleet/native.h"

#include "ks_test.h"
#include "unit/core/rig.h"

static struct rig rig;

TEST(a_start_reads_our_own_row_first)
{
    struct ks_event start = {.kind = KS_EVENT_START};

    rig_init(&rig);
    rig_step(&rig, &start);
    EXPECT(rig_asked(&rig, KS_STORE_READ_WORKER) != NULL);
    EXPECT_EQ_I64(rig_count(&rig, KS_EFFECT_STORE), 1);
}

TEST(answers_of_requests_that_are_no_longer_awaited_change_nothing)
{
    rig_live(&rig);
    for (uint32_t purpose = KS_FOR_SELF; purpose <= KS_FOR_LEASE; purpose++) {
        rig_answer(&rig, ks_token_make((enum ks_purpose)purpose, 0, 0x7777), KS_DONE);
        EXPECT_EQ_I64(rig.core->fleet.step, KS_SELF_LIVE);
        EXPECT_EQ_I64(rig.core->leases_used, 0);
        EXPECT(!rig.core->fleet.leads);
    }
}

TEST(shard_numbers_beyond_the_directory_are_refused)
{
    rig_live(&rig);
    EXPECT(ks_native_know(rig.core, RIG_SHARDS - 1));
    EXPECT(!ks_native_know(rig.core, RIG_SHARDS));
    EXPECT_EQ_I64(rig.core->directory_top, RIG_SHARDS);
}
