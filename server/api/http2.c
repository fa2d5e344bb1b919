/* SPDX-License-Identifier: Apache-2.0 */
#include "api/http2.h"

#include <assert.h>
#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/doors.h"
#include "api/http1.h"
#include "api/http2_wire.h"
#include "api/server.h"
#include "api/socket.h"
#include "base/budget.h"
#include "base/log.h"

enum {
    READ_BYTES = 64 << 10,
    READS_MAX = 4, /* Of one wire in one turn. */
    SEND_BYTES = 64 << 10,
    SENDS_MAX = 4 /* Likewise. */
};

/* ---- Work ---- */

void ks_http2_soon(struct ks_http2_wire *wire)
{
    struct ks_http2 *http2 = wire->http2;

    if (ks_list_empty(&wire->work))
        ks_list_append(&http2->work, &wire->work);
    if (http2->kicked)
        return;
    /* The hook may have run already: then it is the next turn's. */
    http2->kicked = true;
    ks_loop_timer_set(http2->loop, &http2->kick, ks_loop_now(http2->loop));
}

static void kicked(struct ks_timer *timer)
{
    /* It was only there to end the wait of the loop. */
    KS_LIST_ENTRY(timer, struct ks_http2, kick)->kicked = false;
}

static void wire_free(struct ks_http2_wire *wire)
{
    struct ks_http2 *http2 = wire->http2;
    bool ops = wire->ops;

    while (!ks_list_empty(&wire->parting))
        ks_http2_stream_free(KS_LIST_ENTRY(wire->parting.next, struct ks_http2_stream, link));
    while (!ks_list_empty(&wire->streams))
        ks_http2_stream_free(KS_LIST_ENTRY(wire->streams.next, struct ks_http2_stream, link));
    nghttp2_session_del(wire->session);
    ks_loop_unwatch(http2->loop, &wire->watch);
    ks_loop_timer_clear(http2->loop, &wire->timer);
    ks_list_remove(&wire->link);
    ks_list_remove(&wire->work);
    ks_bytes_free(&wire->unsent);
    ks_bytes_free(&wire->input);
    ks_account_must_hold(&wire->account, KS_HELD_ANSWERS, &wire->unsent_held, 0);
    ks_account_must_hold(&wire->account, KS_HELD_BODIES, &wire->input_held, 0);
    ks_account_close(&wire->account);
    ks_free(wire->frames);
    (void)close(wire->watch.fd);
    ks_free(wire);
    ks_doors_left(http2->api->doors, ops);
}

/* ---- Out ---- */

/* Keeps what the socket did not take. */
static void keep_unsent(struct ks_http2_wire *wire, const struct iovec *parts, size_t count,
                        size_t sent)
{
    for (size_t i = 0; i < count; i++) {
        size_t skip = sent < parts[i].iov_len ? sent : parts[i].iov_len;
        ks_view rest = ks_view_of((uint8_t *)parts[i].iov_base + skip, parts[i].iov_len - skip);

        sent -= skip;
        if (rest.size > 0 && !ks_ok(ks_bytes_append(&wire->unsent, rest)))
            wire->dead = true;
    }
}

/* The first `sent` of the bytes that hold these frames are in the socket: tells their streams. Returns how many frames
 * are not whole there; they stand first then. */
static size_t pass_frames(struct ks_http2_frame *frames, size_t count, size_t sent)
{
    size_t left = 0;

    for (size_t i = 0; i < count; i++) {
        struct ks_http2_frame *frame = &frames[i];
        size_t begin = frame->end - frame->size;
        size_t size = sent < begin ? 0 : sent - begin;

        size = size < frame->size ? size : frame->size;
        frame->size -= size;
        if (frame->stream != NULL)
            ks_exchange_sent(&frame->stream->exchange, size);
        if (frame->size == 0)
            continue;
        frame->end -= sent;
        frames[left++] = *frame;
    }
    return left;
}

/* Keeps the frames of bytes that the socket did not take. */
static void keep_frames(struct ks_http2_wire *wire, const struct ks_http2_frame *frames,
                        size_t count)
{
    wire->frame_count = count;
    if (count == 0 || frames == wire->frames)
        return;
    if (wire->frames == NULL)
        wire->frames = ks_alloc(KS_OUT_FRAMES * sizeof(*frames));
    if (wire->frames == NULL) {
        wire->frame_count = 0;
        wire->dead = true;
        return;
    }
    memcpy(wire->frames, frames, count * sizeof(*frames));
}

