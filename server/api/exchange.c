/* SPDX-License-Identifier: Apache-2.0 */
#include "api/exchange.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "api/account.h"
#include "api/message.h"
#include "api/routes.h"
#include "api/rpc.h"
#include "api/server.h"
#include "base/metrics.h"

void ks_exchange_init(struct ks_exchange *exchange, struct ks_api *api,
                      const struct ks_transport *transport)
{
    *exchange = (struct ks_exchange){.api = api, .transport = transport};
    ks_bytes_init(&exchange->request.body, api->request_bytes_max);
    ks_headers_init(&exchange->request.headers, KS_HEADERS_BYTES_MAX);
    ks_bytes_init(&exchange->answer.body, KS_ANSWER_BYTES_MAX);
    ks_headers_init(&exchange->answer.headers, KS_ANSWER_HEAD_BYTES_MAX);
    ks_headers_init(&exchange->answer.trailers, KS_ANSWER_HEAD_BYTES_MAX);
}

void ks_exchange_end(struct ks_exchange *exchange)
{
    void (*closed)(struct ks_exchange * exchange) = exchange->closed;

    exchange->closed = NULL;
    exchange->sent = NULL;
    exchange->may_send = NULL;
    if (closed != NULL)
        closed(exchange);
    ks_exchange_forget_decoding(exchange);
    ks_rpc_end(exchange);
    ks_target_free(&exchange->request.decoded);
    ks_bytes_free(&exchange->request.body);
    ks_headers_free(&exchange->request.headers);
    ks_bytes_free(&exchange->answer.body);
    ks_headers_free(&exchange->answer.headers);
    ks_headers_free(&exchange->answer.trailers);
    ks_account_must_hold(exchange->account, KS_HELD_HEADS, &exchange->request.held, 0);
    ks_account_must_hold(exchange->account, KS_HELD_ANSWERS, &exchange->answer.held, 0);
}

/* ---- Answers ---- */

bool ks_exchange_hold(struct ks_exchange *exchange, size_t size)
{
    if (ks_account_hold(exchange->account, KS_HELD_ANSWERS, &exchange->answer.held, size))
        return true;
    ks_exchange_problem(exchange, KS_PROBLEM_EXHAUSTED,
                        "too many answers wait for clients to take them (\"held\" in /v1/status)");
    return false;
}

/* Charges the body that is about to become the answer. False: there was no room, and a problem is the answer. */
static bool charge(struct ks_exchange *exchange, const struct ks_bytes *body)
{
    struct ks_answer *answer = &exchange->answer;

    ks_account_work(exchange->account, KS_WORK_ANSWERS, body->size / KS_WORK_ANSWER_BYTES);
    if (!answer->failing)
        return ks_exchange_hold(exchange, body->capacity);
    ks_account_must_hold(exchange->account, KS_HELD_ANSWERS, &answer->held, body->capacity);
    return true;
}

static void answer(struct ks_exchange *exchange, uint16_t status, const char *content_type)
{
    char code[8];

    assert(!exchange->answered);
    assert(status >= 200 && status <= 599);
    exchange->answered = true;
    exchange->answer.status = status;
    exchange->answer.content_type = content_type;
    (void)snprintf(code, sizeof(code), "%u", status);
    ks_metric_add_labelled(KS_METRIC_HTTP_REQUESTS, code, 1);
}

void ks_exchange_reply(struct ks_exchange *exchange, uint16_t status, const char *content_type,
                       struct ks_bytes *body)
{
    if (!charge(exchange, body)) {
        ks_bytes_free(body);
        return;
    }
    answer(exchange, status, content_type);
    exchange->body_part = NULL;
    ks_bytes_free(&exchange->answer.body);
    exchange->answer.body = *body;
    ks_bytes_init(body, body->max);
}

static void rest_problem(struct ks_exchange *exchange, enum ks_problem problem, const char *text)
{
    struct ks_bytes *body = &exchange->answer.body;

    ks_bytes_clear(body);
    /* Without memory the status has to say it all. */
    if (!ks_ok(ks_problem_write(problem, ks_view_text(text), exchange->request.target, body)))
        ks_bytes_clear(body);
    (void)charge(exchange, body);
    answer(exchange, ks_problem_status(problem), "application/problem+json");
    exchange->body_part = NULL;
}

