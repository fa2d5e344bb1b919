/* SPDX-License-Identifier: Apache-2.0 */
/* Settle requests: what goes into them, and what their answers decide. */
#include "engine.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    RETRY_AFTER_MS_MAX = 30000,
    BARRIER_BYTES_MAX = 24 /* Digits of a 64-bit number. */
};

/* ---- Building ---- */

static bool is_full(const struct ks_request *request)
{
    return request->items == KS_REQUEST_ITEMS_MAX;
}

static void add_item(struct ks_request *request, uint32_t id_field, const char *id,
                     enum ks_outcome outcome, int64_t delay_ms, const char *reason)
{
    struct ks_buffer *body = &request->body;
    size_t begin = ks_wire_begin(body, KS_SETTLE_REQUEST_SETTLEMENTS);

    ks_wire_add_bytes(body, id_field, id, strlen(id));
    ks_wire_add_number(body, KS_SETTLEMENT_OUTCOME, outcome);
    ks_wire_add_number(body, KS_SETTLEMENT_DELAY_MS, (uint64_t)delay_ms);
    ks_wire_add_bytes(body, KS_SETTLEMENT_REASON, reason, strlen(reason));
    ks_wire_end(body, begin);
    request->items++;
}

static void add_delivery(struct ks_request *request, const struct ks_delivery *delivery,
                         enum ks_outcome outcome)
{
    bool is_ack = outcome == KS_OUTCOME_ACK;
    const char *reason = is_ack || delivery->reason == NULL ? "" : delivery->reason;

    add_item(request, KS_SETTLEMENT_ACK_ID, delivery->ack_id, outcome,
             is_ack ? 0 : delivery->delay_ms, reason);
}

/* Moves a delivery from its group to the request. */
static void take(struct ks_request *request, struct ks_delivery *delivery)
{
    delivery->state = KS_STATE_SENT;
    delivery->group = NULL;
    ks_list_remove(&delivery->owner);
    ks_list_append(&request->settled, &delivery->owner);
}

/* Without acknowledgements: a refusal of one outcome must not take them along. */
static void add_outcomes(struct ks_engine *engine, struct ks_request *request)
{
    struct ks_link *link;

    while (!is_full(request) && (link = ks_list_take(&engine->outcomes)) != NULL) {
        struct ks_delivery *delivery = KS_LIST_ENTRY(link, struct ks_delivery, queue);
        struct ks_group *group = delivery->group;
        add_delivery(request, delivery, delivery->outcome);
        if (!ks_list_is_empty(&delivery->held)) {
            if (request->barrier == 0)
                request->barrier = ++engine->barriers_sent;
            delivery->barrier = request->barrier;
        }
        take(request, delivery);
        ks_engine_forget_group(engine, group);
    }
}

/* The acknowledgements that are not sent use up half of what may be in flight. */
static bool is_crowded(const struct ks_engine *engine)
{
    return engine->unsent * 2 >= engine->max_in_flight ||
           engine->unsent_bytes * 2 >= engine->max_in_flight_bytes;
}

/* Forgets the acknowledgements of a group: they are in the request. */
static void end_unsent(struct ks_engine *engine, struct ks_group *group)
{
    engine->unsent -= group->unsent;
    engine->unsent_bytes -= group->unsent_bytes;
    group->unsent = 0;
    group->unsent_bytes = 0;
    ks_list_remove(&group->to_ack);
    ks_engine_forget_group(engine, group);
}

static void add_whole_group(struct ks_engine *engine, struct ks_request *request,
                            struct ks_group *group)
{
    struct ks_link *link, *after;

    add_item(request, KS_SETTLEMENT_BATCH_ID, group->batch_id, KS_OUTCOME_ACK, 0, "");
    KS_LIST_EACH(link, after, &group->deliveries)
    take(request, KS_LIST_ENTRY(link, struct ks_delivery, owner));
    end_unsent(engine, group);
}

/* Adds the acknowledged records of a group one by one, up to the size of a request. */
static void add_part_of_group(struct ks_engine *engine, struct ks_request *request,
                              struct ks_group *group)
{
    struct ks_link *link, *after;

