/* SPDX-License-Identifier: Apache-2.0 */
#include "ks_test.h"
#include "unit/api/look_rig.h"

#include <stdio.h>
#include <string.h>

static struct rig rig;

static const char *get(const char *target)
{
    return rig_call(&rig, "GET", target, "");
}

TEST(a_peek_shows_records_that_nobody_was_given)
{
    const char *answer;

    rig_begin(&rig);
    (void)get("/v1/records?wait_ms=0");
    stage_turn_until(&rig.stage, stage_holds_all);
    stage_put(&rig.stage, 0, 8);
    answer = get("/v1/peek?shard=shardId-000000000000");
    EXPECT_CONTAINS(answer, "\"shard_id\":\"shardId-000000000000\",\"records\":[{\"stream\":"
                            "\"stream\",\"shard_id\":\"shardId-000000000000\"");
    EXPECT_CONTAINS(answer, "\"millis_behind_latest\":0,\"at_end\":false}");
    EXPECT(strstr(answer, "ack_id") == NULL);
    EXPECT_CONTAINS(get("/v1/shards/shardId-000000000000"), "\"delivered\":0,\"settled\":0");
    EXPECT_CONTAINS(get("/v1/shards/shardId-000000000000"), "\"checkpoint\":\"TRIM_HORIZON\"");
    answer = get("/v1/peek?shard=shardId-000000000000&max_records=1");
    EXPECT(strchr(strstr(answer, "\"records\":[{") + 12, '{') == NULL);
    EXPECT_CONTAINS(get("/v1/peek?shard=shardId-000000000000&from=latest"), "\"records\":[]");
    rig_end(&rig);
}

static bool knows_shards(struct stage *stage)
{
    return ks_switchboard_shard_count(stage->board) == STAGE_SHARDS;
}

TEST(a_peek_at_nothing_is_refused)
{
    rig_begin(&rig);
    stage_turn_until(&rig.stage, knows_shards);
    EXPECT_CONTAINS(get("/v1/peek"), "shard is required");
    EXPECT_CONTAINS(get("/v1/peek?shard=none"), "HTTP/1.1 404");
    EXPECT_CONTAINS(get("/v1/peek?shard=none&until=now"), "HTTP/1.1 400");
    rig_end(&rig);
}

TEST(a_look_that_fails_says_nothing_about_a_shard_that_people_ask_for)
{
    char target[200];

    look_begin(&rig);
    (void)snprintf(target, sizeof(target), "/v1/peek?shard=%s", look_shard());
    EXPECT_CONTAINS(look_call("GET", target, "", true), "HTTP/1.1 503");
    (void)snprintf(target, sizeof(target), "/v1/shards/%s", look_shard());
    EXPECT_CONTAINS(look_call("GET", target, "", true), "the shards are not known yet");
    (void)snprintf(target, sizeof(target), "{\"shards\":[\"%s\"]}", look_shard());
    EXPECT_CONTAINS(look_call("POST", "/v1/replays", target, true), "HTTP/1.1 503");
    EXPECT_CONTAINS(look_call("POST", "/v1/replays", target, false), "\"expires_at\"");
    look_end(&rig);
}
