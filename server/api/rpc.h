/* SPDX-License-Identifier: Apache-2.0 */
/* rpc.h - calls of methods, by gRPC and by Connect, over the exchange.
 *
 * A method is a name, two message types and a handler of messages; who calls it, how, and in which codec, is decided
 * here. Its handler answers as any handler does: ks_exchange_message(), ks_exchange_problem(), or ks_exchange_stream()
 * with a producer that writes enveloped messages. REST routes call the same handlers.
 *
 * Protocols: Connect (connectrpc.com/docs/protocol): unary by POST and, without side effects, by GET; streams. gRPC
 * (github.com/grpc/grpc, PROTOCOL-HTTP2.md) on HTTP/2. Codecs: protobuf and the JSON of proto3. Compression: gzip.
 * Answers of streams are not compressed.
 */
#ifndef KS_API_RPC_H
#define KS_API_RPC_H

#include "api/code.h"
#include "api/codec_json.h"
#include "api/exchange.h"
#include "api/message.h"

enum ks_rpc_kind { KS_RPC_UNARY, KS_RPC_SERVER_STREAM, KS_RPC_CLIENT_STREAM, KS_RPC_BIDI };

struct ks_rpc_method {
    const char *path; /* "/package.Service/Method" */
    enum ks_rpc_kind kind;
    bool safe;  /* No side effects: GET may call it. */
    bool ops;   /* Served by the ops port, too. */
    bool order; /* It takes the operator's token. */
    bool one;   /* It is about one subscription, which must be named if there are several. */
    const ProtobufCMessageDescriptor *request;
    const ProtobufCMessageDescriptor *response;
    /* The one message of UNARY and SERVER_STREAM. For the others: the call begins, `message` and `arena` are NULL. */
    ks_message_handler *handle;
    /* CLIENT_STREAM and BIDI: each message, then NULL when the client has said all. Until the exchange was answered
     * with a message or a problem. */
    ks_message_handler *next;
};

/* What an API serves. */
struct ks_rpc_service {
    const struct ks_rpc_method *methods;
    size_t count;
    const struct ks_json_types *types; /* That may stand in an Any; NULL: none. */
    bool problems;    /* What fails here carries a Problem of ours as its detail. */
    bool all_headers; /* Its handlers look at any header of a request. */
};

/* True if a method of `name`, "package.Service", is among them. */
bool ks_rpc_has_service(const struct ks_rpc_service *service, const char *name);

struct ks_rpc_call;

/* A message that says more about a failure, packed. */
struct ks_rpc_detail {
    const char *type; /* "package.Message" */
    ks_view packed;
};

/* Why a call failed. */
struct ks_rpc_status {
    enum ks_code code;
    const char *text;
    const struct ks_rpc_detail *details;
    size_t detail_count;
};

/* For struct ks_api's find_more: the route of a call, or NULL; then it may have answered. */
const struct ks_route *ks_rpc_find(struct ks_exchange *exchange);
/* True if the request's path is of the form of a call, /<package.Service>/<Method>. */
bool ks_rpc_is_call(const struct ks_exchange *exchange);
/* True if its media type is that of a protocol, known or nearly: then problems are told as the protocol wants. */
bool ks_rpc_has_protocol(const struct ks_exchange *exchange);
/* Forgets the call; after the exchange's `closed`. */
void ks_rpc_end(struct ks_exchange *exchange);

/* ---- Answers; for exchange.c and message.c, which call them when the request is a call ---- */

void ks_rpc_message(struct ks_exchange *exchange, const ProtobufCMessage *message);
void ks_rpc_problem(struct ks_exchange *exchange, enum ks_problem problem, const char *text);
/* The same with a message that is written already: begun by the first, in the call's codec, and moved by the second. */
KS_MUST_USE ks_err ks_rpc_begin_message(struct ks_bytes *bytes);
void ks_rpc_written_message(struct ks_exchange *exchange, struct ks_bytes *bytes);
/* The producer that writes what `producer` has, and then the end of the call. */
ks_producer *ks_rpc_stream(struct ks_exchange *exchange, ks_producer *producer,
                           const char **ret_content_type);

/* ---- For handlers that know that they are called by RPC ---- */

/* Appends one message of a stream, in its envelope. FULL, NO_MEMORY; INVALID: an Any of an unknown type. Then `bytes`
 * is as before. */
KS_MUST_USE ks_err ks_rpc_append(struct ks_exchange *exchange, const ProtobufCMessage *message,
                                 struct ks_bytes *bytes);
/* The handler is not ready for the next message of a stream of them: what comes is kept, as much as the transport hands
 * over. Nothing where no other message is to come. */
void ks_rpc_hold(struct ks_exchange *exchange);
/* It is ready again: called before the message is handled for which it was not; .. */
void ks_rpc_release(struct ks_exchange *exchange);
/* .. and after it: what was kept is taken, if the handler did not say hold once more. */
void ks_rpc_go_on(struct ks_exchange *exchange);
/* A streamed answer of few messages: begins it; adds one, which goes out when there is room (FULL: the client reads too
 * slowly for KS_RPC_SENT_BYTES_MAX; NO_MEMORY); ends it well. */
void ks_rpc_open(struct ks_exchange *exchange);
KS_MUST_USE ks_err ks_rpc_send(struct ks_exchange *exchange, const ProtobufCMessage *message);
void ks_rpc_close(struct ks_exchange *exchange);
/* Fails the call, before its answer or in the middle of a stream. The handler's state is closed then, after
 * the status was read; a message that is half-way cuts the answer. (A problem does the same in a stream; before
 * the answer it leaves the handler's state alone.) */
void ks_rpc_fail(struct ks_exchange *exchange, const struct ks_rpc_status *status);
/* A line behind the answer, wherever the protocol has its place for it. Before the end. */
void ks_rpc_trailer(struct ks_exchange *exchange, ks_view name, ks_view value);
/* True if messages of the stream are JSON. */
bool ks_rpc_is_json(const struct ks_exchange *exchange);
/* What the client gave it, in ms; -1: no limit. */
int64_t ks_rpc_timeout_ms(const struct ks_exchange *exchange);

#endif
