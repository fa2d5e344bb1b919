/* SPDX-License-Identifier: Apache-2.0 */
#include "api/subscription.h"

#include "api/server.h"

#include <stdio.h>

/* So many names as a sentence can hold. */
enum { NAMES_SIZE = 400 };

void ks_subscription_init(struct ks_subscription *subscription, struct ks_switchboard *board,
                          const struct ks_ack_key *ack_key, uint8_t number)
{
    struct ks_board_status status;

    ks_switchboard_status(board, &status);
    *subscription =
        (struct ks_subscription){.name = status.subscription, .board = board, .ack_key = *ack_key};
    subscription->ack_key.subscription = number;
    ks_link_init(&subscription->pollers);
    ks_link_init(&subscription->streams);
}

static void list_names(const struct ks_api *api, char text[NAMES_SIZE])
{
    size_t used = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < api->subscription_count; i++) {
        const char *name = api->subscriptions[i].name;
        const char *comma = i == 0 ? "" : ", ";
        if (used + strlen(comma) + strlen(name) + sizeof(", ..") > NAMES_SIZE) {
            memcpy(text + used, ", ..", sizeof(", .."));
            return;
        }
        used += (size_t)snprintf(text + used, NAMES_SIZE - used, "%s%s", comma, name);
    }
}

bool ks_subscription_choose(struct ks_exchange *exchange, ks_view name)
{
    struct ks_api *api = exchange->api;
    char names[NAMES_SIZE];

    if (name.size == 0 && api->subscription_count == 1)
        exchange->subscription = &api->subscriptions[0];
    if (name.size == 0)
        return true;
    for (uint32_t i = 0; i < api->subscription_count; i++) {
        struct ks_subscription *subscription = &api->subscriptions[i];
        if (!ks_view_equal(name, ks_view_text(subscription->name)))
            continue;
        if (exchange->subscription != NULL && exchange->subscription != subscription) {
            ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT,
                                "query and body name two subscriptions");
            return false;
        }
        exchange->subscription = subscription;
        return true;
    }
    list_names(api, names);
    ks_exchange_problem(exchange, KS_PROBLEM_NOT_FOUND, "no such subscription; known: %s", names);
    return false;
}

bool ks_subscription_wanted(struct ks_exchange *exchange)
{
    char names[NAMES_SIZE];

    if (exchange->subscription != NULL)
        return true;
    list_names(exchange->api, names);
    ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT, "subscription= must name one of: %s",
                        names);
    return false;
}
