/* SPDX-License-Identifier: Apache-2.0 */
/* lease_store.h - the port behind which the lease table lies (DynamoDB, SQLite).
 *
 * It carries the rows and the conditional writes of the native fleet protocol (docs/PROTOCOL.md, A1, A3, A5): the core
 * decides which write, the adapter performs exactly that one. Text ids here; the core's numbers are the switchboard's
 * business.
 *
 * Promises of every implementation (tests/contract/lease_store_test.c):
 *  - an answer never arrives inside the call that asked for it, and arrives exactly once;
 *  - a write is all or nothing, and its condition is checked where it is applied;
 *  - DONE only if it is applied and durable; REFUSED only if its condition did not hold; everything else (timeout, cut,
 *    5xx, throttle, close) is UNKNOWN;
 *  - an unanswered request is UNKNOWN after `timeout` of the request, and a late answer is dropped; where a read of
 *    all lease rows comes in pages, each has that time (2 s at least), and all of them 30 s: what it tells may be as
 *    old as that, and is to be taken as of when it was asked for;
 *  - a read answers all rows, over all pages, or fails; a row that cannot be read is answered as `damaged` with its key
 *    and left untouched;
 *  - attributes that we do not know survive our writes.
 */
#ifndef KS_PORTS_LEASE_STORE_H
#define KS_PORTS_LEASE_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/instant.h"
#include "core/limits.h"
#include "core/types.h"

/* One run of one worker process: written as "id#boot" with the boot as 16 lower-case hex digits; id "" = nobody. */
struct ks_incarnation_text {
    char id[KS_WORKER_ID_MAX + 1];
    uint64_t boot;
};

/* "shard@epoch" in the give and take sets. */
struct ks_store_token {
    char shard[KS_SHARD_ID_MAX + 1];
    uint64_t epoch;
};

struct ks_store_worker {
    struct ks_incarnation_text self;
    enum ks_life life;
    enum ks_mode mode;
    uint64_t beat;
    uint64_t held;
    uint64_t changes;
    const struct ks_store_token *gives; /* Of the answer; valid during the call of `answered`. */
    const struct ks_store_token *takes;
    uint32_t give_count;
    uint32_t take_count;
    uint64_t capacity;
    uint64_t load;
    char version[32];
    bool
        measured; /* KCL: it says its CPU; its beat is the time of its last report, in s since 1970. */
    bool damaged; /* Only self.id means something. */
};

struct ks_store_leader {
    bool present; /* The row exists. */
    struct ks_incarnation_text holder;
    uint64_t epoch;
    char deputies[KS_DEPUTIES_MAX][KS_WORKER_ID_MAX + 1]; /* Worker ids; "" = none. */
};

enum ks_position_kind {
    KS_POSITION_TRIM_HORIZON,
    KS_POSITION_LATEST,
    KS_POSITION_AT_TIMESTAMP,
    KS_POSITION_AFTER_SEQUENCE, /* The record after (sequence, sub_sequence); inside an aggregate for a sub >= 0. */
    KS_POSITION_AT_SEQUENCE,
    KS_POSITION_SHARD_END
};

/* A place in a shard. A checkpoint is AFTER_SEQUENCE of the last settled record, or a start position, or SHARD_END. */
struct ks_position {
    enum ks_position_kind kind;
    int64_t timestamp_ms; /* AT_TIMESTAMP; of kcl, LATEST: since when, 0 = not said. */
    char sequence[KS_SEQUENCE_MAX + 1]; /* AFTER_, AT_SEQUENCE. */
    int64_t sub_sequence;               /* -1: the record is no part of an aggregate. */
};

/* True if both are the same place, said in the same way. */
bool ks_position_same(const struct ks_position *a, const struct ks_position *b);

struct ks_store_app {
    bool present;
    struct ks_position
        start; /* Never LATEST: that was turned into AT_TIMESTAMP when the row was made. */
    char stream_arn[KS_ARN_MAX + 1];
    int64_t stream_created_ms; /* 0: unknown. */
};

struct ks_store_lease {
    char stream[KS_STREAM_ID_MAX +
                1]; /* KCL: of a table of several streams, whose it is (streams.h); "": of one. */
    char shard[KS_SHARD_ID_MAX + 1];
    struct ks_incarnation_text owner;
    struct ks_incarnation_text next_owner;
    uint64_t epoch;
    uint64_t rev;
    struct ks_position checkpoint;
    struct ks_position
        whole;      /* Of tables that know no place inside an aggregate: as they know it. */
    bool unstarted; /* Of tables that know no start position: there is no checkpoint yet. */
    bool
        begins; /* Likewise, ASSIGN, TAKE_OVER: `checkpoint` is a start, and the row is to keep it. */
    bool masked;   /* kcl-rb: its table says SHARD_END, and the checkpoint beside it. */
    bool stranger; /* kcl-rb: written last by somebody who is no sidecar. */
    /* kcl-rb: id of the sidecar that masked a row without an owner; "": there is an owner, or no mask. */
    char masked_by[KS_WORKER_ID_MAX + 1];
    bool prepared; /* kcl: a checkpoint of a member waits for its second phase. */
    char parents[KS_PARENTS_MAX][KS_SHARD_ID_MAX + 1]; /* "" = none. */
    char children[KS_CHILDREN_MAX][KS_SHARD_ID_MAX + 1];
    char hash_start[KS_HASH_KEY_MAX + 1];
    char hash_end[KS_HASH_KEY_MAX + 1];
    uint64_t load; /* Bytes a second, as its owner measured last; absent = 0. */
    bool finished;
    bool damaged; /* Only `stream`, `shard`, `blame` and `words` mean something. */
    const char
        *blame; /* Of a damaged one: the attribute that cannot be read, a literal; NULL: its key. */
    const char *
        words; /* If they were asked for: its attributes as they stand there, "name value\n" each, of the
                          answer; a value is "?" if it has a type that the dialect does not know. */
};

