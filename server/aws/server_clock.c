/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/server_clock.h"

#include "aws/head.h"

enum {
    SECOND_MS = 1000, /* A Date has whole seconds. */
    SPREAD_MS = 100,  /* Between the clocks of the hosts of one service. */
    DRIFT_PART = 1000 /* The part of an elapsed time by which the steady clock may be fast. */
};

/* The bound at `now`, SPREAD_MS not yet taken off. */
static int64_t bound_at(const struct ks_server_clock *clock, ks_instant now)
{
    int64_t elapsed_ms = ks_span_to_ms(ks_instant_since(now, clock->at));

    if (elapsed_ms < 0)
        elapsed_ms = 0;
    return clock->least_ms + elapsed_ms - elapsed_ms / DRIFT_PART;
}

bool ks_server_clock_hear(struct ks_server_clock *clock, ks_view head, ks_instant asked_at,
                          ks_instant now)
{
    int64_t took_ms = ks_span_to_ms(ks_instant_since(now, asked_at));
    int64_t date_ms = 0;
    int64_t bound_ms;

    if (ks_head_find(head, "Age").data != NULL ||
        !ks_ok(ks_head_date(ks_head_find(head, "Date"), &date_ms)) || !ks_head_is_present(date_ms))
        return false;
    bound_ms = clock->known ? bound_at(clock, now) : date_ms;
    /* The earlier bound is the better one if it fits this Date. Where it is later than this answer allows, either
     * clock was set: the answer counts. */
    if (bound_ms < date_ms || bound_ms > date_ms + SECOND_MS + SPREAD_MS + took_ms)
        bound_ms = date_ms;
    *clock = (struct ks_server_clock){.known = true, .least_ms = bound_ms, .at = now};
    return true;
}

int64_t ks_server_clock_now(const struct ks_server_clock *clock, ks_instant now)
{
    int64_t bound_ms = clock->known ? bound_at(clock, now) - SPREAD_MS : 0;

    return bound_ms > 0 ? bound_ms : 0;
}
