/* SPDX-License-Identifier: Apache-2.0 */
/* costs.h - what a lease table costs in a month: simulated fleets at rest, beside KCL's by its own defaults.
 *
 * KCL's reads and writes are reckoned, not simulated: renewals, scans and index queries of versions 2 and 3.
 */
#ifndef KS_SIM_COSTS_H
#define KS_SIM_COSTS_H

#include <stdbool.h>

/* Prints the table. False if a fleet did not come to rest. */
bool costs_tell(void);

#endif
