/* SPDX-License-Identifier: Apache-2.0 */
/* nghttp2's options, memory and callbacks. */
#include <assert.h>

#include "api/http2_wire.h"
#include "api/server.h"
#include "base/budget.h"

const uint8_t ks_http2_notice[8] = "goodbye";

/* ---- Memory ---- */

static void *give(size_t size, void *arg)
{
    (void)arg;
    return ks_alloc(size == 0 ? 1 : size);
}

static void *give_many(size_t count, size_t size, void *arg)
{
    if (size != 0 && count > SIZE_MAX / size)
        return NULL;
    return give(count * size, arg);
}

static void *give_more(void *memory, size_t size, void *arg)
{
    (void)arg;
    return ks_realloc(memory, size == 0 ? 1 : size);
}

static void take_back(void *memory, void *arg)
{
    (void)arg;
    ks_free(memory);
}

static nghttp2_mem memory = {NULL, give, take_back, give_many, give_more};

/* ---- Callbacks ---- */

static struct ks_http2_stream *stream_of(nghttp2_session *session, int32_t id)
{
    return nghttp2_session_get_stream_user_data(session, id);
}

/* A stream that the peer passed over when it began a later one is closed (RFC 9113, section 5.1.1);
 * nghttp2 would only ignore its head. The last such gap is remembered. */
static int frame_begins(nghttp2_session *session, const nghttp2_frame_hd *frame, void *arg)
{
    struct ks_http2_wire *wire = arg;
    int32_t id = frame->stream_id;

    ks_account_work(&wire->account, KS_WORK_HEADS, KS_WORK_FRAME);
    if (frame->type != NGHTTP2_HEADERS)
        return 0;
    wire->block = 0;
    if (id > wire->gap_from && id < wire->gap_to)
        return nghttp2_session_terminate_session(session, NGHTTP2_PROTOCOL_ERROR);
    if (id > wire->last_id + 2) {
        wire->gap_from = wire->last_id;
        wire->gap_to = id;
    }
    if (id > wire->last_id)
        wire->last_id = id;
    return 0;
}

static int head_begins(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct ks_http2_wire *wire = arg;
    struct ks_http2_stream *stream;

    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    stream = ks_http2_stream_new(wire, frame->hd.stream_id);
    if (stream == NULL)
        return nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
                                         NGHTTP2_REFUSED_STREAM) == 0
                   ? 0
                   : NGHTTP2_ERR_CALLBACK_FAILURE;
    if (nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, stream) == 0)
        return 0;
    ks_http2_stream_free(stream);
    return NGHTTP2_ERR_CALLBACK_FAILURE;
}

/* No more input is taken in this turn if its work is done. */
static int pause_or_go_on(struct ks_http2_wire *wire)
{
    wire->paused = !ks_account_may_work(&wire->account);
    return wire->paused ? NGHTTP2_ERR_PAUSE : 0;
}

/* A line of few bytes may name one of thousands. Its session can't be used without the rest of the block, which is not
 * looked at. */
static bool is_too_much(struct ks_http2_wire *wire, size_t size)
{
    wire->block += size;
    ks_account_work(&wire->account, KS_WORK_HEADS, size);
    if (wire->block <= KS_BLOCK_RATIO * ks_http2_head_most(wire))
        return false;
    wire->too_much = true;
    return true;
}

static int line_came(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_size, const uint8_t *value, size_t value_size, uint8_t flags,
                     void *arg)
{
    struct ks_http2_wire *wire = arg;
    struct ks_http2_stream *stream = stream_of(session, frame->hd.stream_id);

    (void)flags;
    if (is_too_much(wire, name_size + value_size + KS_WORK_LINE)) {
        (void)nghttp2_session_terminate_session(session, NGHTTP2_ENHANCE_YOUR_CALM);
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    }
    /* Trailers of a request mean nothing to anybody here. */
    if (stream != NULL && !stream->whole)
        ks_http2_stream_line(stream, ks_view_of(name, name_size), ks_view_of(value, value_size));
    return pause_or_go_on(wire);
}

static int data_came(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data,
                     size_t size, void *arg)
{
    struct ks_http2_wire *wire = arg;
    struct ks_http2_stream *stream = stream_of(session, id);

    (void)flags;
    /* One stream whose handler is slow must not stop the others. */
    if (nghttp2_session_consume_connection(session, size) != 0)
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    if (stream != NULL)
        ks_http2_stream_data(stream, ks_view_of(data, size));
    return pause_or_go_on(wire);
}

void ks_http2_session_finish(struct ks_http2_wire *wire)
{
    if (!wire->finishing || wire->finished)
        return;
    wire->finished = true;
    if (nghttp2_submit_goaway(wire->session, NGHTTP2_FLAG_NONE,
                              nghttp2_session_get_last_proc_stream_id(wire->session),
                              NGHTTP2_NO_ERROR, NULL, 0) != 0)
        wire->dead = true;
}