/* Sends what it can; what the socket does not take is kept. */
static void send_parts(struct ks_http2_wire *wire, struct iovec *parts, size_t count,
                       struct ks_http2_frame *frames, size_t frame_count)
{
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = count};
    ssize_t sent = sendmsg(wire->watch.fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);

    if (sent < 0 && errno != EAGAIN && errno != EINTR) {
        wire->dead = true;
        return;
    }
    if (sent < 0)
        sent = 0;
    if (sent > 0)
        wire->sent_at = ks_loop_now(wire->http2->loop);
    keep_unsent(wire, parts, count, (size_t)sent);
    keep_frames(wire, frames, pass_frames(frames, frame_count, (size_t)sent));
}

/* Sends what was left over. */
static void send_again(struct ks_http2_wire *wire)
{
    struct ks_bytes left = wire->unsent;
    struct iovec part = {.iov_base = left.data, .iov_len = left.size};

    ks_bytes_init(&wire->unsent, left.max);
    if (left.size > 0)
        send_parts(wire, &part, 1, wire->frames, wire->frame_count);
    ks_bytes_free(&left);
}

/* A part that stands behind the one before is one with it. */
static void add_part(struct ks_http2_out *out, ks_view bytes)
{
    union {
        const uint8_t *from;
        uint8_t *to;
    } data = {.from = bytes.data}; /* sendmsg() only reads it. */
    struct iovec *last = out->part_count > 0 ? &out->parts[out->part_count - 1] : NULL;

    out->framed += bytes.size;
    if (last != NULL && (uint8_t *)last->iov_base + last->iov_len == data.to) {
        last->iov_len += bytes.size;
        return;
    }
    assert(out->part_count < KS_OUT_PARTS);
    out->parts[out->part_count++] = (struct iovec){data.to, bytes.size};
}

static void add_copy(struct ks_http2_out *out, ks_view bytes)
{
    uint8_t *place = out->bytes + out->used;

    assert(bytes.size <= sizeof(out->bytes) - out->used);
    memcpy(place, bytes.data, bytes.size);
    out->used += bytes.size;
    add_part(out, ks_view_of(place, bytes.size));
}

/* Whether there is enough for one sending, or no room for more. */
static bool is_full(const struct ks_http2_out *out)
{
    return (out->framed >= out->most && ks_list_empty(&out->ready)) ||
           out->part_count > KS_OUT_PARTS - 4 || out->frame_count == KS_OUT_FRAMES ||
           out->used > sizeof(out->bytes) - KS_OUT_FRAME;
}

/* The last bytes are a frame with so many of the stream's. */
static void add_frame(struct ks_http2_out *out, struct ks_http2_stream *stream, size_t size)
{
    assert(out->frame_count < KS_OUT_FRAMES);
    out->frames[out->frame_count++] = (struct ks_http2_frame){stream, out->framed, size};
}

size_t ks_http2_message_most(const struct ks_http2_out *out)
{
    return out->most < SEND_BYTES ? out->most : KS_OUT_MESSAGE;
}

uint8_t *ks_http2_out_room(struct ks_http2_out *out)
{
    bool any =
        out->framed < out->most && sizeof(out->bytes) - out->used >= KS_OUT_MESSAGE + KS_OUT_FRAME;

    return any ? out->bytes + out->used : NULL;
}

bool ks_http2_out_frame(struct ks_http2_out *out, const uint8_t head[9],
                        struct ks_http2_stream *stream, size_t size)
{
    add_copy(out, ks_view_of(head, 9));
    add_part(out, ks_view_of(stream->ready.data, size));
    add_frame(out, stream, size);
    stream->ready.data += size;
    stream->ready.size -= size;
    if (stream->ready.size == 0)
        ks_list_remove(&stream->unframed);
    return is_full(out);
}

