/* SPDX-License-Identifier: Apache-2.0 */
#include "api/exchange.h"
#include "api/guard.h"
#include "api/server.h"
#include "ks_test.h"
#include "unit/api/api_rig.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct rig rig;

static const char *call_with(const char *method, const char *target, const char *header)
{
    char request[500];
    int fd = rig_connect(&rig, "api");
    const char *answer;

    (void)snprintf(
        request, sizeof(request),
        "%s %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 2\r\n%s\r\n\r\n{}",
        method, target, header);
    rig_send(&rig, fd, request, strlen(request));
    answer = rig_read(&rig, fd, NULL);
    (void)close(fd);
    return answer;
}

static void write_token(const char *text)
{
    FILE *file = fopen(ks_test_path("token"), "w");

    EXPECT(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
}

TEST(what_the_table_does_not_have_is_answered_by_its_kind)
{
    rig_begin(&rig);
    EXPECT_CONTAINS(call_with("GET", "/v1/nothing", "X: y"), "HTTP/1.1 404");
    EXPECT_CONTAINS(call_with("GET", "/metrics", "X: y"), "the ops port (--ops-listen) has it");
    EXPECT_CONTAINS(rig_ops(&rig, "/v1/status"), "the local API (--listen) has it");
    EXPECT_CONTAINS(call_with("POST", "/kinesis_sidecar.v1.Admin/Nothing", "X: y"), "HTTP/1.1 501");
    EXPECT_CONTAINS(call_with("POST", "/kinesis_sidecar.v1.Admin/Nothing", "X: y"),
                    "Content-Type: application/json\r\n");
    EXPECT_CONTAINS(call_with("DELETE", "/v1/records", "X: y"), "Allow: GET\r\n");
    EXPECT_CONTAINS(call_with("GET", "/v1/status?%zz", "X: y"), "HTTP/1.1 400");
    EXPECT_CONTAINS(call_with("GET", "/v1/status?%00", "X: y"), "HTTP/1.1 400");
    EXPECT_CONTAINS(call_with("GET", "/v1/status?subscription=app", "X: y"), "HTTP/1.1 200");
    EXPECT_CONTAINS(call_with("GET", "/v1/status?subscription=no", "X: y"), "HTTP/1.1 404");
    EXPECT_CONTAINS(call_with("GET", "/v1/status", "Origin: http://evil.example"), "HTTP/1.1 403");
    EXPECT_CONTAINS(call_with("GET", "/v1/status", "Sec-Fetch-Site: cross-site"), "HTTP/1.1 403");
    rig_end(&rig);
}

/* What stands before us judges a path by its letters. */
TEST(a_path_is_split_before_it_is_decoded)
{
    rig_begin(&rig);
    EXPECT_CONTAINS(call_with("GET", "/v1%2fstatus", "X: y"), "HTTP/1.1 404");
    EXPECT_CONTAINS(call_with("GET", "/v1/statu%73", "X: y"), "HTTP/1.1 404");
    EXPECT_CONTAINS(call_with("DELETE", "/v1/sessions/no%2Fname", "X: y"), "no such session");
    rig_end(&rig);
}

TEST(what_an_operator_orders_takes_its_token)
{
    rig_begin(&rig);
    write_token("boss");
    ks_guard_free(rig.api->guard);
    EXPECT_OK(ks_guard_new(rig.stage.loop, "a", NULL, ks_test_path("token"), &rig.api->guard,
                           &(struct ks_detail){.text = ""}));
    EXPECT_CONTAINS(call_with("POST", "/v1/pause", "X: y"), "HTTP/1.1 401");
    EXPECT_CONTAINS(call_with("POST", "/v1/pause", "Authorization: Bearer app"), "HTTP/1.1 403");
    EXPECT_CONTAINS(call_with("POST", "/kinesis_sidecar.v1.Admin/Pause", "X: y"), "HTTP/1.1 401");
    EXPECT_CONTAINS(call_with("POST", "/v1/pause", "Authorization: Bearer boss"), "HTTP/1.1 200");
    EXPECT_CONTAINS(call_with("GET", "/v1/status", "X: y"), "HTTP/1.1 200");
    rig_end(&rig);
}

TEST(a_parameter_that_is_no_id_stands_there_once)
{
    rig_begin(&rig);
    EXPECT_CONTAINS(call_with("GET", "/v1/shards?page_size=1&page_size=2", "X: y"),
                    "query parameter page_size stands there twice");
    EXPECT_CONTAINS(call_with("GET", "/v1/shards?page_size=1&page%5Fsize=1", "X: y"),
                    "HTTP/1.1 400");
    EXPECT_CONTAINS(
        call_with("POST", "/v1/records/ack?ack_id=" RIG_FOREIGN_ID "&ack_id=b&batch_id=c", "X: y"),
        "HTTP/1.1 200");
    rig_end(&rig);
}

TEST(media_types_are_judged)
{
    rig_begin(&rig);
    EXPECT_CONTAINS(call_with("POST", "/v1/drain", "Content-Type: text/xml"), "HTTP/1.1 415");
    EXPECT_CONTAINS(call_with("POST", "/v1/local/records", "Content-Type: application/x-protobuf"),
                    "HTTP/1.1 415");
    EXPECT_CONTAINS(call_with("POST", "/v1/records/ack?ack_id=" RIG_FOREIGN_ID,
                              "Content-Type: application/json; charset=utf-8"),
                    "HTTP/1.1 200");
    EXPECT_CONTAINS(call_with("POST", "/v1/records/ack?ack_id=" RIG_FOREIGN_ID,
                              "Content-Type: application/x-www-form-urlencoded"),
                    "HTTP/1.1 200");
    rig_end(&rig);
}
