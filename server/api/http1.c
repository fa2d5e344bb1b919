/* SPDX-License-Identifier: Apache-2.0 */
#include "api/http1.h"

#include <assert.h>
#include <microhttpd.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/chunks.h"
#include "api/doors.h"
#include "api/head.h"
#include "api/linger.h"
#include "api/message.h"
#include "api/refusal.h"
#include "api/routes.h"
#include "api/server.h"
#include "base/budget.h"
#include "base/log.h"

/* One connection. */
struct wire {
    struct ks_watch watch; /* Tells when the peer is gone: a suspended connection does not. */
    struct ks_timer timer; /* Of the next whole head, or of the body. */
    struct ks_link link;
    struct ks_http1 *http1;
    struct MHD_Connection *connection; /* NULL until the daemon knows it. */
    struct call *call;                 /* The request that is under way, or NULL. */
    bool unread;                       /* A body was refused, its sender may not have noticed. */
    bool refused;                      /* The answer was sent past the daemon; no other follows. */
    bool ended;                        /* The peer has closed its side: what was sent is all. */
    bool ops;
    enum ks_peer peer;
};

enum step { STEP_HEAD, STEP_BODY, STEP_HANDLER, STEP_ANSWER };

/* One request on it. */
struct call {
    struct ks_exchange exchange;
    struct wire *wire;
    struct ks_link ready; /* In http1->ready, while its producer or its socket may have more. */
    struct ks_chunks chunks;
    enum ks_flow flow;
    bool flowing; /* The head of a streamed answer is in the socket, the body follows. */
    char *target;
    const char *target_end; /* Where the request line's target ends in the daemon's buffer. */
    enum step step;
    bool suspended;
    bool gone;      /* The client has left. */
    bool too_large; /* A body of chunks passed the limit; the rest is swallowed. */
    bool no_memory;
    uint64_t received;
    size_t unread;  /* Bytes of the parts that the handler has not given back. */
    size_t charged; /* Of api->bodies_bytes. */
};

struct ks_http1 {
    struct ks_api *api;
    struct ks_loop *loop;
    struct MHD_Daemon *daemon;
    struct ks_watch watch; /* The daemon's epoll descriptor. */
    struct ks_hook hook;
    struct ks_timer kick;
    struct ks_link wires;
    struct ks_link ready; /* Calls whose producer or socket may have more. */
    struct ks_lingers lingers;
    struct wire *taking; /* The connection that is being given to the daemon. */
    ks_instant due;      /* The daemon's own next deadline. */
    uint32_t calls;
    bool closing;
    bool pending; /* The daemon has something to do. */
};

/* ---- The daemon's turn ---- */

/* Has the hook run at the end of this turn, or of the next one if it has run already. */
static void turn_soon(struct ks_http1 *http1)
{
    ks_loop_timer_set(http1->loop, &http1->kick, ks_loop_now(http1->loop));
}

/* Likewise the daemon. */
static void run_soon(struct ks_http1 *http1)
{
    http1->pending = true;
    turn_soon(http1);
}

/* The call is looked at in this turn, or in the next. */
static void pump_soon(struct call *call)
{
    if (ks_list_empty(&call->ready))
        ks_list_append(&call->wire->http1->ready, &call->ready);
    turn_soon(call->wire->http1);
}

static void kicked(struct ks_timer *timer)
{
    /* It was only there to end the wait of the loop. */
    (void)timer;
}

static void daemon_ready(struct ks_watch *watch, uint32_t events)
{
    (void)events;
    KS_LIST_ENTRY(watch, struct ks_http1, watch)->pending = true;
}

/* ---- Calls ---- */

static struct call *call_of(struct ks_exchange *exchange)
{
    return (struct call *)(void *)((char *)exchange - offsetof(struct call, exchange));
}

static void suspend(struct call *call)
{
    assert(!call->suspended);
    call->suspended = true;
    MHD_suspend_connection(call->wire->connection);
}

