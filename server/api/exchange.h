/* SPDX-License-Identifier: Apache-2.0 */
/* exchange.h - one request and its answer, without the wire: what handlers see of HTTP.
 *
 * A transport (http1.c, http2.c) makes the exchange, fills in `request`, and calls
 * ks_exchange_begin() when the head is whole and ks_exchange_run() when the body is. A handler
 * answers at once or later, on the loop, exactly once: with a fixed body, a problem, or a producer
 * that is asked for bytes while there is room. A handler that keeps state sets `context` and
 * `closed`; `closed` is called exactly once, when the answer is out, or the client has left or has
 * cancelled (RST_STREAM); after it the exchange must not be touched.
 *
 * Bodies that come in parts. For a route with the body STREAM (or if whoever finds the route sets
 * `streamed`), the handler runs as soon as the head is whole. It sets `body_part` before it
 * returns, or answers. The transport then calls
 *     body_part(exchange, part, end)
 * for what comes, in order, never within a call of the handler's; `part` lives as long as the call.
 * The last call, and only it, has `end` true; its part may be empty. Each byte must be given back
 * by ks_exchange_consumed(), in that call or later: the transport reads on only while less than
 * KS_BODY_WINDOW bytes are not given back, and that, and one read of a socket more, is the most
 * that it ever hands over; so a handler that cannot go on gives nothing back, and the client waits.
 * A handler that wants no more sets `body_part` to NULL: the rest is thrown away, what was handed
 * over counts as given back. A fixed answer or
 * a problem does that by itself; a producer (ks_exchange_stream) does not.
 * HTTP/2 is full duplex: an answer begins while parts still come. On HTTP/1.1 an answer leaves only
 * when the request has ended (libmicrohttpd 0.9.75 throws the rest away otherwise): a handler that
 * must talk both ways at once looks at request.http and answers 505.
 *
 * Trailers: ks_exchange_trailer(), until the producer has said END, or in the call that gives a
 * fixed answer. HTTP/2 sends them behind the body. On HTTP/1.1 they are never sent: what needs them
 * must refuse it. An answer with an empty body and without trailers is one HEADERS frame that ends
 * the stream: gRPC's Trailers-Only is a reply with an empty body whose ks_exchange_header() lines
 * are the trailers.
 */
#ifndef KS_API_EXCHANGE_H
#define KS_API_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/headers.h"
#include "api/limits.h"
#include "api/problem.h"
#include "api/query.h"
#include "base/bytes.h"

struct ProtobufCMessage;
struct ks_account;
struct ks_api;
struct ks_decoding;
struct ks_exchange;
struct ks_route;
struct ks_rpc_call;
struct ks_subscription;

enum ks_method { KS_METHOD_GET, KS_METHOD_POST, KS_METHOD_PUT, KS_METHOD_DELETE, KS_METHOD_OTHER };
enum ks_peer { KS_PEER_TCP, KS_PEER_UNIX };

/* Views live as long as the exchange. A header that is absent has data NULL. */
struct ks_request {
    enum ks_method method;
    uint8_t http;              /* 1: HTTP/1.0 or 1.1. 2: HTTP/2. */
    struct ks_headers headers; /* The lines that are asked for (head.c), names in lower case. */
    ks_view target;            /* Path and query as sent; the transport's. */
    struct ks_target decoded;  /* The exchange's. */
    ks_view part;              /* What stands for {..} of the route's path. */
    /* Of the headers. */
    ks_view host; /* Host, or :authority. */
    ks_view origin;
    ks_view fetch_site;
    ks_view authorization;
    ks_view accept;
    ks_view content_type;
    enum ks_peer peer;
    bool ops;              /* Came in by an ops address. */
    bool may_order;        /* It has the operator's token, or none is wanted. */
    const char *authority; /* For logs, static: "the operator's token"; never the token itself. */
    size_t held;           /* What the head takes, charged to the account. */
    bool has_body;         /* There is a body, of a known length or not. */
    uint64_t length;       /* Content-Length; UINT64_MAX if it is not known. */
    struct ks_bytes body;  /* Whole; empty if it is streamed. */
};

/* What became of a call of a producer. */
enum ks_fill {
    KS_FILL_MORE, /* Bytes were written; ask again. */
    KS_FILL_WAIT, /* Nothing now: ks_exchange_wake() will be called. */
    KS_FILL_END,  /* The answer is complete. */
    KS_FILL_ABORT /* The answer must not be completed: cut the connection. */
};

/* Writes up to `room` (at least KS_FILL_MIN) bytes of an answer and returns how many; MORE exactly
 * if there are any. */
typedef size_t ks_producer(struct ks_exchange *exchange, uint8_t *buffer, size_t room,
                           enum ks_fill *ret_fill);

struct ks_answer {
    uint16_t status;
    const char *content_type; /* Static. */
    struct ks_bytes body;
    struct ks_headers headers;
    struct ks_headers trailers;
    bool broken;       /* A line of them was lost: the transport cuts the answer. */
    bool close;        /* The connection ends with this answer; HTTP/2 ends the stream alone. */
    bool failing;      /* It says why there is no other: there must be room for it. */
    size_t held;       /* Charged to the account. */
    ks_producer *fill; /* Of a streamed answer. */
    /* Bytes of `body` that its producer wrote, and those that are in the socket's buffer. */
    size_t poured;
    size_t sent;
};

struct ks_transport {
    /* The answer is there, or the producer has more. Never calls back within the call. */
    void (*wake)(struct ks_exchange *exchange);
    /* So many bytes of the parts are dealt with. Never calls back within the call. */
    void (*consumed)(struct ks_exchange *exchange, size_t size);
};

