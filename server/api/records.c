/* SPDX-License-Identifier: Apache-2.0 */
#include "api/records.h"

#include <assert.h>

#include "api/codec_proto.h"
#include "api/control.h"
#include "api/delivery.h"
#include "base/json_writer.h"
#include "api/message.h"
#include "api/methods.h"
#include "api/routes.h"
#include "api/open_request.h"
#include "api/page.h"
#include "api/stream.h"
#include "base/budget.h"

enum {
    MAX_RECORDS = 100,
    MAX_BYTES = 4 << 20,
    MAX_BYTES_MAX = 64 << 20,
    WAIT_MS = 10000,
    /* Of a call, whose answer is one message: gRPC clients refuse more than 4 MiB, and it lies in memory. */
    CALL_BYTES = 3 << 20,
    CALL_BYTES_MAX = 16 << 20,
    PIECE_BYTES = 256 << 10,
    /* An answer is pulled in parts of about this size, when the socket has room for them. */
    PULL_BYTES = 256 << 10,
    IN_FLIGHT_BYTES = 64 << 20
};

/* A session that polls wait for: it has one consumer, however many wait. */
struct poller {
    struct ks_consumer consumer;
    struct ks_subscription *subscription;
    struct ks_link link;    /* In subscription->pollers. */
    struct ks_link waiting; /* Polls, the oldest first. */
    ks_session_id session;
};

enum part { PART_HEAD, PART_RECORDS, PART_TAIL, PART_END };

/* What is asked for. */
struct ask {
    uint64_t max_records;
    uint64_t max_bytes;
    uint64_t wait_ms;
    enum ks_frame_encoding encoding;
};

/* One call. */
struct poll {
    struct ks_exchange *exchange;
    struct ks_api *api;
    struct ks_subscription *subscription;
    struct poller *poller; /* While it waits. */
    struct ks_link link;
    struct ks_timer timer;
    struct ks_delivery delivery;
    struct ask ask;
    enum part part;
    bool cut;
    char session[KS_CLIENT_ID_MAX + 1];
};

/* ---- Answers ---- */

static enum ks_idle idle_of(const struct poll *poll)
{
    enum ks_idle idle;

    if (ks_switchboard_session_idle(poll->subscription->board, poll->delivery.session, NULL, &idle))
        return idle;
    /* The session itself is over. */
    return poll->subscription->quiesced ? KS_IDLE_DRAINING : KS_IDLE_FENCED;
}

static void write_idle(struct ks_writer *json, const struct poll *poll)
{
    /* In the order of enum ks_idle. */
    static const char *const words[KS_IDLES] = {"no_data",      "no_leases", "flow_controlled",
                                                "paused",       "draining",  "throttled",
                                                "lane_blocked", "fenced"};

    ks_writer_key(json, "idle_reason");
    ks_writer_string(json, words[idle_of(poll)]);
}

/* The same by call. */
static void call_idle(struct poll *poll)
{
    KinesisSidecar__V1__PullResponse response;

    kinesis_sidecar__v1__pull_response__init(&response);
    response.session = poll->session;
    response.idle_reason = ks_control_idle(idle_of(poll));
    ks_exchange_message(poll->exchange, &response.base);
}

/* Nothing came. */
static void answer_idle(struct poll *poll)
{
    struct ks_bytes body;
    struct ks_writer json;

    if (poll->exchange->rpc != NULL) {
        call_idle(poll);
        return;
    }
    ks_bytes_init(&body, 1024);
    ks_writer_begin(&json, &body);
    ks_writer_open(&json, '{');
    ks_writer_key(&json, "records");
    ks_writer_open(&json, '[');
    ks_writer_close(&json, ']');
    ks_writer_key(&json, "batch_id");
    ks_writer_string(&json, "");
    ks_writer_key(&json, "session");
    ks_writer_string(&json, poll->session);
    write_idle(&json, poll);
    ks_writer_close(&json, '}');
    ks_writer_line(&json);
    if (ks_ok(ks_writer_end(&json)))
        ks_exchange_reply(poll->exchange, 200, KS_TYPE_JSON, &body);
    else
        ks_exchange_problem(poll->exchange, KS_PROBLEM_EXHAUSTED, "out of memory");
    ks_bytes_free(&body);
}

static size_t put(uint8_t *buffer, const char *text)
{
    memcpy(buffer, text, strlen(text));
    return strlen(text);
}

