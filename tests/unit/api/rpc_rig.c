/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/api/rpc_rig.h"

#include "ks_test.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

const char *rpc_call(struct rig *rig, const char *method, const char *target, const char *headers,
                     const void *body, size_t size)
{
    char head[2000];
    int fd = rig_connect(rig, "api");
    int length = snprintf(head, sizeof(head),
                          "%s %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n%s"
                          "Content-Length: %zu\r\n\r\n",
                          method, target, headers, size);
    const char *answer;

    EXPECT(length > 0 && (size_t)length < sizeof(head));
    rig_send(rig, fd, head, (size_t)length);
    rig_send(rig, fd, body, size);
    answer = rig_read(rig, fd, NULL);
    (void)close(fd);
    return answer;
}

const char *rpc_json(struct rig *rig, const char *path, const char *json)
{
    return rpc_call(rig, "POST", path, "Content-Type: application/json\r\n", json, strlen(json));
}

/* Messages that were said and may not be on their way yet. */
static uint8_t said[64][4000];
static unsigned next_said;

void rpc_say(struct http2_client *client, struct http2_answer *answer,
             const ProtobufCMessage *message, bool end)
{
    uint8_t *bytes = said[next_said++ % 64];
    size_t size = protobuf_c_message_get_packed_size(message);

    EXPECT(size + 5 <= sizeof(said[0]));
    for (int i = 0; i < 5000 && answer->upload_size > 0; i++)
        http2_turn(client); /* What was said before goes first. */
    memset(bytes, 0, 5);
    bytes[3] = (uint8_t)(size >> 8);
    bytes[4] = (uint8_t)size;
    protobuf_c_message_pack(message, bytes + 5);
    http2_upload(client, answer, bytes, size + 5, end);
}

struct http2_answer *rpc_grpc(struct http2_client *client, const char *path,
                              const ProtobufCMessage *message, bool end)
{
    struct http2_answer *answer =
        http2_ask(client, "POST", path, "content-type: application/grpc", "", true);

    if (message != NULL)
        rpc_say(client, answer, message, end);
    return answer;
}

ProtobufCMessage *rpc_heard(struct http2_client *client, struct http2_answer *answer, size_t *at,
                            const ProtobufCMessageDescriptor *type)
{
    ProtobufCMessage *message;
    const uint8_t *head;
    size_t size;

    http2_wait_bytes(client, answer, *at + 5);
    head = answer->body + *at;
    EXPECT_EQ_U64(head[0], 0);
    size = (size_t)head[1] << 24 | (size_t)head[2] << 16 | (size_t)head[3] << 8 | head[4];
    http2_wait_bytes(client, answer, *at + 5 + size);
    message = protobuf_c_message_unpack(type, NULL, size, answer->body + *at + 5);
    EXPECT(message != NULL);
    *at += 5 + size;
    return message;
}
