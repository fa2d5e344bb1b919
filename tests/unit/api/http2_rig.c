/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/api/http2_rig.h"

#include "api/routes.h"
#include "api/rpc.h"
#include "api/server.h"
#include "ks_test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WAIT_MS = 20000, ANSWERS_MAX = 3000 };

struct http2_seen http2_seen;
static struct ks_rpc_service service;

/* ---- Routes ---- */

static struct ks_exchange *holder;
static struct ks_bytes echo;
static bool echo_ended;

static void closed(struct ks_exchange *exchange)
{
    if (exchange == holder)
        holder = NULL;
    http2_seen.closed++;
}

static size_t echo_fill(struct ks_exchange *exchange, uint8_t *buffer, size_t room,
                        enum ks_fill *ret_fill)
{
    size_t size = echo.size < room ? echo.size : room;

    if (size > 0)
        memcpy(buffer, echo.data, size);
    ks_bytes_consume(&echo, size);
    *ret_fill = size > 0 ? KS_FILL_MORE : echo_ended ? KS_FILL_END : KS_FILL_WAIT;
    if (*ret_fill == KS_FILL_END)
        ks_exchange_trailer(exchange, "X-End", "yes");
    ks_exchange_consumed(exchange, size);
    return size;
}

static void echo_part(struct ks_exchange *exchange, ks_view part, bool end)
{
    EXPECT_OK(ks_bytes_append(&echo, part));
    echo_ended = end;
    ks_exchange_wake(exchange);
}

static void handle_echo(struct ks_exchange *exchange)
{
    ks_bytes_free(&echo);
    ks_bytes_init(&echo, 2 * KS_BODY_WINDOW);
    echo_ended = false;
    exchange->body_part = echo_part;
    exchange->closed = closed;
    ks_exchange_stream(exchange, "application/octet-stream", echo_fill);
}

static void hold_part(struct ks_exchange *exchange, ks_view part, bool end)
{
    struct ks_bytes none;

    http2_seen.held += part.size;
    http2_seen.total += part.size;
    http2_seen.ended = end;
    if (!end)
        return;
    ks_bytes_init(&none, 10);
    ks_exchange_reply(exchange, 200, "text/plain", &none);
    ks_exchange_wake(exchange);
}

static void handle_hold(struct ks_exchange *exchange)
{
    holder = exchange;
    exchange->body_part = hold_part;
    exchange->closed = closed;
}

void http2_release(void)
{
    size_t held = http2_seen.held;

    EXPECT(holder != NULL);
    http2_seen.held = 0;
    ks_exchange_consumed(holder, held);
}

uint8_t http2_pattern(size_t at)
{
    return (uint8_t)(at * 31 + (at >> 8));
}

/* What is still to be written. */
struct pattern {
    size_t at;
    size_t end;
    enum ks_fill last;
};

static size_t pattern_fill(struct ks_exchange *exchange, uint8_t *buffer, size_t room,
                           enum ks_fill *ret_fill)
{
    struct pattern *pattern = exchange->context;
    size_t left = pattern->end - pattern->at;
    size_t size = left < room ? left : room;

    EXPECT(room >= KS_FILL_MIN);
    for (size_t i = 0; i < size; i++)
        buffer[i] = http2_pattern(pattern->at++);
    *ret_fill = size > 0 ? KS_FILL_MORE : pattern->last;
    return size;
}

static void pattern_closed(struct ks_exchange *exchange)
{
    free(exchange->context);
    closed(exchange);
}

static void write_pattern(struct ks_exchange *exchange, size_t size, enum ks_fill last)
{
    struct pattern *pattern = malloc(sizeof(*pattern));

    EXPECT(pattern != NULL);
    *pattern = (struct pattern){0, size, last};
    exchange->context = pattern;
    exchange->closed = pattern_closed;
    ks_exchange_stream(exchange, "application/octet-stream", pattern_fill);
}

static void sent(struct ks_exchange *exchange, size_t size)
{
    (void)exchange;
    http2_seen.sent += size;
}

static void handle_bytes(struct ks_exchange *exchange)
{
    ks_view wanted = ks_request_header(&exchange->request, "x-bytes");
    uint64_t count;

    EXPECT_OK(ks_view_u64(wanted, &count));
    write_pattern(exchange, (size_t)count, KS_FILL_END);
    exchange->sent = sent;
}

static void handle_abort(struct ks_exchange *exchange)
{
    write_pattern(exchange, 100, KS_FILL_ABORT);
}

