/* SPDX-License-Identifier: Apache-2.0 */
#include "api/stream.h"

#include <assert.h>

#include "api/account.h"
#include "api/control.h"
#include "api/delivery.h"
#include "api/message.h"
#include "api/methods.h"
#include "api/open_request.h"
#include "api/page.h"
#include "api/questions.h"
#include "api/records.h"
#include "api/routes.h"
#include "base/budget.h"

/* Bytes of a frame around its data, about: how many records are worth asking for. */
enum { FRAME_BYTES = 200 };

struct stream {
    struct ks_consumer consumer;
    struct ks_listener listener;
    struct ks_timer timer; /* The next heartbeat, while there is nothing to write. */
    struct ks_link link;   /* In subscription->streams. */
    struct ks_exchange *exchange;
    struct ks_api *api;
    struct ks_subscription *subscription;
    struct ks_delivery delivery;
    struct ks_bytes control; /* Events that wait to be written. */
    size_t control_held;     /* Charged to the account. */
    ks_span heartbeat;
    ks_instant wrote_at;
    struct ks_questions questions; /* Of a stream with both ways. */
    bool over;                     /* The session is: nothing more will come. */
    bool cut; /* A record stays incomplete, its lease is lost: the connection must not end well. */
    bool unsaid; /* An event found no room: the client would miss it. */
    ks_shard shards[KS_SESSION_SHARDS_MAX];
    uint32_t shard_count; /* 0: all. */
};

/* ---- Events ---- */

static bool try_say(struct stream *stream, const ks_pb_event *event)
{
    return ks_ok(stream->exchange->rpc != NULL
                     ? ks_rpc_append(stream->exchange, &event->base, &stream->control)
                     : ks_control_write(event, stream->delivery.framer.format, &stream->control));
}

static bool charge_control(struct stream *stream)
{
    return ks_account_hold(stream->exchange->account, KS_HELD_ANSWERS, &stream->control_held,
                           stream->control.capacity);
}

static void say(struct stream *stream, const ks_pb_event *event)
{
    if (!try_say(stream, event) || !charge_control(stream))
        stream->unsaid = true;
}

static void say_session(struct stream *stream, const struct ks_session_request *request)
{
    KinesisSidecar__V1__SessionOpened opened;
    ks_pb_event event;
    struct ks_session_status status;

    kinesis_sidecar__v1__session_opened__init(&opened);
    kinesis_sidecar__v1__stream_event__init(&event);
    if (ks_switchboard_session(stream->subscription->board, stream->delivery.session, &status)) {
        opened.session = ks_pb_text(status.client_id);
        opened.client_id = ks_pb_text(status.client_id);
    }
    opened.boot_id = stream->api->boot_id;
    opened.max_in_flight = request->max_in_flight;
    opened.max_in_flight_bytes = request->max_in_flight_bytes;
    opened.ack_deadline_ms = ks_span_to_ms(request->ack_deadline);
    opened.heartbeat_ms = ks_span_to_ms(stream->heartbeat);
    event.event_case = KINESIS_SIDECAR__V1__STREAM_EVENT__EVENT_SESSION;
    event.session = &opened;
    say(stream, &event);
}

static void say_heartbeat(struct stream *stream)
{
    KinesisSidecar__V1__Heartbeat beat;
    ks_pb_event event;
    struct ks_session_status status;
    enum ks_idle idle;

    if (!ks_switchboard_session(stream->subscription->board, stream->delivery.session, &status) ||
        !ks_switchboard_session_idle(stream->subscription->board, stream->delivery.session, NULL,
                                     &idle))
        return;
    kinesis_sidecar__v1__heartbeat__init(&beat);
    kinesis_sidecar__v1__stream_event__init(&event);
    beat.in_flight = status.session.in_flight;
    beat.credit = status.session.credit;
    beat.idle_reason = ks_control_idle(idle);
    event.event_case = KINESIS_SIDECAR__V1__STREAM_EVENT__EVENT_HEARTBEAT;
    event.heartbeat = &beat;
    say(stream, &event);
}

static void say_ended(struct stream *stream, KinesisSidecar__V1__SessionEnd why)
{
    KinesisSidecar__V1__SessionEnded ended;
    ks_pb_event event;

    kinesis_sidecar__v1__session_ended__init(&ended);
    kinesis_sidecar__v1__stream_event__init(&event);
    ended.reason = why;
    event.event_case = KINESIS_SIDECAR__V1__STREAM_EVENT__EVENT_ENDED;
    event.ended = &ended;
    say(stream, &event);
    stream->over = true;
    ks_exchange_wake(stream->exchange);
}

