/* SPDX-License-Identifier: Apache-2.0 */
#include "main/client.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    HEAD_MAX = 16 * 1024, /* Ours are below 1 KiB. */
    INTERIM_MAX = 16,     /* Answers of 1xx before the one that counts; we give none. */
    TRAILERS_MAX = 16,    /* We give none. */
    CHUNK_LINE_MAX = 64   /* "ffffffffffffffff" and an extension that we do not have. */
};

/* ---- The connection. ---- */

struct connection {
    int fd;
    int wait_ms;
    char place[KS_ADDRESS_PATH_SIZE + 16]; /* For people. */
    uint8_t data[HEAD_MAX]; /* Received and not yet taken: data[first] .. data[end - 1]. */
    size_t first;
    size_t end;
};

static ks_err wait_for(const struct connection *connection, short events, struct ks_detail *detail)
{
    struct pollfd poll_fd = {.fd = connection->fd, .events = events};
    int ready;

    do {
        ready = poll(&poll_fd, 1, connection->wait_ms);
    } while (ready < 0 && errno == EINTR);
    if (ready > 0)
        return KS_OK;
    ks_detail_set(detail, "%s: no answer for %d ms", connection->place, connection->wait_ms);
    return KS_FAIL(TIMEOUT);
}

static ks_err fail_with_errno(const struct connection *connection, int code,
                              struct ks_detail *detail)
{
    char text[64];

    ks_detail_set(detail, "%s: %s", connection->place, strerror_r(code, text, sizeof text));
    return KS_FAIL(CONNECTION);
}

static socklen_t socket_address(const struct ks_address *address, struct sockaddr_storage *ret)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)ret;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)ret;
    struct sockaddr_un *un = (struct sockaddr_un *)ret;
    int parsed = 1;

    memset(ret, 0, sizeof *ret);
    switch (address->kind) {
    case KS_ADDRESS_IPV4:
        v4->sin_family = AF_INET;
        v4->sin_port = htons(address->port);
        parsed = inet_pton(AF_INET, address->host, &v4->sin_addr);
        assert(parsed == 1); /* ks_address_parse saw to it. */
        /* Whoever listens on all addresses is reached on the loopback. */
        if (v4->sin_addr.s_addr == htonl(INADDR_ANY))
            v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        return sizeof *v4;
    case KS_ADDRESS_IPV6:
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(address->port);
        parsed = inet_pton(AF_INET6, address->host, &v6->sin6_addr);
        assert(parsed == 1);
        if (IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr))
            v6->sin6_addr = in6addr_loopback;
        return sizeof *v6;
    case KS_ADDRESS_UNIX:
        un->sun_family = AF_UNIX;
        memcpy(un->sun_path, address->path, sizeof un->sun_path);
        return sizeof *un;
    }
    assert(false);
    return 0;
}

static void name_place(const struct ks_address *address, struct connection *connection)
{
    if (address->kind == KS_ADDRESS_UNIX)
        (void)snprintf(connection->place, sizeof connection->place, "unix:%s", address->path);
    else
        (void)snprintf(connection->place, sizeof connection->place,
                       address->kind == KS_ADDRESS_IPV6 ? "[%s]:%u" : "%s:%u", address->host,
                       (unsigned)address->port);
}

static ks_err connect_to(const struct ks_address *address, struct connection *connection,
                         struct ks_detail *detail)
{
    struct sockaddr_storage place;
    socklen_t size = socket_address(address, &place);

    name_place(address, connection);
    connection->fd = socket(place.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connection->fd < 0)
        return fail_with_errno(connection, errno, detail);
    if (connect(connection->fd, (struct sockaddr *)&place, size) == 0)
        return KS_OK;

    ks_detail_set(
        detail,
        "nobody answers on %s; is the sidecar running, and are --listen and --ops-listen the same?",
        connection->place);
    (void)close(connection->fd);
    return KS_FAIL(CONNECTION);
}

static ks_err send_all(struct connection *connection, ks_view bytes, struct ks_detail *detail)
{
    while (bytes.size > 0) {
        ssize_t sent;

        KS_TRY(wait_for(connection, POLLOUT, detail));
        sent = send(connection->fd, bytes.data, bytes.size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno != EAGAIN && errno != EINTR)
            return fail_with_errno(connection, errno, detail);
        if (sent > 0)
            bytes = ks_view_of(bytes.data + sent, bytes.size - (size_t)sent);
    }
    return KS_OK;
}

/* Receives more behind what is there. `ret_any` is false at the end of the connection. */
static ks_err receive(struct connection *connection, bool *ret_any, struct ks_detail *detail)
{
    ssize_t got;

    if (connection->first == connection->end)
        connection->first = connection->end = 0;
    assert(connection->end < sizeof connection->data);

    KS_TRY(wait_for(connection, POLLIN, detail));
    got = recv(connection->fd, connection->data + connection->end,
               sizeof connection->data - connection->end, 0);
    if (got < 0)
        return fail_with_errno(connection, errno, detail);
    connection->end += (size_t)got;
    *ret_any = got > 0;
    return KS_OK;
}

