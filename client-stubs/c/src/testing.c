/* SPDX-License-Identifier: Apache-2.0 */
/* A sidecar in the memory of a test. It replaces the thread of the consumer. */
#include "kinesis-sidecar-client-testing.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "consumer.h"
#include "event.h"

enum { ATTEMPTS_DEFAULT = 3, NUMBER_BYTES_MAX = 24, FOREVER_MS = 1 << 30 };

/* A record of the test. */
struct item {
    struct ks_link items;
    uint64_t number;
    const char *partition_key;
    size_t data_size;
    uint32_t attempt; /* Of the last delivery. */
    uint32_t failures;
    bool is_due;          /* It is to be delivered. */
    unsigned char data[]; /* A NUL byte and the partition key follow. */
};

struct ks_fake {
    ks_consumer *consumer;
    uint32_t max_attempts;
    uint64_t batches;
    struct ks_link items;
    uint64_t item_count;
    uint64_t settled; /* Records with a final outcome. */
    ks_fake_outcome *outcomes;
    size_t outcome_count;
    size_t outcome_capacity;
};

/* ---- Delivering ---- */

static uint32_t lane_of(const struct item *item)
{
    uint32_t hash = 2166136261U; /* FNV-1a. */

    for (const char *at = item->partition_key; *at != '\0'; at++)
        hash = (hash ^ (unsigned char)*at) * 16777619U;
    return hash % KS_LANES_MAX;
}

static void write_record(struct ks_buffer *frame, const struct item *item, uint64_t batch)
{
    size_t begin = ks_wire_begin(frame, KS_EVENT_RECORD);
    char text[2 * NUMBER_BYTES_MAX];
    int size = snprintf(text, sizeof(text), "%" PRIu64 "-%" PRIu64, batch, item->number);

    ks_wire_add_bytes(frame, KS_RECORD_ACK_ID, text, (size_t)size);
    size = snprintf(text, sizeof(text), "%" PRIu64, batch);
    ks_wire_add_bytes(frame, KS_RECORD_BATCH_ID, text, (size_t)size);
    ks_wire_add_bytes(frame, KS_RECORD_STREAM, "fake", 4);
    ks_wire_add_bytes(frame, KS_RECORD_SHARD_ID, "shardId-000000000000", 20);
    ks_wire_add_number(frame, KS_RECORD_EPOCH, 1);
    size = snprintf(text, sizeof(text), "%" PRIu64, item->number);
    ks_wire_add_bytes(frame, KS_RECORD_SEQUENCE_NUMBER, text, (size_t)size);
    ks_wire_add_bytes(frame, KS_RECORD_PARTITION_KEY, item->partition_key,
                      strlen(item->partition_key));
    ks_wire_add_number(frame, KS_RECORD_ARRIVAL, 1767225600000); /* 2026-01-01. */
    ks_wire_add_number(frame, KS_RECORD_ATTEMPT, item->attempt);
    ks_wire_add_bytes(frame, KS_RECORD_DATA, item->data, item->data_size);
    ks_wire_add_number(frame, KS_RECORD_LANE, lane_of(item));
    ks_wire_end(frame, begin);
}

/* Makes the next delivery of a record. Returns NULL if there is no memory. */
static struct ks_delivery *make_delivery(const struct ks_fake *fake, const struct item *item)
{
    struct ks_buffer frame = {0};
    struct ks_delivery *delivery = NULL;
    struct ks_field field;

    write_record(&frame, item, fake->batches);
    if (!frame.is_full)
        delivery = ks_delivery_new(frame.size);
    if (delivery != NULL) {
        memcpy(delivery->frame, frame.data, frame.size);
        (void)ks_event_find(delivery, &field);
        (void)ks_delivery_read(delivery, &field);
    }
    ks_buffer_free(&frame);
    return delivery;
}

static void fail(struct ks_fake *fake)
{
    ks_client_error error = ks_client_error_new(KS_CLIENT_NO_MEMORY, "out of memory");

    ks_consumer_fail(fake->consumer, &error);
}

