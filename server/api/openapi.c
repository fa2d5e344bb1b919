/* SPDX-License-Identifier: Apache-2.0 */
#include "api/openapi.h"

#include <assert.h>
#include <stdio.h>

#include "api/codec_json.h"
#include "api/control.h"
#include "api/operate.h"
#include "api/routes.h"
#include "api/server.h"
#include "base/json_writer.h"
#include "core/limits.h"

#include "kinesis_sidecar/v1/letters.pb-c.h"

enum { MESSAGES_MAX = 96, DOCUMENT_BYTES_MAX = 1 << 20, NAME_SIZE = 64 };

typedef const ProtobufCMessageDescriptor *descriptor;

struct described_route {
    void (*handle)(struct ks_exchange *exchange);
    descriptor request; /* NULL: none of ours. */
    descriptor answer;
    const char *media_types; /* One space between them. */
};

enum param_type { NUMBER, WORDS, TEXT };

struct described_param {
    const char *name;
    enum param_type type;
    int64_t min;
    int64_t max;
    const char *words;
};

static const ProtobufCMessageDescriptor kinesis_sidecar__v1__none__descriptor = {0};

static const struct described_route described_routes[] = {
#define X_ROUTE(name, request, answer, media_type)                                                 \
    {ks_handle_##name, &kinesis_sidecar__v1__##request##__descriptor,                              \
     &kinesis_sidecar__v1__##answer##__descriptor, media_type},
#define X_PARAM(name, type, min, max, words)
#include "api/openapi.def"
#undef X_PARAM
#undef X_ROUTE
};

static const struct described_param described_params[] = {
#define X_ROUTE(name, request, answer, media_type)
#define X_PARAM(name, type, min, max, words) {name, type, min, max, words},
#include "api/openapi.def"
#undef X_PARAM
#undef X_ROUTE
};

/* The messages that the document needs, each once. */
struct needed {
    descriptor messages[MESSAGES_MAX];
    size_t count;
};

static bool is_none(descriptor type)
{
    return type == NULL || type == &kinesis_sidecar__v1__none__descriptor;
}

static void need(struct needed *needed, descriptor type)
{
    for (size_t i = 0; i < needed->count; i++)
        if (needed->messages[i] == type)
            return;
    assert(needed->count < MESSAGES_MAX);
    needed->messages[needed->count++] = type;
}

static const struct described_route *described(const struct ks_route *route)
{
    for (size_t i = 0; i < sizeof(described_routes) / sizeof(described_routes[0]); i++)
        if (described_routes[i].handle == route->handle)
            return &described_routes[i];
    return NULL;
}

/* ---- Schemas ---- */

static void write_reference(struct ks_writer *json, const char *name)
{
    char text[NAME_SIZE];

    (void)snprintf(text, sizeof(text), "#/components/schemas/%s", name);
    ks_writer_open(json, '{');
    ks_writer_pair(json, "$ref", ks_view_text(text));
    ks_writer_close(json, '}');
}

/* A type that may be null. */
static void write_nullable(struct ks_writer *json, const char *type)
{
    ks_writer_key(json, "type");
    ks_writer_open(json, '[');
    ks_writer_string(json, type);
    ks_writer_string(json, "null");
    ks_writer_close(json, ']');
}

static void write_enum(struct ks_writer *json, const ProtobufCEnumDescriptor *type)
{
    char word[KS_JSON_WORD_MAX];

    write_nullable(json, "string");
    ks_writer_key(json, "enum");
    ks_writer_open(json, '[');
    for (unsigned i = 0; i < type->n_values; i++) {
        if (type->values[i].value == 0)
            continue;
        ks_enum_word(type, type->values[i].name, word);
        ks_writer_string(json, word);
    }
    ks_writer_null(json);
    ks_writer_close(json, ']');
}

static void write_integer(struct ks_writer *json, const ProtobufCFieldDescriptor *field)
{
    if (field->type == PROTOBUF_C_TYPE_INT64 && ks_field_is_instant(field)) {
        write_nullable(json, "string");
        ks_writer_pair(json, "format", KS_VIEW("date-time"));
        return;
    }
    write_nullable(json, "integer");
    if (field->type == PROTOBUF_C_TYPE_INT64)
        return;
    ks_writer_key(json, "minimum");
    ks_writer_u64(json, 0);
}

/* The schema of one value, within its braces. */
static void write_value(struct ks_writer *json, const ProtobufCFieldDescriptor *field,
                        struct needed *needed)
{
    const ProtobufCMessageDescriptor *inner = field->descriptor;

    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING: write_nullable(json, "string"); return;
    case PROTOBUF_C_TYPE_BOOL: write_nullable(json, "boolean"); return;
    case PROTOBUF_C_TYPE_ENUM: write_enum(json, field->descriptor); return;
    case PROTOBUF_C_TYPE_BYTES:
        ks_writer_pair(json, "type", KS_VIEW("string"));
        ks_writer_pair(json, "contentEncoding", KS_VIEW("base64"));
        return;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_UINT32: write_integer(json, field); return;
    case PROTOBUF_C_TYPE_MESSAGE:
        need(needed, inner);
        ks_writer_key(json, "anyOf");
        ks_writer_open(json, '[');
        write_reference(json, inner->short_name);
        ks_writer_open(json, '{');
        ks_writer_pair(json, "type", KS_VIEW("null"));
        ks_writer_close(json, '}');
        ks_writer_close(json, ']');
        return;
    default: break;
    }
    assert(false);
}