static void resume(struct call *call)
{
    if (!call->suspended)
        return;
    call->suspended = false;
    MHD_resume_connection(call->wire->connection);
    run_soon(call->wire->http1);
}

static void wake(struct ks_exchange *exchange)
{
    struct call *call = call_of(exchange);

    /* An answer waits for the end of the request; parts that nobody wants any more wait for nothing. */
    if (call->step == STEP_BODY && exchange->body_part != NULL)
        return;
    if (!call->flowing)
        resume(call);
    else if (!ks_chunks_waiting(&call->chunks))
        pump_soon(call);
}

/* Counts what the call holds of its body. False if all of them hold too much. */
static bool charge(struct call *call)
{
    struct ks_api *api = call->exchange.api;
    size_t held = call->unread + call->exchange.request.body.capacity;

    assert(api->bodies_bytes >= call->charged);
    api->bodies_bytes += held - call->charged;
    call->charged = held;
    return api->bodies_bytes <= KS_BODIES_BYTES_MAX;
}

static void consumed(struct ks_exchange *exchange, size_t size)
{
    struct call *call = call_of(exchange);

    assert(call->unread >= size);
    call->unread -= size;
    (void)charge(call);
    if (call->step == STEP_BODY && call->unread < KS_BODY_WINDOW)
        resume(call);
}

static const struct ks_transport transport = {.wake = wake, .consumed = consumed};

/* libmicrohttpd 0.9.75 makes a record of each parameter. Where its pool is too small for them it neither answers nor
 * closes, and forgets to complete the request. */
static void judge_target(struct wire *wire, ks_view target)
{
    struct ks_loop *loop = wire->http1->loop;
    const char *why = ks_head_target_refusal(target);

    if (why == NULL)
        return;
    ks_refuse(wire->watch.fd, KS_PROBLEM_HEAD_TOO_LARGE, why);
    wire->refused = wire->unread = true;
    ks_loop_timer_set(loop, &wire->timer, ks_loop_now(loop));
}

/* The request line was read: the first that is known of a request. Its result is what the other callbacks are given. */
static void *call_new(void *arg, const char *target, struct MHD_Connection *connection)
{
    struct ks_http1 *http1 = arg;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct wire *wire = info == NULL ? NULL : info->socket_context;
    struct call *call = ks_alloc(sizeof(*call));

    assert(wire != NULL);
    assert(wire->call == NULL);
    if (call == NULL)
        return NULL;
    ks_exchange_init(&call->exchange, http1->api, &transport);
    call->wire = wire;
    ks_link_init(&call->ready);
    call->target_end = target + strlen(target);
    call->target = ks_strdup(target);
    if (call->target == NULL) {
        ks_exchange_end(&call->exchange);
        ks_free(call);
        return NULL;
    }
    call->exchange.request.target = ks_view_text(call->target);
    call->exchange.request.ops = wire->ops;
    call->exchange.request.peer = wire->peer;
    wire->call = call;
    http1->calls++;
    judge_target(wire, call->exchange.request.target);
    return call;
}

static void call_free(struct call *call)
{
    struct ks_http1 *http1 = call->wire->http1;

    assert(http1->calls > 0);
    assert(http1->api->bodies_bytes >= call->charged);
    http1->calls--;
    http1->api->bodies_bytes -= call->charged;
    call->wire->call = NULL;
    ks_list_remove(&call->ready);
    ks_chunks_free(&call->chunks);
    ks_exchange_end(&call->exchange);
    ks_free(call->target);
    ks_free(call);
}

static void set_deadline(struct wire *wire, int64_t wait_ms)
{
    struct ks_loop *loop = wire->http1->loop;

    if (wire->ended && wait_ms > KS_ENDED_WAIT_MS)
        wait_ms = KS_ENDED_WAIT_MS;
    ks_loop_timer_set(loop, &wire->timer, ks_instant_add(ks_loop_now(loop), ks_span_ms(wait_ms)));
}

