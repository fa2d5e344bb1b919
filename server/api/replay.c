/* SPDX-License-Identifier: Apache-2.0 */
#include "api/replay.h"

#include <assert.h>
#include <stdio.h>

#include "api/operate.h"
#include "api/page.h"
#include "api/place.h"
#include "api/routes.h"
#include "api/server.h"
#include "base/budget.h"
#include "base/codec.h"
#include "base/digest.h"
#include "base/json_writer.h"
#include "ports/cursor.h"

enum {
    READ_BYTES = 256 << 10, /* Of one read: what a replay holds, but for a larger record. */
    READ_RECORDS = 1000,
    AGAIN_MS = 200, /* After a read that failed or was empty. */
    BEAT_MS = 10000,
    LINE_BYTES_MAX = 8 << 10, /* The head of a record. */
    ID_DIGITS = 16
};

enum place_in_line { HEAD, DATA, TAIL };

struct replay {
    char id[ID_DIGITS + 1];
    struct ks_link link; /* In api->replays. */
    struct ks_api *api;
    struct ks_subscription *subscription;
    struct ks_exchange *exchange; /* That streams it; NULL: none. */
    struct ks_timer idle;         /* Over then. */
    struct ks_timer again;        /* The next read, or a heartbeat. */
    ks_instant beat_at;           /* The next heartbeat, if nothing is written before. */
    struct ks_position from;
    struct ks_position to;
    ks_shard *shards; /* Parents first. */
    uint32_t shard_count;
    uint32_t at; /* The one that is being read. */
    uint64_t records;
    bool ended; /* The last line is written. */
    bool over;  /* It was deleted. */
    /* The shard. */
    struct ks_cursor *cursor;
    bool reading;
    bool shard_done; /* Nothing comes after the batch. */
    bool beat;
    struct ks_detail trouble; /* Why the rest of the shard cannot be read; "" if it can. */
    struct ks_batch batch;
    uint32_t next; /* Record of the batch. */
    /* The line. */
    enum place_in_line part;
    struct ks_bytes line;
    size_t offset; /* Of the data. */
};

/* ---- Life ---- */

static void leave_shard(struct replay *replay)
{
    ks_cursor_close(replay->cursor);
    replay->cursor = NULL;
    replay->reading = false;
    replay->shard_done = false;
    ks_batch_free(&replay->batch);
    replay->next = 0;
}

static void end(struct replay *replay)
{
    assert(replay->exchange == NULL);
    leave_shard(replay);
    ks_loop_timer_clear(replay->api->loop, &replay->idle);
    ks_loop_timer_clear(replay->api->loop, &replay->again);
    ks_list_remove(&replay->link);
    replay->api->replay_count--;
    ks_bytes_free(&replay->line);
    ks_free(replay->shards);
    ks_free(replay);
}

static void idle_due(struct ks_timer *timer)
{
    end(KS_LIST_ENTRY(timer, struct replay, idle));
}

static int64_t set_idle(struct replay *replay)
{
    struct ks_loop *loop = replay->api->loop;

    ks_loop_timer_set(loop, &replay->idle,
                      ks_instant_add(ks_loop_now(loop), ks_span_ms(KS_REPLAY_IDLE_MS)));
    return ks_wall_now().ms + KS_REPLAY_IDLE_MS;
}

void ks_replays_finish(struct ks_api *api)
{
    struct ks_link *cursor;
    struct ks_link *after;

    KS_LIST_EACH(cursor, after, &api->replays)
    {
        struct replay *replay = KS_LIST_ENTRY(cursor, struct replay, link);

        if (replay->exchange != NULL)
            ks_exchange_wake(replay->exchange);
    }
}

void ks_replays_free(struct ks_api *api)
{
    while (!ks_list_empty(&api->replays))
        end(KS_LIST_ENTRY(api->replays.next, struct replay, link));
}

/* ---- How far ---- */

static int compare_digits(ks_view a, const char *b)
{
    size_t size = strlen(b);

    if (a.size != size)
        return a.size < size ? -1 : 1;
    return memcmp(a.data, b, size);
}

