/* SPDX-License-Identifier: Apache-2.0 */
#include "ports/board.h"

#include "base/budget.h"
#include "base/log.h"
#include "base/metrics.h"

#include <assert.h>
#include <string.h>

/* ---- The store. ---- */

struct ks_board_ask *ks_board_ask_new(struct ks_switchboard *board)
{
    struct ks_board_ask *ask = ks_alloc(sizeof *ask);

    if (ask == NULL)
        return NULL;
    ask->board = board;
    ask->shard = KS_SHARD_NONE;
    ks_list_append(&board->asks, &ask->link);
    return ask;
}

static void ask_free(struct ks_board_ask *ask)
{
    ks_list_remove(&ask->link);
    ks_free(ask);
}

struct ks_switchboard *ks_board_of_ask(struct ks_board_ask *ask)
{
    struct ks_switchboard *board = ask->board;

    ks_list_remove(&ask->link);
    return board == NULL || board->stopped ? NULL : board;
}

void ks_board_free_asks(struct ks_switchboard *board)
{
    while (!ks_list_empty(&board->asks))
        ask_free(KS_LIST_ENTRY(board->asks.next, struct ks_board_ask, link));
}

void ks_board_leave_asks(struct ks_switchboard *board)
{
    if (board->app_ask != NULL)
        ask_free(board->app_ask); /* It was not asked yet. */
    while (!ks_list_empty(&board->asks)) {
        struct ks_board_ask *ask = KS_LIST_ENTRY(board->asks.next, struct ks_board_ask, link);

        ask->board = NULL;
        ks_list_remove(&ask->link);
    }
}

/* It could not even be asked: nobody knows of it, so it is as unknown as any. */
static void unknown_soon(struct ks_switchboard *board, uint64_t token)
{
    ks_board_queue(board, &(struct ks_event){
                              .kind = KS_EVENT_STORE,
                              .store = {.token = token, .outcome = KS_UNKNOWN},
                          });
}

static bool is_read(enum ks_store_operation operation)
{
    return operation < KS_STORE_FIRST_WRITE;
}

/* A state that lasts is said once: by the store, if it is one of the whole store. What is left is
 * said here, for reads and writes apart: a locked database still answers reads. */
static void tell_store(struct ks_switchboard *board, enum ks_store_operation operation,
                       const struct ks_store_answer *answer)
{
    const struct ks_lease_store *store = board->config.store;
    bool *told = is_read(operation) ? &board->reads_failing : &board->writes_failing;
    const char *what = is_read(operation) ? "reads" : "writes";
    bool failing = answer->outcome == KS_UNKNOWN;
    struct ks_detail ignored;

    if (failing == *told || (failing && store->vtable->state(store, &ignored) != KS_STORE_READY))
        return;
    *told = failing;
    if (failing)
        ks_warn("%slease table: %s get no answer (%s), trying again until they do", board->prefix,
                what,
                answer->detail.text[0] != '\0' ? answer->detail.text : ks_err_text(answer->err));
    else
        ks_info("%slease table: %s are answered again", board->prefix, what);
}

static void count(const struct ks_switchboard *board, enum ks_metric metric,
                  enum ks_store_operation operation)
{
    ks_metric_add_pair(metric, board->config.subscription, ks_store_operation_name(operation), 1);
}

static void count_answer(const struct ks_switchboard *board, enum ks_store_operation operation,
                         enum ks_outcome outcome)
{
    if (outcome == KS_REFUSED)
        count(board, KS_METRIC_STORE_REFUSED, operation);
    if (outcome == KS_UNKNOWN)
        count(board, KS_METRIC_STORE_UNKNOWN, operation);
}

static bool writes_lease(enum ks_store_operation operation)
{
    return operation >= KS_STORE_CREATE;
}

