/* SPDX-License-Identifier: Apache-2.0 */
/* events.h - GET /v1/events: what the board keeps of its story, and everything that comes, to any number of viewers.
 *
 * NDJSON by default, server-sent events (HTML Living Standard, 9.2) if the request accepts text/event-stream. A viewer
 * costs no memory for what it has not read: it has a number in the board's ring, and if it falls behind by more than
 * the ring holds, a line `missed` says how many it will never see.
 */
#ifndef KS_API_EVENTS_H
#define KS_API_EVENTS_H

struct ks_api;

/* Ends all of them, once they have what there is. */
void ks_events_finish(struct ks_api *api);

#endif
