/* SPDX-License-Identifier: Apache-2.0 */
/* The head of a call: which protocol, which codec, which compression, how long. */
#include "api/rpc_call.h"

#include "base/codec.h"

#define ACCEPTED "application/json, application/proto"

/* One row for each media type. */
static const struct {
    const char *type;
    enum ks_rpc_protocol protocol;
    bool json;
} types[] = {
    {"application/json", KS_RPC_CONNECT, true},
    {"application/proto", KS_RPC_CONNECT, false},
    {"application/connect+json", KS_RPC_CONNECT_STREAM, true},
    {"application/connect+proto", KS_RPC_CONNECT_STREAM, false},
    {"application/grpc", KS_RPC_GRPC, false},
    {"application/grpc+proto", KS_RPC_GRPC, false},
    {"application/grpc+json", KS_RPC_GRPC, true},
};
#define TYPES (sizeof(types) / sizeof(types[0]))

enum ks_rpc_protocol ks_rpc_head_protocol(const struct ks_exchange *exchange)
{
    const struct ks_request *request = &exchange->request;
    ks_view type = request->content_type;

    if (request->http == 2 && ks_view_starts(type, KS_VIEW("application/grpc")) &&
        !ks_view_starts(type, KS_VIEW("application/grpc-web")))
        return KS_RPC_GRPC;
    if (ks_view_starts(type, KS_VIEW("application/connect+")))
        return KS_RPC_CONNECT_STREAM;
    return KS_RPC_CONNECT;
}

bool ks_rpc_has_protocol(const struct ks_exchange *exchange)
{
    static const char *const begins[] = {"application/grpc", "application/connect+",
                                         "application/json", "application/proto",
                                         "application/x-www-form-urlencoded"};
    ks_view type = exchange->request.content_type;

    for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++)
        if (ks_view_starts(type, ks_view_text(begins[i])))
            return true;
    return exchange->rpc != NULL || type.size == 0;
}

static bool refuse_type(struct ks_exchange *exchange)
{
    ks_exchange_problem(exchange, KS_PROBLEM_MEDIA_TYPE,
                        "send " ACCEPTED ", application/connect+json or +proto, or "
                        "application/grpc, as the method wants");
    return false;
}

/* ---- POST ---- */

/* What curl -d sends counts as JSON on HTTP/1.1. */
static bool is_habit(const struct ks_request *request)
{
    return request->http == 1 &&
           (request->content_type.size == 0 ||
            ks_media_type_is(request->content_type, "application/x-www-form-urlencoded"));
}

static bool read_type(struct ks_exchange *exchange, const struct ks_rpc_method *method,
                      struct ks_rpc_head *head)
{
    const struct ks_request *request = &exchange->request;
    bool unary = method->kind == KS_RPC_UNARY;
    size_t at = 0;

    while (at < TYPES && !ks_media_type_is(request->content_type, types[at].type))
        at++;
    if (at == TYPES && !is_habit(request))
        return refuse_type(exchange);
    head->protocol = at == TYPES ? KS_RPC_CONNECT : types[at].protocol;
    head->json = at == TYPES || types[at].json;
    if (head->protocol != KS_RPC_GRPC && unary != (head->protocol == KS_RPC_CONNECT))
        return refuse_type(exchange);
    if (request->http == 2 || (head->protocol != KS_RPC_GRPC && method->kind != KS_RPC_BIDI))
        return true;
    ks_exchange_problem(exchange, KS_PROBLEM_HTTP_VERSION, "%s needs HTTP/2",
                        head->protocol == KS_RPC_GRPC ? "gRPC" : "a method with streams both ways");
    return false;
}

/* ---- Compression ---- */

static const char *const encoding_header[] = {
    [KS_RPC_CONNECT] = "content-encoding",
    [KS_RPC_CONNECT_STREAM] = "connect-content-encoding",
    [KS_RPC_GRPC] = "grpc-encoding",
};
static const char *const accept_header[] = {
    [KS_RPC_CONNECT] = "accept-encoding",
    [KS_RPC_CONNECT_STREAM] = "connect-accept-encoding",
    [KS_RPC_GRPC] = "grpc-accept-encoding",
};

/* `name` is that of a compression. */
static bool read_compression(struct ks_exchange *exchange, struct ks_rpc_head *head, ks_view name)
{
    head->gzipped = ks_view_equal_nocase(name, KS_VIEW("gzip"));
    if (head->gzipped || name.size == 0 || ks_view_equal_nocase(name, KS_VIEW("identity")))
        return true;
    ks_exchange_problem(exchange, KS_PROBLEM_UNIMPLEMENTED,
                        "compression \"%.*s\" is not known here; gzip and identity are",
                        (int)(name.size < 40 ? name.size : 40), (const char *)name.data);
    ks_exchange_header(exchange, accept_header[head->protocol], "gzip,identity");
    return false;
}

static bool list_has_gzip(ks_view list)
{
    while (list.data != NULL) {
        ks_view item = ks_view_cut(&list, ',');
        ks_view name = ks_view_trim(ks_view_cut(&item, ';'));

        item = ks_view_trim(item);
        if (ks_view_equal_nocase(name, KS_VIEW("gzip")) &&
            !ks_view_equal_nocase(item, KS_VIEW("q=0")) &&
            !ks_view_starts(item, KS_VIEW("q=0.000")))
            return true;
    }
    return false;
}

/* ---- Deadlines ---- */