/* The answer is out, or never will be. */
static void completed(void *arg, struct MHD_Connection *connection, void **context,
                      enum MHD_RequestTerminationCode why)
{
    struct call *call = *context;

    (void)arg;
    (void)connection;
    (void)why;
    if (call == NULL)
        return;
    *context = NULL;
    set_deadline(call->wire, KS_IDLE_WAIT_MS);
    call_free(call);
}

/* ---- Answers ---- */

/* The connection can't go on; the daemon owns the socket, and finds it closed. */
static void cut(struct call *call)
{
    (void)shutdown(call->wire->watch.fd, SHUT_RDWR);
    call->gone = true;
    resume(call);
}

/* Waits for room in the socket, but not for ever; or does not any more. */
static void await_room(struct call *call, bool wait)
{
    struct wire *wire = call->wire;
    uint32_t events = EPOLLRDHUP | EPOLLET | (wait ? (uint32_t)EPOLLOUT : 0);

    if (!wait)
        ks_loop_timer_clear(wire->http1->loop, &wire->timer);
    if (!ks_ok(ks_loop_watch(wire->http1->loop, &wire->watch, events)))
        cut(call);
}

/* Writes the body while there is some, and the socket takes it. */
static void pump(struct call *call)
{
    size_t waited = call->chunks.rest.size;
    size_t waits;

    if (call->gone || call->flow >= KS_FLOW_END)
        return;
    call->flow = ks_chunks_pump(&call->chunks, &call->exchange);
    waits = call->chunks.rest.size;
    if ((waited > 0) != (waits > 0))
        await_room(call, waits > 0);
    if (waits > 0 && waits != waited)
        set_deadline(call->wire, KS_STALL_MS);
    switch (call->flow) {
    case KS_FLOW_WAIT: break;
    case KS_FLOW_MORE: pump_soon(call); break;
    case KS_FLOW_CUT: cut(call); break;
    case KS_FLOW_END:
    case KS_FLOW_ABORT: resume(call); break;
    }
}

/* The daemon asks for the body: what it had is in the socket. It gets none of it, only the end. */
static ssize_t fill(void *arg, uint64_t position, char *buffer, size_t room)
{
    struct call *call = arg;

    (void)position;
    (void)buffer;
    (void)room;
    if (!call->flowing && !call->gone) {
        call->flowing = true;
        pump(call);
    }
    if (call->gone || call->flow == KS_FLOW_ABORT)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    if (call->flow == KS_FLOW_END)
        return MHD_CONTENT_READER_END_OF_STREAM;
    suspend(call);
    return 0;
}

static struct MHD_Response *make_response(struct call *call)
{
    struct ks_answer *answer = &call->exchange.answer;

    /* The daemon reports the end of an answer some time after its last byte is in the socket. */
    if (answer->fill == NULL && answer->body.size > 0 && call->exchange.sent != NULL)
        ks_exchange_pour(&call->exchange);
    if (answer->fill != NULL)
        return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 2 * KS_FILL_MIN, fill, call,
                                                 NULL);
    /* The body lives as long as the call, which outlives the response. */
    return MHD_create_response_from_buffer(answer->body.size, answer->body.data,
                                           MHD_RESPMEM_PERSISTENT);
}

/* The daemon wants C strings. */
static bool add_headers(struct MHD_Response *response, const struct ks_headers *headers)
{
    static char text[2][KS_ANSWER_HEAD_BYTES_MAX + 1];
    size_t at = 0;
    ks_view name;
    ks_view value;

    while (ks_headers_next(headers, &at, &name, &value))
        if (!ks_ok(ks_view_copy_text(name, text[0], sizeof(text[0]))) ||
            !ks_ok(ks_view_copy_text(value, text[1], sizeof(text[1]))) ||
            MHD_add_response_header(response, text[0], text[1]) != MHD_YES)
            return false;
    return true;
}

