/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/local/stream.h"

#include "adapters/local/play.h"
#include "adapters/local/put.h"
#include "adapters/local/read.h"
#include "adapters/local/shards.h"
#include "base/log.h"
#include "base/metrics.h"

#include <assert.h>
#include <stdio.h>

enum { SPARES = 64 /* Calls that can still be refused in order when memory ran out. */ };

enum call_kind { CALL_PUT, CALL_LIST, CALL_DESCRIBE };

/* A list or a describe, or any call that is refused. */
struct call {
    struct ks_link link;
    enum call_kind kind;
    union {
        void (*put)(void *arg, const struct ks_put_answer *answer);
        void (*list)(void *arg, const struct ks_list_answer *answer);
        void (*describe)(void *arg, const struct ks_describe_answer *answer);
    } answered;
    void *arg;
    bool spare;
    bool taken; /* Of a spare one. */
    ks_err err;
    struct ks_detail detail;
    int64_t since_ms; /* LIST. */
    struct ks_shard_listing *shards;
    uint32_t count;
};

struct source;

enum step {
    STEP_LOOK, /* For the next records. */
    STEP_FILL  /* The block that was made for them. */
};

struct ks_reader {
    struct ks_link link; /* In the source's. */
    struct source *source;
    struct ks_budget *budget;
    bool closed;  /* While a job had it: it is freed when the job comes back. */
    bool working; /* A job has it: from `task` on nothing is touched here. */
    bool waiting; /* A read is in flight. */
    bool eager;   /* The read is to be looked at, whether or not the file has changed. */
    bool at_tip;  /* The last answer said so. */
    ks_instant asked_at;
    uint32_t want_records;
    uint32_t want_bytes;
    void (*answered)(void *arg, const struct ks_read_answer *answer);
    void *arg;

    struct ks_link task; /* In the job's. */
    enum step step;
    bool forced; /* For this job: look even if the file has not changed. */
    bool
        reads; /* For this job: a read is in flight, which may begin the clock of a played stream. */
    bool looked;
    uint32_t records_max;
    uint32_t bytes_max;
    struct ks_local_cursor cursor;
    struct ks_local_look look;
    struct ks_block *block;
    struct ks_batch batch;
    ks_err err;
    struct ks_detail detail;
};

/* One job: what waited when it was made. */
struct work {
    struct ks_job job;
    struct ks_local_db *db;
    struct ks_link puts;
    struct ks_link calls;
    struct ks_link tasks;
    bool trim;
    bool raises;      /* The clock of this machine is behind `least_ms`: the file must know. */
    int64_t least_ms; /* Nothing that is put from now on arrives before. */
    int64_t now_ms;
    int64_t version; /* data_version, as seen before the looks. */
    bool more_trim;
    struct ks_local_play play; /* Not touched elsewhere while the job is under way. */
    ks_err err;                /* Of the file itself: the first thing that went wrong with it. */
    struct ks_detail detail;
};

struct source {
    struct ks_stream_source port;
    struct ks_loop *loop;
    struct ks_job_queue *queue;
    struct ks_local_db *db;
    struct ks_link readers;
    struct ks_link puts;
    struct ks_link calls;
    size_t put_bytes; /* Of queued puts. */
    struct ks_timer timer;
    ks_instant trim_at;
    int64_t arrival_ms; /* The latest arrival that is known of. */
    int64_t given_ms;   /* The stream's clock, as it was given last. */
    int64_t raised_ms;  /* As the file knows. */
    bool behind;  /* The clock of this machine is behind `given_ms`, and the file does not know. */
    bool busy;    /* `work` is under way, or its answers are being told. */
    bool closing; /* The source goes when `work` is back. */
    struct work work;
    enum ks_store_state state;
    struct ks_detail detail;
    struct call spares[SPARES];
};

static struct source *of_port(struct ks_stream_source *port)
{
    return (struct source *)(void *)port;
}

/* --- On the thread of the queue --- */

/* Failures of the file, not of the question, and not of our memory. */
static bool is_about_file(ks_err err)
{
    return !ks_ok(err) && !ks_err_is(err, KS_ERR_NOT_FOUND) && !ks_err_is(err, KS_ERR_INVALID) &&
           ks_err_class(err) != KS_CLASS_SHED;
}

static void note(struct work *work, ks_err err, const struct ks_detail *detail)
{
    if (!is_about_file(err) || !ks_ok(work->err))
        return;
    work->err = err;
    work->detail = *detail;
}

