/* SPDX-License-Identifier: Apache-2.0 */
/* cursor.h - reads records of a shard beside the group: no lease, no checkpoint, nobody's turn.
 *
 * A cursor is one more reader of the board's source, or of the one beside it, whose batches are charged to the board's
 * byte budget. It knows nothing of the core, and nothing it does reaches the lease table. Loop thread only; closed before
 * the board stops.
 */
#ifndef KS_PORTS_CURSOR_H
#define KS_PORTS_CURSOR_H

#include "ports/switchboard.h"

struct ks_cursor;

/* Opens a shard that the board knows; nothing is read yet. NOT_FOUND, BUSY (the stream was not reached yet),
 * NO_MEMORY. */
KS_MUST_USE ks_err ks_cursor_open(struct ks_switchboard *board, ks_shard shard,
                                  const struct ks_position *from, struct ks_cursor **ret_cursor);
/* As `read` of ports/stream_source.h: one at a time, answered in a later turn; the batch of an answer is the caller's,
 * ks_batch_free. */
void ks_cursor_read(struct ks_cursor *cursor, uint32_t max_records, uint32_t max_bytes,
                    void (*answered)(void *arg, const struct ks_read_answer *answer), void *arg);
/* A read in flight is never answered. NULL is allowed. */
void ks_cursor_close(struct ks_cursor *cursor);

#endif