static ks_err cut_off(const struct connection *connection, struct ks_detail *detail)
{
    ks_detail_set(detail, "%s: cut in the middle of an answer", connection->place);
    return KS_FAIL(CONNECTION);
}

/* ---- The answer. ---- */

enum framing { FRAMING_LENGTH, FRAMING_CHUNKED, FRAMING_UNTIL_CLOSE };

struct head {
    int status;
    enum framing framing;
    uint64_t length;
};

static ks_err malformed(const struct connection *connection, struct ks_detail *detail)
{
    ks_detail_set(detail, "%s: what answers there is not HTTP/1.1", connection->place);
    return KS_FAIL(MALFORMED);
}

/* "HTTP/1.1 200 OK" */
static ks_err read_status(ks_view line, int *ret_status)
{
    ks_view version = ks_view_cut(&line, ' ');
    ks_view digits = ks_view_cut(&line, ' ');
    uint64_t status;

    if (!ks_view_equal(version, KS_VIEW("HTTP/1.1")) || digits.size != 3)
        return KS_FAIL(MALFORMED);
    KS_TRY(ks_view_u64(digits, &status));
    *ret_status = (int)status;
    return KS_OK;
}

static ks_err read_head(ks_view text, struct head *ret_head)
{
    struct head head = {.framing = FRAMING_UNTIL_CLOSE};

    KS_TRY(read_status(ks_view_trim(ks_view_cut(&text, '\n')), &head.status));
    while (text.data != NULL) {
        ks_view value = ks_view_trim(ks_view_cut(&text, '\n'));
        ks_view name = ks_view_cut(&value, ':');

        value = value.data == NULL ? value : ks_view_trim(value);
        if (ks_view_equal_nocase(name, KS_VIEW("transfer-encoding"))) {
            if (!ks_view_equal_nocase(value, KS_VIEW("chunked")))
                return KS_FAIL(MALFORMED);
            head.framing = FRAMING_CHUNKED;
        }
        if (ks_view_equal_nocase(name, KS_VIEW("content-length")) &&
            head.framing != FRAMING_CHUNKED) {
            KS_TRY(ks_view_u64(value, &head.length));
            head.framing = FRAMING_LENGTH;
        }
    }
    *ret_head = head;
    return KS_OK;
}

static ks_err receive_head(struct connection *connection, struct head *ret_head,
                           struct ks_detail *detail)
{
    for (;;) {
        ks_view have = ks_view_of(connection->data, connection->end);
        const uint8_t *blank = have.size == 0 ? NULL : memmem(have.data, have.size, "\r\n\r\n", 4);
        bool any;

        if (blank != NULL) {
            have.size = (size_t)(blank - have.data);
            connection->first = have.size + 4;
            return ks_ok(read_head(have, ret_head)) ? KS_OK : malformed(connection, detail);
        }
        if (connection->end == sizeof connection->data)
            return malformed(connection, detail);
        KS_TRY(receive(connection, &any, detail));
        if (!any)
            return cut_off(connection, detail);
    }
}

/* Hands on `size` bytes of the body as they come. */
static ks_err take_body(struct connection *connection, const struct ks_client_request *request,
                        uint64_t size, bool until_close, struct ks_detail *detail)
{
    while (until_close || size > 0) {
        size_t have = connection->end - connection->first;
        bool any;

        if (have == 0) {
            KS_TRY(receive(connection, &any, detail));
            if (!any)
                return until_close ? KS_OK : cut_off(connection, detail);
            continue;
        }
        if (!until_close && have > size)
            have = (size_t)size;
        KS_TRY(request->part(request->arg, ks_view_of(connection->data + connection->first, have)));
        connection->first += have;
        size -= until_close ? 0 : have;
    }
    return KS_OK;
}

/* A line without its CR LF. */
static ks_err take_line(struct connection *connection, char line[CHUNK_LINE_MAX],
                        struct ks_detail *detail)
{
    for (size_t length = 0;;) {
        bool any;
        uint8_t byte;

        if (connection->first == connection->end) {
            KS_TRY(receive(connection, &any, detail));
            if (!any)
                return cut_off(connection, detail);
        }
        byte = connection->data[connection->first++];
        if (byte == '\n') {
            line[length > 0 && line[length - 1] == '\r' ? length - 1 : length] = '\0';
            return KS_OK;
        }
        if (length + 1 == CHUNK_LINE_MAX)
            return malformed(connection, detail);
        line[length++] = (char)byte;
    }
}

