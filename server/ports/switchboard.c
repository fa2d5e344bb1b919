/* SPDX-License-Identifier: Apache-2.0 */
#include "ports/switchboard.h"

#include "base/budget.h"
#include "base/digest.h"
#include "base/log.h"
#include "base/metrics.h"
#include "core/tracker.h"
#include "ports/board.h"
#include "ports/story.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

/* Gauges are for people and scrapes of every few seconds. */
static const ks_span measure_every = {INT64_C(1000) * 1000};

/* ---- Steps. ---- */

static void tell_story(struct ks_switchboard *board, const struct ks_effect *effect)
{
    enum ks_story story = effect->story.story;
    ks_shard shard = effect->story.shard;
    char line[KS_STORY_LINE_MAX];

    ks_story_line(effect, ks_names_text(&board->rows.shards, shard),
                  ks_names_text(&board->rows.workers, effect->story.worker.worker),
                  ks_board_record(board, shard, effect->story.epoch, effect->story.number), line);
    ks_log(ks_story_level(story), "%s%s", board->prefix, line);

    if (story == KS_STORY_ACQUIRED)
        ks_metric_add_labelled(KS_METRIC_LEASES_ACQUIRED, board->config.subscription, 1);
    if (story == KS_STORY_LOST)
        ks_metric_add_labelled(KS_METRIC_LEASES_LOST, board->config.subscription, 1);
    if (story == KS_STORY_DROPPED)
        ks_metric_add_labelled(KS_METRIC_RECORDS_DROPPED, board->config.subscription,
                               effect->story.count);
    if (story == KS_STORY_DRAINING)
        ks_board_returning(board, KS_SHARD_NONE, board->patience);
    if (story == KS_STORY_RETURNING && !board->draining)
        ks_board_returning(board, shard, board->config.core.hand_over);
    if (ks_rows_words(&board->rows, shard) != NULL)
        ks_story_keep(&ks_rows_words(&board->rows, shard)->story, effect);
    if (ks_story_event(story) != NULL)
        ks_board_tell_event(board, ks_story_event(story), shard, effect->story.epoch, line);
}

static void take_run(struct ks_switchboard *board, const struct ks_effect *effect)
{
    assert(board->run_count < board->run_max);

    board->runs[board->run_count++] = (struct ks_run){
        .shard = effect->deliver.shard,
        .epoch = effect->deliver.epoch,
        .first = effect->deliver.first,
        .count = effect->deliver.count,
        .attempt = effect->deliver.attempt,
        .bytes = effect->deliver.bytes,
        .assignment = effect->deliver.assignment,
    };
}

static void refuse_id(struct ks_switchboard *board, struct ks_incarnation other)
{
    ks_board_refuse(board,
                    "worker id %s is alive elsewhere under boot %016" PRIx64
                    "; stop that process or choose another --worker-id",
                    board->config.worker_id, other.boot);
}

static void perform(struct ks_switchboard *board, const struct ks_effect *effect)
{
    switch (effect->kind) {
    case KS_EFFECT_STORE: ks_board_ask_store(board, &effect->store); break;
    case KS_EFFECT_LIST: ks_board_ask_list(board); break;
    case KS_EFFECT_OPEN: ks_board_open(board, effect->lease.shard, effect->lease.epoch); break;
    case KS_EFFECT_READ: ks_board_read(board, effect); break;
    case KS_EFFECT_CLOSE: ks_board_close(board, effect->lease.shard); break;
    case KS_EFFECT_FORGET:
        ks_board_forget(board, effect->lease.shard, effect->lease.epoch, effect->lease.number);
        break;
    case KS_EFFECT_DELIVER: take_run(board, effect); break;
    case KS_EFFECT_WAKE: ks_board_wake(board, effect->session.session); break;
    case KS_EFFECT_OPENED:
    case KS_EFFECT_NOT_OPENED:
    case KS_EFFECT_SETTLED:
    case KS_EFFECT_OPERATED: board->said = *effect; break;
    case KS_EFFECT_SESSION_ENDED:
        ks_board_session_ended(board, effect->session.session, effect->session.why);
        break;
    case KS_EFFECT_PERSISTED:
        ks_board_persisted(board, effect->lease.shard, effect->lease.epoch, effect->lease.number);
        break;
    case KS_EFFECT_STORY: tell_story(board, effect); break;
    case KS_EFFECT_DRAINED:
        board->drained = true;
        board->drained_clean = effect->drained.clean;
        board->drained_unsaved = effect->drained.unsaved;
        break;
    case KS_EFFECT_REFUSED: refuse_id(board, effect->refused.worker); break;
    case KS_EFFECT_LOCK: ks_board_lock(board, effect->lock.boot); break;
    case KS_EFFECT_SOUGHT: ks_board_sought(board, effect); break;
    case KS_EFFECT_BURY: ks_board_bury(board, effect); break;
    case KS_EFFECT_LETTER: ks_board_letter(board, effect); break;
    case KS_EFFECT_LETTER_OVER:
        ks_board_letter_over(board, effect->letter.number, effect->letter.remove);
        break;
    }
}