static void run_puts(struct work *work)
{
    if (ks_list_empty(&work->puts))
        return;
    ks_local_put_write(work->db, &work->puts,
                       work->now_ms > work->least_ms ? work->now_ms : work->least_ms);
    struct ks_local_put *put = KS_LIST_ENTRY(work->puts.next, struct ks_local_put, link);
    note(work, put->err, &put->detail);
}

static void run_calls(struct work *work)
{
    struct ks_link *cursor;
    struct ks_link *after;

    KS_LIST_EACH(cursor, after, &work->calls)
    {
        struct call *call = KS_LIST_ENTRY(cursor, struct call, link);
        if (call->kind == CALL_LIST && ks_ok(call->err)) {
            call->err = ks_shards_list(work->db, call->since_ms, &call->shards, &call->count,
                                       &call->detail);
            note(work, call->err, &call->detail);
        }
    }
}

static void run_task(struct work *work, struct ks_reader *reader, bool changed)
{
    reader->err = KS_OK;
    reader->looked = false;
    if (reader->step == STEP_FILL) {
        reader->err = ks_local_fill(work->db, &reader->cursor, &reader->look, reader->block,
                                    &reader->batch, &reader->detail);
    } else if (reader->forced || changed) {
        reader->looked = true;
        reader->err = ks_local_play_look(work->db, &work->play, reader->reads, &reader->cursor,
                                         reader->records_max, reader->bytes_max, work->now_ms,
                                         &reader->look, &reader->detail);
    }
    note(work, reader->err, &reader->detail);
}

static void run_work(struct ks_job *job)
{
    struct work *work = KS_LIST_ENTRY(job, struct work, job);
    struct ks_link *cursor;
    struct ks_link *after;
    int64_t version = work->version;
    bool changed = !ks_list_empty(&work->puts);
    ks_err err;

    work->err = KS_OK;
    work->now_ms = ks_wall_now().ms;
    if (work->raises) {
        err = ks_shards_raise(work->db, work->least_ms, &work->detail);
        note(work, err, &work->detail);
        work->raises = ks_ok(err);
    }
    run_puts(work);
    run_calls(work);
    /* What is there is still read, but records that others put are not seen any more. */
    err = ks_local_db_check_place(work->db, &work->detail);
    note(work, err, &work->detail);
    /* Before the looks: what changes during them is seen next time. Our own commits do not count. */
    err = ks_local_db_ask(work->db, KS_LOCAL_DATA_VERSION, NULL, 0, &version, &work->detail);
    note(work, err, &work->detail);
    changed = changed || version != work->version || !ks_ok(err);
    work->version = version;
    KS_LIST_EACH(cursor, after, &work->tasks)
    run_task(work, KS_LIST_ENTRY(cursor, struct ks_reader, task), changed);
    if (work->trim) {
        err = ks_shards_trim(work->db, work->now_ms, KS_LOCAL_TRIM_RECORDS, &work->more_trim,
                             &work->detail);
        note(work, err, &work->detail);
    }
}

/* --- Work, back on the loop --- */

static void finish_work(struct ks_job *job);

static void move_all(struct ks_link *from, struct ks_link *to)
{
    while (!ks_list_empty(from)) {
        struct ks_link *link = from->next;
        ks_list_remove(link);
        ks_list_append(to, link);
    }
}

/* When the record that a reader of a played stream waits for is there; KS_NEVER: it waits for none. */
static ks_instant due_of(const struct source *source, const struct ks_reader *reader)
{
    if (!source->work.play.begun || !reader->waiting || reader->look.next_ms == 0)
        return KS_NEVER;
    return ks_local_play_due(&source->work.play, reader->look.next_ms);
}

/* Gives the job every reader that waits. */
static void take_readers(struct source *source)
{
    struct ks_link *cursor;
    struct ks_link *after;

    KS_LIST_EACH(cursor, after, &source->readers)
    {
        struct ks_reader *reader = KS_LIST_ENTRY(cursor, struct ks_reader, link);
        if (!reader->waiting && !reader->eager)
            continue;
        reader->working = true;
        reader->forced =
            reader->eager || ks_instant_reached(ks_loop_now(source->loop), due_of(source, reader));
        reader->reads = reader->waiting;
        reader->records_max = reader->want_records;
        reader->bytes_max = reader->want_bytes;
        reader->eager = false;
        ks_list_append(&source->work.tasks, &reader->task);
    }
}

