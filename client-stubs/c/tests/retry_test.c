/* SPDX-License-Identifier: Apache-2.0 */
/* The engine alone: what a retry holds, takes back and hands out again. */
#include "engine_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Three records of a lane, of which the first one is retried. */
static struct ks_delivery *retry_first(struct ks_engine *engine)
{
    struct ks_delivery *first;

    begin(engine);
    for (int number = 1; number <= 3; number++)
        arrive(engine, "b1", number, 1);
    first = pop(engine, 1);
    settle(engine, first, KS_OUTCOME_RETRY);
    EXPECT(ks_engine_pop(engine) == NULL);
    EXPECT_STR(text_of(ks_engine_request(engine, now, false)), "retry 1.1; barrier 1");
    return first;
}

static void redeliver(struct ks_engine *engine, uint32_t attempt)
{
    for (int number = 1; number <= 3; number++)
        arrive(engine, "b2", number, attempt);
}

static void expect_redelivery(struct ks_engine *engine, struct ks_delivery *first, uint32_t attempt)
{
    struct ks_delivery *taken[4] = {first};

    for (int number = 1; number <= 3; number++) {
        taken[number] = pop(engine, number);
        EXPECT_EQ(taken[number]->record.attempt, attempt);
    }
    EXPECT(ks_engine_pop(engine) == NULL);
    finish(engine, taken, 4);
}

TEST(retry_holds_its_lane_until_answer_and_barrier)
{
    struct ks_engine engine;
    struct ks_delivery *first = retry_first(&engine);

    answer(&engine);
    EXPECT(ks_engine_pop(&engine) == NULL);
    ks_engine_barrier(&engine, 1);
    redeliver(&engine, 2);
    expect_redelivery(&engine, first, 2);
}

TEST(retry_holds_its_lane_until_barrier_and_answer)
{
    struct ks_engine engine;
    struct ks_delivery *first = retry_first(&engine);

    ks_engine_barrier(&engine, 1);
    redeliver(&engine, 2);
    EXPECT(ks_engine_pop(&engine) == NULL);
    answer(&engine);
    expect_redelivery(&engine, first, 2);
}

/* A batch of which the app has all records: 1 is retried, 2 is acknowledged, 3 has no outcome. */
static void retry_in_batch(struct ks_engine *engine, struct ks_delivery *taken[3])
{
    begin(engine);
    for (int number = 1; number <= 3; number++)
        arrive(engine, "b1", number, 1);
    for (int number = 1; number <= 3; number++)
        taken[number - 1] = pop(engine, number);
    settle(engine, taken[0], KS_OUTCOME_RETRY);
    settle(engine, taken[1], KS_OUTCOME_ACK);
    EXPECT_STR(text_of(ks_engine_request(engine, now, false)), "retry 1.1; barrier 1");
}

static void expect_one_redelivery(struct ks_engine *engine, struct ks_delivery *taken[4],
                                  const char *acks)
{
    taken[3] = pop(engine, 1);
    EXPECT(ks_engine_pop(engine) == NULL);
    settle(engine, taken[2], KS_OUTCOME_ACK);
    EXPECT_STR(text_of(ks_engine_request(engine, now, true)), acks);
    answer(engine);
    settle(engine, taken[3], KS_OUTCOME_ACK);
    EXPECT_STR(text_of(ks_engine_request(engine, now, true)), "ack 1.2");
    EXPECT_EQ(engine->unsent + engine->unconfirmed_count + engine->stale, 0);
    finish(engine, taken, 4);
}

TEST(records_of_the_app_that_a_retry_takes_back_are_not_handed_out_again)
{
    struct ks_delivery *taken[4];
    struct ks_engine engine;

    retry_in_batch(&engine, taken);
    answer(&engine);
    ks_engine_barrier(&engine, 1);
    EXPECT_EQ(engine.unconfirmed_count, 2);
    redeliver(&engine, 2);
    expect_one_redelivery(&engine, taken, "ack 2.2, ack 3.2");
}

