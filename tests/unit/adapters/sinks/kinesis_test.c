/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/adapters/sinks/protocol_rig.h"

static const char *answer(const char *body, uint32_t count)
{
    return protocol_answer(&ks_sink_kinesis, body, count);
}

TEST(request_puts_the_document_under_the_key_of_the_record)
{
    EXPECT_STR(protocol_request(&ks_sink_kinesis, "kinesis:dead", 2),
               "{\"StreamName\":\"dead\",\"Records\":[{\"Data\":\"eyJhIjoiYiJ9\",\"PartitionKey\":"
               "\"a b\"},"
               "{\"Data\":\"eyJhIjoiYiJ9\",\"PartitionKey\":\"a b\"}]}");
    EXPECT_CONTAINS(protocol_request(&ks_sink_kinesis,
                                     "kinesis:arn:aws:kinesis:eu-west-1:123456789012:stream/dead",
                                     1),
                    "{\"StreamARN\":\"arn:aws:kinesis:eu-west-1:123456789012:stream/dead\",");
}

TEST(record_is_taken_only_if_it_has_a_sequence_number)
{
    EXPECT_STR(
        answer("{\"FailedRecordCount\":1,\"Records\":[{\"SequenceNumber\":\"1\",\"ShardId\":\"s\"},"
               "{\"ErrorCode\":\"ProvisionedThroughputExceededException\",\"ErrorMessage\":"
               "\"slow\"},{},"
               "{\"SequenceNumber\":\"\"},{\"SequenceNumber\":\"1\",\"ErrorCode\":"
               "\"InternalFailure\"},null]}",
               6),
        "tf--f-");
    EXPECT(ks_err_is(protocol_results[1].err, KS_ERR_THROTTLED));
    EXPECT_STR(protocol_results[1].detail.text, "ProvisionedThroughputExceededException: slow");
    EXPECT(ks_err_is(protocol_results[4].err, KS_ERR_SERVER));
}

TEST(answer_with_another_number_of_records_is_malformed)
{
    EXPECT_STR(answer("{\"Records\":[{\"SequenceNumber\":\"1\"}]}", 2), "malformed");
    EXPECT_STR(answer("{\"Records\":[{\"SequenceNumber\":\"1\"},{\"SequenceNumber\":\"1\"}]}", 1),
               "malformed");
    EXPECT_STR(answer("{\"FailedRecordCount\":0}", 1), "malformed");
    EXPECT_STR(answer("{\"Records\":\"x\"}", 1), "malformed");
    EXPECT_STR(answer("[]", 1), "malformed");
}
