/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/sinks/target.h"

#include "ks_test.h"

static struct ks_sink_target target;

static void read_one(const char *text)
{
    struct ks_detail detail = {""};

    if (!ks_ok(ks_sink_target_read(text, &target, &detail)))
        FAIL("%s: %s", text, detail.text);
}

TEST(queue_url_gives_endpoint_region_and_kind_of_queue)
{
    static const struct {
        const char *text;
        const char *url;
        const char *region;
        bool fifo;
    } cases[] = {
        {"sqs:https://sqs.eu-west-1.amazonaws.com/123456789012/orders", "", "eu-west-1", false},
        {"sqs:https://sqs.cn-north-1.amazonaws.com.cn/123456789012/orders.fifo", "", "cn-north-1",
         true},
        {"sqs:https://sqs-fips.us-east-1.amazonaws.com/123456789012/orders",
         "https://sqs-fips.us-east-1.amazonaws.com", "us-east-1", false},
        {"sqs:https://sqs.eu-west-1.api.aws/123456789012/orders", "https://sqs.eu-west-1.api.aws",
         "eu-west-1", false},
        {"sqs:https://vpce-1-x.sqs.us-east-2.vpce.amazonaws.com/1/orders",
         "https://vpce-1-x.sqs.us-east-2.vpce.amazonaws.com", "us-east-2", false},
        {"sqs:https://eu-north-1.queue.amazonaws.com/1/q-_1", "", "eu-north-1", false},
        {"sqs:https://queue.amazonaws.com/1/q", "", "us-east-1", false},
        {"sqs:http://sqs.eu-west-1.amazonaws.com/1/q", "http://sqs.eu-west-1.amazonaws.com",
         "eu-west-1", false},
        {"sqs:http://localhost:4566/000000000000/q", "http://localhost:4566", "", false},
        {"sqs:http://sqs.eu-west-1.localhost.localstack.cloud:4566/000000000000/q",
         "http://sqs.eu-west-1.localhost.localstack.cloud:4566", "eu-west-1", false},
        {"sqs:http://127.0.0.1:5000/q", "http://127.0.0.1:5000", "", false},
        {"sqs:http://sqs.No_Region.example/q", "http://sqs.No_Region.example", "", false},
        {"sqs:http://sqs/q", "http://sqs", "", false},
    };

    for (size_t at = 0; at < sizeof(cases) / sizeof(cases[0]); at++) {
        read_one(cases[at].text);
        EXPECT_EQ_I64(target.kind, KS_SINK_SQS);
        EXPECT_STR(target.name, cases[at].text + 4);
        EXPECT_STR(target.url, cases[at].url);
        EXPECT_STR(target.region, cases[at].region);
        EXPECT(target.fifo == cases[at].fifo);
    }
}

TEST(arn_gives_its_region)
{
    read_one("sns:arn:aws:sns:eu-west-1:123456789012:alarms");
    EXPECT_EQ_I64(target.kind, KS_SINK_SNS);
    EXPECT_STR(target.region, "eu-west-1");
    EXPECT_STR(target.url, "");
    EXPECT(!target.fifo);
    read_one("sns:arn:aws-cn:sns:cn-north-1:123456789012:alarms.fifo");
    EXPECT(target.fifo);
    read_one("kinesis:arn:aws:kinesis:us-west-2:123456789012:stream/dead.letters");
    EXPECT_EQ_I64(target.kind, KS_SINK_KINESIS);
    EXPECT_STR(target.region, "us-west-2");
    read_one("kinesis:dead.fifo");
    EXPECT_STR(target.name, "dead.fifo");
    EXPECT_STR(target.region, "");
    EXPECT(!target.fifo);
}

TEST(text_that_names_no_destination_is_refused_with_the_form)
{
    static const char *const cases[][2] = {
        {"sqs:orders", "sqs:https://sqs.REGION"},
        {"sqs:https://sqs.eu-west-1.amazonaws.com", "sqs:https://sqs.REGION"},
        {"sqs:https://sqs.eu-west-1.amazonaws.com/1/", "sqs:https://sqs.REGION"},
        {"sqs:https://sqs.eu-west-1.amazonaws.com/1/a b", "sqs:https://sqs.REGION"},
        {"sqs:https://sqs.eu-west-1.amazonaws.com/1/q?x=1", "sqs:https://sqs.REGION"},
        {"sqs:https://sqs.eu-west-1.amazonaws.com/1/.fifo", "sqs:https://sqs.REGION"},
        {"sqs:arn:aws:sqs:eu-west-1:123456789012:q", "sqs:https://sqs.REGION"},
        {"sns:alarms", "sns:arn:aws:sns:"},
        {"sns:arn:aws:sqs:eu-west-1:123456789012:alarms", "sns:arn:aws:sns:"},
        {"sns:arn:aws:sns:eu-west-1::alarms", "sns:arn:aws:sns:"},
        {"sns:arn:aws:sns::123456789012:alarms", "sns:arn:aws:sns:"},
        {"sns:arn:aws:sns:eu-west-1:123456789012:alarms:9a5c", "sns:arn:aws:sns:"},
        {"kinesis:", "kinesis:STREAM"},
        {"kinesis:a/b", "kinesis:STREAM"},
        {"kinesis:arn:aws:kinesis:eu-west-1:123456789012:stream/a/consumer/b:1", "kinesis:STREAM"},
        {"kinesis:arn:aws:kinesis:eu-west-1:123456789012:table/a", "kinesis:STREAM"},
        {"mail:me", "not a sink"},
    };

    for (size_t at = 0; at < sizeof(cases) / sizeof(cases[0]); at++) {
        struct ks_detail detail = {""};

        EXPECT_ERR(ks_sink_target_read(cases[at][0], &target, &detail), INVALID);
        EXPECT_CONTAINS(detail.text, cases[at][1]);
        EXPECT_CONTAINS(detail.text, "--dead-letters");
    }
}

TEST(password_of_a_queue_url_is_not_reported)
{
    struct ks_detail detail = {""};

    EXPECT_ERR(ks_sink_target_read("sqs:https://user:secret@host/1/q", &target, &detail), INVALID);
    EXPECT(strstr(detail.text, "secret") == NULL);
}

TEST(sinks_are_told_from_stores_by_their_prefix)
{
    EXPECT(ks_sink_is_named("sqs:x") && ks_sink_is_named("sns:x") && ks_sink_is_named("kinesis:x"));
    EXPECT(!ks_sink_is_named("table") && !ks_sink_is_named("sqlite:x") && !ks_sink_is_named("") &&
           !ks_sink_is_named("sqs"));
}
