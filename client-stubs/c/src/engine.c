/* SPDX-License-Identifier: Apache-2.0 */
#include "engine.h"

#include <stdlib.h>
#include <string.h>

static void settle_group(struct ks_engine *engine, struct ks_delivery *delivery, int64_t now);

/* A record that the app gave back without an outcome has the reference of its owner alone. */
static bool is_given_back(const struct ks_delivery *delivery)
{
    return delivery->state == KS_STATE_BEGUN && delivery->references == 1;
}

void ks_engine_init(struct ks_engine *engine)
{
    ks_lanes_init(&engine->lanes);
    ks_link_init(&engine->groups);
    ks_link_init(&engine->to_ack);
    ks_link_init(&engine->outcomes);
    ks_link_init(&engine->extensions);
    ks_link_init(&engine->begun);
    ks_link_init(&engine->held);
    ks_link_init(&engine->failures);
    ks_link_init(&engine->request.settled);
    for (size_t i = 0; i < KS_UNCONFIRMED_BUCKETS; i++) {
        ks_link_init(&engine->unconfirmed[i]);
        ks_link_init(&engine->decided[i]);
    }
    engine->extend_at = INT64_MAX;
}

/* Releases the deliveries of a list that owns them. */
static void release_all(struct ks_link *owners)
{
    struct ks_link *link;

    while ((link = ks_list_take(owners)) != NULL)
        ks_delivery_release(KS_LIST_ENTRY(link, struct ks_delivery, owner));
}

static void free_groups(struct ks_engine *engine)
{
    struct ks_link *link;

    while ((link = ks_list_take(&engine->groups)) != NULL) {
        struct ks_group *group = KS_LIST_ENTRY(link, struct ks_group, groups);
        release_all(&group->deliveries);
        free(group);
    }
}

void ks_engine_free(struct ks_engine *engine)
{
    struct ks_link *link;

    while ((link = ks_list_take(&engine->held)) != NULL)
        ks_delivery_release(KS_LIST_ENTRY(link, struct ks_delivery, held));
    free_groups(engine);
    release_all(&engine->request.settled);
    release_all(&engine->failures);
    ks_buffer_free(&engine->request.body);
    for (size_t i = 0; i < KS_UNCONFIRMED_BUCKETS; i++)
        release_all(&engine->unconfirmed[i]);
    ks_lanes_free(&engine->lanes);
}

/* ---- For the app ---- */

struct ks_delivery *ks_engine_pop(struct ks_engine *engine)
{
    struct ks_delivery *delivery = ks_lanes_pop(&engine->lanes);

    if (delivery == NULL)
        return NULL;
    delivery->state = KS_STATE_BEGUN;
    ks_list_append(&engine->begun, &delivery->held);
    ks_delivery_reference(delivery);
    return delivery;
}

void ks_engine_settle(struct ks_engine *engine, struct ks_delivery *delivery,
                      enum ks_outcome outcome, int64_t delay_ms, char *reason, int64_t now)
{
    if (delivery->state != KS_STATE_BEGUN) {
        free(reason);
        return;
    }
    free(delivery->reason);
    delivery->reason = reason;
    delivery->state = KS_STATE_DECIDED;
    delivery->outcome = outcome;
    delivery->delay_ms = delay_ms;
    ks_list_remove(&delivery->queue); /* Of the extensions. */
    ks_list_remove(&delivery->held);
    if (delivery->group != NULL)
        settle_group(engine, delivery, now);
}

void ks_engine_extend(struct ks_engine *engine, struct ks_delivery *delivery, int64_t duration_ms)
{
    if (delivery->state != KS_STATE_BEGUN || delivery->group == NULL)
        return;
    delivery->delay_ms = duration_ms;
    if (ks_list_is_empty(&delivery->queue))
        ks_list_append(&engine->extensions, &delivery->queue);
    engine->is_woken = true;
}

/* After a lost lease the record may be settled elsewhere, and not be redelivered: the retry takes
 * nothing of the next lease back. */
static void hold(struct ks_engine *engine, struct ks_delivery *delivery)
{
    uint64_t lost_at = delivery->group->shard->lost_at;

    delivery->barrier = 0;
    delivery->taken_back_to = delivery->arrival <= lost_at ? lost_at : 0;
    delivery->verdict = KS_VERDICT_OPEN;
    ks_delivery_reference(delivery);
    ks_list_append(&engine->held, &delivery->held);
    ks_lanes_hold(&engine->lanes, delivery->lane);
}

