/* SPDX-License-Identifier: Apache-2.0 */
/* A consumer and the real sidecar. */
#include "sidecar.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "reading.h"

enum { RECORDS_MAX = 500, KEYS_MAX = 20 };

static ks_consumer *consumer_of(ks_consumer_options options)
{
    options.url = sidecar_url();
    options.token_file = sidecar_token_file();
    options.on_event = reading_note_event;
    return ks_consumer_new("orders", &options);
}

static int number_of(const ks_record *record)
{
    return (int)strtol((const char *)record->data, NULL, 10);
}

/* What the handlers did, by record and by key. */
static struct {
    pthread_mutex_t mutex;
    int handled[RECORDS_MAX]; /* How often each record was handled, without failures. */
    int last[KEYS_MAX];       /* The last number of each key. */
    int running[KEYS_MAX];
    int count;    /* Records that were handled at least once. */
    int repeated; /* Handlings after the first. */
    int disorder; /* Records that were handled after a later one of their key. */
    int at_once;  /* Records that were handled while another one of their key was. */
} tally = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static int key_of(const ks_record *record)
{
    return (int)strtol(record->partition_key + strlen("key-"), NULL, 10);
}

static void begin(const ks_record *record)
{
    (void)pthread_mutex_lock(&tally.mutex);
    tally.at_once += tally.running[key_of(record)]++ > 0;
    (void)pthread_mutex_unlock(&tally.mutex);
}

static void end(const ks_record *record, bool is_handled)
{
    int number = number_of(record);
    int *last = &tally.last[key_of(record)];

    (void)pthread_mutex_lock(&tally.mutex);
    tally.running[key_of(record)]--;
    if (is_handled) {
        tally.count += tally.handled[number] == 0;
        tally.repeated += tally.handled[number]++ > 0;
        tally.disorder += number + 1 <= *last;
        *last = number + 1;
    }
    (void)pthread_mutex_unlock(&tally.mutex);
}

static int handled_count(void)
{
    int count;

    (void)pthread_mutex_lock(&tally.mutex);
    count = tally.count;
    (void)pthread_mutex_unlock(&tally.mutex);
    return count;
}

static int handle(ks_record *record, void *context)
{
    (void)context;
    begin(record);
    end(record, true);
    return 0;
}

static int settle_by_number(ks_record *record, void *context)
{
    (void)context;
    switch (number_of(record)) {
    case 1: ks_record_drop(record); break;
    case 2: ks_record_dead_letter(record, "no way"); break;
    case 3: return record->attempt < 3 ? ks_record_fail(record, "fail %d", 3) : 0;
    case 4:
        if (record->attempt == 1)
            ks_record_retry(record, 10, "not yet");
        break;
    default: break;
    }
    return 0;
}

TEST(every_outcome_reaches_the_sidecar)
{
    ks_consumer *consumer;

    sidecar_start(NULL);
    sidecar_put(6, 6);
    consumer = consumer_of((ks_consumer_options){0});
    reading_start(consumer, settle_by_number);
    EVENTUALLY(sidecar_sum("settled") == 6);
    EXPECT_EQ(reading_stop(), KS_CLIENT_OK);
    EXPECT_CONTAINS(sidecar_get("/v1/dead-letters"), "\"reason\":\"no way\"");
    EXPECT(strstr(reading_journal(), "/3") != NULL && strstr(reading_journal(), "/2") != NULL);
    EXPECT_EQ(ks_consumer_failed(consumer) + ks_consumer_stale(consumer), 0);
    ks_consumer_free(consumer);
}

static int fail_some_once(ks_record *record, void *context)
{
    bool fails = number_of(record) % 17 == 7 && record->attempt == 1;

    (void)context;
    begin(record);
    end(record, !fails);
    return fails;
}

static void expect_order(uint32_t concurrency)
{
    ks_consumer *consumer;

    sidecar_start(NULL);
    sidecar_put(500, 20);
    consumer = consumer_of((ks_consumer_options){.concurrency = concurrency});
    reading_start(consumer, fail_some_once);
    EVENTUALLY(sidecar_sum("settled") == 500);
    EXPECT_EQ(reading_stop(), KS_CLIENT_OK);
    EXPECT_EQ(tally.count, 500);
    EXPECT_EQ(tally.repeated, 0);
    EXPECT_EQ(tally.disorder, 0);
    EXPECT_EQ(tally.at_once, 0);
    ks_consumer_free(consumer);
}

TEST(order_of_each_key_is_kept_while_handlers_fail)
{
    expect_order(1);
}

