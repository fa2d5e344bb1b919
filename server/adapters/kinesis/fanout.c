/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/kinesis/fanout.h"

#include "adapters/kinesis/back_off.h"
#include "adapters/kinesis/consumer.h"
#include "adapters/kinesis/feed.h"
#include "adapters/kinesis/pace.h"
#include "adapters/kinesis/place.h"
#include "adapters/kinesis/reading.h"
#include "adapters/kinesis/records.h"
#include "adapters/kinesis/refusal.h"
#include "adapters/kinesis/request.h"
#include "base/log.h"
#include "base/metrics.h"
#include "ports/batches.h"

#include <assert.h>
#include <stdio.h>

enum {
    /* 5 s, and what two clocks may differ in them. */
    APART_MS = 5100,
    /* 4 minutes and a half; and up to 20 s more. */
    AGE_MS = 270000,
    AGE_PART = 13, /* What part of it that is. */
    /* Three events that are missing. */
    SILENCE_MS = 15000,
    UNREAD_MS = 10000,
    /* A read of an idle shard is answered. */
    IDLE_MS = 1000,
    FAILED_MS_MIN = 500,
    /* As by polling: what lasts is told at the first failure after 10 s. */
    FAILED_MS_MAX = KS_PACE_FAILED_MS_MAX
};

struct source {
    struct ks_reading reading; /* First. */
    struct ks_consumer *consumer;
    struct ks_fanout_options options;
    struct ks_metric_keeper keeper;
    struct ks_link *shown; /* The reader whose numbers were shown last. */
};

struct ks_reader {
    struct ks_link link;
    struct source *source;
    struct ks_budget *budget;
    char shard[KS_SHARD_ID_MAX + 1];
    struct ks_place place; /* Behind what was handed on. */
    bool told_end;         /* To the reader. */
    int64_t millis_behind; /* As was said last; -1: never. */

    /* An event, and how much of it was handed on. */
    struct ks_batch event; /* block NULL: none. */
    uint32_t next;
    char continuation[KS_SEQUENCE_MAX + 1];

    struct ks_feed feed;
    struct ks_wire_request wire; /* In which its bytes are asked for. */
    bool counted;                /* In the gauge of feeds. */
    ks_instant old_at;           /* When it is to be renewed. */
    ks_instant subscribed_at;    /* When the server may have taken the last one. */
    ks_instant not_before;       /* The next one. */
    struct ks_back_off back_off;
    bool told_in_use; /* In the log. */
    int64_t feeds;    /* So far. */
    struct ks_consumer_waiter waiter;
    bool waits; /* For the consumer. */

    bool waiting; /* A read is in flight. */
    uint32_t max_records;
    uint32_t max_bytes;
    ks_instant asked_at;
    void (*answered)(void *arg, const struct ks_read_answer *answer);
    void *arg;
    /* The next step. While a read is in flight: when there is something to look at, or to begin. Else when the feed is
     * given up. */
    struct ks_timer timer;
};

static struct source *of_port(struct ks_stream_source *port)
{
    return (struct source *)(void *)port;
}

static ks_instant after(const struct ks_reader *reader, uint32_t ms)
{
    return ks_instant_add(ks_loop_now(reader->source->reading.loop), ks_span_ms(ms));
}

static void step_at(struct ks_reader *reader, ks_instant at)
{
    struct ks_loop *loop = reader->source->reading.loop;

    ks_loop_timer_set(loop, &reader->timer, ks_instant_max(ks_loop_now(loop), at));
}

static void count(const struct ks_reader *reader, enum ks_metric metric, int64_t n)
{
    ks_metric_add_labelled(metric, reader->source->options.subscription, n);
}

/* --- Answers --- */

static void answer(struct ks_reader *reader, const struct ks_read_answer *answer)
{
    assert(reader->waiting);
    reader->waiting = false;
    ks_feed_want(&reader->feed, false);
    step_at(reader, after(reader, reader->source->options.unread_ms));
    reader->answered(reader->arg, answer);
}

static void answer_empty(struct ks_reader *reader, bool at_end)
{
    struct ks_read_answer told = {
        .err = KS_OK, .batch = {.millis_behind = reader->millis_behind, .at_end = at_end}};

    answer(reader, &told);
}

/* --- The feed's end --- */