static void note_ack(struct ks_engine *engine, struct ks_delivery *delivery, int64_t now)
{
    struct ks_group *group = delivery->group;
    uint64_t bytes = ks_delivery_bytes(delivery);

    group->acked++;
    group->unsent++;
    group->unsent_bytes += bytes;
    engine->unsent++;
    engine->unsent_bytes += bytes;
    if (group->unsent == 1) {
        group->acked_at = now;
        ks_list_append(&engine->to_ack, &group->to_ack);
    }
    if (engine->unsent == 1 || engine->unsent * 2 >= engine->max_in_flight ||
        engine->unsent_bytes * 2 >= engine->max_in_flight_bytes)
        engine->is_woken = true;
}

void ks_engine_take_ack(struct ks_engine *engine, const struct ks_delivery *delivery)
{
    struct ks_group *group = delivery->group;
    uint64_t bytes = ks_delivery_bytes(delivery);

    group->unsent--;
    group->unsent_bytes -= bytes;
    engine->unsent--;
    engine->unsent_bytes -= bytes;
}

static size_t bucket_of(const struct ks_delivery *delivery)
{
    return ks_delivery_hash(delivery) % KS_UNCONFIRMED_BUCKETS;
}

static void add_to_index(struct ks_engine *engine, struct ks_delivery *delivery)
{
    if (ks_list_is_empty(&delivery->indexed))
        ks_list_append(&engine->decided[bucket_of(delivery)], &delivery->indexed);
}

/* Notes the outcome of a record of this session. */
static void settle_group(struct ks_engine *engine, struct ks_delivery *delivery, int64_t now)
{
    delivery->group->open--;
    if (engine->is_indexing)
        add_to_index(engine, delivery);
    if (delivery->outcome == KS_OUTCOME_ACK) {
        note_ack(engine, delivery, now);
        return;
    }
    if (delivery->outcome == KS_OUTCOME_RETRY && delivery->lane != NULL)
        hold(engine, delivery);
    ks_list_append(&engine->outcomes, &delivery->queue);
    engine->is_woken = true;
}

/* ---- The stream ---- */

/* Notes how far the session is in the shard. Redriven records have no order. Returns false if
 * there is no memory. */
static bool note_head(struct ks_shard *shard, const struct ks_delivery *first)
{
    if (first->record.redriven)
        return true;
    ks_delivery_release(shard->head);
    shard->head = ks_delivery_position(first);
    return shard->head != NULL;
}

static struct ks_group *make_group(struct ks_engine *engine, const struct ks_delivery *first,
                                   int64_t now)
{
    struct ks_shard *shard = ks_lanes_shard(&engine->lanes, first->record.shard_id);
    size_t size = strlen(first->batch_id) + 1;
    struct ks_group *group = NULL;

    if (shard != NULL && note_head(shard, first))
        group = calloc(1, sizeof(*group) + size);
    if (group == NULL)
        return NULL;
    memcpy(group->batch_id, first->batch_id, size);
    group->shard = shard;
    group->since = now;
    ks_link_init(&group->to_ack);
    ks_link_init(&group->deliveries);
    ks_list_append(&engine->groups, &group->groups);
    return group;
}

void ks_engine_forget_group(struct ks_engine *engine, struct ks_group *group)
{
    if (group == engine->current || !group->is_complete || !ks_list_is_empty(&group->deliveries))
        return;
    ks_list_remove(&group->groups);
    free(group);
}

/* Events may come between the records of a batch: only the first record of another batch ends
 * it. */
static struct ks_group *group_of(struct ks_engine *engine, const struct ks_delivery *delivery,
                                 int64_t now)
{
    struct ks_group *before = engine->current;

    if (before != NULL && strcmp(before->batch_id, delivery->batch_id) == 0)
        return before;
    engine->current = make_group(engine, delivery, now);
    if (before != NULL) {
        before->is_complete = true;
        ks_engine_forget_group(engine, before);
    }
    return engine->current;
}

/* Removes an earlier delivery of the record from the unconfirmed; NULL: there is none. */
static struct ks_delivery *take_unconfirmed(struct ks_engine *engine,
                                            const struct ks_delivery *redelivery)
{
    struct ks_link *link, *after;

    if (engine->unconfirmed_count == 0)
        return NULL;
    KS_LIST_EACH(link, after, &engine->unconfirmed[bucket_of(redelivery)])
    {
        struct ks_delivery *delivery = KS_LIST_ENTRY(link, struct ks_delivery, owner);
        if (ks_delivery_is_same(delivery, redelivery)) {
            ks_list_remove(link);
            engine->unconfirmed_count--;
            return delivery;
        }
    }
    return NULL;
}

