/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/kinesis/control.h"

#include "adapters/kinesis/health.h"
#include "adapters/kinesis/listing.h"
#include "adapters/kinesis/request.h"
#include "aws/json.h"
#include "base/budget.h"
#include "base/digest.h"
#include "base/log.h"
#include "base/prng.h"

#include <assert.h>

enum {
    SPARES = 64, /* Questions that can still be answered in order when memory ran out. */
    TIMEOUT_MS = 10000,
    /* Between probes of a stream that cannot be read, doubling: somewhere between the half and the
     * whole of it. */
    PROBE_MS_MIN = 1000,
    PROBE_MS_MAX = 5000,
    REFRESH_MS = 600000 /* Of the retention period, while the stream is read. */
};

enum question_kind { QUESTION_DESCRIBE, QUESTION_LIST };

struct question {
    struct ks_link link;
    struct ks_control *control;
    enum question_kind kind;
    union {
        void (*describe)(void *arg, const struct ks_describe_answer *answer);
        void (*list)(void *arg, const struct ks_list_answer *answer);
    } answered;
    void *arg;
    bool spare; /* One of the control's own. */
    bool taken; /* Of a spare one: it is in use. */
    struct ks_aws_call *call;
    struct ks_timer timer; /* For what failed before it could be sent. */
    ks_err err;
    struct ks_listing listing;
};

struct ks_control {
    struct ks_loop *loop;
    struct ks_aws_client *client;
    const char *stream;
    uint32_t page_size;
    struct ks_link questions;
    struct ks_health health;
    struct ks_detail detail; /* Why it is not ready. */
    struct ks_prng prng;
    struct ks_timer probe;
    int32_t probe_ms; /* The whole wait for the next one. */
    bool probing;     /* One is under way. */
    bool unfiltered;  /* The server lists all shards or none. */
    bool deleting;    /* The stream is on its way out; it was told. */
    int64_t retention_ms;
    int64_t created_ms;
    ks_instant described_at;
    bool refreshing; /* It is being described for them. */
    struct question spares[SPARES];
};

/* --- State --- */

/* Nobody may be asking anything right now, and yet we want to know when it is there again. */
static void probe_later(struct ks_control *control)
{
    int64_t wait_ms = ks_prng_between(&control->prng, control->probe_ms / 2, control->probe_ms);
    ks_instant now = ks_loop_now(control->loop);

    if (!control->probing && control->probe.place == 0)
        ks_loop_timer_set(control->loop, &control->probe, ks_instant_add(now, ks_span_ms(wait_ms)));
}

static void probe_no_more(struct ks_control *control)
{
    control->probe_ms = PROBE_MS_MIN;
    ks_loop_timer_clear(control->loop, &control->probe);
}

static void plan_probe(struct ks_control *control)
{
    if (ks_health_doubted(&control->health))
        probe_later(control);
    else
        probe_no_more(control);
}

/* A stream that is not there is mostly one of another region. */
static void explain(struct ks_control *control, ks_err err, const struct ks_detail *detail)
{
    if (ks_err_is(err, KS_ERR_NOT_FOUND))
        ks_detail_set(&control->detail, "no such stream in %s, is it the region? %s",
                      ks_aws_client_region(control->client), detail->text);
    else
        control->detail = *detail;
}

/* What follows from an answer that health has heard. `was`: what the state was before. */
static void follow(struct ks_control *control, enum ks_store_state was, ks_err err,
                   const struct ks_detail *detail)
{
    enum ks_store_state state = control->health.state;

    if (ks_err_class(err) == KS_CLASS_SHED)
        return;
    if (state == KS_STORE_READY)
        ks_detail_set(&control->detail, "%s", "");
    else if (!ks_ok(err))
        explain(control, err, detail);
    plan_probe(control);
    if (was == state)
        return;
    if (state != KS_STORE_READY)
        ks_warn("stream %s cannot be read: %s; asking again", control->stream,
                control->detail.text);
    else if (was != KS_STORE_OPENING)
        ks_info("stream %s: answers again", control->stream);
}

void ks_control_heard(struct ks_control *control, ks_err err, const struct ks_detail *detail)
{
    enum ks_store_state was = control->health.state;

    ks_health_read(&control->health, ks_loop_now(control->loop), err);
    follow(control, was, err, detail);
}