static void begin_work(struct source *source)
{
    struct work *work = &source->work;
    ks_instant now = ks_loop_now(source->loop);

    assert(!source->busy);
    ks_loop_timer_clear(source->loop, &source->timer);
    move_all(&source->puts, &work->puts);
    source->put_bytes = 0;
    move_all(&source->calls, &work->calls);
    take_readers(source);
    work->trim = ks_instant_reached(now, source->trim_at);
    work->more_trim = false;
    work->least_ms = source->given_ms;
    work->raises = source->behind;
    source->behind = false;
    work->job.run = run_work;
    work->job.done = finish_work;
    source->busy = true;
    ks_loop_submit_to(source->loop, source->queue, &work->job);
}

static bool somebody(const struct source *source, bool *ret_eager, ks_instant *ret_due)
{
    struct ks_link *cursor;
    struct ks_link *after;
    bool waiting = false;

    *ret_eager = false;
    *ret_due = KS_NEVER;
    KS_LIST_EACH(cursor, after, &source->readers)
    {
        const struct ks_reader *reader = KS_LIST_ENTRY(cursor, struct ks_reader, link);
        waiting = waiting || reader->waiting;
        *ret_eager = *ret_eager || reader->eager;
        *ret_due = ks_instant_min(*ret_due, due_of(source, reader));
    }
    return waiting;
}

/* Begins a job now if something cannot wait, else sets the timer for the next one. */
static void go_on(struct source *source)
{
    ks_instant now = ks_loop_now(source->loop);
    ks_instant played;
    bool eager = false;

    if (source->busy)
        return;
    bool waiting = somebody(source, &eager, &played);
    if (eager || source->behind || !ks_list_empty(&source->puts) ||
        !ks_list_empty(&source->calls)) {
        begin_work(source);
        return;
    }
    ks_instant due = ks_instant_min(source->trim_at, played);
    if (waiting)
        due = ks_instant_min(due, ks_instant_add(now, ks_span_ms(KS_LOCAL_POLL_MS)));
    ks_loop_timer_set(source->loop, &source->timer, due);
}

static void timer_due(struct ks_timer *timer)
{
    struct source *source = KS_LIST_ENTRY(timer, struct source, timer);

    if (!source->busy)
        begin_work(source);
}

/* --- Answers --- */

static void free_reader(struct ks_reader *reader)
{
    ks_block_drop(reader->block);
    ks_list_remove(&reader->link);
    ks_free(reader);
}

static void answer_read(struct ks_reader *reader, const struct ks_read_answer *answer)
{
    assert(reader->waiting);
    reader->waiting = false;
    reader->step = STEP_LOOK;
    reader->answered(reader->arg, answer);
}

static void answer_failed(struct ks_reader *reader, ks_err err)
{
    struct ks_read_answer answer = {.err = err, .detail = reader->detail};

    ks_block_drop(reader->block);
    reader->block = NULL;
    answer_read(reader, &answer);
}

/* A batch as the look saw it, with the records of the fill if there was one. */
static void answer_batch(struct ks_reader *reader)
{
    struct ks_read_answer answer = {.err = KS_OK, .batch = reader->batch};

    answer.batch.millis_behind = reader->look.millis_behind;
    answer.batch.at_end = reader->look.at_end;
    answer.batch.expired = reader->look.expired;
    reader->look.expired = (struct ks_expired){.found = false};
    memcpy(answer.batch.children, reader->look.children, sizeof(answer.batch.children));
    reader->at_tip = reader->look.millis_behind == 0;
    reader->block = NULL;
    reader->batch = (struct ks_batch){.block = NULL};
    answer_read(reader, &answer);
}

/* Records are there: makes room for them, which the next job fills. */
static void make_room(struct ks_reader *reader)
{
    ks_err err = ks_block_new(reader->budget, reader->look.block_bytes, &reader->block);

    if (!ks_ok(err)) {
        ks_detail_set(&reader->detail, "no room for %zu bytes of records in the memory budget",
                      reader->look.block_bytes);
        answer_failed(reader, err);
        return;
    }
    reader->step = STEP_FILL;
    reader->eager = true;
}

