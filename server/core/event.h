/* SPDX-License-Identifier: Apache-2.0 */
/* event.h - all that the core can be told. Arrays are read during the step only. */
#ifndef KS_CORE_EVENT_H
#define KS_CORE_EVENT_H

#include "core/types.h"

enum ks_event_kind {
    KS_EVENT_START,   /* Once, first. */
    KS_EVENT_TICK,    /* ks_core_deadline() has come. */
    KS_EVENT_CHANGED, /* Somebody wrote to the table: look for news now (where the store can tell). */
    KS_EVENT_STORE,   /* The answer to KS_EFFECT_STORE. */
    KS_EVENT_LISTED,      /* The answer to KS_EFFECT_LIST. */
    KS_EVENT_RECORDS,     /* The answer to KS_EFFECT_READ: records, possibly none. */
    KS_EVENT_READ_FAILED, /* The answer to KS_EFFECT_READ: nothing came; the reader is still good. */
    KS_EVENT_JUDGED, /* Which records of ks_core_unjudged() the filter of the sessions excludes. */
    KS_EVENT_SESSION_OPEN,   /* -> KS_EFFECT_OPENED or KS_EFFECT_NOT_OPENED. */
    KS_EVENT_SESSION_PULL,   /* The consumer can take some now -> KS_EFFECT_DELIVER, any number. */
    KS_EVENT_SESSION_DETACH, /* Its connection is gone; requeue after the grace. */
    KS_EVENT_SESSION_CLOSE,  /* It is over; requeue at once. */
    KS_EVENT_SESSION_UPDATE, /* Other limits from now on. */
    KS_EVENT_WRITE, /* What became of records of a run that was delivered: how far they are written. */
    KS_EVENT_SETTLE,     /* -> KS_EFFECT_SETTLED. */
    KS_EVENT_CHECKPOINT, /* Cumulative: every record delivered up to `number` -> KS_EFFECT_SETTLED. */
    KS_EVENT_PERSIST,    /* Somebody waits: write the checkpoint of `shard` as soon as possible. */
    KS_EVENT_DRAIN,      /* Give everything back; patience ends after `span`. */
    KS_EVENT_HURRY,      /* The patience of a drain is over now. */
    KS_EVENT_LOAD,       /* How much is delivered: the next heartbeat tells the fleet. */
    KS_EVENT_BUDGET,     /* The payload that may be held has changed. */
    KS_EVENT_KIN,    /* KCL: whether the others of this process on our table want leases, too. */
    KS_EVENT_LOCKED, /* The answer to KS_EFFECT_LOCK. */
    /* An operator's orders (core/operator.h). */
    KS_EVENT_PAUSE,
    KS_EVENT_RESUME,  /* `shard`; what the poison policy stopped goes on, too. */
    KS_EVENT_RELEASE, /* `shard` -> KS_EFFECT_OPERATED. */
    KS_EVENT_SEEK, /* -> KS_EFFECT_OPERATED; when that is OK and it was no dry run, KS_EFFECT_SOUGHT in the end. */
    KS_EVENT_SKIP,   /* A record that blocks its lane is given up -> KS_EFFECT_OPERATED. */
    KS_EVENT_GRANT,  /* Explicit credit for a session. */
    KS_EVENT_BURIED, /* The answer to KS_EFFECT_BURY. */
    /* Dead letters that are delivered again (core/redrive.h). */
    KS_EVENT_REDRIVE,
    KS_EVENT_DISCARDED, /* Somebody removed a letter from the store. */
    KS_EVENT_LETTER     /* The answer to KS_EFFECT_LETTER. */
};

