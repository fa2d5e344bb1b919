/* SPDX-License-Identifier: Apache-2.0 */
#include "api/rpc.h"
#include "api/gzip.h"
#include "base/budget.h"
#include "api/server.h"
#include "ks_test.h"
#include "unit/api/rpc_rig.h"

#include <stdio.h>
#include <string.h>

#define ADMIN "/kinesis_sidecar.v1.Admin/"
#define CONSUMER "/kinesis_sidecar.v1.Consumer/"

static struct rig rig;

TEST(a_method_is_called_in_json_in_protobuf_and_by_get)
{
    rig_begin(&rig);
    EXPECT_CONTAINS(rpc_json(&rig, ADMIN "GetStatus", "{}"), "\"dialect\":\"native\"");
    EXPECT_CONTAINS(rpc_json(&rig, CONSUMER "OpenSession", "{\"clientId\":\"a\"}"), "200 OK");
    EXPECT_CONTAINS(rpc_json(&rig, CONSUMER "OpenSession", "{\"clientId\":\"b\"}"), "200 OK");
    EXPECT_CONTAINS(rpc_call(&rig, "POST", ADMIN "GetStatus", "", "{}", 2), "HTTP/1.1 200");
    EXPECT_CONTAINS(rpc_call(&rig, "POST", ADMIN "ListShards",
                             "Content-Type: application/proto\r\n", "\x08\x01", 2),
                    "Content-Type: application/proto");
    EXPECT_CONTAINS(rpc_call(&rig, "GET",
                             ADMIN "ListSessions?connect=v1&encoding=json&message=%7B%22pageSize%22"
                                   "%3A1%7D",
                             "", "", 0),
                    "\"nextPageToken\":\"1\"");
    EXPECT_CONTAINS(rpc_call(&rig, "GET",
                             ADMIN
                             "ListSessions?encoding=json&base64=1&message=eyJwYWdlU2l6ZSI6MX0",
                             "", "", 0),
                    "\"nextPageToken\":\"1\"");
    rig_end(&rig);
}

TEST(who_has_effects_is_not_called_by_get)
{
    rig_begin(&rig);
    EXPECT_CONTAINS(rpc_call(&rig, "GET", CONSUMER "Settle?encoding=json&message={}", "", "", 0),
                    "HTTP/1.1 405");
    EXPECT_CONTAINS(rpc_call(&rig, "PUT", ADMIN "GetStatus", "", "{}", 2), "Allow: GET, POST");
    rig_end(&rig);
}

/* The same handler, the same words. */
TEST(a_call_fails_for_the_reason_that_rest_gives)
{
    static const char body[] = "{\"settlements\":[{\"ack_id\":\"x\"}]}";
    static const char reason[] = "outcome must be ack, retry, extend, dead_letter or drop";

    rig_begin(&rig);
    EXPECT_CONTAINS(rig_call(&rig, "POST", "/v1/records/settle", body), reason);
    EXPECT_CONTAINS(rpc_json(&rig, CONSUMER "Settle", body), reason);
    EXPECT_CONTAINS(rpc_json(&rig, CONSUMER "Settle", body), "{\"code\":\"invalid_argument\"");
    EXPECT_CONTAINS(rpc_json(&rig, CONSUMER "CloseSession", "{\"session\":\"no\"}"),
                    "HTTP/1.1 404");
    EXPECT_CONTAINS(rpc_json(&rig, CONSUMER "CloseSession", "{\"session\":\"no\"}"),
                    "\"type\":\"kinesis_sidecar.v1.Problem\"");
    rig_end(&rig);
}

/* 2^63 - 1 ms are more than any span can hold. */
TEST(a_pause_until_after_all_calendars_is_refused)
{
    rig_begin(&rig);
    EXPECT_CONTAINS(rpc_json(&rig, ADMIN "Pause", "{\"until\":\"9223372036854775807\"}"),
                    "before the year 10000");
    EXPECT_CONTAINS(rpc_json(&rig, ADMIN "Pause", "{\"until\":\"253402300799999\"}"), "200 OK");
    rig_end(&rig);
}

TEST(what_proto3_does_not_know_is_ignored_and_rest_refuses_it)
{
    static const char body[] =
        "{\"news\":1,\"settlements\":[{\"ack_id\":\"" RIG_FOREIGN_ID "\",\"outcome\":1}]}";

    rig_begin(&rig);
    EXPECT_CONTAINS(rpc_json(&rig, CONSUMER "Settle", body), "HTTP/1.1 200");
    EXPECT_CONTAINS(rig_call(&rig, "POST", "/v1/records/settle", body),
                    "unknown member \\\"news\\\"");
    rig_end(&rig);
}