    KS_LIST_EACH(link, after, &group->deliveries)
    {
        struct ks_delivery *delivery = KS_LIST_ENTRY(link, struct ks_delivery, owner);
        if (delivery->state != KS_STATE_DECIDED || delivery->outcome != KS_OUTCOME_ACK)
            continue;
        if (is_full(request))
            return;
        ks_engine_take_ack(engine, delivery);
        add_delivery(request, delivery, KS_OUTCOME_ACK);
        take(request, delivery);
    }
    end_unsent(engine, group);
}

/* One item settles a batch of which all records were acknowledged. Other acknowledgements wait
 * for the rest of their batch, as long as they may. */
static void add_acks(struct ks_engine *engine, struct ks_request *request, int64_t now,
                     bool everything)
{
    struct ks_link *link, *after;

    KS_LIST_EACH(link, after, &engine->to_ack)
    {
        struct ks_group *group = KS_LIST_ENTRY(link, struct ks_group, to_ack);
        if (!is_full(request) && group->is_complete && group->acked == group->count)
            add_whole_group(engine, request, group);
    }
    KS_LIST_EACH(link, after, &engine->to_ack)
    {
        struct ks_group *group = KS_LIST_ENTRY(link, struct ks_group, to_ack);
        bool is_due = now - group->acked_at >= engine->ack_interval_ms;
        if (!is_full(request) && (is_due || everything || is_crowded(engine)))
            add_part_of_group(engine, request, group);
    }
}

/* When the oldest acknowledgement has waited long enough. */
static int64_t acks_due_at(const struct ks_engine *engine)
{
    struct ks_link *oldest = engine->to_ack.next;

    if (oldest == &engine->to_ack)
        return INT64_MAX;
    return KS_LIST_ENTRY(oldest, struct ks_group, to_ack)->acked_at + engine->ack_interval_ms;
}

/* True if the record has no outcome, and a time that is over, or is not. */
static bool is_open(const struct ks_engine *engine, const struct ks_delivery *delivery, int64_t now,
                    bool is_over)
{
    bool has_outcome = delivery->state != KS_STATE_QUEUED && delivery->state != KS_STATE_BEGUN;

    return !has_outcome && (now - delivery->since >= engine->max_processing_ms) == is_over;
}

static bool has_overdue(const struct ks_engine *engine, struct ks_group *group, int64_t now)
{
    struct ks_link *link, *after;

    KS_LIST_EACH(link, after, &group->deliveries)
    if (is_open(engine, KS_LIST_ENTRY(link, struct ks_delivery, owner), now, true))
        return true;
    return false;
}

/* One item extends a group, unless that extended a record which the app has for too long. */
static void extend_group(const struct ks_engine *engine, struct ks_request *request,
                         struct ks_group *group, int64_t now)
{
    struct ks_link *link, *after;

    if (!has_overdue(engine, group, now)) {
        add_item(request, KS_SETTLEMENT_BATCH_ID, group->batch_id, KS_OUTCOME_EXTEND,
                 engine->ack_deadline_ms, "");
        return;
    }
    KS_LIST_EACH(link, after, &group->deliveries)
    {
        struct ks_delivery *delivery = KS_LIST_ENTRY(link, struct ks_delivery, owner);
        if (!is_full(request) && is_open(engine, delivery, now, false))
            add_item(request, KS_SETTLEMENT_ACK_ID, delivery->ack_id, KS_OUTCOME_EXTEND,
                     engine->ack_deadline_ms, "");
    }
}

/* Extends what the app asked for, and, when it is due, each batch with a record that has no
 * outcome. */
static void add_extensions(struct ks_engine *engine, struct ks_request *request, int64_t now)
{
    struct ks_link *link, *after;

    while (!is_full(request) && (link = ks_list_take(&engine->extensions)) != NULL)
        add_delivery(request, KS_LIST_ENTRY(link, struct ks_delivery, queue), KS_OUTCOME_EXTEND);
    if (now < engine->extend_at)
        return;
    engine->extend_at = now + engine->ack_deadline_ms / 3;
    ks_engine_end_index(engine);
    KS_LIST_EACH(link, after, &engine->groups)
    {
        struct ks_group *group = KS_LIST_ENTRY(link, struct ks_group, groups);
        if (!is_full(request) && group->open > 0 && now - group->since < engine->max_processing_ms)
            extend_group(engine, request, group, now);
    }
}

