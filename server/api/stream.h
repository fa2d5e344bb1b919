/* SPDX-License-Identifier: Apache-2.0 */
/* stream.h - GET /v1/records/stream and Watch: the open streams, for those who end sessions; how a session is
 * asked for.
 */
#ifndef KS_API_STREAM_H
#define KS_API_STREAM_H

#include "kinesis_sidecar/v1/service.pb-c.h"

#include "api/message.h"
#include "api/server.h"

typedef KinesisSidecar__V1__OpenRequest ks_pb_open_request;
typedef KinesisSidecar__V1__Ordering ks_pb_ordering;

/* What is asked for, with the usual values for what is absent; `ids` and the texts live as long as the message. False:
 * the exchange was answered with a problem. */
bool ks_open_request_read(struct ks_exchange *exchange, const ks_pb_open_request *message,
                          ks_view ids[KS_SESSION_SHARDS_MAX],
                          struct ks_session_request *ret_request, ks_span *ret_heartbeat);

/* The session was closed by request: its stream, if it has one, says so and ends. */
void ks_stream_session_closed(struct ks_subscription *subscription, ks_session_id session);

#endif