/* Everything that was not handed on comes again. */
static void close_feed(struct ks_reader *reader)
{
    if (reader->feed.answered)
        reader->subscribed_at = reader->feed.answered_at;
    else if (ks_feed_is_open(&reader->feed))
        reader->subscribed_at = ks_loop_now(reader->source->reading.loop);
    if (reader->counted)
        count(reader, KS_METRIC_FEEDS, -1);
    reader->counted = false;
    ks_feed_close(&reader->feed);
}

/* The next one may begin as soon as the server takes it. */
static void renew(struct ks_reader *reader)
{
    ks_span apart = ks_span_ms(reader->source->options.apart_ms);

    close_feed(reader);
    reader->not_before = ks_instant_add(reader->subscribed_at, apart);
    if (reader->waiting)
        step_at(reader, reader->not_before);
}

/* The same after a failure, and no sooner than a back-off allows. */
static void back_off(struct ks_reader *reader)
{
    ks_span wait = ks_back_off_wait(&reader->back_off, FAILED_MS_MIN, FAILED_MS_MAX);

    renew(reader);
    reader->not_before = ks_instant_max(
        reader->not_before, ks_instant_add(ks_loop_now(reader->source->reading.loop), wait));
    if (reader->waiting)
        step_at(reader, reader->not_before);
}

static void fail(struct ks_reader *reader, ks_err err, const struct ks_detail *detail)
{
    struct ks_read_answer told = {
        .err = err, .detail = *detail, .throttled = ks_err_is(err, KS_ERR_THROTTLED)};
    bool passing = reader->feed.answered && ks_err_class(err) == KS_CLASS_RETRY;

    back_off(reader);
    /* A feed that breaks is begun again; only if that fails, the stream cannot be read. */
    if (!passing)
        ks_reading_hear(&reader->source->reading, err, detail);
    if (reader->waiting)
        answer(reader, &told);
}

static void fail_damaged(struct ks_reader *reader, const char *why)
{
    struct ks_detail detail;

    count(reader, KS_METRIC_FEEDS_DAMAGED, 1);
    ks_detail_set(&detail, "the event stream of %s is damaged: %s", reader->shard, why);
    ks_failure_name_request(&detail, ks_view_text(reader->feed.request_id));
    fail(reader, KS_FAIL(SERVER), &detail);
}

/* Somebody else has the shard, as far as the server knows; or the consumer is not ACTIVE. The read goes on. */
static void wait_in_use(struct ks_reader *reader, const struct ks_detail *detail)
{
    back_off(reader);
    count(reader, KS_METRIC_FEEDS_IN_USE, 1);
    if (!reader->told_in_use)
        ks_info("%s: %s; trying again", reader->shard, detail->text);
    reader->told_in_use = true;
}

/* A refusal, before the feed began or within it; `type` is the content type of the answer. */
static void refused(struct ks_reader *reader, const struct ks_failure *failure, ks_view type,
                    const struct ks_detail *detail)
{
    struct ks_detail why = *detail;

    if (ks_reading_repeats(&reader->source->reading, &reader->wire, failure, type)) {
        renew(reader);
    } else if (ks_err_is(failure->err, KS_ERR_EXISTS)) {
        if (strstr(failure->message, "ACTIVE") != NULL)
            ks_consumer_doubt(reader->source->consumer);
        wait_in_use(reader, &why);
    } else if (ks_err_is(failure->err, KS_ERR_INVALID) &&
               ks_place_fall_back(&reader->place, failure->err)) {
        /* Only of a place is it said so: a shard or a consumer that is not there is not found. */
        renew(reader);
    } else {
        /* The shard, the stream, or the consumer. */
        if (ks_err_is(failure->err, KS_ERR_NOT_FOUND))
            ks_consumer_doubt(reader->source->consumer);
        (void)ks_refusal_explain(failure, "SubscribeToShard", &why);
        fail(reader, failure->err, &why);
    }
}

static void feed_ended(void *arg, const struct ks_aws_answer *told)
{
    struct ks_reader *reader = arg;
    struct ks_detail detail = told->detail;

    /* Without an answer nobody knows whether it was taken. */
    if (told->sent && told->status == 0)
        reader->subscribed_at = ks_loop_now(reader->source->reading.loop);
    /* What came before the end is read first; an exception may be the last of it. */
    if (ks_feed_is_whole(&reader->feed) && reader->waiting)
        return;
    if (told->failure != NULL)
        refused(reader, told->failure, told->content_type, &detail);
    else if (ks_ok(told->err))
        renew(reader);
    else
        fail(reader, told->err, &detail);
}

