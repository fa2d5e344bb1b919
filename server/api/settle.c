/* SPDX-License-Identifier: Apache-2.0 */
/* POST /v1/records/settle, ack, nack, extend: what became of deliveries. */
#include <assert.h>
#include <stdlib.h>

#include "api/methods.h"
#include "api/routes.h"
#include "api/settling.h"
#include "api/stream.h"

/* The longest delay of a retry, and the longest new deadline. */
enum { DELAY_MS_MAX = 43200000 };

struct request {
    const ks_pb_settlement *const *items;
    size_t count;
    struct ks_wait wait;
    const char *barrier; /* "": none. */
};

/* Records of an item that were not accepted. */
struct lost {
    struct ks_ack_run run;
    enum ks_settle_status status;
    struct lost *next;
};

/* One item on its way. */
struct item {
    struct ks_settling *settling;
    const struct ks_subscription *subscription;
    const ks_pb_settlement *message;
    const char *id; /* As it was sent. */
    bool malformed; /* `id` cannot be parsed, or its MAC is wrong. */
    enum ks_settle_outcome outcome;
    ks_span delay;
    struct ks_ack ack;
    /* Of failed_ack_ids: records that are retried instead. In order. */
    struct ks_ack_run *failed;
    size_t failed_count;
    struct lost *lost;
    struct lost *last_lost;
    uint64_t lost_count; /* Of records. */
};

/* What a whole request can come to. */
enum verdict {
    VERDICT_GO_ON,
    VERDICT_FENCED,
    VERDICT_EXPIRED,
    VERDICT_MALFORMED,
    VERDICT_NO_MEMORY
};

static enum verdict verdict_of(ks_err err)
{
    return ks_ok(err) ? VERDICT_GO_ON : VERDICT_NO_MEMORY;
}

/* The sentence for an id that cannot be read: the one that was taken for the other is named. */
static const char *malformed_message(const struct item *item, const char *id)
{
    const struct ks_ack_key *key = &item->subscription->ack_key;
    struct ks_ack ack;

    if (id == item->message->batch_id &&
        ks_ack_id_read(key, ks_view_text(id), &ack) != KS_ACK_ID_MALFORMED)
        return "this is an ack_id, and was given as batch_id";
    if (id != item->message->batch_id &&
        ks_batch_id_read(key, ks_view_text(id), &ack) != KS_ACK_ID_MALFORMED)
        return "this is a batch_id, and was given as ack_id";
    return "not an id that was given out";
}

static enum verdict fail(const struct item *item, const char *id, enum ks_ack_status status)
{
    if (status == KS_ACK_ID_UNKNOWN)
        return verdict_of(ks_settling_failed(item->settling, id, "UNKNOWN",
                                             "delivered by another run of the sidecar"));
    if (status == KS_ACK_ID_ELSEWHERE)
        return verdict_of(ks_settling_failed(item->settling, id, "UNKNOWN",
                                             "of another subscription than the request"));
    return verdict_of(
        ks_settling_failed(item->settling, id, "MALFORMED", malformed_message(item, id)));
}

/* ---- Settling ---- */

static enum verdict lose(struct item *item, const struct ks_ack_run *run, ks_number first,
                         uint32_t count, enum ks_settle_status status)
{
    struct lost *lost = ks_settling_take(item->settling, sizeof(*lost));

    if (lost == NULL)
        return VERDICT_NO_MEMORY;
    *lost = (struct lost){{run->shard, run->epoch, first, count, run->assignment}, status, NULL};
    if (item->lost == NULL)
        item->lost = lost;
    else
        item->last_lost->next = lost;
    item->last_lost = lost;
    item->lost_count += count;
    return VERDICT_GO_ON;
}

/* True if a checkpoint passes the records in the end. */
static bool settles(enum ks_settle_outcome outcome)
{
    return outcome == KS_ACK || outcome == KS_DEAD_LETTER || outcome == KS_DROP;
}

