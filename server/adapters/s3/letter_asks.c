/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/s3/letter_asks.h"

#include "base/budget.h"
#include "base/log.h"

#include <assert.h>
#include <stdio.h>

enum {
    CHANGE_MS = 20000,         /* Of all requests of a change. */
    LIST_MS = 30000,           /* Of all that a list takes. */
    ATTEMPT_MS = 10000,        /* Of each request. */
    WORK_BYTES_MAX = 64 << 20, /* Letters of a write or of a page. */
    KEPT_BYTES_MAX = 1 << 20   /* Of the buffers of the store, between asks. */
};

static void due(struct ks_timer *timer);

/* ---- Beginnings ---- */

struct ks_s3_ask *ks_s3_ask_new(struct ks_s3_letters *store, enum ks_s3_task task, uint32_t most,
                                ks_letters_answered *answered, void *arg)
{
    struct ks_s3_ask *const ask = ks_alloc(sizeof(*ask));

    if (ask != NULL) {
        *ask = (struct ks_s3_ask){.store = store, .task = task, .answered = answered, .arg = arg};
        ask->timer.due = due;
        ask->answer.outcome = KS_DONE;
        ask->deadline = ks_instant_add(
            ks_loop_now(store->loop), ks_span_ms(task == KS_S3_LETTERS_LIST ? LIST_MS : CHANGE_MS));
        ask->parts_max = most;
        ask->parts = ks_alloc(most * sizeof(*ask->parts));
        ks_list_append(&store->asks, &ask->link);
        if (ask->parts != NULL && ks_ok(ks_letter_list_init(&ask->list, most, WORK_BYTES_MAX)))
            return ask;
        ks_s3_ask_free(ask);
    }
    ks_letters_no_memory(task == KS_S3_LETTERS_WRITE ? KS_REFUSED : KS_UNKNOWN, answered, arg);
    return NULL;
}

ks_err ks_s3_ask_add(struct ks_s3_ask *ask, ks_view id)
{
    struct ks_s3_part *const part = &ask->parts[ask->part_count];
    char key[KS_S3_KEY_MAX + 1];

    assert(ask->part_count < ask->parts_max);

    *part = (struct ks_s3_part){.ask = ask};
    KS_TRY(ks_letter_key_put(ask->store->folder, id, key));
    KS_TRY(ks_view_copy_text(id, part->id, sizeof(part->id)));
    ask->part_count++;
    return KS_OK;
}

/* ---- Answers ---- */

void ks_s3_ask_free_parts(struct ks_s3_ask *ask)
{
    for (uint32_t at = 0; at < ask->part_count; at++) {
        if (ask->parts[at].call != NULL)
            ks_aws_cancel(ask->parts[at].call);
        ks_bytes_free(&ask->parts[at].object);
    }
    ask->part_count = ask->next = 0;
}

void ks_s3_ask_free(struct ks_s3_ask *ask)
{
    ks_loop_timer_clear(ask->store->loop, &ask->timer);
    ks_list_remove(&ask->link);
    if (ask->page != NULL)
        ks_aws_cancel(ask->page);
    ks_s3_ask_free_parts(ask);
    ks_letter_list_free(&ask->list);
    ks_free(ask->parts);
    ks_free(ask);
}

/* Damage that lasts is logged once, until a list from the first letter to the last meets none. */
static void log_damage(struct ks_s3_letters *store, const struct ks_s3_ask *ask)
{
    if (ask->task != KS_S3_LETTERS_LIST || ask->answer.outcome != KS_DONE)
        return;
    if (ask->damaged > 0 && !store->damaged)
        ks_warn("dead letters in s3://%s/%s: %s (%u such objects in this list); they are not "
                "delivered again, repair or discard them",
                store->place.bucket, store->folder, ask->answer.detail.text, ask->damaged);
    store->damaged = ask->damaged > 0 || (store->damaged && ask->answer.more);
}

/* What one large letter took is not kept. */
static void give_back(struct ks_bytes *bytes)
{
    if (bytes->capacity > KEPT_BYTES_MAX)
        ks_bytes_free(bytes);
}

