/* SPDX-License-Identifier: Apache-2.0 */
/* exchange.h - one request and its answer, without the wire: what handlers see of HTTP.
 *
 * A transport (http1.c; later HTTP/2) makes the exchange, fills in `request`, and calls
 * ks_exchange_begin() when the head is whole and ks_exchange_run() when the body is. A handler
 * answers at once or later, on the loop, exactly once: with a fixed body, a problem, or a producer
 * that is asked for bytes while there is room. A handler that keeps state sets `context` and
 * `closed`; `closed` is called exactly once, when the answer is out or the client has left; after
 * it the exchange must not be touched.
 */
#ifndef KS_API_EXCHANGE_H
#define KS_API_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/limits.h"
#include "api/problem.h"
#include "api/query.h"
#include "base/bytes.h"

struct ks_api;
struct ks_exchange;
struct ks_route;
struct ks_subscription;

enum ks_method { KS_METHOD_GET, KS_METHOD_POST, KS_METHOD_PUT, KS_METHOD_DELETE, KS_METHOD_OTHER };
enum ks_peer { KS_PEER_TCP, KS_PEER_UNIX };

/* Views live as long as the exchange. A header that is absent has data NULL. */
struct ks_request {
    enum ks_method method;
    ks_view target;           /* Path and query as sent; the transport's. */
    struct ks_target decoded; /* The exchange's. */
    ks_view part;             /* What stands for {..} of the route's path. */
    ks_view host;
    ks_view origin;
    ks_view fetch_site;
    ks_view authorization;
    ks_view accept;
    ks_view content_type;
    enum ks_peer peer;
    bool ops;        /* Came in by an ops address. */
    bool has_body;   /* A Content-Length above 0, or chunks. */
    uint64_t length; /* Content-Length; UINT64_MAX for chunks. */
    struct ks_bytes body;
};

/* What became of a call of a producer. */
enum ks_fill {
    KS_FILL_MORE, /* Bytes were written; ask again. */
    KS_FILL_WAIT, /* Nothing now: ks_exchange_wake() will be called. */
    KS_FILL_END,  /* The answer is complete. */
    KS_FILL_ABORT /* The answer must not be completed: cut the connection. */
};

struct ks_answer_header {
    const char *name; /* Static. */
    char value[64];
};

struct ks_answer {
    uint16_t status;
    const char *content_type; /* Static. */
    struct ks_bytes body;
    struct ks_answer_header headers[KS_ANSWER_HEADERS_MAX];
    uint32_t header_count;
    bool close; /* The connection ends with this answer. */
    /* A streamed answer: writes up to `room` (at least KS_FILL_MIN) bytes and returns how many;
     * MORE exactly if there are any. */
    size_t (*fill)(struct ks_exchange *exchange, uint8_t *buffer, size_t room,
                   enum ks_fill *ret_fill);
};

struct ks_transport {
    /* The answer is there, or the producer has more. Never calls back within the call. */
    void (*wake)(struct ks_exchange *exchange);
};

struct ks_exchange {
    struct ks_api *api;
    const struct ks_transport *transport;
    struct ks_request request;
    const struct ks_route *route;
    struct ks_subscription *subscription; /* That it is about; NULL: not said, or all. */
    bool answered;
    struct ks_answer answer;
    /* The handler's own. */
    void *context;
    void (*closed)(struct ks_exchange *exchange);
};

/* Call once the exchange is zeroed and `api` and `transport` are set. */
void ks_exchange_init(struct ks_exchange *exchange, struct ks_api *api,
                      const struct ks_transport *transport);
/* Calls `closed` if it is set and gives the memory of request and answer back; the target and the
 * headers belong to the transport. */
void ks_exchange_end(struct ks_exchange *exchange);

/* ---- For transports ---- */

/* The head is whole: checks who asks, finds the route, judges the announced body. Afterwards either
 * `answered`, or the body (if any) is wanted: append it to request.body, whose `max` is the limit.
 */
void ks_exchange_begin(struct ks_exchange *exchange);
/* The body is whole: runs the handler. */
void ks_exchange_run(struct ks_exchange *exchange);

/* ---- For handlers ---- */

/* Answers with `body`, which is moved (it is empty afterwards). */
void ks_exchange_reply(struct ks_exchange *exchange, uint16_t status, const char *content_type,
                       struct ks_bytes *body);
/* Answers with the error body of the API. */
void ks_exchange_problem(struct ks_exchange *exchange, enum ks_problem problem, const char *format,
                         ...) __attribute__((format(printf, 3, 4)));
/* Answers with what `fill` will write. */
void ks_exchange_stream(struct ks_exchange *exchange, const char *content_type,
                        size_t (*fill)(struct ks_exchange *exchange, uint8_t *buffer, size_t room,
                                       enum ks_fill *ret_fill));
/* Adds a header to the answer; before or after the answer was given, in the same call. `name` is
 * static. */
void ks_exchange_header(struct ks_exchange *exchange, const char *name, const char *value);
/* The answer or more of it is ready. Handlers call it after they answered later than in their call.
 */
void ks_exchange_wake(struct ks_exchange *exchange);

/* The first value of a query parameter. False if it is not there. */
bool ks_request_param(const struct ks_request *request, const char *name, ks_view *ret_value);
/* A parameter as a number within limits, or `absent`. On a bad value the exchange is answered (400
 * that names the parameter and the limits) and false is returned. */
bool ks_request_number(struct ks_exchange *exchange, const char *name, uint64_t min, uint64_t max,
                       uint64_t absent, uint64_t *ret_value);

#endif
