/* SPDX-License-Identifier: Apache-2.0 */
/* POST, GET and DELETE /v1/dead-letters/redrive: the redrive of many letters. */
#include <assert.h>

#include "api/methods.h"
#include "api/routes.h"
#include "api/subscription.h"

#include "kinesis_sidecar/v1/letters.pb-c.h"

typedef KinesisSidecar__V1__RedriveDeadLettersRequest ks_pb_redrive_request;
typedef KinesisSidecar__V1__RedriveJob ks_pb_redrive_job;
typedef KinesisSidecar__V1__DeadLetterCause ks_pb_cause;

enum { RATE = 10, MOST = 1000 };

/* ---- Causes ---- */

static const ks_pb_cause CAUSES[] = {
    [KS_CAUSE_ASKED] = KINESIS_SIDECAR__V1__DEAD_LETTER_CAUSE__DEAD_LETTER_CAUSE_ASKED,
    [KS_CAUSE_ATTEMPTS] = KINESIS_SIDECAR__V1__DEAD_LETTER_CAUSE__DEAD_LETTER_CAUSE_ATTEMPTS,
    [KS_CAUSE_AGE] = KINESIS_SIDECAR__V1__DEAD_LETTER_CAUSE__DEAD_LETTER_CAUSE_AGE,
};
static const char *const CAUSE_WORDS[] = {
    [KS_CAUSE_ASKED] = "asked", [KS_CAUSE_ATTEMPTS] = "attempts", [KS_CAUSE_AGE] = "age"};
enum { CAUSE_COUNT = sizeof CAUSES / sizeof CAUSES[0] };

static bool refuse_cause(struct ks_exchange *exchange)
{
    ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT,
                        "cause must be asked, attempts or age; leave it out for any cause");
    return false;
}

static bool read_cause(struct ks_exchange *exchange, ks_pb_cause cause,
                       struct ks_redrive_order *order)
{
    order->any_cause = (int)cause == 0;
    if (order->any_cause)
        return true;
    for (int i = 0; i < CAUSE_COUNT; i++) {
        order->cause = (enum ks_cause)i;
        if (CAUSES[i] == cause)
            return true;
    }
    return refuse_cause(exchange);
}

static bool read_cause_word(struct ks_exchange *exchange, ks_pb_cause *ret_cause)
{
    ks_view word;

    if (!ks_request_param(&exchange->request, "cause", &word))
        return true;
    for (int i = 0; i < CAUSE_COUNT; i++) {
        if (ks_view_equal(word, ks_view_text(CAUSE_WORDS[i]))) {
            *ret_cause = CAUSES[i];
            return true;
        }
    }
    return refuse_cause(exchange);
}

/* ---- The job as a message ---- */

static KinesisSidecar__V1__RedriveState state_of(enum ks_redrive_job_state state)
{
    switch (state) {
    case KS_REDRIVE_JOB_NONE: break;
    case KS_REDRIVE_JOB_RUNNING: return KINESIS_SIDECAR__V1__REDRIVE_STATE__REDRIVE_STATE_RUNNING;
    case KS_REDRIVE_JOB_DONE: return KINESIS_SIDECAR__V1__REDRIVE_STATE__REDRIVE_STATE_DONE;
    case KS_REDRIVE_JOB_STOPPED: return KINESIS_SIDECAR__V1__REDRIVE_STATE__REDRIVE_STATE_STOPPED;
    case KS_REDRIVE_JOB_DRAINED: return KINESIS_SIDECAR__V1__REDRIVE_STATE__REDRIVE_STATE_DRAINED;
    }
    assert(false);
    return KINESIS_SIDECAR__V1__REDRIVE_STATE__REDRIVE_STATE_UNSPECIFIED;
}

static void answer_job(struct ks_exchange *exchange)
{
    const struct ks_redrive_job *const job =
        ks_switchboard_redrive_job(exchange->subscription->board);
    KinesisSidecar__V1__Problem problem;
    ks_pb_redrive_job answer;

    kinesis_sidecar__v1__redrive_job__init(&answer);
    answer.state = state_of(job->state);
    answer.shard_id = ks_pb_text(job->shard_id);
    if (!job->any_cause)
        answer.cause = CAUSES[job->cause];
    answer.rate = job->rate;
    answer.most = job->most;
    answer.begun_at = job->begun_ms;
    answer.ended_at = job->ended_ms;
    answer.found = job->found;
    answer.redriven = job->redriven;
    answer.in_delivery = job->in_delivery;
    answer.acknowledged = job->acknowledged;
    answer.given_up_again = job->given_up;
    answer.taken = job->taken;
    answer.refused_claimed = job->refused_claimed;
    answer.refused_expired = job->refused_expired;
    answer.refused_gone = job->refused_gone;
    answer.refused_unreadable = job->refused_unreadable;
    if (job->trouble.text[0] != '\0') {
        ks_problem_fill(KS_PROBLEM_UNAVAILABLE, job->trouble.text, &problem);
        answer.problem = &problem;
    }
    ks_exchange_message(exchange, &answer.base);
}

