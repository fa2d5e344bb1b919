/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/core/fleet/peers_bed.h"

#include <stddef.h>
#include <string.h>

struct bed peers_bed;
int64_t peers_wall_us;

static max_align_t memory[1 << 16];

void peers_step(const struct ks_event *event)
{
    ks_core_wall(peers_bed.core, peers_wall_us);
    bed_step(&peers_bed, event);
}

void peers_wait(int64_t ms)
{
    peers_wall_us += ms * 1000;
    peers_bed.now = ks_instant_add(peers_bed.now, ks_span_ms(ms));
    peers_step(&(struct ks_event){.kind = KS_EVENT_TICK});
}

void peers_begin(enum ks_protocol protocol)
{
    struct ks_core_config config = ks_core_config_default(ks_span_ms(10000));
    const struct ks_shard_row shard = {.parents = {KS_SHARD_NONE, KS_SHARD_NONE}};

    config.protocol = protocol;
    config.self = BED_ME;
    config.seed = 42;
    config.shards_max = BED_SHARDS;
    config.leases_max = 8;
    config.window_max = BED_WINDOW;
    config.workers_max = 8;
    config.sessions_max = 4;
    config.budget_bytes = 1 << 20;
    config.read_bytes = 10000;
    memset(memory, 0, sizeof memory);
    peers_bed = (struct bed){.now = {INT64_C(1000000000)}};
    peers_bed.core = ks_core_init(memory, &config);
    peers_wall_us = PEERS_WALL_US;
    peers_step(&(struct ks_event){.kind = KS_EVENT_START});
    bed_session(&peers_bed, 10, 1 << 20);
    peers_step(&(struct ks_event){.kind = KS_EVENT_LISTED,
                                  .listed = {.ok = true, .shards = &shard, .count = 1}});
}

void peers_live(enum ks_protocol protocol)
{
    peers_begin(protocol);
    for (uint32_t i = 0; protocol == KS_PROTOCOL_KCL && i < 2; i++) {
        struct ks_event event = {.kind = KS_EVENT_STORE};

        event.store.token = ks_token_make(KS_FOR_NEWS, i, peers_bed.core->fleet.kcl.serials[i]);
        peers_step(&event);
    }
}

struct ks_lease_row peers_row(uint32_t owner, uint64_t rev)
{
    return (struct ks_lease_row){
        .owner = {owner, 0}, .rev = rev, .parents = {KS_SHARD_NONE, KS_SHARD_NONE}};
}

void peers_look(const struct ks_lease_row *row)
{
    peers_look_at(row, row == NULL ? 0 : 1);
}

void peers_look_at(const struct ks_lease_row *rows, uint32_t count)
{
    struct ks_event event = {.kind = KS_EVENT_STORE};

    for (int i = 0; i < 1000 && peers_bed.core->fleet.rows == 0; i++)
        peers_wait(100);
    event.store.token = ks_token_make(KS_FOR_ROWS, 0, peers_bed.core->fleet.rows);
    event.store.outcome = KS_DONE;
    event.store.leases = rows;
    event.store.lease_count = count;
    peers_step(&event);
}

void peers_list(const struct ks_shard_row *shards, uint32_t count)
{
    for (int i = 0; i < 1000 && !peers_bed.core->fleet.listing; i++)
        peers_wait(100);
    peers_step(&(struct ks_event){.kind = KS_EVENT_LISTED,
                                  .listed = {.ok = true, .shards = shards, .count = count}});
}

bool peers_answer(enum ks_store_operation operation, ks_shard shard, enum ks_outcome outcome)
{
    for (uint32_t i = 0; i < KS_LEADER_WRITES_MAX; i++) {
        const struct ks_leader_write *write = &peers_bed.core->fleet.writes[i];

        if (!write->used || write->serial == 0 || write->reading || write->shard != shard ||
            write->operation != operation)
            continue;
        ks_core_wall(peers_bed.core, peers_wall_us);
        bed_answer(&peers_bed, ks_token_make(KS_FOR_SHARD, i, write->serial), outcome);
        return true;
    }
    return false;
}

uint64_t peers_read_token(void)
{
    const struct ks_leader_write *const writes = peers_bed.core->fleet.writes;

    for (uint32_t i = 0; i < KS_LEADER_WRITES_MAX; i++)
        if (writes[i].used && writes[i].reading && writes[i].serial != 0)
            return ks_token_make(KS_FOR_ORDER, i, writes[i].serial);
    return 0;
}

bool peers_read(const struct ks_lease_row *rows)
{
    const uint64_t token = peers_read_token();

    if (token == 0)
        return false;
    bed_answer_lease(&peers_bed, token,
                     &rows[peers_bed.core->fleet.writes[ks_token_subject(token)].shard]);
    return true;
}
