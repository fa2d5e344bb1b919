/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/kinesis/polling.h"

#include "adapters/kinesis/builder.h"
#include "adapters/kinesis/pace.h"
#include "adapters/kinesis/place.h"
#include "adapters/kinesis/portion.h"
#include "adapters/kinesis/reading.h"
#include "adapters/kinesis/records.h"
#include "adapters/kinesis/refusal.h"
#include "adapters/kinesis/request.h"
#include "aws/json.h"

#include <assert.h>
#include <stdio.h>

enum {
    ITERATOR_TIMEOUT_MS = 10000,
    /* GetShardIterators within one read: the iterator is lost once, the position once. */
    TRIES_MAX = 4,
    /* Data and keys of one answer, after which the next 5 s are refused (GetRecords API reference). */
    PAYLOAD_MAX = 10 << 20,
    /* Of a body whose length the server did not say; it doubles. */
    BODY_BYTES_MIN = 64 << 10,
    /* While a read waits for room it looks again after that. */
    ROOM_LOOK_MS = 50
};

struct source {
    struct ks_reading reading; /* First. */
    uint64_t promised;         /* Bytes of the budget that answers under way will take. */
    int32_t idle_ms;           /* Of the pace. */
};

struct ks_reader {
    struct ks_link link;
    struct source *source;
    struct ks_budget *budget;
    char shard[KS_SHARD_ID_MAX + 1];
    struct ks_place place;
    bool told_end; /* To the reader. */

    char iterator[KS_ITERATOR_MAX + 1]; /* "": none. */
    ks_instant iterator_at;
    struct ks_pace pace;
    struct ks_portion portion;
    uint64_t promised; /* To the GetRecords under way. */

    bool waiting; /* A read is in flight. */
    uint32_t max_records;
    uint32_t max_bytes;
    void (*answered)(void *arg, const struct ks_read_answer *answer);
    void *arg;
    uint32_t tries;        /* Iterators that were asked for in this read. */
    struct ks_timer timer; /* For the pace. */
    struct ks_aws_call *call;
    uint32_t limit;              /* Of the GetRecords under way. */
    struct ks_wire_request wire; /* The GetRecords under way. */
    size_t came;                 /* Bytes of its answer, or what the server said they would be. */
    struct ks_block *body;       /* They. */
    int32_t asked_ms;            /* What the server said to wait, -1: nothing. */
};

static struct source *of_port(struct ks_stream_source *port)
{
    return (struct source *)(void *)port;
}

/* --- Answers --- */

static void drop_body(struct ks_reader *reader)
{
    ks_block_drop(reader->body);
    reader->body = NULL;
}

static void answer(struct ks_reader *reader, const struct ks_read_answer *answer)
{
    assert(reader->waiting);
    assert(reader->call == NULL);
    drop_body(reader);
    reader->waiting = false;
    reader->answered(reader->arg, answer);
}

static void answer_failed(struct ks_reader *reader, ks_err err, const struct ks_detail *detail)
{
    struct ks_read_answer told = {
        .err = err, .detail = *detail, .throttled = ks_err_is(err, KS_ERR_THROTTLED)};
    ks_instant now = ks_loop_now(reader->source->reading.loop);

    if (told.throttled)
        ks_pace_throttled(&reader->pace, now, reader->asked_ms);
    else if (ks_err_class(err) != KS_CLASS_SHED)
        ks_pace_failed(&reader->pace, now);
    ks_reading_hear(&reader->source->reading, err, detail);
    answer(reader, &told);
}

static void answer_unsent(struct ks_reader *reader, const char *operation, ks_err err)
{
    struct ks_detail detail;

    ks_detail_set(&detail, "%s of %s could not be sent: %s", operation, reader->shard,
                  ks_err_text(err));
    answer_failed(reader, err, &detail);
}

