/* SPDX-License-Identifier: Apache-2.0 */
/* A request is an exchange: its parts in, the answer out. */
#include <assert.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "api/head.h"
#include "api/http1_wire.h"
#include "api/refusal.h"
#include "api/routes.h"
#include "api/server.h"
#include "base/budget.h"

/* ---- Calls ---- */

static struct ks_http1_call *call_of(struct ks_exchange *exchange)
{
    return (struct ks_http1_call *)(void *)((char *)exchange -
                                            offsetof(struct ks_http1_call, exchange));
}

static void suspend(struct ks_http1_call *call)
{
    assert(!call->suspended);
    call->suspended = true;
    MHD_suspend_connection(call->wire->connection);
}

void ks_http1_call_resume(struct ks_http1_call *call)
{
    if (!call->suspended)
        return;
    call->suspended = false;
    MHD_resume_connection(call->wire->connection);
    ks_http1_run_soon(call->wire->http1);
}

static void wake(struct ks_exchange *exchange)
{
    struct ks_http1_call *call = call_of(exchange);

    /* An answer waits for the end of the request; parts that nobody wants any more wait for nothing. */
    if (call->step == STEP_BODY && exchange->body_part != NULL)
        return;
    if (!call->flowing)
        ks_http1_call_resume(call);
    else if (!ks_chunks_waiting(&call->chunks))
        ks_http1_pump_soon(call);
}

/* Charges what the call holds of its body. False if that is too much. */
static bool charge(struct ks_http1_call *call)
{
    size_t held = call->unread + call->exchange.request.body.capacity;

    return ks_account_hold(&call->wire->account, KS_HELD_BODIES, &call->charged, held);
}

static void charge_rest(struct ks_http1_call *call)
{
    ks_account_must_hold(&call->wire->account, KS_HELD_ANSWERS, &call->rest_held,
                         call->chunks.rest.capacity);
}

static void consumed(struct ks_exchange *exchange, size_t size)
{
    struct ks_http1_call *call = call_of(exchange);

    assert(call->unread >= size);
    call->unread -= size;
    (void)charge(call);
    if (call->step == STEP_BODY && call->unread < KS_BODY_WINDOW)
        ks_http1_call_resume(call);
}

static const struct ks_transport transport = {.wake = wake, .consumed = consumed};

/* libmicrohttpd 0.9.75 makes a record of each parameter. Where its pool is too small for them it neither answers nor
 * closes, and forgets to complete the request. */
static void judge_target(struct ks_http1_wire *wire, ks_view target)
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
void *ks_http1_call_new(void *arg, const char *target, struct MHD_Connection *connection)
{
    struct ks_http1 *http1 = arg;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct ks_http1_wire *wire = info == NULL ? NULL : info->socket_context;
    struct ks_http1_call *call = ks_alloc(sizeof(*call));

    assert(wire != NULL);
    assert(wire->call == NULL);
    if (call == NULL)
        return NULL;
    ks_exchange_init(&call->exchange, http1->api, &transport);
    call->exchange.account = &wire->account;
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
    ks_account_set_idle(&wire->account, false);
    http1->calls++;
    judge_target(wire, call->exchange.request.target);
    return call;
}

void ks_http1_call_free(struct ks_http1_call *call)
{
    struct ks_http1 *http1 = call->wire->http1;

    assert(http1->calls > 0);
    http1->calls--;
    ks_account_must_hold(&call->wire->account, KS_HELD_BODIES, &call->charged, 0);
    call->wire->call = NULL;
    ks_list_remove(&call->ready);
    ks_chunks_free(&call->chunks);
    charge_rest(call);
    ks_exchange_end(&call->exchange);
    ks_account_set_idle(&call->wire->account, true);
    ks_free(call->target);
    ks_free(call);
}

/* The answer is out, or never will be. */
void ks_http1_call_completed(void *arg, struct MHD_Connection *connection, void **context,
                             enum MHD_RequestTerminationCode why)
{
    struct ks_http1_call *call = *context;

