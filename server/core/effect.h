/* SPDX-License-Identifier: Apache-2.0 */
/* effect.h - all that the core can ask for. The shell performs them in order, right after the step. */
#ifndef KS_CORE_EFFECT_H
#define KS_CORE_EFFECT_H

#include "core/types.h"

enum ks_effect_kind {
    KS_EFFECT_STORE, /* Ask the lease store; the answer is KS_EVENT_STORE with the same token, exactly once. */
    KS_EFFECT_LIST, /* List the stream's shards -> KS_EVENT_LISTED. */
    KS_EFFECT_OPEN, /* Open the shard's reader at the checkpoint of the lease row that was read last. */
    KS_EFFECT_READ,  /* -> KS_EVENT_RECORDS or KS_EVENT_READ_FAILED, unless CLOSE comes first. */
    KS_EFFECT_CLOSE, /* The epoch is over for us: close the reader, drop its records. */
    KS_EFFECT_FORGET, /* Records below `number` are settled: drop them, remember the position of the last one. */
    KS_EFFECT_DELIVER, /* `count` records from `first` go to the session, now. */
    KS_EFFECT_WAKE,    /* The session has something to pull, or a new reason for having nothing. */
    KS_EFFECT_OPENED,
    KS_EFFECT_NOT_OPENED,
    KS_EFFECT_SESSION_ENDED, /* Over, without its own doing. */
    KS_EFFECT_SETTLED,
    KS_EFFECT_PERSISTED, /* The table holds a checkpoint that covers every record below `number`. */
    KS_EFFECT_STORY,     /* A decision: one log line, one event. */
    KS_EFFECT_DRAINED,   /* Nothing is held, and the table knows. */
    KS_EFFECT_REFUSED, /* Our worker id is alive elsewhere: `worker.boot` holds it. We cannot run. */
    KS_EFFECT_LOCK, /* The lock file is to name this boot, durably -> KS_EVENT_LOCKED; then it registers. */
    KS_EFFECT_OPERATED, /* Whether an operator's order is accepted. */
    KS_EFFECT_SOUGHT,   /* A seek has come to its end. */
    KS_EFFECT_BURY, /* Write dead letters of these records -> KS_EVENT_BURIED. The same again: the same letters. */
    KS_EFFECT_LETTER, /* Remove a letter that came again, or say that it was given up again -> KS_EVENT_LETTER. */
    KS_EFFECT_LETTER_OVER /* The store knows what became of it: `remove`, or it stays. */
};

enum ks_not_opened {
    KS_NOT_OPENED_FULL,
    KS_NOT_OPENED_DRAINING,
    KS_NOT_OPENED_ORDERING, /* Others are there, and their records are ordered in another way. */
    KS_NOT_OPENED_SHARE,    /* Others have a share, and it is another one. */
    KS_NOT_OPENED_FILTER    /* Others are there, and have another filter. */
};
enum ks_operator_status {
    KS_OPERATOR_OK,
    KS_OPERATOR_NOT_HELD,   /* The lease is not ours. */
    KS_OPERATOR_NOT_PAUSED, /* A seek wants its shard paused, or force. */
    KS_OPERATOR_BUSY,       /* The lease is being given away, ended or sought. */
    KS_OPERATOR_FOREIGN,    /* The table, which others made, has no room for what is ordered. */
    KS_OPERATOR_NOT_BLOCKED /* The record that is to be skipped blocks nothing. */
};
enum ks_session_end { KS_END_TAKEN_OVER, KS_END_GRACE, KS_END_LINGER, KS_END_DRAINED };

/* clang-format off */
/* The story: what was decided, and why. The sentence is rendered from the table by ports/story.c, with names.
 * word, level, event, sentence */
