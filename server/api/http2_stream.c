/* SPDX-License-Identifier: Apache-2.0 */
/* A stream is an exchange: the request in, the answer out. */
#include <assert.h>
#include <stdio.h>

#include "api/http2_wire.h"
#include "api/routes.h"
#include "api/server.h"
#include "base/budget.h"

/* Lines of one head or of one block of trailers. */
enum { LINES_MAX = 256 };

static struct ks_http2_stream *stream_of(struct ks_exchange *exchange)
{
    return KS_LIST_ENTRY(exchange, struct ks_http2_stream, exchange);
}

static ks_instant now_of(const struct ks_http2_stream *stream)
{
    return ks_loop_now(stream->wire->http2->loop);
}

/* ---- The exchange's transport ---- */

static void wake(struct ks_exchange *exchange)
{
    struct ks_http2_stream *stream = stream_of(exchange);

    if (ks_list_empty(&stream->woken))
        ks_list_append(&stream->wire->woken, &stream->woken);
    ks_http2_soon(stream->wire);
}

static void consumed(struct ks_exchange *exchange, size_t size)
{
    struct ks_http2_stream *stream = stream_of(exchange);

    assert(stream->unread >= size);
    stream->unread -= size;
    stream->given += size;
    wake(exchange);
}

static const struct ks_transport transport = {.wake = wake, .consumed = consumed};

/* ---- Memory of bodies ---- */

/* Charges what the stream holds. False if that is too much. */
static bool charge(struct ks_http2_stream *stream)
{
    size_t held = stream->unread + stream->exchange.request.body.capacity;

    return ks_account_hold(&stream->wire->account, KS_HELD_BODIES, &stream->charged, held);
}

static void charge_stage(struct ks_http2_stream *stream)
{
    ks_account_must_hold(&stream->wire->account, KS_HELD_ANSWERS, &stream->stage_held,
                         stream->stage.capacity);
}

/* ---- Life ---- */

struct ks_http2_stream *ks_http2_stream_new(struct ks_http2_wire *wire, int32_t id)
{
    struct ks_http2_stream *stream;

    if (wire->http2->streams >= KS_STREAMS_MAX)
        return NULL;
    stream = ks_alloc(sizeof(*stream));
    if (stream == NULL)
        return NULL;
    ks_exchange_init(&stream->exchange, wire->http2->api, &transport);
    stream->exchange.account = &wire->account;
    stream->wire = wire;
    stream->id = id;
    stream->head = (struct ks_head){.headers = &stream->exchange.request.headers,
                                    .most = ks_http2_head_most(wire),
                                    .all = ks_api_wants_all_headers(wire->http2->api),
                                    .http = 2,
                                    .host_may_be_absent = true,
                                    .whole = true};
    stream->exchange.request.method = KS_METHOD_OTHER;
    stream->exchange.request.ops = wire->ops;
    stream->exchange.request.peer = wire->peer;
    ks_bytes_init(&stream->target, KS_TARGET_MAX + 1);
    ks_bytes_init(&stream->stage, KS_OUT_MESSAGE);
    ks_link_init(&stream->woken);
    ks_link_init(&stream->ending);
    ks_link_init(&stream->filled);
    ks_link_init(&stream->unframed);
    ks_list_append(&wire->streams, &stream->link);
    ks_account_set_idle(&wire->account, false);
    wire->http2->streams++;
    return stream;
}

void ks_http2_stream_free(struct ks_http2_stream *stream)
{
    struct ks_http2_wire *wire;

    if (stream == NULL)
        return;
    wire = stream->wire;
    ks_http2_forget_frames(stream);
    ks_list_remove(&stream->woken);
    ks_list_remove(&stream->ending);
    ks_list_remove(&stream->filled);
    ks_list_remove(&stream->unframed);
    ks_list_remove(&stream->link);
    ks_account_must_hold(&wire->account, KS_HELD_BODIES, &stream->charged, 0);
    ks_exchange_end(&stream->exchange);
    /* What `closed` did may have woken it once more. */
    ks_list_remove(&stream->woken);
    ks_bytes_free(&stream->target);
    ks_bytes_free(&stream->stage);
    charge_stage(stream);
    assert(wire->http2->streams > 0);
    wire->http2->streams--;
    if (stream->whole) {
        assert(wire->heads > 0);
        wire->heads--;
        wire->head_due =
            ks_instant_add(ks_loop_now(wire->http2->loop), ks_span_ms(KS_IDLE_WAIT_MS));
    }
    ks_free(stream);
    ks_http2_soon(wire);
}