void ks_http2_forget_frames(struct ks_http2_stream *stream)
{
    struct ks_http2_wire *wire = stream->wire;
    struct ks_http2_out *out = wire->http2->out;

    for (size_t i = 0; i < wire->frame_count; i++)
        if (wire->frames[i].stream == stream)
            wire->frames[i].stream = NULL;
    for (size_t i = 0; i < out->frame_count; i++)
        if (out->frames[i].stream == stream)
            out->frames[i].stream = NULL;
    if (out->copied == stream)
        out->copied = NULL;
}

/* Has nghttp2 make frames of as many bytes as the socket takes, SEND_BYTES at most. */
static void make_frames(struct ks_http2_wire *wire, struct ks_http2_out *out)
{
    size_t room = ks_socket_room(wire->watch.fd);

    out->most = room < SEND_BYTES ? room : SEND_BYTES;
    if (out->most < KS_FILL_MIN)
        out->most = KS_FILL_MIN;
    out->part_count = out->framed = out->used = out->frame_count = 0;
    out->copied = NULL;
    while (!is_full(out)) {
        const uint8_t *frame;
        ssize_t made = nghttp2_session_mem_send(wire->session, &frame);
        if (made < 0 || made > KS_OUT_FRAME)
            wire->dead = true;
        if (made <= 0 || wire->dead)
            break;
        add_copy(out, ks_view_of(frame, (size_t)made));
        if (out->copied != NULL)
            add_frame(out, out->copied, out->copied_size);
        out->copied = NULL;
    }
}

/* Sends frames while there are any, the socket takes them, and others do not wait for too long. */
static void flush(struct ks_http2_wire *wire)
{
    struct ks_http2_out *out = wire->http2->out;
    bool more = true;

    /* Bytes that waited may be of a lease that is lost meanwhile; between the frames of others they cannot be found. */
    if (wire->unsent.size > 0 && !ks_http2_streams_may_send(wire)) {
        wire->dead = true;
        return;
    }
    send_again(wire);
    for (int i = 0; i < SENDS_MAX && more && wire->unsent.size == 0 && !wire->dead; i++) {
        make_frames(wire, out);
        more = out->framed > 0;
        wire->http2->made += out->framed;
        if (more)
            send_parts(wire, out->parts, out->part_count, out->frames, out->frame_count);
        while (!ks_list_empty(&out->ready))
            if (!ks_http2_stream_keep(
                    KS_LIST_ENTRY(out->ready.next, struct ks_http2_stream, unframed)))
                wire->dead = true;
    }
    if (!wire->dead)
        ks_http2_streams_sent(wire);
    if (more && wire->unsent.size == 0 && !wire->dead)
        ks_http2_soon(wire);
    if (wire->unsent.size == 0)
        wire->sent_at = ks_loop_now(wire->http2->loop);
}

static void watch(struct ks_http2_wire *wire)
{
    /* Nothing is read of a connection that waits for its turn: its sender waits, too. */
    bool waits = wire->account.waits;
    uint32_t events =
        (waits ? 0 : (uint32_t)EPOLLIN) | (wire->unsent.size > 0 ? (uint32_t)EPOLLOUT : 0);

    if (events != wire->watch.events &&
        !ks_ok(ks_loop_watch(wire->http2->loop, &wire->watch, events)))
        wire->dead = true;
}

/* The last word is out. What still comes would make the system take it back. */
static void say_goodbye(struct ks_http2_wire *wire)
{
    (void)shutdown(wire->watch.fd, SHUT_WR);
    ks_linger(&wire->http2->lingers, wire->watch.fd);
    wire->dead = true;
}

/* Has whole requests handled, as long as work may be done for them. */
static void handle(struct ks_http2_wire *wire)
{
    while (!wire->dead && !ks_list_empty(&wire->endings) && ks_account_may_work(&wire->account))
        ks_http2_stream_handle(KS_LIST_ENTRY(wire->endings.next, struct ks_http2_stream, ending));
    if (!ks_list_empty(&wire->endings))
        ks_account_await(&wire->account);
}

static void note_costs(struct ks_http2_wire *wire)
{
    ks_account_must_hold(&wire->account, KS_HELD_ANSWERS, &wire->unsent_held,
                         wire->unsent.capacity);
    ks_account_set_idle(&wire->account, ks_list_empty(&wire->streams) &&
                                            ks_list_empty(&wire->parting) &&
                                            wire->unsent.size == 0);
}