TEST(records_of_the_app_whose_redelivery_is_there_are_not_handed_out_again)
{
    struct ks_delivery *taken[4];
    struct ks_engine engine;

    retry_in_batch(&engine, taken);
    ks_engine_barrier(&engine, 1);
    redeliver(&engine, 2);
    answer(&engine);
    EXPECT_EQ(engine.unconfirmed_count, 0);
    expect_one_redelivery(&engine, taken, "ack 2.2, ack 3.2");
}

static void expect_nothing_taken_back(const char *reason)
{
    struct ks_engine engine;
    struct ks_delivery *taken[3] = {retry_first(&engine)};

    answer_refusal(&engine, "1.1", reason);
    EXPECT_EQ(engine.failed, 1);
    EXPECT(ks_engine_pop(&engine) == NULL);
    ks_engine_barrier(&engine, 1);
    for (int number = 2; number <= 3; number++)
        taken[number - 1] = pop(&engine, number);
    finish(&engine, taken, 3);
}

TEST(refused_retry_takes_nothing_back)
{
    expect_nothing_taken_back("MALFORMED");
}

/* Another delivery of its record was settled. */
TEST(retry_of_a_settled_record_takes_nothing_back)
{
    expect_nothing_taken_back("SETTLED");
}

/* Its ack deadline has passed: the record and the later ones are on their way again. */
TEST(retry_that_is_expired_waits_for_the_redelivery)
{
    struct ks_engine engine;
    struct ks_delivery *first = retry_first(&engine);

    answer_refusal(&engine, "1.1", "EXPIRED");
    EXPECT_EQ(engine.failed, 0);
    EXPECT(ks_engine_pop(&engine) == NULL);
    redeliver(&engine, 2);
    ks_engine_barrier(&engine, 1);
    expect_redelivery(&engine, first, 2);
}

TEST(redelivery_replaces_the_records_of_its_lane_that_wait)
{
    struct ks_delivery *taken[3];
    struct ks_engine engine;

    begin(&engine);
    for (int number = 1; number <= 3; number++)
        arrive(&engine, "b1", number, 1);
    taken[0] = pop(&engine, 1);
    arrive(&engine, "b2", 2, 2);
    taken[1] = pop(&engine, 2);
    EXPECT_EQ(taken[1]->record.attempt, 2);
    EXPECT(ks_engine_pop(&engine) == NULL);
    arrive(&engine, "b2", 3, 2);
    taken[2] = pop(&engine, 3);
    EXPECT_EQ(taken[2]->record.attempt, 2);
    EXPECT(ks_engine_pop(&engine) == NULL);
    finish(&engine, taken, 3);
}

/* Repeats the retry of record 1, whose first request got no answer. */
static struct ks_delivery *repeat_retry(struct ks_engine *engine)
{
    struct ks_delivery *first = retry_first(engine);

    ks_engine_unanswered(engine, 0, now);
    EXPECT(ks_engine_request(engine, now, false) == NULL);
    EXPECT_EQ(ks_engine_next_at(engine), now + 100);
    EXPECT_STR(text_of(ks_engine_request(engine, now + 100, false)), "retry 1.1; barrier 1");
    return first;
}

static void expect_accepted(const char *reason)
{
    struct ks_engine engine;
    struct ks_delivery *first = repeat_retry(&engine);

    ks_engine_barrier(&engine, 1);
    redeliver(&engine, 2);
    answer_refusal(&engine, "1.1", reason);
    EXPECT_EQ(engine.failed, 0);
    EXPECT(ks_list_is_empty(&engine.failures));
    expect_redelivery(&engine, first, 2);
}

TEST(retry_whose_repetition_is_expired_or_fenced_was_accepted)
{
    expect_accepted("EXPIRED");
    expect_accepted("FENCED");
}

