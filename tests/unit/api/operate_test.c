/* SPDX-License-Identifier: Apache-2.0 */
#include "api/operate.h"

#include "ks_test.h"
#include "unit/api/api_rig.h"

#include <stdio.h>
#include <string.h>

static struct rig rig;

static const char *post(const char *path, const char *body)
{
    return rig_call(&rig, "POST", path, body);
}

static void begin(void)
{
    rig_begin(&rig);
    (void)rig_call(&rig, "GET", "/v1/records?wait_ms=0", "");
    stage_turn_until(&rig.stage, stage_holds_all);
}

TEST(a_pause_is_seen_everywhere_and_keeps_the_leases_unless_told_otherwise)
{
    begin();
    EXPECT_CONTAINS(post("/v1/pause", ""), "{\"shards\":[],\"until\":null,\"keep_leases\":true}");
    EXPECT_CONTAINS(rig_call(&rig, "GET", "/v1/shards", ""), "\"state\":\"paused\"");
    EXPECT_CONTAINS(rig_call(&rig, "GET", "/v1/records?wait_ms=0", ""),
                    "\"idle_reason\":\"paused\"");
    EXPECT_CONTAINS(rig_call(&rig, "GET", "/v1/status", ""), "\"idle_reason\":\"paused\"");
    EXPECT_CONTAINS(post("/v1/resume", "{\"shards\":[\"shardId-000000000000\"]}"),
                    "{\"shards\":[\"shardId-000000000000\"]}");
    EXPECT_CONTAINS(rig_call(&rig, "GET", "/v1/shards/shardId-000000000000", ""),
                    "\"state\":\"held\"");
    EXPECT_CONTAINS(rig_call(&rig, "GET", "/v1/shards/shardId-000000000001", ""),
                    "\"paused\":true,\"paused_until\":null");
    EXPECT_CONTAINS(post("/v1/pause", "{\"until\":\"2999-01-01T00:00:00Z\",\"keep_leases\":false}"),
                    "\"until\":\"2999-01-01T00:00:00.000Z\",\"keep_leases\":false");
    EXPECT_CONTAINS(rig_call(&rig, "GET", "/v1/shards/shardId-000000000001", ""),
                    "\"paused_until\":\"29");
    rig_end(&rig);
}

TEST(orders_that_cannot_be_are_refused)
{
    begin();
    EXPECT_CONTAINS(post("/v1/pause", "{\"until\":\"2001-01-01T00:00:00Z\"}"), "HTTP/1.1 400");
    EXPECT_CONTAINS(post("/v1/pause", "{\"shards\":[\"none\"]}"), "HTTP/1.1 404");
    EXPECT_CONTAINS(post("/v1/resume", "{\"shards\":[\"none\"]}"), "HTTP/1.1 404");
    EXPECT_CONTAINS(post("/v1/seek", "{\"to\":\"12\"}"), "name exactly one");
    EXPECT_CONTAINS(post("/v1/seek", "{\"to\":\"latest\"}"), "failed_precondition");
    EXPECT_CONTAINS(post("/v1/seek", "{\"to\":\"latest\",\"wait_ms\":-1}"), "HTTP/1.1 400");
    EXPECT_CONTAINS(post("/v1/seek", "{\"to\":\"2999-01-01T00:00:00Z\",\"force\":true}"),
                    "to must not be an instant to come");
    EXPECT_CONTAINS(post("/v1/leases/none/release", ""), "HTTP/1.1 404");
    EXPECT_CONTAINS(
        post("/v1/leases/shardId-000000000000/release", "{\"shard_id\":\"shardId-000000000001\"}"),
        "two shards");
    EXPECT_CONTAINS(post("/v1/seek",
                         "{\"to\":\"latest\",\"force\":true,\"shards\":[\"shardId-000000000000\","
                         "\"shardId-000000000000\"]}"),
                    "named twice");
    rig_end(&rig);
}

TEST(a_seek_answers_when_the_table_has_it)
{
    const char *answer;

    begin();
    answer = post("/v1/seek", "{\"to\":\"trim_horizon\",\"force\":true,\"dry_run\":true}");
    EXPECT_CONTAINS(answer, "\"outcome\":\"dry_run\"");
    answer = post("/v1/seek", "{\"to\":\"2026-01-01T00:00:00Z\",\"force\":true}");
    EXPECT_CONTAINS(answer, "\"epoch\":1,\"outcome\":\"done\",\"before\":{\"checkpoint\":"
                            "\"TRIM_HORIZON\"");
    EXPECT_CONTAINS(answer, "\"after\":{\"checkpoint\":\"AT_TIMESTAMP\",\"sub_sequence_number\":0,"
                            "\"at_timestamp\":\"2026-01-01T00:00:00.000Z\"");
    stage_turn_until(&rig.stage, stage_holds_all);
    EXPECT_CONTAINS(rig_call(&rig, "GET", "/v1/shards/shardId-000000000000", ""), "\"epoch\":2,");
    EXPECT_CONTAINS(rig_call(&rig, "GET", "/v1/leases", ""), "\"checkpoint\":\"AT_TIMESTAMP\"");
    rig_end(&rig);
}

TEST(a_seek_to_the_tip_skips_nothing_that_comes_later)
{
    begin();
    stage_put(&rig.stage, 0, 20);
    EXPECT_CONTAINS(post("/v1/pause", ""), "HTTP/1.1 200");
    rig_turn(&rig, 5); /* The instant after the last one. */
    EXPECT_CONTAINS(post("/v1/seek", "{\"to\":\"latest\"}"), "\"outcome\":\"done\"");
    stage_put(&rig.stage, 20, 1);
    EXPECT_CONTAINS(post("/v1/resume", ""), "HTTP/1.1 200");
    EXPECT_CONTAINS(rig_pull(&rig, "/v1/records?wait_ms=2000"), "\"partition_key\":\"20\"");
    rig_end(&rig);
}

TEST(a_lease_that_is_released_is_on_its_way_and_not_released_twice)
{
    begin();
    EXPECT_CONTAINS(post("/v1/leases/shardId-000000000000/release", ""),
                    "{\"shard_id\":\"shardId-000000000000\",\"epoch\":1,\"deadline\":\"20");
    EXPECT_CONTAINS(post("/v1/leases/shardId-000000000000/release", ""), "HTTP/1.1 409");
    rig_end(&rig);
}

TEST(the_log_level_is_changed_and_the_one_before_told)
{
    rig_begin(&rig);
    EXPECT_CONTAINS(rig_call(&rig, "PUT", "/v1/loglevel", "{\"level\":\"error\"}"),
                    "{\"level\":\"error\",\"before\":");
    EXPECT_CONTAINS(rig_call(&rig, "PUT", "/v1/loglevel", "{\"level\":\"warn\"}"),
                    "{\"level\":\"warn\",\"before\":\"error\"}");
    EXPECT_CONTAINS(rig_call(&rig, "PUT", "/v1/loglevel", "{}"), "HTTP/1.1 400");
    EXPECT_CONTAINS(rig_call(&rig, "PUT", "/v1/loglevel", "{\"level\":\"loud\"}"), "HTTP/1.1 400");
    rig_end(&rig);
}
