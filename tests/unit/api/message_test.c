/* SPDX-License-Identifier: Apache-2.0 */
#include "api/ack_id.h"
#include "api/message.h"
#include "ks_test.h"
#include "unit/api/api_rig.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

TEST(media_types_are_compared_without_parameters_and_case)
{
    EXPECT(ks_media_type_is(KS_VIEW("Application/JSON ; charset=utf-8"), "application/json"));
    EXPECT(!ks_media_type_is(KS_VIEW("application/jsonx"), "application/json"));
    EXPECT(ks_media_type_is_protobuf(KS_VIEW("application/proto")));
    EXPECT(ks_media_type_is_protobuf(KS_VIEW("application/x-protobuf; a=b")));
    EXPECT(!ks_media_type_is_protobuf(KS_VIEW("application/json")));
}

TEST(protobuf_is_one_of_a_list)
{
    struct ks_request request = {.accept = KS_VIEW("text/html, application/x-protobuf;q=0.9")};

    EXPECT(ks_accepts_protobuf(&request));
    request.accept = KS_VIEW("*/*");
    EXPECT(!ks_accepts_protobuf(&request));
    request.accept = KS_VIEW_NONE;
    EXPECT(!ks_accepts_protobuf(&request));
}

TEST(what_is_accepted_is_weighed)
{
    static const struct {
        const char *accept;
        bool protobuf;
    } rows[] = {
        {"application/x-protobuf;q=0, application/x-ndjson", false},
        {"application/x-protobuf; Q=0.000", false},
        {"application/x-protobuf;q=0.4, application/json;q=0.5", false},
        {"application/x-protobuf;q=0.500, application/json;q=0.5", true},
        {"application/x-ndjson, application/x-protobuf", true},
        {"application/x-protobuf;q=0, application/protobuf;q=0.001", true},
        {"application/x-protobuf;q=", true},
        {"application/x-protobuf;q=0.zz", false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct ks_request request = {.accept = ks_view_text(rows[i].accept)};
        EXPECT_EQ_I64(ks_accepts_protobuf(&request), rows[i].protobuf);
    }
}

/* Who sends protobuf gets protobuf. */
TEST(a_settle_in_protobuf_is_answered_in_protobuf)
{
    static struct rig rig;
    ks_pb_settle_request request;
    ks_pb_settlement settlement;
    ks_pb_settlement *settlements[] = {&settlement};
    ks_pb_settle_response *response;
    struct ks_ack_key other;
    struct ks_ack_stamp stamp;
    char id[KS_ACK_ID_SIZE + 1] = "";
    char text[600];
    const char *answer;
    size_t packed;
    int head;
    int fd;

    kinesis_sidecar__v1__settle_request__init(&request);
    kinesis_sidecar__v1__settlement__init(&settlement);
    ks_ack_key_init(&other, 12345, 0);
    ks_ack_stamp_init(&stamp, &other, 0, 1, &(struct ks_ack_run){0, 1, 0, 1, 1});
    ks_ack_id_write(&stamp, 0, id);
    settlement.ack_id = ks_pb_text(id);
    settlement.outcome = KINESIS_SIDECAR__V1__OUTCOME__OUTCOME_ACK;
    request.n_settlements = 1;
    request.settlements = settlements;
    packed = kinesis_sidecar__v1__settle_request__get_packed_size(&request);
    head = snprintf(
        text, sizeof(text),
        "POST /v1/records/settle HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: "
        "application/x-protobuf\r\nContent-Length: %zu\r\n\r\n",
        packed);
    (void)kinesis_sidecar__v1__settle_request__pack(&request, (uint8_t *)text + head);

    rig_begin(&rig);
    fd = rig_connect(&rig, "api");
    rig_send(&rig, fd, text, (size_t)head + packed);
    answer = rig_read(&rig, fd, NULL);
    EXPECT_CONTAINS(answer, "Content-Type: application/x-protobuf");
    answer = strstr(answer, "\r\n\r\n") + 4;
    response =
        kinesis_sidecar__v1__settle_response__unpack(NULL, strlen(answer), (const uint8_t *)answer);
    EXPECT(response != NULL);
    EXPECT_EQ_U64(response->n_failed, 1);
    EXPECT_STR(response->failed[0]->reason, "UNKNOWN");
    kinesis_sidecar__v1__settle_response__free_unpacked(response, NULL);
    (void)close(fd);
    rig_end(&rig);
}
