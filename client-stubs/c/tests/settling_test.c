/* SPDX-License-Identifier: Apache-2.0 */
/* What a consumer sends, and how it keeps the order. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "reading.h"
#include "script.h"

static ks_consumer *consumer_of(const struct script *script, ks_consumer_options options)
{
    options.url = script->url;
    options.token_file = "";
    options.on_event = reading_note_event;
    return ks_consumer_new("orders", &options);
}

/* A consumer whose stream is open. */
static ks_consumer *open_consumer(struct script *script, ks_consumer_options options, int *stream)
{
    ks_consumer *consumer = consumer_of(script, options);

    EXPECT(ks_consumer_next(consumer, 0) == NULL);
    *stream = script_open(script);
    return consumer;
}

static ks_record *next(ks_consumer *consumer, int number)
{
    ks_record *record = ks_consumer_next(consumer, CHECK_PATIENCE_MS);

    EXPECT(record != NULL);
    EXPECT_EQ(strtol(record->sequence_number, NULL, 10), number);
    return record;
}

TEST(whole_batch_is_acknowledged_by_one_item)
{
    struct script *script = script_start();
    int stream;
    ks_consumer *consumer = open_consumer(script, (ks_consumer_options){0}, &stream);

    script_record(stream, "b1", 1, 1);
    script_record(stream, "b1", 2, 1);
    script_record(stream, "b2", 3, 1);
    for (int number = 1; number <= 3; number++)
        (void)next(consumer, number);
    EVENTUALLY(script_has(script, "b1:ack"));
    ks_consumer_free(consumer);
    EXPECT_STR(script_outcomes(script), "b1:ack");
    EXPECT_EQ(script_count(script, &script->deleted), 1);
}

TEST(left_loop_settles_nothing)
{
    struct script *script = script_start();
    int stream;
    ks_consumer *consumer = open_consumer(script, (ks_consumer_options){0}, &stream);

    script_record(stream, "b1", 1, 1);
    script_record(stream, "b1", 2, 1);
    (void)next(consumer, 1);
    (void)next(consumer, 2);
    ks_consumer_free(consumer);
    EXPECT_STR(script_outcomes(script), "1.1:ack");
}

TEST(event_between_the_records_of_a_batch_does_not_end_it)
{
    struct script *script = script_start();
    int stream;
    ks_consumer *consumer = open_consumer(script, (ks_consumer_options){0}, &stream);

    script_record(stream, "b1", 1, 1);
    script_event(stream, KS_EVENT_HEARTBEAT, "\x08\x01", 2);
    script_record(stream, "b1", 2, 1);
    (void)next(consumer, 1);
    (void)next(consumer, 2);
    ks_consumer_free(consumer);
    EXPECT_STR(script_outcomes(script), "1.1:ack");
    EXPECT(reading_has_event("heartbeat("));
}

TEST(first_outcome_counts)
{
    struct script *script = script_start();
    int stream;
    ks_consumer *consumer = open_consumer(script, (ks_consumer_options){0}, &stream);
    ks_record *record;

    script_record(stream, "b1", 1, 1);
    record = next(consumer, 1);
    ks_record_drop(record);
    ks_record_ack(record);
    ks_record_retry(record, 5, "no");
    EXPECT_EQ(ks_record_fail(record, "no"), -1);
    ks_consumer_free(consumer);
    EXPECT_STR(script_outcomes(script), "1.1:drop");
}

TEST(reason_and_delay_are_sent)
{
    struct script *script = script_start();
    int stream;
    ks_consumer *consumer =
        open_consumer(script, (ks_consumer_options){.ordering = KS_CLIENT_ORDERING_NONE}, &stream);

    for (int number = 1; number <= 3; number++)
        script_record(stream, "b1", number, 1);
    ks_record_retry(next(consumer, 1), 1500, "again\xff");
    ks_record_dead_letter(next(consumer, 2), "no way");
    ks_record_retry(next(consumer, 3), INT64_MAX, NULL);
    ks_consumer_free(consumer);
    EXPECT(script_has(script, "1.1:retry+1500(again?)"));
    EXPECT(strstr(script_outcomes(script), "2.1:dead_letter(no way)") != NULL);
    EXPECT(script_has(script, "3.1:retry+43200000"));
}

