/* SPDX-License-Identifier: Apache-2.0 */
/* grpc.health.v1: the readiness of /readyz, for those who ask by call. */
#include "api/methods.h"
#include "api/server.h"
#include "base/budget.h"
#include "grpc/health/v1/health.pb-c.h"

/* A change is told when it is seen, looked for this often. */
enum { LOOK_MS = 250 };

typedef Grpc__Health__V1__HealthCheckRequest check_request;
typedef Grpc__Health__V1__HealthCheckResponse check_response;
typedef Grpc__Health__V1__HealthCheckResponse__ServingStatus serving_status;

#define STATUS(name) GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__##name

static serving_status status_of(struct ks_api *api, const char *service)
{
    const char *reason;

    if (service[0] != '\0' && !ks_rpc_has_service(api->rpc, service))
        return STATUS(SERVICE_UNKNOWN);
    return ks_api_find_unready(api, &reason) == NULL ? STATUS(SERVING) : STATUS(NOT_SERVING);
}

void ks_serve_health_check(struct ks_exchange *exchange, const ProtobufCMessage *message,
                           struct ks_arena *arena)
{
    const check_request *request = (const check_request *)message;
    check_response response;

    (void)arena;
    grpc__health__v1__health_check_response__init(&response);
    response.status = status_of(exchange->api, request->service);
    if (response.status == STATUS(SERVICE_UNKNOWN))
        ks_exchange_problem(exchange, KS_PROBLEM_NOT_FOUND, "no such service is served here");
    else
        ks_exchange_message(exchange, &response.base);
}

/* ---- Watch ---- */

struct watcher {
    struct ks_exchange *exchange;
    struct ks_timer timer;
    struct ks_arena arena; /* Holds the name. */
    const char *service;
    serving_status told;
    bool said; /* Once at least. */
};

static void watcher_closed(struct ks_exchange *exchange)
{
    struct watcher *watcher = exchange->context;

    ks_loop_timer_clear(exchange->api->loop, &watcher->timer);
    ks_arena_free(&watcher->arena);
    ks_free(watcher);
}

static void look(struct ks_timer *timer)
{
    struct watcher *watcher = KS_LIST_ENTRY(timer, struct watcher, timer);
    struct ks_exchange *exchange = watcher->exchange;
    serving_status status = status_of(exchange->api, watcher->service);
    struct ks_loop *loop = exchange->api->loop;
    check_response response;

    if (exchange->api->ending) {
        ks_rpc_close(exchange);
        return;
    }
    ks_loop_timer_set(loop, &watcher->timer,
                      ks_instant_add(ks_loop_now(loop), ks_span_ms(LOOK_MS)));
    if (watcher->said && status == watcher->told)
        return;
    grpc__health__v1__health_check_response__init(&response);
    response.status = status;
    /* A reader who does not read is told later what is so then. */
    if (!ks_ok(ks_rpc_send(exchange, &response.base)))
        return;
    watcher->told = status;
    watcher->said = true;
}

void ks_serve_health_watch(struct ks_exchange *exchange, const ProtobufCMessage *message,
                           struct ks_arena *arena)
{
    const check_request *request = (const check_request *)message;
    struct watcher *watcher = ks_alloc(sizeof(*watcher));

    if (watcher == NULL) {
        ks_exchange_problem(exchange, KS_PROBLEM_EXHAUSTED, "out of memory");
        return;
    }
    watcher->exchange = exchange;
    watcher->timer.due = look;
    watcher->service = request->service;
    watcher->arena = *arena;
    ks_arena_init(arena, 0);
    exchange->context = watcher;
    exchange->closed = watcher_closed;
    ks_rpc_open(exchange);
    look(&watcher->timer);
}
