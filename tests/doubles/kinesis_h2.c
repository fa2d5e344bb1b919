/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/2, by nghttp2: one call for each stream. */
#include "kinesis.h"

#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OUT_BYTES_MAX = 256 << 10, WINDOW_BYTES = 4 << 20, STREAMS_MAX = 1000 };

struct h2 {
    struct connection *connection;
    nghttp2_session *session;
    struct call *calls; /* By `sibling`. */
};

/* ---- Requests ---- */

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct h2 *h2 = arg;

    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    struct call *call = call_new(h2->connection);
    call->h2_stream = frame->hd.stream_id;
    call->sibling = h2->calls;
    h2->calls = call;
    /* Headers point into it. */
    bytes_room(&call->text, 64 << 10);
    return nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, call);
}

/* With a NUL; NULL: no room. */
static char *keep(struct call *call, const uint8_t *text, size_t size)
{
    if (call->text.capacity - call->text.end < size + 1)
        return NULL;
    char *kept = (char *)call->text.data + call->text.end;
    bytes_add(&call->text, text, size);
    bytes_add(&call->text, "", 1);
    return kept;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_size, const uint8_t *value, size_t value_size, uint8_t flags,
                     void *arg)
{
    struct call *call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

    (void)flags;
    (void)arg;
    if (call == NULL)
        return 0;
    const char *kept_name = keep(call, name, name_size);
    char *kept = keep(call, value, value_size);
    if (kept == NULL || call->header_count == HEADERS_MAX)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    if (strcmp(kept_name, ":method") == 0)
        call->method = kept;
    else if (strcmp(kept_name, ":path") == 0)
        call->path = kept;
    else if (strcmp(kept_name, ":authority") == 0)
        call->headers[call->header_count++] = (struct header){"host", kept};
    else if (kept_name[0] != ':')
        call->headers[call->header_count++] = (struct header){kept_name, kept};
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *data,
                   size_t size, void *arg)
{
    struct call *call = nghttp2_session_get_stream_user_data(session, stream);

    (void)flags;
    (void)arg;
    if (call != NULL)
        bytes_add(&call->body, data, size);
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct call *call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

    (void)arg;
    if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0 && call != NULL && call->path != NULL &&
        (frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS))
        call_serve(call);
    return 0;
}

static int on_close(nghttp2_session *session, int32_t stream, uint32_t code, void *arg)
{
    struct h2 *h2 = arg;

    (void)session;
    (void)code;
    for (struct call **at = &h2->calls; *at != NULL; at = &(*at)->sibling) {
        struct call *call = *at;
        if (call->h2_stream != stream)
            continue;
        *at = call->sibling;
        call_free(call);
        return 0;
    }
    return 0;
}

/* ---- Answers ---- */

static ssize_t read_answer(nghttp2_session *session, int32_t stream, uint8_t *to, size_t size,
                           uint32_t *flags, nghttp2_data_source *source, void *arg)
{
    struct call *call = source->ptr;
    size_t there = bytes_size(&call->answer);

    (void)session;
    (void)stream;
    (void)arg;
    size = size < there ? size : there;
    if (size == 0 && !call->ended)
        return NGHTTP2_ERR_DEFERRED;
    if (size == 0 && call->fault.kind == FAULT_CUT)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    if (size > 0)
        memcpy(to, bytes_front(&call->answer), size);
    bytes_use(&call->answer, size);
    if (call->ended && bytes_size(&call->answer) == 0 && call->fault.kind != FAULT_CUT)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)size;
}

static nghttp2_nv pair(char *name, char *value)
{
    return (nghttp2_nv){.name = (uint8_t *)name,
                        .value = (uint8_t *)value,
                        .namelen = strlen(name),
                        .valuelen = strlen(value)};
}

static void submit(struct h2 *h2, struct call *call)
{
    struct answer_header headers[ANSWER_HEADERS];
    nghttp2_nv pairs[ANSWER_HEADERS + 1];
    nghttp2_data_provider provider = {.source = {.ptr = call}, .read_callback = read_answer};
    char status_name[] = ":status";
    char status[8];
    uint32_t count = answer_headers(call, headers);

    snprintf(status, sizeof status, "%d", call->status);
    pairs[0] = pair(status_name, status);
    for (uint32_t at = 0; at < count; at++)
        pairs[1 + at] = pair(headers[at].name, headers[at].value);
    call->head_sent = true;
    if (call->fault.kind == FAULT_CUT && call->ended)
        call->answer.end -= bytes_size(&call->answer) / 2;
    if (nghttp2_submit_response(h2->session, call->h2_stream, pairs, 1 + count, &provider) != 0)
        connection_break(h2->connection);
}

/* Answers what is due. */
static void answer_calls(struct h2 *h2)
{
    for (struct call *call = h2->calls; call != NULL; call = call->sibling) {
        if (call->status == 0 || call->due_ms > now_ms)
            continue;
        if (call->fault.kind == FAULT_REFUSE || call->fault.kind == FAULT_LOSE)
            connection_break(h2->connection);
        else if (!call->head_sent)
            submit(h2, call);
        else if (bytes_size(&call->answer) > 0 || call->ended)
            (void)nghttp2_session_resume_data(h2->session, call->h2_stream);
    }
}

bool h2_turn(struct h2 *h2, struct bytes *in)
{
    struct bytes *out = connection_out(h2->connection);
    const uint8_t *data;
    ssize_t size = nghttp2_session_mem_recv(h2->session, bytes_front(in), bytes_size(in));

    if (size < 0)
        return false;
    bytes_use(in, (size_t)size);
    answer_calls(h2);
    while (bytes_size(out) < OUT_BYTES_MAX) {
        size = nghttp2_session_mem_send(h2->session, &data);
        if (size <= 0)
            break;
        bytes_add(out, data, (size_t)size);
    }
    return nghttp2_session_want_read(h2->session) != 0 ||
           nghttp2_session_want_write(h2->session) != 0;
}

struct h2 *h2_new(struct connection *connection)
{
    struct h2 *h2 = must_alloc(sizeof *h2);
    nghttp2_session_callbacks *callbacks = NULL;
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, STREAMS_MAX},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW_BYTES},
    };

    h2->connection = connection;
    if (nghttp2_session_callbacks_new(&callbacks) != 0)
        die("no memory");
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    if (nghttp2_session_server_new(&h2->session, callbacks, h2) != 0 ||
        nghttp2_submit_settings(h2->session, NGHTTP2_FLAG_NONE, settings,
                                sizeof settings / sizeof settings[0]) != 0 ||
        nghttp2_session_set_local_window_size(h2->session, NGHTTP2_FLAG_NONE, 0, WINDOW_BYTES) != 0)
        die("no HTTP/2 session");
    nghttp2_session_callbacks_del(callbacks);
    return h2;
}

void h2_free(struct h2 *h2)
{
    if (h2 == NULL)
        return;
    while (h2->calls != NULL) {
        struct call *call = h2->calls;
        h2->calls = call->sibling;
        call_free(call);
    }
    nghttp2_session_del(h2->session);
    free(h2);
}
