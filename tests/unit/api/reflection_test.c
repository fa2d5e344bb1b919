/* SPDX-License-Identifier: Apache-2.0 */
#include "api/methods.h"
#include "api/server.h"
#include "grpc/reflection/v1/reflection.pb-c.h"
#include "ks_test.h"
#include "unit/api/rpc_rig.h"

#include <string.h>

typedef Grpc__Reflection__V1__ServerReflectionResponse response;
typedef Grpc__Reflection__V1__ServerReflectionRequest request;

#define CASE(name) GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_##name
#define TOLD(name) GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_##name

static struct rig rig;
static struct http2_client client;
static struct http2_answer *stream;
static size_t at;

static response *ask(Grpc__Reflection__V1__ServerReflectionRequest__MessageRequestCase which,
                     const char *text)
{
    request message;

    grpc__reflection__v1__server_reflection_request__init(&message);
    message.message_request_case = which;
    message.file_by_filename = ks_pb_text(text); /* All texts of the oneof lie at one place. */
    rpc_say(&client, stream, &message.base, false);
    return (response *)rpc_heard(&client, stream, &at,
                                 &grpc__reflection__v1__server_reflection_response__descriptor);
}

static void begin(const char *path)
{
    rig_begin(&rig);
    http2_begin(&client, &rig, "api", 0);
    at = 0;
    stream = rpc_grpc(&client, path, NULL, false);
}

static void end(void)
{
    http2_upload(&client, stream, "", 0, true);
    http2_wait(&client, stream);
    EXPECT_CONTAINS(stream->trailers, "grpc-status: 0\n");
    http2_end(&client);
    rig_end(&rig);
}

static bool is_found(const char *symbol)
{
    response *told = ask(CASE(FILE_CONTAINING_SYMBOL), symbol);
    bool found = told->message_response_case == TOLD(FILE_DESCRIPTOR_RESPONSE);

    if (!found)
        EXPECT_EQ_I64(told->error_response->error_code, 5);
    else
        EXPECT(told->file_descriptor_response->n_file_descriptor_proto > 0);
    grpc__reflection__v1__server_reflection_response__free_unpacked(told, NULL);
    return found;
}

TEST(symbols_of_every_kind_are_found_and_no_others)
{
    begin("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo");
    EXPECT(is_found("kinesis_sidecar.v1.Consumer"));
    EXPECT(is_found("kinesis_sidecar.v1.Consumer.Settle"));
    EXPECT(is_found("kinesis_sidecar.v1.Record"));
    EXPECT(is_found("kinesis_sidecar.v1.Record.ack_id"));
    EXPECT(is_found("kinesis_sidecar.v1.Outcome"));
    EXPECT(is_found("grpc.health.v1.HealthCheckResponse.ServingStatus"));
    EXPECT(!is_found("kinesis_sidecar.v1.Nothing"));
    EXPECT(!is_found("kinesis_sidecar.v1."));
    EXPECT(!is_found("kinesis_sidecar.v1"));
    EXPECT(!is_found(""));
    end();
}

TEST(a_file_comes_with_what_it_imports)
{
    response *told;

    begin("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo");
    told = ask(CASE(FILE_BY_FILENAME), "kinesis_sidecar/v1/service.proto");
    EXPECT(told->file_descriptor_response->n_file_descriptor_proto >= 6);
    grpc__reflection__v1__server_reflection_response__free_unpacked(told, NULL);
    told = ask(CASE(FILE_BY_FILENAME), "no.proto");
    EXPECT_EQ_I64(told->message_response_case, TOLD(ERROR_RESPONSE));
    grpc__reflection__v1__server_reflection_response__free_unpacked(told, NULL);
    end();
}

TEST(the_services_are_listed_each_once)
{
    response *told;

    begin("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo");
    told = ask(CASE(LIST_SERVICES), "");
    EXPECT_EQ_U64(told->list_services_response->n_service, 5);
    EXPECT_STR(told->list_services_response->service[0]->name, "kinesis_sidecar.v1.Consumer");
    grpc__reflection__v1__server_reflection_response__free_unpacked(told, NULL);
    end();
}

TEST(answer_that_there_is_no_room_for_is_an_error_and_nothing_else)
{
    request message;

    begin("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo");
    for (int kind = 0; kind < KS_HELD_KINDS; kind++)
        rig.api->accounts.limit[kind] = 0;
    grpc__reflection__v1__server_reflection_request__init(&message);
    message.message_request_case = CASE(FILE_BY_FILENAME);
    message.file_by_filename = ks_pb_text("kinesis_sidecar/v1/service.proto");
    rpc_say(&client, stream, &message.base, false);
    http2_wait(&client, stream);
    EXPECT_CONTAINS(stream->trailers, "grpc-status: 8\n");
    EXPECT_EQ_U64(stream->size, 0);
    http2_end(&client);
    rig_end(&rig);
}
