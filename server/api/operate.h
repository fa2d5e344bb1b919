/* SPDX-License-Identifier: Apache-2.0 */
/* operate.h - what an operator orders: POST /v1/pause, resume, seek, leases/{shard}/release; PUT /v1/loglevel.
 *
 * Each operation is a function from a request message to an answer message, for every door. False: the exchange was
 * answered with a problem. Texts of the answer are the request's or the board's. The exchange has its subscription.
 */
#ifndef KS_API_OPERATE_H
#define KS_API_OPERATE_H

#include "api/message.h"
#include "kinesis_sidecar/v1/operate.pb-c.h"

typedef KinesisSidecar__V1__PauseRequest ks_pb_pause_request;
typedef KinesisSidecar__V1__PauseResponse ks_pb_pause_response;
typedef KinesisSidecar__V1__ResumeRequest ks_pb_resume_request;
typedef KinesisSidecar__V1__ResumeResponse ks_pb_resume_response;
typedef KinesisSidecar__V1__ReleaseLeaseRequest ks_pb_release_request;
typedef KinesisSidecar__V1__ReleaseLeaseResponse ks_pb_release_response;
typedef KinesisSidecar__V1__SeekRequest ks_pb_seek_request;
typedef KinesisSidecar__V1__SeekResponse ks_pb_seek_response;
typedef KinesisSidecar__V1__SoughtShard ks_pb_sought;
typedef KinesisSidecar__V1__Place ks_pb_place;
typedef KinesisSidecar__V1__LogLevelRequest ks_pb_level_request;
typedef KinesisSidecar__V1__LogLevelResponse ks_pb_level_response;

/* 400 `until` in the past, 404 a shard. */
bool ks_pause(struct ks_exchange *exchange, const ks_pb_pause_request *request,
              ks_pb_pause_response *ret_response);
bool ks_resume(struct ks_exchange *exchange, const ks_pb_resume_request *request,
               ks_pb_resume_response *ret_response);
/* 404 the shard, 409 not held or being given away already. */
bool ks_release_lease(struct ks_exchange *exchange, const ks_pb_release_request *request,
                      ks_pb_release_response *ret_response);
/* Answers the exchange itself, now or later: 400 a place, or not paused; 404 a shard; 409 not held. All shards are
 * checked before the first one is moved. The arena is moved if that takes longer. */
void ks_seek(struct ks_exchange *exchange, const ks_pb_seek_request *request,
             struct ks_arena *arena);
bool ks_set_log_level(struct ks_exchange *exchange, const ks_pb_level_request *request,
                      ks_pb_level_response *ret_response);

#endif
