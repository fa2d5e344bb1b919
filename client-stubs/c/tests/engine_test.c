/* SPDX-License-Identifier: Apache-2.0 */
/* The engine alone: what it hands out, and what it sends. */
#include "engine_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TEST(acknowledgements_wait_for_their_interval)
{
    struct ks_delivery *taken[1];
    struct ks_engine engine;

    begin(&engine);
    arrive(&engine, "b1", 1, 1);
    taken[0] = pop(&engine, 1);
    settle(&engine, taken[0], KS_OUTCOME_ACK);
    EXPECT(engine.is_woken);
    EXPECT_STR(text_of(ks_engine_request(&engine, now, false)), "none");
    EXPECT_EQ(ks_engine_next_at(&engine), now + 100);
    EXPECT_STR(text_of(ks_engine_request(&engine, now + 100, false)), "ack 1.1");
    EXPECT(ks_engine_request(&engine, now + 200, true) == NULL); /* One at a time. */
    answer(&engine);
    EXPECT_STR(text_of(ks_engine_request(&engine, now + 200, true)), "none");
    finish(&engine, taken, 1);
}

TEST(whole_batch_goes_first_when_half_of_the_credit_waits)
{
    struct ks_delivery *taken[60];
    struct ks_engine engine;

    begin(&engine);
    for (int number = 1; number <= 61; number++)
        arrive(&engine, number <= 40 ? "b1" : "b2", number, 1);
    for (int number = 1; number <= 60; number++) {
        taken[number - 1] = pop(&engine, number);
        settle(&engine, taken[number - 1], KS_OUTCOME_ACK);
    }
    EXPECT_STR(text_of(ks_engine_request(&engine, now, false)), "ack b1");
    EXPECT_EQ(engine.unsent, 20);
    answer(&engine);
    EXPECT_STR(text_of(ks_engine_request(&engine, now, false)), "none");
    finish(&engine, taken, 60);
}

TEST(other_outcomes_take_no_acknowledgement_along)
{
    struct ks_delivery *taken[3];
    struct ks_engine engine;

    begin(&engine);
    for (int number = 1; number <= 3; number++)
        arrive(&engine, "b1", number, 1);
    for (int number = 1; number <= 3; number++)
        taken[number - 1] = pop(&engine, number);
    settle(&engine, taken[0], KS_OUTCOME_ACK);
    settle(&engine, taken[1], KS_OUTCOME_DROP);
    settle(&engine, taken[2], KS_OUTCOME_DEAD_LETTER);
    EXPECT_STR(text_of(ks_engine_request(&engine, now, true)), "drop 2.1, dead_letter 3.1");
    answer(&engine);
    EXPECT_STR(text_of(ks_engine_request(&engine, now, true)), "ack 1.1");
    finish(&engine, taken, 3);
}

TEST(request_has_1000_items_at_most)
{
    static struct ks_delivery *taken[1500];
    struct ks_engine engine;

    begin(&engine);
    for (int number = 0; number < 1500; number++) {
        arrive(&engine, "b1", number, 1);
        taken[number] = pop(&engine, number);
        settle(&engine, taken[number], KS_OUTCOME_ACK);
    }
    EXPECT_EQ(ks_engine_request(&engine, now, false)->items, 1000);
    answer(&engine);
    EXPECT_EQ(ks_engine_request(&engine, now, true)->items, 500);
    answer(&engine);
    EXPECT_EQ(engine.unsent, 0);
    finish(&engine, taken, 1500);
}

TEST(retry_of_another_lane_holds_nothing)
{
    struct ks_delivery *taken[2];
    struct ks_engine engine;

    begin(&engine);
    engine.lanes.ordering = KS_CLIENT_ORDERING_KEY;
    EXPECT(ks_engine_arrive(&engine, delivery_of("b1", 1, 1, 5), now));
    EXPECT(ks_engine_arrive(&engine, delivery_of("b1", 2, 1, 5), now));
    EXPECT(ks_engine_arrive(&engine, delivery_of("b1", 3, 1, 6), now));
    taken[0] = pop(&engine, 1);
    settle(&engine, taken[0], KS_OUTCOME_RETRY);
    taken[1] = pop(&engine, 3);
    EXPECT(ks_engine_pop(&engine) == NULL);
    finish(&engine, taken, 2);
}

