/* SPDX-License-Identifier: Apache-2.0 */
#include "api/rpc_call.h"
#include "api/methods.h"
#include "api/server.h"
#include "ks_test.h"

#include <string.h>

static struct ks_exchange exchange;

/* Reads the head of a POST to Watch (a stream) or Pull. */
static bool read_head(uint8_t http, bool stream, const char *type, const char *name,
                      const char *value, struct ks_rpc_head *ret_head)
{
    static struct ks_api api;
    static const struct ks_rpc_method unary = {.kind = KS_RPC_UNARY};
    static const struct ks_rpc_method server_stream = {.kind = KS_RPC_SERVER_STREAM};
    bool good;

    api = (struct ks_api){.request_bytes_max = 1000, .rpc = ks_methods()};
    ks_exchange_init(&exchange, &api, NULL);
    exchange.request.http = http;
    exchange.request.method = KS_METHOD_POST;
    exchange.request.target = KS_VIEW("/a.B/C");
    exchange.request.content_type = ks_view_text(type);
    if (name != NULL)
        EXPECT_OK(
            ks_headers_add(&exchange.request.headers, ks_view_text(name), ks_view_text(value)));
    good = ks_rpc_head_read(&exchange, stream ? &server_stream : &unary, ret_head);
    EXPECT(good == !exchange.answered);
    ks_exchange_end(&exchange);
    return good;
}

TEST(the_media_type_says_protocol_and_codec)
{
    static const struct {
        const char *type;
        uint8_t http;
        bool stream;
        bool good;
        enum ks_rpc_protocol protocol;
        bool json;
    } rows[] = {
        {"application/json; charset=utf-8", 1, false, true, KS_RPC_CONNECT, true},
        {"application/proto", 2, false, true, KS_RPC_CONNECT, false},
        {"", 1, false, true, KS_RPC_CONNECT, true},
        {"", 2, false, false, KS_RPC_CONNECT, true},
        {"application/x-www-form-urlencoded", 1, false, true, KS_RPC_CONNECT, true},
        {"application/json", 1, true, false, KS_RPC_CONNECT, true},
        {"application/connect+json", 1, true, true, KS_RPC_CONNECT_STREAM, true},
        {"application/connect+json", 1, false, false, KS_RPC_CONNECT_STREAM, true},
        {"application/connect+proto", 2, true, true, KS_RPC_CONNECT_STREAM, false},
        {"application/grpc", 2, false, true, KS_RPC_GRPC, false},
        {"application/grpc+json", 2, true, true, KS_RPC_GRPC, true},
        {"application/grpc", 1, false, false, KS_RPC_GRPC, false},
        {"application/grpc-web", 2, false, false, KS_RPC_GRPC, false},
        {"text/plain", 1, false, false, KS_RPC_CONNECT, false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct ks_rpc_head head;
        EXPECT_EQ_I64(read_head(rows[i].http, rows[i].stream, rows[i].type, NULL, NULL, &head),
                      rows[i].good);
        if (!rows[i].good)
            continue;
        EXPECT_EQ_I64(head.protocol, rows[i].protocol);
        EXPECT_EQ_I64(head.json, rows[i].json);
        EXPECT_EQ_I64(head.timeout_ms, -1);
    }
}

TEST(deadlines_are_read_in_every_unit)
{
    static const struct {
        const char *value;
        int64_t ms; /* -2: refused. */
    } rows[] = {{"1H", 3600000}, {"2M", 120000}, {"3S", 3000},      {"99999999m", 99999999},
                {"1u", 1},       {"0n", 0},      {"1S1", -2},       {"S", -2},
                {"-1S", -2},     {"1x", -2},     {"123456789S", -2}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct ks_rpc_head head;
        bool good = read_head(2, false, "application/grpc", "grpc-timeout", rows[i].value, &head);
        EXPECT_EQ_I64(good, rows[i].ms != -2);
        if (good)
            EXPECT_EQ_I64(head.timeout_ms, rows[i].ms);
    }
}

TEST(connect_has_its_own_deadline_and_version)
{
    struct ks_rpc_head head;

    EXPECT(read_head(1, false, "application/json", "connect-timeout-ms", "0123456789", &head));
    EXPECT_EQ_I64(head.timeout_ms, 123456789);
    EXPECT(!read_head(1, false, "application/json", "connect-timeout-ms", "12345678901", &head));
    EXPECT(!read_head(1, false, "application/json", "connect-timeout-ms", "1s", &head));
    EXPECT(read_head(1, false, "application/json", "connect-protocol-version", "1", &head));
    EXPECT(!read_head(1, false, "application/json", "connect-protocol-version", "2", &head));
}

TEST(only_gzip_and_identity_are_known)
{
    struct ks_rpc_head head;

    EXPECT(read_head(1, false, "application/json", "content-encoding", "GZIP", &head));
    EXPECT(head.gzipped && !head.accepts_gzip);
    EXPECT(read_head(1, true, "application/connect+json", "connect-content-encoding", "identity",
                     &head));
    EXPECT(!head.gzipped);
    EXPECT(!read_head(2, false, "application/grpc", "grpc-encoding", "br", &head));
    EXPECT(read_head(2, false, "application/grpc", "grpc-accept-encoding", "br, gzip", &head));
    EXPECT(head.accepts_gzip);
    EXPECT(read_head(1, false, "application/json", "accept-encoding", "gzip;q=0, br", &head));
    EXPECT(!head.accepts_gzip);
}
