/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/adapters/sinks/protocol_rig.h"

TEST(each_kind_has_its_service_and_the_action_that_it_needs)
{
    EXPECT_STR(ks_sink_protocol_of(KS_SINK_SQS)->permission, "sqs:SendMessage");
    EXPECT_STR(ks_sink_protocol_of(KS_SINK_SNS)->permission, "sns:Publish");
    EXPECT_STR(ks_sink_protocol_of(KS_SINK_KINESIS)->permission, "kinesis:PutRecords");
    EXPECT_EQ_I64(ks_sink_protocol_of(KS_SINK_KINESIS)->service, KS_AWS_KINESIS);
}

TEST(failure_of_an_entry_stays)
{
    struct ks_sink_result result;

    ks_sink_results_begin(&result, 1);
    ks_sink_taken(&result);
    EXPECT(result.taken);
    ks_sink_failed(&result, KS_VIEW(""), KS_VIEW(""));
    EXPECT(!result.taken);
    EXPECT_STR(result.detail.text, "an entry failed");
    ks_sink_taken(&result);
    EXPECT(!result.taken);
}

TEST(index_is_a_number_below_the_count)
{
    EXPECT_EQ_U64(ks_sink_index(KS_VIEW("9"), 10), 9);
    EXPECT_EQ_U64(ks_sink_index(KS_VIEW("10"), 10), 10);
    EXPECT_EQ_U64(ks_sink_index(KS_VIEW("4294967296"), 10), 10);
    EXPECT_EQ_U64(ks_sink_index(KS_VIEW(" 1"), 10), 10);
    EXPECT_EQ_U64(ks_sink_index(KS_VIEW(""), 10), 10);
}