void ks_board_step_at_once(struct ks_switchboard *board, const struct ks_event *event)
{
    assert(!board->stepping);

    board->stepping = true;
    board->effects->count = 0;
    if (board->rows.foreign)
        ks_core_wall(board->core, ks_wall_now().ms * 1000);
    if (board->config.kinship != NULL)
        ks_core_claim(board->core, &board->config.kinship->claim_at);
    ks_core_step(board->core, ks_board_now(board), event, board->effects);
    if (board->config.kinship != NULL)
        ks_core_claim(board->core, &board->config.kinship->claim_at);
    for (uint32_t i = 0; i < board->effects->count; i++)
        perform(board, &board->effects->items[i]);
    board->stepping = false;
    /* Our turn is over already: the loop must not sleep on the deadline that we gave it. */
    if (!board->turning && ks_board_now(board).us == board->turned_at.us)
        ks_loop_wake(board->config.loop);
}

void ks_board_catch_up(struct ks_switchboard *board)
{
    while (board->queue_count > 0) {
        struct ks_event event = board->queue[board->queue_first];

        board->queue_first = (board->queue_first + 1) % KS_BOARD_QUEUE_MAX;
        board->queue_count--;
        ks_board_step_at_once(board, &event);
    }
}

void ks_board_step(struct ks_switchboard *board, const struct ks_event *event)
{
    ks_board_catch_up(board);
    ks_board_step_at_once(board, event);
}

void ks_board_queue(struct ks_switchboard *board, const struct ks_event *event)
{
    uint32_t place = (board->queue_first + board->queue_count) % KS_BOARD_QUEUE_MAX;

    assert(board->queue_count < KS_BOARD_QUEUE_MAX);

    board->queue[place] = *event;
    board->queue_count++;
}

/* ---- Turns. ---- */

/* Each once: it can go on no more, and everything is given back. */
static void tell_end(struct ks_switchboard *board)
{
    if (board->refused && !board->refusal_told) {
        board->refusal_told = true;
        board->config.refused(board->config.arg, board->why_refused->text);
    } else if (board->drained && !board->over) {
        board->over = true;
        board->config.drained(board->config.arg, board->drained_clean, board->drained_unsaved);
    }
}

/* What the others leave of the pool, in steps: each costs a look at all leases. */
static void tell_budget(struct ks_switchboard *board)
{
    enum { STEPS = 64 };
    size_t step = board->budget.limit / STEPS + 1;
    size_t allowed = ks_budget_allowed(&board->budget);

    if (allowed < board->budget.limit)
        allowed -= allowed % step;
    if (allowed == board->allowed)
        return;
    board->allowed = allowed;
    ks_board_step(board, &(struct ks_event){.kind = KS_EVENT_BUDGET, .budget = {allowed}});
}

/* A leader of KCL 3.x assigns to a process whatever its table has: where one of those who share it wants no leases, all
 * of them must say so. */
static void tell_kin(struct ks_switchboard *board)
{
    struct ks_kinship *const kinship = board->config.kinship;
    const bool wants = ks_core_wants(board->core);
    bool away;

    if (kinship == NULL)
        return;
    if (wants != board->willing) {
        board->willing = wants;
        kinship->willing = wants ? kinship->willing + 1 : kinship->willing - 1;
        ks_loop_wake(board->config.loop); /* For the others. */
    }
    away = kinship->willing - board->willing < board->config.kin_count;
    if (away == board->kin_away)
        return;
    board->kin_away = away;
    ks_board_step(board, &(struct ks_event){.kind = KS_EVENT_KIN, .kin.away = away});
}

static ks_instant turn(struct ks_hook *hook, ks_instant now)
{
    struct ks_switchboard *board = KS_LIST_ENTRY(hook, struct ks_switchboard, hook);
    bool waiting;

    board->turning = true;
    ks_board_catch_up(board);
    tell_budget(board);
    tell_kin(board);
    if (ks_instant_reached(now, board->due))
        ks_board_step(board, &(struct ks_event){.kind = KS_EVENT_TICK});
    /* After the tick, so that what apps do never delays a heartbeat. */
    waiting = ks_board_judge(board);
    waiting = ks_board_call_consumers(board) || waiting;
    if (ks_instant_reached(now, board->gauges_at)) {
        ks_board_measure_load(board);
        ks_board_measure(board);
        board->gauges_at = ks_instant_add(now, measure_every);
    }
    ks_board_free_numbers(board, now);
    board->turning = false;
    board->turned_at = now;
    tell_end(board);
    board->due = ks_core_deadline(board->core);
    waiting = waiting || board->queue_count > 0;
    return waiting ? now : board->due;
}

