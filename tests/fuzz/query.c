/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes the request target: path, parameters, route. */
#include "api/query.h"
#include "api/routes.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ks_detail detail = {""};
    struct ks_target target;
    char allow[KS_ALLOW_SIZE];
    ks_view part;

    if (!ks_ok(ks_target_parse(ks_view_of(data, size), &target, &detail)))
        return 0;
    assert(target.path.size > 0 && target.path.size <= size);
    assert(target.param_count <= KS_PARAMS_MAX);
    for (uint32_t i = 0; i < target.param_count; i++)
        assert(ks_view_is_utf8(target.params[i].name) && ks_view_is_utf8(target.params[i].value));
    (void)ks_route_find(KS_DOOR_LOCAL, KS_METHOD_GET, target.path, &part, allow);
    ks_target_free(&target);
    return 0;
}