#define KS_STORY_TABLE(X)                                                                          \
    X(REGISTERED, INFO, NULL, "{worker}: registered under boot {boot}")                            \
    X(WAITS_FOR_OLD_SELF, INFO, NULL,                                                              \
      "{worker}: an earlier run under this id may still be alive, watching it for {ms} ms")        \
    X(FENCED, WARN, NULL, "{worker}: fenced by the fleet, starting again under a new boot")        \
    X(HEARTBEAT_LATE, WARN, NULL, "{worker}: no heartbeat got through, deliveries rest past the lease deadline") \
    X(HEARTBEAT_BACK, INFO, NULL, "{worker}: heartbeats get through again, deliveries go on")      \
    X(FAILING, WARN, NULL,                                                                         \
      "{worker}: no read of the stream has succeeded for {ms} ms, giving the leases to others")    \
    X(OFFICE_WON, INFO, NULL, "{worker}: leads the fleet")                                         \
    X(OFFICE_LOST, INFO, NULL, "{worker}: no longer leads the fleet")                              \
    X(DIVIDED, INFO, NULL, "{worker}: number {number} of {count} clients, by which the shards are divided") \
    X(FENCES, INFO, NULL, "{worker}: fenced, silent for {ms} ms")                                  \
    X(CREATED, INFO, "reshard", "{shard}: lease row made")                                         \
    X(ASSIGNED, INFO, NULL, "{shard}: assigned to {worker}, it was free")                          \
    X(TAKEN_OVER, INFO, NULL, "{shard}: taken over for {worker}, its owner is dead")               \
    X(MOVES, INFO, NULL, "{shard}: to move to {worker}")                                           \
    X(EVENS_OUT, INFO, NULL, "{shard}: to move to {worker}, traffic is uneven")                    \
    X(STAYS, INFO, NULL, "{shard}: to stay where it is, nobody else can take it")                  \
    X(FORCED, WARN, NULL, "{shard}: taken from its owner for {worker}, it did not give it in time") \
    X(ACQUIRED, INFO, "lease_acquired", "{shard}: acquired, epoch {epoch}")                        \
    X(LOST, WARN, "lease_lost", "{shard}: lost, epoch {epoch} is over")                            \
    X(RETURNING, INFO, "lease_returning", "{shard}: giving it back, epoch {epoch}")                \
    X(RELEASED, INFO, "lease_lost", "{shard}: released, epoch {epoch} is over")                    \
    X(SHARD_END, INFO, "shard_end", "{shard}: read to its end, all settled")                       \
    X(POISON, WARN, "poison", "{shard}: record {record} failed {count} times")                     \
    X(OVERDUE, WARN, NULL,                                                                         \
      "{shard}: record {record} was not settled within its ack deadline and comes again, {count} since this was told") \
    X(CRAMPED, WARN, "record_too_large",                                                           \
      "{shard}: no room in memory for its next record since 5 s, raise --memory-budget-bytes")     \
    X(DAMAGED, WARN, NULL, "{shard}: its lease row is damaged, leaving it alone")                  \
    X(UNREAD, WARN, NULL,                                                                          \
      "{shard}: free for {ms} ms though it falls to {worker}, who lives: nobody reads it, look at that client") \
    X(STRANGERS, WARN, NULL,                                                                       \
      "{shard}: kcl-rb is at work on it, so nothing is taken and nothing kept: stop it, or set --lease-masking") \
    X(STRANGERS_GONE, INFO, NULL, "no kcl-rb is at work any more, leases are taken")               \
    X(MASK_OVERWRITTEN, WARN, NULL,                                                                \
      "{shard}: kcl-rb took its row while it was masked, so records come twice; the row is taken again") \
    X(NEVER_FREE, WARN, NULL,                                                                      \
      "{shard}: kcl-rb has not freed its row for {ms} ms, so no mask can be put on: stop that process") \
    X(CHILD, WARN, NULL, "{shard}: a child, at which kcl-rb ends: there is no way back to it")     \
    X(HOLE, WARN, NULL,                                                                            \
      "{number} millionths of the hash keys, from {count} on, have no open lease, listing the shards again") \
    X(COVERED, INFO, NULL, "every hash key has an open lease again")                               \
    X(READ_AGAIN, WARN, NULL,                                                                      \
      "{shard}: open in the stream, finished in the table, for {ms} ms; it is read again from its start") \
    X(WAITS_FOR_DEAD, INFO, NULL,                                                                  \
      "{number} leases belong to a worker that is silent, waiting until it may be taken as dead")  \
    X(CROWDED, WARN, NULL,                                                                         \
      "{number} workers are live, more than a fleet can have: nothing is given or taken over by us") \
    X(HOLDS_ALL, WARN, NULL,                                                                       \
      "{number} leases are held, more than that this process cannot hold: start others beside it") \
    X(DRAINING, INFO, NULL, "draining: {number} leases to give back")                              \
    X(PATIENCE_OVER, WARN, NULL,                                                                   \
      "draining: the grace is over, {number} records stay unsettled and will come again")        \
    X(PAUSED, INFO, "paused", "{shard}: paused by an operator, nothing is read or delivered")      \
    X(PAUSED_ALL, INFO, "paused", "paused by an operator, nothing is read or delivered")           \
    X(RESUMED, INFO, "resumed", "{shard}: resumed")                                                \
    X(RESUMED_ALL, INFO, "resumed", "resumed, everything is read and delivered again")             \
    X(SOUGHT, WARN, "seek", "{shard}: its checkpoint was moved by an operator, epoch {epoch} is over") \
    X(TOO_LARGE, WARN, "record_too_large",                                                         \
      "{shard}: record {record} of {count} bytes is larger than its client takes, its lane waits") \
    X(DEAD_LETTER, WARN, "dead_letter", "{shard}: {count} records from {record} on are dead letters, {cause}") \
    X(NOT_BURIED, ERROR, NULL,                                                                     \
      "{shard}: {count} dead letters from {record} on cannot be written, trying until they are")   \
    X(DROPPED, WARN, "record_dropped", "{shard}: {count} records from {record} on are dropped, {cause}") \
    X(STOPPED, ERROR, "poison", \
      "{shard}: stopped by record {record}, which failed {count} times: settle it, POST /v1/resume to try again, "  \
      "or kinesis-sidecar skip {shard}")                                                           \
    X(SKIPPED, WARN, "record_dropped",                                                             \
      "{shard}: record {record} was skipped by an operator and is lost, there are no dead letters") \
    X(GOES_ON, INFO, "resumed", "{shard}: goes on, no record stops it any more") \
    X(KCL_EQUALS, INFO, NULL, "{worker}: the fleet is of the manners of KCL 2.x: leases are taken")   \
    X(KCL_ASSIGNED, INFO, NULL, "{worker}: the fleet is of the manners of KCL 3.x: its leader assigns leases") \
    X(KCL_UNLED, WARN, NULL,                                                                       \
      "{worker}: nobody has led the fleet of KCL 3.x for {ms} ms, free leases are taken until somebody does") \
    X(KCL_UNSERVED, ERROR, NULL,                                                                   \
      "{worker}: the table has streams that this process does not read: nothing is said to its leader") \
    X(KCL_UNKNOWN, ERROR, NULL,                                                                    \
      "{worker}: the fleet's state rows say what this version does not know, its manners are not changed") \
    X(REST_AWAY, WARN, NULL,                                                                       \
      "only sessions with a share are open: records of all other keys wait, open a session without a share") \
    X(REST_BACK, INFO, NULL, "a session without a share is open: records of all keys are delivered") \
    X(GAP_FULL, WARN, "lane_blocked",                                                              \
      "{shard}: nothing more is read until record {record} is settled, {count} behind it are held")

