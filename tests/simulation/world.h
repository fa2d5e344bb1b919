/* SPDX-License-Identifier: Apache-2.0 */
/* world.h - one simulated world: a table, a stream, processes with their apps, an agenda, and the oracle's verdict. */
#ifndef KS_SIM_WORLD_H
#define KS_SIM_WORLD_H

#include "agenda.h"
#include "base/prng.h"
#include "shell.h"
#include "swarm.h"
#include "world_stream.h"
#include "world_table.h"

enum { SIM_REQUESTS = 8192 };

/* After the faults, one more thing happens to one process. */
enum exam { EXAM_KILL, EXAM_DRAIN, EXAM_IDLE, EXAM_JOIN, EXAM_DEPLOY, EXAMS };

struct world {
    uint64_t seed;
    struct ks_prng prng;
    struct ks_prng orders;   /* What an operator orders is drawn from. */
    struct ks_prng redrives; /* Likewise, dead letters that are delivered again. */
    struct ks_prng looks;    /* Likewise, slow looks. */
    sim_time now;
    struct agenda agenda;
    struct swarm swarm;

    struct world_table table;
    struct world_stream stream;
    struct process processes[SIM_PROCESSES];
    struct table_request *requests[SIM_REQUESTS];
    struct table_request *spare_request;
    uint32_t request_count;
    uint32_t next_worker;

    sim_time down_until;
    bool down_quick; /* Connections are refused; else they hang. */
    sim_time throttled_until;
    uint32_t throttled;                          /* Until then, of 1000 requests. */
    uint64_t locks[SIM_WORKERS];                 /* The boot that a lock file names. */
    struct table_request *parked[SIM_PROCESSES]; /* A heartbeat that waits for a leader's write. */
    bool peace;
    sim_time peace_at;
    sim_time done_at;     /* When something was missing last. */
    sim_time planned_at;  /* When a move was planned last. */
    sim_time progress_at; /* When a record was settled or a shard finished last. */
    sim_time quiet_until; /* 0: not quiet yet. */
    sim_time last_shot;   /* When the last request of the war arrives. */
    enum exam exam;
    sim_time exam_at;    /* When it began: 0, not yet. */
    sim_time exam_until; /* By then everything is served and balanced again. */
    struct process *examined;
    uint32_t exam_least;                 /* Moves that it needs. */
    uint64_t asked[KS_STORE_OPERATIONS]; /* Since the beginning, then since it is quiet. */
    uint64_t rows_made;                  /* When it became quiet. */

    bool over;
    bool failed;
    char sentence[240];
    int verbose;
    uint64_t hash;
    /* Of all runs. */
    uint64_t steps;
    sim_time longest_exam[EXAMS];
    uint64_t exams[EXAMS];
    uint64_t moves;      /* Planned, since the exam began. */
    uint64_t moves_made; /* In all exams in which a process joins; and the least that it takes. */
    uint64_t moves_least;
    uint64_t handed_over; /* Final writes with a next owner, in peace. */
    sim_time longest_gap; /* From such a write to the begin of the next owner. */
    uint64_t delivered;   /* Records; and again. */
    uint64_t redelivered;
    uint64_t canaries; /* Runs that were delivered to sessions with a share. */
    uint64_t filtered; /* Records that were delivered to sessions with a filter, */
    uint64_t excluded; /* and those that such a filter excluded. */
    uint64_t operations[KS_STORE_OPERATIONS][2]; /* Done, refused. */
    uint64_t happenings;
};

/* Runs a seed to its end. `world` is zeroed before the first run and is used again for the next; true if every
 * invariant held, else `sentence` says what broke. */
bool world_run(struct world *world, uint64_t seed, int verbose);
void world_free(struct world *world);

/* A request with no users yet, and its end. */
struct table_request *world_request(struct world *world);
void world_request_done(struct world *world, struct table_request *request);

#endif
