/* SPDX-License-Identifier: Apache-2.0 */
/* rows_streams.h - the rows of a table of several streams: which are ours, and what the core is told of the others. The
 * part of rows.c that is about tables of the KCL. For rows.c alone. Loop thread only.
 */
#ifndef KS_PORTS_ROWS_STREAMS_H
#define KS_PORTS_ROWS_STREAMS_H

#include "ports/rows.h"

/* False if what was read means nothing yet, or never. `whole`: all rows, consistently. */
bool ks_rows_layout(struct ks_rows *rows, bool whole, const struct ks_store_answer *answer);
bool ks_rows_is_ours(const struct ks_rows *rows, const struct ks_store_lease *lease);
/* It is counted by whose it is, and never touched. Its key names it; a row that stands in a table of the other kind is
 * damaged: whoever reads it otherwise than we would make another one of the same shard.
 * False if there is no number for it. */
bool ks_rows_other(struct ks_rows *rows, const struct ks_store_lease *lease, ks_instant now,
                   struct ks_lease_row *ret_row);

/* Of rows.c: a number for the key of a row that has no words. False: the table is full. */
bool ks_rows_number(struct ks_rows *rows, ks_view key, ks_instant now, ks_shard *ret_shard);

#endif
