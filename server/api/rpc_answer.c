/* SPDX-License-Identifier: Apache-2.0 */
/* What a call says back: messages, streams, and why it failed, in the words of its protocol. */
#include "api/rpc_call.h"

#include <assert.h>
#include <stdio.h>

#include "api/account.h"
#include "api/codec_proto.h"
#include "api/gzip.h"
#include "api/server.h"
#include "base/codec.h"

/* A smaller answer costs more to pack than to send. */
enum { PACK_FROM = 1024 };

static const char *type_of(enum ks_rpc_protocol protocol, bool json)
{
    switch (protocol) {
    case KS_RPC_CONNECT: return json ? "application/json" : "application/proto";
    case KS_RPC_CONNECT_STREAM:
        return json ? "application/connect+json" : "application/connect+proto";
    case KS_RPC_GRPC: return json ? "application/grpc+json" : "application/grpc+proto";
    }
    assert(false);
    return "";
}

/* ---- Messages ---- */

static ks_err encode(const struct ks_rpc_call *call, const ProtobufCMessage *message,
                     struct ks_bytes *bytes)
{
    struct ks_json_style style = {KS_SPELLING_PROTO, call->exchange->api->rpc->types};
    struct ks_writer json;

    if (!call->head.json)
        return ks_proto_write(message, false, bytes);
    ks_writer_begin(&json, bytes);
    ks_writer_open(&json, '{');
    ks_json_members(&json, style, message);
    ks_writer_close(&json, '}');
    return ks_writer_end(&json);
}

/* Has `write` write behind room for the five bytes, which are filled in then. */
static void close_envelope(struct ks_bytes *bytes, size_t before, uint8_t flags)
{
    ks_envelope_head(bytes->data + before, flags, bytes->size - before - KS_ENVELOPE_HEAD);
}

static ks_err open_envelope(struct ks_bytes *bytes)
{
    static const uint8_t head[KS_ENVELOPE_HEAD];

    return ks_bytes_append(bytes, ks_view_of(head, sizeof(head)));
}

ks_err ks_rpc_append(struct ks_exchange *exchange, const ProtobufCMessage *message,
                     struct ks_bytes *bytes)
{
    size_t before = bytes->size;
    ks_err err = open_envelope(bytes);

    if (ks_ok(err))
        err = encode(exchange->rpc, message, bytes);
    if (ks_ok(err))
        close_envelope(bytes, before, 0);
    else
        bytes->size = before; /* Half a message would spoil what follows. */
    return err;
}

/* ---- Why it failed ---- */

/* A status, with the problem that it tells, if it is one of ours. */
struct failure {
    const struct ks_rpc_status *status;
    const enum ks_problem *problem;
    ks_view instance;
};

/* Base64 without padding. */
static ks_err encode_bare(ks_view bytes, struct ks_bytes *text)
{
    KS_TRY(ks_bytes_reserve(text, ks_base64_size(bytes.size)));
    text->size = ks_base64_encode(bytes, (char *)text->data);
    while (text->size > 0 && text->data[text->size - 1] == '=')
        text->size--;
    return KS_OK;
}

/* {"type":"package.Message","value":..,"debug":{..}}; `debug` is for people. */
static void write_detail(struct ks_writer *json, const struct failure *failure,
                         const struct ks_rpc_detail *detail)
{
    struct ks_bytes text;

    ks_bytes_init(&text, 2 * KS_RPC_TAIL_BYTES_MAX);
    if (!ks_ok(encode_bare(detail->packed, &text)))
        return; /* The rest says it, too. */
    ks_writer_open(json, '{');
    ks_writer_pair(json, "type", ks_view_text(detail->type));
    ks_writer_pair(json, "value", ks_bytes_view(&text));
    if (failure->problem != NULL) {
        ks_writer_key(json, "debug");
        ks_writer_open(json, '{');
        ks_problem_members(json, *failure->problem, ks_view_text(failure->status->text),
                           failure->instance);
        ks_writer_close(json, '}');
    }
    ks_writer_close(json, '}');
    ks_bytes_free(&text);
}

