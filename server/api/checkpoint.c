/* SPDX-License-Identifier: Apache-2.0 */
/* POST /v1/checkpoint: everything delivered up to a position is acknowledged. */
#include "api/methods.h"
#include "api/routes.h"
#include "api/settling.h"

static void refuse(struct ks_exchange *exchange, ks_err err, const struct ks_detail *detail)
{
    enum ks_problem problem = KS_PROBLEM_INVALID_ARGUMENT;

    if (ks_err_is(err, KS_ERR_NOT_FOUND))
        problem = KS_PROBLEM_NOT_FOUND;
    if (ks_err_is(err, KS_ERR_EXPIRED))
        problem = KS_PROBLEM_LEASE_LOST;
    ks_exchange_problem(exchange, problem, "%s", detail->text);
}

/* False if the exchange was answered with a problem. */
static bool settle(struct ks_exchange *exchange, const ks_pb_checkpoint_request *request,
                   ks_shard *ret_shard, ks_epoch *ret_epoch, ks_number *ret_up_to)
{
    struct ks_switchboard *board = exchange->subscription->board;
    ks_view shard = ks_view_text(request->shard_id);
    ks_view sequence = ks_view_text(request->sequence_number);
    struct ks_detail detail = {.text = ""};
    ks_err err;

    if (shard.size == 0 || sequence.size == 0 || sequence.size > KS_SEQUENCE_MAX ||
        shard.size > KS_SHARD_ID_MAX || request->sub_sequence_number < 0 ||
        strspn(request->sequence_number, "0123456789") < sequence.size) {
        ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT,
                            "shard_id and sequence_number are required, as they were delivered");
        return false;
    }
    err = ks_switchboard_checkpoint(board, shard, sequence, request->sub_sequence_number,
                                    request->epoch, ret_shard, ret_epoch, ret_up_to, &detail);
    if (!ks_ok(err))
        refuse(exchange, err, &detail);
    return ks_ok(err);
}

void ks_serve_checkpoint(struct ks_exchange *exchange, const ProtobufCMessage *message,
                         struct ks_arena *arena)
{
    const ks_pb_checkpoint_request *request = (const ks_pb_checkpoint_request *)message;
    struct ks_settling *settling;
    struct ks_wait wait;
    ks_shard shard;
    ks_epoch epoch;
    ks_number up_to;

    if (!ks_subscription_wanted(exchange) ||
        !ks_wait_read(exchange, request->wait,
                      request->wait_limit_case ==
                          KINESIS_SIDECAR__V1__CHECKPOINT_REQUEST__WAIT_LIMIT_WAIT_MS,
                      request->wait_ms, &wait) ||
        !settle(exchange, request, &shard, &epoch, &up_to))
        return;
    settling = ks_settling_new(exchange, arena);
    if (settling == NULL)
        return;
    if (!ks_ok(ks_settling_done(settling, 1, shard, epoch, up_to))) {
        ks_exchange_problem(exchange, KS_PROBLEM_EXHAUSTED, "out of memory");
        return;
    }
    ks_settling_answer(settling, wait.persist, wait.wait_ms, true);
}

void ks_handle_checkpoint(struct ks_exchange *exchange)
{
    ks_exchange_serve(exchange, &kinesis_sidecar__v1__checkpoint_request__descriptor,
                      ks_serve_checkpoint);
}
