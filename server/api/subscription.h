/* SPDX-License-Identifier: Apache-2.0 */
/* subscription.h - what the API knows of one subscription, and which of them a request means.
 *
 * A request names it in the query or in the body, and need not while there is only one. Where a route allows it
 * (routes.def), nobody's name means all of them, or the one that the ids of the request carry.
 */
#ifndef KS_API_SUBSCRIPTION_H
#define KS_API_SUBSCRIPTION_H

#include "api/ack_id.h"
#include "api/exchange.h"
#include "ports/switchboard.h"

struct ks_subscription {
    const char *name; /* The board's. */
    struct ks_switchboard *board;
    struct ks_ack_key ack_key; /* One key for all, each with its number. */
    bool quiesced;             /* No new sessions. */
    struct ks_link pollers;    /* Sessions that long polls wait for: records.c. */
    struct ks_link streams;    /* Open streams: stream.c. */
};

void ks_subscription_init(struct ks_subscription *subscription, struct ks_switchboard *board,
                          const struct ks_ack_key *ack_key, uint8_t number);

/* Sets the exchange's subscription to the one of this name; an empty name changes nothing, unless there is only one.
 * False: the exchange was answered, 404 for a name that nothing has, 400 for another one than before. */
bool ks_subscription_choose(struct ks_exchange *exchange, ks_view name);
/* False, and answered with 400, if the exchange has none by now. */
bool ks_subscription_wanted(struct ks_exchange *exchange);

#endif
