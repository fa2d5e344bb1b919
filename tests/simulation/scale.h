/* SPDX-License-Identifier: Apache-2.0 */
/* scale.h - fleets as large as the product promises: the real cores, a plain table, no faults and no records.
 *
 * Tells how long it takes until everything is assigned, after a tenth is lost, after everybody is replaced; how many
 * leases moved beside the fewest possible; what the table is asked for, what that costs in a month, and what the same
 * fleet costs with KCL; and what a step of the core takes.
 */
#ifndef KS_SIM_SCALE_H
#define KS_SIM_SCALE_H

#include <stdbool.h>
#include <stdint.h>

/* One fleet through start, rest, loss and deploy. False if it did not come to rest. */
bool scale_run(uint32_t workers, uint32_t shards);
/* Fleets at rest: the costs in a table. */
bool scale_costs(void);

#endif
