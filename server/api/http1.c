/* SPDX-License-Identifier: Apache-2.0 */
#include "api/http1.h"

#include <assert.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/doors.h"
#include "api/http1_wire.h"
#include "api/server.h"
#include "base/budget.h"
#include "base/log.h"

/* ---- The daemon's turn ---- */

/* Has the hook run at the end of this turn, or of the next one if it has run already. */
static void turn_soon(struct ks_http1 *http1)
{
    ks_loop_timer_set(http1->loop, &http1->kick, ks_loop_now(http1->loop));
}

/* Likewise the daemon. */
void ks_http1_run_soon(struct ks_http1 *http1)
{
    http1->pending = true;
    turn_soon(http1);
}

/* The call is looked at in this turn, or in the next. */
void ks_http1_pump_soon(struct ks_http1_call *call)
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

/* ---- The turn ---- */

static void pump_ready(struct ks_http1 *http1)
{
    struct ks_link todo;
    size_t made = 0;

    ks_link_init(&todo);
    while (!ks_list_empty(&http1->ready)) {
        struct ks_link *link = http1->ready.next;
        ks_list_remove(link);
        ks_list_append(&todo, link);
    }
    while (!ks_list_empty(&todo)) {
        struct ks_http1_call *call = KS_LIST_ENTRY(todo.next, struct ks_http1_call, ready);
        ks_list_remove(&call->ready);
        if (made < KS_SENT_TURN_BYTES)
            made += ks_http1_call_pump(call);
        else
            ks_http1_pump_soon(call);
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

/* ---- Connections ---- */

void ks_http1_set_deadline(struct ks_http1_wire *wire, int64_t wait_ms)
{
    struct ks_loop *loop = wire->http1->loop;

    if (wire->ended && wait_ms > KS_ENDED_WAIT_MS)
        wait_ms = KS_ENDED_WAIT_MS;
    ks_loop_timer_set(loop, &wire->timer, ks_instant_add(ks_loop_now(loop), ks_span_ms(wait_ms)));
}

static void wire_free(struct ks_http1_wire *wire)
{
    struct ks_http1 *http1 = wire->http1;
    bool ops = wire->ops;

    assert(wire->call == NULL);
    ks_loop_unwatch(http1->loop, &wire->watch);
    ks_loop_timer_clear(http1->loop, &wire->timer);
    ks_list_remove(&wire->link);
    ks_account_close(&wire->account);
    ks_free(wire);
    ks_doors_left(http1->api->doors, ops);
}

/* The daemon is about to close the socket. */
static void wire_left(struct ks_http1_wire *wire)
{
    /* A request that the daemon refused before its head was whole is never completed. */
    if (wire->call != NULL)
        ks_http1_call_free(wire->call);
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
    struct ks_http1_wire *wire = KS_LIST_ENTRY(watch, struct ks_http1_wire, watch);

    if ((events & EPOLLOUT) != 0 && wire->call != NULL && wire->call->flowing)
        ks_http1_pump_soon(wire->call);
    if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) == 0)
        return;
    /* libmicrohttpd 0.9.75 misses an end that comes together with data. */
    wire->ended = true;
    if (wire->call == NULL || wire->call->step <= STEP_BODY)
        ks_http1_set_deadline(wire, KS_ENDED_WAIT_MS);
    if (wire->call == NULL)
        return;
    /* Whoever sent a request and closed its side still gets an answer that needs no waiting. */
    if (wire->call->step == STEP_RUN)
        return;
    if (wire->call->step != STEP_HANDLER &&
        (wire->call->exchange.answer.fill == NULL || wire->call->exchange.answer.body.size > 0))
        return;
    wire->call->gone = true;
    ks_http1_call_resume(wire->call);
}

static void wire_late(struct ks_timer *timer)
{
    struct ks_http1_wire *wire = KS_LIST_ENTRY(timer, struct ks_http1_wire, timer);

    if (wire->call != NULL)
        ks_http1_call_cut(wire->call);
    else
        (void)shutdown(wire->watch.fd, SHUT_RDWR);
}

/* Its turn has come: the request that waits is handled, or more of its body is read. */
static void go_on(struct ks_account *account)
{
    struct ks_http1_wire *wire = KS_LIST_ENTRY(account, struct ks_http1_wire, account);
    struct ks_http1_call *call = wire->call;

    if (call == NULL)
        return;
    if (call->step == STEP_RUN || (call->step == STEP_BODY && call->unread < KS_BODY_WINDOW))
        ks_http1_call_resume(call);
}

static void close_idle(struct ks_account *account)
{
    struct ks_http1_wire *wire = KS_LIST_ENTRY(account, struct ks_http1_wire, account);

    ks_loop_timer_set(wire->http1->loop, &wire->timer, ks_loop_now(wire->http1->loop));
}

void ks_http1_take(struct ks_http1 *http1, const struct ks_wire_config *config)
{
    struct ks_http1_wire *wire = ks_alloc(sizeof(*wire));

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
    wire->account = (struct ks_account){.go_on = go_on, .close = close_idle};
    ks_account_open(&wire->account, wire->ops ? &http1->api->ops_accounts : &http1->api->accounts);
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
    ks_http1_run_soon(http1);
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
        NULL, NULL, ks_http1_call_work, http1,                       /* no port, no accept policy */
        MHD_OPTION_EXTERNAL_LOGGER, logged, NULL,                    /* first, to hear all */
        MHD_OPTION_NOTIFY_CONNECTION, notified, http1,               /* */
        MHD_OPTION_NOTIFY_COMPLETED, ks_http1_call_completed, http1, /* */
        MHD_OPTION_URI_LOG_CALLBACK, ks_http1_call_new, http1,       /* */
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
        struct ks_http1_wire *wire = KS_LIST_ENTRY(cursor, struct ks_http1_wire, link);
        if (wire->call == NULL)
            continue;
        wire->call->gone = true;
        ks_http1_call_resume(wire->call);
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