/* The batch is named behind its last record: a client that settles it has read all of them. */
static size_t fill_tail(struct poll *poll, uint8_t *buffer)
{
    size_t size = put(buffer, "],\"batch_id\":\"");

    ks_delivery_name(&poll->delivery);
    size += put(buffer + size, poll->delivery.batch_id);
    size += put(buffer + size, "\",\"session\":\"");
    size += put(buffer + size, poll->session);
    return size + put(buffer + size, "\",\"idle_reason\":null}\n");
}

/* As ks_delivery_fill(). An answer with too many gaps ends. */
static size_t fill_records(struct poll *poll, uint8_t *buffer, size_t room,
                           enum ks_frame_state *ret_state)
{
    size_t size = ks_delivery_fill(&poll->delivery, buffer, room, ret_state);

    if (size > 0 || *ret_state != KS_FRAME_FULL || poll->delivery.unsent_count < KS_UNSENT_RUNS_MAX)
        return size;
    ks_delivery_return(&poll->delivery);
    *ret_state = KS_FRAME_DONE;
    return 0;
}

static struct poller *find_poller(struct ks_subscription *subscription, ks_session_id session)
{
    struct ks_link *cursor;
    struct ks_link *after;

    KS_LIST_EACH(cursor, after, &subscription->pollers)
    {
        struct poller *poller = KS_LIST_ENTRY(cursor, struct poller, link);
        if (poller->session == session)
            return poller;
    }
    return NULL;
}

/* The bytes of the next pull: more than PULL_BYTES only where the runs that a batch may still have would not be
 * enough for `left`. */
static uint64_t pull_bytes(const struct poll *poll, uint64_t left)
{
    uint64_t share = left / (KS_BATCH_RUNS_MAX - poll->delivery.run_count);
    uint64_t most = share > PULL_BYTES ? share : PULL_BYTES;

    return left < most ? left : most;
}

/* Takes more records for the answer, within its limits. False if it ends. */
static bool pull_more(struct poll *poll)
{
    const struct ks_delivery *delivery = &poll->delivery;
    uint64_t records = 0;
    uint64_t bytes = 0;
    bool found;

    for (uint32_t i = 0; i < delivery->run_count; i++) {
        records += delivery->runs[i].count;
        bytes += delivery->runs[i].bytes;
    }
    if (records >= poll->ask.max_records || bytes >= poll->ask.max_bytes ||
        delivery->run_count == KS_BATCH_RUNS_MAX)
        return false;
    /* Other polls of the session wait for the rest. */
    if (find_poller(poll->subscription, delivery->session) != NULL)
        return false;
    found = ks_delivery_pull_more(&poll->delivery, (uint32_t)(poll->ask.max_records - records),
                                  pull_bytes(poll, poll->ask.max_bytes - bytes));
    ks_switchboard_detach(poll->subscription->board, delivery->session, NULL, false);
    return found;
}

/* Writes records while there is room for them and the answer may have more. */
static size_t fill_answer(struct poll *poll, uint8_t *buffer, size_t room,
                          enum ks_frame_state *ret_state)
{
    size_t size = fill_records(poll, buffer, room, ret_state);

    while (*ret_state == KS_FRAME_DONE) {
        if (room - size < KS_FILL_MIN) {
            *ret_state = KS_FRAME_FULL;
            break;
        }
        if (!pull_more(poll))
            break;
        size += fill_records(poll, buffer + size, room - size, ret_state);
    }
    return size;
}

static size_t fill(struct ks_exchange *exchange, uint8_t *buffer, size_t room,
                   enum ks_fill *ret_fill)
{
    struct poll *poll = exchange->context;
    enum ks_frame_state state = KS_FRAME_DONE;
    size_t size = 0;
    size_t tail;

    if (poll->part == PART_END || poll->cut) {
        *ret_fill = poll->cut ? KS_FILL_ABORT : KS_FILL_END;
        return 0;
    }
    if (poll->part == PART_HEAD) {
        size = put(buffer, "{\"records\":[");
        ks_delivery_pass(&poll->delivery, size);
        poll->part = PART_RECORDS;
    }
    if (poll->part == PART_RECORDS) {
        size += fill_answer(poll, buffer + size, room - size, &state);
        poll->cut = state == KS_FRAME_CUT;
        if (state == KS_FRAME_DONE)
            poll->part = PART_TAIL;
    }
    if (poll->part == PART_TAIL && room - size >= KS_FILL_MIN / 2) {
        tail = fill_tail(poll, buffer + size);
        ks_delivery_pass(&poll->delivery, tail);
        size += tail;
        poll->part = PART_END;
    }
    *ret_fill = size > 0 ? KS_FILL_MORE : KS_FILL_ABORT;
    return size;
}

