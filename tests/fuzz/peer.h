/* SPDX-License-Identifier: Apache-2.0 */
/* peer.h - what a peer says on a connection, over a real socket and the real loop.
 *
 * It comes in pieces: a byte of 0xFF is where one ends. A route takes bodies in parts and answers as much, one keeps
 * them and echoes.
 */
#ifndef KS_FUZZ_PEER_H
#define KS_FUZZ_PEER_H

#include "api/doors.h"
#include "api/http1.h"
#include "api/http2.h"
#include "api/routes.h"
#include "api/server.h"
#include "base/budget.h"
#include "base/log.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static struct ks_api *api;
static struct ks_loop *loop;

static inline size_t fill_much(struct ks_exchange *exchange, uint8_t *buffer, size_t room,
                               enum ks_fill *ret_fill)
{
    size_t *left = exchange->context;
    size_t size = *left < room ? *left : room;

    memset(buffer, 'm', size);
    *left -= size;
    *ret_fill = size > 0 ? KS_FILL_MORE : KS_FILL_END;
    if (size == 0)
        ks_exchange_trailer(exchange, "Grpc-Status", "0");
    return size;
}

static inline void part_came(struct ks_exchange *exchange, ks_view part, bool end)
{
    size_t *left = exchange->context;

    *left += part.size;
    if (part.size % 2 == 0)
        ks_exchange_consumed(exchange, part.size);
    if (end && !exchange->answered)
        ks_exchange_stream(exchange, "text/plain", fill_much);
    ks_exchange_wake(exchange);
}

static inline void closed(struct ks_exchange *exchange)
{
    free(exchange->context);
}

static inline void handle_stream(struct ks_exchange *exchange)
{
    exchange->context = calloc(1, sizeof(size_t));
    exchange->closed = closed;
    exchange->body_part = part_came;
    if (ks_request_header(&exchange->request, "early").data != NULL)
        ks_exchange_stream(exchange, "text/plain", fill_much);
}

static inline void handle_body(struct ks_exchange *exchange)
{
    ks_exchange_reply(exchange, 200, "text/plain", &exchange->request.body);
}

static const struct ks_route streamed = {handle_stream,  KS_DOOR_OPS,    KS_WHO_APP,
                                         KS_METHOD_POST, "/s",           "",
                                         KS_ROUTE_ANY,   KS_BODY_STREAM, ""};
static const struct ks_route whole = {handle_body, KS_DOOR_OPS, KS_WHO_APP,   KS_METHOD_POST,
                                      "/",         "",          KS_ROUTE_ANY, KS_BODY_MESSAGE,
                                      ""};

/* No real route runs: there is no switchboard behind it. */
static const struct ks_route *find(struct ks_exchange *exchange)
{
    return exchange->request.decoded.path.size > 1 ? &streamed : &whole;
}

static struct sockaddr_un address = {.sun_family = AF_UNIX};

static inline void leave(void)
{
    ks_doors_free(api->doors);
}

/* At the ops side: there the table has nothing that needs a switchboard. */
static inline void begin(void)
{
    static char listen[2][120];
    struct ks_detail detail;
    struct ks_doors_config doors = {
        .listen = listen[0], .ops_listen = listen[1], .connections_max = 4};

    (void)snprintf(address.sun_path, sizeof(address.sun_path), "/tmp/ks-fuzz-http-%d",
                   (int)getpid());
    (void)snprintf(listen[0], sizeof(listen[0]), "unix:%s-local", address.sun_path);
    (void)snprintf(listen[1], sizeof(listen[1]), "unix:%s", address.sun_path);
    api = calloc(1, sizeof(*api));
    ks_log_open(2, KS_LOG_ERROR, KS_LOG_TEXT);
    if (!ks_ok(ks_loop_new(&loop)))
        abort();
    api->loop = doors.loop = loop;
    api->request_bytes_max = 1000;
    api->find_more = find;
    doors.accounts = &api->accounts;
    doors.ops_accounts = &api->ops_accounts;
    ks_accounts_begin(&api->accounts, loop, 0, false);
    ks_accounts_begin(&api->ops_accounts, loop, 0, true);
    if (!ks_ok(ks_http1_new(api, loop, &api->http1)) ||
        !ks_ok(ks_http2_new(api, loop, &api->http2)))
        abort();
    doors.http1 = api->http1;
    /* For a peer that says PRI. */
    doors.http2 = api->http2;
    if (!ks_ok(ks_doors_new(&doors, &api->doors, &detail)))
        abort();
    (void)atexit(leave);
}

/* Lets both sides work until there is nothing more to hear. */
static inline void turn(int fd)
{
    static uint8_t ignored[1 << 20];
    bool heard = true;

    for (int i = 0; i < 100 && heard; i++) {
        heard = i < 2;
        ks_loop_turn(loop, ks_span_ms(0));
        while (recv(fd, ignored, sizeof(ignored), MSG_DONTWAIT) > 0)
            heard = true;
    }
}

/* Says `opening` and then the pieces of `data`, and hangs up: nothing of it is kept. */
static inline void hear_peer(ks_view opening, const uint8_t *data, size_t size)
{
    ks_view rest = ks_view_of(data, size);
    int64_t live;
    int fd;

    if (api == NULL)
        begin();
    live = ks_alloc_live();
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
        abort();
    if (opening.size != 0)
        (void)send(fd, opening.data, opening.size, MSG_NOSIGNAL);
    while (rest.data != NULL) {
        ks_view piece = ks_view_cut(&rest, 0xFF);
        (void)send(fd, piece.data, piece.size, MSG_NOSIGNAL);
        turn(fd);
    }
    (void)close(fd);
    for (int i = 0; i < 5; i++)
        ks_loop_turn(loop, ks_span_ms(0));
    assert(!ks_http1_busy(api->http1));
    assert(!ks_http2_busy(api->http2));
    for (int kind = 0; kind < KS_HELD_KINDS; kind++)
        assert(api->accounts.held[kind] == 0 && api->ops_accounts.held[kind] == 0);
    assert(ks_alloc_live() == live);
}

#endif
