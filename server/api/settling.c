/* SPDX-License-Identifier: Apache-2.0 */
#include "api/settling.h"

#include <assert.h>

#include "base/budget.h"

/* How far one shard must be persisted. */
struct place {
    ks_shard shard;
    ks_epoch epoch;
    ks_number up_to; /* 0: nothing of it is left to be waited for. */
    struct place *next;
};

struct failure {
    const char *id;
    const char *reason;
    const char *message;
    struct failure *next;
};

struct ks_settling {
    struct ks_exchange *exchange;
    struct ks_loop *loop;
    struct ks_switchboard *board;
    struct ks_arena arena;
    struct place *places;
    uint32_t place_count;
    struct failure *first_failure;
    struct failure *last_failure;
    uint32_t failure_count;
    uint64_t ok;
    struct ks_listener listener;
    struct ks_timer timer;
    bool waiting;
    bool checkpoint;
};

static void closed(struct ks_exchange *exchange)
{
    struct ks_settling *settling = exchange->context;

    ks_loop_timer_clear(settling->loop, &settling->timer);
    if (settling->waiting)
        ks_switchboard_unlisten(settling->board, &settling->listener);
    ks_arena_free(&settling->arena);
    ks_free(settling);
}

struct ks_settling *ks_settling_new(struct ks_exchange *exchange, struct ks_arena *arena)
{
    /* Room for the answer, beside what the request took. */
    enum { ANSWER_BYTES = 8 << 20 };
    struct ks_settling *settling = ks_alloc(sizeof(*settling));

    if (settling == NULL) {
        ks_arena_free(arena);
        ks_exchange_problem(exchange, KS_PROBLEM_EXHAUSTED, "out of memory");
        return NULL;
    }
    settling->exchange = exchange;
    settling->loop = exchange->api->loop;
    settling->board = exchange->subscription->board;
    settling->arena = *arena;
    settling->arena.max += ANSWER_BYTES;
    ks_arena_init(arena, 0);
    exchange->context = settling;
    exchange->closed = closed;
    return settling;
}

void *ks_settling_take(struct ks_settling *settling, size_t size)
{
    return ks_arena_take(&settling->arena, size);
}

ks_err ks_settling_done(struct ks_settling *settling, uint64_t count, ks_shard shard,
                        ks_epoch epoch, ks_number up_to)
{
    struct place *place = settling->places;

    settling->ok += count;
    while (place != NULL && (place->shard != shard || place->epoch != epoch))
        place = place->next;
    if (place == NULL) {
        place = ks_settling_take(settling, sizeof(*place));
        if (place == NULL)
            return KS_FAIL(NO_MEMORY);
        *place = (struct place){shard, epoch, 0, settling->places};
        settling->places = place;
        settling->place_count++;
    }
    if (place->up_to < up_to)
        place->up_to = up_to;
    return KS_OK;
}

ks_err ks_settling_failed(struct ks_settling *settling, const char *id, const char *reason,
                          const char *message)
{
    struct failure *failure = ks_settling_take(settling, sizeof(*failure));

    if (failure == NULL)
        return KS_FAIL(NO_MEMORY);
    *failure = (struct failure){id, reason, message, NULL};
    if (settling->last_failure == NULL)
        settling->first_failure = failure;
    else
        settling->last_failure->next = failure;
    settling->last_failure = failure;
    settling->failure_count++;
    return KS_OK;
}

/* ---- The answer ---- */

const char *ks_position_text(const struct ks_position *position)
{
    switch (position->kind) {
    case KS_POSITION_TRIM_HORIZON: return "TRIM_HORIZON";
    case KS_POSITION_LATEST: return "LATEST";
    case KS_POSITION_AT_TIMESTAMP: return "AT_TIMESTAMP";
    case KS_POSITION_AFTER_SEQUENCE:
    case KS_POSITION_AT_SEQUENCE: return position->sequence;
    case KS_POSITION_SHARD_END: return "SHARD_END";
    }
    assert(false);
    return "";
}

