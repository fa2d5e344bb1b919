/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/sinks/sink.h"

#include "ks_test.h"

#include "adapters/sinks/protocol.h"
#include "aws_rig.h"
#include "base/budget.h"
#include "base/log.h"
#include "base/metrics.h"
#include "http_script.h"

#include <stdio.h>
#include <unistd.h>

enum { LETTERS = 64 };

static struct ks_loop *loop;
static struct aws_rig aws;
static struct http_script *script;
static struct ks_dead_letters *sink;
static int64_t live;

static struct ks_letter letters[LETTERS];
static char ids[LETTERS][40];
static int answers;
static struct ks_letters_answer heard;

static void begin(const char *text, const struct http_step *steps, size_t count)
{
    struct ks_sink_target target;
    const struct aws_rig_options options = {.attempts_max = 1};

    live = ks_alloc_live();
    ks_log_open(STDERR_FILENO, KS_LOG_INFO, KS_LOG_TEXT);
    EXPECT_OK(ks_loop_new(&loop));
    EXPECT_OK(ks_sink_target_read(text, &target, NULL));
    script = http_script_start(steps, count);
    aws_rig_open_with(&aws, loop, ks_sink_service(target.kind), http_script_url(script), &options);
    EXPECT_OK(ks_sink_open(&(const struct ks_sink_options){.loop = loop,
                                                           .client = aws.client,
                                                           .target = &target,
                                                           .text = text,
                                                           .application = "app",
                                                           .subscription = "sub",
                                                           .region = "eu-west-1"},
                           &sink));
    for (uint32_t at = 0; at < LETTERS; at++) {
        (void)snprintf(ids[at], sizeof(ids[at]), "shardId-0.%u.0", 100 + at);
        letters[at] = (struct ks_letter){.id = ks_view_text(ids[at]),
                                         .stream = KS_VIEW("orders"),
                                         .shard_id = KS_VIEW("shardId-0"),
                                         .sequence = KS_VIEW("42"),
                                         .partition_key = KS_VIEW("key"),
                                         .data = KS_VIEW("data"),
                                         .attempts = 1,
                                         .cause = KS_CAUSE_ASKED};
    }
}

static void end(void)
{
    sink->vtable->close(sink);
    aws_rig_close(&aws);
    http_script_stop(script);
    ks_loop_free(loop);
    EXPECT_EQ_I64(ks_alloc_live(), live);
}

static void answered(void *arg, const struct ks_letters_answer *answer)
{
    (void)arg;
    answers++;
    heard = *answer;
}

static enum ks_outcome write_from(uint32_t first, uint32_t count)
{
    const int before = answers;

    sink->vtable->write(sink, &letters[first], count, answered, NULL);
    EXPECT_EQ_I64(answers, before);
    while (answers == before)
        ks_loop_turn(loop, ks_span_ms(20));
    EXPECT_EQ_I64(answers, before + 1);
    return heard.outcome;
}

static enum ks_outcome write_all(uint32_t count)
{
    return write_from(0, count);
}

static const char *request(size_t index)
{
    return http_script_request(script, index);
}

/* How often `part` stands in the request. */
static uint32_t count_of(size_t index, const char *part)
{
    uint32_t count = 0;

    for (const char *at = strstr(request(index), part); at != NULL; at = strstr(at + 1, part))
        count++;
    return count;
}

#define QUEUE "sqs:https://sqs.eu-west-1.amazonaws.com/123456789012/letters"
#define TYPE "Content-Type: application/x-amz-json-1.0\r\n"
#define TAKEN(id) "{\"Id\":\"" id "\",\"MessageId\":\"m\"}"
#define TEN_TAKEN                                                                                  \
    "{\"Successful\":[" TAKEN("0") "," TAKEN("1") "," TAKEN("2") "," TAKEN("3") "," TAKEN(         \
        "4") "," TAKEN("5") "," TAKEN("6") "," TAKEN("7") "," TAKEN("8") "," TAKEN("9") "]}"