void ks_exchange_problem(struct ks_exchange *exchange, enum ks_problem problem, const char *format,
                         ...)
{
    char text[512];
    va_list args;
    int size;

    va_start(args, format);
    size = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    assert(size >= 0);
    exchange->answer.failing = true;
    if (exchange->inner != NULL) {
        exchange->answered = true;
        exchange->inner->problem(exchange, problem, text);
        return;
    }
    if (ks_rpc_is_call(exchange) && ks_rpc_has_protocol(exchange))
        ks_rpc_problem(exchange, problem, text);
    else
        rest_problem(exchange, problem, text);
    if (exchange->answer.status != ks_problem_status(problem))
        return; /* What goes in envelopes says it in its own way. */
    if (ks_problem_is_retryable(problem))
        ks_exchange_header(exchange, "Retry-After", "1");
    if (problem == KS_PROBLEM_UNAUTHENTICATED)
        ks_exchange_header(exchange, "WWW-Authenticate", "Bearer");
}

void ks_exchange_stream(struct ks_exchange *exchange, const char *content_type, ks_producer *fill)
{
    if (exchange->rpc != NULL)
        fill = ks_rpc_stream(exchange, fill, &content_type);
    answer(exchange, 200, content_type);
    exchange->answer.fill = fill;
}

static void add_line(struct ks_exchange *exchange, struct ks_headers *lines, const char *name,
                     const char *value)
{
    if (!ks_ok(ks_headers_add(lines, ks_view_text(name), ks_view_text(value))))
        exchange->answer.broken = true;
}

void ks_exchange_header(struct ks_exchange *exchange, const char *name, const char *value)
{
    add_line(exchange, &exchange->answer.headers, name, value);
}

void ks_exchange_trailer(struct ks_exchange *exchange, const char *name, const char *value)
{
    add_line(exchange, &exchange->answer.trailers, name, value);
}

void ks_exchange_wake(struct ks_exchange *exchange)
{
    exchange->transport->wake(exchange);
}

void ks_exchange_consumed(struct ks_exchange *exchange, size_t size)
{
    assert(exchange->streamed);
    /* Who wants no more has given everything back. */
    if (size > 0 && exchange->body_part != NULL)
        exchange->transport->consumed(exchange, size);
}

/* ---- Headers and parameters ---- */

ks_view ks_request_header(const struct ks_request *request, const char *name)
{
    return ks_headers_find(&request->headers, name);
}

bool ks_request_param(const struct ks_request *request, const char *name, ks_view *ret_value)
{
    for (uint32_t i = 0; i < request->decoded.param_count; i++) {
        if (!ks_view_equal(request->decoded.params[i].name, ks_view_text(name)))
            continue;
        *ret_value = request->decoded.params[i].value;
        return true;
    }
    return false;
}

bool ks_request_number(struct ks_exchange *exchange, const char *name, uint64_t min, uint64_t max,
                       uint64_t absent, uint64_t *ret_value)
{
    uint64_t value = absent;
    ks_view text;

    if (ks_request_param(&exchange->request, name, &text) &&
        (!ks_ok(ks_view_u64(text, &value)) || value < min || value > max)) {
        ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT,
                            "query parameter %s must be a whole number from %" PRIu64
                            " to %" PRIu64,
                            name, min, max);
        return false;
    }
    *ret_value = value;
    return true;
}

/* ---- The way in ---- */

static void no_route(struct ks_exchange *exchange, const char *allow)
{
    bool ops = exchange->request.ops;
    char elsewhere[KS_ALLOW_SIZE];
    ks_view part;

    if (allow[0] != '\0') {
        ks_exchange_problem(exchange, KS_PROBLEM_METHOD_NOT_ALLOWED, "this path allows %s", allow);
        ks_exchange_header(exchange, "Allow", allow);
        return;
    }
    if (ks_rpc_is_call(exchange)) {
        ks_exchange_problem(exchange, KS_PROBLEM_UNIMPLEMENTED, "no such RPC is served here");
        return;
    }
    if (ks_route_find(ops ? KS_DOOR_LOCAL : KS_DOOR_OPS, exchange->request.method,
                      exchange->request.decoded.path, &part, elsewhere) != NULL)
        ks_exchange_problem(exchange, KS_PROBLEM_NOT_FOUND, "no such path here; the %s has it",
                            ops ? "local API (--listen)" : "ops port (--ops-listen)");
    else
        ks_exchange_problem(exchange, KS_PROBLEM_NOT_FOUND, "no such path");
}