/* What a write that was done means for what we know. */
static void keep_written(struct ks_switchboard *board, const struct ks_board_ask *ask)
{
    if (ask->operation == KS_STORE_CREATE_APP)
        board->rows.app = board->app;
    if (writes_lease(ask->operation))
        ks_rows_wrote(&board->rows, ask->operation, ask->shard, ask->epoch, ask->rev,
                      ask->has_checkpoint ? &ask->checkpoint : NULL, ask->whom, ks_wall_now());
    if (ask->operation == KS_STORE_CHECKPOINT ||
        (ask->has_checkpoint && writes_lease(ask->operation) && ask->operation != KS_STORE_CREATE))
        ks_metric_add_labelled(KS_METRIC_CHECKPOINTS, board->config.subscription, 1);
}

static bool differs(int64_t a_ms, int64_t b_ms)
{
    enum { ROUNDING_MS = 1000 }; /* Some servers tell whole seconds. */

    uint64_t apart =
        a_ms > b_ms ? (uint64_t)a_ms - (uint64_t)b_ms : (uint64_t)b_ms - (uint64_t)a_ms;

    return a_ms != 0 && b_ms != 0 && apart > ROUNDING_MS;
}

/* The application belongs to one stream: its checkpoints mean nothing in another. */
static void check_stream(struct ks_switchboard *board)
{
    const struct ks_store_app *app = &board->rows.app;

    if (board->rows.misfit.text[0] != '\0')
        ks_board_refuse(board, "%s", board->rows.misfit.text);
    if (!board->described || !app->present)
        return;
    if (app->stream_arn[0] != '\0' && board->stream.stream_arn[0] != '\0' &&
        strcmp(app->stream_arn, board->stream.stream_arn) != 0)
        ks_board_refuse(
            board, "application %.40s reads another stream (%.60s); choose another --application",
            board->config.application, app->stream_arn);
    else if (differs(app->stream_created_ms, board->stream.created_ms))
        ks_board_refuse(board,
                        "stream %.30s was made anew since application %.30s began; choose "
                        "another --application or remove its lease rows",
                        board->config.stream, board->config.application);
}

static void store_answered(void *arg, uint64_t token, const struct ks_store_answer *answer)
{
    struct ks_board_ask *ask = arg;
    struct ks_switchboard *board = ks_board_of_ask(ask);
    struct ks_event event = {.kind = KS_EVENT_STORE};

    (void)token;
    if (board == NULL) {
        ks_free(ask);
        return;
    }

    tell_store(board, ask->operation, answer);
    /* A table of others: whatever is written there harms them, or us. */
    if (answer->outcome == KS_UNKNOWN && ks_err_is(answer->err, KS_ERR_FOREIGN))
        ks_board_refuse(board, "the lease table is %s", answer->detail.text);
    count_answer(ask->board, ask->operation, answer->outcome);
    if (answer->outcome == KS_DONE)
        keep_written(board, ask);
    board->rows.mixed.took = ks_instant_since(ks_board_now(board), ask->sent_at);
    board->rows.stream_ms = ks_board_stream_ms(board);
    ks_rows_answered(&board->rows, ask->operation, ask->consistent, answer, ks_board_now(board),
                     ask->asked_at, &event);
    event.store.token = ask->token;
    ks_free(ask);
    check_stream(board);
    ks_board_step(board, &event);
}

static void send_to_store(struct ks_switchboard *board, struct ks_board_ask *ask,
                          struct ks_store_request *request)
{
    request->timeout = board->config.core.timeout;
    request->answered = store_answered;
    request->arg = ask;
    request->token = ask->token;
    ask->asked_at = ks_wall_now();
    ask->sent_at = ks_board_now(board);
    count(board, KS_METRIC_STORE_REQUESTS, ask->operation);
    board->config.store->vtable->ask(board->config.store, request);
}