#define ONE_TAKEN "{\"Successful\":[" TAKEN("0") "]}"
#define TOO_LONG                                                                                   \
    "{\"__type\":\"com.amazonaws.sqs#BatchRequestTooLong\",\"message\":\"Batch requests cannot "   \
    "be longer\"}"

TEST(write_is_done_when_each_letter_is_confirmed)
{
    static const struct http_step steps[] = {{.headers = TYPE, .body = TEN_TAKEN}};

    begin(QUEUE, steps, 1);
    EXPECT_STR(sink->sink, QUEUE);
    EXPECT_EQ_I64(write_all(LETTERS), KS_DONE);
    EXPECT_EQ_U64(heard.count, LETTERS);
    EXPECT_EQ_U64(http_script_count(script), 7);
    for (size_t at = 0; at < 7; at++)
        EXPECT_EQ_U64(count_of(at, "\"MessageBody\""), at < 6 ? 10 : 4);
    EXPECT_CONTAINS(request(0), "X-Amz-Target: AmazonSQS.SendMessageBatch\r\n");
    EXPECT_CONTAINS(request(0), "shardId-0.100.0");
    EXPECT_CONTAINS(request(6), "shardId-0.163.0");
    end();
}

TEST(letter_that_failed_is_sent_again_and_no_other)
{
    static const struct http_step steps[] = {
        {.headers = TYPE,
         .body = "{\"Successful\":[" TAKEN("0") "," TAKEN(
             "2") "],\"Failed\":[{\"Id\":\"1\",\"Code\":\"InternalError\"}]}"},
        {.headers = TYPE, .body = ONE_TAKEN}};

    begin(QUEUE, steps, 2);
    EXPECT_EQ_I64(write_all(3), KS_UNKNOWN);
    EXPECT_STR(heard.detail.text, "InternalError");
    EXPECT_EQ_U64(heard.count, 0);
    EXPECT_EQ_I64(write_all(3), KS_DONE);
    EXPECT_EQ_U64(heard.count, 3);
    EXPECT_EQ_U64(http_script_count(script), 2);
    EXPECT_EQ_U64(count_of(1, "\"MessageBody\""), 1);
    EXPECT_CONTAINS(request(1), "shardId-0.101.0");
    /* The same letter in a later epoch is another write. */
    EXPECT_EQ_I64(write_from(0, 1), KS_DONE);
    EXPECT_EQ_U64(http_script_count(script), 3);
    end();
}

TEST(letter_that_the_answer_does_not_name_is_not_done)
{
    static const struct http_step steps[] = {{.headers = TYPE, .body = ONE_TAKEN}};

    begin(QUEUE, steps, 1);
    EXPECT_EQ_I64(write_all(2), KS_UNKNOWN);
    EXPECT_CONTAINS(heard.detail.text, "does not confirm");
    end();
}

TEST(answer_that_cannot_be_read_confirms_nothing)
{
    static const struct http_step steps[] = {{.headers = TYPE, .body = "<html>"},
                                             {.headers = TYPE, .filler = 300 << 10},
                                             {.headers = TYPE, .body = ONE_TAKEN}};

    begin(QUEUE, steps, 3);
    EXPECT_EQ_I64(write_all(1), KS_UNKNOWN);
    EXPECT_CONTAINS(heard.detail.text, "cannot be read");
    EXPECT_EQ_I64(write_all(1), KS_UNKNOWN);
    EXPECT_EQ_I64(write_all(1), KS_DONE);
    end();
}

TEST(lost_answer_is_unknown_and_ends_the_write)
{
    static const struct http_step steps[] = {
        {.headers = TYPE, .body = TEN_TAKEN}, {.cut = true}, {.headers = TYPE, .body = TEN_TAKEN}};

    begin(QUEUE, steps, 3);
    EXPECT_EQ_I64(write_all(30), KS_UNKNOWN);
    EXPECT_EQ_U64(http_script_count(script), 2);
    /* The first ten are confirmed, and are not sent again. */
    EXPECT_EQ_I64(write_all(30), KS_DONE);
    EXPECT_EQ_U64(http_script_count(script), 4);
    EXPECT_CONTAINS(request(2), "shardId-0.110.0");
    EXPECT(strstr(request(2), "shardId-0.109.0") == NULL);
    end();
}

