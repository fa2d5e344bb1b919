/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/kinesis/consumer.h"

#include "aws_rig.h"
#include "canned.h"
#include "ks_test.h"

#include <stdio.h>
#include <string.h>

#define STREAM_ARN "arn:aws:kinesis:us-east-1:123456789012:stream/demo"
#define ARN STREAM_ARN "/consumer/app:1"
#define SUMMARY                                                                                    \
    "{\"StreamDescriptionSummary\":{\"StreamARN\":\"" STREAM_ARN "\",\"StreamStatus\":\"ACTIVE\"}" \
    "}"
#define CONSUMER(status)                                                                           \
    "{\"ConsumerName\":\"app\",\"ConsumerARN\":\"" ARN "\",\"ConsumerStatus\":\"" status "\"}"
#define DESCRIPTION(status) "{\"ConsumerDescription\":" CONSUMER(status) "}"
#define REGISTERED(status) "{\"Consumer\":" CONSUMER(status) "}"

static const char NOT_FOUND[] =
    "{\"__type\":\"ResourceNotFoundException\",\"message\":\"not found\"}";

struct rig {
    struct ks_loop *loop;
    struct canned canned;
    struct aws_rig aws;
    struct ks_control *control;
    struct ks_consumer *consumer;
};

struct wait {
    struct ks_consumer_waiter waiter;
    uint32_t times;
    ks_err err;
    struct ks_detail detail;
};

static struct rig *born(const char *stream, const char *name)
{
    static struct rig rig;
    struct ks_consumer_options options = {.stream = stream, .name = name};

    EXPECT_OK(ks_loop_new(&rig.loop));
    canned_open(&rig.canned, rig.loop);
    aws_rig_open_with(&rig.aws, rig.loop, KS_AWS_KINESIS, rig.canned.url,
                      &(struct aws_rig_options){.attempts_max = 1});
    EXPECT_OK(ks_control_new(rig.loop, rig.aws.client, stream, 0, &rig.control));
    options.loop = rig.loop;
    options.client = rig.aws.client;
    options.control = rig.control;
    EXPECT_OK(ks_consumer_new(&options, &rig.consumer, NULL));
    return &rig;
}