/* Lets the earlier delivery, which the app has or had, replace the redelivery. */
static void adopt(struct ks_engine *engine, struct ks_delivery *earlier,
                  struct ks_delivery *redelivery, int64_t now)
{
    ks_delivery_release(earlier->redelivery);
    earlier->redelivery = redelivery;
    earlier->ack_id = redelivery->ack_id;
    earlier->group = redelivery->group;
    earlier->lane = redelivery->lane;
    earlier->arrival = redelivery->arrival;
    ks_list_append(&earlier->group->deliveries, &earlier->owner);
    if (earlier->state == KS_STATE_DECIDED)
        settle_group(engine, earlier, now);
}

static void begin_index(struct ks_engine *engine)
{
    struct ks_link *group_link, *after_group, *link, *after;

    engine->is_indexing = true;
    KS_LIST_EACH(group_link, after_group, &engine->groups)
    KS_LIST_EACH(link, after, &KS_LIST_ENTRY(group_link, struct ks_group, groups)->deliveries)
    {
        struct ks_delivery *delivery = KS_LIST_ENTRY(link, struct ks_delivery, owner);
        if (delivery->state == KS_STATE_DECIDED)
            add_to_index(engine, delivery);
    }
    KS_LIST_EACH(link, after, &engine->request.settled)
    add_to_index(engine, KS_LIST_ENTRY(link, struct ks_delivery, owner));
}

void ks_engine_end_index(struct ks_engine *engine)
{
    if (!engine->is_indexing)
        return;
    engine->is_indexing = false;
    for (size_t i = 0; i < KS_UNCONFIRMED_BUCKETS; i++)
        while (ks_list_take(&engine->decided[i]) != NULL)
            continue;
}

/* The delivery whose outcome is not confirmed; NULL: none. A retry that was sent may have caused
 * the redelivery: the app gets it. */
static struct ks_delivery *find_decided(struct ks_engine *engine,
                                        const struct ks_delivery *redelivery)
{
    struct ks_link *link, *after;

    if (!engine->is_indexing)
        begin_index(engine);
    KS_LIST_EACH(link, after, &engine->decided[bucket_of(redelivery)])
    {
        struct ks_delivery *delivery = KS_LIST_ENTRY(link, struct ks_delivery, indexed);
        bool is_retried = delivery->outcome == KS_OUTCOME_RETRY && delivery->state == KS_STATE_SENT;
        if (!is_retried && ks_delivery_is_same(delivery, redelivery))
            return delivery;
    }
    return NULL;
}

/* The delivery that the app has; NULL: none. */
static struct ks_delivery *find_begun(struct ks_engine *engine,
                                      const struct ks_delivery *redelivery)
{
    struct ks_link *link, *after;

    KS_LIST_EACH(link, after, &engine->begun)
    {
        struct ks_delivery *delivery = KS_LIST_ENTRY(link, struct ks_delivery, held);
        if (!is_given_back(delivery) && ks_delivery_is_same(delivery, redelivery))
            return delivery;
    }
    return NULL;
}

static void end_hold(struct ks_engine *engine, struct ks_delivery *delivery)
{
    ks_list_remove(&delivery->held);
    ks_lanes_unhold(&engine->lanes, delivery->lane);
    ks_delivery_release(delivery);
}

static void withdraw_ack(struct ks_engine *engine, struct ks_delivery *delivery)
{
    struct ks_group *group = delivery->group;

    group->acked--;
    ks_engine_take_ack(engine, delivery);
    if (group->unsent == 0)
        ks_list_remove(&group->to_ack);
}

/* Takes a delivery out of its group, or out of the request that was sent. */
static void withdraw(struct ks_engine *engine, struct ks_delivery *delivery)
{
    struct ks_group *group = delivery->group;

    ks_list_remove(&delivery->owner);
    ks_list_remove(&delivery->indexed);
    if (delivery->state == KS_STATE_SENT) {
        delivery->state = KS_STATE_DECIDED;
        return;
    }
    if (delivery->state == KS_STATE_BEGUN) {
        group->open--;
    } else if (delivery->outcome == KS_OUTCOME_ACK) {
        withdraw_ack(engine, delivery);
    } else {
        ks_list_remove(&delivery->queue);
        if (!ks_list_is_empty(&delivery->held))
            end_hold(engine, delivery);
    }
    ks_engine_forget_group(engine, group);
}

