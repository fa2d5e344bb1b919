/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/traffic.h"

#include "base/log.h"
#include "base/metrics.h"

#include "aws_rig.h"
#include "http_script.h"
#include "ks_test.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

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

static void on_done(void *arg, const struct ks_aws_answer *answer)
{
    (void)answer;
    *(bool *)arg = true;
}

TEST(each_attempt_is_a_line_of_the_log_without_secrets)
{
    static const struct http_step steps[] = {
        {.status = 400,
         .headers = "x-amzn-RequestId: id-1\r\n",
         .body = "{\"__type\":\"ThrottlingException\"}"},
        {.headers = "x-amzn-RequestId: id-2\r\n", .body = "answer"}};
    struct http_script *script = http_script_start(steps, 2);
    struct ks_loop *loop;
    struct aws_rig aws;
    bool done = false;
    struct ks_aws_request request = {.operation = "ListShards",
                                     .body = KS_VIEW("{}"),
                                     .timeout = ks_span_ms(3000),
                                     .response_max = 1000,
                                     .done = on_done,
                                     .arg = &done};
    char lines[8192] = "";
    int log_file = memfd_create("log", 0);

    ks_log_open(log_file, KS_LOG_DEBUG, KS_LOG_TEXT);
    EXPECT_OK(ks_loop_new(&loop));
    aws_rig_open(&aws, loop, KS_AWS_KINESIS, http_script_url(script));
    EXPECT_OK(ks_aws_call(aws.client, &request, NULL));
    while (!done)
        ks_loop_turn(loop, ks_span_ms(20));
    aws_rig_close(&aws);
    ks_loop_free(loop);
    http_script_stop(script);
    ks_log_close(1000);
    EXPECT(pread(log_file, lines, sizeof(lines) - 1, 0) > 0);
    EXPECT_CONTAINS(lines, "aws: kinesis ListShards: throttled, status 400 after ");
    EXPECT_CONTAINS(lines, " bytes, attempt 1, request id id-1\n");
    EXPECT_CONTAINS(lines, "aws: kinesis ListShards: ok, status 200 after ");
    EXPECT_CONTAINS(lines, " 6 bytes, attempt 2, request id id-2\n");
    EXPECT(strstr(lines, getenv("AWS_SECRET_ACCESS_KEY")) == NULL);
    EXPECT(strstr(lines, "ignature") == NULL);
}