static bool is_persisted(struct ks_settling *settling)
{
    bool all = true;

    for (struct place *place = settling->places; place != NULL; place = place->next) {
        /* What was durable once stays so, whatever becomes of the lease. */
        if (ks_switchboard_persisted(settling->board, place->shard, place->epoch, place->up_to))
            place->up_to = 0;
        else
            all = false;
    }
    return all;
}

static ks_err fill_positions(struct ks_settling *settling, ks_pb_position ***ret_positions,
                             size_t *ret_count)
{
    ks_pb_position **positions =
        ks_settling_take(settling, (settling->place_count + 1) * sizeof(*positions));
    size_t i = 0;

    if (positions == NULL)
        return KS_FAIL(NO_MEMORY);
    for (const struct place *place = settling->places; place != NULL; place = place->next) {
        ks_pb_position *position = ks_settling_take(settling, sizeof(*position));
        struct ks_shard_status *status = ks_settling_take(settling, sizeof(*status));
        if (place->shard == KS_SHARD_NONE)
            continue; /* A dead letter stands nowhere. */
        if (position == NULL || status == NULL)
            return KS_FAIL(NO_MEMORY);
        kinesis_sidecar__v1__shard_position__init(position);
        position->shard_id = ks_pb_text(ks_switchboard_shard_id(settling->board, place->shard));
        position->epoch = place->epoch;
        if (ks_switchboard_shard(settling->board, place->shard, status)) {
            position->watermark = ks_pb_text(ks_position_text(&status->watermark));
            position->checkpoint = ks_pb_text(ks_position_text(&status->checkpoint));
        }
        positions[i++] = position;
    }
    *ret_positions = positions;
    *ret_count = i;
    return KS_OK;
}

static ks_err fill_failures(struct ks_settling *settling, ks_pb_settle_failure ***ret_failures)
{
    ks_pb_settle_failure **failures =
        ks_settling_take(settling, (settling->failure_count + 1) * sizeof(*failures));
    size_t i = 0;

    if (failures == NULL)
        return KS_FAIL(NO_MEMORY);
    for (const struct failure *from = settling->first_failure; from != NULL; from = from->next) {
        ks_pb_settle_failure *failure = ks_settling_take(settling, sizeof(*failure));
        if (failure == NULL)
            return KS_FAIL(NO_MEMORY);
        kinesis_sidecar__v1__settle_failure__init(failure);
        failure->ack_id = ks_pb_text(from->id);
        failure->reason = ks_pb_text(from->reason);
        failure->message = ks_pb_text(from->message);
        failures[i++] = failure;
    }
    assert(i == settling->failure_count);
    *ret_failures = failures;
    return KS_OK;
}

static void answer_now(struct ks_settling *settling)
{
    ks_pb_settle_response settled;
    ks_pb_checkpoint_response checkpointed;
    ks_pb_settle_failure **failures = NULL;
    ks_pb_position **positions = NULL;
    size_t position_count = 0;

    if (!ks_ok(fill_positions(settling, &positions, &position_count)) ||
        !ks_ok(fill_failures(settling, &failures))) {
        /* What was settled stays settled; settling it again is allowed. */
        ks_exchange_problem(settling->exchange, KS_PROBLEM_EXHAUSTED, "no memory for the answer");
        return;
    }
    if (settling->checkpoint) {
        kinesis_sidecar__v1__checkpoint_response__init(&checkpointed);
        checkpointed.persisted = settling->place_count > 0 && is_persisted(settling);
        checkpointed.n_positions = position_count;
        checkpointed.positions = positions;
        ks_exchange_message(settling->exchange, &checkpointed.base);
        return;
    }
    kinesis_sidecar__v1__settle_response__init(&settled);
    settled.ok = settling->ok;
    settled.persisted = settling->place_count > 0 && is_persisted(settling);
    settled.n_failed = settling->failure_count;
    settled.failed = failures;
    settled.n_positions = position_count;
    settled.positions = positions;
    ks_exchange_message(settling->exchange, &settled.base);
}

