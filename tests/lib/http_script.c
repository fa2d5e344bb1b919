/* SPDX-License-Identifier: Apache-2.0 */
#include "http_script.h"

#include "ks_test.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CONNECTIONS_MAX = 32, REQUESTS_MAX = 64, REQUEST_MAX = 4 << 20 };

struct connection {
    int fd; /* 0: free. */
    SSL *tls;
    char *bytes;
    size_t size;
};

struct http_script {
    const struct http_step *steps;
    size_t step_count;
    int listen_fd;
    int stop_fds[2];
    pthread_t thread;
    char url[64];
    SSL_CTX *tls;
    struct connection connections[CONNECTIONS_MAX];

    pthread_mutex_t lock; /* Of what follows. */
    char *requests[REQUESTS_MAX];
    size_t request_count;
    size_t connection_count;
};

/* --- Bytes, with TLS and without --- */

static ssize_t receive(struct connection *connection, char *buffer, size_t size)
{
    if (connection->tls != NULL)
        return SSL_read(connection->tls, buffer, (int)size);
    return recv(connection->fd, buffer, size, 0);
}

/* The other side may have gone; then the rest is for nobody. */
static void send_all(struct connection *connection, const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t sent = connection->tls != NULL ? SSL_write(connection->tls, bytes, (int)size)
                                               : send(connection->fd, bytes, size, MSG_NOSIGNAL);
        if (sent <= 0)
            return;
        bytes += sent;
        size -= (size_t)sent;
    }
}

static void hang_up(struct connection *connection)
{
    SSL_free(connection->tls);
    close(connection->fd);
    free(connection->bytes);
    *connection = (struct connection){.fd = 0};
}

/* --- Playing a step --- */

static void send_chunks(struct connection *connection, const char *body, size_t size)
{
    char line[32];

    while (size > 0) {
        size_t piece = size < 1000 ? size : 1000;
        snprintf(line, sizeof(line), "%zx\r\n", piece);
        send_all(connection, line, strlen(line));
        send_all(connection, body, piece);
        send_all(connection, "\r\n", 2);
        body += piece;
        size -= piece;
    }
    send_all(connection, "0\r\n\r\n", 5);
}

static void send_answer(struct connection *connection, const struct http_step *step)
{
    size_t size = step->filler > 0 ? step->filler : step->body == NULL ? 0 : strlen(step->body);
    char *filler = malloc(step->filler + 1);
    char head[16384];
    char length[64];

    memset(filler, 'x', step->filler);
    snprintf(length, sizeof(length), "Content-Length: %zu\r\n", size);
    snprintf(head, sizeof(head), "HTTP/1.1 %d Said\r\n%s%s\r\n",
             step->status == 0 ? 200 : step->status,
             step->chunked ? "Transfer-Encoding: chunked\r\n" : length,
             step->headers == NULL ? "" : step->headers);
    send_all(connection, head, strlen(head));
    const char *body = step->filler > 0 ? filler : step->body;
    if (step->chunked)
        send_chunks(connection, body, size);
    else
        send_all(connection, body, size);
    free(filler);
}

static void play(struct connection *connection, const struct http_step *step)
{
    if (step->wait_ms > 0)
        poll(NULL, 0, step->wait_ms);
    if (step->silent)
        return;
    if (step->raw != NULL)
        send_all(connection, step->raw, step->raw_size > 0 ? step->raw_size : strlen(step->raw));
    else if (!step->cut)
        send_answer(connection, step);
    if (step->cut)
        hang_up(connection);
}

/* --- Requests --- */

/* The size of a whole request at the front, or 0. */
static size_t whole_request(const struct connection *connection)
{
    const char *end = memmem(connection->bytes, connection->size, "\r\n\r\n", 4);
    size_t body = 0;

    if (end == NULL)
        return 0;
    size_t head = (size_t)(end - connection->bytes) + 4;
    for (const char *line = connection->bytes; line < end; line = strchr(line, '\n') + 1) {
        if (strncasecmp(line, "Content-Length:", 15) == 0)
            body = strtoul(line + 15, NULL, 10);
    }
    return connection->size >= head + body ? head + body : 0;
}

static const struct http_step *note_request(struct http_script *script,
                                            const struct connection *connection, size_t size)
{
    pthread_mutex_lock(&script->lock);
    size_t index = script->request_count++;
    if (index < REQUESTS_MAX) {
        script->requests[index] = calloc(1, size + 1);
        memcpy(script->requests[index], connection->bytes, size);
    }
    pthread_mutex_unlock(&script->lock);
    return &script->steps[index < script->step_count ? index : script->step_count - 1];
}