/* True if the record comes after what is wanted. */
static bool is_beyond(const struct replay *replay, const struct ks_record *record)
{
    if (replay->to.kind == KS_POSITION_AT_TIMESTAMP)
        return record->arrival_ms >= replay->to.timestamp_ms;
    if (replay->to.kind == KS_POSITION_AT_SEQUENCE)
        return compare_digits(record->sequence, replay->to.sequence) > 0;
    return false;
}

/* True if no more comes of a shard whose tip was reached: it is not to be waited for. The stream's clock counts: ours
 * may be ahead. */
static bool is_over_at_tip(const struct replay *replay)
{
    return replay->to.kind != KS_POSITION_AT_TIMESTAMP ||
           ks_switchboard_stream_ms(replay->subscription->board) >= replay->to.timestamp_ms;
}

/* ---- Reading ---- */

static ks_instant in_ms(const struct replay *replay, int64_t ms)
{
    return ks_instant_add(ks_loop_now(replay->api->loop), ks_span_ms(ms));
}

static void again_in(struct replay *replay, int64_t ms)
{
    ks_loop_timer_set(replay->api->loop, &replay->again, in_ms(replay, ms));
}

static void answered(void *arg, const struct ks_read_answer *said)
{
    struct replay *replay = arg;
    const struct ks_batch *batch = &said->batch;

    replay->reading = false;
    if (!ks_ok(said->err)) {
        /* A shard that is gone, or a place that never was, ends; everything else passes. */
        replay->shard_done =
            ks_err_is(said->err, KS_ERR_NOT_FOUND) || ks_err_is(said->err, KS_ERR_INVALID);
        if (replay->shard_done)
            ks_detail_set(&replay->trouble, "%s",
                          said->detail.text[0] != '\0' ? said->detail.text
                                                       : ks_err_text(said->err));
        again_in(replay, AGAIN_MS);
        return;
    }
    replay->batch = *batch;
    replay->next = 0;
    replay->shard_done =
        batch->at_end ||
        ((batch->millis_behind == 0 || (batch->millis_behind < 0 && batch->count == 0)) &&
         is_over_at_tip(replay));
    if (batch->count == 0 && !replay->shard_done)
        again_in(replay, AGAIN_MS);
    else if (replay->exchange != NULL)
        ks_exchange_wake(replay->exchange);
}

/* A read is under way afterwards, or will be; or there are no more shards. */
static void read_on(struct replay *replay)
{
    struct ks_position from = replay->from;

    if (replay->reading)
        return;
    if (replay->cursor == NULL) {
        ks_err err = ks_cursor_open(replay->subscription->board, replay->shards[replay->at], &from,
                                    &replay->cursor);

        if (!ks_ok(err)) {
            replay->shard_done = ks_err_is(err, KS_ERR_NOT_FOUND);
            again_in(replay, AGAIN_MS);
            return;
        }
    }
    ks_batch_free(&replay->batch);
    replay->next = 0;
    replay->reading = true;
    ks_cursor_read(replay->cursor, READ_RECORDS, READ_BYTES, answered, replay);
}

static void again_due(struct ks_timer *timer)
{
    struct replay *replay = KS_LIST_ENTRY(timer, struct replay, again);

    if (replay->exchange == NULL)
        return;
    replay->beat = ks_instant_reached(ks_loop_now(replay->api->loop), replay->beat_at);
    ks_exchange_wake(replay->exchange);
}

/* ---- Writing ---- */

