/* SPDX-License-Identifier: Apache-2.0 */
/* POST, GET and DELETE /v1/dead-letters/redrive. */
#include <stdio.h>
#include <string.h>

#include "ks_test.h"
#include "unit/api/api_rig.h"
#include "unit/api/rpc_rig.h"

static struct rig rig;
static char body[1000];

static const char *settle(const char *ack_id, const char *outcome)
{
    (void)snprintf(
        body, sizeof(body),
        "{\"settlements\":[{\"ack_id\":\"%s\",\"outcome\":\"%s\"}],\"wait\":\"persisted\"}", ack_id,
        outcome);
    return rig_call(&rig, "POST", "/v1/records/settle", body);
}

static void bury(int count)
{
    for (int i = 0; i < count; i++) {
        stage_put(&rig.stage, (uint32_t)i, 1);
        EXPECT_CONTAINS(settle(rig_member(rig_pull(&rig, "/v1/records"), "ack_id"), "dead_letter"),
                        "\"persisted\":true");
    }
}

static const char *job(const char *method, const char *query)
{
    char target[300];

    (void)snprintf(target, sizeof(target), "/v1/dead-letters/redrive%s", query);
    return rig_call(&rig, method, target, "");
}

TEST(a_job_redrives_all_letters_and_reports_its_counts)
{
    const char *answer;

    rig_begin(&rig);
    bury(2);
    EXPECT_CONTAINS(job("GET", ""), "404");
    EXPECT_CONTAINS(job("DELETE", ""), "404");
    answer = job("POST", "?rate=1000&most=5");
    EXPECT_CONTAINS(answer, "200 OK");
    EXPECT_CONTAINS(answer, "\"state\":\"running\"");
    EXPECT_CONTAINS(answer, "\"rate\":1000");
    EXPECT_CONTAINS(answer, "\"most\":5");
    EXPECT_CONTAINS(job("POST", ""), "409");
    /* One record in each answer, as settle() settles one: on a slow machine both are delivered before a pull. */
    for (int i = 0; i < 2; i++)
        EXPECT_CONTAINS(
            settle(rig_member(rig_pull(&rig, "/v1/records?max_records=1"), "ack_id"), "ack"),
            "\"persisted\":true");
    answer = job("GET", "");
    EXPECT_CONTAINS(answer, "\"found\":2");
    EXPECT_CONTAINS(answer, "\"redriven\":2");
    EXPECT_CONTAINS(answer, "\"acknowledged\":2");
    EXPECT_CONTAINS(rig_call(&rig, "GET", "/v1/dead-letters", ""), "\"dead_letters\":[]");
    rig_end(&rig);
}

TEST(a_job_of_another_cause_or_shard_finds_nothing_and_is_done)
{
    const char *answer;

    rig_begin(&rig);
    bury(1);
    EXPECT_CONTAINS(job("POST", "?cause=age"), "200 OK");
    rig_turn(&rig, 100);
    answer = job("GET", "");
    EXPECT_CONTAINS(answer, "\"cause\":\"age\"");
    EXPECT_CONTAINS(answer, "\"state\":\"done\"");
    EXPECT_CONTAINS(answer, "\"found\":0");
    EXPECT_CONTAINS(job("POST", "?shard=shardId-000000000099"), "200 OK");
    rig_turn(&rig, 100);
    EXPECT_CONTAINS(job("GET", ""), "\"found\":0");
    EXPECT_CONTAINS(job("POST", "?cause=other"), "asked, attempts or age");
    EXPECT_CONTAINS(job("POST", "?rate=0"), "400");
    EXPECT_CONTAINS(job("POST", "?rate=1001"), "400");
    EXPECT_CONTAINS(job("POST", "?most=0"), "400");
    EXPECT_CONTAINS(job("POST", "?all=1"), "unknown query parameter");
    rig_end(&rig);
}

TEST(methods_order_and_stop_a_job_as_routes_do)
{
    rig_begin(&rig);
    bury(1);
    EXPECT_CONTAINS(rpc_json(&rig, "/kinesis_sidecar.v1.Admin/GetRedriveJob", "{}"), "not_found");
    EXPECT_CONTAINS(
        rpc_json(&rig, "/kinesis_sidecar.v1.Admin/RedriveDeadLetters", "{\"rate\":2000}"),
        "invalid_argument");
    EXPECT_CONTAINS(rpc_json(&rig, "/kinesis_sidecar.v1.Admin/RedriveDeadLetters",
                             "{\"cause\":\"DEAD_LETTER_CAUSE_ASKED\"}"),
                    "REDRIVE_STATE_RUNNING");
    EXPECT_CONTAINS(rpc_json(&rig, "/kinesis_sidecar.v1.Admin/RedriveDeadLetters", "{}"),
                    "aborted");
    EXPECT_CONTAINS(rpc_json(&rig, "/kinesis_sidecar.v1.Admin/StopRedriveJob", "{}"),
                    "REDRIVE_STATE_STOPPED");
    EXPECT_CONTAINS(job("DELETE", ""), "\"state\":\"stopped\"");
    rig_end(&rig);
}
