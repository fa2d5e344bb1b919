/* SPDX-License-Identifier: Apache-2.0 */
/* oracle.h - knows the truth, and says when the core breaks a promise.
 *
 *  I1 never two incarnations that may deliver one shard; who is dead in the table, or lost its lease there, cannot
 *     deliver at that instant or later
 *  I2 no delivery outside its epoch or past the lease deadline, counted here from the requests that were sent
 *  I3 a checkpoint covers settled records only
 *  I4 checkpoints, epochs and revs never go back; a checkpoint does by a seek that an operator ordered, and what comes
 *     after its new place is to be settled again
 *  I5 within an epoch and a lane: deliveries dense and in order, and so redeliveries; a lane is with one session
 *  I6 no record of a child before SHARD_END of its parents is durable and covers all of their records
 *  I7 credits, windows and bytes stay within their limits; explicit credit is not exceeded
 *  I8 after the faults everything is held, delivered, settled and checkpointed within a bounded time
 *  I9 effects and writes in flight stay within their limits; a quiet fleet writes heartbeats and nothing else
 *  I10 a record is given up only as its app or the poison policy wants, is then not delivered again, and counts as
 *     settled when its dead letter is durable
 *
 *  I11 a dead letter that is delivered again is in the store until it was acknowledged or discarded; it is with one
 *     session at a time, within its credit, and in peace it is settled
 *
 * The rules of the protocol that a process must keep whatever the others do are in oracle_rules.h, the records in
 * oracle_flight.h.
 *
 * It is told what happens and looks into the core only through its questions. The first violation ends the run.
 */
#ifndef KS_SIM_ORACLE_H
#define KS_SIM_ORACLE_H

#include <stddef.h>

#include "core/core.h"
#include "world_table.h"

struct process;
struct world;

/* Writings of a record that the oracle remembers. */
enum { SIM_WRITINGS = 16 };

/* A record of a lane, between the last FORGET and the last one read. */
enum oracle_state {
    RECORD_NEW,     /* Never delivered in this epoch. */
    RECORD_TAKEN,   /* Assigned to a session, not written. */
    RECORD_FLYING,  /* Written to a session. */
    RECORD_DOUBT,   /* Its ack deadline has passed, but the core was not told the time yet. */
    RECORD_WAITING, /* To be delivered again, before anything behind it. */
    RECORD_DYING,   /* Given up: to be a dead letter, or dropped. */
    RECORD_SETTLED
};

struct oracle_record {
    uint8_t state;
    uint8_t session;
    uint8_t written;  /* Times that it was written. */
    uint8_t got_by;   /* Bit by session: it was written to it. */
    uint8_t last;     /* The session that it was written to last; SIM_SESSIONS: it is not known. */
    uint8_t half_way; /* Times that it was taken back when it was begun, and not written since. */
    bool begun;       /* TAKEN: some of it was handed over. */
    bool asked;       /* The app wants a dead letter of it. */
    int64_t due;      /* Ack deadline, by the clock of the process. */
    int64_t not_before;
    uint64_t numbers; /* Bit by attempt number: it was read with it. */
    uint64_t assignment;
    uint64_t last_in;              /* The assignment in which it was written to `last`. */
    uint64_t got_in[SIM_WRITINGS]; /* Those in which it was written, the latest ones; 0: none. */
};

/* A delivery that was taken back half-way may have a number of its own, as its app may get it whole. */
static inline bool is_next_attempt(uint32_t attempt, uint32_t written, uint32_t half_way)
{
    return attempt > written && attempt - 1 - written <= half_way;
}

/* Notes that an app has read this attempt. The numbers below 64 are remembered. */
static inline bool attempt_is_new(uint64_t *numbers, uint32_t attempt)
{
    uint64_t bit = attempt < 64 ? UINT64_C(1) << attempt : 0;
    bool is_new = (*numbers & bit) == 0;

    *numbers |= bit;
    return is_new;
}

