/* SPDX-License-Identifier: Apache-2.0 */
/* tunnel.h - a small HTTP proxy on the loopback interface, for tests of HTTP clients: it knows CONNECT.
 *
 * Whatever host is asked for, it connects to one port of this machine. It serves one connection after
 * the other, on a thread of its own.
 */
#ifndef KS_TUNNEL_H
#define KS_TUNNEL_H

#include "certificates.h"

#include <stddef.h>

struct tunnel;

/* Listens at once. `target` is a URL of 127.0.0.1 with a port. `refusal` NULL: it opens; else it answers
 * so ("407 Proxy Authentication Required"). `tls` NULL: a proxy without; else it is taken. */
struct tunnel *tunnel_start(const char *target, const char *refusal, SSL_CTX *tls);
/* "127.0.0.1:port". */
const char *tunnel_address(const struct tunnel *tunnel);
/* Heads of CONNECT that came so far, and the last of them, NUL-terminated; good until the next call. */
size_t tunnel_count(struct tunnel *tunnel);
const char *tunnel_head(struct tunnel *tunnel);
void tunnel_stop(struct tunnel *tunnel);

#endif
