/* SPDX-License-Identifier: Apache-2.0 */
/* The engine alone: redeliveries, in the session in which the app settled the record, before the
 * sidecar confirmed its outcome. */
#include "engine_rig.h"

#include <stdlib.h>

/* Hands out record 1 and settles it. Returns the record. */
static struct ks_delivery *settle_first(struct ks_engine *engine, enum ks_outcome outcome)
{
    struct ks_delivery *first;

    begin(engine);
    arrive(engine, "b1", 1, 1);
    first = pop(engine, 1);
    settle(engine, first, outcome);
    return first;
}

/* Expects that the app gets the record 2 alone, and gives it back. */
static void expect_second(struct ks_engine *engine)
{
    ks_delivery_release(pop(engine, 2));
    EXPECT(ks_engine_pop(engine) == NULL);
}

static void outcome_without_an_answer(enum ks_outcome outcome, const char *first_request,
                                      const char *second_request)
{
    struct ks_engine engine;
    struct ks_delivery *taken[1] = {settle_first(&engine, outcome)};

    EXPECT_STR(text_of(ks_engine_request(&engine, now, true)), first_request);
    arrive(&engine, "b2", 1, 2);
    arrive(&engine, "b2", 2, 1);
    expect_second(&engine);
    ks_engine_unanswered(&engine, 0, now);
    EXPECT_STR(text_of(ks_engine_request(&engine, now, true)), first_request);
    answer(&engine);
    EXPECT_STR(text_of(ks_engine_request(&engine, now, true)), second_request);
    answer(&engine);
    EXPECT_STR(text_of(ks_engine_request(&engine, now, true)), "none");
    EXPECT_EQ(engine.stale, 0);
    finish(&engine, taken, 1);
}

TEST(outcome_without_an_answer_settles_the_redelivery)
{
    outcome_without_an_answer(KS_OUTCOME_ACK, "ack 1.1", "ack 1.2");
    outcome_without_an_answer(KS_OUTCOME_DROP, "drop 1.1", "drop 1.2");
    outcome_without_an_answer(KS_OUTCOME_DEAD_LETTER, "dead_letter 1.1", "dead_letter 1.2");
}

/* The answer confirms the drop of the first delivery. The drop of the second one has no answer. */
TEST(outcome_settles_each_redelivery_until_its_last_copy_is_answered)
{
    struct ks_engine engine;
    struct ks_delivery *taken[2] = {settle_first(&engine, KS_OUTCOME_DROP)};

    EXPECT_STR(text_of(ks_engine_request(&engine, now, true)), "drop 1.1");
    arrive(&engine, "b2", 1, 2);
    answer_refusal(&engine, "1.1", "EXPIRED");
    EXPECT_EQ(engine.failed, 1);
    EXPECT_STR(text_of(ks_engine_request(&engine, now, true)), "drop 1.2");
    arrive(&engine, "b3", 1, 3);
    answer(&engine);
    EXPECT(ks_engine_pop(&engine) == NULL);
    EXPECT_STR(text_of(ks_engine_request(&engine, now, true)), "drop 1.3");
    answer(&engine);
    arrive(&engine, "b4", 1, 4); /* Its outcome was confirmed. */
    taken[1] = pop(&engine, 1);
    finish(&engine, taken, 2);
}

TEST(acknowledgement_of_a_whole_batch_without_an_answer_settles_the_redelivery)
{
    struct ks_engine engine;
    struct ks_delivery *taken[1] = {settle_first(&engine, KS_OUTCOME_ACK)};

    arrive(&engine, "b0", 7, 1);
    EXPECT_STR(text_of(ks_engine_request(&engine, now, true)), "ack b1");
    arrive(&engine, "b2", 1, 2);
    arrive(&engine, "b2", 2, 1);
    expect_second(&engine);
    answer(&engine);
    EXPECT_STR(text_of(ks_engine_request(&engine, now, true)), "ack 1.2");
    finish(&engine, taken, 1);
}

