/* SPDX-License-Identifier: Apache-2.0 */
/* Records in the messages of Watch, read by protobuf-c. */
#include "api/open_request.h"
#include "api/stream.h"
#include "ks_test.h"
#include "unit/api/rpc_rig.h"

#include <stdio.h>
#include <string.h>

static struct rig rig;
static struct http2_client client;

static ks_pb_event *next_event(struct http2_answer *answer, size_t *at)
{
    return (ks_pb_event *)rpc_heard(&client, answer, at,
                                    &kinesis_sidecar__v1__stream_event__descriptor);
}

static struct http2_answer *watch(const char *client_id)
{
    ks_pb_open_request request;

    kinesis_sidecar__v1__open_request__init(&request);
    request.client_id = ks_pb_text(client_id);
    return rpc_grpc(&client, "/kinesis_sidecar.v1.Consumer/Watch", &request.base, true);
}

static void settle(const char *batch_id, uint64_t wanted)
{
    ks_pb_settle_request request;
    ks_pb_settlement settlement;
    ks_pb_settlement *settlements[] = {&settlement};
    ks_pb_settle_response *response;
    struct http2_answer *answer;
    size_t at = 0;

    kinesis_sidecar__v1__settle_request__init(&request);
    kinesis_sidecar__v1__settlement__init(&settlement);
    settlement.batch_id = ks_pb_text(batch_id);
    settlement.outcome = KINESIS_SIDECAR__V1__OUTCOME__OUTCOME_ACK;
    request.n_settlements = 1;
    request.settlements = settlements;
    answer = rpc_grpc(&client, "/kinesis_sidecar.v1.Consumer/Settle", &request.base, true);
    http2_wait(&client, answer);
    response = (ks_pb_settle_response *)rpc_heard(
        &client, answer, &at, &kinesis_sidecar__v1__settle_response__descriptor);
    EXPECT_EQ_U64(response->ok, wanted);
    EXPECT_EQ_U64(response->n_failed, 0);
    kinesis_sidecar__v1__settle_response__free_unpacked(response, NULL);
}

/* Also when one is longer than any buffer. */
TEST(a_batch_holds_whole_records_and_its_id_settles_these)
{
    enum { LARGE = 600000, SMALL = 50 };
    static char data[LARGE];
    struct ks_put_entry entry = {.partition_key = KS_VIEW("key"), .data = {NULL, 0}};
    struct http2_answer *answer;
    uint32_t records = 0;
    bool large = false;
    size_t at = 0;

    rig_begin(&rig);
    http2_begin(&client, &rig, "api", 0);
    memset(data, 'x', sizeof(data));
    stage_put(&rig.stage, 0, SMALL);
    entry.data = ks_view_of(data, sizeof(data));
    stage_put_one(&rig.stage, &entry);
    stage_put(&rig.stage, SMALL, SMALL);
    answer = watch("c");
    while (records < 2 * SMALL + 1) {
        ks_pb_event *event = next_event(answer, &at);
        if (event->event_case == KINESIS_SIDECAR__V1__STREAM_EVENT__EVENT_BATCH) {
            KinesisSidecar__V1__RecordBatch *batch = event->batch;
            EXPECT(batch->n_records > 0);
            for (size_t i = 0; i < batch->n_records; i++) {
                EXPECT_STR(batch->records[i]->stream, "stream");
                EXPECT_EQ_U64(batch->records[i]->attempt, 1);
                large = large || batch->records[i]->data.len == LARGE;
            }
            records += (uint32_t)batch->n_records;
            settle(batch->batch_id, batch->n_records);
        }
        kinesis_sidecar__v1__stream_event__free_unpacked(event, NULL);
    }
    EXPECT_EQ_U64(records, 2 * SMALL + 1);
    EXPECT(large);
    http2_end(&client);
    rig_end(&rig);
}

/* Watches records of 1 KB; the largest message of records, and the most records in one. */
static void watch_kilobytes(uint64_t max_message_bytes, size_t *ret_bytes, size_t *ret_records)
{
    enum { MANY = 300 };
    static char data[1024];
    struct ks_put_entry entry = {.partition_key = KS_VIEW("key"),
                                 .data = ks_view_of(data, sizeof(data))};
    ks_pb_open_request request;
    struct http2_answer *answer;
    size_t records = 0;
    size_t at = 0;

    *ret_bytes = *ret_records = 0;
    rig_begin(&rig);
    http2_begin(&client, &rig, "api", 0);
    for (int i = 0; i < MANY; i++)
        stage_put_one(&rig.stage, &entry);
    kinesis_sidecar__v1__open_request__init(&request);
    request.max_message_bytes = max_message_bytes;
    answer = rpc_grpc(&client, "/kinesis_sidecar.v1.Consumer/Watch", &request.base, true);
    while (records < MANY) {
        size_t before = at;
        ks_pb_event *event = next_event(answer, &at);
        if (event->event_case == KINESIS_SIDECAR__V1__STREAM_EVENT__EVENT_BATCH) {
            size_t count = event->batch->n_records;
            records += count;
            *ret_records = count > *ret_records ? count : *ret_records;
            *ret_bytes = at - before > *ret_bytes ? at - before : *ret_bytes;
        }
        kinesis_sidecar__v1__stream_event__free_unpacked(event, NULL);
    }
    http2_end(&client);
    rig_end(&rig);
}

/* Frames of HTTP/2 are of 16 KiB. */
TEST(a_message_is_as_large_as_the_window_and_not_as_a_frame)
{
    size_t bytes;
    size_t records;

    watch_kilobytes(0, &bytes, &records);
    EXPECT(records > 32);
}

TEST(a_message_is_no_larger_than_its_client_takes)
{
    size_t bytes;
    size_t records;

    watch_kilobytes(20000, &bytes, &records);
    EXPECT(records > 8);
    EXPECT(bytes <= 20000);
}

TEST(the_json_of_proto3_carries_them_too)
{
    const char *answer;

    rig_begin(&rig);
    stage_put(&rig.stage, 0, 3);
    answer = rpc_call(&rig, "POST", "/kinesis_sidecar.v1.Consumer/Watch",
                      "Content-Type: application/connect+json\r\nConnect-Timeout-Ms: 1500\r\n",
                      "\0\0\0\0\2{}", 7);
    EXPECT_CONTAINS(answer, "HTTP/1.1 200");
    EXPECT(memmem(answer, 100000, "{\"batch\":{\"batchId\":\"", 21) != NULL);
    EXPECT(memmem(answer, 100000, "\"approximateArrivalTimestamp\":\"", 31) != NULL);
    EXPECT(memmem(answer, 100000, "}]}}", 4) != NULL);
    rig_end(&rig);
}
