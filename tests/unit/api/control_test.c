/* SPDX-License-Identifier: Apache-2.0 */
#include "api/control.h"
#include "ks_test.h"

#include <stdio.h>
#include <string.h>

static ks_pb_event event;
static KinesisSidecar__V1__Heartbeat beat;

static void make_heartbeat(void)
{
    kinesis_sidecar__v1__stream_event__init(&event);
    kinesis_sidecar__v1__heartbeat__init(&beat);
    beat.in_flight = 12;
    beat.credit = 88;
    beat.idle_reason = ks_control_idle(KS_IDLE_NO_DATA);
    event.event_case = KINESIS_SIDECAR__V1__STREAM_EVENT__EVENT_HEARTBEAT;
    event.heartbeat = &beat;
}

TEST(a_line_has_its_type_first)
{
    struct ks_bytes bytes;

    make_heartbeat();
    ks_bytes_init(&bytes, 1000);
    EXPECT_OK(ks_control_write(&event, KS_FRAME_NDJSON, &bytes));
    EXPECT_OK(ks_bytes_append_byte(&bytes, '\0'));
    EXPECT_STR(
        (const char *)bytes.data,
        "{\"type\":\"heartbeat\",\"in_flight\":12,\"credit\":88,\"idle_reason\":\"no_data\"}\n");
    ks_bytes_free(&bytes);
}

TEST(protobuf_stands_behind_its_length)
{
    struct ks_bytes bytes;
    ks_pb_event *read;

    make_heartbeat();
    ks_bytes_init(&bytes, 1000);
    EXPECT_OK(ks_control_write(&event, KS_FRAME_PROTOBUF, &bytes));
    EXPECT_EQ_U64(bytes.data[0], bytes.size - 1);
    read = kinesis_sidecar__v1__stream_event__unpack(NULL, bytes.size - 1, bytes.data + 1);
    EXPECT(read != NULL);
    EXPECT_EQ_U64(read->heartbeat->credit, 88);
    kinesis_sidecar__v1__stream_event__free_unpacked(read, NULL);
    ks_bytes_free(&bytes);
}

TEST(a_line_that_does_not_fit_leaves_no_half)
{
    struct ks_bytes bytes;

    make_heartbeat();
    ks_bytes_init(&bytes, 40);
    EXPECT_ERR(ks_control_write(&event, KS_FRAME_NDJSON, &bytes), FULL);
    EXPECT_EQ_U64(bytes.size, 0);
    ks_bytes_free(&bytes);
}

static void expect_golden(const char *name)
{
    struct ks_bytes bytes;
    uint8_t golden[200];
    char path[100];
    FILE *file;
    size_t size;

    (void)snprintf(path, sizeof(path), "proto/golden/%s.bin", name);
    file = fopen(path, "rb");
    if (file == NULL)
        FAIL("%s is not there; the tests run in the folder of the Makefile", path);
    size = fread(golden, 1, sizeof(golden), file);
    EXPECT(fclose(file) == 0);
    ks_bytes_init(&bytes, 1000);
    EXPECT_OK(ks_control_write(&event, KS_FRAME_PROTOBUF, &bytes));
    EXPECT_EQ_U64(bytes.size, size);
    EXPECT_MEM(bytes.data, golden, size);
    ks_bytes_free(&bytes);
}

/* Made by proto/golden/make.py, with another protobuf. */
TEST(the_golden_frames_are_written_byte_for_byte)
{
    KinesisSidecar__V1__LeaseReturning returning;
    KinesisSidecar__V1__SessionEnded ended;
    KinesisSidecar__V1__RecordTooLarge large;

    make_heartbeat();
    expect_golden("heartbeat");

    kinesis_sidecar__v1__lease_returning__init(&returning);
    returning.shard_id = ks_pb_text("shardId-000000000003");
    returning.deadline = 1763685600123;
    event.event_case = KINESIS_SIDECAR__V1__STREAM_EVENT__EVENT_LEASE_RETURNING;
    event.lease_returning = &returning;
    expect_golden("lease_returning");

    kinesis_sidecar__v1__session_ended__init(&ended);
    ended.reason = KINESIS_SIDECAR__V1__SESSION_END__SESSION_END_TAKEN_OVER;
    event.event_case = KINESIS_SIDECAR__V1__STREAM_EVENT__EVENT_ENDED;
    event.ended = &ended;
    expect_golden("ended");

    kinesis_sidecar__v1__record_too_large__init(&large);
    large.shard_id = ks_pb_text("shardId-000000000003");
    large.epoch = 9;
    large.sequence_number = ks_pb_text("4959");
    large.sub_sequence_number = 17;
    large.partition_key = ks_pb_text("k");
    large.bytes = 5001;
    large.max_message_bytes = 4096;
    large.max_message_bytes_wanted = 7049;
    event.event_case = KINESIS_SIDECAR__V1__STREAM_EVENT__EVENT_RECORD_TOO_LARGE;
    event.record_too_large = &large;
    expect_golden("record_too_large");
}

TEST(a_server_sent_event_has_the_type_of_its_line)
{
    struct ks_bytes bytes;

    make_heartbeat();
    ks_bytes_init(&bytes, 1000);
    EXPECT_OK(ks_control_write(&event, KS_FRAME_SSE, &bytes));
    EXPECT_OK(ks_bytes_append_byte(&bytes, '\0'));
    EXPECT_STR((const char *)bytes.data,
               "event: heartbeat\ndata: {\"type\":\"heartbeat\",\"in_flight\":12,\"credit\":88,"
               "\"idle_reason\":\"no_data\"}\n\n");
    ks_bytes_free(&bytes);
    ks_bytes_init(&bytes, 30);
    EXPECT_ERR(ks_control_write(&event, KS_FRAME_SSE, &bytes), FULL);
    EXPECT_EQ_U64(bytes.size, 0);
    ks_bytes_free(&bytes);
}