TEST(order_of_each_key_is_kept_while_concurrent_handlers_fail)
{
    expect_order(8);
}

static int take_three_seconds(ks_record *record, void *context)
{
    check_sleep(3000);
    return handle(record, context);
}

TEST(handler_slower_than_the_ack_deadline_runs_once)
{
    ks_consumer *consumer;

    sidecar_start_on_port();
    sidecar_put(1, 1);
    consumer = consumer_of((ks_consumer_options){.ack_deadline_ms = 1000});
    reading_start(consumer, take_three_seconds);
    EVENTUALLY(sidecar_sum("settled") == 1);
    EXPECT_EQ(reading_stop(), KS_CLIENT_OK);
    EXPECT_EQ(tally.repeated, 0);
    ks_consumer_free(consumer);
}

TEST(left_loop_gives_its_record_back)
{
    ks_consumer *consumer;
    ks_record *record;

    sidecar_start(NULL);
    sidecar_put(3, 1);
    consumer = consumer_of((ks_consumer_options){0});
    while ((record = ks_consumer_next(consumer, -1)) != NULL && number_of(record) < 1)
        continue;
    ks_consumer_free(consumer);
    consumer = consumer_of((ks_consumer_options){0});
    EXPECT_EQ(number_of(ks_consumer_next(consumer, -1)), 1);
    EXPECT_EQ(number_of(ks_consumer_next(consumer, -1)), 2);
    ks_consumer_free(consumer);
    EXPECT_EQ(sidecar_sum("settled"), 2);
}

TEST(batches_settle_their_records)
{
    const ks_batch *batch = NULL;
    ks_consumer *consumer;

    sidecar_start(NULL);
    sidecar_put(200, 10);
    consumer = consumer_of((ks_consumer_options){0});
    while (tally.count < 200 && (batch = ks_consumer_batch(consumer, 30, 100)) != NULL) {
        EXPECT(batch->count <= 30);
        for (size_t i = 0; i < batch->count; i++)
            if (number_of(batch->records[i]) % 10 == 9 && batch->records[i]->attempt == 1)
                ks_record_retry(batch->records[i], 0, "fail");
            else
                (void)handle(batch->records[i], NULL);
    }
    ks_batch_ack(batch);
    ks_consumer_close(consumer);
    EVENTUALLY(sidecar_sum("in_flight") == 0);
    EXPECT(sidecar_sum("settled") > 0);
    ks_consumer_free(consumer);
}

TEST(batch_is_retried_but_for_what_has_an_outcome)
{
    const ks_batch *batch;
    ks_consumer *consumer;

    sidecar_start(NULL);
    sidecar_put(3, 1);
    consumer = consumer_of((ks_consumer_options){0});
    batch = ks_consumer_batch(consumer, 3, CHECK_PATIENCE_MS);
    EXPECT_EQ(batch->count, 3);
    ks_record_ack(batch->records[0]);
    ks_batch_retry(batch, 0, "again");
    batch = ks_consumer_batch(consumer, 2, CHECK_PATIENCE_MS);
    EXPECT_EQ(batch->count, 2);
    EXPECT_EQ(number_of(batch->records[0]), 1);
    EXPECT_EQ(number_of(batch->records[1]), 2);
    ks_consumer_free(consumer);
}

TEST(persisted_acknowledgement_waits_for_the_lease_table)
{
    ks_consumer *consumer;
    ks_record *record;
    char checkpoint[160];

    sidecar_start(NULL);
    sidecar_put(1, 1);
    consumer = consumer_of((ks_consumer_options){0});
    record = ks_consumer_next(consumer, -1);
    EXPECT(ks_record_ack_persisted(record));
    (void)snprintf(checkpoint, sizeof(checkpoint), "\"checkpoint\":\"%s\"",
                   record->sequence_number);
    EXPECT_CONTAINS(sidecar_get("/v1/shards"), checkpoint);
    ks_consumer_free(consumer);
}

TEST(record_has_its_members)
{
    ks_consumer *consumer;
    ks_record *record;

    sidecar_start(NULL);
    sidecar_put(1, 1);
    consumer = consumer_of((ks_consumer_options){0});
    record = ks_consumer_next(consumer, -1);
    EXPECT_STR((const char *)record->data, "0");
    EXPECT_EQ(record->data_size, 1);
    EXPECT_STR(record->partition_key, "key-0");
    EXPECT_EQ(record->partition_key_size, 5);
    EXPECT_STR(record->stream, "demo");
    EXPECT(strncmp(record->shard_id, "shardId-", 8) == 0);
    EXPECT_EQ(record->attempt, 1);
    EXPECT(record->epoch >= 1 && record->sub_sequence_number == 0);
    EXPECT(llabs(record->arrived_at_ms / 1000 - (int64_t)time(NULL)) < 3600);
    EXPECT(!record->aggregated && !record->redriven);
    ks_consumer_free(consumer);
}

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