TEST(acknowledgement_that_is_not_sent_settles_the_redelivery)
{
    struct ks_engine engine;
    struct ks_delivery *taken[2];

    begin(&engine);
    arrive(&engine, "b1", 1, 1);
    arrive(&engine, "b1", 3, 1);
    taken[0] = pop(&engine, 1);
    taken[1] = pop(&engine, 3);
    settle(&engine, taken[0], KS_OUTCOME_ACK);
    settle(&engine, taken[1], KS_OUTCOME_ACK);
    arrive(&engine, "b2", 1, 2);
    arrive(&engine, "b2", 2, 1);
    expect_second(&engine);
    EXPECT_EQ(engine.unsent, 2);
    EXPECT_STR(text_of(ks_engine_request(&engine, now, true)), "ack 3.1, ack 1.2");
    EXPECT_EQ(engine.unsent, 0);
    EXPECT_EQ(engine.unsent_bytes, 0);
    answer(&engine);
    EXPECT_STR(text_of(ks_engine_request(&engine, now, true)), "none");
    finish(&engine, taken, 2);
}

TEST(drop_that_is_not_sent_settles_the_redelivery)
{
    struct ks_engine engine;
    struct ks_delivery *taken[1] = {settle_first(&engine, KS_OUTCOME_DROP)};

    arrive(&engine, "b2", 1, 2);
    arrive(&engine, "b2", 2, 1);
    expect_second(&engine);
    EXPECT_STR(text_of(ks_engine_request(&engine, now, true)), "drop 1.2");
    answer(&engine);
    EXPECT_STR(text_of(ks_engine_request(&engine, now, true)), "none");
    finish(&engine, taken, 1);
}

static void retry_that_is_not_sent(ks_client_ordering ordering)
{
    struct ks_engine engine;
    struct ks_delivery *taken[3];
    bool has_order = ordering != KS_CLIENT_ORDERING_NONE;

    begin(&engine);
    engine.lanes.ordering = ordering;
    arrive(&engine, "b1", 1, 1);
    taken[0] = pop(&engine, 1);
    settle(&engine, taken[0], KS_OUTCOME_RETRY);
    arrive(&engine, "b2", 1, 2);
    EXPECT(ks_engine_pop(&engine) == NULL);
    EXPECT_STR(text_of(ks_engine_request(&engine, now, true)),
               has_order ? "retry 1.2; barrier 1" : "retry 1.2");
    answer(&engine);
    if (has_order)
        ks_engine_barrier(&engine, 1);
    arrive(&engine, "b3", 1, 3);
    arrive(&engine, "b3", 2, 1);
    taken[1] = pop(&engine, 1);
    taken[2] = pop(&engine, 2);
    finish(&engine, taken, 3);
}

TEST(retry_that_is_not_sent_retries_the_redelivery)
{
    retry_that_is_not_sent(KS_CLIENT_ORDERING_SHARD);
    retry_that_is_not_sent(KS_CLIENT_ORDERING_NONE);
}

/* The retry may have caused the redelivery. */
TEST(redelivery_of_a_record_whose_retry_is_sent_is_handed_out_without_order)
{
    struct ks_engine engine;
    struct ks_delivery *taken[2];

    begin(&engine);
    engine.lanes.ordering = KS_CLIENT_ORDERING_NONE;
    arrive(&engine, "b1", 1, 1);
    arrive(&engine, "b1", 2, 1);
    taken[0] = pop(&engine, 1);
    ks_delivery_release(pop(&engine, 2));
    settle(&engine, taken[0], KS_OUTCOME_RETRY);
    EXPECT_STR(text_of(ks_engine_request(&engine, now, true)), "retry 1.1");
    arrive(&engine, "b2", 1, 2);
    taken[1] = pop(&engine, 1);
    finish(&engine, taken, 2);
}

/* The next lease counts attempts from 1. */
TEST(outcome_settles_the_redelivery_of_the_next_lease)
{
    for (int is_late = 0; is_late <= 1; is_late++) {
        struct ks_engine engine;
        struct ks_delivery *taken[1];

        begin(&engine);
        arrive(&engine, "b1", 1, 1);
        taken[0] = pop(&engine, 1);
        if (is_late)
            ks_engine_lease_lost(&engine, "shard");
        settle(&engine, taken[0], KS_OUTCOME_DROP);
        EXPECT_STR(text_of(ks_engine_request(&engine, now, true)), "drop 1.1");
        if (!is_late)
            ks_engine_lease_lost(&engine, "shard");
        arrive(&engine, "b2", 1, 1);
        arrive(&engine, "b2", 2, 1);
        expect_second(&engine);
        answer(&engine);
        EXPECT_STR(text_of(ks_engine_request(&engine, now, true)), "drop 1.1");
        finish(&engine, taken, 1);
    }
}

