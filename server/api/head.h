/* SPDX-License-Identifier: Apache-2.0 */
/* head.h - judges the header lines of a request: what HTTP/1.1 (RFC 9112) and HTTP/2 (RFC 9113) ask
 * of them where libmicrohttpd and nghttp2 are lenient, and our own limits. */
#ifndef KS_API_HEAD_H
#define KS_API_HEAD_H

#include "api/exchange.h"

/* What is gathered while the lines go by. */
struct ks_head {
    struct ks_headers *headers; /* Where lines are kept: the request's. */
    size_t most;                /* Bytes that there may be, the target's included. */
    bool all;                   /* All lines are kept, not only those that our own code asks for. */
    uint8_t http;               /* As in ks_request. */
    bool host_may_be_absent;    /* HTTP/1.0, and HTTP/2 for lack of a better rule. */
    bool whole;                 /* The target was read as it was sent: no NUL in it. */
    bool ended;                 /* HTTP/2: there is no body. */
    bool malformed; /* A byte that no name or no value may hold, or a line that was folded. */
    bool no_memory; /* A line was not kept. */
    size_t bytes;
    uint32_t hosts;
    uint32_t lengths;
    uint32_t codings;
};

/* Takes one header line; it is copied if it is kept. */
void ks_head_line(struct ks_head *head, ks_view name, ks_view value);
/* Fills in the request from the head; its target is set. False if it is refused: then the exchange
 * is answered, and closes. */
bool ks_head_judge(const struct ks_head *head, struct ks_exchange *exchange);

/* What is wrong with the target of a request line, path and query; NULL: nothing. */
const char *ks_head_target_refusal(ks_view target);

/* Judges the first request line of a connection before libmicrohttpd does, whose answers are HTML. `start` is what has
 * come so far. Returns true if the line is there and is to be refused. A line that is not whole, an empty one and one
 * that is not refused here are left to libmicrohttpd. */
bool ks_head_refuses_line(ks_view start, enum ks_problem *ret_problem, const char **ret_why);

#endif