/* ---- Answers of calls ---- */

/* The members of the message beside the records; in protobuf they may come in any order. */
static ks_err write_tail(struct poll *poll, struct ks_bytes *body)
{
    KinesisSidecar__V1__PullResponse response;

    ks_delivery_name(&poll->delivery);
    if (ks_rpc_is_json(poll->exchange))
        return ks_bytes_format(body, "],\"batchId\":\"%s\",\"session\":\"%s\"}",
                               poll->delivery.batch_id, poll->session);
    kinesis_sidecar__v1__pull_response__init(&response);
    response.batch_id = ks_pb_text(poll->delivery.batch_id);
    response.session = ks_pb_text(poll->session);
    return ks_proto_write(&response.base, false, body);
}

static ks_err write_records(struct poll *poll, struct ks_bytes *body)
{
    enum ks_frame_state state = KS_FRAME_FULL;

    while (state == KS_FRAME_FULL) {
        KS_TRY(ks_bytes_reserve(body, PIECE_BYTES));
        body->size += fill_records(poll, body->data + body->size, PIECE_BYTES, &state);
    }
    return state == KS_FRAME_DONE ? KS_OK : KS_FAIL(EXPIRED);
}

/* All records in one message, whose size stands before it. */
static void answer_call(struct poll *poll)
{
    struct ks_bytes body;
    ks_err err;

    ks_bytes_init(&body, KS_ANSWER_BYTES_MAX);
    err = ks_rpc_begin_message(&body);
    if (ks_ok(err) && ks_rpc_is_json(poll->exchange))
        err = ks_bytes_append(&body, KS_VIEW("{\"records\":["));
    if (ks_ok(err))
        err = write_records(poll, &body);
    if (ks_ok(err))
        err = write_tail(poll, &body);
    if (ks_ok(err))
        ks_rpc_written_message(poll->exchange, &body);
    else
        ks_exchange_problem(poll->exchange,
                            ks_err_is(err, KS_ERR_EXPIRED) ? KS_PROBLEM_LEASE_LOST
                                                           : KS_PROBLEM_EXHAUSTED,
                            "the records: %s", ks_err_text(err));
    ks_bytes_free(&body);
}

/* Takes records and answers with them. False if there are none. */
static bool answer_records(struct poll *poll)
{
    /* The size of a call's message is sent before it: all of it is pulled. */
    uint64_t bytes =
        poll->exchange->rpc != NULL ? poll->ask.max_bytes : pull_bytes(poll, poll->ask.max_bytes);

    if (!ks_delivery_pull(&poll->delivery, (uint32_t)poll->ask.max_records, bytes,
                          KS_BATCH_RUNS_MAX))
        return false;
    if (poll->exchange->rpc != NULL) {
        answer_call(poll);
        return true;
    }
    ks_exchange_stream(poll->exchange, KS_TYPE_JSON, fill);
    return true;
}

/* ---- Waiting ---- */

static void poller_free(struct poller *poller)
{
    assert(ks_list_empty(&poller->waiting));
    ks_list_remove(&poller->link);
    ks_free(poller);
}

static void stop_waiting(struct poll *poll)
{
    ks_loop_timer_clear(poll->api->loop, &poll->timer);
    ks_list_remove(&poll->link);
    poll->poller = NULL;
}

/* The last one has been answered, or has left. */
static void poller_rest(struct poller *poller)
{
    if (!ks_list_empty(&poller->waiting))
        return;
    ks_switchboard_detach(poller->subscription->board, poller->session, &poller->consumer, false);
    poller_free(poller);
}

static struct poll *first_of(struct poller *poller)
{
    return KS_LIST_ENTRY(poller->waiting.next, struct poll, link);
}

static void consumer_wake(struct ks_consumer *consumer)
{
    struct poller *poller = KS_LIST_ENTRY(consumer, struct poller, consumer);

    while (!ks_list_empty(&poller->waiting)) {
        struct poll *poll = first_of(poller);
        if (!answer_records(poll))
            return;
        stop_waiting(poll);
        ks_exchange_wake(poll->exchange);
    }
    poller_rest(poller);
}