void ks_control_unread(struct ks_control *control)
{
    ks_health_unread(&control->health);
    plan_probe(control);
}

/* The same of an answer to a question of our own. */
static void heard_question(struct ks_control *control, ks_err err, const struct ks_detail *detail)
{
    enum ks_store_state was = control->health.state;

    ks_health_asked(&control->health, ks_loop_now(control->loop), err);
    follow(control, was, err, detail);
}

enum ks_store_state ks_control_state(const struct ks_control *control, struct ks_detail *ret_detail)
{
    if (ret_detail != NULL)
        *ret_detail = control->detail;
    return control->health.state;
}

/* --- Questions --- */

static void finish(struct question *question)
{
    ks_list_remove(&question->link);
    ks_loop_timer_clear(question->control->loop, &question->timer);
    ks_listing_free(&question->listing);
    if (question->spare)
        question->taken = false;
    else
        ks_free(question);
}

static void answer_describe(struct question *question, const struct ks_describe_answer *answer)
{
    question->answered.describe(question->arg, answer);
    finish(question);
}

static void answer_list(struct question *question, ks_err err, const struct ks_detail *detail)
{
    struct ks_list_answer answer = {.err = err, .detail = *detail};

    if (ks_ok(err)) {
        answer.shards = question->listing.shards;
        answer.count = question->listing.count;
    }
    question->answered.list(question->arg, &answer);
    finish(question);
}

static void fail(struct question *question, ks_err err, const struct ks_detail *detail)
{
    struct ks_describe_answer answer = {.err = err, .detail = *detail};

    if (question->kind == QUESTION_DESCRIBE)
        answer_describe(question, &answer);
    else
        answer_list(question, err, detail);
}

/* Says what becomes of the stream. BUSY: nothing can be asked of it yet. */
static ks_err read_status(struct ks_control *control, const struct ks_json *summary)
{
    ks_view status = KS_VIEW_NONE;
    bool was = control->deleting;

    if (!ks_ok(ks_json_text(ks_json_member(summary, "StreamStatus"), &status)))
        return KS_OK; /* Who does not say it has no other one. */
    control->deleting = ks_view_equal(status, KS_VIEW("DELETING"));
    if (control->deleting && !was)
        ks_warn("stream %s: is being deleted; reading it until it is gone", control->stream);
    return ks_view_equal(status, KS_VIEW("CREATING")) ? KS_FAIL(BUSY) : KS_OK;
}

/* Without the period nothing is known to be beyond it. */
static void note_period(struct ks_control *control, const struct ks_json *value, int64_t created_ms)
{
    enum { HOUR_MS = 3600000, HOURS_MAX = 8760 };
    int64_t hours = 0;

    if (value == NULL || !ks_ok(ks_json_i64(value, &hours)) || hours < 0 || hours > HOURS_MAX)
        hours = 0;
    control->retention_ms = hours * HOUR_MS;
    control->created_ms = created_ms;
    control->described_at = ks_loop_now(control->loop);
}

static ks_err read_summary(struct ks_control *control, ks_view body,
                           struct ks_describe_answer *answer)
{
    struct ks_json *document;
    ks_view arn = KS_VIEW_NONE;

    KS_TRY(ks_json_parse(body, &document));
    const struct ks_json *summary = ks_json_member(document, "StreamDescriptionSummary");
    const struct ks_json *created = ks_json_member(summary, "StreamCreationTimestamp");
    ks_err err = ks_json_text(ks_json_member(summary, "StreamARN"), &arn);
    if (ks_ok(err))
        err = ks_view_copy_text(arn, answer->stream_arn, sizeof(answer->stream_arn));
    if (ks_ok(err) && created != NULL)
        err = ks_json_unix_ms(created, &answer->created_ms);
    if (!ks_ok(err) && !ks_err_is(err, KS_ERR_NO_MEMORY))
        err = KS_FAIL(MALFORMED);
    if (ks_ok(err))
        note_period(control, ks_json_member(summary, "RetentionPeriodHours"), answer->created_ms);
    if (ks_ok(err))
        err = read_status(control, summary);
    ks_json_free(document);
    return err;
}