/* Waits for the test in the handler of record 50. */
static int wait_at_50(ks_record *record, void *context)
{
    (void)context;
    begin(record);
    if (number_of(record) == 50) {
        (void)pthread_mutex_lock(&gate);
        (void)pthread_mutex_unlock(&gate);
    }
    end(record, true);
    return 0;
}

TEST(kill_of_the_sidecar_repeats_no_record_that_is_handled)
{
    ks_consumer *consumer;

    sidecar_start(NULL);
    sidecar_put(200, 20);
    consumer = consumer_of((ks_consumer_options){.concurrency = 4});
    (void)pthread_mutex_lock(&gate);
    reading_start(consumer, wait_at_50);
    EVENTUALLY(handled_count() >= 100);
    sidecar_restart();
    EVENTUALLY(strstr(strstr(reading_events(), "disconnected("), "session(") != NULL);
    (void)pthread_mutex_unlock(&gate);
    EVENTUALLY(handled_count() == 200);
    EVENTUALLY(sidecar_sum("in_flight") == 0);
    EXPECT_EQ(reading_stop(), KS_CLIENT_OK);
    EXPECT_EQ(tally.handled[50], 1);
    EXPECT_EQ(tally.at_once, 0);
    ks_consumer_free(consumer);
}

static int wait_at_gate(ks_record *record, void *context)
{
    (void)pthread_mutex_lock(&gate);
    (void)pthread_mutex_unlock(&gate);
    return handle(record, context);
}

TEST(stop_keeps_the_acknowledgements_of_running_handlers)
{
    ks_consumer *consumer;

    sidecar_start(NULL);
    sidecar_put(20, 20);
    consumer = consumer_of((ks_consumer_options){.concurrency = 2});
    (void)pthread_mutex_lock(&gate);
    reading_start(consumer, wait_at_gate);
    EVENTUALLY(strchr(reading_journal(), ' ') != NULL);
    ks_consumer_stop(consumer);
    (void)pthread_mutex_unlock(&gate);
    EXPECT_EQ(reading_wait(), KS_CLIENT_OK);
    EXPECT_EQ(tally.count, 2);
    ks_consumer_free(consumer);
    consumer = consumer_of((ks_consumer_options){.concurrency = 2});
    reading_start(consumer, handle);
    EVENTUALLY(sidecar_sum("settled") == 20);
    EXPECT_EQ(reading_stop(), KS_CLIENT_OK);
    EXPECT_EQ(tally.repeated, 0);
    ks_consumer_free(consumer);
}

TEST(second_consumer_with_the_same_client_id_takes_the_session_over)
{
    ks_consumer *first, *second;

    sidecar_start(NULL);
    sidecar_put(1, 1);
    first = consumer_of((ks_consumer_options){0});
    reading_start(first, handle);
    EVENTUALLY(sidecar_sum("settled") == 1);
    second = consumer_of((ks_consumer_options){0});
    EXPECT(ks_consumer_next(second, 0) == NULL);
    EXPECT_EQ(reading_wait(), KS_CLIENT_TAKEN_OVER);
    sidecar_put(1, 1);
    EXPECT(ks_consumer_next(second, CHECK_PATIENCE_MS) != NULL);
    ks_consumer_free(first);
    ks_consumer_free(second);
}

TEST(unix_socket_with_a_token_is_used_from_the_environment)
{
    ks_consumer_options options = {.token_file = ""};
    ks_consumer *consumer;

    sidecar_start("a-secret-of-the-test");
    sidecar_put(20, 4);
    EXPECT(setenv("KINESIS_SIDECAR_URL", sidecar_url(), 1) == 0);
    EXPECT(setenv("KINESIS_SIDECAR_TOKEN_FILE", sidecar_token_file(), 1) == 0);
    consumer = ks_consumer_new("orders", NULL);
    reading_start(consumer, handle);
    EVENTUALLY(sidecar_sum("settled") == 20);
    EXPECT_EQ(reading_stop(), KS_CLIENT_OK);
    EXPECT_EQ(tally.count, 20);
    ks_consumer_free(consumer);
    consumer = ks_consumer_new("other", &options);
    EXPECT(ks_consumer_next(consumer, -1) == NULL);
    EXPECT_EQ(ks_consumer_error(consumer)->http_status, 401);
    ks_consumer_free(consumer);
}
