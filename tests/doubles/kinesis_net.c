/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets, with and without TLS. */
#include "kinesis.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BACKLOG = 1024, EVENTS_MAX = 256, READ_BYTES = 256 << 10, WAIT_MS_MAX = 1000 };

struct connection {
    struct connection *woken_next;
    bool woken;
    int fd;
    SSL *ssl; /* NULL: plain. */
    bool shaken;
    bool broken, closing;
    bool polls_out;
    struct bytes in, out;
    /* One of them, when the first bytes have told. */
    struct h1 *h1;
    struct h2 *h2;
};

static int epoll = -1;
static struct listener {
    int fd;
    SSL_CTX *tls;
} listeners[4];
static uint32_t listener_count;
static struct connection *woken;

/* ---- Listening ---- */

/* HTTP/2 if the client wants it. */
static int choose_protocol(SSL *ssl, const uint8_t **ret_chosen, uint8_t *ret_size,
                           const uint8_t *offered, unsigned offered_size, void *arg)
{
    static const uint8_t ours[] = "\x02h2\x08http/1.1";
    uint8_t *chosen;

    (void)ssl;
    (void)arg;
    if (SSL_select_next_proto(&chosen, ret_size, ours, sizeof ours - 1, offered, offered_size) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_NOACK;
    *ret_chosen = chosen;
    return SSL_TLSEXT_ERR_OK;
}

static SSL_CTX *open_tls(const char *certificate, const char *key)
{
    SSL_CTX *tls = SSL_CTX_new(TLS_server_method());

    if (tls == NULL || SSL_CTX_set_min_proto_version(tls, TLS1_2_VERSION) != 1 ||
        SSL_CTX_use_certificate_chain_file(tls, certificate) != 1 ||
        SSL_CTX_use_PrivateKey_file(tls, key, SSL_FILETYPE_PEM) != 1)
        die("TLS with %s and %s: %s", certificate, key,
            ERR_reason_error_string(ERR_peek_last_error()));
    SSL_CTX_set_mode(tls, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_alpn_select_cb(tls, choose_protocol, NULL);
    return tls;
}

static void watch(int operation, int fd, uint32_t events, void *who)
{
    struct epoll_event event = {.events = events, .data.ptr = who};

    if (epoll_ctl(epoll, operation, fd, &event) != 0)
        die("epoll: %s", strerror(errno));
}

uint16_t net_listen(uint16_t port, const char *certificate, const char *key)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(port),
                                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof address;
    struct listener *listener = &listeners[listener_count++];
    int one = 1;

    if (epoll < 0)
        epoll = epoll_create1(EPOLL_CLOEXEC);
    listener->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (setsockopt(listener->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
        bind(listener->fd, (const struct sockaddr *)&address, size) != 0 ||
        listen(listener->fd, BACKLOG) != 0 ||
        getsockname(listener->fd, (struct sockaddr *)&address, &size) != 0)
        die("port %u: %s", port, strerror(errno));
    listener->tls = certificate == NULL ? NULL : open_tls(certificate, key);
    watch(EPOLL_CTL_ADD, listener->fd, EPOLLIN, listener);
    return ntohs(address.sin_port);
}

static void accept_one(const struct listener *listener)
{
    int fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    int one = 1;

    if (fd < 0)
        return;
    struct connection *connection = must_alloc(sizeof *connection);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    connection->fd = fd;
    if (listener->tls != NULL) {
        connection->ssl = SSL_new(listener->tls);
        if (connection->ssl == NULL || SSL_set_fd(connection->ssl, fd) != 1)
            die("no TLS session");
        SSL_set_accept_state(connection->ssl);
        counts.tls++;
    }
    counts.connections++;
    counts.connections_open++;
    watch(EPOLL_CTL_ADD, fd, EPOLLIN, connection);
}

/* ---- Bytes ---- */

void connection_wake(struct connection *connection)
{
    if (connection->woken)
        return;
    connection->woken = true;
    connection->woken_next = woken;
    woken = connection;
}

/* What TLS wants next; breaks the connection if it is over. */
static void tls_stopped(struct connection *connection, int result)
{
    int why = SSL_get_error(connection->ssl, result);

    if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE)
        connection->broken = true;
    ERR_clear_error();
}

/* Once; the rest comes in the next turn. */
static void read_some(struct connection *connection)
{
    uint8_t *room = bytes_room(&connection->in, READ_BYTES);
    size_t size = 0;

    if (connection->ssl != NULL) {
        int result = SSL_read_ex(connection->ssl, room, READ_BYTES, &size);
        if (result != 1) {
            tls_stopped(connection, result);
            size = 0;
        }
    } else {
        ssize_t got = recv(connection->fd, room, READ_BYTES, 0);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
            connection->broken = true;
        size = got > 0 ? (size_t)got : 0;
    }
    bytes_wrote(&connection->in, size);
    /* A socket that still holds bytes tells by itself, TLS does not. */
    if (connection->ssl != NULL && size > 0 && SSL_has_pending(connection->ssl) != 0)
        connection_wake(connection);
}

/* True if everything is sent. */
static bool send_out(struct connection *connection)
{
    struct bytes *out = &connection->out;

    while (bytes_size(out) > 0 && !connection->broken) {
        size_t sent = 0;
        if (connection->ssl != NULL) {
            int result = SSL_write_ex(connection->ssl, bytes_front(out), bytes_size(out), &sent);
            if (result != 1) {
                tls_stopped(connection, result);
                return false;
            }
        } else {
            ssize_t result = send(connection->fd, bytes_front(out), bytes_size(out), MSG_NOSIGNAL);
            if (result < 0) {
                connection->broken = errno != EAGAIN && errno != EINTR;
                return false;
            }
            sent = (size_t)result;
        }
        bytes_use(out, sent);
    }
    return !connection->broken;
}

/* ---- Connections ---- */

struct bytes *connection_out(struct connection *connection)
{
    return &connection->out;
}

void connection_break(struct connection *connection)
{
    connection->broken = true;
    connection_wake(connection);
}

void connection_close(struct connection *connection)
{
    connection->closing = true;
}

static void connection_free(struct connection *connection)
{
    struct linger at_once = {.l_onoff = 1, .l_linger = 0};

    for (struct connection **at = &woken; *at != NULL; at = &(*at)->woken_next) {
        if (*at == connection) {
            *at = connection->woken_next;
            break;
        }
    }
    h1_free(connection->h1);
    h2_free(connection->h2);
    if (connection->broken)
        (void)setsockopt(connection->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    else if (connection->ssl != NULL)
        (void)SSL_shutdown(connection->ssl);
    SSL_free(connection->ssl);
    close(connection->fd);
    bytes_free(&connection->in);
    bytes_free(&connection->out);
    free(connection);
    counts.connections_open--;
}

/* The handshake of TLS has told, if the client asked; else its first bytes do: the Java SDK asks for nothing. */
static void choose(struct connection *connection)
{
    static const char preface[] = "PRI";
    const uint8_t *protocol = NULL;
    unsigned size = 0;
    bool http2 = false;

    if (connection->h1 != NULL || connection->h2 != NULL)
        return;
    if (connection->ssl != NULL)
        SSL_get0_alpn_selected(connection->ssl, &protocol, &size);
    if (size != 0)
        http2 = size == 2;
    else {
        if (bytes_size(&connection->in) < sizeof preface - 1)
            return;
        http2 = memcmp(bytes_front(&connection->in), preface, sizeof preface - 1) == 0;
    }
    counts.h2 += http2;
    if (http2)
        connection->h2 = h2_new(connection);
    else
        connection->h1 = h1_new(connection);
}

/* Serves what has come until there is nothing more to send, or no room for it. True: everything is sent. */
static bool serve(struct connection *connection)
{
    bool sent;
    bool moved;

    do {
        bool good = (connection->h1 == NULL || h1_turn(connection->h1, &connection->in)) &&
                    (connection->h2 == NULL || h2_turn(connection->h2, &connection->in));
        connection->closing = connection->closing || !good;
        moved = bytes_size(&connection->out) > 0;
        sent = send_out(connection);
    } while (moved && sent && !connection->closing);
    return sent;
}

static void connection_turn(struct connection *connection, bool readable)
{
    if (connection->ssl != NULL && !connection->shaken && !connection->broken) {
        int result = SSL_do_handshake(connection->ssl);
        connection->shaken = result == 1;
        if (!connection->shaken)
            tls_stopped(connection, result);
    }
    if (!connection->broken && (connection->ssl == NULL || connection->shaken)) {
        if (readable)
            read_some(connection);
        if (!connection->broken)
            choose(connection);
        bool sent = connection->broken || serve(connection);
        if (sent == connection->polls_out && !connection->broken) {
            connection->polls_out = !sent;
            watch(EPOLL_CTL_MOD, connection->fd, EPOLLIN | (sent ? 0 : (uint32_t)EPOLLOUT),
                  connection);
        }
        if (connection->closing && sent)
            goto end;
    }
    if (!connection->broken)
        return;
end:
    connection_free(connection);
}

void net_turn(int64_t until_ms)
{
    struct epoll_event events[EVENTS_MAX];
    int64_t wait_ms = until_ms - now_ms;

    wait_ms = wait_ms < 0 || woken != NULL ? 0 : wait_ms > WAIT_MS_MAX ? WAIT_MS_MAX : wait_ms;
    int count = epoll_wait(epoll, events, EVENTS_MAX, (int)wait_ms);
    read_clock();
    for (int at = 0; at < count; at++) {
        const struct listener *listener = events[at].data.ptr;
        if (listener >= listeners && listener < listeners + listener_count)
            accept_one(listener);
        else
            connection_turn(events[at].data.ptr, (events[at].events & ~(uint32_t)EPOLLOUT) != 0);
    }
    /* Those that wake while this goes on come next time. */
    struct connection *now = woken;
    woken = NULL;
    while (now != NULL) {
        struct connection *next = now->woken_next;
        now->woken = false;
        connection_turn(now, true);
        now = next;
    }
}
