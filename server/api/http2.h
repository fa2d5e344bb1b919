/* SPDX-License-Identifier: Apache-2.0 */
/* http2.h - HTTP/2 without TLS, by prior knowledge: nghttp2's home, with http2_session.c and
 * http2_stream.c.
 *
 * nghttp2 does no I/O: what a socket has is given to its session, and at the end of a turn of the
 * loop what the sessions have to say is sent. A stream is an exchange. What a connection can cost
 * is bounded: streams, headers, bodies, frames that wait for a peer that does not read, resets.
 */
#ifndef KS_API_HTTP2_H
#define KS_API_HTTP2_H

#include "api/exchange.h"
#include "base/loop.h"

struct ks_http2;
struct ks_wire_config;

/* NO_MEMORY. */
KS_MUST_USE ks_err ks_http2_new(struct ks_api *api, struct ks_loop *loop,
                                struct ks_http2 **ret_http2);
/* Says GOAWAY to everybody, cuts every connection and frees. NULL is allowed. */
void ks_http2_free(struct ks_http2 *http2);
/* Takes the connection over, whatever happens; ks_doors_left() is told when it is gone. */
void ks_http2_take(struct ks_http2 *http2, const struct ks_wire_config *config);
/* Answers instead of taking it: GOAWAY. The caller closes. */
void ks_http2_refuse(int fd);
/* The process is about to end: tells every peer (GOAWAY, with the notice that RFC 9113, section 6.8
 * wants first), lets what is under way come to its end, and closes. */
void ks_http2_finish(struct ks_http2 *http2);
/* True while a request is being answered, or a peer has not heard that the end is near. */
bool ks_http2_busy(const struct ks_http2 *http2);

#endif