/* ---- Listeners. ---- */

void ks_switchboard_listen(struct ks_switchboard *board, struct ks_listener *listener)
{
    ks_list_append(&board->listeners, &listener->link);
}

void ks_switchboard_unlisten(struct ks_switchboard *board, struct ks_listener *listener)
{
    (void)board;
    ks_list_remove(&listener->link);
}

void ks_board_happened(struct ks_switchboard *board, ks_shard shard, const char *event,
                       const char *line)
{
    const ks_shard handle = ks_board_handle(board, shard);
    struct ks_link *link;
    struct ks_link *after;

    KS_LIST_EACH(link, after, &board->listeners)
    {
        struct ks_listener *listener = KS_LIST_ENTRY(link, struct ks_listener, link);

        listener->happened(listener, handle, event, line);
    }
}

void ks_board_tell_event(struct ks_switchboard *board, const char *type, ks_shard shard,
                         ks_epoch epoch, const char *line)
{
    ks_event_ring_add(&board->events, type, ks_wall_now(),
                      ks_names_text(&board->rows.shards, shard), epoch, line);
    ks_board_happened(board, shard, type, line);
}

void ks_board_tell_expired(struct ks_switchboard *board, ks_shard shard, ks_epoch epoch,
                           const struct ks_expired *expired, const char *line)
{
    static const char type[] = "records_expired";

    ks_event_ring_add(&board->events, type, ks_wall_now(),
                      ks_names_text(&board->rows.shards, shard), epoch, line);
    ks_event_ring_span(&board->events, expired->from_ms, expired->to_ms);
    ks_board_happened(board, shard, type, line);
}

uint64_t ks_switchboard_events(const struct ks_switchboard *board, uint64_t *ret_end)
{
    *ret_end = board->events.end;
    return ks_event_ring_first(&board->events);
}

const struct ks_board_event *ks_switchboard_event(const struct ks_switchboard *board,
                                                  uint64_t number)
{
    return ks_event_ring_at(&board->events, number);
}

/* ---- Birth and end. ---- */

static ks_err copy_texts(struct ks_switchboard *board, const struct ks_switchboard_config *config)
{
    board->config.subscription =
        ks_strdup(config->subscription == NULL ? config->application : config->subscription);
    board->config.stream = ks_strdup(config->stream);
    board->config.application = ks_strdup(config->application);
    board->config.dialect = ks_strdup(config->dialect);
    board->config.worker_id = ks_strdup(config->worker_id);
    board->config.version = ks_strdup(config->version);
    if (board->config.subscription == NULL || board->config.stream == NULL ||
        board->config.application == NULL || board->config.dialect == NULL ||
        board->config.worker_id == NULL || board->config.version == NULL)
        return KS_FAIL(NO_MEMORY);
    return KS_OK;
}

static ks_err take_memory(struct ks_switchboard *board)
{
    const struct ks_core_config *core = &board->config.core;

    board->core_memory = ks_alloc(ks_core_size(core));
    board->effects = ks_alloc(sizeof *board->effects);
    board->queue = ks_alloc(KS_BOARD_QUEUE_MAX * sizeof *board->queue);
    board->leases = ks_alloc(core->leases_max * sizeof *board->leases);
    board->open = ks_alloc(core->shards_max * sizeof *board->open);
    board->sizes = ks_alloc(KS_READ_RECORDS_MAX * sizeof *board->sizes);
    board->hashes = ks_alloc(KS_READ_RECORDS_MAX * sizeof *board->hashes);
    board->stale_s = ks_alloc(KS_READ_RECORDS_MAX * sizeof *board->stale_s);
    if (board->config.filter != NULL)
        board->filtered = ks_alloc(KS_READ_RECORDS_MAX * sizeof *board->filtered);
    board->sessions = ks_alloc(core->sessions_max * sizeof *board->sessions);
    board->returning = ks_alloc(core->leases_max * sizeof *board->returning);
    board->why_refused = ks_alloc(sizeof *board->why_refused);
    board->reason = ks_alloc(sizeof *board->reason);
    if (board->core_memory == NULL || board->effects == NULL || board->queue == NULL ||
        board->leases == NULL || board->open == NULL || board->sizes == NULL ||
        board->hashes == NULL || board->stale_s == NULL || board->sessions == NULL ||
        board->returning == NULL || board->why_refused == NULL || board->reason == NULL ||
        (board->config.filter != NULL && board->filtered == NULL))
        return KS_FAIL(NO_MEMORY);
    KS_TRY(ks_board_numbers_new(board));
    KS_TRY(ks_board_redrives_new(board));
    KS_TRY(ks_board_redrive_job_new(board));
    KS_TRY(ks_board_upkeep_new(board));
    return ks_board_letters_new(board);
}

