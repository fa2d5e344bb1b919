/* SPDX-License-Identifier: Apache-2.0 */
/* core.h - every decision of the house: one function, and one question.
 *
 *     ks_core_step(core, now, &event, &effects);     what happened -> what to do
 *     ks_core_deadline(core)                         when to step with KS_EVENT_TICK at the latest
 *
 * No clock, no callbacks, no allocation, no I/O; the same events at the same instants give the same effects. The shell
 * (ports/switchboard.c) and the simulator (tests/simulation) run this very code.
 */
#ifndef KS_CORE_CORE_H
#define KS_CORE_CORE_H

#include <stddef.h>

#include "core/effect.h"
#include "core/event.h"

/* How the fleet agrees who serves what (core/fleet/protocol.h). */
enum ks_protocol {
    KS_PROTOCOL_NATIVE,
    KS_PROTOCOL_GO_KCL,
    KS_PROTOCOL_KCL,
    KS_PROTOCOL_KINSUMER,
    KS_PROTOCOL_KCL_RB
};

/* All spans as in docs/PROTOCOL.md part A. */
struct ks_core_config {
    enum ks_protocol protocol;
    bool stealing; /* go-kcl: we claim leases of those that have more than we. */
    bool masking;  /* kcl-rb: rows of ours are masked, so that it leaves them alone. */
    bool
        latest; /* kcl: the application begins at the latest: what was closed before is not read. */
    uint32_t self;   /* Our worker number, not 0. */
    uint64_t seed;   /* Of nonces and jitter: different for each process. */
    uint64_t boot;   /* The nonce of its first registration, likewise; 0: drawn, too. */
    bool lock;       /* There is a lock file: it names each boot before that is registered (A3). */
    uint64_t corpse; /* The boot that it named when we took it: that process is dead; 0 = none. */

    ks_span lease_duration; /* L */
    ks_span margin;         /* m */
    ks_span beat;           /* B */
    ks_span news;           /* R */
    ks_span round;          /* Q */
    ks_span timeout;        /* T */
    ks_span hand_over;      /* H */
    ks_span keep;           /* K */
    ks_span report_every;   /* KCL 3.x: our metrics. */
    ks_span list_every;     /* The leader lists the stream's shards. */
    ks_span checkpoint_interval;
    ks_span idle_release;
    ks_span load_patience; /* Traffic is evened out after it has been uneven for so long. */
    uint64_t load_least;   /* Bytes a second: what is less does not move a lease. */

    uint32_t shards_max; /* Rows of the directory. */
    uint32_t leases_max; /* Leases held at once. */
    uint32_t capacity;   /* Leases that we want at most, as the fleet is told; 0 = no limit. */
    uint32_t
        window_max; /* Records of one lease between its watermark and the last one read; a power of two. */
    uint32_t workers_max; /* Rows of the fleet. */
    uint32_t large_fleet; /* Live workers above which only some of them read all rows (A4). */
    uint32_t sessions_max;
    uint32_t lanes_max; /* Of a lease; at most KS_LANES_MAX. */
    struct ks_poison_policy poison;
    uint64_t budget_bytes; /* Payload held in all; KS_EVENT_BUDGET changes it. */
    uint32_t read_bytes;   /* Asked for by one read at most. */
    uint32_t
        record_extra; /* Bytes that a record takes in memory beside its data and partition key. */
};

/* The defaults of PROTOCOL.md for a lease duration: m = L/20, B = L/3, R = B/3, Q = 1 s, T = 2 s, H = 5 s; for shorter
 * leases Q, T, H shrink in proportion. Capacities are set, too; self, seed and budget are left to the caller. */
struct ks_core_config ks_core_config_default(ks_span lease_duration);

struct ks_core;

/* Bytes of memory that a core of these capacities needs. */
size_t ks_core_size(const struct ks_core_config *config);
/* Builds a core in `memory`: ks_core_size() bytes, zeroed, aligned for any type, owned by the caller and outliving the
 * core. There is nothing to free. */
struct ks_core *ks_core_init(void *memory, const struct ks_core_config *config);

/* What the wall clock shows at the next step, in us since 1970. Told before each step where a protocol writes wall
 * times into its table (docs/DIALECTS.md); the native one never asks. */
void ks_core_wall(struct ks_core *core, int64_t wall_us);
/* KCL: when one of those who share a worker id and a table, each with a stream, may steal the next lease: one in each
 * cycle, as a worker of the library, whatever it reads. Called before and after each step with what they share. */
void ks_core_claim(struct ks_core *core, ks_instant *at);
/* One step. `now` never goes back. `effects` is empty before. */
void ks_core_step(struct ks_core *core, ks_instant now, const struct ks_event *event,
                  struct ks_effects *effects);
/* When to step with TICK at the latest. Walks the leases and sessions: ask once a turn. */
ks_instant ks_core_deadline(const struct ks_core *core);
/* Whose numbers stand for something here: `ret_held` is for the numbers 0 .. shards_max - 1. A worker of a native fleet
 * that does not lead forgets what it knows of the shards of others when it is told so; everybody else knows best which
 * there are. Walks everything: for once in a while. */
