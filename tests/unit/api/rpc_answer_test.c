/* SPDX-License-Identifier: Apache-2.0 */
#include "api/message.h"
#include "ks_test.h"
#include "unit/api/rpc_rig.h"

#include <string.h>

static struct rig rig;
static struct http2_client client;

static void begin(void)
{
    rig_begin(&rig);
    http2_begin(&client, &rig, "api", 0);
}

static void end(void)
{
    http2_end(&client);
    rig_end(&rig);
}

TEST(grpc_says_its_status_in_trailers)
{
    KinesisSidecar__V1__GetStatusRequest request;
    struct http2_answer *answer;
    ks_pb_status *status;
    size_t at = 0;

    begin();
    kinesis_sidecar__v1__get_status_request__init(&request);
    answer = rpc_grpc(&client, "/kinesis_sidecar.v1.Admin/GetStatus", &request.base, true);
    http2_wait(&client, answer);
    EXPECT_EQ_I64(answer->status, 200);
    EXPECT_CONTAINS(answer->headers, "content-type: application/grpc");
    EXPECT_CONTAINS(answer->trailers, "grpc-status: 0\n");
    status =
        (ks_pb_status *)rpc_heard(&client, answer, &at, &kinesis_sidecar__v1__status__descriptor);
    EXPECT(status->ready);
    kinesis_sidecar__v1__status__free_unpacked(status, NULL);
    EXPECT_EQ_U64(at, answer->size);
    end();
}

TEST(a_grpc_failure_is_trailers_only_with_its_reason)
{
    KinesisSidecar__V1__CloseSessionRequest request;
    struct http2_answer *answer;

    begin();
    kinesis_sidecar__v1__close_session_request__init(&request);
    request.session = ks_pb_text("no");
    answer = rpc_grpc(&client, "/kinesis_sidecar.v1.Consumer/CloseSession", &request.base, true);
    http2_wait(&client, answer);
    EXPECT_EQ_I64(answer->status, 200);
    EXPECT_EQ_U64(answer->size, 0);
    EXPECT_CONTAINS(answer->headers, "grpc-status: 5\n");
    EXPECT_CONTAINS(answer->headers, "grpc-message: no such session\n");
    EXPECT_CONTAINS(answer->headers, "grpc-status-details-bin: ");
    answer = rpc_grpc(&client, "/no.Such/Method", NULL, true);
    http2_upload(&client, answer, "", 0, true);
    http2_wait(&client, answer);
    EXPECT_CONTAINS(answer->headers, "grpc-status: 12\n");
    end();
}

TEST(one_message_is_wanted_and_no_other)
{
    KinesisSidecar__V1__GetStatusRequest request;
    struct http2_answer *answer;

    begin();
    kinesis_sidecar__v1__get_status_request__init(&request);
    answer = rpc_grpc(&client, "/kinesis_sidecar.v1.Admin/GetStatus", &request.base, false);
    http2_turns(&client, 20);
    rpc_say(&client, answer, &request.base, true);
    http2_wait(&client, answer);
    EXPECT_CONTAINS(answer->headers, "grpc-status: 12\n");
    answer = rpc_grpc(&client, "/kinesis_sidecar.v1.Admin/GetStatus", NULL, false);
    http2_upload(&client, answer, "\0\0\0\0\5abc", 8, true);
    http2_wait(&client, answer);
    EXPECT_CONTAINS(answer->headers, "grpc-status: 3\n");
    answer = rpc_grpc(&client, "/kinesis_sidecar.v1.Admin/GetStatus", NULL, false);
    http2_upload(&client, answer, "\1\0\0\0\0", 5, true);
    http2_wait(&client, answer);
    EXPECT_CONTAINS(answer->headers, "grpc-status: 13\n");
    answer = rpc_grpc(&client, "/kinesis_sidecar.v1.Admin/GetStatus", NULL, false);
    http2_upload(&client, answer, "\0\7\0\0\0", 5, false);
    http2_wait(&client, answer);
    EXPECT_CONTAINS(answer->headers, "grpc-status: 8\n");
    end();
}

TEST(a_connect_stream_ends_with_an_envelope_of_its_own)
{
    const char *answer;
    const char *last;

    rig_begin(&rig);
    answer = rpc_call(&rig, "POST", "/kinesis_sidecar.v1.Admin/WatchEvents",
                      "Content-Type: application/connect+json\r\nConnect-Timeout-Ms: 100\r\n",
                      "\0\0\0\0\2{}", 7);
    EXPECT_CONTAINS(answer, "HTTP/1.1 200");
    last = memmem(answer, 4096, "{\"error\":", 9);
    EXPECT(last != NULL);
    EXPECT_EQ_I64(last[-5], 2);
    EXPECT_CONTAINS(last, "{\"error\":{\"code\":\"deadline_exceeded\"");
    EXPECT_CONTAINS(rpc_call(&rig, "POST", "/kinesis_sidecar.v1.Consumer/Stream",
                             "Content-Type: application/connect+json\r\n", "", 0),
                    "HTTP/1.1 505");
    rig_end(&rig);
}
