/* SPDX-License-Identifier: Apache-2.0 */
/* A call from its head to its handler; what goes back is in rpc_answer.c. */
#include "api/rpc.h"

#include <assert.h>

#include "api/account.h"
#include "api/gzip.h"
#include "api/routes.h"
#include "api/rpc_call.h"
#include "api/server.h"
#include "base/budget.h"

/* The transport hands over a window, and one read more, that are not given back. */
enum { KEPT_BYTES_MAX = 2 * KS_BODY_WINDOW };

/* ---- Messages in ---- */

static bool is_unary_in(const struct ks_rpc_call *call)
{
    return call->method->kind == KS_RPC_UNARY || call->method->kind == KS_RPC_SERVER_STREAM;
}

static void fail(struct ks_rpc_call *call, enum ks_code code, const char *text)
{
    ks_rpc_fail(call->exchange, &(struct ks_rpc_status){.code = code, .text = text});
}

static void too_large(struct ks_rpc_call *call)
{
    ks_exchange_problem(call->exchange, KS_PROBLEM_TOO_LARGE,
                        "a message may have at most %zu bytes", call->body.max);
}

static void refuse(struct ks_rpc_call *call, ks_err err)
{
    if (ks_err_is(err, KS_ERR_FULL))
        too_large(call);
    else if (ks_err_is(err, KS_ERR_NO_MEMORY))
        ks_exchange_problem(call->exchange, KS_PROBLEM_EXHAUSTED, KS_BODIES_REFUSAL);
    else
        ks_exchange_problem(call->exchange, KS_PROBLEM_INVALID_ARGUMENT, "the body is not gzip");
}

static void handle(struct ks_exchange *exchange, const ProtobufCMessage *message,
                   struct ks_arena *arena)
{
    const struct ks_rpc_call *call = exchange->rpc;

    if (call->method->one && !ks_subscription_wanted(exchange))
        return;
    if (is_unary_in(call))
        call->method->handle(exchange, message, arena);
    else
        call->method->next(exchange, message, arena);
}

/* Reads one message, which is moved, and has it handled. What comes behind it waits. */
static void run(struct ks_rpc_call *call, struct ks_bytes *body)
{
    struct ks_exchange *exchange = call->exchange;
    const struct ks_codec codec = {
        .kind = call->head.json ? KS_CODEC_JSON : KS_CODEC_PROTO,
        .types = exchange->api->rpc->types,
    };

    if (!ks_exchange_decode(exchange, codec, body, call->method->request, handle))
        ks_rpc_hold(exchange);
}

/* Appends what a message unpacks to, which may be so much more than it is: a small one could cost a thousand times its
 * bytes. False: the exchange was answered. */
static bool unpack(struct ks_rpc_call *call, ks_view packed, struct ks_bytes *to)
{
    size_t before = to->size;
    size_t max = to->max;
    size_t most = KS_UNPACKED_FREE_BYTES + KS_UNPACKED_RATIO * packed.size;
    ks_err err;

    to->max = before + most < max ? before + most : max;
    err = ks_gzip_unpack(packed, to);
    ks_account_work(call->exchange->account, KS_WORK_UNPACKING, to->size - before);
    if (ks_err_is(err, KS_ERR_FULL) && to->max < max)
        ks_exchange_problem(call->exchange, KS_PROBLEM_TOO_LARGE,
                            "a message may unpack to 256 KiB, and 7 times its size more; send it "
                            "without compression");
    else if (!ks_ok(err))
        refuse(call, err);
    to->max = max;
    return ks_ok(err);
}

/* One message in its bytes, unpacked if it is compressed. */
static void handle_bytes(struct ks_rpc_call *call, struct ks_bytes *body, bool gzipped)
{
    struct ks_bytes unpacked;

    if (!gzipped) {
        run(call, body);
        return;
    }
    ks_bytes_init(&unpacked, call->body.max);
    if (unpack(call, ks_bytes_view(body), &unpacked))
        run(call, &unpacked);
    ks_bytes_free(&unpacked);
}

/* Charges what is in memory of the request. False if it is too much. */
static bool charge(struct ks_rpc_call *call)
{
    size_t size = call->body.capacity + call->envelopes.message.capacity + call->kept.capacity;

    return ks_account_hold(call->exchange->account, KS_HELD_BODIES, &call->charged, size);
}

/* ---- Bare bodies ---- */

static void take_bare(struct ks_rpc_call *call, ks_view part, bool end)
{
    ks_err err = ks_bytes_append(&call->body, part);

    if (!charge(call))
        err = KS_FAIL(NO_MEMORY);
    if (!ks_ok(err))
        refuse(call, err);
    else if (end)
        handle_bytes(call, &call->body, call->head.gzipped && call->body.size > 0);
}

/* ---- Envelopes ---- */

