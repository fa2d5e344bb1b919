/* SPDX-License-Identifier: Apache-2.0 */
/* limits.h - every maximum of the house that has a number, with its reason. */
#ifndef KS_CORE_LIMITS_H
#define KS_CORE_LIMITS_H

enum {
    KS_SHARD_ID_MAX = 128,       /* Characters of a shard id (Kinesis API reference: 128). */
    KS_SEQUENCE_MAX = 129,       /* Digits of a sequence number: 0|([1-9]\d{0,128}). */
    KS_PARTITION_KEY_MAX = 1024, /* Bytes: 256 Unicode characters of up to 4 bytes. */
    KS_HASH_KEY_MAX = 39,        /* Digits of a 128-bit hash key. */
    KS_STREAM_NAME_MAX = 128,    /* Characters of a stream name. */
    KS_ACCOUNT_MAX = 12,         /* Digits of an account. */
    /* Characters of "ACCOUNT:STREAM:EPOCH", by which the KCL names one stream of several, the epoch a Java long; and of
     * a key of its lease table, "STREAM-ID:SHARD". */
    KS_STREAM_ID_MAX = KS_ACCOUNT_MAX + 1 + KS_STREAM_NAME_MAX + 1 + 19,
    KS_LEASE_KEY_MAX = KS_STREAM_ID_MAX + 1 + KS_SHARD_ID_MAX,
    KS_ARN_MAX = 2048,              /* Characters of a stream ARN. */
    KS_WORKER_ID_MAX = 128,         /* Characters of a worker id: fits a pod name with a suffix. */
    KS_CLIENT_ID_MAX = 64,          /* Characters of a client or session id. */
    KS_RECORD_BYTES_MAX = 10 << 20, /* Data of one record (UpdateMaxRecordSize). */
    KS_READ_RECORDS_MAX = 10000,    /* Records of one GetRecords. */
    KS_READ_BYTES_MAX = 10 << 20,   /* Payload of one GetRecords. */
    KS_PARENTS_MAX = 2,             /* A merge has two. */
    KS_CHILDREN_MAX = 2,            /* A split has two. */
    KS_DEPUTIES_MAX = 2,  /* Workers that watch a large fleet beside its leader (PROTOCOL A1). */
    KS_TOKENS_MAX = 128,  /* give or take tokens of one hint write (PROTOCOL A3). */
    KS_EFFECTS_MAX = 512, /* Effects of one step; whoever makes many spreads them over steps. */
    KS_SESSION_SHARDS_MAX = 64,  /* Shards that one session may name. */
    KS_LANES_MAX = 64,           /* Lanes of a shard: a set of them is one word. */
    KS_SHARE_ALL = 1000000,      /* A share is told in millionths: six digits of a decimal. */
    KS_BACK_OFFS_MAX = 16,       /* Steps of a poison policy's back-off list. */
    KS_BURY_MAX = 64,            /* Records of one write of dead letters. */
    KS_BURY_BYTES_MAX = 4 << 20, /* Their payload, about: at least one. */
    KS_BURIALS_MAX = 4,          /* Such writes at one time: their payload is in memory twice. */
    KS_REDRIVES_MAX = 256,       /* Dead letters that are delivered again at one time. */
    KS_BATCH_RUNS_MAX =
        16 /* Runs (shard, first, count, pull) of one batch: its id stays below 600 characters. */
};

/* Largest numbers of a row of the lease table. A row that says more is damaged: nothing is added to its numbers, which
 * would not fit then. The core goes a few epochs beyond the row that it began with, each of which has 40 bits in an
 * ack_id; 2^20 are kept for that. */
#define KS_EPOCH_MAX ((UINT64_C(1) << 40) - 1)
#define KS_ROW_EPOCH_MAX (KS_EPOCH_MAX - (UINT64_C(1) << 20))
/* Revisions, heartbeats and other counters: a write may add 1 as long as a process lives. */
#define KS_ROW_COUNTER_MAX ((uint64_t)INT64_MAX - UINT32_MAX)
/* Bytes a second: the sum over all leases of a table has 64 bits. */
#define KS_ROW_LOAD_MAX (UINT64_C(1) << 40)

#endif
