/* SPDX-License-Identifier: Apache-2.0 */
/* world_limits.h - how large a simulated world can be. Small on purpose: full things are reached often. */
#ifndef KS_SIM_WORLD_LIMITS_H
#define KS_SIM_WORLD_LIMITS_H

#include <stdint.h>

enum {
    SIM_SHARDS = 32,    /* Shards of a run, over all its reshards. */
    SIM_WORKERS = 16,   /* Worker numbers: 1 .. 15. */
    SIM_PROCESSES = 8,  /* Processes at one time, with the twins. */
    SIM_TWINS = 2,      /* The last slots: second processes under a name that runs. */
    SIM_CONSUMERS = 3,  /* Local consumers of a process. */
    SIM_SESSIONS = 4,   /* Sessions of a core: one to spare for a take-over. */
    SIM_LANES = 8,      /* Lanes of a lease. */
    SIM_RECORDS = 1024, /* Records of one shard. */
    SIM_WINDOW = 256,   /* The largest window of a lease; a power of two. */
    SIM_TOKENS = 64,    /* Tokens of one give or take set. */
    SIM_BOOTS = 4       /* Registration attempts of a process that the oracle remembers. */
};

/* True time: microseconds since the world began. No process knows it. */
typedef int64_t sim_time;
#define SIM_NEVER INT64_MAX

/* A place in a shard: the index of the first record that is not covered. */
#define SIM_SHARD_END UINT64_MAX

#define SIM_SECOND INT64_C(1000000)
#define SIM_MS INT64_C(1000)

#endif
