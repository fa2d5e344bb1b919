/* SPDX-License-Identifier: Apache-2.0 */
#include "core/core.h"

#include "ks_test.h"
#include "unit/core/bed.h"

static struct bed bed;

TEST(the_defaults_of_a_short_lease_shrink_in_proportion)
{
    struct ks_core_config config = ks_core_config_default(ks_span_ms(10000));

    EXPECT_EQ_I64(config.margin.us, 500000);
    EXPECT_EQ_I64(config.beat.us, 3333333);
    EXPECT_EQ_I64(config.round.us, 500000);
    EXPECT_EQ_I64(config.timeout.us, 2000000);
    EXPECT_EQ_I64(config.hand_over.us, 5000000);
    config = ks_core_config_default(ks_span_ms(1000));
    EXPECT_EQ_I64(config.timeout.us, 200000);
    EXPECT_EQ_I64(config.round.us, 50000);
    EXPECT(config.timeout.us < config.lease_duration.us / 3);
    /* A long lease is not watched more slowly than by these. */
    config = ks_core_config_default(ks_span_ms(60000));
    EXPECT_EQ_I64(config.timeout.us, 2000000);
    EXPECT_EQ_I64(config.round.us, 500000);
}

TEST(the_same_events_give_the_same_effects)
{
    uint64_t boots[2];

    for (int i = 0; i < 2; i++) {
        bed_live(&bed);
        EXPECT_EQ_U64(bed.core->fleet.self.boot, BED_BOOT);
        boots[i] = ks_prng_next(&bed.core->prng); /* Of the next registration. */
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
    bed_live(&bed);
    bed.core->again = false;
    bed.effects.count = 0;
    EXPECT(ks_effects_room(bed.core, &bed.effects, 1));
    EXPECT(!bed.core->again);
    bed.effects.count = KS_EFFECTS_MAX - 1;
    EXPECT(!ks_effects_room(bed.core, &bed.effects, 1));
    EXPECT(bed.core->again);
    EXPECT_EQ_I64(ks_core_deadline(bed.core).us, bed.core->now.us);
}

TEST(an_idle_worker_drains_at_once)
{
    struct ks_event drain = {.kind = KS_EVENT_DRAIN, .drain = {ks_span_ms(25000)}};

    bed_live(&bed);
    bed_step(&bed, &drain);
    bed_settle_down(&bed);
    bed_answer(&bed, bed_asked(&bed, KS_STORE_SAY_GONE)->token, KS_DONE);
    EXPECT(bed_effect(&bed, KS_EFFECT_DRAINED, 0) != NULL);
    EXPECT(bed_effect(&bed, KS_EFFECT_DRAINED, 0)->drained.clean);
    EXPECT_EQ_I64(ks_core_deadline(bed.core).us, KS_NEVER.us);
}

TEST(a_drain_ends_although_the_store_never_answers_and_says_what_it_could_not_save)
{
    ks_session_id session;
    struct ks_event drain = {.kind = KS_EVENT_DRAIN, .drain = {ks_span_ms(1000)}};

    bed_live(&bed);
    session = bed_session(&bed, 10, 1000);
    bed_hold(&bed, 0, 1);
    bed_settle_down(&bed);
    bed_records(&bed, 0, 5, 10, false);
    EXPECT_EQ_I64(bed_pull(&bed, session, 5), 5);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 3, KS_ACK, 0), KS_SETTLE_OK);
    bed_step(&bed, &drain);
    for (int i = 0; i < 200 && bed_effect(&bed, KS_EFFECT_DRAINED, 0) == NULL; i++) {
        const struct ks_effect *store;

        bed_wait(&bed, 100);
        while ((store = bed_effect(&bed, KS_EFFECT_STORE, 0)) != NULL)
            bed_answer(&bed, store->store.token, KS_UNKNOWN);
    }
    EXPECT(bed_effect(&bed, KS_EFFECT_DRAINED, 0) != NULL);
    EXPECT(!bed_effect(&bed, KS_EFFECT_DRAINED, 0)->drained.clean);
    EXPECT_EQ_U64(bed_effect(&bed, KS_EFFECT_DRAINED, 0)->drained.unsaved, 3);
    EXPECT_EQ_I64(bed.core->sessions_used, 0);
}

TEST(a_drain_before_the_registration_is_over_at_once)
{
    struct ks_event start = {.kind = KS_EVENT_START};
    struct ks_event drain = {.kind = KS_EVENT_DRAIN, .drain = {ks_span_ms(1000)}};

    bed_init(&bed);
    bed_step(&bed, &start);
    bed_step(&bed, &drain);
    EXPECT(bed_effect(&bed, KS_EFFECT_DRAINED, 0) != NULL);
}

TEST(what_all_leases_say_is_asked_once_for_many_sessions_and_what_some_say_of_each)
{
    const ks_shard second = 1;
    struct ks_idle_leases all = {.asked = false};
    struct ks_lease *leases[2];
    ks_session_id session;
    ks_session_id choosy;

    bed_live(&bed);
    session = bed_session(&bed, 10, 1000);
    choosy = bed_session(&bed, 10, 1000);
    bed.core->sessions[choosy].shards[0] = second;
    bed.core->sessions[choosy].shard_count = 1;
    EXPECT_EQ_I64(ks_core_session_idle(bed.core, choosy, NULL), KS_IDLE_NO_LEASES);
    leases[0] = bed_hold(&bed, 0, 1);
    EXPECT_EQ_I64(ks_core_session_idle(bed.core, choosy, NULL), KS_IDLE_NO_LEASES);
    leases[1] = bed_hold(&bed, second, 1);
    EXPECT_EQ_I64(ks_core_session_idle(bed.core, session, &all), KS_IDLE_NO_DATA);
    leases[0]->throttled = true;
    EXPECT_EQ_I64(ks_core_session_idle(bed.core, session, NULL), KS_IDLE_THROTTLED);
    EXPECT_EQ_I64(ks_core_session_idle(bed.core, session, &all), KS_IDLE_NO_DATA);
    EXPECT_EQ_I64(ks_core_session_idle(bed.core, choosy, &all), KS_IDLE_NO_DATA);
    leases[1]->throttled = true;
    EXPECT_EQ_I64(ks_core_session_idle(bed.core, choosy, &all), KS_IDLE_THROTTLED);
}