static ks_err read_chunk_size(const char *line, uint64_t *ret_size)
{
    uint64_t size = 0;
    size_t digits = strspn(line, "0123456789abcdefABCDEF");

    if (digits == 0 || digits > 15 || (line[digits] != '\0' && line[digits] != ';'))
        return KS_FAIL(MALFORMED);
    for (size_t i = 0; i < digits; i++) {
        char c = line[i];

        size = size * 16 + (uint64_t)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    *ret_size = size;
    return KS_OK;
}

static ks_err take_chunks(struct connection *connection, const struct ks_client_request *request,
                          struct ks_detail *detail)
{
    char line[CHUNK_LINE_MAX];
    uint64_t size;

    for (;;) {
        KS_TRY(take_line(connection, line, detail));
        if (!ks_ok(read_chunk_size(line, &size)))
            return malformed(connection, detail);
        if (size == 0)
            break;
        KS_TRY(take_body(connection, request, size, false, detail));
        KS_TRY(take_line(connection, line, detail));
        if (line[0] != '\0')
            return malformed(connection, detail);
    }
    for (int i = 0; i <= TRAILERS_MAX; i++) {
        KS_TRY(take_line(connection, line, detail));
        if (line[0] == '\0')
            return KS_OK;
    }
    ks_detail_set(detail, "%s: more than %d trailers", connection->place, TRAILERS_MAX);
    return KS_FAIL(MALFORMED);
}

/* ---- The call. ---- */

static ks_err send_request(struct connection *connection, const struct ks_client_request *request,
                           struct ks_detail *detail)
{
    char head[HEAD_MAX];
    bool token = request->token != NULL && request->token[0] != '\0';
    int length = snprintf(
        head, sizeof head,
        "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s%s%s%s%s%s%s"
        "Content-Length: %zu\r\n\r\n",
        request->method, request->target, token ? "Authorization: Bearer " : "",
        token ? request->token : "", token ? "\r\n" : "", request->accept != NULL ? "Accept: " : "",
        request->accept != NULL ? request->accept : "", request->accept != NULL ? "\r\n" : "",
        request->body.size > 0 ? "Content-Type: application/json\r\n" : "", request->body.size);

    if (length < 0 || (size_t)length >= sizeof head) {
        ks_detail_set(detail, "the request is longer than %d bytes", HEAD_MAX);
        return KS_FAIL(FULL);
    }
    KS_TRY(send_all(connection, ks_view_of(head, (size_t)length), detail));
    return send_all(connection, request->body, detail);
}

/* The head of the answer: those of 1xx before it are passed over. */
static ks_err receive_last_head(struct connection *connection, struct head *ret_head,
                                struct ks_detail *detail)
{
    for (int i = 0; i <= INTERIM_MAX; i++) {
        KS_TRY(receive_head(connection, ret_head, detail));
        if (ret_head->status >= 200)
            return KS_OK;
        memmove(connection->data, connection->data + connection->first,
                connection->end - connection->first);
        connection->end -= connection->first;
        connection->first = 0;
    }
    ks_detail_set(detail, "%s: more than %d answers of 1xx, and none behind them",
                  connection->place, INTERIM_MAX);
    return KS_FAIL(MALFORMED);
}

static ks_err converse(struct connection *connection, const struct ks_client_request *request,
                       int *ret_status, struct ks_detail *detail)
{
    struct head head;

    KS_TRY(send_request(connection, request, detail));
    KS_TRY(receive_last_head(connection, &head, detail));
    *ret_status = head.status;
    switch (head.framing) {
    case FRAMING_LENGTH: return take_body(connection, request, head.length, false, detail);
    case FRAMING_CHUNKED: return take_chunks(connection, request, detail);
    case FRAMING_UNTIL_CLOSE: return take_body(connection, request, 0, true, detail);
    }
    assert(false);
    return KS_FAIL(MALFORMED);
}

ks_err ks_client_call(const struct ks_address *addresses, uint32_t address_count,
                      const struct ks_client_request *request, int *ret_status,
                      struct ks_detail *detail)
{
    struct connection connection = {.wait_ms = (int)ks_span_to_ms(request->timeout)};
    ks_err err = KS_FAIL(CONNECTION);

    assert(address_count > 0);

    for (uint32_t i = 0; i < address_count; i++) {
        err = connect_to(&addresses[i], &connection, detail);
        if (ks_ok(err))
            break;
    }
    if (!ks_ok(err))
        return err;
    err = converse(&connection, request, ret_status, detail);
    (void)close(connection.fd);
    return err;
}

ks_err ks_client_append_query(struct ks_bytes *bytes, ks_view text)
{
    for (size_t i = 0; i < text.size; i++) {
        uint8_t c = text.data[i];
        bool plain = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                     c == '-' || c == '.' || c == '_' || c == '~';

        if (plain)
            KS_TRY(ks_bytes_append_byte(bytes, c));
        else
            KS_TRY(ks_bytes_format(bytes, "%%%02X", c));
    }
    return KS_OK;
}