static ks_err write_head(struct replay *replay, const struct ks_record *record)
{
    struct ks_switchboard *board = replay->subscription->board;
    struct ks_writer json;

    ks_bytes_clear(&replay->line);
    ks_writer_begin(&json, &replay->line);
    ks_writer_open(&json, '{');
    ks_writer_pair(&json, "type", KS_VIEW("record"));
    ks_writer_pair(&json, "stream", ks_view_text(ks_switchboard_stream(board)));
    ks_writer_pair(&json, "shard_id",
                   ks_view_text(ks_switchboard_shard_id(board, replay->shards[replay->at])));
    ks_writer_pair(&json, "sequence_number", record->sequence);
    ks_writer_key(&json, "sub_sequence_number");
    ks_writer_i64(&json, record->sub_sequence < 0 ? 0 : record->sub_sequence);
    ks_writer_pair(&json, "partition_key", record->partition_key);
    ks_writer_key(&json, "approximate_arrival_timestamp");
    ks_writer_instant(&json, record->arrival_ms);
    ks_writer_key(&json, "aggregated");
    ks_writer_bool(&json, record->aggregated);
    ks_writer_pair(&json, "data", KS_VIEW(""));
    ks_writer_close(&json, '}');
    KS_TRY(ks_writer_end(&json));
    /* The data goes between the last quotes, from where it lies. */
    replay->line.size -= 2;
    return KS_OK;
}

static ks_err write_trouble(struct replay *replay)
{
    const char *shard =
        ks_switchboard_shard_id(replay->subscription->board, replay->shards[replay->at]);
    struct ks_writer json;

    ks_bytes_clear(&replay->line);
    ks_writer_begin(&json, &replay->line);
    ks_writer_open(&json, '{');
    ks_writer_pair(&json, "type", KS_VIEW("error"));
    ks_writer_pair(&json, "shard_id", ks_view_text(shard));
    ks_writer_pair(&json, "message", ks_view_text(replay->trouble.text));
    ks_writer_close(&json, '}');
    ks_writer_line(&json);
    replay->trouble.text[0] = '\0';
    return ks_writer_end(&json);
}

static ks_err write_control(struct replay *replay, bool is_end)
{
    struct ks_writer json;

    ks_bytes_clear(&replay->line);
    ks_writer_begin(&json, &replay->line);
    ks_writer_open(&json, '{');
    ks_writer_pair(&json, "type", is_end ? KS_VIEW("end") : KS_VIEW("heartbeat"));
    ks_writer_key(&json, "records");
    ks_writer_u64(&json, replay->records);
    ks_writer_close(&json, '}');
    ks_writer_line(&json);
    return ks_writer_end(&json);
}

/* Moves what is in the line to the buffer. */
static size_t put_line(struct replay *replay, uint8_t *buffer, size_t room)
{
    size_t size = replay->line.size < room ? replay->line.size : room;

    if (size > 0)
        memcpy(buffer, replay->line.data, size);
    ks_bytes_consume(&replay->line, size);
    return size;
}

/* As much of the data as base64 as fits. */
static size_t put_data(struct replay *replay, ks_view data, uint8_t *buffer, size_t room)
{
    size_t left = data.size - replay->offset;
    size_t take = left <= room / 4 * 3 ? left : room / 4 * 3;
    size_t size = 0;

    if (take > 0 && ks_base64_size(take) <= room) {
        size = ks_base64_encode(ks_view_of(data.data + replay->offset, take), (char *)buffer);
        replay->offset += take;
    }
    return size;
}

/* Writes of the record what fits. True when it is out. */
static bool put_record(struct replay *replay, const struct ks_record *record, uint8_t *buffer,
                       size_t room, size_t *used)
{
    static const char tail[] = "\"}\n";

    if (replay->part == HEAD) {
        *used += put_line(replay, buffer + *used, room - *used);
        if (replay->line.size > 0)
            return false;
        replay->part = DATA;
        replay->offset = 0;
    }
    if (replay->part == DATA) {
        *used += put_data(replay, record->data, buffer + *used, room - *used);
        if (replay->offset < record->data.size)
            return false;
        replay->part = TAIL;
    }
    if (room - *used < sizeof(tail) - 1)
        return false;
    memcpy(buffer + *used, tail, sizeof(tail) - 1);
    *used += sizeof(tail) - 1;
    return true;
}

