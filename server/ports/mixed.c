/* SPDX-License-Identifier: Apache-2.0 */
#include "ports/mixed.h"

#include <assert.h>
#include <string.h>

enum {
    RENEWALS = 10, /* Before the longest of them says that all are short. */
    IN_A_ROW = 3,  /* A pause of one process is no configuration. */
    WINDOW = 2,    /* Of our leases: renewals in it are counted. */
    SECOND_MS = 1000
};

static enum ks_mixed_sign once(struct ks_mixed *mixed, enum ks_mixed_sign sign)
{
    if (mixed->told[sign])
        return KS_MIXED_NONE;
    mixed->told[sign] = true;
    return sign;
}

static int64_t left_ms(uint64_t rev, ks_wall wall)
{
    return (int64_t)(rev / 1000000) - wall.ms;
}

/* Whoever is dead is waited for until our clock is there. What is ahead of when the answer came was so all the time. A
 * lease is good for its length, and may be longer than ours: that of a client is its age. */
static enum ks_mixed_sign see_ahead(struct ks_mixed *mixed, const struct ks_mixed_lease *lease,
                                    ks_wall wall)
{
    const int64_t ours_ms = ks_span_to_ms(mixed->lease);
    const bool written = mixed->protocol == KS_PROTOCOL_KINSUMER;
    const int64_t most_ms = (written ? ours_ms / 10 : ours_ms + ours_ms / 4) + SECOND_MS;

    if (!lease->stands || left_ms(lease->rev, wall) <= most_ms ||
        (!written && lease->still.us <= mixed->lease.us))
        return KS_MIXED_NONE;
    return once(mixed, KS_MIXED_AHEAD);
}

/* The time that a renewal gives: more than was left of it when the answer came. What was left when we asked is less
 * than it, by what passed since the renewal: a third of our lease at most, unless looks are slow. */
static enum ks_mixed_sign see_time(struct ks_mixed *mixed, const struct ks_mixed_lease *lease,
                                   ks_wall wall)
{
    const int64_t ours_ms = ks_span_to_ms(mixed->lease);
    const int64_t least_ms = left_ms(lease->rev, wall);
    const int64_t most_ms = least_ms + ks_span_to_ms(mixed->took);

    /* Whole seconds, and clocks that are not quite the same. */
    if (least_ms > ours_ms + ours_ms / 4 + SECOND_MS)
        return once(mixed, KS_MIXED_LONGER);
    if (most_ms > mixed->most_ms)
        mixed->most_ms = most_ms;
    if (lease->since.us > mixed->lease.us / 2)
        return KS_MIXED_NONE;
    mixed->seen++;
    if (mixed->seen >= RENEWALS && mixed->most_ms < ours_ms / 2)
        return once(mixed, KS_MIXED_SHORTER);
    return KS_MIXED_NONE;
}

static enum ks_mixed_sign in_a_row(struct ks_mixed *mixed, bool longer)
{
    mixed->longer = longer ? mixed->longer + 1 : 0;
    return mixed->longer >= IN_A_ROW ? once(mixed, KS_MIXED_LONGER) : KS_MIXED_NONE;
}

/* Of whoever heeds claims, no renewal goes over one; a checkpoint of theirs does, and may say what it said before. */
static enum ks_mixed_sign see_claim(struct ks_mixed *mixed, const struct ks_mixed_lease *lease)
{
    if (lease->claimed && !mixed->stealing)
        return once(mixed, KS_MIXED_CLAIMS);
    mixed->unheeded = lease->heeded ? 0 : mixed->unheeded + lease->unheeded;
    return mixed->unheeded >= IN_A_ROW ? once(mixed, KS_MIXED_UNHEEDED) : KS_MIXED_NONE;
}

/* Each renewal moves the counter by one, whether we look or not; so does a checkpoint, but a row that is checkpointed
 * is not counted. Whoever is as we are renews three times in a lease. */
static enum ks_mixed_sign see_counter(struct ks_mixed *mixed, const struct ks_mixed_lease *lease)
{
    const bool watched = mixed->counting && lease->shard == mixed->shard;
    const int64_t passed_us = ks_instant_since(lease->at, mixed->from_at).us; /* At most. */
    bool often;

    if (mixed->counting && !watched &&
        ks_instant_since(lease->at, mixed->last_at).us < 2 * WINDOW * mixed->lease.us)
        return KS_MIXED_NONE;
    mixed->last_at = lease->at;
    if (watched && lease->idle && passed_us < WINDOW * mixed->lease.us)
        return KS_MIXED_NONE;
    often = watched && lease->idle && lease->rev > mixed->from &&
            lease->rev - mixed->from > (uint64_t)(15 * passed_us / (2 * mixed->lease.us));
    mixed->counting = lease->idle;
    mixed->shard = lease->shard;
    mixed->from = lease->rev;
    mixed->from_at = ks_instant_add(lease->at, ks_span_us(-mixed->took.us));
    if (!watched || !lease->idle)
        return KS_MIXED_NONE;
    mixed->shorter = often ? mixed->shorter + 1 : 0;
    return mixed->shorter >= IN_A_ROW ? once(mixed, KS_MIXED_SHORTER) : KS_MIXED_NONE;
}

static enum ks_mixed_sign see_kcl(struct ks_mixed *mixed, const struct ks_mixed_lease *lease)
{
    enum ks_mixed_sign sign = see_counter(mixed, lease);