static void finish_task(struct source *source, struct ks_reader *reader)
{
    ks_instant held = ks_instant_add(reader->asked_at, ks_span_ms(KS_LOCAL_HOLD_MS));

    reader->working = false;
    if (reader->closed) {
        free_reader(reader);
        return;
    }
    /* A reader that only had its place found. */
    if (!reader->waiting)
        return;
    if (!ks_ok(reader->err)) {
        answer_failed(reader, reader->err);
        return;
    }
    if (reader->step == STEP_FILL) {
        answer_batch(reader);
        return;
    }
    if (reader->looked && reader->look.count > 0) {
        make_room(reader);
        return;
    }
    bool tell =
        reader->looked && (reader->look.at_end || reader->look.expired.found || !reader->at_tip);
    if (tell || ks_instant_reached(ks_loop_now(source->loop), held))
        answer_batch(reader);
}

static void answer_put(struct ks_local_put *put)
{
    struct ks_put_answer answer = {.err = put->err, .detail = put->detail};

    if (ks_ok(put->err)) {
        answer.results = put->results;
        answer.count = put->count;
        ks_metric_add(KS_METRIC_RECORDS_PUT, put->count);
    }
    put->answered(put->arg, &answer);
}

static void answer_describe(struct source *source, struct call *call)
{
    struct ks_describe_answer answer = {.err = call->err, .detail = call->detail};

    answer.created_ms = source->db->created_ms;
    (void)snprintf(answer.stream_arn, sizeof(answer.stream_arn),
                   "arn:aws:kinesis:local:000000000000:stream/%s", source->db->name);
    call->answered.describe(call->arg, &answer);
}

static void answer_call(struct source *source, struct call *call)
{
    struct ks_put_answer put = {.err = call->err, .detail = call->detail};
    struct ks_list_answer list = {
        .err = call->err, .detail = call->detail, .shards = call->shards, .count = call->count};

    switch (call->kind) {
    case CALL_PUT: call->answered.put(call->arg, &put); break;
    case CALL_LIST: call->answered.list(call->arg, &list); break;
    case CALL_DESCRIBE: answer_describe(source, call); break;
    }
}

static void free_call(struct call *call)
{
    ks_free(call->shards);
    if (call->spare)
        *call = (struct call){.spare = true};
    else
        ks_free(call);
}

/* The file answers, or does not: told once for each change. */
static void judge(struct source *source, const struct work *work)
{
    enum ks_store_state was = source->state;

    source->state = KS_STORE_READY;
    if (!ks_ok(work->err))
        source->state = ks_err_is(work->err, KS_ERR_CORRUPT) ? KS_STORE_UNUSABLE : KS_STORE_AWAY;
    if (source->state == KS_STORE_READY)
        ks_detail_set(&source->detail, "%s", "");
    else
        source->detail = work->detail;
    if (was == source->state)
        return;
    if (source->state == KS_STORE_READY)
        ks_info("local stream %s: works again", source->db->path);
    else
        ks_error("%s; asking on", work->detail.text);
}

static void close_source(struct source *source)
{
    struct ks_link *link;

    assert(ks_list_empty(&source->readers));
    ks_loop_timer_clear(source->loop, &source->timer);
    while (!ks_list_empty(&source->puts)) {
        link = source->puts.next;
        ks_list_remove(link);
        ks_free(KS_LIST_ENTRY(link, struct ks_local_put, link));
    }
    while (!ks_list_empty(&source->calls)) {
        struct call *call = KS_LIST_ENTRY(source->calls.next, struct call, link);
        ks_list_remove(&call->link);
        free_call(call);
    }
    ks_loop_queue_close(source->queue);
    ks_local_db_close(source->db);
    ks_free(source);
}

static void finish_work(struct ks_job *job)
{
    struct work *work = KS_LIST_ENTRY(job, struct work, job);
    struct source *source = KS_LIST_ENTRY(work, struct source, work);
    int32_t rest_ms = work->more_trim ? KS_LOCAL_TRIM_MORE_MS : KS_LOCAL_TRIM_MS;

    if (work->trim)
        source->trim_at = ks_instant_add(ks_loop_now(source->loop), ks_span_ms(rest_ms));
    if (work->raises)
        source->raised_ms = work->least_ms;
    if (!ks_list_empty(&work->puts) && work->now_ms > source->arrival_ms)
        source->arrival_ms = work->now_ms;
    judge(source, work);
    /* What is told may ask again, or close readers that are still in these lists: one at a time. */
    while (!ks_list_empty(&work->puts)) {
        struct ks_local_put *put = KS_LIST_ENTRY(work->puts.next, struct ks_local_put, link);
        ks_list_remove(&put->link);
        if (!source->closing)
            answer_put(put);
        ks_free(put);
    }
    while (!ks_list_empty(&work->calls)) {
        struct call *call = KS_LIST_ENTRY(work->calls.next, struct call, link);
        ks_list_remove(&call->link);
        if (!source->closing)
            answer_call(source, call);
        free_call(call);
    }
    while (!ks_list_empty(&work->tasks)) {
        struct ks_reader *reader = KS_LIST_ENTRY(work->tasks.next, struct ks_reader, task);
        ks_list_remove(&reader->task);
        finish_task(source, reader);
    }
    source->busy = false;
    if (source->closing)
        close_source(source);
    else
        go_on(source);
}