/* ---- Waiting ---- */

/* The lease of records that we wait for has ended: whatever is not durable by now never will be, by
 * us. */
static bool is_hopeless(const struct ks_settling *settling, ks_shard shard)
{
    struct ks_shard_status status;

    for (const struct place *place = settling->places; place != NULL; place = place->next) {
        if (place->shard != shard || place->up_to == 0)
            continue;
        if (shard == KS_SHARD_NONE)
            continue; /* A dead letter needs no lease. */
        if (!ks_switchboard_shard(settling->board, shard, &status) || !status.ours ||
            status.lease.epoch != place->epoch)
            return true;
    }
    return false;
}

static void happened(struct ks_listener *listener, ks_shard shard, const char *event,
                     const char *line)
{
    struct ks_settling *settling = KS_LIST_ENTRY(listener, struct ks_settling, listener);

    (void)event;
    (void)line;
    /* The answer is given from the loop: who told us is in the middle of a step. */
    if (!settling->exchange->answered && (is_persisted(settling) || is_hopeless(settling, shard)))
        ks_loop_timer_set(settling->loop, &settling->timer, ks_loop_now(settling->loop));
}

static void wait_over(struct ks_timer *timer)
{
    struct ks_settling *settling = KS_LIST_ENTRY(timer, struct ks_settling, timer);

    if (settling->exchange->answered)
        return;
    answer_now(settling);
    ks_exchange_wake(settling->exchange);
}

void ks_settling_answer(struct ks_settling *settling, bool persist, int64_t wait_ms,
                        bool checkpoint)
{
    settling->checkpoint = checkpoint;
    if (persist && !is_persisted(settling)) {
        for (const struct place *place = settling->places; place != NULL; place = place->next)
            if (place->shard != KS_SHARD_NONE)
                ks_switchboard_persist(settling->board, place->shard);
    }
    if (!persist || wait_ms == 0 || is_persisted(settling)) {
        answer_now(settling);
        return;
    }
    settling->listener.happened = happened;
    settling->timer.due = wait_over;
    settling->waiting = true;
    ks_switchboard_listen(settling->board, &settling->listener);
    ks_loop_timer_set(settling->loop, &settling->timer,
                      ks_instant_add(ks_loop_now(settling->loop), ks_span_ms(wait_ms)));
}

bool ks_wait_read(struct ks_exchange *exchange, KinesisSidecar__V1__Wait wait, bool has_wait_ms,
                  int64_t wait_ms, struct ks_wait *ret_wait)
{
    enum { WAIT_MS = 10000 };
    bool persist = wait == KINESIS_SIDECAR__V1__WAIT__WAIT_PERSISTED;
    uint64_t query_ms;
    ks_view text;

    if (ks_request_param(&exchange->request, "wait", &text)) {
        persist = ks_view_equal(text, KS_VIEW("persisted"));
        if (!persist && !ks_view_equal(text, KS_VIEW("recorded"))) {
            ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT,
                                "wait must be recorded or persisted");
            return false;
        }
    }
    if ((int)wait < 0 || wait > KINESIS_SIDECAR__V1__WAIT__WAIT_PERSISTED ||
        (has_wait_ms && (wait_ms < 0 || wait_ms > KS_WAIT_MS_MAX))) {
        ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT,
                            "wait must be recorded or persisted, wait_ms from 0 to %d",
                            KS_WAIT_MS_MAX);
        return false;
    }
    if (!ks_request_number(exchange, "wait_ms", 0, KS_WAIT_MS_MAX,
                           has_wait_ms ? (uint64_t)wait_ms : WAIT_MS, &query_ms))
        return false;
    *ret_wait = (struct ks_wait){persist, (int64_t)query_ms};
    return true;
}
