/* SPDX-License-Identifier: Apache-2.0 */
#include "http_client.h"

#include "meter.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HEAD_MAX = 8192, CONNECT_TRIES = 2000, TRY_MS = 5 };

static struct sockaddr_in loopback(uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

/* The port, if nobody has it (0: some port); 0 if somebody does. */
static uint16_t bind_once(uint16_t port)
{
    struct sockaddr_in address = loopback(port);
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    bool bound = fd >= 0 && bind(fd, (struct sockaddr *)&address, size) == 0 &&
                 getsockname(fd, (struct sockaddr *)&address, &size) == 0;

    if (!bound && (fd < 0 || errno != EADDRINUSE))
        meter_fail("no free port: %s", strerror(errno));
    close(fd);
    return bound ? ntohs(address.sin_port) : 0;
}

uint16_t http_free_port(void)
{
    static uint16_t last;
    uint16_t port;

    /* Below what the system gives to clients, a port cannot be taken by a connection in between. */
    do {
        port = bind_once((uint16_t)(10000 + bind_once(0) % 20000));
    } while (port == 0 || port == last);
    last = port;
    return port;
}

int http_connect(uint16_t port)
{
    struct sockaddr_in address = loopback(port);
    int on = 1;

    for (int i = 0; i < CONNECT_TRIES; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (fd < 0)
            meter_fail("no socket: %s", strerror(errno));
        if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0) {
            (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
            return fd;
        }
        close(fd);
        (void)poll(NULL, 0, TRY_MS);
    }
    meter_fail("nobody listens on port %u", port);
}

int http_accept(uint16_t port)
{
    struct sockaddr_in address = loopback(port);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int on = 1;
    int fd;

    (void)setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(listener, 1) != 0)
        meter_fail("cannot listen: %s", strerror(errno));
    fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    close(listener);
    if (fd < 0)
        meter_fail("cannot accept: %s", strerror(errno));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

void http_send(int fd, const void *data, size_t size)
{
    const char *at = data;

    while (size > 0) {
        ssize_t sent = send(fd, at, size, MSG_NOSIGNAL);

        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            meter_fail("cannot send: %s", strerror(errno));
        at += sent;
        size -= (size_t)sent;
    }
}

void http_request(int fd, const char *method, const char *target, const char *headers,
                  const void *body, size_t size)
{
    char head[HEAD_MAX + 1024];
    char length[64] = "";
    int count;

    if (strcmp(method, "GET") != 0)
        snprintf(length, sizeof length, "Content-Length: %zu\r\n", size);
    count = snprintf(head, sizeof head, "%s %s HTTP/1.1\r\nHost: localhost\r\n%s%s\r\n", method,
                     target, length, headers);
    if (count < 0 || (size_t)count >= sizeof head)
        meter_fail("a request head that is too long");
    if (size == 0 || (size_t)count + size > sizeof head) {
        http_send(fd, head, (size_t)count);
        http_send(fd, body, size);
        return;
    }
    memcpy(head + count, body, size); /* One segment. */
    http_send(fd, head, (size_t)count + size);
}

static size_t receive(int fd, void *buffer, size_t size)
{
    for (;;) {
        ssize_t got = recv(fd, buffer, size, 0);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            meter_fail("cannot receive: %s", strerror(errno));
        return (size_t)got;
    }
}

/* The end of the head in `text`, which is NUL-terminated, or NULL if it is not all there. */
static char *head_end(char *text)
{
    char *end = strstr(text, "\r\n\r\n");

    return end == NULL ? NULL : end + 4;
}

static int status_of(const char *head)
{
    return strncmp(head, "HTTP/1.1 ", 9) == 0 ? (int)strtol(head + 9, NULL, 10) : 0;
}

struct http_answer http_wait(int fd, char *buffer, size_t capacity)
{
    static const char name[] = "\r\nContent-Length:";
    struct http_answer answer = {0};
    size_t size = 0;

    while (answer.body == NULL || buffer + size < answer.body + answer.size) {
        size_t got = size + 1 < capacity ? receive(fd, buffer + size, capacity - size - 1) : 0;

        if (got == 0)
            meter_fail("an answer that ends early or is too long");
        size += got;
        buffer[size] = '\0';
        if (answer.body == NULL && (answer.body = head_end(buffer)) != NULL) {
            const char *length = strcasestr(buffer, name);

            if (length == NULL || length > answer.body)
                meter_fail("an answer without Content-Length");
            answer.size = strtoul(length + sizeof name - 1, NULL, 10);
            answer.status = status_of(buffer);
        }
    }
    return answer;
}

/* ---- Streams ---- */

int http_stream_open(struct http_stream *stream, int fd, size_t read_bytes)
{
    char *end = NULL;
    int status;

    *stream = (struct http_stream){.fd = fd, .raw_capacity = read_bytes + HEAD_MAX};
    stream->raw = malloc(stream->raw_capacity + 1);
    if (stream->raw == NULL)
        meter_fail("no memory for %zu bytes", read_bytes);
    while (end == NULL) {
        size_t got = stream->raw_size < HEAD_MAX
                         ? receive(fd, stream->raw + stream->raw_size, HEAD_MAX - stream->raw_size)
                         : 0;

        if (got == 0)
            meter_fail("no head of an answer");
        stream->raw_size += got;
        stream->raw[stream->raw_size] = '\0';
        end = head_end((char *)stream->raw);
    }
    status = status_of((char *)stream->raw);
    stream->raw_at = (size_t)((uint8_t *)end - stream->raw);
    stream->received = stream->raw_size - stream->raw_at;
    if (status != 200)
        http_stream_close(stream);
    return status;
}

/* Looks at the line that gives the size of a chunk, or ends one. False if it is not all there. */
static bool next_chunk(struct http_stream *stream)
{
    const uint8_t *line = stream->raw + stream->raw_at;
    const uint8_t *feed = memchr(line, '\n', stream->raw_size - stream->raw_at);

    if (feed == NULL)
        return false;
    stream->raw_at += (size_t)(feed - line) + 1;
    if (stream->state == HTTP_STREAM_END_OF_CHUNK) {
        stream->state = HTTP_STREAM_SIZE;
        return true;
    }
    stream->left = strtoul((const char *)line, NULL, 16);
    stream->state = stream->left == 0 ? HTTP_STREAM_OVER : HTTP_STREAM_DATA;
    return true;
}

/* Copies what is there of the content. */
static size_t join(struct http_stream *stream, uint8_t *buffer, size_t capacity)
{
    size_t size = 0;

    while (stream->state != HTTP_STREAM_OVER && size < capacity) {
        size_t part = stream->raw_size - stream->raw_at;

        if (stream->state != HTTP_STREAM_DATA) {
            if (!next_chunk(stream))
                break;
            continue;
        }
        part = part < stream->left ? part : stream->left;
        part = part < capacity - size ? part : capacity - size;
        if (part == 0)
            break;
        memcpy(buffer + size, stream->raw + stream->raw_at, part);
        size += part;
        stream->raw_at += part;
        stream->left -= part;
        if (stream->left == 0)
            stream->state = HTTP_STREAM_END_OF_CHUNK;
    }
    return size;
}

size_t http_stream_read(struct http_stream *stream, uint8_t *buffer, size_t capacity)
{
    for (;;) {
        size_t size = join(stream, buffer, capacity);
        size_t got;

        if (size > 0 || stream->state == HTTP_STREAM_OVER)
            return size;
        memmove(stream->raw, stream->raw + stream->raw_at, stream->raw_size - stream->raw_at);
        stream->raw_size -= stream->raw_at;
        stream->raw_at = 0;
        got = receive(stream->fd, stream->raw + stream->raw_size,
                      stream->raw_capacity - stream->raw_size);
        if (got == 0)
            return 0;
        stream->raw_size += got;
        stream->raw[stream->raw_size] = '\0'; /* For the readers of numbers. */
        stream->received += got;
    }
}

bool http_stream_holds(const struct http_stream *stream)
{
    return stream->raw_at < stream->raw_size;
}

void http_stream_close(struct http_stream *stream)
{
    close(stream->fd);
    free(stream->raw);
    *stream = (struct http_stream){.fd = -1};
}
