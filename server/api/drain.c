/* SPDX-License-Identifier: Apache-2.0 */
/* POST /v1/drain: gives everything back, of one subscription or of all, says how far it is, and stays up holding
 * nothing. POST /v1/quit: the same of all, and then the process ends. */
#include "api/codec_json.h"
#include "api/message.h"
#include "api/methods.h"
#include "api/routes.h"
#include "api/server.h"
#include "base/budget.h"

#include <assert.h>

/* A line is written when something changed, looked at this often. */
enum { LOOK_MS = 100, LINE_BYTES_MAX = 4096 };

struct drain {
    struct ks_exchange *exchange;
    struct ks_api *api;
    const struct ks_subscription *only; /* NULL: all of them. */
    struct ks_timer timer;
    struct ks_bytes line;
    uint32_t leases_held;
    uint64_t in_flight;
    bool said; /* One line at least. */
    bool done;
};

/* What is still held, over all that drain. */
struct held {
    uint32_t leases;
    uint64_t in_flight;
    uint32_t sessions;
    bool any; /* One of them is not yet gone from its fleet. */
};

static struct held count(const struct drain *drain)
{
    struct held held = {.leases = 0};
    struct ks_board_status status;

    for (uint32_t i = 0; i < drain->api->subscription_count; i++) {
        const struct ks_subscription *subscription = &drain->api->subscriptions[i];
        if (drain->only != NULL && drain->only != subscription)
            continue;
        ks_switchboard_status(subscription->board, &status);
        held.leases += status.self.leases_held;
        held.in_flight += status.self.in_flight;
        held.sessions += status.self.sessions;
        held.any = held.any || status.self.state != KS_WORKER_GONE;
    }
    return held;
}

static void say(struct drain *drain, const struct held *held)
{
    ks_pb_progress progress;
    struct ks_writer json;

    kinesis_sidecar__v1__drain_progress__init(&progress);
    progress.state = KINESIS_SIDECAR__V1__SIDECAR_STATE__SIDECAR_STATE_DRAINING;
    progress.leases_held = held->leases;
    progress.in_flight = held->in_flight;
    progress.sessions = held->sessions;
    progress.drained = drain->done;
    if (drain->exchange->rpc != NULL) {
        /* A reader so slow that messages pile up misses some; the last one has its room. */
        (void)ks_rpc_append(drain->exchange, &progress.base, &drain->line).code;
        return;
    }
    ks_writer_begin(&json, &drain->line);
    ks_writer_open(&json, '{');
    ks_writer_key(&json, "type");
    ks_writer_string(&json, drain->done ? "drained" : "progress");
    ks_rest_members(&json, &progress.base);
    ks_writer_close(&json, '}');
    ks_writer_line(&json);
    /* A reader so slow that lines pile up misses some; the last one has its room. */
    if (!ks_ok(ks_writer_end(&json)))
        ks_bytes_clear(&drain->line);
}

static void look(struct drain *drain)
{
    struct held held = count(drain);

    drain->done = !held.any;
    if (drain->said && !drain->done && held.leases == drain->leases_held &&
        held.in_flight == drain->in_flight)
        return;
    drain->said = true;
    drain->leases_held = held.leases;
    drain->in_flight = held.in_flight;
    if (drain->line.size < LINE_BYTES_MAX / 2)
        say(drain, &held);
}

static void set_timer(struct drain *drain)
{
    struct ks_loop *loop = drain->api->loop;

    ks_loop_timer_set(loop, &drain->timer, ks_instant_add(ks_loop_now(loop), ks_span_ms(LOOK_MS)));
}

static void due(struct ks_timer *timer)
{
    struct drain *drain = KS_LIST_ENTRY(timer, struct drain, timer);

    look(drain);
    if (!drain->done)
        set_timer(drain);
    if (drain->line.size > 0)
        ks_exchange_wake(drain->exchange);
}

static size_t fill(struct ks_exchange *exchange, uint8_t *buffer, size_t room,
                   enum ks_fill *ret_fill)
{
    struct drain *drain = exchange->context;
    size_t size = drain->line.size < room ? drain->line.size : room;

    if (size == 0) {
        *ret_fill = drain->done ? KS_FILL_END : KS_FILL_WAIT;
        return 0;
    }
    memcpy(buffer, drain->line.data, size);
    ks_bytes_consume(&drain->line, size);
    *ret_fill = KS_FILL_MORE;
    return size;
}

static void closed(struct ks_exchange *exchange)
{
    struct drain *drain = exchange->context;

    ks_loop_timer_clear(drain->api->loop, &drain->timer);
    ks_bytes_free(&drain->line);
    ks_free(drain);
}

/* Who will say how far it is. NULL: the exchange was answered. */
static struct drain *begin(struct ks_exchange *exchange)
{
    struct drain *drain = ks_alloc(sizeof(*drain));

    if (drain == NULL) {
        ks_exchange_problem(exchange, KS_PROBLEM_EXHAUSTED, "out of memory");
        return NULL;
    }
    drain->exchange = exchange;
    drain->api = exchange->api;
    drain->timer.due = due;
    ks_bytes_init(&drain->line, LINE_BYTES_MAX);
    exchange->context = drain;
    exchange->closed = closed;
    return drain;
}

/* Everything was told to drain. */
static void answer(struct drain *drain)
{
    look(drain);
    set_timer(drain);
    ks_exchange_stream(drain->exchange, KS_TYPE_NDJSON, fill);
}

void ks_serve_drain(struct ks_exchange *exchange, const ProtobufCMessage *message,
                    struct ks_arena *arena)
{
    struct ks_api *api = exchange->api;
    struct drain *drain = begin(exchange);

    (void)message;
    (void)arena;
    if (drain == NULL)
        return;
    drain->only = exchange->subscription;
    for (uint32_t i = 0; i < api->subscription_count; i++) {
        struct ks_subscription *subscription = &api->subscriptions[i];
        if (drain->only != NULL && drain->only != subscription)
            continue;
        subscription->quiesced = true;
        ks_switchboard_drain(subscription->board, api->drain_patience);
    }
    answer(drain);
}

void ks_handle_drain(struct ks_exchange *exchange)
{
    ks_exchange_serve(exchange, &kinesis_sidecar__v1__drain_request__descriptor, ks_serve_drain);
}

void ks_handle_quit(struct ks_exchange *exchange)
{
    struct ks_api *api = exchange->api;
    struct drain *drain;
    ks_view name;

    assert(api->quit != NULL);
    if (ks_request_param(&exchange->request, "subscription", &name)) {
        ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT,
                            "all subscriptions end with the process; POST /v1/drain takes one");
        return;
    }
    drain = begin(exchange);
    if (drain == NULL)
        return;
    api->quit(api->quit_arg);
    answer(drain);
}