TEST(next_returns_after_its_time)
{
    struct script *script = script_start();
    int stream;
    ks_consumer *consumer = open_consumer(script, (ks_consumer_options){0}, &stream);

    EXPECT(ks_consumer_next(consumer, 20) == NULL);
    EXPECT_EQ(ks_consumer_status(consumer), KS_CLIENT_OK);
    EXPECT_STR(ks_consumer_error(consumer)->message, "");
    ks_consumer_free(consumer);
}

/* ---- Batches ---- */

TEST(batch_has_what_came_within_its_wait)
{
    struct script *script = script_start();
    int stream;
    ks_consumer *consumer =
        open_consumer(script, (ks_consumer_options){.ack_interval_ms = 60000}, &stream);
    const ks_batch *batch;
    size_t count = 0;

    for (int number = 1; number <= 5; number++)
        script_record(stream, "b1", number, 1);
    while (count < 5) {
        batch = ks_consumer_batch(consumer, 3, 50);
        EXPECT(batch != NULL && batch->count >= 1 && batch->count <= 3);
        count += batch->count;
        ks_record_drop(batch->records[0]);
    }
    ks_batch_ack(batch);
    ks_consumer_free(consumer);
    EXPECT(strstr(script_outcomes(script), "1.1:drop") != NULL);
    EXPECT(script_has(script, "5.1:ack") || script_has(script, "5.1:drop"));
}

TEST(batch_without_an_outcome_is_acknowledged_by_the_next_call)
{
    struct script *script = script_start();
    int stream;
    ks_consumer *consumer = open_consumer(script, (ks_consumer_options){0}, &stream);

    script_record(stream, "b1", 1, 1);
    script_record(stream, "b1", 2, 1);
    script_record(stream, "b2", 3, 1);
    EXPECT_EQ(ks_consumer_batch(consumer, 2, 60000)->count, 2);
    EXPECT_EQ(ks_consumer_batch(consumer, 1, 60000)->count, 1);
    ks_consumer_free(consumer);
    EXPECT_STR(script_outcomes(script), "b1:ack");
}

TEST(batch_is_retried_from_its_end)
{
    struct script *script = script_start();
    int stream;
    ks_consumer *consumer = open_consumer(script, (ks_consumer_options){0}, &stream);
    const ks_batch *batch;

    for (int number = 1; number <= 3; number++)
        script_record(stream, "b1", number, 1);
    batch = ks_consumer_batch(consumer, 3, 60000);
    ks_record_drop(batch->records[1]);
    EVENTUALLY(script_has(script, "2.1:drop"));
    ks_batch_retry(batch, 0, NULL);
    ks_consumer_free(consumer);
    EXPECT_STR(script_outcomes(script), "2.1:drop 3.1:retry 1.1:retry");
}

/* ---- Answers ---- */

TEST(request_without_an_answer_is_repeated)
{
    struct script *script = script_start();
    int stream;
    ks_consumer *consumer = open_consumer(script, (ks_consumer_options){0}, &stream);

    script_answer(script, 503, "", 0);
    script_answer(script, 429, "{}", 2);
    script_answer(script, 200, "\x12\x05", 2); /* Malformed. */
    script_record(stream, "b1", 1, 1);
    ks_record_drop(next(consumer, 1));
    EVENTUALLY(script_count(script, &script->requests) == 4);
    ks_consumer_free(consumer);
    EXPECT_STR(script_outcomes(script), "1.1:drop 1.1:drop 1.1:drop 1.1:drop");
}

