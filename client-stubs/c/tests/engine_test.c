/* SPDX-License-Identifier: Apache-2.0 */
/* The engine alone: what it hands out, and what it sends. */
#include "engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

enum { TEXT_BYTES_MAX = 4096 };

static int64_t now = 1000;

/* A delivery with attempt and lane. Its ack_id is "NUMBER.ATTEMPT". */
static struct ks_delivery *delivery_of(const char *batch, int number, uint32_t attempt,
                                       uint32_t lane)
{
    struct ks_delivery *delivery = ks_delivery_new(100);
    char *text = (char *)delivery->frame;

    (void)snprintf(text, 20, "%d.%u", number, attempt);
    (void)snprintf(text + 20, 20, "%d", number);
    (void)snprintf(text + 40, 20, "%s", batch);
    delivery->ack_id = text;
    delivery->record.sequence_number = text + 20;
    delivery->sequence_number_size = strlen(text + 20);
    delivery->batch_id = text + 40;
    delivery->record.shard_id = "shard";
    delivery->record.data = (const unsigned char *)"";
    delivery->record.attempt = attempt;
    delivery->lane_number = lane;
    return delivery;
}

static void arrive(struct ks_engine *engine, const char *batch, int number, uint32_t attempt)
{
    EXPECT(ks_engine_arrive(engine, delivery_of(batch, number, attempt, 0), now));
}

static void redriven(struct ks_engine *engine, const char *batch, int number)
{
    struct ks_delivery *delivery = delivery_of(batch, number, 2, 0);

    delivery->record.redriven = true;
    EXPECT(ks_engine_arrive(engine, delivery, now));
}

static void open_session(struct ks_engine *engine)
{
    ks_event session = {.max_in_flight = 100, .ack_deadline_ms = 3000, .heartbeat_ms = 1000};

    ks_engine_opened(engine, &session, now);
}

static void begin(struct ks_engine *engine)
{
    *engine = (struct ks_engine){.max_processing_ms = 60000,
                                 .ack_interval_ms = 100,
                                 .max_in_flight = 100,
                                 .max_in_flight_bytes = 1 << 20};
    ks_engine_init(engine);
    engine->lanes.ordering = KS_CLIENT_ORDERING_SHARD;
    open_session(engine);
}

static void finish(struct ks_engine *engine, struct ks_delivery **taken, size_t count)
{
    for (size_t i = 0; i < count; i++)
        ks_delivery_release(taken[i]);
    ks_engine_free(engine);
}

static struct ks_delivery *pop(struct ks_engine *engine, int number)
{
    struct ks_delivery *delivery = ks_engine_pop(engine);

    EXPECT(delivery != NULL);
    EXPECT_EQ(strtol(delivery->record.sequence_number, NULL, 10), number);
    return delivery;
}

static void settle(struct ks_engine *engine, struct ks_delivery *delivery, enum ks_outcome outcome)
{
    ks_engine_settle(engine, delivery, outcome, 0, NULL, now);
}

/* Writes the items of a request, like "ack b1, retry 1.1; barrier 1". */
static const char *text_of(const struct ks_request *request)
{
    static const char *const WORDS[] = {"", "ack", "retry", "extend", "dead_letter", "drop"};
    static char text[TEXT_BYTES_MAX];
    struct ks_message message;
    struct ks_field field, part;

    text[0] = '\0';
    if (request == NULL)
        return "none";
    message = ks_message_of(request->body.data, request->body.size);
    while (ks_message_next(&message, &field)) {
        struct ks_message item = ks_message_of(field.data, field.size);
        size_t used = strlen(text);
        char id[50] = "";
        uint64_t outcome = 0;
        if (field.number == KS_SETTLE_REQUEST_BARRIER) {
            (void)snprintf(text + used, sizeof(text) - used, "; barrier %.*s", (int)field.size,
                           (const char *)field.data);
            continue;
        }
        while (ks_message_next(&item, &part))
            if (part.number == KS_SETTLEMENT_OUTCOME)
                outcome = part.value;
            else if (part.number <= KS_SETTLEMENT_BATCH_ID)
                (void)snprintf(id, sizeof(id), "%.*s", (int)part.size, (const char *)part.data);
        (void)snprintf(text + used, sizeof(text) - used, "%s%s %s", used > 0 ? ", " : "",
                       WORDS[outcome], id);
    }
    return text;
}

static void answer(struct ks_engine *engine)
{
    EXPECT(ks_engine_answered(engine, (const uint8_t *)"", 0));
}

/* Answers that the item with the id is refused. */
static void answer_refusal(struct ks_engine *engine, const char *ack_id, const char *reason)
{
    struct ks_buffer body = {0};
    size_t failure = ks_wire_begin(&body, KS_SETTLE_RESPONSE_FAILED);

    ks_wire_add_bytes(&body, KS_SETTLE_FAILURE_ACK_ID, ack_id, strlen(ack_id));
    ks_wire_add_bytes(&body, KS_SETTLE_FAILURE_REASON, reason, strlen(reason));
    ks_wire_end(&body, failure);
    EXPECT(ks_engine_answered(engine, body.data, body.size));
    ks_buffer_free(&body);
}

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
    expect_one_redelivery(&engine, taken, "ack 3.2, ack 2.2");
}

TEST(refused_retry_takes_nothing_back)
{
    struct ks_engine engine;
    struct ks_delivery *taken[3] = {retry_first(&engine)};

    answer_refusal(&engine, "1.1", "UNKNOWN");
    EXPECT_EQ(engine.failed, 1);
    EXPECT(ks_engine_pop(&engine) == NULL); /* The session may be one of another process. */
    ks_engine_barrier(&engine, 1);
    for (int number = 2; number <= 3; number++)
        taken[number - 1] = pop(&engine, number);
    finish(&engine, taken, 3);
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

TEST(retry_whose_repetition_is_refused_for_another_reason_takes_nothing_back)
{
    struct ks_engine engine;
    struct ks_delivery *taken[3] = {repeat_retry(&engine)};

    answer_refusal(&engine, "1.1", "UNKNOWN");
    EXPECT_EQ(engine.failed, 1);
    EXPECT(!ks_list_is_empty(&engine.failures));
    ks_engine_barrier(&engine, 1);
    for (int number = 2; number <= 3; number++)
        taken[number - 1] = pop(&engine, number);
    finish(&engine, taken, 3);
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
