/* SPDX-License-Identifier: Apache-2.0 */
/* world_stream.h - the stream of the simulated world: shards, records, splits and merges. */
#ifndef KS_SIM_WORLD_STREAM_H
#define KS_SIM_WORLD_STREAM_H

#include <stdbool.h>

#include "core/types.h"
#include "world_limits.h"

struct world;

struct world_shard {
    bool exists; /* False: a mere name, of a parent that expired before the world began. */
    bool expired;
    bool had_row; /* It has a lease row, or had one. */
    bool ended;   /* Its SHARD_END was durable once. */
    ks_shard parents[KS_PARENTS_MAX];
    struct ks_hash_key first_key;
    struct ks_hash_key last_key;
    uint32_t made;   /* How often an operator has spoilt its row, and it is to be made again. */
    sim_time odd_at; /* Since when an operator has its row finished; SIM_NEVER: he has not. */
    uint32_t count;  /* Records so far. */
    sim_time opened_at;
    sim_time closed_at; /* SIM_NEVER: open. */
    sim_time expired_at;
    uint32_t start; /* The first record that its lease row asks for; set when the row is made. */
    uint32_t settled_to; /* Every record in start .. settled_to - 1 is settled. */
    sim_time arrived[SIM_RECORDS];
    uint32_t sizes[SIM_RECORDS];
    bool settled[SIM_RECORDS]; /* An app acknowledged it, and was told ok. */
};

struct world_stream {
    struct world_shard shards[SIM_SHARDS];
    uint32_t count; /* Numbers given out. */
    uint32_t put;   /* Records in all. */
};

/* The shards there are at the beginning; some have parents that are closed or expired. */
void world_stream_begin(struct world *world);
/* A burst of records for one open shard. */
void world_stream_put(struct world *world);
/* One split or merge, if there is room for it. */
void world_stream_reshard(struct world *world);
/* One shard, finished in the table, leaves the listing. */
void world_stream_expire(struct world *world);

/* What ListShards says of the instant `at`, without shards that were closed before `since`; returns the number of rows,
 * at most SIM_SHARDS. */
uint32_t world_stream_list(const struct world *world, sim_time at, sim_time since,
                           struct ks_shard_row *rows);
/* Reads from `index`: up to `max_records` records of about `max_bytes`, at least one if there is one. Returns the
 * number of sizes written; `ret_at_end` tells whether the shard is closed behind them. */
uint32_t world_stream_read(const struct world *world, ks_shard shard, uint64_t index,
                           uint32_t max_records, uint32_t max_bytes, uint32_t *sizes,
                           bool *ret_at_end);
/* Where a new lease row of the shard begins: at the first record that arrived at or after `from`. */
uint32_t world_stream_index_at(const struct world *world, ks_shard shard, sim_time from);
/* Marks records as settled, and moves the prefix. */
void world_stream_settle(struct world *world, ks_shard shard, uint64_t index);
/* An operator's order: what is before counts as settled, what comes from `index` on is to be settled again. */
void world_stream_seek(struct world *world, ks_shard shard, uint64_t index);

#endif
