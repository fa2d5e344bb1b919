/* SPDX-License-Identifier: Apache-2.0 */
/* http1.h - HTTP/1.1: libmicrohttpd's only home.
 *
 * The daemon has no listening socket and no thread: connections are given to it, its epoll
 * descriptor is watched by the loop, and it runs at the end of a turn when something is ready,
 * resumed, or due. What it is lenient about is refused here at the first sight of a request: more
 * than one Content-Length or Host, Content-Length beside Transfer-Encoding, an unknown transfer
 * coding, a NUL in the request line.
 */
#ifndef KS_API_HTTP1_H
#define KS_API_HTTP1_H

#include "api/exchange.h"
#include "base/loop.h"

struct ks_http1;

/* Starts the daemon. SYSTEM, NO_MEMORY. */
KS_MUST_USE ks_err ks_http1_new(struct ks_api *api, struct ks_loop *loop,
                                struct ks_http1 **ret_http1);
/* Cuts every connection and frees. NULL is allowed. */
void ks_http1_free(struct ks_http1 *http1);

struct ks_wire_config {
    int fd; /* Connected, non-blocking. */
    bool ops;
    enum ks_peer peer;
    ks_instant deadline; /* Of the first whole request head. */
};

/* Takes the connection over, whatever happens; ks_doors_left() is told when it is gone. */
void ks_http1_take(struct ks_http1 *http1, const struct ks_wire_config *config);
/* True while a request is being answered. */
bool ks_http1_busy(const struct ks_http1 *http1);

#endif