static void described(struct question *question, const struct ks_aws_answer *told)
{
    struct ks_describe_answer answer = {.err = told->err, .detail = told->detail};

    if (ks_ok(answer.err)) {
        answer.err = read_summary(question->control, told->body, &answer);
        ks_detail_set(&answer.detail, "DescribeStreamSummary: %s",
                      ks_err_is(answer.err, KS_ERR_BUSY) ? "the stream is being created"
                                                         : ks_err_text(answer.err));
        ks_failure_name_request(&answer.detail, told->request_id);
    }
    heard_question(question->control, answer.err, &answer.detail);
    answer_describe(question, &answer);
}

static ks_err ask(struct question *question);

/* Only without the filter did the server list anything. */
static void filter_no_more(struct ks_control *control)
{
    if (!control->unfiltered)
        ks_warn("stream %s: the server refuses to list shards from an instant on; listing all, and "
                "records of reshards before the application's start may come, too",
                control->stream);
    control->unfiltered = true;
}

static void listed(struct question *question, const struct ks_aws_answer *told)
{
    struct ks_detail detail = told->detail;
    ks_err err = told->err;
    bool more = false;

    if (ks_ok(err)) {
        err = ks_listing_take(&question->listing, told->body, &more);
        if (ks_ok(err) && question->listing.widened && question->listing.since_ms == 0)
            filter_no_more(question->control);
        ks_detail_set(&detail, "ListShards: %s", ks_err_text(err));
        ks_failure_name_request(&detail, told->request_id);
    } else if (ks_err_is(err, KS_ERR_EXPIRED)) {
        more = ks_listing_restart(&question->listing);
        err = more ? KS_OK : err;
    } else if (ks_err_is(err, KS_ERR_INVALID)) {
        more = ks_listing_widen(&question->listing);
        err = more ? KS_OK : err;
    } else if (ks_err_is(err, KS_ERR_EXISTS)) {
        err = KS_FAIL(BUSY); /* ResourceInUseException: it is not ACTIVE, or not yet. */
    }
    if (ks_ok(err) && more) {
        err = ask(question);
        if (ks_ok(err))
            return;
        ks_detail_set(&detail, "ListShards: %s", ks_err_text(err));
    }
    heard_question(question->control, err, &detail);
    answer_list(question, err, &detail);
}

static void done(void *arg, const struct ks_aws_answer *answer)
{
    struct question *question = arg;

    question->call = NULL;
    if (question->kind == QUESTION_DESCRIBE)
        described(question, answer);
    else
        listed(question, answer);
}

static ks_err send(struct question *question, struct ks_bytes *body)
{
    struct ks_control *control = question->control;
    bool lists = question->kind == QUESTION_LIST;
    struct ks_aws_request request = {
        .operation = lists ? "ListShards" : "DescribeStreamSummary",
        .timeout = ks_span_ms(TIMEOUT_MS),
        .response_max = KS_JSON_BYTES_MAX,
        .done = done,
        .arg = question,
    };

    if (lists)
        KS_TRY(ks_listing_request(&question->listing, control->stream, control->page_size, body));
    else
        KS_TRY(ks_request_describe(body, control->stream));
    request.body = ks_bytes_view(body);
    return ks_aws_call(control->client, &request, &question->call);
}

static ks_err ask(struct question *question)
{
    struct ks_bytes body;

    ks_bytes_init(&body, KS_KINESIS_REQUEST_MAX);
    ks_err err = send(question, &body);
    ks_bytes_free(&body);
    return err;
}

static void timer_due(struct ks_timer *timer)
{
    struct question *question = KS_LIST_ENTRY(timer, struct question, timer);
    struct ks_detail detail;

    ks_detail_set(&detail, "the request could not be sent: %s", ks_err_text(question->err));
    fail(question, question->err, &detail);
}

static struct question *spare_question(struct ks_control *control)
{
    for (uint32_t at = 0; at < SPARES; at++) {
        if (!control->spares[at].taken)
            return &control->spares[at];
    }
    return NULL;
}

/* Without memory it is one of the spare ones, with `err` set. */
static struct question *new_question(struct ks_control *control, enum question_kind kind, void *arg)
{
    struct question *question = ks_alloc(sizeof(*question));
    bool spare = question == NULL;

