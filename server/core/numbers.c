/* SPDX-License-Identifier: Apache-2.0 */
#include "core/core.h"

#include <assert.h>
#include <string.h>

#include "core/fleet/native.h"
#include "core/operator.h"

/* ---- What is held ---- */

/* Who reads all rows and lists the shards knows what there is. What others remember of shards that are not theirs is
 * what somebody told them once. */
static bool is_there(const struct ks_core *core, const struct ks_directory_entry *entry)
{
    if (core->config.protocol == KS_PROTOCOL_NATIVE && !core->fleet.leads)
        return false;
    return entry->present || entry->listed || (entry->seen && !ks_shards_unlisted(entry));
}

static void hold(bool *held, ks_shard shard)
{
    if (shard != KS_SHARD_NONE)
        held[shard] = true;
}

static void hold_tokens(bool *held, const struct ks_token_list *list)
{
    for (uint32_t i = 0; i < list->count; i++)
        held[list->items[i].shard] = true;
}

static void hold_fleet(const struct ks_fleet *fleet, bool *held)
{
    for (uint32_t i = 0; i < fleet->orders_top; i++)
        if (fleet->orders[i].used)
            held[fleet->orders[i].shard] = true;
    for (uint32_t i = 0; i < KS_LEADER_WRITES_MAX; i++)
        if (fleet->writes[i].used)
            held[fleet->writes[i].shard] = true;
    hold_tokens(held, &fleet->done_gives);
    hold_tokens(held, &fleet->done_takes);
    hold_tokens(held, &fleet->sent_gives);
    hold_tokens(held, &fleet->sent_takes);
}

static void hold_wanted(const struct ks_core *core, bool *held)
{
    for (uint32_t i = 0; i < core->sessions_top; i++)
        for (uint32_t s = 0; core->sessions[i].used && s < core->sessions[i].shard_count; s++)
            held[core->sessions[i].shards[s]] = true;
    for (uint32_t i = 0; core->redrives_used > 0 && i < KS_REDRIVES_MAX; i++)
        if (core->redrives[i].state != KS_REDRIVE_NONE)
            hold(held, core->redrives[i].shard);
}

void ks_core_held(const struct ks_core *core, bool *ret_held)
{
    memset(ret_held, 0, core->config.shards_max * sizeof *ret_held);
    for (ks_shard shard = 0; shard < core->directory_top; shard++) {
        const struct ks_directory_entry *entry = &core->directory[shard];

        if (!is_there(core, entry) && entry->held == KS_HELD_NONE && !entry->writing &&
            entry->place == 0 && !ks_operator_remembers(core, shard))
            continue;
        ret_held[shard] = true;
        /* Whether it may be served is asked of them. */
        for (uint32_t p = 0; p < KS_PARENTS_MAX; p++)
            hold(ret_held, entry->parents[p]);
    }
    hold_fleet(&core->fleet, ret_held);
    hold_wanted(core, ret_held);
}

/* ---- What is freed ---- */

/* The edges of one that stays lead to none that goes. */
static void cut_edges(struct ks_core *core, struct ks_directory_entry *entry, const bool *freed)
{
    uint32_t *edge = &entry->children;

    while (*edge != KS_SHARD_NONE) {
        uint32_t *next = &core->directory[ks_shards_child(*edge)].siblings[*edge % KS_PARENTS_MAX];

        if (freed[ks_shards_child(*edge)])
            *edge = *next;
        else
            edge = next;
    }
}

void ks_core_free(struct ks_core *core, const bool *freed)
{
    for (ks_shard shard = 0; shard < core->directory_top; shard++)
        cut_edges(core, &core->directory[shard], freed);
    for (ks_shard shard = 0; shard < core->directory_top; shard++) {
        struct ks_directory_entry *entry = &core->directory[shard];

        if (freed[shard]) {
            assert(entry->held == KS_HELD_NONE && !entry->writing);
            ks_native_forget(core, shard);
            continue;
        }
        for (uint32_t p = 0; p < KS_PARENTS_MAX; p++)
            if (entry->parents[p] != KS_SHARD_NONE && freed[entry->parents[p]])
                entry->parents[p] = KS_SHARD_NONE;
    }
}