TEST(settlements_of_an_ended_session_are_stale)
{
    struct script *script = script_start();
    int stream;
    ks_consumer *consumer = open_consumer(script, (ks_consumer_options){0}, &stream);

    script_answer(script, 409, "{\"code\":\"session-fenced\"}", 25);
    script_answer(script, 410, "{}", 2);
    script_record(stream, "b1", 1, 1);
    script_record(stream, "b1", 2, 1);
    ks_record_drop(next(consumer, 1));
    EVENTUALLY(ks_consumer_stale(consumer) == 1);
    ks_record_drop(next(consumer, 2));
    EVENTUALLY(ks_consumer_stale(consumer) == 2);
    EXPECT_EQ(ks_consumer_status(consumer), KS_CLIENT_OK);
    ks_consumer_free(consumer);
}

TEST(refused_items_are_counted_and_reported)
{
    struct script *script = script_start();
    int stream;
    ks_consumer *consumer = open_consumer(script, (ks_consumer_options){0}, &stream);
    size_t size;
    const char *failure = script_failure("1.1", "EXPIRED", &size);

    script_answer(script, 200, failure, size);
    script_record(stream, "b1", 1, 1);
    ks_record_drop(next(consumer, 1));
    EVENTUALLY(ks_consumer_failed(consumer) == 1);
    EVENTUALLY(reading_has_event("settle_failed(EXPIRED1.1"));
    ks_consumer_free(consumer);
}

TEST(refused_request_ends_the_reading)
{
    struct script *script = script_start();
    int stream;
    ks_consumer *consumer = open_consumer(script, (ks_consumer_options){0}, &stream);

    script_answer(script, 401, "{\"detail\":\"the token is wrong\"}", 31);
    script_record(stream, "b1", 1, 1);
    ks_record_drop(next(consumer, 1));
    EXPECT(ks_consumer_next(consumer, -1) == NULL);
    EXPECT_EQ(ks_consumer_status(consumer), KS_CLIENT_REFUSED);
    EXPECT_STR(ks_consumer_error(consumer)->message, "401 the token is wrong");
    ks_consumer_free(consumer);
}

TEST(refused_outcome_takes_no_acknowledgement_along)
{
    struct script *script = script_start();
    int stream;
    ks_consumer *consumer =
        open_consumer(script, (ks_consumer_options){.ack_interval_ms = 60000}, &stream);

    script_answer(script, 400, "{\"detail\":\"there are no dead letters\"}", 38);
    script_record(stream, "b1", 1, 1);
    script_record(stream, "b1", 2, 1);
    (void)next(consumer, 1);
    ks_record_dead_letter(next(consumer, 2), NULL);
    EXPECT(ks_consumer_next(consumer, -1) == NULL);
    EXPECT_CONTAINS(ks_consumer_error(consumer)->message, "no dead letters");
    ks_consumer_free(consumer);
    EXPECT_STR(script_outcomes(script), "2.1:dead_letter 1.1:ack");
}

TEST(slow_answer_holds_up_no_records)
{
    struct script *script = script_start();
    int stream;
    ks_consumer *consumer = open_consumer(script, (ks_consumer_options){0}, &stream);

    script_hold_answers(script, true);
    script_record(stream, "b1", 1, 1);
    ks_record_drop(next(consumer, 1));
    EVENTUALLY(script_has(script, "1.1:drop"));
    script_record(stream, "b2", 2, 1);
    ks_record_drop(next(consumer, 2));
    script_hold_answers(script, false);
    EVENTUALLY(script_has(script, "2.1:drop"));
    ks_consumer_free(consumer);
}

TEST(persisted_acknowledgement_waits_for_the_answer)
{
    struct script *script = script_start();
    int stream;
    ks_consumer *consumer = open_consumer(script, (ks_consumer_options){0}, &stream);
    size_t size;
    const char *failure = script_failure("2.1", "EXPIRED", &size);
    ks_record *record;

    script_record(stream, "b1", 1, 1);
    script_record(stream, "b1", 2, 1);
    script_record(stream, "b1", 3, 1);
    EXPECT(ks_record_ack_persisted(next(consumer, 1)));
    EVENTUALLY(script_count(script, &script->requests) == 2);
    script_answer(script, 200, failure, size);
    EXPECT(!ks_record_ack_persisted(next(consumer, 2)));
    EVENTUALLY(script_count(script, &script->requests) == 4);
    record = next(consumer, 3);
    ks_record_drop(record);
    EXPECT(!ks_record_ack_persisted(record));
    ks_consumer_free(consumer);
}