    if (spare)
        question = spare_question(control);
    /* One asks a handful of times a minute. */
    assert(question != NULL);
    *question = (struct question){
        .control = control,
        .kind = kind,
        .arg = arg,
        .spare = spare,
        .taken = true,
        .timer = {.due = timer_due},
        .err = spare ? KS_FAIL(NO_MEMORY) : KS_OK,
    };
    ks_listing_init(&question->listing, 0);
    ks_list_append(&control->questions, &question->link);
    return question;
}

/* Sends it; what cannot be sent fails in the next turn. */
static void begin(struct question *question)
{
    struct ks_loop *loop = question->control->loop;

    if (ks_ok(question->err))
        question->err = ask(question);
    if (!ks_ok(question->err))
        ks_loop_timer_set(loop, &question->timer, ks_loop_now(loop));
}

void ks_control_describe(struct ks_control *control,
                         void (*answered)(void *arg, const struct ks_describe_answer *answer),
                         void *arg)
{
    struct question *question = new_question(control, QUESTION_DESCRIBE, arg);

    question->answered.describe = answered;
    begin(question);
}

void ks_control_list(struct ks_control *control, int64_t since_ms,
                     void (*answered)(void *arg, const struct ks_list_answer *answer), void *arg)
{
    struct question *question = new_question(control, QUESTION_LIST, arg);

    const int64_t now_ms = ks_aws_client_now_ms(control->client);

    question->answered.list = answered;
    if (!control->unfiltered)
        question->listing.since_ms = now_ms == 0 || since_ms < now_ms ? since_ms : now_ms;
    begin(question);
}

static void refreshed(void *arg, const struct ks_describe_answer *answer)
{
    struct ks_control *control = arg;

    (void)answer; /* The describe request stored its content. */
    control->refreshing = false;
}

int64_t ks_control_retention_ms(struct ks_control *control)
{
    ks_instant old_at = ks_instant_add(control->described_at, ks_span_ms(REFRESH_MS));

    if (control->retention_ms > 0 && !control->refreshing &&
        ks_instant_reached(ks_loop_now(control->loop), old_at)) {
        control->refreshing = true;
        ks_control_describe(control, refreshed, control);
    }
    return control->retention_ms;
}

int64_t ks_control_created_ms(const struct ks_control *control)
{
    return control->created_ms;
}

static void probed(void *arg, const struct ks_describe_answer *answer)
{
    struct ks_control *control = arg;

    (void)answer; /* It was heard. */
    control->probing = false;
    plan_probe(control);
}

static void probe_due(struct ks_timer *timer)
{
    struct ks_control *control = KS_LIST_ENTRY(timer, struct ks_control, probe);

    control->probing = true;
    control->probe_ms = control->probe_ms * 2 < PROBE_MS_MAX ? control->probe_ms * 2 : PROBE_MS_MAX;
    ks_control_describe(control, probed, control);
}

ks_err ks_control_new(struct ks_loop *loop, struct ks_aws_client *client, const char *stream,
                      uint32_t page_size, struct ks_control **ret_control)
{
    struct ks_control *control = ks_alloc(sizeof(*control));

    if (control == NULL)
        return KS_FAIL(NO_MEMORY);
    control->loop = loop;
    control->client = client;
    control->stream = stream;
    control->page_size = page_size == 0 ? KS_LISTING_PAGE : page_size;
    ks_health_init(&control->health);
    control->probe.due = probe_due;
    control->probe_ms = PROBE_MS_MIN;
    ks_prng_init(&control->prng, ks_random_u64());
    ks_detail_set(&control->detail, "stream %s: not asked yet", stream);
    ks_link_init(&control->questions);
    *ret_control = control;
    return KS_OK;
}

void ks_control_free(struct ks_control *control)
{
    if (control == NULL)
        return;
    while (!ks_list_empty(&control->questions)) {
        struct question *question = KS_LIST_ENTRY(control->questions.next, struct question, link);
        if (question->call != NULL)
            ks_aws_cancel(question->call);
        finish(question);
    }
    ks_loop_timer_clear(control->loop, &control->probe);
    ks_free(control);
}