static void take_message(struct ks_rpc_call *call, uint8_t flags)
{
    ks_view message = ks_bytes_view(&call->envelopes.message);
    bool gzipped = (flags & KS_ENVELOPE_COMPRESSED) != 0;
    ks_err err;

    call->messages++;
    if ((flags & ~KS_ENVELOPE_COMPRESSED) != 0) {
        fail(call, KS_CODE_INVALID_ARGUMENT, "an envelope has flags that a request may not have");
        return;
    }
    if (gzipped && !call->head.gzipped) {
        fail(call, KS_CODE_INTERNAL, "a message is compressed, and the headers do not say how");
        return;
    }
    if (!is_unary_in(call)) {
        handle_bytes(call, &call->envelopes.message, gzipped);
        return;
    }
    /* Of a method that takes one message it must be the only one: that is known at the end. */
    if (call->messages > 1) {
        fail(call, KS_CODE_UNIMPLEMENTED, "the method takes one message, and here is another");
        return;
    }
    if (gzipped) {
        (void)unpack(call, message, &call->body);
        return;
    }
    err = ks_bytes_append(&call->body, message);
    if (!ks_ok(err))
        refuse(call, err);
}

static void end_messages(struct ks_rpc_call *call)
{
    call->said_all = true;
    if (!ks_envelopes_between(&call->envelopes))
        fail(call, KS_CODE_INVALID_ARGUMENT, "the request ends in the middle of a message");
    else if (!is_unary_in(call))
        call->method->next(call->exchange, NULL, NULL);
    else if (call->messages == 0)
        fail(call, KS_CODE_UNIMPLEMENTED, "the method takes one message, and there is none");
    else
        run(call, &call->body);
}

/* True while the call still listens. */
static bool is_listening(const struct ks_rpc_call *call)
{
    return call->exchange->body_part != NULL && !call->ended;
}

/* Keeps what the handler is not ready for; it is not given back before it is taken. */
static void keep(struct ks_rpc_call *call, ks_view part, bool end)
{
    ks_err err = ks_bytes_append(&call->kept, part);

    call->kept_end = end;
    if (!charge(call))
        err = KS_FAIL(NO_MEMORY);
    if (!ks_ok(err))
        refuse(call, err);
}

static void take_enveloped(struct ks_rpc_call *call, ks_view part, bool end)
{
    size_t size = part.size;

    while (part.size > 0 && is_listening(call) && !call->held) {
        uint8_t flags = 0;
        bool whole;
        ks_err err = ks_envelopes_take(&call->envelopes, &part, &flags, &whole);

        if (!charge(call))
            err = KS_FAIL(NO_MEMORY);
        if (!ks_ok(err))
            refuse(call, err);
        else if (whole)
            take_message(call, flags);
    }
    ks_exchange_consumed(call->exchange, size - part.size);
    if (call->held)
        keep(call, part, end);
    else if (end && is_listening(call))
        end_messages(call);
}

/* A call may go on for days; its request has been read. */
static void forget_request(struct ks_rpc_call *call)
{
    ks_bytes_free(&call->body);
    ks_bytes_free(&call->kept);
    ks_envelopes_free(&call->envelopes);
    (void)charge(call);
}

static void take_part(struct ks_exchange *exchange, ks_view part, bool end)
{
    struct ks_rpc_call *call = exchange->rpc;

    /* What is kept of it is bounded by the size of one message, and by the transport. */
    if (call->head.protocol == KS_RPC_CONNECT) {
        ks_exchange_consumed(exchange, part.size);
        take_bare(call, part, end);
    } else {
        take_enveloped(call, part, end);
    }
    if ((end && !call->held) || exchange->body_part == NULL)
        forget_request(call);
}

void ks_rpc_hold(struct ks_exchange *exchange)
{
    exchange->rpc->held = exchange->rpc->method->next != NULL;
}

void ks_rpc_release(struct ks_exchange *exchange)
{
    exchange->rpc->held = false;
}

void ks_rpc_go_on(struct ks_exchange *exchange)
{
    struct ks_rpc_call *call = exchange->rpc;
    struct ks_bytes kept = call->kept;
    bool end = call->kept_end;

    if (call->held || (kept.size == 0 && !end))
        return;
    call->kept_end = false;
    ks_bytes_init(&call->kept, KEPT_BYTES_MAX);
    if (exchange->body_part != NULL)
        take_part(exchange, ks_bytes_view(&kept), end);
    ks_bytes_free(&kept);
}

/* ---- Life ---- */

static void late(struct ks_timer *timer)
{
    struct ks_rpc_call *call = KS_LIST_ENTRY(timer, struct ks_rpc_call, timer);
    struct ks_exchange *exchange = call->exchange;

    if (exchange->answered && exchange->answer.fill == NULL)
        return;
    fail(call, KS_CODE_DEADLINE_EXCEEDED, "the time that the client gave is over");
    ks_exchange_wake(exchange);
}

