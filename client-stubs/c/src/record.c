/* SPDX-License-Identifier: Apache-2.0 */
/* The outcomes that the app gives to records. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "consumer.h"
#include "text.h"

enum {
    DELAY_MS_MAX = 43200000 /* 12 h: the sidecar refuses more. */
};

static struct ks_delivery *delivery_of(ks_record *record)
{
    return (struct ks_delivery *)record;
}

static int64_t limit(int64_t duration_ms)
{
    if (duration_ms < 0)
        return 0;
    return duration_ms < DELAY_MS_MAX ? duration_ms : DELAY_MS_MAX;
}

static void settle(struct ks_delivery *delivery, enum ks_outcome outcome, int64_t delay_ms,
                   const char *reason)
{
    struct ks_consumer *consumer = delivery->consumer;

    if (ks_consumer_is_forked(consumer))
        return;
    (void)pthread_mutex_lock(&consumer->mutex);
    ks_engine_settle(&consumer->engine, delivery, outcome, limit(delay_ms), ks_text_clean(reason),
                     ks_now());
    ks_consumer_unlock(consumer);
}

void ks_record_ack(ks_record *record)
{
    settle(delivery_of(record), KS_OUTCOME_ACK, 0, NULL);
}

void ks_record_retry(ks_record *record, int64_t delay_ms, const char *reason)
{
    settle(delivery_of(record), KS_OUTCOME_RETRY, delay_ms, reason);
}

void ks_record_dead_letter(ks_record *record, const char *reason)
{
    settle(delivery_of(record), KS_OUTCOME_DEAD_LETTER, 0, reason);
}

void ks_record_drop(ks_record *record)
{
    settle(delivery_of(record), KS_OUTCOME_DROP, 0, NULL);
}

void ks_record_extend(ks_record *record, int64_t duration_ms)
{
    struct ks_delivery *delivery = delivery_of(record);
    struct ks_consumer *consumer = delivery->consumer;

    if (ks_consumer_is_forked(consumer))
        return;
    (void)pthread_mutex_lock(&consumer->mutex);
    ks_engine_extend(&consumer->engine, delivery, limit(duration_ms));
    ks_consumer_unlock(consumer);
}

int ks_record_fail(ks_record *record, const char *format, ...)
{
    struct ks_delivery *delivery = delivery_of(record);
    struct ks_consumer *consumer = delivery->consumer;
    char reason[KS_RECORD_REASON_MAX + 1];
    va_list arguments;

    if (ks_consumer_is_forked(consumer))
        return -1;
    va_start(arguments, format);
    (void)vsnprintf(reason, sizeof(reason), format, arguments);
    va_end(arguments);
    (void)pthread_mutex_lock(&consumer->mutex);
    if (delivery->state == KS_STATE_BEGUN) {
        free(delivery->reason);
        delivery->reason = ks_text_clean(reason);
    }
    ks_consumer_unlock(consumer);
    return -1;
}

/* ---- Persisted ---- */

/* Copies the id by which the record can be acknowledged; NULL: it has another outcome, or there
 * is no memory. */
static char *copy_ack_id(struct ks_delivery *delivery)
{
    struct ks_consumer *consumer = delivery->consumer;
    char *ack_id = NULL;

    (void)pthread_mutex_lock(&consumer->mutex);
    if (delivery->state == KS_STATE_BEGUN || delivery->outcome == KS_OUTCOME_ACK)
        ack_id = strdup(delivery->ack_id);
    ks_consumer_unlock(consumer);
    return ack_id;
}

bool ks_record_ack_persisted(ks_record *record)
{
    struct ks_delivery *delivery = delivery_of(record);
    struct ks_consumer *consumer = delivery->consumer;
    bool is_persisted = false;
    char *ack_id;

    if (ks_consumer_is_forked(consumer))
        return false;
    ack_id = copy_ack_id(delivery);
    if (ack_id != NULL)
        is_persisted = consumer->ack_persisted(consumer, ack_id);
    free(ack_id);
    ks_record_ack(record);
    return is_persisted;
}

/* ---- Batches ---- */

static void settle_batch(const ks_batch *batch, enum ks_outcome outcome, int64_t delay_ms,
                         const char *reason)
{
    struct ks_consumer *consumer = batch->consumer;
    int64_t now = ks_now();

    if (ks_consumer_is_forked(consumer))
        return;
    (void)pthread_mutex_lock(&consumer->mutex);
    /* From the end: the retry of a record takes back the later ones, which could not be retried
     * any more. */
    for (size_t i = batch->count; i > 0; i--)
        ks_engine_settle(&consumer->engine, delivery_of(batch->records[i - 1]), outcome,
                         limit(delay_ms), ks_text_clean(reason), now);
    ks_consumer_unlock(consumer);
}

void ks_batch_ack(const ks_batch *batch)
{
    settle_batch(batch, KS_OUTCOME_ACK, 0, NULL);
}

void ks_batch_retry(const ks_batch *batch, int64_t delay_ms, const char *reason)
{
    settle_batch(batch, KS_OUTCOME_RETRY, delay_ms, reason);
}