void ks_core_held(const struct ks_core *core, bool *ret_held);
/* Numbers that are not held, and about which no event is on its way: they stand for nothing from now on, and may be
 * given to other shards. */
void ks_core_free(struct ks_core *core, const bool *freed);
/* The invariants that hold between any two steps; asserts. For tests and the simulator: it walks everything. */
void ks_core_check(const struct ks_core *core);

/* ---- Questions. They change nothing. ---- */

enum ks_worker_state {
    KS_WORKER_STARTING, /* Not registered. */
    KS_WORKER_LIVE,
    KS_WORKER_FENCED, /* Finding out, then starting again. */
    KS_WORKER_DRAINING,
    KS_WORKER_GONE
};

enum ks_lease_state {
    KS_LEASE_AWAY,      /* Somebody else's, or nobody's. */
    KS_LEASE_HELD,      /* Ours; deliverable until the lease deadline. */
    KS_LEASE_RETURNING, /* Ours, delivering nothing new: settling, then the final write. */
    KS_LEASE_ENDING,    /* Read to its end and settled: SHARD_END is being written. */
    KS_LEASE_FINISHED   /* SHARD_END is durable. */
};

/* What the core knows of itself. */
struct ks_self_view {
    enum ks_worker_state state;
    struct ks_incarnation incarnation; /* As registered last. */
    bool leads;
    bool serving;        /* now < lease deadline, as of the last step. */
    bool paused;         /* By an operator: every shard. */
    ks_instant deadline; /* The lease deadline of everything that we hold. */
    uint32_t leases_held;
    uint32_t
        unread; /* Kinsumer: shards that nobody has, though they fall to another client who lives. */
    uint32_t sessions;
    uint64_t in_flight; /* Records that were written to sessions and are not settled. */
    uint64_t in_flight_bytes;
    uint64_t assigned; /* Records that were pulled for sessions and are not written. */
    uint64_t assigned_bytes;
    uint64_t held_bytes; /* Payload in memory. */
    uint32_t redriven;   /* Dead letters that are delivered again. */
};
void ks_core_self(const struct ks_core *core, struct ks_self_view *ret_view);
/* True while it takes leases if it can get them. */
bool ks_core_wants(const struct ks_core *core);

/* What it knows of a shard. False if it knows no such row. */
struct ks_lease_view {
    enum ks_lease_state state;
    struct ks_incarnation owner;
    struct ks_incarnation next_owner;
    ks_epoch epoch;
    bool finished;
    bool damaged;
    /* Meaningful while we hold it. */
    ks_number watermark;   /* Everything below is settled. */
    ks_number persisted;   /* Everything below is covered by the table. */
    ks_number delivered;   /* Nothing at or above it was delivered. */
    ks_number fetched;     /* Everything below has arrived. */
    uint32_t settled;      /* Records above the watermark that are settled. */
    uint32_t in_flight;    /* Records that were written and are not settled. */
    uint32_t assigned;     /* Records that were pulled for a session and are not written. */
    ks_session_id session; /* Of the first lane, or NONE. */
    uint32_t lanes;
    uint32_t owned_lanes;   /* Belong to a session. */
    uint32_t blocked_lanes; /* Wait for a retry. */
    uint32_t dying;         /* Records whose dead letters are not durable yet. */
    bool
        holds_large; /* The record `large` is larger than its session takes, and holds up its lane. */
    ks_number large;
    bool blocked; /* Some lane is, or the lease was stopped, or its gap is full. */
    bool at_end;
    /* Since when nothing more is asked of the stream, for want of room or a session, or by a pause; KS_NEVER: a read is
     * under way, or it was read to its end. */
    ks_instant unread_since;
    ks_instant since; /* When we acquired it. */
    /* Whoever holds it. */
    bool paused;             /* Here, by an operator. */
    ks_instant paused_until; /* NEVER: until it is resumed. */
};
bool ks_core_lease(const struct ks_core *core, ks_shard shard, struct ks_lease_view *ret_view);

/* The oldest record of a lease that we hold which was fetched, is not settled and is with no session: it was not
 * delivered yet, is to be delivered again, or its dead letter is not durable yet. False if there is none. */
bool ks_core_waiting(const struct ks_core *core, ks_shard shard, ks_epoch epoch,
                     ks_number *ret_number);

/* The record of a lease that we hold for which others wait: it stopped the lease, or failed, or is too large, or the
 * lease is full behind it; the first of them. False if there is none. Looks at every record of the lease. */
struct ks_blocker {
    ks_number number;
    uint32_t failures;
    bool stopped;   /* Nothing of the shard is delivered until it is settled or somebody says so. */
    bool too_large; /* For the client that the lane belongs to. */
    bool out;       /* It is with a session. */
};
bool ks_core_blocker(const struct ks_core *core, ks_shard shard, struct ks_blocker *ret_blocker);

