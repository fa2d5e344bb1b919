/* SPDX-License-Identifier: Apache-2.0 */
/* oracle_skip.h - what the oracle knows of records that an operator skips. */
#ifndef KS_SIM_ORACLE_SKIP_H
#define KS_SIM_ORACLE_SKIP_H

#include "oracle.h"

/* A KEEP makes the record one that is given up; one that is lost is settled by its story. Fails if it was settled. */
void oracle_skipped(struct world *world, struct process *process, const struct ks_event *event,
                    const struct ks_effects *effects);

#endif