/* The first request was lost, and the record was redelivered for another reason. */
TEST(redeliveries_before_the_barrier_of_a_repetition_are_handed_out)
{
    struct ks_engine engine;
    struct ks_delivery *first = repeat_retry(&engine);

    redeliver(&engine, 2);
    ks_engine_barrier(&engine, 1);
    answer_refusal(&engine, "1.1", "EXPIRED");
    expect_redelivery(&engine, first, 2);
}

TEST(records_of_a_new_lease_before_the_barrier_of_a_repetition_are_handed_out)
{
    struct ks_engine engine;
    struct ks_delivery *taken[2] = {repeat_retry(&engine)};

    ks_engine_lease_lost(&engine, "shard");
    arrive(&engine, "b2", 2, 1); /* Another sidecar has settled record 1. */
    ks_engine_barrier(&engine, 1);
    answer_refusal(&engine, "1.1", "FENCED");
    taken[1] = pop(&engine, 2);
    finish(&engine, taken, 2);
}

/* The app still had record 1 when its lease was lost. */
TEST(records_of_a_new_lease_before_the_barrier_of_a_later_retry_are_handed_out)
{
    struct ks_engine engine;
    struct ks_delivery *taken[2];

    begin(&engine);
    arrive(&engine, "b1", 1, 1);
    taken[0] = pop(&engine, 1);
    ks_engine_lease_lost(&engine, "shard");
    settle(&engine, taken[0], KS_OUTCOME_RETRY);
    EXPECT(ks_engine_request(&engine, now, false) != NULL);
    arrive(&engine, "b2", 2, 1); /* Another sidecar has settled record 1. */
    ks_engine_barrier(&engine, 1);
    answer_refusal(&engine, "1.1", "FENCED");
    taken[1] = pop(&engine, 2);
    finish(&engine, taken, 2);
}

TEST(record_of_the_app_whose_redelivery_is_before_the_barrier_of_a_repetition_is_settled)
{
    struct ks_delivery *taken[4];
    struct ks_engine engine;

    retry_in_batch(&engine, taken);
    ks_engine_unanswered(&engine, 0, now);
    EXPECT(ks_engine_request(&engine, now + 100, false) != NULL);
    redeliver(&engine, 2);
    ks_engine_barrier(&engine, 1);
    answer_refusal(&engine, "1.1", "EXPIRED");
    settle(&engine, taken[2], KS_OUTCOME_ACK);
    EXPECT_EQ(engine.unconfirmed_count, 0);
    EXPECT_CONTAINS(text_of(ks_engine_request(&engine, now, true)), "ack 3.2");
    taken[3] = pop(&engine, 1);
    finish(&engine, taken, 4);
}

static void expect_repetition_takes_nothing_back(const char *reason)
{
    struct ks_engine engine;
    struct ks_delivery *taken[3] = {repeat_retry(&engine)};

    answer_refusal(&engine, "1.1", reason);
    EXPECT_EQ(engine.failed, 1);
    EXPECT(!ks_list_is_empty(&engine.failures));
    ks_engine_barrier(&engine, 1);
    for (int number = 2; number <= 3; number++)
        taken[number - 1] = pop(&engine, number);
    finish(&engine, taken, 3);
}

TEST(retry_whose_repetition_is_refused_for_another_reason_takes_nothing_back)
{
    expect_repetition_takes_nothing_back("MALFORMED");
}

/* The first request may have been accepted, and given the record up: the redeliveries of records 2
 * and 3 will settle those of the app. */
TEST(retry_whose_repetition_is_settled_hands_out_what_waits)
{
    expect_repetition_takes_nothing_back("SETTLED");
}

/* The sidecar was restarted: the next session redelivers all three records. */
static void expect_hold_until_next_session(struct ks_engine *engine, struct ks_delivery *first)
{
    EXPECT_EQ(engine->failed, 1);
    EXPECT(ks_engine_pop(engine) == NULL);
    open_session(engine);
    redeliver(engine, 1);
    expect_redelivery(engine, first, 1);
}