/* --- The port --- */

static struct call *spare_call(struct source *source)
{
    for (uint32_t at = 0; at < SPARES; at++) {
        if (!source->spares[at].taken) {
            source->spares[at].taken = true;
            source->spares[at].spare = true;
            return &source->spares[at];
        }
    }
    return NULL;
}

/* A call of this kind; without memory one that says so. */
static struct call *new_call(struct source *source, enum call_kind kind, void *arg)
{
    struct call *call = ks_alloc(sizeof(*call));

    if (call == NULL) {
        call = spare_call(source);
        /* Each needs a request in memory of whoever asked; so many at once there are not. */
        assert(call != NULL);
        call->err = KS_FAIL(NO_MEMORY);
    }
    call->kind = kind;
    call->arg = arg;
    ks_list_append(&source->calls, &call->link);
    return call;
}

static void source_describe(struct ks_stream_source *port,
                            void (*answered)(void *arg, const struct ks_describe_answer *answer),
                            void *arg)
{
    struct source *source = of_port(port);

    new_call(source, CALL_DESCRIBE, arg)->answered.describe = answered;
    go_on(source);
}

static void source_list(struct ks_stream_source *port, int64_t since_ms,
                        void (*answered)(void *arg, const struct ks_list_answer *answer), void *arg)
{
    struct source *source = of_port(port);
    struct call *call = new_call(source, CALL_LIST, arg);

    call->answered.list = answered;
    call->since_ms = since_ms;
    go_on(source);
}

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
    reader->want_records = 1;
    reader->want_bytes = 1;
    reader->cursor.from = *from;
    /* A name that is too long is a shard that does not exist; the first read says so. */
    (void)snprintf(reader->cursor.shard, sizeof(reader->cursor.shard), "%s", shard);
    ks_link_init(&reader->task);
    ks_list_append(&source->readers, &reader->link);
    /* The tip is where it is now, not where it will be when somebody reads. */
    reader->eager = from->kind == KS_POSITION_LATEST;
    *ret_reader = reader;
    if (reader->eager)
        go_on(source);
    return KS_OK;
}

static void source_read(struct ks_reader *reader, uint32_t max_records, uint32_t max_bytes,
                        void (*answered)(void *arg, const struct ks_read_answer *answer), void *arg)
{
    assert(!reader->waiting);
    assert(!reader->closed);
    reader->answered = answered;
    reader->arg = arg;
    reader->waiting = true;
    reader->eager = true;
    reader->asked_at = ks_loop_now(reader->source->loop);
    reader->want_records = max_records;
    reader->want_bytes = max_bytes;
    go_on(reader->source);
}

static void source_close_reader(struct ks_reader *reader)
{
    assert(!reader->closed);
    reader->closed = true;
    reader->waiting = false;
    if (!reader->working) {
        free_reader(reader);
        return;
    }
    /* The job still writes into the block; the budget is its owner's again. */
    if (reader->block != NULL)
        ks_block_discharge(reader->block);
}

/* After each arrival that is known of, and never before what it gave already. The file keeps that for the puts of other
 * processes as soon as the clock of this machine falls behind it. */
static int64_t source_now_ms(struct ks_stream_source *port)
{
    struct source *source = of_port(port);
    int64_t now_ms = ks_wall_now().ms;

    if (source->db->slice)
        return now_ms; /* Nothing is put into it. */
    if (now_ms <= source->arrival_ms)
        now_ms = source->arrival_ms + 1;
    if (now_ms > source->given_ms)
        source->given_ms = now_ms;
    source->behind = ks_wall_now().ms < source->given_ms && source->raised_ms < source->given_ms;
    if (source->behind)
        go_on(source);
    return source->given_ms;
}