/* --- Events --- */

/* Behind the last of an event. A number that is not beyond the place says nothing. */
static void move_to_continuation(struct ks_reader *reader)
{
    const struct ks_position *from = &reader->place.from;
    ks_view continuation = ks_view_text(reader->continuation);
    bool by_sequence =
        from->kind == KS_POSITION_AFTER_SEQUENCE || from->kind == KS_POSITION_AT_SEQUENCE;

    if (continuation.size == 0)
        return;
    if (by_sequence && ks_position_compare(continuation, -1, ks_view_text(from->sequence), -1) <= 0)
        return;
    reader->place.from_horizon = false;
    ks_place_move(&reader->place, continuation);
}

/* How many records a read takes: at least one. */
static uint32_t count_for_read(const struct ks_reader *reader)
{
    const struct ks_batch *event = &reader->event;
    uint64_t bytes = 0;
    uint32_t at = reader->next;

    for (; at < event->count && at - reader->next < reader->max_records; at++) {
        bytes += event->records[at].data.size + event->records[at].partition_key.size;
        if (at > reader->next && bytes > reader->max_bytes)
            break;
    }
    return at - reader->next;
}

/* Answers with what is left of the event. The last of it says where the shard goes on, or that it does not. */
static void answer_event(struct ks_reader *reader)
{
    const struct ks_place_stream stream = ks_reading_stream(&reader->source->reading);
    struct ks_read_answer told = {.err = KS_OK, .batch = reader->event};
    uint32_t taken = count_for_read(reader);
    int64_t arrival_ms = taken > 0 ? reader->event.records[reader->next + taken - 1].arrival_ms : 0;

    told.batch.records = reader->event.records + reader->next;
    told.batch.count = taken;
    reader->next += taken;
    if (taken > 0)
        ks_place_move(&reader->place, told.batch.records[taken - 1].sequence);
    reader->event.expired = (struct ks_expired){.found = false};
    if (reader->next < reader->event.count) {
        ks_place_passed(&reader->place, arrival_ms, -1, &stream);
        ks_block_use(told.batch.block);
        told.batch.at_end = false;
        told.batch.millis_behind = reader->millis_behind == 0 ? 1 : reader->millis_behind;
    } else {
        ks_place_passed(&reader->place, arrival_ms, reader->millis_behind, &stream);
        reader->event = (struct ks_batch){.block = NULL};
        reader->next = 0;
        reader->told_end = told.batch.at_end;
        move_to_continuation(reader);
    }
    answer(reader, &told);
}

static bool is_end(const struct ks_records *records)
{
    return records->continuation[0] == '\0' && records->batch.children[0][0] != '\0';
}

static void keep_event(struct ks_reader *reader, struct ks_records *records)
{
    static const struct ks_detail none = {""};
    const struct ks_place_stream stream = ks_reading_stream(&reader->source->reading);

    records->batch.at_end = is_end(records);
    ks_place_take(&reader->place, &records->batch, &stream);
    reader->event = records->batch;
    reader->millis_behind = records->batch.millis_behind;
    memcpy(reader->continuation, records->continuation, sizeof(reader->continuation));
    reader->told_in_use = false;
    ks_back_off_end(&reader->back_off);
    ks_reading_hear(&reader->source->reading, KS_OK, &none);
}

static void fail_parse(struct ks_reader *reader, bool cbor, ks_err err)
{
    struct ks_detail detail;

    if (ks_err_class(err) == KS_CLASS_SHED) {
        ks_detail_set(&detail, "an event of %s: %s", reader->shard, ks_err_text(err));
        fail(reader, err, &detail);
    } else if (ks_reading_repeats_unreadable(&reader->source->reading, &reader->wire, cbor)) {
        renew(reader);
    } else {
        fail_damaged(reader, "an event cannot be read");
    }
}

/* Goes on to the next one. Without memory for what has come of it, it is asked for again. */
static void finish_message(struct ks_reader *reader, bool kept)
{
    bool old = reader->event.block != NULL &&
               ks_instant_reached(ks_loop_now(reader->source->reading.loop), reader->old_at);
    bool over = !ks_feed_is_open(&reader->feed) && !ks_feed_is_whole(&reader->feed);

    if (!kept || over || old || reader->event.at_end)
        renew(reader);
    else
        step_at(reader, KS_LONG_AGO);
}

