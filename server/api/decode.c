/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of a request become a message, or records to put: here if they are few, on a thread if they are many. */
#include "api/message.h"

#include <assert.h>

#include "api/account.h"
#include "api/codec_json.h"
#include "api/codec_proto.h"
#include "api/rpc.h"
#include "api/server.h"
#include "api/subscription.h"
#include "base/budget.h"

/* A request's message in memory: JSON is small beside what jansson made of it. */
enum { ROOM_PER_BYTE = 8 };

/* A message that is read on the thread. Whoever asked for it may leave meanwhile. */
struct ks_decoding {
    struct ks_job job;
    struct ks_exchange *exchange; /* NULL: it has left. */
    struct ks_codec codec;
    struct ks_bytes body;
    size_t charged; /* Of bodies, to the account of the exchange. */
    const ProtobufCMessageDescriptor *type;
    ks_message_handler *handler;
    ks_put_handler *put_handler; /* Set for a put of records; NULL for a message. */
    /* The job's. */
    struct ks_arena arena;
    ProtobufCMessage *message;
    struct ks_put_body put;
    struct ks_detail detail;
    ks_err err;
};

/* What the message says about the subscription, if its type can. */
static ks_view subscription_of(const ProtobufCMessage *message)
{
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(message->descriptor, "subscription");
    const char *name;

    if (field == NULL)
        return KS_VIEW_NONE;
    assert(field->type == PROTOBUF_C_TYPE_STRING);
    memcpy(&name, (const uint8_t *)message + field->offset, sizeof(name));
    return ks_view_text(name);
}

static ks_err decode(struct ks_codec codec, ks_view body, const ProtobufCMessageDescriptor *type,
                     struct ks_arena *arena, ProtobufCMessage **ret_message,
                     struct ks_detail *detail)
{
    struct ks_json_style style = {
        codec.kind == KS_CODEC_REST ? KS_SPELLING_REST : KS_SPELLING_PROTO, codec.types};

    if (codec.kind == KS_CODEC_PROTO)
        return ks_proto_read(body, type, arena, ret_message, detail);
    return ks_json_read(style, body.size == 0 ? KS_VIEW("{}") : body, type, arena, ret_message,
                        detail);
}

/* What became of it: the message, or NULL, and the exchange is answered. */
static ProtobufCMessage *judge(struct ks_exchange *exchange, ks_err err, ProtobufCMessage *message,
                               const struct ks_detail *detail)
{
    if (ks_ok(err))
        return ks_subscription_choose(exchange, subscription_of(message)) ? message : NULL;
    ks_exchange_problem(exchange,
                        ks_err_is(err, KS_ERR_NO_MEMORY) ? KS_PROBLEM_EXHAUSTED
                                                         : KS_PROBLEM_INVALID_ARGUMENT,
                        "%s", detail->text);
    return NULL;
}

static void begin_arena(struct ks_arena *arena, size_t size)
{
    ks_arena_init(arena, ks_proto_room(size) + ROOM_PER_BYTE * size);
}

static ProtobufCMessage *decode_here(struct ks_exchange *exchange, struct ks_codec codec,
                                     ks_view body, const ProtobufCMessageDescriptor *type,
                                     struct ks_arena *arena)
{
    struct ks_detail detail = {.text = "out of memory"};
    ProtobufCMessage *message = NULL;
    ks_err err;

    begin_arena(arena, body.size);
    err = decode(codec, body, type, arena, &message, &detail);
    message = judge(exchange, err, message, &detail);
    if (message == NULL)
        ks_arena_free(arena);
    return message;
}

/* ---- On the thread ---- */

static void job_run(struct ks_job *job)
{
    struct ks_decoding *decoding = KS_LIST_ENTRY(job, struct ks_decoding, job);

    if (decoding->put_handler != NULL) {
        decoding->err =
            ks_put_body_read(ks_bytes_view(&decoding->body), &decoding->put, &decoding->detail);
        return;
    }
    decoding->err = decode(decoding->codec, ks_bytes_view(&decoding->body), decoding->type,
                           &decoding->arena, &decoding->message, &decoding->detail);
}

void ks_exchange_forget_decoding(struct ks_exchange *exchange)
{
    struct ks_decoding *decoding = exchange->decoding;

    if (decoding == NULL)
        return;
    exchange->decoding = NULL;
    decoding->exchange = NULL;
    ks_account_must_hold(exchange->account, KS_HELD_BODIES, &decoding->charged, 0);
}

static void handle(struct ks_exchange *exchange, struct ks_decoding *decoding)
{
    if (decoding->put_handler != NULL)
        decoding->put_handler(exchange, decoding->err, &decoding->put, &decoding->detail);
    else if (judge(exchange, decoding->err, decoding->message, &decoding->detail) != NULL)
        decoding->handler(exchange, decoding->message, &decoding->arena);
}