void ks_http2_stream_over(struct ks_http2_stream *stream)
{
    if (stream == NULL)
        return;
    if (!stream->finished || stream->exchange.sent == NULL) {
        ks_http2_stream_free(stream);
        return;
    }
    stream->parting = true;
    ks_list_remove(&stream->link);
    ks_list_append(&stream->wire->parting, &stream->link);
    ks_http2_soon(stream->wire);
}

static void note_filled(struct ks_http2_stream *stream)
{
    if (stream->exchange.sent != NULL && ks_list_empty(&stream->filled))
        ks_list_append(&stream->wire->filled, &stream->filled);
}

/* True while bytes of the stream wait for the socket. */
static bool has_frames(const struct ks_http2_wire *wire, const struct ks_http2_stream *stream)
{
    for (size_t i = 0; i < wire->frame_count; i++)
        if (wire->frames[i].stream == stream)
            return true;
    return false;
}

void ks_http2_streams_sent(struct ks_http2_wire *wire)
{
    struct ks_link *cursor;
    struct ks_link *after;

    KS_LIST_EACH(cursor, after, &wire->filled)
    {
        struct ks_http2_stream *stream = KS_LIST_ENTRY(cursor, struct ks_http2_stream, filled);

        if (stream->stage.size == 0 && stream->ready.size == 0 && !has_frames(wire, stream))
            ks_list_remove(&stream->filled);
    }
    KS_LIST_EACH(cursor, after, &wire->parting)
    {
        struct ks_http2_stream *stream = KS_LIST_ENTRY(cursor, struct ks_http2_stream, link);

        if (!has_frames(wire, stream))
            ks_http2_stream_free(stream);
    }
}

bool ks_http2_streams_may_send(struct ks_http2_wire *wire)
{
    struct ks_link *cursor;
    struct ks_link *after;
    bool may = true;

    KS_LIST_EACH(cursor, after, &wire->filled)
    {
        struct ks_http2_stream *stream = KS_LIST_ENTRY(cursor, struct ks_http2_stream, filled);
        may = ks_exchange_may_send(&stream->exchange) && may;
    }
    KS_LIST_EACH(cursor, after, &wire->parting)
    {
        struct ks_http2_stream *stream = KS_LIST_ENTRY(cursor, struct ks_http2_stream, link);
        may = ks_exchange_may_send(&stream->exchange) && may;
    }
    return may;
}

/* ---- The request ---- */

/* Cuts the stream. */
static void reset(struct ks_http2_stream *stream, uint32_t code)
{
    if (nghttp2_submit_rst_stream(stream->wire->session, NGHTTP2_FLAG_NONE, stream->id, code) != 0)
        stream->wire->dead = true;
}

/* How long the peer may keep us waiting as things are. */
static int64_t patience_ms(const struct ks_http2_stream *stream)
{
    /* The answer is out; the rest of the request is thrown away for a while. */
    if (stream->finished)
        return KS_LINGER_WAIT_MS;
    if (stream->submitted && !stream->waiting)
        return KS_STALL_MS;
    if (stream->whole && !stream->ended && !stream->submitted && !stream->exchange.streamed)
        return KS_BODY_WAIT_MS;
    /* A producer that waits, a handler that thinks, a body that is taken in parts: they may last.
     */
    return INT64_MAX / 1000;
}

void ks_http2_stream_look(struct ks_http2_stream *stream, ks_instant now)
{
    ks_span wait = ks_span_ms(patience_ms(stream));

    if (ks_instant_reached(now, ks_instant_add(stream->moved_at, wait)))
        reset(stream, stream->finished ? NGHTTP2_NO_ERROR : NGHTTP2_CANCEL);
}

static void pseudo_line(struct ks_http2_stream *stream, ks_view name, ks_view value)
{
    char method[16];

    if (ks_view_equal(name, KS_VIEW(":method"))) {
        if (ks_ok(ks_view_copy_text(value, method, sizeof(method))))
            stream->exchange.request.method = ks_method_parse(method);
        stream->head_only = ks_view_equal(value, KS_VIEW("HEAD"));
    } else if (ks_view_equal(name, KS_VIEW(":authority"))) {
        ks_head_line(&stream->head, KS_VIEW("host"), value);
    } else if (ks_view_equal(name, KS_VIEW(":path"))) {
        /* One byte more than there may be tells that there are more. */
        value.size = value.size <= KS_TARGET_MAX ? value.size : KS_TARGET_MAX + 1;
        if (!ks_ok(ks_bytes_append(&stream->target, value)))
            stream->head.no_memory = true;
    }
}

