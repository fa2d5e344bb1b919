/* SPDX-License-Identifier: Apache-2.0 */
/* stream.h - GET /v1/records/stream and Watch: the open streams, for those who end sessions. */
#ifndef KS_API_STREAM_H
#define KS_API_STREAM_H

#include "api/server.h"

/* The session was closed by request: its stream, if it has one, says so and ends. */
void ks_stream_session_closed(struct ks_subscription *subscription, ks_session_id session);
/* A settle request with a barrier was processed: the session's stream, if it has one, repeats the text. Every record
 * that follows it on the stream was assigned after the request. Does nothing if the epoch of the session has ended. */
void ks_stream_barrier(struct ks_subscription *subscription, ks_session_id session,
                       uint32_t session_epoch, const char *barrier);

#endif
