/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/kinesis/pace.h"

#include <assert.h>

/* Calls that are so far apart need no other rule. */
enum { WINDOW_PART_MS = KS_PACE_WINDOW_MS / KS_PACE_CALLS };

void ks_pace_init(struct ks_pace *pace, uint64_t seed, int32_t idle_ms)
{
    assert(idle_ms >= KS_PACE_TIP_MS_MIN);
    *pace = (struct ks_pace){.paid_at = KS_LONG_AGO,
                             .wanted_at = KS_LONG_AGO,
                             .tip_ms = KS_PACE_TIP_MS_MIN,
                             .idle_ms = idle_ms};
    ks_back_off_init(&pace->back_off, seed);
    for (uint32_t at = 0; at < KS_PACE_CALLS; at++)
        pace->sent[at] = KS_LONG_AGO;
}

ks_instant ks_pace_next(const struct ks_pace *pace)
{
    ks_instant last = pace->sent[(pace->oldest + KS_PACE_CALLS - 1) % KS_PACE_CALLS];
    ks_instant ours = ks_instant_add(last, ks_span_ms(pace->apart_ms));
    ks_instant allowed = ks_instant_add(pace->sent[pace->oldest], ks_span_ms(KS_PACE_WINDOW_MS));

    allowed = ks_instant_max(allowed, ours);
    return ks_instant_max(allowed, ks_instant_max(pace->paid_at, pace->wanted_at));
}

void ks_pace_sent(struct ks_pace *pace, ks_instant now)
{
    pace->sent[pace->oldest] = now;
    pace->oldest = (pace->oldest + 1) % KS_PACE_CALLS;
}

/* How long to wait at the tip. */
static int32_t rest_ms(struct ks_pace *pace, uint32_t count)
{
    int32_t rest = pace->tip_ms;

    if (count > 0)
        rest = KS_PACE_TIP_MS_MIN;
    pace->tip_ms = rest >= pace->idle_ms / 2 ? pace->idle_ms : rest * 2;
    return rest;
}

static void pay(struct ks_pace *pace, ks_instant now, uint64_t bytes)
{
    /* An answer is bounded far below this; then it fits in microseconds. */
    assert(bytes < UINT64_C(1) << 40);
    int64_t cost_us = (int64_t)(bytes * 1000000 / KS_PACE_BYTES_PER_S);

    pace->paid_at = ks_instant_add(ks_instant_max(pace->paid_at, now), ks_span_us(cost_us));
}

/* By chance, for who comes back at the same moment of every second may find it taken every time. */
static void keep_apart(struct ks_pace *pace, int32_t share_ms)
{
    pace->share_ms = share_ms <= WINDOW_PART_MS ? 0 : share_ms;
    pace->apart_ms =
        (int32_t)ks_prng_between(&pace->back_off.prng, pace->share_ms / 2, pace->share_ms);
}

void ks_pace_answered(struct ks_pace *pace, ks_instant now, uint32_t count, uint64_t bytes,
                      int64_t millis_behind)
{
    ks_back_off_end(&pace->back_off);
    keep_apart(pace, pace->share_ms - pace->share_ms / KS_PACE_SHARE_LESS);
    pay(pace, now, bytes);
    if (millis_behind > 0) {
        pace->tip_ms = KS_PACE_TIP_MS_MIN;
        pace->wanted_at = now;
        return;
    }
    pace->wanted_at = ks_instant_add(now, ks_span_ms(rest_ms(pace, count)));
}

void ks_pace_wasted(struct ks_pace *pace, ks_instant now, uint64_t bytes)
{
    pay(pace, now, bytes);
}

static void back_off(struct ks_pace *pace, ks_instant now, int32_t first_ms, int32_t most_ms)
{
    pace->wanted_at = ks_instant_add(now, ks_back_off_wait(&pace->back_off, first_ms, most_ms));
}

void ks_pace_throttled(struct ks_pace *pace, ks_instant now, int32_t asked_ms)
{
    int32_t share_ms = pace->share_ms + pace->share_ms / 2;
    int32_t wait_ms = asked_ms < KS_PACE_ASKED_MS_MAX ? asked_ms : KS_PACE_ASKED_MS_MAX;

    if (share_ms < KS_PACE_SHARE_MS_MIN)
        share_ms = KS_PACE_SHARE_MS_MIN;
    keep_apart(pace, share_ms < KS_PACE_SHARE_MS_MAX ? share_ms : KS_PACE_SHARE_MS_MAX);
    back_off(pace, now, KS_PACE_THROTTLED_MS_MIN, KS_PACE_THROTTLED_MS_MAX);
    if (asked_ms > 0)
        pace->wanted_at = ks_instant_max(pace->wanted_at, ks_instant_add(now, ks_span_ms(wait_ms)));
}

void ks_pace_failed(struct ks_pace *pace, ks_instant now)
{
    back_off(pace, now, KS_PACE_FAILED_MS_MIN, KS_PACE_FAILED_MS_MAX);
}
