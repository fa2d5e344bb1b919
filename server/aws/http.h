/* SPDX-License-Identifier: Apache-2.0 */
/* http.h - the one HTTP client: requests go out over kept connections, answers come back on the
 * loop.
 *
 * The home of libcurl. TLS 1.2 or newer with verification, always. No redirects, no compression, no
 * cookies, no `Expect`; HTTP/1.1, but for streams. A request is sent at most once: a kept connection
 * that dies before the answer is CONNECTION, never a silent second sending (a conditional write
 * that was sent twice would be refused by its own first copy). An answer never arrives inside the
 * call that asked for it, and arrives exactly once, unless the call is cancelled: then never. Loop
 * thread only.
 *
 * A stream is an answer that goes on for minutes. It comes over HTTP/2 where the server speaks it (by
 * ALPN; a plain http server is taken to speak it), on a connection of its own that nobody uses before
 * or after: what is not taken stays in the network and on the server, and holds up nobody else.
 */
#ifndef KS_AWS_HTTP_H
#define KS_AWS_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "aws/head.h"
#include "aws/proxy.h"
#include "base/bytes.h"
#include "base/instant.h"
#include "base/loop.h"

struct ks_http;
struct ks_http_call;

struct ks_http_options {
    const char *ca_bundle; /* PEM file; NULL or "": the first of the system's well-known places. */
    const struct ks_proxies *proxies; /* NULL: none. Copied. */
    uint32_t
        connections_kept; /* Idle connections that are kept for the next request, beside as many as were busy at
                                  once. 0: 64. */
    ks_span connect_timeout; /* Name, TCP and TLS together. 0: 3.1 s (one lost SYN may be sent
                                  again). */
};

/* INVALID (a CA bundle was named and cannot be read), NO_MEMORY. */
KS_MUST_USE ks_err ks_http_new(struct ks_loop *loop, const struct ks_http_options *options,
                               struct ks_http **ret_http, struct ks_detail *detail);
/* Forgets open calls (they are never answered). Before ks_loop_free. NULL is allowed. */
void ks_http_free(struct ks_http *http);

/* Where a response body goes instead of memory of ours. Called while curl works: from within only
 * bytes are moved; no other function of this floor is called. */
struct ks_http_sink {
    /* A 2xx response begins (again, if an earlier attempt failed: forget what came). `size` is its
     * Content-Length, -1 if it did not say, `head` its header lines (aws/head.h), good during the call. A failure ends
     * the call with it. May be NULL. */
    ks_err (*begin)(void *arg, ks_view head, int64_t size);
    /* The next bytes. A failure (FULL, NO_MEMORY) ends the call with it; but of a stream, BUSY is: not
     * now. The same bytes come again after ks_http_resume, and nothing before. */
    ks_err (*part)(void *arg, ks_view bytes);
    void *arg;
};

struct ks_http_answer {
    ks_err err; /* KS_OK: a whole response, whatever its status. TIMEOUT, CONNECTION, FULL, .. */
    struct ks_detail detail; /* For people. */
    int status;              /* 0: none came. */
    bool sent;               /* Bytes of the request may have reached the server. */
    bool stale;      /* A kept connection died under it, or ran into the timeout, without a byte:
                                others of its age may be dead, too. */
    size_t received; /* Bytes of the body. */
    ks_view head;    /* The header lines of the response; aws/head.h. */
    ks_view body;    /* Empty where a sink took it. Both views: valid during the call of `done`. */
};

struct ks_http_request {
    const char *method;                   /* GET, POST, PUT, DELETE. */
    const char *url;                      /* http or https, without user info; copied. */
    const struct ks_http_header *headers; /* Host, Content-Length are ours if absent. Copied. */
    uint32_t header_count;
    ks_view body;               /* NOT copied: stays where it is until `done` or the cancel. */
    ks_span timeout;            /* From now to the last byte of the answer; a stream has none. */
    ks_span silence;            /* So long nothing may come, of a stream while it is wanted; then
                                   TIMEOUT. 0: no limit. */
    ks_span silence_kept;       /* On a kept connection, which may be dead; 0: the same. */
    ks_span silence_stream;     /* Within a stream, once it has begun; 0: the same. */
    ks_span connection_age_max; /* Of a kept connection; 0: any. */
    bool direct;                /* Through no proxy: what only this machine can reach. */
    bool stream;                /* With a sink; a 2xx has no maximum. */
    bool secret;                /* Nothing of the response stays in freed memory. */
    size_t response_max;
    const struct ks_http_sink *sink; /* NULL: none. Copied. Only for 2xx. */
    void (*done)(void *arg, const struct ks_http_answer *answer);
    void *arg;
};

/* Begins a call. INVALID (a URL or a header that is none), FULL (KS_HTTP_CALLS_MAX), NO_MEMORY:
 * then there is no call, and `done` is never called. `ret_call` is good until `done` is called. */
KS_MUST_USE ks_err ks_http_send(struct ks_http *http, const struct ks_http_request *request,
                                struct ks_http_call **ret_call);
/* Forgets the call; its connection is closed if it was in use. Not from within a sink. */
void ks_http_cancel(struct ks_http_call *call);

/* A stream goes on after its sink said BUSY; the sink may be called from within. Else nothing. Not from
 * within a sink. */
void ks_http_resume(struct ks_http_call *call);

/* For gauges: calls in flight. */
uint32_t ks_http_open_calls(const struct ks_http *http);

#endif
