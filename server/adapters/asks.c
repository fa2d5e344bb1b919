/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/asks.h"

#include "base/budget.h"
#include "base/log.h"

#include <assert.h>
#include <inttypes.h>

static void due(struct ks_timer *timer);

ks_err ks_asks_init(struct ks_asks *asks, struct ks_loop *loop, const char *name,
                    void (*forget)(struct ks_asks *asks, struct ks_ask *ask))
{
    struct ks_ask *const slots = ks_alloc(KS_ASKS_MAX * sizeof(*slots));

    if (slots == NULL)
        return KS_FAIL(NO_MEMORY);
    *asks = (struct ks_asks){.loop = loop,
                             .dialect = &ks_native_dialect,
                             .name = name,
                             .slots = slots,
                             .forget = forget};
    ks_link_init(&asks->free);
    ks_link_init(&asks->open);
    return KS_OK;
}

void ks_ask_work_free(struct ks_ask_work *work)
{
    if (work == NULL)
        return;
    ks_item_write_free(&work->write);
    ks_native_rows_free(&work->rows);
    ks_free(work);
}

static struct ks_ask *slot(struct ks_asks *asks)
{
    struct ks_ask *ask;

    if (ks_list_empty(&asks->free)) {
        assert(asks->touched < KS_ASKS_MAX);
        return &asks->slots[asks->touched++];
    }
    ask = KS_LIST_ENTRY(asks->free.next, struct ks_ask, link);
    ks_list_remove(&ask->link);
    return ask;
}

/* Fills `work` from the request. */
static ks_err translate(const struct ks_dialect *dialect, const struct ks_store_request *request,
                        ks_instant now, struct ks_ask_work *work)
{
    work->operation = request->operation;
    work->table =
        dialect->table == NULL || request->together ? 0 : dialect->table(request->operation);
    work->consistent = request->consistent || request->operation == KS_STORE_READ_LEASE ||
                       request->operation == KS_STORE_READ_WORKER;
    work->asked_at = now;
    work->timeout = request->timeout;
    work->deadline = ks_instant_add(now, request->timeout);
    work->rows.with_words = request->words;
    work->outcome = KS_UNKNOWN;
    if (ks_native_writes(request->operation))
        return dialect->write(request, &work->write, &work->detail);
    return dialect->read(request, &work->partition, &work->keys);
}

struct ks_ask *ks_asks_take(struct ks_asks *asks, const struct ks_store_request *request)
{
    const ks_instant now = ks_loop_now(asks->loop);
    struct ks_ask *const ask = slot(asks);
    ks_err err;

    assert(request->answered != NULL);

    *ask = (struct ks_ask){.asks = asks,
                           .operation = request->operation,
                           .work = ks_alloc(sizeof(struct ks_ask_work)),
                           .timer.due = due,
                           .answered = request->answered,
                           .arg = request->arg,
                           .token = request->token};
    ks_link_init(&ask->store);
    ks_list_append(&asks->open, &ask->link);
    if (ask->work == NULL) {
        ks_ask_refuse(ask, KS_FAIL(NO_MEMORY), NULL);
        return NULL;
    }

    err = translate(asks->dialect, request, now, ask->work);
    if (!ks_ok(err)) {
        ks_ask_refuse(ask, err, NULL);
        return NULL;
    }
    ks_loop_timer_set(asks->loop, &ask->timer, ask->work->deadline);
    return ask;
}

/* The rows of workers are few, and who is silent is judged by how fast they were read. */
static bool is_long(enum ks_store_operation operation)
{
    return operation == KS_STORE_READ_LEASES || operation == KS_STORE_READ_OWNED;
}

void ks_ask_page(struct ks_ask *ask)
{
    static const ks_span page = {KS_ASKS_PAGE_MS * INT64_C(1000)};
    static const ks_span whole = {KS_ASKS_WHOLE_MS * INT64_C(1000)};
    struct ks_ask_work *const work = ask->work;
    const bool more = work->timeout.us < page.us;
    const ks_instant until =
        ks_instant_min(ks_instant_add(ks_loop_now(ask->asks->loop), more ? page : work->timeout),
                       ks_instant_add(work->asked_at, whole));

    if (!is_long(work->operation))
        return;
    work->deadline = ks_instant_max(work->deadline, until);
    ks_loop_timer_set(ask->asks->loop, &ask->timer, work->deadline);
}

void ks_ask_refuse(struct ks_ask *ask, ks_err err, const char *why)
{
    const ks_instant now = ks_loop_now(ask->asks->loop);

    ask->refused = true;
    if (ask->work != NULL) {
        ask->work->err = err;
        if (why != NULL)
            ks_detail_set(&ask->work->detail, "%s", why);
    }
    /* Not in this turn, whoever asks. */
    ks_loop_timer_set(ask->asks->loop, &ask->timer, ks_instant_add(now, ks_span_us(1)));
}

/* --- The state, out of the answers --- */

static enum ks_ask_kind kind_of(enum ks_store_operation operation)
{
    if (operation == KS_STORE_READ_FLEET)
        return KS_ASK_FLEET;
    if (operation == KS_STORE_READ_NEWS)
        return KS_ASK_NEWS;
    if (operation == KS_STORE_READ_LEASES)
        return KS_ASK_LEASES;
    if (operation == KS_STORE_READ_OWNED)
        return KS_ASK_OWNED;
    if (operation == KS_STORE_REMOVE_WORKER || operation == KS_STORE_DELETE)
        return KS_ASK_DELETE;
    return ks_native_writes(operation) ? KS_ASK_UPDATE : KS_ASK_ROW;
}

