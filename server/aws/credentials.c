/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/credentials.h"

#include "aws/credentials/provider.h"
#include "aws/profile.h"
#include "base/budget.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/prng.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* Before their end: see credentials.h. */
enum { REFRESH_MS = 15 * 60 * 1000, JITTER_MS = 60 * 1000 };
/* After a failed fetch: doubled from one to the other. */
enum { AGAIN_FIRST_MS = 1000, AGAIN_MOST_MS = 60 * 1000 };
/* When those that came have expired, but may be used still. */
enum { STRETCH_LEAST_MS = 12 * 60 * 1000, STRETCH_MOST_MS = 20 * 60 * 1000 };
/* Credentials this young are not dropped because AWS does not take them: new ones would be the
 * same. */
enum { YOUNG_MS = 5000 };

struct ks_credentials_source {
    struct ks_loop *loop;
    struct ks_endpoint_rules sts;
    const char *service;
    char role[KS_METRIC_SECOND_SIZE]; /* In the metrics. */
    char profile[KS_PROFILE_NAME_MAX + 1];
    struct ks_prng prng;
    struct ks_provider *provider;
    struct ks_timer kick; /* Answers those who wait, in a later turn. */
    struct ks_link waiters;
    bool fetching;

    struct ks_credentials current;
    bool present;
    char last[KS_ACCESS_KEY_MAX + 1]; /* Of those that came last. */
    bool refused;                     /* AWS did not take them. */
    bool stuck;                       /* And they came again, which was told. */
    ks_instant fetched_at;
    ks_instant refresh_at;
    ks_instant expires_at;

    /* Of the last fetch. */
    ks_err err;
    struct ks_detail detail;
    uint32_t failures; /* In a row. */
    ks_instant again_at;
};

void ks_credentials_wipe(struct ks_credentials *credentials)
{
    explicit_bzero(credentials, sizeof(*credentials));
}

/* --- What we have --- */

static bool usable(const struct ks_credentials_source *source)
{
    return source->present && !ks_instant_reached(ks_loop_now(source->loop), source->expires_at);
}

static ks_span shorter(ks_span a, ks_span b)
{
    return a.us < b.us ? a : b;
}

/* In Unix time, as monitoring wants it: an age would be old when it is read. */
static void count(const struct ks_credentials_source *source)
{
    const struct ks_credentials *current = &source->current;
    int64_t now_ms = ks_wall_now().ms;

    ks_metric_set_pair(KS_METRIC_AWS_CREDENTIALS_FETCHED, source->service, source->role, now_ms);
    if (current->expires)
        ks_metric_set_pair(KS_METRIC_AWS_CREDENTIALS_EXPIRY, source->service, source->role,
                           now_ms + ks_span_to_ms(current->life));
}

/* A state that lasts is said once. */
static void look_whether_new(struct ks_credentials_source *source, const char *access_key)
{
    bool same = strcmp(source->last, access_key) == 0;

    if (same && source->refused && !source->stuck)
        ks_warn("credentials: those that AWS does not take came again: renew them where they come "
                "from; the environment of a process stays as it is, start it again");
    source->stuck = same && source->refused;
    source->refused = source->stuck;
    (void)snprintf(source->last, sizeof(source->last), "%s", access_key);
}

/* Takes them, for ever at first. */
static void keep(struct ks_credentials_source *source, const struct ks_credentials *credentials)
{
    look_whether_new(source, credentials->access_key);
    source->current = *credentials;
    source->present = true;
    source->fetched_at = ks_loop_now(source->loop);
    source->expires_at = KS_NEVER;
    source->refresh_at = KS_NEVER;
    count(source);
}

ks_span ks_credentials_refresh_after(ks_span life, struct ks_prng *prng)
{
    ks_span jitter = shorter(ks_span_ms(JITTER_MS), ks_span_us(life.us / 8));
    ks_span early = ks_span_us(ks_prng_between(prng, 0, jitter.us));
    ks_span before = shorter(ks_span_ms(REFRESH_MS), ks_span_us(life.us / 2));

    return ks_span_us(life.us - before.us - early.us);
}

static void plan_refresh(struct ks_credentials_source *source)
{
    ks_span life = source->current.life;

    if (!source->current.outlasts)
        source->expires_at = ks_instant_add(source->fetched_at, life);
    source->refresh_at =
        ks_instant_add(source->fetched_at, ks_credentials_refresh_after(life, &source->prng));
}

/* They came dead, and are used all the same. */
static void stretch(struct ks_credentials_source *source)
{
    ks_span wait = ks_span_ms(ks_prng_between(&source->prng, STRETCH_LEAST_MS, STRETCH_MOST_MS));

    ks_warn("credentials: %s gives some that have expired already; they are used until AWS refuses "
            "them, asking again in %lld min",
            source->provider->vtable->name, (long long)(ks_span_to_ms(wait) / 60000));
    source->refresh_at = ks_instant_add(source->fetched_at, wait);
}

/* --- Fetching --- */

