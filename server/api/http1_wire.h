/* SPDX-License-Identifier: Apache-2.0 */
/* http1_wire.h - the inside of HTTP/1: a connection and its request. Private to http1*.c.
 *
 * http1.c owns the daemon, connections and deadlines, http1_call.c turns a request into an exchange. */
#ifndef KS_API_HTTP1_WIRE_H
#define KS_API_HTTP1_WIRE_H

#include <microhttpd.h>

#include "api/account.h"
#include "api/chunks.h"
#include "api/exchange.h"
#include "api/http1.h"
#include "api/linger.h"
#include "base/list.h"

/* One connection. */
struct ks_http1_wire {
    struct ks_watch watch; /* Tells when the peer is gone: a suspended connection does not. */
    struct ks_timer timer; /* Of the next whole head, or of the body. */
    struct ks_link link;
    struct ks_http1 *http1;
    struct MHD_Connection *connection; /* NULL until the daemon knows it. */
    struct ks_http1_call *call;        /* The request that is under way, or NULL. */
    bool unread;                       /* A body was refused, its sender may not have noticed. */
    bool refused;                      /* The answer was sent past the daemon; no other follows. */
    bool ended;                        /* The peer has closed its side: what was sent is all. */
    struct ks_account account;
    bool ops;
    enum ks_peer peer;
};

/* STEP_RUN: the request is whole, and waits until work may be done for its connection. */
enum step { STEP_HEAD, STEP_BODY, STEP_RUN, STEP_HANDLER, STEP_ANSWER };

/* One request on it. */
struct ks_http1_call {
    struct ks_exchange exchange;
    struct ks_http1_wire *wire;
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
    size_t unread;    /* Bytes of the parts that the handler has not given back. */
    size_t charged;   /* Of bodies, to the account. */
    size_t rest_held; /* Of answers, likewise. */
    size_t rest;      /* What waited for the socket when it last took enough. */
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
    struct ks_http1_wire *taking; /* The connection that is being given to the daemon. */
    ks_instant due;               /* The daemon's own next deadline. */
    uint32_t calls;
    bool closing;
    bool pending; /* The daemon has something to do. */
};

/* ---- http1.c ---- */

/* The daemon works at the end of this turn, or of the next one. */
void ks_http1_run_soon(struct ks_http1 *http1);
/* Likewise the call is looked at. */
void ks_http1_pump_soon(struct ks_http1_call *call);
/* When the connection is late, if nothing comes of it meanwhile. */
void ks_http1_set_deadline(struct ks_http1_wire *wire, int64_t wait_ms);

/* ---- http1_call.c ---- */

/* The daemon's callbacks: of a request line, of what follows, and of the end of an answer. `arg` is the ks_http1. */
void *ks_http1_call_new(void *arg, const char *target, struct MHD_Connection *connection);
enum MHD_Result ks_http1_call_work(void *arg, struct MHD_Connection *connection, const char *url,
                                   const char *method, const char *version, const char *data,
                                   size_t *size, void **context);
void ks_http1_call_completed(void *arg, struct MHD_Connection *connection, void **context,
                             enum MHD_RequestTerminationCode why);
void ks_http1_call_free(struct ks_http1_call *call);
/* The daemon goes on with it, if it waited. */
void ks_http1_call_resume(struct ks_http1_call *call);
/* Its connection is cut. */
void ks_http1_call_cut(struct ks_http1_call *call);
/* Writes the body while there is some, and the socket takes it. Returns how many bytes were made. */
size_t ks_http1_call_pump(struct ks_http1_call *call);

#endif
