/* SPDX-License-Identifier: Apache-2.0 */
/* server.h - the inside of the API: what its handlers share. Private to server/api. */
#ifndef KS_API_SERVER_H
#define KS_API_SERVER_H

#include "api/account.h"
#include "api/api.h"
#include "api/exchange.h"
#include "api/guard.h"
#include "api/subscription.h"
#include "base/limits.h"

struct ks_doors;
struct ks_http1;
struct ks_http2;

enum { KS_BOOT_ID_SIZE = 17 };

struct ks_api {
    struct ks_loop *loop;
    struct ks_subscription subscriptions[KS_SUBSCRIPTIONS_MAX];
    uint32_t subscription_count; /* At least 1. */
    const struct ks_options *options;
    struct ks_guard *guard;
    struct ks_http1 *http1;
    struct ks_http2 *http2;
    struct ks_doors *doors;
    char boot_id[KS_BOOT_ID_SIZE]; /* 16 lower-case hex digits. */
    /* Asked for a path that the table does not have (an RPC): its route; or NULL, and it may have
     * answered. NULL: there is nothing more. */
    const struct ks_route *(*find_more)(struct ks_exchange *exchange);
    const struct ks_rpc_service *rpc; /* The methods that are served. */
    size_t request_bytes_max;
    struct ks_job_queue *decoder;    /* Long messages are read there. */
    struct ks_accounts accounts;     /* What clients cost. */
    struct ks_accounts ops_accounts; /* The same of the ops addresses. */
    ks_span drain_patience;
    void (*quit)(void *arg); /* Drains everything, and ends the process then. */
    void *quit_arg;
    bool was_ready;          /* /readyz was 200 once. */
    struct ks_link viewers;  /* Of GET /v1/events: events.c. */
    struct ks_bytes openapi; /* The document, once somebody asked for it. */
    uint32_t peeks;          /* Under way: peek.c. */
    uint32_t questions;      /* Of streams, that wait: questions.c. */
    struct ks_link replays;  /* replay.c */
    uint32_t replay_count;
    bool ending; /* No answer goes on for ever any more. */
};

/* Whether handlers look at header lines that head.c does not know. */
bool ks_api_wants_all_headers(const struct ks_api *api);
/* The first subscription that is not ready, and why; NULL if all are. */
const struct ks_subscription *ks_api_find_unready(struct ks_api *api, const char **ret_reason);
/* Answers for an error of opening a session, or of a shard that is needed for something. */
void ks_api_refuse(struct ks_exchange *exchange, ks_err err, const struct ks_detail *detail);
/* A shard that a request names. False, and answered, if it is not known: 404, or 503 while nobody has looked. */
bool ks_api_find_shard(struct ks_exchange *exchange, ks_view id, ks_shard *ret_shard);
/* A boot id as text. */
void ks_api_boot_text(uint64_t boot, char buffer[KS_BOOT_ID_SIZE]);

#endif