static void skip_message(struct ks_reader *reader)
{
    struct ks_block *message;
    bool kept = ks_ok(ks_feed_take(&reader->feed, &message));

    ks_block_drop(message);
    finish_message(reader, kept);
}

static void take_records(struct ks_reader *reader, const struct ks_event *event)
{
    ks_view type = ks_event_text(event, ":content-type");
    bool cbor = type.size == 0 ? reader->wire.cbor
                               : ks_view_starts(type, KS_VIEW("application/x-amz-cbor"));
    struct ks_records records;
    struct ks_block *message;
    bool kept = ks_ok(ks_feed_take(&reader->feed, &message));
    size_t begin = (size_t)(event->payload.data - message->data);

    message->size = begin + event->payload.size;
    ks_err err = cbor ? ks_records_cbor(message, begin, KS_READ_RECORDS_MAX, &records)
                      : ks_records_json(message, begin, KS_READ_RECORDS_MAX, &records);
    if (!ks_ok(err)) {
        fail_parse(reader, cbor, err);
        return;
    }
    ks_reading_spoke(&reader->source->reading, &reader->wire, cbor);
    keep_event(reader, &records);
    finish_message(reader, kept);
    answer_event(reader);
}

/* The last word of a feed: an exception that AWS has described, or an error that it has not. */
static void take_refusal(struct ks_reader *reader, const struct ks_event *event, bool exception)
{
    static const int status = 200; /* As it came. */
    ks_view code = ks_event_text(event, exception ? ":exception-type" : ":error-code");
    ks_view text = ks_event_text(event, ":error-message");
    ks_view type = ks_event_text(event, ":content-type");
    struct ks_failure body;
    struct ks_failure failure;
    struct ks_detail detail;

    if (exception) {
        char head[128];
        (void)snprintf(head, sizeof(head), "Content-Type: %.*s\r\n",
                       (int)(type.size < 64 ? type.size : 64), (const char *)type.data);
        ks_failure_read(status, ks_view_text(head), event->payload, &body);
        text = ks_view_text(body.message);
    }
    ks_failure_from(status, code, text, &failure);
    memcpy(failure.request_id, reader->feed.request_id, sizeof(failure.request_id));
    ks_failure_explain(&failure, "kinesis", "SubscribeToShard", &detail);
    refused(reader, &failure, type, &detail);
}

static void take_message(struct ks_reader *reader)
{
    struct ks_event event;

    if (!ks_ok(ks_feed_read(&reader->feed, &event))) {
        fail_damaged(reader, "it does not match its checksum, or is no event stream");
        return;
    }
    ks_view type = ks_event_text(&event, ":message-type");
    bool exception = ks_view_equal(type, KS_VIEW("exception"));
    if (exception || ks_view_equal(type, KS_VIEW("error"))) {
        take_refusal(reader, &event, exception);
    } else if (ks_view_equal(ks_event_text(&event, ":event-type"),
                             KS_VIEW("SubscribeToShardEvent"))) {
        take_records(reader, &event);
    } else {
        /* The initial-response, and what AWS may think of later. */
        skip_message(reader);
    }
}

/* --- Its beginning --- */

static ks_err send(struct ks_reader *reader, const char *consumer, struct ks_bytes *body)
{
    struct source *source = reader->source;
    struct ks_position position = ks_reading_ask(&source->reading, &reader->place);
    struct ks_feed_request request = {
        .loop = source->reading.loop,
        .client = source->reading.client,
        .budget = reader->budget,
        .silence = ks_span_ms(source->options.silence_ms),
        .wake = &reader->timer,
        .ended = feed_ended,
        .arg = reader,
    };

    ks_reading_begin(&source->reading, &reader->wire);
    request.cbor = reader->wire.cbor;
    KS_TRY(ks_request_subscribe(body, consumer, reader->shard, &position, reader->wire.cbor));
    request.body = ks_bytes_view(body);
    return ks_feed_open(&reader->feed, &request);
}