/* {"code":..,"message":..,"details":[..]} (Connect: Error). */
static void write_error(struct ks_writer *json, const struct failure *failure)
{
    const struct ks_rpc_status *status = failure->status;

    ks_writer_open(json, '{');
    ks_writer_pair(json, "code", ks_view_text(ks_code_name(status->code)));
    if (status->text[0] != '\0')
        ks_writer_pair(json, "message", ks_view_text(status->text));
    if (status->detail_count > 0) {
        ks_writer_key(json, "details");
        ks_writer_open(json, '[');
        for (size_t i = 0; i < status->detail_count; i++)
            write_detail(json, failure, &status->details[i]);
        ks_writer_close(json, ']');
    }
    ks_writer_close(json, '}');
}

/* RFC 3986 escapes of all but printable ASCII (PROTOCOL-HTTP2.md: Percent-Encoded). */
static ks_err escape(const char *text, struct ks_bytes *bytes)
{
    for (const char *at = text; *at != '\0'; at++) {
        uint8_t byte = (uint8_t)*at;
        if (byte >= ' ' && byte <= '~' && byte != '%')
            KS_TRY(ks_bytes_append_byte(bytes, byte));
        else
            KS_TRY(ks_bytes_format(bytes, "%%%02X", byte));
    }
    return ks_bytes_append_byte(bytes, '\0');
}

static ks_err pack_bytes(uint8_t field, ks_view value, struct ks_bytes *bytes)
{
    enum { WIRE_BYTES = 2 };

    KS_TRY(ks_bytes_append_byte(bytes, (uint8_t)(field << 3 | WIRE_BYTES)));
    KS_TRY(ks_bytes_append_varint(bytes, value.size));
    return ks_bytes_append(bytes, value);
}

/* google.protobuf.Any {string type_url = 1; bytes value = 2}. */
static ks_err pack_any(const struct ks_rpc_detail *detail, struct ks_bytes *bytes)
{
    struct ks_bytes url;
    ks_err err;

    ks_bytes_init(&url, KS_RPC_TAIL_BYTES_MAX);
    err = ks_bytes_format(&url, "type.googleapis.com/%s", detail->type);
    if (ks_ok(err))
        err = pack_bytes(1, ks_bytes_view(&url), bytes);
    if (ks_ok(err))
        err = pack_bytes(2, detail->packed, bytes);
    ks_bytes_free(&url);
    return err;
}

/* google.rpc.Status {int32 code = 1; string message = 2; repeated Any details = 3}. */
static ks_err pack_status(const struct ks_rpc_status *status, struct ks_bytes *bytes)
{
    enum { CODE = 1 << 3 };
    struct ks_bytes any;
    ks_err err = KS_OK;

    KS_TRY(ks_bytes_append_byte(bytes, CODE));
    KS_TRY(ks_bytes_append_varint(bytes, status->code));
    KS_TRY(pack_bytes(2, ks_view_text(status->text), bytes));
    ks_bytes_init(&any, KS_RPC_TAIL_BYTES_MAX);
    for (size_t i = 0; i < status->detail_count && ks_ok(err); i++) {
        ks_bytes_clear(&any);
        err = pack_any(&status->details[i], &any);
        if (ks_ok(err))
            err = pack_bytes(3, ks_bytes_view(&any), bytes);
    }
    ks_bytes_free(&any);
    return err;
}

/* Binary metadata: base64 without padding. A status too long for a header is told without its details. */
static void add_details(struct ks_headers *lines, const struct ks_rpc_status *status)
{
    struct ks_bytes packed;
    struct ks_bytes text;

    ks_bytes_init(&packed, KS_RPC_TAIL_BYTES_MAX);
    ks_bytes_init(&text, 2 * KS_RPC_TAIL_BYTES_MAX);
    if (ks_ok(pack_status(status, &packed)) && ks_ok(encode_bare(ks_bytes_view(&packed), &text)))
        (void)ks_headers_add(lines, KS_VIEW("grpc-status-details-bin"), ks_bytes_view(&text)).code;
    ks_bytes_free(&packed);
    ks_bytes_free(&text);
}

static void add_line(struct ks_exchange *exchange, struct ks_headers *lines, const char *name,
                     const char *value)
{
    if (!ks_ok(ks_headers_add(lines, ks_view_text(name), ks_view_text(value))))
        exchange->answer.broken = true;
}

