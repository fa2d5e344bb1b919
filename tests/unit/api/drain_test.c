/* SPDX-License-Identifier: Apache-2.0 */
#include "ks_test.h"
#include "unit/api/api_rig.h"

#include <string.h>

static struct rig rig;

TEST(a_drain_tells_how_far_it_is_and_the_process_stays)
{
    const char *answer;

    rig_begin(&rig);
    (void)rig_call(&rig, "GET", "/v1/records?wait_ms=0", "");
    stage_turn_until(&rig.stage, stage_holds_all);
    EXPECT_CONTAINS(rig_call(&rig, "POST", "/v1/drain", "{\"now\":1}"), "unknown member");
    answer = rig_call(&rig, "POST", "/v1/drain", "");
    EXPECT_CONTAINS(answer, "{\"type\":\"progress\",\"state\":\"draining\",\"leases_held\":2");
    EXPECT_CONTAINS(answer, "{\"type\":\"drained\",\"state\":\"draining\",\"leases_held\":0");
    EXPECT_CONTAINS(rig_call(&rig, "GET", "/v1/status", ""), "\"state\":\"draining\"");
    EXPECT_CONTAINS(rig_call(&rig, "GET", "/v1/records?session=new", ""), "HTTP/1.1 503");
    EXPECT_CONTAINS(rig_ops(&rig, "/readyz"), "HTTP/1.1 503");
    EXPECT_CONTAINS(rig_ops(&rig, "/livez"), "HTTP/1.1 200");
    EXPECT_CONTAINS(rig_ops(&rig, "/startupz"), "HTTP/1.1 200");
    rig_end(&rig);
}

TEST(to_quit_is_to_drain_all_and_then_to_end)
{
    const char *answer;

    rig_begin(&rig);
    (void)rig_call(&rig, "GET", "/v1/records?wait_ms=0", "");
    stage_turn_until(&rig.stage, stage_holds_all);
    EXPECT_CONTAINS(rig_call(&rig, "POST", "/v1/quit?subscription=app", ""), "HTTP/1.1 400");
    EXPECT_CONTAINS(rig_call(&rig, "GET", "/v1/quit", ""), "HTTP/1.1 405");
    EXPECT_EQ_I64(rig.quits, 0);
    answer = rig_call(&rig, "POST", "/v1/quit", "");
    EXPECT_CONTAINS(answer, "{\"type\":\"progress\",\"state\":\"draining\",\"leases_held\":2");
    EXPECT_CONTAINS(answer, "{\"type\":\"drained\",\"state\":\"draining\",\"leases_held\":0");
    EXPECT_EQ_I64(rig.quits, 1);
    rig_end(&rig);
}
