/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/credentials/provider.h"

#include "base/budget.h"
#include "base/log.h"

#include <assert.h>

struct chain {
    struct ks_provider provider; /* First: it is our address. */
    struct ks_provider *list[KS_CHAIN_MAX];
    uint32_t count;
    uint32_t asked;
    bool chosen; /* list[asked] had credentials. */
};

static void on_fetched(void *arg, struct ks_provider *asked)
{
    struct chain *chain = arg;
    bool absent = ks_err_is(asked->err, KS_ERR_NO_CREDENTIALS) && !chain->chosen;

    if (absent && chain->asked + 1 < chain->count) {
        chain->asked++;
        chain->list[chain->asked]->vtable->fetch(chain->list[chain->asked]);
        return;
    }
    if (ks_ok(asked->err) && !chain->chosen)
        ks_info("credentials: taken from %s%s%s", asked->vtable->name,
                asked->detail.text[0] == '\0' ? "" : ": ", asked->detail.text);
    chain->chosen = chain->chosen || ks_ok(asked->err);
    chain->provider.credentials = asked->credentials;
    chain->provider.detail = asked->detail;
    if (absent)
        ks_detail_set(
            &chain->provider.detail,
            "no AWS credentials: neither the environment, a profile, web identity, a container "
            "endpoint nor an instance role gives them");
    else if (!ks_ok(asked->err) && !chain->chosen && chain->asked > 0)
        ks_detail_set(&chain->provider.detail,
                      "%s; and nothing asked before gave credentials (environment, profile, web "
                      "identity, container endpoint, as far as they are set)",
                      asked->detail.text);
    ks_provider_answer(&chain->provider, asked->err);
}

static void fetch(struct ks_provider *provider)
{
    struct chain *chain = (struct chain *)provider;

    chain->asked = chain->chosen ? chain->asked : 0;
    chain->list[chain->asked]->vtable->fetch(chain->list[chain->asked]);
}

static void close(struct ks_provider *provider)
{
    struct chain *chain = (struct chain *)provider;

    for (uint32_t at = 0; at < chain->count; at++)
        chain->list[at]->vtable->close(chain->list[at]);
    ks_provider_end(provider);
    ks_free(chain);
}

static const struct ks_provider_vtable VTABLE = {"the chain", fetch, close, NULL};

ks_err ks_provider_chain_new(struct ks_loop *loop, struct ks_provider *const *providers,
                             uint32_t count, struct ks_provider **ret_provider)
{
    struct chain *chain = ks_alloc(sizeof(*chain));

    assert(count > 0 && count <= KS_CHAIN_MAX);
    if (chain == NULL) {
        for (uint32_t at = 0; at < count; at++)
            providers[at]->vtable->close(providers[at]);
        return KS_FAIL(NO_MEMORY);
    }
    ks_provider_init(&chain->provider, &VTABLE, loop);
    for (uint32_t at = 0; at < count; at++) {
        chain->list[at] = providers[at];
        chain->list[at]->fetched = on_fetched;
        chain->list[at]->arg = chain;
    }
    chain->count = count;
    *ret_provider = &chain->provider;
    return KS_OK;
}