/* grpc-status and what goes with it. `status` NULL: it went well. */
static void add_grpc_status(struct ks_exchange *exchange, struct ks_headers *lines,
                            const struct ks_rpc_status *status)
{
    struct ks_bytes text;
    char number[8];

    (void)snprintf(number, sizeof(number), "%d", status == NULL ? 0 : (int)status->code);
    add_line(exchange, lines, "grpc-status", number);
    if (status == NULL)
        return;
    ks_bytes_init(&text, KS_RPC_TAIL_BYTES_MAX);
    if (ks_ok(escape(status->text, &text)))
        add_line(exchange, lines, "grpc-message", (const char *)text.data);
    ks_bytes_free(&text);
    if (status->detail_count > 0)
        add_details(lines, status);
}

/* ---- Ends ---- */

/* {"name":["value",..]}: lines of the same name together. */
static void write_metadata(struct ks_writer *json, const struct ks_headers *lines)
{
    size_t at = 0;
    ks_view name;
    ks_view value;

    ks_writer_open(json, '{');
    while (ks_headers_next(lines, &at, &name, &value)) {
        ks_view first = KS_VIEW_NONE;
        size_t other = 0;
        ks_view again;

        while (!ks_view_equal_nocase(first, name) && ks_headers_next(lines, &other, &first, &again))
            ;
        if (again.data != value.data)
            continue; /* It stands with the first of its name. */
        ks_writer_key_text(json, name);
        ks_writer_open(json, '[');
        for (other = 0; ks_headers_next(lines, &other, &first, &again);)
            if (ks_view_equal_nocase(first, name))
                ks_writer_text(json, again);
        ks_writer_close(json, ']');
    }
    ks_writer_close(json, '}');
}

/* Connect's last envelope. */
static ks_err append_end(struct ks_exchange *exchange, const struct failure *failure,
                         struct ks_bytes *bytes)
{
    size_t before = bytes->size;
    struct ks_writer json;

    KS_TRY(open_envelope(bytes));
    ks_writer_begin(&json, bytes);
    ks_writer_open(&json, '{');
    if (failure != NULL) {
        ks_writer_key(&json, "error");
        write_error(&json, failure);
    }
    if (exchange->answer.trailers.lines.size > 0) {
        ks_writer_key(&json, "metadata");
        write_metadata(&json, &exchange->answer.trailers);
        ks_headers_free(&exchange->answer.trailers);
    }
    ks_writer_close(&json, '}');
    KS_TRY(ks_writer_end(&json));
    close_envelope(bytes, before, KS_ENVELOPE_END);
    return KS_OK;
}

/* The end of a stream that has begun. */
static void end_stream(struct ks_rpc_call *call, const struct failure *failure)
{
    struct ks_exchange *exchange = call->exchange;

    assert(!call->ended);
    call->ended = true;
    ks_loop_timer_clear(call->loop, &call->timer);
    if (call->head.protocol == KS_RPC_GRPC)
        add_grpc_status(exchange, &exchange->answer.trailers,
                        failure == NULL ? NULL : failure->status);
    else if (!ks_ok(append_end(exchange, failure, &call->tail)))
        exchange->answer.broken = true;
}

/* Trailing metadata of a Connect answer without a stream. */
static void trailers_to_headers(struct ks_exchange *exchange)
{
    struct ks_headers *trailers = &exchange->answer.trailers;
    struct ks_bytes text;
    size_t at = 0;
    ks_view name;
    ks_view value;

    ks_bytes_init(&text, KS_RPC_TAIL_BYTES_MAX);
    while (ks_headers_next(trailers, &at, &name, &value)) {
        ks_bytes_clear(&text);
        if (!ks_ok(ks_bytes_append(&text, KS_VIEW("trailer-"))) ||
            !ks_ok(ks_bytes_append(&text, name)) ||
            !ks_ok(ks_headers_add(&exchange->answer.headers, ks_bytes_view(&text), value)))
            exchange->answer.broken = true;
    }
    ks_bytes_free(&text);
    ks_headers_free(trailers);
}

/* ---- Answers without a stream ---- */

static void out_of_memory(struct ks_exchange *exchange, ks_err err)
{
    ks_exchange_problem(exchange, KS_PROBLEM_EXHAUSTED, "the answer: %s", ks_err_text(err));
}

