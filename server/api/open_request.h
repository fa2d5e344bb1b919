/* SPDX-License-Identifier: Apache-2.0 */
/* open_request.h - how a session is asked for, by a query or by a message, and what it has that asks for nothing. */
#ifndef KS_API_OPEN_REQUEST_H
#define KS_API_OPEN_REQUEST_H

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

/* The same that a query asks for, as a message; what it does not name has its usual value. False: the exchange was
 * answered with a problem. */
bool ks_open_request_query(struct ks_exchange *exchange, ks_pb_open_request *request);

/* Reads share, salt and filter of a query into the message; the texts are in `arena`. False: the exchange was answered
 * with a problem. */
bool ks_open_request_query_texts(struct ks_exchange *exchange, struct ks_arena *arena,
                                 ks_pb_open_request *request);

/* Adds the parameters of a poll's query to `request`: ordering, lanes, share, salt and filter. The poll opens a session
 * with them if it has none yet. Without `ordering` the session has the ordering of the other sessions. The other
 * members of `request` are not changed. Texts in it live as long as the exchange. False: the exchange was answered
 * with a problem. */
bool ks_open_request_poll(struct ks_exchange *exchange, struct ks_session_request *request);

/* The most of max_in_flight_bytes. */
#define KS_IN_FLIGHT_BYTES_MAX (UINT64_C(1) << 40)

#endif