/* That of an extend is how long others are kept, and no wait. */
static ks_span retry_delay(const struct item *item)
{
    if (item->outcome == KS_EXTEND || item->delay.us == 0)
        return KS_DELAY_BY_POLICY;
    return item->delay;
}

/* Settles some records of one run. */
static enum verdict settle_records(struct item *item, const struct ks_ack_run *run, ks_number first,
                                   ks_number end, enum ks_settle_outcome outcome)
{
    enum verdict verdict = VERDICT_GO_ON;
    const ks_number begin = first;

    while (first < end && verdict == VERDICT_GO_ON) {
        struct ks_settlement settlement = {
            .session = item->ack.session,
            .session_epoch = item->ack.session_epoch,
            .shard = run->shard,
            .epoch = run->epoch,
            .first = first,
            .count = (uint32_t)(end - first),
            .assignment = run->assignment,
            .alone = item->message->ack_id[0] != '\0',
            .outcome = outcome,
            .delay = outcome == KS_RETRY ? retry_delay(item) : item->delay,
            .reason = ks_view_text(item->message->reason),
        };
        struct ks_settled settled = ks_switchboard_settle(item->subscription->board, &settlement);
        ks_number done = end;

        switch (settled.status) {
        case KS_SETTLE_OK: break;
        case KS_SETTLE_EXPIRED:
            done = settled.expired_first;
            verdict = lose(item, run, done, settled.expired_count, settled.status);
            break;
        case KS_SETTLE_SETTLED:
            if (first > begin)
                break; /* The records before them were expired: the range was not settled. */
            return lose(item, run, first, settlement.count - settled.unwritten, settled.status);
        case KS_SETTLE_FENCED:
        case KS_SETTLE_UNKNOWN: return lose(item, run, first, settlement.count, settled.status);
        case KS_SETTLE_SESSION_FENCED: return VERDICT_FENCED;
        case KS_SETTLE_SESSION_EXPIRED: return VERDICT_EXPIRED;
        }
        if (verdict == VERDICT_GO_ON && done > first)
            verdict = verdict_of(ks_settling_done(item->settling, done - first - settled.unwritten,
                                                  run->shard, run->epoch,
                                                  settles(outcome) ? settled.up_to : 0));
        first = done + settled.expired_count;
    }
    return verdict;
}

/* ---- What was not accepted ---- */

static enum verdict tell_lost(struct item *item, const char *id, enum ks_settle_status status)
{
    switch (status) {
    case KS_SETTLE_FENCED:
        return verdict_of(ks_settling_failed(item->settling, id, "FENCED",
                                             "its lease epoch has ended; the record comes again"));
    case KS_SETTLE_EXPIRED:
        return verdict_of(ks_settling_failed(item->settling, id, "EXPIRED",
                                             "not in flight with this session any more: its ack "
                                             "deadline has passed, or a record before it was "
                                             "retried; it comes again"));
    case KS_SETTLE_SETTLED:
        return verdict_of(ks_settling_failed(item->settling, id, "SETTLED",
                                             "settled or given up already; the retry took "
                                             "nothing back"));
    case KS_SETTLE_UNKNOWN:
        return verdict_of(
            ks_settling_failed(item->settling, id, "UNKNOWN", "never delivered in this epoch"));
    case KS_SETTLE_OK:
    case KS_SETTLE_SESSION_FENCED:
    case KS_SETTLE_SESSION_EXPIRED: break;
    }
    assert(false);
    return VERDICT_GO_ON;
}

/* Each record by its own id. */
static enum verdict tell_records(struct item *item, const struct lost *lost)
{
    enum verdict verdict = VERDICT_GO_ON;
    struct ks_ack_stamp stamp;

    ks_ack_stamp_init(&stamp, &item->subscription->ack_key, item->ack.session,
                      item->ack.session_epoch, &lost->run);
    for (uint32_t i = 0; i < lost->run.count && verdict == VERDICT_GO_ON; i++) {
        char *id = ks_settling_take(item->settling, KS_ACK_ID_SIZE + 1); /* Zeroed: with its NUL. */

        if (id == NULL)
            return VERDICT_NO_MEMORY;
        ks_ack_id_write(&stamp, lost->run.first + i, id);
        verdict = tell_lost(item, id, lost->status);
    }
    return verdict;
}