/* The app row is written with what the stream is, so the stream is asked first. */
static void create_app(struct ks_switchboard *board, struct ks_board_ask *ask)
{
    struct ks_store_request request = {.operation = KS_STORE_CREATE_APP, .app = &board->app};

    board->app = (struct ks_store_app){.present = true, .start = board->config.start};
    if (board->app.start.kind == KS_POSITION_LATEST) {
        board->app.start.kind = KS_POSITION_AT_TIMESTAMP;
        board->app.start.timestamp_ms = board->began_ms;
    }
    if (board->app.start.kind == KS_POSITION_AT_TIMESTAMP && board->app.start.timestamp_ms <= 0) {
        unknown_soon(board, ask->token); /* The stream has not said what time it is. */
        ask_free(ask);
        return;
    }
    memcpy(board->app.stream_arn, board->stream.stream_arn, sizeof board->app.stream_arn);
    board->app.stream_created_ms = board->stream.created_ms;
    send_to_store(board, ask, &request);
}

/* Whom a write gives the lease to. */
static struct ks_incarnation whom(const struct ks_switchboard *board,
                                  const struct ks_store_effect *effect)
{
    bool given = effect->operation == KS_STORE_ASSIGN || effect->operation == KS_STORE_TAKE_OVER ||
                 effect->operation == KS_STORE_FORCE || effect->operation == KS_STORE_SEEK;

    if (effect->operation == KS_STORE_PLAN ||
        (effect->operation == KS_STORE_FINAL && !board->rows.foreign))
        return effect->next_owner;
    return given ? effect->worker : KS_NOBODY;
}

/* True if the rows may be asked for: what a foreign table calls LATEST is counted from an instant of the stream's
 * clock, which is known once the stream has answered. */
static bool is_dated(const struct ks_switchboard *board)
{
    return board->began_ms > 0 || !board->rows.foreign;
}

void ks_board_date(struct ks_switchboard *board)
{
    if (board->began_ms > 0)
        return;
    board->began_ms = ks_board_stream_ms(board);
    if (board->began_ms > 0 && board->rows.foreign)
        ks_rows_date(&board->rows, board->began_ms);
}

void ks_board_ask_store(struct ks_switchboard *board, const struct ks_store_effect *effect)
{
    struct ks_store_request request;
    struct ks_board_ask *ask = ks_board_ask_new(board);

    if (ask == NULL) {
        unknown_soon(board, effect->token);
        return;
    }
    if (!is_dated(board)) {
        unknown_soon(board, effect->token);
        ask_free(ask);
        return;
    }
    ask->operation = effect->operation;
    ask->consistent = effect->consistent;
    ask->token = effect->token;
    ask->shard = effect->shard;
    ask->epoch = effect->epoch;
    ask->rev = effect->rev;
    ask->whom = whom(board, effect);

    if (effect->operation == KS_STORE_CREATE_APP) {
        /* A worker that was registered anew asks again before the stream was described. */
        if (board->app_ask != NULL) {
            unknown_soon(board, board->app_ask->token);
            ask_free(board->app_ask);
            board->app_ask = NULL;
        }
        if (board->described)
            create_app(board, ask);
        else
            board->app_ask = ask;
        return;
    }
    if (!ks_rows_request(&board->rows, effect, &request)) {
        unknown_soon(board, effect->token);
        ask_free(ask);
        return;
    }
    request.version = board->config.version;
    request.cpu = board->cpu;
    request.cpu_count = board->cpu_count;
    ask->has_checkpoint = request.has_checkpoint || request.operation == KS_STORE_CREATE;
    ask->checkpoint = request.lease != NULL ? request.lease->checkpoint : request.checkpoint;
    send_to_store(board, ask, &request);
}

/* ---- The lease rows, for people. ---- */

/* Nobody needs them fresher, and of a large fleet they are megabytes. */
static const ks_span look_every = {INT64_C(5) * 1000 * 1000};