static void answer_all(struct poller *poller)
{
    while (!ks_list_empty(&poller->waiting)) {
        struct poll *poll = first_of(poller);
        stop_waiting(poll);
        answer_idle(poll);
        ks_exchange_wake(poll->exchange);
    }
}

static void consumer_ended(struct ks_consumer *consumer, enum ks_session_end why)
{
    struct poller *poller = KS_LIST_ENTRY(consumer, struct poller, consumer);

    (void)why;
    answer_all(poller);
    poller_free(poller);
}

static void consumer_returning(struct ks_consumer *consumer, const char *shard, ks_wall deadline)
{
    struct poller *poller = KS_LIST_ENTRY(consumer, struct poller, consumer);

    /* Of one shard a poll has no place to say it. Of all: nothing more comes, and idle_reason says
     * so. */
    (void)deadline;
    if (shard != NULL)
        return;
    answer_all(poller);
    poller_rest(poller);
}

static void wait_over(struct ks_timer *timer)
{
    struct poll *poll = KS_LIST_ENTRY(timer, struct poll, timer);
    struct poller *poller = poll->poller;

    stop_waiting(poll);
    answer_idle(poll);
    ks_exchange_wake(poll->exchange);
    poller_rest(poller);
}

static struct poller *poller_of(struct ks_subscription *subscription, ks_session_id session)
{
    struct poller *poller = find_poller(subscription, session);

    if (poller != NULL)
        return poller;
    poller = ks_alloc(sizeof(*poller));
    if (poller == NULL)
        return NULL;
    poller->subscription = subscription;
    poller->session = session;
    poller->consumer = (struct ks_consumer){
        .wake = consumer_wake, .ended = consumer_ended, .returning = consumer_returning};
    ks_link_init(&poller->waiting);
    ks_list_append(&subscription->pollers, &poller->link);
    ks_switchboard_attach(subscription->board, session, &poller->consumer);
    return poller;
}

static void begin_waiting(struct poll *poll, int64_t wait_ms)
{
    struct poller *poller = poller_of(poll->subscription, poll->delivery.session);

    if (poller == NULL) {
        ks_exchange_problem(poll->exchange, KS_PROBLEM_EXHAUSTED, "out of memory");
        return;
    }
    poll->poller = poller;
    poll->timer.due = wait_over;
    ks_list_append(&poller->waiting, &poll->link);
    ks_loop_timer_set(poll->api->loop, &poll->timer,
                      ks_instant_add(ks_loop_now(poll->api->loop), ks_span_ms(wait_ms)));
}

void ks_records_session_closed(struct ks_subscription *subscription, ks_session_id session)
{
    struct poller *poller = find_poller(subscription, session);

    if (poller == NULL)
        return;
    answer_all(poller);
    poller_rest(poller);
}

/* ---- Calls ---- */

static void sent(struct ks_exchange *exchange, size_t size)
{
    ks_delivery_sent(&((struct poll *)exchange->context)->delivery, size);
}

static bool may_send(struct ks_exchange *exchange)
{
    return ks_delivery_may_send(&((struct poll *)exchange->context)->delivery);
}

static void closed(struct ks_exchange *exchange)
{
    struct poll *poll = exchange->context;
    struct poller *poller = poll->poller;

    if (poller != NULL) {
        stop_waiting(poll);
        poller_rest(poller);
    }
    ks_delivery_end(&poll->delivery);
    ks_free(poll);
}

static bool open_session(struct ks_exchange *exchange, const struct ks_session_request *request,
                         ks_session_id *ret_session)
{
    struct ks_subscription *subscription = exchange->subscription;
    struct ks_detail detail = {.text = ""};
    ks_err err = KS_FAIL(BUSY);

    if (subscription->quiesced)
        ks_detail_set(&detail, "draining: no new sessions");
    else
        err = ks_switchboard_open(subscription->board, request, NULL, ret_session, &detail);
    if (!ks_ok(err))
        ks_api_refuse(exchange, err, &detail);
    return ks_ok(err);
}

/* Of a session that is made by its first poll: with the usual limits. */
static struct ks_session_request usual_request(ks_view name)
{
    return (struct ks_session_request){
        .client_id = name,
        .pulls = true,
        .max_in_flight = KS_PULL_RECORDS_MAX,
        .max_in_flight_bytes = IN_FLIGHT_BYTES,
        .ack_deadline = ks_span_ms(60000),
        .grace = ks_span_ms(KS_GRACE_MS),
        .linger = ks_span_ms(KS_LINGER_MS),
        .ordering = KS_ORDER_ANY,
    };
}