static void answer_end(struct ks_reader *reader)
{
    struct ks_read_answer told = {.err = KS_OK, .batch = {.at_end = true}};

    answer(reader, &told);
}

/* --- Iterators --- */

static void ask_iterator(struct ks_reader *reader);
static void ask_records(struct ks_reader *reader);

/* The next step of a read, when the pace allows it. */
static void go_on(struct ks_reader *reader)
{
    struct ks_loop *loop = reader->source->reading.loop;
    ks_instant now = ks_loop_now(loop);

    ks_loop_timer_set(loop, &reader->timer, ks_instant_max(now, ks_pace_next(&reader->pace)));
}

static void timer_due(struct ks_timer *timer)
{
    struct ks_reader *reader = KS_LIST_ENTRY(timer, struct ks_reader, timer);
    ks_instant now = ks_loop_now(reader->source->reading.loop);
    ks_instant old = ks_instant_add(reader->iterator_at, ks_span_ms(KS_ITERATOR_AGE_MS_MAX));

    if (reader->told_end || reader->place.from.kind == KS_POSITION_SHARD_END)
        answer_end(reader);
    else if (reader->iterator[0] == '\0' || ks_instant_reached(now, old))
        ask_iterator(reader);
    else
        ask_records(reader);
}

static ks_err read_iterator(struct ks_reader *reader, ks_view body)
{
    struct ks_json *document;
    ks_view text = KS_VIEW_NONE;

    KS_TRY(ks_json_parse(body, &document));
    ks_err err = ks_json_text(ks_json_member(document, "ShardIterator"), &text);
    if (ks_ok(err))
        err = ks_view_copy_text(text, reader->iterator, sizeof(reader->iterator));
    ks_json_free(document);
    if (ks_ok(err) && text.size == 0)
        err = KS_FAIL(MALFORMED);
    return ks_ok(err) || ks_err_is(err, KS_ERR_NO_MEMORY) ? err : KS_FAIL(MALFORMED);
}

/* What a refusal says about when to come back. */
static void hear_wait(struct ks_reader *reader, const struct ks_aws_answer *told)
{
    reader->asked_ms = told->failure == NULL ? -1 : told->failure->retry_after_ms;
}

static void iterator_done(void *arg, const struct ks_aws_answer *told)
{
    struct ks_reader *reader = arg;
    struct ks_detail detail = told->detail;
    ks_err err = told->err;

    reader->call = NULL;
    reader->iterator[0] = '\0';
    hear_wait(reader, told);
    if (ks_ok(err)) {
        err = read_iterator(reader, told->body);
        ks_detail_set(&detail, "GetShardIterator of %s: %s", reader->shard, ks_err_text(err));
        ks_failure_name_request(&detail, told->request_id);
        reader->iterator_at = ks_loop_now(reader->source->reading.loop);
    }
    if (ks_ok(err))
        ks_place_tell(&reader->place, reader->shard);
    /* At LATEST it was asked for before the first read. */
    if (!reader->waiting)
        return;
    if (ks_ok(err) || (ks_place_fall_back(&reader->place, err) && reader->tries < TRIES_MAX))
        go_on(reader);
    else
        answer_failed(reader, err, &detail);
}

static ks_err send_iterator(struct ks_reader *reader, struct ks_bytes *body)
{
    struct source *source = reader->source;
    struct ks_position position = ks_reading_ask(&source->reading, &reader->place);
    struct ks_aws_request request = {
        .operation = "GetShardIterator",
        .timeout = ks_span_ms(ITERATOR_TIMEOUT_MS),
        .single_attempt = true,
        .response_max = KS_JSON_BYTES_MAX,
        .done = iterator_done,
        .arg = reader,
    };

    KS_TRY(ks_request_iterator(body, source->reading.stream, reader->shard, &position));
    request.body = ks_bytes_view(body);
    KS_TRY(ks_aws_call(source->reading.client, &request, &reader->call));
    ks_place_ask(&reader->place);
    reader->tries++;
    return KS_OK;
}

