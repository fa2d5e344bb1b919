/* SPDX-License-Identifier: Apache-2.0 */
/* swarm.h - how hard the world is to this seed.
 *
 * Each class of fault is off with probability 1/2, else drawn hard: faults that never come alone hide each other.
 * Chances are per mille; intervals are log-uniform, because a bug needs its own distance between two faults.
 */
#ifndef KS_SIM_SWARM_H
#define KS_SIM_SWARM_H

#include <stdbool.h>

#include "base/prng.h"
#include "core/core.h"
#include "world_limits.h"

struct swarm {
    /* The road to the store. */
    sim_time latency; /* Typical, one way. */
    uint32_t lost_requests;
    uint32_t lost_answers;
    uint32_t late_requests; /* Arrive 2 - 30 s late: after we gave up. */
    uint32_t failed_reads;
    uint32_t throttled;
    sim_time stale;          /* Reads that are not consistent are up to this old. */
    bool stale_rows;         /* Each row from its own replica; else one for the whole read. */
    bool tells_refusal;      /* A refused write of a worker row answers the row. */
    sim_time down_every;     /* 0: never. */
    sim_time damage_every;   /* A row cannot be read for a while. */
    sim_time operator_every; /* Somebody changes a lease row by hand. */
    sim_time throttle_every;
    uint32_t parked; /* Heartbeats that wait on the road, to land right before a leader's write. */
    bool tells_change; /* The store tells whoever listens that somebody wrote. */
    /* Looks at all lease rows (world_looks.h). */
    uint32_t slow_looks;
    sim_time look;         /* How long the slowest of them takes. */
    uint32_t failed_looks; /* Slow ones that come to nothing. */

    /* Processes. */
    uint32_t processes;
    int64_t drift_ppm; /* At most, either way; below m/L = 5 %. */
    sim_time loop_lag; /* Timers come up to this late. */
    bool tick_first;   /* A due tick goes before what else happens in a turn. */
    sim_time pause_every;
    uint32_t beat_pauses; /* Frozen right before or after a heartbeat is sent. */
    sim_time kill_every;
    uint32_t blackouts; /* Kills that kill everybody. */
    uint32_t same_name; /* Restarted under its old number. */
    sim_time cut_every;
    sim_time blind_every;
    sim_time drain_every;
    sim_time twin_every; /* A second process with the same number. */
    sim_time scale_every;
    sim_time deploy_every;
    uint32_t lock_files; /* Processes with a lock file. */
    uint32_t limited;    /* Processes that take few leases; never the first one. */

    /* The stream. */
    uint32_t shards;
    bool from_latest;
    sim_time put_every;
    uint32_t burst;
    uint32_t records;     /* Put in all. */
    uint32_t big_records; /* Larger than a session's credit. */
    sim_time reshard_every;
    sim_time stale_list;
    uint32_t failed_lists;
    uint32_t left_out;      /* Listings in which one shard is missing. */
    uint32_t slow_stream;   /* Answers of the stream that take 2 - 20 s. */
    uint32_t failed_stream; /* Throttled and refused reads. */
    uint32_t short_reads;

    /* Apps. */
    uint32_t idle_apps; /* Processes without any consumer. */
    sim_time holiday_every;
    sim_time work; /* Typical, for a run of records. */
    uint32_t shuffles;
    uint32_t retries;
    uint32_t extends;
    uint32_t ignores;
    uint32_t cumulative;
    uint32_t stale_settles;
    uint32_t persists;
    uint32_t vanishes;
    uint32_t closes;
    uint32_t take_overs;
    uint32_t pollers;
    uint32_t choosy; /* Sessions that name shards. */
    enum ks_ordering ordering;
    uint32_t lanes;
    bool one_lane;        /* Every session wants order by shard. */
    uint32_t other_order; /* Sessions that want another order, or any. */
    uint32_t shares;      /* Sessions that have a share, where the order is by key. */
    uint32_t filters;     /* Sessions that have a filter. */
    uint32_t explicit_credit;
    uint32_t small_messages; /* Sessions that take small records only. */
    uint32_t updates;        /* Pulls before which the limits of the session change. */
    uint32_t dead_letters;
    uint32_t drops;
    uint32_t slow_readers; /* Bytes after which the reader of a connection stops for a while. */
    uint32_t breaks;       /* Connections that break in the middle of something. */
    uint32_t half_acks;    /* Of those: the app settles a record of which it has got only a part. */
    uint32_t batch_acks;   /* Acks of a whole run, of which the app may not have read all. */
    uint32_t filtered;     /* Records that the subscription does not want. */
    uint32_t lost_letters; /* Dead letters whose write fails, or whose answer is lost. */

    sim_time war; /* How long the faults last. */
    bool checks;  /* ks_core_check after each step. */
    struct ks_core_config core;
};

/* Draws a swarm. */
void swarm_draw(struct swarm *swarm, struct ks_prng *prng);
/* Ends all faults. */
void swarm_make_peace(struct swarm *swarm);

/* True in `per_mille` of 1000 cases. */
bool draw_chance(struct ks_prng *prng, uint32_t per_mille);
/* Log-uniform in low .. high; low > 0. */
int64_t draw_log(struct ks_prng *prng, int64_t low, int64_t high);

#endif