static enum MHD_Result queue(struct call *call)
{
    const struct ks_answer *answer = &call->exchange.answer;
    struct MHD_Response *response = make_response(call);
    enum MHD_Result result = MHD_NO;
    bool ok;

    if (response == NULL)
        return MHD_NO;
    call->step = STEP_ANSWER;
    ok = MHD_add_response_header(response, "Content-Type", answer->content_type) == MHD_YES &&
         MHD_add_response_header(response, "Cache-Control", "no-store") == MHD_YES &&
         (!answer->close || MHD_add_response_header(response, "Connection", "close") == MHD_YES) &&
         !answer->broken && add_headers(response, &answer->headers);
    if (ok)
        result = MHD_queue_response(call->wire->connection, answer->status, response);
    MHD_destroy_response(response);
    return result;
}

/* ---- The turn ---- */

static void pump_ready(struct ks_http1 *http1)
{
    struct ks_link todo;

    ks_link_init(&todo);
    while (!ks_list_empty(&http1->ready)) {
        struct ks_link *link = http1->ready.next;
        ks_list_remove(link);
        ks_list_append(&todo, link);
    }
    while (!ks_list_empty(&todo)) {
        struct call *call = KS_LIST_ENTRY(todo.next, struct call, ready);
        ks_list_remove(&call->ready);
        pump(call);
    }
}

static ks_instant turn(struct ks_hook *hook, ks_instant now)
{
    struct ks_http1 *http1 = KS_LIST_ENTRY(hook, struct ks_http1, hook);
    MHD_UNSIGNED_LONG_LONG timeout_ms;

    ks_loop_timer_clear(http1->loop, &http1->kick);
    pump_ready(http1);
    if (!http1->pending && !ks_instant_reached(now, http1->due))
        return ks_list_empty(&http1->ready) ? http1->due : now;
    http1->pending = false;
    if (MHD_run(http1->daemon) == MHD_NO)
        ks_error("http: the daemon did not run");

    http1->due = KS_NEVER;
    if (MHD_get_timeout(http1->daemon, &timeout_ms) == MHD_YES)
        http1->due = ks_instant_add(now, ks_span_ms((int64_t)timeout_ms));
    return http1->pending || !ks_list_empty(&http1->ready) ? now : http1->due;
}

/* ---- Requests ---- */

static enum MHD_Result take_line(void *head, enum MHD_ValueKind kind, const char *name,
                                 size_t name_size, const char *value, size_t value_size)
{
    struct ks_head *into = head;
    const char *colon = name + name_size;

    (void)kind;
    /* The value lies behind its colon. If a line was folded, libmicrohttpd 0.9.75 has made a longer
     * name of its rest, elsewhere. */
    if (value != NULL &&
        (value <= colon || strspn(colon + 1, " \t") != (size_t)(value - colon) - 1))
        into->malformed = true;
    ks_head_line(into, ks_view_of(name, name_size),
                 ks_view_of(value == NULL ? "" : value, value_size));
    return MHD_YES;
}

static enum MHD_Result begin(struct call *call, const char *method, const char *version)
{
    struct ks_exchange *exchange = &call->exchange;
    bool old = strcmp(version, "HTTP/1.0") == 0;
    struct ks_head head = {.headers = &exchange->request.headers,
                           .http = 1,
                           .host_may_be_absent = old,
                           .whole = version == call->target_end + 1};

    exchange->request.method = ks_method_parse(method);
    ks_chunks_init(&call->chunks, call->wire->watch.fd, old);
    ks_loop_timer_clear(call->wire->http1->loop, &call->wire->timer);
    (void)MHD_get_connection_values_n(call->wire->connection, MHD_HEADER_KIND, take_line, &head);
    if (ks_head_judge(&head, exchange))
        ks_exchange_begin(exchange);
    if (exchange->answered && exchange->answer.close) {
        call->wire->unread = true;
        return queue(call);
    }

