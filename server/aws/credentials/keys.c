/* SPDX-License-Identifier: Apache-2.0 */
/* A key pair that is there already: the keys of a profile. */
#include "aws/credentials/provider.h"

#include "base/budget.h"

struct keys {
    struct ks_provider provider; /* First: it is our address. */
    struct ks_credentials kept;
};

static void fetch(struct ks_provider *provider)
{
    struct keys *self = (struct keys *)provider;

    provider->credentials = self->kept;
    ks_provider_answer(provider, KS_OK);
}

static void close(struct ks_provider *provider)
{
    struct keys *self = (struct keys *)provider;

    ks_provider_end(provider);
    ks_credentials_wipe(&self->kept);
    ks_free(self);
}

static const struct ks_provider_vtable VTABLE = {"keys", fetch, close, NULL};

ks_err ks_provider_keys_new(const struct ks_provider_setup *setup, const struct ks_plan *plan,
                            struct ks_provider **ret_provider)
{
    struct keys *self = ks_alloc(sizeof(*self));

    if (self == NULL)
        return KS_FAIL(NO_MEMORY);
    ks_provider_init(&self->provider, &VTABLE, setup->loop);
    ks_err err = ks_provider_set(&self->provider, plan->access_key, plan->secret_key, plan->token);
    if (!ks_ok(err)) {
        close(&self->provider);
        return err;
    }
    ks_provider_set_account(&self->provider, plan->account);
    self->kept = self->provider.credentials;
    *ret_provider = &self->provider;
    return KS_OK;
}
