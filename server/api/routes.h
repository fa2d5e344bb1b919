/* SPDX-License-Identifier: Apache-2.0 */
/* routes.h - which handler answers what: one table, api/routes.def. */
#ifndef KS_API_ROUTES_H
#define KS_API_ROUTES_H

#include "api/exchange.h"

enum ks_door { KS_DOOR_LOCAL, KS_DOOR_OPS };
enum ks_who { KS_WHO_APP, KS_WHO_OPERATOR };
enum ks_route_subscription { KS_ROUTE_ONE, KS_ROUTE_ANY };
enum ks_body { KS_BODY_NONE, KS_BODY_JSON, KS_BODY_MESSAGE, KS_BODY_PUT, KS_BODY_STREAM };

struct ks_route {
    void (*handle)(struct ks_exchange *exchange);
    enum ks_door door;
    enum ks_who who;
    enum ks_method method;
    const char *path;
    const char *params; /* Names with a space between. */
    enum ks_route_subscription subscription;
    enum ks_body body;
    const char *sentence;
};

/* The handlers, each in the file of its noun. */
#define X(name, door, who, method, path, params, subscription, body, sentence)                     \
    void ks_handle_##name(struct ks_exchange *exchange);
#include "api/routes.def"
#undef X

/* All of them, for who makes documents from them. */
const struct ks_route *ks_routes(size_t *ret_count);

enum { KS_ALLOW_SIZE = 48 };

/* The route of (door, method, path); `ret_part` is what stands for {..}, if anything. NULL if there
 * is none; then `ret_allow` holds the methods that the path has ("GET, POST"), or "". */
const struct ks_route *ks_route_find(enum ks_door door, enum ks_method method, ks_view path,
                                     ks_view *ret_part, char ret_allow[KS_ALLOW_SIZE]);
/* True if the route has this query parameter. */
bool ks_route_has_param(const struct ks_route *route, ks_view name);

const char *ks_method_name(enum ks_method method);
enum ks_method ks_method_parse(const char *name);

#endif
