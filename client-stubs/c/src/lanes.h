/* SPDX-License-Identifier: Apache-2.0 */
/* lanes.h - the records that were received and not handed out, by lane.
 *
 * A lane is the unit of order: a shard, or with ordering by key one of its lanes. A lane is
 * blocked while a retry holds it, and, if `is_exclusive`, while a record of it is handled.
 */
#ifndef KS_LANES_H
#define KS_LANES_H

#include "delivery.h"

struct ks_lane {
    struct ks_link queue; /* Deliveries, in order. */
    struct ks_link ready; /* In the list of lanes that are not blocked and have deliveries. */
    unsigned holds;       /* Retries without a verdict. */
    bool is_busy;         /* A record of it is handled. */
};

struct ks_shard {
    struct ks_link shards;
    struct ks_lane lanes[KS_LANES_MAX];
    /* In this session: */
    struct ks_delivery *head; /* Position of the first record of the last batch; NULL: none. */
    uint64_t
        lost_at; /* Last arrival before a lease was lost: attempts begin at 1 again; 0: none. */
    char id[];
};

struct ks_lanes {
    ks_client_ordering ordering;
    bool is_exclusive;
    size_t count;          /* Deliveries in all queues. */
    struct ks_link shards; /* Of all shards that were seen. */
    struct ks_link ready;  /* Lanes. */
    struct ks_link free;   /* Deliveries that have no lane. */
};

void ks_lanes_init(struct ks_lanes *lanes);

/* Frees the shards. Their queues are empty. */
void ks_lanes_free(struct ks_lanes *lanes);

/* A session begins: forgets what the last one has delivered. */
void ks_lanes_begin_session(struct ks_lanes *lanes);

/* Finds or makes the shard. Returns NULL if there is no memory. */
struct ks_shard *ks_lanes_shard(struct ks_lanes *lanes, const char *id);

/* The lane of a delivery; NULL: it has none. */
struct ks_lane *ks_lanes_lane(const struct ks_lanes *lanes, struct ks_shard *shard,
                              const struct ks_delivery *delivery);

/* Puts a delivery into its lane. */
void ks_lanes_push(struct ks_lanes *lanes, struct ks_delivery *delivery);

/* The last delivery that waits in the lane; NULL: none. */
struct ks_delivery *ks_lanes_last(const struct ks_lane *lane);

/* Takes the next delivery that may be handed out; NULL: there is none. */
struct ks_delivery *ks_lanes_pop(struct ks_lanes *lanes);

/* Takes a delivery out of its queue. */
void ks_lanes_remove(struct ks_lanes *lanes, struct ks_delivery *delivery);

/* The handler of a record has returned. */
void ks_lanes_done(struct ks_lanes *lanes, struct ks_lane *lane);

/* A retry holds the lane. */
void ks_lanes_hold(struct ks_lanes *lanes, struct ks_lane *lane);

/* One retry less holds the lane. */
void ks_lanes_unhold(struct ks_lanes *lanes, struct ks_lane *lane);

#endif
