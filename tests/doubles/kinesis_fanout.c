/* SPDX-License-Identifier: Apache-2.0 */
/* Subscriptions: an event stream that goes on for five minutes, to the end of the shard, or until another one of the
 * same consumer takes over. */
#include "kinesis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct subscription {
    struct subscription *next;
    struct call *call;
    struct consumer *consumer;
    struct shard *shard;
    uint64_t number; /* Of the next record. */
    int64_t until_ms;
    int64_t heartbeat_ms; /* An empty event is due. */
    int64_t free_ms;      /* Limited: it may send again. */
    bool silent;
};

static struct subscription *subscriptions;

/* ---- Frames ---- */

static const char json_payload[] = "application/x-amz-json-1.1";
static const char cbor_payload[] = "application/x-amz-cbor-1.1";

static void patch_u32(uint8_t *at, size_t number)
{
    at[0] = (uint8_t)(number >> 24);
    at[1] = (uint8_t)(number >> 16);
    at[2] = (uint8_t)(number >> 8);
    at[3] = (uint8_t)number;
}

static void add_header(struct bytes *to, const char *name, const char *value)
{
    const uint8_t head = (uint8_t)strlen(name);
    const uint8_t type[] = {7, (uint8_t)(strlen(value) >> 8), (uint8_t)strlen(value)};

    bytes_add(to, &head, 1);
    bytes_add(to, name, head);
    bytes_add(to, type, sizeof type);
    bytes_add(to, value, strlen(value));
}

/* What a frame is, by its :message-type: what its other headers are called. */
static const struct {
    const char *type;
    const char *name;
} messages[] = {
    {"event", ":event-type"}, {"exception", ":exception-type"}, {"error", ":error-code"}};
enum message { EVENT, EXCEPTION, ERROR };

/* Begins a frame at the end of the answer, and returns where; frame_end completes it. */
static size_t frame_begin(struct call *call, enum message message, const char *name)
{
    struct bytes *to = &call->answer;
    size_t at = bytes_size(to);

    for (int number = 0; number < 3; number++)
        bytes_u32(to, 0);
    add_header(to, messages[message].name, name);
    if (message != ERROR)
        add_header(to, ":content-type", call->out.cbor ? cbor_payload : json_payload);
    add_header(to, ":message-type", messages[message].type);
    patch_u32(bytes_front(to) + at + 4, bytes_size(to) - at - 12);
    call->out.comma = false;
    return at;
}

static void frame_end(struct call *call, size_t at, bool bad_crc)
{
    struct bytes *to = &call->answer;
    uint8_t *frame = bytes_front(to) + at;
    size_t size = bytes_size(to) - at;

    patch_u32(frame, size + 4);
    patch_u32(frame + 8, crc32_of(frame, 8));
    bytes_u32(to, crc32_of(frame, size) ^ bad_crc);
}

/* An exception, or an error, is the last word. */
static void add_refusal(struct subscription *subscription, enum message message, const char *code,
                        const char *text)
{
    struct call *call = subscription->call;
    size_t at = frame_begin(call, message, code);

    if (message == ERROR) {
        add_header(&call->answer, ":error-message", text);
        patch_u32(bytes_front(&call->answer) + at + 4, bytes_size(&call->answer) - at - 12);
    } else {
        write_map(&call->out);
        write_pair(&call->out, "message", text);
        write_map_end(&call->out);
    }
    frame_end(call, at, false);
    count_error(code);
}

static void add_event(struct subscription *subscription, bool bad_crc)
{
    struct call *call = subscription->call;
    struct shard *shard = subscription->shard;
    struct writer *out = &call->out;
    char sequence[SEQUENCE_DIGITS + 1];
    size_t at = frame_begin(call, EVENT, "SubscribeToShardEvent");

    write_map(out);
    write_key(out, "Records");
    struct read_result read =
        shard_read(shard, &subscription->number, RECORDS_MAX, EVENT_BYTES_MAX, out);
    write_key(out, "MillisBehindLatest");
    write_number(out, read.behind_ms);
    if (read.at_end)
        write_children(out, shard);
    else {
        /* What has been read: the next one comes after it. */
        if (subscription->number == 0)
            memcpy(sequence, shard->start, sizeof sequence);
        else
            shard_sequence(shard, subscription->number - 1, sequence);
        write_pair(out, "ContinuationSequenceNumber", sequence);
    }
    write_map_end(out);
    frame_end(call, at, bad_crc);
    call->ended = read.at_end;
    subscription->heartbeat_ms = now_ms + scaled(knobs.heartbeat_span);
    if (knobs.limits != 0 && knobs.read_bytes > 0)
        subscription->free_ms =
            now_ms + (int64_t)read.bytes * scaled(knobs.second_span) / knobs.read_bytes;
}

/* ---- Subscriptions ---- */

void subscription_free(struct subscription *subscription)
{
    if (subscription == NULL)
        return;
    for (struct subscription **at = &subscriptions; *at != NULL; at = &(*at)->next) {
        if (*at == subscription) {
            *at = subscription->next;
            break;
        }
    }
    counts.subscriptions_open--;
    free(subscription);
}

/* It says no more; what it has said is still sent. */
static void end(struct subscription *subscription)
{
    struct call *call = subscription->call;

    call->ended = true;
    call->subscription = NULL;
    subscription_free(subscription);
    connection_wake(call->connection);
}

