/* SPDX-License-Identifier: Apache-2.0 */
/* The server of connectrpc/conformance: connectrpc.conformance.v1.ConformanceService on the API's own floor.
 *
 * The suite's runner writes what it wants to standard input, a ServerCompatRequest behind its length (four bytes,
 * big-endian), reads where the server listens, and ends it by SIGTERM.
 */
#include "floor.h"

#include "api/rpc_call.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "connectrpc/conformance/v1/server_compat.pb-c.h"
#include "connectrpc/conformance/v1/service.pb-c.h"

#define OF(name) Connectrpc__Conformance__V1__##name
#define TYPE(name) connectrpc__conformance__v1__##name##__descriptor
#define URL "type.googleapis.com/"

enum { REQUESTS_MAX = 100, HEADERS_MAX = 100 };

typedef OF(UnaryResponseDefinition) unary_definition;
typedef OF(StreamResponseDefinition) stream_definition;
typedef OF(ConformancePayload__RequestInfo) request_info;
typedef OF(Header) header_lines;
typedef Google__Protobuf__Any packed_any;

/* One call. */
struct talk {
    struct ks_exchange *exchange;
    struct ks_timer timer;
    packed_any requests[REQUESTS_MAX];
    size_t request_count;
    size_t told; /* Of them, in earlier answers. */
    /* The first request; its definition says what to do. */
    ProtobufCMessage *first;
    const stream_definition *stream;
    const unary_definition *unary;
    bool full_duplex;
    bool said_all;
    size_t sent;
    size_t allowed; /* Answers that may be sent by now. */
};

static void *need(size_t size)
{
    void *memory = calloc(1, size);

    assert(memory != NULL);
    return memory;
}

static struct talk *talk_of(struct ks_exchange *exchange)
{
    return exchange->context;
}

static void closed(struct ks_exchange *exchange)
{
    struct talk *talk = talk_of(exchange);

    ks_loop_timer_clear(serving_loop(), &talk->timer);
    for (size_t i = 0; i < talk->request_count; i++) {
        free(talk->requests[i].type_url);
        free(talk->requests[i].value.data);
    }
    if (talk->first != NULL)
        protobuf_c_message_free_unpacked(talk->first, NULL);
    free(talk);
}

static struct talk *begin(struct ks_exchange *exchange, void (*due)(struct ks_timer *timer))
{
    struct talk *talk = need(sizeof(*talk));

    talk->exchange = exchange;
    talk->timer.due = due;
    exchange->context = talk;
    exchange->closed = closed;
    return talk;
}

/* ---- What was asked ---- */

static void keep(struct talk *talk, const ProtobufCMessage *message)
{
    packed_any *any = &talk->requests[talk->request_count++];
    size_t url = strlen(URL) + strlen(message->descriptor->name) + 1;

    assert(talk->request_count < REQUESTS_MAX);
    google__protobuf__any__init(any);
    any->type_url = need(url);
    snprintf(any->type_url, url, "%s%s", URL, message->descriptor->name);
    any->value.len = protobuf_c_message_get_packed_size(message);
    any->value.data = need(any->value.len + 1);
    protobuf_c_message_pack(message, any->value.data);
    if (talk->first != NULL)
        return;
    talk->first =
        protobuf_c_message_unpack(message->descriptor, NULL, any->value.len, any->value.data);
    assert(talk->first != NULL);
}

/* Headers or parameters, lines of one name together. */
struct lines {
    header_lines lines[HEADERS_MAX];
    header_lines *pointers[HEADERS_MAX];
    char *values[HEADERS_MAX][HEADERS_MAX];
    size_t count;
};

static char *copy(ks_view text)
{
    char *to = need(text.size + 1);

    if (text.size > 0)
        memcpy(to, text.data, text.size);
    return to;
}

static void add_line(struct lines *lines, ks_view name, ks_view value)
{
    header_lines *line;
    size_t i = 0;

    while (i < lines->count && !ks_view_equal(ks_view_text(lines->lines[i].name), name))
        i++;
    assert(i < HEADERS_MAX);
    line = &lines->lines[i];
    if (i == lines->count) {
        connectrpc__conformance__v1__header__init(line);
        line->name = copy(name);
        line->value = lines->values[i];
        lines->pointers[lines->count++] = line;
    }
    line->value[line->n_value++] = copy(value);
}

static void free_lines(struct lines *lines)
{
    for (size_t i = 0; i < lines->count; i++) {
        for (size_t j = 0; j < lines->lines[i].n_value; j++)
            free(lines->lines[i].value[j]);
        free(lines->lines[i].name);
    }
    free(lines);
}