static void write_field(struct ks_writer *json, const ProtobufCFieldDescriptor *field,
                        struct needed *needed)
{
    bool list = field->label == PROTOBUF_C_LABEL_REPEATED;

    ks_writer_key(json, field->name);
    ks_writer_open(json, '{');
    if (list) {
        write_nullable(json, "array");
        ks_writer_key(json, "items");
        ks_writer_open(json, '{');
    }
    if (list && field->type == PROTOBUF_C_TYPE_STRING)
        ks_writer_pair(json, "type", KS_VIEW("string"));
    else
        write_value(json, field, needed);
    if (list)
        ks_writer_close(json, '}');
    ks_writer_close(json, '}');
}

static void write_schema(struct ks_writer *json, descriptor type, struct needed *needed)
{
    ks_writer_key(json, type->short_name);
    ks_writer_open(json, '{');
    ks_writer_pair(json, "type", KS_VIEW("object"));
    ks_writer_key(json, "additionalProperties");
    ks_writer_bool(json, false);
    ks_writer_key(json, "properties");
    ks_writer_open(json, '{');
    for (unsigned i = 0; i < type->n_fields; i++)
        write_field(json, &type->fields[i], needed);
    ks_writer_close(json, '}');
    ks_writer_close(json, '}');
}

/* api/problem.h */
static void write_problem(struct ks_writer *json)
{
    static const char *const texts[] = {"type", "title", "detail", "instance", "code", "message"};

    ks_writer_key(json, "Problem");
    ks_writer_open(json, '{');
    ks_writer_pair(json, "type", KS_VIEW("object"));
    ks_writer_key(json, "required");
    ks_writer_open(json, '[');
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        ks_writer_string(json, texts[i]);
    ks_writer_string(json, "status");
    ks_writer_string(json, "retryable");
    ks_writer_close(json, ']');
    ks_writer_key(json, "properties");
    ks_writer_open(json, '{');
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        ks_writer_key(json, texts[i]);
        ks_writer_open(json, '{');
        ks_writer_pair(json, "type", KS_VIEW("string"));
        ks_writer_close(json, '}');
    }
    ks_writer_key(json, "status");
    ks_writer_open(json, '{');
    ks_writer_pair(json, "type", KS_VIEW("integer"));
    ks_writer_close(json, '}');
    ks_writer_key(json, "retryable");
    ks_writer_open(json, '{');
    ks_writer_pair(json, "type", KS_VIEW("boolean"));
    ks_writer_close(json, '}');
    ks_writer_close(json, '}');
    ks_writer_close(json, '}');
}

/* ---- Parameters ---- */

static void write_words(struct ks_writer *json, const char *words)
{
    ks_view rest = ks_view_text(words);

    ks_writer_key(json, "enum");
    ks_writer_open(json, '[');
    while (rest.data != NULL)
        ks_writer_text(json, ks_view_cut(&rest, ' '));
    ks_writer_close(json, ']');
}