static int frame_came(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct ks_http2_wire *wire = arg;
    struct ks_http2_stream *stream;
    bool ends = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;

    if (frame->hd.type == NGHTTP2_PING && (frame->hd.flags & NGHTTP2_FLAG_ACK) != 0 &&
        memcmp(frame->ping.opaque_data, ks_http2_notice, sizeof(ks_http2_notice)) == 0)
        ks_http2_session_finish(wire);
    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
        return 0;
    stream = stream_of(session, frame->hd.stream_id);
    if (stream == NULL)
        return 0;
    if (!stream->whole)
        ks_http2_stream_begin(stream, ends);
    if (ends)
        ks_http2_stream_end(stream);
    return 0;
}

/* The streams that a peer may make us reset are as limited as those that it resets: either way it
 * pays little for what costs us much. */
static bool may_reset(struct ks_http2_wire *wire)
{
    ks_instant now = ks_loop_now(wire->http2->loop);
    int64_t more = ks_span_to_ms(ks_instant_since(now, wire->resets_at)) * KS_RESETS_PER_S / 1000;

    if (more > 0) {
        wire->resets_at = now;
        wire->resets = more > KS_RESETS_MAX - (int64_t)wire->resets ? KS_RESETS_MAX
                                                                    : wire->resets + (uint32_t)more;
    }
    if (wire->resets == 0)
        return false;
    wire->resets--;
    return true;
}

static int frame_went(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct ks_http2_wire *wire = arg;
    struct ks_http2_stream *stream;

    if (frame->hd.type == NGHTTP2_RST_STREAM && frame->rst_stream.error_code != NGHTTP2_NO_ERROR &&
        !may_reset(wire))
        return nghttp2_session_terminate_session(session, NGHTTP2_ENHANCE_YOUR_CALM);
    if ((frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA) ||
        (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0)
        return 0;
    stream = stream_of(session, frame->hd.stream_id);
    if (stream == NULL)
        return 0;
    stream->finished = true;
    /* The client may stop sending: nobody listens any more (RFC 9113, section 8.1). For an ordinary
     * body that comes too early: many clients that are still sending would lose the answer. */
    stream->moved_at = ks_loop_now(wire->http2->loop);
    if (!stream->ended && stream->exchange.streamed)
        return nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_NO_ERROR);
    return 0;
}

/* A frame of bytes that are ready. */
static int data_goes(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *head,
                     size_t size, nghttp2_data_source *source, void *arg)
{
    struct ks_http2_wire *wire = arg;

    (void)session;
    assert(frame->data.padlen == 0);
    return ks_http2_out_frame(wire->http2->out, head, source->ptr, size) ? NGHTTP2_ERR_PAUSE : 0;
}

static int stream_over(nghttp2_session *session, int32_t id, uint32_t code, void *arg)
{
    (void)code;
    (void)arg;
    ks_http2_stream_over(stream_of(session, id));
    return 0;
}

/* ---- Life ---- */

ks_err ks_http2_session_begin(struct ks_http2 *http2)
{
    nghttp2_session_callbacks *callbacks;

    if (nghttp2_option_new(&http2->option) != 0)
        return KS_FAIL(NO_MEMORY);
    if (nghttp2_session_callbacks_new(&http2->callbacks) != 0)
        return KS_FAIL(NO_MEMORY);
    callbacks = http2->callbacks;
    nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, frame_begins);
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, head_begins);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, line_came);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, data_came);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, frame_came);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, frame_went);
    nghttp2_session_callbacks_set_send_data_callback(callbacks, data_goes);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, stream_over);
    /* Windows open as bytes are dealt with. */
    nghttp2_option_set_no_auto_window_update(http2->option, 1);
    nghttp2_option_set_stream_reset_rate_limit(http2->option, KS_RESETS_MAX, KS_RESETS_PER_S);
    nghttp2_option_set_max_continuations(http2->option, KS_CONTINUATIONS_MAX);
    nghttp2_option_set_max_outbound_ack(http2->option, KS_ACKS_MAX);
    return KS_OK;
}

void ks_http2_session_end(struct ks_http2 *http2)
{
    nghttp2_option_del(http2->option);
    nghttp2_session_callbacks_del(http2->callbacks);
}

ks_err ks_http2_session_new(struct ks_http2_wire *wire)
{
    /* What asks the ops port are probes: a few, with short heads. */
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS,
         wire->ops ? KS_OPS_WIRE_STREAMS_MAX : KS_WIRE_STREAMS_MAX},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, KS_BODY_WINDOW},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, (uint32_t)ks_http2_head_most(wire)}};

    if (nghttp2_session_server_new3(&wire->session, wire->http2->callbacks, wire,
                                    wire->http2->option, &memory) != 0)
        return KS_FAIL(NO_MEMORY);
    if (nghttp2_submit_settings(wire->session, NGHTTP2_FLAG_NONE, settings,
                                sizeof(settings) / sizeof(settings[0])) != 0 ||
        nghttp2_session_set_local_window_size(wire->session, NGHTTP2_FLAG_NONE, 0,
                                              KS_WIRE_WINDOW) != 0)
        return KS_FAIL(NO_MEMORY);
    return KS_OK;
}
