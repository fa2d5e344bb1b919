/* SPDX-License-Identifier: Apache-2.0 */
#include "core/fleet/native.h"

#include "ks_test.h"
#include "unit/core/bed.h"

static struct bed bed;

TEST(a_start_reads_our_own_row_first)
{
    struct ks_event start = {.kind = KS_EVENT_START};

    bed_init(&bed);
    bed_step(&bed, &start);
    EXPECT(bed_asked(&bed, KS_STORE_READ_WORKER) != NULL);
    EXPECT_EQ_I64(bed_count(&bed, KS_EFFECT_STORE), 1);
}

TEST(answers_of_requests_that_are_no_longer_awaited_change_nothing)
{
    bed_live(&bed);
    for (uint32_t purpose = KS_FOR_SELF; purpose <= KS_FOR_LEASE; purpose++) {
        bed_answer(&bed, ks_token_make((enum ks_purpose)purpose, 0, 0x7777), KS_DONE);
        EXPECT_EQ_I64(bed.core->fleet.step, KS_SELF_LIVE);
        EXPECT_EQ_I64(bed.core->leases_used, 0);
        EXPECT(!bed.core->fleet.leads);
    }
}

TEST(shard_numbers_beyond_the_directory_are_refused)
{
    bed_live(&bed);
    EXPECT(ks_native_know(bed.core, BED_SHARDS - 1));
    EXPECT(!ks_native_know(bed.core, BED_SHARDS));
    EXPECT_EQ_I64(bed.core->directory_top, BED_SHARDS);
}

TEST(a_change_of_the_table_makes_us_look_at_once)
{
    struct ks_event changed = {.kind = KS_EVENT_CHANGED};

    bed_live(&bed);
    bed.core->fleet.news = 0;
    bed.core->fleet.news_at = KS_NEVER;
    bed_tick(&bed);
    EXPECT(bed_asked(&bed, KS_STORE_READ_FLEET) == NULL);
    bed_step(&bed, &changed);
    EXPECT(bed_asked(&bed, KS_STORE_READ_FLEET) != NULL);
}