/* ---- Orders ---- */

static bool has_store(struct ks_exchange *exchange)
{
    if (ks_switchboard_letters(exchange->subscription->board) != NULL)
        return true;
    ks_exchange_problem(exchange, KS_PROBLEM_FAILED_PRECONDITION,
                        "there is no place for dead letters: set --dead-letters or --state-dir");
    return false;
}

static void begin(struct ks_exchange *exchange, const struct ks_redrive_order *order)
{
    const ks_err err = ks_switchboard_redrive_many(exchange->subscription->board, order,
                                                   exchange->request.authority);

    if (ks_ok(err))
        answer_job(exchange);
    else if (ks_err_is(err, KS_ERR_BUSY))
        ks_exchange_problem(exchange, KS_PROBLEM_UNAVAILABLE,
                            "draining: nothing more is delivered");
    else if (ks_err_is(err, KS_ERR_CONDITION))
        ks_exchange_problem(exchange, KS_PROBLEM_REDRIVEN,
                            "a redrive of many dead letters runs already: wait until it is done, "
                            "or stop it with DELETE /v1/dead-letters/redrive");
    else
        ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT,
                            "shard must be the id of a shard, of at most %d bytes",
                            KS_SHARD_ID_MAX);
}

void ks_serve_redrive_letters(struct ks_exchange *exchange, const ProtobufCMessage *message,
                              struct ks_arena *arena)
{
    const ks_pb_redrive_request *const request = (const ks_pb_redrive_request *)message;
    struct ks_redrive_order order = {.shard_id = ks_view_text(request->shard_id)};
    uint64_t rate;

    (void)arena;
    if (!ks_subscription_wanted(exchange) || !has_store(exchange) ||
        !ks_message_number(exchange, "rate", request->rate, 1, KS_REDRIVE_RATE_MAX, RATE, &rate) ||
        !ks_message_number(exchange, "most", request->most, 1, UINT64_MAX, MOST, &order.most) ||
        !read_cause(exchange, request->cause, &order))
        return;
    order.rate = (uint32_t)rate;
    begin(exchange, &order);
}

/* True if there is one. */
static bool has_job(struct ks_exchange *exchange)
{
    const struct ks_redrive_job *const job =
        ks_switchboard_redrive_job(exchange->subscription->board);

    if (job->state != KS_REDRIVE_JOB_NONE)
        return true;
    ks_exchange_problem(exchange, KS_PROBLEM_NOT_FOUND,
                        "no redrive of many dead letters was ordered since this process began");
    return false;
}

void ks_serve_redrive_job(struct ks_exchange *exchange, const ProtobufCMessage *message,
                          struct ks_arena *arena)
{
    (void)message;
    (void)arena;
    if (ks_subscription_wanted(exchange) && has_job(exchange))
        answer_job(exchange);
}

void ks_serve_redrive_stop(struct ks_exchange *exchange, const ProtobufCMessage *message,
                           struct ks_arena *arena)
{
    (void)message;
    (void)arena;
    if (ks_subscription_wanted(exchange) && has_job(exchange)) {
        (void)ks_switchboard_redrive_stop(exchange->subscription->board);
        answer_job(exchange);
    }
}

/* ---- REST ---- */

void ks_handle_redrive_letters(struct ks_exchange *exchange)
{
    char shard_id[KS_SHARD_ID_MAX + 1] = "";
    ks_pb_redrive_request request;
    ks_view shard = KS_VIEW("");
    uint64_t rate;

    kinesis_sidecar__v1__redrive_dead_letters_request__init(&request);
    (void)ks_request_param(&exchange->request, "shard", &shard);
    if (!ks_ok(ks_view_copy_text(shard, shard_id, sizeof shard_id))) {
        ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT,
                            "shard must be the id of a shard, of at most %d bytes",
                            KS_SHARD_ID_MAX);
        return;
    }
    if (!ks_request_number(exchange, "rate", 1, KS_REDRIVE_RATE_MAX, RATE, &rate) ||
        !ks_request_number(exchange, "most", 1, UINT64_MAX, MOST, &request.most) ||
        !read_cause_word(exchange, &request.cause))
        return;
    request.shard_id = shard_id;
    request.rate = (uint32_t)rate;
    ks_serve_redrive_letters(exchange, &request.base, NULL);
}

void ks_handle_redrive_job(struct ks_exchange *exchange)
{
    ks_serve_redrive_job(exchange, NULL, NULL);
}

void ks_handle_redrive_stop(struct ks_exchange *exchange)
{
    ks_serve_redrive_stop(exchange, NULL, NULL);
}
