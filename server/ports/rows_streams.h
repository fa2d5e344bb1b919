/* SPDX-License-Identifier: Apache-2.0 */
/* rows_streams.h - of a lease table of several streams (ports/streams.h), which rows are ours, and what the others are
 * to the core: the part of rows.c that is about rows of other streams.
 *
 * For rows.c alone; ks_rows_stream and ks_rows_described are in rows.h. Loop thread only.
 */
#ifndef KS_PORTS_ROWS_STREAMS_H
#define KS_PORTS_ROWS_STREAMS_H

#include "ports/rows.h"

/* Decides what kind of table it is, by an answer with lease rows; `whole`: with all of them, read consistently. False
 * if what was read means nothing yet, or never. */
bool ks_rows_knows_layout(struct ks_rows *rows, bool whole, const struct ks_store_answer *answer);
/* True if the row is of our stream, and of a table of the kind that this one is. */
bool ks_rows_is_ours(const struct ks_rows *rows, const struct ks_store_lease *lease);
/* The row of another stream. It is counted by whose it is, and never touched. Its key names it; a row that stands in a
 * table of the other kind is damaged: whoever reads it otherwise than we would make another one of the same shard.
 * False if there is no number for it. */
bool ks_rows_other(struct ks_rows *rows, const struct ks_store_lease *lease, ks_instant now,
                   struct ks_lease_row *ret_row);

/* ---- Of rows.c, for its parts. ---- */

/* The number of a name, old or new, in `names` of `rows`. False, and told once, if there is no room. */
bool ks_rows_number(struct ks_rows *rows, struct ks_names *names, ks_view name, ks_instant now,
                    uint32_t *ret_number);
/* Takes the numbers back of all that is in nobody's mind any more. */
void ks_rows_sweep(struct ks_rows *rows, ks_instant now);

#endif