void fanout_begin(struct call *call, struct consumer *consumer, struct shard *shard,
                  uint64_t number)
{
    struct subscription *subscription = must_alloc(sizeof *subscription);
    char text[512];

    for (struct subscription *old = subscriptions, *next; old != NULL; old = next) {
        next = old->next;
        if (old->consumer != consumer || old->shard != shard)
            continue;
        snprintf(text, sizeof text,
                 "Another active subscription exists for this consumer: " ACCOUNT ":%s:%s:%s",
                 shard->stream->name, shard->id, consumer->name);
        if (!old->silent)
            add_refusal(old, EXCEPTION, "ResourceInUseException", text);
        end(old);
    }
    *subscription = (struct subscription){
        .next = subscriptions,
        .call = call,
        .consumer = consumer,
        .shard = shard,
        .number = number,
        .until_ms = now_ms + scaled(knobs.subscription_span),
    };
    subscriptions = subscription;
    call->subscription = subscription;
    call->content_type = "application/vnd.amazon.eventstream";
    counts.subscriptions++;
    counts.subscriptions_open++;
    if (fault_for(call, AT_INITIAL).kind != FAULT_NONE)
        return;
    size_t at = frame_begin(call, EVENT, "initial-response");
    write_map(&call->out);
    write_map_end(&call->out);
    frame_end(call, at, false);
}

static void forget(const struct stream *stream, const struct consumer *consumer)
{
    char text[512];

    for (struct subscription *at = subscriptions, *next; at != NULL; at = next) {
        next = at->next;
        if (at->shard->stream != stream && at->consumer != consumer)
            continue;
        if (stream != NULL)
            snprintf(text, sizeof text, "Stream %s under account " ACCOUNT " not found.",
                     stream->name);
        else
            snprintf(text, sizeof text, "Consumer %s under account " ACCOUNT " not found.",
                     consumer->arn);
        if (!at->silent)
            add_refusal(at, EXCEPTION, "ResourceNotFoundException", text);
        end(at);
    }
}

void fanout_forget(const struct stream *stream)
{
    forget(stream, NULL);
}

void fanout_forget_consumer(const struct consumer *consumer)
{
    forget(NULL, consumer);
}

/* ---- Sending ---- */

/* Something is to be told. */
static bool is_due(const struct subscription *subscription)
{
    const struct shard *shard = subscription->shard;
    bool more = subscription->number < shard_count(shard) || shard->closed_ms != 0;

    return (more && now_ms >= subscription->free_ms) || now_ms >= subscription->heartbeat_ms;
}

static bool has_room(const struct subscription *subscription)
{
    const struct call *call = subscription->call;

    return bytes_size(&call->answer) + bytes_size(connection_out(call->connection)) < ANSWER_AHEAD;
}

/* Does to the stream what the fault says. */
static void spoil(struct subscription *subscription, const struct fault *fault)
{
    struct call *call = subscription->call;
    enum message message = fault->kind == FAULT_EXCEPTION ? EXCEPTION : ERROR;
    char text[512];

    switch (fault->kind) {
    case FAULT_EXCEPTION:
    case FAULT_STREAM_ERROR:
        error_text(call, fault->code, text, sizeof text);
        add_refusal(subscription, message, fault->code,
                    fault->message[0] != '\0' ? fault->message : text);
        break;
    case FAULT_CUT:
        add_event(subscription, false);
        call->answer.end -= bytes_size(&call->answer) / 2;
        call->fault.kind = FAULT_CUT;
        break;
    case FAULT_GARBAGE:
        bytes_print(&call->answer, "HTTP/1.1 500 this is no event stream\r\n\r\n");
        break;
    case FAULT_SILENCE: subscription->silent = true; return;
    case FAULT_NONE:
    case FAULT_ERROR:
    case FAULT_REFUSE:
    case FAULT_LOSE:
    case FAULT_HANG:
    case FAULT_LATE:
    case FAULT_BAD_CRC:
    case FAULT_END:
    case FAULT_NO_INITIAL: break;
    }
    end(subscription);
}

static void send_event(struct subscription *subscription)
{
    struct call *call = subscription->call;
    struct fault fault = fault_for(call, AT_EVENT);
    bool bad_crc = fault.kind == FAULT_BAD_CRC;

    if (fault.kind != FAULT_NONE && !bad_crc) {
        spoil(subscription, &fault);
        return;
    }
    add_event(subscription, bad_crc);
    if (call->ended)
        end(subscription);
    else
        connection_wake(call->connection);
}

/* When it has something to say, if nothing else happens. */
static int64_t again_of(const struct subscription *subscription)
{
    int64_t again_ms = subscription->heartbeat_ms;

    if (subscription->number < shard_count(subscription->shard))
        again_ms = subscription->free_ms;
    /* A volume goes on by itself. */
    else if (subscription->shard->stream->volume.per_second > 0)
        again_ms = now_ms + 5;
    return again_ms < subscription->until_ms ? again_ms : subscription->until_ms;
}

int64_t fanout_turn(void)
{
    int64_t again_ms = INT64_MAX;

    for (struct subscription *at = subscriptions, *next; at != NULL; at = next) {
        next = at->next;
        if (at->silent)
            continue;
        if (now_ms >= at->until_ms) {
            end(at);
            continue;
        }
        /* Who has no room is called by his socket. */
        if (!has_room(at))
            again_ms = at->until_ms < again_ms ? at->until_ms : again_ms;
        else if (is_due(at)) {
            send_event(at);
            again_ms = now_ms;
        } else if (again_of(at) < again_ms)
            again_ms = again_of(at);
    }
    return again_ms;
}