/* clang-format on */

enum ks_story {
#define X(word, level, event, sentence) KS_STORY_##word,
    KS_STORY_TABLE(X)
#undef X
};

struct ks_store_effect {
    enum ks_store_operation operation;
    uint64_t token;
    bool consistent;
    struct ks_incarnation worker; /* We ourselves, or the worker the operation is about. */
    enum ks_mode mode;
    uint64_t expect_boot;
    uint64_t expect_beat;
    uint64_t held;
    uint64_t changes;
    uint64_t capacity; /* REGISTER_*. */
    uint64_t
        load; /* Bytes a second: HEARTBEAT: that we deliver; CHECKPOINT, FINAL: of the shard. */
    uint32_t deputies[KS_DEPUTIES_MAX]; /* NAME_DEPUTIES: 0 = none. */
    const struct ks_lease_token *gives; /* Valid until the next step. */
    const struct ks_lease_token *takes;
    uint32_t give_count;
    uint32_t take_count;
    ks_shard shard;
    struct ks_incarnation owner;
    struct ks_incarnation next_owner;
    ks_epoch epoch;
    uint64_t rev;
    bool together; /* KCL: where rows about the fleet are. */
    bool measured; /* KCL: HEARTBEAT: with our CPU. */
    uint64_t
        next_rev; /* Writes of a lease row: its rev from then on. KCL: HEARTBEAT: the time, in s since 1970. */
    const ks_shard *shards; /* NAME_SHARDS: in any order. Valid until the next step. */
    uint32_t shard_count;
    /* CHECKPOINT, FINAL: the position of the last record below this, as remembered at FORGET; 0 = nothing was settled
     * in this epoch, the checkpoint of the row stays. */
    ks_number up_to;
};

