/* SPDX-License-Identifier: Apache-2.0 */
/* world_table.h - the lease table of the simulated world.
 *
 * Exactly the conditions and updates of docs/PROTOCOL.md, A3 and A5, checked and applied at the instant when the
 * request arrives, however late that is. Every row keeps its last versions: a read that is not consistent sees the
 * past.
 */
#ifndef KS_SIM_WORLD_TABLE_H
#define KS_SIM_WORLD_TABLE_H

#include <stdbool.h>

#include "core/effect.h"
#include "core/event.h"
#include "world_limits.h"

struct world;

enum { SIM_VERSIONS = 16 };

struct token_set {
    uint32_t count;
    struct ks_lease_token items[SIM_TOKENS];
};

struct table_worker {
    sim_time at; /* When this version was written. */
    bool present;
    uint64_t boot;
    enum ks_life life;
    enum ks_mode mode;
    uint64_t beat;
    uint64_t held;
    uint64_t changes;
    uint64_t capacity;
    uint64_t load;
    struct token_set gives;
    struct token_set takes;
};

struct table_lease {
    sim_time at;
    bool present;
    struct ks_lease_row row;
    uint64_t checkpoint; /* Index of the first record that is not covered, or SIM_SHARD_END. */
    uint32_t made;       /* As of its shard, when it was made. */
};

struct table_office {
    sim_time at;
    struct ks_leader_row row;
};

struct world_table {
    struct table_worker workers[SIM_WORKERS][SIM_VERSIONS];
    struct table_lease leases[SIM_SHARDS][SIM_VERSIONS];
    struct table_office office[SIM_VERSIONS];
    uint32_t newest_worker[SIM_WORKERS];
    uint32_t newest_lease[SIM_SHARDS];
    uint32_t newest_office;
    /* Until when a row cannot be read by anybody. */
    sim_time worker_damaged[SIM_WORKERS];
    sim_time lease_damaged[SIM_SHARDS];
    bool app_present;
    sim_time app_at;    /* When the app row was made. */
    sim_time app_start; /* Records that arrived earlier need not be delivered. */
};

/* An answer under way, with its rows. */
struct table_answer {
    enum ks_outcome outcome;
    uint32_t worker_count;
    uint32_t lease_count;
    uint32_t token_count;
    struct ks_worker_row workers[SIM_WORKERS];
    struct ks_lease_row leases[SIM_SHARDS];
    uint64_t checkpoints[SIM_SHARDS]; /* Of `leases`, in the same order. */
    uint32_t made[SIM_SHARDS];        /* Likewise. */
    struct ks_lease_token tokens[SIM_WORKERS * SIM_TOKENS];
    struct ks_leader_row leader;
    bool app_present;
};

/* A request under way. Lives until its last happening is over. */
struct table_request {
    uint32_t number;
    uint64_t order; /* Among the requests of its process. */
    uint32_t users; /* Happenings that will still look at it. */
    uint32_t process;
    uint32_t life;
    ks_instant sent_at; /* The sender's clock. */
    bool closed;        /* The sender has its answer, or gave up. */
    bool arrived;       /* One that was parked may be called up early. */
    struct ks_store_effect ask;
    struct ks_lease_token gives[SIM_TOKENS];
    struct ks_lease_token takes[SIM_TOKENS];
    /* What the shell adds, as ports/switchboard.c does. */
    bool has_checkpoint;
    uint64_t checkpoint;
    ks_shard parents[KS_PARENTS_MAX];
    struct ks_hash_key first_key;
    struct ks_hash_key last_key;
    sim_time app_start;
    /* Of a look at all lease rows (world_looks.h). */
    uint32_t page;
    uint32_t pages; /* 1: all of it at once. */
    uint32_t fails_at;
    sim_time page_time;
    struct table_answer answer;
    struct table_request *next_spare;
};

/* An empty table. */
void world_table_clear(struct world_table *table);
/* The newest version of a row. `present` may be false. */
const struct table_worker *world_table_worker(const struct world_table *table, uint32_t worker);
const struct table_lease *world_table_lease(const struct world_table *table, ks_shard shard);
const struct table_office *world_table_office(const struct world_table *table);

/* An operator's hand: the row is gone; or it says that its shard was read to its end. */
void world_table_lose_lease(struct world *world, ks_shard shard);
void world_table_finish_lease(struct world *world, ks_shard shard);

/* The request arrives: its condition is checked, its update applied, its answer written into it. */
void world_table_apply(struct world *world, struct table_request *request);

/* True if this incarnation is dead by A2 S3: no row, another boot, or not live. */
bool world_table_is_dead(const struct world_table *table, struct ks_incarnation incarnation);
bool world_table_is_write(enum ks_store_operation operation);
/* True for writes of a lease row; for those of its owner. */
bool world_table_is_lease_write(enum ks_store_operation operation);
bool world_table_is_owner_write(enum ks_store_operation operation);
const char *world_table_operation_name(enum ks_store_operation operation);

#endif
