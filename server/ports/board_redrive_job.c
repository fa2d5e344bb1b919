/* SPDX-License-Identifier: Apache-2.0 */
/* A redrive of many dead letters: pages of the store, a rate, and counts. */
#include "ports/board.h"

#include "base/log.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

enum {
    PAGE_LETTERS = 100,    /* Ids that one list adds. */
    ATTEMPTS_MAX = 8,      /* Letters that are being claimed and read at one time. */
    TRIES_MAX = 5,         /* Of a letter that cannot be read while the store answers. */
    STORE_AGAIN_MS = 1000, /* Between two requests to a store that does not answer. */
    FULL_AGAIN_MS = 100    /* Until there may be room for one more letter. */
};

/* A letter between its place in the list and its first delivery. */
struct attempt {
    struct ks_board_redrive_job *job;
    uint64_t serial; /* Of the job that it is for. */
    bool used;
    bool asked; /* The order was given and is not answered yet. */
    uint32_t tries;
    char id[KS_LETTER_ID_MAX + 1];
};

struct ks_board_redrive_job {
    struct ks_switchboard *board;
    struct ks_timer timer;
    uint64_t serial; /* Answers for an earlier job are ignored. */
    struct ks_redrive_job status;
    bool listing; /* An answer of the store is awaited. */
    bool listed;  /* There are no more pages, or no more letters are wanted. */
    bool away;    /* The store did not answer last time. */
    ks_instant next_at;
    char after[KS_LETTER_ID_MAX + 1]; /* The last letter of the last page. */
    uint32_t page_next;
    uint32_t page_count;
    char page[PAGE_LETTERS][KS_LETTER_ID_MAX + 1];
    struct attempt attempts[ATTEMPTS_MAX];
};

static void work_due(struct ks_timer *timer);

ks_err ks_board_redrive_job_new(struct ks_switchboard *board)
{
    board->redrive_job = ks_alloc(sizeof *board->redrive_job);
    if (board->redrive_job == NULL)
        return KS_FAIL(NO_MEMORY);
    board->redrive_job->board = board;
    board->redrive_job->timer.due = work_due;
    return KS_OK;
}

void ks_board_redrive_job_clear(struct ks_switchboard *board)
{
    ks_loop_timer_clear(board->config.loop, &board->redrive_job->timer);
}

/* Continues in a turn of its own, when the rate allows it. */
static void work_later(struct ks_board_redrive_job *job)
{
    const ks_instant now = ks_board_now(job->board);
    const bool due = ks_instant_reached(now, job->next_at);

    if (job->status.state == KS_REDRIVE_JOB_RUNNING && !job->board->stopped)
        ks_loop_timer_set(job->board->config.loop, &job->timer, due ? now : job->next_at);
}

static void wait_ms(struct ks_board_redrive_job *job, int64_t ms)
{
    job->next_at = ks_instant_add(ks_board_now(job->board), ks_span_ms(ms));
}

/* ---- Its end ---- */

static const char *why_over(enum ks_redrive_job_state state)
{
    switch (state) {
    case KS_REDRIVE_JOB_NONE:
    case KS_REDRIVE_JOB_RUNNING: break;
    case KS_REDRIVE_JOB_DONE: return "every letter was redriven or refused";
    case KS_REDRIVE_JOB_STOPPED: return "it was stopped";
    case KS_REDRIVE_JOB_DRAINED: return "the sidecar drains";
    }
    assert(false);
    return "";
}

static void finish(struct ks_board_redrive_job *job, enum ks_redrive_job_state state)
{
    struct ks_redrive_job *const status = &job->status;
    char line[KS_STORY_LINE_MAX];

    assert(status->state == KS_REDRIVE_JOB_RUNNING);
    status->state = state;
    status->ended_ms = ks_wall_now().ms;
    ks_detail_set(&status->trouble, "%s", "");
    ks_loop_timer_clear(job->board->config.loop, &job->timer);
    (void)snprintf(line, sizeof line,
                   "redrive of many dead letters: over (%s); %" PRIu64 " found, %" PRIu64
                   " redriven, %" PRIu64 " acknowledged, %" PRIu64 " given up again",
                   why_over(state), status->found, status->redriven, status->acknowledged,
                   status->given_up);
    ks_info("%s%s", job->board->prefix, line);
    ks_board_tell_event(job->board, "redrive_over", KS_SHARD_NONE, 0, line);
}

static bool has_attempts(const struct ks_board_redrive_job *job)
{
    for (uint32_t i = 0; i < ATTEMPTS_MAX; i++)
        if (job->attempts[i].used && job->attempts[i].serial == job->serial)
            return true;
    return false;
}

static bool is_through(const struct ks_board_redrive_job *job)
{
    return job->listed && job->page_next == job->page_count && job->status.in_delivery == 0 &&
           !has_attempts(job);
}

/* ---- The list ---- */

