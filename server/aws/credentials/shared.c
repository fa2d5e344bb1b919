/* SPDX-License-Identifier: Apache-2.0 */
/* What another source has, as the base of a role: the source keeps it fresh for all who share it.
 */
#include "aws/credentials/provider.h"

#include "base/budget.h"

struct shared {
    struct ks_provider provider; /* First: it is our address. */
    struct ks_credentials_source *source;
    struct ks_credentials_waiter waiter;
    bool waiting;
};

static void on_credentials(struct ks_credentials_waiter *waiter, ks_err err,
                           const struct ks_credentials *credentials, const struct ks_detail *detail)
{
    struct shared *self = KS_LIST_ENTRY(waiter, struct shared, waiter);

    self->waiting = false;
    self->provider.detail = *detail;
    if (ks_ok(err))
        self->provider.credentials = *credentials;
    ks_provider_answer(&self->provider, err);
}

static void fetch(struct ks_provider *provider)
{
    struct shared *self = (struct shared *)provider;

    self->waiting = true;
    self->waiter.done = on_credentials;
    ks_credentials_wait(self->source, &self->waiter);
}

static void close(struct ks_provider *provider)
{
    struct shared *self = (struct shared *)provider;

    if (self->waiting)
        ks_credentials_unwait(&self->waiter);
    ks_provider_end(provider);
    ks_free(self);
}

static void expired(struct ks_provider *provider, const char *access_key)
{
    ks_credentials_expired(((struct shared *)provider)->source, access_key);
}

static const struct ks_provider_vtable VTABLE = {"the shared credentials", fetch, close, expired};

ks_err ks_provider_shared_new(const struct ks_provider_setup *setup,
                              struct ks_credentials_source *source,
                              struct ks_provider **ret_provider)
{
    struct shared *self = ks_alloc(sizeof(*self));

    if (self == NULL)
        return KS_FAIL(NO_MEMORY);
    ks_provider_init(&self->provider, &VTABLE, setup->loop);
    self->source = source;
    *ret_provider = &self->provider;
    return KS_OK;
}
