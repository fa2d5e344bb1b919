/* SPDX-License-Identifier: Apache-2.0 */
/* fetch.h - reads one record of the stream again by its place: what a pointer to it needs.
 *
 * A fetch is one more reader of the board's source, or of the one beside it; its batch is charged to the board's byte
 * budget. Loop thread only.
 */
#ifndef KS_PORTS_FETCH_H
#define KS_PORTS_FETCH_H

#include "ports/switchboard.h"

struct ks_fetch;

/* OK: `record` is valid during the call. EXPIRED: it has left the stream. Else what stood in the way, with `detail`. */
typedef void ks_fetched(void *arg, ks_err err, const struct ks_record *record,
                        const struct ks_detail *detail);

/* Begins to look for the record (`sub_sequence` -1: of no aggregate) for KS_FETCH_MS at most. `fetched` is called once,
 * in a later turn; the fetch is over then. NO_MEMORY; BUSY: the stream was not reached yet. */
enum { KS_FETCH_MS = 15000 };
KS_MUST_USE ks_err ks_fetch_begin(struct ks_switchboard *board, ks_view shard_id, ks_view sequence,
                                  int64_t sub_sequence, ks_fetched *fetched, void *arg,
                                  struct ks_fetch **ret_fetch);
/* `fetched` is never called. NULL is allowed. */
void ks_fetch_cancel(struct ks_fetch *fetch);

#endif