/* The session that polls under the name of the request; made by its first use. */
static bool find_session(struct ks_exchange *exchange, const struct ks_session_request *request,
                         ks_session_id *ret_session)
{
    struct ks_switchboard *board = exchange->subscription->board;
    struct ks_session_status status;

    if (!ks_switchboard_find_session(board, request->client_id, ret_session) ||
        !ks_switchboard_session(board, *ret_session, &status))
        return open_session(exchange, request, ret_session);
    if (!status.session.pulls) {
        ks_exchange_problem(exchange, KS_PROBLEM_FAILED_PRECONDITION,
                            "session %s is an open stream; poll under another name",
                            status.client_id);
        return false;
    }
    if (request->share != 0 && (status.session.share != request->share ||
                                !ks_view_equal(ks_view_text(status.salt), request->salt))) {
        ks_exchange_problem(exchange, KS_PROBLEM_ORDERING,
                            "session %s is open with another share or salt; poll under another "
                            "name, or close it first",
                            status.client_id);
        return false;
    }
    if (request->filter.size > 0 && !ks_switchboard_filter_is(board, request->filter)) {
        ks_exchange_problem(exchange, KS_PROBLEM_ORDERING,
                            "session %s is open with another filter; close it first, or use a "
                            "subscription of its own for this filter",
                            status.client_id);
        return false;
    }
    return true;
}

static enum ks_frame_format format_of(const struct ks_exchange *exchange)
{
    if (exchange->rpc == NULL)
        return KS_FRAME_JSON;
    return ks_rpc_is_json(exchange) ? KS_FRAME_ELEMENT_JSON : KS_FRAME_ELEMENT;
}

static struct poll *poll_new(struct ks_exchange *exchange, ks_view name, ks_session_id session)
{
    struct poll *poll = ks_alloc(sizeof(*poll));

    if (poll == NULL) {
        ks_exchange_problem(exchange, KS_PROBLEM_EXHAUSTED, "out of memory");
        return NULL;
    }
    poll->exchange = exchange;
    poll->api = exchange->api;
    poll->subscription = exchange->subscription;
    ks_link_init(&poll->link);
    if (!ks_ok(ks_view_copy_text(name, poll->session, sizeof(poll->session))))
        assert(false); /* The switchboard took it as a client id. */
    ks_delivery_init(&poll->delivery, exchange->subscription, session, format_of(exchange));
    exchange->context = poll;
    exchange->closed = closed;
    exchange->sent = sent;
    exchange->may_send = may_send;
    return poll;
}

static void pull(struct ks_exchange *exchange, const struct ks_session_request *request,
                 const struct ask *ask)
{
    struct ks_subscription *subscription = exchange->subscription;
    ks_session_id session;
    struct poll *poll;

    if (!find_session(exchange, request, &session))
        return;
    poll = poll_new(exchange, request->client_id, session);
    if (poll == NULL)
        return;
    poll->ask = *ask;
    poll->delivery.framer.encoding = ask->encoding;

    if (!answer_records(poll)) {
        if (ask->wait_ms > 0 && !subscription->quiesced) {
            begin_waiting(poll, (int64_t)ask->wait_ms);
            return;
        }
        answer_idle(poll);
    }
    /* From now on it lingers, unless others wait for it. */
    if (find_poller(subscription, session) == NULL)
        ks_switchboard_detach(subscription->board, session, NULL, false);
}

void ks_serve_pull(struct ks_exchange *exchange, const ProtobufCMessage *message,
                   struct ks_arena *arena)
{
    const KinesisSidecar__V1__PullRequest *request =
        (const KinesisSidecar__V1__PullRequest *)message;
    const struct ks_session_request usual = usual_request(
        request->session[0] == '\0' ? KS_VIEW(KS_DEFAULT_SESSION) : ks_view_text(request->session));
    struct ask ask = {.wait_ms = WAIT_MS};

    (void)arena;
    if (!ks_message_number(exchange, "max_records", request->max_records, 1, KS_PULL_RECORDS_MAX,
                           MAX_RECORDS, &ask.max_records) ||
        !ks_message_number(exchange, "max_bytes", request->max_bytes, 1, CALL_BYTES_MAX, CALL_BYTES,
                           &ask.max_bytes))
        return;
    if (request->wait_case == KINESIS_SIDECAR__V1__PULL_REQUEST__WAIT_WAIT_MS &&
        !ks_message_number(exchange, "wait_ms", (uint64_t)request->wait_ms, 0, KS_WAIT_MS_MAX, 0,
                           &ask.wait_ms))
        return;
    pull(exchange, &usual, &ask);
}