    if (sign == KS_MIXED_NONE && lease->elsewhere)
        sign = once(mixed, KS_MIXED_ELSEWHERE);
    /* They renew three times in theirs: who is as we are stands still for two thirds of ours, between looks. */
    if (sign == KS_MIXED_NONE && lease->renewed && lease->still.us > mixed->lease.us / 10 * 9)
        sign = in_a_row(mixed, true);
    return sign;
}

enum ks_mixed_sign ks_mixed_see_lease(struct ks_mixed *mixed, const struct ks_mixed_lease *lease,
                                      ks_wall wall)
{
    enum ks_mixed_sign sign = KS_MIXED_NONE;

    switch (mixed->protocol) {
    case KS_PROTOCOL_GO_KCL:
    case KS_PROTOCOL_KCL_RB:
        sign = see_claim(mixed, lease);
        if (sign == KS_MIXED_NONE && lease->renewed)
            sign = see_time(mixed, lease, wall);
        return sign == KS_MIXED_NONE ? see_ahead(mixed, lease, wall) : sign;
    case KS_PROTOCOL_KCL: return see_kcl(mixed, lease);
    case KS_PROTOCOL_KINSUMER: return see_ahead(mixed, lease, wall);
    case KS_PROTOCOL_NATIVE: break;
    }
    return sign;
}

/* Of one look only we may have slept, since we asked. */
static enum ks_mixed_sign see_beat(struct ks_mixed *mixed, uint64_t beat, ks_instant at,
                                   ks_wall wall)
{
    const ks_span gap = ks_instant_since(at, mixed->ahead_at);

    if (left_ms(beat, wall) <= ks_span_to_ms(mixed->lease) / 10 + SECOND_MS)
        return KS_MIXED_NONE;
    if (gap.us != 0)
        mixed->ahead = gap.us > mixed->check.us / 2 * 3 ? 1 : mixed->ahead + 1;
    mixed->ahead_at = at;
    return mixed->ahead >= IN_A_ROW ? once(mixed, KS_MIXED_AHEAD) : KS_MIXED_NONE;
}

/* Each writes down when it beats: of two that follow, the difference is its period, where we missed none. We look no
 * oftener than we beat ourselves: a shorter period is not to be seen. */
enum ks_mixed_sign ks_mixed_see_worker(struct ks_mixed *mixed, const char *id, uint64_t beat,
                                       ks_instant at, ks_wall wall)
{
    const uint64_t before = mixed->beat;
    enum ks_mixed_sign sign;
    ks_span gap;

    if (mixed->protocol != KS_PROTOCOL_KINSUMER || strlen(id) > KS_WORKER_ID_MAX)
        return KS_MIXED_NONE;
    sign = see_beat(mixed, beat, at, wall);
    if (sign != KS_MIXED_NONE)
        return sign;
    if (mixed->worker[0] == '\0')
        memcpy(mixed->worker, id, strlen(id) + 1);
    if (strcmp(mixed->worker, id) != 0)
        return KS_MIXED_NONE;
    gap = ks_instant_since(at, mixed->last_at);
    mixed->last_at = at;
    if (beat <= before && gap.us <= mixed->check.us / 2 * 3)
        return KS_MIXED_NONE;
    mixed->beat = beat;
    if (before == 0 || gap.us > mixed->check.us / 2 * 3)
        return KS_MIXED_NONE;
    return in_a_row(mixed, (int64_t)((beat - before) / 1000) > mixed->check.us / 2 * 5);
}

const char *ks_mixed_advice(enum ks_mixed_sign sign, enum ks_protocol protocol)
{
    switch (sign) {
    case KS_MIXED_NONE: break;
    case KS_MIXED_CLAIMS:
        return "members claim leases (EnableLeaseStealing) and this sidecar does not: give it "
               "--lease-stealing on, or it will have few leases";
    case KS_MIXED_UNHEEDED:
        return "this sidecar claims leases (--lease-stealing on) and members renew them all the "
               "same: where their EnableLeaseStealing is off, give it --lease-stealing off";
    case KS_MIXED_ELSEWHERE:
        return "nobody began this lease, and its row names another start than --initial-position: "
               "the row counts; where no lease was reset, give it the fleet's initial position";
    case KS_MIXED_AHEAD:
        if (protocol == KS_PROTOCOL_KINSUMER)
            return "the time that it says is ahead of our clock: set the clocks of the fleet; what "
                   "a client left so stays its own until then, if it is dead: leases seize --force";
        return "its time is over much later than --lease-duration-ms from now, by our clock: set "
               "the clocks of the fleet; if its owner is dead nobody takes it before: leases seize "
               "--force";
    case KS_MIXED_LONGER:
        if (protocol == KS_PROTOCOL_KINSUMER)
            return "clients beat much seldomer than --shard-check-ms: give it their "
                   "shardCheckFrequency, or live ones will be taken for dead";
        return "members renew their leases as if they lasted much longer than --lease-duration-ms: "
               "give it their time to fail over, or live leases will be taken, and records come "
               "twice";
    case KS_MIXED_SHORTER:
        return "members renew their leases as if they lasted much shorter than "
               "--lease-duration-ms: "
               "give it their time to fail over, so that dead ones' leases do not wait";
    }
    assert(sign == KS_MIXED_NONE);
    return "";
}
