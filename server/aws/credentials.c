/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/credentials.h"

#include "aws/credentials/provider.h"
#include "aws/profile.h"
#include "base/budget.h"
#include "base/log.h"
#include "base/prng.h"

#include <assert.h>
#include <string.h>

/* Before their end: see credentials.h. */
enum { ADVISORY_MS = 15 * 60 * 1000, MANDATORY_MS = 10 * 60 * 1000, JITTER_MS = 60 * 1000 };
/* After a failed fetch: doubled from one to the other. */
enum { AGAIN_FIRST_MS = 1000, AGAIN_MOST_MS = 60 * 1000 };
/* Credentials this young are not dropped because AWS calls them expired: new ones would be the
 * same. */
enum { YOUNG_MS = 5000 };

struct ks_credentials_source {
    struct ks_loop *loop;
    struct ks_prng prng;
    struct ks_provider *provider;
    struct ks_timer kick; /* Answers those who wait, in a later turn. */
    struct ks_link waiters;
    bool fetching;

    struct ks_credentials current;
    bool present;
    ks_instant fetched_at;
    ks_instant advisory_at;
    ks_instant mandatory_at;
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

static void keep(struct ks_credentials_source *source, const struct ks_credentials *credentials)
{
    ks_instant now = ks_loop_now(source->loop);
    ks_span life = credentials->life;

    source->current = *credentials;
    source->present = true;
    source->fetched_at = now;
    source->expires_at = KS_NEVER;
    source->advisory_at = KS_NEVER;
    source->mandatory_at = KS_NEVER;
    if (!credentials->expires)
        return;

    ks_span jitter = shorter(ks_span_ms(JITTER_MS), ks_span_us(life.us / 8));
    ks_span early = ks_span_us(ks_prng_between(&source->prng, 0, jitter.us));
    ks_span advisory = shorter(ks_span_ms(ADVISORY_MS), ks_span_us(life.us / 2));
    ks_span mandatory = shorter(ks_span_ms(MANDATORY_MS), ks_span_us(life.us / 4));
    source->expires_at = ks_instant_add(now, life);
    source->advisory_at = ks_instant_add(now, ks_span_us(life.us - advisory.us - early.us));
    source->mandatory_at = ks_instant_add(now, ks_span_us(life.us - mandatory.us - early.us));
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
    source->err = err;
    source->detail = *detail;
    source->again_at = ks_instant_add(ks_loop_now(source->loop), ks_span_ms(wait_ms));
    /* A state that lasts is said once. */
    if (source->failures++ == 0)
        ks_warn("credentials: %s%s", detail->text[0] == '\0' ? ks_err_text(err) : detail->text,
                usable(source) ? "; the old ones go on until they expire" : "; asking again");
}

static void on_fetched(void *arg, struct ks_provider *provider)
{
    struct ks_credentials_source *source = arg;
    struct ks_credentials *credentials = &provider->credentials;
    struct ks_detail dead = {.text = ""};

    source->fetching = false;
    if (!ks_ok(provider->err)) {
        note_failure(source, provider->err, &provider->detail);
    } else if (credentials->expires && credentials->life.us <= 0) {
        ks_detail_set(&dead, "the credentials that came have expired already");
        note_failure(source, KS_FAIL(SERVER), &dead);
    } else {
        if (source->failures > 0)
            ks_info("credentials: fetched again after %u failures", source->failures);
        source->failures = 0;
        source->err = KS_OK;
        source->detail = (struct ks_detail){.text = ""};
        source->again_at = KS_LONG_AGO;
        keep(source, credentials);
    }
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
    ks_instant now = ks_loop_now(source->loop);

    if (!usable(source))
        return NULL;
    if (ks_instant_reached(now, source->advisory_at))
        fetch(source);
    /* Close to the end the new ones are waited for; but where a refresh has failed before, the old
     * ones must do: leases are renewed with them. */
    if (ks_instant_reached(now, source->mandatory_at) && source->fetching && source->failures == 0)
        return NULL;
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

void ks_credentials_expired(struct ks_credentials_source *source)
{
    ks_instant old_at = ks_instant_add(source->fetched_at, ks_span_ms(YOUNG_MS));

    if (!source->present || !ks_instant_reached(ks_loop_now(source->loop), old_at))
        return;
    ks_warn("credentials: AWS calls them expired, fetching new ones");
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

/* The places, in the order of botocore. */
enum place { ENVIRONMENT, ROLES, WEB_IDENTITY, KEYS, CONTAINER };
enum { PLACES = CONTAINER + 1 };

static ks_err make_provider(const struct ks_credentials_options *options, enum place place,
                            struct ks_provider **ret_provider)
{
    char name[KS_PROFILE_NAME_MAX + 1];
    bool named = false;
    struct ks_loop *loop = options->loop;

    KS_TRY(ks_profile_name(options->profile, name, &named));
    switch (place) {
    case ENVIRONMENT: return ks_provider_environment_new(loop, ret_provider);
    case ROLES:
    case KEYS: return ks_provider_profile_new(loop, name, named, place == ROLES, ret_provider);
    case WEB_IDENTITY:
        return ks_provider_web_identity_new(loop, options->http, options->sts_region, ret_provider);
    case CONTAINER: return ks_provider_container_new(loop, options->http, ret_provider);
    }
    assert(false);
    return KS_FAIL(INVALID);
}

static ks_err make_chain(struct ks_credentials_source *source,
                         const struct ks_credentials_options *options)
{
    bool profile_only = options->profile != NULL && options->profile[0] != '\0';
    struct ks_provider *list[PLACES];
    uint32_t count = 0;
    ks_err err = KS_OK;

    for (int place = 0; ks_ok(err) && place < PLACES; place++) {
        if (profile_only && place != ROLES && place != KEYS)
            continue;
        err = make_provider(options, (enum place)place, &list[count]);
        count += ks_ok(err) ? 1 : 0;
    }
    if (ks_ok(err))
        return ks_provider_chain_new(options->loop, list, count, &source->provider);
    while (count > 0) {
        count--;
        list[count]->vtable->close(list[count]);
    }
    return err;
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
    ks_err err = make_chain(source, options);
    if (!ks_ok(err)) {
        ks_detail_set(detail, "credentials: %s (the name of the profile has at most %d characters)",
                      ks_err_text(err), KS_PROFILE_NAME_MAX);
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