static ks_err begin_iterator(struct ks_reader *reader)
{
    struct ks_bytes body;

    ks_bytes_init(&body, KS_KINESIS_REQUEST_MAX);
    ks_err err = send_iterator(reader, &body);
    ks_bytes_free(&body);
    return err;
}

static void ask_iterator(struct ks_reader *reader)
{
    ks_err err = begin_iterator(reader);

    if (!ks_ok(err))
        answer_unsent(reader, "GetShardIterator", err);
}

/* The iterator is of no use (any more): true if the read goes on with another one. */
static bool renew(struct ks_reader *reader)
{
    reader->iterator[0] = '\0';
    if (reader->tries >= TRIES_MAX)
        return false;
    go_on(reader);
    return true;
}

/* --- The body of an answer --- */

static ks_err body_room(struct ks_reader *reader, size_t capacity)
{
    struct ks_block *block;

    if (capacity > KS_KINESIS_ANSWER_MAX)
        return KS_FAIL(FULL);
    KS_TRY(ks_block_new(reader->budget, ks_builder_capacity(capacity, reader->limit), &block));
    if (reader->body != NULL) {
        block->size = reader->body->size;
        memcpy(block->data, reader->body->data, block->size);
    }
    drop_body(reader);
    reader->body = block;
    return KS_OK;
}

static ks_err body_begin(void *arg, ks_view head, int64_t size)
{
    struct ks_reader *reader = arg;

    (void)head;
    drop_body(reader);
    reader->came = size < 0 ? 0 : (size_t)size;
    if (size > KS_KINESIS_ANSWER_MAX)
        return KS_FAIL(FULL);
    return body_room(reader, size < 0 ? BODY_BYTES_MIN : (size_t)size);
}

static ks_err body_part(void *arg, ks_view bytes)
{
    struct ks_reader *reader = arg;
    size_t needed = reader->body->size + bytes.size;

    if (reader->came < needed)
        reader->came = needed;
    if (needed > reader->body->capacity) {
        size_t wanted = reader->body->capacity * 2;
        if (wanted > KS_KINESIS_ANSWER_MAX)
            wanted = KS_KINESIS_ANSWER_MAX;
        KS_TRY(body_room(reader, wanted < needed ? needed : wanted));
    }
    if (bytes.size > 0)
        memcpy(reader->body->data + reader->body->size, bytes.data, bytes.size);
    reader->body->size = needed;
    return KS_OK;
}

/* --- Records --- */

/* True if it asks for `reader->limit` records now; false if it waits for room, and looks again. */
static bool has_room(struct ks_reader *reader)
{
    struct source *source = reader->source;
    ks_instant now = ks_loop_now(source->reading.loop);
    struct ks_portion_room room = {.allowed = ks_budget_allowed(reader->budget),
                                   .used = reader->budget->used,
                                   .promised = source->promised};

    bool cbor = ks_wire_prefers_cbor(&source->reading.wire, &reader->wire, now);
    reader->limit =
        ks_portion_next(&reader->portion, now, reader->max_records, reader->max_bytes, cbor, &room);
    if (reader->limit == 0)
        ks_loop_timer_set(source->reading.loop, &reader->timer,
                          ks_instant_add(now, ks_span_ms(ROOM_LOOK_MS)));
    return reader->limit > 0;
}

static void promise(struct ks_reader *reader)
{
    reader->promised = ks_portion_bytes(&reader->portion, reader->limit, reader->wire.cbor);
    reader->source->promised += reader->promised;
}

static void end_promise(struct ks_reader *reader)
{
    assert(reader->source->promised >= reader->promised);
    reader->source->promised -= reader->promised;
    reader->promised = 0;
}

/* What an answer costs. One that is shorter than asked for though there is more may have been cut by its size; it
 * counts as full, for what did not fit is as large as a record can be. */
