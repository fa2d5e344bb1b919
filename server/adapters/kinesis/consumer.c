/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/kinesis/consumer.h"

#include "adapters/kinesis/back_off.h"
#include "adapters/kinesis/request.h"
#include "aws/json.h"
#include "base/digest.h"
#include "base/log.h"

#include <assert.h>
#include <stdio.h>

enum {
    TIMEOUT_MS = 10000,
    /* While it is CREATING or DELETING; 20 such questions a second are allowed, for all who ask. */
    LOOK_MS_MIN = 500,
    LOOK_MS_MAX = 5000,
    FAILED_MS_MIN = 1000,
    FAILED_MS_MAX = 30000
};

struct ks_consumer {
    struct ks_loop *loop;
    struct ks_aws_client *client;
    struct ks_control *control;
    const char *stream;
    char stream_arn[KS_ARN_MAX + 1];     /* "": not known yet. */
    char name[KS_CONSUMER_NAME_MAX + 1]; /* "": it was named by its ARN. */
    char arn[KS_CONSUMER_ARN_MAX + 1];   /* "": not known yet. */
    bool active;
    bool stood;  /* It was once; the log says so. */
    bool asking; /* A question is under way. */
    struct ks_aws_call *call;
    struct ks_timer timer; /* For the next one. */
    ks_instant not_before;
    struct ks_back_off failed;
    struct ks_back_off looking;
    char told[32]; /* The status that the log says. */
    struct ks_link waiters;
};

static const char *name_of(const struct ks_consumer *consumer)
{
    return consumer->name[0] != '\0' ? consumer->name : consumer->arn;
}

/* --- Outcomes --- */

static void tell(struct ks_consumer *consumer, ks_err err, const struct ks_detail *detail)
{
    struct ks_link waiters;

    /* Who is told may wait again. */
    ks_link_init(&waiters);
    while (!ks_list_empty(&consumer->waiters)) {
        struct ks_link *link = consumer->waiters.next;
        ks_list_remove(link);
        ks_list_append(&waiters, link);
    }
    while (!ks_list_empty(&waiters)) {
        struct ks_consumer_waiter *waiter =
            KS_LIST_ENTRY(waiters.next, struct ks_consumer_waiter, link);
        ks_list_remove(&waiter->link);
        waiter->done(waiter, err, detail);
    }
}

/* For those who wait. */
static void ask_in(struct ks_consumer *consumer, ks_span wait)
{
    consumer->not_before = ks_instant_add(ks_loop_now(consumer->loop), wait);
    if (!ks_list_empty(&consumer->waiters))
        ks_loop_timer_set(consumer->loop, &consumer->timer, consumer->not_before);
}

static void fail(struct ks_consumer *consumer, ks_err err, const struct ks_detail *detail)
{
    struct ks_detail why = *detail;

    /* To a reader that would mean its shard. */
    if (ks_err_is(err, KS_ERR_NOT_FOUND) || ks_err_is(err, KS_ERR_EXISTS))
        err = KS_FAIL(INVALID);
    consumer->told[0] = '\0';
    consumer->not_before =
        ks_instant_add(ks_loop_now(consumer->loop),
                       ks_back_off_wait(&consumer->failed, FAILED_MS_MIN, FAILED_MS_MAX));
    tell(consumer, err, &why);
}

static void stand(struct ks_consumer *consumer)
{
    static const struct ks_detail none = {""};

    consumer->active = true;
    consumer->told[0] = '\0';
    ks_back_off_end(&consumer->failed);
    ks_back_off_end(&consumer->looking);
    if (!consumer->stood)
        ks_info("stream %s: is read by its consumer %s", consumer->stream, name_of(consumer));
    consumer->stood = true;
    tell(consumer, KS_OK, &none);
}

/* What it is; said once, however often it is looked for. */
static void look_later(struct ks_consumer *consumer, ks_view status)
{
    if (!ks_view_equal(status, ks_view_text(consumer->told)))
        ks_info("stream %s: its consumer %s is %.*s; waiting until it is ACTIVE", consumer->stream,
                name_of(consumer), (int)status.size, (const char *)status.data);
    if (!ks_ok(ks_view_copy_text(status, consumer->told, sizeof(consumer->told))))
        consumer->told[0] = '\0';
    ask_in(consumer, ks_back_off_wait(&consumer->looking, LOOK_MS_MIN, LOOK_MS_MAX));
}

/* --- Questions --- */

static void ask(struct ks_consumer *consumer, const char *operation,
                void (*done)(void *arg, const struct ks_aws_answer *answer));