static void work(struct ks_http2_wire *wire)
{
    handle(wire);
    while (!ks_list_empty(&wire->woken) && !wire->dead) {
        struct ks_http2_stream *stream =
            KS_LIST_ENTRY(wire->woken.next, struct ks_http2_stream, woken);
        ks_list_remove(&stream->woken);
        ks_http2_stream_work(stream);
    }
    if (!wire->dead)
        flush(wire);
    note_costs(wire);
    if (wire->too_much && !wire->dead)
        say_goodbye(wire);
    /* A peer that has closed takes what is there, and says no more: also not that it has room. */
    if (wire->ended && !wire->account.waits)
        wire->dead = true;
    if (!wire->dead && wire->unsent.size == 0 && nghttp2_session_want_read(wire->session) == 0 &&
        nghttp2_session_want_write(wire->session) == 0)
        say_goodbye(wire);
    if (!wire->dead)
        watch(wire);
    if (wire->dead)
        wire_free(wire);
}

static ks_instant turn(struct ks_hook *hook, ks_instant now)
{
    struct ks_http2 *http2 = KS_LIST_ENTRY(hook, struct ks_http2, hook);
    struct ks_link todo;

    ks_loop_timer_clear(http2->loop, &http2->kick);
    http2->kicked = false;
    ks_link_init(&todo);
    while (!ks_list_empty(&http2->work)) {
        struct ks_link *link = http2->work.next;
        ks_list_remove(link);
        ks_list_append(&todo, link);
    }
    http2->made = 0;
    while (!ks_list_empty(&todo)) {
        struct ks_http2_wire *wire = KS_LIST_ENTRY(todo.next, struct ks_http2_wire, work);
        ks_list_remove(&wire->work);
        if (http2->made < KS_SENT_TURN_BYTES)
            work(wire);
        else
            ks_list_append(&http2->work, &wire->work);
    }
    return ks_list_empty(&http2->work) ? KS_NEVER : now;
}

/* ---- In ---- */

/* nghttp2 takes less than all when a callback says that the work of this turn is done; the rest is kept. */
static void take(struct ks_http2_wire *wire, ks_view bytes)
{
    ssize_t taken;

    wire->paused = false;
    taken = nghttp2_session_mem_recv(wire->session, bytes.data, bytes.size);
    /* A peer that does not read could have us queue answers without end. */
    if (taken < 0 || nghttp2_session_get_outbound_queue_size(wire->session) > KS_FRAMES_MAX) {
        wire->ended = true;
        return;
    }
    assert((size_t)taken <= bytes.size);
    bytes = ks_view_of(bytes.data + taken, bytes.size - (size_t)taken);
    if (bytes.size > 0 && !ks_ok(ks_bytes_append(&wire->input, bytes)))
        wire->ended = true;
}

/* What was kept comes before what is in the socket. If it is nothing, nghttp2 still has to end a frame. */
static void take_kept(struct ks_http2_wire *wire)
{
    struct ks_bytes kept = wire->input;

    ks_bytes_init(&wire->input, kept.max);
    take(wire, kept.size > 0 ? ks_bytes_view(&kept) : KS_VIEW(""));
    ks_bytes_free(&kept);
}