/* Records that the app settles while redeliveries arrive are found, too; those that an answer has
 * confirmed are not. */
TEST(outcomes_of_many_records_settle_their_redeliveries)
{
    enum { COUNT = 90 };
    struct ks_engine engine;
    struct ks_delivery *taken[COUNT + 10];

    begin(&engine);
    engine.max_in_flight = 1000;
    for (int n = 0; n < COUNT; n++)
        arrive(&engine, "b1", n + 1, 1);
    for (int n = 0; n < COUNT; n++)
        taken[n] = pop(&engine, n + 1);
    for (int n = 0; n < 30; n++) /* In a request that is answered. */
        settle(&engine, taken[n], KS_OUTCOME_ACK);
    EXPECT(ks_engine_request(&engine, now, true) != NULL);
    for (int n = 30; n < 60; n++) /* Not sent. */
        settle(&engine, taken[n], KS_OUTCOME_ACK);
    arrive(&engine, "b2", 31, 2);
    for (int n = 60; n < COUNT; n++) /* After the first redelivery. */
        settle(&engine, taken[n], KS_OUTCOME_ACK);
    answer(&engine);
    for (int n = 20; n < COUNT; n++)
        arrive(&engine, "b3", n + 1, 3);
    for (int n = 0; n < 10; n++)
        taken[COUNT + n] = pop(&engine, n + 21);
    EXPECT(ks_engine_pop(&engine) == NULL);
    EXPECT_EQ(engine.unsent, 60);
    EXPECT_EQ(ks_engine_request(&engine, now, true)->items, 60);
    answer(&engine);
    EXPECT_STR(text_of(ks_engine_request(&engine, now, true)), "none");
    finish(&engine, taken, COUNT + 10);
}

TEST(outcome_that_settled_a_redelivery_is_kept_for_the_next_session)
{
    struct ks_engine engine;
    struct ks_delivery *taken[1] = {settle_first(&engine, KS_OUTCOME_DROP)};

    EXPECT_STR(text_of(ks_engine_request(&engine, now, true)), "drop 1.1");
    arrive(&engine, "b2", 1, 2);
    open_session(&engine);
    answer_refusal(&engine, "1.1", "EXPIRED");
    EXPECT_EQ(engine.failed, 0); /* Of an ended session. */
    arrive(&engine, "b3", 1, 3);
    arrive(&engine, "b3", 2, 1);
    expect_second(&engine);
    EXPECT_STR(text_of(ks_engine_request(&engine, now, true)), "drop 1.3");
    answer(&engine);
    finish(&engine, taken, 1);
}

/* The app left record 2 without an outcome, and began another way to read. */
static void retry_before_a_record_that_was_given_back(bool is_answered_late)
{
    struct ks_engine engine;
    struct ks_delivery *taken[3];

    begin(&engine);
    arrive(&engine, "b1", 1, 1);
    arrive(&engine, "b1", 2, 1);
    taken[0] = pop(&engine, 1);
    ks_delivery_release(pop(&engine, 2));
    settle(&engine, taken[0], KS_OUTCOME_RETRY);
    EXPECT(ks_engine_request(&engine, now, true) != NULL);
    ks_engine_barrier(&engine, 1);
    if (!is_answered_late)
        answer(&engine);
    arrive(&engine, "b2", 1, 2);
    arrive(&engine, "b2", 2, 2);
    if (is_answered_late)
        answer(&engine);
    taken[1] = pop(&engine, 1);
    taken[2] = pop(&engine, 2);
    finish(&engine, taken, 3);
}

TEST(redelivery_of_a_record_that_was_given_back_is_handed_out_after_a_retry)
{
    retry_before_a_record_that_was_given_back(true);
    retry_before_a_record_that_was_given_back(false);
}