/* ---- Sessions ---- */

TEST(outcome_of_a_record_that_the_app_has_settles_the_redelivery)
{
    struct script *script = script_start();
    int stream;
    ks_consumer *consumer = open_consumer(script, (ks_consumer_options){0}, &stream);
    ks_record *record;

    script_record(stream, "b1", 1, 1);
    record = next(consumer, 1);
    script_drop(stream);
    stream = script_open(script);
    script_record(stream, "b2", 1, 2);
    script_record(stream, "b2", 2, 1);
    EXPECT_EQ(record->attempt, 1);
    ks_record_ack(next(consumer, 2)); /* It acknowledges record 1. */
    ks_consumer_free(consumer);
    EXPECT_STR(script_outcomes(script), "1.2:ack 2.1:ack");
    EXPECT(!script_has(script, "b2:ack"));
}

TEST(outcome_that_was_not_confirmed_settles_the_redelivery)
{
    struct script *script = script_start();
    int stream;
    ks_consumer *consumer = open_consumer(script, (ks_consumer_options){0}, &stream);

    for (int i = 0; i < 3; i++)
        script_answer(script, 503, "", 0);
    script_record(stream, "b1", 1, 1);
    ks_record_drop(next(consumer, 1));
    EVENTUALLY(script_has(script, "1.1:drop"));
    script_drop(stream);
    stream = script_open(script);
    script_record(stream, "b2", 1, 2);
    script_record(stream, "b2", 2, 1);
    (void)next(consumer, 2);
    EVENTUALLY(script_has(script, "1.2:drop"));
    ks_consumer_free(consumer);
}

/* Sends an outcome of record 1 that gets no answer, and opens the next stream. */
static ks_consumer *lose_outcome(struct script *script, int *stream)
{
    ks_consumer *consumer = open_consumer(script, (ks_consumer_options){0}, stream);

    script_refuse_settles(script, true);
    script_record(*stream, "b1", 1, 1);
    ks_record_dead_letter(next(consumer, 1), NULL);
    EVENTUALLY(script_has(script, "1.1:dead_letter"));
    script_drop(*stream);
    *stream = script_open(script);
    return consumer;
}

TEST(outcome_that_two_sessions_did_not_confirm_settles_the_redelivery)
{
    struct script *script = script_start();
    int stream;
    ks_consumer *consumer = lose_outcome(script, &stream);

    script_record_in(stream, "b2", 9, 1, "other", 0);
    (void)next(consumer, 9);
    script_drop(stream);
    stream = script_open(script);
    script_refuse_settles(script, false);
    script_record(stream, "b3", 1, 2);
    script_record(stream, "b3", 2, 1);
    (void)next(consumer, 2);
    EVENTUALLY(script_has(script, "1.2:dead_letter"));
    EXPECT_EQ(ks_consumer_stale(consumer), 0);
    ks_consumer_free(consumer);
}

TEST(outcome_is_forgotten_if_a_session_delivers_later_records_alone)
{
    struct script *script = script_start();
    int stream;
    ks_consumer *consumer = lose_outcome(script, &stream);

    script_record(stream, "b2", 2, 1);
    (void)next(consumer, 2);
    script_drop(stream);
    stream = script_open(script);
    script_record(stream, "b3", 1, 2);
    EXPECT_EQ(next(consumer, 1)->attempt, 2);
    EXPECT_EQ(ks_consumer_stale(consumer), 1);
    script_refuse_settles(script, false);
    ks_consumer_free(consumer);
    EXPECT(!script_has(script, "1.2:dead_letter"));
}

