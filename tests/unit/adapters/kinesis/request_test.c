/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/kinesis/request.h"

#include "base/codec.h"

#include "ks_test.h"

#include <stdio.h>
#include <string.h>

static const char *text_of(struct ks_bytes *body)
{
    EXPECT_OK(ks_bytes_append_byte(body, 0));
    return (const char *)body->data;
}

static const char *iterator(struct ks_bytes *body, const char *stream, enum ks_position_kind kind,
                            int64_t sub_sequence)
{
    struct ks_position position = {.kind = kind,
                                   .timestamp_ms = 1795223827896,
                                   .sequence = "4968",
                                   .sub_sequence = sub_sequence};

    ks_bytes_clear(body);
    EXPECT_OK(ks_request_iterator(body, stream, "shardId-000000000001", &position));
    return text_of(body);
}

TEST(a_place_is_asked_for_as_what_it_is)
{
    struct ks_bytes body;

    ks_bytes_init(&body, KS_KINESIS_REQUEST_MAX);
    EXPECT_STR(iterator(&body, "demo", KS_POSITION_TRIM_HORIZON, -1),
               "{\"StreamName\":\"demo\",\"ShardId\":\"shardId-000000000001\","
               "\"ShardIteratorType\":\"TRIM_HORIZON\"}");
    EXPECT_CONTAINS(iterator(&body, "demo", KS_POSITION_LATEST, -1), ":\"LATEST\"}");
    EXPECT_CONTAINS(iterator(&body, "demo", KS_POSITION_AT_TIMESTAMP, -1),
                    "\"AT_TIMESTAMP\",\"Timestamp\":1795223827.896}");
    EXPECT_CONTAINS(iterator(&body, "demo", KS_POSITION_AT_SEQUENCE, -1),
                    "\"AT_SEQUENCE_NUMBER\",\"StartingSequenceNumber\":\"4968\"}");
    EXPECT_CONTAINS(iterator(&body, "demo", KS_POSITION_AFTER_SEQUENCE, -1),
                    "\"AFTER_SEQUENCE_NUMBER\",\"StartingSequenceNumber\":\"4968\"}");
    /* Within an aggregate: the aggregate again. */
    EXPECT_CONTAINS(iterator(&body, "demo", KS_POSITION_AFTER_SEQUENCE, 3),
                    "\"AT_SEQUENCE_NUMBER\"");
    ks_bytes_free(&body);
}

TEST(an_arn_is_sent_as_an_arn)
{
    const char *arn = "arn:aws:kinesis:us-east-1:000000000000:stream/demo";
    struct ks_bytes body;

    EXPECT(ks_is_arn(arn));
    EXPECT(!ks_is_arn("arnold"));
    ks_bytes_init(&body, KS_KINESIS_REQUEST_MAX);
    EXPECT_CONTAINS(iterator(&body, arn, KS_POSITION_LATEST, -1),
                    "{\"StreamARN\":\"arn:aws:kinesis:us-east-1:000000000000:stream/demo\",");
    ks_bytes_clear(&body);
    EXPECT_OK(ks_request_describe(&body, "demo"));
    EXPECT_STR(text_of(&body), "{\"StreamName\":\"demo\"}");
    ks_bytes_free(&body);
}

TEST(records_are_asked_for_in_json_and_cbor)
{
    struct ks_bytes body;
    char hex[128] = {0};

    ks_bytes_init(&body, KS_KINESIS_REQUEST_MAX);
    EXPECT_OK(ks_request_records(&body, "demo", "AAA=", 100, false));
    EXPECT_STR(text_of(&body), "{\"ShardIterator\":\"AAA=\",\"Limit\":100}");
    ks_bytes_clear(&body);
    EXPECT_OK(ks_request_records(&body, "demo", "AAA=", 100, true));
    ks_hex_encode(ks_bytes_view(&body), hex);
    /* {"ShardIterator": "AAA=", "Limit": 100} */
    EXPECT_STR(hex, "a26d53686172644974657261746f72644141413d654c696d69741864");
    ks_bytes_free(&body);
}

