/* SPDX-License-Identifier: Apache-2.0 */
/* api.h - the door for apps and people: listens, and answers HTTP.
 *
 * Loop thread only; nothing blocks. One API serves all the switchboards of the process. The local API and the ops port
 * are two sets of addresses with their own routes; the ops port changes nothing and shows no data.
 */
#ifndef KS_API_API_H
#define KS_API_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/instant.h"
#include "base/loop.h"
#include "ports/switchboard.h"

struct ks_api;
struct ks_options;

struct ks_api_config {
    struct ks_loop *loop;
    struct ks_switchboard *const *boards; /* They outlive the API. */
    uint32_t board_count;                 /* 1 to KS_SUBSCRIPTIONS_MAX. */
    /* Comma list of HOST:PORT, [HOST]:PORT, unix:PATH. Numeric hosts and localhost. */
    const char *listen;
    bool listen_is_default; /* Then an IPv6 address that cannot be bound is only a log line. */
    const char *ops_listen; /* Likewise; "" for no ops port. */
    /* Comma list of host names that a Host header may name; "" or NULL: none more. */
    const char *allow_hosts;
    const char *token_file; /* Bearer token; "" or NULL: none asked for. */
    const char
        *operator_token_file; /* Likewise, of what operators order; none: the one above serves. */
    uint32_t connections_max; /* Over all addresses. */
    size_t request_bytes_max; /* Body of a request, but for POST /v1/local/records. */
    size_t memory; /* The payload budget: what is held for clients is bounded by a part of it. */
    ks_span drain_patience; /* For POST /v1/drain. */
    /* For POST /v1/quit: drains everything, and ends the process then. It may be called again. NULL: a
     * house in which nobody asks for that. */
    void (*quit)(void *arg);
    void *quit_arg;
    const struct ks_options *options; /* For GET /v1/config; outlives the API. */
};

/* Binds, listens, and hooks into the loop. The strings are copied. INVALID (an address), EXISTS (an
 * address is in use), SYSTEM, DISK (the token file), NO_MEMORY; the detail names the address and
 * what to do. */
KS_MUST_USE ks_err ks_api_open(const struct ks_api_config *config, struct ks_api **ret_api,
                               struct ks_detail *detail);
/* Ends every answer that is under way, closes every connection, frees. NULL is allowed. Before the
 * switchboards are freed. */
void ks_api_close(struct ks_api *api);

/* From now on new sessions are answered 503 with Retry-After. Everything else goes on. */
void ks_api_quiesce(struct ks_api *api);
/* These may change while it runs; from the next request on. */
void ks_api_change(struct ks_api *api, size_t request_bytes_max, ks_span drain_patience);
/* The process is about to end: answers that go on for ever (GET /v1/events) come to their end. */
void ks_api_finish(struct ks_api *api);
/* True while an answer is not yet out: whoever stops the process turns the loop a little longer. */
bool ks_api_busy(const struct ks_api *api);

#endif
