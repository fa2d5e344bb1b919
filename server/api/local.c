/* SPDX-License-Identifier: Apache-2.0 */
/* POST /v1/local/records: PutRecords (Kinesis API reference) into the local stream. */
#include "api/message.h"
#include "api/put_body.h"
#include "api/routes.h"
#include "api/server.h"
#include "base/budget.h"
#include "base/json_writer.h"

/* A put that is under way. The answer comes even if the client has left. */
struct put {
    struct ks_exchange *exchange; /* NULL: it has. */
};

static void closed(struct ks_exchange *exchange)
{
    struct put *put = exchange->context;

    if (put != NULL)
        put->exchange = NULL;
}

static void write_result(struct ks_writer *json, const struct ks_put_result *result)
{
    ks_writer_open(json, '{');
    if (ks_ok(result->err)) {
        ks_writer_key(json, "SequenceNumber");
        ks_writer_string(json, result->sequence);
        ks_writer_key(json, "ShardId");
        ks_writer_string(json, result->shard);
    } else {
        ks_writer_key(json, "ErrorCode");
        ks_writer_string(json, "InternalFailure");
        ks_writer_key(json, "ErrorMessage");
        ks_writer_string(json, ks_err_text(result->err));
    }
    ks_writer_close(json, '}');
}

static void write_answer(struct ks_exchange *exchange, const struct ks_put_answer *answer)
{
    struct ks_bytes body;
    struct ks_writer json;
    uint64_t failed = 0;

    for (uint32_t i = 0; i < answer->count; i++)
        failed += !ks_ok(answer->results[i].err);
    ks_bytes_init(&body, KS_ANSWER_BYTES_MAX);
    ks_writer_begin(&json, &body);
    ks_writer_open(&json, '{');
    ks_writer_key(&json, "FailedRecordCount");
    ks_writer_u64(&json, failed);
    ks_writer_key(&json, "Records");
    ks_writer_open(&json, '[');
    for (uint32_t i = 0; i < answer->count; i++)
        write_result(&json, &answer->results[i]);
    ks_writer_close(&json, ']');
    ks_writer_key(&json, "EncryptionType");
    ks_writer_string(&json, "NONE");
    ks_writer_close(&json, '}');
    ks_writer_line(&json);
    if (ks_ok(ks_writer_end(&json)))
        ks_exchange_reply(exchange, 200, KS_TYPE_JSON, &body);
    else
        ks_exchange_problem(exchange, KS_PROBLEM_EXHAUSTED,
                            "the records were put; no memory to "
                            "say where");
    ks_bytes_free(&body);
}

static void answered(void *arg, const struct ks_put_answer *answer)
{
    struct put *put = arg;
    struct ks_exchange *exchange = put->exchange;

    ks_free(put);
    if (exchange == NULL)
        return;
    exchange->context = NULL;
    if (ks_ok(answer->err))
        write_answer(exchange, answer);
    else
        ks_exchange_problem(exchange,
                            ks_err_is(answer->err, KS_ERR_INVALID) ? KS_PROBLEM_INVALID_ARGUMENT
                                                                   : KS_PROBLEM_UNAVAILABLE,
                            "the records could not be put: %s",
                            answer->detail.text[0] == '\0' ? ks_err_text(answer->err)
                                                           : answer->detail.text);
    ks_exchange_wake(exchange);
}

static void put_all(struct ks_exchange *exchange, const struct ks_put_body *body)
{
    struct put *put = ks_alloc(sizeof(*put));
    ks_err err;

    if (put == NULL) {
        ks_exchange_problem(exchange, KS_PROBLEM_EXHAUSTED, "out of memory");
        return;
    }
    put->exchange = exchange;
    exchange->context = put;
    exchange->closed = closed;
    err = ks_switchboard_put(exchange->subscription->board, body->entries, body->count, answered,
                             put);
    if (ks_ok(err))
        return;
    exchange->context = NULL;
    ks_free(put);
    if (ks_err_is(err, KS_ERR_UNSUPPORTED))
        ks_exchange_problem(exchange, KS_PROBLEM_FAILED_PRECONDITION,
                            "records can be put with --source local:PATH only");
    else
        ks_exchange_problem(exchange, KS_PROBLEM_UNAVAILABLE, "the records could not be put: %s",
                            ks_err_text(err));
}

/* A producer that names its stream need not know of subscriptions. */
static void choose_by_stream(struct ks_exchange *exchange, const struct ks_put_body *body)
{
    struct ks_api *api = exchange->api;

    if (!ks_put_body_names_stream(body))
        return;
    for (uint32_t i = 0; i < api->subscription_count && exchange->subscription == NULL; i++)
        if (ks_put_body_is_for(body, ks_switchboard_stream(api->subscriptions[i].board)))
            exchange->subscription = &api->subscriptions[i];
    if (exchange->subscription == NULL)
        exchange->subscription = &api->subscriptions[0];
}

/* As Kinesis says it: a producer with a wrong name must hear of it. */
static bool check_stream(struct ks_exchange *exchange, const struct ks_put_body *body)
{
    const char *stream = ks_switchboard_stream(exchange->subscription->board);

    if (ks_put_body_is_for(body, stream))
        return true;
    if (exchange->api->subscription_count > 1)
        ks_exchange_problem(exchange, KS_PROBLEM_NOT_FOUND, "no such stream here");
    else
        ks_exchange_problem(exchange, KS_PROBLEM_NOT_FOUND,
                            "no such stream; the one that there is is called %s", stream);
    return false;
}

static void put_records(struct ks_exchange *exchange, ks_err err, const struct ks_put_body *body,
                        const struct ks_detail *detail)
{
    if (!ks_ok(err)) {
        ks_exchange_problem(exchange,
                            ks_err_is(err, KS_ERR_NO_MEMORY) ? KS_PROBLEM_EXHAUSTED
                                                             : KS_PROBLEM_INVALID_ARGUMENT,
                            "%s", detail->text);
        return;
    }
    if (exchange->subscription == NULL)
        choose_by_stream(exchange, body);
    if (ks_subscription_wanted(exchange) && check_stream(exchange, body))
        put_all(exchange, body);
}

void ks_handle_local_put(struct ks_exchange *exchange)
{
    ks_exchange_put(exchange, put_records);
}
