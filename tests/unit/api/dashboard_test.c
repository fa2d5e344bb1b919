/* SPDX-License-Identifier: Apache-2.0 */
#include "ks_test.h"
#include "unit/api/api_rig.h"

#include <string.h>

static struct rig rig;

TEST(the_page_comes_with_a_policy_that_names_its_script_and_style)
{
    const char *answer;

    rig_begin(&rig);
    answer = rig_call(&rig, "GET", "/", "");
    EXPECT_CONTAINS(answer, "HTTP/1.1 200");
    EXPECT_CONTAINS(answer, "text/html; charset=utf-8");
    EXPECT_CONTAINS(answer, "default-src 'none'; script-src 'sha256-");
    EXPECT_CONTAINS(answer, "style-src 'sha256-");
    EXPECT_CONTAINS(answer, "frame-ancestors 'none'");
    EXPECT_CONTAINS(answer, "nosniff");
    EXPECT_CONTAINS(answer, "no-store");
    EXPECT_CONTAINS(answer, "</html>");
    EXPECT(strstr(answer, "unsafe-inline") == NULL);
    rig_end(&rig);
}

TEST(it_is_read_only_and_not_on_the_ops_port)
{
    rig_begin(&rig);
    EXPECT_CONTAINS(rig_call(&rig, "POST", "/", ""), "HTTP/1.1 405");
    EXPECT_CONTAINS(rig_call(&rig, "GET", "/dashboard", ""), "HTTP/1.1 404");
    EXPECT_CONTAINS(rig_ops(&rig, "/"), "HTTP/1.1 404");
    rig_end(&rig);
}