TEST(refused_request_is_sent_entry_by_entry_and_then_without_data)
{
    static const struct http_step steps[] = {
        {.status = 400, .headers = TYPE, .body = TOO_LONG}, /* Two. */
        {.headers = TYPE, .body = ONE_TAKEN},               /* The first. */
        {.status = 400, .headers = TYPE, .body = TOO_LONG}, /* The second. */
        {.headers = TYPE, .body = ONE_TAKEN}};              /* The second, without data. */

    begin(QUEUE, steps, 4);
    EXPECT_EQ_I64(write_all(2), KS_DONE);
    EXPECT_EQ_U64(http_script_count(script), 4);
    EXPECT_CONTAINS(request(2), "\\\"data\\\":\\\"ZGF0YQ==\\\"");
    EXPECT_CONTAINS(request(3), "\\\"in_stream\\\":true,\\\"data_bytes\\\":4}");
    EXPECT(strstr(request(3), "ZGF0YQ==") == NULL);
    end();
}

TEST(refused_entry_is_sent_without_data)
{
    static const struct http_step steps[] = {
        {.headers = TYPE,
         .body = "{\"Successful\":[" TAKEN(
             "0") "],\"Failed\":[{\"Id\":\"1\",\"Code\":\"InvalidParameterValue\","
                  "\"Message\":\"Message must be shorter than 1024 "
                  "bytes.\",\"SenderFault\":true}]}"},
        {.headers = TYPE, .body = ONE_TAKEN}};

    begin(QUEUE, steps, 2);
    EXPECT_EQ_I64(write_all(2), KS_DONE);
    EXPECT_CONTAINS(request(1), "\\\"in_stream\\\":true");
    EXPECT_CONTAINS(request(1), "shardId-0.101.0");
    end();
}

TEST(pointer_that_is_refused_ends_the_write_with_the_reason)
{
    static const struct http_step steps[] = {{.status = 400, .headers = TYPE, .body = TOO_LONG}};

    begin(QUEUE, steps, 1);
    EXPECT_EQ_I64(write_all(5), KS_UNKNOWN);
    EXPECT_CONTAINS(heard.detail.text,
                    "BatchRequestTooLong on sqs SendMessageBatch: Batch requests cannot be longer");
    EXPECT_EQ_U64(http_script_count(script), 3);
    end();
}

TEST(record_that_no_message_holds_is_not_sent)
{
    static const struct http_step steps[] = {{.headers = TYPE, .body = TEN_TAKEN}};
    static uint8_t large[KS_SINK_SQS_BYTES_MAX];

    begin(QUEUE, steps, 1);
    letters[0].data = ks_view_of(large, sizeof(large));
    letters[1].data =
        ks_view_of(large, KS_SINK_SQS_BYTES_MAX / 4 * 3); /* base64 alone fills the message. */
    letters[2].data = ks_view_of(large, KS_SINK_SQS_BYTES_MAX / 4 * 3 - 1000);
    EXPECT_EQ_I64(write_all(4), KS_DONE);
    EXPECT_CONTAINS(request(0), "\\\"in_stream\\\":true,\\\"data_bytes\\\":1048576}");
    EXPECT_CONTAINS(request(0), "\\\"in_stream\\\":true,\\\"data_bytes\\\":786432}");
    EXPECT_EQ_U64(count_of(0, "\"MessageBody\""), 2);
    EXPECT_CONTAINS(request(1), "\\\"in_stream\\\":false,\\\"data_bytes\\\":785432");
    end();
}