/* Delivers all records that are due, as one batch. */
static void deliver(struct ks_fake *fake)
{
    struct ks_link deliveries;
    struct ks_link *link, *after;

    ks_link_init(&deliveries);
    fake->batches++;
    KS_LIST_EACH(link, after, &fake->items)
    {
        struct item *item = KS_LIST_ENTRY(link, struct item, items);
        struct ks_delivery *delivery;
        if (!item->is_due)
            continue;
        item->is_due = false;
        item->attempt++;
        delivery = make_delivery(fake, item);
        if (delivery == NULL)
            fail(fake);
        else
            ks_list_append(&deliveries, &delivery->owner);
    }
    if (!ks_consumer_arrive(fake->consumer, &deliveries))
        fail(fake);
}

/* ---- Settling ---- */

static struct item *item_of(const struct ks_fake *fake, const struct ks_delivery *delivery)
{
    uint64_t number = strtoull(delivery->record.sequence_number, NULL, 10);
    struct ks_link *link = fake->items.next;

    while (KS_LIST_ENTRY(link, struct item, items)->number != number)
        link = link->next;
    return KS_LIST_ENTRY(link, struct item, items);
}

static bool make_room(struct ks_fake *fake)
{
    size_t capacity = fake->outcome_capacity == 0 ? 64 : 2 * fake->outcome_capacity;
    ks_fake_outcome *outcomes;

    if (fake->outcome_count < fake->outcome_capacity)
        return true;
    outcomes = realloc(fake->outcomes, capacity * sizeof(*outcomes));
    if (outcomes == NULL)
        return false;
    fake->outcomes = outcomes;
    fake->outcome_capacity = capacity;
    return true;
}

static const char *outcome_word(const struct ks_fake *fake, const struct ks_delivery *delivery,
                                struct item *item)
{
    switch (delivery->outcome) {
    case KS_OUTCOME_RETRY: return ++item->failures < fake->max_attempts ? "retry" : "dead_letter";
    case KS_OUTCOME_DEAD_LETTER: return "dead_letter";
    case KS_OUTCOME_DROP: return "drop";
    case KS_OUTCOME_ACK:
    case KS_OUTCOME_EXTEND: break;
    }
    return "ack";
}

/* Takes an outcome. Returns false if there is no memory. */
static bool take_outcome(struct ks_fake *fake, const struct ks_delivery *delivery)
{
    struct item *item = item_of(fake, delivery);
    const char *reason = delivery->reason == NULL ? "" : delivery->reason;
    ks_fake_outcome outcome = {
        .partition_key = item->partition_key,
        .data = item->data,
        .data_size = item->data_size,
        .attempt = delivery->record.attempt,
        .outcome = outcome_word(fake, delivery, item),
        .reason = strdup(reason),
    };

    if (outcome.reason == NULL || !make_room(fake)) {
        free((char *)(uintptr_t)outcome.reason);
        return false;
    }
    fake->outcomes[fake->outcome_count++] = outcome;
    item->is_due = strcmp(outcome.outcome, "retry") == 0;
    fake->settled += !item->is_due;
    return true;
}

static void take_back(const struct ks_delivery *delivery, void *fake)
{
    item_of(fake, delivery)->is_due = true;
}

static void take_outcomes(struct ks_fake *fake)
{
    struct ks_consumer *consumer = fake->consumer;
    const struct ks_request *request;
    bool has_memory = true;

    (void)pthread_mutex_lock(&consumer->mutex);
    while ((request = ks_engine_request(&consumer->engine, ks_now(), true)) != NULL) {
        uint64_t barrier = request->barrier;
        struct ks_link *link, *after;
        KS_LIST_EACH(link, after, &request->settled)
        {
            const struct ks_delivery *delivery = KS_LIST_ENTRY(link, struct ks_delivery, owner);
            has_memory = take_outcome(fake, delivery) && has_memory;
        }
        (void)ks_engine_answered(&consumer->engine, (const uint8_t *)"", 0);
        ks_engine_barrier(&consumer->engine, barrier);
    }
    consumer->is_signalled = consumer->engine.is_woken;
    if (fake->settled == fake->item_count)
        atomic_store(&consumer->is_stopped, true);
    (void)pthread_cond_broadcast(&consumer->changed);
    (void)pthread_mutex_unlock(&consumer->mutex);
    if (!has_memory)
        fail(fake);
}

