/* SPDX-License-Identifier: Apache-2.0 */
/* rpc_head.c - any bytes as the head of a call: the method and its media type, then header lines "name: value" or, of a
 * GET, the query. It is read, or the exchange has its answer; what it allows is within bounds.
 */
#include "api/methods.h"
#include "api/rpc_call.h"
#include "api/server.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void add_headers(struct ks_exchange *exchange, ks_view lines)
{
    while (lines.data != NULL) {
        ks_view value = ks_view_cut(&lines, '\n');
        ks_view name = ks_view_cut(&value, ':');

        if (value.data == NULL ||
            !ks_ok(ks_headers_add(&exchange->request.headers, name, ks_view_trim(value))))
            return;
    }
}

static void read_head(struct ks_api *api, uint8_t flags, ks_view type, ks_view rest)
{
    static const struct ks_rpc_method methods[] = {
        {.kind = KS_RPC_UNARY}, {.kind = KS_RPC_SERVER_STREAM}, {.kind = KS_RPC_BIDI}};
    const struct ks_rpc_method *method = &methods[flags / 4 % 3];
    struct ks_detail detail = {""};
    struct ks_exchange exchange;
    struct ks_rpc_head head;
    struct ks_bytes message;
    bool get = (flags & 1) != 0;

    ks_exchange_init(&exchange, api, NULL);
    exchange.request.http = (flags & 2) != 0 ? 2 : 1;
    exchange.request.method = get ? KS_METHOD_GET : KS_METHOD_POST;
    exchange.request.target = get ? rest : KS_VIEW("/a.B/C");
    exchange.request.content_type = type;
    if (!get)
        add_headers(&exchange, rest);
    if (!get || ks_ok(ks_target_parse(rest, &exchange.request.decoded, &detail))) {
        bool good = ks_rpc_head_read(&exchange, method, &head);

        assert(good == !exchange.answered);
        assert(!good || head.timeout_ms >= -1);
        ks_bytes_init(&message, 1000);
        if (good && get)
            assert(ks_rpc_head_message(&exchange, &message) == !exchange.answered);
        ks_bytes_free(&message);
    }
    ks_exchange_end(&exchange);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct ks_api api;
    ks_view rest = ks_view_of(data, size);
    uint8_t flags;

    if (!ks_ok(ks_view_take_u8(&rest, &flags)))
        return 0;
    api = (struct ks_api){.request_bytes_max = 1000, .rpc = ks_methods()};
    ks_view type = ks_view_cut(&rest, '\n');
    read_head(&api, flags, type, rest.data == NULL ? KS_VIEW("") : rest);
    return 0;
}
