/* SPDX-License-Identifier: Apache-2.0 */
#include "core/core.h"

#include "ks_test.h"
#include "unit/core/rig.h"

static struct rig rig;

TEST(the_defaults_of_a_short_lease_shrink_in_proportion)
{
    struct ks_core_config config = ks_core_config_default(ks_span_ms(10000));

    EXPECT_EQ_I64(config.margin.us, 500000);
    EXPECT_EQ_I64(config.beat.us, 3333333);
    EXPECT_EQ_I64(config.round.us, 1000000);
    EXPECT_EQ_I64(config.timeout.us, 2000000);
    EXPECT_EQ_I64(config.hand_over.us, 5000000);
    config = ks_core_config_default(ks_span_ms(1000));
    EXPECT_EQ_I64(config.timeout.us, 200000);
    EXPECT_EQ_I64(config.round.us, 100000);
    EXPECT(config.timeout.us < config.lease_duration.us / 3);
    /* A long lease is not watched more slowly than by these. */
    config = ks_core_config_default(ks_span_ms(60000));
    EXPECT_EQ_I64(config.timeout.us, 2000000);
    EXPECT_EQ_I64(config.round.us, 1000000);
}

TEST(the_same_events_give_the_same_effects)
{
    uint64_t boots[2];

    for (int i = 0; i < 2; i++) {
        rig_live(&rig);
        boots[i] = rig.core->fleet.self.boot;
        EXPECT(boots[i] != 0);
    }
    EXPECT_EQ_U64(boots[0], boots[1]);
}

TEST(tokens_carry_purpose_subject_and_serial)
{
    uint64_t token = ks_token_make(KS_FOR_LEASE, 0xABCDEF, 0x12345678);

    EXPECT_EQ_I64(ks_token_purpose(token), KS_FOR_LEASE);
    EXPECT_EQ_I64(ks_token_subject(token), 0xABCDEF);
    EXPECT_EQ_I64(ks_token_serial(token), 0x12345678);
}

TEST(effects_that_do_not_fit_ask_for_another_step)
{
    rig_live(&rig);
    rig.core->again = false;
    rig.effects.count = 0;
    EXPECT(ks_effects_room(rig.core, &rig.effects, 1));
    EXPECT(!rig.core->again);
    rig.effects.count = KS_EFFECTS_MAX - 1;
    EXPECT(!ks_effects_room(rig.core, &rig.effects, 1));
    EXPECT(rig.core->again);
    EXPECT_EQ_I64(ks_core_deadline(rig.core).us, rig.core->now.us);
}

TEST(an_idle_worker_drains_at_once)
{
    struct ks_event drain = {.kind = KS_EVENT_DRAIN, .drain = {ks_span_ms(25000)}};

    rig_live(&rig);
    rig_step(&rig, &drain);
    rig_settle_down(&rig);
    rig_answer(&rig, rig_asked(&rig, KS_STORE_SAY_GONE)->token, KS_DONE);
    EXPECT(rig_effect(&rig, KS_EFFECT_DRAINED, 0) != NULL);
    EXPECT(rig_effect(&rig, KS_EFFECT_DRAINED, 0)->drained.clean);
    EXPECT_EQ_I64(ks_core_deadline(rig.core).us, KS_NEVER.us);
}

TEST(a_drain_ends_although_the_store_never_answers)
{
    struct ks_event drain = {.kind = KS_EVENT_DRAIN, .drain = {ks_span_ms(1000)}};

    rig_live(&rig);
    rig_session(&rig, 10, 1000);
    rig_hold(&rig, 0, 1);
    rig_step(&rig, &drain);
    for (int i = 0; i < 200 && rig_effect(&rig, KS_EFFECT_DRAINED, 0) == NULL; i++) {
        const struct ks_effect *store;

        rig_wait(&rig, 100);
        while ((store = rig_effect(&rig, KS_EFFECT_STORE, 0)) != NULL)
            rig_answer(&rig, store->store.token, KS_UNKNOWN);
    }
    EXPECT(rig_effect(&rig, KS_EFFECT_DRAINED, 0) != NULL);
    EXPECT(!rig_effect(&rig, KS_EFFECT_DRAINED, 0)->drained.clean);
    EXPECT_EQ_I64(rig.core->sessions_used, 0);
}

TEST(a_drain_before_the_registration_is_over_at_once)
{
    struct ks_event start = {.kind = KS_EVENT_START};
    struct ks_event drain = {.kind = KS_EVENT_DRAIN, .drain = {ks_span_ms(1000)}};

    rig_init(&rig);
    rig_step(&rig, &start);
    rig_step(&rig, &drain);
    EXPECT(rig_effect(&rig, KS_EFFECT_DRAINED, 0) != NULL);
}