static bool refuse_timeout(struct ks_exchange *exchange, const char *name)
{
    ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT, "%s cannot be read", name);
    return false;
}

static bool is_digits(ks_view text, size_t max)
{
    for (size_t i = 0; i < text.size; i++)
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
    return text.size > 0 && text.size <= max;
}

/* "At most 10 digits": milliseconds. */
static bool read_connect_timeout(struct ks_exchange *exchange, int64_t *ret_ms)
{
    ks_view text = ks_request_header(&exchange->request, "connect-timeout-ms");
    uint64_t value;

    if (text.data == NULL)
        return true;
    if (!is_digits(text, 10) || !ks_ok(ks_view_u64(text, &value)))
        return refuse_timeout(exchange, "connect-timeout-ms");
    *ret_ms = (int64_t)value;
    return true;
}

/* "At most 8 digits", and a unit. */
static bool read_grpc_timeout(struct ks_exchange *exchange, int64_t *ret_ms)
{
    ks_view text = ks_request_header(&exchange->request, "grpc-timeout");
    uint64_t value;

    if (text.data == NULL)
        return true;
    if (text.size < 2 || !is_digits(ks_view_of(text.data, text.size - 1), 8) ||
        !ks_ok(ks_view_u64(ks_view_of(text.data, text.size - 1), &value)))
        return refuse_timeout(exchange, "grpc-timeout");
    /* A part of a millisecond is one, so that nobody who gave time has none. */
    switch (text.data[text.size - 1]) {
    case 'H': *ret_ms = (int64_t)value * 3600000; return true;
    case 'M': *ret_ms = (int64_t)value * 60000; return true;
    case 'S': *ret_ms = (int64_t)value * 1000; return true;
    case 'm': *ret_ms = (int64_t)value; return true;
    case 'u': *ret_ms = (int64_t)((value + 999) / 1000); return true;
    case 'n': *ret_ms = (int64_t)((value + 999999) / 1000000); return true;
    default: return refuse_timeout(exchange, "grpc-timeout");
    }
}

/* ---- GET ---- */

static ks_view param(const struct ks_exchange *exchange, const char *name)
{
    ks_view value = KS_VIEW_NONE;

    (void)ks_request_param(&exchange->request, name, &value);
    return value;
}

/* A parameter that is 1 or absent. False if it is something else. */
static bool read_flag(const struct ks_exchange *exchange, const char *name, bool *ret_set)
{
    ks_view value = param(exchange, name);

    *ret_set = ks_view_equal(value, KS_VIEW("1"));
    return *ret_set || value.size == 0;
}

static bool read_get(struct ks_exchange *exchange, struct ks_rpc_head *head)
{
    ks_view encoding = param(exchange, "encoding");
    ks_view version = param(exchange, "connect");

    head->protocol = KS_RPC_CONNECT;
    head->json = ks_view_equal(encoding, KS_VIEW("json"));
    if (!head->json && !ks_view_equal(encoding, KS_VIEW("proto")))
        return refuse_type(exchange);
    if (version.data != NULL && !ks_view_equal(version, KS_VIEW("v1"))) {
        ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT, "connect must be v1");
        return false;
    }
    if (param(exchange, "message").data == NULL) {
        ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT,
                            "the query parameter message is missing");
        return false;
    }
    return read_compression(exchange, head, param(exchange, "compression"));
}

bool ks_rpc_head_message(struct ks_exchange *exchange, struct ks_bytes *body)
{
    enum { VECTOR_BYTES = 32 };
    ks_view message = param(exchange, "message");
    bool base64;
    ks_err err;

    if (!read_flag(exchange, "base64", &base64)) {
        ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT, "base64 must be 1");
        return false;
    }
    if (!base64) {
        err = ks_bytes_append(body, message);
    } else {
        while (message.size > 0 && message.data[message.size - 1] == '=')
            message.size--;
        err = ks_bytes_reserve(body, ks_base64_decoded_max(message.size) + VECTOR_BYTES);
        if (ks_ok(err))
            err = ks_base64url_decode(message, body->data, &body->size);
    }
    if (ks_ok(err))
        return true;
    ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT, "message: %s", ks_err_text(err));
    return false;
}

/* ---- All of it ---- */

static bool read_version(struct ks_exchange *exchange)
{
    ks_view version = ks_request_header(&exchange->request, "connect-protocol-version");

    /* curl sends none. */
    if (version.data == NULL || ks_view_equal(version, KS_VIEW("1")))
        return true;
    ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT,
                        "connect-protocol-version must be 1");
    return false;
}

bool ks_rpc_head_read(struct ks_exchange *exchange, const struct ks_rpc_method *method,
                      struct ks_rpc_head *ret_head)
{
    const struct ks_request *request = &exchange->request;
    struct ks_rpc_head head = {.timeout_ms = -1};
    bool get = request->method == KS_METHOD_GET;

    if (!(get ? read_get(exchange, &head) : read_type(exchange, method, &head)))
        return false;
    if (head.protocol == KS_RPC_GRPC
            ? !read_grpc_timeout(exchange, &head.timeout_ms)
            : !read_version(exchange) || !read_connect_timeout(exchange, &head.timeout_ms))
        return false;
    if (!get && !read_compression(exchange, &head,
                                  ks_request_header(request, encoding_header[head.protocol])))
        return false;
    head.accepts_gzip = list_has_gzip(ks_request_header(request, accept_header[head.protocol]));
    *ret_head = head;
    return true;
}