/* Packs what lies behind `before`, if the client takes it and it is worth it. */
static ks_err maybe_pack(const struct ks_rpc_call *call, struct ks_bytes *body, size_t before,
                         bool *ret_packed)
{
    ks_view from = ks_view_of(body->data + before, body->size - before);
    struct ks_bytes packed;
    ks_err err;

    *ret_packed = call->head.accepts_gzip && from.size >= PACK_FROM;
    if (!*ret_packed)
        return KS_OK;
    ks_bytes_init(&packed, body->max);
    err = ks_bytes_append(&packed, ks_view_of(body->data, before));
    if (ks_ok(err))
        err = ks_gzip_pack(from, &packed);
    if (!ks_ok(err)) {
        ks_bytes_free(&packed);
        return err;
    }
    ks_bytes_free(body);
    *body = packed;
    return KS_OK;
}

static void message_bare(struct ks_rpc_call *call, struct ks_bytes *body)
{
    struct ks_exchange *exchange = call->exchange;
    bool packed;
    ks_err err = maybe_pack(call, body, 0, &packed);

    if (!ks_ok(err)) {
        out_of_memory(exchange, err);
        return;
    }
    if (packed)
        ks_exchange_header(exchange, "content-encoding", "gzip");
    trailers_to_headers(exchange);
    ks_exchange_reply(exchange, 200, type_of(KS_RPC_CONNECT, call->head.json), body);
}

static void message_enveloped(struct ks_rpc_call *call, struct ks_bytes *body)
{
    struct ks_exchange *exchange = call->exchange;
    bool grpc = call->head.protocol == KS_RPC_GRPC;
    bool packed;
    ks_err err = maybe_pack(call, body, KS_ENVELOPE_HEAD, &packed);

    if (ks_ok(err)) {
        close_envelope(body, 0, packed ? KS_ENVELOPE_COMPRESSED : 0);
        if (!grpc)
            err = append_end(exchange, NULL, body);
    }
    if (!ks_ok(err)) {
        out_of_memory(exchange, err);
        return;
    }
    if (packed)
        ks_exchange_header(exchange, grpc ? "grpc-encoding" : "connect-content-encoding", "gzip");
    if (grpc)
        add_grpc_status(exchange, &exchange->answer.trailers, NULL);
    ks_exchange_reply(exchange, 200, type_of(call->head.protocol, call->head.json), body);
}

ks_err ks_rpc_begin_message(struct ks_bytes *bytes)
{
    return open_envelope(bytes);
}

void ks_rpc_written_message(struct ks_exchange *exchange, struct ks_bytes *bytes)
{
    struct ks_rpc_call *call = exchange->rpc;

    assert(call->method->kind == KS_RPC_UNARY || call->method->kind == KS_RPC_CLIENT_STREAM);
    ks_loop_timer_clear(call->loop, &call->timer);
    if (call->head.protocol == KS_RPC_CONNECT) {
        ks_bytes_consume(bytes, KS_ENVELOPE_HEAD);
        message_bare(call, bytes);
    } else {
        message_enveloped(call, bytes);
    }
}

void ks_rpc_message(struct ks_exchange *exchange, const ProtobufCMessage *message)
{
    struct ks_bytes body;
    ks_err err;

    ks_bytes_init(&body, KS_ANSWER_BYTES_MAX);
    err = ks_rpc_begin_message(&body);
    if (ks_ok(err))
        err = encode(exchange->rpc, message, &body);
    if (ks_ok(err))
        ks_rpc_written_message(exchange, &body);
    else
        out_of_memory(exchange, err);
    ks_bytes_free(&body);
}

/* ---- Failing before the answer ---- */

static bool is_json(const struct ks_exchange *exchange)
{
    if (exchange->rpc != NULL)
        return exchange->rpc->head.json;
    return ks_media_type_is(exchange->request.content_type, "application/connect+json") ||
           ks_media_type_is(exchange->request.content_type, "application/grpc+json");
}