/* An item of which nothing was accepted, for one reason, fails as it was sent; else the client must
 * know which records are still his. Those of a batch that were never written are not: it knows nothing of them. */
static enum verdict tell_failures(struct item *item)
{
    enum verdict verdict = VERDICT_GO_ON;
    uint64_t count = 0;
    bool whole;

    if (item->lost == NULL)
        return VERDICT_GO_ON;
    for (uint32_t i = 0; i < item->ack.run_count; i++)
        count += item->ack.runs[i].count;
    whole = item->lost_count == count;
    for (const struct lost *lost = item->lost; lost != NULL; lost = lost->next)
        whole = whole && lost->status == item->lost->status;
    if (whole)
        return tell_lost(item, item->id, item->lost->status);
    for (const struct lost *lost = item->lost; lost != NULL && verdict == VERDICT_GO_ON;
         lost = lost->next)
        if (lost->status != KS_SETTLE_UNKNOWN)
            verdict = tell_records(item, lost);
    return verdict;
}

/* ---- Items ---- */

static bool is_in(const struct ks_ack_run *run, const struct ks_ack_run *record)
{
    return record->shard == run->shard && record->epoch == run->epoch &&
           record->assignment == run->assignment && record->first >= run->first &&
           record->first < run->first + run->count;
}

/* Settles one run: what failed is retried, the rest has the item's outcome. */
static enum verdict settle_run(struct item *item, const struct ks_ack_run *run)
{
    ks_number next = run->first;
    enum verdict verdict = VERDICT_GO_ON;

    for (size_t i = 0; i < item->failed_count && verdict == VERDICT_GO_ON; i++) {
        ks_number failed = item->failed[i].first;
        if (!is_in(run, &item->failed[i]) || failed < next)
            continue;
        verdict = settle_records(item, run, next, failed, item->outcome);
        if (verdict == VERDICT_GO_ON)
            verdict = settle_records(item, run, failed, failed + 1, KS_RETRY);
        next = failed + 1;
    }
    if (verdict != VERDICT_GO_ON)
        return verdict;
    return settle_records(item, run, next, run->first + run->count, item->outcome);
}

static int compare_records(const void *left, const void *right)
{
    const struct ks_ack_run *a = left;
    const struct ks_ack_run *b = right;

    return a->first < b->first ? -1 : a->first > b->first;
}

static bool is_in_batch(const struct item *item, const struct ks_ack *ack)
{
    for (uint32_t i = 0; i < item->ack.run_count; i++)
        if (ack->session == item->ack.session && is_in(&item->ack.runs[i], &ack->runs[0]))
            return true;
    return false;
}

/* Reads failed_ack_ids. An id that is none of the batch fails by itself. */
static enum verdict read_failed(struct item *item)
{
    size_t count = item->message->n_failed_ack_ids;
    enum verdict verdict = VERDICT_GO_ON;

    if (count == 0)
        return VERDICT_GO_ON;
    item->failed = ks_settling_take(item->settling, count * sizeof(*item->failed));
    if (item->failed == NULL)
        return VERDICT_NO_MEMORY;
    for (size_t i = 0; i < count && verdict == VERDICT_GO_ON; i++) {
        const char *id = item->message->failed_ack_ids[i];
        struct ks_ack ack;
        enum ks_ack_status status =
            ks_ack_id_read(&item->subscription->ack_key, ks_view_text(id), &ack);
        if (status != KS_ACK_ID_OK)
            verdict = fail(item, id, status);
        else if (!is_in_batch(item, &ack))
            verdict = verdict_of(
                ks_settling_failed(item->settling, id, "UNKNOWN", "not a record of the batch"));
        else
            item->failed[item->failed_count++] = ack.runs[0];
    }
    if (item->failed_count > 1)
        qsort(item->failed, item->failed_count, sizeof(*item->failed), compare_records);
    return verdict;
}