TEST(redriven_record_is_handed_out_though_its_first_outcome_was_not_confirmed)
{
    struct script *script = script_start();
    int stream;
    ks_consumer *consumer = lose_outcome(script, &stream);

    script_redriven(stream, "b2", 1, 2);
    EXPECT(next(consumer, 1)->redriven);
    script_refuse_settles(script, false);
    ks_consumer_free(consumer);
    EXPECT(!script_has(script, "1.2:dead_letter"));
}

TEST(record_of_the_app_that_its_session_redelivers_is_not_handed_out_again)
{
    struct script *script = script_start();
    int stream;
    ks_consumer *consumer = open_consumer(script, (ks_consumer_options){0}, &stream);

    script_record(stream, "b1", 1, 1);
    (void)next(consumer, 1);
    script_record(stream, "b2", 1, 2);
    script_event(stream, KS_EVENT_HEARTBEAT, "\x08\x01", 2);
    EVENTUALLY(reading_has_event("heartbeat("));
    script_record(stream, "b2", 2, 1);
    (void)next(consumer, 2); /* It acknowledges record 1. */
    ks_consumer_free(consumer);
    EXPECT_STR(script_outcomes(script), "1.2:ack");
}

TEST(records_of_a_batch_that_a_retry_takes_back_are_not_handed_out_again)
{
    struct script *script = script_start();
    int stream;
    ks_consumer *consumer = open_consumer(script, (ks_consumer_options){0}, &stream);
    const ks_batch *batch;

    for (int number = 1; number <= 3; number++)
        script_record(stream, "b1", number, 1);
    batch = ks_consumer_batch(consumer, 3, 60000);
    ks_record_retry(batch->records[0], 0, NULL);
    EVENTUALLY(script_has(script, "1.1:retry"));
    for (int number = 1; number <= 3; number++)
        script_record(stream, "b2", number, 2);
    batch = ks_consumer_batch(consumer, 1, 60000);
    EXPECT_STR(batch->records[0]->sequence_number, "1");
    EVENTUALLY(script_has(script, "2.2:ack") && script_has(script, "3.2:ack"));
    ks_consumer_free(consumer);
    EXPECT_STR(script_outcomes(script), "1.1:retry 2.2:ack 3.2:ack");
}

TEST(lost_lease_takes_its_records)
{
    struct script *script = script_start();
    int stream;
    ks_consumer *consumer = open_consumer(script, (ks_consumer_options){0}, &stream);

    script_record(stream, "b1", 1, 1);
    script_record(stream, "b1", 2, 1);
    script_record_in(stream, "b2", 3, 1, "other", 0);
    (void)next(consumer, 1);
    script_event(stream, KS_EVENT_LEASE_LOST, "\x0a\x05shard", 7);
    EVENTUALLY(reading_has_event("lease_lost(shard"));
    (void)next(consumer, 3);
    ks_consumer_free(consumer);
}

TEST(records_of_the_app_are_extended)
{
    struct script *script = script_start();
    ks_consumer *consumer = consumer_of(script, (ks_consumer_options){0});
    int stream;

    EXPECT(ks_consumer_next(consumer, 0) == NULL);
    stream = script_open_with(script, 300, 10000);
    script_record(stream, "b1", 1, 1);
    (void)next(consumer, 1);
    EVENTUALLY(script_has_extension(script, "b1:extend+300"));
    ks_consumer_free(consumer);
}

TEST(extension_of_the_app_is_sent)
{
    struct script *script = script_start();
    int stream;
    ks_consumer *consumer = open_consumer(script, (ks_consumer_options){0}, &stream);

    script_record(stream, "b1", 1, 1);
    ks_record_extend(next(consumer, 1), 7000);
    EVENTUALLY(script_has_extension(script, "1.1:extend+7000"));
    ks_consumer_free(consumer);
}

/* ---- Order ---- */

