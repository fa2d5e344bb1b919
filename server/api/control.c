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
    };

    assert((int)idle < KS_IDLES);
    return reasons[idle];
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

ks_err ks_control_write(const ks_pb_event *event, bool protobuf, struct ks_bytes *bytes)
{
    const ProtobufCFieldDescriptor *field = field_of(event);
    size_t before = bytes->size;
    struct ks_writer json;
    ks_err err;

    if (protobuf)
        return ks_proto_write(&event->base, true, bytes);
    ks_writer_begin(&json, bytes);
    ks_writer_open(&json, '{');
    ks_writer_key(&json, "type");
    ks_writer_string(&json, field->name);
    /* All members of the oneof are pointers to messages, at one place. */
    ks_rest_members(&json, &event->session->base);
    ks_writer_close(&json, '}');
    ks_writer_line(&json);
    err = ks_writer_end(&json);
    if (!ks_ok(err))
        bytes->size = before; /* Half a line would spoil what follows. */
    return err;
}
