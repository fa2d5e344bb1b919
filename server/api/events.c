/* SPDX-License-Identifier: Apache-2.0 */
#include "api/events.h"

#include <inttypes.h>
#include <stdio.h>

#include "api/codec_json.h"
#include "api/control.h"
#include "api/message.h"
#include "api/methods.h"
#include "api/routes.h"
#include "api/server.h"
#include "base/budget.h"

/* The longest line fits into what a producer always has: a sentence of 511 characters, each escaped to six. */
enum { LINE_BYTES_MAX = 6 << 10, HEARTBEAT_MS = 10000 };

struct viewer {
    struct ks_listener listener;
    struct ks_timer timer; /* The next heartbeat. */
    struct ks_link link;   /* In api->viewers. */
    struct ks_exchange *exchange;
    struct ks_api *api;
    struct ks_switchboard *board;
    struct ks_bytes line;
    ks_span heartbeat;
    uint64_t next; /* The number of the next event. */
    bool beat;     /* A heartbeat is due. */
    bool sse;
};

/* ---- Lines ---- */

static ks_err write_json(struct viewer *viewer, const ks_pb_board_event *event)
{
    struct ks_writer json;

    ks_writer_begin(&json, &viewer->line);
    ks_writer_open(&json, '{');
    ks_rest_members(&json, &event->base);
    ks_writer_close(&json, '}');
    ks_writer_line(&json);
    return ks_writer_end(&json);
}

/* One event as it goes out. `number`: by it who comes back, and is told all that is kept, knows what he has. */
static ks_err write_event(struct viewer *viewer, const ks_pb_board_event *event, uint64_t number)
{
    ks_bytes_clear(&viewer->line);
    if (viewer->exchange->rpc != NULL)
        return ks_rpc_append(viewer->exchange, &event->base, &viewer->line);
    if (!viewer->sse)
        return write_json(viewer, event);
    KS_TRY(ks_bytes_format(&viewer->line, "id: %" PRIu64 "\n", number));
    KS_TRY(ks_sse_begin(event->type, &viewer->line));
    KS_TRY(write_json(viewer, event));
    return ks_sse_end(&viewer->line);
}

static ks_err write_kept(struct viewer *viewer, uint64_t number)
{
    const struct ks_board_event *kept = ks_switchboard_event(viewer->board, number);
    ks_pb_board_event event;

    kinesis_sidecar__v1__event__init(&event);
    event.type = ks_pb_text(kept->type);
    event.at = kept->at.ms;
    event.shard_id = ks_pb_text(kept->shard_id);
    event.message = ks_pb_text(kept->message);
    if (kept->epoch != 0) {
        event.lease_case = KINESIS_SIDECAR__V1__EVENT__LEASE_EPOCH;
        event.epoch = kept->epoch;
    }
    if (kept->from_ms != 0) {
        event.span_begin_case = KINESIS_SIDECAR__V1__EVENT__SPAN_BEGIN_FROM;
        event.from = kept->from_ms;
    }
    if (kept->to_ms != 0) {
        event.span_end_case = KINESIS_SIDECAR__V1__EVENT__SPAN_END_TO;
        event.to = kept->to_ms;
    }
    return write_event(viewer, &event, number);
}

static ks_err write_missed(struct viewer *viewer, uint64_t first)
{
    ks_pb_board_event event;
    char message[64];

    (void)snprintf(message, sizeof(message), "%" PRIu64 " events came faster than they were read",
                   first - viewer->next);
    kinesis_sidecar__v1__event__init(&event);
    event.type = ks_pb_text("missed");
    event.at = ks_wall_now().ms;
    event.message = message;
    return write_event(viewer, &event, first - 1);
}

static ks_err write_heartbeat(struct viewer *viewer)
{
    ks_pb_board_event event;

    if (viewer->exchange->rpc != NULL) {
        kinesis_sidecar__v1__event__init(&event);
        event.type = ks_pb_text("heartbeat");
        event.at = ks_wall_now().ms;
        return write_event(viewer, &event, 0);
    }
    ks_bytes_clear(&viewer->line);
    return ks_bytes_append(&viewer->line, viewer->sse ? KS_VIEW(": heartbeat\n\n")
                                                      : KS_VIEW("{\"type\":\"heartbeat\"}\n"));
}

/* The next line into viewer->line; empty if there is none. */
static ks_err next_line(struct viewer *viewer)
{
    uint64_t end;
    uint64_t first = ks_switchboard_events(viewer->board, &end);

    if (viewer->next < first) {
        KS_TRY(write_missed(viewer, first));
        viewer->next = first;
        return KS_OK;
    }
    if (viewer->next < end) {
        KS_TRY(write_kept(viewer, viewer->next));
        viewer->next++;
        return KS_OK;
    }
    if (viewer->beat) {
        viewer->beat = false;
        return write_heartbeat(viewer);
    }
    return KS_OK;
}

