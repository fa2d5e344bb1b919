/* SPDX-License-Identifier: Apache-2.0 */
#include "ks_test.h"
#include "unit/api/api_rig.h"

#include <string.h>

static struct rig rig;

TEST(options_name_their_source_and_secrets_are_not_shown)
{
    const char *answer;

    rig_begin(&rig);
    answer = rig_call(&rig, "GET", "/v1/config", "");
    EXPECT_CONTAINS(answer, "{\"name\":\"stream\",\"value\":\"stream\",\"source\":\"flag\"");
    EXPECT_CONTAINS(answer, "{\"name\":\"local_shards\",\"value\":4,\"source\":\"default\"");
    EXPECT_CONTAINS(answer, "{\"name\":\"token_file\",\"value\":\"***\"");
    EXPECT(strstr(answer, "\"secret\"") == NULL);
    rig_end(&rig);
}