/* An answer that names thousands of ids may find no room behind others: then it is a short one. */
static void say_answer(struct ks_exchange *exchange, const ks_pb_answer *answer)
{
    struct stream *stream = exchange->context;
    KinesisSidecar__V1__Problem told;
    ks_pb_answer short_one;
    ks_pb_event event;

    kinesis_sidecar__v1__stream_event__init(&event);
    event.event_case = KINESIS_SIDECAR__V1__STREAM_EVENT__EVENT_ANSWER;
    event.answer = (ks_pb_answer *)(uintptr_t)answer;
    if (!try_say(stream, &event)) {
        ks_problem_fill(KS_PROBLEM_EXHAUSTED,
                        "it was done, but the answer finds no room behind what is not read yet: "
                        "read, and ask again with less at once",
                        &told);
        kinesis_sidecar__v1__stream_answer__init(&short_one);
        short_one.id = answer->id;
        short_one.answer_case = KINESIS_SIDECAR__V1__STREAM_ANSWER__ANSWER_PROBLEM;
        short_one.problem = &told;
        event.answer = &short_one;
        say(stream, &event);
    }
    ks_exchange_wake(exchange);
}

static struct stream *stream_of(struct ks_consumer *consumer)
{
    return KS_LIST_ENTRY(consumer, struct stream, consumer);
}

static void consumer_wake(struct ks_consumer *consumer)
{
    ks_exchange_wake(stream_of(consumer)->exchange);
}

static void consumer_ended(struct ks_consumer *consumer, enum ks_session_end why)
{
    switch (why) {
    case KS_END_TAKEN_OVER:
        say_ended(stream_of(consumer), KINESIS_SIDECAR__V1__SESSION_END__SESSION_END_TAKEN_OVER);
        return;
    case KS_END_DRAINED:
        say_ended(stream_of(consumer), KINESIS_SIDECAR__V1__SESSION_END__SESSION_END_DRAINED);
        return;
    case KS_END_GRACE:
    case KS_END_LINGER: break;
    }
    say_ended(stream_of(consumer), KINESIS_SIDECAR__V1__SESSION_END__SESSION_END_EXPIRED);
}

static void consumer_returning(struct ks_consumer *consumer, const char *shard, ks_wall deadline)
{
    struct stream *stream = stream_of(consumer);
    KinesisSidecar__V1__Draining draining;
    KinesisSidecar__V1__LeaseReturning returning;
    ks_pb_event event;

    kinesis_sidecar__v1__stream_event__init(&event);
    if (shard == NULL) {
        kinesis_sidecar__v1__draining__init(&draining);
        draining.deadline = deadline.ms;
        event.event_case = KINESIS_SIDECAR__V1__STREAM_EVENT__EVENT_DRAINING;
        event.draining = &draining;
    } else {
        kinesis_sidecar__v1__lease_returning__init(&returning);
        returning.shard_id = ks_pb_text(shard);
        returning.deadline = deadline.ms;
        event.event_case = KINESIS_SIDECAR__V1__STREAM_EVENT__EVENT_LEASE_RETURNING;
        event.lease_returning = &returning;
    }
    say(stream, &event);
    ks_exchange_wake(stream->exchange);
}

static bool takes_shard(const struct stream *stream, ks_shard shard)
{
    for (uint32_t i = 0; i < stream->shard_count; i++)
        if (stream->shards[i] == shard)
            return true;
    return stream->shard_count == 0;
}

static void say_too_large(struct stream *stream, ks_shard shard)
{
    struct ks_too_large large;
    ks_pb_event event;

    if (!ks_control_too_large(stream->subscription->board, stream->delivery.session, shard, &large))
        return;
    kinesis_sidecar__v1__stream_event__init(&event);
    event.event_case = KINESIS_SIDECAR__V1__STREAM_EVENT__EVENT_RECORD_TOO_LARGE;
    event.record_too_large = &large.message;
    say(stream, &event);
    ks_exchange_wake(stream->exchange);
}

