/* SPDX-License-Identifier: Apache-2.0 */
/* grpc.reflection.v1 and v1alpha: what is served here, for tools that ask. The two differ in their names
 * alone: both are answered with the messages of v1.
 *
 * The files come from the compiler as google.protobuf.FileDescriptorSet {repeated FileDescriptorProto file =
 * 1}, and are walked where they lie (protobuf: descriptor.proto).
 */
#include <assert.h>

#include "api/methods.h"
#include "api/server.h"
#include "grpc/reflection/v1/reflection.pb-c.h"

static const uint8_t descriptors[] = {
#include <descriptors.inc>
};

enum {
    FILES_MAX = 32,
    SERVICES_MAX = 16,
    /* Field numbers of descriptor.proto. */
    SET_FILE = 1,
    NAME = 1, /* Of everything. */
    FILE_PACKAGE = 2,
    FILE_DEPENDENCY = 3,
    FILE_MESSAGE = 4,
    FILE_ENUM = 5,
    FILE_SERVICE = 6,
    MESSAGE_FIELD = 2,
    MESSAGE_NESTED = 3,
    MESSAGE_ENUM = 4,
    OTHER_MEMBER = 2 /* Methods of services, values of enums. */
};

typedef Grpc__Reflection__V1__ServerReflectionRequest reflection_request;
typedef Grpc__Reflection__V1__ServerReflectionResponse reflection_response;

/* ---- Walking ---- */

/* The next field of `message` that has bytes, with its number. False at the end. */
static bool next_field(ks_view *message, uint32_t *ret_number, ks_view *ret_value)
{
    enum { WIRE_VARINT = 0, WIRE_BYTES = 2 };
    uint64_t tag;
    uint64_t size;

    while (ks_ok(ks_view_take_varint(message, &tag)) &&
           ks_ok(ks_view_take_varint(message, &size))) {
        if ((tag & 7) == WIRE_VARINT)
            continue;
        if ((tag & 7) != WIRE_BYTES)
            return false; /* The compiler writes nothing else there. */
        *ret_number = (uint32_t)(tag >> 3);
        return ks_ok(ks_view_take(message, size, ret_value));
    }
    return false;
}

static ks_view field_of(ks_view message, uint32_t number)
{
    uint32_t found;
    ks_view value;

    while (next_field(&message, &found, &value))
        if (found == number)
            return value;
    return KS_VIEW("");
}

/* The file number `index`. False at the end. */
static bool file_at(size_t index, ks_view *ret_file)
{
    ks_view set = ks_view_of(descriptors, sizeof(descriptors));
    uint32_t number;

    for (size_t i = 0; next_field(&set, &number, ret_file); i++)
        if (i == index)
            return true;
    return false;
}

/* What a symbol may stand for, by the numbers of the fields that declare it: from `first` to `last`. */
struct kinds {
    uint32_t first;
    uint32_t last;
};
static const struct kinds in_file = {FILE_MESSAGE, FILE_SERVICE};
static const struct kinds in_message = {MESSAGE_FIELD, MESSAGE_ENUM};
static const struct kinds in_others = {OTHER_MEMBER, OTHER_MEMBER};

/* The member of `container` with this name, and the number of its field. */
static bool find_member(ks_view container, struct kinds kinds, ks_view name, uint32_t *ret_number,
                        ks_view *ret_member)
{
    while (next_field(&container, ret_number, ret_member))
        if (*ret_number >= kinds.first && *ret_number <= kinds.last &&
            ks_view_equal(field_of(*ret_member, NAME), name))
            return true;
    return false;
}

/* True if the file declares the symbol, which has lost the package. */
static bool declares(ks_view file, ks_view symbol)
{
    struct kinds kinds = in_file;
    ks_view container = file;

    while (symbol.data != NULL) {
        ks_view name = ks_view_cut(&symbol, '.');
        uint32_t number;
        bool is_message;

        if (!find_member(container, kinds, name, &number, &container))
            return false;
        is_message = number == (kinds.first == FILE_MESSAGE ? FILE_MESSAGE : MESSAGE_NESTED);
        kinds = is_message ? in_message : in_others;
    }
    return true;
}

static bool has_symbol(ks_view file, ks_view symbol)
{
    ks_view package = field_of(file, FILE_PACKAGE);

    if (!ks_view_starts(symbol, package) || symbol.size <= package.size + 1 ||
        symbol.data[package.size] != '.')
        return false;
    return declares(file,
                    ks_view_of(symbol.data + package.size + 1, symbol.size - package.size - 1));
}

static bool has_name(ks_view file, ks_view name)
{
    return ks_view_equal(field_of(file, NAME), name);
}

/* ---- Answers ---- */

struct found {
    Grpc__Reflection__V1__FileDescriptorResponse response;
    ProtobufCBinaryData files[FILES_MAX];
    bool taken[FILES_MAX];
};

