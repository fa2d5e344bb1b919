/* SPDX-License-Identifier: Apache-2.0 */
/* GET /v1/dead-letters, /v1/dead-letters/{id}, POST /v1/dead-letters/{id}/redrive, /discard. */
#include <assert.h>

#include "api/message.h"
#include "api/routes.h"
#include "api/subscription.h"
#include "base/budget.h"

/* What a page of letters takes while its answer is written, beside their payload. */
enum { ARENA_BYTES = KS_LETTERS_BYTES_MAX + (16 << 20) };

/* One call to the store. */
struct call {
    struct ks_exchange *exchange; /* NULL: the client has left. */
    struct ks_switchboard *board;
    const char *authority; /* Of the request; static. */
    char id[KS_LETTER_ID_MAX + 1];
    bool text; /* Data as text, where it can be. */
};

static void closed(struct ks_exchange *exchange)
{
    struct call *call = exchange->context;

    if (call != NULL)
        call->exchange = NULL;
}

/* The store of the subscription. NULL: the exchange was answered. */
static struct ks_dead_letters *store_of(struct ks_exchange *exchange)
{
    struct ks_dead_letters *store = ks_switchboard_letters(exchange->subscription->board);

    if (store == NULL) {
        ks_exchange_problem(
            exchange, KS_PROBLEM_FAILED_PRECONDITION,
            "there is no place for dead letters: set --dead-letters or --state-dir");
    } else if (store->sink != NULL) {
        ks_exchange_problem(
            exchange, KS_PROBLEM_FAILED_PRECONDITION,
            "dead letters are sent to %s: read them there, this sidecar cannot list, redrive or "
            "discard them",
            store->sink);
        store = NULL;
    }
    return store;
}

static struct call *begin(struct ks_exchange *exchange)
{
    struct call *call = ks_alloc(sizeof(*call));

    if (call == NULL) {
        ks_exchange_problem(exchange, KS_PROBLEM_EXHAUSTED, "out of memory");
        return NULL;
    }
    call->exchange = exchange;
    call->board = exchange->subscription->board;
    call->authority = exchange->request.authority;
    exchange->context = call;
    exchange->closed = closed;
    return call;
}

/* The exchange of an answer, which is given now; NULL if nobody waits for it. */
static struct ks_exchange *end(struct call *call)
{
    struct ks_exchange *exchange = call->exchange;

    ks_free(call);
    if (exchange != NULL)
        exchange->context = NULL;
    return exchange;
}

/* A call about the letter that the path names. NULL: the exchange was answered. */
static struct call *begin_named(struct ks_exchange *exchange)
{
    struct call *call = begin(exchange);

    if (call == NULL ||
        ks_ok(ks_view_copy_text(exchange->request.part, call->id, sizeof(call->id))))
        return call;
    (void)end(call);
    ks_exchange_problem(exchange, KS_PROBLEM_NOT_FOUND, "no such dead letter");
    return NULL;
}

static void tell_unknown(struct ks_exchange *exchange, const struct ks_letters_answer *answer)
{
    ks_exchange_problem(exchange, KS_PROBLEM_UNAVAILABLE, "dead letters: %s", answer->detail.text);
}

static bool read_encoding(struct ks_exchange *exchange, bool *ret_text)
{
    ks_view given = KS_VIEW("base64");

    (void)ks_request_param(&exchange->request, "encoding", &given);
    *ret_text = ks_view_equal(given, KS_VIEW("utf8"));
    if (*ret_text || ks_view_equal(given, KS_VIEW("base64")))
        return true;
    ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT,
                        "encoding of dead letters must be base64 or utf8");
    return false;
}

/* ---- The list ---- */

static KinesisSidecar__V1__DeadLetterCause cause_of(enum ks_cause cause)
{
    switch (cause) {
    case KS_CAUSE_ASKED: return KINESIS_SIDECAR__V1__DEAD_LETTER_CAUSE__DEAD_LETTER_CAUSE_ASKED;
    case KS_CAUSE_ATTEMPTS:
        return KINESIS_SIDECAR__V1__DEAD_LETTER_CAUSE__DEAD_LETTER_CAUSE_ATTEMPTS;
    case KS_CAUSE_AGE: return KINESIS_SIDECAR__V1__DEAD_LETTER_CAUSE__DEAD_LETTER_CAUSE_AGE;
    }
    assert(false);
    return KINESIS_SIDECAR__V1__DEAD_LETTER_CAUSE__DEAD_LETTER_CAUSE_UNSPECIFIED;
}

/* The text in the arena; false: no room. */
static bool fill_text(struct ks_arena *arena, ks_view text, char **ret_text)
{
    *ret_text = ks_arena_text(arena, text);
    return *ret_text != NULL;
}

/* A claim is "worker#number" (ports/dead_letters.h). */
static ks_view worker_of(ks_view claim)
{
    return ks_view_cut(&claim, '#');
}