/* A lease ended, or a record is too large. */
static void happened(struct ks_listener *listener, ks_shard shard, const char *word,
                     const char *line)
{
    struct stream *stream = KS_LIST_ENTRY(listener, struct stream, listener);
    KinesisSidecar__V1__LeaseLost lost;
    ks_pb_event event;

    (void)line;
    if (word == NULL || stream->over || !takes_shard(stream, shard))
        return;
    if (strcmp(word, "record_too_large") == 0)
        say_too_large(stream, shard);
    if (strcmp(word, "lease_lost") != 0 && strcmp(word, "seek") != 0)
        return;
    kinesis_sidecar__v1__lease_lost__init(&lost);
    kinesis_sidecar__v1__stream_event__init(&event);
    lost.shard_id = ks_pb_text(ks_switchboard_shard_id(stream->subscription->board, shard));
    event.event_case = KINESIS_SIDECAR__V1__STREAM_EVENT__EVENT_LEASE_LOST;
    event.lease_lost = &lost;
    say(stream, &event);
    ks_exchange_wake(stream->exchange);
}

static ks_instant heartbeat_at(const struct stream *stream)
{
    return ks_instant_add(stream->wrote_at, stream->heartbeat);
}

static void heartbeat_due(struct ks_timer *timer)
{
    struct stream *stream = KS_LIST_ENTRY(timer, struct stream, timer);

    if (ks_instant_reached(ks_loop_now(stream->api->loop), heartbeat_at(stream)))
        say_heartbeat(stream);
    ks_exchange_wake(stream->exchange);
}

/* ---- Writing ---- */

static size_t fill_control(struct stream *stream, uint8_t *buffer, size_t room)
{
    size_t size = stream->control.size < room ? stream->control.size : room;

    if (size == 0)
        return 0;
    memcpy(buffer, stream->control.data, size);
    ks_bytes_consume(&stream->control, size);
    ks_delivery_pass(&stream->delivery, size);
    if (stream->control.size == 0 && stream->control.capacity > KS_FILL_MIN) {
        ks_bytes_free(&stream->control);
        (void)charge_control(stream);
    }
    return size;
}

/* Asks for about as much as fits. False if there is nothing. */
static bool pull(struct stream *stream, size_t room)
{
    if (stream->over)
        return false;
    return ks_delivery_pull(&stream->delivery, (uint32_t)(room / FRAME_BYTES) + 1, room * 3 / 4, 1);
}

/* Room for the next records; a message of a call is no larger than its client takes, if that is as much as any head
 * of a record needs. */
static size_t room_for(const struct stream *stream, size_t room)
{
    struct ks_session_status status;
    size_t most = KS_FILL_MIN;

    if (stream->exchange->rpc == NULL || stream->delivery.open ||
        !ks_switchboard_session(stream->subscription->board, stream->delivery.session, &status))
        return room;
    if (status.session.max_record_bytes > most)
        most = (size_t)status.session.max_record_bytes + KS_MESSAGE_EXTRA_BYTES;
    return room < most ? room : most;
}

static size_t fill_records(struct stream *stream, uint8_t *buffer, size_t room,
                           enum ks_frame_state *ret_state)
{
    if (stream->exchange->rpc == NULL)
        return ks_delivery_fill(&stream->delivery, buffer, room, ret_state);
    *ret_state = KS_FRAME_FULL;
    return room < KS_FILL_MIN ? 0
                              : ks_delivery_fill_batch(&stream->delivery, buffer, room, ret_state);
}

/* Room that is worth asking for records: what is left behind a message of a call makes a small one, and those cost
 * their clients as much as large ones. */
static size_t room_wanted(const struct stream *stream, size_t written)
{
    return stream->exchange->rpc != NULL && written > KS_FILL_MIN ? written : KS_FILL_MIN;
}

/* Writes events and records until the buffer is full or there is nothing more. */
static size_t fill_some(struct stream *stream, uint8_t *buffer, size_t room)
{
    struct ks_delivery *delivery = &stream->delivery;
    enum ks_frame_state state;
    size_t size = 0;

    while (!stream->cut) {
        /* Records that were not begun are delivered again, by another session. */
        if (stream->over && !delivery->framer.begun)
            ks_delivery_return(delivery);
        /* Events go between records. */
        if (!delivery->framer.begun)
            size += fill_control(stream, buffer + size, room - size);
        if (stream->control.size > 0 && !delivery->framer.begun)
            break;
        if (!ks_delivery_pending(delivery)) {
            if (room - size < room_wanted(stream, size) ||
                !pull(stream, room_for(stream, room - size)))
                break;
        }
        size += fill_records(stream, buffer + size, room_for(stream, room - size), &state);
        stream->cut = state == KS_FRAME_CUT;
        if (state == KS_FRAME_FULL)
            break;
    }
    return size;
}