void ks_handle_records(struct ks_exchange *exchange)
{
    struct ks_session_request request = usual_request(KS_VIEW(KS_DEFAULT_SESSION));
    struct ask ask;

    if (!ks_request_number(exchange, "max_records", 1, KS_PULL_RECORDS_MAX, MAX_RECORDS,
                           &ask.max_records) ||
        !ks_request_number(exchange, "max_bytes", 1, MAX_BYTES_MAX, MAX_BYTES, &ask.max_bytes) ||
        !ks_request_number(exchange, "wait_ms", 0, KS_WAIT_MS_MAX, WAIT_MS, &ask.wait_ms) ||
        !ks_request_encoding(exchange, &ask.encoding) || !ks_open_request_poll(exchange, &request))
        return;
    if (ks_request_param(&exchange->request, "session", &request.client_id) &&
        request.client_id.size == 0)
        ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT, "session has no name");
    else if (request.share != 0 && ks_view_equal(request.client_id, KS_VIEW(KS_DEFAULT_SESSION)))
        /* All polls without a name use one session: it would have the share as a whole. */
        ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT, "share goes with session=NAME");
    else if (request.filter.size > 0 &&
             ks_view_equal(request.client_id, KS_VIEW(KS_DEFAULT_SESSION)))
        /* Another app that polls without a name would miss what the filter excludes. */
        ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT, "filter goes with session=NAME");
    else
        pull(exchange, &request, &ask);
}

void ks_serve_grant(struct ks_exchange *exchange, const ProtobufCMessage *message,
                    struct ks_arena *arena)
{
    const KinesisSidecar__V1__GrantRequest *request =
        (const KinesisSidecar__V1__GrantRequest *)message;
    struct ks_switchboard *board = exchange->subscription->board;
    KinesisSidecar__V1__GrantResponse response;
    struct ks_session_status status;
    ks_session_id session;

    (void)arena;
    if (request->records == 0) {
        ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT,
                            "a grant is of one record or more");
        return;
    }
    if (!ks_switchboard_find_session(board, ks_view_text(request->session), &session)) {
        ks_exchange_problem(exchange, KS_PROBLEM_NOT_FOUND, "no such session");
        return;
    }
    if (!ks_switchboard_grant(board, session, request->records) ||
        !ks_switchboard_session(board, session, &status)) {
        ks_exchange_problem(exchange, KS_PROBLEM_FAILED_PRECONDITION,
                            "the session was not opened with explicit_credit");
        return;
    }
    kinesis_sidecar__v1__grant_response__init(&response);
    response.session = request->session;
    response.granted = status.session.granted;
    ks_exchange_message(exchange, &response.base);
}

void ks_serve_open_session(struct ks_exchange *exchange, const ProtobufCMessage *message,
                           struct ks_arena *arena)
{
    KinesisSidecar__V1__SessionOpened opened;
    struct ks_session_request request;
    struct ks_session_status status;
    const ks_pb_open_request *open = (const ks_pb_open_request *)message;
    ks_view ids[KS_SESSION_SHARDS_MAX];
    ks_session_id session;
    ks_span heartbeat;

    if (!ks_open_request_read(exchange, open, ids, &request, &heartbeat) ||
        ks_page_shards_wait(exchange, open->shards, open->n_shards, message, arena,
                            ks_serve_open_session))
        return;
    request.pulls = true;
    if (!open_session(exchange, &request, &session))
        return;
    kinesis_sidecar__v1__session_opened__init(&opened);
    if (ks_switchboard_session(exchange->subscription->board, session, &status)) {
        opened.session = ks_pb_text(status.client_id);
        opened.client_id = ks_pb_text(status.client_id);
    }
    opened.boot_id = exchange->api->boot_id;
    opened.max_in_flight = request.max_in_flight;
    opened.max_in_flight_bytes = request.max_in_flight_bytes;
    opened.ack_deadline_ms = ks_span_to_ms(request.ack_deadline);
    ks_exchange_message(exchange, &opened.base);
    /* It lingers until its first pull. */
    ks_switchboard_detach(exchange->subscription->board, session, NULL, false);
}
