/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes what a call's body goes through: envelopes in parts of any size, gzip under its bound, the JSON of proto3 and
 * protobuf. What is read as JSON must be the same after it was written and read again.
 */
#include "api/codec_json.h"
#include "api/codec_proto.h"
#include "api/envelope.h"
#include "api/gzip.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MESSAGE_MAX = 1 << 16 };

static const struct ks_json_style proto3 = {KS_SPELLING_PROTO, NULL};

static void write_message(const ProtobufCMessage *message, struct ks_bytes *out)
{
    struct ks_writer json;

    ks_writer_begin(&json, out);
    ks_writer_open(&json, '{');
    ks_json_members(&json, proto3, message);
    ks_writer_close(&json, '}');
    assert(ks_ok(ks_writer_end(&json)));
}

static void read_json(ks_view body, const ProtobufCMessageDescriptor *type)
{
    struct ks_detail detail = {""};
    ProtobufCMessage *message;
    struct ks_bytes once;
    struct ks_bytes twice;
    struct ks_arena arena;

    ks_arena_init(&arena, 8 << 20);
    ks_bytes_init(&once, 4 << 20);
    ks_bytes_init(&twice, 4 << 20);
    if (ks_ok(ks_json_read(proto3, body, type, &arena, &message, &detail))) {
        write_message(message, &once);
        assert(ks_ok(ks_json_read(proto3, ks_bytes_view(&once), type, &arena, &message, &detail)));
        write_message(message, &twice);
        assert(ks_view_equal(ks_bytes_view(&once), ks_bytes_view(&twice)));
    }
    ks_bytes_free(&once);
    ks_bytes_free(&twice);
    ks_arena_free(&arena);
}

static void read_proto(ks_view body, const ProtobufCMessageDescriptor *type)
{
    struct ks_detail detail = {""};
    ProtobufCMessage *message;
    struct ks_bytes out;
    struct ks_arena arena;

    ks_arena_init(&arena, ks_proto_room(body.size));
    ks_bytes_init(&out, 4 << 20);
    if (ks_ok(ks_proto_read(body, type, &arena, &message, &detail)))
        write_message(message, &out);
    ks_bytes_free(&out);
    ks_arena_free(&arena);
}

static void read_message(ks_view body)
{
    static const ProtobufCMessageDescriptor *const types[] = {
        &kinesis_sidecar__v1__settle_request__descriptor,
        &kinesis_sidecar__v1__stream_event__descriptor,
        &kinesis_sidecar__v1__pull_request__descriptor,
    };

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        read_json(body, types[i]);
        read_proto(body, types[i]);
    }
}

static void unpack(ks_view body)
{
    struct ks_bytes out;

    ks_bytes_init(&out, MESSAGE_MAX);
    if (ks_ok(ks_gzip_unpack(body, &out)))
        read_message(ks_bytes_view(&out));
    assert(out.size <= MESSAGE_MAX && out.capacity <= MESSAGE_MAX);
    ks_bytes_free(&out);
}

/* The first byte says how large the parts are. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ks_envelope_meter meter = {.head_size = 0};
    struct ks_envelopes envelopes;
    size_t step = size == 0 ? 1 : (size_t)data[0] + 1;
    bool good = true;

    ks_envelopes_init(&envelopes, MESSAGE_MAX);
    for (size_t at = 1; at < size && good; at += step) {
        ks_view part = ks_view_of(data + at, size - at < step ? size - at : step);
        ks_view whole_part = part;
        uint8_t flags = 0;
        bool whole;

        while (part.size > 0 && good) {
            good = ks_ok(ks_envelopes_take(&envelopes, &part, &flags, &whole));
            if (!good || !whole)
                continue;
            if ((flags & KS_ENVELOPE_COMPRESSED) != 0)
                unpack(ks_bytes_view(&envelopes.message));
            else
                read_message(ks_bytes_view(&envelopes.message));
        }
        ks_envelope_meter_pass(&meter, whole_part);
        assert(!good || ks_envelope_meter_between(&meter) == ks_envelopes_between(&envelopes));
    }
    ks_envelopes_free(&envelopes);
    return 0;
}
