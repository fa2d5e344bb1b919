/* SPDX-License-Identifier: Apache-2.0 */
/* The server of gRPC's interop tests: grpc.testing.TestService on the API's own floor. Says its port on
 * standard output. */
#include "floor.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "grpc_testing.pb-c.h"

#define OF(name) Grpc__Testing__##name

enum { PAYLOAD_MAX = 1 << 20, ANSWERS_MAX = 64 };

/* One call with a stream. */
struct talk {
    struct ks_exchange *exchange;
    struct ks_timer timer;
    int32_t size; /* Of what has come. */
    int32_t sizes[ANSWERS_MAX];
    int32_t interval_us[ANSWERS_MAX];
    size_t first;
    size_t count;
    bool said_all;
};

static uint8_t zeros[PAYLOAD_MAX];

static void closed(struct ks_exchange *exchange)
{
    struct talk *talk = exchange->context;

    ks_loop_timer_clear(serving_loop(), &talk->timer);
    free(talk);
}

static struct talk *begin(struct ks_exchange *exchange)
{
    struct talk *talk = calloc(1, sizeof(*talk));

    assert(talk != NULL);
    talk->exchange = exchange;
    exchange->context = talk;
    exchange->closed = closed;
    return talk;
}

/* Metadata that comes back: "custom_metadata". */
static void echo(struct ks_exchange *exchange)
{
    ks_view initial = ks_request_header(&exchange->request, "x-grpc-test-echo-initial");
    ks_view trailing = ks_request_header(&exchange->request, "x-grpc-test-echo-trailing-bin");

    if (initial.data != NULL)
        (void)ks_headers_add(&exchange->answer.headers, KS_VIEW("x-grpc-test-echo-initial"),
                             initial)
            .code;
    if (trailing.data != NULL)
        ks_rpc_trailer(exchange, KS_VIEW("x-grpc-test-echo-trailing-bin"), trailing);
}

static bool fails(struct ks_exchange *exchange, const OF(EchoStatus) * status)
{
    if (status == NULL || status->code == 0)
        return false;
    ks_rpc_fail(exchange, &(struct ks_rpc_status){.code = (enum ks_code)status->code,
                                                  .text = status->message});
    return true;
}

static void make_payload(OF(Payload) * payload, int32_t size)
{
    grpc__testing__payload__init(payload);
    assert(size >= 0 && size <= PAYLOAD_MAX);
    payload->body = (ProtobufCBinaryData){(size_t)size, zeros};
}

static void serve_empty(struct ks_exchange *exchange, const ProtobufCMessage *message,
                        struct ks_arena *arena)
{
    OF(Empty) empty;

    (void)message;
    (void)arena;
    echo(exchange);
    grpc__testing__empty__init(&empty);
    ks_exchange_message(exchange, &empty.base);
}

static void serve_unary(struct ks_exchange *exchange, const ProtobufCMessage *message,
                        struct ks_arena *arena)
{
    const OF(SimpleRequest) *request = (const OF(SimpleRequest) *)message;
    OF(SimpleResponse) response;
    OF(Payload) payload;

    (void)arena;
    echo(exchange);
    if (fails(exchange, request->response_status))
        return;
    grpc__testing__simple_response__init(&response);
    make_payload(&payload, request->response_size);
    response.payload = &payload;
    ks_exchange_message(exchange, &response.base);
}

/* ---- Streams ---- */

static void begin_input(struct ks_exchange *exchange, const ProtobufCMessage *message,
                        struct ks_arena *arena)
{
    (void)message;
    (void)arena;
    begin(exchange);
}

static void next_input(struct ks_exchange *exchange, const ProtobufCMessage *message,
                       struct ks_arena *arena)
{
    const OF(StreamingInputCallRequest) *request = (const OF(StreamingInputCallRequest) *)message;
    struct talk *talk = exchange->context;
    OF(StreamingInputCallResponse) response;

    (void)arena;
    if (message != NULL) {
        talk->size += request->payload == NULL ? 0 : (int32_t)request->payload->body.len;
        return;
    }
    grpc__testing__streaming_input_call_response__init(&response);
    response.aggregated_payload_size = talk->size;
    ks_exchange_message(exchange, &response.base);
}