TEST(lane_that_is_exclusive_hands_out_one_record)
{
    struct ks_delivery *taken[2];
    struct ks_engine engine;

    begin(&engine);
    engine.lanes.is_exclusive = true;
    arrive(&engine, "b1", 1, 1);
    arrive(&engine, "b1", 2, 1);
    taken[0] = pop(&engine, 1);
    EXPECT(ks_engine_pop(&engine) == NULL);
    ks_lanes_done(&engine.lanes, taken[0]->lane);
    taken[1] = pop(&engine, 2);
    finish(&engine, taken, 2);
}

TEST(outcome_settles_the_redelivery_in_the_next_session)
{
    struct ks_delivery *taken[3];
    struct ks_engine engine;

    begin(&engine);
    for (int number = 1; number <= 4; number++)
        arrive(&engine, "b1", number, 1);
    for (int number = 1; number <= 3; number++)
        taken[number - 1] = pop(&engine, number);
    settle(&engine, taken[0], KS_OUTCOME_DROP);
    EXPECT_STR(text_of(ks_engine_request(&engine, now, true)), "drop 1.1");
    settle(&engine, taken[1], KS_OUTCOME_ACK);
    open_session(&engine);
    EXPECT_EQ(engine.unconfirmed_count, 3);
    for (int number = 1; number <= 4; number++)
        arrive(&engine, "b2", number, 2);
    EXPECT_EQ(engine.unconfirmed_count, 0);
    EXPECT_EQ(engine.lanes.count, 1);                      /* The app has the others. */
    EXPECT(ks_engine_request(&engine, now, true) == NULL); /* The earlier one is in flight. */
    answer(&engine);
    EXPECT_STR(text_of(ks_engine_request(&engine, now, true)), "drop 1.2");
    answer(&engine);
    settle(&engine, taken[2], KS_OUTCOME_ACK);
    EXPECT_STR(text_of(ks_engine_request(&engine, now, true)), "ack 2.2, ack 3.2");
    EXPECT_EQ(engine.stale, 0);
    finish(&engine, taken, 3);
}

/* Settles record 5 after its session, which also delivered a later one. */
static struct ks_delivery *settle_late(struct ks_engine *engine, struct ks_delivery *delivery)
{
    struct ks_delivery *taken;

    begin(engine);
    EXPECT(ks_engine_arrive(engine, delivery, now));
    taken = pop(engine, 5);
    arrive(engine, "b2", 6, 1);
    open_session(engine);
    settle(engine, taken, KS_OUTCOME_ACK);
    return taken;
}

TEST(outcome_is_kept_over_sessions_that_do_not_reach_its_record)
{
    struct ks_engine engine;
    struct ks_delivery *taken[1] = {settle_late(&engine, delivery_of("b1", 5, 1, 0))};

    open_session(&engine); /* The session between has delivered nothing. */
    arrive(&engine, "b2", 6, 1);
    arrive(&engine, "b3", 4, 2); /* The last batch counts, and its first record. */
    arrive(&engine, "b3", 6, 2);
    open_session(&engine);
    redriven(&engine, "b4", 6);
    open_session(&engine);
    EXPECT_EQ(engine.stale, 0);
    arrive(&engine, "b5", 5, 2);
    EXPECT_EQ(engine.lanes.count, 0);
    EXPECT_STR(text_of(ks_engine_request(&engine, now, true)), "ack 5.2");
    finish(&engine, taken, 1);
}

TEST(record_of_the_app_is_kept_though_a_session_began_behind_it)
{
    struct ks_delivery *taken[1];
    struct ks_engine engine;

    begin(&engine);
    arrive(&engine, "b1", 5, 1);
    taken[0] = pop(&engine, 5);
    open_session(&engine);
    arrive(&engine, "b2", 6, 1);
    open_session(&engine);
    arrive(&engine, "b3", 5, 2);
    EXPECT_EQ(engine.lanes.count, 0);
    finish(&engine, taken, 1);
}