    /* An answer that is known already waits for the end of the body, so that the connection lives on. */
    call->step = STEP_BODY;
    if (exchange->streamed && !exchange->answered)
        ks_exchange_run(exchange);
    if (exchange->request.has_body)
        set_deadline(call->wire, KS_BODY_WAIT_MS);
    return MHD_YES;
}

/* The sentence of a 413. */
static const char *too_large_text(const struct call *call, struct ks_detail *detail)
{
    ks_detail_set(detail, "the body may have at most %zu bytes", call->exchange.request.body.max);
    return detail->text;
}

/* Hands a part on, and stops reading when the handler has enough. False if the connection must end. */
static bool pass(struct call *call, ks_view part)
{
    call->unread += part.size;
    if (!ks_exchange_part(&call->exchange, part, false))
        call->unread = 0;
    if (!charge(call))
        return false;
    if (call->unread < KS_BODY_WINDOW) {
        set_deadline(call->wire, KS_BODY_WAIT_MS);
        return true;
    }
    /* It is not the client who is late. The daemon may have more that it has read already. */
    ks_loop_timer_clear(call->wire->http1->loop, &call->wire->timer);
    if (!call->suspended)
        suspend(call);
    return true;
}

/* Keeps a part of the body, or only counts it once it is too much. False if the connection must
 * end: libmicrohttpd takes no answer in the middle of a body, so it is given past it. */
static bool keep(struct call *call, ks_view part)
{
    struct ks_bytes *body = &call->exchange.request.body;
    struct ks_detail detail;
    ks_err err;

    if (call->exchange.streamed)
        return pass(call, part);
    call->received += part.size;
    if (call->received > body->max) {
        call->too_large = true;
        ks_bytes_free(body);
        if (call->received <= 2 * (uint64_t)body->max)
            return true;
        ks_refuse(call->wire->watch.fd, KS_PROBLEM_TOO_LARGE, too_large_text(call, &detail));
        call->wire->unread = true;
        return false;
    }
    if (call->exchange.answered)
        return true;
    err = ks_bytes_append(body, part);
    if (!charge(call) || !ks_ok(err))
        call->no_memory = true;
    return true;
}

static enum MHD_Result run(struct call *call)
{
    struct ks_exchange *exchange = &call->exchange;
    struct ks_detail detail;

    call->step = STEP_HANDLER;
    ks_loop_timer_clear(call->wire->http1->loop, &call->wire->timer);
    if (exchange->streamed)
        (void)ks_exchange_part(exchange, KS_VIEW_NONE, true);
    if (exchange->answered)
        return queue(call);
    if (exchange->streamed) {
        suspend(call);
        return MHD_YES;
    }
    if (call->too_large) {
        ks_exchange_problem(exchange, KS_PROBLEM_TOO_LARGE, "%s", too_large_text(call, &detail));
        exchange->answer.close = true;
    } else if (call->no_memory) {
        ks_exchange_problem(exchange, KS_PROBLEM_EXHAUSTED, "no memory for the body");
    } else {
        ks_exchange_run(exchange);
    }
    if (exchange->answered)
        return queue(call);
    suspend(call);
    return MHD_YES;
}

/* The daemon calls it when the head is there, for each part of the body, at its end, and after a resume. */
static enum MHD_Result work(void *arg, struct MHD_Connection *connection, const char *url,
                            const char *method, const char *version, const char *data, size_t *size,
                            void **context)
{
    struct call *call = *context;
    ks_view part = ks_view_of(data, *size);

    (void)arg;
    (void)connection;
    (void)url;
    if (call == NULL)
        return MHD_NO; /* No memory for it. */
    switch (call->step) {
    case STEP_HEAD: return call->wire->refused ? MHD_NO : begin(call, method, version);
    case STEP_BODY:
        if (call->gone)
            return MHD_NO;
        if (part.size == 0)
            return run(call);
        *size = 0;
        return keep(call, part) ? MHD_YES : MHD_NO;
    case STEP_HANDLER:
        if (call->gone)
            return MHD_NO;
        if (call->exchange.answered)
            return queue(call);
        suspend(call);
        return MHD_YES;
    case STEP_ANSWER: break;
    }
    return MHD_NO;
}

