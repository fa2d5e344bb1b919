/* SPDX-License-Identifier: Apache-2.0 */
#include "api/methods.h"

#include "kinesis_sidecar/v1/service.pb-c.h"

enum { EFFECTS_SAFE = true, EFFECTS_CHANGES = false, ABOUT_ONE = true, ABOUT_ANY = false };

static const struct ks_rpc_method methods[] = {
#define X(service, method, kind, effects, subscription, request, response, handler)                \
    {"/kinesis_sidecar.v1." #service "/" #method,                                                  \
     KS_RPC_##kind,                                                                                \
     EFFECTS_##effects,                                                                            \
     false,                                                                                        \
     ABOUT_##subscription,                                                                         \
     &kinesis_sidecar__v1__##request##__descriptor,                                                \
     &kinesis_sidecar__v1__##response##__descriptor,                                               \
     ks_serve_##handler,                                                                           \
     NULL},
#include "api/methods.def"
#undef X
};

const struct ks_rpc_service *ks_methods(void)
{
    static const struct ks_rpc_service service = {
        .methods = methods,
        .count = sizeof(methods) / sizeof(methods[0]),
        .problems = true,
    };

    return &service;
}