bool ks_exchange_may_order(struct ks_exchange *exchange)
{
    const struct ks_request *request = &exchange->request;

    if (request->may_order)
        return true;
    ks_exchange_problem(exchange,
                        request->authorization.data == NULL ? KS_PROBLEM_UNAUTHENTICATED
                                                            : KS_PROBLEM_PERMISSION_DENIED,
                        "this is an order of an operator: it takes the token of "
                        "--operator-token-file");
    return false;
}

static bool find_route(struct ks_exchange *exchange)
{
    struct ks_request *request = &exchange->request;
    enum ks_door door = request->ops ? KS_DOOR_OPS : KS_DOOR_LOCAL;
    char allow[KS_ALLOW_SIZE];

    exchange->route =
        ks_route_find(door, request->method, request->decoded.path, &request->part, allow);
    if (exchange->route != NULL && request->part.data != NULL)
        request->part = ks_target_decode(&request->decoded, request->part);
    if (exchange->route == NULL && exchange->api->find_more != NULL)
        exchange->route = exchange->api->find_more(exchange);
    if (exchange->route == NULL && !exchange->answered)
        no_route(exchange, allow);
    return exchange->route != NULL &&
           (exchange->route->who == KS_WHO_APP || ks_exchange_may_order(exchange));
}

/* Only ids may stand there many times; of two values of anything else one would be dropped silently.
 */
static bool is_repeated(const struct ks_target *target, uint32_t index)
{
    ks_view name = target->params[index].name;

    if (ks_view_equal(name, KS_VIEW("ack_id")) || ks_view_equal(name, KS_VIEW("batch_id")))
        return false;
    for (uint32_t i = 0; i < index; i++)
        if (ks_view_equal(target->params[i].name, name))
            return true;
    return false;
}

static bool check_params(struct ks_exchange *exchange)
{
    const struct ks_request *request = &exchange->request;

    for (uint32_t i = 0; i < request->decoded.param_count; i++) {
        ks_view name = request->decoded.params[i].name;
        if (is_repeated(&request->decoded, i)) {
            ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT,
                                "query parameter %.*s stands there twice",
                                (int)(name.size < 60 ? name.size : 60), (const char *)name.data);
            return false;
        }
        if (ks_route_has_param(exchange->route, name))
            continue;
        ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT,
                            "unknown query parameter \"%.*s\"; this path knows: %s%ssubscription",
                            (int)(name.size < 60 ? name.size : 60), (const char *)name.data,
                            exchange->route->params, exchange->route->params[0] == '\0' ? "" : " ");
        return false;
    }
    return true;
}

/* Which subscription it is about, as far as the query says. */
static bool find_subscription(struct ks_exchange *exchange)
{
    ks_view name = KS_VIEW_NONE;

    (void)ks_request_param(&exchange->request, "subscription", &name);
    if (!ks_subscription_choose(exchange, name))
        return false;
    return exchange->route->subscription == KS_ROUTE_ANY || ks_subscription_wanted(exchange);
}

/* A put may be long: where it can go nowhere it is refused before it comes. */
static bool check_put(struct ks_exchange *exchange)
{
    const struct ks_api *api = exchange->api;

    for (uint32_t i = 0; i < api->subscription_count; i++)
        if (ks_switchboard_can_put(api->subscriptions[i].board))
            return true;
    ks_exchange_problem(exchange, KS_PROBLEM_FAILED_PRECONDITION,
                        "records can be put with --source local:PATH only");
    exchange->answer.close = true;
    return false;
}