static void fetch(struct ks_credentials_source *source)
{
    if (source->fetching || !ks_instant_reached(ks_loop_now(source->loop), source->again_at))
        return;
    source->fetching = true;
    source->provider->vtable->fetch(source->provider);
}

static void answer_waiters(struct ks_credentials_source *source)
{
    struct ks_link told;
    bool good = usable(source);

    /* Who comes back for more while he is told waits for the next answer. */
    ks_link_init(&told);
    while (!ks_list_empty(&source->waiters)) {
        struct ks_link *link = source->waiters.next;
        ks_list_remove(link);
        ks_list_append(&told, link);
    }
    while (!ks_list_empty(&told)) {
        struct ks_credentials_waiter *waiter =
            KS_LIST_ENTRY(told.next, struct ks_credentials_waiter, link);
        ks_list_remove(&waiter->link);
        waiter->done(waiter, good ? KS_OK : source->err, good ? &source->current : NULL,
                     &source->detail);
    }
}

static void note_failure(struct ks_credentials_source *source, ks_err err,
                         const struct ks_detail *detail)
{
    uint32_t doublings = source->failures < 16 ? source->failures : 16;
    int64_t most = (int64_t)AGAIN_FIRST_MS << doublings;
    int64_t wait_ms = most < AGAIN_MOST_MS ? most : AGAIN_MOST_MS;

    wait_ms = ks_prng_between(&source->prng, wait_ms / 2, wait_ms);
    ks_metric_add_pair(KS_METRIC_AWS_CREDENTIALS_FAILURES, source->service, source->role, 1);
    source->err = err;
    source->detail = *detail;
    source->again_at = ks_instant_add(ks_loop_now(source->loop), ks_span_ms(wait_ms));
    /* A state that lasts is said once. */
    if (source->failures++ == 0)
        ks_warn("credentials: %s%s", detail->text[0] == '\0' ? ks_err_text(err) : detail->text,
                usable(source) ? "; the old ones go on until they expire" : "; asking again");
}

static void note_success(struct ks_credentials_source *source,
                         const struct ks_credentials *credentials)
{
    if (source->failures > 0)
        ks_info("credentials: fetched again after %u failures", source->failures);
    source->failures = 0;
    source->err = KS_OK;
    source->detail = (struct ks_detail){.text = ""};
    source->again_at = KS_LONG_AGO;
    keep(source, credentials);
    if (!credentials->expires)
        return;
    if (credentials->life.us > 0)
        plan_refresh(source);
    else
        stretch(source);
}

static void on_fetched(void *arg, struct ks_provider *provider)
{
    struct ks_credentials_source *source = arg;
    const struct ks_credentials *credentials = &provider->credentials;
    bool dead = credentials->expires && credentials->life.us <= 0 && !credentials->outlasts;
    struct ks_detail detail = provider->detail;

    source->fetching = false;
    if (ks_ok(provider->err) && dead)
        ks_detail_set(&detail, "the credentials that came have expired already");
    if (!ks_ok(provider->err) || dead)
        note_failure(source, dead ? KS_FAIL(SERVER) : provider->err, &detail);
    else
        note_success(source, credentials);
    answer_waiters(source);
}

/* Somebody waits, and no fetch is under way. */
static void on_kick(struct ks_timer *timer)
{
    struct ks_credentials_source *source = KS_LIST_ENTRY(timer, struct ks_credentials_source, kick);

    if (source->fetching || ks_list_empty(&source->waiters))
        return;
    if (!usable(source))
        fetch(source);
    if (!source->fetching)
        answer_waiters(source);
}

/* --- For callers --- */

const struct ks_credentials *ks_credentials_now(struct ks_credentials_source *source)
{
    if (!usable(source))
        return NULL;
    if (ks_instant_reached(ks_loop_now(source->loop), source->refresh_at))
        fetch(source);
    return &source->current;
}

void ks_credentials_wait(struct ks_credentials_source *source, struct ks_credentials_waiter *waiter)
{
    ks_link_init(&waiter->link);
    ks_list_append(&source->waiters, &waiter->link);
    if (!source->fetching)
        ks_loop_timer_set(source->loop, &source->kick, ks_loop_now(source->loop));
}

void ks_credentials_unwait(struct ks_credentials_waiter *waiter)
{
    ks_list_remove(&waiter->link);
}

void ks_credentials_expired(struct ks_credentials_source *source, const char *access_key)
{
    ks_instant old_at = ks_instant_add(source->fetched_at, ks_span_ms(YOUNG_MS));

    if (!source->present || strcmp(source->last, access_key) != 0)
        return;
    if (!ks_instant_reached(ks_loop_now(source->loop), old_at))
        return;
    if (!source->stuck)
        ks_warn("credentials: AWS does not take them any more, fetching new ones");
    source->refused = true;
    source->present = false;
    ks_credentials_wipe(&source->current);
}

ks_err ks_credentials_state(const struct ks_credentials_source *source,
                            struct ks_detail *ret_detail)
{
    *ret_detail = source->detail;
    return source->err;
}

/* --- Life --- */

