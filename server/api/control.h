/* SPDX-License-Identifier: Apache-2.0 */
/* control.h - the lines of a stream that are not records: session, heartbeat, draining, and so on; and
 * what makes a line a server-sent event.
 */
#ifndef KS_API_CONTROL_H
#define KS_API_CONTROL_H

#include "api/frame.h"
#include "api/message.h"
#include "ports/switchboard.h"

/* Appends one event: in NDJSON a line {"type":..}, in SSE that line as a server-sent event, in PROTOBUF a delimited
 * StreamEvent. FULL, NO_MEMORY. */
KS_MUST_USE ks_err ks_control_write(const ks_pb_event *event, enum ks_frame_format format,
                                    struct ks_bytes *bytes);

#define KS_TYPE_SSE "text/event-stream"
bool ks_accepts_sse(const struct ks_request *request);
/* What stands before the line of a server-sent event; behind it one more line feed ends it. */
KS_MUST_USE ks_err ks_sse_begin(const char *type, struct ks_bytes *bytes);
KS_MUST_USE ks_err ks_sse_end(struct ks_bytes *bytes);

/* What is said of a record that is too large; its texts are in it. */
struct ks_too_large {
    KinesisSidecar__V1__RecordTooLarge message;
    char sequence[KS_SEQUENCE_MAX + 1];
    char partition_key[KS_PARTITION_KEY_MAX + 1];
};
/* The record of the shard that is larger than this session takes. False: there is none. */
bool ks_control_too_large(struct ks_switchboard *board, ks_session_id session, ks_shard shard,
                          struct ks_too_large *ret_said);

KinesisSidecar__V1__IdleReason ks_control_idle(enum ks_idle idle);

#endif
