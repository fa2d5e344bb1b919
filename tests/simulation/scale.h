/* SPDX-License-Identifier: Apache-2.0 */
/* scale.h - fleets as large as the product promises: the real cores, a plain table, no faults and no records.
 *
 * Tells how long it takes until everything is assigned, after a tenth is lost, after everybody is replaced; how many
 * leases moved beside the fewest possible; what the table is asked for; and what a step of the core takes.
 */
#ifndef KS_SIM_SCALE_H
#define KS_SIM_SCALE_H

#include <stdbool.h>
#include <stdint.h>

/* One fleet through start, rest, loss and deploy. False if it did not come to rest. */
bool scale_run(uint32_t workers, uint32_t shards);
/* A fleet at rest: units of DynamoDB's writes and reads a second. False if it did not come to rest. */
bool scale_at_rest(uint32_t workers, uint32_t shards, double *ret_writes, double *ret_reads);

#endif
