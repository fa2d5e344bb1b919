/* SPDX-License-Identifier: Apache-2.0 */
#include "ks_test.h"
#include "unit/api/api_rig.h"

#include <stdio.h>
#include <string.h>

static struct rig rig;
static char body[1000];

static const char *checkpoint(const char *shard, const char *sequence, const char *more)
{
    (void)snprintf(body, sizeof(body), "{\"shard_id\":\"%s\",\"sequence_number\":\"%s\"%s}", shard,
                   sequence, more);
    return rig_call(&rig, "POST", "/v1/checkpoint", body);
}

TEST(everything_up_to_a_position_is_acknowledged)
{
    const char *answer;
    const char *shard;
    const char *sequence;

    rig_begin(&rig);
    stage_put(&rig.stage, 3, 1);
    answer = rig_pull(&rig, "/v1/records");
    shard = rig_member(answer, "shard_id");
    sequence = rig_member(answer, "sequence_number");
    answer = checkpoint(shard, sequence, ",\"wait\":\"persisted\"");
    EXPECT_CONTAINS(answer, "{\"persisted\":true,\"positions\":[{\"shard_id\":\"");
    EXPECT_STR(rig_member(answer, "checkpoint"), sequence);
    EXPECT_STR(rig_member(answer, "watermark"), sequence);
    EXPECT_CONTAINS(checkpoint(shard, sequence, ""), "\"persisted\":true");
    EXPECT_CONTAINS(checkpoint(shard, sequence, ",\"epoch\":77"), "HTTP/1.1 409");
    rig_end(&rig);
}

TEST(a_position_that_was_not_delivered_is_refused)
{
    rig_begin(&rig);
    stage_put(&rig.stage, 3, 1);
    (void)rig_pull(&rig, "/v1/records");
    EXPECT_CONTAINS(rig_call(&rig, "POST", "/v1/checkpoint", ""), "are required");
    EXPECT_CONTAINS(rig_call(&rig, "POST", "/v1/checkpoint", "{}"), "HTTP/1.1 400");
    EXPECT_CONTAINS(checkpoint("shardId-000000000000", "99999999999999999999", ""), "HTTP/1.1 400");
    EXPECT_CONTAINS(checkpoint("shardId-000000000000", "abc", ""), "HTTP/1.1 400");
    EXPECT_CONTAINS(checkpoint("shardId-none", "1", ""), "HTTP/1.1 404");
    EXPECT_CONTAINS(checkpoint("shardId-000000000000", "1", ",\"x\":1"), "unknown member");
    rig_end(&rig);
}
