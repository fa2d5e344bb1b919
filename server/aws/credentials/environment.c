/* SPDX-License-Identifier: Apache-2.0 */
/* AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN (once AWS_SECURITY_TOKEN),
 * AWS_CREDENTIAL_EXPIRATION, AWS_ACCOUNT_ID. */
#include "aws/credentials/provider.h"

#include "base/budget.h"

static ks_view variable(const char *name)
{
    const char *value = ks_provider_variable(name);

    return value == NULL ? KS_VIEW_NONE : ks_view_trim(ks_view_text(value));
}

static ks_err read_variables(struct ks_provider *provider)
{
    ks_view access_key = variable("AWS_ACCESS_KEY_ID");
    ks_view secret_key = variable("AWS_SECRET_ACCESS_KEY");
    ks_view token = variable("AWS_SESSION_TOKEN");
    ks_view expiration = variable("AWS_CREDENTIAL_EXPIRATION");

    if (access_key.size == 0)
        return KS_FAIL(NO_CREDENTIALS);
    if (token.size == 0)
        token = variable("AWS_SECURITY_TOKEN");
    if (!ks_ok(ks_provider_set(provider, access_key, secret_key, token))) {
        ks_detail_set(
            &provider->detail,
            "AWS_ACCESS_KEY_ID is set, but AWS_SECRET_ACCESS_KEY is missing or one of the AWS_ "
            "variables is malformed");
        return KS_FAIL(INVALID);
    }
    ks_provider_set_account(provider, variable("AWS_ACCOUNT_ID"));
    if (expiration.size > 0 &&
        !ks_ok(ks_provider_set_expiration(provider, expiration, KS_VIEW_NONE))) {
        ks_detail_set(&provider->detail, "AWS_CREDENTIAL_EXPIRATION is no timestamp");
        return KS_FAIL(INVALID);
    }
    return KS_OK;
}

static void fetch(struct ks_provider *provider)
{
    ks_provider_answer(provider, read_variables(provider));
}

static void close(struct ks_provider *provider)
{
    ks_provider_end(provider);
    ks_free(provider);
}

static const struct ks_provider_vtable VTABLE = {"the environment", fetch, close, NULL};

ks_err ks_provider_environment_new(const struct ks_provider_setup *setup,
                                   struct ks_provider **ret_provider)
{
    struct ks_provider *provider = ks_alloc(sizeof(*provider));

    if (provider == NULL)
        return KS_FAIL(NO_MEMORY);
    ks_provider_init(provider, &VTABLE, setup->loop);
    *ret_provider = provider;
    return KS_OK;
}
