/* SPDX-License-Identifier: Apache-2.0 */
/* faults.h - plays the swarm: kills, pauses, cuts, reshards; and ends it. */
#ifndef KS_SIM_FAULTS_H
#define KS_SIM_FAULTS_H

#include "agenda.h"

struct process;
struct world;

/* Plans the beginning of everything. */
void faults_begin(struct world *world);
/* A happening of the world. */
void faults_happen(struct world *world, const struct happening *happening);
/* Plans the restart of a process that is over. */
void faults_restart(struct world *world, struct process *process);

#endif