static void end(struct rig *rig)
{
    ks_control_free(rig->control);
    ks_consumer_free(rig->consumer);
    aws_rig_close(&rig->aws);
    canned_close(&rig->canned);
    ks_loop_free(rig->loop);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

static void say(struct rig *rig, const char *operation, int status, const char *body)
{
    canned_say(&rig->canned,
               (struct canned_answer){.operation = operation, .status = status, .body = body});
}

static void keep(struct ks_consumer_waiter *waiter, ks_err err, const struct ks_detail *detail)
{
    struct wait *wait = KS_LIST_ENTRY(waiter, struct wait, waiter);

    wait->times++;
    wait->err = err;
    wait->detail = *detail;
}

static void begin_wait(struct rig *rig, struct wait *wait)
{
    *wait = (struct wait){.waiter = {.done = keep}};
    ks_consumer_wait(rig->consumer, &wait->waiter);
    EXPECT_EQ_U64(wait->times, 0);
}

static void end_wait(struct rig *rig, struct wait *wait)
{
    for (int at = 0; wait->times == 0 && at < 200; at++)
        ks_loop_turn(rig->loop, ks_span_ms(100));
    EXPECT_EQ_U64(wait->times, 1);
}

static void expect_arn(struct rig *rig)
{
    struct wait wait;

    begin_wait(rig, &wait);
    end_wait(rig, &wait);
    EXPECT_STR(ks_ok(wait.err) ? "" : wait.detail.text, "");
    EXPECT_STR(ks_consumer_arn(rig->consumer), ARN);
}

static void expect_failure(struct rig *rig, enum ks_err_code code, const char *part)
{
    struct wait wait;

    begin_wait(rig, &wait);
    end_wait(rig, &wait);
    EXPECT_EQ_I64(wait.err.code, code);
    EXPECT_CONTAINS(wait.detail.text, part);
    EXPECT(ks_consumer_arn(rig->consumer) == NULL);
}

TEST(one_that_is_there_is_used)
{
    struct rig *rig = born("demo", "app");

    EXPECT(ks_consumer_arn(rig->consumer) == NULL);
    say(rig, "DescribeStreamSummary", 200, SUMMARY);
    say(rig, "DescribeStreamConsumer", 200, DESCRIPTION("ACTIVE"));
    expect_arn(rig);
    EXPECT_CONTAINS(rig->canned.requests[1].body,
                    "{\"StreamARN\":\"" STREAM_ARN "\",\"ConsumerName\":\"app\"}");
    end(rig);
}

TEST(one_that_is_not_there_is_registered_and_waited_for)
{
    struct rig *rig = born(STREAM_ARN, "app");

    say(rig, "DescribeStreamConsumer", 400, NOT_FOUND);
    say(rig, "RegisterStreamConsumer", 200, REGISTERED("CREATING"));
    say(rig, "DescribeStreamConsumer", 200, DESCRIPTION("CREATING"));
    say(rig, "DescribeStreamConsumer", 200, DESCRIPTION("ACTIVE"));
    expect_arn(rig);
    end(rig);
}

TEST(another_worker_that_registers_it_first_is_no_failure)
{
    struct rig *rig = born(STREAM_ARN, "app");

    say(rig, "DescribeStreamConsumer", 400, NOT_FOUND);
    say(rig, "RegisterStreamConsumer", 400,
        "{\"__type\":\"ResourceInUseException\",\"message\":\"already exists\"}");
    say(rig, "DescribeStreamConsumer", 200, DESCRIPTION("ACTIVE"));
    expect_arn(rig);
    end(rig);
}

TEST(one_that_is_being_deleted_is_waited_for_and_registered_anew)
{
    struct rig *rig = born(STREAM_ARN, "app");

    say(rig, "DescribeStreamConsumer", 200, DESCRIPTION("DELETING"));
    say(rig, "DescribeStreamConsumer", 400, NOT_FOUND);
    say(rig, "RegisterStreamConsumer", 200, REGISTERED("ACTIVE"));
    expect_arn(rig);
    end(rig);
}

TEST(a_stream_that_may_have_no_more_of_them_is_told_and_asked_again)
{
    struct rig *rig = born(STREAM_ARN, "app");

    say(rig, "DescribeStreamConsumer", 400, NOT_FOUND);
    say(rig, "RegisterStreamConsumer", 400,
        "{\"__type\":\"LimitExceededException\",\"message\":\"limit of 20\"}");
    say(rig, "DescribeStreamConsumer", 200, DESCRIPTION("ACTIVE"));
    expect_failure(rig, KS_ERR_INVALID, "no more consumers; deregister one, or name one");
    expect_arn(rig);
    EXPECT(ks_span_to_ms(
               ks_instant_since(rig->canned.requests[2].at, rig->canned.requests[1].at)) >= 450);
    end(rig);
}

TEST(what_is_not_allowed_is_told_to_all_who_wait)
{
    struct rig *rig = born(STREAM_ARN, "app");
    struct wait waits[3];

    say(rig, "DescribeStreamConsumer", 400,
        "{\"__type\":\"AccessDeniedException\",\"message\":\"not authorized\"}");
    for (int at = 0; at < 3; at++)
        begin_wait(rig, &waits[at]);
    ks_consumer_unwait(rig->consumer, &waits[1].waiter);
    end_wait(rig, &waits[0]);
    end_wait(rig, &waits[2]);
    EXPECT_EQ_U64(waits[1].times, 0);
    EXPECT_ERR(waits[2].err, DENIED);
    EXPECT_CONTAINS(waits[2].detail.text, "allow kinesis:DescribeStreamConsumer to this role "
                                          "(kinesis-sidecar iam-policy): not authorized");
    /* And nobody asks when nobody waits. */
    for (int at = 0; at < 15; at++)
        ks_loop_turn(rig->loop, ks_span_ms(100));
    end(rig);
}

TEST(an_arn_must_be_one_of_the_stream)
{
    struct rig *rig = born("demo", ARN);

    say(rig, "DescribeStreamSummary", 200,
        "{\"StreamDescriptionSummary\":{\"StreamARN\":"
        "\"arn:aws:kinesis:us-east-1:210987654321:stream/demo\",\"StreamStatus\":\"ACTIVE\"}}");
    expect_failure(rig, KS_ERR_INVALID, ARN " is none of arn:aws:kinesis:us-east-1:210987654321:");
    say(rig, "DescribeStreamSummary", 200, SUMMARY);
    expect_arn(rig);
    end(rig);
}

TEST(an_arn_is_taken_at_its_word_until_somebody_doubts_it)
{
    struct rig *rig = born(STREAM_ARN, ARN);

    EXPECT_STR(ks_consumer_arn(rig->consumer), ARN);
    ks_consumer_doubt(rig->consumer);
    EXPECT(ks_consumer_arn(rig->consumer) == NULL);
    say(rig, "DescribeStreamConsumer", 200, DESCRIPTION("ACTIVE"));
    expect_arn(rig);
    EXPECT_CONTAINS(rig->canned.requests[0].body, "{\"ConsumerARN\":\"" ARN "\"}");
    ks_consumer_doubt(rig->consumer);
    say(rig, "DescribeStreamConsumer", 400, NOT_FOUND);
    expect_failure(rig, KS_ERR_INVALID, "is not there; name one that is with --consumer");
    end(rig);
}

TEST(an_answer_that_says_nothing_is_a_failure_of_the_server)
{
    struct rig *rig = born(STREAM_ARN, "app");

    say(rig, "DescribeStreamConsumer", 200, "{\"ConsumerDescription\":{}}");
    expect_failure(rig, KS_ERR_SERVER, "cannot be read");
    end(rig);
}

TEST(an_arn_of_nothing_is_a_failure_of_the_server)
{
    struct rig *rig = born(STREAM_ARN, "app");

    say(rig, "DescribeStreamConsumer", 200,
        "{\"ConsumerDescription\":{\"ConsumerARN\":\"\",\"ConsumerStatus\":\"ACTIVE\"}}");
    expect_failure(rig, KS_ERR_SERVER, "cannot be read");
    EXPECT(ks_consumer_arn(rig->consumer) == NULL);
    end(rig);
}

TEST(names_that_cannot_be_are_refused)
{
    static const char *const names[] = {"", "a b", "a/b", "arn"};
    struct ks_consumer *consumer;
    struct ks_detail detail;
    char longest[KS_CONSUMER_NAME_MAX + 2];

    memset(longest, 'a', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    for (size_t at = 0; at < 4; at++) {
        struct ks_consumer_options options = {.stream = "demo",
                                              .name = at == 3 ? longest : names[at]};
        EXPECT_ERR(ks_consumer_new(&options, &consumer, &detail), INVALID);
        EXPECT_CONTAINS(detail.text, "--consumer");
    }
}

TEST(it_is_freed_while_it_asks)
{
    for (int turns = 0; turns < 8; turns++) {
        struct rig *rig = born("demo", "app");
        struct wait wait;

        begin_wait(rig, &wait);
        if (turns > 0)
            canned_say(&rig->canned,
                       (struct canned_answer){.operation = "DescribeStreamSummary", .never = true});
        for (int at = 0; turns > 0 && rig->canned.request_count == 0 && at < 100; at++)
            ks_loop_turn(rig->loop, ks_span_ms(10));
        ks_consumer_unwait(rig->consumer, &wait.waiter);
        end(rig);
        EXPECT_EQ_U64(wait.times, 0);
    }
}