static void take_file(struct found *found, size_t index, ks_view file)
{
    assert(index < FILES_MAX);
    if (found->taken[index])
        return;
    found->taken[index] = true;
    found->files[found->response.n_file_descriptor_proto++] =
        (ProtobufCBinaryData){file.size, (uint8_t *)(uintptr_t)file.data};
}

/* The files that `file` imports join it: those of the list are looked at one after the other. */
static void take_imports(struct found *found, ks_view file)
{
    uint32_t number;
    ks_view name;
    ks_view other;

    while (next_field(&file, &number, &name)) {
        if (number != FILE_DEPENDENCY)
            continue;
        for (size_t i = 0; file_at(i, &other); i++)
            if (has_name(other, name))
                take_file(found, i, other);
    }
}

static bool find_file(ks_view text, bool (*is_it)(ks_view file, ks_view text), struct found *found)
{
    ks_view file;
    size_t at = 0;

    grpc__reflection__v1__file_descriptor_response__init(&found->response);
    found->response.file_descriptor_proto = found->files;
    for (size_t i = 0; file_at(i, &file) && found->response.n_file_descriptor_proto == 0; i++)
        if (is_it(file, text))
            take_file(found, i, file);
    for (; at < found->response.n_file_descriptor_proto; at++)
        take_imports(found, ks_view_of(found->files[at].data, found->files[at].len));
    return at > 0;
}

struct services {
    Grpc__Reflection__V1__ListServiceResponse response;
    Grpc__Reflection__V1__ServiceResponse rows[SERVICES_MAX];
    Grpc__Reflection__V1__ServiceResponse *pointers[SERVICES_MAX];
    char names[SERVICES_MAX][64];
};

/* The services of the methods, each once: their rows stand together. */
static void list_services(const struct ks_rpc_service *service, struct services *list)
{
    size_t count = 0;

    for (size_t i = 0; i < service->count; i++) {
        ks_view rest = ks_view_text(service->methods[i].path + 1);
        ks_view name = ks_view_cut(&rest, '/');
        if (count > 0 && ks_view_equal(ks_view_text(list->names[count - 1]), name))
            continue;
        assert(count < SERVICES_MAX);
        if (!ks_ok(ks_view_copy_text(name, list->names[count], sizeof(list->names[count]))))
            assert(false);
        grpc__reflection__v1__service_response__init(&list->rows[count]);
        list->rows[count].name = list->names[count];
        list->pointers[count] = &list->rows[count];
        count++;
    }
    grpc__reflection__v1__list_service_response__init(&list->response);
    list->response.n_service = count;
    list->response.service = list->pointers;
}

static void send(struct ks_exchange *exchange, const reflection_response *response)
{
    /* Who asks and does not read is told so. */
    if (!ks_ok(ks_rpc_send(exchange, &response->base)))
        ks_exchange_problem(exchange, KS_PROBLEM_EXHAUSTED, "the answers are not read");
}

static void send_error(struct ks_exchange *exchange, reflection_response response)
{
    Grpc__Reflection__V1__ErrorResponse error;

    grpc__reflection__v1__error_response__init(&error);
    error.error_code = KS_CODE_NOT_FOUND;
    error.error_message = ks_pb_text("not found");
    response.message_response_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_ERROR_RESPONSE;
    response.error_response = &error;
    send(exchange, &response);
}

static void send_file(struct ks_exchange *exchange, reflection_response response, const char *text,
                      bool (*is_it)(ks_view file, ks_view text))
{
    struct found found = {.taken = {false}};

    if (!find_file(ks_view_text(text), is_it, &found)) {
        send_error(exchange, response);
        return;
    }
    response.message_response_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_FILE_DESCRIPTOR_RESPONSE;
    response.file_descriptor_response = &found.response;
    send(exchange, &response);
}

static void send_services(struct ks_exchange *exchange, reflection_response response)
{
    struct services list;

    list_services(exchange->api->rpc, &list);
    response.message_response_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_LIST_SERVICES_RESPONSE;
    response.list_services_response = &list.response;
    send(exchange, &response);
}

/* ---- Questions ---- */

void ks_serve_reflection(struct ks_exchange *exchange, const ProtobufCMessage *message,
                         struct ks_arena *arena)
{
    (void)message;
    (void)arena;
    ks_rpc_open(exchange);
}

void ks_next_reflection(struct ks_exchange *exchange, const ProtobufCMessage *message,
                        struct ks_arena *arena)
{
    const reflection_request *request = (const reflection_request *)message;
    reflection_response response;

    (void)arena;
    if (request == NULL) {
        ks_rpc_close(exchange);
        return;
    }
    grpc__reflection__v1__server_reflection_response__init(&response);
    response.valid_host = request->host;
    response.original_request = (reflection_request *)(uintptr_t)request;
    switch (request->message_request_case) {
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_BY_FILENAME:
        send_file(exchange, response, request->file_by_filename, has_name);
        return;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_SYMBOL:
        send_file(exchange, response, request->file_containing_symbol, has_symbol);
        return;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_LIST_SERVICES:
        send_services(exchange, response);
        return;
    default: break; /* No message of ours has extensions. */
    }
    send_error(exchange, response);
}
