/* SPDX-License-Identifier: Apache-2.0 */
/* Long messages are read on another thread: what becomes of their requests meanwhile. */
#include "api/message.h"
#include "api/server.h"
#include "base/budget.h"
#include "base/metrics.h"
#include "ks_test.h"
#include "unit/api/api_rig.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PUT_PATH "/v1/local/records"
#define PUT_RECORD "{\"Records\":[{\"Data\":\"YQ==\",\"PartitionKey\":\"k\"}]}"

enum { LONG = 300000 };

static struct rig rig;
static char request[2 * LONG + 1000];

static void begin(void)
{
    rig_begin(&rig);
    rig.api->request_bytes_max = LONG;
}

/* A request with a body of LONG bytes, which is `json` and spaces. Returns its size. */
static size_t put_request(char *place, const char *path, const char *json, const char *line)
{
    int size = snprintf(place, 500, "POST %s HTTP/1.1\r\nHost: a\r\n%sContent-Length: %d\r\n\r\n",
                        path, line, LONG);

    memset(place + size, ' ', LONG);
    memcpy(place + size, json, strlen(json));
    return (size_t)size + LONG;
}

static const char *call_long(const char *path, const char *json)
{
    int fd = rig_connect(&rig, "api");
    size_t size = put_request(request, path, json, "Connection: close\r\n");
    const char *answer;

    rig_send(&rig, fd, request, size);
    answer = rig_read(&rig, fd, NULL);
    (void)close(fd);
    return answer;
}

TEST(a_long_message_is_read_and_handled)
{
    begin();
    EXPECT_CONTAINS(call_long("/v1/records/settle",
                              "{\"settlements\":[{\"ack_id\":\"" RIG_FOREIGN_ID
                              "\",\"outcome\":\"ack\"}]}"),
                    "\"failed\":[{\"ack_id\":\"" RIG_FOREIGN_ID);
    EXPECT_CONTAINS(call_long("/v1/records/ack", "{\"ack_ids\":[\"" RIG_FOREIGN_ID "\",\"y\"]}"),
                    "{\"ack_id\":\"y\"");
    EXPECT_CONTAINS(call_long("/v1/records/settle", "{\"settlements\":"), "HTTP/1.1 400");
    EXPECT_CONTAINS(call_long("/v1/records/settle", "{\"subscription\":\"no\"}"), "HTTP/1.1 404");
    EXPECT_CONTAINS(call_long("/kinesis_sidecar.v1.Consumer/Settle", "{}"), "HTTP/1.1 ");
    EXPECT_EQ_U64(rig.api->accounts.held[KS_HELD_BODIES], 0);
    rig_end(&rig);
}

/* Where nothing long is expected nothing long is read. */
TEST(an_order_is_short)
{
    begin();
    EXPECT_CONTAINS(call_long("/v1/replays", "{}"), "HTTP/1.1 413");
    rig_end(&rig);
}

static void leave_while_it_is_read(const char *path, const char *json)
{
    int64_t live;

    begin();
    (void)call_long(path, json);
    live = ks_alloc_live();
    for (int i = 0; i < 20; i++) {
        int fd = rig_connect(&rig, "api");
        size_t size = put_request(request, path, json, "");
        rig_send(&rig, fd, request, size);
        (void)close(fd);
        rig_turn(&rig, i);
    }
    /* The house has memory of its own meanwhile; each of the 20 would leave three pieces. */
    for (int i = 0; i < 10000 && ks_alloc_live() - live >= 20; i++) {
        rig_turn(&rig, 1);
        (void)usleep(1000);
    }
    EXPECT(ks_alloc_live() - live < 20);
    EXPECT_EQ_U64(rig.api->accounts.held[KS_HELD_BODIES], 0);
    rig_end(&rig);
}

TEST(a_client_that_leaves_while_its_message_is_read_costs_nothing)
{
    leave_while_it_is_read("/v1/records/settle", "{\"settlements\":[]}");
}

TEST(a_client_that_leaves_while_its_records_are_read_costs_nothing)
{
    leave_while_it_is_read(PUT_PATH, "{\"Records\":[]}");
}

TEST(records_to_put_are_read_and_put)
{
    begin();
    EXPECT_CONTAINS(call_long(PUT_PATH, PUT_RECORD), "\"FailedRecordCount\":0");
    EXPECT_CONTAINS(call_long(PUT_PATH, "{\"Records\":["), "HTTP/1.1 400");
    EXPECT_CONTAINS(call_long(PUT_PATH "?subscription=no", PUT_RECORD), "HTTP/1.1 404");
    EXPECT_EQ_U64(rig.api->accounts.held[KS_HELD_BODIES], 0);
    rig_end(&rig);
}

