/* SPDX-License-Identifier: Apache-2.0 */
#include "api/methods.h"
#include "ks_test.h"

#include <stdio.h>
#include <string.h>

#include "kinesis_sidecar/v1/service.pb-c.h"

static const struct ks_rpc_method *find(const char *path)
{
    const struct ks_rpc_service *service = ks_methods();

    for (size_t i = 0; i < service->count; i++)
        if (strcmp(service->methods[i].path, path) == 0)
            return &service->methods[i];
    FAIL("no method %s", path);
    return NULL;
}

static void expect_all(const ProtobufCServiceDescriptor *service)
{
    char path[200];

    for (unsigned i = 0; i < service->n_methods; i++) {
        const ProtobufCMethodDescriptor *wanted = &service->methods[i];
        const struct ks_rpc_method *method;

        (void)snprintf(path, sizeof(path), "/%s/%s", service->name, wanted->name);
        method = find(path);
        EXPECT(method->request == wanted->input);
        EXPECT(method->response == wanted->output);
        EXPECT((method->next != NULL) ==
               (method->kind == KS_RPC_BIDI || method->kind == KS_RPC_CLIENT_STREAM));
        EXPECT(!method->ops);
    }
}

TEST(every_method_of_the_proto_is_in_the_table_with_its_messages)
{
    expect_all(&kinesis_sidecar__v1__consumer__descriptor);
    expect_all(&kinesis_sidecar__v1__admin__descriptor);
}

/* Browsers and caches repeat a GET as they like. */
TEST(what_only_looks_is_safe_and_nothing_else)
{
    const struct ks_rpc_service *service = ks_methods();

    for (size_t i = 0; i < service->count; i++) {
        const char *name = strrchr(service->methods[i].path, '/') + 1;
        bool looks = strncmp(name, "List", 4) == 0 || strncmp(name, "Get", 3) == 0;
        EXPECT_EQ_I64(service->methods[i].safe, looks);
    }
}

TEST(only_health_is_served_by_the_ops_port)
{
    const struct ks_rpc_service *service = ks_methods();

    for (size_t i = 0; i < service->count; i++)
        EXPECT_EQ_I64(service->methods[i].ops,
                      strncmp(service->methods[i].path, "/grpc.health.v1.", 16) == 0);
    EXPECT(ks_rpc_has_service(service, "grpc.health.v1.Health"));
    EXPECT(!ks_rpc_has_service(service, "grpc.health.v1"));
}