/* The consumer that `body` tells of in its member `name`. */
static void take(struct ks_consumer *consumer, ks_view body, const char *name)
{
    struct ks_json *document = NULL;
    struct ks_detail detail;
    ks_view arn = KS_VIEW_NONE;
    ks_view status = KS_VIEW_NONE;
    ks_err err = ks_json_parse(body, &document);
    const struct ks_json *told = ks_ok(err) ? ks_json_member(document, name) : NULL;

    if (ks_ok(err))
        err = ks_json_text(ks_json_member(told, "ConsumerARN"), &arn);
    if (ks_ok(err))
        err = ks_json_text(ks_json_member(told, "ConsumerStatus"), &status);
    if (ks_ok(err))
        err = arn.size == 0 ? KS_FAIL(MALFORMED)
                            : ks_view_copy_text(arn, consumer->arn, sizeof(consumer->arn));
    if (!ks_ok(err)) {
        ks_detail_set(&detail, "what Kinesis says of consumer %s cannot be read: %s",
                      name_of(consumer), ks_err_text(err));
        fail(consumer, ks_err_is(err, KS_ERR_NO_MEMORY) ? err : KS_FAIL(SERVER), &detail);
    } else if (ks_view_equal(status, KS_VIEW("ACTIVE"))) {
        stand(consumer);
    } else {
        look_later(consumer, status);
    }
    ks_json_free(document);
}

static void registered(void *arg, const struct ks_aws_answer *told)
{
    struct ks_consumer *consumer = arg;
    struct ks_detail detail = told->detail;

    consumer->call = NULL;
    consumer->asking = false;
    if (ks_ok(told->err)) {
        ks_info("stream %s: registered the consumer %s", consumer->stream, consumer->name);
        take(consumer, told->body, "Consumer");
        return;
    }
    /* Another worker was faster, or the stream is being changed. */
    if (ks_err_is(told->err, KS_ERR_EXISTS)) {
        ask_in(consumer, ks_back_off_wait(&consumer->looking, LOOK_MS_MIN, LOOK_MS_MAX));
        return;
    }
    if (told->failure == NULL || strcmp(told->failure->code, "LimitExceededException") != 0) {
        fail(consumer, told->err, &detail);
        return;
    }
    /* A throttle would have passed by now; this one passes when somebody does something. */
    ks_detail_set(&detail,
                  "the stream may have no more consumers; deregister one, or name one that is "
                  "there with --consumer: %s",
                  told->failure->message);
    fail(consumer, KS_FAIL(INVALID), &detail);
}

static void described(void *arg, const struct ks_aws_answer *told)
{
    struct ks_consumer *consumer = arg;
    struct ks_detail detail = told->detail;

    consumer->call = NULL;
    consumer->asking = false;
    if (ks_ok(told->err)) {
        take(consumer, told->body, "ConsumerDescription");
        return;
    }
    if (ks_err_is(told->err, KS_ERR_NOT_FOUND) && consumer->name[0] != '\0') {
        ask(consumer, "RegisterStreamConsumer", registered);
        return;
    }
    if (ks_err_is(told->err, KS_ERR_NOT_FOUND))
        ks_detail_set(&detail, "the consumer %s is not there; name one that is with --consumer",
                      consumer->arn);
    fail(consumer, told->err, &detail);
}

static ks_err send(struct ks_consumer *consumer, const char *operation, struct ks_bytes *body,
                   void (*done)(void *arg, const struct ks_aws_answer *answer))
{
    struct ks_aws_request request = {
        .operation = operation,
        .timeout = ks_span_ms(TIMEOUT_MS),
        .response_max = KS_JSON_BYTES_MAX,
        .done = done,
        .arg = consumer,
    };
    struct ks_writer json;

    ks_writer_begin_strict(&json, body);
    ks_writer_open(&json, '{');
    if (consumer->name[0] == '\0') {
        ks_writer_pair(&json, "ConsumerARN", ks_view_text(consumer->arn));
    } else {
        ks_writer_pair(&json, "StreamARN", ks_view_text(consumer->stream_arn));
        ks_writer_pair(&json, "ConsumerName", ks_view_text(consumer->name));
    }
    ks_writer_close(&json, '}');
    KS_TRY(ks_writer_end(&json));
    request.body = ks_bytes_view(body);
    return ks_aws_call(consumer->client, &request, &consumer->call);
}

static void ask(struct ks_consumer *consumer, const char *operation,
                void (*done)(void *arg, const struct ks_aws_answer *answer))
{
    struct ks_detail detail;
    struct ks_bytes body;

    ks_bytes_init(&body, KS_KINESIS_REQUEST_MAX);
    ks_err err = send(consumer, operation, &body, done);
    ks_bytes_free(&body);
    consumer->asking = ks_ok(err);
    if (ks_ok(err))
        return;
    ks_detail_set(&detail, "%s could not be sent: %s", operation, ks_err_text(err));
    fail(consumer, err, &detail);
}

/* Another account may have a stream of the same name, with shards of the same names. */
static bool is_of(const struct ks_consumer *consumer, const char *stream_arn)
{
    ks_view stream = ks_view_text(stream_arn);

    return ks_view_starts(ks_view_text(consumer->arn), stream) && consumer->arn[stream.size] == '/';
}

