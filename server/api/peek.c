/* SPDX-License-Identifier: Apache-2.0 */
/* GET /v1/peek: some records of a shard, beside the group. No lease, no checkpoint. */
#include <assert.h>

#include "api/operate.h"
#include "api/page.h"
#include "api/place.h"
#include "api/routes.h"
#include "api/server.h"
#include "base/budget.h"
#include "ports/cursor.h"

enum {
    RECORDS = 100,
    ANSWER_BYTES_MAX = 4 << 20, /* About; one record is always possible. */
    BATCHES_MAX = 64,
    WAIT_MS = 5000, /* Reads may come back empty for long before they reach a record. */
    AGAIN_MS = 200
};

struct peek {
    struct ks_exchange *exchange;
    struct ks_cursor *cursor;
    struct ks_timer timer; /* The next read. */
    ks_instant until;
    ks_shard shard;
    uint32_t max_records;
    uint32_t count;
    size_t bytes;
    int64_t millis_behind;
    bool at_end;
    struct ks_batch batches[BATCHES_MAX];
    uint32_t batch_count;
};

static void closed(struct ks_exchange *exchange)
{
    struct peek *peek = exchange->context;

    ks_loop_timer_clear(exchange->api->loop, &peek->timer);
    ks_cursor_close(peek->cursor);
    for (uint32_t i = 0; i < peek->batch_count; i++)
        ks_batch_free(&peek->batches[i]);
    exchange->api->peeks--;
    ks_free(peek);
}

static bool fill_record(struct peek *peek, struct ks_arena *arena, const struct ks_record *from,
                        KinesisSidecar__V1__PeekedRecord *record)
{
    struct ks_switchboard *board = peek->exchange->subscription->board;

    kinesis_sidecar__v1__peeked_record__init(record);
    record->stream = ks_pb_text(ks_switchboard_stream(board));
    record->shard_id = ks_pb_text(ks_switchboard_shard_id(board, peek->shard));
    record->sequence_number = ks_arena_text(arena, from->sequence);
    record->sub_sequence_number = from->sub_sequence < 0 ? 0 : from->sub_sequence;
    record->partition_key = ks_arena_text(arena, from->partition_key);
    record->approximate_arrival_timestamp = from->arrival_ms;
    record->aggregated = from->aggregated;
    record->data.len = from->data.size;
    record->data.data = (uint8_t *)(uintptr_t)from->data.data;
    return record->sequence_number != NULL && record->partition_key != NULL;
}

static void answer(struct peek *peek)
{
    KinesisSidecar__V1__PeekResponse response;
    KinesisSidecar__V1__PeekedRecord **rows;
    struct ks_arena arena;
    bool good;

    ks_arena_init(&arena, KS_ANSWER_BYTES_MAX);
    kinesis_sidecar__v1__peek_response__init(&response);
    rows = ks_arena_take(&arena, (peek->count + 1) * sizeof(*rows));
    good = rows != NULL;
    for (uint32_t b = 0; good && b < peek->batch_count; b++) {
        for (uint32_t i = 0; good && i < peek->batches[b].count && response.n_records < peek->count;
             i++) {
            KinesisSidecar__V1__PeekedRecord *row = ks_arena_take(&arena, sizeof(*row));

            good = row != NULL && fill_record(peek, &arena, &peek->batches[b].records[i], row);
            if (good)
                rows[response.n_records++] = row;
        }
    }
    response.records = rows;
    response.shard_id =
        ks_pb_text(ks_switchboard_shard_id(peek->exchange->subscription->board, peek->shard));
    response.millis_behind_latest = peek->millis_behind;
    response.at_end = peek->at_end;
    if (good)
        ks_exchange_message(peek->exchange, &response.base);
    else
        ks_exchange_problem(peek->exchange, KS_PROBLEM_EXHAUSTED, "out of memory");
    ks_arena_free(&arena);
    ks_exchange_wake(peek->exchange);
}

static void refuse(struct peek *peek, const struct ks_read_answer *said)
{
    const char *why = said->detail.text[0] != '\0' ? said->detail.text : ks_err_text(said->err);
    enum ks_problem problem = KS_PROBLEM_UNAVAILABLE;

    if (ks_err_is(said->err, KS_ERR_INVALID))
        problem = KS_PROBLEM_INVALID_ARGUMENT;
    if (ks_err_is(said->err, KS_ERR_NOT_FOUND))
        problem = KS_PROBLEM_NOT_FOUND;
    if (ks_err_class(said->err) == KS_CLASS_SHED)
        problem = KS_PROBLEM_EXHAUSTED;
    ks_exchange_problem(peek->exchange, problem, "%s: %s",
                        ks_switchboard_shard_id(peek->exchange->subscription->board, peek->shard),
                        why);
    ks_exchange_wake(peek->exchange);
}