/* What the answer tells of the requests, with all that it points into. */
struct told {
    request_info info;
    OF(ConformancePayload__ConnectGetInfo) get;
    packed_any *requests[REQUESTS_MAX];
    struct lines *headers;
    struct lines *params;
};

static struct told *tell(struct talk *talk, bool all)
{
    struct told *told = need(sizeof(*told));
    const struct ks_request *request = &talk->exchange->request;
    ks_view name;
    ks_view value;
    size_t at = 0;

    connectrpc__conformance__v1__conformance_payload__request_info__init(&told->info);
    connectrpc__conformance__v1__conformance_payload__connect_get_info__init(&told->get);
    told->headers = need(sizeof(struct lines));
    told->params = need(sizeof(struct lines));
    for (; talk->told < talk->request_count; talk->told++)
        told->requests[told->info.n_requests++] = &talk->requests[talk->told];
    told->info.requests = told->requests;
    if (!all)
        return told;
    while (ks_headers_next(&request->headers, &at, &name, &value))
        add_line(told->headers, name, value);
    for (uint32_t i = 0; i < request->decoded.param_count; i++)
        add_line(told->params, request->decoded.params[i].name, request->decoded.params[i].value);
    told->info.n_request_headers = told->headers->count;
    told->info.request_headers = told->headers->pointers;
    if (ks_rpc_timeout_ms(talk->exchange) > 0)
        told->info.timeout_ms = ks_rpc_timeout_ms(talk->exchange);
    told->get.n_query_params = told->params->count;
    told->get.query_params = told->params->pointers;
    if (request->method == KS_METHOD_GET)
        told->info.connect_get_info = &told->get;
    return told;
}

static void forget(struct told *told)
{
    free_lines(told->headers);
    free_lines(told->params);
    free(told);
}

/* ---- What is answered ---- */

static void add_metadata(struct talk *talk, header_lines *const *headers, size_t header_count,
                         header_lines *const *trailers, size_t trailer_count)
{
    for (size_t i = 0; i < header_count; i++)
        for (size_t j = 0; j < headers[i]->n_value; j++)
            ks_exchange_header(talk->exchange, headers[i]->name, headers[i]->value[j]);
    for (size_t i = 0; i < trailer_count; i++)
        for (size_t j = 0; j < trailers[i]->n_value; j++)
            ks_rpc_trailer(talk->exchange, ks_view_text(trailers[i]->name),
                           ks_view_text(trailers[i]->value[j]));
}

/* Fails as it is told to; `told` goes with it, if there is one. */
static void fail(struct talk *talk, const OF(Error) * error, struct told *told)
{
    struct ks_rpc_detail details[REQUESTS_MAX];
    struct ks_rpc_status status = {
        .code = (enum ks_code)error->code, .text = error->message, .details = details};
    uint8_t *packed = NULL;

    for (size_t i = 0; i < error->n_details; i++) {
        const char *slash = strrchr(error->details[i]->type_url, '/');
        details[status.detail_count++] = (struct ks_rpc_detail){
            slash == NULL ? "" : slash + 1,
            ks_view_of(error->details[i]->value.data, error->details[i]->value.len)};
    }
    if (told != NULL) {
        size_t size = protobuf_c_message_get_packed_size(&told->info.base);
        packed = need(size + 1);
        protobuf_c_message_pack(&told->info.base, packed);
        details[status.detail_count++] =
            (struct ks_rpc_detail){told->info.base.descriptor->name, ks_view_of(packed, size)};
        forget(told);
    }
    ks_rpc_fail(talk->exchange, &status);
    free(packed);
}

/* The answer of a method: all of them have a payload and nothing else. */
struct answer {
    OF(UnaryResponse) message;
    OF(ConformancePayload) payload;
};

static void make_answer(struct talk *talk, struct answer *answer, const ProtobufCBinaryData *data,
                        struct told *told)
{
    protobuf_c_message_init(talk->exchange->rpc->method->response, &answer->message.base);
    connectrpc__conformance__v1__conformance_payload__init(&answer->payload);
    answer->message.payload = &answer->payload;
    if (data != NULL)
        answer->payload.data = *data;
    if (told != NULL)
        answer->payload.request_info = &told->info;
}

/* ---- One answer ---- */