static size_t fill(struct ks_exchange *exchange, uint8_t *buffer, size_t room,
                   enum ks_fill *ret_fill)
{
    struct stream *stream = exchange->context;
    ks_instant now = ks_loop_now(stream->api->loop);
    size_t size;

    stream->delivery.late = false;
    size = fill_some(stream, buffer, room);
    ks_loop_timer_clear(stream->api->loop, &stream->timer);
    if (size > 0) {
        stream->wrote_at = now;
        *ret_fill = KS_FILL_MORE;
        return size;
    }
    if (stream->cut || stream->unsaid) {
        *ret_fill = KS_FILL_ABORT;
        return 0;
    }
    if (stream->over) {
        *ret_fill = KS_FILL_END;
        return 0;
    }
    *ret_fill = KS_FILL_WAIT;
    ks_loop_timer_set(stream->api->loop, &stream->timer,
                      stream->delivery.late ? now : heartbeat_at(stream));
    return 0;
}

static void sent(struct ks_exchange *exchange, size_t size)
{
    struct stream *stream = exchange->context;
    bool full = stream->delivery.unsent_count == KS_UNSENT_RUNS_MAX;

    ks_delivery_sent(&stream->delivery, size);
    if (full)
        ks_exchange_wake(exchange);
}

static bool may_send(struct ks_exchange *exchange)
{
    struct stream *stream = exchange->context;

    stream->cut = stream->cut || !ks_delivery_may_send(&stream->delivery);
    return !stream->cut;
}

/* ---- Life ---- */

static void closed(struct ks_exchange *exchange)
{
    struct stream *stream = exchange->context;
    struct ks_api *api = stream->api;

    ks_loop_timer_clear(api->loop, &stream->timer);
    ks_switchboard_unlisten(stream->subscription->board, &stream->listener);
    ks_questions_free(&stream->questions);
    ks_list_remove(&stream->link);
    ks_delivery_end(&stream->delivery);
    ks_switchboard_detach(stream->subscription->board, stream->delivery.session, &stream->consumer,
                          stream->cut);
    ks_bytes_free(&stream->control);
    (void)charge_control(stream);
    ks_free(stream);
}

void ks_stream_session_closed(struct ks_subscription *subscription, ks_session_id session)
{
    struct ks_link *cursor;
    struct ks_link *after;

    KS_LIST_EACH(cursor, after, &subscription->streams)
    {
        struct stream *stream = KS_LIST_ENTRY(cursor, struct stream, link);
        if (stream->delivery.session == session && !stream->over)
            say_ended(stream, KINESIS_SIDECAR__V1__SESSION_END__SESSION_END_EXPIRED);
    }
}

static void say_barrier(struct stream *stream, const char *text)
{
    KinesisSidecar__V1__Barrier barrier;
    ks_pb_event event;

    kinesis_sidecar__v1__barrier__init(&barrier);
    kinesis_sidecar__v1__stream_event__init(&event);
    barrier.barrier = ks_pb_text(text);
    event.event_case = KINESIS_SIDECAR__V1__STREAM_EVENT__EVENT_BARRIER;
    event.barrier = &barrier;
    say(stream, &event);
    ks_exchange_wake(stream->exchange);
}

void ks_stream_barrier(struct ks_subscription *subscription, ks_session_id session,
                       uint32_t session_epoch, const char *barrier)
{
    struct ks_link *cursor;
    struct ks_link *after;

    KS_LIST_EACH(cursor, after, &subscription->streams)
    {
        struct stream *stream = KS_LIST_ENTRY(cursor, struct stream, link);
        if (stream->delivery.session == session && !stream->over &&
            stream->delivery.session_epoch == session_epoch)
            say_barrier(stream, barrier);
    }
}

static enum ks_frame_format format_of(const struct ks_exchange *exchange)
{
    if (exchange->rpc != NULL)
        return ks_rpc_is_json(exchange) ? KS_FRAME_ELEMENT_JSON : KS_FRAME_ELEMENT;
    if (ks_accepts_sse(&exchange->request))
        return KS_FRAME_SSE;
    return ks_accepts_protobuf(&exchange->request) ? KS_FRAME_PROTOBUF : KS_FRAME_NDJSON;
}

