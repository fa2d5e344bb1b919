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
/* Plans the start of a process in a free slot, under its old name or a new one. */
void faults_start(struct world *world, uint32_t slot);
/* Tells a process to leave. */
void faults_drain(struct world *world, struct process *process, sim_time patience);
/* True if all processes that there should be are live. */
bool faults_everybody_runs(const struct world *world);
/* Plans the restart of a process that is over. */
void faults_restart(struct world *world, struct process *process);

#endif