static int fail_first_once(ks_record *record, void *context)
{
    (void)context;
    if (strcmp(record->sequence_number, "1") == 0 && record->attempt == 1)
        return ks_record_fail(record, "not yet");
    return 0;
}

/* Runs records 1 to 3, of which the first one fails while its request has no answer. */
static ks_consumer *fail_first(struct script *script, ks_consumer_options options, int *stream)
{
    ks_consumer *consumer = consumer_of(script, options);

    script->sends_barriers = false;
    script_hold_answers(script, true);
    reading_start(consumer, fail_first_once);
    *stream = script_open(script);
    for (int number = 1; number <= 3; number++)
        script_record_in(*stream, "b1", number, 1, "shard", 5);
    EVENTUALLY(strstr(script_outcomes(script), "1.1:retry(not yet)") != NULL);
    return consumer;
}

static void expect_redelivery(ks_consumer_options options)
{
    struct script *script = script_start();
    int stream;
    ks_consumer *consumer = fail_first(script, options, &stream);

    script_barrier(stream, 1);
    for (int number = 1; number <= 3; number++)
        script_record_in(stream, "b2", number, 2, "shard", 5);
    script_record_in(stream, "b3", 4, 1, "other", 5);
    EVENTUALLY(reading_has("4/1")); /* Another shard goes on. */
    EXPECT_STR(reading_journal(), "1/1 4/1");
    script_hold_answers(script, false);
    EVENTUALLY(reading_has("3/2"));
    EXPECT_EQ(reading_stop(), KS_CLIENT_OK);
    EXPECT_STR(reading_journal(), "1/1 4/1 1/2 2/2 3/2");
    ks_consumer_free(consumer);
}

TEST(records_behind_a_retry_are_handled_behind_its_redelivery)
{
    expect_redelivery((ks_consumer_options){0});
}

TEST(records_behind_a_retry_are_handled_behind_its_redelivery_by_several_threads)
{
    expect_redelivery((ks_consumer_options){.concurrency = 4});
}

TEST(records_behind_a_refused_retry_are_handled)
{
    struct script *script = script_start();
    size_t size;
    const char *failure = script_failure("1.1", "MALFORMED", &size);
    int stream;
    ks_consumer *consumer;

    script_answer(script, 200, failure, size);
    consumer = fail_first(script, (ks_consumer_options){0}, &stream);
    EXPECT_STR(reading_journal(), "1/1");
    script_hold_answers(script, false);
    script_barrier(stream, 1);
    EVENTUALLY(reading_has("3/1"));
    EXPECT_EQ(reading_stop(), KS_CLIENT_OK);
    EXPECT_STR(reading_journal(), "1/1 2/1 3/1");
    EXPECT_EQ(ks_consumer_failed(consumer), 1);
    ks_consumer_free(consumer);
}

TEST(retry_whose_repetition_is_expired_was_accepted)
{
    struct script *script = script_start();
    size_t size;
    const char *failure = script_failure("1.1", "EXPIRED", &size);
    int stream;
    ks_consumer *consumer;

    script_answer(script, 503, "", 0);
    script_answer(script, 200, failure, size);
    consumer = fail_first(script, (ks_consumer_options){0}, &stream);
    script_barrier(stream, 1);
    for (int number = 1; number <= 3; number++)
        script_record_in(stream, "b2", number, 2, "shard", 5);
    script_hold_answers(script, false);
    EVENTUALLY(reading_has("3/2"));
    EXPECT_EQ(reading_stop(), KS_CLIENT_OK);
    EXPECT_STR(reading_journal(), "1/1 1/2 2/2 3/2");
    EXPECT_EQ(ks_consumer_failed(consumer), 0);
    ks_consumer_free(consumer);
    EXPECT(!reading_has_event("settle_failed"));
}

static int return_seven(ks_record *record, void *context)
{
    (void)record;
    (void)context;
    return 7;
}

