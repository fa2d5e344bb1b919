/* SPDX-License-Identifier: Apache-2.0 */
#include "api/settling.h"
#include "ks_test.h"
#include "unit/api/api_rig.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct rig rig;
static char target[800];

TEST(positions_have_words)
{
    struct ks_position position = {.kind = KS_POSITION_AFTER_SEQUENCE, .sequence = "123"};

    EXPECT_STR(ks_position_text(&position), "123");
    position.kind = KS_POSITION_SHARD_END;
    EXPECT_STR(ks_position_text(&position), "SHARD_END");
    position.kind = KS_POSITION_TRIM_HORIZON;
    EXPECT_STR(ks_position_text(&position), "TRIM_HORIZON");
}

/* The second record is acknowledged, the first is not: nothing can be durable, and the answer says what blocks. */
TEST(a_wait_ends_with_what_blocks)
{
    const char *answer;
    const char *second;

    rig_begin(&rig);
    stage_put(&rig.stage, 3, 1);
    stage_put(&rig.stage, 3, 1);
    rig_turn(&rig, 300);
    answer = rig_pull(&rig, "/v1/records?max_records=1");
    second = rig_member(rig_pull(&rig, "/v1/records?max_records=1"), "ack_id");
    (void)snprintf(target, sizeof(target), "/v1/records/ack?ack_id=%s&wait=persisted&wait_ms=300",
                   second);
    answer = rig_call(&rig, "POST", target, "");
    EXPECT_CONTAINS(answer,
                    "{\"ok\":1,\"failed\":[],\"persisted\":false,\"positions\":[{\"shard_id\":");
    EXPECT_CONTAINS(answer, "\"watermark\":\"TRIM_HORIZON\",\"checkpoint\":\"TRIM_HORIZON\"");
    rig_end(&rig);
}

/* The drain loses patience and gives the lease back with the first record unsettled: nobody here can make the second
 * one durable any more. */
TEST(a_wait_ends_with_the_lease_of_its_records)
{
    const char *second;
    int size;
    int fd;

    rig_begin(&rig);
    stage_put(&rig.stage, 3, 1);
    stage_put(&rig.stage, 3, 1);
    rig_turn(&rig, 300);
    (void)rig_pull(&rig, "/v1/records?max_records=1");
    second = rig_member(rig_pull(&rig, "/v1/records?max_records=1"), "ack_id");
    size = snprintf(target, sizeof(target),
                    "POST /v1/records/ack?ack_id=%s&wait=persisted&wait_ms=60000 HTTP/1.1\r\n"
                    "Host: a\r\nConnection: close\r\n\r\n",
                    second);
    fd = rig_connect(&rig, "api");
    rig_send(&rig, fd, target, (size_t)size);
    rig_turn(&rig, 300);
    EXPECT_CONTAINS(rig_call(&rig, "POST", "/v1/drain", ""), "\"drained\"");
    EXPECT_CONTAINS(rig_read(&rig, fd, NULL), "{\"ok\":1,\"failed\":[],\"persisted\":false");
    (void)close(fd);
    rig_end(&rig);
}

TEST(recorded_answers_at_once)
{
    const char *id;

    rig_begin(&rig);
    stage_put(&rig.stage, 3, 1);
    id = rig_member(rig_pull(&rig, "/v1/records"), "ack_id");
    (void)snprintf(target, sizeof(target), "/v1/records/ack?ack_id=%s&wait=recorded", id);
    EXPECT_CONTAINS(rig_call(&rig, "POST", target, ""), "\"ok\":1,\"failed\":[]");
    rig_end(&rig);
}