static ks_err open_feed(struct ks_reader *reader, const char *consumer)
{
    struct source *source = reader->source;
    uint32_t age_ms = source->options.age_ms;
    struct ks_bytes body;

    ks_bytes_init(&body, KS_KINESIS_REQUEST_MAX);
    ks_err err = send(reader, consumer, &body);
    ks_bytes_free(&body);
    KS_TRY(err);
    ks_place_ask(&reader->place);
    reader->feeds++;
    reader->old_at = after(reader, (uint32_t)ks_prng_between(&source->reading.prng, age_ms,
                                                             age_ms + age_ms / AGE_PART));
    reader->counted = true;
    count(reader, KS_METRIC_FEEDS, 1);
    count(reader, KS_METRIC_FEEDS_BEGUN, 1);
    return KS_OK;
}

static void consumer_known(struct ks_consumer_waiter *waiter, ks_err err,
                           const struct ks_detail *detail)
{
    struct ks_reader *reader = KS_LIST_ENTRY(waiter, struct ks_reader, waiter);
    struct ks_read_answer told = {.err = err, .detail = *detail};

    reader->waits = false;
    if (!ks_ok(err))
        ks_control_heard(reader->source->reading.control, err, detail);
    if (!reader->waiting)
        return;
    if (ks_ok(err))
        step_at(reader, KS_LONG_AGO);
    else
        answer(reader, &told);
}

static void begin(struct ks_reader *reader)
{
    const char *consumer = ks_consumer_arn(reader->source->consumer);
    struct ks_detail detail;

    if (consumer == NULL) {
        if (!reader->waits)
            ks_consumer_wait(reader->source->consumer, &reader->waiter);
        reader->waits = true;
        return;
    }
    ks_err err = open_feed(reader, consumer);
    if (ks_ok(err)) {
        ks_feed_want(&reader->feed, true);
        step_at(reader, ks_instant_add(reader->asked_at, ks_span_ms(IDLE_MS)));
        return;
    }
    ks_detail_set(&detail, "SubscribeToShard of %s could not be sent: %s", reader->shard,
                  ks_err_text(err));
    fail(reader, err, &detail);
}

/* --- Steps --- */

/* There is a feed, and no message. */
static void wait_for_message(struct ks_reader *reader)
{
    ks_instant now = ks_loop_now(reader->source->reading.loop);
    ks_instant idle_at = ks_instant_add(reader->asked_at, ks_span_ms(IDLE_MS));

    ks_place_tell(&reader->place, reader->shard);
    ks_feed_want(&reader->feed, true);
    /* Taking what had waited may have ended it. */
    if (ks_feed_is_whole(&reader->feed) || !ks_feed_is_open(&reader->feed)) {
        step_at(reader, KS_LONG_AGO);
        return;
    }
    if (!ks_instant_reached(now, idle_at)) {
        step_at(reader, idle_at);
    } else if (reader->feed.answered) {
        answer_empty(reader, false);
    } else {
        reader->asked_at = now;
        step_at(reader, after(reader, IDLE_MS));
    }
}

static void step(struct ks_reader *reader)
{
    ks_instant now = ks_loop_now(reader->source->reading.loop);

    if (reader->told_end || reader->place.from.kind == KS_POSITION_SHARD_END)
        answer_empty(reader, true);
    else if (reader->event.block != NULL)
        answer_event(reader);
    else if (ks_feed_is_whole(&reader->feed))
        take_message(reader);
    else if (ks_feed_is_open(&reader->feed))
        wait_for_message(reader);
    else if (!ks_instant_reached(now, reader->not_before))
        step_at(reader, reader->not_before);
    else
        begin(reader);
}

static void timer_due(struct ks_timer *timer)
{
    struct ks_reader *reader = KS_LIST_ENTRY(timer, struct ks_reader, timer);

    if (reader->waiting) {
        step(reader);
        return;
    }
    if (!ks_feed_is_open(&reader->feed) && reader->event.block == NULL)
        return;
    ks_debug("%s: nobody reads; giving its feed up", reader->shard);
    ks_batch_free(&reader->event);
    reader->next = 0;
    renew(reader);
}

/* --- The port --- */

/* The tip is where it is now. If this cannot be sent, the first read asks for an instant. */
static void take_tip(struct ks_reader *reader)
{
    const char *consumer = ks_consumer_arn(reader->source->consumer);

    if (consumer == NULL || !ks_ok(open_feed(reader, consumer)))
        ks_place_ask(&reader->place);
    step_at(reader, after(reader, reader->source->options.unread_ms));
}

