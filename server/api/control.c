/* SPDX-License-Identifier: Apache-2.0 */
#include "api/control.h"

#include <assert.h>

#include "api/codec_json.h"
#include "api/codec_proto.h"

KinesisSidecar__V1__IdleReason ks_control_idle(enum ks_idle idle)
{
    static const KinesisSidecar__V1__IdleReason reasons[KS_IDLES] = {
        [KS_IDLE_NO_DATA] = KINESIS_SIDECAR__V1__IDLE_REASON__IDLE_REASON_NO_DATA,
        [KS_IDLE_NO_LEASES] = KINESIS_SIDECAR__V1__IDLE_REASON__IDLE_REASON_NO_LEASES,
        [KS_IDLE_FLOW_CONTROLLED] = KINESIS_SIDECAR__V1__IDLE_REASON__IDLE_REASON_FLOW_CONTROLLED,
        [KS_IDLE_PAUSED] = KINESIS_SIDECAR__V1__IDLE_REASON__IDLE_REASON_PAUSED,
        [KS_IDLE_DRAINING] = KINESIS_SIDECAR__V1__IDLE_REASON__IDLE_REASON_DRAINING,
        [KS_IDLE_THROTTLED] = KINESIS_SIDECAR__V1__IDLE_REASON__IDLE_REASON_THROTTLED,
        [KS_IDLE_LANE_BLOCKED] = KINESIS_SIDECAR__V1__IDLE_REASON__IDLE_REASON_LANE_BLOCKED,
        [KS_IDLE_FENCED] = KINESIS_SIDECAR__V1__IDLE_REASON__IDLE_REASON_FENCED,
        [KS_IDLE_NO_SESSIONS] = KINESIS_SIDECAR__V1__IDLE_REASON__IDLE_REASON_NO_SESSIONS,
    };

    assert((int)idle < KS_IDLES);
    return reasons[idle];
}

bool ks_control_too_large(struct ks_switchboard *board, ks_session_id session, ks_shard shard,
                          struct ks_too_large *ret_said)
{
    KinesisSidecar__V1__RecordTooLarge *message = &ret_said->message;
    struct ks_session_status status;
    ks_epoch epoch;
    const struct ks_record *record = ks_switchboard_too_large(board, shard, &epoch);
    uint64_t bytes = record == NULL ? 0 : record->data.size + record->partition_key.size;

    if (record == NULL || !ks_switchboard_session(board, session, &status) ||
        bytes <= status.session.max_record_bytes)
        return false;
    kinesis_sidecar__v1__record_too_large__init(message);
    message->shard_id = ks_pb_text(ks_switchboard_shard_id(board, shard));
    message->epoch = epoch;
    message->bytes = bytes;
    message->max_message_bytes = status.session.max_record_bytes + KS_MESSAGE_EXTRA_BYTES;
    message->max_message_bytes_wanted = bytes + KS_MESSAGE_EXTRA_BYTES;
    message->sub_sequence_number = record->sub_sequence < 0 ? 0 : record->sub_sequence;
    /* Both are as long as they may be, at most. */
    if (ks_ok(ks_view_copy_text(record->sequence, ret_said->sequence, sizeof(ret_said->sequence))))
        message->sequence_number = ret_said->sequence;
    if (ks_view_is_utf8(record->partition_key) &&
        ks_ok(ks_view_copy_text(record->partition_key, ret_said->partition_key,
                                sizeof(ret_said->partition_key))))
        message->partition_key = ret_said->partition_key;
    return true;
}

/* The field of the oneof that is set, whose name is the line's type. */
static const ProtobufCFieldDescriptor *field_of(const ks_pb_event *event)
{
    const ProtobufCMessageDescriptor *type = event->base.descriptor;

    for (unsigned i = 0; i < type->n_fields; i++)
        if (type->fields[i].id == (uint32_t)event->event_case)
            return &type->fields[i];
    assert(false);
    return NULL;
}

bool ks_accepts_sse(const struct ks_request *request)
{
    ks_view rest = request->accept;

    while (rest.data != NULL)
        if (ks_media_type_is(ks_view_cut(&rest, ','), KS_TYPE_SSE))
            return true;
    return false;
}

ks_err ks_sse_begin(const char *type, struct ks_bytes *bytes)
{
    return ks_bytes_format(bytes, "event: %s\ndata: ", type);
}

ks_err ks_sse_end(struct ks_bytes *bytes)
{
    return ks_bytes_append_byte(bytes, '\n');
}

static ks_err write_line(const ks_pb_event *event, const char *type, struct ks_bytes *bytes)
{
    struct ks_writer json;

    ks_writer_begin(&json, bytes);
    ks_writer_open(&json, '{');
    ks_writer_key(&json, "type");
    ks_writer_string(&json, type);
    /* All members of the oneof are pointers to messages, at one place. */
    ks_rest_members(&json, &event->session->base);
    ks_writer_close(&json, '}');
    ks_writer_line(&json);
    return ks_writer_end(&json);
}

static ks_err write_event(const ks_pb_event *event, const char *type, struct ks_bytes *bytes)
{
    KS_TRY(ks_sse_begin(type, bytes));
    KS_TRY(write_line(event, type, bytes));
    return ks_sse_end(bytes);
}

ks_err ks_control_write(const ks_pb_event *event, enum ks_frame_format format,
                        struct ks_bytes *bytes)
{
    const char *type = field_of(event)->name;
    size_t before = bytes->size;
    ks_err err;

    if (format == KS_FRAME_PROTOBUF)
        return ks_proto_write(&event->base, true, bytes);
    err = format == KS_FRAME_SSE ? write_event(event, type, bytes) : write_line(event, type, bytes);
    if (!ks_ok(err))
        bytes->size = before; /* Half a line would spoil what follows. */
    return err;
}
