/* SPDX-License-Identifier: Apache-2.0 */
#include "ks_test.h"
#include "unit/api/api_rig.h"

static struct rig rig;

TEST(probes_and_metrics_and_nothing_else)
{
    rig_begin(&rig);
    EXPECT_CONTAINS(rig_ops(&rig, "/livez"), "HTTP/1.1 200");
    EXPECT_CONTAINS(rig_ops(&rig, "/readyz"), "\r\n\r\nok\n");
    EXPECT_CONTAINS(rig_ops(&rig, "/readyz?verbose"), "[+]fleet ok\n");
    EXPECT_CONTAINS(rig_ops(&rig, "/startupz"), "HTTP/1.1 200");
    EXPECT_CONTAINS(rig_ops(&rig, "/metrics"), "\nkinesis_sidecar_connections 1\n");
    EXPECT_CONTAINS(rig_ops(&rig, "/metrics"), "text/plain; version=0.0.4");
    EXPECT_CONTAINS(rig_ops(&rig, "/v1/status"), "HTTP/1.1 404");
    EXPECT_CONTAINS(rig_ops(&rig, "/livez?x=1"), "HTTP/1.1 400");
    rig_end(&rig);
}
