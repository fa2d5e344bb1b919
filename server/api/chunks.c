/* SPDX-License-Identifier: Apache-2.0 */
#include "api/chunks.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "api/exchange.h"
#include "api/socket.h"

enum {
    LINE_MAX_BYTES = 16,
    PARTS = 3,
    CHUNKS_MAX =
        2 /* Of one call in one turn: others wait, and what was just read is still in the cache. */
};

void ks_chunks_init(struct ks_chunks *chunks, int fd, bool plain)
{
    *chunks = (struct ks_chunks){.fd = fd, .plain = plain};
    ks_bytes_init(&chunks->rest, KS_CHUNK_BYTES + 2 * LINE_MAX_BYTES);
}

static struct iovec part_of(ks_view bytes)
{
    union {
        const uint8_t *from;
        uint8_t *to;
    } data = {.from = bytes.data}; /* sendmsg() only reads it. */

    return (struct iovec){data.to, bytes.size};
}

/* Returns how many bytes the socket took; -1: it is broken. */
static ssize_t send_parts(const struct ks_chunks *chunks, struct iovec *parts, size_t count)
{
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = count};
    ssize_t sent = sendmsg(chunks->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);

    return sent < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : sent;
}

/* `sent` bytes went of a line of `*before` bytes and a body of `*body` bytes behind it: both become what is left.
 * Returns how many of them were of the body. */
static size_t pass(size_t sent, size_t *before, size_t *body)
{
    size_t line = sent < *before ? sent : *before;
    size_t size = sent - line < *body ? sent - line : *body;

    *before -= line;
    *body -= size;
    return size;
}

/* Keeps what follows the first `sent` bytes. */
static bool keep(struct ks_chunks *chunks, const struct iovec *parts, size_t count, size_t sent)
{
    for (size_t i = 0; i < count; i++) {
        size_t skip = sent < parts[i].iov_len ? sent : parts[i].iov_len;

        sent -= skip;
        if (!ks_ok(ks_bytes_append(&chunks->rest, ks_view_of((uint8_t *)parts[i].iov_base + skip,
                                                             parts[i].iov_len - skip))))
            return false;
    }
    return true;
}

/* Sends a chunk. What the socket does not take is copied, and waits. False: the connection is broken. */
static bool send_chunk(struct ks_chunks *chunks, ks_view body, size_t *ret_sent)
{
    char line[LINE_MAX_BYTES];
    int size = snprintf(line, sizeof(line), "%zx\r\n", body.size);
    struct iovec parts[PARTS] = {part_of(ks_view_of(line, (size_t)size)), part_of(body),
                                 part_of(KS_VIEW("\r\n"))};
    size_t first = chunks->plain ? 1 : 0;
    size_t count = chunks->plain ? 1 : PARTS;
    ssize_t sent;

    assert(!ks_chunks_waiting(chunks));
    *ret_sent = 0;
    sent = send_parts(chunks, parts + first, count);
    if (sent < 0)
        return false;
    chunks->before = chunks->plain ? 0 : (size_t)size;
    chunks->body = body.size;
    *ret_sent = pass((size_t)sent, &chunks->before, &chunks->body);
    return keep(chunks, parts + first, count, (size_t)sent);
}

/* Sends what waits. */
static bool flush(struct ks_chunks *chunks, size_t *ret_sent)
{
    struct iovec part = part_of(ks_bytes_view(&chunks->rest));
    ssize_t sent = 0;

    *ret_sent = 0;
    if (part.iov_len > 0)
        sent = send_parts(chunks, &part, 1);
    if (sent < 0)
        return false;
    *ret_sent = pass((size_t)sent, &chunks->before, &chunks->body);
    ks_bytes_consume(&chunks->rest, (size_t)sent);
    if (chunks->rest.size == 0)
        ks_bytes_free(&chunks->rest);
    return true;
}

static bool flush_rest(struct ks_chunks *chunks, struct ks_exchange *exchange)
{
    size_t sent = 0;

    if (!ks_exchange_may_send(exchange) || !flush(chunks, &sent))
        return false;
    ks_exchange_sent(exchange, sent);
    return true;
}

/* Bytes that the socket takes now. Bytes beyond these would wait here, and their records would be half-way. */
static size_t chunk_room(const struct ks_chunks *chunks)
{
    size_t room = ks_socket_room(chunks->fd);

    room = room < KS_CHUNK_BYTES ? room : KS_CHUNK_BYTES;
    return room > KS_FILL_MIN ? room : KS_FILL_MIN;
}

static enum ks_flow fill_chunk(struct ks_chunks *chunks, struct ks_exchange *exchange)
{
    static uint8_t buffer[KS_CHUNK_BYTES];
    enum ks_fill how = KS_FILL_ABORT;
    size_t room = chunk_room(chunks);
    size_t size = exchange->answer.fill(exchange, buffer, room, &how);
    size_t sent;

    assert(size <= room && (size > 0) == (how == KS_FILL_MORE));
    chunks->made += size;
    switch (how) {
    case KS_FILL_MORE:
        if (!send_chunk(chunks, ks_view_of(buffer, size), &sent))
            return KS_FLOW_CUT;
        ks_exchange_sent(exchange, sent);
        return ks_chunks_waiting(chunks) ? KS_FLOW_WAIT : KS_FLOW_MORE;
    case KS_FILL_WAIT: return KS_FLOW_WAIT;
    case KS_FILL_END: return KS_FLOW_END;
    case KS_FILL_ABORT: break;
    }
    return KS_FLOW_ABORT;
}

enum ks_flow ks_chunks_pump(struct ks_chunks *chunks, struct ks_exchange *exchange)
{
    enum ks_flow flow = KS_FLOW_MORE;

    if (ks_chunks_waiting(chunks) && !flush_rest(chunks, exchange))
        return KS_FLOW_CUT;
    if (ks_chunks_waiting(chunks))
        return KS_FLOW_WAIT;
    for (int i = 0; i < CHUNKS_MAX && flow == KS_FLOW_MORE; i++)
        flow = fill_chunk(chunks, exchange);
    return flow;
}

bool ks_chunks_waiting(const struct ks_chunks *chunks)
{
    return chunks->rest.size > 0;
}

void ks_chunks_free(struct ks_chunks *chunks)
{
    ks_bytes_free(&chunks->rest);
    chunks->before = chunks->body = 0;
}
