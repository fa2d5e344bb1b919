/* SPDX-License-Identifier: Apache-2.0 */
/* http1_head.h - judges the header lines of an HTTP/1.1 request (RFC 9112), where libmicrohttpd is
 * lenient. */
#ifndef KS_API_HTTP1_HEAD_H
#define KS_API_HTTP1_HEAD_H

#include "api/exchange.h"

/* What is gathered while the lines go by. */
struct ks_head {
    struct ks_headers *headers; /* Where the lines are kept: the request's. */
    const char *version;
    bool whole; /* The target was read as it was sent: no NUL in it. */
    size_t bytes;
    bool no_memory; /* A line was not kept. */
    bool malformed; /* A byte that no name or no value may hold, or a line that was folded. */
    uint32_t hosts;
    uint32_t lengths;
    uint32_t codings;
    ks_view host;
    ks_view length;
    ks_view coding;
    ks_view origin;
    ks_view fetch_site;
    ks_view authorization;
    ks_view accept;
    ks_view content_type;
};

/* Takes one header line; the views live as long as the request. */
void ks_head_line(struct ks_head *head, ks_view name, ks_view value);
/* Fills in the request from the head. False if it is refused: then the exchange is answered, and
 * closes. */
bool ks_head_judge(const struct ks_head *head, struct ks_exchange *exchange);

#endif
