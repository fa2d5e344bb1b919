/* SPDX-License-Identifier: Apache-2.0 */
/* replay.h - POST /v1/replays, GET /v1/replays/{id}/stream, DELETE /v1/replays/{id}: read-only cursors.
 *
 * A replay goes through its shards one after the other, parents before children, from one place to another. It holds
 * one batch at a time and reads the next one when its stream takes it, so that a slow reader costs no more than that
 * batch. It outlives its stream: the next one goes on behind the last record that was written. There are at most
 * KS_REPLAYS_MAX of them, and one that nobody streams for KS_REPLAY_IDLE_MS is over. No lease and no checkpoint is
 * touched.
 */
#ifndef KS_API_REPLAY_H
#define KS_API_REPLAY_H

struct ks_api;

/* The process is about to end: streams of replays come to their end. */
void ks_replays_finish(struct ks_api *api);
/* All of them are over; no exchange is under way any more. */
void ks_replays_free(struct ks_api *api);

#endif