static void free_memory(struct ks_switchboard *board)
{
    ks_rows_free(&board->rows);
    ks_event_ring_free(&board->events);
    ks_free(board->core_memory);
    ks_free(board->effects);
    ks_free(board->queue);
    for (uint32_t i = 0; board->leases != NULL && i < board->config.core.leases_max; i++)
        ks_board_end_judgement(&board->leases[i]);
    ks_free(board->leases);
    ks_free(board->match);
    ks_free(board->open);
    ks_free(board->sizes);
    ks_free(board->hashes);
    ks_free(board->stale_s);
    ks_free(board->filtered);
    ks_board_filter_free(&board->filter);
    ks_board_letters_free(board->letters);
    ks_free(board->redrives);
    ks_free(board->redrive_job);
    ks_free(board->upkeep);
    ks_free(board->sessions);
    ks_free(board->returning);
    ks_free(board->held);
    ks_free(board->freed);
    ks_free(board->why_refused);
    ks_free(board->reason);
    /* The copies of copy_texts; the config's fields are const for everybody else. */
    ks_free((void *)(uintptr_t)board->config.subscription);
    ks_free((void *)(uintptr_t)board->config.stream);
    ks_free((void *)(uintptr_t)board->config.application);
    ks_free((void *)(uintptr_t)board->config.dialect);
    ks_free((void *)(uintptr_t)board->config.worker_id);
    ks_free((void *)(uintptr_t)board->config.version);
    ks_free(board);
}

/* The usual length of a sequence number. */
enum { SEQUENCE_DIGITS = 56 };

/* The application began when we did, for all that such a table says: by the stream's clock, as soon as that is
 * known. */
static void share(struct ks_switchboard *board)
{
    ks_rows_share(&board->rows, &board->config.start, board->config.core.stealing,
                  board->config.core.protocol == KS_PROTOCOL_KINSUMER
                      ? board->config.core.lease_duration
                      : ks_span_us(0));
    board->rows.mixed = (struct ks_mixed){.protocol = board->config.core.protocol,
                                          .lease = board->config.core.lease_duration,
                                          .check = board->config.core.beat,
                                          .stealing = board->config.core.stealing};
    if (board->config.core.masking)
        ks_rows_mask(&board->rows);
    if (board->config.core.protocol != KS_PROTOCOL_KCL)
        return;
    board->config.core.latest = board->config.start.kind == KS_POSITION_LATEST;
    ks_rows_keep(&board->rows, &board->config.start, 0);
    ks_rows_stream(&board->rows, &(struct ks_streams){.word = board->config.stream,
                                                      .kin = board->config.kin,
                                                      .kin_count = board->config.kin_count,
                                                      .several = board->config.several_streams});
}

static ks_err build(struct ks_switchboard *board, const struct ks_switchboard_config *config)
{
    struct ks_core_config *core = &board->config.core;

    KS_TRY(copy_texts(board, config));
    KS_TRY(take_memory(board));
    KS_TRY(ks_event_ring_init(&board->events));
    KS_TRY(ks_rows_init(&board->rows, core->shards_max, core->workers_max, board->config.worker_id,
                        ks_board_touch_workers, board));
    if (core->protocol != KS_PROTOCOL_NATIVE)
        share(board);
    core->self = board->rows.self;
    if (core->boot == 0)
        core->boot = ks_random_u64();
    board->boot = core->boot;
    core->lock = config->lock != NULL;
    core->corpse = config->lock == NULL ? 0 : config->lock->corpse;
    core->record_extra = sizeof(struct ks_record) + SEQUENCE_DIGITS + sizeof(struct ks_slot);
    if (config->pool != NULL)
        ks_budget_join(&board->budget, config->pool);
    else
        ks_budget_init(&board->budget, core->budget_bytes);
    core->budget_bytes = board->allowed = board->budget.limit;
    board->core = ks_core_init(board->core_memory, core);
    return KS_OK;
}

