/* SPDX-License-Identifier: Apache-2.0 */
#include "api/subscription.h"
#include "api/api.h"
#include "api/server.h"
#include "ks_test.h"
#include "unit/api/api_rig.h"

#include <stdio.h>
#include <string.h>

/* One stage behind an API that knows it under three names: what matters here is who is meant. */
static struct ks_api api;
static struct stage stage;
static struct ks_exchange exchange;

static void woken(struct ks_exchange *ignored)
{
    (void)ignored;
}

static const struct ks_transport transport = {.wake = woken, .consumed = NULL};

static void begin(uint32_t count)
{
    static const char *const names[] = {"orders", "clicks", "audit"};
    struct ks_ack_key key;

    stage_begin(&stage, "worker");
    api = (struct ks_api){.loop = stage.loop, .request_bytes_max = 1000};
    ks_ack_key_init(&key, 7, 0);
    for (uint32_t i = 0; i < count; i++) {
        ks_subscription_init(&api.subscriptions[i], stage.board, &key, (uint8_t)i);
        api.subscriptions[i].name = names[i];
    }
    api.subscription_count = count;
}

/* A new request that names `name`; which subscription it means by then, "" if none, NULL if it was answered. */
static const char *choose(const char *name)
{
    bool fine;

    ks_exchange_end(&exchange);
    ks_exchange_init(&exchange, &api, &transport);
    fine = ks_subscription_choose(&exchange, ks_view_text(name));
    EXPECT_EQ_I64(fine, !exchange.answered);
    if (!fine)
        return NULL;
    return exchange.subscription == NULL ? "" : exchange.subscription->name;
}

static const char *said(void)
{
    static char text[1000];
    const struct ks_bytes *body = &exchange.answer.body;

    (void)snprintf(text, sizeof(text), "%.*s", (int)body->size, (const char *)body->data);
    return text;
}

static void end(void)
{
    ks_exchange_end(&exchange);
    stage_vanish(&stage);
}

TEST(the_only_one_need_not_be_named)
{
    begin(1);
    EXPECT_STR(choose(""), "orders");
    EXPECT(ks_subscription_wanted(&exchange));
    EXPECT_STR(choose("orders"), "orders");
    EXPECT(choose("clicks") == NULL);
    EXPECT_EQ_U64(exchange.answer.status, 404);
    EXPECT_CONTAINS(said(), "known: orders");
    end();
}

TEST(of_several_one_must_be_named)
{
    begin(3);
    EXPECT_STR(choose("audit"), "audit");
    EXPECT_EQ_U64(exchange.subscription->ack_key.subscription, 2);
    EXPECT_STR(choose(""), "");
    EXPECT(!ks_subscription_wanted(&exchange));
    EXPECT_EQ_U64(exchange.answer.status, 400);
    EXPECT_CONTAINS(said(), "orders, clicks, audit");
    EXPECT(choose("order") == NULL);
    EXPECT_EQ_U64(exchange.answer.status, 404);
    end();
}

TEST(query_and_body_must_agree)
{
    begin(3);
    EXPECT_STR(choose("clicks"), "clicks");
    EXPECT(ks_subscription_choose(&exchange, KS_VIEW("clicks")));
    EXPECT(ks_subscription_choose(&exchange, KS_VIEW("")));
    EXPECT(!ks_subscription_choose(&exchange, KS_VIEW("orders")));
    EXPECT_EQ_U64(exchange.answer.status, 400);
    end();
}

TEST(names_that_do_not_fit_are_left_out)
{
    static char names[3][KS_SUBSCRIPTION_NAME_MAX + 1];

    begin(3);
    for (uint32_t i = 0; i < 3; i++) {
        memset(names[i], (int)('a' + i), KS_SUBSCRIPTION_NAME_MAX);
        api.subscriptions[i].name = names[i];
    }
    EXPECT_STR(choose(""), "");
    EXPECT(!ks_subscription_wanted(&exchange));
    EXPECT_CONTAINS(said(), "aaa, ..");
    end();
}
