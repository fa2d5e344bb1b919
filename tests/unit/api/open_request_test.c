/* SPDX-License-Identifier: Apache-2.0 */
#include "api/open_request.h"
#include "ks_test.h"
#include "unit/api/api_rig.h"

#include <stdio.h>

static struct rig rig;

TEST(parameters_that_do_not_work_name_what_does)
{
    static const struct {
        const char *query;
        const char *status;
        const char *says;
    } bad[] = {
        {"ordering=keys", "400", "shard, key or none"},
        {"ordering=key&lanes=65", "400", "1 to 64"},
        {"max_message_bytes=2048", "400", "2049 to"},
        {"encoding=utf-8", "400", "base64, utf8 or json"},
        {"lanes=4", "400", "lanes goes with ordering=key"},
        {"max_in_flight=0", "400", "max_in_flight"},
        {"heartbeat_ms=99", "400", "100 to 60000"},
        {"heartbeat_ms=abc", "400", "heartbeat_ms"},
        {"client_id=a%20b", "400", "client_id"},
        {"shards=shardId-nope", "404", "shardId-nope"},
        {"nonsense=1", "400", "unknown query parameter"},
    };

    rig_begin(&rig);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char target[200];
        const char *answer;
        (void)snprintf(target, sizeof(target), "/v1/records/stream?%s", bad[i].query);
        answer = rig_call(&rig, "GET", target, "");
        EXPECT_CONTAINS(answer, bad[i].status);
        EXPECT_CONTAINS(answer, bad[i].says);
    }
    rig_end(&rig);
}