TEST(an_arn_goes_with_each_question)
{
    const char *arn = "arn:aws:kinesis:eu-west-1:123456789012:stream/demo";
    const struct ks_position latest = {.kind = KS_POSITION_LATEST, .sub_sequence = -1};
    struct ks_bytes body;

    ks_bytes_init(&body, KS_KINESIS_REQUEST_MAX);
    EXPECT_OK(ks_request_describe(&body, arn));
    EXPECT_OK(ks_request_iterator(&body, arn, "s", &latest));
    EXPECT_OK(ks_request_records(&body, arn, "AAA=", 100, false));
    EXPECT_STR(text_of(&body),
               "{\"StreamARN\":\"arn:aws:kinesis:eu-west-1:123456789012:stream/demo\"}"
               "{\"StreamARN\":\"arn:aws:kinesis:eu-west-1:123456789012:stream/demo\","
               "\"ShardId\":\"s\",\"ShardIteratorType\":\"LATEST\"}"
               "{\"StreamARN\":\"arn:aws:kinesis:eu-west-1:123456789012:stream/demo\","
               "\"ShardIterator\":\"AAA=\",\"Limit\":100}");
    ks_bytes_clear(&body);
    EXPECT_OK(ks_request_records(&body, arn, "AAA=", 100, true));
    EXPECT_EQ_I64(body.data[0], 0xa3); /* A map of three. */
    EXPECT(memmem(body.data, body.size, arn, strlen(arn)) != NULL);
    ks_bytes_free(&body);
}

TEST(a_body_that_has_no_room_fails)
{
    struct ks_bytes body;

    ks_bytes_init(&body, 8);
    EXPECT_ERR(ks_request_describe(&body, "demo"), FULL);
    EXPECT_ERR(ks_request_records(&body, "demo", "AAA=", 100, false), FULL);
    EXPECT_ERR(ks_request_records(&body, "demo", "AAA=", 100, true), FULL);
    ks_bytes_free(&body);
}

TEST(a_feed_is_asked_for_with_its_place)
{
    static const char consumer[] = "arn:aws:kinesis:eu-west-1:123456789012:stream/s/consumer/c:1";
    const struct ks_position places[] = {
        {.kind = KS_POSITION_TRIM_HORIZON, .sub_sequence = -1},
        {.kind = KS_POSITION_AFTER_SEQUENCE, .sequence = "7", .sub_sequence = -1},
        {.kind = KS_POSITION_AFTER_SEQUENCE, .sequence = "7", .sub_sequence = 2},
        {.kind = KS_POSITION_AT_TIMESTAMP, .timestamp_ms = 1795219200123, .sub_sequence = -1},
    };
    static const char *const json[] = {
        "{\"Type\":\"TRIM_HORIZON\"}",
        "{\"Type\":\"AFTER_SEQUENCE_NUMBER\",\"SequenceNumber\":\"7\"}",
        "{\"Type\":\"AT_SEQUENCE_NUMBER\",\"SequenceNumber\":\"7\"}",
        "{\"Type\":\"AT_TIMESTAMP\",\"Timestamp\":1795219200.123}",
    };
    /* Tag 1 and whole milliseconds, as AWS writes them. */
    static const uint8_t instant[] = {0xc1, 0x1b, 0x00, 0x00, 0x01, 0xa1, 0xfb, 0x67, 0x18, 0x7b};
    char expected[256];
    struct ks_bytes body;

    ks_bytes_init(&body, KS_KINESIS_REQUEST_MAX);
    for (size_t at = 0; at < 4; at++) {
        ks_bytes_clear(&body);
        EXPECT_OK(ks_request_subscribe(&body, consumer, "s", &places[at], false));
        (void)snprintf(expected, sizeof(expected),
                       "{\"ConsumerARN\":\"%s\",\"ShardId\":\"s\",\"StartingPosition\":%s}",
                       consumer, json[at]);
        EXPECT_STR(text_of(&body), expected);
    }
    ks_bytes_clear(&body);
    EXPECT_OK(ks_request_subscribe(&body, consumer, "s", &places[3], true));
    EXPECT_EQ_I64(body.data[0], 0xa3);
    EXPECT(body.size > sizeof(instant));
    EXPECT_MEM(body.data + body.size - sizeof(instant), instant, sizeof(instant));
    ks_bytes_free(&body);
}
