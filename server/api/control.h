/* SPDX-License-Identifier: Apache-2.0 */
/* control.h - the lines of a stream that are not records: session, heartbeat, draining, and so on.
 */
#ifndef KS_API_CONTROL_H
#define KS_API_CONTROL_H

#include "api/message.h"
#include "core/types.h"

/* Appends one event: an NDJSON line {"type":..} or a delimited StreamEvent. FULL, NO_MEMORY. */
KS_MUST_USE ks_err ks_control_write(const ks_pb_event *event, bool protobuf,
                                    struct ks_bytes *bytes);

KinesisSidecar__V1__IdleReason ks_control_idle(enum ks_idle idle);

#endif
