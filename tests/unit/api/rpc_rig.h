/* SPDX-License-Identifier: Apache-2.0 */
/* rpc_rig.h - calls, for tests: Connect on HTTP/1.1, gRPC on HTTP/2. */
#ifndef KS_TEST_RPC_RIG_H
#define KS_TEST_RPC_RIG_H

#include "unit/api/http2_rig.h"

#include <protobuf-c/protobuf-c.h>

/* One request on a connection of its own; `headers` are whole lines. The whole answer; its body may hold NULs. */
const char *rpc_call(struct rig *rig, const char *method, const char *target, const char *headers,
                     const void *body, size_t size);
/* The same with JSON. */
const char *rpc_json(struct rig *rig, const char *path, const char *json);
/* Begins a gRPC call with one message (NULL: none yet); `end`: that is all. */
struct http2_answer *rpc_grpc(struct http2_client *client, const char *path,
                              const ProtobufCMessage *message, bool end);
/* Says one more. */
void rpc_say(struct http2_client *client, struct http2_answer *answer,
             const ProtobufCMessage *message, bool end);
/* The first message of the answer's body from `at`, which is moved behind it. Freed by the caller, by protobuf-c. */
ProtobufCMessage *rpc_heard(struct http2_client *client, struct http2_answer *answer, size_t *at,
                            const ProtobufCMessageDescriptor *type);

#endif
