/* SPDX-License-Identifier: Apache-2.0 */
/* chunks.h - the body of a streamed answer on HTTP/1, written into the socket.
 *
 * libmicrohttpd reads the request, and sends the head of the answer and its end. The body between them is written here:
 * so it is known of each byte whether it is in the socket, and no more than one chunk waits in memory for a client
 * that does not read. HTTP/1.1 frames it as chunks (RFC 9112, section 7.1), HTTP/1.0 not at all.
 */
#ifndef KS_API_CHUNKS_H
#define KS_API_CHUNKS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/bytes.h"

struct ks_exchange;

struct ks_chunks {
    int fd;               /* Of the caller. */
    bool plain;           /* The body is not framed. */
    uint64_t made;        /* Bytes that the producer wrote so far. */
    struct ks_bytes rest; /* What the socket did not take of the last chunk. */
    size_t before;        /* Of the rest: bytes of the line that stands before the body, .. */
    size_t body;          /* .. and bytes of the body. */
};

enum ks_flow {
    KS_FLOW_WAIT, /* The producer has nothing now, or bytes wait for the socket. */
    KS_FLOW_MORE, /* There may be more: others come first. */
    KS_FLOW_CUT,  /* The connection is broken, or what waits may not be sent any more. */
    KS_FLOW_END,  /* The body is out. */
    KS_FLOW_ABORT /* The producer can't complete the answer. */
};

void ks_chunks_init(struct ks_chunks *chunks, int fd, bool plain);
/* Has the producer of the answer write, and sends, while there is more and the socket takes it; a few chunks at most.
 * The exchange is told how many of its bytes are in the socket's buffer (ks_exchange_sent), and asked before what
 * waited is sent (ks_exchange_may_send). Not again after CUT, END or ABORT. */
enum ks_flow ks_chunks_pump(struct ks_chunks *chunks, struct ks_exchange *exchange);
/* True while bytes wait for the socket. */
bool ks_chunks_waiting(const struct ks_chunks *chunks);
/* Forgets what waits. */
void ks_chunks_free(struct ks_chunks *chunks);

#endif