static bool check_body(struct ks_exchange *exchange)
{
    struct ks_request *request = &exchange->request;
    enum ks_body body = exchange->route->body;

    exchange->streamed = body == KS_BODY_STREAM;
    if (exchange->streamed)
        return true;
    if (body == KS_BODY_PUT && !check_put(exchange))
        return false;
    if (body == KS_BODY_PUT)
        request->body.max = KS_PUT_BYTES_MAX;
    if (!request->has_body)
        return true;
    if (request->length != UINT64_MAX && request->length > request->body.max) {
        ks_exchange_problem(exchange, KS_PROBLEM_TOO_LARGE, "the body may have at most %zu bytes",
                            request->body.max);
        exchange->answer.close = true;
        return false;
    }
    if (body == KS_BODY_NONE || request->content_type.size == 0 ||
        ks_media_type_is(request->content_type, KS_TYPE_JSON) ||
        ks_media_type_is(request->content_type, "application/x-www-form-urlencoded"))
        return true;
    if (body == KS_BODY_MESSAGE && ks_media_type_is_protobuf(request->content_type))
        return true;
    ks_exchange_problem(exchange, KS_PROBLEM_MEDIA_TYPE, "send %s%s", KS_TYPE_JSON,
                        body == KS_BODY_MESSAGE ? " or " KS_TYPE_PROTOBUF : "");
    exchange->answer.close = true;
    return false;
}

/* The target, or a problem. */
static bool read_target(struct ks_exchange *exchange)
{
    struct ks_detail detail = {.text = ""};
    ks_err err = ks_target_parse(exchange->request.target, &exchange->request.decoded, &detail);

    if (ks_ok(err))
        return true;
    if (ks_err_is(err, KS_ERR_NO_MEMORY))
        ks_exchange_problem(exchange, KS_PROBLEM_EXHAUSTED, "out of memory");
    else
        ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT, "%s", detail.text);
    return false;
}

/* Charges the head: the lines, the target, and the target taken apart. */
static bool charge_head(struct ks_exchange *exchange)
{
    struct ks_request *request = &exchange->request;
    size_t size = KS_REQUEST_BYTES + request->headers.lines.capacity + 2 * request->target.size;

    ks_account_work(exchange->account, KS_WORK_HEADS, KS_WORK_REQUEST + request->target.size);
    if (ks_account_hold(exchange->account, KS_HELD_HEADS, &request->held, size))
        return true;
    ks_exchange_problem(exchange, KS_PROBLEM_EXHAUSTED,
                        "too many requests are under way (\"held\" in /v1/status)");
    return false;
}

void ks_exchange_begin(struct ks_exchange *exchange)
{
    struct ks_detail detail = {.text = ""};
    enum ks_problem problem;

    assert(!exchange->answered);
    if (!charge_head(exchange))
        return;
    /* Who asks comes before what is asked for: a stranger learns nothing, not even which paths
     * there are. */
    if (!ks_guard_admits(exchange->api->guard, &exchange->request, &problem, &detail)) {
        ks_exchange_problem(exchange, problem, "%s", detail.text);
        return;
    }
    if (read_target(exchange) && find_route(exchange) && check_params(exchange) &&
        find_subscription(exchange))
        (void)check_body(exchange);
}

void ks_exchange_run(struct ks_exchange *exchange)
{
    assert(!exchange->answered);
    assert(exchange->route != NULL);
    exchange->route->handle(exchange);
}

static size_t pour(struct ks_exchange *exchange, uint8_t *buffer, size_t room,
                   enum ks_fill *ret_fill)
{
    struct ks_answer *answer = &exchange->answer;
    size_t left = answer->body.size - answer->poured;
    size_t size = left < room ? left : room;

    *ret_fill = size > 0 ? KS_FILL_MORE : KS_FILL_END;
    if (size > 0)
        memcpy(buffer, answer->body.data + answer->poured, size);
    answer->poured += size;
    return size;
}

void ks_exchange_pour(struct ks_exchange *exchange)
{
    assert(exchange->answered && exchange->answer.fill == NULL);
    exchange->answer.fill = pour;
}

void ks_exchange_sent(struct ks_exchange *exchange, size_t size)
{
    struct ks_answer *answer = &exchange->answer;

    if (exchange->sent == NULL || size == 0)
        return;
    /* One message: its client can do nothing with a part of it. */
    if (answer->body.size > 0) {
        answer->sent += size;
        if (answer->sent < answer->body.size)
            return;
        size = SIZE_MAX;
    }
    exchange->sent(exchange, size);
}

bool ks_exchange_may_send(struct ks_exchange *exchange)
{
    return exchange->may_send == NULL || exchange->may_send(exchange);
}

bool ks_exchange_part(struct ks_exchange *exchange, ks_view part, bool end)
{
    assert(exchange->streamed);
    if (exchange->body_part != NULL)
        exchange->body_part(exchange, part, end);
    return exchange->body_part != NULL;
}