/* ---- Connections ---- */

static void wire_free(struct wire *wire)
{
    struct ks_http1 *http1 = wire->http1;
    bool ops = wire->ops;

    assert(wire->call == NULL);
    ks_loop_unwatch(http1->loop, &wire->watch);
    ks_loop_timer_clear(http1->loop, &wire->timer);
    ks_list_remove(&wire->link);
    ks_free(wire);
    ks_doors_left(http1->api->doors, ops);
}

/* The daemon is about to close the socket. */
static void wire_left(struct wire *wire)
{
    /* A request that the daemon refused before its head was whole is never completed. */
    if (wire->call != NULL)
        call_free(wire->call);
    if (wire->unread && !wire->http1->closing)
        ks_linger(&wire->http1->lingers, wire->watch.fd);
    wire_free(wire);
}

/* The daemon made a connection of a socket, or is about to close it. */
static void notified(void *arg, struct MHD_Connection *connection, void **context,
                     enum MHD_ConnectionNotificationCode what)
{
    struct ks_http1 *http1 = arg;

    if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
        wire_left(*context);
        return;
    }
    assert(http1->taking != NULL);
    http1->taking->connection = connection;
    *context = http1->taking;
}

static void peer_moved(struct ks_watch *watch, uint32_t events)
{
    struct wire *wire = KS_LIST_ENTRY(watch, struct wire, watch);

    if ((events & EPOLLOUT) != 0 && wire->call != NULL && wire->call->flowing)
        pump_soon(wire->call);
    if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) == 0)
        return;
    /* libmicrohttpd 0.9.75 misses an end that comes together with data. */
    wire->ended = true;
    if (wire->call == NULL || wire->call->step <= STEP_BODY)
        set_deadline(wire, KS_ENDED_WAIT_MS);
    if (wire->call == NULL)
        return;
    /* Whoever sent a request and closed its side still gets an answer that needs no waiting. */
    if (wire->call->step != STEP_HANDLER &&
        (wire->call->exchange.answer.fill == NULL || wire->call->exchange.answer.body.size > 0))
        return;
    wire->call->gone = true;
    resume(wire->call);
}

static void wire_late(struct ks_timer *timer)
{
    struct wire *wire = KS_LIST_ENTRY(timer, struct wire, timer);

    if (wire->call != NULL)
        cut(wire->call);
    else
        (void)shutdown(wire->watch.fd, SHUT_RDWR);
}

void ks_http1_take(struct ks_http1 *http1, const struct ks_wire_config *config)
{
    struct wire *wire = ks_alloc(sizeof(*wire));

    if (wire == NULL) {
        (void)close(config->fd);
        ks_doors_left(http1->api->doors, config->ops);
        return;
    }
    wire->http1 = http1;
    wire->ops = config->ops;
    wire->peer = config->peer;
    wire->watch = (struct ks_watch){.ready = peer_moved, .fd = config->fd};
    wire->timer.due = wire_late;
    ks_list_append(&http1->wires, &wire->link);
    http1->taking = wire;
    /* It closes the socket when it fails. */
    if (MHD_add_connection(http1->daemon, config->fd, NULL, 0) == MHD_NO) {
        http1->taking = NULL;
        ks_warn("http: a connection could not be taken");
        wire_free(wire);
        return;
    }
    http1->taking = NULL;
    ks_loop_timer_set(http1->loop, &wire->timer, config->deadline);
    if (!ks_ok(ks_loop_watch(http1->loop, &wire->watch, EPOLLRDHUP | EPOLLET)))
        wire_late(&wire->timer);
    run_soon(http1);
}

/* ---- Life ---- */

