/* SPDX-License-Identifier: Apache-2.0 */
/* types.h - the nouns that events and effects are made of. Numbers only: the switchboard knows the names. */
#ifndef KS_CORE_TYPES_H
#define KS_CORE_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/instant.h"
#include "core/limits.h"
#include "core/table.h"

/* A shard's number in the directory: 0 .. shards_max - 1, given out by the switchboard; it stands for one shard until
 * ks_core_free. */
typedef uint32_t ks_shard;
#define KS_SHARD_NONE UINT32_MAX

/* One span of holding a lease; the fencing token. */
typedef uint64_t ks_epoch;

/* A record within an epoch: 0, 1, 2 .. in the order of the shard. */
typedef uint64_t ks_number;

/* A local consumer's slot: 0 .. sessions_max - 1. */
typedef uint32_t ks_session_id;
#define KS_SESSION_NONE UINT32_MAX

/* One run of one worker process. Worker 0 is nobody. */
struct ks_incarnation {
    uint32_t worker;
    uint64_t boot;
};
#define KS_NOBODY ((struct ks_incarnation){0, 0})

static inline bool ks_incarnation_equal(struct ks_incarnation a, struct ks_incarnation b)
{
    return a.worker == b.worker && a.boot == b.boot;
}

/* "shard@epoch" in the give and take sets. */
struct ks_lease_token {
    ks_shard shard;
    ks_epoch epoch;
};

struct ks_worker_row {
    struct ks_incarnation self;
    enum ks_life life;
    enum ks_mode mode;
    uint64_t beat;
    uint64_t held;
    uint64_t changes;
    uint64_t capacity; /* Leases it takes at most; 0 = no limit. */
    uint64_t load;     /* Bytes a second that it delivers. */
    const struct ks_lease_token *gives;
    const struct ks_lease_token *takes;
    uint32_t give_count;
    uint32_t take_count;
    bool measured; /* KCL: it says its CPU. */
    uint32_t rank; /* Of its id among those that were read, in the order of bytes. */
    bool damaged;  /* Only self.worker means something; neither alive nor dead. */
};

/* The list of shards that the members of a fleet divide among them, where the table has one. */
struct ks_list_row {
    bool present;
    uint64_t rev;
    const ks_shard *shards;
    uint32_t count;
};

struct ks_leader_row {
    bool present;
    struct ks_incarnation holder; /* Nobody: the office is free. */
    uint64_t epoch;
    uint32_t deputies
        [KS_DEPUTIES_MAX]; /* Workers that watch the whole fleet beside the leader; 0 = none. Named only
                                           where not everybody does (PROTOCOL A4). */
};

/* The rows of KCL 3.x that are about the whole fleet, as one table has them; all zero: it has none. */
struct ks_kcl_rows {
    enum ks_kcl_version version;
    enum ks_kcl_tables tables;
    uint64_t leader;     /* Another one with each heartbeat of whoever leads; 0: nobody does. */
    ks_span leader_span; /* The leader is gone when it has not changed for so long. */
    bool damaged;        /* One of them says what we do not know. */
};

/* A hash key: 128 bits. */
struct ks_hash_key {
    uint64_t high;
    uint64_t low;
};

struct ks_lease_row {
    ks_shard shard;
    struct ks_incarnation owner;
    struct ks_incarnation next_owner;
    ks_epoch epoch;
    uint64_t rev;
    ks_shard parents[KS_PARENTS_MAX]; /* KS_SHARD_NONE: no parent. */
    uint64_t load;                    /* Bytes a second, as its owner measured last. */
    bool ranged;                      /* It says its range of hash keys, both ends included. */
    bool unranged;                    /* It says nothing of hash keys. */
    struct ks_hash_key first_key;
    struct ks_hash_key last_key;
    bool finished;
    bool unstarted; /* Its checkpoint is a start position: it names no record. */
    bool damaged;   /* Cannot be read: left untouched by everybody. */
    /* KCL: of a table of several streams. */
    bool elsewhere; /* It is of another stream: counted, and no business of ours besides. */
    bool unserved;  /* Which this process does not read. */
    /* Of a table whose members know no leases of others (kcl_rb.c). */
    bool stranger; /* Written last by one of them .. */
    bool moved;    /* .. and its checkpoint is another than when it was read before. */
    bool masked;   /* Their processes pass over it: only a worker of ours can read its shard. */
};

/* A shard as the stream lists it. */
struct ks_shard_row {
    ks_shard shard;
    ks_shard parents[KS_PARENTS_MAX];
    bool ranged;
    struct ks_hash_key first_key;
    struct ks_hash_key last_key;
    bool closed; /* Nothing is added to it any more. */
};

