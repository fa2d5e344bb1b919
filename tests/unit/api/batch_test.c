/* SPDX-License-Identifier: Apache-2.0 */
/* Records in the messages of Watch, read by protobuf-c. */
#include "api/open_request.h"
#include "api/stream.h"
#include "ks_test.h"
#include "unit/api/rpc_rig.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

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
    stage_put_copies(&rig.stage, &entry, MANY);
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

/* ---- A socket that takes a part ---- */

/* A call whose windows hold up nothing: the socket does. */
static struct http2_answer *watch_by_a_small_socket(void)
{
    enum { MANY = 4000, WINDOW = 1 << 30, RECEIVE_BYTES = 8192 };
    static char data[1024];
    const struct ks_put_entry entry = {.partition_key = KS_VIEW("key"),
                                       .data = ks_view_of(data, sizeof(data))};
    ks_pb_open_request request;
    int receive = RECEIVE_BYTES;

    rig_begin(&rig);
    http2_begin(&client, &rig, "api", WINDOW);
    EXPECT(setsockopt(client.fd, SOL_SOCKET, SO_RCVBUF, &receive, sizeof(receive)) == 0);
    EXPECT(nghttp2_session_set_local_window_size(client.session, NGHTTP2_FLAG_NONE, 0, WINDOW) ==
           0);
    stage_put_copies(&rig.stage, &entry, MANY);
    kinesis_sidecar__v1__open_request__init(&request);
    request.max_in_flight = 2 * MANY;
    client.hold = true;
    return rpc_grpc(&client, "/kinesis_sidecar.v1.Consumer/Watch", &request.base, true);
}

static struct ks_session_view the_session(void)
{
    struct ks_session_status status;
    ks_session_id session = 0;

    while (!ks_switchboard_session(rig.stage.board, session, &status))
        session++;
    return status.session;
}

/* The socket takes nothing more. Returns how many records are written. */
static uint32_t wait_stalled(uint32_t more_than)
{
    uint32_t same = 0;
    uint32_t last = 0;

    for (int i = 0; i < 20000 && (same < 50 || last <= more_than); i++) {
        uint32_t now;

        http2_turn(&client);
        now = the_session().in_flight;
        same = now == last ? same + 1 : 0;
        last = now;
    }
    EXPECT(last > more_than);
    EXPECT(the_session().assigned > 0);
    return last;
}

/* Reads what the kernel has, while the server does nothing. */
static void read_the_kernel(void)
{
    static uint8_t buffer[64 << 10];
    struct pollfd readable = {.fd = client.fd, .events = POLLIN};

    while (poll(&readable, 1, 100) > 0) {
        ssize_t size = recv(client.fd, buffer, sizeof(buffer), MSG_DONTWAIT);

        EXPECT(size > 0);
        EXPECT(nghttp2_session_mem_recv(client.session, buffer, (size_t)size) == size);
    }
}

/* Records in whole messages. */
static uint32_t count_records(struct http2_answer *answer)
{
    uint32_t records = 0;
    size_t at = 0;

    while (answer->size >= at + 5) {
        const uint8_t *head = answer->body + at;
        size_t size =
            (size_t)head[1] << 24 | (size_t)head[2] << 16 | (size_t)head[3] << 8 | head[4];
        ks_pb_event *event;

        if (answer->size < at + 5 + size)
            break;
        event = next_event(answer, &at);
        if (event->event_case == KINESIS_SIDECAR__V1__STREAM_EVENT__EVENT_BATCH)
            records += (uint32_t)event->batch->n_records;
        kinesis_sidecar__v1__stream_event__free_unpacked(event, NULL);
    }
    return records;
}

TEST(records_of_a_call_are_written_when_their_message_is_in_the_socket)
{
    struct http2_answer *answer = watch_by_a_small_socket();
    uint32_t written = 0;

    for (int round = 0; round < 3; round++) {
        written = wait_stalled(written);
        read_the_kernel();
        EXPECT_EQ_U64(count_records(answer), written);
    }
    http2_end(&client);
    rig_end(&rig);
}

TEST(records_of_a_call_that_were_not_in_the_socket_return_when_it_breaks)
{
    uint32_t written;

    (void)watch_by_a_small_socket();
    written = wait_stalled(0);
    (void)shutdown(client.fd, SHUT_RDWR);
    for (int i = 0; i < 20000 && the_session().attached; i++)
        rig_turn(&rig, 5);
    EXPECT(!the_session().attached);
    EXPECT_EQ_U64(the_session().in_flight, written);
    EXPECT_EQ_U64(the_session().assigned, 0);
    http2_end(&client);
    rig_end(&rig);
}
