/* SPDX-License-Identifier: Apache-2.0 */
#include "api/methods.h"
#include "grpc/health/v1/health.pb-c.h"
#include "ks_test.h"
#include "unit/api/rpc_rig.h"

#include <string.h>

typedef Grpc__Health__V1__HealthCheckResponse response;

static struct rig rig;
static struct http2_client client;

static struct http2_answer *ask(const char *method, const char *service)
{
    Grpc__Health__V1__HealthCheckRequest request;

    grpc__health__v1__health_check_request__init(&request);
    request.service = ks_pb_text(service);
    return rpc_grpc(&client, method, &request.base, true);
}

static int heard(struct http2_answer *answer, size_t *at)
{
    response *message = (response *)rpc_heard(&client, answer, at,
                                              &grpc__health__v1__health_check_response__descriptor);
    int status = (int)message->status;

    grpc__health__v1__health_check_response__free_unpacked(message, NULL);
    return status;
}

TEST(both_ports_say_how_it_is)
{
    static const char *const ports[] = {"api", "ops"};

    rig_begin(&rig);
    for (size_t i = 0; i < 2; i++) {
        struct http2_answer *answer;
        size_t at = 0;

        http2_begin(&client, &rig, ports[i], 0);
        answer = ask("/grpc.health.v1.Health/Check", "kinesis_sidecar.v1.Consumer");
        EXPECT_EQ_I64(heard(answer, &at), 1);
        answer = ask("/grpc.health.v1.Health/Check", "no.Such");
        http2_wait(&client, answer);
        EXPECT_CONTAINS(answer->headers, "grpc-status: 5\n");
        http2_end(&client);
    }
    rig_end(&rig);
}

TEST(who_watches_is_told_when_it_changes)
{
    struct http2_answer *answer;
    size_t at = 0;

    rig_begin(&rig);
    http2_begin(&client, &rig, "api", 0);
    answer = ask("/grpc.health.v1.Health/Watch", "");
    EXPECT_EQ_I64(heard(answer, &at), 1);
    ks_switchboard_drain(rig.stage.board, ks_span_ms(1000));
    EXPECT_EQ_I64(heard(answer, &at), 2);
    http2_end(&client);
    rig_end(&rig);
}