TEST(a_body_that_unpacks_to_too_much_is_refused_and_a_packed_one_is_read)
{
    static char zeros[100000]; /* A few hundred when it is packed. */
    struct ks_bytes packed;

    rig_begin(&rig);
    ks_bytes_init(&packed, 1 << 20);
    EXPECT_OK(ks_gzip_pack(ks_view_of(zeros, sizeof(zeros)), &packed));
    EXPECT_CONTAINS(rpc_call(&rig, "POST", ADMIN "GetStatus", "Content-Encoding: gzip\r\n",
                             packed.data, packed.size),
                    "HTTP/1.1 413");
    ks_bytes_clear(&packed);
    EXPECT_OK(ks_gzip_pack(KS_VIEW("{\"clientId\":\"zip\"}"), &packed));
    EXPECT_CONTAINS(rpc_call(&rig, "POST", CONSUMER "OpenSession", "Content-Encoding: gzip\r\n",
                             packed.data, packed.size),
                    "\"session\":\"zip\"");
    EXPECT_CONTAINS(
        rpc_call(&rig, "POST", CONSUMER "OpenSession", "Content-Encoding: gzip\r\n", "{}", 2),
        "HTTP/1.1 400");
    ks_bytes_free(&packed);
    rig_end(&rig);
}

/* A small message must not cost a thousand times its bytes, however long a message may be. */
TEST(a_message_unpacks_to_few_times_its_size)
{
    static char spaces[800000];
    struct ks_bytes packed;
    uint64_t before;

    memset(spaces, ' ', sizeof(spaces));
    rig_begin(&rig);
    rig.api->request_bytes_max = 1 << 20;
    ks_bytes_init(&packed, 1 << 20);
    EXPECT_OK(ks_gzip_pack(ks_view_of(spaces, sizeof(spaces)), &packed));
    before = rig.api->accounts.work[KS_WORK_UNPACKING];
    EXPECT_CONTAINS(rpc_call(&rig, "POST", ADMIN "GetStatus", "Content-Encoding: gzip\r\n",
                             packed.data, packed.size),
                    "7 times its size");
    EXPECT(rig.api->accounts.work[KS_WORK_UNPACKING] - before <=
           KS_UNPACKED_FREE_BYTES + KS_UNPACKED_RATIO * packed.size);
    ks_bytes_clear(&packed);
    EXPECT_OK(ks_gzip_pack(ks_view_of(spaces, 100000), &packed));
    EXPECT_CONTAINS(rpc_call(&rig, "POST", ADMIN "GetStatus", "Content-Encoding: gzip\r\n",
                             packed.data, packed.size),
                    "HTTP/1.1 400");
    ks_bytes_free(&packed);
    rig_end(&rig);
}

TEST(a_message_over_the_limit_is_refused)
{
    static char spaces[5000];

    memset(spaces, ' ', sizeof(spaces));
    rig_begin(&rig);
    EXPECT_CONTAINS(rpc_call(&rig, "POST", ADMIN "GetStatus", "", spaces, sizeof(spaces)),
                    "\"code\":\"resource_exhausted\"");
    rig_end(&rig);
}

TEST(a_call_ends_when_its_time_is_over)
{
    rig_begin(&rig);
    EXPECT_CONTAINS(rpc_call(&rig, "POST", CONSUMER "Pull", "Connect-Timeout-Ms: 50\r\n",
                             "{\"session\":\"late\",\"waitMs\":\"60000\"}", 35),
                    "HTTP/1.1 504");
    EXPECT_CONTAINS(rpc_json(&rig, CONSUMER "Pull", "{\"session\":\"late\",\"waitMs\":\"0\"}"),
                    "\"idleReason\":\"IDLE_REASON_NO_");
    rig_end(&rig);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

TEST(records_are_pulled_and_settled_by_calls)
{
    const char *answer = NULL;
    char body[700];

    rig_begin(&rig);
    EXPECT_CONTAINS(rpc_json(&rig, CONSUMER "OpenSession", "{\"clientId\":\"c\"}"),
                    "\"session\":\"c\"");
    stage_put(&rig.stage, 0, 3);
    for (int i = 0; i < 100 && (answer == NULL || strstr(answer, "ackId") == NULL); i++) {
        answer = rpc_json(&rig, CONSUMER "Pull", "{\"session\":\"c\",\"waitMs\":\"500\"}");
        EXPECT_CONTAINS(answer, "HTTP/1.1 200");
    }
    (void)snprintf(body, sizeof(body),
                   "{\"settlements\":[{\"batchId\":\"%s\",\"outcome\":\"OUTCOME_ACK\"}]}",
                   rig_member(answer, "batchId"));
    EXPECT_CONTAINS(rpc_json(&rig, CONSUMER "Settle", body), "{\"ok\":\"");
    EXPECT_CONTAINS(rpc_json(&rig, CONSUMER "CloseSession", "{\"session\":\"c\"}"),
                    "{\"session\":\"c\"}");
    rig_end(&rig);
}