static uint64_t cost_of(const struct ks_reader *reader, const struct ks_batch *batch,
                        uint64_t bytes)
{
    bool cut = batch->count < reader->limit && batch->millis_behind > 0;

    return cut && bytes > PAYLOAD_MAX / 2 && bytes < PAYLOAD_MAX ? PAYLOAD_MAX : bytes;
}

/* An answer that has as many records as were asked for, or nearly as many bytes as fit, may have more behind it
 * whatever it says: what arrived within one millisecond counts as zero. So it is never told to be the tip. */
static void doubt_tip(const struct ks_reader *reader, struct ks_batch *batch)
{
    uint64_t bytes = 0;

    for (uint32_t at = 0; at < batch->count; at++)
        bytes += batch->records[at].data.size + batch->records[at].partition_key.size;
    if (batch->millis_behind == 0 && (batch->count == reader->limit || bytes > PAYLOAD_MAX / 2))
        batch->millis_behind = 1;
}

/* Learns from a batch how large records are, and when to ask again. */
static void learn(struct ks_reader *reader, const struct ks_batch *batch)
{
    uint64_t bytes = 0;

    for (uint32_t at = 0; at < batch->count; at++)
        bytes += batch->records[at].data.size + batch->records[at].partition_key.size;
    ks_portion_came(&reader->portion, batch->count, bytes);
    ks_pace_answered(&reader->pace, ks_loop_now(reader->source->reading.loop), batch->count,
                     cost_of(reader, batch, bytes), batch->millis_behind);
}

static void answer_records(struct ks_reader *reader, struct ks_records *records)
{
    const struct ks_place_stream stream = ks_reading_stream(&reader->source->reading);
    const struct ks_record *last = NULL;
    struct ks_read_answer told = {.err = KS_OK};

    /* The old iterator is used up only now that its records are ours. */
    memcpy(reader->iterator, records->iterator, sizeof(reader->iterator));
    reader->iterator_at = ks_loop_now(reader->source->reading.loop);
    reader->told_end = records->batch.at_end;
    doubt_tip(reader, &records->batch);
    learn(reader, &records->batch);
    ks_place_take(&reader->place, &records->batch, &stream);
    if (records->batch.count > 0)
        last = &records->batch.records[records->batch.count - 1];
    ks_place_passed(&reader->place, last == NULL ? 0 : last->arrival_ms,
                    records->batch.millis_behind, &stream);
    /* Another iterator than the one that came with these records begins behind the last of them. */
    if (last != NULL)
        ks_place_move(&reader->place, last->sequence);
    ks_reading_hear(&reader->source->reading, KS_OK, &told.detail);
    told.batch = records->batch;
    answer(reader, &told);
}

/* What came and was of no use was sent all the same. Base64 is a third more than what it stands for. */
static void waste(struct ks_reader *reader)
{
    ks_pace_wasted(&reader->pace, ks_loop_now(reader->source->reading.loop), reader->came / 4 * 3);
}

static void answer_full(struct ks_reader *reader, ks_err err, const struct ks_detail *detail)
{
    ks_portion_full(&reader->portion, reader->limit);
    answer_failed(reader, err, detail);
}

static void parse(struct ks_reader *reader, const struct ks_aws_answer *told)
{
    struct ks_reading *reading = &reader->source->reading;
    bool cbor = ks_view_starts(told->content_type, KS_VIEW("application/x-amz-cbor"));
    struct ks_block *body = reader->body;
    struct ks_records records;
    struct ks_detail detail;

    assert(body != NULL); /* Also that of an empty answer has begun. */
    reader->body = NULL;
    ks_err err = cbor ? ks_records_cbor(body, 0, reader->limit, &records)
                      : ks_records_json(body, 0, reader->limit, &records);
    if (ks_ok(err)) {
        ks_reading_spoke(reading, &reader->wire, cbor);
        answer_records(reader, &records);
        return;
    }
    waste(reader);
    if (ks_err_is(err, KS_ERR_MALFORMED) &&
        ks_reading_repeats_unreadable(reading, &reader->wire, cbor)) {
        go_on(reader);
        return;
    }
    ks_detail_set(&detail, "GetRecords of %s, %zu bytes of %s: %s", reader->shard, reader->came,
                  cbor ? "CBOR" : "JSON", ks_err_text(err));
    ks_failure_name_request(&detail, told->request_id);
    if (ks_err_class(err) == KS_CLASS_SHED)
        answer_full(reader, err, &detail);
    else
        answer_failed(reader, err, &detail);
}

