/* SPDX-License-Identifier: Apache-2.0 */
#include "lanes.h"

#include <stdlib.h>
#include <string.h>

void ks_lanes_init(struct ks_lanes *lanes)
{
    ks_link_init(&lanes->shards);
    ks_link_init(&lanes->ready);
    ks_link_init(&lanes->free);
}

void ks_lanes_free(struct ks_lanes *lanes)
{
    struct ks_link *link;

    ks_lanes_begin_session(lanes);
    while ((link = ks_list_take(&lanes->shards)) != NULL)
        free(KS_LIST_ENTRY(link, struct ks_shard, shards));
}

void ks_lanes_begin_session(struct ks_lanes *lanes)
{
    struct ks_link *link, *after;

    KS_LIST_EACH(link, after, &lanes->shards)
    {
        struct ks_shard *shard = KS_LIST_ENTRY(link, struct ks_shard, shards);
        ks_delivery_release(shard->head);
        shard->head = NULL;
        shard->lost_at = 0;
    }
}

struct ks_shard *ks_lanes_shard(struct ks_lanes *lanes, const char *id)
{
    size_t size = strlen(id) + 1;
    struct ks_shard *shard;
    struct ks_link *link, *after;

    KS_LIST_EACH(link, after, &lanes->shards)
    {
        shard = KS_LIST_ENTRY(link, struct ks_shard, shards);
        if (strcmp(shard->id, id) == 0)
            return shard;
    }
    shard = calloc(1, sizeof(*shard) + size);
    if (shard == NULL)
        return NULL;
    memcpy(shard->id, id, size);
    for (size_t i = 0; i < KS_LANES_MAX; i++) {
        ks_link_init(&shard->lanes[i].queue);
        ks_link_init(&shard->lanes[i].ready);
    }
    ks_list_append(&lanes->shards, &shard->shards);
    return shard;
}

struct ks_lane *ks_lanes_lane(const struct ks_lanes *lanes, struct ks_shard *shard,
                              const struct ks_delivery *delivery)
{
    if (lanes->ordering == KS_CLIENT_ORDERING_NONE || delivery->record.redriven)
        return NULL;
    return &shard->lanes[lanes->ordering == KS_CLIENT_ORDERING_KEY ? delivery->lane_number : 0];
}

/* Lists the lane if a record of it may be handed out, else takes it from the list. */
static void list_lane(struct ks_lanes *lanes, struct ks_lane *lane)
{
    bool is_ready = !lane->is_busy && lane->holds == 0 && !ks_list_is_empty(&lane->queue);

    if (!is_ready)
        ks_list_remove(&lane->ready);
    else if (ks_list_is_empty(&lane->ready))
        ks_list_append(&lanes->ready, &lane->ready);
}

void ks_lanes_push(struct ks_lanes *lanes, struct ks_delivery *delivery)
{
    struct ks_lane *lane = delivery->lane;

    lanes->count++;
    if (lane == NULL) {
        ks_list_append(&lanes->free, &delivery->queue);
        return;
    }
    ks_list_append(&lane->queue, &delivery->queue);
    list_lane(lanes, lane);
}

struct ks_delivery *ks_lanes_last(const struct ks_lane *lane)
{
    if (lane == NULL || ks_list_is_empty(&lane->queue))
        return NULL;
    return KS_LIST_ENTRY(lane->queue.previous, struct ks_delivery, queue);
}

struct ks_delivery *ks_lanes_pop(struct ks_lanes *lanes)
{
    struct ks_link *link = ks_list_take(&lanes->free);
    struct ks_lane *lane;

    if (link == NULL) {
        struct ks_link *ready = ks_list_take(&lanes->ready);
        if (ready == NULL)
            return NULL;
        lane = KS_LIST_ENTRY(ready, struct ks_lane, ready);
        link = ks_list_take(&lane->queue);
        lane->is_busy = lanes->is_exclusive;
        list_lane(lanes, lane);
    }
    lanes->count--;
    return KS_LIST_ENTRY(link, struct ks_delivery, queue);
}

void ks_lanes_remove(struct ks_lanes *lanes, struct ks_delivery *delivery)
{
    ks_list_remove(&delivery->queue);
    lanes->count--;
    if (delivery->lane != NULL)
        list_lane(lanes, delivery->lane);
}

void ks_lanes_done(struct ks_lanes *lanes, struct ks_lane *lane)
{
    if (lane == NULL)
        return;
    lane->is_busy = false;
    list_lane(lanes, lane);
}

void ks_lanes_hold(struct ks_lanes *lanes, struct ks_lane *lane)
{
    lane->holds++;
    list_lane(lanes, lane);
}

void ks_lanes_unhold(struct ks_lanes *lanes, struct ks_lane *lane)
{
    lane->holds--;
    list_lane(lanes, lane);
}
