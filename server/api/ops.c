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

static ks_err write_ready(struct ks_bytes *body, const struct ks_board_status *status, bool ready,
                          bool verbose)
{
    const char *reason = status->draining ? "draining" : status->reason;

    if (!verbose)
        return ready ? ks_bytes_append(body, KS_VIEW("ok\n"))
                     : ks_bytes_format(body, "%s\n", reason);
    KS_TRY(ks_bytes_format(body, "[+]api ok\n[%c]fleet %s\n", ready ? '+' : '-',
                           ready ? "ok" : reason));
    KS_TRY(ks_bytes_format(body, "leases held: %u, sessions: %u\n", status->self.leases_held,
                           status->self.sessions));
    return ready ? ks_bytes_append(body, KS_VIEW("readyz check passed\n"))
                 : ks_bytes_append(body, KS_VIEW("readyz check failed\n"));
}

static bool is_ready(struct ks_api *api, struct ks_board_status *status)
{
    ks_switchboard_status(api->board, status);
    if (status->ready)
        api->was_ready = true;
    return status->ready && !status->draining;
}

void ks_handle_readyz(struct ks_exchange *exchange)
{
    struct ks_board_status status;
    bool ready = is_ready(exchange->api, &status);
    struct ks_bytes body;
    ks_view ignored;
    bool verbose = ks_request_param(&exchange->request, "verbose", &ignored);

    ks_bytes_init(&body, 4096);
    reply_text(exchange, ready ? 200 : 503, &body, write_ready(&body, &status, ready, verbose));
}

void ks_handle_startupz(struct ks_exchange *exchange)
{
    struct ks_board_status status;
    struct ks_bytes body;
    bool ready = is_ready(exchange->api, &status) || exchange->api->was_ready || status.draining;
    ks_err err;

    ks_bytes_init(&body, 4096);
    err = ready ? ks_bytes_append(&body, KS_VIEW("ok\n"))
                : ks_bytes_format(&body, "%s\n", status.reason);
    reply_text(exchange, ready ? 200 : 503, &body, err);
}

void ks_handle_metrics(struct ks_exchange *exchange)
{
    struct ks_bytes body;

    ks_bytes_init(&body, 4 << 20);
    if (ks_ok(ks_metrics_render(&body)))
        ks_exchange_reply(exchange, 200, KS_METRICS_CONTENT_TYPE, &body);
    else
        ks_exchange_problem(exchange, KS_PROBLEM_EXHAUSTED, "out of memory");
    ks_bytes_free(&body);
}