/* The state of a store that does not answer is logged once. */
static void note_store(struct ks_board_redrive_job *job, bool away, const struct ks_detail *detail)
{
    if (away)
        ks_detail_set(&job->status.trouble, "%s", detail->text);
    else
        ks_detail_set(&job->status.trouble, "%s", "");
    if (away && !job->away)
        ks_warn("%sredrive of many dead letters: the next letter cannot be read (%s); trying again "
                "every second",
                job->board->prefix, detail->text);
    job->away = away;
    if (away)
        wait_ms(job, STORE_AGAIN_MS);
}

static bool is_wanted(const struct ks_redrive_job *status, const struct ks_letter *letter)
{
    const ks_view shard = ks_view_text(status->shard_id);

    return (shard.size == 0 || ks_view_equal(shard, letter->shard_id)) &&
           (status->any_cause || status->cause == letter->cause);
}

static void take_page(struct ks_board_redrive_job *job, const struct ks_letters_answer *said)
{
    job->page_next = 0;
    job->page_count = 0;
    for (uint32_t i = 0; i < said->count && job->status.found < job->status.most; i++) {
        const struct ks_letter *const letter = &said->letters[i];

        (void)snprintf(job->after, sizeof job->after, "%.*s", (int)letter->id.size,
                       (const char *)letter->id.data);
        if (!is_wanted(&job->status, letter))
            continue;
        (void)snprintf(job->page[job->page_count++], sizeof job->page[0], "%s", job->after);
        job->status.found++;
    }
    job->listed = !said->more || job->status.found == job->status.most;
}

static void listed(void *arg, const struct ks_letters_answer *said)
{
    struct ks_board_ask *const ask = arg;
    struct ks_switchboard *const board = ks_board_of_ask(ask);
    struct ks_board_redrive_job *const job = board == NULL ? NULL : board->redrive_job;

    if (job != NULL && job->serial == ask->token) {
        job->listing = false;
        if (job->status.state == KS_REDRIVE_JOB_RUNNING) {
            note_store(job, said->outcome != KS_DONE, &said->detail);
            if (said->outcome == KS_DONE && job->page_next == job->page_count && !job->listed)
                take_page(job, said);
            work_later(job);
        }
    }
    ks_free(ask);
}

/* Asks for the next page; while letters of the last one are left, only whether the store answers. */
static void list(struct ks_board_redrive_job *job)
{
    struct ks_dead_letters *const store = job->board->config.letters;
    const bool probe = job->page_next < job->page_count || job->listed;
    struct ks_board_ask *const ask = ks_board_ask_new(job->board);

    if (ask == NULL) {
        wait_ms(job, STORE_AGAIN_MS);
        work_later(job);
        return;
    }
    ask->token = job->serial;
    job->listing = true;
    store->vtable->list(store, ks_view_text(job->after), probe ? 1 : PAGE_LETTERS, listed, ask);
}

/* ---- The letters ---- */

static void judge(struct attempt *attempt, ks_err err, const struct ks_detail *detail)
{
    struct ks_board_redrive_job *const job = attempt->job;
    struct ks_redrive_job *const status = &job->status;

    if (ks_err_class(err) == KS_CLASS_SHED || ks_err_is(err, KS_ERR_BUSY)) {
        wait_ms(job, FULL_AGAIN_MS);
        return;
    }
    if (ks_err_is(err, KS_ERR_DISK) && ++attempt->tries < TRIES_MAX) {
        note_store(job, true, detail);
        return;
    }
    attempt->used = false;
    if (ks_err_is(err, KS_ERR_CONDITION)) {
        status->refused_claimed++;
    } else if (ks_err_is(err, KS_ERR_EXPIRED)) {
        status->refused_expired++;
    } else if (ks_err_is(err, KS_ERR_NOT_FOUND)) {
        status->refused_gone++;
    } else {
        status->refused_unreadable++;
        ks_warn("%sdead letter %s is not redriven: it cannot be read (%s); it stays a dead letter",
                job->board->prefix, attempt->id, detail->text);
    }
}

static void ordered(void *arg, ks_err err, uint32_t attempts, const struct ks_detail *detail)
{
    struct attempt *const attempt = arg;
    struct ks_board_redrive_job *const job = attempt->job;

    (void)attempts;
    attempt->asked = false;
    if (attempt->serial != job->serial || job->status.state != KS_REDRIVE_JOB_RUNNING)
        attempt->used = false;
    if (attempt->serial == job->serial && ks_ok(err)) {
        attempt->used = false;
        job->status.redriven++;
        job->status.in_delivery++;
    } else if (attempt->used) {
        judge(attempt, err, detail);
    }
    work_later(job);
}

/* A letter that is tried again, else the next one of the page. NULL: there is none now. */
static struct attempt *next_attempt(struct ks_board_redrive_job *job)
{
    struct attempt *free = NULL;

