/* SPDX-License-Identifier: Apache-2.0 */
#include "api/routes.h"

#include <assert.h>

static const struct ks_route routes[] = {
#define X(name, door, who, method, path, params, subscription, body, sentence)                     \
    {ks_handle_##name,        KS_DOOR_##door, KS_WHO_##who, KS_METHOD_##method, path, params,      \
     KS_ROUTE_##subscription, KS_BODY_##body, sentence},
#include "api/routes.def"
#undef X
};
#define ROUTES (sizeof(routes) / sizeof(routes[0]))

static const char *const methods[] = {
    [KS_METHOD_GET] = "GET",       [KS_METHOD_POST] = "POST",   [KS_METHOD_PUT] = "PUT",
    [KS_METHOD_DELETE] = "DELETE", [KS_METHOD_OTHER] = "OTHER",
};

const struct ks_route *ks_routes(size_t *ret_count)
{
    *ret_count = ROUTES;
    return routes;
}

const char *ks_method_name(enum ks_method method)
{
    assert(method <= KS_METHOD_OTHER);
    return methods[method];
}

enum ks_method ks_method_parse(const char *name)
{
    for (int method = KS_METHOD_GET; method < KS_METHOD_OTHER; method++)
        if (strcmp(methods[method], name) == 0)
            return (enum ks_method)method;
    return KS_METHOD_OTHER;
}

/* True if `path` is of the form of `pattern`. */
static bool matches(ks_view pattern, ks_view path, ks_view *ret_part)
{
    ks_view part = KS_VIEW_NONE;

    while (pattern.data != NULL && path.data != NULL) {
        ks_view wanted = ks_view_cut(&pattern, '/');
        ks_view given = ks_view_cut(&path, '/');
        if (wanted.size > 0 && wanted.data[0] == '{' && given.size > 0)
            part = given;
        else if (!ks_view_equal(wanted, given))
            return false;
    }
    if (pattern.data != NULL || path.data != NULL)
        return false;
    *ret_part = part;
    return true;
}

const struct ks_route *ks_route_find(enum ks_door door, enum ks_method method, ks_view path,
                                     ks_view *ret_part, char ret_allow[KS_ALLOW_SIZE])
{
    size_t used = 0;

    ret_allow[0] = '\0';
    for (size_t i = 0; i < ROUTES; i++) {
        const char *name = ks_method_name(routes[i].method);
        if (routes[i].door != door || !matches(ks_view_text(routes[i].path), path, ret_part))
            continue;
        if (routes[i].method == method)
            return &routes[i];
        assert(used + 2 + strlen(name) < KS_ALLOW_SIZE);
        if (used > 0) {
            memcpy(ret_allow + used, ", ", 2);
            used += 2;
        }
        memcpy(ret_allow + used, name, strlen(name) + 1);
        used += strlen(name);
    }
    return NULL;
}

bool ks_route_has_param(const struct ks_route *route, ks_view name)
{
    ks_view params = ks_view_text(route->params);

    if (name.size == 0)
        return false;
    if (route->door == KS_DOOR_LOCAL && ks_view_equal(name, KS_VIEW("subscription")))
        return true;
    while (params.data != NULL)
        if (ks_view_equal(ks_view_cut(&params, ' '), name))
            return true;
    return false;
}