    (void)arg;
    (void)connection;
    (void)why;
    if (call == NULL)
        return;
    *context = NULL;
    ks_http1_set_deadline(call->wire, KS_IDLE_WAIT_MS);
    ks_http1_call_free(call);
}

/* ---- Answers ---- */

/* The connection can't go on; the daemon owns the socket, and finds it closed. */
void ks_http1_call_cut(struct ks_http1_call *call)
{
    (void)shutdown(call->wire->watch.fd, SHUT_RDWR);
    call->gone = true;
    ks_http1_call_resume(call);
}

/* Waits for room in the socket, but not for ever; or does not any more. */
static void await_room(struct ks_http1_call *call, bool wait)
{
    struct ks_http1_wire *wire = call->wire;
    uint32_t events = EPOLLRDHUP | EPOLLET | (wait ? (uint32_t)EPOLLOUT : 0);

    if (!wait)
        ks_loop_timer_clear(wire->http1->loop, &wire->timer);
    if (!ks_ok(ks_loop_watch(wire->http1->loop, &wire->watch, events)))
        ks_http1_call_cut(call);
}

/* Writes the body while there is some, and the socket takes it. Returns how many bytes were made. */
size_t ks_http1_call_pump(struct ks_http1_call *call)
{
    size_t waited = call->chunks.rest.size;
    size_t waits;
    uint64_t made;

    if (call->gone || call->flow >= KS_FLOW_END)
        return 0;
    made = call->chunks.made;
    call->flow = ks_chunks_pump(&call->chunks, &call->exchange);
    charge_rest(call);
    waits = call->chunks.rest.size;
    if ((waited > 0) != (waits > 0))
        await_room(call, waits > 0);
    /* A peer that takes a byte now and then takes nothing. */
    if (waits > 0 && (waited == 0 || waits > call->rest || call->rest - waits >= KS_TAKEN_BYTES)) {
        call->rest = waits;
        ks_http1_set_deadline(call->wire, KS_STALL_MS);
    }
    switch (call->flow) {
    case KS_FLOW_WAIT: break;
    case KS_FLOW_MORE: ks_http1_pump_soon(call); break;
    case KS_FLOW_CUT: ks_http1_call_cut(call); break;
    case KS_FLOW_END:
    case KS_FLOW_ABORT: ks_http1_call_resume(call); break;
    }
    return (size_t)(call->chunks.made - made);
}

/* The daemon asks for the body: what it had is in the socket. It gets none of it, only the end. */
static ssize_t fill(void *arg, uint64_t position, char *buffer, size_t room)
{
    struct ks_http1_call *call = arg;

    (void)position;
    (void)buffer;
    (void)room;
    if (!call->flowing && !call->gone) {
        call->flowing = true;
        (void)ks_http1_call_pump(call);
    }
    if (call->gone || call->flow == KS_FLOW_ABORT)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    if (call->flow == KS_FLOW_END)
        return MHD_CONTENT_READER_END_OF_STREAM;
    suspend(call);
    return 0;
}

static struct MHD_Response *make_response(struct ks_http1_call *call)
{
    struct ks_answer *answer = &call->exchange.answer;

    /* The daemon reports the end of an answer some time after its last byte is in the socket. */
    if (answer->fill == NULL && answer->body.size > 0 && call->exchange.sent != NULL)
        ks_exchange_pour(&call->exchange);
    /* Nor does it mind a peer that takes a byte now and then. */
    if (answer->fill == NULL && answer->body.size > KS_NOTSENT_BYTES)
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

static enum MHD_Result queue(struct ks_http1_call *call)
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

static enum MHD_Result begin(struct ks_http1_call *call, const char *method, const char *version)
{
    struct ks_exchange *exchange = &call->exchange;
    bool old = strcmp(version, "HTTP/1.0") == 0;
    struct ks_head head = {.headers = &exchange->request.headers,
                           .most = call->wire->ops ? KS_OPS_HEAD_BYTES_MAX : KS_HEAD_BYTES_MAX,
                           .all = ks_api_wants_all_headers(exchange->api),
                           .http = 1,
                           .host_may_be_absent = old,
                           .whole = version == call->target_end + 1};