/* `extend` without a time means the session's own deadline. */
static void default_delay(struct item *item)
{
    struct ks_session_status status;

    if (item->outcome == KS_EXTEND && item->delay.us == 0 &&
        ks_switchboard_session(item->subscription->board, item->ack.session, &status))
        item->delay = status.ack_deadline;
}

static enum ks_ack_status read_id(const struct ks_ack_key *key, const ks_pb_settlement *message,
                                  struct ks_ack *ret_ack)
{
    if (message->ack_id[0] != '\0')
        return ks_ack_id_read(key, ks_view_text(message->ack_id), ret_ack);
    return ks_batch_id_read(key, ks_view_text(message->batch_id), ret_ack);
}

static enum verdict settle_item(struct item *item)
{
    const ks_pb_settlement *message = item->message;
    enum verdict verdict;
    enum ks_ack_status status;

    item->id = message->ack_id[0] != '\0' ? message->ack_id : message->batch_id;
    status = read_id(&item->subscription->ack_key, message, &item->ack);
    item->malformed = status == KS_ACK_ID_MALFORMED;
    if (status != KS_ACK_ID_OK)
        return fail(item, item->id, status);
    default_delay(item);
    verdict = read_failed(item);
    for (uint32_t i = 0; i < item->ack.run_count && verdict == VERDICT_GO_ON; i++)
        verdict = settle_run(item, &item->ack.runs[i]);
    return verdict == VERDICT_GO_ON ? tell_failures(item) : verdict;
}

/* The session of the item has ended, by itself or by another connection. */
static enum verdict fail_ended(struct item *item)
{
    return verdict_of(ks_settling_failed(item->settling, item->id, "EXPIRED",
                                         "its session is over; the record is delivered again"));
}

static bool outcome_of(KinesisSidecar__V1__Outcome named, enum ks_settle_outcome *ret_outcome)
{
    switch (named) {
    case KINESIS_SIDECAR__V1__OUTCOME__OUTCOME_ACK: *ret_outcome = KS_ACK; return true;
    case KINESIS_SIDECAR__V1__OUTCOME__OUTCOME_RETRY: *ret_outcome = KS_RETRY; return true;
    case KINESIS_SIDECAR__V1__OUTCOME__OUTCOME_EXTEND: *ret_outcome = KS_EXTEND; return true;
    case KINESIS_SIDECAR__V1__OUTCOME__OUTCOME_DEAD_LETTER:
        *ret_outcome = KS_DEAD_LETTER;
        return true;
    case KINESIS_SIDECAR__V1__OUTCOME__OUTCOME_DROP: *ret_outcome = KS_DROP; return true;
    default: return false;
    }
}

/* On the stream of the session that the first readable id belongs to. */
static void write_barrier(struct ks_subscription *subscription, const struct request *request)
{
    struct ks_ack ack;

    if (request->barrier[0] == '\0')
        return;
    for (size_t i = 0; i < request->count; i++) {
        if (read_id(&subscription->ack_key, request->items[i], &ack) != KS_ACK_ID_OK)
            continue;
        ks_stream_barrier(subscription, ack.session, ack.session_epoch, request->barrier);
        return;
    }
}

