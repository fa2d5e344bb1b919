/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/sinks/sink.h"

#include "adapters/letter.h"
#include "adapters/sinks/confirmed.h"
#include "adapters/sinks/protocol.h"
#include "base/budget.h"
#include "base/log.h"
#include "base/metrics.h"

#include <assert.h>
#include <stdio.h>

enum {
    WRITE_MS =
        30000, /* Of all requests of a write; then its letters are for the caller to write again. */
    REQUEST_MS = 20000, /* Of a request with the attempts of the client. */
    ATTEMPT_MS = 10000,
    WORK_BYTES_MAX = 64 << 20 /* Letters of a write: 64 of at most 1 MiB. */
};

struct sink {
    struct ks_dead_letters port;
    struct ks_loop *loop;
    struct ks_aws_client *client;
    const struct ks_sink_protocol *protocol;
    struct ks_sink_target target;
    char *text;
    char *application;
    char *subscription;
    char *region;
    struct ks_link writes;
    struct ks_sink_request request; /* Of whichever write sends one. */
    struct ks_bytes document;       /* Of the entry that is being added. */
    struct ks_sink_confirmed confirmed;
};

enum fate { FATE_PENDING, FATE_SENT, FATE_TAKEN, FATE_FAILED };

struct item {
    enum fate fate;
    bool bare;
    size_t data_bytes;
};

struct write {
    struct sink *sink;
    struct ks_link link;
    struct ks_letter_list list;
    struct item items[KS_BURY_MAX];
    uint32_t sent[KS_SINK_ENTRIES_MAX]; /* Items of the request, in its order. */
    uint32_t sent_count;
    bool singly;    /* One entry in each request. */
    uint32_t bare;  /* Letters that were taken without their data, */
    size_t largest; /* and the most bytes that a record of them has. */
    ks_instant deadline;
    struct ks_aws_call *call;
    struct ks_timer timer; /* Begins the first request in a later turn. */
    struct ks_letters_answer answer;
    ks_letters_answered *answered;
    void *arg;
};

static void go_on(struct write *write);

/* ---- Ends of writes ---- */

static void write_free(struct write *write)
{
    ks_loop_timer_clear(write->sink->loop, &write->timer);
    if (write->call != NULL)
        ks_aws_cancel(write->call);
    ks_list_remove(&write->link);
    ks_letter_list_free(&write->list);
    ks_free(write);
}

/* Notes why a letter is not sent; the first reason is reported. */
static void note_failure(struct write *write, const char *why)
{
    if (write->answer.outcome == KS_DONE)
        ks_detail_set(&write->answer.detail, "%s", why);
    write->answer.outcome = KS_UNKNOWN;
}

static void remember(struct write *write)
{
    struct ks_sink_confirmed *const confirmed = &write->sink->confirmed;

    for (uint32_t at = 0; at < write->list.count; at++) {
        if (write->answer.outcome == KS_DONE)
            ks_sink_confirmed_remove(confirmed, write->list.letters[at].id);
        else if (write->items[at].fate == FATE_TAKEN)
            ks_sink_confirmed_add(confirmed, write->list.letters[at].id);
    }
}

static void log_bare(const struct write *write)
{
    const struct sink *const sink = write->sink;

    if (write->bare > 0)
        ks_warn("dead letters: %u sent to %s without the data of their records (largest record %zu "
                "bytes, a message holds at most %zu bytes); the records stay in the stream until "
                "its retention ends",
                write->bare, sink->text, write->largest, sink->protocol->bytes_max);
}

static void finish(struct write *write)
{
    log_bare(write);
    for (uint32_t at = 0; at < write->list.count; at++)
        if (write->items[at].fate != FATE_TAKEN)
            note_failure(write, "a dead letter was not confirmed");
    remember(write);
    write->answer.letters = write->list.letters;
    write->answer.count = write->answer.outcome == KS_DONE ? write->list.count : 0;
    write->answered(write->arg, &write->answer);
    write_free(write);
}

/* ---- Failures ---- */