static int64_t source_retention_ms(struct ks_stream_source *port)
{
    return of_port(port)->db->retention_ms;
}

static void source_put(struct ks_stream_source *port, const struct ks_put_entry *entries,
                       uint32_t count,
                       void (*answered)(void *arg, const struct ks_put_answer *answer), void *arg)
{
    struct source *source = of_port(port);
    struct ks_local_put *put = NULL;
    struct ks_detail detail = {.text = ""};
    ks_err err = KS_FAIL(FULL);

    if (source->db->slice) {
        ks_detail_set(&detail,
                      "local stream %s: it is a captured slice, which takes no records; put them "
                      "into another file",
                      source->db->path);
        err = KS_FAIL(INVALID);
    } else if (source->put_bytes < KS_LOCAL_PUT_QUEUE_BYTES_MAX)
        err = ks_local_put_new(entries, count, &put, &detail);
    else
        ks_detail_set(&detail, "local stream %s: too many puts wait for the disk",
                      source->db->path);
    if (ks_ok(err)) {
        put->answered = answered;
        put->arg = arg;
        source->put_bytes += put->bytes;
        ks_list_append(&source->puts, &put->link);
    } else {
        struct call *call = new_call(source, CALL_PUT, arg);
        call->answered.put = answered;
        call->err = err;
        call->detail = detail;
    }
    go_on(source);
}

static enum ks_store_state source_state(const struct ks_stream_source *port,
                                        struct ks_detail *ret_detail)
{
    const struct source *source = (const struct source *)(const void *)port;

    if (ret_detail != NULL)
        *ret_detail = source->detail;
    return source->state;
}

static void source_close(struct ks_stream_source *port)
{
    struct source *source = of_port(port);

    source->closing = true;
    if (!source->busy)
        close_source(source);
}

static const struct ks_stream_source_vtable VTABLE = {
    .describe = source_describe,
    .list = source_list,
    .open = source_open,
    .read = source_read,
    .close_reader = source_close_reader,
    .now_ms = source_now_ms,
    .retention_ms = source_retention_ms,
    .put = source_put,
    .state = source_state,
    .close = source_close,
};

/* --- Birth --- */

/* The number of shards that was asked for is only for a stream that is made. */
static void warn_of_shards(struct ks_local_db *db, uint32_t shards)
{
    struct ks_shard_row_local *rows = NULL;
    uint32_t count = 0;

    if (db->slice || db->made_shards == shards ||
        !ks_ok(ks_shards_load(db, true, &rows, &count, NULL)))
        return;
    ks_free(rows);
    if (count != shards)
        ks_warn("local stream %s: %s has %u open shards; %u were asked for, which only counts when "
                "it is made",
                db->path, db->name, count, shards);
}

ks_err ks_local_source_open_with(struct ks_loop *loop, const char *path, const char *stream,
                                 const struct ks_local_options *options,
                                 struct ks_stream_source **ret_source, struct ks_detail *detail)
{
    const uint32_t shards = options->shards;
    struct source *source = ks_alloc(sizeof(*source));

    if (source == NULL)
        return KS_FAIL(NO_MEMORY);
    ks_err err = ks_local_db_open(path, stream, shards, &source->db, detail);
    if (ks_ok(err))
        err = ks_loop_queue_new(loop, &source->queue);
    if (!ks_ok(err)) {
        ks_local_db_close(source->db);
        ks_free(source);
        return err;
    }
    err = ks_shards_last_arrival(source->db, &source->arrival_ms, detail);
    if (!ks_ok(err)) {
        ks_local_db_close(source->db);
        ks_free(source);
        return err;
    }
    warn_of_shards(source->db, shards);
    source->port.vtable = &VTABLE;
    source->loop = loop;
    source->state = KS_STORE_READY;
    source->timer.due = timer_due;
    source->work.db = source->db;
    source->work.play.speed = options->speed;
    /* The first job removes expired records, so that no reader gets one that expired while the process was down. */
    source->trim_at = ks_loop_now(loop);
    ks_link_init(&source->readers);
    ks_link_init(&source->puts);
    ks_link_init(&source->calls);
    ks_link_init(&source->work.puts);
    ks_link_init(&source->work.calls);
    ks_link_init(&source->work.tasks);
    go_on(source);
    *ret_source = &source->port;
    return KS_OK;
}