/* False: there is no more to read. */
static bool take_read(struct ks_http2_wire *wire)
{
    static uint8_t buffer[READ_BYTES];
    ssize_t size = recv(wire->watch.fd, buffer, sizeof(buffer), MSG_DONTWAIT);

    if (size < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (size <= 0) {
        wire->ended = true;
        return false;
    }
    wire->heard_at = ks_loop_now(wire->http2->loop);
    wire->pinged = false;
    take(wire, ks_view_of(buffer, (size_t)size));
    return true;
}

/* Reads while there is input and work may be done for it. What nghttp2 left of the last read waits for a later turn. */
static void read_some(struct ks_http2_wire *wire)
{
    bool more = true;

    for (int i = 0; i < READS_MAX && more && !wire->ended && ks_account_may_work(&wire->account);
         i++) {
        if (wire->paused)
            take_kept(wire);
        else
            more = take_read(wire);
    }
    if (!wire->ended && (wire->paused || !ks_account_may_work(&wire->account)))
        ks_account_await(&wire->account);
    ks_account_must_hold(&wire->account, KS_HELD_BODIES, &wire->input_held, wire->input.capacity);
    ks_http2_soon(wire);
}

static void ready(struct ks_watch *watched, uint32_t events)
{
    (void)events;
    read_some(KS_LIST_ENTRY(watched, struct ks_http2_wire, watch));
}

static void go_on(struct ks_account *account)
{
    read_some(KS_LIST_ENTRY(account, struct ks_http2_wire, account));
}

/* ---- Late ---- */

static void end_late_streams(struct ks_http2_wire *wire, ks_instant now)
{
    struct ks_link *cursor;
    struct ks_link *after;

    KS_LIST_EACH(cursor, after, &wire->streams)
    ks_http2_stream_look(KS_LIST_ENTRY(cursor, struct ks_http2_stream, link), now);
}

/* Asks a peer that was quiet for long whether it lives; it is dead if it does not answer. */
static void ask(struct ks_http2_wire *wire, ks_instant now)
{
    int64_t quiet_ms = ks_span_to_ms(ks_instant_since(now, wire->heard_at));

    if (quiet_ms >= 2 * KS_QUIET_MS)
        wire->dead = true;
    if (quiet_ms < KS_QUIET_MS || wire->pinged)
        return;
    wire->pinged = true;
    if (nghttp2_submit_ping(wire->session, NGHTTP2_FLAG_NONE, NULL) != 0)
        wire->dead = true;
}

static bool is_stalled(const struct ks_http2_wire *wire, ks_instant now)
{
    return wire->unsent.size > 0 &&
           ks_instant_reached(now, ks_instant_add(wire->sent_at, ks_span_ms(KS_STALL_MS)));
}

static void look(struct ks_timer *timer)
{
    struct ks_http2_wire *wire = KS_LIST_ENTRY(timer, struct ks_http2_wire, timer);
    ks_instant now = ks_loop_now(wire->http2->loop);
    ks_instant next = ks_instant_add(now, ks_span_ms(KS_LOOK_MS));

    end_late_streams(wire, now);
    ask(wire, now);
    if (is_stalled(wire, now))
        wire->dead = true;
    if (wire->heads == 0 && ks_instant_reached(now, wire->head_due) &&
        nghttp2_session_terminate_session(wire->session, NGHTTP2_NO_ERROR) != 0)
        wire->dead = true;
    if (wire->heads == 0 && ks_instant_before(now, wire->head_due))
        next = ks_instant_min(next, wire->head_due);
    ks_http2_session_finish(wire);
    ks_loop_timer_set(wire->http2->loop, &wire->timer, next);
    ks_http2_soon(wire);
}

/* ---- Connections ---- */

static void close_idle(struct ks_account *account)
{
    struct ks_http2_wire *wire = KS_LIST_ENTRY(account, struct ks_http2_wire, account);

    if (nghttp2_session_terminate_session(wire->session, NGHTTP2_NO_ERROR) == 0)
        flush(wire);
    wire_free(wire);
}

void ks_http2_take(struct ks_http2 *http2, const struct ks_wire_config *config)
{
    struct ks_http2_wire *wire = ks_alloc(sizeof(*wire));

    if (wire == NULL) {
        (void)close(config->fd);
        ks_doors_left(http2->api->doors, config->ops);
        return;
    }
    wire->http2 = http2;
    wire->ops = config->ops;
    wire->peer = config->peer;
    wire->watch = (struct ks_watch){.ready = ready, .fd = config->fd};
    wire->timer.due = look;
    wire->head_due = config->deadline;
    wire->heard_at = wire->sent_at = wire->resets_at = ks_loop_now(http2->loop);
    wire->resets = KS_RESETS_MAX;
    ks_bytes_init(&wire->unsent, KS_OUT_BYTES);
    ks_bytes_init(&wire->input, READ_BYTES);
    wire->account = (struct ks_account){.go_on = go_on, .close = close_idle};
    ks_account_open(&wire->account, wire->ops ? &http2->api->ops_accounts : &http2->api->accounts);
    ks_link_init(&wire->streams);
    ks_link_init(&wire->filled);
    ks_link_init(&wire->parting);
    ks_link_init(&wire->woken);
    ks_link_init(&wire->endings);
    ks_link_init(&wire->work);
    ks_list_append(&http2->wires, &wire->link);
    if (!ks_ok(ks_http2_session_new(wire)) ||
        !ks_ok(ks_loop_watch(http2->loop, &wire->watch, EPOLLIN))) {
        ks_warn("http: a connection could not be taken");
        wire_free(wire);
        return;
    }
    ks_loop_timer_set(http2->loop, &wire->timer,
                      ks_instant_min(config->deadline, ks_instant_add(ks_loop_now(http2->loop),
                                                                      ks_span_ms(KS_LOOK_MS))));
    ready(&wire->watch, EPOLLIN);
}

void ks_http2_refuse(int fd)
{
    /* Empty SETTINGS; GOAWAY, no stream, ENHANCE_YOUR_CALM. */
    static const uint8_t frames[] = "\0\0\0\x04\0\0\0\0\0"
                                    "\0\0\x1C\x07\0\0\0\0\0"
                                    "\0\0\0\0\0\0\0\x0B"
                                    "too many connections";

    (void)send(fd, frames, sizeof(frames) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* ---- Life ---- */

ks_err ks_http2_new(struct ks_api *api, struct ks_loop *loop, struct ks_http2 **ret_http2)
{
    static struct ks_http2_out out; /* Nothing stays in it when a wire was served. */
    struct ks_http2 *http2 = ks_alloc(sizeof(*http2));
    ks_err err;

    if (http2 == NULL)
        return KS_FAIL(NO_MEMORY);
    *http2 = (struct ks_http2){.api = api, .loop = loop, .out = &out};
    ks_link_init(&out.ready);
    http2->kick.due = kicked;
    http2->hook.turn = turn;
    ks_link_init(&http2->wires);
    ks_link_init(&http2->work);
    ks_lingers_init(&http2->lingers, loop);
    ks_loop_hook(loop, &http2->hook);
    err = ks_http2_session_begin(http2);
    if (!ks_ok(err)) {
        ks_http2_free(http2);
        return err;
    }
    *ret_http2 = http2;
    return KS_OK;
}

void ks_http2_free(struct ks_http2 *http2)
{
    if (http2 == NULL)
        return;
    while (!ks_list_empty(&http2->wires)) {
        struct ks_http2_wire *wire = KS_LIST_ENTRY(http2->wires.next, struct ks_http2_wire, link);
        if (nghttp2_session_terminate_session(wire->session, NGHTTP2_NO_ERROR) == 0)
            flush(wire);
        wire_free(wire);
    }
    ks_lingers_free(&http2->lingers);
    ks_loop_unhook(http2->loop, &http2->hook);
    ks_loop_timer_clear(http2->loop, &http2->kick);
    ks_http2_session_end(http2);
    ks_free(http2);
}

void ks_http2_finish(struct ks_http2 *http2)
{
    struct ks_link *cursor;
    struct ks_link *after;
    ks_instant until = ks_instant_add(ks_loop_now(http2->loop), ks_span_ms(KS_NOTICE_MS));

    KS_LIST_EACH(cursor, after, &http2->wires)
    {
        struct ks_http2_wire *wire = KS_LIST_ENTRY(cursor, struct ks_http2_wire, link);
        if (wire->finishing)
            continue;
        wire->finishing = true;
        /* The answer to the PING says that the notice was heard, and what was begun before. */
        if (nghttp2_submit_shutdown_notice(wire->session) != 0 ||
            nghttp2_submit_ping(wire->session, NGHTTP2_FLAG_NONE, ks_http2_notice) != 0)
            wire->dead = true;
        ks_loop_timer_set(http2->loop, &wire->timer, until);
        ks_http2_soon(wire);
    }
}

bool ks_http2_busy(const struct ks_http2 *http2)
{
    struct ks_link *cursor;
    struct ks_link *after;

    if (http2->streams > 0)
        return true;
    KS_LIST_EACH(cursor, after, &http2->wires)
    {
        const struct ks_http2_wire *wire = KS_LIST_ENTRY(cursor, struct ks_http2_wire, link);
        if (wire->finishing && (!wire->finished || !ks_list_empty(&wire->work)))
            return true;
    }
    return false;
}
