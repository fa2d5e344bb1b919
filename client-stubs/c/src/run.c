/* SPDX-License-Identifier: Apache-2.0 */
/* The ways to read: a handler, one record after the other, batches. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "consumer.h"

enum {
    BATCH_RECORDS_DEFAULT = 500,
    BATCH_RECORDS_MAX = 100000, /* More are never in flight. */
    BATCH_WAIT_MS_DEFAULT = 1000
};

static int64_t deadline_of(int64_t duration_ms)
{
    int64_t now = ks_now();

    return duration_ms < 0 || duration_ms > INT64_MAX - now ? INT64_MAX : now + duration_ms;
}

/* Waits for a record, until the instant at the latest. Returns NULL after it, and at the end.
 * The mutex is held. */
static struct ks_delivery *wait_for_record(struct ks_consumer *consumer, int64_t until)
{
    struct ks_delivery *delivery = NULL;

    consumer->wanted = 1;
    while (ks_consumer_may_read(consumer)) {
        delivery = ks_engine_pop(&consumer->engine);
        if (delivery != NULL || (until != INT64_MAX && ks_now() >= until))
            break;
        ks_consumer_wait(consumer, until);
    }
    return delivery;
}

/* ---- A handler ---- */

struct run {
    struct ks_consumer *consumer;
    ks_record_handler *handler;
    void *context;
};

/* Settles a record by the result of its handler. */
static void settle(struct ks_consumer *consumer, struct ks_delivery *delivery, int result)
{
    char unnamed[] = "the handler returned -2147483648";
    char *reason = delivery->reason;

    if (result == 0) {
        ks_engine_settle(&consumer->engine, delivery, KS_OUTCOME_ACK, 0, NULL, ks_now());
    } else if (delivery->state == KS_STATE_BEGUN) {
        (void)snprintf(unnamed, sizeof(unnamed), "the handler returned %d", result);
        delivery->reason = NULL;
        ks_engine_settle(&consumer->engine, delivery, KS_OUTCOME_RETRY, 0,
                         reason != NULL ? reason : strdup(unnamed), ks_now());
    }
    ks_lanes_done(&consumer->engine.lanes, delivery->lane);
    ks_delivery_release(delivery);
}

/* Settles the record before, if there is one, and waits for the next one. */
static struct ks_delivery *advance(struct ks_consumer *consumer, struct ks_delivery *before,
                                   int result)
{
    struct ks_delivery *next;

    (void)pthread_mutex_lock(&consumer->mutex);
    if (before != NULL)
        settle(consumer, before, result);
    next = wait_for_record(consumer, INT64_MAX);
    ks_consumer_unlock(consumer);
    return next;
}

static void *work(void *context)
{
    const struct run *run = context;
    struct ks_delivery *delivery = advance(run->consumer, NULL, 0);

    while (delivery != NULL) {
        int result = run->handler(&delivery->record, run->context);
        delivery = advance(run->consumer, delivery, result);
    }
    return NULL;
}

/* Handles records in this thread and in concurrency - 1 further ones, as far as the system has
 * room for them. */
static void work_in_threads(struct run *run, uint32_t concurrency)
{
    pthread_t *threads = calloc(concurrency, sizeof(*threads));
    uint32_t count = 0;

    while (threads != NULL && count + 1 < concurrency &&
           pthread_create(&threads[count], NULL, work, run) == 0)
        count++;
    (void)work(run);
    while (count > 0)
        (void)pthread_join(threads[--count], NULL);
    free(threads);
}

/* The consumer that SIGTERM and SIGINT stop. */
static _Atomic(struct ks_consumer *) signalled;

static void stop_by_signal(int number)
{
    struct ks_consumer *consumer = atomic_load(&signalled);

    (void)number;
    if (consumer != NULL)
        ks_consumer_stop(consumer);
}

/* Takes the signals if no other consumer has them. */
static bool take_signals(struct ks_consumer *consumer, struct sigaction before[2])
{
    struct sigaction action = {.sa_handler = stop_by_signal, .sa_flags = SA_RESTART};
    struct ks_consumer *none = NULL;

    if (!consumer->options.given.handle_signals ||
        !atomic_compare_exchange_strong(&signalled, &none, consumer))
        return false;
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGTERM, &action, &before[0]);
    (void)sigaction(SIGINT, &action, &before[1]);
    return true;
}

static void give_signals_back(const struct sigaction before[2])
{
    (void)sigaction(SIGTERM, &before[0], NULL);
    (void)sigaction(SIGINT, &before[1], NULL);
    atomic_store(&signalled, NULL);
}

static bool begin_run(struct ks_consumer *consumer)
{
    bool may_read;

    (void)pthread_mutex_lock(&consumer->mutex);
    may_read = ks_consumer_begin(consumer, consumer->options.given.concurrency);
    consumer->runs += may_read;
    consumer->engine.lanes.is_exclusive = true;
    ks_consumer_take_back(consumer, false);
    ks_consumer_unlock(consumer);
    return may_read;
}

