/* SPDX-License-Identifier: Apache-2.0 */
#include "api/api.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "api/doors.h"
#include "api/events.h"
#include "api/http1.h"
#include "api/http2.h"
#include "api/methods.h"
#include "api/replay.h"
#include "api/server.h"
#include "base/budget.h"

void ks_api_boot_text(uint64_t boot, char buffer[KS_BOOT_ID_SIZE])
{
    int size = snprintf(buffer, KS_BOOT_ID_SIZE, "%016" PRIx64, boot);

    assert(size == KS_BOOT_ID_SIZE - 1);
}

void ks_api_refuse(struct ks_exchange *exchange, ks_err err, const struct ks_detail *detail)
{
    const char *text = detail->text[0] == '\0' ? ks_err_text(err) : detail->text;

    if (ks_err_is(err, KS_ERR_BUSY))
        ks_exchange_problem(exchange, KS_PROBLEM_UNAVAILABLE, "%s", text);
    else if (ks_err_is(err, KS_ERR_INVALID))
        ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT, "%s", text);
    else if (ks_err_is(err, KS_ERR_CONDITION))
        ks_exchange_problem(exchange, KS_PROBLEM_ORDERING, "%s", text);
    else if (ks_err_is(err, KS_ERR_NOT_FOUND))
        ks_exchange_problem(exchange, KS_PROBLEM_NOT_FOUND, "%s", text);
    else
        ks_exchange_problem(exchange, KS_PROBLEM_EXHAUSTED, "%s", text);
}

bool ks_api_find_shard(struct ks_exchange *exchange, ks_view id, ks_shard *ret_shard)
{
    struct ks_switchboard *board = exchange->subscription->board;
    struct ks_detail detail = {.text = ""};
    struct ks_shard_status status;
    ks_err err = ks_switchboard_need_shard(board, id, ret_shard, &detail);

    /* The name of a parent that is gone is no shard. */
    if (ks_ok(err) && !ks_switchboard_shard(board, *ret_shard, &status)) {
        ks_detail_set(&detail, "there is no shard %.*s", (int)id.size, (const char *)id.data);
        err = KS_FAIL(NOT_FOUND);
    }
    if (!ks_ok(err))
        ks_api_refuse(exchange, err, &detail);
    return ks_ok(err);
}

static ks_err begin(struct ks_api *api, const struct ks_api_config *config,
                    struct ks_detail *detail)
{
    struct ks_doors_config doors = {
        .loop = config->loop,
        .listen = config->listen,
        .listen_is_default = config->listen_is_default,
        .ops_listen = config->ops_listen == NULL ? "" : config->ops_listen,
        .connections_max = config->connections_max,
        .accounts = &api->accounts,
        .ops_accounts = &api->ops_accounts,
    };

    KS_TRY(ks_guard_new(config->loop, config->allow_hosts, config->token_file,
                        config->operator_token_file, &api->guard, detail));
    KS_TRY(ks_loop_queue_new(config->loop, &api->decoder));
    KS_TRY(ks_http1_new(api, config->loop, &api->http1));
    KS_TRY(ks_http2_new(api, config->loop, &api->http2));
    doors.http1 = api->http1;
    doors.http2 = api->http2;
    return ks_doors_new(&doors, &api->doors, detail);
}

ks_err ks_api_open(const struct ks_api_config *config, struct ks_api **ret_api,
                   struct ks_detail *detail)
{
    struct ks_api *api = ks_alloc(sizeof(*api));
    struct ks_board_status status;
    struct ks_ack_key ack_key;
    ks_err err;

    assert(config->request_bytes_max > 0);
    assert(config->board_count > 0 && config->board_count <= KS_SUBSCRIPTIONS_MAX);
    if (api == NULL)
        return KS_FAIL(NO_MEMORY);
    ks_switchboard_status(config->boards[0], &status);
    api->loop = config->loop;
    api->options = config->options;
    api->request_bytes_max = config->request_bytes_max;
    api->drain_patience = config->drain_patience;
    api->quit = config->quit;
    api->quit_arg = config->quit_arg;
    /* One process, one boot: that of the first. */
    ks_api_boot_text(status.boot, api->boot_id);
    ks_ack_key_init(&ack_key, status.boot, 0);
    for (uint32_t i = 0; i < config->board_count; i++)
        ks_subscription_init(&api->subscriptions[i], config->boards[i], &ack_key, (uint8_t)i);
    api->subscription_count = config->board_count;
    api->rpc = ks_methods();
    api->find_more = ks_rpc_find;
    ks_link_init(&api->viewers);
    ks_link_init(&api->replays);
    ks_accounts_begin(&api->accounts, config->loop, config->memory, false);
    ks_accounts_begin(&api->ops_accounts, config->loop, config->memory, true);
    err = begin(api, config, detail);
    if (!ks_ok(err)) {
        ks_api_close(api);
        return err;
    }
    *ret_api = api;
    return KS_OK;
}

void ks_api_close(struct ks_api *api)
{
    if (api == NULL)
        return;
    /* What is under way ends first: it counts itself out at the doors. */
    ks_http1_free(api->http1);
    ks_http2_free(api->http2);
    ks_doors_free(api->doors);
    ks_guard_free(api->guard);
    ks_loop_queue_close(api->decoder);
    for (uint32_t i = 0; i < api->subscription_count; i++) {
        assert(ks_list_empty(&api->subscriptions[i].streams));
        assert(ks_list_empty(&api->subscriptions[i].pollers));
    }
    ks_accounts_end(&api->accounts);
    ks_accounts_end(&api->ops_accounts);
    assert(ks_list_empty(&api->viewers));
    assert(api->peeks == 0);
    ks_replays_free(api);
    ks_bytes_free(&api->openapi);
    ks_free(api);
}

bool ks_api_wants_all_headers(const struct ks_api *api)
{
    return api->rpc != NULL && api->rpc->all_headers;
}

void ks_api_quiesce(struct ks_api *api)
{
    for (uint32_t i = 0; i < api->subscription_count; i++)
        api->subscriptions[i].quiesced = true;
}

void ks_api_change(struct ks_api *api, size_t request_bytes_max, ks_span drain_patience)
{
    api->request_bytes_max = request_bytes_max;
    api->drain_patience = drain_patience;
}

void ks_api_finish(struct ks_api *api)
{
    api->ending = true;
    ks_events_finish(api);
    ks_http2_finish(api->http2);
    ks_replays_finish(api);
}

bool ks_api_busy(const struct ks_api *api)
{
    return ks_http1_busy(api->http1) || ks_http2_busy(api->http2);
}