static void build(struct ks_engine *engine, struct ks_request *request, int64_t now,
                  bool everything)
{
    ks_buffer_clear(&request->body);
    request->items = 0;
    request->barrier = 0;
    add_outcomes(engine, request);
    if (request->items == 0 && (everything || is_crowded(engine) || now >= acks_due_at(engine)))
        add_acks(engine, request, now, everything);
    request->is_extension = request->items == 0;
    if (request->is_extension)
        add_extensions(engine, request, now);
    if (request->barrier > 0) {
        char barrier[BARRIER_BYTES_MAX];
        (void)snprintf(barrier, sizeof(barrier), "%" PRIu64, request->barrier);
        ks_wire_add_bytes(&request->body, KS_SETTLE_REQUEST_BARRIER, barrier, strlen(barrier));
    }
}

/* Gives all retries of the request a verdict that have none. `is_sent`: their barrier follows. */
static void judge_holds(struct ks_engine *engine, enum ks_verdict verdict, bool is_sent)
{
    struct ks_link *link, *after;

    if (engine->request.barrier == 0)
        return;
    KS_LIST_EACH(link, after, &engine->held)
    {
        struct ks_delivery *retried = KS_LIST_ENTRY(link, struct ks_delivery, held);
        if (retried->barrier != engine->request.barrier)
            continue;
        if (retried->verdict == KS_VERDICT_OPEN)
            retried->verdict = verdict;
        if (!is_sent)
            retried->barrier = 0;
    }
    ks_engine_resolve(engine);
}

struct ks_request *ks_engine_request(struct ks_engine *engine, int64_t now, bool everything)
{
    struct ks_request *request = &engine->request;

    if (request->state == KS_REQUEST_IN_FLIGHT || request->state == KS_REQUEST_ORPHANED)
        return NULL;
    engine->is_woken = now < engine->retry_at; /* ks_engine_next_at() is known. */
    if (!engine->is_session_open || (now < engine->retry_at && !everything))
        return NULL;
    if (request->state != KS_REQUEST_WAITING)
        build(engine, request, now, everything);
    if (request->items == 0)
        return NULL;
    request->state = KS_REQUEST_IN_FLIGHT;
    if (!request->body.is_full)
        return request;
    judge_holds(engine, KS_VERDICT_REFUSED, false);
    ks_engine_refused(engine); /* No memory: the records are redelivered. */
    return NULL;
}

int64_t ks_engine_next_at(const struct ks_engine *engine)
{
    int64_t acks_at = acks_due_at(engine);
    int64_t at = acks_at < engine->extend_at ? acks_at : engine->extend_at;

    if (!engine->is_session_open || engine->request.state == KS_REQUEST_IN_FLIGHT ||
        engine->request.state == KS_REQUEST_ORPHANED)
        return INT64_MAX;
    if (engine->request.state == KS_REQUEST_WAITING || at < engine->retry_at)
        return engine->retry_at;
    return at;
}

/* ---- Answers ---- */

/* Ends the request that was in flight. Returns false if its session has ended before. */
static bool end_request(struct ks_engine *engine)
{
    bool is_orphaned = engine->request.state == KS_REQUEST_ORPHANED;

    engine->request.state = KS_REQUEST_NONE;
    return !is_orphaned;
}

static size_t release_settled(struct ks_request *request)
{
    struct ks_link *link;
    size_t count = 0;

    for (; (link = ks_list_take(&request->settled)) != NULL; count++) {
        struct ks_delivery *delivery = KS_LIST_ENTRY(link, struct ks_delivery, owner);
        ks_list_remove(&delivery->indexed); /* The app may keep it. */
        ks_delivery_release(delivery);
    }
    return count;
}

/* A message SettleFailure. */
struct failure {
    struct ks_field ack_id;
    struct ks_field reason;
};