static const char *media_type_of(enum ks_frame_format format)
{
    if (format == KS_FRAME_SSE)
        return KS_TYPE_SSE;
    return format == KS_FRAME_PROTOBUF ? KS_TYPE_PROTOBUF : KS_TYPE_NDJSON;
}

/* In protobuf data is bytes. */
static bool query_encoding(struct ks_exchange *exchange, enum ks_frame_encoding *ret_encoding)
{
    if (!ks_request_encoding(exchange, ret_encoding))
        return false;
    if (*ret_encoding == KS_ENCODING_BASE64 || format_of(exchange) != KS_FRAME_PROTOBUF)
        return true;
    ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT,
                        "encoding=utf8 and json go with application/x-ndjson; in protobuf data is "
                        "bytes as they are");
    return false;
}

/* Opens the session. False if the exchange was answered with a problem. */
static bool open_session(struct stream *stream, const struct ks_session_request *request)
{
    struct ks_subscription *subscription = stream->subscription;
    struct ks_detail detail = {.text = ""};
    ks_session_id session;
    ks_err err = KS_FAIL(BUSY);

    if (subscription->quiesced)
        ks_detail_set(&detail, "draining: no new sessions");
    else
        err =
            ks_switchboard_open(subscription->board, request, &stream->consumer, &session, &detail);
    if (!ks_ok(err)) {
        ks_api_refuse(stream->exchange, err, &detail);
        return false;
    }
    for (uint32_t i = 0; i < request->shard_count; i++)
        if (ks_switchboard_find_shard(subscription->board, request->shards[i],
                                      &stream->shards[stream->shard_count]))
            stream->shard_count++;
    ks_delivery_init(&stream->delivery, subscription, session, format_of(stream->exchange));
    if (request->ordering == KS_ORDER_BY_KEY)
        stream->delivery.framer.lanes = request->lanes;
    return true;
}

void ks_serve_watch(struct ks_exchange *exchange, const ProtobufCMessage *message,
                    struct ks_arena *arena)
{
    struct ks_session_request request;
    const ks_pb_open_request *open = (const ks_pb_open_request *)message;
    ks_view ids[KS_SESSION_SHARDS_MAX];
    struct ks_api *api = exchange->api;
    struct stream *stream;
    ks_span heartbeat;

    if (!ks_open_request_read(exchange, open, ids, &request, &heartbeat) ||
        ks_page_shards_wait(exchange, open->shards, open->n_shards, message, arena, ks_serve_watch))
        return;
    stream = ks_alloc(sizeof(*stream));
    if (stream == NULL) {
        ks_exchange_problem(exchange, KS_PROBLEM_EXHAUSTED, "out of memory");
        return;
    }
    stream->consumer = (struct ks_consumer){
        .wake = consumer_wake, .ended = consumer_ended, .returning = consumer_returning};
    stream->listener.happened = happened;
    stream->timer.due = heartbeat_due;
    stream->exchange = exchange;
    stream->api = api;
    stream->subscription = exchange->subscription;
    stream->heartbeat = heartbeat;
    stream->wrote_at = ks_loop_now(api->loop);
    ks_questions_init(&stream->questions, exchange, say_answer);
    ks_bytes_init(&stream->control,
                  exchange->rpc != NULL ? KS_ANSWERS_BYTES_MAX : KS_CONTROL_BYTES_MAX);
    if (!open_session(stream, &request)) {
        ks_free(stream);
        return;
    }

    say_session(stream, &request);
    ks_list_append(&stream->subscription->streams, &stream->link);
    ks_switchboard_listen(stream->subscription->board, &stream->listener);
    exchange->context = stream;
    exchange->closed = closed;
    exchange->sent = sent;
    exchange->may_send = may_send;
    ks_exchange_stream(exchange, media_type_of(stream->delivery.framer.format), fill);
    ks_exchange_header(exchange, "X-Accel-Buffering", "no");
}

/* ---- Both ways ---- */

void ks_serve_stream(struct ks_exchange *exchange, const ProtobufCMessage *message,
                     struct ks_arena *arena)
{
    /* The first message says what is wanted. */
    (void)exchange;
    (void)message;
    (void)arena;
}

