/* SPDX-License-Identifier: Apache-2.0 */
/* world_wire.h - the connection of a simulated consumer: what api/delivery.c, an HTTP library and a socket are in the
 * product.
 *
 * It takes some bytes at a time, stops in the middle of a record, stalls, and breaks at any byte. Its app reads what is
 * in the socket, record by record.
 */
#ifndef KS_SIM_WORLD_WIRE_H
#define KS_SIM_WORLD_WIRE_H

#include "agenda.h"
#include "core/effect.h"

struct process;
struct world;

enum { SIM_WIRE_UNSENT = 24 };

/* Records of one run. */
struct sim_run {
    ks_shard shard;
    ks_epoch epoch;
    uint64_t first;
    uint32_t count;
    uint32_t attempt;
    uint64_t assignment;
    uint64_t batch_first; /* The whole run: what a batch_id names. */
    uint32_t batch_count;
};

struct sim_wire {
    struct sim_run runs[KS_BATCH_RUNS_MAX];
    uint32_t run_count;
    uint32_t run_next;
    uint32_t
        left; /* Bytes of the first record of runs[run_next] that are not handed over; 0: it is not begun. */
    struct sim_run unsent[SIM_WIRE_UNSENT];
    uint32_t unsent_count;
    uint32_t session;
    uint32_t session_epoch;
    uint32_t serial; /* Another one for each connection. */
    bool cut;        /* The lease of a record that is half-way is lost. */
    bool over;       /* The session is. */
};

/* A DELIVER. The wire has no runs that wait. */
void world_wire_add(struct sim_wire *wire, const struct ks_effect *effect);
/* True while records that were pulled are not handed over. */
bool world_wire_is_pending(const struct sim_wire *wire);
/* Hands over some bytes. Sets `cut` if a record cannot be finished. */
void world_wire_fill(struct world *world, struct process *process, uint32_t consumer);
/* Some records that were handed over, or all, are in the socket, and read by the app. Sets `cut` if they may not be
 * sent any more. */
void world_wire_send(struct world *world, struct process *process, uint32_t consumer);
/* What a connection had not written when it ended goes back. */
void world_wire_return(struct world *world, struct process *process, struct sim_wire *wire);
/* The connection is gone. */
void world_wire_end(struct world *world, struct process *process, uint32_t consumer);

#endif
