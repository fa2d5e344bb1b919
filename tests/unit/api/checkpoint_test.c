/* SPDX-License-Identifier: Apache-2.0 */
#include "kpl.h"
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
    EXPECT_CONTAINS(checkpoint("shardId-000000000000", "1", ",\"sub_sequence_number\":-1"),
                    "are required");
    EXPECT_CONTAINS(checkpoint("shardId-none", "1", ""), "HTTP/1.1 404");
    EXPECT_CONTAINS(checkpoint("shardId-000000000000", "1", ",\"x\":1"), "unknown member");
    rig_end(&rig);
}

/* Into the first of the two shards; the third user record belongs to the second one. */
static void put_aggregate(void)
{
    static const char *const keys[] = {"k"};
    const struct kpl_record records[] = {
        {.data = KS_VIEW("000"), .hash_key = "1"},
        {.data = KS_VIEW("111"), .hash_key = "1"},
        {.data = KS_VIEW("222"), .hash_key = "340282366920938463463374607431768211455"},
        {.data = KS_VIEW("333"), .hash_key = "1"},
        {.data = KS_VIEW("444"), .hash_key = "1"}};
    struct ks_bytes bytes;

    ks_bytes_init(&bytes, 4096);
    kpl_pack(&bytes, keys, 1, records, 5);
    stage_put_one(&rig.stage, &(struct ks_put_entry){.data = ks_bytes_view(&bytes),
                                                     .partition_key = KS_VIEW("raw"),
                                                     .explicit_hash_key = KS_VIEW("1")});
    ks_bytes_free(&bytes);
}

TEST(a_checkpoint_inside_an_aggregate_is_where_the_next_process_goes_on)
{
    const char *answer;
    const char *shard;
    const char *sequence;

    rig_begin(&rig);
    put_aggregate();
    answer = rig_pull(&rig, "/v1/records?max_records=3");
    shard = rig_member(answer, "shard_id");
    sequence = rig_member(answer, "sequence_number");
    EXPECT_CONTAINS(answer, "\"sub_sequence_number\":0,\"partition_key\":\"k\"");
    EXPECT_CONTAINS(answer, "\"data\":\"MDAw\"");
    EXPECT_CONTAINS(answer, "\"sub_sequence_number\":1,");
    EXPECT_CONTAINS(answer, "\"sub_sequence_number\":3,");
    EXPECT(strstr(answer, "\"sub_sequence_number\":2,") == NULL);
    EXPECT(strstr(answer, "\"aggregated\"") == NULL);
    /* What is not ours was not delivered, and neither was what comes later. */
    EXPECT_CONTAINS(checkpoint(shard, sequence, ",\"sub_sequence_number\":2"), "HTTP/1.1 400");
    EXPECT_CONTAINS(checkpoint(shard, sequence, ",\"sub_sequence_number\":4"), "HTTP/1.1 400");
    /* A sequence number alone is its first user record, as in KCL. */
    EXPECT_CONTAINS(checkpoint(shard, sequence, ",\"wait\":\"persisted\""), "\"persisted\":true");
    EXPECT_CONTAINS(rig_call(&rig, "GET", "/v1/leases", ""), "\"sub_sequence_number\":0");
    answer = checkpoint(shard, sequence, ",\"sub_sequence_number\":1,\"wait\":\"persisted\"");
    EXPECT_CONTAINS(answer, "\"persisted\":true");
    EXPECT_STR(rig_member(answer, "checkpoint"), sequence);
    EXPECT_CONTAINS(rig_call(&rig, "GET", "/v1/leases", ""), "\"sub_sequence_number\":1");
    rig_end(&rig);

    rig_begin(&rig);
    answer = rig_pull(&rig, "/v1/records");
    EXPECT_STR(rig_member(answer, "sequence_number"), sequence);
    EXPECT_STR(rig_member(answer, "data"), "MzMz");
    EXPECT_CONTAINS(answer, "\"sub_sequence_number\":3,");
    EXPECT_CONTAINS(answer, "\"sub_sequence_number\":4,");
    EXPECT(strstr(answer, "\"sub_sequence_number\":0,") == NULL);
    EXPECT(strstr(answer, "\"sub_sequence_number\":1,") == NULL);
    rig_end(&rig);
}