/* The next record of the batch that is wanted; NULL if there is none. */
static const struct ks_record *next_record(struct replay *replay)
{
    const struct ks_record *record;

    if (replay->next >= replay->batch.count)
        return NULL;
    record = &replay->batch.records[replay->next];
    if (!is_beyond(replay, record))
        return record;
    replay->next = replay->batch.count;
    replay->shard_done = true;
    return NULL;
}

static size_t put_records(struct replay *replay, uint8_t *buffer, size_t room, ks_err *ret_err)
{
    const struct ks_record *record = next_record(replay);
    size_t used = 0;

    *ret_err = KS_OK;
    while (record != NULL) {
        if (replay->part == HEAD && replay->line.size == 0)
            *ret_err = write_head(replay, record);
        if (!ks_ok(*ret_err) || !put_record(replay, record, buffer, room, &used))
            return used;
        replay->part = HEAD;
        replay->records++;
        replay->next++;
        record = next_record(replay);
    }
    return used;
}

/* Goes to the next shard while the one before is done. True if there are no more. */
static bool is_through(struct replay *replay)
{
    while (replay->at < replay->shard_count && replay->shard_done &&
           replay->next >= replay->batch.count) {
        leave_shard(replay);
        replay->at++;
    }
    return replay->at == replay->shard_count;
}

static size_t fill(struct ks_exchange *exchange, uint8_t *buffer, size_t room,
                   enum ks_fill *ret_fill)
{
    struct replay *replay = exchange->context;
    size_t size;
    ks_err err;

    size = put_records(replay, buffer, room, &err);
    if (size == 0 && ks_ok(err) && replay->trouble.text[0] != '\0') {
        err = write_trouble(replay);
    } else if (size == 0 && ks_ok(err) && !replay->ended && replay->line.size == 0 &&
               is_through(replay)) {
        err = write_control(replay, true);
        replay->ended = true;
    } else if (size == 0 && replay->beat && replay->next >= replay->batch.count) {
        err = write_control(replay, false);
        replay->beat = false;
    }
    if (size == 0 && (replay->ended || replay->next >= replay->batch.count))
        size = put_line(replay, buffer, room);
    if (!ks_ok(err) || replay->over) {
        *ret_fill = KS_FILL_ABORT;
        return 0;
    }
    *ret_fill = size > 0 ? KS_FILL_MORE : KS_FILL_WAIT;
    if (size > 0) {
        replay->beat_at = in_ms(replay, BEAT_MS);
        return size;
    }
    if (replay->ended || replay->api->ending) {
        *ret_fill = KS_FILL_END;
        return 0;
    }
    ks_loop_timer_set(replay->api->loop, &replay->again, replay->beat_at);
    read_on(replay);
    return 0;
}

/* ---- Requests ---- */

static struct replay *find(const struct ks_api *api, ks_view id)
{
    struct ks_link *cursor;
    struct ks_link *after;

    KS_LIST_EACH(cursor, after, &api->replays)
    {
        struct replay *replay = KS_LIST_ENTRY(cursor, struct replay, link);

        if (ks_view_equal(id, ks_view_text(replay->id)) && !replay->over)
            return replay;
    }
    return NULL;
}

static struct replay *must_find(struct ks_exchange *exchange)
{
    struct replay *replay = find(exchange->api, exchange->request.part);

    if (replay == NULL)
        ks_exchange_problem(exchange, KS_PROBLEM_NOT_FOUND, "no such replay; it may have expired");
    return replay;
}

static void stream_closed(struct ks_exchange *exchange)
{
    struct replay *replay = exchange->context;

    replay->exchange = NULL;
    if (replay->over || replay->ended) {
        end(replay);
        return;
    }
    /* The next stream begins with a whole record. */
    replay->part = HEAD;
    ks_bytes_clear(&replay->line);
    replay->beat = false;
    (void)set_idle(replay);
}

void ks_handle_replay_stream(struct ks_exchange *exchange)
{
    struct replay *replay = must_find(exchange);

    if (replay == NULL)
        return;
    if (replay->exchange != NULL) {
        ks_exchange_problem(exchange, KS_PROBLEM_SESSION_FENCED,
                            "this replay is being streamed already");
        return;
    }
    ks_loop_timer_clear(replay->api->loop, &replay->idle);
    replay->exchange = exchange;
    replay->beat_at = in_ms(replay, BEAT_MS);
    exchange->context = replay;
    exchange->closed = stream_closed;
    ks_exchange_stream(exchange, KS_TYPE_NDJSON, fill);
}

