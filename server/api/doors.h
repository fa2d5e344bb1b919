/* SPDX-License-Identifier: Apache-2.0 */
/* doors.h - the listening sockets: accepts, looks at the first three bytes, hands over.
 *
 * A connection that has said nothing costs a small struct and a timer; only with its first bytes it
 * becomes HTTP/1.1 (http1.h). "PRI" begins HTTP/2, which is not spoken yet: it is answered 505 and
 * closed. The ops addresses have their own small number of connections, so that a crowd at the
 * local API never makes a probe fail.
 */
#ifndef KS_API_DOORS_H
#define KS_API_DOORS_H

#include "api/exchange.h"
#include "base/loop.h"

struct ks_doors;
struct ks_http1;

enum { KS_OPS_CONNECTIONS_MAX = 64 };

struct ks_doors_config {
    struct ks_loop *loop;
    struct ks_http1 *http1;
    const char *listen;
    bool listen_is_default;
    const char *ops_listen;
    uint32_t connections_max;
};

/* Listens at all addresses. INVALID, EXISTS, SYSTEM, NO_MEMORY. */
KS_MUST_USE ks_err ks_doors_new(const struct ks_doors_config *config, struct ks_doors **ret_doors,
                                struct ks_detail *detail);
/* Closes the listening sockets and the connections that were not handed over yet. */
void ks_doors_free(struct ks_doors *doors);
/* A connection that was handed over is gone. */
void ks_doors_left(struct ks_doors *doors, bool ops);

#endif