static void settle_all(struct ks_exchange *exchange, struct ks_settling *settling,
                       const struct request *request)
{
    enum verdict verdict = VERDICT_GO_ON;
    enum verdict of_session = VERDICT_GO_ON;
    size_t ended = 0;
    size_t malformed = 0;
    const char *reason = "";

    for (size_t i = 0; i < request->count && verdict == VERDICT_GO_ON; i++) {
        struct item item = {
            .settling = settling,
            .subscription = exchange->subscription,
            .message = request->items[i],
            .delay = ks_span_ms(request->items[i]->delay_ms),
        };
        if (!outcome_of(item.message->outcome, &item.outcome))
            assert(false); /* All were checked. */
        verdict = settle_item(&item);
        if (item.malformed && malformed++ == 0)
            reason = malformed_message(&item, item.id);
        if (verdict != VERDICT_FENCED && verdict != VERDICT_EXPIRED)
            continue;
        of_session = verdict;
        ended++;
        verdict = fail_ended(&item);
    }
    /* All are of sessions that have ended: so is the request. */
    if (verdict == VERDICT_GO_ON && ended > 0 && ended == request->count)
        verdict = of_session;
    if (verdict == VERDICT_GO_ON && malformed == request->count)
        verdict = VERDICT_MALFORMED;
    switch (verdict) {
    case VERDICT_GO_ON:
        write_barrier(exchange->subscription, request);
        ks_settling_answer(settling, request->wait.persist, request->wait.wait_ms, false);
        return;
    case VERDICT_FENCED:
        ks_exchange_problem(exchange, KS_PROBLEM_SESSION_FENCED,
                            "the session was taken over by another connection");
        return;
    case VERDICT_EXPIRED:
        ks_exchange_problem(exchange, KS_PROBLEM_SESSION_EXPIRED,
                            "the session is over; its records come again");
        return;
    case VERDICT_MALFORMED:
        ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT, "no settlement can be read: %s",
                            reason);
        return;
    case VERDICT_NO_MEMORY:
        ks_exchange_problem(exchange, KS_PROBLEM_EXHAUSTED, "out of memory");
        return;
    }
}

/* ---- Requests ---- */

static bool check_item(struct ks_exchange *exchange, const ks_pb_settlement *item)
{
    bool one = (item->ack_id[0] != '\0') != (item->batch_id[0] != '\0');
    enum ks_settle_outcome outcome;

    if (!outcome_of(item->outcome, &outcome)) {
        ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT,
                            "outcome must be ack, retry, extend, dead_letter or drop");
        return false;
    }
    if (!one) {
        ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT,
                            "a settlement has either ack_id or batch_id");
        return false;
    }
    if (item->n_failed_ack_ids > 0 && item->batch_id[0] == '\0') {
        ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT,
                            "failed_ack_ids goes with batch_id");
        return false;
    }
    if (item->delay_ms < 0 || item->delay_ms > DELAY_MS_MAX) {
        ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT, "delay_ms must be 0 to %d",
                            DELAY_MS_MAX);
        return false;
    }
    return true;
}

/* Who names no subscription means that of the first id; where no id can be read, all fail alike. */
static void choose_by_ids(struct ks_exchange *exchange, const struct request *request)
{
    struct ks_api *api = exchange->api;
    enum ks_ack_status status = KS_ACK_ID_MALFORMED;
    struct ks_ack ack = {.subscription = 0};

    for (size_t i = 0; i < request->count && status != KS_ACK_ID_OK; i++) {
        status = read_id(&api->subscriptions[0].ack_key, request->items[i], &ack);
        if (status == KS_ACK_ID_ELSEWHERE)
            break;
    }
    assert(ack.subscription < api->subscription_count);
    exchange->subscription = &api->subscriptions[ack.subscription];
}

/* Without a place for it nothing can become a dead letter. */
static bool check_letters(struct ks_exchange *exchange, const struct request *request)
{
    if (ks_switchboard_letters(exchange->subscription->board) != NULL)
        return true;
    for (size_t i = 0; i < request->count; i++) {
        if (request->items[i]->outcome != KINESIS_SIDECAR__V1__OUTCOME__OUTCOME_DEAD_LETTER)
            continue;
        ks_exchange_problem(exchange, KS_PROBLEM_FAILED_PRECONDITION,
                            "there are no dead letters without --dead-letters or --state-dir");
        return false;
    }
    return true;
}

/* Checks all before any is settled, and settles. The arena is moved if that takes longer. */
static void settle_request(struct ks_exchange *exchange, const struct request *request,
                           struct ks_arena *arena)
{
    struct ks_settling *settling;
    bool good = request->count > 0 && request->count <= KS_SETTLEMENTS_MAX;

