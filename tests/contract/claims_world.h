/* SPDX-License-Identifier: Apache-2.0 */
/* claims_world.h - workers redrive the letters of one store at the same time (docs/PROTOCOL.md, A9).
 *
 * The workers are a model of ports/board_redrive.c; the requests are those of a real adapter, on a store in memory.
 * Requests arrive late, out of order and after their answer was given up; answers are lost; workers are paused and die;
 * clocks of workers lag behind the store's; the owner of a shard writes its letters anew; people discard letters. The
 * oracle knows what each change may do when it arrives, without a look at the store; after it the store has to hold
 * what the oracle holds. All from a seed, in virtual time.
 */
#ifndef TESTS_CONTRACT_CLAIMS_WORLD_H
#define TESTS_CONTRACT_CLAIMS_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "ports/dead_letters.h"

enum {
    CLAIMS_RECORDS = 12, /* At most. */
    CLAIMS_WORKERS = 3,
    CLAIMS_PATIENCE_MS = 10000, /* Then an answer is not waited for. */
    CLAIMS_TURN_MS = 100
};

#define CLAIMS_SHARD "shardId-000000000000"

/* CLAIMS_KEEP and CLAIMS_EXPIRE: only of letters that are pointers. */
enum claims_kind {
    CLAIMS_WRITE,
    CLAIMS_CLAIM,
    CLAIMS_AMEND,
    CLAIMS_REMOVE,
    CLAIMS_KEEP, /* The leader copies the record into the letter, which does not expire any more. */
    CLAIMS_EXPIRE /* DynamoDB removes it, because its time is over. At once. */
};

/* A change of a letter, as a worker asks for it. */
struct claims_change {
    enum claims_kind kind;
    uint32_t worker;
    uint32_t record;
    char claim[32]; /* "": of a write, and of a removal by a person or by the leader. */
    uint32_t attempts;
    int64_t died_ms;
    int64_t expires_ms; /* Of a write. 0: it does not expire. */
    bool over;          /* A removal by the leader: the letter expired. */
};

/* A letter. */
struct claims_letter {
    bool is_there;
    uint32_t attempts;
    char claim[32];
    int64_t claimed_until; /* 0: there is no claim. */
    int64_t died_ms;
    int64_t expires_ms; /* 0: it does not expire. */
};

/* The store and its adapter. */
struct claims_store {
    bool pointers;    /* Letters expire with their records, and are kept. */
    bool later_stays; /* A write leaves a letter that died later; else, one with more attempts. */
    void (*begin)(void);
    void (*end)(void);
    /* Sends the requests of a change; claims_answered is called later, or never. */
    void (*change)(const struct claims_change *change);
    /* The letter as the store has it. */
    void (*read)(uint32_t record, struct claims_letter *ret_letter);
    /* Requests land and are answered, each at its time. */
    void (*turn)(void);
    /* A process of the worker ends, and another one begins. NULL: the store knows nothing of workers. */
    void (*die)(uint32_t worker);
};

/* Runs so many seeds, or KS_SEEDS of the environment; the test fails if a letter is lost, or changed by one who may
 * not. */
void claims_run(const struct claims_store *store, uint64_t seeds);

/* The adapter's side. A change has happened in the store. */
void claims_happened(const struct claims_change *change);
/* Its worker got the answer. */
void claims_answered(const struct claims_change *change, enum ks_outcome outcome);
/* Compares the letter with what it has to be. */
void claims_compare(uint32_t record);

/* What becomes of a request on its way. */
struct claims_message {
    int64_t lands;   /* INT64_MAX: never. */
    int64_t answers; /* The answer is there, or is not waited for any more. */
    bool is_heard;   /* The answer comes. */
};
struct claims_message claims_send(void);

int64_t claims_now(void);
/* The clock of the store as a worker knows it: never ahead (ks_aws_client_now_ms). */
int64_t claims_clock_of_worker(void);
bool claims_is_paused(uint32_t worker);
/* True in so many of a thousand cases, while things go wrong. */
bool claims_chance(int64_t in_thousand);
void claims_id(uint32_t record, char ret_id[64]);

#endif