static void write_param_schema(struct ks_writer *json, ks_view name)
{
    const struct described_param *param = NULL;

    for (size_t i = 0; i < sizeof(described_params) / sizeof(described_params[0]); i++)
        if (ks_view_equal(name, ks_view_text(described_params[i].name)))
            param = &described_params[i];
    ks_writer_key(json, "schema");
    ks_writer_open(json, '{');
    ks_writer_pair(json, "type",
                   param != NULL && param->type == NUMBER ? KS_VIEW("integer") : KS_VIEW("string"));
    if (param != NULL && param->type == WORDS) {
        write_words(json, param->words);
    } else if (param != NULL) {
        ks_writer_key(json, param->type == NUMBER ? "minimum" : "minLength");
        ks_writer_i64(json, param->min);
        ks_writer_key(json, param->type == NUMBER ? "maximum" : "maxLength");
        ks_writer_i64(json, param->max);
    }
    ks_writer_close(json, '}');
}

static void write_param(struct ks_writer *json, ks_view name, const char *in)
{
    ks_writer_open(json, '{');
    ks_writer_pair(json, "name", name);
    ks_writer_pair(json, "in", ks_view_text(in));
    ks_writer_key(json, "required");
    ks_writer_bool(json, strcmp(in, "path") == 0);
    write_param_schema(json, name);
    ks_writer_close(json, '}');
}

/* The name between the braces of the path; empty if there are none. */
static ks_view path_param(const struct ks_route *route)
{
    const char *open = strchr(route->path, '{');
    const char *close = open == NULL ? NULL : strchr(open, '}');

    return close == NULL ? KS_VIEW_NONE
                         : ks_view_of((const uint8_t *)open + 1, (size_t)(close - open - 1));
}

static void write_params(struct ks_writer *json, const struct ks_route *route)
{
    ks_view rest = ks_view_text(route->params);
    ks_view of_path = path_param(route);

    ks_writer_key(json, "parameters");
    ks_writer_open(json, '[');
    if (of_path.size > 0)
        write_param(json, of_path, "path");
    while (rest.data != NULL) {
        ks_view name = ks_view_cut(&rest, ' ');

        if (name.size > 0)
            write_param(json, name, "query");
    }
    write_param(json, KS_VIEW("subscription"), "query");
    ks_writer_close(json, ']');
}

/* ---- Operations ---- */

/* A media type and, with a message, its schema. */
static void write_content(struct ks_writer *json, const char *media_types, const char *schema)
{
    ks_view rest = ks_view_text(media_types);
    char type[NAME_SIZE];

    ks_writer_key(json, "content");
    ks_writer_open(json, '{');
    while (rest.data != NULL) {
        if (!ks_ok(ks_view_copy_text(ks_view_cut(&rest, ' '), type, sizeof(type))))
            assert(false); /* They are ours. */
        ks_writer_key(json, type);
        ks_writer_open(json, '{');
        if (schema != NULL) {
            ks_writer_key(json, "schema");
            write_reference(json, schema);
        }
        ks_writer_close(json, '}');
    }
    ks_writer_close(json, '}');
}

static void write_body(struct ks_writer *json, const struct ks_route *route,
                       const struct described_route *more, struct needed *needed)
{
    if (route->body == KS_BODY_NONE)
        return;
    ks_writer_key(json, "requestBody");
    ks_writer_open(json, '{');
    if (more != NULL && !is_none(more->request)) {
        need(needed, more->request);
        write_content(json, KS_TYPE_JSON, more->request->short_name);
    } else {
        write_content(json, KS_TYPE_JSON, NULL);
    }
    ks_writer_close(json, '}');
}

static void write_responses(struct ks_writer *json, const struct described_route *more,
                            struct needed *needed)
{
    const char *media_types = more == NULL ? KS_TYPE_JSON : more->media_types;
    bool lines = strncmp(media_types, KS_TYPE_NDJSON, strlen(KS_TYPE_NDJSON)) == 0;
    const char *schema = NULL;

    if (more != NULL && !is_none(more->answer)) {
        need(needed, more->answer);
        schema = more->answer->short_name;
    }
    ks_writer_key(json, "responses");
    ks_writer_open(json, '{');
    ks_writer_key(json, "200");
    ks_writer_open(json, '{');
    ks_writer_pair(json, "description", lines ? KS_VIEW("One object a line.") : KS_VIEW("Done."));
    write_content(json, media_types, lines ? NULL : schema);
    ks_writer_close(json, '}');
    ks_writer_key(json, "default");
    ks_writer_open(json, '{');
    ks_writer_pair(json, "description", KS_VIEW("What is wrong."));
    write_content(json, "application/problem+json", "Problem");
    ks_writer_close(json, '}');
    ks_writer_close(json, '}');
}

