/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1.1: one request after the other, with a Content-Length; answers with one, or in chunks. */
#include "kinesis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEAD_BYTES_MAX = 64 << 10, BODY_BYTES_MAX = 32 << 20, COPIED_MAX = 16 << 10 };

struct h1 {
    struct connection *connection;
    struct call *call; /* NULL: a head is awaited. */
    size_t body_left;
    bool served;
    bool chunked;
};

struct h1 *h1_new(struct connection *connection)
{
    struct h1 *h1 = must_alloc(sizeof *h1);

    h1->connection = connection;
    return h1;
}

void h1_free(struct h1 *h1)
{
    if (h1 == NULL)
        return;
    call_free(h1->call);
    free(h1);
}

/* ---- Requests ---- */

/* Cuts a line off; NULL: there is none. */
static char *take_line(char **text)
{
    char *line = *text;
    char *end = strstr(line, "\r\n");

    if (end == NULL)
        return NULL;
    *end = '\0';
    *text = end + 2;
    return line;
}

static bool read_header(struct call *call, char *line)
{
    char *colon = strchr(line, ':');

    if (colon == NULL || call->header_count == HEADERS_MAX)
        return false;
    *colon = '\0';
    for (char *at = line; *at != '\0'; at++)
        *at = (char)(*at >= 'A' && *at <= 'Z' ? *at | 0x20 : *at);
    char *value = colon + 1 + strspn(colon + 1, " \t");
    for (char *end = value + strlen(value); end > value && (end[-1] == ' ' || end[-1] == '\t');)
        *--end = '\0';
    call->headers[call->header_count++] = (struct header){line, value};
    return true;
}

/* Reads the head in `call->text`. */
static bool read_head(struct call *call)
{
    char *text = (char *)bytes_front(&call->text);
    char *line = take_line(&text);
    char *rest = NULL;

    call->method = strtok_r(line, " ", &rest);
    call->path = strtok_r(NULL, " ", &rest);
    if (call->path == NULL || strncmp(rest, "HTTP/1.", 7) != 0)
        return false;
    while ((line = take_line(&text)) != NULL && *line != '\0') {
        if (!read_header(call, line))
            return false;
    }
    return true;
}

static bool begin_call(struct h1 *h1, struct bytes *in)
{
    const uint8_t *front = bytes_front(in);
    const uint8_t *end = front == NULL ? NULL : memmem(front, bytes_size(in), "\r\n\r\n", 4);

    if (end == NULL)
        return bytes_size(in) < HEAD_BYTES_MAX;
    size_t size = (size_t)(end - front) + 4;
    h1->call = call_new(h1->connection);
    h1->served = false;
    bytes_add(&h1->call->text, front, size);
    bytes_add(&h1->call->text, "", 1);
    bytes_use(in, size);
    if (!read_head(h1->call))
        return false;
    const char *length = call_header(h1->call, "content-length");
    const char *expect = call_header(h1->call, "expect");
    h1->body_left = length == NULL ? 0 : strtoul(length, NULL, 10);
    if (expect != NULL && strcasecmp(expect, "100-continue") == 0)
        bytes_print(connection_out(h1->connection), "HTTP/1.1 100 Continue\r\n\r\n");
    return h1->body_left <= BODY_BYTES_MAX && call_header(h1->call, "transfer-encoding") == NULL;
}

static void take_body(struct h1 *h1, struct bytes *in)
{
    size_t size = bytes_size(in) < h1->body_left ? bytes_size(in) : h1->body_left;

    bytes_add(&h1->call->body, bytes_front(in), size);
    bytes_use(in, size);
    h1->body_left -= size;
}

/* ---- Answers ---- */

static const char *reason(int status)
{
    return status == 200 ? "OK" : status < 500 ? "Bad Request" : "Internal Server Error";
}

static void write_head(struct h1 *h1)
{
    struct call *call = h1->call;
    struct bytes *out = connection_out(h1->connection);
    struct answer_header headers[ANSWER_HEADERS];
    uint32_t count = answer_headers(call, headers);

    bytes_print(out, "HTTP/1.1 %d %s\r\n", call->status, reason(call->status));
    for (uint32_t at = 0; at < count; at++)
        bytes_print(out, "%s: %s\r\n", headers[at].name, headers[at].value);
    h1->chunked = !call->ended;
    bytes_print(out, "%s\r\n", h1->chunked ? "transfer-encoding: chunked\r\n" : "");
    call->head_sent = true;
    if (call->fault.kind == FAULT_CUT && call->ended)
        call->answer.end -= bytes_size(&call->answer) / 2;
}

/* Large answers change owners; the head before them has to be gone first. True if all of it has moved. */
static bool move_body(struct h1 *h1)
{
    struct bytes *answer = &h1->call->answer;
    struct bytes *out = connection_out(h1->connection);
    size_t size = bytes_size(answer);

    if (h1->chunked || size <= COPIED_MAX) {
        if (h1->chunked && size > 0)
            bytes_print(out, "%zx\r\n", size);
        bytes_add(out, bytes_front(answer), size);
        if (h1->chunked && size > 0)
            bytes_add(out, "\r\n", 2);
        bytes_use(answer, size);
    } else if (bytes_size(out) > 0)
        return false;
    else {
        struct bytes before = *out;
        *out = *answer;
        *answer = before;
    }
    return h1->call->ended;
}

/* True if the call is over. */
static bool answer(struct h1 *h1)
{
    struct call *call = h1->call;
    const char *wish = call_header(call, "connection");

    if (call->due_ms > now_ms)
        return false;
    if (call->fault.kind == FAULT_REFUSE || call->fault.kind == FAULT_LOSE) {
        connection_break(h1->connection);
        return false;
    }
    if (!call->head_sent)
        write_head(h1);
    if (!move_body(h1))
        return false;
    if (call->fault.kind == FAULT_CUT || (wish != NULL && strcasecmp(wish, "close") == 0))
        connection_close(h1->connection);
    if (h1->chunked && call->fault.kind != FAULT_CUT)
        bytes_print(connection_out(h1->connection), "0\r\n\r\n");
    return true;
}

bool h1_turn(struct h1 *h1, struct bytes *in)
{
    for (;;) {
        if (h1->call == NULL && !begin_call(h1, in))
            return false;
        if (h1->call == NULL)
            return true;
        take_body(h1, in);
        if (h1->body_left > 0)
            return true;
        if (!h1->served)
            call_serve(h1->call);
        h1->served = true;
        if (!answer(h1))
            return true;
        call_free(h1->call);
        h1->call = NULL;
    }
}