    for (uint32_t i = 0; i < ATTEMPTS_MAX; i++) {
        struct attempt *const attempt = &job->attempts[i];

        if (attempt->used && !attempt->asked)
            return attempt;
        if (!attempt->used)
            free = attempt;
    }
    if (free == NULL || job->page_next == job->page_count)
        return NULL;
    *free = (struct attempt){.job = job, .serial = job->serial, .used = true};
    (void)snprintf(free->id, sizeof free->id, "%s", job->page[job->page_next++]);
    return free;
}

static void begin_attempt(struct ks_board_redrive_job *job, struct attempt *attempt)
{
    const struct ks_detail none = {""};
    ks_err err;

    attempt->asked = true;
    job->next_at =
        ks_instant_add(ks_board_now(job->board), ks_span_us(1000000 / (int64_t)job->status.rate));
    err = ks_board_redrive(job->board, ks_view_text(attempt->id), job->serial, ordered, attempt);
    if (!ks_ok(err)) {
        attempt->asked = false;
        judge(attempt, err, &none);
    }
    work_later(job);
}

static void work_on(struct ks_board_redrive_job *job)
{
    struct attempt *attempt;

    if (job->board->draining) {
        finish(job, KS_REDRIVE_JOB_DRAINED);
        return;
    }
    if (job->away && !job->listing)
        list(job);
    if (job->away)
        return;
    attempt = next_attempt(job);
    if (attempt != NULL)
        begin_attempt(job, attempt);
    else if (job->page_next == job->page_count && !job->listed && !job->listing)
        list(job);
    else if (is_through(job))
        finish(job, KS_REDRIVE_JOB_DONE);
}

static void work_due(struct ks_timer *timer)
{
    struct ks_board_redrive_job *const job =
        KS_LIST_ENTRY(timer, struct ks_board_redrive_job, timer);

    if (job->status.state == KS_REDRIVE_JOB_RUNNING)
        work_on(job);
}

void ks_board_redrive_job_over(struct ks_switchboard *board, uint64_t serial,
                               enum ks_redrive_end end)
{
    struct ks_board_redrive_job *const job = board->redrive_job;
    struct ks_redrive_job *const status = &job->status;

    if (serial == 0 || serial != job->serial)
        return;
    assert(status->in_delivery > 0);
    status->in_delivery--;
    switch (end) {
    case KS_REDRIVE_ACKNOWLEDGED: status->acknowledged++; break;
    case KS_REDRIVE_GIVEN_UP: status->given_up++; break;
    case KS_REDRIVE_TAKEN: status->taken++; break;
    }
    work_later(job);
}

/* ---- Orders ---- */

ks_err ks_switchboard_redrive_many(struct ks_switchboard *board,
                                   const struct ks_redrive_order *order, const char *who)
{
    struct ks_board_redrive_job *const job = board->redrive_job;
    char line[KS_STORY_LINE_MAX];

    assert(board->config.letters != NULL);
    assert(order->rate >= 1 && order->rate <= KS_REDRIVE_RATE_MAX && order->most >= 1);
    if (board->draining)
        return KS_FAIL(BUSY);
    if (job->status.state == KS_REDRIVE_JOB_RUNNING)
        return KS_FAIL(CONDITION);
    if (order->shard_id.size > KS_SHARD_ID_MAX)
        return KS_FAIL(NOT_FOUND);
    job->serial++;
    job->listing = false;
    job->listed = false;
    job->away = false;
    job->after[0] = '\0';
    job->page_next = 0;
    job->page_count = 0;
    job->next_at = ks_board_now(board);
    job->status = (struct ks_redrive_job){
        .state = KS_REDRIVE_JOB_RUNNING,
        .any_cause = order->any_cause,
        .cause = order->cause,
        .rate = order->rate,
        .most = order->most,
        .begun_ms = ks_wall_now().ms,
    };
    (void)snprintf(job->status.shard_id, sizeof job->status.shard_id, "%.*s",
                   (int)order->shard_id.size, (const char *)order->shard_id.data);
    (void)snprintf(
        line, sizeof line,
        "redrive of many dead letters: begun (ordered with %s); shard %s, at most %" PRIu64
        " letters, at most %u a second",
        who, order->shard_id.size == 0 ? "any" : job->status.shard_id, order->most,
        (unsigned)order->rate);
    ks_info("%s%s", board->prefix, line);
    ks_board_tell_event(board, "redrive_begun", KS_SHARD_NONE, 0, line);
    work_later(job);
    return KS_OK;
}

bool ks_switchboard_redrive_stop(struct ks_switchboard *board)
{
    struct ks_board_redrive_job *const job = board->redrive_job;

    if (job->status.state == KS_REDRIVE_JOB_NONE)
        return false;
    if (job->status.state == KS_REDRIVE_JOB_RUNNING) {
        for (uint32_t i = 0; i < ATTEMPTS_MAX; i++)
            job->attempts[i].used = job->attempts[i].asked;
        finish(job, KS_REDRIVE_JOB_STOPPED);
    }
    return true;
}

const struct ks_redrive_job *ks_switchboard_redrive_job(const struct ks_switchboard *board)
{
    return &board->redrive_job->status;
}