void ks_http2_stream_line(struct ks_http2_stream *stream, ks_view name, ks_view value)
{
    struct ks_head *head = &stream->head;

    if (name.size > 0 && name.data[0] == ':') {
        pseudo_line(stream, name, value);
        return;
    }
    /* Both may be there, and must agree (RFC 9113, section 8.3.1). */
    if (ks_view_equal(name, KS_VIEW("host")) &&
        ks_view_equal_nocase(value, ks_headers_find(head->headers, "host")))
        return;
    if (ks_view_equal(name, KS_VIEW("expect")))
        stream->wants_continue = ks_view_equal_nocase(value, KS_VIEW("100-continue"));
    ks_head_line(head, name, value);
}

void ks_http2_stream_begin(struct ks_http2_stream *stream, bool ended)
{
    struct ks_exchange *exchange = &stream->exchange;

    stream->whole = true;
    stream->wire->heads++;
    stream->moved_at = now_of(stream);
    stream->head.ended = ended;
    exchange->request.target = ks_bytes_view(&stream->target);
    if (ks_head_judge(&stream->head, exchange))
        ks_exchange_begin(exchange);
    if (!exchange->answered && exchange->streamed)
        ks_exchange_run(exchange);
    wake(exchange);
}

static void too_large(struct ks_exchange *exchange)
{
    size_t max = exchange->request.body.max;

    ks_bytes_free(&exchange->request.body);
    ks_exchange_problem(exchange, KS_PROBLEM_TOO_LARGE, "the body may have at most %zu bytes", max);
}

/* Keeps a part of a body that is wanted whole. */
static void keep(struct ks_http2_stream *stream, ks_view part)
{
    struct ks_exchange *exchange = &stream->exchange;

    stream->received += part.size;
    if (stream->finished && stream->received > KS_LINGER_BYTES_MAX && !stream->overfull) {
        stream->overfull = true;
        reset(stream, NGHTTP2_NO_ERROR);
    }
    if (exchange->answered || stream->overfull)
        return;
    if (stream->received > exchange->request.body.max) {
        too_large(exchange);
        (void)charge(stream);
        return;
    }
    stream->overfull = !ks_ok(ks_bytes_append(&exchange->request.body, part));
    stream->overfull = !charge(stream) || stream->overfull;
    if (!stream->overfull)
        return;
    ks_bytes_free(&exchange->request.body);
    (void)charge(stream);
    ks_exchange_problem(exchange, KS_PROBLEM_EXHAUSTED, KS_BODIES_REFUSAL);
}

void ks_http2_stream_data(struct ks_http2_stream *stream, ks_view part)
{
    if (!stream->exchange.streamed) {
        keep(stream, part);
        stream->given += part.size;
        wake(&stream->exchange);
        return;
    }
    stream->unread += part.size;
    (void)ks_exchange_part(&stream->exchange, part, false);
    if (!charge(stream) && !stream->overfull) {
        stream->overfull = true;
        reset(stream, NGHTTP2_ENHANCE_YOUR_CALM);
    }
    wake(&stream->exchange);
}

void ks_http2_stream_end(struct ks_http2_stream *stream)
{
    stream->ended = true;
    ks_list_append(&stream->wire->endings, &stream->ending);
    ks_http2_soon(stream->wire);
}

void ks_http2_stream_handle(struct ks_http2_stream *stream)
{
    struct ks_exchange *exchange = &stream->exchange;

    ks_list_remove(&stream->ending);
    if (exchange->streamed)
        (void)ks_exchange_part(exchange, KS_VIEW_NONE, true);
    else if (!exchange->answered)
        ks_exchange_run(exchange);
    wake(exchange);
}

/* ---- The answer ---- */

static nghttp2_nv line_of(ks_view name, ks_view value)
{
    /* nghttp2 copies both; it says so with a type that is not const. */
    union {
        const uint8_t *from;
        uint8_t *to;
    } names = {.from = name.data}, values = {.from = value.data};

    return (nghttp2_nv){names.to, values.to, name.size, value.size, NGHTTP2_NV_FLAG_NONE};
}