struct ks_effect {
    enum ks_effect_kind kind;
    union {
        struct ks_store_effect store;
        struct {
            ks_shard shard;
            ks_epoch epoch;
            uint32_t max_records; /* READ. */
            uint32_t max_bytes;   /* READ: payload, about; at least one record. */
            ks_number number;     /* FORGET, PERSISTED. */
        } lease;                  /* OPEN, READ, CLOSE, FORGET, PERSISTED. */
        struct {
            ks_session_id session;
            ks_shard shard;
            ks_epoch epoch;
            ks_number first;
            uint32_t count;
            uint32_t attempt; /* From 1. */
            uint64_t bytes;   /* Of all: data and partition keys. */
            uint64_t
                assignment; /* The number of the pull: above 0, above that of every pull before. */
        } deliver;          /* A dead letter: KS_SHARD_NONE, epoch 0, and its own number. */
        struct {
            ks_session_id session;
            uint32_t session_epoch;     /* OPENED. */
            enum ks_not_opened why_not; /* NOT_OPENED. */
            enum ks_session_end why;    /* SESSION_ENDED. */
        } session;                      /* WAKE, OPENED, NOT_OPENED, SESSION_ENDED. */
        struct ks_settled settled;
        struct {
            enum ks_story story;
            ks_shard shard;
            struct ks_incarnation worker;
            ks_epoch epoch;
            uint64_t number;
            uint32_t count;
            ks_span span;        /* {ms} */
            enum ks_cause cause; /* {cause} */
        } story;
        struct {
            struct ks_incarnation worker;
        } refused;
        struct {
            uint64_t boot;
        } lock;
        struct {
            enum ks_operator_status status;
        } operated;
        struct {
            ks_shard shard;
            ks_epoch epoch; /* That was to end. */
            bool done; /* The table has it. Otherwise the lease was lost or given away before. */
        } sought;
        struct {
            ks_shard shard;
            ks_epoch epoch;
            ks_number first;
            uint32_t count; /* At most KS_BURY_MAX. */
            uint32_t attempts;
            enum ks_cause cause;
            uint32_t serial; /* Comes back with the answer. */
        } bury;
        struct {
            ks_number number;
            bool remove;       /* It was acknowledged. Else it stays, LETTER: with these. */
            uint32_t attempts; /* Deliveries in all. */
            enum ks_cause cause;
        } letter;
        struct {
            bool clean;       /* Nothing stayed unsettled, and every final write is durable. */
            uint64_t unsaved; /* Acknowledged records that no checkpoint covers: they come again. */
        } drained;
    };
};

/* The effects of one step. The caller empties it before each step. */
struct ks_effects {
    struct ks_effect items[KS_EFFECTS_MAX];
    uint32_t count;
};

#endif