static void handle_head(struct ks_exchange *exchange)
{
    static char text[20000];
    struct ks_bytes body;

    EXPECT_OK(
        ks_view_copy_text(ks_request_header(&exchange->request, "x-ask"), text, sizeof(text)));
    ks_bytes_init(&body, 1000);
    EXPECT_OK(ks_bytes_format(&body, "http %u, host %.*s", exchange->request.http,
                              (int)exchange->request.host.size,
                              (const char *)exchange->request.host.data));
    ks_exchange_reply(exchange, 200, "text/plain", &body);
    ks_exchange_header(exchange, "X-Told", text);
    ks_exchange_trailer(exchange, "X-Trailer", text);
}

static void handle_only(struct ks_exchange *exchange)
{
    struct ks_bytes none;

    ks_bytes_init(&none, 10);
    ks_exchange_reply(exchange, 200, "application/grpc", &none);
    ks_exchange_header(exchange, "grpc-status", "12");
}

static void handle_wrong(struct ks_exchange *exchange)
{
    handle_only(exchange);
    ks_exchange_header(exchange, "x-a", "b\r\nx-c: d");
}

static void early_part(struct ks_exchange *exchange, ks_view part, bool end)
{
    struct ks_bytes body;

    (void)end;
    ks_exchange_consumed(exchange, part.size);
    ks_bytes_init(&body, 10);
    EXPECT_OK(ks_bytes_append(&body, KS_VIEW("early")));
    ks_exchange_reply(exchange, 200, "text/plain", &body);
    ks_exchange_trailer(exchange, "x-end", "early");
}

static void handle_early(struct ks_exchange *exchange)
{
    exchange->body_part = early_part;
    exchange->closed = closed;
}

/* Takes a window full, gives nothing back, and answers. */
static void full_part(struct ks_exchange *exchange, ks_view part, bool end)
{
    struct ks_bytes body;

    http2_seen.total += part.size;
    if (http2_seen.total < KS_BODY_WINDOW && !end)
        return;
    ks_bytes_init(&body, 10);
    EXPECT_OK(ks_bytes_append(&body, KS_VIEW("full")));
    ks_exchange_reply(exchange, 200, "text/plain", &body);
    ks_exchange_consumed(exchange, http2_seen.total);
    ks_exchange_wake(exchange);
}

static void handle_full(struct ks_exchange *exchange)
{
    exchange->body_part = full_part;
    exchange->closed = closed;
}

static const struct ks_route routes[] = {
    {handle_full, KS_DOOR_LOCAL, KS_WHO_APP, KS_METHOD_POST, "/test/full", "", KS_ROUTE_ANY,
     KS_BODY_STREAM, ""},
    {handle_echo, KS_DOOR_LOCAL, KS_WHO_APP, KS_METHOD_POST, "/test/echo", "", KS_ROUTE_ANY,
     KS_BODY_STREAM, ""},
    {handle_hold, KS_DOOR_LOCAL, KS_WHO_APP, KS_METHOD_POST, "/test/hold", "", KS_ROUTE_ANY,
     KS_BODY_STREAM, ""},
    {handle_early, KS_DOOR_LOCAL, KS_WHO_APP, KS_METHOD_POST, "/test/early", "", KS_ROUTE_ANY,
     KS_BODY_STREAM, ""},
    {handle_bytes, KS_DOOR_LOCAL, KS_WHO_APP, KS_METHOD_GET, "/test/bytes", "", KS_ROUTE_ANY,
     KS_BODY_NONE, ""},
    {handle_abort, KS_DOOR_LOCAL, KS_WHO_APP, KS_METHOD_GET, "/test/abort", "", KS_ROUTE_ANY,
     KS_BODY_NONE, ""},
    {handle_head, KS_DOOR_LOCAL, KS_WHO_APP, KS_METHOD_GET, "/test/head", "", KS_ROUTE_ANY,
     KS_BODY_NONE, ""},
    {handle_only, KS_DOOR_LOCAL, KS_WHO_APP, KS_METHOD_GET, "/test/only", "", KS_ROUTE_ANY,
     KS_BODY_NONE, ""},
    {handle_wrong, KS_DOOR_LOCAL, KS_WHO_APP, KS_METHOD_GET, "/test/wrong", "", KS_ROUTE_ANY,
     KS_BODY_NONE, ""},
};

