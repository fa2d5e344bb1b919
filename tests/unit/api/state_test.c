/* SPDX-License-Identifier: Apache-2.0 */
#include "ks_test.h"
#include "unit/api/api_rig.h"

#include <stdio.h>
#include <string.h>

static struct rig rig;

static const char *get(const char *target)
{
    return rig_call(&rig, "GET", target, "");
}

TEST(what_is_known_is_told)
{
    const char *answer;

    rig_begin(&rig);
    (void)get("/v1/records?wait_ms=0");
    stage_turn_until(&rig.stage, stage_holds_all);
    answer = get("/v1/status");
    EXPECT_CONTAINS(answer, "\"worker_id\":\"worker\"");
    EXPECT_CONTAINS(answer, "\"state\":\"active\",\"ready\":true,\"reasons\":[]");
    EXPECT_CONTAINS(answer,
                    "\"subscription\":\"app\",\"stream\":\"stream\",\"application\":\"app\"");
    answer = get("/v1/leases");
    EXPECT_CONTAINS(answer,
                    "{\"leases\":[{\"shard_id\":\"shardId-000000000000\",\"owner\":\"worker\","
                    "\"epoch\":1,\"state\":\"held\"");
    EXPECT_CONTAINS(answer, "\"next_page_token\":\"\"}");
    answer = get("/v1/shards/shardId-000000000001");
    EXPECT_CONTAINS(answer, "\"parents\":[],\"children\":[]");
    EXPECT_CONTAINS(answer, "\"session\":\"default\"");
    EXPECT_CONTAINS(answer, "\"reason\":\"shardId-000000000001: assigned to worker, it was free\"");
    EXPECT_CONTAINS(get("/v1/workers"), "\"leader\":true,\"self\":true,\"capacity\":0,\"load\":0");
    EXPECT_CONTAINS(get("/v1/sessions"), "\"max_in_flight\":10000");
    EXPECT_CONTAINS(get("/v1/shards/shardId-9"), "HTTP/1.1 404");
    EXPECT_CONTAINS(rig_call(&rig, "DELETE", "/v1/sessions/none", ""), "HTTP/1.1 404");
    rig_end(&rig);
}

TEST(pages_follow_each_other)
{
    char target[100];
    const char *answer;

    rig_begin(&rig);
    (void)get("/v1/records?wait_ms=0");
    stage_turn_until(&rig.stage, stage_holds_all);
    answer = get("/v1/shards?page_size=1");
    EXPECT_CONTAINS(answer, "shardId-000000000000");
    EXPECT(strstr(answer, "shardId-000000000001") == NULL);
    (void)snprintf(target, sizeof(target), "/v1/shards?page_size=1&page_token=%s",
                   rig_member(answer, "next_page_token"));
    answer = get(target);
    EXPECT_CONTAINS(answer, "shardId-000000000001");
    EXPECT_CONTAINS(answer, "\"next_page_token\":\"\"");
    EXPECT_CONTAINS(get("/v1/leases?page_size=1"), "\"next_page_token\":\"1\"");
    EXPECT_CONTAINS(get("/v1/leases?page_token=x"), "HTTP/1.1 400");
    rig_end(&rig);
}