struct ks_event {
    enum ks_event_kind kind;
    union {
        struct {
            uint64_t token;
            enum ks_outcome outcome;
            const struct ks_worker_row *workers; /* See struct ks_store_answer. */
            const struct ks_lease_row *leases;
            uint32_t worker_count;
            uint32_t lease_count;
            struct ks_leader_row leader;
            struct ks_kcl_rows kcl;
            struct ks_list_row list;
            bool app_present;
        } store;
        struct {
            bool ok;
            const struct ks_shard_row *shards;
            uint32_t count;
        } listed;
        struct {
            ks_shard shard;
            ks_epoch epoch;
            const uint32_t *sizes; /* Bytes of each record: data + partition key. */
            /* NULL: all in one lane. Of each partition key: any even one, the same for the same key. */
            const uint8_t *hashes;
            /* NULL: never. After so many seconds from the begin of the epoch a record that fails is too old to be tried
             * again; UINT32_MAX: never. */
            const uint32_t *stale_s;
            /* NULL: none. What the subscription does not want: it is settled as it comes, and never delivered. */
            const bool *filtered;
            uint32_t count;
            bool at_end; /* The shard is closed and these were its last records. */
        } records;
        struct {
            ks_shard shard;
            ks_epoch epoch;
            ks_number first;
            uint32_t count;
            const bool *excluded; /* Of each record. */
        } judged;
        struct {
            ks_shard shard;
            ks_epoch epoch;
            bool throttled;
            bool full; /* Our own byte budget refused. */
        } read_failed;
        struct {
            ks_session_id take_over; /* The live session with the same client id, or NONE. */
            bool pulls; /* A long-poll client: no connection to lose; over after `linger` unused. */
            uint32_t max_in_flight;
            uint64_t max_in_flight_bytes;
            ks_span ack_deadline;
            ks_span grace;          /* From DETACH to the requeue. */
            ks_span linger;         /* For `pulls`. */
            const ks_shard *shards; /* Only these; count 0 = all. At most KS_SESSION_SHARDS_MAX. */
            uint32_t shard_count;
            enum ks_ordering ordering; /* Refused if others are there and say otherwise. */
            uint32_t lanes;            /* BY_KEY: 1 to lanes_max. */
            /* Millionths of the lanes that only sessions with this share get, in each shard (core/lanes.h); 0: all
             * other lanes. Goes with BY_KEY. Refused if others are there with another share or salt. */
            uint32_t share;
            uint64_t salt; /* With a share: a hash of the text that chooses which lanes. */
            /* The number of the filter of the session; 0: none. Records are delivered after KS_EVENT_JUDGED only.
             * Refused if others are there with another filter. A number never stands for two filters. */
            uint64_t filter;
            bool explicit_credit;      /* It gets only what is granted, within its limits. */
            uint32_t max_record_bytes; /* Data and key of a record that it takes; 0: any. */
        } open;
        struct {
            ks_session_id session;
            uint32_t max_records;
            uint64_t max_bytes; /* At least one record is delivered even when it is larger. */
            uint32_t max_runs;  /* DELIVER effects at most. */
            /* 0, or the last pull of an answer that has records already: nothing is assigned if the session pulled
             * since, and no record larger than max_bytes. */
            uint64_t after;
        } pull;
        struct {
            ks_session_id session;
            bool
                cut; /* DETACH: we ended the connection. What the session has in flight has not failed. */
        } session; /* DETACH, CLOSE. */
        struct {
            enum ks_write_stage stage;
            ks_session_id session;
            ks_shard shard; /* KS_SHARD_NONE: dead letters. */
            ks_epoch epoch;
            ks_number first;
            uint32_t count;
            uint64_t assignment; /* As in KS_EFFECT_DELIVER. */
        } write;
        struct {
            ks_session_id session;
            /* As in `open`; 0: as it was. */
            uint32_t max_in_flight;
            uint64_t max_in_flight_bytes;
            uint32_t max_record_bytes;
        } update;
        struct {
            ks_session_id session;
            uint32_t session_epoch;
            ks_shard shard;
            ks_epoch epoch;
            ks_number first;
            uint32_t count;
            /* The delivery that it names; 0: the last one. RETRY and EXTEND are about this one alone. An ACK of records
             * that were named together counts for what was written in it. */
            uint64_t assignment;
            bool
                alone; /* The record was named by itself: an ACK counts for every delivery to the session. */
            enum ks_settle_outcome outcome;
            ks_span
                delay; /* RETRY: not before, or KS_DELAY_BY_POLICY; EXTEND: the new deadline from now. */
        } settle;
        struct {
            ks_shard shard;
            ks_epoch epoch;
            ks_number number;
        } checkpoint;
        struct {
            ks_shard shard;
        } persist;
        struct {
            ks_span span;
        } drain;
        struct {
            uint64_t load; /* Bytes a second. */
        } load;
        struct {
            uint64_t bytes;
        } budget;
        struct {
            bool away; /* One of them wants none. */
        } kin;
        struct {
            uint64_t boot; /* As asked. */
            bool ok;       /* It is durable. */
        } locked;
        struct {
            ks_shard shard;   /* KS_SHARD_NONE: all of them, also those that come. */
            bool keeps;       /* The leases stay with us. */
            ks_instant until; /* NEVER: until RESUME. */
        } pause;
        struct {
            ks_shard shard; /* RESUME: KS_SHARD_NONE: all of them. */
        } shard;
        struct {
            ks_shard shard;
            bool force;   /* Though it is not paused. */
            bool dry_run; /* Only say whether it may be. */
        } seek;
        struct {
            ks_shard shard;
            ks_number number; /* Of the current epoch. */
            bool keep;        /* As a dead letter; otherwise the record is lost. */
            bool dry_run;     /* Only say whether it may be. */
        } skip;
        struct {
            ks_session_id session;
            uint32_t records; /* More than before. */
        } grant;
        struct {
            ks_shard shard;
            ks_epoch epoch;
            uint32_t serial;
            enum ks_outcome outcome;
        } buried;
        struct {
            ks_number number;  /* Greater than any before. At most KS_REDRIVES_MAX at one time. */
            ks_shard shard;    /* Of the record; KS_SHARD_NONE: not known any more. */
            uint32_t bytes;    /* Data and partition key. */
            uint8_t hash;      /* Of its partition key, as in `records`. */
            uint32_t attempts; /* Deliveries so far. */
            uint32_t stale_s;  /* After so many seconds it is too old to fail; UINT32_MAX: never. */
        } redrive;
        struct {
            ks_number number;
            enum ks_outcome outcome; /* LETTER: REFUSED: the store has no such letter. */
        } letter;                    /* DISCARDED, LETTER. */
    };
};

#endif