/* Takes the delivery that the app has, or whose outcome is not confirmed; NULL: there is none.
 * Attempts are counted from 1 in each lease epoch. */
static struct ks_delivery *take_earlier(struct ks_engine *engine,
                                        const struct ks_delivery *redelivery)
{
    struct ks_delivery *earlier = take_unconfirmed(engine, redelivery);

    if (earlier != NULL ||
        (redelivery->record.attempt == 1 && redelivery->group->shard->lost_at == 0))
        return earlier;
    earlier = find_begun(engine, redelivery);
    if (earlier == NULL)
        earlier = find_decided(engine, redelivery);
    if (earlier != NULL)
        withdraw(engine, earlier);
    return earlier;
}

/* A retry takes back what arrived before the first sign that its record has failed: its barrier,
 * the redelivery of the record, or the loss of the lease. The barrier of a repetition may be the
 * last one. */
static void note_failed(const struct ks_engine *engine, struct ks_delivery *retried)
{
    if (retried->taken_back_to == 0)
        retried->taken_back_to = engine->arrivals;
}

static void note_redelivery(const struct ks_engine *engine, const struct ks_delivery *redelivery)
{
    struct ks_link *link, *after;

    KS_LIST_EACH(link, after, &engine->held)
    {
        struct ks_delivery *retried = KS_LIST_ENTRY(link, struct ks_delivery, held);
        if (retried->lane == redelivery->lane && ks_delivery_is_same(retried, redelivery))
            note_failed(engine, retried);
    }
}

/* Drops a record that the app does not have: it is redelivered. */
static void drop(struct ks_engine *engine, struct ks_delivery *delivery)
{
    struct ks_group *group = delivery->group;

    ks_lanes_remove(&engine->lanes, delivery);
    ks_list_remove(&delivery->owner);
    ks_delivery_release(delivery);
    group->open--;
    ks_engine_forget_group(engine, group);
}

/* The sidecar delivers a lane in order. A delivery that does not follow those that wait shows that
 * it took back the same record and the later ones: they are redelivered behind it. */
static void drop_taken_back(struct ks_engine *engine, const struct ks_delivery *delivery)
{
    struct ks_delivery *last;

    while ((last = ks_lanes_last(delivery->lane)) != NULL &&
           ks_delivery_compare(last, delivery) >= 0)
        drop(engine, last);
}

bool ks_engine_arrive(struct ks_engine *engine, struct ks_delivery *delivery, int64_t now)
{
    struct ks_group *group = group_of(engine, delivery, now);
    struct ks_delivery *earlier;

    if (group == NULL)
        return false;
    group->count++;
    group->open++;
    delivery->group = group;
    delivery->since = now;
    delivery->lane = ks_lanes_lane(&engine->lanes, group->shard, delivery);
    note_redelivery(engine, delivery);
    drop_taken_back(engine, delivery);
    delivery->arrival = ++engine->arrivals;
    earlier = take_earlier(engine, delivery);
    if (earlier != NULL) {
        adopt(engine, earlier, delivery, now);
        return true;
    }
    ks_list_append(&group->deliveries, &delivery->owner);
    ks_lanes_push(&engine->lanes, delivery);
    return true;
}

/* Drops the records of a group that the app does not have. `redriven`: also those that need no
 * lease. */
static void drop_queued(struct ks_engine *engine, struct ks_group *group, bool redriven)
{
    struct ks_link *link, *after;

    KS_LIST_EACH(link, after, &group->deliveries)
    {
        struct ks_delivery *delivery = KS_LIST_ENTRY(link, struct ks_delivery, owner);
        bool is_last = after == &group->deliveries;
        if (delivery->state == KS_STATE_QUEUED && (redriven || !delivery->record.redriven))
            drop(engine, delivery);
        if (is_last) /* The group may be freed. */
            return;
    }
}

void ks_engine_detached(struct ks_engine *engine)
{
    struct ks_link *link, *after;

    /* Not complete: its batch_id also names records that did not arrive. */
    engine->current = NULL;
    KS_LIST_EACH(link, after, &engine->groups)
    drop_queued(engine, KS_LIST_ENTRY(link, struct ks_group, groups), true);
}

