/* SPDX-License-Identifier: Apache-2.0 */
/* leases_rig.h - native lease tables in files of the test's folder, and `leases` with them. */
#ifndef KS_TEST_LEASES_RIG_H
#define KS_TEST_LEASES_RIG_H

#include "main/lease_table.h"

enum { RIG_OUTPUT_MAX = 64 << 10 };
extern char rig_output[RIG_OUTPUT_MAX];

/* "native:sqlite:FOLDER/NAME.db". */
const char *rig_table(const char *name);
/* Opens it on a desk of its own: made, and with three rows: shardId-0 of worker-a behind 4959, shardId-1 at its end,
 * shardId-2 free, at TRIM_HORIZON. */
void rig_fill(const char *name);
/* Beside these, the row of a worker that lives: worker-a, whose lease shardId-0 is. */
void rig_register(const char *name);
/* The exit code of `leases` with these words, of the application and a lease of 300 ms; its stdout is in rig_output. */
int rig_leases(const char *const *words);
/* The row of a shard of the table, which must be there. */
struct ks_store_lease rig_row(const char *name, const char *shard);

#endif
