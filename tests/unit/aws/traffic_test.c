/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/traffic.h"

#include "base/metrics.h"

#include "ks_test.h"

TEST(requests_for_credentials_are_counted_like_all_others)
{
    ks_traffic_sent("sts", "AssumeRole", 300);
    ks_traffic_failed("sts", KS_FAIL(TIMEOUT));
    ks_traffic_again("sts", "AssumeRole");
    ks_traffic_sent("sts", "AssumeRole", 300);
    ks_traffic_answered("sts", "AssumeRole", ks_span_ms(20), 1500);
    EXPECT_EQ_I64(ks_metric_number_labelled(KS_METRIC_AWS_REQUESTS, "sts,AssumeRole"), 2);
    EXPECT_EQ_I64(ks_metric_number_labelled(KS_METRIC_AWS_SENT_BYTES, "sts,AssumeRole"), 600);
    EXPECT_EQ_I64(ks_metric_number_labelled(KS_METRIC_AWS_RETRIES, "sts,AssumeRole"), 1);
    EXPECT_EQ_I64(ks_metric_number_labelled(KS_METRIC_AWS_REQUEST_SECONDS, "sts,AssumeRole"),
                  20000);
    EXPECT_EQ_I64(ks_metric_number_labelled(KS_METRIC_AWS_RECEIVED_BYTES, "sts,AssumeRole"), 1500);
    EXPECT_EQ_I64(ks_metric_number_labelled(KS_METRIC_AWS_FAILURES, "sts,timeout"), 1);
}