/* What somebody must do where it is about access or about what is not there. */
static void explain(const struct sink *sink, ks_err err, const char *said,
                    struct ks_detail *ret_detail)
{
    const struct ks_sink_protocol *const protocol = sink->protocol;

    if (ks_err_is(err, KS_ERR_DENIED))
        ks_detail_set(ret_detail,
                      "access denied: allow %s to this role (kinesis-sidecar iam-policy; of an "
                      "encrypted %s with "
                      "--dead-letters-kms-key ARN): %s",
                      protocol->permission, protocol->noun, said);
    else if (ks_err_is(err, KS_ERR_NOT_FOUND))
        ks_detail_set(ret_detail,
                      "no such %s in region %s: create it, or change --dead-letters: %s",
                      protocol->noun, sink->region, said);
    else
        ks_detail_set(ret_detail, "%s", said);
}

static void fail(struct write *write, ks_err err, const char *said)
{
    struct ks_detail detail;

    explain(write->sink, err, said[0] == '\0' ? ks_err_text(err) : said, &detail);
    note_failure(write, detail.text);
}

/* Takes the data from a letter. False: it has none. */
static bool strip(struct write *write, uint32_t at)
{
    struct ks_letter *const letter = &write->list.letters[at];

    if (write->items[at].bare || letter->data.size == 0)
        return false;
    write->items[at].bare = true;
    letter->data = KS_VIEW("");
    return true;
}

/* A refused request is tried in smaller ones, then without data. False: it cannot be made smaller. */
static bool make_smaller(struct write *write)
{
    const bool several = write->sent_count > 1;
    bool smaller = several;

    for (uint32_t at = 0; at < write->sent_count; at++)
        write->items[write->sent[at]].fate = FATE_PENDING;
    if (several)
        write->singly = true;
    else
        smaller = strip(write, write->sent[0]);
    return smaller;
}

/* ---- Answers ---- */

static void confirm(struct write *write, uint32_t at)
{
    const struct item *const item = &write->items[at];

    write->items[at].fate = FATE_TAKEN;
    if (!item->bare)
        return;
    write->bare++;
    write->largest = item->data_bytes > write->largest ? item->data_bytes : write->largest;
    ks_metric_add_labelled(KS_METRIC_DEAD_LETTERS_BARE, write->sink->subscription, 1);
}

static void apply(struct write *write, uint32_t at, const struct ks_sink_result *result)
{
    if (result->taken) {
        confirm(write, at);
    } else if (ks_err_is(result->err, KS_ERR_INVALID) && strip(write, at)) {
        write->items[at].fate = FATE_PENDING;
    } else {
        write->items[at].fate = FATE_FAILED;
        fail(write, ks_ok(result->err) ? KS_FAIL(MALFORMED) : result->err,
             ks_ok(result->err) ? "the answer does not confirm each message" : result->detail.text);
    }
}

static void read_results(struct write *write, ks_view body)
{
    struct ks_sink_result results[KS_SINK_ENTRIES_MAX];
    const ks_err err = write->sink->protocol->read(body, write->sent_count, results);

    if (!ks_ok(err)) {
        fail(write, err, "the answer cannot be read");
        finish(write);
        return;
    }
    for (uint32_t at = 0; at < write->sent_count; at++)
        apply(write, write->sent[at], &results[at]);
    go_on(write);
}

static void came(void *arg, const struct ks_aws_answer *answer)
{
    struct write *const write = arg;

    write->call = NULL;
    if (ks_ok(answer->err)) {
        read_results(write, answer->body);
    } else if (ks_err_is(answer->err, KS_ERR_INVALID) && answer->status >= 400 &&
               make_smaller(write)) {
        go_on(write);
    } else {
        fail(write, answer->err, answer->detail.text);
        finish(write);
    }
}

/* ---- Requests ---- */

static struct ks_sink_letter sent_letter(const struct write *write, uint32_t at)
{
    return (struct ks_sink_letter){.application = write->sink->application,
                                   .letter = &write->list.letters[at],
                                   .data_bytes = write->items[at].data_bytes,
                                   .bare = write->items[at].bare};
}

