/* SPDX-License-Identifier: Apache-2.0 */
/* What the profile says, done: the files are read at each fetch, a plan is made of them, and
 * providers of the plan. */
#include "aws/credentials/plan.h"
#include "aws/credentials/provider.h"
#include "base/budget.h"

#include <assert.h>

struct profile_provider {
    struct ks_provider provider; /* First: it is our address. */
    struct ks_provider_setup setup;
    struct ks_profiles profiles;
    struct ks_provider *inner; /* The last role of the plan, or its base; NULL: none was made. */
    struct ks_detail story;
};

/* --- From the plan to providers --- */

static ks_err build_base(const struct profile_provider *self, const struct ks_plan *plan,
                         struct ks_provider **ret_base)
{
    const struct ks_provider_setup *setup = &self->setup;

    switch (plan->base) {
    case KS_PLAN_NOTHING: return KS_FAIL(NO_CREDENTIALS);
    case KS_PLAN_KEYS: return ks_provider_keys_new(setup, plan, ret_base);
    case KS_PLAN_PROCESS: return ks_provider_process_new(setup, plan->process, ret_base);
    case KS_PLAN_WEB_IDENTITY:
        return ks_provider_web_identity_new(setup, plan->token_file, &plan->web_role, ret_base);
    case KS_PLAN_ENVIRONMENT: return ks_provider_environment_new(setup, ret_base);
    case KS_PLAN_CONTAINER: return ks_provider_container_new(setup, ret_base);
    case KS_PLAN_INSTANCE: return ks_provider_imds_new(setup, ret_base);
    }
    assert(false);
    return KS_FAIL(INVALID);
}

static const char *name_of(enum ks_plan_base base)
{
    static const char *const NAMES[] = {
        [KS_PLAN_NOTHING] = "nothing",
        [KS_PLAN_KEYS] = "its keys",
        [KS_PLAN_PROCESS] = "credential_process",
        [KS_PLAN_WEB_IDENTITY] = "web identity",
        [KS_PLAN_ENVIRONMENT] = "the environment",
        [KS_PLAN_CONTAINER] = "the container endpoint",
        [KS_PLAN_INSTANCE] = "the instance role",
    };

    return NAMES[base];
}

static void tell_plan(struct profile_provider *self, const struct ks_plan *plan)
{
    const struct ks_role *last = plan->role_count > 0 ? &plan->roles[plan->role_count - 1] : NULL;

    if (plan->base == KS_PLAN_WEB_IDENTITY && last == NULL)
        last = &plan->web_role;
    ks_detail_set(&self->story, "%s%s%.*s", name_of(plan->base), last == NULL ? "" : ", ",
                  last == NULL ? 0 : (int)last->arn.size,
                  last == NULL ? "" : (const char *)last->arn.data);
}

static ks_err build(struct profile_provider *self, const struct ks_plan *plan)
{
    struct ks_detail *detail = &self->provider.detail;
    struct ks_provider *provider = NULL;
    ks_err err = build_base(self, plan, &provider);

    for (uint32_t at = 0; ks_ok(err) && at < plan->role_count; at++)
        err = ks_provider_assume_role_new(&self->setup, provider, &plan->roles[at], &provider);
    if (ks_ok(err)) {
        self->inner = provider;
        tell_plan(self, plan);
    } else if (ks_err_is(err, KS_ERR_INVALID)) {
        ks_detail_set(detail, "profile %s: %s, or a role, is malformed or too long",
                      self->setup.profile, name_of(plan->base));
    }
    return err;
}

/* --- Fetching --- */

static void on_inner(void *arg, struct ks_provider *inner)
{
    struct profile_provider *self = arg;
    ks_err err = inner->err;

    self->provider.credentials = inner->credentials;
    self->provider.detail = ks_ok(err) ? self->story : inner->detail;
    /* Somebody set this up: the next place is no answer to it. */
    if (ks_err_is(err, KS_ERR_NO_CREDENTIALS)) {
        ks_detail_set(&self->provider.detail, "profile %s: %s gives no credentials",
                      self->setup.profile, self->story.text);
        err = KS_FAIL(INVALID);
    }
    ks_provider_answer(&self->provider, err);
}

static ks_err make_inner(struct profile_provider *self)
{
    struct ks_plan_question question = {.profile = self->setup.profile,
                                        .named = self->setup.profile_named};
    struct ks_plan plan;

    for (size_t at = 0; at < KS_PROFILE_FILES; at++)
        question.text[at] = ks_bytes_view(&self->profiles.text[at]);
    if (!self->setup.profile_only) {
        question.token_file = ks_provider_variable("AWS_WEB_IDENTITY_TOKEN_FILE");
        question.role_arn = ks_provider_variable("AWS_ROLE_ARN");
        question.session_name = ks_provider_variable("AWS_ROLE_SESSION_NAME");
    }
    KS_TRY(ks_plan_make(&question, &plan, &self->provider.detail));
    return build(self, &plan);
}

static void drop_inner(struct profile_provider *self)
{
    if (self->inner != NULL)
        self->inner->vtable->close(self->inner);
    self->inner = NULL;
}

static void on_profiles(struct ks_profiles *profiles, ks_err err, const struct ks_detail *detail)
{
    struct profile_provider *self = KS_LIST_ENTRY(profiles, struct profile_provider, profiles);

    if (ks_ok(err))
        err = make_inner(self);
    else
        self->provider.detail = *detail;
    ks_profiles_drop(profiles);
    if (!ks_ok(err)) {
        ks_provider_answer(&self->provider, err);
        return;
    }
    self->inner->fetched = on_inner;
    self->inner->arg = self;
    self->inner->vtable->fetch(self->inner);
}

static void fetch(struct ks_provider *provider)
{
    struct profile_provider *self = (struct profile_provider *)provider;

    drop_inner(self);
    ks_profiles_read(&self->profiles);
}

static void close(struct ks_provider *provider)
{
    struct profile_provider *self = (struct profile_provider *)provider;

    drop_inner(self);
    ks_profiles_drop(&self->profiles);
    ks_provider_end(provider);
    ks_free(self);
}

static const struct ks_provider_vtable VTABLE = {"the profile", fetch, close, NULL};

ks_err ks_provider_profile_new(const struct ks_provider_setup *setup,
                               struct ks_provider **ret_provider)
{
    struct profile_provider *self = ks_alloc(sizeof(*self));

    if (self == NULL)
        return KS_FAIL(NO_MEMORY);
    ks_provider_init(&self->provider, &VTABLE, setup->loop);
    self->setup = *setup;
    ks_profiles_init(&self->profiles, setup->loop);
    self->profiles.done = on_profiles;
    *ret_provider = &self->provider;
    return KS_OK;
}