/* The data as it is, or as text where that is wanted and can be. */
static bool fill_data(struct ks_arena *arena, const struct ks_letter *letter, bool text,
                      KinesisSidecar__V1__DeadLetter *row)
{
    if (text && ks_view_is_utf8(letter->data) &&
        memchr(letter->data.data == NULL ? (const void *)"" : letter->data.data, '\0',
               letter->data.size) == NULL)
        return fill_text(arena, letter->data, &row->text);
    row->data.len = letter->data.size;
    row->data.data = (uint8_t *)(uintptr_t)letter->data.data;
    return true;
}

static bool fill_row(const struct ks_exchange *exchange, struct ks_arena *arena,
                     const struct ks_letter *letter, bool text, KinesisSidecar__V1__DeadLetter *row)
{
    kinesis_sidecar__v1__dead_letter__init(row);
    row->sub_sequence_number = letter->sub_sequence < 0 ? 0 : letter->sub_sequence;
    row->approximate_arrival_timestamp = letter->arrival_ms;
    row->attempts = letter->attempts;
    row->cause = cause_of(letter->cause);
    row->died_at = letter->died_ms;
    row->first_died_at = letter->first_died_ms;
    row->in_stream = letter->pointer;
    row->expires_at = letter->expires_ms;
    row->redriven = letter->claim.size > 0 ||
                    ks_switchboard_is_redriven(exchange->subscription->board, letter->id);
    return fill_data(arena, letter, text, row) && fill_text(arena, letter->id, &row->id) &&
           fill_text(arena, letter->stream, &row->stream) &&
           fill_text(arena, letter->shard_id, &row->shard_id) &&
           fill_text(arena, letter->sequence, &row->sequence_number) &&
           fill_text(arena, letter->partition_key, &row->partition_key) &&
           fill_text(arena, letter->reason, &row->reason) &&
           fill_text(arena, worker_of(letter->claim), &row->redriven_by);
}

static bool fill_page(const struct ks_exchange *exchange, struct ks_arena *arena,
                      const struct ks_letters_answer *answer, bool text,
                      KinesisSidecar__V1__DeadLettersResponse *response)
{
    kinesis_sidecar__v1__dead_letters_response__init(response);
    response->dead_letters =
        ks_arena_take(arena, (answer->count + 1) * sizeof(*response->dead_letters));
    if (response->dead_letters == NULL)
        return false;
    for (uint32_t i = 0; i < answer->count; i++) {
        KinesisSidecar__V1__DeadLetter *row = ks_arena_take(arena, sizeof(*row));

        if (row == NULL || !fill_row(exchange, arena, &answer->letters[i], text, row))
            return false;
        response->dead_letters[response->n_dead_letters++] = row;
        if (answer->more)
            response->next_page_token = row->id;
    }
    return true;
}

static void listed(void *arg, const struct ks_letters_answer *answer)
{
    const bool text = ((const struct call *)arg)->text;
    struct ks_exchange *exchange = end(arg);
    KinesisSidecar__V1__DeadLettersResponse response;
    struct ks_arena arena;

    if (exchange == NULL)
        return;
    ks_arena_init(&arena, ARENA_BYTES);
    if (answer->outcome != KS_DONE)
        tell_unknown(exchange, answer);
    else if (fill_page(exchange, &arena, answer, text, &response))
        ks_exchange_message(exchange, &response.base);
    else
        ks_exchange_problem(exchange, KS_PROBLEM_EXHAUSTED, "no memory for the answer");
    ks_arena_free(&arena);
    ks_exchange_wake(exchange);
}

void ks_handle_dead_letters(struct ks_exchange *exchange)
{
    struct ks_dead_letters *store = store_of(exchange);
    ks_view after = KS_VIEW("");
    ks_view scope;
    uint64_t most;
    struct call *call;
    bool text;

    if (store == NULL ||
        !ks_request_number(exchange, "page_size", 1, KS_LETTERS_PAGE_MAX, 100, &most))
        return;
    if (!ks_exchange_hold(exchange, KS_LETTERS_BYTES_MAX))
        return;
    (void)ks_request_param(&exchange->request, "page_token", &after);
    if (ks_request_param(&exchange->request, "scope", &scope) &&
        !ks_view_equal(scope, KS_VIEW("fleet"))) {
        ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT,
                            "scope is fleet, or left out: the list has all letters of the store");
        return;
    }
    if (!read_encoding(exchange, &text))
        return;
    call = begin(exchange);
    if (call == NULL)
        return;
    call->text = text;
    store->vtable->list(store, after, (uint32_t)most, listed, call);
}

/* ---- One ---- */

