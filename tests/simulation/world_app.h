/* SPDX-License-Identifier: Apache-2.0 */
/* world_app.h - the consumers of the simulated world.
 *
 * A consumer opens a session, pulls, gets runs of records through a short pipe, works on them, and settles them: in any
 * order, late, again, with a nack, or never. It vanishes and comes back, or takes its own session over.
 */
#ifndef KS_SIM_WORLD_APP_H
#define KS_SIM_WORLD_APP_H

#include "agenda.h"
#include "core/effect.h"
#include "world_wire.h"

struct process;
struct world;

struct consumer {
    bool open;
    bool pulls;
    bool choosy;
    bool left_behind; /* `session` lives on without a connection. */
    uint32_t session;
    uint32_t session_epoch;
    uint32_t serial;      /* Which plan of ours is the valid one. */
    uint32_t unprocessed; /* Records that it has read and not let go. */
    uint32_t socket;      /* It reads no more while it has as many. */
    bool explicit_credit;
    bool refused; /* The last open, because of the others' order: the consumer keeps what it had. */
    uint32_t granted; /* And not used yet. */
    uint32_t runs;    /* DELIVER effects of this pull. */
    uint64_t pulled;  /* The last pull that brought something. */
    uint64_t earlier; /* The one before: another answer of the session may go on. */
    struct sim_wire wire;
};

/* The consumers of a process that starts. */
void world_app_begin(struct world *world, struct process *process);
/* The faults end: whoever has no consumer gets one, choosy ones open anew. */
void world_app_make_peace(struct world *world, struct process *process);
/* All consumers of a process go away until then; SIM_NEVER: for good. */
void world_app_holiday(struct world *world, struct process *process, sim_time until);
/* Plans the consumer's next act. An earlier plan is void. */
void world_app_plan(struct world *world, struct process *process, uint32_t consumer, sim_time in);
/* The app has read the records of the job. */
void world_app_read(struct world *world, struct process *process, const struct happening *job);
/* The app has ids of a record that it has not got, or only a part of, and may settle it. */
void world_app_guess(struct world *world, struct process *process, uint32_t consumer,
                     const struct sim_wire *wire);
/* A settlement of the records of a job. */
void world_app_settle_as(struct world *world, struct process *process, const struct happening *job,
                         enum ks_settle_outcome outcome, sim_time delay);
/* HAPPENS_CONSUMER and HAPPENS_JOB. */
void world_app_act(struct world *world, struct process *process, const struct happening *happening);
void world_app_settle(struct world *world, struct process *process,
                      const struct happening *happening);
/* Whatever the poison policy stopped goes on. */
void world_app_go_on(struct world *world, struct process *process);
/* Effects. */
void world_app_opened(struct world *world, struct process *process, uint32_t session,
                      uint32_t session_epoch);
void world_app_not_opened(struct world *world, struct process *process, enum ks_not_opened why);
void world_app_ended(struct world *world, struct process *process, uint32_t session,
                     enum ks_session_end why);
void world_app_wake(struct world *world, struct process *process, uint32_t session);
void world_app_deliver(struct world *world, struct process *process, uint32_t session,
                       const struct ks_effect *effect);

#endif