    exchange->request.method = ks_method_parse(method);
    ks_chunks_init(&call->chunks, call->wire->watch.fd, old);
    ks_loop_timer_clear(call->wire->http1->loop, &call->wire->timer);
    (void)MHD_get_connection_values_n(call->wire->connection, MHD_HEADER_KIND, take_line, &head);
    ks_account_work(&call->wire->account, KS_WORK_HEADS, head.bytes);
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
        ks_http1_set_deadline(call->wire, KS_BODY_WAIT_MS);
    return MHD_YES;
}

/* The sentence of a 413. */
static const char *too_large_text(const struct ks_http1_call *call, struct ks_detail *detail)
{
    ks_detail_set(detail, "the body may have at most %zu bytes", call->exchange.request.body.max);
    return detail->text;
}

/* Hands a part on, and stops reading when the handler has enough. False if the connection must end. */
static bool pass(struct ks_http1_call *call, ks_view part)
{
    call->unread += part.size;
    if (!ks_exchange_part(&call->exchange, part, false))
        call->unread = 0;
    if (!charge(call))
        return false;
    if (call->unread < KS_BODY_WINDOW && ks_account_may_work(&call->wire->account)) {
        ks_http1_set_deadline(call->wire, KS_BODY_WAIT_MS);
        return true;
    }
    /* It is not the client who is late. The daemon may have more that it has read already. */
    ks_loop_timer_clear(call->wire->http1->loop, &call->wire->timer);
    if (call->unread < KS_BODY_WINDOW)
        ks_account_await(&call->wire->account);
    if (!call->suspended)
        suspend(call);
    return true;
}

/* Keeps a part of the body, or only counts it once it is too much. False if the connection must
 * end: libmicrohttpd takes no answer in the middle of a body, so it is given past it. */
static bool keep(struct ks_http1_call *call, ks_view part)
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
        (void)charge(call);
        if (call->received <= 2 * (uint64_t)body->max)
            return true;
        ks_refuse(call->wire->watch.fd, KS_PROBLEM_TOO_LARGE, too_large_text(call, &detail));
        call->wire->unread = true;
        return false;
    }
    if (call->exchange.answered || call->no_memory)
        return true;
    err = ks_bytes_append(body, part);
    call->no_memory = !charge(call) || !ks_ok(err);
    if (!call->no_memory)
        return true;
    /* The rest is thrown away. */
    ks_bytes_free(body);
    (void)charge(call);
    return true;
}

static enum MHD_Result run(struct ks_http1_call *call)
{
    struct ks_exchange *exchange = &call->exchange;
    struct ks_detail detail;

    ks_loop_timer_clear(call->wire->http1->loop, &call->wire->timer);
    if (!ks_account_may_work(&call->wire->account)) {
        call->step = STEP_RUN;
        ks_account_await(&call->wire->account);
        suspend(call);
        return MHD_YES;
    }
    call->step = STEP_HANDLER;
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
        ks_exchange_problem(exchange, KS_PROBLEM_EXHAUSTED, KS_BODIES_REFUSAL);
    } else {
        ks_exchange_run(exchange);
    }
    if (exchange->answered)
        return queue(call);
    suspend(call);
    return MHD_YES;
}

/* The daemon calls it when the head is there, for each part of the body, at its end, and after a resume. */
enum MHD_Result ks_http1_call_work(void *arg, struct MHD_Connection *connection, const char *url,
                                   const char *method, const char *version, const char *data,
                                   size_t *size, void **context)
{
    struct ks_http1_call *call = *context;
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
    case STEP_RUN: return call->gone ? MHD_NO : run(call);
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