/* Trailers-Only, if there are no headers that would get lost among the trailers. */
static void fail_grpc(struct ks_exchange *exchange, const struct ks_rpc_status *status)
{
    struct ks_answer *answer = &exchange->answer;
    bool only = answer->headers.lines.size == 0 && answer->trailers.lines.size == 0;
    struct ks_bytes body;

    add_grpc_status(exchange, only ? &answer->headers : &answer->trailers, status);
    ks_bytes_init(&body, 0);
    ks_exchange_reply(exchange, 200, type_of(KS_RPC_GRPC, is_json(exchange)), &body);
}

static void fail_stream(struct ks_exchange *exchange, const struct failure *failure)
{
    struct ks_bytes body;

    ks_bytes_init(&body, KS_RPC_TAIL_BYTES_MAX);
    if (!ks_ok(append_end(exchange, failure, &body)))
        exchange->answer.broken = true;
    ks_exchange_reply(exchange, 200, type_of(KS_RPC_CONNECT_STREAM, is_json(exchange)), &body);
    ks_bytes_free(&body);
}

static void fail_bare(struct ks_exchange *exchange, const struct failure *failure)
{
    uint16_t status = failure->problem == NULL ? ks_code_http(failure->status->code)
                                               : ks_problem_status(*failure->problem);
    struct ks_writer json;
    struct ks_bytes body;

    ks_bytes_init(&body, KS_RPC_TAIL_BYTES_MAX);
    ks_writer_begin(&json, &body);
    write_error(&json, failure);
    ks_writer_line(&json);
    if (!ks_ok(ks_writer_end(&json)))
        ks_bytes_clear(&body); /* The HTTP status has to say it all. */
    trailers_to_headers(exchange);
    ks_exchange_reply(exchange, status, KS_TYPE_JSON, &body);
    ks_bytes_free(&body);
}

static enum ks_rpc_protocol protocol_of(const struct ks_exchange *exchange)
{
    return exchange->rpc == NULL ? ks_rpc_head_protocol(exchange) : exchange->rpc->head.protocol;
}

static void stop_timer(struct ks_exchange *exchange)
{
    if (exchange->rpc != NULL)
        ks_loop_timer_clear(exchange->rpc->loop, &exchange->rpc->timer);
}

/* The handler's state is over: as if the client had left. */
static void let_go(struct ks_exchange *exchange)
{
    void (*closed)(struct ks_exchange * exchange) = exchange->closed;

    exchange->closed = NULL;
    exchange->sent = NULL;
    exchange->may_send = NULL;
    exchange->body_part = NULL;
    if (closed != NULL)
        closed(exchange);
}

/* What is wrong with the request as HTTP is said by an HTTP status, where the protocol has a place for one. */
static bool is_of_http(const enum ks_problem *problem)
{
    return problem != NULL &&
           (*problem == KS_PROBLEM_METHOD_NOT_ALLOWED || *problem == KS_PROBLEM_MEDIA_TYPE ||
            *problem == KS_PROBLEM_HTTP_VERSION);
}

static void fail(struct ks_exchange *exchange, const struct failure *failure)
{
    struct ks_rpc_call *call = exchange->rpc;

    if (exchange->answered) {
        assert(exchange->answer.fill != NULL);
        if (!call->ended)
            end_stream(call, failure);
        let_go(exchange);
        ks_exchange_wake(exchange);
        return;
    }
    stop_timer(exchange);
    switch (protocol_of(exchange)) {
    case KS_RPC_CONNECT: fail_bare(exchange, failure); return;
    case KS_RPC_CONNECT_STREAM:
        if (is_of_http(failure->problem))
            fail_bare(exchange, failure);
        else
            fail_stream(exchange, failure);
        return;
    case KS_RPC_GRPC: fail_grpc(exchange, failure->status); return;
    }
}

void ks_rpc_fail(struct ks_exchange *exchange, const struct ks_rpc_status *status)
{
    fail(exchange, &(struct failure){.status = status});
    let_go(exchange);
}

void ks_rpc_problem(struct ks_exchange *exchange, enum ks_problem problem, const char *text)
{
    struct ks_rpc_detail detail = {.type = KS_PROBLEM_MESSAGE};
    struct ks_rpc_status status = {.code = ks_code_of_problem(problem), .text = text};
    struct failure failure = {&status, &problem, exchange->request.target};
    struct ks_bytes packed;

    ks_bytes_init(&packed, KS_RPC_TAIL_BYTES_MAX);
    if (exchange->api->rpc != NULL && exchange->api->rpc->problems &&
        ks_ok(ks_problem_pack(problem, text, exchange->request.target, &packed))) {
        detail.packed = ks_bytes_view(&packed);
        status.details = &detail;
        status.detail_count = 1;
    }
    fail(exchange, &failure);
    ks_bytes_free(&packed);
}