/* False if it is over: another stream may have it by now, and its end is not told yet. */
static bool own_session(const struct stream *stream, struct ks_session_status *ret_status)
{
    const struct ks_delivery *delivery = &stream->delivery;

    return !stream->over &&
           ks_switchboard_session(stream->subscription->board, delivery->session, ret_status) &&
           ret_status->session.epoch == delivery->session_epoch;
}

static void say_over(struct ks_exchange *exchange)
{
    ks_exchange_problem(exchange, KS_PROBLEM_SESSION_FENCED, "the session of this stream is over");
}

/* One of the limits of an update; 0: it stays. */
static bool read_limit(struct ks_exchange *exchange, const char *name, uint64_t value, uint64_t min,
                       uint64_t max, uint64_t *ret_value)
{
    *ret_value = 0;
    return value == 0 || ks_message_number(exchange, name, value, min, max, 0, ret_value);
}

static void serve_update(struct ks_exchange *exchange, const ProtobufCMessage *message,
                         struct ks_arena *arena)
{
    const KinesisSidecar__V1__SessionLimits *wanted =
        (const KinesisSidecar__V1__SessionLimits *)message;
    struct stream *stream = ks_question_stream(exchange)->context;
    struct ks_switchboard *board = stream->subscription->board;
    KinesisSidecar__V1__SessionLimits limits;
    struct ks_session_request request = {.client_id = KS_VIEW("")};
    struct ks_session_status status;
    uint64_t message_bytes;
    uint64_t in_flight;

    (void)arena;
    if (!own_session(stream, &status)) {
        say_over(exchange);
        return;
    }
    if (!read_limit(exchange, "max_message_bytes", wanted->max_message_bytes,
                    KS_MESSAGE_EXTRA_BYTES + 1, UINT32_MAX, &message_bytes) ||
        !read_limit(exchange, "max_in_flight", wanted->max_in_flight, 1, KS_IN_FLIGHT_MAX,
                    &in_flight) ||
        !read_limit(exchange, "max_in_flight_bytes", wanted->max_in_flight_bytes, 1,
                    KS_IN_FLIGHT_BYTES_MAX, &request.max_in_flight_bytes))
        return;
    request.max_message_bytes = (uint32_t)message_bytes;
    request.max_in_flight = (uint32_t)in_flight;
    (void)ks_switchboard_update(board, stream->delivery.session, &request);
    (void)own_session(stream, &status);
    kinesis_sidecar__v1__session_limits__init(&limits);
    limits.max_in_flight = status.session.max_in_flight;
    limits.max_in_flight_bytes = status.session.max_in_flight_bytes;
    if (status.session.max_record_bytes != UINT32_MAX)
        limits.max_message_bytes =
            (uint64_t)status.session.max_record_bytes + KS_MESSAGE_EXTRA_BYTES;
    ks_exchange_message(exchange, &limits.base);
}

/* Grant, of the stream's own session. */
static void serve_credit(struct ks_exchange *exchange, const ProtobufCMessage *message,
                         struct ks_arena *arena)
{
    KinesisSidecar__V1__GrantRequest request;
    struct ks_session_status status;

    kinesis_sidecar__v1__grant_request__init(&request);
    if (!own_session(ks_question_stream(exchange)->context, &status)) {
        say_over(exchange);
        return;
    }
    request.session = ks_pb_text(status.client_id);
    request.records = ((const KinesisSidecar__V1__StreamRequest *)message)->credit;
    ks_serve_grant(exchange, &request.base, arena);
}

static void close_session(struct stream *stream)
{
    struct ks_session_status status;

    if (!own_session(stream, &status))
        return;
    ks_switchboard_close(stream->subscription->board, stream->delivery.session);
    say_ended(stream, KINESIS_SIDECAR__V1__SESSION_END__SESSION_END_CLOSED);
}

/* The client has said all. */
static void hang_up(struct ks_exchange *exchange)
{
    struct stream *stream = exchange->context;
    struct ks_session_status status;

    if (!exchange->answered) {
        ks_exchange_problem(exchange, KS_PROBLEM_FAILED_PRECONDITION, "nothing was opened");
        return;
    }
    if (own_session(stream, &status))
        ks_switchboard_close(stream->subscription->board, stream->delivery.session);
    stream->over = true;
    ks_exchange_wake(exchange);
}

