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
#include "base/budget.h"
#include "base/log.h"

enum {
    READ_BYTES = 64 << 10,
    READS_MAX = 4, /* Of one wire in one turn. */
    SEND_BYTES = 64 << 10,
    SENDS_MAX = 4,             /* Likewise. */
    FRAME_BYTES_MAX = 32 << 10 /* What nghttp2 makes at one time is a frame of 16 KiB at most. */
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

    while (!ks_list_empty(&wire->streams))
        ks_http2_stream_free(KS_LIST_ENTRY(wire->streams.next, struct ks_http2_stream, link));
    nghttp2_session_del(wire->session);
    ks_loop_unwatch(http2->loop, &wire->watch);
    ks_loop_timer_clear(http2->loop, &wire->timer);
    ks_list_remove(&wire->link);
    ks_list_remove(&wire->work);
    ks_bytes_free(&wire->unsent);
    (void)close(wire->watch.fd);
    ks_free(wire);
    ks_doors_left(http2->api->doors, ops);
}

/* ---- Out ---- */

/* Sends what it can; what the socket does not take is kept. */
static void send_bytes(struct ks_http2_wire *wire, ks_view bytes)
{
    ssize_t sent = send(wire->watch.fd, bytes.data, bytes.size, MSG_NOSIGNAL | MSG_DONTWAIT);
    size_t size = sent > 0 ? (size_t)sent : 0;

    if (sent < 0 && errno != EAGAIN && errno != EINTR) {
        wire->dead = true;
        return;
    }
    if (size > 0)
        wire->sent_at = ks_loop_now(wire->http2->loop);
    if (size < bytes.size &&
        !ks_ok(ks_bytes_append(&wire->unsent, ks_view_of(bytes.data + size, bytes.size - size))))
        wire->dead = true;
}

/* Sends what was left over. */
static void send_again(struct ks_http2_wire *wire)
{
    struct ks_bytes left = wire->unsent;

    ks_bytes_init(&wire->unsent, left.max);
    if (left.size > 0)
        send_bytes(wire, ks_bytes_view(&left));
    ks_bytes_free(&left);
}

/* Has nghttp2 make about SEND_BYTES of frames. The result is how many there are. */
static size_t make_frames(struct ks_http2_wire *wire, uint8_t buffer[SEND_BYTES + FRAME_BYTES_MAX])
{
    size_t size = 0;

    while (size < SEND_BYTES) {
        const uint8_t *frame;
        ssize_t made = nghttp2_session_mem_send(wire->session, &frame);
        if (made < 0 || made > FRAME_BYTES_MAX)
            wire->dead = true;
        if (made <= 0 || wire->dead)
            break;
        memcpy(buffer + size, frame, (size_t)made);
        size += (size_t)made;
    }
    return size;
}

/* Sends frames while there are any, the socket takes them, and others do not wait for too long. */
static void flush(struct ks_http2_wire *wire)
{
    static uint8_t buffer[SEND_BYTES + FRAME_BYTES_MAX];
    size_t size = 1;

    send_again(wire);
    for (int i = 0; i < SENDS_MAX && size > 0 && wire->unsent.size == 0 && !wire->dead; i++) {
        size = make_frames(wire, buffer);
        if (size > 0)
            send_bytes(wire, ks_view_of(buffer, size));
    }
    if (size > 0 && wire->unsent.size == 0 && !wire->dead)
        ks_http2_soon(wire);
    if (wire->unsent.size == 0)
        wire->sent_at = ks_loop_now(wire->http2->loop);
}

static void watch(struct ks_http2_wire *wire)
{
    uint32_t events = EPOLLIN | (wire->unsent.size > 0 ? (uint32_t)EPOLLOUT : 0);

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

static void work(struct ks_http2_wire *wire)
{
    while (!ks_list_empty(&wire->woken) && !wire->dead) {
        struct ks_http2_stream *stream =
            KS_LIST_ENTRY(wire->woken.next, struct ks_http2_stream, woken);
        ks_list_remove(&stream->woken);
        ks_http2_stream_work(stream);
    }
    if (!wire->dead)
        flush(wire);
    /* A peer that has closed takes what is there, and says no more: also not that it has room. */
    if (wire->ended)
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
    while (!ks_list_empty(&todo)) {
        struct ks_http2_wire *wire = KS_LIST_ENTRY(todo.next, struct ks_http2_wire, work);
        ks_list_remove(&wire->work);
        work(wire);
    }
    return ks_list_empty(&http2->work) ? KS_NEVER : now;
}

/* ---- In ---- */

static void take(struct ks_http2_wire *wire, ks_view bytes)
{
    ssize_t taken = nghttp2_session_mem_recv(wire->session, bytes.data, bytes.size);

    wire->heard_at = ks_loop_now(wire->http2->loop);
    wire->pinged = false;
    /* A peer that does not read could have us queue answers without end. */
    if (taken < 0 || nghttp2_session_get_outbound_queue_size(wire->session) > KS_FRAMES_MAX)
        wire->ended = true;
}

static void ready(struct ks_watch *watched, uint32_t events)
{
    static uint8_t buffer[READ_BYTES];
    struct ks_http2_wire *wire = KS_LIST_ENTRY(watched, struct ks_http2_wire, watch);

    (void)events;
    for (int i = 0; i < READS_MAX && !wire->ended; i++) {
        ssize_t size = recv(watched->fd, buffer, sizeof(buffer), MSG_DONTWAIT);
        if (size < 0 && (errno == EAGAIN || errno == EINTR))
            break;
        if (size > 0)
            take(wire, ks_view_of(buffer, (size_t)size));
        else
            wire->ended = true;
    }
    ks_http2_soon(wire);
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
    ks_bytes_init(&wire->unsent, SEND_BYTES + FRAME_BYTES_MAX);
    ks_link_init(&wire->streams);
    ks_link_init(&wire->woken);
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
    struct ks_http2 *http2 = ks_alloc(sizeof(*http2));
    ks_err err;

    if (http2 == NULL)
        return KS_FAIL(NO_MEMORY);
    *http2 = (struct ks_http2){.api = api, .loop = loop};
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