void ks_engine_lease_lost(struct ks_engine *engine, const char *shard_id)
{
    struct ks_link *link, *after;

    KS_LIST_EACH(link, after, &engine->groups)
    {
        struct ks_group *group = KS_LIST_ENTRY(link, struct ks_group, groups);
        if (strcmp(group->shard->id, shard_id) != 0)
            continue;
        group->shard->lost_at = engine->arrivals;
        drop_queued(engine, group, false);
    }
    KS_LIST_EACH(link, after, &engine->held)
    {
        struct ks_delivery *retried = KS_LIST_ENTRY(link, struct ks_delivery, held);
        if (strcmp(retried->record.shard_id, shard_id) == 0)
            note_failed(engine, retried);
    }
}

/* Keeps a delivery, which is in no list that owns it, for its redelivery. */
static void keep(struct ks_engine *engine, struct ks_delivery *delivery)
{
    if (delivery->state == KS_STATE_SENT)
        delivery->state = KS_STATE_DECIDED;
    ks_list_remove(&delivery->queue); /* Of the outcomes or extensions. */
    delivery->group = NULL;
    delivery->kept_in = engine->sessions;
    ks_list_remove(&delivery->indexed);
    ks_list_append(&engine->unconfirmed[bucket_of(delivery)], &delivery->owner);
    engine->unconfirmed_count++;
}

/* Keeps a delivery, unless the app has given it back. */
static void keep_or_release(struct ks_engine *engine, struct ks_delivery *delivery)
{
    if (!is_given_back(delivery)) {
        keep(engine, delivery);
        return;
    }
    ks_list_remove(&delivery->queue); /* Of the extensions. */
    ks_list_remove(&delivery->held);
    ks_delivery_release(delivery);
}

/* True if the session that ends has delivered later records of the shard, and not this one: its
 * outcome was accepted before. A redriven record has no order. */
static bool is_settled(struct ks_engine *engine, const struct ks_delivery *delivery)
{
    const struct ks_shard *shard;

    if (delivery->state == KS_STATE_BEGUN || delivery->kept_in == engine->sessions)
        return false;
    shard = ks_lanes_shard(&engine->lanes, delivery->record.shard_id);
    return delivery->record.redriven ||
           (shard->head != NULL && ks_delivery_compare(shard->head, delivery) > 0);
}

static void forget_settled(struct ks_engine *engine)
{
    struct ks_link *link, *after;

    for (size_t i = 0; i < KS_UNCONFIRMED_BUCKETS; i++)
        KS_LIST_EACH(link, after, &engine->unconfirmed[i])
        {
            struct ks_delivery *delivery = KS_LIST_ENTRY(link, struct ks_delivery, owner);
            if (!is_settled(engine, delivery))
                continue;
            ks_list_remove(link);
            ks_delivery_release(delivery);
            engine->unconfirmed_count--;
            engine->stale++;
        }
}

static void keep_all(struct ks_engine *engine, struct ks_link *owners)
{
    struct ks_link *link;

    while ((link = ks_list_take(owners)) != NULL)
        keep_or_release(engine, KS_LIST_ENTRY(link, struct ks_delivery, owner));
}

static void keep_unconfirmed(struct ks_engine *engine)
{
    struct ks_link *link, *after;

    forget_settled(engine);
    KS_LIST_EACH(link, after, &engine->groups)
    keep_all(engine, &KS_LIST_ENTRY(link, struct ks_group, groups)->deliveries);
    keep_all(engine, &engine->request.settled);
    if (engine->request.state == KS_REQUEST_WAITING)
        engine->request.state = KS_REQUEST_NONE;
    else if (engine->request.state == KS_REQUEST_IN_FLIGHT)
        engine->request.state = KS_REQUEST_ORPHANED;
}

static void end_holds(struct ks_engine *engine)
{
    struct ks_link *link, *after;

    KS_LIST_EACH(link, after, &engine->held)
    end_hold(engine, KS_LIST_ENTRY(link, struct ks_delivery, held));
}