static ks_err source_open(struct ks_stream_source *port, const char *shard,
                          const struct ks_position *from, struct ks_budget *budget,
                          struct ks_reader **ret_reader)
{
    struct source *source = of_port(port);
    struct ks_reader *reader = ks_alloc(sizeof(*reader));

    if (reader == NULL)
        return KS_FAIL(NO_MEMORY);
    ks_back_off_init(&reader->back_off, ks_prng_next(&source->reading.prng));
    reader->source = source;
    reader->budget = budget;
    reader->millis_behind = -1;
    reader->subscribed_at = KS_LONG_AGO;
    reader->not_before = KS_LONG_AGO;
    reader->timer.due = timer_due;
    reader->waiter.done = consumer_known;
    ks_reading_join(&source->reading, &reader->link, shard, from, &reader->place, reader->shard);
    if (from->kind == KS_POSITION_LATEST)
        take_tip(reader);
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
    reader->asked_at = ks_loop_now(reader->source->reading.loop);
    reader->answered = answered;
    reader->arg = arg;
    if (!reader->waits)
        step_at(reader, KS_LONG_AGO);
}

static void source_close_reader(struct ks_reader *reader)
{
    struct source *source = reader->source;

    if (reader->waits)
        ks_consumer_unwait(source->consumer, &reader->waiter);
    close_feed(reader);
    ks_loop_timer_clear(source->reading.loop, &reader->timer);
    ks_batch_free(&reader->event);
    ks_reading_leave(&source->reading, &reader->link);
    source->shown = &source->reading.readers;
    ks_free(reader);
}

static void free_source(struct source *source)
{
    if (source->options.shard_metrics)
        ks_metrics_leave(&source->keeper);
    /* It may still have a question of the consumer. */
    ks_reading_close(&source->reading);
    ks_consumer_free(source->consumer);
    ks_free(source);
}

static void source_close(struct ks_stream_source *port)
{
    free_source(of_port(port));
}

/* They are shown one after the other. */
static bool shard_number(struct ks_metric_keeper *keeper, enum ks_metric metric, uint32_t index,
                         const char **ret_shard, int64_t *ret_number)
{
    struct source *source = KS_LIST_ENTRY(keeper, struct source, keeper);
    const struct ks_reader *reader;

    source->shown = index == 0 ? source->reading.readers.next : source->shown->next;
    if (source->shown == &source->reading.readers)
        return false;
    reader = KS_LIST_ENTRY(source->shown, struct ks_reader, link);
    if (metric == KS_METRIC_SHARD_FEEDS)
        *ret_number = reader->feed.answered;
    else if (metric == KS_METRIC_SHARD_FEEDS_BEGUN)
        *ret_number = reader->feeds;
    else
        return false;
    *ret_shard = reader->shard;
    return true;
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

/* 0 is what AWS wants. */
static uint32_t or_else(uint32_t option, uint32_t otherwise)
{
    return option == 0 ? otherwise : option;
}

static void set_options(struct source *source, const struct ks_fanout_options *options)
{
    source->options = *options;
    source->options.apart_ms = or_else(options->apart_ms, APART_MS);
    source->options.age_ms = or_else(options->age_ms, AGE_MS);
    source->options.silence_ms = or_else(options->silence_ms, SILENCE_MS);
    source->options.unread_ms = or_else(options->unread_ms, UNREAD_MS);
    source->keeper.number = shard_number;
    source->keeper.subscription = options->subscription;
    if (options->shard_metrics)
        ks_metrics_join(&source->keeper);
}

static ks_err open_parts(struct source *source, const struct ks_reading_options *reading,
                         struct ks_detail *detail)
{
    struct ks_consumer_options consumer = {
        .loop = reading->loop,
        .client = reading->client,
        .name = source->options.consumer,
    };

    KS_TRY(ks_reading_open(&source->reading, reading, detail));
    consumer.stream = source->reading.stream;
    consumer.control = source->reading.control;
    return ks_consumer_new(&consumer, &source->consumer, detail);
}

ks_err ks_fanout_source_open(struct ks_loop *loop, struct ks_aws_client *client, const char *stream,
                             const struct ks_fanout_options *options,
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
    set_options(source, options);
    ks_err err = open_parts(source, &reading, detail);
    if (!ks_ok(err)) {
        free_source(source);
        return err;
    }
    *ret_source = &source->reading.port;
    return KS_OK;
}
