/* SPDX-License-Identifier: Apache-2.0 */
#include "tunnel.h"

#include "ks_test.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HEAD_MAX = 8192 };

struct tunnel {
    const char *refusal;
    int target_port;
    int listen_fd;
    int stop_fds[2];
    pthread_t thread;
    char address[64];
    SSL_CTX *tls;

    pthread_mutex_t lock; /* Of what follows. */
    size_t count;
    char head[HEAD_MAX];
};

/* The side of the client, with TLS and without. */
struct side {
    int fd;
    SSL *tls;
};

static ssize_t receive(const struct side *side, char *buffer, size_t size)
{
    return side->tls != NULL ? SSL_read(side->tls, buffer, (int)size)
                             : recv(side->fd, buffer, size, 0);
}

static void send_all(const struct side *side, const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t sent = side->tls != NULL ? SSL_write(side->tls, bytes, (int)size)
                                         : send(side->fd, bytes, size, MSG_NOSIGNAL);
        if (sent <= 0)
            return;
        bytes += sent;
        size -= (size_t)sent;
    }
}

/* Waits for either; false when the test is over. */
static bool wait_for(const struct tunnel *tunnel, int a, int b, bool *ret_a, bool *ret_b)
{
    struct pollfd polled[] = {{.fd = tunnel->stop_fds[0], .events = POLLIN},
                              {.fd = a, .events = POLLIN},
                              {.fd = b, .events = POLLIN}};

    poll(polled, 3, -1);
    *ret_a = polled[1].revents != 0;
    *ret_b = polled[2].revents != 0;
    return polled[0].revents == 0;
}

static void pump(const struct tunnel *tunnel, const struct side *client, const struct side *server)
{
    char buffer[65536];
    bool from_client;
    bool from_server;

    while (wait_for(tunnel, client->fd, server->fd, &from_client, &from_server)) {
        const struct side *from = from_client ? client : server;

        do {
            ssize_t got = receive(from, buffer, sizeof(buffer));
            if (got <= 0)
                return;
            send_all(from_client ? server : client, buffer, (size_t)got);
        } while (from->tls != NULL && SSL_pending(from->tls) > 0);
    }
}

/* False if no head came. */
static bool read_head(struct tunnel *tunnel, const struct side *client)
{
    char head[HEAD_MAX];
    size_t size = 0;

    while (memmem(head, size, "\r\n\r\n", 4) == NULL) {
        ssize_t got = receive(client, head + size, sizeof(head) - 1 - size);
        if (got <= 0)
            return false;
        size += (size_t)got;
    }
    head[size] = '\0';
    pthread_mutex_lock(&tunnel->lock);
    memcpy(tunnel->head, head, size + 1);
    tunnel->count++;
    pthread_mutex_unlock(&tunnel->lock);
    return true;
}

static void serve(struct tunnel *tunnel, const struct side *client)
{
    static const char yes[] = "HTTP/1.1 200 Connected\r\nX-Proxy: tunnel\r\n\r\n";
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                  .sin_port = htons((uint16_t)tunnel->target_port)};
    char no[256];

    if (!read_head(tunnel, client))
        return;
    if (tunnel->refusal != NULL) {
        snprintf(no, sizeof(no), "HTTP/1.1 %s\r\nContent-Length: 0\r\n\r\n", tunnel->refusal);
        send_all(client, no, strlen(no));
        return;
    }
    struct side server = {.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    if (connect(server.fd, (struct sockaddr *)&address, sizeof(address)) == 0) {
        send_all(client, yes, strlen(yes));
        pump(tunnel, client, &server);
    }
    close(server.fd);
}

static void *run(void *arg)
{
    struct tunnel *tunnel = arg;
    bool accepts;
    bool nothing;

    while (wait_for(tunnel, tunnel->listen_fd, -1, &accepts, &nothing)) {
        struct side client = {.fd = accept(tunnel->listen_fd, NULL, NULL)};

        if (tunnel->tls != NULL) {
            client.tls = SSL_new(tunnel->tls);
            SSL_set_fd(client.tls, client.fd);
        }
        if (client.tls == NULL || SSL_accept(client.tls) == 1)
            serve(tunnel, &client);
        SSL_free(client.tls);
        close(client.fd);
    }
    return NULL;
}

struct tunnel *tunnel_start(const char *target, const char *refusal, SSL_CTX *tls)
{
    struct tunnel *tunnel = calloc(1, sizeof(*tunnel));
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);

    tunnel->refusal = refusal;
    tunnel->tls = tls;
    tunnel->target_port = atoi(strrchr(target, ':') + 1);
    pthread_mutex_init(&tunnel->lock, NULL);
    tunnel->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT(bind(tunnel->listen_fd, (struct sockaddr *)&address, size) == 0);
    EXPECT(listen(tunnel->listen_fd, 16) == 0);
    EXPECT(getsockname(tunnel->listen_fd, (struct sockaddr *)&address, &size) == 0);
    snprintf(tunnel->address, sizeof(tunnel->address), "127.0.0.1:%d", ntohs(address.sin_port));
    EXPECT(pipe(tunnel->stop_fds) == 0);
    EXPECT(pthread_create(&tunnel->thread, NULL, run, tunnel) == 0);
    return tunnel;
}

const char *tunnel_address(const struct tunnel *tunnel)
{
    return tunnel->address;
}

size_t tunnel_count(struct tunnel *tunnel)
{
    pthread_mutex_lock(&tunnel->lock);
    size_t count = tunnel->count;
    pthread_mutex_unlock(&tunnel->lock);
    return count;
}

const char *tunnel_head(struct tunnel *tunnel)
{
    static char head[HEAD_MAX];

    pthread_mutex_lock(&tunnel->lock);
    memcpy(head, tunnel->head, sizeof(head));
    pthread_mutex_unlock(&tunnel->lock);
    return head;
}

void tunnel_stop(struct tunnel *tunnel)
{
    EXPECT(write(tunnel->stop_fds[1], "", 1) == 1);
    EXPECT(pthread_join(tunnel->thread, NULL) == 0);
    close(tunnel->listen_fd);
    close(tunnel->stop_fds[0]);
    close(tunnel->stop_fds[1]);
    SSL_CTX_free(tunnel->tls);
    free(tunnel);
}