/* Where answers go that have no wire of their own: a part of a stream (questions.h). */
struct ks_inner {
    void (*message)(struct ks_exchange *exchange, const struct ProtobufCMessage *message);
    void (*problem)(struct ks_exchange *exchange, enum ks_problem problem, const char *text);
};

struct ks_exchange {
    struct ks_api *api;
    const struct ks_transport *transport;
    struct ks_account *account; /* Of the connection; NULL: nobody pays. */
    struct ks_request request;
    const struct ks_route *route;
    struct ks_rpc_call *rpc;              /* The call of a method, if it is one. */
    struct ks_decoding *decoding;         /* decode.c: its message is being read. */
    const struct ks_inner *inner;         /* NULL: it has a wire. */
    struct ks_subscription *subscription; /* That it is about; NULL: not said, or all. */
    bool streamed; /* The body comes in parts: set when the route is found. */
    bool answered;
    struct ks_answer answer;
    /* The handler's own. */
    void *context;
    void (*body_part)(struct ks_exchange *exchange, ks_view part, bool end);
    void (*closed)(struct ks_exchange *exchange);
    /* NULL, or: so many more of the bytes that the producer wrote, in their order, are in the socket's buffer. Of an
     * answer that is one body: SIZE_MAX, once, when all of it is there. */
    void (*sent)(struct ks_exchange *exchange, size_t size);
    /* NULL, or: false if bytes of the answer that wait for the socket must not be sent any more. The transport
     * asks before it sends what waited, and cuts the connection. */
    bool (*may_send)(struct ks_exchange *exchange);
};

/* Call once the exchange is zeroed and `api` and `transport` are set. */
void ks_exchange_init(struct ks_exchange *exchange, struct ks_api *api,
                      const struct ks_transport *transport);
/* Calls `closed` if it is set and gives the memory of request and answer back; the target and the
 * headers belong to the transport. */
void ks_exchange_end(struct ks_exchange *exchange);

/* ---- For transports ---- */

/* The head is whole: checks who asks, finds the route, judges the announced body. Afterwards either
 * `answered`; or `streamed`: run the handler, then hand over the parts; or the body (if any) is
 * wanted: append it to request.body, whose `max` is the limit. */
void ks_exchange_begin(struct ks_exchange *exchange);
/* The body is whole, or it is streamed: runs the handler. */
void ks_exchange_run(struct ks_exchange *exchange);
/* Hands a part of a streamed body to the handler. False if nobody wants more (any more): then all
 * parts until now count as consumed. */
bool ks_exchange_part(struct ks_exchange *exchange, ks_view part, bool end);

/* Has a producer write the body of an answer that is one body, for a transport that reports what is in the socket of
 * what producers write. */
void ks_exchange_pour(struct ks_exchange *exchange);
/* So many more bytes of the answer's body are in the socket's buffer. */
void ks_exchange_sent(struct ks_exchange *exchange, size_t size);
/* False if bytes of the answer that wait for the socket must not be sent any more. */
bool ks_exchange_may_send(struct ks_exchange *exchange);

/* ---- For handlers ---- */

/* Whether the request may order what an operator orders. False: it was answered. */
bool ks_exchange_may_order(struct ks_exchange *exchange);

/* Answers with `body`, which is moved (it is empty afterwards); or with a problem, if too many answers wait for their
 * clients. */
void ks_exchange_reply(struct ks_exchange *exchange, uint16_t status, const char *content_type,
                       struct ks_bytes *body);
/* The answer, or what is read to make it, takes so many bytes from now on: to be asked before much is read. False: too
 * much is held for clients that do not take it; the exchange was answered with a problem. */
bool ks_exchange_hold(struct ks_exchange *exchange, size_t size);
/* Answers with the error body of the API. */
void ks_exchange_problem(struct ks_exchange *exchange, enum ks_problem problem, const char *format,
                         ...) __attribute__((format(printf, 3, 4)));
/* Answers with what `fill` will write. */
void ks_exchange_stream(struct ks_exchange *exchange, const char *content_type, ks_producer *fill);
/* Adds a header to the answer; before or after the answer was given, in the same call. Both are
 * copied. A line that ks_headers_add() refuses (all of them may have KS_ANSWER_HEAD_BYTES_MAX) cuts
 * the answer; whoever passes on foreign lines calls ks_headers_add(&exchange->answer.headers, ..)
 * itself and sees the error. */
void ks_exchange_header(struct ks_exchange *exchange, const char *name, const char *value);
/* Likewise a trailer: see above. */
void ks_exchange_trailer(struct ks_exchange *exchange, const char *name, const char *value);
/* Gives `size` bytes of the parts back: the client may send as many more. Does nothing for 0, or
 * when `body_part` is NULL. */
void ks_exchange_consumed(struct ks_exchange *exchange, size_t size);
/* The answer or more of it is ready. Handlers call it after they answered later than in their call.
 */
void ks_exchange_wake(struct ks_exchange *exchange);

/* The value of the first header of that name, whatever its case; data is NULL if it is absent. Only names that head.c
 * knows are kept, if the service does not want all: then ks_headers_next(&request->headers, ..) walks them. */
ks_view ks_request_header(const struct ks_request *request, const char *name);
/* The first value of a query parameter. False if it is not there. */
bool ks_request_param(const struct ks_request *request, const char *name, ks_view *ret_value);
/* A parameter as a number within limits, or `absent`. On a bad value the exchange is answered (400
 * that names the parameter and the limits) and false is returned. */
bool ks_request_number(struct ks_exchange *exchange, const char *name, uint64_t min, uint64_t max,
                       uint64_t absent, uint64_t *ret_value);

#endif