/* ---- Writing ---- */

static void set_timer(struct viewer *viewer)
{
    struct ks_loop *loop = viewer->api->loop;

    ks_loop_timer_set(loop, &viewer->timer, ks_instant_add(ks_loop_now(loop), viewer->heartbeat));
}

static size_t fill(struct ks_exchange *exchange, uint8_t *buffer, size_t room,
                   enum ks_fill *ret_fill)
{
    struct viewer *viewer = exchange->context;
    size_t size = 0;

    for (;;) {
        if (viewer->line.size == 0 && !ks_ok(next_line(viewer))) {
            *ret_fill = KS_FILL_ABORT; /* Out of memory: better no answer than one with a hole. */
            return 0;
        }
        if (viewer->line.size == 0 || viewer->line.size > room - size)
            break;
        memcpy(buffer + size, viewer->line.data, viewer->line.size);
        size += viewer->line.size;
        ks_bytes_clear(&viewer->line);
    }
    if (size > 0) {
        set_timer(viewer);
        *ret_fill = KS_FILL_MORE;
        return size;
    }
    *ret_fill = viewer->api->ending ? KS_FILL_END : KS_FILL_WAIT;
    return 0;
}

static void happened(struct ks_listener *listener, ks_shard shard, const char *event,
                     const char *line)
{
    struct viewer *viewer = KS_LIST_ENTRY(listener, struct viewer, listener);

    (void)shard;
    (void)line;
    if (event != NULL)
        ks_exchange_wake(viewer->exchange);
}

static void heartbeat_due(struct ks_timer *timer)
{
    struct viewer *viewer = KS_LIST_ENTRY(timer, struct viewer, timer);

    viewer->beat = true;
    set_timer(viewer);
    ks_exchange_wake(viewer->exchange);
}

/* ---- Life ---- */

static void closed(struct ks_exchange *exchange)
{
    struct viewer *viewer = exchange->context;

    ks_loop_timer_clear(viewer->api->loop, &viewer->timer);
    ks_switchboard_unlisten(viewer->board, &viewer->listener);
    ks_list_remove(&viewer->link);
    ks_bytes_free(&viewer->line);
    ks_free(viewer);
}

void ks_events_finish(struct ks_api *api)
{
    struct ks_link *cursor;
    struct ks_link *after;

    KS_LIST_EACH(cursor, after, &api->viewers)
    {
        ks_exchange_wake(KS_LIST_ENTRY(cursor, struct viewer, link)->exchange);
    }
}

static void view(struct ks_exchange *exchange, uint64_t heartbeat_ms)
{
    struct ks_api *api = exchange->api;
    struct viewer *viewer;
    uint64_t end;

    viewer = ks_alloc(sizeof(*viewer));
    if (viewer == NULL) {
        ks_exchange_problem(exchange, KS_PROBLEM_EXHAUSTED, "out of memory");
        return;
    }
    viewer->listener.happened = happened;
    viewer->timer.due = heartbeat_due;
    viewer->exchange = exchange;
    viewer->api = api;
    viewer->board = exchange->subscription->board;
    viewer->heartbeat = ks_span_ms((int64_t)heartbeat_ms);
    viewer->next = ks_switchboard_events(viewer->board, &end);
    viewer->beat = true; /* At once after what is kept: a reader sees that it has all of that. */
    viewer->sse = ks_accepts_sse(&exchange->request);
    ks_bytes_init(&viewer->line, LINE_BYTES_MAX);
    ks_list_append(&api->viewers, &viewer->link);
    ks_switchboard_listen(viewer->board, &viewer->listener);
    set_timer(viewer);
    exchange->context = viewer;
    exchange->closed = closed;
    ks_exchange_stream(exchange, viewer->sse ? KS_TYPE_SSE : KS_TYPE_NDJSON, fill);
    ks_exchange_header(exchange, "X-Accel-Buffering", "no");
}

void ks_serve_events(struct ks_exchange *exchange, const ProtobufCMessage *message,
                     struct ks_arena *arena)
{
    const KinesisSidecar__V1__WatchEventsRequest *request =
        (const KinesisSidecar__V1__WatchEventsRequest *)message;
    uint64_t heartbeat_ms;

    (void)arena;
    if (ks_message_number(exchange, "heartbeat_ms", (uint64_t)request->heartbeat_ms,
                          KS_HEARTBEAT_MS_MIN, KS_HEARTBEAT_MS_MAX, HEARTBEAT_MS, &heartbeat_ms))
        view(exchange, heartbeat_ms);
}

void ks_handle_events(struct ks_exchange *exchange)
{
    uint64_t heartbeat_ms;

    if (ks_request_number(exchange, "heartbeat_ms", KS_HEARTBEAT_MS_MIN, KS_HEARTBEAT_MS_MAX,
                          HEARTBEAT_MS, &heartbeat_ms))
        view(exchange, heartbeat_ms);
}