/* Makes the document of the item; without data if the message is too large for the destination. */
static ks_err make_document(struct write *write, uint32_t at, struct ks_sink_attributes *attributes,
                            size_t *ret_size)
{
    struct sink *const sink = write->sink;

    for (;;) {
        const struct ks_sink_letter letter = sent_letter(write, at);

        ks_bytes_clear(&sink->document);
        KS_TRY(ks_sink_document(&sink->document, &letter));
        ks_sink_attributes(&letter, attributes);
        *ret_size = sink->document.size + (sink->protocol->service == KS_AWS_KINESIS
                                               ? letter.letter->partition_key.size
                                               : ks_sink_attributes_size(attributes));
        if (*ret_size <= sink->protocol->bytes_max || !strip(write, at))
            return KS_OK;
    }
}

/* Adds the item to the request, unless the request would be too large; `size` is that of its messages. */
static ks_err add_item(struct write *write, uint32_t at, size_t *size, bool *ret_added)
{
    struct sink *const sink = write->sink;
    const struct ks_sink_protocol *const protocol = sink->protocol;
    struct ks_sink_attributes attributes;
    size_t more;

    KS_TRY(make_document(write, at, &attributes, &more));
    *ret_added = write->sent_count == 0 || *size + more <= protocol->bytes_max;
    if (!*ret_added)
        return KS_OK;
    const struct ks_sink_letter letter = sent_letter(write, at);
    const struct ks_sink_entry entry = {ks_bytes_view(&sink->document), &letter, &attributes};
    KS_TRY(protocol->add(&sink->request, write->sent_count, &entry));
    write->sent[write->sent_count++] = at;
    *size += more;
    return KS_OK;
}

/* Writes a request of the next letters that are pending. */
static ks_err write_request(struct write *write)
{
    struct sink *const sink = write->sink;
    const uint32_t most = write->singly ? 1 : sink->protocol->entries_max;
    bool added = true;
    size_t size = 0;

    write->sent_count = 0;
    KS_TRY(sink->protocol->begin(&sink->request, &sink->target));
    for (uint32_t at = 0; at < write->list.count && write->sent_count < most && added; at++)
        if (write->items[at].fate == FATE_PENDING)
            KS_TRY(add_item(write, at, &size, &added));
    return sink->protocol->end(&sink->request);
}

static ks_err post(struct write *write)
{
    struct sink *const sink = write->sink;
    const ks_span left = ks_instant_since(write->deadline, ks_loop_now(sink->loop));
    const struct ks_aws_request request = {
        .operation = sink->protocol->operation,
        .body = ks_bytes_view(&sink->request.body),
        .timeout = ks_span_ms(ATTEMPT_MS),
        .total = left.us < ks_span_ms(REQUEST_MS).us ? left : ks_span_ms(REQUEST_MS),
        .response_max = KS_SINK_ANSWER_MAX,
        .done = came,
        .arg = write,
    };

    if (left.us <= 0)
        return KS_FAIL(TIMEOUT);
    KS_TRY(ks_aws_call(sink->client, &request, &write->call));
    for (uint32_t at = 0; at < write->sent_count; at++)
        write->items[write->sent[at]].fate = FATE_SENT;
    return KS_OK;
}

/* Sends the next letters; finishes the write when there are none. */
static void go_on(struct write *write)
{
    ks_err err = write_request(write);

    if (ks_ok(err) && write->sent_count > 0) {
        err = post(write);
        if (ks_ok(err))
            return;
    }
    if (!ks_ok(err))
        fail(write, err, "");
    finish(write);
}

static void due(struct ks_timer *timer)
{
    go_on(KS_LIST_ENTRY(timer, struct write, timer));
}

/* ---- The port ---- */

/* Copies a letter; data that no message can hold stays behind. */
static ks_err add_letter(struct write *write, const struct ks_letter *letter)
{
    struct item *const item = &write->items[write->list.count];
    struct ks_letter copy = *letter;

    item->data_bytes = letter->data.size;
    item->bare = letter->data.size > write->sink->protocol->bytes_max / 4 * 3;
    if (item->bare)
        copy.data = KS_VIEW("");
    item->fate =
        ks_sink_confirmed_has(&write->sink->confirmed, letter->id) ? FATE_TAKEN : FATE_PENDING;
    return ks_letter_list_add(&write->list, &copy);
}

