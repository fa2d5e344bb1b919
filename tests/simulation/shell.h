/* SPDX-License-Identifier: Apache-2.0 */
/* shell.h - a process of the simulated world: a real core, and around it what ports/switchboard.c is in the product.
 *
 * It reads its clock once a turn, feeds what happened as events, performs the effects after the step, and sleeps until
 * ks_core_deadline. Nothing is answered inside the step that asked for it.
 */
#ifndef KS_SIM_SHELL_H
#define KS_SIM_SHELL_H

#include "agenda.h"
#include "core/core.h"
#include "numbers.h"
#include "oracle.h"
#include "world_app.h"
#include "world_redrive.h"
#include "world_table.h"

/* The reader of a shard. Its numbers stay after CLOSE: a final write may follow. */
struct reader {
    bool open;
    bool reading;
    uint32_t made; /* Of the row that it began with. */
    ks_epoch epoch;
    ks_epoch before;  /* The highest of the epochs before it. */
    uint64_t base;    /* Index of the epoch's record 0. */
    uint64_t fetched; /* Records of the epoch that were handed to the core. */
    uint64_t forgot;  /* As told by FORGET. */
    sim_time opened_at;
    uint32_t serial; /* Which READ is in flight. */
    uint32_t max_records;
    uint32_t max_bytes;
};

/* A lease row as this process read it last. */
struct seen_row {
    bool present;
    uint32_t made;
    uint64_t checkpoint;
};

enum cut_kind { CUT_NOTHING, CUT_ALL, CUT_READS, CUT_LEASE_WRITES, CUT_HEARTBEATS };

struct process {
    bool alive;
    uint32_t slot;
    uint32_t life;
    uint32_t worker; /* Its number in the table. */
    int64_t clock_offset;
    int64_t drift_ppm;
    sim_time paused_until;
    enum cut_kind cut;
    sim_time cut_until;
    sim_time blind_until; /* No read of the stream succeeds. */
    bool draining;
    bool locked;            /* It has a lock file, and its flock. */
    bool changed;           /* It is going to hear that somebody wrote. */
    uint32_t capacity;      /* Leases that it takes; 0: any number. */
    sim_time away_until;    /* Its apps are away. */
    ks_instant patience_at; /* Of the drain, by its clock. */
    /* What an operator ordered. */
    ks_instant paused[SIM_SHARDS];
    uint64_t seek_to[SIM_SHARDS];
    bool seeking[SIM_SHARDS]; /* Accepted, and not at its end. */
    bool over;                /* The core said DRAINED or REFUSED in this step. */

    struct ks_core *core;
    struct numbers numbers; /* Its names of shards. */
    void *memory;
    sim_time tick_at; /* When the next look at the deadline is planned. */
    sim_time tick_second;
    uint32_t ticks; /* Since tick_second. */

    struct reader readers[SIM_SHARDS];
    struct seen_row seen[SIM_SHARDS];
    struct ks_shard_row listing[SIM_SHARDS];
    uint32_t listed;
    bool listing_asked;
    sim_time listing_since;
    ks_shard left_out; /* Of the last listing. */
    /* The unanswered write of a lease, its number + 1: as leader, as owner. */
    uint32_t writing[2][SIM_SHARDS];
    bool beating;

    struct consumer consumers[SIM_CONSUMERS];
    uint32_t consumer_count;
    uint32_t opening; /* The consumer whose SESSION_OPEN is being stepped, or SIM_CONSUMERS. */

    struct sim_letter letters[SIM_LETTERS];
    ks_number next_letter;

    struct oracle_process truth;
};

/* Starts a process in a free slot. */
void shell_start(struct world *world, struct process *process, uint32_t worker);
/* True if what it holds of the shard is of a row that an operator has spoilt since. */
bool shell_is_orphan(const struct world *world, const struct process *process, ks_shard shard);
/* kill -9. */
void shell_stop(struct world *world, struct process *process);
/* A happening of a process: one turn of its loop. */
void shell_turn(struct world *world, const struct happening *happening);
/* A request reaches the table. */
void shell_arrive(struct world *world, const struct happening *happening);
/* Somebody wrote: whoever listens hears of it. */
void shell_changed(struct world *world, const struct table_request *request);
/* Steps the core with an event and performs what it asks for. Only from within a turn. */
void shell_step(struct world *world, struct process *process, const struct ks_event *event);
/* A turn for an event that comes from outside (drain). */
void shell_tell(struct world *world, struct process *process, const struct ks_event *event);

/* What its core knows of a shard; and of a record. */
bool shell_lease(const struct process *process, ks_shard shard, struct ks_lease_view *ret_view);
bool shell_is_dying(const struct process *process, ks_shard shard, ks_number number);
/* The record that holds up the shard. */
bool shell_blocker(const struct process *process, ks_shard shard, struct ks_blocker *ret_blocker);
bool shell_is_out(const struct process *process, ks_shard shard, ks_number number);
bool shell_is_settled(const struct process *process, ks_shard shard, ks_number number);

/* The clock of a process, and the first true instant at which that clock shows `at`. */
ks_instant shell_clock(const struct world *world, const struct process *process);
sim_time shell_true_time(const struct process *process, ks_instant at);
/* Memory of the core, kept from run to run. */
void shell_free(struct process *process);

#endif
