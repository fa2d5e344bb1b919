/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/adapters/sinks/protocol_rig.h"

#define QUEUE "https://sqs.eu-west-1.amazonaws.com/123456789012/letters"

static const char *answer(const char *body, uint32_t count)
{
    return protocol_answer(&ks_sink_sqs, body, count);
}

TEST(request_is_send_message_batch)
{
    EXPECT_STR(
        protocol_request(&ks_sink_sqs, "sqs:" QUEUE, 2),
        "{\"QueueUrl\":\"" QUEUE
        "\",\"Entries\":[{\"Id\":\"0\",\"MessageBody\":\"{\\\"a\\\":\\\"b\\\"}\","
        "\"MessageAttributes\":{\"dead_letter_id\":{\"DataType\":\"String\",\"StringValue\":"
        "\"shardId-0.42.0\"},"
        "\"application\":{\"DataType\":\"String\",\"StringValue\":\"app\"},"
        "\"shard_id\":{\"DataType\":\"String\",\"StringValue\":\"shardId-0\"},"
        "\"attempts\":{\"DataType\":\"Number\",\"StringValue\":\"2\"},"
        "\"cause\":{\"DataType\":\"String\",\"StringValue\":\"asked\"},"
        "\"reason\":{\"DataType\":\"String\",\"StringValue\":\"x&y\"}}},"
        "{\"Id\":\"1\",\"MessageBody\":\"{\\\"a\\\":\\\"b\\\"}\",\"MessageAttributes\":{}}]}");
}

TEST(fifo_queue_gets_group_and_deduplication_id)
{
    const char *body = protocol_request(&ks_sink_sqs, "sqs:" QUEUE ".fifo", 1);

    EXPECT_CONTAINS(
        body,
        "\"MessageGroupId\":\"c8687a08aa5d6ed2044328fa6a697ab8e96dc34291e8c2034ae8c38e6fcc6d65\"");
    EXPECT_CONTAINS(body, "\"MessageDeduplicationId\":\"");
}

TEST(entry_is_taken_only_if_the_answer_confirms_it)
{
    EXPECT_STR(
        answer("{\"Successful\":[{\"Id\":\"0\",\"MessageId\":\"m\"},{\"Id\":\"2\",\"MessageId\":"
               "\"n\"}],"
               "\"Failed\":[{\"Id\":\"1\",\"Code\":\"InternalError\",\"SenderFault\":false}]}",
               4),
        "tft-");
    EXPECT(ks_err_is(protocol_results[1].err, KS_ERR_SERVER));
    EXPECT_STR(protocol_results[1].detail.text, "InternalError");
    EXPECT_STR(answer("{\"Failed\":[{\"Id\":\"0\",\"Code\":\"InvalidParameterValue\",\"Message\":"
                      "\"too long\"}]}",
                      1),
               "f");
    EXPECT(ks_err_is(protocol_results[0].err, KS_ERR_INVALID));
    EXPECT_STR(protocol_results[0].detail.text, "InvalidParameterValue: too long");
}

TEST(answer_that_contradicts_itself_confirms_nothing)
{
    EXPECT_STR(
        answer("{\"Successful\":[{\"Id\":\"0\",\"MessageId\":\"m\"}],\"Failed\":[{\"Id\":\"0\"}]}",
               1),
        "f");
    EXPECT_STR(answer("{\"Successful\":[{\"Id\":\"0\"}]}", 1), "-");
    EXPECT_STR(
        answer("{\"Successful\":[{\"Id\":0,\"MessageId\":\"m\"},{\"Id\":\"9\",\"MessageId\":\"m\"},"
               "{\"Id\":\"-1\",\"MessageId\":\"m\"},{\"Id\":\"18446744073709551616\",\"MessageId\":"
               "\"m\"},"
               "{\"Id\":\"\",\"MessageId\":\"m\"},null,7,[]]}",
               3),
        "---");
    EXPECT_STR(answer("{\"Successful\":\"0\",\"Failed\":{\"0\":1}}", 2), "--");
    EXPECT_STR(answer("{}", 2), "--");
}

TEST(answer_that_is_no_object_is_malformed)
{
    EXPECT_STR(answer("[]", 1), "malformed");
    EXPECT_STR(answer("", 1), "malformed");
    EXPECT_STR(answer("{\"Successful\":[{\"Id\":\"0\",\"MessageId\":\"m\"}", 1), "malformed");
    EXPECT_STR(answer("<html/>", 1), "malformed");
}