static const struct ks_route *find(struct ks_exchange *exchange)
{
    for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++)
        if (ks_view_equal(exchange->request.decoded.path, ks_view_text(routes[i].path)))
            return &routes[i];
    return NULL;
}

void http2_routes(struct rig *rig)
{
    http2_seen = (struct http2_seen){0};
    rig->api->find_more = find;
    /* Routes of ours look at lines of ours. */
    service = *rig->api->rpc;
    service.all_headers = true;
    rig->api->rpc = &service;
}

/* ---- The client's callbacks ---- */

static struct http2_answer *answer_of(nghttp2_session *session, int32_t id)
{
    return nghttp2_session_get_stream_user_data(session, id);
}

static int line_came(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_size, const uint8_t *value, size_t value_size, uint8_t flags,
                     void *arg)
{
    struct http2_answer *answer = answer_of(session, frame->hd.stream_id);
    char *into = frame->headers.cat == NGHTTP2_HCAT_RESPONSE || answer->size == 0
                     ? answer->headers
                     : answer->trailers;
    struct http2_client *client = arg;

    (void)flags;
    if (frame->headers.cat == NGHTTP2_HCAT_HEADERS && answer->status != 100)
        into = answer->trailers;
    if (name[0] == ':') {
        answer->status = atoi((const char *)value);
        client->continued += answer->status == 100;
        return 0;
    }
    EXPECT(strlen(into) + name_size + value_size + 4 < sizeof(answer->headers));
    (void)sprintf(into + strlen(into), "%.*s: %.*s\n", (int)name_size, (const char *)name,
                  (int)value_size, (const char *)value);
    return 0;
}

static int data_came(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data,
                     size_t size, void *arg)
{
    struct http2_answer *answer = answer_of(session, id);

    (void)flags;
    (void)arg;
    answer->body = realloc(answer->body, answer->size + size + 1);
    memcpy(answer->body + answer->size, data, size);
    answer->size += size;
    answer->body[answer->size] = '\0';
    return 0;
}

static int frame_came(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct http2_client *client = arg;
    struct http2_answer *answer = answer_of(session, frame->hd.stream_id);

    if (frame->hd.type == NGHTTP2_GOAWAY) {
        client->goaways++;
        client->goaway_last = frame->goaway.last_stream_id;
        client->goaway_error = frame->goaway.error_code;
    }
    if (answer != NULL && (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
        (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0)
        answer->ended = true;
    return 0;
}

static int stream_over(nghttp2_session *session, int32_t id, uint32_t code, void *arg)
{
    struct http2_answer *answer = answer_of(session, id);

    (void)arg;
    if (answer == NULL)
        return 0;
    answer->closed = true;
    answer->error = code;
    return 0;
}

static ssize_t read_upload(nghttp2_session *session, int32_t id, uint8_t *buffer, size_t room,
                           uint32_t *flags, nghttp2_data_source *source, void *arg)
{
    struct http2_answer *answer = source->ptr;
    size_t size = answer->upload_size < room ? answer->upload_size : room;

    (void)session;
    (void)id;
    (void)arg;
    if (size == 0 && !answer->upload_end) {
        answer->upload_waits = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    if (size > 0)
        memcpy(buffer, answer->upload, size);
    answer->upload += size;
    answer->upload_size -= size;
    if (answer->upload_size == 0 && answer->upload_end)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)size;
}

/* ---- The client ---- */

void http2_begin(struct http2_client *client, struct rig *rig, const char *name, uint32_t window)
{
    nghttp2_session_callbacks *callbacks;
    nghttp2_settings_entry entry = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, window};

    *client = (struct http2_client){.rig = rig, .fd = rig_connect(rig, name)};
    EXPECT(nghttp2_session_callbacks_new(&callbacks) == 0);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, line_came);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, data_came);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, frame_came);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, stream_over);
    EXPECT(nghttp2_session_client_new(&client->session, callbacks, client) == 0);
    nghttp2_session_callbacks_del(callbacks);
    EXPECT(nghttp2_submit_settings(client->session, 0, &entry, window > 0 ? 1 : 0) == 0);
    http2_turns(client, 5);
}

void http2_end(struct http2_client *client)
{
    nghttp2_session_del(client->session);
    (void)close(client->fd);
    while (client->answers != NULL) {
        struct http2_answer *answer = client->answers;
        client->answers = answer->next;
        free(answer->body);
        free(answer);
    }
    rig_turn(client->rig, 5);
}