enum ks_settle_outcome {
    KS_ACK,
    KS_RETRY,
    KS_EXTEND,
    KS_DEAD_LETTER, /* Settled when its dead letter is durable. */
    KS_DROP         /* Settled, without having been handled. */
};

/* How far records were written to the connection of their session. */
enum ks_write_stage {
    KS_STAGE_BEGUN,   /* Some of their bytes were handed to the connection. */
    KS_STAGE_WRITTEN, /* Their last bytes are in the socket's buffer: their ack deadline begins. */
    KS_STAGE_TORN,    /* They were begun. Their last bytes will never be in the socket's buffer. */
    KS_STAGE_RETURNED /* None of their bytes will be handed to the connection. */
};

/* RETRY: the delay that the poison policy says. */
#define KS_DELAY_BY_POLICY ks_span_us(-1)

/* What is delivered in order. */
enum ks_ordering {
    KS_ORDER_BY_SHARD,
    KS_ORDER_BY_KEY, /* Lane by lane: shard and hash of the partition key. */
    KS_ORDER_NONE,
    KS_ORDER_ANY /* Of a session: as the others have it. */
};

/* Which sessions get the records of a lane: those with a share, or those without. */
enum ks_group { KS_GROUP_REST, KS_GROUP_CANARY };
enum { KS_GROUPS = KS_GROUP_CANARY + 1 };
/* What became of a record in its group. FAILED: as the poison policy counts it, or given up as its app wants it. */
enum ks_count { KS_COUNT_DELIVERED, KS_COUNT_ACKED, KS_COUNT_FAILED };
enum { KS_COUNTS = KS_COUNT_FAILED + 1 };

/* Why a record became a dead letter, or was dropped. */
enum ks_cause { KS_CAUSE_ASKED, KS_CAUSE_ATTEMPTS, KS_CAUSE_AGE };
enum { KS_CAUSES = KS_CAUSE_AGE + 1 };

/* What becomes of a record that failed too often, or is too old to be tried again. */
enum ks_exhausted {
    KS_EXHAUSTED_DEAD_LETTER,
    KS_EXHAUSTED_DROP,
    KS_EXHAUSTED_STOP_SHARD, /* Nothing of its shard is delivered until it is settled or KS_EVENT_RESUME. */
    KS_EXHAUSTED_PAUSE /* Nothing at all. */
};

struct ks_poison_policy {
    uint32_t max_attempts; /* 0: any number. */
    ks_span max_age;       /* Of a record that fails, since it arrived at the stream; 0: any. */
    ks_span back_off
        [KS_BACK_OFFS_MAX]; /* After the first failure, the second ..; the last one for all others. */
    uint32_t back_offs;     /* 0: at once. Each is lengthened by up to a quarter, by chance. */
    enum ks_exhausted exhausted;
};

/* Why a settlement of a record was not accepted. */
enum ks_settle_status {
    KS_SETTLE_OK,
    KS_SETTLE_FENCED,         /* Its lease epoch has ended. */
    KS_SETTLE_EXPIRED,        /* EXTEND: some are not in flight with the session any more. */
    KS_SETTLE_SETTLED,        /* RETRY: it takes nothing back, for all are settled. */
    KS_SETTLE_UNKNOWN,        /* Never delivered in this epoch. */
    KS_SETTLE_SESSION_FENCED, /* Its session was taken over: the whole request is refused. */
    KS_SETTLE_SESSION_EXPIRED /* Its session is over. */
};

/* What became of a settlement of consecutive records. */
struct ks_settled {
    enum ks_settle_status status;
    /* OK, EXPIRED: when a checkpoint covers the shard's records below this, all that was settled is persisted. */
    ks_number up_to;
    /* EXPIRED: the first run of those that come again, or are with another session. Others may follow; the rest of what
     * was asked for is done. */
    ks_number expired_first;
    uint32_t expired_count;
    /* OK, SETTLED: records that were never written. EXPIRED: those of them before expired_first. Nothing was done with
     * them. */
    uint32_t unwritten;
    /* Records that an ack, a drop or a checkpoint settled: not those that were settled before. Of a retry: those that
     * come again by it. */
    uint64_t count;
};

/* Why a session that asks for records gets none. */
enum ks_idle {
    KS_IDLE_NO_DATA,
    KS_IDLE_NO_LEASES,
    KS_IDLE_FLOW_CONTROLLED,
    KS_IDLE_PAUSED,
    KS_IDLE_DRAINING,
    KS_IDLE_THROTTLED,
    KS_IDLE_LANE_BLOCKED,
    KS_IDLE_FENCED,
    KS_IDLE_NO_SESSIONS
};
enum { KS_IDLES = KS_IDLE_NO_SESSIONS + 1 };

#endif