void ks_s3_ask_finish(struct ks_s3_ask *ask)
{
    struct ks_s3_letters *const store = ask->store;
    const bool reads = ask->task == KS_S3_LETTERS_LIST || ask->task == KS_S3_LETTERS_FIND;

    assert(ask->open == 0);

    if (ask->task == KS_S3_LETTERS_WRITE && ask->answer.outcome == KS_UNKNOWN && !ask->maybe)
        ask->answer.outcome = KS_REFUSED;
    log_damage(store, ask);
    give_back(&store->body);
    give_back(&store->bytes);
    ks_letter_list_settle(&ask->list);
    ask->answer.letters = ask->list.letters;
    ask->answer.count = reads && ask->answer.outcome == KS_DONE ? ask->list.count : 0;
    ask->answered(ask->arg, &ask->answer);
    ks_s3_ask_free(ask);
}

static void due(struct ks_timer *timer)
{
    ks_s3_ask_finish(KS_LIST_ENTRY(timer, struct ks_s3_ask, timer));
}

void ks_s3_ask_answer_later(struct ks_s3_ask *ask)
{
    ks_loop_timer_set(ask->store->loop, &ask->timer, ks_loop_now(ask->store->loop));
}

void ks_s3_ask_refuse(struct ks_s3_ask *ask, enum ks_outcome outcome, const char *why)
{
    ask->answer.outcome = outcome;
    if (why != NULL)
        ks_detail_set(&ask->answer.detail, "%s", why);
    ks_s3_ask_answer_later(ask);
}

void ks_s3_ask_fail(struct ks_s3_ask *ask, const char *detail)
{
    struct ks_detail said = {""};

    if (ask->answer.outcome == KS_UNKNOWN)
        return;
    ks_detail_set(&said, "%s", detail); /* It may be the detail of the answer: what is damaged. */
    ask->answer.detail = said;
    ask->answer.outcome = KS_UNKNOWN;
}

void ks_s3_ask_fail_by_answer(struct ks_s3_ask *ask, enum ks_s3_operation operation,
                              const struct ks_aws_answer *answer)
{
    struct ks_detail detail = {""};

    if (!ks_s3_is_undone(answer))
        ask->maybe = true;
    ks_s3_explain(&ask->store->place, operation, answer, &detail);
    ks_s3_ask_fail(ask, detail.text);
}

void ks_s3_ask_note_damage(struct ks_s3_ask *ask, const char *key, const char *damage)
{
    if (ask->damaged++ == 0)
        ks_detail_set(&ask->answer.detail, "the object %.120s is damaged: its %s is not valid", key,
                      damage);
}

/* ---- Requests ---- */

ks_err ks_s3_ask_send(struct ks_s3_ask *ask, struct ks_s3_request *request,
                      struct ks_aws_call **ret_call)
{
    request->total = ks_instant_since(ask->deadline, ks_loop_now(ask->store->loop));
    request->timeout = ks_span_ms(ATTEMPT_MS);
    if (request->total.us <= 0)
        return KS_FAIL(TIMEOUT);
    KS_TRY(ks_s3_call(ask->store->client, &ask->store->place, request, ret_call));
    ask->open++;
    return KS_OK;
}

void ks_s3_part_send(struct ks_s3_part *part, struct ks_s3_request *request)
{
    struct ks_s3_ask *const ask = part->ask;
    char key[KS_S3_KEY_MAX + 1];
    ks_err err = ks_letter_key_put(ask->store->folder, ks_view_text(part->id), key);

    request->key = key;
    request->done = ask->store->came;
    request->arg = part;
    part->operation = request->operation;
    if (request->response_max == 0)
        request->response_max = KS_S3_GROWTH_BYTES; /* The failures of S3 have about 500 bytes. */
    if (ks_ok(err))
        err = ks_s3_ask_send(ask, request, &part->call);
    if (!ks_ok(err))
        ks_s3_ask_fail(ask, ks_err_text(err));
}

void ks_s3_part_get(struct ks_s3_part *part)
{
    const bool listed = part->ask->task == KS_S3_LETTERS_LIST;
    struct ks_s3_request request = {
        .operation = KS_S3_GET,
        .response_max = listed ? (size_t)part->size + KS_S3_GROWTH_BYTES : KS_LETTER_OBJECT_MAX,
    };

    ks_s3_part_send(part, &request);
}
