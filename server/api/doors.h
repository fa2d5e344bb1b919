/* SPDX-License-Identifier: Apache-2.0 */
/* doors.h - the listening sockets: accepts, looks at the first three bytes, hands over.
 *
 * A connection that has said nothing is a guest: a small struct and a timer. With its first bytes
 * it becomes HTTP/2 (http2.h) if they are "PRI", else HTTP/1.1 (http1.h); only then it is counted
 * against --max-connections, over both; when there are as many, the one that is idle for the longest
 * is closed for it, and if none is, it is refused. Of guests there are KS_GUESTS_MAX at most; one more, or a
 * lack of file descriptors, costs the oldest its place: who has something to say says it soon. The
 * ops addresses have their own small numbers, so that a crowd at the local API never makes a probe
 * fail.
 */
#ifndef KS_API_DOORS_H
#define KS_API_DOORS_H

#include "api/exchange.h"
#include "base/loop.h"

struct ks_accounts;
struct ks_doors;
struct ks_http1;
struct ks_http2;

enum {
    KS_GUESTS_MAX = 10240,      /* Of the local addresses, at less than 1 KB each. */
    KS_OPS_GUESTS_MAX = 64,     /* Of the ops addresses. */
    KS_OPS_CONNECTIONS_MAX = 64 /* Likewise, once they spoke. */
};

struct ks_doors_config {
    struct ks_loop *loop;
    struct ks_http1 *http1;
    struct ks_http2 *http2;
    const char *listen;
    bool listen_is_default;
    const char *ops_listen;
    uint32_t connections_max;
    struct ks_accounts *accounts;     /* Of connections to the local addresses, .. */
    struct ks_accounts *ops_accounts; /* .. and to the ops addresses. */
};

/* Listens at all addresses. INVALID, EXISTS, SYSTEM, NO_MEMORY. */
KS_MUST_USE ks_err ks_doors_new(const struct ks_doors_config *config, struct ks_doors **ret_doors,
                                struct ks_detail *detail);
/* Closes the listening sockets and the connections that were not handed over yet. */
void ks_doors_free(struct ks_doors *doors);
/* A connection that was handed over is gone. */
void ks_doors_left(struct ks_doors *doors, bool ops);

#endif
