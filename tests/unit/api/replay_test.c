/* SPDX-License-Identifier: Apache-2.0 */
#include "api/replay.h"

#include "ks_test.h"
#include "unit/api/api_rig.h"

#include <stdio.h>
#include <string.h>

static struct rig rig;

static const char *call(const char *method, const char *id, const char *rest)
{
    char target[100];

    (void)snprintf(target, sizeof(target), "/v1/replays/%s%s", id, rest);
    return rig_call(&rig, method, target, "");
}

static void begin(uint32_t records)
{
    rig_begin(&rig);
    (void)rig_call(&rig, "GET", "/v1/records?wait_ms=0", "");
    stage_turn_until(&rig.stage, stage_holds_all);
    stage_put(&rig.stage, 0, records);
}

TEST(a_replay_tells_all_records_once_and_its_end)
{
    char id[32];
    const char *answer;

    begin(20);
    answer = rig_call(&rig, "POST", "/v1/replays", "");
    EXPECT_CONTAINS(answer, "\"shards\":[\"shardId-000000000000\",\"shardId-000000000001\"]");
    (void)snprintf(id, sizeof(id), "%s", rig_member(answer, "id"));
    answer = call("GET", id, "/stream");
    EXPECT_CONTAINS(answer, "{\"type\":\"record\",\"stream\":\"stream\",\"shard_id\":"
                            "\"shardId-000000000000\"");
    EXPECT_CONTAINS(answer, "{\"type\":\"end\",\"records\":20}");
    EXPECT_CONTAINS(call("GET", id, "/stream"), "HTTP/1.1 404");
    EXPECT_CONTAINS(rig_call(&rig, "GET", "/v1/shards/shardId-000000000000", ""),
                    "\"checkpoint\":\"TRIM_HORIZON\"");
    rig_end(&rig);
}

TEST(a_replay_that_was_deleted_is_gone)
{
    char id[32];

    begin(1);
    (void)snprintf(
        id, sizeof(id), "%s",
        rig_member(rig_call(&rig, "POST", "/v1/replays", "{\"from\":\"latest\"}"), "id"));
    EXPECT_CONTAINS(call("DELETE", id, ""), "HTTP/1.1 200");
    EXPECT_CONTAINS(call("DELETE", id, ""), "HTTP/1.1 404");
    EXPECT_CONTAINS(call("GET", "no", "/stream"), "HTTP/1.1 404");
    rig_end(&rig);
}

TEST(replays_are_bounded_and_end_with_the_api)
{
    begin(1);
    for (int i = 0; i < 16; i++)
        EXPECT_CONTAINS(rig_call(&rig, "POST", "/v1/replays", ""), "HTTP/1.1 200");
    EXPECT_CONTAINS(rig_call(&rig, "POST", "/v1/replays", ""), "HTTP/1.1 429");
    EXPECT_CONTAINS(rig_call(&rig, "POST", "/v1/replays", "{\"to\":\"trim_horizon\"}"),
                    "HTTP/1.1 429");
    rig_end(&rig);
}

TEST(a_replay_without_a_range_is_refused)
{
    begin(1);
    EXPECT_CONTAINS(rig_call(&rig, "POST", "/v1/replays", "{\"to\":\"trim_horizon\"}"),
                    "HTTP/1.1 400");
    EXPECT_CONTAINS(rig_call(&rig, "POST", "/v1/replays", "{\"from\":\"77\"}"), "name exactly one");
    EXPECT_CONTAINS(rig_call(&rig, "POST", "/v1/replays", "{\"shards\":[\"none\"]}"),
                    "HTTP/1.1 404");
    EXPECT_CONTAINS(rig_call(&rig, "POST", "/v1/replays",
                             "{\"shards\":[\"shardId-000000000001\",\"shardId-000000000001\"]}"),
                    "shardId-000000000001 is named twice");
    rig_end(&rig);
}