/* True if the record, of the current epoch, is with a session: assigned or written. */
bool ks_core_is_out(const struct ks_core *core, ks_shard shard, ks_number number);
/* True if the record, of the current epoch, was given up: its dead letter is being written, or it is being dropped. */
bool ks_core_is_dying(const struct ks_core *core, ks_shard shard, ks_number number);
/* True if the record, of the current epoch and fetched, is settled. */
bool ks_core_is_settled(const struct ks_core *core, ks_shard shard, ks_number number);

/* True if the store knows what became of each letter that was delivered again under a number below this, as far as it
 * was settled. */
bool ks_core_letters_told(const struct ks_core *core, ks_number below);

struct ks_session_view {
    uint32_t epoch;
    bool attached;
    bool pulls;
    uint32_t in_flight; /* Records that were written to it and are not settled. */
    uint64_t in_flight_bytes;
    uint32_t assigned; /* Records that were pulled for it and are not written. */
    uint64_t assigned_bytes;
    uint32_t max_in_flight;
    uint64_t max_in_flight_bytes;
    uint32_t max_record_bytes; /* UINT32_MAX: any. */
    uint32_t credit;           /* Records that it may be sent now. */
    uint32_t granted;          /* Explicit credit that is left; 0 where credit is not explicit. */
    bool explicit_credit;
    uint32_t lanes;
    uint32_t share; /* Millionths of the lanes, as it was opened with; 0: none. */
};
bool ks_core_session(const struct ks_core *core, ks_session_id session,
                     struct ks_session_view *ret_view);
/* Records of the lanes of a group to which that happened, each time that it did. Counted since the core was made, of a
 * lease only while a session with a share is there for it. */
uint64_t ks_core_group(const struct ks_core *core, enum ks_group group, enum ks_count count);
/* Records of a lease that an open session is to get, if its filter takes them: nobody has asked the filter yet. */
struct ks_unjudged {
    ks_shard shard;
    ks_epoch epoch;
    ks_number first;
    uint32_t count;
};
/* Finds the next ones: at most `max_records` in a row, of about `max_bytes`, one at least. False: there are none. The
 * answer is KS_EVENT_JUDGED of these records, before any other step. Asked again after each step, until it is false. */
bool ks_core_unjudged(struct ks_core *core, uint32_t max_records, uint64_t max_bytes,
                      struct ks_unjudged *ret_unjudged);
/* Records that were settled because the filter of the sessions excludes them. Counted since the core was made. */
uint64_t ks_core_excluded(const struct ks_core *core);
/* What leases say of why a session gets nothing. */
struct ks_idle_leases {
    bool asked;
    bool any;
    bool running; /* One is not paused. */
    bool throttled;
    bool blocked;
};
/* Why that session, which must be there, gets nothing, if it gets nothing. Looks at every lease that it may have: for
 * whom it is told, not for each record. Of many sessions between two steps: `all`, zeroed for the first of them, keeps
 * what all leases say; or NULL. */
enum ks_idle ks_core_session_idle(const struct ks_core *core, ks_session_id session,
                                  struct ks_idle_leases *all);

/* A worker row as last read, in no order: index 0 .. count-1. False past the end. */
struct ks_worker_view {
    struct ks_incarnation self;
    enum ks_life life;
    enum ks_mode mode;
    uint64_t beat;
    uint64_t held;
    uint64_t capacity;       /* 0 = no limit. */
    uint64_t load;           /* Bytes a second. */
    ks_instant beat_seen_at; /* When this beat was first seen. */
    bool leads;
};
bool ks_core_worker(const struct ks_core *core, uint32_t index, struct ks_worker_view *ret_view);

/* How many records from `number` on, `count` at most, are assigned in this run without a byte written, up to the first
 * one that is not: they may be begun before the next step, while ks_core_may_finish(). KS_SHARD_NONE: a dead letter. */
uint32_t ks_core_assigned(const struct ks_core *core, ks_shard shard, ks_epoch epoch,
                          ks_number number, uint32_t count, uint64_t assignment);
/* The bytes of those of the records of a shard that are in memory. */
uint64_t ks_core_bytes(const struct ks_core *core, ks_shard shard, ks_epoch epoch, ks_number first,
                       uint32_t count);
/* True while bytes of records of this epoch may be sent: the lease is ours by the clock `now`, it is not returned or
 * its hand-over has not ended, and its final write was not sent. Asked before each buffer, and again before bytes that
 * waited are sent. KS_SHARD_NONE: true. */
bool ks_core_may_finish(const struct ks_core *core, ks_shard shard, ks_epoch epoch, ks_instant now);
/* The same of whole records that were handed to a connection, which holds some of its bytes back: true also when all
 * that was handed over of this epoch is settled. */
bool ks_core_may_send(const struct ks_core *core, ks_shard shard, ks_epoch epoch, ks_instant now);

#endif