TEST(retry_that_is_unknown_holds_its_lane_until_the_next_session)
{
    struct ks_engine engine;
    struct ks_delivery *first = retry_first(&engine);

    answer_refusal(&engine, "1.1", "UNKNOWN");
    ks_engine_barrier(&engine, 1);
    expect_hold_until_next_session(&engine, first);
}

/* The sidecar accepted the first request. The answer was lost, but not the barrier. */
TEST(retry_whose_repetition_is_unknown_holds_its_lane_whatever_was_read_before)
{
    struct ks_engine engine;
    struct ks_delivery *first = retry_first(&engine);

    ks_engine_barrier(&engine, 1);
    ks_engine_unanswered(&engine, 0, now);
    EXPECT(ks_engine_request(&engine, now + 100, false) != NULL);
    answer_refusal(&engine, "1.1", "UNKNOWN");
    expect_hold_until_next_session(&engine, first);
}

/* Repeats the outcome of a record of no lane, which the answer refuses. */
static void expect_failed(enum ks_outcome outcome, uint64_t failed)
{
    struct ks_delivery *taken[1];
    struct ks_engine engine;

    begin(&engine);
    engine.lanes.ordering = KS_CLIENT_ORDERING_NONE;
    arrive(&engine, "b1", 1, 1);
    taken[0] = pop(&engine, 1);
    settle(&engine, taken[0], outcome);
    EXPECT(ks_engine_request(&engine, now, true) != NULL);
    ks_engine_unanswered(&engine, 0, now);
    EXPECT(ks_engine_request(&engine, now + 100, true) != NULL);
    answer_refusal(&engine, "1.1", "EXPIRED");
    EXPECT_EQ(engine.failed, failed);
    finish(&engine, taken, 1);
}

TEST(repetition_that_is_expired_has_failed_unless_it_is_a_retry)
{
    expect_failed(KS_OUTCOME_RETRY, 0);
    expect_failed(KS_OUTCOME_DROP, 1);
    expect_failed(KS_OUTCOME_DEAD_LETTER, 1);
    expect_failed(KS_OUTCOME_ACK, 1);
}

TEST(outcome_that_a_retry_takes_back_is_kept_after_its_session)
{
    struct ks_delivery *taken[3];
    struct ks_engine engine;

    begin(&engine);
    for (int number = 1; number <= 3; number++)
        arrive(&engine, number < 3 ? "b1" : "b2", number, 1);
    for (int number = 1; number <= 3; number++)
        taken[number - 1] = pop(&engine, number);
    settle(&engine, taken[1], KS_OUTCOME_ACK);
    settle(&engine, taken[0], KS_OUTCOME_RETRY);
    EXPECT_STR(text_of(ks_engine_request(&engine, now, false)), "retry 1.1; barrier 1");
    answer(&engine);
    ks_engine_barrier(&engine, 1);
    open_session(&engine); /* Before the redelivery, and after record 3. */
    EXPECT_EQ(engine.stale, 0);
    redeliver(&engine, 2);
    EXPECT_STR(text_of(ks_engine_request(&engine, now, true)), "ack 2.2");
    finish(&engine, taken, 3);
}

TEST(retry_that_was_not_confirmed_holds_its_lane_in_the_next_session)
{
    struct ks_engine engine;
    struct ks_delivery *first = retry_first(&engine);

    ks_engine_barrier(&engine, 1);
    ks_engine_unanswered(&engine, 0, now);
    open_session(&engine);
    redeliver(&engine, 2);
    EXPECT(ks_engine_pop(&engine) == NULL);
    EXPECT_STR(text_of(ks_engine_request(&engine, now, false)), "retry 1.2; barrier 1");
    ks_engine_barrier(&engine, 1);
    answer(&engine);
    redeliver(&engine, 3);
    expect_redelivery(&engine, first, 3);
}