    if (!good)
        ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT,
                            "1 to %d settlements are wanted; there are %zu", KS_SETTLEMENTS_MAX,
                            request->count);
    else if (!ks_client_id_is_valid(ks_view_text(request->barrier))) {
        good = false;
        ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT,
                            "barrier must be at most 64 of A-Z a-z 0-9 . _ -");
    }
    for (size_t i = 0; i < request->count && good; i++)
        good = check_item(exchange, request->items[i]);
    if (!good)
        return;
    if (exchange->subscription == NULL)
        choose_by_ids(exchange, request);
    if (!check_letters(exchange, request))
        return;
    settling = ks_settling_new(exchange, arena);
    if (settling != NULL)
        settle_all(exchange, settling, request);
}

void ks_serve_settle(struct ks_exchange *exchange, const ProtobufCMessage *from,
                     struct ks_arena *arena)
{
    const ks_pb_settle_request *message = (const ks_pb_settle_request *)from;
    struct request request = {
        .items = (const ks_pb_settlement *const *)message->settlements,
        .count = message->n_settlements,
        .barrier = message->barrier,
    };

    if (ks_wait_read(exchange, message->wait,
                     message->wait_limit_case ==
                         KINESIS_SIDECAR__V1__SETTLE_REQUEST__WAIT_LIMIT_WAIT_MS,
                     message->wait_ms, &request.wait))
        settle_request(exchange, &request, arena);
}

void ks_handle_settle(struct ks_exchange *exchange)
{
    ks_exchange_serve(exchange, &kinesis_sidecar__v1__settle_request__descriptor, ks_serve_settle);
}

/* ---- ack, nack, extend: ids in the query, in the body, or as settlements without an outcome ----
 */

struct quick {
    struct ks_exchange *exchange;
    struct ks_arena *arena;
    const ks_pb_quick_request *message;
    KinesisSidecar__V1__Outcome outcome;
    int64_t delay_ms;
    ks_pb_settlement **items;
    size_t count;
    size_t max;
};

static bool add(struct quick *quick, const char *ack_id, const char *batch_id)
{
    ks_pb_settlement *item = ks_arena_take(quick->arena, sizeof(*item));

    if (item == NULL)
        return false;
    assert(quick->count < quick->max);
    kinesis_sidecar__v1__settlement__init(item);
    item->ack_id = ks_pb_text(ack_id);
    item->batch_id = ks_pb_text(batch_id);
    item->outcome = quick->outcome;
    item->delay_ms = quick->delay_ms;
    item->reason = quick->message->reason;
    if (batch_id[0] != '\0') {
        item->n_failed_ack_ids = quick->message->n_failed_ack_ids;
        item->failed_ack_ids = quick->message->failed_ack_ids;
    }
    quick->items[quick->count++] = item;
    return true;
}

static bool add_params(struct quick *quick)
{
    const struct ks_target *target = &quick->exchange->request.decoded;

    for (uint32_t i = 0; i < target->param_count; i++) {
        const struct ks_param *param = &target->params[i];
        bool is_ack = ks_view_equal(param->name, KS_VIEW("ack_id"));
        const char *text;

        if (!is_ack && !ks_view_equal(param->name, KS_VIEW("batch_id")))
            continue;
        text = ks_arena_text(quick->arena, param->value);
        if (text == NULL || !add(quick, is_ack ? text : "", is_ack ? "" : text))
            return false;
    }
    return true;
}

static bool add_settlements(struct quick *quick)
{
    for (size_t i = 0; i < quick->message->n_settlements; i++) {
        ks_pb_settlement *item = quick->message->settlements[i];
        if (item->outcome == KINESIS_SIDECAR__V1__OUTCOME__OUTCOME_UNSPECIFIED)
            item->outcome = quick->outcome;
        quick->items[quick->count++] = item;
    }
    return true;
}

static bool gather(struct quick *quick)
{
    const ks_pb_quick_request *message = quick->message;

    quick->max = quick->exchange->request.decoded.param_count + message->n_ack_ids + 2 +
                 message->n_settlements;
    quick->items = ks_arena_take(quick->arena, quick->max * sizeof(*quick->items));
    if (quick->items == NULL || !add_params(quick))
        return false;
    for (size_t i = 0; i < message->n_ack_ids; i++)
        if (!add(quick, message->ack_ids[i], ""))
            return false;
    if (message->ack_id[0] != '\0' && !add(quick, message->ack_id, ""))
        return false;
    if (message->batch_id[0] != '\0' && !add(quick, "", message->batch_id))
        return false;
    return add_settlements(quick);
}

