/* SPDX-License-Identifier: Apache-2.0 */
/* stream.h - GET /v1/records/stream and Watch: the open streams, for those who end sessions. */
#ifndef KS_API_STREAM_H
#define KS_API_STREAM_H

#include "api/server.h"

/* The session was closed by request: its stream, if it has one, says so and ends. */
void ks_stream_session_closed(struct ks_subscription *subscription, ks_session_id session);

#endif