static void note_success(struct ks_asks *asks, enum ks_store_operation operation)
{
    struct ks_ask_trouble *const trouble = &asks->troubles[kind_of(operation)];

    if (asks->failures_in_row >= KS_ASKS_AWAY_AFTER)
        ks_info("lease table %s: answers again", asks->name);
    asks->failures_in_row = 0;
    if (!ks_ok(trouble->err))
        ks_info("lease table %s: %s works again", asks->name, ks_store_operation_name(operation));
    trouble->err = KS_OK;
}

static void note_failure(struct ks_asks *asks, enum ks_store_operation operation,
                         const struct ks_store_answer *answer)
{
    struct ks_ask_trouble *const trouble = &asks->troubles[kind_of(operation)];
    const bool news = trouble->err.code != answer->err.code;

    if (ks_err_class(answer->err) == KS_CLASS_RETRY) {
        asks->last = answer->detail;
        if (++asks->failures_in_row == KS_ASKS_AWAY_AFTER)
            ks_warn("lease table %s: does not answer: %s", asks->name, answer->detail.text);
        return;
    }
    /* The rest is full memory or a closed store, and no matter of the table. */
    if (ks_err_class(answer->err) != KS_CLASS_REPORT || ks_err_is(answer->err, KS_ERR_CANCELLED))
        return;
    *trouble = (struct ks_ask_trouble){answer->err, ks_loop_now(asks->loop), answer->detail};
    if (news)
        ks_error("lease table %s: %s", asks->name, answer->detail.text);
}

enum ks_store_state ks_asks_state(const struct ks_asks *asks, struct ks_detail *ret_detail)
{
    const ks_instant now = ks_loop_now(asks->loop);

    for (size_t kind = 0; kind < KS_ASK_KINDS; kind++) {
        const struct ks_ask_trouble *const trouble = &asks->troubles[kind];

        if (ks_ok(trouble->err) ||
            ks_instant_since(now, trouble->at).us > KS_ASKS_TROUBLE_S * INT64_C(1000000))
            continue;
        ks_detail_set(ret_detail, "%s", trouble->detail.text);
        return KS_STORE_UNUSABLE;
    }
    if (asks->failures_in_row >= KS_ASKS_AWAY_AFTER) {
        ks_detail_set(ret_detail, "%s", asks->last.text);
        return KS_STORE_AWAY;
    }
    return KS_STORE_READY;
}

/* --- Answers --- */

/* Tells the answer, and frees the ask with its work. */
static void tell(struct ks_ask *ask, struct ks_store_answer *answer)
{
    struct ks_asks *const asks = ask->asks;

    assert(ks_list_empty(&ask->store));

    ks_loop_timer_clear(asks->loop, &ask->timer);
    ks_list_remove(&ask->link);
    if (answer->outcome == KS_UNKNOWN && answer->detail.text[0] == '\0')
        ks_detail_set(&answer->detail, "%s: %s", ks_store_operation_name(ask->operation),
                      ks_err_text(answer->err));
    /* What was refused here says nothing about the table. */
    if (answer->outcome != KS_UNKNOWN)
        note_success(asks, ask->operation);
    else if (!ask->refused)
        note_failure(asks, ask->operation, answer);

    ask->answered(ask->arg, ask->token, answer);
    ks_ask_work_free(ask->work);
    ask->work = NULL;
    ks_list_append(&asks->free, &ask->link);
}

void ks_ask_answer(struct ks_ask *ask)
{
    struct ks_ask_work *const work = ask->work;
    struct ks_store_answer answer = {.outcome = KS_UNKNOWN, .err = KS_FAIL(NO_MEMORY)};

    if (work != NULL) {
        answer.outcome = work->outcome;
        answer.err = work->outcome == KS_UNKNOWN || ks_err_is(work->err, KS_ERR_NOT_FOUND)
                         ? work->err
                         : KS_OK;
        answer.detail = work->detail;
        /* Rows of a read that broke off are no answer. */
        if (work->outcome != KS_UNKNOWN)
            ks_native_rows_answer(&work->rows, &answer);
    }
    assert(answer.outcome != KS_UNKNOWN || !ks_ok(answer.err));
    tell(ask, &answer);
}

/* Answers instead of the store. */
static void cut_short(struct ks_ask *ask, ks_err err)
{
    struct ks_store_answer answer = {.outcome = KS_UNKNOWN, .err = err};

    if (!ask->refused)
        ask->asks->forget(ask->asks, ask);
    tell(ask, &answer);
}

static void due(struct ks_timer *timer)
{
    struct ks_ask *const ask = KS_LIST_ENTRY(timer, struct ks_ask, timer);

    if (ask->refused)
        ks_ask_answer(ask);
    else
        cut_short(ask, KS_FAIL(TIMEOUT));
}

void ks_asks_end(struct ks_asks *asks)
{
    while (!ks_list_empty(&asks->open))
        cut_short(KS_LIST_ENTRY(asks->open.next, struct ks_ask, link), KS_FAIL(CANCELLED));
    ks_free(asks->slots);
    asks->slots = NULL;
}