/* ---- Life ---- */

static bool is_closing(struct ks_consumer *consumer)
{
    bool closing;

    (void)pthread_mutex_lock(&consumer->mutex);
    closing = consumer->is_closing && consumer->runs == 0;
    (void)pthread_mutex_unlock(&consumer->mutex);
    return closing;
}

static void serve(struct ks_consumer *consumer)
{
    struct ks_fake *fake = consumer->serve_context;
    struct pollfd wake = {.fd = consumer->wake_fds[0], .events = POLLIN};
    ks_event session = {.max_in_flight = UINT32_MAX,
                        .max_in_flight_bytes = INT64_MAX,
                        .ack_deadline_ms = FOREVER_MS};

    (void)pthread_mutex_lock(&consumer->mutex);
    ks_engine_opened(&consumer->engine, &session, ks_now());
    (void)pthread_mutex_unlock(&consumer->mutex);
    for (;;) {
        bool closing = is_closing(consumer);
        take_outcomes(fake);
        if (closing)
            return;
        deliver(fake);
        (void)poll(&wake, 1, -1);
        ks_consumer_clear_wake(consumer);
    }
}

static bool ack_persisted(const struct ks_consumer *consumer, const char *ack_id)
{
    (void)consumer;
    (void)ack_id;
    return true;
}

ks_fake *ks_fake_new(const ks_consumer_options *options, uint32_t max_attempts)
{
    ks_fake *fake = calloc(1, sizeof(*fake));

    if (fake == NULL)
        return NULL;
    fake->consumer = ks_consumer_new("fake", options);
    if (fake->consumer == NULL) {
        free(fake);
        return NULL;
    }
    fake->max_attempts = max_attempts == 0 ? ATTEMPTS_DEFAULT : max_attempts;
    ks_link_init(&fake->items);
    fake->consumer->serve = serve;
    fake->consumer->ack_persisted = ack_persisted;
    fake->consumer->serve_context = fake;
    fake->consumer->engine.taken_back = take_back;
    fake->consumer->engine.taken_back_context = fake;
    return fake;
}

void ks_fake_free(ks_fake *fake)
{
    struct ks_link *link;

    if (fake == NULL)
        return;
    ks_consumer_free(fake->consumer);
    while ((link = ks_list_take(&fake->items)) != NULL)
        free(KS_LIST_ENTRY(link, struct item, items));
    for (size_t i = 0; i < fake->outcome_count; i++)
        free((char *)(uintptr_t)fake->outcomes[i].reason);
    free(fake->outcomes);
    free(fake);
}

bool ks_fake_put(ks_fake *fake, const char *partition_key, const void *data, size_t data_size)
{
    size_t key_size = strlen(partition_key) + 1;
    struct item *item = calloc(1, sizeof(*item) + data_size + 1 + key_size);

    if (item == NULL)
        return false;
    if (data_size > 0)
        memcpy(item->data, data, data_size);
    memcpy(item->data + data_size + 1, partition_key, key_size);
    item->partition_key = (const char *)item->data + data_size + 1;
    item->data_size = data_size;
    item->number = ++fake->item_count;
    item->is_due = true;
    ks_list_append(&fake->items, &item->items);
    return true;
}

ks_consumer *ks_fake_consumer(ks_fake *fake)
{
    return fake->consumer;
}

const ks_fake_outcome *ks_fake_outcomes(ks_fake *fake, size_t *ret_count)
{
    ks_consumer_close(fake->consumer);
    *ret_count = fake->outcome_count;
    return fake->outcomes;
}
