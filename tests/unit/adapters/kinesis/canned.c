/* SPDX-License-Identifier: Apache-2.0 */
#include "canned.h"

#include "ks_test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static void drop(struct canned_connection *connection)
{
    ks_loop_unwatch(connection->canned->loop, &connection->watch);
    (void)close(connection->watch.fd);
    connection->watch.fd = -1;
}

/* The value of a header, up to the end of its line. */
static void header(const char *head, const char *name, char *value, size_t size)
{
    const char *line = head;

    value[0] = '\0';
    while ((line = strstr(line, "\r\n")) != NULL) {
        line += 2;
        if (strncasecmp(line, name, strlen(name)) != 0 || line[strlen(name)] != ':')
            continue;
        line += strlen(name) + 1;
        while (*line == ' ')
            line++;
        size_t length = strcspn(line, "\r");
        EXPECT(length < size);
        memcpy(value, line, length);
        value[length] = '\0';
        return;
    }
}

static void send_all(int fd, const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t sent = send(fd, bytes, size, MSG_NOSIGNAL);
        if (sent <= 0)
            return; /* The client has enough: that is its right. */
        bytes += sent;
        size -= (size_t)sent;
    }
}

/* As much of the body as goes; the client reads it on the same loop. */
static void send_rest(struct canned_connection *connection)
{
    while (connection->rest_size > 0) {
        ssize_t sent = send(connection->watch.fd, connection->rest, connection->rest_size,
                            MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EAGAIN) {
            EXPECT_OK(
                ks_loop_watch(connection->canned->loop, &connection->watch, EPOLLIN | EPOLLOUT));
            return;
        }
        if (sent <= 0)
            break; /* As above. */
        connection->rest += sent;
        connection->rest_size -= (size_t)sent;
    }
    connection->rest_size = 0;
    if (connection->rest_ends)
        drop(connection);
    else
        EXPECT_OK(ks_loop_watch(connection->canned->loop, &connection->watch, EPOLLIN));
}

static void answer(struct canned_connection *connection, const struct canned_answer *answer)
{
    char head[512];
    char length[64] = "";
    size_t size = answer->size > 0 || answer->body == NULL ? answer->size : strlen(answer->body);

    if (answer->never)
        return;
    if (answer->status == 0) {
        drop(connection);
        return;
    }
    if (!answer->lengthless)
        (void)snprintf(length, sizeof(length), "Content-Length: %zu\r\n", size);
    int written =
        snprintf(head, sizeof(head), "HTTP/1.1 %d Canned\r\nContent-Type: %s\r\n%s%s%s%s\r\n",
                 answer->status, answer->type == NULL ? "application/x-amz-json-1.1" : answer->type,
                 answer->foreign ? "" : "x-amzn-RequestId: 1\r\n", length,
                 answer->lengthless ? "Connection: close\r\n" : "",
                 answer->headers == NULL ? "" : answer->headers);
    send_all(connection->watch.fd, head, (size_t)written);
    connection->rest = answer->body;
    connection->rest_size = size;
    connection->rest_ends = answer->lengthless;
    send_rest(connection);
}

/* A whole request is there: keeps it, and answers what comes next. */
static void asked(struct canned_connection *connection, const char *body, size_t size)
{
    struct canned *canned = connection->canned;
    uint32_t at = canned->request_count++;
    struct canned_request *request = &canned->requests[at];
    char target[128];

    if (at >= canned->answer_count)
        FAIL("request %u, and only %u are answered", at + 1, canned->answer_count);
    header(connection->bytes, "X-Amz-Target", target, sizeof(target));
    header(connection->bytes, "Content-Type", request->type, sizeof(request->type));
    const char *dot = strchr(target, '.');
    EXPECT(dot != NULL);
    (void)snprintf(request->operation, sizeof(request->operation), "%.60s", dot + 1);
    EXPECT(size < sizeof(request->body));
    memcpy(request->body, body, size);
    request->body[size] = '\0';
    request->at = ks_loop_now(canned->loop);
    EXPECT_STR(request->operation, canned->answers[at].operation);
    connection->size = 0;
    answer(connection, &canned->answers[at]);
}

static void readable(struct ks_watch *watch, uint32_t events)
{
    struct canned_connection *connection = KS_LIST_ENTRY(watch, struct canned_connection, watch);
    char length[32];
    size_t room = sizeof(connection->bytes) - 1 - connection->size;

    if ((events & EPOLLOUT) != 0) {
        send_rest(connection);
        return;
    }
    ssize_t size = recv(watch->fd, connection->bytes + connection->size, room, MSG_DONTWAIT);
    if (size <= 0) {
        drop(connection);
        return;
    }
    connection->size += (size_t)size;
    connection->bytes[connection->size] = '\0';
    char *end = strstr(connection->bytes, "\r\n\r\n");
    if (end == NULL)
        return;
    header(connection->bytes, "Content-Length", length, sizeof(length));
    uint64_t expected = 0;
    EXPECT_OK(ks_view_u64(ks_view_text(length), &expected));
    size_t head = (size_t)(end + 4 - connection->bytes);
    if (connection->size >= head + expected)
        asked(connection, end + 4, (size_t)expected);
}

static void accepted(struct ks_watch *watch, uint32_t events)
{
    struct canned *canned = KS_LIST_ENTRY(watch, struct canned, listener);
    int fd = accept4(watch->fd, NULL, NULL, SOCK_CLOEXEC);

    (void)events;
    EXPECT(fd >= 0);
    for (int at = 0; at < CANNED_CONNECTIONS; at++) {
        struct canned_connection *connection = &canned->connections[at];
        if (connection->watch.fd >= 0)
            continue;
        *connection =
            (struct canned_connection){.watch = {.ready = readable, .fd = fd}, .canned = canned};
        EXPECT_OK(ks_loop_watch(canned->loop, &connection->watch, EPOLLIN));
        return;
    }
    FAIL("more than %d connections", CANNED_CONNECTIONS);
}

void canned_open(struct canned *canned, struct ks_loop *loop)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    memset(canned, 0, sizeof(*canned));
    canned->loop = loop;
    for (int at = 0; at < CANNED_CONNECTIONS; at++)
        canned->connections[at].watch.fd = -1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT(fd >= 0);
    EXPECT_EQ_I64(bind(fd, (const struct sockaddr *)&address, size), 0);
    EXPECT_EQ_I64(listen(fd, 16), 0);
    EXPECT_EQ_I64(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    (void)snprintf(canned->url, sizeof(canned->url), "http://127.0.0.1:%u",
                   ntohs(address.sin_port));
    canned->listener = (struct ks_watch){.ready = accepted, .fd = fd};
    EXPECT_OK(ks_loop_watch(loop, &canned->listener, EPOLLIN));
}

void canned_close(struct canned *canned)
{
    for (int at = 0; at < CANNED_CONNECTIONS; at++) {
        if (canned->connections[at].watch.fd >= 0)
            drop(&canned->connections[at]);
    }
    ks_loop_unwatch(canned->loop, &canned->listener);
    (void)close(canned->listener.fd);
    EXPECT_EQ_U64(canned->request_count, canned->answer_count);
}

void canned_say(struct canned *canned, struct canned_answer answer)
{
    EXPECT(canned->answer_count < CANNED_ANSWERS);
    canned->answers[canned->answer_count++] = answer;
}