static void read_again(struct peek *peek, int64_t in_ms)
{
    struct ks_loop *loop = peek->exchange->api->loop;

    ks_loop_timer_set(loop, &peek->timer, ks_instant_add(ks_loop_now(loop), ks_span_ms(in_ms)));
}

static void answered(void *arg, const struct ks_read_answer *said)
{
    struct peek *peek = arg;
    bool late = ks_instant_reached(ks_loop_now(peek->exchange->api->loop), peek->until);
    struct ks_batch batch = said->batch;

    if (!ks_ok(said->err)) {
        if (!late && ks_err_class(said->err) != KS_CLASS_REPORT)
            read_again(peek, AGAIN_MS);
        else if (peek->count > 0)
            answer(peek);
        else
            refuse(peek, said);
        return;
    }
    peek->millis_behind = batch.millis_behind;
    peek->at_end = batch.at_end;
    for (uint32_t i = 0; i < batch.count; i++)
        peek->bytes += batch.records[i].data.size + batch.records[i].partition_key.size;
    peek->count += batch.count < peek->max_records - peek->count ? batch.count
                                                                 : peek->max_records - peek->count;
    if (batch.count > 0)
        peek->batches[peek->batch_count++] = batch;
    else
        ks_batch_free(&batch);
    if (late || peek->at_end || peek->count == peek->max_records || peek->millis_behind == 0 ||
        peek->bytes >= ANSWER_BYTES_MAX || peek->batch_count == BATCHES_MAX)
        answer(peek);
    else
        read_again(peek, 0);
}

static void due(struct ks_timer *timer)
{
    struct peek *peek = KS_LIST_ENTRY(timer, struct peek, timer);

    ks_cursor_read(peek->cursor, peek->max_records - peek->count, ANSWER_BYTES_MAX / 4, answered,
                   peek);
}

/* What the query says. False if the exchange was answered. */
static bool read_query(struct ks_exchange *exchange, ks_shard *ret_shard,
                       struct ks_position *ret_from, uint64_t *ret_max)
{
    ks_view from = KS_VIEW("trim_horizon");
    ks_view shard = KS_VIEW_NONE;

    (void)ks_request_param(&exchange->request, "from", &from);
    if (!ks_request_param(&exchange->request, "shard", &shard) || shard.size == 0) {
        ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT, "shard is required");
        return false;
    }
    return ks_api_find_shard(exchange, shard, ret_shard) &&
           ks_place_read(exchange, "from", from, ret_from) &&
           ks_request_number(exchange, "max_records", 1, KS_PULL_RECORDS_MAX, RECORDS, ret_max);
}

static void look(struct ks_exchange *exchange, const struct ks_page *page)
{
    struct ks_api *api = exchange->api;
    struct ks_position from;
    struct peek *peek;
    uint64_t max_records;
    ks_shard shard;
    ks_err err;

    (void)page;
    if (!read_query(exchange, &shard, &from, &max_records))
        return;
    if (api->peeks >= KS_PEEKS_MAX) {
        ks_exchange_problem(exchange, KS_PROBLEM_EXHAUSTED, "more than %d look at once",
                            KS_PEEKS_MAX);
        return;
    }
    peek = ks_alloc(sizeof(*peek));
    err = peek == NULL ? KS_FAIL(NO_MEMORY)
                       : ks_cursor_open(exchange->subscription->board, shard, &from, &peek->cursor);
    if (!ks_ok(err)) {
        ks_free(peek);
        ks_exchange_problem(exchange,
                            ks_err_is(err, KS_ERR_NO_MEMORY) ? KS_PROBLEM_EXHAUSTED
                                                             : KS_PROBLEM_UNAVAILABLE,
                            "the shard cannot be opened: %s", ks_err_text(err));
        return;
    }
    api->peeks++;
    peek->exchange = exchange;
    peek->shard = shard;
    peek->max_records = (uint32_t)max_records;
    peek->until = ks_instant_add(ks_loop_now(api->loop), ks_span_ms(WAIT_MS));
    peek->timer.due = due;
    exchange->context = peek;
    exchange->closed = closed;
    due(&peek->timer);
}

/* It may be a shard of another worker, which we do not look at by ourselves. */
void ks_handle_peek(struct ks_exchange *exchange)
{
    ks_page_when_fresh(exchange, &(struct ks_page){.room = 0}, look);
}