void ks_next_stream(struct ks_exchange *exchange, const ProtobufCMessage *message,
                    struct ks_arena *arena)
{
    const KinesisSidecar__V1__StreamRequest *request =
        (const KinesisSidecar__V1__StreamRequest *)message;
    struct stream *stream = exchange->context;

    if (request == NULL) {
        hang_up(exchange);
        return;
    }
    if ((request->request_case == KINESIS_SIDECAR__V1__STREAM_REQUEST__REQUEST_OPEN) ==
        exchange->answered) {
        ks_exchange_problem(exchange, KS_PROBLEM_FAILED_PRECONDITION, "open comes first, and once");
        return;
    }
    switch (request->request_case) {
    case KINESIS_SIDECAR__V1__STREAM_REQUEST__REQUEST_OPEN:
        if (ks_subscription_choose(exchange, ks_view_text(request->open->subscription)) &&
            ks_subscription_wanted(exchange))
            ks_serve_watch(exchange, &request->open->base, arena);
        return;
    case KINESIS_SIDECAR__V1__STREAM_REQUEST__REQUEST_SETTLE:
        ks_questions_begin(&stream->questions, request->id, ks_serve_settle, &request->settle->base,
                           arena);
        return;
    case KINESIS_SIDECAR__V1__STREAM_REQUEST__REQUEST_CHECKPOINT:
        ks_questions_begin(&stream->questions, request->id, ks_serve_checkpoint,
                           &request->checkpoint->base, arena);
        return;
    case KINESIS_SIDECAR__V1__STREAM_REQUEST__REQUEST_CREDIT:
        ks_questions_begin(&stream->questions, request->id, serve_credit, message, arena);
        return;
    case KINESIS_SIDECAR__V1__STREAM_REQUEST__REQUEST_UPDATE:
        ks_questions_begin(&stream->questions, request->id, serve_update, &request->update->base,
                           arena);
        return;
    case KINESIS_SIDECAR__V1__STREAM_REQUEST__REQUEST_CLOSE: close_session(stream); return;
    default: break;
    }
    ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT,
                        "a request of the stream is open, settle, checkpoint, credit, update or "
                        "close");
}

/* `shards` is a comma list. */
static bool split_shards(struct ks_exchange *exchange, struct ks_arena *arena,
                         ks_pb_open_request *request)
{
    ks_view rest = KS_VIEW_NONE;

    request->shards = ks_arena_take(arena, (KS_SESSION_SHARDS_MAX + 1) * sizeof(char *));
    (void)ks_request_param(&exchange->request, "shards", &rest);
    while (rest.data != NULL && request->shards != NULL &&
           request->n_shards <= KS_SESSION_SHARDS_MAX) {
        ks_view id = ks_view_cut(&rest, ',');
        if (id.size == 0)
            continue;
        request->shards[request->n_shards] = ks_arena_text(arena, id);
        if (request->shards[request->n_shards++] == NULL)
            return false;
    }
    return request->shards != NULL;
}

static void open_stream(struct ks_exchange *exchange, const struct ks_page *page)
{
    ks_pb_open_request request;
    ks_view client_id = KS_VIEW("");
    enum ks_frame_encoding encoding;
    struct stream *stream;
    struct ks_arena arena;

    (void)page;
    kinesis_sidecar__v1__open_request__init(&request);
    if (!query_encoding(exchange, &encoding) || !ks_open_request_query(exchange, &request))
        return;
    (void)ks_request_param(&exchange->request, "client_id", &client_id);
    ks_arena_init(&arena, 64 << 10);
    request.client_id = ks_arena_text(&arena, client_id);
    if (request.client_id == NULL || !split_shards(exchange, &arena, &request))
        ks_exchange_problem(exchange, KS_PROBLEM_EXHAUSTED, "out of memory");
    else if (ks_open_request_query_texts(exchange, &arena, &request))
        ks_serve_watch(exchange, &request.base, NULL);
    ks_arena_free(&arena);
    /* Nothing is written before the exchange is asked for it. */
    stream = exchange->context;
    if (stream != NULL)
        stream->delivery.framer.encoding = encoding;
}

/* Shards that it names may be known to other workers alone. */
void ks_handle_stream(struct ks_exchange *exchange)
{
    const struct ks_page page = {.room = 0};
    ks_view named;

    if (ks_request_param(&exchange->request, "shards", &named))
        ks_page_when_fresh(exchange, &page, open_stream);
    else
        open_stream(exchange, &page);
}