TEST(outcome_of_a_redriven_record_is_stale_after_the_next_session)
{
    struct ks_engine engine;
    struct ks_delivery *delivery = delivery_of("b1", 5, 2, 0);
    struct ks_delivery *taken[1];

    delivery->record.redriven = true;
    taken[0] = settle_late(&engine, delivery);
    EXPECT_EQ(engine.stale, 0);
    open_session(&engine);
    EXPECT_EQ(engine.stale, 1);
    finish(&engine, taken, 1);
}

TEST(disconnected_stream_takes_the_records_that_were_not_handed_out)
{
    struct ks_delivery *taken[1];
    struct ks_engine engine;

    begin(&engine);
    arrive(&engine, "b1", 1, 1);
    arrive(&engine, "b1", 2, 1);
    taken[0] = pop(&engine, 1);
    ks_engine_detached(&engine);
    EXPECT(ks_engine_pop(&engine) == NULL);
    settle(&engine, taken[0], KS_OUTCOME_ACK);
    /* By its own id: the batch_id names a record that did not arrive here. */
    EXPECT_STR(text_of(ks_engine_request(&engine, now, true)), "ack 1.1");
    finish(&engine, taken, 1);
}

TEST(lost_lease_takes_its_records_but_redriven_ones)
{
    struct ks_delivery *taken[1];
    struct ks_engine engine;

    begin(&engine);
    arrive(&engine, "b1", 1, 1);
    redriven(&engine, "b2", 7);
    ks_engine_lease_lost(&engine, "other");
    EXPECT_EQ(engine.lanes.count, 2);
    ks_engine_lease_lost(&engine, "shard");
    taken[0] = pop(&engine, 7);
    EXPECT(ks_engine_pop(&engine) == NULL);
    finish(&engine, taken, 1);
}

TEST(record_of_the_app_that_its_session_redelivers_is_not_handed_out_again)
{
    struct ks_delivery *taken[3];
    struct ks_engine engine;

    begin(&engine);
    arrive(&engine, "b1", 1, 1);
    arrive(&engine, "b1", 2, 1);
    arrive(&engine, "b2", 3, 1);
    for (int number = 1; number <= 3; number++)
        taken[number - 1] = pop(&engine, number);
    ks_engine_extend(&engine, taken[0], 5000);
    settle(&engine, taken[1], KS_OUTCOME_ACK);
    arrive(&engine, "b3", 1, 2);
    EXPECT_EQ(taken[1]->group->open, 0);
    EXPECT(ks_engine_pop(&engine) == NULL);
    EXPECT_STR(text_of(ks_engine_request(&engine, now + 100, false)), "ack 2.1");
    answer(&engine);
    EXPECT_STR(text_of(ks_engine_request(&engine, now, false)), "extend 1.2");
    answer(&engine);
    settle(&engine, taken[0], KS_OUTCOME_ACK);
    EXPECT_STR(text_of(ks_engine_request(&engine, now, true)), "ack 1.2");
    answer(&engine);
    settle(&engine, taken[2], KS_OUTCOME_ACK);
    EXPECT_STR(text_of(ks_engine_request(&engine, now, true)), "ack b2");
    finish(&engine, taken, 3);
}

TEST(redelivery_of_a_record_that_the_app_gave_back_is_handed_out)
{
    struct ks_delivery *taken[1];
    struct ks_engine engine;

    begin(&engine);
    for (uint32_t attempt = 1; attempt <= 2; attempt++) {
        arrive(&engine, attempt == 1 ? "b1" : "b2", 1, attempt);
        taken[0] = pop(&engine, 1);
        ks_engine_extend(&engine, taken[0], 5000);
        ks_delivery_release(taken[0]);
    }
    open_session(&engine);
    EXPECT_STR(text_of(ks_engine_request(&engine, now, true)), "none");
    arrive(&engine, "b3", 1, 3);
    taken[0] = pop(&engine, 1);
    finish(&engine, taken, 1);
}

TEST(record_of_the_app_that_a_new_lease_redelivers_is_not_handed_out_again)
{
    struct ks_delivery *taken[2];
    struct ks_engine engine;

    begin(&engine);
    arrive(&engine, "b1", 1, 1);
    taken[0] = pop(&engine, 1);
    ks_engine_lease_lost(&engine, "shard");
    arrive(&engine, "b2", 1, 1); /* Attempts are counted from 1 in each lease epoch. */
    arrive(&engine, "b2", 2, 1);
    taken[1] = pop(&engine, 2);
    EXPECT(ks_engine_pop(&engine) == NULL);
    finish(&engine, taken, 2);
}

