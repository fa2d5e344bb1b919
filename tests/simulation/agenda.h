/* SPDX-License-Identifier: Apache-2.0 */
/* agenda.h - what will happen, and when: a binary heap ordered by (time, order of planning).
 *
 * Ties are broken by the order in which they were planned, so that a run is the same each time. Owned by the world.
 */
#ifndef KS_SIM_AGENDA_H
#define KS_SIM_AGENDA_H

#include <stdbool.h>

#include "world_limits.h"

enum happening_kind {
    /* At a process; nothing of it reaches a later life. */
    HAPPENS_TICK,
    HAPPENS_ANSWER,   /* The store's answer to `request`. */
    HAPPENS_TIMEOUT,  /* `request` was not answered in time. */
    HAPPENS_LISTED,   /* ListShards answers. */
    HAPPENS_READ,     /* The reader of `shard` answers. */
    HAPPENS_CONSUMER, /* `consumer` opens, pulls or misbehaves. */
    HAPPENS_JOB,      /* `consumer` has handled `count` records from `first`. */
    HAPPENS_HURRY,
    HAPPENS_CHANGED, /* The store tells that somebody wrote. */
    HAPPENS_LOCKED,  /* The lock file was written, or not. */
    HAPPENS_BURIED,  /* The store of dead letters answers: `count` is the outcome. */
    HAPPENS_LETTER, /* .. what it was told of one that was delivered again: `first`, and `count` is the outcome. */
    /* In the world. */
    HAPPENS_ARRIVE, /* `request` reaches the table. */
    HAPPENS_START,  /* A process starts in slot `process` as worker `count`. */
    HAPPENS_PUT,    /* Records come. */
    HAPPENS_RESHARD,
    HAPPENS_EXPIRE,
    HAPPENS_PAUSE,
    HAPPENS_KILL,
    HAPPENS_CUT,
    HAPPENS_BLIND, /* A process reaches the table, and not the stream. */
    HAPPENS_DOWN,
    HAPPENS_DAMAGE,
    HAPPENS_DRAIN,
    HAPPENS_TWIN,
    HAPPENS_THROTTLE,
    HAPPENS_HOLIDAY, /* All apps of a process go away for a while. */
    HAPPENS_SCALE,
    HAPPENS_DEPLOY,   /* Each process is replaced, one after the other. */
    HAPPENS_OPERATOR, /* Somebody changes the table by hand. */
    HAPPENS_ORDER,    /* Somebody pauses, resumes, releases or seeks. */
    HAPPENS_REDRIVE,  /* Somebody has a dead letter delivered again, or discards one. */
    HAPPENS_PEACE,    /* The faults end. */
    HAPPENS_LOOK      /* After the faults: is everything done? */
};

struct happening {
    enum happening_kind kind;
    uint32_t process;
    uint32_t life;
    uint32_t consumer;
    uint32_t session;
    uint32_t session_epoch;
    uint32_t shard;
    uint32_t count;
    uint64_t epoch;
    uint64_t first;
    uint64_t batch_first; /* HAPPENS_JOB: the run of these records, which a batch_id names. */
    uint32_t batch_count; /* 0: the app has not read the records, or only a part of them. */
    uint64_t assignment;  /* HAPPENS_JOB: of these records. */
    uint32_t request;
    uint32_t serial;
};

struct agenda_entry {
    sim_time at;
    uint64_t order;
    uint32_t slot;
};

struct agenda {
    struct agenda_entry *heap;
    struct happening *pool;
    uint32_t *spare; /* Free slots of the pool. */
    uint32_t count;
    uint32_t capacity;
    uint64_t order;
};

/* Forgets everything that was planned; keeps the memory. */
void agenda_clear(struct agenda *agenda);
/* Plans a copy of `happening`. Grows as needed. */
void agenda_add(struct agenda *agenda, sim_time at, const struct happening *happening);
/* Takes out what comes next. False if nothing does. */
bool agenda_next(struct agenda *agenda, sim_time *ret_at, struct happening *ret_happening);
/* Returns the memory. */
void agenda_free(struct agenda *agenda);

#endif
