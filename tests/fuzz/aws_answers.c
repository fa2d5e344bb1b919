/* SPDX-License-Identifier: Apache-2.0 */
/* aws_answers.c - any bytes as what AWS says about a table, a stream, a consumer and a place in a shard. This file is
 * the client: the first byte says who asks, one of 0xFF is where an answer ends, and one that begins with '!' is an
 * error. Who asked is answered, what he took is whole, and nothing is kept.
 */
#include "aws.h"

#include "adapters/dynamodb/table.h"
#include "adapters/kinesis/consumer.h"
#include "adapters/kinesis/polling.h"
#include "base/log.h"

#include <fcntl.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TURNS_MAX = 40 };

static struct ks_loop *loop;

static bool anybody_asks(void)
{
    for (size_t at = 0; at < AWS_CALLS_MAX; at++)
        if (calls[at].open)
            return true;
    return false;
}

/* Answers what is asked until nobody asks or there is nothing left to say. */
static void converse(ks_view rest)
{
    for (int turn = 0; turn < TURNS_MAX; turn++) {
        bool any = false;

        for (size_t at = 0; at < AWS_CALLS_MAX; at++) {
            if (!calls[at].open || rest.data == NULL)
                continue;
            give(&calls[at], ks_view_cut(&rest, 0xFF));
            any = true;
        }
        ks_loop_turn(loop, ks_span_ms(0));
        if (!any && (rest.data == NULL || (turn > 1 && !anybody_asks())))
            return;
    }
}

/* --- Who asks --- */

static void ask_table(ks_view answers, const char *key)
{
    struct ks_dynamodb_table table;
    struct ks_detail detail;

    if (!ks_ok(ks_dynamodb_table_open(&table, loop, &client, "lease table", "application", key,
                                      false, NULL, NULL, &detail)))
        abort();
    converse(answers);
    assert((table.state == KS_STORE_READY) == (table.detail.text[0] == '\0'));
    assert(ks_view_is_utf8(ks_view_text(table.detail.text)));
    ks_dynamodb_table_gone(&table);
    ks_dynamodb_table_close(&table);
}

static void on_described(void *arg, const struct ks_describe_answer *answer)
{
    (void)arg;
    assert(!ks_ok(answer->err) || memchr(answer->stream_arn, '\0', sizeof(answer->stream_arn)));
    assert(ks_ok(answer->err) || answer->detail.text[0] != '\0');
}

struct wait {
    struct ks_consumer_waiter waiter;
    bool waiting;
};

static void on_consumer(struct ks_consumer_waiter *waiter, ks_err err,
                        const struct ks_detail *detail)
{
    struct wait *wait = KS_LIST_ENTRY(waiter, struct wait, waiter);

    wait->waiting = false;
    assert(!ks_err_is(err, KS_ERR_NOT_FOUND));
    assert(ks_ok(err) || detail->text[0] != '\0');
}

static void ask_consumer(ks_view answers, const char *stream, const char *name)
{
    struct ks_consumer_options options = {
        .loop = loop, .client = &client, .stream = stream, .name = name};
    struct wait wait = {.waiter.done = on_consumer, .waiting = true};
    struct ks_consumer *consumer = NULL;

    if (!ks_ok(ks_control_new(loop, &client, stream, 0, &options.control)) ||
        !ks_ok(ks_consumer_new(&options, &consumer, NULL)))
        abort();
    ks_consumer_doubt(consumer);
    ks_consumer_wait(consumer, &wait.waiter);
    ks_loop_turn(loop, ks_span_ms(0));
    ks_control_describe(options.control, on_described, NULL);
    converse(answers);
    const char *arn = ks_consumer_arn(consumer);
    assert(arn == NULL || !wait.waiting);
    /* SubscribeToShard asks with it. */
    assert(arn == NULL || arn[0] != '\0');
    if (wait.waiting)
        ks_consumer_unwait(consumer, &wait.waiter);
    ks_control_free(options.control);
    ks_consumer_free(consumer);
}

static void on_read(void *arg, const struct ks_read_answer *answer)
{
    bool *reading = arg;

    *reading = false;
    assert(ks_ok(answer->err) || answer->detail.text[0] != '\0');
    if (ks_ok(answer->err)) {
        struct ks_batch batch = answer->batch;
        ks_batch_free(&batch);
    }
}

static void ask_reader(ks_view answers, enum ks_position_kind kind)
{
    const struct ks_position from = {
        .kind = kind, .sequence = "200", .sub_sequence = -1, .timestamp_ms = 1795219200123};
    struct ks_stream_source *source = NULL;
    struct ks_reader *reader = NULL;
    struct ks_budget budget;
    bool reading = true;

    ks_budget_init(&budget, 64 << 20);
    if (!ks_ok(ks_kinesis_source_open(loop, &client, "demo", &source, NULL)) ||
        !ks_ok(source->vtable->open(source, "shardId-000000000000", &from, &budget, &reader)))
        abort();
    source->vtable->read(reader, 100, 1 << 20, on_read, &reading);
    ks_loop_turn(loop, ks_span_ms(0));
    converse(answers);
    source->vtable->close_reader(reader);
    source->vtable->close(source);
    assert(budget.used == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char arn[] = "arn:aws:kinesis:us-east-1:123456789012:stream/demo";
    static const char consumer[] =
        "arn:aws:kinesis:us-east-1:123456789012:stream/demo/consumer/app:1";
    ks_view answers = size == 0 ? KS_VIEW_NONE : ks_view_of(data + 1, size - 1);

    if (loop == NULL) {
        ks_log_open(open("/dev/null", O_WRONLY | O_CLOEXEC), KS_LOG_DEBUG, KS_LOG_TEXT);
        if (!ks_ok(ks_loop_new(&loop)))
            abort();
    }
    int64_t live = ks_alloc_live();
    switch (size == 0 ? 0 : *data % 7) {
    case 0: ask_table(answers, NULL); break;
    case 1: ask_table(answers, "ShardID"); break;
    case 2: ask_consumer(answers, "demo", "app"); break;
    case 3: ask_consumer(answers, arn, "app"); break;
    case 4: ask_consumer(answers, arn, consumer); break;
    case 5: ask_reader(answers, KS_POSITION_LATEST); break;
    case 6: ask_reader(answers, KS_POSITION_AFTER_SEQUENCE); break;
    }
    assert(!anybody_asks());
    assert(ks_alloc_live() == live);
    return 0;
}