/* ---- Streams ---- */

static bool charge_out(struct ks_rpc_call *call)
{
    return ks_account_hold(call->exchange->account, KS_HELD_ANSWERS, &call->out_held,
                           call->out.capacity);
}

/* Writes what fits of `bytes` and forgets it. */
static size_t move_out(struct ks_bytes *bytes, uint8_t *buffer, size_t room)
{
    size_t size = bytes->size < room ? bytes->size : room;

    if (size > 0)
        memcpy(buffer, bytes->data, size);
    ks_bytes_consume(bytes, size);
    return size;
}

/* The same of messages that were sent. */
static size_t move_sent(struct ks_rpc_call *call, uint8_t *buffer, size_t room)
{
    size_t size = move_out(&call->out, buffer, room);

    if (call->out.size == 0) {
        ks_bytes_free(&call->out);
        (void)charge_out(call);
    }
    return size;
}

/* Writes what the producer has, and then the end. */
static size_t fill(struct ks_exchange *exchange, uint8_t *buffer, size_t room,
                   enum ks_fill *ret_fill)
{
    struct ks_rpc_call *call = exchange->rpc;
    size_t size = 0;

    if (!call->ended) {
        size = call->fill(exchange, buffer, room, ret_fill);
        ks_envelope_meter_pass(&call->meter, ks_view_of(buffer, size));
        if (*ret_fill != KS_FILL_END)
            return size;
        end_stream(call, NULL);
    }
    /* What was sent before a failure goes before it. */
    size = move_sent(call, buffer, room);
    ks_envelope_meter_pass(&call->meter, ks_view_of(buffer, size));
    if (size > 0) {
        *ret_fill = KS_FILL_MORE;
        return size;
    }
    /* An end in the middle of a message would be taken for its rest. */
    if (exchange->answer.broken || !ks_envelope_meter_between(&call->meter)) {
        *ret_fill = KS_FILL_ABORT;
        return 0;
    }
    size = move_out(&call->tail, buffer, room);
    *ret_fill = size > 0 ? KS_FILL_MORE : KS_FILL_END;
    return size;
}

ks_producer *ks_rpc_stream(struct ks_exchange *exchange, ks_producer *producer,
                           const char **ret_content_type)
{
    struct ks_rpc_call *call = exchange->rpc;

    assert(call->method->kind == KS_RPC_SERVER_STREAM || call->method->kind == KS_RPC_BIDI);
    call->fill = producer;
    *ret_content_type = type_of(call->head.protocol, call->head.json);
    return fill;
}

static size_t fill_sent(struct ks_exchange *exchange, uint8_t *buffer, size_t room,
                        enum ks_fill *ret_fill)
{
    struct ks_rpc_call *call = exchange->rpc;
    size_t size = move_sent(call, buffer, room);

    *ret_fill = size > 0 ? KS_FILL_MORE : call->closing ? KS_FILL_END : KS_FILL_WAIT;
    return size;
}

void ks_rpc_open(struct ks_exchange *exchange)
{
    ks_exchange_stream(exchange, NULL, fill_sent);
}

ks_err ks_rpc_send(struct ks_exchange *exchange, const ProtobufCMessage *message)
{
    struct ks_rpc_call *call = exchange->rpc;
    const size_t before = call->out.size;

    KS_TRY(ks_rpc_append(exchange, message, &call->out));
    if (!charge_out(call)) {
        call->out.size = before;
        return KS_FAIL(FULL);
    }
    ks_exchange_wake(exchange);
    return KS_OK;
}

void ks_rpc_close(struct ks_exchange *exchange)
{
    exchange->rpc->closing = true;
    ks_exchange_wake(exchange);
}

void ks_rpc_trailer(struct ks_exchange *exchange, ks_view name, ks_view value)
{
    if (!ks_ok(ks_headers_add(&exchange->answer.trailers, name, value)))
        exchange->answer.broken = true;
}