/* True if the failure is the iterator's, and another one may do. */
static bool is_about_iterator(const struct ks_aws_answer *told)
{
    if (ks_err_is(told->err, KS_ERR_EXPIRED))
        return true;
    if (told->failure == NULL)
        return false;
    if (ks_err_is(told->err, KS_ERR_INVALID))
        return true;
    /* kinesis-local falls over an iterator that it did not make; AWS says why it failed. */
    return ks_err_is(told->err, KS_ERR_SERVER) && told->body.size == 0;
}

static void records_done(void *arg, const struct ks_aws_answer *told)
{
    struct ks_reader *reader = arg;

    reader->call = NULL;
    end_promise(reader);
    if (ks_ok(told->err)) {
        parse(reader, told);
        return;
    }
    waste(reader);
    hear_wait(reader, told);
    if (ks_reading_repeats(&reader->source->reading, &reader->wire, told->failure,
                           told->content_type)) {
        go_on(reader);
        return;
    }
    if (is_about_iterator(told)) {
        if (renew(reader))
            return;
    }
    struct ks_detail detail = told->detail;
    if (told->failure != NULL)
        (void)ks_refusal_explain(told->failure, "GetRecords", &detail);
    if (ks_err_class(told->err) == KS_CLASS_SHED)
        answer_full(reader, told->err, &detail);
    else
        answer_failed(reader, told->err, &detail);
}

static ks_err send_records(struct ks_reader *reader, struct ks_bytes *body)
{
    struct source *source = reader->source;
    struct ks_http_sink sink = {.begin = body_begin, .part = body_part, .arg = reader};
    struct ks_aws_request request = {
        .operation = "GetRecords",
        .timeout = ks_span_ms(KS_KINESIS_READ_TIMEOUT_MS),
        .single_attempt = true,
        .response_max = KS_KINESIS_ANSWER_MAX,
        .sink = &sink,
        .done = records_done,
        .arg = reader,
    };

    reader->came = 0;
    ks_reading_begin(&source->reading, &reader->wire);
    request.content_type = reader->wire.cbor ? KS_AWS_CBOR_TYPE : NULL;
    KS_TRY(ks_request_records(body, reader->source->reading.stream, reader->iterator, reader->limit,
                              reader->wire.cbor));
    request.body = ks_bytes_view(body);
    KS_TRY(ks_aws_call(source->reading.client, &request, &reader->call));
    ks_pace_sent(&reader->pace, ks_loop_now(source->reading.loop));
    promise(reader);
    return KS_OK;
}

static void ask_records(struct ks_reader *reader)
{
    struct ks_bytes body;

    if (!has_room(reader))
        return;
    ks_bytes_init(&body, KS_KINESIS_REQUEST_MAX);
    ks_err err = send_records(reader, &body);
    ks_bytes_free(&body);
    if (!ks_ok(err))
        answer_unsent(reader, "GetRecords", err);
}

/* --- The port --- */

static ks_err source_open(struct ks_stream_source *port, const char *shard,
                          const struct ks_position *from, struct ks_budget *budget,
                          struct ks_reader **ret_reader)
{
    struct source *source = of_port(port);
    struct ks_reader *reader = ks_alloc(sizeof(*reader));