/* Appends the lines. False if there are too many. */
static bool add_lines(struct ks_headers *headers, nghttp2_nv lines[LINES_MAX], size_t *count)
{
    size_t at = 0;
    ks_view name;
    ks_view value;

    ks_headers_lower(headers);
    while (ks_headers_next(headers, &at, &name, &value)) {
        if (*count == LINES_MAX)
            return false;
        lines[(*count)++] = line_of(name, value);
    }
    return true;
}

/* The body is out: its trailers follow, if there are any. */
static bool end_body(struct ks_http2_stream *stream, uint32_t *flags)
{
    struct ks_headers *trailers = &stream->exchange.answer.trailers;
    static nghttp2_nv lines[LINES_MAX];
    size_t count = 0;

    if (stream->exchange.answer.broken)
        return false;
    *flags |= NGHTTP2_DATA_FLAG_EOF;
    if (trailers->lines.size == 0)
        return true;
    *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
    return add_lines(trailers, lines, &count) &&
           nghttp2_submit_trailer(stream->wire->session, stream->id, lines, count) == 0;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static ssize_t read_fixed(struct ks_http2_stream *stream, uint8_t *buffer, size_t room,
                          uint32_t *flags)
{
    const struct ks_bytes *body = &stream->exchange.answer.body;
    struct ks_http2_out *out = stream->wire->http2->out;
    size_t size = smaller(room, body->size - stream->sent);

    if (!ks_exchange_may_send(&stream->exchange))
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    if (size > 0)
        memcpy(buffer, body->data + stream->sent, size);
    stream->sent += size;
    if (size > 0 && stream->exchange.sent != NULL) {
        out->copied = stream;
        out->copied_size = size;
        note_filled(stream);
    }
    if (stream->sent == body->size && !end_body(stream, flags))
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    return (ssize_t)size;
}

static ssize_t read_staged(struct ks_http2_stream *stream, uint8_t *buffer, size_t room)
{
    struct ks_http2_out *out = stream->wire->http2->out;
    size_t size = smaller(room, stream->stage.size - stream->staged);

    out->copied = stream;
    out->copied_size = size;

    memcpy(buffer, stream->stage.data + stream->staged, size);
    stream->staged += size;
    if (stream->staged == stream->stage.size) {
        stream->staged = 0;
        ks_bytes_free(&stream->stage);
        charge_stage(stream);
    }
    return (ssize_t)size;
}

bool ks_http2_stream_keep(struct ks_http2_stream *stream)
{
    ks_view rest = stream->ready;

    assert(stream->stage.size == 0 && rest.size > 0);
    ks_list_remove(&stream->unframed);
    stream->ready = KS_VIEW_NONE;
    if (!ks_ok(ks_bytes_append(&stream->stage, rest)))
        return false;
    charge_stage(stream);
    return true;
}

/* What the peer takes now: no more is made, but that a producer is never asked for less than KS_FILL_MIN. */
static size_t window_of(const struct ks_http2_stream *stream)
{
    nghttp2_session *session = stream->wire->session;
    size_t most = ks_http2_message_most(stream->wire->http2->out);
    int32_t window = nghttp2_session_get_stream_remote_window_size(session, stream->id);
    int32_t all = nghttp2_session_get_remote_window_size(session);

    window = window < all ? window : all;
    return window < KS_FILL_MIN ? KS_FILL_MIN : smaller((size_t)window, most);
}

static enum ks_fill produce(struct ks_http2_stream *stream, uint8_t *place)
{
    struct ks_exchange *exchange = &stream->exchange;
    struct ks_http2_out *out = stream->wire->http2->out;
    size_t room = window_of(stream);
    enum ks_fill how = KS_FILL_ABORT;
    size_t size = exchange->answer.fill(exchange, place, room, &how);

    assert(size <= room && (size > 0) == (how == KS_FILL_MORE));
    if (how != KS_FILL_MORE)
        return how;
    out->used += size;
    stream->ready = ks_view_of(place, size);
    note_filled(stream);
    ks_list_append(&out->ready, &stream->unframed);
    return how;
}

static ssize_t read_produced(struct ks_http2_stream *stream, uint8_t *buffer, size_t room,
                             uint32_t *flags)
{
    enum ks_fill how = KS_FILL_MORE;
    uint8_t *place;

    if (stream->stage.size > 0 && !ks_exchange_may_send(&stream->exchange))
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    if (stream->stage.size > 0)
        return read_staged(stream, buffer, room);
    if (stream->ready.size == 0) {
        place = ks_http2_out_room(stream->wire->http2->out);
        if (place == NULL)
            return NGHTTP2_ERR_PAUSE;
        how = produce(stream, place);
    }
    switch (how) {
    case KS_FILL_MORE:
        *flags |= NGHTTP2_DATA_FLAG_NO_COPY; /* It stands in `out` already. */
        return (ssize_t)smaller(room, stream->ready.size);
    case KS_FILL_WAIT: stream->waiting = true; return NGHTTP2_ERR_DEFERRED;
    case KS_FILL_END: return end_body(stream, flags) ? 0 : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    case KS_FILL_ABORT: break;
    }
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

/* A peer that takes a byte now and then holds an answer in memory as one does that takes none. */
static void note_taken(struct ks_http2_stream *stream, ssize_t size)
{
    size_t least = stream->exchange.answer.fill != NULL ? KS_TAKEN_BYTES : KS_TAKEN_FIXED_BYTES;

    stream->taken += size > 0 ? (size_t)size : 0;
    if (stream->taken < least && !stream->waiting)
        return;
    stream->taken = 0;
    stream->moved_at = now_of(stream);
}

static ssize_t read_body(nghttp2_session *session, int32_t id, uint8_t *buffer, size_t room,
                         uint32_t *flags, nghttp2_data_source *source, void *arg)
{
    struct ks_http2_stream *stream = source->ptr;
    ssize_t size;

    (void)session;
    (void)arg;
    assert(stream->id == id);
    if (stream->exchange.answer.fill != NULL)
        size = read_produced(stream, buffer, room, flags);
    else
        size = read_fixed(stream, buffer, room, flags);
    note_taken(stream, size);
    return size;
}

static void submit(struct ks_http2_stream *stream)
{
    static nghttp2_nv lines[LINES_MAX];
    struct ks_answer *answer = &stream->exchange.answer;
    nghttp2_data_provider provider = {.source = {.ptr = stream}, .read_callback = read_body};
    bool trailers = answer->trailers.lines.size > 0;
    bool body = (answer->fill != NULL || answer->body.size > 0 || trailers) && !stream->head_only;
    char status[8];
    char length[24];
    size_t count = 0;

    (void)snprintf(status, sizeof(status), "%u", answer->status);
    (void)snprintf(length, sizeof(length), "%zu", answer->body.size);
    lines[count++] = line_of(KS_VIEW(":status"), ks_view_text(status));
    if (answer->content_type != NULL)
        lines[count++] = line_of(KS_VIEW("content-type"), ks_view_text(answer->content_type));
    lines[count++] = line_of(KS_VIEW("cache-control"), KS_VIEW("no-store"));
    if (answer->fill == NULL && answer->body.size > 0 && !trailers)
        lines[count++] = line_of(KS_VIEW("content-length"), ks_view_text(length));
    stream->submitted = true;
    stream->moved_at = now_of(stream);
    if (answer->broken || !add_lines(&answer->headers, lines, &count) ||
        nghttp2_submit_response(stream->wire->session, stream->id, lines, count,
                                body ? &provider : NULL) != 0)
        reset(stream, NGHTTP2_INTERNAL_ERROR);
}

static void say_continue(struct ks_http2_stream *stream)
{
    nghttp2_nv line = line_of(KS_VIEW(":status"), KS_VIEW("100"));

    stream->wants_continue = false;
    if (nghttp2_submit_headers(stream->wire->session, NGHTTP2_FLAG_NONE, stream->id, NULL, &line, 1,
                               NULL) < 0)
        stream->wire->dead = true;
}

void ks_http2_stream_work(struct ks_http2_stream *stream)
{
    nghttp2_session *session = stream->wire->session;

    if (stream->parting)
        return;
    if (stream->exchange.body_part == NULL) {
        stream->given += stream->unread;
        stream->unread = 0;
    }
    (void)charge(stream);
    if (stream->given > 0 &&
        nghttp2_session_consume_stream(session, stream->id, stream->given) != 0)
        stream->wire->dead = true;
    stream->given = 0;
    if (!stream->submitted && stream->exchange.answered) {
        submit(stream);
        return;
    }
    if (stream->wants_continue && stream->whole && !stream->ended && !stream->submitted)
        say_continue(stream);
    if (!stream->waiting)
        return;
    stream->waiting = false;
    stream->moved_at = now_of(stream);
    if (nghttp2_session_resume_data(session, stream->id) != 0)
        stream->wire->dead = true;
}