TEST(result_of_a_handler_is_the_reason_of_last_resort)
{
    struct script *script = script_start();
    ks_consumer *consumer = consumer_of(script, (ks_consumer_options){0});

    reading_start(consumer, return_seven);
    script_record(script_open(script), "b1", 1, 1);
    EVENTUALLY(strstr(script_outcomes(script), "1.1:retry(the handler returned 7)") != NULL);
    EXPECT_EQ(reading_stop(), KS_CLIENT_OK);
    ks_consumer_free(consumer);
}

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static int hold_first(ks_record *record, void *context)
{
    (void)context;
    if (strcmp(record->sequence_number, "1") == 0) {
        (void)pthread_mutex_lock(&gate);
        (void)pthread_mutex_unlock(&gate);
        reading_note("end");
    }
    return 0;
}

TEST(records_of_a_lane_are_handled_one_after_the_other)
{
    struct script *script = script_start();
    ks_consumer *consumer = consumer_of(script, (ks_consumer_options){.concurrency = 3});
    int stream;

    (void)pthread_mutex_lock(&gate);
    reading_start(consumer, hold_first);
    stream = script_open(script);
    EXPECT_CONTAINS(script->request, "ordering=key&lanes=64");
    script_record_in(stream, "b1", 1, 1, "shard", 5);
    script_record_in(stream, "b1", 2, 1, "shard", 5);
    script_record_in(stream, "b1", 3, 1, "shard", 6);
    script_record_in(stream, "b1", 4, 1, "shard", 6);
    EVENTUALLY(reading_has("4/1"));
    (void)pthread_mutex_unlock(&gate);
    EVENTUALLY(reading_has("2/1"));
    EXPECT_EQ(reading_stop(), KS_CLIENT_OK);
    EXPECT(strstr(reading_journal(), "end 2/1") != NULL);
    ks_consumer_free(consumer);
}

TEST(handler_that_runs_over_a_redelivery_is_not_repeated)
{
    struct script *script = script_start();
    ks_consumer *consumer = consumer_of(
        script, (ks_consumer_options){.concurrency = 2, .ordering = KS_CLIENT_ORDERING_NONE});
    int stream;

    (void)pthread_mutex_lock(&gate);
    reading_start(consumer, hold_first);
    stream = script_open(script);
    script_record(stream, "b1", 1, 1);
    EVENTUALLY(reading_has("1/1"));
    script_record(stream, "b2", 1, 2);
    script_record(stream, "b3", 2, 1);
    EVENTUALLY(reading_has("2/1"));
    (void)pthread_mutex_unlock(&gate);
    EVENTUALLY(script_has(script, "b2:ack"));
    EXPECT_EQ(reading_stop(), KS_CLIENT_OK);
    EXPECT(!reading_has("1/2"));
    ks_consumer_free(consumer);
}

TEST(handler_that_runs_over_a_reconnect_is_not_repeated)
{
    struct script *script = script_start();
    ks_consumer *consumer = consumer_of(script, (ks_consumer_options){.concurrency = 2});
    int stream;

    (void)pthread_mutex_lock(&gate);
    reading_start(consumer, hold_first);
    stream = script_open(script);
    script_record_in(stream, "b1", 1, 1, "shard", 5);
    script_record_in(stream, "b1", 2, 1, "shard", 5);
    EVENTUALLY(reading_has("1/1"));
    script_drop(stream);
    stream = script_open(script);
    script_record_in(stream, "b2", 1, 2, "shard", 5);
    script_record_in(stream, "b2", 2, 2, "shard", 5);
    script_record_in(stream, "b3", 3, 1, "shard", 7);
    EVENTUALLY(reading_has("3/1"));
    (void)pthread_mutex_unlock(&gate);
    EVENTUALLY(script_has(script, "b2:ack"));
    EXPECT_EQ(reading_stop(), KS_CLIENT_OK);
    EXPECT_CONTAINS(reading_journal(), "end 2/2");
    EXPECT(!reading_has("1/2") && !reading_has("2/1"));
    EXPECT_EQ(ks_consumer_stale(consumer), 0);
    ks_consumer_free(consumer);
}
