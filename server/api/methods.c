/* SPDX-License-Identifier: Apache-2.0 */
#include "api/methods.h"

#include "grpc/health/v1/health.pb-c.h"
#include "grpc/reflection/v1/reflection.pb-c.h"
#include "kinesis_sidecar/v1/service.pb-c.h"

enum { SAFE_SAFE = true, SAFE_CHANGES = false, SAFE_ORDERS = false };
enum { ORDER_SAFE = false, ORDER_CHANGES = false, ORDER_ORDERS = true };
enum { ABOUT_ONE = true, ABOUT_ANY = false };

static const struct ks_rpc_method methods[] = {
#define X(service, method, kind, effects, subscription, request, response, handler, next)          \
    {"/kinesis_sidecar.v1." #service "/" #method,                                                  \
     KS_RPC_##kind,                                                                                \
     SAFE_##effects,                                                                               \
     false,                                                                                        \
     ORDER_##effects,                                                                              \
     ABOUT_##subscription,                                                                         \
     &kinesis_sidecar__v1__##request##__descriptor,                                                \
     &kinesis_sidecar__v1__##response##__descriptor,                                               \
     ks_serve_##handler,                                                                           \
     next},
#include "api/methods.def"
#undef X
    {"/grpc.health.v1.Health/Check", KS_RPC_UNARY, .ops = true,
     .request = &grpc__health__v1__health_check_request__descriptor,
     .response = &grpc__health__v1__health_check_response__descriptor,
     .handle = ks_serve_health_check},
    {"/grpc.health.v1.Health/Watch", KS_RPC_SERVER_STREAM, .ops = true,
     .request = &grpc__health__v1__health_check_request__descriptor,
     .response = &grpc__health__v1__health_check_response__descriptor,
     .handle = ks_serve_health_watch},
    {"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", KS_RPC_BIDI,
     .request = &grpc__reflection__v1__server_reflection_request__descriptor,
     .response = &grpc__reflection__v1__server_reflection_response__descriptor,
     .handle = ks_serve_reflection, .next = ks_next_reflection},
    {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", KS_RPC_BIDI,
     .request = &grpc__reflection__v1__server_reflection_request__descriptor,
     .response = &grpc__reflection__v1__server_reflection_response__descriptor,
     .handle = ks_serve_reflection, .next = ks_next_reflection},
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