static ks_err new_write(struct sink *sink, const struct ks_letter *letters, uint32_t count,
                        struct write **ret_write)
{
    struct write *const write = ks_alloc(sizeof(*write));
    ks_err err;

    if (write == NULL)
        return KS_FAIL(NO_MEMORY);
    write->sink = sink;
    write->timer.due = due;
    write->answer.outcome = KS_DONE;
    write->deadline = ks_instant_add(ks_loop_now(sink->loop), ks_span_ms(WRITE_MS));
    ks_list_append(&sink->writes, &write->link);
    err = ks_letter_list_init(&write->list, count, WORK_BYTES_MAX);
    for (uint32_t at = 0; at < count && ks_ok(err); at++)
        err = add_letter(write, &letters[at]);
    if (!ks_ok(err)) {
        write_free(write);
        return err;
    }
    ks_letter_list_settle(&write->list);
    *ret_write = write;
    return KS_OK;
}

static void write_letters(struct ks_dead_letters *port, const struct ks_letter *letters,
                          uint32_t count, ks_letters_answered *answered, void *arg)
{
    struct sink *const sink = KS_LIST_ENTRY(port, struct sink, port);
    struct ks_letters_answer refused = {.outcome = KS_REFUSED};
    struct write *write;
    ks_err err;

    assert(count > 0 && count <= KS_BURY_MAX);
    err = new_write(sink, letters, count, &write);
    if (!ks_ok(err)) {
        ks_detail_set(&refused.detail, "%s", ks_err_text(err));
        answered(arg, &refused);
        return;
    }
    write->answered = answered;
    write->arg = arg;
    ks_loop_timer_set(sink->loop, &write->timer, ks_loop_now(sink->loop));
}

static void sink_free(struct sink *sink)
{
    ks_bytes_free(&sink->request.body);
    ks_bytes_free(&sink->document);
    ks_free(sink->text);
    ks_free(sink->application);
    ks_free(sink->subscription);
    ks_free(sink->region);
    ks_free(sink);
}

static void close_sink(struct ks_dead_letters *port)
{
    struct sink *const sink = KS_LIST_ENTRY(port, struct sink, port);

    while (!ks_list_empty(&sink->writes))
        write_free(KS_LIST_ENTRY(sink->writes.next, struct write, link));
    sink_free(sink);
}

enum ks_aws_service ks_sink_service(enum ks_sink_kind kind)
{
    return ks_sink_protocol_of(kind)->service;
}

static const struct ks_dead_letters_vtable vtable = {.write = write_letters, .close = close_sink};

ks_err ks_sink_open(const struct ks_sink_options *options, struct ks_dead_letters **ret_sink)
{
    struct sink *const sink = ks_alloc(sizeof(*sink));

    if (sink == NULL)
        return KS_FAIL(NO_MEMORY);
    sink->port.vtable = &vtable;
    sink->loop = options->loop;
    sink->client = options->client;
    sink->target = *options->target;
    sink->protocol = ks_sink_protocol_of(sink->target.kind);
    sink->text = ks_strdup(options->text);
    sink->application = ks_strdup(options->application);
    sink->subscription = ks_strdup(options->subscription);
    sink->region = ks_strdup(options->region);
    sink->port.sink = sink->text;
    ks_link_init(&sink->writes);
    ks_bytes_init(&sink->request.body, KS_SINK_BODY_MAX);
    ks_bytes_init(&sink->document, 2 * KS_SINK_SQS_BYTES_MAX);
    if (sink->text == NULL || sink->application == NULL || sink->subscription == NULL ||
        sink->region == NULL) {
        sink_free(sink);
        return KS_FAIL(NO_MEMORY);
    }
    *ret_sink = &sink->port;
    return KS_OK;
}