static void go_on(struct talk *talk)
{
    int32_t interval_us = talk->interval_us[talk->first];

    if (talk->count > 0)
        ks_loop_timer_set(serving_loop(), &talk->timer,
                          ks_instant_add(ks_loop_now(serving_loop()), (ks_span){interval_us}));
    else if (talk->said_all)
        ks_rpc_close(talk->exchange);
}

static void send_due(struct ks_timer *timer)
{
    struct talk *talk = KS_LIST_ENTRY(timer, struct talk, timer);
    OF(StreamingOutputCallResponse) response;
    OF(Payload) payload;

    grpc__testing__streaming_output_call_response__init(&response);
    make_payload(&payload, talk->sizes[talk->first]);
    response.payload = &payload;
    if (!ks_ok(ks_rpc_send(talk->exchange, &response.base)))
        abort();
    talk->first = (talk->first + 1) % ANSWERS_MAX;
    talk->count--;
    go_on(talk);
}

static void queue(struct talk *talk, const OF(StreamingOutputCallRequest) * request)
{
    bool idle = talk->count == 0;

    for (size_t i = 0; i < request->n_response_parameters; i++) {
        size_t at = (talk->first + talk->count++) % ANSWERS_MAX;
        assert(talk->count < ANSWERS_MAX);
        talk->sizes[at] = request->response_parameters[i]->size;
        talk->interval_us[at] = request->response_parameters[i]->interval_us;
    }
    if (idle)
        go_on(talk);
}

static void begin_duplex(struct ks_exchange *exchange, const ProtobufCMessage *message,
                         struct ks_arena *arena)
{
    struct talk *talk = begin(exchange);

    (void)message;
    (void)arena;
    talk->timer.due = send_due;
    echo(exchange);
    ks_rpc_open(exchange);
}

static void next_duplex(struct ks_exchange *exchange, const ProtobufCMessage *message,
                        struct ks_arena *arena)
{
    const OF(StreamingOutputCallRequest) *request = (const OF(StreamingOutputCallRequest) *)message;
    struct talk *talk = exchange->context;

    (void)arena;
    if (message == NULL) {
        talk->said_all = true;
        if (talk->count == 0)
            go_on(talk);
        return;
    }
    if (!fails(exchange, request->response_status))
        queue(talk, request);
}

static void serve_output(struct ks_exchange *exchange, const ProtobufCMessage *message,
                         struct ks_arena *arena)
{
    begin_duplex(exchange, NULL, arena);
    ((struct talk *)exchange->context)->said_all = true;
    next_duplex(exchange, message, arena);
}

/* ---- The service ---- */

#define SERVICE "/grpc.testing.TestService/"
#define TYPE(name) &grpc__testing__##name##__descriptor
static const struct ks_rpc_method methods[] = {
    {SERVICE "EmptyCall", KS_RPC_UNARY, .request = TYPE(empty), .response = TYPE(empty),
     .handle = serve_empty},
    {SERVICE "UnaryCall", KS_RPC_UNARY, .request = TYPE(simple_request),
     .response = TYPE(simple_response), .handle = serve_unary},
    {SERVICE "StreamingOutputCall", KS_RPC_SERVER_STREAM,
     .request = TYPE(streaming_output_call_request),
     .response = TYPE(streaming_output_call_response), .handle = serve_output},
    {SERVICE "StreamingInputCall", KS_RPC_CLIENT_STREAM,
     .request = TYPE(streaming_input_call_request), .response = TYPE(streaming_input_call_response),
     .handle = begin_input, .next = next_input},
    {SERVICE "FullDuplexCall", KS_RPC_BIDI, .request = TYPE(streaming_output_call_request),
     .response = TYPE(streaming_output_call_response), .handle = begin_duplex, .next = next_duplex},
};

static void listening(uint16_t port)
{
    printf("%u\n", port);
    fflush(stdout);
}

int main(void)
{
    static const struct ks_rpc_service service = {
        .methods = methods, .count = sizeof(methods) / sizeof(methods[0]), .all_headers = true};
    enum { MESSAGE_BYTES_MAX = 4 << 20 };

    serve(&service, MESSAGE_BYTES_MAX, 0, listening);
}
