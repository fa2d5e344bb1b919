/* SPDX-License-Identifier: Apache-2.0 */
/* rows_mixed.h - what the rows of a table that others share tell of how these are configured: the facts that mixed.h
 * judges, and its warnings. */
#ifndef KS_PORTS_ROWS_MIXED_H
#define KS_PORTS_ROWS_MIXED_H

#include "ports/rows.h"

/* A lease row was read that is not damaged, by a look that was asked for at `wall` and answered `now`, after
 * `rows->mixed.took`; `words` are still those of before, but for when the rev was seen. */
void ks_rows_mixed_lease(struct ks_rows *rows, ks_shard shard, struct ks_shard_words *words,
                         const struct ks_store_lease *lease, ks_instant now, ks_wall wall);
/* The rows of workers were read, likewise. */
void ks_rows_mixed_workers(struct ks_rows *rows, const struct ks_store_answer *answer,
                           ks_instant now, ks_wall wall);

#endif