__attribute__((format(printf, 2, 0))) static void logged(void *arg, const char *format,
                                                         va_list args)
{
    char text[256];

    (void)arg;
    /* Its complaints are about clients, or about options that Unix sockets do not have. */
    if (ks_log_level() == KS_LOG_DEBUG && vsnprintf(text, sizeof(text), format, args) > 0)
        ks_debug("http: %.*s", (int)strcspn(text, "\n"), text);
}

/* The target is decoded by query.c; the daemon's own decoding would hide a NUL. */
static size_t unescape(void *arg, struct MHD_Connection *connection, char *text)
{
    (void)arg;
    (void)connection;
    return strlen(text);
}

static struct MHD_Daemon *start(struct ks_http1 *http1)
{
    return MHD_start_daemon(
        MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0,
        NULL, NULL, work, http1,                                     /* no port, no accept policy */
        MHD_OPTION_EXTERNAL_LOGGER, logged, NULL,                    /* first, to hear all */
        MHD_OPTION_NOTIFY_CONNECTION, notified, http1,               /* */
        MHD_OPTION_NOTIFY_COMPLETED, completed, http1,               /* */
        MHD_OPTION_URI_LOG_CALLBACK, call_new, http1,                /* */
        MHD_OPTION_UNESCAPE_CALLBACK, unescape, NULL,                /* */
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)1 << 20,              /* doors.c counts */
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)KS_STALL_MS / 1000, /* without any byte moved */
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)KS_POOL_BYTES, MHD_OPTION_END);
}

ks_err ks_http1_new(struct ks_api *api, struct ks_loop *loop, struct ks_http1 **ret_http1)
{
    struct ks_http1 *http1 = ks_alloc(sizeof(*http1));
    const union MHD_DaemonInfo *info;

    if (http1 == NULL)
        return KS_FAIL(NO_MEMORY);
    *http1 = (struct ks_http1){.api = api, .loop = loop, .due = KS_NEVER};
    http1->kick.due = kicked;
    http1->hook.turn = turn;
    http1->watch = (struct ks_watch){.ready = daemon_ready, .fd = -1};
    ks_link_init(&http1->wires);
    ks_link_init(&http1->ready);
    ks_lingers_init(&http1->lingers, loop);
    http1->daemon = start(http1);
    if (http1->daemon == NULL) {
        ks_free(http1);
        return KS_FAIL(SYSTEM);
    }
    ks_loop_hook(loop, &http1->hook);
    info = MHD_get_daemon_info(http1->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    assert(info != NULL && info->epoll_fd >= 0);
    http1->watch.fd = info->epoll_fd;
    if (!ks_ok(ks_loop_watch(loop, &http1->watch, EPOLLIN))) {
        ks_http1_free(http1);
        return KS_FAIL(SYSTEM);
    }
    *ret_http1 = http1;
    return KS_OK;
}

void ks_http1_free(struct ks_http1 *http1)
{
    struct ks_link *cursor;
    struct ks_link *after;

    if (http1 == NULL)
        return;
    http1->closing = true;
    ks_lingers_free(&http1->lingers);
    /* A daemon that stops over a suspended connection aborts the process. */
    KS_LIST_EACH(cursor, after, &http1->wires)
    {
        struct wire *wire = KS_LIST_ENTRY(cursor, struct wire, link);
        if (wire->call == NULL)
            continue;
        wire->call->gone = true;
        resume(wire->call);
    }
    (void)MHD_run(http1->daemon);
    ks_loop_unwatch(http1->loop, &http1->watch);
    ks_loop_unhook(http1->loop, &http1->hook);
    ks_loop_timer_clear(http1->loop, &http1->kick);
    MHD_stop_daemon(http1->daemon);
    assert(ks_list_empty(&http1->wires));
    ks_free(http1);
}

bool ks_http1_busy(const struct ks_http1 *http1)
{
    return http1->calls > 0;
}