void ks_handle_replay_close(struct ks_exchange *exchange)
{
    struct replay *replay = must_find(exchange);
    KinesisSidecar__V1__ReplayClosed closed;

    if (replay == NULL)
        return;
    kinesis_sidecar__v1__replay_closed__init(&closed);
    closed.id = replay->id;
    ks_exchange_message(exchange, &closed.base);
    if (replay->exchange == NULL) {
        end(replay);
        return;
    }
    replay->over = true;
    ks_exchange_wake(replay->exchange);
}

/* Puts a shard behind its parents, as far as they are among them. */
static bool is_ready(struct ks_switchboard *board, const bool *placed, uint32_t index,
                     const ks_shard *all, uint32_t count)
{
    struct ks_shard_status status;

    if (!ks_switchboard_shard(board, all[index], &status))
        return true;
    for (uint32_t p = 0; p < KS_PARENTS_MAX; p++)
        for (uint32_t i = 0; status.parents[p][0] != '\0' && i < count; i++)
            if (!placed[i] &&
                strcmp(ks_switchboard_shard_id(board, all[i]), status.parents[p]) == 0)
                return false;
    return true;
}

static bool sort_shards(struct replay *replay, const ks_shard *all, uint32_t count)
{
    struct ks_switchboard *board = replay->subscription->board;
    bool *placed = ks_alloc(count + 1);
    bool moved = true;

    if (placed == NULL)
        return false;
    while (moved) {
        moved = false;
        for (uint32_t i = 0; i < count; i++) {
            if (placed[i] || !is_ready(board, placed, i, all, count))
                continue;
            placed[i] = moved = true;
            replay->shards[replay->shard_count++] = all[i];
        }
    }
    ks_free(placed);
    return true;
}

static bool is_among(const ks_shard *shards, uint32_t count, ks_shard shard)
{
    for (uint32_t i = 0; i < count; i++)
        if (shards[i] == shard)
            return true;
    return false;
}

/* The shards that are named, or all. False if the exchange was answered. */
static bool choose_shards(struct ks_exchange *exchange,
                          const KinesisSidecar__V1__ReplayRequest *request, struct replay *replay)
{
    struct ks_switchboard *board = exchange->subscription->board;
    uint32_t known = ks_switchboard_shard_count(board);
    size_t most = request->n_shards > 0 ? request->n_shards : known;
    ks_shard *all = ks_alloc((most + 1) * sizeof(*all));
    struct ks_shard_status status;
    uint32_t count = 0;
    bool good;

    replay->shards = ks_alloc((most + 1) * sizeof(*replay->shards));
    good = all != NULL && replay->shards != NULL;
    if (!good)
        ks_exchange_problem(exchange, KS_PROBLEM_EXHAUSTED, "out of memory");
    for (size_t i = 0; good && i < most; i++) {
        ks_shard shard = ks_switchboard_shard_at(board, (uint32_t)i);

        good = request->n_shards == 0 ||
               ks_api_find_shard(exchange, ks_view_text(request->shards[i]), &shard);
        if (good && request->n_shards > 0 && is_among(all, count, shard)) {
            ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT, "%.128s is named twice",
                                request->shards[i]);
            good = false;
        } else if (good && ks_switchboard_shard(board, shard, &status)) {
            all[count++] = shard;
        }
    }
    if (good && count == 0) {
        ks_exchange_problem(exchange, KS_PROBLEM_UNAVAILABLE, "no shard is known yet");
        good = false;
    }
    if (good && !sort_shards(replay, all, count)) {
        ks_exchange_problem(exchange, KS_PROBLEM_EXHAUSTED, "out of memory");
        good = false;
    }
    ks_free(all);
    return good;
}