static void hand_over(struct ks_exchange *exchange, struct ks_decoding *decoding)
{
    /* It may have been answered meanwhile: its time was over, or what came behind it was too much. */
    bool open = !exchange->answered || exchange->answer.fill != NULL;

    ks_exchange_forget_decoding(exchange);
    if (exchange->rpc != NULL)
        ks_rpc_release(exchange);
    if (open)
        handle(exchange, decoding);
    if (exchange->rpc != NULL)
        ks_rpc_go_on(exchange);
    ks_exchange_wake(exchange);
}

static void job_done(struct ks_job *job)
{
    struct ks_decoding *decoding = KS_LIST_ENTRY(job, struct ks_decoding, job);

    if (decoding->exchange != NULL)
        hand_over(decoding->exchange, decoding);
    if (decoding->put_handler != NULL && ks_ok(decoding->err))
        ks_put_body_free(&decoding->put);
    ks_arena_free(&decoding->arena);
    ks_bytes_free(&decoding->body);
    ks_free(decoding);
}

/* As `what` says, which has no body yet; `body` is moved. */
static void decode_there(struct ks_exchange *exchange, struct ks_bytes *body,
                         const struct ks_decoding *what)
{
    struct ks_decoding *decoding = ks_alloc(sizeof(*decoding));

    assert(exchange->decoding == NULL);
    if (decoding == NULL) {
        ks_exchange_problem(exchange, KS_PROBLEM_EXHAUSTED, "out of memory");
        ks_bytes_free(body);
        return;
    }
    *decoding = *what;
    decoding->job = (struct ks_job){.run = job_run, .done = job_done};
    decoding->exchange = exchange;
    decoding->body = *body;
    decoding->detail = (struct ks_detail){.text = "out of memory"};
    ks_bytes_init(body, body->max);
    begin_arena(&decoding->arena, decoding->body.size);
    /* It was in memory before, and counted. */
    ks_account_must_hold(exchange->account, KS_HELD_BODIES, &decoding->charged,
                         decoding->body.capacity);
    exchange->decoding = decoding;
    ks_loop_submit_to(exchange->api->loop, exchange->api->decoder, &decoding->job);
}

bool ks_exchange_decode(struct ks_exchange *exchange, struct ks_codec codec, struct ks_bytes *body,
                        const ProtobufCMessageDescriptor *type, ks_message_handler *handler)
{
    const ProtobufCMessage *message;
    struct ks_arena arena;

    ks_account_work(exchange->account, KS_WORK_PARSING, body->size);
    if (body->size >
        (codec.kind == KS_CODEC_PROTO ? KS_DECODE_HERE_PROTO_BYTES : KS_DECODE_HERE_BYTES)) {
        decode_there(exchange, body,
                     &(struct ks_decoding){.codec = codec, .type = type, .handler = handler});
        return false;
    }
    message = decode_here(exchange, codec, ks_bytes_view(body), type, &arena);
    if (message == NULL)
        return true;
    handler(exchange, message, &arena);
    ks_arena_free(&arena);
    return true;
}

/* ---- Requests of REST ---- */

static struct ks_codec codec_of(const struct ks_request *request)
{
    return (struct ks_codec){
        .kind = ks_media_type_is_protobuf(request->content_type) ? KS_CODEC_PROTO : KS_CODEC_REST};
}

ProtobufCMessage *ks_exchange_read(struct ks_exchange *exchange,
                                   const ProtobufCMessageDescriptor *type, struct ks_arena *arena)
{
    const struct ks_request *request = &exchange->request;

    if (request->body.size > KS_DECODE_HERE_BYTES) {
        ks_exchange_problem(exchange, KS_PROBLEM_TOO_LARGE, "this body may have at most %d bytes",
                            KS_DECODE_HERE_BYTES);
        return NULL;
    }
    ks_account_work(exchange->account, KS_WORK_PARSING, request->body.size);
    return decode_here(exchange, codec_of(request), ks_bytes_view(&request->body), type, arena);
}

void ks_exchange_serve(struct ks_exchange *exchange, const ProtobufCMessageDescriptor *type,
                       ks_message_handler *handler)
{
    (void)ks_exchange_decode(exchange, codec_of(&exchange->request), &exchange->request.body, type,
                             handler);
}

void ks_exchange_put(struct ks_exchange *exchange, ks_put_handler *handler)
{
    struct ks_bytes *body = &exchange->request.body;
    struct ks_detail detail = {.text = "out of memory"};
    struct ks_put_body put;
    ks_err err;

    ks_account_work(exchange->account, KS_WORK_PARSING, body->size);
    if (body->size > KS_DECODE_HERE_BYTES) {
        decode_there(exchange, body, &(struct ks_decoding){.put_handler = handler});
        return;
    }
    err = ks_put_body_read(ks_bytes_view(body), &put, &detail);
    handler(exchange, err, &put, &detail);
    if (ks_ok(err))
        ks_put_body_free(&put);
}