struct oracle_lane {
    struct oracle_record records[SIM_WINDOW]; /* By number, modulo. */
    uint64_t delivered;                       /* Nothing from here on was ever assigned. */
    uint32_t taken;                           /* Records that are TAKEN. */
    uint32_t half_way; /* Deliveries that were begun, and neither written nor torn. */
    int64_t earliest_due;
    uint64_t stopped; /* The record for which the policy stopped the shard, + 1; 0: none. */
    uint64_t burying; /* The first record of the dead letters that are being written .. */
    uint32_t burying_count;
    uint32_t bury_serial; /* .. by this request; 0: none. */
};

struct oracle_session {
    bool live;
    uint32_t epoch;
    uint32_t max_in_flight;
    uint64_t max_bytes;
    uint32_t max_record_bytes; /* 0: any. */
    uint32_t share;            /* 0: none. */
    uint64_t salt;
    uint64_t filter; /* 0: none. */
    bool explicit_credit;
    uint64_t granted;
    uint64_t pulled; /* The last pull that brought something. */
    ks_span ack_deadline;
    uint32_t in_flight;
    uint64_t bytes;
    ks_shard shards[4];
    uint32_t shard_count; /* 0: all. */
};

/* A worker row as this process was told of it: since when it stands still, by the rules of PROTOCOL A4. */
struct oracle_watch {
    bool present;
    bool damaged;  /* Could not be read the last time. */
    bool advanced; /* Its beat was seen to advance. */
    uint64_t boot;
    uint64_t beat;
    uint64_t most; /* The highest beat of this boot. */
    enum ks_life life;
    enum ks_mode mode;
    int64_t since;
    int64_t last;
    int64_t dead_since; /* INT64_MAX: it is live. */
};

/* What a process was told, and in which order it asked: the basis of what it may conclude. */
struct oracle_known {
    struct ks_incarnation owner;
    uint64_t epoch;
    uint64_t order; /* Requests asked before it was told so. */
};

struct oracle_shard {
    struct oracle_known known;
    struct oracle_known next; /* Whom a row named as next owner, and in which epoch. */
    struct oracle_known give; /* Who was told to give which epoch by our own hints .. */
    int64_t give_at;          /* .. since when that stands in its row. */
    ks_epoch given;           /* What our own row told us to give. */
    int64_t returning_at;     /* When it said that it gives the lease back. */
    int64_t unlisted_at;      /* Since when no listing shows it; INT64_MAX: the last one did. */
    uint32_t unlisted;        /* Listings in a row. */
    uint64_t legible;         /* The newest request whose answer had a row that could be read. */
    bool damaged;             /* Could not be read the last time. */
    bool unsure; /* A write of its owner was not done, or not surely: it is read before the next. */
    bool read_back;      /* Read again since it began. */
    bool hurried;        /* PERSIST in this epoch. */
    uint64_t persist_to; /* A PERSIST in peace: the checkpoint is there .. */
    sim_time persist_by; /* .. by then; 0: none is awaited. */
    int64_t paced_from;  /* When the last checkpoint that was done was sent. */
};

struct oracle_rules {
    uint64_t asked; /* Requests so far. */
    struct oracle_watch watch[SIM_WORKERS];
    struct oracle_watch self; /* The row under its own name, by consistent reads of it alone. */
    struct oracle_watch
        proof[SIM_WORKERS]; /* As the last consistent read of the fleet showed them. */
    uint64_t proof_order;
    struct oracle_known office;
    struct oracle_shard shards[SIM_SHARDS];
    uint64_t led_boot;     /* The incarnation with which it held the office. */
    uint64_t given_boot;   /* The incarnation that `given` is about. */
    int64_t registered_at; /* When its last registration was sent. */
    uint64_t office_asked; /* Its write to the leader row that has no answer yet; 0: none. */
    bool leads;            /* It has learned that it holds the office .. */
    int64_t won_at;        /* .. then. */
    bool looked;           /* It has read the whole fleet .. */
    int64_t looked_at;
};

/* Until when an incarnation may deliver, by its registration and heartbeats. */
struct oracle_boot {
    uint64_t boot;
    int64_t deadline;
};

