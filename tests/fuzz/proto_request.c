/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes the reader of protobuf bodies: within its cap, and what is read can be written as JSON and as protobuf. */
#include "api/codec_json.h"
#include "api/codec_proto.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_as(const ProtobufCMessageDescriptor *type, ks_view body)
{
    struct ks_detail detail = {""};
    ProtobufCMessage *message;
    struct ks_arena arena;
    struct ks_writer json;
    struct ks_bytes out;

    ks_arena_init(&arena, ks_proto_room(body.size));
    ks_bytes_init(&out, 4 << 20);
    if (ks_ok(ks_proto_read(body, type, &arena, &message, &detail))) {
        ks_writer_begin(&json, &out);
        ks_writer_open(&json, '{');
        ks_rest_members(&json, message);
        ks_writer_close(&json, '}');
        (void)ks_writer_end(&json).code;
        (void)ks_proto_write(message, true, &out).code;
    }
    assert(arena.used <= arena.max);
    ks_bytes_free(&out);
    ks_arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ks_view body = ks_view_of(data, size);

    read_as(&kinesis_sidecar__v1__settle_request__descriptor, body);
    read_as(&kinesis_sidecar__v1__quick_settle_request__descriptor, body);
    read_as(&kinesis_sidecar__v1__checkpoint_request__descriptor, body);
    return 0;
}