static nghttp2_nv line_of(const char *name, size_t name_size, const char *value)
{
    static uint8_t room[16][40000];
    static unsigned next;
    uint8_t *text = room[next++ % 16];
    size_t value_size = strlen(value);

    EXPECT(name_size + value_size < sizeof(room[0]));
    memcpy(text, name, name_size);
    memcpy(text + name_size, value, value_size);
    return (nghttp2_nv){text, text + name_size, name_size, value_size, 0};
}

struct http2_answer *http2_ask(struct http2_client *client, const char *method, const char *path,
                               const char *header, const char *body, bool open)
{
    struct http2_answer *answer = calloc(1, sizeof(*answer));
    nghttp2_data_provider provider = {.source = {.ptr = answer}, .read_callback = read_upload};
    nghttp2_nv lines[5];
    size_t count = 0;

    lines[count++] = line_of(":method", 7, method);
    lines[count++] = line_of(":scheme", 7, "http");
    lines[count++] = line_of(":path", 5, path);
    lines[count++] = line_of(":authority", 10, "localhost");
    if (header != NULL)
        lines[count++] = line_of(header, strcspn(header, ":"), strchr(header, ':') + 2);
    answer->next = client->answers;
    client->answers = answer;
    answer->upload = (const uint8_t *)body;
    answer->upload_size = body == NULL ? 0 : strlen(body);
    answer->upload_end = !open;
    answer->id = nghttp2_submit_request(client->session, NULL, lines, count,
                                        body != NULL || open ? &provider : NULL, answer);
    EXPECT(answer->id > 0);
    return answer;
}

void http2_upload(struct http2_client *client, struct http2_answer *answer, const void *bytes,
                  size_t size, bool end)
{
    EXPECT_EQ_U64(answer->upload_size, 0);
    answer->upload = bytes;
    answer->upload_size = size;
    answer->upload_end = end;
    if (answer->upload_waits)
        EXPECT(nghttp2_session_resume_data(client->session, answer->id) == 0);
    answer->upload_waits = false;
}

void http2_cancel(struct http2_client *client, struct http2_answer *answer)
{
    EXPECT(nghttp2_submit_rst_stream(client->session, 0, answer->id, NGHTTP2_CANCEL) == 0);
}

void http2_turn(struct http2_client *client)
{
    static uint8_t buffer[64 << 10];
    const uint8_t *data;
    ssize_t size;

    while (!client->closed && (size = nghttp2_session_mem_send(client->session, &data)) > 0)
        http2_raw(client, data, (size_t)size);
    ks_loop_turn(client->rig->stage.loop, ks_span_ms(1));
    while (!client->hold && !client->closed) {
        size = recv(client->fd, buffer, sizeof(buffer), MSG_DONTWAIT);
        if (size == 0 || (size < 0 && errno != EAGAIN))
            client->closed = true;
        if (size <= 0)
            return;
        EXPECT(nghttp2_session_mem_recv(client->session, buffer, (size_t)size) == size);
    }
}

void http2_turns(struct http2_client *client, int64_t ms)
{
    ks_instant until = ks_instant_add(ks_instant_now(), ks_span_ms(ms));

    while (ks_instant_before(ks_instant_now(), until))
        http2_turn(client);
}

void http2_wait(struct http2_client *client, struct http2_answer *answer)
{
    for (int i = 0; i < WAIT_MS && !answer->closed; i++)
        http2_turn(client);
    EXPECT(answer->closed);
}

void http2_wait_bytes(struct http2_client *client, struct http2_answer *answer, size_t size)
{
    for (int i = 0; i < WAIT_MS && answer->size < size; i++)
        http2_turn(client);
    EXPECT(answer->size >= size);
}

void http2_raw(struct http2_client *client, const void *bytes, size_t size)
{
    const uint8_t *from = bytes;

    for (int i = 0; i < WAIT_MS && size > 0; i++) {
        ssize_t sent = send(client->fd, from, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        /* What it said before it closed is still to be read. */
        if (sent < 0 && errno != EAGAIN)
            return;
        if (sent < 0)
            ks_loop_turn(client->rig->stage.loop, ks_span_ms(1));
        from += sent > 0 ? sent : 0;
        size -= sent > 0 ? (size_t)sent : 0;
    }
    EXPECT_EQ_U64(size, 0);
}

void http2_wait_closed(struct http2_client *client)
{
    for (int i = 0; i < WAIT_MS && !client->closed; i++)
        http2_turn(client);
    EXPECT(client->closed);
}