static void write_operation(struct ks_writer *json, const struct ks_route *route,
                            struct needed *needed)
{
    const struct described_route *more = described(route);
    char method[8] = "";
    const char *name = ks_method_name(route->method);

    for (size_t i = 0; name[i] != '\0' && i + 1 < sizeof(method); i++)
        method[i] = (char)(name[i] + 'a' - 'A');
    ks_writer_key(json, method);
    ks_writer_open(json, '{');
    ks_writer_pair(json, "summary", ks_view_text(route->sentence));
    write_params(json, route);
    write_body(json, route, more, needed);
    write_responses(json, more, needed);
    ks_writer_close(json, '}');
}

static void write_paths(struct ks_writer *json, struct needed *needed)
{
    size_t count;
    const struct ks_route *routes = ks_routes(&count);

    ks_writer_key(json, "paths");
    ks_writer_open(json, '{');
    for (size_t i = 0; i < count; i++) {
        bool known = false;

        for (size_t before = 0; before < i; before++)
            known |= routes[before].door == KS_DOOR_LOCAL &&
                     strcmp(routes[before].path, routes[i].path) == 0;
        if (routes[i].door != KS_DOOR_LOCAL || known)
            continue;
        ks_writer_key(json, routes[i].path);
        ks_writer_open(json, '{');
        for (size_t same = i; same < count; same++)
            if (routes[same].door == KS_DOOR_LOCAL &&
                strcmp(routes[same].path, routes[i].path) == 0)
                write_operation(json, &routes[same], needed);
        ks_writer_close(json, '}');
    }
    ks_writer_close(json, '}');
}

ks_err ks_openapi_write(struct ks_bytes *document)
{
    struct needed needed = {.count = 0};
    struct ks_writer json;

    ks_writer_begin(&json, document);
    ks_writer_open(&json, '{');
    ks_writer_pair(&json, "openapi", KS_VIEW("3.1.0"));
    ks_writer_key(&json, "info");
    ks_writer_open(&json, '{');
    ks_writer_pair(&json, "title", KS_VIEW("kinesis-sidecar: the local API"));
    ks_writer_pair(&json, "version", KS_VIEW("v1"));
    ks_writer_close(&json, '}');
    /* As --listen has it by default: a client that is made of this document knows where to ask. */
    ks_writer_key(&json, "servers");
    ks_writer_open(&json, '[');
    ks_writer_open(&json, '{');
    ks_writer_pair(&json, "url", KS_VIEW("http://127.0.0.1:8990"));
    ks_writer_close(&json, '}');
    ks_writer_close(&json, ']');
    write_paths(&json, &needed);
    ks_writer_key(&json, "components");
    ks_writer_open(&json, '{');
    ks_writer_key(&json, "schemas");
    ks_writer_open(&json, '{');
    /* Messages inside messages are added at the end while it is walked. */
    for (size_t i = 0; i < needed.count; i++)
        write_schema(&json, needed.messages[i], &needed);
    write_problem(&json);
    ks_writer_close(&json, '}');
    ks_writer_close(&json, '}');
    ks_writer_close(&json, '}');
    ks_writer_line(&json);
    return ks_writer_end(&json);
}

/* It is the same for as long as the process lives: made once. */
static ks_err document(struct ks_api *api, struct ks_bytes *body)
{
    if (api->openapi.size == 0) {
        ks_bytes_init(&api->openapi, DOCUMENT_BYTES_MAX);
        KS_TRY(ks_openapi_write(&api->openapi));
    }
    return ks_bytes_append(body, ks_bytes_view(&api->openapi));
}

void ks_handle_openapi(struct ks_exchange *exchange)
{
    struct ks_bytes body;
    ks_err err;

    ks_bytes_init(&body, DOCUMENT_BYTES_MAX);
    err = document(exchange->api, &body);
    if (ks_ok(err)) {
        ks_exchange_reply(exchange, 200, KS_TYPE_JSON, &body);
        return;
    }
    ks_bytes_free(&body);
    ks_exchange_problem(exchange, KS_PROBLEM_EXHAUSTED, "the document: %s", ks_err_text(err));
}
