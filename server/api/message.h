/* SPDX-License-Identifier: Apache-2.0 */
/* message.h - the messages of proto/kinesis_sidecar/v1, and how they come in and go out of an
 * exchange.
 *
 * A handler reads one message and answers with another; JSON or protobuf is decided here, by the
 * request's headers. For calls of methods: api/rpc.h.
 */
#ifndef KS_API_MESSAGE_H
#define KS_API_MESSAGE_H

#include "kinesis_sidecar/v1/letters.pb-c.h"
#include "kinesis_sidecar/v1/problem.pb-c.h"
#include "kinesis_sidecar/v1/record.pb-c.h"
#include "kinesis_sidecar/v1/settle.pb-c.h"
#include "kinesis_sidecar/v1/state.pb-c.h"

#include "api/arena.h"
#include "api/exchange.h"
#include "api/put_body.h"

/* The media types that mean protobuf; the first one is what we write. */
#define KS_TYPE_PROTOBUF "application/x-protobuf"
#define KS_TYPE_NDJSON "application/x-ndjson"
#define KS_TYPE_JSON "application/json"

typedef KinesisSidecar__V1__Record ks_pb_record;
typedef KinesisSidecar__V1__SettleRequest ks_pb_settle_request;
typedef KinesisSidecar__V1__QuickSettleRequest ks_pb_quick_request;
typedef KinesisSidecar__V1__SettleResponse ks_pb_settle_response;
typedef KinesisSidecar__V1__SettleFailure ks_pb_settle_failure;
typedef KinesisSidecar__V1__Settlement ks_pb_settlement;
typedef KinesisSidecar__V1__ShardPosition ks_pb_position;
typedef KinesisSidecar__V1__CheckpointRequest ks_pb_checkpoint_request;
typedef KinesisSidecar__V1__CheckpointResponse ks_pb_checkpoint_response;
typedef KinesisSidecar__V1__Status ks_pb_status;
typedef KinesisSidecar__V1__SubscriptionStatus ks_pb_subscription;
typedef KinesisSidecar__V1__Shard ks_pb_shard;
typedef KinesisSidecar__V1__Lease ks_pb_lease;
typedef KinesisSidecar__V1__Worker ks_pb_worker;
typedef KinesisSidecar__V1__Session ks_pb_session;
typedef KinesisSidecar__V1__StreamEvent ks_pb_event;
typedef KinesisSidecar__V1__DrainProgress ks_pb_progress;
typedef KinesisSidecar__V1__Event ks_pb_board_event;

/* A text for a message that is written and not changed: the fields of generated messages are not
 * const. */
static inline char *ks_pb_text(const char *text)
{
    return (char *)(uintptr_t)text;
}

/* Compares a media type, without its parameters. */
bool ks_media_type_is(ks_view header, const char *type);
/* True for any of the names of protobuf. */
bool ks_media_type_is_protobuf(ks_view header);
/* True if the Accept header names one of the types of protobuf, with no less weight than JSON. */
bool ks_accepts_protobuf(const struct ks_request *request);

/* How a message is written in bytes. */
enum ks_codec_kind { KS_CODEC_REST, KS_CODEC_JSON, KS_CODEC_PROTO };
struct ks_json_types;
struct ks_codec {
    enum ks_codec_kind kind;
    const struct ks_json_types *types; /* That may stand in an Any; NULL: none. */
};

/* Reads the body, which may have KS_DECODE_HERE_BYTES, as a message of `type`, into `arena`, whose cap is set here. On
 * failure the exchange is answered (400, 404, 413, 429) and NULL is returned. An empty body is an empty message. What
 * it says about the subscription is taken as the exchange's. */
ProtobufCMessage *ks_exchange_read(struct ks_exchange *exchange,
                                   const ProtobufCMessageDescriptor *type, struct ks_arena *arena);
/* Handles one message. `arena` holds it, or is NULL: the handler moves it, or leaves it to the caller, who frees it. */
typedef void ks_message_handler(struct ks_exchange *exchange, const ProtobufCMessage *message,
                                struct ks_arena *arena);
/* A member as a number within limits; 0, which is its absence, is `absent`. On a bad value the exchange is
 * answered (400 that names the member and the limits) and false is returned. A negative number is passed as it is
 * in 64 bits. */
bool ks_message_number(struct ks_exchange *exchange, const char *name, uint64_t value, uint64_t min,
                       uint64_t max, uint64_t absent, uint64_t *ret_value);
/* Reads `body`, which is moved, as a message of `type`, and has it handled: in this call if it is short, or in a later
 * turn, for a megabyte of JSON takes tens of milliseconds, which another thread spends. Then the exchange is woken by
 * itself. On failure it is answered instead. Returns false if it is for later. */
bool ks_exchange_decode(struct ks_exchange *exchange, struct ks_codec codec, struct ks_bytes *body,
                        const ProtobufCMessageDescriptor *type, ks_message_handler *handler);
/* The client has left: what is being read for it is forgotten. */
void ks_exchange_forget_decoding(struct ks_exchange *exchange);
/* Reads the body and has it handled, as ks_exchange_decode does. */
void ks_exchange_serve(struct ks_exchange *exchange, const ProtobufCMessageDescriptor *type,
                       ks_message_handler *handler);
/* Handles the records of a put; `body` is good during the call, if `err` is KS_OK. Else it says why there are none, and
 * `detail` what is wrong with which. */
typedef void ks_put_handler(struct ks_exchange *exchange, ks_err err,
                            const struct ks_put_body *body, const struct ks_detail *detail);
/* Reads the body as PutRecords (put_body.h), and has it handled, now or in a later turn. */
void ks_exchange_put(struct ks_exchange *exchange, ks_put_handler *handler);
/* Answers with a message. REST: 200, protobuf if the client accepts it or, without an Accept header,
 * sent it; else JSON. A call: as its protocol wants. */
void ks_exchange_message(struct ks_exchange *exchange, const ProtobufCMessage *message);

#endif
