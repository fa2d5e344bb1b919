/* SPDX-License-Identifier: Apache-2.0 */
#include "api/stream.h"
#include "api/message.h"
#include "ks_test.h"
#include "unit/api/api_rig.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct rig rig;

static int open_stream(const char *query, const char *accept)
{
    char request[400];
    int fd = rig_connect(&rig, "api");
    int size = snprintf(request, sizeof(request),
                        "GET /v1/records/stream?%s HTTP/1.1\r\nHost: a\r\nAccept: %s\r\n\r\n",
                        query, accept);

    rig_send(&rig, fd, request, (size_t)size);
    return fd;
}

TEST(a_stream_says_who_it_is_then_sends_records_and_heartbeats)
{
    const char *text;
    int fd;

    rig_begin(&rig);
    fd = open_stream("client_id=me&heartbeat_ms=200&max_in_flight=7", "*/*");
    text = rig_read(&rig, fd, "\"heartbeat_ms\":200}\n");
    EXPECT_CONTAINS(text, "Content-Type: application/x-ndjson");
    EXPECT_CONTAINS(text, "X-Accel-Buffering: no");
    EXPECT_CONTAINS(text, "Cache-Control: no-store");
    EXPECT_CONTAINS(text,
                    "{\"type\":\"session\",\"session\":\"me\",\"client_id\":\"me\",\"boot_id\":");
    EXPECT_CONTAINS(rig_read(&rig, fd, "\"type\":\"heartbeat\",\"in_flight\":0,\"credit\":7,"),
                    "}");
    stage_put(&rig.stage, 5, 1);
    text = rig_read(&rig, fd, "\"data\":\"NQ==\"}\n");
    EXPECT_CONTAINS(text, "{\"type\":\"record\",\"ack_id\":\"");
    EXPECT_CONTAINS(text, "\"partition_key\":\"5\"");
    (void)rig_read(&rig, fd, "\"type\":\"heartbeat\",\"in_flight\":1,\"credit\":6,");
    (void)close(fd);
    rig_end(&rig);
}

static uint32_t count_of(const char *text, const char *word)
{
    uint32_t count = 0;

    for (; (text = strstr(text, word)) != NULL; text++)
        count++;
    return count;
}

/* Its lines name a batch of which the rest is delivered again: the name settles what was written, and no more. */
TEST(a_stream_that_outlived_its_lease_is_cut_and_its_batch_settles_what_was_written)
{
    char batch[512];
    char path[600];
    const char *text;
    uint32_t whole;
    uint32_t ok = 0;
    int fd;

    rig_begin(&rig);
    fd = open_stream("client_id=me&max_in_flight=10000", "*/*");
    stage_turn_until(&rig.stage, stage_holds_all);
    stage_put(&rig.stage, 0, 3000);
    rig_turn(&rig, 200); /* The client does not read: the network is full, and a batch half out. */
    stage_sleep_past_lease();
    text = rig_read(&rig, fd, NULL);
    EXPECT_CONTAINS(text, "\"type\":\"record\"");
    EXPECT(strstr(text, "\r\n0\r\n\r\n") == NULL); /* No end of chunks. */
    whole = count_of(text, "\"}\n");
    text = strstr(text, "\"batch_id\":\"") + strlen("\"batch_id\":\"");
    (void)snprintf(batch, sizeof(batch), "%.*s", (int)strcspn(text, "\""), text);
    (void)snprintf(path, sizeof(path), "/v1/records/ack?batch_id=%s", batch);
    text = rig_call(&rig, "POST", path, "");
    EXPECT(strstr(text, "\"ok\":") == NULL ||
           sscanf(strstr(text, "\"ok\":"), "\"ok\":%" SCNu32, &ok) == 1);
    EXPECT(ok <= whole);
    (void)close(fd);
    rig_end(&rig);
}

/* A retry of the first record arrives while the network is full: all before the barrier are first deliveries, and no
 * other stream says the barrier. */