static void answer_once(struct talk *talk)
{
    const unary_definition *definition = talk->unary;
    struct told *told = tell(talk, true);
    const ProtobufCBinaryData *data = NULL;
    struct answer answer;

    if (definition != NULL) {
        add_metadata(talk, definition->response_headers, definition->n_response_headers,
                     definition->response_trailers, definition->n_response_trailers);
        if (definition->response_case ==
            CONNECTRPC__CONFORMANCE__V1__UNARY_RESPONSE_DEFINITION__RESPONSE_ERROR) {
            fail(talk, definition->error, told);
            return;
        }
        if (definition->response_case ==
            CONNECTRPC__CONFORMANCE__V1__UNARY_RESPONSE_DEFINITION__RESPONSE_RESPONSE_DATA)
            data = &definition->response_data;
    }
    make_answer(talk, &answer, data, told);
    ks_exchange_message(talk->exchange, &answer.message.base);
    forget(told);
}

static void once_due(struct ks_timer *timer)
{
    struct talk *talk = KS_LIST_ENTRY(timer, struct talk, timer);
    struct ks_exchange *exchange = talk->exchange;

    answer_once(talk);
    ks_exchange_wake(exchange);
}

static void wait_or(struct talk *talk, uint32_t delay_ms)
{
    ks_loop_timer_set(serving_loop(), &talk->timer,
                      ks_instant_add(ks_loop_now(serving_loop()), ks_span_ms(delay_ms)));
}

static void once(struct talk *talk)
{
    uint32_t delay_ms = talk->unary == NULL ? 0 : talk->unary->response_delay_ms;

    if (delay_ms == 0)
        answer_once(talk);
    else
        wait_or(talk, delay_ms);
}

static void serve_unary(struct ks_exchange *exchange, const ProtobufCMessage *message,
                        struct ks_arena *arena)
{
    struct talk *talk = begin(exchange, once_due);

    (void)arena;
    keep(talk, message);
    /* IdempotentUnaryRequest is of the same shape. */
    talk->unary = ((const OF(UnaryRequest) *)talk->first)->response_definition;
    once(talk);
}

static void begin_client_stream(struct ks_exchange *exchange, const ProtobufCMessage *message,
                                struct ks_arena *arena)
{
    (void)message;
    (void)arena;
    begin(exchange, once_due);
}

static void next_client_stream(struct ks_exchange *exchange, const ProtobufCMessage *message,
                               struct ks_arena *arena)
{
    struct talk *talk = talk_of(exchange);

    (void)arena;
    if (message != NULL) {
        keep(talk, message);
        return;
    }
    if (talk->first != NULL)
        talk->unary = ((const OF(ClientStreamRequest) *)talk->first)->response_definition;
    once(talk);
}

/* ---- Many answers ---- */

static void end_stream(struct talk *talk)
{
    const stream_definition *definition = talk->stream;

    if (definition != NULL && definition->error != NULL)
        fail(talk, definition->error, talk->sent == 0 ? tell(talk, true) : NULL);
    else
        ks_rpc_close(talk->exchange);
}

static size_t answers_of(const struct talk *talk)
{
    return talk->stream == NULL ? 0 : talk->stream->n_response_data;
}

/* Goes on as far as it may. */
static void go_on(struct talk *talk)
{
    bool more = talk->sent < answers_of(talk);

    if (!more && (talk->said_all || talk->allowed > talk->sent))
        end_stream(talk);
    else if (more && talk->allowed > talk->sent)
        wait_or(talk, talk->stream->response_delay_ms);
}

static void send_due(struct ks_timer *timer)
{
    struct talk *talk = KS_LIST_ENTRY(timer, struct talk, timer);
    bool first = talk->sent == 0;
    struct told *told = first || talk->told < talk->request_count ? tell(talk, first) : NULL;
    struct answer answer;
    ks_err err;

    make_answer(talk, &answer, &talk->stream->response_data[talk->sent++], told);
    err = ks_rpc_send(talk->exchange, &answer.message.base);
    if (told != NULL)
        forget(told);
    if (ks_ok(err))
        go_on(talk);
    else
        ks_rpc_fail(talk->exchange, &(struct ks_rpc_status){.code = KS_CODE_RESOURCE_EXHAUSTED,
                                                            .text = ks_err_text(err)});
}

static void open_stream(struct talk *talk)
{
    const stream_definition *definition = talk->stream;

    if (definition != NULL)
        add_metadata(talk, definition->response_headers, definition->n_response_headers,
                     definition->response_trailers, definition->n_response_trailers);
    ks_rpc_open(talk->exchange);
}

static void serve_server_stream(struct ks_exchange *exchange, const ProtobufCMessage *message,
                                struct ks_arena *arena)
{
    struct talk *talk = begin(exchange, send_due);

    (void)arena;
    keep(talk, message);
    talk->stream = ((const OF(ServerStreamRequest) *)talk->first)->response_definition;
    talk->said_all = true;
    talk->allowed = answers_of(talk);
    open_stream(talk);
    go_on(talk);
}