TEST(what_somebody_must_do_is_said)
{
    static const struct http_step steps[] = {
        {.status = 403,
         .headers = TYPE,
         .body = "{\"__type\":\"AccessDeniedException\",\"message\":\"no\"}"},
        {.status = 400,
         .headers = TYPE,
         .body = "{\"__type\":\"com.amazonaws.sqs#KmsAccessDenied\",\"message\":\"no\"}"},
        {.status = 400,
         .headers = TYPE,
         .body = "{\"__type\":\"com.amazonaws.sqs#QueueDoesNotExist\",\"message\":\"gone\"}"}};

    begin(QUEUE, steps, 3);
    for (int at = 0; at < 2; at++) {
        EXPECT_EQ_I64(write_all(20), KS_UNKNOWN);
        EXPECT_CONTAINS(heard.detail.text, "allow sqs:SendMessage to this role (kinesis-sidecar "
                                           "iam-policy; of an encrypted queue ");
    }
    EXPECT_EQ_I64(write_all(20), KS_UNKNOWN);
    EXPECT_CONTAINS(heard.detail.text,
                    "no such queue in region eu-west-1: create it, or change --dead-letters");
    EXPECT_EQ_U64(http_script_count(script), 3);
    end();
}

TEST(topic_is_asked_by_a_form_and_answers_in_xml)
{
    static const struct http_step steps[] = {
        {.headers = "Content-Type: text/xml\r\n",
         .body = "<PublishBatchResponse><PublishBatchResult><Failed/><Successful><member><Id>0</"
                 "Id><MessageId>m</MessageId>"
                 "</member></Successful></PublishBatchResult></PublishBatchResponse>"},
        {.status = 404,
         .headers = "Content-Type: text/xml\r\n",
         .body = "<ErrorResponse><Error><Type>Sender</Type><Code>NotFound</Code><Message>Topic "
                 "does not exist</Message>"
                 "</Error><RequestId>r</RequestId></ErrorResponse>"}};

    begin("sns:arn:aws:sns:eu-west-1:123456789012:letters", steps, 2);
    EXPECT_EQ_I64(write_all(1), KS_DONE);
    EXPECT_CONTAINS(request(0),
                    "Content-Type: application/x-www-form-urlencoded; charset=utf-8\r\n");
    EXPECT(strstr(request(0), "X-Amz-Target") == NULL);
    EXPECT_CONTAINS(request(0), "/sns/aws4_request");
    EXPECT_EQ_I64(write_all(1), KS_UNKNOWN);
    EXPECT_CONTAINS(heard.detail.text, "no such topic in region eu-west-1");
    EXPECT_CONTAINS(heard.detail.text, "Topic does not exist");
    end();
}

TEST(stream_takes_all_letters_in_one_request)
{
    static const struct http_step steps[] = {
        {.headers = "Content-Type: application/x-amz-json-1.1\r\n",
         .body =
             "{\"FailedRecordCount\":1,\"Records\":[{\"SequenceNumber\":\"1\",\"ShardId\":\"s\"},"
             "{\"ErrorCode\":\"ProvisionedThroughputExceededException\",\"ErrorMessage\":\"slow\"}]"
             "}"},
        {.headers = "Content-Type: application/x-amz-json-1.1\r\n",
         .body = "{\"FailedRecordCount\":0,\"Records\":[{\"SequenceNumber\":\"2\",\"ShardId\":"
                 "\"s\"}]}"}};

    begin("kinesis:dead", steps, 2);
    EXPECT_EQ_I64(write_all(2), KS_UNKNOWN);
    EXPECT_CONTAINS(heard.detail.text, "slow");
    EXPECT_EQ_I64(write_all(2), KS_DONE);
    EXPECT_EQ_U64(count_of(1, "\"PartitionKey\""), 1);
    end();
}

TEST(close_cancels_what_is_under_way_and_answers_nothing)
{
    static const struct http_step steps[] = {{.silent = true}};
    const int before = answers;

    begin(QUEUE, steps, 1);
    sink->vtable->write(sink, letters, 3, answered, NULL);
    for (int at = 0; at < 5; at++)
        ks_loop_turn(loop, ks_span_ms(10));
    sink->vtable->write(sink, letters, 3, answered, NULL);
    end();
    EXPECT_EQ_I64(answers, before);
}