TEST(barrier_separates_deliveries_before_a_retry_from_those_after_it)
{
    char ack_id[64];
    char body[256];
    const char *text;
    const char *barrier;
    int other;
    int fd;

    rig_begin(&rig);
    fd = open_stream("client_id=me&max_in_flight=10000", "*/*");
    stage_turn_until(&rig.stage, stage_holds_all);
    other = open_stream("client_id=other&heartbeat_ms=300&shards=shardId-000000000001", "*/*");
    (void)rig_read(&rig, other, "session");
    stage_put(&rig.stage, 0, 3000);
    text = strstr(rig_read(&rig, fd, "\"attempt\":1"), "\"ack_id\":\"") + strlen("\"ack_id\":\"");
    (void)snprintf(ack_id, sizeof(ack_id), "%.*s", (int)strcspn(text, "\""), text);
    rig_turn(&rig, 200); /* The client does not read: the network is full. */
    (void)snprintf(body, sizeof(body),
                   "{\"barrier\":\"b-7\",\"settlements\":[{\"ack_id\":\"%s\",\"outcome\":\"retry\","
                   "\"delay_ms\":1}]}",
                   ack_id);
    EXPECT_CONTAINS(rig_call(&rig, "POST", "/v1/records/settle", body), "\"ok\":1");
    text = rig_read(&rig, fd, "\"attempt\":2");
    barrier = strstr(text, "{\"type\":\"barrier\",\"barrier\":\"b-7\"}\n");
    EXPECT(barrier != NULL);
    EXPECT(strstr(text, "\"attempt\":2") > barrier);
    EXPECT(strstr(rig_read(&rig, other, "heartbeat"), "barrier") == NULL);
    (void)close(fd);
    (void)close(other);
    rig_end(&rig);
}

TEST(the_session_of_nameless_polls_is_no_streams)
{
    int fd;

    rig_begin(&rig);
    fd = open_stream("client_id=default", "*/*");
    EXPECT_CONTAINS(rig_read(&rig, fd, "poll without a name"), "HTTP/1.1 400");
    (void)close(fd);
    rig_end(&rig);
}

TEST(protobuf_begins_with_the_session_too)
{
    const char *text;
    const char *body;
    ks_pb_event *event;
    int fd;

    rig_begin(&rig);
    fd = open_stream("client_id=me", "application/x-protobuf");
    text = rig_read(&rig, fd, "\r\n\r\n");
    EXPECT_CONTAINS(text, "Content-Type: application/x-protobuf");
    body = strstr(text, "\r\n\r\n") + 4;
    if (*body == '\0')
        body = rig_read(&rig, fd, "\r\n");
    body = strstr(body, "\r\n") + 2; /* The size of the chunk. */
    event = kinesis_sidecar__v1__stream_event__unpack(NULL, (uint8_t)body[0],
                                                      (const uint8_t *)body + 1);
    EXPECT(event != NULL);
    EXPECT_EQ_I64(event->event_case, KINESIS_SIDECAR__V1__STREAM_EVENT__EVENT_SESSION);
    EXPECT_STR(event->session->client_id, "me");
    EXPECT_EQ_I64(event->session->heartbeat_ms, 10000);
    kinesis_sidecar__v1__stream_event__free_unpacked(event, NULL);
    (void)close(fd);
    rig_end(&rig);
}

TEST(the_same_client_id_takes_over_and_the_old_stream_is_told)
{
    int old;
    int fresh;

    rig_begin(&rig);
    old = open_stream("client_id=me", "*/*");
    (void)rig_read(&rig, old, "session");
    fresh = open_stream("client_id=me", "*/*");
    EXPECT_CONTAINS(rig_read(&rig, old, "0\r\n\r\n"),
                    "{\"type\":\"ended\",\"reason\":\"taken_over\"}");
    (void)rig_read(&rig, fresh, "session");
    (void)close(old);
    (void)close(fresh);
    rig_end(&rig);
}

TEST(a_closed_session_ends_its_stream)
{
    int fd;

    rig_begin(&rig);
    fd = open_stream("client_id=me", "*/*");
    (void)rig_read(&rig, fd, "session");
    EXPECT_CONTAINS(rig_call(&rig, "DELETE", "/v1/sessions/me", ""), "HTTP/1.1 200");
    EXPECT_CONTAINS(rig_read(&rig, fd, "0\r\n\r\n"), "\"type\":\"ended\",\"reason\":\"expired\"");
    (void)close(fd);
    rig_end(&rig);
}

TEST(a_drain_is_told_and_ends_the_stream)
{
    const char *text;
    int fd;

    rig_begin(&rig);
    fd = open_stream("client_id=me", "*/*");
    (void)rig_read(&rig, fd, "session");
    stage_turn_until(&rig.stage, stage_holds_all);
    ks_switchboard_drain(rig.stage.board, ks_span_ms(1000));
    text = rig_read(&rig, fd, "0\r\n\r\n");
    EXPECT_CONTAINS(text, "{\"type\":\"draining\",\"deadline\":\"20");
    EXPECT_CONTAINS(text, "{\"type\":\"ended\",\"reason\":\"drained\"}");
    EXPECT_CONTAINS(rig_call(&rig, "GET", "/v1/records/stream", ""), "HTTP/1.1 503");
    (void)close(fd);
    rig_end(&rig);
}
