/* SPDX-License-Identifier: Apache-2.0 */
#include "ks_test.h"
#include "unit/api/api_rig.h"

#include <string.h>
#include <unistd.h>

static struct rig rig;

TEST(records_are_put_and_come_out_again)
{
    const char *answer;

    rig_begin(&rig);
    answer = rig_call(&rig, "POST", "/v1/local/records",
                      "{\"Records\":[{\"Data\":\"aGVsbG8=\",\"PartitionKey\":\"k\"}]}");
    EXPECT_CONTAINS(answer, "{\"FailedRecordCount\":0,\"Records\":[{\"SequenceNumber\":\"");
    EXPECT_CONTAINS(answer, "\"ShardId\":\"shardId-");
    EXPECT_CONTAINS(rig_pull(&rig, "/v1/records"), "\"data\":\"aGVsbG8=\"");
    EXPECT_CONTAINS(rig_call(&rig, "POST", "/v1/local/records", "{\"Records\":[]}"),
                    "HTTP/1.1 400");
    EXPECT_CONTAINS(rig_call(&rig, "POST", "/v1/local/records",
                             "{\"StreamName\":\"stream\",\"Records\":[{\"Data\":\"aGk=\","
                             "\"PartitionKey\":\"k\"}]}"),
                    "HTTP/1.1 200");
    EXPECT_CONTAINS(rig_call(&rig, "POST", "/v1/local/records",
                             "{\"StreamName\":\"other\",\"Records\":[{\"Data\":\"aGk=\","
                             "\"PartitionKey\":\"k\"}]}"),
                    "HTTP/1.1 404");
    /* What only the stream can judge is no reason to try again, either: 2^128 is no hash key. */
    EXPECT_CONTAINS(
        rig_call(&rig, "POST", "/v1/local/records",
                 "{\"Records\":[{\"Data\":\"aGk=\",\"PartitionKey\":\"k\",\"ExplicitHashKey\":"
                 "\"340282366920938463463374607431768211456\"}]}"),
        "HTTP/1.1 400");
    rig_end(&rig);
}

/* The record is put all the same; its answer has nobody to go to. */
TEST(a_client_may_leave_before_the_answer)
{
    static const char request[] =
        "POST /v1/local/records HTTP/1.1\r\nHost: a\r\nContent-Length: 51\r\n\r\n"
        "{\"Records\":[{\"Data\":\"aGk=\",\"PartitionKey\":\"left\"}]}";
    int fd;

    rig_begin(&rig);
    fd = rig_connect(&rig, "api");
    rig_send(&rig, fd, request, sizeof(request) - 1);
    (void)close(fd);
    rig_turn(&rig, 100);
    EXPECT(!ks_api_busy(rig.api));
    rig_end(&rig);
}