static void stream_described(void *arg, const struct ks_describe_answer *answer)
{
    struct ks_consumer *consumer = arg;
    bool by_name = consumer->name[0] != '\0';
    struct ks_detail detail;

    consumer->asking = false;
    if (!ks_ok(answer->err)) {
        fail(consumer, answer->err, &answer->detail);
        return;
    }
    if (!by_name && !is_of(consumer, answer->stream_arn)) {
        ks_detail_set(&detail, "the consumer %s is none of %s; name one that is with --consumer",
                      consumer->arn, answer->stream_arn);
        fail(consumer, KS_FAIL(INVALID), &detail);
        return;
    }
    memcpy(consumer->stream_arn, answer->stream_arn, sizeof(consumer->stream_arn));
    if (by_name)
        ask(consumer, "DescribeStreamConsumer", described);
    else
        stand(consumer);
}

static void timer_due(struct ks_timer *timer)
{
    struct ks_consumer *consumer = KS_LIST_ENTRY(timer, struct ks_consumer, timer);

    assert(!consumer->asking);
    if (consumer->stream_arn[0] != '\0') {
        ask(consumer, "DescribeStreamConsumer", described);
        return;
    }
    consumer->asking = true;
    ks_control_describe(consumer->control, stream_described, consumer);
}

/* --- For readers --- */

const char *ks_consumer_arn(const struct ks_consumer *consumer)
{
    return consumer->active ? consumer->arn : NULL;
}

void ks_consumer_wait(struct ks_consumer *consumer, struct ks_consumer_waiter *waiter)
{
    ks_instant now = ks_loop_now(consumer->loop);

    assert(!consumer->active);
    ks_list_append(&consumer->waiters, &waiter->link);
    if (!consumer->asking)
        ks_loop_timer_set(consumer->loop, &consumer->timer,
                          ks_instant_max(now, consumer->not_before));
}

void ks_consumer_unwait(struct ks_consumer *consumer, struct ks_consumer_waiter *waiter)
{
    ks_list_remove(&waiter->link);
    if (ks_list_empty(&consumer->waiters))
        ks_loop_timer_clear(consumer->loop, &consumer->timer);
}

void ks_consumer_doubt(struct ks_consumer *consumer)
{
    consumer->active = false;
}

/* --- Its life --- */

static bool is_name(ks_view name)
{
    for (size_t at = 0; at < name.size; at++) {
        uint8_t byte = name.data[at];
        bool good = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
                    (byte >= '0' && byte <= '9') || byte == '_' || byte == '.' || byte == '-';
        if (!good)
            return false;
    }
    return name.size > 0 && name.size <= KS_CONSUMER_NAME_MAX;
}

static ks_err set_name(struct ks_consumer *consumer, const char *name, struct ks_detail *detail)
{
    ks_view text = ks_view_text(name);

    if (ks_is_arn(name) && text.size <= KS_CONSUMER_ARN_MAX) {
        /* The options were checked: it is of a stream that is named by its ARN. */
        consumer->active = consumer->stream_arn[0] != '\0';
        return ks_view_copy_text(text, consumer->arn, sizeof(consumer->arn));
    }
    if (is_name(text))
        return ks_view_copy_text(text, consumer->name, sizeof(consumer->name));
    return ks_err_because(KS_FAIL(INVALID), detail,
                          "a consumer is named by an ARN, or by 1 to %d letters, digits, and any "
                          "of _.-; name one with --consumer",
                          KS_CONSUMER_NAME_MAX);
}

ks_err ks_consumer_new(const struct ks_consumer_options *options, struct ks_consumer **ret_consumer,
                       struct ks_detail *detail)
{
    struct ks_consumer *consumer = ks_alloc(sizeof(*consumer));

    if (consumer == NULL)
        return KS_FAIL(NO_MEMORY);
    consumer->loop = options->loop;
    consumer->client = options->client;
    consumer->control = options->control;
    consumer->stream = options->stream;
    consumer->timer.due = timer_due;
    consumer->not_before = KS_LONG_AGO;
    ks_back_off_init(&consumer->failed, ks_random_u64());
    ks_back_off_init(&consumer->looking, ks_random_u64());
    ks_link_init(&consumer->waiters);
    if (ks_is_arn(options->stream))
        (void)snprintf(consumer->stream_arn, sizeof(consumer->stream_arn), "%s", options->stream);
    ks_err err = set_name(consumer, options->name, detail);
    if (!ks_ok(err)) {
        ks_free(consumer);
        return err;
    }
    *ret_consumer = consumer;
    return KS_OK;
}

void ks_consumer_free(struct ks_consumer *consumer)
{
    if (consumer == NULL)
        return;
    assert(ks_list_empty(&consumer->waiters));
    if (consumer->call != NULL)
        ks_aws_cancel(consumer->call);
    ks_loop_timer_clear(consumer->loop, &consumer->timer);
    ks_free(consumer);
}
