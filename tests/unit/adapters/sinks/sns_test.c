/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/adapters/sinks/protocol_rig.h"

#define TOPIC "arn:aws:sns:eu-west-1:123456789012:letters"
#define ENTRY "PublishBatchRequestEntries.member."
#define ANSWER(lists)                                                                              \
    "<?xml version=\"1.0\"?><PublishBatchResponse "                                                \
    "xmlns=\"http://sns.amazonaws.com/doc/2010-03-31/\">"                                          \
    "<PublishBatchResult>" lists "</PublishBatchResult><ResponseMetadata/></PublishBatchResponse>"
#define TAKEN(id) "<member><MessageId>m</MessageId><Id>" id "</Id></member>"
#define FAILED(id)                                                                                 \
    "<member><Id>" id "</Id><Code>InternalError</Code><SenderFault>false</SenderFault></member>"

static const char *answer(const char *body, uint32_t count)
{
    return protocol_answer(&ks_sink_sns, body, count);
}

TEST(request_is_a_form_of_publish_batch)
{
    const char *body = protocol_request(&ks_sink_sns, "sns:" TOPIC, 2);

    EXPECT(strncmp(body,
                   "Action=PublishBatch&Version=2010-03-31&TopicArn=arn%3Aaws%3Asns%3Aeu-west-1%"
                   "3A123456789012%3Aletters&",
                   97) == 0);
    EXPECT_CONTAINS(body, "&" ENTRY "1.Id=0&" ENTRY "1.Message=%7B%22a%22%3A%22b%22%7D&");
    EXPECT_CONTAINS(body, "&" ENTRY "1.MessageAttributes.entry.1.Name=dead_letter_id&" ENTRY
                          "1.MessageAttributes.entry.1.Value.DataType=String&" ENTRY
                          "1.MessageAttributes.entry.1.Value.StringValue=shardId-0.42.0&");
    EXPECT_CONTAINS(body, "&" ENTRY "1.MessageAttributes.entry.6.Value.StringValue=x%26y&" ENTRY
                          "2.Id=1&");
    EXPECT(strstr(body, "MessageGroupId") == NULL);
}

TEST(fifo_topic_gets_group_and_deduplication_id)
{
    const char *body = protocol_request(&ks_sink_sns, "sns:" TOPIC ".fifo", 1);

    EXPECT_CONTAINS(
        body, "&" ENTRY
              "1.MessageGroupId=c8687a08aa5d6ed2044328fa6a697ab8e96dc34291e8c2034ae8c38e6fcc6d65&");
    EXPECT_CONTAINS(body, "&" ENTRY "1.MessageDeduplicationId=");
}

TEST(entry_is_taken_only_if_the_answer_confirms_it)
{
    EXPECT_STR(answer(ANSWER("<Failed>" FAILED("1") "</Failed><Successful>" TAKEN("0")
                                 TAKEN("2") "</Successful>"),
                      4),
               "tft-");
    EXPECT(ks_err_is(protocol_results[1].err, KS_ERR_SERVER));
    EXPECT_STR(answer(ANSWER("<Failed/><Successful>" TAKEN("0") "</Successful>"), 1), "t");
    EXPECT_STR(answer(ANSWER(""), 2), "--");
}

TEST(answer_that_contradicts_itself_confirms_nothing)
{
    EXPECT_STR(
        answer(ANSWER("<Successful>" TAKEN("0") "</Successful><Failed>" FAILED("0") "</Failed>"),
               1),
        "f");
    EXPECT_STR(answer(ANSWER("<Successful><member><Id>0</Id></member><member/>" TAKEN("7")
                                 TAKEN("x") "</Successful>"),
                      2),
               "--");
    EXPECT_STR(answer(ANSWER("<Successful><other>" TAKEN("0") "</other></Successful>"), 1), "-");
}

TEST(answer_that_breaks_off_or_is_no_answer_is_malformed)
{
    EXPECT_STR(answer("<PublishBatchResponse><PublishBatchResult><Successful>" TAKEN("0"), 1),
               "malformed");
    EXPECT_STR(answer(ANSWER("<Successful>" TAKEN("0") "<member></Successful>"), 1), "malformed");
    EXPECT_STR(answer("<!DOCTYPE x><PublishBatchResponse/>", 1), "malformed");
    EXPECT_STR(answer("{\"Successful\":[]}", 1), "malformed");
    EXPECT_STR(answer("", 1), "malformed");
}