static void begin_bidi(struct ks_exchange *exchange, const ProtobufCMessage *message,
                       struct ks_arena *arena)
{
    (void)message;
    (void)arena;
    begin(exchange, send_due);
}

static void next_bidi(struct ks_exchange *exchange, const ProtobufCMessage *message,
                      struct ks_arena *arena)
{
    struct talk *talk = talk_of(exchange);
    bool idle = talk->allowed <= talk->sent;

    (void)arena;
    if (message == NULL) {
        if (!exchange->answered)
            open_stream(talk);
        talk->said_all = true;
        talk->allowed = answers_of(talk);
        if (idle)
            go_on(talk);
        return;
    }
    keep(talk, message);
    if (talk->request_count == 1) {
        const OF(BidiStreamRequest) *request = (const OF(BidiStreamRequest) *)talk->first;
        talk->stream = request->response_definition;
        talk->full_duplex = request->full_duplex;
        open_stream(talk);
    }
    if (!talk->full_duplex)
        return;
    talk->allowed++;
    if (idle)
        go_on(talk);
}

/* ---- The service ---- */

#define SERVICE "/connectrpc.conformance.v1.ConformanceService/"
static const struct ks_rpc_method methods[] = {
    {SERVICE "Unary", KS_RPC_UNARY, .request = &TYPE(unary_request),
     .response = &TYPE(unary_response), .handle = serve_unary},
    {SERVICE "IdempotentUnary", KS_RPC_UNARY, .safe = true,
     .request = &TYPE(idempotent_unary_request), .response = &TYPE(idempotent_unary_response),
     .handle = serve_unary},
    {SERVICE "ServerStream", KS_RPC_SERVER_STREAM, .request = &TYPE(server_stream_request),
     .response = &TYPE(server_stream_response), .handle = serve_server_stream},
    {SERVICE "ClientStream", KS_RPC_CLIENT_STREAM, .request = &TYPE(client_stream_request),
     .response = &TYPE(client_stream_response), .handle = begin_client_stream,
     .next = next_client_stream},
    {SERVICE "BidiStream", KS_RPC_BIDI, .request = &TYPE(bidi_stream_request),
     .response = &TYPE(bidi_stream_response), .handle = begin_bidi, .next = next_bidi},
};

static const ProtobufCMessageDescriptor *const any_types[] = {
    &TYPE(unary_request),
    &TYPE(idempotent_unary_request),
    &TYPE(server_stream_request),
    &TYPE(client_stream_request),
    &TYPE(bidi_stream_request),
    &TYPE(header),
    &TYPE(conformance_payload__request_info),
};

static void write_all(const void *bytes, size_t size)
{
    if (write(STDOUT_FILENO, bytes, size) != (ssize_t)size)
        exit(1);
}

static void listening(uint16_t port)
{
    OF(ServerCompatResponse) response;
    uint8_t packed[256];
    uint8_t head[4] = {0};
    char host[] = "127.0.0.1";
    size_t size;

    connectrpc__conformance__v1__server_compat_response__init(&response);
    response.host = host;
    response.port = port;
    size = connectrpc__conformance__v1__server_compat_response__pack(&response, packed);
    head[3] = (uint8_t)size;
    write_all(head, sizeof(head));
    write_all(packed, size);
}

static void read_all(void *bytes, size_t size)
{
    size_t got = 0;

    while (got < size) {
        ssize_t more = read(STDIN_FILENO, (char *)bytes + got, size - got);
        if (more <= 0)
            exit(1);
        got += (size_t)more;
    }
}

int main(void)
{
    static const struct ks_json_types types = {any_types, sizeof(any_types) / sizeof(any_types[0])};
    static const struct ks_rpc_service service = {.methods = methods,
                                                  .count = sizeof(methods) / sizeof(methods[0]),
                                                  .types = &types,
                                                  .all_headers = true};
    enum { MESSAGE_BYTES_MAX = 4 << 20 };
    static uint8_t bytes[64 << 10];
    OF(ServerCompatRequest) * request;
    uint8_t head[4];
    size_t size;

    read_all(head, sizeof(head));
    size = (size_t)head[2] << 8 | head[3];
    read_all(bytes, size);
    request = connectrpc__conformance__v1__server_compat_request__unpack(NULL, size, bytes);
    if (request == NULL)
        return 1;
    serve(&service,
          request->message_receive_limit == 0 ? MESSAGE_BYTES_MAX : request->message_receive_limit,
          0, listening);
}
