/* SPDX-License-Identifier: Apache-2.0 */
/* oracle_write.h - how far records were written to their connections, and what their apps have read. */
#ifndef KS_SIM_ORACLE_WRITE_H
#define KS_SIM_ORACLE_WRITE_H

#include "oracle_flight.h"
#include "world_wire.h"

/* A KS_EVENT_WRITE. */
void oracle_wrote(const struct world *world, struct process *process, const struct ks_event *event,
                  ks_instant now);
/* An app has read the record of the run, which was written. */
void oracle_app_read(struct world *world, struct process *process, const struct sim_run *run,
                     uint64_t number);
/* After a step: what the core took back of what was not written. */
void oracle_write_sync(const struct world *world, struct process *process);

#endif