    if (reader == NULL)
        return KS_FAIL(NO_MEMORY);
    reader->source = source;
    reader->budget = budget;
    ks_portion_init(&reader->portion);
    reader->asked_ms = -1;
    reader->timer.due = timer_due;
    ks_pace_init(&reader->pace, ks_prng_next(&source->reading.prng), source->idle_ms);
    ks_reading_join(&source->reading, &reader->link, shard, from, &reader->place, reader->shard);
    /* The tip is where it is now. If this cannot be sent, the first read asks for an instant. */
    if (from->kind == KS_POSITION_LATEST) {
        if (!ks_ok(begin_iterator(reader)))
            ks_place_ask(&reader->place);
    }
    *ret_reader = reader;
    return KS_OK;
}

static void source_read(struct ks_reader *reader, uint32_t max_records, uint32_t max_bytes,
                        void (*answered)(void *arg, const struct ks_read_answer *answer), void *arg)
{
    assert(!reader->waiting);
    reader->waiting = true;
    reader->max_records = max_records;
    reader->max_bytes = max_bytes;
    reader->answered = answered;
    reader->arg = arg;
    reader->tries = 0;
    ks_portion_begin(&reader->portion);
    /* An iterator of LATEST may still be under way; then its answer goes on. */
    if (reader->call == NULL)
        go_on(reader);
}

static void source_close_reader(struct ks_reader *reader)
{
    if (reader->call != NULL)
        ks_aws_cancel(reader->call);
    end_promise(reader);
    ks_loop_timer_clear(reader->source->reading.loop, &reader->timer);
    drop_body(reader);
    ks_reading_leave(&reader->source->reading, &reader->link);
    ks_free(reader);
}

static void source_close(struct ks_stream_source *port)
{
    struct source *source = of_port(port);

    ks_reading_close(&source->reading);
    ks_free(source);
}

static const struct ks_stream_source_vtable VTABLE = {
    .describe = ks_reading_describe,
    .list = ks_reading_list,
    .open = source_open,
    .read = source_read,
    .close_reader = source_close_reader,
    .now_ms = ks_reading_now_ms,
    .retention_ms = ks_reading_retention_ms,
    .put = NULL,
    .state = ks_reading_state,
    .close = source_close,
};

ks_err ks_kinesis_source_open(struct ks_loop *loop, struct ks_aws_client *client,
                              const char *stream, struct ks_stream_source **ret_source,
                              struct ks_detail *detail)
{
    struct ks_kinesis_options plain = {.protocol = KS_WIRE_AUTO};

    return ks_kinesis_source_open_with(loop, client, stream, &plain, ret_source, detail);
}

ks_err ks_kinesis_source_open_with(struct ks_loop *loop, struct ks_aws_client *client,
                                   const char *stream, const struct ks_kinesis_options *options,
                                   struct ks_stream_source **ret_source, struct ks_detail *detail)
{
    const struct ks_reading_options reading = {
        .vtable = &VTABLE,
        .loop = loop,
        .client = client,
        .stream = stream,
        .protocol = options->protocol,
        .page_size = options->page_size,
    };
    struct source *source = ks_alloc(sizeof(*source));

    if (source == NULL)
        return KS_FAIL(NO_MEMORY);
    ks_err err = ks_reading_open(&source->reading, &reading, detail);
    if (!ks_ok(err)) {
        ks_free(source);
        return err;
    }
    source->idle_ms = options->idle_ms == 0 ? KS_PACE_IDLE_MS : (int32_t)options->idle_ms;
    *ret_source = &source->reading.port;
    return KS_OK;
}

/* --- For tests --- */

void ks_kinesis_reader_set_iterator(struct ks_reader *reader, const char *iterator)
{
    (void)snprintf(reader->iterator, sizeof(reader->iterator), "%s",
                   iterator == NULL ? "" : iterator);
}

const char *ks_kinesis_reader_iterator(const struct ks_reader *reader)
{
    return reader->iterator;
}
