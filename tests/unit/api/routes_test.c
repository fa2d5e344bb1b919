/* SPDX-License-Identifier: Apache-2.0 */
#include "api/routes.h"
#include "ks_test.h"

#include <string.h>

static char allow[KS_ALLOW_SIZE];
static ks_view part;

static const struct ks_route *find(enum ks_method method, const char *path)
{
    return ks_route_find(KS_DOOR_LOCAL, method, ks_view_text(path), &part, allow);
}

TEST(every_route_finds_itself)
{
    size_t count;
    const struct ks_route *routes = ks_routes(&count);

    EXPECT(count > 15);
    for (size_t i = 0; i < count; i++)
        EXPECT(ks_route_find(routes[i].door, routes[i].method, ks_view_text(routes[i].path), &part,
                             allow) == &routes[i]);
}

TEST(a_part_of_the_path_is_handed_over)
{
    EXPECT(find(KS_METHOD_GET, "/v1/shards/shardId-1") != NULL);
    EXPECT(ks_view_equal(part, KS_VIEW("shardId-1")));
    EXPECT(find(KS_METHOD_GET, "/v1/shards/") == NULL);
    EXPECT(find(KS_METHOD_GET, "/v1/shards/a/b") == NULL);
    EXPECT(find(KS_METHOD_GET, "/v1/shards") != NULL);
}

TEST(another_method_is_told_what_is_allowed)
{
    EXPECT(find(KS_METHOD_POST, "/v1/records") == NULL);
    EXPECT_STR(allow, "GET");
    EXPECT(find(KS_METHOD_OTHER, "/v1/sessions/x") == NULL);
    EXPECT_STR(allow, "DELETE");
    EXPECT(find(KS_METHOD_GET, "/v2/records") == NULL);
    EXPECT_STR(allow, "");
}

TEST(the_two_doors_have_their_own_routes)
{
    EXPECT(find(KS_METHOD_GET, "/livez") == NULL);
    EXPECT(ks_route_find(KS_DOOR_OPS, KS_METHOD_GET, KS_VIEW("/livez"), &part, allow) != NULL);
    EXPECT(ks_route_find(KS_DOOR_OPS, KS_METHOD_GET, KS_VIEW("/v1/status"), &part, allow) == NULL);
}

TEST(parameters_are_known_by_their_whole_name)
{
    const struct ks_route *route = find(KS_METHOD_GET, "/v1/records");

    EXPECT(ks_route_has_param(route, KS_VIEW("max_records")));
    EXPECT(ks_route_has_param(route, KS_VIEW("session")));
    EXPECT(ks_route_has_param(route, KS_VIEW("subscription")));
    EXPECT(!ks_route_has_param(route, KS_VIEW("max")));
    EXPECT(!ks_route_has_param(route, KS_VIEW("max_records max_bytes")));
    EXPECT(!ks_route_has_param(route, KS_VIEW("")));
}

TEST(methods_have_names)
{
    EXPECT_EQ_I64(ks_method_parse("DELETE"), KS_METHOD_DELETE);
    EXPECT_EQ_I64(ks_method_parse("BREW"), KS_METHOD_OTHER);
    EXPECT_EQ_I64(ks_method_parse("get"), KS_METHOD_OTHER);
    EXPECT_STR(ks_method_name(KS_METHOD_POST), "POST");
}
