/* SPDX-License-Identifier: Apache-2.0 */
/* The ops port: probes and metrics. It shows no data and changes nothing, so anybody may ask. */
#include "api/routes.h"
#include "api/server.h"
#include "base/metrics.h"

#define TYPE_TEXT "text/plain; charset=utf-8"

static void reply_text(struct ks_exchange *exchange, uint16_t status, struct ks_bytes *body,
                       ks_err err)
{
    if (ks_ok(err))
        ks_exchange_reply(exchange, status, TYPE_TEXT, body);
    else
        ks_exchange_problem(exchange, KS_PROBLEM_EXHAUSTED, "out of memory");
    ks_bytes_free(body);
}

/* Whoever answers turns the loop. Nothing outside of the process is asked: a restart would not heal
 * it. */
void ks_handle_livez(struct ks_exchange *exchange)
{
    struct ks_bytes body;

    ks_bytes_init(&body, 64);
    reply_text(exchange, 200, &body, ks_bytes_append(&body, KS_VIEW("ok\n")));
}

const struct ks_subscription *ks_api_find_unready(struct ks_api *api, const char **ret_reason)
{
    struct ks_board_status status;
    const struct ks_subscription *found = NULL;
    bool were_ready = true;

    for (uint32_t i = 0; i < api->subscription_count; i++) {
        ks_switchboard_status(api->subscriptions[i].board, &status);
        were_ready = were_ready && (status.ready || status.draining);
        if ((status.ready && !status.draining) || found != NULL)
            continue;
        found = &api->subscriptions[i];
        *ret_reason = status.reason;
    }
    if (were_ready)
        api->was_ready = true;
    return found;
}

/* With several, a reason says whose it is. */
static ks_err write_reason(struct ks_bytes *body, const struct ks_api *api,
                           const struct ks_subscription *subscription, const char *reason)
{
    if (api->subscription_count > 1)
        KS_TRY(ks_bytes_format(body, "%s: ", subscription->name));
    return ks_bytes_append(body, ks_view_text(reason));
}

static ks_err write_verbose(struct ks_bytes *body, const struct ks_api *api, bool ready)
{
    struct ks_board_status status;
    uint32_t leases = 0;
    uint32_t sessions = 0;

    KS_TRY(ks_bytes_append(body, KS_VIEW("[+]api ok\n")));
    for (uint32_t i = 0; i < api->subscription_count; i++) {
        const struct ks_subscription *subscription = &api->subscriptions[i];
        const char *reason;
        ks_switchboard_status(subscription->board, &status);
        reason = status.ready ? "ok" : status.reason;
        KS_TRY(ks_bytes_format(body, "[%c]fleet ", status.ready && !status.draining ? '+' : '-'));
        KS_TRY(write_reason(body, api, subscription, reason));
        KS_TRY(ks_bytes_append(body, KS_VIEW("\n")));
        leases += status.self.leases_held;
        sessions += status.self.sessions;
    }
    KS_TRY(ks_bytes_format(body, "leases held: %u, sessions: %u\n", leases, sessions));
    return ready ? ks_bytes_append(body, KS_VIEW("readyz check passed\n"))
                 : ks_bytes_append(body, KS_VIEW("readyz check failed\n"));
}

static ks_err write_short(struct ks_bytes *body, const struct ks_api *api,
                          const struct ks_subscription *unready, const char *reason)
{
    if (unready == NULL)
        return ks_bytes_append(body, KS_VIEW("ok\n"));
    KS_TRY(write_reason(body, api, unready, reason));
    return ks_bytes_append(body, KS_VIEW("\n"));
}

void ks_handle_readyz(struct ks_exchange *exchange)
{
    const char *reason = "";
    const struct ks_subscription *unready = ks_api_find_unready(exchange->api, &reason);
    struct ks_bytes body;
    ks_view ignored;
    bool verbose = ks_request_param(&exchange->request, "verbose", &ignored);

    ks_bytes_init(&body, 64 << 10);
    reply_text(exchange, unready == NULL ? 200 : 503, &body,
               verbose ? write_verbose(&body, exchange->api, unready == NULL)
                       : write_short(&body, exchange->api, unready, reason));
}

void ks_handle_startupz(struct ks_exchange *exchange)
{
    const char *reason = "";
    const struct ks_subscription *unready = ks_api_find_unready(exchange->api, &reason);
    struct ks_bytes body;

    if (exchange->api->was_ready)
        unready = NULL;
    ks_bytes_init(&body, 4096);
    reply_text(exchange, unready == NULL ? 200 : 503, &body,
               write_short(&body, exchange->api, unready, reason));
}

void ks_handle_metrics(struct ks_exchange *exchange)
{
    struct ks_bytes body;

    ks_accounts_tell(&exchange->api->accounts);
    ks_accounts_tell(&exchange->api->ops_accounts);
    ks_bytes_init(&body, 16 << 20);
    if (ks_ok(ks_metrics_render(&body)))
        ks_exchange_reply(exchange, 200, KS_METRICS_CONTENT_TYPE, &body);
    else
        ks_exchange_problem(exchange, KS_PROBLEM_EXHAUSTED, "out of memory");
    ks_bytes_free(&body);
}