static void serve(struct http_script *script, struct connection *connection)
{
    ssize_t got = 0;

    do {
        if (connection->size + 65536 > REQUEST_MAX)
            break;
        got = receive(connection, connection->bytes + connection->size, 65536);
        if (got <= 0) {
            hang_up(connection);
            return;
        }
        connection->size += (size_t)got;
    } while (connection->tls != NULL && SSL_pending(connection->tls) > 0);

    size_t size;
    while (connection->fd != 0 && (size = whole_request(connection)) > 0) {
        const struct http_step *step = note_request(script, connection, size);
        connection->size -= size;
        memmove(connection->bytes, connection->bytes + size, connection->size);
        play(connection, step);
    }
}

static void welcome(struct http_script *script)
{
    struct connection *connection = script->connections;

    while (connection->fd != 0)
        connection++;
    *connection = (struct connection){.fd = accept(script->listen_fd, NULL, NULL)};
    connection->bytes = calloc(1, REQUEST_MAX + 1);
    pthread_mutex_lock(&script->lock);
    script->connection_count++;
    pthread_mutex_unlock(&script->lock);
    if (script->tls == NULL)
        return;
    connection->tls = SSL_new(script->tls);
    SSL_set_fd(connection->tls, connection->fd);
    if (SSL_accept(connection->tls) != 1)
        hang_up(connection);
}

static void *run(void *arg)
{
    struct http_script *script = arg;

    for (;;) {
        struct pollfd polled[CONNECTIONS_MAX + 2];
        size_t at = 0;

        polled[at++] = (struct pollfd){.fd = script->stop_fds[0], .events = POLLIN};
        polled[at++] = (struct pollfd){.fd = script->listen_fd, .events = POLLIN};
        for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
            int fd = script->connections[i].fd;
            polled[at++] = (struct pollfd){.fd = fd == 0 ? -1 : fd, .events = POLLIN};
        }
        poll(polled, at, -1);
        if (polled[0].revents != 0)
            return NULL;
        if (polled[1].revents != 0)
            welcome(script);
        for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
            if (polled[i + 2].revents != 0)
                serve(script, &script->connections[i]);
        }
    }
}

/* --- Life --- */

static struct http_script *start(const struct http_step *steps, size_t count, SSL_CTX *tls)
{
    struct http_script *script = calloc(1, sizeof(*script));
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);

    script->steps = steps;
    script->step_count = count;
    script->tls = tls;
    pthread_mutex_init(&script->lock, NULL);
    script->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT(bind(script->listen_fd, (struct sockaddr *)&address, size) == 0);
    EXPECT(listen(script->listen_fd, 64) == 0);
    EXPECT(getsockname(script->listen_fd, (struct sockaddr *)&address, &size) == 0);
    snprintf(script->url, sizeof(script->url), "%s://127.0.0.1:%d", tls == NULL ? "http" : "https",
             ntohs(address.sin_port));
    EXPECT(pipe(script->stop_fds) == 0);
    EXPECT(pthread_create(&script->thread, NULL, run, script) == 0);
    return script;
}

struct http_script *http_script_start(const struct http_step *steps, size_t count)
{
    return start(steps, count, NULL);
}

SSL_CTX *http_script_tls(const char *pem_path)
{
    const struct certificate certificate = {.names = "DNS:localhost,IP:127.0.0.1",
                                            .pem_path = pem_path};

    return certificate_server(NULL, &certificate);
}

struct http_script *http_script_start_tls(const struct http_step *steps, size_t count,
                                          const char *pem_path)
{
    return start(steps, count, http_script_tls(pem_path));
}

struct http_script *http_script_start_with(const struct http_step *steps, size_t count,
                                           SSL_CTX *tls)
{
    return start(steps, count, tls);
}

const char *http_script_url(const struct http_script *script)
{
    return script->url;
}

size_t http_script_count(struct http_script *script)
{
    pthread_mutex_lock(&script->lock);
    size_t count = script->request_count;
    pthread_mutex_unlock(&script->lock);
    return count;
}

const char *http_script_request(struct http_script *script, size_t index)
{
    pthread_mutex_lock(&script->lock);
    const char *request =
        index < REQUESTS_MAX && index < script->request_count ? script->requests[index] : NULL;
    pthread_mutex_unlock(&script->lock);
    if (request == NULL)
        FAIL("request %zu did not come", index);
    return request;
}

size_t http_script_connections(struct http_script *script)
{
    pthread_mutex_lock(&script->lock);
    size_t count = script->connection_count;
    pthread_mutex_unlock(&script->lock);
    return count;
}

void http_script_stop(struct http_script *script)
{
    EXPECT(write(script->stop_fds[1], "", 1) == 1);
    EXPECT(pthread_join(script->thread, NULL) == 0);
    for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
        if (script->connections[i].fd != 0)
            hang_up(&script->connections[i]);
    }
    for (size_t i = 0; i < REQUESTS_MAX; i++)
        free(script->requests[i]);
    close(script->listen_fd);
    close(script->stop_fds[0]);
    close(script->stop_fds[1]);
    SSL_CTX_free(script->tls);
    free(script);
}
