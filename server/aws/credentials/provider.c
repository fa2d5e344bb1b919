/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/credentials/provider.h"

#include "aws/head.h"
#include "base/codec.h"

#include <assert.h>
#include <stdlib.h>

static void on_due(struct ks_timer *timer)
{
    struct ks_provider *provider = KS_LIST_ENTRY(timer, struct ks_provider, timer);

    provider->fetched(provider->arg, provider);
    /* The one who was told may not close it, so that it is still there. */
    ks_credentials_wipe(&provider->credentials);
    provider->detail = (struct ks_detail){.text = ""};
}

void ks_provider_init(struct ks_provider *provider, const struct ks_provider_vtable *vtable,
                      struct ks_loop *loop)
{
    provider->vtable = vtable;
    provider->loop = loop;
    provider->timer.due = on_due;
}

void ks_provider_end(struct ks_provider *provider)
{
    ks_loop_timer_clear(provider->loop, &provider->timer);
    ks_credentials_wipe(&provider->credentials);
}

void ks_provider_answer(struct ks_provider *provider, ks_err err)
{
    assert(provider->timer.place == 0);

    provider->err = err;
    ks_loop_timer_set(provider->loop, &provider->timer, ks_loop_now(provider->loop));
}

const char *ks_provider_variable(const char *name)
{
    const char *value = getenv(name);

    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* They go into headers and, as bytes, into a MAC. */
static bool is_printable(ks_view text)
{
    for (size_t at = 0; at < text.size; at++) {
        if (text.data[at] <= ' ' || text.data[at] >= 0x7f)
            return false;
    }
    return true;
}

ks_err ks_provider_set(struct ks_provider *provider, ks_view access_key, ks_view secret_key,
                       ks_view token)
{
    struct ks_credentials *credentials = &provider->credentials;

    if (access_key.size == 0 || secret_key.size == 0 || !is_printable(access_key) ||
        !is_printable(secret_key) || !is_printable(token))
        return KS_FAIL(INVALID);
    if (!ks_ok(ks_view_copy_text(access_key, credentials->access_key,
                                 sizeof(credentials->access_key))) ||
        !ks_ok(ks_view_copy_text(secret_key, credentials->secret_key,
                                 sizeof(credentials->secret_key))) ||
        !ks_ok(ks_view_copy_text(token, credentials->token, sizeof(credentials->token))))
        return KS_FAIL(INVALID);
    credentials->account[0] = '\0';
    credentials->expires = false;
    return KS_OK;
}

void ks_provider_set_account(struct ks_provider *provider, ks_view account)
{
    char *to = provider->credentials.account;

    if (!ks_account_is_valid(account) || !ks_ok(ks_view_copy_text(account, to, KS_ACCOUNT_SIZE)))
        to[0] = '\0';
}

ks_err ks_provider_set_expiration(struct ks_provider *provider, ks_view expiration, ks_view head)
{
    int64_t now_ms = ks_wall_now().ms;
    int64_t end_ms = 0;

    KS_TRY(ks_timestamp_parse(expiration, &end_ms));
    /* By the clock of who gave them, if it is told: ours may be wrong. */
    if (!ks_ok(ks_head_date(ks_head_find(head, "Date"), &now_ms)))
        now_ms = ks_wall_now().ms;
    provider->credentials.expires = true;
    provider->credentials.life = ks_span_ms(end_ms - now_ms);
    return KS_OK;
}
