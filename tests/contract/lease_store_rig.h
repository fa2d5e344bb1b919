/* SPDX-License-Identifier: Apache-2.0 */
/* lease_store_rig.h - a lease store on a table of its own, and a way to ask it and wait.
 *
 * The suite (lease_store_suite.h) knows only this; what lies behind it is in lease_store_sqlite.c
 * and lease_store_dynamodb.c. Everything that goes wrong in here fails the test.
 */
#ifndef TESTS_CONTRACT_LEASE_STORE_RIG_H
#define TESTS_CONTRACT_LEASE_STORE_RIG_H

#include "adapters/item.h"
#include "base/loop.h"
#include "ports/lease_store.h"

#include "ks_test.h"

struct lease_rig;

struct lease_rig_adapter {
    const char *name;
    void (*set_up)(struct lease_rig *rig);
    /* Another store on the same table, that can be asked. */
    struct ks_lease_store *(*open)(struct lease_rig *rig);
    /* Behind the store's back: sets one attribute of a row, and makes the row if it is not there;
     * a NULL text removes the attribute. Any name, any type. */
    void (*poke)(struct lease_rig *rig, const char *p, const char *k, const char *name,
                 enum ks_value_type type, const char *text);
    /* Likewise: the text of an attribute; "" if there is none. */
    void (*peek)(struct lease_rig *rig, const char *p, const char *k, const char *name,
                 char *buffer, size_t size);
    /* From now on no write comes to an end, until `release`. */
    void (*hold)(struct lease_rig *rig);
    void (*release)(struct lease_rig *rig);
    void (*tear_down)(struct lease_rig *rig);
};

struct lease_rig {
    const struct lease_rig_adapter *adapter;
    struct ks_loop *loop;
    struct ks_lease_store *store;
    void *world; /* The adapter's own. */
};

/* Runs a test of the suite on a fresh table, and checks that no memory is left. */
void lease_rig_run(const struct lease_rig_adapter *adapter, void (*test)(struct lease_rig *rig));

extern const struct lease_rig_adapter lease_rig_sqlite;
extern const struct lease_rig_adapter lease_rig_dynamodb;

enum { LEASE_RIG_WORKERS = 16, LEASE_RIG_TOKENS = 512 };

/* A copy of an answer. Zero before its first use. */
struct lease_answer {
    uint32_t times; /* It was given. */
    uint64_t token;
    enum ks_outcome outcome;
    ks_err err;
    struct ks_detail detail;
    struct ks_store_leader leader;
    struct ks_store_app app;
    bool listed; /* There is a list of shards. */
    uint64_t list_rev;
    char list[256];
    uint32_t worker_count;
    struct ks_store_worker workers[LEASE_RIG_WORKERS];
    struct ks_store_token gives[LEASE_RIG_TOKENS]; /* Of the first worker; sorted. */
    struct ks_store_token takes[LEASE_RIG_TOKENS];
    uint32_t lease_count;
    struct ks_store_lease *leases; /* Freed by the next use, and by lease_answer_free. */
};

/* Asks; the answer comes while the loop turns. */
void lease_ask(struct lease_rig *rig, struct ks_lease_store *store, struct ks_store_request request,
               struct lease_answer *answer);
/* Turns the loop until it came; not longer than 20 s. */
void lease_await(struct lease_rig *rig, struct lease_answer *answer);
void lease_answer_free(struct lease_answer *answer);
/* Turns the loop for so long. */
void lease_turn(struct lease_rig *rig, int64_t ms);

/* Asks the rig's store and waits. The answer lives until the next call. */
const struct lease_answer *lease_tell(struct lease_rig *rig, struct ks_store_request request);
/* Likewise; only what came of it. */
enum ks_outcome lease_do(struct lease_rig *rig, struct ks_store_request request);

/* --- Requests and rows, in few words --- */

struct ks_incarnation_text lease_who(const char *id, uint64_t boot);
/* True for id#boot. */
bool lease_is(const struct ks_incarnation_text *who, const char *id, uint64_t boot);
struct ks_position lease_after(const char *sequence);

/* Registers id#boot as a new worker. */
void lease_register(struct lease_rig *rig, const char *id, uint64_t boot);
/* A free lease at TRIM_HORIZON. */
void lease_create(struct lease_rig *rig, const char *shard);
/* A lease of id#boot, at epoch 1 and rev 0. */
void lease_hold(struct lease_rig *rig, const char *shard, const char *id, uint64_t boot);
/* The row of a worker or a lease, read consistently. It must be there. */
struct ks_store_worker lease_worker(struct lease_rig *rig, const char *id);
struct ks_store_lease lease_row(struct lease_rig *rig, const char *shard);
/* True if there is a row for this worker, or this lease. */
bool lease_has_worker(struct lease_rig *rig, const char *id);
bool lease_has_row(struct lease_rig *rig, const char *shard);
struct ks_store_leader lease_leader(struct lease_rig *rig);

#endif
