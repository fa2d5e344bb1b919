/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/kinesis/health.h"

static void end(struct ks_failing *failing)
{
    failing->since = KS_NEVER;
}

static bool is_failing(const struct ks_failing *failing)
{
    return failing->since.us != KS_NEVER.us;
}

void ks_health_init(struct ks_health *health)
{
    *health = (struct ks_health){.state = KS_STORE_OPENING};
    end(&health->reads);
    end(&health->questions);
}

/* What an answer by itself says. */
static enum ks_store_state judge(enum ks_store_state state, ks_err err)
{
    switch (ks_err_class(err)) {
    case KS_CLASS_OK:
    case KS_CLASS_REREAD: return KS_STORE_READY;
    case KS_CLASS_SHED: break; /* Our own memory; says nothing about the stream. */
    case KS_CLASS_RETRY:
        /* Whoever asks for less is there. */
        return ks_err_is(err, KS_ERR_THROTTLED) ? KS_STORE_READY : KS_STORE_AWAY;
    case KS_CLASS_REPORT: return KS_STORE_UNUSABLE;
    }
    return state;
}

static bool is_fresh(const struct ks_failing *failing, ks_instant now)
{
    ks_instant stale = ks_instant_add(failing->last, ks_span_ms(KS_HEALTH_FRESH_MS));

    return is_failing(failing) && !ks_instant_reached(now, stale);
}

/* One more. */
static void fail(struct ks_health *health, struct ks_failing *failing, ks_instant now)
{
    if (!is_fresh(failing, now))
        failing->since = now;
    failing->last = now;
    if (health->state != KS_STORE_READY ||
        ks_instant_reached(now, ks_instant_add(failing->since, ks_span_ms(KS_HEALTH_AWAY_MS))))
        health->state = KS_STORE_AWAY;
}

void ks_health_read(struct ks_health *health, ks_instant now, ks_err err)
{
    enum ks_store_state said = judge(health->state, err);

    if (ks_err_class(err) == KS_CLASS_SHED)
        return;
    health->refused = said == KS_STORE_UNUSABLE;
    if (said == KS_STORE_AWAY) {
        fail(health, &health->reads, now);
        return;
    }
    health->state = said;
    if (said != KS_STORE_READY)
        return;
    end(&health->reads);
    end(&health->questions);
}

void ks_health_asked(struct ks_health *health, ks_instant now, ks_err err)
{
    enum ks_store_state said = judge(health->state, err);

    if (ks_err_class(err) == KS_CLASS_SHED)
        return;
    if (said == KS_STORE_AWAY) {
        fail(health, &health->questions, now);
        return;
    }
    if (said == KS_STORE_READY)
        end(&health->questions);
    if (said == KS_STORE_UNUSABLE || (!health->refused && !is_fresh(&health->reads, now)))
        health->state = said;
}

void ks_health_unread(struct ks_health *health)
{
    health->refused = false;
    end(&health->reads);
}

bool ks_health_doubted(const struct ks_health *health)
{
    bool failing = is_failing(&health->reads) || is_failing(&health->questions);

    if (health->refused || health->state == KS_STORE_OPENING)
        return false;
    return failing || health->state != KS_STORE_READY;
}