static void looked(void *arg, uint64_t token, const struct ks_store_answer *answer)
{
    struct ks_board_ask *ask = arg;
    struct ks_switchboard *board = ks_board_of_ask(ask);
    const ks_wall asked_at = ask->asked_at;
    const ks_instant sent_at = ask->sent_at;
    struct ks_event ignored;

    (void)token;
    ks_free(ask);
    if (board == NULL)
        return;
    board->looking = false;
    if (answer->outcome == KS_DONE) {
        board->looked_at = ks_board_now(board);
        board->rows.mixed.took = ks_instant_since(board->looked_at, sent_at);
        board->rows.stream_ms = ks_board_stream_ms(board);
        ks_rows_answered(&board->rows, KS_STORE_READ_LEASES, false, answer, board->looked_at,
                         asked_at, &ignored);
    }
    while (!ks_list_empty(&board->looks)) {
        struct ks_look *look = KS_LIST_ENTRY(board->looks.next, struct ks_look, link);

        ks_list_remove(&look->link);
        look->done(look);
    }
}

void ks_board_look_at_rows(struct ks_switchboard *board)
{
    struct ks_store_request request = {.operation = KS_STORE_READ_LEASES};
    struct ks_board_ask *ask = board->looking ? NULL : ks_board_ask_new(board);

    if (ask == NULL)
        return;
    board->looking = true;
    request.timeout = board->config.core.timeout;
    request.answered = looked;
    request.arg = ask;
    ask->asked_at = ks_wall_now();
    ask->sent_at = ks_board_now(board);
    count(board, KS_METRIC_STORE_REQUESTS, request.operation);
    board->config.store->vtable->ask(board->config.store, &request);
}

bool ks_board_has_looked(const struct ks_switchboard *board)
{
    return ks_instant_before(KS_LONG_AGO, ks_instant_max(board->looked_at, board->rows.looked_at));
}

bool ks_switchboard_fresh(struct ks_switchboard *board, struct ks_look *look)
{
    ks_instant now = ks_board_now(board);
    struct ks_self_view self;

    ks_core_self(board->core, &self);
    if ((self.leads && ks_board_has_looked(board)) ||
        ks_instant_before(now, ks_instant_add(board->looked_at, look_every)))
        return true;
    ks_board_look_at_rows(board);
    if (!board->looking)
        return true; /* What there is must do. */
    ks_list_append(&board->looks, &look->link);
    return false;
}

void ks_switchboard_forget_look(struct ks_look *look)
{
    ks_list_remove(&look->link);
}

/* ---- The lock. ---- */

static void locked(void *arg, uint64_t boot, ks_err err)
{
    struct ks_switchboard *board = arg;
    struct ks_event event = {.kind = KS_EVENT_LOCKED, .locked = {.boot = boot, .ok = ks_ok(err)}};

    if (board->stopped)
        return;
    if (!ks_ok(err) && !board->lock_failing)
        ks_warn("%s%s: its lock file cannot be written (%s), not registering until it can",
                board->prefix, board->config.worker_id, ks_err_text(err));
    board->lock_failing = !ks_ok(err);
    ks_board_step(board, &event);
}

void ks_board_lock(struct ks_switchboard *board, uint64_t boot)
{
    struct ks_worker_lock *lock = board->config.lock;

    assert(lock != NULL);
    lock->vtable->write(lock, boot, locked, board);
}

/* ---- The stream: who it is. ---- */

static void describe_due(struct ks_timer *timer)
{
    ks_board_describe(KS_LIST_ENTRY(timer, struct ks_switchboard, describe_timer));
}

static void describe_later(struct ks_switchboard *board)
{
    enum { FIRST_MS = 500, DOUBLINGS_MAX = 3 }; /* 0.5 s .. 4 s */
    uint32_t doublings =
        board->describe_failures < DOUBLINGS_MAX ? board->describe_failures : DOUBLINGS_MAX;

    board->describe_failures++;
    board->describe_timer.due = describe_due;
    ks_loop_timer_set(board->config.loop, &board->describe_timer,
                      ks_instant_add(ks_board_now(board), ks_span_ms(FIRST_MS << doublings)));
}