static void found(void *arg, const struct ks_letters_answer *answer)
{
    const bool text = ((const struct call *)arg)->text;
    struct ks_exchange *exchange = end(arg);
    KinesisSidecar__V1__DeadLetter row;
    struct ks_arena arena;

    if (exchange == NULL)
        return;
    ks_arena_init(&arena, ARENA_BYTES);
    if (answer->outcome != KS_DONE)
        tell_unknown(exchange, answer);
    else if (answer->count == 0)
        ks_exchange_problem(exchange, KS_PROBLEM_NOT_FOUND, "no such dead letter");
    else if (fill_row(exchange, &arena, &answer->letters[0], text, &row))
        ks_exchange_message(exchange, &row.base);
    else
        ks_exchange_problem(exchange, KS_PROBLEM_EXHAUSTED, "no memory for the answer");
    ks_arena_free(&arena);
    ks_exchange_wake(exchange);
}

void ks_handle_dead_letter(struct ks_exchange *exchange)
{
    struct ks_dead_letters *store = store_of(exchange);
    struct call *call;
    bool text;

    if (store == NULL || !read_encoding(exchange, &text) ||
        !ks_exchange_hold(exchange, KS_LETTERS_BYTES_MAX))
        return;
    call = begin_named(exchange);
    if (call == NULL)
        return;
    call->text = text;
    store->vtable->find(store, ks_view_text(call->id), found, call);
}

/* ---- Discard ---- */

static void discarded(void *arg, const struct ks_letters_answer *answer)
{
    struct call *call = arg;
    struct ks_exchange *exchange = call->exchange;
    KinesisSidecar__V1__DiscardDeadLetterResponse response;

    if (answer->outcome == KS_DONE) {
        ks_switchboard_discarded(call->board, ks_view_text(call->id));
        ks_switchboard_tell_discarded(call->board, ks_view_text(call->id), call->authority);
    }
    if (exchange != NULL) {
        kinesis_sidecar__v1__discard_dead_letter_response__init(&response);
        response.id = call->id;
        if (answer->outcome == KS_DONE)
            ks_exchange_message(exchange, &response.base);
        else if (answer->outcome == KS_REFUSED)
            ks_exchange_problem(exchange, KS_PROBLEM_NOT_FOUND, "no such dead letter");
        else
            tell_unknown(exchange, answer);
        ks_exchange_wake(exchange);
    }
    (void)end(call);
}

void ks_handle_dead_letter_discard(struct ks_exchange *exchange)
{
    struct ks_dead_letters *store = store_of(exchange);
    struct call *call = store == NULL ? NULL : begin_named(exchange);

    if (call != NULL)
        store->vtable->remove(store, ks_view_text(call->id), KS_VIEW(""), discarded, call);
}

/* ---- Redrive ---- */

static void refuse(struct ks_exchange *exchange, ks_err err, const char *detail)
{
    if (ks_err_is(err, KS_ERR_NOT_FOUND))
        ks_exchange_problem(exchange, KS_PROBLEM_NOT_FOUND, "no such dead letter");
    else if (ks_err_is(err, KS_ERR_EXPIRED))
        ks_exchange_problem(exchange, KS_PROBLEM_FAILED_PRECONDITION,
                            "its record has left the stream, and only a pointer to it was kept; "
                            "discard it");
    else if (ks_err_is(err, KS_ERR_CONDITION))
        ks_exchange_problem(exchange, KS_PROBLEM_REDRIVEN, "it is being delivered again%s%s",
                            detail[0] == '\0' ? "" : ": ", detail);
    else if (ks_err_is(err, KS_ERR_BUSY))
        ks_exchange_problem(exchange, KS_PROBLEM_UNAVAILABLE,
                            "draining: nothing more is delivered");
    else if (ks_err_is(err, KS_ERR_DISK))
        ks_exchange_problem(exchange, KS_PROBLEM_UNAVAILABLE, "dead letters: %s", detail);
    else
        ks_exchange_problem(exchange, KS_PROBLEM_EXHAUSTED,
                            "as many dead letters are being delivered again as there may be");
}

static void redriven(void *arg, ks_err err, uint32_t attempts, const struct ks_detail *detail)
{
    struct call *call = arg;
    struct ks_exchange *exchange = call->exchange;
    KinesisSidecar__V1__RedriveDeadLetterResponse response;

    if (exchange != NULL) {
        kinesis_sidecar__v1__redrive_dead_letter_response__init(&response);
        response.id = call->id;
        response.attempts = attempts;
        if (ks_ok(err))
            ks_exchange_message(exchange, &response.base);
        else
            refuse(exchange, err, detail->text);
        ks_exchange_wake(exchange);
    }
    (void)end(call);
}

void ks_handle_dead_letter_redrive(struct ks_exchange *exchange)
{
    struct call *call = store_of(exchange) == NULL ? NULL : begin_named(exchange);
    ks_err err;

    if (call == NULL)
        return;
    err = ks_switchboard_redrive(call->board, ks_view_text(call->id), redriven, call);
    if (ks_ok(err))
        return;
    (void)end(call);
    refuse(exchange, err, "");
}
