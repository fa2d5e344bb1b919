/* SPDX-License-Identifier: Apache-2.0 */
#include "api/control.h"
#include "ks_test.h"

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
    EXPECT_OK(ks_control_write(&event, false, &bytes));
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
    EXPECT_OK(ks_control_write(&event, true, &bytes));
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
    EXPECT_ERR(ks_control_write(&event, false, &bytes), FULL);
    EXPECT_EQ_U64(bytes.size, 0);
    ks_bytes_free(&bytes);
}