static void described(void *arg, const struct ks_describe_answer *answer)
{
    struct ks_board_ask *ask = arg;
    struct ks_switchboard *board = ks_board_of_ask(ask);
    struct ks_board_ask *app_ask;

    ks_free(ask);
    if (board == NULL)
        return;
    board->describing = false;
    app_ask = board->app_ask;
    board->app_ask = NULL;

    if (ks_ok(answer->err)) {
        board->described = true;
        board->describe_failures = 0;
        board->stream = *answer;
        ks_rows_described(&board->rows, answer);
        check_stream(board);
        if (!is_dated(board)) {
            ks_board_date(board);
            ks_board_step(board, &(struct ks_event){.kind = KS_EVENT_CHANGED});
        }
        ks_board_date(board);
        if (app_ask != NULL)
            create_app(board, app_ask);
        return;
    }

    describe_later(board);
    if (app_ask != NULL) {
        unknown_soon(board, app_ask->token);
        ask_free(app_ask);
    }
}

void ks_board_describe(struct ks_switchboard *board)
{
    struct ks_board_ask *ask;

    if (board->describing)
        return;
    ask = ks_board_ask_new(board);
    if (ask == NULL) {
        describe_later(board);
        return;
    }
    board->describing = true;
    board->config.source->vtable->describe(board->config.source, described, ask);
}

void ks_board_doubt_stream(struct ks_switchboard *board)
{
    if (!board->described)
        return; /* It is being asked already. */
    board->described = false;
    ks_board_describe(board);
}

/* ---- The stream: its shards. ---- */

static void listed(void *arg, const struct ks_list_answer *answer)
{
    struct ks_board_ask *ask = arg;
    struct ks_switchboard *board = ks_board_of_ask(ask);
    struct ks_event event = {.kind = KS_EVENT_LISTED};

    ks_free(ask);
    if (board == NULL)
        return;

    /* Why it failed is the source's to say; the core asks again. */
    if (ks_ok(answer->err))
        ks_rows_listed(&board->rows, answer, ks_board_now(board), &event);
    ks_board_step(board, &event);
}

void ks_board_ask_list(struct ks_switchboard *board)
{
    /* Only the app row says from when on shards count; it is read before long. */
    struct ks_board_ask *ask =
        board->rows.app.present && is_dated(board) ? ks_board_ask_new(board) : NULL;

    if (ask == NULL) {
        ks_board_queue(board, &(struct ks_event){.kind = KS_EVENT_LISTED});
        return;
    }
    board->config.source->vtable->list(board->config.source, ks_rows_since(&board->rows), listed,
                                       ask);
}

/* ---- The stream: is a shard still there? ---- */

static void checked(void *arg, const struct ks_list_answer *answer)
{
    struct ks_board_ask *ask = arg;
    struct ks_switchboard *board = ks_board_of_ask(ask);
    ks_shard shard = ask->shard;
    ks_epoch epoch = ask->epoch;
    bool gone = ks_ok(answer->err);

    ks_free(ask);
    if (board == NULL)
        return;
    board->checking = false;
    for (uint32_t i = 0; i < answer->count && gone; i++)
        gone = strcmp(answer->shards[i].shard, ks_names_text(&board->rows.shards, shard)) != 0;
    ks_board_shard_checked(board, shard, epoch, gone);
}

bool ks_board_check_shard(struct ks_switchboard *board, ks_shard shard, ks_epoch epoch)
{
    struct ks_board_ask *ask = board->checking ? NULL : ks_board_ask_new(board);

    if (ask == NULL)
        return false;
    board->checking = true;
    ask->shard = shard;
    ask->epoch = epoch;
    board->config.source->vtable->list(board->config.source, 0, checked, ask);
    return true;
}