static int gate[2];

/* Keeps the thread until somebody writes into the gate. */
static void wait_at_gate(struct ks_job *job)
{
    (void)job;
    EXPECT_EQ_I64(read(gate[0], &(char){0}, 1), 1);
}

static void passed_gate(struct ks_job *job)
{
    (void)job;
}

TEST(a_client_that_has_left_before_its_message_is_read_gets_no_answer)
{
    struct ks_job job = {.run = wait_at_gate, .done = passed_gate};
    int64_t answers;
    size_t size;
    int fd;

    begin();
    EXPECT(pipe(gate) == 0);
    ks_loop_submit_to(rig.stage.loop, rig.api->decoder, &job);
    answers = ks_metric_number(KS_METRIC_HTTP_REQUESTS);
    fd = rig_connect(&rig, "api");
    size = put_request(request, "/v1/records/settle", "{}", "");
    rig_send(&rig, fd, request, size);
    for (int i = 0; i < 2000 && rig.api->accounts.work[KS_WORK_PARSING] < LONG; i++)
        rig_turn(&rig, 1);
    EXPECT_EQ_U64(rig.api->accounts.work[KS_WORK_PARSING], LONG);
    (void)close(fd);
    for (int i = 0; i < 2000 && ks_metric_number(KS_METRIC_CONNECTIONS) > 0; i++)
        rig_turn(&rig, 1);
    EXPECT_EQ_I64(ks_metric_number(KS_METRIC_CONNECTIONS), 0);
    EXPECT_EQ_U64(rig.api->accounts.held[KS_HELD_BODIES], 0);
    EXPECT_EQ_I64(write(gate[1], "", 1), 1);
    for (int i = 0; i < 200; i++) {
        rig_turn(&rig, 1);
        (void)usleep(500);
    }
    EXPECT_EQ_I64(ks_metric_number(KS_METRIC_HTTP_REQUESTS), answers);
    (void)close(gate[0]);
    (void)close(gate[1]);
    rig_end(&rig);
}

/* Many records are looked at on the thread, and few by the loop. */
TEST(a_long_put_keeps_nobody_waiting)
{
    struct ks_job job = {.run = wait_at_gate, .done = passed_gate};
    size_t size;
    int fd;

    begin();
    EXPECT(pipe(gate) == 0);
    ks_loop_submit_to(rig.stage.loop, rig.api->decoder, &job);
    fd = rig_connect(&rig, "api");
    size = put_request(request, PUT_PATH, PUT_RECORD, "Connection: close\r\n");
    rig_send(&rig, fd, request, size);
    EXPECT_CONTAINS(rig_call(&rig, "POST", PUT_PATH, PUT_RECORD), "\"FailedRecordCount\":0");
    EXPECT_EQ_I64(recv(fd, request, sizeof(request), MSG_DONTWAIT), -1);
    EXPECT_EQ_I64(write(gate[1], "", 1), 1);
    EXPECT_CONTAINS(rig_read(&rig, fd, NULL), "\"FailedRecordCount\":0");
    (void)close(fd);
    (void)close(gate[0]);
    (void)close(gate[1]);
    rig_end(&rig);
}

TEST(requests_on_one_connection_are_answered_in_their_order)
{
    size_t size;
    const char *answer;
    int fd;

    begin();
    fd = rig_connect(&rig, "api");
    size = put_request(request, "/v1/records/settle",
                       "{\"settlements\":[{\"ack_id\":\"" RIG_FOREIGN_ID "\",\"outcome\":\"ack\"},"
                       "{\"ack_id\":\"first\",\"outcome\":\"ack\"}]}",
                       "");
    size += (size_t)snprintf(request + size, 200,
                             "POST /v1/records/ack?ack_id=" RIG_FOREIGN_ID
                             "&ack_id=second HTTP/1.1\r\nHost: a\r\n"
                             "Connection: close\r\nContent-Length: 0\r\n\r\n");
    rig_send(&rig, fd, request, size);
    answer = rig_read(&rig, fd, NULL);
    EXPECT(strstr(answer, "first") != NULL && strstr(answer, "second") > strstr(answer, "first"));
    (void)close(fd);
    rig_end(&rig);
}