static ks_err set_up(struct ks_credentials_source *source,
                     const struct ks_credentials_options *options,
                     struct ks_provider_setup *ret_setup)
{
    struct ks_provider_setup setup = {
        .loop = options->loop,
        .http = options->http,
        .prng = &source->prng,
        .sts = &source->sts,
        .profile = source->profile,
        .profile_only = options->profile != NULL && options->profile[0] != '\0',
    };

    if (options->sts != NULL)
        source->sts = *options->sts;
    else
        source->sts = (struct ks_endpoint_rules){.service = "sts", .region = "us-east-1"};
    source->service = options->service == NULL ? "all" : options->service;
    snprintf(source->role, sizeof(source->role), "none");
    KS_TRY(ks_profile_name(options->profile, source->profile, &setup.profile_named));
    *ret_setup = setup;
    return KS_OK;
}

/* The places, in the order of botocore. */
static ks_err make_chain(struct ks_credentials_source *source,
                         const struct ks_provider_setup *setup)
{
    typedef ks_err make(const struct ks_provider_setup *setup, struct ks_provider **ret_provider);
    static make *const PLACES[] = {ks_provider_environment_new, ks_provider_profile_new,
                                   ks_provider_container_new, ks_provider_imds_new};
    struct ks_provider *list[sizeof(PLACES) / sizeof(PLACES[0])];
    uint32_t count = 0;
    ks_err err = KS_OK;

    for (size_t at = 0; ks_ok(err) && at < sizeof(PLACES) / sizeof(PLACES[0]); at++) {
        if (setup->profile_only && PLACES[at] != ks_provider_profile_new)
            continue;
        err = PLACES[at](setup, &list[count]);
        count += ks_ok(err) ? 1 : 0;
    }
    if (ks_ok(err))
        return ks_provider_chain_new(setup->loop, list, count, &source->provider);
    while (count > 0) {
        count--;
        list[count]->vtable->close(list[count]);
    }
    return err;
}

/* An account has one role of a name, whatever its path is. */
static void name_role(struct ks_credentials_source *source, const char *role_arn)
{
    ks_view name = ks_view_text(role_arn);
    struct ks_arn arn;

    if (!ks_ok(ks_arn_split(name, &arn))) {
        snprintf(source->role, sizeof(source->role), "%s", role_arn);
        return;
    }
    while (arn.resource.data != NULL)
        name = ks_view_cut(&arn.resource, '/');
    snprintf(source->role, sizeof(source->role), "%.*s/%.*s", (int)arn.account.size,
             (const char *)arn.account.data, (int)name.size, (const char *)name.data);
}

static ks_err make_role(struct ks_credentials_source *source,
                        const struct ks_credentials_options *options,
                        const struct ks_provider_setup *setup)
{
    const char *session = ks_provider_variable("AWS_ROLE_SESSION_NAME");
    const char *external_id = options->external_id;
    struct ks_role role = {
        .arn = ks_view_text(options->role_arn),
        .session_name = session == NULL ? KS_VIEW_NONE : ks_view_text(session),
        .external_id = external_id == NULL ? KS_VIEW_NONE : ks_view_text(external_id),
    };
    struct ks_provider *base = NULL;

    name_role(source, options->role_arn);
    KS_TRY(ks_provider_shared_new(setup, options->base, &base));
    return ks_provider_assume_role_new(setup, base, &role, &source->provider);
}

static ks_err make_provider(struct ks_credentials_source *source,
                            const struct ks_credentials_options *options)
{
    struct ks_provider_setup setup;

    KS_TRY(set_up(source, options, &setup));
    return options->base != NULL ? make_role(source, options, &setup) : make_chain(source, &setup);
}

ks_err ks_credentials_source_new(const struct ks_credentials_options *options,
                                 struct ks_credentials_source **ret_source,
                                 struct ks_detail *detail)
{
    struct ks_credentials_source *source = ks_alloc(sizeof(*source));

    if (source == NULL)
        return KS_FAIL(NO_MEMORY);
    source->loop = options->loop;
    source->kick.due = on_kick;
    source->again_at = KS_LONG_AGO;
    ks_prng_init(&source->prng, options->seed);
    ks_link_init(&source->waiters);
    ks_err err = make_provider(source, options);
    if (!ks_ok(err)) {
        ks_detail_set(
            detail,
            "credentials: %s (a profile's name has at most %d characters, a role's ARN %d, "
            "an external id %d)",
            ks_err_text(err), KS_PROFILE_NAME_MAX, KS_ROLE_ARN_MAX, KS_EXTERNAL_ID_MAX);
        ks_free(source);
        return err;
    }
    source->provider->fetched = on_fetched;
    source->provider->arg = source;
    *ret_source = source;
    return KS_OK;
}

void ks_credentials_source_free(struct ks_credentials_source *source)
{
    if (source == NULL)
        return;
    while (!ks_list_empty(&source->waiters))
        ks_list_remove(source->waiters.next);
    ks_loop_timer_clear(source->loop, &source->kick);
    source->provider->vtable->close(source->provider);
    ks_credentials_wipe(&source->current);
    ks_free(source);
}