/* Closes the consumer. Returns the status of the run. */
static ks_client_status end_run(struct ks_consumer *consumer)
{
    ks_client_status status;

    (void)pthread_mutex_lock(&consumer->mutex);
    consumer->runs--;
    (void)pthread_cond_broadcast(&consumer->changed);
    ks_consumer_unlock(consumer);
    ks_consumer_close(consumer);
    status = ks_consumer_status(consumer);
    return status == KS_CLIENT_STOPPED || status == KS_CLIENT_CLOSED ? KS_CLIENT_OK : status;
}

ks_client_status ks_consumer_run(ks_consumer *consumer, ks_record_handler *handler, void *context)
{
    struct run run = {consumer, handler, context};
    struct sigaction before[2];
    ks_client_status status;
    bool has_signals;

    if (ks_consumer_is_forked(consumer) || !begin_run(consumer)) {
        status = ks_consumer_status(consumer);
        return status == KS_CLIENT_STOPPED ? KS_CLIENT_OK : status;
    }
    has_signals = take_signals(consumer, before);
    work_in_threads(&run, consumer->options.given.concurrency);
    status = end_run(consumer);
    if (has_signals)
        give_signals_back(before);
    return status;
}

/* ---- Loops ---- */

/* Makes room for records that are handed out. Returns how many there may be. */
static size_t make_room(struct ks_consumer *consumer, size_t count)
{
    ks_record **records;

    if (count <= consumer->handed_out_capacity)
        return count;
    records = realloc(consumer->handed_out, count * sizeof(*records));
    if (records == NULL)
        return consumer->handed_out_capacity;
    consumer->handed_out = records;
    consumer->handed_out_capacity = count;
    return count;
}

static bool begin_loop(struct ks_consumer *consumer, size_t *count)
{
    static const ks_client_error NO_MEMORY = {.status = KS_CLIENT_NO_MEMORY,
                                              .message = "out of memory"};

    if (ks_consumer_is_forked(consumer))
        return false;
    (void)pthread_mutex_lock(&consumer->mutex);
    ks_consumer_take_back(consumer, true);
    *count = make_room(consumer, *count);
    if (ks_consumer_begin(consumer, 1) && *count > 0)
        return true;
    ks_consumer_unlock(consumer);
    if (*count == 0)
        ks_consumer_fail(consumer, &NO_MEMORY);
    return false;
}

ks_record *ks_consumer_next(ks_consumer *consumer, int64_t timeout_ms)
{
    struct ks_delivery *delivery;
    size_t count = 1;

    if (!begin_loop(consumer, &count))
        return NULL;
    delivery = ks_engine_pop(&consumer->engine);
    if (delivery == NULL)
        delivery = wait_for_record(consumer, deadline_of(timeout_ms));
    if (delivery != NULL)
        consumer->handed_out[consumer->handed_out_count++] = &delivery->record;
    ks_consumer_unlock(consumer);
    return delivery == NULL ? NULL : &delivery->record;
}

/* Takes records that may be handed out. Returns whether there are any. */
static bool fill_batch(struct ks_consumer *consumer, size_t max_records)
{
    struct ks_delivery *delivery = NULL;

    while (consumer->handed_out_count < max_records &&
           (delivery = ks_engine_pop(&consumer->engine)) != NULL)
        consumer->handed_out[consumer->handed_out_count++] = &delivery->record;
    return consumer->handed_out_count > 0;
}

/* Waits until there are so many records, or the time since the first one is over. Then takes
 * them. Until then they may be taken back, so that the app gets none that is redelivered. The
 * mutex is held. */
static bool wait_for_batch(struct ks_consumer *consumer, size_t max_records, int64_t max_wait_ms)
{
    int64_t until = INT64_MAX;

    while (ks_consumer_may_read(consumer)) {
        size_t count = consumer->engine.lanes.count;
        if (count >= max_records || ks_now() >= until) {
            if (fill_batch(consumer, max_records))
                return true;
            until = INT64_MAX; /* Retries hold all of them. */
        } else if (until == INT64_MAX && count > 0) {
            until = deadline_of(max_wait_ms);
        }
        consumer->wanted = until == INT64_MAX ? 1 : max_records;
        ks_consumer_wait(consumer, until);
    }
    return false;
}

const ks_batch *ks_consumer_batch(ks_consumer *consumer, size_t max_records, int64_t max_wait_ms)
{
    size_t count = max_records == 0                  ? BATCH_RECORDS_DEFAULT
                   : max_records > BATCH_RECORDS_MAX ? BATCH_RECORDS_MAX
                                                     : max_records;
    bool is_filled;

    if (!begin_loop(consumer, &count))
        return NULL;
    is_filled =
        wait_for_batch(consumer, count, max_wait_ms <= 0 ? BATCH_WAIT_MS_DEFAULT : max_wait_ms);
    consumer->batch = (ks_batch){consumer->handed_out, consumer->handed_out_count, consumer};
    ks_consumer_unlock(consumer);
    return is_filled ? &consumer->batch : NULL;
}
