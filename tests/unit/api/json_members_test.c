/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON of proto3, written. What REST writes: codec_json_test.c. */
#include "api/codec_json.h"
#include "ks_test.h"

#include <string.h>

static struct ks_bytes out;

static const char *written(const ProtobufCMessage *message)
{
    struct ks_writer json;

    ks_bytes_free(&out);
    ks_bytes_init(&out, 1 << 20);
    ks_writer_begin(&json, &out);
    ks_writer_open(&json, '{');
    ks_json_members(&json, (struct ks_json_style){KS_SPELLING_PROTO, NULL}, message);
    ks_writer_close(&json, '}');
    EXPECT_OK(ks_writer_end(&json));
    EXPECT_OK(ks_bytes_append_byte(&out, '\0'));
    return (const char *)out.data;
}

TEST(zeros_are_left_out_and_wide_integers_are_strings)
{
    ks_pb_record record;

    kinesis_sidecar__v1__record__init(&record);
    EXPECT_STR(written(&record.base), "{}");
    record.epoch = UINT64_MAX;
    record.sub_sequence_number = INT64_MIN;
    record.approximate_arrival_timestamp = 1763685600123;
    record.attempt = 1;
    record.aggregated = true;
    record.data = (ProtobufCBinaryData){2, (uint8_t *)ks_pb_text("hi")};
    EXPECT_STR(written(&record.base),
               "{\"epoch\":\"18446744073709551615\","
               "\"subSequenceNumber\":\"-9223372036854775808\","
               "\"approximateArrivalTimestamp\":\"1763685600123\",\"attempt\":1,"
               "\"aggregated\":true,\"data\":\"aGk=\"}");
}

TEST(enums_have_their_names_or_else_their_numbers)
{
    KinesisSidecar__V1__Heartbeat beat;

    kinesis_sidecar__v1__heartbeat__init(&beat);
    beat.idle_reason = KINESIS_SIDECAR__V1__IDLE_REASON__IDLE_REASON_NO_DATA;
    EXPECT_STR(written(&beat.base), "{\"idleReason\":\"IDLE_REASON_NO_DATA\"}");
    beat.idle_reason = (KinesisSidecar__V1__IdleReason)77;
    EXPECT_STR(written(&beat.base), "{\"idleReason\":77}");
}

TEST(a_member_of_a_oneof_that_is_set_is_written_even_if_it_is_zero)
{
    ks_pb_settle_request request;

    kinesis_sidecar__v1__settle_request__init(&request);
    request.wait_limit_case = KINESIS_SIDECAR__V1__SETTLE_REQUEST__WAIT_LIMIT_WAIT_MS;
    EXPECT_STR(written(&request.base), "{\"waitMs\":\"0\"}");
}

TEST(lists_and_messages_inside)
{
    ks_pb_position position;
    ks_pb_position *positions[] = {&position, &position};
    ks_pb_settle_response response;

    kinesis_sidecar__v1__shard_position__init(&position);
    kinesis_sidecar__v1__settle_response__init(&response);
    position.epoch = 3;
    response.n_positions = 2;
    response.positions = positions;
    EXPECT_STR(written(&response.base), "{\"positions\":[{\"epoch\":\"3\"},{\"epoch\":\"3\"}]}");
    ks_bytes_free(&out);
}
