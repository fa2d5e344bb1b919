/* SPDX-License-Identifier: Apache-2.0 */
#include "api/operate.h"

#include "ks_test.h"
#include "unit/api/look_rig.h"
#include "unit/api/rpc_rig.h"

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

TEST(a_place_that_was_sought_by_its_number_is_told_as_the_next_one_until_it_is_settled)
{
    const char *shard;
    const char *sequence;
    char target[100];
    char body[300];

    begin();
    stage_put(&rig.stage, 0, 20);
    shard = rig_member(rig_pull(&rig, "/v1/records?max_records=1"), "shard_id");
    (void)snprintf(target, sizeof(target), "/v1/shards/%s", shard);
    EXPECT_CONTAINS(rig_call(&rig, "GET", target, ""), "\"inclusive\":false");
    (void)snprintf(body, sizeof(body), "/v1/peek?shard=%s&max_records=1", shard);
    sequence = rig_member(rig_call(&rig, "GET", body, ""), "sequence_number");
    (void)snprintf(body, sizeof(body), "{\"to\":\"%s\",\"shards\":[\"%s\"],\"force\":true}",
                   sequence, shard);
    EXPECT_CONTAINS(post("/v1/seek", body), "\"inclusive\":true");
    stage_turn_until(&rig.stage, stage_holds_all);
    EXPECT_STR(rig_member(rig_call(&rig, "GET", target, ""), "checkpoint"), sequence);
    EXPECT_CONTAINS(rig_call(&rig, "GET", target, ""), "\"inclusive\":true");
    EXPECT_CONTAINS(rig_call(&rig, "GET", "/v1/leases", ""), "\"inclusive\":true");
    (void)snprintf(body, sizeof(body),
                   "{\"shard_id\":\"%s\",\"sequence_number\":\"%s\",\"wait\":\"persisted\"}", shard,
                   sequence);
    for (int i = 0; i < 20 && strstr(rig_pull(&rig, "/v1/records"), sequence) == NULL; i++)
        continue;
    EXPECT_CONTAINS(post("/v1/checkpoint", body), "\"persisted\":true");
    EXPECT_STR(rig_member(rig_call(&rig, "GET", target, ""), "checkpoint"), sequence);
    EXPECT_CONTAINS(rig_call(&rig, "GET", target, ""), "\"inclusive\":false");
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

/* ---- Shards that this worker has not looked for ---- */

/* The order waits for a look. One that fails says nothing about the shard; behind another one the answer has `says`. */
static void expect_a_look(const char *path, const char *body, const char *says)
{
    const char *answer = look_call("POST", path, body, true);

    EXPECT_CONTAINS(answer, "HTTP/1.1 503");
    EXPECT_CONTAINS(answer, "Retry-After: 1");
    EXPECT_CONTAINS(answer, "the shards are not known yet");
    EXPECT_CONTAINS(look_call("POST", path, body, false), says);
}

/* An order that names the shard in its body, with `more` members. */
static void expect_order_looks(const char *path, const char *more, const char *says)
{
    char body[200];

    look_begin(&rig);
    (void)snprintf(body, sizeof(body), "{\"shards\":[\"%s\"]%s}", look_shard(), more);
    expect_a_look(path, body, says);
    (void)snprintf(body, sizeof(body), "{\"shards\":[\"none\"]%s}", more);
    EXPECT_CONTAINS(post(path, body), "no shard none is known");
    look_end(&rig);
}

TEST(a_pause_of_a_shard_that_nobody_looked_for_waits_for_a_look)
{
    expect_order_looks("/v1/pause", "", "\"keep_leases\":true");
}

TEST(a_resume_of_a_shard_that_nobody_looked_for_waits_for_a_look)
{
    expect_order_looks("/v1/resume", "", "HTTP/1.1 200");
}

TEST(a_seek_of_a_shard_that_nobody_looked_for_waits_for_a_look)
{
    expect_order_looks("/v1/seek", ",\"to\":\"latest\"", "is not held by this worker");
}

TEST(a_release_of_a_shard_that_nobody_looked_for_waits_for_a_look)
{
    char path[200];

    look_begin(&rig);
    (void)snprintf(path, sizeof(path), "/v1/leases/%s/release", look_shard());
    expect_a_look(path, "", "is not held by this worker");
    EXPECT_CONTAINS(post("/v1/leases/none/release", ""), "no shard none is known");
    look_end(&rig);
}

TEST(a_call_about_a_shard_that_nobody_looked_for_waits_likewise)
{
    static struct http2_client client;
    ks_pb_pause_request request;
    ks_pb_pause_response *response;
    struct http2_answer *answer;
    char *shards[1];
    size_t at = 0;

    look_begin(&rig);
    http2_begin(&client, &rig, "api", 0);
    kinesis_sidecar__v1__pause_request__init(&request);
    shards[0] = ks_pb_text(look_shard());
    request.shards = shards;
    request.n_shards = 1;
    answer = rpc_grpc(&client, "/kinesis_sidecar.v1.Admin/Pause", &request.base, true);
    for (int i = 0; i < 10000 && !look_is_asked() && !answer->closed; i++)
        http2_turn(&client);
    EXPECT(look_is_asked());
    look_let();
    response = (ks_pb_pause_response *)rpc_heard(&client, answer, &at,
                                                 &kinesis_sidecar__v1__pause_response__descriptor);
    EXPECT_STR(response->shards[0], look_shard());
    kinesis_sidecar__v1__pause_response__free_unpacked(response, NULL);
    http2_end(&client);
    look_end(&rig);
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