/* Returns false if the message is malformed. */
static bool read_failure(const struct ks_field *field, struct failure *failure)
{
    struct ks_message message = ks_message_of(field->data, field->size);
    struct ks_field member;

    *failure = (struct failure){0};
    while (ks_message_next(&message, &member))
        if (member.number == KS_SETTLE_FAILURE_ACK_ID)
            failure->ack_id = member;
        else if (member.number == KS_SETTLE_FAILURE_REASON)
            failure->reason = member;
    return !message.is_malformed;
}

static bool is_text(const struct ks_field *field, const char *text)
{
    return field->data != NULL && field->size == strlen(text) &&
           memcmp(field->data, text, field->size) == 0;
}

/* The retry of the request with the id; NULL: there is none. */
static struct ks_delivery *find_retry(const struct ks_request *request,
                                      const struct ks_field *ack_id)
{
    struct ks_link *link, *after;

    KS_LIST_EACH(link, after, &request->settled)
    {
        struct ks_delivery *delivery = KS_LIST_ENTRY(link, struct ks_delivery, owner);
        if (delivery->outcome == KS_OUTCOME_RETRY && is_text(ack_id, delivery->ack_id))
            return delivery;
    }
    return NULL;
}

/* Keeps a failure, which is reported later. Without memory it is counted alone. */
static void note_failure(struct ks_engine *engine, const struct ks_field *field)
{
    struct ks_delivery *frame = ks_delivery_new(field->size);

    engine->failed++;
    if (frame == NULL)
        return;
    memcpy(frame->frame, field->data, field->size);
    ks_list_append(&engine->failures, &frame->owner);
}

/* Takes the failure of an item. The record of a retry that is EXPIRED or FENCED was redelivered, or
 * will be: that is what the retry is for. UNKNOWN is an id of a sidecar that was restarted. It may
 * have accepted an earlier copy of the request: what waits in the lane was taken back then. */
static void take_failure(struct ks_engine *engine, const struct ks_field *field)
{
    struct ks_delivery *retried;
    struct failure failure;

    (void)read_failure(field, &failure);
    retried = find_retry(&engine->request, &failure.ack_id);
    if (retried != NULL &&
        (is_text(&failure.reason, "EXPIRED") || is_text(&failure.reason, "FENCED")))
        return;
    if (retried != NULL)
        retried->verdict =
            is_text(&failure.reason, "UNKNOWN") ? KS_VERDICT_STALE : KS_VERDICT_REFUSED;
    note_failure(engine, field);
}

/* Calls `take_failure` for each failure of the answer, if there is an engine. Returns false if
 * the answer is malformed. */
static bool read_failures(const uint8_t *answer, size_t size, struct ks_engine *engine)
{
    struct ks_message message = ks_message_of(answer, size);
    struct failure failure;
    struct ks_field field;

    while (ks_message_next(&message, &field)) {
        if (field.number != KS_SETTLE_RESPONSE_FAILED || field.data == NULL)
            continue;
        if (!read_failure(&field, &failure))
            return false;
        if (engine != NULL)
            take_failure(engine, &field);
    }
    return !message.is_malformed;
}

bool ks_engine_answered(struct ks_engine *engine, const uint8_t *answer, size_t size)
{
    if (!read_failures(answer, size, NULL))
        return false;
    if (!end_request(engine) || engine->request.is_extension)
        return true; /* Failures of an extension are of no interest. */
    (void)read_failures(answer, size, engine);
    judge_holds(engine, KS_VERDICT_ACCEPTED, true);
    (void)release_settled(&engine->request);
    return true;
}

void ks_engine_unanswered(struct ks_engine *engine, int64_t retry_after_ms, int64_t now)
{
    int64_t pause = engine->ack_interval_ms;

    if (!end_request(engine))
        return;
    if (retry_after_ms > pause)
        pause = retry_after_ms < RETRY_AFTER_MS_MAX ? retry_after_ms : RETRY_AFTER_MS_MAX;
    engine->retry_at = now + pause;
    if (!engine->request.is_extension) /* Else the next extension follows. */
        engine->request.state = KS_REQUEST_WAITING;
}

void ks_engine_refused(struct ks_engine *engine)
{
    if (!end_request(engine))
        return;
    engine->stale += release_settled(&engine->request);
}