void ks_engine_opened(struct ks_engine *engine, const ks_event *event, int64_t now)
{
    ks_engine_detached(engine);
    ks_engine_end_index(engine);
    end_holds(engine);
    keep_unconfirmed(engine);
    free_groups(engine);
    ks_lanes_begin_session(&engine->lanes);
    engine->sessions++;
    ks_link_init(&engine->to_ack);
    engine->unsent = 0;
    engine->unsent_bytes = 0;
    engine->barriers_seen = 0;
    engine->barriers_sent = 0;
    engine->is_session_open = true;
    if (event->max_in_flight > 0)
        engine->max_in_flight = event->max_in_flight;
    if (event->max_in_flight_bytes > 0)
        engine->max_in_flight_bytes = event->max_in_flight_bytes;
    if (event->ack_deadline_ms > 0)
        engine->ack_deadline_ms = event->ack_deadline_ms;
    if (event->heartbeat_ms > 0)
        engine->heartbeat_ms = event->heartbeat_ms;
    engine->extend_at = now + engine->ack_deadline_ms / 3;
    engine->retry_at = 0;
}

/* ---- Retries ---- */

static bool is_taken_back(const struct ks_delivery *delivery, const struct ks_delivery *retried)
{
    return delivery->lane == retried->lane && delivery->arrival <= retried->taken_back_to &&
           ks_delivery_compare(delivery, retried) > 0;
}

/* Drops the records that the app does not have. */
static void take_back_queued(struct ks_engine *engine, const struct ks_delivery *retried)
{
    struct ks_link *link, *after;

    KS_LIST_EACH(link, after, &retried->lane->queue)
    {
        struct ks_delivery *delivery = KS_LIST_ENTRY(link, struct ks_delivery, queue);
        if (!is_taken_back(delivery, retried))
            continue;
        if (engine->taken_back != NULL)
            engine->taken_back(delivery, engine->taken_back_context);
        drop(engine, delivery);
    }
}

/* Takes the records of a group that the app has, or has acknowledged: they are redelivered. */
static void take_back_begun(struct ks_engine *engine, struct ks_group *group,
                            const struct ks_delivery *retried)
{
    struct ks_link *link, *after;

    KS_LIST_EACH(link, after, &group->deliveries)
    {
        struct ks_delivery *delivery = KS_LIST_ENTRY(link, struct ks_delivery, owner);
        bool is_acked = delivery->state == KS_STATE_DECIDED && delivery->outcome == KS_OUTCOME_ACK;
        if ((delivery->state != KS_STATE_BEGUN && !is_acked) || !is_taken_back(delivery, retried))
            continue;
        if (engine->taken_back != NULL)
            engine->taken_back(delivery, engine->taken_back_context);
        if (is_acked)
            withdraw_ack(engine, delivery);
        else
            group->open--;
        ks_list_remove(link);
        keep_or_release(engine, delivery);
    }
    ks_engine_forget_group(engine, group);
}

/* The retry took the later records of its lane back: they are redelivered after the retried
 * one. */
static void take_back(struct ks_engine *engine, const struct ks_delivery *retried)
{
    struct ks_link *link, *after;

    take_back_queued(engine, retried);
    if (engine->lanes.is_exclusive) /* The app has no later record of the lane. */
        return;
    KS_LIST_EACH(link, after, &engine->groups)
    take_back_begun(engine, KS_LIST_ENTRY(link, struct ks_group, groups), retried);
}

/* True if the retry holds its lane no longer. */
static bool is_resolved(const struct ks_engine *engine, const struct ks_delivery *retried)
{
    bool is_final =
        retried->verdict == KS_VERDICT_ACCEPTED || retried->verdict == KS_VERDICT_REFUSED;

    return is_final && engine->barriers_seen >= retried->barrier;
}

void ks_engine_resolve(struct ks_engine *engine)
{
    struct ks_link *link, *after;

    KS_LIST_EACH(link, after, &engine->held)
    {
        struct ks_delivery *retried = KS_LIST_ENTRY(link, struct ks_delivery, held);
        if (!is_resolved(engine, retried))
            continue;
        if (retried->verdict == KS_VERDICT_ACCEPTED)
            take_back(engine, retried);
        end_hold(engine, retried);
    }
}

void ks_engine_barrier(struct ks_engine *engine, uint64_t barrier)
{
    struct ks_link *link, *after;

    if (barrier > engine->barriers_seen) /* A repeated request repeats its barrier. */
        engine->barriers_seen = barrier;
    KS_LIST_EACH(link, after, &engine->held)
    {
        struct ks_delivery *retried = KS_LIST_ENTRY(link, struct ks_delivery, held);
        if (retried->barrier > 0 && retried->barrier <= barrier)
            note_failed(engine, retried);
    }
    ks_engine_resolve(engine);
}