/* Of records that are none of a batch nobody could say which of them failed. */
static bool check_failed(const struct quick *quick)
{
    size_t batches = 0;

    for (size_t i = 0; i < quick->count - quick->message->n_settlements; i++)
        batches += quick->items[i]->batch_id[0] != '\0';
    if (quick->message->n_failed_ack_ids == 0 || batches == 1)
        return true;
    ks_exchange_problem(quick->exchange, KS_PROBLEM_INVALID_ARGUMENT,
                        "failed_ack_ids goes with one batch_id");
    return false;
}

/* Everything but the ids. False if the exchange was answered. */
static bool read_rest(struct quick *quick, struct ks_wait *ret_wait)
{
    const ks_pb_quick_request *message = quick->message;
    uint64_t delay_ms = 0;

    if (message->delay_ms < 0 || message->delay_ms > DELAY_MS_MAX) {
        ks_exchange_problem(quick->exchange, KS_PROBLEM_INVALID_ARGUMENT,
                            "delay_ms must be 0 to %d", DELAY_MS_MAX);
        return false;
    }
    if (!ks_request_number(quick->exchange, "delay_ms", 0, DELAY_MS_MAX,
                           (uint64_t)message->delay_ms, &delay_ms))
        return false;
    quick->delay_ms = (int64_t)delay_ms;
    return ks_wait_read(quick->exchange, message->wait,
                        message->wait_limit_case ==
                            KINESIS_SIDECAR__V1__QUICK_SETTLE_REQUEST__WAIT_LIMIT_WAIT_MS,
                        message->wait_ms, ret_wait);
}

static void settle_quickly(struct ks_exchange *exchange, KinesisSidecar__V1__Outcome outcome,
                           const ProtobufCMessage *message, struct ks_arena *arena)
{
    struct quick quick = {.exchange = exchange,
                          .arena = arena,
                          .outcome = outcome,
                          .message = (const ks_pb_quick_request *)message};
    struct request request = {.barrier = ""};

    if (!read_rest(&quick, &request.wait))
        return;
    if (!gather(&quick)) {
        ks_exchange_problem(exchange, KS_PROBLEM_EXHAUSTED, "out of memory");
        return;
    }
    request.items = (const ks_pb_settlement *const *)quick.items;
    request.count = quick.count;
    if (check_failed(&quick))
        settle_request(exchange, &request, arena);
}

static void serve_ack(struct ks_exchange *exchange, const ProtobufCMessage *message,
                      struct ks_arena *arena)
{
    settle_quickly(exchange, KINESIS_SIDECAR__V1__OUTCOME__OUTCOME_ACK, message, arena);
}

static void serve_nack(struct ks_exchange *exchange, const ProtobufCMessage *message,
                       struct ks_arena *arena)
{
    settle_quickly(exchange, KINESIS_SIDECAR__V1__OUTCOME__OUTCOME_RETRY, message, arena);
}

static void serve_extend(struct ks_exchange *exchange, const ProtobufCMessage *message,
                         struct ks_arena *arena)
{
    settle_quickly(exchange, KINESIS_SIDECAR__V1__OUTCOME__OUTCOME_EXTEND, message, arena);
}

void ks_handle_ack(struct ks_exchange *exchange)
{
    ks_exchange_serve(exchange, &kinesis_sidecar__v1__quick_settle_request__descriptor, serve_ack);
}

void ks_handle_nack(struct ks_exchange *exchange)
{
    ks_exchange_serve(exchange, &kinesis_sidecar__v1__quick_settle_request__descriptor, serve_nack);
}

void ks_handle_extend(struct ks_exchange *exchange)
{
    ks_exchange_serve(exchange, &kinesis_sidecar__v1__quick_settle_request__descriptor,
                      serve_extend);
}
