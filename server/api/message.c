/* SPDX-License-Identifier: Apache-2.0 */
#include "api/message.h"

#include <assert.h>

#include "api/codec_json.h"
#include "api/codec_proto.h"

/* A request's message in memory: JSON is small beside what jansson made of it. */
enum { ROOM_PER_BYTE = 8 };

bool ks_media_type_is(ks_view header, const char *type)
{
    ks_view rest = header;

    return ks_view_equal_nocase(ks_view_trim(ks_view_cut(&rest, ';')), ks_view_text(type));
}

bool ks_media_type_is_protobuf(ks_view header)
{
    return ks_media_type_is(header, KS_TYPE_PROTOBUF) ||
           ks_media_type_is(header, "application/protobuf") ||
           ks_media_type_is(header, "application/proto");
}

bool ks_accepts_protobuf(const struct ks_request *request)
{
    ks_view rest = request->accept;

    while (rest.data != NULL)
        if (ks_media_type_is_protobuf(ks_view_cut(&rest, ',')))
            return true;
    return false;
}

ProtobufCMessage *ks_exchange_read(struct ks_exchange *exchange,
                                   const ProtobufCMessageDescriptor *type, struct ks_arena *arena)
{
    const struct ks_request *request = &exchange->request;
    ks_view body = ks_bytes_view(&request->body);
    struct ks_detail detail = {.text = "out of memory"};
    ProtobufCMessage *message = NULL;
    ks_err err;

    ks_arena_init(arena, ks_proto_room(body.size) + ROOM_PER_BYTE * body.size);
    if (ks_media_type_is_protobuf(request->content_type))
        err = ks_proto_read(body, type, arena, &message, &detail);
    else
        err = ks_rest_read(body.size == 0 ? KS_VIEW("{}") : body, type, arena, &message, &detail);
    if (ks_ok(err))
        return message;
    ks_arena_free(arena);
    ks_exchange_problem(exchange,
                        ks_err_is(err, KS_ERR_NO_MEMORY) ? KS_PROBLEM_EXHAUSTED
                                                         : KS_PROBLEM_INVALID_ARGUMENT,
                        "%s", detail.text);
    return NULL;
}

static ks_err write_json(const ProtobufCMessage *message, struct ks_bytes *body)
{
    struct ks_writer json;

    ks_writer_begin(&json, body);
    ks_writer_open(&json, '{');
    ks_rest_members(&json, message);
    ks_writer_close(&json, '}');
    ks_writer_line(&json);
    return ks_writer_end(&json);
}

void ks_exchange_message(struct ks_exchange *exchange, const ProtobufCMessage *message)
{
    const struct ks_request *request = &exchange->request;
    bool binary = ks_accepts_protobuf(request) ||
                  ((request->accept.size == 0 || ks_media_type_is(request->accept, "*/*")) &&
                   ks_media_type_is_protobuf(request->content_type));
    struct ks_bytes body;
    ks_err err;

    ks_bytes_init(&body, KS_ANSWER_BYTES_MAX);
    err = binary ? ks_proto_write(message, false, &body) : write_json(message, &body);
    if (ks_ok(err)) {
        ks_exchange_reply(exchange, 200, binary ? KS_TYPE_PROTOBUF : KS_TYPE_JSON, &body);
        return;
    }
    ks_bytes_free(&body);
    ks_exchange_problem(exchange, KS_PROBLEM_EXHAUSTED, "the answer: %s", ks_err_text(err));
}