static void begin(struct ks_exchange *exchange)
{
    struct ks_rpc_call *call = exchange->rpc;

    if (exchange->request.length != UINT64_MAX && exchange->request.length > call->body.max &&
        call->head.protocol == KS_RPC_CONNECT) {
        too_large(call);
        return;
    }
    if (call->head.timeout_ms >= 0)
        ks_loop_timer_set(
            call->loop, &call->timer,
            ks_instant_add(ks_loop_now(call->loop), ks_span_ms(call->head.timeout_ms)));
    if (exchange->request.method == KS_METHOD_GET) {
        if (ks_rpc_head_message(exchange, &call->body))
            take_bare(call, KS_VIEW_NONE, true);
        return;
    }
    exchange->body_part = take_part;
    if (!is_unary_in(call))
        call->method->handle(exchange, NULL, NULL);
}

static bool new_call(struct ks_exchange *exchange, const struct ks_rpc_method *method,
                     const struct ks_rpc_head *head)
{
    struct ks_rpc_call *call = ks_alloc(sizeof(*call));

    if (call == NULL) {
        ks_exchange_problem(exchange, KS_PROBLEM_EXHAUSTED, "out of memory");
        return false;
    }
    call->exchange = exchange;
    call->method = method;
    call->head = *head;
    call->loop = exchange->api->loop;
    call->timer.due = late;
    ks_bytes_init(&call->body, exchange->api->request_bytes_max);
    ks_envelopes_init(&call->envelopes, exchange->api->request_bytes_max);
    ks_bytes_init(&call->kept, KEPT_BYTES_MAX);
    ks_bytes_init(&call->out, KS_RPC_SENT_BYTES_MAX);
    ks_bytes_init(&call->tail, KS_RPC_TAIL_BYTES_MAX);
    exchange->rpc = call;
    return true;
}

static const struct ks_rpc_method *find_method(const struct ks_exchange *exchange)
{
    const struct ks_rpc_service *service = exchange->api->rpc;

    for (size_t i = 0; i < service->count; i++) {
        const struct ks_rpc_method *method = &service->methods[i];
        if (ks_view_equal(exchange->request.decoded.path, ks_view_text(method->path)) &&
            (method->ops || !exchange->request.ops))
            return method;
    }
    return NULL;
}

bool ks_rpc_has_service(const struct ks_rpc_service *service, const char *name)
{
    for (size_t i = 0; i < service->count; i++) {
        ks_view rest = ks_view_text(service->methods[i].path + 1);
        if (ks_view_equal(ks_view_cut(&rest, '/'), ks_view_text(name)))
            return true;
    }
    return false;
}

const struct ks_route *ks_rpc_find(struct ks_exchange *exchange)
{
    /* The table of routes has no row for them: the methods are a table of their own. */
    static const struct ks_route routes[] = {
        {begin, KS_DOOR_LOCAL, KS_WHO_APP, KS_METHOD_POST, "", "", KS_ROUTE_ANY, KS_BODY_STREAM,
         ""},
        {begin, KS_DOOR_LOCAL, KS_WHO_APP, KS_METHOD_GET, "",
         "connect encoding base64 compression message", KS_ROUTE_ANY, KS_BODY_STREAM, ""},
    };
    const struct ks_rpc_method *method = find_method(exchange);
    bool get = exchange->request.method == KS_METHOD_GET;
    struct ks_rpc_head head;

    if (method == NULL)
        return NULL;
    if (exchange->request.method != KS_METHOD_POST && !(get && method->safe)) {
        const char *allow = method->safe ? "GET, POST" : "POST";
        ks_exchange_problem(exchange, KS_PROBLEM_METHOD_NOT_ALLOWED, "this path allows %s", allow);
        ks_exchange_header(exchange, "Allow", allow);
        return NULL;
    }
    if (method->order && !ks_exchange_may_order(exchange))
        return NULL;
    if (!ks_rpc_head_read(exchange, method, &head) || !new_call(exchange, method, &head))
        return NULL;
    return &routes[get];
}

void ks_rpc_end(struct ks_exchange *exchange)
{
    struct ks_rpc_call *call = exchange->rpc;

    if (call == NULL)
        return;
    exchange->rpc = NULL;
    ks_loop_timer_clear(call->loop, &call->timer);
    forget_request(call);
    ks_bytes_free(&call->out);
    ks_account_must_hold(exchange->account, KS_HELD_ANSWERS, &call->out_held, 0);
    ks_bytes_free(&call->tail);
    ks_free(call);
}

bool ks_rpc_is_json(const struct ks_exchange *exchange)
{
    return exchange->rpc->head.json;
}

int64_t ks_rpc_timeout_ms(const struct ks_exchange *exchange)
{
    return exchange->rpc->head.timeout_ms;
}

bool ks_rpc_is_call(const struct ks_exchange *exchange)
{
    ks_view path = exchange->request.target;
    ks_view rest;
    ks_view service;

    rest = ks_view_cut(&path, '?');
    (void)ks_view_cut(&rest, '/');
    service = ks_view_cut(&rest, '/');
    return rest.data != NULL && rest.size > 0 && memchr(rest.data, '/', rest.size) == NULL &&
           service.size > 0 && memchr(service.data, '.', service.size) != NULL;
}