enum { KS_CPU_SAMPLES_MAX = 10 }; /* noOfPersistedMetricsPerWorkerMetrics. */
#define KS_CPU_NONE UINT32_MAX    /* It could not be measured. */
/* The list of shards that the members of a fleet divide among them, where the table has one. */
struct ks_store_list {
    bool present;
    uint64_t rev;
    ks_view shards; /* Ids, joined by '\n', in the order of the list. */
};

/* The lower-case word for logs and metrics: "heartbeat". */
const char *ks_store_operation_name(enum ks_store_operation operation);

struct ks_store_answer;

/* A request. Only the fields that the operation names are read. The adapter copies what it needs before it returns. */
struct ks_store_request {
    enum ks_store_operation operation;
    bool consistent; /* READ_FLEET, READ_LEASES: strongly consistent. */
    struct ks_incarnation_text worker;
    enum ks_mode mode;
    uint64_t expect_boot;
    uint64_t expect_beat;
    uint64_t held;
    uint64_t changes;
    uint64_t load;                         /* HEARTBEAT; CHECKPOINT, FINAL. */
    const char *deputies[KS_DEPUTIES_MAX]; /* NAME_DEPUTIES: NULL = none. */
    uint64_t capacity;                     /* REGISTER_*: leases that it may hold. */
    const char *version;                   /* REGISTER_*: at most 31 characters; NULL: not said. */
    const struct ks_store_token *gives;    /* At most KS_TOKENS_MAX in each. */
    const struct ks_store_token *takes;
    uint32_t give_count;
    uint32_t take_count;
    const char
        *stream; /* KCL: of a table of several streams, whose shard it is; NULL, "": of one. */
    const char *shard;
    struct ks_incarnation_text owner;
    struct ks_incarnation_text next_owner;
    uint64_t epoch;
    uint64_t rev;
    uint64_t next_rev; /* Of tables whose rev is a time: the new one. */
    bool has_checkpoint;
    struct ks_position checkpoint;
    struct ks_position
        whole; /* Of it and before it, the last record that is no part of a begun aggregate. */
    const char *children[KS_CHILDREN_MAX];
    const struct ks_store_lease
        *lease; /* CREATE, FILL, MEND; of kcl-rb, ASSIGN, TAKE_OVER: as read; of kcl: its LATEST. */
    bool exists;                    /* MEND: there is a row. */
    bool words;                     /* READ_LEASES, READ_LEASE: with the words of each row. */
    bool masks;                     /* kcl-rb: the row is masked while we hold it; MEND: it was. */
    const struct ks_store_app *app; /* CREATE_APP. */
    bool together; /* KCL 3.5: the row is in the table of the leases, not in one of its own. */
    bool measured; /* KCL: HEARTBEAT: say `cpu`, too. */
    const uint32_t *cpu; /* In thousandths of a percent, or KS_CPU_NONE; the oldest first. */
    uint32_t cpu_count;  /* At most KS_CPU_SAMPLES_MAX. */
    ks_view shards;      /* NAME_SHARDS: as in a list. */
    ks_span timeout;
    /* Where the answer goes: called once, on the loop, in a later turn. */
    void (*answered)(void *arg, uint64_t token, const struct ks_store_answer *answer);
    void *arg;
    uint64_t token;
};

/* An answer; everything in it is valid only during the call of `answered`. */
struct ks_store_answer {
    enum ks_outcome outcome;
    ks_err
        err; /* For UNKNOWN: why (THROTTLED, TIMEOUT, DENIED ..). NOT_FOUND of a read that is DONE: no such table. */
    struct ks_detail detail; /* Likewise, for people. */
    /* READ_FLEET: all of them; READ_NEWS: those of the two that exist. READ_WORKER, HEARTBEAT done, and a REFUSED write
     * of a worker row where the store tells: the row (worker_count 0: there is none, or the store did not tell). */
    const struct ks_store_worker *workers;
    uint32_t worker_count;
    struct ks_store_leader leader;
    struct ks_store_app app;
    struct ks_kcl_rows kcl;    /* READ_NEWS of KCL. */
    struct ks_store_list list; /* READ_NEWS, where there is one. */
    /* READ_OWNED: of each no more than `shard`. READ_LEASES: all. READ_LEASE: the row or none; so, too, a REFUSED write
     * of a lease row where the store tells. */
    const struct ks_store_lease *leases;
    uint32_t lease_count;
};

struct ks_lease_store {
    const struct ks_lease_store_vtable *vtable;
};

/* The state of the store as a whole, for readiness. */
enum ks_store_state {
    KS_STORE_OPENING, /* Not reached yet, or its table is being created. */
    KS_STORE_READY,   /* The last request was answered. */
    KS_STORE_AWAY,    /* No answer lately; requests go on. */
    KS_STORE_UNUSABLE /* Foreign schema, access denied, corrupted: somebody must look. */
};

struct ks_lease_store_vtable {
    /* Sends a request. Never fails: what cannot be sent is answered UNKNOWN, later. */
    void (*ask)(struct ks_lease_store *store, const struct ks_store_request *request);
    /* READY, or what is wrong and what to do about it, in `ret_detail`. */
    enum ks_store_state (*state)(const struct ks_lease_store *store, struct ks_detail *ret_detail);
    /* Answers every open request with UNKNOWN (CANCELLED), during this call, and frees the store. */
    void (*close)(struct ks_lease_store *store);
};

#endif