struct oracle_process {
    struct oracle_boot boots[SIM_BOOTS];
    uint32_t boot_count;
    struct oracle_rules rules;
    struct oracle_lane lanes[SIM_SHARDS];
    struct oracle_session sessions[SIM_SESSIONS];
    enum ks_ordering ordering; /* As the first session said. */
    uint32_t lane_count;
    bool paused; /* By the poison policy. */
    uint64_t held_bytes;
    uint64_t asked_bytes; /* By reads under way. */
    uint64_t beyond;      /* Of reads that brought more than was asked, while anything is held. */
    /* Of the step that is being performed. */
    const struct ks_event *event;
    uint32_t answers; /* SETTLED, OPENED and NOT_OPENED. */
    uint32_t runs;
    uint32_t records;
    uint64_t bytes;
    uint64_t first_bytes; /* Of the first record. */
};

/* The first violation wins; `format` is a sentence. */
void oracle_fail(struct world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

void oracle_start(struct process *process);

/* The table changed. */
void oracle_lease_written(struct world *world, const struct table_request *request,
                          const struct table_lease *before, const struct table_lease *after);
void oracle_worker_written(struct world *world, const struct table_request *request,
                           const struct table_worker *before, const struct table_worker *after);

/* True if the worker may deliver the shard by its own word and its own clock, at this very instant. */
bool oracle_may_deliver(const struct world *world, const struct process *process, ks_shard shard);
struct ks_incarnation oracle_incarnation(const struct process *process);

/* A process asks the store, or has its answer. */
void oracle_asked(struct world *world, struct process *process, struct table_request *request,
                  ks_instant now);
void oracle_answered(struct world *world, struct process *process,
                     const struct table_request *request, enum ks_outcome outcome);

/* A turn begins at the process. */
void oracle_turn(const struct world *world, struct process *process, ks_instant now);
/* A step was made; its effects are not performed yet. */
void oracle_stepped(struct world *world, struct process *process, const struct ks_event *event,
                    const struct ks_effects *effects, ks_instant now);
/* All effects of the step were performed. */
void oracle_performed(struct world *world, struct process *process);

/* Effects, before they are performed. */
void oracle_open(struct world *world, struct process *process, ks_shard shard, ks_epoch epoch);
void oracle_read(struct world *world, struct process *process, const struct ks_effect *effect);
void oracle_close(const struct world *world, struct process *process, ks_shard shard);
void oracle_forget(struct world *world, struct process *process, const struct ks_effect *effect);
void oracle_deliver(struct world *world, struct process *process, const struct ks_effect *effect,
                    ks_instant now);
void oracle_persisted(struct world *world, struct process *process, const struct ks_effect *effect);
void oracle_sought(struct world *world, struct process *process, const struct ks_effect *effect);
void oracle_drained(struct world *world, struct process *process);
void oracle_opened(struct world *world, struct process *process, const struct ks_event *event,
                   uint32_t session, uint32_t session_epoch);
void oracle_ended(struct world *world, struct process *process, uint32_t session);

/* What a process says it decided has come true. */
void oracle_story(struct world *world, struct process *process, const struct ks_effect *effect);

/* Records arrive at the core. */
void oracle_records(struct world *world, struct process *process, ks_shard shard,
                    const uint32_t *sizes, const bool *filtered, uint32_t count);

/* True if every open shard is held by somebody who may deliver it. */
bool oracle_is_served(const struct world *world, char *why, size_t size);
/* The rows of leases that are this worker's. */
uint32_t oracle_leases_of(const struct world *world, const struct process *process);
/* True if everybody who wants leases has as many as the others, within one, or all that it takes. */
bool oracle_is_balanced(const struct world *world, char *why, size_t size);
/* After the faults: true if everything is done, else `why` says what is not. */
bool oracle_is_done(const struct world *world, char *why, size_t size);

/* The assignment whose written records an acknowledgement counts for; 0: all that were written to the session. */
static inline uint64_t oracle_seen_in(const struct ks_event *event)
{
    return event->settle.alone ? 0 : event->settle.assignment;
}

#endif
