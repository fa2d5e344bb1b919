/* SPDX-License-Identifier: Apache-2.0 */
/* The operations on consumers, and SubscribeToShard up to its first byte. */
#include "kinesis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUBSCRIBE_CALLS = 5 }; /* In a second, of a consumer. */

/* A consumer is CREATING for as long as a stream is. */
static bool is_active(const struct consumer *consumer)
{
    return now_ms >= consumer->created_ms + knobs.change_span;
}

static struct consumer *find_consumer(struct stream *stream, const char *name)
{
    for (uint32_t at = 0; stream != NULL && at < CONSUMERS_MAX; at++) {
        if (stream->consumers[at].stream != NULL && strcmp(stream->consumers[at].name, name) == 0)
            return &stream->consumers[at];
    }
    return NULL;
}

static struct consumer *find_by_arn(const char *arn)
{
    for (struct stream *stream = stream_first(); stream != NULL; stream = stream->next) {
        for (uint32_t at = 0; at < CONSUMERS_MAX; at++) {
            if (stream->consumers[at].stream != NULL && strcmp(stream->consumers[at].arn, arn) == 0)
                return &stream->consumers[at];
        }
    }
    return NULL;
}

/* By ConsumerARN, or by StreamARN and ConsumerName; NULL: refused. */
static struct consumer *in_consumer(struct call *call)
{
    const char *arn = in_text(call, "ConsumerARN");
    const char *name = in_text(call, "ConsumerName");
    struct consumer *consumer = NULL;

    if (arn != NULL) {
        consumer = find_by_arn(arn);
        if (consumer == NULL)
            fail(call, "ResourceNotFoundException",
                 "Consumer %s under account " ACCOUNT " not found.", arn);
        return consumer;
    }
    if (name == NULL || in_text(call, "StreamARN") == NULL) {
        fail(call, "InvalidArgumentException",
             "Either ConsumerARN or both StreamARN and ConsumerName should be provided.");
        return NULL;
    }
    struct stream *stream = in_stream(call);
    if (stream == NULL)
        return NULL;
    consumer = find_consumer(stream, name);
    if (consumer == NULL)
        fail(call, "ResourceNotFoundException",
             "Consumer %s under stream %s under account " ACCOUNT " not found.", name,
             stream->name);
    return consumer;
}

static void write_consumer(struct writer *out, const struct consumer *consumer)
{
    write_pair(out, "ConsumerName", consumer->name);
    write_pair(out, "ConsumerARN", consumer->arn);
    write_pair(out, "ConsumerStatus", is_active(consumer) ? "ACTIVE" : "CREATING");
    write_key(out, "ConsumerCreationTimestamp");
    write_time(out, consumer->created_ms);
}

void register_consumer(struct call *call)
{
    const char *name = in_text(call, "ConsumerName");
    struct stream *stream = in_stream(call);
    struct consumer *consumer = NULL;

    if (stream == NULL)
        return;
    if (find_consumer(stream, name) != NULL) {
        fail(call, "ResourceInUseException",
             "Consumer %s under stream %s under account " ACCOUNT " already exists.", name,
             stream->name);
        return;
    }
    for (uint32_t at = 0; at < CONSUMERS_MAX && consumer == NULL; at++) {
        if (stream->consumers[at].stream == NULL)
            consumer = &stream->consumers[at];
    }
    if (consumer == NULL) {
        fail(call, "LimitExceededException",
             "Stream %s under account " ACCOUNT " has reached its limit of %d consumers.",
             stream->name, CONSUMERS_MAX);
        return;
    }
    *consumer = (struct consumer){.stream = stream, .created_ms = now_ms};
    snprintf(consumer->name, sizeof consumer->name, "%s", name);
    snprintf(consumer->arn, sizeof consumer->arn,
             "arn:aws:kinesis:%s:" ACCOUNT ":stream/%s/consumer/%s:%lld", region, call->stream_name,
             name, (long long)(now_ms / 1000));
    write_map(&call->out);
    write_key(&call->out, "Consumer");
    write_map(&call->out);
    write_consumer(&call->out, consumer);
    write_map_end(&call->out);
    write_map_end(&call->out);
}

void deregister_consumer(struct call *call)
{
    struct consumer *consumer = in_consumer(call);

    if (consumer == NULL)
        return;
    fanout_forget_consumer(consumer);
    free(consumer->subscribed_ms);
    *consumer = (struct consumer){.stream = NULL};
}

void describe_consumer(struct call *call)
{
    const struct consumer *consumer = in_consumer(call);

    if (consumer == NULL)
        return;
    write_map(&call->out);
    write_key(&call->out, "ConsumerDescription");
    write_map(&call->out);
    write_consumer(&call->out, consumer);
    write_pair(&call->out, "StreamARN", consumer->stream->arn);
    write_map_end(&call->out);
    write_map_end(&call->out);
}

void list_consumers(struct call *call)
{
    const struct stream *stream = in_stream(call);

    if (stream == NULL)
        return;
    write_map(&call->out);
    write_key(&call->out, "Consumers");
    write_list(&call->out);
    for (uint32_t at = 0; at < CONSUMERS_MAX; at++) {
        if (stream->consumers[at].stream == NULL)
            continue;
        write_map(&call->out);
        write_consumer(&call->out, &stream->consumers[at]);
        write_map_end(&call->out);
    }
    write_list_end(&call->out);
    write_map_end(&call->out);
}

/* When the consumer subscribed to the shard with success the last time. */
static int64_t *subscribed_ms(struct consumer *consumer, const struct shard *shard)
{
    if (shard->number >= consumer->subscribed_count) {
        uint32_t count = consumer->stream->shard_count;
        consumer->subscribed_ms =
            must_grow(consumer->subscribed_ms, count * sizeof *consumer->subscribed_ms);
        for (uint32_t at = consumer->subscribed_count; at < count; at++)
            consumer->subscribed_ms[at] = INT64_MIN / 2;
        consumer->subscribed_count = count;
    }
    return &consumer->subscribed_ms[shard->number];
}

/* False: refused. */
static bool may_subscribe(struct call *call, struct consumer *consumer, const struct shard *shard)
{
    if (!is_active(consumer)) {
        fail(call, "ResourceInUseException",
             "Consumer %s with creation timestamp %lld under stream: %s , account " ACCOUNT
             " is not in ACTIVE status.",
             consumer->name, (long long)consumer->created_ms, consumer->stream->name);
        return false;
    }
    if (now_ms - *subscribed_ms(consumer, shard) < scaled(knobs.takeover_span)) {
        fail(call, "ResourceInUseException",
             "Another active subscription exists for this consumer: " ACCOUNT ":%s:%s:%s",
             consumer->stream->name, shard->id, consumer->name);
        return false;
    }
    if (!rate_allows(&consumer->calls, 0, SUBSCRIBE_CALLS, 0)) {
        fail(call, "LimitExceededException", "Rate exceeded for consumer %s and shard %s",
             consumer->arn, shard->id);
        return false;
    }
    return true;
}

void subscribe(struct call *call)
{
    const json_t *from = json_object_get(call->in, "StartingPosition");
    struct consumer *consumer = in_consumer(call);
    uint64_t number = 0;

    if (consumer == NULL)
        return;
    struct shard *shard = in_shard(call, consumer->stream);
    if (shard == NULL ||
        !position_of(call, shard, from, json_string_value(json_object_get(from, "Type")),
                     json_string_value(json_object_get(from, "SequenceNumber")), &number) ||
        !may_subscribe(call, consumer, shard))
        return;
    *subscribed_ms(consumer, shard) = now_ms;
    fanout_begin(call, consumer, shard, number);
}
