/* SPDX-License-Identifier: Apache-2.0 */
#include "core/flow.h"

#include "ks_test.h"
#include "unit/core/rig.h"

static struct rig rig;

static const struct ks_effect *read_effect(void)
{
    return rig_effect(&rig, KS_EFFECT_READ, 0);
}

TEST(nothing_is_read_while_nobody_is_there_to_take_it)
{
    rig_live(&rig);
    rig_hold(&rig, 0, 1);
    rig_settle_down(&rig);
    EXPECT(read_effect() == NULL);
    rig_session(&rig, 10, 5000);
    rig_settle_down(&rig);
    EXPECT(read_effect() != NULL);
    EXPECT_EQ_I64(read_effect()->lease.max_bytes, 5000);
    EXPECT_EQ_I64(read_effect()->lease.max_records, RIG_WINDOW);
}

TEST(a_stalled_session_costs_its_byte_limit)
{
    rig_live(&rig);
    rig_session(&rig, 10, 5000);
    rig_hold(&rig, 0, 1);
    rig_settle_down(&rig);
    rig_records(&rig, 0, 30, 100, false);
    rig_settle_down(&rig);
    EXPECT_EQ_I64(read_effect()->lease.max_bytes, 2000);
    rig_records(&rig, 0, 20, 100, false);
    EXPECT(read_effect() == NULL);
    rig_wait(&rig, 1000);
    EXPECT(read_effect() == NULL);
    EXPECT_EQ_I64(ks_flow_held(rig.core), 5000);
}

TEST(several_leases_share_the_bytes_and_none_starves)
{
    ks_shard shard;

    rig_live(&rig);
    rig_session(&rig, 100, 4000);
    for (shard = 0; shard < 4; shard++)
        rig_hold(&rig, shard, 1);
    rig_settle_down(&rig);
    /* The first one takes all that is common; each of the others has its own share. */
    EXPECT_EQ_I64(rig_count(&rig, KS_EFFECT_READ), 4);
    EXPECT_EQ_I64(read_effect()->lease.max_bytes, 4000 - 3 * 625);
    EXPECT_EQ_I64(rig_effect(&rig, KS_EFFECT_READ, 3)->lease.max_bytes, 625);
    rig_records(&rig, 0, 21, 100, false);
    rig_settle_down(&rig);
    EXPECT(read_effect() == NULL); /* It has more than its half. */
    EXPECT_EQ_I64(ks_flow_held(rig.core) + rig.core->reserved, 2100 + 3 * 625);
    rig_records(&rig, 3, 0, 0, false);
    rig_settle_down(&rig);
    EXPECT_EQ_I64(read_effect()->lease.shard, 3);
}

TEST(a_lease_at_the_tip_asks_for_little_and_one_that_is_behind_for_much)
{
    uint32_t least = 10000 / 16;

    rig_live(&rig);
    rig_session(&rig, 100, 1 << 20);
    rig_hold(&rig, 0, 1);
    rig_settle_down(&rig);
    EXPECT_EQ_I64(read_effect()->lease.max_bytes, 10000);
    for (int i = 0; i < 8; i++) {
        rig_records(&rig, 0, 0, 0, false);
        rig_settle_down(&rig);
    }
    EXPECT_EQ_I64(read_effect()->lease.max_bytes, least);
    for (int i = 0; i < 4; i++) {
        rig_records(&rig, 0, 1, 10000, false);
        rig_settle_down(&rig);
    }
    EXPECT_EQ_I64(read_effect()->lease.max_bytes, 10000);
}

TEST(the_byte_budget_bounds_what_sessions_allow)
{
    rig_live(&rig);
    rig.core->config.budget_bytes = 3000;
    rig_session(&rig, 10, 1 << 30);
    rig_hold(&rig, 0, 1);
    rig_settle_down(&rig);
    EXPECT_EQ_I64(read_effect()->lease.max_bytes, 3000);
}

TEST(a_full_window_stops_reading_and_settling_goes_on_with_it)
{
    ks_session_id session;

    rig_live(&rig);
    session = rig_session(&rig, 100, 1 << 20);
    rig_hold(&rig, 0, 1);
    rig_settle_down(&rig);
    rig_records(&rig, 0, RIG_WINDOW, 1, false);
    rig_settle_down(&rig);
    EXPECT(read_effect() == NULL);
    EXPECT_EQ_I64(rig_pull(&rig, session, 100), RIG_WINDOW);
    EXPECT_EQ_I64(rig_settle(&rig, session, 0, 0, RIG_WINDOW, KS_ACK, 0), KS_SETTLE_OK);
    rig_settle_down(&rig);
    EXPECT(read_effect() != NULL);
}

TEST(a_failed_read_is_asked_for_again_and_says_why_there_is_nothing)
{
    struct ks_event failed = {.kind = KS_EVENT_READ_FAILED, .read_failed = {0, 1, true, false}};
    ks_session_id session;
    struct ks_session_view view;

    rig_live(&rig);
    session = rig_session(&rig, 100, 1 << 20);
    rig_hold(&rig, 0, 1);
    rig_settle_down(&rig);
    rig_step(&rig, &failed);
    EXPECT(read_effect() == NULL);
    EXPECT(ks_core_session(rig.core, session, &view));
    EXPECT_EQ_I64(view.idle, KS_IDLE_THROTTLED);
    EXPECT_EQ_I64(rig.core->reserved, 0);
    rig_wait(&rig, 200);
    EXPECT(read_effect() != NULL);
    rig_records(&rig, 0, 1, 1, false);
    EXPECT(ks_core_session(rig.core, session, &view));
    EXPECT_EQ_I64(view.idle, KS_IDLE_NO_DATA);
}

TEST(nothing_is_read_after_the_end_of_the_shard)
{
    rig_live(&rig);
    rig_session(&rig, 100, 1 << 20);
    rig_hold(&rig, 0, 1);
    rig_settle_down(&rig);
    rig_records(&rig, 0, 5, 10, true);
    rig_settle_down(&rig);
    rig_wait(&rig, 1000);
    EXPECT(read_effect() == NULL);
}
