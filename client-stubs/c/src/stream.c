/* SPDX-License-Identifier: Apache-2.0 */
#include "stream.h"

#include <string.h>

#include "event.h"

static size_t take_bytes(char *data, size_t one, size_t size, void *context);

bool ks_stream_init(struct ks_stream *stream, struct ks_consumer *consumer)
{
    *stream = (struct ks_stream){.consumer = consumer};
    ks_link_init(&stream->arrived);
    if (!ks_http_init(&stream->http, &consumer->options, 0))
        return false;
    (void)curl_easy_setopt(stream->http.easy, CURLOPT_WRITEFUNCTION, take_bytes);
    (void)curl_easy_setopt(stream->http.easy, CURLOPT_WRITEDATA, stream);
    return true;
}

static void drop_arrived(struct ks_stream *stream)
{
    struct ks_link *link;

    while ((link = ks_list_take(&stream->arrived)) != NULL)
        ks_delivery_release(KS_LIST_ENTRY(link, struct ks_delivery, owner));
}

void ks_stream_free(struct ks_stream *stream)
{
    drop_arrived(stream);
    ks_reader_reset(&stream->reader);
    ks_http_free(&stream->http);
}

bool ks_stream_begin(struct ks_stream *stream)
{
    ks_reader_reset(&stream->reader);
    stream->broken = NULL;
    stream->is_session_open = false;
    stream->heard_at = ks_now();
    return ks_http_set_stream(&stream->http);
}

void ks_stream_enter(struct ks_stream *stream)
{
    if (ks_list_is_empty(&stream->arrived) ||
        ks_consumer_arrive(stream->consumer, &stream->arrived))
        return;
    drop_arrived(stream);
    stream->broken = "out of memory";
}

void ks_stream_report(const struct ks_stream *stream, const ks_event *event)
{
    const ks_consumer_options *given = &stream->consumer->options.given;

    if (given->on_event != NULL)
        given->on_event(event, given->event_context);
}

static void take_barrier(struct ks_stream *stream, const struct ks_field *field)
{
    struct ks_consumer *consumer = stream->consumer;
    uint64_t barrier;

    if (!ks_event_read_barrier(field, &barrier)) {
        stream->broken = "a barrier is malformed";
        return;
    }
    (void)pthread_mutex_lock(&consumer->mutex);
    ks_engine_barrier(&consumer->engine, barrier);
    (void)pthread_cond_broadcast(&consumer->changed);
    (void)pthread_mutex_unlock(&consumer->mutex);
}

static bool is_taken_over(const ks_event *event)
{
    return strcmp(event->type, "ended") == 0 && strcmp(event->reason, "taken_over") == 0;
}

static void change_engine(struct ks_engine *engine, const ks_event *event)
{
    if (strcmp(event->type, "session") == 0)
        ks_engine_opened(engine, event, ks_now());
    else if (strcmp(event->type, "lease_lost") == 0)
        ks_engine_lease_lost(engine, event->shard_id);
    else if (is_taken_over(event))
        engine->is_session_open = false;
}

static void take_event(struct ks_stream *stream, struct ks_delivery *frame,
                       const struct ks_field *field)
{
    struct ks_consumer *consumer = stream->consumer;
    ks_event event;

    if (!ks_event_read(frame, field, &event)) {
        stream->broken = "an event is malformed";
        return;
    }
    stream->is_session_open = stream->is_session_open || field->number == KS_EVENT_SESSION;
    (void)pthread_mutex_lock(&consumer->mutex);
    change_engine(&consumer->engine, &event);
    (void)pthread_cond_broadcast(&consumer->changed);
    (void)pthread_mutex_unlock(&consumer->mutex);
    ks_stream_report(stream, &event);
    if (is_taken_over(&event)) {
        ks_client_error error =
            ks_client_error_new(KS_CLIENT_TAKEN_OVER, "another process uses the client_id %s",
                                consumer->options.client_id);
        ks_consumer_fail(consumer, &error);
        stream->broken = "taken over";
    }
}

/* Takes over a frame. */
static void take_frame(struct ks_stream *stream, struct ks_delivery *frame)
{
    struct ks_field field;

    if (!ks_event_find(frame, &field)) {
        stream->broken = "a message is malformed";
    } else if (field.number != KS_EVENT_RECORD) {
        ks_stream_enter(stream);
        if (field.number == KS_EVENT_BARRIER)
            take_barrier(stream, &field);
        else
            take_event(stream, frame, &field);
    } else if (!ks_delivery_read(frame, &field)) {
        stream->broken = "a record is malformed";
    } else {
        ks_list_append(&stream->arrived, &frame->owner);
        return;
    }
    ks_delivery_release(frame);
}

static void take_frames(struct ks_stream *stream, const uint8_t *data, const uint8_t *end)
{
    while (stream->broken == NULL) {
        struct ks_delivery *frame = NULL;
        switch (ks_reader_next(&stream->reader, &data, end, &frame)) {
        case KS_READ_FRAME: take_frame(stream, frame); break;
        case KS_READ_MORE: return;
        case KS_READ_TOO_LARGE: stream->broken = "a message has more than 32 MiB"; break;
        case KS_READ_NO_MEMORY: stream->broken = "out of memory"; break;
        }
    }
}

/* A function for CURLOPT_WRITEFUNCTION. */
static size_t take_bytes(char *data, size_t one, size_t size, void *context)
{
    struct ks_stream *stream = context;

    stream->heard_at = ks_now();
    if (ks_http_status(&stream->http) != 200)
        return ks_http_take(data, one, size, &stream->http);
    take_frames(stream, (const uint8_t *)data, (const uint8_t *)data + size);
    return stream->broken == NULL ? size : 0;
}