ks_err ks_switchboard_new(const struct ks_switchboard_config *config, struct ks_switchboard **ret)
{
    struct ks_switchboard *board = ks_alloc(sizeof *board);
    ks_err err;

    if (board == NULL)
        return KS_FAIL(NO_MEMORY);
    board->config = *config;
    board->config.subscription = NULL;
    board->config.stream = board->config.application = board->config.dialect = NULL;
    board->config.worker_id = board->config.version = NULL;
    if (config->several && config->subscription != NULL)
        (void)snprintf(board->prefix, sizeof board->prefix, "%s: ", config->subscription);
    err = build(board, config);
    if (!ks_ok(err)) {
        free_memory(board);
        return err;
    }

    ks_metrics_begin(board->config.subscription);
    ks_link_init(&board->asks);
    ks_link_init(&board->listeners);
    ks_link_init(&board->looks);
    ks_link_init(&board->seeks);
    board->looked_at = KS_LONG_AGO;
    ks_link_init(&board->wakes);
    ks_link_init(&board->partings);
    for (uint32_t i = 0; i < config->core.sessions_max; i++)
        ks_link_init(&board->sessions[i].wake);
    board->started_at = ks_wall_now();
    board->gauges_at = KS_LONG_AGO;
    board->load_at = ks_loop_now(config->loop);
    board->due = KS_LONG_AGO;
    board->turned_at = KS_LONG_AGO;
    ks_bytes_init(&board->filter.text, 0);
    board->hook.turn = turn;
    ks_link_init(&board->hook.link);
    board->metrics.subscription = board->config.subscription;
    board->metrics.number = ks_board_shard_metric;
    ks_link_init(&board->metrics.link);
    if (config->shard_metrics)
        ks_metrics_join(&board->metrics);
    *ret = board;
    return KS_OK;
}

void ks_switchboard_stop(struct ks_switchboard *board)
{
    assert(!board->stepping);
    assert(!board->turning);

    if (board->stopped)
        return;
    board->stopped = true;
    if (board->started)
        ks_loop_unhook(board->config.loop, &board->hook);
    ks_loop_timer_clear(board->config.loop, &board->describe_timer);
    ks_metrics_leave(&board->metrics);
    for (ks_shard shard = 0; shard < board->rows.shards.fresh; shard++)
        ks_board_close(board, shard);
    ks_board_redrives_clear(board);
    ks_board_redrive_job_clear(board);
    ks_board_upkeep_stop(board);
}

void ks_switchboard_free(struct ks_switchboard *board)
{
    if (board == NULL)
        return;
    if (board->stopped) {
        ks_board_free_asks(board);
    } else {
        ks_switchboard_stop(board);
        ks_board_leave_asks(board);
    }
    free_memory(board);
}

void ks_switchboard_start(struct ks_switchboard *board)
{
    assert(!board->started);

    board->started = true;
    ks_loop_hook(board->config.loop, &board->hook);
    ks_loop_wake(board->config.loop); /* It has not been asked yet when it is due. */
    ks_board_date(board);
    ks_board_describe(board);
    ks_board_step(board, &(struct ks_event){.kind = KS_EVENT_START});
}

int64_t ks_switchboard_stream_ms(const struct ks_switchboard *board)
{
    return ks_board_stream_ms(board);
}

void ks_switchboard_drain(struct ks_switchboard *board, ks_span patience)
{
    assert(board->started);

    if (board->draining)
        return;
    board->draining = true;
    board->patience = patience;
    ks_board_step(board, &(struct ks_event){.kind = KS_EVENT_DRAIN, .drain.span = patience});
}

void ks_switchboard_look(struct ks_switchboard *board)
{
    ks_board_step(board, &(struct ks_event){.kind = KS_EVENT_CHANGED});
}

void ks_switchboard_cpu(struct ks_switchboard *board, uint32_t cpu)
{
    if (board->cpu_count == KS_CPU_SAMPLES_MAX) {
        memmove(board->cpu, board->cpu + 1, sizeof board->cpu - sizeof board->cpu[0]);
        board->cpu_count--;
    }
    board->cpu[board->cpu_count++] = cpu;
}

void ks_switchboard_hurry(struct ks_switchboard *board)
{
    if (board->draining)
        ks_board_step(board, &(struct ks_event){.kind = KS_EVENT_HURRY});
}

void ks_board_refuse(struct ks_switchboard *board, const char *format, ...)
{
    va_list arguments;

    if (board->refused)
        return;
    board->refused = true;
    va_start(arguments, format);
    (void)vsnprintf(board->why_refused->text, sizeof board->why_refused->text, format, arguments);
    va_end(arguments);
}
