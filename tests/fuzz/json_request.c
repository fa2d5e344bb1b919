/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes the readers of JSON bodies: messages by their descriptors (what is read can be written), and PutRecords. */
#include "api/codec_json.h"
#include "api/codec_proto.h"
#include "api/put_body.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_as(const ProtobufCMessageDescriptor *type, ks_view body)
{
    struct ks_detail detail = {""};
    ProtobufCMessage *message;
    struct ks_arena arena;
    struct ks_writer json;
    struct ks_bytes out;

    ks_arena_init(&arena, 1 << 20);
    ks_bytes_init(&out, 1 << 20);
    if (ks_ok(ks_rest_read(body, type, &arena, &message, &detail))) {
        ks_writer_begin(&json, &out);
        ks_writer_open(&json, '{');
        ks_rest_members(&json, message);
        ks_writer_close(&json, '}');
        (void)ks_writer_end(&json).code;
    }
    ks_bytes_free(&out);
    ks_arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ks_view body = ks_view_of(data, size);
    struct ks_detail detail = {""};
    struct ks_put_body put;

    read_as(&kinesis_sidecar__v1__settle_request__descriptor, body);
    read_as(&kinesis_sidecar__v1__quick_settle_request__descriptor, body);
    read_as(&kinesis_sidecar__v1__checkpoint_request__descriptor, body);
    if (ks_ok(ks_put_body_read(body, &put, &detail))) {
        assert(put.count > 0 && put.count <= KS_PUT_ENTRIES_MAX);
        for (uint32_t i = 0; i < put.count; i++)
            assert(ks_view_is_utf8(put.entries[i].partition_key));
        (void)ks_put_body_is_for(&put, "stream");
        ks_put_body_free(&put);
    }
    return 0;
}