TEST(extension_names_batches_that_are_open_and_not_too_old)
{
    struct ks_delivery *taken[2];
    struct ks_engine engine;

    begin(&engine);
    engine.max_processing_ms = 1500;
    arrive(&engine, "b1", 1, 1);
    arrive(&engine, "b2", 2, 1);
    arrive(&engine, "b2", 3, 1);
    taken[0] = pop(&engine, 1);
    taken[1] = pop(&engine, 2);
    settle(&engine, taken[0], KS_OUTCOME_ACK);
    EXPECT_STR(text_of(ks_engine_request(&engine, now, true)), "ack b1");
    answer(&engine);
    EXPECT_EQ(ks_engine_next_at(&engine), now + 1000);
    EXPECT_STR(text_of(ks_engine_request(&engine, now + 1000, false)), "extend b2");
    ks_engine_unanswered(&engine, 0, now + 1000); /* It is not repeated. */
    EXPECT_STR(text_of(ks_engine_request(&engine, now + 1200, false)), "none");
    EXPECT_STR(text_of(ks_engine_request(&engine, now + 2000, false)), "none");
    now += 2000;
    arrive(&engine, "b3", 2, 2); /* The app has it for too long: its redelivery changes nothing. */
    arrive(&engine, "b3", 4, 1);
    EXPECT_STR(text_of(ks_engine_request(&engine, now + 1000, false)), "extend 4.1");
    finish(&engine, taken, 2);
}

TEST(extension_of_the_app_is_sent_once)
{
    struct ks_delivery *taken[2];
    struct ks_engine engine;

    begin(&engine);
    arrive(&engine, "b1", 1, 1);
    arrive(&engine, "b1", 2, 1);
    taken[0] = pop(&engine, 1);
    taken[1] = pop(&engine, 2);
    ks_engine_extend(&engine, taken[0], 5000);
    ks_engine_extend(&engine, taken[0], 6000);
    ks_engine_extend(&engine, taken[1], 7000);
    settle(&engine, taken[1], KS_OUTCOME_ACK);
    EXPECT_STR(text_of(ks_engine_request(&engine, now, false)), "extend 1.1");
    answer(&engine);
    EXPECT_STR(text_of(ks_engine_request(&engine, now, false)), "none");
    finish(&engine, taken, 2);
}

TEST(malformed_answer_is_no_answer)
{
    struct ks_delivery *taken[1];
    struct ks_engine engine;

    begin(&engine);
    arrive(&engine, "b1", 1, 1);
    taken[0] = pop(&engine, 1);
    settle(&engine, taken[0], KS_OUTCOME_DROP);
    EXPECT_STR(text_of(ks_engine_request(&engine, now, false)), "drop 1.1");
    EXPECT(!ks_engine_answered(&engine, (const uint8_t *)"\x12\x05", 2));
    EXPECT(!ks_engine_answered(&engine, (const uint8_t *)"\x12\x02\x0a\x05", 4));
    ks_engine_unanswered(&engine, 500, now);
    EXPECT_EQ(ks_engine_next_at(&engine), now + 500);
    EXPECT_EQ(engine.failed, 0);
    finish(&engine, taken, 1);
}

TEST(refused_request_is_stale)
{
    struct ks_delivery *taken[2];
    struct ks_engine engine;

    begin(&engine);
    arrive(&engine, "b1", 1, 1);
    arrive(&engine, "b1", 2, 1);
    taken[0] = pop(&engine, 1);
    settle(&engine, taken[0], KS_OUTCOME_RETRY);
    EXPECT(ks_engine_request(&engine, now, false) != NULL);
    ks_engine_refused(&engine);
    EXPECT_EQ(engine.stale, 1);
    EXPECT(ks_engine_pop(&engine) == NULL); /* It was taken back. */
    open_session(&engine);
    arrive(&engine, "b2", 1, 2);
    taken[1] = pop(&engine, 1);
    finish(&engine, taken, 2);
}