static bool read_places(struct ks_exchange *exchange,
                        const KinesisSidecar__V1__ReplayRequest *request, struct replay *replay)
{
    ks_view from = ks_view_text(request->from);
    ks_view to = ks_view_text(request->to);
    bool counted;

    if (request->n_shards > KS_OPERATED_SHARDS_MAX) {
        ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT, "at most %d shards are wanted",
                            KS_OPERATED_SHARDS_MAX);
        return false;
    }
    if (!ks_place_read(exchange, "from", from.size == 0 ? KS_VIEW("trim_horizon") : from,
                       &replay->from) ||
        !ks_place_read(exchange, "to", to.size == 0 ? KS_VIEW("latest") : to, &replay->to))
        return false;
    counted =
        replay->from.kind == KS_POSITION_AT_SEQUENCE || replay->to.kind == KS_POSITION_AT_SEQUENCE;
    if (replay->to.kind == KS_POSITION_TRIM_HORIZON || (counted && request->n_shards != 1)) {
        ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT,
                            counted ? "a sequence number is one of one shard: name exactly one"
                                    : "to must be behind from");
        return false;
    }
    return true;
}

static void answer_replay(struct ks_exchange *exchange, struct replay *replay)
{
    struct ks_switchboard *board = exchange->subscription->board;
    KinesisSidecar__V1__Replay answer;
    char **names = ks_alloc((replay->shard_count + 1) * sizeof(*names));

    kinesis_sidecar__v1__replay__init(&answer);
    answer.id = replay->id;
    answer.expires_at = set_idle(replay);
    for (uint32_t i = 0; names != NULL && i < replay->shard_count; i++)
        names[answer.n_shards++] = ks_pb_text(ks_switchboard_shard_id(board, replay->shards[i]));
    answer.shards = names;
    ks_exchange_message(exchange, &answer.base);
    ks_free(names);
}

static void begin(struct ks_exchange *exchange, const KinesisSidecar__V1__ReplayRequest *request)
{
    struct ks_api *api = exchange->api;
    struct replay *replay;

    if (api->replay_count >= KS_REPLAYS_MAX) {
        ks_exchange_problem(exchange, KS_PROBLEM_EXHAUSTED,
                            "there are %d replays, delete one of them", KS_REPLAYS_MAX);
        return;
    }
    replay = ks_alloc(sizeof(*replay));
    if (replay == NULL) {
        ks_exchange_problem(exchange, KS_PROBLEM_EXHAUSTED, "out of memory");
        return;
    }
    replay->api = api;
    replay->subscription = exchange->subscription;
    replay->idle.due = idle_due;
    replay->again.due = again_due;
    (void)snprintf(replay->id, sizeof(replay->id), "%016llx", (unsigned long long)ks_random_u64());
    ks_bytes_init(&replay->line, LINE_BYTES_MAX);
    ks_list_append(&api->replays, &replay->link);
    api->replay_count++;
    if (!read_places(exchange, request, replay) || !choose_shards(exchange, request, replay)) {
        end(replay);
        return;
    }
    answer_replay(exchange, replay);
}

static void serve(struct ks_exchange *exchange, const struct ks_page *page)
{
    struct ks_arena arena;
    const KinesisSidecar__V1__ReplayRequest *request =
        (const KinesisSidecar__V1__ReplayRequest *)ks_exchange_read(
            exchange, &kinesis_sidecar__v1__replay_request__descriptor, &arena);

    (void)page;
    if (request == NULL)
        return;
    begin(exchange, request);
    ks_arena_free(&arena);
}

/* The body may say which subscription's shards are to be known first, those of other workers, too. */
void ks_handle_replay(struct ks_exchange *exchange)
{
    struct ks_arena arena;

    if (ks_exchange_read(exchange, &kinesis_sidecar__v1__replay_request__descriptor, &arena) ==
        NULL)
        return;
    ks_arena_free(&arena);
    if (ks_subscription_wanted(exchange))
        ks_page_when_fresh(exchange, &(struct ks_page){.room = 0}, serve);
}
